// SPDX-License-Identifier: Apache-2.0
/* Hostile clients: they write spoilt frames to a broker and a name server as fast as these take them, and see that they are still served.
 *
 *   hostile --corpus FILE --broker-port P --namesrv-port Q [--frames N] [--seconds S] [--seed X] [--connections 300] [--slow 40]
 *
 * The corpus is a run of: u8 target (0 broker, 1 name server), u8 breaks (1: the connection may end over it), u8 fixed (1: no byte of it
 * is to be changed), u32 length (big-endian), frame. hostile_frames.py writes it.
 *
 * Each connection writes bursts: some frames out of the corpus, now and then with random bytes changed, then one honest request, and waits
 * for the answer to that. So all frames of a burst were looked at when it is over. A frame that may end the connection is the last of its
 * burst; then the end of the connection is as good as the answer. Other bursts are noise, lies about lengths, a connect without a word,
 * half a frame and a reset. One burst in ten goes out in pieces of a few bytes. The slow connections write a frame one byte at a time.
 *
 * An honest request that is not answered within SILENCE_MS on a connection that stays open is a failure ("mute"). One JSON line of counts
 * about each second, and one at the end.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CONNECTIONS = 512, MAX_FRAMES = 1 << 20, BURST_MAX = 40, SILENCE_MS = 30000, READ_BYTES = 1 << 18, SLOW_LIFE_MS = 20000 };
enum { GET_MIN_OFFSET = 31, GET_ROUTE = 105, SENTINEL_BASE = 2000000000, SENTINELS = 100000000 };

static struct {
    const char *corpus;
    int ports[2], connections, slow;
    long frames;
    double seconds;
    uint64_t seed;
} options = {NULL, {0, 0}, 300, 40, 100000, 60.0, 1};

struct entry {
    const uint8_t *frame;
    uint32_t length;
    uint8_t breaks, fixed;
};

struct connection {
    int fd, target, is_slow, drips, awaits_end, slow_at;
    uint64_t since_ms;
    uint8_t *out;
    size_t length, sent, room;
    long frames; /* in this burst */
    char wanted[24];
    char tail[24]; /* the end of what was read before, in case the answer's number is cut */
    size_t tail_length;
};

static struct entry *entries[2];
static long entry_counts[2];
static struct connection connections[MAX_CONNECTIONS];
static long frames_done, bursts, closed_by_peer, connects, changed, noises, lies, resets, answered, sentinel_number, refused, mute;
static uint64_t bytes_out, bytes_in, state;
static char read_buffer[READ_BYTES + 32];

