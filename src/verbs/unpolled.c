/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/unpolled.h"

#include "verbs/conn.h"
#include "verbs/cq.h"
#include "verbs/qp.h"

/* conn.lock keeps the queue pair, and with it its completion queues: qp.c takes it to separate the
 * two. */
bool iwarp_conn_unpolled(struct iwarp_conn *conn)
{
    iwarp_mutex_lock(&conn->lock);
    const struct iwarp_qp *qp = conn->qp;
    bool unpolled = qp && (iwarp_cq_has_of(qp->options.recv_cq, qp) ||
                           iwarp_cq_has_of(qp->options.send_cq, qp));
    iwarp_conn_unlock(conn);
    return unpolled;
}
