/* SPDX-License-Identifier: BSD-2-Clause */
/* Work requests and completions in words, one line each, for IWARP_LOG=trace. */
#include "verbs/trace.h"
#include "base/log.h"
#include "verbs/qp.h"

#include <inttypes.h>
#include <stdio.h>

/* " addr+len/lkey" for each SGE, as many as fit: a line is cut, never refused. */
static void sgl_text(char *buf, size_t size, const struct iwarp_sge *sgl, unsigned n)
{
    size_t len = 0;

    buf[0] = '\0';
    for (unsigned i = 0; i < n && len < size; i++) {
        int k =
            snprintf(buf + len, size - len, " %p+%u/0x%08x", sgl[i].addr, sgl[i].len, sgl[i].lkey);
        len += k > 0 ? (size_t)k : 0;
    }
}

/*
 * No default case: the compiler names an opcode without a text. The program's own value may be any
 * number, hence the "?" at the end.
 */
static const char *request_text(enum iwarp_wr_opcode opcode)
{
    switch (opcode) {
    case IWARP_WR_SEND:
        return "Send";
    case IWARP_WR_SEND_INV:
        return "Send with Invalidate";
    case IWARP_WR_WRITE:
        return "RDMA Write";
    case IWARP_WR_READ:
        return "RDMA Read";
    case IWARP_WR_IMM:
        return "Immediate Data";
    case IWARP_WR_SEND_IMM:
        return "Send with Immediate Data";
    case IWARP_WR_WRITE_IMM:
        return "RDMA Write with Immediate Data";
    case IWARP_WR_ATOMIC_FETCH_ADD:
        return "FetchAdd";
    case IWARP_WR_ATOMIC_CMP_SWAP:
        return "CmpSwap";
    case IWARP_WR_READ_INV:
        return "RDMA Read with Invalidate";
    case IWARP_WR_REG_MR:
        return "Register";
    case IWARP_WR_LOCAL_INV:
        return "Invalidate";
    case IWARP_WR_BIND_MW:
        return "Bind";
    }
    return "?";
}

static bool is_atomic(const struct iwarp_send_wr *wr)
{
    return wr->opcode == IWARP_WR_ATOMIC_FETCH_ADD || wr->opcode == IWARP_WR_ATOMIC_CMP_SWAP;
}

/*
 * The request has been checked, so its pointers are there. post_lock is held: lines come in the
 * order of the queue.
 */
void iwarp_trace_send(const struct iwarp_qp *qp, const struct iwarp_send_wr *wr)
{
    char sgl[256], remote[80] = "", extra[120] = "";

    sgl_text(sgl, sizeof sgl, wr->sg_list, wr->num_sge);
    if (wr->opcode == IWARP_WR_WRITE || wr->opcode == IWARP_WR_READ ||
        wr->opcode == IWARP_WR_READ_INV || wr->opcode == IWARP_WR_WRITE_IMM || is_atomic(wr)) {
        snprintf(remote, sizeof remote, " remote STag 0x%08x TO 0x%" PRIx64, wr->remote_stag,
                 wr->remote_to);
    } else if (wr->opcode == IWARP_WR_SEND_INV || wr->opcode == IWARP_WR_LOCAL_INV) {
        snprintf(remote, sizeof remote, " invalidate STag 0x%08x", wr->invalidate_stag);
    } else if (wr->opcode == IWARP_WR_REG_MR || wr->opcode == IWARP_WR_BIND_MW) {
        snprintf(remote, sizeof remote, " %p+%zu rights 0x%x key 0x%02x", wr->bind->addr,
                 wr->bind->len, wr->bind->access, wr->bind->key);
    }
    if (wr->opcode == IWARP_WR_IMM || wr->opcode == IWARP_WR_WRITE_IMM ||
        wr->opcode == IWARP_WR_SEND_IMM) {
        snprintf(extra, sizeof extra, " imm 0x%016" PRIx64, wr->imm);
    } else if (is_atomic(wr)) {
        snprintf(extra, sizeof extra,
                 " operand 0x%" PRIx64 "/0x%" PRIx64 " compare 0x%" PRIx64 "/0x%" PRIx64,
                 wr->operand, wr->mask, wr->compare, wr->compare_mask);
    }
    iwarp_log(IWARP_LOG_TRACE, "wr", "qp %u post %s id 0x%" PRIx64 "%s%s flags%s%s%s%s sges %u:%s",
              qp->num, request_text(wr->opcode), wr->wr_id, remote, extra,
              wr->flags & IWARP_WR_SIGNALED ? " signaled" : "",
              wr->flags & IWARP_WR_SOLICITED ? " solicited" : "",
              wr->flags & IWARP_WR_INLINE ? " inline" : "",
              wr->flags & IWARP_WR_FENCE ? " fence" : "", wr->num_sge, sgl);
}

/* Likewise checked, with post_lock held. */
void iwarp_trace_recv(const struct iwarp_qp *qp, const struct iwarp_recv_wr *wr)
{
    char sgl[256];

    sgl_text(sgl, sizeof sgl, wr->sg_list, wr->num_sge);
    iwarp_log(IWARP_LOG_TRACE, "wr", "qp %u post Receive id 0x%" PRIx64 " sges %u:%s", qp->num,
              wr->wr_id, wr->num_sge, sgl);
}

static const char *opcode_text(enum iwarp_wc_opcode opcode)
{
    switch (opcode) {
    case IWARP_WC_SEND:
        return "Send";
    case IWARP_WC_WRITE:
        return "RDMA Write";
    case IWARP_WC_READ:
        return "RDMA Read";
    case IWARP_WC_IMM:
        return "Immediate Data";
    case IWARP_WC_FETCH_ADD:
        return "FetchAdd";
    case IWARP_WC_CMP_SWAP:
        return "CmpSwap";
    case IWARP_WC_REG_MR:
        return "Register";
    case IWARP_WC_LOCAL_INV:
        return "Invalidate";
    case IWARP_WC_BIND_MW:
        return "Bind";
    case IWARP_WC_RECV:
        return "Receive";
    }
    return "?";
}

/*
 * Before the completion is pushed: afterwards the application may poll it and destroy the queue
 * pair.
 */
void iwarp_trace_wc(const struct iwarp_wc *wc)
{
    char fault[320] = "", imm[40] = "";

    if (wc->fault) {
        fault[0] = ':';
        fault[1] = ' ';
        iwarp_fault_text(wc->fault, fault + 2, sizeof fault - 2);
    }
    if (wc->flags & IWARP_WC_WITH_IMM) {
        snprintf(imm, sizeof imm, ", imm 0x%016" PRIx64, wc->imm);
    }
    iwarp_log(IWARP_LOG_TRACE, "wc", "qp %u completes %s id 0x%" PRIx64 " %s, %u octets%s%s%s%s",
              iwarp_qp_num(wc->qp), opcode_text(wc->opcode), wc->wr_id,
              iwarp_wc_status_text(wc->status), wc->byte_len,
              wc->flags & IWARP_WC_SOLICITED ? ", solicited" : "",
              wc->flags & IWARP_WC_WITH_INVALIDATE ? ", invalidated an STag" : "", imm, fault);
}
