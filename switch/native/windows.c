/* Windows: a node at a time runs through a stretch of simulated time, to the same end as instant by instant.
 *
 * Theory. A frame that starts at s arrives at s plus its link's delay or later. So what arrives at a switch within a
 * window as wide as the shortest delay has started before the window, and the switch can run through all of it before
 * any other does: its state comes into the processor's caches once for many packets, not once for each. A window
 * is: collect what arrives at the node from the ends of its links, in the order below; play that and its own events in
 * time order; what it sends stays on its links, for windows to come.
 *
 * NICs put off the work of a transmission until a frame that is in flight arrives, and what they send then may arrive
 * in the same window: they play before the switches, and a fabric in which two NICs are joined has no windows.
 *
 * Order at one instant. Instant by instant (fabric.c), of the nodes that are due the one with the lowest number is
 * polled first; what it hands out is delivered at once. Seen from one node, that is: frames come in the order of their
 * senders' numbers, those of one sender in the order of time and port; its own events come before the frames of a
 * sender whose number is not lower than its own.
 *
 * Linked, the ports of engines and the NICs do not hand out frames; each frame's arrival is noted in `next` of the node
 * at the far end, so that nodes for which a window has nothing are passed over. */
#include "fabric_nodes.h"

#define NARROWEST 50u /* ns: below, instants are as good */
#define BREATH 16     /* windows between two chances for control threads */

/* ---- links ---- */

static const peer *far_end(const xf_fabric *f, uint32_t number, uint32_t port) {
    const peer *p = port < f->nodes[number].port_count ? &f->nodes[number].peers[port] : NULL;
    return p && p->node != UINT32_MAX && f->nodes[p->node].kind != GONE ? p : NULL;
}

static void arrive_by_event(xf_engine *e, xf_port *p, int yes) {
    events_set(&e->events, EV_ID(EV_ARRIVE, p->number), yes && p->flight.head ? p->flight.head->time : XF_NEVER);
}

/* Room for what windows need; 0 without memory. */
static int prepare(xf_fabric *f) {
    uint64_t *more = realloc(f->next, f->room * sizeof *more);
    uint32_t i;
    if (!more) return 0;
    f->next = more;
    more = realloc(f->seen, f->room * sizeof *more);
    if (!more) return 0;
    f->seen = more;
    if (!f->linked) {
        for (i = 0; i < f->count; i++) f->seen[i] = 0;
    }
    for (i = 0; i < f->count; i++) f->next[i] = XF_NEVER;
    return 1;
}

/* The sending side of a link to `to`; its delay, or 0 if there are no windows over it. */
static uint64_t link_end(xf_fabric *f, uint32_t number, uint32_t port, const peer *to) {
    node *n = &f->nodes[number], *far = &f->nodes[to->node];
    peer *back = &far->peers[to->port];
    uint64_t delay = 0;
    back->flight = NULL;
    if (n->kind == ENGINE) {
        xf_engine *e = n->self;
        xf_port *p = e->ports[port];
        if (!p) return UINT64_MAX;
        if (!p->next) arrive_by_event(e, p, 0);
        p->next = &f->next[to->node];
        back->flight = &p->flight;
        delay = p->exists ? p->delay_ns : UINT64_MAX; /* of a port that was removed only what it sent before is left */
    } else if (n->kind == NATIVE && far->kind == ENGINE && n->type->link && port == 0) {
        back->flight = n->type->link(n->self, &f->next[to->node], &delay);
    }
    if (back->flight && back->flight->head && back->flight->head->arrives < f->next[to->node])
        f->next[to->node] = back->flight->head->arrives;
    return delay;
}

void windows_unlink(xf_fabric *f) {
    uint32_t i, port;
    uint64_t delay;
    if (!f->linked) return;
    f->linked = 0;
    for (i = 0; i < f->count; i++) {
        node *n = &f->nodes[i];
        for (port = 0; port < n->port_count; port++) n->peers[port].flight = NULL;
        if (n->kind == ENGINE) {
            xf_engine *e = n->self;
            for (port = 0; port < XF_MAX_PORTS; port++) {
                xf_port *p = e->ports[port];
                if (!p || !p->next) continue;
                p->next = NULL;
                arrive_by_event(e, p, 1);
            }
        } else if (n->kind == NATIVE && n->type->link) {
            n->type->link(n->self, NULL, &delay);
        }
    }
    for (i = 0; i < f->count; i++) fabric_reschedule(f, i);
}

