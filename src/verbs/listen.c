/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listeners: accept sockets, bound how many start-ups run at a time, hand each connection to a
 * worker. The MPA Request is read there (conn_setup.c); the application hears of it afterwards.
 *
 * Peers that nobody knows decide how often this code runs. So everything that they can use up is
 * bounded: start-ups (max_half_open), Requests that wait (the listener's crowd), connections,
 * descriptors, and lines in the log. Where a bound is reached, accepting pauses, and new peers wait
 * in the kernel's queue; the worker's established connections go on.
 */
#include "verbs/listen.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/network.h"
#include "base/process.h"
#include "base/settings.h"
#include "loop/clock.h"
#include "loop/loop.h"
#include "transport/transport.h"
#include "verbs/conn.h"
#include "verbs/conn_admit.h"
#include "verbs/conn_options.h"
#include "verbs/conn_tls.h"
#include "verbs/crowd.h"
#include "verbs/device.h"
#include "verbs/eq.h"
#include "verbs/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* How long accepting pauses, in milliseconds. */
#define RETRY_MS 20 /* nothing that this end can do would help */
#define YOUNG_MS 5  /* the start-ups in progress are given time to finish */
#define ROOM_MS  1  /* connections have been dropped; their workers are about to end them */

/* A start-up is not ended for a newcomer before this: honest peers need a round trip or two. */
#define LEAST_AGE_MS 200

/* Accepted in one go before the worker turns to its connections again. */
#define ACCEPT_BATCH 64

/* Requests of a listener that may wait for an answer, whatever its backlog: as many as one turn can
 * accept. With fewer, a listener with a small backlog would turn away peers that come together. */
#define WAITING_LEAST ACCEPT_BATCH

/* A quarter of the descriptors at most: see most_startups in device.c. */
static unsigned most_waiting(int backlog)
{
    unsigned most = backlog > WAITING_LEAST ? (unsigned)backlog : WAITING_LEAST;
    unsigned descriptors = iwarp_descriptors() / 4;

    return most < descriptors ? most : descriptors > 0 ? descriptors : 1;
}

/* One limit for each kind of line: a flood of one kind does not hide the others. */
static struct iwarp_log_limit paused, refused, forbidden;

/* On the listener's worker, without a lock, as are all callbacks here. */
static void on_retry(uv_timer_t *timer)
{
    struct iwarp_listener *l = timer->data;

    l->acceptor->stack->ops->pause(l->acceptor, false);
}

/* New peers wait in the stack's queue meanwhile. */
static void pause_accepting(struct iwarp_listener *l, unsigned ms, const char *why)
{
    iwarp_log_rarely(&paused, IWARP_LOG_WARN, "listen", "not accepting for %u ms: %s", ms, why);
    l->acceptor->stack->ops->pause(l->acceptor, true);
    iwarp_loop_start(&l->worker->loop, &l->retry, on_retry, ms);
}

/*
 * If the device has max_connections, the newcomer gets in only if another address has more
 * connections that nobody has accepted than this one would: a member of that address's share is
 * dropped. `own` is the size of the newcomer's own shares, so an address with many connections
 * displaces nobody else's.
 */
static struct iwarp_conn *new_conn(struct iwarp_listener *l, const struct sockaddr *peer)
{
    enum iwarp_status status;
    struct iwarp_conn *conn = iwarp_conn_new(l->device, &l->options, STARTUP_ARRIVED, &status);
    unsigned own = conn ? 0
                        : iwarp_crowd_share_of(&l->device->startups, peer) +
                              iwarp_crowd_share_of(&l->waiting, peer);

    if (!conn && status == IWARP_LIMIT && iwarp_device_make_room(l->device, own + 1)) {
        conn = iwarp_conn_new(l->device, &l->options, STARTUP_ARRIVED, &status);
    }
    return conn;
}

static void log_refused(struct iwarp_log_limit *limit, const struct sockaddr_storage *peer,
                        socklen_t peer_len, const char *why)
{
    struct iwarp_addr from;
    char text[IWARP_ADDR_TEXT];

    iwarp_addr_set(&from, (const struct sockaddr *)peer, peer_len);
    iwarp_log_rarely(limit, IWARP_LOG_WARN, "listen", "connection from %s refused: %s",
                     iwarp_addr_text(&from, text), why);
}

/*
 * On the listener's worker; the connection may belong to another one, which takes the arrival over
 * when it is kicked. If this fails, the peer sees its connection closed. A fork between accept and
 * here is covered: the stack has registered the descriptor, if it is one.
 */
static void begin(struct iwarp_listener *l, union iwarp_arrival arrival,
                  const struct sockaddr_storage *peer, socklen_t peer_len)
{
    struct iwarp_conn *conn = new_conn(l, (const struct sockaddr *)peer);

    atomic_fetch_add(&l->device->stats.arrivals, 1);
    if (!conn) {
        log_refused(&refused, peer, peer_len, iwarp_last_error());
        atomic_fetch_add(&l->device->stats.refused, 1);
        l->acceptor->stack->ops->refuse(l->acceptor->stack, arrival, false);
        return;
    }
    iwarp_mutex_lock(&conn->lock); /* the device's list has it already */
    iwarp_addr_set(&conn->peer, (const struct sockaddr *)peer, peer_len);
    conn->user = l->user;
    conn->eq = l->eq;
    iwarp_eq_use(l->eq, conn->worker);
    conn->startup->listener = l;
    conn->startup->member.conn = conn;
    conn->tcp = l->acceptor->stack->ops;
    conn->startup->arrival = arrival;
    conn->startup->arrived = true;
    (void)iwarp_conn_join(conn, &l->device->startups); /* drops the oldest, not the newcomer */
    iwarp_worker_kick(conn); /* while it is locked: once it has joined, others may have it ended */
    iwarp_mutex_unlock(&conn->lock);
}

/* The application does not want this peer: a reset, and nothing is left of it. */
static void refuse(struct iwarp_listener *l, union iwarp_arrival arrival,
                   const struct sockaddr_storage *peer, socklen_t peer_len)
{
    log_refused(&forbidden, peer, peer_len, "the listener does not admit its address");
    atomic_fetch_add(&l->device->stats.arrivals, 1);
    atomic_fetch_add(&l->device->stats.refused, 1);
    l->acceptor->stack->ops->refuse(l->acceptor->stack, arrival, true);
}

/* The application's function runs on the listener's worker, without a lock. */
static bool is_admitted(const struct iwarp_listener *l, const struct sockaddr_storage *peer,
                        socklen_t peer_len)
{
    const struct iwarp_conn_options *o = &l->options;

    if (l->allow && !iwarp_networks_have(l->allow, (const struct sockaddr *)peer)) {
        return false;
    }
    return !o->admit || o->admit((const struct sockaddr *)peer, peer_len, o->admit_arg);
}

/*
 * Descriptors or memory have run out: peers that nobody has accepted may hold them. One member is
 * dropped, and one more for every 16 start-ups, so that a large flood is thinned out within a few
 * turns. None is dropped while others are still on their way out (`leaving`), since those give
 * descriptors back soon.
 */
static void make_room(struct iwarp_listener *l, const char *why)
{
    unsigned n = 1 + atomic_load(&l->device->startups.count) / 16;
    bool made = false;

    if (atomic_load(&l->device->leaving) == 0) {
        while (n-- > 0 && iwarp_device_make_room(l->device, 1)) {
            made = true;
        }
    } else {
        made = true;
    }
    pause_accepting(l, made ? ROOM_MS : RETRY_MS, why);
}

/*
 * May there be one more start-up? If not, accepting is paused. A full crowd takes a newcomer by
 * dropping its oldest member, but not before that is LEAST_AGE_MS old. Members that were dropped
 * and are not ended yet still hold descriptors; so at most as many of them as the crowd has room
 * for, and one batch, are on their way at a time.
 */
static bool has_room(struct iwarp_listener *l)
{
    struct iwarp_device *d = l->device;

    if (atomic_load(&d->startups.count) < d->startups.max) {
        return true;
    }
    int64_t age = iwarp_now_ms() - iwarp_crowd_worst(&d->startups).since_ms;
    if (age < LEAST_AGE_MS) {
        pause_accepting(l, YOUNG_MS, "max_half_open start-ups have just begun");
    } else if (atomic_load(&d->leaving) >= d->startups.max + ACCEPT_BATCH) {
        pause_accepting(l, ROOM_MS, "start-ups beyond max_half_open are to be ended first");
    } else {
        return true;
    }
    return false;
}

/*
 * Accept up to ACCEPT_BATCH connections. ECONNABORTED and EINTR concern one peer or call: go on.
 * EAGAIN ends the batch. So does an error of the acceptor itself: a socket that was shut down, or a
 * call that the system does not allow. The socket stays readable then, hence the pause. The room is
 * checked for each connection, as each one that is accepted uses some.
 */
static void on_arrival(void *listener)
{
    struct iwarp_listener *l = listener;

    for (int i = 0; i < ACCEPT_BATCH; i++) {
        struct sockaddr_storage peer;
        socklen_t len;
        union iwarp_arrival arrival;
        if (!has_room(l)) {
            return;
        }
        int rc = l->acceptor->stack->ops->accept(l->acceptor, &arrival, &peer, &len);
        if (rc == 0 && !is_admitted(l, &peer, len)) {
            refuse(l, arrival, &peer, len);
        } else if (rc == 0) {
            begin(l, arrival, &peer, len);
        } else if (rc == -EMFILE || rc == -ENFILE || rc == -ENOBUFS || rc == -ENOMEM) {
            make_room(l, strerror(-rc));
            return;
        } else if (rc == -EAGAIN) {
            return;
        } else if (rc != -ECONNABORTED && rc != -EINTR) {
            pause_accepting(l, RETRY_MS, strerror(-rc));
            return;
        }
    }
}

struct opening {
    struct iwarp_listener *l;
    bool works; /* then the listener may be closed, and gone, when the caller comes back */
};

/*
 * On the listener's worker. The timer cannot fail to open, the poll handle can: `handles` says how
 * many there are to be closed.
 */
static void open_on_worker(void *arg)
{
    struct opening *opening = arg;
    struct iwarp_listener *l = opening->l;

    uv_timer_init(l->worker->loop.uv, &l->retry);
    l->retry.data = l;
    l->handles = 1;
    if (l->acceptor->stack->ops->open(l->acceptor, l->worker->seat) == 0) {
        l->handles = 2;
        opening->works = true;
    }
}

/* The last step: no handle, no connection and no list refers to the listener any more. */
static void release(struct iwarp_listener *l)
{
    iwarp_crowd_fini(&l->waiting);
    pthread_cond_destroy(&l->gone);
    pthread_mutex_destroy(&l->lock);
    free(l->allow);
    free(l);
}

/*
 * On the listener's worker. listener.lock is the only lock: listener_free waits with it for the
 * last handle.
 */
static void on_part_closed(void *listener)
{
    struct iwarp_listener *l = listener;

    pthread_mutex_lock(&l->lock);
    bool free_now = --l->handles == 0 && l->detached;
    pthread_cond_signal(&l->gone);
    pthread_mutex_unlock(&l->lock);
    if (free_now) {
        struct iwarp_device *d = l->device;
        release(l);
        atomic_fetch_sub(&d->dying, 1);
        iwarp_device_maybe_free(d);
    }
}

static void on_retry_closed(uv_handle_t *retry)
{
    on_part_closed(retry->data);
}

/*
 * On the listener's worker: libuv's handles are closed by the thread that runs their loop.  An
 * acceptor that could not be opened stays with the caller of listen_on.
 */
static void close_on_worker(void *arg)
{
    struct iwarp_listener *l = arg;

    if (l->handles == 2) {
        l->acceptor->stack->ops->unlisten(l->acceptor);
    }
    iwarp_loop_stop_timer(&l->worker->loop, &l->retry);
    uv_close((uv_handle_t *)&l->retry, on_retry_closed);
}

/*
 * After close_on_worker. The caller sleeps until libuv has called back for both handles, as their
 * memory lies in the listener. With embedded progress the calling thread runs the loop itself and
 * must not sleep: then the last callback frees the listener, and the device stays until then
 * (`dying`).
 */
static void listener_free(struct iwarp_listener *l)
{
    if (l->device->embedded) { /* the loop's next turn closes the handles */
        atomic_fetch_add(&l->device->dying, 1);
        l->detached = true;
        return;
    }
    pthread_mutex_lock(&l->lock);
    while (l->handles > 0) {
        pthread_cond_wait(&l->gone, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    release(l);
}

/* The device is only compared here: whether this thread may use it is checked later. */
static enum iwarp_status check(const struct iwarp_device *device, int backlog,
                               const struct iwarp_eq *eq, struct iwarp_listener *const *out)
{
    if (!device || !out) {
        return iwarp_fail(IWARP_MISUSE, "listening: %s is NULL",
                          device ? "the place for the listener" : "the device");
    }
    if (!eq || eq->device != device) {
        return iwarp_fail(IWARP_MISUSE, "a listener needs an event queue of its device");
    }
    if (backlog < 1) {
        return iwarp_fail(IWARP_MISUSE, "listening: backlog is %d, expected at least 1", backlog);
    }
    return IWARP_OK;
}

/* The option comes before the environment. */
static enum iwarp_status read_networks(const struct iwarp_conn_options *options,
                                       struct iwarp_networks **allow)
{
    const char *text = options->allow ? options->allow : iwarp_setting("IWARP_ALLOW");

    return iwarp_networks_parse(text ? text : "", allow);
}

/*
 * The acceptor is the listener's on success only. *out is set before the loop watches it: an event
 * may name the listener as soon as it does.  MISUSE: there is no such worker.
 */
/* Before the first Request comes: its event may have the application close the listener. */
static void enter_device(struct iwarp_listener *l)
{
    struct iwarp_device *device = l->device;

    iwarp_mutex_lock(&device->lock);
    l->next = device->listening;
    device->listening = l;
    iwarp_mutex_unlock(&device->lock);
    iwarp_eq_use(l->eq, l->worker);
    atomic_fetch_add(&device->listeners, 1);
}

/*
 * Walkers of the list hold device.lock (iwarp_device_make_room), so none of them is inside the
 * listener once this returns.
 */
static void leave_device(struct iwarp_listener *l)
{
    struct iwarp_device *device = l->device;

    iwarp_mutex_lock(&device->lock);
    struct iwarp_listener **at = &device->listening;
    while (*at != l) {
        at = &(*at)->next;
    }
    *at = l->next;
    iwarp_mutex_unlock(&device->lock);
}

static void forget(struct iwarp_device *device, struct iwarp_eq *eq)
{
    atomic_fetch_sub(&eq->users, 1);
    atomic_fetch_sub(&device->listeners, 1);
}

static enum iwarp_status listen_on(struct iwarp_device *device, struct iwarp_acceptor *acceptor,
                                   const struct iwarp_conn_options *options, int backlog,
                                   struct iwarp_eq *eq, void *user, struct iwarp_listener **out)
{
    struct iwarp_worker *worker = iwarp_device_pick_worker(device, options->worker);
    struct iwarp_networks *allow;
    enum iwarp_status status = read_networks(options, &allow);

    if (status != IWARP_OK) {
        return status;
    }
    struct iwarp_listener *l = worker ? iwarp_calloc(1, sizeof *l) : NULL;
    if (!l) {
        free(allow);
        return worker ? iwarp_fail(IWARP_NO_MEMORY, "no memory for a listener") : IWARP_MISUSE;
    }
    l->device = device;
    l->worker = worker;
    l->options = *options;
    l->options.allow = NULL; /* the caller's */
    l->allow = allow;
    l->eq = eq;
    l->user = user;
    l->acceptor = acceptor;
    acceptor->ready = on_arrival;
    acceptor->closed = on_part_closed;
    acceptor->user = l;
    iwarp_crowd_init(&l->waiting, IWARP_DROPS_NEWEST, most_waiting(backlog), device->embedded);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->gone, NULL);
    acceptor->stack->ops->locate(acceptor, &l->addr, &l->addr_len);
    *out = l;
    enter_device(l);
    struct opening opening = {l, false};
    iwarp_loop_call(&worker->loop, open_on_worker, &opening);
    if (!opening.works) {
        iwarp_loop_call(&worker->loop, close_on_worker, l);
        leave_device(l);
        listener_free(l);
        forget(device, eq);
        *out = NULL;
        return iwarp_fail(IWARP_LIMIT, "cannot watch the listening socket");
    }
    return IWARP_OK;
}

enum iwarp_status iwarp_listen(struct iwarp_device *device, const struct sockaddr *addr,
                               socklen_t addr_len, const struct iwarp_conn_options *options,
                               int backlog, struct iwarp_eq *eq, void *user,
                               struct iwarp_listener **out)
{
    IWARP_UNCANCELLED;
    struct iwarp_conn_options o;
    enum iwarp_status status = check(device, backlog, eq, out);

    if (status == IWARP_OK) {
        status = iwarp_addr_check(addr, addr_len);
    }
    if (status == IWARP_OK) {
        status = iwarp_conn_options_check(options, &o);
    }
    if (status != IWARP_OK) {
        return status;
    }
    IWARP_ON_LOOP(device);
    status = iwarp_listener_choose_tls(device, &o);
    if (status != IWARP_OK) {
        return status;
    }
    struct iwarp_acceptor *acceptor;
    int rc = device->stack->ops->listen(device->stack, addr, addr_len, backlog, &acceptor);
    if (rc < 0) {
        struct iwarp_addr at;
        char text[IWARP_ADDR_TEXT];
        iwarp_addr_set(&at, addr, addr_len);
        return iwarp_fail(rc == -ENOMEM ? IWARP_NO_MEMORY : IWARP_TRANSPORT,
                          "cannot listen on %s: %s", iwarp_addr_text(&at, text), strerror(-rc));
    }
    status = listen_on(device, acceptor, &o, backlog, eq, user, out);
    if (status != IWARP_OK) {
        device->stack->ops->unlisten(acceptor);
    }
    return status;
}

/* A TCP socket that is bound, connected to nobody, and not the library's? */
static enum iwarp_status check_bound(int fd)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNSPEC}, peer;
    socklen_t addr_len = sizeof addr, peer_len = sizeof peer;
    int protocol = 0;
    socklen_t len = sizeof protocol;

    if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) != 0 || protocol != IPPROTO_TCP ||
        getsockname(fd, (struct sockaddr *)&addr, &addr_len) != 0 ||
        getpeername(fd, (struct sockaddr *)&peer, &peer_len) == 0) {
        return iwarp_fail(IWARP_MISUSE, "descriptor %d is not a TCP socket without a peer", fd);
    }
    in_port_t port = addr.ss_family == AF_INET
                         ? ((const struct sockaddr_in *)(const void *)&addr)->sin_port
                         : ((const struct sockaddr_in6 *)(const void *)&addr)->sin6_port;
    if (port == 0) {
        return iwarp_fail(IWARP_MISUSE, "socket %d is not bound", fd);
    }
    if (iwarp_process_has_fd(fd)) {
        return iwarp_fail(IWARP_MISUSE, "socket %d is one of the library's own already", fd);
    }
    return IWARP_OK;
}

