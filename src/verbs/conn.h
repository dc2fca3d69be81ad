/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection: one end of an MPA connection, from its begin to its end.
 *
 * Life: created by a call that connects, by a listener, or by a call that accepts over something
 * that is connected already.  It is counted (`refs`), and freed with the last reference. References
 * are held by the application's handle, or until there is one by the listener's event; by the
 * worker while the endpoint lives; by the queue pair; and by each task that waits for the worker.
 *
 * Lock: conn.lock guards everything in it that no other lock is named for: state, endpoint, stream,
 * and the consumer side of the work queues.  iwarp_conn_unlock gives it back, and nobody sleeps
 * with it.  Any thread may send under it; only the connection's worker receives, changes what is
 * watched, and closes.
 */
#ifndef IWARP_VERBS_CONN_H
#define IWARP_VERBS_CONN_H

#include "base/fault.h"
#include "base/mutex.h"
#include "loop/loop.h"
#include "mpa/mpa_setup.h"
#include "stream/stream.h"
#include "transport/transport.h"
#include "verbs/addr.h"
#include "verbs/eq.h"
#include "verbs/stats.h"

#include <iwarp/conn.h>

struct iwarp_device;
struct iwarp_flow;
struct iwarp_inject;
struct iwarp_listener;
struct iwarp_member;
struct iwarp_worker;

/* clang-format off */
/*
 *   CONNECTING --(TCP up)--> STARTUP --(Reply)-------------------> ESTABLISHED --(end of stream)--> ENDED
 *                               |                                       ^
 *                               +--(Request)--> REQUEST --(accepted)----+
 *
 *   any of them --(failure)--> ENDED
 */
/* clang-format on */
enum iwarp_conn_state {
    CONN_CONNECTING,  /* initiator: TCP is on its way, or there is no endpoint yet */
    CONN_STARTUP,     /* the endpoint is connected; the peer's frame has not come whole */
    CONN_REQUEST,     /* responder: the Request is there and waits for an answer */
    CONN_ESTABLISHED, /* Full Operation, until the stream has ended */
    CONN_ENDED        /* the application is told; the endpoint may wait for the peer's FIN */
};

struct iwarp_conn {
    struct iwarp_device *device;
    struct iwarp_worker *worker;
    struct iwarp_conn *prev, *next; /* device list */
    _Atomic unsigned refs;
    struct iwarp_mutex lock;
    unsigned changes; /* under worker.wait_lock */
    enum iwarp_conn_state state;
    struct iwarp_conn_options options;
    struct iwarp_qp *qp;         /* NULL: none, or destroyed */
    struct iwarp_endpoint *ep;   /* NULL: none, or closed */
    struct iwarp_flow *flow;     /* what the capture knows it as; NULL: it is not recorded */
    uint32_t flow_number;        /* of its made-up addresses; 0: none yet */
    struct iwarp_inject *inject; /* faults on request; NULL: none */
    struct iwarp_conn *timed_next, **timed_at; /* list of those with a time limit; NULL: none */
    uint64_t due;                              /* on the loop's clock */
    bool timer_on;                             /* it is a limit, and no reminder */
    unsigned timer_ms;                         /* of which time-out, for the text */
    unsigned connecting_ms, startup_ms; /* how much of each is used up, by both tries together */
    int64_t phase_began;
    struct iwarp_mpa_setup *setup; /* during start-up */
    uint8_t *private_data;         /* the peer's */
    size_t private_data_len;
    uint8_t *request; /* initiator: the frame to send once TCP is up */
    size_t request_len;
    struct iwarp_mpa_settled settled;
    bool responder;
    bool reconnects; /* initiator over TCP to `peer`: may connect again */
    bool retried;    /* and has done so, with revision 1 */
    bool qp_gone;    /* there was one, and it was destroyed */
    bool was_established;
    bool has_stream;   /* `stream` was initialised */
    bool tx_blocked;   /* the transport is full: the worker waits for room */
    int tx_error;      /* errno of a write that failed; first everything that came is read */
    uint8_t reminders; /* of iwarp_peers_remind_ms that are over */
    uint32_t unfitted; /* octets sent since the last iwarp_conn_fit */
    bool hold_told;    /* the log says why early work of a responder waits */
    bool fin_sent;
    bool lingering;         /* never established, last words said: waits for the peer's FIN */
    bool reported;          /* the application has had an event of it */
    bool known;             /* responder: the application had the handle before the Request */
    _Atomic bool user_gone; /* no handle: nobody to report to */
    bool auto_accept;       /* responder of a pair in memory */
    bool adopted;           /* over a socket that was the application's */
    int spare_fd;           /* that socket, and what was read from it: to be taken back; -1: none */
    uint8_t *spare;
    size_t spare_len;
    bool has_accepted_fd; /* responder, until its worker has taken it over */
    int accepted_fd;
    bool swept;              /* by iwarp_device_close, under device.lock */
    _Atomic bool tx_pending; /* somebody posted */
    bool pushed;             /* completions, and nobody was told yet */
    struct iwarp_stream stream;
    struct iwarp_stream_counts counts; /* never reset: read without a lock */
    struct iwarp_conn_ends ends;
    struct iwarp_fault fault;        /* start-up failures; stream faults are copied here */
    struct iwarp_listener *listener; /* responder, for its REQUEST event */
    struct iwarp_member *member;     /* of a listener's, until it is established; else NULL */
    _Atomic unsigned turned_away;    /* how often crowds have dropped it, see conn_admit.c */
    struct iwarp_eq *eq;
    void *user;
    struct iwarp_event_node open_event, end_event;
    struct iwarp_addr peer, local, source; /* source: to connect from */
    struct iwarp_task kick;                /* the worker looks at the connection */
};

/* conn.lock is not held, as the last reference frees the connection. */
void iwarp_conn_put(struct iwarp_conn *conn);
void iwarp_conn_get(struct iwarp_conn *conn);

/* NULL: see *status. */
struct iwarp_conn *iwarp_conn_new(struct iwarp_device *device,
                                  const struct iwarp_conn_options *options, bool responder,
                                  enum iwarp_status *status);

/* Give up one that nobody has heard of. */
void iwarp_conn_drop(struct iwarp_conn *conn);

/* Its events go to eq, which may be NULL. */
void iwarp_conn_use_eq(struct iwarp_conn *conn, struct iwarp_eq *eq);

/* Report an event to the application.  conn.lock held. */
void iwarp_conn_report(struct iwarp_conn *conn, enum iwarp_event_type type);

/* The state has changed: wake the threads that wait for it.  conn.lock held. */
void iwarp_conn_changed(struct iwarp_conn *conn);

/* Abort, in whatever state.  On the worker, conn.lock held. */
void iwarp_conn_end_now(struct iwarp_conn *conn);

/* Unlock, tell of completions, and send what was posted meanwhile by threads that found the lock
 * taken. */
void iwarp_conn_unlock(struct iwarp_conn *conn);

#endif
