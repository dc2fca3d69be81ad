/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/memory.h"
#include "base/log.h"

_Atomic uint64_t iwarp_memory_left;

/* Each thread that counts has a number of its own: one of them gets 1. */
bool iwarp_memory_counts_down(void)
{
    uint64_t left = atomic_load(&iwarp_memory_left);

    while (left > 0 && !atomic_compare_exchange_weak(&iwarp_memory_left, &left, left - 1)) {
    }
    if (left == 1) {
        iwarp_log(IWARP_LOG_WARN, "faults", "an allocation fails, as IWARP_FAULTS asks");
    }
    return left == 1;
}
