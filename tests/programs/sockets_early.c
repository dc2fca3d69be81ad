/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs of the distribution do with a connection that the server has not accepted yet: to
 * TCP it is connected. The kernel's TCP passes as well. Each case runs with a server that accepts
 * in time for RDMA, and with one that is so late that the client has come again by plain TCP.
 *
 *   sockets_early CASE
 */
#define _GNU_SOURCE
#include "sockets_check.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

#define LATE    0.8    /* seconds until the server accepts */
#define AT_ONCE 0.6    /* what does not wait for that takes less */
#define MANY    300000 /* octets: more than is kept before */

static struct sockaddr_in server;
static int listener;

static void *echo(void *arg)
{
    const int fd = (int)(intptr_t)arg;
    char some[20000];
    ssize_t n;

    while ((n = read(fd, some, sizeof some)) > 0) {
        CHECK(write(fd, some, (size_t)n) == n);
    }
    CHECK(n == 0 && close(fd) == 0);
    return NULL;
}

static void *accept_late(void *arg)
{
    pthread_t thread;

    usleep((useconds_t)(LATE * 1e6));
    for (int i = 0; i < (int)(intptr_t)arg; i++) {
        const int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0 && pthread_create(&thread, NULL, echo, (void *)(intptr_t)fd) == 0);
        CHECK(pthread_detach(thread) == 0);
    }
    return NULL;
}

static void *accept_at_once(void *arg)
{
    const int fd = accept((int)(intptr_t)arg, NULL, NULL);

    CHECK(fd >= 0 && read(fd, &(char){0}, 1) == 1 && close(fd) == 0);
    return NULL;
}

/* Another server of the same address, which is there: a client of ours then expects answers. */
static void meet(void)
{
    struct sockaddr_in at;
    pthread_t taker;
    const int other = listen_somewhere(&at, 1), fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(pthread_create(&taker, NULL, accept_at_once, (void *)(intptr_t)other) == 0);
    CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0 && write(fd, "x", 1) == 1);
    CHECK(pthread_join(taker, NULL) == 0 && close(fd) == 0 && close(other) == 0);
}

static pthread_t thread;

static void begin(int connections)
{
    meet();
    listener = listen_somewhere(&server, 100);
    CHECK(pthread_create(&thread, NULL, accept_late, (void *)(intptr_t)connections) == 0);
}

static void end(void)
{
    CHECK(pthread_join(thread, NULL) == 0 && close(listener) == 0);
}

static int connected(void)
{
    const double from = now();
    const int fd = connected_to(&server);

    CHECK(now() - from < AT_ONCE);
    return fd;
}

static short shown(int fd, short events, int ms)
{
    struct pollfd p = {fd, events, 0};

    CHECK(poll(&p, 1, ms) >= 0);
    return p.revents;
}

static int connecting(void)
{
    const double from = now();
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    CHECK(connect(fd, (struct sockaddr *)&server, sizeof server) == 0 || errno == EINPROGRESS);
    CHECK(shown(fd, POLLIN | POLLOUT, 5000) == POLLOUT && now() - from < AT_ONCE);
    return fd;
}

static char octet_at(size_t at)
{
    return (char)(at * 31 + at / 251);
}

/* Octets from..to of the stream, in pieces of several lengths. */
static void write_some(int fd, size_t from, size_t to)
{
    static char some[50000];

    for (size_t i = from, n = 1; i < to; n = n * 3 % 40009) {
        const size_t len = n < to - i ? n : to - i;
        for (size_t k = 0; k < len; k++) {
            some[k] = octet_at(i + k);
        }
        for (size_t sent = 0; sent < len;) {
            const ssize_t now_sent = write(fd, some + sent, len - sent);
            CHECK(now_sent > 0 || errno == EAGAIN);
            CHECK(now_sent > 0 || shown(fd, POLLOUT, 10000) == POLLOUT);
            sent += now_sent > 0 ? (size_t)now_sent : 0;
        }
        i += len;
    }
}

