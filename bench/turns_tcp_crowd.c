/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many connections in turns over plain TCP: the client sends one message to each socket that takes
 * it, one after the other; the server reads from each that has something. Both sleep in epoll_wait
 * only when there is nothing to do.
 */
#include "flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 256

struct wire {
    int fd;
    size_t at; /* octets of its message that are out */
    bool full; /* the socket took less than was offered */
};

struct wires {
    const struct bench_options *options;
    struct wire *wire;
    uint8_t *memory; /* a message, at the server what one read takes */
    int epoll;
    uint64_t sent; /* octets */
};

static void open_wires(struct wires *all, const struct bench_options *options)
{
    *all = (struct wires){.options = options};
    bench_raise_limit(options->count);
    all->wire = calloc(options->count, sizeof *all->wire);
    all->memory = malloc(options->octets);
    all->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!all->wire || !all->memory || all->epoll < 0) {
        bench_fail("no memory for %u connections", options->count);
    }
    memset(all->memory, 1, options->octets);
}

static void watch(struct wires *all, unsigned i, uint32_t events, int fd)
{
    struct epoll_event event = {.events = events, .data.u32 = i};

    all->wire[i].fd = fd;
    if (epoll_ctl(all->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        bench_fail("epoll_ctl: %s", strerror(errno));
    }
}

/* --- client ---------------------------------------------------------------------------------- */

/* As much of its message as the socket takes. */
static void give(struct wires *all, struct wire *wire)
{
    size_t left = all->options->octets - wire->at;
    ssize_t n = send(wire->fd, all->memory + wire->at, left, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        _exit(1); /* the server has ended */
    }
    n = n > 0 ? n : 0;
    all->sent += (uint64_t)n;
    wire->full = (size_t)n < left;
    wire->at = wire->full ? wire->at + (size_t)n : 0;
}

/* Those that have room again; sleeps for it if all were full. */
static void await_room(struct wires *all, bool all_full)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(all->epoll, events, EVENTS, all_full ? -1 : 0);

    for (int i = 0; i < n; i++) {
        all->wire[events[i].data.u32].full = false;
    }
}

/*
 * One message to each that has room; or, if not `more`, only the rest of one that was begun. How
 * many are full then.
 */
static unsigned give_each(struct wires *all, bool more)
{
    unsigned full = 0;

    for (unsigned i = 0; i < all->options->count; i++) {
        struct wire *wire = &all->wire[i];
        if (!wire->full && (more || wire->at > 0)) {
            give(all, wire);
        }
        full += wire->full;
    }
    return full;
}

/*
 * What the server has taken counts: so many sockets hold more than a turn moves. It ends when the
 * server has taken all.
 */
static void crowd(void *arg, struct turn *turn)
{
    struct wires *all = (struct wires *)arg;
    unsigned count = all->options->count, full = 0;
    uint64_t before = turn_taken() / all->options->octets;
    bool more = true;

    while (more || full > 0) {
        if (full > 0) {
            await_room(all, full == count || !more);
        }
        full = give_each(all, more);
        uint64_t taken = turn_taken() / all->options->octets;
        more = more && turn_goes_on(turn, taken - before);
        before = taken;
    }
    turn_await_taken(all->sent);
}

void turns_tcp_crowd_client(struct bench_link *link)
{
    static struct wires all;
    struct sockaddr_storage addr;
    socklen_t addr_len;

    open_wires(&all, link->options);
    bench_address(link, &addr, &addr_len);
    for (unsigned i = 0; i < link->options->count; i++) {
        watch(&all, i, EPOLLOUT | EPOLLET, bench_tcp_connect((struct sockaddr *)&addr, addr_len));
    }
    turn_play(link, crowd, &all);
}

/* --- server ---------------------------------------------------------------------------------- */

void turns_tcp_crowd_server(struct bench_link *link)
{
    static struct wires all;
    struct epoll_event events[EVENTS];

    open_wires(&all, link->options);
    int listener = bench_tcp_listen(link, 4096);
    for (unsigned i = 0; i < link->options->count; i++) {
        watch(&all, i, EPOLLIN, bench_tcp_accept(listener));
    }
    close(listener);
    turn_serve();
    for (;;) {
        int n = epoll_wait(all.epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            ssize_t got = recv(all.wire[events[i].data.u32].fd, all.memory, link->options->octets,
                               MSG_DONTWAIT);
            if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
                _exit(0); /* the client has ended */
            }
            turn_took(got > 0 ? (uint64_t)got : 0);
        }
    }
}