enum iwarp_status iwarp_listen_socket(struct iwarp_device *device, int fd,
                                      const struct iwarp_conn_options *options, int backlog,
                                      struct iwarp_eq *eq, void *user, struct iwarp_listener **out)
{
    IWARP_UNCANCELLED;
    struct iwarp_conn_options o;
    enum iwarp_status status = check(device, backlog, eq, out);

    if (status == IWARP_OK) {
        status = check_bound(fd);
    }
    if (status == IWARP_OK) {
        status = iwarp_conn_options_check(options, &o);
    }
    if (status != IWARP_OK) {
        return status;
    }
    IWARP_ON_LOOP(device);
    status = iwarp_listener_choose_tls(device, &o);
    if (status != IWARP_OK) {
        return status;
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || listen(fd, backlog) != 0) {
        return iwarp_fail(IWARP_TRANSPORT, "cannot listen: %s", strerror(errno));
    }
    struct iwarp_acceptor *acceptor;
    if (iwarp_tcp_acceptor(fd, &acceptor) != 0) {
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for a listener");
    }
    status = listen_on(device, acceptor, &o, backlog, eq, user, out);
    if (status != IWARP_OK) {
        iwarp_tcp_acceptor_return(acceptor);
        acceptor->stack->ops->unlisten(acceptor);
    }
    return status;
}

