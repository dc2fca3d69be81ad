/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How connections start, as programs of the distribution look at that. The kernel's TCP passes as
 * well.
 *
 *   sockets_starts CASE
 */
#define _GNU_SOURCE
#include "sockets_check.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in server;
static int listener;

/* From the begin on it has a name. */
static int connected(int type)
{
    const int fd = socket(AF_INET, SOCK_STREAM | type, 0);
    const int result = connect(fd, (struct sockaddr *)&server, sizeof server);
    struct sockaddr_in name = {0};
    socklen_t len = sizeof name;

    CHECK(fd >= 0 && (result == 0 || (type == SOCK_NONBLOCK && errno == EINPROGRESS)));
    CHECK(getsockname(fd, (struct sockaddr *)&name, &len) == 0 && name.sin_port != 0);
    CHECK(name.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    return fd;
}

/* A client's end and *fd, the server's, which has read an octet of it. */
static int used_connection(int *fd)
{
    char octet;

    listener = listen_somewhere(&server, 100);
    const int client = connected(0);
    *fd = accept(listener, NULL, NULL);
    CHECK(write(client, "x", 1) == 1 && read(*fd, &octet, 1) == 1);
    return client;
}

/* --- a socket that connects ------------------------------------------------------------------ */

static void *speak_first(void *arg)
{
    usleep(200000); /* the client waits first */
    const int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0 && write(fd, "x", 1) == 1);
    return arg;
}

/* A client of a server that speaks first has nothing to write. */
static void wait_to_read(bool by_select)
{
    pthread_t thread;
    char octet;

    listener = listen_somewhere(&server, 100);
    CHECK(pthread_create(&thread, NULL, speak_first, NULL) == 0);
    const int fd = connected(SOCK_NONBLOCK);
    const double begin = now();
    if (by_select) {
        struct timeval limit = {5, 0};
        fd_set readable;
        FD_ZERO(&readable);
        FD_SET(fd, &readable);
        CHECK(select(fd + 1, &readable, NULL, NULL, &limit) == 1 && FD_ISSET(fd, &readable));
    } else {
        struct pollfd p = {fd, POLLIN, 0};
        CHECK(poll(&p, 1, 5000) == 1 && p.revents == POLLIN);
    }
    CHECK(now() - begin < 3); /* at its end the kernel would look anew */
    CHECK(read(fd, &octet, 1) == 1 && octet == 'x');
    CHECK(pthread_join(thread, NULL) == 0);
}

static void poll_to_read_while_it_connects(void)
{
    wait_to_read(false);
}

static void select_to_read_while_it_connects(void)
{
    wait_to_read(true);
}

#define MANY 200

static void *take_many(void *arg)
{
    char octet;

    for (int i = 0; i < MANY; i++) {
        const int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0 && read(fd, &octet, 1) == 1);
        close(fd);
    }
    return arg;
}

/* The Apache Portable Runtime asks so how its connect went. */
static void connect_again(void)
{
    pthread_t thread;

    listener = listen_somewhere(&server, 100);
    CHECK(pthread_create(&thread, NULL, take_many, NULL) == 0);
    for (int i = 0; i < MANY; i++) {
        const int fd = connected(SOCK_NONBLOCK);
        struct pollfd p = {fd, POLLOUT, 0};
        while (poll(&p, 1, 0) == 0) {
        }
        CHECK(connect(fd, (struct sockaddr *)&server, sizeof server) == 0 || errno == EISCONN);
        CHECK(write(fd, "x", 1) == 1);
        close(fd);
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

/* There is one edge: what the program does then has to work. */
static void one_edge_when_it_is_connected(void)
{
    pthread_t thread;

    listener = listen_somewhere(&server, 100);
    CHECK(pthread_create(&thread, NULL, take_many, NULL) == 0);
    for (int i = 0; i < MANY; i++) {
        struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET};
        struct sockaddr_in peer;
        socklen_t len = sizeof peer, error_len = sizeof(int);
        int error = -1;
        const int set = epoll_create1(0), fd = connected(SOCK_NONBLOCK);
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e) == 0 && epoll_wait(set, &e, 1, 5000) == 1);
        CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len) == 0 && error == 0);
        CHECK(getpeername(fd, (struct sockaddr *)&peer, &len) == 0);
        CHECK(send(fd, "x", 1, 0) == 1);
        CHECK(close(fd) == 0 && close(set) == 0);
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

