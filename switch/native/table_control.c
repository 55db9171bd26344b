/* Match tables from the control side: entries, defaults, counters, and the idle timeouts of entries. */
#include "engine.h"

static xf_table *find(xf_engine *e, uint32_t table) {
    return e->program && table < e->program->table_count ? e->tables[table] : NULL;
}

static int add(xf_engine *e, uint32_t table, const uint64_t *key, const uint64_t *mask, const uint64_t *ranges,
               uint32_t rank, uint32_t action, const uint64_t *args, int group, uint32_t ref, uint32_t *handle) {
    xf_table *t;
    int rc = XF_EINVAL;
    engine_lock(e);
    t = find(e, table);
    if (t && t->desc->entries_const) rc = XF_ECONST;
    else if (t) rc = table_add(e, t, key, mask, ranges, rank, action, args, group, ref, 0, handle);
    engine_unlock(e);
    return rc;
}

int xf_table_add(xf_engine *e, uint32_t table, const uint64_t *key, const uint64_t *mask, const uint64_t *ranges,
                 uint32_t rank, uint32_t action, const uint64_t *args, uint32_t *handle) {
    if (action == XF_NO_ACTION) return XF_EINVAL;
    return add(e, table, key, mask, ranges, rank, action, args, 0, 0, handle);
}

int xf_table_add_indirect(xf_engine *e, uint32_t table, const uint64_t *key, const uint64_t *mask,
                          const uint64_t *ranges, uint32_t rank, int group, uint32_t id, uint32_t *handle) {
    return add(e, table, key, mask, ranges, rank, XF_NO_ACTION, NULL, group, id, handle);
}

static int modify(xf_engine *e, uint32_t table, uint32_t handle, uint32_t action, const uint64_t *args, int group,
                  uint32_t ref) {
    xf_table *t;
    xf_entry *entry;
    int rc = 0;
    engine_lock(e);
    t = find(e, table);
    entry = t ? table_entry(t, handle) : NULL;
    if (!entry) rc = t ? XF_ENOENT : XF_EINVAL;
    else if (entry->rest->is_const) rc = XF_ECONST;
    else if (action == XF_NO_ACTION && (!t->profile || profile_use(t->profile, group, ref, 1) < 0)) rc = XF_ENOENT;
    else {
        uint64_t *to = entry->words + t->desc->key_words + t->desc->range_words;
        uint32_t i;
        if (entry->action == XF_NO_ACTION) profile_use(t->profile, entry->ref_group, entry->ref, -1);
        entry->action = action;
        entry->ref = ref;
        entry->ref_group = (uint8_t)group;
        if (args)
            for (i = 0; i < t->desc->arg_words; i++) to[i] = args[i];
    }
    engine_unlock(e);
    return rc;
}

int xf_table_modify(xf_engine *e, uint32_t table, uint32_t handle, uint32_t action, const uint64_t *args) {
    return action == XF_NO_ACTION ? XF_EINVAL : modify(e, table, handle, action, args, 0, 0);
}

int xf_table_modify_indirect(xf_engine *e, uint32_t table, uint32_t handle, int group, uint32_t id) {
    return modify(e, table, handle, XF_NO_ACTION, NULL, group, id);
}

int xf_table_delete(xf_engine *e, uint32_t table, uint32_t handle) {
    xf_table *t;
    xf_entry *entry;
    int rc = 0;
    engine_lock(e);
    t = find(e, table);
    entry = t ? table_entry(t, handle) : NULL;
    if (!entry) rc = t ? XF_ENOENT : XF_EINVAL;
    else if (entry->rest->is_const) rc = XF_ECONST;
    else table_remove(t, entry);
    engine_unlock(e);
    return rc;
}

int xf_table_clear(xf_engine *e, uint32_t table) {
    xf_table *t;
    uint32_t i;
    engine_lock(e);
    t = find(e, table);
    if (t)
        for (i = 0; i < t->handle_room; i++)
            if (t->handles[i] && !t->handles[i]->rest->is_const) table_remove(t, t->handles[i]);
    engine_unlock(e);
    return t ? 0 : XF_EINVAL;
}

