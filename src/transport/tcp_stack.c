/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kernel TCP as a stack (stack.h): listening sockets, and the functions of tcp.c in the table.  All
 * sockets are closed by forked children (base/process.h).
 */
#include "base/process.h"
#include "transport/stack.h"
#include "transport/tcp_options.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct acceptor {
    struct iwarp_acceptor base;
    uv_poll_t poll;
    int fd;         /* -1: given back */
    bool inherited; /* the application's, whose options accepted sockets inherit */
};

static struct acceptor *acceptor_of(struct iwarp_acceptor *a)
{
    return (struct acceptor *)(void *)a;
}

/* --- seats: kernel TCP has nothing of its own in a loop ----------------------------------------
 */

static int tcp_join(struct iwarp_stack *stack, struct iwarp_seat **seat)
{
    struct iwarp_seat *s = calloc(1, sizeof *s);

    if (!s) {
        return -ENOMEM;
    }
    s->stack = stack;
    *seat = s;
    return 0;
}

static void tcp_sit(struct iwarp_seat *seat, uv_loop_t *loop)
{
    seat->loop = loop;
}

static void tcp_leave(struct iwarp_seat *seat, void (*left)(void *arg), void *arg)
{
    free(seat);
    left(arg);
}

static void tcp_close_stack(struct iwarp_stack *stack)
{
    (void)stack;
}

/* --- connecting ------------------------------------------------------------------------------ */

/* Nothing is sent: connecting a datagram socket only chooses its addresses. */
static int tcp_source(struct iwarp_stack *stack, const struct sockaddr *addr, socklen_t addr_len,
                      struct sockaddr_storage *source, socklen_t *source_len)
{
    int fd = socket(addr->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), error = 0;

    (void)stack;
    if (fd < 0) {
        return -errno;
    }
    *source_len = sizeof *source;
    memset(source, 0, sizeof *source);
    if (connect(fd, addr, addr_len) != 0 ||
        getsockname(fd, (struct sockaddr *)source, source_len) != 0) {
        error = errno;
    }
    close(fd);
    return -error;
}

static int tcp_connect(struct iwarp_seat *seat, const struct iwarp_way *way,
                       struct iwarp_endpoint **ep)
{
    int fd = iwarp_tcp_connect(way->addr, way->addr_len, way->source, way->source_len,
                               way->traffic_class);

    return fd < 0 ? fd : iwarp_tcp_attach(seat->loop, fd, ep);
}

/* --- listening ------------------------------------------------------------------------------- */

static int make_acceptor(int fd, bool inherited, struct iwarp_acceptor **acceptor)
{
    struct acceptor *a = calloc(1, sizeof *a);

    if (!a) {
        return -ENOMEM;
    }
    a->base.stack = &iwarp_tcp_stack;
    a->fd = fd;
    a->inherited = inherited;
    iwarp_process_add_fd(fd);
    *acceptor = &a->base;
    return 0;
}

int iwarp_tcp_acceptor(int fd, struct iwarp_acceptor **acceptor)
{
    return make_acceptor(fd, true, acceptor);
}

int iwarp_tcp_acceptor_fd(const struct iwarp_acceptor *a)
{
    return ((const struct acceptor *)(const void *)a)->fd;
}

void iwarp_tcp_acceptor_return(struct iwarp_acceptor *a)
{
    iwarp_process_remove_fd(acceptor_of(a)->fd);
    acceptor_of(a)->fd = -1;
}

static int tcp_listen(struct iwarp_stack *stack, const struct sockaddr *addr, socklen_t addr_len,
                      int backlog, struct iwarp_acceptor **acceptor)
{
    int fd = iwarp_tcp_listen(addr, addr_len, backlog);

    (void)stack;
    int rc = fd < 0 ? fd : make_acceptor(fd, false, acceptor);
    if (fd >= 0 && rc < 0) {
        iwarp_process_close(fd);
    }
    return rc;
}

