/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The objects behind the public handles, and who locks what.
 *
 * Lock order (take from left to right, never the other way):
 *
 *   device.lock -> conn.lock -> qp.post_lock -> cq.lock, eq.lock, srq.lock, async.lock,
 *                                               pair lock (mem.c), worker.wait_lock -> loop.lock
 *   conn.lock -> capture.flows_lock -> flow.lock -> capture.lock, pair lock   (src/capture)
 *
 *   device.lock   region table changes, list of connections, pools
 *   conn.lock     everything of a connection: state, endpoint, stream, reaping of the queues;
 *                 given back with iwarp_conn_unlock, and nobody sleeps with it
 *   qp.post_lock  the producer side of both work queues, and qp.conn
 *   cq.lock       the ring of completions          eq.lock      the list of events
 *   srq.lock      the lists of a shared receive queue
 *   async.lock    the list of asynchronous events, and who has taken some; none is held with it
 *   loop.lock     the lists of calls and tasks of a worker's loop (loop/loop.h)
 *
 * Behind all of them come the claim of a region (ddp_region.h) and crowd.lock (crowd.h).
 *
 * Any thread may drive the sending side of a connection under conn.lock; only its worker receives,
 * changes what is watched, and closes.
 *
 * A connection is counted: by the application's handle, by the worker while the endpoint lives, by
 * the queue pair that it carries, and by each waiting kick.
 */
#ifndef IWARP_VERBS_INTERNAL_H
#define IWARP_VERBS_INTERNAL_H

#include "base/budget.h"
#include "base/fault.h"
#include "base/mutex.h"
#include "base/process.h"
#include "ddp/ddp_bind.h"
#include "loop/loop.h"
#include "mpa/mpa_setup.h"
#include "stream/stream.h"
#include "transport/transport.h"
#include "verbs/crowd.h"
#include "verbs/inject.h"
#include "verbs/progress.h"

#include <iwarp/async.h>
#include <iwarp/conn.h>
#include <iwarp/qp.h>
#include <iwarp/srq.h>
#include <iwarp/stats.h>
#include <iwarp/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

/* --- async.c --------------------------------------------------------------------------------- */

#define IWARP_ASYNC_SLOTS 2 /* events of one object that may wait at a time */

struct iwarp_async_source;

struct iwarp_async_node {
    struct iwarp_async_event event;
    struct iwarp_async_source *source;
    struct iwarp_async_node *prev, *next;
    bool queued;
};

/* Part of each object that events tell of. */
struct iwarp_async_source {
    struct iwarp_device *device;
    unsigned unacked; /* taken by the application; under async.lock, as the rest */
    bool gone;        /* reports nothing any more */
    struct iwarp_async_node node[IWARP_ASYNC_SLOTS];
};

struct iwarp_async_queue {
    struct iwarp_mutex lock;
    struct iwarp_async_node *first, *last;
    void (*deliver)(const struct iwarp_async_event *event, void *arg); /* instead of the list */
    void *arg;
    int fd;
};

/* False: no descriptor; iwarp_async_fini is due all the same. */
bool iwarp_async_init(struct iwarp_async_queue *q, bool no_locks);
void iwarp_async_fini(struct iwarp_async_queue *q);

/* Queue an event, unless one waits in this slot of its object already. */
void iwarp_async_report(struct iwarp_async_source *source, unsigned slot,
                        const struct iwarp_async_event *event);

/* The object goes: its events vanish. AGAIN, and nothing has changed: some are unacknowledged. */
enum iwarp_status iwarp_async_leave(struct iwarp_async_source *source);

/* --- stats.c --------------------------------------------------------------------------------- */

