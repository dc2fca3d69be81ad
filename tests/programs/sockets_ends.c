/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How connections end, and calls by number, as libuv closes its sockets. The kernel's TCP passes as
 * well.
 *
 *   sockets_ends CASE
 */
#define _GNU_SOURCE
#include "sockets_check.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAILS(call, error) (errno = 0, CHECK((call) == -1), CHECK(errno == (error)))

static struct sockaddr_in server;
static int listener;

/* One whose first octet is here, and read. */
static int accepted(void)
{
    const int fd = accept(listener, NULL, NULL);
    char octet;

    CHECK(fd >= 0 && read(fd, &octet, 1) == 1);
    return fd;
}

/* Does it come to its end within 5 seconds? */
static void expect_end(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};
    char octet;

    CHECK(poll(&p, 1, 5000) == 1 && read(fd, &octet, 1) == 0);
}

/* --- by number ------------------------------------------------------------------------------- */

/* A number is soon that of the next connection, which is none of the one before. */
static void close_by_number(void)
{
    int first = -1;

    for (int i = 0; i < 20; i++) {
        const int fd = connected_to(&server);
        char octet;
        CHECK(i == 0 || fd == first);
        first = fd;
        CHECK(write(fd, "a", 1) == 1 && read(fd, &octet, 1) == 1 && octet == 'b');
        CHECK(syscall(SYS_close, fd) == 0);
        FAILS(syscall(SYS_close, fd), EBADF);
    }
}

static void close_by_number_peer(void)
{
    for (int i = 0; i < 20; i++) {
        const int fd = accepted();
        CHECK(write(fd, "b", 1) == 1);
        expect_end(fd);
        CHECK(syscall(SYS_close, fd) == 0);
    }
}

/* Each of them would find the face instead of the connection. */
static void calls_by_number(void)
{
    const int fd = connected_to(&server);
    const int set = (int)syscall(SYS_epoll_create1, 0);
    struct sockaddr_in name;
    socklen_t len = sizeof name;
    struct epoll_event e = {.events = EPOLLIN};
    char octets[4];

    CHECK(syscall(SYS_write, fd, "a", 1) == 1);
    CHECK(syscall(SYS_sendto, fd, "bcd", 3, MSG_NOSIGNAL, NULL, 0) == 3);
    CHECK(syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, fd, &e) == 0);
    CHECK(syscall(SYS_epoll_pwait, set, &e, 1, 5000, NULL, 8) == 1);
    CHECK(syscall(SYS_recvfrom, fd, octets, 4, MSG_WAITALL, NULL, NULL) == 4);
    CHECK(memcmp(octets, "efgh", 4) == 0);
    CHECK(syscall(SYS_getpeername, fd, &name, &len) == 0 && name.sin_port == server.sin_port);
    const int twin = (int)syscall(SYS_dup, fd);
    CHECK(twin >= 0 && syscall(SYS_close, fd) == 0);
    CHECK(syscall(SYS_shutdown, twin, SHUT_WR) == 0);
    CHECK(syscall(SYS_read, twin, octets, 4) == 1 && octets[0] == 'i');
    CHECK(syscall(SYS_close_range, twin, twin, 0) == 0);
    syscall(SYS_exit_group, 0, 1);
}

static void calls_by_number_peer(void)
{
    const int fd = accepted();
    char octets[4];

    CHECK(recv(fd, octets, 3, MSG_WAITALL) == 3 && memcmp(octets, "bcd", 3) == 0);
    CHECK(write(fd, "efgh", 4) == 4);
    expect_end(fd);
    CHECK(write(fd, "i", 1) == 1);
}

/* --- ends ------------------------------------------------------------------------------------ */

static char big[65536];

static int greeted(void)
{
    const int fd = connected_to(&server);

    CHECK(write(fd, "a", 1) == 1);
    return fd;
}

/* Until it shows this: what it shows. */
static short shown(int fd, short wanted)
{
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};

    for (int i = 0; i < 500 && (p.revents & wanted) != wanted; i++) {
        CHECK(poll(&p, 1, 0) >= 0);
        usleep(10000);
    }
    CHECK((p.revents & wanted) == wanted);
    return p.revents & (POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
}

