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

void iwarp_conn_receive(struct iwarp_conn *conn);      /* worker, locked */
void iwarp_conn_send(struct iwarp_conn *conn);         /* locked: some batches, not all */
void iwarp_conn_settle(struct iwarp_conn *conn);       /* worker, locked: act on its life */
void iwarp_conn_remind_later(struct iwarp_conn *conn); /* worker, locked */
void iwarp_conn_remind(struct iwarp_conn *conn);       /* worker, locked */
void iwarp_conn_ended(struct iwarp_conn *conn);        /* worker, locked */
void iwarp_conn_ready(void *conn, bool readable, bool writable); /* worker: of the endpoint */
void iwarp_conn_kicked(void *conn);                              /* worker: of the task */

/*
 * A poster has no reference to the connection, which saves two atomic operations for each request:
 * the two are separated only with conn.lock held.  claim, with post_lock held, leaves a note that
 * something was posted; if conn.lock was free, it returns the connection, locked.  drive, without
 * post_lock, sends and gives the lock back.
 */
struct iwarp_conn *iwarp_qp_claim(struct iwarp_qp *qp);
void iwarp_qp_drive(struct iwarp_qp *qp, struct iwarp_conn *conn);

#endif
