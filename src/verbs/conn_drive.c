/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Full Operation: moving octets between a stream and its endpoint, and acting on where the stream
 * stands in its life. Any thread may send; the worker receives, watches and closes.
 *
 * Three kinds of threads come here, each with conn.lock held: the worker, when the loop finds the
 * endpoint ready; a thread that has posted; and a thread that gives conn.lock back and finds that
 * somebody has posted meanwhile. All three produce completions, and tell of them after unlocking.
 */
#include "verbs/conn_drive.h"
#include "base/log.h"
#include "base/virtual.h"
#include "loop/clock.h"
#include "loop/loop.h"
#include "peers/peers.h"
#include "stream/stream.h"
#include "tls/tls.h"
#include "transport/transport.h"
#include "verbs/conn.h"
#include "verbs/conn_admit.h"
#include "verbs/conn_lend.h"
#include "verbs/conn_setup.h"
#include "verbs/conn_tap.h"
#include "verbs/conn_timer.h"
#include "verbs/conn_tls.h"
#include "verbs/conn_wait.h"
#include "verbs/cq.h"
#include "verbs/defer.h"
#include "verbs/device.h"
#include "verbs/qp.h"
#include "verbs/stats.h"
#include "verbs/worker.h"

#include <errno.h>

#define RX_IOV     64
#define RX_ROUNDS  8             /* reads before another connection gets its turn */
#define TX_BATCHES 3             /* the same for batches that are sent, */
#define TX_TURN    (372 * 1024)  /* and for octets of them: three small ones, or a large one */
#define FIT_AFTER  (1024 * 1024) /* octets sent until the transport is asked again for its EMSS */

static size_t iov_total(const struct iovec *iov, unsigned n)
{
    size_t total = 0;

    for (unsigned i = 0; i < n; i++) {
        total += iov[i].iov_len;
    }
    return total;
}

/* --- sending --------------------------------------------------------------------------------- */

/*
 * A write of len octets from addr has failed.  After a reset the peer's last words, perhaps a
 * Terminate, may still be in the receive buffer: they are read first, and tx_error keeps the reason
 * until then.
 */
static void write_failed(struct iwarp_conn *conn, int error, const void *addr, size_t len)
{
    if (iwarp_tls_fault(conn->tls)) {
        iwarp_conn_tls_broke(conn);
    } else if ((error == ECONNRESET || error == EPIPE) && !conn->stream.eof) {
        conn->tx_error = error;
        conn->tx_blocked = true;
    } else if (error == EFAULT) { /* the memory vanished after the CRC was computed */
        iwarp_fault_set(&conn->stream.fault, IWARP_FAULT_LOCAL_MEMORY, IWARP_SIDE_LOCAL,
                        (uint64_t)(uintptr_t)addr, len, 0);
        iwarp_stream_kill(&conn->stream, IWARP_FAULT_LOCAL_MEMORY, IWARP_SIDE_LOCAL, 0);
    } else {
        iwarp_stream_kill(&conn->stream, IWARP_FAULT_TCP_LOST, IWARP_SIDE_TRANSPORT,
                          (uint64_t)error);
    }
}

/*
 * RFC 5044 7.1.2 rule 4: a responder sends nothing before the first FPDU of the initiator.  Without
 * peer-to-peer mode, two programs that wait for each other look like a dead network, so the log
 * says once for each connection that work is being held.
 */
static void explain_hold(struct iwarp_conn *conn)
{
    static struct iwarp_log_limit held[2]; /* peers may come as often as they like */
    const struct iwarp_stream *s = &conn->stream;

    if (conn->hold_told || conn->settled.peer_to_peer || s->life != STREAM_RUNNING || !conn->qp ||
        s->config.sq->done == iwarp_wq_head(s->config.sq)) {
        return;
    }
    bool old = conn->settled.rev < 2;
    conn->hold_told = true;
    iwarp_log_rarely(
        &held[old], IWARP_LOG_WARN, "conn",
        "qp %u: work is held until the initiator has sent something (RFC 5044 7.1.2 rule 4): "
        "its Request %s; peer-to-peer mode of revision 2 would have let this end go first",
        conn->qp->num, old ? "was of revision 1" : "did not ask for peer-to-peer mode");
}

/*
 * Not an atomic addition: two threads at once may count as one.  It only has to be good enough for
 * comparing rates (loop/look.c), and this is on the way of each write.
 */
