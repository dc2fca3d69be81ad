/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The threads that wait to be told about a completion.  A thread that arms a queue is about to
 * sleep, so no guest may keep the loop from its home (loop/lease.h, invariant 4).  But a queue may
 * stay armed for good, because nothing completes there: UCX leaves its queues armed, those that it
 * polls too.  So while a thread polls without a pause, queues are *passed over* once no queue was
 * armed for long; any arming makes all of them count again.  A queue that is passed over is told as
 * the guest visits the loop, or by the home 4 ms after the guest's last visit.  Each time that the
 * home has to do it, "long" becomes twice as long, up to a limit.
 *
 * Invariant: a thread that arms a queue counts as a sleeper once `begin` has returned, and with it
 * each call of `pass_over` that was under way then (tests/model/sleepers.pml).
 *
 * Any thread, no lock.  It owns no memory; zeroed, nobody sleeps.
 */
#ifndef IWARP_LOOP_SLEEPERS_H
#define IWARP_LOOP_SLEEPERS_H

#include <stdatomic.h>
#include <stdbool.h>

struct iwarp_sleepers {
    _Atomic unsigned armed;  /* queues */
    _Atomic unsigned arms;   /* how often one was armed */
    _Atomic unsigned passed; /* so many of `armed` are passed over, or more */
    _Atomic unsigned missed; /* how often a guest stayed away while they were */
};

/*
 * A queue is armed, perhaps again.  `arms` is counted up first, since a thread that passes over
 * queues looks at it last.
 */
static inline void iwarp_sleepers_begin(struct iwarp_sleepers *s, bool was_armed)
{
    atomic_fetch_add(&s->arms, 1);
    atomic_store(&s->passed, 0);
    if (!was_armed) {
        atomic_fetch_add(&s->armed, 1);
    }
}

static inline void iwarp_sleepers_end(struct iwarp_sleepers *s)
{
    atomic_fetch_sub(&s->armed, 1);
}

/* Is a queue armed, passed over or not? */
static inline bool iwarp_sleepers_armed(const struct iwarp_sleepers *s)
{
    return atomic_load(&s->armed) > 0;
}

/* Is one armed that is not passed over?  `armed` is read first, as `begin` writes it last. */
static inline bool iwarp_sleepers_any(const struct iwarp_sleepers *s)
{
    unsigned armed = atomic_load(&s->armed);

    return armed > 0 && armed > atomic_load(&s->passed);
}

/* A guest has stayed away, without a word. */
static inline void iwarp_sleepers_missed(struct iwarp_sleepers *s)
{
    if (iwarp_sleepers_armed(s) && !iwarp_sleepers_any(s)) {
        atomic_fetch_add(&s->missed, 1);
    }
}

/* Pass over what is armed, unless one was armed since `arms` was read.  False: it was. */
static inline bool iwarp_sleepers_pass_over(struct iwarp_sleepers *s, unsigned arms)
{
    unsigned armed = atomic_load(&s->armed);

    if (atomic_load(&s->arms) != arms) {
        return false;
    }
    atomic_store(&s->passed, armed);
    if (atomic_load(&s->arms) != arms) {
        atomic_store(&s->passed, 0);
        return false;
    }
    return true;
}

#endif
