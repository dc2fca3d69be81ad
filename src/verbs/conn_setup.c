/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a connected transport to Full Operation: sending the Request, reading the peer's frame,
 * answering. RFC 5044 7.1.2. What the frames mean is settled in src/mpa/mpa_setup.c.
 *
 * All functions run on the connection's worker with conn.lock held.
 *
 * Each start-up ends in exactly one of two ways: `established` reports ESTABLISHED, or
 * iwarp_conn_fail reports FAILED or REJECTED. A Request that the application has not answered, or
 * rejects, is the exception: it was announced by a REQUEST event, or nobody knows of it, and
 * nothing more is reported. Both may close the endpoint and drop the connection's handle, so
 * callers look at conn->state and conn->ep again after each call.
 */
#include "verbs/conn_setup.h"
#include "base/guard.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/memory.h"
#include "loop/clock.h"
#include "loop/hot.h"
#include "mpa/mpa_frame.h"
#include "mpa/mpa_setup.h"
#include "stream/stream.h"
#include "tls/tls.h"
#include "transport/transport.h"
#include "verbs/conn.h"
#include "verbs/conn_admit.h"
#include "verbs/conn_adopt.h"
#include "verbs/conn_connect.h"
#include "verbs/conn_drive.h"
#include "verbs/conn_lend.h"
#include "verbs/conn_options.h"
#include "verbs/conn_tap.h"
#include "verbs/conn_timer.h"
#include "verbs/conn_tls.h"
#include "verbs/conn_wait.h"
#include "verbs/device.h"
#include "verbs/eq.h"
#include "verbs/listen.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/send_imm.h"
#include "verbs/stats.h"
#include "verbs/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- the endpoint ----------------------------------------------------------------------------- */

/* On the worker, without a lock. The endpoint's reference may be the last one. */
static void on_endpoint_closed(void *user)
{
    iwarp_conn_put(user);
}

/*
 * For a second try: the connection stays what it is and takes another endpoint. It is an initiator,
 * so it is in no crowd; and it has no stream yet, so the loop reads nothing of it directly.
 */
void iwarp_conn_drop_endpoint(struct iwarp_conn *conn)
{
    struct iwarp_endpoint *ep = conn->ep;

    iwarp_tap_end(conn, true);
    iwarp_tap_close(conn);
    conn->ep = NULL;
    iwarp_conn_stop_timer(conn);
    ep->ops->close(ep, true); /* a FIN would keep a source port that the application gave */
}

/*
 * `user` is published with release, as a transport of the application may wake up the connection
 * from any thread. False: the connection ended before, and the endpoint is closed at once.
 */
bool iwarp_conn_attach(struct iwarp_conn *conn, struct iwarp_endpoint *ep)
{
    bool ended = conn->state == CONN_ENDED;

    conn->ep = ep;
    __atomic_store_n(&ep->user, conn, __ATOMIC_RELEASE); /* see iwarp_endpoint_wake */
    ep->ready = iwarp_conn_ready;
    ep->closed = on_endpoint_closed;
    iwarp_conn_get(conn); /* until the endpoint is closed */
    if (ended) {
        iwarp_conn_close_endpoint(conn, true);
    }
    return !ended;
}

/*
 * Everything that refers to the endpoint goes first: capture, crowd, hot source, timer. libuv
 * closes it in a later turn, and on_endpoint_closed drops its reference then.
 */
void iwarp_conn_close_endpoint(struct iwarp_conn *conn, bool reset)
{
    struct iwarp_endpoint *ep = conn->ep;

    iwarp_tap_end(conn, reset);
    iwarp_tap_close(conn);
    iwarp_conn_leave_crowd(conn);
    iwarp_hot_forget(&conn->worker->loop, conn);
    conn->ep = NULL;
    iwarp_conn_stop_timer(conn);
    iwarp_conn_stop_timed(conn, &conn->pace);
    if (ep) {
        ep->ops->close(ep, reset);
    }
    if (conn->has_stream) {
        iwarp_stream_forget(&conn->stream);
    }
}

/*
 * Closing now could turn into a reset, which destroys this end's last frame before the peer has
 * read it (RFC 9293 3.6.1: close with unread octets resets). So wait for the peer's FIN, as a
 * member of the start-ups' crowd and for close_timeout_ms at most: a peer that never closes cannot
 * keep the descriptor.
 */
