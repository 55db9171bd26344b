/* Inside the engine: its structures and what its files offer each other. Everything here runs under the engine's mutex.
 *
 * Time inside is `xf_ps`: picoseconds since the engine's base, the first time a driver mentions. A 100 Gb/s byte is
 * 80 ps, so link occupancy adds up exactly; 64 bits of picoseconds last 213 days. */
#ifndef XF_ENGINE_H
#define XF_ENGINE_H

#include "atomic.h"
#include "memory.h"
#include "packet.h"

/* ---- events (events.c) ---- */

/* At one instant pauses expire first, then packets arrive, then transmissions start: an arrival at the very end of a
 * frame competes for the next slot. */
enum xf_event { EV_EXPIRE, EV_LOOP, EV_ARRIVE, EV_START, EV_KINDS };
#define EV_COUNT (EV_KINDS * XF_MAX_PORTS)
#define EV_ID(kind, port) ((kind) * XF_MAX_PORTS + (port))

typedef struct xf_event_item {
    xf_ps time;
    uint32_t id;
} xf_event_item;

typedef struct xf_events {
    uint32_t count;
    uint16_t place[EV_COUNT]; /* 1 + index in heap, 0 = absent */
    xf_event_item heap[EV_COUNT];
} xf_events;

void events_set(xf_events *h, uint32_t id, xf_ps time); /* XF_NEVER removes */
XF_INLINE xf_ps events_first(const xf_events *h) { return h->count ? h->heap[0].time : XF_NEVER; }

/* ---- ports and queues (queues.c) ---- */

typedef struct xf_queue {
    xf_list packets;
    uint64_t bytes, count;
    uint64_t limit_bytes, limit_packets; /* of `settings`, beside what they limit */
    uint64_t watermark_bytes, watermark_packets;
    uint64_t in_bytes, in_packets;
    uint64_t drop_packets[3], drop_bytes[3];
    uint64_t until, since; /* pause: expiry and start, ns */
    uint64_t paused_ns;
    int64_t credit;            /* bytes on the wire it may still send in its turn (scheduler.c) */
    xf_ps due, burst;          /* shaper: when its next frame would start without a burst, and how early it may */
    uint64_t shared, headroom; /* bytes of it beyond its guaranteed ones (buffer.c) */
    xf_queue_settings settings;
} xf_queue;

/* Loss of one direction of a link (xf_port_loss). */
typedef struct xf_loss {
    uint64_t threshold, random;
    uint32_t every, count;
} xf_loss;

