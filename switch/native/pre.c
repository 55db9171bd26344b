/* Replication: multicast groups and clone sessions, each a list of (port, rid) replicas. */
#include "engine.h"

#define MAX_GROUP (1u << 17)
#define MAX_SESSION 0x8000u
#define MAX_REPLICAS (1u << 16)

xf_replicas *replicas_find(xf_replica_map *m, uint32_t id) {
    return id < m->room && m->at[id].exists ? &m->at[id] : NULL;
}

void replicas_free(xf_replica_map *m) {
    uint32_t i;
    for (i = 0; i < m->room; i++) free(m->at[i].at);
    free(m->at);
}

static int grow(xf_replica_map *m, uint32_t id) {
    uint32_t room = m->room ? m->room : 64;
    xf_replicas *more;
    if (id < m->room) return 0;
    while (room <= id) room *= 2;
    more = realloc(m->at, room * sizeof *more);
    if (!more) return XF_ENOMEM;
    memset(more + m->room, 0, (room - m->room) * sizeof *more);
    m->at = more;
    m->room = room;
    return 0;
}

static int set(xf_replica_map *m, const xf_op *o, int is_session) {
    xf_replica *at;
    xf_replicas *r;
    uint32_t i;
    if (o->count > MAX_REPLICAS) return XF_EINVAL;
    at = malloc((o->count + 1) * sizeof *at);
    if (!at || grow(m, o->object)) {
        free(at);
        return XF_ENOMEM;
    }
    for (i = 0; i < o->count; i++) {
        at[i].port = o->ints[2 * i];
        at[i].rid = o->ints[2 * i + 1];
    }
    r = &m->at[o->object];
    free(r->at);
    r->at = at;
    r->count = o->count;
    r->group = is_session ? o->ref : 0;
    r->truncate = is_session ? o->length : 0;
    r->cls = is_session ? o->rank : 0;
    r->exists = 1;
    return 0;
}

static int delete(xf_replica_map *m, uint32_t id) {
    xf_replicas *r = replicas_find(m, id);
    if (!r) return XF_ENOENT;
    free(r->at);
    memset(r, 0, sizeof *r);
    return 0;
}

int replication_op(xf_engine *e, const xf_op *o) {
    switch (o->kind) {
    case XF_MULTICAST_SET: return o->object && o->object < MAX_GROUP ? set(&e->groups, o, 0) : XF_EINVAL;
    case XF_MULTICAST_DELETE: return delete (&e->groups, o->object);
    case XF_CLONE_SET:
        return o->object < MAX_SESSION && o->rank < e->priority_queues ? set(&e->sessions, o, 1) : XF_EINVAL;
    default: return delete (&e->sessions, o->object);
    }
}
