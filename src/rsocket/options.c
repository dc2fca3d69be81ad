/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options, names, flags. Options of TCP and IP are kept by the number itself, which is a TCP
 * socket; if the socket was adopted, by its connection.
 */
#include "rsocket/rs.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/time.h>

#define BUFFER_MIN 4096u
#define BUFFER_MAX (16u << 20)
#define QUEUE_MAX  16384u

static bool has_connection(const struct rs *s)
{
    return s->as_tcp && s->conn;
}

/* The connection answers. ENOTCONN: it is over, and only its TCP socket would know. */
static bool was_answered(int result)
{
    return result == 0 || errno != ENOTCONN;
}

int rs_get_option(struct rs *s, int level, int name, void *value, socklen_t *len)
{
    if (has_connection(s)) {
        const int result = iwarp_compat_getsockopt(s->conn, level, name, value, len);
        if (was_answered(result)) {
            return result;
        }
    }
    return getsockopt(s->fd, level, name, value, len);
}

static int set_option(struct rs *s, int level, int name, const void *value, socklen_t len)
{
    if (has_connection(s)) {
        const int result = iwarp_compat_setsockopt(s->conn, level, name, value, len);
        if (was_answered(result)) {
            return result;
        }
        if (s->state != RS_CONNECTING) {
            return 0; /* other sockets have the number's TCP socket, too (rspreload/stand_in.c) */
        }
    }
    return setsockopt(s->fd, level, name, value, len);
}

uint64_t rs_call_until(struct rs *s, int option, int flags)
{
    struct timeval time = {0};
    socklen_t len = sizeof time;

    if (s->nonblocking || (flags & MSG_DONTWAIT)) {
        return 0;
    }
    if (rs_get_option(s, SOL_SOCKET, option, &time, &len) != 0 ||
        (time.tv_sec == 0 && time.tv_usec == 0) || (uint64_t)time.tv_sec > RS_FOR_EVER / 2000) {
        return RS_FOR_EVER;
    }
    return rs_now_ms() + (uint64_t)time.tv_sec * 1000 + ((uint64_t)time.tv_usec + 999) / 1000;
}

static uint32_t within(int64_t value, uint32_t least, uint32_t most)
{
    return value < least ? least : value > most ? most : (uint32_t)value;
}

/* The sizes that a connection is made with: what of them the option is. NULL: none. */
static uint32_t *size_of(struct rs *s, int level, int name, uint32_t *least, uint32_t *most)
{
    *least = level == SOL_SOCKET ? BUFFER_MIN : 2 * RS_SPARE + 2;
    *most = level == SOL_SOCKET ? BUFFER_MAX : QUEUE_MAX;
    if (level == SOL_SOCKET) {
        return name == SO_SNDBUF ? &s->send_len : name == SO_RCVBUF ? &s->receive_len : NULL;
    }
    switch (level == SOL_RDMA ? name : -1) {
    case RDMA_SQSIZE:
        return &s->sq_size;
    case RDMA_RQSIZE:
        return &s->rq_size;
    case RDMA_IOMAPSIZE:
        *least = 0;
        *most = RS_MAP_MAX;
        return &s->map_size;
    default:
        return NULL;
    }
}

static int set_size(struct rs *s, int level, int name, const void *value, socklen_t len)
{
    uint32_t least, most, *size = size_of(s, level, name, &least, &most);
    int wanted;

    if (len < sizeof wanted) {
        return rs_fail(EINVAL);
    }
    memcpy(&wanted, value, sizeof wanted);
    s->receive_fixed = s->receive_fixed || size == &s->receive_len;
    if (s->state != RS_OPEN && s->state != RS_LISTENING) {
        errno = EINVAL; /* the memory is there already */
        return level == SOL_SOCKET ? 0 : -1;
    }
    *size = within(wanted, least, most);
    if (size == &s->map_size) {
        *size = rs_map_size(*size);
    } else if (size == &s->receive_len || size == &s->send_len) {
        *size = (*size + 63) / 64 * 64;
    }
    return 0;
}

int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
    struct rs *s = rs_take(socket);
    uint32_t least, most;
    int result = 0;

    if (!s) {
        return -1;
    }
    if (size_of(s, level, optname, &least, &most)) {
        result = set_size(s, level, optname, optval, optlen);
    } else if (level == SOL_RDMA) {
        /* What fits is sent inline in any case; iWARP has no path records. */
        if (optname != RDMA_INLINE && optname != RDMA_ROUTE) {
            result = rs_fail(ENOPROTOOPT);
        }
    } else {
        result = set_option(s, level, optname, optval, optlen);
    }
    rs_give_back(s);
    return result;
}

static int give(void *optval, socklen_t *optlen, int value)
{
    if (!optval || !optlen || *optlen < sizeof value) {
        return rs_fail(EINVAL);
    }
    memcpy(optval, &value, sizeof value);
    *optlen = sizeof value;
    return 0;
}

