/* Memory for what the packet path touches, from huge pages where the system has them.
 *
 * A fabric of many engines touches a few lines in each of many arrays; on small pages that is more addresses than the
 * processor keeps translations of. Blocks are zeroed, aligned to a cache line and given back with their size; they
 * are kept by size for the next one of the same size. One lock for all engines: this is never on the packet path. */
#include "memory.h"

#define LINE 64ul
#define CHUNK (2ul << 20) /* a huge page */
#define SIZES 1024        /* kinds of block sizes that are remembered */
#define MADV_HUGEPAGE 14

int madvise(void *address, size_t length, int advice);

typedef struct block {
    struct block *next;
} block;

static xf_mutex lock;
static uint8_t *at;
static size_t left;
static struct {
    size_t size;
    block *free;
} sizes[SIZES];

static block **list_of(size_t size) {
    size_t i = size / LINE * 0x9e3779b1ul % SIZES, tries;
    for (tries = 0; tries < SIZES; tries++, i = (i + 1) % SIZES) {
        if (!sizes[i].size) sizes[i].size = size;
        if (sizes[i].size == size) return &sizes[i].free;
    }
    return NULL;
}

static void *huge(size_t size) {
    void *found;
    if (posix_memalign(&found, CHUNK, size)) return NULL;
    madvise(found, size, MADV_HUGEPAGE); /* only speed depends on it */
    return found;
}

#ifdef XF_SANITIZE
/* Every block is one of the C library's, so that a sanitizer sees its bounds and its end. */
void *memory_take_dirty(size_t size) {
    void *found;
    return posix_memalign(&found, LINE, size ? size : 1) ? NULL : found;
}
void memory_give(void *given, size_t size) {
    (void)size;
    free(given);
}
#else
void *memory_take_dirty(size_t size) {
    block **list;
    void *found = NULL;
    size = (size + LINE - 1) & ~(LINE - 1);
    if (!size) size = LINE;
    pthread_mutex_lock(&lock);
    list = list_of(size);
    if (list && *list) {
        found = *list;
        *list = (*list)->next;
    } else if (size <= CHUNK / 2) {
        if (size > left && (found = huge(CHUNK))) {
            at = found;
            left = CHUNK;
        }
        found = NULL;
        if (size <= left) {
            found = at;
            at += size;
            left -= size;
        }
    } else {
        found = huge((size + CHUNK - 1) & ~(CHUNK - 1));
    }
    pthread_mutex_unlock(&lock);
    return found;
}

void memory_give(void *given, size_t size) {
    block **list;
    if (!given) return;
    size = (size + LINE - 1) & ~(LINE - 1);
    if (!size) size = LINE;
    pthread_mutex_lock(&lock);
    list = list_of(size);
    if (list) {
        ((block *)given)->next = *list;
        *list = given;
    }
    pthread_mutex_unlock(&lock);
}
#endif

void *memory_take(size_t size) {
    void *found = memory_take_dirty(size);
    return found ? memset(found, 0, size) : NULL;
}
