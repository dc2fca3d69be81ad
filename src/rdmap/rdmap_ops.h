/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The opcode table: for each RDMA Message its buffer model, queue, header and name; and the check
 * that a segment obeys it. RFC 5040 4.2 (figure 4) and 7.2; RFC 7306 4.2.
 */
#ifndef IWARP_RDMAP_OPS_H
#define IWARP_RDMAP_OPS_H

#include "base/fault.h"

#include <iwarp/protocol.h>

struct iwarp_rdmap_op {
    const char *name; /* NULL: unknown here */
    bool tagged;
    uint8_t qn;         /* untagged */
    uint8_t header_len; /* RDMAP header that must be there whole; 0: ULP payload only */
    bool single;        /* one segment, L set */
    bool exact;         /* the header is all there may be */
};

/* Row of an opcode (0 to 15). */
const struct iwarp_rdmap_op *iwarp_rdmap_op(unsigned opcode);

/* What the check needs to know of a segment, so that RDMAP need not know DDP's types. */
struct iwarp_rdmap_segment {
    uint8_t ddp_control; /* for the text only */
    uint8_t control;     /* RDMAP control octet */
    bool tagged, last;
    uint32_t qn;          /* untagged */
    uint32_t payload_len; /* octets behind the DDP header */
    bool rfc7306;         /* its opcodes are known */
    bool send_imm;        /* Sends with Immediate Data are agreed on */
};

/* Version, opcode, buffer model, queue, header length. False: *fault says why. */
bool iwarp_rdmap_check(const struct iwarp_rdmap_segment *segment, struct iwarp_fault *fault);

#endif
