/* SPDX-License-Identifier: BSD-2-Clause */
/* The lease of a loop, for the threads that visit it: see the table in lease.h. */
#include "base/timed_lock.h"
#include "loop/loop.h"

#include <assert.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The loop that this thread runs now, NULL if none.  Not used for the application's loop: its
 * thread is known from the start.
 */
static _Thread_local const struct iwarp_loop *current;

/*
 * An embedded loop belongs to one thread for good; for others a thread-local is compared, so
 * nothing is shared between threads.
 */
bool iwarp_loop_is_current(const struct iwarp_loop *l)
{
    return l->options.uv ? pthread_equal(l->thread, pthread_self()) != 0 : current == l;
}

const struct iwarp_loop *iwarp_loop_enter(const struct iwarp_loop *l)
{
    const struct iwarp_loop *outer = current;

    current = l;
    return outer;
}

/* A turn takes some 20 KB of stack, 12 of them for libuv's events, and the application's handlers
 * of signals need some, too. */
#define STACK_ROOM 65536

/* The stack of the first thread ends where the kernel has put what it tells the program, and grows
 * to the limit. Without one, what is further away than this is taken for another stack. */
#define FIRST_STACK_MAX ((uintptr_t)64 << 20)

static void first_stack(uintptr_t *from, uintptr_t *to)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

    (void)getrlimit(RLIMIT_STACK, &limit);
    const uintptr_t len =
        limit.rlim_cur < FIRST_STACK_MAX ? (uintptr_t)limit.rlim_cur : FIRST_STACK_MAX;
    *to = (uintptr_t)getauxval(AT_RANDOM);
    *from = *to - (len < *to ? len : *to);
}

static void stack_of_thread(uintptr_t *from, uintptr_t *to)
{
    pthread_attr_t attr;
    void *at;
    size_t len;

    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        if (pthread_attr_getstack(&attr, &at, &len) == 0) {
            *from = (uintptr_t)at;
            *to = *from + len;
        }
        pthread_attr_destroy(&attr);
    }
}

bool iwarp_loop_has_stack(void)
{
    static _Thread_local uintptr_t from, to; /* there is room between them */

    if (to == 0) {
        if (syscall(SYS_gettid) == getpid()) {
            first_stack(&from, &to);
        } else {
            stack_of_thread(&from, &to);
        }
        from += STACK_ROOM;
        to = to ? to : UINTPTR_MAX; /* nobody knows */
    }
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return here >= from && here < to;
}

/*
 * Begin a visit.  `run` is held, so this thread is the only one that writes `current` for this
 * loop. A guest may run another loop already (its callback polls): that one is kept in `outer`.
 */
static void begin(struct iwarp_loop *l)
{
    assert(iwarp_lease_is_out(&l->lease)); /* invariant 1 */
    l->lease.outer = current;
    current = l;
}

static void count_visit(struct iwarp_lease *s)
{
    /* No other visitor counts at the same time; a guest that asks does, and loses nothing. */
    unsigned visits = atomic_load_explicit(&s->visits, memory_order_relaxed);
    atomic_store_explicit(&s->visits, visits + 1, memory_order_relaxed);
}

/* `current` goes back before the unlock: `outer` is guarded by `run`. */
void iwarp_lease_leave(struct iwarp_loop *l)
{
    current = l->lease.outer;
    pthread_mutex_unlock(&l->lease.run);
}

/*
 * A sleeper or a recall ends a lease that has to be earned, and keeps other threads from taking it
 * (invariants 4 and 5).  While the home runs the loop, `wanted` keeps nobody from asking: what it
 * counts then are recalls that came once a guest had asked, and the guest that gets `run` sees
 * them.
 */
static bool is_over(const struct iwarp_lease *s)
{
    return !s->open && (iwarp_sleepers_any(s->sleepers) ||
                        (iwarp_lease_is_out(s) && atomic_load(&s->wanted) > 0));
}

/*
 * Ask the home to come out of the loop (invariant 2).  Only one thread sees `asleep` go from true
 * to false, so several guests that ask at once cost one wake-up.
 */
