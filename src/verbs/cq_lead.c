/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/lead.h"

#include "base/process.h"
#include "loop/loop.h"
#include "verbs/cq.h"
#include "verbs/defer.h"
#include "verbs/device.h"
#include "verbs/progress.h"

/* A queue that counts already goes on to count: another thread may sleep for it. */
bool iwarp_cq_arm_to_lead(struct iwarp_cq *cq, bool solicited_only)
{
    IWARP_UNCANCELLED;

    if (!IWARP_MAY_CALL(cq->device) || !iwarp_progress_leads(cq->device)) {
        return false;
    }
    iwarp_mutex_lock(&cq->lock);
    iwarp_cq_set_armed(cq, solicited_only && cq->armed != CQ_ANY ? CQ_SOLICITED : CQ_ANY,
                       cq->counted);
    iwarp_mutex_unlock(&cq->lock);
    iwarp_defer_flush_all(cq->device);
    iwarp_progress_pause(cq->device);
    return true;
}

void iwarp_cq_arm_aside(struct iwarp_cq *cq)
{
    IWARP_UNCANCELLED;

    iwarp_mutex_lock(&cq->lock);
    iwarp_cq_set_armed(cq, CQ_ANY, cq->counted);
    iwarp_mutex_unlock(&cq->lock);
    iwarp_progress_pause(cq->device);
    iwarp_defer_flush_all(cq->device);
}

bool iwarp_cq_is_kept(const struct iwarp_device *device)
{
    return iwarp_progress_earned(device) && iwarp_sleepers_any(&device->sleepers);
}

void iwarp_cq_lead_for(struct iwarp_cq *cq)
{
    iwarp_mutex_lock(&cq->lock);
    iwarp_cq_set_armed(cq, cq->armed, false);
    iwarp_mutex_unlock(&cq->lock);
}

bool iwarp_cq_arm_to_sleep(struct iwarp_cq *cq)
{
    iwarp_mutex_lock(&cq->lock);
    bool begins = cq->armed != CQ_QUIET && !cq->counted;
    iwarp_cq_set_armed(cq, cq->armed, true);
    iwarp_mutex_unlock(&cq->lock);
    return begins;
}

bool iwarp_cq_may_lead(struct iwarp_device *device, bool beside)
{
    IWARP_UNCANCELLED;

    iwarp_defer_flush_all(device);
    return iwarp_progress_may_wait(device, -1, beside);
}

bool iwarp_cq_lead(struct iwarp_device *device, struct iwarp_beside *beside,
                   bool (*done)(void *arg), void *arg)
{
    IWARP_UNCANCELLED;

    return iwarp_progress_wait(device, beside, done, arg);
}

bool iwarp_cq_leads(const struct iwarp_device *device)
{
    return iwarp_progress_leads(device) && iwarp_progress_is_mine(device);
}

void iwarp_cq_lose(struct iwarp_device *device)
{
    iwarp_progress_lost(device);
}

bool iwarp_cq_runs_loop(struct iwarp_device *device)
{
    return iwarp_loop_is_current(&device->worker[0].loop);
}

void iwarp_cq_begin_sleep(struct iwarp_device *device)
{
    IWARP_UNCANCELLED;

    iwarp_sleepers_begin(&device->sleepers, false);
    iwarp_progress_pause(device);
    iwarp_defer_flush_all(device);
    iwarp_progress_recall(device);
}

void iwarp_cq_end_sleep(struct iwarp_device *device)
{
    iwarp_sleepers_end(&device->sleepers);
}

void iwarp_cq_wake_leader(struct iwarp_device *device)
{
    struct iwarp_loop *l = &device->worker[0].loop;

    /* A leader that does not sleep yet looks at what it waits for before it does. */
    if (atomic_load(&l->lease.owner) == IWARP_LEASE_GUEST && atomic_load(&l->lease.asleep) &&
        !iwarp_loop_is_current(l)) {
        IWARP_UNCANCELLED;
        iwarp_loop_wake(l);
    }
}

void iwarp_cq_recall(struct iwarp_device *device)
{
    IWARP_UNCANCELLED;

    iwarp_progress_recall(device);
}

void iwarp_cq_waited(struct iwarp_device *device)
{
    iwarp_progress_waited(device);
}

void iwarp_cq_post_task(struct iwarp_device *device, struct iwarp_task *task)
{
    iwarp_loop_post_soon(&device->worker[0].loop, task);
}

struct iwarp_device *iwarp_cq_device(struct iwarp_cq *cq)
{
    return cq->device;
}
