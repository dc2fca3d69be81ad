/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs of 32-bit machines with 64-bit times (_TIME_BITS=64): the C library has other names for
 * all calls that such a time may be in. Here, and behind the plain names, times have 32 bits. They
 * are lengths of waits, and one that is longer than 68 years ends after these.
 */
#include "preload/passing.h"
#include "preload/sock.h"

#if __TIMESIZE == 32
#include <errno.h>
#include <stdarg.h>

struct timespec64 {
    int64_t tv_sec;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    int32_t unused;
#endif
    int32_t tv_nsec;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    int32_t unused;
#endif
};

struct timeval64 {
    int64_t tv_sec, tv_usec;
};

/* What is no time stays none. */
static time_t seconds(int64_t s)
{
    return s < 0 ? -1 : s > INT32_MAX ? INT32_MAX : (time_t)s;
}

static const struct timespec *narrow(const struct timespec64 *t, struct timespec *to)
{
    if (!t) {
        return NULL;
    }
    *to = (struct timespec){seconds(t->tv_sec), t->tv_nsec};
    return to;
}

/* --- waiting --------------------------------------------------------------------------------- */

int __ppoll64(struct pollfd *fds, nfds_t n, const struct timespec64 *timeout,
              const sigset_t *signals);
int __ppoll64_chk(struct pollfd *fds, nfds_t n, const struct timespec64 *timeout,
                  const sigset_t *signals, size_t room);
int __pselect64(int n, fd_set *readable, fd_set *writable, fd_set *urgent,
                const struct timespec64 *timeout, const sigset_t *signals);
int __select64(int n, fd_set *readable, fd_set *writable, fd_set *urgent,
               struct timeval64 *timeout);
int __epoll_pwait2_time64(int epoll, struct epoll_event *events, int most,
                          const struct timespec64 *timeout, const sigset_t *signals);
_Noreturn void __chk_fail(void);

EXPORT int __ppoll64(struct pollfd *fds, nfds_t n, const struct timespec64 *timeout,
                     const sigset_t *signals)
{
    struct timespec t;

    return ppoll(fds, n, narrow(timeout, &t), signals);
}

EXPORT int __ppoll64_chk(struct pollfd *fds, nfds_t n, const struct timespec64 *timeout,
                         const sigset_t *signals, size_t room)
{
    return n <= room / sizeof *fds ? __ppoll64(fds, n, timeout, signals) : (__chk_fail(), -1);
}

EXPORT int __pselect64(int n, fd_set *readable, fd_set *writable, fd_set *urgent,
                       const struct timespec64 *timeout, const sigset_t *signals)
{
    struct timespec t;

    return pselect(n, readable, writable, urgent, narrow(timeout, &t), signals);
}

EXPORT int __epoll_pwait2_time64(int epoll, struct epoll_event *events, int most,
                                 const struct timespec64 *timeout, const sigset_t *signals)
{
    struct timespec t;

    return epoll_pwait2(epoll, events, most, narrow(timeout, &t), signals);
}

/* What is left of the time comes out, as of the plain name. */
EXPORT int __select64(int n, fd_set *readable, fd_set *writable, fd_set *urgent,
                      struct timeval64 *timeout)
{
    if (!timeout) {
        return select(n, readable, writable, urgent, NULL);
    }
    if (timeout->tv_sec < 0 || timeout->tv_usec < 0) {
        errno = EINVAL;
        return -1;
    }
    const int64_t more = timeout->tv_usec / 1000000;
    const int64_t all = timeout->tv_sec > INT64_MAX - more ? INT64_MAX : timeout->tv_sec + more;
    struct timeval t = {seconds(all), (suseconds_t)(timeout->tv_usec % 1000000)};
    const int64_t beyond = all - t.tv_sec;
    const int result = select(n, readable, writable, urgent, &t);
    *timeout = (struct timeval64){t.tv_sec + beyond, t.tv_usec};
    return result;
}

/* --- messages -------------------------------------------------------------------------------- */

/* Other sockets tell by them when a message came: the C library's function writes these times. */
EXPORT ssize_t __recvmsg64(int fd, struct msghdr *message, int flags)
{
    struct sock *s = sock_get(fd);

    if (!s) {
        const ssize_t n = real()->__recvmsg64(fd, message, flags);
        passing_in(n, message);
        return n;
    }
    sock_put(s);
    return recvmsg(fd, message, flags);
}

EXPORT int __recvmmsg64(int fd, struct mmsghdr *messages, unsigned count, int flags,
                        struct timespec64 *timeout)
{
    struct sock *s = sock_get(fd);

    if (!s) {
        const int n = real()->__recvmmsg64(fd, messages, count, flags, timeout);
        passing_all_in(n, messages);
        return n;
    }
    sock_put(s);
    return recvmmsg(fd, messages, count, flags, NULL);
}

ssize_t __sendmsg64(int fd, const struct msghdr *message, int flags);
int __sendmmsg64(int fd, struct mmsghdr *messages, unsigned count, int flags);

EXPORT ssize_t __sendmsg64(int fd, const struct msghdr *message, int flags)
{
    return sendmsg(fd, message, flags);
}

EXPORT int __sendmmsg64(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    return sendmmsg(fd, messages, count, flags);
}

/* --- options: the number of an option says how long its time is --------------------------------
 */

int __setsockopt64(int fd, int level, int name, const void *value, socklen_t len);
int __getsockopt64(int fd, int level, int name, void *value, socklen_t *len);
int __fcntl_time64(int fd, int command, ...);
int __ioctl_time64(int fd, unsigned long request, ...);

EXPORT int __setsockopt64(int fd, int level, int name, const void *value, socklen_t len)
{
    return setsockopt(fd, level, name, value, len);
}

EXPORT int __getsockopt64(int fd, int level, int name, void *value, socklen_t *len)
{
    return getsockopt(fd, level, name, value, len);
}

EXPORT int __fcntl_time64(int fd, int command, ...)
{
    va_list arguments;

    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return fcntl64(fd, command, argument);
}

EXPORT int __ioctl_time64(int fd, unsigned long request, ...)
{
    va_list arguments;

    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return ioctl(fd, request, argument);
}
#endif
