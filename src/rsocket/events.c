/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection events. The thread that runs the loop takes them at the end of the turn in which they
 * came, so that no other thread has to be woken up for a connection to begin or to end. It waits
 * for no socket that a call uses: that call takes the event when it unlocks the socket (rs_unlock).
 *
 * An event names its socket by pointer: the engine frees a socket while it holds events, and its
 * connection goes first, with what is in the queue (rs_events_hold).
 *
 * A socket whose start-up is over may have somebody to tell (iwarp_rs_start_by). That is done by
 * the thread that runs the loop alone, without events_lock and the socket's own lock.
 */
#include "base/process.h"
#include "base/task.h"
#include "rsocket/rs.h"

#include <errno.h>
#include <stdlib.h>

static void take_on_loop(void *arg);

/* Before the lock of a socket. */
static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;
static struct iwarp_eq *_Atomic eq;
static struct iwarp_device *_Atomic device; /* that of the queue */
static _Atomic bool again;                  /* a thread wanted events_lock */
static _Atomic unsigned refs;
static struct iwarp_task task = {.run = take_on_loop, .refs = &refs};
static struct rs *_Atomic starts; /* whose start-up is over, and somebody is to be told */

/* --- what they mean -------------------------------------------------------------------------- */

/* NULL after the peer was told no. */
static struct rs_request *read_request(struct iwarp_conn *conn)
{
    struct rs_request *request = calloc(1, sizeof *request);
    size_t len;
    const void *data = iwarp_conn_private_data(conn, &len);
    const char *wrong = request ? rs_hello_read(data, len, &request->hello) : "no memory";

    if (!wrong) {
        request->conn = conn;
        return request;
    }
    (void)iwarp_compat_refuse_peer("rsocket", EPROTO, wrong);
    free(request);
    iwarp_reject(conn, NULL, 0);
    return NULL;
}

static void on_request(struct rs *listener, struct iwarp_conn *conn)
{
    struct rs_request *request =
        listener->state == RS_LISTENING && !listener->closed ? read_request(conn) : NULL;

    if (!request) {
        iwarp_conn_destroy(conn);
        return;
    }
    *listener->last_request = request;
    listener->last_request = &request->next;
    listener->arrived++;
    rs_wake(listener);
}

/* Of a socket that was adopted as a server. No event follows what is not accepted. */
static void on_adopted_request(struct rs *s, struct iwarp_conn *conn)
{
    uint8_t private_data[RS_PRIVATE_MAX];
    struct rs_request *request = s->state == RS_CONNECTING ? read_request(conn) : NULL;

    if (!request) {
        rs_over(s, ECONNRESET); /* to a program of TCP */
        s->ended = true;
        return;
    }
    const size_t len = rs_hello(s, request->hello.second.len > 0, private_data);
    if (iwarp_accept(conn, s->qp, NULL, private_data, len, s) == IWARP_OK) {
        rs_connected(s, &request->hello);
    } else {
        rs_over(s, ECONNRESET);
        s->ended = true;
    }
    free(request);
}

static void on_established(struct rs *s, struct iwarp_conn *conn)
{
    struct rs_hello hello;
    size_t len;
    const void *data = iwarp_conn_private_data(conn, &len);
    const char *wrong;

    if (s->state != RS_CONNECTING) {
        return; /* the responder's end is used before it is established */
    }
    wrong = rs_hello_read(data, len, &hello);
    if (wrong) {
        (void)iwarp_compat_refuse_peer("rsocket", EPROTO, wrong);
        iwarp_abort(conn);
        rs_over(s, EPROTO);
        return;
    }
    if (s->as_tcp && !s->closed) { /* else the number is somebody else's by now */
        (void)rs_stand_in(s);
    }
    rs_connected(s, &hello);
}

/* The lock is held. */
static void on_event(struct rs *s, const struct iwarp_event *e)
{
    int error = rs_error_of(e->fault);

    if (e->type == IWARP_EVENT_REQUEST && e->listener) {
        on_request(s, e->conn);
    } else if (s->conn != e->conn) {
        /* it was connected anew */
    } else if (e->type == IWARP_EVENT_REQUEST) {
        on_adopted_request(s, e->conn);
    } else if (e->type == IWARP_EVENT_ESTABLISHED) {
        on_established(s, e->conn);
    } else {
        rs_progress(s); /* what has arrived before the end */
        rs_over(s, e->type == IWARP_EVENT_REJECTED ? ECONNREFUSED
                   : e->type == IWARP_EVENT_FAILED ? (error ? error : ECONNREFUSED)
                                                   : error);
        s->ended = true;
    }
}

/* --- taking them ----------------------------------------------------------------------------- */

