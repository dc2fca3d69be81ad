/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The start-up of a connection: from an endpoint to Full Operation, or to a failure.  All functions
 * run on the connection's worker with conn.lock held, but for iwarp_conn_fit.
 */
#ifndef IWARP_VERBS_CONN_SETUP_H
#define IWARP_VERBS_CONN_SETUP_H

#include <iwarp/status.h>
#include <iwarp/transport.h>

/* --- the endpoint ---------------------------------------------------------------------------- */

/*
 * Take over an endpoint; from now on the worker has a reference to the connection.  False: the
 * connection was ended before it began (its queue pair went to ERROR), and the endpoint is closed.
 */
bool iwarp_conn_attach(struct iwarp_conn *conn, struct iwarp_endpoint *ep);

/*
 * close: for good, if there is an endpoint; it drops the endpoint's reference to the connection
 * later, in a turn of the loop.  drop: to go on with another endpoint.  reset: by RST, which loses
 * what the peer has not read yet.
 */
void iwarp_conn_close_endpoint(struct iwarp_conn *conn, bool reset);
void iwarp_conn_drop_endpoint(struct iwarp_conn *conn);

/* If a listener accepted a socket for it: wrap the socket, and wait for the Request. */
void iwarp_conn_take_accepted(struct iwarp_conn *conn);

/* --- frames ---------------------------------------------------------------------------------- */

/* The endpoint is connected: the initiator sends its Request, the responder waits for one. */
void iwarp_conn_begin_startup(struct iwarp_conn *conn);
void iwarp_conn_startup_readable(struct iwarp_conn *conn);
void iwarp_conn_startup_writable(struct iwarp_conn *conn);

/*
 * Send the Reply: enter Full Operation, or reject and close.  The state is REQUEST; private_data is
 * the caller's and is copied into the frame.
 */
void iwarp_conn_reply(struct iwarp_conn *conn, bool reject, const void *private_data,
                      size_t pd_len);

/* --- failures -------------------------------------------------------------------------------- */

/* A Request waits for an answer: reject it without the application, for this reason. */
void iwarp_conn_decline(struct iwarp_conn *conn, enum iwarp_fault_code code, uint64_t detail);

/* A Request waits for an answer, and its peer has gone. */
void iwarp_conn_request_gone(struct iwarp_conn *conn);

/*
 * The last words are sent: half-close, and drop what comes until the peer's FIN, since a reset on
 * unread octets would destroy them.  Bounded by close_timeout_ms.
 */
void iwarp_conn_linger(struct iwarp_conn *conn);
void iwarp_conn_linger_readable(struct iwarp_conn *conn);

/* The start-up has failed: record why, report, and close, unless the connection lingers. */
void iwarp_conn_fail(struct iwarp_conn *conn, enum iwarp_fault_code code,
                     enum iwarp_fault_side side, uint64_t d0, uint64_t d1);

/* --- Full Operation -------------------------------------------------------------------------- */

/* Ask the endpoint for the segment size of the path, which may have changed.  Any thread. */
void iwarp_conn_fit(struct iwarp_conn *conn);

#endif
