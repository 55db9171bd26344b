/* Parser value sets: short lists of (value, mask), searched in order. */
#include "engine.h"

int xf_value_set_match(xf_ctx *x, uint32_t set, const uint64_t *key, const uint64_t *mask) {
    const xf_engine *e = x->engine;
    const xf_value_set *s = &e->value_sets[set];
    uint32_t limbs = e->program->value_sets[set].limbs, i, k;
    for (i = 0; i < s->count; i++) {
        const uint64_t *v = s->values + (size_t)i * 2 * limbs, *m = v + limbs;
        for (k = 0; k < limbs; k++) {
            uint64_t care = m[k] & (mask ? mask[k] : UINT64_MAX);
            if ((key[k] ^ v[k]) & care) break;
        }
        if (k == limbs) return 1;
    }
    return 0;
}

int xf_value_set_add(xf_engine *e, uint32_t set, const uint64_t *value, const uint64_t *mask) {
    int rc = 0;
    engine_lock(e);
    if (!e->program || set >= e->program->value_set_count) rc = XF_EINVAL;
    else {
        xf_value_set *s = &e->value_sets[set];
        uint32_t limbs = e->program->value_sets[set].limbs;
        if (s->count >= e->program->value_sets[set].size) rc = XF_EFULL;
        else if (s->count == s->room) {
            uint32_t room = s->room ? 2 * s->room : 8;
            uint64_t *more = realloc(s->values, (size_t)room * 2 * limbs * sizeof(uint64_t));
            if (more) {
                s->values = more;
                s->room = room;
            } else {
                rc = XF_ENOMEM;
            }
        }
        if (!rc) {
            uint64_t *to = s->values + (size_t)s->count++ * 2 * limbs;
            memcpy(to, value, limbs * sizeof(uint64_t));
            memcpy(to + limbs, mask, limbs * sizeof(uint64_t));
        }
    }
    engine_unlock(e);
    return rc;
}

int xf_value_set_clear(xf_engine *e, uint32_t set) {
    int ok;
    engine_lock(e);
    ok = e->program && set < e->program->value_set_count;
    if (ok) e->value_sets[set].count = 0;
    engine_unlock(e);
    return ok ? 0 : XF_EINVAL;
}
