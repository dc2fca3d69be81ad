/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Epoll sets that are used in unusual ways, and what waits in the kernel beside a thread that is
 * quick to come back. Each case first has many short waits. The kernel's TCP passes as well.
 *
 *   sockets_sets CASE
 */
#define _GNU_SOURCE
#include "sockets_check.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONNS 4

/* --- the peer: it echoes each octet, after so many milliseconds ------------------------------- */

static void *echo(void *arg)
{
    const int fd = *(const int *)arg;
    unsigned char ms;

    while (read(fd, &ms, 1) == 1 && usleep(1000u * ms) == 0 && write(fd, &ms, 1) == 1) {
    }
    return NULL;
}

static int c[CONNS];

static void connect_all(void)
{
    struct sockaddr_in at;
    const int listener = listen_somewhere(&at, CONNS);
    int ends[2];
    char octet;

    CHECK(pipe(ends) == 0);
    if (fork() == 0) {
        static int theirs[CONNS];
        pthread_t thread;
        close(ends[1]);
        for (int i = 0; i < CONNS; i++) {
            theirs[i] = socket(AF_INET, SOCK_STREAM, 0);
            CHECK(connect(theirs[i], (struct sockaddr *)&at, sizeof at) == 0 &&
                  write(theirs[i], "", 1) == 1 &&
                  pthread_create(&thread, NULL, echo, &theirs[i]) == 0);
        }
        _exit(read(ends[0], &octet, 1) != 0); /* the end of the parent */
    }
    close(ends[0]);
    for (int i = 0; i < CONNS; i++) {
        c[i] = accept(listener, NULL, NULL);
        CHECK(c[i] >= 0 && read(c[i], &octet, 1) == 1 && fcntl(c[i], F_SETFL, O_NONBLOCK) == 0);
    }
    close(listener);
}

static void ask(int fd, unsigned char ms)
{
    CHECK(write(fd, &ms, 1) == 1);
}

static bool get(int fd)
{
    char octet;

    return read(fd, &octet, 1) == 1;
}

static int control(int set, int op, int fd, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.fd = fd};

    return epoll_ctl(set, op, fd, &e);
}

static int add(int set, int fd, uint32_t events)
{
    return control(set, EPOLL_CTL_ADD, fd, events);
}

/* The number of what is told, or -1. */
static int told(int set, int timeout_ms)
{
    struct epoll_event e;
    const int n = epoll_wait(set, &e, 1, timeout_ms);

    CHECK(n >= 0);
    return n == 1 ? e.data.fd : -1;
}

/* To and fro until a thread surely has the loop. */
static void warm(int set, int fd)
{
    for (int i = 0; i < 100; i++) {
        ask(fd, 0);
        do {
            CHECK(told(set, 2000) == fd);
        } while (!get(fd));
    }
}

static int warm_set(void)
{
    const int set = epoll_create1(0);

    CHECK(add(set, c[0], EPOLLIN) == 0);
    warm(set, c[0]);
    return set;
}

/* --- cases ----------------------------------------------------------------------------------- */

#define FAILS(call, error) (errno = 0, CHECK((call) == -1), CHECK(errno == (error)))

static void answers_of_epoll_ctl(void)
{
    const int set = warm_set(), other = epoll_create1(0);

    CHECK(add(set, c[1], EPOLLIN) == 0);
    FAILS(add(set, c[1], EPOLLOUT), EEXIST);
    warm(set, c[0]);
    FAILS(add(set, c[1], EPOLLOUT), EEXIST);
    CHECK(told(set, 20) == -1);
    CHECK(control(set, EPOLL_CTL_DEL, c[1], 0) == 0);
    FAILS(control(set, EPOLL_CTL_DEL, c[1], 0), ENOENT);
    FAILS(control(set, EPOLL_CTL_MOD, c[1], EPOLLIN), ENOENT);
    ask(c[1], 5);
    CHECK(told(set, 50) == -1 && get(c[1]));
    warm(set, c[0]);
    for (int wrong = -3; wrong < 0; wrong++) {
        FAILS(add(wrong, c[1], EPOLLIN), EBADF);
        FAILS(control(wrong, EPOLL_CTL_MOD, c[1], EPOLLIN), EBADF);
    }
    FAILS(add(999, c[1], EPOLLIN), EBADF);
    FAILS(add(c[2], c[1], EPOLLIN), EINVAL);
    FAILS(control(c[2], EPOLL_CTL_DEL, c[1], 0), EINVAL);
    FAILS(control(set, 77, c[0], EPOLLIN), EINVAL);
    FAILS(epoll_ctl(set, EPOLL_CTL_ADD, c[1], NULL), EFAULT);

    const int twin = dup(c[2]); /* and then it has one number again */
    CHECK(add(set, twin, EPOLLIN) == 0 && close(c[2]) == 0);
    CHECK(control(set, EPOLL_CTL_MOD, twin, EPOLLIN | EPOLLOUT) == 0 && told(set, 100) == twin);
    CHECK(control(set, EPOLL_CTL_DEL, twin, 0) == 0);
    ask(twin, 5);
    CHECK(told(set, 50) == -1);

    CHECK(add(set, c[3], EPOLLIN) == 0 && add(other, c[3], EPOLLIN) == 0 && close(other) == 0);
    CHECK(control(set, EPOLL_CTL_MOD, c[3], EPOLLIN | EPOLLOUT) == 0 && told(set, 100) == c[3]);
    CHECK(control(set, EPOLL_CTL_DEL, c[3], 0) == 0 && told(set, 50) == -1);
}

