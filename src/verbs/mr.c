/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions: registration is an entry in the STag table, deregistration waits until nobody
 * touches the memory. Verbs draft 7.3, 7.9. Where STags come from: stag.c; windows: mw.c.
 */
#include "verbs/mr.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/process.h"
#include "ddp/ddp_bind.h"
#include "ddp/ddp_region.h"
#include "verbs/conn_lend.h"
#include "verbs/device.h"
#include "verbs/inject.h"
#include "verbs/qp.h"

/* The TO of an octet is its virtual address by default, as libibverbs has it. */
void iwarp_mr_options_init(struct iwarp_mr_options *options, void *addr, size_t len,
                           unsigned access)
{
    if (!IWARP_GIVEN(options)) {
        return;
    }
    *options = (struct iwarp_mr_options){
        .size = sizeof *options,
        .addr = addr,
        .len = len,
        .access = access,
        .to_base = access & IWARP_ACCESS_ZERO_BASED ? 0 : (uint64_t)(uintptr_t)addr};
}

/*
 * Neither addresses nor TOs may wrap, so bounds are later checked by one subtraction (ddp/ddp.h). A
 * region of length 0 is allowed, and no access to it.
 */
/* [VERBS-7.6.1-01] [VERBS-7.4.2-01] */
enum iwarp_status iwarp_mr_check(const void *addr, size_t len, uint64_t to_base, unsigned access)
{
    const unsigned all = IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE |
                         IWARP_ACCESS_REMOTE_READ | IWARP_ACCESS_REMOTE_ATOMIC |
                         IWARP_ACCESS_MW_BIND | IWARP_ACCESS_ZERO_BASED | IWARP_ACCESS_QP_ONLY;

    if (access & ~all) {
        return iwarp_fail(IWARP_MISUSE, "unknown access rights 0x%x", access & ~all);
    }
    if ((access & IWARP_ACCESS_REMOTE_WRITE) && !(access & IWARP_ACCESS_LOCAL_WRITE)) {
        return iwarp_fail(IWARP_MISUSE, "REMOTE_WRITE needs LOCAL_WRITE");
    }
    if ((access & IWARP_ACCESS_REMOTE_ATOMIC) && !(access & IWARP_ACCESS_LOCAL_WRITE)) {
        return iwarp_fail(IWARP_MISUSE, "REMOTE_ATOMIC needs LOCAL_WRITE");
    }
    if (len > 0 && len - 1 > UINTPTR_MAX - (uintptr_t)addr) {
        return iwarp_fail(IWARP_MISUSE, "%zu octets at %p wrap around the address space", len,
                          addr);
    }
    if (len > 0 && len - 1 > UINT64_MAX - to_base) {
        return iwarp_fail(IWARP_MISUSE, "%zu octets from TO 0x%llx on wrap past 2^64", len,
                          (unsigned long long)to_base);
    }
    return IWARP_OK;
}

/* Check the options, and translate them into what the STag table stores. */
/* [DDP-8.3-01] [DDP-8.3-03] */
static enum iwarp_status binding_of(const struct iwarp_pd *pd, const struct iwarp_mr_options *o,
                                    struct iwarp_binding *b)
{
    if (!o || o->size != sizeof *o) {
        return iwarp_fail(IWARP_MISUSE, "region options: call iwarp_mr_options_init first");
    }
    if ((o->access & IWARP_ACCESS_ZERO_BASED) && o->to_base != 0) {
        return iwarp_fail(IWARP_MISUSE, "region options: ZERO_BASED, but to_base is not 0");
    }
    if ((o->access & IWARP_ACCESS_QP_ONLY) && !o->qp) {
        return iwarp_fail(IWARP_MISUSE, "region options: QP_ONLY, but qp is NULL");
    }
    if (o->qp && o->qp->pd != pd) {
        return iwarp_fail(IWARP_MISUSE,
                          "region options: queue pair %u is of another protection "
                          "domain",
                          o->qp->num);
    }
    *b = (struct iwarp_binding){.addr = o->addr,
                                .len = o->len,
                                .to_base = o->to_base,
                                .access = o->access | (o->qp ? IWARP_ACCESS_QP_ONLY : 0u),
                                .qp = o->qp ? o->qp->serial : 0};
    return iwarp_mr_check(o->addr, o->len, o->to_base, o->access);
}

/*
 * No page is touched or pinned: the cost does not depend on the length. The memory may vanish while
 * it is registered; accesses are guarded (base/guard.h).
 */
enum iwarp_status iwarp_mr_create(struct iwarp_pd *pd, const struct iwarp_mr_options *options,
                                  struct iwarp_mr **mr)
{
    IWARP_UNCANCELLED;
    struct iwarp_binding b;

    if (!IWARP_GIVEN(pd) || !IWARP_GIVEN(mr)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(pd->device);
    enum iwarp_status status = binding_of(pd, options, &b);
    if (status == IWARP_OK && pd->device->injector) {
        status = iwarp_inject_registration(pd->device->injector);
    }
    if (status == IWARP_OK) {
        status = iwarp_stag_take(pd, REGION_MEMORY, &b, true, mr);
    }
    if (status == IWARP_OK) {
        iwarp_log(IWARP_LOG_DEBUG, "mr", "register: STag 0x%08x, %zu octets at %p, rights 0x%x",
                  iwarp_mr_stag(*mr), options->len, options->addr, b.access);
    }
    return status;
}

enum iwarp_status iwarp_mr_register(struct iwarp_pd *pd, void *addr, size_t len, unsigned access,
                                    struct iwarp_mr **mr)
{
    struct iwarp_mr_options o;