/* --- a server that is late ------------------------------------------------------------------- */

/* What the client gave up and began anew is one connection to the server. */
static void accept_late(void)
{
    char octets[2];

    CHECK(setenv("IWARP_SOCKETS_REPLY", "200", 1) == 0);
    listener = listen_somewhere(&server, 100);
    const pid_t client = fork();
    if (client == 0) {
        const int fd = connected(0);
        CHECK(write(fd, "hi", 2) == 2 && read(fd, octets, 2) == 0);
        exit(0);
    }
    usleep(700000);
    const int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0 && read(fd, octets, 2) == 2 && memcmp(octets, "hi", 2) == 0);
    close(fd);
    int status;
    CHECK(waitpid(client, &status, 0) == client && status == 0);
}

/* One thread has both ends, as in programs that want a pair of sockets. */
static void both_ends_in_one_thread(void)
{
    char octet;

    listener = listen_somewhere(&server, 100);
    for (int i = 0; i < 3; i++) {
        const double begin = now();
        const int client = connected(i == 1 ? SOCK_NONBLOCK : 0);
        struct pollfd p = {client, POLLOUT, 0};
        CHECK(poll(&p, 1, 5000) == 1 && p.revents == POLLOUT);
        CHECK(i == 2 || write(client, "x", 1) == 1);
        const int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0 && (i != 2 || write(client, "x", 1) == 1));
        CHECK(read(fd, &octet, 1) == 1 && octet == 'x' && write(fd, "y", 1) == 1);
        p.events = POLLIN;
        CHECK(poll(&p, 1, 5000) == 1 && read(client, &octet, 1) == 1 && octet == 'y');
        CHECK(now() - begin < 1.5);
        CHECK(close(fd) == 0 && read(client, &octet, 1) == 0 && close(client) == 0);
    }
}

static void *read_many(void *arg)
{
    char octets[5];

    for (int i = 0; i < MANY; i++) {
        const int fd = connected(0);
        CHECK(recv(fd, octets, sizeof octets, MSG_WAITALL) == 5 && memcmp(octets, "hello", 5) == 0);
        CHECK(close(fd) == 0);
    }
    return arg;
}

/* There is room in the buffer of a new connection. */
static void greet_many(void)
{
    for (int i = 0; i < MANY; i++) {
        const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        CHECK(fd >= 0 && write(fd, "hello", 5) == 5 && close(fd) == 0);
    }
}

static void write_at_once_what_was_accepted(void)
{
    pthread_t thread;

    listener = listen_somewhere(&server, 100);
    CHECK(pthread_create(&thread, NULL, read_many, NULL) == 0);
    greet_many();
    CHECK(pthread_join(thread, NULL) == 0);
}

static void ring(int n)
{
    (void)n;
}

/* A signal that waits until the call is over keeps nothing up. */
static void write_at_once_amid_signals(void)
{
    const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = ring, .sa_flags = SA_RESTART};
    sigset_t alarm;

    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL); /* in the thread that connects */
    listener = listen_somewhere(&server, 100);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, read_many, NULL) == 0);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    greet_many();
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

/* --- what was never a connection ------------------------------------------------------------- */

/* A Request without what rsockets say in it. The server has nothing to wait for at its end. */
static void exit_after_a_wrong_request(void)
{
    static const char request[20] = "MPA ID Req Frame\x40\x01";
    char octets[sizeof request];
    int status;

    CHECK(setenv("IWARP_SOCKETS_REPLY", "0", 1) == 0); /* a plain client */
    listener = listen_somewhere(&server, 100);
    const pid_t child = fork();
    if (child == 0) {
        const int fd = accept(listener, NULL, NULL);
        (void)!read(fd, octets, sizeof octets);
        exit(0);
    }
    const double begin = now();
    const int fd = connected(0);
    CHECK(write(fd, request, sizeof request) == sizeof request);
    CHECK(waitpid(child, &status, 0) == child && status == 0 && now() - begin < 3);
}

