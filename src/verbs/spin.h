/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that spins on memory: it posts a request and then reads its own memory until an RDMA
 * Write of the peer is there. It makes no call that could run the loop, so the home has to wake up
 * for each Write, and where both share a processor it waits until the scheduler takes that from the
 * program. Such a program posts right after the peer's Write was placed, time after time. Once it
 * has done so often enough, the thread has earned to run the loop (loop/habit.h): its post sends,
 * and goes on until the next Write is placed, STAY_NS at most.
 *
 *   | at a post                                         | action                    |
 *   |---------------------------------------------------|---------------------------|
 *   | of one Write or Send; the peer's Write, the only  | a quick unit              |
 *   | one since the last post, came REACT_NS ago at     |                           |
 *   | most                                              |                           |
 *   | it came earlier, or there was none, or several,   | a slow unit               |
 *   | or another connection received, or a queue was    |                           |
 *   | armed or waited for, or found empty at the last   |                           |
 *   | poll                                              |                           |
 *   | the last stay ended without a Write               | slip, and no unit         |
 *   | a Write came after the last stay, or its lease    | lost, and no unit         |
 *   | was refused or recalled                           |                           |
 *   | the lease is earned                               | the post stays            |
 *   | of anything else while the lease is earned        | slip                      |
 *   | that does not stay, after one that did            | the home has the loop now |
 *
 * A stay ends without a Write after STAY_NS, or when another connection receives, since the program
 * may look at the memory of several. Between two stays nobody runs the loop, so the guest is away
 * briefly: the home is back IWARP_PARK_BRIEF_NS after the last stay, or twice that, and at once
 * after one without a Write. The first stay of a lease waits for the loop, too, IWARP_PARK_MS at
 * most.
 *
 * With threaded progress and one worker. Never with the option `look` off, while a completion queue
 * of the device is armed and not passed over, or on a thread that runs the loop.
 */
#ifndef IWARP_VERBS_SPIN_H
#define IWARP_VERBS_SPIN_H

#include "loop/habit.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct iwarp_conn;
struct iwarp_qp;

struct iwarp_spin {
    struct iwarp_habit habit; /* these with post_lock held */
    bool leads;               /* the last post has stayed, or still does */
    uint64_t writes;          /* of the peer, at the last post that counted; and so: */
    unsigned others, pauses;  /* worker.switches, device.pauses */

    _Atomic bool asked;      /* came_ns is wanted */
    _Atomic int64_t came_ns; /* when octets were found last, as a time of iwarp_now_ns */
    _Atomic unsigned stayed; /* what came of the last stay: spin.c */
    _Atomic uint64_t seen;   /* writes of the peer at its end */
};

/* The thread that runs the loop is about to receive, and has received. conn.lock held. */
void iwarp_spin_receives(struct iwarp_conn *conn);
void iwarp_spin_received(struct iwarp_conn *conn);

/*
 * A lone request is posted to qp, which is connected, and goes out at once: count a unit. True: the
 * post stays; *writes is for iwarp_spin_stay. post_lock held.
 */
bool iwarp_spin_counts(struct iwarp_qp *qp, uint64_t *writes);

/*
 * It is sent: run the loop until the peer has placed more than `writes`. No lock held, with a
 * reference.
 */
void iwarp_spin_stay(struct iwarp_conn *conn, uint64_t writes);

/* The post does not stay. `leads` is set. post_lock held. */
void iwarp_spin_end(struct iwarp_conn *conn);

#endif
