/* The engine: its life, and the clockwork that runs events and takes frames in and out. */
#include "engine.h"
#include "fabric.h"
#include "hash.h"

#define CPU_FRAMES 4096u
#define RING_WORDS (1u << 16)

void engine_lock(xf_engine *e) {
    xf_mutex *lock;
    for (;;) {
        lock = atomic_get(&e->lock);
        pthread_mutex_lock(lock);
        if (XF_LIKELY(lock == atomic_get(&e->lock))) return;
        pthread_mutex_unlock(lock); /* the engine has joined or left a fabric meanwhile */
    }
}
void engine_unlock(xf_engine *e) { pthread_mutex_unlock(atomic_peek(&e->lock)); }

unsigned xf_abi(void) { return XF_ABI; }

/* ---- life ---- */

#define LOOP_LIMIT 128u
#define BMV2_LOOP_LIMIT 65536u

xf_engine *xf_new(uint32_t device_id, uint32_t cpu_port, uint32_t drop_port, uint64_t timestamp_hz,
                  uint32_t priority_queues, uint64_t seed) {
    static xf_mutex once;
    static int ready;
    xf_engine *e;
    xf_port *cpu;
    int c;
    if (!timestamp_hz || timestamp_hz > NS_PER_S || !priority_queues || priority_queues > XF_CLASSES) return NULL;
    if (cpu_port >= XF_MAX_PORTS) return NULL;
    pthread_mutex_lock(&once);
    if (!ready) hash_init();
    ready = 1;
    pthread_mutex_unlock(&once);
    e = memory_take(sizeof *e);
    if (!e) return NULL;
    atomic_set(&e->lock, &e->mutex);
    e->device_id = device_id;
    e->cpu_port = cpu_port;
    e->drop_port = drop_port;
    e->timestamp_hz = timestamp_hz;
    e->priority_queues = priority_queues;
    e->loop_limit = LOOP_LIMIT;
    e->random = seed ^ ((uint64_t)device_id << 32);
    e->next_sweep = XF_NEVER;
    for (c = 0; c < XF_CLASSES; c++) {
        e->settings[c].limit_bytes = 16ul << 20;
        e->settings[c].limit_packets = 16384;
        e->settings[c].alpha = 1u << 16;
    }
    cpu = port_get(e, cpu_port);
    if (!cpu || ring_init(&e->digests, RING_WORDS) || ring_init(&e->pauses, RING_WORDS) ||
        ring_init(&e->idles, RING_WORDS / 16) || ring_init(&e->logs, RING_WORDS / 16)) {
        xf_free(e);
        return NULL;
    }
    cpu->exists = 1;
    return e;
}

void xf_free(xf_engine *e) {
    uint32_t i;
    if (!e) return;
    if (e->fabric) fabric_leave(e);
    if (e->crashed) return; /* its lists and pools may lead anywhere */
    engine_unload(e);
    for (i = 0; i < XF_MAX_PORTS; i++) {
        if (!e->ports[i]) continue;
        list_free(&e->ports[i]->flight);
        memory_give(e->ports[i], sizeof *e->ports[i]);
    }
    list_free(&e->out);
    list_free(&e->held);
    list_free(&e->cpu);
    list_free(&e->cpu_held);
    replicas_free(&e->groups);
    replicas_free(&e->sessions);
    free(e->digests.words);
    free(e->pauses.words);
    free(e->idles.words);
    free(e->logs.words);
    free(e->trace);
    memory_give(e, sizeof *e);
}

/* ---- time ---- */

static void arrive(xf_engine *e, xf_port *port) {
    xf_packet *p = list_pop(&port->flight);
    events_set(&e->events, EV_ID(EV_ARRIVE, port->number), port->flight.head ? port->flight.head->time : XF_NEVER);
    if (port->number != e->cpu_port) {
        list_push(&e->out, p);
    } else if (e->cpu_count >= CPU_FRAMES) {
        count_drop(e, XF_DROP_CPU_QUEUE, port->number, p->length);
        packet_free(p);
    } else {
        list_push(&e->cpu, p);
        e->cpu_count++;
        engine_tell(e, XF_PENDING_CPU);
    }
}

