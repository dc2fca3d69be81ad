/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocations that fail when a test says so. The linker sends every malloc, calloc and realloc of
 * the library and of the tests here (not those of shared libraries). Counted for this thread only,
 * or for all threads together; one of the two at a time.
 */
#ifndef TESTS_ALLOC_FAULT_H
#define TESTS_ALLOC_FAULT_H

#include <stdbool.h>

/* The n-th allocation from now on fails, and no other; 0: none does. Resets the count. */
void alloc_fault_at(unsigned n);

/* Allocations tried since then. */
unsigned alloc_fault_count(void);

/* The same for all threads. 0 ends it: nothing fails or is counted any more. */
void alloc_fault_anywhere_at(unsigned n);
unsigned alloc_fault_anywhere_count(void);

/* Is lwIP compiled into the library, so that its allocations count? */
static inline bool alloc_fault_sees_lwip(void)
{
#ifdef IWARP_OWN_LWIP
    return true;
#else
    return false;
#endif
}

#endif
