/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transports: what carries the octets of one stream. Kernel TCP is built in (iwarp_connect,
 * iwarp_listen); whatever else delivers octets in order and complete can be used through an
 * endpoint of your own: a user-space TCP stack, memory, a simulator. RFC 5044 1, "LLP".
 *
 * An endpoint is one connection of some transport. The library calls down through `ops`; the
 * endpoint calls up through `ready` and `closed`, which the library sets when it takes it over.
 *
 *   operation        thread               notes
 *   readv, writev    any, one at a time   octets moved; 0 from readv is the peer's FIN; -errno
 *                                         otherwise, -EAGAIN: nothing now, wait for ready; -EFAULT
 *                                         for memory that is not there
 *   watch            the worker's         which readiness to report from now on; level-triggered
 *   shutdown_write   the worker's         FIN behind what was written
 *   close            the worker's         the end; calls `closed`, later or at once, and frees the
 *                                         endpoint; reset: the peer should see a reset
 *   emss             any                  octets of one segment of the path now (RFC 5044 4.5)
 *   poll             the worker's         call `ready` if what is watched is there; called after
 *                                         each iwarp_endpoint_wake, and after a read that left
 *                                         something
 *
 * No operation blocks. `ready` and `closed` are called on the worker's thread, out of `poll` or
 * `close`. An endpoint must not call `ready` after `close` was called. Until then it may request a
 * call of `poll` with iwarp_endpoint_wake, on any thread.
 */
#ifndef IWARP_TRANSPORT_H
#define IWARP_TRANSPORT_H

#include <iwarp/conn.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

IWARP_BEGIN_DECLS

struct iwarp_endpoint;

struct iwarp_transport {
    const char *name;
    ssize_t (*readv)(struct iwarp_endpoint *ep, const struct iovec *iov, int n);
    ssize_t (*writev)(struct iwarp_endpoint *ep, const struct iovec *iov, int n);
    void (*watch)(struct iwarp_endpoint *ep, bool read, bool write);
    void (*shutdown_write)(struct iwarp_endpoint *ep);
    void (*close)(struct iwarp_endpoint *ep, bool reset);
    uint32_t (*emss)(struct iwarp_endpoint *ep);
    void (*poll)(struct iwarp_endpoint *ep);
};

/* To be the first member of a transport's own structure. */
struct iwarp_endpoint {
    const struct iwarp_transport *ops; /* set by the transport */
    void *user;                        /* these by the library */
    void (*ready)(void *user, bool readable, bool writable);
    void (*closed)(void *user);
};

/*
 * Connect qp (IDLE) over ep, which is connected already: send the MPA Request (RFC 5044 7.1.2). As
 * iwarp_connect otherwise; but the connection has no addresses, and there is no second try with
 * revision 1. After a successful call ep belongs to the library, which calls `close` at the end.
 * After a failure it is the caller's. MISUSE: also if ep has no operations, or one of them is NULL.
 */
IWARP_API enum iwarp_status iwarp_connect_over(struct iwarp_qp *qp, struct iwarp_endpoint *ep,
                                               const struct iwarp_conn_options *options,
                                               const void *private_data, size_t pd_len,
                                               struct iwarp_eq *eq, void *user,
                                               struct iwarp_conn **conn);

/*
 * The other side: wait for an MPA Request on ep, as on a socket that a listener has accepted. The
 * REQUEST event goes to eq, with `user` and no listener; FAILED, if no Request comes in time. *conn
 * is the connection that it will name, and belongs to the application from now on. ep: as above.
 * MISUSE: an argument is NULL, eq is of another device, an operation of ep is NULL, or an option is
 * out of its bounds. LIMIT: max_connections. NO_MEMORY.
 */
IWARP_API enum iwarp_status iwarp_accept_over(struct iwarp_device *device,
                                              struct iwarp_endpoint *ep,
                                              const struct iwarp_conn_options *options,
                                              struct iwarp_eq *eq, void *user,
                                              struct iwarp_conn **conn);

/*
 * Have `poll` of this endpoint called on its worker's thread, soon; several calls before that count
 * as one. Any thread, with any lock of the application held: the call does not wait and calls
 * nothing back. Not after `close` was called. Does nothing before the library has taken the
 * endpoint over.
 */
IWARP_API void iwarp_endpoint_wake(struct iwarp_endpoint *ep);

IWARP_END_DECLS

#endif
