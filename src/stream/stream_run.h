/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs of small RDMA Writes, both ways: the one shape of message that comes by the million gets a
 * straight line through what the general way does in many steps. What is not of that shape, or is
 * wrong in any way, is left untouched for the general way, which alone knows faults.
 */
#ifndef IWARP_STREAM_RUN_H
#define IWARP_STREAM_RUN_H

#include "stream/stream.h"

/* Payload of such a Write: at least one octet, and what is copied rather than referred to. */
#define STREAM_RUN_MAX 512

/* Length field, DDP header: what stands in front of the payload. */
#define STREAM_RUN_HEAD (IWARP_MPA_LEN_FIELD + IWARP_DDP_TAGGED_HDR_LEN)

/* Both control octets of a Write in one segment, nothing reserved set; RFC 5041 4.2, RFC 5040 4.2
 */
#define STREAM_RUN_CONTROL                                                                         \
    ((IWARP_DDP_TAGGED | IWARP_DDP_LAST | IWARP_DDP_VERSION) << 8 | IWARP_RDMAP_VERSION |          \
     IWARP_OP_WRITE)

/*
 * Whole FPDUs at the front of the n octets at p, without markers: as many as are such Writes and
 * right in every respect are placed, delivered and counted. Returns the octets of those. Worth
 * calling only if iwarp_stream_run_payload says that the first may be one.
 */
size_t iwarp_stream_take_writes(struct iwarp_stream *s, const uint8_t *p, size_t n);

/*
 * The payload octets of the Write for a run that an FPDU may be of which the n octets at p are the
 * first; 0: it is no such Write. Its length and its control octets say so, nothing else is looked
 * at: a larger Write never enters the loop of a run only to leave it.
 */
static inline uint32_t iwarp_stream_run_payload(const uint8_t *p, size_t n)
{
    if (n <= STREAM_RUN_HEAD + IWARP_MPA_CRC_LEN ||
        iwarp_get_be16(p + IWARP_MPA_LEN_FIELD) != STREAM_RUN_CONTROL) {
        return 0;
    }
    uint32_t payload = iwarp_get_be16(p) - (uint32_t)IWARP_DDP_TAGGED_HDR_LEN;
    return payload <= STREAM_RUN_MAX ? payload
                                     : 0; /* a length field below that of a header wraps */
}

/*
 * The next request may be framed, and no response waits. As many as are such Writes and right are
 * framed into the send block, which has room for one: no further one is begun when it has room no
 * more or `most` octets are there. Returns the number of requests.
 */
unsigned iwarp_stream_frame_writes(struct iwarp_stream *s, uint64_t most);

#endif
