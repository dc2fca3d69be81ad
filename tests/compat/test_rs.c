/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rsockets of librdmacm.so.1: both ends in one process. test_rs_end.c has those of two.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../../src/rspreload/adopt.h"

#define fails_with(call, error)                                                                    \
    do {                                                                                           \
        errno = 0;                                                                                 \
        assert_int_equal(call, -1);                                                                \
        assert_int_equal(errno, error);                                                            \
    } while (0)

static int listener, client, server;
static struct sockaddr_in at;

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16));
}

static void fill(uint8_t *to, size_t from, size_t octets)
{
    for (size_t i = 0; i < octets; i++) {
        to[i] = pattern(from + i);
    }
}

static void check(const uint8_t *at_octets, size_t from, size_t octets)
{
    for (size_t i = 0; i < octets; i++) {
        if (at_octets[i] != pattern(from + i)) {
            fail_msg("octet %zu of the stream is wrong", from + i);
        }
    }
}

static void begin(void)
{
    socklen_t len = sizeof at;

    at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = rsocket(AF_INET, SOCK_STREAM, 0);
    assert_true(listener >= 0);
    assert_int_equal(rbind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(rlisten(listener, 16), 0);
    assert_int_equal(rgetsockname(listener, (struct sockaddr *)&at, &len), 0);
    assert_int_not_equal(at.sin_port, 0);
}

static int connected(void)
{
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(rconnect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void *accept_one(void *arg)
{
    *(int *)arg = raccept(listener, NULL, NULL);
    return NULL;
}

static void pair(int *one, int *other)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, accept_one, other), 0);
    *one = connected();
    pthread_join(thread, NULL);
    assert_true(*other >= 0);
}

static int set_up(void **state)
{
    (void)state;
    begin();
    pair(&client, &server);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rclose(client);
    rclose(server);
    rclose(listener);
    return 0;
}

/* --- data ------------------------------------------------------------------------------------ */

struct stream {
    int fd;
    size_t octets;
    unsigned seed;
    unsigned pause_us;
};

static void *write_stream(void *arg)
{
    const struct stream *s = arg;
    unsigned seed = s->seed;
    static uint8_t octets[300000];

    for (size_t done = 0; done < s->octets;) {
        size_t n = 1 + (size_t)rand_r(&seed) % (rand_r(&seed) % 4 ? 2000 : sizeof octets);
        n = n < s->octets - done ? n : s->octets - done;
        fill(octets, done, n);
        assert_int_equal(rsend(s->fd, octets, n, 0), n); /* all of it, as it blocks */
        done += n;
    }
    return NULL;
}

static void *read_stream(void *arg)
{
    const struct stream *s = arg;
    unsigned seed = s->seed;
    static uint8_t octets[300000];

    for (size_t done = 0; done < s->octets;) {
        size_t n = 1 + (size_t)rand_r(&seed) % (rand_r(&seed) % 4 ? 2000 : sizeof octets);
        ssize_t got = rrecv(s->fd, octets, n, 0);
        assert_true(got > 0 && (size_t)got <= n);
        check(octets, done, (size_t)got);
        done += (size_t)got;
        if (s->pause_us > 0) {
            usleep(s->pause_us);
        }
    }
    return NULL;
}

static void stream(int from, int to, size_t octets, unsigned pause_us)
{
    struct stream out = {from, octets, 7, 0}, in = {to, octets, 8, pause_us};
    pthread_t thread;

    pthread_create(&thread, NULL, write_stream, &out);
    read_stream(&in);
    pthread_join(thread, NULL);
}

static void stream__random_sizes__arrives_octet_for_octet(void **state)
{
    (void)state;
    stream(client, server, 30000000, 0);
    stream(server, client, 30000000, 0);
}

static void stream__slow_reader__waits_and_loses_nothing(void **state)
{
    (void)state;
    stream(client, server, 2000000, 1000);
}

