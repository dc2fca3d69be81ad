/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event queues: a list whose nodes lie in the connections, so that reporting never allocates. The
 * eventfd is readable while the list is not empty.
 */
#include "verbs/eq.h"
#include "base/fault.h"
#include "base/lead.h"
#include "base/memory.h"
#include "base/mutex.h"
#include "base/process.h"
#include "loop/clock.h"
#include "loop/loop.h"
#include "verbs/defer.h"
#include "verbs/device.h"
#include "verbs/progress.h"
#include "verbs/worker.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The eventfd is made here, not on demand as with completion queues: a report cannot fail later. */
enum iwarp_status iwarp_eq_create(struct iwarp_device *device, struct iwarp_eq **eq)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(device) || !IWARP_GIVEN(eq)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(device);
    struct iwarp_eq *q = iwarp_calloc(1, sizeof *q);
    if (!q) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for an event queue");
    }
    q->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (q->fd < 0) {
        free(q);
        return iwarp_fail(IWARP_LIMIT, "no eventfd for an event queue: %s", strerror(errno));
    }
    q->device = device;
    q->last = &q->first;
    iwarp_mutex_init(&q->lock, device->embedded);
    atomic_fetch_add(&device->eqs, 1);
    *eq = q;
    return IWARP_OK;
}

/*
 * The set of workers only grows: a worker that no longer serves the queue costs a poll a visit, and
 * removing it would need a count for each.
 */
void iwarp_eq_use(struct iwarp_eq *eq, const struct iwarp_worker *w)
{
    atomic_fetch_add(&eq->users, 1);
    iwarp_workers_add(&eq->workers, w);
}

/* Without users no node is queued: an event leaves the queue before its connection does. */
enum iwarp_status iwarp_eq_destroy(struct iwarp_eq *eq)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(eq) || !iwarp_device_usable(eq->device)) {
        return IWARP_MISUSE;
    }
    unsigned users = atomic_load(&eq->users);

    if (users) {
        return iwarp_fail(IWARP_MISUSE, "event queue is still used by %u listeners and connections",
                          users);
    }
    close(eq->fd);
    atomic_fetch_sub(&eq->device->eqs, 1);
    iwarp_mutex_fini(&eq->lock);
    free(eq);
    return IWARP_OK;
}

/* For the application's own poll(2); only the library reads from the descriptor. */
int iwarp_eq_fd(struct iwarp_eq *eq)
{
    if (!IWARP_GIVEN(eq)) {
        return -1;
    }
    return eq->fd;
}

void iwarp_eq_notify_by(struct iwarp_eq *eq, void (*notify)(void *arg), void *arg)
{
    eq->notify_arg = arg;
    eq->notify = notify;
}

/*
 * The eventfd is written when the list becomes non-empty, and read when it becomes empty, both
 * under the lock, so it is readable exactly while an event waits.
 */
void iwarp_eq_push(struct iwarp_eq *eq, struct iwarp_event_node *node)
{
    const uint64_t one = 1;

    iwarp_mutex_lock(&eq->lock);
    bool was_empty = !eq->first;
    if (was_empty && !eq->notify) {
        (void)!write(eq->fd, &one, sizeof one);
    }
    node->next = NULL;
    node->at = eq->last;
    *eq->last = node;
    eq->last = &node->next;
    iwarp_mutex_unlock(&eq->lock);
    if (was_empty && eq->notify) {
        eq->notify(eq->notify_arg);
    }
}

/*
 * eq.lock held. `at` points to the pointer that points to the node, so any node can be removed
 * without a walk through the list.
 */
static void unlink_node(struct iwarp_eq *eq, struct iwarp_event_node *node)
{
    uint64_t count;

    *node->at = node->next;
    if (node->next) {
        node->next->at = node->at;
    } else {
        eq->last = node->at;
    }
    node->at = NULL;
    if (!eq->first && !eq->notify) {
        (void)!read(eq->fd, &count, sizeof count);
    }
}

/* The lock decides between this and a thread that takes the event: only one of them gets it. */
bool iwarp_eq_remove(struct iwarp_eq *eq, struct iwarp_event_node *node)
{
    iwarp_mutex_lock(&eq->lock);
    bool queued = node->at != NULL;
    if (queued) {
        unlink_node(eq, node);
    }
    iwarp_mutex_unlock(&eq->lock);
    return queued;
}

/* The event is copied: its node belongs to the connection, which may use it again at once. */
static bool take(struct iwarp_eq *eq, struct iwarp_event *event)
{
    iwarp_mutex_lock(&eq->lock);
    struct iwarp_event_node *node = eq->first;
    if (node) {
        *event = node->event;
        unlink_node(eq, node);
    }
    iwarp_mutex_unlock(&eq->lock);
    return node != NULL;
}

void *iwarp_eq_first_user(struct iwarp_eq *eq)
{
    iwarp_mutex_lock(&eq->lock);
    void *user = eq->first ? eq->first->event.user : NULL;
    iwarp_mutex_unlock(&eq->lock);
    return user;
}

bool iwarp_eq_take_of(struct iwarp_eq *eq, const void *user, struct iwarp_event *event)
{
    iwarp_mutex_lock(&eq->lock);
    struct iwarp_event_node *node = eq->first;
    bool is_first = node && node->event.user == user;
    if (is_first) {
        *event = node->event;
        unlink_node(eq, node);
    }
    iwarp_mutex_unlock(&eq->lock);
    return is_first;
}

/* Embedded only, on the loop's thread, which is the only one that pushes: no lock is needed. */
static bool has_one(void *arg)
{
    const struct iwarp_eq *eq = arg;

    return eq->first != NULL;
}

/*
 * The descriptor is polled in turns with taking: another thread may take the event for which this
 * one was woken up.
 */
enum iwarp_status iwarp_eq_get(struct iwarp_eq *eq, struct iwarp_event *event, int timeout_ms)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(eq) || !IWARP_GIVEN(event)) {
        return IWARP_MISUSE;
    }
    struct pollfd p = {.fd = eq->fd, .events = POLLIN};

    IWARP_ON_LOOP(eq->device);
    if (timeout_ms == 0) { /* in each turn of many loops: without a look at the clock */
        iwarp_progress_look(eq->device, iwarp_workers_of(&eq->workers));
        return take(eq, event) ? IWARP_OK : iwarp_fail(IWARP_AGAIN, "no event within 0 ms");
    }
    int64_t end = iwarp_now_ms() + timeout_ms;
    while (!take(eq, event)) {
        if (eq->device->embedded &&
            iwarp_loop_run_until(&eq->device->worker[0].loop, has_one, eq, timeout_ms)) {
            continue;
        }
        int64_t left = timeout_ms < 0 ? -1 : end - iwarp_now_ms();
        if (timeout_ms >= 0 && left <= 0) {
            return iwarp_fail(IWARP_AGAIN, "no event within %d ms", timeout_ms);
        }
        iwarp_defer_flush_all(eq->device);
        iwarp_progress_recall(eq->device);
        (void)IWARP_POLL_CANCELLABLY(&p, (int)left);
    }
    return IWARP_OK;
}
