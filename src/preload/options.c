/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of both ends, options, flags, shutdown. */
#include "preload/block.h"
#include "preload/early.h"
#include "preload/fork.h"
#include "preload/start.h"

#include "preload/sets.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Its state is what the face shows. */
static struct sock *settled(int fd)
{
    struct sock *s = sock_get(fd);

    if (s) {
        start_await_settled(s);
    }
    return s;
}

static bool is_rsocket(const struct sock *s)
{
    return s->state == SOCK_RDMA || (sock_is_unsettled(s) && iwarp_rs_is(s->rs));
}

/* An rsocket that stays one until release: no child begins to use it meanwhile, and its peer's
 * answer, if it is to come yet, has to wait. */
static bool hold(struct sock *s)
{
    if (s->state != SOCK_RDMA && !sock_is_unsettled(s)) {
        return false;
    }
    pthread_mutex_lock(&s->start);
    if (is_rsocket(s)) {
        return true;
    }
    pthread_mutex_unlock(&s->start);
    return false;
}

/* While it connects, the TCP socket is behind the face, and stays the program's until release. */
static bool hold_tcp(struct sock *s)
{
    if (!sock_is_unsettled(s)) {
        return false;
    }
    pthread_mutex_lock(&s->start);
    if (sock_is_unsettled(s) && !iwarp_rs_is(s->rs)) {
        return true;
    }
    pthread_mutex_unlock(&s->start);
    return false;
}

/* Its face stays the same until release, so that a duplicate is of that one. */
static bool hold_face(struct sock *s)
{
    const bool changes = sock_mine() && sock_is_unsettled(s);

    if (changes) {
        pthread_mutex_lock(&s->start);
    }
    return changes;
}

static void release(struct sock *s)
{
    pthread_mutex_unlock(&s->start);
}

/* As these calls do: as much as there is room for, and how long it is. */
static int give_name(const struct sockaddr_storage *name, socklen_t name_len, struct sockaddr *to,
                     socklen_t *len)
{
    memcpy(to, name, *len < name_len ? *len : name_len);
    *len = name_len;
    return 0;
}

/* The face is no TCP socket of this connection: its names are those of the start. */
static bool has_names(const struct sock *s)
{
    const enum sock_state state =
        s->state; /* first: once it is one of these, the names are whole */

    return (state == SOCK_EARLY || state == SOCK_RDMA || state == SOCK_PIPE ||
            state == SOCK_PARENTS || state == SOCK_GONE) &&
           s->peer_len > 0;
}

/* A socket that connects has its own name already. */
EXPORT int getsockname(int fd, struct sockaddr *restrict to, socklen_t *restrict len)
{
    struct sock *s = settled(fd);
    int result;

    if (s && (has_names(s) || (s->state == SOCK_CONNECTING && is_rsocket(s)))) {
        result = give_name(&s->local, s->local_len, to, len);
    } else {
        result = real()->getsockname(s && s->state == SOCK_CONNECTING ? s->rs : fd, to, len);
    }
    sock_put(s);
    return result;
}

EXPORT int getpeername(int fd, struct sockaddr *restrict to, socklen_t *restrict len)
{
    struct sock *s = settled(fd);
    int result = -1;

    if (s && has_names(s)) {
        result = give_name(&s->peer, s->peer_len, to, len);
    } else if (s && s->state == SOCK_CONNECTING) {
        errno = ENOTCONN;
    } else {
        result = real()->getpeername(fd, to, len);
    }
    sock_put(s);
    return result;
}

/* SO_TIMESTAMPING is one of these; the kernel takes both. */
#define TIMESTAMPING_OLD 37
#define TIMESTAMPING_NEW 65

/*
 * The library would fail with these: they change the octets of the TCP connection, take some of
 * them, or wake up the loop for messages in the error queue, which nobody reads. A program does
 * without such an option when it is told that there is none.
 */
static bool is_refused(int level, int name)
{
    static const struct {
        int level, name;
    } refused[] = {
        {SOL_SOCKET, SO_ZEROCOPY},
        {SOL_SOCKET, SO_ATTACH_FILTER},
        {SOL_SOCKET, SO_ATTACH_BPF},
        {SOL_SOCKET, TIMESTAMPING_OLD},
        {SOL_SOCKET, TIMESTAMPING_NEW},
        {SOL_SOCKET, SO_TXTIME},
        {IPPROTO_IP, IP_RECVERR},
        {IPPROTO_IPV6, IPV6_RECVERR},
        {IPPROTO_IPV6, IPV6_ADDRFORM},
        {IPPROTO_TCP, TCP_ULP},
        {IPPROTO_TCP, TCP_REPAIR},
        {IPPROTO_TCP, TCP_MD5SIG},
        {IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE},
    };

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (refused[i].level == level && refused[i].name == name) {
            return true;
        }
    }
    return false;
}

/* A child that has not used its parent's connection yet has the options of the number's TCP socket.
 */
static int option_place(const struct sock *s, int fd)
{
    return s->state == SOCK_PARENTS ? s->rs : fd;
}

