// SPDX-License-Identifier: Apache-2.0
/* A load generator for a RocketMQ broker: it writes ready-made frames and reads answers, so that its own cost hides nobody's.
 *
 *   load --host 127.0.0.1 --port 10911 --mode send|batch|pull --topic T [--queues 8] [--messages N] [--seconds S]
 *        [--connections 1] [--inflight 64] [--body 1024] [--batch 100] [--max-nums 32] [--rate R] [--property NAME=VALUE]
 *        [--form java|none|header|random] [--seed S]
 *
 * send    SEND_MESSAGE_V2, one message of --body bytes per request, queues in turn
 * batch   SEND_BATCH_MESSAGE, --batch messages of --body bytes per request. --form says where their properties are: in each message, as
 *         Java's client writes them (java); nowhere (none); all of them in the header of the batch (header).
 * pull    PULL_MESSAGE, up to --max-nums per request, one request in flight per queue, following nextBeginOffset; starts again at
 *         the queue's beginning when it meets the end. Records are counted by walking the body, not believed from the header.
 *
 * With --form random everything is drawn from --seed, in each mode: up to twice as many messages per request (batch, pull), bodies of up to
 * twice the size, tags, keys on some, and up to eight user properties of differing names and values. The frames of sends are made before
 * the start, many more than are in flight (20,000 messages at least), and each request takes one of them.
 *
 * With --rate no more than R messages a second are asked for, spread evenly (as many as can be, when --inflight holds them up). The
 * property goes into each message of mode send.
 *
 * Each message has its own UNIQ_KEY (with --form none and header: none), as from a real client: a broker that indexes must index. It ends after --messages (or --seconds,
 * whichever comes first), when all that is in flight was answered, with one JSON line on standard output. SYSTEM_BUSY is asked again and
 * counted (busy_answers). Any other refusal and ten seconds without any answer are failures: one sentence on standard error, exit code 1.
 *
 * One thread, non-blocking sockets, poll(2). A slot is one request in flight; its number is written in the frame as the opaque, whose
 * digits therefore never change their count and the frame never its length. A frame belongs to nobody: it is copied when it is asked.
 */
#define _GNU_SOURCE
#include "load_frames.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_SLOTS = 4096, MAX_CONNECTIONS = 64, READ_BUFFER = 17 << 20, SILENCE_MS = 10000, MAX_LATENCIES = 1 << 24 };
enum { SYSTEM_BUSY = 2, MAX_BUSY_ANSWERS = 1000000 };
enum { PULL_NOT_FOUND = 19, PULL_RETRY_IMMEDIATELY = 20, PULL_OFFSET_MOVED = 21 };

struct connection {
    int fd, slot_first, slot_count;
    char *in, *out;
    size_t in_length, out_length, out_sent, out_room;
};

static struct slot slots[MAX_SLOTS];
static struct connection connections[MAX_CONNECTIONS];
static uint32_t *latencies_us;
static long latency_count, messages_done, messages_asked, requests_done, in_flight, bytes_in, empty_pulls, busy_answers;
static uint64_t started_ns, last_answer_ns;

/* ---- connections ---- */

static void open_connection(struct connection *c) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options.port)};
    int one = 1;
    if (inet_pton(AF_INET, options.host, &address.sin_addr) != 1) die("--host %s is not an IPv4 address", options.host);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address))
        die("cannot connect to %s:%d: %s", options.host, options.port, strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->in = must_alloc(READ_BUFFER);
}

static void queue_request(struct connection *c, int number) {
    struct slot *slot = &slots[number];
    const struct frame *frame = frame_for(slot, number);
    if (c->out_length + frame->length > c->out_room) {
        c->out_room = 2 * (c->out_length + frame->length);
        c->out = realloc(c->out, c->out_room);
        if (!c->out) die("no memory for %zu bytes of requests", c->out_room);
    }
    memcpy(c->out + c->out_length, frame->bytes, frame->length);
    c->out_length += frame->length;
    slot->message_count = frame->message_count;
    slot->sent_ns = now_ns(CLOCK_MONOTONIC);
    slot->busy = 1;
    in_flight++;
    messages_asked += slot->message_count;
}

