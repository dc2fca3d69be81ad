/* SPDX-License-Identifier: BSD-2-Clause */
/* Networks of peers, written 192.0.2.0/24 or 2001:db8::/32. */
#ifndef IWARP_BASE_NETWORK_H
#define IWARP_BASE_NETWORK_H

#include <iwarp/status.h>
#include <stdbool.h>
#include <sys/socket.h>

struct iwarp_networks;

/*
 * A list with commas between; an address alone is a network of its own. To be freed; *out is NULL
 * for "". MISUSE: something is no network, or has bits behind its prefix. NO_MEMORY.
 */
enum iwarp_status iwarp_networks_parse(const char *text, struct iwarp_networks **out);

/* Is the address in one of them? IPv4 addresses that came to an IPv6 socket are those of IPv4. */
bool iwarp_networks_have(const struct iwarp_networks *networks, const struct sockaddr *addr);

#endif
