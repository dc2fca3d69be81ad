/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one lock of librdmacm.so.1, and what a fork means for what it guards. See cm.h.
 *
 * Cancellation is off while the lock is held: a thread that was cancelled with it held would leave
 * it locked for ever. The previous setting of that thread is kept under the lock itself, so that
 * callers need no variable for it.
 */
#include "compat/cm.h"

#include "base/process.h"

#include <assert.h>

static pthread_mutex_t cm_lock = PTHREAD_MUTEX_INITIALIZER;
static int cancel_before; /* of the thread that holds cm_lock, which guards this and what follows */

/* Called in a forked child: one function of each file that must forget what the parent had. */
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

/* Other threads use cancel_before while this one waits, so it is saved and stored again. */
void cm_hold_wait(pthread_cond_t *cond)
{
    int before = cancel_before;

    pthread_cond_wait(cond, &cm_lock);
    cancel_before = before;
}

/* --- fork ------------------------------------------------------------------------------------ */

/* A fork waits for the lock, so the child gets ids and channels in a consistent state. */
static void before_fork(void)
{
    pthread_mutex_lock(&cm_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&cm_lock);
}

/* Calls with ids of the parent are refused (cm_id_usable), and native objects refuse calls of a
 * child by themselves; here lists and sockets are given up. */
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
    /* Prepare handlers run in reverse order of registration. Those of libibverbs are registered
     * first, so a fork takes cm_lock before its lock, in the order of all other code. */
    (void)iwarp_compat_generation();
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
