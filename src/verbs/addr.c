/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses of connections: checking what callers give, and keeping them in little room. */
#include "verbs/addr.h"
#include "base/fault.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* The family is read only after the length says that it is there. */
enum iwarp_status iwarp_addr_check(const struct sockaddr *addr, socklen_t addr_len)
{
    if (!addr) {
        return iwarp_fail(IWARP_MISUSE, "addr is NULL");
    }
    if (addr_len < sizeof addr->sa_family || addr_len > sizeof(struct sockaddr_storage)) {
        return iwarp_fail(IWARP_MISUSE, "socket address of %u octets, expected %zu to %zu",
                          (unsigned)addr_len, sizeof(struct sockaddr_in),
                          sizeof(struct sockaddr_storage));
    }
    if (addr->sa_family != AF_INET && addr->sa_family != AF_INET6) {
        return iwarp_fail(IWARP_MISUSE, "address family %d, expected AF_INET or AF_INET6",
                          addr->sa_family);
    }
    bool v4 = addr->sa_family == AF_INET;
    size_t least = v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (addr_len < least) {
        return iwarp_fail(IWARP_MISUSE, "socket address of %u octets, AF_INET%s has %zu",
                          (unsigned)addr_len, v4 ? "" : "6", least);
    }
    return IWARP_OK;
}

/* Octets that the address lacks stay 0. */
void iwarp_addr_set(struct iwarp_addr *to, const struct sockaddr *addr, socklen_t len)
{
    *to = (struct iwarp_addr){.len = addr->sa_family == AF_INET ? sizeof to->in : sizeof to->in6};
    memcpy(to->octets, addr, len < to->len ? len : to->len);
}

/* A socket that is not connected any more has no peer address: len 0. */
void iwarp_addr_ask(struct iwarp_addr *to, struct iwarp_endpoint *ep, iwarp_addr_fn *which)
{
    struct sockaddr_storage addr;
    socklen_t len;

    which(ep, &addr, &len);
    if (len > 0) {
        iwarp_addr_set(to, (const struct sockaddr *)&addr, len);
    } else {
        to->len = 0;
    }
}

void iwarp_addr_copy(const struct iwarp_addr *from, struct sockaddr_storage *to)
{
    memset(to, 0, sizeof *to);
    memcpy(to, from->octets, from->len);
}

const char *iwarp_addr_text(const struct iwarp_addr *addr, char text[IWARP_ADDR_TEXT])
{
    const bool v4 = addr->len == sizeof addr->in;
    char host[INET6_ADDRSTRLEN];

    if (addr->len == 0 || !inet_ntop(addr->any.sa_family,
                                     v4 ? (const void *)&addr->in.sin_addr : &addr->in6.sin6_addr,
                                     host, sizeof host)) {
        return strcpy(text, "a peer without address");
    }
    snprintf(text, IWARP_ADDR_TEXT, v4 ? "%s:%u" : "[%s]:%u", host,
             ntohs(v4 ? addr->in.sin_port : addr->in6.sin6_port));
    return text;
}
