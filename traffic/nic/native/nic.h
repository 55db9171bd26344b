/* The NIC in C: the same machine as that in `traffic/nic`, which is its reference, frame for frame and record for record.
 *
 * The Python files say how and why; here each of their classes is a file with the same name. Times are ns of the
 * driving clock where nothing else is said, picoseconds where a name ends in `_ps`; all configuration is already on
 * the driving clock. A NIC is a node of a fabric (switch/native/fabric.h) or is driven on its own. */
#ifndef XN_NIC_H
#define XN_NIC_H

#include "packet.h"

#define XN_ABI 2
#define XN_CLASSES 8
#define XN_PFC_CLASS 7
#define XN_NEVER UINT64_MAX
#define XN_MAX_SHIM 1024 /* INT shim, header and stack: 4 + 4 * 255 */
#define XN_PARAMETERS 16
#define XN_PSN_MASK 0xffffffu
#define XN_ENTROPIES 64 /* most that REPS remembers of a queue pair */

enum xn_congestion { XN_LINE_RATE, XN_DCQCN, XN_HPCC, XN_MPRDMA };

enum xn_drop {
    XN_DROP_RECEIVE_BUFFER,
    XN_DROP_MALFORMED,
    XN_DROP_IP_CHECKSUM,
    XN_DROP_NOT_FOR_US,
    XN_DROP_ICRC,
    XN_DROP_UNKNOWN_QP,
    XN_DROP_UNSUPPORTED_OPCODE,
    XN_DROP_MAC_CONTROL,
    XN_DROP_PFC_CLASS,
    XN_DROP_QP_ERROR,
    XN_DROP_DUPLICATE,
    XN_DROP_INVALID_REQUEST,
    XN_DROP_OUT_OF_ORDER,
    XN_DROP_REASONS,
    XN_NOT_ROCE = XN_DROP_REASONS, /* not a drop: another protocol's frame */
    XN_ACCEPTED
};

enum xn_failure { XN_WORKS, XN_RETRY_EXCEEDED, XN_REMOTE_ERROR };

/* ---- what the binding fills in ---- */

typedef struct xn_config {
    uint64_t rate_bps, delay_ns;
    uint64_t rto_ns, reorder_ns;
    int64_t cnp_interval_ns; /* negative: no CNPs */
    uint64_t base_rtt_ns;
    uint64_t drain_bps, limit_bytes, xoff_bytes, xon_bytes;
    uint64_t reps_freezing_ns;
    double rto_backoff;
    double parameters[XN_PARAMETERS]; /* of the congestion control, in the order of its init function */
    uint32_t mtu, ack_interval, retry_limit, reorder_window;
    uint32_t congestion, cnp_class, pfc_classes, pause_quanta;
    uint32_t ipv6, prototype_bytes, shim_bytes;
    uint32_t echo, reps_buffer, reps_entropies, reps_explore; /* reps_buffer 0: no REPS */
    uint8_t mac[8], ip[16];
    uint8_t prototype[96]; /* Ethernet, IP, UDP, BTH as scapy built them */
    uint8_t shim[16];      /* INT headers of a fresh packet */
} xn_config;

typedef struct xn_pair_config {
    uint64_t send_psn, receive_psn;
    uint32_t qpn, remote_qpn, source_port, traffic_class;
    uint8_t remote_ip[16];
} xn_pair_config;

/* ---- what goes back ---- */

enum xn_event_kind {
    XN_CNP_SENT,
    XN_CNP_RECEIVED,
    XN_PAUSE,      /* value: until, ns; 0 = resumed */
    XN_PAUSE_SENT, /* value: quanta */
    XN_NAKED,      /* value: PSN */
    XN_TIMED_OUT,  /* value: PSN */
};

/* A record; they are kept until somebody takes them. */
typedef struct xn_event {
    uint64_t time, value;
    uint32_t nic, kind, qpn, cls;
} xn_event;

enum xn_notice { XN_SENT, XN_RECEIVED, XN_FAILED, XN_EVENTS_FULL };

/* What cannot wait: somebody may want to post in answer. */
typedef struct xn_message {
    uint64_t bytes, posted, started, now; /* started: XN_NEVER before its first packet */
    uint64_t first_psn, end_psn;
    uint32_t nic, notice, qpn, id;
    uint32_t retransmitted, has_id, failure, write;
} xn_message;

