/* Throws frames, control calls and time at an engine that runs one of several generated programs.
 *
 * The input's first byte chooses the program; its 128 leaves out the program's prologue, commands that fill its tables as
 * a controller would. The rest is commands. A table written by build.py (`fuzzed`) lists the programs. It is linked
 * with the engine's sources, built with XF_SANITIZE, and with libFuzzer or replay.c. */
#include "fuzz.h"
#include "pipeline.h"

void abort(void);

#define WORDS 256
#define PORTS 6
#define CPU 510
#define LOOP 508
#define TIMER 509
#define STEPS 400 /* events that one step of time runs at most: a packet may go round for ever */

static uint32_t table_action(const xf_program *p, uint32_t table, uint32_t choice) {
    /* The default action is one the table has; others may not be, which the engine must survive too. */
    return choice == 255 ? p->tables[table].default_action : choice;
}

/* The last one never exists. */
static const uint32_t ports[] = {0, 1, 2, 3, 4, 5, LOOP, TIMER, CPU, 77};
#define PORT_CHOICES 10

static uint32_t take_port(input *in) { return ports[take(in, 1) % PORT_CHOICES]; }

static int has_table(const xf_program *p, uint32_t table) {
    return p->table_count && p->tables[table].key_words <= WORDS && p->tables[table].range_words <= WORDS;
}

static void queue_settings(xf_engine *e, input *in) {
    xf_queue_settings q = {0};
    int port = (int)take(in, 1) % (PORTS + 2) - 1, cls = (int)take(in, 1) % 9 - 1;
    q.rate_bps = number(in);
    q.burst_bytes = number(in);
    q.rate_pps = number(in);
    q.guaranteed_bytes = number(in);
    q.headroom_bytes = number(in);
    q.alpha = number(in);
    q.weight = number(in);
    /* Never the limits: they bound what this test holds in memory. */
    xf_queue_set(e, port, cls, &q, (uint32_t)take(in, 2) & ~(uint32_t)(XF_SET_LIMIT_BYTES | XF_SET_LIMIT_PACKETS));
}

static void read_all(xf_engine *e, const xf_program *p, uint32_t table, uint32_t handle, uint32_t which) {
    static uint64_t words[WORDS * 4];
    xf_port_stats port;
    xf_queue_stats queue;
    xf_queue_settings settings;
    xf_buffer_stats buffer;
    xf_table_stats stats;
    xf_faults faults;
    uint64_t a, b;
    xf_port_read(e, which, &port);
    xf_queue_read(e, which, which % 9, &queue);
    xf_queue_settings_read(e, which, which % 9, &settings);
    xf_buffer_read(e, &buffer);
    xf_faults_read(e, &faults);
    xf_table_stats_read(e, table, &stats);
    xf_entry_counter(e, table, handle, &a, &b);
    xf_entry_meter_read(e, table, handle, words);
    xf_entry_idle(e, table, handle, &a);
    xf_counter_read(e, which, which % 8, 8, words);
    xf_meter_read(e, which, which % 2, 2, words);
    if (which < p->register_count && p->registers[which].limbs <= WORDS) xf_register_read(e, which, which % 4, 4, words);
    xf_watermark_reset(e, which);
    xf_buffer_watermark_reset(e);
}

static void apply(xf_engine *e, xf_op *o) { xf_apply_ops(e, o, 1, NULL); }

static xf_op op_of(uint32_t kind, uint32_t object, uint32_t id) {
    static const uint64_t nothing[WORDS];
    static const uint32_t none[64];
    static const uint8_t inactive[64];
    xf_op o;
    memset(&o, 0, sizeof o);
    o.kind = kind;
    o.object = object;
    o.id = id;
    o.action = XF_NO_ACTION;
    o.key = o.mask = o.ranges = o.words = nothing;
    o.ints = o.weights = none;
    o.active = inactive;
    return o;
}

