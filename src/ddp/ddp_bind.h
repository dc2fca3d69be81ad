/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changing what an STag stands for while streams use it: registering memory under an allocated
 * STag, binding windows to regions, invalidating from here and from the peer. Verbs draft 7.8
 * and 7.10, RFC 5040 5.3 and 8.1.1. Each function makes its checks and the change in one step, and
 * has waited for every user of what became invalid when it returns. Nothing else makes an STag
 * valid again.
 *
 * The caller holds no lends. Does not allocate STags, and does not move octets.
 */
#ifndef IWARP_DDP_BIND_H
#define IWARP_DDP_BIND_H

#include "base/fault.h"
#include "ddp/ddp_region.h"

#include <iwarp/verbs.h>

/* Who asks. */
struct iwarp_binder {
    struct iwarp_region_table *regions;
    const void *pd;
    uint32_t qp;
};

/* What an STag is to stand for. */
struct iwarp_binding {
    uint8_t *addr;
    uint64_t len;
    uint64_t to_base; /* of regions; a window's follows from its region */
    unsigned access;
    uint32_t stag;   /* with the new key */
    uint32_t region; /* windows: an STag with the index of the region */
    uint32_t qp;     /* regions: the only queue pair that may use it, or 0 */
};

/* Fill in the fields of a region that is not valid, and is claimed or not in the table. */
void iwarp_region_fill(struct iwarp_region *region, const void *pd, const struct iwarp_binding *b);

/* Make a claimed region stand for something else: wait for its users, fill, and make b->stag valid.
 */
void iwarp_region_renew(struct iwarp_region *region, const void *pd, const struct iwarp_binding *b);

/* Make a claimed region or window invalid, and wait for its users. */
void iwarp_region_end(struct iwarp_region *region);

/* Fast registration: an STag of the PD that is not valid. False: *fault says why not. */
bool iwarp_bind_region(const struct iwarp_binder *who, const struct iwarp_binding *b,
                       struct iwarp_fault *fault);

/*
 * Bind a window: of type 1 whether it is valid or not, of type 2 only while it is invalid. Length 0
 * leaves it invalid.
 */
bool iwarp_bind_window(const struct iwarp_binder *who, const struct iwarp_binding *b,
                       struct iwarp_fault *fault);

/* A local request invalidates; an STag that is invalid already is fine. */
bool iwarp_bind_invalidate(const struct iwarp_binder *who, uint32_t stag,
                           struct iwarp_fault *fault);

/*
 * The peer's Send with Invalidate. sharers is how many queue pairs the PD has: an STag that several
 * streams may use is not the peer's to invalidate (RFC 5040 8.1.1 (7)).
 */
bool iwarp_bind_invalidate_remote(const struct iwarp_binder *who, uint32_t stag, unsigned sharers,
                                  struct iwarp_fault *fault);

#endif
