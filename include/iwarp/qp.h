/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs looked at and changed: what a queue pair was created with, where it stands, what it
 * has in use, the Terminate that ended it; and the transitions of its state.
 * draft-hilland-rddp-verbs-00 6.2 and 9.2.
 *
 *   from \ to    IDLE        RTS             CLOSING     TERMINATE    ERROR
 *   IDLE         attributes  by connecting   -           -            flush
 *   RTS          -           attributes      disconnect  Terminate    abort
 *   CLOSING      -           -               -           -            by itself
 *   TERMINATE    -           -               -           -            by itself
 *   ERROR        start anew  -               -           -            -
 *
 * All other transitions return MISUSE. A queue pair whose connection was closed in order is in
 * ERROR, too, without a fault. While a queue pair connects, it is IDLE and its attributes cannot be
 * changed.
 */
#ifndef IWARP_QP_H
#define IWARP_QP_H

#include <iwarp/protocol.h>
#include <iwarp/verbs.h>

IWARP_BEGIN_DECLS

struct iwarp_qp_info {
    size_t size; /* set by the caller to sizeof(struct iwarp_qp_info) */
    enum iwarp_qp_state state;
    uint32_t num;
    struct iwarp_qp_options options; /* as created */
    unsigned access;                 /* enum iwarp_access: what it allows now */
    unsigned max_ird, max_ord;       /* bounds for the next connection, see iwarp_qp_modify */
    unsigned ird, ord;               /* of this connection; 0 before Full Operation */
    unsigned send_in_use;            /* requests whose completions were not produced yet */
    unsigned recv_in_use;            /* receives likewise; with an SRQ those taken from it */
    unsigned reads_sent;             /* RDMA Reads of this side that are not answered */
    unsigned reads_received;         /* RDMA Reads of the peer that are being answered */
    enum iwarp_fault_code fault;     /* why it ended */

    /* The Terminate of this connection, as RFC 5040 4.8 lays it out, control word first. */
    bool terminate_received; /* else, with a length, sent */
    unsigned terminate_len;  /* octets; 0: there was none */
    uint8_t terminate[IWARP_TERM_MAX_LEN];
};

/*
 * Fill in *info, whose size the caller has set. Any thread may ask at any time; what other threads
 * post meanwhile may or may not be counted. MISUSE: another size.
 */
IWARP_API enum iwarp_status iwarp_qp_query(struct iwarp_qp *qp, struct iwarp_qp_info *info);

/* Which members of struct iwarp_qp_changes count. */
enum iwarp_qp_change {
    IWARP_QP_CHANGE_STATE = 1 << 0,
    IWARP_QP_CHANGE_IRD = 1 << 1,
    IWARP_QP_CHANGE_ORD = 1 << 2,
    IWARP_QP_CHANGE_ACCESS = 1 << 3
};

struct iwarp_qp_changes {
    size_t size;   /* set by the caller to sizeof(struct iwarp_qp_changes) */
    unsigned mask; /* enum iwarp_qp_change */
    enum iwarp_qp_state state;
    unsigned ird, ord; /* at most 1024 */
    unsigned access;   /* as in struct iwarp_qp_options */
};

/*
 * Change the state or attributes of a queue pair, as the mask says. The call waits for the
 * connection's worker, so it must not be made out of a function that the library calls.
 *
 * MISUSE: a change is not allowed in this state or out of its bounds, the mask has unknown bits, or
 * work is not flushed yet (ERROR to IDLE); nothing is changed. AGAIN: another thread has connected
 * or changed the queue pair during the call; the state is not changed, but in IDLE attributes may
 * be.
 *
 * Attributes, in IDLE: bounds for the depths that its connection options ask for. In RTS: the ORD
 * in use, from 1 to what it is, for Reads not sent yet (the bound for the next connection with it).
 * In both: what it allows its peer, for segments that have not come yet.
 *
 * CLOSING does what iwarp_disconnect does; ERROR what iwarp_abort does (no Terminate, TCP is
 * reset), and flushes. TERMINATE sends a Terminate 0/0/00 (RFC 5040 4.8); the queue pair is in
 * ERROR once that is out and the transport no longer reads memory of requests. From IDLE without a
 * connection ERROR flushes what is posted, then and afterwards.
 *
 * ERROR to IDLE requires that the connection has ended and all work is flushed. Completions that
 * were not polled are discarded. Fault pointers of completions that were polled become invalid. A
 * new connection starts with MSN 1. No other thread may use the queue pair meanwhile. The handle of
 * the old connection stays valid.
 */
IWARP_API enum iwarp_status iwarp_qp_modify(struct iwarp_qp *qp,
                                            const struct iwarp_qp_changes *changes);

IWARP_END_DECLS

#endif
