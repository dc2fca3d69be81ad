/* SPDX-License-Identifier: BSD-2-Clause */
/* epoll_wait and its kin; epoll_ctl, and sets that are made. */
#include "preload/wait.h"

#include "preload/arrivals.h"
#include "preload/own.h"
#include "preload/sets.h"

#include <errno.h>
#include <limits.h>

struct epoll_call {
    int epoll, most;
    struct epoll_event *events;
    int64_t end;
    bool at_once; /* the time-out is 0: a signal does not end the call */
    bool fine;    /* the time-out is finer than milliseconds */
    const sigset_t *signals;
    unsigned handlers; /* signals_count at its beginning */
};

static int kernel_has(const struct epoll_call *c)
{
    return real()->epoll_wait(c->epoll, c->events, c->most, 0);
}

/* Of sets with the same last bits, on one thread. */
struct set_turns {
    struct wait_turns turns;
    bool kernel; /* the last call told of what else is in the set */
};

/*
 * Sockets are taken here; what else is in the set is the kernel's, and has its turn now and then.
 * Not both for one call: a socket may go from one to the other meanwhile, and would be told of
 * twice. True: it is over.
 */
static bool lead_epoll(const struct epoll_call *c, int *result)
{
    SIGNALS_HELD;
    static _Thread_local struct set_turns all[16];
    struct set_turns *t = &all[(unsigned)c->epoll % 16];
    bool interrupted = false, over = false;
    int error = 0, n = 0;

    while (error == 0 && n == 0 && !over && !interrupted) {
        struct pollfd set[2] = {{.fd = c->epoll, .events = POLLIN}}; /* one more for the loop */
        const bool turn = wait_is_turn(&t->turns);
        const bool again = turn && t->kernel; /* it may always be ready: sockets come first now */
        t->kernel = false;
        pthread_testcancel();
        n = turn ? 0 : iwarp_rs_take(c->epoll, c->events, c->most);
        if (n == 0) {
            error = iwarp_rs_lead(c->epoll, 0, set, 1, c->end, &interrupted);
            n = error == 0 && !again && (turn || set[0].revents) ? kernel_has(c) : 0;
            t->kernel = n > 0;
        }
        if (error == 0 && n == 0) {
            n = iwarp_rs_take(c->epoll, c->events, c->most);
        }
        over = sock_now_ns() >= c->end;
    }
    n = error == 0 && n == 0 ? kernel_has(c) : n;
    *result = n;
    if (n == 0 && !c->at_once && interrupted) {
        errno = EINTR;
        *result = -1;
    }
    return n != 0 || error != EAGAIN || interrupted;
}

static int kernel_epoll(void *arg)
{
    const struct epoll_call *c = arg;

    const bool ended = wait_is_ended(c->handlers, c->at_once);
    const int64_t end = ended ? 0 : c->end;
    const struct timespec left = wait_left_of(end);
    if (c->fine) {
        return wait_result(real()->epoll_pwait2(c->epoll, c->events, c->most,
                                                end == INT64_MAX ? NULL : &left, c->signals),
                           ended);
    }
    const int64_t ms = left.tv_sec * INT64_C(1000) + (left.tv_nsec + 999999) / 1000000;

    return wait_result(real()->epoll_pwait(c->epoll, c->events, c->most,
                                           end == INT64_MAX ? -1
                                           : ms > INT_MAX   ? INT_MAX
                                                            : (int)ms,
                                           c->signals),
                       ended);
}

/* The set that this thread waits for, which a handler may have left by siglongjmp; -1: none. */
static _Thread_local int waits_for = -1;

static void end_wait(void *unused)
{
    SIGNALS_HELD;

    (void)unused;
    if (waits_for >= 0) {
        set_end_wait(waits_for);
    }
    waits_for = -1;
}

/* A set without rsockets may come to have some meanwhile: nobody leads for it then. */
static int wait_and_count(struct epoll_call *c)
{
    int n;

    signals_hold();
    end_wait(NULL);
    set_begin_wait(c->epoll);
    waits_for = c->epoll;
    signals_release();
    pthread_cleanup_push(end_wait, NULL);
    n = set_kind(c->epoll) == SET_HAS_RSOCKETS ? wait_in_kernel(kernel_epoll, c) : kernel_epoll(c);
    pthread_cleanup_pop(1);
    return n;
}

