/* SPDX-License-Identifier: BSD-2-Clause */
/* poll and ppoll. */
#include "preload/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* What remains for the kernel: those that are no rsockets. */
struct others {
    struct pollfd fds[WAIT_MOST + 1]; /* one more for the loop */
    unsigned at[WAIT_MOST], count;
};

static bool look_at(struct pollfd *p)
{
    struct sock *s = wait_rsocket(p->fd);
    bool is_rsocket = s != NULL;

    p->revents = s ? iwarp_rs_glance(s->rs, p->events) : 0;
    if (p->revents & POLLNVAL && start_is_carried(s)) {
        p->revents = 0;
        is_rsocket = false;
    }
    sock_put(s);
    return is_rsocket;
}

static int look_at_sockets(const struct wait_poll *c, struct others *others)
{
    int ready = 0;

    others->count = 0;
    for (unsigned i = 0; i < c->n; i++) {
        if (!look_at(&c->fds[i])) {
            others->at[others->count] = i;
            others->fds[others->count++] = c->fds[i];
        }
        ready += c->fds[i].revents != 0;
    }
    return ready;
}

static int look_at_others(const struct wait_poll *c, struct others *others)
{
    int ready = others->count > 0 ? real()->poll(others->fds, others->count, 0) : 0;

    for (unsigned i = 0; i < others->count && ready > 0; i++) {
        c->fds[others->at[i]].revents = others->fds[i].revents;
    }
    return ready > 0 ? ready : 0;
}

bool wait_lead_poll(const struct wait_poll *c, int *result)
{
    SIGNALS_HELD;
    static _Thread_local struct wait_turns turns;
    struct others others;
    bool interrupted = false, over;
    int error = 0, ready;

    do {
        const unsigned seen = iwarp_rs_news();
        pthread_testcancel();
        ready = look_at_sockets(c, &others);
        if (ready == 0 || wait_is_turn(&turns)) {
            error = iwarp_rs_lead(IWARP_RS_POLLED, seen, others.fds, others.count,
                                  ready > 0 ? 0 : c->end, &interrupted);
        }
        over = sock_now_ns() >= c->end;
        ready = ready > 0 ? ready : look_at_sockets(c, &others);
        ready += look_at_others(c, &others);
    } while (error == 0 && ready == 0 && !over && !interrupted);
    *result = ready;
    if (ready == 0 && !c->at_once && interrupted) {
        errno = EINTR;
        *result = -1;
    }
    return ready > 0 || error != EAGAIN || interrupted;
}

static int kernel_poll(void *arg)
{
    const struct wait_poll *c = arg;

    for (nfds_t i = 0; i < c->n; i++) {
        wait_follow(c->fds[i].fd);
    }
    const bool ended = wait_is_ended(c->handlers, c->at_once);
    const int64_t end = ended ? 0 : c->end;
    const struct timespec left = wait_left_of(end);

    return wait_result(real()->ppoll(c->fds, c->n, end == INT64_MAX ? NULL : &left, c->signals),
                       ended);
}

/* How many are rsockets, or become some? */
static unsigned prepare(const struct pollfd *fds, nfds_t n, bool *changes)
{
    unsigned rsockets = 0;

    *changes = false;
    for (nfds_t i = 0; i < n; i++) {
        rsockets += wait_prepare(fds[i].fd, changes);
    }
    return rsockets;
}

/* The faces are right. */
static int poll_faces(struct wait_poll *c)
{
    int result;

    if (!iwarp_rs_waits()) {
        return kernel_poll(c);
    }
    pthread_testcancel();
    return !c->signals && c->n <= WAIT_MOST && wait_lead_poll(c, &result)
               ? result
               : wait_in_kernel(kernel_poll, c);
}

/* A wait of the program's, and the same with stand-ins. */
struct changing {
    const struct wait_poll *given;
    struct wait_poll own;
    int shown;   /* how many the program is to see */
    bool hidden; /* there were others */
    bool part;   /* one of them is shown by the kernel again at once */
};

static void stand_in(struct changing *w)
{
    for (nfds_t i = 0; i < w->own.n; i++) {
        const int other = wait_stand_in(w->given->fds[i].fd);
        w->own.fds[i] = w->given->fds[i];
        w->own.fds[i].fd = other >= 0 ? other : w->own.fds[i].fd;
    }
}

/* One that was not settled is ready, and not as one is that keeps what is written; or a Request has
 * come. */
static bool hides(struct changing *w, const struct pollfd *own, int number)
{
    bool part = false;
    const bool hides =
        own->fd != number ? !wait_is_early(number, own->revents) : start_hides(number, &part);

    w->part = w->part || part;
    return hides;
}

