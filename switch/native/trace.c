/* What traced programs tell (cgen_trace.py): records of 64-bit words kept until they are taken. Not part of any packet
 * path: a program that was not asked to be traced never calls this. */
#include "engine.h"

#define TRACE_LIMIT (1ul << 21) /* words; what comes beyond is counted as lost */
#define RECORD_HEAD 6

void xf_trace(xf_ctx *x, uint32_t kind, uint64_t a, uint64_t b, uint64_t c, const uint64_t *words, uint32_t count) {
    xf_engine *e = x->engine;
    size_t need = e->trace_used + RECORD_HEAD + count;
    uint64_t *at;
    if (need > e->trace_room) {
        size_t room = e->trace_room ? e->trace_room : 1ul << 14;
        uint64_t *grown;
        while (room < need) room *= 2;
        grown = room > TRACE_LIMIT ? NULL : realloc(e->trace, room * sizeof *grown);
        if (!grown) {
            e->trace_lost++;
            return;
        }
        e->trace = grown;
        e->trace_room = room;
    }
    at = e->trace + e->trace_used;
    at[0] = kind;
    at[1] = a;
    at[2] = b;
    at[3] = c;
    at[4] = x->now;
    at[5] = count;
    memcpy(at + RECORD_HEAD, words, count * sizeof *words);
    e->trace_used = need;
}

uint32_t xf_entry_handle(const xf_entry *entry) { return entry ? entry->rest->handle : UINT32_MAX; }

uint64_t xf_trace_take(xf_engine *e, uint64_t *out, uint64_t room, uint64_t *lost) {
    uint64_t used;
    engine_lock(e);
    used = e->trace_used;
    *lost = e->trace_lost;
    if (used <= room) {
        if (used) memcpy(out, e->trace, used * sizeof *out);
        e->trace_used = 0;
        e->trace_lost = 0;
    }
    engine_unlock(e);
    return used;
}
