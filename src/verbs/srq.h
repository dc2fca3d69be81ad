/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A shared receive queue.
 *
 * Life: the application creates and destroys it; it cannot be destroyed while a queue pair uses it
 * (`users`).  Its entries are one block of memory; each is free, posted, or taken by a stream.
 *
 * Lock: srq.lock guards the lists of entries and of waiting connections; only loop.lock is taken
 * with it.  A
 * stream works on the entry that it has taken without the lock.
 */
#ifndef IWARP_VERBS_SRQ_H
#define IWARP_VERBS_SRQ_H

#include "base/mutex.h"
#include "stream/wq.h"
#include "verbs/async.h"

#include <iwarp/srq.h>

/* A connection that waits for a receive of the SRQ. */
struct iwarp_srq_waiter {
    struct iwarp_srq_waiter *prev, *next;
    struct iwarp_conn *conn;
    void (*wake)(struct iwarp_conn *conn); /* with srq.lock held: has its worker look at it */
    bool waits;                            /* it is in the list */
};

struct iwarp_srq {
    struct iwarp_pd *pd;
    struct iwarp_srq_options options;
    _Atomic unsigned users; /* queue pairs */
    struct iwarp_mutex lock;
    uint8_t *mem;         /* max_wr entries of stride octets; lists go by their numbers */
    uint32_t stride;      /* octets of an entry */
    uint32_t touched;     /* entries from here on were never used */
    uint32_t free;        /* list of entries that were used and are free */
    uint32_t first, last; /* list of posted entries */
    unsigned posted, in_use, limit;
    struct iwarp_srq_waiter *waiter, *last_waiter; /* connections that wait, the oldest first */
    struct iwarp_async_source async;
};

/*
 * attach: let a queue pair receive from the SRQ through rq. detach: end that; entries that rq holds
 * are free again, without completions.
 */
void iwarp_srq_attach(struct iwarp_srq *srq, struct iwarp_wq *rq);
void iwarp_srq_detach(struct iwarp_srq *srq, struct iwarp_wq *rq);

/*
 * await: is a receive posted? If not, the connection is woken up when one is, and it is its turn.
 * await_no_more: it has what it needs, or ends.  wake_first, with srq.lock held: receives may have
 * been posted.
 */
bool iwarp_srq_await(struct iwarp_srq *srq, struct iwarp_srq_waiter *w);
void iwarp_srq_await_no_more(struct iwarp_srq *srq, struct iwarp_srq_waiter *w);
void iwarp_srq_wake_first(struct iwarp_srq *srq);

/* An entry that a queue pair has finished is free again: its completion was copied, or it needs
 * none. */
void iwarp_srq_give_back(struct iwarp_srq *srq, struct iwarp_rwqe *w);

/* An entry that a queue pair has taken, and will not finish, is posted again. */
void iwarp_srq_put_back(struct iwarp_srq *srq, struct iwarp_rwqe *w);

#endif
