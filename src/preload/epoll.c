/* SPDX-License-Identifier: BSD-2-Clause */
/* epoll_ctl, epoll_wait and its kin. */
#include "preload/wait.h"

#include <errno.h>
#include <limits.h>

struct epoll_call {
    int epoll, most;
    struct epoll_event *events;
    int64_t end;
    const sigset_t *signals;
};

/* What is ready now. */
static int kernel_has(const struct epoll_call *c, int n)
{
    return real()->epoll_wait(c->epoll, c->events + n, c->most - n, 0);
}

/* Sockets are taken here; what else is in the set is the kernel's. True: it is over. */
static bool lead_epoll(const struct epoll_call *c, int *result)
{
    static _Thread_local unsigned calls;
    int error = 0, n = 0;

    do {
        struct pollfd set[2] = {{.fd = c->epoll, .events = POLLIN}}; /* one more for the loop */
        const bool looks = ++calls % WAIT_EVERY == 0;
        n = looks ? 0 : iwarp_rs_take(c->epoll, c->events, c->most);
        if (n == 0) {
            error = iwarp_rs_lead(c->epoll, 0, set, 1, c->end);
            /* Now and then the kernel's go first, so that the others do not take all the room. */
            n = error || !(looks || set[0].revents) ? 0 : kernel_has(c, 0);
            n = error || n < 0 ? n : n + iwarp_rs_take(c->epoll, c->events + n, c->most - n);
        }
    } while (error == 0 && n == 0 && wait_now_ns() < c->end);
    if (error == 0 && n == 0) {
        n = kernel_has(c, 0);
    }
    if (error == EINTR) {
        errno = EINTR;
        n = -1;
    }
    *result = n;
    return error == 0 || error == EINTR;
}

static int kernel_epoll(void *arg)
{
    const struct epoll_call *c = arg;
    const struct timespec left = wait_left_of(c->end);
    const int64_t ms = left.tv_sec * INT64_C(1000) + (left.tv_nsec + 999999) / 1000000;

    return real()->epoll_pwait(c->epoll, c->events, c->most,
                               c->end == INT64_MAX ? -1
                               : ms > INT_MAX      ? INT_MAX
                                                   : (int)ms,
                               c->signals);
}

static int epoll_until(struct epoll_call *c)
{
    int result;

    pthread_testcancel();
    return !c->signals && c->most > 0 && lead_epoll(c, &result) ? result
                                                                : wait_in_kernel(kernel_epoll, c);
}

EXPORT int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    if (!sock_set_waits(epoll) || !iwarp_rs_waits()) {
        return real()->epoll_wait(epoll, events, most, timeout);
    }
    return epoll_until(
        &(struct epoll_call){epoll, most, events, wait_end_of(timeout * INT64_C(1000000)), NULL});
}

EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout,
                       const sigset_t *signals)
{
    if (!sock_set_waits(epoll) || !iwarp_rs_waits()) {
        return real()->epoll_pwait(epoll, events, most, timeout, signals);
    }
    return epoll_until(&(struct epoll_call){epoll, most, events,
                                            wait_end_of(timeout * INT64_C(1000000)), signals});
}

EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int most,
                        const struct timespec *timeout, const sigset_t *signals)
{
    if (!sock_set_waits(epoll) || !iwarp_rs_waits() || !wait_is_time(timeout)) {
        return real()->epoll_pwait2(epoll, events, most, timeout, signals);
    }
    return epoll_until(
        &(struct epoll_call){epoll, most, events, wait_end_of(wait_ns_of(timeout)), signals});
}

EXPORT int epoll_ctl(int epoll, int op, int number, struct epoll_event *event)
{
    struct sock *s = sock_get(number);

    if (!s) {
        return real()->epoll_ctl(epoll, op, number, event);
    }
    if (op != EPOLL_CTL_DEL) {
        (void)start_use(s, number, USE_WAIT, false);
    }
    const int result = s->state == SOCK_PLAIN ? real()->epoll_ctl(epoll, op, number, event)
                                              : sock_watch(s, epoll, op, number, event);
    sock_put(s);
    return result;
}