void iwarp_conn_linger(struct iwarp_conn *conn)
{
    conn->startup->lingers = true;
    (void)iwarp_conn_join(conn, &conn->device->startups); /* drops the oldest, not this one */
    iwarp_conn_shutdown_write(conn);
    iwarp_conn_start_timer(conn, conn->options.close_timeout_ms);
    conn->ep->ops->watch(conn->ep, true, false);
}

/* What the peer still sends is read and dropped. */
void iwarp_conn_linger_readable(struct iwarp_conn *conn)
{
    struct iovec iov = {conn->worker->staging, conn->worker->staging_len};
    ssize_t got = iwarp_conn_readv(conn, &iov, 1);

    if (got == 0 || (got < 0 && got != -EAGAIN)) {
        iwarp_conn_close_endpoint(conn, false);
    }
}

/* --- failing --------------------------------------------------------------------------------- */

/*
 * A warning, at a limited rate, for a peer that never got as far as a Request: the application has
 * no event for it, so the log is the only place that tells of it.
 */
static void log_fault(const struct iwarp_conn *conn, bool unknown)
{
    static struct iwarp_log_limit strangers;
    char text[400], peer[IWARP_ADDR_TEXT];

    iwarp_fault_text(&conn->fault, text, sizeof text);
    iwarp_addr_text(&conn->peer, peer);
    if (unknown && conn->fault.code != IWARP_FAULT_LOCAL_ABORT) {
        iwarp_log_rarely(&strangers, IWARP_LOG_WARN, "conn", "start-up with %s failed: %s", peer,
                         text);
    } else {
        iwarp_log(IWARP_LOG_INFO, "conn", "start-up with %s failed: %s", peer, text);
    }
}

/*
 * Nobody has a handle and nobody will: give back what the handle would have held, its reference and
 * its place among the event queue's users.
 */
static void forget(struct iwarp_conn *conn)
{
    if (!conn->user_gone) {
        conn->user_gone = true;
        atomic_fetch_sub(&conn->eq->users, 1);
        conn->eq = NULL;
        iwarp_conn_put(conn); /* not the last one: the caller holds another */
    }
}

/*
 * The application has not taken the REQUEST event of this connection: it never will, since the
 * event is removed here.
 */
static bool not_taken(struct iwarp_conn *conn)
{
    return conn->startup->origin == STARTUP_ARRIVED && conn->eq &&
           iwarp_eq_remove(conn->eq, &conn->open_event);
}

/*
 * The one end of a start-up that has failed. The fault of a second try gets the code that says so.
 * Then: the endpoint is handed back, lingers, or is closed; the queue pair goes to ERROR, and what
 * was posted early is flushed; and the application gets an event, unless it has no handle or has
 * one for a Request that it may still answer (it learns then that the Request has gone).
 */
/* [MPA-7.1.2-04] [MPA-8-05] [MPA-7.1.2-11] */
void iwarp_conn_fail(struct iwarp_conn *conn, enum iwarp_fault_code code,
                     enum iwarp_fault_side side, uint64_t d0, uint64_t d1)
{
    /* A responder whose Request has not come yet is known to nobody. */
    bool unknown = conn->startup->origin == STARTUP_ARRIVED && !conn->startup->reported;
    bool asked = conn->state == CONN_REQUEST && !conn->qp;

    code = iwarp_conn_retry_code(conn, code);
    iwarp_fault_set(&conn->fault, code, side, d0, d1, 0);
    conn->fault.rx_pos = conn->startup->setup.have;
    log_fault(conn, unknown);
    if (!iwarp_conn_lingers(conn) && !iwarp_conn_hand_back(conn, code)) {
        iwarp_conn_close_endpoint(conn, code == IWARP_FAULT_LOCAL_ABORT);
    }
    if (conn->qp && conn->options.keep_qp) {
        iwarp_qp_part(conn);
    }
    conn->state = CONN_ENDED;
    atomic_fetch_add(code == IWARP_FAULT_MPA_REJECTED ? &conn->device->stats.rejected_by_peer
                                                      : &conn->device->stats.failed,
                     1);
    if (conn->has_stream) {
        iwarp_stats_stream_ended(conn);
    }
    if (conn->qp) {
        iwarp_qp_set_state(conn->qp, IWARP_QP_ERROR);
        iwarp_qp_reap(conn);
        iwarp_qp_report_last(conn->qp, code);
    }
    if (unknown || (asked && not_taken(conn))) {
        forget(conn);
    } else if (!asked) {
        iwarp_conn_report(conn, code == IWARP_FAULT_MPA_REJECTED ? IWARP_EVENT_REJECTED
                                                                 : IWARP_EVENT_FAILED);
    }
    iwarp_conn_changed(conn);
}