static void flush_requests(struct connection *c) {
    while (c->out_sent < c->out_length) {
        ssize_t n = send(c->fd, c->out + c->out_sent, c->out_length - c->out_sent, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n <= 0) die("the broker closed the connection while it was sent a request: %s", strerror(errno));
        c->out_sent += (size_t)n;
    }
    c->out_length = c->out_sent = 0;
}

static int wants_more(void) {
    uint64_t now = now_ns(CLOCK_MONOTONIC);
    return (is_pull ? messages_done : messages_asked) < options.messages && (double)(now - started_ns) / 1e9 < options.seconds;
}

/* With a rate: one message is due at the start, and from then on as many as the time that has passed allows. */
static int may_ask(void) {
    double elapsed = (double)(now_ns(CLOCK_MONOTONIC) - started_ns) / 1e9;
    return wants_more() && (!options.rate || (double)messages_asked <= options.rate * elapsed);
}

static void ask_what_is_due(struct connection *c) {
    for (int s = 0; s < c->slot_count && may_ask(); s++)
        if (!slots[c->slot_first + s].busy) queue_request(c, c->slot_first + s);
}

/* ---- answers ---- */

/* The number after `"name":` or `"name":"` in a JSON header, or `otherwise` when there is none. */
static long long number_in(const char *header, size_t length, const char *name, long long otherwise) {
    const char *at = memmem(header, length, name, strlen(name));
    if (!at) return otherwise;
    at += strlen(name);
    while (at < header + length && (*at == '"' || *at == ':' || *at == ' ')) at++;
    return strtoll(at, NULL, 10);
}

static long count_records(const char *body, size_t length) {
    long count = 0;
    size_t at = 0;
    while (at + 4 <= length) {
        uint32_t size = get_int32(body + at);
        if (size < 91 || at + size > length) die("a pulled record announces %u bytes where %zu are left", size, length - at);
        at += size;
        count++;
    }
    if (at != length) die("a pull ends with %zu bytes that are no record", length - at);
    return count;
}

static void take_pull_answer(struct slot *slot, int code, const char *header, size_t header_length, const char *body, size_t length) {
    long long next = number_in(header, header_length, "\"nextBeginOffset\"", -1);
    long long low = number_in(header, header_length, "\"minOffset\"", -1);
    long long high = number_in(header, header_length, "\"maxOffset\"", -1);
    if (next < 0 || low < 0 || high < 0) die("a pull was answered without its offsets: %.*s", (int)header_length, header);
    if (code == 0) {
        messages_done += count_records(body, length);
        empty_pulls = 0;
    } else if (++empty_pulls > 1000) {
        die("a thousand pulls in a row found nothing (code %d): fill topic %s first", code, options.topic);
    }
    next_offset[slot->queue] = next >= high ? low : next;
}

