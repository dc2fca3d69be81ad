/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomic operations. The peer's Atomics act on memory of this end; each is carried out when its
 * response is framed, so that effects and responses have one order. The responses to Atomics of
 * this end bring the original value. RFC 7306 5 and 8.2.
 *
 * Queue, depth and order are those of RDMA Reads (rdmap_read.h); headers and arithmetic are in
 * rdmap_atomic.c.
 */
#include "base/guard.h"
#include "stream/stream.h"

/* Always false, so that a check can return it. */
static bool found(struct iwarp_stream *s, enum iwarp_fault_code code, uint64_t d0, uint64_t d1,
                  uint64_t d2)
{
    iwarp_fault_set(&s->fault, code, IWARP_SIDE_LOCAL, d0, d1, d2);
    return false;
}

/* --- the peer's ------------------------------------------------------------------------------ */

/*
 * The order of the checks is the order of what they need: the operation code needs nothing, the
 * rights of the queue pair no region, and alignment is that of the address in this process, known
 * only once the region has turned the TO into it.
 */
/* [RDMAX-5.2.1-05] [RDMAX-5.2.1-11] [RDMAX-8.2-01] [RDMAX-8.2-05] [RDMAX-8.2-06] */
/* [RDMAX-5.1.1-01] [RDMAX-5.1.1-02] [RDMAX-5.1.1-03] [RDMAX-5.1.1-04] */
/* [RDMAX-5.1.2-02] [RDMAX-5.1.2-03] [RDMAX-5.1.2-04] [RDMAX-5.1.2-05] [RDMAX-5.1.2-06] */
void *iwarp_stream_atomic_target(struct iwarp_stream *s, struct iwarp_lends *lends,
                                 const struct iwarp_rdmap_atomic_request *op)
{
    if (!iwarp_rdmap_atomic_known(op->aop)) {
        found(s, IWARP_FAULT_ATOMIC_OPERATION, op->aop, op->id, 0);
        return NULL;
    }
    if (s->ddp.denied & IWARP_ACCESS_REMOTE_ATOMIC) {
        found(s, IWARP_FAULT_ATOMIC_QP_ACCESS, op->stag, s->ddp.denied, 0);
        return NULL;
    }
    const struct iwarp_region *region = iwarp_lends_get(lends, s->config.regions, op->stag);
    if (!region) {
        found(s, IWARP_FAULT_ATOMIC_STAG_INVALID, op->stag, 0, 0);
        return NULL;
    }
    void *p = iwarp_ddp_remote(region, s->config.pd, s->config.qp, op->stag, op->to,
                               sizeof(uint64_t), IWARP_ACCESS_REMOTE_ATOMIC, &s->fault);
    if (p && !iwarp_rdmap_atomic_aligned(p)) {
        found(s, IWARP_FAULT_ATOMIC_ALIGNMENT, op->stag, op->to, 0);
        return NULL;
    }
    return p;
}

/* The access to memory runs under guard: a mapping that is gone is a fault of the stream. */
struct execution {
    void *target;
    const struct iwarp_rdmap_atomic_request *op;
    uint64_t original;
};

static void execute(void *arg)
{
    struct execution *e = arg;
    (void)iwarp_rdmap_atomic_execute(e->target, e->op, &e->original);
}

/* [RDMAX-5.2.1-09] [RDMAX-5.4-03] [RDMAX-5.4-05] [RDMAX-5.2.1-15] [RDMAX-5.2.1-10] */
bool iwarp_stream_atomic_do(struct iwarp_stream *s, const struct iwarp_read_in *in, uint8_t *wire)
{
    struct execution e = {.op = &in->op};
    struct iwarp_lends lends;
    bool good = true;

    lends.n = 0;
    e.target = iwarp_stream_atomic_target(s, &lends, &in->op);
    if (e.target && iwarp_guard_run(e.target, sizeof(uint64_t), execute, &e) != 0) {
        good =
            found(s, IWARP_FAULT_LOCAL_MEMORY, (uint64_t)(uintptr_t)e.target, sizeof(uint64_t), 0);
    }
    iwarp_lends_settle(&lends);
    if (!e.target || !good) {
        return false;
    }
    const struct iwarp_rdmap_atomic_response r = {in->op.id, e.original};
    iwarp_rdmap_atomic_response_put(wire, &r);
    return true;
}

/* --- this end's ------------------------------------------------------------------------------ */

/*
 * The sink was checked before the request went out (frame_fetch), but its region may have been
 * deregistered since: it is resolved anew, as a stream keeps no pointers between batches.
 */
/* [RDMAX-5.2.2-05] [RDMAX-5.4-07] [RDMAX-5.4-01] */
bool iwarp_stream_atomic_done(struct iwarp_stream *s, const struct iwarp_read_out *out,
                              const uint8_t *p)
{
    struct iwarp_swqe *w = iwarp_sq_at(s->config.sq, out->wqe);
    struct iwarp_rdmap_atomic_response r;
    struct iwarp_ddp_target sink;

    iwarp_rdmap_atomic_response_get(p, &r);
    if (r.id != out->msn) {
        return found(s, IWARP_FAULT_ATOMIC_RESPONSE_ID, r.id, out->msn, 0);
    }
    if (!iwarp_ddp_resolve(s->config.regions, s->ddp.lends, s->config.pd, s->config.qp, w->sgl, 1,
                           0, sizeof r.original, IWARP_ACCESS_LOCAL_WRITE, &sink, &s->fault)) {
        w->status = IWARP_WC_LOCAL_PROTECTION;
        return false;
    }
    if (iwarp_guard_copy_to(sink.iov[0].iov_base, &r.original, sizeof r.original) != 0) {
        w->status = IWARP_WC_LOCAL_PROTECTION;
        return found(s, IWARP_FAULT_LOCAL_MEMORY, (uint64_t)(uintptr_t)sink.iov[0].iov_base,
                     sizeof r.original, 0);
    }
    return true;
}
