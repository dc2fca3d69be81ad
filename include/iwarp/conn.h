/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections: listen, connect, accept, reject, disconnect, abort, and the events that tell of
 * them.
 *
 * A connection (struct iwarp_conn) carries the stream of one queue pair from the MPA start-up
 * (RFC 5044 7.1, RFC 6581) to the close. All calls return at once; what became of them arrives as
 * an event, or can be waited for with iwarp_conn_wait.
 */
#ifndef IWARP_CONN_H
#define IWARP_CONN_H

#include <iwarp/api.h>
#include <iwarp/protocol.h>
#include <iwarp/status.h>
#include <iwarp/verbs.h>
#include <sys/socket.h>

IWARP_BEGIN_DECLS

struct iwarp_conn;
struct iwarp_listener;
struct iwarp_eq;

#define IWARP_DEFAULT_PORT 7475 /* of the example programs; iWARP itself has no fixed port */

/* --- options --------------------------------------------------------------------------------- */

enum iwarp_placement {
    IWARP_PLACE_VERIFIED =
        0,                /* payload enters user memory only after its CRC was right (RFC 5044 6) */
    IWARP_PLACE_EARLY = 1 /* payload is placed as it arrives, delivered after the CRC was right */
};

/* Options of one connection (or of all that a listener accepts). Initialise with the init function.
 */
struct iwarp_conn_options {
    size_t size;       /* set by init */
    unsigned mpa_rev;  /* initiator: 1 or 2 (default). The responder follows the Request. */
    bool mpa_fallback; /* initiator, revision 2: if the peer hangs up without an octet of a Reply,
                        * connect again with revision 1, once (RFC 6581 10); default true. The
                        * time-outs hold for both tries together */
    bool crc;          /* ask for CRC32c (default true); it is off only if both say so */
    bool markers;      /* ask the peer for markers (default false); it gets them if it asks */
    bool peer_to_peer; /* initiator, revision 2: the responder may send first (default true); with
                        * revision 1, and at a responder, it has no effect */
    unsigned rtr;      /* with peer_to_peer: enum iwarp_rtr mask to offer or accept; 0: Read as
                        * initiator, all as responder. Read takes an ord of at least 1 */
    enum iwarp_placement placement; /* default VERIFIED; without CRC placement is always direct */
    unsigned ulpdu_max; /* octets, 128 to 64768, 0 (default): from the path's segment size,
                         * which is followed, and some RNICs drop what is longer */
    unsigned ird;       /* RDMA Reads the peer may have outstanding here; default 32 */
    unsigned ord;       /* RDMA Reads outstanding towards the peer; default 32 */
    /* Times are at least 1. */
    unsigned connect_timeout_ms; /* TCP set-up, default 10000 */
    unsigned
        startup_timeout_ms;    /* MPA start-up, default 10000 (initiator), half of it (responder) */
    unsigned close_timeout_ms; /* drain after close or Terminate, default 5000 */
    unsigned
        accept_timeout_ms; /* responder: a Request that nobody answers is rejected, default 60000 */
    /*
     * A peer that vanishes (kernel TCP only): sent octets that stay without acknowledgement, or
     * find no room at the peer, for user_timeout_ms end the connection; a silent one is asked for
     * signs of life after keepalive_s, and ended within twice that plus user_timeout_ms.
     */
    unsigned user_timeout_ms;      /* default 60000, 0: as the system has it, at most 2^31-1 */
    unsigned keepalive_s;          /* default 30, 0: never asked, at most 32767 */
    const struct sockaddr *source; /* iwarp_connect: from this address, port 0: any; copied */
    socklen_t source_len;          /* of it; 0 (default): the system chooses */
    /*
     * Take nothing that the RFCs do not allow, though known peers send it (default false): a Reject
     * in the older format, a Reply of revision 2 to a Request of revision 1, FPDUs of a responder
     * before the initiator's first, an RDMA Read with ird 0 in revision 1; and read Terminates as
     * RFC 5040 4.8 has them only. For testing peers.
     */
    bool strict;
    /*
     * Initiator over TCP: if the peer has not sent an octet 100, 400 and 1600 ms after its Reply
     * though something was sent to it, send a zero-length RDMA Write (default true). The siw of
     * Linux can overlook the first FPDU until more octets come, and both sides would wait for ever.
     */
    bool remind;
    int traffic_class; /* iwarp_connect: IP_TOS or IPV6_TCLASS of what is sent, 0 to 255, whose
                        * two low bits are TCP's own (ECN); -1 (default): the system's */
    /*
     * Which of the device's workers drives the connection, or the listener and all that it gets: 1
     * to their number; 0 (default): one after the other. With polled progress, polling a completion
     * or event queue runs those workers whose connections and listeners use it, or did, so threads
     * that poll queues of their own, with workers of their own, do not disturb each other (to arm a
     * queue, or to wait, calls back all workers); each of them may listen on the same port, with
     * SO_REUSEPORT and iwarp_listen_socket. MISUSE: the device has fewer.
     */
    unsigned worker;
    /*
     * Listeners: asked about each connection as soon as TCP has accepted it, before the MPA
     * start-up; false: it is reset, takes no place among the start-ups, and no event tells of it.
     * NULL (default): all are admitted. peer is as accept(2) gives it, so a listener on an address
     * of IPv6 may see addresses of IPv4 mapped into it. Called on the listener's worker (embedded:
     * the application's thread), which does nothing else meanwhile: it may not wait, nor call
     * functions of the library that do. Everything it uses has to live until iwarp_listener_close
     * has returned.
     */
    bool (*admit)(const struct sockaddr *peer, socklen_t peer_len, void *arg);
    void *admit_arg;
};

