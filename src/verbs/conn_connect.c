/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The active side: laying out the Request, connecting, again where nobody listens yet, and the
 * second try with MPA revision 1 for peers that hang up on a Request of revision 2 (RFC 6581 10).
 * What follows the connection of TCP is in conn_setup.c.
 */
#include "verbs/conn_connect.h"
#include "base/guard.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/process.h"
#include "loop/loop.h"
#include "mpa/mpa_setup.h"
#include "transport/transport.h"
#include "verbs/conn.h"
#include "verbs/conn_options.h"
#include "verbs/conn_setup.h"
#include "verbs/conn_timer.h"
#include "verbs/device.h"
#include "verbs/eq.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/send_imm.h"
#include "verbs/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* With private data as it goes out. False: it is too long. */
static bool lay_out(struct iwarp_conn *conn, const void *pd, size_t pd_len)
{
    struct iwarp_startup *s = conn->startup;
    struct iwarp_mpa_wish wish;

    iwarp_conn_wish(&conn->options, &wish);
    iwarp_mpa_setup_init(&s->setup, IWARP_MPA_INITIATOR, &wish);
    s->request_len = iwarp_mpa_setup_request(&s->setup, pd, pd_len, s->request);
    return s->request_len > 0;
}

/*
 * Lay out the Request before anything else happens, so that the caller learns at once of private
 * data that are too long (RFC 5044 7.1.1: 512 octets; RFC 6581 9 takes 4 of them).
 */
static enum iwarp_status prepare_request(struct iwarp_conn *conn, const void *pd, size_t pd_len)
{
    bool asks = conn->options.send_imm == IWARP_SEND_IMM_ASK, rev_2 = conn->options.mpa_rev == 2;
    int room = IWARP_MPA_PRIVATE_DATA_MAX - (rev_2 ? IWARP_MPA_ENHANCED_LEN : 0) -
               (asks ? IWARP_SEND_IMM_MARK_LEN : 0);
    uint8_t out[IWARP_MPA_PRIVATE_DATA_MAX];

    if (pd_len <= (size_t)room && (asks ? lay_out(conn, out, iwarp_send_imm_mark(out, pd, pd_len))
                                        : lay_out(conn, pd, pd_len))) {
        return IWARP_OK;
    }
    return iwarp_fail(
        IWARP_MISUSE, "%zu octets of private data, an MPA revision %u Request carries %d%s", pd_len,
        conn->options.mpa_rev, room, asks ? " (8 are for what send_imm asks the peer)" : "");
}

/* Options that are checked, of a connection to peer, or over an endpoint if that is NULL. */
static enum iwarp_status check_start(const struct iwarp_qp *qp, const struct iwarp_addr *peer,
                                     const struct iwarp_conn_options *options,
                                     const struct iwarp_eq *eq)
{
    if (eq && eq->device != qp->pd->device) {
        return iwarp_fail(IWARP_MISUSE, "event queue and queue pair are of different devices");
    }
    if (peer && options && options->source_len > 0 &&
        options->source->sa_family != peer->any.sa_family) {
        return iwarp_fail(IWARP_MISUSE, "connecting: source is of address family %d, addr of %d",
                          options->source->sa_family, peer->any.sa_family);
    }
    return IWARP_OK;
}

/*
 * conn.lock, since the device's list has the connection already. The queue pair is bound last: once
 * it is bound, another thread can have it ended, and the worker then reports to its event queue and
 * writes its address to the log.
 */
