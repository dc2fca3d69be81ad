/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting requests that change what an STag stands for: REG_MR, BIND_MW, LOCAL_INV. What can be
 * known to be wrong now is misuse here; what depends on how things are when the request's turn
 * comes is checked then, in ddp_bind.c. Verbs draft 8.1.
 */
#include "base/fault.h"
#include "ddp/ddp_bind.h"
#include "stream/wq.h"
#include "verbs/mr.h"
#include "verbs/post.h"
#include "verbs/qp.h"

/*
 * The protection domain is compared later, when the request is carried out: a region may be
 * registered anew with another one before.
 */
static enum iwarp_status check_register(const struct iwarp_qp *qp, const struct iwarp_bind *b)
{
    if (!b->mr || b->mr->pd->device != qp->pd->device) {
        return iwarp_fail(IWARP_MISUSE, "REG_MR needs a region of the queue pair's device");
    }
    return iwarp_mr_check(b->addr, b->len, b->access & IWARP_ACCESS_ZERO_BASED ? 0 : b->to_base,
                          b->access);
}

/* A length of 0 is an unbinding of a window, and needs no region. */
static enum iwarp_status check_bind(const struct iwarp_qp *qp, const struct iwarp_bind *b)
{
    const unsigned all = IWARP_ACCESS_REMOTE_WRITE | IWARP_ACCESS_REMOTE_READ |
                         IWARP_ACCESS_REMOTE_ATOMIC | IWARP_ACCESS_ZERO_BASED;

    if (!b->mw || b->mw->entry.pd->device != qp->pd->device) {
        return iwarp_fail(IWARP_MISUSE, "BIND_MW needs a window of the queue pair's device");
    }
    if (b->len > 0 && (!b->mr || b->mr->pd->device != qp->pd->device)) {
        return iwarp_fail(IWARP_MISUSE, "BIND_MW needs a region of the queue pair's device");
    }
    if (!(atomic_load(&qp->access) & IWARP_ACCESS_MW_BIND)) {
        return iwarp_fail(IWARP_MISUSE, "queue pair %u does not allow MW_BIND", qp->num);
    }
    if (b->access & ~all) {
        return iwarp_fail(IWARP_MISUSE, "a window cannot have the rights 0x%x", b->access & ~all);
    }
    return IWARP_OK;
}

/* LOCAL_INV names an STag only; whether it is valid shows when the request is carried out. */
enum iwarp_status iwarp_post_memory_check(const struct iwarp_qp *qp, const struct iwarp_send_wr *wr)
{
    if (wr->num_sge > 0 || (wr->flags & (IWARP_WR_INLINE | IWARP_WR_SOLICITED))) {
        return iwarp_fail(IWARP_MISUSE, "REG_MR, BIND_MW and LOCAL_INV carry no data: no SGEs, "
                                        "INLINE or SOLICITED");
    }
    if (wr->opcode == IWARP_WR_LOCAL_INV) {
        return IWARP_OK;
    }
    if (!wr->bind) {
        return iwarp_fail(IWARP_MISUSE, "REG_MR and BIND_MW need `bind`");
    }
    return wr->opcode == IWARP_WR_REG_MR ? check_register(qp, wr->bind) : check_bind(qp, wr->bind);
}

/*
 * The object's `stag` takes the new key now, so that the application can send it to the peer in a
 * request that is posted behind this one. The STag table changes when the request is carried out.
 */
void iwarp_post_memory_fill(const struct iwarp_qp *qp, const struct iwarp_send_wr *wr,
                            struct iwarp_swqe *w)
{
    const struct iwarp_bind *b = wr->bind;

    if (wr->opcode == IWARP_WR_LOCAL_INV) {
        return;
    }
    struct iwarp_mr *named = wr->opcode == IWARP_WR_REG_MR ? b->mr : &b->mw->entry;
    uint32_t stag = iwarp_stag_with_key(iwarp_mr_stag(named), b->key);
    *iwarp_swqe_binding(w) = (struct iwarp_binding){
        .addr = b->addr,
        .len = b->len,
        .to_base = b->access & IWARP_ACCESS_ZERO_BASED ? 0 : b->to_base,
        .access = b->access,
        .stag = stag,
        .region = b->mr ? iwarp_mr_stag(b->mr) : 0,
        .qp = b->access & IWARP_ACCESS_QP_ONLY ? qp->serial : 0,
    };
    w->remote_to = (uintptr_t)named; /* not used by such requests: kept for undo, as is imm */
    w->imm = iwarp_mr_stag(named);
    atomic_store(&named->stag, stag);
}

/* The table was not changed yet, so only the object's `stag` goes back. */
void iwarp_post_memory_undo(const struct iwarp_swqe *w)
{
    if (w->opcode == IWARP_WR_REG_MR || w->opcode == IWARP_WR_BIND_MW) {
        struct iwarp_mr *named = (struct iwarp_mr *)(uintptr_t)w->remote_to;
        atomic_store(&named->stag, (uint32_t)w->imm);
    }
}
