/* The event loop of a fabric.
 *
 * The queue is a 4-ary heap of (deadline, node) that knows where each node is, so that a deadline moves in place; a
 * node stays at the top while it is polled and moves once. Everything runs under the fabric's lock, which
 * is recursive and is also the lock of every engine in it: code that a run calls outside of C may use the engines. */
#include "fabric_nodes.h"

#define BREATH 256 /* instants between two chances for control threads */
#define DEFAULT_HEADER_BYTES 1536
#define RECURSIVE 1 /* PTHREAD_MUTEX_RECURSIVE of Linux's C libraries */

int pthread_mutexattr_init(void *attributes);
int pthread_mutexattr_settype(void *attributes, int type);
int pthread_mutexattr_destroy(void *attributes);
int pthread_mutex_init(void *mutex, const void *attributes);

/* ---- the queue ---- */

static int before(item a, item b) { return a.due != b.due ? a.due < b.due : a.node < b.node; }

static void put(xf_fabric *f, uint32_t at, item it) {
    f->heap[at] = it;
    f->nodes[it.node].place = at;
}

static void set_due(xf_fabric *f, uint32_t number, uint64_t due) {
    uint32_t at = f->nodes[number].place;
    item it = {due, number};
    if (f->heap[at].due == due) return;
    if (due < f->heap[at].due) {
        while (at) {
            uint32_t parent = (at - 1) / 4;
            if (!before(it, f->heap[parent])) break;
            put(f, at, f->heap[parent]);
            at = parent;
        }
    } else {
        for (;;) {
            uint32_t child = 4 * at + 1, end = child + 4 < f->count ? child + 4 : f->count, least = child;
            if (child >= f->count) break;
            while (++child < end)
                if (before(f->heap[child], f->heap[least])) least = child;
            if (!before(f->heap[least], it)) break;
            put(f, at, f->heap[least]);
            at = least;
        }
    }
    put(f, at, it);
}

uint64_t fabric_deadline(const xf_fabric *f, uint32_t number) {
    const node *n = &f->nodes[number];
    switch (n->kind) {
    case ENGINE: return engine_deadline(n->self);
    case NATIVE: return n->type->deadline(n->self);
    case FOREIGN: return f->foreign.deadline(number);
    case GONE: break;
    }
    return XF_NEVER;
}

void fabric_reschedule(xf_fabric *f, uint32_t number) {
    node *n = &f->nodes[number];
    uint64_t due;
    if (f->linked && n->kind == NATIVE) n->type->begin(n->self);
    due = fabric_deadline(f, number);
    if (f->linked) {
        if (due < f->next[number]) f->next[number] = due;
        return;
    }
    set_due(f, number, due < f->now ? f->now : due);
}

/* ---- an instant ---- */

#define REPORTS (XF_PENDING_CPU | XF_PENDING_DIGEST | XF_PENDING_IDLE)

static void look_for_reports(xf_fabric *f, const xf_engine *e) {
    if (atomic_peek(&e->pending) & REPORTS) f->reported = 1;
}

static void deliver(xf_fabric *f, uint32_t number, uint32_t port, xf_packet *p) {
    node *n = &f->nodes[number];
    f->traversals++;
    switch (n->kind) {
    case ENGINE:
        engine_rx(n->self, port, p, f->now);
        look_for_reports(f, n->self);
        break;
    case NATIVE: n->type->rx(n->self, port, p, f->now); break;
    case FOREIGN:
        f->entered = 1;
        f->foreign.rx(number, port, p->data, p->length, f->now);
        packet_free(p);
        break;
    case GONE: packet_free(p); return;
    }
    fabric_reschedule(f, number);
}

static void tell(const xf_fabric *f, uint32_t from, const peer *to, const xf_packet *p) {
    if (f->nodes[from].tapped || f->nodes[to->node].tapped)
        f->tap(from, p->port, to->node, to->port, p->data, p->length, f->now);
}

static void poll(xf_fabric *f, uint32_t number) {
    node *n = &f->nodes[number];
    xf_list out = {NULL, NULL};
    xf_packet *p;
    f->polls++;
    switch (n->kind) {
    case ENGINE:
        engine_poll(n->self, f->now, &out);
        look_for_reports(f, n->self);
        break;
    case NATIVE: n->type->poll(n->self, f->now, &out); break;
    case FOREIGN:
        f->entered = 1;
        f->foreign.poll(number, f->now);
        out = f->sent;
        f->sent.head = f->sent.tail = NULL;
        break;
    case GONE: return;
    }
    while ((p = list_pop(&out))) {
        n = &f->nodes[number];
        if (p->port < n->port_count && n->peers[p->port].node != UINT32_MAX) {
            if (f->tap) tell(f, number, &n->peers[p->port], p);
            deliver(f, n->peers[p->port].node, n->peers[p->port].port, p);
        } else {
            packet_free(p);
        }
    }
    fabric_reschedule(f, number);
}

