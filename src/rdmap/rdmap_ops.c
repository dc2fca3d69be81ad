/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The opcode table and its check. RFC 5040 4.2, 7.2; RFC 7306 4.2. Where the opcodes of RFC 7306
 * are switched off they get Terminate 0/2/06, as RFC 7306 1.1 expects from an endpoint without
 * them. So do Sends with Immediate Data where the two ends have not agreed on them.
 */
#include "rdmap/rdmap_ops.h"

static const struct iwarp_rdmap_op unknown;

/* [RDMAP-4.1-04] [RDMAP-4.1-06] [RDMAP-4.2-01] */
static const struct iwarp_rdmap_op ops[16] = {
    [IWARP_OP_WRITE] = {"RDMA Write", true, 0, 0, false, false},
    [IWARP_OP_READ_REQUEST] = {"RDMA Read Request", false, IWARP_DDP_QN_READ_REQUEST,
                               IWARP_RDMAP_READ_REQUEST_LEN, true, false},
    [IWARP_OP_READ_RESPONSE] = {"RDMA Read Response", true, 0, 0, false, false},
    [IWARP_OP_SEND] = {"Send", false, IWARP_DDP_QN_SEND, 0, false, false},
    [IWARP_OP_SEND_INV] = {"Send with Invalidate", false, IWARP_DDP_QN_SEND, 0, false, false},
    [IWARP_OP_SEND_SE] = {"Send with SE", false, IWARP_DDP_QN_SEND, 0, false, false},
    [IWARP_OP_SEND_SE_INV] = {"Send with SE and Invalidate", false, IWARP_DDP_QN_SEND, 0, false,
                              false},
    [IWARP_OP_TERMINATE] = {"Terminate", false, IWARP_DDP_QN_TERMINATE, IWARP_TERM_CTRL_LEN, true,
                            false},
    [IWARP_OP_IMMEDIATE] = {"Immediate Data", false, IWARP_DDP_QN_SEND, IWARP_RDMAP_IMMEDIATE_LEN,
                            true, true},
    [IWARP_OP_IMMEDIATE_SE] = {"Immediate Data with SE", false, IWARP_DDP_QN_SEND,
                               IWARP_RDMAP_IMMEDIATE_LEN, true, true},
    [IWARP_OP_ATOMIC_REQUEST] = {"Atomic Request", false, IWARP_DDP_QN_READ_REQUEST,
                                 IWARP_RDMAP_ATOMIC_REQ_LEN, true, false},
    [IWARP_OP_ATOMIC_RESPONSE] = {"Atomic Response", false, IWARP_DDP_QN_ATOMIC_RESP,
                                  IWARP_RDMAP_ATOMIC_RESP_LEN, true, false},
    [IWARP_OP_SEND_IMM] = {"Send with Immediate Data", false, IWARP_DDP_QN_SEND, 0, false, false},
    [IWARP_OP_SEND_SE_IMM] = {"Send with SE and Immediate Data", false, IWARP_DDP_QN_SEND, 0, false,
                              false},
};

const struct iwarp_rdmap_op *iwarp_rdmap_op(unsigned opcode)
{
    return &ops[opcode & IWARP_RDMAP_OPCODE_MASK];
}

/* Does this end take messages of this opcode on this stream? */
static bool offered(const struct iwarp_rdmap_segment *s, unsigned opcode)
{
    return opcode <= IWARP_OP_TERMINATE ||
           (opcode <= IWARP_OP_ATOMIC_RESPONSE ? s->rfc7306 : s->send_imm);
}

static bool found(struct iwarp_fault *fault, enum iwarp_fault_code code, uint64_t d0, uint64_t d1,
                  uint64_t d2)
{
    iwarp_fault_set(fault, code, IWARP_SIDE_LOCAL, d0, d1, d2);
    return false;
}

/* [DDP-7.1-02] [RDMAP-4.1-01] [RDMAP-4.1-07] [RDMAP-7.2-02] [RDMAP-7.2-03] [RDMAP-7.2-05] */
/* [RDMAP-7.2-06] */
/* [RDMAX-6.3-07] [RDMAX-8.2-02] [RDMAX-8.2-03] [RDMAX-8.2-04] */
bool iwarp_rdmap_check(const struct iwarp_rdmap_segment *s, struct iwarp_fault *fault)
{
    unsigned opcode = s->control & IWARP_RDMAP_OPCODE_MASK;
    const struct iwarp_rdmap_op *op = offered(s, opcode) ? iwarp_rdmap_op(opcode) : &unknown;

    if ((s->control & IWARP_RDMAP_VERSION_MASK) != IWARP_RDMAP_VERSION) {
        return found(fault, IWARP_FAULT_RDMAP_VERSION, (uint64_t)s->control >> 6, 0, 0);
    }
    if (!s->tagged && s->qn > (s->rfc7306 ? IWARP_DDP_QN_ATOMIC_RESP : IWARP_DDP_QN_TERMINATE)) {
        return found(fault, IWARP_FAULT_DDP_QN, s->qn, opcode, op->qn);
    }
    if (op == &unknown && opcode <= IWARP_OP_ATOMIC_RESPONSE) {
        return found(fault, IWARP_FAULT_RDMAP_SWITCHED_OFF, opcode, 0, 0);
    }
    if (!op->name || op->tagged != s->tagged) {
        return found(fault, IWARP_FAULT_RDMAP_OPCODE, opcode, s->ddp_control, 0);
    }
    if (!s->tagged && s->qn != op->qn) {
        return found(fault, IWARP_FAULT_DDP_QN, s->qn, opcode, op->qn);
    }
    if (op->single && !s->last) {
        return found(fault, IWARP_FAULT_RDMAP_NOT_LAST, opcode, 0, 0);
    }
    /* Longer than its buffer is DDP's "message too long"; shorter is a broken RDMAP header. */
    if (s->payload_len < op->header_len || (op->exact && s->payload_len > op->header_len)) {
        return found(fault, IWARP_FAULT_RDMAP_HEADER_LEN, opcode, s->payload_len, op->header_len);
    }
    return true;
}
