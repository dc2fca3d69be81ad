/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses of a device as programs for RoCE see them: a table of GIDs, and a LID. A GID is an
 * IPv6 address, or ::ffff:a.b.c.d for IPv4. Programs have 0, 1 or 3 written into them as the index
 * to use, so the first COMPAT_GID_COPIES entries are the same one: the first IPv4 address of the
 * device, or else its first address. Each of its other addresses has one entry behind them.
 *
 * The LID is the low half of that IPv4 address, so a LID names a host in the network of that
 * address. The system is asked each time, since addresses change.
 */
#ifndef IWARP_COMPAT_GID_H
#define IWARP_COMPAT_GID_H

#include "compat/identity.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <sys/socket.h>

enum {
    COMPAT_GID_COPIES = 4,
    COMPAT_MAX_ADDRESSES = 60,
    COMPAT_MAX_GIDS = COMPAT_GID_COPIES - 1 + COMPAT_MAX_ADDRESSES
};

struct compat_address {
    struct sockaddr_storage addr; /* IPv4 or IPv6, port 0 */
    uint32_t mask;                /* IPv4: of its network, in network order */
    unsigned interface;           /* its number */
};

struct compat_addresses {
    unsigned n; /* at least 1 */
    struct compat_address at[COMPAT_MAX_ADDRESSES];
};

/* Of a device, in the order of its GIDs: IPv4, IPv6, link-local ones; loopback only if it has no
 * other. IWARP_ADDR, if set, is its only one. */
void iwarp_compat_addresses(const struct compat_identity *identity, struct compat_addresses *list);

/* The number of GIDs, and the address that has this one; NULL: there is no such entry. */
unsigned iwarp_compat_gids(const struct compat_addresses *list);
const struct compat_address *iwarp_compat_gid_at(const struct compat_addresses *list,
                                                 unsigned index);

void iwarp_compat_gid_of(const struct sockaddr_storage *addr, union ibv_gid *gid);
uint16_t iwarp_compat_lid(const struct compat_addresses *list); /* 0: no IPv4 address */

/* The address of a GID, or of the host with this LID. A link-local one is of the interface
 * `scope`. False: the LID is of no host in the device's network. */
void iwarp_compat_addr_of_gid(const union ibv_gid *gid, unsigned scope,
                              struct sockaddr_storage *addr);
bool iwarp_compat_addr_of_lid(const struct compat_addresses *list, uint16_t lid,
                              struct sockaddr_storage *addr);

/* Does this machine have the address? Any of its interfaces. */
bool iwarp_compat_is_here(const struct sockaddr_storage *addr);

/* The same address, whatever the ports? An IPv4-mapped one is the IPv4 address. */
bool iwarp_compat_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

#endif
