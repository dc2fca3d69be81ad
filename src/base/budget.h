/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that grows with what peers do is counted against a budget. Allocation fails when either
 * the system or the budget says no, and says which.
 */
#ifndef IWARP_BASE_BUDGET_H
#define IWARP_BASE_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct iwarp_budget {
    _Atomic size_t used;
    size_t limit;
    void *_Atomic spare; /* free memory of the one size that is kept, or NULL; not counted */
};

/* Memory from *spare if there is any, else new; what iwarp_budget_alloc and _alloc_kept share. */
static inline void *iwarp_budget_claim(struct iwarp_budget *b, size_t size, bool *over,
                                       void *_Atomic *spare)
{
    size_t used = atomic_fetch_add_explicit(&b->used, size, memory_order_relaxed);
    void *p = NULL;

    *over = size > b->limit || used > b->limit - size;
    if (!*over) {
        p = spare ? atomic_exchange_explicit(spare, NULL, memory_order_acquire) : NULL;
        p = p ? p : malloc(size);
    }
    if (!p) {
        atomic_fetch_sub_explicit(&b->used, size, memory_order_relaxed);
    }
    return p;
}

/* NULL: over the limit (*over true) or out of memory (*over false). */
static inline void *iwarp_budget_alloc(struct iwarp_budget *b, size_t size, bool *over)
{
    return iwarp_budget_claim(b, size, over, NULL);
}

static inline void iwarp_budget_free(struct iwarp_budget *b, void *p, size_t size)
{
    if (p) {
        free(p);
        atomic_fetch_sub_explicit(&b->used, size, memory_order_relaxed);
    }
}

/*
 * The same for memory that is needed again and again, always of the same size: one piece of it is
 * kept when it is given back, so that most of the time no allocator is asked.
 */
static inline void *iwarp_budget_alloc_kept(struct iwarp_budget *b, size_t size, bool *over)
{
    return iwarp_budget_claim(b, size, over, &b->spare);
}

static inline void iwarp_budget_keep(struct iwarp_budget *b, void *p, size_t size)
{
    void *none = NULL;

    if (!atomic_compare_exchange_strong_explicit(&b->spare, &none, p, memory_order_release,
                                                 memory_order_relaxed)) {
        free(p);
    }
    atomic_fetch_sub_explicit(&b->used, size, memory_order_relaxed);
}

/* Nothing of it is in use any more. */
static inline void iwarp_budget_fini(struct iwarp_budget *b)
{
    free(atomic_load_explicit(&b->spare, memory_order_acquire));
}

#endif
