/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets come, listen, connect, and go.
 */
#include "rsocket/rs.h"

#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int rsocket(int domain, int type, int protocol)
{
    int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC), fd;
    struct rs *s;

    if (domain != AF_INET && domain != AF_INET6) {
        return RS_REFUSE(EAFNOSUPPORT, "rsocket: domain %d; there are AF_INET and AF_INET6",
                         domain);
    }
    if (kind == SOCK_DGRAM) {
        return RS_REFUSE(EPROTONOSUPPORT,
                         "rsocket: datagram sockets need UD and a UDP service, which "
                         "iWARP has not; use UDP itself, or SOCK_STREAM");
    }
    if (kind != SOCK_STREAM || (protocol != 0 && protocol != IPPROTO_TCP)) {
        return RS_REFUSE(EPROTONOSUPPORT, "rsocket: type %d, protocol %d; there is SOCK_STREAM",
                         kind, protocol);
    }
    fd = socket(domain, type, protocol);
    if (fd < 0) {
        return -1;
    }
    s = rs_new(fd, domain, NULL);
    if (!s) {
        close(fd);
        return -1;
    }
    s->nonblocking = (type & SOCK_NONBLOCK) != 0;
    rs_give_back(s);
    return fd;
}

int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
    struct rs *s = rs_take(socket);
    int result;

    if (!s) {
        return -1;
    }
    result = bind(socket, addr, addrlen);
    rs_give_back(s);
    return result;
}

static bool is_bound(int fd, struct sockaddr_storage *addr, socklen_t *len)
{
    *len = sizeof *addr;
    return getsockname(fd, (struct sockaddr *)addr, len) == 0 &&
           ((struct sockaddr_in *)addr)->sin_port != 0; /* at the same place for both families */
}

/* --- listening ------------------------------------------------------------------------------- */

static enum iwarp_status listen_at(struct rs *s, int backlog, struct iwarp_eq *eq)
{
    struct iwarp_device *device = iwarp_compat_device();
    struct iwarp_conn_options options;
    struct sockaddr_storage addr = {0};
    socklen_t len;
    enum iwarp_status status;
    int fd;

    rs_options(&options);
    if (!is_bound(s->fd, &addr, &len)) {
        addr.ss_family = (sa_family_t)s->family;
        len = s->family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
        if (bind(s->fd, (struct sockaddr *)&addr, len) != 0) {
            return IWARP_TRANSPORT;
        }
        (void)is_bound(s->fd, &addr, &len);
    }
    if (iwarp_compat_tcp_is_foreign(device)) {
        return rs_renew(s) != 0 ? IWARP_LIMIT
                                : iwarp_listen(device, (struct sockaddr *)&addr, len, &options,
                                               backlog, eq, s, &s->listener);
    }
    fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return IWARP_LIMIT;
    }
    status = iwarp_listen_socket(device, fd, &options, backlog, eq, s, &s->listener);
    if (status != IWARP_OK) {
        close(fd);
    }
    return status;
}

int rlisten(int socket, int backlog)
{
    IWARP_UNCANCELLED;
    struct rs *s = rs_take(socket);
    struct iwarp_eq *eq;
    int result = -1;

    if (!s) {
        return -1;
    }
    backlog = backlog < 1 ? 1 : backlog;
    eq = rs_engine_eq();
    if (s->state == RS_LISTENING) {
        result = 0;
    } else if (s->state != RS_OPEN) {
        errno = EINVAL;
    } else if (eq) {
        enum iwarp_status status;
        errno = 0;
        status = listen_at(s, backlog, eq);
        if (status == IWARP_OK) {
            s->state = RS_LISTENING;
            result = 0;
        } else if (errno == 0) {
            (void)iwarp_compat_failed("rsocket", status, "rlisten");
        }
    }
    rs_give_back(s);
    return result;
}

static bool has_request(struct rs *s)
{
    return s->requests || s->state != RS_LISTENING;
}

