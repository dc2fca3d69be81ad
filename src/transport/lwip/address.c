/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses: between sockets and lwIP, and which of an interface's own is the source. */
#include "transport/lwip/core.h"

#include <errno.h>
#include <lwip/ip6.h>
#include <string.h>

static void from_in6(const struct iwarp_lw_netif *n, const struct in6_addr *in6, ip_addr_t *ip)
{
    uint32_t word[4];

    memcpy(word, in6, sizeof word);
    if (IN6_IS_ADDR_V4MAPPED(in6)) {
        ip_addr_set_ip4_u32_val(*ip, word[3]);
        return;
    }
    IP_ADDR6(ip, word[0], word[1], word[2], word[3]);
    ip6_addr_assign_zone(ip_2_ip6(ip), IP6_UNKNOWN, &n->netif);
}

/* There is one interface, so a scope says nothing. */
bool iwarp_lw_from_sockaddr(const struct iwarp_lw_netif *n, const struct sockaddr *from,
                            socklen_t len, ip_addr_t *ip, u16_t *port)
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;

    memset(ip, 0, sizeof *ip);
    if (from->sa_family == AF_INET && len >= sizeof in) {
        memcpy(&in, from, sizeof in);
        ip_addr_set_ip4_u32_val(*ip, in.sin_addr.s_addr);
        *port = ntohs(in.sin_port);
        return true;
    }
    if (from->sa_family == AF_INET6 && len >= sizeof in6) {
        memcpy(&in6, from, sizeof in6);
        from_in6(n, &in6.sin6_addr, ip);
        *port = ntohs(in6.sin6_port);
        return true;
    }
    return false;
}

void iwarp_lw_to_sockaddr(const ip_addr_t *ip, u16_t port, struct sockaddr_storage *to,
                          socklen_t *len)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    memset(to, 0, sizeof *to);
    if (IP_IS_V4(ip)) {
        in.sin_addr.s_addr = ip_2_ip4(ip)->addr;
        memcpy(to, &in, sizeof in);
        *len = sizeof in;
    } else {
        memcpy(&in6.sin6_addr, ip_2_ip6(ip)->addr, sizeof in6.sin6_addr);
        memcpy(to, &in6, sizeof in6);
        *len = sizeof in6;
    }
}

bool iwarp_lw_source(const struct iwarp_lw_netif *n, const ip_addr_t *to, ip_addr_t *from)
{
    const ip_addr_t *found;

    if (IP_IS_V4(to)) {
        bool way = n->options.has4 && (ip4_addr_netcmp(ip_2_ip4(to), netif_ip4_addr(&n->netif),
                                                       netif_ip4_netmask(&n->netif)) ||
                                       n->options.gw.s_addr != 0);
        ip_addr_copy_from_ip4(*from, *netif_ip4_addr(&n->netif));
        return way;
    }
    if (!n->options.has6 && !ip6_addr_islinklocal(ip_2_ip6(to))) {
        return false;
    }
    found = ip6_select_source_address((struct netif *)(uintptr_t)&n->netif, ip_2_ip6(to));
    if (found) {
        ip_addr_copy(*from, *found);
    }
    return found != NULL;
}

int iwarp_lw_errno(err_t err)
{
    switch ((err_enum_t)err) {
    case ERR_OK:
        return 0;
    case ERR_MEM:
    case ERR_BUF:
        return ENOMEM;
    case ERR_TIMEOUT:
    case ERR_ABRT: /* by lwIP, which has tried for long enough */
        return ETIMEDOUT;
    case ERR_RTE:
        return EHOSTUNREACH;
    case ERR_USE:
        return EADDRINUSE;
    case ERR_RST:
        return ECONNRESET;
    case ERR_CLSD:
    case ERR_CONN:
        return ENOTCONN;
    case ERR_IF:
        return ENETDOWN;
    case ERR_WOULDBLOCK:
        return EAGAIN;
    case ERR_ISCONN:
    case ERR_ALREADY:
    case ERR_INPROGRESS:
    case ERR_VAL:
    case ERR_ARG:
        break;
    }
    return EINVAL;
}