static void set_group(xf_engine *e, input *in) {
    uint32_t ids[8], weights[8], i, count = (uint32_t)take(in, 1) % 9, profile;
    uint8_t active[8];
    xf_op o;
    for (i = 0; i < count; i++) {
        ids[i] = (uint32_t)take(in, 1) % 16;
        weights[i] = (uint32_t)take(in, 1);
        active[i] = (uint8_t)take(in, 1) & 1;
    }
    profile = (uint32_t)take(in, 1) % 4;
    o = op_of(XF_GROUP_SET, profile, (uint32_t)take(in, 1) % 8);
    o.count = count;
    o.ints = ids;
    o.weights = weights;
    o.active = active;
    apply(e, &o);
}

static void set_copies(xf_engine *e, input *in, int clones) {
    uint32_t pairs[16], i;
    xf_op o = op_of(clones ? XF_CLONE_SET : XF_MULTICAST_SET, (uint32_t)number(in), 0);
    /* Few replicas: packets that copy themselves at one instant are bounded in depth, not in number. */
    o.count = (uint32_t)take(in, 1) % 5;
    for (i = 0; i < 2 * o.count; i++) pairs[i] = (uint32_t)number(in);
    o.ints = pairs;
    if (clones) {
        o.ref = (uint32_t)number(in);
        o.length = (uint32_t)number(in);
        o.rank = (uint32_t)take(in, 1) % 9;
    }
    apply(e, &o);
}

static void table_call(xf_engine *e, const xf_program *p, input *in, uint32_t op) {
    static const uint32_t kinds[] = {XF_TABLE_ADD, XF_TABLE_ADD, XF_TABLE_DELETE, XF_TABLE_MODIFY, XF_TABLE_DEFAULT};
    static uint64_t key[WORDS], mask[WORDS], ranges[WORDS], args[WORDS];
    uint32_t table = p->table_count ? (uint32_t)take(in, 1) % p->table_count : 0, slot = (uint32_t)take(in, 1) % 64;
    uint32_t choice;
    xf_op o = op_of(op < 21 ? kinds[op - 16] : XF_TABLE_CLEAR, table, slot);
    if (!has_table(p, table)) return;
    o.key = key;
    o.mask = mask;
    o.ranges = ranges;
    o.words = args;
    switch (op) {
    case 16:
    case 17:
        words(in, key, p->tables[table].key_words);
        words(in, mask, p->tables[table].key_words);
        words(in, ranges, p->tables[table].range_words);
        o.rank = (uint32_t)number(in);
        choice = (uint32_t)take(in, 1);
        if (op == 16) {
            words(in, args, p->tables[table].arg_words);
            o.action = table_action(p, table, choice);
        } else {
            o.is_group = choice & 1;
            o.ref = choice >> 1 & 15;
        }
        break;
    case 18: break;
    case 19:
    case 20:
        o.action = table_action(p, table, (uint32_t)take(in, 1));
        words(in, args, p->tables[table].arg_words);
        break;
    case 21:
        if (slot & 1) o.kind = XF_TABLE_DEFAULT_RESET;
        break;
    case 22:
        o.kind = slot & 1 ? XF_TABLE_MODIFY : XF_TABLE_DEFAULT;
        o.is_group = slot >> 1 & 1;
        o.ref = (uint32_t)take(in, 1) % 16;
        break;
    case 23:
        o.kind = XF_ENTRY_TIMEOUT;
        o.time = number(in);
        break;
    case 24:
        read_all(e, p, table, slot, (uint32_t)take(in, 1));
        o.kind = slot & 1 ? XF_ENTRY_COUNTER : XF_ENTRY_METER_CLEAR;
        o.packets = o.bytes = slot;
        break;
    }
    apply(e, &o);
}

