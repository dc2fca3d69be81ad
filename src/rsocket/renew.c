/* SPDX-License-Identifier: BSD-2-Clause */
/* Another TCP socket in the place of a number, or beside it, with the options of the program. */
#include "base/process.h"
#include "rsocket/rs.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#define LONGEST 16 /* octets of a name of an interface, or of a congestion control */

_Static_assert(sizeof(struct timeval) <= LONGEST && sizeof(struct linger) <= LONGEST,
               "every option has room");

struct option {
    int level, name;
    socklen_t len;
};

/* IP_TOS sets the priority, too, so that comes behind it. */
static const struct option copied[] = {
    {SOL_SOCKET, SO_KEEPALIVE, sizeof(int)},
    {SOL_SOCKET, SO_REUSEADDR, sizeof(int)},
    {SOL_SOCKET, SO_REUSEPORT, sizeof(int)},
    {SOL_SOCKET, SO_OOBINLINE, sizeof(int)},
    {SOL_SOCKET, SO_DONTROUTE, sizeof(int)},
    {SOL_SOCKET, SO_RCVLOWAT, sizeof(int)},
    {SOL_SOCKET, SO_LINGER, sizeof(struct linger)},
    {SOL_SOCKET, SO_RCVTIMEO, sizeof(struct timeval)},
    {SOL_SOCKET, SO_SNDTIMEO, sizeof(struct timeval)},
    {SOL_SOCKET, SO_BINDTODEVICE, LONGEST},
    {SOL_SOCKET, SO_MARK, sizeof(int)},
    {SOL_SOCKET, SO_BUSY_POLL, sizeof(int)},
    {SOL_SOCKET, SO_MAX_PACING_RATE, sizeof(uint64_t)},
    {IPPROTO_IP, IP_TOS, sizeof(int)},
    {IPPROTO_IP, IP_TTL, sizeof(int)},
    {IPPROTO_IP, IP_MTU_DISCOVER, sizeof(int)},
    {IPPROTO_IP, IP_MINTTL, sizeof(int)},
    {IPPROTO_IP, IP_FREEBIND, sizeof(int)},
    {IPPROTO_IP, IP_TRANSPARENT, sizeof(int)},
    {IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, sizeof(int)},
    {IPPROTO_IPV6, IPV6_V6ONLY, sizeof(int)},
    {IPPROTO_IPV6, IPV6_TCLASS, sizeof(int)},
    {IPPROTO_IPV6, IPV6_UNICAST_HOPS, sizeof(int)},
    {IPPROTO_IPV6, IPV6_MTU_DISCOVER, sizeof(int)},
    {IPPROTO_IPV6, IPV6_FREEBIND, sizeof(int)},
    {IPPROTO_IPV6, IPV6_TRANSPARENT, sizeof(int)},
    {SOL_SOCKET, SO_PRIORITY, sizeof(int)},
    {IPPROTO_TCP, TCP_NODELAY, sizeof(int)},
    {IPPROTO_TCP, TCP_CORK, sizeof(int)},
    {IPPROTO_TCP, TCP_KEEPIDLE, sizeof(int)},
    {IPPROTO_TCP, TCP_KEEPINTVL, sizeof(int)},
    {IPPROTO_TCP, TCP_KEEPCNT, sizeof(int)},
    {IPPROTO_TCP, TCP_USER_TIMEOUT, sizeof(int)},
    {IPPROTO_TCP, TCP_SYNCNT, sizeof(int)},
    {IPPROTO_TCP, TCP_MAXSEG, sizeof(int)},
    {IPPROTO_TCP, TCP_WINDOW_CLAMP, sizeof(int)},
    {IPPROTO_TCP, TCP_LINGER2, sizeof(int)},
    {IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, sizeof(int)},
    {IPPROTO_TCP, TCP_NOTSENT_LOWAT, sizeof(int)},
    {IPPROTO_TCP, TCP_CONGESTION, LONGEST},
};

void rs_copy_options(struct rs *from, int to)
{
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
        char value[LONGEST] = "";
        socklen_t len = copied[i].len;
        if (rs_get_option(from, copied[i].level, copied[i].name, value, &len) == 0) {
            (void)setsockopt(to, copied[i].level, copied[i].name, value, len);
        }
    }
}

/* Before Linux 5.14 nothing tells. */
bool rs_has_set_length(struct rs *s, int lock)
{
#ifdef SO_BUF_LOCK
    int locks = 0;
    socklen_t len = sizeof locks;

    return rs_get_option(s, SOL_SOCKET, SO_BUF_LOCK, &locks, &len) == 0 && (locks & lock);
#else
    (void)s;
    (void)lock;
    return false;
#endif
}

/* The kernel tells twice what was set. */
static void copy_length(struct rs *from, int to, int name, int lock)
{
    int octets = 0;
    socklen_t len = sizeof octets;

    if (rs_has_set_length(from, lock) &&
        rs_get_option(from, SOL_SOCKET, name, &octets, &len) == 0) {
        octets /= 2;
        (void)setsockopt(to, SOL_SOCKET, name, &octets, sizeof octets);
    }
}

int rs_renew(struct rs *s)
{
    IWARP_UNCANCELLED;
    const int nonblocking = s->nonblocking ? SOCK_NONBLOCK : 0;
    int fresh = socket(s->family, SOCK_STREAM | SOCK_CLOEXEC | nonblocking, 0);
    int flags = fcntl(s->fd, F_GETFD), result;

    if (fresh < 0) {
        return -1;
    }
    rs_copy_options(s, fresh);
    copy_length(s, fresh, SO_SNDBUF, RS_SEND_LENGTH_SET);
    copy_length(s, fresh, SO_RCVBUF, RS_RECEIVE_LENGTH_SET);
    result = dup3(fresh, s->fd, flags & FD_CLOEXEC ? O_CLOEXEC : 0);
    close(fresh);
    return result < 0 ? -1 : 0;
}
