/* SPDX-License-Identifier: BSD-2-Clause */
/* The one clock of iwarp-cp: it never goes back. */
#ifndef CP_CLOCK_H
#define CP_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t cp_clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static inline int64_t cp_clock_ms(void)
{
    return cp_clock_us() / 1000;
}

#endif