typedef struct xn_group xn_group;
typedef void (*xn_notify)(const xn_message *message);

/* NICs whose events are in one order. `entered(context)` is called before `notify`. */
xn_group *xn_group_new(xn_notify notify);
void xn_group_free(xn_group *group);
void xn_group_entered(xn_group *group, void (*entered)(void *), void *context);
uint32_t xn_events_take(xn_group *group, xn_event *out, uint32_t room);

typedef struct xn_stats {
    uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes, ignored, bytes_received;
    uint64_t pauses_received[XN_CLASSES], pauses_sent[XN_CLASSES], paused_ns[XN_CLASSES];
    uint64_t buffer_bytes[XN_CLASSES], buffer_peak;
    uint64_t drop_packets[XN_CLASSES + 1][XN_DROP_REASONS], drop_bytes[XN_CLASSES + 1][XN_DROP_REASONS]; /* class + 1 */
} xn_stats;

typedef struct xn_pair_stats {
    uint64_t una, next_psn, sent_psn, retransmitted, bytes_sent, bytes_acked, cnps_received, stale_acks, next_ps;
    uint64_t expected, msn, bytes_received, duplicates, out_of_order, naks, cnps_sent, early_peak;
    uint64_t outstanding, explored, recycled, freezes;
    int64_t window; /* negative: none */
    double rate_bps, target_bps, alpha, utilisation;
    uint32_t failure, stopped, receiver_failed, telemetry_bytes, frozen;
} xn_pair_stats;

/* ---- inside ---- */

/* A flow's frames up to their lengths: one direction of one queue pair at one DSCP and ECN codepoint (template.py). */
typedef struct xn_flow {
    uint8_t frame[14 + 40 + 8];
    uint8_t bth_flags, pkey[2];
    uint32_t network_bytes, remote_qpn;
} xn_flow;

/* One packet taken apart (parse.py). */
typedef struct xn_reading {
    const uint8_t *body; /* behind the BTH */
    const uint8_t *source_ip, *telemetry;
    uint32_t size; /* extended headers and payload, without pad */
    uint32_t telemetry_bytes;
    uint32_t ecn, opcode, dqpn, ack_request, psn, source_port, becn;
} xn_reading;

/* CRC of a payload that is known: advancing a state over it takes four look-ups (icrc.c). */
typedef struct xn_payload {
    uint32_t bytes, crc;
    uint32_t advance[4][256];
    uint8_t data[];
} xn_payload;

typedef struct xn_hop {
    uint32_t node_id, queue_bytes;
    uint64_t timestamp_ns, tx_bytes, rate_bps;
} xn_hop;
#define XN_HOPS 36 /* most that a stack of 7-word hops can hold */

typedef struct xn_dcqcn {
    double g, rai, rhai, min, alpha, target;
    uint64_t alpha_interval, increase_interval, alpha_due, increase_due, decrease_due, last_cut;
    int64_t decrease_interval, increase_bytes, bytes, rounds, timer_rounds, byte_rounds;
    uint8_t clamp, hyper_grows, order, active, climbing, was_cut, flag_alpha, flag_decrease;
} xn_dcqcn;

typedef struct xn_hpcc {
    double rtt, eta, largest, smallest, wai, reference, utilisation;
    int64_t max_stage, stage;
    uint64_t update_psn;
    uint32_t hop_count;
    xn_hop *hops; /* of the last ACK */
} xn_hpcc;

typedef struct xn_mprdma {
    double window, smallest, largest, growth, cut, loss;
} xn_mprdma;

typedef struct xn_cc {
    enum xn_congestion kind;
    double line, rate;
    int64_t window; /* negative: none */
    union {
        xn_dcqcn dcqcn;
        xn_hpcc hpcc;
        xn_mprdma mprdma;
    } u;
} xn_cc;

typedef struct xn_reps {
    uint64_t random, frozen_until, explored, recycled, freezes;
    uint32_t explore;
    uint8_t size, head, valid, filled, frozen;
    uint16_t buffer[XN_ENTROPIES];
} xn_reps;

typedef struct xn_work {
    struct xn_work *next;
    uint64_t bytes, first_psn, end_psn, posted, started;
    uint32_t id, retransmitted, write;
} xn_work;

typedef struct xn_early {
    uint64_t psn;
    int64_t announced;
    uint32_t size, immediate;
    uint8_t valid, opcode, ack_request;
} xn_early;

