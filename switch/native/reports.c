/* Reports: what the engine tells its control threads, in bounded rings; what does not fit is counted as lost. */
#include "engine.h"

int ring_init(xf_ring *r, uint32_t words) {
    r->words = malloc(words * sizeof(uint64_t));
    r->size = r->words ? words : 0;
    r->head = r->used = 0;
    r->lost = 0;
    return r->words ? 0 : XF_ENOMEM;
}

static void push(xf_ring *r, uint64_t word) {
    uint32_t at = r->head + r->used;
    r->words[at >= r->size ? at - r->size : at] = word;
    r->used++;
}

static uint64_t pop(xf_ring *r) {
    uint64_t word = r->words[r->head];
    if (++r->head == r->size) r->head = 0;
    r->used--;
    return word;
}

int ring_put(xf_ring *r, uint32_t kind, uint64_t time, const uint64_t *words, uint32_t count) {
    uint32_t i;
    if (count + 2 > r->size - r->used) {
        r->lost++;
        return 0;
    }
    push(r, (uint64_t)kind << 32 | count);
    push(r, time);
    for (i = 0; i < count; i++) push(r, words[i]);
    return 1;
}

int ring_take(xf_ring *r, uint32_t *kind, uint64_t *time, uint64_t *words, uint32_t room) {
    uint64_t head;
    uint32_t count, i;
    if (!r->used) return XF_ENOENT;
    head = pop(r);
    *kind = (uint32_t)(head >> 32);
    count = (uint32_t)head;
    *time = pop(r);
    for (i = 0; i < count; i++) {
        uint64_t word = pop(r);
        if (i < room) words[i] = word;
    }
    return (int)(count < room ? count : room);
}

static int take(xf_engine *e, xf_ring *r, uint32_t bit, uint32_t *kind, uint64_t *words, uint32_t room, uint64_t *time) {
    int n;
    engine_lock(e);
    n = ring_take(r, kind, time, words, room);
    if (!r->used) engine_told(e, bit);
    engine_unlock(e);
    return n;
}

int xf_digest_take(xf_engine *e, uint32_t *list, uint64_t *words, uint32_t room, uint64_t *time) {
    return take(e, &e->digests, XF_PENDING_DIGEST, list, words, room, time);
}

int xf_log_take(xf_engine *e, uint32_t *message, uint64_t *words, uint32_t room, uint64_t *time) {
    return take(e, &e->logs, XF_PENDING_LOG, message, words, room, time);
}

int xf_pause_take(xf_engine *e, xf_pause_event *out, uint32_t room, uint64_t *lost) {
    uint32_t n = 0;
    engine_lock(e);
    while (n < room && e->pauses.used) {
        uint32_t where;
        ring_take(&e->pauses, &where, &out[n].time, &out[n].until, 1);
        out[n].port = where / XF_CLASSES;
        out[n].cls = where % XF_CLASSES;
        n++;
    }
    if (!e->pauses.used) engine_told(e, XF_PENDING_PAUSE);
    if (lost) *lost = e->pauses.lost;
    engine_unlock(e);
    return (int)n;
}

int xf_idle_take(xf_engine *e, xf_idle_event *out, uint32_t room) {
    uint32_t n = 0;
    engine_lock(e);
    while (n < room && e->idles.used) {
        uint64_t handle = 0;
        ring_take(&e->idles, &out[n].table, &out[n].time, &handle, 1);
        out[n].handle = (uint32_t)handle;
        n++;
    }
    if (!e->idles.used) engine_told(e, XF_PENDING_IDLE);
    engine_unlock(e);
    return (int)n;
}

void xf_faults_read(xf_engine *e, xf_faults *out) {
    engine_lock(e);
    *out = e->faults;
    out->digests_lost = e->digests.lost;
    out->logs_lost = e->logs.lost;
    engine_unlock(e);
}

/* ---- from the pipeline ---- */

void xf_log(xf_ctx *x, uint32_t message, const uint64_t *words, uint32_t count) {
    ring_put(&x->engine->logs, message, x->now, words, count);
    engine_tell(x->engine, XF_PENDING_LOG);
}

void xf_assert_failed(xf_ctx *x, uint32_t message) {
    x->engine->faults.asserts++;
    xf_log(x, message, NULL, 0);
}

void xf_out_of_bounds(xf_ctx *x) { x->engine->faults.out_of_bounds++; }

void xf_parser_loop(xf_ctx *x) { x->engine->faults.parser_loops++; }
