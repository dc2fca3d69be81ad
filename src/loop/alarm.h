/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The alarm of a loop: a timer of microseconds that any thread may start, whether the loop's home
 * sleeps in the loop or is parked outside of it (lease.h).  libuv's timers count milliseconds, and
 * belong to the thread that runs the loop.
 *
 * A loop of the application has none.
 */
#ifndef IWARP_LOOP_ALARM_H
#define IWARP_LOOP_ALARM_H

#include <uv.h>

struct iwarp_alarm {
    int fd; /* a timerfd; -1: none */
    uv_poll_t poll;
    void (*ring)(void *arg);
    void *arg;
};

/* Before the loop's thread runs.  0, or -errno and nothing is left. */
int iwarp_alarm_open(struct iwarp_alarm *a, uv_loop_t *uv, void (*ring)(void *arg), void *arg);

/* On the thread that runs the loop: the handle is closed, and the loop does not use it any more. */
void iwarp_alarm_leave(struct iwarp_alarm *a);

/* After the loop has ended. */
void iwarp_alarm_fini(struct iwarp_alarm *a);

/*
 * Once, after so many microseconds: a later start counts instead of an earlier one.  Any thread,
 * with any lock held.  ring(arg) is called without a lock, by the home or by a guest that runs the
 * loop, possibly by both at once, and possibly once too often.
 */
void iwarp_alarm_start(struct iwarp_alarm *a, unsigned us);

/* The descriptor is readable: for a home that waits for it outside of the loop. */
void iwarp_alarm_ready(struct iwarp_alarm *a);

#endif
