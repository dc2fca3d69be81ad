/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: creation, destruction, and turning finished work into completions. Verbs 6 and 8.
 */
#include "verbs/qp.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pause.h"
#include "base/process.h"
#include "base/virtual.h"
#include "ddp/ddp_bind.h"
#include "stream/stream.h"
#include "verbs/async.h"
#include "verbs/conn.h"
#include "verbs/conn_lend.h"
#include "verbs/conn_wait.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/mr.h"
#include "verbs/srq.h"
#include "verbs/trace.h"
#include "verbs/worker.h"

#include <stdlib.h>

/* [VERBS-8.1.3.2-03] */
void iwarp_qp_options_init(struct iwarp_qp_options *options)
{
    if (!IWARP_GIVEN(options)) {
        return;
    }
    *options = (struct iwarp_qp_options){.size = sizeof *options,
                                         .max_send_wr = 128,
                                         .max_recv_wr = 128,
                                         .max_send_sge = 4,
                                         .max_recv_sge = 4,
                                         .max_inline = 64,
                                         .access = IWARP_QP_ACCESS};
}

/*
 * Everything is checked before anything is allocated, and the message names the value and the
 * bound.
 */
static enum iwarp_status check(const struct iwarp_pd *pd, const struct iwarp_qp_options *o)
{
    if (!o || o->size != sizeof *o) {
        return iwarp_fail(IWARP_MISUSE,
                          "queue pair options: size is %zu, expected %zu; call "
                          "iwarp_qp_options_init first",
                          o ? o->size : 0, sizeof *o);
    }
    if (!pd) {
        return iwarp_fail(IWARP_MISUSE, "a queue pair needs a protection domain; it is NULL");
    }
    if (!o->send_cq || !o->recv_cq) {
        return iwarp_fail(IWARP_MISUSE, "queue pair options: %s is NULL, and is required",
                          o->send_cq ? "recv_cq" : "send_cq");
    }
    if (o->send_cq->device != pd->device || o->recv_cq->device != pd->device) {
        return iwarp_fail(IWARP_MISUSE, "queue pair options: send_cq and recv_cq must be queues of "
                                        "the same device as the PD");
    }
    if (o->srq && o->srq->pd->device != pd->device) {
        return iwarp_fail(IWARP_MISUSE, "queue pair options: the SRQ is of another device");
    }
    if (o->max_send_wr < 1 || o->max_send_wr > IWARP_MAX_WR || o->max_recv_wr > IWARP_MAX_WR) {
        return iwarp_fail(
            IWARP_MISUSE,
            "queue pair options: max_send_wr %u (allowed are 1 to %d), max_recv_wr %u "
            "(at most %d)",
            o->max_send_wr, IWARP_MAX_WR, o->max_recv_wr, IWARP_MAX_WR);
    }
    if (o->max_send_sge < 1 || o->max_send_sge > IWARP_MAX_SGE || o->max_recv_sge < 1 ||
        o->max_recv_sge > IWARP_MAX_SGE) {
        return iwarp_fail(IWARP_MISUSE, "queue pair options: %u and %u SGEs, allowed are 1 to %d",
                          o->max_send_sge, o->max_recv_sge, IWARP_MAX_SGE);
    }
    if (o->access & ~IWARP_QP_ACCESS) {
        return iwarp_fail(IWARP_MISUSE, "queue pair options: access 0x%x, known are 0x%x",
                          o->access, IWARP_QP_ACCESS);
    }
    if (o->max_inline > IWARP_MAX_INLINE) {
        return iwarp_fail(IWARP_MISUSE, "queue pair options: max_inline %u, at most %d",
                          o->max_inline, IWARP_MAX_INLINE);
    }
    return IWARP_OK;
}

/*
 * An entry of the send queue ends in one piece of memory that serves all kinds of requests: a list
 * of SGEs, inline data, a binding, or the operands of an Atomic. So its size is the largest of
 * these. False: no memory; what was allocated is freed by the caller.
 */
