/* SPDX-License-Identifier: BSD-2-Clause */
/* The preload library's way to make a thread, for tests of what needs nothing else of it. */
#ifndef TESTS_OWN_THREAD_H
#define TESTS_OWN_THREAD_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

static _Atomic unsigned made; /* threads */
static bool refuses;          /* none can be made */

/* That of the drop-in library, without what it does to signals. */
int iwarp_compat_thread(const char *name, void *(*run)(void *arg), void *arg);
int iwarp_compat_thread(const char *name, void *(*run)(void *arg), void *arg)
{
    pthread_t thread;

    (void)name;
    if (refuses) {
        return EAGAIN;
    }
    made++;
    const int error = pthread_create(&thread, NULL, run, arg);
    return error ? error : pthread_detach(thread);
}

#endif
