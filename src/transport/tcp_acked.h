/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef IWARP_TRANSPORT_TCP_ACKED_H
#define IWARP_TRANSPORT_TCP_ACKED_H

#include <stdbool.h>
#include <stdint.h>

/* The octets of a socket that the peer has acknowledged.  False: the kernel does not say (before
 * Linux 4.1). */
bool iwarp_tcp_acked(int fd, uint64_t *octets);

#endif
