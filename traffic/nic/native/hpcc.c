/* HPCC: window and rate from what the switches on the path measured (congestion/hpcc.py). */
#include "nic.h"

#define NS_PER_S_F 1e9

void xn_hpcc_init(xn_cc *cc, const xn_config *config) {
    xn_hpcc *h = &cc->u.hpcc;
    const double *p = config->parameters;
    double bytes_per_bps, least;
    h->rtt = xn_double(config->base_rtt_ns ? config->base_rtt_ns : 1);
    h->eta = p[0];
    h->max_stage = xn_round(p[1]);
    bytes_per_bps = h->rtt / NS_PER_S_F / 8;
    h->largest = cc->line * bytes_per_bps;
    least = p[4] < cc->line ? p[4] : cc->line;
    h->smallest = least * bytes_per_bps;
    h->wai = (p[2] + p[3] * cc->line) * bytes_per_bps;
    h->reference = h->largest;
    h->utilisation = 1.0;
    h->hops = calloc(XN_HOPS, sizeof *h->hops);
    cc->window = xn_round(h->largest);
    if (cc->window < 1) cc->window = 1;
}

/* Folds a sample into `utilisation`; 0 when no link was seen twice at different times. */
static int measure(xn_hpcc *h, const xn_hop *last, const xn_hop *hops, uint32_t count) {
    double busiest = -1.0, elapsed = 0.0, share;
    uint32_t i;
    for (i = 0; i < count; i++) {
        const xn_hop *before = &last[i], *after = &hops[i];
        double interval, sent, capacity, link;
        uint32_t queue = after->queue_bytes < before->queue_bytes ? after->queue_bytes : before->queue_bytes;
        if (after->timestamp_ns <= before->timestamp_ns || after->tx_bytes < before->tx_bytes || !after->rate_bps)
            continue;
        interval = xn_double(after->timestamp_ns - before->timestamp_ns);
        sent = xn_double(after->tx_bytes - before->tx_bytes) * 8 * NS_PER_S_F / interval;
        capacity = xn_double(after->rate_bps) * h->rtt / NS_PER_S_F / 8;
        link = xn_double(queue) / capacity + sent / xn_double(after->rate_bps);
        if (link > busiest) {
            busiest = link;
            elapsed = interval;
        }
    }
    if (busiest < 0) return 0;
    share = (elapsed < h->rtt ? elapsed : h->rtt) / h->rtt;
    h->utilisation = h->utilisation * (1 - share) + busiest * share;
    return 1;
}

static double computed(xn_hpcc *h, int commit) {
    double ratio = h->utilisation / h->eta, window;
    int64_t stage;
    if (ratio >= 1 || h->stage >= h->max_stage) {
        window = ratio > 0 ? h->reference / ratio + h->wai : h->largest;
        stage = 0;
    } else {
        window = h->reference + h->wai;
        stage = h->stage + 1;
    }
    if (commit) h->stage = stage;
    if (window < h->smallest) window = h->smallest;
    return window < h->largest ? window : h->largest;
}

void xn_hpcc_ack(xn_cc *cc, uint64_t acked_psn, uint64_t next_psn, const xn_hop *hops, uint32_t count) {
    xn_hpcc *h = &cc->u.hpcc;
    uint32_t i, same = h->hop_count == count;
    int measured, commit;
    double window;
    for (i = 0; same && i < count; i++) same = h->hops[i].node_id == hops[i].node_id;
    measured = same && measure(h, h->hops, hops, count);
    memcpy(h->hops, hops, count * sizeof *hops);
    h->hop_count = count;
    if (!same) {
        if (next_psn > h->update_psn) h->update_psn = next_psn;
        return;
    }
    if (!measured) return;
    commit = acked_psn > h->update_psn;
    window = computed(h, commit);
    if (commit) {
        h->update_psn = next_psn;
        h->reference = window;
    }
    cc->window = xn_round(window);
    if (cc->window < 1) cc->window = 1;
    cc->rate = window / h->rtt * NS_PER_S_F * 8;
}
