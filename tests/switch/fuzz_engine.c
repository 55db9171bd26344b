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

static uint32_t table_action(const xf_program *p, uint32_t table, uint32_t choice) {
    /* The default action is one the table has; others may not be, which the engine must survive too. */
    return choice % 3 ? p->tables[table].default_action : choice;
}

static void control(xf_engine *e, const xf_program *p, input *in) {
    static uint64_t key[WORDS], mask[WORDS], ranges[WORDS], args[WORDS];
    uint32_t table = p->table_count ? (uint32_t)take(in, 1) % p->table_count : 0, handle = (uint32_t)take(in, 1) % 64;
    uint32_t ids[8], weights[8], pairs[16], i;
    uint8_t active[8];
    uint64_t rates[4];
    switch (take(in, 1) % 24) {
    case 0:
    case 1:
    case 2:
        if (!p->table_count || p->tables[table].key_words > WORDS || p->tables[table].range_words > WORDS) return;
        words(in, key, p->tables[table].key_words);
        words(in, mask, p->tables[table].key_words);
        words(in, ranges, p->tables[table].range_words);
        words(in, args, p->tables[table].arg_words);
        xf_table_add(e, table, key, mask, ranges, (uint32_t)take(in, 1), table_action(p, table, (uint32_t)take(in, 1)),
                     args, &handle);
        break;
    case 3: xf_table_delete(e, table, handle); break;
    case 4:
        words(in, args, WORDS / 8);
        if (p->table_count) xf_table_modify(e, table, handle, table_action(p, table, (uint32_t)take(in, 1)), args);
        break;
    case 5:
        words(in, args, WORDS / 8);
        if (p->table_count) xf_table_default(e, table, table_action(p, table, (uint32_t)take(in, 1)), args);
        break;
    case 6: xf_table_default_reset(e, table); break;
    case 7: xf_table_clear(e, table); break;
    case 8:
        if (!p->profile_count) return;
        words(in, args, WORDS / 8);
        xf_member_add(e, (uint32_t)take(in, 1) % p->profile_count, (uint32_t)take(in, 1) % 16, (uint32_t)take(in, 1), args);
        break;
    case 9: xf_member_delete(e, (uint32_t)take(in, 1), (uint32_t)take(in, 1) % 16); break;
    case 10: xf_group_add(e, (uint32_t)take(in, 1) % 4, (uint32_t)take(in, 1) % 8); break;
    case 11:
        for (i = 0; i < 8; i++) {
            ids[i] = (uint32_t)take(in, 1) % 16;
            weights[i] = (uint32_t)take(in, 1);
            active[i] = (uint8_t)take(in, 1) & 1;
        }
        xf_group_set(e, (uint32_t)take(in, 1) % 4, (uint32_t)take(in, 1) % 8, ids, weights, active, (uint32_t)take(in, 1) % 9);
        break;
    case 12: xf_group_delete(e, (uint32_t)take(in, 1) % 4, (uint32_t)take(in, 1) % 8); break;
    case 13:
        if (!p->table_count || p->tables[table].key_words > WORDS || p->tables[table].range_words > WORDS) return;
        words(in, key, p->tables[table].key_words);
        words(in, mask, p->tables[table].key_words);
        words(in, ranges, p->tables[table].range_words);
        xf_table_add_indirect(e, table, key, mask, ranges, 1, (int)take(in, 1) & 1, (uint32_t)take(in, 1) % 16, &handle);
        break;
    case 14:
        words(in, args, 64);
        if (p->register_count)
            xf_register_write(e, (uint32_t)take(in, 1) % p->register_count, (uint32_t)take(in, 2), args);
        break;
    case 15:
        for (i = 0; i < 4; i++) rates[i] = take(in, 6);
        xf_meter_set(e, (uint32_t)take(in, 1), (uint32_t)take(in, 1), rates, (uint32_t)take(in, 1) % 3);
        xf_entry_meter_set(e, table, handle, rates, 2);
        break;
    case 16:
    case 17:
        for (i = 0; i < 16; i++) pairs[i] = (uint32_t)take(in, 1) % 8;
        if (take(in, 1) & 1) xf_multicast_set(e, (uint32_t)take(in, 1) % 16, pairs, (uint32_t)take(in, 1) % 5);
        else
            xf_clone_set(e, (uint32_t)take(in, 1) % 16, pairs, (uint32_t)take(in, 1) % 5, (uint32_t)take(in, 1) % 16,
                         (uint32_t)take(in, 1));
        break;
    case 18:
        if (take(in, 1) & 1) xf_multicast_delete(e, (uint32_t)take(in, 1) % 16);
        else xf_clone_delete(e, (uint32_t)take(in, 1) % 16);
        break;
    case 19:
        words(in, key, 8);
        words(in, mask, 8);
        xf_value_set_add(e, (uint32_t)take(in, 1), key, mask);
        break;
    case 20: xf_entry_timeout(e, table, handle, take(in, 4)); break;
    case 21: xf_port_up(e, (uint32_t)take(in, 1) % PORTS, (int)take(in, 1) & 1); break;
    case 22: {
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
    case 23: xf_buffer_set(e, take(in, 2)); break;
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
            now += take(&in, 4);
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
    now += 1000000000000ul;
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
        size = next_random() % 4096;
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
