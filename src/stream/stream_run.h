/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs: the fast path for RDMA Writes in a row, in both directions. One loop replaces the many
 * steps of the general path, and pays for guard, lend and counters once per run instead of once per
 * FPDU. It raises no fault: a segment of another shape, or one that fails any check, is left
 * untouched for the general path, which repeats the check and reports.
 */
#ifndef IWARP_STREAM_RUN_H
#define IWARP_STREAM_RUN_H

#include "mpa/mpa_frame.h"
#include "stream/stream.h"

/* Octets in front of the payload: length field and DDP header. */
#define STREAM_RUN_HEAD (IWARP_MPA_LEN_FIELD + IWARP_DDP_TAGGED_HDR_LEN)

/* Both control octets of a Write of one segment, with no reserved bit set: RFC 5041 4.2, RFC 5040
 * 4.2. All segments of a longer one but the last are without STREAM_RUN_LAST. */
#define STREAM_RUN_LAST ((unsigned)IWARP_DDP_LAST << 8)
#define STREAM_RUN_CONTROL                                                                         \
    ((IWARP_DDP_TAGGED | IWARP_DDP_LAST | IWARP_DDP_VERSION) << 8 | IWARP_RDMAP_VERSION |          \
     IWARP_OP_WRITE)

/*
 * The n octets at p begin with an FPDU, without markers. Places, delivers and counts FPDUs from the
 * front as long as each is whole, of a Write, and passes every check. Returns their octets. Call it
 * only where iwarp_stream_run_payload is not 0: setting up the guard costs more than one small FPDU
 * saves.
 */
size_t iwarp_stream_take_writes(struct iwarp_stream *s, const uint8_t *p, size_t n);

/* Are these the control octets of a segment of a Write? */
static inline bool iwarp_stream_run_control(const uint8_t *control)
{
    return (iwarp_get_be16(control) | STREAM_RUN_LAST) == STREAM_RUN_CONTROL;
}

/*
 * The n octets at p begin an FPDU. If it is whole, and its length field and its control octets are
 * those of a segment of a Write with payload, returns the octets of that, else 0.
 */
static inline uint32_t iwarp_stream_run_payload(const uint8_t *p, size_t n)
{
    if (n <= STREAM_RUN_HEAD + IWARP_MPA_CRC_LEN ||
        !iwarp_stream_run_control(p + IWARP_MPA_LEN_FIELD)) {
        return 0;
    }
    /* Too short for a header: this wraps. */
    const uint32_t ulpdu = iwarp_get_be16(p), payload = ulpdu - (uint32_t)IWARP_DDP_TAGGED_HDR_LEN;
    return payload <= IWARP_MPA_ULPDU_MAX - IWARP_DDP_TAGGED_HDR_LEN &&
                   iwarp_mpa_fpdu_len(ulpdu) <= n
               ? payload
               : 0;
}

/*
 * Called when the next segment of a request may be framed. Frames segments as long as each is of a
 * Write whose segments are copied into the send block, and passes every check. The block has room
 * for one FPDU; the run stops when it has room for no further one, or when `most` octets are
 * framed. It does nothing if a response waits, since requests and responses alternate. True: it has
 * framed some.
 */
bool iwarp_stream_frame_writes(struct iwarp_stream *s, uint64_t most);

#endif
