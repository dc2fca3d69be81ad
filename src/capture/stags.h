/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The STags that the octets of one direction name: of each tagged segment, RDMA Read Request and
 * Atomic Request. For remarks in a recording, so it gives up where it would have to be clever:
 * with markers, and with whatever is no iWARP. Payload is not looked at. RFC 5044 4 and 7.1, RFC
 * 5041 4, RFC 5040 4.4, RFC 7306 5.2.1.
 */
#ifndef IWARP_CAPTURE_STAGS_H
#define IWARP_CAPTURE_STAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct iwarp_stags {
    bool started; /* the start-up frame is behind */
    bool over;
    bool peer_marked; /* it asked for markers in the other direction */
    unsigned have;
    uint8_t head[48]; /* of the start-up frame, or of the current FPDU, as far as wanted */
    uint64_t skip;    /* octets that nobody wants */
};

/* of_sender: whose STag it is. */
typedef void iwarp_stags_fn(void *arg, uint32_t stag, bool of_sender);

/* The next len octets of the direction, from octet `skip` of iov on. */
void iwarp_stags_feed(struct iwarp_stags *s, const struct iovec *iov, size_t skip, size_t len,
                      iwarp_stags_fn *fn, void *arg);

#endif
