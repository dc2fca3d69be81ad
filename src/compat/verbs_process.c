/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process has once: the lock, the number of forks that led to it, and the native device
 * behind all contexts. The device is opened (with its thread) when it is first needed, and again in
 * a forked child, where the parent's device is neither used nor closed. Nothing happens before the
 * first call.
 */
#include "base/guard.h"
#include "base/process.h"
#include "compat/compat.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct iwarp_device *native; /* these under lock */
static unsigned native_born;        /* the generation that opened it */
static void (*renew_in_child)(void);

void iwarp_compat_hold(void)
{
    pthread_mutex_lock(&lock);
}

void iwarp_compat_release(void)
{
    pthread_mutex_unlock(&lock);
}

/* --- fork ------------------------------------------------------------------------------------ */

/* The forking thread has taken the lock in its prepare handler, so the child may give it back. */
static void after_fork_in_child(void)
{
    IWARP_UNCANCELLED;

    if (renew_in_child) {
        renew_in_child();
    }
    iwarp_compat_release();
}

static void watch(void)
{
    iwarp_process_watch(); /* first: prepare handlers run in reverse order, ours before its */
    (void)pthread_atfork(iwarp_compat_hold, iwarp_compat_release, after_fork_in_child);
}

unsigned iwarp_compat_generation(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch);
    return iwarp_process_generation();
}

void iwarp_compat_renew_in_child(void (*renew)(void))
{
    renew_in_child = renew;
}

/* --- the native device ----------------------------------------------------------------------- */

/* The lock is held. */
static struct iwarp_device *open_native(void)
{
    struct iwarp_device *opened;
    const unsigned now = iwarp_process_generation();

    if (native && native_born == now) {
        return native;
    }
    enum iwarp_status status = iwarp_device_open(NULL, &opened);
    if (status == IWARP_OK) {
        status = iwarp_async_deliver_by(opened, iwarp_compat_async_deliver, NULL);
    }
    if (status != IWARP_OK) {
        (void)iwarp_compat_failed("verbs", status, "opening the device");
        return NULL;
    }
    native = opened;
    native_born = now;
    return native;
}

struct iwarp_device *iwarp_compat_device(void)
{
    IWARP_UNCANCELLED;

    (void)iwarp_compat_generation(); /* forks are watched from here on */
    iwarp_compat_hold();
    struct iwarp_device *d = open_native();
    iwarp_compat_release();
    return d;
}

/* --- threads --------------------------------------------------------------------------------- */

int iwarp_compat_thread(const char *name, void *(*run)(void *arg), void *arg)
{
    pthread_t thread;
    int error = iwarp_guard_thread(&thread, run, arg);

    if (error == 0) {
        if (name) {
            (void)pthread_setname_np(thread, name);
        }
        pthread_detach(thread);
    }
    return error;
}
