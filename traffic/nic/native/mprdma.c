/* MP-RDMA's window (congestion/mprdma.py). */
#include "nic.h"

static void set(xn_cc *cc, double window) {
    xn_mprdma *m = &cc->u.mprdma;
    if (window < m->smallest) window = m->smallest;
    if (window > m->largest) window = m->largest;
    m->window = window;
    cc->window = xn_round(window);
}

void xn_mprdma_init(xn_cc *cc, const xn_config *config) {
    xn_mprdma *m = &cc->u.mprdma;
    const double *p = config->parameters;
    double mtu = config->mtu, product = cc->line * xn_double(config->base_rtt_ns ? config->base_rtt_ns : 1) / 8e9;
    m->smallest = p[5] * mtu;
    m->largest = p[1] * product;
    if (m->largest < m->smallest) m->largest = m->smallest;
    m->growth = p[2] * mtu * mtu;
    m->cut = p[3] * mtu;
    m->loss = p[4] * mtu;
    set(cc, p[0] * product);
}

void xn_mprdma_echo(xn_cc *cc, uint32_t marked) {
    xn_mprdma *m = &cc->u.mprdma;
    set(cc, marked ? m->window - m->cut : m->window + m->growth / m->window);
}

void xn_mprdma_loss(xn_cc *cc) { set(cc, cc->u.mprdma.window - cc->u.mprdma.loss); }
