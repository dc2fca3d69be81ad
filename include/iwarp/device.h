/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices looked at: what one was opened with, which extensions it speaks, and the largest values
 * that its calls take. draft-hilland-rddp-verbs-00 9.2.
 *
 * Sends of all kinds, RDMA Write and Read, shared receive queues, fast registration, invalidation
 * and memory windows of both types are always there. What has no limit here (protection domains,
 * queues, queue pairs) is limited by memory alone.
 */
#ifndef IWARP_DEVICE_H
#define IWARP_DEVICE_H

#include <iwarp/verbs.h>
#include <sys/socket.h>

IWARP_BEGIN_DECLS

/* What depends on the device's options. With rfc7306 OFF both are missing. */
enum iwarp_device_feature {
    /* IMM and WRITE_IMM (RFC 7306 6). */
    IWARP_FEATURE_IMMEDIATE = 1 << 0,
    /* ATOMIC_FETCH_ADD and ATOMIC_CMP_SWAP with their masks (RFC 7306 5), on 8 aligned octets;
     * atomic for all connections of all devices, and for the processor's own atomics. */
    IWARP_FEATURE_ATOMIC = 1 << 1
};

struct iwarp_device_info {
    size_t size; /* set by the caller to sizeof(struct iwarp_device_info) */

    /* As opened; what was DEFAULT is what came of it: progress and rfc7306 are never DEFAULT, and
     * transport is "tcp" or "lwip".
     * max_connections and max_regions (regions and windows together) are limits, too. */
    struct iwarp_device_options options;
    unsigned features; /* enum iwarp_device_feature */

    unsigned max_wr;         /* entries of a send queue, a receive queue, an SRQ */
    unsigned max_sge;        /* pieces of a Send, RDMA Write or receive; an Atomic has one */
    unsigned max_sge_rd;     /* of an RDMA Read; each is one of the Reads at a time, see max_ord */
    unsigned max_inline;     /* octets */
    unsigned max_cq_entries; /* completions in one queue */
    unsigned max_ird, max_ord; /* RDMA Reads and Atomics at a time: the peer's, this end's */
    uint32_t max_message;      /* octets of a Send, RDMA Write or RDMA Read (RFC 5041 5.2) */
    uint64_t max_region;       /* octets */
    unsigned max_private_data; /* octets on the wire; revision 2 takes 4 of them for IRD and ORD */
};

/*
 * Fill in *info, whose size the caller has set: what the device offers, which does not change while
 * the device is open. The peer may offer less: nothing on the wire tells whether it knows RFC 7306.
 * Any thread. MISUSE: another size.
 */
IWARP_API enum iwarp_status iwarp_device_query(const struct iwarp_device *device,
                                               struct iwarp_device_info *info);

/*
 * The address from which connections of the device would reach addr (its port is nobody's). MISUSE:
 * a NULL, or no address of IPv4 or IPv6. TRANSPORT: there is no way there.
 */
IWARP_API enum iwarp_status iwarp_device_source(const struct iwarp_device *device,
                                                const struct sockaddr *addr, socklen_t addr_len,
                                                struct sockaddr_storage *source,
                                                socklen_t *source_len);

IWARP_END_DECLS

#endif