static void set_within_a_set(void)
{
    const int set = warm_set(), outer = epoll_create1(0);

    CHECK(add(outer, set, EPOLLIN) == 0);
    for (int i = 0; i < 100; i++) {
        ask(c[0], 0);
        do {
            CHECK(told(outer, 2000) == set);
        } while (told(set, 0) != c[0]);
        CHECK(get(c[0]));
    }
}

static void set_that_is_polled(void)
{
    const int set = warm_set();
    struct pollfd p = {set, POLLIN, 0};

    for (int i = 0; i < 100; i++) {
        ask(c[0], 0);
        do {
            CHECK(poll(&p, 1, 2000) == 1);
        } while (told(set, 0) != c[0]);
        CHECK(get(c[0]));
    }
}

static void set_with_two_numbers(void)
{
    const int set = warm_set(), twin = fcntl(set, F_DUPFD_CLOEXEC, 100);

    warm(set, c[0]);
    ask(c[0], 5);
    CHECK(told(twin, 2000) == c[0] && get(c[0]));
    CHECK(close(set) == 0);
    ask(c[0], 20);
    CHECK(told(twin, 2000) == c[0]);
}

/* Ways by which a set may live on, or seem to, where nobody sees it. */
static void be_polled(int set)
{
    (void)poll(&(struct pollfd){set, POLLIN, 0}, 1, 0);
}

static void be_within_another(int set)
{
    const int outer = epoll_create1(0);

    CHECK(add(outer, set, EPOLLIN) == 0 && close(outer) == 0);
}

static void have_had_a_twin(int set)
{
    CHECK(close(dup(set)) == 0);
}

/* What was in a set that is closed may enter others. */
static void sets_after_one_that_is_closed(void)
{
    static void (*const ways[])(int set) = {be_polled, be_within_another, have_had_a_twin};

    for (int i = 0; i < 3; i++) {
        const int set = warm_set(), own = c[i + 1];
        CHECK(add(set, own, EPOLLIN) == 0);
        ways[i](set);
        CHECK(close(set) == 0);
        for (int k = 0; k < 2; k++) {
            const int fresh = epoll_create1(0);
            CHECK(add(fresh, own, EPOLLIN) == 0);
            ask(own, 5);
            CHECK(told(fresh, 2000) == own && get(own));
        }
    }
}

static void set_that_is_not_replaced(void)
{
    const int set = warm_set();

    FAILS(dup2(999, set), EBADF);
    for (int i = 0; i < 20; i++) {
        ask(c[0], 5);
        CHECK(told(set, 2000) == c[0] && get(c[0]));
    }
    CHECK(control(set, EPOLL_CTL_MOD, c[0], EPOLLIN) == 0);
}

/* Nobody accepts it. Its numbers are closed, so the set has none of it. */
static void closed_while_it_connects(void)
{
    struct sockaddr_in at;
    const int listener = listen_somewhere(&at, 1), set = epoll_create1(0);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    alarm(20); /* for a call that would wait for the connection */
    CHECK(setenv("IWARP_SOCKETS_REPLY", "200", 1) == 0);
    CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0 || errno == EINPROGRESS);
    const int twin = fcntl(fd, F_DUPFD_CLOEXEC, 100);
    CHECK(twin >= 100 && add(set, fd, EPOLLIN | EPOLLRDHUP) == 0 && close(twin) == 0);
    CHECK(close(fd) == 0);
    CHECK(told(set, 300) == -1);
    CHECK(close(listener) == 0);
}

