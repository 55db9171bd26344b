/* The NIC: queue pairs, PFC, timers and one link, as a node (nic.py, whose theory of operation holds here too). */
#include "nic.h"
#include "fabric.h"

#define ETHERTYPE_MAC_CONTROL 0x8808u
#define PFC_OPCODE 0x0101u
#define PFC_BYTES 34u
#define MIN_FRAME_BYTES 60u
#define QUANTUM_BITS 512u
#define FIRST_NOT_DATA 0x0cu
#define ACKNOWLEDGE 0x11u
#define CNP 0x81u
#define CE 3u
#define NO_CLASS (-1)
#define OWN_POOL_HEADROOM 0

static const uint8_t pfc_destination[6] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01};

/* ---- timers ---- */

static int sooner(const xn_timer *a, const xn_timer *b) {
    return a->time != b->time ? a->time < b->time : a->sequence < b->sequence;
}

void xn_at(xn_nic *nic, xn_timer timer) {
    xn_timers *t = &nic->timers;
    uint32_t at = t->count;
    if (t->count == t->room) {
        uint32_t room = t->room ? 2 * t->room : 8;
        xn_timer *more = realloc(t->at, room * sizeof *more);
        if (!more) return;
        t->at = more;
        t->room = room;
    }
    t->count++;
    timer.sequence = ++nic->timer_sequence;
    for (; at && sooner(&timer, &t->at[(at - 1) / 2]); at = (at - 1) / 2) t->at[at] = t->at[(at - 1) / 2];
    t->at[at] = timer;
}

static xn_timer timer_take(xn_timers *t) {
    xn_timer first = t->at[0], last = t->at[--t->count];
    uint32_t at = 0, child;
    while ((child = 2 * at + 1) < t->count) {
        if (child + 1 < t->count && sooner(&t->at[child + 1], &t->at[child])) child++;
        if (!sooner(&t->at[child], &last)) break;
        t->at[at] = t->at[child];
        at = child;
    }
    if (t->count) t->at[at] = last;
    return first;
}

static void wake(xn_nic *nic, xn_requester *r) {
    if (!r->scheduled && xn_has_next(r, &nic->config)) xn_wake(nic, r);
}

/* One XOFF of a storm; the next comes before half of its pause is over. */
static void storm(xn_nic *nic, const xn_timer *t) {
    xn_timer again = *t;
    xn_send_pause(nic, t->cls, t->quanta, t->time);
    again.time += xn_repeat_ns(nic, t->quanta);
    if (again.time < t->u.due) xn_at(nic, again);
}

static void expire(xn_nic *nic, const xn_timer *t) {
    switch (t->kind) {
    case XN_AT_POST:
        xn_requester_post(&t->pair->requester, t->u.work, nic->config.mtu, t->time);
        if (t->pair->requester.failed) xn_fail_all(t->pair, t->time);
        else wake(nic, &t->pair->requester);
        break;
    case XN_AT_TIMEOUT:
        xn_on_timeout(t->pair, t->time);
        wake(nic, &t->pair->requester);
        break;
    case XN_AT_TAKEN: xn_buffer_taken(nic, t->time); break;
    case XN_AT_RENEWAL: xn_buffer_renew(nic, t->cls, t->u.due, t->time); break;
    case XN_AT_STORM: storm(nic, t); break;
    }
}

static void advance(xn_nic *nic, uint64_t now) {
    xn_egress *e = &nic->egress;
    uint64_t now_ps = now * 1000;
    for (;;) {
        uint64_t start = xn_next_start(nic);
        if (nic->timers.count && nic->timers.at[0].time * 1000 <= start) {
            uint64_t due = nic->timers.at[0].time;
            xn_timer timer;
            if (due > now) break;
            if (due * 1000 > e->clock_ps) e->clock_ps = due * 1000;
            timer = timer_take(&nic->timers);
            expire(nic, &timer);
            continue;
        }
        if (start > now_ps) break;
        xn_start(nic, start);
    }
    if (now_ps > e->clock_ps) e->clock_ps = now_ps;
}

/* ---- receiving ---- */

static void drop(xn_nic *nic, enum xn_drop reason, uint32_t length, int cls) {
    nic->stats.drop_packets[cls + 1][reason]++;
    nic->stats.drop_bytes[cls + 1][reason] += length;
}

static xn_pair *find(const xn_nic *nic, uint32_t qpn) {
    uint32_t at = qpn & nic->pair_mask;
    if (!nic->pairs) return NULL;
    while (nic->pairs[at] && nic->pairs[at]->config.qpn != qpn) at = (at + 1) & nic->pair_mask;
    return nic->pairs[at];
}

