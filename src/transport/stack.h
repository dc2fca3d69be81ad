/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stacks: what makes endpoints (iwarp/transport.h) of TCP connections.  The kernel's TCP is one
 * (tcp_stack.c), lwIP in user space another (lwip/).  A device has one stack, and each of its
 * workers a seat at it: what the stack has in that worker's loop.  docs/transport.md has the whole
 * contract, with the order of the calls.
 *
 *   operation                      thread
 *   close                          the device's last; no seat, acceptor or endpoint is left
 *   join                           any; makes the seat
 *   sit                            any, before the loop runs; opens the stack's handles in the loop
 *   leave                          the seat's worker; closes them, left(arg) follows, perhaps later
 *   source, listen, locate         any
 *   connect, attach                the seat's worker
 *   open, pause, accept, unlisten  the acceptor's worker, as are calls of `ready` and `closed`
 *   refuse                         any, for what nobody has attached
 *   error, ..., is_away            as `watch` of the endpoint
 *
 * No operation blocks, but for `close`, which may give what was sent last some time to arrive.
 * Failures are -errno.
 */
#ifndef IWARP_TRANSPORT_STACK_H
#define IWARP_TRANSPORT_STACK_H

#include <iwarp/status.h>
#include <iwarp/transport.h>
#include <sys/socket.h>
#include <uv.h>

/* Each is the first member of a stack's own structure. */
struct iwarp_stack {
    const struct iwarp_stack_ops *ops;
};

struct iwarp_seat {
    struct iwarp_stack *stack;
    uv_loop_t *loop; /* NULL: it has none yet */
};

struct iwarp_acceptor {
    struct iwarp_stack *stack;
    void (*ready)(void *user); /* there may be something to accept; level-triggered */
    void (*closed)(void *user);
    void *user; /* of both; set by the owner before `open` */
};

/* An accepted connection that no worker has yet. */
union iwarp_arrival {
    int fd;                    /* kernel TCP */
    struct iwarp_endpoint *ep; /* other stacks */
};

struct iwarp_way {
    const struct sockaddr *addr, *source; /* source_len 0: from any address */
    socklen_t addr_len, source_len;
    int traffic_class; /* -1: the stack's default */
};

struct iwarp_stack_ops {
    const char *name;
    void (*close)(struct iwarp_stack *stack);
    int (*join)(struct iwarp_stack *stack, struct iwarp_seat **seat);
    void (*sit)(struct iwarp_seat *seat, uv_loop_t *loop);
    void (*leave)(struct iwarp_seat *seat, void (*left)(void *arg), void *arg);

    /* The address from which `addr` would be reached. */
    int (*source)(struct iwarp_stack *stack, const struct sockaddr *addr, socklen_t addr_len,
                  struct sockaddr_storage *source, socklen_t *source_len);

    /* The endpoint becomes writable once it is connected or has failed: see error. */
    int (*connect)(struct iwarp_seat *seat, const struct iwarp_way *way,
                   struct iwarp_endpoint **ep);

    /* The address is taken from `listen` on; `ready` is called from `open` on. */
    int (*listen)(struct iwarp_stack *stack, const struct sockaddr *addr, socklen_t addr_len,
                  int backlog, struct iwarp_acceptor **acceptor);
    void (*locate)(struct iwarp_acceptor *acceptor, struct sockaddr_storage *addr,
                   socklen_t *addr_len);
    int (*open)(struct iwarp_acceptor *acceptor, struct iwarp_seat *seat);
    void (*pause)(struct iwarp_acceptor *acceptor, bool paused);
    int (*accept)(struct iwarp_acceptor *acceptor, union iwarp_arrival *arrival,
                  struct sockaddr_storage *peer, socklen_t *peer_len);
    /* Instead of attach: close it. */
    void (*refuse)(struct iwarp_stack *stack, union iwarp_arrival arrival, bool reset);
    /* From now on it is an endpoint of this worker.  On failure it is closed. */
    int (*attach)(struct iwarp_seat *seat, union iwarp_arrival arrival, struct iwarp_endpoint **ep);
    /* Frees the acceptor; `closed` is called if it was opened. */
    void (*unlisten)(struct iwarp_acceptor *acceptor);

    /* --- endpoints of the stack --- */

    /* 0, or the errno value with which connecting, or since then the connection, failed. */
    int (*error)(struct iwarp_endpoint *ep);
    /* *addr_len 0: there is none any more. */
    void (*local_addr)(struct iwarp_endpoint *ep, struct sockaddr_storage *addr,
                       socklen_t *addr_len);
    void (*peer_addr)(struct iwarp_endpoint *ep, struct sockaddr_storage *addr,
                      socklen_t *addr_len);
    /*
     * How long the peer may be out of reach: the time for which octets may be unacknowledged (0:
     * the stack's own), and keepalive probes from keepalive_s seconds of silence on (0: none).
     */
    void (*patience)(struct iwarp_endpoint *ep, unsigned user_timeout_ms, unsigned keepalive_s);
    /* How many octets has the peer acknowledged, since some fixed time?  False: nobody knows. */
    bool (*taken)(struct iwarp_endpoint *ep, uint64_t *octets);
    /*
     * Instead of watch: report `readable` once the peer has closed or the connection is lost, or
     * when more than IWARP_UNREAD_MAX octets wait (or half of what the window holds).  unread: was
     * it reported for octets, and how many are they?
     */
    void (*watch_end)(struct iwarp_endpoint *ep);
    bool (*unread)(struct iwarp_endpoint *ep, int *octets);
    /*
     * Instead of watch: report `readable` once the peer has closed or the connection is lost,
     * whatever is unread; and `writable`, if asked for.  ending: is that so?  *error is then the
     * errno value that ended it, if no call has returned it yet, or 0.
     */
    void (*await_end)(struct iwarp_endpoint *ep, bool write);
    bool (*ending)(struct iwarp_endpoint *ep, int *error);
    /*
     * Somebody will read all that comes without being told: see loop/hot.h.  Nothing has to be
     * gained by that, so a stack may do nothing at all.
     */
    void (*go_away)(struct iwarp_endpoint *ep);
    void (*come_back)(struct iwarp_endpoint *ep);
    bool (*is_away)(const struct iwarp_endpoint *ep);
};

#define IWARP_UNREAD_MAX 16384

/*
 * The stack that a text names: NULL, "" or "tcp", or "lwip:...".  Not OK: iwarp_last_error says
 * what is wrong with the text, or why there is no such stack.
 */
enum iwarp_status iwarp_stack_open(const char *text, struct iwarp_stack **stack);

/* The kernel's TCP: one for all devices. */
extern struct iwarp_stack iwarp_tcp_stack;

/* On a socket of the application, which listens already.  On failure the socket is the caller's. */
int iwarp_tcp_acceptor(int fd, struct iwarp_acceptor **acceptor);

/* Its descriptor, for tests; and give it back before `unlisten`. */
int iwarp_tcp_acceptor_fd(const struct iwarp_acceptor *acceptor);
void iwarp_tcp_acceptor_return(struct iwarp_acceptor *acceptor);

#endif
