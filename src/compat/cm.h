/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inside of our librdmacm.so.1: ids, event channels and the thread that turns events of the
 * native connections into those of rdma_cm. No protocol, no queues: connections are iwarp/conn.h,
 * and libibverbs is called as a program calls it, except for compat.h.
 *
 * One lock, cm_lock, guards ids, channels and their events, and each member without a comment about
 * its guard. A thread that holds it calls nothing of the program and does not block, except that
 * cm_hold_wait releases it meanwhile; it may make native calls, so cm_lock comes before all native
 * locks. A thread that holds it cannot be cancelled. Only cm_hold takes it, and only cm_release
 * gives it back.
 *
 * States of an id. No state is entered twice: an id makes one connection in its life.
 *
 *   IDLE --bind--> BOUND --resolve_addr--> ADDR_RESOLVED --resolve_route--> ROUTE_RESOLVED
 *     |              |                                                            |
 *     |--listen------+--> LISTEN ..new id..> REQUEST --accept--> CONNECTING <--connect
 *     |                                         |                    |
 *     `--resolve_addr, without a bind           |               CONNECTED --disconnect--.
 *                                             reject                 |                  |
 *                                               |           peer's end, failure   DISCONNECTING
 *                                               v                    v                  |
 *                                             OVER <------------------------------------'
 *
 * Calls of the program make all transitions but three, which cm_engine.c makes for native events:
 * to REQUEST, to CONNECTED, and to OVER because of the peer or a failure. An id that is CONNECTING
 * can also be disconnected, fail or be rejected.
 */
#ifndef IWARP_COMPAT_CM_H
#define IWARP_COMPAT_CM_H

#include "compat/compat.h"

#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>

/* The kernel's backlog between bind and listen: bursts are larger than programs ask for. */
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
    struct cm_id *owner; /* the id that counts it: for a request the listener, not the new id */
    uint8_t private_data[COMPAT_MAX_PRIVATE_DATA + 1];
};

struct cm_channel {
    struct rdma_event_channel channel; /* fd: a semaphore eventfd; it counts the waiting events */
    struct cm_event *first, *last;
    unsigned generation; /* as of an id */
};

struct cm_id {
    struct rdma_cm_id id; /* the program's */
    enum cm_state state;
    unsigned generation;              /* forks before the process that made it */
    bool sync;                        /* calls wait for their events; the channel is its own */
    bool attached;                    /* verbs and pd are set: cm_id_attach */
    unsigned delivered, acknowledged; /* events that the program has taken, and acknowledged */
    struct cm_id *next, **at;         /* in the list of all ids, or of the ended ones */
    struct cm_event *reserve;         /* allocated in advance: cm_event_reserve */

    int fd; /* socket that holds the bound address; -1: none, or the listener's, or another TCP's */
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

    struct cm_id *over_next; /* these three: cm_over.c */
    unsigned over_looks;
    int64_t over_ms; /* when the next look is due */
};

/* --- the lock, and forks (cm_lock.c) --------------------------------------------------------- */

void cm_hold(void);
void cm_release(void);

/* Wait for the condition; the lock is released meanwhile, and cancellation stays off. */
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

/* Is it RDMA_PS_TCP, whose ids connect? Otherwise refused. */
bool cm_connects(enum rdma_port_space ps, const char *what);

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
 * Allocate the two events that a connection reports: that it is established, or why not, and that
 * it has ended. Called before a connection begins, since a program waits for these events without a
 * time limit. 0, or -1 with errno: no memory, and the connection must not begin.
 */
int cm_event_reserve(struct cm_id *id);

/* A new event with no data. 0 or -1 with errno. */
int cm_event_tell(struct cm_id *id, enum rdma_cm_event_type type, int status);

/* The oldest event, which belongs to the program until it is acknowledged; NULL: there is none. */
struct cm_event *cm_event_take(struct cm_channel *channel);

/*
 * Take the waiting events of an id out of its channel; the second call takes only a listener's
 * requests whose connections have ended. The caller owns the list and passes it to
 * cm_events_discard: the new ids in its requests are known to nobody else.
 */
struct cm_event *cm_events_take(struct cm_id *id);
struct cm_event *cm_events_take_ended(struct cm_id *listener);

/* Move the waiting events of the id from its channel to `to`. */
void cm_events_move(struct cm_id *id, struct cm_channel *to);

/* Wait until the program has acknowledged all events of the id that it has taken. */
void cm_events_wait_acknowledged(struct cm_id *id);

/* Acknowledge the event that was left in id->event. Not with cm_lock held. */
void cm_ack_held(struct rdma_cm_id *id);

/* --- taking events (cm_event.c) --------------------------------------------------------------- */

/*
 * The end of a call that has begun something for the id, with the result 0, or could not, -1. Gives
 * cm_lock back. If the id has no channel of the program, waits for the next event and leaves it in
 * id->event: 0, or -1 with errno from its status. Any other id is not looked at again: another
 * thread may take what the call has begun, and destroy the id, before the call returns.
 */
int cm_finish(struct rdma_cm_id *id, int result);

/* --- native connections (cm_engine.c); cm_lock held ------------------------------------------ */

/* The queue of native events and its thread, made by the first call. NULL: errno. */
struct iwarp_eq *cm_engine_eq(void);

/* --- ends of connections (cm_over.c); cm_lock held unless said otherwise --------------------- */

/* The connection of the id is over: the program is told, perhaps a little later. */
void cm_over(struct cm_id *id);

/* If the program is to be told later, tell it now; or never, as the id ends. */
void cm_over_now(struct cm_id *id);
void cm_over_forget(struct cm_id *id);

/* In a forked child: the ids are the parent's. */
void cm_over_forget_all(void);

/* Tell what is to be told by now.  Milliseconds until the next call, -1: none is needed.  For the
 * thread of native events, which does not hold cm_lock. */
int cm_over_look(void);

/* --- ids (cm_id.c); cm_lock held ------------------------------------------------------------- */

/* NULL: errno. */
struct cm_id *cm_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps);

/* Set id->verbs and id->pd: those of the device that has the id's source address. 0 or -1 with
 * errno. */
int cm_id_attach(struct cm_id *id);

/* End what the id does, and free it once no native event can name it. The caller has taken its
 * waiting events out of the channel. */
void cm_id_end(struct cm_id *id);

/* Free events that no program will see. Requests among them are rejected. */
void cm_events_discard(struct cm_event *list);

/*
 * For the thread of native events (cm_engine.c). The first: the thread has started, so from here on
 * ended ids are kept until it frees them. The second: the thread holds no event at this moment, so
 * it frees them; not with cm_lock held.
 */
void cm_ids_expect_events(void);
void cm_ids_free_ended(void);

/* Set the id's type of service, if it has one, on the socket that holds its address (-1: there is
 * none). Connections that a listener accepts inherit it. */
void cm_id_set_tos(const struct cm_id *id, int fd);

/* --- addresses (cm_addr.c) ------------------------------------------------------------------- */

/* Octets of an address, by its family; 0: neither IPv4 nor IPv6. */
socklen_t cm_addr_len(const struct sockaddr *addr);

/* Turn an IPv4-mapped IPv6 address into the IPv4 address. */
void cm_addr_plain(struct sockaddr_storage *addr);

/* Bind the id's socket; cm_lock held. 0 or -1 with errno. */
int cm_bind(struct cm_id *id, const struct sockaddr *addr);

/* Source and destination as the native connection has them; cm_lock held. */
void cm_addr_from_conn(struct cm_id *id);

/* The port that the listener has got. */
void cm_addr_take_port(struct cm_id *id, struct sockaddr_storage *addr);

/* --- queue pairs (cm_qp.c) ------------------------------------------------------------------- */

/* The queue pair that the id is to connect: its own, or the program's by number. NULL: errno. */
struct compat_qp *cm_qp_to_connect(struct cm_id *id, const struct rdma_conn_param *param);

/* Bring the queue pair's state in line with an event of its connection; not with cm_lock held. */
void cm_qp_follow(struct cm_id *id, enum rdma_cm_event_type type);

#endif
