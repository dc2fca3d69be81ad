/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ends of rsockets in one process: connecting, octets that a seed and a place determine.
 */
#ifndef TESTS_COMPAT_RSOCKETS_H
#define TESTS_COMPAT_RSOCKETS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rspreload/adopt.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RS_WAIT_MS 60000

/* 0 or more, or errno for the message. */
#define works(call) works_at((long)(call), #call, __LINE__)
static inline int works_at(long result, const char *what, int line)
{
    if (result < 0) {
        fail_msg("line %d: %s: %s", line, what, strerror(errno));
    }
    return (int)result;
}

/* -1 with this errno. */
#define fails(call, error)                                                                         \
    do {                                                                                           \
        errno = 0;                                                                                 \
        assert_int_equal((long)(call), -1);                                                        \
        assert_int_equal(errno, error);                                                            \
    } while (0)

static inline uint8_t octet(uint64_t at, unsigned seed)
{
    return (uint8_t)((at * 2654435761u + seed * 40503u) >> 13);
}

static inline void fill(uint8_t *to, size_t len, uint64_t at, unsigned seed)
{
    for (size_t i = 0; i < len; i++) {
        to[i] = octet(at + i, seed);
    }
}

static inline void check(const uint8_t *got, size_t len, uint64_t at, unsigned seed)
{
    for (size_t i = 0; i < len; i++) {
        if (got[i] != octet(at + i, seed)) {
            fail_msg("octet %llu is wrong", (unsigned long long)(at + i));
        }
    }
}

static inline struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static inline int listener_at(uint16_t *port, int backlog)
{
    struct sockaddr_in at = loopback(0);
    socklen_t len = sizeof at;
    int fd = works(rsocket(AF_INET, SOCK_STREAM, 0));

    works(rbind(fd, (struct sockaddr *)&at, len));
    works(rlisten(fd, backlog));
    works(rgetsockname(fd, (struct sockaddr *)&at, &len));
    assert_int_equal(len, sizeof at);
    assert_int_not_equal(at.sin_port, 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static inline void set_nonblocking(int fd, bool is)
{
    works(rfcntl(fd, F_SETFL, is ? O_NONBLOCK : 0));
}

static inline short polled(int fd, short events, int timeout_ms)
{
    struct pollfd p = {fd, events, 0};

    works(rpoll(&p, 1, timeout_ms));
    return p.revents;
}

/* The Request is under way. */
static inline void begin_connect(int fd, uint16_t port)
{
    struct sockaddr_in to = loopback(port);

    set_nonblocking(fd, true);
    fails(rconnect(fd, (struct sockaddr *)&to, sizeof to), EINPROGRESS);
}

static inline int error_of(int fd)
{
    int error = -1;
    socklen_t len = sizeof error;

    works(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len));
    return error;
}

static inline void finish_connect(int fd)
{
    assert_int_equal(polled(fd, POLLOUT, RS_WAIT_MS), POLLOUT);
    assert_int_equal(error_of(fd), 0);
    set_nonblocking(fd, false);
}

/* The client's end is 0; both block. */
static inline void connect_through(int listener, uint16_t port, int fds[2])
{
    begin_connect(fds[0], port);
    fds[1] = works(raccept(listener, NULL, NULL));
    finish_connect(fds[0]);
}

static inline void make_pair(int fds[2])
{
    uint16_t port;
    int listener = listener_at(&port, 4);

    fds[0] = works(rsocket(AF_INET, SOCK_STREAM, 0));
    connect_through(listener, port, fds);
    works(rclose(listener));
}

/* Of TCP. */
static inline void tcp_pair(int fds[2])
{
    struct sockaddr_in at = loopback(0);
    socklen_t len = sizeof at;
    int l = works(socket(AF_INET, SOCK_STREAM, 0));

    works(bind(l, (struct sockaddr *)&at, len));
    works(listen(l, 1));
    works(getsockname(l, (struct sockaddr *)&at, &len));
    fds[0] = works(socket(AF_INET, SOCK_STREAM, 0));
    works(connect(fds[0], (struct sockaddr *)&at, len));
    fds[1] = works(accept(l, NULL, NULL));
    close(l);
}

/* A TCP connection becomes an rsocket at both ends. */
static inline void adopt(const int fds[2])
{
    works(iwarp_rs_adopt(fds[0], IWARP_RS_CLIENT, NULL, 0, 5000));
    works(iwarp_rs_adopt(fds[1], IWARP_RS_SERVER, NULL, 0, 5000));
    assert_int_equal(iwarp_rs_start_up(fds[0], RS_WAIT_MS), 0);
    assert_int_equal(iwarp_rs_start_up(fds[1], RS_WAIT_MS), 0);
}

static inline void adopt_pair(int fds[2])
{
    tcp_pair(fds);
    adopt(fds);
}

static inline void close_pair(int fds[2])
{
    works(rclose(fds[0]));
    works(rclose(fds[1]));
}

static inline void send_octets(int fd, const void *from, size_t len)
{
    assert_int_equal(rsend(fd, from, len, 0), len);
}

static inline void expect_octets(int fd, const void *wanted, size_t len)
{
    uint8_t *got = malloc(len + 1);

    assert_int_equal(rrecv(fd, got, len, MSG_WAITALL), len);
    assert_memory_equal(got, wanted, len);
    free(got);
}

static inline uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static inline void sleep_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

#endif
