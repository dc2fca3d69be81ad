/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting: check a request, copy it into its ring, send it if conn.lock is free. Verbs 8.2, 9.3.
 *
 * qp.post_lock makes the posting threads of a queue pair take turns. The stream reads the ring at
 * the same time without that lock: it sees an entry once `head` has moved past it (stream/wq.h).
 * What the application passed is copied, so all of it may change once the call returns, but for
 * the memory that SGEs name.
 */
#include "verbs/post.h"
#include "base/guard.h"
#include "base/guard_copy.h"
#include "base/log.h"
#include "base/probe.h"
#include "base/process.h"
#include "verbs/conn.h"
#include "verbs/conn_drive.h"
#include "verbs/defer.h"
#include "verbs/device.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/trace.h"
#include "verbs/worker.h"

#define WR_FLAGS                                                                                   \
    (IWARP_WR_SIGNALED | IWARP_WR_SOLICITED | IWARP_WR_INLINE | IWARP_WR_FENCE | IWARP_WR_CONFIRM)

/*
 * The sum of the SGEs' lengths; false if it is more than one message can carry (RFC 5041 5.2: less
 * than 2^32). 64 bits do not overflow: there are IWARP_MAX_SGE lengths of 32 bits at most.
 */
/* [DDP-5.2-03] [VERBS-8.1.3.2-01] */
static bool total_len(const struct iwarp_sge *sgl, unsigned n, uint64_t *total)
{
    *total = 0;
    for (unsigned i = 0; i < n; i++) {
        *total += sgl[i].len;
    }
    return *total <= UINT32_MAX;
}

/* Requests that are carried out at this end and send nothing (post_memory.c). */
static bool is_memory(enum iwarp_wr_opcode opcode)
{
    return opcode == IWARP_WR_REG_MR || opcode == IWARP_WR_LOCAL_INV || opcode == IWARP_WR_BIND_MW;
}

/* The application's number may be any; tables that are indexed by the opcode rely on this check. */
static bool known(enum iwarp_wr_opcode opcode)
{
    return (unsigned)opcode <= IWARP_WR_SEND_IMM || opcode == IWARP_WR_READ_INV ||
           is_memory(opcode);
}

/* RFC 7306 6: 8 octets for the peer, alone or behind an RDMA Write. */
static bool has_immediate(enum iwarp_wr_opcode opcode)
{
    return opcode == IWARP_WR_IMM || opcode == IWARP_WR_WRITE_IMM;
}

static bool is_atomic(enum iwarp_wr_opcode opcode)
{
    return opcode == IWARP_WR_ATOMIC_FETCH_ADD || opcode == IWARP_WR_ATOMIC_CMP_SWAP;
}

/* Requests that RFC 7306 adds: Immediate Data and Atomics. */
static enum iwarp_status check_extension(const struct iwarp_qp *qp, const struct iwarp_send_wr *wr)
{
    if (!has_immediate(wr->opcode) && !is_atomic(wr->opcode)) {
        return IWARP_OK;
    }
    if (!qp->pd->device->rfc7306) {
        return iwarp_fail(IWARP_MISUSE,
                          "%s switched off for this device (device option rfc7306, or "
                          "IWARP_RFC7306=off in the environment)",
                          is_atomic(wr->opcode) ? "Atomics are" : "Immediate Data is");
    }
    if (wr->opcode == IWARP_WR_IMM && wr->num_sge != 0) {
        return iwarp_fail(IWARP_MISUSE,
                          "IMM carries its 8 octets in imm and nothing else: %u SGEs, expected 0",
                          wr->num_sge);
    }
    if (is_atomic(wr->opcode) &&
        (wr->num_sge != 1 || wr->sg_list->len != 8 || (wr->flags & IWARP_WR_INLINE))) {
        return iwarp_fail(IWARP_MISUSE,
                          "an Atomic needs one SGE of 8 octets for what the word held, not inline");
    }
    return IWARP_OK;
}