void xn_deliver(xn_nic *nic, const xf_packet *p, uint64_t now) {
    xn_reading packet;
    uint32_t length = p->length;
    enum xn_drop reason = xn_read(nic, p, &packet);
    xn_pair *pair;
    if (reason == XN_NOT_ROCE) {
        nic->stats.ignored++;
        return;
    }
    if (reason != XN_ACCEPTED) {
        drop(nic, reason, length, NO_CLASS);
        return;
    }
    pair = find(nic, packet.dqpn);
    if (!pair || memcmp(pair->config.remote_ip, packet.source_ip, nic->config.ipv6 ? 16 : 4)) {
        drop(nic, XN_DROP_UNKNOWN_QP, length, NO_CLASS);
    } else if (packet.opcode < FIRST_NOT_DATA) {
        if (packet.ecn == CE && xn_on_congestion(pair, now)) xn_log(nic, XN_CNP_SENT, pair->config.qpn, 0, now, 0);
        reason = xn_on_data(pair, &packet, now);
        if (reason != XN_ACCEPTED) drop(nic, reason, length, (int)pair->config.traffic_class);
    } else if (packet.opcode == ACKNOWLEDGE) {
        if (packet.size < 4) {
            drop(nic, XN_DROP_MALFORMED, length, NO_CLASS);
            return;
        }
        xn_on_acknowledge(pair, &packet, now);
        wake(nic, &pair->requester);
    } else if (packet.opcode == CNP) {
        pair->requester.cnps++;
        xn_cc_cnp(&pair->requester.cc, now);
        xn_log(nic, XN_CNP_RECEIVED, pair->config.qpn, 0, now, 0);
    } else {
        drop(nic, XN_DROP_UNSUPPORTED_OPCODE, length, NO_CLASS);
    }
}

/* ---- PFC ---- */

static void pause(xn_nic *nic, uint32_t cls, uint32_t quanta, uint64_t now) {
    uint64_t now_ps = now * 1000, before = nic->egress.pause_ps[cls], end = now_ps < before ? now_ps : before, until;
    if (!quanta && before <= now_ps) return;
    if (end > nic->paused_from_ps[cls]) nic->paused_ps[cls] += end - nic->paused_from_ps[cls];
    nic->paused_from_ps[cls] = now_ps;
    until = now_ps + xn_bits_ps((uint64_t)quanta * QUANTUM_BITS, nic->config.rate_bps);
    xn_egress_pause(&nic->egress, cls, until);
    nic->stats.pauses_received[cls] += quanta > 0;
    xn_log(nic, XN_PAUSE, 0, cls, now, quanta ? (until + 999) / 1000 : 0);
}

static void mac_control(xn_nic *nic, const uint8_t *frame, uint32_t length, uint64_t now) {
    uint32_t c;
    if (length < PFC_BYTES || memcmp(frame, pfc_destination, 6) || xf_load16(frame + 14) != PFC_OPCODE) {
        drop(nic, length < MIN_FRAME_BYTES ? XN_DROP_MALFORMED : XN_DROP_MAC_CONTROL, length, NO_CLASS);
        return;
    }
    for (c = 0; c < XN_CLASSES; c++) {
        if (!(xf_load16(frame + 16) >> c & 1)) continue;
        if (nic->config.pfc_classes >> c & 1) pause(nic, c, (uint32_t)xf_load16(frame + 18 + 2 * c), now);
        else drop(nic, XN_DROP_PFC_CLASS, length, (int)c);
    }
}

/* When to repeat an XOFF: when half of its pause is over, but not before it has left, or they would pile up. */
uint64_t xn_repeat_ns(const xn_nic *nic, uint32_t quanta) {
    uint64_t half = (uint64_t)quanta * QUANTUM_BITS * NS_PER_S / nic->config.rate_bps / 2;
    uint64_t leaves = (xn_wire_ps(MIN_FRAME_BYTES, nic->egress.rate_bps) + 999) / 1000;
    return half > leaves ? half : leaves;
}

