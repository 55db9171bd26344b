/* Match tables from the control side: entries, defaults, counters, and the idle timeouts of entries. */
#include "engine.h"

static xf_table *find(xf_engine *e, uint32_t table) {
    return e->program && table < e->program->table_count ? e->tables[table] : NULL;
}

static int modify(xf_table *t, xf_entry *entry, const xf_op *o) {
    uint64_t *to = entry->words + t->desc->key_words + t->desc->range_words;
    if (entry->rest->is_const) return XF_ECONST;
    if (o->action == XF_NO_ACTION && (!t->profile || profile_use(t->profile, (int)o->is_group, o->ref, 1) < 0))
        return XF_ENOENT;
    if (entry->action == XF_NO_ACTION) profile_use(t->profile, entry->ref_group, entry->ref, -1);
    entry->action = o->action;
    entry->ref = o->ref;
    entry->ref_group = (uint8_t)o->is_group;
    if (o->action != XF_NO_ACTION) memcpy(to, o->words, t->desc->arg_words * sizeof *to);
    return 0;
}

static void clear(xf_table *t) {
    uint32_t i;
    for (i = 0; i < t->handle_room; i++)
        if (t->handles[i] && !t->handles[i]->rest->is_const) table_remove(t, t->handles[i]);
}

static int set_default(xf_table *t, const xf_op *o) {
    const xf_table_desc *d = t->desc;
    int reset = o->kind == XF_TABLE_DEFAULT_RESET, indirect = !reset && o->action == XF_NO_ACTION;
    if (d->default_const) return reset ? 0 : XF_ECONST;
    if (indirect && (!t->profile || profile_use(t->profile, (int)o->is_group, o->ref, 1) < 0)) return XF_ENOENT;
    if (t->fallback_indirect) profile_use(t->profile, t->fallback_group, t->fallback_ref, -1);
    t->fallback_indirect = (uint8_t)indirect;
    t->fallback_group = (uint8_t)o->is_group;
    t->fallback_ref = o->ref;
    t->fallback.action = reset ? d->default_action : o->action;
    if (reset && d->default_words) memcpy(t->fallback_args, d->default_args, d->default_words * sizeof(uint64_t));
    if (!reset && !indirect) memcpy(t->fallback_args, o->words, d->arg_words * sizeof(uint64_t));
    return 0;
}

static int set_timeout(xf_engine *e, xf_table *t, xf_entry *entry, uint64_t timeout) {
    if (!t->desc->with_timeout) return XF_ENOENT;
    t->has_timeouts += (timeout != 0) - (entry->rest->timeout != 0);
    entry->rest->timeout = timeout;
    entry->rest->last_hit = ns_of(e, e->now);
    if (timeout && entry->rest->last_hit + timeout < e->next_sweep) e->next_sweep = entry->rest->last_hit + timeout;
    return 0;
}

int tables_op(xf_engine *e, const xf_op *o) {
    xf_table *t = find(e, o->object);
    xf_entry *entry;
    if (!t) return XF_EINVAL;
    switch (o->kind) {
    case XF_TABLE_ADD:
        if (t->desc->entries_const) return XF_ECONST;
        return table_add(e, t, o->key, o->mask, o->ranges, o->rank, o->action, o->action == XF_NO_ACTION ? NULL : o->words,
                         (int)o->is_group, o->ref, 0, o->id);
    case XF_TABLE_CLEAR: clear(t); return 0;
    case XF_TABLE_DEFAULT:
    case XF_TABLE_DEFAULT_RESET: return set_default(t, o);
    default: break;
    }
    entry = table_entry(t, o->id);
    if (!entry) return XF_ENOENT;
    switch (o->kind) {
    case XF_TABLE_MODIFY: return modify(t, entry, o);
    case XF_TABLE_DELETE:
        if (entry->rest->is_const) return XF_ECONST;
        table_remove(t, entry);
        return 0;
    case XF_ENTRY_COUNTER:
        entry->rest->packets = o->packets;
        entry->rest->bytes = o->bytes;
        return 0;
    case XF_ENTRY_METER:
        return entry->rest->meter ? meter_set(entry->rest->meter, o->words, ns_of(e, e->now)) : XF_EINVAL;
    case XF_ENTRY_METER_CLEAR:
        if (!entry->rest->meter) return XF_EINVAL;
        memset(entry->rest->meter->colours, 0, sizeof entry->rest->meter->colours);
        return 0;
    case XF_ENTRY_TIMEOUT: return set_timeout(e, t, entry, o->time);
    default: return XF_EINVAL;
    }
}

