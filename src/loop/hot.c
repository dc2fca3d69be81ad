/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All functions run on the loop's current thread, so there is no lock; only `due` is written by
 * other threads.
 */
#include "loop/hot.h"

#include "loop/clock.h"
#include "loop/loop.h"

/* How many receives in a row it takes until a source is read directly, and until the loop no longer
 * watches it. */
#define DIRECT_FROM  3
#define UNWATCH_FROM 32

/* When the loop has its turn: at every so many reads, or after so many nanoseconds. */
#define LOOP_EVERY 8
#define LOOP_NS    50000

/*
 * The source is watched again before it is forgotten: a source that the loop does not watch and
 * nobody reads would never be served again.
 */
void iwarp_hot_end(struct iwarp_loop *l)
{
    struct iwarp_hot *hot = &l->hot;

    if (hot->source) {
        hot->source->watch(hot->arg, true);
    }
    hot->source = NULL;
}

/*
 * A second source that receives ends the first one's turn: reading one directly would starve the
 * other.
 */
void iwarp_hot_received(struct iwarp_loop *l, const struct iwarp_hot_source *source, void *arg)
{
    struct iwarp_hot *hot = &l->hot;

    if (!iwarp_lease_is_out(&l->lease)) {
        return; /* the home sleeps in the loop, which watches all sources then */
    }
    if (!hot->source || hot->arg != arg) {
        iwarp_hot_end(l);
        *hot = (struct iwarp_hot){.source = source, .arg = arg};
    } else if (hot->streak < DIRECT_FROM) {
        hot->streak++;
    }
}

/* The source is being closed. It is not watched again: its descriptor is about to go. */
void iwarp_hot_forget(struct iwarp_loop *l, const void *arg)
{
    if (l->hot.arg == arg) {
        l->hot = (struct iwarp_hot){0};
    }
}

/*
 * Is it the loop's turn? At every LOOP_EVERY-th read while the loop watches the source; else, once
 * it has not run for LOOP_NS, and only every LOOP_EVERY-th read asks the clock.
 */
static bool loop_is_due(struct iwarp_loop *l)
{
    struct iwarp_hot *hot = &l->hot;

    if (atomic_load_explicit(&l->due, memory_order_relaxed)) {
        /* Before the turn, so that a wake-up during the turn counts anew. */
        (void)atomic_exchange(&l->due, false);
        return true;
    }
    if (++hot->direct % LOOP_EVERY != 0) {
        return false;
    }
    if (hot->source->is_watched(hot->arg)) {
        return true;
    }
    int64_t now = iwarp_now_ns();
    if (now - hot->ran_ns < LOOP_NS) {
        return false;
    }
    hot->ran_ns = now;
    return true;
}

/* It has received, and may be closed since. */
static void count(struct iwarp_hot *hot, const void *arg)
{
    if (!hot->source || hot->arg != arg) {
        return;
    }
    bool watched = hot->source->is_watched(hot->arg);
    if (hot->streak == UNWATCH_FROM && watched) {
        hot->streak = DIRECT_FROM; /* it has waited for room to send */
    } else if (hot->streak < UNWATCH_FROM && ++hot->streak == UNWATCH_FROM) {
        hot->source->watch(hot->arg, false);
    }
}

/*
 * False sends the caller to the loop. True does not mean that octets came: only that the source was
 * read and the loop is not due.
 */
bool iwarp_hot_read(struct iwarp_loop *l)
{
    struct iwarp_hot *hot = &l->hot;
    bool received = false;

    if (!hot->source || hot->streak < DIRECT_FROM || loop_is_due(l)) {
        return false;
    }
    void *arg = hot->arg;
    if (!hot->source->read(arg, &received)) {
        iwarp_hot_end(l);
        return false;
    }
    if (received) {
        count(hot, arg);
    }
    return true;
}
