/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inside of our librdmacm.so.1: ids, event channels and the thread that turns events of the
 * native connections into those of rdma_cm. No protocol, no queues: connections are iwarp/conn.h,
 * everything of libibverbs is reached as a program would, except for compat.h.
 *
 * One lock, cm_lock, guards ids, channels and their events; no call of the program is made and
 * nothing is waited for with it held, but native calls are: it comes before all locks of those.
 * A thread that holds the lock cannot be cancelled. Only cm_hold takes it, and only cm_release
 * gives it back. A member without a comment belongs to it.
 */
#ifndef IWARP_COMPAT_CM_H
#define IWARP_COMPAT_CM_H

#include "compat/compat.h"

#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>

/* At least so many connections wait in the kernel: bursts are larger than programs ask for. */
#define CM_BACKLOG 128

enum cm_state {
    CM_IDLE,
    CM_BOUND,
    CM_ADDR_RESOLVED,
    CM_ROUTE_RESOLVED,
    CM_LISTEN,
    CM_REQUEST,       /* of a peer, unanswered */
    CM_CONNECTING,    /* connect or accept was called */
    CM_CONNECTED,     /* until this end disconnects */
    CM_DISCONNECTING, /* this end has */
    CM_OVER           /* ended, failed or rejected */
};

struct cm_id;

struct cm_event {
    struct rdma_cm_event ev; /* the program's */
    struct cm_event *next;
    struct cm_id *owner; /* whose count it is in: a request is its listener's */
    uint8_t private_data[COMPAT_MAX_PRIVATE_DATA + 1];
};

struct cm_channel {
    struct rdma_event_channel channel; /* fd: eventfd, semaphore; one for each event that waits */
    struct cm_event *first, *last;
    unsigned generation; /* as of an id */
};

struct cm_id {
    struct rdma_cm_id id; /* the program's */
    enum cm_state state;
    unsigned generation;              /* forks before the process that made it */
    bool sync;                        /* calls wait for their events; the channel is its own */
    bool attached;                    /* counts for the default PD */
    unsigned delivered, acknowledged; /* events */
    struct cm_id *next, **at;         /* in the list of all, or of the dead */
    struct cm_event *reserve; /* for events that cannot be told otherwise for want of memory */

    int fd; /* socket that holds the bound address; -1: none, or the listener's */
    bool bound;
    bool reuse_addr, v6_only, v6_only_set;
    int tos; /* -1: not set */
    uint8_t ack_timeout;
    bool ack_timeout_set;

    struct iwarp_listener *listener;
    struct iwarp_conn *conn;
    unsigned waiting_requests, backlog; /* of a listener */
    uint32_t qp_num;                    /* of id.qp, or of the program's own */
    bool passive;                       /* made for a request of a peer */
    uint8_t request_ird, request_ord;   /* what that offers and asks for */

    struct ibv_qp_init_attr *qp_attr; /* rdma_create_ep: for rdma_get_request */
    void *connect_data;               /* rdma_create_ep: ai_connect */
    uint8_t connect_len;
};

/* --- the lock, and forks (cm_lock.c) --------------------------------------------------------- */

void cm_hold(void);
void cm_release(void);

/* Lets others have it until the condition is told. */
void cm_hold_wait(pthread_cond_t *cond);

/* The process may fork from here on: its child calls `forget`, with cm_lock held. Any number of
 * times. */
void cm_process_watch(void (*forget)(void));

static inline struct cm_id *cm_id_of(struct rdma_cm_id *id)
{
    return compat_of(id, struct cm_id, id);
}

static inline struct cm_channel *cm_channel_of(struct rdma_event_channel *channel)
{
    return compat_of(channel, struct cm_channel, channel);
}

/* Sets errno, writes a sentence to the log, and is -1. */
#define cm_refuse(error, ...)   (iwarp_compat_refuse("cm", error, __VA_ARGS__), -1)
#define cm_failed(status, what) (iwarp_compat_failed("cm", status, what), -1)

/* Is the id of this process, and in existence? Otherwise refused: `what` is the call. */
bool cm_id_usable(struct rdma_cm_id *id, const char *what);

/* --- channels and events (cm_channel.c); cm_lock held unless said otherwise ------------------ */

