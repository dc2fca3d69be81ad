/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker: a loop, a staging area, and the time limits of its connections.
 *
 * Life: workers are an array at the end of their device.  iwarp_device_open starts them; they stop
 * when the device is freed, after the last connection.  A connection belongs to one worker.
 *
 * Locks: wait_lock is for application threads that sleep until a connection of the worker changes.
 * It guards `changes` of the connections, and is innermost.  defer_lock guards the list of deferred
 * sends (defer.h); only the alarm is started with it held.  The loop has locks of its own
 * (loop/loop.h, loop/lease.h).  The other fields belong to the thread that runs the loop.
 */
#ifndef IWARP_VERBS_WORKER_H
#define IWARP_VERBS_WORKER_H

#include "base/budget.h"
#include "loop/loop.h"
#include "transport/stack.h"

#include <iwarp/status.h>
#include <pthread.h>
#include <uv.h>

struct iwarp_conn;
struct iwarp_device;
struct iwarp_timed;

struct iwarp_worker {
    struct iwarp_device *device;
    struct iwarp_loop loop;
    struct iwarp_seat *seat;      /* of the device's stack, in this loop */
    _Atomic unsigned visits_seen; /* polled: visits of the loop when another poller looked last */
    uv_timer_t timer;             /* of all its connections: conn_timer.c */
    uint64_t timer_due;           /* uv_now() at which it fires; UINT64_MAX: it is stopped */
    struct iwarp_timed *timed;    /* of its connections */
    pthread_mutex_t wait_lock;
    pthread_cond_t changed; /* some connection has; rare, so spurious wake-ups cost little */
    pthread_mutex_t defer_lock;
    struct iwarp_conn *list;         /* connections that had deferred requests of late */
    unsigned passes;                 /* over the list, to send */
    const struct iwarp_conn *served; /* that received last; compared, and never followed */
    _Atomic unsigned switches;       /* how often that has become another one: spin.h */
    uint8_t *staging;                /* where a read puts octets whose place is not known yet */
    size_t staging_len;
    struct iwarp_spare spare; /* a send block for its connections */
};

/*
 * start: on failure nothing is left to be undone. stop: runs what is queued, joins the thread and
 * frees what the worker holds; no connection may be left.
 */
enum iwarp_status iwarp_worker_start(struct iwarp_worker *w, struct iwarp_device *device);
void iwarp_worker_stop(struct iwarp_worker *w);
void iwarp_worker_fini(struct iwarp_worker *w); /* embedded: instead of stop */

/*
 * Have the worker look at a connection soon (iwarp_conn_kicked).  Any thread, with any lock held.
 * Several kicks before that count as one.
 */
void iwarp_worker_kick(struct iwarp_conn *conn);

#endif