int fabric_run(xf_fabric *f, uint64_t until, int ask) {
    int result = XF_IDLE, breath = BREATH, reports = ask & XF_ASK_REPORTS;
    ask &= ~XF_ASK_REPORTS;
    atomic_put(&f->interrupted, 0);
    for (;;) {
        if (!f->count || f->heap[0].due == XF_NEVER) break;
        if (f->heap[0].due > until) {
            result = XF_REACHED;
            break;
        }
        f->now = f->heap[0].due;
        f->entered = f->reported = 0;
        while (f->heap[0].due <= f->now) {
            poll(f, f->heap[0].node);
        }
        f->instants++;
        if (reports && f->reported) {
            result = XF_REPORTED;
            break;
        }
        if (atomic_peek(&f->interrupted)) {
            result = XF_INTERRUPTED;
            break;
        }
        if (ask == XF_ASK_ALWAYS || (ask == XF_ASK_ENTERED && f->entered)) {
            result = XF_ASKED;
            break;
        }
        if (!--breath) {
            pthread_mutex_unlock(&f->lock);
            breath = BREATH;
            pthread_mutex_lock(&f->lock);
        }
    }
    return result;
}

int xf_fabric_run(xf_fabric *f, uint64_t until, int ask) {
    int result;
    pthread_mutex_lock(&f->lock);
    windows_unlink(f);
    result = fabric_run(f, until, ask);
    pthread_mutex_unlock(&f->lock);
    return result;
}

void xf_fabric_interrupt(xf_fabric *f) { atomic_put(&f->interrupted, 1); }

void xf_fabric_entered(xf_fabric *f) { f->entered = 1; }

void xf_fabric_send(xf_fabric *f, uint32_t port, const uint8_t *frame, uint32_t length) {
    xf_packet *p = length <= XF_MAX_FRAME ? packet_new(xf_fabric_pool(f), length) : NULL;
    if (!p) return;
    memcpy(p->data, frame, length);
    p->port = port;
    list_push(&f->sent, p);
}

void xf_fabric_touch(xf_fabric *f, uint32_t number) {
    pthread_mutex_lock(&f->lock);
    if (number < f->count) fabric_reschedule(f, number);
    pthread_mutex_unlock(&f->lock);
}

void xf_fabric_touch_all(xf_fabric *f) {
    uint32_t i;
    pthread_mutex_lock(&f->lock);
    for (i = 0; i < f->count; i++) fabric_reschedule(f, i);
    pthread_mutex_unlock(&f->lock);
}

void xf_fabric_advance(xf_fabric *f, uint64_t now) {
    pthread_mutex_lock(&f->lock);
    if (now > f->now) f->now = now;
    pthread_mutex_unlock(&f->lock);
}

/* ---- building ---- */

xf_fabric *xf_fabric_new(const xf_foreign *foreign) {
    xf_fabric *f = calloc(1, sizeof *f);
    uint64_t attributes[4] = {0};
    if (!f) return NULL;
    f->foreign = *foreign;
    pthread_mutexattr_init(attributes);
    pthread_mutexattr_settype(attributes, RECURSIVE);
    pthread_mutex_init(&f->lock, attributes);
    pthread_mutexattr_destroy(attributes);
    if (!fabric_pool_for(f, DEFAULT_HEADER_BYTES)) {
        free(f);
        return NULL;
    }
    return f;
}

xf_pool *fabric_pool_for(xf_fabric *f, uint32_t header_bytes) {
    uint32_t i;
    for (i = 0; i < f->pool_count; i++)
        if (pool_headroom(f->pools[i]) >= header_bytes) return f->pools[i];
    if (f->pool_count == POOLS) return NULL;
    f->pools[f->pool_count] = pool_new(header_bytes);
    return f->pools[f->pool_count] ? f->pools[f->pool_count++] : NULL;
}

xf_pool *xf_fabric_pool(xf_fabric *f) { return f->pools[0]; }

xf_phvs *fabric_phvs_for(xf_fabric *f, uint32_t bytes) {
    uint32_t i;
    for (i = 0; i < f->phvs_count; i++)
        if (phvs_room(f->phvs[i]) >= bytes) return f->phvs[i];
    if (f->phvs_count == POOLS) return NULL;
    f->phvs[f->phvs_count] = phvs_new(bytes);
    return f->phvs[f->phvs_count] ? f->phvs[f->phvs_count++] : NULL;
}

void fabric_changed(xf_fabric *f) { f->stale = 1; }

static int add(xf_fabric *f, enum kind kind, const xf_node_type *type, void *self) {
    uint32_t number = f->count;
    windows_unlink(f);
    if (f->count == f->room) {
        uint32_t room = f->room ? 2 * f->room : 64;
        node *nodes = realloc(f->nodes, room * sizeof *nodes);
        item *heap;
        if (!nodes) return XF_ENOMEM;
        f->nodes = nodes;
        heap = realloc(f->heap, room * sizeof *heap);
        if (!heap) return XF_ENOMEM;
        f->heap = heap;
        f->room = room;
    }
    memset(&f->nodes[number], 0, sizeof f->nodes[number]);
    f->nodes[number].kind = kind;
    f->nodes[number].type = type;
    f->nodes[number].self = self;
    f->count++;
    f->heap[number].due = XF_NEVER; /* last of all: of equals the highest number */
    f->heap[number].node = number;
    f->nodes[number].place = number;
    return (int)number;
}