enum iwarp_status iwarp_listener_addr(const struct iwarp_listener *l, struct sockaddr_storage *addr,
                                      socklen_t *addr_len)
{
    if (!IWARP_GIVEN(l) || !IWARP_GIVEN(addr) || !IWARP_GIVEN(addr_len)) {
        return IWARP_MISUSE;
    }
    *addr = l->addr;
    *addr_len = l->addr_len;
    return IWARP_OK;
}

/*
 * Has the application not seen this connection of the listener? Then nobody will ever answer it.
 * The event's place in the queue decides, under eq.lock: if it can be removed, no thread has taken
 * it. True: the connection has no handle any more, and the caller has a reference.
 *
 * In any case the connection no longer points to the listener, which is about to be freed.
 */
static bool orphan(struct iwarp_conn *conn, const struct iwarp_listener *l)
{
    iwarp_mutex_lock(&conn->lock);
    bool comes = conn->startup && conn->startup->listener == l;
    bool ours =
        comes && !conn->user_gone &&
        (conn->state < CONN_REQUEST || (conn->eq && iwarp_eq_remove(conn->eq, &conn->open_event)));
    if (comes) {
        iwarp_conn_leave_listener(conn);
    }
    if (ours) {
        conn->user_gone = true;
        conn->eq = NULL;
        iwarp_conn_get(conn);
    }
    iwarp_conn_unlock(conn);
    return ours;
}

