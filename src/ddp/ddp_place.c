/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one place that computes destinations, and the checks that stand before it: RFC 5041 7.1 for
 * segments, RFC 5040 5.2 for RDMA Read sources, local rights for scatter/gather lists.
 *
 * All arithmetic is unsigned 64-bit; lengths are compared before anything is subtracted from them.
 */
#include "ddp/ddp.h"

#include <assert.h>

/* [DDP-4.3-09] */
void iwarp_ddp_rx_init(struct iwarp_ddp_rx *rx, struct iwarp_region_table *regions, const void *pd,
                       uint32_t qp)
{
    rx->qp = qp;
    rx->denied = 0;
    rx->regions = regions;
    rx->pd = pd;
    rx->lends = NULL;
    for (unsigned qn = 0; qn < 4; qn++) {
        rx->msn[qn] = 1; /* RFC 5041 4.3 */
        rx->mo[qn] = 0;
    }
}

static bool found(struct iwarp_fault *fault, enum iwarp_fault_code code, uint64_t d0, uint64_t d1,
                  uint64_t d2)
{
    iwarp_fault_set(fault, code, IWARP_SIDE_LOCAL, d0, d1, d2);
    return false;
}

/* [DDP-4.1-11] */
bool iwarp_ddp_check_version(const struct iwarp_ddp_header *h, struct iwarp_fault *fault)
{
    unsigned version = h->control & IWARP_DDP_VERSION_MASK;

    if (version == IWARP_DDP_VERSION) {
        return true;
    }
    return found(fault,
                 h->tagged ? IWARP_FAULT_DDP_TAGGED_VERSION : IWARP_FAULT_DDP_UNTAGGED_VERSION,
                 version, 0, 0);
}

/* Placement (RFC 5041 7.1), RDMA Read sources (RFC 5040 5.2) and targets of Atomics (RFC 7306) go
 * through the same checks; only the codes that a Terminate reports differ. */
struct remote_faults {
    enum iwarp_fault_code stream, qp, access, wrap, bounds;
};
static const struct remote_faults write_faults = {IWARP_FAULT_DDP_STAG_STREAM,
                                                  IWARP_FAULT_DDP_STAG_QP, IWARP_FAULT_DDP_ACCESS,
                                                  IWARP_FAULT_DDP_TO_WRAP, IWARP_FAULT_DDP_BOUNDS};
static const struct remote_faults read_faults = {
    IWARP_FAULT_RDMAP_STAG_STREAM, IWARP_FAULT_RDMAP_STAG_QP, IWARP_FAULT_RDMAP_ACCESS,
    IWARP_FAULT_RDMAP_TO_WRAP, IWARP_FAULT_RDMAP_BOUNDS};
static const struct remote_faults atomic_faults = {
    IWARP_FAULT_ATOMIC_STAG_STREAM, IWARP_FAULT_ATOMIC_STAG_QP, IWARP_FAULT_ATOMIC_ACCESS,
    IWARP_FAULT_ATOMIC_TO_WRAP, IWARP_FAULT_ATOMIC_BOUNDS};

/* [DDP-4.2-06] [DDP-7.1-09] [DDP-8.2-01] [DDP-8.3.1-02] [RDMAP-8.1.1-01] [SEC-6.1.1-02] */
/* [DDP-7.1-10] [DDP-7.1-11] [DDP-7.1-12] [DDP-8.3.1-04] [RDMAP-8.1.1-03] [SEC-6.2.1-01] */
/* [VERBS-7.6.3-01] [DDP-7.1-13] [DDP-8.2-02] [DDP-8.2-04] [DDP-8.3-03] [DDP-8.3.1-03] */
/* [RDMAP-8.1.1-02] [SEC-6.1.1-03] [SEC-6.1.1-01] [DDP-8.3.1-06] [RDMAP-8.1.1-05] [SEC-6.3.5-01] */
/* [RDMAP-7.2-10] [RDMAP-7.2-11] [RDMAP-7.2-12] [RDMAP-7.2-13] [VERBS-7.10.6.2-01] */
/* [VERBS-7.10.6.2-02] [VERBS-8.1.2.2-02] */
uint8_t *iwarp_ddp_remote(const struct iwarp_region *r, const void *pd, uint32_t qp, uint32_t stag,
                          uint64_t to, uint64_t len, unsigned access, struct iwarp_fault *fault)
{
    const struct remote_faults *f = access == IWARP_ACCESS_REMOTE_READ     ? &read_faults
                                    : access == IWARP_ACCESS_REMOTE_ATOMIC ? &atomic_faults
                                                                           : &write_faults;

    assert(len > 0);
    uint8_t *p = iwarp_ddp_may(r, pd, qp, access) ? iwarp_ddp_within(r, to, len) : NULL;
    if (p) {
        return p;
    }
    if (r->pd != pd) {
        found(fault, f->stream, stag, 0, 0);
    } else if (r->qp != 0 && r->qp != qp) { /* RFC 5041 8.3.1 (2) */
        found(fault, f->qp, stag, r->qp, qp);
    } else if ((r->access & access) != access) {
        found(fault, f->access, stag, r->access, 0);
    } else if (len > UINT64_MAX - to) { /* RFC 5041 7.1: the sum may not be 2^64 either */
        found(fault, f->wrap, stag, to, len);
    } else {
        found(fault, f->bounds, stag, to, len);
    }
    return NULL;
}

