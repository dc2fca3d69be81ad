/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deferred requests: posted, and not sent at once, since more of them follow (streak.h).  They lie
 * in the send queue like all others; what is deferred is only that somebody sends.  So whoever
 * sends for another reason takes them along, and needs to know nothing of it.
 * iwarp_defer_forget takes an ended connection out of the list: once when it ends, and once more if
 * a thread has marked it since.
 *
 * A connection with a deferred request is *marked*.  These send, and so clear the mark:
 *
 *   | who                                             | when                                   |
 *   |-------------------------------------------------|----------------------------------------|
 *   | the thread that posts                           | the streak is over, or a batch is full |
 *   | a thread that polls a queue and finds it empty, | at once                                |
 *   | arms one, or waits for anything                 |                                        |
 *   | the thread that runs the loop                   | it has a turn of the connection        |
 *   | the tick: by the loop's alarm, the home or a    | two ticks later at most: 2 * TICK_US   |
 *   | guest                                           |                                        |
 *
 * Invariants:
 *   1. A marked connection is listed with its worker, and while the list is not empty the alarm is
 *      set.  The mark is set before `listed` is read, and `listed` is cleared before the mark is
 *      read: one of the two threads sees the other.
 *   2. The mark is set after the request was pushed, and cleared before the queue is read.  So a
 *      request behind a cleared mark is sent, or marked again.
 *   3. The list holds a reference of each connection in it.
 *
 * Never deferred: with embedded progress, where no thread would tick; while a completion queue of
 * the device is armed and not passed over, since the program is about to sleep; a call of whose
 * requests one is no Write or Send, or has a fence; and a chain over another transport than TCP,
 * where calls are cheap.
 */
#ifndef IWARP_VERBS_DEFER_H
#define IWARP_VERBS_DEFER_H

#include "loop/clock.h"
#include "verbs/conn.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/qp.h"
#include "verbs/worker.h"

/*
 * The requests at [first, end) of the ring were posted to qp in one call; it has a connection.
 * TIMED: they are to be sent, and when that was done is to be noted (iwarp_streak_posted).
 * post_lock held.
 */
enum iwarp_defer { IWARP_DEFER_NO, IWARP_DEFER_TIMED, IWARP_DEFER_YES };
enum iwarp_defer iwarp_defer_in_row(struct iwarp_qp *qp, uint32_t first, uint32_t end);
static inline enum iwarp_defer iwarp_defer(struct iwarp_qp *qp, uint32_t first, uint32_t end)
{
    const struct iwarp_cq *send = qp->options.send_cq, *recv = qp->options.recv_cq;
    unsigned empties = atomic_load_explicit(&send->empties, memory_order_relaxed);

    if (recv != send) {
        empties += atomic_load_explicit(&recv->empties, memory_order_relaxed);
    }
    return iwarp_streak_goes_on(&qp->streak, empties) ? iwarp_defer_in_row(qp, first, end)
                                                      : IWARP_DEFER_NO;
}

/* The send queue is about to be read and sent.  conn.lock held. */
static inline void iwarp_defer_sent(struct iwarp_conn *conn)
{
    if (atomic_load_explicit(&conn->deferred, memory_order_relaxed) &&
        atomic_exchange(&conn->deferred, IWARP_DEFERRED_NONE)) {
        atomic_store_explicit(&conn->deferred_sent_ns, iwarp_now_ns(), memory_order_relaxed);
        atomic_fetch_sub_explicit(&conn->device->deferring, 1, memory_order_relaxed);
    }
}

/*
 * Send what is deferred at the connections of these workers, a bit each.  True: there may have been
 * something.  Any thread, no lock held.
 */
bool iwarp_defer_flush(struct iwarp_device *device, uint64_t workers);

/* The same for all workers, before this thread sleeps. */
static inline void iwarp_defer_flush_all(struct iwarp_device *device)
{
    if (atomic_load_explicit(&device->deferring, memory_order_relaxed) > 0) {
        (void)iwarp_defer_flush(device, IWARP_EVERY_WORKER);
    }
}

/* The loop's alarm: iwarp_alarm_open. */
void iwarp_defer_tick(void *worker);

/*
 * The connection has ended: it leaves the list.  conn.lock held, and the caller has a reference.
 * drop_all: the loop ends.
 */
void iwarp_defer_forget(struct iwarp_conn *conn);
void iwarp_defer_drop_all(struct iwarp_worker *w);

#endif