/* The socket of the first event. It stays in memory while events_lock is held. NULL: none, or it is
 * in use, and the thread that uses it takes the event when it unlocks it. */
static struct rs *lock_first(struct iwarp_eq *queue)
{
    struct rs *s = iwarp_compat_eq_first_user(queue);

    if (!s || pthread_mutex_trylock(&s->lock) == 0) {
        return s;
    }
    atomic_store(&s->event_waits, true);
    return pthread_mutex_trylock(&s->lock) == 0 ? s : NULL; /* it may be unlocked since */
}

/* Both locks are held. */
static void take_event(struct rs *s, struct iwarp_eq *queue)
{
    struct iwarp_event event;

    if (iwarp_compat_eq_take_of(queue, s, &event)) {
        const bool is_starting = s->state == RS_CONNECTING;
        on_event(s, &event);
        if (is_starting && s->state != RS_CONNECTING && s->on_start) {
            s->next_start = atomic_load(&starts);
            atomic_store(&starts, s);
        }
    }
}

/* Events of one socket are taken in their order. This waits for no lock: a thread that has
 * events_lock, or the first one's socket, looks once more when it gives that back. */
static void take(void)
{
    IWARP_UNCANCELLED;
    struct rs *s;

    atomic_store(&again, true);
    while (atomic_load(&again) && pthread_mutex_trylock(&events_lock) == 0) {
        struct iwarp_eq *queue = atomic_load(&eq);
        atomic_store(&again, false);
        while (queue && (s = lock_first(queue))) {
            atomic_store(&s->event_waits, false);
            take_event(s, queue);
            rs_unlock(s);
        }
        pthread_mutex_unlock(&events_lock);
    }
}

static void on_first(void *unused)
{
    (void)unused;
    atomic_fetch_add(&refs, 1);
    iwarp_compat_post_task(atomic_load(&device), &task);
}

/* rs_unlock has the program's locks around it: others are told from the loop. */
void rs_events_take(void)
{
    take();
    if (atomic_load(&starts)) {
        on_first(NULL);
    }
}

/* --- the end of a start-up ------------------------------------------------------------------- */

/* NULL: none, or a thread has events_lock, and looks once more when it gives that back. */
static void (*next_start(void **user))(void *user)
{
    void (*call)(void *user) = NULL;

    atomic_store(&again, true);
    if (pthread_mutex_trylock(&events_lock) == 0) {
        struct rs *s = atomic_load(&starts);
        if (s) {
            atomic_store(&starts, s->next_start);
            call = s->on_start;
            *user = s->start_user;
            s->on_start = NULL;
        }
        pthread_mutex_unlock(&events_lock);
    }
    return call;
}

static void take_on_loop(void *arg)
{
    void (*call)(void *user);
    void *user;

    (void)arg;
    atomic_fetch_sub(&refs, 1);
    take();
    while (atomic_load(&starts) && (call = next_start(&user))) {
        call(user);
        take();
    }
    if (atomic_load(&again)) { /* another thread wanted events_lock while next_start had it */
        take();
    }
}

/* events_lock is held, and the socket is about to be freed. */
void rs_events_forget(struct rs *s)
{
    struct rs *before = NULL, *at = atomic_load(&starts);

    while (at && at != s) {
        before = at;
        at = at->next_start;
    }
    if (at && before) {
        before->next_start = s->next_start;
    } else if (at) {
        atomic_store(&starts, s->next_start);
    }
    if (s->on_start) {
        s->on_start(s->start_user);
        s->on_start = NULL;
    }
}

/* --- the queue ------------------------------------------------------------------------------- */

struct iwarp_eq *rs_events_make(void)
{
    struct iwarp_eq *queue = atomic_load(&eq);
    struct iwarp_device *of = queue ? NULL : iwarp_compat_device();
    enum iwarp_status status = of ? iwarp_eq_create(of, &queue) : IWARP_OK;

    if (status != IWARP_OK) {
        (void)iwarp_compat_failed("rsocket", status, "a queue for connection events");
        return NULL;
    }
    if (of) {
        atomic_store(&device, of);
        iwarp_compat_eq_notify_by(queue, on_first, NULL);
        atomic_store(&eq, queue);
    }
    return queue;
}

void rs_events_hold(void)
{
    pthread_mutex_lock(&events_lock);
}

void rs_events_release(void)
{
    pthread_mutex_unlock(&events_lock);
    if (atomic_load(&again)) {
        rs_events_take();
    }
}

/* The lock may be held by a thread that the child has not; the queue is the parent's. */
void rs_events_in_child(void)
{
    pthread_mutex_init(&events_lock, NULL);
    atomic_store(&eq, NULL);
    atomic_store(&starts, NULL);
    refs = 0;
    task.queued = false;
}
