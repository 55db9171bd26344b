/* Everything that threads do at once, for sanitizers: `race_engine SECONDS`.
 *
 * Two packet threads serve two switches each, in a chain 0 - 1 = 2 - 3 (- a link in memory, = a pair of sockets between the
 * threads); a thread feeds frames into the first and takes them out of the last. Meanwhile control threads write and read all
 * that can be written and read, take switches down and up, restart them and hand them another build of their program.
 * Two more switches run in a fabric, which is made, run and taken apart over and over while control threads are at them.
 *
 * One program is linked twice, as program_a and program_b. What the owner of a switch must do itself is done here as the
 * Python side does it: nobody uses a switch while it is restarted, one thread at a time changes what it runs, and one at
 * a time takes CPU frames. */
#include "atomic.h"
#include "fabric.h"
#include "loop.h"
#include "pipeline.h"
#include "posix.h"
#include "sample.h"

int printf(const char *format, ...);
void exit(int code);
int atoi(const char *text);
int socketpair(int domain, int type, int protocol, int *ends);
int sched_yield(void);
int pthread_rwlock_rdlock(void *lock);
int pthread_rwlock_wrlock(void *lock);
int pthread_rwlock_unlock(void *lock);
#define AF_UNIX 1
#define SOCK_SEQPACKET 5
#define SOCK_NONBLOCK 04000

const xf_program *program_a(void);
const xf_program *program_b(void);

#define SWITCHES 4
#define CONTROLS 3
#define CPU_PORT 510
#define SECOND 1000000000ull

typedef struct switch_ {
    uint64_t alive[8]; /* pthread_rwlock_t: written while it is restarted */
    xf_engine *engine;
    xl_loop *loop;
    int device;
    int inside[5]; /* sockets by port, -1: none */
} switch_;

static switch_ switches[SWITCHES];
static xl_loop *loops[2];
static int in_end, out_end; /* of the chain */
static int over;
enum { FED, TAKEN, RESTARTS, BUILDS, FABRICS, CALLS_TO_FABRIC, CALLS, KINDS = CALLS + CONTROLS };
static uint64_t done[KINDS]; /* atomic; how often, each counted by one thread */

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void check(int ok, const char *what) {
    if (ok) return;
    printf("%s\n", what);
    exit(2);
}

static uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15ul;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ul;
    z = (z ^ z >> 27) * 0x94d049bb133111ebul;
    return z ^ z >> 31;
}

static int table_named(const char *name) {
    const xf_program *p = program_a();
    uint32_t i;
    for (i = 0; i < p->table_count; i++)
        if (strlen(p->tables[i].name) == strlen(name) && !memcmp(p->tables[i].name, name, strlen(name))) return (int)i;
    check(0, "the program has not the tables that it should have");
    return -1;
}

static int apply(xf_engine *e, xf_op operation) { return xf_apply_ops(e, &operation, 1, NULL); }

static int add(xf_engine *e, uint32_t table, uint32_t handle, const uint64_t *key, uint32_t action, const uint64_t *args) {
    static const uint64_t mask = ~0ul, none = 0;
    return apply(e, (xf_op){.kind = XF_TABLE_ADD, .object = table, .id = handle, .key = key, .mask = &mask,
                            .ranges = &none, .action = action, .words = args});
}

/* Every frame to `mac` leaves through `port`. */
static void route(xf_engine *e, uint64_t mac, uint64_t port) {
    uint64_t args[8] = {port};
    add(e, (uint32_t)table_named("EntitiesIngress.forwarding"), (uint32_t)mac, &mac, FORWARD_ACTION, args);
}

/* A multicast group of two copies and a clone session of the first, at once. */
static void replicate(xf_engine *e, const uint32_t *copies) {
    xf_op both[2] = {{.kind = XF_MULTICAST_SET, .object = 1, .count = 2, .ints = copies},
                     {.kind = XF_CLONE_SET, .object = 5, .count = 1, .ints = copies}};
    xf_apply_ops(e, both, 2, NULL);
}

/* ---- the chain ---- */

