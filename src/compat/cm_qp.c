/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs and shared receive queues of ids. They are created by the calls of libibverbs, as a
 * program does; this file adds what rdma_cm adds: completion queues where the program gives none,
 * the default protection domain, and states that follow the connection.
 */
#include "compat/cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- completion queues ----------------------------------------------------------------------- */

/* Only queues that this file has created have a channel in the id: those of the program stay. */
static void destroy_queue(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
    if (*channel) {
        if (*cq) {
            (void)ibv_destroy_cq(*cq);
        }
        (void)ibv_destroy_comp_channel(*channel);
    }
    *cq = NULL;
    *channel = NULL;
}

static void destroy_queues(struct rdma_cm_id *id)
{
    destroy_queue(&id->send_cq, &id->send_cq_channel);
    destroy_queue(&id->recv_cq, &id->recv_cq_channel);
}

static int create_queue(struct rdma_cm_id *id, unsigned entries, struct ibv_cq **cq,
                        struct ibv_comp_channel **channel)
{
    *channel = ibv_create_comp_channel(id->verbs);
    if (!*channel) {
        return -1;
    }
    *cq = ibv_create_cq(id->verbs, entries > 0 ? (int)entries : 1, id, *channel, 0);
    return *cq ? 0 : -1;
}

/* Create the completion queues that the program gives neither here nor in the id. On failure none
 * is left behind. */
static int complete_queues(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    if ((!attr->send_cq && !id->send_cq &&
         create_queue(id, attr->cap.max_send_wr, &id->send_cq, &id->send_cq_channel) != 0) ||
        (!attr->recv_cq && !id->recv_cq &&
         create_queue(id, attr->cap.max_recv_wr, &id->recv_cq, &id->recv_cq_channel) != 0)) {
        int error = errno;
        destroy_queues(id);
        return cm_refuse(error, "rdma_create_qp: no completion queue: %s", strerror(error));
    }
    if (!attr->send_cq) {
        attr->send_cq = id->send_cq;
    }
    if (!attr->recv_cq) {
        attr->recv_cq = id->recv_cq;
    }
    return 0;
}

/* --- queue pairs ----------------------------------------------------------------------------- */

static int check(const struct rdma_cm_id *id, const struct ibv_qp_init_attr_ex *attr)
{
    if (id->qp) {
        return cm_refuse(EINVAL, "rdma_create_qp: the id has a queue pair already");
    }
    if (!id->verbs) {
        return cm_refuse(EINVAL, "rdma_create_qp: the id has no device yet: bind it to an address "
                                 "or resolve one");
    }
    if (!attr->pd || attr->pd->context != id->verbs) {
        return cm_refuse(EINVAL, "rdma_create_qp: the protection domain is not of the id's context "
                                 "(id->verbs)");
    }
    if (attr->qp_type != IBV_QPT_RC) {
        return cm_refuse(EOPNOTSUPP,
                         "rdma_create_qp: queue pair type %d; iWARP has IBV_QPT_RC only",
                         (int)attr->qp_type);
    }
    if ((id->send_cq && attr->send_cq && id->send_cq != attr->send_cq) ||
        (id->recv_cq && attr->recv_cq && id->recv_cq != attr->recv_cq)) {
        return cm_refuse(EINVAL, "rdma_create_qp: the id has other completion queues already");
    }
    if (id->srq && attr->srq && id->srq != attr->srq) {
        return cm_refuse(EINVAL, "rdma_create_qp: the id has another shared receive queue already");
    }
    return 0;
}

int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    if (!cm_id_usable(id, "rdma_create_qp") || !cm_connects(id->ps, "rdma_create_qp")) {
        return -1;
    }
    if (!attr) {
        return cm_refuse(EINVAL, "rdma_create_qp: qp_init_attr is NULL");
    }
    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
        attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
        attr->pd = id->pd;
    }
    if (check(id, attr) != 0) {
        return -1;
    }
    if (!attr->srq) {
        attr->srq = id->srq;
    }
    struct ibv_cq *const send_cq = attr->send_cq, *const recv_cq = attr->recv_cq;
    if (complete_queues(id, attr) != 0) {
        return -1;
    }
    struct ibv_qp *qp = iwarp_compat_create_qp_of_id(id->verbs, attr);
    if (!qp) {
        int error = errno;
        destroy_queues(id);
        attr->send_cq = send_cq; /* programs ask for less, and try again with the same attributes */
        attr->recv_cq = recv_cq;
        errno = error;
        return -1;
    }
    struct cm_id *i = cm_id_of(id);
    cm_hold();
    if (i->ack_timeout_set) {
        atomic_store(&compat_qp(qp)->ack_timeout, i->ack_timeout);
    }
    i->qp_num = qp->qp_num;
    id->pd = attr->pd;
    id->qp = qp;
    cm_release();
    return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    const size_t common = offsetof(struct ibv_qp_init_attr_ex, comp_mask);
    struct ibv_qp_init_attr_ex ex;

    if (!attr) {
        return cm_refuse(EINVAL, "rdma_create_qp: qp_init_attr is NULL");
    }
    memset(&ex, 0, sizeof ex);
    memcpy(&ex, attr, common); /* its padding is comp_mask here */
    if (pd) {
        ex.comp_mask = IBV_QP_INIT_ATTR_PD;
        ex.pd = pd;
    }
    int result = rdma_create_qp_ex(id, &ex);
    memcpy(attr, &ex, common);
    return result;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
    if (!cm_id_usable(id, "rdma_destroy_qp") || !id->qp) {
        return;
    }
    struct cm_id *i = cm_id_of(id);
    struct ibv_qp *qp = id->qp;

    cm_hold();
    if (i->conn && i->state == CM_CONNECTED) {
        (void)iwarp_disconnect(i->conn); /* an orderly close, if nothing is unfinished */
        i->state = CM_DISCONNECTING;
    }
    id->qp = NULL;
    cm_release();
    (void)ibv_destroy_qp(qp);
    destroy_queues(id);
}