/* Before the start-up is over, the answer of the peer is not known: then the stream checks it. */
static enum iwarp_status check_send_imm(const struct iwarp_qp *qp, const struct iwarp_send_wr *wr)
{
    if (wr->opcode != IWARP_WR_SEND_IMM) {
        return IWARP_OK;
    }
    if (atomic_load(&qp->no_send_imm)) {
        return iwarp_fail(IWARP_MISUSE,
                          "a Send with Immediate Data is no iWARP message; an RDMA Write with "
                          "Immediate Data is (RFC 7306). Two ends of this library can agree on it: "
                          "IWARP_SEND_IMM=1, or the option send_imm, at both");
    }
    return wr->imm <= UINT32_MAX
               ? IWARP_OK
               : iwarp_fail(IWARP_MISUSE,
                            "SEND_IMM carries 4 octets in imm: 0x%llx is more than 2^32-1",
                            (unsigned long long)wr->imm);
}

/*
 * An lkey that names no region now is not refused: a REG_MR before this request may make it one.
 * The stream checks it when it is this request's turn.
 */
static enum iwarp_status check_sink(const struct iwarp_qp *qp, const struct iwarp_sge *sge)
{
    struct iwarp_lends lends;

    lends.n = 0;
    const struct iwarp_region *sink = iwarp_lends_get(&lends, &qp->pd->device->regions, sge->lkey);
    bool lacks = sink && !(sink->access & IWARP_ACCESS_REMOTE_WRITE);
    iwarp_lends_settle(&lends);
    return lacks ? iwarp_fail(IWARP_MISUSE,
                              "RDMA Read into lkey 0x%x, whose region does not allow REMOTE_WRITE: "
                              "on iWARP the sink of an RDMA Read has to be registered with it",
                              sge->lkey)
                 : IWARP_OK;
}

/* With remote_sinks, a sink without REMOTE_WRITE is refused here: RNICs need that right, as a Read
 * Response is a tagged message like others. */
static enum iwarp_status check_read(const struct iwarp_qp *qp, const struct iwarp_send_wr *wr)
{
    enum iwarp_status status = IWARP_OK;

    if (wr->flags & IWARP_WR_INLINE) {
        return iwarp_fail(IWARP_MISUSE, "an RDMA Read cannot be inline");
    }
    if (wr->opcode == IWARP_WR_READ_INV && wr->num_sge != 1) {
        return iwarp_fail(IWARP_MISUSE, "READ_INV needs one SGE, whose lkey it invalidates");
    }
    unsigned sinks = qp->options.remote_sinks ? wr->num_sge : 0;
    for (unsigned i = 0; i < sinks && status == IWARP_OK; i++) {
        status = wr->sg_list[i].len > 0 ? check_sink(qp, &wr->sg_list[i]) : IWARP_OK;
    }
    return status;
}

/*
 * What can be known to be wrong now is refused now, before anything is posted. What the STags allow
 * is checked when the request is carried out, since requests before it may change that. The order
 * of the checks matters only where one relies on another: SGEs are counted before they are read.
 * post_lock held. *len is not set for requests that send nothing.
 */
static enum iwarp_status check_send(const struct iwarp_qp *qp, const struct iwarp_send_wr *wr,
                                    uint64_t *len)
{
    const struct iwarp_qp_options *o = &qp->options;

    if (!known(wr->opcode)) {
        return iwarp_fail(IWARP_MISUSE, "unknown work request opcode %u", (unsigned)wr->opcode);
    }
    if (wr->flags & ~(unsigned)WR_FLAGS) {
        return iwarp_fail(IWARP_MISUSE, "work request flags 0x%x, known are 0x%x", wr->flags,
                          (unsigned)WR_FLAGS);
    }
    if ((wr->flags & IWARP_WR_CONFIRM) && (wr->opcode != IWARP_WR_READ || wr->num_sge > 0)) {
        return iwarp_fail(IWARP_MISUSE, "IWARP_WR_CONFIRM is for an RDMA Read without SGEs");
    }
    if (is_memory(wr->opcode)) {
        return iwarp_post_memory_check(qp, wr);
    }
    if (wr->num_sge > o->max_send_sge) {
        return iwarp_fail(IWARP_MISUSE, "%u SGEs, the queue pair was created for %u", wr->num_sge,
                          o->max_send_sge);
    }
    if (wr->num_sge > 0 && !wr->sg_list) {
        return iwarp_fail(IWARP_MISUSE, "%u SGEs, but sg_list is NULL", wr->num_sge);
    }
    if (!total_len(wr->sg_list, wr->num_sge, len)) {
        return iwarp_fail(IWARP_MISUSE, "%llu octets in one request, at most 2^32-1 are possible",
                          (unsigned long long)*len);
    }
    if (wr->opcode == IWARP_WR_READ || wr->opcode == IWARP_WR_READ_INV) {
        enum iwarp_status status = check_read(qp, wr);
        if (status != IWARP_OK) {
            return status;
        }
    }
    if ((wr->flags & IWARP_WR_INLINE) && *len > o->max_inline) {
        return iwarp_fail(IWARP_MISUSE, "%llu octets inline, the queue pair was created for %u",
                          (unsigned long long)*len, o->max_inline);
    }
    enum iwarp_status status = check_send_imm(qp, wr);
    return status == IWARP_OK ? check_extension(qp, wr) : status;
}

