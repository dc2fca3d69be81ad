/* SPDX-License-Identifier: BSD-2-Clause */
/* The lease of a loop, for the threads that visit it: see the table in lease.h. */
#include "base/timed_lock.h"
#include "loop/loop.h"

#include <assert.h>

/* The loop that this thread runs, unless it is embedded. */
static _Thread_local const struct iwarp_loop *current;

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

/* `run` is held: this thread is the current one. */
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

void iwarp_lease_leave(struct iwarp_loop *l)
{
    current = l->lease.outer;
    pthread_mutex_unlock(&l->lease.run);
}

/*
 * A sleeper or a recall ends a lease that has to be earned, and keeps others from taking it
 * (invariants 4 and 5).  While the home has the loop, nothing is left to recall.
 */
static bool is_over(const struct iwarp_lease *s)
{
    return !s->open &&
           (atomic_load(s->sleepers) > 0 || (iwarp_lease_is_out(s) && atomic_load(&s->wanted) > 0));
}

/* Have the home come out of the loop (invariant 2). */
static void ask(struct iwarp_loop *l)
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
        ask(l);
    }
    bool held =
        within_ms > 0 ? iwarp_lock_within(&s->run, within_ms) : pthread_mutex_trylock(&s->run) == 0;
    if (held) {
        begin(l);
        count_visit(s);
    }
    return held;
}

bool iwarp_lease_take(struct iwarp_loop *l, unsigned within_ms)
{
    if (is_over(&l->lease) || !iwarp_lease_enter(l, within_ms)) {
        return false;
    }
    if (is_over(&l->lease)) { /* a sleeper came meanwhile; the home looks for it before it parks */
        iwarp_lease_leave(l);
        return false;
    }
    return true;
}

bool iwarp_lease_visit(struct iwarp_loop *l)
{
    struct iwarp_lease *s = &l->lease;

    if (is_over(s)) {
        return false;
    }
    if (pthread_mutex_trylock(&s->run) == 0) {
        begin(l);
        count_visit(s);
        iwarp_loop_turn(l);
        iwarp_lease_leave(l);
        return true;
    }
    bool out = iwarp_lease_is_out(s); /* then another guest runs the loop at this moment */
    if (!out && s->open) {
        ask(l);
    }
    return out;
}

void iwarp_lease_help(struct iwarp_loop *l)
{
    if (!is_over(&l->lease) && pthread_mutex_trylock(&l->lease.run) == 0) {
        begin(l);
        iwarp_loop_turn(l);
        iwarp_lease_leave(l);
    }
}

static void on_late(uv_timer_t *limit)
{
    ((struct iwarp_loop *)limit->data)->late++;
}

bool iwarp_lease_stay(struct iwarp_loop *l, bool (*done)(void *arg), void *arg)
{
    struct iwarp_lease *s = &l->lease;
    bool alive = true;

    l->late = 0;
    if (!uv_is_active((uv_handle_t *)&l->limit)) { /* it runs on from one visit to the next */
        l->limit.data = l;
        uv_timer_start(&l->limit, on_late, IWARP_PARK_MS, IWARP_PARK_MS);
    }
    atomic_store(&s->asleep, true);
    while (l->late < 2 && alive && !done(arg)) {
        alive = iwarp_loop_await(l, done, arg);
    }
    bool in_time = l->late < 2;
    atomic_store(&s->asleep, false);
    bool over = is_over(s); /* after `asleep`: a recall has seen either, or wakes the home itself */
    iwarp_lease_leave(l);
    if (over) {
        iwarp_lease_nudge(l);
    }
    return in_time;
}
