/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections over endpoints that are connected already: of the application's own transport
 * (iwarp/transport.h), or two joined in memory. An endpoint belongs to its connection once the call
 * has succeeded; the connection's worker closes it.
 */
#include "base/guard.h"
#include "base/process.h"
#include "capture/flow.h"
#include "loop/loop.h"
#include "transport/transport.h"
#include "verbs/conn.h"
#include "verbs/conn_connect.h"
#include "verbs/conn_options.h"
#include "verbs/conn_setup.h"
#include "verbs/device.h"
#include "verbs/eq.h"
#include "verbs/inject.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/worker.h"

/* A connection and its endpoint, carried to the worker; on the caller's stack, as the caller waits.
 */
struct over {
    struct iwarp_conn *conn;
    struct iwarp_endpoint *ep;
};

/* On the worker, since an endpoint is used there only, but for sending. */
static void attach_on_worker(void *arg)
{
    struct over *side = arg;

    iwarp_mutex_lock(&side->conn->lock);
    if (iwarp_conn_attach(side->conn, side->ep)) {
        iwarp_conn_begin_startup(side->conn);
    }
    iwarp_conn_unlock(side->conn);
}

/* --- of the application ---------------------------------------------------------------------- */

/*
 * A wake-up may come from any thread from now on, before the worker has attached the endpoint. So
 * the endpoint's `user` is set here already; a kick that comes early finds no endpoint and does
 * nothing.
 */
static void hand_over(struct iwarp_conn *conn, struct iwarp_endpoint *ep)
{
    struct over over = {conn, ep};

    __atomic_store_n(&ep->user, conn, __ATOMIC_RELEASE);
    iwarp_guard_refresh();
    iwarp_loop_call(&conn->worker->loop, attach_on_worker, &over);
}

/* All operations are needed (iwarp/transport.h), so later code calls them without a test. */
static enum iwarp_status check(const struct iwarp_endpoint *ep)
{
    const struct iwarp_transport *o = ep ? ep->ops : NULL;

    if (!o || !o->readv || !o->writev || !o->watch || !o->shutdown_write || !o->close || !o->emss ||
        !o->poll) {
        return iwarp_fail(IWARP_MISUSE, "endpoint: %s",
                          o ? "an operation is NULL" : "it is NULL, or has no operations");
    }
    return IWARP_OK;
}

enum iwarp_status iwarp_connect_over(struct iwarp_qp *qp, struct iwarp_endpoint *ep,
                                     const struct iwarp_conn_options *options,
                                     const void *private_data, size_t pd_len, struct iwarp_eq *eq,
                                     void *user, struct iwarp_conn **out)
{
    IWARP_UNCANCELLED;
    enum iwarp_status status = check(ep);

    if (status != IWARP_OK) {
        return status;
    }
    if (!qp || !out || (pd_len > 0 && !private_data)) {
        return iwarp_fail(IWARP_MISUSE, "connecting over an endpoint: %s is NULL",
                          !qp    ? "the queue pair"
                          : !out ? "the place for the connection"
                                 : "private_data");
    }
    IWARP_ON_LOOP(qp->pd->device);
    struct iwarp_conn *conn =
        iwarp_conn_new_initiator(qp, NULL, options, private_data, pd_len, eq, user, &status);
    if (!conn) {
        return status;
    }
    *out = conn; /* before the first event can tell of it */
    hand_over(conn, ep);
    return IWARP_OK;
}

enum iwarp_status iwarp_accept_over(struct iwarp_device *device, struct iwarp_endpoint *ep,
                                    const struct iwarp_conn_options *options, struct iwarp_eq *eq,
                                    void *user, struct iwarp_conn **out)
{
    IWARP_UNCANCELLED;
    struct iwarp_conn_options o;
    enum iwarp_status status = check(ep);

    if (status == IWARP_OK) {
        status = iwarp_conn_options_check(options, &o);
    }
    if (status != IWARP_OK) {
        return status;
    }
    if (!device || !eq || !out || eq->device != device) {
        return iwarp_fail(IWARP_MISUSE, "accepting over an endpoint needs a device, an event queue "
                                        "of it, and a place for the connection");
    }
    IWARP_ON_LOOP(device);
    struct iwarp_conn *conn = iwarp_conn_new(device, &o, STARTUP_GIVEN, &status);
    if (!conn) {
        return status;
    }
    conn->user = user;
    iwarp_conn_use_eq(conn, eq);
    atomic_fetch_add(&device->stats.arrivals, 1);
    *out = conn;
    hand_over(conn, ep);
    return IWARP_OK;
}