typedef struct xn_nic xn_nic;

typedef struct xn_requester {
    struct xn_requester *next; /* in its class's ring of ready flows */
    uint8_t scheduled, stopped, armed, failed;
    uint32_t traffic_class, retries;
    uint64_t next_ps;
    uint64_t una, next_psn, sent_psn, tail_psn;
    uint64_t furthest, unanswered; /* see requester.py */
    uint64_t retransmitted, bytes_sent, bytes_acked, cnps, stale_acks; /* bytes_acked: of whole messages */
    uint64_t rto, deadline; /* 0: not running */
    xn_work *unacked, *last, *to_send;
    xn_flow flow;
    /* The head of a whole middle packet, by far the most frequent. */
    uint8_t middle[96];
    uint32_t middle_bytes, middle_icrc, middle_opcode;
    xn_cc cc;
    xn_reps reps;
} xn_requester;

typedef struct xn_responder {
    uint64_t expected, msn, bytes_received, duplicates, out_of_order, naks, cnps, early_peak;
    uint64_t gap_since; /* XN_NEVER: no gap */
    uint64_t next_cnp;
    int64_t announced, received;
    uint32_t early_count, early_mask;
    xn_early *early;
    uint32_t nak_due; /* syndrome; 0: none */
    uint8_t failed, nak_sent, response_queued, in_message, writing, new_telemetry;
    uint32_t telemetry_bytes; /* 0: none has come */
    uint8_t *telemetry;
    xn_flow flow, cnp_flow;
    uint32_t ack_icrc, ack_known; /* CRC state of an ACK's head */
} xn_responder;

typedef struct xn_pair {
    xn_nic *nic;
    xn_pair_config config;
    xn_requester requester;
    xn_responder responder;
} xn_pair;

enum xn_timer_kind { XN_AT_POST, XN_AT_TIMEOUT, XN_AT_TAKEN, XN_AT_RENEWAL, XN_AT_STORM };

typedef struct xn_timer {
    uint64_t time, sequence;
    enum xn_timer_kind kind;
    uint32_t cls, quanta;
    xn_pair *pair;
    union {
        xn_work *work;
        uint64_t due; /* of a renewal; the end of a storm */
    } u;
} xn_timer;

/* (key, sequence) and what it is about, in a binary heap. */
typedef struct xn_timers {
    xn_timer *at;
    uint32_t count, room;
} xn_timers;

typedef struct xn_paced {
    uint64_t time_ps, sequence;
    xn_requester *flow;
} xn_paced;

/* Control frames wait as what they will be made of. */
enum xn_control_kind { XN_FRAME, XN_RESPONSE, XN_CNP };
typedef struct xn_control {
    enum xn_control_kind kind;
    uint16_t entropy, marked; /* of the packet that a response answers; entropy 0: the flow's own port */
    union {
        xf_packet *packet;
        xn_pair *pair;
    } u;
} xn_control;

typedef struct xn_control_queue {
    xn_control *at;
    uint32_t head, count, room; /* room: a power of two */
} xn_control_queue;

typedef struct xn_egress {
    uint64_t rate_bps;
    uint64_t clock_ps, free_ps, pause_ps[XN_CLASSES], latest_pause_ps;
    xf_list in_flight; /* packet->time: arrival, ns */
    uint64_t *next;    /* where the far end looks for the next arrival, while it takes frames from `in_flight` */
    xf_packet *ahead;  /* then: the first of them that has not arrived at `polled` */
    uint64_t polled;
    uint64_t tx_packets, tx_bytes;
    xn_control_queue control[XN_CLASSES];
    struct {
        xn_requester *head, *tail;
    } ready[XN_CLASSES];
    uint32_t pending;
    xn_paced *paced;
    uint32_t paced_count, paced_room;
    uint64_t sequence;
    uint32_t wire_length; /* the last length whose time was worked out */
    uint64_t wire_ps;
} xn_egress;

typedef struct xn_receive_buffer {
    xf_list frames; /* packet->port: class */
    uint64_t bytes[XN_CLASSES], total, peak, drained_ps, renewal[XN_CLASSES];
    uint8_t xoff[XN_CLASSES];
} xn_receive_buffer;