#define ENDED   (POLLIN | POLLOUT | POLLRDHUP)
#define HUNG_UP (ENDED | POLLHUP)

static void reset(int fd)
{
    const struct linger none = {.l_onoff = 1};

    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none) == 0 && close(fd) == 0);
}

/* The first one is answered by a reset, and only then is it hung up. */
static void write_after_the_close(void)
{
    const int fd = greeted();
    char octets[9];

    CHECK(shown(fd, POLLRDHUP) == ENDED);
    CHECK(write(fd, "lost", 4) == 4);
    CHECK(shown(fd, POLLHUP) == HUNG_UP);
    FAILS(write(fd, "x", 1), EPIPE);
    FAILS(write(fd, "x", 1), EPIPE);
    CHECK(read(fd, octets, sizeof octets) == 4 && memcmp(octets, "last", 4) == 0);
    CHECK(read(fd, octets, sizeof octets) == 0);
}

static void write_after_the_close_peer(void)
{
    const int fd = accepted();

    CHECK(write(fd, "last", 4) == 4 && close(fd) == 0);
}

/* Hung up as soon as both have ended, whatever is unread. */
static void both_shut_down(void)
{
    const int fd = greeted();
    char octets[9];

    CHECK(shown(fd, POLLRDHUP) == ENDED);
    CHECK(shutdown(fd, SHUT_WR) == 0 && shown(fd, POLLHUP) == HUNG_UP);
    CHECK(read(fd, octets, sizeof octets) == 4 && read(fd, octets, sizeof octets) == 0);
    FAILS(write(fd, "x", 1), EPIPE);
}

static void both_shut_down_peer(void)
{
    const int fd = accepted();

    CHECK(write(fd, "last", 4) == 4 && shutdown(fd, SHUT_WR) == 0);
    expect_end(fd);
    CHECK(shown(fd, POLLHUP) == HUNG_UP);
}

/* That is a reset, and what was written before arrives. */
static void close_with_octets_unread(void)
{
    for (int i = 0; i < 20; i++) {
        const int fd = greeted();
        char octets[9];
        CHECK(write(fd, "never read", 10) == 10);
        CHECK(shown(fd, POLLHUP) == HUNG_UP);
        CHECK(read(fd, octets, sizeof octets) == 4 && memcmp(octets, "last", 4) == 0);
        FAILS(read(fd, octets, sizeof octets), ECONNRESET);
        CHECK(read(fd, octets, sizeof octets) == 0);
        FAILS(write(fd, "x", 1), EPIPE);
        CHECK(close(fd) == 0);
    }
}

static void close_with_octets_unread_peer(void)
{
    for (int i = 0; i < 20; i++) {
        const int fd = accepted();
        (void)shown(fd, POLLIN);
        CHECK(write(fd, "last", 4) == 4 && close(fd) == 0);
    }
}

/* Those who read have had their end. */
static void reset_after_the_end(void)
{
    const int fd = greeted();
    char octets[9];

    CHECK(shown(fd, POLLRDHUP) == ENDED && write(fd, "b", 1) == 1);
    CHECK(shown(fd, POLLHUP) == HUNG_UP);
    CHECK(read(fd, octets, sizeof octets) == 0);
    FAILS(write(fd, "x", 1), EPIPE);
    CHECK(read(fd, octets, sizeof octets) == 0);
}

static void reset_after_the_end_peer(void)
{
    const int fd = accepted();
    char octet;

    CHECK(shutdown(fd, SHUT_WR) == 0 && read(fd, &octet, 1) == 1);
    reset(fd);
}

static void fill(int fd)
{
    struct pollfd p = {fd, POLLOUT, 0};

    do {
        while (send(fd, big, sizeof big, MSG_DONTWAIT) > 0) {
        }
    } while (poll(&p, 1, 200) == 1);
}

