/* The buffer that queues share, with dynamic thresholds (Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998).
 *
 * A queue's first bytes are its own (guaranteed). Beyond them a packet is admitted while the queue's part of the shared
 * buffer, the packet included, is at most alpha times what is free of it; beyond that while the queue's headroom lasts.
 * N queues that are fed without end so come to hold alpha * B / (1 + alpha * N) each, and B / (1 + alpha * N) stays free
 * for the next one. Bytes that leave a queue give back headroom first, then shared, then guaranteed ones. */
#include "engine.h"

static uint64_t own(const xf_queue *q) { return q->bytes - q->shared - q->headroom; }

int buffer_admit(xf_engine *e, xf_queue *q, uint32_t bytes) {
    uint64_t used = own(q), guaranteed = q->settings.guaranteed_bytes, rest = bytes, free;
    if (used < guaranteed) {
        if (rest <= guaranteed - used) return 1;
        rest -= guaranteed - used;
    }
    free = e->buffer_size > e->buffer_used ? e->buffer_size - e->buffer_used : 0;
    if (rest <= free && q->shared + rest <= (free * q->settings.alpha) >> 16) {
        q->shared += rest;
        e->buffer_used += rest;
        if (e->buffer_used > e->buffer_watermark) e->buffer_watermark = e->buffer_used;
        return 1;
    }
    if (q->headroom + rest > q->settings.headroom_bytes) return 0;
    q->headroom += rest;
    return 1;
}

void buffer_release(xf_engine *e, xf_queue *q, uint32_t bytes) {
    uint64_t part = bytes < q->headroom ? bytes : q->headroom;
    q->headroom -= part;
    bytes -= (uint32_t)part;
    part = bytes < q->shared ? bytes : q->shared;
    q->shared -= part;
    e->buffer_used -= part;
}

/* After a change of size or of guaranteed bytes: what queues hold counts as guaranteed, then as shared. */
void buffer_recount(xf_engine *e) {
    uint32_t n, c;
    e->buffer_used = 0;
    for (n = 0; n < XF_MAX_PORTS; n++) {
        for (c = 0; e->ports[n] && c < XF_CLASSES; c++) {
            xf_queue *q = &e->ports[n]->queues[c];
            uint64_t guaranteed = q->settings.guaranteed_bytes;
            q->headroom = 0;
            q->shared = e->buffer_size && q->bytes > guaranteed ? q->bytes - guaranteed : 0;
            e->buffer_used += q->shared;
        }
    }
    if (e->buffer_used > e->buffer_watermark) e->buffer_watermark = e->buffer_used;
}

int xf_buffer_set(xf_engine *e, uint64_t bytes) {
    if (bytes > XF_MAX_BUFFER) return XF_EINVAL;
    engine_lock(e);
    if (!e->buffer_size != !bytes) {
        e->buffer_size = bytes;
        buffer_recount(e);
    }
    e->buffer_size = bytes;
    engine_unlock(e);
    return 0;
}

void xf_buffer_read(xf_engine *e, xf_buffer_stats *out) {
    uint32_t n, c;
    memset(out, 0, sizeof *out);
    engine_lock(e);
    out->size = e->buffer_size;
    out->used = e->buffer_used;
    out->watermark = e->buffer_watermark;
    for (n = 0; e->buffer_size && n < XF_MAX_PORTS; n++) {
        for (c = 0; e->ports[n] && c < XF_CLASSES; c++) {
            out->guaranteed_used += own(&e->ports[n]->queues[c]);
            out->headroom_used += e->ports[n]->queues[c].headroom;
        }
    }
    engine_unlock(e);
}

void xf_buffer_watermark_reset(xf_engine *e) {
    engine_lock(e);
    e->buffer_watermark = e->buffer_used;
    engine_unlock(e);
}
