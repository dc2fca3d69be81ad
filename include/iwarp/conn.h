/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections: listen, connect, accept, reject, disconnect, abort, and the events that tell of
 * them.
 *
 * A connection (struct iwarp_conn) carries the stream of one queue pair from the MPA start-up
 * (RFC 5044 7.1, RFC 6581) to the close. Calls that start an operation do not wait for the peer.
 * The result arrives as an event in an event queue; iwarp_conn_wait and iwarp_conn_wait_end wait
 * for it.
 *
 * Threads, forks, signals and NULL handles: as the head of verbs.h says. Most of these calls are
 * carried out by the connection's worker and wait for it, which takes microseconds. So they must
 * not be made out of a function that the library calls: admit, the notify function of a completion
 * queue, or the deliver function of async.h.
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
                        * time-outs hold for both tries together. With peer_to_peer this end then
                        * begins with an RDMA Write of no octets, so that the responder may send:
                        * it may have hung up for want of room, and know peer-to-peer mode */
    bool crc;          /* ask for CRC32c (default true); it is off only if neither end asks */
    bool markers;      /* ask the peer to send markers (default false); this end sends markers
                        * if the peer asks for them, whatever this option says */
    bool peer_to_peer; /* initiator, revision 2: the responder may send first (default true);
                        * with mpa_rev 1, and at a responder, it has no effect */
    unsigned rtr;      /* with peer_to_peer: enum iwarp_rtr mask to offer or accept; 0: Read as
                        * initiator, all as responder. With Read, an ord of 0 counts as 1 */
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
     * How this end detects that the peer is gone, or as good as gone (not in memory, and not over a
     * transport of the application). The connection ends when the peer does not acknowledge
     * octets, or has no room for them, for user_timeout_ms. It also ends when requests, or
     * answers to the peer's RDMA Reads, wait for room all the time and the peer takes less than an
     * octet a millisecond, which is 60000 within the default (TCP_SLOW; after twice
     * user_timeout_ms at most). TCP probes a silent peer after keepalive_s;
     * if no answer comes, the connection ends within 2 * keepalive_s plus user_timeout_ms.
     */
    unsigned user_timeout_ms;      /* default 60000; 0: the system's, and no pace; at most 2^31-1 */
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
    /*
     * A message that needs a receive (Send, Immediate Data) may come before the receive is posted.
     * RFC 5041 7.1 ends the stream then, and so does this end by default. With rnr_timeout_ms above
     * 0 the message waits so long for its receive, and only then the stream ends by the same
     * Terminate (fault DDP_WAITED). The library holds messages that wait in memory of its own, up
     * to about rnr_bytes octets with their headers, and then reads nothing more; a close or reset
     * of the peer is noticed all the same (over kernel TCP). Messages complete in the order in
     * which they were sent. What else arrives behind a message that waits is carried on with:
     * RDMA Writes, RDMA Reads of the peer, and the responses to this end's. After the peer's FIN,
     * messages wait for no longer than close_timeout_ms; iwarp_disconnect drops them.
     */
    unsigned rnr_timeout_ms; /* IWARP_RNR_OF_DEVICE (default): the device's; 0: end at once */
    unsigned rnr_bytes;      /* 0 (default): the device's */
    /*
     * Sends with Immediate Data. With ASK there is room for 8 octets less of private data. An
     * iwarp_accept whose option is DEFAULT takes that of the listener.
     */
    enum iwarp_send_imm send_imm;
    /*
     * TLS below MPA (iwarp/tls.h): NULL (default) is what the device says, "off" a plain
     * connection. Each text is read once and kept until the device is closed. Connections in memory
     * (iwarp_connect_pair) are always plain. A socket of the application that has carried TLS is
     * not handed back. MISUSE: the text is wrong, or a file that it names. iwarp_accept does not
     * use it.
     */
    const char *tls;
    /*
     * Listeners: the networks whose peers are let in, as "192.0.2.0/24,2001:db8::/32"; an address
     * alone is a network of its own. NULL (default) is what IWARP_ALLOW in the environment or a
     * file of settings says, else everybody; "" is everybody. Others are treated as if `admit` had
     * returned false, which is asked after this. The text may go when the call has returned.
     * MISUSE: something in it is no network, or has bits behind its prefix.
     */
    const char *allow;
    /*
     * iwarp_connect: for how long, in milliseconds, a connection is tried again that TCP refuses
     * because nobody listens yet; every 10 ms, and within connect_timeout_ms. 0 (default): the
     * first refusal is reported.
     */
    unsigned refused_ms;
};