void xn_send_pause(xn_nic *nic, uint32_t cls, uint32_t quanta, uint64_t now) {
    xf_packet *p = packet_new(nic->pool, MIN_FRAME_BYTES);
    xn_control item;
    if (p) {
        memset(p->data, 0, MIN_FRAME_BYTES);
        memcpy(p->data, pfc_destination, 6);
        memcpy(p->data + 6, nic->config.mac, 6);
        xf_store16(p->data + 12, ETHERTYPE_MAC_CONTROL);
        xf_store16(p->data + 14, PFC_OPCODE);
        xf_store16(p->data + 16, 1u << cls);
        xf_store16(p->data + 18 + 2 * cls, quanta);
        item.kind = XN_FRAME;
        item.u.packet = p;
        xn_send(nic, XN_PFC_CLASS, item);
    }
    nic->stats.pauses_sent[cls] += quanta > 0;
    xn_log(nic, XN_PAUSE_SENT, 0, cls, now, quanta);
}

/* ---- the node ---- */

static void node_rx(void *node, uint32_t port, xf_packet *p, uint64_t now) {
    xn_nic *nic = node;
    (void)port;
    advance(nic, now);
    nic->stats.rx_packets++;
    nic->stats.rx_bytes += xn_wire_bytes(p->length);
    if (p->length >= 14 && xf_load16(p->data + 12) == ETHERTYPE_MAC_CONTROL) {
        mac_control(nic, p->data, p->length, now);
    } else if (!nic->config.drain_bps) {
        xn_deliver(nic, p, now);
    } else {
        uint32_t cls = xn_class_of(p->data, p->length);
        if (xn_buffer_push(nic, cls, p, now)) return;
        drop(nic, XN_DROP_RECEIVE_BUFFER, p->length, (int)cls);
    }
    packet_free(p);
}

static void node_poll(void *node, uint64_t now, xf_list *out) {
    xn_nic *nic = node;
    xn_egress *e = &nic->egress;
    advance(nic, now);
    e->polled = now;
    if (e->next) {
        while (e->ahead && e->ahead->time <= now) e->ahead = e->ahead->next;
        return;
    }
    while (e->in_flight.head && e->in_flight.head->time <= now) list_push(out, list_pop(&e->in_flight));
}

/* In windows the far end takes frames away when they have arrived. */
static void node_begin(void *node) {
    xn_egress *e = &((xn_nic *)node)->egress;
    e->ahead = e->in_flight.head;
    while (e->ahead && e->ahead->time <= e->polled) e->ahead = e->ahead->next;
}

static xf_list *node_link(void *node, uint64_t *next, uint64_t *delay) {
    xn_nic *nic = node;
    nic->egress.next = next;
    *delay = nic->config.delay_ns;
    node_begin(node);
    return &nic->egress.in_flight;
}

uint64_t xn_deadline(xn_nic *nic) {
    const xf_packet *first = nic->egress.next ? nic->egress.ahead : nic->egress.in_flight.head;
    uint64_t start, due = XN_NEVER;
    if (first) return first->time;
    start = xn_next_start(nic);
    if (start != XN_NEVER) due = (start + 999) / 1000;
    if (nic->timers.count && nic->timers.at[0].time < due) due = nic->timers.at[0].time;
    return due;
}

static uint64_t node_deadline(void *node) { return xn_deadline(node); }

const void *xn_node_type(void) {
    static const xf_node_type type = {node_rx, node_poll, node_deadline, node_link, node_begin};
    return &type;
}

void xn_rx(xn_nic *nic, const uint8_t *frame, uint32_t length, uint64_t now) {
    xf_packet *p;
    if (length > XF_MAX_FRAME) {
        advance(nic, now);
        nic->stats.rx_packets++;
        nic->stats.rx_bytes += xn_wire_bytes(length);
        drop(nic, XN_DROP_MALFORMED, length, NO_CLASS);
        return;
    }
    p = packet_new(nic->pool, length);
    if (!p) return;
    memcpy(p->data, frame, length);
    node_rx(nic, 0, p, now);
}

int xn_poll(xn_nic *nic, uint64_t now, xf_frame *out, uint32_t room) {
    uint32_t n = 0;
    xf_packet *p;
    while ((p = list_pop(&nic->held))) packet_free(p);
    advance(nic, now);
    while (n < room && (p = nic->egress.in_flight.head) && p->time <= now) {
        list_push(&nic->held, list_pop(&nic->egress.in_flight));
        out[n].data = p->data;
        out[n].length = p->length;
        out[n].port = 0;
        out[n++].time = p->time;
    }
    return (int)n;
}

/* ---- work ---- */

int xn_post(xn_nic *nic, uint32_t qpn, uint32_t id, uint64_t size, uint64_t now, int write) {
    xn_pair *pair = find(nic, qpn);
    xn_timer timer = {now, 0, XN_AT_POST, 0, 0, pair, {NULL}};
    if (!pair || !(timer.u.work = calloc(1, sizeof *timer.u.work))) return -1;
    timer.u.work->id = id;
    timer.u.work->bytes = size;
    timer.u.work->write = write != 0;
    xn_at(nic, timer);
    return 0;
}

