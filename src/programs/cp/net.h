/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Internet addresses: looking names up, writing them, and the networks of --allow.
 */
#ifndef CP_NET_H
#define CP_NET_H

#include "url.h"

#include <netdb.h>
#include <stdint.h>
#include <sys/socket.h>

/* A network; IPv4 is kept as IPv4-mapped IPv6, so that both compare alike. */
struct cp_network {
    uint8_t octets[16];
    unsigned prefix; /* 0 to 128 */
};

/* ADDRESS or ADDRESS/BITS, numeric. False if it is neither, or has bits behind the prefix. */
bool cp_network_parse(const char *text, struct cp_network *network);
bool cp_network_has(const struct cp_network *network, const struct sockaddr *addr);

/* Both may be of one machine: the same IPv4 address, or the same /64 of IPv6. */
bool cp_net_is_same_host(const struct sockaddr *a, const struct sockaddr *b);

bool cp_net_is_loopback(const struct sockaddr *addr);

/* Look up. Returns NULL and a list for freeaddrinfo, or a sentence. "" as host is every address. */
const char *cp_net_resolve(const struct cp_address *address, bool passive, struct addrinfo **list);

/* "127.0.0.1:7475", "[::1]:7475". */
void cp_net_format(const struct sockaddr *addr, socklen_t len, char *buf, size_t size);

#endif
