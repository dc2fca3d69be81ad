/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/virtual.h"

#include <string.h>
#include <sys/random.h>

_Thread_local struct iwarp_virtual *iwarp_virtual;

bool iwarp_random(void *to, size_t n, unsigned flags)
{
    if (!iwarp_virtual) {
        return getrandom(to, n, flags) == (ssize_t)n;
    }
    for (size_t at = 0; at < n; at += sizeof(uint64_t)) {
        uint64_t word = iwarp_virtual->random(iwarp_virtual);
        memcpy((uint8_t *)to + at, &word, n - at < sizeof word ? n - at : sizeof word);
    }
    return true;
}