/* Seldom counted, by whatever thread. */
struct iwarp_device_counts {
    struct iwarp_stream_counts gone; /* of connections that are no more; under device.lock */
    _Atomic uint64_t crc_errors, receive_queue_empty, streams_lost;
    _Atomic uint64_t terminates_sent[IWARP_STATS_LAYERS][IWARP_STATS_ETYPES][IWARP_STATS_CODES];
    _Atomic uint64_t terminates_received[IWARP_STATS_LAYERS][IWARP_STATS_ETYPES][IWARP_STATS_CODES];
    _Atomic uint64_t terminates_unknown;
    _Atomic uint64_t connects, arrivals, established, rejected_here, rejected_by_peer, failed;
    _Atomic uint64_t refused, turned_away;
    _Atomic unsigned qps, srqs;
};

/* How one stream ended. Written once, read without its lock. */
struct iwarp_conn_ends {
    _Atomic bool crc_error, receive_queue_empty, lost;
    _Atomic uint32_t terminate_sent, terminate_received; /* 0, or as stats.c packs its codes */
};

/* Once per stream, when it has ended. conn.lock held. */
void iwarp_stats_stream_ended(struct iwarp_conn *conn);

/* Its counts are kept. device.lock held. */
void iwarp_stats_conn_gone(struct iwarp_conn *conn);

/* --- device.c, worker.c ----------------------------------------------------------------------- */

struct iwarp_worker {
    struct iwarp_device *device;
    struct iwarp_loop loop;
    _Atomic unsigned visits_seen; /* polled: of the loop, by threads that look after others' */
    uv_timer_t timer;             /* of all its connections: conn_timer.c */
    uint64_t timer_due;           /* when it fires; UINT64_MAX: it does not */
    struct iwarp_conn *timed;     /* connections with a time limit */
    pthread_mutex_t wait_lock;    /* for `changed`, and `changes` of its connections */
    pthread_cond_t changed;       /* one of them; seldom, so spurious wake-ups cost little */
    uint8_t *staging;
    size_t staging_len;
    struct iwarp_spare spare; /* a send block for its connections */
};

struct iwarp_device {
    struct iwarp_device_options options;
    bool embedded, polled;  /* options.progress, asked often */
    bool rfc7306;           /* options.rfc7306 */
    bool closing;           /* embedded: waits for the loop to close what is left */
    _Atomic unsigned dying; /* embedded: listeners whose handles are not closed yet */
    struct iwarp_mutex lock;
    struct iwarp_region_table regions;
    struct iwarp_mr *free_mr; /* never given back while the device lives: ddp_region.h */
    struct iwarp_mr_chunk *chunks;
    unsigned mr_count;
    uint8_t random[256];
    unsigned random_left;
    struct iwarp_budget budget;
    struct iwarp_async_queue async;
    struct iwarp_device_counts stats;
    struct iwarp_capture *capture;   /* NULL: none */
    struct iwarp_injector *injector; /* faults on request; NULL: none */
    struct iwarp_conn *conns;        /* all of them */
    struct iwarp_listener *listening;
    unsigned conn_count;
    struct iwarp_crowd startups; /* inbound ones, with those that only wait for the peer's FIN */
    _Atomic unsigned leaving;    /* turned away, and not ended by their worker yet */
    _Atomic unsigned armed;      /* completion queues */
    _Atomic unsigned pds, cqs, eqs, listeners;
    _Atomic uint32_t next_qp_num;
    _Atomic unsigned next_worker;
    uint64_t serial;     /* no other device of this process has had it */
    unsigned generation; /* of the process that opened it */
    unsigned workers;
    struct iwarp_worker worker[];
};

enum iwarp_status iwarp_worker_start(struct iwarp_worker *w, struct iwarp_device *device);
void iwarp_worker_stop(struct iwarp_worker *w);
void iwarp_worker_fini(struct iwarp_worker *w); /* embedded: instead of stop */

/* Those that have or had anything to do with a queue; none: all of them. */
static inline uint64_t iwarp_workers_of(const _Atomic uint64_t *queue)
{
    uint64_t workers = atomic_load_explicit(queue, memory_order_relaxed);

    return workers ? workers : IWARP_EVERY_WORKER;
}

