/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DDP segment headers, both ways. RFC 5041 4.1 to 4.3. Decoding checks only that the header is
 * whole: whether its values are legal is the business of ddp_place.c and of RDMAP.
 */
#ifndef IWARP_DDP_WIRE_H
#define IWARP_DDP_WIRE_H

#include "base/bytes.h"

#include <iwarp/protocol.h>
#include <stdbool.h>
#include <stddef.h>

struct iwarp_ddp_header {
    uint8_t control;     /* first octet as received */
    uint8_t ulp_control; /* second octet: RsvdULP, the RDMAP control octet */
    bool tagged, last;
    uint32_t stag;        /* tagged: STag; untagged: RsvdULP[8:39], the Invalidate STag */
    uint64_t to;          /* tagged */
    uint32_t qn, msn, mo; /* untagged */
};

static inline uint32_t iwarp_ddp_header_len(uint8_t control)
{
    return control & IWARP_DDP_TAGGED ? IWARP_DDP_TAGGED_HDR_LEN : IWARP_DDP_UNTAGGED_HDR_LEN;
}

/* p holds at least iwarp_ddp_header_len(p[0]) octets. Reserved bits are ignored (RFC 5041 4.1). */
/* [DDP-4.1-09] [DDP-4.2-03] [DDP-4.2-08] [DDP-4.3-03] [DDP-5.4-03] */
static inline void iwarp_ddp_header_get(const uint8_t *p, struct iwarp_ddp_header *h)
{
    h->control = p[0];
    h->ulp_control = p[1];
    h->tagged = (p[0] & IWARP_DDP_TAGGED) != 0;
    h->last = (p[0] & IWARP_DDP_LAST) != 0;
    h->stag = iwarp_get_be32(p + 2);
    if (h->tagged) {
        h->to = iwarp_get_be64(p + 6);
        h->qn = h->msn = h->mo = 0;
    } else {
        h->to = 0;
        h->qn = iwarp_get_be32(p + 6);
        h->msn = iwarp_get_be32(p + 10);
        h->mo = iwarp_get_be32(p + 14);
    }
}

/* Write a header for this version of DDP; control is not looked at. Returns its length. */
/* [MPA-3-12] [MPA-C.1-01] [DDP-4.1-10] [DDP-4.1-08] [DDP-4.2-01] [DDP-4.3-01] [DDP-4.4-01] */
static inline uint32_t iwarp_ddp_header_put(uint8_t *p, const struct iwarp_ddp_header *h)
{
    p[0] = (uint8_t)((h->tagged ? IWARP_DDP_TAGGED : 0) | (h->last ? IWARP_DDP_LAST : 0) |
                     IWARP_DDP_VERSION);
    p[1] = h->ulp_control;
    iwarp_put_be32(p + 2, h->stag);
    if (h->tagged) {
        iwarp_put_be64(p + 6, h->to);
        return IWARP_DDP_TAGGED_HDR_LEN;
    }
    iwarp_put_be32(p + 6, h->qn);
    iwarp_put_be32(p + 10, h->msn);
    iwarp_put_be32(p + 14, h->mo);
    return IWARP_DDP_UNTAGGED_HDR_LEN;
}

#endif
