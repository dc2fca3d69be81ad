/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving from octets that the transport lends, and sending octets that it refers to until they
 * are acknowledged: docs/transport.md.
 *
 * What the transport has released is asked for before the stream sees what was received: a peer
 * that answers has acknowledged what it answers, and the application may deregister that memory as
 * soon as it has the answer.
 */
#include "verbs/conn_lend.h"
#include "ddp/ddp_region.h"
#include "loop/loop.h"
#include "verbs/conn_tap.h"
#include "verbs/device.h"
#include "verbs/worker.h"

#include <errno.h>

#define RX_PIECES   64
#define BURST_FPDUS 512

void iwarp_conn_take_released(struct iwarp_conn *conn)
{
    size_t n = conn->loans->released(conn->ep);

    if (n > 0 && conn->qp) {
        iwarp_stream_released(&conn->stream, n);
    } else if (n > 0) { /* its queues are gone, and nobody waits for them */
        conn->stream.tx.released += n;
        if (conn->stream.tx.refs) {
            iwarp_stream_unrefer(&conn->stream, conn->stream.tx.released);
        }
    }
}

/* --- receiving ------------------------------------------------------------------------------- */

/* The end of the connection, or of the memory that it refers to. */
static void ended(struct iwarp_conn *conn, ssize_t got)
{
    if (got == -EFAULT) {
        iwarp_stream_kill(&conn->stream, IWARP_FAULT_LOCAL_MEMORY, IWARP_SIDE_LOCAL, 0);
    } else {
        iwarp_stream_eof(&conn->stream, got < 0 ? (int)-got : conn->tx_error);
    }
}

/* Reports are of all that was there, unless there were too many pieces or too little room. */
bool iwarp_conn_receive_lent(struct iwarp_conn *conn)
{
    struct iovec iov[RX_PIECES];
    unsigned n = RX_PIECES;
    size_t held, octets = 0;

    ssize_t got = iwarp_conn_borrow(conn, iov, &n);
    if (iwarp_conn_refers(conn)) {
        iwarp_conn_take_released(conn);
    }
    if (got == -EAGAIN) {
        return false;
    }
    for (unsigned i = 0; i < n; i++) {
        octets += iov[i].iov_len;
    }
    size_t used = iwarp_stream_take(&conn->stream, iov, n, got <= 0 || n == RX_PIECES, &held);
    conn->seen = (conn->seen > octets ? conn->seen : octets) - used;
    conn->loans->give_back(conn->ep, used, held);
    if (got <= 0 && used == octets) { /* else the stream is full, and comes back to the rest */
        ended(conn, got);
        return false;
    }
    conn->worker->loop.received += got > 0 ? (uint64_t)got : 0;
    return n == RX_PIECES && used > 0;
}

/* --- sending --------------------------------------------------------------------------------- */

ssize_t iwarp_conn_send_burst(struct iwarp_conn *conn, const struct iovec *iov, unsigned n,
                              size_t *offered)
{
    uint32_t fpdus[BURST_FPDUS];
    struct iwarp_burst burst = {
        .size = sizeof burst, .iov = iov, .n = n, .fpdus = fpdus, .rest = conn->stream.tx.cut > 0};

    burst.fpdu_count = iwarp_stream_fpdus(&conn->stream, iov, fpdus, BURST_FPDUS, &burst.passing);
    *offered = 0;
    for (unsigned i = 0; i < burst.fpdu_count; i++) {
        *offered += fpdus[i];
    }
    ssize_t sent = iwarp_conn_refer(conn, &burst);
    if (sent > 0) {
        iwarp_stream_cut(&conn->stream, fpdus, burst.fpdu_count, (size_t)sent);
    }
    return sent;
}

/* --- memory that goes away ------------------------------------------------------------------- */

void iwarp_conn_forsake(struct iwarp_conn *conn)
{
    if (conn->ep && conn->has_stream && iwarp_conn_refers(conn)) {
        conn->loans->forsake(conn->ep);
        iwarp_stream_forget(&conn->stream);
    }
}

static void forsake_region(struct iwarp_conn *conn, struct iwarp_region *region)
{
    iwarp_mutex_lock(&conn->lock);
    if (conn->has_stream && conn->ep && iwarp_conn_refers(conn)) {
        iwarp_conn_take_released(conn);
        if (iwarp_stream_refers(&conn->stream, region)) {
            iwarp_stream_kill(&conn->stream, IWARP_FAULT_LOCAL_DEREGISTERED, IWARP_SIDE_LOCAL,
                              region->last_stag);
            iwarp_conn_forsake(conn);
            iwarp_worker_kick(conn); /* it closes the endpoint, and tells the application */
        }
    }
    iwarp_conn_unlock(conn);
}

/* A connection stays in the list while there is a reference to it, so the walk can go on there. */
static struct iwarp_conn *next_conn(struct iwarp_device *device, const struct iwarp_conn *before)
{
    iwarp_mutex_lock(&device->lock);
    struct iwarp_conn *conn = before ? before->next : device->conns;
    while (conn && !iwarp_conn_get_living(conn)) {
        conn = conn->next;
    }
    iwarp_mutex_unlock(&device->lock);
    return conn;
}

void iwarp_device_forsake(struct iwarp_device *device, struct iwarp_region *region)
{
    struct iwarp_conn *conn = NULL, *next;

    while (atomic_load(&region->referred) > 0 && (next = next_conn(device, conn)) != NULL) {
        forsake_region(next, region);
        if (conn) {
            iwarp_conn_put(conn);
        }
        conn = next;
    }
    if (conn) {
        iwarp_conn_put(conn);
    }
}
