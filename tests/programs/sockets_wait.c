/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waits for connections in every way, and checks each answer against a model: nothing that is ready
 * is missed, and nothing is told that is not so.
 *
 *   sockets_wait SECONDS SEED
 *
 * A child has the other ends, and does what it is told by a pipe. It knows nothing of waiting. The
 * program calls sockets only, so it checks the kernel's TCP as well as what stands in for it.
 */
#define _GNU_SOURCE
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
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONNS      8
#define PATIENCE   5000 /* milliseconds, for what must come */
#define LARGE      3000000
#define EDGE       EPOLLET
#define FAIL(...)  (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))
#define CHECK(is)  ((is) ? (void)0 : FAIL("%s:%d: %s, errno %d", __FILE__, __LINE__, #is, errno))
#define MUST(call) (must((call), #call, __LINE__))

static int must(int result, const char *call, int line)
{
    if (result < 0) {
        FAIL("line %d: %s: %s", line, call, strerror(errno));
    }
    return result;
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static unsigned below(unsigned n)
{
    return (unsigned)random() % n;
}

/* --- the child ------------------------------------------------------------------------------- */

enum order { WRITE, READ, END, ECHOES };

struct command {
    enum order order;
    int conn;
    unsigned octets;
};

static int orders, answers;

static void move_all(int fd, enum order order, unsigned octets)
{
    static char space[65536];

    while (octets > 0) {
        const size_t most = octets < sizeof space ? octets : sizeof space;
        const ssize_t n = order == WRITE ? write(fd, space, most) : read(fd, space, most);
        CHECK(n > 0);
        octets -= (unsigned)n;
    }
}

/* Octets there and back, now here, now there, with pauses. */
static void have_echoed(const int *conns, unsigned times)
{
    static char there[3000], back[sizeof there];
    int64_t longest = 0;

    for (unsigned i = 0; i < times; i++) {
        const int fd = conns[below(CONNS)];
        const size_t n = 1 + below(sizeof there);
        const int64_t begin = now_ms();
        memset(there, (int)i, n);
        CHECK(write(fd, there, n) == (ssize_t)n);
        for (size_t got = 0; got < n;) {
            const ssize_t more = read(fd, back + got, n - got);
            CHECK(more > 0);
            got += (size_t)more;
        }
        CHECK(memcmp(there, back, n) == 0);
        longest = now_ms() - begin > longest ? now_ms() - begin : longest;
        if (below(200) == 0) {
            usleep(1000 * below(20));
        }
    }
    if (longest > PATIENCE) {
        FAIL("an echo took %lld ms", (long long)longest);
    }
}

static void child(const int *conns, int from, int to)
{
    struct command c;

    while (read(from, &c, sizeof c) == sizeof c) {
        if (c.order == END) {
            MUST(shutdown(conns[c.conn], SHUT_WR));
        } else if (c.order == ECHOES) {
            have_echoed(conns, c.octets);
        } else {
            move_all(conns[c.conn], c.order, c.octets);
        }
        CHECK(write(to, "", 1) == 1);
    }
    _exit(0);
}

/* The child does it, and has done it when the call returns, but for reads, which may wait. */
static void tell(enum order order, int conn, unsigned octets)
{
    const struct command c = {order, conn, octets};
    char octet;

    CHECK(write(orders, &c, sizeof c) == sizeof c);
    if (order != READ) {
        CHECK(read(answers, &octet, 1) == 1);
    }
}

/* --- the model ------------------------------------------------------------------------------- */

struct conn {
    int fd;
    unsigned pending; /* octets that the child has written and nobody has read */
    bool over;        /* the child sends no more */
    bool watched;     /* by the set */
    struct epoll_event event;
    bool told;  /* with EDGE: of what is there now */
    bool armed; /* with EPOLLONESHOT */
};

static struct conn conns[CONNS];
static int set = -1;
static uint32_t last_id;
static unsigned long waits, told;

static bool is_readable(const struct conn *c)
{
    return c->pending > 0 || c->over;
}

static void new_set(void)
{
    if (set >= 0) {
        MUST(close(set));
    }
    set = MUST(epoll_create1(EPOLL_CLOEXEC));
    for (int i = 0; i < CONNS; i++) {
        conns[i].watched = false;
    }
}

/* Another number for each time, so that an event for what was watched before is seen. */
static void watch(struct conn *c, uint32_t events)
{
    const int op = c->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    c->event = (struct epoll_event){.events = events, .data.u32 = ++last_id};
    MUST(epoll_ctl(set, op, c->fd, &c->event));
    c->watched = c->armed = true;
    c->told = false;
    if (below(8) == 0) {
        CHECK(epoll_ctl(set, EPOLL_CTL_ADD, c->fd, &c->event) == -1 && errno == EEXIST);
    }
}

static void unwatch(struct conn *c)
{
    if (c->watched) {
        MUST(epoll_ctl(set, EPOLL_CTL_DEL, c->fd, NULL));
    } else {
        CHECK(epoll_ctl(set, EPOLL_CTL_DEL, c->fd, NULL) == -1 && errno == ENOENT);
    }
    c->watched = false;
}

static void read_some(struct conn *c, unsigned most)
{
    static char space[65536];

    while (most > 0 && c->pending > 0) {
        const unsigned n = most < sizeof space ? most : sizeof space;
        const ssize_t got = read(c->fd, space, n);
        if (got < 0 && errno == EAGAIN) { /* it is on its way */
            return;
        }
        CHECK(got > 0 && (unsigned)got <= c->pending);
        c->pending -= (unsigned)got;
        most -= (unsigned)got;
    }
}

static void read_all(struct conn *c)
{
    struct pollfd p = {c->fd, POLLIN, 0};

    for (const int64_t until = now_ms() + PATIENCE; c->pending > 0; CHECK(now_ms() < until)) {
        MUST(poll(&p, 1, 100));
        read_some(c, c->pending);
    }
}

/* --- waiting --------------------------------------------------------------------------------- */

static void check_events(const struct conn *c, uint32_t events, uint32_t wanted)
{
    const uint32_t always = EPOLLHUP | EPOLLERR;

    if (events & ~(wanted | always)) {
        FAIL("told %#x of %#x", events, wanted);
    }
    if ((events & EPOLLIN) && !is_readable(c)) {
        FAIL("told that a connection is readable, which has nothing to read");
    }
    if ((events & EPOLLRDHUP) && !c->over) {
        FAIL("told that the peer sends no more");
    }
    CHECK(!(events & always));
}

static bool expects(const struct conn *c)
{
    return c->watched && c->armed && !c->told &&
           (((c->event.events & EPOLLIN) && is_readable(c)) ||
            ((c->event.events & EPOLLRDHUP) && c->over) || (c->event.events & EPOLLOUT));
}

static struct conn *of_id(uint32_t id)
{
    for (int i = 0; i < CONNS; i++) {
        if (conns[i].watched && conns[i].event.data.u32 == id) {
            return &conns[i];
        }
    }
    FAIL("an event of nothing that is watched");
}

static void note(struct conn *c, uint32_t events)
{
    check_events(c, events, c->event.events);
    if (!c->armed) {
        FAIL("told twice of EPOLLONESHOT");
    }
    c->armed = !(c->event.events & EPOLLONESHOT);
    told++;
}

/* One wait tells of some; several of all that are ready, however few are asked for at a time. */
static void wait_by_epoll(void)
{
    struct epoll_event events[CONNS];
    bool seen[CONNS] = {false}, all = false;
    const int most = 1 + (int)below(CONNS), timeout = (int[]){-1, 0, 3, 1000}[below(4)];

    for (const int64_t until = now_ms() + PATIENCE; !all; CHECK(now_ms() < until)) {
        all = true;
        bool any = false;
        for (int i = 0; i < CONNS; i++) {
            all = all && (seen[i] || !expects(&conns[i]));
            any = any || expects(&conns[i]);
        }
        const int n = MUST(epoll_wait(set, events, most, any ? timeout : 0));
        bool twice[CONNS] = {false};
        waits++;
        for (int i = 0; i < n; i++) {
            struct conn *c = of_id(events[i].data.u32);
            note(c, events[i].events);
            CHECK(!twice[c - conns]);
            twice[c - conns] = seen[c - conns] = true;
            c->told = c->event.events & EDGE;
        }
    }
}

static void wait_by_poll(void)
{
    struct pollfd p[CONNS];
    bool all = false;

    for (int i = 0; i < CONNS; i++) {
        p[i] = (struct pollfd){conns[i].fd, (short)(below(8) ? POLLIN : POLLIN | POLLOUT), 0};
    }
    for (const int64_t until = now_ms() + PATIENCE; !all; CHECK(now_ms() < until)) {
        bool any = false;
        for (int i = 0; i < CONNS; i++) {
            any = any || is_readable(&conns[i]) || (p[i].events & POLLOUT);
        }
        MUST(poll(p, CONNS, any ? -1 : 0));
        waits++;
        all = true;
        for (int i = 0; i < CONNS; i++) {
            check_events(&conns[i], (uint16_t)p[i].revents, (uint16_t)p[i].events);
            all = all && (!is_readable(&conns[i]) || (p[i].revents & POLLIN)) &&
                  (!(p[i].events & POLLOUT) || (p[i].revents & POLLOUT));
        }
    }
}

static void wait_by_select(void)
{
    fd_set readable;
    bool all = false;

    for (const int64_t until = now_ms() + PATIENCE; !all; CHECK(now_ms() < until)) {
        struct timeval second = {1, 0}, none = {0, 0};
        bool any = false;
        FD_ZERO(&readable);
        for (int i = 0; i < CONNS; i++) {
            FD_SET(conns[i].fd, &readable);
            any = any || is_readable(&conns[i]);
        }
        const int n = MUST(select(FD_SETSIZE, &readable, NULL, NULL, any ? &second : &none));
        int found = 0;
        waits++;
        all = true;
        for (int i = 0; i < CONNS; i++) {
            const bool is = FD_ISSET(conns[i].fd, &readable);
            check_events(&conns[i], is ? EPOLLIN : 0, EPOLLIN);
            all = all && (!is_readable(&conns[i]) || is);
            found += is;
        }
        CHECK(n == found);
    }
}

static void wait_somehow(void)
{
    const unsigned way = below(8);

    if (way == 0) {
        wait_by_poll();
    } else if (way == 1) {
        wait_by_select();
    } else {
        wait_by_epoll();
    }
}

/* --- steps ----------------------------------------------------------------------------------- */

static uint32_t some_events(void)
{
    const uint32_t events[] = {EPOLLIN,
                               EPOLLIN,
                               EPOLLIN | EPOLLRDHUP,
                               EPOLLIN | EPOLLOUT,
                               EPOLLOUT,
                               0,
                               EPOLLIN | EDGE,
                               EPOLLIN | EPOLLRDHUP | EDGE,
                               EPOLLIN | EPOLLOUT | EDGE,
                               EPOLLIN | EPOLLONESHOT};

    return events[below(sizeof events / sizeof *events)];
}

/* Written until there is no room, and read by the child: there is room again. */
static void fill_and_drain(struct conn *c)
{
    static const char space[65536];
    struct pollfd p = {c->fd, POLLOUT, 0};
    unsigned sent = 0;
    ssize_t n;

    if (c->watched) {
        watch(c, EPOLLIN | EPOLLOUT | (below(2) ? EDGE : 0));
    }
    while ((n = write(c->fd, space, sizeof space)) > 0) {
        sent += (unsigned)n;
    }
    CHECK(n < 0 && errno == EAGAIN);
    tell(READ, (int)(c - conns), sent);
    if (c->watched) {
        c->told = false;
        struct epoll_event e = {0};
        for (const int64_t until = now_ms() + PATIENCE; !(e.events & EPOLLOUT);) {
            CHECK(now_ms() < until);
            const int got = MUST(epoll_wait(set, &e, 1, 1000));
            struct conn *other = got > 0 ? of_id(e.data.u32) : NULL;
            e.events = other == c ? e.events : 0;
            if (other && other != c) { /* it would be told for ever, or is told no more */
                other->armed = other->armed && !(other->event.events & EPOLLONESHOT);
                other->event.events &EDGE ? (void)(other->told = true) : unwatch(other);
            }
        }
    } else {
        CHECK(poll(&p, 1, PATIENCE) == 1 && (p.revents & POLLOUT));
    }
    c->told = c->event.events & EDGE;
    char octet;
    CHECK(read(answers, &octet, 1) == 1);
}

static void quick_rounds(void)
{
    for (int i = 0; i < 40; i++) {
        struct conn *c = &conns[below(CONNS)];
        if (!c->over && c->pending < 20000) {
            const unsigned n = 1 + below(2000);
            tell(WRITE, (int)(c - conns), n);
            c->pending += n;
            c->told = false;
        }
        wait_by_epoll();
        if (c->pending > 0) {
            read_all(c);
        }
    }
}

static void *wait_aside(void *arg)
{
    struct pollfd p = {*(int *)arg, POLLIN, 0};

    poll(&p, 1, 1 + (int)below(20));
    return NULL;
}

static void step(void)
{
    struct conn *c = &conns[below(CONNS)];
    const int i = (int)(c - conns);
    pthread_t thread;

    switch (below(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
        if (!c->over && c->pending < 20000) { /* with more, TCP may keep the next octets back */
            const unsigned n = 1 + below(below(8) || c->pending > 0 ? 5000 : 200000);
            tell(WRITE, i, n);
            c->pending += n;
            c->told = false;
        }
        break;
    case 4:
        read_some(c, 1 + below(10000));
        break;
    case 5:
    case 6:
        read_all(c);
        break;
    case 7:
    case 8:
        watch(c, some_events());
        break;
    case 9:
        unwatch(c);
        break;
    case 10:
        fill_and_drain(c);
        break;
    case 11:
        quick_rounds();
        break;
    case 12:
        usleep(1000 * below(12));
        break;
    case 13: /* a thread that sleeps in the kernel */
        CHECK(pthread_create(&thread, NULL, wait_aside, &c->fd) == 0);
        wait_somehow();
        CHECK(pthread_join(thread, NULL) == 0);
        break;
    case 14:
        if (below(10) == 0) {
            new_set();
        }
        break;
    default:
        if (below(40) == 0 && !c->over) {
            tell(END, i, 0);
            c->over = true;
            c->told = false;
        }
        break;
    }
    wait_somehow();
}

/* --- connections ----------------------------------------------------------------------------- */

static int theirs[CONNS];

static void connect_all(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int there[2], back[2], ports[2];
    const int listener = MUST(socket(AF_INET, SOCK_STREAM, 0));

    MUST(bind(listener, (struct sockaddr *)&at, len));
    MUST(listen(listener, CONNS));
    MUST(getsockname(listener, (struct sockaddr *)&at, &len));
    MUST(pipe(there));
    MUST(pipe(back));
    MUST(pipe(ports));
    if (MUST(fork()) == 0) {
        close(listener);
        for (int i = 0; i < CONNS; i++) {
            theirs[i] = MUST(socket(AF_INET, SOCK_STREAM, 0));
            MUST(connect(theirs[i], (struct sockaddr *)&at, len));
            CHECK(write(theirs[i], "x", 1) == 1);
        }
        close(there[1]);
        child(theirs, there[0], back[1]);
    }
    close(there[0]);
    orders = there[1];
    answers = back[0];
    for (int i = 0; i < CONNS; i++) {
        char octet;
        conns[i].fd = MUST(accept(listener, NULL, NULL));
        CHECK(read(conns[i].fd, &octet, 1) == 1);
        MUST(fcntl(conns[i].fd, F_SETFL, O_NONBLOCK));
    }
    close(listener);
}

/* --- threads --------------------------------------------------------------------------------- */

#define THREADS 2

static int stop_pipe[2];

/* Each thread has its own set, and echoes what comes there. */
static void *echo(void *arg)
{
    const int mine = *(int *)arg, its_set = MUST(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN, .data.fd = stop_pipe[0]};
    char space[3000];

    MUST(epoll_ctl(its_set, EPOLL_CTL_ADD, stop_pipe[0], &e));
    for (int i = mine; i < CONNS; i += THREADS) {
        e.data.fd = conns[i].fd;
        MUST(epoll_ctl(its_set, EPOLL_CTL_ADD, conns[i].fd, &e));
    }
    for (;;) {
        CHECK(epoll_wait(its_set, &e, 1, -1) == 1);
        if (e.data.fd == stop_pipe[0]) {
            break;
        }
        const ssize_t n = read(e.data.fd, space, sizeof space);
        CHECK(n > 0 && write(e.data.fd, space, (size_t)n) == n);
    }
    MUST(close(its_set));
    return NULL;
}

static void echo_in_threads(unsigned times)
{
    pthread_t threads[THREADS];
    int which[THREADS];

    MUST(pipe(stop_pipe));
    for (int i = 0; i < THREADS; i++) {
        which[i] = i;
        CHECK(pthread_create(&threads[i], NULL, echo, &which[i]) == 0);
    }
    tell(ECHOES, 0, times);
    CHECK(write(stop_pipe[1], "", 1) == 1);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    close(stop_pipe[0]);
    close(stop_pipe[1]);
}

/* --- signals --------------------------------------------------------------------------------- */

static volatile sig_atomic_t rang;

static void on_alarm(int n)
{
    (void)n;
    rang++;
}

/* A handler ends a wait that has no other end. */
static void wait_for_a_signal(void)
{
    /* Again: the first one may come before the wait begins. */
    const struct itimerval soon = {{.tv_usec = 30000}, {.tv_usec = 30000}}, never = {{0}, {0}};
    struct sigaction action = {.sa_handler = on_alarm};
    struct epoll_event e;

    action.sa_flags = SA_RESTART; /* which does not matter */
    MUST(sigaction(SIGALRM, &action, NULL));
    for (int i = 0; i < CONNS; i++) {
        read_all(&conns[i]);
        if (conns[i].watched) {
            unwatch(&conns[i]);
        }
    }
    MUST(setitimer(ITIMER_REAL, &soon, NULL));
    CHECK(epoll_wait(set, &e, 1, PATIENCE) == -1 && errno == EINTR && rang > 0);
    MUST(setitimer(ITIMER_REAL, &never, NULL));
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 1;
    const unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    int status;

    srandom(seed);
    connect_all();
    echo_in_threads(2000);
    new_set();
    for (const int64_t until = now_ms() + (int64_t)(seconds * 1000); now_ms() < until;) {
        step();
    }
    wait_for_a_signal();
    close(orders);
    MUST(wait(&status));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    printf("%lu waits, told %lu times\n", waits, told);
    return 0;
}
