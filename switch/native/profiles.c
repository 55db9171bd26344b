/* Action profiles: members (an action and its arguments) and groups of them, shared by tables.
 *
 * A group's `table` lists its active members, each as often as its weight says; a selector hash picks a slot. Ids are
 * the caller's and small, so both are arrays. An object that something refers to cannot be deleted. */
#include "engine.h"

#define MAX_ID (1u << 20)
#define MAX_SLOTS (1u << 16)

static xf_member *member_find(xf_profile *p, uint32_t id) {
    return id < p->member_room && p->members[id].exists ? &p->members[id] : NULL;
}

static xf_group *group_find(xf_profile *p, uint32_t id) {
    return id < p->group_room && p->groups[id].exists ? &p->groups[id] : NULL;
}

int profile_use(xf_profile *p, int group, uint32_t id, int by) {
    if (group) {
        xf_group *g = group_find(p, id);
        if (!g) return XF_ENOENT;
        g->used += (uint32_t)by;
    } else {
        xf_member *m = member_find(p, id);
        if (!m) return XF_ENOENT;
        m->used += (uint32_t)by;
    }
    return 0;
}

/* 0 when there is nothing to run: an empty group. */
int profile_pick(xf_profile *p, int group, uint32_t id, uint64_t selector, xf_act *act) {
    xf_member *m;
    if (group) {
        xf_group *g = &p->groups[id];
        if (!g->active) return 0;
        id = g->table[selector % g->active];
    }
    m = &p->members[id];
    act->action = m->action;
    act->args = m->args;
    return 1;
}

static void group_forget(xf_profile *p, xf_group *g) {
    uint32_t i;
    for (i = 0; i < g->count; i++) profile_use(p, 0, g->members[i], -1);
    free(g->members);
    free(g->table);
    g->members = g->table = NULL;
    g->count = g->active = 0;
}

void profile_free(xf_profile *p) {
    uint32_t i;
    for (i = 0; i < p->group_room; i++) group_forget(p, &p->groups[i]);
    for (i = 0; i < p->member_room; i++) free(p->members[i].args);
    free(p->members);
    free(p->groups);
    free(p);
}

static xf_profile *find(xf_engine *e, uint32_t profile) {
    return e->program && profile < e->program->profile_count ? e->profiles[profile] : NULL;
}

static int grow(void **array, uint32_t *room, uint32_t id, size_t size) {
    uint32_t more = *room ? *room : 16;
    void *bigger;
    if (id < *room) return 0;
    while (more <= id) more *= 2;
    bigger = realloc(*array, more * size);
    if (!bigger) return XF_ENOMEM;
    memset((uint8_t *)bigger + *room * size, 0, (more - *room) * size);
    *array = bigger;
    *room = more;
    return 0;
}

static int member_add(xf_profile *p, const xf_op *o) {
    uint32_t words = p->desc->arg_words;
    xf_member *m;
    uint64_t *args;
    if (o->id >= MAX_ID) return XF_EINVAL;
    if (member_find(p, o->id)) return XF_EEXIST;
    if (p->member_count >= p->desc->size) return XF_EFULL;
    args = calloc(words + 1ul, sizeof *args);
    if (!args || grow((void **)&p->members, &p->member_room, o->id, sizeof *p->members)) {
        free(args);
        return XF_ENOMEM;
    }
    memcpy(args, o->words, words * sizeof *args);
    m = &p->members[o->id];
    m->args = args;
    m->action = o->action;
    m->used = 0;
    m->exists = 1;
    p->member_count++;
    return 0;
}

static int member_modify(xf_profile *p, const xf_op *o) {
    xf_member *m = member_find(p, o->id);
    if (!m) return XF_ENOENT;
    m->action = o->action;
    memcpy(m->args, o->words, p->desc->arg_words * sizeof *m->args);
    return 0;
}

static int member_delete(xf_profile *p, uint32_t id) {
    xf_member *m = member_find(p, id);
    if (!m) return XF_ENOENT;
    if (m->used) return XF_EINUSE;
    free(m->args);
    m->args = NULL;
    m->exists = 0;
    p->member_count--;
    return 0;
}

static int group_add(xf_profile *p, uint32_t id) {
    if (id >= MAX_ID) return XF_EINVAL;
    if (group_find(p, id)) return XF_EEXIST;
    if (grow((void **)&p->groups, &p->group_room, id, sizeof *p->groups)) return XF_ENOMEM;
    p->groups[id].exists = 1;
    return 0;
}

static int group_set(xf_profile *p, const xf_op *o) {
    xf_group *g = group_find(p, o->id);
    uint32_t i, k, slots = 0, at = 0, *ids, *table;
    if (!g) return XF_ENOENT;
    if (o->count > MAX_SLOTS) return XF_EINVAL;
    for (i = 0; i < o->count; i++) {
        if (!o->weights[i] || o->weights[i] > MAX_SLOTS) return XF_EINVAL;
        if (!member_find(p, o->ints[i])) return XF_ENOENT;
        if (o->active[i]) slots += o->weights[i];
        if (slots > MAX_SLOTS) return XF_EINVAL;
    }
    ids = malloc((o->count + 1) * sizeof *ids);
    table = malloc((slots + 1) * sizeof *table);
    if (!ids || !table) {
        free(ids);
        free(table);
        return XF_ENOMEM;
    }
    for (i = 0; i < o->count; i++) {
        profile_use(p, 0, o->ints[i], 1);
        ids[i] = o->ints[i];
        if (o->active[i])
            for (k = 0; k < o->weights[i]; k++) table[at++] = o->ints[i];
    }
    group_forget(p, g);
    g->members = ids;
    g->table = table;
    g->count = o->count;
    g->active = slots;
    return 0;
}

static int group_delete(xf_profile *p, uint32_t id) {
    xf_group *g = group_find(p, id);
    if (!g) return XF_ENOENT;
    if (g->used) return XF_EINUSE;
    group_forget(p, g);
    g->exists = 0;
    return 0;
}

int profiles_op(xf_engine *e, const xf_op *o) {
    xf_profile *p = find(e, o->object);
    if (!p) return XF_EINVAL;
    switch (o->kind) {
    case XF_MEMBER_ADD: return member_add(p, o);
    case XF_MEMBER_MODIFY: return member_modify(p, o);
    case XF_MEMBER_DELETE: return member_delete(p, o->id);
    case XF_GROUP_ADD: return group_add(p, o->id);
    case XF_GROUP_SET: return group_set(p, o);
    default: return group_delete(p, o->id);
    }
}