static void read_some(int fd, size_t from, size_t to)
{
    static char some[50000];

    while (from < to) {
        const ssize_t n = read(fd, some, sizeof some < to - from ? sizeof some : to - from);
        CHECK(n > 0 || (n < 0 && errno == EAGAIN));
        CHECK(n > 0 || (shown(fd, POLLIN, 10000) & POLLIN));
        for (ssize_t k = 0; k < n; k++) {
            CHECK(some[k] == octet_at(from++));
        }
    }
}

/* All there is comes back, and its end. */
static void ends(int fd, size_t n)
{
    char octet;

    CHECK(shutdown(fd, SHUT_WR) == 0);
    read_some(fd, 0, n);
    CHECK(shown(fd, POLLIN, 10000) & POLLIN);
    CHECK(read(fd, &octet, 1) == 0 && close(fd) == 0);
}

/* --- cases ----------------------------------------------------------------------------------- */

static void octets_wait_for_the_server(void)
{
    begin(2);
    for (int i = 0; i < 2; i++) {
        const double from = now();
        const int fd = i ? connecting() : connected();
        write_some(fd, 0, 5000);
        CHECK(now() - from < AT_ONCE);
        ends(fd, 5000);
    }
    end();
}

static void *write_many(void *arg)
{
    write_some((int)(intptr_t)arg, 0, MANY);
    return NULL;
}

/* More than is kept: a call that blocks waits, and another one has EAGAIN. */
static void more_than_is_kept(void)
{
    begin(2);
    const int fds[2] = {connecting(), connected()};
    for (int i = 0; i < 2; i++) {
        pthread_t writer;
        CHECK(pthread_create(&writer, NULL, write_many, (void *)(intptr_t)fds[i]) == 0);
        read_some(fds[i], 0, MANY / 2);
        CHECK(pthread_join(writer, NULL) == 0);
        read_some(fds[i], MANY / 2, MANY);
        CHECK(close(fds[i]) == 0);
    }
    end();
}

/* A server that reads of one client before it accepts the next one. */
static void *one_by_one(void *arg)
{
    char octet;

    for (int i = 0; i < 3; i++) {
        const int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0 && read(fd, &octet, 1) == 1 && write(fd, &octet, 1) == 1);
    }
    return arg;
}

static void a_server_reads_before_it_accepts_the_next(void)
{
    pthread_t taker;
    char octet = 'a';
    int fds[3];

    meet();
    listener = listen_somewhere(&server, 100);
    CHECK(pthread_create(&taker, NULL, one_by_one, NULL) == 0);
    for (int i = 0; i < 3; i++) {
        fds[i] = i == 1 ? connecting() : connected();
    }
    for (int i = 0; i < 3; i++) {
        CHECK(write(fds[i], &octet, 1) == 1 && (shown(fds[i], POLLIN, 10000) & POLLIN));
        CHECK(read(fds[i], &octet, 1) == 1);
    }
    CHECK(pthread_join(taker, NULL) == 0);
}

static void names_options_and_flags(void)
{
    begin(1);
    struct sockaddr_in name;
    socklen_t len = sizeof name, error_len = sizeof(int);
    int error = -1, octets = -1;
    const int fd = connecting();
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len) == 0 && error == 0);
    CHECK(getpeername(fd, (struct sockaddr *)&name, &len) == 0 && name.sin_port == server.sin_port);
    CHECK(getsockname(fd, (struct sockaddr *)&name, &len) == 0 && name.sin_port != 0);
    CHECK(connect(fd, (struct sockaddr *)&server, sizeof server) == 0 || errno == EISCONN);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0);
    CHECK(ioctl(fd, FIONREAD, &octets) == 0 && octets == 0);
    CHECK(read(fd, &octets, 1) == -1 && errno == EAGAIN);
    CHECK(write(fd, "", 0) == 0 && shown(fd, POLLOUT, 0) == POLLOUT);
    CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0);
    write_some(fd, 0, 100);
    char some[100];
    CHECK(recv(fd, some, 100, MSG_WAITALL) == 100 && some[99] == octet_at(99)); /* it blocks */
    CHECK(recv(fd, some, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN && close(fd) == 0);
    end();
}

