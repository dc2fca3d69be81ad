/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transport contract: what carries the octets of one stream. An endpoint is one connection of
 * some transport; the connection code of src/verbs owns it and calls down, the endpoint calls up to
 * `ready` and `closed`.
 *
 *   operation        thread               blocks   notes
 *   readv, writev    any, one at a time   never    octets moved; 0 from readv is the peer's FIN;
 *                                                  -errno otherwise, -EAGAIN: wait for ready
 *   watch            the worker's         never    which readiness to report; level-triggered
 *   shutdown_write   the worker's         never    FIN after what was written
 *   close            the worker's         never    frees the endpoint, then calls closed, later or
 *                                                  at once; reset: the peer sees RST
 *   emss             any                  never    octets of one TCP segment now
 *   poll             the worker's         never    NULL, or: report readiness now, by calling
 * ready; called after each wake-up and unfinished read
 *
 * `ready` is called on the worker's thread. After `close` was called no `ready` comes.
 */
#ifndef IWARP_TRANSPORT_H
#define IWARP_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <uv.h>

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

struct iwarp_endpoint {
    const struct iwarp_transport *ops;
    void *user;
    void (*ready)(void *user, bool readable, bool writable);
    void (*closed)(void *user);
};

/* --- kernel TCP (tcp.c) ---------------------------------------------------------------------- */

/*
 * Wrap a non-blocking connected or connecting socket; on the loop's thread. The endpoint owns fd
 * from now on, on failure too. Returns 0 or -errno. TCP_NODELAY is set: an MPA frame is one write.
 */
int iwarp_tcp_attach(uv_loop_t *loop, int fd, struct iwarp_endpoint **ep);

/* Open a non-blocking socket and begin to connect. Returns the descriptor or -errno. */
int iwarp_tcp_connect(const struct sockaddr *addr, socklen_t addr_len);

/* 0, or the errno value with which connecting failed. */
int iwarp_tcp_connect_error(struct iwarp_endpoint *ep);

/* The socket's own address. */
void iwarp_tcp_local_addr(struct iwarp_endpoint *ep, struct sockaddr_storage *addr,
                          socklen_t *addr_len);

/* Listening socket (non-blocking), or -errno. */
int iwarp_tcp_listen(const struct sockaddr *addr, socklen_t addr_len, int backlog);

/* --- memory (mem.c) -------------------------------------------------------------------------- */

/*
 * Two endpoints joined by two pipes in memory, each with a wake-up that the owner supplies: it is
 * called on any thread, and must make the owner's worker call `poll` of that endpoint.
 */
typedef void (*iwarp_mem_wake_fn)(void *user);
int iwarp_mem_pair(iwarp_mem_wake_fn wake, void *user_a, void *user_b, struct iwarp_endpoint **a,
                   struct iwarp_endpoint **b);

#endif
