/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What poll says of a socket, and a descriptor that says the same to epoll: one end of a socket
 * pair, the face. It is readable while an octet lies in it, and writable while its own buffer is
 * empty; the library alone reads and writes both ends.
 */
#include "rsocket/rs.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

short rs_events(struct rs *s)
{
    short events = 0;

    if (s->state == RS_LISTENING) {
        return s->requests ? POLLIN | POLLRDNORM : 0;
    }
    if (s->state == RS_OPEN) {
        return POLLOUT | POLLWRNORM | POLLHUP;
    }
    if (s->state == RS_CONNECTING) {
        return 0;
    }
    if (rs_may_read(s)) {
        events |= POLLIN | POLLRDNORM;
    }
    if (rs_may_send(s)) {
        events |= POLLOUT | POLLWRNORM;
    }
    if (s->read_over) {
        events |= POLLRDHUP;
    }
    if (s->state == RS_OVER && s->unread == 0) { /* rstream takes it for the end of all data */
        events |= POLLHUP;
    }
    if (s->error) {
        events |= POLLERR;
    }
    return events;
}

static void empty(int fd)
{
    char octets[4096];

    while (recv(fd, octets, sizeof octets, MSG_DONTWAIT) > 0) {
    }
}

static void fill(int fd)
{
    static const char octets[4096];

    while (send(fd, octets, sizeof octets, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    while (send(fd, octets, 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
}

void rs_show(struct rs *s)
{
    short events;
    bool readable, fresh;

    if (!atomic_load(&s->watched) || s->behind < 0) {
        return;
    }
    events = rs_events(s);
    readable = (events & POLLIN) != 0;
    fresh = readable && s->shown != s->arrived; /* an edge for EPOLLET */
    s->shown = s->arrived;
    if (s->shows_readable && (!readable || fresh)) {
        empty(s->face);
    }
    if (readable && (!s->shows_readable || fresh)) {
        (void)send(s->behind, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
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
        if (s->cq) {
            iwarp_cq_arm(s->cq, false);
        }
        rs_progress(s);
    }
    face = s->face;
    rs_give_back(s);
    return face;
}
