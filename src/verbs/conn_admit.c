/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of the peers that came to a listener may stay while nobody has accepted them:
 *
 *   where                        crowd                 beyond its bound
 *   start-up                     device.startups       ended: MPA_CROWDED
 *   Request waits for an answer  listener.waiting      rejected and closed: MPA_BACKLOG
 *   rejected by the application  device.startups       closed
 *     and lingers
 *   accepted                     none
 *
 * Any thread may drop a connection from a crowd: it counts the drop in `turned_away`, and the
 * connection's own worker ends the connection. If the connection has joined another crowd by then,
 * or was accepted, the worker leaves it alone.
 */
#include "verbs/conn_admit.h"

#include "loop/clock.h"
#include "verbs/conn.h"
#include "verbs/conn_setup.h"
#include "verbs/crowd.h"
#include "verbs/device.h"
#include "verbs/listen.h"

#include <limits.h>
#include <sys/resource.h>

/* conn.lock held. The member stays allocated: the connection may join another crowd. */
void iwarp_conn_leave_crowd(struct iwarp_conn *conn)
{
    if (conn->startup) {
        iwarp_crowd_leave(&conn->startup->member);
    }
}

void iwarp_conn_leave_listener(struct iwarp_conn *conn)
{
    iwarp_conn_leave_crowd(conn);
    conn->startup->listener = NULL;
}

/*
 * conn.lock held. The dropped connection may be another worker's, so it is not locked here: only
 * one conn.lock may be held.
 */
bool iwarp_conn_join(struct iwarp_conn *conn, struct iwarp_crowd *crowd)
{
    struct iwarp_member *member = conn->startup ? &conn->startup->member : NULL;
    struct iwarp_conn *dropped =
        member && member->conn ? iwarp_crowd_join(crowd, member, &conn->peer.any, iwarp_now_ms())
                               : NULL;

    if (dropped == conn) {
        iwarp_conn_put(conn); /* of the crowd; the caller has another */
        return false;
    }
    if (dropped) {
        iwarp_worker_turn_away(dropped);
    }
    return true;
}

bool iwarp_device_make_room(struct iwarp_device *device, unsigned most)
{
    iwarp_mutex_lock(&device->lock); /* so that no listener goes */
    struct iwarp_crowd *crowd = &device->startups;
    unsigned worst = iwarp_crowd_worst(crowd).count;
    for (struct iwarp_listener *l = device->listening; l; l = l->next) {
        unsigned count = iwarp_crowd_worst(&l->waiting).count;
        if (count > worst) {
            crowd = &l->waiting;
            worst = count;
        }
    }
    struct iwarp_conn *dropped = worst > most ? iwarp_crowd_drop(crowd) : NULL;
    if (dropped) {
        iwarp_worker_turn_away(dropped);
    }
    iwarp_mutex_unlock(&device->lock);
    return dropped != NULL;
}

unsigned iwarp_descriptors(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < UINT_MAX
               ? (unsigned)limit.rlim_cur
               : UINT_MAX;
}

/* The peer may come again later. */
void iwarp_conn_decline_crowded(struct iwarp_conn *conn)
{
    atomic_fetch_add(&conn->device->stats.turned_away, 1);
    iwarp_conn_decline(conn, IWARP_FAULT_MPA_BACKLOG,
                       atomic_load(&conn->startup->listener->waiting.count));
}

/* On the connection's worker, conn.lock held. */
void iwarp_conn_turn_away(struct iwarp_conn *conn)
{
    if (atomic_load(&conn->turned_away) == 0) {
        return;
    }
    atomic_fetch_sub(&conn->device->leaving, atomic_exchange(&conn->turned_away, 0));
    if (conn->startup && iwarp_crowd_has(&conn->startup->member)) {
        return;
    }
    if (conn->state == CONN_STARTUP && conn->ep) {
        iwarp_conn_startup_readable(conn); /* its Request may have come whole by now */
        if (conn->state != CONN_STARTUP) {
            return;
        }
    }
    if (conn->state == CONN_REQUEST && !conn->qp && conn->startup->listener) {
        iwarp_conn_decline_crowded(conn);
    } else if (conn->state < CONN_REQUEST) {
        atomic_fetch_add(&conn->device->stats.turned_away, 1);
        iwarp_conn_fail(conn, IWARP_FAULT_MPA_CROWDED, IWARP_SIDE_LOCAL,
                        atomic_load(&conn->device->startups.count), 0);
    } else if (iwarp_conn_lingers(conn) && conn->ep) {
        iwarp_conn_close_endpoint(conn, true);
    }
}
