/* SPDX-License-Identifier: BSD-2-Clause */
/* The STag table and the lends of a batch. See ddp_region.h for the protocol between the two sides.
 */
#include "ddp/ddp_region.h"

#include "base/pause.h"

#include <assert.h>
#include <sys/mman.h>

#define INDEX_COUNT ((size_t)1 << 24)
#define TABLE_BYTES (INDEX_COUNT * sizeof(_Atomic(struct iwarp_region *)))

bool iwarp_region_table_init(struct iwarp_region_table *table)
{
    void *p = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    table->slot = p == MAP_FAILED ? NULL : p;
    if (p != MAP_FAILED) {
        /* Random indexes touch single words: huge pages would cost 2 MiB for each of them. */
        (void)madvise(p, TABLE_BYTES, MADV_NOHUGEPAGE);
    }
    return table->slot != NULL;
}

void iwarp_region_table_fini(struct iwarp_region_table *table)
{
    if (table->slot) {
        munmap(table->slot, TABLE_BYTES);
        table->slot = NULL;
    }
}

static bool enter(struct iwarp_region_table *table, struct iwarp_region *region, uint32_t stag,
                  bool valid)
{
    uint32_t index = stag >> 8;

    if (index == 0 || atomic_load_explicit(&table->slot[index], memory_order_relaxed)) {
        return false;
    }
    region->index = index;
    region->last_stag = stag;
    region->generation++;
    atomic_store_explicit(&region->stag, valid ? stag : 0, memory_order_release);
    atomic_store_explicit(&table->slot[index], region, memory_order_release);
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
    atomic_store_explicit(&table->slot[region->index], NULL, memory_order_release);
    /* Sequentially consistent against the increment in lend: one side sees the other. */
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