/* Sets `width`. */
static void link_all(xf_fabric *f) {
    uint32_t i, port;
    uint64_t width = UINT64_MAX;
    f->stale = 0;
    f->width = 0;
    for (i = 0; i < f->count; i++)
        if (f->nodes[i].kind == FOREIGN) return;
    if (f->tap || !prepare(f)) return;
    f->linked = 1;
    for (i = 0; i < f->count; i++) {
        if (f->nodes[i].kind == GONE) continue;
        for (port = 0; port < f->nodes[i].port_count; port++) {
            const peer *to = far_end(f, i, port);
            uint64_t delay = to ? link_end(f, i, port, to) : UINT64_MAX;
            if (delay < width) width = delay;
        }
    }
    f->width = width < NARROWEST ? 0 : width > XF_NEVER / 4 ? XF_NEVER / 4 : width;
}

/* ---- a window of one node ---- */

static int room_for(arrivals *a) {
    uint32_t room = a->room ? 2 * a->room : 256;
    arrival *more = realloc(a->at, room * sizeof *more);
    if (!more) return 0;
    a->at = more;
    more = realloc(a->spare, room * sizeof *more);
    if (!more) return 0;
    a->spare = more;
    a->room = room;
    return 1;
}

static int run_begins(arrivals *a) {
    if (a->run_count + 1 >= a->run_room) {
        uint32_t room = a->run_room ? 2 * a->run_room : 64, *more = realloc(a->runs, room * sizeof *more);
        if (!more) return 0;
        a->runs = more;
        a->run_room = room;
    }
    a->runs[a->run_count++] = a->count;
    return 1;
}

static int sooner(const arrival *a, const arrival *b) {
    if (a->time != b->time) return a->time < b->time;
    if (a->from != b->from) return a->from < b->from;
    if (a->order != b->order) return a->order < b->order;
    return a->from_port < b->from_port;
}

/* Merges neighbouring runs until one is left. */
static void sort(arrivals *a) {
    while (a->run_count > 1) {
        uint32_t run, out = 0, runs = 0;
        arrival *swap;
        a->runs[a->run_count] = a->count;
        for (run = 0; run < a->run_count; run += 2) {
            uint32_t i = a->runs[run], middle = a->runs[run + 1];
            uint32_t j = middle, end = run + 1 < a->run_count ? a->runs[run + 2] : middle;
            a->runs[runs++] = out;
            while (i < middle && j < end) a->spare[out++] = sooner(&a->at[j], &a->at[i]) ? a->at[j++] : a->at[i++];
            while (i < middle) a->spare[out++] = a->at[i++];
            while (j < end) a->spare[out++] = a->at[j++];
        }
        a->run_count = runs;
        swap = a->at;
        a->at = a->spare;
        a->spare = swap;
    }
}

/* What arrives at the node before `end`, sorted; returns when what is left arrives. */
static uint64_t collect(xf_fabric *f, const node *n, uint64_t end) {
    arrivals *a = &f->arrivals;
    uint64_t rest = XF_NEVER;
    uint32_t port;
    a->count = a->run_count = 0;
    for (port = 0; port < n->port_count; port++) {
        const peer *from = &n->peers[port];
        xf_packet *p;
        if (!from->flight || !(p = from->flight->head)) continue;
        if (p->arrives < end && run_begins(a)) {
            do {
                arrival *item;
                if (a->count == a->room && !room_for(a)) break;
                item = &a->at[a->count++];
                item->time = p->arrives;
                item->order = p->time;
                item->packet = p;
                item->from = from->node;
                item->from_port = from->port;
                item->port = port;
                list_pop(from->flight);
                if (p->arrives > f->seen[from->node]) f->seen[from->node] = p->arrives;
                p = from->flight->head;
            } while (p && p->arrives < end);
        }
        if (p && p->arrives < rest) rest = p->arrives;
    }
    sort(a);
    return rest;
}

/* ---- playing ---- */

static void poll(xf_fabric *f, const node *n, uint64_t now) {
    xf_list out = {NULL, NULL};
    f->polls++;
    if (n->kind == ENGINE) engine_poll(n->self, now, &out);
    else n->type->poll(n->self, now, &out);
    list_free(&out); /* of ports that lead nowhere */
}

