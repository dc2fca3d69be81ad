/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels of rdma_cm: a list of events, and an eventfd in semaphore mode that counts them. A
 * plain read takes one count; it blocks, is interrupted or cancelled, or returns EAGAIN, as the
 * program has set up its descriptor. Events come from cm_engine.c and from the calls themselves.
 *
 * Invariant, with cm_lock held: the count plus the counts that readers have taken and not yet used
 * is at least the number of events in the list. So no event waits unseen; a reader with a count too
 * many finds no event and reads again.
 */
#include "compat/cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_cond_t acknowledged = PTHREAD_COND_INITIALIZER;

/* In a forked child no thread waits, but the condition still counts those of the parent. */
static void forget_waiters(void)
{
    pthread_cond_init(&acknowledged, NULL);
}

/*
 * Some programs destroy a channel while another thread is about to call rdma_get_cm_event with it
 * (rping, at its end). That thread must get EBADF, as with rdma-core, and must not read freed
 * memory. So the channels destroyed last are kept, without a descriptor. Under cm_lock.
 */
enum { RESTING = 64 };
static struct cm_channel *resting[RESTING];
static unsigned rested;

struct rdma_event_channel *rdma_create_event_channel(void)
{
    cm_process_watch(forget_waiters);
    struct cm_channel *c = calloc(1, sizeof *c);

    if (!c) {
        errno = ENOMEM;
        return NULL;
    }
    c->generation = iwarp_compat_generation();
    c->channel.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    if (c->channel.fd < 0) {
        (void)cm_refuse(errno, "no eventfd for an event channel: %s", strerror(errno));
        free(c);
        return NULL;
    }
    return &c->channel;
}

bool cm_channel_usable(struct rdma_event_channel *channel, const char *what)
{
    if (cm_channel_of(channel)->generation != iwarp_compat_generation()) {
        (void)cm_refuse(EINVAL, "%s: the event channel was made by another process, before a fork",
                        what);
        return false;
    }
    return true;
}

void cm_channel_close(struct cm_channel *c)
{
    struct cm_channel **place = &resting[rested++ % RESTING];
    const int fd = c->channel.fd;

    c->channel.fd = -1;
    close(fd);
    free(*place);
    *place = c;
}

struct cm_event *cm_event_new(struct cm_id *id, enum rdma_cm_event_type type, int status,
                              const void *data, size_t len)
{
    struct cm_event *event = id->reserve;

    if (event) {
        id->reserve = event->next;
    } else {
        event = calloc(1, sizeof *event);
    }
    if (!event) {
        (void)cm_refuse(ENOMEM, "no memory for the event %s", rdma_event_str(type));
        return NULL;
    }
    if (len > COMPAT_MAX_PRIVATE_DATA) {
        (void)iwarp_compat_refuse_peer(
            "cm", EMSGSIZE, "more private data of the peer than rdma_cm has room for (255 octets)");
        len = COMPAT_MAX_PRIVATE_DATA;
    }
    event->owner = id;
    event->ev.id = &id->id;
    event->ev.event = type;
    event->ev.status = status;
    if (len > 0) {
        memcpy(event->private_data, data, len);
        event->ev.param.conn.private_data = event->private_data;
        event->ev.param.conn.private_data_len = (uint8_t)len;
    }
    return event;
}

int cm_event_reserve(struct cm_id *id)
{
    int n = 0;

    for (const struct cm_event *event = id->reserve; event; event = event->next) {
        n++;
    }
    for (; n < 2; n++) {
        struct cm_event *event = calloc(1, sizeof *event);
        if (!event) {
            return cm_refuse(ENOMEM, "no memory for the events of a connection");
        }
        event->next = id->reserve;
        id->reserve = event;
    }
    return 0;
}

/* The event is in the list before the count is raised: a reader that has the count finds it. */
static void append(struct cm_channel *c, struct cm_event *event)
{
    const uint64_t one = 1;

    event->next = NULL;
    if (c->first) {
        c->last->next = event;
    } else {
        c->first = event;
    }
    c->last = event;
    (void)!write(c->channel.fd, &one, sizeof one);
}

