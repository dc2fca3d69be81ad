/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of a TCP socket that the application has handed over, as the application has set them.
 * Some have another value while the library has the socket; the others are the socket's own. No
 * lock: the owner of the endpoint has one.
 */
#ifndef IWARP_TRANSPORT_TCP_OPTIONS_H
#define IWARP_TRANSPORT_TCP_OPTIONS_H

#include <sys/socket.h>

#define IWARP_TCP_KEPT 8

struct iwarp_tcp_options {
    int fd; /* -1: closed, or given back */
    int flags;
    int value[IWARP_TCP_KEPT];
    struct linger linger;
};

/* Off, as the library needs them: SO_LINGER, since the loop would wait in close for a peer that
 * acknowledges nothing, SO_RCVLOWAT and TCP_CORK. Accepted sockets inherit them. */
void iwarp_tcp_disarm(int fd);

/* Remember what the application has set, and disarm the socket; have it as it was again. */
void iwarp_tcp_options_keep(struct iwarp_tcp_options *o, int fd);
void iwarp_tcp_options_restore(const struct iwarp_tcp_options *o, int fd);

/*
 * As getsockopt and setsockopt, to the application that knows of no library: 0 or -errno. -ENOTCONN
 * if the socket is closed and only it would know. TCP_NODELAY, TCP_CORK, SO_LINGER, SO_RCVLOWAT and
 * SO_KEEPALIVE are remembered and change nothing; the times of probes and TCP_USER_TIMEOUT replace
 * what iwarp_tcp_patience has chosen.
 */
int iwarp_tcp_options_get(const struct iwarp_tcp_options *o, int level, int name, void *value,
                          socklen_t *len);
int iwarp_tcp_options_set(struct iwarp_tcp_options *o, int level, int name, const void *value,
                          socklen_t len);

#endif
