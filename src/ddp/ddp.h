/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DDP receive side: where does the payload of a segment belong? One function answers, after every
 * check of RFC 5041 7.1. Nothing else in the library computes a destination.
 *
 * The caller (the stream) says what kind of sink the message has; DDP keeps the message sequence
 * numbers of the untagged queues and checks MSN, MO, bounds, rights, wrap. No I/O, no copies.
 */
#ifndef IWARP_DDP_H
#define IWARP_DDP_H

#include "base/fault.h"
#include "base/limits.h"
#include "ddp/ddp_region.h"
#include "ddp/ddp_wire.h"

#include <iwarp/verbs.h>
#include <sys/uio.h>

enum iwarp_ddp_sink_kind {
    DDP_SINK_REGION,  /* RDMA Write: the region that the STag names */
    DDP_SINK_READ,    /* RDMA Read Response: the sink of the oldest outstanding RDMA Read */
    DDP_SINK_SGL,     /* Send: the posted receive */
    DDP_SINK_CONTROL, /* all others, as Read Request or Terminate: read where they lie */
    DDP_SINK_NONE     /* untagged, but nothing is posted */
};

struct iwarp_ddp_sink {
    enum iwarp_ddp_sink_kind kind;
    const struct iwarp_sge *sgl; /* SGL: the buffers; READ: one entry, lkey is the sink STag */
    unsigned num_sge;
    uint64_t capacity; /* SGL, CONTROL: octets; READ: octets of the whole RDMA Read */
    uint64_t done;     /* READ: octets that have come */
    const void *pd;    /* SGL: whose memory it names; NULL: the stream's */
};

/* Where the payload goes: entries in order, together the payload's length (none for CONTROL). */
struct iwarp_ddp_target {
    unsigned n;
    struct iovec iov[IWARP_MAX_SGE];
};

struct iwarp_ddp_rx {
    struct iwarp_region_table *regions;
    const void *pd;
    uint32_t qp;               /* number of the stream's queue pair */
    unsigned denied;           /* rights that the queue pair withholds whatever STags say */
    struct iwarp_lends *lends; /* regions that targets of this batch point into; of the caller */
    uint32_t msn[4];           /* next expected, per queue */
    uint32_t mo[4];            /* octets of that message so far */
};

void iwarp_ddp_rx_init(struct iwarp_ddp_rx *rx, struct iwarp_region_table *regions, const void *pd,
                       uint32_t qp);

/* RFC 5041 7.1: the version, in terms of the right error. True if it is 1. */
bool iwarp_ddp_check_version(const struct iwarp_ddp_header *h, struct iwarp_fault *fault);

/*
 * Compute the destination of a segment with len octets of payload. False: *fault says why. On
 * success the regions in *target are lent until iwarp_lends_settle(rx->lends), which the caller
 * does after each batch, and before it calls when fewer than IWARP_MAX_SGE lends are left.
 */
bool iwarp_ddp_place(struct iwarp_ddp_rx *rx, const struct iwarp_ddp_header *h, uint32_t len,
                     const struct iwarp_ddp_sink *sink, struct iwarp_ddp_target *target,
                     struct iwarp_fault *fault);

/* The payload of a placed untagged segment has arrived whole: advance MO, and after the last MSN.
 */
void iwarp_ddp_advance(struct iwarp_ddp_rx *rx, const struct iwarp_ddp_header *h, uint32_t len);

/*
 * Resolve [off, off+len) of a local scatter/gather list into target, for memory with the rights in
 * `access` (0: reading). False: *fault is LOCAL_SGE, or LOCAL_SGE_ACCESS or _BOUNDS. Shared by
 * receives and by the send side. Only SGEs with octets of that range are looked at; of memory to be
 * written, only octets up to its end.
 */
bool iwarp_ddp_resolve(struct iwarp_region_table *regions, struct iwarp_lends *lends,
                       const void *pd, uint32_t qp, const struct iwarp_sge *sgl, unsigned num_sge,
                       uint64_t off, uint64_t len, unsigned access, struct iwarp_ddp_target *target,
                       struct iwarp_fault *fault);

/* Who may do what with a region that is lent; this does not change while it is. */
static inline bool iwarp_ddp_may(const struct iwarp_region *r, const void *pd, uint32_t qp,
                                 unsigned access)
{
    return r->pd == pd && (r->qp == 0 || r->qp == qp) && (r->access & access) == access;
}

/*
 * The place of octets [to, to + len) of a region, or NULL: they do not lie in it. The sum may not
 * reach 2^64 (RFC 5041 7.1).
 */
static inline uint8_t *iwarp_ddp_within(const struct iwarp_region *r, uint64_t to, uint64_t len)
{
    if (len > UINT64_MAX - to || to < r->to_base || to - r->to_base > r->len ||
        len > r->len - (to - r->to_base)) {
        return NULL;
    }
    return r->addr + (to - r->to_base);
}

/*
 * Check a remote access to a region or window that is lent: PD, queue pair, rights, wrap, bounds.
 * Returns the address or NULL.
 */
uint8_t *iwarp_ddp_remote(const struct iwarp_region *r, const void *pd, uint32_t qp, uint32_t stag,
                          uint64_t to, uint64_t len, unsigned access, struct iwarp_fault *fault);

#endif