static void count_sent(struct iwarp_loop *l, uint64_t octets)
{
    uint64_t before = atomic_load_explicit(&l->sent, memory_order_relaxed);

    atomic_store_explicit(&l->sent, before + octets, memory_order_relaxed);
}

/*
 * The segment size of a TCP connection grows with the peer's window, and shrinks with the path, so
 * the FPDU size is fitted again after each FIT_AFTER octets.  Asking is a system call.
 */
static void fit_again(struct iwarp_conn *conn, size_t sent)
{
    conn->unfitted += (uint32_t)sent;
    if (conn->unfitted >= FIT_AFTER) {
        iwarp_conn_fit(conn);
    }
}

static ssize_t send_batch(struct iwarp_conn *conn, const struct iovec *iov, unsigned n,
                          size_t *offered)
{
    if (iwarp_conn_refers(conn)) {
        return iwarp_conn_send_burst(conn, iov, n, offered);
    }
    *offered = iov_total(iov, n);
    return iwarp_conn_writev(conn, iov, (int)n);
}

/*
 * A write that took less than was offered means that the transport is full: the next one would
 * return EAGAIN, so it is not tried.  `sent` may be 0 or negative; the stream is told in any case,
 * which ends the gather.
 */
void iwarp_conn_send(struct iwarp_conn *conn)
{
    const struct iovec *iov;
    unsigned batches = 0;
    size_t octets = 0;

    iwarp_defer_sent(conn);

    while (conn->has_stream && conn->ep && !conn->tx_blocked && batches < TX_BATCHES &&
           octets < TX_TURN) {
        batches++;
        unsigned n = iwarp_stream_gather(&conn->stream, &iov);
        if (n == 0) {
            if (conn->stream.config.hold_tx) {
                explain_hold(conn);
            }
            break;
        }
        size_t offered;
        const void *first = iov[0].iov_base;
        ssize_t sent = send_batch(conn, iov, n, &offered);
        iwarp_stream_sent(&conn->stream, sent > 0 ? (size_t)sent : 0);
        if (sent > 0) {
            octets += (size_t)sent;
            count_sent(&conn->worker->loop, (uint64_t)sent);
            fit_again(conn, (size_t)sent);
        }
        if (iwarp_conn_refers(conn)) {
            iwarp_conn_take_released(conn);
        } else if (sent > 0 && conn->qp) {
            iwarp_stream_released(&conn->stream, (size_t)sent); /* the transport has a copy */
        }
        if (sent == -EAGAIN || (sent >= 0 && (size_t)sent < offered)) {
            conn->tx_blocked = true;
        } else if (sent < 0) {
            write_failed(conn, (int)-sent, first, offered);
        }
    }
}

/* --- a peer that overlooks the first FPDU ---------------------------------------------------- */

void iwarp_conn_remind_later(struct iwarp_conn *conn)
{
    const uint16_t *at = iwarp_peers_remind_ms;
    unsigned i = conn->reminders;

    if (conn->responder || !conn->options.remind || conn->timer_on || conn->stream.rx.pos > 0 ||
        !conn->tcp || i == sizeof iwarp_peers_remind_ms / sizeof *at) {
        return;
    }
    conn->reminders++;
    iwarp_conn_start_wait(conn, at[i] - (i > 0 ? at[i - 1] : 0u));
}

/*
 * The stream decides whether there is anything to remind of: not once the peer has sent an octet.
 */
static void remind(struct iwarp_conn *conn)
{
    if (iwarp_stream_remind(&conn->stream)) {
        iwarp_log(IWARP_LOG_INFO, "conn",
                  "no octet came from the peer within %u ms of its Reply: a zero-length RDMA Write "
                  "reminds it of what was sent (siw can overlook that)",
                  (unsigned)iwarp_peers_remind_ms[conn->reminders - 1]);
    }
    iwarp_conn_remind_later(conn);
}

/* --- receiving ------------------------------------------------------------------------------- */

/*
 * One read, straight to where the stream wants the octets, and beyond that into the staging area.
 * The regions are lent between want and placed, also if the read fails.  False: there is nothing
 * more to read now.  On the worker, locked.
 */
