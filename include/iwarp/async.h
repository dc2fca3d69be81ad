/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events: what happens to queue pairs and queues without being the completion of a
 * request. One queue per device, any thread may take from it. draft-hilland-rddp-verbs-00 9.5.
 *
 * Acknowledging. An event that was taken names its object, so the object stays until the event is
 * acknowledged: destroying it before returns AGAIN. Events that were not taken vanish with their
 * object. Who never takes events has nothing to acknowledge.
 *
 * Neither a device nor an SRQ can fail as a whole, so no event says that they have.
 *
 * An event that is waiting is not queued again: at most one of each kind waits per object, so
 * that reporting needs no memory and an application that never looks costs none.
 */
#ifndef IWARP_ASYNC_H
#define IWARP_ASYNC_H

#include <iwarp/srq.h>
#include <iwarp/status.h>
#include <iwarp/verbs.h>

IWARP_BEGIN_DECLS

enum iwarp_async_type {
    /* How a stream that was in Full Operation ended; one of these per connection, unless this
     * side aborted it. */
    IWARP_ASYNC_QP_CLOSED = 0, /* in order */
    IWARP_ASYNC_QP_FATAL,      /* a fault was found here */
    IWARP_ASYNC_QP_ACCESS,     /* the peer used an STag without right to it, or outside of it */
    IWARP_ASYNC_QP_TERMINATED, /* the peer sent a Terminate: see iwarp_qp_query */
    IWARP_ASYNC_QP_LOST,       /* the connection was lost, or closed by the peer amid work */

    IWARP_ASYNC_QP_LAST_WQE, /* a queue pair with an SRQ will take no further receive from it */
    IWARP_ASYNC_CQ_OVERFLOW, /* completions were lost, and their queue pairs ended */
    IWARP_ASYNC_SRQ_LIMIT    /* fewer receives are posted than the limit, which is now 0 */
};

struct iwarp_async_event {
    enum iwarp_async_type type;
    enum iwarp_fault_code fault; /* why; NONE if nothing is wrong */
    struct iwarp_qp *qp;         /* the object; the others are NULL */
    struct iwarp_cq *cq;
    struct iwarp_srq *srq;
    void *user; /* of the object */
};

/* A few words for a type ("SRQ limit reached"); never NULL. */
IWARP_API const char *iwarp_async_text(enum iwarp_async_type type);

/* Readable while an event waits; owned by the device, for poll/epoll only. */
IWARP_API int iwarp_async_fd(struct iwarp_device *device);

/*
 * Take the next event, waiting for at most timeout_ms (< 0: for ever). AGAIN: there was none. Each
 * event taken is to be given to iwarp_async_ack once its object is not looked at any more.
 */
IWARP_API enum iwarp_status iwarp_async_get(struct iwarp_device *device,
                                            struct iwarp_async_event *event, int timeout_ms);

/*
 * Instead of this queue: deliver(event, arg) is called for each event as it comes, by the thread
 * that found it, with locks of the library held. So it returns soon and calls nothing of the
 * library. There is nothing to acknowledge, and an object that is destroyed has been delivered its
 * last event. Once, before there are objects. MISUSE: events wait, or there is a function already,
 * or it is NULL.
 */
IWARP_API enum iwarp_status iwarp_async_deliver_by(
    struct iwarp_device *device, void (*deliver)(const struct iwarp_async_event *event, void *arg),
    void *arg);

/* Once for each event taken. Too often, or for no event: nothing happens, and iwarp_last_error says
 * so. */
IWARP_API void iwarp_async_ack(const struct iwarp_async_event *event);

IWARP_END_DECLS

#endif
