/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses of connections: checks of what callers give, and a compact form to keep. */
#ifndef IWARP_VERBS_ADDR_H
#define IWARP_VERBS_ADDR_H

#include <iwarp/status.h>
#include <iwarp/transport.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* A socket address of TCP, smaller than sockaddr_storage.  len 0: none. */
struct iwarp_addr {
    socklen_t len;
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        uint8_t octets[sizeof(struct sockaddr_in6)];
    };
};

/*
 * Is this an address of IPv4 or IPv6, as long as its family needs?  MISUSE otherwise.  Addresses of
 * applications are checked here once; later code relies on it.
 */
enum iwarp_status iwarp_addr_check(const struct sockaddr *addr, socklen_t addr_len);

/* Keep a checked address.  What follows its sockaddr_in or sockaddr_in6 is dropped. */
void iwarp_addr_set(struct iwarp_addr *to, const struct sockaddr *addr, socklen_t len);
void iwarp_addr_copy(const struct iwarp_addr *from, struct sockaddr_storage *to);

/* "192.0.2.1:7471", "[2001:db8::1]:7471", or "a peer without address", into text, which is
 * returned. */
#define IWARP_ADDR_TEXT (INET6_ADDRSTRLEN + 8)
const char *iwarp_addr_text(const struct iwarp_addr *addr, char text[IWARP_ADDR_TEXT]);

/* Ask an endpoint of a stack: `which` is local_addr or peer_addr of transport/stack.h. */
typedef void iwarp_addr_fn(struct iwarp_endpoint *ep, struct sockaddr_storage *addr,
                           socklen_t *addr_len);
void iwarp_addr_ask(struct iwarp_addr *to, struct iwarp_endpoint *ep, iwarp_addr_fn *which);

#endif