/* --- TCP_INFO -------------------------------------------------------------------------------- */

static int state_of(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof info;

    CHECK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0);
    return info.tcpi_state;
}

static void *write_and_end(void *arg)
{
    const int fd = connected(0);
    char octet;

    CHECK(write(fd, "x", 1) == 1 && state_of(fd) == TCP_ESTABLISHED);
    CHECK(read(fd, &octet, 1) == 1 && shutdown(fd, SHUT_WR) == 0);
    CHECK(state_of(fd) == TCP_FIN_WAIT1 || state_of(fd) == TCP_FIN_WAIT2);
    CHECK(read(fd, &octet, 1) == 1);
    return arg;
}

/* It is plain, and says nothing. */
static void silent_client_that_ends(void)
{
    int accepted[2], status;
    char octet;

    CHECK(pipe(accepted) == 0);
    listener = listen_somewhere(&server, 100);
    const pid_t child = fork();
    if (child == 0) {
        CHECK(setenv("IWARP_SOCKETS_REPLY", "0", 1) == 0);
        const int client = connected(0);
        CHECK(read(accepted[0], &octet, 1) == 1 && usleep(100000) == 0);
        _exit(close(client));
    }
    const int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0 && write(accepted[1], "", 1) == 1 && read(fd, &octet, 1) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Puma does not answer what is closed. */
static void state_in_tcp_info(void)
{
    pthread_t thread;
    char octet;

    listener = listen_somewhere(&server, 100);
    CHECK(pthread_create(&thread, NULL, write_and_end, NULL) == 0);
    const int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0 && read(fd, &octet, 1) == 1 && state_of(fd) == TCP_ESTABLISHED);
    CHECK(write(fd, "y", 1) == 1 && read(fd, &octet, 1) == 0 && state_of(fd) == TCP_CLOSE_WAIT);
    CHECK(write(fd, "z", 1) == 1);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* --- other threads --------------------------------------------------------------------------- */

static void *take_for_ever(void *arg)
{
    for (;;) {
        char octet;
        const int fd = accept(listener, NULL, NULL);
        if (fd >= 0) {
            (void)!recv(fd, &octet, 1, 0);
            close(fd);
        }
    }
    return arg;
}

static void end_of_connect(void *fd)
{
    CHECK(close(*(int *)fd) == 0);
}

static void *connect_for_ever(void *waits)
{
    for (;;) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        CHECK(fd >= 0);
        pthread_cleanup_push(end_of_connect, (void *)&fd);
        CHECK(connect(fd, (struct sockaddr *)&server, sizeof server) == 0 || errno == EINPROGRESS);
        (void)poll(&(struct pollfd){fd, POLLOUT, 0}, 1, waits ? 1000 : 0);
        pthread_cleanup_pop(1);
    }
    return NULL;
}

