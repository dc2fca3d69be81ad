/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMAP headers, both ways: the control octet and the RDMA Read Request. RFC 5040 4.1 and 4.4. The
 * Terminate message has its own file, rdmap_term.h.
 */
#ifndef IWARP_RDMAP_WIRE_H
#define IWARP_RDMAP_WIRE_H

#include "base/bytes.h"

#include <iwarp/protocol.h>

struct iwarp_rdmap_read_request {
    uint32_t sink_stag;
    uint64_t sink_to;
    uint32_t size;
    uint32_t src_stag;
    uint64_t src_to;
};

/* [RDMAP-3.1-01] [RDMAP-4.1-02] [RDMAP-4.1-05] [RDMAP-4.1-08] */
static inline uint8_t iwarp_rdmap_control(enum iwarp_opcode opcode)
{
    return (uint8_t)(IWARP_RDMAP_VERSION | (unsigned)opcode);
}

/* p holds IWARP_RDMAP_READ_REQUEST_LEN octets. */
static inline void iwarp_rdmap_read_request_get(const uint8_t *p,
                                                struct iwarp_rdmap_read_request *r)
{
    r->sink_stag = iwarp_get_be32(p);
    r->sink_to = iwarp_get_be64(p + 4);
    r->size = iwarp_get_be32(p + 12);
    r->src_stag = iwarp_get_be32(p + 16);
    r->src_to = iwarp_get_be64(p + 20);
}

/* [RDMAP-4.4-01] */
static inline uint32_t iwarp_rdmap_read_request_put(uint8_t *p,
                                                    const struct iwarp_rdmap_read_request *r)
{
    iwarp_put_be32(p, r->sink_stag);
    iwarp_put_be64(p + 4, r->sink_to);
    iwarp_put_be32(p + 12, r->size);
    iwarp_put_be32(p + 16, r->src_stag);
    iwarp_put_be64(p + 20, r->src_to);
    return IWARP_RDMAP_READ_REQUEST_LEN;
}

#endif