static inline void iwarp_workers_add(_Atomic uint64_t *queue, const struct iwarp_worker *w)
{
    atomic_fetch_or(queue, (uint64_t)1 << (w - w->device->worker));
}

/*
 * May this thread use what belongs to the device? Not if it is of the process that forked this one,
 * whose locks may be held for ever, or with embedded progress of another thread. iwarp_last_error
 * says why.
 */
bool iwarp_device_usable(const struct iwarp_device *device);
bool iwarp_device_is_ours(const struct iwarp_device *device); /* of this process: the first half */

/* Usable by any thread: the common case, at the cost of two comparisons. */
static inline bool iwarp_device_is_plain(const struct iwarp_device *device)
{
    return device && !device->embedded && device->generation == iwarp_process_generation();
}

/* First lines of public functions, before any lock. */
#define IWARP_ON_LOOP(device)                                                                      \
    do {                                                                                           \
        if (!iwarp_device_is_plain(device) && !iwarp_device_usable(device)) {                      \
            return IWARP_MISUSE;                                                                   \
        }                                                                                          \
    } while (0)
#define IWARP_GIVEN(pointer) ((pointer) || iwarp_is_null(#pointer))
bool iwarp_is_null(const char *name); /* false */

/* Make the worker look at a connection soon. Any thread. */
void iwarp_worker_kick(struct iwarp_conn *conn);

/* Embedded, on the loop's thread: free a closed device as soon as nothing is left of it. */
void iwarp_device_maybe_free(struct iwarp_device *device);

/* wanted: as in the connection options. NULL: there is no such worker, MISUSE. */
struct iwarp_worker *iwarp_device_pick_worker(struct iwarp_device *device, unsigned wanted);

/* --- protection domains, regions ------------------------------------------------------------- */

struct iwarp_pd {
    struct iwarp_device *device;
    _Atomic unsigned users; /* regions, windows, queue pairs and SRQs */
    _Atomic unsigned qps;
};

struct iwarp_mr {
    struct iwarp_region region;
    struct iwarp_pd *pd;
    _Atomic uint32_t stag; /* as it will be once all that is posted is carried out */
    struct iwarp_mr *next_free;
};

struct iwarp_mw {
    _Alignas(128) struct iwarp_mr entry; /* what accesses look at lies in one cache line */
};

/* Regions and windows come from the same pool. */
struct iwarp_mr_chunk {
    struct iwarp_mr_chunk *next;
    struct iwarp_mw *mw;
    unsigned n, used; /* of mw; those beyond were never taken */
    size_t mapped;    /* octets of the mapping that they are; 0: they lie behind this */
};

/* stag.c: all regions of the device, at its end. */
void iwarp_stag_free_pool(struct iwarp_device *d);

/* stag.c: draw an STag for a region or window. */
enum iwarp_status iwarp_stag_take(struct iwarp_pd *pd, enum iwarp_region_kind kind,
                                  const struct iwarp_binding *b, bool valid, struct iwarp_mr **out);

/* Make it invalid, wait for its users, and put it back into the pool: 0; or how many windows are
 * bound to it, and nothing has changed. */
unsigned iwarp_stag_give(struct iwarp_mr *mr);

/* Another key for the same index. LIMIT: no random octets. */
enum iwarp_status iwarp_stag_fresh_key(struct iwarp_device *d, uint32_t *stag);
enum iwarp_status iwarp_stag_query(struct iwarp_mr *mr, struct iwarp_stag_info *info);

/* mr.c: may memory be registered like this? */
enum iwarp_status iwarp_mr_check(const void *addr, size_t len, uint64_t to_base, unsigned access);

/* --- cq.c ------------------------------------------------------------------------------------ */

enum iwarp_cq_armed { CQ_QUIET, CQ_ANY, CQ_SOLICITED };

