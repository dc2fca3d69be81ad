/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread whose call of the drop-in libraries, or of the native one inside it, returns late: these
 * calls allow cancellation again when they have given all locks back, and are about to return.
 */
#ifndef TESTS_COMPAT_LATE_H
#define TESTS_COMPAT_LATE_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

static _Thread_local bool returns_late;       /* the next call of this thread does */
static _Thread_local bool inner_returns_late; /* the next one inside a call of this thread does */
static _Atomic bool is_late, may_return;

/* In the place of the C library's. */
__attribute__((visibility("default"))) int pthread_setcancelstate(int state, int *before)
{
    union {
        void *found;
        int (*call)(int, int *);
    } real = {.found = dlsym(RTLD_NEXT, "pthread_setcancelstate")};

    if ((returns_late && state == PTHREAD_CANCEL_ENABLE) ||
        (inner_returns_late && state == PTHREAD_CANCEL_DISABLE && !before)) {
        returns_late = inner_returns_late = false;
        atomic_store(&is_late, true);
        while (!atomic_load(&may_return)) {
            usleep(1000);
        }
    }
    return real.call(state, before);
}

static inline void await_late(void)
{
    while (!atomic_load(&is_late)) {
        usleep(1000);
    }
}

static inline void let_return(void)
{
    atomic_store(&is_late, false);
    atomic_store(&may_return, true);
}

#endif
