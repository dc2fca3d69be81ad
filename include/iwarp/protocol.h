/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Constants of the iWARP wire protocol, as the RFCs number them: opcodes, queue numbers, flag bits,
 * header sizes and Terminate codes. Nothing else: no parsing, no types with layout. Third parties
 * (a dissector, a test tool) may include this header alone.
 *
 * RFC 5040 (RDMAP), RFC 5041 (DDP), RFC 5044 and RFC 6581 (MPA), RFC 7306 (RDMA extensions).
 */
#ifndef IWARP_PROTOCOL_H
#define IWARP_PROTOCOL_H

/* MPA start-up frames, RFC 5044 7.1.1: a 16-octet key, flags, revision, private data length. */
#define IWARP_MPA_KEY_LEN          16
#define IWARP_MPA_KEY_REQUEST      "MPA ID Req Frame"
#define IWARP_MPA_KEY_REPLY        "MPA ID Rep Frame"
#define IWARP_MPA_FRAME_HDR_LEN    20
#define IWARP_MPA_PRIVATE_DATA_MAX 512 /* octets, the enhanced words included */
#define IWARP_MPA_FLAG_MARKERS     0x80
#define IWARP_MPA_FLAG_CRC         0x40
#define IWARP_MPA_FLAG_REJECT      0x20
#define IWARP_MPA_FLAG_ENHANCED    0x10 /* "S", RFC 6581 6 */

/* Enhanced connection data, RFC 6581 9: two 16-bit words, flags above a 14-bit depth. */
#define IWARP_MPA_ENHANCED_LEN      4
#define IWARP_MPA_IRD_PEER_TO_PEER  0x8000 /* A */
#define IWARP_MPA_IRD_RTR_SEND      0x4000 /* B */
#define IWARP_MPA_ORD_RTR_WRITE     0x8000 /* C */
#define IWARP_MPA_ORD_RTR_READ      0x4000 /* D */
#define IWARP_MPA_DEPTH_MASK        0x3fff
#define IWARP_MPA_DEPTH_UNSPECIFIED 0x3fff

/* Ready-to-receive messages of peer-to-peer mode, RFC 6581 9.2: not wire values, but names for B,
 * C, D. */
enum iwarp_rtr {
    IWARP_RTR_NONE = 0,
    IWARP_RTR_SEND = 1,  /* B: a Send of length zero, which takes a receive of the responder's */
    IWARP_RTR_WRITE = 2, /* C: an RDMA Write of length zero */
    IWARP_RTR_READ = 4   /* D: an RDMA Read of length zero */
};

/* FPDU framing, RFC 5044 4. */
#define IWARP_MPA_LEN_FIELD      2
#define IWARP_MPA_CRC_LEN        4
#define IWARP_MPA_MARKER_LEN     4
#define IWARP_MPA_MARKER_SPACING 512
#define IWARP_MPA_ULPDU_MAX      64768
#define IWARP_MPA_MULPDU_MIN     128

/* DDP control octet and headers, RFC 5041 4. */
#define IWARP_DDP_TAGGED           0x80
#define IWARP_DDP_LAST             0x40
#define IWARP_DDP_VERSION_MASK     0x03
#define IWARP_DDP_VERSION          0x01
#define IWARP_DDP_TAGGED_HDR_LEN   14
#define IWARP_DDP_UNTAGGED_HDR_LEN 18
#define IWARP_DDP_QN_SEND          0
#define IWARP_DDP_QN_READ_REQUEST  1
#define IWARP_DDP_QN_TERMINATE     2
#define IWARP_DDP_QN_ATOMIC_RESP   3 /* RFC 7306 5 */

/* RDMAP control octet, RFC 5040 4.1. */
#define IWARP_RDMAP_VERSION_MASK 0xc0
#define IWARP_RDMAP_VERSION      0x40
#define IWARP_RDMAP_OPCODE_MASK  0x0f

enum iwarp_opcode {
    IWARP_OP_WRITE = 0x0,
    IWARP_OP_READ_REQUEST = 0x1,
    IWARP_OP_READ_RESPONSE = 0x2,
    IWARP_OP_SEND = 0x3,
    IWARP_OP_SEND_INV = 0x4,
    IWARP_OP_SEND_SE = 0x5,
    IWARP_OP_SEND_SE_INV = 0x6,
    IWARP_OP_TERMINATE = 0x7,
    IWARP_OP_IMMEDIATE = 0x8,    /* RFC 7306 6 */
    IWARP_OP_IMMEDIATE_SE = 0x9, /* RFC 7306 6 */
    IWARP_OP_ATOMIC_REQUEST = 0xa,
    IWARP_OP_ATOMIC_RESPONSE = 0xb,
    /*
     * Of no RFC: a Send whose 4 octets of Immediate Data, big-endian, are where a Send with
     * Invalidate has its STag (octets 2 to 5 of the DDP header, in each segment). 0xf is reserved
     * for experiments, 0xe is not assigned (RFC 6580 3.4). Sent only to peers that have agreed.
     */
    IWARP_OP_SEND_IMM = 0xe,
    IWARP_OP_SEND_SE_IMM = 0xf
};

/* The private data of an MPA Request or Reply ends so if its sender takes part in the agreement on
 * Sends with Immediate Data (IWARP_SEND_IMM_ASK in verbs.h). */
#define IWARP_SEND_IMM_MARK     "SendImm\x01"
#define IWARP_SEND_IMM_MARK_LEN 8

#define IWARP_RDMAP_READ_REQUEST_LEN 28 /* RFC 5040 4.4 */
#define IWARP_RDMAP_IMMEDIATE_LEN    8  /* RFC 7306 6 */
#define IWARP_RDMAP_ATOMIC_REQ_LEN   52 /* RFC 7306 5.2.1 */
#define IWARP_RDMAP_ATOMIC_RESP_LEN  12 /* RFC 7306 5.2.2 */

/* Terminate message, RFC 5040 4.8: control word, then DDP Segment Length and copied headers. */
#define IWARP_TERM_CTRL_LEN 4
#define IWARP_TERM_MAX_LEN  52
#define IWARP_TERM_HDRCT_M  0x80 /* DDP Segment Length is valid */
#define IWARP_TERM_HDRCT_D  0x40 /* DDP header is there */
#define IWARP_TERM_HDRCT_R  0x20 /* RDMAP header is there */

enum iwarp_term_layer { IWARP_TERM_RDMAP = 0, IWARP_TERM_DDP = 1, IWARP_TERM_LLP = 2 };

/* Error types, per layer: RFC 5040 4.8, RFC 5041 7.2, RFC 5044 8. */
#define IWARP_TERM_RDMAP_LOCAL      0
#define IWARP_TERM_RDMAP_PROTECTION 1
#define IWARP_TERM_RDMAP_OPERATION  2
#define IWARP_TERM_DDP_LOCAL        0
#define IWARP_TERM_DDP_TAGGED       1
#define IWARP_TERM_DDP_UNTAGGED     2
#define IWARP_TERM_LLP_MPA          0

#endif
