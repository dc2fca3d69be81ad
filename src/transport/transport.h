/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transports that are built in. The contract: include/iwarp/transport.h.
 */
#ifndef IWARP_TRANSPORT_INTERNAL_H
#define IWARP_TRANSPORT_INTERNAL_H

#include <iwarp/transport.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

struct iwarp_tcp_options; /* tcp_options.h */

/*
 * Supplied by the owner of an endpoint: called on any thread, it must make the owner's worker call
 * `poll` of that endpoint, soon.
 */
typedef void (*iwarp_wake_fn)(void *user);

/* --- kernel TCP (tcp.c); all its sockets are closed by forked children (base/process.h) ------- */

/*
 * Wrap a non-blocking connected or connecting socket; on the loop's thread. The endpoint owns fd
 * from now on, on failure too. Returns 0 or -errno. TCP_NODELAY is set: an MPA frame is one write.
 */
int iwarp_tcp_attach(uv_loop_t *loop, int fd, struct iwarp_endpoint **ep);

/*
 * The same for a connected socket of the application, which has read early_len octets from it
 * already: they are copied, and read first, for which wake(user) asks. What the application has set
 * is kept in `options`, which outlives the endpoint. On failure fd stays the caller's, as it was.
 */
int iwarp_tcp_adopt(uv_loop_t *loop, int fd, const void *early, size_t early_len,
                    iwarp_wake_fn wake, void *user, struct iwarp_tcp_options *options,
                    struct iwarp_endpoint **ep);

/*
 * Instead of close, for an adopted one: returns the socket, open and set as it was before, and in
 * *early (to be freed; NULL if there are none) the early octets that nobody has taken.
 */
int iwarp_tcp_release(struct iwarp_endpoint *ep, uint8_t **early, size_t *early_len);

/* Its descriptor, for options of the socket; -1: another transport's, or octets of it were read
 * already (iwarp_tcp_adopt) and wait. */
int iwarp_tcp_socket(const struct iwarp_endpoint *ep);

/* Open a non-blocking socket and begin to connect, from `source` (source_len 0: from any address),
 * with this traffic class (-1: the system's). Returns the descriptor or -errno. */
int iwarp_tcp_connect(const struct sockaddr *addr, socklen_t addr_len,
                      const struct sockaddr *source, socklen_t source_len, int traffic_class);

/*
 * How long the peer may be out of reach: TCP_USER_TIMEOUT (0: the system's), and keepalive probes
 * from keepalive_s seconds of silence on (0: none). Does nothing to other transports' endpoints.
 */
void iwarp_tcp_patience(struct iwarp_endpoint *ep, unsigned user_timeout_ms, unsigned keepalive_s);

/* iwarp_tcp_acked of its socket. False for other transports' endpoints, too. */
bool iwarp_tcp_taken(struct iwarp_endpoint *ep, uint64_t *octets);

/*
 * Instead of watch: report `readable` once the peer has closed or the connection is lost. What the
 * peer sent is reported only when it is IWARP_UNREAD_MAX octets, or half of a smaller receive
 * buffer: behind more of them the peer's FIN might not fit into the window, and would never be
 * seen. Does nothing to other transports' endpoints.
 *
 * unread: true if it was reported for what the peer sent; *octets is how many octets that is.
 */
void iwarp_tcp_watch_end(struct iwarp_endpoint *ep);
bool iwarp_tcp_unread(struct iwarp_endpoint *ep, int *octets);

/*
 * Instead of watch: report `readable` once the peer has closed or the connection is lost, whatever
 * is unread. ending: is that so? *error is then the errno value that ended it, if it was not
 * returned by a call yet, or 0.
 */
void iwarp_tcp_await_end(struct iwarp_endpoint *ep, bool write);
bool iwarp_tcp_ending(struct iwarp_endpoint *ep, int *error);

/*
 * go_away: the loop stops watching an endpoint that is watched for reading only, since the caller
 * reads it again and again without being told (loop/hot.h). A watched socket costs its sender time
 * in the kernel. This holds until come_back, or until `watch` asks for something else. All on the
 * loop's thread; TCP only.
 */
void iwarp_tcp_go_away(struct iwarp_endpoint *ep);
void iwarp_tcp_come_back(struct iwarp_endpoint *ep);
bool iwarp_tcp_is_away(const struct iwarp_endpoint *ep);

/* 0, or the errno value with which connecting, or since then the connection, failed. */
int iwarp_tcp_error(struct iwarp_endpoint *ep);

/* Is it one of these? */
bool iwarp_tcp_is(const struct iwarp_endpoint *ep);

/* The socket's own address. */
void iwarp_tcp_local_addr(struct iwarp_endpoint *ep, struct sockaddr_storage *addr,
                          socklen_t *addr_len);

/* The peer's. */
void iwarp_tcp_peer_addr(struct iwarp_endpoint *ep, struct sockaddr_storage *addr,
                         socklen_t *addr_len);

/* Listening socket (non-blocking), or -errno. */
int iwarp_tcp_listen(const struct sockaddr *addr, socklen_t addr_len, int backlog);

/* --- memory (mem.c) -------------------------------------------------------------------------- */

/* They lend pieces of up to `most` octets, at least 1, by chance. */
struct iwarp_mem_loans {
    size_t most;
    uint64_t seed;
};

/* What an end can do now, of what it has no descriptor to tell. */
struct iwarp_mem_look {
    size_t unread, room; /* octets; unread: behind those that are held */
    bool fin;            /* behind what has arrived there is only the peer's FIN */
    bool broken;         /* a reset, or memory that was referred to is gone */
    bool released;       /* iwarp_loans.released would tell news */
};

/*
 * For the simulator: a pair whose octets arrive when it says so. slow: from now on, at both ends,
 * and nothing wakes them up any more. coming: octets on their way to this end. arrive: n of them
 * do.
 */
void iwarp_mem_slow(struct iwarp_endpoint *ep);
size_t iwarp_mem_coming(struct iwarp_endpoint *ep);
void iwarp_mem_arrive(struct iwarp_endpoint *ep, size_t n);
void iwarp_mem_look(struct iwarp_endpoint *ep, struct iwarp_mem_look *look);

/* Two endpoints joined by two pipes in memory. loans NULL: they have none. */
int iwarp_mem_pair(iwarp_wake_fn wake, void *user_a, void *user_b,
                   const struct iwarp_mem_loans *loans, struct iwarp_endpoint **a,
                   struct iwarp_endpoint **b);

#endif
