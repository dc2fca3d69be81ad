/* SPDX-License-Identifier: BSD-2-Clause */
/* See gid.h; and the calls of libibverbs that ask for GIDs. */
#include "compat/gid.h"

#include "base/process.h"
#include "compat/compat.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

/* --- the list -------------------------------------------------------------------------------- */

enum rank { RANK_V4, RANK_V6, RANK_LOCAL, RANK_LOOPBACK, RANK_NONE };

static struct sockaddr_in in4(const void *addr)
{
    struct sockaddr_in in;

    memcpy(&in, addr, sizeof in);
    return in;
}

static struct sockaddr_in6 in6(const void *addr)
{
    struct sockaddr_in6 in;

    memcpy(&in, addr, sizeof in);
    return in;
}

static enum rank rank_of(const struct ifaddrs *a, const char *interface)
{
    bool loopback = a->ifa_flags & IFF_LOOPBACK;

    if (!a->ifa_addr || !(a->ifa_flags & IFF_UP) ||
        (*interface && !loopback && strcmp(interface, a->ifa_name) != 0)) {
        return RANK_NONE;
    }
    if (a->ifa_addr->sa_family == AF_INET) {
        return loopback ? RANK_LOOPBACK : RANK_V4;
    }
    if (a->ifa_addr->sa_family != AF_INET6) {
        return RANK_NONE;
    }
    const struct sockaddr_in6 in = in6(a->ifa_addr);
    return loopback ? RANK_LOOPBACK : IN6_IS_ADDR_LINKLOCAL(&in.sin6_addr) ? RANK_LOCAL : RANK_V6;
}

static void add(struct compat_addresses *list, const struct ifaddrs *a)
{
    struct compat_address *to = &list->at[list->n];

    if (list->n == COMPAT_MAX_ADDRESSES) {
        return;
    }
    memset(to, 0, sizeof *to);
    if (a->ifa_addr->sa_family == AF_INET) {
        struct sockaddr_in in = in4(a->ifa_addr);
        in.sin_port = 0;
        memcpy(&to->addr, &in, sizeof in);
        to->mask = a->ifa_netmask ? in4(a->ifa_netmask).sin_addr.s_addr : UINT32_MAX;
    } else {
        memcpy(&to->addr, a->ifa_addr, sizeof(struct sockaddr_in6));
    }
    to->interface = if_nametoindex(a->ifa_name);
    list->n++;
}

/* What the user has chosen; its network is that of the interface which has it. */
static bool add_wished(struct compat_addresses *list, const struct ifaddrs *all)
{
    struct sockaddr_storage wished;

    if (!iwarp_compat_wished_addr(AF_INET, &wished) &&
        !iwarp_compat_wished_addr(AF_INET6, &wished)) {
        return false;
    }
    for (const struct ifaddrs *a = all; a && list->n == 0; a = a->ifa_next) {
        struct sockaddr_storage has = {.ss_family = AF_UNSPEC};
        if (rank_of(a, "") != RANK_NONE) {
            memcpy(&has, a->ifa_addr,
                   a->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                     : sizeof(struct sockaddr_in6));
        }
        if (iwarp_compat_same_host(&has, &wished)) {
            add(list, a);
        }
    }
    if (list->n == 0) { /* no interface has it (yet): 127.0.0.2, for one */
        list->at[0] = (struct compat_address){.addr = wished, .mask = UINT32_MAX};
        list->n = 1;
    }
    return true;
}

void iwarp_compat_addresses(const struct compat_identity *identity, struct compat_addresses *list)
{
    IWARP_UNCANCELLED; /* sockets are asked */

    const struct sockaddr_in loopback = {.sin_family = AF_INET,
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct ifaddrs *all = NULL;

    list->n = 0;
    (void)getifaddrs(&all);
    if (!add_wished(list, all)) {
        for (enum rank r = RANK_V4; r < RANK_NONE && (r < RANK_LOOPBACK || list->n == 0); r++) {
            for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
                if (rank_of(a, identity->interface) == r) {
                    add(list, a);
                }
            }
        }
    }
    if (list->n == 0) { /* without any interface */
        memset(&list->at[0], 0, sizeof list->at[0]);
        memcpy(&list->at[0].addr, &loopback, sizeof loopback);
        list->n = 1;
    }
    if (all) {
        freeifaddrs(all);
    }
}

unsigned iwarp_compat_gids(const struct compat_addresses *list)
{
    return COMPAT_GID_COPIES - 1 + list->n;
}

const struct compat_address *iwarp_compat_gid_at(const struct compat_addresses *list,
                                                 unsigned index)
{
    return index < COMPAT_GID_COPIES         ? &list->at[0]
           : index < iwarp_compat_gids(list) ? &list->at[index - (COMPAT_GID_COPIES - 1)]
                                             : NULL;
}

/* --- from and to addresses ------------------------------------------------------------------- */

void iwarp_compat_gid_of(const struct sockaddr_storage *addr, union ibv_gid *gid)
{
    memset(gid, 0, sizeof *gid);
    if (addr->ss_family == AF_INET) {
        const struct sockaddr_in in = in4(addr);
        gid->raw[10] = gid->raw[11] = 0xff;
        memcpy(gid->raw + 12, &in.sin_addr, 4);
    } else {
        const struct sockaddr_in6 in = in6(addr);
        memcpy(gid->raw, &in.sin6_addr, sizeof gid->raw);
    }
}