/* Who is to be told: whoever armed it, or a thread that leads. */
enum { CQ_DUE_ARMED = 1, CQ_DUE_LEADER = 2 };

struct iwarp_cq {
    struct iwarp_device *device;
    void *user;
    _Atomic unsigned users;   /* queue pairs, counted per role */
    _Atomic uint64_t workers; /* that have or had connections which complete into it, a bit each */
    struct iwarp_mutex lock;
    struct iwarp_wc *ring;
    _Atomic uint32_t size; /* it and the ring change under lock */
    uint32_t mask;
    _Atomic uint32_t head, tail; /* tail - head completions wait */
    enum iwarp_cq_armed armed;
    _Atomic unsigned waits;            /* threads that sleep in iwarp_cq_wait */
    bool armed_to_wait;                /* by one of them, and not by the application */
    unsigned leaders;                  /* threads that wait for it and run the loop meanwhile */
    _Atomic unsigned due;              /* CQ_DUE_: has come, and nobody was told yet */
    _Atomic unsigned telling;          /* threads that are about to tell */
    bool notified;                     /* while there was no descriptor */
    void (*_Atomic notify)(void *arg); /* instead of the descriptor */
    void *notify_arg;
    _Atomic bool overflowed;
    _Atomic int fd; /* -1 until asked for */
    struct iwarp_async_source async;
};

/* False: the queue is full, and the completion lost. Whoever pushes has to tell, too. */
bool iwarp_cq_push(struct iwarp_cq *cq, const struct iwarp_wc *wc);

/*
 * Telling the application is apart from pushing, so that who wakes finds no lock taken: due, while
 * the queue is sure to exist (it has a user), gives it to one thread; tell, at any time after
 * that.
 */
struct iwarp_cq_due {
    struct iwarp_cq *cq; /* NULL: nobody is to be told */
    unsigned what;       /* CQ_DUE_ */
};
struct iwarp_cq_due iwarp_cq_due(struct iwarp_cq *cq);
void iwarp_cq_tell(struct iwarp_cq_due due);

/* Remove what a dying queue pair left behind. */
void iwarp_cq_purge(struct iwarp_cq *cq, const struct iwarp_qp *qp);

/* --- srq.c ----------------------------------------------------------------------------------- */

struct iwarp_srq {
    struct iwarp_pd *pd;
    struct iwarp_srq_options options;
    _Atomic unsigned users; /* queue pairs */
    struct iwarp_mutex lock;
    uint8_t *mem; /* max_wr entries of stride octets; lists go by their numbers */
    uint32_t stride;
    uint32_t touched;     /* entries from here on were never used */
    uint32_t free;        /* list of those that were */
    uint32_t first, last; /* posted */
    unsigned posted, in_use, limit;
    struct iwarp_async_source async;
};

/* Make rq a queue pair's share, and end that: what it holds is free again. */
void iwarp_srq_attach(struct iwarp_srq *srq, struct iwarp_wq *rq);
void iwarp_srq_detach(struct iwarp_srq *srq, struct iwarp_wq *rq);

/* An entry that was popped from a share has its completion, or needs none. */
void iwarp_srq_give_back(struct iwarp_srq *srq, struct iwarp_rwqe *w);

/* post.c, for both kinds of receive queue: is it right, and how does it look as an entry? */
enum iwarp_status iwarp_recv_check(const struct iwarp_recv_wr *wr, unsigned max_sge,
                                   const char *queue);
void iwarp_recv_fill(struct iwarp_rwqe *w, const struct iwarp_recv_wr *wr);

/* --- qp.c, post.c ---------------------------------------------------------------------------- */

