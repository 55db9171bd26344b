/* Parser value sets: short lists of values with masks and ranges, searched in order. */
#include "engine.h"

int xf_value_set_match(xf_ctx *x, uint32_t set, const uint64_t *key, const uint64_t *mask) {
    const xf_engine *e = x->engine;
    const xf_value_set *s = &e->value_sets[set];
    uint32_t limbs = e->program->value_sets[set].limbs, i, k;
    for (i = 0; i < s->count; i++) {
        const uint64_t *v = s->values + (size_t)i * s->stride, *m = v + limbs, *bounds = m + limbs;
        for (k = 0; k < limbs; k++) {
            uint64_t care = m[k] & (mask ? mask[k] : UINT64_MAX);
            if ((key[k] ^ v[k]) & care) break;
        }
        if (k < limbs) continue;
        for (k = 0; k < s->range_count && limbs_within(key + s->ranges[2 * k], bounds, s->ranges[2 * k + 1]); k++)
            bounds += 2 * s->ranges[2 * k + 1];
        if (k == s->range_count) return 1;
    }
    return 0;
}

void value_set_free(xf_value_set *s) {
    free(s->ranges);
    free(s->values);
}

int value_sets_op(xf_engine *e, const xf_op *o) {
    const xf_array_desc *d;
    xf_value_set next = {0};
    uint32_t k;
    if (!e->program || o->object >= e->program->value_set_count) return XF_EINVAL;
    d = &e->program->value_sets[o->object];
    if (o->count > d->size) return XF_EFULL;
    next.count = o->count;
    next.range_count = o->ranges_count;
    next.stride = 2 * d->limbs;
    for (k = 0; k < o->ranges_count; k++) {
        if (o->ints[2 * k] > d->limbs || o->ints[2 * k + 1] > d->limbs - o->ints[2 * k]) return XF_EINVAL;
        next.stride += 2 * o->ints[2 * k + 1];
    }
    next.ranges = malloc((o->ranges_count + 1) * 2 * sizeof *next.ranges);
    next.values = malloc(((size_t)o->count * next.stride + 1) * sizeof *next.values);
    if (!next.ranges || !next.values) {
        value_set_free(&next);
        return XF_ENOMEM;
    }
    if (o->ranges_count) memcpy(next.ranges, o->ints, o->ranges_count * 2 * sizeof *next.ranges);
    if (o->count) memcpy(next.values, o->words, (size_t)o->count * next.stride * sizeof *next.values);
    value_set_free(&e->value_sets[o->object]);
    e->value_sets[o->object] = next;
    return 0;
}
