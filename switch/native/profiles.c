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

int xf_member_add(xf_engine *e, uint32_t profile, uint32_t id, uint32_t action, const uint64_t *args) {
    xf_profile *p;
    int rc = 0;
    if (id >= MAX_ID) return XF_EINVAL;
    engine_lock(e);
    p = find(e, profile);
    if (!p) rc = XF_EINVAL;
    else if (member_find(p, id)) rc = XF_EEXIST;
    else if (p->member_count >= p->desc->size) rc = XF_EFULL;
    else if (!(rc = grow((void **)&p->members, &p->member_room, id, sizeof *p->members))) {
        uint32_t words = p->desc->arg_words ? p->desc->arg_words : 1;
        xf_member *m = &p->members[id];
        m->args = calloc(words, sizeof(uint64_t));
        if (!m->args) rc = XF_ENOMEM;
        else {
            if (p->desc->arg_words) memcpy(m->args, args, p->desc->arg_words * sizeof(uint64_t));
            m->action = action;
            m->used = 0;
            m->exists = 1;
            p->member_count++;
        }
    }
    engine_unlock(e);
    return rc;
}

int xf_member_modify(xf_engine *e, uint32_t profile, uint32_t id, uint32_t action, const uint64_t *args) {
    xf_profile *p;
    xf_member *m;
    engine_lock(e);
    p = find(e, profile);
    m = p ? member_find(p, id) : NULL;
    if (m) {
        m->action = action;
        if (p->desc->arg_words) memcpy(m->args, args, p->desc->arg_words * sizeof(uint64_t));
    }
    engine_unlock(e);
    return m ? 0 : XF_ENOENT;
}

int xf_member_delete(xf_engine *e, uint32_t profile, uint32_t id) {
    xf_profile *p;
    xf_member *m;
    int rc = 0;
    engine_lock(e);
    p = find(e, profile);
    m = p ? member_find(p, id) : NULL;
    if (!m) rc = XF_ENOENT;
    else if (m->used) rc = XF_EINUSE;
    else {
        free(m->args);
        m->args = NULL;
        m->exists = 0;
        p->member_count--;
    }
    engine_unlock(e);
    return rc;
}

int xf_group_add(xf_engine *e, uint32_t profile, uint32_t id) {
    xf_profile *p;
    int rc = 0;
    if (id >= MAX_ID) return XF_EINVAL;
    engine_lock(e);
    p = find(e, profile);
    if (!p) rc = XF_EINVAL;
    else if (group_find(p, id)) rc = XF_EEXIST;
    else if (!(rc = grow((void **)&p->groups, &p->group_room, id, sizeof *p->groups))) p->groups[id].exists = 1;
    engine_unlock(e);
    return rc;
}

int xf_group_set(xf_engine *e, uint32_t profile, uint32_t id, const uint32_t *members, const uint32_t *weights,
                 const uint8_t *active, uint32_t count) {
    xf_profile *p;
    xf_group *g;
    uint32_t i, k, slots = 0, at = 0, *ids, *table;
    int rc = 0;
    if (count > MAX_SLOTS) return XF_EINVAL;
    for (i = 0; i < count; i++) {
        if (!weights[i] || weights[i] > MAX_SLOTS) return XF_EINVAL;
        if (active[i]) slots += weights[i];
        if (slots > MAX_SLOTS) return XF_EINVAL;
    }
    ids = malloc((count ? count : 1) * sizeof *ids);
    table = malloc((slots ? slots : 1) * sizeof *table);
    engine_lock(e);
    p = find(e, profile);
    g = p ? group_find(p, id) : NULL;
    if (!g) rc = XF_ENOENT;
    else if (!ids || !table) rc = XF_ENOMEM;
    for (i = 0; !rc && i < count; i++)
        if (!member_find(p, members[i])) rc = XF_ENOENT;
    if (!rc) {
        for (i = 0; i < count; i++) {
            profile_use(p, 0, members[i], 1);
            ids[i] = members[i];
            if (active[i])
                for (k = 0; k < weights[i]; k++) table[at++] = members[i];
        }
        group_forget(p, g);
        g->members = ids;
        g->table = table;
        g->count = count;
        g->active = slots;
    }
    engine_unlock(e);
    if (rc) {
        free(ids);
        free(table);
    }
    return rc;
}

int xf_group_delete(xf_engine *e, uint32_t profile, uint32_t id) {
    xf_profile *p;
    xf_group *g;
    int rc = 0;
    engine_lock(e);
    p = find(e, profile);
    g = p ? group_find(p, id) : NULL;
    if (!g) rc = XF_ENOENT;
    else if (g->used) rc = XF_EINUSE;
    else {
        group_forget(p, g);
        g->exists = 0;
    }
    engine_unlock(e);
    return rc;
}
