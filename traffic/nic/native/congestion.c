/* Congestion control: line rate and DCQCN (congestion/none.py, dcqcn.py). HPCC and MP-RDMA have files of their own.
 *
 * Every expression on floating-point numbers is in the order of the Python one, so that the bits are the same; the
 * build keeps the compiler from fusing them. */
#include "nic.h"

int64_t xn_round(double value) {
    int64_t whole = (int64_t)value;
    double left;
    if (value < (double)whole) whole--;
    left = value - (double)whole;
    return left > 0.5 || (left == 0.5 && (whole & 1)) ? whole + 1 : whole;
}

static double largest(double a, double b) { return a > b ? a : b; }
static double smallest(double a, double b) { return a < b ? a : b; }
static uint64_t interval(double ns) {
    int64_t whole = xn_round(ns);
    return whole < 1 ? 1 : (uint64_t)whole;
}

double xn_double(uint64_t value) {
    if (!(value >> 63)) return (double)(int64_t)value;
    return (double)(int64_t)(value >> 1 | (value & 1)) * 2; /* the lost bit still decides a tie */
}

/* ---- DCQCN ---- */

static void dcqcn_init(xn_cc *cc, const double *p) {
    xn_dcqcn *d = &cc->u.dcqcn;
    d->alpha_interval = interval(p[0]);
    d->increase_interval = interval(p[1]);
    d->decrease_interval = xn_round(p[2]);
    d->increase_bytes = xn_round(p[3]);
    d->rounds = xn_round(p[4]);
    d->g = p[5];
    d->rai = p[6] + p[8] * cc->line;
    d->rhai = p[7] + p[9] * cc->line;
    d->min = smallest(p[10], cc->line);
    d->alpha = p[11];
    d->clamp = p[12] != 0;
    d->hyper_grows = p[13] != 0;
    d->order = (uint8_t)xn_round(p[14]);
    if (d->order == 2 && d->decrease_interval < 1) d->decrease_interval = 1;
    d->target = cc->line;
}

static void increase(xn_cc *cc) {
    xn_dcqcn *d = &cc->u.dcqcn;
    int64_t most = d->timer_rounds > d->byte_rounds ? d->timer_rounds : d->byte_rounds;
    int64_t least = d->timer_rounds < d->byte_rounds ? d->timer_rounds : d->byte_rounds;
    if (!d->increase_bytes) least = most;
    if (least > d->rounds) d->target += d->rhai * (double)(d->hyper_grows ? least - d->rounds : 1);
    else if (most >= d->rounds) d->target += d->rai;
    d->target = smallest(d->target, cc->line);
    cc->rate = (cc->rate + d->target) / 2;
    if (d->target == cc->line && cc->line - cc->rate < 1) {
        cc->rate = cc->line;
        d->climbing = 0;
    }
}

static void timer_increase(xn_cc *cc) {
    xn_dcqcn *d = &cc->u.dcqcn;
    d->increase_due += d->increase_interval;
    d->timer_rounds++;
    increase(cc);
}

static void cut(xn_cc *cc, uint64_t now) {
    xn_dcqcn *d = &cc->u.dcqcn;
    if (d->clamp || !d->climbing || d->timer_rounds || d->byte_rounds) d->target = cc->rate;
    cc->rate = largest(d->min, cc->rate * (1 - d->alpha / 2));
    d->climbing = 1;
    d->increase_due = now + d->increase_interval;
    d->bytes = 0;
    d->timer_rounds = 0;
    d->byte_rounds = 0;
}

static double decayed(double value, double factor, uint64_t times) {
    for (; times; times >>= 1) {
        if (times & 1) value *= factor;
        factor *= factor;
    }
    return value;
}

static void advance_flags(xn_cc *cc, uint64_t now) {
    xn_dcqcn *d = &cc->u.dcqcn;
    while (d->flag_alpha || d->flag_decrease) {
        uint64_t due = d->alpha_due, decrease = d->flag_decrease ? d->decrease_due : now + 1;
        uint64_t climb = d->climbing ? d->increase_due : now + 1;
        if (decrease < due) due = decrease;
        if (climb < due) due = climb;
        if (due > now) return;
        if (due == d->alpha_due) {
            double gain = d->flag_alpha ? d->g : 0.0;
            d->alpha = (1 - d->g) * d->alpha + gain;
            d->flag_alpha = 0;
            d->alpha_due += d->alpha_interval;
        } else if (d->flag_decrease && due == d->decrease_due) {
            d->flag_decrease = 0;
            d->decrease_due += (uint64_t)d->decrease_interval;
            cut(cc, due);
        } else {
            timer_increase(cc);
        }
    }
}

