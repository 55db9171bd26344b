/* Inside a fabric: its nodes and links, and what its two ways to run (fabric.c, windows.c) offer each other. */
#ifndef XF_FABRIC_NODES_H
#define XF_FABRIC_NODES_H

#include "fabric.h"

#define POOLS 4

enum kind { ENGINE, NATIVE, FOREIGN, GONE };

typedef struct peer {
    uint32_t node, port; /* node UINT32_MAX: no link */
    xf_list *flight;     /* what is on its way here; set while the fabric is linked (windows.c) */
} peer;

typedef struct node {
    enum kind kind;
    void *self;
    const xf_node_type *type;
    uint32_t place, port_count; /* in the heap */
    int tapped;
    peer *peers;
} node;

typedef struct item {
    uint64_t due;
    uint32_t node;
} item;

/* A frame that reaches a node in the window that is being played. */
typedef struct arrival {
    uint64_t time; /* ns */
    xf_ps order;   /* between frames of one sender at one time */
    xf_packet *packet;
    uint32_t from, from_port, port;
} arrival;

typedef struct arrivals {
    arrival *at, *spare; /* of `room` each */
    uint32_t *runs;      /* where each link's begin */
    uint32_t count, room, run_count, run_room;
} arrivals;

struct xf_fabric {
    xf_mutex lock;
    xf_foreign foreign;
    xf_tap tap;
    uint64_t now, traversals, polls, instants;
    int interrupted; /* atomic */
    int entered, reported;
    uint32_t count, room;
    node *nodes;
    item *heap;
    xf_list sent; /* by the foreign node that is being polled */
    xf_pool *pools[POOLS];
    uint32_t pool_count;
    xf_phvs *phvs[POOLS];
    uint32_t phvs_count;
    /* windows.c; `next` and `seen` have `room` elements */
    int linked, stale;  /* links lead to `flight`s; some have changed since */
    uint64_t width;     /* of a window, ns; 0: no windows in this fabric */
    uint64_t reached;   /* the last instant in which something happened */
    uint64_t *next;     /* by node: not later than its next event */
    uint64_t *seen;     /* by node: when a frame of it arrived last */
    arrivals arrivals;
};

/* fabric.c */
int fabric_run(xf_fabric *f, uint64_t until, int ask); /* instant by instant; under the lock */
void fabric_reschedule(xf_fabric *f, uint32_t number);
uint64_t fabric_deadline(const xf_fabric *f, uint32_t number); /* of its own events */

/* windows.c */
void windows_unlink(xf_fabric *f);
void windows_free(xf_fabric *f);

#endif