void cm_event_push(struct cm_event *event)
{
    append(cm_channel_of(event->owner->id.channel), event);
}

int cm_event_tell(struct cm_id *id, enum rdma_cm_event_type type, int status)
{
    struct cm_event *event = cm_event_new(id, type, status, NULL, 0);

    if (!event) {
        return -1;
    }
    cm_event_push(event);
    return 0;
}

struct cm_event *cm_event_take(struct cm_channel *c)
{
    struct cm_event *event = c->first;

    if (event) {
        c->first = event->next;
        event->owner->delivered++;
        if (event->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            event->owner->waiting_requests--;
        }
    }
    return event;
}

/*
 * Takes the events of the id for which `wanted` is true (NULL: all) out of its channel, and for
 * each of them one count out of the eventfd, without blocking. If a reader has taken that count
 * already, the reader finds no event and reads again.
 */
static struct cm_event *take_out(struct cm_id *id, bool (*wanted)(const struct cm_event *event))
{
    struct cm_channel *c = cm_channel_of(id->id.channel);
    struct cm_event **at = &c->first, *out = NULL, **end = &out;
    uint64_t count;
    const struct iovec iov = {&count, sizeof count};

    c->last = NULL;
    while (*at) {
        struct cm_event *event = *at;
        if (event->owner == id && (!wanted || wanted(event))) {
            *at = event->next;
            event->next = NULL;
            *end = event;
            end = &event->next;
            (void)!preadv2(c->channel.fd, &iov, 1, -1, RWF_NOWAIT);
        } else {
            c->last = event;
            at = &event->next;
        }
    }
    return out;
}

struct cm_event *cm_events_take(struct cm_id *id)
{
    return take_out(id, NULL);
}

static bool is_of_ended(const struct cm_event *event)
{
    return event->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST &&
           iwarp_conn_wait_end(cm_id_of(event->ev.id)->conn, 0) == IWARP_OK;
}

struct cm_event *cm_events_take_ended(struct cm_id *listener)
{
    return take_out(listener, is_of_ended);
}

void cm_events_move(struct cm_id *id, struct cm_channel *to)
{
    struct cm_event *event = take_out(id, NULL);

    while (event) {
        struct cm_event *next = event->next;
        event->ev.id->channel = &to->channel; /* a request's id, too */
        append(to, event);
        event = next;
    }
}

void cm_events_wait_acknowledged(struct cm_id *id)
{
    while (id->delivered != id->acknowledged && id->generation == iwarp_compat_generation()) {
        cm_hold_wait(&acknowledged);
    }
}

int rdma_ack_cm_event(struct rdma_cm_event *ev)
{
    if (!ev) {
        return cm_refuse(EINVAL, "rdma_ack_cm_event: event is NULL");
    }
    struct cm_event *event = compat_of(ev, struct cm_event, ev);

    cm_hold();
    event->owner->acknowledged++;
    pthread_cond_broadcast(&acknowledged);
    cm_release();
    free(event);
    return 0;
}

void cm_ack_held(struct rdma_cm_id *id)
{
    if (id->event) {
        (void)rdma_ack_cm_event(id->event);
        id->event = NULL;
    }
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
    static const char *const names[] = {
        "RDMA_CM_EVENT_ADDR_RESOLVED",   "RDMA_CM_EVENT_ADDR_ERROR",
        "RDMA_CM_EVENT_ROUTE_RESOLVED",  "RDMA_CM_EVENT_ROUTE_ERROR",
        "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
        "RDMA_CM_EVENT_CONNECT_ERROR",   "RDMA_CM_EVENT_UNREACHABLE",
        "RDMA_CM_EVENT_REJECTED",        "RDMA_CM_EVENT_ESTABLISHED",
        "RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
        "RDMA_CM_EVENT_MULTICAST_JOIN",  "RDMA_CM_EVENT_MULTICAST_ERROR",
        "RDMA_CM_EVENT_ADDR_CHANGE",     "RDMA_CM_EVENT_TIMEWAIT_EXIT",
    };

    return (unsigned)event < sizeof names / sizeof *names ? names[event] : "UNKNOWN EVENT";
}