IWARP_API void iwarp_conn_options_init(struct iwarp_conn_options *options);

/* --- events ---------------------------------------------------------------------------------- */

enum iwarp_event_type {
    IWARP_EVENT_REQUEST = 1, /* a listener got a valid MPA Request: accept or reject `conn` */
    IWARP_EVENT_ESTABLISHED, /* the queue pair is in RTS */
    IWARP_EVENT_REJECTED,    /* the peer's ULP said no; its private data is at `conn` */
    IWARP_EVENT_FAILED,      /* never established: refused, timed out, not an iWARP peer */
    IWARP_EVENT_DISCONNECTED /* was established, has ended; `status` OK if in order */
};

struct iwarp_event {
    enum iwarp_event_type type;
    enum iwarp_status status; /* OK, or what kind of failure */
    struct iwarp_conn *conn;
    struct iwarp_listener *listener; /* REQUEST only */
    void *user;                      /* of the listener (REQUEST) or of the connection */
    const struct iwarp_fault *fault; /* NULL if none; valid while conn exists */
    uint64_t reserved[2];
};

IWARP_API enum iwarp_status iwarp_eq_create(struct iwarp_device *device, struct iwarp_eq **eq);

/* MISUSE while a listener or connection reports to it. */
IWARP_API enum iwarp_status iwarp_eq_destroy(struct iwarp_eq *eq);

/*
 * Readable while events wait; owned by the queue, for poll/epoll only. An event may vanish before
 * it is taken, so ask with time-out 0 then.
 */
IWARP_API int iwarp_eq_fd(struct iwarp_eq *eq);

/* Take the oldest event; waits up to timeout_ms (< 0: for ever, 0: not at all). AGAIN if none came.
 */
IWARP_API enum iwarp_status iwarp_eq_get(struct iwarp_eq *eq, struct iwarp_event *event,
                                         int timeout_ms);

/* --- passive side ---------------------------------------------------------------------------- */

/*
 * Listen on addr (AF_INET or AF_INET6; port 0 picks one, see iwarp_listener_addr). options may be
 * NULL. backlog, at least 1: how many TCP connections the kernel keeps for later, and how many
 * Requests may wait for an answer, where less than 64 counts as 64, and more than a quarter of the
 * process's descriptors as that. REQUEST events go to eq. MISUSE: what cannot be meant (NULL for
 * device, addr, eq or listener, too short an address, an option out of its bounds); TRANSPORT: what
 * the system refuses.
 *
 * A Request that waits for an answer is rejected after accept_timeout_ms, and ends if its peer
 * goes. If one too many waits, one is rejected: the newest of the address that has most of them; so
 * is one of an address with several when max_connections or the descriptors are used up. If the
 * event of such a Request was not taken yet, it vanishes; if it was, no further event tells,
 * accepting it returns CLOSED, and it is to be destroyed all the same.
 */
IWARP_API enum iwarp_status iwarp_listen(struct iwarp_device *device, const struct sockaddr *addr,
                                         socklen_t addr_len,
                                         const struct iwarp_conn_options *options, int backlog,
                                         struct iwarp_eq *eq, void *user,
                                         struct iwarp_listener **listener);

/*
 * The same on a TCP socket that the application has bound, with options of its own (SO_REUSEADDR,
 * IPV6_V6ONLY, IP_TOS, ...), listening or not. fd belongs to the library from a successful call on;
 * on failure it stays the application's, but may listen and not block. MISUSE: it is no such
 * socket, or the library's already. TRANSPORT: what the system refuses.
 */
