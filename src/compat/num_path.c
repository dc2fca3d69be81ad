/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the peer is whose GID or LID RTR names, and whether a connection comes from there. */
#include "compat/gid.h"
#include "compat/num.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

/* The interface of a link-local GID: that of the end's own GID, or else of its first such one. */
static unsigned scope_of(const struct compat_addresses *list, const struct compat_address *own)
{
    struct sockaddr_in6 in;

    for (unsigned i = 0; i <= list->n; i++) {
        const struct compat_address *a = i == 0 ? own : &list->at[i - 1];
        if (a && a->addr.ss_family == AF_INET6) {
            memcpy(&in, &a->addr, sizeof in);
            if (in.sin6_scope_id) {
                return in.sin6_scope_id;
            }
        }
    }
    return 0;
}

/* The table may be shorter than a program thinks: then its first entry is meant. */
static const struct compat_address *own_address(const struct compat_addresses *list,
                                                const struct ibv_ah_attr *ah)
{
    const struct compat_address *own =
        iwarp_compat_gid_at(list, ah->is_global ? ah->grh.sgid_index : 0);

    return own ? own : &list->at[0];
}

int num_path_find(struct num *n)
{
    const struct ibv_ah_attr *ah = &n->set.ah_attr;
    struct num_path *path = &n->path;
    struct compat_addresses list;

    iwarp_compat_addresses(iwarp_compat_identity(n->qp->ibv.context->device), &list);
    const struct compat_address *own = own_address(&list, ah);
    path->source = own->addr;
    if (ah->is_global) {
        iwarp_compat_addr_of_gid(&ah->grh.dgid, scope_of(&list, own), &path->peer);
    } else if (!iwarp_compat_addr_of_lid(&list, ah->dlid, &path->peer)) {
        return iwarp_compat_refuse(
            "verbs", EINVAL,
            "ibv_modify_qp: LID 0x%04x: a LID is the low half of an IPv4 address, and no host of "
            "this device's network has this one; programs that use GIDs (is_global 1) reach other "
            "networks, too",
            ah->dlid);
    }
    path->here = iwarp_compat_is_here(&path->peer);
    return 0;
}

/* A peer on this host may come from any of its addresses: which one, the kernel and the program at
 * the other end have chosen. */
bool num_path_is_peer(const struct num_path *path, const struct sockaddr_storage *addr)
{
    return path->here ? iwarp_compat_is_here(addr) : iwarp_compat_same_host(&path->peer, addr);
}

void num_path_text(const struct num *n, char *text, size_t size)
{
    char addr[INET6_ADDRSTRLEN] = "?";
    union ibv_gid gid;

    if (n->path.peer.ss_family == AF_INET) {
        iwarp_compat_gid_of(&n->path.peer, &gid);
        (void)inet_ntop(AF_INET, gid.raw + 12, addr, sizeof addr);
    } else {
        iwarp_compat_gid_of(&n->path.peer, &gid);
        (void)inet_ntop(AF_INET6, gid.raw, addr, sizeof addr);
    }
    snprintf(text, size, "queue pair 0x%06x at %s, TCP port %u", n->set.dest_qp_num, addr,
             n->set.dest_qp_num >> 8);
}