static void start(switch_ *s) {
    static const uint32_t out[SWITCHES] = {2, 3, 2, 4};
    uint32_t i = (uint32_t)(s - switches), port, copies[4] = {4, 1, 1, 2};
    s->engine = xf_new(i, CPU_PORT, 511, 1000000, 8, i);
    check(s->engine && !xf_load(s->engine, program_a()), "no switch");
    for (port = 1; port <= 4; port++) xf_port_add(s->engine, port, port == 4 ? 1000000000 : 0, 1000);
    for (port = 2; port <= 4; port++) route(s->engine, port, out[i]);
    replicate(s->engine, copies);
    s->loop = loops[i / 2];
    s->device = xl_device_add(s->loop, s->engine);
    check(s->device >= 0, "the packet loop takes no switch");
    for (port = 1; port <= 4; port++)
        if (s->inside[port] >= 0) check(!xl_port_add(s->loop, s->device, port, s->inside[port]), "the loop takes no port");
}

static void link_up(switch_ *s) {
    uint32_t i = (uint32_t)(s - switches), other = i ^ 1;
    xl_link(s->loop, s->device, 2, switches[other].device, 2);
}

static void stop(switch_ *s) {
    xl_device_remove(s->loop, s->device);
    xf_free(s->engine);
    s->engine = NULL;
}

static uint32_t make_frame(uint8_t *to, uint64_t *random) {
    static const uint16_t types[] = {0x800, 0x800, 0x800, 0x800, 0x1002, 0x1003, 0x1004, 0x1005, 0x1006, 0x1007, 0x1008};
    uint32_t length = 60 + (uint32_t)draw(random) % 1000;
    uint16_t type = types[draw(random) % (sizeof types / sizeof *types)];
    memset(to, 0, length);
    to[5] = 2;
    to[11] = (uint8_t)draw(random);
    to[12] = (uint8_t)(type >> 8);
    to[13] = (uint8_t)type;
    to[20] = (uint8_t)(draw(random) % 9);
    return length;
}

static void *feed(void *unused) {
    uint8_t data[2048];
    uint64_t random = 1;
    while (!atomic_get(&over)) {
        int moved = 0, i;
        for (i = 0; i < 32; i++)
            if (write(in_end, data, make_frame(data, &random)) > 0) {
                atomic_add(&done[FED], 1);
                moved = 1;
            }
        while (read(out_end, data, sizeof data) > 0) {
            atomic_add(&done[TAKEN], 1);
            moved = 1;
        }
        if (!moved) sched_yield();
    }
    return unused;
}

/* ---- control threads ---- */

