/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events: what happens to queue pairs and queues without being the completion of a
 * request. One queue per device, any thread may take from it. draft-hilland-rddp-verbs-00 9.5.
 *
 * Acknowledging. An event that was taken names its object, so the object stays until the event is
 * acknowledged: destroying the object earlier returns AGAIN. Events that were not taken vanish with
 * their object. An application that never takes events has nothing to acknowledge.
 *
 * Neither a device nor an SRQ can fail as a whole, so no event says that they have.
 *
 * At most one event of each type waits for each object: an event that waits is not queued again.
 * So reporting allocates no memory, and an application that takes no events uses none.
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

/* Return a few words for a type ("SRQ limit reached"), in static storage; never NULL. */
IWARP_API const char *iwarp_async_text(enum iwarp_async_type type);

/*
 * Return a descriptor that is readable while an event waits; -1 if device is NULL. The device owns
 * it: use it for poll/epoll only. An event may vanish with its object before it is taken.
 */
IWARP_API int iwarp_async_fd(struct iwarp_device *device);

/*
 * Take the oldest event and copy it to *event. Wait for it for timeout_ms milliseconds at most (<
 * 0: for ever, 0: not at all). Any number of threads may take events; each event goes to one of
 * them. A cancellation point while it sleeps; with embedded progress it runs the loop meanwhile.
 * Pass each event to iwarp_async_ack when its object is no longer used for it.
 *
 * OK: *event is set. AGAIN: no event came in time.
 */
IWARP_API enum iwarp_status iwarp_async_get(struct iwarp_device *device,
                                            struct iwarp_async_event *event, int timeout_ms);

/*
 * Have deliver(event, arg) called for each event, instead of queueing it. The thread that detects
 * the event calls it, with locks of the library held. Therefore deliver must return soon and must
 * not call the library. These events are not acknowledged. After the destroy function of an object
 * has returned, no event of the object is delivered. Set it once, before the device has objects.
 * MISUSE: events wait, or the device has a function already, or deliver is NULL.
 */
IWARP_API enum iwarp_status iwarp_async_deliver_by(
    struct iwarp_device *device, void (*deliver)(const struct iwarp_async_event *event, void *arg),
    void *arg);

/*
 * Acknowledge an event that was taken, once: its object may be destroyed then. Any thread. An
 * acknowledgement too many does nothing but set iwarp_last_error.
 */
IWARP_API void iwarp_async_ack(const struct iwarp_async_event *event);

IWARP_END_DECLS

#endif
