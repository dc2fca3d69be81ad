/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poll, select and epoll: the kernel's. All that is done here is to give each socket, before
 * anything waits for it, the face that shows what it is ready for.
 */
#include "preload/start.h"

#include <errno.h>

/* A socket that fails here is shown as it is: the call that comes next says what is wrong. */
static void prepare(int number)
{
    struct sock *s = sock_get(number);

    if (s) {
        (void)start_use(s, number, USE_WAIT, false);
        sock_put(s);
    }
}

static void prepare_all(const struct pollfd *fds, nfds_t n)
{
    const int error = errno;

    for (nfds_t i = 0; i < n; i++) {
        prepare(fds[i].fd);
    }
    errno = error;
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout)
{
    prepare_all(fds, n);
    return real()->poll(fds, n, timeout);
}

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                 const sigset_t *signals)
{
    prepare_all(fds, n);
    return real()->ppoll(fds, n, timeout, signals);
}

static void prepare_sets(int n, const fd_set *readable, const fd_set *writable)
{
    const int error = errno;

    for (int i = 0; i < n && i < FD_SETSIZE; i++) {
        if ((readable && FD_ISSET(i, readable)) || (writable && FD_ISSET(i, writable))) {
            prepare(i);
        }
    }
    errno = error;
}

EXPORT int select(int n, fd_set *restrict readable, fd_set *restrict writable,
                  fd_set *restrict urgent, struct timeval *restrict timeout)
{
    prepare_sets(n, readable, writable);
    return real()->select(n, readable, writable, urgent, timeout);
}

EXPORT int pselect(int n, fd_set *restrict readable, fd_set *restrict writable,
                   fd_set *restrict urgent, const struct timespec *restrict timeout,
                   const sigset_t *restrict signals)
{
    prepare_sets(n, readable, writable);
    return real()->pselect(n, readable, writable, urgent, timeout, signals);
}

EXPORT int epoll_ctl(int epoll, int op, int number, struct epoll_event *event)
{
    struct sock *s = sock_get(number);

    if (!s) {
        return real()->epoll_ctl(epoll, op, number, event);
    }
    if (op != EPOLL_CTL_DEL) {
        (void)start_use(s, number, USE_WAIT, false);
    }
    const int result = s->state == SOCK_PLAIN ? real()->epoll_ctl(epoll, op, number, event)
                                              : sock_watch(s, epoll, op, number, event);
    sock_put(s);
    return result;
}

int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                const sigset_t *signals, size_t room);
_Noreturn void __chk_fail(void);

EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room)
{
    return n <= room / sizeof *fds ? poll(fds, n, timeout) : (__chk_fail(), -1);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                       const sigset_t *signals, size_t room)
{
    return n <= room / sizeof *fds ? ppoll(fds, n, timeout, signals) : (__chk_fail(), -1);
}