/* The state that TCP would have: it follows from the ends that have sent all. */
static uint8_t tcp_state(const struct rs *s)
{
    if (s->dead || (s->write_over && s->heard_end) ||
        (s->state != RS_CONNECTING && s->state != RS_CONNECTED && !s->heard_end)) {
        return TCP_CLOSE;
    }
    return s->heard_end ? TCP_CLOSE_WAIT : s->write_over ? TCP_FIN_WAIT2 : TCP_ESTABLISHED;
}

/* There are programs that do not answer what they take for closed, and the number's own socket was
 * never connected. The rest is the connection's, if it was adopted. */
static int give_tcp_info(struct rs *s, void *optval, socklen_t *optlen)
{
    const int result = rs_get_option(s, IPPROTO_TCP, TCP_INFO, optval, optlen);

    if (result == 0 && s->conn && *optlen > offsetof(struct tcp_info, tcpi_state)) {
        rs_progress(s);
        ((uint8_t *)optval)[offsetof(struct tcp_info, tcpi_state)] = tcp_state(s);
    }
    return result;
}

int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
    struct rs *s = rs_take(socket);
    uint32_t least, most, *size;
    int result;

    if (!s) {
        return -1;
    }
    size = size_of(s, level, optname, &least, &most);
    if (size) {
        result = give(optval, optlen, (int)*size);
    } else if (level == SOL_SOCKET && optname == SO_ERROR) {
        rs_progress(s);
        result = give(optval, optlen, s->error);
        s->error = result == 0 ? 0 : s->error;
    } else if (level == SOL_RDMA && optname == RDMA_INLINE) {
        result = give(optval, optlen, 64);
    } else if (level == SOL_RDMA) {
        result = rs_fail(optname == RDMA_ROUTE ? ENODATA : ENOPROTOOPT);
    } else if (level == IPPROTO_TCP && optname == TCP_INFO) {
        result = give_tcp_info(s, optval, optlen);
    } else {
        result = rs_get_option(s, level, optname, optval, optlen);
    }
    rs_give_back(s);
    return result;
}

/* --- names ----------------------------------------------------------------------------------- */

static int give_name(const struct sockaddr_storage *from, socklen_t from_len, struct sockaddr *addr,
                     socklen_t *addrlen)
{
    if (!addr || !addrlen) {
        return rs_fail(EFAULT);
    }
    if ((int)*addrlen < 0) {
        return rs_fail(EINVAL);
    }
    memcpy(addr, from, *addrlen < from_len ? *addrlen : from_len);
    *addrlen = from_len;
    return 0;
}

int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    struct rs *s = rs_take(socket);
    struct sockaddr_storage name;
    socklen_t len;
    int result = -1;

    if (!s) {
        return -1;
    }
    if (!s->conn || s->state == RS_CONNECTING || s->start_up ||
        iwarp_conn_peer_addr(s->conn, &name, &len) != IWARP_OK) {
        errno = ENOTCONN;
    } else {
        result = give_name(&name, len, addr, addrlen);
    }
    rs_give_back(s);
    return result;
}

int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    struct rs *s = rs_take(socket);
    struct sockaddr_storage name;
    socklen_t len;
    int result;

    if (!s) {
        return -1;
    }
    if ((s->conn && iwarp_conn_local_addr(s->conn, &name, &len) == IWARP_OK) ||
        (s->listener && iwarp_listener_addr(s->listener, &name, &len) == IWARP_OK)) {
        result = give_name(&name, len, addr, addrlen);
    } else if (s->bound_len > 0) {
        result = give_name(&s->bound, s->bound_len, addr, addrlen);
    } else {
        result = getsockname(socket, addr, addrlen);
    }
    rs_give_back(s);
    return result;
}

/* --- flags ----------------------------------------------------------------------------------- */

int rfcntl(int socket, int cmd, ... /* arg */)
{
    struct rs *s = rs_take(socket);
    va_list args;
    long arg;
    int result;

    va_start(args, cmd);
    arg = va_arg(args, long);
    va_end(args);
    if (!s) {
        return -1;
    }
    switch (cmd) {
    case F_GETFL:
        result = fcntl(socket, F_GETFL);
        result = result < 0 ? result : (result & ~O_NONBLOCK) | (s->nonblocking ? O_NONBLOCK : 0);
        break;
    case F_SETFL:
        s->nonblocking = (arg & O_NONBLOCK) != 0;
        result = 0;
        break;
    case F_GETFD:
    case F_SETFD:
        result = fcntl(socket, cmd, arg);
        break;
    default:
        result = rs_fail(EINVAL); /* another number would be none of an rsocket */
        break;
    }
    rs_give_back(s);
    return result;
}
