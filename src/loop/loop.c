/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a loop, and what other threads want of it: calls and tasks. */
#include "loop/loop.h"

#include "base/fence.h"
#include "base/log.h"
#include "base/memory.h"
#include "loop/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * One function to run on the loop. It is guarded by loop.lock, but for fn and arg, which are
 * constant.
 */
struct iwarp_call {
    void (*fn)(void *arg);
    void *arg;
    bool done;
    bool waited_for; /* lies on the caller's stack; else it is freed here */
    struct iwarp_call *next;
};

/* --- calls and tasks ------------------------------------------------------------------------- */

/*
 * Each call runs without the lock: it may take any other lock, post tasks, or make calls itself.
 * Calls of one thread run in the order in which they were made.
 */
void iwarp_loop_run_calls(struct iwarp_loop *l)
{
    pthread_mutex_lock(&l->lock);
    while (l->calls) {
        struct iwarp_call *call = l->calls;
        l->calls = call->next;
        bool waited_for = call->waited_for;
        pthread_mutex_unlock(&l->lock);
        call->fn(call->arg);
        pthread_mutex_lock(&l->lock);
        if (waited_for) {
            call->done = true; /* the caller returns, and the call is gone, once lock is free */
            pthread_mutex_unlock(&l->lock);
            pthread_cond_broadcast(&l->finished); /* without the lock, which its waiters want */
            pthread_mutex_lock(&l->lock);
        } else {
            free(call);
        }
    }
    pthread_mutex_unlock(&l->lock);
}

/*
 * The whole list is taken at once. A task that queues itself again is run at the next wake-up, so
 * it cannot keep the loop from its sockets.
 */