static bool init_queues(struct iwarp_qp *qp)
{
    const struct iwarp_qp_options *o = &qp->options;
    size_t sgl = o->max_send_sge * sizeof(struct iwarp_sge);

    if (sgl < o->max_inline) {
        sgl = o->max_inline;
    }
    if (sgl < sizeof(struct iwarp_binding)) {
        sgl = sizeof(struct iwarp_binding);
    }
    if (sgl < IWARP_OPERANDS_AT + sizeof(struct iwarp_operands)) {
        sgl = IWARP_OPERANDS_AT + sizeof(struct iwarp_operands);
    }
    if (!iwarp_wq_init(&qp->sq, o->confirms ? 2 * o->max_send_wr : o->max_send_wr,
                       sizeof(struct iwarp_swqe) + sgl)) {
        return false;
    }
    qp->sq.limit = o->max_send_wr;
    if (o->srq) {
        iwarp_srq_attach(o->srq, &qp->rq);
        return true;
    }
    return iwarp_wq_init(&qp->rq, o->max_recv_wr,
                         sizeof(struct iwarp_rwqe) + o->max_recv_sge * sizeof(struct iwarp_sge));
}

/*
 * The counts (`users`) of the domain and the completion queues are raised last: nothing fails after
 * that.
 */
enum iwarp_status iwarp_qp_create(struct iwarp_pd *pd, const struct iwarp_qp_options *options,
                                  struct iwarp_qp **out)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(out)) {
        return IWARP_MISUSE;
    }
    enum iwarp_status status = check(pd, options);

    if (status != IWARP_OK) {
        return status;
    }
    IWARP_ON_LOOP(pd->device);
    struct iwarp_qp *qp = iwarp_calloc(1, sizeof *qp);
    if (!qp) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a queue pair");
    }
    qp->options = *options;
    if (!init_queues(qp)) {
        iwarp_wq_fini(&qp->sq);
        iwarp_wq_fini(&qp->rq);
        free(qp);
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for the work queues of a queue pair");
    }
    qp->pd = pd;
    qp->async.device = pd->device;
    qp->access = options->access;
    qp->max_ird = qp->max_ord = IWARP_MAX_READ_DEPTH;
    do {
        qp->serial = atomic_fetch_add(&pd->device->next_qp_num, 1);
    } while (qp->serial == 0); /* it stands for none in a region */
    qp->num = options->num ? options->num : qp->serial;
    iwarp_mutex_init(&qp->post_lock, pd->device->embedded);
    atomic_fetch_add(&pd->users, 1);
    atomic_fetch_add(&pd->qps, 1);
    atomic_fetch_add(&pd->device->stats.qps, 1);
    atomic_fetch_add(&options->send_cq->users, 1);
    atomic_fetch_add(&options->recv_cq->users, 1);
    *out = qp;
    return IWARP_OK;
}

/*
 * A thread that polls the completion of another thread's request may destroy the queue pair while
 * that other thread still returns from the posting call. Wait for it. No new poster comes: `conn`
 * is NULL, so there is no connection to claim.
 */
static void await_posters(struct iwarp_qp *qp)
{
    iwarp_mutex_lock(&qp->post_lock);
    qp->conn = NULL;
    iwarp_mutex_unlock(&qp->post_lock);
    for (unsigned i = 0; atomic_load_explicit(&qp->drivers, memory_order_acquire) > 0; i++) {
        iwarp_pause(i);
    }
}

/* False: they were separated before. */
static bool separate(struct iwarp_qp *qp, struct iwarp_conn *conn)
{
    iwarp_mutex_lock(&conn->lock);
    bool bound = conn->qp == qp;
    if (bound) {
        iwarp_conn_await_no_more(conn);
        conn->qp = NULL;
        if (conn->startup) {
            conn->startup->qp_gone = true;
        }
        if (conn->has_stream) {
            iwarp_stream_detach(&conn->stream);
            if (conn->stream.life == STREAM_ENDED) { /* inline data lies in the queue */
                iwarp_conn_forsake(conn);
            }
        }
    }
    iwarp_mutex_unlock(&conn->lock);
    return bound;
}

/*
 * The connection is separated under its lock and goes on alone: the kick makes its worker end it
 * (qp_gone). Completions are purged last, when nothing can be pushed any more. With keep_qp the
 * worker may part the two at this moment: then the connection has no queue pair when its lock is
 * free, and the reference of the queue pair has gone.
 */
