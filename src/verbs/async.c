/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events of a device: a list whose nodes lie in the objects, so that reporting never
 * allocates; the eventfd is readable while the list is not empty. Connection events are another
 * queue (eq.c). Verbs 9.5.
 */
#include "verbs/async.h"
#include "base/fault.h"
#include "base/mutex.h"
#include "base/process.h"
#include "loop/clock.h"
#include "loop/loop.h"
#include "verbs/cq.h"
#include "verbs/defer.h"
#include "verbs/device.h"
#include "verbs/progress.h"
#include "verbs/qp.h"
#include "verbs/srq.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* No default case: the compiler names a type without a text. */
const char *iwarp_async_text(enum iwarp_async_type type)
{
    switch (type) {
    case IWARP_ASYNC_QP_CLOSED:
        return "queue pair: closed in order";
    case IWARP_ASYNC_QP_FATAL:
        return "queue pair: fatal error";
    case IWARP_ASYNC_QP_ACCESS:
        return "queue pair: access error of the peer";
    case IWARP_ASYNC_QP_TERMINATED:
        return "queue pair: Terminate received";
    case IWARP_ASYNC_QP_LOST:
        return "queue pair: connection lost";
    case IWARP_ASYNC_QP_LAST_WQE:
        return "queue pair: last receive taken from the SRQ";
    case IWARP_ASYNC_CQ_OVERFLOW:
        return "completion queue: overflow";
    case IWARP_ASYNC_SRQ_LIMIT:
        return "SRQ limit reached";
    }
    return "unknown event";
}

bool iwarp_async_init(struct iwarp_async_queue *q, bool no_locks)
{
    q->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    iwarp_mutex_init(&q->lock, no_locks);
    return q->fd >= 0;
}

/* Also for a queue whose eventfd could not be made. */
void iwarp_async_fini(struct iwarp_async_queue *q)
{
    if (q->fd >= 0) {
        close(q->fd);
    }
    iwarp_mutex_fini(&q->lock);
}

/*
 * The function of the application's, if any, runs with the lock held: so after iwarp_async_leave
 * has returned, no report of that object is on its way. The function must not call back into this
 * file.
 */
void iwarp_async_report(struct iwarp_async_source *source, unsigned slot,
                        const struct iwarp_async_event *event)
{
    struct iwarp_async_queue *q = &source->device->async;
    struct iwarp_async_node *node = &source->node[slot];
    const uint64_t one = 1;

    iwarp_mutex_lock(&q->lock);
    if (q->deliver && !source->gone) {
        q->deliver(event, q->arg);
    } else if (!source->gone && node->queued) {
        node->event = *event; /* the application has not seen the one before */
    } else if (!source->gone) {
        node->event = *event;
        node->source = source;
        node->queued = true;
        node->next = NULL;
        node->prev = q->last;
        *(q->last ? &q->last->next : &q->first) = node;
        if (q->first == node) {
            (void)!write(q->fd, &one, sizeof one);
        }
        q->last = node;
    }
    iwarp_mutex_unlock(&q->lock);
}

/*
 * q.lock held. The eventfd is read when the list becomes empty, so it is readable exactly while an
 * event waits.
 */
static void unlink_node(struct iwarp_async_queue *q, struct iwarp_async_node *node)
{
    uint64_t count;

    *(node->prev ? &node->prev->next : &q->first) = node->next;
    *(node->next ? &node->next->prev : &q->last) = node->prev;
    node->queued = false;
    if (!q->first) {
        (void)!read(q->fd, &count, sizeof count);
    }
}

/*
 * The application may still hold pointers to the object in events that it has taken, so the object
 * stays until they are acknowledged. `gone` is set under the lock, and so ends reports of other
 * threads.
 */
enum iwarp_status iwarp_async_leave(struct iwarp_async_source *source)
{
    struct iwarp_async_queue *q = &source->device->async;

    iwarp_mutex_lock(&q->lock);
    unsigned unacked = source->unacked;
    for (unsigned i = 0; unacked == 0 && i < IWARP_ASYNC_SLOTS; i++) {
        if (source->node[i].queued) {
            unlink_node(q, &source->node[i]);
        }
    }
    source->gone = unacked == 0;
    iwarp_mutex_unlock(&q->lock);
    if (unacked > 0) {
        return iwarp_fail(IWARP_AGAIN,
                          "%u asynchronous events of this object were taken and are not "
                          "acknowledged yet",
                          unacked);
    }
    return IWARP_OK;
}

