/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/arrivals.h"

#include "preload/sets.h"
#include "preload/start.h"

#define AT_A_TIME 64 /* events for one walk over those that have arrived */

struct search {
    int epoll, n;
    const struct epoll_event *events;
    int found[AT_A_TIME]; /* the number of the event at the same place; -1: none of these */
    bool any;             /* the set has some, whatever has happened */
};

static void compare(struct search *search, const struct sock_watch *w)
{
    for (int i = 0; i < search->n; i++) {
        if (search->events[i].data.u64 == w->event.data.u64) {
            search->found[i] = w->number;
        }
    }
}

/* The table's lock is held. */
static void look(struct sock *s, void *arg)
{
    struct search *search = arg;

    for (const struct sock_watch *w = s->watches; w; w = w->next) {
        if (w->epoll == search->epoll && arrivals_concern(&w->event)) {
            search->any = true;
            compare(search, w);
        }
    }
}

static void find(struct search *search)
{
    for (int i = 0; i < search->n; i++) {
        search->found[i] = -1;
    }
    sock_each_arrived(look, search);
}

static bool is_hidden(int number, bool *part)
{
    bool part_of_this = false;
    const bool hidden = number >= 0 && start_hides(number, &part_of_this);

    *part = *part || part_of_this;
    return hidden;
}

bool arrivals_concern(const struct epoll_event *event)
{
    return !(event->events & (EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE));
}

/*
 * The set is marked by epoll_ctl, after it has noted the socket: what is marked before the search
 * is found.
 */
int arrivals_hide(int epoll, struct epoll_event *events, int n, bool *part)
{
    struct search search = {.epoll = epoll};
    int left = 0;

    if (n <= 0 || !set_has_arrivals(epoll)) {
        return n;
    }
    SIGNALS_HELD;
    set_mark_arrivals(epoll, false);
    for (int first = 0; first < n; first += AT_A_TIME) {
        search.events = events + first;
        search.n = n - first < AT_A_TIME ? n - first : AT_A_TIME;
        find(&search);
        for (int i = 0; i < search.n; i++) {
            if (!is_hidden(search.found[i], part)) {
                events[left++] = events[first + i];
            }
        }
    }
    if (search.any) {
        set_mark_arrivals(epoll, true);
    }
    return left;
}
