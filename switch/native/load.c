/* A program comes and goes: the tables and state it asks for are made, and given back when another one takes its place. */
#include "engine.h"
#include "fabric.h"

void engine_unload(xf_engine *e) {
    const xf_program *p = e->program;
    uint32_t i;
    if (!p) return;
    for (i = 0; i < XF_MAX_PORTS; i++)
        if (e->ports[i]) port_clear(e, e->ports[i], XF_DROP_SWAP);
    if (e->tables)
        for (i = 0; i < p->table_count; i++)
            if (e->tables[i]) table_free(e->tables[i]);
    if (e->profiles)
        for (i = 0; i < p->profile_count; i++)
            if (e->profiles[i]) profile_free(e->profiles[i]);
    if (e->counters)
        for (i = 0; i < p->counter_count; i++)
            if (p->counters[i].first == i)
                memory_give(e->counters[i], (p->counters[i].size + 1ul) * p->counters[i].stride * sizeof(xf_counter));
    if (e->registers)
        for (i = 0; i < p->register_count; i++)
            if (p->registers[i].first == i)
                memory_give(e->registers[i], (p->registers[i].size + 1ul) * p->registers[i].stride * sizeof(uint64_t));
    if (e->meters)
        for (i = 0; i < p->meter_count; i++) free(e->meters[i]);
    if (e->value_sets)
        for (i = 0; i < p->value_set_count; i++) value_set_free(&e->value_sets[i]);
    free(e->tables);
    free(e->profiles);
    free(e->counters);
    free(e->counter_sizes);
    free(e->registers);
    free(e->register_sizes);
    free(e->meters);
    free(e->value_sets);
    free(e->crcs);
    e->tables = NULL;
    e->profiles = NULL;
    e->counters = NULL;
    e->counter_sizes = NULL;
    e->registers = NULL;
    e->register_sizes = NULL;
    e->meters = NULL;
    e->value_sets = NULL;
    e->crcs = NULL;
    if (!e->fabric) {
        phvs_retire(e->phvs);
        pool_retire(e->pool);
        e->pool = NULL;
    }
    e->phvs = NULL;
    e->program = NULL;
    e->next_sweep = XF_NEVER;
}

static int load(xf_engine *e, const xf_program *p) {
    uint32_t i;
    e->program = p;
    e->pool = e->fabric ? fabric_pool_for(e->fabric, p->header_bytes) : pool_new(p->header_bytes);
    e->phvs = e->fabric ? fabric_phvs_for(e->fabric, p->phv_size) : phvs_new(p->phv_size);
    e->tables = calloc(p->table_count + 1, sizeof *e->tables);
    e->profiles = calloc(p->profile_count + 1, sizeof *e->profiles);
    e->counters = calloc(p->counter_count + 1, sizeof *e->counters);
    e->counter_sizes = calloc(p->counter_count + 1, sizeof *e->counter_sizes);
    e->registers = calloc(p->register_count + 1, sizeof *e->registers);
    e->register_sizes = calloc(p->register_count + 1, sizeof *e->register_sizes);
    e->meters = calloc(p->meter_count + 1, sizeof *e->meters);
    e->value_sets = calloc(p->value_set_count + 1, sizeof *e->value_sets);
    if (!e->pool || !e->phvs || !e->tables || !e->profiles || !e->counters || !e->counter_sizes || !e->registers ||
        !e->register_sizes || !e->meters || !e->value_sets || crcs_init(e))
        return XF_ENOMEM;
    for (i = 0; i < p->profile_count; i++) {
        e->profiles[i] = calloc(1, sizeof(xf_profile));
        if (!e->profiles[i]) return XF_ENOMEM;
        e->profiles[i]->desc = &p->profiles[i];
    }
    for (i = 0; i < p->table_count; i++) {
        const xf_table_desc *d = &p->tables[i];
        e->tables[i] = memory_take(sizeof(xf_table));
        if (!e->tables[i]) return XF_ENOMEM;
        if (table_init(e->tables[i], d, d->profile == XF_NO_PROFILE ? NULL : e->profiles[d->profile]))
            return XF_ENOMEM;
    }
    for (i = 0; i < p->counter_count; i++) {
        const xf_array_desc *d = &p->counters[i];
        e->counter_sizes[i] = d->size;
        if (d->first == i) e->counters[i] = memory_take((d->size + 1ul) * d->stride * sizeof(xf_counter));
        else e->counters[i] = e->counters[d->first] + d->offset;
        if (!e->counters[i]) return XF_ENOMEM;
    }
    for (i = 0; i < p->register_count; i++) {
        const xf_array_desc *d = &p->registers[i];
        e->register_sizes[i] = d->size;
        if (d->first == i) e->registers[i] = memory_take((d->size + 1ul) * d->stride * sizeof(uint64_t));
        else e->registers[i] = e->registers[d->first] + d->offset;
        if (!e->registers[i]) return XF_ENOMEM;
    }
    for (i = 0; i < p->meter_count; i++) {
        e->meters[i] = calloc(p->meters[i].size + 1ul, sizeof(xf_meter));
        if (!e->meters[i]) return XF_ENOMEM;
    }
    for (i = 0; i < p->entry_count; i++) {
        const xf_entry_init *n = &p->entries[i];
        int rc = table_add(e, e->tables[n->table], n->key, n->mask, n->ranges, n->rank, n->action, n->args, 0, 0,
                           e->tables[n->table]->desc->entries_const, e->tables[n->table]->entry_count);
        if (rc) return rc;
    }
    return 0;
}

/* Whether the program sees the structures that it shares with the engine as the engine does. */
static int fits(const xf_program *p) {
    static const size_t ours[] = {XF_LAYOUT};
    return p->abi == XF_ABI && p->layout_count >= XF_LAYOUT_COUNT && !memcmp(p->layout, ours, sizeof ours);
}

int xf_load(xf_engine *e, const xf_program *program) {
    int rc = 0;
    uint32_t i, c;
    if (program && !fits(program)) return XF_EABI;
    if (program && program->digest_words > sizeof e->scratch / sizeof *e->scratch) return XF_EINVAL;
    if (e->crashed) return XF_ECRASHED;
    engine_lock(e);
    atomic_set(&e->offered, NULL);
    engine_unload(e);
    if (program && (rc = load(e, program))) engine_unload(e);
    /* The new program's pause register is zero. */
    for (i = 0; i < XF_MAX_PORTS; i++)
        for (c = 0; e->ports[i] && c < XF_CLASSES; c++) queue_pause(e, e->ports[i], c, 0);
    engine_unlock(e);
    return rc;
}

int xf_offer(xf_engine *e, const xf_program *from, const xf_program *to) {
    if (!fits(to) || from->source != to->source || from->phv_size != to->phv_size) return XF_EABI;
    if (from->layout_count != to->layout_count || memcmp(from->layout, to->layout, to->layout_count * sizeof *to->layout))
        return XF_EABI;
    atomic_set(&e->offered, to);
    return 0;
}

/* Both builds come from one source, so that they differ in nothing but their code and where their descriptors lie. */
void engine_take_offer(xf_engine *e) {
    const xf_program *p = atomic_get(&e->offered);
    uint32_t i;
    for (i = 0; i < p->table_count; i++) e->tables[i]->desc = &p->tables[i];
    for (i = 0; i < p->profile_count; i++) e->profiles[i]->desc = &p->profiles[i];
    e->program = p;
    atomic_set(&e->offered, NULL);
}

const xf_program *xf_running(xf_engine *e) {
    const xf_program *p;
    engine_lock(e);
    p = e->program;
    engine_unlock(e);
    return p;
}