#define IWARP_RNR_OF_DEVICE 0xffffffffu

/*
 * Set *options to the defaults. Some defaults come from the environment or a file of settings:
 * IWARP_MPA_REV, IWARP_CRC, IWARP_MARKERS, IWARP_PLACEMENT, IWARP_ULPDU_MAX, IWARP_STRICT
 * (iwarp_env(7)).
 *
 * Each function below that takes options copies them, takes NULL for the defaults, and returns
 * MISUSE for a member out of its bounds or a struct of another size; iwarp_last_error names the
 * member.
 */
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

/*
 * Create an event queue, which connections and listeners of this device report to. It takes one
 * descriptor. The application destroys it with iwarp_eq_destroy. LIMIT: the system gives no
 * descriptor. NO_MEMORY.
 */
IWARP_API enum iwarp_status iwarp_eq_create(struct iwarp_device *device, struct iwarp_eq **eq);

/*
 * Destroy an event queue. MISUSE: a listener, or a connection that was not destroyed, reports to
 * it.
 */
IWARP_API enum iwarp_status iwarp_eq_destroy(struct iwarp_eq *eq);

/*
 * Return a descriptor that is readable while events wait; -1 if eq is NULL. The queue owns it: use
 * it for poll/epoll only. An event may vanish before it is taken, so call iwarp_eq_get with
 * time-out 0 when the descriptor becomes readable.
 */
IWARP_API int iwarp_eq_fd(struct iwarp_eq *eq);

/*
 * Take the oldest event and copy it to *event. Wait for it for timeout_ms milliseconds at most (<
 * 0: for ever, 0: not at all). Any number of threads may take events of one queue; each event goes
 * to one of them. A cancellation point while it sleeps; with embedded progress it runs the loop
 * meanwhile, and with polled progress a call with time-out 0 runs the workers that serve the queue.
 *
 * OK: *event is set. AGAIN: no event came in time.
 */
IWARP_API enum iwarp_status iwarp_eq_get(struct iwarp_eq *eq, struct iwarp_event *event,
                                         int timeout_ms);

/* --- passive side ---------------------------------------------------------------------------- */

/*
 * Listen for TCP connections on addr (AF_INET or AF_INET6; port 0 picks a port, see
 * iwarp_listener_addr). REQUEST events go to eq, with `user`. *listener belongs to the application,
 * which closes it with iwarp_listener_close. The options (NULL: defaults) are those of the
 * listener's connections. The call returns when the socket listens.
 *
 * backlog, at least 1, bounds two things: the TCP connections that the kernel holds until the
 * library accepts them, and the Requests that wait for an answer (for these it counts as at least
 * 64, and as at most a quarter of the descriptors that the process may have open).
 *
 * A Request that waits for an answer is rejected after accept_timeout_ms, and ends when its peer
 * closes. The library also rejects Requests to make room. When more wait than the backlog allows,
 * it rejects the newest Request of the address with the most Requests. When max_connections, the
 * descriptors or memory are used up, it drops a start-up or rejects a Request of an address that
 * has several of them. If the application has not taken the event of a rejected Request, the event
 * vanishes. If it has, no other event follows and iwarp_accept returns CLOSED; the application must
 * still destroy the connection.
 *
 * MISUSE: an argument is NULL, eq is of another device, backlog is less than 1, the address is too
 * short or of another family, or an option is out of its bounds. TRANSPORT: the system refuses the
 * address or the socket. LIMIT: the event loop cannot watch the socket. NO_MEMORY.
 */
