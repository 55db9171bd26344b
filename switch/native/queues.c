/* The traffic manager: eight queues a port, strict priority, a paced link, pauses. Weights and shapers are in
 * scheduler.c, the shared buffer in buffer.c, what a control thread sets in settings.c.
 *
 * Theory. A port sends one frame at a time. Its next transmission starts when the link is free, a frame is queued in a
 * class that is not paused, whichever comes last; EV_START holds that instant. The egress pipeline runs then, on the
 * highest such class. A frame that egress discards takes no time; any other occupies the link for its final length.
 * Since events are run in time order, a driver that polls late sees the same transmissions at the same instants as
 * one that polls in time. */
#include "engine.h"
#include "fabric.h"

#define PHV_FETCHED 1216u /* bytes */

void count_drop(xf_engine *e, enum xf_drop reason, uint32_t port, uint32_t bytes) {
    e->drop_packets[reason]++;
    e->drop_bytes[reason] += bytes;
    if (port < XF_MAX_PORTS && e->ports[port]) {
        e->ports[port]->drop_packets[reason]++;
        e->ports[port]->drop_bytes[reason] += bytes;
    }
}

xf_port *port_get(xf_engine *e, uint32_t number) {
    xf_port *p;
    int c;
    if (number >= XF_MAX_PORTS) return NULL;
    if (e->ports[number]) return e->ports[number];
    p = memory_take(sizeof *p);
    if (!p) return NULL;
    p->number = number;
    p->up = 1;
    for (c = 0; c < XF_CLASSES; c++) settings_apply(p, (uint32_t)c, &e->settings[c]);
    e->ports[number] = p;
    if (e->fabric) fabric_changed(e->fabric);
    return p;
}

void port_schedule(xf_engine *e, xf_port *p) {
    xf_ps at = XF_NEVER;
    if (p->in_start) return;
    if (p->nonempty & ~p->paused) {
        at = p->free > e->now ? p->free : e->now;
        if (!XF_LIKELY(!p->managed)) at = scheduler_when(p, p->nonempty & ~(uint32_t)p->paused, at);
    }
    events_set(&e->events, EV_ID(EV_START, p->number), at);
}

static void discard(xf_engine *e, xf_packet *pkt, enum xf_drop reason, uint32_t port, uint32_t cls) {
    count_drop(e, reason, port, pkt->packet_length);
    refused_pass(e, pkt, cls);
    packet_free(pkt);
}

static void refuse(xf_engine *e, xf_packet *pkt, xf_port *p, uint32_t cls, int why) {
    static const enum xf_drop reasons[] = {XF_DROP_QUEUE_BYTES, XF_DROP_QUEUE_PACKETS, XF_DROP_BUFFER};
    p->queues[cls].drop_packets[why]++;
    p->queues[cls].drop_bytes[why] += pkt->packet_length;
    discard(e, pkt, reasons[why], p->number, cls);
}

void port_enqueue(xf_engine *e, xf_packet *pkt, uint32_t number, uint32_t cls) {
    uint32_t bytes = pkt->packet_length;
    xf_port *p;
    xf_queue *q;
    if (cls >= e->priority_queues) {
        discard(e, pkt, XF_DROP_PRIORITY, number, cls);
        return;
    }
    p = port_get(e, number);
    if (!p) {
        discard(e, pkt, XF_DROP_NO_PORT, number, cls);
        return;
    }
    q = &p->queues[cls];
    if (q->bytes + bytes > q->limit_bytes) {
        refuse(e, pkt, p, cls, 0);
        return;
    }
    if (q->count + 1 > q->limit_packets) {
        refuse(e, pkt, p, cls, 1);
        return;
    }
    if (!XF_LIKELY(!e->buffer_size) && !buffer_admit(e, q, bytes)) {
        refuse(e, pkt, p, cls, 2);
        return;
    }
    pkt->enq_qdepth = (uint32_t)q->count;
    pkt->enq_ticks = ticks_of(e, ns_of(e, e->now));
    pkt->port = number;
    pkt->cls = cls;
    list_push(&q->packets, pkt);
    q->bytes += bytes;
    q->count++;
    q->in_bytes += bytes;
    q->in_packets++;
    if (q->bytes > q->watermark_bytes) q->watermark_bytes = q->bytes;
    if (q->count > q->watermark_packets) q->watermark_packets = q->count;
    if (!(p->nonempty & (1u << cls))) {
        p->nonempty |= (uint8_t)(1u << cls);
        port_schedule(e, p);
    }
}

