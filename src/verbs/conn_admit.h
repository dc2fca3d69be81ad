/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of listeners that nobody has accepted yet, as members of crowds (crowd.h). All with
 * conn.lock held, but for drop_from, which any thread may call with nothing locked.
 */
#ifndef IWARP_VERBS_CONN_ADMIT_H
#define IWARP_VERBS_CONN_ADMIT_H

#include <stdbool.h>

struct iwarp_conn;
struct iwarp_crowd;

/*
 * Join a crowd, and leave the one before. Whoever is one too many is turned away by its own worker;
 * false: that is this connection, and the caller ends it. Does nothing to connections that came
 * from no listener, or are established.
 */
bool iwarp_conn_join(struct iwarp_conn *conn, struct iwarp_crowd *crowd);
void iwarp_conn_leave_crowd(struct iwarp_conn *conn);

/* The listener may go from here on. */
void iwarp_conn_leave_listener(struct iwarp_conn *conn);

/* Turn n members away, as if each had been one too many. */
void iwarp_conn_drop_from(struct iwarp_crowd *crowd, unsigned n);

/* On the worker: reject a Request beyond the listener's backlog. */
void iwarp_conn_decline_crowded(struct iwarp_conn *conn);

/* On the worker: end the connection if a crowd has dropped it. */
void iwarp_conn_turn_away(struct iwarp_conn *conn);

#endif