struct xn_nic {
    xn_config config;
    xn_group *group;
    uint32_t number; /* in its group */
    xf_pool *pool;
    uint8_t owns_pool;
    xf_list held; /* handed out by the last xn_poll */
    const xn_payload *payload;
    xn_egress egress;
    xn_receive_buffer buffer;
    xn_timers timers;
    uint64_t timer_sequence;
    uint64_t paused_ps[XN_CLASSES], paused_from_ps[XN_CLASSES];
    xn_pair **pairs; /* hash table by QPN, at most half full */
    uint32_t pair_count, pair_mask;
    xn_stats stats;
};

/* icrc.c */
uint32_t xn_crc(uint32_t state, const uint8_t *data, uint32_t count); /* as zlib's crc32 */
uint32_t xn_crc_payload(uint32_t state, const xn_payload *payload);
/* By what the state behind a head changes when its UDP source port changes by these bits. */
uint32_t xn_crc_port(uint32_t bits);
const xn_payload *xn_payload_of(uint32_t mtu);

/* template.c */
void xn_flow_init(xn_flow *flow, const xn_config *config, const xn_pair_config *pair, uint32_t dscp, uint32_t ecn);
/* Writes a head of a packet with `after_bth` bytes between BTH and ICRC: everything before the PSN's word. */
uint32_t xn_head(const xn_flow *flow, uint8_t *out, uint32_t opcode, uint32_t after_bth, uint32_t pad, uint32_t becn,
                 const uint8_t *shim, uint32_t shim_bytes, uint32_t *icrc);
uint32_t xn_head_icrc(const xn_flow *flow, uint32_t opcode, uint32_t after_bth, uint32_t pad);
/* Gives a finished head another UDP source port; what its ICRC state changes by. */
uint32_t xn_set_port(const xn_flow *flow, uint8_t *head, uint32_t port);

/* parse.c */
enum xn_drop xn_read(const xn_nic *nic, const xf_packet *p, xn_reading *out);
uint32_t xn_hops(const uint8_t *data, uint32_t count, xn_hop *out); /* in path order */
uint32_t xn_class_of(const uint8_t *frame, uint32_t length);

/* egress.c */
uint64_t xn_wire_bytes(uint32_t length);
uint64_t xn_wire_ps(uint32_t length, uint64_t rate);
uint64_t xn_bits_ps(uint64_t bits, uint64_t rate); /* rounded down */
void xn_send(xn_nic *nic, uint32_t cls, xn_control item);
void xn_wake(xn_nic *nic, xn_requester *flow);
void xn_drop_flows(xn_nic *nic);
void xn_egress_pause(xn_egress *e, uint32_t cls, uint64_t until_ps);
uint64_t xn_next_start(xn_nic *nic);
void xn_start(xn_nic *nic, uint64_t at_ps);
void xn_egress_free(xn_egress *e);

/* congestion.c, hpcc.c, mprdma.c */
int xn_cc_init(xn_cc *cc, const xn_config *config);
void xn_cc_free(xn_cc *cc);
void xn_cc_advance(xn_cc *cc, uint64_t now);
void xn_cc_sent(xn_cc *cc, uint32_t wire_bytes);
void xn_cc_ack(xn_cc *cc, uint64_t acked_psn, uint64_t next_psn, const uint8_t *echoed, uint32_t echoed_bytes);
void xn_cc_cnp(xn_cc *cc, uint64_t now);
int64_t xn_round(double value);   /* halves to even */
double xn_double(uint64_t value); /* nearest; tcc has no conversion of its own from unsigned integers */
void xn_cc_echo(xn_cc *cc, uint32_t marked);
void xn_cc_loss(xn_cc *cc);
void xn_mprdma_init(xn_cc *cc, const xn_config *config);
void xn_mprdma_echo(xn_cc *cc, uint32_t marked);
void xn_mprdma_loss(xn_cc *cc);
void xn_hpcc_init(xn_cc *cc, const xn_config *config);
void xn_hpcc_ack(xn_cc *cc, uint64_t acked_psn, uint64_t next_psn, const xn_hop *hops, uint32_t count);

/* reps.c */
void xn_reps_init(xn_reps *reps, const xn_config *config, const xn_pair_config *pair);
uint32_t xn_reps_next(xn_reps *reps, const xn_config *config);
void xn_reps_ack(xn_reps *reps, const xn_config *config, uint32_t entropy, uint32_t marked, uint64_t now);
void xn_reps_failure(xn_reps *reps, const xn_config *config, uint64_t now);