static void call(xf_engine *e, uint64_t *random) {
    static const uint32_t ports[] = {1, 2, 3, 4};
    uint64_t words[64] = {0}, key = draw(random) % 8 + 5, now;
    uint32_t port = 1 + (uint32_t)draw(random) % 4, cls = (uint32_t)draw(random) % 8, handle;
    uint32_t table = (uint32_t)table_named("EntitiesIngress.forwarding"), aging = (uint32_t)table_named("EntitiesIngress.aging");
    uint8_t previous[4] = {0};
    xs_queue queues[32];
    xs_port counters[4];
    xf_queue_settings settings;
    xf_queue_stats queue;
    xf_port_stats stats;
    xf_buffer_stats buffer;
    xf_table_stats hits;
    xf_pause_event pauses[8];
    xf_idle_event idles[8];
    xf_faults faults;
    uint64_t drops[2][XF_DROP_REASONS];
    memset(&settings, 0, sizeof settings);
    switch (draw(random) % 30) {
    case 0: {
        uint64_t args[8] = {draw(random) % 5};
        handle = (uint32_t)key;
        if (!add(e, table, handle, &key, FORWARD_ACTION, args)) {
            xf_entry_counter(e, table, handle, &words[0], &words[1]);
            apply(e, (xf_op){.kind = XF_TABLE_MODIFY, .object = table, .id = handle, .action = FORWARD_ACTION, .words = args});
            apply(e, (xf_op){.kind = XF_TABLE_DELETE, .object = table, .id = handle});
        }
        break;
    }
    case 1: xf_table_stats_read(e, table, &hits); break;
    case 2: {
        uint64_t rates[4] = {1000, 100, 2000, 200}, args[8] = {port};
        handle = (uint32_t)key;
        if (!add(e, aging, handle, &key, METER_ACTION, args)) {
            xf_op both[2] = {{.kind = XF_ENTRY_TIMEOUT, .object = aging, .id = handle, .time = 1000000},
                             {.kind = XF_ENTRY_METER, .object = aging, .id = handle, .words = rates}};
            xf_apply_ops(e, both, 2, NULL);
            xf_entry_meter_read(e, aging, handle, words);
        }
        break;
    }
    case 3: apply(e, (xf_op){.kind = XF_TABLE_CLEAR, .object = aging}); break;
    case 4: xf_counter_read(e, 0, 0, 8, words); break;
    case 5: apply(e, (xf_op){.kind = XF_COUNTER, .id = 3, .count = 1, .packets = 1, .bytes = 1}); break;
    case 6: xf_register_read(e, 0, 0, 8, words); break;
    case 7: apply(e, (xf_op){.kind = XF_REGISTER, .id = 2, .count = 1, .words = words}); break;
    case 8: xf_port_up(e, port, (int)(draw(random) & 7) != 0); break;
    case 9: xf_port_rate(e, port, draw(random) & 1 ? 0 : 1000000000); break;
    case 10: xf_port_delay(e, port, draw(random) % 5000); break;
    case 11: xf_port_loss(e, port, 1, 0, draw(random) & 1 ? 100 : 0, 1); break;
    case 12:
        settings.limit_bytes = 100000;
        settings.weight = draw(random) & 1;
        xf_queue_set(e, draw(random) & 1 ? -1 : (int)port, -1, &settings, XF_SET_LIMIT_BYTES | XF_SET_WEIGHT);
        break;
    case 13: xf_queue_read(e, port, cls, &queue); break;
    case 14: xf_port_read(e, port, &stats); break;
    case 15: xf_buffer_set(e, draw(random) & 1 ? 1 << 20 : 0); break;
    case 16: xf_buffer_read(e, &buffer); break;
    case 17: xf_watermark_reset(e, port); break;
    case 18: xf_drops_read(e, drops[0], drops[1]); break;
    case 19: xf_faults_read(e, &faults); break;
    case 20: xs_look(e, ports, 4, previous, queues, 32, counters, words); break;
    case 21: xf_pause_take(e, pauses, 8, NULL); break;
    case 22: xf_idle_take(e, idles, 8); break;
    case 23: xf_digest_take(e, &handle, words, 64, &now); break;
    case 24: xf_deadline(e); break;
    case 25: xf_time(e, &now); break;
    case 26: xf_pending(e); break;
    case 27: {
        uint32_t copies[4] = {4, 1, port, 2};
        replicate(e, copies);
        break;
    }
    case 28: {
        uint64_t members[4] = {draw(random) % 2 ? 0x1002 : 0x7777, ~0ul, 0x7778, ~0ul};
        apply(e, (xf_op){.kind = XF_VALUE_SET, .count = (uint32_t)draw(random) % 3, .words = members});
        break;
    }
    case 29: {
        uint32_t both[2] = {0, 1}, weights[2] = {1, 1 + (uint32_t)draw(random) % 3};
        uint8_t active[2] = {1, (uint8_t)(draw(random) & 1)};
        uint64_t args[8] = {port};
        xf_op all[4] = {{.kind = XF_MEMBER_ADD, .id = 0, .words = args}, {.kind = XF_MEMBER_ADD, .id = 1, .words = args},
                        {.kind = XF_GROUP_ADD, .id = 0},
                        {.kind = XF_GROUP_SET, .id = 0, .count = 2, .ints = both, .weights = weights, .active = active}};
        uint32_t i;
        for (i = 0; i < 4; i++) apply(e, all[i]);
        xf_meter_read(e, 0, 0, 4, words);
        break;
    }
    }
}

static void call_loop(switch_ *s, uint64_t *random) {
    uint32_t ports[4] = {1, 2, 3, 4};
    uint64_t words[4];
    xl_port_stats stats;
    switch (draw(random) % 4) {
    case 0: xl_port_read(s->loop, s->device, 1 + (uint32_t)draw(random) % 4, &stats); break;
    case 1: xl_unattached_read(s->loop, s->device, words); break;
    case 2: xl_losses(s->loop, s->device, ports, 4, words); break;
    case 3: xl_wake(s->loop, s->device); break;
    }
}

