/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the STags in the octets of one direction: those of tagged segments, RDMA Read Requests and
 * Atomic Requests. They are for comments in a recording, so a parser that gives up early is good
 * enough: it stops at a stream with markers, and at octets that are no iWARP. It skips payload. RFC
 * 5044 4 and 7.1, RFC 5041 4, RFC 5040 4.4, RFC 7306 5.2.1.
 *
 * Lock: that of the flow (flow.c). The parser copies what it needs and keeps no pointer.
 */
#ifndef IWARP_CAPTURE_STAGS_H
#define IWARP_CAPTURE_STAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct iwarp_stags {
    bool started;     /* the start-up frame has been read */
    bool over;        /* the parser has given up */
    bool peer_marked; /* the frame asks for markers in the other direction */
    unsigned have;
    uint8_t head[48]; /* of the start-up frame, or of the current FPDU, as far as wanted */
    uint64_t skip;    /* octets to be skipped before the next one is wanted */
};

/* of_sender: the STag names memory of the sender of these octets, and not of their receiver. */
typedef void iwarp_stags_fn(void *arg, uint32_t stag, bool of_sender);

/*
 * Pass on the next len octets of the direction, which are those of iov from octet `skip` on. Calls
 * fn for each STag that is complete with them.
 */
void iwarp_stags_feed(struct iwarp_stags *s, const struct iovec *iov, size_t skip, size_t len,
                      iwarp_stags_fn *fn, void *arg);

#endif
