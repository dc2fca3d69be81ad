/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kernel TCP: libuv watches the descriptor, reads and writes are our own vectored calls (a libuv
 * stream reads into one buffer only). No protocol knowledge, and no lock: threads are as in the
 * table of iwarp/transport.h, so readv and writev touch the descriptor alone, never the libuv
 * handle.
 *
 * A socket of the application (iwarp_tcp_adopt) differs in two ways. Octets that the application
 * has read from it already are returned first, through a transport of its own that replaces itself
 * once they are taken. And its options are kept (tcp_options.h), to be restored if the socket is
 * given back.
 */
#include "transport/transport.h"

#include "base/guard.h"
#include "base/process.h"
#include "transport/stack.h"
#include "transport/tcp_acked.h"
#include "transport/tcp_options.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

struct adopted {
    struct iwarp_tcp_options *options;
    uint8_t *early; /* octets that the application had read already, until they are taken */
    size_t early_len, early_taken;
    iwarp_wake_fn wake; /* requests a call of early_poll: the kernel reports nothing of `early` */
    void *wake_user;
};

struct tcp {
    struct iwarp_endpoint ep;
    uv_poll_t poll;
    int fd;                  /* -1: closed or given back */
    int events;              /* what poll is started for, unless `away` */
    bool away;               /* reads are wanted, but the loop does not watch: go_away */
    bool patient;            /* watch_end has set SO_RCVLOWAT, so that data does not wake up */
    struct adopted *adopted; /* NULL: the socket was made here */
};

static const struct iwarp_transport tcp_transport, tcp_early_transport;

static struct tcp *tcp_of(struct iwarp_endpoint *ep)
{
    return (struct tcp *)(void *)ep;
}

