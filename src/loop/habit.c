/* SPDX-License-Identifier: BSD-2-Clause */
/* The transitions are the table in habit.h. Sizes here are in units of work, not in time. */
#include "loop/habit.h"

#define FIRST       16    /* quick units in a row that earn the lease */
#define PENALTY     64    /* units, the smallest penalty */
#define MAX_PENALTY 65536 /* so a thread that has changed its ways gets the lease in the end */
#define GOOD        1024  /* units that make a lease worth the change of threads */
#define SLOW_UNITS  4     /* in a row, since one alone may be the scheduler's doing */

/*
 * The lease has cost other threads time. The penalty doubles each time, so a thread that alternates
 * between polling and long computations soon stops trying.
 */
static void charge(struct iwarp_habit *h)
{
    h->owed = h->penalty ? h->penalty : PENALTY;
    h->penalty = h->owed < MAX_PENALTY ? h->owed * 2 : MAX_PENALTY;
    h->good = 0;
}

void iwarp_habit_end(struct iwarp_habit *h)
{
    h->earned = false;
    h->streak = 0;
    h->slow = 0;
}

/*
 * Half of the streak stays: a thread that was slow once earns the lease again after half as many
 * quick units, and pays no penalty.
 */
void iwarp_habit_slip(struct iwarp_habit *h)
{
    unsigned streak = h->streak / 2;

    iwarp_habit_end(h);
    h->streak = streak;
}

void iwarp_habit_pause(struct iwarp_habit *h)
{
    bool had = h->earned;

    iwarp_habit_end(h);
    if (had && h->good < GOOD) {
        charge(h);
    } else if (had) {
        h->good = 0;
    }
}

void iwarp_habit_lost(struct iwarp_habit *h)
{
    iwarp_habit_end(h);
    charge(h);
}

/* Count one unit of a thread that has the lease. `slow` counts units in a row only. */
static void use(struct iwarp_habit *h, bool quick)
{
    h->slow = quick ? 0 : h->slow + 1;
    if (++h->good % GOOD == 0) {
        h->penalty /= 2;
        h->penalty = h->penalty > PENALTY ? h->penalty : PENALTY;
    }
    if (h->slow == SLOW_UNITS) {
        iwarp_habit_pause(h);
    }
}

/*
 * One slow unit halves the streak instead of ending it: on a busy machine every thread is preempted
 * now and then.
 */
bool iwarp_habit_unit(struct iwarp_habit *h, bool quick)
{
    if (h->earned) {
        use(h, quick);
    } else if (h->owed > 0) {
        h->owed -= quick;
    } else {
        h->streak = quick ? h->streak + 1 : h->streak / 2;
        h->earned = h->streak >= FIRST;
    }
    return h->earned;
}