static void play(xf_fabric *f, uint32_t number, uint64_t end) {
    node *n = &f->nodes[number];
    uint64_t rest, last = 0, due;
    uint32_t last_from = UINT32_MAX, i = 0, count;
    const arrival *a;
    if (n->kind == NATIVE) n->type->begin(n->self);
    rest = collect(f, n, end);
    a = f->arrivals.at;
    count = f->arrivals.count;
    for (;;) {
        due = fabric_deadline(f, number);
        if (due < f->now) due = f->now;
        if (i < count && (due > a[i].time || (due == a[i].time && (number > a[i].from ||
                                              (last == a[i].time && last_from == a[i].from))))) {
            if (i + 2 < count) XF_PREFETCH(a[i + 2].packet->data);
            last = a[i].time;
            last_from = a[i].from;
            f->traversals++;
            if (n->kind == ENGINE) engine_rx(n->self, a[i].port, a[i].packet, last);
            else n->type->rx(n->self, a[i].port, a[i].packet, last);
            i++;
        } else if (due < end) {
            last = due;
            last_from = UINT32_MAX;
            poll(f, n, due);
        } else {
            break;
        }
    }
    if (last > f->reached) f->reached = last;
    f->next[number] = due < rest ? due : rest;
}

/* ---- all of it ---- */

static uint64_t soonest(const xf_fabric *f) {
    uint64_t least = XF_NEVER;
    uint32_t i;
    for (i = 0; i < f->count; i++)
        if (f->next[i] < least) least = f->next[i];
    return least;
}

static void play_all(xf_fabric *f, enum kind kind, uint64_t end) {
    uint32_t i;
    for (i = 0; i < f->count; i++)
        if (f->next[i] < end && f->nodes[i].kind == kind) play(f, i, end);
}

/* Deadlines as they are now; 1 when a node has something to catch up with, which is done instant by instant. */
static int look(xf_fabric *f) {
    int late = 0;
    uint32_t i;
    for (i = 0; i < f->count; i++) {
        uint64_t due;
        if (f->nodes[i].kind == GONE) continue;
        due = fabric_deadline(f, i);
        if (f->nodes[i].kind == ENGINE && (due < f->now || ((xf_engine *)f->nodes[i].self)->out.head)) late = 1;
        if (due < f->next[i]) f->next[i] = due;
    }
    return late;
}

/* Nodes know the time up to which they were polled: instant by instant, until their last frame had arrived. */
static void settle(xf_fabric *f) {
    uint32_t i;
    for (i = 0; i < f->count; i++)
        if (f->nodes[i].kind == ENGINE) engine_reach(f->nodes[i].self, f->seen[i]);
}

static int run(xf_fabric *f, uint64_t until) {
    int breath = BREATH;
    for (;;) {
        uint64_t from = soonest(f), end;
        if (from == XF_NEVER) return XF_IDLE;
        if (from > until) return XF_REACHED;
        end = until - from < f->width ? until + 1 : from + f->width;
        play_all(f, NATIVE, end);
        play_all(f, ENGINE, end);
        f->instants++;
        if (atomic_peek(&f->interrupted)) return XF_INTERRUPTED;
        if (!--breath) {
            pthread_mutex_unlock(&f->lock);
            breath = BREATH;
            pthread_mutex_lock(&f->lock);
        }
    }
}

int xf_fabric_run_ahead(xf_fabric *f, uint64_t until) {
    int result;
    pthread_mutex_lock(&f->lock);
    atomic_put(&f->interrupted, 0);
    if (!f->linked || f->stale) link_all(f);
    if (f->width && look(f)) {
        windows_unlink(f);
        fabric_run(f, f->now < until ? f->now : until, XF_ASK_NEVER);
        link_all(f);
        look(f);
    }
    if (f->width && !atomic_peek(&f->interrupted)) {
        f->reached = f->now;
        result = run(f, until);
        f->now = f->reached;
        settle(f);
    } else {
        windows_unlink(f);
        result = atomic_peek(&f->interrupted) ? XF_INTERRUPTED : fabric_run(f, until, XF_ASK_NEVER);
    }
    pthread_mutex_unlock(&f->lock);
    return result;
}

void windows_free(xf_fabric *f) {
    free(f->next);
    free(f->seen);
    free(f->arrivals.at);
    free(f->arrivals.spare);
    free(f->arrivals.runs);
}