struct iwarp_qp {
    struct iwarp_pd *pd;
    struct iwarp_qp_options options;
    uint32_t num;
    struct iwarp_mutex post_lock;
    struct iwarp_wq sq, rq;
    struct iwarp_conn *conn;           /* its connection, counted; cleared under conn.lock, too */
    _Atomic bool posted;               /* as conn.tx_pending, for posters: see iwarp_qp_claim */
    _Atomic unsigned drivers;          /* posters that have claimed the connection */
    _Atomic int state;                 /* enum iwarp_qp_state, changed under conn.lock */
    _Atomic unsigned access;           /* enum iwarp_access that it allows at most */
    _Atomic unsigned max_ird, max_ord; /* bounds for connection options */
    struct iwarp_async_source async;
};

/* Slots of its asynchronous events. */
enum { QP_ASYNC_END, QP_ASYNC_LAST_WQE };

/* Rights that a queue pair can allow or withhold. */
#define IWARP_QP_ACCESS                                                                            \
    ((unsigned)IWARP_ACCESS_REMOTE_WRITE | IWARP_ACCESS_REMOTE_READ | IWARP_ACCESS_REMOTE_ATOMIC | \
     IWARP_ACCESS_MW_BIND)

/* post_memory.c: requests that change what an STag stands for. post_lock held. */
enum iwarp_status iwarp_post_memory_check(const struct iwarp_qp *qp,
                                          const struct iwarp_send_wr *wr);
void iwarp_post_memory_fill(const struct iwarp_qp *qp, const struct iwarp_send_wr *wr,
                            struct iwarp_swqe *w);
void iwarp_post_memory_undo(const struct iwarp_swqe *w); /* it is not posted after all */

/*
 * Turn everything that has finished since the last time into completions, and flush the rest if the
 * stream has ended. Under conn.lock.
 */
void iwarp_qp_reap(struct iwarp_conn *conn);

/* Tell of what was pushed to its queues. */
void iwarp_qp_tell(struct iwarp_qp *qp);

/* Tie qp to conn: MISUSE if it has a connection already. */
enum iwarp_status iwarp_qp_bind(struct iwarp_qp *qp, struct iwarp_conn *conn);

/* Undo that, and end the connection: connecting could not even begin. */
void iwarp_qp_unbind(struct iwarp_qp *qp, struct iwarp_conn *conn);

/* Its connection, counted; NULL: none. */
struct iwarp_conn *iwarp_qp_hold_conn(struct iwarp_qp *qp);

/* qp_modify.c: what the queue pair allows of a connection's depths. */
void iwarp_qp_bound(struct iwarp_qp *qp, struct iwarp_conn_options *o);

/* What the completion of this request says it was. */
enum iwarp_wc_opcode iwarp_swqe_wc_opcode(const struct iwarp_swqe *w);

/* In ERROR without ever having had a connection: flush both queues. post_lock held. */
void iwarp_qp_flush_unconnected(struct iwarp_qp *qp);

/* The stream has ended, after Full Operation: tell. Under conn.lock, after reaping. */
void iwarp_qp_report_end(struct iwarp_conn *conn);
void iwarp_qp_set_state(struct iwarp_qp *qp, enum iwarp_qp_state state);

/* --- eq.c ------------------------------------------------------------------------------------ */

struct iwarp_event_node {
    struct iwarp_event event;
    struct iwarp_event_node *next, **at; /* NULL: not queued */
};

struct iwarp_eq {
    struct iwarp_device *device;
    struct iwarp_mutex lock;
    struct iwarp_event_node *first, **last;
    int fd;
    _Atomic unsigned users;
    _Atomic uint64_t workers; /* as of a completion queue */
};

/* A listener or connection of this worker will report to it. */
void iwarp_eq_use(struct iwarp_eq *eq, const struct iwarp_worker *w);

void iwarp_eq_push(struct iwarp_eq *eq, struct iwarp_event_node *node);

/* True if the application had not taken it yet. */
bool iwarp_eq_remove(struct iwarp_eq *eq, struct iwarp_event_node *node);

/* --- conn.c, conn_setup.c, conn_drive.c ------------------------------------------------------ */

