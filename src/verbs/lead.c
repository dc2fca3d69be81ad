/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threaded progress: a thread that waits for completions may lead, that is, run the worker's loop
 * itself instead of being woken by the thread that runs it: one switch less for each wait. It may
 * if it comes back soon each time, so that connections do not wait for it, and if nobody else waits
 * for completions. The worker's thread is away meanwhile (progress.c) and looks every ms whether
 * somebody still leads. It comes back at once when another thread waits or calls; a thread that had
 * its work done by others that way has to earn its trust anew, each time for longer. A thread with
 * SIGSEGV or SIGBUS blocked never leads (guard.h).
 */
#include "verbs/clock.h"
#include "verbs/verbs.h"
#include "verbs/wake.h"

#include <signal.h>
#include <string.h>

#define AWAY_NS     50000 /* it came back so soon */
#define TRUSTED     8     /* so many times in a row */
#define PENALTY     64 /* so many more after others had to do its work, each time twice as many */
#define MAX_PENALTY 65536
#define FORGIVEN    1024 /* waits in the lead until the penalty is half as high again */
#define PATIENCE_MS 2    /* it sleeps no longer than twice this; then it waits as others do */
#define IDLE_POLLS  4    /* empty polls of a thread that found nobody in the loop */

/* How this thread has waited of late. */
static _Thread_local struct {
    const struct iwarp_worker *worker;
    int trust;       /* waits that it came back to soon, up to TRUSTED */
    int penalty;     /* what the next loss of trust costs */
    unsigned leads;  /* since the penalty was changed */
    int64_t left_ns; /* when it went off with what it had waited for */
    bool led;        /* and ran the loop itself */
    unsigned idle;   /* empty polls */
} habit;

static void distrust(void)
{
    habit.trust = -habit.penalty;
    habit.penalty = habit.penalty < MAX_PENALTY ? habit.penalty * 2 : MAX_PENALTY;
    habit.leads = 0;
}

static void forgive(void)
{
    if (++habit.leads == FORGIVEN) {
        habit.leads = 0;
        habit.penalty = habit.penalty > PENALTY ? habit.penalty / 2 : PENALTY;
    }
}

/* Memory of the application may be gone, and a fault with the signal blocked ends the process. */
bool iwarp_lead_may_fault(void)
{
    sigset_t blocked;

    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    return !sigismember(&blocked, SIGSEGV) && !sigismember(&blocked, SIGBUS);
}

/* It is asked for signals when it comes to be trusted only: that is a system call. */
static void judge(bool soon)
{
    int before = habit.trust, less = before > 0 ? before / 2 : before; /* a penalty stays */

    habit.trust = soon ? before + (before < TRUSTED) : less;
    if (habit.trust == TRUSTED && before < TRUSTED && !iwarp_lead_may_fault()) {
        distrust();
    }
}

void iwarp_lead_left(void)
{
    habit.left_ns = iwarp_now_ns();
}

bool iwarp_lead_trusted(const struct iwarp_device *device, int timeout_ms)
{
    const struct iwarp_worker *w = &device->worker[0];

    if (device->workers > 1 || w->progress != IWARP_PROGRESS_THREADED || atomic_load(&w->polled) ||
        iwarp_worker_is_current(w) || (timeout_ms >= 0 && timeout_ms < 2 * PATIENCE_MS) ||
        atomic_load(&device->armed) > 0) {
        return false;
    }
    if (habit.worker != w) {
        memset(&habit, 0, sizeof habit);
        habit.worker = w;
        habit.penalty = PENALTY;
    } else if (habit.led && !atomic_load(&w->led)) {
        distrust();
    } else {
        judge(iwarp_now_ns() - habit.left_ns < AWAY_NS);
    }
    habit.led = false;
    return habit.trust == TRUSTED;
}

/* Led by a thread that may be off. Not if the worker came back meanwhile, and left to pollers. */
static bool take_turn(struct iwarp_worker *w)
{
    bool held = pthread_mutex_trylock(&w->drive) == 0;

    if (held && !atomic_load(&w->led)) {
        pthread_mutex_unlock(&w->drive);
        return false;
    }
    return held;
}

/* Come to hold `drive`. False: somebody else leads. */
static bool take_lead(struct iwarp_worker *w)
{
    unsigned nobody = 0;

    if (atomic_load(&w->led)) {
        return take_turn(w);
    }
    if (!atomic_compare_exchange_strong(&w->calling, &nobody, 1)) {
        return false;
    }
    if (atomic_load(&w->led)) { /* since: do not queue up behind one who leads again and again */
        atomic_fetch_sub(&w->calling, 1);
        return take_turn(w);
    }
    iwarp_worker_wake(w); /* the worker's thread leaves the loop: on_wake */
    pthread_mutex_lock(&w->drive);
    bool polled = atomic_load(&w->polled);
    atomic_store(&w->led, !polled);
    atomic_fetch_sub(&w->calling, 1);
    if (polled) {
        pthread_mutex_unlock(&w->drive);
    }
    return !polled;
}

static void on_late(uv_timer_t *limit)
{
    ((struct iwarp_worker *)limit->data)->late++;
}

/* Until done(arg), or the timer, which runs on from one wait to the next, has fired twice. */
static bool run_loop(struct iwarp_worker *w, bool (*done)(void *arg), void *arg)
{
    bool alive = true;

    w->late = 0;
    w->limit.data = w;
    if (!uv_is_active((uv_handle_t *)&w->limit)) {
        uv_timer_start(&w->limit, on_late, PATIENCE_MS, PATIENCE_MS);
    }
    while (w->late < 2 && alive && !done(arg)) {
        alive = iwarp_worker_await(w, done, arg);
    }
    return w->late < 2;
}

bool iwarp_lead(struct iwarp_device *device, bool (*done)(void *arg), void *arg)
{
    struct iwarp_worker *w = &device->worker[0];

    atomic_fetch_add(&w->polls, 1);
    if (!take_lead(w)) {
        return false;
    }
    const struct iwarp_worker *outer = iwarp_worker_enter(w);
    atomic_store(&w->watching, true);
    bool in_time = run_loop(w, done, arg);
    (void)iwarp_worker_enter(outer);
    atomic_store(&w->watching, false);
    pthread_mutex_unlock(&w->drive);
    forgive();
    habit.idle = 0;
    habit.led = in_time;
    habit.trust = in_time ? TRUSTED : 0;
    if (atomic_load(&device->armed) > 0) { /* others wait: they are not to wait for this thread */
        iwarp_worker_hand_over(w);
    }
    return in_time;
}

void iwarp_lead_missed(struct iwarp_device *device)
{
    struct iwarp_worker *w = &device->worker[0];

    if (!atomic_load(&w->watching) && ++habit.idle >= IDLE_POLLS) {
        habit.idle = 0;
        iwarp_worker_hand_over(w);
    }
}
