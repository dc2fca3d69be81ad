/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair: two work queues, and the connection that carries them out.
 *
 * Life: the application creates and destroys it.  It holds a reference to its connection, from
 * iwarp_qp_bind until it is destroyed or starts anew.  Destroying waits for posters that have
 * claimed the connection (`drivers`).
 *
 * Locks: qp.post_lock guards the producer side of both work queues, and `conn`.  conn.lock guards
 * the consumer side, changes of `state`, and the removal of `conn`.
 */
#ifndef IWARP_VERBS_QP_H
#define IWARP_VERBS_QP_H

#include "base/mutex.h"
#include "stream/wq.h"
#include "verbs/async.h"
#include "verbs/streak.h"

#include <iwarp/conn.h>
#include <iwarp/qp.h>

struct iwarp_qp {
    struct iwarp_pd *pd;
    struct iwarp_qp_options options;
    uint32_t num;    /* as the application knows it */
    uint32_t serial; /* no other one of the device has it: regions and windows go by it; not 0 */
    struct iwarp_mutex post_lock;
    struct iwarp_wq sq, rq;
    struct iwarp_conn *conn;           /* its connection, one reference; NULL: none */
    _Atomic bool posted;               /* as conn.tx_pending, for posters: see iwarp_qp_claim */
    _Atomic unsigned drivers;          /* posters that have claimed the connection */
    _Atomic int state;                 /* enum iwarp_qp_state, and QP_ASKS */
    _Atomic bool no_send_imm;          /* the peer has not agreed, or is not asked */
    _Atomic unsigned access;           /* enum iwarp_access that it allows at most */
    _Atomic unsigned max_ird, max_ord; /* bounds for connection options */
    struct iwarp_streak streak;        /* under post_lock */
    struct iwarp_async_source async;
};

/* A bit of `state`: a message waits for a receive, so whoever posts one kicks the worker. */
#define QP_ASKS 0x100

/* Slots of its asynchronous events. */
enum { QP_ASYNC_END, QP_ASYNC_LAST_WQE };

/* Rights that a queue pair can allow or withhold. */
#define IWARP_QP_ACCESS                                                                            \
    ((unsigned)IWARP_ACCESS_REMOTE_WRITE | IWARP_ACCESS_REMOTE_READ | IWARP_ACCESS_REMOTE_ATOMIC | \
     IWARP_ACCESS_MW_BIND)

/* --- its connection: qp.c, qp_modify.c ------------------------------------------------------- */

/*
 * Tie qp to conn, which takes a reference.  MISUSE if it has a connection already, or is not IDLE:
 * a queue pair has one connection at a time.  Takes post_lock.
 */
enum iwarp_status iwarp_qp_bind(struct iwarp_qp *qp, struct iwarp_conn *conn);

/*
 * Undo that, and end the connection: connecting could not even begin.  Takes conn.lock, then
 * post_lock.
 */
void iwarp_qp_unbind(struct iwarp_qp *qp, struct iwarp_conn *conn);

/*
 * The connection ends, and the queue pair outlives it (keep_qp): it is IDLE again, and what is
 * posted stays posted.  Its stream has begun no request of the send queue that is unfinished.
 * conn.lock held, conn.state not ENDED yet.  Takes post_lock.
 */
void iwarp_qp_part(struct iwarp_conn *conn);

/* Its connection, with a reference for the caller; NULL: none.  Takes post_lock. */
struct iwarp_conn *iwarp_qp_hold_conn(struct iwarp_qp *qp);

/* Lower a connection's depths to what the queue pair allows (iwarp_qp_modify).  Any thread. */
void iwarp_qp_bound(struct iwarp_qp *qp, struct iwarp_conn_options *o);

/* --- completions: qp.c ----------------------------------------------------------------------- */

/*
 * Turn everything that has finished since the last time into completions, and flush the rest if the
 * connection has ended.  conn.lock held.
 */
void iwarp_qp_reap(struct iwarp_conn *conn);

/*
 * Tell the application about completions that were pushed to the queues of qp.  With conn.lock or
 * post_lock held, which keeps the queue pair, and so its queues, alive.
 */
void iwarp_qp_tell(struct iwarp_qp *qp);

/* The opcode in the completion of this request. */
enum iwarp_wc_opcode iwarp_swqe_wc_opcode(const struct iwarp_swqe *w);

/* In ERROR without ever having had a connection: flush both queues.  post_lock held. */
void iwarp_qp_flush_unconnected(struct iwarp_qp *qp);

/* It is in ERROR and takes no further receive from its SRQ, if it has one. */
void iwarp_qp_report_last(struct iwarp_qp *qp, enum iwarp_fault_code fault);

/* The stream has ended, after Full Operation: report how.  conn.lock held, after reaping. */
void iwarp_qp_report_end(struct iwarp_conn *conn);

/* The state that the application sees.  conn.lock held, or post_lock if there is no connection. */
void iwarp_qp_set_state(struct iwarp_qp *qp, enum iwarp_qp_state state);

/*
 * Is the request at `pos` a Write that one with these flags and this wr_id behind it confirms? Then
 * the two are one for the application, which has given them one wr_id: both are posted, or neither,
 * and they complete once, also if they are flushed.
 */
static inline bool iwarp_qp_is_confirmed_by(struct iwarp_wq *sq, uint32_t pos, uint32_t flags,
                                            uint64_t wr_id)
{
    const struct iwarp_swqe *w = iwarp_sq_at(sq, pos);

    return (w->opcode == IWARP_WR_WRITE || w->opcode == IWARP_WR_WRITE_IMM) &&
           !(w->flags & IWARP_WR_SIGNALED) && (flags & IWARP_WR_CONFIRM) && wr_id == w->wr_id;
}

/* The same of the next request in the queue, if there is one. */
static inline bool iwarp_qp_is_confirmed(struct iwarp_wq *sq, uint32_t pos, uint32_t head)
{
    const struct iwarp_swqe *next = iwarp_sq_at(sq, pos + 1);

    return pos + 1 != head && iwarp_qp_is_confirmed_by(sq, pos, next->flags, next->wr_id);
}

#endif
