/* SPDX-License-Identifier: BSD-2-Clause */
/* The STag table and the lends of a batch. See ddp_region.h for the protocol between the two sides.
 */
#include "ddp/ddp_region.h"

#include "base/huge.h"
#include "base/pause.h"

#include <assert.h>

#define INDEX_COUNT ((size_t)1 << 24)
#define FIRST_COUNT ((size_t)1 << 12)
#define SLOT_BYTES  sizeof(_Atomic(struct iwarp_region *))
#define TABLE_BYTES (INDEX_COUNT * SLOT_BYTES)

/* Prefetch distance of move_up, in entries. */
#define AHEAD 16u

/* Reserves the address range of the largest table; the kernel gives pages as they are used. */
bool iwarp_region_table_init(struct iwarp_region_table *table)
{
    *table = (struct iwarp_region_table){.mask = FIRST_COUNT - 1};
    table->slot = iwarp_huge_map(TABLE_BYTES);
    if (!table->slot) {
        return false;
    }
    /* No huge pages while the table is small: one would be 2 MiB for a few entries. See grow. */
    (void)madvise(table->slot, TABLE_BYTES, MADV_NOHUGEPAGE);
    return true;
}

void iwarp_region_table_fini(struct iwarp_region_table *table)
{
    if (table->slot) {
        munmap(table->slot, TABLE_BYTES);
        table->slot = NULL;
    }
}

static void begin_move(struct iwarp_region_table *table)
{
    for (unsigned i = 0; atomic_exchange_explicit(&table->moving, true, memory_order_acquire);
         i++) {
        iwarp_pause(i);
    }
}

static void end_move(struct iwarp_region_table *table)
{
    atomic_store_explicit(&table->moving, false, memory_order_release);
}

/* For each entry whose index has the bit `count` set: copy it to the upper half, or, with `clear`,
 * clear it in the lower half. */
static void move_up(struct iwarp_region_table *table, uint32_t count, bool clear)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i + AHEAD < count) { /* regions are scattered: each would be a cache miss */
            const struct iwarp_region *next =
                atomic_load_explicit(&table->slot[i + AHEAD], memory_order_relaxed);
            __builtin_prefetch(next);
        }
        struct iwarp_region *r = atomic_load_explicit(&table->slot[i], memory_order_relaxed);
        if (r && (r->index & count)) {
            atomic_store_explicit(&table->slot[clear ? i : i + count], clear ? NULL : r,
                                  memory_order_release);
        }
    }
}

/* Double the table. The head of ddp_region.h says why no concurrent lookup misses its entry. */
static void grow(struct iwarp_region_table *table)
{
    uint32_t count = iwarp_region_mask(table) + 1;
    size_t size = count * SLOT_BYTES;

    if (size >= IWARP_HUGE_BYTES) {
        (void)madvise(&table->slot[count], size, MADV_HUGEPAGE);
    }
    move_up(table, count, false);
    atomic_store_explicit(&table->mask, 2 * count - 1, memory_order_release);
    move_up(table, count, true);
}

static bool enter(struct iwarp_region_table *table, struct iwarp_region *region, uint32_t stag,
                  bool valid)
{
    uint32_t mask = iwarp_region_mask(table);

    if (stag >> 8 == 0 ||
        atomic_load_explicit(iwarp_region_slot(table, stag, mask), memory_order_relaxed)) {
        return false;
    }
    region->index = stag >> 8;
    region->last_stag = stag;
    region->generation++;
    atomic_store_explicit(&region->stag, valid ? stag : 0, memory_order_release);
    begin_move(table);
    if (table->used > mask / 2 && mask < INDEX_COUNT - 1) {
        grow(table);
        mask = iwarp_region_mask(table);
    }
    table->used++;
    atomic_store_explicit(iwarp_region_slot(table, stag, mask), region, memory_order_release);
    end_move(table);
    return true;
}

/* [DDP-8.3-01] [DDP-8.3.1-05] [RDMAP-8.1.1-04] [VERBS-7.2.1-01] */
bool iwarp_region_insert(struct iwarp_region_table *table, struct iwarp_region *region,
                         uint32_t stag)
{
    return enter(table, region, stag, true);
}

bool iwarp_region_reserve(struct iwarp_region_table *table, struct iwarp_region *region,
                          uint32_t stag)
{
    return enter(table, region, stag, false);
}

/* [DDP-8.3-02] [DDP-8.3.1-07] [RDMAP-8.1.1-06] [SEC-6.2.2-02] */
void iwarp_region_revoke(struct iwarp_region_table *table, struct iwarp_region *region)
{
    begin_move(table);
    table->used--;
    atomic_store_explicit(&table->slot[region->index & iwarp_region_mask(table)], NULL,
                          memory_order_release);
    end_move(table);
    /* Sequentially consistent, as the increment in lend: either the lookup sees that the STag is
     * cleared, or the wait for the lends sees its increment. */
    atomic_store(&region->stag, 0);
}

void iwarp_region_claim(struct iwarp_region *region)
{
    for (unsigned i = 0; atomic_exchange_explicit(&region->claimed, true, memory_order_acquire);
         i++) {
        iwarp_pause(i);
    }
}

void iwarp_region_unclaim(struct iwarp_region *region)
{
    atomic_store_explicit(&region->claimed, false, memory_order_release);
}

void iwarp_region_wait(struct iwarp_region *region)
{
    for (unsigned i = 0; iwarp_region_lent(region); i++) {
        iwarp_pause(i);
    }
}

struct iwarp_region *iwarp_lends_get(struct iwarp_lends *lends, struct iwarp_region_table *table,
                                     uint32_t stag)
{
    for (unsigned i = lends->n; i-- > 0;) {
        struct iwarp_region *r = lends->region[i];
        if (atomic_load_explicit(&r->stag, memory_order_relaxed) == stag && stag != 0) {
            return r;
        }
    }
    assert(lends->n < IWARP_MAX_LENDS);
    struct iwarp_region *r = iwarp_region_lend(table, stag);
    if (r) {
        lends->region[lends->n++] = r;
    }
    return r;
}

void iwarp_lends_settle(struct iwarp_lends *lends)
{
    for (unsigned i = 0; i < lends->n; i++) {
        iwarp_region_settle(lends->region[i]);
    }
    lends->n = 0;
}