static void loop_back(xf_engine *e, xf_port *port) {
    xf_packet *p = list_pop(&port->loop);
    events_set(&e->events, EV_ID(EV_LOOP, port->number), port->loop.head ? port->loop.head->time : XF_NEVER);
    recirculate_pass(e, p);
}

/* Runs every event due by `until`; those at `until` itself only if `inclusive`. */
static void run(xf_engine *e, xf_ps until, int inclusive) {
    if (atomic_peek(&e->offered)) engine_take_offer(e);
    if (e->catch_up && until > e->now + e->catch_up) e->now = until - e->catch_up;
    for (;;) {
        xf_ps at = events_first(&e->events);
        uint32_t id;
        xf_port *port;
        if (at == XF_NEVER || at > until || (at == until && !inclusive)) break;
        id = e->events.heap[0].id;
        port = e->ports[id % XF_MAX_PORTS];
        if (at > e->now) e->now = at; /* an event set for a time already past runs now */
        events_set(&e->events, id, XF_NEVER);
        switch (id / XF_MAX_PORTS) {
        case EV_EXPIRE: port_expire(e, port); break;
        case EV_LOOP: loop_back(e, port); break;
        case EV_ARRIVE: arrive(e, port); break;
        default: port_start(e, port); break;
        }
    }
    e->now = until;
}

static xf_ps clock_in(xf_engine *e, uint64_t now) {
    xf_ps at;
    if (!e->based) {
        uint32_t i, c;
        e->based = 1;
        e->base = now;
        /* Pauses written before the first time was known. */
        for (i = 0; i < XF_MAX_PORTS; i++) {
            xf_port *p = e->ports[i];
            if (!p || !p->paused) continue;
            for (c = 0; c < XF_CLASSES; c++)
                if (p->paused & (1u << c)) p->queues[c].since = now;
            port_schedule_expiry(e, p);
        }
    }
    at = ps_of(e, now);
    return at > e->now ? at : e->now;
}

/* The packet to take through ingress: `own` itself if it is of this engine's pool and its program's headers have room,
 * else a copy of the frame. NULL (and `own` still there) without memory. */
static xf_packet *opened(xf_engine *e, xf_packet *own, const uint8_t *frame, uint32_t length) {
    xf_packet *p = own;
    if (!own || own->pool != e->pool || packet_headroom(own) < e->program->header_bytes) {
        p = packet_new(e->pool, length);
        if (!p) return NULL;
        memcpy(p->data, frame, length);
    } else {
        packet_reset(p);
    }
    if (!packet_open(p, e->phvs)) {
        if (p != own) packet_free(p);
        return NULL;
    }
    if (own && p != own) packet_free(own);
    return p;
}

/* `own`, if not NULL, is a packet that holds the frame and is given away. */
static void receive(xf_engine *e, uint32_t port, xf_packet *own, const uint8_t *frame, uint32_t length) {
    xf_port *p = port < XF_MAX_PORTS ? e->ports[port] : NULL;
    enum xf_drop reason;
    xf_packet *packet;
    if (!p || !p->exists) reason = XF_DROP_RX_NO_PORT;
    else if (!p->up) reason = XF_DROP_PORT_DOWN;
    else if (loss_takes(&p->loss[1])) reason = XF_DROP_LINK_LOSS;
    else if (!e->program) reason = XF_DROP_NO_PROGRAM;
    else if (length > XF_MAX_FRAME) reason = XF_DROP_OVERSIZE;
    else if (!(packet = opened(e, own, frame, length))) reason = XF_DROP_NO_MEMORY;
    else {
        p->rx_packets++;
        p->rx_bytes += length;
        packet->ingress_length = length;
        ingress_pass(e, packet, port, XF_NORMAL, NULL, 0);
        return;
    }
    count_drop(e, reason, port, length);
    if (own) packet_free(own);
}

