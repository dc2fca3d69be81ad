/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that wait for several sockets, in poll, select or epoll_wait. A thread that has earned it
 * runs the loop meanwhile (base/lead.h), and looks itself at the sockets of the epoll set for which
 * it waits, or which it polls: it *leads* for the set. That saves a change of threads, the two
 * system calls for the face of each message, and those of epoll_ctl.
 *
 *   | event                                     | action                                          |
 *   |-------------------------------------------|-------------------------------------------------|
 *   | a socket of the set has something new, or | it becomes one of the leader's: the kernel's    |
 *   | is watched in another way                 | set does not watch it, and its face stays as it |
 *   |                                           | is. If there is something to tell, it is due.   |
 *   | the leader looks                          | it takes what is due; a socket that is ready    |
 *   |                                           | without EPOLLET is due again at once            |
 *   | a call has used up what was there         | the socket is due no more                       |
 *   | the leader waits for another set          | nobody leads: the kernel's set watches the      |
 *   | the leader has lost the loop              | leader's sockets again, and their faces follow  |
 *   | in 4 ms nothing of the set became ready   |                                                 |
 *   | another thread waits in the kernel        |                                                 |
 *   | the process forks; the set is closed      |                                                 |
 *
 * A socket that several sets watch, or that has several numbers, EPOLLONESHOT or EPOLLEXCLUSIVE, is
 * never the leader's, nor is one of a set that is shared (preload/sets.h).
 *
 * Invariant: the kernel's sets and the faces are right while a thread waits in the kernel for an
 * rsocket, but for the leader, which finds its sockets due.
 */
#include "rspreload/lead.h"

#include "base/beside.h"
#include "rspreload/adopt.h"

#include <errno.h>

_Static_assert(RS_NO_SET == IWARP_RS_NO_SET, "the preload library and rsockets mean the same");

/* --- sockets of the set ---------------------------------------------------------------------- */

/* From here on the leader tells nothing of it, until rs_show. */
static void watched(struct rs *s, int set, int number, const struct epoll_event *event,
                    bool in_kernel)
{
    rs_lead_not(s);
    s->told = 0;
    s->number = number;
    s->wanted = *event;
    s->in_kernel = in_kernel;
    atomic_store(&s->set, set);
}

void iwarp_rs_watched(int fd, int set, int number, const struct epoll_event *event)
{
    struct rs *s = rs_take(fd);

    if (s) {
        watched(s, set, number, event, true);
        rs_give_back(s);
    }
}

void iwarp_rs_to_kernel(int fd)
{
    struct rs *s = rs_take(fd);

    if (s) {
        if (!s->in_kernel) {
            (void)rs_watch_in_kernel(s, true);
        }
        watched(s, IWARP_RS_IN_SETS, -1, &s->wanted, true);
        rs_give_back(s);
    }
}

void iwarp_rs_set_closed(int set)
{
    if (rs_leads_for(set)) {
        rs_lead_for(RS_NO_SET);
    }
}

void iwarp_rs_unwatched(int fd)
{
    struct rs *s = rs_take(fd);

    if (s) {
        (void)rs_watch_in_kernel(s, false);
        watched(s, RS_NO_SET, -1, &s->wanted, false);
        rs_give_back(s);
    }
}

/* The kernel's answer where it is asked, else the same. */
static int control(struct rs *s, int op, int set, int number, const struct epoll_event *event)
{
    const bool is_there = atomic_load(&s->set) == set;

    if (op == EPOLL_CTL_ADD && is_there) {
        return rs_fail(EEXIST);
    }
    if (op != EPOLL_CTL_ADD && !is_there) { /* ENOENT, or something is wrong with the set */
        struct epoll_event none = {0};
        return rs_ask_kernel(set, op, number, &none);
    }
    if (op == EPOLL_CTL_DEL) {
        int result = rs_watch_in_kernel(s, false);
        watched(s, RS_NO_SET, -1, &s->wanted, false);
        return result;
    }
    struct epoll_event before = s->wanted;
    watched(s, set, number, event, s->in_kernel);
    if (rs_is_led(s) || rs_watch_in_kernel(s, true) == 0) {
        return 0;
    }
    watched(s, is_there ? set : RS_NO_SET, number, &before, s->in_kernel);
    return -1;
}

int iwarp_rs_ctl(int fd, int op, int set, int number, const struct epoll_event *event)
{
    struct rs *s = rs_take(fd);
    int result = -1, error;

    if (s) {
        result = control(s, op, set, number, event);
        error = errno;
        rs_give_back(s);
        errno = error;
    }
    return result;
}

