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

struct set {
    struct pollfd *fds;
    nfds_t count;
    struct pollfd *others; /* of the system, and behind them the eventfd; -1 for rsockets */
    struct rs **sockets;   /* NULL: a descriptor of the system; used while we sleep */
    struct rs_watcher *watchers;
    struct rs_poller poller;
};

static void join(struct set *set, nfds_t i)
{
    struct rs *s = rs_take(set->fds[i].fd);
    struct rs_watcher *w = &set->watchers[i];

    set->others[i] = set->fds[i];
    if (!s) {
        return;
    }
    set->others[i].fd = -1;
    set->sockets[i] = s;
    w->poller = &set->poller;
    pthread_mutex_lock(&s->wake_lock);
    w->next = s->watchers;
    w->at = &s->watchers;
    if (w->next) {
        w->next->at = &w->next;
    }
    s->watchers = w;
    pthread_mutex_unlock(&s->wake_lock);
    pthread_mutex_unlock(&s->lock); /* it stays in use */
}

static void leave(struct set *set, nfds_t i)
{
    struct rs *s = set->sockets[i];
    struct rs_watcher *w = &set->watchers[i];

    if (!s) {
        return;
    }
    pthread_mutex_lock(&s->lock);
    pthread_mutex_lock(&s->wake_lock);
    *w->at = w->next;
    if (w->next) {
        w->next->at = w->at;
    }
    pthread_mutex_unlock(&s->wake_lock);
    rs_give_back(s);
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
    pthread_mutex_unlock(&s->lock);
    return events;
}

static int look_all(struct set *set, bool arm)
{
    int found = 0;

    for (nfds_t i = 0; i < set->count; i++) {
        set->fds[i].revents = 0;
        if (set->sockets[i]) {
            set->fds[i].revents = look(set->sockets[i], set->fds[i].events, arm);
            found += set->fds[i].revents != 0;
        }
    }
    return found;
}

static int wait_all(struct set *set, int timeout_ms)
{
    uint64_t until = timeout_ms < 0 ? UINT64_MAX : rs_now_ms() + (unsigned)timeout_ms, rings;

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
            (void)!read(set->poller.fd, &rings, sizeof rings);
            others--;
        }
        for (nfds_t i = 0; i < set->count && others > 0; i++) {
            if (!set->sockets[i]) {
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
    struct set set = {
        .fds = fds, .count = nfds, .poller.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    int result = -1, error;

    set.others = calloc(nfds + 1, sizeof *set.others);
    set.sockets = calloc(nfds + 1, sizeof(struct rs *));
    set.watchers = calloc(nfds + 1, sizeof *set.watchers);
    if (set.poller.fd < 0 || !set.others || !set.sockets || !set.watchers) {
        errno = set.poller.fd < 0 ? errno : ENOMEM;
    } else {
        for (nfds_t i = 0; i < nfds; i++) {
            join(&set, i);
        }
        set.others[nfds] = (struct pollfd){set.poller.fd, POLLIN, 0};
        result = wait_all(&set, timeout);
        error = errno;
        for (nfds_t i = 0; i < nfds; i++) {
            leave(&set, i);
        }
        errno = error;
    }
    error = errno;
    free(set.others);
    free(set.sockets);
    free(set.watchers);
    if (set.poller.fd >= 0) {
        close(set.poller.fd);
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
    if (to && is) {
        FD_SET(fd, to);
        return 1;
    }
    return 0;
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
    struct pollfd fds[FD_SETSIZE];
    nfds_t count = 0;
    int result, ready = 0, timeout_ms = -1;

    if (nfds < 0 || nfds > FD_SETSIZE ||
        (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0))) {
        errno = EINVAL;
        return -1;
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
            errno = EBADF;
            return -1;
        }
    }
    for (nfds_t i = 0; i < count; i++) {
        short wanted = fds[i].events, got = fds[i].revents;
        bool over = (got & (POLLERR | POLLHUP)) != 0;
        if (readfds) {
            FD_CLR(fds[i].fd, readfds);
        }
        if (writefds) {
            FD_CLR(fds[i].fd, writefds);
        }
        if (exceptfds) {
            FD_CLR(fds[i].fd, exceptfds);
        }
        ready += put(readfds, fds[i].fd, (wanted & POLLIN) && ((got & POLLIN) || over));
        ready += put(writefds, fds[i].fd, (wanted & POLLOUT) && ((got & POLLOUT) || over));
        ready += put(exceptfds, fds[i].fd, (wanted & POLLPRI) && (got & POLLPRI));
    }
    return ready;
}