int xf_fabric_add_engine(xf_fabric *f, xf_engine *e) {
    xf_pool *pool = NULL;
    xf_phvs *phvs = NULL;
    int number;
    pthread_mutex_lock(&f->lock);
    engine_lock(e);
    if (e->fabric) number = XF_EEXIST;
    else if (!(pool = fabric_pool_for(f, e->program ? e->program->header_bytes : 0))) number = XF_EFULL;
    else if (e->program && !(phvs = fabric_phvs_for(f, e->program->phv_size))) number = XF_EFULL;
    else number = add(f, ENGINE, NULL, e);
    if (number >= 0) {
        pool_retire(e->pool);
        phvs_retire(e->phvs);
        e->pool = pool;
        e->phvs = phvs;
        e->fabric = f;
        e->node = (uint32_t)number;
        atomic_set(&e->lock, &f->lock); /* who waits for the engine's own lock goes on to this one */
        pthread_mutex_unlock(&e->mutex);
    } else {
        engine_unlock(e);
    }
    pthread_mutex_unlock(&f->lock);
    return number;
}

int xf_fabric_add_node(xf_fabric *f, const xf_node_type *type, void *self) {
    int number;
    pthread_mutex_lock(&f->lock);
    number = add(f, NATIVE, type, self);
    pthread_mutex_unlock(&f->lock);
    return number;
}

int xf_fabric_add_foreign(xf_fabric *f) {
    int number;
    pthread_mutex_lock(&f->lock);
    number = add(f, FOREIGN, NULL, NULL);
    pthread_mutex_unlock(&f->lock);
    return number;
}

static int connect_end(xf_fabric *f, uint32_t from, uint32_t port, uint32_t to, uint32_t to_port) {
    node *n = &f->nodes[from];
    if (port >= n->port_count) {
        peer *peers = realloc(n->peers, (port + 1) * sizeof *peers);
        if (!peers) return XF_ENOMEM;
        n->peers = peers;
        for (; n->port_count <= port; n->port_count++) {
            n->peers[n->port_count].node = UINT32_MAX;
            n->peers[n->port_count].flight = NULL;
        }
    }
    n->peers[port].node = to;
    n->peers[port].port = to_port;
    return 0;
}

int xf_fabric_connect(xf_fabric *f, uint32_t a, uint32_t a_port, uint32_t b, uint32_t b_port) {
    int rc = 0;
    pthread_mutex_lock(&f->lock);
    if (a >= f->count || b >= f->count || a_port >= XF_MAX_PORTS || b_port >= XF_MAX_PORTS) rc = XF_EINVAL;
    windows_unlink(f);
    if (!rc) rc = connect_end(f, a, a_port, b, b_port);
    if (!rc) rc = connect_end(f, b, b_port, a, a_port);
    pthread_mutex_unlock(&f->lock);
    return rc;
}

int xf_fabric_tap(xf_fabric *f, uint32_t number, xf_tap tap) {
    int known;
    pthread_mutex_lock(&f->lock);
    windows_unlink(f);
    known = number < f->count;
    if (known) {
        f->nodes[number].tapped = 1;
        f->tap = tap;
    }
    pthread_mutex_unlock(&f->lock);
    return known ? 0 : XF_EINVAL;
}

void xf_fabric_read(xf_fabric *f, xf_fabric_stats *out) {
    uint32_t i;
    pthread_mutex_lock(&f->lock);
    out->now = f->now;
    out->traversals = f->traversals;
    out->polls = f->polls;
    out->instants = f->instants;
    out->frame_bytes = 0;
    for (i = 0; i < f->pool_count; i++) out->frame_bytes += pool_bytes(f->pools[i]);
    pthread_mutex_unlock(&f->lock);
}

/* ---- the end ---- */

void fabric_leave(xf_engine *e) {
    xf_fabric *f = e->fabric;
    pthread_mutex_lock(&f->lock);
    windows_unlink(f);
    f->nodes[e->node].kind = GONE;
    f->nodes[e->node].self = NULL;
    e->fabric = NULL;
    e->pool = e->program ? pool_new(e->program->header_bytes) : NULL;
    e->phvs = e->program ? phvs_new(e->program->phv_size) : NULL;
    atomic_set(&e->lock, &e->mutex);
    pthread_mutex_unlock(&f->lock);
}

void xf_fabric_free(xf_fabric *f) {
    uint32_t i;
    if (!f) return;
    windows_unlink(f);
    for (i = 0; i < f->count; i++) {
        if (f->nodes[i].kind == ENGINE) fabric_leave(f->nodes[i].self);
        free(f->nodes[i].peers);
    }
    for (i = 0; i < f->pool_count; i++) pool_retire(f->pools[i]);
    for (i = 0; i < f->phvs_count; i++) phvs_retire(f->phvs[i]);
    windows_free(f);
    free(f->nodes);
    free(f->heap);
    free(f);
}