enum iwarp_status iwarp_qp_destroy(struct iwarp_qp *qp)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(qp)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(qp->pd->device);
    enum iwarp_status status = iwarp_async_leave(&qp->async);
    if (status != IWARP_OK) {
        return status;
    }
    struct iwarp_conn *conn = iwarp_qp_hold_conn(qp);
    bool bound = conn && separate(qp, conn);
    await_posters(qp);
    if (bound) {
        iwarp_worker_kick(conn);
        iwarp_conn_put(conn);
    }
    if (conn) {
        iwarp_conn_put(conn);
    }
    iwarp_cq_purge(qp->options.send_cq, qp);
    iwarp_cq_purge(qp->options.recv_cq, qp);
    atomic_fetch_sub(&qp->options.send_cq->users, 1);
    atomic_fetch_sub(&qp->options.recv_cq->users, 1);
    atomic_fetch_sub(&qp->pd->qps, 1);
    atomic_fetch_sub(&qp->pd->users, 1);
    atomic_fetch_sub(&qp->pd->device->stats.qps, 1);
    if (qp->options.srq) {
        iwarp_srq_detach(qp->options.srq, &qp->rq);
    }
    iwarp_wq_fini(&qp->sq);
    iwarp_wq_fini(&qp->rq);
    iwarp_mutex_fini(&qp->post_lock);
    free(qp);
    return IWARP_OK;
}

void *iwarp_qp_user(const struct iwarp_qp *qp)
{
    return IWARP_GIVEN(qp) ? qp->options.user : NULL;
}

uint32_t iwarp_qp_num(const struct iwarp_qp *qp)
{
    return IWARP_GIVEN(qp) ? qp->num : 0;
}

enum iwarp_qp_state iwarp_qp_state(struct iwarp_qp *qp)
{
    return IWARP_GIVEN(qp) ? (enum iwarp_qp_state)(atomic_load(&qp->state) & ~QP_ASKS)
                           : IWARP_QP_ERROR;
}

/*
 * conn.lock held, or post_lock while there is no connection. An exchange, not a store: together
 * with the read-modify-write in iwarp_post_recv it orders the end of a stream and a late receive.
 * QP_ASKS stays; it changes under conn.lock, as the state does.
 */
void iwarp_qp_set_state(struct iwarp_qp *qp, enum iwarp_qp_state state)
{
    int was = atomic_load_explicit(&qp->state, memory_order_relaxed);

    if ((was & ~QP_ASKS) != (int)state) {
        (void)atomic_exchange(&qp->state, (int)state | (was & QP_ASKS));
    }
}

/* The fault lies in the connection and stays valid as long as the queue pair keeps it. */
const struct iwarp_fault *iwarp_qp_fault(struct iwarp_qp *qp)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(qp) || !iwarp_device_usable(qp->pd->device)) {
        return NULL;
    }
    struct iwarp_conn *conn = iwarp_qp_hold_conn(qp);
    if (!conn) {
        return NULL;
    }
    const struct iwarp_fault *fault = iwarp_conn_fault(conn);
    iwarp_conn_put(conn);
    return fault;
}

/*
 * The worker is entered into the sets of both completion queues, so that threads that poll these
 * queues visit its loop. The caller holds conn.lock, or no worker has the connection yet: so
 * conn->qp may be written.
 */
enum iwarp_status iwarp_qp_bind(struct iwarp_qp *qp, struct iwarp_conn *conn)
{
    enum iwarp_status status = IWARP_OK;

    iwarp_mutex_lock(&qp->post_lock);
    if (qp->conn) {
        status =
            iwarp_fail(IWARP_MISUSE,
                       "queue pair %u was connected before, or has tried to: take a new one, or "
                       "make it IDLE again by iwarp_qp_modify",
                       qp->num);
    } else if (iwarp_qp_state(qp) != IWARP_QP_IDLE) {
        status = iwarp_fail(IWARP_MISUSE, "queue pair %u is in state ERROR, not IDLE", qp->num);
    } else if (qp->pd->device != conn->device) {
        status = iwarp_fail(IWARP_MISUSE, "queue pair and connection are of different devices");
    } else {
        qp->conn = conn;
        conn->qp = qp;
        atomic_store(&qp->no_send_imm, conn->options.send_imm == IWARP_SEND_IMM_OFF);
        iwarp_workers_add(&qp->options.send_cq->workers, conn->worker);
        iwarp_workers_add(&qp->options.recv_cq->workers, conn->worker);
        iwarp_conn_get(conn);
    }
    iwarp_mutex_unlock(&qp->post_lock);
    return status;
}

