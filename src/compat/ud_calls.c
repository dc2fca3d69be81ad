/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the calls of libibverbs mean for a queue pair of datagrams: between RTR and ERR or RESET it
 * has an inner queue pair, and takes datagrams; from RTS on it sends them.
 */
#include "base/process.h"
#include "compat/ud.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LINGER_MS = 1000 };

/* --- what it has for its whole life ---------------------------------------------------------- */

/* The head is one piece more, and inline with inline data. */
int iwarp_ud_ask(struct iwarp_qp_options *o)
{
    enum { SGES_MOST = 31, INLINE_MOST = 1024 - UD_HEAD };

    if (o->max_send_sge > SGES_MOST || o->max_inline > INLINE_MOST) {
        return iwarp_compat_refuse(
            "verbs", EINVAL,
            "ibv_create_qp: datagrams (UD): max_send_sge %u, max_inline_data "
            "%u; the most are %d and %d",
            o->max_send_sge, o->max_inline, SGES_MOST, INLINE_MOST);
    }
    o->max_send_sge++;
    o->max_inline += UD_HEAD;
    return 0;
}

/* So many receives may be posted, or be completed and not polled yet. */
static uint32_t notes_for(const struct compat_qp *qp)
{
    struct iwarp_srq_info info = {.size = sizeof info};

    if (qp->ibv.srq && iwarp_srq_query(compat_srq(qp->ibv.srq)->native, &info) == IWARP_OK) {
        return 2 * info.max_wr + UD_BUFFERS;
    }
    return 2 * qp->cap.max_recv_wr + UD_BUFFERS;
}

static bool get_memory(struct ud *ud)
{
    ud->head_count = 2 * ud->qp->cap.max_send_wr;
    ud->note_count = notes_for(ud->qp);
    ud->heads = calloc(ud->head_count, sizeof *ud->heads);
    ud->notes = calloc(ud->note_count, sizeof *ud->notes);
    ud->buffer = calloc(UD_BUFFERS_MOST, sizeof *ud->buffer);
    return ud->heads && ud->notes && ud->buffer;
}

/* Any thread, with locks held. */
static void notify(void *unused)
{
    ud_all_ready();
    num_engine_wake(unused);
}

static enum iwarp_status get_objects(struct ud *ud)
{
    struct iwarp_device *device = iwarp_compat_device();
    enum iwarp_status status = iwarp_pd_create(device, &ud->pd);

    if (status == IWARP_OK) {
        status = iwarp_cq_create(device, UD_BUFFERS_MOST, NULL, &ud->cq);
    }
    if (status == IWARP_OK) {
        status = iwarp_cq_notify_by(ud->cq, notify, NULL);
    }
    if (status == IWARP_OK) {
        status = iwarp_mr_register(ud->pd, ud->buffer, UD_BUFFERS_MOST * sizeof *ud->buffer,
                                   IWARP_ACCESS_LOCAL_WRITE, &ud->mr);
    }
    if (status == IWARP_OK) {
        status = iwarp_mr_register(compat_pd(ud->qp->ibv.pd)->native, ud->heads,
                                   ud->head_count * sizeof *ud->heads, 0, &ud->head_mr);
    }
    return status;
}

int iwarp_ud_create(struct compat_qp *qp)
{
    struct ud *ud = calloc(1, sizeof *ud);

    if (!ud) {
        return ENOMEM;
    }
    qp->ud = ud;
    ud->qp = qp;
    ud->number = qp->num->number;
    pthread_mutex_init(&ud->post, NULL);
    if (!get_memory(ud)) {
        return ENOMEM;
    }
    enum iwarp_status status = get_objects(ud);
    return status == IWARP_OK ? 0
                              : iwarp_compat_failed("verbs", status, "ibv_create_qp: datagrams");
}

