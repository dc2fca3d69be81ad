/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP connections that become rsockets. */
#include "rspreload/adopt.h"

#include "rsocket/rs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

/*
 * Behind the private data of a Request. A plain server that reads lines waits for the end of one,
 * and the client would wait for it: now such a server answers at once, with an error of its
 * protocol. A server of ours does not look at it.
 */
static const uint8_t blank_line[] = {'\r', '\n', '\r', '\n'};

/* TCP's own patience, as far as the program has not chosen: its connections outlive an outage. A
 * peer that has gone is found all the same, if late. */
#define KEEPALIVE_S 600

/* 0 or what the program has chosen. */
static unsigned chosen(int tcp, int level, int name)
{
    int value = 0;
    socklen_t len = sizeof value;

    (void)getsockopt(tcp, level, name, &value, &len);
    return value > 0 ? (unsigned)value : 0;
}

static unsigned keepalive(int tcp)
{
    const unsigned s =
        chosen(tcp, SOL_SOCKET, SO_KEEPALIVE) ? chosen(tcp, IPPROTO_TCP, TCP_KEEPIDLE) : 0;

    return s > 0 && s < KEEPALIVE_S ? s : KEEPALIVE_S;
}

/* The interval and the number of probes stay the program's: the library has replaced them. The lock
 * is held. */
static void keep_probes(struct rs *s)
{
    static const int names[] = {TCP_KEEPINTVL, TCP_KEEPCNT};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int value;
        socklen_t len = sizeof value;
        if (iwarp_compat_getsockopt(s->conn, IPPROTO_TCP, names[i], &value, &len) == 0) {
            (void)iwarp_compat_setsockopt(s->conn, IPPROTO_TCP, names[i], &value, len);
        }
    }
}

static bool is_reset(int tcp)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;

    return getpeername(tcp, (struct sockaddr *)&peer, &len) != 0 && errno == ENOTCONN;
}

static int adopt(struct rs *s, int tcp, enum iwarp_rs_role role, const void *received,
                 size_t received_len, unsigned timeout_ms)
{
    struct iwarp_eq *eq = rs_engine_eq();
    struct iwarp_conn_options options;
    uint8_t private_data[RS_PRIVATE_MAX + sizeof blank_line];
    enum iwarp_status status;

    if (!eq || rs_prepare(s) != 0) {
        return -1;
    }
    rs_options(&options);
    options.user_timeout_ms = chosen(tcp, IPPROTO_TCP, TCP_USER_TIMEOUT);
    options.keepalive_s = keepalive(tcp);
    if (timeout_ms > 0) {
        options.startup_timeout_ms = timeout_ms;
    }
    const size_t hello_len = rs_hello(s, true, private_data);
    memcpy(private_data + hello_len, blank_line, sizeof blank_line);
    s->state = RS_CONNECTING;
    /* Without the lock, so that the thread that takes the connection's event has it. No other knows
     * the socket but one that ends the process, and that leaves it alone. */
    s->adopting = true;
    rs_unlock(s);
    status = role == IWARP_RS_CLIENT
                 ? iwarp_connect_socket(s->qp, tcp, received, received_len, &options, private_data,
                                        hello_len + sizeof blank_line, eq, s, &s->conn)
                 : iwarp_accept_socket(iwarp_compat_device(), tcp, received, received_len, &options,
                                       eq, s, &s->conn);
    pthread_mutex_lock(&s->lock);
    s->adopting = false;
    if (status == IWARP_OK) {
        if (options.keepalive_s < KEEPALIVE_S) {
            keep_probes(s);
        }
        return 0;
    }
    s->state = RS_OPEN;
    if (!is_reset(tcp)) { /* else errno says so, and the peer may do it to any program */
        (void)iwarp_compat_failed("rsocket", status, "adopting a connection");
    }
    rs_unprepare(s);
    return -1;
}

int iwarp_rs_adopt(int fd, enum iwarp_rs_role role, const void *received, size_t received_len,
                   unsigned timeout_ms)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    int type = 0, tcp, flags, error;
    struct rs *s;

    if (getpeername(fd, (struct sockaddr *)&peer, &len) != 0) {
        return -1;
    }
    len = sizeof type;
    if ((peer.ss_family != AF_INET && peer.ss_family != AF_INET6) ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_STREAM) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (iwarp_rs_is(fd)) {
        errno = EEXIST;
        return -1;
    }
    flags = fcntl(fd, F_GETFL);
    tcp = fcntl(fd, F_DUPFD_CLOEXEC, fd); /* none of the numbers that programs count on */
    if (tcp < 0 || !(s = rs_new(fd, peer.ss_family, NULL))) {
        error = errno;
        if (tcp >= 0) {
            close(tcp);
        }
        errno = error;
        return -1;
    }
    s->nonblocking = (flags & O_NONBLOCK) != 0;
    s->as_tcp = true;
    s->receive_fixed = rs_has_set_length(s, RS_RECEIVE_LENGTH_SET);
    if (adopt(s, tcp, role, received, received_len, timeout_ms) == 0) {
        if (role == IWARP_RS_SERVER) {
            (void)rs_stand_in(s);
        }
        rs_give_back(s);
        return 0;
    }
    error = errno;
    rs_end(s, true);
    close(tcp);
    errno = error;
    return -1;
}

int iwarp_rs_start_up(int fd, int timeout_ms)
{
    uint64_t until = rs_until(timeout_ms);
    int error = errno, result;
    struct rs *s = rs_take(fd);

    if (!s) {
        errno = error;
        return EBADF;
    }
    do {
        result = rs_wait(s, rs_is_settled, until);
    } while (result != 0 && errno == EINTR && rs_now_ms() < until);
    if (s->state == RS_OPEN || s->state == RS_LISTENING) {
        result = ENOTCONN;
    } else if (result == 0 || rs_is_settled(s)) {
        result = s->start_up;
    } else {
        result = errno == EAGAIN ? EINPROGRESS : errno;
    }
    rs_give_back(s);
    errno = error;
    return result;
}

bool iwarp_rs_start_by(int fd, void (*call)(void *user), void *user)
{
    struct rs *s = rs_take(fd);
    const bool is_starting = s && s->state == RS_CONNECTING;

    if (is_starting) {
        s->on_start = call;
        s->start_user = user;
    }
    if (s) {
        rs_give_back(s);
    }
    return is_starting;
}

bool iwarp_rs_is(int fd)
{
    int error = errno;
    struct rs *s = rs_take(fd);

    if (s) {
        rs_give_back(s);
    }
    errno = error;
    return s != NULL;
}

int iwarp_rs_octets(int fd, bool to_send)
{
    struct rs *s = rs_take(fd);

    if (!s) {
        return -1;
    }
    if (to_send || s->unread == s->counted) { /* a program may look until there is more */
        rs_progress(s);
    }
    s->counted = s->unread;
    const uint64_t octets = to_send ? s->send_len - s->send_free : s->unread;
    rs_give_back(s);
    return octets < INT_MAX ? (int)octets : INT_MAX;
}

void iwarp_rs_await_kept(void)
{
    rs_await_kept();
}

void iwarp_rs_end(void)
{
    rs_engine_end();
}

int iwarp_rs_forget(int fd)
{
    struct rs *s = rs_take(fd);

    if (!s) {
        return -1;
    }
    (void)shutdown(fd, SHUT_RDWR); /* the peer of a client learns it now */
    const int result = rs_renew(s);
    rs_end(s, true);
    return result;
}

void iwarp_rs_leave(int fd)
{
    struct rs *s = rs_take(fd);

    if (s) {
        rs_end(s, true);
    }
}
