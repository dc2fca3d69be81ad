/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handlers of signals that come while a thread is in a call on a socket: they leave it by
 * siglongjmp, use sockets themselves, end calls or not. The kernel's TCP passes as well.
 *
 *   sockets_signals CASE
 */
#define _GNU_SOURCE
#include "sockets_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* siginterrupt */

static void alarm_after(long us)
{
    CHECK(setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = us}, NULL) == 0);
}

static void handle(int n, void (*handler)(int), int flags)
{
    const struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

    CHECK(sigaction(n, &action, NULL) == 0);
}

static char block[65536];

/* --- handlers that leave --------------------------------------------------------------------- */

static void *kill_later(void *arg)
{
    usleep(150000);
    pthread_kill(*(pthread_t *)arg, SIGALRM);
    return NULL;
}

static sigjmp_buf back;

static void leave(int n)
{
    siglongjmp(back, n);
}

static int source, sink, quiet, set;

static void reads(void)
{
    (void)!read(source, block, sizeof block);
}

static void writes(void)
{
    (void)!write(sink, block, sizeof block);
}

static void reads_in_vain(void)
{
    (void)!read(quiet, block, sizeof block);
}

static void writes_to_nobody(void)
{
    (void)!write(quiet, block, sizeof block);
}

static void polls(void)
{
    struct pollfd p[2] = {{quiet, POLLIN, 0}, {source, POLLIN, 0}};

    (void)poll(p, 2, -1);
    (void)!read(source, block, 4096);
    (void)poll(p, 1, 1);
}

static void selects(void)
{
    struct timeval t = {0, 1000};
    fd_set some;

    FD_ZERO(&some);
    FD_SET(quiet, &some);
    FD_SET(source, &some);
    (void)select((quiet > source ? quiet : source) + 1, &some, NULL, NULL, &t);
    (void)!read(source, block, 4096);
}

static void waits(void)
{
    struct epoll_event e = {.events = EPOLLIN};

    (void)epoll_wait(set, &e, 1, 1);
    (void)!read(source, block, 4096);
}

static void connects(void)
{
    static int last = -1;

    if (last >= 0) {
        close(last);
    }
    last = socket(AF_INET, SOCK_STREAM, 0);
    (void)connect(last, (struct sockaddr *)&address, sizeof address);
    (void)!write(last, "e", 1);
    (void)!write(last, "x", 1);
    (void)!read(last, block, 1);
}

/* Time after time; calls on another connection find no lock taken. */
static void leave_often(void (*work)(void), int flags)
{
    struct epoll_event e = {.events = EPOLLIN};
    volatile unsigned times = 0;
    const int echo = peer(ECHO);

    source = peer(SOURCE), sink = peer(SINK), quiet = peer(QUIET), set = epoll_create1(0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, source, &e) == 0);
    handle(SIGALRM, leave, flags);
    while (times < 300) {
        if (sigsetjmp(back, 1) == 0) {
            alarm_after(50 + random() % 1500);
            for (;;) {
                work();
            }
        }
        times++;
        echoes(echo);
    }
    CHECK(close(source) == 0 && close(sink) == 0 && close(quiet) == 0 && close(set) == 0);
    echoes(echo);
    close(echo);
}

#define LEAVE(work)                                                                                \
    static void leaves_##work(void)                                                                \
    {                                                                                              \
        leave_often(work, 0);                                                                      \
        leave_often(work, SA_RESTART);                                                             \
    }
LEAVE(reads)
LEAVE(writes)
LEAVE(reads_in_vain)
LEAVE(writes_to_nobody)
LEAVE(polls)
LEAVE(selects)
LEAVE(waits)
LEAVE(connects)

static int file;

/* The file's position is what the peer has been sent. */
static void sends_files(void)
{
    if (lseek(file, 0, SEEK_CUR) > 1 << 22) {
        CHECK(lseek(file, 0, SEEK_SET) == 0);
    }
    (void)sendfile(sink, file, NULL, 1 << 20);
    free(malloc(100000)); /* whose lock is not taken */
}

