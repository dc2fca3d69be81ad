/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events: ibv_get_async_event and ibv_ack_async_event. The native device passes each
 * event to iwarp_compat_async_deliver, which appends it to the list of the object's context and
 * raises the count of that context's semaphore eventfd.
 *
 * Events that iWARP devices do not report are left out: the connection manager reports how a
 * connection has ended.
 *
 * An object is destroyed in three steps: from here on nothing is reported of it, and the events
 * that wait are dropped with their counts; then a wait for the acknowledgement of those that the
 * program has taken; then the object goes, with its native half. So an event never names freed
 * memory, and until it is acknowledged the program may use what it names.
 */
#include "compat/compat.h"

#include "base/process.h"

#include <errno.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

/* Runs with native locks held, so it takes only context.lock. A second event of a kind is dropped
 * while the first waits: it would say the same. */
static void report(struct ibv_context *context, struct compat_async *async,
                   const struct ibv_async_event *event)
{
    struct compat_context *c = compat_context(context);
    const uint64_t one = 1;

    pthread_mutex_lock(&c->lock);
    if (!async->waiting && !async->quiet) {
        async->event = *event;
        async->waiting = true;
        async->next = NULL;
        *(c->last ? &c->last->next : &c->first) = async;
        c->last = async;
        (void)!write(context->async_fd, &one, sizeof one);
    }
    pthread_mutex_unlock(&c->lock);
}

static void report_qp(struct compat_qp *qp, unsigned slot, enum ibv_event_type type)
{
    const struct ibv_async_event event = {.element.qp = &qp->ibv, .event_type = type};

    report(qp->ibv.context, &qp->async[slot], &event);
}

void iwarp_compat_async_established(struct compat_qp *qp)
{
    report_qp(qp, COMPAT_QP_ESTABLISHED, IBV_EVENT_COMM_EST);
}

/* Native locks are held. */
void iwarp_compat_async_deliver(const struct iwarp_async_event *event, void *unused)
{
    const struct compat_owner *owner = event->qp ? event->user : NULL;
    struct compat_qp *qp = owner ? owner->qp : NULL;

    (void)unused;
    if (owner && !qp) {
        return;
    }
    switch (event->type) {
    case IWARP_ASYNC_QP_FATAL:
    case IWARP_ASYNC_QP_TERMINATED:
        report_qp(qp, COMPAT_QP_END, IBV_EVENT_QP_FATAL);
        break;
    case IWARP_ASYNC_QP_ACCESS:
        report_qp(qp, COMPAT_QP_END, IBV_EVENT_QP_ACCESS_ERR);
        break;
    case IWARP_ASYNC_QP_LAST_WQE:
        report_qp(qp, COMPAT_QP_LAST_WQE, IBV_EVENT_QP_LAST_WQE_REACHED);
        break;
    case IWARP_ASYNC_CQ_OVERFLOW: {
        struct compat_cq *cq = event->user; /* those of the library are too large for that */
        report(cq->ibv.context, &cq->async,
               &(struct ibv_async_event){.element.cq = &cq->ibv, .event_type = IBV_EVENT_CQ_ERR});
        break;
    }
    case IWARP_ASYNC_SRQ_LIMIT: {
        struct compat_srq *srq = event->user;
        report(srq->ibv.context, &srq->async,
               &(struct ibv_async_event){.element.srq = &srq->ibv,
                                         .event_type = IBV_EVENT_SRQ_LIMIT_REACHED});
        break;
    }
    case IWARP_ASYNC_QP_CLOSED:
    case IWARP_ASYNC_QP_LOST:
        break;
    }
}

void iwarp_compat_semaphore_take(int fd)
{
    uint64_t count;
    struct iovec iov = {.iov_base = &count, .iov_len = sizeof count};

    (void)!preadv2(fd, &iov, 1, -1, RWF_NOWAIT);
}

/* Argument of the cancellation handler of iwarp_compat_semaphore_wait. */
struct taking {
    int fd;
    uint64_t count; /* 0 until the kernel has stored what was taken */
};

