/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time limits of connections: start-up, answer, close, and when to remind a peer. A worker has one
 * libuv timer for all of its connections, since most of them have no limit to keep. Connections
 * with a limit form a list in no order. Limits are set and lifted for every connection, but few are
 * ever reached; so setting and lifting cost O(1), and the list is walked only when the timer fires.
 *
 * Invariant: timer_due is no later than the earliest limit in the list. It may be earlier, when
 * that connection's limit was lifted: then the timer fires early, and the walk computes it anew.
 *
 * A connection has one limit at a time; what reaching it means follows from the connection's state
 * (timed_out). All times are in milliseconds of the loop's clock, which is monotonic.
 *
 * All functions run on the connection's worker.
 */
#include "verbs/conn_timer.h"
#include "loop/clock.h"
#include "loop/loop.h"
#include "stream/stream.h"
#include "verbs/conn.h"
#include "verbs/conn_drive.h"
#include "verbs/conn_setup.h"
#include "verbs/conn_wait.h"
#include "verbs/worker.h"

/*
 * The least time between two walks, in milliseconds: many limits that are reached one after the
 * other share a walk. A limit is reached that much too late at most, which no peer notices.
 */
#define GRAIN_MS 10

/*
 * `timed_at` points to the pointer to the connection, so unlinking needs neither the list nor a
 * walk.
 */
static void link_to(struct iwarp_conn **list, struct iwarp_conn *conn)
{
    conn->timed_next = *list;
    conn->timed_at = list;
    if (*list) {
        (*list)->timed_at = &conn->timed_next;
    }
    *list = conn;
}

/* From whatever list it is in. */
static void unlink_timed(struct iwarp_conn *conn)
{
    if (conn->timed_at) {
        *conn->timed_at = conn->timed_next;
        if (conn->timed_next) {
            conn->timed_next->timed_at = conn->timed_at;
        }
        conn->timed_at = NULL;
    }
}

/*
 * On the worker, without a lock. The reference keeps the connection alive while it ends itself.
 *
 * timer_on tells the two uses of the timer apart in Full Operation: a limit on closing, or a
 * reminder (iwarp_conn_remind_later). Before that every use is a limit. The detail of the fault is
 * the limit as the application had set it.
 */
static void timed_out(struct iwarp_conn *conn)
{
    iwarp_conn_get(conn);
    iwarp_mutex_lock(&conn->lock);
    bool limit = conn->timer_on;
    conn->timer_on = false;
    switch (conn->state) {
    case CONN_CONNECTING:
        iwarp_conn_fail(conn, IWARP_FAULT_TCP_TIMEOUT, IWARP_SIDE_TRANSPORT, conn->timer_ms, 0);
        break;
    case CONN_SECURING:
        iwarp_conn_fail(conn, IWARP_FAULT_TLS_TIMEOUT, IWARP_SIDE_TRANSPORT, conn->timer_ms, 0);
        break;
    case CONN_STARTUP:
        iwarp_conn_fail(conn, IWARP_FAULT_MPA_TIMEOUT, IWARP_SIDE_TRANSPORT, conn->timer_ms,
                        conn->startup->setup.have);
        break;
    case CONN_REQUEST:
        iwarp_conn_decline(conn, IWARP_FAULT_MPA_UNANSWERED, conn->timer_ms);
        break;
    case CONN_ESTABLISHED:
    case CONN_ENDED: /* a close that takes too long */
        if (limit && iwarp_conn_lingers(conn)) {
            iwarp_conn_close_endpoint(conn, true);
        } else if (conn->waiting) {
            unsigned ms = iwarp_conn_waited(conn);
            if (ms > 0) {
                iwarp_conn_start_wait(conn, ms);
            }
        } else if (limit && conn->has_stream) {
            iwarp_stream_kill(&conn->stream, IWARP_FAULT_TCP_CLOSE_TIMEOUT, IWARP_SIDE_TRANSPORT,
                              conn->timer_ms);
        }
        iwarp_conn_turn(conn, limit ? 0 : IWARP_TURN_REMIND);
        break;
    }
    iwarp_conn_unlock(conn);
    iwarp_conn_put(conn);
}