struct iwarp_conn *iwarp_conn_new_initiator(struct iwarp_qp *qp, const struct iwarp_addr *peer,
                                            const struct iwarp_conn_options *options,
                                            const void *pd, size_t pd_len, struct iwarp_eq *eq,
                                            void *user, enum iwarp_status *status)
{
    struct iwarp_conn_options o;

    *status = iwarp_conn_options_check(options, &o);
    if (*status == IWARP_OK) {
        *status = check_start(qp, peer, options, eq);
    }
    if (*status != IWARP_OK) {
        return NULL;
    }
    iwarp_qp_bound(qp, &o);
    struct iwarp_conn *conn =
        iwarp_conn_new(qp->pd->device, &o, peer ? STARTUP_CONNECTS : STARTUP_OVER, status);
    if (!conn) {
        return NULL;
    }
    iwarp_mutex_lock(&conn->lock);
    if (peer) {
        conn->peer = *peer;
    }
    if (peer && options && options->source_len > 0) {
        iwarp_addr_set(&conn->startup->source, options->source, options->source_len);
    }
    conn->user = user;
    iwarp_conn_use_eq(conn, eq);
    *status = prepare_request(conn, pd, pd_len);
    if (*status == IWARP_OK) {
        *status = iwarp_qp_bind(qp, conn);
    }
    iwarp_mutex_unlock(&conn->lock);
    if (*status != IWARP_OK) {
        iwarp_conn_drop(conn);
        return NULL;
    }
    atomic_fetch_add(&conn->device->stats.connects, 1);
    return conn;
}

/*
 * Begin a TCP connection to the peer; on the worker, locked. Returns 0 or -errno. The loop reports
 * the socket as writable when it is connected or has failed (iwarp_conn_startup_writable).
 */
static int begin_tcp(struct iwarp_conn *conn)
{
    struct iwarp_endpoint *ep = NULL;
    struct iwarp_startup *s = conn->startup;
    const struct iwarp_conn_options *o = &conn->options;
    const struct iwarp_way way = {.addr = &conn->peer.any,
                                  .addr_len = conn->peer.len,
                                  .source = &s->source.any,
                                  .source_len = s->source.len,
                                  .traffic_class = o->traffic_class};

    conn->tcp = conn->device->stack->ops;
    int rc = conn->tcp->connect(conn->worker->seat, &way, &ep);

    if (rc < 0) {
        return rc;
    }
    conn->state = CONN_CONNECTING;
    (void)iwarp_conn_attach(conn, ep);
    conn->tcp->patience(ep, o->user_timeout_ms, o->keepalive_s);
    ep->ops->watch(ep, false, true);
    iwarp_conn_start_phase(conn, o->connect_timeout_ms, &s->connecting_ms);
    return 0;
}

/* How long after a refusal the next try comes, in milliseconds. */
#define AGAIN_MS 10

/*
 * Programs that listen anew on a port, for each connection or after an exchange over another, may
 * do so some microseconds after their peer connects. So a refusal is final only when refused_ms is
 * over. Until the next try the connection has no endpoint, only its timer.
 */
bool iwarp_conn_connect_later(struct iwarp_conn *conn, int error)
{
    struct iwarp_startup *s = conn->startup;
    const struct iwarp_conn_options *o = &conn->options;
    uint64_t then = (uint64_t)s->connecting_ms + AGAIN_MS;

    if (error != ECONNREFUSED || then > o->refused_ms || then >= o->connect_timeout_ms) {
        return false;
    }
    s->connecting_ms = (unsigned)then;
    conn->state = CONN_CONNECTING;
    if (conn->ep) {
        iwarp_conn_drop_endpoint(conn);
    }
    iwarp_conn_start_timer(conn, AGAIN_MS);
    return true;
}

void iwarp_conn_connect_again(struct iwarp_conn *conn)
{
    int rc = begin_tcp(conn);

    if (rc < 0 && !iwarp_conn_connect_later(conn, -rc)) {
        iwarp_conn_fail(conn, IWARP_FAULT_TCP_CONNECT, IWARP_SIDE_TRANSPORT, (uint64_t)-rc, 0);
    }
}

/* Another thread may have ended the connection, by the queue pair, before this runs. */
static void connect_on_worker(void *arg)
{
    struct iwarp_conn *conn = arg;

    iwarp_mutex_lock(&conn->lock);
    if (conn->state != CONN_ENDED) { /* else it ended before it began */
        iwarp_conn_connect_again(conn);
    }
    iwarp_conn_unlock(conn);
}