static void take_answer(struct connection *c, const char *frame, size_t length) {
    uint32_t mark = get_int32(frame + 4);
    size_t header_length = mark & 0xFFFFFF;
    const char *header = frame + 8;
    if (mark >> 24) die("the broker answers with headers of type %u, this program reads JSON (0)", mark >> 24);
    if (8 + header_length > length) die("a header of %zu bytes does not fit in its frame of %zu", header_length, length);
    if (!(number_in(header, header_length, "\"flag\"", 0) & 1)) return; /* a request of the broker, nothing to us */
    long long number = number_in(header, header_length, "\"opaque\"", -1) - OPAQUE_BASE;
    int code = (int)number_in(header, header_length, "\"code\"", -1);
    if (number < c->slot_first || number >= c->slot_first + c->slot_count || !slots[number].busy)
        die("an answer belongs to no request in flight: %.*s", (int)header_length, header);
    struct slot *slot = &slots[number];
    int no_messages = is_pull && (code == PULL_NOT_FOUND || code == PULL_RETRY_IMMEDIATELY || code == PULL_OFFSET_MOVED);
    if (code == SYSTEM_BUSY && ++busy_answers < MAX_BUSY_ANSWERS) {
        /* Flow control of a broker that is behind (a JVM that is still cold): ask again, as a client would. */
        slot->busy = 0;
        in_flight--;
        messages_asked -= slot->message_count;
        queue_request(c, (int)number);
        return;
    }
    if (code != 0 && !no_messages) die("the broker refused: %.*s", (int)header_length, header);

    last_answer_ns = now_ns(CLOCK_MONOTONIC);
    if (latency_count < MAX_LATENCIES) latencies_us[latency_count++] = (uint32_t)((last_answer_ns - slot->sent_ns) / 1000);
    slot->busy = 0;
    in_flight--;
    requests_done++;
    bytes_in += (long)length;
    if (is_pull) take_pull_answer(slot, code, header, header_length, frame + 8 + header_length, length - 8 - header_length);
    else messages_done += slot->message_count;
    if (may_ask()) queue_request(c, (int)number);
}

static void take_answers(struct connection *c) {
    ssize_t n = recv(c->fd, c->in + c->in_length, READ_BUFFER - c->in_length, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) die("the broker closed the connection with %ld requests unanswered", in_flight);
    c->in_length += (size_t)n;
    size_t at = 0;
    while (c->in_length - at >= 8) {
        size_t length = 4 + (size_t)get_int32(c->in + at);
        if (length > READ_BUFFER) die("a frame announces %zu bytes", length);
        if (c->in_length - at < length) break;
        take_answer(c, c->in + at, length);
        at += length;
    }
    memmove(c->in, c->in + at, c->in_length - at);
    c->in_length -= at;
}

/* ---- the run ---- */

static void run(void) {
    struct pollfd polled[MAX_CONNECTIONS];
    started_ns = last_answer_ns = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < options.connections; i++) {
        struct connection *c = &connections[i];
        ask_what_is_due(c);
        flush_requests(c);
    }
    while (in_flight > 0 || (options.rate && wants_more())) {
        for (int i = 0; i < options.connections; i++) {
            struct connection *c = &connections[i];
            polled[i] = (struct pollfd){.fd = c->fd, .events = (short)(POLLIN | (c->out_length ? POLLOUT : 0))};
        }
        if (poll(polled, (nfds_t)options.connections, options.rate ? 1 : SILENCE_MS) == 0 && in_flight > 0 &&
            now_ns(CLOCK_MONOTONIC) - last_answer_ns > SILENCE_MS * 1000000ull)
            die("no answer for %d ms, %ld requests in flight", SILENCE_MS, in_flight);
        for (int i = 0; i < options.connections; i++) {
            if (polled[i].revents & (POLLIN | POLLERR | POLLHUP)) take_answers(&connections[i]);
            if (options.rate) ask_what_is_due(&connections[i]);
            flush_requests(&connections[i]);
        }
    }
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void report(void) {
    struct rusage usage;
    double seconds = (double)(last_answer_ns - started_ns) / 1e9;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    qsort(latencies_us, (size_t)latency_count, sizeof *latencies_us, by_size);
    printf("{\"mode\":\"%s\",\"messages\":%ld,\"requests\":%ld,\"seconds\":%.6f,\"p50_us\":%u,\"p99_us\":%u,\"bytes_in\":%ld,\"busy_answers\":%ld,\"own_cpu_seconds\":%.3f}\n",
           options.mode, messages_done, requests_done, seconds, latencies_us[latency_count / 2],
           latencies_us[latency_count * 99 / 100], bytes_in, busy_answers, cpu);
}