/*
 * Each connection installs the guard's handlers. A queue pair in IDLE may be the first of its
 * process, or the application may have replaced the handlers after the last connection.
 */
static inline void await_faults(const struct iwarp_qp *qp)
{
    if (!qp->conn) {
        iwarp_guard_refresh();
    }
}

/*
 * Copy the SGEs' memory, one after the other. The copy is guarded: memory that cannot be read makes
 * the request fail and not the process.
 */
static bool copy_inline(const struct iwarp_qp *qp, uint8_t *to, const struct iwarp_send_wr *wr)
{
    await_faults(qp);
    for (unsigned i = 0; i < wr->num_sge; i++) {
        const struct iwarp_sge *sge = &wr->sg_list[i];
        if (iwarp_guard_copy_from(to, sge->addr, sge->len) != 0) {
            iwarp_fail(IWARP_MISUSE, "inline data: the %u octets at %p cannot be read", sge->len,
                       sge->addr);
            return false;
        }
        to += sge->len;
    }
    return true;
}

/*
 * Write the request into its entry, which is not visible to the stream yet. False: inline data that
 * cannot be read; the error is set.
 */
static bool fill_send(const struct iwarp_qp *qp, struct iwarp_swqe *w,
                      const struct iwarp_send_wr *wr, uint32_t len)
{
    *w = (struct iwarp_swqe){.wr_id = wr->wr_id,
                             .remote_to = wr->remote_to,
                             .imm = wr->imm,
                             .remote_stag = wr->remote_stag,
                             .invalidate_stag = wr->invalidate_stag,
                             .len = len,
                             .opcode = (uint8_t)wr->opcode,
                             .flags = (uint8_t)wr->flags,
                             .num_sge = (uint8_t)wr->num_sge,
                             .status = IWARP_WC_SUCCESS};
    if (is_memory(wr->opcode)) {
        iwarp_post_memory_fill(qp, wr, w);
        return true;
    }
    if (wr->flags & IWARP_WR_INLINE) {
        w->num_sge = 0;
        return copy_inline(qp, iwarp_swqe_inline(w), wr);
    }
    for (unsigned i = 0; i < wr->num_sge; i++) { /* mostly one: cheaper than a call of memcpy */
        w->sgl[i] = wr->sg_list[i];
    }
    if (is_atomic(wr->opcode)) {
        *iwarp_swqe_operands(w) =
            (struct iwarp_operands){wr->operand, wr->mask, wr->compare, wr->compare_mask};
    }
    return true;
}

/*
 * Check one request and write it to position `at`. It is posted only when `head` moves past it
 * (push_sends), so it can still be taken back. post_lock held.
 */
static enum iwarp_status put_send(struct iwarp_qp *qp, const struct iwarp_send_wr *wr, uint32_t at)
{
    uint64_t len = 0;
    enum iwarp_status status = check_send(qp, wr, &len);