/*
 * On the worker, without a lock. The list belongs to the worker alone, so it is walked without one;
 * each connection is locked only when its turn comes.
 *
 * Two passes: first all connections that are due move to a list of their own, then each is taken
 * off that list and handled. Ending one connection may start or stop the limit of another, on
 * either list, and no pointer into a list is kept across such a call.
 */
static void on_timer(uv_timer_t *timer)
{
    struct iwarp_worker *w = timer->data;
    struct iwarp_conn *due = NULL, *next;
    uint64_t now = iwarp_loop_now(&w->loop);

    w->timer_due = UINT64_MAX;
    for (struct iwarp_conn *conn = w->timed; conn; conn = next) {
        next = conn->timed_next;
        if (conn->due <= now) {
            unlink_timed(conn);
            link_to(&due, conn);
        } else if (conn->due < w->timer_due) {
            w->timer_due = conn->due;
        }
    }
    if (w->timed) {
        if (w->timer_due < now + GRAIN_MS) {
            w->timer_due = now + GRAIN_MS;
        }
        iwarp_loop_start(&w->loop, timer, on_timer, w->timer_due - now);
    }
    while (due) { /* each may stop or start any of the others */
        struct iwarp_conn *conn = due;
        unlink_timed(conn);
        timed_out(conn);
    }
}

/* No connection yet: UINT64_MAX stands for a timer that is stopped. */
void iwarp_worker_open_timer(struct iwarp_worker *w)
{
    uv_timer_init(w->loop.uv, &w->timer);
    w->timer.data = w;
    w->timer_due = UINT64_MAX;
}

/*
 * A connection has one limit at a time: a new one replaces the old one. The loop's time is updated
 * first; else the limit would count from when this turn of the loop began, which may be long ago.
 */
void iwarp_conn_start_timer(struct iwarp_conn *conn, unsigned ms)
{
    struct iwarp_worker *w = conn->worker;

    conn->timer_on = true;
    conn->timer_ms = ms;
    conn->due = iwarp_loop_now(&w->loop) + ms;
    unlink_timed(conn);
    link_to(&w->timed, conn);
    if (conn->due < w->timer_due) {
        w->timer_due = conn->due;
        iwarp_loop_start(&w->loop, &w->timer, on_timer, ms);
    }
}

void iwarp_conn_start_wait(struct iwarp_conn *conn, unsigned ms)
{
    if (!conn->timer_on) {
        iwarp_conn_start_timer(conn, ms);
        conn->timer_on = false;
    }
}

/* libuv's timer keeps running while other connections have limits: firing early costs one walk. */
void iwarp_conn_stop_timer(struct iwarp_conn *conn)
{
    struct iwarp_worker *w = conn->worker;

    conn->timer_on = false;
    if (!conn->timed_at) {
        return; /* maybe no worker has it yet */
    }
    unlink_timed(conn);
    if (!w->timed) {
        w->timer_due = UINT64_MAX;
        iwarp_loop_stop_timer(&w->loop, &w->timer);
    }
}

/* A second try with revision 1 gets what the first one has left of the limit, at least 1 ms. */
void iwarp_conn_start_phase(struct iwarp_conn *conn, unsigned ms, const unsigned *used)
{
    iwarp_conn_start_timer(conn, ms > *used ? ms - *used : 1);
    conn->timer_ms = ms;
    conn->startup->phase_began = iwarp_now_ms();
}

/* The time is added up over both tries, on the monotonic clock. */
void iwarp_conn_end_phase(struct iwarp_conn *conn, unsigned *used)
{
    *used += (unsigned)(iwarp_now_ms() - conn->startup->phase_began);
    iwarp_conn_stop_timer(conn);
}
