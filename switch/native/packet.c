/* Packets: fixed-size blocks from pools, so that the packet path never calls malloc once it is warm.
 *
 * A block is the packet's header, room for headers to grow into, and the frame, in a few sizes. A pool is one thread's
 * (its owner's lock guards it); an owner that gives it up retires it, and frames still in flight keep it alive until
 * they come back. PHVs are taken last in, first out. */
#include "packet.h"
#include "memory.h"

#define SIZES 4
#define SLAB_HEAD 64u
#define SLAB_BYTES (512u * 1024u)
#define TELEMETRY_ROOM 512u /* what headers may have grown by on the way here */

static const uint32_t capacities[SIZES] = {256, 1280, 4352, XF_MAX_FRAME};

typedef struct slab {
    struct slab *next;
    size_t size;
} slab;

struct xf_pool {
    uint32_t room;
    uint64_t live, bytes;
    int retired;
    slab *slabs;
    xf_packet *free[SIZES];
};

struct xf_phvs {
    uint32_t size;
    int retired;
    uint64_t live;
    slab *slabs;
    void *free; /* each begins with the address of the next */
};

static uint32_t align16(uint32_t n) { return (n + 15u) & ~15u; }

xf_pool *pool_new(uint32_t header_bytes) {
    xf_pool *pool = calloc(1, sizeof *pool);
    if (pool) pool->room = align16(header_bytes) + TELEMETRY_ROOM;
    return pool;
}

static void slabs_free(slab *s) {
    slab *next;
    for (; s; s = next) {
        next = s->next;
        memory_give(s, s->size);
    }
}

static void pool_free(xf_pool *pool) {
    slabs_free(pool->slabs);
    free(pool);
}

void pool_retire(xf_pool *pool) {
    if (!pool) return;
    pool->retired = 1;
    if (!pool->live) pool_free(pool);
}

static uint8_t *slab_new(slab **list, uint32_t block, uint32_t *count) {
    slab *s;
    *count = SLAB_BYTES / block < 4 ? 4 : SLAB_BYTES / block;
    s = memory_take_dirty(SLAB_HEAD + (size_t)block * *count);
    if (!s) return NULL;
    s->size = SLAB_HEAD + (size_t)block * *count;
    s->next = *list;
    *list = s;
    return (uint8_t *)s + SLAB_HEAD;
}

static int pool_grow(xf_pool *pool, uint32_t size) {
    /* An odd number of cache lines, so that the blocks' headers do not all fall into the same sets. */
    uint32_t block = ((uint32_t)sizeof(xf_packet) + pool->room + capacities[size] + 63u) & ~63u, count;
    uint8_t *at;
    if (!(block & 64u)) block += 64u;
    at = slab_new(&pool->slabs, block, &count);
    if (!at) return 0;
    pool->bytes += (uint64_t)block * count;
    /* The first block is the first to be used. */
    for (at += (size_t)block * count; count--;) {
        xf_packet *p = (xf_packet *)(at -= block);
        p->pool = pool;
        p->phv = NULL;
        p->stamp = NULL;
        p->size = size;
        p->next = pool->free[size];
        pool->free[size] = p;
    }
    return 1;
}

#ifdef XF_SANITIZE
/* Every packet and PHV is a block of its own and no longer than it must be, so that a sanitizer sees its bounds. */
static xf_packet *block_take(xf_pool *pool, uint32_t frame_length) {
    xf_packet *p = malloc(sizeof *p + pool->room + frame_length);
    if (!p) return NULL;
    p->pool = pool;
    p->phv = NULL;
    p->stamp = NULL;
    return p;
}
static void block_give(xf_packet *p) { free(p); }
static void *phv_take(xf_phvs *phvs) { return malloc(phvs->size); }
static void phv_give(xf_phvs *phvs, void *phv) {
    (void)phvs;
    free(phv);
}
#else
static xf_packet *block_take(xf_pool *pool, uint32_t frame_length) {
    uint32_t size = 0;
    xf_packet *p;
    while (frame_length > capacities[size]) size++;
    if (!pool->free[size] && !pool_grow(pool, size)) return NULL;
    p = pool->free[size];
    pool->free[size] = p->next;
    return p;
}
static void block_give(xf_packet *p) {
    p->next = p->pool->free[p->size];
    p->pool->free[p->size] = p;
}
static void *phv_take(xf_phvs *phvs) {
    void *phv;
    if (!phvs->free) {
        uint32_t count;
        uint8_t *at = slab_new(&phvs->slabs, phvs->size, &count);
        if (!at) return NULL;
        for (at += (size_t)phvs->size * count; count--;) {
            at -= phvs->size;
            *(void **)at = phvs->free;
            phvs->free = at;
        }
    }
    phv = phvs->free;
    phvs->free = *(void **)phv;
    return phv;
}
static void phv_give(xf_phvs *phvs, void *phv) {
    *(void **)phv = phvs->free;
    phvs->free = phv;
}
#endif

xf_packet *packet_new(xf_pool *pool, uint32_t frame_length) {
    xf_packet *p = packet_new_stamped(pool, frame_length);
    if (p) p->stamp = NULL;
    return p;
}

xf_packet *packet_new_stamped(xf_pool *pool, uint32_t frame_length) {
    xf_packet *p;
    if (!pool) return NULL;
    p = block_take(pool, frame_length);
    if (!p) return NULL;
    pool->live++;
    p->next = NULL;
    p->data = (uint8_t *)(p + 1) + pool->room;
    p->length = frame_length;
    packet_reset(p);
    return p;
}

void packet_free(xf_packet *p) {
    xf_pool *pool = p->pool;
    packet_close(p);
    block_give(p);
    pool->live--;
    if (pool->retired && !pool->live) pool_free(pool);
}

void list_free(xf_list *l) {
    xf_packet *p;
    while ((p = list_pop(l))) packet_free(p);
}

uint64_t pool_bytes(const xf_pool *pool) { return pool->bytes; }

uint32_t pool_headroom(const xf_pool *pool) { return pool->room; }

xf_phvs *phvs_new(uint32_t phv_size) {
    xf_phvs *phvs = calloc(1, sizeof *phvs);
    if (phvs) phvs->size = align16(phv_size < sizeof(void *) ? sizeof(void *) : phv_size);
    return phvs;
}

static void phvs_free(xf_phvs *phvs) {
    slabs_free(phvs->slabs);
    free(phvs);
}

void phvs_retire(xf_phvs *phvs) {
    if (!phvs) return;
    phvs->retired = 1;
    if (!phvs->live) phvs_free(phvs);
}

uint32_t phvs_room(const xf_phvs *phvs) { return phvs->size; }

int packet_open(xf_packet *p, xf_phvs *phvs) {
    p->phv = phv_take(phvs);
    p->phvs = phvs;
    if (!p->phv) return 0;
    phvs->live++;
    return 1;
}

void packet_close(xf_packet *p) {
    xf_phvs *phvs = p->phvs;
    if (!p->phv) return;
    phv_give(phvs, p->phv);
    p->phv = NULL;
    phvs->live--;
    if (phvs->retired && !phvs->live) phvs_free(phvs);
}
