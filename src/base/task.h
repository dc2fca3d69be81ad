/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Something that a loop is to do soon, part of the object that it is done for. Each queued task
 * holds one of the object's references, and run() receives it.
 */
#ifndef IWARP_BASE_TASK_H
#define IWARP_BASE_TASK_H

#include <stdbool.h>

struct iwarp_task {
    void (*run)(void *arg);
    void *arg;
    _Atomic unsigned *refs;
    struct iwarp_task *next; /* it and `queued` are guarded by loop.lock */
    bool queued;
};

#endif
