/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What received segments mean: choosing the sink, placing, delivering. Only stream_rx.c, which
 * knows how the octets arrive, uses it.
 */
#ifndef IWARP_STREAM_MSG_H
#define IWARP_STREAM_MSG_H

#include "stream/stream.h"

/*
 * Check a segment's header and compute where its payload goes. False: *fault. The regions are lent
 * until the batch ends.
 */
bool iwarp_stream_target(struct iwarp_stream *s, const struct iwarp_ddp_header *h, uint32_t len,
                         struct iwarp_ddp_target *target, struct iwarp_fault *fault);

/*
 * A check of memory has failed for a segment with this header. If s->fault says that the memory is
 * this end's own (LOCAL_SGE...), or that a receive is too short (DDP_TOO_LONG), the receive or RDMA
 * Read that named it completes with the reason.
 */
void iwarp_stream_blame_sink(struct iwarp_stream *s, const struct iwarp_ddp_header *h);

/* A verified segment of len octets lies at p: check, place, deliver, or hold it until there is a
 * receive. False: s->fault, s->cause. */
bool iwarp_stream_take_segment(struct iwarp_stream *s, const uint8_t *p, uint32_t len);

/*
 * The payload of a segment is in place (or, for control messages, at `control`): account for it
 * and, if it was the last of its message, deliver that. False: s->fault.
 */
bool iwarp_stream_deliver(struct iwarp_stream *s, const struct iwarp_ddp_header *h, uint32_t len,
                          const uint8_t *control);

/* There is a receive for the oldest held segment: place it, deliver. False: s->fault, s->cause. */
bool iwarp_stream_take_held(struct iwarp_stream *s, const struct iwarp_held *held);

/* For a Terminate: a segment of len octets at p is why the stream ends. */
void iwarp_stream_remember_cause(struct iwarp_stream *s, const uint8_t *p, uint32_t len);

#endif