    if (status != IWARP_OK) {
        return status;
    }
    if ((wr->flags & IWARP_WR_CONFIRM) && qp->options.confirms) {
        qp->sq.limit = 2 * qp->options.max_send_wr; /* post_lock guards it */
    }
    if (!iwarp_wq_room_at(&qp->sq, at)) {
        return iwarp_fail(IWARP_AGAIN,
                          "send queue is full: %u requests are unfinished or their "
                          "completions not produced yet",
                          qp->sq.limit);
    }
    if (iwarp_log_on(IWARP_LOG_TRACE)) {
        iwarp_trace_send(qp, wr);
    }
    if (!fill_send(qp, iwarp_sq_at(&qp->sq, at), wr, (uint32_t)len)) {
        return IWARP_MISUSE;
    }
    IWARP_PROBE4(post_send, qp->num, wr->wr_id, wr->opcode, len);
    return IWARP_OK;
}

/* Relaxed: `head` is written with post_lock held only, and this thread has it. */
static uint32_t next_send(struct iwarp_qp *qp)
{
    return atomic_load_explicit(&qp->sq.head, memory_order_relaxed);
}

/*
 * A fast path for the common shape: an RDMA Write or Send of one SGE. Requests in a row that have
 * this shape, and are right in every respect, are written into the ring here, with one guard for
 * all of them. The first that is not is left to put_send, which has the full checks and the error
 * texts.
 */
struct run {
    volatile struct iwarp_guard_range range; /* the inline data being copied */
    struct iwarp_qp *qp;
    uint32_t at;                    /* position of the first one */
    const struct iwarp_send_wr *wr; /* the next one */
    bool guarded;                   /* inline data may be copied */
    uint32_t filled;
};

/*
 * False also for a wrong request: put_send then finds out what is wrong. Inline data is taken only
 * if the run is guarded, which its first request decides.
 */
static bool is_common(const struct run *run, const struct iwarp_send_wr *wr)
{
    if ((wr->opcode != IWARP_WR_WRITE && wr->opcode != IWARP_WR_SEND) || wr->num_sge != 1 ||
        !wr->sg_list || (wr->flags & ~(unsigned)WR_FLAGS) || (wr->flags & IWARP_WR_CONFIRM)) {
        return false;
    }
    return !(wr->flags & IWARP_WR_INLINE) ||
           (run->guarded && wr->sg_list->len <= run->qp->options.max_inline);
}

/*
 * `filled` and `wr` move on after each request is complete: a fault in the next copy leaves this
 * function by a jump, and what they say then has to be true.
 */
static void fill_run(void *arg)
{
    struct run *run = arg;
    struct iwarp_wq *sq = &run->qp->sq;
    uint32_t used = run->at - atomic_load_explicit(&sq->reaped, memory_order_acquire);

    for (; run->wr && used + run->filled < sq->limit; run->filled++) {
        const struct iwarp_send_wr *wr = run->wr;
        if (!is_common(run, wr)) {
            break;
        }
        struct iwarp_swqe *w = iwarp_sq_at(sq, run->at + run->filled);
        const struct iwarp_sge *sge = wr->sg_list;
        *w = (struct iwarp_swqe){.wr_id = wr->wr_id,
                                 .remote_to = wr->remote_to,
                                 .remote_stag = wr->remote_stag,
                                 .len = sge->len,
                                 .opcode = (uint8_t)wr->opcode,
                                 .flags = (uint8_t)wr->flags,
                                 .num_sge = !(wr->flags & IWARP_WR_INLINE),
                                 .status = IWARP_WC_SUCCESS};
        if (wr->flags & IWARP_WR_INLINE) {
            run->range.addr = sge->addr;
            run->range.n = sge->len;
            iwarp_guard_fetch(iwarp_swqe_inline(w), sge->addr, sge->len);
            iwarp_guard_check(sge->addr, sge->len);
        } else {
            w->sgl[0] = *sge;
        }
        IWARP_PROBE4(post_send, run->qp->num, wr->wr_id, wr->opcode, sge->len);
        run->wr = wr->next;
    }
}

/*
 * Run the fast path from position `at` on. Returns how many requests were written; *wr is then the
 * first that was not. With trace logging each request takes the slow path, which logs.
 */
static uint32_t put_run(struct iwarp_qp *qp, const struct iwarp_send_wr **wr, uint32_t at)
{
    struct run run = {
        .qp = qp, .at = at, .wr = *wr, .guarded = ((*wr)->flags & IWARP_WR_INLINE) != 0};

    if (iwarp_log_on(IWARP_LOG_TRACE)) {
        return 0;
    }
    if (run.guarded) {
        await_faults(qp);
        (void)iwarp_guard_batch(&run.range, fill_run, &run); /* a fault ends it at that request */
    } else {
        fill_run(&run);
    }
    *wr = run.wr;
    return run.filled;
}