/* --- entering Full Operation ----------------------------------------------------------------- */

/*
 * Octets of the largest ULPDU: what fits, with MPA's header, padding, CRC and markers, into a
 * segment of the path (RFC 5044 3). The option ulpdu_max replaces it, whatever the path carries.
 */
/* [MPA-3-02] [DDP-3-01] */
static uint32_t mulpdu_of(const struct iwarp_conn *conn)
{
    uint32_t mulpdu = iwarp_mpa_mulpdu(conn->ep->ops->emss(conn->ep), conn->settled.markers_tx);

    return conn->options.ulpdu_max ? conn->options.ulpdu_max : mulpdu;
}

/* FPDUs that are framed already keep their size; those that follow use the new one. */
/* [DDP-3-01] [DDP-3-02] */
void iwarp_conn_fit(struct iwarp_conn *conn)
{
    conn->stream.config.mulpdu = mulpdu_of(conn);
    conn->unfitted = 0;
}

/* No depth was agreed on (revision 1, or a peer that left it open): this end's option counts. */
static uint32_t depth(uint16_t settled, unsigned own)
{
    return settled == IWARP_MPA_DEPTH_UNSPECIFIED ? own : settled;
}

/*
 * Only the initiator sends one; the responder waits for whatever comes first. After a fall back to
 * revision 1 the responder may be one that knows peer-to-peer mode and was short of room the first
 * time: if both applications count on it, both would wait for ever.
 */
static enum iwarp_stream_rtr rtr_of(const struct iwarp_conn *conn)
{
    if (!conn->responder && conn->startup->retried && conn->options.peer_to_peer) {
        return STREAM_RTR_WRITE;
    }
    switch (conn->responder ? IWARP_RTR_NONE : (enum iwarp_rtr)conn->settled.rtr) {
    case IWARP_RTR_NONE:
        break;
    case IWARP_RTR_SEND:
        return STREAM_RTR_SEND;
    case IWARP_RTR_WRITE:
        return STREAM_RTR_WRITE;
    case IWARP_RTR_READ:
        return STREAM_RTR_READ;
    }
    return STREAM_RTR_NONE;
}

/*
 * Make the stream ready to receive, with these depths of RDMA Reads. A responder holds back what is
 * posted until the initiator's first FPDU (RFC 5044 7.1.2 rule 4). The stream points to the queue
 * pair's rings, so it is detached before the queue pair goes (iwarp_qp_destroy).
 */
/* [MPA-7.1-01] [MPA-7.1-04] [MPA-7.1.1-05] [MPA-7.1.1-06] [MPA-7.1.1-08] [MPA2-9.1-04] */
static void begin_with(struct iwarp_conn *conn, uint32_t ird, uint32_t ord)
{
    conn->loans = conn->inject ? iwarp_inject_loans(conn->inject) : conn->ep->loans;
    const struct iwarp_stream_config config = {
        .regions = &conn->device->regions,
        .pd = conn->qp->pd,
        .qp = conn->qp->serial,
        .denied = IWARP_QP_ACCESS & ~atomic_load(&conn->qp->access),
        .pd_qps = &conn->qp->pd->qps,
        .sq = &conn->qp->sq,
        .rq = &conn->qp->rq,
        .budget = &conn->device->budget,
        .spare = &conn->worker->spare,
        .counts = &conn->counts,
        .crc = conn->settled.crc,
        .markers_rx = conn->settled.markers_rx,
        .markers_tx = conn->settled.markers_tx,
        .rtr = rtr_of(conn),
        .hold_tx = conn->responder,
        .responder = conn->responder,
        .strict = conn->options.strict,
        .rfc7306 = conn->device->rfc7306,
        .send_imm = iwarp_send_imm_agreed(conn),
        .hold = iwarp_conn_rnr_ms(conn) > 0 ? iwarp_conn_rnr_bytes(conn) : 0,
        .copies = conn->device->copies,
        .refers = iwarp_conn_refers(conn),
        .large_batches = conn->tcp && !conn->tls && !iwarp_conn_refers(conn),
        .early = conn->options.placement == IWARP_PLACE_EARLY,
        .mulpdu = mulpdu_of(conn),
        .ird = ird,
        .ord = ord};

    iwarp_stream_init(&conn->stream, &config);
    atomic_store(&conn->qp->no_send_imm, !config.send_imm);
    conn->has_stream = true;
}

