/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bind, register, invalidate: see ddp_bind.h, and ddp_region.h for the protocol between a change
 * and the lock-free lookups. A valid window counts in its region's `windows`, and a region does not
 * change while that is not zero.
 */
#include "ddp/ddp_bind.h"

static bool found(struct iwarp_fault *fault, enum iwarp_fault_code code, uint64_t d0, uint64_t d1,
                  uint64_t d2)
{
    iwarp_fault_set(fault, code, IWARP_SIDE_LOCAL, d0, d1, d2);
    return false;
}

/*
 * Claim the region with this STag's index, if it belongs to the PD; else NULL. A thread that has
 * claimed a window claims only memory besides (memory_only): two threads that each claimed the
 * other's window would wait for ever. The table may grow meanwhile, so a miss repeats with its new
 * mask.
 */
static struct iwarp_region *claim(const struct iwarp_binder *who, uint32_t stag, bool memory_only)
{
    for (uint32_t mask = iwarp_region_mask(who->regions), was = ~mask; mask != was;) {
        _Atomic(struct iwarp_region *) *slot = iwarp_region_slot(who->regions, stag, mask);
        struct iwarp_region *r = atomic_load_explicit(slot, memory_order_acquire);
        if (r && (!memory_only || atomic_load(&r->kind) == REGION_MEMORY)) {
            iwarp_region_claim(r);
            if (atomic_load_explicit(slot, memory_order_acquire) == r && r->index == stag >> 8 &&
                r->pd == who->pd) {
                return r;
            }
            iwarp_region_unclaim(r);
        }
        was = mask;
        mask = iwarp_region_mask(who->regions);
    }
    return NULL;
}

static bool usable_by(const struct iwarp_region *r, uint32_t qp)
{
    return r->qp == 0 || r->qp == qp;
}

void iwarp_region_fill(struct iwarp_region *r, const void *pd, const struct iwarp_binding *b)
{
    r->pd = pd;
    r->addr = b->addr;
    r->len = b->len;
    r->to_base = b->to_base;
    r->access = b->access;
    r->qp = b->qp;
}

/* [VERBS-7.10.4-01] */
void iwarp_region_end(struct iwarp_region *r)
{
    /* Sequentially consistent, as the increment in lend: either the lookup sees that the STag is
     * cleared, or the wait sees its increment. */
    atomic_store(&r->stag, 0);
    iwarp_region_wait(r);
    if (r->parent) {
        atomic_fetch_sub(&r->parent->windows, 1);
        r->parent = NULL;
    }
}

void iwarp_region_renew(struct iwarp_region *r, const void *pd, const struct iwarp_binding *b)
{
    iwarp_region_end(r);
    iwarp_region_fill(r, pd, b);
    r->last_stag = b->stag;
    r->generation++;
    atomic_store(&r->stag, b->stag);
}

bool iwarp_bind_region(const struct iwarp_binder *who, const struct iwarp_binding *b,
                       struct iwarp_fault *fault)
{
    struct iwarp_region *r = claim(who, b->stag, false);
    bool good = false;

    if (!r) {
        return found(fault, IWARP_FAULT_LOCAL_REGISTER, b->stag, 0, 0);
    }
    if (r->kind != REGION_MEMORY) {
        found(fault, IWARP_FAULT_LOCAL_REGISTER, b->stag, 0, 0);
    } else if (atomic_load(&r->stag) != 0) {
        found(fault, IWARP_FAULT_LOCAL_REGISTER_VALID, b->stag, r->last_stag, 0);
    } else {
        iwarp_region_renew(r, who->pd, b);
        good = true;
    }
    iwarp_region_unclaim(r);
    return good;
}

/* Verbs draft 7.10.6.1: may this window be bound to that region? Both are claimed. */
/* [VERBS-7.10.6.1-01] */
static bool check_parent(const struct iwarp_binder *who, const struct iwarp_region *p,
                         const struct iwarp_binding *b, struct iwarp_fault *fault)
{
    const unsigned changes = IWARP_ACCESS_REMOTE_WRITE | IWARP_ACCESS_REMOTE_ATOMIC;
    uint64_t from = (uint64_t)(uintptr_t)b->addr, start = (uint64_t)(uintptr_t)p->addr;

    if (p->kind != REGION_MEMORY || atomic_load(&p->stag) == 0 || !usable_by(p, who->qp)) {
        return found(fault, IWARP_FAULT_LOCAL_BIND_REGION, b->stag, p->last_stag, 0);
    }
    if (!(p->access & IWARP_ACCESS_MW_BIND) || (p->access & IWARP_ACCESS_ZERO_BASED) ||
        ((b->access & changes) && !(p->access & IWARP_ACCESS_LOCAL_WRITE))) {
        return found(fault, IWARP_FAULT_LOCAL_BIND_ACCESS, b->stag, b->access, p->access);
    }
    if (from < start || from - start > p->len || b->len > p->len - (from - start)) {
        return found(fault, IWARP_FAULT_LOCAL_BIND_BOUNDS, b->stag, from, b->len);
    }
    return true;
}

