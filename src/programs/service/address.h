/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Internet addresses and ports, as people write and read them.
 */
#ifndef SERVICE_ADDRESS_H
#define SERVICE_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* "[::1]:65535" has room in it. */
#define ADDRESS_TEXT_MAX (INET6_ADDRSTRLEN + 8)

/* "192.0.2.1:4420", "[::1]:4420", with or without a port; port: the one that is meant without. */
bool address_parse(const char *text, uint16_t port, struct sockaddr_storage *addr, socklen_t *len);

/* The same the other way; "?" if it is neither IPv4 nor IPv6. */
void address_text(const struct sockaddr_storage *addr, char text[ADDRESS_TEXT_MAX]);

/* The host alone; returns the port. */
unsigned address_split(const struct sockaddr_storage *addr, char host[INET6_ADDRSTRLEN]);

/* What tells one machine from another: of IPv6 the first 64 bits, since one machine may have all
 * addresses behind them. It is the whole address where many machines share such a prefix
 * (link-local, NAT64), and of IPv4, also if it is mapped into IPv6. */
#define ADDRESS_OWNER_LEN 16
void address_owner(const struct sockaddr_storage *addr, uint8_t owner[ADDRESS_OWNER_LEN]);

bool address_is_loopback(const struct sockaddr_storage *addr);

#endif
