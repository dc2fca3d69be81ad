/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread that takes the events of native connections and turns them into events of rdma_cm.
 * There is one queue and one thread per process, both made by the first listen or connect, and anew
 * in a forked child. The thread never blocks with cm_lock held, and the only memory of the program
 * that it touches is ids.
 *
 * Life of an id: a native event names its id by pointer, also if the program destroys the id
 * between the moment when this thread takes the event from the queue and the moment when it gets
 * cm_lock. So this thread alone frees ids, and does so when it holds no event: before it waits for
 * the next.
 */
#include "compat/cm.h"

#include "base/fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct iwarp_eq *eq; /* both under cm_lock */
static unsigned eq_born;    /* the generation that made eq: a child does not use its parent's */

/* --- what an event says ---------------------------------------------------------------------- */

/* rdma_cm has 8 bits for a depth. With MPA revision 1 the peer states none. */
static uint8_t depth_of(const struct iwarp_conn_info *info, unsigned depth)
{
    if (info->mpa_rev < 2) {
        return 32;
    }
    return (uint8_t)(depth < COMPAT_MAX_RD_ATOM ? depth : COMPAT_MAX_RD_ATOM);
}

/* Seen from the program: what the peer accepts bounds what this end may send, and the other way. */
static void depths(const struct iwarp_conn *conn, struct rdma_conn_param *param)
{
    struct iwarp_conn_info info = {.size = sizeof info};

    if (iwarp_conn_info(conn, &info) == IWARP_OK) {
        param->initiator_depth = depth_of(&info, info.peer_ird);
        param->responder_resources = depth_of(&info, info.peer_ord);
    }
}

static struct cm_event *event_with_data(struct cm_id *id, enum rdma_cm_event_type type, int status,
                                        const struct iwarp_conn *conn)
{
    size_t len = 0;
    const void *data = iwarp_conn_private_data(conn, &len);
    struct cm_event *event = cm_event_new(id, type, status, data, len);

    if (event) {
        depths(conn, &event->ev.param.conn);
    }
    return event;
}

/*
 * May one more request wait in the channel? The native library bounds the live requests for each
 * address of a peer, but a request whose connection has ended stays in the channel until the
 * program takes it. Those are discarded when the bound is reached.
 */
static bool has_room(struct cm_id *listener)
{
    if (listener->waiting_requests >= listener->backlog) {
        cm_events_discard(cm_events_take_ended(listener));
    }
    return listener->waiting_requests < listener->backlog;
}

/* Make an id for a peer's request. Until the program takes the event, only the event knows the id.
 * If anything is missing, the connection is destroyed, which rejects the request. */
static void on_request(struct cm_id *listener, struct iwarp_conn *conn)
{
    struct cm_event *event = NULL;
    struct cm_id *id = NULL;

    if (listener->state == CM_LISTEN && has_room(listener)) {
        id = cm_id_new(listener->id.channel, listener->id.context, listener->id.ps);
        if (id) {
            id->conn = conn;
            cm_addr_from_conn(id);
        }
        event = event_with_data(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0, conn);
    }
    if (id && event && cm_id_attach(id) == 0) {
        id->state = CM_REQUEST;
        id->passive = true;
        id->id.qp_type = listener->id.qp_type;
        id->request_ird = event->ev.param.conn.initiator_depth;
        id->request_ord = event->ev.param.conn.responder_resources;
        event->ev.listen_id = &listener->id;
        event->ev.id = &id->id;
        listener->waiting_requests++;
        cm_event_push(event);
        return;
    }
    free(event);
    if (id) {
        cm_id_end(id); /* destroys conn, too */
    } else {
        (void)iwarp_conn_destroy(conn);
    }
}

/* Programs distinguish three kinds of failure: refused or reset (REJECTED), timed out
 * (UNREACHABLE), and all others. */
