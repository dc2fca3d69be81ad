/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs looked at and changed: query, the transitions that an application may ask for, and
 * starting anew. Verbs 6.2, 9.2. The transitions that the protocol makes are in conn_drive.c.
 *
 * A change runs on the connection's worker with conn.lock held; without a connection it runs on the
 * calling thread, and post_lock decides against a thread that connects at the same moment. Lock
 * order: conn.lock before post_lock.
 */
#include "base/limits.h"
#include "base/process.h"
#include "loop/loop.h"
#include "stream/stream.h"
#include "verbs/conn.h"
#include "verbs/conn_drive.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/worker.h"

#include <stdio.h>
#include <string.h>

static const char *const state_names[] = {"IDLE", "RTS", "CLOSING", "TERMINATE", "ERROR"};

/* --- query ----------------------------------------------------------------------------------- */

/*
 * Requests that are posted and whose completions are not produced yet. Positions wrap at 2^32; the
 * difference does not.
 */
static unsigned in_use(struct iwarp_wq *q)
{
    return iwarp_wq_head(q) - atomic_load(&q->reaped);
}

/* [VERBS-8.3.2-02] conn.lock held. */
static void query_conn(struct iwarp_conn *conn, struct iwarp_qp_info *info)
{
    const struct iwarp_stream *s = &conn->stream;

    info->fault = conn->fault.code;
    if (!conn->has_stream) {
        return;
    }
    info->ird = s->config.ird;
    info->ord = s->config.ord;
    info->reads_sent = s->reads.out_count;
    info->reads_received = s->reads.in_count;
    info->terminate_received = s->terminate_received;
    info->terminate_len = s->terminate_len;
    memcpy(info->terminate, s->terminate, sizeof info->terminate);
}

/*
 * All values are of one moment as far as conn.lock orders them; what posters change at the same
 * time may be older or newer.
 */
enum iwarp_status iwarp_qp_query(struct iwarp_qp *qp, struct iwarp_qp_info *info)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(qp) || !IWARP_GIVEN(info)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(qp->pd->device);
    if (info->size != sizeof *info) {
        return iwarp_fail(IWARP_MISUSE,
                          "queue pair info: set size to sizeof(struct iwarp_qp_info)");
    }
    struct iwarp_conn *conn = iwarp_qp_hold_conn(qp);
    if (conn) {
        iwarp_mutex_lock(&conn->lock);
    }
    *info = (struct iwarp_qp_info){.size = sizeof *info,
                                   .state = iwarp_qp_state(qp),
                                   .num = qp->num,
                                   .options = qp->options,
                                   .access = atomic_load(&qp->access),
                                   .max_ird = atomic_load(&qp->max_ird),
                                   .max_ord = atomic_load(&qp->max_ord),
                                   .send_in_use = in_use(&qp->sq)};
    if (!qp->rq.take) {
        info->recv_in_use = in_use(&qp->rq);
    } else if (conn) {
        info->recv_in_use = qp->rq.taken != IWARP_RQ_NONE;
    }
    if (conn) {
        query_conn(conn, info);
        iwarp_conn_unlock(conn);
        iwarp_conn_put(conn);
    }
    return IWARP_OK;
}

/* --- modify ---------------------------------------------------------------------------------- */

/*
 * One call of iwarp_qp_modify, carried to the connection's worker and back. The error text travels
 * with it, since the last error belongs to the thread that set it.
 */
struct change {
    struct iwarp_qp *qp;
    struct iwarp_conn *conn;
    const struct iwarp_qp_changes *want;
    enum iwarp_status status;
    char error[200]; /* the last error is one of the calling thread */
};

/*
 * Programs for libibverbs ask for IDLE to RTS, as other transports have it: the message names the
 * call that does so here.
 */
static enum iwarp_status refuse(const struct iwarp_qp *qp, enum iwarp_qp_state from,
                                enum iwarp_qp_state to)
{
    if (from == IWARP_QP_IDLE && to == IWARP_QP_RTS) {
        return iwarp_fail(IWARP_MISUSE,
                          "queue pair %u goes from IDLE to RTS by iwarp_connect or iwarp_accept",
                          qp->num);
    }
    return iwarp_fail(IWARP_MISUSE, "queue pair %u cannot be taken from state %s to %s", qp->num,
                      state_names[from], state_names[to]);
}

/*
 * [VERBS-6.2-01] The transitions that an application may ask for. All others happen by themselves
 * (conn_drive.c). CLOSING and TERMINATE are left by the protocol alone.
 */
