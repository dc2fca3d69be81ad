/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * MPA start-up frames and what two of them agree on: RFC 5044 7.1, RFC 6581 6 and 9; revision 129
 * of Alibaba's erdma, whose frames have 28 octets before the private data.
 */
#ifndef DISSECTOR_SETUP_H
#define DISSECTOR_SETUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DISSECT_KEY_SIZE = 16,
    DISSECT_SETUP_SIZE = 20,
    DISSECT_SETUP_SIZE_129 = 28,
    DISSECT_LARGEST_PRIVATE = 512,
    DISSECT_NO_DEPTH = 0x3fff /* RFC 6581 9.1: not negotiated */
};

enum dissect_setup_kind { DISSECT_NO_SETUP, DISSECT_REQUEST, DISSECT_REPLY };

/* How a Request or Reply asks that the first FPDU be (RFC 6581 9.2). */
enum { DISSECT_RTR_SEND = 1, DISSECT_RTR_WRITE = 2, DISSECT_RTR_READ = 4 };

struct dissect_setup {
    enum dissect_setup_kind kind;
    bool markers, crc, rejected, enhanced_flag;
    uint8_t reserved; /* of the flags octet, 4 or 5 bits by revision */
    uint8_t revision;
    uint16_t private_length;     /* as on the wire */
    unsigned size;               /* of what stands before the private data, 20 or 28 */
    uint32_t cookie, congestion; /* revision 129 */

    bool enhanced; /* the four octets of RFC 6581 are there and hold: */
    bool peer_to_peer;
    uint8_t rtr;
    uint16_t ird, ord;
};

/* Is this a start-up frame, as far as its first min(n, 16) octets say? None does for n = 0. */
enum dissect_setup_kind dissect_setup_kind(const uint8_t *p, size_t n);

/* Octets of the whole frame; 0 if too few are here to know. */
size_t dissect_setup_extent(const uint8_t *p, size_t n);

/* False unless at least the 20 octets of the fixed part were captured. */
bool dissect_setup_decode(struct dissect_setup *s, const uint8_t *p, size_t n);

/* What both frames agree on; a side that was not seen is NULL. */
struct dissect_agreement {
    bool complete; /* both seen */
    bool crc_known, crc;
    bool markers_known[2], markers[2]; /* [0] sent by the initiator, [1] by the responder */
    bool revision_0;
    bool rejected;
    bool depths_known;
    uint16_t initiator_ord, responder_ord; /* RDMA Reads that each may have outstanding */
    uint8_t rtr;                           /* of those the initiator offered */
};

void dissect_setup_agree(struct dissect_agreement *a, const struct dissect_setup *request,
                         const struct dissect_setup *reply);

#endif
