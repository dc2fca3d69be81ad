/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Times of connections: the limits of start-up, answer and close, when to remind a peer, and when
 * to look at its pace. A worker has one libuv timer for all of its connections, since most of them
 * have nothing to wait for. What waits forms a list in no order. Limits are set and lifted for
 * every connection, but few are ever reached; so setting and lifting cost O(1), and the list is
 * walked only when the timer fires.
 *
 * Invariant: timer_due is no later than the earliest time in the list. It may be earlier, when that
 * one was stopped: then the timer fires early, and the walk computes it anew.
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
#include "verbs/conn_connect.h"
#include "verbs/conn_drive.h"
#include "verbs/conn_setup.h"
#include "verbs/conn_wait.h"
#include "verbs/worker.h"

/*
 * The least time between two walks, in milliseconds: many times that come one after the other
 * share a walk. Each is that much too late at most, which no peer notices.
 */
#define GRAIN_MS 10

/* `at` points to the pointer to it, so unlinking needs neither the list nor a walk. */
static void link_to(struct iwarp_timed **list, struct iwarp_timed *timed)
{
    timed->next = *list;
    timed->at = list;
    if (*list) {
        (*list)->at = &timed->next;
    }
    *list = timed;
}

/* From whatever list it is in. */
static void unlink_timed(struct iwarp_timed *timed)
{
    if (timed->at) {
        *timed->at = timed->next;
        if (timed->next) {
            timed->next->at = timed->at;
        }
        timed->at = NULL;
    }
}

/*
 * A socket that the application had made ends as TCP's do: while the peer takes what was sent, it
 * is waited for. A connection that closes has no pace, so pace_from holds the count here.
 */
static bool takes_more(struct iwarp_conn *conn)
{
    uint64_t taken;

    if (!conn->adopted || !conn->ep || !conn->tcp || !conn->tcp->taken(conn->ep, &taken) ||
        taken == conn->pace_from) {
        return false;
    }
    conn->pace_from = taken;
    return true;
}

/*
 * timer_on tells the two uses of the timer apart in Full Operation: a limit on closing, or a
 * reminder (iwarp_conn_remind_later). Before that every use is a limit. The detail of the fault is
 * the limit as the application had set it.
 */
static void timed_out(struct iwarp_conn *conn)
{
    bool limit = conn->timer_on;
    conn->timer_on = false;
    switch (conn->state) {
    case CONN_CONNECTING:
        if (conn->ep) {
            iwarp_conn_fail(conn, IWARP_FAULT_TCP_TIMEOUT, IWARP_SIDE_TRANSPORT, conn->timer_ms, 0);
        } else {
            iwarp_conn_connect_again(conn);
        }
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
        } else if (limit && conn->has_stream && takes_more(conn)) {
            iwarp_conn_start_timer(conn, conn->options.close_timeout_ms);
        } else if (limit && conn->has_stream) {
            iwarp_stream_kill(&conn->stream, IWARP_FAULT_TCP_CLOSE_TIMEOUT, IWARP_SIDE_TRANSPORT,
                              conn->timer_ms);
        }
        iwarp_conn_turn(conn, limit ? 0 : IWARP_TURN_REMIND);
        break;
    }
}

/* Without a lock. The reference keeps the connection alive while it ends itself. */
static void fire(struct iwarp_timed *timed)
{
    struct iwarp_conn *conn = timed->conn;

    iwarp_conn_get(conn);
    iwarp_mutex_lock(&conn->lock);
    timed->fn(conn);
    iwarp_conn_unlock(conn);
    iwarp_conn_put(conn);
}

/*
 * On the worker, without a lock. The list belongs to the worker alone, so it is walked without one;
 * each connection is locked only when its turn comes.
 *
 * Two passes: the first moves all that is due to a second list, and the next takes each off that
 * list and handles it. Ending one connection may start or stop a time of another, on either list,
 * and no pointer into a list is kept across such a call.
 */