static void leaves_files(void)
{
    char name[] = "/tmp/sockets_signals.XXXXXX";

    file = mkstemp(name);
    CHECK(file >= 0 && unlink(name) == 0 && ftruncate(file, 1 << 23) == 0);
    leave_often(sends_files, SA_RESTART);
}

static void *leave_and_end(void *arg)
{
    const bool by_epoll = *(bool *)arg;
    struct epoll_event e;
    static pthread_t self, thread;

    self = pthread_self();
    if (sigsetjmp(back, 1) == 0) {
        CHECK(pthread_create(&thread, NULL, kill_later, &self) == 0);
        (void)(by_epoll ? epoll_wait(set, &e, 1, 2000)
                        : poll(&(struct pollfd){quiet, POLLIN, 0}, 1, 2000));
    }
    CHECK(pthread_join(thread, NULL) == 0);
    pthread_exit(arg); /* nothing of the call that was left is undone now */
}

static void leaves_and_ends(void)
{
    struct epoll_event e = {.events = EPOLLIN};
    pthread_t thread;
    void *result;

    quiet = peer(QUIET), set = epoll_create1(0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, quiet, &e) == 0);
    handle(SIGALRM, leave, 0);
    for (int i = 0; i < 4; i++) {
        bool by_epoll = i % 2;
        CHECK(pthread_create(&thread, NULL, leave_and_end, &by_epoll) == 0);
        CHECK(pthread_join(thread, &result) == 0 && result == &by_epoll);
    }
}

static int open_numbers(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void polls_or_selects(int fd, bool by_select)
{
    struct pollfd p[2] = {{fd, POLLIN, 0}, {quiet, POLLIN, 0}};
    fd_set some;

    FD_ZERO(&some);
    FD_SET(fd, &some);
    (void)(by_select ? select(fd + 1, &some, NULL, NULL, NULL) : poll(p, 2, -1));
    CHECK(!"left");
}

static void nothing(int n)
{
    (void)n;
}

/* The signal is let in for the wait alone. */
static void polls_with_a_mask(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};
    sigset_t some, before, after;

    handle(SIGALRM, nothing, SA_RESTART);
    sigemptyset(&some);
    sigaddset(&some, SIGALRM);
    CHECK(sigprocmask(SIG_BLOCK, &some, &before) == 0);
    alarm_after(50 + random() % 1500);
    CHECK(ppoll(&p, 1, NULL, &before) == -1 && errno == EINTR);
    CHECK(sigprocmask(SIG_SETMASK, &before, &after) == 0 && sigismember(&after, SIGALRM) == 1);
}

/* The server never takes it. No descriptor is left behind. */
static void leaves_one_that_connects(void)
{
    struct sockaddr_in to;
    const int listener = listen_somewhere(&to, 100);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    volatile int numbers = 0, times;

    quiet = peer(QUIET);
    CHECK(setenv("IWARP_SOCKETS_REPLY", "60000", 1) == 0); /* it is not over before the test is */
    CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS);
    for (times = 0; times < 200; times++) {
        numbers = times == 10 ? open_numbers() : numbers;
        handle(SIGALRM, leave, times % 2 ? SA_RESTART : 0);
        if (sigsetjmp(back, 1) == 0) {
            alarm_after(50 + random() % 1500);
            polls_or_selects(fd, times % 4 > 1);
        }
        polls_with_a_mask(fd);
    }
    CHECK(open_numbers() == numbers);
    close(fd), close(listener);
}

static void *echo_late(void *arg)
{
    usleep(500000);
    CHECK(write(*(int *)arg, "l", 1) == 1);
    return NULL;
}

/* The octet comes after half a second: a signal before it ends the call, or does not, but no thread
 * uses a processor until then. */
