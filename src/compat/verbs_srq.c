/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues over the native ones: the basic type alone. XRC and tag matching are
 * InfiniBand's.
 */
#include "base/process.h"
#include "compat/compat.h"

#include <errno.h>
#include <stdlib.h>

static int create(struct compat_srq *srq, struct ibv_pd *pd, struct ibv_srq_attr *attr)
{
    struct iwarp_srq_options o;

    iwarp_srq_options_init(&o);
    o.max_wr = attr->max_wr > 0 ? attr->max_wr : 1;
    o.max_sge = attr->max_sge > 0 ? attr->max_sge : 1;
    o.limit = 0; /* attr.srq_limit is ignored here: ibv_create_srq(3) */
    o.user = srq;
    enum iwarp_status status = iwarp_srq_create(compat_pd(pd)->native, &o, &srq->native);
    if (status != IWARP_OK) {
        return iwarp_compat_failed("verbs", status, "ibv_create_srq");
    }
    attr->max_wr = o.max_wr;
    attr->max_sge = o.max_sge;
    return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct compat_srq *srq = calloc(1, sizeof *srq);

    if (!srq || create(srq, pd, &attr->attr)) {
        errno = srq ? errno : ENOMEM;
        free(srq);
        return NULL;
    }
    srq->ibv.context = pd->context;
    srq->ibv.srq_context = attr->srq_context;
    srq->ibv.pd = pd;
    srq->born = iwarp_compat_generation();
    pthread_mutex_init(&srq->ibv.mutex, NULL);
    pthread_cond_init(&srq->ibv.cond, NULL);
    atomic_fetch_add(&compat_pd(pd)->users, 1);
    atomic_fetch_add(&compat_context(pd->context)->users, 1);
    return &srq->ibv;
}

/* The header calls ibv_create_srq for basic ones; what comes here asks for more. */
struct ibv_srq *iwarp_compat_create_srq_ex(struct ibv_context *context,
                                           struct ibv_srq_init_attr_ex *attr)
{
    (void)context;
    (void)attr;
    (void)iwarp_compat_refuse("verbs", EOPNOTSUPP,
                              "ibv_create_srq_ex: iWARP has basic shared receive queues only");
    return NULL;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    if (mask & IBV_SRQ_MAX_WR) {
        return iwarp_compat_refuse("verbs", EOPNOTSUPP,
                                   "ibv_modify_srq: the size stays as it was created");
    }
    if (!(mask & IBV_SRQ_LIMIT)) {
        return 0;
    }
    enum iwarp_status status = iwarp_srq_modify(compat_srq(srq)->native, attr->srq_limit);
    return status == IWARP_OK ? 0 : iwarp_compat_failed("verbs", status, "ibv_modify_srq");
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
    struct iwarp_srq_info info = {.size = sizeof info};
    enum iwarp_status status = iwarp_srq_query(compat_srq(srq)->native, &info);

    if (status != IWARP_OK) {
        return iwarp_compat_failed("verbs", status, "ibv_query_srq");
    }
    *attr = (struct ibv_srq_attr){
        .max_wr = info.max_wr, .max_sge = info.max_sge, .srq_limit = info.limit};
    return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibv)
{
    IWARP_UNCANCELLED; /* a thread cancelled in pthread_cond_wait would keep the mutex locked */
    struct compat_srq *srq = compat_srq(ibv);
    struct compat_context *context = compat_context(ibv->context);

    if (srq->born == iwarp_compat_generation()) {
        if (atomic_load(&srq->users) > 0) {
            return iwarp_compat_refuse("verbs", EBUSY, "ibv_destroy_srq: queue pairs use it");
        }
        iwarp_compat_async_leave(context, &srq->async, 1, &ibv->mutex, &ibv->cond,
                                 &ibv->events_completed);
        (void)iwarp_srq_destroy(srq->native);
        atomic_fetch_sub(&compat_pd(ibv->pd)->users, 1);
    }
    atomic_fetch_sub(&context->users, 1);
    free(srq);
    return 0;
}
