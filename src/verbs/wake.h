/* SPDX-License-Identifier: BSD-2-Clause */
/* Waking the loop of a worker, from any thread; on_wake (worker.c) then runs calls and kicks. */
#ifndef IWARP_VERBS_WAKE_H
#define IWARP_VERBS_WAKE_H

#include "base/fence.h"
#include "verbs/verbs.h"

/*
 * libuv, but for the newest, first looks by a relaxed load whether something is on its way already.
 * Without the fence that could be before others see what the loop is woken for.
 */
static inline void iwarp_worker_wake(struct iwarp_worker *w)
{
    iwarp_fence();
    uv_async_send(&w->wake);
}

#endif
