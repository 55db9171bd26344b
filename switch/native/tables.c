/* Match tables of every kind, as a tuple space.
 *
 * A tuple is a set of entries with the same mask, in a hash table of masked keys. An exact table has one tuple, a
 * longest-prefix table one per prefix length, a ternary table one per mask in use. Tuples are kept by the highest rank
 * they hold, so a lookup stops at the first tuple that cannot beat what it has. Rank is the prefix length for LPM and
 * the priority otherwise; between equals the entry that was added first wins. Range fields lie outside the mask and
 * are checked on the entries of a bucket. */
#include "engine.h"

static uint64_t mix(uint64_t h) {
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93ul;
    h ^= h >> 32;
    return h;
}

static uint64_t hash_word(uint64_t word) { return mix(0x9e3779b97f4a7c15ul ^ word); }

static uint64_t hash_masked(const uint64_t *key, const uint64_t *mask, uint32_t n) {
    uint64_t h = 0x9e3779b97f4a7c15ul;
    uint32_t i;
    for (i = 0; i < n; i++) h = mix(h ^ (key[i] & mask[i]));
    return h;
}

static int in_ranges(const xf_table_desc *d, const xf_entry *e, const uint64_t *key) {
    const uint64_t *bound = e->words + d->key_words;
    uint32_t i;
    for (i = 0; i < d->range_count; i++) {
        uint32_t limbs = d->ranges[i].limbs, k;
        const uint64_t *v = key + d->ranges[i].word, *low = bound, *high = bound + limbs;
        for (k = limbs; k-- > 0;) {
            if (v[k] != low[k]) {
                if (v[k] < low[k]) return 0;
                break;
            }
        }
        for (k = limbs; k-- > 0;) {
            if (v[k] != high[k]) {
                if (v[k] > high[k]) return 0;
                break;
            }
        }
        bound += 2 * limbs;
    }
    return 1;
}

static int beats(const xf_entry *a, const xf_entry *b) {
    if (!b) return 1;
    return a->rank != b->rank ? a->rank > b->rank : a->rest->sequence < b->rest->sequence;
}

int xf_table_used(const xf_table *t) { return t->entry_count != 0; }

xf_entry *xf_lookup(xf_table *t, const uint64_t *key) {
    const xf_table_desc *d = t->desc;
    uint32_t n = d->key_words, i, k;
    xf_entry *best = NULL;
    if (t->buckets) {
        uint64_t word = key[0] & t->mask;
        for (best = t->buckets[hash_word(word) & t->bucket_mask]; best && best->words[0] != word; best = best->chain) {}
        return best;
    }
    for (i = 0; i < t->tuple_count; i++) {
        xf_tuple *tuple = t->tuples[i];
        uint64_t h;
        xf_entry *e;
        if (best && tuple->max_rank < best->rank) break;
        h = hash_masked(key, tuple->mask, n);
        for (e = tuple->buckets[h & (tuple->bucket_count - 1)]; e; e = e->chain) {
            if (e->hash != h) continue;
            for (k = 0; k < n && e->words[k] == (key[k] & tuple->mask[k]); k++) {}
            if (k == n && beats(e, best) && (!d->range_count || in_ranges(d, e, key))) best = e;
        }
    }
    return best;
}

static const uint64_t *entry_args(const xf_table_desc *d, const xf_entry *e) {
    return e->words + d->key_words + d->range_words;
}

