/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The DDP and RDMAP headers of one segment: RFC 5041 4, RFC 5040 4, RFC 7306 5 and 6. Decodes what
 * was captured and says what breaks a rule; knows nothing of other segments.
 */
#ifndef DISSECTOR_HEADER_H
#define DISSECTOR_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dissect_opcode {
    DISSECT_WRITE = 0,
    DISSECT_READ_REQUEST = 1,
    DISSECT_READ_RESPONSE = 2,
    DISSECT_SEND = 3,
    DISSECT_SEND_INVALIDATE = 4,
    DISSECT_SEND_SE = 5,
    DISSECT_SEND_SE_INVALIDATE = 6,
    DISSECT_TERMINATE = 7,
    DISSECT_IMMEDIATE = 8,
    DISSECT_IMMEDIATE_SE = 9,
    DISSECT_ATOMIC_REQUEST = 10,
    DISSECT_ATOMIC_RESPONSE = 11,
    DISSECT_SEND_IMM = 14,    /* libiwarp's own, for ends that have agreed */
    DISSECT_SEND_SE_IMM = 15, /* the same */
    DISSECT_OPCODES = 16
};

enum {
    DISSECT_TAGGED_SIZE = 14,
    DISSECT_UNTAGGED_SIZE = 18,
    DISSECT_READ_REQUEST_SIZE = 28,
    DISSECT_ATOMIC_REQUEST_SIZE = 52,
    DISSECT_ATOMIC_RESPONSE_SIZE = 12,
    DISSECT_IMMEDIATE_SIZE = 8
};

/* What a header can have wrong, as bits. */
enum dissect_header_fault {
    DISSECT_FAULT_DV = 1,        /* neither 1, nor 0 with revision 0 */
    DISSECT_FAULT_RV = 2,        /* as before, of RDMAP */
    DISSECT_FAULT_OPCODE = 4,    /* 12 and 13 */
    DISSECT_FAULT_TAG = 8,       /* T bit is not that of the opcode */
    DISSECT_FAULT_QUEUE = 16,    /* queue number is not that of the opcode */
    DISSECT_FAULT_LENGTH = 32,   /* too short or too long for the opcode */
    DISSECT_FAULT_LAST = 64,     /* message of one segment without L */
    DISSECT_FAULT_OFFSET = 128,  /* message of one segment with an MO */
    DISSECT_FAULT_RESERVED = 256 /* reserved bits are set */
};

struct dissect_header {
    size_t have;           /* captured octets of the ULPDU */
    uint16_t ulpdu_length; /* as its FPDU says */
    bool tagged, last;
    uint8_t dv, rv, opcode;
    uint8_t ddp_reserved, rdmap_reserved;
    uint32_t stag; /* tagged: STag; untagged: the STag to invalidate, or immediate data */
    uint64_t to;
    uint32_t qn, msn, mo;
    unsigned size;    /* of the DDP header, 14 or 18 */
    uint32_t payload; /* octets behind the DDP header */
    unsigned faults;  /* enum dissect_header_fault */
};

/*
 * Decodes the `have` captured octets of an ULPDU; fields that were not captured are 0. False: not
 * even the two control octets are there.
 */
bool dissect_header_decode(struct dissect_header *h, const uint8_t *p, size_t have,
                           uint16_t ulpdu_length, bool revision_0);

/* Could this be a header at all? All fields of the DDP header were captured and none is wrong. */
bool dissect_header_plausible(const struct dissect_header *h);

bool dissect_opcode_is_send(uint8_t opcode);
bool dissect_opcode_is_tagged(uint8_t opcode);
bool dissect_opcode_invalidates(uint8_t opcode);

/* Is immediate data where other messages have an STag to invalidate? */
bool dissect_opcode_is_send_imm(uint8_t opcode);

/* Header octets of RDMAP behind the DDP header, 0 if there is no header or none of fixed size. */
unsigned dissect_opcode_header_size(uint8_t opcode);

/* Short and long name; never NULL. */
const char *dissect_opcode_name(uint8_t opcode);

struct dissect_read_request {
    uint32_t sink_stag;
    uint64_t sink_to;
    uint32_t length;
    uint32_t source_stag;
    uint64_t source_to;
};

struct dissect_atomic_request {
    uint8_t operation; /* 0 FetchAdd, 2 CmpSwap */
    uint32_t id, stag;
    uint64_t to, data, mask, compare, compare_mask;
};

struct dissect_atomic_response {
    uint32_t id;
    uint64_t value;
};

/* Of the octets behind the DDP header; false if they are not all there. */
bool dissect_read_request_decode(struct dissect_read_request *r, const uint8_t *p, size_t n);
bool dissect_atomic_request_decode(struct dissect_atomic_request *r, const uint8_t *p, size_t n);
bool dissect_atomic_response_decode(struct dissect_atomic_response *r, const uint8_t *p, size_t n);

#endif
