/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DDP and RDMAP headers. See header.h.
 */
#include "header.h"

#include "wire.h"

/* One row per opcode: RFC 5040 figure 4, RFC 7306 figure 2; 14 and 15 are libiwarp's own. */
static const struct {
    const char *name;
    bool tagged, single; /* single: always one segment, its size is fixed by `header` */
    uint8_t qn;
    uint8_t header;
} opcodes[DISSECT_OPCODES] = {
    [DISSECT_WRITE] = {"Write", true, false, 0, 0},
    [DISSECT_READ_REQUEST] = {"Read Request", false, true, 1, DISSECT_READ_REQUEST_SIZE},
    [DISSECT_READ_RESPONSE] = {"Read Response", true, false, 0, 0},
    [DISSECT_SEND] = {"Send", false, false, 0, 0},
    [DISSECT_SEND_INVALIDATE] = {"Send with Invalidate", false, false, 0, 0},
    [DISSECT_SEND_SE] = {"Send with SE", false, false, 0, 0},
    [DISSECT_SEND_SE_INVALIDATE] = {"Send with SE and Invalidate", false, false, 0, 0},
    [DISSECT_TERMINATE] = {"Terminate", false, true, 2, 0},
    [DISSECT_IMMEDIATE] = {"Immediate Data", false, true, 0, DISSECT_IMMEDIATE_SIZE},
    [DISSECT_IMMEDIATE_SE] = {"Immediate Data with SE", false, true, 0, DISSECT_IMMEDIATE_SIZE},
    [DISSECT_ATOMIC_REQUEST] = {"Atomic Request", false, true, 1, DISSECT_ATOMIC_REQUEST_SIZE},
    [DISSECT_ATOMIC_RESPONSE] = {"Atomic Response", false, true, 3, DISSECT_ATOMIC_RESPONSE_SIZE},
    [DISSECT_SEND_IMM] = {"Send with Immediate Data", false, false, 0, 0},
    [DISSECT_SEND_SE_IMM] = {"Send with SE and Immediate Data", false, false, 0, 0},
};

bool dissect_opcode_is_send(uint8_t opcode)
{
    return (opcode >= DISSECT_SEND && opcode <= DISSECT_SEND_SE_INVALIDATE) ||
           dissect_opcode_is_send_imm(opcode);
}

bool dissect_opcode_is_tagged(uint8_t opcode)
{
    return opcode < DISSECT_OPCODES && opcodes[opcode].tagged;
}

bool dissect_opcode_invalidates(uint8_t opcode)
{
    return opcode == DISSECT_SEND_INVALIDATE || opcode == DISSECT_SEND_SE_INVALIDATE;
}

bool dissect_opcode_is_send_imm(uint8_t opcode)
{
    return opcode == DISSECT_SEND_IMM || opcode == DISSECT_SEND_SE_IMM;
}

unsigned dissect_opcode_header_size(uint8_t opcode)
{
    return opcode < DISSECT_OPCODES ? opcodes[opcode].header : 0;
}

const char *dissect_opcode_name(uint8_t opcode)
{
    return opcode < DISSECT_OPCODES && opcodes[opcode].name ? opcodes[opcode].name
                                                            : "Reserved opcode";
}

static unsigned length_fault(const struct dissect_header *h)
{
    const unsigned fixed = dissect_opcode_header_size(h->opcode);

    /* No upper bound: siw fills 64 KiB, more than the 64768 octets of RFC 5044 3.2. */
    if (h->ulpdu_length < h->size || (fixed > 0 && h->payload != fixed)) {
        return DISSECT_FAULT_LENGTH;
    }
    /* 4 octets to 52: RFC 5040 4.8. */
    if (h->opcode == DISSECT_TERMINATE && (h->payload < 4 || h->payload > 64)) {
        return DISSECT_FAULT_LENGTH;
    }
    return 0;
}