void iwarp_ud_free(struct compat_qp *qp)
{
    struct ud *ud = qp->ud;

    if (!ud) {
        return;
    }
    pthread_mutex_lock(&num_lock);
    qp->ud = NULL;
    pthread_mutex_unlock(&num_lock);
    if (ud->head_mr) {
        (void)iwarp_mr_deregister(ud->head_mr);
    }
    if (ud->mr) {
        (void)iwarp_mr_deregister(ud->mr);
    }
    if (ud->cq) {
        (void)iwarp_cq_destroy(ud->cq);
    }
    if (ud->pd) {
        (void)iwarp_pd_destroy(ud->pd);
    }
    pthread_mutex_destroy(&ud->post);
    free(ud->heads);
    free(ud->notes);
    free(ud->buffer);
    free(ud);
}

/* --- from RTR to the end: num_lock held ------------------------------------------------------ */

/* What ends is the outer queue pair's stream, too: what is posted is flushed. */
static void stop(struct ud *ud)
{
    ud_all_remove(ud);
    for (int i = 0; i < 2 && ud->pair[i]; i++) {
        (void)iwarp_abort(ud->pair[i]);
        (void)iwarp_conn_destroy(ud->pair[i]);
        ud->pair[i] = NULL;
    }
    ud_ways_end(ud);
    if (ud->inner) {
        (void)iwarp_qp_destroy(ud->inner);
        ud->inner = NULL;
    }
    if (ud->srq) {
        (void)iwarp_srq_destroy(ud->srq);
        ud->srq = NULL;
    }
    ud->queued = ud->delivering = ud->kept_count = 0;
}

static enum iwarp_status create_inner(struct ud *ud)
{
    struct iwarp_srq_options so;
    struct iwarp_qp_options o;

    iwarp_srq_options_init(&so);
    so.max_wr = UD_BUFFERS + UD_WAYS;
    so.max_sge = 1;
    enum iwarp_status status = iwarp_srq_create(ud->pd, &so, &ud->srq);
    if (status != IWARP_OK) {
        return status;
    }
    iwarp_qp_options_init(&o);
    o.send_cq = o.recv_cq = ud->cq;
    o.max_send_wr = o.max_recv_wr = UD_BUFFERS;
    o.access = 0;
    o.user = &ud->owner;
    return iwarp_qp_create(ud->pd, &o, &ud->inner);
}

static enum iwarp_status connect_inner(struct ud *ud)
{
    struct iwarp_conn_options o;

    iwarp_conn_options_init(&o);
    o.send_imm = IWARP_SEND_IMM_AGREED;
    o.rnr_timeout_ms = IWARP_RNR_OF_DEVICE - 1; /* for ever */
    o.rnr_bytes = (unsigned)sizeof(struct ud_buffer) * 8;
    return iwarp_connect_pair(ud->inner, ud->qp->native, &o, NULL, &ud->pair[0], &ud->pair[1]);
}

static int start(struct ud *ud)
{
    ud->taken = 0;
    atomic_store(&ud->posted, 0);
    ud->eq = num_engine_eq();
    if (!ud->eq) {
        return errno;
    }
    int error = num_port_listen(ud->qp->num->port, ud->eq);
    if (error) {
        return error;
    }
    enum iwarp_status status = create_inner(ud);
    if (status == IWARP_OK) {
        ud_notes_clear(ud);
        ud_buffers_lend(ud);
        status = connect_inner(ud);
    }
    if (status != IWARP_OK) {
        error = iwarp_compat_failed("verbs", status, "ibv_modify_qp: datagrams");
        stop(ud);
        return error;
    }
    ud_all_add(ud);
    num_engine_wake(NULL); /* it arms the queue */
    return 0;
}

static bool is_empty(const struct ud *ud)
{
    return !ud->inner || iwarp_qp_state(ud->qp->native) != IWARP_QP_RTS ||
           (ud->taken == atomic_load(&ud->posted) && ud->queued == 0);
}

/* A send has completed when the inner queue pair may not have it yet, and programs that destroy a
 * queue pair then have reason to think that the datagram is on its way. num_lock held. */
