/* Throws frames and control calls at an engine that runs one generated program.
 *
 * `LLVMFuzzerTestOneInput` reads its input as a list of commands, so libFuzzer can drive it; without libFuzzer `main`
 * makes inputs from a seed: `fuzz_engine SEED RUNS [FILE…]` (files are run first, as they are). It is linked with the
 * engine's sources, built with XF_SANITIZE, and one program. Every frame must be accounted for at the end of a run. */
#include "pipeline.h"

int printf(const char *format, ...);
void abort(void);
unsigned long strtoul(const char *text, char **end, int base);
typedef struct file file;
file *fopen(const char *path, const char *mode);
size_t fread(void *to, size_t size, size_t count, file *from);
int fclose(file *f);

const xf_program *xf_program_get(void);

typedef struct input {
    const uint8_t *at, *end;
} input;

static uint64_t take(input *in, uint32_t bytes) {
    uint64_t v = 0;
    while (bytes--) v = v << 8 | (in->at < in->end ? *in->at++ : 0);
    return v;
}

static void words(input *in, uint64_t *to, uint32_t count) {
    while (count--) *to++ = take(in, take(in, 1) % 9);
}

#define WORDS 256
#define PORTS 6

/* An operation whose every field is made of the input. Its pointers lead to more words than any operation reads. */
static void operation(const xf_program *p, input *in, xf_op *o) {
    static uint64_t key[4][WORDS], mask[4][WORDS], ranges[4][WORDS], args[4][WORDS];
    static uint32_t ints[4][64], weights[4][64];
    static uint8_t active[4][64];
    static uint32_t turn;
    uint32_t t = turn++ % 4, i;
    memset(o, 0, sizeof *o);
    o->kind = (uint32_t)take(in, 1) % (XF_OPS + 6);
    if (o->kind > XF_OPS) o->kind = XF_TABLE_ADD; /* entries are what most others need */
    o->object = (uint32_t)take(in, 1) % 8;
    o->id = (uint32_t)take(in, 1) % 64;
    /* Few replicas: packets that copy themselves at one instant are bounded in depth, not in number. */
    o->count = (uint32_t)take(in, 1) % (o->kind == XF_MULTICAST_SET || o->kind == XF_CLONE_SET ? 5 : 9);
    o->is_group = (uint32_t)take(in, 1) & 1;
    o->ref = (uint32_t)take(in, 1) % 16;
    o->rank = (uint32_t)take(in, 1);
    o->packets = o->bytes = take(in, 2);
    o->time = take(in, 3);
    o->length = (uint32_t)take(in, 1);
    o->ranges_count = (uint32_t)take(in, 1) % 3;
    o->action = XF_NO_ACTION;
    if (take(in, 1) % 4) {
        o->action = (uint32_t)take(in, 1);
        /* The default action is one the table has; others may not be, which the engine must survive too. */
        if (o->object < p->table_count && o->action % 3) o->action = p->tables[o->object].default_action;
    }
    words(in, key[t], 8);
    words(in, mask[t], 8);
    words(in, ranges[t], 8);
    words(in, args[t], 24);
    for (i = 0; i < 16; i++) {
        ints[t][i] = (uint32_t)take(in, 1) % 16;
        weights[t][i] = (uint32_t)take(in, 1);
        active[t][i] = (uint8_t)take(in, 1) & 1;
    }
    o->key = key[t];
    o->mask = mask[t];
    o->ranges = ranges[t];
    o->words = take(in, 1) % 8 ? args[t] : NULL;
    if (o->kind != XF_METER && o->kind != XF_ENTRY_METER) o->words = args[t];
    o->ints = ints[t];
    o->weights = weights[t];
    o->active = active[t];
}

static void control(xf_engine *e, const xf_program *p, input *in) {
    xf_op ops[4];
    uint32_t count, i;
    switch (take(in, 1) % 8) {
    case 0: xf_port_up(e, (uint32_t)take(in, 1) % PORTS, (int)take(in, 1) & 1); break;
    case 1: {
        xf_queue_settings q = {0};
        q.rate_bps = take(in, 5);
        q.burst_bytes = take(in, 2);
        q.rate_pps = take(in, 3);
        q.guaranteed_bytes = take(in, 1) * 16;
        q.headroom_bytes = take(in, 1) * 16;
        q.alpha = take(in, 3);
        q.weight = take(in, 2);
        /* Never the limits: they bound what this test holds in memory. */
        xf_queue_set(e, (int)take(in, 1) % (PORTS + 1) - 1, (int)take(in, 1) % 9 - 1, &q,
                     (uint32_t)take(in, 2) & ~(uint32_t)(XF_SET_LIMIT_BYTES | XF_SET_LIMIT_PACKETS));
        break;
    }
    case 2: xf_buffer_set(e, take(in, 2)); break;
    default:
        count = 1 + (uint32_t)take(in, 1) % 4;
        for (i = 0; i < count; i++) operation(p, in, &ops[i]);
        xf_apply_ops(e, ops, count, NULL);
    }
}