/* Its handler of cancellation closes the socket, wherever it was. */
static void cancelled_while_it_connects(void)
{
    pthread_t peer, thread;

    alarm(30);
    listener = listen_somewhere(&server, 100);
    CHECK(pthread_create(&peer, NULL, take_for_ever, NULL) == 0);
    for (unsigned i = 0; i < 60; i++) {
        CHECK(pthread_create(&thread, NULL, connect_for_ever, i % 2 ? &server : NULL) == 0);
        usleep(1000 + i * 100);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

static void *read_for_ever(void *fd)
{
    char octet;

    for (;;) {
        CHECK(read(*(int *)fd, &octet, 1) == 1);
    }
    return NULL;
}

static void *write_for_ever(void *fd)
{
    static const char some[65536];

    for (;;) {
        CHECK(write(*(int *)fd, some, sizeof some) > 0);
    }
    return NULL;
}

static void *read_to_the_octet(void *fd)
{
    char octet;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    CHECK(read(*(int *)fd, &octet, 1) == 1);
    return NULL;
}

/* Its socket stays as it is. */
static void cancelled_while_it_reads_or_writes(void)
{
    void *(*const work[])(void *) = {read_for_ever, write_for_ever, read_to_the_octet};
    pthread_t thread;
    void *result;
    char octet;

    alarm(30);
    listener = listen_somewhere(&server, 100);
    for (unsigned i = 0; i < 30; i++) {
        int client = connected(0);
        const int fd = accept(listener, NULL, NULL);
        CHECK(write(client, "x", 1) == 1 && read(fd, &octet, 1) == 1);
        CHECK(pthread_create(&thread, NULL, work[i % 3], &client) == 0);
        usleep(i < 3 ? 200000 : i * 1000);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(i % 3 != 2 || (usleep(20000) == 0 && write(fd, "y", 1) == 1));
        CHECK(pthread_join(thread, &result) == 0 && (result == PTHREAD_CANCELED) == (i % 3 != 2));
        CHECK(write(fd, "z", 1) == 1 && read(client, &octet, 1) == 1 && octet == 'z');
        CHECK(close(fd) == 0 && close(client) == 0);
    }
}

static void *write_when_cancelled(void *fd)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    CHECK(pthread_cancel(pthread_self()) == 0);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    CHECK(write(*(int *)fd, "y", 1) == 1);
    return NULL;
}

/* The call need not wait, and nothing goes out. */
static void cancelled_before_it_writes(void)
{
    pthread_t thread;
    void *result;
    char octet;

    listener = listen_somewhere(&server, 100);
    int client = connected(0);
    const int fd = accept(listener, NULL, NULL);
    CHECK(write(client, "x", 1) == 1 && read(fd, &octet, 1) == 1);
    CHECK(pthread_create(&thread, NULL, write_when_cancelled, &client) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(write(client, "z", 1) == 1 && read(fd, &octet, 1) == 1 && octet == 'z');
}

/* As a handler of cancellation may: it waits for an octet, with a time-out. */
static void read_at_the_end(void *fd)
{
    const struct timeval limit = {.tv_sec = 10};
    struct timespec used;
    char octet;

    CHECK(setsockopt(*(int *)fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(read(*(int *)fd, &octet, 1) == 1 && octet == 'e');
    CHECK(setsockopt(*(int *)fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0}, sizeof limit) == 0);
    CHECK(read(*(int *)fd, &octet, 1) == 1 && octet == 'f');
    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0);
    CHECK(used.tv_sec == 0 && used.tv_nsec < 250000000); /* it has slept */
}

static void *end_with_a_read(void *fd)
{
    pthread_cleanup_push(read_at_the_end, fd);
    (void)read_for_ever(fd);
    pthread_cleanup_pop(0);
    return NULL;
}

static void handler_of_cancellation_reads(void)
{
    pthread_t thread;
    char octet;

    alarm(30);
    listener = listen_somewhere(&server, 100);
    int client = connected(0);
    const int fd = accept(listener, NULL, NULL);
    CHECK(write(client, "x", 1) == 1 && read(fd, &octet, 1) == 1);
    CHECK(pthread_create(&thread, NULL, end_with_a_read, &client) == 0);
    usleep(200000);
    CHECK(pthread_cancel(thread) == 0);
    usleep(100000);
    CHECK(write(fd, "e", 1) == 1);
    usleep(500000);
    CHECK(write(fd, "f", 1) == 1 && pthread_join(thread, NULL) == 0);
}

static atomic_bool over;

/* What it opens is what it has, whatever other threads do to their own numbers. */
static void *open_zero(void *arg)
{
    while (!over) {
        char octet = 1;
        const int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        usleep(20);
        CHECK(fd >= 0 && read(fd, &octet, 1) == 1 && octet == 0);
        CHECK(close(fd) == 0);
    }
    return arg;
}

/* Its number becomes another's in one step. */
static void number_of_another(void)
{
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pthread_t peer, thread;
    char octet;

    listener = listen_somewhere(&server, 100);
    CHECK(null >= 0 && pthread_create(&peer, NULL, take_for_ever, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, open_zero, NULL) == 0);
    for (int i = 0; i < MANY; i++) {
        const int fd = connected(i % 2 ? SOCK_NONBLOCK : 0);
        CHECK(dup2(null, fd) == fd && read(fd, &octet, 1) == 0);
        CHECK(close(fd) == 0);
    }
    over = true;
    CHECK(pthread_join(thread, NULL) == 0);
}

/* TCP is connected, whatever the library still waits for. */
static void shut_down_while_it_connects(void)
{
    char octet;

    listener = listen_somewhere(&server, 100);
    for (int i = 0; i < 10; i++) {
        const int client = connected(SOCK_NONBLOCK);
        CHECK(i % 2 || poll(&(struct pollfd){client, POLLOUT, 0}, 1, 100) >= 0);
        CHECK(shutdown(client, SHUT_WR) == 0);
        const int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0 && read(fd, &octet, 1) == 0);
        CHECK(close(fd) == 0 && close(client) == 0);
    }
}

static void connection_listens_to_nobody(void)
{
    const struct sockaddr_in any = {.sin_family = AF_INET};
    char octet;
    int fd;

    const int client = used_connection(&fd);
    for (int i = 0; i < 2; i++) {
        const int end = i ? client : fd;
        errno = 0;
        CHECK(listen(end, 1) == -1 && errno == EINVAL);
        errno = 0;
        CHECK(bind(end, (const struct sockaddr *)&any, sizeof any) == -1 && errno == EINVAL);
    }
    CHECK(write(fd, "y", 1) == 1 && read(client, &octet, 1) == 1 && octet == 'y');
}

/* A process may wait for no more descriptors than it may have, whatever memory is behind them. */
static void polls_of_too_many(void)
{
    int (*volatile wait_for)(struct pollfd *, nfds_t, int) = poll;
    int (*volatile wait_long)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *) =
        ppoll;
    struct pollfd p = {.events = POLLIN};

    listener = listen_somewhere(&server, 100);
    p.fd = connected(0);
    errno = 0;
    CHECK(wait_for(&p, (nfds_t)-1, 0) == -1 && errno == EINVAL);
    errno = 0;
    CHECK(wait_long(&p, (nfds_t)-1, &(struct timespec){0}, NULL) == -1 && errno == EINVAL);
}