static void stream__other_sizes_of_queues_and_buffers__arrives(void **state)
{
    static const int sizes[][3] = {{10, 10, 4096}, {10, 384, 1000000}, {384, 10, 8191}};
    int one, other;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        int own = rsocket(AF_INET, SOCK_STREAM, 0), got;
        socklen_t len = sizeof got;
        pthread_t thread;
        assert_int_equal(rsetsockopt(own, SOL_RDMA, RDMA_SQSIZE, &sizes[i][0], sizeof(int)), 0);
        assert_int_equal(rsetsockopt(own, SOL_RDMA, RDMA_RQSIZE, &sizes[i][1], sizeof(int)), 0);
        assert_int_equal(rsetsockopt(own, SOL_SOCKET, SO_RCVBUF, &sizes[i][2], sizeof(int)), 0);
        assert_int_equal(rsetsockopt(own, SOL_SOCKET, SO_SNDBUF, &sizes[i][2], sizeof(int)), 0);
        assert_int_equal(rgetsockopt(own, SOL_RDMA, RDMA_RQSIZE, &got, &len), 0);
        assert_int_equal(got, sizes[i][1]);
        pthread_create(&thread, NULL, accept_one, &other);
        assert_int_equal(rconnect(own, (struct sockaddr *)&at, sizeof at), 0);
        pthread_join(thread, NULL);
        one = own;
        stream(one, other, 3000000, 0);
        stream(other, one, 3000000, 0);
        rclose(one);
        rclose(other);
    }
}