static bool receive_once(struct iwarp_conn *conn)
{
    if (iwarp_stream_full(&conn->stream)) {
        return false;
    }
    if (iwarp_conn_borrows(conn)) {
        return iwarp_conn_receive_lent(conn);
    }
    struct iwarp_worker *w = conn->worker;
    struct iovec iov[RX_IOV];
    struct iwarp_lends lends;
    size_t staging;
    unsigned n = iwarp_stream_want(&conn->stream, &lends, iov, RX_IOV - 1, &staging);
    size_t wanted = iov_total(iov, n);

    if (staging > w->staging_len) {
        staging = w->staging_len;
    }
    if (staging > 0) {
        iov[n++] = (struct iovec){w->staging, staging};
    }
    ssize_t got = iwarp_conn_readv(conn, iov, (int)n);
    if (got <= 0) {
        iwarp_stream_placed(&conn->stream, 0);
        if (got == -EFAULT) {
            iwarp_stream_kill(&conn->stream, IWARP_FAULT_LOCAL_MEMORY, IWARP_SIDE_LOCAL,
                              (uint64_t)(uintptr_t)iov[0].iov_base);
        } else if (iwarp_tls_fault(conn->tls)) {
            iwarp_conn_tls_broke(conn);
        } else if (got != -EAGAIN) {
            /* The kernel reports an error of the socket once: a failed write has taken it. */
            iwarp_stream_eof(&conn->stream, got < 0 ? (int)-got : conn->tx_error);
        }
        return false;
    }
    w->loop.received += (uint64_t)got;
    size_t direct = (size_t)got < wanted ? (size_t)got : wanted;
    iwarp_stream_placed(&conn->stream, direct);
    if ((size_t)got > direct) {
        iwarp_stream_feed(&conn->stream, w->staging, (size_t)got - direct);
    }
    return (size_t)got == wanted + staging && !conn->stream.eof;
}

/*
 * Read until there is nothing more, or for RX_ROUNDS reads: then other connections of the worker
 * have their turn, and the loop, which is level-triggered, comes back to this one. A transport that
 * is polled has no descriptor that the loop could find ready again, so it needs the kick.
 */
static void receive(struct iwarp_conn *conn)
{
    bool more = receive_once(conn);

    for (unsigned i = 1; i < RX_ROUNDS && more && conn->ep; i++) {
        iwarp_conn_send(conn); /* answers do not wait for what comes behind, nor completions */
        iwarp_qp_reap(conn);
        if (conn->pushed && conn->qp) {
            iwarp_qp_tell(conn->qp);
        }
        more = receive_once(conn);
    }
    if (more && conn->ep && conn->ep->ops->poll) {
        iwarp_worker_kick(conn);
    }
}

/* As above: what a transport that is polled has left would be found by nobody. */
static void receive_directly(struct iwarp_conn *conn)
{
    if (receive_once(conn) && conn->ep && conn->ep->ops->poll) {
        iwarp_worker_kick(conn);
    }
}

/* --- life ------------------------------------------------------------------------------------ */

/* One line for each connection, at info: how it ended. */
static void log_end(const struct iwarp_conn *conn)
{
    char text[400], peer[IWARP_ADDR_TEXT];

    if (!iwarp_log_on(IWARP_LOG_INFO)) {
        return;
    }
    iwarp_fault_text(&conn->fault, text, sizeof text);
    iwarp_log(IWARP_LOG_INFO, "conn", "connection with %s ended: %s",
              iwarp_addr_text(&conn->peer, peer), conn->fault.code ? text : "closed in order");
}

/*
 * Only if the peer has gone, or TCP has, and no request of this end is half done: then the stream
 * leaves nothing behind that a flush would have to report.
 */
static bool qp_outlives(const struct iwarp_conn *conn)
{
    const struct iwarp_fault *f = &conn->fault;
    bool lost = f->code == IWARP_FAULT_NONE || f->code == IWARP_FAULT_RDMAP_PEER_CLOSED ||
                f->side == IWARP_SIDE_TRANSPORT;

    return conn->qp && conn->options.keep_qp && lost && conn->stream.tx.off == 0 &&
           conn->qp->sq.done == conn->qp->sq.next;
}

/*
 * The order matters. The state comes first, so that reaping flushes what is left. The queue pair is
 * in ERROR before its requests are flushed, so a request that is posted now is flushed, too (see
 * iwarp_post_recv). The event comes last: an application that takes it finds everything else done.
 */