static void one_edge_each(void)
{
    begin(1);
    const int fd = connecting(), set = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) == 0);
    CHECK(epoll_wait(set, &e, 1, 5000) == 1 && e.events == EPOLLOUT);
    /* No second one of the same, but for one as the client comes again. */
    CHECK(epoll_wait(set, &e, 1, 150) == 0 || epoll_wait(set, &e, 1, 150) == 0);
    CHECK(write(fd, "x", 1) == 1);
    do {
        CHECK(epoll_wait(set, &e, 1, 5000) == 1);
    } while (!(e.events & EPOLLIN));
    CHECK(read(fd, &(char){0}, 1) == 1 && close(fd) == 0 && close(set) == 0);
    end();
}

static void select_for_both(void)
{
    begin(1);
    const int fd = connecting();
    for (int i = 0; i < 2; i++) {
        struct timeval limit = {5, 0};
        fd_set readable, writable;
        FD_ZERO(&readable);
        FD_ZERO(&writable);
        FD_SET(fd, &readable);
        if (i == 0) {
            FD_SET(fd, &writable);
        }
        CHECK(select(fd + 1, &readable, &writable, NULL, &limit) == 1);
        CHECK(FD_ISSET(fd, i == 0 ? &writable : &readable));
        if (i == 0) {
            CHECK(!FD_ISSET(fd, &readable) && write(fd, "x", 1) == 1);
        }
    }
    CHECK(read(fd, &(char){0}, 1) == 1 && close(fd) == 0);
    end();
}

static void on_alarm(int n)
{
    (void)n;
}

/* Programs bound by alarm how long they read. */
static void a_signal_ends_what_reads(void)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    const struct timeval limit = {5, 0};
    char octet;

    begin(1);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    const int fd = connected();
    for (int i = 0; i < 2; i++) { /* with a time-out of the socket, too */
        CHECK(ualarm(50000, 0) == 0);
        const double from = now();
        CHECK(read(fd, &octet, 1) == -1 && errno == EINTR && now() - from < AT_ONCE);
        CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    }
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 50000}, sizeof limit) == 0);
    CHECK(read(fd, &octet, 1) == -1 && errno == EAGAIN);
    write_some(fd, 0, 1);
    ends(fd, 1);
    end();
}

/* The kernel keeps what a program wrote before it closes, or ends. */
static void *read_late(void *arg)
{
    usleep((useconds_t)(LATE * 1e6));
    for (int i = 0; i < (int)(intptr_t)arg; i++) {
        const int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        read_some(fd, 0, 5000);
        CHECK(read(fd, &(char){0}, 1) == 0 && close(fd) == 0);
    }
    return NULL;
}

static void close_and_exit_lose_nothing(void)
{
    listener = listen_somewhere(&server, 100);
    const pid_t client = fork();
    if (client == 0) {
        meet();
        const double from = now();
        const int fds[2] = {connected(), connecting()};
        for (int i = 0; i < 2; i++) {
            write_some(fds[i], 0, 5000);
        }
        CHECK(close(fds[0]) == 0 && now() - from < AT_ONCE);
        exit(0);
    }
    int status;
    (void)read_late((void *)(intptr_t)2);
    CHECK(waitpid(client, &status, 0) == client && status == 0 && close(listener) == 0);
}