/* Release: the stream's thread reads `head` with acquire and then finds the entries complete. */
static void push_sends(struct iwarp_qp *qp, uint32_t at)
{
    atomic_store_explicit(&qp->sq.head, at, memory_order_release);
}

/*
 * `wr` could not be posted. If it is the Read that confirms the Write before it in the chain, that
 * is taken back: it must not be sent, since the application is told that it was refused. Returns
 * the first request that is not posted.
 */
static const struct iwarp_send_wr *take_back(struct iwarp_qp *qp, const struct iwarp_send_wr *chain,
                                             const struct iwarp_send_wr *wr, uint32_t *at)
{
    if (wr == chain || !iwarp_qp_is_confirmed_by(&qp->sq, *at - 1, wr->flags, wr->wr_id)) {
        return wr;
    }
    while (chain->next != wr) {
        chain = chain->next;
    }
    --*at;
    return chain;
}

/*
 * Post up to the first request that cannot be posted, as ibv_post_send does. *wr is that request,
 * or NULL.
 */
static enum iwarp_status post_one_by_one(struct iwarp_qp *qp, const struct iwarp_send_wr **wr)
{
    const struct iwarp_send_wr *chain = *wr;
    enum iwarp_status status = IWARP_OK;
    uint32_t at = next_send(qp);

    for (; *wr; *wr = (*wr)->next, at++) {
        at += put_run(qp, wr, at);
        if (!*wr) {
            break;
        }
        status = put_send(qp, *wr, at);
        if (status != IWARP_OK) {
            *wr = take_back(qp, chain, *wr, &at);
            break;
        }
    }
    push_sends(qp, at);
    return status;
}

/*
 * All or nothing: `head` moves once, after the last request. Requests whose filling has changed the
 * STag of a region or window are undone in reverse order.
 */
static enum iwarp_status post_together(struct iwarp_qp *qp, const struct iwarp_send_wr **wr)
{
    uint32_t first = next_send(qp), at = first;

    for (; *wr; *wr = (*wr)->next, at++) {
        at += put_run(qp, wr, at);
        if (!*wr) {
            break;
        }
        enum iwarp_status status = put_send(qp, *wr, at);
        if (status != IWARP_OK) {
            while (at != first) {
                iwarp_post_memory_undo(iwarp_sq_at(&qp->sq, --at));
            }
            return status;
        }
    }
    push_sends(qp, at);
    return IWARP_OK;
}

static inline enum iwarp_status put(struct iwarp_qp *qp, const struct iwarp_send_wr **wr,
                                    bool together)
{
    return together ? post_together(qp, wr) : post_one_by_one(qp, wr);
}

/*
 * A program that serves many queue pairs in turn is in no streak with any of them: then nothing is
 * asked, and no clock is read.
 */
static bool is_same_again(const struct iwarp_qp *qp)
{
    static _Thread_local const struct iwarp_qp *last; /* compared, and never followed */
    bool same = last == qp;

    last = qp;
    return same;
}

/* A Write or Send alone, or a Write with the Read behind it that confirms it: spin.h. */
static bool is_lone(const struct iwarp_send_wr *wr)
{
    return wr && (wr->opcode == IWARP_WR_WRITE || wr->opcode == IWARP_WR_SEND) &&
           (!wr->next || (!wr->next->next && (wr->next->flags & IWARP_WR_CONFIRM)));
}

/*
 * The post stays. The queue pair is not destroyed meanwhile (await_posters), so the connection, its
 * worker and the device are there. post_lock held.
 */
static struct iwarp_conn *stay_with(struct iwarp_qp *qp)
{
    atomic_fetch_add_explicit(&qp->drivers, 1, memory_order_relaxed);
    iwarp_conn_get(qp->conn);
    return qp->conn;
}

static void stay(struct iwarp_qp *qp, struct iwarp_conn *conn, uint64_t writes)
{
    iwarp_spin_stay(conn, writes);
    iwarp_conn_put(conn);
    atomic_fetch_sub_explicit(&qp->drivers, 1, memory_order_release); /* see await_posters */
}

