/* The engine's ABI: what a packet loop in C and the Python binding call.
 *
 * An engine is one switch: a loaded program, its tables and state, its ports and queues. It owns no socket, thread or
 * clock. Times are nanoseconds of the driver's clock; a time earlier than one already seen counts as the latest seen.
 * Every function locks the engine's own mutex, so the packet loop and control threads may call at any time, and
 * engines never wait for each other. Functions that return int give a negative XF_E* on failure. */
#ifndef XF_H
#define XF_H

#include "libc.h"

#define XF_ABI 3
#define XF_NEVER UINT64_MAX /* no deadline */
#define XF_MAX_PORTS 512
#define XF_MAX_FRAME 16384 /* longest frame taken, bytes; longer ones are dropped and counted */
#define XF_CLASSES 8

enum xf_error {
    XF_EINVAL = -1,  /* an argument out of range */
    XF_ENOENT = -2,  /* no such object */
    XF_EEXIST = -3,  /* it exists already */
    XF_EFULL = -4,   /* no room for one more */
    XF_ECONST = -5,  /* constant in the program */
    XF_ENOMEM = -6,  /* out of memory */
    XF_EINUSE = -7,  /* others still refer to it */
    XF_EABI = -8,    /* compiled for another version of the engine */
    XF_ECRASHED = -9, /* a machine fault has ended the engine (guard.h) */
};

/* Why a frame was discarded. Counted per engine and, where a port is known, per port. */
enum xf_drop {
    XF_DROP_INGRESS,       /* the program dropped it in ingress */
    XF_DROP_EGRESS,        /* the program dropped it in egress */
    XF_DROP_QUEUE_BYTES,   /* the queue's byte limit */
    XF_DROP_QUEUE_PACKETS, /* the queue's packet limit */
    XF_DROP_PRIORITY,      /* priority is not below the number of queues */
    XF_DROP_NO_PORT,       /* sent to a port that does not exist */
    XF_DROP_PORT_DOWN,     /* received on or sent to a port that is down */
    XF_DROP_RX_NO_PORT,    /* received on a port that does not exist */
    XF_DROP_OVERSIZE,      /* longer than XF_MAX_FRAME, on arrival or after the deparser */
    XF_DROP_NO_MULTICAST,  /* multicast group without replicas or not configured */
    XF_DROP_NO_CLONE,      /* clone session not configured (the original goes on) */
    XF_DROP_LOOP,          /* resubmitted, recirculated or cloned too often at one instant */
    XF_DROP_CPU_QUEUE,     /* nobody took the frames for the CPU port */
    XF_DROP_NO_MEMORY,     /* out of memory */
    XF_DROP_NO_PROGRAM,    /* no program is loaded */
    XF_DROP_SWAP,          /* queued when another program was loaded */
    XF_DROP_LINK_LOSS,     /* lost on a link that was made lossy */
    XF_DROP_BUFFER,        /* the shared buffer's dynamic threshold */
    XF_DROP_REASONS
};

/* What waits for a control thread (xf_pending). */
enum xf_pending_bits {
    XF_PENDING_CPU = 1,
    XF_PENDING_DIGEST = 2,
    XF_PENDING_PAUSE = 4,
    XF_PENDING_IDLE = 8,
    XF_PENDING_LOG = 16,
};

typedef struct xf_engine xf_engine;
struct xf_program;

typedef struct xf_frame {
    const uint8_t *data;
    uint64_t time; /* ns: when its last bit reached the far end */
    uint32_t length;
    uint32_t port;
} xf_frame;

unsigned xf_abi(void);
xf_engine *xf_new(uint32_t device_id, uint32_t cpu_port, uint32_t drop_port, uint64_t timestamp_hz,
                  uint32_t priority_queues, uint64_t seed);
void xf_free(xf_engine *e);
/* The signal of the fault that has ended the engine, 0 = none. All that may be done with it then is xf_free. */
int xf_crashed(const xf_engine *e);
/* Replaces the program and all its state (tables, registers, counters); ports, queue limits, multicast groups and
 * clone sessions stay. Queued packets are dropped and counted. NULL unloads. `program` must outlive its use. */