int xf_rx(xf_engine *e, uint32_t port, const uint8_t *frame, uint32_t length, uint64_t now) {
    engine_lock(e);
    run(e, clock_in(e, now), 0);
    receive(e, port, NULL, frame, length);
    engine_unlock(e);
    return 0;
}

int xf_rx_burst(xf_engine *e, const xf_frame *frames, uint32_t count, uint64_t now) {
    uint32_t i;
    engine_lock(e);
    run(e, clock_in(e, now), 0);
    for (i = 0; i < count; i++) receive(e, frames[i].port, NULL, frames[i].data, frames[i].length);
    engine_unlock(e);
    return 0;
}

static uint32_t hand_out(xf_engine *e, xf_list *from, xf_list *held, xf_frame *out, uint32_t room) {
    uint32_t n = 0;
    list_free(held);
    while (n < room && from->head) {
        xf_packet *p = list_pop(from);
        out[n].data = p->data;
        out[n].length = p->length;
        out[n].port = p->port;
        /* The first whole nanosecond at which the last bit is there. */
        out[n].time = ns_of(e, p->time + PS_PER_NS - 1);
        list_push(held, p);
        n++;
    }
    return n;
}

void xf_catch_up(xf_engine *e, uint64_t limit) {
    engine_lock(e);
    e->catch_up = limit > XF_NEVER / PS_PER_NS / 2 ? 0 : limit * PS_PER_NS;
    engine_unlock(e);
}

void xf_bmv2_compat(xf_engine *e) {
    engine_lock(e);
    e->compat = 1;
    e->loop_limit = BMV2_LOOP_LIMIT;
    engine_unlock(e);
}

int xf_poll(xf_engine *e, uint64_t now, xf_frame *out, uint32_t room) {
    uint32_t n;
    engine_lock(e);
    run(e, clock_in(e, now), 1);
    if (e->next_sweep != XF_NEVER && now >= e->next_sweep) engine_sweep(e);
    n = hand_out(e, &e->out, &e->held, out, room);
    engine_unlock(e);
    return (int)n;
}

int xf_cpu_take(xf_engine *e, xf_frame *out, uint32_t room) {
    uint32_t n;
    engine_lock(e);
    n = hand_out(e, &e->cpu, &e->cpu_held, out, room);
    e->cpu_count -= n;
    if (!e->cpu_count) engine_told(e, XF_PENDING_CPU);
    engine_unlock(e);
    return (int)n;
}

uint64_t engine_deadline(const xf_engine *e) {
    uint64_t at = XF_NEVER;
    xf_ps first = e->out.head ? e->out.head->time : events_first(&e->events);
    if (first != XF_NEVER) at = ns_of(e, first + PS_PER_NS - 1);
    return e->next_sweep < at ? e->next_sweep : at;
}

uint64_t xf_deadline(xf_engine *e) {
    uint64_t at;
    engine_lock(e);
    at = engine_deadline(e);
    engine_unlock(e);
    return at;
}

void engine_rx(xf_engine *e, uint32_t port, xf_packet *p, uint64_t now) {
    run(e, clock_in(e, now), 0);
    receive(e, port, p, p->data, p->length);
}

void engine_reach(xf_engine *e, uint64_t now) {
    if (e->based && ps_of(e, now) > e->now) e->now = ps_of(e, now);
}

void engine_poll(xf_engine *e, uint64_t now, xf_list *out) {
    run(e, clock_in(e, now), 1);
    if (e->next_sweep != XF_NEVER && now >= e->next_sweep) engine_sweep(e);
    *out = e->out;
    e->out.head = e->out.tail = NULL;
}

uint32_t xf_pending(xf_engine *e) { return atomic_peek(&e->pending); }

void xf_time(xf_engine *e, uint64_t *now) {
    engine_lock(e);
    *now = ns_of(e, e->now);
    engine_unlock(e);
}
