/* Counters and registers from the control side; the pipeline touches their arrays directly. */
#include "engine.h"

static uint64_t *cell(xf_engine *e, uint32_t reg, uint32_t index) {
    return e->registers[reg] + (size_t)index * e->program->registers[reg].stride;
}

static int counter_ok(const xf_engine *e, uint32_t counter, uint32_t first, uint32_t count) {
    if (!e->program || counter >= e->program->counter_count) return 0;
    return first <= e->counter_sizes[counter] && count <= e->counter_sizes[counter] - first;
}

int xf_counter_read(xf_engine *e, uint32_t counter, uint32_t first, uint32_t count, uint64_t *packets_bytes) {
    int ok;
    engine_lock(e);
    ok = counter_ok(e, counter, first, count);
    for (; ok && count; count--, packets_bytes += 2) {
        const xf_counter *c = e->counters[counter] + (size_t)first++ * e->program->counters[counter].stride;
        packets_bytes[0] = c->packets;
        packets_bytes[1] = c->bytes;
    }
    engine_unlock(e);
    return ok ? 0 : XF_EINVAL;
}

static int register_ok(const xf_engine *e, uint32_t reg, uint32_t first, uint32_t count) {
    if (!e->program || reg >= e->program->register_count) return 0;
    return first <= e->register_sizes[reg] && count <= e->register_sizes[reg] - first;
}

int xf_register_read(xf_engine *e, uint32_t reg, uint32_t first, uint32_t count, uint64_t *words) {
    int ok;
    engine_lock(e);
    ok = register_ok(e, reg, first, count);
    if (ok) {
        uint32_t limbs = e->program->registers[reg].limbs, i;
        for (i = 0; i < count; i++) memcpy(words + (size_t)i * limbs, cell(e, reg, first + i), limbs * sizeof *words);
    }
    engine_unlock(e);
    return ok ? 0 : XF_EINVAL;
}

static void written(xf_engine *e, uint32_t reg, uint32_t index) {
    xf_ctx x;
    if ((int32_t)reg != e->program->pause_register) return;
    memset(&x, 0, sizeof x);
    x.engine = e;
    xf_pause_written(&x, index, *cell(e, reg, index));
}

int state_op(xf_engine *e, const xf_op *o) {
    uint32_t i;
    if (o->kind == XF_COUNTER) {
        if (!counter_ok(e, o->object, o->id, o->count)) return XF_EINVAL;
        for (i = 0; i < o->count; i++) {
            xf_counter *c = e->counters[o->object] + (size_t)(o->id + i) * e->program->counters[o->object].stride;
            c->packets = o->packets;
            c->bytes = o->bytes;
        }
        return 0;
    }
    if (!register_ok(e, o->object, o->id, o->count)) return XF_EINVAL;
    for (i = 0; i < o->count; i++) {
        memcpy(cell(e, o->object, o->id + i), o->words, e->program->registers[o->object].limbs * sizeof(uint64_t));
        written(e, o->object, o->id + i);
    }
    return 0;
}