/* What raccept returns, before it has a connection: with its lock held. NULL: errno. */
static struct rs *new_like(struct rs *listener)
{
    int fd = socket(listener->family, SOCK_STREAM, 0), error;
    struct rs *s = fd >= 0 ? rs_new(fd, listener->family, listener) : NULL;

    if (s) {
        rs_copy_options(listener, fd);
        if (rs_prepare(s) == 0) {
            return s;
        }
        error = errno;
        rs_end(s, false);
        errno = error;
    } else if (fd >= 0) {
        close(fd);
    }
    return NULL;
}

static struct rs_request *next_request(struct rs *listener)
{
    struct rs_request *request = listener->requests;

    listener->requests = request->next;
    if (!listener->requests) {
        listener->last_request = &listener->requests;
    }
    return request;
}

/* The number, or -1: the peer is gone. s is given back. */
static int accept_request(struct rs *s, struct rs_request *request)
{
    uint8_t private_data[RS_PRIVATE_MAX];
    const size_t len = rs_hello(s, false, private_data);
    int fd = s->fd;

    s->conn = request->conn;
    if (iwarp_accept(s->conn, s->qp, NULL, private_data, len, s) == IWARP_OK) {
        rs_connected(s, &request->hello);
        rs_give_back(s);
    } else {
        rs_end(s, false);
        fd = -1;
    }
    free(request);
    return fd;
}

int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    IWARP_UNCANCELLED;
    struct rs *s = rs_take(socket), *fresh;
    uint64_t until;
    int fd = -1;

    if (!s) {
        return -1;
    }
    until = rs_call_until(s, SO_RCVTIMEO, 0);
    while (fd < 0 && rs_wait(s, has_request, until) == 0) {
        if (s->state != RS_LISTENING) {
            errno = EINVAL;
            break;
        }
        fresh = new_like(s);
        if (!fresh) {
            break; /* the request waits for a call that has room */
        }
        fd = accept_request(fresh, next_request(s));
    }
    rs_give_back(s);
    if (fd >= 0 && addr) {
        (void)rgetpeername(fd, addr, addrlen);
    }
    return fd;
}

/* --- connecting ------------------------------------------------------------------------------ */

bool rs_is_settled(struct rs *s)
{
    return s->state != RS_CONNECTING;
}

static int begin_connect(struct rs *s, const struct sockaddr *addr, socklen_t len)
{
    struct iwarp_conn_options options;
    struct iwarp_eq *eq = rs_engine_eq();
    uint8_t private_data[RS_PRIVATE_MAX];
    struct sockaddr_storage from;
    socklen_t from_len;
    enum iwarp_status status;

    if (s->state == RS_OVER) {
        rs_hide(s);      /* the face is hung up for ever */
        rs_unprepare(s); /* an attempt that failed */
        s->state = RS_OPEN;
    }
    if (!eq || rs_prepare(s) != 0) {
        return -1;
    }
    rs_options(&options);
    if (is_bound(s->fd, &from, &from_len)) {
        if (rs_renew(s) != 0) { /* which gives the port free */
            rs_unprepare(s);
            return -1;
        }
        s->bound = from;
        s->bound_len = from_len;
    }
    if (s->bound_len > 0) {
        options.source = (struct sockaddr *)&s->bound;
        options.source_len = s->bound_len;
    }
    s->state = RS_CONNECTING;
    status = iwarp_connect(s->qp, addr, len, &options, private_data,
                           rs_hello(s, false, private_data), eq, s, &s->conn);
    if (status != IWARP_OK) {
        s->state = RS_OPEN;
        (void)iwarp_compat_failed("rsocket", status, "rconnect");
        rs_unprepare(s);
        return -1;
    }
    return 0;
}

