/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The border between a connection and its endpoint.  Whatever crosses it goes through here, to be
 * recorded (conn_tap.c) and changed by faults on request (conn_inject.c).  Without either
 * it costs a test of two pointers for each call.  All functions run with conn.lock held.
 */
#ifndef IWARP_VERBS_CONN_TAP_H
#define IWARP_VERBS_CONN_TAP_H

#include "transport/transport.h"
#include "verbs/conn.h"
#include "verbs/inject.h"

void iwarp_tap_open(struct iwarp_conn *conn);            /* the endpoint is connected */
void iwarp_tap_name_qp(struct iwarp_conn *conn);         /* the connection has its queue pair */
void iwarp_tap_end(struct iwarp_conn *conn, bool reset); /* this side's FIN or reset */
void iwarp_tap_close(struct iwarp_conn *conn);           /* before the endpoint is closed */
ssize_t iwarp_tap_readv(struct iwarp_conn *conn, const struct iovec *iov, int n);
ssize_t iwarp_tap_writev(struct iwarp_conn *conn, const struct iovec *iov, int n);
ssize_t iwarp_tap_borrow(struct iwarp_conn *conn, struct iovec *iov, unsigned *n);
ssize_t iwarp_tap_refer(struct iwarp_conn *conn, const struct iwarp_burst *burst);

/* Without the faults. */
static inline ssize_t iwarp_conn_plain_readv(struct iwarp_conn *conn, const struct iovec *iov,
                                             int n)
{
    return conn->flow ? iwarp_tap_readv(conn, iov, n) : conn->ep->ops->readv(conn->ep, iov, n);
}

static inline ssize_t iwarp_conn_plain_writev(struct iwarp_conn *conn, const struct iovec *iov,
                                              int n)
{
    return conn->flow ? iwarp_tap_writev(conn, iov, n) : conn->ep->ops->writev(conn->ep, iov, n);
}

/* As the endpoint's own operations, for everybody else. */
static inline ssize_t iwarp_conn_readv(struct iwarp_conn *conn, const struct iovec *iov, int n)
{
    return __builtin_expect(conn->inject != NULL, 0) ? iwarp_inject_readv(conn, iov, n)
                                                     : iwarp_conn_plain_readv(conn, iov, n);
}

static inline ssize_t iwarp_conn_writev(struct iwarp_conn *conn, const struct iovec *iov, int n)
{
    return __builtin_expect(conn->inject != NULL, 0) ? iwarp_inject_writev(conn, iov, n)
                                                     : iwarp_conn_plain_writev(conn, iov, n);
}

/* Without faults on request: nothing is borrowed with them. */
static inline ssize_t iwarp_conn_borrow(struct iwarp_conn *conn, struct iovec *iov, unsigned *n)
{
    return conn->flow ? iwarp_tap_borrow(conn, iov, n) : conn->loans->borrow(conn->ep, iov, n);
}

static inline ssize_t iwarp_conn_refer(struct iwarp_conn *conn, const struct iwarp_burst *burst)
{
    return conn->flow && !conn->inject ? iwarp_tap_refer(conn, burst)
                                       : conn->loans->refer(conn->ep, burst);
}

static inline void iwarp_conn_shutdown_write(struct iwarp_conn *conn)
{
    iwarp_tap_end(conn, false);
    conn->ep->ops->shutdown_write(conn->ep);
}

#endif
