/* SPDX-License-Identifier: BSD-2-Clause */
/* What is known of peers, before this process connects to them: how they took an MPA Request, and
 * which have sent one. */
#ifndef IWARP_PRELOAD_PEERS_H
#define IWARP_PRELOAD_PEERS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Those that did not answer of late, by address and port: for so long one is remembered, and so
 * many are. */
#define PLAIN_PEERS_MS 30000
#define PLAIN_PEERS    64

/* Any thread. `now_ms`: of a clock that does not go back. */
void peers_note_plain(const struct sockaddr *peer, socklen_t len, int64_t now_ms);
bool peers_is_plain(const struct sockaddr *peer, socklen_t len, int64_t now_ms);

/* Addresses where some port has answered, or from which a Request came: FTP's server connects to
 * its client. The last ones of so many. */
#define ANSWERING_PEERS 64
void peers_note_answer(const struct sockaddr *peer, socklen_t len);
bool peers_has_answered(const struct sockaddr *peer, socklen_t len);

/* Ports where this process listens, or has listened; the last ones of so many. */
#define OWN_PORTS 64
void peers_note_own(in_port_t port);

/* Is a connection that this end has made one to a port of this process? Ports as in sockaddr_in. */
bool peers_is_own(const struct sockaddr *local, const struct sockaddr *peer, socklen_t len);

/* For the handlers of fork. */
void peers_hold(void);
void peers_release(void);

#endif
