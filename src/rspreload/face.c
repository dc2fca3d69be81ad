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

static struct iwarp_device *_Atomic device; /* of all rsockets, */
static _Atomic unsigned born;               /* in this process */
static _Atomic unsigned shown;              /* how often a face has followed */

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

/* No other octet has room then. */
static void fill(int fd)
{
    static const char octets[16384]; /* more than there is room for */

    while (send(fd, octets, sizeof octets, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof octets) {
    }
}

/* In one step, so that a thread that sleeps until the face is readable sees the hang-up, too. The
 * end of the stream is readable by itself. */
static void follow_end(struct rs *s, short events)
{
    const bool is_over = (events & POLLHUP) && s->state != RS_OPEN && !s->shows_over;
    const bool reads_end = (events & POLLRDHUP) && !s->shows_read_over;

    s->shows_over = s->shows_over || is_over;
    s->shows_read_over = s->shows_read_over || reads_end || is_over;
    if (is_over || reads_end) {
        shutdown(s->behind, is_over ? SHUT_RDWR : SHUT_WR);
    }
}

/* The face shows what poll would say. True: that is news. */
static bool follow(struct rs *s)
{
    short events = rs_events(s);
    bool readable, fresh, follows;

    readable = (events & POLLIN) != 0;
    fresh = readable && s->shown != s->arrived; /* an edge for EPOLLET */
    s->shown = s->arrived;
    follows = fresh || readable != s->shows_readable ||
              ((events & POLLOUT) != 0) != s->shows_writable ||
              ((events & POLLRDHUP) && !s->shows_read_over) ||
              ((events & POLLHUP) && s->state != RS_OPEN && !s->shows_over);
    follow_end(s, events);
    if (s->shows_readable && !readable) {
        empty(s->face);
    }
    if (readable && !s->shows_read_over && (!s->shows_readable || fresh) && !put(s->behind)) {
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
    return follows;
}

/* --- the kernel's set, or the leader --------------------------------------------------------- */

struct iwarp_device *rs_watched_device(void)
{
    return atomic_load(&born) == iwarp_compat_generation() ? atomic_load(&device) : NULL;
}

void rs_watched(struct rs *s)
{
    if (s->device) {
        atomic_store(&device, s->device);
        atomic_store(&born, iwarp_compat_generation());
    }
}

unsigned rs_shown(void)
{
    return atomic_load(&shown);
}

static int (*kernel_ctl)(int set, int op, int number, struct epoll_event *event);

void iwarp_rs_lead_with(int (*epoll_ctl)(int set, int op, int number, struct epoll_event *event))
{
    kernel_ctl = epoll_ctl;
    rs_watch_forks();
}

bool rs_is_preloaded(void)
{
    return kernel_ctl != NULL;
}

int rs_ask_kernel(int set, int op, int number, struct epoll_event *event)
{
    return kernel_ctl(set, op, number, event);
}

int rs_watch_in_kernel(struct rs *s, bool watch)
{
    if (atomic_load(&s->set) < 0 || (!watch && !s->in_kernel)) {
        return 0;
    }
    IWARP_UNCANCELLED;
    struct epoll_event event = s->wanted;
    int op = !watch ? EPOLL_CTL_DEL : s->in_kernel ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (watch) { /* first: another thread may be asleep there, and is told what the face shows */
        atomic_fetch_add(&shown, follow(s));
    }
    int result = kernel_ctl(atomic_load(&s->set), op, s->number, &event);
    if (result == 0) {
        s->in_kernel = watch;
        s->told = 0; /* what the kernel has told, nobody knows here */
    }
    return result;
}

uint32_t rs_news_of(struct rs *s)
{
    uint32_t events = (uint32_t)(unsigned short)rs_events(s) & (s->wanted.events | RS_ALWAYS);

    s->told &= events;
    if (!(s->wanted.events & EPOLLET)) {
        return events;
    }
    if (s->told_arrived != s->arrived) {
        s->told &= ~(uint32_t)(EPOLLIN | EPOLLRDNORM);
    }
    return events & ~s->told ? events : 0;
}

void rs_show(struct rs *s)
{
    if (!atomic_load(&s->watched) || s->behind < 0) {
        return;
    }
    if (rs_is_led(s) && rs_watch_in_kernel(s, false) == 0 && rs_lead_it(s, rs_news_of(s) != 0)) {
        return;
    }
    IWARP_UNCANCELLED;
    rs_lead_not(s);
    if (!s->in_kernel) {
        (void)rs_watch_in_kernel(s, true);
    }
    atomic_fetch_add(&shown, follow(s));
}

/* --- its life -------------------------------------------------------------------------------- */

void rs_hide(struct rs *s)
{
    atomic_store(&s->watched, false);
    if (s->face >= 0) {
        close(s->face);
        close(s->behind);
        s->face = s->behind = -1;
    }
}

static void begin_to_show(struct rs *s, int face, int behind, bool writable)
{
    s->face = face;
    s->behind = behind;
    s->shows_readable = s->shows_read_over = s->shows_over = false;
    s->shows_writable = writable;
    s->shown = s->arrived;
    atomic_store(&s->watched, true);
    rs_watched(s);
    if (s->cq) {
        iwarp_compat_arm_aside(s->cq);
    }
    rs_progress(s);
}

static void keep_small(int face)
{
    const int least = 1; /* the kernel takes its minimum instead */

    (void)setsockopt(face, SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
}

int iwarp_rs_watch_by(int fd, int face, int behind, bool writable)
{
    struct rs *s = rs_take(fd);

    if (!s) {
        return -1;
    }
    const bool is_first = s->face < 0 && rs_engine_eq();
    if (is_first) {
        if (writable) { /* else it was when it was filled */
            keep_small(face);
        }
        begin_to_show(s, face, behind, writable);
    }
    rs_give_back(s);
    return is_first ? 0 : -1;
}

int iwarp_rs_watch(int fd)
{
    struct rs *s = rs_take(fd);
    int pair[2], face;

    if (!s) {
        return -1;
    }
    if (s->face < 0 && rs_engine_eq() &&
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0) {
        keep_small(pair[0]);
        begin_to_show(s, pair[0], pair[1], true);
    }
    face = s->face;
    rs_give_back(s);
    return face;
}
