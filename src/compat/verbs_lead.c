/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For rsockets: running the loop while waiting, tasks for its thread, and options of sockets.
 * base/lead.h and base/sockopt.h are inside libibverbs.so.1, and these functions take them to
 * librdmacm.so.1.
 */
#include "base/beside.h"
#include "base/guard.h"
#include "base/lead.h"
#include "base/sockopt.h"
#include "compat/compat.h"

#include <errno.h>
#include <signal.h>

bool iwarp_compat_arm(struct iwarp_cq *cq)
{
    bool to_lead = iwarp_cq_arm_to_lead(cq, false);

    if (!to_lead) {
        iwarp_cq_arm(cq, false);
    }
    return to_lead;
}

void iwarp_compat_arm_to_sleep(struct iwarp_cq *cq)
{
    iwarp_cq_arm_to_sleep(cq);
}

/* Does a signal wait that `before` lets through, and whose handler ends a call? */
static bool is_interrupted(const sigset_t *before, bool restarts)
{
    struct sigaction action;
    sigset_t pending;

    sigpending(&pending);
    for (int n = 1; n < _NSIG; n++) {
        if (sigismember(&pending, n) == 1 && sigismember(before, n) == 0 &&
            sigaction(n, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
            action.sa_handler != SIG_IGN && !(restarts && (action.sa_flags & SA_RESTART))) {
            return true;
        }
    }
    return false;
}

/* Where faults of memory are blocked, the kernel ends the process at the first one. */
static bool may_fault(struct iwarp_device *device, const sigset_t *blocked)
{
    const bool may = !sigismember(blocked, SIGSEGV) && !sigismember(blocked, SIGBUS);

    if (!may) {
        iwarp_cq_lose(device);
    }
    return may;
}

/*
 * Signals wait meanwhile: a handler may leave by siglongjmp, and the lease would stay with this
 * thread for ever; and a signal that came here would not end the sleep that follows.
 */
int iwarp_compat_lead(struct iwarp_device *device, bool (*done)(void *arg), void *arg,
                      bool restarts)
{
    sigset_t most, before;
    int error = 0;

    if (!iwarp_cq_may_lead(device, false)) {
        return EAGAIN;
    }
    iwarp_guard_block_set(&most);
    pthread_sigmask(SIG_BLOCK, &most, &before);
    const bool may = may_fault(device, &before);
    if (!may || !iwarp_cq_lead(device, NULL, done, arg)) {
        error = is_interrupted(&before, restarts) ? EINTR : EAGAIN;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* What the thread blocks is looked at when it begins to lead only, since that is a system call. */
int iwarp_compat_lead_held(struct iwarp_device *device, struct iwarp_beside *beside,
                           bool (*done)(void *arg), void *arg)
{
    const bool led = iwarp_cq_leads(device);
    sigset_t blocked;

    if (!iwarp_cq_may_lead(device, beside != NULL)) {
        return EAGAIN;
    }
    if (!led) {
        pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    }
    return (led || may_fault(device, &blocked)) && iwarp_cq_lead(device, beside, done, arg)
               ? 0
               : EAGAIN;
}

void iwarp_compat_wake_leader(struct iwarp_device *device)
{
    iwarp_cq_wake_leader(device);
}

bool iwarp_compat_leads(const struct iwarp_device *device)
{
    return iwarp_cq_leads(device);
}

bool iwarp_compat_runs_loop(struct iwarp_device *device)
{
    return iwarp_cq_runs_loop(device);
}

void iwarp_compat_arm_aside(struct iwarp_cq *cq)
{
    iwarp_cq_arm_aside(cq);
}

void iwarp_compat_begin_sleep(struct iwarp_device *device)
{
    iwarp_cq_begin_sleep(device);
}

void iwarp_compat_end_sleep(struct iwarp_device *device)
{
    iwarp_cq_end_sleep(device);
}

void iwarp_compat_recall(struct iwarp_device *device)
{
    iwarp_cq_recall(device);
}

void iwarp_compat_waited(struct iwarp_device *device)
{
    iwarp_cq_waited(device);
}

void iwarp_compat_post_task(struct iwarp_device *device, struct iwarp_task *task)
{
    iwarp_cq_post_task(device, task);
}

void iwarp_compat_eq_notify_by(struct iwarp_eq *eq, void (*notify)(void *arg), void *arg)
{
    iwarp_eq_notify_by(eq, notify, arg);
}

void *iwarp_compat_eq_first_user(struct iwarp_eq *eq)
{
    return iwarp_eq_first_user(eq);
}

bool iwarp_compat_eq_take_of(struct iwarp_eq *eq, const void *user, struct iwarp_event *event)
{
    return iwarp_eq_take_of(eq, user, event);
}

int iwarp_compat_getsockopt(struct iwarp_conn *conn, int level, int name, void *value,
                            socklen_t *len)
{
    return iwarp_conn_getsockopt(conn, level, name, value, len);
}

int iwarp_compat_setsockopt(struct iwarp_conn *conn, int level, int name, const void *value,
                            socklen_t len)
{
    return iwarp_conn_setsockopt(conn, level, name, value, len);
}
