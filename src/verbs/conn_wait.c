/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A message that came before its receive waits for it: this file has the clock, the wake-up and the
 * log that the stream has not.  One message has its time at a time, the oldest: when it is
 * delivered, the time of the next begins.
 *
 * Nobody is left asleep: the worker first asks to be woken up, and then looks for a receive once
 * more; a thread that posts first posts, and then looks whether somebody asks.  For a ring of the
 * queue pair's own both are atomic read-modify-writes of qp.state; for an SRQ both are done with
 * srq.lock held.
 */
#include "verbs/conn_wait.h"
#include "base/log.h"
#include "loop/clock.h"
#include "stream/stream.h"
#include "transport/stack.h"
#include "verbs/conn.h"
#include "verbs/device.h"
#include "verbs/qp.h"
#include "verbs/srq.h"

unsigned iwarp_conn_rnr_ms(const struct iwarp_conn *conn)
{
    return conn->options.rnr_timeout_ms == IWARP_RNR_OF_DEVICE
               ? conn->device->options.rnr_timeout_ms
               : conn->options.rnr_timeout_ms;
}

size_t iwarp_conn_rnr_bytes(const struct iwarp_conn *conn)
{
    return conn->options.rnr_bytes ? conn->options.rnr_bytes : conn->device->options.rnr_bytes;
}

/* What is left of the time of the oldest message, at least 1 ms. */
static unsigned time_left(const struct iwarp_conn *conn)
{
    int64_t left = conn->await_until - iwarp_now_ms();

    return left < 1 ? 1 : (unsigned)left;
}

/* The peer has closed: what it sent before waits for no longer than closing may take. */
static void shorten(struct iwarp_conn *conn)
{
    int64_t until = iwarp_now_ms() + conn->options.close_timeout_ms;

    if (until < conn->await_until) {
        conn->await_until = until;
        conn->await_changed = true;
    }
}

/* Returns whether there is a receive now; if not, who posts one will kick the worker. */
static bool ask(struct iwarp_conn *conn)
{
    struct iwarp_qp *qp = conn->qp;

    if (qp->options.srq) {
        return iwarp_srq_await(qp->options.srq, &conn->await);
    }
    (void)atomic_fetch_or(&qp->state, QP_ASKS);
    return iwarp_wq_waiting(&qp->rq);
}

/* It has had a receive of the SRQ, and waits for another: those that wait as well come first. */
static void go_behind(struct iwarp_conn *conn)
{
    if (conn->qp->options.srq && conn->waiting) {
        iwarp_srq_await_no_more(conn->qp->options.srq, &conn->await);
    }
}

void iwarp_conn_await_no_more(struct iwarp_conn *conn)
{
    if (!conn->waiting) {
        return;
    }
    conn->waiting = false;
    if (conn->qp && conn->qp->options.srq) {
        iwarp_srq_await_no_more(conn->qp->options.srq, &conn->await);
    } else if (conn->qp) {
        (void)atomic_fetch_and(&conn->qp->state, ~QP_ASKS);
    }
}

/* Peers may do this as often as they like, so the log tells it once a second. */
static void begin(struct iwarp_conn *conn, uint32_t msn)
{
    static struct iwarp_log_limit told;

    conn->await_msn = msn;
    conn->await_since = iwarp_now_ms();
    conn->await_until = conn->await_since + iwarp_conn_rnr_ms(conn);
    if (conn->end_seen || conn->stream.eof) {
        shorten(conn);
    }
    conn->await_changed = true;
    iwarp_log_rarely(&told, IWARP_LOG_INFO, "conn",
                     "qp %u: message %u came before a receive was posted for it, and waits for up "
                     "to %u ms (rnr_timeout_ms)",
                     conn->qp->num, msn, iwarp_conn_rnr_ms(conn));
}

static void explain_full(struct iwarp_conn *conn)
{
    static struct iwarp_log_limit told;
    const struct iwarp_stream *s = &conn->stream;

    if (!iwarp_stream_full(s)) {
        conn->full_told = false;
    } else if (!conn->full_told) {
        conn->full_told = true;
        iwarp_log_rarely(&told, IWARP_LOG_INFO, "conn",
                         "qp %u: %zu octets of messages wait for receives (rnr_bytes), so nothing "
                         "more is read",
                         conn->qp->num, s->hold.octets);
    }
}

/*
 * With a connection that is lost nothing more can make room: what is left of it was read as far as
 * may be held (look_for_end), and held no Terminate.
 */
static bool is_lost(const struct iwarp_conn *conn)
{
    return conn->end_seen && conn->tx_error && iwarp_stream_full(&conn->stream);
}

unsigned iwarp_conn_await_receive(struct iwarp_conn *conn)
{
    uint32_t msn = 0;

    while (iwarp_stream_waits(&conn->stream, &msn)) {
        if (msn != conn->await_msn) {
            go_behind(conn);
        }
        if (!ask(conn)) {
            break;
        }
        iwarp_stream_resume(&conn->stream);
    }
    if (!iwarp_stream_waits(&conn->stream, &msn)) {
        conn->waiting = true; /* it may have asked just now */
        iwarp_conn_await_no_more(conn);
    } else if (is_lost(conn)) {
        iwarp_conn_await_no_more(conn);
        iwarp_stream_kill(&conn->stream, IWARP_FAULT_TCP_LOST, IWARP_SIDE_TRANSPORT,
                          (uint64_t)conn->tx_error);
    } else {
        if (!conn->waiting || msn != conn->await_msn) {
            begin(conn, msn);
        }
        conn->waiting = true;
        explain_full(conn);
    }
    bool changed = conn->waiting && conn->await_changed;
    conn->await_changed = false;
    return changed ? time_left(conn) : 0;
}

unsigned iwarp_conn_waited(struct iwarp_conn *conn)
{
    int64_t now = iwarp_now_ms();

    if (now >= conn->await_until ||
        conn->stream.life != STREAM_RUNNING) { /* closing took so long */
        iwarp_stream_wait_over(&conn->stream, (uint64_t)(now - conn->await_since));
        return 0;
    }
    return time_left(conn);
}

void iwarp_conn_change_wait(struct iwarp_conn *conn)
{
    if (conn->waiting) {
        conn->await_until = conn->await_since + iwarp_conn_rnr_ms(conn);
        conn->await_changed = true;
    }
}

unsigned iwarp_conn_close_ms(struct iwarp_conn *conn)
{
    if (conn->waiting) {
        shorten(conn);
    }
    return conn->waiting ? time_left(conn) : conn->options.close_timeout_ms;
}

void iwarp_conn_look_for_end(struct iwarp_conn *conn)
{
    int error = 0;

    if (!conn->end_seen && conn->tcp && conn->tcp->ending(conn->ep, &error)) {
        conn->end_seen = true;
        if (error && !conn->tx_error) { /* it may be told once only */
            conn->tx_error = error;
            conn->tx_blocked = true;
        }
        iwarp_stream_hold_rest(&conn->stream);
        shorten(conn);
    }
}

/* Not again once it was seen: that does not go away. Endpoints that no stack has made do not tell
 * it without being read. */
void iwarp_conn_watch_end(struct iwarp_conn *conn, bool write)
{
    struct iwarp_endpoint *ep = conn->ep;

    if (conn->tcp && !conn->end_seen) {
        conn->tcp->await_end(ep, write);
    } else {
        ep->ops->watch(ep, false, write && !conn->tx_error);
    }
}