static void dcqcn_advance(xn_cc *cc, uint64_t now) {
    xn_dcqcn *d = &cc->u.dcqcn;
    if (!d->active) return;
    if (d->flag_decrease || d->flag_alpha) advance_flags(cc, now);
    if (d->alpha_due <= now) {
        uint64_t expiries = (now - d->alpha_due) / d->alpha_interval + 1;
        d->alpha = decayed(d->alpha, 1 - d->g, expiries);
        d->alpha_due += expiries * d->alpha_interval;
    }
    while (d->climbing && d->increase_due <= now) timer_increase(cc);
}

static void dcqcn_cnp(xn_cc *cc, uint64_t now) {
    xn_dcqcn *d = &cc->u.dcqcn;
    dcqcn_advance(cc, now);
    if (d->order == 2) {
        if (!d->active) {
            d->active = 1;
            d->alpha_due = now + d->alpha_interval;
            d->decrease_due = now + (uint64_t)d->decrease_interval;
        } else if (!d->flag_decrease && d->decrease_due <= now) {
            uint64_t missed = (now - d->decrease_due) / (uint64_t)d->decrease_interval + 1;
            d->decrease_due += missed * (uint64_t)d->decrease_interval;
        }
        d->flag_alpha = d->flag_decrease = 1;
        return;
    }
    d->active = 1;
    if (d->was_cut && d->decrease_interval && (int64_t)(now - d->last_cut) < d->decrease_interval) return;
    d->was_cut = 1;
    d->last_cut = now;
    if (d->order == 1) d->alpha = (1 - d->g) * d->alpha + d->g;
    cut(cc, now);
    if (d->order == 0) d->alpha = (1 - d->g) * d->alpha + d->g;
    d->alpha_due = now + d->alpha_interval;
}

static void dcqcn_sent(xn_cc *cc, uint32_t wire_bytes) {
    xn_dcqcn *d = &cc->u.dcqcn;
    if (!d->climbing || !d->increase_bytes) return;
    d->bytes += wire_bytes;
    while (d->bytes >= d->increase_bytes) {
        d->bytes -= d->increase_bytes;
        d->byte_rounds++;
        increase(cc);
    }
}

/* ---- whichever it is ---- */

int xn_cc_init(xn_cc *cc, const xn_config *config) {
    memset(cc, 0, sizeof *cc);
    cc->kind = (enum xn_congestion)config->congestion;
    cc->line = xn_double(config->rate_bps);
    cc->rate = cc->line;
    cc->window = -1;
    if (cc->kind == XN_DCQCN) dcqcn_init(cc, config->parameters);
    if (cc->kind == XN_MPRDMA) xn_mprdma_init(cc, config);
    if (cc->kind == XN_HPCC) {
        xn_hpcc_init(cc, config);
        if (!cc->u.hpcc.hops) return 0;
    }
    return 1;
}

void xn_cc_free(xn_cc *cc) {
    if (cc->kind == XN_HPCC) free(cc->u.hpcc.hops);
}

void xn_cc_advance(xn_cc *cc, uint64_t now) {
    if (cc->kind == XN_DCQCN) dcqcn_advance(cc, now);
}

void xn_cc_sent(xn_cc *cc, uint32_t wire_bytes) {
    if (cc->kind == XN_DCQCN) dcqcn_sent(cc, wire_bytes);
}

void xn_cc_ack(xn_cc *cc, uint64_t acked_psn, uint64_t next_psn, const uint8_t *echoed, uint32_t echoed_bytes) {
    xn_hop hops[XN_HOPS];
    uint32_t count;
    if (cc->kind != XN_HPCC || !echoed) return;
    count = xn_hops(echoed, echoed_bytes, hops);
    if (count) xn_hpcc_ack(cc, acked_psn, next_psn, hops, count);
}

void xn_cc_echo(xn_cc *cc, uint32_t marked) {
    if (cc->kind == XN_MPRDMA) xn_mprdma_echo(cc, marked);
}

void xn_cc_loss(xn_cc *cc) {
    if (cc->kind == XN_MPRDMA) xn_mprdma_loss(cc);
}

void xn_cc_cnp(xn_cc *cc, uint64_t now) {
    if (cc->kind == XN_DCQCN) dcqcn_cnp(cc, now);
}