static void linger(const struct ud *ud)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    for (int64_t until = compat_now_ms() + LINGER_MS; !is_empty(ud) && compat_now_ms() < until;) {
        num_engine_wake(NULL);
        pthread_mutex_unlock(&num_lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&num_lock);
    }
}

void iwarp_ud_leave(struct compat_qp *qp)
{
    IWARP_UNCANCELLED;

    if (qp->ud) {
        pthread_mutex_lock(&num_lock);
        linger(qp->ud);
        stop(qp->ud);
        pthread_mutex_unlock(&num_lock);
    }
}

/* --- states ---------------------------------------------------------------------------------- */

static int to_native(struct compat_qp *qp, enum iwarp_qp_state state)
{
    const struct iwarp_qp_changes changes = {
        .size = sizeof changes, .mask = IWARP_QP_CHANGE_STATE, .state = state};
    enum iwarp_status status = iwarp_qp_modify(qp->native, &changes);

    return status == IWARP_OK ? 0 : iwarp_compat_failed("verbs", status, "ibv_modify_qp");
}

static int to_err(struct compat_qp *qp)
{
    stop(qp->ud);
    return iwarp_qp_state(qp->native) == IWARP_QP_IDLE ? to_native(qp, IWARP_QP_ERROR) : 0;
}

static int to_reset(struct compat_qp *qp)
{
    int error = to_err(qp);

    if (!error) {
        error = to_native(qp, IWARP_QP_IDLE);
    }
    if (!error) {
        atomic_store(&qp->named, false);
        atomic_store(&qp->connecting, COMPAT_SENDS_NOT);
    }
    return error;
}

static int to_rtr(struct compat_qp *qp)
{
    if (qp->ud->inner || iwarp_qp_state(qp->native) != IWARP_QP_IDLE) {
        return iwarp_compat_refuse("verbs", EINVAL,
                                   "ibv_modify_qp: to RTR from another state than INIT");
    }
    int error = start(qp->ud);
    if (!error) {
        atomic_store(&qp->named, true); /* its states are the program's */
    }
    return error;
}

static int to_rts(struct compat_qp *qp)
{
    if (!qp->ud->inner) {
        return iwarp_compat_refuse("verbs", EINVAL,
                                   "ibv_modify_qp: to RTS from another state than RTR");
    }
    atomic_store(&qp->connecting, COMPAT_SENDS);
    return 0;
}

static int to_init(struct compat_qp *qp)
{
    return qp->ud->inner || iwarp_qp_state(qp->native) != IWARP_QP_IDLE
               ? iwarp_compat_refuse("verbs", EINVAL,
                                     "ibv_modify_qp: to INIT from another state than RESET")
               : 0;
}

static int change_state(struct compat_qp *qp, enum ibv_qp_state to)
{
    switch (to) {
    case IBV_QPS_RESET:
        return to_reset(qp);
    case IBV_QPS_INIT:
        return to_init(qp);
    case IBV_QPS_RTR:
        return to_rtr(qp);
    case IBV_QPS_RTS:
        return to_rts(qp);
    case IBV_QPS_ERR:
        return to_err(qp);
    case IBV_QPS_SQD:
    case IBV_QPS_SQE:
    case IBV_QPS_UNKNOWN:
        break;
    }
    return iwarp_compat_refuse("verbs", EINVAL, "ibv_modify_qp: datagrams have no state %d",
                               (int)to);
}

int iwarp_ud_modify(struct compat_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
    IWARP_UNCANCELLED;

    if (qp->born != iwarp_compat_generation()) {
        return iwarp_compat_refuse("verbs", EINVAL,
                                   "ibv_modify_qp: the queue pair was made before a fork, by "
                                   "another process");
    }
    iwarp_num_note(qp, attr, mask);
    pthread_mutex_lock(&num_lock);
    int error = mask & IBV_QP_STATE ? change_state(qp, attr->qp_state) : 0;
    pthread_mutex_unlock(&num_lock);
    return error;
}
