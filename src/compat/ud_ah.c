/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles: where a queue pair of datagrams is, but for its number. */
#include "compat/gid.h"
#include "compat/ud.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

enum { HOPS_DEFAULT = 64 };

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct compat_ah *ah = calloc(1, sizeof *ah);

    if (!ah) {
        errno = ENOMEM;
        return NULL;
    }
    if (attr->port_num != 1) {
        free(ah);
        (void)iwarp_compat_refuse("verbs", EINVAL, "ibv_create_ah: port %u: there is port 1 alone",
                                  attr->port_num);
        return NULL;
    }
    if (num_path_find("ibv_create_ah", pd->context, attr, &ah->path)) {
        free(ah);
        return NULL;
    }
    ah->ibv.context = pd->context;
    ah->ibv.pd = pd;
    ah->traffic_class = attr->is_global ? attr->grh.traffic_class : 0;
    ah->hop_limit = attr->is_global && attr->grh.hop_limit ? attr->grh.hop_limit : HOPS_DEFAULT;
    return &ah->ibv;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    free(compat_of(ah, struct compat_ah, ibv));
    return 0;
}

/* --- of whoever has sent --------------------------------------------------------------------- */

/* The two addresses in the 40 octets in front of a datagram. False: there are none. */
static bool addresses_of(const struct ibv_grh *grh, union ibv_gid *from, union ibv_gid *to)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    const uint8_t *octets = (const void *)grh;

    if (octets[0] >> 4 == 6) {
        *from = grh->sgid;
        *to = grh->dgid;
        return true;
    }
    memcpy(from->raw, prefix, sizeof prefix);
    memcpy(to->raw, prefix, sizeof prefix);
    memcpy(from->raw + sizeof prefix, octets + 32, 4);
    memcpy(to->raw + sizeof prefix, octets + 36, 4);
    return octets[20] == 0x45;
}

/* Programs answer from the address that was asked; from the first one if it has gone. */
static uint8_t index_of(struct ibv_context *context, const union ibv_gid *gid)
{
    struct compat_addresses list;
    union ibv_gid own;

    iwarp_compat_addresses(iwarp_compat_identity(context->device), &list);
    for (unsigned i = 0; i < iwarp_compat_gids(&list); i++) {
        iwarp_compat_gid_of(&iwarp_compat_gid_at(&list, i)->addr, &own);
        if (memcmp(own.raw, gid->raw, sizeof own.raw) == 0) {
            return (uint8_t)i;
        }
    }
    return 0;
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
                        struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
    union ibv_gid own;

    *attr = (struct ibv_ah_attr){.port_num = port, .is_global = 1, .dlid = wc->slid};
    if (!(wc->wc_flags & IBV_WC_GRH) || !addresses_of(grh, &attr->grh.dgid, &own)) {
        errno = EINVAL;
        return -1;
    }
    attr->grh.sgid_index = index_of(context, &own);
    attr->grh.hop_limit = 0xff;
    return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                     uint8_t port)
{
    struct ibv_ah_attr attr;

    return ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) ? NULL : ibv_create_ah(pd, &attr);
}
