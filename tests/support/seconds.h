/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock that bounds what tests wait for: nobody sets it back. */
#ifndef TESTS_SECONDS_H
#define TESTS_SECONDS_H

#include <time.h>

static inline time_t seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

#endif