IWARP_API enum iwarp_status iwarp_listen_socket(struct iwarp_device *device, int fd,
                                                const struct iwarp_conn_options *options,
                                                int backlog, struct iwarp_eq *eq, void *user,
                                                struct iwarp_listener **listener);
IWARP_API enum iwarp_status iwarp_listener_addr(const struct iwarp_listener *listener,
                                                struct sockaddr_storage *addr, socklen_t *addr_len);

/* Stop listening. Requests not yet taken from the event queue are closed and vanish from it. */
IWARP_API enum iwarp_status iwarp_listener_close(struct iwarp_listener *listener);

/*
 * Answer a REQUEST: bind qp (IDLE, same device) to conn and send the MPA Reply with pd_len octets
 * of private data (at most 512 for revision 1, 508 for revision 2). options may be NULL for those
 * of the listener; only crc, markers, rtr, placement, ulpdu_max, ird, ord, strict and timeouts are
 * looked at. ESTABLISHED or FAILED follows. Send queue work waits until the peer's first FPDU has
 * come (RFC 5044 7.1.2 rule 4). MISUSE: conn or qp is NULL, too much private data, a conn that
 * waits for no answer, an option out of its bounds. CLOSED: the request has gone already.
 */
IWARP_API enum iwarp_status iwarp_accept(struct iwarp_conn *conn, struct iwarp_qp *qp,
                                         const struct iwarp_conn_options *options,
                                         const void *private_data, size_t pd_len, void *user);

/*
 * Answer with a Reply that says no, and close. conn must still be destroyed. To disconnect or
 * destroy a connection that waits for an answer sends the same Reply; iwarp_abort resets.
 */
IWARP_API enum iwarp_status iwarp_reject(struct iwarp_conn *conn, const void *private_data,
                                         size_t pd_len);

/* --- active side ----------------------------------------------------------------------------- */

/*
 * Connect qp (IDLE) to a listener. ESTABLISHED, REJECTED or FAILED goes to eq, which may be NULL if
 * iwarp_conn_wait is used instead. private_data is copied; at most 512 octets (revision 2: 508).
 * Some peers take 256 in all: up to 252 octets reach every known one.
 * MISUSE: NULL for qp, addr or conn, or for private_data with pd_len > 0; too short an address; an
 * option out of its bounds; a queue pair that is not IDLE. LIMIT: max_connections.
 */
IWARP_API enum iwarp_status iwarp_connect(struct iwarp_qp *qp, const struct sockaddr *addr,
                                          socklen_t addr_len,
                                          const struct iwarp_conn_options *options,
                                          const void *private_data, size_t pd_len,
                                          struct iwarp_eq *eq, void *user,
                                          struct iwarp_conn **conn);

/* --- sockets that are connected already ------------------------------------------------------ */

/*
 * Go over from an application's own protocol on a TCP socket to iWARP, as iSER does: both ends at
 * the same octet of each direction (RFC 5044 7.1). Either end of the socket may be the initiator;
 * the application has read everything of its own protocol, and hands in what it has read beyond
 * that (received, copied; of any length). Events and the rest are as for iwarp_connect, without
 * mpa_fallback, and as for iwarp_accept_over: REQUEST goes to eq, with no listener.
 *
 * fd, a connected TCP socket, belongs to the library from a successful call on; on failure nothing
 * has happened to it. MISUSE: it is none, or belongs to the library already, or the other arguments
 * are wrong. LIMIT: max_connections, or the event loop cannot watch it.
 */
IWARP_API enum iwarp_status iwarp_connect_socket(struct iwarp_qp *qp, int fd, const void *received,
                                                 size_t received_len,
                                                 const struct iwarp_conn_options *options,
                                                 const void *private_data, size_t pd_len,
                                                 struct iwarp_eq *eq, void *user,
                                                 struct iwarp_conn **conn);
IWARP_API enum iwarp_status iwarp_accept_socket(struct iwarp_device *device, int fd,
                                                const void *received, size_t received_len,
                                                const struct iwarp_conn_options *options,
                                                struct iwarp_eq *eq, void *user,
                                                struct iwarp_conn **conn);

/*
 * Take the socket back when no connection came of it: after REJECTED, after iwarp_reject, and where
 * the start-up timed out, ran out of memory or met the peer's FIN. It is open and set as it was
 * before (flags, no-delay, keepalive). *received_len octets of `received` were read from it and
 * belong to no start-up frame; what follows them is still in the socket. Whoever does not take it
 * has it closed with the connection's handle.
 *
 * AGAIN: the start-up is not over. CLOSED: there is nothing to take; a frame that was not MPA's has
 * TCP closed (RFC 5044 7.1.1), and so have iwarp_abort and iwarp_disconnect. MISUSE: the connection
 * is of another kind, or `size` is too small; *received_len says how large.
 */