/* Its lock is held. */
static bool tell(struct rs *s, struct epoll_event *event)
{
    rs_look(s);
    if (s->closed) {
        return false;
    }
    event->events = rs_news_of(s);
    event->data = s->wanted.data;
    s->told = event->events;
    s->told_arrived = s->arrived;
    return event->events != 0;
}

/* What the kernel may tell of in the same wait becomes the leader's first, and is due to it then.
 */
int iwarp_rs_take(int set, struct epoll_event *events, int most)
{
    struct rs *s = NULL;
    int n = 0;

    for (unsigned left = rs_led_count(); n < most && left > 0 && (s = rs_led_next(s)); left--) {
        pthread_mutex_lock(&s->lock);
        n += atomic_load(&s->set) == set && !s->in_kernel && tell(s, &events[n]);
        rs_unlock(s);
    }
    if (s) {
        rs_led_seen(s);
    }
    return n;
}

short iwarp_rs_glance(int fd, short events)
{
    const uint32_t all = (uint32_t)(unsigned short)events | RS_ALWAYS;
    struct rs *s = rs_take(fd);

    if (!s) {
        return POLLNVAL;
    }
    if (rs_is_others(s)) {
        rs_give_back(s);
        return POLLNVAL;
    }
    rs_look(s);
    if (atomic_load(&s->set) == RS_NO_SET || atomic_load(&s->set) == IWARP_RS_POLLED) {
        s->wanted.events = all;
        atomic_store(&s->set, IWARP_RS_POLLED);
    }
    events = (short)((uint32_t)(unsigned short)rs_events(s) & all);
    rs_give_back(s);
    return events;
}

void iwarp_rs_follow(int fd)
{
    struct rs *s = rs_take(fd);

    if (s) {
        if (atomic_load(&s->set) == IWARP_RS_POLLED) {
            atomic_store(&s->set, RS_NO_SET);
        }
        rs_give_back(s);
    }
}

/* --- waiting --------------------------------------------------------------------------------- */

struct wait {
    struct iwarp_beside beside;
    int set;
    unsigned shown, news;
};

static bool is_over(void *arg)
{
    const struct wait *w = arg;

    return w->beside.ready != 0 || rs_signal_came() ||
           (w->set == IWARP_RS_POLLED ? rs_led_news() != w->news : rs_led_count() > 0) ||
           rs_shown() != w->shown ||
           (w->beside.until_ns != INT64_MAX && rs_now_ns() >= w->beside.until_ns);
}

bool iwarp_rs_is_inside(void)
{
    struct iwarp_device *d = rs_watched_device();

    return d && iwarp_compat_runs_loop(d);
}

bool iwarp_rs_waits(void)
{
    return rs_watched_device() && !iwarp_rs_is_inside();
}

unsigned iwarp_rs_news(void)
{
    return rs_led_news();
}

/* Where this thread counts as one that sleeps. A handler may have left the sleep by siglongjmp. */
static _Thread_local struct iwarp_device *sleeps;

int iwarp_rs_lead(int set, unsigned seen, struct pollfd *fds, unsigned n, int64_t until_ns,
                  bool *interrupted)
{
    struct wait w = {{fds, n, until_ns, 0}, set, rs_shown(), seen};
    struct iwarp_device *d = rs_watched_device();
    int error = EAGAIN;

    if (sleeps) {
        iwarp_rs_end_sleep();
    }
    if (d) {
        rs_lead_for(iwarp_compat_leads(d) ? set : RS_NO_SET);
        error = iwarp_compat_lead_held(d, &w.beside, is_over, &w);
        if (error) {
            rs_lead_for(RS_NO_SET);
        } else {
            iwarp_compat_waited(d);
        }
    }
    *interrupted = rs_signal_came();
    return error;
}

void iwarp_rs_begin_sleep(void)
{
    struct iwarp_device *d = rs_watched_device();

    if (d && sleeps != d) {
        sleeps = d;
        iwarp_compat_begin_sleep(d);
    }
    if (d) {
        rs_lead_for(RS_NO_SET);
    }
}

void iwarp_rs_end_sleep(void)
{
    struct iwarp_device *d = rs_watched_device();

    if (d && sleeps == d) { /* in a child it is another one */
        iwarp_compat_end_sleep(d);
        iwarp_compat_waited(d);
    }
    sleeps = NULL;
}