static void receive__flags__do_what_they_do_with_sockets(void **state)
{
    char octets[16];
    struct iovec parts[2] = {{octets, 3}, {octets + 8, 5}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    struct timeval limit = {0, 50000};

    (void)state;
    fails_with(rrecv(server, octets, 1, MSG_DONTWAIT), EAGAIN);
    assert_int_equal(rsetsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    fails_with(rrecv(server, octets, 1, 0), EAGAIN);
    assert_int_equal(rwrite(client, "abcdefgh", 8), 8);
    assert_int_equal(rrecv(server, octets, 4, MSG_PEEK), 4);
    assert_memory_equal(octets, "abcd", 4);
    assert_int_equal(rrecvmsg(server, &message, MSG_WAITALL), 8);
    assert_memory_equal(octets, "abc", 3);
    assert_memory_equal(octets + 8, "defgh", 5);
    assert_int_equal(rwritev(client, (struct iovec[]){{"ij", 2}, {"", 0}, {"k", 1}}, 3), 3);
    assert_int_equal(rreadv(server, parts, 2), 3);
    assert_memory_equal(octets, "ijk", 3);
    assert_int_equal(rrecv(server, octets, 0, 0), 0);
    assert_int_equal(rsend(client, octets, 0, 0), 0);
    fails_with(rrecv(server, octets, 1, MSG_OOB), EINVAL);
    fails_with(rsend(client, octets, 1, MSG_OOB), EOPNOTSUPP);
}

static void send__nobody_reads__fills_up_and_goes_on_when_somebody_does(void **state)
{
    static uint8_t octets[65536];
    size_t sent = 0, got = 0;
    ssize_t n;
    struct pollfd p = {client, POLLOUT, 0};

    (void)state;
    assert_int_equal(rfcntl(client, F_SETFL, O_NONBLOCK), 0);
    assert_true(rfcntl(client, F_GETFL) & O_NONBLOCK);
    do {
        fill(octets, sent, sizeof octets);
        n = rsend(client, octets, sizeof octets, 0);
        sent += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    assert_int_equal(errno, EAGAIN);
    assert_true(sent >= 65536);
    assert_int_equal(rpoll(&p, 1, 0), 0);
    while (got < sent) {
        n = rrecv(server, octets, sizeof octets, 0);
        assert_true(n > 0);
        check(octets, got, (size_t)n);
        got += (size_t)n;
    }
    assert_int_equal(rpoll(&p, 1, 5000), 1);
    assert_int_equal(p.revents, POLLOUT);
}

/* --- ends ------------------------------------------------------------------------------------ */

static void shutdown__of_one_direction__leaves_the_other(void **state)
{
    char octets[8];

    (void)state;
    assert_int_equal(rwrite(client, "last", 4), 4);
    assert_int_equal(rshutdown(client, SHUT_WR), 0);
    fails_with(rwrite(client, "x", 1), EPIPE);
    assert_int_equal(rrecv(server, octets, 8, MSG_WAITALL), 4);
    assert_int_equal(rrecv(server, octets, 8, 0), 0);
    assert_int_equal(rwrite(server, "answer", 6), 6);
    assert_int_equal(rrecv(client, octets, 6, MSG_WAITALL), 6);
    assert_int_equal(rshutdown(server, SHUT_WR), 0);
    assert_int_equal(rrecv(client, octets, 8, 0), 0);
}

static void close__of_the_peer__ends_reads_after_the_data_and_fails_writes(void **state)
{
    char octets[8];
    struct pollfd p = {server, POLLIN | POLLOUT, 0};

    (void)state;
    assert_int_equal(rwrite(client, "last", 4), 4);
    assert_int_equal(rclose(client), 0);
    assert_int_equal(rrecv(server, octets, 8, MSG_WAITALL), 4);
    assert_int_equal(rrecv(server, octets, 8, 0), 0);
    fails_with(rwrite(server, "x", 1), ECONNRESET);
    assert_int_equal(rpoll(&p, 1, 1000), 1);
    assert_true(p.revents & POLLHUP);
    client = rsocket(AF_INET, SOCK_STREAM, 0);
}

static void *read_one(void *arg)
{
    char octet;
    ssize_t n = rrecv(*(int *)arg, &octet, 1, 0);

    return (void *)(intptr_t)(n < 0 ? errno : 0);
}

static void close__while_another_thread_reads__wakes_it_up(void **state)
{
    pthread_t thread;
    void *error;

    (void)state;
    pthread_create(&thread, NULL, read_one, &client);
    usleep(50000);
    assert_int_equal(rclose(client), 0);
    pthread_join(thread, &error);
    assert_int_equal((intptr_t)error, EBADF);
    fails_with(rclose(client), EBADF);
    client = rsocket(AF_INET, SOCK_STREAM, 0);
}

/* --- waiting --------------------------------------------------------------------------------- */

static void *write_later(void *arg)
{
    usleep(50000);
    rwrite(*(int *)arg, "x", 1);
    return NULL;
}

static void poll__rsockets_and_pipes__wakes_up_for_each(void **state)
{
    int pipes[2];
    pthread_t thread;
    fd_set readable;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    struct pollfd fds[3] = {{server, POLLIN, 0}, {pipes[0], POLLIN, 0}, {-1, POLLIN, 0}};
    assert_int_equal(rpoll(fds, 3, 0), 0);
    assert_int_equal(rpoll(fds, 3, 20), 0);
    pthread_create(&thread, NULL, write_later, &client);
    assert_int_equal(rpoll(fds, 3, 5000), 1);
    assert_int_equal(fds[0].revents, POLLIN);
    pthread_join(thread, NULL);
    assert_int_equal(write(pipes[1], "x", 1), 1);
    assert_int_equal(rpoll(fds, 3, 5000), 2);
    assert_int_equal(fds[1].revents, POLLIN);
    FD_ZERO(&readable);
    FD_SET(server, &readable);
    FD_SET(pipes[0], &readable);
    assert_int_equal(rselect(64, &readable, NULL, NULL, &(struct timeval){0, 0}), 2);
    assert_int_equal(rread(server, &(char){0}, 1), 1);
    FD_SET(server, &readable);
    assert_int_equal(rselect(64, &readable, NULL, NULL, &(struct timeval){0, 1000}), 1);
    assert_false(FD_ISSET(server, &readable));
    close(pipes[0]);
    close(pipes[1]);
}

static void connect__not_blocking__is_shown_by_poll(void **state)
{
    int fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), other, error;
    struct pollfd p = {fd, POLLOUT, 0}, q = {listener, POLLIN, 0};
    socklen_t len = sizeof error;

    (void)state;
    fails_with(rconnect(fd, (struct sockaddr *)&at, sizeof at), EINPROGRESS);
    assert_int_equal(rpoll(&q, 1, 5000), 1);
    other = raccept(listener, NULL, NULL);
    assert_true(other >= 0);
    assert_int_equal(rpoll(&p, 1, 5000), 1);
    assert_int_equal(p.revents, POLLOUT);
    assert_int_equal(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len), 0);
    assert_int_equal(error, 0);
    fails_with(rconnect(fd, (struct sockaddr *)&at, sizeof at), EISCONN);
    rclose(fd);
    rclose(other);
}

static void connect__nobody_listens__is_refused_and_may_be_tried_again(void **state)
{
    int fd = rsocket(AF_INET, SOCK_STREAM, 0), other;
    struct sockaddr_in nobody = at;
    pthread_t thread;

    (void)state;
    nobody.sin_port = htons(1);
    fails_with(rconnect(fd, (struct sockaddr *)&nobody, sizeof nobody), ECONNREFUSED);
    pthread_create(&thread, NULL, accept_one, &other);
    assert_int_equal(rconnect(fd, (struct sockaddr *)&at, sizeof at), 0);
    pthread_join(thread, NULL);
    stream(fd, other, 100000, 0);
    rclose(fd);
    rclose(other);
}

static void watch__epoll__sees_level_and_edge(void **state)
{
    int epoll = epoll_create1(0), face = iwarp_rs_watch(server);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP};

    (void)state;
    assert_true(face >= 0);
    assert_int_equal(iwarp_rs_watch(server), face);
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, face, &event), 0);
    assert_int_equal(epoll_wait(epoll, &event, 1, 1000), 1);
    assert_int_equal(event.events, EPOLLOUT);
    assert_int_equal(epoll_wait(epoll, &event, 1, 50), 0);
    for (int i = 0; i < 3; i++) { /* an edge for each, though nobody reads */
        assert_int_equal(rwrite(client, "x", 1), 1);
        assert_int_equal(epoll_wait(epoll, &event, 1, 5000), 1);
        assert_true(event.events & EPOLLIN);
    }
    struct pollfd p = {face, POLLIN, 0};
    assert_int_equal(poll(&p, 1, 0), 1);
    assert_int_equal(rread(server, (char[3]){0}, 3), 3);
    assert_int_equal(poll(&p, 1, 0), 0);
    rclose(client);
    assert_int_equal(poll(&p, 1, 5000), 1);
    assert_true(p.revents & POLLIN);
    close(epoll);
    client = rsocket(AF_INET, SOCK_STREAM, 0);
}