static void begin_stream(struct iwarp_conn *conn)
{
    begin_with(conn, depth(conn->settled.ird, conn->options.ird),
               depth(conn->settled.ord, conn->options.ord));
}

static void log_established(const struct iwarp_conn *conn)
{
    char peer[IWARP_ADDR_TEXT];

    if (!iwarp_log_on(IWARP_LOG_INFO)) {
        return;
    }
    iwarp_log(IWARP_LOG_INFO, "conn",
              "qp %u established over %s with %s as %s: revision %u, CRC %s, IRD %u, ORD %u, "
              "MULPDU %u",
              conn->qp->num, conn->ep->ops->name, iwarp_addr_text(&conn->peer, peer),
              conn->responder ? "responder" : "initiator", conn->settled.rev,
              conn->settled.crc ? "on" : "off", conn->stream.config.ird, conn->stream.config.ord,
              conn->stream.config.mulpdu);
}

/*
 * Everything that belongs to the start-up is freed here: a connection in Full Operation keeps none
 * of it. The turn at the end sends what was posted early.
 */
static void established(struct iwarp_conn *conn)
{
    iwarp_conn_stop_timer(conn);
    iwarp_conn_leave_crowd(conn);
    iwarp_startup_free(conn->startup);
    conn->startup = NULL;
    iwarp_guard_refresh(); /* the application may have installed handlers meanwhile */
    conn->state = CONN_ESTABLISHED;
    atomic_fetch_add(&conn->device->stats.established, 1);
    iwarp_qp_set_state(conn->qp, IWARP_QP_RTS);
    log_established(conn);
    conn->ep->ops->watch(conn->ep, true, false);
    iwarp_conn_report(conn, IWARP_EVENT_ESTABLISHED);
    iwarp_conn_remind_later(conn);
    iwarp_conn_turn(conn, 0);
}

/* Without the mark, which is no business of the application's. False: no memory. */
static bool keep_private_data(struct iwarp_conn *conn)
{
    const void *pd = iwarp_mpa_setup_private_data(&conn->startup->setup, &conn->private_data_len);

    if (iwarp_send_imm_marked(conn, pd, conn->private_data_len)) {
        conn->startup->marked = true;
        conn->private_data_len -= IWARP_SEND_IMM_MARK_LEN;
    }
    conn->private_data = iwarp_malloc(conn->private_data_len ? conn->private_data_len : 1);
    if (!conn->private_data) {
        conn->private_data_len = 0;
        return false;
    }
    memcpy(conn->private_data, pd, conn->private_data_len);
    return true;
}

/*
 * The initiator cannot live with what the Reply settled, or lacks the means. RFC 6581 9 wants a
 * Terminate. Only a stream can send one: it is begun without RDMA Reads, sends the Terminate, and
 * is killed; the connection lingers until the octets are out. `why` may lie in the start-up block
 * or on the stack, and begin_with writes conn->stream, so it is copied first.
 */
/* [MPA2-9.1-09] [MPA2-9.2-10] [MPA2-9.3-01] */
static void refuse_reply(struct iwarp_conn *conn, const struct iwarp_fault *why)
{
    const struct iwarp_fault fault = *why;

    if (iwarp_fault_row(fault.code)->layer >= 0 && conn->qp) {
        begin_with(conn, 0, 0);
        conn->stream.fault = fault;
        iwarp_stream_fail(&conn->stream);
        iwarp_conn_send(conn);
        iwarp_stream_kill(&conn->stream, fault.code, IWARP_SIDE_LOCAL, 0);
        iwarp_conn_linger(conn);
    }
    conn->fault = fault;
    iwarp_conn_fail(conn, fault.code, fault.side, 0, 0);
}

/*
 * The queue pair may have been destroyed while the Request was on its way: then there is nothing to
 * be established.
 */