/*
 * Requests that were posted in between stay in the queues, for the next connection. The reference
 * is dropped without conn.lock: it may be the last one.
 */
void iwarp_qp_unbind(struct iwarp_qp *qp, struct iwarp_conn *conn)
{
    iwarp_mutex_lock(&conn->lock);
    bool bound = conn->qp != NULL; /* false if another thread took it to ERROR and IDLE */
    if (bound) {
        iwarp_mutex_lock(&qp->post_lock);
        qp->conn = NULL;
        conn->qp = NULL;
        atomic_store(&qp->no_send_imm, false);
        iwarp_mutex_unlock(&qp->post_lock);
    }
    conn->state = CONN_ENDED; /* never had an endpoint */
    iwarp_conn_unlock(conn);
    if (bound) {
        iwarp_conn_put(conn);
    }
}

/*
 * Completions are told here: afterwards the connection has no pointer to the queue pair, so the
 * thread that unlocks cannot. Both locks are held while the two part, so a poster either finds the
 * connection, whose holder looks for notes, or none, and its request waits for the next one.
 */
void iwarp_qp_part(struct iwarp_conn *conn)
{
    struct iwarp_qp *qp = conn->qp;

    iwarp_conn_await_no_more(conn);
    iwarp_mutex_lock(&qp->post_lock);
    iwarp_qp_reap(conn);
    iwarp_qp_tell(qp);
    if (conn->has_stream) {
        iwarp_stream_detach(&conn->stream);
    }
    struct iwarp_rwqe *taken = qp->options.srq ? iwarp_rq_untake(&qp->rq) : NULL;
    if (taken) { /* of a message that will never be whole */
        iwarp_srq_put_back(qp->options.srq, taken);
    }
    conn->qp = NULL;
    qp->conn = NULL;
    iwarp_qp_set_state(qp, IWARP_QP_IDLE);
    atomic_store(&qp->no_send_imm, false); /* the next peer may have agreed */
    iwarp_mutex_unlock(&qp->post_lock);
    iwarp_conn_put(conn); /* not the last one: the caller holds another */
}

/* post_lock keeps the connection from being separated, and freed, before the reference is taken. */
struct iwarp_conn *iwarp_qp_hold_conn(struct iwarp_qp *qp)
{
    iwarp_mutex_lock(&qp->post_lock);
    struct iwarp_conn *conn = qp->conn;
    if (conn) {
        iwarp_conn_get(conn);
    }
    iwarp_mutex_unlock(&qp->post_lock);
    return conn;
}

/* --- completions ----------------------------------------------------------------------------- */

/*
 * conn.lock held. `pushed` makes the thread that unlocks tell the application. A completion that is
 * lost ends the stream: the application could never learn what became of its request. A fault is
 * attached by pointer, into the connection, which lives as long as the queue pair keeps it.
 */
static void push(struct iwarp_conn *conn, struct iwarp_cq *cq, struct iwarp_wc *wc)
{
    wc->qp = conn->qp;
    wc->qp_num = conn->qp->num;
    wc->fault = wc->status != IWARP_WC_SUCCESS && conn->fault.code ? &conn->fault : NULL;
    wc->fault_code = wc->fault ? (uint32_t)conn->fault.code : IWARP_FAULT_NONE;
    if (iwarp_log_on(IWARP_LOG_TRACE)) {
        iwarp_trace_wc(wc);
    }
    conn->pushed = true;
    if (!iwarp_cq_push(cq, wc) && conn->state != CONN_ENDED) {
        iwarp_stream_kill(&conn->stream, IWARP_FAULT_LOCAL_CQ_OVERFLOW, IWARP_SIDE_LOCAL,
                          iwarp_cq_entries(cq));
    }
}

/*
 * Several request opcodes share one in the completion, as in libibverbs. check_send has made sure
 * that the opcode is in the table.
 */