/* Octets that wait are lost, and the writer is told. */
static void write_until_it_ends(void)
{
    const int fd = greeted();
    char octet;

    fill(fd);
    CHECK(shown(fd, POLLHUP) == HUNG_UP);
    FAILS(write(fd, "x", 1), ECONNRESET);
    FAILS(write(fd, "x", 1), EPIPE);
    CHECK(read(fd, &octet, 1) == 0);
}

static void close_under_a_writer(void)
{
    write_until_it_ends();
}

static void close_under_a_writer_peer(void)
{
    const int fd = accepted();

    usleep(1500000);
    CHECK(close(fd) == 0);
}

static void killed_under_a_writer(void)
{
    write_until_it_ends();
}

static void killed_under_a_writer_peer(void)
{
    (void)accepted();
    usleep(1500000);
    kill(getpid(), SIGKILL);
}

/* --- threads at the end of the process ------------------------------------------------------- */

/* One reads, one waits, one writes: to none of them the connection ends. */
static void *reads(void *arg)
{
    char octet;

    (void)!read((int)(intptr_t)arg, &octet, 1);
    _exit(1);
}

static void *waits(void *arg)
{
    (void)poll(&(struct pollfd){(int)(intptr_t)arg, POLLIN, 0}, 1, -1);
    _exit(2);
}

static void *writes(void *arg)
{
    static char some[100000];

    while (write((int)(intptr_t)arg, some, sizeof some) > 0) {
    }
    _exit(3);
}

static void exit_under_threads(void)
{
    void *(*const calls[])(void *) = {reads, waits, writes};

    for (size_t i = 0; i < 3; i++) {
        pthread_t thread;
        const int fd = connected_to(&server);
        CHECK(write(fd, "x", 1) == 1);
        CHECK(pthread_create(&thread, NULL, calls[i], (void *)(intptr_t)fd) == 0);
    }
    usleep(200000);
}

static void exit_under_threads_peer(void)
{
    const int first = accepted(), second = accepted(), third = accepted();

    expect_end(first);
    expect_end(second);
    CHECK(close(third) == 0);
}

/* Begins connections and ends them, until the process does. */
static void *connects(void *arg)
{
    for (bool waits = (intptr_t)arg % 2; true; waits = !waits) {
        const int fd = socket(AF_INET, SOCK_STREAM | (waits ? 0 : SOCK_NONBLOCK), 0);
        (void)!connect(fd, (struct sockaddr *)&server, sizeof server);
        (void)poll(&(struct pollfd){fd, POLLOUT, 0}, 1, 1000);
        (void)!write(fd, "x", 1);
        close(fd);
    }
    return NULL;
}

