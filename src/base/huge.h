/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that huge pages can hold, from the kernel. Whether they do is madvise's to say. */
#ifndef IWARP_BASE_HUGE_H
#define IWARP_BASE_HUGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define IWARP_HUGE_BYTES ((size_t)2 << 20)

/*
 * Zeroed memory that begins at a multiple of IWARP_HUGE_BYTES, as size is one; it comes with use,
 * and goes with munmap. NULL: none, see errno.
 */
static inline void *iwarp_huge_map(size_t size)
{
    uint8_t *p = mmap(NULL, size + IWARP_HUGE_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    size_t before = (size_t)-(uintptr_t)p & (IWARP_HUGE_BYTES - 1);
    if (before > 0) {
        munmap(p, before);
    }
    munmap(p + before + size, IWARP_HUGE_BYTES - before);
    return p + before;
}

#endif
