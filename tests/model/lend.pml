/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lending a region and taking its STag back: iwarp_region_lend and iwarp_region_settle against
 * iwarp_region_end (src/ddp/ddp_region.h, ddp_bind.c). Once the latter has waited, no octet of the
 * memory changes any more. The STag is 1 while it is valid, DATA stands for the memory.
 *
 * holds:
 * fails: LOOK_RELAXED     the STag is compared before the lend is seen
 * fails: CLEAR_RELAXED    the lends are looked at before it is seen that the STag is gone
 * fails: SETTLE_RELAXED   the lend is over before its last octet is seen
 */
#define THREADS 2
#define PLACES  3
#include "arm.pml"

#define STAG  0
#define LENDS 1
#define DATA  2

#define USER  0
#define OWNER 1

bool over;   /* the owner has its memory back */
bool inside; /* the user is at it */
byte batches;

init { mem[STAG] = 1 }

active proctype user()
{
    byte was, stag;

    do
    :: batches < 2 ->
        batches++;
        CHANGE(USER, LENDS, was, was + 1);
#ifdef LOOK_RELAXED
        LOAD(USER, STAG, stag);
#else
        LOAD_ACQUIRE(USER, STAG, stag);
#endif
        if
        :: stag == 1 ->
            inside = true;
            assert(!over);
            STORE(USER, DATA, batches);
            inside = false
        :: else
        fi;
#ifdef SETTLE_RELAXED
        CHANGE_RELAXED(USER, LENDS, was, was - 1)
#else
        CHANGE_RELEASE(USER, LENDS, was, was - 1)
#endif
    :: else -> break
    od
}

active proctype owner()
{
    byte lends;

    mem[STAG] == 1; /* it has begun */
#ifdef CLEAR_RELAXED
    STORE(OWNER, STAG, 0);
#else
    STORE_RELEASE(OWNER, STAG, 0);
#endif
    do
    :: LOAD_ACQUIRE(OWNER, LENDS, lends);
        if
        :: lends == 0 -> break
        :: else
        fi
    od;
    over = true;
    assert(!inside && !waits[AT(USER, DATA)])
}
