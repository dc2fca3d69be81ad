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
#include "transport/stack.h"
#include "transport/transport.h"
#include "verbs/addr.h"
#include "verbs/conn_timer.h"
#include "verbs/eq.h"
#include "verbs/spin.h"
#include "verbs/srq.h"
#include "verbs/startup.h"
#include "verbs/stats.h"

#include <iwarp/conn.h>

struct iwarp_device;
struct iwarp_flow;
struct iwarp_inject;
struct iwarp_tls;
struct iwarp_worker;

/* Has it requests that are deferred?  SEEN: they were there at the last tick. */
enum { IWARP_DEFERRED_NONE, IWARP_DEFERRED_NEW, IWARP_DEFERRED_SEEN };

/* clang-format off */
/*
 *   CONNECTING --(TCP up)--> STARTUP --(Reply)-----------------> ESTABLISHED --(end)--> ENDED
 *        |                    ^  |                                    ^
 *        +--(TLS)--> SECURING-+  +--(Request)--> REQUEST --(accept)---+
 *
 *   CONNECTING, SECURING, STARTUP, REQUEST --(failure, rejection)--> ENDED
 */
/* clang-format on */
enum iwarp_conn_state {
    CONN_CONNECTING,  /* initiator: TCP is on its way, or there is no endpoint yet */
    CONN_SECURING,    /* the endpoint is connected; the TLS handshake is not over */
    CONN_STARTUP,     /* the endpoint is connected; the peer's frame has not come whole */
    CONN_REQUEST,     /* responder: the Request is there and waits for an answer */
    CONN_ESTABLISHED, /* Full Operation, until the stream has ended */
    CONN_ENDED        /* the application is told; the endpoint may wait for the peer's FIN */
};

struct iwarp_conn {
    struct iwarp_device *device;
    struct iwarp_worker *worker;
    struct iwarp_conn *prev, *next; /* device list, under device.lock */
    _Atomic unsigned refs;
    struct iwarp_mutex lock;
    unsigned changes; /* how often its state has changed; under worker.wait_lock */
    enum iwarp_conn_state state;
    struct iwarp_conn_options options;
    struct iwarp_startup *startup;     /* NULL once it is established, and ever after */
    struct iwarp_qp *qp;               /* NULL: none, or destroyed */
    struct iwarp_endpoint *ep;         /* NULL: none, or closed */
    struct iwarp_tls *tls;             /* whose endpoint ep is; NULL: a plain connection */
    const struct iwarp_stack_ops *tcp; /* of the stack that made ep; NULL: no stack did */
    struct iwarp_flow *flow;           /* in the capture; NULL: the connection is not recorded */
    struct iwarp_inject *inject;       /* faults on request; NULL: none */
    const struct iwarp_loans *loans;   /* of ep, in Full Operation; NULL: it has none */
    /* Of its socket, which was the application's and goes back if the start-up fails. NULL: it was
     * made here. */
    struct iwarp_tcp_options *adopted;

    struct iwarp_timed limit; /* conn_timer.h */
    unsigned timer_ms;        /* the limit, for the text of the fault */
    bool timer_on; /* something fails when it is due; else a message may have waited long enough
                    * then, or the peer may need a reminder */
    struct iwarp_timed pace; /* iwarp_conn_keep_pace */
    uint64_t pace_from;      /* octets that the peer had taken when it began */
    unsigned pace_quarters;  /* that are left of it; 0: a turn has not left the endpoint full */

    bool responder;     /* it waits for the peer's Request, and does not send one */
    bool has_stream;    /* `stream` is initialised, and to be finished with the connection */
    bool hold_told;     /* the log has said why this responder holds work back */
    bool fin_sent;      /* the endpoint is half-closed after the stream's last octet */
    bool swept;         /* iwarp_device_close has closed its endpoint; under device.lock */
    bool pushed;        /* it has pushed completions, and the application was not told yet */
    bool waiting;       /* a message waits for its receive, and the worker has asked to be kicked */
    bool await_changed; /* await_until is new */
    bool full_told;     /* the log has said that the stream is full */
    bool end_seen;      /* the peer has closed, or is gone, while the stream was full */
    bool tx_blocked;    /* the endpoint is full, or failed: the worker waits before it sends */
    _Atomic uint8_t deferred;         /* IWARP_DEFERRED_: the mark of defer.h */
    _Atomic bool tx_pending;          /* somebody posted and found conn.lock taken */
    _Atomic bool user_gone;           /* the application has no handle, so nothing is reported */
    uint8_t reminders;                /* of iwarp_peers_remind_ms that are over */
    _Atomic int64_t deferred_sent_ns; /* when deferred requests were sent last */

    uint32_t await_msn;               /* the message that waits */
    int64_t await_since, await_until; /* on the monotonic clock */
    struct iwarp_srq_waiter await;    /* in the list of its queue pair's SRQ */
    int tx_error;      /* errno of a failed write; what came before it is read first */
    uint32_t unfitted; /* octets sent since the last iwarp_conn_fit */
    size_t seen;       /* lent octets that were looked at and not given back */
    struct iwarp_mpa_settled settled;
    struct iwarp_stream stream;
    struct iwarp_stream_counts counts; /* never reset: read without a lock */
    struct iwarp_conn_ends ends;
    _Atomic unsigned turned_away; /* how often crowds have dropped it: conn_admit.c */
    struct iwarp_fault fault;     /* of the start-up; at the end, of the stream */
    uint8_t *private_data;        /* the peer's, for the application */
    size_t private_data_len;
    struct iwarp_eq *eq;
    void *user;
    struct iwarp_event_node open_event, end_event;
    struct iwarp_addr peer, local;
    struct iwarp_task kick; /* the worker looks at the connection */

    /* Deferred requests: defer.h. */
    _Atomic unsigned late; /* ticks that found a request late */
    _Atomic bool listed;   /* in worker.list; it and what follows change under worker.defer_lock */
    struct iwarp_conn *list_next;
    unsigned list_pass, idle_ticks;

    struct iwarp_spin spin;
};

/* Was it ever in Full Operation? */
static inline bool iwarp_conn_was_established(const struct iwarp_conn *conn)
{
    return !conn->startup;
}

/* Never established, it has said its last words, and waits for the peer's FIN. */
static inline bool iwarp_conn_lingers(const struct iwarp_conn *conn)
{
    return conn->startup && conn->startup->lingers;
}

/* conn.lock is not held, as the last reference frees the connection. */
void iwarp_conn_put(struct iwarp_conn *conn);
void iwarp_conn_get(struct iwarp_conn *conn);

/*
 * Take a reference, unless the count is 0 already: then another thread waits for device.lock to
 * remove the connection from the list and free it. device.lock held.
 */
bool iwarp_conn_get_living(struct iwarp_conn *conn);

/* NULL: see *status. */
struct iwarp_conn *iwarp_conn_new(struct iwarp_device *device,
                                  const struct iwarp_conn_options *options,
                                  enum iwarp_startup_origin origin, enum iwarp_status *status);

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