/*
 *   CONNECTING --(TCP up)--> STARTUP --(Reply)--------------> ESTABLISHED --(end of stream)-->
 * ENDED STARTUP --(Request)--> REQUEST --(accept)--^ any of them, on failure, --> ENDED
 */
enum iwarp_conn_state { CONN_CONNECTING, CONN_STARTUP, CONN_REQUEST, CONN_ESTABLISHED, CONN_ENDED };

/* A socket address of TCP, in less than sockaddr_storage takes. len 0: none. */
struct iwarp_addr {
    socklen_t len;
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        uint8_t octets[sizeof(struct sockaddr_in6)];
    };
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
    bool reported;          /* an event has told of it */
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

struct iwarp_conn *iwarp_conn_new(struct iwarp_device *device,
                                  const struct iwarp_conn_options *options, bool responder,
                                  enum iwarp_status *status);
void iwarp_conn_get(struct iwarp_conn *conn);
void iwarp_conn_put(struct iwarp_conn *conn); /* not with conn.lock held */

/* Abort, in whatever state. On the worker, locked. */
void iwarp_conn_end_now(struct iwarp_conn *conn);

/* The state has changed: wake those that wait for it. Locked. */
void iwarp_conn_changed(struct iwarp_conn *conn);

/* Unlock, tell of completions, and do what was posted meanwhile by threads that found the lock
 * taken. */
void iwarp_conn_unlock(struct iwarp_conn *conn);

enum iwarp_status iwarp_addr_check(const struct sockaddr *addr, socklen_t addr_len);

/* addr.c: keep a checked address; what is behind its sockaddr_in or sockaddr_in6 says nothing. */
void iwarp_addr_set(struct iwarp_addr *to, const struct sockaddr *addr, socklen_t len);
void iwarp_addr_copy(const struct iwarp_addr *from, struct sockaddr_storage *to);

/* Of a TCP endpoint: iwarp_tcp_local_addr or iwarp_tcp_peer_addr. */
typedef void iwarp_addr_fn(struct iwarp_endpoint *ep, struct sockaddr_storage *addr,
                           socklen_t *addr_len);
void iwarp_addr_ask(struct iwarp_addr *to, struct iwarp_endpoint *ep, iwarp_addr_fn *which);
/* Copy and check options; NULL gives the defaults. */
enum iwarp_status iwarp_conn_options_check(const struct iwarp_conn_options *in,
                                           struct iwarp_conn_options *out);

/* A connection that will send a Request, tied to qp. NULL: see *status. */
struct iwarp_conn *iwarp_conn_new_initiator(struct iwarp_qp *qp,
                                            const struct iwarp_conn_options *options,
                                            const void *pd, size_t pd_len, struct iwarp_eq *eq,
                                            void *user, enum iwarp_status *status);

/* Events go to eq (may be NULL). */
void iwarp_conn_use_eq(struct iwarp_conn *conn, struct iwarp_eq *eq);

/* Give up one that nobody has heard of. */
void iwarp_conn_drop(struct iwarp_conn *conn);

/* What the options mean for the start-up. */
void iwarp_conn_wish(const struct iwarp_conn_options *o, struct iwarp_mpa_wish *wish);

/* conn_setup.c: from a socket to Full Operation. All on the worker, conn.lock held. */

/* Take over an endpoint; from now on the worker holds the connection. False: it was
 * ended before it began (its queue pair went to ERROR), and the endpoint is closed. */
bool iwarp_conn_attach(struct iwarp_conn *conn, struct iwarp_endpoint *ep);

/* Close the endpoint but go on with another one. */
void iwarp_conn_drop_endpoint(struct iwarp_conn *conn);

/* The peer hung up (by FIN, error 0, or with that errno) without an octet of a Reply: connect again
 * with revision 1. False: it is not to be tried. retry_code: how failures are called after that. */