int xf_load(xf_engine *e, const struct xf_program *program);
/* Another build of the loaded program `from`, which the engine runs from the next frame or poll on; nothing is lost or
 * changes but the code. Takes no lock and waits for nobody. Both must outlive the load, and neither this nor xf_load may
 * run meanwhile. XF_EABI if `to` is of another program, or lays its packets or state out otherwise. */
int xf_offer(xf_engine *e, const struct xf_program *from, const struct xf_program *to);
/* The build that runs now; NULL without one. */
const struct xf_program *xf_running(xf_engine *e);

/* ---- the packet path ---- */
/* The frame's last bit arrived on `port` at `now`. The bytes are copied. */
int xf_rx(xf_engine *e, uint32_t port, const uint8_t *frame, uint32_t length, uint64_t now);
/* The same for `count` frames (each with its port and length; time is ignored) under one lock. */
int xf_rx_burst(xf_engine *e, const xf_frame *frames, uint32_t count, uint64_t now);
/* Writes up to `room` frames that have reached the far end by `now`, in time order; returns how many. The bytes stay
 * valid until the next xf_poll on this engine. Call again while it returns `room`. */
int xf_poll(xf_engine *e, uint64_t now, xf_frame *out, uint32_t room);
/* How far (ns) the engine catches up when it is called late: transmissions due longer ago than this start late instead,
 * so that a stall of the driver does not come out as a burst that no link could carry. 0 (the default) = all of it. */
void xf_catch_up(xf_engine *e, uint64_t limit);
/* From here on, what a program could depend on is as in simple_switch: packets that re-enter ingress have no ingress
 * timestamp (0), and one may re-enter 65,536 times at one instant instead of 128. */
void xf_bmv2_compat(xf_engine *e);
/* When to poll next (ns), XF_NEVER when nothing is pending. */
uint64_t xf_deadline(xf_engine *e);
/* XF_PENDING_* bits; takes no lock, may lag by one call. */
uint32_t xf_pending(xf_engine *e);
/* Frames sent to the CPU port, oldest first; valid until the next xf_cpu_take on this engine. */
int xf_cpu_take(xf_engine *e, xf_frame *out, uint32_t room);

/* ---- ports and queues ---- */
int xf_port_add(xf_engine *e, uint32_t port, uint64_t rate_bps, uint64_t delay_ns); /* rate 0: unlimited */
int xf_port_remove(xf_engine *e, uint32_t port);
int xf_port_rate(xf_engine *e, uint32_t port, uint64_t rate_bps);
int xf_port_delay(xf_engine *e, uint32_t port, uint64_t delay_ns);
int xf_port_up(xf_engine *e, uint32_t port, int up);
/* Frames of one direction (0: sent, 1: received) are lost on the wire: each with probability `threshold` / 2^64, drawn
 * from a sequence of its own that `seed` begins, and every `every`-th one (0: none). A lost frame took its link time. */
int xf_port_loss(xf_engine *e, uint32_t port, int received, uint64_t threshold, uint32_t every, uint64_t seed);

/* What can be set of a queue while it runs (docs/switch.md). */
typedef struct xf_queue_settings {
    uint64_t limit_bytes, limit_packets;
    uint64_t rate_bps, burst_bytes;  /* shaper, in bytes on the wire; rate 0: none */
    uint64_t rate_pps;               /* the same in packets */
    uint64_t guaranteed_bytes;       /* its own part of the buffer */
    uint64_t headroom_bytes;         /* what it may hold beyond its share */
    uint64_t alpha;                  /* share of the free buffer, in 65536ths */
    uint64_t weight;                 /* 0: strict priority */
} xf_queue_settings;
enum xf_queue_fields {
    XF_SET_LIMIT_BYTES = 1,
    XF_SET_LIMIT_PACKETS = 2,
    XF_SET_RATE_BPS = 4,
    XF_SET_BURST_BYTES = 8,
    XF_SET_RATE_PPS = 16,
    XF_SET_GUARANTEED = 32,
    XF_SET_HEADROOM = 64,
    XF_SET_ALPHA = 128,
    XF_SET_WEIGHT = 256,
};
#define XF_MAX_WEIGHT 65535u
#define XF_MAX_BUFFER (1ull << 40)
#define XF_MAX_ALPHA (64u << 16)
#define XF_MAX_QUEUE_PPS 1000000000000ull
/* Sets those fields of `to` that `fields` names. port -1: every port, also later ones; class -1: every class. */
int xf_queue_set(xf_engine *e, int port, int cls, const xf_queue_settings *to, uint32_t fields);
int xf_queue_settings_read(xf_engine *e, uint32_t port, uint32_t cls, xf_queue_settings *out);
/* Size of the shared part of the buffer, bytes; 0, the default: no shared buffer, only the queues' own limits. */
int xf_buffer_set(xf_engine *e, uint64_t bytes);
typedef struct xf_buffer_stats {
    uint64_t size, used, watermark; /* of the shared part */
    uint64_t guaranteed_used, headroom_used;
} xf_buffer_stats;
void xf_buffer_read(xf_engine *e, xf_buffer_stats *out);

