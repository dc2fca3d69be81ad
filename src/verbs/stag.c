/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * STags of a device: drawing them, and the pool of what they name, for regions and windows alike.
 * STags are unpredictable (RFC 5042 6.1.1): index and key are random.
 *
 * A stream looks an STag up without a lock. Hence three rules: an entry's memory is never freed
 * while the device is open; an entry is changed only while it is claimed, which waits for streams
 * that have it lent; and a stream that has lent an entry checks that it still has the STag
 * (ddp/ddp_region.h).
 */
#include "base/fault.h"
#include "base/huge.h"
#include "base/memory.h"
#include "base/mutex.h"
#include "base/virtual.h"
#include "ddp/ddp_bind.h"
#include "ddp/ddp_region.h"
#include "verbs/device.h"
#include "verbs/mr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Regions that are allocated together, and how many make it worth a huge page for the next. */
#define CHUNK 64u
#define MANY  4096u

/*
 * 32 unpredictable bits. The kernel is asked for 256 octets at a time, the most that it gives
 * without a partial result, so one system call serves 64 STags. Not OpenSSL: it frees its generator
 * at exit while other threads may be here. device.lock held.
 */
static bool random32(struct iwarp_device *d, uint32_t *value)
{
    if (d->random_left < sizeof *value) {
        if (!iwarp_random(d->random, sizeof d->random, 0)) {
            return false;
        }
        d->random_left = sizeof d->random;
    }
    d->random_left -= (unsigned)sizeof *value;
    memcpy(value, d->random + d->random_left, sizeof *value);
    /* A used STag is no secret, but the pool's past should not be readable either. */
    memset(d->random + d->random_left, 0, sizeof *value);
    return true;
}

/*
 * There is no weaker generator to fall back to: an STag that can be guessed gives access to memory.
 */
static enum iwarp_status no_random(void)
{
    return iwarp_fail(IWARP_LIMIT, "the kernel has no random octets for an STag: %s",
                      strerror(errno));
}

/*
 * Memory for more entries. Many regions lie in a huge page, since peers use them in any order and
 * each access would miss the TLB; few take little memory. An entry is aligned to its cache lines.
 */
static struct iwarp_mr_chunk *chunk_new(bool many)
{
    const size_t size = sizeof(struct iwarp_mw);
    void *huge = many ? iwarp_huge_map(IWARP_HUGE_BYTES) : NULL;
    struct iwarp_mr_chunk *chunk =
        iwarp_calloc(1, sizeof *chunk + (huge ? 0 : CHUNK * size + _Alignof(struct iwarp_mw)));

    if (!chunk) {
        if (huge) {
            munmap(huge, IWARP_HUGE_BYTES);
        }
        return NULL;
    }
    if (huge) {
        (void)madvise(huge, IWARP_HUGE_BYTES, MADV_HUGEPAGE);
    }
    uintptr_t behind = (uintptr_t)(chunk + 1) + _Alignof(struct iwarp_mw) - 1;
    chunk->mw = huge ? huge : (void *)(behind - behind % _Alignof(struct iwarp_mw));
    chunk->n = huge ? (unsigned)(IWARP_HUGE_BYTES / size) : CHUNK;
    chunk->mapped = huge ? IWARP_HUGE_BYTES : 0;
    return chunk;
}

/*
 * Entries need no end of their own: the application has given back all regions and windows before.
 */
void iwarp_stag_free_pool(struct iwarp_device *d)
{
    while (d->chunks) {
        struct iwarp_mr_chunk *chunk = d->chunks;
        d->chunks = chunk->next;
        if (chunk->mapped > 0) {
            munmap(chunk->mw, chunk->mapped);
        }
        free(chunk);
    }
}

/*
 * Used entries first, then the unused rest of the newest chunk, then a new chunk. device.lock held.
 */
static struct iwarp_mr *pool_take(struct iwarp_device *d)
{
    struct iwarp_mr *mr = d->free_mr;

    if (mr) {
        d->free_mr = mr->next_free;
        return mr;
    }
    if (!d->chunks || d->chunks->used == d->chunks->n) {
        struct iwarp_mr_chunk *chunk = chunk_new(d->mr_count >= MANY);
        if (!chunk) {
            return NULL;
        }
        chunk->next = d->chunks;
        d->chunks = chunk;
    }
    return &d->chunks->mw[d->chunks->used++].entry;
}

/*
 * device.lock held. The memory is never freed while the device is open: a stream may have looked
 * the entry up without a lock, and checks only afterwards that it is still the one.
 */
static void pool_give(struct iwarp_device *d, struct iwarp_mr *mr)
{
    mr->next_free = d->free_mr;
    d->free_mr = mr;
}

/*
 * Enter a filled-in region under a fresh STag, random in all its bits: a guess is right with a
 * chance of 2^-32 for each region. device.lock held.
 */
