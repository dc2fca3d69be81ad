/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpoll and rselect: for rsockets and other descriptors together. A thread that sleeps in them is
 * woken up by each of its sockets through one eventfd.
 */
#include "rsocket/rs.h"

#include "base/process.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <unistd.h>

struct member {
    struct rs *s; /* NULL: a descriptor of the system; used while we sleep */
    struct rs_watcher watcher;
    bool none; /* the number was free, and our bell has taken it */
};

struct set {
    struct pollfd *fds;
    nfds_t count;
    struct pollfd *others; /* of the system, and behind them our bell; -1 for rsockets */
    struct member *members;
    int bell;
};

static void join(struct set *set, nfds_t i)
{
    struct rs *s = rs_take(set->fds[i].fd);
    struct rs_watcher *w = &set->members[i].watcher;

    set->others[i] = set->fds[i];
    if (set->fds[i].fd == set->bell) {
        set->members[i].none = true;
        set->others[i].fd = -1;
    }
    if (!s) {
        return;
    }
    set->others[i].fd = -1;
    set->members[i].s = s;
    w->bell = set->bell;
    pthread_mutex_lock(&s->wake_lock);
    w->next = atomic_load(&s->watchers);
    w->before = NULL;
    if (w->next) {
        w->next->before = w;
    }
    atomic_store(&s->watchers, w);
    pthread_mutex_unlock(&s->wake_lock);
    rs_unlock(s); /* it stays in use */
}

static void leave(struct member *m)
{
    const struct rs_watcher *w = &m->watcher;

    if (!m->s) {
        return;
    }
    pthread_mutex_lock(&m->s->lock);
    pthread_mutex_lock(&m->s->wake_lock);
    if (w->before) {
        w->before->next = w->next;
    } else {
        atomic_store(&m->s->watchers, w->next);
    }
    if (w->next) {
        w->next->before = w->before;
    }
    pthread_mutex_unlock(&m->s->wake_lock);
    rs_give_back(m->s);
}

/* arm: the thread will sleep if this finds nothing. */
static short look(struct rs *s, short wanted, bool arm)
{
    short events;

    wanted |= POLLERR | POLLHUP;
    pthread_mutex_lock(&s->lock);
    rs_progress(s);
    events = s->closed ? POLLNVAL : rs_events(s) & wanted;
    if (!events && arm && s->cq) {
        iwarp_cq_arm(s->cq, false);
        rs_progress(s);
        events = rs_events(s) & wanted;
    }
    rs_unlock(s);
    return events;
}

static int look_all(struct set *set, bool arm)
{
    int found = 0;

    for (nfds_t i = 0; i < set->count; i++) {
        set->fds[i].revents = set->members[i].none ? POLLNVAL : 0;
        found += set->members[i].none;
        if (set->members[i].s) {
            set->fds[i].revents = look(set->members[i].s, set->fds[i].events, arm);
            found += set->fds[i].revents != 0;
        }
    }
    return found;
}

static int wait_all(struct set *set, int timeout_ms)
{
    uint64_t until = rs_until(timeout_ms), rings;

    for (;;) {
        uint64_t now = rs_now_ms();
        int found = look_all(set, timeout_ms != 0), left, others;
        left = found || now >= until ? 0
               : until == UINT64_MAX ? -1
                                     : (int)(until - now < 1 << 30 ? until - now : 1 << 30);
        others = poll(set->others, set->count + 1, left);
        if (others < 0) {
            return -1;
        }
        if (set->others[set->count].revents) {
            (void)!read(set->bell, &rings, sizeof rings);
            others--;
        }
        for (nfds_t i = 0; i < set->count && others > 0; i++) {
            if (!set->members[i].s && !set->members[i].none) {
                set->fds[i].revents = set->others[i].revents;
            }
        }
        if (found + others > 0 || (timeout_ms >= 0 && now >= until)) {
            return found + others;
        }
    }
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
    IWARP_UNCANCELLED;
    struct set set = {fds, nfds, calloc(nfds + 1, sizeof *set.others),
                      calloc(nfds + 1, sizeof *set.members),
                      eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    int result = -1, error = set.bell < 0 ? errno : ENOMEM;

    if (set.bell >= 0 && set.others && set.members) {
        for (nfds_t i = 0; i < nfds; i++) {
            join(&set, i);
        }
        set.others[nfds] = (struct pollfd){set.bell, POLLIN, 0};
        result = wait_all(&set, timeout);
        error = errno;
        for (nfds_t i = 0; i < nfds; i++) {
            leave(&set.members[i]);
        }
    }
    free(set.others);
    free(set.members);
    if (set.bell >= 0) {
        close(set.bell);
    }
    errno = error;
    return result;
}

/* --- select ---------------------------------------------------------------------------------- */

static bool has(const fd_set *fds, int fd)
{
    return fds && FD_ISSET(fd, fds);
}

static int put(fd_set *to, int fd, bool is)
{
    if (!to) {
        return 0;
    }
    if (is) {
        FD_SET(fd, to);
    } else {
        FD_CLR(fd, to);
    }
    return is;
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
    struct pollfd fds[FD_SETSIZE];
    nfds_t count = 0;
    int result, ready = 0, timeout_ms = -1;

    if (nfds < 0 || nfds > FD_SETSIZE ||
        (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0))) {
        return rs_fail(EINVAL);
    }
    for (int fd = 0; fd < nfds; fd++) {
        short events = (short)((has(readfds, fd) ? POLLIN : 0) | (has(writefds, fd) ? POLLOUT : 0) |
                               (has(exceptfds, fd) ? POLLPRI : 0));
        if (events) {
            fds[count++] = (struct pollfd){fd, events, 0};
        }
    }
    if (timeout && timeout->tv_sec < INT_MAX / 1000 - 1) {
        timeout_ms = (int)(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
    }
    result = rpoll(fds, count, timeout_ms);
    if (result < 0) {
        return -1;
    }
    for (nfds_t i = 0; i < count; i++) {
        if (fds[i].revents & POLLNVAL) {
            return rs_fail(EBADF);
        }
    }
    for (nfds_t i = 0; i < count; i++) {
        short wanted = fds[i].events, got = fds[i].revents;
        bool over = (got & (POLLERR | POLLHUP)) != 0;
        ready += put(readfds, fds[i].fd, (wanted & POLLIN) && ((got & POLLIN) || over));
        ready += put(writefds, fds[i].fd, (wanted & POLLOUT) && ((got & POLLOUT) || over));
        ready += put(exceptfds, fds[i].fd, (wanted & POLLPRI) && (got & POLLPRI));
    }
    return ready;
}