static int give_int(int given, void *value, socklen_t *len)
{
    memcpy(value, &given, *len < sizeof given ? *len : sizeof given);
    *len = *len < sizeof given ? *len : sizeof given;
    return 0;
}

/* What programs ask of a connection, and a socket pair would answer otherwise. */
static int get_of_pipe(const struct sock *s, int fd, int level, int name, void *value,
                       socklen_t *len)
{
    if (level == SOL_SOCKET && name == SO_DOMAIN && s->local_len > 0) {
        return give_int(s->local.ss_family, value, len);
    }
    if (level == SOL_SOCKET && name == SO_PROTOCOL) {
        return give_int(IPPROTO_TCP, value, len);
    }
    if (level == IPPROTO_TCP && name == TCP_NODELAY) {
        return give_int(1, value, len);
    }
    return real()->getsockopt(fd, level, name, value, len);
}

/* A socket pair has no options of TCP: they were set before, and it does without. */
static bool is_without(const struct sock *s, int level)
{
    return s->state == SOCK_PIPE && level != SOL_SOCKET;
}

static int set_held(struct sock *s, int level, int name, const void *value, socklen_t len)
{
    if (is_refused(level, name)) {
        errno = ENOPROTOOPT;
        return -1;
    }
    return rsetsockopt(s->rs, level, name, value, len);
}

EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    struct sock *s = settled(fd);
    int result = -1;

    if (!s) {
        return real()->setsockopt(fd, level, name, value, len);
    }
    if (s->state == SOCK_PARENTS) { /* its TCP socket is that of other connections, too */
        fork_ask(s);
    }
    if (hold_tcp(s)) {
        result = real()->setsockopt(s->rs, level, name, value, len);
        release(s);
    } else if (hold(s)) {
        result = set_held(s, level, name, value, len);
        release(s);
    } else if (is_without(s, level)) {
        result = 0;
    } else {
        result = real()->setsockopt(fd, level, name, value, len);
    }
    sock_put(s);
    return result;
}

static int get_held(struct sock *s, int level, int name, void *value, socklen_t *len)
{
    if (level == IPPROTO_TCP && name == TCP_ZEROCOPY_RECEIVE) { /* it reads */
        errno = ENOPROTOOPT;
        return -1;
    }
    return rgetsockopt(s->rs, level, name, value, len);
}

EXPORT int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict len)
{
    struct sock *s = settled(fd);

    if (!s) {
        return real()->getsockopt(fd, level, name, value, len);
    }
    const bool error_of_connect = sock_is_unsettled(s) && level == SOL_SOCKET && name == SO_ERROR;
    int result;
    if (error_of_connect) {
        result = real()->getsockopt(fd, level, name, value, len);
    } else if (hold_tcp(s)) {
        result = real()->getsockopt(s->rs, level, name, value, len);
        release(s);
    } else if (hold(s)) {
        result = get_held(s, level, name, value, len);
        release(s);
    } else if (s->state == SOCK_PIPE) {
        result = get_of_pipe(s, fd, level, name, value, len);
    } else {
        result = real()->getsockopt(option_place(s, fd), level, name, value, len);
    }
    sock_put(s);
    return result;
}

EXPORT int shutdown(int fd, int how)
{
    struct sock *s = sock_get(fd);

    if (!s) {
        return real()->shutdown(fd, how);
    }
    enum use_result use = USE_EARLY;
    int result = -1;
    while (s && use == USE_EARLY) {
        if (early_shutdown(s, how)) {
            sock_put(s);
            return 0;
        }
        /* It is never told to come again: one whose Reply is still to come waits for that. */
        use = block_use(&s, fd, USE_WRITE, !s->nonblock || sock_is_unsettled(s));
    }
    if (use == USE_RSOCKET && hold(s)) {
        result = rshutdown(s->rs, how);
        release(s);
    } else if (use != USE_FAILED) {
        result = real()->shutdown(fd, how);
    }
    sock_put(s);
    return result;
}

/* --- flags ----------------------------------------------------------------------------------- */

static int set_flags(struct sock *s, int fd, int flags)
{
    int result = 0;

    if (s->state == SOCK_PARENTS) { /* the flags are those of the face that it gets */
        fork_ask(s);
    }
    start_await_settled(s);
    s->nonblock = (flags & O_NONBLOCK) != 0;
    if (hold_tcp(s)) {
        (void)real()->fcntl(s->rs, F_SETFL, flags);
        release(s);
    } else if (hold(s)) {
        result = rfcntl(s->rs, F_SETFL, flags);
        release(s);
    }
    return s->state == SOCK_RDMA ? result : real()->fcntl(fd, F_SETFL, flags);
}

/* A new number for the same socket. */
static int named(struct sock *s, int number)
{
    if (number >= 0 && s->state != SOCK_PLAIN && !sock_add(s, number)) {
        real()->close(number);
        errno = EMFILE;
        return -1;
    }
    sock_tell_watches(s);
    return number;
}

