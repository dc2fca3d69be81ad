/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs: the fast path for small RDMA Writes in a row, in both directions. One loop replaces the
 * many steps of the general path, and pays for guard, lend and counters once per run instead of
 * once per FPDU. It raises no fault: a message of another shape, or one that fails any check, is
 * left untouched for the general path, which repeats the check and reports.
 */
#ifndef IWARP_STREAM_RUN_H
#define IWARP_STREAM_RUN_H

#include "stream/stream.h"

/*
 * A small Write has one segment and from 1 to this many octets of payload, which are copied, not
 * referred to.
 */
#define STREAM_RUN_MAX 512

/* Octets in front of the payload: length field and DDP header. */
#define STREAM_RUN_HEAD (IWARP_MPA_LEN_FIELD + IWARP_DDP_TAGGED_HDR_LEN)

/* Both control octets of a Write of one segment, with no reserved bit set: RFC 5041 4.2, RFC 5040
 * 4.2. */
#define STREAM_RUN_CONTROL                                                                         \
    ((IWARP_DDP_TAGGED | IWARP_DDP_LAST | IWARP_DDP_VERSION) << 8 | IWARP_RDMAP_VERSION |          \
     IWARP_OP_WRITE)

/*
 * The n octets at p begin with an FPDU, without markers. Places, delivers and counts FPDUs from the
 * front as long as each is whole, a small Write, and passes every check. Returns their octets. Call
 * it only where iwarp_stream_run_payload is not 0: setting up the guard costs more than one small
 * FPDU saves.
 */
size_t iwarp_stream_take_writes(struct iwarp_stream *s, const uint8_t *p, size_t n);

/*
 * The n octets at p begin an FPDU. If its length field and its control octets are those of a small
 * Write, returns its payload octets, else 0. The length is part of the test so that a larger Write
 * does not set up the guard of a run for nothing.
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
 * Called when the next request may be framed. Frames requests as long as each is a small Write and
 * passes every check. The send block has room for one FPDU; the run stops when it has room for no
 * further one, or when `most` octets are framed. It does nothing if a response waits, since
 * requests and responses alternate. Returns the number of requests.
 */
unsigned iwarp_stream_frame_writes(struct iwarp_stream *s, uint64_t most);

#endif
