/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/passing.h"
#include "preload/early.h"
#include "preload/fork.h"
#include "preload/pair_name.h"
#include "preload/start.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* --- what comes ------------------------------------------------------------------------------ */

/* inetd's programs have one connection as 0, 1 and 2, and a program may send itself what it has.
 * The numbers of a socket that is RDMA are no TCP socket of the program's. */
static bool is_another_name(int fd)
{
    struct stat own, other;
    const int beyond = fstat(fd, &own) == 0 ? sock_beyond() : 0;
    bool is = false;

    for (int number = 0; number < beyond && !is; number++) {
        struct sock *s = number != fd ? sock_get(number) : NULL;
        is = s && (s->state == SOCK_TCP || s->state == SOCK_LISTENER || s->state == SOCK_ARRIVED) &&
             fstat(number, &other) == 0 && own.st_dev == other.st_dev &&
             own.st_ino == other.st_ino && sock_add(s, fd);
        sock_put(s);
    }
    return is;
}

/* Nothing is asked of it that changes it: it may be of a parent, whose error it has. */
static bool is_connected(int fd)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;

    return real()->getpeername(fd, (struct sockaddr *)&peer, &len) == 0;
}

/* A connection that another process carries. */
static void take_face(int fd)
{
    struct pair_names names;
    struct sock *s = pair_name_take(fd, &names) ? sock_new(fd, SOCK_PIPE) : NULL;

    if (s) {
        s->elsewhere = true;
        s->local = names.local;
        s->local_len = names.local_len;
        s->peer = names.peer;
        s->peer_len = names.peer_len;
    }
}

static bool take(int fd)
{
    (void)sock_remove(fd); /* closed where this library did not see it */
    const int protocol = sock_option(fd, SOL_SOCKET, SO_PROTOCOL);
    if (protocol == 0) {
        take_face(fd);
    }
    if (protocol != IPPROTO_TCP || is_another_name(fd)) {
        return true;
    }
    if (sock_option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 1) {
        (void)sock_new(fd, SOCK_LISTENER);
    } else if (is_connected(fd)) {
        start_arrived(fd);
    } else {
        (void)sock_new(fd, SOCK_TCP);
    }
    return true;
}

/* Of inetd and its kind, and of socket activation. */
void passing_inherited(void)
{
    for (int fd = 0; fd < 16; fd++) {
        (void)take(fd);
    }
}

/* --- what goes ------------------------------------------------------------------------------- */

/* False: errno. */
static bool prepare(int fd)
{
    struct sock *s = sock_get(fd);
    bool can = true;

    if (s && s->state == SOCK_PARENTS) {
        fork_ask(s);
    }
    if (s && (s->state == SOCK_RDMA || sock_is_unsettled(s))) {
        SIGNALS_HELD; /* the library makes descriptors: own.h */
        early_await(s);
        if (s->state == SOCK_RDMA) {
            const int face = relay_start(s);
            can = face >= 0 && real()->close(face) == 0;
        }
        pthread_mutex_unlock(&s->start);
    }
    sock_put(s);
    return can;
}

/* --- messages -------------------------------------------------------------------------------- */

/* Up to the first call that fails. The program's own message may have any lengths. */
static bool each(const struct msghdr *message, bool (*call)(int fd))
{
    struct msghdr m = *message;
    const unsigned char *end = (unsigned char *)m.msg_control + m.msg_controllen;
    bool goes_on = true;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c && goes_on; c = CMSG_NXTHDR(&m, c)) {
        const unsigned char *at = CMSG_DATA(c);
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
            c->cmsg_len > (size_t)(end - (unsigned char *)c)) {
            continue;
        }
        for (int fd; goes_on && at + sizeof fd <= (unsigned char *)c + c->cmsg_len;
             at += sizeof fd) {
            memcpy(&fd, at, sizeof fd);
            goes_on = call(fd);
        }
    }
    return goes_on;
}

static bool may_have_some(const struct msghdr *message)
{
    return message && message->msg_control && message->msg_controllen > 0;
}

int passing_out(const struct msghdr *message)
{
    UNCANCELLED;
    return !may_have_some(message) || each(message, prepare) ? 0 : -1;
}

int passing_all_out(const struct mmsghdr *messages, unsigned count)
{
    int result = 0;

    /* The kernel takes no more at once. */
    for (unsigned i = 0; messages && i < count && i < UIO_MAXIOV && result == 0; i++) {
        result = passing_out(&messages[i].msg_hdr);
    }
    return result;
}

void passing_in(ssize_t n, const struct msghdr *message)
{
    UNCANCELLED;
    if (n >= 0 && may_have_some(message)) {
        (void)each(message, take);
    }
}

void passing_all_in(int n, const struct mmsghdr *messages)
{
    for (int i = 0; i < n; i++) {
        passing_in(0, &messages[i].msg_hdr);
    }
}