/* Any socket of TCP knows the addresses of interfaces. */
static void interfaces(void)
{
    struct ifreq of = {.ifr_name = "lo"};
    int fd;

    const int client = used_connection(&fd);
    (void)poll(&(struct pollfd){fd, POLLIN, 0}, 1, 0); /* with another face */
    for (int i = 0; i < 2; i++) {
        CHECK(ioctl(i ? client : fd, SIOCGIFADDR, &of) == 0);
        CHECK(((struct sockaddr_in *)&of.ifr_addr)->sin_family == AF_INET);
    }
}

/* What a child asks for is its own connection's, before it has used that. */
static void time_out_in_a_child(void)
{
    const struct timeval limit = {.tv_usec = 100000};
    char octet;
    int status;
    int fd;

    const int client = used_connection(&fd);
    if (fork() == 0) {
        alarm(5);
        CHECK(setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
        CHECK(read(client, &octet, 1) == -1 && errno == EAGAIN);
        exit(0);
    }
    CHECK(wait(&status) > 0 && status == 0);
}

static void child_connects_once_more(void)
{
    char octet;
    int status;
    int fd;

    const int client = used_connection(&fd);
    if (fork() == 0) {
        for (int i = 0; i < 2; i++) {
            errno = 0;
            CHECK(connect(client, (struct sockaddr *)&server, sizeof server) == -1);
            CHECK(errno == EISCONN && write(client, "y", 1) == 1);
        }
        exit(0);
    }
    CHECK(wait(&status) > 0 && status == 0);
    CHECK(read(fd, &octet, 1) == 1 && octet == 'y' && read(fd, &octet, 1) == 1 && octet == 'y');
}

/* Its connection ends there, once what was written has gone. */
static void stream_that_is_opened_again(void)
{
    char octets[4];
    int fd;

    const int client = used_connection(&fd);
    FILE *stream = fdopen(client, "w");
    CHECK(stream && fseek(stream, 0, SEEK_END) == -1 && errno == ESPIPE);
    CHECK(fputs("abc", stream) >= 0);
    CHECK(freopen("/dev/null", "w", stream) == stream && fileno(stream) == client);
    CHECK(recv(fd, octets, 3, MSG_WAITALL) == 3 && memcmp(octets, "abc", 3) == 0);
    CHECK(read(fd, octets, 1) == 0);
    CHECK(fputs("def", stream) >= 0 && fclose(stream) == 0);
}

/* As FTP's active mode: the server connects to its client, which accepts once it has been told so.
 */
static void connect_back(int listener)
{
    struct sockaddr_in to;
    const int fd = accept(listener, NULL, NULL), back = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(recv(fd, &to, sizeof to, MSG_WAITALL) == sizeof to);
    CHECK(connect(back, (struct sockaddr *)&to, sizeof to) == 0);
    CHECK(write(fd, "", 1) == 1 && write(back, "b", 1) == 1);
    exit(0);
}

static void server_connects_to_its_client(void)
{
    struct sockaddr_in at, own;
    const int theirs = listen_somewhere(&at, 1);
    const double from = now();
    char octet;
    int status;

    if (fork() == 0) {
        connect_back(theirs);
    }
    const int ours = listen_somewhere(&own, 1), fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(write(fd, &own, sizeof own) == sizeof own && read(fd, &octet, 1) == 1);
    const int data = accept(ours, NULL, NULL);
    CHECK(data >= 0 && read(data, &octet, 1) == 1 && octet == 'b');
    CHECK(now() - from < 2 && wait(&status) > 0 && status == 0);
}

/* Whatever state the connection is in, such a call does not wait. */
static void has_no_errors_and_no_urgent_data(int fd)
{
    char octet;

    CHECK(recv(fd, &octet, 1, MSG_ERRQUEUE) == -1 && errno == EAGAIN);
    CHECK(recv(fd, &octet, 1, MSG_OOB) == -1 && errno == EINVAL);
}

static void queues_that_are_empty(void)
{
    int status, fd, silent;
    char octet = 'x';

    alarm(10);
    const int client = used_connection(&fd);
    has_no_errors_and_no_urgent_data(fd);
    has_no_errors_and_no_urgent_data(client);
    (void)connected(0);
    if (poll(&(struct pollfd){listener, POLLIN, 0}, 1, 0) > 0) {
        silent = accept(listener, NULL, NULL);
        has_no_errors_and_no_urgent_data(silent);
    }
    const pid_t child = fork();
    if (child == 0) {
        CHECK(write(client, &octet, 1) == 1);
        has_no_errors_and_no_urgent_data(client);
        exit(0);
    }
    CHECK(read(fd, &octet, 1) == 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* --------------------------------------------------------------------------------------------- */

static const struct one_case cases[] = {CASE(poll_to_read_while_it_connects),
                                        CASE(select_to_read_while_it_connects),
                                        CASE(one_edge_when_it_is_connected),
                                        CASE(connect_again),
                                        CASE(accept_late),
                                        CASE(both_ends_in_one_thread),
                                        CASE(write_at_once_what_was_accepted),
                                        CASE(write_at_once_amid_signals),
                                        CASE(exit_after_a_wrong_request),
                                        CASE(silent_client_that_ends),
                                        CASE(state_in_tcp_info),
                                        CASE(cancelled_while_it_connects),
                                        CASE(cancelled_while_it_reads_or_writes),
                                        CASE(cancelled_before_it_writes),
                                        CASE(handler_of_cancellation_reads),
                                        CASE(number_of_another),
                                        CASE(server_connects_to_its_client),
                                        CASE(shut_down_while_it_connects),
                                        CASE(connection_listens_to_nobody),
                                        CASE(polls_of_too_many),
                                        CASE(stream_that_is_opened_again),
                                        CASE(interfaces),
                                        CASE(queues_that_are_empty),
                                        CASE(time_out_in_a_child),
                                        CASE(child_connects_once_more)};

int main(int argc, char **argv)
{
    return main_of(argc, argv, cases, sizeof cases / sizeof cases[0], NULL);
}