enum iwarp_wc_opcode iwarp_swqe_wc_opcode(const struct iwarp_swqe *w)
{
    static const enum iwarp_wc_opcode opcodes[] = {[IWARP_WR_SEND] = IWARP_WC_SEND,
                                                   [IWARP_WR_SEND_INV] = IWARP_WC_SEND,
                                                   [IWARP_WR_WRITE] = IWARP_WC_WRITE,
                                                   [IWARP_WR_READ] = IWARP_WC_READ,
                                                   [IWARP_WR_IMM] = IWARP_WC_IMM,
                                                   [IWARP_WR_WRITE_IMM] = IWARP_WC_WRITE,
                                                   [IWARP_WR_ATOMIC_FETCH_ADD] = IWARP_WC_FETCH_ADD,
                                                   [IWARP_WR_ATOMIC_CMP_SWAP] = IWARP_WC_CMP_SWAP,
                                                   [IWARP_WR_SEND_IMM] = IWARP_WC_SEND,
                                                   [IWARP_WR_READ_INV] = IWARP_WC_READ,
                                                   [IWARP_WR_REG_MR] = IWARP_WC_REG_MR,
                                                   [IWARP_WR_LOCAL_INV] = IWARP_WC_LOCAL_INV,
                                                   [IWARP_WR_BIND_MW] = IWARP_WC_BIND_MW};

    return w->flags & IWARP_WR_CONFIRM ? IWARP_WC_WRITE : opcodes[w->opcode];
}

/* conn.lock held. w is a copy, or an entry that no poster can overwrite yet. */
/* [VERBS-8.1.3.1-01] [VERBS-9.3.2.1-01] */
static void push_send(struct iwarp_conn *conn, const struct iwarp_swqe *w,
                      enum iwarp_wc_status status)
{
    struct iwarp_wc wc = {
        .wr_id = w->wr_id, .status = status, .opcode = iwarp_swqe_wc_opcode(w), .byte_len = w->len};

    push(conn, conn->qp->options.send_cq, &wc);
}

/* conn.lock held. Length, flags and immediate data are defined for success only. */
/* [VERBS-8.1.2.1-02] [VERBS-9.3.2.1-01] */
static void push_recv(struct iwarp_conn *conn, const struct iwarp_rwqe *w,
                      enum iwarp_wc_status status)
{
    struct iwarp_wc wc = {.wr_id = w->wr_id, .status = status, .opcode = IWARP_WC_RECV};

    if (status == IWARP_WC_SUCCESS) {
        wc.byte_len = w->byte_len;
        wc.flags = w->wc_flags;
        wc.invalidated_stag = w->wc_flags & IWARP_WC_WITH_INVALIDATE ? w->invalidated_stag : 0;
        wc.imm = w->wc_flags & IWARP_WC_WITH_IMM ? w->imm : 0;
    }
    push(conn, conn->qp->options.recv_cq, &wc);
}

/*
 * RFC 5040 4.8: what the peer's Terminate means for the request that was in flight. The detail of
 * the fault has layer, error type and code of the Terminate. Without a Terminate the peer says
 * nothing about the request, so it is flushed like the others.
 */
static enum iwarp_wc_status remote_status(const struct iwarp_fault *fault)
{
    if (!iwarp_fault_is_terminate(fault)) {
        return IWARP_WC_FLUSHED;
    }
    uint64_t layer = fault->detail[0], etype = fault->detail[1];
    if (layer == IWARP_TERM_RDMAP && etype == IWARP_TERM_RDMAP_PROTECTION) {
        return IWARP_WC_REMOTE_ACCESS;
    }
    if (layer == IWARP_TERM_DDP && etype == IWARP_TERM_DDP_TAGGED) {
        return IWARP_WC_REMOTE_ACCESS;
    }
    if (layer == IWARP_TERM_DDP && etype == IWARP_TERM_DDP_UNTAGGED) {
        return IWARP_WC_REMOTE_INVALID;
    }
    return IWARP_WC_REMOTE_OPERATION;
}

/* Has one of the requests from `done` up to `begun` got an error status already? Then the fault is
 * that request's, and no other one carries it. */