/* [DDP-3-11] [RDMAP-7-03] [DDP-6.2.2-01] [RDMAP-7.1-01] [DDP-8.3-04] */
void iwarp_conn_ended(struct iwarp_conn *conn)
{
    if (conn->state == CONN_ENDED) {
        return;
    }
    conn->fault = conn->stream.fault;
    if (qp_outlives(conn)) {
        iwarp_qp_part(conn);
    }
    conn->state = CONN_ENDED;
    iwarp_defer_forget(conn);
    iwarp_stats_stream_ended(conn);
    log_end(conn);
    iwarp_conn_await_no_more(conn);
    if (conn->qp) {
        iwarp_qp_set_state(conn->qp, IWARP_QP_ERROR);
        iwarp_qp_reap(conn);
        iwarp_qp_report_end(conn);
    }
    iwarp_conn_report(conn, IWARP_EVENT_DISCONNECTED);
}

/* The kernel has all octets of a socket that the application had made: it goes on with them, as
 * after close(2). */
static bool leaves_the_rest(const struct iwarp_conn *conn)
{
    return conn->adopted && conn->fin_sent &&
           conn->stream.fault.code == IWARP_FAULT_TCP_CLOSE_TIMEOUT;
}

/*
 * Carry the stream's life over to the queue pair's state (verbs 6.2), and bound how long an ending
 * may take. ERROR is left to iwarp_conn_ended. locked.
 */
static void follow_life(struct iwarp_conn *conn)
{
    static const enum iwarp_qp_state states[] = {[STREAM_RUNNING] = IWARP_QP_RTS,
                                                 [STREAM_CLOSING] = IWARP_QP_CLOSING,
                                                 [STREAM_TERMINATING] = IWARP_QP_TERMINATE,
                                                 [STREAM_DRAINING] = IWARP_QP_TERMINATE};
    enum iwarp_stream_life life = conn->stream.life;

    if (conn->qp && conn->state == CONN_ESTABLISHED && life != STREAM_ENDED) {
        iwarp_qp_set_state(conn->qp, states[life]);
    }
    if (life != STREAM_RUNNING && life != STREAM_ENDED && !conn->timer_on) {
        iwarp_conn_start_timer(conn, iwarp_conn_close_ms(conn));
    }
}

/*
 * After a direct read: nothing is to be sent, nothing changes in the stream's life, and TCP watches
 * what it watched before. Then `settle` would do nothing but cost a call of `watch`.
 */
static bool is_settled(struct iwarp_conn *conn)
{
    const struct iwarp_stream *s = &conn->stream;

    return s->life == STREAM_RUNNING && !s->eof && !conn->tx_blocked && !conn->waiting &&
           iwarp_stream_drained(s) && !iwarp_stream_tx_waits(&conn->stream);
}

/* Does the transport still read memory of requests? Then these are not flushed yet, since the
 * application may change the memory of a request that is. The peer's FIN, or the limit on closing,
 * ends that. */
static bool is_read(const struct iwarp_conn *conn)
{
    return iwarp_conn_refers(conn) && conn->stream.tx.released != conn->stream.tx.sent;
}

/*
 * What follows from the stream's state after receiving: send, close the sending side, change the
 * state, and tell the loop what to watch.  It may close the endpoint.  On the worker, locked.
 */
static void settle(struct iwarp_conn *conn)
{
    unsigned interest = iwarp_stream_interest(&conn->stream);
    while ((interest & IWARP_STREAM_WRITE) && !conn->tx_blocked && conn->ep) {
        iwarp_conn_send(conn);
        interest = iwarp_stream_interest(&conn->stream);
        if (conn->stream.life == STREAM_RUNNING) {
            break; /* this turn has sent its share; the loop calls again when there is room */
        }
    }
    if ((interest & IWARP_STREAM_SHUTDOWN) && !conn->fin_sent) {
        conn->fin_sent = true;
        iwarp_conn_shutdown_write(conn);
    }
    follow_life(conn);
    if (conn->stream.life == STREAM_DRAINING && !is_read(conn)) {
        iwarp_conn_ended(conn); /* the application need not wait for the peer's FIN */
    }
    if (conn->stream.life == STREAM_ENDED) {
        iwarp_conn_close_endpoint(conn, conn->stream.abort && !leaves_the_rest(conn));
        iwarp_conn_ended(conn); /* now nothing reads memory of requests */
        return;
    }
    iwarp_conn_keep_pace(conn);
    bool write = conn->tx_blocked || (interest & IWARP_STREAM_WRITE) != 0;
    if (iwarp_stream_full(&conn->stream)) {
        iwarp_conn_watch_end(conn, write);
    } else {
        conn->ep->ops->watch(conn->ep, !conn->stream.eof, write);
    }
}

