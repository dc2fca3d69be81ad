/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many connections in turns over plain TCP, as `iwarp-bench tcp-active` fills them: the server
 * reads from each that has something. Both sleep in epoll_wait only when there is nothing to do.
 */
#include "flow.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 256

/*
 * One message to each that has room; or, if not `more`, only the rest of one that was begun. How
 * many are full then.
 */
static unsigned give_each(struct bench_tcp_crowd *crowd, bool more)
{
    unsigned full = 0;

    for (unsigned i = 0; i < crowd->options->count; i++) {
        struct bench_tcp_flow *flow = &crowd->flow[i];
        if (!flow->full && (more || flow->at > 0)) {
            bench_tcp_crowd_give(crowd, flow);
        }
        full += flow->full;
    }
    return full;
}

static uint64_t octets_sent(const struct bench_tcp_crowd *crowd)
{
    uint64_t messages = 0;

    for (unsigned i = 0; i < crowd->options->count; i++) {
        messages += crowd->flow[i].done;
    }
    return messages * crowd->options->octets;
}

/*
 * What the server has taken counts: so many sockets hold more than a turn moves. It ends when the
 * server has taken all.
 */
static void play(void *arg, struct turn *turn)
{
    struct bench_tcp_crowd *crowd = (struct bench_tcp_crowd *)arg;
    unsigned count = crowd->options->count, full = 0;
    uint64_t before = turn_taken() / crowd->options->octets;
    bool more = true;

    while (more || full > 0) {
        if (full > 0) {
            bench_tcp_crowd_await_room(crowd, full == count || !more);
        }
        full = give_each(crowd, more);
        uint64_t taken = turn_taken() / crowd->options->octets;
        more = more && turn_goes_on(turn, taken - before);
        before = taken;
    }
    turn_await_taken(octets_sent(crowd));
}

void turns_tcp_crowd_client(struct bench_link *link)
{
    static struct bench_tcp_crowd crowd;

    bench_tcp_crowd_connect(&crowd, link);
    turn_play(link, play, &crowd);
}

void turns_tcp_crowd_server(struct bench_link *link)
{
    static struct bench_tcp_crowd crowd;
    struct epoll_event events[EVENTS];

    bench_tcp_crowd_accept(&crowd, link);
    turn_serve();
    for (;;) {
        int n = epoll_wait(crowd.epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            int fd = crowd.flow[events[i].data.u32].fd;
            ssize_t got = recv(fd, crowd.memory, link->options->octets, MSG_DONTWAIT);
            if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
                _exit(0); /* the client has ended */
            }
            turn_took(got > 0 ? (uint64_t)got : 0);
        }
    }
}
