/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Thread domains and parent domains. Both are hints for a driver: what is made in one is used by
 * one thread at a time, so it may do without locks. Locks of the native objects are rarely waited
 * for, so the hint changes nothing here; but programs that give it expect to get the domain. A
 * parent domain is its protection domain under another name, and cannot outlive it.
 */
#include "compat/compat.h"

#include <errno.h>
#include <stdlib.h>

struct compat_td {
    struct ibv_td ibv;
    _Atomic unsigned users; /* parent domains */
};

static struct compat_td *compat_td(struct ibv_td *td)
{
    return compat_of(td, struct compat_td, ibv);
}

struct ibv_td *iwarp_compat_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    struct compat_td *td;

    if (attr->comp_mask) {
        (void)iwarp_compat_refuse("verbs", EINVAL, "ibv_alloc_td: comp_mask 0x%x, expected 0",
                                  attr->comp_mask);
        return NULL;
    }
    td = calloc(1, sizeof *td);
    if (!td) {
        errno = ENOMEM;
        return NULL;
    }
    td->ibv.context = context;
    return &td->ibv;
}

int iwarp_compat_dealloc_td(struct ibv_td *ibv)
{
    struct compat_td *td = compat_td(ibv);

    if (td->users > 0) {
        return iwarp_compat_refuse("verbs", EBUSY, "ibv_dealloc_td: %u parent domains have it",
                                   td->users);
    }
    free(td);
    return 0;
}

struct ibv_pd *iwarp_compat_alloc_parent_domain(struct ibv_context *context,
                                                struct ibv_parent_domain_init_attr *attr)
{
    /* Allocators are for queues that an adapter reads, of which there are none. */
    const unsigned known =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    struct compat_pd *pd, *of = attr->pd ? compat_pd(attr->pd) : NULL;

    if (!of || of->of || (attr->comp_mask & ~known)) {
        (void)iwarp_compat_refuse("verbs", EINVAL, "ibv_alloc_parent_domain: %s",
                                  !of      ? "there is no protection domain"
                                  : of->of ? "pd is a parent domain itself"
                                           : "there is an unknown bit in comp_mask");
        return NULL;
    }
    pd = calloc(1, sizeof *pd);
    if (!pd) {
        errno = ENOMEM;
        return NULL;
    }
    pd->ibv.context = context;
    pd->native = of->native;
    pd->born = of->born;
    pd->of = of;
    of->parents++;
    pd->td = attr->td;
    if (pd->td) {
        compat_td(pd->td)->users++;
    }
    return &pd->ibv;
}

void iwarp_compat_free_parent_domain(struct compat_pd *pd)
{
    pd->of->parents--;
    if (pd->td) {
        compat_td(pd->td)->users--;
    }
    free(pd);
}