IWARP_API enum iwarp_status iwarp_conn_take_socket(struct iwarp_conn *conn, int *fd, void *received,
                                                   size_t size, size_t *received_len);

/* --- two queue pairs of one device ----------------------------------------------------------- */

/*
 * Connect two IDLE queue pairs of one device with each other through memory instead of TCP: the
 * whole protocol runs, no descriptor is used. For tests, examples and simulation.
 */
IWARP_API enum iwarp_status iwarp_connect_pair(struct iwarp_qp *initiator,
                                               struct iwarp_qp *responder,
                                               const struct iwarp_conn_options *options,
                                               struct iwarp_eq *eq,
                                               struct iwarp_conn **initiator_conn,
                                               struct iwarp_conn **responder_conn);

/* --- both sides ------------------------------------------------------------------------------ */

/*
 * Wait until the connection is established (OK), or has failed or ended: PEER (rejected, closed by
 * the peer), TRANSPORT, PROTOCOL or CLOSED. AGAIN after timeout_ms (< 0: for ever).
 */
IWARP_API enum iwarp_status iwarp_conn_wait(struct iwarp_conn *conn, int timeout_ms);

/* Wait until the connection has ended, whatever the reason. AGAIN after timeout_ms. */
IWARP_API enum iwarp_status iwarp_conn_wait_end(struct iwarp_conn *conn, int timeout_ms);

/*
 * Close in order: work posted before is finished first (bounded by close_timeout_ms), then FIN.
 * What is posted from now on is not carried out; receives still serve what the peer sends before
 * its own FIN (RFC 5041 6.2.1). When that has come, what is left is flushed, and DISCONNECTED
 * follows.
 */
IWARP_API enum iwarp_status iwarp_disconnect(struct iwarp_conn *conn);

/* Close at once with a TCP reset; everything posted is flushed. DISCONNECTED follows. */
IWARP_API enum iwarp_status iwarp_abort(struct iwarp_conn *conn);

/*
 * Release the object: its waiting events vanish from the queue. A connection that lives is aborted,
 * unless iwarp_disconnect was called before: then the close is finished in the background, within
 * close_timeout_ms (the queue pair may be destroyed as soon as its work is done).
 */
IWARP_API enum iwarp_status iwarp_conn_destroy(struct iwarp_conn *conn);

/* The peer's private data (of the Request or Reply), without the enhanced words. Never NULL. */
IWARP_API const void *iwarp_conn_private_data(const struct iwarp_conn *conn, size_t *pd_len);

IWARP_API enum iwarp_status iwarp_conn_peer_addr(const struct iwarp_conn *conn,
                                                 struct sockaddr_storage *addr,
                                                 socklen_t *addr_len);
IWARP_API enum iwarp_status iwarp_conn_local_addr(const struct iwarp_conn *conn,
                                                  struct sockaddr_storage *addr,
                                                  socklen_t *addr_len);
IWARP_API struct iwarp_qp *iwarp_conn_qp(const struct iwarp_conn *conn);
IWARP_API void *iwarp_conn_user(const struct iwarp_conn *conn);

/* Why the connection failed or ended; NULL if it has not, or ended in order. */
IWARP_API const struct iwarp_fault *iwarp_conn_fault(const struct iwarp_conn *conn);

/*
 * What the start-up settled. Known from the peer's frame on are mpa_rev, peer_ird and peer_ord:
 * also of a Request before it is answered, and of a Reply that says no (RFC 6581 9.1). The rest is
 * 0 until the connection is established. MISUSE as long as no frame that is in order has come.
 */
struct iwarp_conn_info {
    size_t size;                 /* set by the caller to sizeof(struct iwarp_conn_info) */
    unsigned mpa_rev;            /* revision in use */
    bool crc;                    /* CRC32c in use */
    unsigned ird, ord;           /* depths in use here */
    unsigned peer_ird, peer_ord; /* as the peer announced; 0 with revision 1 */
    unsigned mulpdu;             /* largest ULPDU sent now, octets */
    bool markers_sent;           /* the peer asked for markers */
    bool markers_wanted;         /* this end did */
    unsigned rtr;                /* enum iwarp_rtr that peer-to-peer mode settled on, or 0 */
};
IWARP_API enum iwarp_status iwarp_conn_info(const struct iwarp_conn *conn,
                                            struct iwarp_conn_info *info);

IWARP_END_DECLS

#endif
