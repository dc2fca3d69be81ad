/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looking an STag up while the table grows: iwarp_region_lend against grow, enter and move_up
 * (src/ddp/ddp_region.c). The table has one entry and comes to have two; REGION moves up, and then
 * another one takes the place that it had. A lookup of REGION finds it, at any time.
 *
 * holds:
 * fails: ONE_LOOK      a lookup that misses does not look whether the size has changed
 * fails: CLEAR_FIRST   the old place is cleared before the new size is known
 * fails: SIZE_RELAXED  the new size is seen before what has moved
 */
#define THREADS 2
#define PLACES  3
#include "arm.pml"

#define LOW  0
#define HIGH 1
#define MASK 2

#define REGION 1
#define OTHER  2

#define LOOKER 0
#define GROWER 1

bool begun;

init { atomic { mem[LOW] = REGION; begun = true } }

active proctype looker()
{
    byte mask, was, region;

    begun;
    LOAD_ACQUIRE(LOOKER, MASK, mask);
    do
    :: LOAD_ACQUIRE(LOOKER, mask, region);
        if
        :: region == REGION -> break
        :: else
        fi;
        was = mask;
        LOAD_ACQUIRE(LOOKER, MASK, mask);
#ifdef ONE_LOOK
        assert(false);
#endif
        assert(mask != was)
    od
}

active proctype grower()
{
    begun;
    STORE_RELEASE(GROWER, HIGH, REGION);
#ifdef CLEAR_FIRST
    STORE_RELEASE(GROWER, LOW, 0);
#endif
#ifdef SIZE_RELAXED
    STORE(GROWER, MASK, 1);
#else
    STORE_RELEASE(GROWER, MASK, 1);
#endif
#ifndef CLEAR_FIRST
    STORE_RELEASE(GROWER, LOW, 0);
#endif
    STORE_RELEASE(GROWER, LOW, OTHER)
}
