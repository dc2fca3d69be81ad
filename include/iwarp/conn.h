/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections: listen, connect, accept, reject, disconnect, abort, and the events that tell of
 * them.
 *
 * A connection (struct iwarp_conn) carries the stream of one queue pair from the MPA start-up
 * (RFC 5044 7.1, RFC 6581) to the close. Calls that start an operation return at once. Its result
 * arrives as an event in an event queue; iwarp_conn_wait and iwarp_conn_wait_end wait for it.
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
    bool crc;          /* ask for CRC32c (default true); it is off only if neither end asks */
    bool markers;      /* ask the peer to send markers (default false); this end sends markers
                        * if the peer asks for them, whatever this option says */
    bool peer_to_peer; /* initiator, revision 2: the responder may send first (default true); with
                        * revision 1, and at a responder, it has no effect */
    unsigned rtr;      /* with peer_to_peer: enum iwarp_rtr mask to offer or accept; 0: Read as
                        * initiator, all as responder. Read takes an ord of at least 1 */
    enum iwarp_placement placement; /* default VERIFIED; without CRC placement is always direct */
    unsigned ulpdu_max; /* octets, 128 to 64768; 0 (default): follow the path's segment size, since
                         * some RNICs drop FPDUs that are longer than a segment */
    unsigned ird;       /* RDMA Reads the peer may have outstanding here; default 32 */
    unsigned ord;       /* RDMA Reads outstanding towards the peer; default 32 */
    /* The next four times are at least 1 ms. */
    unsigned connect_timeout_ms; /* TCP set-up, default 10000 */
    unsigned
        startup_timeout_ms;    /* MPA start-up, default 10000 (initiator), half of it (responder) */
    unsigned close_timeout_ms; /* drain after close or Terminate, default 5000 */
    unsigned
        accept_timeout_ms; /* responder: a Request that nobody answers is rejected, default 60000 */
    /*
     * How TCP detects that the peer is gone (kernel TCP only: TCP_USER_TIMEOUT, keepalive). The
     * connection ends when the peer does not acknowledge octets, or has no room for them, for
     * user_timeout_ms. TCP probes a silent peer after keepalive_s; if no answer comes, the
     * connection ends within 2 * keepalive_s plus user_timeout_ms.
     */
    unsigned user_timeout_ms;      /* default 60000; 0: the system's default; at most 2^31-1 */
    unsigned keepalive_s;          /* default 30; 0: no probes; at most 32767 */
    const struct sockaddr *source; /* iwarp_connect: from this address, port 0: any; copied */
    socklen_t source_len;          /* of it; 0 (default): the system chooses */
    /*
     * Refuse what known peers send against the RFCs (default false: accept it): a Reject in the
     * older format, a Reply of revision 2 to a Request of revision 1, FPDUs of a responder before
     * the initiator's first, an RDMA Read with ird 0 in revision 1. Also parse Terminates only in
     * the layout of RFC 5040 4.8. Meant for testing peers.
     */
    bool strict;
    /*
     * Initiator over TCP: send a zero-length RDMA Write 100, 400 and 1600 ms after the peer's Reply
     * if this end has sent FPDUs and the peer has not sent an octet since (default true). Linux's
     * siw can overlook the first FPDU until more octets arrive; without the Write both ends would
     * wait for ever.
     */
    bool remind;
    /*
     * The queue pair outlives the connection (default false). If the connection is never
     * established, or ends because the peer or TCP has gone and no request of the send queue is
     * half carried out, the queue pair becomes IDLE, what is posted stays posted, and the queue
     * pair can be connected again. No asynchronous event tells of it, only the connection's. In all
     * other cases it goes to ERROR and is flushed, as without this option.
     */
    bool keep_qp;
    int traffic_class; /* iwarp_connect: IP_TOS or IPV6_TCLASS of sent packets, 0 to 255; TCP sets
                        * the two low bits (ECN) itself; -1 (default): the system's default */
    /*
     * Number of the worker that drives the connection, or the listener and its connections: 1 to
     * the device's number of workers; 0 (default): the workers in turn. With polled progress,
     * polling a completion or event queue runs the workers whose connections and listeners use the
     * queue or have used it. So threads that poll their own queues on their own workers do not
     * disturb each other, but a thread that arms a queue or waits makes all workers take over
     * their loops. The threads may listen on the same port, with SO_REUSEPORT and
     * iwarp_listen_socket. MISUSE: the device has fewer workers.
     */
    unsigned worker;
    /*
     * Listeners: the library calls admit for each connection when TCP has accepted it, before the
     * MPA start-up. If admit returns false, the connection is reset, does not count as a start-up,
     * and causes no event. NULL (default): all peers are admitted. peer is the address that
     * accept(2) returns; a listener on an IPv6 address may see IPv4-mapped addresses. The
     * listener's worker makes the call (embedded: the application's thread) and does nothing else
     * meanwhile: admit must not wait, nor call functions of the library that wait. Everything that
     * it uses must live until iwarp_listener_close has returned.
     */
    bool (*admit)(const struct sockaddr *peer, socklen_t peer_len, void *arg);
    void *admit_arg;
};

