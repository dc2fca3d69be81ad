/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * syscall(2): libuv closes its sockets by that, and others make calls that their C library lacks.
 * What this library does under a name it does under the number, too, where both take the same
 * arguments. Everything else is the kernel's, with all arguments that the C library hands on.
 */
#include "preload/sock.h"

#include <pthread.h>
#include <stdarg.h>
#include <sys/syscall.h>

#define ARGUMENTS 7 /* on ARM; six elsewhere */

/* clang-format off */
#define INT(i)      ((int)a[i])
#define UNSIGNED(i) ((unsigned)a[i])
#define SIZE(i)     ((size_t)a[i])
#define AT(i)       ((void *)a[i])

#define EVERYWHERE(X) \
    X(socket,      sock_make(INT(0), INT(1), INT(2))) \
    X(bind,        bind(INT(0), AT(1), UNSIGNED(2))) \
    X(listen,      listen(INT(0), INT(1))) \
    X(accept,      accept(INT(0), AT(1), AT(2))) \
    X(accept4,     accept4(INT(0), AT(1), AT(2), INT(3))) \
    X(connect,     connect(INT(0), AT(1), UNSIGNED(2))) \
    X(shutdown,    shutdown(INT(0), INT(1))) \
    X(close,       close(INT(0))) \
    X(close_range, close_range(UNSIGNED(0), UNSIGNED(1), INT(2))) \
    X(dup,         dup(INT(0))) \
    X(dup3,        dup3(INT(0), INT(1), INT(2))) \
    X(fcntl,       fcntl(INT(0), INT(1), AT(2))) \
    X(ioctl,       ioctl(INT(0), (unsigned long)a[1], AT(2))) \
    X(getsockname, getsockname(INT(0), AT(1), AT(2))) \
    X(getpeername, getpeername(INT(0), AT(1), AT(2))) \
    X(getsockopt,  getsockopt(INT(0), INT(1), INT(2), AT(3), AT(4))) \
    X(setsockopt,  setsockopt(INT(0), INT(1), INT(2), AT(3), UNSIGNED(4))) \
    X(read,        read(INT(0), AT(1), SIZE(2))) \
    X(readv,       readv(INT(0), AT(1), INT(2))) \
    X(recvfrom,    recvfrom(INT(0), AT(1), SIZE(2), INT(3), AT(4), AT(5))) \
    X(recvmsg,     recvmsg(INT(0), AT(1), INT(2))) \
    X(recvmmsg,    recvmmsg(INT(0), AT(1), UNSIGNED(2), INT(3), AT(4))) \
    X(write,       write(INT(0), AT(1), SIZE(2))) \
    X(writev,      writev(INT(0), AT(1), INT(2))) \
    X(sendto,      sendto(INT(0), AT(1), SIZE(2), INT(3), AT(4), UNSIGNED(5))) \
    X(sendmsg,     sendmsg(INT(0), AT(1), INT(2))) \
    X(sendmmsg,    sendmmsg(INT(0), AT(1), UNSIGNED(2), INT(3))) \
    X(sendfile,    sendfile(INT(0), INT(1), AT(2), SIZE(3))) \
    X(splice,      splice(INT(0), AT(1), INT(2), AT(3), SIZE(4), UNSIGNED(5))) \
    X(epoll_create1, epoll_create1(INT(0))) \
    X(epoll_ctl,   epoll_ctl(INT(0), INT(1), INT(2), AT(3))) \
    X(epoll_pwait, epoll_pwait(INT(0), AT(1), INT(2), INT(3), AT(4)))

/* On younger machines newer calls do their work. */
#ifdef SYS_dup2
#define OLD_NUMBERS(X) X(dup2, dup2(INT(0), INT(1)))
#else
#define OLD_NUMBERS(X)
#endif
#ifdef SYS_poll
#define OLD_POLL(X) X(poll, poll(AT(0), (nfds_t)a[1], INT(2)))
#else
#define OLD_POLL(X)
#endif
#if defined SYS__newselect /* SYS_select is older, and takes one address */
#define OLD_SELECT(X) X(_newselect, select(INT(0), AT(1), AT(2), AT(3), AT(4)))
#elif defined SYS_select
#define OLD_SELECT(X) X(select, select(INT(0), AT(1), AT(2), AT(3), AT(4)))
#else
#define OLD_SELECT(X)
#endif
#ifdef SYS_epoll_wait
#define OLD_SETS(X) \
    X(epoll_create, epoll_create(INT(0))) \
    X(epoll_wait, epoll_wait(INT(0), AT(1), INT(2), INT(3)))
#else
#define OLD_SETS(X)
#endif

/* Else its time is longer than that of the function. */
#if __SIZEOF_LONG__ == 8
#define OF_64_BITS(X) X(epoll_pwait2, epoll_pwait2(INT(0), AT(1), INT(2), AT(3), AT(4)))
#else
#define OF_64_BITS(X)
#endif
/* clang-format on */

/*
 * True: the number is one of these, and the call was made. The functions are points of
 * cancellation, and these calls are not. Of a set of signals the functions hand on where it is, and
 * the kernel's is the shorter one. The time-out of SYS_ppoll and SYS_pselect6 comes back changed:
 * these are the kernel's.
 */
static bool ours(long number, const long *a, long *result)
{
    switch (number) {
#define CASE(name, call)                                                                           \
    case SYS_##name: {                                                                             \
        UNCANCELLED;                                                                               \
        *result = call;                                                                            \
        return true;                                                                               \
    }
        EVERYWHERE(CASE)
        OLD_NUMBERS(CASE)
        OLD_POLL(CASE)
        OLD_SELECT(CASE)
        OLD_SETS(CASE)
        OF_64_BITS(CASE)
#undef CASE
    default:
        return false;
    }
}

EXPORT long syscall(long number, ...)
{
    long a[ARGUMENTS], result;
    va_list arguments;

    va_start(arguments, number);
    for (int i = 0; i < ARGUMENTS; i++) { /* there are fewer, perhaps, and nobody looks at those */
        a[i] = va_arg(arguments, long);
    }
    va_end(arguments);
    if (number == SYS_exit_group) {
        _exit(INT(0));
    }
    if (ours(number, a, &result)) {
        return result;
    }
    return real()->syscall(number, a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
}
