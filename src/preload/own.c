/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors that the library and libuv make for themselves. They get high numbers, since programs
 * count on low ones: wrk has a table for three times its connections and ten more, and select knows
 * 1,024.
 */
#include "preload/own.h"

#include "preload/sock.h"

int own_move(int fd)
{
    const int high = sock_high(fd);

    if (high < 0) {
        return fd;
    }
    real()->close(fd);
    return high;
}

int own_number(int fd)
{
    const bool is_own = fd >= 0 && signals_are_held() && (real()->fcntl(fd, F_GETFD) & FD_CLOEXEC);

    return is_own ? own_move(fd) : fd;
}

static int own_pair(int result, int fds[2])
{
    if (result == 0) {
        fds[0] = own_number(fds[0]);
        fds[1] = own_number(fds[1]);
    }
    return result;
}

EXPORT int eventfd(unsigned value, int flags)
{
    return own_number(real()->eventfd(value, flags));
}

EXPORT int timerfd_create(clockid_t clock, int flags)
{
    return own_number(real()->timerfd_create(clock, flags));
}

EXPORT int pipe2(int fds[2], int flags)
{
    return own_pair(real()->pipe2(fds, flags), fds);
}

EXPORT int socketpair(int family, int type, int protocol, int fds[2])
{
    return own_pair(real()->socketpair(family, type, protocol, fds), fds);
}