static void a_child_goes_on(void)
{
    begin(1);
    const int fd = connected();
    int status;
    write_some(fd, 0, 1000);
    const pid_t child = fork();
    if (child == 0) {
        write_some(fd, 1000, 2000);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    ends(fd, 2000);
    end();
}

static void *exits(void *arg)
{
    exit(arg != NULL);
}

/* The program, or this process, ends by other ways than one exit. */
#define WAYS 4
static void ends_so(int how)
{
    pthread_t other;
    char *const arguments[] = {(char[]){"true"}, NULL};

    if (how == 0) {
        (void)execv("/bin/true", arguments);
    } else if (how == 1) {
        CHECK(daemon(1, 1) == 0);
    } else if (how == 2) {
        quick_exit(0);
    } else {
        CHECK(pthread_create(&other, NULL, exits, NULL) == 0);
        usleep(50000);
    }
    _exit(0);
}

static void each_way_to_end_loses_nothing(void)
{
    pid_t clients[WAYS];
    int status;

    listener = listen_somewhere(&server, 100);
    for (int i = 0; i < WAYS; i++) {
        clients[i] = fork();
        if (clients[i] == 0) {
            meet();
            const int fd = connected();
            write_some(fd, 0, 5000);
            CHECK(close(fd) == 0);
            ends_so(i);
        }
    }
    (void)read_late((void *)(intptr_t)WAYS);
    for (int i = 0; i < WAYS; i++) {
        CHECK(waitpid(clients[i], &status, 0) == clients[i] && status == 0);
    }
    CHECK(close(listener) == 0);
}

static void *forks(void *arg)
{
    const pid_t child = fork(); /* no cancellation point */

    if (child == 0) {
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    return arg;
}

static void a_thread_that_forks_is_cancelled(void)
{
    pthread_t forker;
    begin(1);
    const int fd = connected();
    CHECK(pthread_create(&forker, NULL, forks, NULL) == 0);
    usleep(100000);
    CHECK(pthread_cancel(forker) == 0 && pthread_join(forker, NULL) == 0);
    write_some(fd, 0, 10);
    ends(fd, 10);
    end();
}

/* All that TCP takes is gone, or what is kept. */
static void full_and_shut_down(void)
{
    static char some[10000];

    begin(1);
    const int fd = connecting();
    size_t n = 0;
    while (send(fd, some, sizeof some, 0) > 0 && n < 10000000) {
        n += sizeof some;
    }
    CHECK(errno == EAGAIN && shown(fd, POLLOUT, 0) == 0 && n > 100000);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    CHECK(send(fd, some, 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    while ((shown(fd, POLLIN, 10000) & POLLIN) && read(fd, some, sizeof some) > 0) {
    }
    CHECK(close(fd) == 0);
    end();
}

/* What was taken in time is told. */
static void a_write_ends_in_time(void)
{
    static char some[10000000];

    listener = listen_somewhere(&server, 100);
    meet();
    const int fd = connected();
    const struct timeval limit = {0, 100000};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    const double from = now();
    const ssize_t n = write(fd, some, sizeof some);
    CHECK(n > 0 && n < (ssize_t)sizeof some && now() - from < AT_ONCE);
    CHECK(close(listener) == 0);
}

static void a_file_is_sent(void)
{
    FILE *file = tmpfile();
    begin(2);
    for (int i = 0; i < 2; i++) {
        const int fd = i ? connecting() : connected();
        off_t at = 0;
        CHECK(ftruncate(fileno(file), 0) == 0 && lseek(fileno(file), 0, SEEK_SET) == 0);
        write_some(fileno(file), 0, MANY);
        while (at < MANY) {
            const ssize_t n = sendfile(fd, fileno(file), &at, (size_t)(MANY - at));
            CHECK(i == 1 || n == MANY); /* one that blocks comes back with all */
            CHECK(n > 0 || errno == EAGAIN);
            CHECK(n > 0 || shown(fd, POLLOUT, 10000) == POLLOUT);
        }
        ends(fd, MANY);
    }
    end();
    fclose(file);
}

/* --------------------------------------------------------------------------------------------- */

static const struct one_case cases[] = {CASE(octets_wait_for_the_server),
                                        CASE(more_than_is_kept),
                                        CASE(a_server_reads_before_it_accepts_the_next),
                                        CASE(names_options_and_flags),
                                        CASE(one_edge_each),
                                        CASE(select_for_both),
                                        CASE(a_signal_ends_what_reads),
                                        CASE(close_and_exit_lose_nothing),
                                        CASE(a_child_goes_on),
                                        CASE(each_way_to_end_loses_nothing),
                                        CASE(a_thread_that_forks_is_cancelled),
                                        CASE(full_and_shut_down),
                                        CASE(a_write_ends_in_time),
                                        CASE(a_file_is_sent)};

/* At the same time another process runs it, whose client comes again. */
static void run_case(const struct one_case *c)
{
    int status;
    const pid_t other = fork();

    CHECK(other != 0 || setenv("IWARP_SOCKETS_REPLY", "300", 1) == 0);
    c->run();
    CHECK(other == 0 || (waitpid(other, &status, 0) == other && status == 0));
}

int main(int argc, char **argv)
{
    return main_of(argc, argv, cases, sizeof cases / sizeof cases[0], run_case);
}
