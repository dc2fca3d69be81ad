/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting while another thread has the connection: iwarp_qp_claim, iwarp_qp_drive, send_posted and
 * do_pending (src/verbs/conn_drive.c). Two threads post to one queue pair, and a worker has the
 * connection's lock for a while. In the end all that was posted is sent.
 *
 * holds:
 * holds: ARMV7 WITH_FENCE  the fence of iwarp_mutex_fence (src/base/mutex.h)
 * fails: ARMV7             without it
 * fails: ONE_TRY           the thread that leaves a note does not try the lock once more
 * fails: NOTE_RELAXED      the lock is tried before the note is seen
 * fails: LOOK_RELAXED      the holder looks for notes before it is seen that the lock is free
 */
#define THREADS 3
#define PLACES  5
#include "arm.pml"

#define HEAD    0 /* requests that were posted */
#define POSTED  1 /* the poster's note */
#define PENDING 2 /* the same, for holders with a reference to the connection */
#define CONN    3 /* conn.lock */
#define POST    4 /* qp.post_lock */

#define WORKER 2

byte sent;  /* requests; with the lock held */
byte ended; /* threads */

#ifdef WITH_FENCE
#define MUTEX_FENCE(t) FENCE(t)
#else
#define MUTEX_FENCE(t) skip
#endif
#ifdef NOTE_RELAXED
#define LEAVE(t, p) STORE(t, p, 1)
#else
#define LEAVE(t, p) STORE_RELEASE(t, p, 1)
#endif
#ifdef LOOK_RELAXED
#define LOOK(t, p, x) LOAD(t, p, x)
#else
#define LOOK(t, p, x) LOAD_ACQUIRE(t, p, x)
#endif

inline claim(t)
{
    TRYLOCK(t, CONN, got);
    if
    :: !got ->
        LEAVE(t, POSTED);
        LEAVE(t, PENDING);
        MUTEX_FENCE(t);
#ifndef ONE_TRY
        TRYLOCK(t, CONN, got)
#endif
    :: else
    fi
}

inline take_note(t, p)
{
    LOAD(t, p, x);
    if
    :: x -> CHANGE(t, p, x, 0)
    :: else
    fi
}

inline send_posted(t)
{
    take_note(t, POSTED);
    take_note(t, PENDING);
    LOAD_ACQUIRE(t, HEAD, x);
    sent = x
}

inline release(t)
{
    UNLOCK(t, CONN);
    MUTEX_FENCE(t)
}

inline post(t)
{
    LOCK(t, POST);
    LOAD(t, HEAD, x);
    STORE_RELEASE(t, HEAD, x + 1);
    claim(t);
    UNLOCK(t, POST);
    do
    :: got ->
        send_posted(t);
        release(t);
        got = false;
        LOOK(t, POSTED, x);
        if
        :: x ->
            LOCK(t, POST);
            claim(t);
            UNLOCK(t, POST)
        :: else
        fi
    :: else -> break
    od;
    ended++
}

active proctype first()  { byte x; bool got; post(0) }
active proctype second() { byte x; bool got; post(1) }

active proctype worker()
{
    byte x;
    bool got;

    LOCK(WORKER, CONN);
    release(WORKER);
    do
    :: LOOK(WORKER, PENDING, x);
        if
        :: x -> TRYLOCK(WORKER, CONN, got)
        :: else -> break
        fi;
        if
        :: got ->
            send_posted(WORKER);
            release(WORKER);
            got = false
        :: else -> break
        fi
    od;
    ended++
}

active proctype judge()
{
    ended == THREADS && stores[0] == 0 && stores[1] == 0 && stores[2] == 0;
    assert(mem[HEAD] == 2 && sent == 2)
}