void xn_stop(xn_nic *nic, uint64_t now) {
    uint32_t i;
    advance(nic, now);
    for (i = 0; nic->pairs && i <= nic->pair_mask; i++)
        if (nic->pairs[i]) nic->pairs[i]->requester.stopped = 1;
    xn_drop_flows(nic);
}

void xn_set_rate(xn_nic *nic, uint64_t rate_bps, uint64_t now) {
    advance(nic, now);
    nic->egress.rate_bps = rate_bps;
    nic->egress.wire_length = 0;
}

void xn_storm(xn_nic *nic, uint32_t cls, uint32_t quanta, uint64_t until, uint64_t now) {
    xn_timer timer = {now, 0, XN_AT_STORM, cls, quanta, NULL, {NULL}};
    timer.u.due = until;
    xn_at(nic, timer);
}

/* Nothing starts before `from` any more. */
void xn_catch_up(xn_nic *nic, uint64_t from) {
    if (from * 1000 > nic->egress.clock_ps) nic->egress.clock_ps = from * 1000;
}

/* ---- life ---- */

unsigned xn_abi(void) { return XN_ABI; }

uint32_t xn_number(const xn_nic *nic) { return nic->number; }

xn_nic *xn_new(xn_group *group, const xn_config *config) {
    xn_nic *nic = calloc(1, sizeof *nic);
    if (!nic) return NULL;
    nic->config = *config;
    nic->group = group;
    nic->payload = xn_payload_of(config->mtu);
    nic->pool = pool_new(OWN_POOL_HEADROOM);
    nic->owns_pool = 1;
    nic->egress.rate_bps = config->rate_bps;
    if (!nic->payload || !nic->pool) {
        xn_free(nic);
        return NULL;
    }
    nic->number = xn_group_add(group);
    return nic;
}

static int table_grow(xn_nic *nic) {
    uint32_t room = nic->pairs ? 2 * (nic->pair_mask + 1) : 4, i;
    xn_pair **old = nic->pairs, **table = calloc(room, sizeof *table);
    uint32_t old_room = old ? nic->pair_mask + 1 : 0;
    if (!table) return 0;
    nic->pairs = table;
    nic->pair_mask = room - 1;
    for (i = 0; i < old_room; i++)
        if (old[i]) {
            uint32_t at = old[i]->config.qpn & nic->pair_mask;
            while (table[at]) at = (at + 1) & nic->pair_mask;
            table[at] = old[i];
        }
    free(old);
    return 1;
}

int xn_add_pair(xn_nic *nic, const xn_pair_config *config) {
    xn_pair *pair = calloc(1, sizeof *pair);
    uint32_t at;
    if (!pair) return -1;
    pair->nic = nic;
    pair->config = *config;
    xn_requester_init(pair);
    if (!xn_cc_init(&pair->requester.cc, &nic->config) || !xn_responder_init(pair) ||
        (2 * (nic->pair_count + 1) > (nic->pairs ? nic->pair_mask + 1 : 0) && !table_grow(nic))) {
        free(pair);
        return -1;
    }
    at = config->qpn & nic->pair_mask;
    while (nic->pairs[at]) at = (at + 1) & nic->pair_mask;
    nic->pairs[at] = pair;
    nic->pair_count++;
    return 0;
}

void xn_use_pool(xn_nic *nic, xf_pool *pool) {
    if (nic->owns_pool) pool_retire(nic->pool);
    nic->owns_pool = 0;
    nic->pool = pool;
}

void xn_free(xn_nic *nic) {
    uint32_t i;
    xf_packet *p;
    if (!nic) return;
    for (i = 0; nic->pairs && i <= nic->pair_mask; i++)
        if (nic->pairs[i]) {
            xn_requester_free(nic->pairs[i]);
            xn_responder_free(nic->pairs[i]);
            free(nic->pairs[i]);
        }
    for (i = 0; i < nic->timers.count; i++)
        if (nic->timers.at[i].kind == XN_AT_POST) free(nic->timers.at[i].u.work);
    while ((p = list_pop(&nic->held))) packet_free(p);
    while ((p = list_pop(&nic->buffer.frames))) packet_free(p);
    xn_egress_free(&nic->egress);
    free(nic->timers.at);
    free(nic->pairs);
    if (nic->owns_pool) pool_retire(nic->pool);
    free(nic);
}

