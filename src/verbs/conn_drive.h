/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Full Operation: octets between a stream and its endpoint, and the stream's end.  "Worker": on the
 * connection's worker only; "locked": with conn.lock held.
 */
#ifndef IWARP_VERBS_CONN_DRIVE_H
#define IWARP_VERBS_CONN_DRIVE_H

#include <stdbool.h>

struct iwarp_conn;
struct iwarp_qp;

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

/*
 * Send what is ready, as much as a turn may.  Completions are produced later, by
 * iwarp_qp_reap.  Any thread, locked.
 */
void iwarp_conn_send(struct iwarp_conn *conn);

/*
 * Send what was posted: now, or by the thread that holds conn.lock.  Any thread that has a
 * reference, no lock held.
 */
void iwarp_conn_send_soon(struct iwarp_conn *conn);

/*
 * remind_later: start the timer for the next reminder, if any is due.  ended: the stream has ended;
 * tell the queue pair and the application, once.  ready: libuv or a transport has found the
 * endpoint ready.  kicked: the task of iwarp_worker_kick.
 */
void iwarp_conn_remind_later(struct iwarp_conn *conn);           /* worker, locked */
void iwarp_conn_ended(struct iwarp_conn *conn);                  /* worker, locked */
void iwarp_conn_ready(void *conn, bool readable, bool writable); /* worker: of the endpoint */
void iwarp_conn_kicked(void *conn);                              /* worker: of the task */

/*
 * A poster has no reference to the connection, which saves two atomic operations for each request:
 * the two are separated only with conn.lock held.  claim, with post_lock held, leaves a note that
 * something was posted; if conn.lock was free, it returns the connection, locked.  drive, without
 * post_lock, sends and gives the lock back.
 */
struct iwarp_conn *iwarp_qp_claim(struct iwarp_qp *qp);
void iwarp_qp_drive(struct iwarp_qp *qp, struct iwarp_conn *conn, bool timed);

#endif