static void leaves_by_a_bad_address(void)
{
    static int fd;
    char *volatile nowhere = NULL;
    pthread_t thread;
    char octet = 0;

    fd = peer(ECHO), source = peer(SOURCE);
    handle(SIGSEGV, leave, 0);
    if (sigsetjmp(back, 1) == 0) {
        CHECK(read(source, nowhere, 1000) == -1 && errno == EFAULT);
    }
    handle(SIGALRM, nothing, SA_RESTART);
    CHECK(pthread_create(&thread, NULL, echo_late, &fd) == 0);
    alarm_after(50000);
    const clock_t begin = clock();
    const ssize_t n = read(fd, &octet, 1);
    CHECK(n == 1 ? octet == 'l' : errno == EINTR);
    CHECK(pthread_join(thread, NULL) == 0 && clock() - begin < CLOCKS_PER_SEC / 4);
}

/* Whatever it held. */
static void ends_by_a_bad_address(void)
{
    char *volatile nowhere = NULL;
    int state;
    const pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        alarm(20);
        source = peer(SOURCE);
        handle(SIGSEGV, _exit, 0);
        CHECK(read(source, nowhere, 1000) == -1 && errno == EFAULT);
        _exit(SIGSEGV);
    }
    CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == SIGSEGV);
}

/* --- handlers that use sockets ---------------------------------------------------------------- */

static int used;
static volatile unsigned answers;

static void use(int n)
{
    const int error = errno;
    char octet = 'y';

    CHECK(n == SIGALRM && write(used, &octet, 1) == 1);
    CHECK(poll(&(struct pollfd){used, POLLIN, 0}, 1, 20000) == 1);
    CHECK(read(used, &octet, 1) == 1 && octet == 'y');
    answers++;
    errno = error;
}

static void use_often(void (*work)(void))
{
    const double end = now() + 0.5;

    source = peer(SOURCE), sink = peer(SINK), quiet = peer(QUIET), used = peer(ECHO);
    handle(SIGALRM, use, SA_RESTART);
    while (now() < end) {
        alarm_after(50 + random() % 1000);
        for (const unsigned before = answers; answers == before && now() < end;) {
            work();
        }
    }
    alarm_after(0);
    close(source), close(sink), close(quiet), close(used);
}

static void used_by_handlers(void)
{
    use_often(reads);
    use_often(writes);
    use_often(selects);
    CHECK(answers > 100);
}

static void log_child(int n)
{
    const int error = errno;

    while (waitpid(-1, NULL, WNOHANG) > 0) {
        answers++;
        CHECK(n == SIGCHLD && write(used, "a child has ended\n", 18) == 18);
    }
    errno = error;
}

/* No lock is held when the signals run that came during a fork, in parent and child. */
static void used_around_forks(void)
{
    const pid_t me = getpid();

    used = peer(SINK);
    signal(SIGUSR1, SIG_IGN);
    handle(SIGCHLD, log_child, SA_RESTART);
    for (unsigned i = 0; i < 300; i++) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK(i % 100 > 0 || write(used, "here is one\n", 12) == 12);
            _exit(kill(me, SIGUSR1));
        }
    }
    for (const double end = now() + 40; answers < 300 && now() < end;) {
        usleep(1000);
    }
    CHECK(answers == 300);
}

/* Its parent has a thread that carries octets of another child: nothing that it has to wait for. */
static void child_ends_at_once(void)
{
    int state;
    pid_t child[2];

    used = peer(ECHO);
    echoes(used);
    for (int i = 0; i < 2; i++) {
        child[i] = fork();
        CHECK(child[i] >= 0);
        if (child[i] == 0 && i == 0) {
            echoes(used);
            _exit(pause());
        } else if (child[i] == 0) {
            _exit(0);
        }
        usleep(200000);
    }
    const double begin = now();
    CHECK(waitpid(child[1], &state, 0) == child[1] && state == 0 && now() - begin < 3);
    CHECK(kill(child[0], SIGKILL) == 0 && waitpid(child[0], &state, 0) == child[0]);
}

