/* What a control thread sets of queues while they run; it applies from the next packet on. */
#include "engine.h"

#define LONGEST_BURST 1e18 /* ps */

static xf_ps burst_time(uint64_t bytes, uint64_t rate) {
    /* By way of signed integers: tcc has no conversion of its own between unsigned ones and floating point. */
    double ps = rate ? (double)(int64_t)bytes * 8.0 * (double)(int64_t)PS_PER_S / (double)(int64_t)rate : 0.0;
    return (xf_ps)(int64_t)(ps < LONGEST_BURST ? ps : LONGEST_BURST);
}

static void set_bit(uint8_t *mask, uint32_t cls, int on) {
    *mask = (uint8_t)(on ? *mask | 1u << cls : *mask & ~(1u << cls));
}

void settings_apply(xf_port *p, uint32_t cls, const xf_queue_settings *s) {
    xf_queue *q = &p->queues[cls];
    q->settings = *s;
    q->limit_bytes = s->limit_bytes;
    q->limit_packets = s->limit_packets;
    q->burst = burst_time(s->burst_bytes, s->rate_bps);
    if (!s->weight) q->credit = 0;
    if (!s->rate_bps && !s->rate_pps) q->due = 0;
    set_bit(&p->weighted, cls, s->weight != 0);
    set_bit(&p->shaped, cls, s->rate_bps || s->rate_pps);
    p->managed = p->weighted | p->shaped;
}

static void merge(xf_queue_settings *into, const xf_queue_settings *from, uint32_t fields) {
    if (fields & XF_SET_LIMIT_BYTES) into->limit_bytes = from->limit_bytes;
    if (fields & XF_SET_LIMIT_PACKETS) into->limit_packets = from->limit_packets;
    if (fields & XF_SET_RATE_BPS) into->rate_bps = from->rate_bps;
    if (fields & XF_SET_BURST_BYTES) into->burst_bytes = from->burst_bytes;
    if (fields & XF_SET_RATE_PPS) into->rate_pps = from->rate_pps;
    if (fields & XF_SET_GUARANTEED) into->guaranteed_bytes = from->guaranteed_bytes;
    if (fields & XF_SET_HEADROOM) into->headroom_bytes = from->headroom_bytes;
    if (fields & XF_SET_ALPHA) into->alpha = from->alpha;
    if (fields & XF_SET_WEIGHT) into->weight = from->weight;
}

static int acceptable(const xf_queue_settings *s, uint32_t fields) {
    xf_queue_settings t;
    memset(&t, 0, sizeof t);
    merge(&t, s, fields);
    return t.rate_pps <= XF_MAX_QUEUE_PPS && t.burst_bytes <= XF_MAX_BUFFER && t.guaranteed_bytes <= XF_MAX_BUFFER &&
           t.headroom_bytes <= XF_MAX_BUFFER && t.alpha <= XF_MAX_ALPHA && t.weight <= XF_MAX_WEIGHT;
}

int xf_queue_set(xf_engine *e, int port, int cls, const xf_queue_settings *to, uint32_t fields) {
    uint32_t n, c;
    if (port < -1 || port >= XF_MAX_PORTS || cls < -1 || cls >= XF_CLASSES || !acceptable(to, fields)) return XF_EINVAL;
    engine_lock(e);
    if (port >= 0 && !port_get(e, (uint32_t)port)) {
        engine_unlock(e);
        return XF_ENOMEM;
    }
    for (c = 0; c < XF_CLASSES; c++) {
        if (cls >= 0 && (uint32_t)cls != c) continue;
        if (port < 0) merge(&e->settings[c], to, fields);
        for (n = 0; n < XF_MAX_PORTS; n++) {
            xf_queue_settings s;
            if (!e->ports[n] || (port >= 0 && (uint32_t)port != n)) continue;
            s = e->ports[n]->queues[c].settings;
            merge(&s, to, fields);
            settings_apply(e->ports[n], c, &s);
        }
    }
    if (fields & XF_SET_GUARANTEED) buffer_recount(e);
    for (n = 0; n < XF_MAX_PORTS; n++)
        if (e->ports[n]) port_schedule(e, e->ports[n]);
    engine_unlock(e);
    return 0;
}

int xf_queue_settings_read(xf_engine *e, uint32_t port, uint32_t cls, xf_queue_settings *out) {
    xf_port *p;
    memset(out, 0, sizeof *out);
    if (port >= XF_MAX_PORTS || cls >= XF_CLASSES) return XF_EINVAL;
    engine_lock(e);
    p = e->ports[port];
    if (p) *out = p->queues[cls].settings;
    engine_unlock(e);
    return p ? 0 : XF_ENOENT;
}