/* Make a claimed window valid. */
static bool open_window(const struct iwarp_binder *who, struct iwarp_region *w,
                        const struct iwarp_binding *b, struct iwarp_fault *fault)
{
    struct iwarp_region *p = claim(who, b->region, true);

    if (!p) {
        return found(fault, IWARP_FAULT_LOCAL_BIND_REGION, b->stag, b->region, 0);
    }
    bool good = check_parent(who, p, b, fault);
    struct iwarp_binding as = *b;
    if (good) {
        as.to_base =
            b->access & IWARP_ACCESS_ZERO_BASED ? 0 : p->to_base + (uint64_t)(b->addr - p->addr);
        as.qp = w->kind == REGION_WINDOW_2 ? who->qp : p->qp;
        atomic_fetch_add(&p->windows, 1); /* from here on the region cannot change */
    }
    iwarp_region_unclaim(p);
    if (good) {
        iwarp_region_end(w);
        w->parent = p;
        iwarp_region_fill(w, who->pd, &as);
        w->last_stag = b->stag;
        w->generation++;
        atomic_store(&w->stag, b->stag);
    }
    return good;
}

/* [VERBS-7.10.6.1-01] */
bool iwarp_bind_window(const struct iwarp_binder *who, const struct iwarp_binding *b,
                       struct iwarp_fault *fault)
{
    struct iwarp_region *w = claim(who, b->stag, false);
    bool good;

    if (!w) {
        return found(fault, IWARP_FAULT_LOCAL_BIND_WINDOW, b->stag, 0, 0);
    }
    if (w->kind == REGION_MEMORY) {
        good = found(fault, IWARP_FAULT_LOCAL_BIND_WINDOW, b->stag, 0, 0);
    } else if (w->kind == REGION_WINDOW_2 && atomic_load(&w->stag) != 0) {
        good = found(fault, IWARP_FAULT_LOCAL_BIND_VALID, b->stag, w->last_stag, 0);
    } else if (b->len == 0) {
        iwarp_region_end(w);
        w->last_stag = b->stag;
        good = true;
    } else {
        good = open_window(who, w, b, fault);
    }
    iwarp_region_unclaim(w);
    return good;
}

/* [VERBS-7.8-01] [VERBS-7.8-02] */
bool iwarp_bind_invalidate(const struct iwarp_binder *who, uint32_t stag, struct iwarp_fault *fault)
{
    struct iwarp_region *r = claim(who, stag, false);
    bool good = false;

    if (!r) {
        return found(fault, IWARP_FAULT_LOCAL_INVALIDATE, stag, 0, 0);
    }
    bool valid = atomic_load(&r->stag) != 0;
    unsigned windows = atomic_load(&r->windows);
    if (r->last_stag != stag || r->kind == REGION_WINDOW_1 || (valid && !usable_by(r, who->qp))) {
        found(fault, IWARP_FAULT_LOCAL_INVALIDATE, stag, 0, 0);
    } else if (windows > 0) {
        found(fault, IWARP_FAULT_LOCAL_INVALIDATE_BOUND, stag, windows, 0);
    } else {
        iwarp_region_end(r);
        good = true;
    }
    iwarp_region_unclaim(r);
    return good;
}

/* [RDMAP-5.3-12] [RDMAP-7.2-08] [RDMAP-5.3-13] [RDMAP-7.2-07] [RDMAP-8.1.1-07] [SEC-6.4.5-01] */
bool iwarp_bind_invalidate_remote(const struct iwarp_binder *who, uint32_t stag, unsigned sharers,
                                  struct iwarp_fault *fault)
{
    const unsigned remote =
        IWARP_ACCESS_REMOTE_READ | IWARP_ACCESS_REMOTE_WRITE | IWARP_ACCESS_REMOTE_ATOMIC;
    struct iwarp_region *r = claim(who, stag, false);
    bool good = false;

    if (!r) {
        return found(fault, IWARP_FAULT_RDMAP_INVALIDATE, stag, 0, 0);
    }
    unsigned windows = atomic_load(&r->windows);
    if (stag == 0 || atomic_load(&r->stag) != stag || r->kind == REGION_WINDOW_1 ||
        !usable_by(r, who->qp) || !(r->access & remote)) {
        found(fault, IWARP_FAULT_RDMAP_INVALIDATE, stag, 0, 0);
    } else if (r->qp == 0 && sharers > 1) {
        found(fault, IWARP_FAULT_RDMAP_INVALIDATE_SHARED, stag, sharers, 0);
    } else if (windows > 0) {
        found(fault, IWARP_FAULT_RDMAP_INVALIDATE_BOUND, stag, windows, 0);
    } else {
        iwarp_region_end(r);
        good = true;
    }
    iwarp_region_unclaim(r);
    return good;
}
