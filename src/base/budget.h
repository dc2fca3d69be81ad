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
};

/* NULL: over the limit (*over true) or out of memory (*over false). */
static inline void *iwarp_budget_alloc(struct iwarp_budget *b, size_t size, bool *over)
{
    size_t used = atomic_fetch_add_explicit(&b->used, size, memory_order_relaxed);

    *over = size > b->limit || used > b->limit - size;
    void *p = *over ? NULL : malloc(size);
    if (!p) {
        atomic_fetch_sub_explicit(&b->used, size, memory_order_relaxed);
    }
    return p;
}

static inline void iwarp_budget_free(struct iwarp_budget *b, void *p, size_t size)
{
    if (p) {
        free(p);
        atomic_fetch_sub_explicit(&b->used, size, memory_order_relaxed);
    }
}

#endif