/* `reset` takes the program's default instead of `action` and `args`. */
static int set_default(xf_engine *e, uint32_t table, uint32_t action, const uint64_t *args, int reset, int indirect,
                       int group, uint32_t ref) {
    xf_table *t;
    uint32_t words = 0;
    int rc = 0;
    engine_lock(e);
    t = find(e, table);
    if (t && reset) {
        action = t->desc->default_action;
        args = t->desc->default_args;
        words = t->desc->default_words;
    } else if (t && args) {
        words = t->desc->arg_words;
    }
    if (!t) rc = XF_EINVAL;
    else if (t->desc->default_const && reset) rc = 0;
    else if (t->desc->default_const) rc = XF_ECONST;
    else if (indirect && (!t->profile || profile_use(t->profile, group, ref, 1) < 0)) rc = XF_ENOENT;
    else {
        if (t->fallback_indirect) profile_use(t->profile, t->fallback_group, t->fallback_ref, -1);
        t->fallback_indirect = (uint8_t)indirect;
        t->fallback_group = (uint8_t)group;
        t->fallback_ref = ref;
        t->fallback.action = action;
        if (words) memcpy(t->fallback_args, args, words * sizeof(uint64_t));
    }
    engine_unlock(e);
    return rc;
}

int xf_table_default(xf_engine *e, uint32_t table, uint32_t action, const uint64_t *args) {
    return set_default(e, table, action, args, 0, 0, 0, 0);
}

int xf_table_default_indirect(xf_engine *e, uint32_t table, int group, uint32_t id) {
    return set_default(e, table, XF_NO_ACTION, NULL, 0, 1, group, id);
}

int xf_table_default_reset(xf_engine *e, uint32_t table) { return set_default(e, table, 0, NULL, 1, 0, 0, 0); }

int xf_table_count(xf_engine *e, uint32_t table) {
    xf_table *t;
    int n;
    engine_lock(e);
    t = find(e, table);
    n = t ? (int)t->entry_count : XF_EINVAL;
    engine_unlock(e);
    return n;
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

int xf_entry_counter_set(xf_engine *e, uint32_t table, uint32_t handle, uint64_t packets, uint64_t bytes) {
    xf_entry *entry;
    engine_lock(e);
    entry = locked_entry(e, table, handle);
    if (entry) {
        entry->rest->packets = packets;
        entry->rest->bytes = bytes;
    }
    engine_unlock(e);
    return entry ? 0 : XF_ENOENT;
}

int xf_entry_meter_set(xf_engine *e, uint32_t table, uint32_t handle, const uint64_t *rates, uint32_t count) {
    xf_entry *entry;
    int rc = XF_ENOENT;
    engine_lock(e);
    entry = locked_entry(e, table, handle);
    if (entry) rc = entry->rest->meter ? meter_set(entry->rest->meter, rates, count, ns_of(e, e->now)) : XF_EINVAL;
    engine_unlock(e);
    return rc;
}

/* ---- idle timeouts ---- */

int xf_entry_timeout(xf_engine *e, uint32_t table, uint32_t handle, uint64_t timeout) {
    xf_entry *entry;
    xf_table *t;
    engine_lock(e);
    t = find(e, table);
    entry = t && t->desc->with_timeout ? table_entry(t, handle) : NULL;
    if (entry) {
        t->has_timeouts += (timeout != 0) - (entry->rest->timeout != 0);
        entry->rest->timeout = timeout;
        entry->rest->last_hit = ns_of(e, e->now);
        if (timeout && entry->rest->last_hit + timeout < e->next_sweep) e->next_sweep = entry->rest->last_hit + timeout;
    }
    engine_unlock(e);
    return entry ? 0 : XF_ENOENT;
}

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
