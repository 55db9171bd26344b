/* Blocks for what the packet path touches (memory.c). */
#ifndef XF_MEMORY_H
#define XF_MEMORY_H

#include "libc.h"

void *memory_take(size_t size); /* zeroed, aligned to a cache line; NULL without memory */
void *memory_take_dirty(size_t size);       /* the same with any content */
void memory_give(void *given, size_t size); /* the size it was taken with */

#endif