void iwarp_lease_ask(struct iwarp_loop *l)
{
    struct iwarp_lease *s = &l->lease;

    atomic_fetch_add(&s->visits, 1);
    if (atomic_load(&s->asleep) && atomic_exchange(&s->asleep, false)) {
        iwarp_loop_signal(l);
    }
}

bool iwarp_lease_enter(struct iwarp_loop *l, unsigned within_ms)
{
    struct iwarp_lease *s = &l->lease;

    if (!iwarp_lease_is_out(s)) {
        iwarp_lease_ask(l);
    }
    bool held =
        within_ms > 0 ? iwarp_lock_within(&s->run, within_ms) : pthread_mutex_trylock(&s->run) == 0;
    if (held) {
        begin(l);
        count_visit(s);
    }
    return held;
}

/*
 * The lease is checked twice: first without `run`, since there is no point in waiting for `run` if
 * the lease is over; and again with `run` held, since a thread may have armed a queue in between.
 */
bool iwarp_lease_take(struct iwarp_loop *l, unsigned within_ms)
{
    if (is_over(&l->lease) || !iwarp_loop_has_stack() || !iwarp_lease_enter(l, within_ms)) {
        return false;
    }
    if (is_over(&l->lease)) { /* a sleeper came meanwhile; the home checks for it before it parks */
        iwarp_lease_leave(l);
        return false;
    }
    return true;
}

/*
 * A visit never waits.  If another guest runs the loop at this moment, that guest does the work,
 * and this thread has nothing to do: it returns true all the same.
 */
bool iwarp_lease_visit(struct iwarp_loop *l)
{
    struct iwarp_lease *s = &l->lease;

    if (is_over(s) || !iwarp_loop_has_stack()) {
        return false;
    }
    if (pthread_mutex_trylock(&s->run) == 0) {
        begin(l);
        count_visit(s);
        iwarp_loop_turn(l);
        iwarp_lease_leave(l);
        return true;
    }
    return iwarp_lease_is_out(s); /* if so, another guest runs the loop at this moment */
}

void iwarp_lease_help(struct iwarp_loop *l)
{
    if (!is_over(&l->lease) && iwarp_loop_has_stack() &&
        pthread_mutex_trylock(&l->lease.run) == 0) {
        begin(l);
        iwarp_loop_turn(l);
        iwarp_lease_leave(l);
    }
}

static void on_late(uv_timer_t *limit)
{
    ((struct iwarp_loop *)limit->data)->late++;
}

/*
 * A recall that finds `asleep` set leaves waking up the home to this thread.  It is set again
 * before each sleep: a guest that had asked the home, and came too late, may clear it and wakes
 * this thread up.
 */
bool iwarp_lease_stay(struct iwarp_loop *l, struct iwarp_beside *beside, bool (*done)(void *arg),
                      void *arg)
{
    struct iwarp_lease *s = &l->lease;
    bool alive = true;

    l->late = 0;
    atomic_store_explicit(&s->away, beside ? IWARP_AWAY_LONG : IWARP_AWAY_USUALLY,
                          memory_order_relaxed);
    if (!uv_is_active((uv_handle_t *)&l->limit)) { /* it keeps running after the visit */
        l->limit.data = l;
        uv_timer_start(&l->limit, on_late, IWARP_PARK_MS, IWARP_PARK_MS);
    }
    if (beside) { /* all that is ready, so that the thread comes back with many at once */
        iwarp_hot_end(l);
        alive = uv_run(l->uv, UV_RUN_NOWAIT) != 0;
        iwarp_loop_end_turn(l);
    }
    while (l->late < 2 && alive && !done(arg)) {
        atomic_store(&s->asleep, true);
        alive = iwarp_loop_await(l, beside, done, arg);
        iwarp_loop_end_turn(l);
    }
    bool in_time = l->late < 2;
    atomic_store(&s->asleep, false);
    iwarp_loop_serve_last(l); /* a caller that saw `asleep` set has only woken up this thread */
    /* After `asleep` is cleared: a recall that still saw it set has written `wanted` before, which
     * is_over reads; a later one wakes up the home itself. */
    bool over = is_over(s);
    iwarp_lease_leave(l);
    if (over) {
        iwarp_lease_nudge(l);
    }
    return in_time;
}