XF_INLINE uint64_t split_mix(uint64_t *state) { /* SplitMix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15ul;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ul;
    z = (z ^ z >> 27) * 0x94d049bb133111ebul;
    return z ^ z >> 31;
}

/* Whether the next frame is lost. */
XF_INLINE int loss_takes(xf_loss *l) {
    int lost = l->threshold && split_mix(&l->random) < l->threshold;
    if (l->every && ++l->count >= l->every) {
        l->count = 0;
        lost = 1;
    }
    return lost;
}

typedef struct xf_port {
    uint32_t number;
    uint8_t exists, up;
    uint8_t nonempty, paused; /* bit per class */
    uint8_t in_start;         /* its egress pipeline is running: no rescheduling */
    uint8_t weighted, shaped, managed; /* bit per class; managed: either */
    uint8_t turn;             /* weighted class whose turn it is */
    uint64_t rate, delay_ns;
    xf_loss loss[2]; /* of frames sent, received */
    xf_ps free; /* the link is free from then on */
    xf_list flight, loop;
    uint64_t *next; /* where the far end looks for the next arrival, while it takes frames from `flight` (windows.c) */
    uint64_t rx_bytes, rx_packets, tx_bytes, tx_packets;
    xf_queue queues[XF_CLASSES];
    uint64_t drop_packets[XF_DROP_REASONS], drop_bytes[XF_DROP_REASONS];
} xf_port;

xf_port *port_get(xf_engine *e, uint32_t number); /* makes one that does not exist for the driver; NULL beyond range */
void port_enqueue(xf_engine *e, xf_packet *p, uint32_t port, uint32_t cls);
void port_start(xf_engine *e, xf_port *port);   /* EV_START is due */
void port_expire(xf_engine *e, xf_port *port);  /* EV_EXPIRE is due */
void port_schedule(xf_engine *e, xf_port *port);
void port_schedule_expiry(xf_engine *e, xf_port *port);
void port_clear(xf_engine *e, xf_port *port, enum xf_drop reason);
void queue_pause(xf_engine *e, xf_port *port, uint32_t cls, uint64_t until_ns);
void count_drop(xf_engine *e, enum xf_drop reason, uint32_t port, uint32_t bytes);

#define WIRE_OVERHEAD 24u /* FCS 4, preamble 8, inter-frame gap 12 */
#define WIRE_MINIMUM 60u

XF_INLINE uint32_t wire_bytes(uint32_t length) {
    return (length < WIRE_MINIMUM ? WIRE_MINIMUM : length) + WIRE_OVERHEAD;
}
XF_INLINE xf_ps wire_time(uint32_t length, uint64_t rate) {
    return rate ? wire_bytes(length) * 8ull * PS_PER_S / rate : 0; /* 1.3e5 bits * 1e12 fits 64 bits */
}

/* ---- weights and shapers (scheduler.c); not called for a port that has neither ---- */

uint32_t scheduler_pick(const xf_engine *e, xf_port *p, uint32_t ready); /* XF_CLASSES: none may send yet */
void scheduler_charge(const xf_engine *e, xf_port *p, uint32_t cls, uint32_t length); /* length 0: nothing was sent */
xf_ps scheduler_when(const xf_port *p, uint32_t ready, xf_ps at); /* earliest start of a ready class, not before `at` */

void settings_apply(xf_port *p, uint32_t cls, const xf_queue_settings *s); /* settings.c */

/* ---- the shared buffer (buffer.c); not called while there is none ---- */

int buffer_admit(xf_engine *e, xf_queue *q, uint32_t bytes); /* before q->bytes grows */
void buffer_release(xf_engine *e, xf_queue *q, uint32_t bytes);
void buffer_recount(xf_engine *e);

/* ---- tables, profiles, meters (tables.c, table_control.c, profiles.c, meters.c) ---- */

struct xf_meter {
    uint8_t configured;
    uint64_t rate[2], burst[2], tokens[2], taken[2]; /* [0] peak, [1] committed */
    uint64_t origin;                                 /* ns */
    xf_counter colours[3];                           /* what it coloured green, yellow, red */
};

typedef struct xf_member {
    uint32_t used; /* references from entries, groups and defaults; 0 and !exists = free */
    uint32_t action;
    uint8_t exists;
    uint64_t *args;
} xf_member;

typedef struct xf_group {
    uint32_t used;
    uint8_t exists;
    uint32_t count, active; /* members held; slots in `table` */
    uint32_t *members;
    uint32_t *table;
} xf_group;

struct xf_profile {
    const xf_profile_desc *desc;
    uint32_t member_room, group_room, member_count;
    xf_member *members;
    xf_group *groups;
};

/* What a look-up does not need. */
typedef struct xf_entry_rest {
    uint64_t packets, bytes;    /* of tables with counters */
    uint64_t last_hit, timeout; /* ns, of tables with timeouts; timeout 0 = none */
    struct xf_meter *meter;
    uint64_t sequence; /* order of insertion */
    uint32_t tuple;    /* id of the tuple it belongs to */
    uint32_t handle;
    uint8_t is_const, reported;
} xf_entry_rest;

/* Aligned to a cache line, which also holds the first words: key, ranges, arguments. */
struct xf_entry {
    struct xf_entry *chain; /* same bucket */
    uint64_t hash;
    uint32_t rank; /* higher wins */
    uint32_t action; /* XF_NO_ACTION: refers to `ref` */
    uint32_t ref;    /* member or group id */
    uint8_t ref_group;
    xf_entry_rest *rest;
    uint64_t words[];
};

typedef struct xf_tuple {
    uint32_t id, bucket_count, entry_count, max_rank;
    uint8_t ranked; /* its entries were not all of one rank */
    xf_entry **buckets;
    uint64_t mask[];
} xf_tuple;

struct xf_table {
    const xf_table_desc *desc;
    /* The buckets of the only tuple of a table with one word of key and no ranges, the common case; else NULL. */
    xf_entry **buckets;
    uint64_t mask; /* of that tuple */
    uint32_t bucket_mask;
    uint32_t entry_count;
    uint64_t hits, misses;
    uint16_t args_at; /* word of an entry at which its arguments begin */
    uint8_t noted;    /* entries are told of hits */
    xf_tuple **tuples; /* by max_rank, highest first */
    uint32_t tuple_count, tuple_room, next_tuple;
    xf_entry **handles; /* by handle; a free slot is NULL */
    uint32_t handle_room;
    uint64_t sequence;
    uint32_t has_timeouts;
    xf_profile *profile;
    xf_act fallback; /* the default entry when it is an action */
    uint64_t *fallback_args;
    uint32_t fallback_ref;
    uint8_t fallback_indirect, fallback_group;
};

int table_init(xf_table *t, const xf_table_desc *d, xf_profile *profile);
void table_free(xf_table *t);
int table_add(xf_engine *e, xf_table *t, const uint64_t *key, const uint64_t *mask, const uint64_t *ranges,
              uint32_t rank, uint32_t action, const uint64_t *args, int ref_group, uint32_t ref, int is_const,
              uint32_t handle);
xf_entry *table_entry(xf_table *t, uint32_t handle);
void table_remove(xf_table *t, xf_entry *e);

int profile_use(xf_profile *p, int group, uint32_t id, int by); /* counts references; XF_ENOENT */
int profile_pick(xf_profile *p, int group, uint32_t id, uint64_t selector, xf_act *act);
void profile_free(xf_profile *p);

int meter_set(xf_meter *m, const uint64_t *rates_bursts, uint64_t now); /* NULL: every packet is green */
uint32_t meter_execute(xf_meter *m, uint64_t now, uint32_t length, int bytes);
void meter_read(const xf_meter *m, uint64_t *packets_bytes); /* six words */

/* Whether the number of `limbs` words lies between the two that follow each other at `bounds`. */
XF_INLINE int limbs_within(const uint64_t *number, const uint64_t *bounds, uint32_t limbs) {
    const uint64_t *low = bounds, *high = bounds + limbs;
    uint32_t k;
    for (k = limbs; k-- > 0;) {
        if (number[k] < low[k]) return 0;
        if (number[k] > low[k]) break;
    }
    for (k = limbs; k-- > 0;) {
        if (number[k] > high[k]) return 0;
        if (number[k] < high[k]) break;
    }
    return 1;
}

/* ---- operations: each file applies those of its subject, under the lock (operations.c) ---- */

int tables_op(xf_engine *e, const xf_op *o);
int profiles_op(xf_engine *e, const xf_op *o);
int state_op(xf_engine *e, const xf_op *o);
int meters_op(xf_engine *e, const xf_op *o);
int replication_op(xf_engine *e, const xf_op *o);
int value_sets_op(xf_engine *e, const xf_op *o);

/* ---- replication (pre.c) ---- */

typedef struct xf_replica {
    uint32_t port, rid;
} xf_replica;

typedef struct xf_replicas {
    uint8_t exists;
    uint32_t count, group, truncate, cls; /* cls 0: the program's */
    xf_replica *at;
} xf_replicas;

typedef struct xf_replica_map {
    xf_replicas *at;
    uint32_t room;
} xf_replica_map;

xf_replicas *replicas_find(xf_replica_map *m, uint32_t id);
void replicas_free(xf_replica_map *m);

/* ---- value sets (valuesets.c) ---- */

typedef struct xf_value_set {
    uint32_t count, range_count, stride;
    uint32_t *ranges; /* (word, limbs) of each field that is matched as a range */
    uint64_t *values; /* per value: limbs, mask limbs, then low and high limbs of each range; `stride` words */
} xf_value_set;

void value_set_free(xf_value_set *s);

/* ---- CRCs with parameters (crc.c) ---- */

typedef struct xf_crc {
    uint32_t width, initial, final; /* width: 16 or 32 */
    uint8_t reflect_in, reflect_out;
    uint32_t table[256];
} xf_crc;

int crcs_init(xf_engine *e);
int crcs_op(xf_engine *e, const xf_op *o);

/* ---- reports (reports.c) ---- */

/* Records of 64-bit words in a ring: header (kind, words), time, words. */
typedef struct xf_ring {
    uint64_t *words;
    uint32_t size, head, used;
    uint64_t lost;
} xf_ring;

int ring_init(xf_ring *r, uint32_t words);
int ring_put(xf_ring *r, uint32_t kind, uint64_t time, const uint64_t *words, uint32_t count);
int ring_take(xf_ring *r, uint32_t *kind, uint64_t *time, uint64_t *words, uint32_t room);

/* ---- the engine ---- */

struct xf_engine {
    xf_mutex mutex;
    xf_mutex *lock; /* atomic: `mutex`, or that of the fabric it has joined; changes while both are held */
    struct xf_fabric *fabric;
    uint32_t node; /* its number there */
    uint32_t device_id, cpu_port, drop_port, priority_queues;
    uint64_t timestamp_hz;
    uint64_t base;  /* ns of the driver's clock at ps 0 */
    uint8_t based;  /* `base` is set */
    uint8_t compat; /* see xf_bmv2_compat */
    uint32_t loop_limit; /* passes of a packet at one instant */
    xf_ps now;
    uint64_t buffer_size; /* 0: no shared buffer */
    xf_ps catch_up; /* see xf_catch_up; 0 = no limit */
    uint64_t random;

    const xf_program *program;
    const xf_program *offered; /* atomic: another build of `program` to go on with, or NULL */
    xf_pool *pool; /* frames */
    xf_phvs *phvs;
    xf_table **tables;
    xf_counter **counters;
    uint32_t *counter_sizes;
    uint64_t **registers;
    uint32_t *register_sizes;
    xf_meter **meters;
    xf_profile **profiles;
    xf_value_set *value_sets;
    xf_crc *crcs; /* by calculation */

    xf_events events;
    xf_port *ports[XF_MAX_PORTS];
    xf_queue_settings settings[XF_CLASSES]; /* of ports to come */
    uint64_t buffer_used, buffer_watermark;
    xf_replica_map groups, sessions;

    xf_list out;     /* frames that reached their far end */
    xf_list held;    /* handed out by the last poll */
    xf_list cpu, cpu_held;
    uint32_t cpu_count;
    uint64_t next_sweep; /* ns: when an entry may time out; XF_NEVER */
    xf_ring digests, pauses, idles, logs;
    uint32_t pending; /* atomic: XF_PENDING_* */
    uint64_t drop_packets[XF_DROP_REASONS], drop_bytes[XF_DROP_REASONS];
    xf_faults faults;
    int crashed; /* atomic; guard.c */
    uint64_t *trace; /* trace.c */
    size_t trace_used, trace_room;
    uint64_t trace_lost;
    uint64_t scratch[256]; /* digest words on their way to the ring */
};

XF_INLINE uint64_t ns_of(const xf_engine *e, xf_ps t) { return e->base + t / PS_PER_NS; }
XF_INLINE xf_ps ps_of(const xf_engine *e, uint64_t ns) {
    uint64_t d = ns > e->base ? ns - e->base : 0;
    return d > UINT64_MAX / PS_PER_NS - 1 ? XF_NEVER : d * PS_PER_NS;
}
/* P4 timestamp ticks of a time: hz is at most 10^9, so the remainder's product fits. */
XF_INLINE uint64_t ticks_of(const xf_engine *e, uint64_t ns) {
    if (e->timestamp_hz == NS_PER_S) return ns;
    return ns / NS_PER_S * e->timestamp_hz + ns % NS_PER_S * e->timestamp_hz / NS_PER_S;
}
uint64_t ns_of_ticks(const xf_engine *e, uint64_t ticks); /* the first ns at which the ticks are reached */

/* Frees the program's state; packets in flight keep their pool (a fabric's is its own). */
void engine_unload(xf_engine *e);
void engine_take_offer(xf_engine *e); /* goes on with the build that is offered */
void engine_sweep(xf_engine *e);
/* Takes the packet through ingress and to a queue, or frees it. */
void ingress_pass(xf_engine *e, xf_packet *p, uint32_t port, uint32_t instance, const void *source, uint32_t list);
/* Takes a packet that egress sent to be recirculated, deparsed, through ingress again, or frees it. */
void recirculate_pass(xf_engine *e, xf_packet *p);
/* Tells a program that asks for it that the traffic manager has no room for a packet, or has thrown it away: it passes
 * egress with the drop port for its egress port, of which nothing but clones comes. The packet stays the caller's. */
void refused_pass(xf_engine *e, xf_packet *p, uint32_t cls);
/* Runs egress on a dequeued packet; 1: ready to send (p->data, p->length final), 0: gone. */
int egress_pass(xf_engine *e, xf_packet *p, xf_port *port, uint32_t cls);
/* For a fabric, which holds the lock: xf_rx, xf_poll and xf_deadline with packets that change hands. */
void engine_rx(xf_engine *e, uint32_t port, xf_packet *p, uint64_t now);
void engine_poll(xf_engine *e, uint64_t now, xf_list *out);
uint64_t engine_deadline(const xf_engine *e);
void engine_reach(xf_engine *e, uint64_t now); /* as a poll at a time when nothing is due */
/* Something waits for a control thread, or no longer. */
XF_INLINE void engine_tell(xf_engine *e, uint32_t bit) { atomic_put(&e->pending, atomic_peek(&e->pending) | bit); }
XF_INLINE void engine_told(xf_engine *e, uint32_t bit) { atomic_put(&e->pending, atomic_peek(&e->pending) & ~bit); }
void engine_lock(xf_engine *e);
void engine_unlock(xf_engine *e);

#endif
