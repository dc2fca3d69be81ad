/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who runs a worker's loop.
 *
 *   threaded   its thread, or a thread that waits for completions and leads: lead.c; how it waits
 *              for something to do: look.c. While a thread polls without end, as polled: busy.c
 *   polled     whoever holds worker.drive: a thread that polls, or the worker's own. While somebody
 *              polls, the latter sleeps outside the loop and looks every STEP_BACK_MS whether that
 *              is still so; else it holds `drive` and sleeps in the loop, as in threaded mode. The
 *              first who polls wakes it from there. Most polls read one connection only: hot.c.
 *   embedded   the application; what waits runs the loop meanwhile
 */
#include "base/log.h"
#include "base/timed_lock.h"
#include "verbs/clock.h"
#include "verbs/verbs.h"
#include "verbs/wake.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define STEP_BACK_MS 2
#define LOOK_ROUND   64 /* polls of a thread until it looks after the other workers */
#define LOOK_MS      1 /* threaded: the worker's thread looks so often whether somebody still leads */

/* The worker whose loop this thread runs. */
static _Thread_local const struct iwarp_worker *driven;

bool iwarp_worker_is_current(const struct iwarp_worker *w)
{
    return w->progress == IWARP_PROGRESS_EMBEDDED ? pthread_equal(w->thread, pthread_self()) != 0
                                                  : driven == w;
}

const struct iwarp_worker *iwarp_worker_enter(const struct iwarp_worker *w)
{
    const struct iwarp_worker *outer = driven;

    driven = w;
    return outer;
}

bool iwarp_device_is_elsewhere(const struct iwarp_device *device)
{
    return !iwarp_worker_is_current(&device->worker[0]);
}

enum iwarp_status iwarp_device_wrong_thread(void)
{
    return iwarp_fail(IWARP_MISUSE,
                      "embedded progress: every call has to come from the thread that "
                      "opened the device and runs the loop; from others use "
                      "iwarp_device_call");
}

/* --- threads --------------------------------------------------------------------------------- */

static void block_signals(void)
{
    sigset_t all;

    /* Signals are the application's; faults in guarded accesses must still arrive (guard.h). */
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
}

static void drain(const struct iwarp_worker *w)
{
    uint64_t count;

    (void)!read(w->nudge, &count, sizeof count);
}

/* Leave the loop to those who poll, for as long as there are any. */
static void step_back(struct iwarp_worker *w, unsigned *seen, int look_ms)
{
    struct pollfd p = {.fd = w->nudge, .events = POLLIN};
    unsigned polls;

    while (((polls = atomic_load(&w->polls)) != *seen && !atomic_exchange(&w->hand_over, false)) ||
           atomic_load(&w->calling) > 0) {
        *seen = polls;
        if (poll(&p, 1, look_ms) > 0) {
            drain(w);
        }
        iwarp_worker_want_loop(w);
    }
    *seen = polls;
    atomic_store(&w->hand_over, false);
}

static bool is_wanted(void *worker)
{
    return atomic_load(&((struct iwarp_worker *)worker)->calling) > 0;
}

/* Until somebody wants to lead, or to poll. */
static bool run_threaded(struct iwarp_worker *w)
{
    bool alive = true;

    atomic_store(&w->led, false);
    uv_timer_stop(&w->limit);
    while (alive && !is_wanted(w)) {
        atomic_store(&w->watching, true); /* who polls in vain may have taken it back */
        alive = iwarp_worker_await(w, is_wanted, w);
    }
    return alive;
}

static bool run_polled(struct iwarp_worker *w, unsigned seen)
{
    bool wanted = atomic_load(&w->polls) != seen || atomic_load(&w->calling) > 0;

    if (!wanted) {
        iwarp_worker_chill(w);
    }
    if (!wanted && w->progress != IWARP_PROGRESS_POLLED) {
        atomic_store(&w->polled, false);
        return true;
    }
    return uv_run(w->loop, wanted ? UV_RUN_NOWAIT : UV_RUN_ONCE) != 0;
}

static bool run(struct iwarp_worker *w, unsigned seen)
{
    if (atomic_load(&w->polled) && !run_polled(w, seen)) {
        return false;
    }
    return atomic_load(&w->polled) || run_threaded(w);
}

static void *worker_main(void *arg)
{
    struct iwarp_worker *w = arg;
    bool alive = true;
    unsigned seen = 0;

    block_signals();
    while (alive) {
        pthread_mutex_lock(&w->drive);
        driven = w;
        atomic_store(&w->watching, true);
        alive = run(w, seen);
        atomic_store(&w->watching, false);
        driven = NULL;
        pthread_mutex_unlock(&w->drive);
        if (alive) {
            step_back(w, &seen, atomic_load(&w->polled) ? STEP_BACK_MS : LOOK_MS);
        }
    }
    return NULL;
}

int iwarp_worker_launch(struct iwarp_worker *w)
{
    int rc = 0;

    w->nudge = -1;
    (void)uv_timer_init(w->loop, &w->limit); /* cannot fail */
    if (w->progress == IWARP_PROGRESS_EMBEDDED) {
        w->thread = pthread_self();
        return 0;
    }
    pthread_mutex_init(&w->drive, NULL);
    w->nudge = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    rc = w->nudge < 0 ? -errno : 0;
    if (rc == 0) {
        rc = -pthread_create(&w->thread, NULL, worker_main, w);
    }
    if (rc != 0) {
        if (w->nudge >= 0) {
            close(w->nudge);
        }
        pthread_mutex_destroy(&w->drive);
    }
    return rc;
}

