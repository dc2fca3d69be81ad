/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock that bounds what tests wait for: nobody sets it back. */
#ifndef TESTS_SECONDS_H
#define TESTS_SECONDS_H

#include <stdint.h>
#include <time.h>

static inline int64_t milliseconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static inline time_t seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

#endif