static bool anybody_blamed(const struct iwarp_wq *sq, uint32_t begun)
{
    for (uint32_t pos = sq->done; pos != begun; pos++) {
        if (iwarp_sq_at(sq, pos)->status != IWARP_WC_SUCCESS) {
            return true;
        }
    }
    return false;
}

/* What becomes of a request that did not finish: it carries its own reason, if it has one. */
static enum iwarp_wc_status unfinished(uint8_t status)
{
    return status == IWARP_WC_SUCCESS ? IWARP_WC_FLUSHED : (enum iwarp_wc_status)status;
}

/*
 * An entry of an SRQ is finished. It is given back before its completion is pushed, since the
 * application may post a new receive as soon as it sees the completion; so the completion is made
 * from a copy.
 */
static void push_shared(struct iwarp_conn *conn, struct iwarp_rwqe *w, enum iwarp_wc_status status)
{
    const struct iwarp_rwqe copy = *w;

    iwarp_srq_give_back(conn->qp->options.srq, w);
    push_recv(conn, &copy, status);
}

/*
 * Flush only the entry that this queue pair has taken: the others belong to all users of the SRQ.
 */
static void flush_shared(struct iwarp_conn *conn)
{
    struct iwarp_rwqe *w = iwarp_rq_untake(&conn->qp->rq);

    if (w) {
        push_shared(conn, w, unfinished(w->status));
    }
}

/*
 * Verbs 6: all requests that are left complete as flushed, unsignaled ones, too. One exception: the
 * first request in flight, which may be sent in part, gets the reason that the peer gave, unless
 * another one is known to be the cause. conn.lock held, after reaping.
 */
/* [DDP-3-03] [VERBS-6.2.4-01] [VERBS-8.1.3.1-02] */
/* [VERBS-8.2.4-01] */
static void flush(struct iwarp_conn *conn)
{
    struct iwarp_wq *sq = &conn->qp->sq, *rq = &conn->qp->rq;
    uint32_t head = iwarp_wq_head(sq), reaped = atomic_load(&sq->reaped);
    uint32_t begun = sq->next + (conn->stream.tx.off > 0); /* behind the last that is framed */
    bool first = sq->done != begun && !anybody_blamed(sq, begun);

    for (; reaped != head; reaped++, first = false) {
        const struct iwarp_swqe *w = iwarp_sq_at(sq, reaped);
        bool blamed = w->status != IWARP_WC_SUCCESS || !first;
        push_send(conn, w, blamed ? unfinished(w->status) : remote_status(&conn->fault));
        reaped += iwarp_qp_is_confirmed(sq, reaped, head);
    }
    sq->done = sq->next = head;
    conn->stream.tx.off = 0; /* what is posted from now on is flushed, too, and was never begun */
    atomic_store(&sq->reaped, head);
    if (rq->take) {
        flush_shared(conn);
        return;
    }
    head = iwarp_wq_head(rq);
    for (reaped = atomic_load(&rq->reaped); reaped != head; reaped++) {
        const struct iwarp_rwqe *w = iwarp_rq_at(rq, reaped);
        push_recv(conn, w, unfinished(w->status));
    }
    rq->done = rq->next = head;
    atomic_store(&rq->reaped, head);
}

/*
 * Pushing and telling without a step between: for callers that tell before conn.lock is free. A
 * thread that wakes up finds the lock taken then, and leaves a note.
 */
void iwarp_qp_tell(struct iwarp_qp *qp)
{
    iwarp_cq_tell(iwarp_cq_due(qp->options.send_cq));
    iwarp_cq_tell(iwarp_cq_due(qp->options.recv_cq));
}

/*
 * The consumer side of both rings: positions from `reaped` to `done` are finished, in order.
 * `reaped` is moved, with release, before the completion is pushed, so an application that polls it
 * finds room to post. Unsignaled requests free their place without a completion.
 */
/* [VERBS-8.2.4-01] */
static void reap_sends(struct iwarp_conn *conn, struct iwarp_qp *qp)
{
    uint32_t pos = atomic_load_explicit(&qp->sq.reaped, memory_order_relaxed);

    while (pos != qp->sq.done) {
        const struct iwarp_swqe *at = iwarp_sq_at(&qp->sq, pos++);
        if (qp->options.signal_all || (at->flags & IWARP_WR_SIGNALED)) {
            /* A copy: a thread that polls the completion may post into this place at once. */
            const struct iwarp_swqe w = *at;
            atomic_store_explicit(&qp->sq.reaped, pos, memory_order_release);
            push_send(conn, &w, IWARP_WC_SUCCESS);
        }
    }
    atomic_store_explicit(&qp->sq.reaped, pos, memory_order_release);
}