int xf_table_stats_read(xf_engine *e, uint32_t table, xf_table_stats *out) {
    xf_table *t;
    engine_lock(e);
    t = find(e, table);
    if (t) {
        out->hits = t->hits;
        out->misses = t->misses;
        out->entries = t->entry_count;
    }
    engine_unlock(e);
    return t ? 0 : XF_EINVAL;
}

static xf_entry *locked_entry(xf_engine *e, uint32_t table, uint32_t handle) {
    xf_table *t = find(e, table);
    return t ? table_entry(t, handle) : NULL;
}

int xf_entry_counter(xf_engine *e, uint32_t table, uint32_t handle, uint64_t *packets, uint64_t *bytes) {
    xf_entry *entry;
    engine_lock(e);
    entry = locked_entry(e, table, handle);
    if (entry) {
        *packets = entry->rest->packets;
        *bytes = entry->rest->bytes;
    }
    engine_unlock(e);
    return entry ? 0 : XF_ENOENT;
}

int xf_entry_meter_read(xf_engine *e, uint32_t table, uint32_t handle, uint64_t *packets_bytes) {
    xf_entry *entry;
    int rc = XF_ENOENT;
    engine_lock(e);
    entry = locked_entry(e, table, handle);
    if (entry) rc = entry->rest->meter ? 0 : XF_EINVAL;
    if (!rc) meter_read(entry->rest->meter, packets_bytes);
    engine_unlock(e);
    return rc;
}

/* ---- idle timeouts ---- */

int xf_entry_idle(xf_engine *e, uint32_t table, uint32_t handle, uint64_t *idle) {
    xf_entry *entry;
    engine_lock(e);
    entry = locked_entry(e, table, handle);
    if (entry) *idle = ns_of(e, e->now) - entry->rest->last_hit;
    engine_unlock(e);
    return entry ? 0 : XF_ENOENT;
}

/* Reports the entries that timed out and finds when the next one may. An entry is reported once per timeout without a
 * hit; sweeps are at least a millisecond apart. */
void engine_sweep(xf_engine *e) {
    uint64_t now = ns_of(e, e->now), next = XF_NEVER;
    uint32_t i, h;
    for (i = 0; i < e->program->table_count; i++) {
        xf_table *t = e->tables[i];
        if (!t->has_timeouts) continue;
        for (h = 0; h < t->handle_room; h++) {
            xf_entry *entry = t->handles[h];
            uint64_t due, idle = h;
            if (!entry || !entry->rest->timeout) continue;
            if (now >= entry->rest->last_hit + entry->rest->timeout) {
                uint64_t periods = (now - entry->rest->last_hit) / entry->rest->timeout;
                if (periods > entry->rest->reported || !entry->rest->reported) {
                    ring_put(&e->idles, i, now, &idle, 1);
                    engine_tell(e, XF_PENDING_IDLE);
                }
                entry->rest->reported = periods > 255 ? 255 : (uint8_t)periods;
                due = entry->rest->last_hit + (periods + 1) * entry->rest->timeout;
            } else {
                entry->rest->reported = 0;
                due = entry->rest->last_hit + entry->rest->timeout;
            }
            if (due < next) next = due;
        }
    }
    if (next != XF_NEVER && next < now + 1000000) next = now + 1000000;
    e->next_sweep = next;
}
