/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Taking an event from a channel: rdma_get_cm_event, and the calls of an id without a channel,
 * which wait for their event. The state of the queue pair changes when the program takes the event,
 * not when the connection changes: until then the program relies on the state that it knows.
 */
#include "compat/cm.h"

#include <errno.h>

/*
 * The request of a peer to a listener without a channel: its id has none, either, so its calls
 * wait. 0, or -1 with errno: then the request is gone.
 */
static int make_sync(struct cm_event *event)
{
    if (rdma_migrate_id(event->ev.id, NULL) == 0) {
        return 0;
    }
    int error = errno;
    struct rdma_cm_id *id = event->ev.id;
    (void)rdma_ack_cm_event(&event->ev);
    (void)rdma_destroy_id(id);
    errno = error;
    return -1;
}

/*
 * The read takes one count and blocks with no lock held, so signals and cancellation work. A count
 * without an event is possible: the event was taken out (cm_events_take) between read and lock.
 */
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **out)
{
    struct cm_event *event = NULL;
    bool syncs = false;

    if (!channel || !out) {
        return cm_refuse(EINVAL, "rdma_get_cm_event: %s is NULL", channel ? "event" : "channel");
    }
    if (!cm_channel_usable(channel, "rdma_get_cm_event")) {
        return -1;
    }
    while (!event) {
        if (iwarp_compat_semaphore_wait(channel->fd) != 0) {
            return -1;
        }
        cm_hold();
        event = cm_event_take(cm_channel_of(channel));
        syncs = event && event->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST && event->owner->sync;
        cm_release();
    }
    if (syncs && make_sync(event) != 0) {
        return -1;
    }
    cm_qp_follow(cm_id_of(event->ev.id), event->ev.event);
    *out = &event->ev;
    return 0;
}

/* The event of the previous call is acknowledged first: programs read id->event until then. */
static int complete(struct rdma_cm_id *id)
{
    cm_ack_held(id);
    if (rdma_get_cm_event(id->channel, &id->event) != 0) {
        return -1;
    }
    int status = id->event->status;
    if (status == 0) {
        return 0;
    }
    errno = id->event->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED
            : status < 0                               ? -status
                                                       : status;
    return -1;
}

int cm_finish(struct rdma_cm_id *id, int result)
{
    const bool waits = result == 0 && cm_id_of(id)->sync;

    cm_release();
    return waits ? complete(id) : result;
}