typedef struct xf_queue_stats {
    uint64_t bytes, packets;                     /* in the queue now */
    uint64_t watermark_bytes, watermark_packets; /* highest since xf_watermark_reset */
    uint64_t in_bytes, in_packets;               /* admitted so far */
    uint64_t paused_until;                       /* ns, 0 = not paused */
    uint64_t paused_ns;                          /* time spent paused so far */
    uint64_t drop_packets[3], drop_bytes[3];     /* by byte limit, by packet limit, by the shared buffer */
} xf_queue_stats;
typedef struct xf_port_stats {
    uint64_t rx_bytes, rx_packets, tx_bytes, tx_packets;
    uint64_t rate_bps, delay_ns;
    uint64_t drop_packets[XF_DROP_REASONS];
    uint64_t drop_bytes[XF_DROP_REASONS];
    uint32_t up, exists;
} xf_port_stats;
int xf_queue_read(xf_engine *e, uint32_t port, uint32_t cls, xf_queue_stats *out);
int xf_port_read(xf_engine *e, uint32_t port, xf_port_stats *out);
int xf_watermark_reset(xf_engine *e, uint32_t port); /* the port's queues' */
void xf_buffer_watermark_reset(xf_engine *e);
/* Engine totals by reason: packets[XF_DROP_REASONS], bytes[XF_DROP_REASONS]. */
void xf_drops_read(xf_engine *e, uint64_t *packets, uint64_t *bytes);
const char *xf_drop_name(uint32_t reason);
void xf_time(xf_engine *e, uint64_t *now);

typedef struct xf_pause_event {
    uint64_t time, until; /* ns; until 0 = resumed */
    uint32_t port, cls;
} xf_pause_event;
int xf_pause_take(xf_engine *e, xf_pause_event *out, uint32_t room, uint64_t *lost);

/* ---- changes: tables, action profiles, state, replication ----
 *
 * Every change from the control side is an `xf_op`; many of them are applied between two packets. What a kind uses beside
 * `kind` stands behind it. Keys and arguments are 64-bit words laid out by the binding; all pointers are the caller's. */
