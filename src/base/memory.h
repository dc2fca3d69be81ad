/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of the library's objects, which a simulator or IWARP_FAULTS (alloc=N) may refuse, so that
 * programs see what becomes of them then. Given back with free.
 */
#ifndef IWARP_BASE_MEMORY_H
#define IWARP_BASE_MEMORY_H

#include "base/virtual.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

/* Allocations of this process until one fails; 0: none will. */
extern _Atomic uint64_t iwarp_memory_left __attribute__((visibility("hidden")));

/* Counts one. Is it the one? The log tells it. */
bool iwarp_memory_counts_down(void);

static inline bool iwarp_memory_refuses(void)
{
    if (atomic_load_explicit(&iwarp_memory_left, memory_order_relaxed) > 0 &&
        iwarp_memory_counts_down()) {
        return true;
    }
    return iwarp_virtual && iwarp_virtual->refuses(iwarp_virtual);
}

static inline void *iwarp_malloc(size_t size)
{
    return iwarp_memory_refuses() ? NULL : malloc(size);
}

/* For rings: an entry is written as a whole before it is read, and one that is never used costs
 * nothing. size > 0. */
static inline void *iwarp_malloc_array(size_t n, size_t size)
{
    return n > SIZE_MAX / size ? NULL : iwarp_malloc(n * size);
}

static inline void *iwarp_calloc(size_t n, size_t size)
{
    return iwarp_memory_refuses() ? NULL : calloc(n, size);
}

#endif