static bool allowed(enum iwarp_qp_state from, enum iwarp_qp_state to)
{
    switch (from) {
    case IWARP_QP_IDLE:
        return to == IWARP_QP_IDLE || to == IWARP_QP_ERROR;
    case IWARP_QP_RTS:
        return to != IWARP_QP_IDLE;
    case IWARP_QP_ERROR:
        return to == IWARP_QP_IDLE;
    case IWARP_QP_CLOSING:
    case IWARP_QP_TERMINATE:
        break;
    }
    return false;
}

/*
 * IRD and ORD are agreed with the peer during the start-up (RFC 6581), so afterwards only ORD may
 * change, and only downwards: the peer has set aside resources for no more. conn.lock held, if
 * there is a connection.
 */
static enum iwarp_status check_attributes(const struct iwarp_qp *qp, const struct iwarp_conn *conn,
                                          enum iwarp_qp_state from,
                                          const struct iwarp_qp_changes *want)
{
    bool ird = (want->mask & IWARP_QP_CHANGE_IRD) != 0;
    bool ord = (want->mask & IWARP_QP_CHANGE_ORD) != 0;
    bool access = (want->mask & IWARP_QP_CHANGE_ACCESS) != 0;

    if (access && (want->access & ~IWARP_QP_ACCESS)) {
        return iwarp_fail(IWARP_MISUSE, "queue pair %u: access 0x%x, known are 0x%x", qp->num,
                          want->access, IWARP_QP_ACCESS);
    }
    if ((ird && want->ird > IWARP_MAX_READ_DEPTH) || (ord && want->ord > IWARP_MAX_READ_DEPTH)) {
        return iwarp_fail(IWARP_MISUSE, "queue pair %u: ird %u and ord %u, at most %d", qp->num,
                          want->ird, want->ord, IWARP_MAX_READ_DEPTH);
    }
    if (from == IWARP_QP_IDLE && conn && (ird || ord || access)) {
        return iwarp_fail(IWARP_MISUSE, "queue pair %u is connecting: its depths are settled",
                          qp->num);
    }
    if (from == IWARP_QP_RTS && ird) {
        return iwarp_fail(IWARP_MISUSE, "queue pair %u is connected: its IRD stays", qp->num);
    }
    if (from == IWARP_QP_RTS && ord && (want->ord < 1 || want->ord > conn->stream.config.ord)) {
        return iwarp_fail(IWARP_MISUSE,
                          "queue pair %u: ord %u, while connected 1 to %u are allowed", qp->num,
                          want->ord, conn->stream.config.ord);
    }
    if (from == IWARP_QP_ERROR && (ird || ord || access)) {
        return iwarp_fail(IWARP_MISUSE,
                          "queue pair %u: depths and access are changed in IDLE and RTS", qp->num);
    }
    return IWARP_OK;
}

/*
 * RFC 5040 5.4: send a Terminate without headers, as no message of the peer is the cause. A stream
 * that is ending already is left alone. On the worker, conn.lock held.
 */
static void terminate(struct iwarp_conn *conn)
{
    if (conn->stream.life == STREAM_RUNNING) {
        iwarp_fault_set(&conn->stream.fault, IWARP_FAULT_LOCAL_TERMINATE, IWARP_SIDE_LOCAL, 0, 0,
                        0);
        iwarp_stream_fail(&conn->stream);
        iwarp_conn_turn(conn, 0);
    }
}

/*
 * Another thread has changed the queue pair between the look at its connection and the lock. The
 * caller may try again.
 */
static enum iwarp_status changed_meanwhile(const struct iwarp_qp *qp)
{
    return iwarp_fail(IWARP_AGAIN, "queue pair %u has another state or connection meanwhile",
                      qp->num);
}

/*
 * Positions start at 0 again. A ring of an SRQ is shared, and its positions are not this queue
 * pair's.
 */
static void reset_ring(struct iwarp_wq *q)
{
    if (!q->take) {
        atomic_store(&q->head, 0);
        q->next = q->done = 0;
        atomic_store(&q->reaped, 0);
    }
}

/*
 * [VERBS-6.2.4-02 VERBS-6.2.1.2-01] The connection goes its own way: once its stream has ended and
 * what was posted is flushed, nothing of it refers to the queue pair any more.
 */