static void drain(xf_engine *e) {
    xf_pause_event pauses[16];
    xf_idle_event idles[16];
    xf_frame frames[16];
    uint64_t values[WORDS], time;
    uint32_t kind;
    while (xf_pause_take(e, pauses, 16, NULL) == 16) {}
    while (xf_idle_take(e, idles, 16) == 16) {}
    while (xf_cpu_take(e, frames, 16) == 16) {}
    while (xf_digest_take(e, &kind, values, WORDS, &time) >= 0) {}
    while (xf_log_take(e, &kind, values, WORDS, &time) >= 0) {}
}

static uint64_t poll_all(xf_engine *e, uint64_t now) {
    xf_frame out[32];
    uint64_t sum = 0;
    int n, i;
    uint32_t k;
    do {
        n = xf_poll(e, now, out, 32);
        for (i = 0; i < n; i++)
            for (k = 0; k < out[i].length; k++) sum += out[i].data[k]; /* every byte must be readable and initialised */
    } while (n == 32);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const xf_program *p = xf_program_get();
    xf_engine *e = xf_new(1, 5, 511, 1000000000ul, 8, 1);
    uint64_t now = 0;
    uint32_t i;
    xf_queue_settings queue = {0};
    input in;
    in.at = data;
    in.end = data + size;
    if (!e || xf_load(e, p) < 0) abort();
    queue.limit_bytes = 20000;
    queue.limit_packets = 40;
    xf_queue_set(e, -1, -1, &queue, XF_SET_LIMIT_BYTES | XF_SET_LIMIT_PACKETS);
    for (i = 0; i < PORTS; i++) xf_port_add(e, i, i % 3 * 1000000000ul, i * 100);
    while (in.at < in.end) {
        uint64_t op = take(&in, 1);
        if (op < 140) {
            uint32_t length = (uint32_t)take(&in, 1), port = (uint32_t)take(&in, 1) % (PORTS + 1);
            if (op < 4) length = (uint32_t)take(&in, 2) % 20000;
            if (length > (size_t)(in.end - in.at) && op >= 4) length = (uint32_t)(in.end - in.at);
            if (length <= (size_t)(in.end - in.at)) {
                /* A block of its own, so that a read beyond the frame is seen. */
                uint8_t *frame = malloc(length ? length : 1);
                memcpy(frame, in.at, length);
                xf_rx(e, port, frame, length, now);
                free(frame);
            } else {
                uint8_t *frame = calloc(1, length);
                xf_rx(e, port, frame, length, now);
                free(frame);
            }
            in.at += length <= (size_t)(in.end - in.at) ? length : 0;
        } else if (op < 200) {
            control(e, p, &in);
        } else if (op < 240) {
            now += take(&in, 1) * 100;
            poll_all(e, now);
        } else if (op < 252) {
            now += take(&in, 3); /* a packet that circles makes a lap in less than a microsecond */
            poll_all(e, now);
            drain(e);
        } else if (op == 252) {
            xf_load(e, p);
        } else if (op == 253) {
            xf_port_remove(e, (uint32_t)take(&in, 1) % PORTS);
            xf_port_add(e, (uint32_t)take(&in, 1) % PORTS, take(&in, 5), take(&in, 3));
        } else {
            xf_port_rate(e, (uint32_t)take(&in, 1) % PORTS, take(&in, 5));
        }
    }
    now += 1000000;
    poll_all(e, now);
    xf_load(e, NULL);
    xf_free(e);
    return 0;
}

#ifndef XF_LIBFUZZER
static uint64_t state;
static uint64_t next_random(void) {
    uint64_t z = state += 0x9e3779b97f4a7c15ul;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ul;
    z = (z ^ z >> 27) * 0x94d049bb133111ebul;
    return z ^ z >> 31;
}

int main(int count, char **arguments) {
    static uint8_t buffer[1 << 16];
    uint64_t runs, i, size, k;
    int n;
    if (count < 3) return 2;
    for (n = 3; n < count; n++) {
        file *f = fopen(arguments[n], "rb");
        if (!f) return 2;
        size = fread(buffer, 1, sizeof buffer, f);
        fclose(f);
        LLVMFuzzerTestOneInput(buffer, size);
    }
    state = strtoul(arguments[1], NULL, 10);
    runs = strtoul(arguments[2], NULL, 10);
    for (i = 0; i < runs; i++) {
        /* Small values are frequent: they are operations, ports and header types. */
        size = next_random() % 16384;
        for (k = 0; k < size; k++) {
            uint64_t r = next_random();
            buffer[k] = (uint8_t)(r & 0x300 ? r : r % 24);
        }
        LLVMFuzzerTestOneInput(buffer, size);
    }
    printf("%lu inputs\n", runs);
    return 0;
}
#endif