/*
 * Any thread, with any lock held: it only queues the task. NULL: the endpoint has no connection
 * yet.
 */
void iwarp_endpoint_wake(struct iwarp_endpoint *ep)
{
    struct iwarp_conn *conn = IWARP_GIVEN(ep) ? __atomic_load_n(&ep->user, __ATOMIC_ACQUIRE) : NULL;

    if (conn) {
        iwarp_worker_kick(conn);
    }
}

/* --- in memory ------------------------------------------------------------------------------- */

/* Something has changed for this end: any thread, with pair.lock held, so it only queues a task. */
static void mem_wake(void *user)
{
    iwarp_worker_kick(user);
}

/*
 * The responder of a pair: a connection that accepts whatever the Request asks for, bound to qp,
 * and the endpoints of both ends. On failure nothing of it is left, and the initiator is as it was.
 */
static enum iwarp_status mem_responder(struct iwarp_qp *qp, struct iwarp_eq *eq,
                                       struct over side[2])
{
    enum iwarp_status status;
    struct iwarp_conn *conn =
        iwarp_conn_new(qp->pd->device, &side[0].conn->options, STARTUP_PAIRED, &status);

    if (!conn) {
        return status;
    }
    struct iwarp_mem_loans loans = {0, 0};
    if (qp->pd->device->injector) {
        loans.most = iwarp_inject_lend(qp->pd->device->injector, &loans.seed);
    }
    iwarp_mutex_lock(&conn->lock); /* as in iwarp_conn_new_initiator */
    iwarp_qp_bound(qp, &conn->options);
    iwarp_conn_use_eq(conn, eq);
    status = iwarp_qp_bind(qp, conn);
    iwarp_mutex_unlock(&conn->lock);
    if (status == IWARP_OK &&
        iwarp_mem_pair(mem_wake, side[0].conn, conn, loans.most ? &loans : NULL, &side[0].ep,
                       &side[1].ep) != 0) {
        iwarp_qp_unbind(qp, conn);
        status = iwarp_fail(IWARP_NO_MEMORY, "no memory for a connection in memory");
    }
    if (status != IWARP_OK) {
        iwarp_conn_drop(conn);
        return status;
    }
    side[1].conn = conn;
    return IWARP_OK;
}

/* Another thread may connect or reset it at this moment: iwarp_qp_bind has the last word. */
static bool has_conn(struct iwarp_qp *qp)
{
    iwarp_mutex_lock(&qp->post_lock);
    bool has = qp->conn != NULL;
    iwarp_mutex_unlock(&qp->post_lock);
    return has;
}

enum iwarp_status iwarp_connect_pair(struct iwarp_qp *initiator, struct iwarp_qp *responder,
                                     const struct iwarp_conn_options *options, struct iwarp_eq *eq,
                                     struct iwarp_conn **initiator_conn,
                                     struct iwarp_conn **responder_conn)
{
    IWARP_UNCANCELLED;
    struct over side[2] = {{NULL, NULL}, {NULL, NULL}};
    struct iwarp_conn_options plain;
    enum iwarp_status status;

    if (!initiator || !responder || !initiator_conn || !responder_conn) {
        return iwarp_fail(IWARP_MISUSE, "connecting a pair: a queue pair or the place for a "
                                        "connection is NULL");
    }
    struct iwarp_device *device = initiator->pd->device;
    IWARP_ON_LOOP(device);
    status = iwarp_conn_options_check(options, &plain);
    if (status != IWARP_OK) {
        return status;
    }
    plain.tls = "off";
    if (responder->pd->device != device || initiator == responder || has_conn(responder)) {
        return iwarp_fail(IWARP_MISUSE, "a pair needs two IDLE queue pairs of one device");
    }
    side[0].conn = iwarp_conn_new_initiator(initiator, NULL, &plain, NULL, 0, eq, NULL, &status);
    if (!side[0].conn) {
        return status;
    }
    status = mem_responder(responder, eq, side);
    if (status != IWARP_OK) {
        iwarp_qp_unbind(initiator, side[0].conn);
        iwarp_conn_destroy(side[0].conn);
        return status;
    }
    if (device->capture) {
        uint32_t number = iwarp_flow_number();
        side[0].conn->startup->flow_number = number;
        side[1].conn->startup->flow_number = number;
    }
    atomic_fetch_add(&device->stats.arrivals, 1);
    *initiator_conn = side[0].conn;
    *responder_conn = side[1].conn;
    for (int i = 1; i >= 0; i--) {
        iwarp_loop_call(&side[i].conn->worker->loop, attach_on_worker, &side[i]);
    }
    return IWARP_OK;
}