/* The same for a number that is an epoll set, perhaps: from now on it has several. */
static int named_set(int set, int number)
{
    if (number >= 0 && set_kind(set) != SET_NONE && sock_mine()) {
        sock_set_shared(set);
        set_has(number, set_kind(set));
        set_mark_shared(number);
    }
    return number;
}

/* `other`: the function for what is none of ours. On 32 bits fcntl and fcntl64 take different
 * structures for locks of files. */
static int control(int fd, int command, void *argument, int (*other)(int fd, int command, ...))
{
    struct sock *s = sock_get(fd);
    int result;

    if (!s) {
        result = other(fd, command, argument);
        return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? named_set(fd, result) : result;
    }
    switch (command) {
    case F_GETFL:
        if (hold(s)) {
            result = rfcntl(s->rs, F_GETFL, 0);
            release(s);
        } else {
            result = real()->fcntl(fd, F_GETFL);
        }
        if (result >= 0 && s->state == SOCK_PARENTS) { /* it is not the face that it will get */
            result = (result & ~O_NONBLOCK) | (s->nonblock ? O_NONBLOCK : 0);
        }
        break;
    case F_SETFL:
        result = set_flags(s, fd, (int)(intptr_t)argument);
        break;
    case F_DUPFD:
    case F_DUPFD_CLOEXEC: {
        const bool held = hold_face(s);
        result = real()->fcntl(fd, command, argument);
        result = sock_mine() ? named(s, result) : result;
        if (held) {
            release(s);
        }
        break;
    }
    default:
        result = real()->fcntl(fd, command, argument);
    }
    sock_put(s);
    return result;
}

/* The argument is an int or a pointer, whatever the command: both fit. */
EXPORT int fcntl(int fd, int command, ...)
{
    va_list arguments;

    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return control(fd, command, argument, real()->fcntl);
}

EXPORT int fcntl64(int fd, int command, ...)
{
    va_list arguments;

    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return control(fd, command, argument, real()->fcntl64);
}

/* Routes and interfaces: any socket of TCP knows them, and no socket pair does. */
static bool is_of_interfaces(unsigned long request)
{
    return request >= SIOCADDRT && request <= SIOCDEVPRIVATE + 15;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
    struct sock *s = sock_get(fd);
    va_list arguments;
    int result;

    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (!s) {
        return real()->ioctl(fd, request, argument);
    }
    const bool is_to_send = request == TIOCOUTQ || request == SIOCOUTQNSD;
    if (request == FIONBIO) {
        const int flags = control(fd, F_GETFL, NULL, real()->fcntl);
        const int wanted = *(int *)argument ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
        result = set_flags(s, fd, wanted);
    } else if (is_to_send && sock_is_unsettled(s)) {
        *(int *)argument = early_octets(s); /* its face may be full of others */
        result = 0;
    } else if ((request == FIONREAD || is_to_send) &&
               start_use(&s, fd, USE_WAIT, false) == USE_RSOCKET && hold(s)) {
        result = iwarp_rs_octets(s->rs, is_to_send);
        release(s);
        if (result >= 0) {
            *(int *)argument = result;
            result = 0;
        }
    } else if (is_of_interfaces(request) && (hold_tcp(s) || hold(s))) {
        result = real()->ioctl(s->rs, request, argument);
        release(s);
    } else {
        result = real()->ioctl(fd, request, argument);
    }
    sock_put(s);
    return result;
}

/* --- more numbers ---------------------------------------------------------------------------- */

EXPORT int dup(int fd)
{
    struct sock *s = sock_get(fd);

    if (!s) {
        return named_set(fd, real()->dup(fd));
    }
    const bool held = hold_face(s);
    const int number = real()->dup(fd);
    const int result = sock_mine() ? named(s, number) : number;
    if (held) {
        release(s);
    }
    sock_put(s);
    return result;
}

/* In one step for other threads: what they open meanwhile does not get the number. */
EXPORT int dup3(int fd, int to, int flags)
{
    struct sock *s = sock_get(fd);
    struct sock *replaced = sock_get(to);
    const bool works = fd != to && real()->fcntl(fd, F_GETFD) >= 0 && !(flags & ~O_CLOEXEC);

    if (works && !replaced && sock_mine()) {
        sock_set_closed(to);
    }
    if ((!s && !replaced) || !works || !sock_mine()) {
        sock_put(s);
        sock_put(replaced);
        return named_set(fd, real()->dup3(fd, to, flags));
    }
    const bool last = replaced && start_drop_number(replaced, to);
    const bool held = s && hold_face(s);
    int result = real()->dup3(fd, to, flags);
    result = s ? named(s, result) : named_set(fd, result);
    if (held) {
        release(s);
    }
    if (replaced) {
        start_dropped(replaced, last);
    }
    sock_put(replaced);
    sock_put(s);
    return result;
}

EXPORT int dup2(int fd, int to)
{
    return fd == to ? real()->dup2(fd, to) : dup3(fd, to, 0);
}