static void reap_receives(struct iwarp_conn *conn, struct iwarp_qp *qp)
{
    struct iwarp_rwqe *shared;

    while (qp->rq.take && (shared = iwarp_rq_pop(&qp->rq)) != NULL) {
        push_shared(conn, shared, IWARP_WC_SUCCESS);
    }
    uint32_t pos = atomic_load_explicit(&qp->rq.reaped, memory_order_relaxed);
    for (; pos != qp->rq.done; pos++) {
        const struct iwarp_rwqe w = *iwarp_rq_at(&qp->rq, pos);
        atomic_store_explicit(&qp->rq.reaped, pos + 1, memory_order_release);
        push_recv(conn, &w, IWARP_WC_SUCCESS);
    }
}

/* Each of the two queues has an order, but the two have none between them: a simulator shows a
 * program that relies on one. */
void iwarp_qp_reap(struct iwarp_conn *conn)
{
    struct iwarp_qp *qp = conn->qp;

    if (!qp) {
        return;
    }
    if (conn->device->simulated && iwarp_virtual->random(iwarp_virtual) % 2) {
        reap_receives(conn, qp);
    }
    reap_sends(conn, qp);
    reap_receives(conn, qp);
    if (conn->state == CONN_ENDED) {
        flush(conn);
    }
}

/*
 * Verbs 9.5: which asynchronous event says how the stream ended. An access error of the peer is
 * told apart from other faults, as it hints at a wrong STag or bound in the application.
 */
/* [VERBS-6.2.2-01] */
static enum iwarp_async_type end_type(const struct iwarp_fault *fault)
{
    const struct iwarp_fault_row *row = iwarp_fault_row(fault->code);
    bool rdmap_protection =
        row->layer == IWARP_TERM_RDMAP && row->etype == IWARP_TERM_RDMAP_PROTECTION;
    bool ddp_tagged = row->layer == IWARP_TERM_DDP && row->etype == IWARP_TERM_DDP_TAGGED;

    if (fault->code == IWARP_FAULT_NONE) {
        return IWARP_ASYNC_QP_CLOSED;
    }
    if (iwarp_fault_is_terminate(fault)) {
        return IWARP_ASYNC_QP_TERMINATED;
    }
    if (fault->side == IWARP_SIDE_TRANSPORT || fault->code == IWARP_FAULT_RDMAP_PEER_CLOSED) {
        return IWARP_ASYNC_QP_LOST;
    }
    return rdmap_protection || ddp_tagged ? IWARP_ASYNC_QP_ACCESS : IWARP_ASYNC_QP_FATAL;
}

/* In any case, since the application waits for it before it destroys a queue pair with an SRQ. */
void iwarp_qp_report_last(struct iwarp_qp *qp, enum iwarp_fault_code fault)
{
    const struct iwarp_async_event event = {
        .type = IWARP_ASYNC_QP_LAST_WQE, .fault = fault, .qp = qp, .user = qp->options.user};

    if (qp->options.srq) {
        iwarp_async_report(&qp->async, QP_ASYNC_LAST_WQE, &event);
    }
}

/* No event if the application itself ended the stream: it knows. */
void iwarp_qp_report_end(struct iwarp_conn *conn)
{
    struct iwarp_qp *qp = conn->qp;

    if (!qp) {
        return;
    }
    const struct iwarp_async_event event = {.type = end_type(&conn->fault),
                                            .fault = conn->fault.code,
                                            .qp = qp,
                                            .user = qp->options.user};
    if (conn->fault.code != IWARP_FAULT_LOCAL_ABORT &&
        conn->fault.code != IWARP_FAULT_LOCAL_TERMINATE) {
        iwarp_async_report(&qp->async, QP_ASYNC_END, &event);
    }
    iwarp_qp_report_last(qp, conn->fault.code);
}
