// SPDX-License-Identifier: Apache-2.0
/* The requests of load.c: what its options say of them, and their frames. Nothing here touches a socket. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OPAQUE_BASE = 1000000000, MAX_QUEUES = 1024, UNIQ_KEY_CHARS = 32 };
enum { RANDOM_MESSAGES = 20000, RANDOM_TEXT = 1 << 20 };
enum { SEND_MESSAGE_V2 = 310, SEND_BATCH_MESSAGE = 320, PULL_MESSAGE = 11 };

static struct {
    const char *host, *mode, *topic, *form;
    const char *property;
    int port, queues, connections, inflight, body, batch, max_nums, rate, seed;
    long messages;
    double seconds;
} options = {"127.0.0.1", "send", "bench", "java", "", 10911, 8, 1, 64, 1024, 100, 32, 0, 1, 200000, 60.0};

struct frame {
    char *bytes;
    size_t length, opaque;
    size_t *keys; /* where the last eight characters of keys are */
    int key_count, message_count;
};

struct slot {
    int message_count, queue, busy; /* of the request in flight */
    uint64_t sent_ns;
};

static struct frame *frames;
static int frame_total, next_frame;
static long long next_offset[MAX_QUEUES];
static long key_number;
static char key_prefix[UNIQ_KEY_CHARS - 8 + 1];
static int is_pull, is_batch, is_random;

