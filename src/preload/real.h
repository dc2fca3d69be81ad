/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The C library's own functions, behind those that this library defines under the same names. The
 * first header of each file here: each name here is that name to the linker, also where programs
 * for longer files and times have others (names.c, times.c), and none of them may be an inline
 * function that checks lengths.
 */
#ifndef IWARP_PRELOAD_REAL_H
#define IWARP_PRELOAD_REAL_H

#undef _FILE_OFFSET_BITS
#undef _TIME_BITS
#undef _FORTIFY_SOURCE

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Cancellation is put off to the end of the block, where locks are held, say. */
#define UNCANCELLED                                                                                \
    int cancel_before __attribute__((cleanup(cancel_as_before), unused)) = cancel_off()
static inline int cancel_off(void)
{
    int before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}
static inline void cancel_as_before(const int *before)
{
    pthread_setcancelstate(*before, NULL);
}

/* Machines of 32 bits whose C library has two kinds of times. No header has names for both. */
#if __TIMESIZE == 32
struct timespec64;
ssize_t __recvmsg64(int fd, struct msghdr *message, int flags);
int __recvmmsg64(int fd, struct mmsghdr *messages, unsigned count, int flags,
                 struct timespec64 *timeout);
#define REAL_TIMES(X) X(__recvmsg64) X(__recvmmsg64)
#else
#define REAL_TIMES(X)
#endif

/* clang-format off */
#define REAL_FUNCTIONS(X) \
    REAL_TIMES(X) \
    X(socket) X(bind) X(listen) X(accept) X(accept4) X(connect) X(shutdown) X(close) \
    X(getsockname) X(getpeername) X(getsockopt) X(setsockopt) X(read) X(readv) X(recv) \
    X(recvfrom) X(recvmsg) X(recvmmsg) X(write) X(writev) X(send) X(sendto) X(sendmsg) \
    X(sendmmsg) X(sendfile) X(sendfile64) X(splice) X(poll) X(ppoll) X(select) X(pselect) X(epoll_create) X(epoll_create1) X(epoll_ctl) X(epoll_wait) X(epoll_pwait) \
    X(epoll_pwait2) X(dup) \
    X(dup2) X(dup3) X(fcntl) X(fcntl64) X(ioctl) X(syscall) X(close_range) X(fdopen) X(sigaction) X(_exit) \
    X(eventfd) X(timerfd_create) X(pipe2) X(socketpair) X(fork) X(forkpty) X(daemon) X(posix_spawn) X(posix_spawnp) \
    X(execve) X(execv) X(execvp) X(execvpe) X(fexecve) X(pthread_cancel) X(freopen) X(freopen64)
/* clang-format on */

#define REAL_MEMBER(name) __typeof__(&name) name;
struct real {
    REAL_FUNCTIONS(REAL_MEMBER)
};
#undef REAL_MEMBER

/* Any thread, from the first instruction of the process on. */
const struct real *real(void);

#endif
