/* SPDX-License-Identifier: BSD-2-Clause */
/* The STag table and the lends of a batch. See ddp_region.h for the protocol between the two sides.
 */
#include "ddp/ddp_region.h"

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

bool iwarp_region_insert(struct iwarp_region_table *table, struct iwarp_region *region,
                         uint32_t stag)
{
    uint32_t index = stag >> 8;

    if (index == 0 || atomic_load_explicit(&table->slot[index], memory_order_relaxed)) {
        return false;
    }
    region->index = index;
    atomic_store_explicit(&region->stag, stag, memory_order_release);
    atomic_store_explicit(&table->slot[index], region, memory_order_release);
    return true;
}

void iwarp_region_revoke(struct iwarp_region_table *table, struct iwarp_region *region)
{
    atomic_store_explicit(&table->slot[region->index], NULL, memory_order_release);
    /* Sequentially consistent against the increment in lend: one side sees the other. */
    atomic_store(&region->stag, 0);
}

bool iwarp_region_invalidate(struct iwarp_region *region, uint32_t stag)
{
    return stag != 0 && atomic_compare_exchange_strong(&region->stag, &stag, 0);
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
