/* Counters and registers from the control side; the pipeline touches their arrays directly. */
#include "engine.h"

static int counter_ok(const xf_engine *e, uint32_t counter, uint32_t first, uint32_t count) {
    if (!e->program || counter >= e->program->counter_count) return 0;
    return first <= e->counter_sizes[counter] && count <= e->counter_sizes[counter] - first;
}

int xf_counter_read(xf_engine *e, uint32_t counter, uint32_t first, uint32_t count, uint64_t *packets_bytes) {
    int ok;
    engine_lock(e);
    ok = counter_ok(e, counter, first, count);
    if (ok) memcpy(packets_bytes, e->counters[counter] + first, count * sizeof(xf_counter));
    engine_unlock(e);
    return ok ? 0 : XF_EINVAL;
}

int xf_counter_write(xf_engine *e, uint32_t counter, uint32_t index, uint64_t packets, uint64_t bytes) {
    int ok;
    engine_lock(e);
    ok = counter_ok(e, counter, index, 1);
    if (ok) {
        e->counters[counter][index].packets = packets;
        e->counters[counter][index].bytes = bytes;
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
        uint32_t limbs = e->program->registers[reg].limbs;
        memcpy(words, e->registers[reg] + (size_t)first * limbs, (size_t)count * limbs * sizeof(uint64_t));
    }
    engine_unlock(e);
    return ok ? 0 : XF_EINVAL;
}

static void written(xf_engine *e, uint32_t reg, uint32_t index) {
    xf_ctx x;
    if ((int32_t)reg != e->program->pause_register) return;
    memset(&x, 0, sizeof x);
    x.engine = e;
    xf_pause_written(&x, index, e->registers[reg][index]);
}

int xf_register_write(xf_engine *e, uint32_t reg, uint32_t index, const uint64_t *words) {
    int ok;
    engine_lock(e);
    ok = register_ok(e, reg, index, 1);
    if (ok) {
        uint32_t limbs = e->program->registers[reg].limbs;
        memcpy(e->registers[reg] + (size_t)index * limbs, words, limbs * sizeof(uint64_t));
        written(e, reg, index);
    }
    engine_unlock(e);
    return ok ? 0 : XF_EINVAL;
}

int xf_register_reset(xf_engine *e, uint32_t reg) {
    int ok;
    uint32_t i;
    engine_lock(e);
    ok = register_ok(e, reg, 0, 0);
    if (ok) {
        uint32_t size = e->register_sizes[reg];
        memset(e->registers[reg], 0, (size_t)size * e->program->registers[reg].limbs * sizeof(uint64_t));
        for (i = 0; i < size; i++) written(e, reg, i);
    }
    engine_unlock(e);
    return ok ? 0 : XF_EINVAL;
}
