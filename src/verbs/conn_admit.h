/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of listeners that nobody has accepted yet, as members of crowds (crowd.h). With
 * conn.lock held, unless said otherwise.
 */
#ifndef IWARP_VERBS_CONN_ADMIT_H
#define IWARP_VERBS_CONN_ADMIT_H

#include <stdbool.h>

struct iwarp_conn;
struct iwarp_crowd;
struct iwarp_device;

/*
 * Join a crowd, and leave the one before. A connection that the crowd drops for it is turned away;
 * false: that is this connection, and the caller ends it. Does nothing to connections that came
 * from no listener, or are established.
 */
bool iwarp_conn_join(struct iwarp_conn *conn, struct iwarp_crowd *crowd);
void iwarp_conn_leave_crowd(struct iwarp_conn *conn);

/* The listener may go from here on. */
void iwarp_conn_leave_listener(struct iwarp_conn *conn);

/*
 * Connections or descriptors are used up: turn one member of all crowds of the device away, of the
 * largest share. False: none has more than `most`. Any thread, with nothing locked.
 */
bool iwarp_device_make_room(struct iwarp_device *device, unsigned most);

/* How many this process may have open. */
unsigned iwarp_descriptors(void);

/* On the worker: reject a Request for want of room. */
void iwarp_conn_decline_crowded(struct iwarp_conn *conn);

/*
 * A crowd has dropped the connection. iwarp_worker_turn_away has the connection's worker call
 * iwarp_conn_turn_away, which ends the connection, unless it has joined another crowd or was
 * accepted meanwhile. The former takes over a reference of its caller, and takes loop.lock only, so
 * its caller may hold any other lock.
 */
void iwarp_worker_turn_away(struct iwarp_conn *conn);
void iwarp_conn_turn_away(struct iwarp_conn *conn);

#endif