static enum iwarp_status start_anew(struct iwarp_qp *qp, struct iwarp_conn *conn)
{
    iwarp_mutex_lock(&qp->post_lock); /* from here on no request can be posted and then lost */
    if (qp->conn != conn || iwarp_qp_state(qp) != IWARP_QP_ERROR) {
        iwarp_mutex_unlock(&qp->post_lock);
        return changed_meanwhile(qp);
    }
    if (conn) {
        iwarp_qp_reap(conn);
        iwarp_qp_tell(qp); /* now: below, the connection loses its pointer to the queue pair */
        if (conn->state != CONN_ENDED || in_use(&qp->sq) || in_use(&qp->rq)) {
            iwarp_mutex_unlock(&qp->post_lock);
            return iwarp_fail(IWARP_MISUSE, "queue pair %u has work that is not flushed yet",
                              qp->num);
        }
        if (conn->has_stream) {
            iwarp_stream_detach(&conn->stream);
        }
    }
    reset_ring(&qp->sq);
    reset_ring(&qp->rq);
    if (conn) {
        conn->qp = NULL;
        qp->conn = NULL;
    }
    atomic_store(&qp->no_send_imm, false);   /* of the connection that is gone */
    iwarp_cq_purge(qp->options.send_cq, qp); /* now: what is posted in IDLE keeps its completion */
    iwarp_cq_purge(qp->options.recv_cq, qp);
    iwarp_qp_set_state(qp, IWARP_QP_IDLE);
    iwarp_mutex_unlock(&qp->post_lock);
    if (conn) {
        iwarp_conn_put(conn); /* the queue pair's; the caller holds another */
    }
    return IWARP_OK;
}

/*
 * Without a connection there is no stream, and so no consumer: the holder of post_lock is both ends
 * of the ring.
 */
static void flush_unconnected_sends(struct iwarp_qp *qp)
{
    uint32_t head = iwarp_wq_head(&qp->sq);

    for (uint32_t pos = atomic_load(&qp->sq.reaped); pos != head; pos++) {
        const struct iwarp_swqe *w = iwarp_sq_at(&qp->sq, pos);
        const struct iwarp_wc wc = {.wr_id = w->wr_id,
                                    .status = IWARP_WC_FLUSHED,
                                    .opcode = iwarp_swqe_wc_opcode(w),
                                    .byte_len = w->len,
                                    .qp_num = qp->num,
                                    .qp = qp};
        (void)iwarp_cq_push(qp->options.send_cq, &wc);
        pos += iwarp_qp_is_confirmed(&qp->sq, pos, head);
    }
    qp->sq.done = qp->sq.next = head;
    atomic_store(&qp->sq.reaped, head);
}

/*
 * post_lock held, and no connection: nobody else reaps. Also for a request that is posted in ERROR.
 */
/* [VERBS-6.2.4-01] */
void iwarp_qp_flush_unconnected(struct iwarp_qp *qp)
{
    uint32_t head = iwarp_wq_head(&qp->rq);

    flush_unconnected_sends(qp);
    for (uint32_t pos = atomic_load(&qp->rq.reaped); pos != head; pos++) {
        const struct iwarp_wc wc = {.wr_id = iwarp_rq_at(&qp->rq, pos)->wr_id,
                                    .status = IWARP_WC_FLUSHED,
                                    .opcode = IWARP_WC_RECV,
                                    .qp_num = qp->num,
                                    .qp = qp};
        (void)iwarp_cq_push(qp->options.recv_cq, &wc);
    }
    iwarp_qp_tell(qp);
    qp->rq.done = qp->rq.next = head;
    atomic_store(&qp->rq.reaped, head);
}

/*
 * The atomics hold what the next connection may have at most; a running stream has its own copies,
 * under conn.lock.
 */
static void set_attributes(struct iwarp_qp *qp, struct iwarp_conn *conn,
                           const struct iwarp_qp_changes *want)
{
    if (want->mask & IWARP_QP_CHANGE_IRD) {
        atomic_store(&qp->max_ird, want->ird);
    }
    if (want->mask & IWARP_QP_CHANGE_ORD) {
        atomic_store(&qp->max_ord, want->ord);
        if (conn) {
            conn->stream.config.ord = want->ord;
        }
    }
    if (want->mask & IWARP_QP_CHANGE_ACCESS) {
        atomic_store(&qp->access, want->access);
        if (conn) {
            conn->stream.ddp.denied = IWARP_QP_ACCESS & ~want->access;
        }
    }
}

/*
 * To ERROR without a connection: the application waits for the event in this case, too, before it
 * destroys a queue pair with an SRQ. post_lock decides against another thread that binds one at
 * this moment: one of the two sees the other.
 */
static void give_up(struct change *c)
{
    iwarp_mutex_lock(&c->qp->post_lock);
    if (c->qp->conn) {
        c->status = iwarp_fail(IWARP_AGAIN, "queue pair %u began to connect meanwhile", c->qp->num);
    } else {
        iwarp_qp_set_state(c->qp, IWARP_QP_ERROR);
        iwarp_qp_flush_unconnected(c->qp);
    }
    iwarp_mutex_unlock(&c->qp->post_lock);
    if (c->status == IWARP_OK) {
        iwarp_qp_report_last(c->qp, IWARP_FAULT_NONE);
    }
}