static void failure(const struct iwarp_event *e, enum rdma_cm_event_type *type, int *status)
{
    const struct iwarp_fault *f = e->fault;
    int error = ECONNABORTED;

    if (f && (f->code == IWARP_FAULT_TCP_CONNECT || f->code == IWARP_FAULT_TCP_LOST)) {
        error = f->detail[0] > 0 && f->detail[0] < 4096 ? (int)f->detail[0] : ECONNRESET;
    } else if (f && (f->code == IWARP_FAULT_TCP_TIMEOUT || f->code == IWARP_FAULT_MPA_TIMEOUT ||
                     f->code == IWARP_FAULT_MPA_RETRY_TIMEOUT)) {
        error = ETIMEDOUT;
    } else if (e->status == IWARP_NO_MEMORY || e->status == IWARP_LIMIT) {
        error = ENOMEM;
    } else if (f && f->code == IWARP_FAULT_MPA_CLOSED) {
        error = ECONNRESET;
    }
    *type = error == ECONNREFUSED || error == ECONNRESET ? RDMA_CM_EVENT_REJECTED
            : error == ETIMEDOUT                         ? RDMA_CM_EVENT_UNREACHABLE
                                                         : RDMA_CM_EVENT_CONNECT_ERROR;
    *status = -error;
}

static void on_established(struct cm_id *id, bool active)
{
    /* Without id.qp the program brings its own queue pair to RTS and calls rdma_establish. */
    enum rdma_cm_event_type type =
        active && !id->id.qp ? RDMA_CM_EVENT_CONNECT_RESPONSE : RDMA_CM_EVENT_ESTABLISHED;
    struct cm_event *event = event_with_data(id, type, 0, id->conn);

    if (id->state == CM_CONNECTING) {
        id->state = CM_CONNECTED;
    }
    cm_addr_from_conn(id);
    if (event) {
        cm_event_push(event);
    }
}

/* The event has a number alone, and this one stands for much: the log has the sentence. */
static void explain(const struct iwarp_event *e)
{
    char why[400], text[440];

    iwarp_fault_text(e->fault, why, sizeof why);
    snprintf(text, sizeof text, "connecting failed: %s", why);
    (void)iwarp_compat_refuse_peer("cm", ECONNABORTED, text);
}

static void on_failed(struct cm_id *id, const struct iwarp_event *e, bool active)
{
    enum rdma_cm_event_type type;
    int status;

    failure(e, &type, &status);
    if (status == -ECONNABORTED && e->fault && e->fault->code != IWARP_FAULT_LOCAL_ABORT) {
        explain(e);
    }
    if (!active && type == RDMA_CM_EVENT_REJECTED) {
        type = RDMA_CM_EVENT_CONNECT_ERROR; /* this side has accepted: nobody rejected it */
    }
    id->state = CM_OVER;
    (void)cm_event_tell(id, type, status);
}

/* cm_lock held. An event of a connection that the id no longer has is dropped. */
static void on_event(const struct iwarp_event *e)
{
    struct cm_id *id = e->user;

    if (e->type == IWARP_EVENT_REQUEST) {
        on_request(id, e->conn); /* a listener that has ended is in state OVER: it rejects */
        return;
    }
    if (id->conn != e->conn) {
        return;
    }
    bool active = !id->passive;
    if (e->type == IWARP_EVENT_ESTABLISHED) {
        on_established(id, active);
    } else if (e->type == IWARP_EVENT_REJECTED) {
        struct cm_event *event =
            event_with_data(id, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, e->conn);
        id->state = CM_OVER;
        if (event) {
            cm_event_push(event);
        }
    } else if (e->type == IWARP_EVENT_FAILED) {
        on_failed(id, e, active);
    } else {
        cm_over(id);
    }
}

/* --- the thread ------------------------------------------------------------------------------ */

static void *run(void *arg)
{
    struct iwarp_eq *queue = arg;
    struct iwarp_event event;

    for (;;) {
        cm_ids_free_ended();
        if (iwarp_eq_get(queue, &event, cm_over_look()) == IWARP_OK) {
            cm_hold();
            on_event(&event);
            cm_release();
        }
    }
    return NULL;
}

struct iwarp_eq *cm_engine_eq(void)
{
    if (eq && eq_born == iwarp_compat_generation()) {
        return eq;
    }
    eq = NULL; /* if there is one, it is the parent's, which refuses calls of this process */
    struct iwarp_device *device = iwarp_compat_device();
    if (!device) {
        return NULL;
    }
    enum iwarp_status status = iwarp_eq_create(device, &eq);
    if (status != IWARP_OK) {
        (void)cm_failed(status, "connection events");
        return NULL;
    }
    int error = iwarp_compat_thread("iwarp-cm", run, eq);
    if (error) {
        (void)cm_refuse(error, "no thread for connection events: error %d", error);
        (void)iwarp_eq_destroy(eq);
        eq = NULL;
        return NULL;
    }
    eq_born = iwarp_compat_generation();
    cm_ids_expect_events();
    return eq;
}