    iwarp_mr_options_init(&o, addr, len, access);
    return iwarp_mr_create(pd, &o, mr);
}

/*
 * A region without memory, for REG_MR requests. Its STag is reserved, and peers cannot use it yet.
 */
enum iwarp_status iwarp_mr_alloc(struct iwarp_pd *pd, struct iwarp_mr **mr)
{
    IWARP_UNCANCELLED;
    const struct iwarp_binding nothing = {0};

    if (!IWARP_GIVEN(pd) || !IWARP_GIVEN(mr)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(pd->device);
    enum iwarp_status status = iwarp_stag_take(pd, REGION_MEMORY, &nothing, false, mr);
    if (status == IWARP_OK) {
        iwarp_log(IWARP_LOG_DEBUG, "mr", "allocate: STag 0x%08x", iwarp_mr_stag(*mr));
    }
    return status;
}

/* A region may not go or change under its windows: peers reach its memory by their STags. */
/* [VERBS-7.9-01] */
static enum iwarp_status has_windows(const struct iwarp_mr *mr, unsigned windows)
{
    return iwarp_fail(IWARP_MISUSE,
                      "%u windows are bound to the region with STag 0x%08x: invalidate, bind "
                      "elsewhere or free them first",
                      windows, iwarp_mr_stag(mr));
}

/*
 * The region is claimed during the change: the claim waits until no stream holds it lent, and a
 * stream that looks it up afterwards sees the old STag gone. The key changes, so a peer with the
 * old STag cannot reach the new memory.
 */
enum iwarp_status iwarp_mr_reregister(struct iwarp_mr *mr, struct iwarp_pd *pd,
                                      const struct iwarp_mr_options *options)
{
    IWARP_UNCANCELLED;
    struct iwarp_binding b;

    if (!IWARP_GIVEN(mr)) {
        return IWARP_MISUSE;
    }
    struct iwarp_pd *to = pd ? pd : mr->pd;
    IWARP_ON_LOOP(mr->pd->device);
    if (to->device != mr->pd->device) {
        return iwarp_fail(IWARP_MISUSE, "the protection domain is of another device");
    }
    enum iwarp_status status = binding_of(to, options, &b);
    if (status != IWARP_OK) {
        return status;
    }
    b.stag = iwarp_mr_stag(mr);
    status = iwarp_stag_fresh_key(to->device, &b.stag);
    if (status != IWARP_OK) {
        return status;
    }
    iwarp_region_claim(&mr->region);
    unsigned windows = atomic_load(&mr->region.windows);
    if (windows == 0) {
        iwarp_region_end(&mr->region); /* from here on nobody can bind a window to it */
    }
    iwarp_region_unclaim(&mr->region);
    if (windows > 0) {
        return has_windows(mr, windows);
    }
    iwarp_device_forsake(to->device, &mr->region); /* takes locks: not with a claim */
    iwarp_region_claim(&mr->region);
    iwarp_region_renew(&mr->region, to, &b);
    atomic_store(&mr->stag, b.stag);
    iwarp_region_unclaim(&mr->region);
    atomic_fetch_add(&to->users, 1);
    atomic_fetch_sub(&mr->pd->users, 1);
    mr->pd = to;
    iwarp_log(IWARP_LOG_DEBUG, "mr", "register anew: STag 0x%08x, %zu octets at %p, rights 0x%x",
              b.stag, options->len, options->addr, b.access);
    return IWARP_OK;
}

/*
 * After it has returned, no thread of the library touches the memory. It may wait for one that
 * copies at this moment.
 */
enum iwarp_status iwarp_mr_deregister(struct iwarp_mr *mr)
{
    IWARP_UNCANCELLED;

    if (!IWARP_GIVEN(mr)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(mr->pd->device);
    uint32_t stag = iwarp_mr_stag(mr);
    unsigned windows = iwarp_stag_revoke(mr);
    if (windows > 0) {
        return has_windows(mr, windows);
    }
    iwarp_device_forsake(mr->pd->device, &mr->region);
    iwarp_stag_give(mr);
    iwarp_log(IWARP_LOG_DEBUG, "mr", "deregister: STag 0x%08x", stag);
    return IWARP_OK;
}

/* Atomic, since posting a REG_MR or BIND_MW on another thread changes it. */
uint32_t iwarp_mr_stag(const struct iwarp_mr *mr)
{
    return IWARP_GIVEN(mr) ? atomic_load(&mr->stag) : 0;
}

/*
 * These are read without a claim: only iwarp_mr_reregister and a REG_MR change them, and an
 * application does not ask while it does that. iwarp_mr_query is the way to read them together.
 */
void *iwarp_mr_addr(const struct iwarp_mr *mr)
{
    return IWARP_GIVEN(mr) ? mr->region.addr : NULL;
}

size_t iwarp_mr_len(const struct iwarp_mr *mr)
{
    return IWARP_GIVEN(mr) ? (size_t)mr->region.len : 0;
}

unsigned iwarp_mr_access(const struct iwarp_mr *mr)
{
    return IWARP_GIVEN(mr) ? mr->region.access : 0;
}

uint64_t iwarp_mr_to_base(const struct iwarp_mr *mr)
{
    return IWARP_GIVEN(mr) ? mr->region.to_base : 0;
}

enum iwarp_status iwarp_mr_query(struct iwarp_mr *mr, struct iwarp_stag_info *info)
{
    IWARP_UNCANCELLED;

    if (!IWARP_GIVEN(mr) || !IWARP_GIVEN(info)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(mr->pd->device);
    return iwarp_stag_query(mr, info);
}