static const struct compat_address *first_v4(const struct compat_addresses *list)
{
    return list->at[0].addr.ss_family == AF_INET ? &list->at[0] : NULL; /* they come first */
}

uint16_t iwarp_compat_lid(const struct compat_addresses *list)
{
    const struct compat_address *v4 = first_v4(list);

    return v4 ? (uint16_t)ntohl(in4(&v4->addr).sin_addr.s_addr) : 0;
}

void iwarp_compat_addr_of_gid(const union ibv_gid *gid, unsigned scope,
                              struct sockaddr_storage *addr)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};

    memset(addr, 0, sizeof *addr);
    memcpy(&six.sin6_addr, gid->raw, sizeof gid->raw);
    if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
        memcpy(&four.sin_addr, gid->raw + 12, 4);
        memcpy(addr, &four, sizeof four);
    } else {
        six.sin6_scope_id = IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr) ? scope : 0;
        memcpy(addr, &six, sizeof six);
    }
}

/* 0 is a LID that nobody has: a program that copied it without a look means this host. */
bool iwarp_compat_addr_of_lid(const struct compat_addresses *list, uint16_t lid,
                              struct sockaddr_storage *addr)
{
    const struct compat_address *v4 = first_v4(list);

    if (lid == 0 || (v4 && lid == iwarp_compat_lid(list))) {
        *addr = list->at[0].addr;
        return true;
    }
    if (!v4) {
        return false;
    }
    struct sockaddr_in in = in4(&v4->addr);
    uint32_t own = in.sin_addr.s_addr;
    in.sin_addr.s_addr = htonl((ntohl(own) & 0xffff0000u) | lid);
    memset(addr, 0, sizeof *addr);
    memcpy(addr, &in, sizeof in);
    return ((own ^ in.sin_addr.s_addr) & v4->mask) == 0;
}

bool iwarp_compat_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    union ibv_gid one, other;

    if ((a->ss_family != AF_INET && a->ss_family != AF_INET6) ||
        (b->ss_family != AF_INET && b->ss_family != AF_INET6)) {
        return false;
    }
    iwarp_compat_gid_of(a, &one);
    iwarp_compat_gid_of(b, &other);
    return memcmp(&one, &other, sizeof one) == 0;
}

static bool is_loopback(const struct sockaddr_storage *addr)
{
    union ibv_gid gid;
    static const uint8_t mapped[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};

    iwarp_compat_gid_of(addr, &gid);
    return memcmp(gid.raw, mapped, sizeof mapped) == 0 ||
           memcmp(gid.raw, &in6addr_loopback, sizeof gid.raw) == 0;
}

bool iwarp_compat_is_here(const struct sockaddr_storage *addr)
{
    struct ifaddrs *all = NULL;
    bool found = is_loopback(addr);

    if (found || getifaddrs(&all) != 0) {
        return found;
    }
    for (const struct ifaddrs *a = all; a && !found; a = a->ifa_next) {
        struct sockaddr_storage has = {.ss_family = AF_UNSPEC};
        if (rank_of(a, "") != RANK_NONE) {
            memcpy(&has, a->ifa_addr,
                   a->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                     : sizeof(struct sockaddr_in6));
        }
        found = iwarp_compat_same_host(&has, addr);
    }
    freeifaddrs(all);
    return found;
}

/* --- what programs ask ----------------------------------------------------------------------- */

static void list_of(struct ibv_context *context, struct compat_addresses *list)
{
    iwarp_compat_addresses(iwarp_compat_identity(context->device), list);
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    struct compat_addresses list;
    const struct compat_address *at = NULL;

    if (port == 1 && index >= 0) {
        list_of(context, &list);
        at = iwarp_compat_gid_at(&list, (unsigned)index);
    }
    if (!at) {
        errno = EINVAL;
        return -1;
    }
    iwarp_compat_gid_of(&at->addr, gid);
    return 0;
}

static void fill(struct ibv_gid_entry *entry, unsigned index, const struct compat_address *at)
{
    memset(entry, 0, sizeof *entry);
    iwarp_compat_gid_of(&at->addr, &entry->gid);
    entry->gid_index = index;
    entry->port_num = 1;
    entry->gid_type = IBV_GID_TYPE_ROCE_V2;
    entry->ndev_ifindex = at->interface;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
    struct compat_addresses list;

    if (port != 1 || flags || entry_size < sizeof *entry) {
        return EINVAL;
    }
    list_of(context, &list);
    const struct compat_address *at = iwarp_compat_gid_at(&list, index);
    if (!at) {
        return ENODATA;
    }
    memset(entry, 0, entry_size);
    fill(entry, index, at);
    return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                             size_t max_entries, uint32_t flags, size_t entry_size)
{
    struct compat_addresses list;

    if (flags || entry_size < sizeof *entries) {
        return -EINVAL;
    }
    list_of(context, &list);
    if (max_entries < iwarp_compat_gids(&list)) {
        return -EINVAL;
    }
    for (unsigned i = 0; i < iwarp_compat_gids(&list); i++) {
        struct ibv_gid_entry *to = (void *)((char *)entries + i * entry_size);
        memset(to, 0, entry_size);
        fill(to, i, iwarp_compat_gid_at(&list, i));
    }
    return iwarp_compat_gids(&list);
}