static void state_call(xf_engine *e, const xf_program *p, input *in, uint32_t op) {
    static uint64_t a[WORDS], b[WORDS];
    uint32_t i = (uint32_t)take(in, op == 28 || op == 32 || op == 33 || op == 34 ? 0 : 1);
    xf_op o = op_of(XF_MEMBER_ADD, i, 0);
    (void)b;
    o.words = a;
    switch (op) {
    case 25:
        o.id = (uint32_t)take(in, 1) % 16;
        i = (uint32_t)take(in, 1);
        words(in, a, 32);
        if (i & 128) o.kind = XF_MEMBER_MODIFY;
        o.action = i & 127;
        break;
    case 26:
        o.kind = XF_MEMBER_DELETE;
        o.id = (uint32_t)take(in, 1) % 16;
        break;
    case 27:
        o.kind = XF_GROUP_ADD;
        o.id = (uint32_t)take(in, 1) % 8;
        break;
    case 28: set_group(e, in); return;
    case 29:
        o.kind = XF_GROUP_DELETE;
        o.id = (uint32_t)take(in, 1) % 8;
        break;
    case 30:
        o.kind = XF_REGISTER;
        o.id = (uint32_t)number(in);
        o.count = 1;
        words(in, a, 8);
        break;
    case 31:
        o.kind = XF_METER;
        o.id = (uint32_t)take(in, 1);
        o.count = 1;
        words(in, a, 4);
        o.words = take(in, 1) % 3 ? a : NULL;
        apply(e, &o);
        o.kind = o.id & 1 ? XF_METER_CLEAR : XF_ENTRY_METER;
        o.id %= 64;
        break;
    case 32: set_copies(e, in, 0); return;
    case 33: set_copies(e, in, 1); return;
    case 34:
        o.kind = take(in, 1) & 1 ? XF_MULTICAST_DELETE : XF_CLONE_DELETE;
        o.object = (uint32_t)number(in);
        break;
    case 35:
        o.kind = XF_VALUE_SET;
        o.object = i & 127;
        o.count = 1 + (i >> 7);
        words(in, a, 16);
        break;
    }
    (void)p;
    apply(e, &o);
}

/* Any operation, each of its fields of the input. Its pointers lead to more words than one reads. */
static void raw_operation(const xf_program *p, input *in, xf_op *o) {
    static uint64_t key[4][WORDS], mask[4][WORDS], ranges[4][WORDS], args[4][WORDS];
    static uint32_t ints[4][64], weights[4][64];
    static uint8_t active[4][64];
    static uint32_t turn;
    uint32_t t = turn++ % 4, i, choice;
    *o = op_of((uint32_t)take(in, 1) % (XF_OPS + 2), (uint32_t)take(in, 1) % 8, (uint32_t)take(in, 1) % 64);
    o->count = (uint32_t)take(in, 1) % (o->kind == XF_MULTICAST_SET || o->kind == XF_CLONE_SET ? 5 : 9);
    o->is_group = (uint32_t)take(in, 1) & 1;
    o->ref = (uint32_t)take(in, 1) % 16;
    o->rank = (uint32_t)number(in);
    o->packets = o->bytes = o->time = number(in);
    o->length = (uint32_t)take(in, 1);
    o->ranges_count = (uint32_t)take(in, 1) % 3;
    choice = (uint32_t)take(in, 1);
    if (choice < 254) o->action = choice;
    else if (choice == 254 && o->object < p->table_count) o->action = p->tables[o->object].default_action;
    words(in, key[t], 4);
    words(in, mask[t], 4);
    words(in, ranges[t], 4);
    words(in, args[t], 12);
    for (i = 0; i < 8; i++) {
        ints[t][i] = (uint32_t)take(in, 1) % 16;
        weights[t][i] = (uint32_t)take(in, 1);
        active[t][i] = (uint8_t)take(in, 1) & 1;
    }
    o->key = key[t];
    o->mask = mask[t];
    o->ranges = ranges[t];
    o->words = (o->kind == XF_METER || o->kind == XF_ENTRY_METER) && choice & 1 ? NULL : args[t];
    o->ints = ints[t];
    o->weights = weights[t];
    o->active = active[t];
}

static void batch(xf_engine *e, const xf_program *p, input *in) {
    xf_op ops[4];
    uint32_t count = 1 + (uint32_t)take(in, 1) % 4, i, done;
    for (i = 0; i < count; i++) raw_operation(p, in, &ops[i]);
    xf_apply_ops(e, ops, count, &done);
    if (done > count) abort();
}

