/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A descriptor that says to epoll what poll says of a socket: one end of a socket pair, the face.
 * It is readable while an octet lies in it, and writable while its own buffer is empty. The library
 * alone reads and writes both ends.
 */
#include "base/process.h"
#include "rsocket/rs.h"
#include "rspreload/adopt.h"
#include "rspreload/lead.h"

#include <poll.h>
#include <unistd.h>

static void empty(int fd)
{
    char octets[4096];

    while (recv(fd, octets, sizeof octets, MSG_DONTWAIT) == sizeof octets) {
    }
}

static bool put(int fd)
{
    return send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

static void fill(int fd)
{
    static const char octets[4096];

    while (send(fd, octets, sizeof octets, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    while (put(fd)) {
    }
}

bool rs_face_follow(struct rs *s)
{
    short events = rs_events(s);
    bool readable, fresh, follows;

    readable = (events & POLLIN) != 0;
    fresh = readable && s->shown != s->arrived; /* an edge for EPOLLET */
    s->shown = s->arrived;
    follows = fresh || readable != s->shows_readable ||
              ((events & POLLOUT) != 0) != s->shows_writable || (events & POLLRDHUP);
    if (s->shows_readable && !readable) {
        empty(s->face);
    }
    if (readable && (!s->shows_readable || fresh) && !put(s->behind)) {
        empty(s->face); /* of the octets of so many edges */
        (void)put(s->behind);
    }
    s->shows_readable = readable;
    if ((events & POLLOUT) && !s->shows_writable) {
        empty(s->behind);
    } else if (!(events & POLLOUT) && s->shows_writable) {
        fill(s->face);
    }
    s->shows_writable = (events & POLLOUT) != 0;
    if ((events & POLLRDHUP) && !s->shows_read_over) {
        s->shows_read_over = true;
        shutdown(s->behind, SHUT_WR);
    }
    if ((events & POLLHUP) && s->state != RS_OPEN && !s->shows_over) {
        s->shows_over = true;
        shutdown(s->behind, SHUT_RDWR);
    }
    return follows;
}

void rs_hide(struct rs *s)
{
    atomic_store(&s->watched, false);
    if (s->face >= 0) {
        close(s->face);
        close(s->behind);
        s->face = s->behind = -1;
    }
}

int iwarp_rs_watch(int fd)
{
    struct rs *s = rs_take(fd);
    const int small = 1; /* the kernel's least */
    int pair[2], face;

    if (!s) {
        return -1;
    }
    if (s->face < 0 && rs_engine_eq() &&
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0) {
        s->face = pair[0];
        s->behind = pair[1];
        (void)setsockopt(s->face, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        s->shows_readable = s->shows_read_over = s->shows_over = false;
        s->shows_writable = true;
        s->shown = s->arrived;
        atomic_store(&s->watched, true);
        rs_watched(s);
        if (s->cq) {
            iwarp_compat_arm_aside(s->cq);
        }
        rs_progress(s);
    }
    face = s->face;
    rs_give_back(s);
    return face;
}
