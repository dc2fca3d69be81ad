/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock for waits of the application; the protocol has none. */
#ifndef IWARP_LOOP_CLOCK_H
#define IWARP_LOOP_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Milliseconds on a clock that only runs forward. */
static inline int64_t iwarp_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline int64_t iwarp_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