void xf_apply(xf_ctx *x, xf_table *t, xf_entry *e, uint64_t selector, xf_act *act) {
    if (e) {
        t->hits++;
        if (t->desc->with_counters) {
            e->rest->packets++;
            e->rest->bytes += x->ingress_length;
        }
        if (t->desc->with_timeout) e->rest->last_hit = x->now;
        if (x->trail != x->trail_end) {
            if (x->trail->entry != e) {
                x->trail->entry = e;
                x->trail->table = t;
                x->trail->bucket = t->buckets ? t->buckets + (e->hash & t->bucket_mask) : NULL;
            }
            x->trail++;
        }
        act->hit = 1;
        if (e->action != XF_NO_ACTION) {
            act->action = e->action;
            act->args = entry_args(t->desc, e);
            return;
        }
        if (profile_pick(t->profile, e->ref_group, e->ref, selector, act)) return;
    } else {
        t->misses++;
        act->hit = 0;
        if (t->fallback_indirect && profile_pick(t->profile, t->fallback_group, t->fallback_ref, selector, act)) return;
    }
    act->action = t->fallback.action;
    act->args = t->fallback.args;
}

/* ---- tuples ---- */

/* Whether look-ups may take the short way: after any change of the tuples or their buckets. A key word is in one entry
 * of a tuple only if its ranges and ranks do not tell entries apart. */
static void find_short_way(xf_table *t) {
    xf_tuple *only = t->tuple_count == 1 ? t->tuples[0] : NULL;
    t->buckets = NULL;
    if (!only || t->desc->key_words != 1 || t->desc->range_count || only->ranked) return;
    t->buckets = only->buckets;
    t->mask = only->mask[0];
    t->bucket_mask = only->bucket_count - 1;
}

static void sort_tuples(xf_table *t) {
    uint32_t i, j;
    for (i = 1; i < t->tuple_count; i++) {
        xf_tuple *moving = t->tuples[i];
        for (j = i; j > 0 && t->tuples[j - 1]->max_rank < moving->max_rank; j--) t->tuples[j] = t->tuples[j - 1];
        t->tuples[j] = moving;
    }
}

static int same_words(const uint64_t *a, const uint64_t *b, uint32_t n) {
    uint32_t i;
    for (i = 0; i < n; i++)
        if (a[i] != b[i]) return 0;
    return 1;
}

static xf_tuple *tuple_find(xf_table *t, const uint64_t *mask) {
    uint32_t i;
    for (i = 0; i < t->tuple_count; i++)
        if (same_words(t->tuples[i]->mask, mask, t->desc->key_words)) return t->tuples[i];
    return NULL;
}

static xf_tuple *tuple_new(xf_table *t, const uint64_t *mask) {
    uint32_t n = t->desc->key_words;
    xf_tuple *tuple;
    if (t->tuple_count == t->tuple_room) {
        uint32_t room = t->tuple_room ? 2 * t->tuple_room : 4;
        xf_tuple **more = realloc(t->tuples, room * sizeof *more);
        if (!more) return NULL;
        t->tuples = more;
        t->tuple_room = room;
    }
    tuple = memory_take(sizeof *tuple + n * sizeof(uint64_t));
    if (!tuple) return NULL;
    tuple->bucket_count = 8;
    tuple->buckets = memory_take(tuple->bucket_count * sizeof *tuple->buckets);
    if (!tuple->buckets) {
        memory_give(tuple, sizeof *tuple + n * sizeof(uint64_t));
        return NULL;
    }
    tuple->id = t->next_tuple++;
    if (n) memcpy(tuple->mask, mask, n * sizeof(uint64_t));
    t->tuples[t->tuple_count++] = tuple;
    return tuple;
}

static void tuple_grow(xf_tuple *tuple) {
    uint32_t count = 2 * tuple->bucket_count, i;
    xf_entry **buckets = memory_take(count * sizeof *buckets);
    if (!buckets) return; /* longer chains, still right */
    for (i = 0; i < tuple->bucket_count; i++) {
        xf_entry *e = tuple->buckets[i], *next;
        for (; e; e = next) {
            next = e->chain;
            e->chain = buckets[e->hash & (count - 1)];
            buckets[e->hash & (count - 1)] = e;
        }
    }
    memory_give(tuple->buckets, tuple->bucket_count * sizeof *tuple->buckets);
    tuple->buckets = buckets;
    tuple->bucket_count = count;
}

