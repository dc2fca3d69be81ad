/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs of small RDMA Writes, both ways. This one shape of message comes by the million, so it gets
 * a straight line of code in place of the many steps of the general way. A message of another
 * shape, or one that is wrong in any way, is left untouched for the general way, which alone knows
 * faults.
 */
#ifndef IWARP_STREAM_RUN_H
#define IWARP_STREAM_RUN_H

#include "stream/stream.h"

/* Most payload of such a Write, which has at least one octet: it is copied, not referred to. */
#define STREAM_RUN_MAX 512

/* Octets in front of the payload: length field and DDP header. */
#define STREAM_RUN_HEAD (IWARP_MPA_LEN_FIELD + IWARP_DDP_TAGGED_HDR_LEN)

/* Both control octets of a Write in one segment, no reserved bit set (4.2 of RFC 5041 and 5040). */
#define STREAM_RUN_CONTROL                                                                         \
    ((IWARP_DDP_TAGGED | IWARP_DDP_LAST | IWARP_DDP_VERSION) << 8 | IWARP_RDMAP_VERSION |          \
     IWARP_OP_WRITE)

/*
 * Whole FPDUs at the front of the n octets at p, without markers: as many as are such Writes and
 * right in every respect are placed, delivered and counted. Returns the octets of those. Called
 * only where iwarp_stream_run_payload is not 0: the guard of a run has its price.
 */
size_t iwarp_stream_take_writes(struct iwarp_stream *s, const uint8_t *p, size_t n);

/*
 * The n octets at p begin an FPDU. If its length field and its control octets are those of such a
 * Write, returns its payload octets, else 0. The length is looked at so that a larger Write does
 * not enter the loop of a run, and set up its guard, only to leave it.
 */
static inline uint32_t iwarp_stream_run_payload(const uint8_t *p, size_t n)
{
    if (n <= STREAM_RUN_HEAD + IWARP_MPA_CRC_LEN ||
        iwarp_get_be16(p + IWARP_MPA_LEN_FIELD) != STREAM_RUN_CONTROL) {
        return 0;
    }
    /* Too short for a header: this wraps. */
    uint32_t payload = iwarp_get_be16(p) - (uint32_t)IWARP_DDP_TAGGED_HDR_LEN;
    return payload <= STREAM_RUN_MAX ? payload : 0;
}

/*
 * The next request may be framed, and no response waits. As many as are such Writes and right are
 * framed into the send block, which has room for one: no further one is begun when it has room no
 * more or `most` octets are there. Returns the number of requests.
 */
unsigned iwarp_stream_frame_writes(struct iwarp_stream *s, uint64_t most);

#endif
