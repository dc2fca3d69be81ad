/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections that wait for a receive of an SRQ.  The one that has waited longest looks for a
 * receive that is posted.  Only when it has had one, or ends, the next one is woken up, so a post
 * costs one wake-up at most, however many wait.  A connection that needs another receive then joins
 * the list anew, at its end.
 *
 * Nobody is left asleep: whoever joins the list, leaves it, or posts has srq.lock, and wakes up the
 * first in the list if receives are left.  A connection leaves the list before it is freed.
 */
#include "verbs/srq.h"

void iwarp_srq_wake_first(struct iwarp_srq *srq)
{
    if (srq->waiter && srq->first != IWARP_RQ_NONE) {
        srq->waiter->wake(srq->waiter->conn);
    }
}

bool iwarp_srq_await(struct iwarp_srq *srq, struct iwarp_srq_waiter *w)
{
    iwarp_mutex_lock(&srq->lock);
    bool posted = srq->first != IWARP_RQ_NONE;
    if (!posted && !w->waits) {
        w->waits = true;
        w->next = NULL;
        w->prev = srq->last_waiter;
        *(w->prev ? &w->prev->next : &srq->waiter) = w;
        srq->last_waiter = w;
    }
    iwarp_mutex_unlock(&srq->lock);
    return posted;
}

void iwarp_srq_await_no_more(struct iwarp_srq *srq, struct iwarp_srq_waiter *w)
{
    iwarp_mutex_lock(&srq->lock);
    if (w->waits) {
        w->waits = false;
        *(w->prev ? &w->prev->next : &srq->waiter) = w->next;
        *(w->next ? &w->next->prev : &srq->last_waiter) = w->prev;
    }
    iwarp_srq_wake_first(srq);
    iwarp_mutex_unlock(&srq->lock);
}