static void *control(void *seed) {
    uint64_t random = (uint64_t)seed, *calls = &done[CALLS + (uint64_t)seed], value;
    int devices[XL_MAX_DEVICES], i;
    while (!atomic_get(&over)) {
        switch_ *s = &switches[draw(&random) % SWITCHES];
        pthread_rwlock_rdlock(s->alive);
        for (i = 0; i < 8; i++) call(s->engine, &random);
        call_loop(s, &random);
        read(xl_event_fd(s->loop), &value, sizeof value);
        xl_pending_take(s->loop, devices, XL_MAX_DEVICES);
        pthread_rwlock_unlock(s->alive);
        atomic_add(calls, 8);
    }
    return NULL;
}

/* What the thread of a control plane does by itself: CPU frames, other builds, programs, restarts. */
static void *own(void *unused) {
    uint64_t random = 99;
    while (!atomic_get(&over)) {
        uint32_t which = (uint32_t)draw(&random) % SWITCHES, step = (uint32_t)draw(&random) % 8;
        switch_ *s = &switches[which];
        xf_frame frames[16];
        uint8_t data[128] = {0};
        struct timespec pause = {0, 500000};
        if (step == 7) {
            pthread_rwlock_wrlock(s->alive);
            stop(s);
            start(s);
            link_up(s);
            pthread_rwlock_unlock(s->alive);
            atomic_add(&done[RESTARTS], 1);
        } else if (step == 6) {
            xf_load(s->engine, program_a());
            route(s->engine, 2, which == 1 ? 3 : which == 3 ? 4 : 2);
        } else if (step >= 3) {
            const xf_program *at = xf_running(s->engine), *a = program_a(), *b = program_b();
            check(!xf_offer(s->engine, at, at == a ? b : a), "another build of the same program was refused");
            atomic_add(&done[BUILDS], 1);
        } else if (xf_cpu_take(s->engine, frames, 16) > 0) {
            memcpy(data, frames[0].data, frames[0].length < 128 ? frames[0].length : 128);
        } else {
            data[1] = 2 << 5; /* packet-out to port 1 */
            xf_rx(s->engine, CPU_PORT, data, 128, now_ns());
            xl_wake(s->loop, s->device);
        }
        nanosleep(&pause, NULL);
    }
    return unused;
}

/* ---- the fabric ---- */

static xf_engine *pair[2];
static xf_fabric *fabric;
static uint64_t fabric_alive[8];
static uint64_t next_frame, fabric_random = 5;

static void foreign_rx(uint32_t node, uint32_t port, const uint8_t *frame, uint32_t length, uint64_t now) {
    (void)node, (void)port, (void)frame, (void)length, (void)now;
}
static void foreign_poll(uint32_t node, uint64_t now) {
    uint8_t data[2048];
    (void)node;
    while (next_frame <= now) {
        xf_fabric_send(fabric, 0, data, make_frame(data, &fabric_random));
        next_frame += 1000;
    }
}
static uint64_t foreign_deadline(uint32_t node) {
    (void)node;
    return next_frame;
}

static void *run_fabrics(void *unused) {
    static const xf_foreign foreign = {foreign_rx, foreign_poll, foreign_deadline};
    while (!atomic_get(&over)) {
        uint64_t until;
        int a, b, host;
        pthread_rwlock_wrlock(fabric_alive);
        fabric = xf_fabric_new(&foreign);
        pthread_rwlock_unlock(fabric_alive);
        check(fabric != NULL, "no fabric");
        a = xf_fabric_add_engine(fabric, pair[0]); /* while others are at them */
        b = xf_fabric_add_engine(fabric, pair[1]);
        host = xf_fabric_add_foreign(fabric);
        check(a >= 0 && b >= 0 && host >= 0, "the fabric takes no node");
        xf_fabric_connect(fabric, (uint32_t)host, 0, (uint32_t)a, 1);
        xf_fabric_connect(fabric, (uint32_t)a, 2, (uint32_t)b, 2);
        xf_fabric_touch_all(fabric);
        until = next_frame;
        for (int i = 0; i < 4; i++) {
            const xf_program *at = xf_running(pair[i & 1]);
            xf_offer(pair[i & 1], at, at == program_a() ? program_b() : program_a());
            xf_fabric_run(fabric, until += 1000000, XF_ASK_NEVER);
        }
        atomic_add(&done[FABRICS], 1);
        pthread_rwlock_wrlock(fabric_alive); /* nobody may be at its engines when it goes */
        xf_fabric_free(fabric);
        fabric = NULL;
        pthread_rwlock_unlock(fabric_alive);
    }
    return unused;
}

