/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mutexes that can be switched off for a whole object: with embedded progress everything runs on
 * one thread, which then pays for none.
 */
#ifndef IWARP_BASE_MUTEX_H
#define IWARP_BASE_MUTEX_H

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

#endif
