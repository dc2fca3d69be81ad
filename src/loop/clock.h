/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The clock for waits of the application; the protocol has none. On the thread of a simulator it is
 * the simulator's.
 */
#ifndef IWARP_LOOP_CLOCK_H
#define IWARP_LOOP_CLOCK_H

#include "base/virtual.h"

#include <stdint.h>
#include <time.h>

/*
 * Milliseconds since an arbitrary start. The clock is monotonic: setting the time of day does not
 * shorten or lengthen a wait.
 */
static inline int64_t iwarp_now_ms(void)
{
    struct timespec t;

    if (iwarp_virtual) {
        return iwarp_virtual->now_ns / 1000000;
    }
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The same in nanoseconds, for policies that tell microseconds apart. */
static inline int64_t iwarp_now_ns(void)
{
    struct timespec t;

    if (iwarp_virtual) {
        return iwarp_virtual->now_ns;
    }
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
