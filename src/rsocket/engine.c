/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One thread of the process: it takes connection events, and frees sockets that were closed. It
 * sleeps while there is none of these. An event names its socket by pointer, so only this thread
 * frees sockets, and only when it holds no event.
 */
#include "rsocket/rs.h"

#include "base/process.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TICK_MS 20   /* while there are sockets to be freed */
#define EXIT_MS 5000 /* for what was written before exit */

static pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;
static struct iwarp_eq *eq;
static unsigned eq_born;
static int bell = -1;           /* eventfd: there is something in the list */
static struct rs *dead, *dying; /* dying: of the thread alone */
static unsigned dead_count;     /* in both */

void rs_engine_bury(struct rs *s, uint64_t until_ms)
{
    IWARP_UNCANCELLED;
    pthread_mutex_lock(&engine_lock);
    s->dead_until_ms = until_ms;
    s->next_dead = dead;
    dead = s;
    dead_count++;
    (void)!write(bell, &(uint64_t){1}, sizeof(uint64_t));
    pthread_mutex_unlock(&engine_lock);
}

/* --- events ---------------------------------------------------------------------------------- */

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
    uint8_t private_data[RS_PRIVATE_LEN];
    struct rs_request *request = s->state == RS_CONNECTING ? read_request(conn) : NULL;

    if (!request) {
        rs_over(s, ECONNRESET); /* to a program of TCP */
        s->ended = true;
        return;
    }
    rs_hello(s, private_data);
    if (iwarp_accept(conn, s->qp, NULL, private_data, sizeof private_data, s) == IWARP_OK) {
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
    rs_connected(s, &hello);
}

static void on_event(const struct iwarp_event *e)
{
    struct rs *s = e->user;
    int error = rs_error_of(e->fault);

    pthread_mutex_lock(&s->lock);
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
    rs_unlock(s);
}

/* --- sockets that were closed ---------------------------------------------------------------- */

static void free_socket(struct rs *s)
{
    rs_unprepare(s);
    rs_forget_due(s);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->wake_lock);
    free(s);
}

static bool is_sent(const struct rs *s)
{
    return s->controls == 0 && s->send_free == s->send_len && s->sends_free == s->sq_size;
}

/* Its connection has ended, or has had its time, and no call uses it. */
static bool can_go(struct rs *s)
{
    bool can;

    if (rs_is_used(s)) {
        return false;
    }
    pthread_mutex_lock(&s->lock);
    rs_progress(s);
    if (s->conn && s->to_reset && is_sent(s)) {
        iwarp_abort(s->conn);
        s->to_reset = false;
    }
    can = !s->conn || s->ended || rs_now_ms() >= s->dead_until_ms;
    rs_unlock(s);
    return can;
}

/* True if some are left. */
static bool free_dead(void)
{
    struct rs **at = &dying;
    unsigned freed = 0;

    pthread_mutex_lock(&engine_lock);
    while (*at) {
        at = &(*at)->next_dead;
    }
    *at = dead;
    dead = NULL;
    pthread_mutex_unlock(&engine_lock);
    for (at = &dying; *at;) {
        struct rs *s = *at;
        if (can_go(s)) {
            *at = s->next_dead;
            free_socket(s);
            freed++;
        } else {
            at = &s->next_dead;
        }
    }
    pthread_mutex_lock(&engine_lock);
    dead_count -= freed;
    pthread_mutex_unlock(&engine_lock);
    return dying != NULL;
}

/* --- the thread ------------------------------------------------------------------------------ */

static void *run(void *arg)
{
    struct iwarp_eq *queue = arg;
    struct pollfd fds[2] = {{iwarp_eq_fd(queue), POLLIN, 0}, {bell, POLLIN, 0}};
    struct iwarp_event event;
    bool some = false;
    uint64_t rings;

    for (;;) {
        poll(fds, 2, some ? TICK_MS : -1);
        (void)!read(bell, &rings, sizeof rings);
        while (iwarp_eq_get(queue, &event, 0) == IWARP_OK) {
            on_event(&event);
        }
        some = free_dead();
    }
    return NULL;
}

/* engine_lock held. What there is, if anything, is the parent's. */
static int start(void)
{
    struct iwarp_device *device = iwarp_compat_device();
    static bool at_exit;
    int error;

    if (!device) {
        return -1;
    }
    /* Sockets that were closed before there was a connection may be in the list already. */
    bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell < 0 || iwarp_eq_create(device, &eq) != IWARP_OK) {
        return RS_REFUSE(bell < 0 ? errno : ENOMEM, "no queue for connection events");
    }
    error = iwarp_compat_thread("iwarp-rsocket", run, eq);
    if (error) {
        iwarp_eq_destroy(eq);
        close(bell);
        return RS_REFUSE(error, "no thread for connection events");
    }
    if (!at_exit && !rs_is_preloaded()) {
        at_exit = true;
        atexit(rs_engine_end);
    }
    eq_born = iwarp_compat_generation();
    return 0;
}

/* The lock may be held by a thread that the child has not; the list is the parent's. */
void rs_engine_in_child(void)
{
    pthread_mutex_init(&engine_lock, NULL);
    dead = dying = NULL;
    dead_count = 0;
    bell = -1;
}

struct iwarp_eq *rs_engine_eq(void)
{
    IWARP_UNCANCELLED;
    struct iwarp_eq *mine = NULL;

    pthread_mutex_lock(&engine_lock);
    if ((eq && eq_born == iwarp_compat_generation()) || start() == 0) {
        mine = eq;
    }
    pthread_mutex_unlock(&engine_lock);
    return mine;
}

void rs_engine_end(void)
{
    uint64_t until = rs_now_ms() + EXIT_MS;
    bool some = eq && eq_born == iwarp_compat_generation();

    rs_close_all();
    while (some && rs_now_ms() < until) {
        pthread_mutex_lock(&engine_lock);
        some = dead_count > 0;
        pthread_mutex_unlock(&engine_lock);
        if (some) {
            usleep(1000);
        }
    }
}