/* --- turns ----------------------------------------------------------------------------------- */

/*
 * Work was posted.  A thread that is not the worker's may only send; if the stream is ending, or
 * the transport has become full and has to be watched, the worker is kicked to do the rest. locked.
 */
static void turn_of_poster(struct iwarp_conn *conn)
{
    bool was_blocked = conn->tx_blocked;

    iwarp_conn_send(conn);
    iwarp_qp_reap(conn);
    if (conn->stream.life != STREAM_RUNNING ||
        (!was_blocked &&
         (conn->tx_blocked || (iwarp_stream_interest(&conn->stream) & IWARP_STREAM_WRITE) != 0))) {
        iwarp_worker_kick(conn);
    }
}

/* After a failed write (tx_error) nothing is sent any more, whatever the socket says. */
static void has_room(struct iwarp_conn *conn)
{
    if (!conn->tx_error) {
        conn->tx_blocked = false;
        iwarp_conn_fit(conn); /* after a wait, so the price of asking does not show */
    }
}

/* A poster's requests are held as well: it has kicked the worker, which comes here. */
static void await_release(struct iwarp_conn *conn)
{
    unsigned ms = iwarp_inject_late_ms(conn->inject);
    bool sooner = conn->limit.at && conn->limit.due <= iwarp_loop_now(&conn->worker->loop) + ms;

    if (ms > 0 && conn->ep && !sooner) {
        iwarp_conn_start_wait(conn, ms);
    }
}

static void await_receive(struct iwarp_conn *conn)
{
    unsigned ms = iwarp_conn_await_receive(conn);

    if (ms > 0) {
        iwarp_conn_start_wait(conn, ms);
    }
}

/*
 * Sending room and reminders come before receiving, receiving before sending: so an answer to what
 * was just received goes out in the same turn. Completions are reaped once, at the end. Receiving
 * or settling may end the stream and close the endpoint, and each step looks whether it is still
 * there.
 */
void iwarp_conn_turn(struct iwarp_conn *conn, unsigned reasons)
{
    if (!conn->has_stream) {
        return;
    }
    if (!conn->ep) { /* it has ended: what was posted since is flushed */
        iwarp_qp_reap(conn);
        return;
    }
    if (iwarp_conn_refers(conn)) {
        iwarp_conn_take_released(conn);
    }
    if (reasons & IWARP_TURN_WRITABLE) {
        has_room(conn);
    }
    if (reasons & IWARP_TURN_REMIND) {
        remind(conn);
    }
    if (conn->waiting) {
        iwarp_stream_resume(&conn->stream);
    }
    if (reasons & IWARP_TURN_READABLE) {
        if (iwarp_stream_full(&conn->stream)) {
            iwarp_conn_look_for_end(conn);
        }
        receive(conn);
    } else if (reasons & IWARP_TURN_DIRECT) {
        receive_directly(conn);
    }
    if (conn->waiting || conn->stream.hold.first) {
        await_receive(conn);
    }
    if (iwarp_conn_lingers(conn)) {
        iwarp_conn_send(conn);
    } else if (!(reasons & IWARP_TURN_DIRECT) || !is_settled(conn)) {
        settle(conn);
    }
    iwarp_qp_reap(conn);
    if (conn->stream.life == STREAM_ENDED && conn->state == CONN_ESTABLISHED && conn->ep) {
        settle(conn); /* its completion queue has overflowed in the reaping */
    }
    if (conn->inject) {
        await_release(conn);
    }
}

/*
 * The three functions of the hot source (loop/hot.h), called by the thread that runs the loop,
 * without a lock. is_watched and watch touch the endpoint without conn.lock, as only that thread
 * watches and closes it.
 */
static bool is_watched(void *conn)
{
    const struct iwarp_conn *c = conn;

    return !c->tcp->is_away(c->ep);
}

static void watch(void *arg, bool on)
{
    struct iwarp_conn *conn = arg;

    if (on) {
        conn->tcp->come_back(conn->ep);
    } else {
        conn->tcp->go_away(conn->ep);
    }
}

