/* Words that threads share without a lock. What else threads share lies behind an engine's, a loop's or a fabric's lock. */
#ifndef XF_ATOMIC_H
#define XF_ATOMIC_H

#include "libc.h"

#if defined(__TINYC__)
/* tcc has no such builtins. On x86-64 the load of an aligned word acquires and its store releases. */
#if !defined(__x86_64__)
#error "tcc does not order memory accesses on this machine; install cc, gcc or clang"
#endif
#define atomic_get(word) (*(volatile __typeof__(*(word)) *)(word))
#define atomic_set(word, value) ((void)(*(volatile __typeof__(*(word)) *)(word) = (value)))
#define atomic_peek(word) atomic_get(word)
#define atomic_put(word, value) atomic_set(word, value)
#else
/* What was written before the set is seen after the get that sees it. */
#define atomic_get(word) __atomic_load_n(word, __ATOMIC_ACQUIRE)
#define atomic_set(word, value) __atomic_store_n(word, value, __ATOMIC_RELEASE)
/* The word alone, whole: a counter, a hint. */
#define atomic_peek(word) __atomic_load_n(word, __ATOMIC_RELAXED)
#define atomic_put(word, value) __atomic_store_n(word, value, __ATOMIC_RELAXED)
#endif
/* By the only thread (or under the lock) that ever writes the word. */
#define atomic_add(word, value) atomic_put(word, atomic_peek(word) + (value))

#endif
