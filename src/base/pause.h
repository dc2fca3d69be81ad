/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for another thread that needs microseconds: yield first, then sleep, so that a waiting
 * thread of high priority does not keep the other one from running. */
#ifndef IWARP_BASE_PAUSE_H
#define IWARP_BASE_PAUSE_H

#include <sched.h>
#include <time.h>

/* Called in a loop until the other thread is done; `round` counts the calls, from 0 on. */
static inline void iwarp_pause(unsigned round)
{
    if (round < 100) {
        sched_yield();
    } else {
        nanosleep(&(struct timespec){0, 50000}, NULL);
    }
}

#endif
