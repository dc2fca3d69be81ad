/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Other names that the C library has for calls of this one. Programs and libraries of old call
 * those with underscores; the compiler makes the others of calls with _FORTIFY_SOURCE. Names for
 * 64-bit times of 32-bit machines are in times.c. Each calls the function of this library, also in
 * a program that has one of that name itself, as Erlang's has sigaction, and calls __sigaction in
 * it: so the library is linked with -Bsymbolic-functions.
 */
#include "preload/sock.h"

#include <stdarg.h>

/* clang-format off */
#define ALSO(type, name, parameters, call) \
    type name parameters; \
    EXPORT type name parameters { return call; }

ALSO(int, __connect, (int fd, const struct sockaddr *to, socklen_t len), connect(fd, to, len))
ALSO(int, __close, (int fd), close(fd))
ALSO(int, __dup2, (int fd, int to), dup2(fd, to))
ALSO(ssize_t, __read, (int fd, void *to, size_t n), read(fd, to, n))
ALSO(ssize_t, __write, (int fd, const void *from, size_t n), write(fd, from, n))
ALSO(ssize_t, __send, (int fd, const void *from, size_t n, int flags), send(fd, from, n, flags))
ALSO(int, __poll, (struct pollfd *fds, nfds_t n, int timeout), poll(fds, n, timeout))
ALSO(int, __select, (int n, fd_set *readable, fd_set *writable, fd_set *urgent, struct timeval *timeout),
     select(n, readable, writable, urgent, timeout))
ALSO(FILE *, _IO_fdopen, (int fd, const char *mode), fdopen(fd, mode))

ALSO(int, __sigaction, (int n, const struct sigaction *new, struct sigaction *old), sigaction(n, new, old))
ALSO(sighandler_t, bsd_signal, (int n, sighandler_t handler), signal(n, handler))
ALSO(sighandler_t, ssignal, (int n, sighandler_t handler), signal(n, handler))
ALSO(sighandler_t, __sysv_signal, (int n, sighandler_t handler), sysv_signal(n, handler))

_Noreturn void __chk_fail(void);
#define CHECKED(type, name, parameters, fits, call) \
    ALSO(type, name, parameters, (fits) ? (call) : (__chk_fail(), -1))

CHECKED(ssize_t, __read_chk, (int fd, void *to, size_t n, size_t room), n <= room, read(fd, to, n))
CHECKED(ssize_t, __recv_chk, (int fd, void *to, size_t n, size_t room, int flags),
        n <= room, recv(fd, to, n, flags))
CHECKED(ssize_t, __recvfrom_chk, (int fd, void *to, size_t n, size_t room, int flags,
                                  struct sockaddr *from, socklen_t *len),
        n <= room, recvfrom(fd, to, n, flags, from, len))
CHECKED(int, __poll_chk, (struct pollfd *fds, nfds_t n, int timeout, size_t room),
        n <= room / sizeof *fds, poll(fds, n, timeout))
CHECKED(int, __ppoll_chk, (struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                           const sigset_t *signals, size_t room),
        n <= room / sizeof *fds, ppoll(fds, n, timeout, signals))
/* clang-format on */

int __fcntl(int fd, int command, ...);

EXPORT int __fcntl(int fd, int command, ...)
{
    va_list arguments;

    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return fcntl(fd, command, argument);
}