/* --- others ---------------------------------------------------------------------------------- */

static void misuse__of_each_call__fails_as_sockets_do(void **state)
{
    int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    char octet;
    socklen_t len = sizeof at;
    struct sockaddr_in name;

    (void)state;
    fails_with(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
    fails_with(rsocket(AF_INET, SOCK_DGRAM, 0), EPROTONOSUPPORT);
    fails_with(rread(999, &octet, 1), EBADF);
    fails_with(rread(0, &octet, 1), EBADF);
    fails_with(rread(fd, &octet, 1), ENOTCONN);
    fails_with(rwrite(fd, &octet, 1), ENOTCONN);
    fails_with(raccept(fd, NULL, NULL), EINVAL);
    fails_with(rshutdown(fd, SHUT_WR), ENOTCONN);
    fails_with(rgetpeername(fd, (struct sockaddr *)&name, &len), ENOTCONN);
    fails_with(rlisten(client, 1), EINVAL);
    fails_with(rconnect(listener, (struct sockaddr *)&at, sizeof at), EINVAL);
    fails_with(rsetsockopt(client, SOL_RDMA, 99, &octet, 1), ENOPROTOOPT);
    fails_with(rshutdown(client, 9), EINVAL);
    rclose(fd);
    len = sizeof name;
    assert_int_equal(rgetpeername(client, (struct sockaddr *)&name, &len), 0);
    assert_int_equal(name.sin_port, at.sin_port);
    len = sizeof(int);
    assert_int_equal(rgetsockopt(client, IPPROTO_TCP, TCP_NODELAY, &(int){0}, &len), 0);
}

static void riowrite__into_what_the_peer_gave__arrives_without_a_message(void **state)
{
    static uint8_t memory[300000], octets[300000];
    const int entries = 8;
    int fd = rsocket(AF_INET, SOCK_STREAM, 0), other;
    pthread_t thread;

    (void)state;
    assert_int_equal(rsetsockopt(fd, SOL_RDMA, RDMA_IOMAPSIZE, &entries, sizeof entries), 0);
    pthread_create(&thread, NULL, accept_one, &other);
    assert_int_equal(rconnect(fd, (struct sockaddr *)&at, sizeof at), 0);
    pthread_join(thread, NULL);
    assert_int_equal(riomap(other, memory, sizeof memory, PROT_WRITE, 0, 1000), 1000);
    assert_int_equal(rwrite(other, "x", 1), 1); /* behind the map's message */
    assert_int_equal(rread(fd, octets, 1), 1);
    fill(octets, 0, sizeof octets);
    assert_int_equal(riowrite(fd, octets, sizeof octets, 1000, 0), sizeof octets);
    assert_int_equal((ssize_t)riowrite(fd, octets, 1, 999, 0), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rwrite(fd, "x", 1), 1);
    assert_int_equal(rread(other, octets, 1), 1);
    check(memory, 0, sizeof memory);
    assert_int_equal(riounmap(other, memory, sizeof memory), 0);
    rclose(fd);
    rclose(other);
}

static void adopt__a_tcp_connection__becomes_an_rsocket_of_the_same_number(void **state)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof name;
    int plain = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0), other;

    (void)state;
    assert_int_equal(bind(plain, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(plain, 1), 0);
    assert_int_equal(getsockname(plain, (struct sockaddr *)&name, &len), 0);
    fails_with(iwarp_rs_adopt(one, IWARP_RS_CLIENT, NULL, 0, 0), ENOTCONN);
    assert_int_equal(connect(one, (struct sockaddr *)&name, sizeof name), 0);
    other = accept(plain, NULL, NULL);
    assert_int_equal(iwarp_rs_adopt(one, IWARP_RS_CLIENT, NULL, 0, 5000), 0);
    fails_with(iwarp_rs_adopt(one, IWARP_RS_CLIENT, NULL, 0, 5000), EEXIST);
    assert_int_equal(iwarp_rs_start_up(one, 20), EINPROGRESS);
    assert_int_equal(iwarp_rs_adopt(other, IWARP_RS_SERVER, NULL, 0, 5000), 0);
    assert_int_equal(iwarp_rs_start_up(one, 5000), 0);
    assert_int_equal(iwarp_rs_start_up(other, 5000), 0);
    stream(one, other, 1000000, 0);
    stream(other, one, 1000000, 0);
    rclose(other);
    /* A client whose peer does not answer has a TCP socket again. */
    assert_int_equal(iwarp_rs_forget(one), 0);
    assert_false(iwarp_rs_is(one));
    assert_int_equal(connect(one, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(iwarp_rs_adopt(one, IWARP_RS_CLIENT, NULL, 0, 50), 0);
    assert_int_equal(iwarp_rs_start_up(one, 5000), ETIMEDOUT);
    rclose(one);
    close(plain);
}

static void many__at_once__carry_data(void **state)
{
    enum { MANY = 300 };
    static int ones[MANY], others[MANY];
    struct rlimit limit;

    (void)state;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < MANY; i++) {
        pair(&ones[i], &others[i]);
    }
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(rwrite(ones[i], &i, sizeof i), sizeof i);
    }
    for (int i = 0; i < MANY; i++) {
        int got = -1;
        assert_int_equal(rrecv(others[i], &got, sizeof got, MSG_WAITALL), sizeof got);
        assert_int_equal(got, i);
        rclose(ones[i]);
        rclose(others[i]);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stream__random_sizes__arrives_octet_for_octet),
        TEST(stream__slow_reader__waits_and_loses_nothing),
        TEST(stream__other_sizes_of_queues_and_buffers__arrives),
        TEST(receive__flags__do_what_they_do_with_sockets),
        TEST(send__nobody_reads__fills_up_and_goes_on_when_somebody_does),
        TEST(shutdown__of_one_direction__leaves_the_other),
        TEST(close__of_the_peer__ends_reads_after_the_data_and_fails_writes),
        TEST(close__while_another_thread_reads__wakes_it_up),
        TEST(poll__rsockets_and_pipes__wakes_up_for_each),
        TEST(connect__not_blocking__is_shown_by_poll),
        TEST(connect__nobody_listens__is_refused_and_may_be_tried_again),
        TEST(watch__epoll__sees_level_and_edge),
        TEST(misuse__of_each_call__fails_as_sockets_do),
        TEST(riowrite__into_what_the_peer_gave__arrives_without_a_message),
        TEST(adopt__a_tcp_connection__becomes_an_rsocket_of_the_same_number),
        TEST(many__at_once__carry_data),
    };

    alarm(300);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