static void used_at_exit(void)
{
    for (int i = 0; i < 10; i++) {
        int state;
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            used = peer(ECHO);
            handle(SIGALRM, use, SA_RESTART);
            const struct itimerval often = {{0, 500}, {0, 500}};
            CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
            usleep(20000);
            exit(7);
        }
        CHECK(waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 7);
    }
}

/* The lock of a socket is not held when its handler closes it. */
static void close_it(int n)
{
    (void)n;
    close(used);
}

static void closed_by_handlers(void)
{
    for (int i = 0; i < 100; i++) {
        handle(SIGALRM, close_it, SA_RESTART);
        used = peer(SINK);
        alarm_after(100 + random() % 1000);
        while (write(used, block, sizeof block) > 0) {
        }
        CHECK(errno == EBADF);
    }
}

/* --- what ends a call ------------------------------------------------------------------------ */

static volatile int rang;

static void ring(int n)
{
    rang = n;
}

struct reading {
    int fd;
    pthread_t thread;
    bool ends; /* a signal is to end it */
    volatile bool over, written;
};

/*
 * Signals first, then an octet, without which a reading that should have ended would never do so.
 * The first signal may come before the call has begun; so there are more, until one has ended it.
 */
static void *signal_and_write(void *arg)
{
    struct reading *r = arg;

    for (int i = 0; i < (r->ends ? 100 : 2) && !r->over; i++) {
        usleep(100000);
        CHECK(pthread_kill(r->thread, SIGALRM) == 0);
    }
    while (rang == 0) {
        usleep(1000);
    }
    for (int i = 0; i < 50 && !r->over; i++) { /* it may end now, wrongly */
        usleep(1000);
    }
    r->written = true;
    CHECK(write(r->fd, "z", 1) == 1);
    return NULL;
}

/* It ends: EINTR after a signal, and before there is an octet.  Else it goes on until there is. */
static void check_reading(int fd, int flags, bool ends)
{
    struct reading r = {.fd = fd, .thread = pthread_self(), .ends = ends};
    pthread_t thread;
    char octet = 0;

    rang = 0;
    handle(SIGALRM, ring, flags);
    CHECK(pthread_create(&thread, NULL, signal_and_write, &r) == 0);
    const ssize_t n = read(fd, &octet, 1);
    CHECK(ends ? n == -1 && errno == EINTR && !r.written : n == 1);
    CHECK(rang == SIGALRM);
    r.over = true;
    CHECK(pthread_join(thread, NULL) == 0); /* no signal comes from now on */
    CHECK(n == 1 || read(fd, &octet, 1) == 1);
    CHECK(octet == 'z');
}

static void ends_calls(void)
{
    const struct timeval limit = {5, 0};
    const int fd = peer(ECHO);

    for (int i = 0; i < 3; i++) {
        check_reading(fd, 0, true);
        check_reading(fd, SA_RESTART, false);
        for (int j = 0; i == 1 && j < 1000; j++) { /* the thread has the loop from now on */
            echoes(fd);
        }
    }
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    check_reading(fd, 0, true);
    check_reading(fd, SA_RESTART, true);
}

static void ends_waits(void)
{
    struct pollfd p = {.events = POLLIN};
    struct epoll_event e = {.events = EPOLLIN};
    int n = 0;

    p.fd = peer(ECHO);
    const int s = epoll_create1(0);
    CHECK(epoll_ctl(s, EPOLL_CTL_ADD, p.fd, &e) == 0);
    handle(SIGALRM, ring, SA_RESTART);
    for (int i = 0; i < 2000; i++) { /* while it leads and before */
        const bool by_epoll = i % 400 >= 200;
        if (i % 20 == 0) {
            rang = 0;
            /* The first one may come before the call has begun. */
            const struct itimerval often = {{0, 3000}, {0, 100 + random() % 3000}};
            CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
            const double begin = now();
            n = by_epoll ? epoll_wait(s, &e, 1, 20000) : poll(&p, 1, 20000);
            CHECK(n == -1 && errno == EINTR && rang == SIGALRM && now() - begin < 10);
            alarm_after(0);
        }
        CHECK(write(p.fd, "a", 1) == 1);
        CHECK((by_epoll ? epoll_wait(s, &e, 1, 2000) : poll(&p, 1, 2000)) == 1);
        CHECK(read(p.fd, block, 1) == 1);
    }
}