void iwarp_worker_join(struct iwarp_worker *w)
{
    iwarp_worker_hand_over(w);
    pthread_join(w->thread, NULL);
    close(w->nudge);
    pthread_mutex_destroy(&w->drive);
}

void iwarp_worker_hand_over(struct iwarp_worker *w)
{
    const uint64_t one = 1;
    bool away = atomic_load(&w->polled) || atomic_load(&w->led);

    if (away && !atomic_load(&w->watching) && !atomic_exchange(&w->hand_over, true)) {
        (void)!write(w->nudge, &one, sizeof one); /* cannot fail: the counter never fills up */
    }
}

void iwarp_device_hand_over(struct iwarp_device *device)
{
    for (unsigned i = 0; i < device->workers; i++) {
        iwarp_worker_hand_over(&device->worker[i]);
    }
}

/* --- polled ---------------------------------------------------------------------------------- */

/* worker.drive is held: run what is ready. The thread must not be cancelled in the middle. */
static void run_driven(struct iwarp_worker *w, bool calls)
{
    const struct iwarp_worker *outer = driven;

    driven = w;
    if (calls) {
        iwarp_worker_run_calls(w);
    }
    if (calls || !iwarp_worker_read_hot(w)) {
        uv_run(w->loop, UV_RUN_NOWAIT);
    }
    driven = outer;
    pthread_mutex_unlock(&w->drive);
}

static void wake_watcher(struct iwarp_worker *w)
{
    /* Several who count at a time may count as one: that there is somebody is all that matters. */
    unsigned polls = atomic_load_explicit(&w->polls, memory_order_relaxed);
    atomic_store_explicit(&w->polls, polls + 1, memory_order_relaxed);
    /* Not before `calling` was raised: either it is seen here, or `calling` there. */
    if (atomic_load(&w->watching) && atomic_exchange(&w->watching, false)) {
        iwarp_worker_wake(w);
    }
}

void iwarp_worker_drive_calls(struct iwarp_worker *w)
{
    IWARP_UNCANCELLED;
    atomic_fetch_add(&w->calling, 1); /* the worker must not be first again */
    wake_watcher(w);
    pthread_mutex_lock(&w->drive);
    atomic_fetch_sub(&w->calling, 1);
    run_driven(w, true);
    iwarp_worker_hand_over(w);
}

/*
 * Threaded: have the worker's thread leave the loop to those who poll. False: somebody leads, or it
 * does not come out of the application's code in time, which may wait for what this thread holds.
 */
bool iwarp_worker_leave(struct iwarp_worker *w)
{
    IWARP_UNCANCELLED;
    unsigned nobody = 0;

    if (!atomic_compare_exchange_strong(&w->calling, &nobody, 1)) {
        return false;
    }
    iwarp_worker_wake(w);
    bool held = iwarp_lock_within(&w->drive, STEP_BACK_MS);
    bool left = held && !atomic_load(&w->led);
    if (left) {
        atomic_fetch_add(&w->polls, 1);
        atomic_store(&w->polled, true);
    }
    atomic_fetch_sub(&w->calling, 1);
    if (held) {
        pthread_mutex_unlock(&w->drive);
    }
    return left;
}

static void try_to_drive(struct iwarp_worker *w)
{
    if (pthread_mutex_trylock(&w->drive) == 0) {
        run_driven(w, false);
    }
}

/* Nobody polls its queues any more, and its thread has not noticed yet. Two that ask at a time may
 * both be told so. */
static bool is_alone(struct iwarp_worker *w)
{
    bool attended = atomic_load_explicit(&w->attended, memory_order_relaxed);

    atomic_store_explicit(&w->attended, false, memory_order_relaxed);
    return !attended && !atomic_load(&w->watching);
}

void iwarp_device_drive(struct iwarp_device *device, uint64_t workers)
{
    IWARP_UNCANCELLED;
    static _Thread_local unsigned polls;
    bool others = ++polls % LOOK_ROUND == 0;

    for (unsigned i = 0; i < device->workers; i++) {
        struct iwarp_worker *w = &device->worker[i];
        if (workers >> i & 1) {
            atomic_store_explicit(&w->attended, true, memory_order_relaxed);
            wake_watcher(w);
            try_to_drive(w);
        } else if (others && is_alone(w)) {
            try_to_drive(w);
        }
    }
}

/* --- embedded -------------------------------------------------------------------------------- */

/* Its only purpose is that the loop's turn ends. */
static void on_limit(uv_timer_t *limit)
{
    (void)limit;
}

bool iwarp_device_run_until(struct iwarp_device *device, bool (*done)(void *arg), void *arg,
                            int timeout_ms)
{
    struct iwarp_worker *w = &device->worker[0];
    int64_t end = iwarp_now_ms() + timeout_ms;
    bool reached;

    while (!(reached = done(arg))) {
        int64_t left = end - iwarp_now_ms();
        if (timeout_ms >= 0 && left <= 0) {
            break;
        }
        if (timeout_ms >= 0) {
            uv_update_time(w->loop);
            uv_timer_start(&w->limit, on_limit, (uint64_t)left, 0);
        }
        uv_run(w->loop, UV_RUN_ONCE);
        uv_timer_stop(&w->limit);
    }
    return reached;
}