IWARP_API enum iwarp_status iwarp_listen(struct iwarp_device *device, const struct sockaddr *addr,
                                         socklen_t addr_len,
                                         const struct iwarp_conn_options *options, int backlog,
                                         struct iwarp_eq *eq, void *user,
                                         struct iwarp_listener **listener);

/*
 * The same on a TCP socket that the application has bound, with socket options of its own
 * (SO_REUSEADDR, IPV6_V6ONLY, IP_TOS, ...). The socket may listen already; the call sets its
 * backlog anew and makes it non-blocking. Connections inherit its options but for SO_LINGER,
 * SO_RCVLOWAT and TCP_CORK. After a successful call the library owns fd and closes it
 * with the listener. After a failure the application still owns it, but it may be listening and
 * non-blocking.
 *
 * MISUSE: fd is no TCP socket, is not bound, or is connected; the library owns it already; or as
 * for iwarp_listen. TRANSPORT: fcntl(2) or listen(2) fails on it. LIMIT, NO_MEMORY: as for
 * iwarp_listen.
 */
IWARP_API enum iwarp_status iwarp_listen_socket(struct iwarp_device *device, int fd,
                                                const struct iwarp_conn_options *options,
                                                int backlog, struct iwarp_eq *eq, void *user,
                                                struct iwarp_listener **listener);
/*
 * Copy the address that the listener listens on to *addr, and its length in octets to *addr_len. If
 * port 0 was asked for, the address has the port that the system picked.
 */
IWARP_API enum iwarp_status iwarp_listener_addr(const struct iwarp_listener *listener,
                                                struct sockaddr_storage *addr, socklen_t *addr_len);

/*
 * Stop listening and release the listener. Connections whose REQUEST event was not taken are
 * closed, and their events vanish from the queue; connections that the application has seen stay.
 * The call waits for the listener's worker: when it has returned, `admit` does not run and is not
 * called any more.
 */
IWARP_API enum iwarp_status iwarp_listener_close(struct iwarp_listener *listener);

/*
 * Answer a REQUEST: bind qp (IDLE, same device) to conn and send the MPA Reply (RFC 5044 7.1.2)
 * with pd_len octets of private data, which are copied: at most 512 octets to a Request of revision
 * 1, 508 to one of revision 2 (RFC 6581 9). options NULL: those of the listener; only crc, markers,
 * rtr, placement, ulpdu_max, ird, ord, strict, send_imm, rnr_bytes, keep_qp and the times are
 * used. `user` replaces that of the listener in later events. The call waits for the connection's
 * worker to send the Reply.
 *
 * OK: ESTABLISHED or FAILED follows. Requests of the send queue wait until the peer's first FPDU
 * has arrived (RFC 5044 7.1.2 rule 4). MISUSE: conn or qp is NULL, there is too much private data,
 * qp is not IDLE or is connected, conn waits for no answer, or an option is out of its bounds; the
 * Request still waits. CLOSED: the Request has ended; destroy conn.
 */
IWARP_API enum iwarp_status iwarp_accept(struct iwarp_conn *conn, struct iwarp_qp *qp,
                                         const struct iwarp_conn_options *options,
                                         const void *private_data, size_t pd_len, void *user);

/*
 * Answer a REQUEST with a Reply that has the R (reject) bit set (RFC 5044 7.1.1), and close. No
 * event follows, and the application must still destroy conn. private_data and pd_len are as for
 * iwarp_accept. iwarp_disconnect and iwarp_conn_destroy send the same Reply, without private data,
 * for a connection that waits for an answer; iwarp_abort resets it.
 *
 * MISUSE, CLOSED: as for iwarp_accept.
 */
IWARP_API enum iwarp_status iwarp_reject(struct iwarp_conn *conn, const void *private_data,
                                         size_t pd_len);

/* --- active side ----------------------------------------------------------------------------- */

