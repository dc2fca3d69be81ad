/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segments of messages that came before their receives: the list of them, and what they cost. Which
 * segments are held is decided in stream_msg.c, when they are delivered in stream_wait.c.
 */
#ifndef IWARP_STREAM_HOLD_H
#define IWARP_STREAM_HOLD_H

#include "stream/stream.h"

/* One segment of queue 0. It passed every check but for the buffer, and DDP has counted it. */
struct iwarp_held {
    struct iwarp_held *next;
    uint32_t len;
    uint32_t behind;   /* Immediate Data: octets of the RDMA Write directly in front of it */
    uint8_t segment[]; /* header and payload */
};

/*
 * Append a copy of a segment. False: it cannot be held, as there is no memory, or half of the
 * device's budget is in use: the other half is for FPDUs of streams that wait for nothing.
 */
bool iwarp_hold_push(struct iwarp_stream *s, const uint8_t *p, uint32_t len, uint32_t behind);

/* Remove the oldest; free it by iwarp_hold_free. */
struct iwarp_held *iwarp_hold_pop(struct iwarp_stream *s);
void iwarp_hold_free(struct iwarp_stream *s, struct iwarp_held *held);

/* Drop them all. */
void iwarp_hold_clear(struct iwarp_stream *s);

#endif
