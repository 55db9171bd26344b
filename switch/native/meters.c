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

int meter_set(xf_meter *m, const uint64_t *rates_bursts, uint64_t now) {
    uint32_t i;
    if (!rates_bursts) {
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

static uint32_t colour_of(xf_meter *m, uint64_t now, uint64_t units) {
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

uint32_t meter_execute(xf_meter *m, uint64_t now, uint32_t length, int bytes) {
    uint32_t colour = colour_of(m, now, bytes ? length : 1);
    m->colours[colour].packets++;
    m->colours[colour].bytes += length;
    return colour;
}

uint32_t xf_meter_execute(xf_ctx *x, uint32_t meter, uint64_t index, uint32_t *colour) {
    xf_engine *e = x->engine;
    const xf_array_desc *d = &e->program->meters[meter];
    if (index >= d->size) {
        xf_out_of_bounds(x);
        return 0;
    }
    *colour = meter_execute(&e->meters[meter][index], x->now, x->ingress_length, d->bytes);
    return 1;
}

static int meter_ok(const xf_engine *e, uint32_t meter, uint32_t first, uint32_t count) {
    if (!e->program || meter >= e->program->meter_count) return 0;
    return first <= e->program->meters[meter].size && count <= e->program->meters[meter].size - first;
}

int meters_op(xf_engine *e, const xf_op *o) {
    uint32_t i;
    int rc = 0;
    if (!meter_ok(e, o->object, o->id, o->count)) return XF_EINVAL;
    for (i = 0; i < o->count && !rc; i++) {
        xf_meter *m = &e->meters[o->object][o->id + i];
        if (o->kind == XF_METER) rc = meter_set(m, o->words, ns_of(e, e->now));
        else memset(m->colours, 0, sizeof m->colours);
    }
    return rc;
}

void meter_read(const xf_meter *m, uint64_t *packets_bytes) { memcpy(packets_bytes, m->colours, sizeof m->colours); }

int xf_meter_read(xf_engine *e, uint32_t meter, uint32_t first, uint32_t count, uint64_t *packets_bytes) {
    uint32_t i;
    int ok;
    engine_lock(e);
    ok = meter_ok(e, meter, first, count);
    for (i = 0; ok && i < count; i++) meter_read(&e->meters[meter][first + i], packets_bytes + 6 * i);
    engine_unlock(e);
    return ok ? 0 : XF_EINVAL;
}
