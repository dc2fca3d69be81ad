/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/passing.h"
#include "preload/early.h"
#include "preload/fork.h"
#include "preload/start.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>

/* --- what comes ------------------------------------------------------------------------------ */

/* inetd's programs have one connection as 0, 1 and 2. */
static bool is_another_name(int fd)
{
    struct stat one, other;

    for (int lower = 0; lower < fd; lower++) {
        struct sock *s = sock_get(lower);
        const bool same = s && fstat(fd, &one) == 0 && fstat(lower, &other) == 0 &&
                          one.st_dev == other.st_dev && one.st_ino == other.st_ino &&
                          sock_add(s, fd);
        sock_put(s);
        if (same) {
            return true;
        }
    }
    return false;
}

/* Nothing is asked of it that changes it: it may be of a parent, whose error it has. */
static bool is_connected(int fd)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;

    return real()->getpeername(fd, (struct sockaddr *)&peer, &len) == 0;
}

/* Listeners of inetd's kind and of socket activation, and connections of inetd's. */
static void take(int fd)
{
    if (sock_option(fd, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP || is_another_name(fd)) {
        return;
    }
    if (sock_option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 1) {
        (void)sock_new(fd, SOCK_LISTENER);
    } else if (is_connected(fd)) {
        start_arrived(fd);
    }
}

void passing_inherited(void)
{
    for (int fd = 0; fd < 16; fd++) {
        take(fd);
    }
}

/* --- what goes ------------------------------------------------------------------------------- */

static void prepare(int fd)
{
    struct sock *s = sock_get(fd);

    if (s && s->state == SOCK_PARENTS) {
        fork_ask(s);
    }
    if (s && (s->state == SOCK_RDMA || sock_is_unsettled(s))) {
        SIGNALS_HELD; /* the library makes descriptors: own.h */
        early_await(s);
        const int face = s->state == SOCK_RDMA ? relay_start(s) : -1;
        if (face >= 0) {
            real()->close(face);
        }
        pthread_mutex_unlock(&s->start);
    }
    sock_put(s);
}

/* --- messages -------------------------------------------------------------------------------- */

/* The program's own message may have any lengths. */
static void each(const struct msghdr *message, void (*call)(int fd))
{
    struct msghdr m = *message;
    const unsigned char *end = (unsigned char *)m.msg_control + m.msg_controllen;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        const unsigned char *at = CMSG_DATA(c);
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
            c->cmsg_len > (size_t)(end - (unsigned char *)c)) {
            continue;
        }
        for (int fd; at + sizeof fd <= (unsigned char *)c + c->cmsg_len; at += sizeof fd) {
            memcpy(&fd, at, sizeof fd);
            call(fd);
        }
    }
}

void passing_out(const struct msghdr *message)
{
    if (message->msg_control && message->msg_controllen > 0) {
        UNCANCELLED;
        each(message, prepare);
    }
}

void passing_in(const struct msghdr *message)
{
    if (message->msg_control && message->msg_controllen > 0) {
        UNCANCELLED;
        each(message, take);
    }
}
