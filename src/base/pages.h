/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Zeroed memory for buffers, from the kernel: it gives a page at the first use of it. calloc writes
 * zeros to memory that was used before, so all pages of that are there at once.
 */
#ifndef IWARP_BASE_PAGES_H
#define IWARP_BASE_PAGES_H

#include "base/huge.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define IWARP_PAGES_BY_CALLOC 1 /* AddressSanitizer sees what is written behind such memory */
#else
#define IWARP_PAGES_BY_CALLOC 0
#endif

/*
 * all_used: all of it will be used soon, so huge pages are asked for where it is as long as some.
 * NULL: none, see errno. len > 0.
 */
static inline void *iwarp_pages_map(size_t len, bool all_used)
{
    if (IWARP_PAGES_BY_CALLOC) {
        return calloc(1, len);
    }
    if (all_used && len % IWARP_HUGE_BYTES == 0) {
        void *huge = iwarp_huge_map(len);
        if (huge) {
            (void)madvise(huge, len, MADV_HUGEPAGE);
        }
        return huge;
    }
    void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    if (len >= IWARP_HUGE_BYTES) { /* a system may give huge pages unasked */
        (void)madvise(p, len, MADV_NOHUGEPAGE);
    }
    return p;
}

/* The pages of a part that begins at one are not needed any more. */
static inline void iwarp_pages_drop(void *p, size_t len)
{
    if (!IWARP_PAGES_BY_CALLOC) {
        (void)madvise(p, len, MADV_DONTNEED);
    }
}

/* To whole pages, for parts of one mapping. */
static inline size_t iwarp_pages_round(size_t len)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (len + page - 1) / page * page;
}

/* Gives back what was mapped with the same len; nothing if p is NULL. */
static inline void iwarp_pages_unmap(void *p, size_t len)
{
    if (IWARP_PAGES_BY_CALLOC) {
        free(p);
    } else if (p) {
        munmap(p, len);
    }
}

#endif
