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
 * right in every respect are placed, delivered and counted. Returns the octets of those.
 */
size_t iwarp_stream_take_writes(struct iwarp_stream *s, const uint8_t *p, size_t n);

/* May an FPDU of which the n octets at p are the first be such a Write? */
static inline bool iwarp_stream_is_run(const struct iwarp_stream *s, const uint8_t *p, size_t n)
{
    return n > STREAM_RUN_HEAD + IWARP_MPA_CRC_LEN &&
           iwarp_get_be16(p + IWARP_MPA_LEN_FIELD) == STREAM_RUN_CONTROL && !s->config.plain;
}

/*
 * The next request may be framed, and no response waits. As many as are such Writes and right are
 * framed into the send block, which has room for one: no further one is begun when it has room no
 * more or `most` octets are there. Returns the number of requests.
 */
unsigned iwarp_stream_frame_writes(struct iwarp_stream *s, uint64_t most);

#endif