static void exit_under_connects(void)
{
    for (int i = 0; i < 40; i++) {
        int status;
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(4); /* less than an exit waits for connections that never end */
            for (intptr_t k = 0; k < 8; k++) {
                pthread_t thread;
                CHECK(pthread_create(&thread, NULL, connects, (void *)k) == 0);
            }
            usleep((unsigned)i * 2000);
            exit(0);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    CHECK(write(connected_to(&server), "end", 3) == 3);
}

static void exit_under_connects_peer(void)
{
    ssize_t n;

    do {
        char octets[3] = "";
        const int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        n = recv(fd, octets, sizeof octets, MSG_WAITALL);
        close(fd);
    } while (n != 3);
}

/* --- closed under a thread that reads ----------------------------------------------------------
 */

static void *read_five(void *fd)
{
    char octets[5];

    return (void *)(intptr_t)read(*(int *)fd, octets, sizeof octets);
}

/* The number stays taken, by a file, so nobody else gets what comes to the next connection: not
 * even a call that has begun before the close, and looks only now (preload/late_read.c, if it is
 * there).
 */
static void close_under_a_reader(void)
{
    union {
        void *found;
        void (*step)(int);
    } late = {.found = dlsym(RTLD_DEFAULT, "late_read")};
    int old = connected_to(&server);
    const int file = open("/dev/null", O_RDONLY);
    char octets[5];
    pthread_t thread;
    void *got;

    CHECK(write(old, "a", 1) == 1);
    if (late.found) {
        late.step(0);
    }
    CHECK(pthread_create(&thread, NULL, read_five, &old) == 0);
    if (late.found) {
        late.step(1);
    } else {
        usleep(100000);
    }
    CHECK(file >= 0 && dup2(file, old) == old);
    const int next = connected_to(&server);
    CHECK(write(next, "a", 1) == 1);
    if (late.found) {
        late.step(2);
    }
    CHECK(pthread_join(thread, &got) == 0 && (intptr_t)got <= 0);
    CHECK(recv(next, octets, sizeof octets, MSG_WAITALL) == sizeof octets);
    CHECK(memcmp(octets, "other", sizeof octets) == 0);
    CHECK(close(next) == 0 && close(old) == 0 && close(file) == 0);
}

static void close_under_a_reader_peer(void)
{
    const int old = accepted(), next = accepted();

    CHECK(write(next, "other", 5) == 5);
    CHECK(close(old) == 0); /* the kernel's call waits for that */
    expect_end(next);
    CHECK(close(next) == 0);
}

/* --- what a thread that waits is told --------------------------------------------------------- */

static void *shut_down_later(void *fd)
{
    usleep(20000);
    CHECK(shutdown(*(int *)fd, SHUT_RDWR) == 0);
    return NULL;
}

/* Once, and of all of it: the peer's end, and then that of both. */
static void told_of_the_end(void)
{
    struct epoll_event event;
    pthread_t thread;

    for (int i = 0; i < 20; i++) {
        const int fd = connected_to(&server), set = epoll_create1(0);
        const short end = POLLIN | POLLRDHUP;
        struct pollfd p = {fd, end, 0};
        CHECK(write(fd, "a", 1) == 1);
        event.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0);
        CHECK(epoll_wait(set, &event, 1, 5000) == 1 && event.events == (EPOLLIN | EPOLLRDHUP));
        CHECK(close(set) == 0 && close(fd) == 0);
        p.fd = connected_to(&server);
        CHECK(pthread_create(&thread, NULL, shut_down_later, &p.fd) == 0);
        CHECK(poll(&p, 1, 5000) == 1 && p.revents == (end | POLLHUP));
        CHECK(pthread_join(thread, NULL) == 0 && close(p.fd) == 0);
    }
}

static void told_of_the_end_peer(void)
{
    for (int i = 0; i < 20; i++) {
        const int fd = accepted();
        usleep(20000);
        CHECK(shutdown(fd, SHUT_WR) == 0);
        expect_end(fd);
        CHECK(close(fd) == 0);
        const int other = accept(listener, NULL, NULL);
        CHECK(other >= 0);
        expect_end(other);
        CHECK(close(other) == 0);
    }
}

/* --- main ------------------------------------------------------------------------------------ */

#define WITH_PEER(name) {#name, name, name##_peer}
static const struct one_case cases[] = {
    WITH_PEER(close_by_number),          WITH_PEER(calls_by_number),
    WITH_PEER(write_after_the_close),    WITH_PEER(both_shut_down),
    WITH_PEER(close_with_octets_unread), WITH_PEER(reset_after_the_end),
    WITH_PEER(close_under_a_writer),     WITH_PEER(killed_under_a_writer),
    WITH_PEER(exit_under_threads),       WITH_PEER(exit_under_connects),
    WITH_PEER(close_under_a_reader),     WITH_PEER(told_of_the_end)};

/* The peer is another process. It has used no socket before. */
static void run_case(const struct one_case *c)
{
    int status;

    signal(SIGPIPE, SIG_IGN);
    listener = listen_somewhere(&server, 100);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        c->peer();
        exit(0);
    }
    close(listener);
    const pid_t ours = fork();
    if (ours == 0) {
        alarm(20);
        c->run();
        exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && (status == 0 || WTERMSIG(status) == SIGKILL));
    CHECK(waitpid(ours, &status, 0) == ours && status == 0);
}

int main(int argc, char **argv)
{
    return main_of(argc, argv, cases, sizeof cases / sizeof cases[0], run_case);
}
