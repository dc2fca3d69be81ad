/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that did not answer an MPA Request of late: who connects to them again need not wait. */
#ifndef IWARP_PRELOAD_PLAIN_PEERS_H
#define IWARP_PRELOAD_PLAIN_PEERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* For so long a peer is remembered, and so many are. */
#define PLAIN_PEERS_MS 30000
#define PLAIN_PEERS    64

/* Any thread. `now_ms`: of a clock that does not go back. */
void plain_peers_add(const struct sockaddr *peer, socklen_t len, int64_t now_ms);
bool plain_peers_has(const struct sockaddr *peer, socklen_t len, int64_t now_ms);

#endif