static void reply_came(struct iwarp_conn *conn)
{
    const struct iwarp_fault no_means = {.code = IWARP_FAULT_MPA_LOCAL, .side = IWARP_SIDE_LOCAL};

    conn->settled = conn->startup->setup.settled;
    bool kept = keep_private_data(conn);
    if (!conn->qp) {
        iwarp_conn_fail(conn, IWARP_FAULT_LOCAL_ABORT, IWARP_SIDE_LOCAL, 0, 0);
    } else if (!kept) {
        refuse_reply(conn, &no_means);
    } else {
        begin_stream(conn);
        established(conn);
    }
}

/*
 * From here on the Request waits for the application. The loop watches only for the peer's end, so
 * what the peer sends meanwhile stays in the kernel. accept_timeout_ms bounds the wait. A responder
 * in memory has nobody to ask and accepts at once.
 */
/* [MPA-7.1.2-03] */
static void request_came(struct iwarp_conn *conn)
{
    iwarp_conn_stop_timer(conn);
    if (!keep_private_data(conn)) {
        iwarp_conn_decline(conn, IWARP_FAULT_LOCAL_NO_MEMORY, IWARP_MPA_PRIVATE_DATA_MAX);
        return;
    }
    /* What the peer announced, for the application that is to answer. */
    conn->settled = conn->startup->setup.settled;
    conn->state = CONN_REQUEST;
    struct iwarp_listener *l = conn->startup->listener;
    if (l && !iwarp_conn_join(conn, &l->waiting)) {
        iwarp_conn_decline_crowded(conn);
        return;
    }
    conn->ep->ops->watch(conn->ep, false, false); /* what follows waits in the kernel */
    if (conn->startup->origin == STARTUP_PAIRED) {
        iwarp_conn_reply(conn, false, NULL, 0);
    } else {
        if (conn->tcp) {
            conn->tcp->watch_end(conn->ep);
        }
        iwarp_conn_start_timer(conn, conn->options.accept_timeout_ms);
        iwarp_conn_report(conn, IWARP_EVENT_REQUEST);
    }
}

/*
 * The frame is one write of at most 532 octets, for which a new connection has room: a short write
 * counts as a lost connection, and the rest is not sent later. After a rejection TCP may stay
 * open for the application (RFC 5044 7.1.2 rule 6), else the connection lingers.
 */
void iwarp_conn_reply(struct iwarp_conn *conn, bool reject, const void *private_data, size_t pd_len)
{
    if (!reject && !conn->qp) {
        iwarp_conn_fail(conn, IWARP_FAULT_LOCAL_ABORT, IWARP_SIDE_LOCAL, 0, 0);
        return;
    }
    struct iwarp_mpa_wish wish;
    uint8_t frame[IWARP_MPA_FRAME_MAX], marked[IWARP_MPA_PRIVATE_DATA_MAX];

    if (!reject && iwarp_send_imm_answers(conn, NULL)) {
        pd_len = iwarp_send_imm_mark(marked, private_data, pd_len);
        private_data = marked;
    }
    iwarp_conn_wish(&conn->options, &wish);
    size_t len =
        iwarp_mpa_setup_reply(&conn->startup->setup, reject, &wish, private_data, pd_len, frame);
    struct iovec iov = {frame, len};

    conn->settled = conn->startup->setup.settled;
    /* The first FPDU may follow within a round trip: be ready before the Reply is out. */
    if (!reject) {
        begin_stream(conn);
        iwarp_tap_name_qp(conn);
    }
    ssize_t sent = iwarp_conn_writev(conn, &iov, 1);
    if (sent != (ssize_t)len) {
        iwarp_conn_fail(conn, IWARP_FAULT_TCP_LOST, IWARP_SIDE_TRANSPORT,
                        sent < 0 ? (uint64_t)-sent : ENOBUFS, 0);
    } else if (reject) {
        atomic_fetch_add(&conn->device->stats.rejected_here, 1);
        conn->state = CONN_ENDED;
        if (!iwarp_conn_hand_back(conn, IWARP_FAULT_NONE)) {
            iwarp_conn_linger(conn);
        }
        iwarp_conn_changed(conn);
    } else {
        established(conn);
    }
}

