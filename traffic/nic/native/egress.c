/* The transmit side: classes in strict priority, pacing, pause, frames in flight (egress.py). */
#include "nic.h"

#define WIRE_MINIMUM 60u
#define WIRE_OVERHEAD 24u

uint64_t xn_wire_bytes(uint32_t length) { return (length < WIRE_MINIMUM ? WIRE_MINIMUM : length) + WIRE_OVERHEAD; }

uint64_t xn_wire_ps(uint32_t length, uint64_t rate) { return xn_wire_bytes(length) * 8 * PS_PER_S / rate; }

/* bits * 10^12 / rate in two steps, as the product does not fit 64 bits. */
uint64_t xn_bits_ps(uint64_t bits, uint64_t rate) {
    uint64_t whole = bits / rate, left = bits % rate, micro = left * 1000000ul / rate, rest = left * 1000000ul % rate;
    return whole * PS_PER_S + micro * 1000000ul + rest * 1000000ul / rate;
}

/* ---- control frames ---- */

static int control_put(xn_control_queue *q, xn_control item) {
    if (q->count == q->room) {
        uint32_t room = q->room ? 2 * q->room : 16, i;
        xn_control *at = malloc(room * sizeof *at);
        if (!at) return 0;
        for (i = 0; i < q->count; i++) at[i] = q->at[(q->head + i) & (q->room - 1)];
        free(q->at);
        q->at = at;
        q->head = 0;
        q->room = room;
    }
    q->at[(q->head + q->count++) & (q->room - 1)] = item;
    return 1;
}

static xn_control control_take(xn_control_queue *q) {
    xn_control item = q->at[q->head];
    q->head = (q->head + 1) & (q->room - 1);
    q->count--;
    return item;
}

void xn_send(xn_nic *nic, uint32_t cls, xn_control item) {
    if (control_put(&nic->egress.control[cls], item)) nic->egress.pending |= 1u << cls;
}

/* ---- flows ---- */

static void ready_put(xn_egress *e, xn_requester *flow) {
    uint32_t c = flow->traffic_class;
    flow->next = NULL;
    if (e->ready[c].tail) e->ready[c].tail->next = flow;
    else e->ready[c].head = flow;
    e->ready[c].tail = flow;
}

static xn_requester *ready_take(xn_egress *e, uint32_t c) {
    xn_requester *flow = e->ready[c].head;
    e->ready[c].head = flow->next;
    if (!flow->next) e->ready[c].tail = NULL;
    return flow;
}

static int sooner(const xn_paced *a, const xn_paced *b) {
    return a->time_ps != b->time_ps ? a->time_ps < b->time_ps : a->sequence < b->sequence;
}

static int paced_put(xn_egress *e, xn_requester *flow) {
    xn_paced item = {flow->next_ps, ++e->sequence, flow};
    uint32_t at = e->paced_count;
    if (e->paced_count == e->paced_room) {
        uint32_t room = e->paced_room ? 2 * e->paced_room : 8;
        xn_paced *more = realloc(e->paced, room * sizeof *more);
        if (!more) return 0;
        e->paced = more;
        e->paced_room = room;
    }
    e->paced_count++;
    for (; at && sooner(&item, &e->paced[(at - 1) / 2]); at = (at - 1) / 2) e->paced[at] = e->paced[(at - 1) / 2];
    e->paced[at] = item;
    return 1;
}

static xn_requester *paced_take(xn_egress *e) {
    xn_requester *flow = e->paced[0].flow;
    xn_paced last = e->paced[--e->paced_count];
    uint32_t at = 0, child;
    while ((child = 2 * at + 1) < e->paced_count) {
        if (child + 1 < e->paced_count && sooner(&e->paced[child + 1], &e->paced[child])) child++;
        if (!sooner(&e->paced[child], &last)) break;
        e->paced[at] = e->paced[child];
        at = child;
    }
    if (e->paced_count) e->paced[at] = last;
    return flow;
}

void xn_wake(xn_nic *nic, xn_requester *flow) {
    xn_egress *e = &nic->egress;
    if (flow->scheduled) return;
    flow->scheduled = 1;
    if (flow->next_ps <= e->clock_ps) {
        ready_put(e, flow);
        e->pending |= 1u << flow->traffic_class;
    } else {
        paced_put(e, flow);
    }
}

void xn_drop_flows(xn_nic *nic) {
    xn_egress *e = &nic->egress;
    uint32_t c, i;
    for (c = 0; c < XN_CLASSES; c++) {
        xn_requester *flow;
        for (flow = e->ready[c].head; flow; flow = flow->next) flow->scheduled = 0;
        e->ready[c].head = e->ready[c].tail = NULL;
        if (!e->control[c].count) e->pending &= ~(1u << c);
    }
    for (i = 0; i < e->paced_count; i++) e->paced[i].flow->scheduled = 0;
    e->paced_count = 0;
}

