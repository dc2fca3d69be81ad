/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many connections that are all busy, over plain TCP: what `active` is compared with. The client
 * sends one message to each socket that takes it, in turn; the server receives from each that has
 * something. Both sleep in epoll_wait only when there is nothing to do.
 */
#include "bench.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 256

static void crowd_open(struct bench_tcp_crowd *crowd, const struct bench_options *options)
{
    crowd->options = options;
    bench_raise_limit(options->count);
    crowd->flow = calloc(options->count, sizeof *crowd->flow);
    crowd->memory = malloc(options->octets);
    crowd->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!crowd->flow || !crowd->memory || crowd->epoll < 0) {
        bench_fail("no memory for %u connections", options->count);
    }
}

static void watch(struct bench_tcp_crowd *crowd, unsigned i, uint32_t events, int fd)
{
    struct epoll_event event = {.events = events, .data.u32 = i};

    crowd->flow[i].fd = fd;
    if (epoll_ctl(crowd->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        bench_fail("epoll_ctl: %s", strerror(errno));
    }
}

static void crowd_close(struct bench_tcp_crowd *crowd)
{
    for (unsigned i = 0; i < crowd->options->count; i++) {
        close(crowd->flow[i].fd);
    }
    close(crowd->epoll);
    free(crowd->flow);
    free(crowd->memory);
}

/* --- server ---------------------------------------------------------------------------------- */

void bench_tcp_crowd_accept(struct bench_tcp_crowd *crowd, struct bench_link *link)
{
    crowd_open(crowd, link->options);
    int listener = bench_tcp_listen(link, 4096);
    for (unsigned i = 0; i < crowd->options->count; i++) {
        watch(crowd, i, EPOLLIN, bench_tcp_accept(listener));
    }
    close(listener);
}

/* One read. False: the peer has closed. */
static bool take(struct bench_tcp_crowd *crowd, struct bench_tcp_flow *flow)
{
    size_t octets = crowd->options->octets;
    ssize_t n = recv(flow->fd, crowd->memory + flow->at, octets - flow->at, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    if (n > 0 && (flow->at += (size_t)n) == octets) {
        flow->at = 0;
        flow->done++;
    }
    return n > 0;
}

void bench_tcp_crowd_server(struct bench_link *link)
{
    const struct bench_options *options = link->options;
    struct epoll_event events[EVENTS];
    struct bench_report report = {0};
    struct bench_tcp_crowd crowd;

    bench_tcp_crowd_accept(&crowd, link);
    double cpu = bench_cpu();
    for (unsigned left = options->count; left > 0;) {
        int n = epoll_wait(crowd.epoll, events, EVENTS, options->polled ? 0 : -1);
        for (int i = 0; i < n; i++) {
            struct bench_tcp_flow *flow = &crowd.flow[events[i].data.u32];
            if (!take(&crowd, flow)) {
                epoll_ctl(crowd.epoll, EPOLL_CTL_DEL, flow->fd, NULL);
                report.count += flow->done;
                left--;
            }
        }
    }
    report.cpu = bench_cpu() - cpu;
    bench_tell(link, &report, sizeof report);
    crowd_close(&crowd);
}

/* --- client ---------------------------------------------------------------------------------- */

void bench_tcp_crowd_connect(struct bench_tcp_crowd *crowd, struct bench_link *link)
{
    struct sockaddr_storage addr;
    socklen_t addr_len;

    crowd_open(crowd, link->options);
    bench_address(link, &addr, &addr_len);
    bench_fill(crowd->memory, crowd->options->octets, 1);
    for (unsigned i = 0; i < crowd->options->count; i++) {
        watch(crowd, i, EPOLLOUT | EPOLLET, bench_tcp_connect((struct sockaddr *)&addr, addr_len));
    }
}

void bench_tcp_crowd_give(struct bench_tcp_crowd *crowd, struct bench_tcp_flow *flow)
{
    size_t octets = crowd->options->octets;
    ssize_t n =
        send(flow->fd, crowd->memory + flow->at, octets - flow->at, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        bench_fail("send: %s", strerror(errno));
    }
    flow->at += n > 0 ? (size_t)n : 0;
    flow->full = flow->at < octets;
    if (!flow->full) {
        flow->at = 0;
        flow->done++;
    }
}

void bench_tcp_crowd_await_room(struct bench_tcp_crowd *crowd, bool sleeps)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(crowd->epoll, events, EVENTS, sleeps && !crowd->options->polled ? -1 : 0);

    for (int i = 0; i < n; i++) {
        crowd->flow[events[i].data.u32].full = false;
    }
}

static uint64_t send_all(struct bench_tcp_crowd *crowd, double seconds)
{
    double begin = bench_now();
    unsigned count = crowd->options->count, full = 0;
    uint64_t sum = 0;

    while (bench_now() - begin < seconds) {
        if (full > 0) {
            bench_tcp_crowd_await_room(crowd, full == count);
        }
        full = 0;
        for (unsigned i = 0; i < count; i++) {
            if (!crowd->flow[i].full) {
                bench_tcp_crowd_give(crowd, &crowd->flow[i]);
            }
            full += crowd->flow[i].full;
        }
    }
    for (unsigned i = 0; i < count; i++) {
        sum += crowd->flow[i].done;
    }
    return sum;
}

void bench_tcp_crowd_client(struct bench_link *link)
{
    const struct bench_options *options = link->options;
    struct bench_report peer;
    struct bench_tcp_crowd crowd;

    bench_tcp_crowd_connect(&crowd, link);
    double cpu = bench_cpu(), begin = bench_now();
    uint64_t sent = send_all(&crowd, options->seconds);
    for (unsigned i = 0; i < options->count; i++) {
        shutdown(crowd.flow[i].fd, SHUT_WR);
    }
    cpu = bench_cpu() - cpu;
    bool heard = bench_hear(link, &peer, sizeof peer);
    double seconds = bench_now() - begin;
    if (heard && peer.count != sent) {
        bench_fail("messages were lost");
    }
    crowd_close(&crowd);
    bench_result_begin(options);
    bench_result_number("connections", options->count);
    bench_result_stream(options, sent, seconds, cpu, heard ? peer.cpu : -1);
    bench_result_end();
}