int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
    IWARP_UNCANCELLED;
    struct rs *s = rs_take(socket);
    int result = -1;

    if (!s) {
        return -1;
    }
    if (s->state == RS_CONNECTING) {
        errno = EALREADY;
    } else if (s->state == RS_CONNECTED || (s->state == RS_OVER && !s->start_up)) {
        errno = EISCONN;
    } else if (s->state == RS_LISTENING) {
        errno = EINVAL;
    } else if (!addr || (addr->sa_family != AF_INET && addr->sa_family != AF_INET6)) {
        errno = EAFNOSUPPORT;
    } else if (begin_connect(s, addr, addrlen) == 0) {
        if (rs_wait(s, rs_is_settled, rs_call_until(s, SO_SNDTIMEO, 0)) != 0) {
            errno = errno == EAGAIN ? EINPROGRESS : errno;
        } else if (s->state == RS_CONNECTED || !s->start_up) {
            result = 0;
        } else {
            errno = s->start_up;
            s->error = 0;
        }
    }
    rs_give_back(s);
    return result;
}

/* --- going ----------------------------------------------------------------------------------- */

int rshutdown(int socket, int how)
{
    struct rs *s = rs_take(socket);
    int result = 0;

    if (!s) {
        return -1;
    }
    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) {
        result = rs_fail(EINVAL);
    } else if (s->state != RS_CONNECTED && s->state != RS_OVER) {
        result = rs_fail(ENOTCONN);
    } else {
        s->read_over = s->read_over || how != SHUT_WR;
        if (how != SHUT_RD && !s->write_over) {
            s->write_over = true;
            rs_tell_end(s);
        }
        rs_progress(s);
        rs_wake(s);
    }
    rs_give_back(s);
    return result;
}

static void stop_listening(struct rs *s)
{
    struct rs_request *next;

    if (!s->listener) {
        return;
    }
    iwarp_listener_close(s->listener);
    s->listener = NULL;
    for (struct rs_request *r = s->requests; r; r = next) {
        next = r->next;
        iwarp_conn_destroy(r->conn);
        free(r);
    }
    s->requests = NULL;
    s->last_request = &s->requests;
}

/* SO_LINGER with 0 seconds. */
static bool resets(struct rs *s)
{
    struct linger linger = {0};
    socklen_t len = sizeof linger;

    (void)rs_get_option(s, SOL_SOCKET, SO_LINGER, &linger, &len);
    return linger.l_onoff && linger.l_linger == 0;
}

/* The connection ends without the lock: that waits for the loop, whose thread may want the lock to
 * show a socket that has just connected (preload/connect.c). */
void rs_end(struct rs *s, bool keep_number)
{
    IWARP_UNCANCELLED;
    int fd = s->fd;

    if (!rs_drop(s)) {
        rs_give_back(s);
        return;
    }
    const bool reset = resets(s);
    rs_progress(s);
    stop_listening(s);
    s->to_reset = s->as_tcp && s->unread > 0;
    if (s->to_reset) {
        rs_drop_kept(s);
    }
    if (s->conn && !reset && !s->to_reset) {
        s->read_over = true;
        rs_tell_end(s);
        s->to_end = s->kept > 0 || (s->as_tcp && s->send_free < s->send_len);
    }
    s->free_then = s->send_free;
    s->closed = true;
    rs_hide(s);
    rs_wake(s);
    struct iwarp_conn *conn = s->conn;
    const bool is_later = s->to_end || s->to_reset; /* the engine ends it */
    const uint64_t until_ms = rs_engine_until(s);
    rs_unlock(s);
    if (conn && reset) {
        iwarp_abort(conn);
    } else if (conn && !is_later) {
        iwarp_disconnect(conn);
    }
    rs_done(s);
    if (!keep_number) {
        close(fd);
    }
    rs_engine_bury(s, until_ms, is_later);
}

int rclose(int socket)
{
    struct rs *s;

    if (rs_is_of_parent(socket)) {
        rs_forget_of_parent(socket);
        return close(socket);
    }
    s = rs_take(socket);
    if (!s) {
        return -1;
    }
    rs_end(s, false);
    return 0;
}
