/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Locks a mutex with a bound on the wait, by the monotonic clock. pthread_mutex_timedlock takes the
 * wall clock: when somebody sets that back, the wait becomes longer by as much.
 */
#ifndef IWARP_BASE_TIMED_LOCK_H
#define IWARP_BASE_TIMED_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define IWARP_TELL_TSAN(call) call
#else
#define IWARP_TELL_TSAN(call) ((void)0)
#endif

/* Lock m, waiting at most ms milliseconds. False: time is up, or the lock cannot be had. */
static inline bool iwarp_lock_within(pthread_mutex_t *m, unsigned ms)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (time_t)(ms / 1000);
    end.tv_nsec += (long)(ms % 1000) * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    /* ThreadSanitizer knows the other locking calls, but not this one. */
    IWARP_TELL_TSAN(__tsan_mutex_pre_lock(m, __tsan_mutex_try_lock));
    bool locked = pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &end) == 0;
    IWARP_TELL_TSAN(__tsan_mutex_post_lock(
        m, __tsan_mutex_try_lock | (locked ? 0 : __tsan_mutex_try_lock_failed), 0));
    return locked;
}

#endif