static void port_call(xf_engine *e, input *in, uint32_t op) {
    uint32_t port = take_port(in);
    switch (op) {
    case 36: xf_port_up(e, port, (int)take(in, 1) & 1); break;
    case 37:
        xf_port_remove(e, port);
        port = take_port(in);
        xf_port_add(e, port, number(in), number(in));
        break;
    case 38: xf_port_rate(e, port, number(in)); break;
    case 39: xf_port_delay(e, port, number(in)); break;
    case 40: {
        uint64_t threshold = number(in), every = take(in, 1);
        xf_port_loss(e, port, (int)take(in, 1) & 1, threshold, (uint32_t)every, 1);
        break;
    }
    case 41: queue_settings(e, in); break;
    case 42: xf_buffer_set(e, number(in)); break;
    case 43: xf_catch_up(e, number(in)); break;
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

static void poll_all(xf_engine *e, uint64_t now) {
    xf_frame out[32];
    int n, i;
    uint32_t k;
    volatile uint64_t sum = 0;
    do {
        n = xf_poll(e, now, out, 32);
        for (i = 0; i < n; i++) {
            if (out[i].length > XF_MAX_FRAME || out[i].time > now) abort();
            for (k = 0; k < out[i].length; k++) sum += out[i].data[k]; /* every byte must be readable */
        }
    } while (n == 32);
}

/* Runs up to `until`; returns the time reached. */
static uint64_t advance(xf_engine *e, uint64_t now, uint64_t until) {
    uint32_t step;
    for (step = 0; step < STEPS; step++) {
        uint64_t due = xf_deadline(e);
        if (due > until) {
            poll_all(e, until);
            return until;
        }
        if (due > now) now = due;
        poll_all(e, now);
    }
    return now;
}

static void receive(xf_engine *e, input *in, uint32_t length, uint64_t now) {
    uint32_t port = take_port(in), given = (uint32_t)take(in, 1);
    /* A block of its own, so that a read beyond the frame is seen. */
    uint8_t *frame = calloc(1, length > given ? length : given + 1);
    if (given > (size_t)(in->end - in->at)) given = (uint32_t)(in->end - in->at);
    if (length < given) length = given;
    memcpy(frame, in->at, given);
    in->at += given;
    frame = realloc(frame, length ? length : 1);
    xf_rx(e, port, frame, length, now);
    free(frame);
}

static uint64_t commands(xf_engine *e, const xf_program *p, input *in, uint64_t now) {
    while (in->at < in->end) {
        uint32_t op = (uint32_t)take(in, 1) % 48;
        if (op < 11) receive(e, in, 0, now);
        else if (op == 11) receive(e, in, (uint32_t)take(in, 2) % 20000, now);
        else if (op < 14) now = advance(e, now, now + take(in, 1) * 100);
        else if (op == 14) now = advance(e, now, now + take(in, 4));
        else if (op == 15) drain(e);
        else if (op < 25) table_call(e, p, in, op);
        else if (op < 36) state_call(e, p, in, op);
        else if (op < 44) port_call(e, in, op);
        else if (op == 44) xf_load(e, p);
        else if (op == 45) batch(e, p, in);
        else receive(e, in, 0, now);
    }
    return now;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const fuzzed_program *chosen;
    const xf_program *p;
    xf_engine *e;
    uint64_t now = 0;
    uint32_t i;
    xf_queue_settings queue = {0};
    input in = {data, data + size};
    if (!size) return 0;
    i = (uint32_t)take(&in, 1);
    chosen = &fuzzed[(i & 127) % fuzzed_count];
    p = chosen->get();
    e = xf_new(1, CPU, 511, i & 64 ? 1000000ul : 1000000000ul, 8, 1);
    if (!e || xf_load(e, p) < 0) abort();
    queue.limit_bytes = 20000;
    queue.limit_packets = 40;
    xf_queue_set(e, -1, -1, &queue, XF_SET_LIMIT_BYTES | XF_SET_LIMIT_PACKETS);
    for (i = 0; i < PORTS; i++) xf_port_add(e, i, i % 3 * 1000000000ul, i * 100);
    xf_port_add(e, LOOP, 0, 0);
    xf_port_add(e, TIMER, 1000000000ul, 0);
    if (!(data[0] & 128)) {
        input prologue = {chosen->prologue, chosen->prologue + chosen->prologue_bytes};
        now = commands(e, p, &prologue, now);
    }
    now = commands(e, p, &in, now);
    advance(e, now, now + 1000000000000ul);
    xf_load(e, NULL);
    xf_free(e);
    return 0;
}