/* ---- pause and time ---- */

void xn_egress_pause(xn_egress *e, uint32_t cls, uint64_t until_ps) {
    uint32_t c;
    e->pause_ps[cls] = until_ps;
    e->latest_pause_ps = 0;
    for (c = 0; c < XN_CLASSES; c++)
        if (e->pause_ps[c] > e->latest_pause_ps) e->latest_pause_ps = e->pause_ps[c];
}

/* Bit per class that has something and is not paused at that time. */
static uint32_t open_at(const xn_egress *e, uint64_t at_ps) {
    uint32_t open = e->pending, c;
    if (e->latest_pause_ps <= at_ps) return open;
    for (c = 0; c < XN_CLASSES; c++)
        if (e->pause_ps[c] > at_ps) open &= ~(1u << c);
    return open;
}

static void release(xn_egress *e, uint64_t until_ps) {
    while (e->paced_count && e->paced[0].time_ps <= until_ps) {
        xn_requester *flow = paced_take(e);
        ready_put(e, flow);
        e->pending |= 1u << flow->traffic_class;
    }
}

uint64_t xn_next_start(xn_nic *nic) {
    xn_egress *e = &nic->egress;
    uint64_t at = e->free_ps > e->clock_ps ? e->free_ps : e->clock_ps, start = XN_NEVER, first;
    uint32_t i;
    release(e, at);
    if (e->pending) {
        if (open_at(e, at)) return at;
        for (i = 0; i < XN_CLASSES; i++)
            if ((e->pending >> i & 1) && e->pause_ps[i] < start) start = e->pause_ps[i];
    }
    if (e->paced_count) {
        first = e->paced[0].time_ps;
        if (e->latest_pause_ps > first) {
            first = XN_NEVER;
            for (i = 0; i < e->paced_count; i++) {
                uint64_t pause = e->pause_ps[e->paced[i].flow->traffic_class];
                uint64_t time = e->paced[i].time_ps > pause ? e->paced[i].time_ps : pause;
                if (time < first) first = time;
            }
        }
        if (first < start) return first;
    }
    return start;
}

void xn_start(xn_nic *nic, uint64_t at_ps) {
    xn_egress *e = &nic->egress;
    xn_requester *flow = NULL;
    xf_packet *p = NULL;
    uint32_t open, c = XN_CLASSES - 1;
    e->clock_ps = at_ps;
    release(e, at_ps);
    open = open_at(e, at_ps);
    while (!(open & (1u << c))) c--;
    if (e->control[c].count) {
        xn_control item = control_take(&e->control[c]);
        if (item.kind == XN_FRAME) p = item.u.packet;
        else p = item.kind == XN_CNP ? xn_make_cnp(item.u.pair) : xn_make_response(item.u.pair, item.entropy, item.marked);
    } else {
        flow = ready_take(e, c);
        p = xn_next_frame(flow, at_ps);
    }
    if (p) {
        if (p->length != e->wire_length) {
            e->wire_length = p->length;
            e->wire_ps = xn_wire_ps(p->length, e->rate_bps);
        }
        e->free_ps = at_ps + e->wire_ps;
        p->time = (e->free_ps + 999) / 1000 + nic->config.delay_ns;
        p->port = 0;
        p->arrives = p->time;
        list_push(&e->in_flight, p);
        if (e->next) {
            if (!e->ahead) e->ahead = p;
            if (p->time < *e->next) *e->next = p->time;
        }
        e->tx_packets++;
        e->tx_bytes += xn_wire_bytes(p->length);
    }
    if (flow) {
        if (!xn_has_next(flow, &nic->config)) {
            flow->scheduled = 0;
        } else if (flow->next_ps <= e->free_ps) {
            ready_put(e, flow);
        } else if (!paced_put(e, flow)) {
            flow->scheduled = 0;
        }
    }
    if (!e->control[c].count && !e->ready[c].head) e->pending &= ~(1u << c);
}

void xn_egress_free(xn_egress *e) {
    xf_packet *p;
    uint32_t c;
    while ((p = list_pop(&e->in_flight))) packet_free(p);
    for (c = 0; c < XN_CLASSES; c++) {
        while (e->control[c].count) {
            xn_control item = control_take(&e->control[c]);
            if (item.kind == XN_FRAME) packet_free(item.u.packet);
        }
        free(e->control[c].at);
    }
    free(e->paced);
}