bool iwarp_conn_try_revision_1(struct iwarp_conn *conn, int error);
enum iwarp_fault_code iwarp_conn_retry_code(const struct iwarp_conn *conn,
                                            enum iwarp_fault_code code);

/* The timer for a part of the start-up that may take ms, of which *used are gone; and its end. */
void iwarp_conn_start_phase(struct iwarp_conn *conn, unsigned ms, const unsigned *used);
void iwarp_conn_end_phase(struct iwarp_conn *conn, unsigned *used);

/* conn_adopt.c: the start-up failed like this; the application may have its socket back. False: it
 * may not. Leaves no endpoint behind. */
bool iwarp_conn_hand_back(struct iwarp_conn *conn, enum iwarp_fault_code code);
void iwarp_conn_drop_spare(struct iwarp_conn *conn);

/* Wrap the socket that a listener accepted, and wait for the Request. */
void iwarp_conn_take_accepted(struct iwarp_conn *conn);

/* TCP is up: the initiator sends its Request, the responder waits for one. */
void iwarp_conn_begin_startup(struct iwarp_conn *conn);
void iwarp_conn_startup_readable(struct iwarp_conn *conn);
void iwarp_conn_startup_writable(struct iwarp_conn *conn);

/* Send the Reply: enter Full Operation, or reject and close. */
void iwarp_conn_reply(struct iwarp_conn *conn, bool reject, const void *private_data,
                      size_t pd_len);

/* A Request that waits for an answer gets a no without the application, for this reason; or its
 * peer has gone meanwhile. */
void iwarp_conn_decline(struct iwarp_conn *conn, enum iwarp_fault_code code, uint64_t detail);
void iwarp_conn_request_gone(struct iwarp_conn *conn);

/* After last words: half-close, and drop what comes until the peer's FIN, so that no reset on
 * unread octets destroys them. Bounded by close_timeout_ms. */
void iwarp_conn_linger(struct iwarp_conn *conn);
void iwarp_conn_linger_readable(struct iwarp_conn *conn);

/* Never established: record why, report, close (unless lingering). */
void iwarp_conn_fail(struct iwarp_conn *conn, enum iwarp_fault_code code,
                     enum iwarp_fault_side side, uint64_t d0, uint64_t d1);

/* conn_drive.c: Full Operation and the end. */

/* Why a connection has a turn; 0: its state has changed. */
enum {
    IWARP_TURN_READABLE = 1, /* the transport has octets, a FIN or an error */
    IWARP_TURN_WRITABLE = 2, /* the transport has room again */
    IWARP_TURN_DIRECT = 4,   /* one read past the loop: loop/hot.h */
    IWARP_TURN_REMIND = 8,   /* the peer may have overlooked the first FPDU */
};

/*
 * One turn: receive, send, follow the stream's life, change what is watched, and produce
 * completions, as far as there is cause.  Without a stream it does nothing.  On the worker, locked.
 */
void iwarp_conn_turn(struct iwarp_conn *conn, unsigned reasons);

/* Send what is ready, a turn's worth; completions come later.  Any thread, locked. */
void iwarp_conn_send(struct iwarp_conn *conn);
void iwarp_conn_remind_later(struct iwarp_conn *conn);               /* worker, locked */
void iwarp_conn_ended(struct iwarp_conn *conn);                      /* worker, locked */
void iwarp_conn_close_endpoint(struct iwarp_conn *conn, bool reset); /* worker, locked */
void iwarp_conn_ready(void *conn, bool readable, bool writable);     /* worker, not locked */
void iwarp_conn_kicked(void *conn); /* worker, not locked; puts the task's reference */

/* conn_timer.c. A connection with a limit to keep has an endpoint. */
void iwarp_worker_open_timer(struct iwarp_worker *w);
void iwarp_conn_start_timer(struct iwarp_conn *conn, unsigned ms); /* worker, locked */
void iwarp_conn_stop_timer(struct iwarp_conn *conn);               /* worker, locked */