/* [RDMAP-8.1.1-08] */
static enum iwarp_status enter(struct iwarp_device *d, struct iwarp_mr *mr, bool valid)
{
    bool done;
    uint32_t stag;

    do {
        if (!random32(d, &stag)) {
            return no_random();
        }
        done = valid ? iwarp_region_insert(&d->regions, &mr->region, stag)
                     : iwarp_region_reserve(&d->regions, &mr->region, stag);
    } while (!done);
    atomic_store(&mr->stag, stag);
    d->mr_count++;
    return IWARP_OK;
}

/*
 * The entry is claimed while it is filled: a stream that looked up the STag which the entry had
 * before may read it even now. device.lock held.
 */
static enum iwarp_status fill_and_enter(struct iwarp_pd *pd, struct iwarp_mr *mr,
                                        enum iwarp_region_kind kind, const struct iwarp_binding *b,
                                        bool valid)
{
    iwarp_region_claim(&mr->region);
    mr->pd = pd;
    mr->region.kind = kind;
    iwarp_region_fill(&mr->region, pd, b);
    enum iwarp_status status = enter(pd->device, mr, valid);
    iwarp_region_unclaim(&mr->region);
    return status;
}

/* The error texts are made without the lock. max_regions counts regions and windows alike. */
enum iwarp_status iwarp_stag_take(struct iwarp_pd *pd, enum iwarp_region_kind kind,
                                  const struct iwarp_binding *b, bool valid, struct iwarp_mr **out)
{
    struct iwarp_device *d = pd->device;
    unsigned limit = d->options.max_regions;

    iwarp_mutex_lock(&d->lock);
    bool full = d->mr_count >= limit;
    struct iwarp_mr *mr = full ? NULL : pool_take(d);
    enum iwarp_status status = mr ? fill_and_enter(pd, mr, kind, b, valid) : IWARP_NO_MEMORY;
    if (mr && status != IWARP_OK) {
        pool_give(d, mr);
    }
    iwarp_mutex_unlock(&d->lock);
    if (full) {
        return iwarp_fail(IWARP_LIMIT, "device has max_regions (%u) regions and windows already",
                          limit);
    }
    if (!mr) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a region");
    }
    if (status == IWARP_OK) {
        atomic_fetch_add(&pd->users, 1);
        *out = mr;
    }
    return status;
}

/*
 * The new key is random among the 255 others: a peer that knows the old STag learns nothing about
 * it.
 */
enum iwarp_status iwarp_stag_fresh_key(struct iwarp_device *d, uint32_t *stag)
{
    uint32_t r;

    iwarp_mutex_lock(&d->lock);
    bool good = random32(d, &r);
    iwarp_mutex_unlock(&d->lock);
    if (!good) {
        return no_random();
    }
    *stag = iwarp_stag_with_key(*stag, (uint8_t)(*stag + 1 + r % 255)); /* never the old key */
    return IWARP_OK;
}

/*
 * The claim waits for streams that hold the region lent. The STag is revoked before the entry goes
 * back into the pool, so a peer's next use of it is refused.
 */
/* [SEC-6.2.2-02] [DDP-8.3.1-07] [RDMAP-8.1.1-06] */
unsigned iwarp_stag_revoke(struct iwarp_mr *mr)
{
    struct iwarp_device *d = mr->pd->device;

    iwarp_region_claim(&mr->region);
    unsigned windows = atomic_load(&mr->region.windows);
    if (windows == 0) {
        iwarp_region_revoke(&d->regions, &mr->region);
        iwarp_region_end(&mr->region);
    }
    iwarp_region_unclaim(&mr->region);
    return windows;
}

void iwarp_stag_give(struct iwarp_mr *mr)
{
    struct iwarp_device *d = mr->pd->device;

    atomic_fetch_sub(&mr->pd->users, 1);
    iwarp_mutex_lock(&d->lock);
    d->mr_count--;
    pool_give(d, mr);
    iwarp_mutex_unlock(&d->lock);
}

/* Claimed, so that all values are of one moment. */
enum iwarp_status iwarp_stag_query(struct iwarp_mr *mr, struct iwarp_stag_info *info)
{
    struct iwarp_region *r = &mr->region;

    if (info->size != sizeof *info) {
        return iwarp_fail(IWARP_MISUSE, "STag info: set size to sizeof(struct iwarp_stag_info)");
    }
    iwarp_region_claim(r);
    *info = (struct iwarp_stag_info){.size = sizeof *info,
                                     .stag = r->last_stag,
                                     .valid = atomic_load(&r->stag) != 0,
                                     .access = r->access,
                                     .windows = atomic_load(&r->windows),
                                     .qp_num = r->qp,
                                     .addr = r->addr,
                                     .len = (size_t)r->len,
                                     .to_base = r->to_base};
    iwarp_region_unclaim(r);
    return IWARP_OK;
}
