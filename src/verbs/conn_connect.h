/* SPDX-License-Identifier: BSD-2-Clause */
/* The active side of a connection: its Request, waiting for a listener, and the second try with
 * revision 1. */
#ifndef IWARP_VERBS_CONN_CONNECT_H
#define IWARP_VERBS_CONN_CONNECT_H

#include <iwarp/conn.h>

struct iwarp_addr;

/*
 * A connection that will send a Request, tied to qp.  peer: the address that it connects to; NULL:
 * it is over an endpoint or a socket that the application has.  NULL: see *status.
 */
struct iwarp_conn *iwarp_conn_new_initiator(struct iwarp_qp *qp, const struct iwarp_addr *peer,
                                            const struct iwarp_conn_options *options,
                                            const void *pd, size_t pd_len, struct iwarp_eq *eq,
                                            void *user, enum iwarp_status *status);

/*
 * The peer hung up (by FIN, error 0, or with that errno) before an octet of a Reply: connect again
 * with revision 1.  False: that is not to be tried.  On the worker, conn.lock held.
 */
bool iwarp_conn_try_revision_1(struct iwarp_conn *conn, int error);

/*
 * TCP could not connect, with that errno: connect again in a moment, if it was refused and the
 * application waits for a listener (refused_ms).  False: it has failed.  connecting_ms is up to
 * date.  The timer then calls iwarp_conn_connect_again.  Both on the worker, conn.lock held.
 */
bool iwarp_conn_connect_later(struct iwarp_conn *conn, int error);
void iwarp_conn_connect_again(struct iwarp_conn *conn);

/* The fault to report for this one: failures of the second try have names of their own. */
enum iwarp_fault_code iwarp_conn_retry_code(const struct iwarp_conn *conn,
                                            enum iwarp_fault_code code);

#endif
