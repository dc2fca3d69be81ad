/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting a receive while the stream ends: iwarp_post_recv against iwarp_qp_set_state and flush
 * (src/verbs/post.c, qp.c). Either the end is seen by the poster, which then flushes, or the receive
 * by the thread that ends the stream.
 *
 * holds:
 * fails: STATE_RELAXED  the state is looked at before the receive is seen
 * fails: END_RELAXED    the receives are looked at before the end is seen
 */
#define THREADS 2
#define PLACES  2
#include "arm.pml"

#define HEAD  0 /* receives that were posted */
#define STATE 1 /* 1: ERROR */

#define POSTER 0
#define ENDER  1

bool flushed;
byte ended;

active proctype poster()
{
    byte state;

    STORE_RELEASE(POSTER, HEAD, 1);
#ifdef STATE_RELAXED
    LOAD(POSTER, STATE, state);
#else
    CHANGE(POSTER, STATE, state, state);
#endif
    if
    :: state == 1 -> flushed = true
    :: else
    fi;
    ended++
}

active proctype ender()
{
    byte was, head;

#ifdef END_RELAXED
    STORE(ENDER, STATE, 1);
    LOAD(ENDER, HEAD, head);
#else
    CHANGE(ENDER, STATE, was, 1);
    LOAD_ACQUIRE(ENDER, HEAD, head);
#endif
    if
    :: head == 1 -> flushed = true
    :: else
    fi;
    ended++
}

active proctype judge()
{
    ended == THREADS;
    assert(flushed)
}
