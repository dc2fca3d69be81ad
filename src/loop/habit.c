/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/habit.h"

#define FIRST       16 /* quick units in a row that earn the lease */
#define PENALTY     64 /* units, the least */
#define MAX_PENALTY 65536
#define GOOD        1024 /* units that make a lease worth the change of threads */
#define SLOW_UNITS  4

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