/*
 * Connect qp (IDLE) to the listener at addr: TCP first, then the MPA Request (RFC 5044 7.1.2). The
 * call returns when the attempt has begun. ESTABLISHED, REJECTED or FAILED goes to eq, with `user`;
 * eq may be NULL if iwarp_conn_wait is used instead. Every failure after the checks of this call
 * comes as an event, those of connect(2) too. *conn belongs to the application, which releases it
 * with iwarp_conn_destroy, and is set before the first event names it.
 *
 * private_data is copied; at most 512 octets with revision 1, 508 with revision 2. Some peers take
 * 256 octets in all: up to 252 octets reach every known one.
 *
 * MISUSE: qp, addr or conn is NULL, or private_data with pd_len > 0; the address is too short, or
 * options->source is of another family; an option is out of its bounds; eq is of another device;
 * there is too much private data; qp is not IDLE or is connected. LIMIT: max_connections.
 * NO_MEMORY. After any of these qp is as it was.
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
 * fd is a connected TCP socket. After a successful call the library owns it, and sets options:
 * SO_LINGER, SO_RCVLOWAT and TCP_CORK are off from then on. A call that fails leaves it as it was.
 * MISUSE: fd is no such socket, the library owns it already, or another argument is wrong. LIMIT:
 * max_connections, or the event loop cannot watch fd.
 *
 * Such a connection ends as its TCP would: a close goes on as long as the peer takes octets within
 * each close_timeout_ms, and is no reset if TCP has all of them.
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
 * socket is open, and its flags and options are as they were. The library has read
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
 * whole protocol runs, and no descriptor is used. For tests, examples and simulation. options
 * (NULL: defaults) are those of both ends. The responder accepts whatever the initiator asks for,
 * without a REQUEST event. Both connections report to eq, which may be NULL, and both are to be
 * destroyed.
 *
 * MISUSE: a queue pair or the place for a connection is NULL; the queue pairs are the same, of
 * different devices, not IDLE or connected; or an option is out of its bounds. LIMIT:
 * max_connections. NO_MEMORY. After a failure both queue pairs are as they were.
 */
IWARP_API enum iwarp_status iwarp_connect_pair(struct iwarp_qp *initiator,
                                               struct iwarp_qp *responder,
                                               const struct iwarp_conn_options *options,
                                               struct iwarp_eq *eq,
                                               struct iwarp_conn **initiator_conn,
                                               struct iwarp_conn **responder_conn);

/* --- both sides ------------------------------------------------------------------------------ */

/*
 * Wait until the connection is established, or has failed or ended, for timeout_ms milliseconds at
 * most (< 0: for ever). Any thread may wait, and several may wait for one connection. A
 * cancellation point while it sleeps; with embedded progress it runs the loop meanwhile.
 *
 * OK: established. AGAIN: time is up. CLOSED: this side has ended it, or it ended in order. Any
 * other status is that of the fault with which it failed or ended: PEER (rejected, or closed by the
 * peer), TRANSPORT, PROTOCOL, LIMIT or NO_MEMORY. iwarp_last_error has the sentence,
 * iwarp_conn_fault the fault.
 */
IWARP_API enum iwarp_status iwarp_conn_wait(struct iwarp_conn *conn, int timeout_ms);

/*
 * Wait until the connection has ended, whatever the reason, for timeout_ms milliseconds at most (<
 * 0: for ever). All its work requests are completed or flushed then; their completions can be
 * polled. AGAIN: time is up. Threads and cancellation: as for iwarp_conn_wait.
 */
IWARP_API enum iwarp_status iwarp_conn_wait_end(struct iwarp_conn *conn, int timeout_ms);

/*
 * Close in order (RFC 5040 6.2): finish the requests that are posted, within close_timeout_ms, then
 * send a FIN. Requests that are posted later are flushed. Posted receives still take what the peer
 * sends before its own FIN (RFC 5041 6.2.1). After the peer's FIN the remaining work is flushed,
 * and DISCONNECTED follows. A start-up that is not over is ended with a reset, and FAILED follows;
 * a REQUEST is rejected (iwarp_reject).
 *
 * The call returns when closing has begun, and does nothing to a connection that has ended.
 */