static void put_back(void *arg)
{
    const struct taking *t = arg;

    if (t->count > 0) {
        (void)!write(t->fd, &t->count, sizeof t->count);
    }
}

/* A thread may be cancelled after the kernel has taken the count and before read returns. The count
 * would be lost, and its event would wait in a list that no descriptor reports. So the handler puts
 * back what the kernel has stored. */
int iwarp_compat_semaphore_wait(int fd)
{
    struct taking t = {.fd = fd};
    ssize_t n;

    pthread_cleanup_push(put_back, &t);
    n = read(fd, &t.count, sizeof t.count);
    pthread_cleanup_pop(0);
    return n == sizeof t.count ? 0 : -1;
}

/* context.lock held. */
static bool unlink_event(struct compat_context *c, struct compat_async *async)
{
    struct compat_async **at = &c->first, *before = NULL;

    while (*at && *at != async) {
        before = *at;
        at = &(*at)->next;
    }
    if (!*at) {
        return false;
    }
    *at = async->next;
    if (c->last == async) {
        c->last = before;
    }
    async->waiting = false;
    return true;
}

void iwarp_compat_async_quiet(struct compat_context *context, struct compat_async *async,
                              bool quiet)
{
    pthread_mutex_lock(&context->lock);
    async->quiet = quiet;
    pthread_mutex_unlock(&context->lock);
}

void iwarp_compat_async_leave(struct compat_context *context, struct compat_async *async, int n,
                              pthread_mutex_t *mutex, pthread_cond_t *cond,
                              const uint32_t *completed)
{
    uint32_t delivered = 0;

    pthread_mutex_lock(&context->lock);
    for (int i = 0; i < n; i++) {
        if (unlink_event(context, &async[i])) {
            iwarp_compat_semaphore_take(context->v.context.async_fd);
        }
        async[i].quiet = true;
        delivered += atomic_load(&async[i].delivered);
    }
    pthread_mutex_unlock(&context->lock);
    pthread_mutex_lock(mutex);
    while (*completed != delivered) {
        pthread_cond_wait(cond, mutex);
    }
    pthread_mutex_unlock(mutex);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    struct compat_context *c = compat_context(context);
    struct compat_async *async;

    do {
        if (iwarp_compat_semaphore_wait(context->async_fd) != 0) {
            return -1;
        }
        pthread_mutex_lock(&c->lock);
        async = c->first;
        if (async) {
            *event = async->event;
            (void)unlink_event(c, async);
            atomic_fetch_add(&async->delivered, 1);
        }
        pthread_mutex_unlock(&c->lock);
    } while (!async); /* the object of the count was destroyed between read and lock */
    return 0;
}

/* In a forked child the mutex of a parent's object may be locked for ever, by a thread that only
 * the parent has; and no thread of the child waits. So nothing is done there. */
static void acknowledge(unsigned born, pthread_mutex_t *mutex, pthread_cond_t *cond,
                        uint32_t *completed)
{
    if (born != iwarp_process_generation()) {
        return;
    }
    pthread_mutex_lock(mutex);
    ++*completed;
    pthread_cond_broadcast(cond);
    pthread_mutex_unlock(mutex);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    if (event->event_type == IBV_EVENT_CQ_ERR) {
        struct ibv_cq *cq = event->element.cq;
        acknowledge(compat_cq(cq)->born, &cq->mutex, &cq->cond, &cq->async_events_completed);
    } else if (event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED ||
               event->event_type == IBV_EVENT_SRQ_ERR) {
        struct ibv_srq *srq = event->element.srq;
        acknowledge(compat_srq(srq)->born, &srq->mutex, &srq->cond, &srq->events_completed);
    } else if (event->event_type <= IBV_EVENT_PATH_MIG_ERR ||
               event->event_type == IBV_EVENT_QP_LAST_WQE_REACHED) {
        struct ibv_qp *qp = event->element.qp;
        acknowledge(compat_qp(qp)->born, &qp->mutex, &qp->cond, &qp->events_completed);
    }
}