/* What the program is to see. */
static void show(struct changing *w)
{
    const int error = errno;

    w->shown = 0;
    w->hidden = w->part = false;
    for (nfds_t i = 0; i < w->own.n; i++) {
        struct pollfd *given = &w->given->fds[i], *own = &w->own.fds[i];
        const bool hidden = own->revents != 0 && hides(w, own, given->fd);
        given->revents = hidden ? 0 : own->revents;
        w->hidden = w->hidden || hidden;
        w->shown += given->revents != 0;
    }
    errno = error;
}

static void close_stand_ins(struct changing *w)
{
    const int error = errno;

    for (nfds_t i = 0; i < w->own.n; i++) {
        if (w->own.fds[i].fd != w->given->fds[i].fd) {
            real()->close(w->own.fds[i].fd);
            w->own.fds[i].fd = w->given->fds[i].fd;
        }
    }
    errno = error;
}

/* A thread that is cancelled leaves nothing behind, either. */
static void end_changing(void *arg)
{
    struct changing *w = arg;

    close_stand_ins(w);
    free(w->own.fds);
    signals_release();
}

/* What was ready was nothing for the program. True: there is time to wait anew. */
static bool waits_anew(const struct changing *w)
{
    const bool anew = w->hidden && w->shown == 0 && sock_now_ns() < w->given->end;

    if (anew && w->part) {
        sock_rest();
    }
    return anew;
}

/*
 * The kernel looks a number up again each time that it is woken up, but it waits for the first face
 * alone. So the wait is for another descriptor of that face, and begins anew once that is ready. It
 * is inside, since a handler that left it would leave descriptors behind: a signal that has come
 * before is held back, so pending, and with the mask of the beginning it ends the wait at once.
 */
static int wait_inside(const struct wait_poll *c, const sigset_t *mask)
{
    struct changing w = {.given = c, .own = *c};
    bool changes;
    int result;

    signals_hold();
    w.own.fds = calloc(c->n, sizeof *w.own.fds);
    if (!w.own.fds) {
        signals_release();
        errno = ENOMEM;
        return -1;
    }
    memcpy(w.own.fds, c->fds, c->n * sizeof *c->fds);
    w.own.signals = c->signals ? c->signals : mask;
    pthread_cleanup_push(end_changing, &w);
    do {
        stand_in(&w);
        (void)prepare(w.own.fds, c->n, &changes);
        result = poll_faces(&w.own);
        show(&w);
        close_stand_ins(&w);
    } while (result > 0 && waits_anew(&w));
    pthread_cleanup_pop(1); /* handlers run */
    result = result > 0 ? w.shown : result;
    return c->at_once && result < 0 && errno == EINTR ? 0 : result;
}

/* The program may let signals in for the wait alone. */
static int poll_changing(const struct wait_poll *c)
{
    sigset_t mask;

    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    const int result = wait_inside(c, &mask);
    if (c->signals) {
        pthread_sigmask(SIG_SETMASK, &mask, NULL);
    }
    return result;
}

int wait_poll(struct wait_poll *c, bool changes)
{
    return changes ? poll_changing(c) : poll_faces(c);
}

#define NEVER_TOO_MANY 256 /* for one more call to the kernel, each time */

/* The kernel refuses these, whatever memory is behind the first ones. */
static bool are_too_many(nfds_t n)
{
    struct rlimit limit;

    return n > NEVER_TOO_MANY && getrlimit(RLIMIT_NOFILE, &limit) == 0 && n > limit.rlim_cur;
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout)
{
    const unsigned handlers = signals_count();
    bool changes;

    if (are_too_many(n) || prepare(fds, n, &changes) == 0 || iwarp_rs_is_inside()) {
        return real()->poll(fds, n, timeout);
    }
    return wait_poll(&(struct wait_poll){fds, n, wait_end_of(timeout * INT64_C(1000000)),
                                         timeout == 0, NULL, handlers},
                     changes);
}

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                 const sigset_t *signals)
{
    const unsigned handlers = signals_count();
    bool changes;

    if (are_too_many(n) || prepare(fds, n, &changes) == 0 || iwarp_rs_is_inside() ||
        !wait_is_time(timeout)) {
        return real()->ppoll(fds, n, timeout, signals);
    }
    const bool at_once = wait_is_at_once(timeout);
    return wait_poll(
        &(struct wait_poll){fds, n, wait_end_of(wait_ns_of(timeout)), at_once, signals, handlers},
        changes);
}
