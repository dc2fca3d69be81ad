/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waking a loop: iwarp_loop_signal (src/loop/loop.c) and libuv's uv_async_send, which sends
 * nothing when it sees, by a relaxed load, that something is on its way. The caller says what it
 * wants (`visits` of a lease, by a read-modify-write), and another wake-up is on its way
 * already. The loop does not sleep with the wish unseen.
 *
 * holds: WITH_FENCE
 * holds: BY_LOCK  what is wanted lies in a list under a lock (iwarp_loop_post): no fence is needed
 * fails:          libuv looks before the wish is seen
 */
#define THREADS 2
#define PLACES  3
#include "arm.pml"

#define WISH    0
#define PENDING 1 /* of the uv_async_t */
#define LIST    2 /* loop.lock */

#define CALLER 0
#define LOOP   1

bool event; /* of the loop's eventfd: a system call, so seen at once */
bool begun;

init { atomic { mem[PENDING] = 1; event = true; begun = true } }

inline async_send(t)
{
    LOAD(t, PENDING, x);
    if
    :: x == 0 ->
        CHANGE(t, PENDING, x, 1);
        if
        :: x == 0 -> FENCE(t); event = true
        :: else
        fi
    :: else
    fi
}

active proctype caller()
{
    byte x;

    begun;
#ifdef BY_LOCK
    LOCK(CALLER, LIST);
    STORE(CALLER, WISH, 1);
    UNLOCK(CALLER, LIST);
#else
    CHANGE(CALLER, WISH, x, 1);
#endif
#ifdef WITH_FENCE
    FENCE(CALLER);
#endif
    async_send(CALLER)
}

active proctype loop()
{
    byte x;

    begun;
    do
    :: event ->
        event = false;
        CHANGE(LOOP, PENDING, x, 0);
#ifdef BY_LOCK
        LOCK(LOOP, LIST);
        LOAD(LOOP, WISH, x);
        UNLOCK(LOOP, LIST);
#else
        LOAD_ACQUIRE(LOOP, WISH, x);
#endif
        if
        :: x -> break
        :: else
        fi
    od
}