/*
 * A poster has no reference to the connection, which saves two atomic operations for each request:
 * what ties the two is only undone with conn.lock held. claim, with post_lock held, leaves word of
 * what was posted, and gives the connection, locked, if its lock was free. drive, without
 * post_lock, sends and gives the lock back.
 */
struct iwarp_conn *iwarp_qp_claim(struct iwarp_qp *qp);
void iwarp_qp_drive(struct iwarp_qp *qp, struct iwarp_conn *conn);

/* conn_setup.c: the path may carry larger or smaller segments than when it was asked last. */
void iwarp_conn_fit(struct iwarp_conn *conn); /* locked */

/* Tell the application; locked. */
void iwarp_conn_report(struct iwarp_conn *conn, enum iwarp_event_type type);

/*
 * conn_tap.c: what crosses the border to the endpoint, for the capture. Locked. open: TCP is up;
 * end: this side's FIN or reset; close: before the endpoint goes; name_qp: the connection has its
 * qp.
 */
void iwarp_tap_open(struct iwarp_conn *conn);
void iwarp_tap_name_qp(struct iwarp_conn *conn);
void iwarp_tap_end(struct iwarp_conn *conn, bool reset);
void iwarp_tap_close(struct iwarp_conn *conn);
ssize_t iwarp_tap_readv(struct iwarp_conn *conn, const struct iovec *iov, int n);
ssize_t iwarp_tap_writev(struct iwarp_conn *conn, const struct iovec *iov, int n);

static inline ssize_t iwarp_conn_plain_readv(struct iwarp_conn *conn, const struct iovec *iov,
                                             int n)
{
    return conn->flow ? iwarp_tap_readv(conn, iov, n) : conn->ep->ops->readv(conn->ep, iov, n);
}

static inline ssize_t iwarp_conn_plain_writev(struct iwarp_conn *conn, const struct iovec *iov,
                                              int n)
{
    return conn->flow ? iwarp_tap_writev(conn, iov, n) : conn->ep->ops->writev(conn->ep, iov, n);
}

/* The way through: with faults if they are asked for (inject.h). */
static inline ssize_t iwarp_conn_readv(struct iwarp_conn *conn, const struct iovec *iov, int n)
{
    return __builtin_expect(conn->inject != NULL, 0) ? iwarp_inject_readv(conn, iov, n)
                                                     : iwarp_conn_plain_readv(conn, iov, n);
}

static inline ssize_t iwarp_conn_writev(struct iwarp_conn *conn, const struct iovec *iov, int n)
{
    return __builtin_expect(conn->inject != NULL, 0) ? iwarp_inject_writev(conn, iov, n)
                                                     : iwarp_conn_plain_writev(conn, iov, n);
}

static inline void iwarp_conn_shutdown_write(struct iwarp_conn *conn)
{
    iwarp_tap_end(conn, false);
    conn->ep->ops->shutdown_write(conn->ep);
}

/* trace.c: field by field at IWARP_LOG=trace. */
void iwarp_trace_send(const struct iwarp_qp *qp, const struct iwarp_send_wr *wr);
void iwarp_trace_recv(const struct iwarp_qp *qp, const struct iwarp_recv_wr *wr);
void iwarp_trace_wc(const struct iwarp_wc *wc);

struct iwarp_listener {
    struct iwarp_device *device;
    struct iwarp_worker *worker;
    struct iwarp_conn_options options;
    struct iwarp_eq *eq;
    void *user;
    int fd;
    struct iwarp_crowd waiting;  /* Requests that wait for an answer */
    struct iwarp_listener *next; /* of the device; under device.lock */
    uv_poll_t poll;
    uv_timer_t retry;
    unsigned handles; /* uv handles that are open; under lock once closing */
    bool detached;    /* embedded: free with the last handle */
    pthread_mutex_t lock;
    pthread_cond_t gone;
    struct sockaddr_storage addr;
    socklen_t addr_len;
};

#endif