/* ---- what it counted ---- */

void xn_stats_read(xn_nic *nic, uint64_t now, xn_stats *out) {
    uint32_t c;
    *out = nic->stats;
    out->tx_packets = nic->egress.tx_packets;
    out->tx_bytes = nic->egress.tx_bytes;
    out->buffer_peak = nic->buffer.peak;
    for (c = 0; c < XN_CLASSES; c++) {
        uint64_t now_ps = now * 1000, end = nic->egress.pause_ps[c] < now_ps ? nic->egress.pause_ps[c] : now_ps;
        uint64_t running = end > nic->paused_from_ps[c] ? end - nic->paused_from_ps[c] : 0;
        out->paused_ns[c] = (nic->paused_ps[c] + running) / 1000;
        out->buffer_bytes[c] = nic->buffer.bytes[c];
    }
}

int xn_pair_read(xn_nic *nic, uint32_t qpn, xn_pair_stats *out) {
    xn_pair *pair = find(nic, qpn);
    const xn_requester *r;
    const xn_responder *s;
    const xn_work *work;
    memset(out, 0, sizeof *out);
    if (!pair) return -1;
    r = &pair->requester;
    s = &pair->responder;
    out->una = r->una;
    out->next_psn = r->next_psn;
    out->sent_psn = r->sent_psn;
    out->retransmitted = r->retransmitted;
    out->bytes_sent = r->bytes_sent;
    out->bytes_acked = r->bytes_acked;
    if (r->unacked && r->una > r->unacked->first_psn) { /* of an unfinished message */
        uint64_t part = (r->una - r->unacked->first_psn) * nic->config.mtu;
        out->bytes_acked += part < r->unacked->bytes ? part : r->unacked->bytes;
    }
    out->cnps_received = r->cnps;
    out->stale_acks = r->stale_acks;
    out->next_ps = r->next_ps;
    for (work = r->unacked; work; work = work->next) out->outstanding++;
    out->explored = r->reps.explored;
    out->recycled = r->reps.recycled;
    out->freezes = r->reps.freezes;
    out->frozen = r->reps.frozen;
    out->window = r->cc.window;
    out->rate_bps = r->cc.rate;
    if (r->cc.kind == XN_DCQCN) {
        out->target_bps = r->cc.u.dcqcn.target;
        out->alpha = r->cc.u.dcqcn.alpha;
    } else if (r->cc.kind == XN_HPCC) {
        out->utilisation = r->cc.u.hpcc.utilisation;
    }
    out->failure = r->failed;
    out->stopped = r->stopped;
    out->expected = s->expected;
    out->msn = s->msn;
    out->bytes_received = s->bytes_received;
    out->duplicates = s->duplicates;
    out->out_of_order = s->out_of_order;
    out->naks = s->naks;
    out->cnps_sent = s->cnps;
    out->early_peak = s->early_peak;
    out->receiver_failed = s->failed;
    out->telemetry_bytes = s->telemetry_bytes;
    return 0;
}

double xn_rate(xn_nic *nic, uint32_t qpn, uint64_t now) {
    xn_pair *pair = find(nic, qpn);
    if (!pair) return 0;
    xn_cc_advance(&pair->requester.cc, now);
    return pair->requester.cc.rate;
}

uint32_t xn_telemetry(xn_nic *nic, uint32_t qpn, int fresh, uint8_t *out) {
    xn_pair *pair = find(nic, qpn);
    if (!pair || !pair->responder.telemetry_bytes || (fresh && !pair->responder.new_telemetry)) return 0;
    if (fresh) pair->responder.new_telemetry = 0;
    memcpy(out, pair->responder.telemetry, pair->responder.telemetry_bytes);
    return pair->responder.telemetry_bytes;
}

uint32_t xn_outstanding(xn_nic *nic, uint32_t qpn, xn_message *out, uint32_t room) {
    xn_pair *pair = find(nic, qpn);
    const xn_work *work = pair ? pair->requester.unacked : NULL;
    uint32_t n = 0;
    for (; work && n < room; work = work->next, n++) {
        memset(&out[n], 0, sizeof out[n]);
        out[n].bytes = work->bytes;
        out[n].posted = work->posted;
        out[n].started = work->started;
        out[n].first_psn = work->first_psn;
        out[n].end_psn = work->end_psn;
        out[n].id = work->id;
        out[n].retransmitted = work->retransmitted;
        out[n].write = work->write;
    }
    return n;
}
