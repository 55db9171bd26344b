/* Which queue of a port is served next, and when, where weights or shapers are set.
 *
 * Weighted classes of a port form one group, which stands in the strict order at the place of its highest class: classes
 * above it go first, those below wait for it. Inside the group it is deficit round robin (Shreedhar and Varghese,
 * IEEE/ACM ToN 4(3), 1996) in the variant that charges a frame after it was sent: its length on the wire is known only
 * when egress is done with it. A queue is served while it has credit; each turn gives it weight * QUANTUM bytes; a
 * frame may overdraw, and the debt is paid before the next turn counts. So over any time in which two queues are
 * backlogged, their bytes divided by their weights differ by at most one quantum and a frame of each.
 *
 * A shaper is the generic cell rate algorithm (ITU-T I.371): `due` is when the next frame would start if all so far had
 * been spaced at the rate; it may start `burst` earlier. */
#include "engine.h"

#define QUANTUM 256 /* wire bytes of a turn per unit of weight */

static int may_start(const xf_queue *q, xf_ps at) { return q->due <= at + q->burst; }

static uint32_t highest(uint32_t set) {
    uint32_t c = XF_CLASSES - 1;
    while (!(set & (1u << c))) c--;
    return c;
}

uint32_t scheduler_pick(const xf_engine *e, xf_port *p, uint32_t ready) {
    uint32_t c, group, held = p->shaped & ready;
    for (c = 0; held; c++, held >>= 1)
        if ((held & 1) && !may_start(&p->queues[c], e->now)) ready &= ~(1u << c);
    if (!ready) return XF_CLASSES;
    group = ready & p->weighted;
    if (!group || highest(ready) > highest(p->weighted)) return highest(ready);
    c = p->turn;
    if ((group & (1u << c)) && p->queues[c].credit > 0) return c;
    do {
        do c = (c + XF_CLASSES - 1) % XF_CLASSES;
        while (!(group & (1u << c)));
        p->queues[c].credit += (int64_t)p->queues[c].settings.weight * QUANTUM;
    } while (p->queues[c].credit <= 0);
    p->turn = (uint8_t)c;
    return c;
}

void scheduler_charge(const xf_engine *e, xf_port *p, uint32_t cls, uint32_t length) {
    xf_queue *q = &p->queues[cls];
    if (p->weighted & (1u << cls)) {
        if (length) q->credit -= wire_bytes(length);
        /* What an empty queue did not use is not saved up; what it owes, it owes. */
        if (!q->count && q->credit > 0) q->credit = 0;
    }
    if ((p->shaped & (1u << cls)) && length) {
        xf_ps by_bytes = wire_time(length, q->settings.rate_bps);
        xf_ps by_packets = q->settings.rate_pps ? PS_PER_S / q->settings.rate_pps : 0;
        if (q->due < e->now) q->due = e->now;
        q->due += by_bytes > by_packets ? by_bytes : by_packets;
    }
}

xf_ps scheduler_when(const xf_port *p, uint32_t ready, xf_ps at) {
    xf_ps first = XF_NEVER;
    uint32_t c;
    if (ready & ~(uint32_t)p->shaped) return at;
    for (c = 0; c < XF_CLASSES; c++) {
        const xf_queue *q = &p->queues[c];
        if (!(ready & (1u << c))) continue;
        if (may_start(q, at)) return at;
        if (q->due - q->burst < first) first = q->due - q->burst;
    }
    return first;
}