/* What lies in a queue has left the caches when its turn comes. */
static void fetch_queued(const xf_packet *next) {
    uint32_t i;
    XF_PREFETCH(next->data - 64);
    XF_PREFETCH(next->data);
    for (i = 0; i < PHV_FETCHED; i += 64) XF_PREFETCH((const uint8_t *)next->phv + i);
    if (!next->next) return;
    XF_PREFETCH(next->next);
    XF_PREFETCH((const uint8_t *)next->next + 64);
}

void port_start(xf_engine *e, xf_port *p) {
    uint32_t ready = p->nonempty & ~(uint32_t)p->paused, cls = XF_CLASSES - 1, sent = 0;
    xf_queue *q;
    xf_packet *pkt;
    if (!ready) return;
    if (XF_LIKELY(!p->managed)) {
        while (!(ready & (1u << cls))) cls--;
    } else {
        cls = scheduler_pick(e, p, ready);
        if (cls == XF_CLASSES) {
            port_schedule(e, p);
            return;
        }
    }
    q = &p->queues[cls];
    pkt = list_pop(&q->packets);
    q->count--;
    q->bytes -= pkt->packet_length;
    if (!XF_LIKELY(!e->buffer_size)) buffer_release(e, q, pkt->packet_length);
    if (!q->count) p->nonempty &= (uint8_t)~(1u << cls);
    else fetch_queued(q->packets.head);
    p->in_start = 1;
    if (egress_pass(e, pkt, p, cls)) {
        sent = pkt->length;
        if (pkt->recirculate_list) {
            p->free = e->now + wire_time(pkt->length, p->rate);
            pkt->time = p->free;
            if (!p->loop.head) events_set(&e->events, EV_ID(EV_LOOP, p->number), pkt->time);
            list_push(&p->loop, pkt);
        } else if (!p->exists) {
            sent = 0;
            count_drop(e, XF_DROP_NO_PORT, p->number, pkt->length);
            packet_free(pkt);
        } else if (!p->up) {
            sent = 0;
            count_drop(e, XF_DROP_PORT_DOWN, p->number, pkt->length);
            packet_free(pkt);
        } else {
            p->free = e->now + wire_time(pkt->length, p->rate);
            pkt->time = p->free + p->delay_ns * PS_PER_NS;
            packet_close(pkt);
            p->tx_packets++;
            p->tx_bytes += pkt->length;
            if (loss_takes(&p->loss[0])) {
                count_drop(e, XF_DROP_LINK_LOSS, p->number, pkt->length);
                packet_free(pkt);
            } else {
                /* A delay that was shortened meanwhile must not let a frame overtake. */
                if (p->flight.tail && pkt->time < p->flight.tail->time) pkt->time = p->flight.tail->time;
                pkt->arrives = ns_of(e, pkt->time + PS_PER_NS - 1);
                if (!p->next) {
                    if (!p->flight.head) events_set(&e->events, EV_ID(EV_ARRIVE, p->number), pkt->time);
                } else if (pkt->arrives < *p->next) {
                    *p->next = pkt->arrives;
                }
                list_push(&p->flight, pkt);
            }
        }
    }
    p->in_start = 0;
    if (!XF_LIKELY(!p->managed)) scheduler_charge(e, p, cls, sent);
    port_schedule(e, p);
}

void port_clear(xf_engine *e, xf_port *p, enum xf_drop reason) {
    xf_list queued = {NULL, NULL};
    uint32_t c;
    xf_packet *pkt;
    for (c = 0; c < XF_CLASSES; c++) {
        xf_queue *q = &p->queues[c];
        while ((pkt = list_pop(&q->packets))) {
            if (e->buffer_size) buffer_release(e, q, pkt->packet_length);
            list_push(&queued, pkt);
        }
        q->bytes = q->count = 0;
    }
    while ((pkt = list_pop(&p->loop))) {
        count_drop(e, reason, p->number, pkt->length);
        packet_free(pkt);
    }
    p->nonempty = 0;
    events_set(&e->events, EV_ID(EV_LOOP, p->number), XF_NEVER);
    events_set(&e->events, EV_ID(EV_START, p->number), XF_NEVER);
    while ((pkt = list_pop(&queued))) {
        if (reason != XF_DROP_SWAP) { /* then the program and its state go too */
            discard(e, pkt, reason, p->number, pkt->cls);
        } else {
            count_drop(e, reason, p->number, pkt->packet_length);
            packet_free(pkt);
        }
    }
}

/* ---- pauses ---- */