/*
 * device.lock, then conn.lock in orphan: the order of docs/locks.md. The walk starts anew each
 * time, since device.lock is not held while an orphan is ended.
 */
static struct iwarp_conn *next_orphan(struct iwarp_listener *l)
{
    struct iwarp_conn *conn;

    iwarp_mutex_lock(&l->device->lock);
    for (conn = l->device->conns; conn && !orphan(conn, l); conn = conn->next) {
    }
    iwarp_mutex_unlock(&l->device->lock);
    return conn;
}

/*
 * Connections that the application has seen stay; the others are ended by their workers. The order
 * matters: first no new connection can come, then the listener is not found any more, then the
 * connections let go of it, and only then is it freed.
 */
enum iwarp_status iwarp_listener_close(struct iwarp_listener *l)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(l)) {
        return IWARP_MISUSE;
    }
    struct iwarp_device *device = l->device;
    struct iwarp_eq *eq = l->eq;
    struct iwarp_conn *conn;

    IWARP_ON_LOOP(l->device);
    iwarp_loop_call(&l->worker->loop, close_on_worker, l); /* no new ones from here on */
    leave_device(l);
    while ((conn = next_orphan(l)) != NULL) {
        atomic_fetch_sub(&eq->users, 1);
        iwarp_worker_kick(conn);
        iwarp_conn_put(conn); /* of next_orphan */
        iwarp_conn_put(conn); /* of the handle that nobody has */
    }
    listener_free(l);
    forget(device, eq);
    return IWARP_OK;
}