static bool has_deferred(const struct iwarp_qp *qp)
{
    return qp->conn && atomic_load_explicit(&qp->conn->deferred, memory_order_relaxed);
}

static inline bool may_post(struct iwarp_qp *qp)
{
    if (!qp) {
        (void)iwarp_fail(IWARP_MISUSE, "posting: the queue pair is NULL");
        return false;
    }
    return IWARP_MAY_CALL(qp->pd->device);
}

/*
 * Six steps: write the requests into the ring with post_lock held; flush them if the queue pair is
 * in ERROR and has no connection; if they are of a streak, leave it at that (defer.h); claim the
 * connection; give post_lock back; send with conn.lock held. The claim is made with post_lock held,
 * as that keeps qp.conn from being separated. Requests that were posted before a wrong one are sent
 * all the same. In IDLE requests wait until the queue pair is connected. *bad is written while the
 * queue pair is certain to exist: completions of these requests may be polled, and the queue pair
 * destroyed, as soon as they are sent.
 */
/* [VERBS-6.2.1-01] */
/* [DDP-6.2.1-02] [VERBS-8.1.1-01] [VERBS-8.2.1-01] [VERBS-8.3.1-01] */
static inline enum iwarp_status post_sends(struct iwarp_qp *qp, const struct iwarp_send_wr *wr,
                                           const struct iwarp_send_wr **bad, bool together)
{
    IWARP_UNCANCELLED;
    bool lone = is_lone(wr), confirmed = lone && wr->next;

    if (!may_post(qp)) {
        if (bad) {
            *bad = wr;
        }
        return IWARP_MISUSE;
    }
    iwarp_mutex_lock(&qp->post_lock);
    uint32_t first = next_send(qp);
    const struct iwarp_send_wr *chain = wr; /* together: of one that failed nothing was posted */
    enum iwarp_status status = put(qp, &wr, together);
    if (status == IWARP_AGAIN && has_deferred(qp)) { /* sending them may make room */
        struct iwarp_conn *full = iwarp_qp_claim(qp);
        iwarp_mutex_unlock(&qp->post_lock);
        iwarp_qp_drive(qp, full, false);
        iwarp_mutex_lock(&qp->post_lock);
        first = next_send(qp);
        wr = together ? chain : wr;
        status = put(qp, &wr, together);
    }
    if (!qp->conn && iwarp_qp_state(qp) == IWARP_QP_ERROR) {
        iwarp_qp_flush_unconnected(qp);
    }
    enum iwarp_defer defer = IWARP_DEFER_NO;
    struct iwarp_conn *stays = NULL;
    uint64_t writes = 0;
    if (is_same_again(qp) && status == IWARP_OK && qp->conn && !qp->pd->device->embedded) {
        defer = confirmed ? IWARP_DEFER_NO : iwarp_defer(qp, first, next_send(qp));
        if (lone && defer != IWARP_DEFER_YES && iwarp_spin_counts(qp, &writes)) {
            stays = stay_with(qp);
        }
    }
    if (qp->conn && !stays && qp->conn->spin.leads) {
        iwarp_spin_end(qp->conn);
    }
    struct iwarp_conn *conn = defer == IWARP_DEFER_YES ? NULL : iwarp_qp_claim(qp);
    iwarp_mutex_unlock(&qp->post_lock);
    if (status != IWARP_OK && bad) {
        *bad = wr;
    }
    iwarp_qp_drive(qp, conn, defer == IWARP_DEFER_TIMED);
    if (stays) {
        stay(qp, stays, writes);
    }
    return status;
}

enum iwarp_status iwarp_post_send(struct iwarp_qp *qp, const struct iwarp_send_wr *wr,
                                  const struct iwarp_send_wr **bad)
{
    return post_sends(qp, wr, bad, false);
}

enum iwarp_status iwarp_post_send_together(struct iwarp_qp *qp, const struct iwarp_send_wr *wr,
                                           const struct iwarp_send_wr **bad)
{
    return post_sends(qp, wr, bad, true);
}

