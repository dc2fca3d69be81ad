/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same exchanges over plain TCP, with nothing in between: what everything else is compared
 * with. One tight loop of send and recv on each side, blocking or busy polling.
 */
#include "bench.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

int bench_tcp_listen(struct bench_link *link, int backlog)
{
    struct sockaddr_storage addr;
    socklen_t addr_len;
    int one = 1;

    bench_address(link, &addr, &addr_len);
    int fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, addr_len) != 0 || listen(fd, backlog) != 0) {
        bench_fail("listen: %s", strerror(errno));
    }
    addr_len = sizeof addr;
    getsockname(fd, (struct sockaddr *)&addr, &addr_len);
    bench_tell(link, &((struct sockaddr_in *)(void *)&addr)->sin_port, sizeof(uint16_t));
    return fd;
}

int bench_tcp_accept(int listener)
{
    int one = 1, fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0) {
        bench_fail("accept: %s", strerror(errno));
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static int serve_tcp(struct bench_link *link)
{
    int listener = bench_tcp_listen(link, 1), fd = bench_tcp_accept(listener);

    close(listener);
    return fd;
}

int bench_tcp_connect(const struct sockaddr *addr, socklen_t addr_len)
{
    int one = 1, fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, addr, addr_len) != 0) {
        bench_fail("connect: %s", strerror(errno));
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static int connect_tcp(struct bench_link *link)
{
    struct sockaddr_storage addr;
    socklen_t addr_len;

    bench_address(link, &addr, &addr_len);
    return bench_tcp_connect((struct sockaddr *)&addr, addr_len);
}

static uint8_t *memory_of(const struct bench_options *options)
{
    uint8_t *memory = mmap(NULL, options->footprint, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (memory == MAP_FAILED) {
        bench_fail("no memory for a footprint of %zu octets", options->footprint);
    }
    memset(memory, 0, options->footprint);
    return memory;
}

/* All of it; busy polling takes no sleep in the kernel. False: the peer has closed. */
static bool move_all(int fd, uint8_t *at, size_t len, bool out, bool busy)
{
    int flags = MSG_NOSIGNAL | (busy ? MSG_DONTWAIT : 0);

    while (len > 0) {
        ssize_t n = out ? send(fd, at, len, flags) : recv(fd, at, len, flags);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        at += n;
        len -= (size_t)n;
    }
    return true;
}

/* --- stream ---------------------------------------------------------------------------------- */

void bench_tcp_stream_server(struct bench_link *link)
{
    const struct bench_options *options = link->options;
    size_t slots = options->footprint / options->octets, where;
    struct bench_report report = {0};
    uint8_t *memory = memory_of(options);
    int fd = serve_tcp(link);
    double cpu = bench_cpu();
    uint64_t n = 0;

    while (move_all(fd, memory + n % slots * options->octets, options->octets, false,
                    options->polled)) {
        n++;
    }
    if (!move_all(fd, memory + options->footprint - 1, 1, true, false)) {
        bench_fail("the client has gone");
    }
    report.cpu = bench_cpu() - cpu;
    for (size_t i = 0; i < slots && i < n; i++) {
        if (!bench_check(memory + i * options->octets, options->octets, 1, &where) &&
            i + 1 != slots) {
            bench_fail("wrong memory: slot %zu, octet %zu", i, where);
        }
    }
    report.count = n;
    bench_tell(link, &report, sizeof report);
    close(fd);
}

void bench_tcp_stream_client(struct bench_link *link)
{
    const struct bench_options *options = link->options;
    size_t slots = options->footprint / options->octets;
    uint8_t *memory = memory_of(options), answer;
    struct bench_report peer;
    uint64_t n = 0;

    for (size_t i = 0; i < slots; i++) {
        bench_fill(memory + i * options->octets, options->octets, 1);
    }
    int fd = connect_tcp(link);
    double cpu = bench_cpu(), begin = bench_now();
    while (bench_now() - begin < options->seconds) {
        if (!move_all(fd, memory + n++ % slots * options->octets, options->octets, true,
                      options->polled)) {
            bench_fail("the server has gone");
        }
    }
    shutdown(fd, SHUT_WR);
    if (!move_all(fd, &answer, 1, false, false)) {
        bench_fail("the server has gone");
    }
    double seconds = bench_now() - begin;
    cpu = bench_cpu() - cpu;
    bool heard = bench_hear(link, &peer, sizeof peer);
    if (heard && peer.count != n) {
        bench_fail("messages were lost");
    }
    close(fd);
    bench_result_begin(options);
    bench_result_stream(options, n, seconds, cpu, heard ? peer.cpu : -1);
    bench_result_end();
}

/* --- ping-pong ------------------------------------------------------------------------------- */

void bench_tcp_pingpong_server(struct bench_link *link)
{
    const struct bench_options *options = link->options;
    uint8_t *memory = memory_of(options);
    int fd = serve_tcp(link);

    while (move_all(fd, memory, options->octets, false, options->polled) &&
           move_all(fd, memory, options->octets, true, options->polled)) {
    }
    close(fd);
}

void bench_tcp_pingpong_client(struct bench_link *link)
{
    const struct bench_options *options = link->options;
    uint8_t *memory = memory_of(options);
    int fd = connect_tcp(link);
    double warm = options->seconds / 10, first = bench_now(), begin = 0, last = first;

    for (unsigned char mark = 0; last - first < options->seconds + warm; mark++) {
        memory[options->octets - 1] = mark;
        if (!move_all(fd, memory, options->octets, true, options->polled) ||
            !move_all(fd, memory, options->octets, false, options->polled)) {
            bench_fail("the server has gone");
        }
        if (memory[options->octets - 1] != mark) {
            bench_fail("a wrong octet came");
        }
        double now = bench_now();
        if (begin > 0) {
            bench_sample(now - last);
        } else if (now - first >= warm) {
            begin = now;
        }
        last = now;
    }
    shutdown(fd, SHUT_WR);
    close(fd);
    bench_result_begin(options);
    bench_result_round_trips(last - begin);
    bench_result_end();
}
