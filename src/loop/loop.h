/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A loop: libuv's, with what other threads want of it (calls and tasks) and the lease that says
 * which thread runs it (lease.h).  It knows neither connections nor completion queues.
 *
 * The thread that runs the loop is the current one.  In a loop of the application (`embedded`) that
 * is the thread which opened it, and there is no lease.
 */
#ifndef IWARP_LOOP_LOOP_H
#define IWARP_LOOP_LOOP_H

#include "base/beside.h"
#include "base/task.h"
#include "loop/alarm.h"
#include "loop/hot.h"
#include "loop/lease.h"
#include "loop/look.h"

#include <stdint.h>
#include <uv.h>

struct iwarp_call;

struct iwarp_loop_options {
    uv_loop_t *uv;  /* the application's; NULL: a loop and a thread of its own */
    bool simulated; /* embedded, and libuv only keeps its handles: base/virtual.h */
    bool open;      /* every thread may visit: lease.h */
    bool look;      /* it may spin before it sleeps: look.h */
    struct iwarp_sleepers *sleepers; /* outlives the loop */
    void (*ending)(void *arg);       /* the loop ends: close the owner's handles */
    void (*ring)(void *arg);         /* the alarm's; not embedded */
    void *arg;
};

struct iwarp_loop {
    struct iwarp_loop_options options;
    uv_loop_t *uv; /* `own`, or the application's */
    uv_loop_t own;
    pthread_t thread; /* the home, or the one that runs the application's loop */
    struct iwarp_lease lease;
    uv_async_t wake;
    struct iwarp_alarm alarm;
    uv_timer_t limit;          /* of a wait that runs the loop */
    uv_prepare_t before_sleep; /* not embedded: see post_soon */
    unsigned late;             /* how often it fired; under lease.run */
    _Atomic bool due; /* the next visit must run the loop, and not the hot source alone: hot.h */
    struct iwarp_hot hot;
    uint64_t found;          /* sources that were ready; by the current thread */
    uint64_t received;       /* octets, likewise */
    _Atomic uint64_t sent;   /* octets, about: by any thread */
    struct iwarp_look look;  /* by the current thread, as the next two */
    int64_t awaited_ns;      /* when its last wait was over */
    uint64_t awaited_octets; /* and how much had been moved then */
    pthread_mutex_t lock;    /* innermost: the lists of calls and tasks, and `stop` */
    pthread_cond_t finished; /* one of the calls */
    struct iwarp_call *calls;
    struct iwarp_task *tasks, *last_task;
    bool soon; /* some have woken nobody up; by the current thread, on_before_sleep looks */
    bool stop;
};

/* 0 or -errno, and nothing is left.  launch starts the home, once the owner has made its handles.
 */
int iwarp_loop_open(struct iwarp_loop *l, const struct iwarp_loop_options *options);
int iwarp_loop_launch(struct iwarp_loop *l);

/* Not embedded: run what is left, end the thread, close the loop. */
void iwarp_loop_stop(struct iwarp_loop *l);

/* Free what the loop holds besides libuv's handles; stop does so, too. */
void iwarp_loop_fini(struct iwarp_loop *l);

/* Does this thread run the loop? */
bool iwarp_loop_is_current(const struct iwarp_loop *l);

/* This thread runs that loop from here on (NULL: none).  Returns the loop that it ran so far. */
const struct iwarp_loop *iwarp_loop_enter(const struct iwarp_loop *l);

/* Run fn(arg) on the loop and wait for it; at once if this thread is the current one. */
void iwarp_loop_call(struct iwarp_loop *l, void (*fn)(void *arg), void *arg);

/* The same without waiting.  False: no memory. */
bool iwarp_loop_send(struct iwarp_loop *l, void (*fn)(void *arg), void *arg);

/* Run the calls that wait.  On the current thread. */
void iwarp_loop_run_calls(struct iwarp_loop *l);

/* Before a thread that stayed in the loop leaves it, with `asleep` cleared. */
void iwarp_loop_serve_last(struct iwarp_loop *l);

/*
 * Queue a task, which takes one reference of its object over from the caller.  If it is queued
 * already, that reference is dropped here; it is not the last one, since the queued task has one.
 */
void iwarp_loop_post(struct iwarp_loop *l, struct iwarp_task *task);

/* The same, but if this thread is the current one the task is run at the end of its turn. */
void iwarp_loop_post_soon(struct iwarp_loop *l, struct iwarp_task *task);

/* Behind each call of uv_run or iwarp_loop_await, by the current thread. */
void iwarp_loop_end_turn(struct iwarp_loop *l);

/* Does a fault in the application's memory, which may be gone, leave this thread alive?  Not with
 * SIGSEGV or SIGBUS blocked.  A system call. */
bool iwarp_loop_may_fault(void);

/* False for a thread with a small stack, and for a coroutine: it runs on another stack than its
 * thread's, and nobody knows how much of that is left. Such threads do not run the loop. */
bool iwarp_loop_has_stack(void);

/*
 * Wake the thread that sleeps in the loop.  signal: only that; wake: what waits is not to be
 * skipped, either.
 */
void iwarp_loop_signal(struct iwarp_loop *l);
void iwarp_loop_wake(struct iwarp_loop *l);

/*
 * Timers of the loop, by libuv or in virtual time; on the current thread. A timer that runs is set
 * anew, and one whose handle is to be closed is stopped first.
 */
uint64_t iwarp_loop_now(struct iwarp_loop *l); /* ms */
void iwarp_loop_start(struct iwarp_loop *l, uv_timer_t *timer, uv_timer_cb fn, uint64_t ms);
void iwarp_loop_stop_timer(struct iwarp_loop *l, uv_timer_t *timer);

/* The loop is about to be closed: no wake-up comes any more. Virtual time only. */
void iwarp_loop_forget(struct iwarp_loop *l);

/* Run what is ready: the hot source alone, or everything.  On the current thread. */
void iwarp_loop_turn(struct iwarp_loop *l);

/* Run the loop until done(arg), on the thread of an embedded loop.  False: time is up. */
bool iwarp_loop_run_until(struct iwarp_loop *l, bool (*done)(void *arg), void *arg, int timeout_ms);

/*
 * Sleep in the loop until something comes, or spin before that if it pays (look.h); not if
 * over(arg).  With `beside` (else NULL) the sleep ends with what is said there, too.  On the
 * current thread.  False: the loop has no handles any more.
 */
bool iwarp_loop_await(struct iwarp_loop *l, struct iwarp_beside *beside, bool (*over)(void *arg),
                      void *arg);

#endif
