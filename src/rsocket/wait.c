/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting. A thread that will sleep remembers the count of wake-ups, arms the completion queue and
 * looks once more; what happens after that look wakes it up. A thread that waits again and again
 * runs the loop itself meanwhile (base/lead.h), so that no other thread has to wake it up.
 */
#include "rsocket/rs.h"

#include "base/process.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LEAD_MS 6 /* iwarp_cq_lead gives up within so long */

/* With 64-bit times on a 32-bit machine the old number would misread the timespec. */
#ifdef SYS_futex_time64
#define FUTEX (sizeof(time_t) > sizeof(long) ? SYS_futex_time64 : SYS_futex)
#else
#define FUTEX SYS_futex
#endif

uint64_t rs_now_ms(void)
{
    return (uint64_t)rs_now_ns() / 1000000;
}

uint64_t rs_until(int timeout_ms)
{
    return timeout_ms < 0 ? RS_FOR_EVER : timeout_ms == 0 ? 0 : rs_now_ms() + (unsigned)timeout_ms;
}

static void ring_bells(struct rs *s)
{
    IWARP_UNCANCELLED;

    pthread_mutex_lock(&s->wake_lock);
    for (struct rs_watcher *w = atomic_load(&s->watchers); w; w = w->next) {
        (void)!write(w->bell, &(uint64_t){1}, sizeof(uint64_t));
    }
    pthread_mutex_unlock(&s->wake_lock);
}

/* Called several times for each message, and mostly no thread waits. A thread that is about to wait
 * counts itself first, and then looks once more: it sees what the caller has done, or is woken up.
 */
void rs_wake(struct rs *s)
{
    atomic_fetch_add(&s->turn, 1);
    if (atomic_load(&s->sleepers) > 0) {
        (void)syscall(FUTEX, &s->turn, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
    if (atomic_load(&s->leaders) > 0) {
        iwarp_compat_wake_leader(s->device);
    }
    if (atomic_load(&s->watchers)) {
        ring_bells(s);
    }
}

/* --- sleeping -------------------------------------------------------------------------------- */

struct turn {
    struct rs *s;
    unsigned seen;
    bool cancels; /* the caller has cancellation enabled */
};

/* The thread has to leave: for a handler, or for its end. */
static bool has_to_leave(const struct turn *turn)
{
    return rs_signal_came() || (turn->cancels && rs_cancel_came());
}

/* It is no longer the turn of that number, or the thread has to leave. */
static bool is_over(void *arg)
{
    const struct turn *turn = arg;

    return atomic_load(&turn->s->turn) != turn->seen || has_to_leave(turn);
}

/* 0, EINTR (a handler ran), EAGAIN (it is `until`), or what the system refuses. */
static int sleep_for(struct turn *turn, uint64_t until)
{
    struct timespec at = {(time_t)(until / 1000), (long)(until % 1000) * 1000000};
    int error = 0;

    rs_signals_sleep_on(&turn->s->turn);
    atomic_fetch_add(&turn->s->sleepers, 1);
    while (!error && !is_over(turn)) {
        if (syscall(FUTEX, &turn->s->turn, FUTEX_WAIT_BITSET_PRIVATE, turn->seen,
                    until == RS_FOR_EVER ? NULL : &at, NULL, FUTEX_BITSET_MATCH_ANY) != 0) {
            error = errno == ETIMEDOUT ? EAGAIN : errno == EAGAIN ? 0 : errno;
        }
    }
    atomic_fetch_sub(&turn->s->sleepers, 1);
    rs_signals_sleep_on(NULL);
    return error;
}

/* 0: the turn is over; EAGAIN: it is not; EINTR, as of sleep_for. */
static int lead(struct turn *turn, struct iwarp_device *device, uint64_t until)
{
    int error;

    if (until != RS_FOR_EVER && until < rs_now_ms() + LEAD_MS) {
        return EAGAIN;
    }
    atomic_fetch_add(&turn->s->leaders, 1);
    error = rs_signals_are_held() ? iwarp_compat_lead_held(device, NULL, is_over, turn)
                                  : iwarp_compat_lead(device, is_over, turn, until == RS_FOR_EVER);
    atomic_fetch_sub(&turn->s->leaders, 1);
    return error;
}

/* The lock is held, and released meanwhile. to_lead: as the queue was armed. */
static int wait_turn(struct turn *turn, bool to_lead, uint64_t until)
{
    struct rs *s = turn->s;
    struct iwarp_device *device = s->cq ? s->device : NULL;
    int error;

    rs_unlock(s);
    error = device ? lead(turn, device, until) : EAGAIN;
    if (error && to_lead) {
        pthread_mutex_lock(&s->lock);
        if (s->cq) {
            iwarp_compat_arm_to_sleep(s->cq);
        }
        rs_unlock(s);
        iwarp_compat_recall(device);
    }
    if (error == EAGAIN) {
        error = sleep_for(turn, until);
    }
    if (device) {
        iwarp_compat_waited(device);
    }
    pthread_mutex_lock(&s->lock);
    return error;
}

int rs_wait_as_asked(struct rs *s, bool (*ready)(struct rs *s), struct rs_limit *limit)
{
    rs_progress(s);
    if (!s->closed && ready(s)) {
        return 0;
    }
    if (!limit->known) {
        limit->until = rs_call_until(s, limit->option, limit->flags);
        limit->known = true;
    }
    return rs_wait(s, ready, limit->until);
}

int rs_wait(struct rs *s, bool (*ready)(struct rs *s), uint64_t until)
{
    IWARP_UNCANCELLED;
    int error = until > 0 ? 0 : EAGAIN;

    for (;;) {
        struct turn turn = {s, atomic_load(&s->turn), iwarp_cancel_before == PTHREAD_CANCEL_ENABLE};
        bool to_lead = false;
        rs_progress(s);
        if (!s->closed && !ready(s) && !error && s->cq) {
            to_lead = iwarp_compat_arm(s->cq);
            rs_progress(s);
        }
        if (s->closed) {
            error = EBADF;
        } else if (ready(s)) {
            return 0;
        }
        if (!error && has_to_leave(&turn)) {
            error = until == RS_FOR_EVER ? ERESTART : EINTR;
        }
        if (error) { /* an edge comes after what the program learns now, whatever rs_unlock finds */
            rs_show(s);
            errno = error;
            return -1;
        }
        error = wait_turn(&turn, to_lead, until);
    }
}