static void die(const char *form, ...) {
    va_list args;
    va_start(args, form);
    fputs("load: ", stderr);
    vfprintf(stderr, form, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static uint64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *must_alloc(size_t size) {
    void *memory = calloc(1, size);
    if (!memory) die("no memory for %zu bytes", size);
    return memory;
}

static char *put_int32(char *at, uint32_t value) {
    value = htonl(value);
    memcpy(at, &value, 4);
    return at + 4;
}

static uint32_t get_int32(const char *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

static uint64_t dice;

/* A number from 0 to sides - 1 (xorshift64*): the same for the same seed on every machine. */
static int draw(int sides) {
    dice ^= dice >> 12;
    dice ^= dice << 25;
    dice ^= dice >> 27;
    return (int)((dice * 0x2545F4914F6CDD1Du >> 33) % (uint64_t)sides);
}

/* From 1 to twice `usual` - 1: `usual` on average. */
static int around(int usual) {
    return 1 + draw(2 * usual - 1);
}

static void fill_body(char *at, int size) {
    static const char text[] = "The quick brown fox jumps over the lazy dog 0123456789. ";
    static char *drawn;
    if (is_random && size < RANDOM_TEXT) {
        if (!drawn) {
            drawn = must_alloc(RANDOM_TEXT);
            for (int i = 0; i < RANDOM_TEXT; i++) drawn[i] = (char)(' ' + draw(95));
        }
        memcpy(at, drawn + draw(RANDOM_TEXT - size), (size_t)size);
        return;
    }
    for (int i = 0; i < size; i++) at[i] = text[i % (int)(sizeof text - 1)];
}

/* Writes the length words and the header, returns where the body begins. */
static char *begin_frame(char *frame, const char *header, size_t body_length) {
    size_t header_length = strlen(header);
    char *at = put_int32(frame, (uint32_t)(4 + header_length + body_length));
    at = put_int32(at, (uint32_t)header_length);
    memcpy(at, header, header_length);
    return at + header_length;
}

/* The header of a send; number_frame replaces its opaque. */
static void send_header(char *header, size_t room, int queue, const char *properties) {
    int n = snprintf(header, room,
                     "{\"code\":%d,\"extFields\":{\"a\":\"bench-producers\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"%d\","
                     "\"f\":\"0\",\"g\":\"%llu\",\"h\":\"0\",\"i\":\"%s\",\"j\":\"0\",\"k\":\"false\",\"m\":\"%s\"},"
                     "\"flag\":0,\"language\":\"JAVA\",\"opaque\":%d,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":409}",
                     is_batch ? SEND_BATCH_MESSAGE : SEND_MESSAGE_V2, options.topic, queue,
                     (unsigned long long)(now_ns(CLOCK_REALTIME) / 1000000), properties, is_batch ? "true" : "false",
                     OPAQUE_BASE);
    if (n < 0 || (size_t)n >= room) die("--topic is too long");
}

/* The properties of one message; ends_of_keys gets the places behind its keys. Returns how many keys there are. */
static int write_properties(char *text, size_t room, size_t *ends_of_keys) {
    static const char *const tags[] = {"A", "created", "paid-in-full", "b"};
    int keys = 0;
    size_t n = 0;
    text[0] = 0;
    if (!strcmp(options.form, "none") || !strcmp(options.form, "header")) return 0;
    if (!is_random || draw(3)) {
        n += (size_t)snprintf(text + n, room - n, "KEYS\x01%.*s00000000", is_random ? 1 + draw(12) : 6, "order-number-");
        ends_of_keys[keys++] = n;
        text[n++] = '\x02';
    }
    n += (size_t)snprintf(text + n, room - n, "UNIQ_KEY\x01%s00000000", key_prefix);
    ends_of_keys[keys++] = n;
    n += (size_t)snprintf(text + n, room - n, "\x02WAIT\x01true\x02TAGS\x01%s\x02", tags[is_random ? draw(4) : 0]);
    for (int count = is_random ? draw(9) : 0; count > 0; count--) {
        char value[24];
        int length = 1 + draw(20);
        for (int i = 0; i < length; i++) value[i] = (char)('a' + draw(26));
        n += (size_t)snprintf(text + n, room - n, "property-%d\x01%.*s\x02", draw(20), length, value);
    }
    return keys;
}

/* Properties as they stand in a JSON header, and where the ends of their keys are then. */
static void escape(char *to, const char *text, const size_t *ends, size_t *escaped_ends, int key_count) {
    size_t n = 0;
    for (size_t i = 0; text[i]; i++) {
        for (int k = 0; k < key_count; k++)
            if (ends[k] == i) escaped_ends[k] = n;
        if ((unsigned char)text[i] < ' ') n += (size_t)sprintf(to + n, "\\u%04x", text[i]);
        else to[n++] = text[i];
    }
    to[n] = 0;
}

/* The header of a frame, and room for its body; returns where the body begins. */
static char *make_frame(struct frame *frame, int queue, const char *properties, size_t body_length) {
    char header[6144];
    send_header(header, sizeof header, queue, properties);
    frame->length = 8 + strlen(header) + body_length;
    frame->bytes = must_alloc(frame->length);
    frame->opaque = 8 + (size_t)(strstr(header, "\"opaque\":") - header) + strlen("\"opaque\":");
    return begin_frame(frame->bytes, header, body_length);
}

static size_t place_in(const struct frame *frame, const char *text) {
    return (size_t)((char *)memmem(frame->bytes, frame->length, text, strlen(text)) - frame->bytes);
}

static void build_single(struct frame *frame, int queue) {
    char properties[1024], escaped[5120];
    size_t ends[2], escaped_ends[2];
    int body = is_random ? around(options.body) : options.body;
    frame->message_count = 1;
    if (is_random) {
        frame->key_count = write_properties(properties, sizeof properties, ends);
    } else {
        frame->key_count = 1;
        ends[0] = (size_t)sprintf(properties, "UNIQ_KEY\x01%s%08d", key_prefix, 0);
        int n = snprintf(properties + ends[0], sizeof properties - ends[0], "\x02WAIT\x01true\x02TAGS\x01" "A\x02");
        const char *value = strchr(options.property, '=');
        size_t room = sizeof properties - ends[0] - (size_t)n;
        if (value && (size_t)snprintf(properties + ends[0] + n, room, "%.*s\x01%s\x02", (int)(value - options.property), options.property, value + 1) >= room)
            die("--property %s is too long", options.property);
    }
    escape(escaped, properties, ends, escaped_ends, frame->key_count);
    fill_body(make_frame(frame, queue, escaped, (size_t)body), body);
    frame->keys = must_alloc(sizeof *frame->keys * 2);
    for (int k = 0; k < frame->key_count; k++) frame->keys[k] = place_in(frame, "\"i\":\"") + strlen("\"i\":\"") + escaped_ends[k] - 8;
}

/* Facts of the element: total size, magic 0, CRC 0, flag, body length, body, int16 properties length, properties. */
static void build_batch(struct frame *frame, int queue) {
    char properties[1024], in_header[256] = "WAIT\\u0001true\\u0002";
    int in_header_key = !strcmp(options.form, "header");
    int count = is_random ? around(options.batch) : options.batch;
    size_t room = (size_t)count * (22 + 2 * (size_t)options.body + sizeof properties), length = 0, ends[2];
    char *elements = must_alloc(room);
    frame->keys = must_alloc(sizeof *frame->keys * (2 * (size_t)count + 1));
    frame->message_count = count;
    for (int i = 0; i < count; i++) {
        int body = is_random ? around(options.body) : options.body;
        int key_count = write_properties(properties, sizeof properties, ends);
        size_t properties_length = strlen(properties), element = 22 + (size_t)body + properties_length;
        char *at = put_int32(elements + length, (uint32_t)element);
        memset(at, 0, 12); /* magic, CRC, flag */
        at = put_int32(at + 12, (uint32_t)body);
        fill_body(at, body);
        at += body;
        *at++ = (char)(properties_length >> 8);
        *at++ = (char)properties_length;
        memcpy(at, properties, properties_length);
        for (int k = 0; k < key_count; k++) frame->keys[frame->key_count++] = (size_t)(at - elements) + ends[k] - 8;
        length += element;
    }
    if (in_header_key)
        snprintf(in_header, sizeof in_header, "KEYS\\u0001order-1\\u0002UNIQ_KEY\\u0001%s00000000\\u0002WAIT\\u0001true\\u0002TAGS\\u0001A\\u0002", key_prefix);
    memcpy(make_frame(frame, queue, in_header, length), elements, length);
    free(elements);
    for (int k = 0; k < frame->key_count; k++) frame->keys[k] += frame->length - length;
    if (in_header_key) frame->keys[frame->key_count++] = place_in(frame, key_prefix) + UNIQ_KEY_CHARS - 8;
}

/* As many frames as slots, or enough for RANDOM_MESSAGES different messages. */
static void build_frames(int slot_total) {
    long messages = 0;
    int room = is_random ? slot_total + RANDOM_MESSAGES : slot_total;
    frames = must_alloc(sizeof *frames * (size_t)room);
    while (frame_total < slot_total || (is_random && messages < RANDOM_MESSAGES)) {
        struct frame *frame = &frames[frame_total];
        if (is_batch) build_batch(frame, frame_total % options.queues);
        else build_single(frame, frame_total % options.queues);
        messages += frame->message_count;
        frame_total++;
    }
}

/* The last eight digits of its keys count messages; the opaque says which slot waits for the answer. */
static void number_frame(struct frame *frame, int number) {
    static const char digits[] = "0123456789ABCDEF";
    char opaque[16];
    snprintf(opaque, sizeof opaque, "%d", OPAQUE_BASE + number);
    memcpy(frame->bytes + frame->opaque, opaque, strlen(opaque));
    for (int i = 0; i < frame->key_count; i++) {
        char *at = frame->bytes + frame->keys[i];
        unsigned long key = (unsigned long)key_number++;
        for (int shift = 28; shift >= 0; shift -= 4) *at++ = digits[(key >> shift) & 15];
    }
}

/* A pull's offset has as many digits as it has: its frame is written anew each time. sysFlag 4: the subscription is in the request. */
static struct frame *pull_frame(struct slot *slot, int number) {
    static char bytes[2048];
    static struct frame frame = {.bytes = bytes};
    char header[1024];
    frame.message_count = is_random ? around(options.max_nums) : options.max_nums;
    snprintf(header, sizeof header,
             "{\"code\":%d,\"extFields\":{\"commitOffset\":\"0\",\"consumerGroup\":\"bench-consumers\",\"expressionType\":\"TAG\","
             "\"maxMsgNums\":\"%d\",\"queueId\":\"%d\",\"queueOffset\":\"%lld\",\"subVersion\":\"0\",\"subscription\":\"*\","
             "\"suspendTimeoutMillis\":\"15000\",\"sysFlag\":\"4\",\"topic\":\"%s\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%d,"
             "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":409}",
             PULL_MESSAGE, frame.message_count, slot->queue, next_offset[slot->queue], options.topic, OPAQUE_BASE + number);
    begin_frame(bytes, header, 0);
    frame.length = 8 + strlen(header);
    return &frame;
}

/* The frame of a slot's next request: its own, or one of all. */
static struct frame *frame_for(struct slot *slot, int number) {
    if (is_pull) return pull_frame(slot, number);
    struct frame *frame = &frames[is_random ? next_frame++ % frame_total : number];
    number_frame(frame, number);
    return frame;
}