/* For the application's own poll(2); only the library reads from the descriptor. */
int iwarp_async_fd(struct iwarp_device *device)
{
    return IWARP_GIVEN(device) ? device->async.fd : -1;
}

/*
 * `unacked` is counted with the lock held: between taking and counting the object could be
 * destroyed.
 */
static bool take(struct iwarp_async_queue *q, struct iwarp_async_event *event)
{
    iwarp_mutex_lock(&q->lock);
    struct iwarp_async_node *node = q->first;
    if (node) {
        *event = node->event;
        node->source->unacked++;
        unlink_node(q, node);
    }
    iwarp_mutex_unlock(&q->lock);
    return node != NULL;
}

/* Embedded only, on the loop's thread: nobody else changes the list. */
static bool has_one(void *arg)
{
    const struct iwarp_device *device = arg;

    return device->async.first != NULL;
}

/*
 * As iwarp_eq_get. A thread that sleeps here recalls the leases first, since it runs no loop
 * itself.
 */
enum iwarp_status iwarp_async_get(struct iwarp_device *device, struct iwarp_async_event *event,
                                  int timeout_ms)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(device) || !IWARP_GIVEN(event)) {
        return IWARP_MISUSE;
    }
    struct pollfd p = {.fd = device->async.fd, .events = POLLIN};
    int64_t end = iwarp_now_ms() + timeout_ms;

    IWARP_ON_LOOP(device);
    if (timeout_ms == 0) {
        iwarp_progress_look(device, IWARP_EVERY_WORKER);
    }
    while (!take(&device->async, event)) {
        if (device->embedded &&
            iwarp_loop_run_until(&device->worker[0].loop, has_one, device, timeout_ms)) {
            continue;
        }
        int64_t left = timeout_ms < 0 ? -1 : end - iwarp_now_ms();
        if (timeout_ms >= 0 && left <= 0) {
            return iwarp_fail(IWARP_AGAIN, "no asynchronous event within %d ms", timeout_ms);
        }
        iwarp_defer_flush_all(device);
        iwarp_progress_recall(device);
        (void)IWARP_POLL_CANCELLABLY(&p, (int)left);
    }
    return IWARP_OK;
}

/* Refused once events wait: a function that is set later would never see them. */
enum iwarp_status iwarp_async_deliver_by(struct iwarp_device *device,
                                         void (*deliver)(const struct iwarp_async_event *event,
                                                         void *arg),
                                         void *arg)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(device) || !IWARP_GIVEN(deliver)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(device);
    struct iwarp_async_queue *q = &device->async;
    iwarp_mutex_lock(&q->lock);
    bool possible = !q->deliver && !q->first;
    if (possible) {
        q->deliver = deliver;
        q->arg = arg;
    }
    iwarp_mutex_unlock(&q->lock);
    return possible ? IWARP_OK
                    : iwarp_fail(IWARP_MISUSE, "asynchronous events wait, or are delivered to a "
                                               "function already");
}

/* An event names one object. A queue pair that takes from an SRQ reports by its own source. */
static struct iwarp_async_source *source_of(const struct iwarp_async_event *event)
{
    return event->qp    ? &event->qp->async
           : event->srq ? &event->srq->async
           : event->cq  ? &event->cq->async
                        : NULL;
}

/*
 * The count is not tied to one event: as with ibv_ack_async_event, one call acknowledges one event
 * of the object, whichever. More calls than events are a mistake of the application.
 */
void iwarp_async_ack(const struct iwarp_async_event *event)
{
    IWARP_UNCANCELLED;
    struct iwarp_async_source *source = IWARP_GIVEN(event) ? source_of(event) : NULL;

    if (!source || !iwarp_device_usable(source->device)) {
        if (event && !source) {
            iwarp_fail(IWARP_MISUSE, "acknowledging: the event names no object");
        }
        return;
    }
    struct iwarp_async_queue *q = &source->device->async;
    iwarp_mutex_lock(&q->lock);
    bool taken = source->unacked > 0;
    source->unacked -= taken;
    iwarp_mutex_unlock(&q->lock);
    if (!taken) {
        iwarp_fail(IWARP_MISUSE, "acknowledging: all events of this object that were taken are "
                                 "acknowledged already");
    }
}
