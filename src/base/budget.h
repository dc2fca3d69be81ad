/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that grows with what peers do is counted against a budget. Allocation fails when either
 * the system or the budget says no, and says which.
 */
#ifndef IWARP_BASE_BUDGET_H
#define IWARP_BASE_BUDGET_H

#include "base/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct iwarp_budget {
    _Atomic size_t used;
    size_t limit;
};

/* One free block of a fixed size, kept for reuse. It does not count against the budget. */
struct iwarp_spare {
    void *_Atomic memory; /* or NULL */
};

/*
 * Allocate a block of a size that is needed often: from the spare if it holds one, which saves a
 * call of the allocator. spare may be NULL. Returns NULL if the budget is exceeded (*over true) or
 * memory is out (*over false).
 */
static inline void *iwarp_budget_alloc_kept(struct iwarp_budget *b, struct iwarp_spare *spare,
                                            size_t size, bool *over)
{
    size_t used = atomic_fetch_add_explicit(&b->used, size, memory_order_relaxed);
    void *p = NULL;

    *over = size > b->limit || used > b->limit - size;
    if (!*over) {
        p = spare ? atomic_exchange_explicit(&spare->memory, NULL, memory_order_acquire) : NULL;
        p = p ? p : iwarp_malloc(size);
    }
    if (!p) {
        atomic_fetch_sub_explicit(&b->used, size, memory_order_relaxed);
    }
    return p;
}

/* The same without a spare. */
static inline void *iwarp_budget_alloc(struct iwarp_budget *b, size_t size, bool *over)
{
    return iwarp_budget_alloc_kept(b, NULL, size, over);
}

static inline void iwarp_budget_free(struct iwarp_budget *b, void *p, size_t size)
{
    if (p) {
        free(p);
        atomic_fetch_sub_explicit(&b->used, size, memory_order_relaxed);
    }
}

/* Count memory that is somebody else's. False: the budget is exceeded. */
static inline bool iwarp_budget_reserve(struct iwarp_budget *b, size_t size)
{
    size_t used = atomic_fetch_add_explicit(&b->used, size, memory_order_relaxed);
    bool over = size > b->limit || used > b->limit - size;

    if (over) {
        atomic_fetch_sub_explicit(&b->used, size, memory_order_relaxed);
    }
    return !over;
}

static inline void iwarp_budget_return(struct iwarp_budget *b, size_t size)
{
    atomic_fetch_sub_explicit(&b->used, size, memory_order_relaxed);
}

/* Free a block into the spare, or to the allocator if the spare holds one already. */
static inline void iwarp_budget_keep(struct iwarp_budget *b, struct iwarp_spare *spare, void *p,
                                     size_t size)
{
    void *none = NULL;

    if (!atomic_compare_exchange_strong_explicit(&spare->memory, &none, p, memory_order_release,
                                                 memory_order_relaxed)) {
        free(p);
    }
    atomic_fetch_sub_explicit(&b->used, size, memory_order_relaxed);
}

static inline void iwarp_spare_fini(struct iwarp_spare *spare)
{
    free(atomic_load_explicit(&spare->memory, memory_order_acquire));
}

#endif
