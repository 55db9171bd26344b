/* Replication: multicast groups and clone sessions, each a list of (port, rid) replicas. */
#include "engine.h"

#define MAX_ID (1u << 17)

xf_replicas *replicas_find(xf_replica_map *m, uint32_t id) {
    return id < m->room && m->at[id].exists ? &m->at[id] : NULL;
}

void replicas_free(xf_replica_map *m) {
    uint32_t i;
    for (i = 0; i < m->room; i++) free(m->at[i].at);
    free(m->at);
}

static int set(xf_engine *e, xf_replica_map *m, uint32_t id, const uint32_t *pairs, uint32_t count, uint32_t group,
               uint32_t truncate) {
    xf_replica *at;
    uint32_t i;
    int rc = 0;
    if (id >= MAX_ID || count > (1u << 16)) return XF_EINVAL;
    at = malloc((count ? count : 1) * sizeof *at);
    if (!at) return XF_ENOMEM;
    for (i = 0; i < count; i++) {
        at[i].port = pairs[2 * i];
        at[i].rid = pairs[2 * i + 1];
    }
    engine_lock(e);
    if (id >= m->room) {
        uint32_t room = m->room ? m->room : 64;
        xf_replicas *more;
        while (room <= id) room *= 2;
        more = realloc(m->at, room * sizeof *more);
        if (more) {
            memset(more + m->room, 0, (room - m->room) * sizeof *more);
            m->at = more;
            m->room = room;
        } else {
            rc = XF_ENOMEM;
        }
    }
    if (!rc) {
        xf_replicas *r = &m->at[id];
        xf_replica *old = r->at;
        r->at = at;
        at = old;
        r->count = count;
        r->group = group;
        r->truncate = truncate;
        r->exists = 1;
    }
    engine_unlock(e);
    free(at);
    return rc;
}

static int delete(xf_engine *e, xf_replica_map *m, uint32_t id) {
    xf_replicas *r;
    engine_lock(e);
    r = replicas_find(m, id);
    if (r) {
        free(r->at);
        memset(r, 0, sizeof *r);
    }
    engine_unlock(e);
    return r ? 0 : XF_ENOENT;
}

int xf_multicast_set(xf_engine *e, uint32_t group, const uint32_t *pairs, uint32_t count) {
    return group ? set(e, &e->groups, group, pairs, count, 0, 0) : XF_EINVAL;
}

int xf_multicast_delete(xf_engine *e, uint32_t group) { return delete (e, &e->groups, group); }

int xf_clone_set(xf_engine *e, uint32_t session, const uint32_t *pairs, uint32_t count, uint32_t group,
                 uint32_t truncate) {
    return session < 0x8000 ? set(e, &e->sessions, session, pairs, count, group, truncate) : XF_EINVAL;
}

int xf_clone_delete(xf_engine *e, uint32_t session) { return delete (e, &e->sessions, session); }
