/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lease of a loop: which thread may run it.
 *
 * A loop has a home, its own thread.  The home runs the loop and sleeps in it, unless the loop is
 * out on lease.  Then the home is parked, and other threads, the guests, visit the loop: each visit
 * runs what is ready, or goes on until something is done.
 *
 *   | owner | event                                | action                            | owner |
 *   |-------|--------------------------------------|-----------------------------------|-------|
 *   | HOME  | a guest asks for the loop            | wake the home; it parks           | GUEST |
 *   | GUEST | a guest visits                       | count the visit                   | GUEST |
 *   | GUEST | no visit in one wait of the home,    | the home wakes up and runs        | HOME  |
 *   |       | and no guest sleeps in the loop      |                                   |       |
 *   | GUEST | somebody recalls the lease           | wake the home, or have the guest  | HOME  |
 *   |       |                                      | that sleeps in the loop do so     |       |
 *   | HOME  | somebody recalls the lease           | none, unless a guest has asked    | HOME  |
 *
 * Invariants, which tests/model/lease.pml checks, but for 3: it has no clock.
 *   1. The thread that runs the loop holds `run`.  The home alone writes `owner`, with `run` held:
 *      it is HOME exactly while the home holds `run`.
 *   2. A thread sets `asleep` before it sleeps in the loop.  A guest that asks clears it and wakes
 *      the home up.  Both sides write before they read (sequentially consistent), so one of them
 *      sees the other: no wake-up is lost.
 *   3. A lease ends by itself: the home runs the loop two park times after the last visit, at the
 *      latest.  The park time is IWARP_PARK_MS, and IWARP_PARK_BUSY_MS at most beside a guest that
 *      has visited without a pause, while no queue is armed; so it is with IWARP_PARK_LONG_MS
 *      beside a guest that is away for long.  Beside one that is away briefly it is
 *      IWARP_PARK_BRIEF_NS.  An open lease can be out while a sleeper waits; then it is
 *      IWARP_PARK_ARMED_NS.  Where another kind of guest takes the lease over, the park time that
 *      has begun ends as it would have.
 *   4. Nobody takes or keeps a lease that must be earned while a sleeper waits to be told about a
 *      completion, since the sleeper would wait for the guest's next visit.  But sleepers may be
 *      passed over (sleepers.h): then the park time is IWARP_PARK_MS at most.
 *   5. A recall ends: the home runs the loop as soon as the visit in progress is over.
 */
#ifndef IWARP_LOOP_LEASE_H
#define IWARP_LOOP_LEASE_H

#include "loop/sleepers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define IWARP_PARK_MS       2      /* the park time; so long a guest waits for the loop, too */
#define IWARP_PARK_BUSY_MS  8      /* the longest, beside a guest that visits without a pause */
#define IWARP_PARK_ARMED_NS 200000 /* the park time of an open loop while a sleeper waits */
#define IWARP_PARK_BRIEF_NS 500000 /* beside a guest that is away briefly, */
#define IWARP_PARK_LONG_MS  16     /* or for long */

struct iwarp_beside;
struct iwarp_loop;

enum iwarp_lease_owner { IWARP_LEASE_HOME, IWARP_LEASE_GUEST };

/* How long a guest may stay away between two visits before it counts as one that has stopped. */
enum iwarp_lease_away {
    IWARP_AWAY_USUALLY,
    IWARP_AWAY_BRIEFLY, /* it comes again soon, or not at all: verbs/spin.h */
    IWARP_AWAY_LONG     /* its wait told it of many things, which it works through first */
};

struct iwarp_lease {
    pthread_mutex_t run;            /* held by the thread that runs the loop */
    _Atomic unsigned owner;         /* enum iwarp_lease_owner */
    _Atomic unsigned wanted;        /* recalls since the home took the loop last */
    _Atomic uint64_t recalls;       /* since the loop was opened: for statistics */
    _Atomic unsigned visits;        /* by guests, and times that guests asked */
    unsigned seen;                  /* visits when the home took the loop; under `run` */
    _Atomic bool asleep;            /* a thread stays in the loop, and sleeps there if need be: it
                                     * is woken up there.  A visit does not set it; a guest that
                                     * asks the home clears it */
    int nudge;                      /* eventfd that wakes the home while it is parked */
    _Atomic unsigned away;          /* enum iwarp_lease_away */
    bool open;                      /* every thread may visit at any time; else a thread earns it */
    const struct iwarp_loop *outer; /* that the visitor runs beside; under `run` */
    struct iwarp_sleepers *sleepers;
};

static inline bool iwarp_lease_is_out(const struct iwarp_lease *s)
{
    return atomic_load_explicit(&s->owner, memory_order_relaxed) == IWARP_LEASE_GUEST;
}

/* --- guests: guest.c ------------------------------------------------------------------------- */

/*
 * Become the thread that runs the loop.  take asks the home for it if need be, and waits within_ms
 * at most, since the home may wait for what this thread holds; it fails while the lease is
 * recalled.  enter is for calls, which are over at once: a recall does not keep it out.  True: this
 * thread runs the loop until iwarp_lease_leave.
 */
bool iwarp_lease_take(struct iwarp_loop *l, unsigned within_ms);
bool iwarp_lease_enter(struct iwarp_loop *l, unsigned within_ms);
void iwarp_lease_leave(struct iwarp_loop *l);

/* Run what is ready, without waiting.  False: the lease is over, the home runs the loop or will. */
bool iwarp_lease_visit(struct iwarp_loop *l);

/* Ask the home for the loop, without waiting: a later visit finds it out on lease. */
void iwarp_lease_ask(struct iwarp_loop *l);

/* The same for a loop that is out on lease and that nobody visits: does not keep its home parked.
 */
void iwarp_lease_help(struct iwarp_loop *l);

/*
 * After take: run the loop until done(arg), sleeping in it, and leave it.  With `beside` (else
 * NULL) the loop is run once at least, and the caller's done(arg) looks whether the wait is over.
 * False: patience, 2 to 4 ms, was over first.  A thread that makes done(arg) true, and does not run
 * the loop, wakes it up.
 */
bool iwarp_lease_stay(struct iwarp_loop *l, struct iwarp_beside *beside, bool (*done)(void *arg),
                      void *arg);

/* --- home.c ---------------------------------------------------------------------------------- */

/*
 * The home is to run the loop again.  For a thread that is about to sleep, or that stops visiting.
 * Does nothing while the home stays in the loop; else the recall counts in `wanted` and `recalls`.
 */
void iwarp_lease_recall(struct iwarp_loop *l);

/* Wake the home where it is parked. */
void iwarp_lease_nudge(struct iwarp_loop *l);

/* The home's thread.  launch: 0, or -errno and nothing is left.  join: after the loop has ended. */
int iwarp_home_launch(struct iwarp_loop *l);
void iwarp_home_join(struct iwarp_loop *l);

#endif