/* The same of a channel. */
bool cm_channel_usable(struct rdma_event_channel *channel, const char *what);

/* The end of a channel without events. Its memory is kept for a while: see `resting`. */
void cm_channel_close(struct cm_channel *channel);

/* From the id's reserve, if it has one. NULL: no memory, and the log says so. data may be NULL. */
struct cm_event *cm_event_new(struct cm_id *id, enum rdma_cm_event_type type, int status,
                              const void *data, size_t len);
void cm_event_push(struct cm_event *event);

/*
 * What a connection is still to tell: that it is established, or why not, and that it has ended.
 * 0, or -1 with errno: no memory, and nothing is to be begun that could end in silence.
 */
int cm_event_reserve(struct cm_id *id);

/* A new event with no data. 0 or -1 with errno. */
int cm_event_tell(struct cm_id *id, enum rdma_cm_event_type type, int status);

/* The oldest, which is the program's from here on; NULL: there is none. */
struct cm_event *cm_event_take(struct cm_channel *channel);

/*
 * Take the waiting events of an id out of its channel; or of a listener only those requests whose
 * connections have ended. The list is the caller's, for cm_events_discard: an id that is named by a
 * request in it has no other owner.
 */
struct cm_event *cm_events_take(struct cm_id *id);
struct cm_event *cm_events_take_ended(struct cm_id *listener);

/* Move the waiting events of the id from its channel to `to`. */
void cm_events_move(struct cm_id *id, struct cm_channel *to);

/* Wait until the program has acknowledged all events of the id that it has taken. */
void cm_events_wait_acknowledged(struct cm_id *id);

/* Acknowledge the event that stays in id->event. Not with cm_lock held. */
void cm_ack_held(struct rdma_cm_id *id);

/* --- taking events (cm_event.c); not with cm_lock held --------------------------------------- */

/* For an id without a channel of the program: wait for the next event, which stays in id->event.
 * 0, or -1 with errno as its status says. */
int cm_complete(struct rdma_cm_id *id);

/* --- native connections (cm_engine.c); cm_lock held ------------------------------------------ */

/* The queue of native events and its thread, made by the first call. NULL: errno. */
struct iwarp_eq *cm_engine_eq(void);

/* --- ids (cm_id.c); cm_lock held ------------------------------------------------------------- */

/* NULL: errno. */
struct cm_id *cm_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps);

/* id->verbs and id->pd from here on: of the device with the id's source address. 0 or -1 with
 * errno. */
int cm_id_attach(struct cm_id *id);

/* End whatever it does, and free it as soon as no native event can name it. Events that wait must
 * have been taken out. */
void cm_id_end(struct cm_id *id);

/* Events that nobody will see: their peers get a no. */
void cm_events_discard(struct cm_event *list);

/*
 * For the thread of native events (cm_engine.c): it begins, and from here on ids that have ended
 * are kept for it; it names none of them now, so they are freed. The second not with cm_lock held.
 */
void cm_ids_expect_events(void);
void cm_ids_free_ended(void);

/* The id's type of service, if it has one, for a socket that holds its address; -1: none does. What
 * a listener accepts inherits it. */
void cm_id_set_tos(const struct cm_id *id, int fd);

/* --- addresses (cm_addr.c) ------------------------------------------------------------------- */

/* Octets of an address, by its family; 0: of a family that iWARP does not have. */
socklen_t cm_addr_len(const struct sockaddr *addr);

/* An IPv4 address in the clothes of IPv6 becomes itself. */
void cm_addr_plain(struct sockaddr_storage *addr);

/* Bind the id's socket; cm_lock held. 0 or -1 with errno. */
int cm_bind(struct cm_id *id, const struct sockaddr *addr);

/* Source and destination as the native connection has them; cm_lock held. */
void cm_addr_from_conn(struct cm_id *id);

/* --- queue pairs (cm_qp.c) ------------------------------------------------------------------- */

/* The queue pair that the id is to connect: its own, or the program's by number. NULL: errno. */
struct compat_qp *cm_qp_to_connect(struct cm_id *id, const struct rdma_conn_param *param);

/* In line with what happened to the connection; not with cm_lock held. */
void cm_qp_follow(struct cm_id *id, enum rdma_cm_event_type type);

#endif