static uint8_t *wrong_sge(struct iwarp_fault *fault, enum iwarp_fault_code code,
                          const struct iwarp_sge *sge)
{
    found(fault, code, sge->lkey, (uint64_t)(uintptr_t)sge->addr, sge->len);
    return NULL;
}

/* A piece of a local SGE. Its lkey must name memory of this PD with the rights: a window gives
 * rights to peers only. NULL: *fault says why. */
static uint8_t *local_piece(struct iwarp_region_table *regions, struct iwarp_lends *lends,
                            const void *pd, uint32_t qp, const struct iwarp_sge *sge, uint64_t off,
                            uint64_t len, unsigned access, struct iwarp_fault *fault)
{
    struct iwarp_region *r = iwarp_lends_get(lends, regions, sge->lkey);
    uint64_t to = (uint64_t)(uintptr_t)sge->addr;

    if (!r || r->pd != pd || (r->qp != 0 && r->qp != qp) || r->kind != REGION_MEMORY) {
        return wrong_sge(fault, IWARP_FAULT_LOCAL_SGE, sge);
    }
    if ((r->access & access) != access) {
        return wrong_sge(fault, IWARP_FAULT_LOCAL_SGE_ACCESS, sge);
    }
    /*
     * What is read is the whole SGE, so the whole SGE has to lie in the region: otherwise a wrong
     * request would fail after its first segments were sent. What is written may be less: a message
     * may be shorter than its receive, so the SGE is checked up to the last octet that is placed.
     */
    assert(off <= sge->len && len <= sge->len - off);
    uint64_t end = access & IWARP_ACCESS_LOCAL_WRITE ? off + len : sge->len;
    if (to < r->to_base || to - r->to_base > r->len || end > r->len - (to - r->to_base)) {
        return wrong_sge(fault, IWARP_FAULT_LOCAL_SGE_BOUNDS, sge);
    }
    return r->addr + (to - r->to_base) + off;
}

/* [VERBS-8.1.3.2-02] */
bool iwarp_ddp_resolve(struct iwarp_region_table *regions, struct iwarp_lends *lends,
                       const void *pd, uint32_t qp, const struct iwarp_sge *sgl, unsigned num_sge,
                       uint64_t off, uint64_t len, unsigned access, struct iwarp_ddp_target *target,
                       struct iwarp_fault *fault)
{
    target->n = 0;
    for (unsigned i = 0; i < num_sge && len > 0; i++) {
        if (off >= sgl[i].len) {
            off -= sgl[i].len;
            continue;
        }
        uint64_t n = sgl[i].len - off < len ? sgl[i].len - off : len;
        uint8_t *p = local_piece(regions, lends, pd, qp, &sgl[i], off, n, access, fault);
        if (!p) {
            return false;
        }
        assert(target->n < IWARP_MAX_SGE);
        target->iov[target->n++] = (struct iovec){p, (size_t)n};
        len -= n;
        off = 0;
    }
    assert(len == 0);
    return true;
}

/* RDMA Write. Zero length: neither STag nor TO may be checked (RFC 5041 5.2). */
/* [DDP-4.1-01] [DDP-5.2-05] [DDP-5.2-10] [DDP-5.2-11] [VERBS-7.10.6.2-03] [DDP-7.1-08] */
static bool place_write(struct iwarp_ddp_rx *rx, const struct iwarp_ddp_header *h, uint32_t len,
                        struct iwarp_ddp_target *target, struct iwarp_fault *fault)
{
    target->n = 0;
    if (len == 0) {
        return true;
    }
    if (rx->denied & IWARP_ACCESS_REMOTE_WRITE) {
        return found(fault, IWARP_FAULT_DDP_QP_ACCESS, h->stag, rx->denied, 0);
    }
    struct iwarp_region *r = iwarp_lends_get(rx->lends, rx->regions, h->stag);
    if (!r) {
        return found(fault, IWARP_FAULT_DDP_STAG_INVALID, h->stag, 0, 0);
    }
    uint8_t *p =
        iwarp_ddp_remote(r, rx->pd, rx->qp, h->stag, h->to, len, IWARP_ACCESS_REMOTE_WRITE, fault);
    if (!p) {
        return false;
    }
    target->n = 1;
    target->iov[0] = (struct iovec){p, len};
    return true;
}

