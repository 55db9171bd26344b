/* Match tables of every kind, as a tuple space.
 *
 * A tuple is a set of entries with the same mask, in a hash table of masked keys. An exact table has one tuple, a
 * longest-prefix table one per prefix length, a ternary table one per mask in use. Tuples are kept by the highest rank
 * they hold, so a lookup stops at the first tuple that cannot beat what it has. Rank is the prefix length for LPM and
 * the priority otherwise; between equals the entry that was added first wins. Range fields lie outside the mask and
 * are checked on the entries of a bucket. */
#include "engine.h"

#define MAX_HANDLE (1u << 28)

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
        if (!limbs_within(key + d->ranges[i].word, bound, d->ranges[i].limbs)) return 0;
        bound += 2 * d->ranges[i].limbs;
    }
    return 1;
}

static int beats(const xf_entry *a, const xf_entry *b) {
    if (!b) return 1;
    return a->rank != b->rank ? a->rank > b->rank : a->rest->sequence < b->rest->sequence;
}

XF_INLINE xf_entry *look_up(xf_table *t, const uint64_t *key) {
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

static void note_hit(const xf_ctx *x, const xf_table *t, xf_entry *e) {
    if (t->desc->with_counters) {
        e->rest->packets++;
        e->rest->bytes += x->ingress_length;
    }
    if (t->desc->with_timeout) e->rest->last_hit = x->now;
}

XF_INLINE void apply(xf_ctx *x, xf_table *t, xf_entry *e, uint64_t selector, xf_act *act) {
    if (e) {
        t->hits++;
        if (t->noted) note_hit(x, t, e);
        act->hit = 1;
        if (e->action != XF_NO_ACTION) {
            act->action = e->action;
            act->args = e->words + t->args_at;
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

xf_entry *xf_lookup(xf_table *t, const uint64_t *key) { return look_up(t, key); }

void xf_apply(xf_ctx *x, xf_table *t, xf_entry *e, uint64_t selector, xf_act *act) { apply(x, t, e, selector, act); }

xf_entry *xf_match(xf_ctx *x, xf_table *t, const uint64_t *key, uint64_t selector, xf_act *act) {
    xf_entry *e = t->entry_count ? look_up(t, key) : NULL;
    apply(x, t, e, selector, act);
    return e;
}

uint32_t xf_entry_meter(xf_ctx *x, xf_table *t, xf_entry *e) {
    return e->rest->meter ? meter_execute(e->rest->meter, x->now, x->ingress_length, t->desc->meter_bytes) : 0;
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

/* Room for a handle that nobody has yet. */
static int handle_room(xf_table *t, uint32_t handle) {
    uint32_t room = t->handle_room ? t->handle_room : 16;
    xf_entry **more;
    if (handle < t->handle_room) return t->handles[handle] ? XF_EINVAL : 0;
    if (handle >= MAX_HANDLE) return XF_EINVAL;
    while (room <= handle) room *= 2;
    more = realloc(t->handles, room * sizeof *more);
    if (!more) return XF_ENOMEM;
    memset(more + t->handle_room, 0, (room - t->handle_room) * sizeof *more);
    t->handles = more;
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
              uint32_t handle) {
    const xf_table_desc *d = t->desc;
    uint32_t n = d->key_words, i;
    uint64_t hash;
    xf_tuple *tuple;
    xf_entry *entry, *other;
    int rc;
    if (t->entry_count >= d->size) return XF_EFULL;
    hash = hash_masked(key, mask, n);
    tuple = tuple_find(t, mask);
    if (tuple)
        for (other = tuple->buckets[hash & (tuple->bucket_count - 1)]; other; other = other->chain) {
            if (other->hash != hash || other->rank != rank) continue;
            for (i = 0; i < n && other->words[i] == (key[i] & mask[i]); i++) {}
            if (i == n && same_words(other->words + n, ranges, d->range_words)) return XF_EEXIST;
        }
    if ((rc = handle_room(t, handle)) < 0) return rc;
    if (action == XF_NO_ACTION && (!t->profile || profile_use(t->profile, ref_group, ref, 1) < 0)) return XF_ENOENT;
    entry = entry_new(d);
    if (!entry || (!tuple && !(tuple = tuple_new(t, mask)))) {
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
    entry->rest->handle = handle;
    entry->rest->sequence = t->sequence++;
    entry->rest->last_hit = ns_of(e, e->now);
    entry->rest->tuple = tuple->id;
    if (tuple->entry_count && rank != tuple->max_rank) tuple->ranked = 1;
    t->handles[handle] = entry;
    if (tuple->entry_count >= tuple->bucket_count) tuple_grow(tuple);
    entry->chain = tuple->buckets[hash & (tuple->bucket_count - 1)];
    tuple->buckets[hash & (tuple->bucket_count - 1)] = entry;
    if (!tuple->entry_count++ || rank > tuple->max_rank) {
        tuple->max_rank = rank;
        sort_tuples(t);
    }
    t->entry_count++;
    find_short_way(t);
    return 0;
}

void table_remove(xf_table *t, xf_entry *e) {
    xf_tuple *tuple = tuple_of(t, e);
    xf_entry **at = &tuple->buckets[e->hash & (tuple->bucket_count - 1)];
    while (*at != e) at = &(*at)->chain;
    *at = e->chain;
    t->handles[e->rest->handle] = NULL;
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
    t->args_at = (uint16_t)(d->key_words + d->range_words);
    t->noted = d->with_counters || d->with_timeout;
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
        if (t->handles[i]) table_remove(t, t->handles[i]);
    free(t->handles);
    free(t->tuples);
    free(t->fallback_args);
    memory_give(t, sizeof *t);
}