static void pause_event(xf_engine *e, xf_port *p, uint32_t cls, uint64_t time, uint64_t until) {
    ring_put(&e->pauses, p->number * XF_CLASSES + cls, time, &until, 1);
    engine_tell(e, XF_PENDING_PAUSE);
}

void port_schedule_expiry(xf_engine *e, xf_port *p) {
    xf_ps first = XF_NEVER;
    uint32_t c;
    for (c = 0; c < XF_CLASSES; c++)
        if (p->paused & (1u << c)) {
            xf_ps t = ps_of(e, p->queues[c].until);
            if (t < first) first = t;
        }
    events_set(&e->events, EV_ID(EV_EXPIRE, p->number), first);
}

/* The pause of a queue now ends at `until` (ns); a time that is not in the future resumes it. */
void queue_pause(xf_engine *e, xf_port *p, uint32_t cls, uint64_t until) {
    uint64_t now = ns_of(e, e->now);
    xf_queue *q = &p->queues[cls];
    uint8_t bit = (uint8_t)(1u << cls);
    if (until > now) {
        if ((p->paused & bit) && q->until == until) return;
        if (!(p->paused & bit)) q->since = now;
        p->paused |= bit;
        q->until = until;
        pause_event(e, p, cls, now, until);
    } else {
        if (!(p->paused & bit)) return;
        p->paused &= (uint8_t)~bit;
        q->paused_ns += now - q->since;
        q->until = 0;
        pause_event(e, p, cls, now, 0);
    }
    port_schedule_expiry(e, p);
    port_schedule(e, p);
}

void port_expire(xf_engine *e, xf_port *p) {
    uint64_t now = ns_of(e, e->now);
    uint32_t c;
    for (c = 0; c < XF_CLASSES; c++) {
        xf_queue *q = &p->queues[c];
        if (!(p->paused & (1u << c)) || q->until > now) continue;
        p->paused &= (uint8_t)~(1u << c);
        q->paused_ns += q->until - q->since;
        pause_event(e, p, c, q->until, 0);
        q->until = 0;
    }
    port_schedule_expiry(e, p);
    port_schedule(e, p);
}

uint64_t ns_of_ticks(const xf_engine *e, uint64_t ticks) {
    uint64_t hz = e->timestamp_hz, s = ticks / hz, rest = ticks % hz;
    if (hz == NS_PER_S) return ticks;
    if (s > (XF_NEVER - 1) / NS_PER_S - 1) return XF_NEVER - 1;
    return s * NS_PER_S + (rest * NS_PER_S + hz - 1) / hz;
}

void xf_pause_written(xf_ctx *x, uint64_t index, uint64_t value) {
    xf_engine *e = x->engine;
    xf_port *p = port_get(e, index / XF_CLASSES > XF_MAX_PORTS ? XF_MAX_PORTS : (uint32_t)(index / XF_CLASSES));
    if (p) queue_pause(e, p, (uint32_t)(index % XF_CLASSES), ns_of_ticks(e, value));
}

/* ---- the driver's calls ---- */

int xf_port_add(xf_engine *e, uint32_t number, uint64_t rate, uint64_t delay_ns) {
    xf_port *p;
    int rc = 0;
    if (number >= XF_MAX_PORTS || number == e->drop_port || delay_ns > 3600 * NS_PER_S) return XF_EINVAL;
    engine_lock(e);
    p = port_get(e, number);
    if (!p) rc = XF_ENOMEM;
    else if (p->exists) rc = XF_EEXIST;
    else {
        p->exists = p->up = 1;
        p->rate = rate;
        p->delay_ns = delay_ns;
        if (e->fabric) fabric_changed(e->fabric);
    }
    engine_unlock(e);
    return rc;
}

static xf_port *existing(xf_engine *e, uint32_t number) {
    xf_port *p = number < XF_MAX_PORTS ? e->ports[number] : NULL;
    return p && p->exists ? p : NULL;
}

int xf_port_remove(xf_engine *e, uint32_t number) {
    xf_port *p;
    engine_lock(e);
    p = existing(e, number);
    if (p) {
        p->exists = 0;
        p->rate = 0;
        port_clear(e, p, XF_DROP_NO_PORT);
    }
    engine_unlock(e);
    return p ? 0 : XF_ENOENT;
}

int xf_port_rate(xf_engine *e, uint32_t number, uint64_t rate) {
    xf_port *p;
    engine_lock(e);
    p = existing(e, number);
    if (p) p->rate = rate;
    engine_unlock(e);
    return p ? 0 : XF_ENOENT;
}