static void on_timer(uv_timer_t *timer)
{
    struct iwarp_worker *w = timer->data;
    struct iwarp_timed *due = NULL, *next;
    uint64_t now = iwarp_loop_now(&w->loop);

    w->timer_due = UINT64_MAX;
    for (struct iwarp_timed *timed = w->timed; timed; timed = next) {
        next = timed->next;
        if (timed->due <= now) {
            unlink_timed(timed);
            link_to(&due, timed);
        } else if (timed->due < w->timer_due) {
            w->timer_due = timed->due;
        }
    }
    if (w->timed) {
        if (w->timer_due < now + GRAIN_MS) {
            w->timer_due = now + GRAIN_MS;
        }
        iwarp_loop_start(&w->loop, timer, on_timer, w->timer_due - now);
    }
    while (due) { /* each may stop or start any of the others */
        struct iwarp_timed *timed = due;
        unlink_timed(timed);
        fire(timed);
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
 * The loop's time is updated first; else this would count from when this turn of the loop began,
 * which may be long ago.
 */
void iwarp_conn_start_timed(struct iwarp_conn *conn, struct iwarp_timed *timed,
                            void (*fn)(struct iwarp_conn *conn), unsigned ms)
{
    struct iwarp_worker *w = conn->worker;

    timed->conn = conn;
    timed->fn = fn;
    timed->due = iwarp_loop_now(&w->loop) + ms;
    unlink_timed(timed);
    link_to(&w->timed, timed);
    if (timed->due < w->timer_due) {
        w->timer_due = timed->due;
        iwarp_loop_start(&w->loop, &w->timer, on_timer, ms);
    }
}

/* libuv's timer keeps running while there are others: firing early costs one walk. */
void iwarp_conn_stop_timed(struct iwarp_conn *conn, struct iwarp_timed *timed)
{
    struct iwarp_worker *w = conn->worker;

    if (!timed->at) {
        return; /* maybe no worker has it yet */
    }
    unlink_timed(timed);
    if (!w->timed) {
        w->timer_due = UINT64_MAX;
        iwarp_loop_stop_timer(&w->loop, &w->timer);
    }
}

/* A connection has one limit at a time: a new one replaces the old one. */
void iwarp_conn_start_timer(struct iwarp_conn *conn, unsigned ms)
{
    conn->timer_on = true;
    conn->timer_ms = ms;
    iwarp_conn_start_timed(conn, &conn->limit, timed_out, ms);
}

void iwarp_conn_start_wait(struct iwarp_conn *conn, unsigned ms)
{
    if (!conn->timer_on) {
        iwarp_conn_start_timer(conn, ms);
        conn->timer_on = false;
    }
}

void iwarp_conn_stop_timer(struct iwarp_conn *conn)
{
    conn->timer_on = false;
    iwarp_conn_stop_timed(conn, &conn->limit);
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

/* --- pace --------------------------------------------------------------------------------------
 *
 * Peers that take what is sent to them so slowly that it may be meant (RFC 5042 6.4). One that
 * takes nothing at all is the stack's matter (`patience` in transport/stack.h). One that takes a
 * little now and then would keep requests and memory of this end for as long as it likes: so while
 * this end waits for room it must take at least one octet a millisecond, over user_timeout_ms.
 *
 * A stretch of user_timeout_ms begins when a turn leaves the endpoint full. It counts if every turn
 * until its end has left the endpoint full: else there was nothing to send for a while, or the peer
 * has made room for a whole share of what there was. It is looked at in quarters. One that is
 * looked at late by as much as it lasts does not count: this end stood still, and offered nothing.
 * So a peer is found too slow after two stretches at most. Connections that are seldom full pay for
 * this by a test of two bits a turn. Injected faults hold octets back at this end, so there is no
 * pace.
 */

#define QUARTERS 4

static void begin_stretch(struct iwarp_conn *conn);
static void look_at_pace(struct iwarp_conn *conn);

static void begin_quarter(struct iwarp_conn *conn)
{
    unsigned ms = conn->options.user_timeout_ms / QUARTERS;

    iwarp_conn_start_timed(conn, &conn->pace, look_at_pace, ms > 0 ? ms : 1);
}

/* Of a quarter that is over. */
static bool is_late(const struct iwarp_conn *conn)
{
    return iwarp_loop_now(&conn->worker->loop) - conn->pace.due >
           conn->options.user_timeout_ms / QUARTERS;
}

/*
 * A connection that closes is left alone: close_timeout_ms bounds it. So is one whose peer has
 * taken nothing at all: the stack judges that, from the last octet on.
 */
static void look_at_pace(struct iwarp_conn *conn)
{
    uint64_t taken, least = conn->options.user_timeout_ms;

    if (!conn->ep || !conn->tx_blocked || conn->tx_error || conn->stream.life != STREAM_RUNNING) {
        return;
    }
    if (conn->pace_quarters == 0 || is_late(conn)) {
        begin_stretch(conn);
        return;
    }
    if (--conn->pace_quarters > 0) {
        begin_quarter(conn);
        return;
    }
    if (conn->tcp->taken(conn->ep, &taken) && taken > conn->pace_from &&
        taken - conn->pace_from < least) {
        iwarp_fault_set(&conn->stream.fault, IWARP_FAULT_TCP_SLOW, IWARP_SIDE_TRANSPORT,
                        taken - conn->pace_from, least, 0);
        iwarp_stream_kill(&conn->stream, IWARP_FAULT_TCP_SLOW, IWARP_SIDE_TRANSPORT, 0);
        iwarp_conn_turn(conn, 0);
        return;
    }
    begin_stretch(conn);
}

/* Where nobody knows what is taken nothing is to come, for a simulation ends when nothing does. */
static void begin_stretch(struct iwarp_conn *conn)
{
    conn->pace_quarters = 0;
    if (!conn->inject && conn->tcp->taken(conn->ep, &conn->pace_from)) {
        conn->pace_quarters = QUARTERS;
        begin_quarter(conn);
    }
}

void iwarp_conn_keep_pace(struct iwarp_conn *conn)
{
    if (!conn->tx_blocked || conn->tx_error) {
        conn->pace_quarters = 0;
    } else if (!conn->pace.at && conn->tcp && conn->options.user_timeout_ms > 0) {
        begin_stretch(conn);
    }
}
