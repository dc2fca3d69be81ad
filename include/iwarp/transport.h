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
 * `close`; with embedded progress that is the thread of the loop, where `closed` may also come
 * later, out of a handle of the transport's own. An endpoint must not call `ready` after `close`
 * was called. Until then it may request a call of `poll` with iwarp_endpoint_wake, on any thread.
 *
 * The first writev is a start-up frame of at most 532 octets, as it is one segment: an endpoint
 * that takes less than all of it is taken for lost.
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

/* What is sent in one go. */
struct iwarp_burst {
    size_t size; /* of this structure */
    const struct iovec *iov;
    unsigned n;
    struct iovec
        passing; /* octets in this range of addresses do not stay: they have to be copied */
    const uint32_t
        *fpdus; /* octets of each FPDU in iov; the first may have begun in an earlier burst */
    unsigned fpdu_count;
    bool rest; /* it has */
};

/*
 * For transports that have the octets in memory of their own; docs/transport.md says more. Each may
 * be called on any thread, but no two at once, nor during readv or writev.
 *
 *   borrow     as readv, but the octets stay: iov gets *n pieces at most, *n says how many there
 *              are, from the first octet that was not given back. Returns the octets behind those
 *              that are held; if there are none, as readv, and iov names what is held. What was
 *              lent stays where it is until it is given back.
 *   give_back  the first `octets` of what is lent are not needed any more: the window opens by as
 *              much. The next `held` are kept until more comes: `ready` reports what is behind.
 *   refer      as writev: octets taken. All but those in `passing` may be referred to until they
 *              are acknowledged. An FPDU is to begin a segment if it does not fit whole into the
 *              one before (RFC 5044 4.5).
 *   released   how many octets taken by refer are referred to no more, since the last call. When
 *              there are some, `ready` is called, perhaps with neither readable nor writable.
 *   forsake    nothing is referred to when this returns, also if the connection is lost by that;
 *              what was not released before never is. `close` follows.
 */
struct iwarp_loans {
    size_t size; /* of this structure */
    ssize_t (*borrow)(struct iwarp_endpoint *ep, struct iovec *iov, unsigned *n);
    void (*give_back)(struct iwarp_endpoint *ep, size_t octets, size_t held);
    ssize_t (*refer)(struct iwarp_endpoint *ep, const struct iwarp_burst *burst);
    size_t (*released)(struct iwarp_endpoint *ep);
    void (*forsake)(struct iwarp_endpoint *ep);
};

/* To be the first member of a transport's own structure, and 0 but for what the transport sets. */
struct iwarp_endpoint {
    const struct iwarp_transport *ops; /* set by the transport */
    void *user;                        /* these by the library */
    void (*ready)(void *user, bool readable, bool writable);
    void (*closed)(void *user);
    const struct iwarp_loans *loans; /* set by the transport; NULL: it has none of them */
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
