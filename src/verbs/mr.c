/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions: registration is an entry in the STag table, deregistration waits until nobody
 * touches the memory. STags are unpredictable (RFC 5042 6.1.1): index and key are random.
 */
#include "base/log.h"
#include "verbs/verbs.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* The STag table in pages of 4 KiB: 15 bits of page, 9 of slot, and 8 of key make an STag. */
#define PAGES      32768u
#define PAGE_SLOTS 512u
#define MIN_PAGES  4096u

/*
 * 32 unpredictable bits; the kernel is asked for many at a time, and gives up to 256 octets whole.
 * Not OpenSSL: it frees its generator at exit while other threads may be here. device.lock held.
 */
static bool random32(struct iwarp_device *d, uint32_t *value)
{
    if (d->random_left < sizeof *value) {
        if (getrandom(d->random, sizeof d->random, 0) != (ssize_t)sizeof d->random) {
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

/* device.lock held. */
static struct iwarp_mr *mr_alloc(struct iwarp_device *d)
{
    if (!d->free_mr) {
        struct iwarp_mr_chunk *chunk = calloc(1, sizeof *chunk);
        if (!chunk) {
            return NULL;
        }
        chunk->next = d->chunks;
        d->chunks = chunk;
        for (size_t i = 0; i < sizeof chunk->mr / sizeof chunk->mr[0]; i++) {
            chunk->mr[i].next_free = d->free_mr;
            d->free_mr = &chunk->mr[i];
        }
    }
    struct iwarp_mr *mr = d->free_mr;
    d->free_mr = mr->next_free;
    return mr;
}

/*
 * The next STag to try: random in its key, its place within a page of the table, and its page;
 * pages are drawn from as many as keep the table at most a quarter full, at least MIN_PAGES. A
 * device that registers and deregisters for ever thus touches 16 MiB of the table, not all of it,
 * and a guess is right with a chance of 2^-29 for each region, or less. device.lock held.
 */
static bool next_stag(struct iwarp_device *d, uint32_t *stag)
{
    uint32_t r;

    if (d->stag_pages == 0) {
        if (!random32(d, &d->stag_factor) || !random32(d, &d->stag_offset)) {
            return false;
        }
        d->stag_pages = MIN_PAGES;
    }
    while (d->stag_pages < PAGES && d->mr_count >= d->stag_pages * (PAGE_SLOTS / 4)) {
        d->stag_pages *= 2;
    }
    if (!random32(d, &r)) {
        return false;
    }
    uint32_t step = PAGES / d->stag_pages, n = (r >> 17) & (d->stag_pages - 1);
    uint32_t page = n * step + ((n * d->stag_factor + d->stag_offset) >> 16) % step;
    *stag = page << 17 | (r & 0x1ffff);
    return true;
}

/* Enter the region under a fresh random STag. device.lock held. */
static enum iwarp_status insert(struct iwarp_device *d, struct iwarp_mr *mr)
{
    uint32_t stag;

    do {
        if (!next_stag(d, &stag)) {
            return iwarp_fail(IWARP_LIMIT, "the kernel has no random octets for an STag: %s",
                              strerror(errno));
        }
    } while (!iwarp_region_insert(&d->regions, &mr->region, stag));
    mr->stag = stag;
    d->mr_count++;
    return IWARP_OK;
}

static enum iwarp_status check(const void *addr, size_t len, unsigned access)
{
    const unsigned all =
        IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE | IWARP_ACCESS_REMOTE_READ;

    if (access & ~all) {
        return iwarp_fail(IWARP_MISUSE, "unknown access rights 0x%x", access & ~all);
    }
    if ((access & IWARP_ACCESS_REMOTE_WRITE) && !(access & IWARP_ACCESS_LOCAL_WRITE)) {
        return iwarp_fail(IWARP_MISUSE, "REMOTE_WRITE needs LOCAL_WRITE");
    }
    if (len > 0 && len - 1 > UINTPTR_MAX - (uintptr_t)addr) {
        return iwarp_fail(IWARP_MISUSE, "%zu octets at %p wrap around the address space", len,
                          addr);
    }
    return IWARP_OK;
}

enum iwarp_status iwarp_mr_register(struct iwarp_pd *pd, void *addr, size_t len, unsigned access,
                                    struct iwarp_mr **out)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(pd) || !IWARP_GIVEN(out)) {
        return IWARP_MISUSE;
    }
    struct iwarp_device *d = pd->device;
    enum iwarp_status status = check(addr, len, access);

    IWARP_ON_LOOP(pd->device);
    if (status != IWARP_OK) {
        return status;
    }
    iwarp_mutex_lock(&d->lock);
    struct iwarp_mr *mr = d->mr_count < d->options.max_regions ? mr_alloc(d) : NULL;
    if (!mr) {
        bool limit = d->mr_count >= d->options.max_regions;
        iwarp_mutex_unlock(&d->lock);
        return limit ? iwarp_fail(IWARP_LIMIT, "device has max_regions (%u) regions already",
                                  d->options.max_regions)
                     : iwarp_fail(IWARP_NO_MEMORY, "no memory for a region");
    }
    mr->pd = pd;
    mr->region.access = access;
    mr->region.pd = pd;
    mr->region.addr = addr;
    mr->region.len = len;
    mr->region.to_base = (uint64_t)(uintptr_t)addr;
    status = insert(d, mr);
    if (status != IWARP_OK) {
        mr->next_free = d->free_mr;
        d->free_mr = mr;
    }
    iwarp_mutex_unlock(&d->lock);
    if (status == IWARP_OK) {
        atomic_fetch_add(&pd->users, 1);
        iwarp_log(IWARP_LOG_DEBUG, "mr", "register: STag 0x%08x, %zu octets at %p, rights 0x%x",
                  mr->stag, len, addr, access);
        *out = mr;
    }
    return status;
}

enum iwarp_status iwarp_mr_deregister(struct iwarp_mr *mr)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(mr)) {
        return IWARP_MISUSE;
    }
    struct iwarp_device *d = mr->pd->device;

    IWARP_ON_LOOP(mr->pd->device);
    iwarp_mutex_lock(&d->lock);
    iwarp_region_revoke(&d->regions, &mr->region);
    iwarp_mutex_unlock(&d->lock);
    /* Loans last for one batch of one stream: microseconds, so yielding first is right. */
    for (unsigned i = 0; iwarp_region_lent(&mr->region); i++) {
        if (i < 100) {
            sched_yield();
        } else {
            nanosleep(&(struct timespec){0, 50000}, NULL);
        }
    }
    iwarp_log(IWARP_LOG_DEBUG, "mr", "deregister: STag 0x%08x", mr->stag);
    atomic_fetch_sub(&mr->pd->users, 1);
    iwarp_mutex_lock(&d->lock);
    d->mr_count--;
    mr->next_free = d->free_mr;
    d->free_mr = mr;
    iwarp_mutex_unlock(&d->lock);
    return IWARP_OK;
}

uint32_t iwarp_mr_stag(const struct iwarp_mr *mr)
{
    return mr->stag;
}

void *iwarp_mr_addr(const struct iwarp_mr *mr)
{
    return mr->region.addr;
}

size_t iwarp_mr_len(const struct iwarp_mr *mr)
{
    return mr->region.len;
}