/*
 * The endpoint holds a reference to the connection and is closed in the loop only, so the
 * connection is still there.  False: something other than receiving is to be done, and only the
 * loop does it.
 */
static bool read_directly(void *arg, bool *received)
{
    struct iwarp_conn *conn = arg;
    const struct iwarp_stream *s = &conn->stream;

    iwarp_mutex_lock(&conn->lock);
    bool can = conn->state == CONN_ESTABLISHED && conn->has_stream && conn->ep &&
               s->life == STREAM_RUNNING && !s->eof && !iwarp_stream_full(s);
    uint64_t before = s->rx.pos;
    if (can) {
        iwarp_conn_turn(conn, IWARP_TURN_DIRECT);
        *received = s->rx.pos != before;
    }
    iwarp_conn_unlock(conn);
    return can;
}

/* A connection over TCP that alone receives: loop/hot.h. */
static const struct iwarp_hot_source hot_source = {read_directly, is_watched, watch};

/*
 * The loop has found the transport ready, in Full Operation or later.  A TCP connection that
 * received is reported as a candidate for the hot source.
 */
static void turn_of_loop(struct iwarp_conn *conn, unsigned reasons)
{
    uint64_t before = conn->stream.rx.pos;

    if (reasons & IWARP_TURN_READABLE) {
        iwarp_spin_receives(conn);
    }
    iwarp_conn_turn(conn, reasons);
    iwarp_spin_received(conn);
    if (conn->ep && conn->stream.rx.pos != before && conn->tcp) {
        iwarp_hot_received(&conn->worker->loop, &hot_source, conn);
    }
}

/*
 * On the worker, without a lock.  The reference keeps the connection alive should its endpoint,
 * which holds one, be closed in this call.
 */
void iwarp_conn_ready(void *user, bool readable, bool writable)
{
    struct iwarp_conn *conn = user;

    conn->worker->loop.found++;
    iwarp_conn_get(conn);
    iwarp_mutex_lock(&conn->lock);
    if (conn->state == CONN_CONNECTING && writable) {
        iwarp_conn_startup_writable(conn);
    } else if (conn->state == CONN_SECURING && conn->ep) {
        iwarp_conn_tls_step(conn);
    } else if (conn->state == CONN_STARTUP && readable) {
        iwarp_conn_startup_readable(conn);
    } else if (conn->state == CONN_REQUEST && conn->ep && conn->tcp) {
        iwarp_conn_request_gone(conn);
    } else if (iwarp_conn_lingers(conn) && conn->ep && readable) {
        iwarp_conn_linger_readable(conn);
    } else {
        turn_of_loop(conn,
                     (readable ? IWARP_TURN_READABLE : 0u) | (writable ? IWARP_TURN_WRITABLE : 0u));
    }
    iwarp_conn_unlock(conn);
    iwarp_conn_put(conn);
}

/*
 * On the worker, without a lock; the reference of the task is dropped at the end.  A kick does not
 * say why: everything that other threads may have left for the worker is checked.
 */
void iwarp_conn_kicked(void *arg)
{
    struct iwarp_conn *conn = arg;

    iwarp_mutex_lock(&conn->lock);
    iwarp_conn_take_accepted(conn);
    iwarp_conn_turn_away(conn);
    struct iwarp_endpoint *ep = conn->ep;
    bool unwanted = conn->user_gone || (conn->startup && conn->startup->qp_gone);
    if (ep && unwanted && conn->state == CONN_REQUEST) {
        iwarp_conn_decline(conn, IWARP_FAULT_LOCAL_ABORT, 0);
    } else if (ep && unwanted && conn->state != CONN_ENDED && !conn->has_stream) {
        iwarp_conn_fail(conn, IWARP_FAULT_LOCAL_ABORT, IWARP_SIDE_LOCAL, 0, 0);
    }
    iwarp_conn_turn(conn, 0);
    bool poll = conn->ep && conn->ep->ops->poll;
    iwarp_conn_unlock(conn);
    if (poll) {
        ep->ops->poll(ep); /* only this thread closes endpoints, so ep is still there */
    }
    iwarp_conn_put(conn);
}

/*
 * A thread that posts and finds conn.lock taken leaves a note, and the holder looks for notes after
 * unlocking.  There are two notes: `tx_pending` in the connection, for holders that have a
 * reference to it, and `posted` in the queue pair, for posters, which have none (iwarp_qp_drive).
 * conn.lock held; the worker is kicked, if at all, before the lock is free and another thread can
 * free the connection.
 */