static void read_options(int argc, char **argv) {
    struct { const char *name; int *number; } numbers[] = {
        {"--port", &options.port}, {"--queues", &options.queues}, {"--connections", &options.connections},
        {"--inflight", &options.inflight}, {"--body", &options.body}, {"--batch", &options.batch}, {"--max-nums", &options.max_nums},
        {"--rate", &options.rate}, {"--seed", &options.seed}};
    for (int i = 1; i < argc; i += 2) {
        int known = 0;
        if (i + 1 == argc) die("%s needs a value", argv[i]);
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            if (!strcmp(argv[i], numbers[k].name)) *numbers[k].number = atoi(argv[i + 1]), known = 1;
        if (!strcmp(argv[i], "--host")) options.host = argv[i + 1], known = 1;
        if (!strcmp(argv[i], "--mode")) options.mode = argv[i + 1], known = 1;
        if (!strcmp(argv[i], "--topic")) options.topic = argv[i + 1], known = 1;
        if (!strcmp(argv[i], "--form")) options.form = argv[i + 1], known = 1;
        if (!strcmp(argv[i], "--property")) options.property = argv[i + 1], known = 1;
        if (!strcmp(argv[i], "--messages")) options.messages = atol(argv[i + 1]), known = 1;
        if (!strcmp(argv[i], "--seconds")) options.seconds = atof(argv[i + 1]), known = 1;
        if (!known) die("%s is no option; the head of load.c lists them", argv[i]);
    }
    is_pull = !strcmp(options.mode, "pull");
    is_batch = !strcmp(options.mode, "batch");
    if (!is_pull && !is_batch && strcmp(options.mode, "send")) die("--mode is send, batch or pull, not %s", options.mode);
    if (strcmp(options.form, "java") && strcmp(options.form, "none") && strcmp(options.form, "header") && strcmp(options.form, "random"))
        die("--form is java, none, header or random, not %s", options.form);
    is_random = !strcmp(options.form, "random");
    dice = (uint64_t)options.seed * 2 + 1;
    if (options.connections < 1 || options.connections > MAX_CONNECTIONS) die("--connections goes from 1 to %d", MAX_CONNECTIONS);
    if (options.queues < 1 || options.queues > MAX_QUEUES) die("--queues goes from 1 to %d", MAX_QUEUES);
    if (options.inflight < 1 || options.inflight * options.connections > MAX_SLOTS) die("--inflight x --connections goes from 1 to %d", MAX_SLOTS);
    if (*options.property && (!strchr(options.property, '=') || strpbrk(options.property, "\"\\") || strcmp(options.mode, "send")))
        die("--property is NAME=VALUE without quotes, in mode send");
    if (options.rate < 0 || options.body < 0 || options.batch < 1 || options.max_nums < 1 || options.messages < 1)
        die("--body, --batch, --max-nums, --messages and --rate must be positive");
    if (is_random && (options.body < 1 || *options.property)) die("--form random draws bodies and properties: --body is at least 1, without --property");
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    /* Address 127.0.0.1, process id, and the second of the start: no two runs share a key. */
    snprintf(key_prefix, sizeof key_prefix, "7F000001%08X%08X", (unsigned)getpid(), (unsigned)(now_ns(CLOCK_REALTIME) / 1000000000u));
    latencies_us = must_alloc(sizeof *latencies_us * MAX_LATENCIES);
    int slot_total = is_pull ? options.queues : options.inflight * options.connections;
    if (is_pull && options.connections > options.queues) options.connections = options.queues;
    for (int i = 0; i < slot_total; i++) slots[i].queue = i % options.queues;
    if (!is_pull) build_frames(slot_total);
    for (int i = 0; i < options.connections; i++) {
        connections[i].slot_first = (int)((long)slot_total * i / options.connections);
        connections[i].slot_count = (int)((long)slot_total * (i + 1) / options.connections) - connections[i].slot_first;
        open_connection(&connections[i]);
    }
    run();
    if (requests_done == 0) die("nothing was asked: --messages or --seconds is too small");
    report();
    return 0;
}
