/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mutexes that can be switched off for a whole object: with embedded progress everything runs on
 * one thread, which then pays for none.
 */
#ifndef IWARP_BASE_MUTEX_H
#define IWARP_BASE_MUTEX_H

#include "base/fence.h"

#include <pthread.h>
#include <stdbool.h>

struct iwarp_mutex {
    pthread_mutex_t mutex;
    bool off;
};

static inline void iwarp_mutex_init(struct iwarp_mutex *m, bool off)
{
    m->off = off;
    pthread_mutex_init(&m->mutex, NULL);
}

static inline void iwarp_mutex_fini(struct iwarp_mutex *m)
{
    pthread_mutex_destroy(&m->mutex);
}

static inline void iwarp_mutex_lock(struct iwarp_mutex *m)
{
    if (!m->off) {
        pthread_mutex_lock(&m->mutex);
    }
}

/* False: somebody else has it. */
static inline bool iwarp_mutex_trylock(struct iwarp_mutex *m)
{
    return m->off || pthread_mutex_trylock(&m->mutex) == 0;
}

static inline void iwarp_mutex_unlock(struct iwarp_mutex *m)
{
    if (!m->off) {
        pthread_mutex_unlock(&m->mutex);
    }
}

/*
 * A thread that finds the lock taken leaves a note and tries once more; a thread that has released
 * the lock looks for notes. No note may be lost: either the second try succeeds, or the other
 * thread sees the note. So this fence stands between the note and the second try, and between the
 * release and the look (seq_cst). x86 releases a mutex by a locked instruction, and ARMv8 by a
 * release store, which no later seq_cst load overtakes: nothing is needed there
 * (tests/model/note.pml, docs/memory-order.md). POSIX promises none of it.
 */
static inline void iwarp_mutex_fence(void)
{
#if !defined(__x86_64__) && !defined(__i386__) && !defined(__aarch64__)
    iwarp_fence();
#endif
}

#endif