enum iwarp_status iwarp_recv_check(const struct iwarp_recv_wr *wr, unsigned max_sge,
                                   const char *queue)
{
    if (wr->num_sge > max_sge) {
        return iwarp_fail(IWARP_MISUSE, "%u SGEs, the %s was created for %u", wr->num_sge, queue,
                          max_sge);
    }
    if (wr->num_sge > 0 && !wr->sg_list) {
        return iwarp_fail(IWARP_MISUSE, "%u SGEs, but sg_list is NULL", wr->num_sge);
    }
    return IWARP_OK;
}

/* A receive may be larger than any message: then its capacity is cut to what a message can have. */
void iwarp_recv_fill(struct iwarp_rwqe *w, const struct iwarp_recv_wr *wr)
{
    uint64_t len = 0;

    (void)total_len(wr->sg_list, wr->num_sge, &len);
    *w = (struct iwarp_rwqe){.wr_id = wr->wr_id,
                             .capacity = len <= UINT32_MAX ? len : UINT32_MAX,
                             .num_sge = (uint8_t)wr->num_sge};
    for (unsigned i = 0; i < wr->num_sge; i++) { /* as in fill_send */
        w->sgl[i] = wr->sg_list[i];
    }
}

/* post_lock held. The SGEs' lkeys are checked when a message is placed. */
static enum iwarp_status post_one_recv(struct iwarp_qp *qp, const struct iwarp_recv_wr *wr)
{
    enum iwarp_status status = iwarp_recv_check(wr, qp->options.max_recv_sge, "queue pair");

    if (status != IWARP_OK) {
        return status;
    }
    if (qp->options.srq) {
        return iwarp_fail(IWARP_MISUSE, "queue pair %u takes its receives from an SRQ: post there",
                          qp->num);
    }
    if (!iwarp_wq_room(&qp->rq)) {
        return iwarp_fail(IWARP_AGAIN, "receive queue is full: %u receives are posted",
                          qp->rq.limit);
    }
    if (iwarp_log_on(IWARP_LOG_TRACE)) {
        iwarp_trace_recv(qp, wr);
    }
    iwarp_recv_fill(iwarp_rq_at(&qp->rq, atomic_load_explicit(&qp->rq.head, memory_order_relaxed)),
                    wr);
    iwarp_wq_push(&qp->rq);
    IWARP_PROBE2(post_recv, qp->num, wr->wr_id);
    return IWARP_OK;
}

/* post_lock held, which keeps the connection. */
static void wake(struct iwarp_qp *qp)
{
    IWARP_UNCANCELLED;

    if (qp->conn) {
        iwarp_worker_kick(qp->conn);
    }
}

enum iwarp_status iwarp_post_recv(struct iwarp_qp *qp, const struct iwarp_recv_wr *wr,
                                  const struct iwarp_recv_wr **bad)
{
    enum iwarp_status status = IWARP_OK;

    if (!may_post(qp)) {
        if (bad) {
            *bad = wr;
        }
        return IWARP_MISUSE;
    }
    iwarp_mutex_lock(&qp->post_lock);
    struct iwarp_conn *ended = NULL;
    for (; wr && status == IWARP_OK; wr = status == IWARP_OK ? wr->next : wr) {
        status = post_one_recv(qp, wr);
    }
    /*
     * A running stream needs no call: it finds the receive when a message comes. One that has a
     * message waiting asks for one (QP_ASKS), and one that has ended has to flush it. `state` is
     * read by an atomic read-modify-write, as iwarp_qp_set_state writes by one: either the end, or
     * the question, is seen here, or the receive there.
     */
    int seen = atomic_fetch_or(&qp->state, 0);
    if (seen > IWARP_QP_TERMINATE) {
        if (seen & QP_ASKS) {
            wake(qp);
        } else if (qp->conn) {
            ended = iwarp_qp_claim(qp);
        } else {
            IWARP_UNCANCELLED;
            iwarp_qp_flush_unconnected(qp);
        }
    }
    iwarp_mutex_unlock(&qp->post_lock);
    if (status != IWARP_OK && bad) {
        *bad = wr;
    }
    /* No cancellation point so far, and turning cancellation off costs as much as posting does. */
    if (ended) {
        IWARP_UNCANCELLED;
        iwarp_qp_drive(qp, ended, false);
    }
    return status;
}
