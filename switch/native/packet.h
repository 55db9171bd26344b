/* A packet: its frame in a block from a pool, and while it is inside a pipeline its header vector (PHV) in another.
 *
 * The two are apart because a frame travels from engine to engine while a PHV belongs to one pass through one: PHVs
 * come back at the end of egress and are soon used again, so the few that are live stay in the processor's cache. */
#ifndef XF_PACKET_H
#define XF_PACKET_H

#include "pipeline.h"

typedef uint64_t xf_ps;
#define PS_PER_NS 1000ul
#define PS_PER_S 1000000000000ul
#define NS_PER_S 1000000000ul

typedef struct xf_pool xf_pool;
typedef struct xf_phvs xf_phvs;

typedef struct xf_packet {
    struct xf_packet *next;
    uint8_t *data; /* the frame; from ingress to the deparser the unparsed payload */
    void *phv;     /* NULL outside the pipelines */
    uint32_t length;
    uint32_t port;
    xf_ps time; /* in flight: when it arrives */
    uint32_t packet_length, ingress_length;
    union {
        uint64_t enq_ticks; /* in a switch */
        uint64_t arrives;   /* on a link: the ns of `time` */
    };
    uint32_t enq_qdepth;
    uint32_t recirculate_list;
    uint32_t truncate;
    uint32_t passes; /* times it re-entered or was cloned at instant `pass_time` */
    xf_ps pass_time;
    xf_pool *pool;
    xf_phvs *phvs; /* where `phv` came from */
    uint32_t size; /* class of its block */
    uint32_t cls;  /* traffic class of the queue that it is or was in */
    /* A promise of whoever wrote the frame, also across packet_free: the `stamp_bytes` bytes from `stamp_at` on equal
     * those at `stamp`. Whoever changes one of them takes it back (stamp = NULL). */
    uint32_t stamp_bytes;
    const uint8_t *stamp, *stamp_at;
} xf_packet;

typedef struct xf_list {
    xf_packet *head, *tail;
} xf_list;

XF_INLINE void list_push(xf_list *l, xf_packet *p) {
    p->next = NULL;
    if (l->tail) l->tail->next = p;
    else l->head = p;
    l->tail = p;
}
XF_INLINE xf_packet *list_pop(xf_list *l) {
    xf_packet *p = l->head;
    if (p) {
        l->head = p->next;
        if (!l->head) l->tail = NULL;
    }
    return p;
}

/* Frames begin so far into their block that `header_bytes` and a few hops' telemetry fit in front. */
xf_pool *pool_new(uint32_t header_bytes);
void pool_retire(xf_pool *pool); /* frees it when its last packet comes back; NULL is no pool */
xf_packet *packet_new(xf_pool *pool, uint32_t frame_length);
xf_packet *packet_new_stamped(xf_pool *pool, uint32_t frame_length); /* keeps the stamp of the block's last use */
void packet_free(xf_packet *p);
void list_free(xf_list *l); /* every packet in it */
uint64_t pool_bytes(const xf_pool *pool);     /* memory it holds */
uint32_t pool_headroom(const xf_pool *pool); /* in front of a new frame */
/* What a packet that enters an engine starts with. */
XF_INLINE void packet_reset(xf_packet *p) {
    p->recirculate_list = 0;
    p->truncate = UINT32_MAX;
    p->passes = 0;
    p->pass_time = 0;
    p->enq_ticks = 0;
    p->enq_qdepth = 0;
}
/* Bytes that headers may grow by in front of the frame. */
XF_INLINE uint32_t packet_headroom(const xf_packet *p) { return (uint32_t)(p->data - (const uint8_t *)(p + 1)); }

xf_phvs *phvs_new(uint32_t phv_size);
void phvs_retire(xf_phvs *phvs);            /* frees it when its last PHV comes back; NULL is none */
uint32_t phvs_room(const xf_phvs *phvs);    /* bytes of each */
int packet_open(xf_packet *p, xf_phvs *phvs); /* gives it a PHV; 0: out of memory */
void packet_close(xf_packet *p);            /* takes it back, if there is one */

#endif
