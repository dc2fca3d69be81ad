/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, memory regions, memory windows, and the STags that name the latter two.
 *
 * Life: a protection domain is counted by its users, and destroyed only without any.  Regions and
 * windows come from one pool of the device.  Destroying one puts it back into the pool; the memory
 * is freed with the device only, since streams look up STags without a lock (ddp/ddp_region.h).
 *
 * Lock: device.lock guards the pool.  Any other change of a region claims it: the claim comes
 * after all locks, and its holder takes none but the claim of the region that a window is bound to.
 */
#ifndef IWARP_VERBS_MR_H
#define IWARP_VERBS_MR_H

#include "ddp/ddp_bind.h"

#include <iwarp/memory.h>

struct iwarp_device;

struct iwarp_pd {
    struct iwarp_device *device;
    _Atomic unsigned users; /* regions, windows, queue pairs and SRQs */
    _Atomic unsigned qps;
};

struct iwarp_mr {
    struct iwarp_region region;
    struct iwarp_pd *pd;
    _Atomic uint32_t stag; /* as it will be after all posted requests that change it */
    struct iwarp_mr *next_free;
};

struct iwarp_mw {
    _Alignas(128) struct iwarp_mr entry; /* an access to it reads one cache line */
};

/* A piece of the pool. */
struct iwarp_mr_chunk {
    struct iwarp_mr_chunk *next;
    struct iwarp_mw *mw;
    unsigned n, used; /* entries, and how many of them were ever taken */
    size_t mapped;    /* octets of the entries' own mapping; 0: they lie behind this */
};

/* --- stag.c ---------------------------------------------------------------------------------- */

/* Free the pool, at the end of the device.  No other thread uses the device any more. */
void iwarp_stag_free_pool(struct iwarp_device *d);

/*
 * Take a region or window from the pool, and draw an STag for it. valid: peers may use the STag at
 * once; else it is reserved until a request makes it valid.  Takes device.lock.
 */
enum iwarp_status iwarp_stag_take(struct iwarp_pd *pd, enum iwarp_region_kind kind,
                                  const struct iwarp_binding *b, bool valid, struct iwarp_mr **out);

/* Make it invalid, and wait for its users.  Returns 0; or how many windows are bound to it, and
 * nothing has changed. */
unsigned iwarp_stag_revoke(struct iwarp_mr *mr);

/* Then put it back into the pool. */
void iwarp_stag_give(struct iwarp_mr *mr);

/* Another key for the same index.  LIMIT: the system has no random octets. */
enum iwarp_status iwarp_stag_fresh_key(struct iwarp_device *d, uint32_t *stag);
enum iwarp_status iwarp_stag_query(struct iwarp_mr *mr, struct iwarp_stag_info *info);

/* --- mr.c ------------------------------------------------------------------------------------ */

/*
 * May memory be registered like this?  Only the numbers are checked: whether the memory exists
 * shows when it is used.
 */
enum iwarp_status iwarp_mr_check(const void *addr, size_t len, uint64_t to_base, unsigned access);

#endif
