/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop/hot.h"

#include "loop/clock.h"
#include "loop/loop.h"

#define HOT        3  /* receives in a row: read it directly */
#define AWAY       32 /* and so many times directly: not watched any more */
#define LOOP_EVERY 8
#define LOOP_NS    50000

void iwarp_hot_end(struct iwarp_loop *l)
{
    struct iwarp_hot *hot = &l->hot;

    if (hot->source) {
        hot->source->watch(hot->arg, true);
    }
    hot->source = NULL;
}

void iwarp_hot_received(struct iwarp_loop *l, const struct iwarp_hot_source *source, void *arg)
{
    struct iwarp_hot *hot = &l->hot;

    if (!iwarp_lease_is_out(&l->lease)) {
        return; /* the home sleeps in the loop, which watches all sources then */
    }
    if (!hot->source || hot->arg != arg) {
        iwarp_hot_end(l);
        *hot = (struct iwarp_hot){.source = source, .arg = arg};
    } else if (hot->heat < HOT) {
        hot->heat++;
    }
}

void iwarp_hot_forget(struct iwarp_loop *l, const void *arg)
{
    if (l->hot.arg == arg) {
        l->hot = (struct iwarp_hot){0};
    }
}

/* The clock is asked at every LOOP_EVERY-th poll only. */
static bool loop_is_due(struct iwarp_loop *l)
{
    struct iwarp_hot *hot = &l->hot;

    if (atomic_load_explicit(&l->due, memory_order_relaxed)) {
        (void)atomic_exchange(&l->due, false); /* before the turn: what comes in it counts anew */
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
    if (hot->heat == AWAY && watched) {
        hot->heat = HOT; /* it has waited for room to send */
    } else if (hot->heat < AWAY && ++hot->heat == AWAY) {
        hot->source->watch(hot->arg, false);
    }
}

bool iwarp_hot_read(struct iwarp_loop *l)
{
    struct iwarp_hot *hot = &l->hot;
    bool received = false;

    if (!hot->source || hot->heat < HOT || loop_is_due(l)) {
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