static void tuple_drop(xf_table *t, xf_tuple *tuple) {
    uint32_t i;
    for (i = 0; t->tuples[i] != tuple; i++) {}
    for (t->tuple_count--; i < t->tuple_count; i++) t->tuples[i] = t->tuples[i + 1];
    memory_give(tuple->buckets, tuple->bucket_count * sizeof *tuple->buckets);
    memory_give(tuple, sizeof *tuple + t->desc->key_words * sizeof(uint64_t));
}

static xf_tuple *tuple_of(xf_table *t, const xf_entry *e) {
    uint32_t i;
    for (i = 0; t->tuples[i]->id != e->rest->tuple; i++) {}
    return t->tuples[i];
}

/* ---- entries ---- */

xf_entry *table_entry(xf_table *t, uint32_t handle) {
    return handle < t->handle_room ? t->handles[handle] : NULL;
}

static int handle_new(xf_table *t, uint32_t *handle) {
    uint32_t room, i;
    for (i = t->handle_hint; i < t->handle_room; i++)
        if (!t->handles[i]) {
            *handle = i;
            t->handle_hint = i + 1;
            return 0;
        }
    room = t->handle_room ? 2 * t->handle_room : 16;
    {
        xf_entry **more = realloc(t->handles, room * sizeof *more);
        if (!more) return XF_ENOMEM;
        memset(more + t->handle_room, 0, (room - t->handle_room) * sizeof *more);
        t->handles = more;
    }
    *handle = t->handle_room;
    t->handle_hint = t->handle_room + 1;
    t->handle_room = room;
    return 0;
}

static size_t entry_bytes(const xf_table_desc *d) {
    return sizeof(xf_entry) + (d->key_words + d->range_words + d->arg_words) * sizeof(uint64_t);
}

static xf_entry *entry_new(const xf_table_desc *d) {
    xf_entry *entry = memory_take(entry_bytes(d));
    if (!entry) return NULL;
    entry->rest = calloc(1, sizeof *entry->rest);
    if (entry->rest) return entry;
    memory_give(entry, entry_bytes(d));
    return NULL;
}

static void entry_free(const xf_table_desc *d, xf_entry *entry) {
    if (!entry) return;
    free(entry->rest->meter);
    free(entry->rest);
    memory_give(entry, entry_bytes(d));
}

int table_add(xf_engine *e, xf_table *t, const uint64_t *key, const uint64_t *mask, const uint64_t *ranges,
              uint32_t rank, uint32_t action, const uint64_t *args, int ref_group, uint32_t ref, int is_const,
              uint32_t *handle) {
    const xf_table_desc *d = t->desc;
    uint32_t n = d->key_words, i, slot;
    uint64_t hash;
    xf_tuple *tuple;
    xf_entry *entry, *other;
    if (t->entry_count >= d->size) return XF_EFULL;
    hash = hash_masked(key, mask, n);
    tuple = tuple_find(t, mask);
    if (tuple)
        for (other = tuple->buckets[hash & (tuple->bucket_count - 1)]; other; other = other->chain) {
            if (other->hash != hash || other->rank != rank) continue;
            for (i = 0; i < n && other->words[i] == (key[i] & mask[i]); i++) {}
            if (i == n && same_words(other->words + n, ranges, d->range_words)) return XF_EEXIST;
        }
    if (action == XF_NO_ACTION && (!t->profile || profile_use(t->profile, ref_group, ref, 1) < 0)) return XF_ENOENT;
    entry = entry_new(d);
    if (!entry || handle_new(t, &slot) < 0 || (!tuple && !(tuple = tuple_new(t, mask)))) {
        entry_free(d, entry);
        if (action == XF_NO_ACTION) profile_use(t->profile, ref_group, ref, -1);
        return XF_ENOMEM;
    }
    if (d->with_meter) entry->rest->meter = calloc(1, sizeof *entry->rest->meter);
    for (i = 0; i < n; i++) entry->words[i] = key[i] & mask[i];
    for (i = 0; i < d->range_words; i++) entry->words[n + i] = ranges[i];
    if (args)
        for (i = 0; i < d->arg_words; i++) entry->words[n + d->range_words + i] = args[i];
    entry->hash = hash;
    entry->rank = rank;
    entry->action = action;
    entry->ref = ref;
    entry->ref_group = (uint8_t)ref_group;
    entry->rest->is_const = (uint8_t)is_const;
    entry->rest->handle = slot;
    entry->rest->sequence = t->sequence++;
    entry->rest->last_hit = ns_of(e, e->now);
    entry->rest->tuple = tuple->id;
    if (tuple->entry_count && rank != tuple->max_rank) tuple->ranked = 1;
    t->handles[slot] = entry;
    if (tuple->entry_count >= tuple->bucket_count) tuple_grow(tuple);
    entry->chain = tuple->buckets[hash & (tuple->bucket_count - 1)];
    tuple->buckets[hash & (tuple->bucket_count - 1)] = entry;
    if (!tuple->entry_count++ || rank > tuple->max_rank) {
        tuple->max_rank = rank;
        sort_tuples(t);
    }
    t->entry_count++;
    find_short_way(t);
    if (handle) *handle = slot;
    return 0;
}

