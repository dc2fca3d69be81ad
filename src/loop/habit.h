/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Has a thread earned to run a loop itself?  A policy without clock, I/O and locks: what the thread
 * does comes in as units, and the answer comes out.  A unit is one wait of a thread that waits, or
 * one round of polls of a thread that polls; it is quick if the thread was back at once.
 *
 *   | state    | event                          | action                       | next state      |
 *   |----------|--------------------------------|------------------------------|-----------------|
 *   | counting | quick unit                     | count one more in a row      | earned, at FIRST |
 *   | counting | slow unit                      | halve the count              | counting        |
 *   | owing    | quick unit                     | owe one less                 | counting, at 0  |
 *   | owing    | slow unit                      | none                         | owing           |
 *   | earned   | unit                           | halve the penalty at GOOD    | earned          |
 *   | earned   | SLOW_UNITS slow units in a row | as for a pause               | as for a pause  |
 *   | earned   | pause after GOOD units         | none                         | counting        |
 *   | earned   | pause before, or lost          | owe the penalty, double it   | owing           |
 *   | earned   | slip                           | halve the count              | counting        |
 *   | any      | end                            | set the count to 0           | counting, owing |
 *
 * A zeroed struct is a thread that nobody knows yet.  One thread at a time; it owns no memory.
 */
#ifndef IWARP_LOOP_HABIT_H
#define IWARP_LOOP_HABIT_H

#include <stdbool.h>

struct iwarp_habit {
    bool earned;
    unsigned owed;    /* penalty left: quick units that do not count yet */
    unsigned streak;  /* quick units in a row */
    unsigned penalty; /* what is owed after the next lease that costs others time; 0: the least */
    unsigned good;    /* units with the lease since it last cost others time */
    unsigned slow;    /* slow units in a row with the lease */
};

/* Count one unit.  True: the thread has the lease, from now on or still. */
bool iwarp_habit_unit(struct iwarp_habit *h, bool quick);

/* The thread has the lease and was slow, in a case where one slow unit is enough to lose it. */
void iwarp_habit_slip(struct iwarp_habit *h);

/* The thread gives the lease back, and other threads lost no time by it. */
void iwarp_habit_end(struct iwarp_habit *h);

/* The thread stops for a while.  A lease that was short was not worth the change. */
void iwarp_habit_pause(struct iwarp_habit *h);

/* Others had to run the loop because the thread stayed away, or the thread could not have it. */
void iwarp_habit_lost(struct iwarp_habit *h);

#endif