/* Each segment of a Read Response must begin where the one before ended, and the last must end
 * where the RDMA Read ends. */
static bool place_response(struct iwarp_ddp_rx *rx, const struct iwarp_ddp_header *h, uint32_t len,
                           const struct iwarp_ddp_sink *sink, struct iwarp_ddp_target *target,
                           struct iwarp_fault *fault)
{
    uint64_t left = sink->capacity - sink->done;

    target->n = 0;
    if (len > left || h->last != (len == left)) {
        return found(fault, IWARP_FAULT_READ_RESPONSE_BOUNDS, h->to, len, left);
    }
    if (len == 0) {
        return true;
    }
    if (h->stag != sink->sgl->lkey) {
        return found(fault, IWARP_FAULT_READ_RESPONSE_STAG, h->stag, sink->sgl->lkey, 0);
    }
    if (h->to != (uint64_t)(uintptr_t)sink->sgl->addr + sink->done) {
        return found(fault, IWARP_FAULT_READ_RESPONSE_BOUNDS, h->to, len, left);
    }
    return iwarp_ddp_resolve(rx->regions, rx->lends, rx->pd, rx->qp, sink->sgl, 1, sink->done, len,
                             IWARP_ACCESS_LOCAL_WRITE, target, fault);
}

/* RFC 5041 7.1, untagged: MSN in order, MO in order, a buffer posted, the message fits. */
/* [DDP-4.1-02] [DDP-7.1-01] [DDP-7.1-03] [DDP-7.1-05] [DDP-7.1-06] [VERBS-8.1.2.1-01] */
/* [DDP-7.1-07] [RDMAP-7.2-04] [RDMAX-8.2-02] [RDMAX-6.3-03] [RDMAP-5.4-03] */
static bool place_untagged(struct iwarp_ddp_rx *rx, const struct iwarp_ddp_header *h, uint32_t len,
                           const struct iwarp_ddp_sink *sink, struct iwarp_ddp_target *target,
                           struct iwarp_fault *fault)
{
    target->n = 0;
    assert(h->qn < sizeof rx->msn / sizeof *rx->msn); /* the caller has checked it for the opcode */
    if (h->msn != rx->msn[h->qn]) {
        return found(fault, IWARP_FAULT_DDP_MSN, h->qn, h->msn, rx->msn[h->qn]);
    }
    if (h->mo != rx->mo[h->qn]) {
        return found(fault, IWARP_FAULT_DDP_MO, h->msn, h->mo, rx->mo[h->qn]);
    }
    if (sink->kind == DDP_SINK_NONE) {
        return found(fault, IWARP_FAULT_DDP_NO_BUFFER, h->qn, h->msn, 0);
    }
    if ((uint64_t)h->mo + len > sink->capacity) {
        return found(fault, IWARP_FAULT_DDP_TOO_LONG, h->msn, (uint64_t)h->mo + len,
                     sink->capacity);
    }
    if (len == 0 || sink->kind == DDP_SINK_CONTROL) {
        return true;
    }
    const void *pd = sink->pd ? sink->pd : rx->pd;
    return iwarp_ddp_resolve(rx->regions, rx->lends, pd, rx->qp, sink->sgl, sink->num_sge, h->mo,
                             len, IWARP_ACCESS_LOCAL_WRITE, target, fault);
}

bool iwarp_ddp_place(struct iwarp_ddp_rx *rx, const struct iwarp_ddp_header *h, uint32_t len,
                     const struct iwarp_ddp_sink *sink, struct iwarp_ddp_target *target,
                     struct iwarp_fault *fault)
{
    switch (sink->kind) {
    case DDP_SINK_REGION:
        return place_write(rx, h, len, target, fault);
    case DDP_SINK_READ:
        return place_response(rx, h, len, sink, target, fault);
    case DDP_SINK_SGL:
    case DDP_SINK_CONTROL:
    case DDP_SINK_NONE:
        break;
    }
    return place_untagged(rx, h, len, sink, target, fault);
}

/* [DDP-4.3-10] */
void iwarp_ddp_advance(struct iwarp_ddp_rx *rx, const struct iwarp_ddp_header *h, uint32_t len)
{
    if (h->tagged) {
        return;
    }
    rx->mo[h->qn] += len;
    if (h->last) {
        rx->msn[h->qn]++; /* wraps to 0 after 0xffffffff, RFC 5041 4.3 */
        rx->mo[h->qn] = 0;
    }
}
