/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of ids: listen, connect, accept, reject, establish, disconnect, and the attributes
 * that a program sets on a queue pair of its own. Each call checks and changes the id's state with
 * cm_lock held and starts a native operation; cm_engine.c reports the result as an event.
 */
#include "compat/cm.h"
#include "compat/rnr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The least backlog of a listener, whatever the program asks for. */
#define REQUESTS_LEAST 1024

/*
 * For how long a connection is tried again that nobody listens for.  perftest, and others, connect
 * a second time when an exchange over the first connection is over, while their server makes the
 * second listener.  Both take some 60 microseconds here, so either may be first.
 */
#define REFUSED_MS 50

/* --- listening ------------------------------------------------------------------------------- */

/* On the socket that holds the address. */
static enum iwarp_status listen_on_socket(struct cm_id *i, int backlog, struct iwarp_eq *eq)
{
    const int on = 1;

    /* Lets the next listener bind this port while connections of this one are in TIME_WAIT. */
    (void)setsockopt(i->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    enum iwarp_status status =
        iwarp_listen_socket(iwarp_compat_device(), i->fd, NULL, backlog, eq, i, &i->listener);
    if (status == IWARP_OK) {
        i->fd = -1;
    }
    return status;
}

/* There is none: the device's TCP is not the kernel's, and the port is known only now. */
static enum iwarp_status listen_on_address(struct cm_id *i, int backlog, struct iwarp_eq *eq)
{
    struct rdma_addr *a = &i->id.route.addr;
    struct sockaddr_storage addr;
    socklen_t len;
    enum iwarp_status status =
        iwarp_listen(iwarp_compat_device(), &a->src_addr, cm_addr_len(&a->src_addr), NULL, backlog,
                     eq, i, &i->listener);

    if (status == IWARP_OK && iwarp_listener_addr(i->listener, &addr, &len) == IWARP_OK) {
        cm_addr_take_port(i, &addr);
    }
    return status;
}

static int listen_bound(struct cm_id *i, int backlog)
{
    struct iwarp_eq *eq = cm_engine_eq();

    if (!eq) {
        return -1;
    }
    if (backlog < REQUESTS_LEAST) {
        backlog = REQUESTS_LEAST;
    }
    if (i->fd >= 0 && listen(i->fd, backlog) != 0) {
        return cm_refuse(errno, "rdma_listen: %s", strerror(errno));
    }
    enum iwarp_status status =
        i->fd >= 0 ? listen_on_socket(i, backlog, eq) : listen_on_address(i, backlog, eq);
    if (status != IWARP_OK) {
        return cm_failed(status, "rdma_listen");
    }
    i->backlog = 2 * (unsigned)backlog; /* ended requests, too; the library bounds the live ones */
    i->state = CM_LISTEN;
    return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    const struct sockaddr_in any = {.sin_family = AF_INET};
    int result = 0;

    if (!cm_id_usable(id, "rdma_listen") || !cm_connects(id->ps, "rdma_listen")) {
        return -1;
    }
    struct cm_id *i = cm_id_of(id);
    cm_hold();
    if (i->state == CM_IDLE) {
        result = cm_bind(i, (const struct sockaddr *)&any);
    } else if (i->state != CM_BOUND) {
        result = cm_refuse(EINVAL, "rdma_listen: the id is in use for something else");
    }
    if (result == 0) {
        result = listen_bound(i, backlog);
    }
    cm_release();
    return result;
}

/* --- parameters ------------------------------------------------------------------------------ */

/* RDMA_MAX_RESP_RES means the device's maximum. At least 1, since the start-up of a connection may
 * use an RDMA Read in either direction. */
static unsigned depth(uint8_t wished)
{
    return wished == 0 ? 1 : wished == RDMA_MAX_RESP_RES ? COMPAT_MAX_RD_ATOM : wished;
}

/*
 * How long a message waits for its receive. How often the peer tries is not told by MPA's start-up,
 * so this end's own number counts. 0 counts as 1: on adapters a receive that is posted right after
 * the connection is established comes in time, and programs that say 0, or nothing, rely on that.
 */
static unsigned rnr_timeout(const struct rdma_conn_param *param)
{
    return iwarp_compat_rnr_timeout(param->rnr_retry_count ? param->rnr_retry_count : 1, 0);
}

/* param may be NULL: then both depths are the device's maximum, and messages wait for ever. */
static int options_of(const struct rdma_conn_param *param, const char *call,
                      struct iwarp_conn_options *o)
{
    const struct rdma_conn_param most = {.responder_resources = RDMA_MAX_RESP_RES,
                                         .initiator_depth = RDMA_MAX_INIT_DEPTH,
                                         .rnr_retry_count = 7};