static bool may_lead(const struct epoll_call *c)
{
    return set_kind(c->epoll) == SET_HAS_RSOCKETS && !set_is_shared(c->epoll) &&
           !set_is_waited_for(c->epoll) && !c->signals && c->most > 0;
}

static int epoll_once(struct epoll_call *c)
{
    int result;

    pthread_testcancel();
    return may_lead(c) && lead_epoll(c, &result) ? result : wait_and_count(c);
}

/* Until there is something for the program. */
static int epoll_until(struct epoll_call *c)
{
    bool part = false;
    int had, n;

    do {
        if (part) {
            sock_rest();
        }
        part = false;
        had = epoll_once(c);
        n = arrivals_hide(c->epoll, c->events, had, &part);
    } while (n == 0 && had > 0 && sock_now_ns() < c->end);
    return n;
}

/* The library's own threads, and numbers that are no set, are the kernel's. */
static bool is_ours(int epoll)
{
    return set_kind(epoll) != SET_NONE && !iwarp_rs_is_inside();
}

EXPORT int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    const unsigned handlers = signals_count();

    if (!is_ours(epoll)) {
        return real()->epoll_wait(epoll, events, most, timeout);
    }
    return epoll_until(&(struct epoll_call){epoll, most, events,
                                            wait_end_of(timeout * INT64_C(1000000)), timeout == 0,
                                            false, NULL, handlers});
}

EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout,
                       const sigset_t *signals)
{
    const unsigned handlers = signals_count();

    if (!is_ours(epoll)) {
        return real()->epoll_pwait(epoll, events, most, timeout, signals);
    }
    return epoll_until(&(struct epoll_call){epoll, most, events,
                                            wait_end_of(timeout * INT64_C(1000000)), timeout == 0,
                                            false, signals, handlers});
}

EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int most,
                        const struct timespec *timeout, const sigset_t *signals)
{
    const unsigned handlers = signals_count();

    if (!is_ours(epoll) || !wait_is_time(timeout)) {
        return real()->epoll_pwait2(epoll, events, most, timeout, signals);
    }
    const bool at_once = wait_is_at_once(timeout);
    return epoll_until(&(struct epoll_call){epoll, most, events, wait_end_of(wait_ns_of(timeout)),
                                            at_once, true, signals, handlers});
}

/* --- sets ------------------------------------------------------------------------------------ */

static int made(int epoll)
{
    if (epoll >= 0 && sock_mine()) {
        sock_set_closed(epoll); /* where this library did not see it */
        set_has(epoll, SET_EMPTY);
    }
    return epoll;
}

EXPORT int epoll_create(int size)
{
    return made(real()->epoll_create(size));
}

EXPORT int epoll_create1(int flags)
{
    return made(own_number(real()->epoll_create1(flags)));
}

/* A set in another one. */
static void note_nested(int epoll, int op, int number)
{
    if (op == EPOLL_CTL_ADD && set_kind(number) != SET_NONE && sock_mine()) {
        sock_set_shared(number);
        set_has(epoll, SET_HAS_RSOCKETS);
    }
}

EXPORT int epoll_ctl(int epoll, int op, int number, struct epoll_event *event)
{
    struct sock *s = sock_get(number);
    const bool is_valid = epoll >= 0 && (op == EPOLL_CTL_DEL ||
                                         (event && (op == EPOLL_CTL_ADD || op == EPOLL_CTL_MOD)));

    if (!s || !is_valid) {
        sock_put(s);
        note_nested(epoll, op, number);
        return real()->epoll_ctl(epoll, op, number, event);
    }
    if (op != EPOLL_CTL_DEL) {
        (void)start_use(&s, number, USE_WAIT, false);
    }
    const int result = s->state == SOCK_PLAIN ? real()->epoll_ctl(epoll, op, number, event)
                                              : sock_watch(s, epoll, op, number, event);
    if (op != EPOLL_CTL_DEL && s->state == SOCK_ARRIVED && arrivals_concern(event)) {
        set_mark_arrivals(epoll, true);
    }
    if (op != EPOLL_CTL_DEL && s->state == SOCK_RDMA && !s->watched) { /* by another thread's use */
        (void)start_use(&s, number, USE_WAIT, false);
    }
    sock_put(s);
    return result;
}