IWARP_API enum iwarp_status iwarp_disconnect(struct iwarp_conn *conn);

/*
 * Close at once with a TCP reset. What is posted is flushed, and what is in flight may be lost.
 * DISCONNECTED follows; FAILED, if the connection was not established; no event, if it is a
 * REQUEST. The call does nothing to a connection that has ended.
 */
IWARP_API enum iwarp_status iwarp_abort(struct iwarp_conn *conn);

/*
 * Release the object. Its waiting events vanish from the queue, and no event names it afterwards.
 * If the connection has not ended, it is aborted; but after iwarp_disconnect the library finishes
 * the close in the background, within close_timeout_ms, and the queue pair may be destroyed when
 * its work is done. The call waits for the connection's worker. No other thread may use conn during
 * the call or after it.
 */
IWARP_API enum iwarp_status iwarp_conn_destroy(struct iwarp_conn *conn);

/*
 * Return the private data of the peer's Request or Reply, without the words of RFC 6581 9, and
 * their length in octets in *pd_len (pd_len may be NULL). They are known with the events REQUEST,
 * ESTABLISHED and REJECTED. The connection owns them, and they stay until it is destroyed. Never
 * NULL: without private data it is an empty string and *pd_len is 0.
 */
IWARP_API const void *iwarp_conn_private_data(const struct iwarp_conn *conn, size_t *pd_len);

/*
 * Copy the address of the peer, or that of this end, to *addr, and its length in octets to
 * *addr_len. MISUSE: the address is not known yet, or the connection is not over TCP.
 */
IWARP_API enum iwarp_status iwarp_conn_peer_addr(const struct iwarp_conn *conn,
                                                 struct sockaddr_storage *addr,
                                                 socklen_t *addr_len);
IWARP_API enum iwarp_status iwarp_conn_local_addr(const struct iwarp_conn *conn,
                                                  struct sockaddr_storage *addr,
                                                  socklen_t *addr_len);

/* Return the queue pair; NULL before iwarp_accept, and after the queue pair was destroyed. */
IWARP_API struct iwarp_qp *iwarp_conn_qp(const struct iwarp_conn *conn);

/* Return the pointer that connecting or accepting was called with; before that, the listener's. */
IWARP_API void *iwarp_conn_user(const struct iwarp_conn *conn);

/*
 * Return why the connection failed or ended; NULL if it has not, or ended in order. The connection
 * owns the fault, which stays until the connection is destroyed.
 */
IWARP_API const struct iwarp_fault *iwarp_conn_fault(const struct iwarp_conn *conn);

/*
 * Set how long a message waits for its receive (rnr_timeout_ms, IWARP_RNR_OF_DEVICE included) from
 * now on, and for a message that waits already: for applications whose peers tell it in their
 * private data. MISUSE: the connection is not established, or was begun with the option at 0.
 */
IWARP_API enum iwarp_status iwarp_conn_set_rnr_timeout(struct iwarp_conn *conn, unsigned ms);

/*
 * What the two ends negotiated (RFC 5044 7.1, RFC 6581 9). mpa_rev, peer_ird and peer_ord are known
 * when the peer's frame has arrived: also for a Request that is not answered yet, and for a Reply
 * that rejects (RFC 6581 9.1). All other members are 0 until the connection is established.
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
    bool send_imm;               /* Sends with Immediate Data are agreed on */
    bool used; /* a request of either end's application has gone over it, even if not all of it */
};

/* Fill in *info, whose size the caller has set. MISUSE: another size, or no valid frame has come.
 */
IWARP_API enum iwarp_status iwarp_conn_info(const struct iwarp_conn *conn,
                                            struct iwarp_conn_info *info);

IWARP_END_DECLS

#endif