enum xf_op_kind {
    /* object: table; id: the entry's handle, chosen by the caller. What an entry (or the default) does is `action` with
     * `words`, or, with XF_NO_ACTION, to refer to the member (is_group 0) or group (1) `ref` of the table's profile. */
    XF_TABLE_ADD, /* action or reference, key, mask, ranges, rank */
    XF_TABLE_MODIFY,
    XF_TABLE_DELETE,
    XF_TABLE_CLEAR, /* every entry that is not constant */
    XF_TABLE_DEFAULT,
    XF_TABLE_DEFAULT_RESET, /* the program's */
    XF_ENTRY_COUNTER,       /* packets, bytes */
    XF_ENTRY_METER,         /* as XF_METER */
    XF_ENTRY_METER_CLEAR,
    XF_ENTRY_TIMEOUT, /* time: ns, 0 = none */
    /* object: profile; id: the caller's choice */
    XF_MEMBER_ADD, /* action, words */
    XF_MEMBER_MODIFY,
    XF_MEMBER_DELETE,
    XF_GROUP_ADD,
    XF_GROUP_SET, /* count members in `ints`, each `weights` times and only while `active` */
    XF_GROUP_DELETE,
    /* object: counter, register or meter; cells id to id + count - 1 */
    XF_COUNTER,     /* packets, bytes */
    XF_REGISTER,    /* words */
    XF_METER,       /* words: committed rate and burst, peak rate and burst; units per second, units; none: all green */
    XF_METER_CLEAR, /* the packets and bytes counted by colour */
    /* object: group or session; count (port, rid) pairs in `ints`; rid UINT32_MAX leaves egress_rid alone */
    XF_MULTICAST_SET,
    XF_MULTICAST_DELETE,
    XF_CLONE_SET, /* also to the replicas of multicast group `ref`, if not 0; cut to `length` bytes, if not 0; in traffic
                   * class `rank`, if not 0 (the program's otherwise) */
    XF_CLONE_DELETE,
    /* object: value set; replaces its `count` members: for each the words of its value, of its mask, then for each of the
     * `ranges_count` ranges its low and high limbs */
    XF_VALUE_SET,
    /* object: a calculation by a custom CRC; words: polynomial, initial value, final xor, whether bytes are reflected,
     * whether the remainder is */
    XF_CRC,
    XF_OPS
};
typedef struct xf_op {
    uint32_t kind, object, id, count;
    uint32_t action, ref, is_group;
    uint32_t rank; /* higher wins */
    uint64_t packets, bytes, time;
    uint32_t length, ranges_count;
    const uint64_t *key, *mask, *ranges, *words;
    const uint32_t *ints, *weights; /* XF_VALUE_SET: `ints` are (word, limbs) of each range */
    const uint8_t *active;
} xf_op;
#define XF_NO_ACTION 0xffffffffu
/* Applies the operations in order: no packet sees a part of them. Stops at the first that is refused and returns its
 * error; `done` tells how many took effect. */
int xf_apply_ops(xf_engine *e, const xf_op *ops, uint32_t count, uint32_t *done);

/* ---- what a control thread reads ---- */
int xf_entry_counter(xf_engine *e, uint32_t table, uint32_t handle, uint64_t *packets, uint64_t *bytes);
int xf_entry_idle(xf_engine *e, uint32_t table, uint32_t handle, uint64_t *idle_ns);
/* Packets and bytes that the entry's meter coloured green, yellow, red. */
int xf_entry_meter_read(xf_engine *e, uint32_t table, uint32_t handle, uint64_t *packets_bytes);
typedef struct xf_table_stats {
    uint64_t hits, misses, entries;
} xf_table_stats;
int xf_table_stats_read(xf_engine *e, uint32_t table, xf_table_stats *out);
typedef struct xf_idle_event {
    uint64_t time;
    uint32_t table, handle;
} xf_idle_event;
int xf_idle_take(xf_engine *e, xf_idle_event *out, uint32_t room);
int xf_counter_read(xf_engine *e, uint32_t counter, uint32_t first, uint32_t count, uint64_t *packets_bytes);
int xf_register_read(xf_engine *e, uint32_t reg, uint32_t first, uint32_t count, uint64_t *words);
/* As xf_entry_meter_read, six words for each cell. */
int xf_meter_read(xf_engine *e, uint32_t meter, uint32_t first, uint32_t count, uint64_t *packets_bytes);

/* ---- reports ---- */
/* The oldest digest: its list id and 64-bit words; returns the number of words, XF_ENOENT when there is none. */
int xf_digest_take(xf_engine *e, uint32_t *list, uint64_t *words, uint32_t room, uint64_t *time);
/* The oldest log_msg or failed assert: its message number and arguments; as xf_digest_take. */
int xf_log_take(xf_engine *e, uint32_t *message, uint64_t *words, uint32_t room, uint64_t *time);
/* Failed assert and assume statements so far; extern accesses out of bounds so far; digests, log messages lost. */
typedef struct xf_faults {
    uint64_t asserts, out_of_bounds, digests_lost, logs_lost, parser_errors, checksum_errors, parser_loops;
} xf_faults;
void xf_faults_read(xf_engine *e, xf_faults *out);

/* What a traced program told since the last call: records of kind, a, b, c, time (ns), count and `count` words. Returns
 * how many words there are; takes them only if they fit `room`. `lost`: records that did not fit the engine's memory. */
uint64_t xf_trace_take(xf_engine *e, uint64_t *out, uint64_t room, uint64_t *lost);

#endif