IWARP_API void iwarp_conn_options_init(struct iwarp_conn_options *options);

/* --- events ---------------------------------------------------------------------------------- */

enum iwarp_event_type {
    IWARP_EVENT_REQUEST = 1, /* a listener got a valid MPA Request: accept or reject `conn` */
    IWARP_EVENT_ESTABLISHED, /* the queue pair is in RTS */
    IWARP_EVENT_REJECTED,    /* the peer's ULP sent a Reject; iwarp_conn_private_data */
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
 * Return a descriptor that is readable while events wait. The queue owns it: use it for poll/epoll
 * only. An event may vanish before it is taken, so call iwarp_eq_get with time-out 0 when the
 * descriptor becomes readable.
 */
IWARP_API int iwarp_eq_fd(struct iwarp_eq *eq);

/* Take the oldest event; waits up to timeout_ms (< 0: for ever, 0: not at all). AGAIN if none came.
 */
IWARP_API enum iwarp_status iwarp_eq_get(struct iwarp_eq *eq, struct iwarp_event *event,
                                         int timeout_ms);

/* --- passive side ---------------------------------------------------------------------------- */

/*
 * Listen on addr (AF_INET or AF_INET6; port 0 picks one, see iwarp_listener_addr). options may be
 * NULL. backlog, at least 1, bounds the TCP connections that the kernel holds until they are
 * accepted, and the Requests that wait for an answer (for these it counts as at least 64, and as at
 * most a quarter of the process's descriptors). REQUEST events go to eq. MISUSE: device, addr, eq
 * or listener is NULL, the address is too short, or an option is out of its bounds. TRANSPORT: the
 * system refuses the address or the socket.
 *
 * A Request that waits for an answer is rejected after accept_timeout_ms, and ends when its peer
 * closes. When more Requests wait than the backlog allows, the library rejects the newest Request
 * of the address with the most Requests. When max_connections or the descriptors are used up, it
 * may reject a Request of an address with several. If the application has not taken the event of
 * such a Request, the event vanishes. If it has, no other event follows and iwarp_accept returns
 * CLOSED; the application must still destroy the connection.
 */
IWARP_API enum iwarp_status iwarp_listen(struct iwarp_device *device, const struct sockaddr *addr,
                                         socklen_t addr_len,
                                         const struct iwarp_conn_options *options, int backlog,
                                         struct iwarp_eq *eq, void *user,
                                         struct iwarp_listener **listener);

/*
 * The same on a TCP socket that the application has bound, with options of its own (SO_REUSEADDR,
 * IPV6_V6ONLY, IP_TOS, ...). The socket may listen already. After a successful call the library
 * owns fd; after a failure the application still owns it, but it may be listening and non-blocking.
 * MISUSE: fd is no such socket, or the library owns it already. TRANSPORT: the system refuses a
 * call on it.
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
 * of the listener; only crc, markers, rtr, placement, ulpdu_max, ird, ord, strict, keep_qp and
 * timeouts are used. ESTABLISHED or FAILED follows. Requests of the send queue wait until the
 * peer's first FPDU has arrived (RFC 5044 7.1.2 rule 4). MISUSE: conn or qp is NULL, there is too
 * much private data, conn waits for no answer, or an option is out of its bounds. CLOSED: the
 * Request has ended.
 */
IWARP_API enum iwarp_status iwarp_accept(struct iwarp_conn *conn, struct iwarp_qp *qp,
                                         const struct iwarp_conn_options *options,
                                         const void *private_data, size_t pd_len, void *user);

/*
 * Answer a REQUEST with a Reply that has the R (reject) bit set (RFC 5044 7.1.1), and close. The
 * application must still destroy conn. iwarp_disconnect and iwarp_conn_destroy send the same Reply
 * for a connection that waits for an answer; iwarp_abort resets it.
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
 * Switch a TCP socket from the application's own protocol to iWARP, as iSER does. Both ends must
 * switch at the same octet of each direction (RFC 5044 7.1). Either end of the socket may be the
 * initiator. The application reads its own protocol to the end and passes the octets that it has
 * read beyond that in `received` (copied, of any length). iwarp_connect_socket behaves otherwise as
 * iwarp_connect without mpa_fallback, and iwarp_accept_socket as iwarp_accept_over: the REQUEST
 * event goes to eq and names no listener.
 *
 * fd is a connected TCP socket. After a successful call the library owns it; a call that fails
 * leaves it as it was. MISUSE: fd is no such socket, the library owns it already, or another
 * argument is wrong. LIMIT: max_connections, or the event loop cannot watch fd.
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
 * Take the socket back after a start-up that established no connection: after REJECTED, after
 * iwarp_reject, and when the start-up timed out, ran out of memory or received the peer's FIN. The
 * socket is open, and its settings (flags, no-delay, keepalive) are restored. The library has read
 * *received_len octets that belong to no start-up frame and returns them in `received`; the octets
 * behind them are still in the socket. The application owns *fd then. iwarp_conn_destroy closes a
 * socket that was not taken.
 *
 * AGAIN: the start-up is not over. CLOSED: no socket is left, since a frame that is not MPA's
 * (RFC 5044 7.1.1), iwarp_abort or iwarp_disconnect has closed it. MISUSE: the connection was not
 * made from a socket, or `size` is too small (*received_len is the size needed).
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
 * Close in order: finish the requests that are posted (within close_timeout_ms), then send a FIN.
 * Requests that are posted later are not carried out. Posted receives still take what the peer
 * sends before its own FIN (RFC 5041 6.2.1). After the peer's FIN the remaining work is flushed,
 * and DISCONNECTED follows.
 */
IWARP_API enum iwarp_status iwarp_disconnect(struct iwarp_conn *conn);

/* Close at once with a TCP reset; everything posted is flushed. DISCONNECTED follows. */
IWARP_API enum iwarp_status iwarp_abort(struct iwarp_conn *conn);

/*
 * Release the object. Its waiting events vanish from the queue. If the connection has not ended, it
 * is aborted, unless iwarp_disconnect was called: then the library finishes the close in the
 * background, within close_timeout_ms (the queue pair may be destroyed when its work is done).
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
 * What the two ends negotiated. mpa_rev, peer_ird and peer_ord are known when the peer's frame has
 * arrived: also for a Request that is not answered yet, and for a Reply that rejects (RFC
 * 6581 9.1). All other members are 0 until the connection is established. MISUSE: no valid frame
 * has arrived.
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
    bool used; /* a request of either end's application has gone over it, even if not all of it */
};
IWARP_API enum iwarp_status iwarp_conn_info(const struct iwarp_conn *conn,
                                            struct iwarp_conn_info *info);

IWARP_END_DECLS

#endif