int xf_port_delay(xf_engine *e, uint32_t number, uint64_t delay_ns) {
    xf_port *p;
    if (delay_ns > 3600 * NS_PER_S) return XF_EINVAL;
    engine_lock(e);
    p = existing(e, number);
    if (p) p->delay_ns = delay_ns;
    if (p && e->fabric) fabric_changed(e->fabric);
    engine_unlock(e);
    return p ? 0 : XF_ENOENT;
}

int xf_port_up(xf_engine *e, uint32_t number, int up) {
    xf_port *p;
    engine_lock(e);
    p = existing(e, number);
    if (p) p->up = up != 0;
    engine_unlock(e);
    return p ? 0 : XF_ENOENT;
}

int xf_port_loss(xf_engine *e, uint32_t number, int received, uint64_t threshold, uint32_t every, uint64_t seed) {
    xf_port *p;
    engine_lock(e);
    p = existing(e, number);
    if (p) {
        xf_loss *l = &p->loss[received != 0];
        l->threshold = threshold;
        l->every = every;
        l->random = seed;
        l->count = 0;
    }
    engine_unlock(e);
    return p ? 0 : XF_ENOENT;
}

int xf_queue_read(xf_engine *e, uint32_t number, uint32_t cls, xf_queue_stats *out) {
    xf_port *p;
    int i;
    memset(out, 0, sizeof *out);
    if (number >= XF_MAX_PORTS || cls >= XF_CLASSES) return XF_EINVAL;
    engine_lock(e);
    p = e->ports[number];
    if (p) {
        xf_queue *q = &p->queues[cls];
        out->bytes = q->bytes;
        out->packets = q->count;
        out->watermark_bytes = q->watermark_bytes;
        out->watermark_packets = q->watermark_packets;
        out->in_bytes = q->in_bytes;
        out->in_packets = q->in_packets;
        out->paused_ns = q->paused_ns;
        if (p->paused & (1u << cls)) {
            out->paused_until = q->until;
            out->paused_ns += ns_of(e, e->now) - q->since;
        }
        for (i = 0; i < 3; i++) {
            out->drop_packets[i] = q->drop_packets[i];
            out->drop_bytes[i] = q->drop_bytes[i];
        }
    }
    engine_unlock(e);
    return p ? 0 : XF_ENOENT;
}

int xf_port_read(xf_engine *e, uint32_t number, xf_port_stats *out) {
    xf_port *p;
    memset(out, 0, sizeof *out);
    if (number >= XF_MAX_PORTS) return XF_EINVAL;
    engine_lock(e);
    p = e->ports[number];
    if (p) {
        out->rx_bytes = p->rx_bytes;
        out->rx_packets = p->rx_packets;
        out->tx_bytes = p->tx_bytes;
        out->tx_packets = p->tx_packets;
        out->rate_bps = p->rate;
        out->delay_ns = p->delay_ns;
        memcpy(out->drop_packets, p->drop_packets, sizeof p->drop_packets);
        memcpy(out->drop_bytes, p->drop_bytes, sizeof p->drop_bytes);
        out->up = p->up;
        out->exists = p->exists;
    }
    engine_unlock(e);
    return p ? 0 : XF_ENOENT;
}

int xf_watermark_reset(xf_engine *e, uint32_t number) {
    xf_port *p;
    uint32_t c;
    engine_lock(e);
    p = number < XF_MAX_PORTS ? e->ports[number] : NULL;
    if (p)
        for (c = 0; c < XF_CLASSES; c++) {
            p->queues[c].watermark_bytes = p->queues[c].bytes;
            p->queues[c].watermark_packets = p->queues[c].count;
        }
    engine_unlock(e);
    return p ? 0 : XF_ENOENT;
}

void xf_drops_read(xf_engine *e, uint64_t *packets, uint64_t *bytes) {
    engine_lock(e);
    memcpy(packets, e->drop_packets, sizeof e->drop_packets);
    memcpy(bytes, e->drop_bytes, sizeof e->drop_bytes);
    engine_unlock(e);
}

const char *xf_drop_name(uint32_t reason) {
    static const char *const names[XF_DROP_REASONS] = {
        "ingress",     "egress",   "queue_bytes",  "queue_packets", "priority", "no_port",   "port_down",  "rx_no_port",
        "oversize",    "no_multicast", "no_clone", "loop",          "cpu_queue", "no_memory", "no_program", "swap",
        "link_loss",   "buffer",
    };
    return reason < XF_DROP_REASONS ? names[reason] : NULL;
}
