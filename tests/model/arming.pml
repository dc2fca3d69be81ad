/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for a completion: begin_wait and is_empty, which takes no lock, against iwarp_cq_push and
 * tell_if_armed (src/verbs/cq.c). Nobody sleeps beside a completion.
 *
 * holds:
 * fails: LOOK_FIRST  the queue is looked at before it is armed
 */
#define THREADS 2
#define PLACES  3
#include "arm.pml"

#define TAIL  0
#define ARMED 1
#define QUEUE 2 /* cq.lock */

#define WAITER 0
#define PUSHER 1

bool told; /* the eventfd */

inline arm(t)
{
    LOCK(t, QUEUE);
    STORE(t, ARMED, 1);
    UNLOCK(t, QUEUE)
}

active proctype waiter()
{
    byte tail;

#ifdef LOOK_FIRST
    LOAD_ACQUIRE(WAITER, TAIL, tail);
    arm(WAITER);
#else
    arm(WAITER);
    LOAD_ACQUIRE(WAITER, TAIL, tail);
#endif
    if
    :: tail == 0 ->
        told;
        LOAD_ACQUIRE(WAITER, TAIL, tail);
        assert(tail == 1)
    :: else
    fi
}

active proctype pusher()
{
    byte armed;

    LOCK(PUSHER, QUEUE);
    STORE_RELEASE(PUSHER, TAIL, 1);
    LOAD(PUSHER, ARMED, armed);
    UNLOCK(PUSHER, QUEUE);
    if
    :: armed -> FENCE(PUSHER); told = true /* a system call */
    :: else
    fi
}
