/* Packets: fixed-size blocks from pools, so that the packet path never calls malloc once it is warm.
 *
 * A block is the packet's header, its PHV, room for headers to grow into, and the frame. Two sizes: most frames fit the
 * small one. A pool belongs to one program (it fixes the PHV's size); after a program swap frames still in flight
 * keep the old pool alive until they come back. */
#include "engine.h"

#define SMALL_FRAME 2048u
#define SLAB_BYTES (256u * 1024u)

typedef struct slab {
    struct slab *next;
} slab;

struct xf_pool {
    uint32_t phv_size, room;
    uint64_t live;
    int retired;
    slab *slabs;
    xf_packet *free[2];
};

static uint32_t align16(uint32_t n) { return (n + 15u) & ~15u; }

xf_pool *pool_new(uint32_t phv_size, uint32_t header_bytes) {
    xf_pool *pool = calloc(1, sizeof *pool);
    if (pool) {
        pool->phv_size = align16(phv_size);
        pool->room = align16(header_bytes);
    }
    return pool;
}

static void pool_free(xf_pool *pool) {
    slab *s, *next;
    for (s = pool->slabs; s; s = next) {
        next = s->next;
        free(s);
    }
    free(pool);
}

void pool_retire(xf_pool *pool) {
    if (!pool) return;
    pool->retired = 1;
    if (!pool->live) pool_free(pool);
}

static int pool_grow(xf_pool *pool, int large) {
    uint32_t capacity = large ? XF_MAX_FRAME : SMALL_FRAME;
    uint32_t head = align16(sizeof(xf_packet));
    uint32_t block = head + pool->phv_size + pool->room + capacity;
    uint32_t count = SLAB_BYTES / block, i;
    slab *s;
    uint8_t *at;
    if (count < 4) count = 4;
    s = malloc(16 + (size_t)block * count);
    if (!s) return 0;
    s->next = pool->slabs;
    pool->slabs = s;
    at = (uint8_t *)s + 16;
    for (i = 0; i < count; i++, at += block) {
        xf_packet *p = (xf_packet *)at;
        p->pool = pool;
        p->phv = at + head;
        p->room = at + head + pool->phv_size + pool->room;
        p->capacity = capacity;
        p->next = pool->free[large];
        pool->free[large] = p;
    }
    return 1;
}

xf_packet *packet_new(xf_pool *pool, uint32_t frame_length) {
    int large = frame_length > SMALL_FRAME;
    xf_packet *p;
    if (!pool->free[large] && !pool_grow(pool, large)) return NULL;
    p = pool->free[large];
    pool->free[large] = p->next;
    pool->live++;
    p->next = NULL;
    p->data = p->room;
    p->length = frame_length;
    p->recirculate_list = 0;
    p->truncate = UINT32_MAX;
    p->passes = 0;
    p->pass_time = 0;
    p->enq_ticks = 0;
    p->enq_qdepth = 0;
    return p;
}

void packet_free(xf_packet *p) {
    xf_pool *pool = p->pool;
    int large = p->capacity > SMALL_FRAME;
    p->next = pool->free[large];
    pool->free[large] = p;
    pool->live--;
    if (pool->retired && !pool->live) pool_free(pool);
}
