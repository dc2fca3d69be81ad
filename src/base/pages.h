/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Zeroed memory for buffers, from the kernel: pages come with their first use. calloc writes zeros
 * to memory that was used before, and so uses it all at once.
 */
#ifndef IWARP_BASE_PAGES_H
#define IWARP_BASE_PAGES_H

#include "base/huge.h"

/* It begins at a page; whole huge pages are asked for as such. NULL: none, see errno. len > 0. */
static inline void *iwarp_pages_map(size_t len)
{
    if (len % IWARP_HUGE_BYTES == 0) {
        void *huge = iwarp_huge_map(len);
        if (huge) {
            (void)madvise(huge, len, MADV_HUGEPAGE);
        }
        return huge;
    }
    void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* Gives back what was mapped with the same len; nothing if p is NULL. */
static inline void iwarp_pages_unmap(void *p, size_t len)
{
    if (p) {
        munmap(p, len);
    }
}

#endif
