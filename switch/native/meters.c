/* Meters: two rates, three colours (RFC 2698, colour-blind), in bytes or packets.
 *
 * Tokens are counted from the instant the meter was set, so no rounding accumulates: tokens so far is the whole number
 * in rate * elapsed. The peak bucket is asked first and, when it refuses (red), the committed one is not charged. */
#include "engine.h"

enum { GREEN, YELLOW, RED };
enum { PEAK, COMMITTED };

/* rate (per second) * elapsed (ns) / 10^9, rounded down, without overflow up to 10^13 a second. */
static uint64_t tokens_since(uint64_t rate, uint64_t elapsed) {
    uint64_t s = elapsed / NS_PER_S, us = elapsed % NS_PER_S / 1000, ns = elapsed % 1000;
    return s * rate + (us * rate + ns * rate / 1000) / 1000000;
}

int meter_set(xf_meter *m, const uint64_t *rates_bursts, uint32_t count, uint64_t now) {
    uint32_t i;
    if (count != 0 && count != 2) return XF_EINVAL;
    if (!count) {
        m->configured = 0;
        return 0;
    }
    if (rates_bursts[0] > rates_bursts[2] || rates_bursts[2] > 10000000000000ul) return XF_EINVAL;
    for (i = 0; i < 2; i++) {
        m->rate[1 - i] = rates_bursts[2 * i];
        m->burst[1 - i] = m->tokens[1 - i] = rates_bursts[2 * i + 1];
        m->taken[1 - i] = 0;
    }
    m->origin = now;
    m->configured = 1;
    return 0;
}

uint32_t meter_execute(xf_meter *m, uint64_t now, uint64_t units) {
    static const uint8_t colours[2] = {RED, YELLOW};
    uint64_t elapsed = now > m->origin ? now - m->origin : 0;
    uint32_t i;
    if (!m->configured) return GREEN;
    for (i = PEAK; i <= COMMITTED; i++) {
        uint64_t total = tokens_since(m->rate[i], elapsed), fresh = total > m->taken[i] ? total - m->taken[i] : 0;
        m->taken[i] += fresh;
        m->tokens[i] = fresh > m->burst[i] - m->tokens[i] ? m->burst[i] : m->tokens[i] + fresh;
        if (m->tokens[i] < units) return colours[i];
        m->tokens[i] -= units;
    }
    return GREEN;
}

uint32_t xf_meter_execute(xf_ctx *x, uint32_t meter, uint64_t index, uint32_t *colour) {
    xf_engine *e = x->engine;
    const xf_array_desc *d = &e->program->meters[meter];
    if (index >= d->size) {
        xf_out_of_bounds(x);
        return 0;
    }
    *colour = meter_execute(&e->meters[meter][index], x->now, d->bytes ? x->ingress_length : 1);
    return 1;
}

int xf_meter_set(xf_engine *e, uint32_t meter, uint32_t index, const uint64_t *rates_bursts, uint32_t count) {
    int rc = XF_EINVAL;
    engine_lock(e);
    if (e->program && meter < e->program->meter_count && index < e->program->meters[meter].size)
        rc = meter_set(&e->meters[meter][index], rates_bursts, count, ns_of(e, e->now));
    engine_unlock(e);
    return rc;
}
