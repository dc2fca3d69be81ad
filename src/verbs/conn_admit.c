/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of the peers that came to a listener may stay while nobody has accepted them:
 *
 *   where                        crowd                 beyond its bound
 *   start-up                     device.startups       ended: MPA_CROWDED
 *   Request waits for an answer  listener.waiting      rejected: MPA_BACKLOG
 *   rejected, lingers            device.startups       closed
 *   accepted                     none
 *
 * Whoever finds that there is one too many counts it in `turned_away` of that connection, and its
 * own worker ends it. All with conn.lock held, but for drop_from.
 */
#include "verbs/conn_admit.h"
#include "verbs/verbs.h"

void iwarp_conn_leave_crowd(struct iwarp_conn *conn)
{
    if (conn->member) {
        iwarp_crowd_leave(conn->member);
    }
}

void iwarp_conn_leave_listener(struct iwarp_conn *conn)
{
    iwarp_conn_leave_crowd(conn);
    conn->listener = NULL;
}

/*
 * Its worker ends it: only that one may close. The reference that came from the crowd goes along,
 * since the last one may not be given back with another connection's lock held.
 */
static void send_away(struct iwarp_conn *conn)
{
    atomic_fetch_add(&conn->device->leaving, 1);
    atomic_fetch_add(&conn->turned_away, 1);
    iwarp_worker_kick(conn);
}

bool iwarp_conn_join(struct iwarp_conn *conn, struct iwarp_crowd *crowd)
{
    struct iwarp_conn *dropped =
        conn->member ? iwarp_crowd_join(crowd, conn->member, &conn->peer.any) : NULL;

    if (dropped == conn) {
        iwarp_conn_put(conn); /* of the crowd; the caller has another */
        return false;
    }
    if (dropped) {
        send_away(dropped);
    }
    return true;
}

void iwarp_conn_drop_from(struct iwarp_crowd *crowd, unsigned n)
{
    struct iwarp_conn *conn;

    while (n-- > 0 && (conn = iwarp_crowd_drop(crowd)) != NULL) {
        send_away(conn);
    }
}

/* Beyond the listener's backlog. The peer may come again later. */
void iwarp_conn_decline_crowded(struct iwarp_conn *conn)
{
    atomic_fetch_add(&conn->device->stats.turned_away, 1);
    iwarp_conn_decline(conn, IWARP_FAULT_MPA_BACKLOG, conn->listener->waiting.max);
}

/* What it was dropped from it may have left since: by an answer, or the listener is closed. */
void iwarp_conn_turn_away(struct iwarp_conn *conn)
{
    if (atomic_load(&conn->turned_away) == 0) {
        return;
    }
    unsigned drops = atomic_exchange(&conn->turned_away, 0);
    atomic_fetch_sub(&conn->device->leaving, drops);
    for (; drops > 0; drops--) {
        iwarp_conn_put(conn); /* of send_away; the kick has another */
    }
    if (conn->state == CONN_REQUEST && !conn->qp && conn->listener) {
        iwarp_conn_decline_crowded(conn);
    } else if (conn->state < CONN_REQUEST) {
        atomic_fetch_add(&conn->device->stats.turned_away, 1);
        iwarp_conn_fail(conn, IWARP_FAULT_MPA_CROWDED, IWARP_SIDE_LOCAL,
                        atomic_load(&conn->device->startups.count), 0);
    } else if (conn->lingering && conn->ep) {
        iwarp_conn_close_endpoint(conn, true);
    }
}