/*
 * The same Request in revision 1, which has room for the private data of the first. They are copied
 * out first, as both frames lie in the same octets.
 */
static void lay_out_revision_1(struct iwarp_conn *conn)
{
    const size_t skip = IWARP_MPA_FRAME_HDR_LEN + IWARP_MPA_ENHANCED_LEN;
    size_t pd_len = conn->startup->request_len - skip;
    uint8_t pd[IWARP_MPA_PRIVATE_DATA_MAX];

    memcpy(pd, conn->startup->request + skip, pd_len);
    conn->options.mpa_rev = 1;
    (void)lay_out(conn, pd, pd_len);
}

/*
 * True: the connection goes on or has failed, and the caller leaves it alone. Tried only if the
 * peer hung up before an octet of its Reply, as RFC 6581 10 describes; and only over TCP of this
 * library's own, since nobody else can connect again. There is one such try: afterwards mpa_rev is
 * 1.
 */
bool iwarp_conn_try_revision_1(struct iwarp_conn *conn, int error)
{
    bool hung_up = error == 0 || error == ECONNRESET || error == EPIPE;
    struct iwarp_startup *s = conn->startup;
    bool possible = hung_up && s->origin == STARTUP_CONNECTS && conn->options.mpa_rev == 2 &&
                    conn->options.mpa_fallback && s->setup.have == 0 && conn->qp &&
                    !conn->user_gone;

    if (!possible) {
        return false;
    }
    iwarp_log(
        IWARP_LOG_WARN, "conn",
        "qp %u: the peer hung up on a Request of MPA revision 2: connecting again with revision "
        "1, without peer-to-peer mode and without agreeing on read depths (mpa_fallback)",
        conn->qp->num);
    s->retried = true;
    iwarp_conn_end_phase(conn, &s->startup_ms);
    iwarp_conn_drop_endpoint(conn);
    lay_out_revision_1(conn);
    iwarp_conn_connect_again(conn);
    return true;
}

/*
 * A failure of the second try is told apart: the log and the application should know that both
 * revisions were tried.
 */
enum iwarp_fault_code iwarp_conn_retry_code(const struct iwarp_conn *conn,
                                            enum iwarp_fault_code code)
{
    if (!conn->startup->retried) {
        return code;
    }
    return code == IWARP_FAULT_TCP_CONNECT || code == IWARP_FAULT_TCP_LOST
               ? IWARP_FAULT_MPA_RETRY_FAILED
           : code == IWARP_FAULT_TCP_TIMEOUT || code == IWARP_FAULT_MPA_TIMEOUT
               ? IWARP_FAULT_MPA_RETRY_TIMEOUT
               : code;
}

/* All failures after this call's checks come as events, also those of connect(2). */
enum iwarp_status iwarp_connect(struct iwarp_qp *qp, const struct sockaddr *addr,
                                socklen_t addr_len, const struct iwarp_conn_options *options,
                                const void *private_data, size_t pd_len, struct iwarp_eq *eq,
                                void *user, struct iwarp_conn **out)
{
    IWARP_UNCANCELLED;
    enum iwarp_status status = iwarp_addr_check(addr, addr_len);
    struct iwarp_addr peer;

    if (status != IWARP_OK) {
        return status;
    }
    if (!qp || !out || (pd_len > 0 && !private_data)) {
        return iwarp_fail(IWARP_MISUSE, "connecting: %s is NULL",
                          !qp    ? "the queue pair"
                          : !out ? "the place for the connection"
                                 : "private_data");
    }
    iwarp_addr_set(&peer, addr, addr_len);
    IWARP_ON_LOOP(qp->pd->device);
    struct iwarp_conn *conn =
        iwarp_conn_new_initiator(qp, &peer, options, private_data, pd_len, eq, user, &status);
    if (!conn) {
        return status;
    }
    *out = conn; /* before the first event can tell of it */
    iwarp_loop_call(&conn->worker->loop, connect_on_worker, conn);
    return IWARP_OK;
}
