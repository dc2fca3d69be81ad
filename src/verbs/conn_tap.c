/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The border between a connection and its endpoint, when what crosses it is recorded: the device's
 * capture sees each octet that was sent or received, whatever the transport. Without a capture none
 * of this is reached (inline functions in conn_tap.h).
 */
#include "verbs/conn_tap.h"
#include "capture/flow.h"
#include "transport/transport.h"
#include "verbs/conn.h"
#include "verbs/device.h"
#include "verbs/qp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* A flow has two sides, which may both be of this process: the initiator is 0. */
static unsigned side_of(const struct iwarp_conn *conn)
{
    return conn->responder ? 1 : 0;
}

/* The real addresses, or made-up ones. */
static void addresses(struct iwarp_conn *conn, struct iwarp_headers_addr addr[2])
{
    struct iwarp_addr peer;
    unsigned side = side_of(conn);

    if (conn->tcp) {
        iwarp_addr_ask(&peer, conn->ep, conn->tcp->peer_addr);
        if (iwarp_flow_addr(&addr[side], &conn->local.any, conn->local.len) &&
            iwarp_flow_addr(&addr[1 - side], &peer.any, peer.len) && addr[0].v6 == addr[1].v6) {
            return;
        }
    }
    uint32_t number = conn->startup->flow_number;
    iwarp_flow_made_up(number ? number : iwarp_flow_number(), addr);
}

void iwarp_tap_name_qp(struct iwarp_conn *conn)
{
    char text[32];

    if (conn->flow && conn->qp) {
        snprintf(text, sizeof text, "QP %u", conn->qp->num);
        iwarp_flow_note(conn->flow, side_of(conn), text);
    }
}

/* "MR 0x00000100: 4096 octets from TO 0x0, remote read, remote write" */
static void describe(void *arg, uint32_t stag, char *text, size_t size)
{
    struct iwarp_device *device = arg;
    struct iwarp_region *r = iwarp_region_lend(&device->regions, stag);

    if (r) {
        snprintf(text, size, "%s 0x%08x: %" PRIu64 " octets from TO 0x%" PRIx64 "%s%s%s%s",
                 r->kind == REGION_MEMORY ? "MR" : "MW", stag, r->len, r->to_base,
                 r->access & IWARP_ACCESS_LOCAL_WRITE ? ", local write" : "",
                 r->access & IWARP_ACCESS_REMOTE_READ ? ", remote read" : "",
                 r->access & IWARP_ACCESS_REMOTE_WRITE ? ", remote write" : "",
                 r->access & IWARP_ACCESS_REMOTE_ATOMIC ? ", remote atomic" : "");
        iwarp_region_settle(r);
    }
}

/* If the flow cannot be made, nothing of this connection is recorded, and it goes on. */
void iwarp_tap_open(struct iwarp_conn *conn)
{
    struct iwarp_headers_addr addr[2];

    if (!conn->device->capture) {
        return;
    }
    addresses(conn, addr);
    conn->flow = iwarp_flow_join(conn->device->capture, addr, side_of(conn));
    if (conn->flow) {
        iwarp_flow_describe(conn->flow, side_of(conn), describe, conn->device);
    }
    iwarp_tap_name_qp(conn);
}

void iwarp_tap_close(struct iwarp_conn *conn)
{
    if (conn->flow) {
        iwarp_flow_leave(conn->flow, side_of(conn));
        conn->flow = NULL;
    }
}

/* Held as for a write, so that the end is recorded behind what was sent before. */
void iwarp_tap_end(struct iwarp_conn *conn, bool reset)
{
    if (conn->flow) {
        iwarp_flow_hold(conn->flow);
        iwarp_flow_ended(conn->flow, side_of(conn), reset);
        iwarp_flow_release(conn->flow);
    }
}

/*
 * The flow is held from before the write until it is recorded: else the peer's answer, received by
 * another thread of this process, could be recorded first. conn.lock held.
 */
ssize_t iwarp_tap_writev(struct iwarp_conn *conn, const struct iovec *iov, int n)
{
    iwarp_flow_hold(conn->flow);
    ssize_t sent = conn->ep->ops->writev(conn->ep, iov, n);
    if (sent > 0) {
        iwarp_flow_sent(conn->flow, side_of(conn), iov, (size_t)sent);
    }
    iwarp_flow_release(conn->flow);
    return sent;
}

ssize_t iwarp_tap_refer(struct iwarp_conn *conn, const struct iwarp_burst *burst)
{
    iwarp_flow_hold(conn->flow);
    ssize_t sent = conn->loans->refer(conn->ep, burst);
    if (sent > 0) {
        iwarp_flow_sent(conn->flow, side_of(conn), burst->iov, (size_t)sent);
    }
    iwarp_flow_release(conn->flow);
    return sent;
}

static void received_end(struct iwarp_conn *conn, ssize_t got)
{
    if (got == 0 || got == -ECONNRESET) {
        iwarp_flow_received_end(conn->flow, side_of(conn), got < 0);
    }
}

/* What was looked at before is recorded already. */
ssize_t iwarp_tap_borrow(struct iwarp_conn *conn, struct iovec *iov, unsigned *n)
{
    ssize_t got = conn->loans->borrow(conn->ep, iov, n);
    size_t skip = conn->seen;

    for (unsigned i = 0; i < *n; i++) {
        size_t k = skip < iov[i].iov_len ? skip : iov[i].iov_len;
        const struct iovec rest = {(uint8_t *)iov[i].iov_base + k, iov[i].iov_len - k};
        if (rest.iov_len > 0) {
            iwarp_flow_received(conn->flow, side_of(conn), &rest, rest.iov_len);
        }
        skip -= k;
    }
    received_end(conn, got);
    return got;
}

/* The octets are recorded before the stream sees them, and so before any answer is sent. */
ssize_t iwarp_tap_readv(struct iwarp_conn *conn, const struct iovec *iov, int n)
{
    ssize_t got = conn->ep->ops->readv(conn->ep, iov, n);

    if (got > 0) {
        iwarp_flow_received(conn->flow, side_of(conn), iov, (size_t)got);
    } else {
        received_end(conn, got);
    }
    return got;
}