/* The transition has been checked. With a connection its lock is held, on its worker. */
static void go(struct change *c, enum iwarp_qp_state from, enum iwarp_qp_state to)
{
    if (to == from) {
        return;
    }
    switch (to) {
    case IWARP_QP_IDLE:
        c->status = start_anew(c->qp, c->conn);
        break;
    case IWARP_QP_CLOSING:
        iwarp_stream_close(&c->conn->stream);
        iwarp_conn_turn(c->conn, 0);
        break;
    case IWARP_QP_TERMINATE:
        terminate(c->conn);
        break;
    case IWARP_QP_ERROR:
        if (c->conn) {
            iwarp_conn_end_now(c->conn);
        }
        if (!c->conn || !c->conn->qp) { /* or keep_qp has just parted them */
            give_up(c);
        }
        break;
    case IWARP_QP_RTS:
        break;
    }
}

/*
 * conn.lock held, on its worker, if there is a connection. Everything is checked before anything is
 * changed, so a refused call has no effect. The state is read here, as it may have changed since
 * the call was made.
 */
static void change(struct change *c)
{
    enum iwarp_qp_state from = iwarp_qp_state(c->qp);
    enum iwarp_qp_state to = c->want->mask & IWARP_QP_CHANGE_STATE ? c->want->state : from;

    if (from == IWARP_QP_RTS && c->conn && c->conn->stream.life != STREAM_RUNNING) {
        from = IWARP_QP_CLOSING; /* at least; qp.state follows at the end of the turn */
    }
    if ((c->conn && c->conn->qp != c->qp) ||
        (!c->conn && from != IWARP_QP_IDLE && from != IWARP_QP_ERROR)) {
        c->status = changed_meanwhile(c->qp);
    } else {
        c->status = allowed(from, to) ? check_attributes(c->qp, c->conn, from, c->want)
                                      : refuse(c->qp, from, to);
    }
    if (c->status == IWARP_OK) {
        set_attributes(c->qp, from == IWARP_QP_RTS ? c->conn : NULL, c->want);
        go(c, from, to);
    }
    if (c->status != IWARP_OK) {
        snprintf(c->error, sizeof c->error, "%s", iwarp_last_error());
    }
}

/* Ending a stream may close the endpoint, and only the worker may do that. */
static void change_on_worker(void *arg)
{
    struct change *c = arg;

    iwarp_mutex_lock(&c->conn->lock);
    change(c);
    iwarp_conn_unlock(c->conn);
}

/*
 * No lock may be held: the call waits for the worker, unless there is no connection. The reference
 * that iwarp_qp_hold_conn takes keeps the connection alive until the worker has looked at it.
 */
enum iwarp_status iwarp_qp_modify(struct iwarp_qp *qp, const struct iwarp_qp_changes *want)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(qp) || !IWARP_GIVEN(want)) {
        return IWARP_MISUSE;
    }
    const unsigned known =
        IWARP_QP_CHANGE_STATE | IWARP_QP_CHANGE_IRD | IWARP_QP_CHANGE_ORD | IWARP_QP_CHANGE_ACCESS;

    IWARP_ON_LOOP(qp->pd->device);
    if (want->size != sizeof *want) {
        return iwarp_fail(IWARP_MISUSE,
                          "queue pair changes: set size to sizeof(struct iwarp_qp_changes)");
    }
    if ((want->mask & ~known) || (unsigned)want->state > IWARP_QP_ERROR) {
        return iwarp_fail(IWARP_MISUSE, "queue pair changes: mask 0x%x (known are 0x%x), state %d",
                          want->mask, known, (int)want->state);
    }
    struct change c = {.qp = qp, .conn = iwarp_qp_hold_conn(qp), .want = want, .status = IWARP_OK};
    if (!c.conn) {
        change(&c);
        return c.status;
    }
    iwarp_loop_call(&c.conn->worker->loop, change_on_worker, &c);
    iwarp_conn_put(c.conn);
    return c.status == IWARP_OK ? IWARP_OK : iwarp_fail(c.status, "%s", c.error);
}

/*
 * The application may have lowered the bounds by iwarp_qp_modify; the connection's options never
 * raise them.
 */
void iwarp_qp_bound(struct iwarp_qp *qp, struct iwarp_conn_options *o)
{
    unsigned ird = atomic_load(&qp->max_ird), ord = atomic_load(&qp->max_ord);

    o->ird = o->ird < ird ? o->ird : ird;
    o->ord = o->ord < ord ? o->ord : ord;
}
