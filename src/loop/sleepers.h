/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who waits to be told about a completion?  A thread that arms a queue is about to sleep, so no
 * guest may keep the loop from its home (loop/lease.h, invariant 4).  But a queue may stay armed
 * for good, because nothing ever completes there: one of the library's own is that, while a program
 * has a queue pair for datagrams, as UCX does to meet its peers.  So queues that were armed for
 * long are *passed over* while a thread polls without a pause.  They are told all the same, as the
 * guest visits the loop, or soon after its last visit.
 *
 * Invariant: whoever arms a queue counts as a sleeper when `begin` returns, whatever other threads
 * pass over meanwhile (tests/model/sleepers.pml).
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
};

/*
 * A queue is armed, which was or was not.  `arms` is counted up first: a thread that passes over
 * what is armed looks at it last.
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