struct compat_qp *cm_qp_to_connect(struct cm_id *i, const struct rdma_conn_param *param)
{
    if (i->id.qp) {
        return compat_qp(i->id.qp);
    }
    if (!param) {
        (void)cm_refuse(EINVAL, "the id has no queue pair, and no conn_param names one");
        return NULL;
    }
    struct compat_qp *qp = iwarp_compat_qp_find(param->qp_num);
    if (!qp) {
        (void)cm_refuse(EINVAL, "the id has no queue pair, and none has number %u (conn_param)",
                        param->qp_num);
        return NULL;
    }
    i->qp_num = param->qp_num;
    if (i->ack_timeout_set) {
        atomic_store(&qp->ack_timeout, i->ack_timeout);
    }
    return qp;
}

/*
 * The table of queue pairs is asked by number, since the program may have destroyed the queue pair
 * while the event waited, and may do so now, in another thread. After a failure it goes to ERR, so
 * that posted receives are flushed.
 */
void cm_qp_follow(struct cm_id *i, enum rdma_cm_event_type type)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    bool failed = type == RDMA_CM_EVENT_REJECTED || type == RDMA_CM_EVENT_UNREACHABLE ||
                  type == RDMA_CM_EVENT_CONNECT_ERROR;

    if (i->qp_num == 0 ||
        (!failed && type != RDMA_CM_EVENT_ESTABLISHED && type != RDMA_CM_EVENT_CONNECT_RESPONSE &&
         type != RDMA_CM_EVENT_DISCONNECTED)) {
        return;
    }
    struct compat_qp *qp = iwarp_compat_qp_hold(i->qp_num);
    if (!qp) {
        return;
    }
    if (failed) {
        (void)ibv_modify_qp(&qp->ibv, &error, IBV_QP_STATE);
    } else {
        iwarp_compat_qp_refresh(qp);
    }
    compat_qp_release(qp);
}

/* --- shared receive queues ------------------------------------------------------------------- */

int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
    if (!cm_id_usable(id, "rdma_create_srq")) {
        return -1;
    }
    if (!attr || !id->verbs || id->srq) {
        return cm_refuse(EINVAL, "rdma_create_srq: %s",
                         !attr        ? "the attributes are NULL"
                         : !id->verbs ? "the id has no device yet"
                                      : "the id has a shared receive queue already");
    }
    if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
        attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
        attr->pd = id->pd;
    }
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC) {
        return cm_refuse(EOPNOTSUPP, "rdma_create_srq: type %d; iWARP has IBV_SRQT_BASIC only",
                         (int)attr->srq_type);
    }
    struct ibv_srq_init_attr basic = {attr->srq_context, attr->attr};
    struct ibv_srq *srq = ibv_create_srq(attr->pd, &basic);
    if (!srq) {
        return -1;
    }
    attr->attr = basic.attr;
    id->pd = attr->pd;
    id->srq = srq;
    return 0;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct ibv_srq_init_attr_ex ex;

    if (!attr) {
        return cm_refuse(EINVAL, "rdma_create_srq: the attributes are NULL");
    }
    memset(&ex, 0, sizeof ex);
    ex.srq_context = attr->srq_context;
    ex.attr = attr->attr;
    if (pd) {
        ex.comp_mask = IBV_SRQ_INIT_ATTR_PD;
        ex.pd = pd;
    }
    int result = rdma_create_srq_ex(id, &ex);
    attr->attr = ex.attr;
    return result;
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
    if (cm_id_usable(id, "rdma_destroy_srq") && id->srq) {
        (void)ibv_destroy_srq(id->srq);
        id->srq = NULL;
    }
}
