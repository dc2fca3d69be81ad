/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For rsockets, which include nothing below the public headers but this folder: options of the
 * socket of a connection that was adopted. src/verbs/conn_sockopt.c is behind it.
 */
#ifndef IWARP_BASE_SOCKOPT_H
#define IWARP_BASE_SOCKOPT_H

#include <sys/socket.h>

struct iwarp_conn;

/*
 * As getsockopt and setsockopt of a program that knows of no library; 0 or -1 with errno. What the
 * library needs otherwise is only remembered (transport/tcp_options.h). ENOTCONN: the connection
 * was not adopted, or its socket is closed and no other would know. Any thread; takes conn.lock.
 */
int iwarp_conn_getsockopt(struct iwarp_conn *conn, int level, int name, void *value,
                          socklen_t *len);
int iwarp_conn_setsockopt(struct iwarp_conn *conn, int level, int name, const void *value,
                          socklen_t len);

#endif
