/* A fabric: engines and other nodes joined by links in one process, driven by one event queue.
 *
 * It is `xoff/clocks/virtual.py` in C, to the order of simultaneous events: each node's next deadline is queued, the
 * earliest is polled at exactly that time (of equals the node that was added first), and what it hands out arrives at
 * the same instant at the far end. Frames change hands without being copied. */
#ifndef XF_FABRIC_H
#define XF_FABRIC_H

#include "engine.h"

typedef struct xf_fabric xf_fabric;

/* What a node in C can do; see docs/architecture.md. */
typedef struct xf_node_type {
    void (*rx)(void *node, uint32_t port, xf_packet *p, uint64_t now); /* takes the packet */
    /* Adds the frames that have reached the far end by `now`, with `port` set; the caller takes them. */
    void (*poll)(void *node, uint64_t now, xf_list *out);
    uint64_t (*deadline)(void *node); /* XF_NEVER: nothing is pending */
    /* For windows (windows.c); NULL: this node can have none. With `next` the node leaves its frames in the list that is
     * returned, with `arrives` set, makes *next not later than that, and says how long its link delays them at least;
     * it goes on polling at those times. With NULL it hands them out by `poll` again. */
    xf_list *(*link)(void *node, uint64_t *next, uint64_t *delay);
    void (*begin)(void *node); /* frames that had arrived when it was polled last may be gone */
} xf_node_type;

/* What a fabric calls for nodes outside of C, by their number. `poll` calls xf_fabric_send for each frame. */
typedef struct xf_foreign {
    void (*rx)(uint32_t node, uint32_t port, const uint8_t *frame, uint32_t length, uint64_t now);
    void (*poll)(uint32_t node, uint64_t now);
    uint64_t (*deadline)(uint32_t node);
} xf_foreign;

/* Sees a frame as its last bit arrives; it changes nothing. */
typedef void (*xf_tap)(uint32_t from, uint32_t from_port, uint32_t to, uint32_t to_port, const uint8_t *frame,
                       uint32_t length, uint64_t now);

enum xf_fabric_result {
    XF_IDLE,        /* nothing is pending */
    XF_REACHED,     /* what is next lies after `until` */
    XF_INTERRUPTED, /* xf_fabric_interrupt was called: at the end of the instant in which it was */
    XF_ASKED,       /* an instant is over (see `ask`) */
    XF_REPORTED,    /* likewise, and an engine has something to tell a controller (see XF_ASK_REPORTS) */
};

/* When xf_fabric_run returns between instants. */
enum xf_fabric_ask {
    XF_ASK_NEVER,
    XF_ASK_ENTERED, /* after an instant in which code outside of C ran */
    XF_ASK_ALWAYS,  /* after every instant */
    /* Added to one of these: also after an instant in which an engine that took part has something for a controller
     * (a frame for the CPU port, a digest, an idle entry) that nobody has taken. */
    XF_ASK_REPORTS = 4,
};

typedef struct xf_fabric_stats {
    uint64_t now, traversals, polls, instants, frame_bytes; /* frame_bytes: memory of all pools */
} xf_fabric_stats;

xf_fabric *xf_fabric_new(const xf_foreign *foreign);
/* Its nodes stay: engines go on with pools and locks of their own. No other thread may be at them meanwhile. */
void xf_fabric_free(xf_fabric *f);
/* Each returns the node's number, counted from 0, or a negative XF_E*. An engine joins one fabric at most. */
int xf_fabric_add_engine(xf_fabric *f, xf_engine *e);
int xf_fabric_add_node(xf_fabric *f, const xf_node_type *type, void *node);
int xf_fabric_add_foreign(xf_fabric *f);
int xf_fabric_connect(xf_fabric *f, uint32_t a, uint32_t a_port, uint32_t b, uint32_t b_port);
int xf_fabric_tap(xf_fabric *f, uint32_t node, xf_tap tap); /* frames of this node's links too; one tap a fabric */

/* Runs every instant up to `until`, inclusive. Control threads get at the engines between instants. */
int xf_fabric_run(xf_fabric *f, uint64_t until, int ask);
/* The same in windows where the fabric allows them: each node sees the same events in the same order, but one node may be
 * ahead of another by the shortest link's delay, which code outside of C that is called meanwhile must not mind. An
 * interrupted run ends with the window. */
int xf_fabric_run_ahead(xf_fabric *f, uint64_t until);
/* From inside a run: return after this instant. */
void xf_fabric_interrupt(xf_fabric *f);
/* Code outside of C runs, see XF_ASK_ENTERED; foreign nodes do this by themselves. */
void xf_fabric_entered(xf_fabric *f);
void xf_fabric_send(xf_fabric *f, uint32_t port, const uint8_t *frame, uint32_t length);
/* Look at a node's deadline again, or at all of them. */
void xf_fabric_touch(xf_fabric *f, uint32_t node);
void xf_fabric_touch_all(xf_fabric *f);
/* Time moves on without an event. */
void xf_fabric_advance(xf_fabric *f, uint64_t now);
void xf_fabric_read(xf_fabric *f, xf_fabric_stats *out);
/* The pool of frames that nodes in C take theirs from; engines adopt those. */
xf_pool *xf_fabric_pool(xf_fabric *f);

/* For engines. */
xf_pool *fabric_pool_for(xf_fabric *f, uint32_t header_bytes);
xf_phvs *fabric_phvs_for(xf_fabric *f, uint32_t bytes);
void fabric_changed(xf_fabric *f); /* ports or their delays */
void fabric_leave(xf_engine *e);

#endif
