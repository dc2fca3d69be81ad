/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of the library, and descriptors that it and libuv make for themselves. They get high
 * numbers, since programs count on low ones: wrk has a table for three times its connections and
 * ten more, and select knows 1,024.
 */
#include "preload/own.h"

#include "preload/sock.h"

#include <signal.h>

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

int own_thread(void *(*run)(void *arg), void *arg)
{
    pthread_t thread;
    sigset_t every, before;

    /* But faults, or the thread could not run the loop for what it asks of it. */
    sigfillset(&every);
    sigdelset(&every, SIGSEGV);
    sigdelset(&every, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    const int error = pthread_create(&thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        pthread_detach(thread);
    }
    return error;
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