/*
 * A Request that this end does not want, or lacks the means for, is owed a Reply (RFC 5044 7.1.2
 * rule 6): a peer that only sees its connection closed takes that for a refusal of revision 2, and
 * comes again. A Terminate may not come from a responder before the first FPDU of the other side.
 */
/* [MPA2-9.3-01] */
void iwarp_conn_decline(struct iwarp_conn *conn, enum iwarp_fault_code code, uint64_t detail)
{
    uint8_t frame[IWARP_MPA_FRAME_MAX];
    struct iwarp_mpa_wish wish;

    iwarp_conn_wish(&conn->options, &wish);
    size_t len = iwarp_mpa_setup_reply(&conn->startup->setup, true, &wish, NULL, 0, frame);
    struct iovec iov = {frame, len};
    bool sent = iwarp_conn_writev(conn, &iov, 1) == (ssize_t)len;
    bool wanted = conn->adopted && code != IWARP_FAULT_LOCAL_ABORT; /* its socket is handed back */
    bool crowded = code == IWARP_FAULT_MPA_BACKLOG; /* others need what it holds now */
    if (sent && !wanted && !crowded) {
        iwarp_conn_linger(conn);
    }
    iwarp_conn_fail(conn, code, IWARP_SIDE_LOCAL, detail, 0);
}

/*
 * TCP has reported an error, a FIN, or more octets than may wait behind an unanswered Request (RFC
 * 5044 7.1.2 rule 3).
 */
void iwarp_conn_request_gone(struct iwarp_conn *conn)
{
    int error = conn->tcp->error(conn->ep), octets;

    if (error) {
        iwarp_conn_fail(conn, IWARP_FAULT_TCP_LOST, IWARP_SIDE_TRANSPORT, (uint64_t)error, 0);
    } else if (conn->tcp->unread(conn->ep, &octets)) {
        iwarp_conn_fail(conn, IWARP_FAULT_MPA_BEFORE_REPLY, IWARP_SIDE_PEER, (uint64_t)octets, 0);
    } else {
        iwarp_conn_fail(conn, IWARP_FAULT_MPA_GONE, IWARP_SIDE_PEER, 0, 0);
    }
}

/* --- reading the peer's frame ---------------------------------------------------------------- */

/*
 * What the frame, or the part of it that has come, leads to. The last case is a frame that RFC 5044
 * or 6581 does not allow, or whose terms this end does not accept: setup.fault says which.
 */
static void frame_step(struct iwarp_conn *conn, enum iwarp_mpa_step step)
{
    const struct iwarp_fault *f = &conn->startup->setup.fault;
    char text[160];

    if (step == IWARP_MPA_MORE) {
        return;
    }
    if (iwarp_log_on(IWARP_LOG_DEBUG)) {
        iwarp_mpa_setup_describe(&conn->startup->setup, text, sizeof text);
        iwarp_log(IWARP_LOG_DEBUG, "conn", "peer's start-up frame: %s", text);
    }
    if (step == IWARP_MPA_FRAME && conn->responder) {
        request_came(conn);
    } else if (step == IWARP_MPA_FRAME) {
        reply_came(conn);
    } else if (step == IWARP_MPA_REJECTED) {
        (void)keep_private_data(conn);
        conn->settled = conn->startup->setup.settled;
        iwarp_conn_fail(conn, IWARP_FAULT_MPA_REJECTED, IWARP_SIDE_PEER, 0, 0);
    } else {
        conn->settled = conn->startup->setup.settled;
        refuse_reply(conn, f);
    }
}

/*
 * Read the peer's frame, in as many pieces as it comes. Each step may end the start-up and close
 * the endpoint, so state and endpoint are checked before each read.
 */