static void die(const char *form, ...) {
    va_list args;
    va_start(args, form);
    fputs("hostile: ", stderr);
    vfprintf(stderr, form, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t dice(uint64_t below) { /* xorshift64* */
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return ((state * 2685821657736338717ULL) >> 16) % below;
}

static uint32_t get_u32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put_u32(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void load_corpus(void) {
    FILE *file = fopen(options.corpus, "rb");
    if (!file) die("cannot read %s: %s", options.corpus, strerror(errno));
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    uint8_t *bytes = malloc((size_t)size + 1);
    if (!bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size) die("cannot read %s in full", options.corpus);
    fclose(file);
    for (int target = 0; target < 2; target++) entries[target] = calloc(MAX_FRAMES, sizeof(struct entry));
    for (long at = 0; at + 7 <= size;) {
        int target = bytes[at] & 1;
        struct entry *entry = &entries[target][entry_counts[target]++];
        if (entry_counts[target] >= MAX_FRAMES) die("the corpus has more than %d frames", MAX_FRAMES);
        *entry = (struct entry){bytes + at + 7, get_u32(bytes + at + 3), bytes[at + 1], bytes[at + 2]};
        at += 7 + (long)entry->length;
        if (at > size) die("the corpus ends within a frame");
    }
    if (!entry_counts[0] || !entry_counts[1]) die("the corpus needs frames for both servers");
}

/* ---- what is written ---- */

static uint8_t *room_for(struct connection *c, size_t more) {
    if (c->length + more > c->room) {
        c->room = 2 * (c->length + more);
        c->out = realloc(c->out, c->room);
        if (!c->out) die("out of memory");
    }
    uint8_t *at = c->out + c->length;
    c->length += more;
    return at;
}

static void add_sentinel(struct connection *c) {
    char header[256];
    long number = SENTINEL_BASE + (sentinel_number++ % SENTINELS);
    int code = c->target ? GET_ROUTE : GET_MIN_OFFSET;
    int size = snprintf(header, sizeof header,
                        "{\"code\":%d,\"extFields\":{\"topic\":\"honest\",\"queueId\":\"0\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%ld,"
                        "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":409}",
                        code, number);
    uint8_t *at = room_for(c, (size_t)size + 8);
    put_u32(at, (uint32_t)size + 4);
    put_u32(at + 4, (uint32_t)size);
    memcpy(at + 8, header, (size_t)size);
    snprintf(c->wanted, sizeof c->wanted, "\"opaque\":%ld", number);
}

/* One frame out of the corpus; 1 if the connection may end over it. */
static int add_frame(struct connection *c) {
    struct entry *entry = &entries[c->target][dice((uint64_t)entry_counts[c->target])];
    uint8_t *at = room_for(c, entry->length);
    memcpy(at, entry->frame, entry->length);
    c->frames++;
    if (entry->fixed || entry->length <= 8 || dice(100) >= 2) return entry->breaks;
    for (uint64_t n = 1 + dice(3); n > 0; n--) at[4 + dice(entry->length - 4)] = (uint8_t)dice(256);
    changed++;
    return 1;
}

static void add_noise(struct connection *c) {
    size_t size = 1 + dice(2000);
    uint8_t *at = room_for(c, size);
    for (size_t i = 0; i < size; i++) at[i] = (uint8_t)dice(256);
    c->frames++;
    noises++;
}

static void add_lie(struct connection *c) { /* a true frame whose length is another */
    static const uint32_t lengths[] = {0, 1, 3, 4, 5, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 16777213, 16777212, 1 << 20, 100, 8};
    size_t at = c->length;
    add_frame(c);
    put_u32(c->out + at, lengths[dice(sizeof lengths / sizeof *lengths)]);
    lies++;
}

/* Fill the buffer for the next burst. awaits_end: 0 the sentinel must be answered, 1 answer or end, 2 close it after writing. */
static void build_burst(struct connection *c) {
    c->length = c->sent = 0;
    c->frames = 0;
    c->awaits_end = 0;
    c->wanted[0] = 0;
    c->tail_length = 0;
    c->drips = dice(10) == 0;
    c->since_ms = now_ms();
    bursts++;
    uint64_t kind = dice(1000);
    if (kind < 4) add_noise(c), c->awaits_end = 2;
    else if (kind < 8) add_lie(c), c->awaits_end = 2;
    else if (kind < 12) { /* half a frame, then gone */
        add_frame(c);
        c->length = 1 + dice(c->length);
        c->awaits_end = 2;
    } else {
        int breaks = 0;
        for (uint64_t n = 1 + dice(BURST_MAX); n > 0 && !breaks; n--) breaks = add_frame(c);
        c->awaits_end = breaks;
        add_sentinel(c);
    }
    if (c->length > 65536) c->drips = 0;
}

/* ---- connections ---- */

static void drop(struct connection *c, int hard) {
    if (c->fd >= 0) {
        if (hard) {
            struct linger now = {1, 0};
            setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
            resets++;
        }
        close(c->fd);
    }
    c->fd = -1;
}

static void start_connection(struct connection *c) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options.ports[c->target])};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) die("no socket: %s", strerror(errno));
    int on = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS) {
        if (++refused > 1000) die("the server does not take connections any more: %s", strerror(errno));
        drop(c, 0);
        return;
    }
    connects++;
    if (c->is_slow) {
        c->length = c->sent = 0;
        c->frames = 0;
        c->since_ms = now_ms();
        c->slow_at = 0;
        c->wanted[0] = 0;
        c->awaits_end = 1;
        add_frame(c);
        put_u32(c->out, (uint32_t)(c->length + dice(1 << 20)));
    } else {
        build_burst(c);
    }
}

static void end_burst(struct connection *c) {
    frames_done += c->frames;
    c->frames = 0;
}

static void ended(struct connection *c) {
    closed_by_peer++;
    if (!c->is_slow && !c->awaits_end && c->sent == c->length) { /* nothing in it may cost a connection */
        static int told;
        if (told++ < 5) fprintf(stderr, "hostile: a connection was closed over frames of which none is a reason\n");
        mute++;
    }
    end_burst(c);
    drop(c, 0);
}

static int write_some(struct connection *c) { /* 0: the connection is gone */
    while (c->sent < c->length) {
        size_t size = c->length - c->sent;
        if (c->is_slow) size = 1;
        else if (c->drips && size > 1) {
            size_t piece = 1 + dice(400);
            if (piece < size) size = piece;
        }
        ssize_t n = send(c->fd, c->out + c->sent, size, MSG_NOSIGNAL);
        if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == EINPROGRESS || errno == ENOTCONN;
        c->sent += (size_t)n;
        bytes_out += (uint64_t)n;
        if (c->is_slow || c->drips) return 1; /* the rest in the next round */
    }
    return 1;
}

/* 1: the awaited answer is here; 0: not yet; -1: the connection is gone. */
static int read_some(struct connection *c) {
    for (;;) {
        memcpy(read_buffer, c->tail, c->tail_length);
        ssize_t n = recv(c->fd, read_buffer + c->tail_length, READ_BYTES, 0);
        if (n == 0) return -1;
        if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
        bytes_in += (uint64_t)n;
        size_t length = c->tail_length + (size_t)n, wanted = strlen(c->wanted);
        if (wanted && memmem(read_buffer, length, c->wanted, wanted)) {
            answered++;
            return 1;
        }
        c->tail_length = length < wanted ? length : wanted;
        memcpy(c->tail, read_buffer + length - c->tail_length, c->tail_length);
    }
}