static void send_posted(struct iwarp_conn *conn)
{
    /* Both notes are cleared before the queue is read: a request that is posted later sets them
     * again.  An exchange, so that this thread sees what was posted before the note. */
    if (conn->qp && atomic_load_explicit(&conn->qp->posted, memory_order_relaxed)) {
        (void)atomic_exchange(&conn->qp->posted, false);
    }
    if (atomic_load_explicit(&conn->tx_pending, memory_order_relaxed)) {
        (void)atomic_exchange(&conn->tx_pending, false);
    }
    if (conn->state == CONN_ESTABLISHED && conn->has_stream) {
        turn_of_poster(conn);
    } else if (conn->state == CONN_ENDED) {
        iwarp_defer_forget(conn); /* a thread that saw RTS may have marked it since it ended */
        iwarp_qp_reap(conn);
    }
}

/*
 * The lock is tried a second time after the note is left: its holder may have unlocked, and looked
 * for notes, in between.  Either this attempt succeeds, or the holder sees the note.  `drivers` is
 * raised with post_lock held, so await_posters (qp.c) sees this poster.
 */
struct iwarp_conn *iwarp_qp_claim(struct iwarp_qp *qp)
{
    struct iwarp_conn *conn = qp->conn;

    if (!conn) {
        return NULL;
    }
    if (!iwarp_mutex_trylock(&conn->lock)) {
        atomic_store_explicit(&qp->posted, true, memory_order_release);
        atomic_store(&conn->tx_pending, true);
        iwarp_mutex_fence();
        if (!iwarp_mutex_trylock(&conn->lock)) { /* its holder will look for the notes */
            return NULL;
        }
    }
    atomic_fetch_add_explicit(&qp->drivers, 1, memory_order_relaxed);
    return conn;
}

/*
 * Unlock, and tell the application about completions after that: a thread that wakes up posts at
 * once, and should find the lock free.  What is told is fixed before the unlock, while the queue
 * pair and its queues exist.
 */
static void release(struct iwarp_conn *conn)
{
    struct iwarp_cq_due sends = {NULL, 0}, receives = {NULL, 0};

    if (conn->pushed && conn->qp) {
        if (conn->device->simulated) {
            iwarp_virtual->tell(iwarp_virtual, &conn->worker->loop);
        }
        sends = iwarp_cq_due(conn->qp->options.send_cq);
        receives = iwarp_cq_due(conn->qp->options.recv_cq);
    }
    conn->pushed = false;
    iwarp_mutex_unlock(&conn->lock); /* it may be gone from here on */
    iwarp_mutex_fence();             /* the caller looks for notes */
    iwarp_cq_tell(sends);
    iwarp_cq_tell(receives);
}

/*
 * The connection is not touched after release: this thread has no reference.  The queue pair is
 * there until `drivers` goes down, so its note is read, and the connection is claimed anew.
 */
void iwarp_qp_drive(struct iwarp_qp *qp, struct iwarp_conn *conn, bool timed)
{
    while (conn) {
        send_posted(conn);
        release(conn); /* it may be gone from here on */
        conn = NULL;
        if (atomic_load(&qp->posted)) {
            iwarp_mutex_lock(&qp->post_lock);
            conn = iwarp_qp_claim(qp);
            iwarp_mutex_unlock(&qp->post_lock);
        }
        if (timed) {
            iwarp_streak_posted(&qp->streak, iwarp_now_ns());
        }
        atomic_fetch_sub_explicit(&qp->drivers, 1, memory_order_release); /* see await_posters */
    }
}

/*
 * For holders with a reference. If another thread has the lock by now, it looks for the note when
 * it unlocks, so a failed attempt ends the loop.
 */
static void do_pending(struct iwarp_conn *conn)
{
    while (atomic_load(&conn->tx_pending) && iwarp_mutex_trylock(&conn->lock)) {
        send_posted(conn);
        release(conn);
    }
}

void iwarp_conn_send_soon(struct iwarp_conn *conn)
{
    atomic_store(&conn->tx_pending, true);
    iwarp_mutex_fence();
    do_pending(conn);
}

/* The caller has a reference: the note is read after the lock is free. */
void iwarp_conn_unlock(struct iwarp_conn *conn)
{
    release(conn);
    do_pending(conn);
}