    if (!param) {
        param = &most;
    }
    iwarp_conn_options_init(o);
    o->ird = depth(param->responder_resources);
    o->ord = depth(param->initiator_depth);
    o->rnr_timeout_ms = rnr_timeout(param);
    if (o->ird > COMPAT_MAX_RD_ATOM || o->ord > COMPAT_MAX_RD_ATOM) {
        return cm_refuse(EINVAL,
                         "%s: responder_resources %u and initiator_depth %u; the device has %d "
                         "(max_qp_rd_atom), and 255 stands for the most",
                         call, param->responder_resources, param->initiator_depth,
                         COMPAT_MAX_RD_ATOM);
    }
    if (param->private_data_len > 0 && !param->private_data) {
        return cm_refuse(EINVAL, "%s: private_data is NULL, private_data_len %u", call,
                         param->private_data_len);
    }
    return 0;
}

/* From conn_param, or else what rdma_create_ep took from the address info (ai_connect). */
static const void *private_data(const struct cm_id *i, const struct rdma_conn_param *param,
                                size_t *len)
{
    if (param && param->private_data_len > 0) {
        *len = param->private_data_len;
        return param->private_data;
    }
    *len = i->connect_len;
    return i->connect_data;
}

/* --- connecting ------------------------------------------------------------------------------ */

/* The native connection binds its own socket to the address, so the socket that held the address is
 * closed first. Another process could take the port in between. */
static void use_bound_address(struct cm_id *i, struct iwarp_conn_options *o)
{
    if (i->bound) {
        o->source = &i->id.route.addr.src_addr;
        o->source_len = cm_addr_len(&i->id.route.addr.src_addr);
    }
    if (i->fd >= 0) {
        close(i->fd);
        i->fd = -1;
    }
}

/* cm_lock held. `connecting` is set before the native call: once that has begun, its events may
 * come, and the program may post sends. */
static int begin_connecting(struct cm_id *i, const struct rdma_conn_param *param)
{
    struct iwarp_conn_options o;
    const struct sockaddr *dst = &i->id.route.addr.dst_addr;
    struct iwarp_eq *eq = cm_engine_eq();
    size_t len;
    const void *data = private_data(i, param, &len);

    if (!eq || options_of(param, "rdma_connect", &o) != 0 || cm_event_reserve(i) != 0) {
        return -1;
    }
    struct compat_qp *qp = cm_qp_to_connect(i, param);
    if (!qp) {
        return -1;
    }
    use_bound_address(i, &o);
    o.traffic_class = i->tos;
    o.refused_ms = REFUSED_MS;
    atomic_store(&qp->connecting, true);
    enum iwarp_status status =
        iwarp_connect(qp->native, dst, cm_addr_len(dst), &o, data, len, eq, i, &i->conn);
    if (status != IWARP_OK) {
        atomic_store(&qp->connecting, false);
        i->conn = NULL;
        return cm_failed(status, "rdma_connect");
    }
    i->state = CM_CONNECTING;
    return 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
    int result;

    if (!cm_id_usable(id, "rdma_connect")) {
        return -1;
    }
    cm_hold();
    if (cm_id_of(id)->state == CM_ROUTE_RESOLVED) {
        result = begin_connecting(cm_id_of(id), conn_param);
    } else {
        result = cm_refuse(EINVAL, "rdma_connect: the route is not resolved, or the id is "
                                   "connected or was");
    }
    return cm_finish(id, result);
}

/* For programs with a queue pair of their own. InfiniBand sends a message (RTU) here; with iWARP
 * the queue pair is connected when the peer's Reply has arrived, so there is nothing to do. */
int rdma_establish(struct rdma_cm_id *id)
{
    int result = 0;

    if (!cm_id_usable(id, "rdma_establish")) {
        return -1;
    }
    cm_hold();
    if (id->qp || cm_id_of(id)->passive || cm_id_of(id)->state != CM_CONNECTED) {
        result = cm_refuse(EINVAL, "rdma_establish: %s",
                           id->qp ? "the id has a queue pair, which rdma_cm takes care of"
                                  : "the id is not connected by this end");
    }
    cm_release();
    return result;
}

/* --- answering ------------------------------------------------------------------------------- */

static int accept_request(struct cm_id *i, const struct rdma_conn_param *param)
{
    struct iwarp_conn_options o;

    if (options_of(param, "rdma_accept", &o) != 0 || cm_event_reserve(i) != 0) {
        return -1;
    }
    struct compat_qp *qp = cm_qp_to_connect(i, param);
    if (!qp) {
        return -1;
    }
    atomic_store(&qp->connecting, true);
    enum iwarp_status status =
        iwarp_accept(i->conn, qp->native, &o, param ? param->private_data : NULL,
                     param ? param->private_data_len : 0, i);
    if (status != IWARP_OK) {
        atomic_store(&qp->connecting, false);
    }
    if (status == IWARP_CLOSED) { /* as with the kernel's iWARP, no event has reported it before */
        i->state = CM_OVER;
        (void)iwarp_compat_refuse_peer("cm", ECONNRESET,
                                       "rdma_accept: the peer has gone, or was told no after the "
                                       "time for an answer");
        return -1;
    }
    if (status != IWARP_OK) {
        return cm_failed(status, "rdma_accept");
    }
    i->state = CM_CONNECTING;
    return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
    int result;

    if (!cm_id_usable(id, "rdma_accept")) {
        return -1;
    }
    cm_hold();
    if (cm_id_of(id)->state == CM_REQUEST) {
        result = accept_request(cm_id_of(id), conn_param);
    } else {
        result = cm_refuse(EINVAL, "rdma_accept: no request of a peer waits for an answer");
    }
    return cm_finish(id, result);
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
    int result = 0;

    if (!cm_id_usable(id, "rdma_reject")) {
        return -1;
    }
    struct cm_id *i = cm_id_of(id);
    cm_hold();
    if (i->state != CM_REQUEST) {
        result = cm_refuse(EINVAL, "rdma_reject: no request of a peer waits for an answer");
    } else {
        enum iwarp_status status = iwarp_reject(i->conn, data, data ? len : 0);
        if (status != IWARP_OK && status != IWARP_CLOSED) {
            result = cm_failed(status, "rdma_reject");
        } else {
            i->state = CM_OVER;
        }
    }
    cm_release();
    return result;
}

/* --- ending ---------------------------------------------------------------------------------- */

/*
 * Programs answer the event DISCONNECTED with rdma_disconnect, so as with the kernel's iWARP it
 * succeeds for a connection that the peer or a failure has ended. For an id without a channel the
 * call then waits for an event; it is refused where none can come: after DISCONNECTED was taken,
 * and for a request that is not answered. With a channel the latter succeeds and changes nothing.
 */
static int begin_disconnecting(struct cm_id *i)
{
    if (i->state == CM_CONNECTED || i->state == CM_CONNECTING) {
        enum iwarp_status status = iwarp_disconnect(i->conn);
        if (status != IWARP_OK) {
            return cm_failed(status, "rdma_disconnect");
        }
        i->state = CM_DISCONNECTING;
        return 0;
    }
    if (i->state == CM_DISCONNECTING || (i->state == CM_REQUEST && !i->sync) ||
        (i->state == CM_OVER && (!i->sync || cm_channel_of(i->id.channel)->first))) {
        return 0;
    }
    return cm_refuse(EINVAL, "rdma_disconnect: %s",
                     i->state == CM_OVER ? "not connected any more" : "not connected");
}

int rdma_disconnect(struct rdma_cm_id *id)
{
    if (!cm_id_usable(id, "rdma_disconnect")) {
        return -1;
    }
    cm_hold();
    int result = begin_disconnecting(cm_id_of(id));
    return cm_finish(id, result);
}

/* --- for queue pairs of the program's own ---------------------------------------------------- */

/* InfiniBand needs this when data arrives before the message that establishes the connection. iWARP
 * sends both over one TCP connection, in order. */
int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
    (void)event;
    if (!cm_id_usable(id, "rdma_notify")) {
        return -1;
    }
    return id->verbs ? 0 : cm_refuse(EINVAL, "rdma_notify: the id has no device yet");
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
{
    if (!cm_id_usable(id, "rdma_init_qp_attr")) {
        return -1;
    }
    if (!qp_attr || !qp_attr_mask || !id->verbs) {
        return cm_refuse(EINVAL, "rdma_init_qp_attr: %s",
                         id->verbs ? "an argument is NULL" : "the id has no device yet");
    }
    enum ibv_qp_state state = qp_attr->qp_state;
    memset(qp_attr, 0, sizeof *qp_attr);
    qp_attr->qp_state = state;
    qp_attr->timeout = cm_id_of(id)->ack_timeout;
    if (state == IBV_QPS_INIT || state == IBV_QPS_RTR) {
        qp_attr->qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        *qp_attr_mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
        return 0;
    }
    *qp_attr_mask = 0;
    return state == IBV_QPS_RTS
               ? 0
               : cm_refuse(EINVAL, "rdma_init_qp_attr: state %d; there are INIT, RTR and RTS",
                           (int)state);
}