static void run_tasks(struct iwarp_loop *l)
{
    pthread_mutex_lock(&l->lock);
    struct iwarp_task *list = l->tasks;
    l->tasks = NULL;
    while (list) {
        struct iwarp_task *task = list;
        list = task->next;
        task->queued = false; /* from here on it can be queued again */
        pthread_mutex_unlock(&l->lock);
        task->run(task->arg);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
}

static void close_handles(struct iwarp_loop *l)
{
    l->options.ending(l->options.arg);
    iwarp_alarm_leave(&l->alarm);
    if (!l->options.uv) {
        uv_close((uv_handle_t *)&l->before_sleep, NULL);
    }
    uv_close((uv_handle_t *)&l->limit, NULL);
    uv_close((uv_handle_t *)&l->wake, NULL);
}

/*
 * libuv calls it once for any number of wake-ups, so it does everything that waits. Calls go first:
 * a thread waits for them.
 */
static void on_wake(uv_async_t *wake)
{
    struct iwarp_loop *l = wake->data;

    iwarp_loop_run_calls(l);
    run_tasks(l);
    pthread_mutex_lock(&l->lock);
    bool stop = l->stop && !l->tasks && !l->calls;
    pthread_mutex_unlock(&l->lock);
    if (stop) { /* the loop ends when its last handle is closed */
        close_handles(l);
    }
}

/*
 * The loop must not sleep with a task that is to run soon, which has woken nobody up. What posted
 * it may be a turn whose end was not reached yet (look.c takes several), another handle of this
 * kind, or a timer: libuv before 1.45 runs timers right before it sleeps. This handle is started
 * first, so libuv calls it last of its kind.
 */
static void on_before_sleep(uv_prepare_t *before_sleep)
{
    struct iwarp_loop *l = before_sleep->data;

    if (l->soon) {
        iwarp_loop_signal(l);
    }
}

static void virtual_wake(void *wake)
{
    on_wake(wake);
}

/*
 * Most versions of libuv first check, by a relaxed load, whether a wake-up is pending, and then
 * send none.  Without the fence that load could come before the caller's writes are visible: the
 * loop may handle the older wake-up without seeing them, and they would wait for the next event.
 */
void iwarp_loop_signal(struct iwarp_loop *l)
{
    if (l->options.simulated) {
        iwarp_virtual->start(iwarp_virtual, l, 0, virtual_wake, &l->wake);
        return;
    }
    iwarp_fence();
    uv_async_send(&l->wake);
}

/* `due` is for a guest that reads the hot source past the loop and would not see the wake-up. */
void iwarp_loop_wake(struct iwarp_loop *l)
{
    iwarp_loop_signal(l);
    atomic_store_explicit(&l->due, true, memory_order_release);
}

/* loop.lock is held. The list is short: it is walked to its end, which keeps one pointer less. */
static void add_call(struct iwarp_loop *l, struct iwarp_call *call)
{
    struct iwarp_call **last = &l->calls;

    while (*last) {
        last = &(*last)->next;
    }
    *last = call;
}

/*
 * Out on lease with nobody in it: the guest may stay away, so the caller runs its call itself, or,
 * if it blocks faults or has a small stack, has the home come. A thread that sleeps in the loop,
 * the home or a guest, is woken up instead.
 */
static bool is_deserted(const struct iwarp_loop *l)
{
    const struct iwarp_lease *s = &l->lease;

    return iwarp_lease_is_out(s) && !atomic_load(&s->asleep);
}

/* Many calls must not keep others out of the loop. */
static void serve_calls(struct iwarp_loop *l)
{
    iwarp_loop_run_calls(l);
    uv_run(l->uv, UV_RUN_NOWAIT);
    iwarp_loop_end_turn(l);
}

void iwarp_loop_serve_last(struct iwarp_loop *l)
{
    pthread_mutex_lock(&l->lock);
    bool any = l->calls != NULL;
    pthread_mutex_unlock(&l->lock);
    if (any) {
        serve_calls(l);
    }
}

/*
 * No lock may be held: the loop may need it before it comes to this call. The call lies on the
 * stack of this thread, so this thread waits until `done` is set. Any of three threads may run the
 * call: this one as a visitor, the home, or another guest.  It does not wait for `run`: the thread
 * that holds it may have run the call already, or may sleep in the loop for long.
 */
void iwarp_loop_call(struct iwarp_loop *l, void (*fn)(void *arg), void *arg)
{
    struct iwarp_call call = {.fn = fn, .arg = arg, .waited_for = true};

    if (iwarp_loop_is_current(l)) {
        fn(arg);
        return;
    }
    pthread_mutex_lock(&l->lock);
    add_call(l, &call);
    pthread_mutex_unlock(&l->lock);
    bool deserted = is_deserted(l);
    bool may_visit = deserted && iwarp_loop_may_fault() && iwarp_loop_has_stack();
    if (may_visit && iwarp_lease_enter(l, 0)) {
        serve_calls(l);
        iwarp_lease_leave(l);
    } else {
        iwarp_loop_wake(l);
    }
    if (l->lease.open || (deserted && !may_visit)) {
        iwarp_lease_recall(l); /* it may be long until the next visit */
    }
    pthread_mutex_lock(&l->lock);
    while (!call.done) {
        pthread_cond_wait(&l->finished, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
}

/* The call is freed by the thread that runs it. */
bool iwarp_loop_send(struct iwarp_loop *l, void (*fn)(void *arg), void *arg)
{
    struct iwarp_call *call = iwarp_calloc(1, sizeof *call);

    if (call) {
        call->fn = fn;
        call->arg = arg;
        pthread_mutex_lock(&l->lock);
        add_call(l, call);
        /* Under the lock: without it, the call may run and end the loop first. */
        iwarp_loop_wake(l);
        pthread_mutex_unlock(&l->lock);
    }
    return call != NULL;
}

/*
 * Any thread, with any lock held: loop.lock is innermost. Only the first task of a list wakes up
 * the loop; the ones behind it are run in the same turn.
 */
static bool add_task(struct iwarp_loop *l, struct iwarp_task *task)
{
    bool first = false;

    pthread_mutex_lock(&l->lock);
    if (task->queued) {
        atomic_fetch_sub(task->refs, 1);
    } else {
        first = l->tasks == NULL;
        task->queued = true;
        task->next = NULL;
        *(first ? &l->tasks : &l->last_task->next) = task;
        l->last_task = task;
    }
    pthread_mutex_unlock(&l->lock); /* the object may be gone from here on */
    return first;
}

void iwarp_loop_post(struct iwarp_loop *l, struct iwarp_task *task)
{
    if (add_task(l, task)) {
        iwarp_loop_wake(l);
    }
}

/* `soon` is set first: another thread that finds a task in the list relies on this one's turn. */
void iwarp_loop_post_soon(struct iwarp_loop *l, struct iwarp_task *task)
{
    if (l->options.uv || !iwarp_loop_is_current(l)) {
        iwarp_loop_post(l, task);
        return;
    }
    l->soon = true;
    (void)add_task(l, task);
}

/* What the tasks post in turn comes after the sockets, so that it cannot keep the loop from them.
 */
void iwarp_loop_end_turn(struct iwarp_loop *l)
{
    if (l->soon) {
        l->soon = false;
        run_tasks(l);
        pthread_mutex_lock(&l->lock);
        bool again = l->soon || l->stop; /* on_wake does not stop while there are tasks */
        pthread_mutex_unlock(&l->lock);
        if (again) {
            iwarp_loop_wake(l);
        }
    }
}

/* --- running it ------------------------------------------------------------------------------ */

/* Never sleeps: for visits. */
void iwarp_loop_turn(struct iwarp_loop *l)
{
    if (!iwarp_hot_read(l)) {
        uv_run(l->uv, UV_RUN_NOWAIT);
    }
    iwarp_loop_end_turn(l);
}

/* libuv's notion of the time may be old, and a timer would count from there. */
uint64_t iwarp_loop_now(struct iwarp_loop *l)
{
    if (l->options.simulated) {
        return (uint64_t)iwarp_now_ms();
    }
    uv_update_time(l->uv);
    return uv_now(l->uv);
}

static void virtual_expiry(void *timer)
{
    uv_timer_t *t = timer;

    t->timer_cb(t);
}

void iwarp_loop_start(struct iwarp_loop *l, uv_timer_t *timer, uv_timer_cb fn, uint64_t ms)
{
    if (l->options.simulated) {
        timer->timer_cb = fn;
        iwarp_virtual->start(iwarp_virtual, l, (int64_t)ms * 1000000, virtual_expiry, timer);
        return;
    }
    uv_update_time(l->uv);
    uv_timer_start(timer, fn, ms, 0);
}

void iwarp_loop_stop_timer(struct iwarp_loop *l, uv_timer_t *timer)
{
    if (l->options.simulated) {
        iwarp_virtual->stop(iwarp_virtual, timer);
    } else {
        uv_timer_stop(timer);
    }
}

void iwarp_loop_forget(struct iwarp_loop *l)
{
    if (l->options.simulated) {
        iwarp_virtual->stop(iwarp_virtual, &l->wake);
    }
}

/* The timer's expiry ends uv_run; nothing else is to be done. */
static void on_limit(uv_timer_t *limit)
{
    (void)limit;
}

/* Virtual time goes on while the application waits. If nothing will ever happen, it would wait for
 * ever: that is what a simulation is to find. */
static bool virtual_until(bool (*done)(void *arg), void *arg, int timeout_ms)
{
    struct iwarp_virtual *v = iwarp_virtual;
    int64_t end = timeout_ms < 0 ? -1 : v->now_ns + (int64_t)timeout_ms * 1000000;

    while (!done(arg) && (end < 0 || v->now_ns < end)) {
        if (!v->step(v, end)) {
            iwarp_log(
                IWARP_LOG_ERROR, "sim",
                "the application waits without a limit of time, and nothing is left to happen");
            abort();
        }
    }
    return done(arg);
}

bool iwarp_loop_run_until(struct iwarp_loop *l, bool (*done)(void *arg), void *arg, int timeout_ms)
{
    int64_t end = iwarp_now_ms() + timeout_ms;
    bool reached;

    if (l->options.simulated) {
        return virtual_until(done, arg, timeout_ms);
    }
    while (!(reached = done(arg))) {
        int64_t left = end - iwarp_now_ms();
        if (timeout_ms >= 0 && left <= 0) {
            break;
        }
        if (timeout_ms >= 0) {
            iwarp_loop_start(l, &l->limit, on_limit, (uint64_t)left);
        }
        uv_run(l->uv, UV_RUN_ONCE);
        uv_timer_stop(&l->limit);
    }
    return reached;
}

/*
 * A guest copies payload into the application's memory. If that memory is gone, the guard's handler
 * turns SIGSEGV or SIGBUS into an error of the stream; with the signal blocked, the kernel ends the
 * process instead.
 */
bool iwarp_loop_may_fault(void)
{
    sigset_t blocked;

    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    return !sigismember(&blocked, SIGSEGV) && !sigismember(&blocked, SIGBUS);
}

/* --- its life -------------------------------------------------------------------------------- */

/*
 * The first loop of a process makes a pipe of libuv's own, and libuv aborts the process when it
 * cannot have it: look first whether there are descriptors.
 */
static int init_own(uv_loop_t *loop)
{
    int first[2], second[2];

    if (pipe2(first, O_CLOEXEC) != 0) {
        return -errno;
    }
    int rc = pipe2(second, O_CLOEXEC) != 0 ? -errno : 0;
    if (rc == 0) {
        close(second[0]);
        close(second[1]);
    }
    close(first[0]);
    close(first[1]);
    return rc < 0 ? rc : uv_loop_init(loop);
}

/*
 * The loop has run until its last handle was closed. Anything else is a defect of the library: a
 * handle was forgotten.
 */
static void close_own(struct iwarp_loop *l)
{
    int rc = l->options.uv ? 0 : uv_loop_close(l->uv);

    if (rc != 0) {
        iwarp_log(IWARP_LOG_ERROR, "loop", "event loop did not close: %s", uv_strerror(rc));
    }
}

/*
 * The thread does not start here: the owner adds its handles first, since libuv's functions for
 * handles are not safe beside a running loop.
 */
int iwarp_loop_open(struct iwarp_loop *l, const struct iwarp_loop_options *options)
{
    int rc = options->uv ? 0 : init_own(&l->own);

    if (rc < 0) {
        return rc;
    }
    l->options = *options;
    l->uv = options->uv ? options->uv : &l->own;
    l->lease.open = options->open;
    l->lease.sleepers = options->sleepers;
    l->lease.nudge = -1;
    l->wake.data = l;
    l->alarm.fd = -1;
    rc = uv_async_init(l->uv, &l->wake, on_wake);
    if (rc == 0 && !options->uv) {
        rc = iwarp_alarm_open(&l->alarm, l->uv, options->ring, options->arg);
        if (rc < 0) {
            uv_close((uv_handle_t *)&l->wake, NULL);
            uv_run(l->uv, UV_RUN_DEFAULT);
        }
    }
    if (rc < 0) {
        close_own(l);
        return rc;
    }
    (void)uv_timer_init(l->uv, &l->limit); /* cannot fail, as the next */
    if (!options->uv) {
        uv_prepare_init(l->uv, &l->before_sleep);
        l->before_sleep.data = l;
        uv_prepare_start(&l->before_sleep, on_before_sleep);
        uv_unref((uv_handle_t *)&l->before_sleep);
    }
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->finished, NULL);
    return 0;
}

/*
 * If the thread cannot start, this thread runs the loop once, so that the handles are closed before
 * their memory is freed.
 */
int iwarp_loop_launch(struct iwarp_loop *l)
{
    if (l->options.uv) {
        l->thread = pthread_self();
        return 0;
    }
    int rc = iwarp_home_launch(l);
    if (rc != 0) {
        close_handles(l);
        uv_run(l->uv, UV_RUN_DEFAULT);
        close_own(l);
        iwarp_loop_fini(l);
    }
    return rc;
}

/*
 * The loop ends in on_wake, once no call and no task is left. The caller has seen to it that nobody
 * queues new ones.
 */
void iwarp_loop_stop(struct iwarp_loop *l)
{
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_mutex_unlock(&l->lock);
    iwarp_loop_signal(l);
    iwarp_home_join(l);
    close_own(l);
    iwarp_loop_fini(l);
}

void iwarp_loop_fini(struct iwarp_loop *l)
{
    iwarp_alarm_fini(&l->alarm);
    pthread_cond_destroy(&l->finished);
    pthread_mutex_destroy(&l->lock);
}