static void serve(struct connection *c, short events) {
    if (events & (POLLIN | POLLERR | POLLHUP)) {
        int seen = read_some(c);
        if (seen < 0) {
            ended(c);
            return;
        }
        if (seen > 0) {
            end_burst(c);
            if (dice(200) == 0) drop(c, dice(2) == 0);
            else build_burst(c);
            return;
        }
    }
    if (events & POLLOUT && c->sent < c->length && !write_some(c)) {
        ended(c);
        return;
    }
    if (c->awaits_end == 2 && c->sent == c->length) {
        end_burst(c);
        drop(c, dice(2) == 0);
    }
}

static void look_at_the_clock(struct connection *c, uint64_t now) {
    if (c->fd < 0) return;
    if (c->is_slow) {
        if (now > c->since_ms + SLOW_LIFE_MS) end_burst(c), drop(c, 1);
    } else if (now > c->since_ms + SILENCE_MS) {
        mute++;
        fprintf(stderr, "hostile: an honest request was not answered for %d ms: %s, %zu of %zu bytes written\n", SILENCE_MS, c->wanted, c->sent, c->length);
        end_burst(c);
        drop(c, 1);
    }
}

static void report(double seconds) {
    printf("{\"frames\":%ld,\"seconds\":%.1f,\"bursts\":%ld,\"honest_answers\":%ld,\"connects\":%ld,\"closed_by_server\":%ld,\"changed\":%ld,"
           "\"noise\":%ld,\"lies\":%ld,\"resets\":%ld,\"refused\":%ld,\"mute\":%ld,\"bytes_out\":%llu,\"bytes_in\":%llu}\n",
           frames_done, seconds, bursts, answered, connects, closed_by_peer, changed, noises, lies, resets, refused, mute,
           (unsigned long long)bytes_out, (unsigned long long)bytes_in);
    fflush(stdout);
}

static void run(void) {
    struct pollfd polled[MAX_CONNECTIONS];
    int total = options.connections + options.slow;
    uint64_t began = now_ms(), told = began, dripped = 0;
    for (int i = 0; i < total; i++) {
        connections[i].fd = -1;
        connections[i].is_slow = i >= options.connections;
        connections[i].target = i % 6 == 5;
    }
    while (frames_done < options.frames) {
        uint64_t now = now_ms();
        if ((double)(now - began) / 1000 > options.seconds) break;
        if (now - told >= 1000) report((double)(now - began) / 1000), told = now;
        int may_drip = now - dripped >= 10;
        if (may_drip) dripped = now;
        for (int i = 0; i < total; i++) {
            struct connection *c = &connections[i];
            if (c->fd < 0) start_connection(c);
            short events = POLLIN;
            if (c->sent < c->length && (!c->is_slow || may_drip)) events |= POLLOUT;
            polled[i] = (struct pollfd){c->fd, events, 0};
        }
        if (poll(polled, (nfds_t)total, 10) < 0 && errno != EINTR) die("poll: %s", strerror(errno));
        now = now_ms();
        for (int i = 0; i < total; i++) {
            if (connections[i].fd >= 0 && polled[i].revents) serve(&connections[i], polled[i].revents);
            look_at_the_clock(&connections[i], now);
        }
    }
    report((double)(now_ms() - began) / 1000);
}

int main(int count, char **words) {
    for (int i = 1; i + 1 < count; i += 2) {
        const char *name = words[i], *value = words[i + 1];
        if (!strcmp(name, "--corpus")) options.corpus = value;
        else if (!strcmp(name, "--broker-port")) options.ports[0] = atoi(value);
        else if (!strcmp(name, "--namesrv-port")) options.ports[1] = atoi(value);
        else if (!strcmp(name, "--frames")) options.frames = atol(value);
        else if (!strcmp(name, "--seconds")) options.seconds = atof(value);
        else if (!strcmp(name, "--seed")) options.seed = strtoull(value, NULL, 10);
        else if (!strcmp(name, "--connections")) options.connections = atoi(value);
        else if (!strcmp(name, "--slow")) options.slow = atoi(value);
        else die("unknown option %s", name);
    }
    if (!options.corpus || !options.ports[0] || !options.ports[1]) die("--corpus, --broker-port and --namesrv-port are needed");
    if (options.connections < 6 || options.slow < 0 || options.connections + options.slow > MAX_CONNECTIONS)
        die("6 connections at least, %d with the slow ones at most", MAX_CONNECTIONS);
    signal(SIGPIPE, SIG_IGN);
    state = options.seed * 0x9E3779B97F4A7C15ULL + 1;
    load_corpus();
    run();
    return mute ? 2 : 0;
}