static unsigned faults(const struct dissect_header *h, bool revision_0)
{
    /* RDMA Consortium has 0 in both; early stacks that say revision 0 have 1 nevertheless. */
    const uint8_t version = revision_0 && (h->dv != 1 || h->rv != 1) ? 0 : 1;
    unsigned bits = 0;

    bits |= h->dv != version ? DISSECT_FAULT_DV : 0;
    bits |= h->rv != version ? DISSECT_FAULT_RV : 0;
    bits |= h->ddp_reserved != 0 || h->rdmap_reserved != 0 ? DISSECT_FAULT_RESERVED : 0;
    bits |= length_fault(h);
    if (!opcodes[h->opcode].name) {
        return bits | DISSECT_FAULT_OPCODE;
    }
    bits |= h->tagged != opcodes[h->opcode].tagged ? DISSECT_FAULT_TAG : 0;
    if (!h->tagged && h->have >= DISSECT_UNTAGGED_SIZE) {
        bits |= h->qn != opcodes[h->opcode].qn ? DISSECT_FAULT_QUEUE : 0;
        bits |= opcodes[h->opcode].single && h->mo != 0 ? DISSECT_FAULT_OFFSET : 0;
    }
    bits |= opcodes[h->opcode].single && !h->last ? DISSECT_FAULT_LAST : 0;
    return bits;
}

bool dissect_header_decode(struct dissect_header *h, const uint8_t *p, size_t have,
                           uint16_t ulpdu_length, bool revision_0)
{
    *h = (struct dissect_header){.have = have, .ulpdu_length = ulpdu_length};
    if (have < 2) {
        return false;
    }
    h->tagged = p[0] & 0x80;
    h->last = p[0] & 0x40;
    h->ddp_reserved = p[0] >> 2 & 15;
    h->dv = p[0] & 3;
    h->rv = p[1] >> 6;
    h->rdmap_reserved = p[1] >> 4 & 3;
    h->opcode = p[1] & 15;
    h->stag = have >= 6 ? wire_u32(p + 2) : 0;
    h->size = h->tagged ? DISSECT_TAGGED_SIZE : DISSECT_UNTAGGED_SIZE;
    if (h->tagged) {
        h->to = have >= 14 ? wire_u64(p + 6) : 0;
    } else {
        h->qn = have >= 10 ? wire_u32(p + 6) : 0;
        h->msn = have >= 14 ? wire_u32(p + 10) : 0;
        h->mo = have >= 18 ? wire_u32(p + 14) : 0;
    }
    h->payload = ulpdu_length > h->size ? ulpdu_length - h->size : 0;
    h->faults = faults(h, revision_0);
    return true;
}

bool dissect_header_plausible(const struct dissect_header *h)
{
    return h->have >= h->size && h->faults == 0;
}

bool dissect_read_request_decode(struct dissect_read_request *r, const uint8_t *p, size_t n)
{
    if (n < DISSECT_READ_REQUEST_SIZE) {
        return false;
    }
    r->sink_stag = wire_u32(p);
    r->sink_to = wire_u64(p + 4);
    r->length = wire_u32(p + 12);
    r->source_stag = wire_u32(p + 16);
    r->source_to = wire_u64(p + 20);
    return true;
}

bool dissect_atomic_request_decode(struct dissect_atomic_request *r, const uint8_t *p, size_t n)
{
    if (n < DISSECT_ATOMIC_REQUEST_SIZE) {
        return false;
    }
    r->operation = p[3] & 15;
    r->id = wire_u32(p + 4);
    r->stag = wire_u32(p + 8);
    r->to = wire_u64(p + 12);
    r->data = wire_u64(p + 20);
    r->mask = wire_u64(p + 28);
    r->compare = wire_u64(p + 36);
    r->compare_mask = wire_u64(p + 44);
    return true;
}

bool dissect_atomic_response_decode(struct dissect_atomic_response *r, const uint8_t *p, size_t n)
{
    if (n < DISSECT_ATOMIC_RESPONSE_SIZE) {
        return false;
    }
    r->id = wire_u32(p);
    r->value = wire_u64(p + 4);
    return true;
}
