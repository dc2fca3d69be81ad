/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A completion queue.
 *
 * Life: the application creates and destroys it; it cannot be destroyed while a queue pair uses it
 * (`users`).  Destroying waits for threads that are about to tell the application (`telling`).
 *
 * Lock: cq.lock guards the ring, its positions, and what is armed.  It is innermost, but for the
 * loop's lists.  A poller reads `head` and `tail` without it, to see that the queue is empty.
 */
#ifndef IWARP_VERBS_CQ_H
#define IWARP_VERBS_CQ_H

#include "base/mutex.h"
#include "verbs/async.h"

#include <iwarp/verbs.h>

enum iwarp_cq_armed {
    CQ_QUIET,    /* nobody is to be told */
    CQ_ANY,      /* of the next completion */
    CQ_SOLICITED /* of the next that is solicited, or has failed */
};

/*
 * Which of the two kinds of waiting threads is to be told: the one that armed the queue (by its
 * descriptor or function), or one that sleeps in the loop (by waking up the loop).
 */
enum { CQ_DUE_ARMED = 1, CQ_DUE_LEADER = 2 };

struct iwarp_cq {
    struct iwarp_device *device;
    void *user;
    _Atomic unsigned users;   /* queue pairs; one that sends and receives into it counts twice */
    _Atomic uint64_t workers; /* of connections that complete or completed into it, a bit each */
    struct iwarp_mutex lock;
    struct iwarp_wc *ring;
    _Atomic uint32_t size; /* it and the ring change under lock */
    uint32_t mask;
    _Atomic uint32_t head, tail;   /* tail - head completions wait */
    _Atomic unsigned empties;      /* polls that found it empty, about: streak.h */
    _Atomic unsigned empties_then; /* when a poll took something last: spin.h */
    enum iwarp_cq_armed armed;
    bool counted;                      /* in device.sleepers */
    _Atomic unsigned waits;            /* threads that sleep in iwarp_cq_wait */
    bool wakes;                        /* they are to be told of the next completion */
    unsigned leaders;                  /* threads that run the loop while they wait for the queue */
    _Atomic unsigned due;              /* CQ_DUE_: threads that are to be told, and are not yet */
    _Atomic unsigned telling;          /* threads that are about to tell */
    bool notified;                     /* told while there was no descriptor: it starts readable */
    void (*_Atomic notify)(void *arg); /* instead of the descriptor */
    void *notify_arg;
    _Atomic bool overflowed; /* a completion was lost, so polling fails once the ring is empty */
    _Atomic int fd;          /* -1 until asked for */
    struct iwarp_async_source async;
};

/*
 * Put a completion into the ring.  Any thread; takes cq.lock.  False: the queue is full and the
 * completion is lost, which is reported as an asynchronous event once.  The caller calls
 * iwarp_cq_due and iwarp_cq_tell later.
 */
bool iwarp_cq_push(struct iwarp_cq *cq, const struct iwarp_wc *wc);

/*
 * Telling the application is a step of its own after pushing, so that a thread that wakes up finds
 * the connection's lock free. iwarp_cq_due is called while a queue pair still uses the queue, so
 * the queue exists; it hands the task to one thread.  That thread calls iwarp_cq_tell at any later
 * time, without cq.lock; `telling` keeps the queue from being destroyed until then.
 */
struct iwarp_cq_due {
    struct iwarp_cq *cq; /* NULL: nobody is to be told */
    unsigned what;       /* CQ_DUE_ */
};
struct iwarp_cq_due iwarp_cq_due(struct iwarp_cq *cq);
void iwarp_cq_tell(struct iwarp_cq_due due);

/*
 * Every change of `armed` goes through here.  count: a thread sleeps for it, or is about to, so it
 * counts in device.sleepers (invariant 4 in loop/lease.h).  cq.lock held.
 */
void iwarp_cq_set_armed(struct iwarp_cq *cq, enum iwarp_cq_armed armed, bool count);

/*
 * Remove the completions of a queue pair that is being destroyed or starts anew: their `qp` would
 * point to freed memory.  The order of the others stays.
 */
void iwarp_cq_purge(struct iwarp_cq *cq, const struct iwarp_qp *qp);

/* Does the ring have a completion of this queue pair that is one of success? Takes cq.lock. */
bool iwarp_cq_has_of(struct iwarp_cq *cq, const struct iwarp_qp *qp);

#endif