static void entry_remove(xf_table *t, xf_entry *e) {
    xf_tuple *tuple = tuple_of(t, e);
    xf_entry **at = &tuple->buckets[e->hash & (tuple->bucket_count - 1)];
    while (*at != e) at = &(*at)->chain;
    *at = e->chain;
    t->handles[e->rest->handle] = NULL;
    if (e->rest->handle < t->handle_hint) t->handle_hint = e->rest->handle;
    t->entry_count--;
    if (e->rest->timeout) t->has_timeouts--;
    if (e->action == XF_NO_ACTION) profile_use(t->profile, e->ref_group, e->ref, -1);
    if (!--tuple->entry_count) {
        tuple_drop(t, tuple);
    } else if (e->rank == tuple->max_rank && t->tuple_count > 1) {
        uint32_t i, highest = 0;
        xf_entry *other;
        for (i = 0; i < tuple->bucket_count; i++)
            for (other = tuple->buckets[i]; other; other = other->chain)
                if (other->rank > highest) highest = other->rank;
        if (highest != tuple->max_rank) {
            tuple->max_rank = highest;
            sort_tuples(t);
        }
    }
    entry_free(t->desc, e);
    find_short_way(t);
}

int table_init(xf_table *t, const xf_table_desc *d, xf_profile *profile) {
    t->desc = d;
    t->profile = profile;
    t->fallback_args = calloc(d->arg_words ? d->arg_words : 1, sizeof(uint64_t));
    if (!t->fallback_args) return XF_ENOMEM;
    t->fallback.args = t->fallback_args;
    t->fallback.action = d->default_action;
    if (d->default_words) memcpy(t->fallback_args, d->default_args, d->default_words * sizeof(uint64_t));
    return 0;
}

void table_free(xf_table *t) {
    uint32_t i;
    for (i = 0; i < t->handle_room; i++)
        if (t->handles[i]) entry_remove(t, t->handles[i]);
    free(t->handles);
    free(t->tuples);
    free(t->fallback_args);
    memory_give(t, sizeof *t);
}

/* ---- control calls ---- */

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
    else entry_remove(t, entry);
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
            if (t->handles[i] && !t->handles[i]->rest->is_const) entry_remove(t, t->handles[i]);
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

uint32_t xf_entry_meter(xf_ctx *x, xf_table *t, xf_entry *e) {
    return e->rest->meter ? meter_execute(e->rest->meter, x->now, t->desc->meter_bytes ? x->ingress_length : 1) : 0;
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
                    e->pending |= XF_PENDING_IDLE;
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
