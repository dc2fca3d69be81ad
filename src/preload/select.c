/* SPDX-License-Identifier: BSD-2-Clause */
/* select and pselect: led as a poll of the same numbers. */
#include "preload/wait.h"

#include <errno.h>

struct select_call {
    int n;
    fd_set *sets[3]; /* readable, writable, urgent; each may be NULL */
    int64_t end;
    bool at_once;
    const sigset_t *signals;
    unsigned handlers; /* signals_count at its beginning */
    bool changes;      /* a socket in `readable` or `writable` does, perhaps */
};

/* A program may have sets for numbers beyond FD_SETSIZE, which FD_ISSET would not look at. One that
 * gives more numbers than its sets have, as getdtablesize, has no socket beyond. */
static int numbers(const struct select_call *c)
{
    const int beyond = sock_beyond();

    return c->n < beyond ? c->n : beyond;
}

static bool has(const fd_set *set, int number)
{
    const fd_mask *masks = (const fd_mask *)set;

    return set && (masks[number / NFDBITS] >> number % NFDBITS & 1);
}

static unsigned prepare_sets(struct select_call *c)
{
    unsigned rsockets = 0;

    for (int i = 0; i < numbers(c); i++) {
        if (has(c->sets[0], i) || has(c->sets[1], i)) {
            rsockets += wait_prepare(i, &c->changes);
        }
    }
    return rsockets;
}

/* The numbers in the sets, as for poll. More than `most`: too many. */
static nfds_t as_poll(const struct select_call *c, struct pollfd *fds, nfds_t most)
{
    static const short events[3] = {POLLIN, POLLOUT, POLLPRI};
    nfds_t n = 0;

    for (int number = 0; number < c->n && number < FD_SETSIZE && n <= most; number++) {
        short wanted = 0;
        for (int i = 0; i < 3; i++) {
            wanted = (short)(wanted | (has(c->sets[i], number) ? events[i] : 0));
        }
        if (wanted && n < most) {
            fds[n] = (struct pollfd){number, wanted, 0};
        }
        n += wanted != 0;
    }
    return n;
}

/* A hang-up, say, is nothing for a number that is only in `urgent`. */
static bool shows(const struct pollfd *p, int i)
{
    static const short shown[3] = {POLLIN | POLLHUP | POLLERR, POLLOUT | POLLERR, POLLPRI};

    return p->revents & shown[i];
}

/* How many are in the sets that are to come out? -1: errno. */
static int count_ready(const struct select_call *c, const struct pollfd *fds, nfds_t n)
{
    int ready = 0;

    for (nfds_t at = 0; at < n; at++) {
        if (fds[at].revents & POLLNVAL) {
            errno = EBADF;
            return -1;
        }
        for (int i = 0; i < 3; i++) {
            ready += has(c->sets[i], fds[at].fd) && shows(&fds[at], i);
        }
    }
    return ready;
}

/* The sets as they come out. False: poll tells of what is nothing for select. */
static bool finish(const struct select_call *c, const struct pollfd *fds, nfds_t n, int *result)
{
    if (*result > 0) {
        *result = count_ready(c, fds, n);
        if (*result == 0) {
            return false;
        }
    }
    for (int i = 0; i < 3 && *result >= 0; i++) {
        for (nfds_t at = 0; at < n; at++) {
            if (has(c->sets[i], fds[at].fd) && !shows(&fds[at], i)) {
                FD_CLR(fds[at].fd, c->sets[i]);
            }
        }
    }
    return true;
}

/* What poll tells of, and is nothing for select, would be told again and again: false, the kernel
 * waits. */
static bool lead_select(const struct select_call *c, int *result)
{
    struct pollfd fds[WAIT_MOST];
    const nfds_t n = as_poll(c, fds, WAIT_MOST);
    const struct wait_poll poll = {fds, n, c->end, c->at_once, NULL, c->handlers};

    return !c->signals && c->n <= FD_SETSIZE && n <= WAIT_MOST && wait_lead_poll(&poll, result) &&
           finish(c, fds, n, result);
}

static int kernel_select(void *arg)
{
    const struct select_call *c = arg;

    for (int i = 0; i < numbers(c); i++) {
        if (has(c->sets[0], i) || has(c->sets[1], i)) {
            wait_follow(i);
        }
    }
    const bool ended = wait_is_ended(c->handlers, c->at_once);
    const int64_t end = ended ? 0 : c->end;
    const struct timespec left = wait_left_of(end);

    return wait_result(real()->pselect(c->n, c->sets[0], c->sets[1], c->sets[2],
                                       end == INT64_MAX ? NULL : &left, c->signals),
                       ended);
}

/* True: poll has done it, which knows how. */
static bool select_changing(const struct select_call *c, int *result)
{
    struct pollfd fds[FD_SETSIZE];
    const nfds_t n = as_poll(c, fds, FD_SETSIZE);
    struct wait_poll poll = {fds, n, c->end, c->at_once, c->signals, c->handlers};

    *result = wait_poll(&poll, true);
    return finish(c, fds, n, result);
}

static int select_until(struct select_call *c)
{
    int result;

    if (c->changes && c->n <= FD_SETSIZE && select_changing(c, &result)) {
        return result;
    }
    if (!iwarp_rs_waits()) {
        return kernel_select(c);
    }
    pthread_testcancel();
    return lead_select(c, &result) ? result : wait_in_kernel(kernel_select, c);
}

EXPORT int select(int n, fd_set *restrict readable, fd_set *restrict writable,
                  fd_set *restrict urgent, struct timeval *restrict timeout)
{
    struct select_call c = {
        n, {readable, writable, urgent}, INT64_MAX, false, NULL, signals_count(), false};

    if (prepare_sets(&c) == 0 || iwarp_rs_is_inside() ||
        (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0))) {
        return real()->select(n, readable, writable, urgent, timeout);
    }
    if (timeout) {
        const struct timespec t = {timeout->tv_sec + timeout->tv_usec / 1000000,
                                   timeout->tv_usec % 1000000 * 1000};
        c.end = wait_end_of(wait_ns_of(&t));
        c.at_once = wait_is_at_once(&t);
    }
    const int result = select_until(&c);
    if (timeout) { /* as Linux does */
        const struct timespec left = wait_left_of(c.end);
        *timeout = (struct timeval){left.tv_sec, left.tv_nsec / 1000};
    }
    return result;
}

EXPORT int pselect(int n, fd_set *restrict readable, fd_set *restrict writable,
                   fd_set *restrict urgent, const struct timespec *restrict timeout,
                   const sigset_t *restrict signals)
{
    struct select_call c = {
        n, {readable, writable, urgent}, INT64_MAX, false, signals, signals_count(), false};

    if (prepare_sets(&c) == 0 || iwarp_rs_is_inside() || !wait_is_time(timeout)) {
        return real()->pselect(n, readable, writable, urgent, timeout, signals);
    }
    c.end = wait_end_of(wait_ns_of(timeout));
    c.at_once = wait_is_at_once(timeout);
    return select_until(&c);
}