/* A transfer goes on as if nothing had come. */
static void goes_on_by_itself(void)
{
    static char to[1 << 20], from[1 << 20];
    const int fd = peer(ECHO);
    char name[] = "/tmp/sockets_signals.XXXXXX";
    const int file = mkstemp(name);

    for (size_t i = 0; i < sizeof to; i++) {
        to[i] = (char)(i * 31 >> 3);
    }
    CHECK(file >= 0 && unlink(name) == 0 && write(file, to, sizeof to) == sizeof to);
    handle(SIGALRM, ring, SA_RESTART);
    CHECK(setitimer(ITIMER_REAL, &(struct itimerval){{0, 300}, {0, 300}}, NULL) == 0);
    for (int i = 0; i < 100; i++) {
        const size_t part = 65536;
        off_t at = 0;
        for (size_t sent = 0, got = 0; got < sizeof to; got += part) {
            sent += part;
            if (i % 2 == 0) {
                CHECK(write(fd, to + sent - part, part) == (ssize_t)part);
            } else {
                size_t left = part;
                while (left > 0) {
                    const ssize_t n = sendfile(fd, file, &at, left);
                    CHECK(n > 0);
                    left -= (size_t)n;
                }
            }
            for (size_t here = 0; here < part;) {
                const ssize_t n = read(fd, from + got + here, part - here);
                CHECK(n > 0);
                here += (size_t)n;
            }
        }
        CHECK(memcmp(from, to, sizeof to) == 0);
        memset(from, 0, sizeof from);
    }
    alarm_after(0);
    CHECK(rang == SIGALRM);
}

/* --- signals themselves ----------------------------------------------------------------------- */

#define MANY 20000
static volatile int values, wrong;
static volatile bool seen[MANY];

static void queued(int n, siginfo_t *info, void *context)
{
    const int error = errno;

    wrong += n != SIGRTMIN || info->si_code != SI_QUEUE || info->si_pid != getpid() || !context ||
             seen[info->si_value.sival_int];
    seen[info->si_value.sival_int] = true;
    values++;
    errno = error;
}

static volatile bool done;

static void *queue_many(void *arg)
{
    for (int i = 0; i < MANY; i++) {
        CHECK(pthread_sigqueue(*(pthread_t *)arg, SIGRTMIN, (union sigval){.sival_int = i}) == 0 ||
              (errno == EAGAIN && i-- >= 0));
        if (i % 8 == 0) {
            usleep(20);
        }
    }
    done = true;
    return NULL;
}