/* requester.c */
void xn_requester_init(xn_pair *pair);
void xn_requester_free(xn_pair *pair);
void xn_requester_post(xn_requester *r, xn_work *work, uint32_t mtu, uint64_t now);
int xn_has_next(const xn_requester *r, const xn_config *config);
xf_packet *xn_next_frame(xn_requester *r, uint64_t start_ps);
void xn_on_acknowledge(xn_pair *pair, const xn_reading *packet, uint64_t now);
void xn_on_timeout(xn_pair *pair, uint64_t now);
void xn_fail_all(xn_pair *pair, uint64_t now);

/* responder.c */
int xn_responder_init(xn_pair *pair);
void xn_responder_free(xn_pair *pair);
int xn_on_congestion(xn_pair *pair, uint64_t now);
enum xn_drop xn_on_data(xn_pair *pair, const xn_reading *packet, uint64_t now);
xf_packet *xn_make_response(xn_pair *pair, uint32_t entropy, uint32_t marked);
xf_packet *xn_make_cnp(xn_pair *pair);

/* receive_buffer.c */
int xn_buffer_push(xn_nic *nic, uint32_t cls, xf_packet *p, uint64_t now);
void xn_buffer_taken(xn_nic *nic, uint64_t now);
void xn_buffer_renew(xn_nic *nic, uint32_t cls, uint64_t due, uint64_t now);

/* nic.c */
void xn_deliver(xn_nic *nic, const xf_packet *p, uint64_t now);
void xn_send_pause(xn_nic *nic, uint32_t cls, uint32_t quanta, uint64_t now);
uint64_t xn_repeat_ns(const xn_nic *nic, uint32_t quanta);
void xn_at(xn_nic *nic, xn_timer timer);
XF_INLINE xn_pair *xn_pair_of(xn_requester *r) {
    return (xn_pair *)((uint8_t *)r - XF_OFFSET(xn_pair, requester));
}

/* group.c */
void xn_log(xn_nic *nic, enum xn_event_kind kind, uint32_t qpn, uint32_t cls, uint64_t time, uint64_t value);
void xn_tell(xn_nic *nic, xn_message *message);
uint32_t xn_group_add(xn_group *group);

/* ---- the binding's calls (nic.c) ---- */

unsigned xn_abi(void);
xn_nic *xn_new(xn_group *group, const xn_config *config);
int xn_add_pair(xn_nic *nic, const xn_pair_config *config); /* 0, or -1: out of memory */
void xn_free(xn_nic *nic);
uint32_t xn_number(const xn_nic *nic);
/* Frames from a pool of the fabric's, so that engines take them as they are. */
void xn_use_pool(xn_nic *nic, xf_pool *pool);
const void *xn_node_type(void);
void xn_rx(xn_nic *nic, const uint8_t *frame, uint32_t length, uint64_t now);
/* As xf_poll: the frames stay valid until the next call. */
int xn_poll(xn_nic *nic, uint64_t now, xf_frame *out, uint32_t room);
uint64_t xn_deadline(xn_nic *nic);
int xn_post(xn_nic *nic, uint32_t qpn, uint32_t id, uint64_t size, uint64_t now, int write);
void xn_stop(xn_nic *nic, uint64_t now);
void xn_set_rate(xn_nic *nic, uint64_t rate_bps, uint64_t now);
void xn_storm(xn_nic *nic, uint32_t cls, uint32_t quanta, uint64_t until, uint64_t now);
void xn_catch_up(xn_nic *nic, uint64_t from);
void xn_stats_read(xn_nic *nic, uint64_t now, xn_stats *out);
int xn_pair_read(xn_nic *nic, uint32_t qpn, xn_pair_stats *out);
double xn_rate(xn_nic *nic, uint32_t qpn, uint64_t now); /* the timers of congestion control run up to `now` */
/* The INT headers that came last; with `fresh` only if they came since the last such call. Returns their bytes. */
uint32_t xn_telemetry(xn_nic *nic, uint32_t qpn, int fresh, uint8_t *out);
/* Messages not fully acknowledged, oldest first; returns how many were written. */
uint32_t xn_outstanding(xn_nic *nic, uint32_t qpn, xn_message *out, uint32_t room);

#endif