/* [MPA-7.1.5-04] */
void iwarp_conn_startup_readable(struct iwarp_conn *conn)
{
    uint8_t buf[IWARP_MPA_FRAME_MAX];

    while (conn->state == CONN_STARTUP && conn->ep) {
        /* Never more than the frame: what follows it are FPDUs, which are not ours yet. */
        struct iwarp_mpa_setup *setup = &conn->startup->setup;
        struct iovec iov = {buf, (size_t)(setup->need - setup->have)};
        ssize_t got = iwarp_conn_readv(conn, &iov, 1);
        size_t used = 0;
        if (got == -EAGAIN) {
            return;
        }
        const struct iwarp_fault *tls = iwarp_tls_fault(conn->tls);
        if (tls) {
            iwarp_conn_fail(conn, tls->code, tls->side, tls->detail[0], tls->detail[1]);
            return;
        }
        if (got <= 0 && iwarp_conn_try_revision_1(conn, (int)-got)) {
            return;
        }
        if (got == 0) {
            iwarp_conn_fail(conn, IWARP_FAULT_MPA_CLOSED, IWARP_SIDE_PEER, setup->have,
                            conn->options.mpa_rev);
            return;
        }
        if (got < 0) {
            iwarp_conn_fail(conn, IWARP_FAULT_TCP_LOST, IWARP_SIDE_TRANSPORT, (uint64_t)-got, 0);
            return;
        }
        frame_step(conn, iwarp_mpa_setup_feed(setup, buf, (size_t)got, &used));
    }
}

/*
 * The listener's worker accepted the connection; this worker attaches it to its own loop. What
 * arrived is this end's until the stack's attach has it, which closes it on failure. A connection
 * that was turned away before it came here is attached all the same: iwarp_conn_turn_away ends it.
 */
void iwarp_conn_take_accepted(struct iwarp_conn *conn)
{
    struct iwarp_startup *s = conn->startup;
    struct iwarp_endpoint *ep;

    if (!s || !s->arrived) {
        return;
    }
    int rc = conn->tcp->attach(conn->worker->seat, s->arrival, &ep);
    s->arrived = false;
    if (rc < 0) {
        iwarp_conn_fail(conn, IWARP_FAULT_TCP_CONNECT, IWARP_SIDE_TRANSPORT, (uint64_t)-rc, 0);
        return;
    }
    if (iwarp_conn_attach(conn, ep)) {
        conn->tcp->patience(ep, conn->options.user_timeout_ms, conn->options.keepalive_s);
        iwarp_addr_ask(&conn->local, ep, conn->tcp->local_addr);
        iwarp_conn_begin_startup(conn);
    }
}

/*
 * startup_timeout_ms bounds how long this end waits for the peer's frame; a responder waits half as
 * long (iwarp/conn.h).
 */
/* [MPA-7.1.2-01] */
void iwarp_conn_begin_startup(struct iwarp_conn *conn)
{
    struct iwarp_startup *s = conn->startup;
    struct iovec iov = {s->request, s->request_len};
    unsigned ms = conn->options.startup_timeout_ms;

    if (iwarp_conn_tls_begin(conn)) {
        return;
    }
    conn->state = CONN_STARTUP;
    iwarp_tap_open(conn);
    iwarp_conn_start_phase(conn, conn->responder ? ms - ms / 2 : ms, &s->startup_ms);
    if (conn->responder) {
        const struct iwarp_mpa_wish wish = {
            .rev = 2, .crc = conn->options.crc, .strict = conn->options.strict};
        iwarp_mpa_setup_init(&s->setup, IWARP_MPA_RESPONDER, &wish);
    } else {
        /* One write: several peers cannot take a frame in pieces (RFC 5044 asks for nothing). */
        ssize_t sent = iwarp_conn_writev(conn, &iov, 1);
        if (sent < 0 && iwarp_conn_try_revision_1(conn, (int)-sent)) {
            return;
        }
        if (sent != (ssize_t)s->request_len) {
            iwarp_conn_fail(conn, IWARP_FAULT_TCP_LOST, IWARP_SIDE_TRANSPORT,
                            sent < 0 ? (uint64_t)-sent : ENOBUFS, 0);
            return;
        }
    }
    conn->ep->ops->watch(conn->ep, true, false);
}

/* TCP has connected, or failed: an endpoint reports both by becoming writable. */
void iwarp_conn_startup_writable(struct iwarp_conn *conn)
{
    int error = conn->tcp->error(conn->ep);

    iwarp_conn_end_phase(conn, &conn->startup->connecting_ms);
    if (error) {
        if (!iwarp_conn_connect_later(conn, error)) {
            iwarp_conn_fail(conn, IWARP_FAULT_TCP_CONNECT, IWARP_SIDE_TRANSPORT, (uint64_t)error,
                            0);
        }
        return;
    }
    iwarp_addr_ask(&conn->local, conn->ep, conn->tcp->local_addr);
    iwarp_conn_begin_startup(conn);
}