static void tcp_locate(struct iwarp_acceptor *a, struct sockaddr_storage *addr, socklen_t *addr_len)
{
    *addr_len = sizeof *addr;
    getsockname(acceptor_of(a)->fd, (struct sockaddr *)addr, addr_len);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct acceptor *a = poll->data;

    (void)status;
    (void)events;
    a->base.ready(a->base.user);
}

static int tcp_open(struct iwarp_acceptor *base, struct iwarp_seat *seat)
{
    struct acceptor *a = acceptor_of(base);
    int rc = uv_poll_init(seat->loop, &a->poll, a->fd);

    if (rc == 0) {
        a->poll.data = a;
        uv_poll_start(&a->poll, UV_READABLE, on_poll);
    }
    return rc;
}

static void tcp_pause(struct iwarp_acceptor *a, bool paused)
{
    if (paused) {
        uv_poll_stop(&acceptor_of(a)->poll);
    } else {
        uv_poll_start(&acceptor_of(a)->poll, UV_READABLE, on_poll);
    }
}

static int tcp_accept(struct iwarp_acceptor *a, union iwarp_arrival *arrival,
                      struct sockaddr_storage *peer, socklen_t *peer_len)
{
    *peer_len = sizeof *peer;
    arrival->fd = iwarp_process_accept(acceptor_of(a)->fd, (struct sockaddr *)peer, peer_len);
    if (arrival->fd < 0) {
        return -errno;
    }
    if (acceptor_of(a)->inherited) {
        iwarp_tcp_disarm(arrival->fd);
    }
    return 0;
}

/* SO_LINGER with 0 seconds makes close send a RST. */
static void tcp_refuse(struct iwarp_stack *stack, union iwarp_arrival arrival, bool reset)
{
    const struct linger now = {1, 0};

    (void)stack;
    if (reset) {
        setsockopt(arrival.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    iwarp_process_close(arrival.fd);
}

static int tcp_attach(struct iwarp_seat *seat, union iwarp_arrival arrival,
                      struct iwarp_endpoint **ep)
{
    return iwarp_tcp_attach(seat->loop, arrival.fd, ep);
}

static void release(struct acceptor *a)
{
    if (a->fd >= 0) {
        iwarp_process_close(a->fd);
    }
    free(a);
}

static void on_closed(uv_handle_t *poll)
{
    struct acceptor *a = poll->data;
    void (*closed)(void *user) = a->base.closed;
    void *user = a->base.user;

    release(a);
    closed(user);
}

/* poll.data is there since `open`. */
static void tcp_unlisten(struct iwarp_acceptor *base)
{
    struct acceptor *a = acceptor_of(base);

    if (a->poll.data) {
        uv_poll_stop(&a->poll);
        uv_close((uv_handle_t *)&a->poll, on_closed);
    } else {
        release(a);
    }
}

static const struct iwarp_stack_ops ops = {
    .name = "tcp",
    .close = tcp_close_stack,
    .join = tcp_join,
    .sit = tcp_sit,
    .leave = tcp_leave,
    .source = tcp_source,
    .connect = tcp_connect,
    .listen = tcp_listen,
    .locate = tcp_locate,
    .open = tcp_open,
    .pause = tcp_pause,
    .accept = tcp_accept,
    .refuse = tcp_refuse,
    .attach = tcp_attach,
    .unlisten = tcp_unlisten,
    .error = iwarp_tcp_error,
    .local_addr = iwarp_tcp_local_addr,
    .peer_addr = iwarp_tcp_peer_addr,
    .patience = iwarp_tcp_patience,
    .taken = iwarp_tcp_taken,
    .watch_end = iwarp_tcp_watch_end,
    .unread = iwarp_tcp_unread,
    .await_end = iwarp_tcp_await_end,
    .ending = iwarp_tcp_ending,
    .go_away = iwarp_tcp_go_away,
    .come_back = iwarp_tcp_come_back,
    .is_away = iwarp_tcp_is_away,
};

struct iwarp_stack iwarp_tcp_stack = {&ops};
