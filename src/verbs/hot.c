/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Polled progress: a connection that receives time after time while no other does is hot. Pollers
 * read it directly, without asking the loop, which has its turn at every LOOP_EVERY-th poll. Later
 * the loop does not watch it at all: in the kernel, each segment that comes for a watched socket
 * has to wake the loop's descriptor, at the expense of who sends it. The loop then has its turn
 * every LOOP_NS, for all others. It has the connection back before anybody sleeps in it, as soon as
 * another one receives, and while the connection waits for room to send.
 *
 * All of it with worker.drive held; which thread runs the loop is decided in progress.c.
 */
#include "verbs/clock.h"
#include "verbs/verbs.h"

#define HOT  3  /* received so many times in a row: read it directly */
#define AWAY 32 /* and so many times directly: not watched any more */

#define LOOP_EVERY 8
#define LOOP_NS    50000

void iwarp_worker_chill(struct iwarp_worker *w)
{
    if (w->hot) {
        iwarp_tcp_come_back(w->hot->ep);
    }
    w->hot = NULL;
}

void iwarp_worker_heat(struct iwarp_conn *conn)
{
    struct iwarp_worker *w = conn->worker;

    if (!atomic_load_explicit(&w->polled, memory_order_relaxed) || !iwarp_tcp_is(conn->ep)) {
        return;
    }
    if (w->hot != conn) {
        iwarp_worker_chill(w);
        w->hot = conn;
        w->heat = 0;
    } else if (w->heat < HOT) {
        w->heat++;
    }
}

void iwarp_worker_cool(struct iwarp_conn *conn)
{
    if (conn->worker->hot == conn) {
        conn->worker->hot = NULL;
    }
}

void iwarp_worker_want_loop(struct iwarp_worker *w)
{
    atomic_store_explicit(&w->loop_wanted, true, memory_order_release);
}

/*
 * A clock is asked at every LOOP_EVERY-th poll only. For who polls seldom that would be late: the
 * worker's thread, which looks every other ms whether somebody polls, wants the loop as well.
 */
static bool loop_is_due(struct iwarp_worker *w)
{
    if (atomic_load_explicit(&w->loop_wanted, memory_order_relaxed)) {
        (void)atomic_exchange(&w->loop_wanted, false); /* whoever wants it again is heard again */
        return true;
    }
    if (++w->passed % LOOP_EVERY != 0) {
        return false;
    }
    if (!iwarp_tcp_is_away(w->hot->ep)) {
        return true;
    }
    int64_t now = iwarp_now_ns();
    if (now - w->loop_ran < LOOP_NS) {
        return false;
    }
    w->loop_ran = now;
    return true;
}

/* It has received, and may be closed since. */
static void count(struct iwarp_worker *w, const struct iwarp_conn *conn)
{
    if (w->hot != conn) {
        return;
    }
    if (w->heat == AWAY && !iwarp_tcp_is_away(conn->ep)) {
        w->heat = HOT; /* it has waited for room to send */
    } else if (w->heat < AWAY && ++w->heat == AWAY) {
        iwarp_tcp_go_away(conn->ep);
    }
}

bool iwarp_worker_read_hot(struct iwarp_worker *w)
{
    struct iwarp_conn *conn = w->hot;
    bool received = false;

    if (!conn || w->heat < HOT || loop_is_due(w)) {
        return false;
    }
    if (!iwarp_conn_receive_hot(conn, &received)) {
        iwarp_worker_chill(w);
        return false;
    }
    if (received) {
        count(w, conn);
    }
    return true;
}
