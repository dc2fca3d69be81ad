/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one lock of librdmacm.so.1, and what a fork means for what it guards. See cm.h.
 */
#include "compat/cm.h"

#include "base/process.h"

#include <assert.h>

static pthread_mutex_t cm_lock = PTHREAD_MUTEX_INITIALIZER;
static int cancel_before; /* of the thread that holds it; under it, as all that follows */

/* For the child of a fork, one of each file that has something to forget. */
enum { FORGETTERS = 2 };
static void (*forgetters[FORGETTERS])(void);

void cm_hold(void)
{
    int before = iwarp_process_cancel_off();

    pthread_mutex_lock(&cm_lock);
    cancel_before = before;
}

void cm_release(void)
{
    int before = cancel_before;

    pthread_mutex_unlock(&cm_lock);
    iwarp_process_cancel_back(&before);
}

void cm_hold_wait(pthread_cond_t *cond)
{
    int before = cancel_before;

    pthread_cond_wait(cond, &cm_lock);
    cancel_before = before;
}

/* --- fork ------------------------------------------------------------------------------------ */

static void before_fork(void)
{
    pthread_mutex_lock(&cm_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&cm_lock);
}

/* The parent's ids are out of bounds (cm_id_usable), its native objects refuse by themselves. */
static void after_fork_in_child(void)
{
    IWARP_UNCANCELLED;

    for (unsigned i = 0; i < FORGETTERS && forgetters[i]; i++) {
        forgetters[i]();
    }
    pthread_mutex_unlock(&cm_lock);
}

static void watch(void)
{
    (void)iwarp_compat_generation(); /* libibverbs' handlers are to run inside of these */
    (void)pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

void cm_process_watch(void (*forget)(void))
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    unsigned i = 0;

    pthread_once(&once, watch);
    cm_hold();
    while (i < FORGETTERS && forgetters[i] && forgetters[i] != forget) {
        i++;
    }
    assert(i < FORGETTERS);
    forgetters[i] = forget;
    cm_release();
}