static void *control_fabric(void *seed) {
    uint64_t random = (uint64_t)seed;
    while (!atomic_get(&over)) {
        xf_fabric_stats stats;
        pthread_rwlock_rdlock(fabric_alive);
        call(pair[draw(&random) & 1], &random);
        if (fabric && !(draw(&random) % 16)) {
            xf_fabric_read(fabric, &stats);
            xf_fabric_interrupt(fabric);
            xf_fabric_touch(fabric, 0);
        }
        pthread_rwlock_unlock(fabric_alive);
        atomic_add(&done[CALLS_TO_FABRIC], 1);
    }
    return NULL;
}

/* For at least so long, and until all has happened: a busy machine may take its time. */
static void wait_for(uint64_t seconds) {
    uint64_t start = now_ns(), enough = 0;
    while (!enough || now_ns() - start < seconds * SECOND) {
        struct timespec pause = {0, 50000000};
        int i;
        nanosleep(&pause, NULL);
        enough = 1;
        for (i = 0; i < KINDS; i++) enough &= atomic_peek(&done[i]) > 10;
        check(now_ns() - start < (seconds + 100) * SECOND, "something never happens");
    }
}

int main(int count, char **arguments) {
    pthread_t threads[CONTROLS + 4];
    int ends[2], i, k, n = 0;
    for (i = 0; i < 2; i++) check((loops[i] = xl_new()) != NULL, "no packet loop");
    for (i = 0; i < SWITCHES; i++)
        for (k = 0; k < 5; k++) switches[i].inside[k] = -1;
    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends);
    in_end = ends[0];
    switches[0].inside[1] = ends[1];
    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends);
    switches[1].inside[3] = ends[0];
    switches[2].inside[1] = ends[1];
    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends);
    out_end = ends[0];
    switches[3].inside[4] = ends[1];
    for (i = 0; i < SWITCHES; i++) start(&switches[i]);
    link_up(&switches[0]);
    link_up(&switches[2]);
    for (i = 0; i < 2; i++) {
        pair[i] = xf_new(10 + (uint32_t)i, CPU_PORT, 511, 1000000000, 8, 1);
        check(pair[i] && !xf_load(pair[i], program_a()), "no switch");
        for (k = 1; k <= 4; k++) xf_port_add(pair[i], (uint32_t)k, 10000000000, 100);
        route(pair[i], 2, i ? 4 : 2);
        check(!xl_start(loops[i]), "no packet thread");
    }
    pthread_create(&threads[n++], NULL, feed, NULL);
    pthread_create(&threads[n++], NULL, own, NULL);
    pthread_create(&threads[n++], NULL, run_fabrics, NULL);
    pthread_create(&threads[n++], NULL, control_fabric, (void *)7);
    for (i = 0; i < CONTROLS; i++) pthread_create(&threads[n++], NULL, control, (void *)(uint64_t)i);
    wait_for(count > 1 ? (uint64_t)atoi(arguments[1]) : 3);
    atomic_set(&over, 1);
    for (i = 0; i < n; i++) pthread_join(threads[i], NULL);
    for (i = 0; i < 2; i++) xl_free(loops[i]);
    for (i = 0; i < SWITCHES; i++) xf_free(switches[i].engine);
    for (i = 0; i < 2; i++) xf_free(pair[i]);
    printf("fed %lu taken %lu restarts %lu builds %lu fabrics %lu calls %lu\n", done[FED], done[TAKEN], done[RESTARTS],
           done[BUILDS], done[FABRICS], done[CALLS_TO_FABRIC] + done[CALLS] + done[CALLS + 1] + done[CALLS + 2]);
    return 0;
}