/* Each comes once, with what belongs to it. */
static void none_is_lost(void)
{
    const struct sigaction action = {.sa_sigaction = queued, .sa_flags = SA_SIGINFO | SA_RESTART};
    pthread_t self = pthread_self(), thread;
    const int fd = peer(ECHO);

    CHECK(sigaction(SIGRTMIN, &action, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, queue_many, &self) == 0);
    while (!done) {
        echoes(fd);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    echoes(fd);
    if (wrong > 0 || values != MANY) {
        fprintf(stderr, "%d came, %d wrong\n", values, wrong);
        exit(1);
    }
}

static volatile int nested, deepest;

static void nests(int n)
{
    deepest = ++nested > deepest ? nested : deepest;
    if (nested < 3) {
        raise(n);
    }
    nested--;
}

static void two(int n, siginfo_t *info, void *context)
{
    (void)info;
    (void)context;
    rang = n;
}

static void two_less(int n)
{
    rang = n - 2;
}

static void has_what_was_asked_for(void)
{
    struct sigaction action = {.sa_sigaction = two, .sa_flags = SA_SIGINFO | (int)SA_RESETHAND},
                     old;
    const int fd = peer(ECHO);

    CHECK(signal(SIGUSR1, ring) == SIG_DFL && signal(SIGUSR1, SIG_IGN) == ring);
    CHECK(raise(SIGUSR1) == 0 && rang == 0 && signal(SIGUSR1, ring) == SIG_IGN);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == ring &&
          (old.sa_flags & (SA_RESTART | SA_SIGINFO)) == SA_RESTART);
    CHECK(raise(SIGUSR1) == 0 && rang == SIGUSR1);
    CHECK(sigaddset(&action.sa_mask, SIGUSR2) == 0 && sigaction(SIGUSR1, &action, &old) == 0);
    CHECK(old.sa_handler == ring && sigaction(SIGUSR1, NULL, &old) == 0);
    CHECK(old.sa_sigaction == two && (old.sa_flags & SA_SIGINFO) &&
          (old.sa_flags & (int)SA_RESETHAND) && sigismember(&old.sa_mask, SIGUSR2) == 1 &&
          sigismember(&old.sa_mask, SIGINT) == 0);
    rang = 0;
    CHECK(raise(SIGUSR1) == 0 && rang == SIGUSR1);
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == SIG_DFL);

    handle(SIGALRM, nests, SA_NODEFER);
    CHECK(raise(SIGALRM) == 0 && deepest == 3);
    deepest = 0;
    handle(SIGALRM, nests, 0);
    nested = 2;
    CHECK(raise(SIGALRM) == 0 && deepest == 3);
    handle(SIGALRM, ring, SA_RESTART);
    CHECK(siginterrupt(SIGALRM, 1) == 0);
    CHECK(sigaction(SIGALRM, NULL, &old) == 0 && !(old.sa_flags & SA_RESTART));
    CHECK(sigaction(SIGALRM, &old, NULL) == 0);
    check_reading(fd, 0, true);
    CHECK(signal(SIGALRM, ring) != SIG_ERR && sigaction(SIGALRM, NULL, &old) == 0);
    CHECK(!(old.sa_flags & SA_RESTART)); /* it remembers siginterrupt */
    CHECK(signal(SIGALRM, SIG_ERR) == SIG_ERR && errno == EINVAL);
    CHECK(sigset(SIGALRM, two_less) == ring && sigset(SIGALRM, SIG_HOLD) == two_less);
    CHECK(sigset(SIGALRM, ring) == SIG_HOLD && sigset(SIGALRM, SIG_IGN) == ring);
    CHECK(sigaction(SIGKILL, &action, NULL) == -1 && errno == EINVAL);
    CHECK(sigaction(0, &action, NULL) == -1 && sigaction(65, NULL, &old) == -1);
}

/* --- main ------------------------------------------------------------------------------------ */

static const struct one_case cases[] = {CASE(leaves_reads),
                                        CASE(leaves_writes),
                                        CASE(leaves_reads_in_vain),
                                        CASE(leaves_writes_to_nobody),
                                        CASE(leaves_polls),
                                        CASE(leaves_selects),
                                        CASE(leaves_waits),
                                        CASE(leaves_connects),
                                        CASE(leaves_files),
                                        CASE(leaves_and_ends),
                                        CASE(leaves_one_that_connects),
                                        CASE(leaves_by_a_bad_address),
                                        CASE(ends_by_a_bad_address),
                                        CASE(used_by_handlers),
                                        CASE(used_around_forks),
                                        CASE(child_ends_at_once),
                                        CASE(used_at_exit),
                                        CASE(closed_by_handlers),
                                        CASE(ends_calls),
                                        CASE(ends_waits),
                                        CASE(goes_on_by_itself),
                                        CASE(none_is_lost),
                                        CASE(has_what_was_asked_for)};

static void run_case(const struct one_case *c)
{
    start_peer();
    c->run();
}

int main(int argc, char **argv)
{
    return main_of(argc, argv, cases, sizeof cases / sizeof cases[0], run_case);
}
