/* SPDX-License-Identifier: BSD-2-Clause */
/* poll and ppoll. */
#include "preload/wait.h"

#include <errno.h>

/* What remains for the kernel: those that are no rsockets. */
struct others {
    struct pollfd fds[WAIT_MOST + 1]; /* one more for the loop */
    unsigned at[WAIT_MOST], count;
};

static bool look_at(struct pollfd *p)
{
    struct sock *s = wait_rsocket(p->fd);

    p->revents = s ? iwarp_rs_glance(s->rs, p->events) : 0;
    sock_put(s);
    return s != NULL;
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
    static _Thread_local unsigned calls;
    struct others others;
    bool interrupted = false, over;
    int error = 0, ready;

    do {
        const unsigned seen = iwarp_rs_news();
        pthread_testcancel();
        ready = look_at_sockets(c, &others);
        if (ready == 0 || ++calls % WAIT_EVERY == 0) {
            error = iwarp_rs_lead(IWARP_RS_POLLED, seen, others.fds, others.count,
                                  ready > 0 ? 0 : c->end, &interrupted);
        }
        over = sock_now_ns() >= c->end;
        ready = ready > 0 ? ready : look_at_sockets(c, &others);
        ready += look_at_others(c, &others);
    } while (error == 0 && ready == 0 && !over && !interrupted);
    *result = ready;
    if (ready == 0 && !c->at_once && (error == EINTR || interrupted)) {
        errno = EINTR;
        *result = -1;
    }
    return ready > 0 || error != EAGAIN;
}

static int kernel_poll(void *arg)
{
    const struct wait_poll *c = arg;

    for (nfds_t i = 0; i < c->n; i++) {
        wait_follow(c->fds[i].fd);
    }
    const struct timespec left = wait_left_of(c->end);

    return real()->ppoll(c->fds, c->n, c->end == INT64_MAX ? NULL : &left, c->signals);
}

/* How many are rsockets? */
static unsigned prepare(const struct pollfd *fds, nfds_t n)
{
    unsigned rsockets = 0;

    for (nfds_t i = 0; i < n; i++) {
        rsockets += wait_prepare(fds[i].fd);
    }
    return rsockets;
}

static int poll_until(struct wait_poll *c)
{
    int result;

    pthread_testcancel();
    return !c->signals && c->n <= WAIT_MOST && wait_lead_poll(c, &result)
               ? result
               : wait_in_kernel(kernel_poll, c);
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout)
{
    if (prepare(fds, n) == 0 || !iwarp_rs_waits()) {
        return real()->poll(fds, n, timeout);
    }
    return poll_until(
        &(struct wait_poll){fds, n, wait_end_of(timeout * INT64_C(1000000)), timeout == 0, NULL});
}

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                 const sigset_t *signals)
{
    if (prepare(fds, n) == 0 || !iwarp_rs_waits() || !wait_is_time(timeout)) {
        return real()->ppoll(fds, n, timeout, signals);
    }
    const bool at_once = wait_is_at_once(timeout);
    return poll_until(
        &(struct wait_poll){fds, n, wait_end_of(wait_ns_of(timeout)), at_once, signals});
}

int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                const sigset_t *signals, size_t room);
_Noreturn void __chk_fail(void);

EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room)
{
    return n <= room / sizeof *fds ? poll(fds, n, timeout) : (__chk_fail(), -1);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
                       const sigset_t *signals, size_t room)
{
    return n <= room / sizeof *fds ? ppoll(fds, n, timeout, signals) : (__chk_fail(), -1);
}
