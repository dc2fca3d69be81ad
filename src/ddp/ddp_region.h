/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The STag table: which memory an STag stands for, and who may use it.
 *
 * Looking a region up takes no lock: raise its lend count, then compare the STag. A thread that
 * revokes a region first clears its STag, then waits until no thread holds it lent; so after
 * revocation no octet of it is touched (RFC 5041 8.3.1, RFC 5042 6.2.2). Regions are never given
 * back to the allocator while the table lives, so a stale pointer is always readable.
 *
 * The table is one array of pointers, at most half of them in use. The low bits of an STag's index,
 * as many as the table's size has, select the entry. So a lookup is the same few instructions for
 * one region and for a million, and two STags that agree in those bits are never valid together.
 * The table grows in place: entries whose next bit is set are copied to the upper half, then the
 * new size is published, then the old copies are cleared. A lookup that misses reads the size once
 * more, and repeats if it has changed.
 *
 * What an STag stands for may change while streams look it up. The thread that changes it claims
 * the region, makes the STag invalid, waits until no thread holds the region lent, writes the
 * fields, and makes the new STag valid. So a thread that holds a region lent never sees its fields
 * change. No thread waits while it holds lends, and none claims two regions at a time, except for a
 * window and then its region.
 *
 * The caller serialises insert and reserve; every other function may run on any thread at any time.
 */
#ifndef IWARP_DDP_REGION_H
#define IWARP_DDP_REGION_H

#include "base/limits.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum iwarp_region_kind {
    REGION_MEMORY,
    REGION_WINDOW_1, /* a window that all queue pairs of its PD may use */
    REGION_WINDOW_2  /* a window of the queue pair that bound it */
};

struct iwarp_region {
    /* What each access looks at comes first, in one cache line if the region begins with one. */
    _Atomic uint32_t lends; /* users of the memory right now */
    _Atomic uint32_t stag;  /* 0: not valid */
    _Atomic enum iwarp_region_kind kind;
    unsigned access; /* enum iwarp_access */
    const void *pd;  /* compared, never followed */
    uint8_t *addr;
    uint64_t len;
    uint64_t to_base;         /* TO of the first octet */
    uint32_t qp;              /* serial of the only queue pair that may use it; 0: all of the PD */
    uint32_t generation;      /* counts what the STag has stood for */
    uint32_t index;           /* of the STag, also after it became invalid */
    uint32_t last_stag;       /* the STag, or what it was when it became invalid */
    _Atomic bool claimed;     /* a thread is changing the region (not its lends) */
    _Atomic unsigned windows; /* valid ones that have this parent */
    struct iwarp_region *parent; /* of a valid window */
    _Atomic unsigned referred;   /* streams whose transports read the memory until it is released */
};

struct iwarp_region_table {
    _Atomic(struct iwarp_region *) *slot; /* 2^24 have addresses, the first mask + 1 are in use */
    _Atomic uint32_t mask;                /* of an STag's index */
    _Atomic bool moving;                  /* entries move, or one is taken out */
    uint32_t used;                        /* entries; while `moving` is held */
};

bool iwarp_region_table_init(struct iwarp_region_table *table);
void iwarp_region_table_fini(struct iwarp_region_table *table);

/*
 * Enter a filled-in region under stag. False if its index is 0, or taken, or agrees with one that
 * is taken in the bits that count; then another one may do.
 */
bool iwarp_region_insert(struct iwarp_region_table *table, struct iwarp_region *region,
                         uint32_t stag);

/* The same, but the STag is not valid yet: ddp_bind.h. */
bool iwarp_region_reserve(struct iwarp_region_table *table, struct iwarp_region *region,
                          uint32_t stag);

/* Make the STag invalid and give its index back. The memory is free once iwarp_region_lent says no.
 */
void iwarp_region_revoke(struct iwarp_region_table *table, struct iwarp_region *region);

/* Only one at a time may change a region. The caller holds no lends. */
void iwarp_region_claim(struct iwarp_region *region);
void iwarp_region_unclaim(struct iwarp_region *region);

/* Wait until nobody holds it lent: the length of an I/O batch. The caller holds no lends. */
void iwarp_region_wait(struct iwarp_region *region);

static inline bool iwarp_region_lent(struct iwarp_region *region)
{
    return atomic_load(&region->lends) != 0;
}

static inline uint32_t iwarp_region_mask(const struct iwarp_region_table *table)
{
    return atomic_load_explicit(&table->mask, memory_order_acquire);
}

/* Where the region of an STag would be in a table of that size. */
static inline _Atomic(struct iwarp_region *) *iwarp_region_slot(
    const struct iwarp_region_table *table, uint32_t stag, uint32_t mask)
{
    return &table->slot[stag >> 8 & mask];
}

/* The region of a valid STag, lent; or NULL. Give it back with iwarp_region_settle. */
/* [VERBS-7.2-01] */
static inline struct iwarp_region *iwarp_region_lend(struct iwarp_region_table *table,
                                                     uint32_t stag)
{
    for (uint32_t mask = iwarp_region_mask(table), was = ~mask; mask != was;) {
        struct iwarp_region *r =
            atomic_load_explicit(iwarp_region_slot(table, stag, mask), memory_order_acquire);
        if (r && stag != 0) { /* 0 is that of regions that are not valid */
            atomic_fetch_add(&r->lends, 1);
            if (atomic_load(&r->stag) == stag) {
                return r;
            }
            atomic_fetch_sub(&r->lends, 1);
        }
        was = mask;
        mask = iwarp_region_mask(table);
    }
    return NULL;
}

/*
 * Hints for a lookup to come: have the table's entry brought into the cache, and later the region
 * that it names. Both take any number for an STag, and neither says anything about it.
 */
static inline void iwarp_region_expect(const struct iwarp_region_table *table, uint32_t stag)
{
    __builtin_prefetch(iwarp_region_slot(table, stag, iwarp_region_mask(table)));
}

static inline void iwarp_region_expect_more(const struct iwarp_region_table *table, uint32_t stag)
{
    const struct iwarp_region *r = atomic_load_explicit(
        iwarp_region_slot(table, stag, iwarp_region_mask(table)), memory_order_relaxed);

    __builtin_prefetch(r, 1);
}

static inline void iwarp_region_settle(struct iwarp_region *region)
{
    atomic_fetch_sub_explicit(&region->lends, 1, memory_order_release);
}

/* --- lends of one I/O batch ------------------------------------------------------------------ */

/*
 * The regions that a stream holds lent during one batch. Segments in a row mostly use the same few
 * regions, so each is lent once per batch only.
 */
struct iwarp_lends {
    unsigned n;
    struct iwarp_region *region[IWARP_MAX_LENDS];
};

/* Find or lend. NULL: not valid. The caller keeps at most IWARP_MAX_LENDS by calling settle. */
struct iwarp_region *iwarp_lends_get(struct iwarp_lends *lends, struct iwarp_region_table *table,
                                     uint32_t stag);
void iwarp_lends_settle(struct iwarp_lends *lends);

#endif