static ssize_t tcp_readv(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    ssize_t got;

    do {
        /* One buffer: recv saves the kernel the import of the vector, which is measurable for small
         * messages. */
        got = n == 1 ? recv(tcp_of(ep)->fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT)
                     : readv(tcp_of(ep)->fd, iov, n);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

static ssize_t tcp_writev(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    const int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
    struct msghdr msg;
    ssize_t sent;

    memset(&msg, 0, sizeof msg);
    memcpy(&msg.msg_iov, &iov, sizeof iov); /* sendmsg does not write to it */
    msg.msg_iovlen = (size_t)n;
    do {
        sent = n == 1 ? send(tcp_of(ep)->fd, iov->iov_base, iov->iov_len, flags)
                      : sendmsg(tcp_of(ep)->fd, &msg, flags);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct tcp *t = poll->data;

    if (status < 0) {
        /* The next call on the socket returns the error, or first the octets that came before. */
        events = UV_READABLE | UV_WRITABLE;
        t->events = 0; /* libuv has stopped watching */
    }
    t->ep.ready(t->ep.user, (events & (UV_READABLE | UV_DISCONNECT)) != 0,
                (events & UV_WRITABLE) != 0);
}

/* The socket becomes readable only with so many octets, or at the peer's FIN. */
static void set_low_water(struct tcp *t, int octets)
{
    t->patient = octets > 1;
    setsockopt(t->fd, SOL_SOCKET, SO_RCVLOWAT, &octets, sizeof octets);
}

static void tcp_watch(struct iwarp_endpoint *ep, bool read, bool write)
{
    struct tcp *t = tcp_of(ep);
    int events = (read ? UV_READABLE : 0) | (write ? UV_WRITABLE : 0);

    if (read && ep->ops == &tcp_early_transport) {
        t->adopted->wake(t->adopted->wake_user);
    }
    if (events == t->events) {
        return;
    }
    if (t->patient) {
        set_low_water(t, 1);
    }
    t->events = events;
    t->away = false;
    if (events) {
        uv_poll_start(&t->poll, events, on_poll);
    } else {
        uv_poll_stop(&t->poll);
    }
}

bool iwarp_tcp_is(const struct iwarp_endpoint *ep)
{
    return ep->ops == &tcp_transport || ep->ops == &tcp_early_transport;
}

int iwarp_tcp_socket(const struct iwarp_endpoint *ep)
{
    return ep->ops == &tcp_transport ? ((const struct tcp *)(const void *)ep)->fd : -1;
}

/* Only while reads alone are watched: a write that waits for room needs the loop to report it. */
void iwarp_tcp_go_away(struct iwarp_endpoint *ep)
{
    struct tcp *t = tcp_of(ep);

    if (ep->ops == &tcp_transport && t->events == UV_READABLE && !t->away) {
        t->away = true;
        uv_poll_stop(&t->poll);
    }
}

void iwarp_tcp_come_back(struct iwarp_endpoint *ep)
{
    struct tcp *t = tcp_of(ep);

    if (t->away) {
        t->away = false;
        uv_poll_start(&t->poll, t->events, on_poll);
    }
}

bool iwarp_tcp_is_away(const struct iwarp_endpoint *ep)
{
    return ((const struct tcp *)(const void *)ep)->away;
}

void iwarp_tcp_watch_end(struct iwarp_endpoint *ep)
{
    if (iwarp_tcp_is(ep)) {
        struct tcp *t = tcp_of(ep);
        t->away = false;
        t->events = UV_READABLE | UV_DISCONNECT;
        set_low_water(t, IWARP_UNREAD_MAX);
        uv_poll_start(&t->poll, t->events, on_poll);
    }
}

bool iwarp_tcp_unread(struct iwarp_endpoint *ep, int *octets)
{
    struct pollfd end = {.fd = tcp_of(ep)->fd, .events = POLLRDHUP};

    *octets = 0;
    return poll(&end, 1, 0) == 0 && ioctl(end.fd, FIONREAD, octets) == 0 && *octets > 0;
}

void iwarp_tcp_await_end(struct iwarp_endpoint *ep, bool write)
{
    struct tcp *t = tcp_of(ep);
    int events = UV_DISCONNECT | (write ? UV_WRITABLE : 0);

    if (events != t->events) {
        t->away = false;
        t->events = events;
        uv_poll_start(&t->poll, events, on_poll);
    }
}

bool iwarp_tcp_ending(struct iwarp_endpoint *ep, int *error)
{
    struct pollfd end = {.fd = tcp_of(ep)->fd, .events = POLLRDHUP};

    if (poll(&end, 1, 0) <= 0) {
        return false;
    }
    *error = iwarp_tcp_error(ep);
    return true;
}

static void tcp_shutdown_write(struct iwarp_endpoint *ep)
{
    shutdown(tcp_of(ep)->fd, SHUT_WR);
}

static void on_closed(uv_handle_t *handle)
{
    struct tcp *t = handle->data;

    if (t->adopted) {
        free(t->adopted->early);
        free(t->adopted);
    }
    t->ep.closed(t->ep.user);
    free(t);
}

/* SO_LINGER with 0 seconds makes close send a RST and drop what is unsent. Of a socket of the
 * application other descriptors may be open, also in children: there a disconnect sends it. */
static void send_reset(const struct tcp *t)
{
    const struct linger now = {1, 0};
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};

    setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    if (t->adopted) {
        (void)connect(t->fd, &nowhere, sizeof nowhere);
    }
}

static void tcp_close(struct iwarp_endpoint *ep, bool reset)
{
    struct tcp *t = tcp_of(ep);

    if (reset) {
        send_reset(t);
    }
    uv_poll_stop(&t->poll);
    uv_close((uv_handle_t *)&t->poll, on_closed);
    /* Not in on_closed: with a reset, the address is free for the next connection from here on. */
    iwarp_process_close(t->fd);
    t->fd = -1;
    if (t->adopted) {
        t->adopted->options->fd = -1;
    }
}

static uint32_t tcp_emss(struct iwarp_endpoint *ep)
{
    int mss = 0;
    socklen_t len = sizeof mss;

    if (getsockopt(tcp_of(ep)->fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &len) != 0 || mss <= 0) {
        return 536; /* RFC 9293 3.7.1: what every path carries */
    }
    return (uint32_t)mss;
}

static const struct iwarp_transport tcp_transport = {
    "tcp", tcp_readv, tcp_writev, tcp_watch, tcp_shutdown_write, tcp_close, tcp_emss, NULL};

/* On failure fd still belongs to the caller. A forked child closes it (iwarp_process_add_fd). */
static int wrap(uv_loop_t *loop, int fd, struct tcp **out)
{
    struct tcp *t = calloc(1, sizeof *t);
    const int on = 1;
    int rc = t ? uv_poll_init(loop, &t->poll, fd) : -ENOMEM;

    if (rc < 0) {
        free(t);
        return rc;
    }
    t->fd = fd;
    t->ep.ops = &tcp_transport;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    t->poll.data = t;
    iwarp_process_add_fd(fd);
    *out = t;
    return 0;
}

int iwarp_tcp_attach(uv_loop_t *loop, int fd, struct iwarp_endpoint **ep)
{
    struct tcp *t = NULL;
    int rc = wrap(loop, fd, &t);

    if (rc < 0) {
        iwarp_process_close(fd);
        return rc;
    }
    *ep = &t->ep;
    return 0;
}

/* --- sockets of the application -------------------------------------------------------------- */

/* Early octets first; one read never returns both early octets and octets of the socket. */
static ssize_t early_readv(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct adopted *a = tcp_of(ep)->adopted;
    ssize_t total = 0;

    for (int i = 0; i < n && a->early_taken < a->early_len; i++) {
        size_t left = a->early_len - a->early_taken;
        size_t take = iov[i].iov_len < left ? iov[i].iov_len : left;
        if (iwarp_guard_copy_to(iov[i].iov_base, a->early + a->early_taken, take) != 0) {
            return total > 0 ? total : -EFAULT;
        }
        a->early_taken += take;
        total += (ssize_t)take;
    }
    if (a->early_taken == a->early_len) {
        free(a->early);
        a->early = NULL;
        ep->ops = &tcp_transport;
    }
    return total;
}

static void early_poll(struct iwarp_endpoint *ep)
{
    struct tcp *t = tcp_of(ep);

    if (ep->ops == &tcp_early_transport && (t->events & UV_READABLE)) {
        ep->ready(ep->user, true, false);
    }
}

static const struct iwarp_transport tcp_early_transport = {
    "tcp", early_readv, tcp_writev, tcp_watch, tcp_shutdown_write, tcp_close, tcp_emss, early_poll};

int iwarp_tcp_adopt(uv_loop_t *loop, int fd, const void *early, size_t early_len,
                    iwarp_wake_fn wake, void *user, struct iwarp_tcp_options *options,
                    struct iwarp_endpoint **ep)
{
    struct tcp *t = NULL;
    struct adopted *a = calloc(1, sizeof *a);

    if (a && early_len > 0) {
        a->early = malloc(early_len);
    }
    if (!a || (early_len > 0 && !a->early)) {
        free(a);
        return -ENOMEM;
    }
    iwarp_tcp_options_keep(options, fd);
    int rc = wrap(loop, fd, &t);
    if (rc < 0) {
        iwarp_tcp_options_restore(options, fd);
        free(a->early);
        free(a);
        return rc;
    }
    a->wake = wake;
    a->wake_user = user;
    a->options = options;
    t->adopted = a;
    if (early_len > 0) {
        memcpy(a->early, early, early_len);
        a->early_len = early_len;
        t->ep.ops = &tcp_early_transport;
    }
    *ep = &t->ep;
    return 0;
}

/* The socket leaves the endpoint open and as it was. Early octets that nobody took go to the
 * caller; those that were taken, the caller has. */
int iwarp_tcp_release(struct iwarp_endpoint *ep, uint8_t **early, size_t *early_len)
{
    struct tcp *t = tcp_of(ep);
    struct adopted *a = t->adopted;
    int fd = t->fd;

    *early_len = a->early_len - a->early_taken;
    if (a->early && a->early_taken > 0) {
        memmove(a->early, a->early + a->early_taken, *early_len);
    }
    *early = a->early;
    a->early = NULL;
    t->fd = -1;
    uv_poll_stop(&t->poll);
    uv_close((uv_handle_t *)&t->poll, on_closed);
    iwarp_process_remove_fd(fd);
    a->options->fd = -1;
    iwarp_tcp_options_restore(a->options, fd);
    return fd;
}

/* --- connecting and listening ---------------------------------------------------------------- */

/* Several sockets may share a source address and port as long as their peers differ. Hence
 * IP_BIND_ADDRESS_NO_PORT: the kernel chooses the port in connect, when it knows the peer. */
static int bind_source(int fd, const struct sockaddr *source, socklen_t source_len)
{
    const int on = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    return bind(fd, source, source_len);
}

/*
 * tcp(7): with a user timeout, keepalive probes go on until that much time has passed without any
 * answer. Without one, the connection is given up after `probes` unanswered probes. While the
 * window is full Linux counts from its first probe until the window is open for all of the segment
 * that waits: it may end a peer that takes a little now and then before `pace` does
 * (verbs/conn_timer.c).
 */
void iwarp_tcp_patience(struct iwarp_endpoint *ep, unsigned user_timeout_ms, unsigned keepalive_s)
{
    const int on = keepalive_s > 0, idle = (int)keepalive_s, probes = 4;
    const int interval = idle / probes > 0 ? idle / probes : 1;

    if (!iwarp_tcp_is(ep)) {
        return;
    }
    int fd = tcp_of(ep)->fd;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    if (on) {
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    }
}

bool iwarp_tcp_taken(struct iwarp_endpoint *ep, uint64_t *octets)
{
    return iwarp_tcp_is(ep) && iwarp_tcp_acked(tcp_of(ep)->fd, octets);
}

/* The network may ignore the traffic class, so it is no error if the system does. On IPv6 sockets
 * both are set: such a socket may carry IPv4. */
static void set_traffic_class(int fd, int family, int class)
{
    setsockopt(fd, IPPROTO_IP, IP_TOS, &class, sizeof class);
    if (family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &class, sizeof class);
    }
}

int iwarp_tcp_connect(const struct sockaddr *addr, socklen_t addr_len,
                      const struct sockaddr *source, socklen_t source_len, int traffic_class)
{
    int fd = iwarp_process_socket(addr->sa_family);

    if (fd < 0) {
        return -errno;
    }
    if (traffic_class >= 0) {
        set_traffic_class(fd, addr->sa_family, traffic_class);
    }
    if ((source_len > 0 && bind_source(fd, source, source_len) != 0) ||
        (connect(fd, addr, addr_len) != 0 && errno != EINPROGRESS && errno != EINTR)) {
        iwarp_process_close(fd);
        return -errno;
    }
    return fd;
}

int iwarp_tcp_error(struct iwarp_endpoint *ep)
{
    int error = 0;
    socklen_t len = sizeof error;

    if (getsockopt(tcp_of(ep)->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
        return errno;
    }
    return error;
}

void iwarp_tcp_local_addr(struct iwarp_endpoint *ep, struct sockaddr_storage *addr,
                          socklen_t *addr_len)
{
    *addr_len = sizeof *addr;
    if (getsockname(tcp_of(ep)->fd, (struct sockaddr *)addr, addr_len) != 0) {
        *addr_len = 0;
    }
}

void iwarp_tcp_peer_addr(struct iwarp_endpoint *ep, struct sockaddr_storage *addr,
                         socklen_t *addr_len)
{
    *addr_len = sizeof *addr;
    if (getpeername(tcp_of(ep)->fd, (struct sockaddr *)addr, addr_len) != 0) {
        *addr_len = 0;
    }
}

int iwarp_tcp_listen(const struct sockaddr *addr, socklen_t addr_len, int backlog)
{
    const int on = 1;
    int fd = iwarp_process_socket(addr->sa_family);

    if (fd < 0) {
        return -errno;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, addr, addr_len) != 0 || listen(fd, backlog) != 0) {
        iwarp_process_close(fd);
        return -errno;
    }
    return fd;
}
