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

/* Who is to be told: the one who armed the queue, or a thread that waits in the loop. */
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
    _Atomic uint32_t head, tail; /* tail - head completions wait */
    enum iwarp_cq_armed armed;
    _Atomic unsigned waits;            /* threads that sleep in iwarp_cq_wait */
    bool armed_to_wait;                /* by one of them, and not by the application */
    unsigned leaders;                  /* threads that run the loop while they wait for the queue */
    _Atomic unsigned due;              /* CQ_DUE_: has come, and nobody was told yet */
    _Atomic unsigned telling;          /* threads that are about to tell */
    bool notified;                     /* while there was no descriptor */
    void (*_Atomic notify)(void *arg); /* instead of the descriptor */
    void *notify_arg;
    _Atomic bool overflowed; /* a completion was lost, so polling fails once the ring is empty */
    _Atomic int fd;          /* -1 until asked for */
    struct iwarp_async_source async;
};

/* False: the queue is full, and the completion lost.  The caller tells, too: see below. */
bool iwarp_cq_push(struct iwarp_cq *cq, const struct iwarp_wc *wc);

/*
 * To tell the application is a step of its own after pushing, so that a thread that wakes up finds
 * the connection's lock free.  iwarp_cq_due runs while the queue has a user, and so exists, and
 * gives the task to one thread; that thread calls iwarp_cq_tell at any time after that.
 */
struct iwarp_cq_due {
    struct iwarp_cq *cq; /* NULL: nobody is to be told */
    unsigned what;       /* CQ_DUE_ */
};
struct iwarp_cq_due iwarp_cq_due(struct iwarp_cq *cq);
void iwarp_cq_tell(struct iwarp_cq_due due);

/* A queue pair is being destroyed or starts anew: remove its completions. */
void iwarp_cq_purge(struct iwarp_cq *cq, const struct iwarp_qp *qp);

#endif