/* Programs give select longer sets than the C library's. */
static void select_of_a_large_number(void)
{
    static fd_set sets[4];
    struct rlimit limit;

    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max < 8192 ? limit.rlim_max : 8192;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    const int fd = fcntl(c[0], F_DUPFD, 1500);
    fd_mask *mask = (fd_mask *)sets + fd / NFDBITS;
    CHECK(fd >= 1500 && close(c[0]) == 0);
    for (unsigned i = 0; i < 40; i++) {
        struct timeval t = {0, 20000};
        *mask = (fd_mask)1 << fd % NFDBITS;
        CHECK(select(fd + 1, sets, NULL, NULL, &t) == 0 && *mask == 0);
        ask(fd, 0);
        t.tv_sec = 2;
        *mask = (fd_mask)1 << fd % NFDBITS;
        CHECK(select(fd + 1, sets, NULL, NULL, &t) == 1 && *mask != 0 && get(fd));
    }
}

static void *use_little_stack(void *arg)
{
    const int set = epoll_create1(0);

    CHECK(add(set, c[1], EPOLLIN) == 0);
    warm(set, c[1]);
    return arg;
}

/* Too little to run the library's loop. */
static void thread_with_a_small_stack(void)
{
    pthread_attr_t attr;
    pthread_t thread;

    (void)warm_set();
    CHECK(pthread_attr_init(&attr) == 0);
    CHECK(pthread_attr_setstacksize(&attr, (size_t)sysconf(_SC_THREAD_STACK_MIN)) == 0);
    CHECK(pthread_create(&thread, &attr, use_little_stack, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static int pool;
static atomic_bool awake;

static void *sleep_in_pool(void *arg)
{
    (void)arg;
    CHECK(told(pool, -1) == c[1]);
    awake = true;
    return NULL;
}

/* The number of a set for which a thread was quick is given to another one. */
static void set_that_has_the_number_of_another(void)
{
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        const int before = warm_set();
        CHECK(add(before, c[1], EPOLLIN) == 0); /* which may need descriptors */
        warm(before, c[0]);
        CHECK(close(before) == 0);
        FAILS(add(before, c[1], EPOLLIN), EBADF);
        pool = epoll_create1(0);
        CHECK(pool == before);
        awake = false;
        CHECK(pthread_create(&thread, NULL, sleep_in_pool, NULL) == 0);
        usleep(20000);
        CHECK(add(pool, c[1], EPOLLIN) == 0);
        ask(c[1], 20);
        for (const double until = now() + 5; !awake && now() < until;) { /* it computes */
        }
        CHECK(awake && pthread_join(thread, NULL) == 0 && get(c[1]) && close(pool) == 0);
    }
}

static void waits_of_short_times(void)
{
    const struct timespec wrong = {0, 2000000000}, short_one = {0, 50000};
    struct pollfd p = {c[0], POLLIN, 0};
    struct epoll_event e;
    const int set = warm_set(), other = epoll_create1(0), bell = eventfd(0, 0);

    FAILS(ppoll(&p, 1, &wrong, NULL), EINVAL);
    FAILS(epoll_pwait2(set, &e, 1, &wrong, NULL), EINVAL);
    CHECK(add(other, bell, EPOLLIN) == 0);
    for (int of_set = 0; of_set < 2; of_set++) {
        double least = 1;
        for (int i = 0; i < 50; i++) {
            const double began = now();
            CHECK(epoll_pwait2(of_set ? set : other, &e, 1, &short_one, NULL) == 0);
            least = now() - began < least ? now() - began : least;
        }
        CHECK(least >= 0.00005 && least < 0.0009);
    }
}

/* A thread sleeps in a set since before there was a connection in it. */
static void set_that_others_sleep_in(void)
{
    pthread_t thread;
    const int bell = eventfd(0, 0);

    pool = epoll_create1(0);
    CHECK(add(pool, bell, EPOLLIN) == 0);
    CHECK(pthread_create(&thread, NULL, sleep_in_pool, NULL) == 0);
    usleep(50000);
    (void)warm_set();
    CHECK(add(pool, c[1], EPOLLIN) == 0);
    (void)told(pool, 0);
    ask(c[1], 20);
    for (const double until = now() + 2; !awake && now() < until;) { /* it computes */
    }
    CHECK(awake && pthread_join(thread, NULL) == 0);
}

static void pipe_beside_what_is_ready(void)
{
    int ends[2];

    CHECK(pipe(ends) == 0);
    struct pollfd first = {c[0], POLLOUT, 0}, both[2] = {{ends[0], POLLIN, 0}, {c[1], POLLOUT, 0}};
    for (int i = 0; i < 100; i++) {
        CHECK(poll(&first, 1, 1000) == 1);
    }
    CHECK(write(ends[1], "", 1) == 1);
    for (int i = 0; i < 100; i++) {
        CHECK(poll(&first, 1, 1000) == 1);
        CHECK(poll(both, 2, 1000) == 2 && both[0].revents == POLLIN);
    }

    const int set = epoll_create1(0);
    CHECK(add(set, c[0], EPOLLOUT) == 0 && add(set, c[1], EPOLLOUT) == 0 &&
          add(set, ends[0], EPOLLIN) == 0);
    int seen = 0;
    for (int i = 0; i < 200; i++) {
        seen += told(set, 1000) == ends[0];
    }
    CHECK(seen > 0);
}

/* Nobody hears of a hang-up in a set of urgent data. */
static void select_of_a_hang_up(void)
{
    int ends[2];
    struct timeval second = {0, 100000};
    fd_set readable, urgent;

    (void)warm_set();
    CHECK(pipe(ends) == 0 && close(ends[1]) == 0);
    for (int i = 0; i < 50; i++) {
        FD_ZERO(&readable);
        FD_SET(c[0], &readable);
        ask(c[0], 0);
        CHECK(select(c[0] + 1, &readable, NULL, NULL, NULL) == 1 && get(c[0]));
    }
    FD_ZERO(&readable);
    FD_ZERO(&urgent);
    FD_SET(c[0], &readable);
    FD_SET(ends[0], &urgent);
    const double began = now();
    CHECK(select(FD_SETSIZE, &readable, NULL, &urgent, &second) == 0 && now() - began > 0.09);
    CHECK(!FD_ISSET(c[0], &readable) && !FD_ISSET(ends[0], &urgent));
}

static volatile sig_atomic_t rang;

static void on_alarm(int n)
{
    (void)n;
    rang++;
}

static void *trickle(void *arg)
{
    (void)arg;
    for (int i = 0; i < 200; i++) { /* echoes come, for which nobody asks the set */
        ask(c[1], 0);
        usleep(1000);
    }
    return NULL;
}

static void signal_while_others_receive(void)
{
    /* Again: the first one may come before the wait begins. */
    const struct itimerval soon = {{.tv_usec = 60000}, {.tv_usec = 60000}}, never = {{0}, {0}};
    const struct sigaction action = {.sa_handler = on_alarm};
    const int set = warm_set();
    struct epoll_event e;
    pthread_t thread;
    sigset_t alarm;

    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    CHECK(add(set, c[1], EPOLLRDHUP) == 0 && sigaction(SIGALRM, &action, NULL) == 0);
    warm(set, c[0]);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL); /* it is for this thread */
    CHECK(pthread_create(&thread, NULL, trickle, NULL) == 0);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    CHECK(epoll_wait(set, &e, 1, 5000) == -1 && errno == EINTR && rang > 0);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void cancelled_while_it_waits(void)
{
    (void)warm_set();
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        pool = epoll_create1(0);
        CHECK(add(pool, c[1], EPOLLIN) == 0);
        CHECK(pthread_create(&thread, NULL, sleep_in_pool, NULL) == 0);
        usleep(1000u * (unsigned)(i % 5));
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, NULL) == 0);
        CHECK(close(pool) == 0);
    }
    (void)warm_set();
}

/* --- main ------------------------------------------------------------------------------------ */

static const struct one_case cases[] = {
    CASE(answers_of_epoll_ctl),     CASE(set_within_a_set),
    CASE(set_that_is_polled),       CASE(set_with_two_numbers),
    CASE(set_that_others_sleep_in), CASE(set_that_has_the_number_of_another),
    CASE(waits_of_short_times),     CASE(pipe_beside_what_is_ready),
    CASE(select_of_a_hang_up),      CASE(signal_while_others_receive),
    CASE(cancelled_while_it_waits), CASE(sets_after_one_that_is_closed),
    CASE(set_that_is_not_replaced), CASE(closed_while_it_connects),
    CASE(select_of_a_large_number), CASE(thread_with_a_small_stack)};

static void run_case(const struct one_case *c)
{
    connect_all();
    c->run();
}

int main(int argc, char **argv)
{
    return main_of(argc, argv, cases, sizeof cases / sizeof cases[0], run_case);
}
