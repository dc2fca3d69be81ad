/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How rsockets end: half-closed, closed under a reader, with a peer that is killed, across a fork,
 * at exit. Nothing hangs, and what was written arrives.
 */
#include "../support/child.h"
#include "rsockets.h"

#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>

static void half_close__of_either_end__ends_that_way_alone(void **state)
{
    char c;

    (void)state;
    for (int side = 0; side < 2; side++) {
        int fds[2];
        make_pair(fds);
        int a = fds[side], b = fds[!side];
        send_octets(a, "last", 4);
        works(rshutdown(a, SHUT_WR));
        fails(rsend(a, "x", 1, 0), EPIPE);
        expect_octets(b, "last", 4);
        assert_int_equal(rrecv(b, &c, 1, 0), 0);
        assert_int_equal(rrecv(b, &c, 1, 0), 0);
        assert_int_equal(polled(b, POLLIN | POLLOUT | POLLRDHUP, 0), POLLIN | POLLOUT | POLLRDHUP);
        send_octets(b, "answer", 6);
        works(rshutdown(b, SHUT_WR));
        expect_octets(a, "answer", 6);
        assert_int_equal(rrecv(a, &c, 1, 0), 0);
        close_pair(fds);
    }
}

/* As many octets as are taken without waiting, more than the peer has lent. */
static size_t fill_up(int fd)
{
    static char piece[10000];
    size_t sent = 0;

    memset(piece, 'k', sizeof piece);
    for (int quiet = 0; quiet < 3;) {
        ssize_t n = rsend(fd, piece, sizeof piece, MSG_DONTWAIT);
        quiet += n < 0 && polled(fd, POLLOUT, 20) == 0;
        sent += n > 0 ? (size_t)n : 0;
    }
    return sent;
}

/* The end of what the peer sends is not the end of what is still in our send buffer. */
static void half_closes__of_both_ends__lose_nothing_that_waits_to_be_sent(void **state)
{
    char c, octets[4096];

    (void)state;
    for (int own_first = 0; own_first < 2; own_first++) {
        int fds[2];
        make_pair(fds);
        size_t sent = fill_up(fds[0]), got = 0;
        assert_true(sent > 1 << 19);
        works(rshutdown(fds[!own_first], SHUT_WR));
        if (!own_first) {
            assert_int_equal(rrecv(fds[0], &c, 1, 0), 0);
        }
        works(rshutdown(fds[own_first], SHUT_WR));
        assert_int_equal(rrecv(fds[0], &c, 1, 0), 0);
        while (got < sent) {
            ssize_t n = works(rrecv(fds[1], octets, sizeof octets, 0));
            assert_true(n > 0);
            got += (size_t)n;
        }
        assert_int_equal(rrecv(fds[1], &c, 1, 0), 0);
        close_pair(fds);
    }
}

static void shutdown__of_reading__ends_reads_alone(void **state)
{
    int fds[2];
    char c;

    (void)state;
    make_pair(fds);
    works(rshutdown(fds[0], SHUT_RD));
    assert_int_equal(rrecv(fds[0], &c, 1, 0), 0);
    send_octets(fds[0], "x", 1);
    expect_octets(fds[1], "x", 1);
    close_pair(fds);
}

static void peer__that_closes__ends_reads_after_its_octets_and_writes(void **state)
{
    static char big[100000];
    int fds[2];
    char c;

    (void)state;
    make_pair(fds);
    memset(big, 'b', sizeof big);
    send_octets(fds[0], big, sizeof big);
    works(rclose(fds[0]));
    expect_octets(fds[1], big, sizeof big);
    assert_int_equal(rrecv(fds[1], &c, 1, 0), 0);
    assert_true(rsend(fds[1], &c, 1, 0) == -1 && (errno == ECONNRESET || errno == EPIPE));
    assert_true(polled(fds[1], POLLIN, 0) & POLLHUP);
    works(rclose(fds[1]));
}

struct call {
    int fd, result, error;
    enum { RECV, SEND, ACCEPT, POLL, START_UP } kind;
};

static void *make_call(void *arg)
{
    struct call *c = arg;
    char octets[1000];
    struct pollfd p = {c->fd, POLLIN, 0};

    errno = 0;
    if (c->kind == SEND) {
        do {
            c->result = (int)rsend(c->fd, octets, sizeof octets, 0);
        } while (c->result > 0);
    } else {
        c->result = c->kind == RECV     ? (int)rrecv(c->fd, octets, 1, 0)
                    : c->kind == ACCEPT ? raccept(c->fd, NULL, NULL)
                                        : rpoll(&p, 1, -1);
    }
    c->error = c->kind == POLL ? p.revents : errno;
    return NULL;
}

static void close__in_one_thread__wakes_calls_of_others(void **state)
{
    uint16_t port;

    (void)state;
    for (unsigned kind = RECV; kind <= POLL; kind++) {
        int fds[2], listener = listener_at(&port, 1);
        make_pair(fds);
        struct call c = {.fd = kind == ACCEPT ? listener : fds[0], .kind = kind};
        pthread_t thread;
        pthread_create(&thread, NULL, make_call, &c);
        sleep_ms(50);
        uint64_t before = now_ms();
        works(rclose(c.fd));
        pthread_join(thread, NULL);
        assert_true(now_ms() - before < 5000);
        assert_int_equal(c.error, kind == POLL ? POLLNVAL : EBADF);
        assert_int_equal(c.result, kind == POLL ? 1 : -1);
        fails(rrecv(c.fd, &c, 1, 0), EBADF);
        if (kind != ACCEPT) {
            works(rclose(listener));
        } else {
            works(rclose(fds[0]));
        }
        works(rclose(fds[1]));
    }
}

/* --- other processes ------------------------------------------------------------------------- */

static int is_child;

/* LeakSanitizer asks at the end of a process. A child has what its parent knew of sockets, and no
 * thread that frees it. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return is_child;
}

static pid_t fork_child(void)
{
    (void)fflush(NULL);
    pid_t pid = works(fork());

    if (pid == 0) {
        is_child = 1;
        alarm(60);
    }
    return pid;
}

static void expect_status(pid_t pid, int wanted)
{
    int status = -1;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, wanted);
}

/* The port that a child listens at comes through a pipe. */
static int serve(int to, uint16_t *port)
{
    int listener = listener_at(port, 2);

    assert_int_equal(write(to, port, sizeof *port), sizeof *port);
    return raccept(listener, NULL, NULL);
}

static int dial(int from)
{
    uint16_t port;
    struct sockaddr_in at;

    assert_int_equal(read(from, &port, sizeof port), sizeof port);
    at = loopback(port);
    int fd = works(rsocket(AF_INET, SOCK_STREAM, 0));
    works(rconnect(fd, (struct sockaddr *)&at, sizeof at));
    return fd;
}

static void peer__that_is_killed__ends_waits_of_every_kind(void **state)
{
    static char octets[100000];

    (void)state;
    for (unsigned way = 0; way < 3; way++) {
        int pipes[2];
        works(pipe(pipes));
        pid_t pid = fork_child();
        if (pid == 0) {
            uint16_t port;
            (void)serve(pipes[1], &port);
            for (;;) {
                pause();
            }
        }
        int fd = dial(pipes[0]);
        struct call c = {.fd = fd, .kind = (unsigned[]){RECV, SEND, POLL}[way]};
        pthread_t thread;
        pthread_create(&thread, NULL, make_call, &c);
        sleep_ms(100);
        kill(pid, SIGKILL);
        expect_status(pid, SIGKILL);
        pthread_join(thread, NULL);
        if (c.kind == POLL) {
            assert_true(c.error & (POLLHUP | POLLIN));
        } else {
            assert_true((c.kind == RECV && c.result == 0) ||
                        (c.result == -1 && (c.error == ECONNRESET || c.error == EPIPE)));
        }
        (void)rrecv(fd, octets, 1, 0);
        assert_int_equal(rrecv(fd, octets, 1, 0), 0);
        works(rclose(fd));
        close(pipes[0]);
        close(pipes[1]);
    }
}

static void exit__right_after_a_write__loses_nothing(void **state)
{
    static uint8_t octets[120000];

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        int pipes[2];
        works(pipe(pipes));
        pid_t pid = fork_child();
        if (pid == 0) {
            uint16_t port;
            int fd = serve(pipes[1], &port);
            fill(octets, sizeof octets, 0, i);
            exit(rwrite(fd, octets, sizeof octets) == sizeof octets ? 0 : 1);
        }
        int fd = dial(pipes[0]);
        size_t got = 0;
        for (ssize_t n; (n = works(rrecv(fd, octets, sizeof octets, 0))) > 0; got += (size_t)n) {
            check(octets, (size_t)n, got, i);
        }
        assert_int_equal(got, sizeof octets);
        works(rclose(fd));
        expect_status(pid, 0);
        close(pipes[0]);
        close(pipes[1]);
    }
}

static void leave(int number)
{
    (void)number;
    exit(3);
}

/* POSIX does not allow it, and programs do so. The thread may hold any lock, so nothing is sent. */
static void exit__in_a_handler_within_a_call__ends_the_process(void **state)
{
    const struct sigaction action = {.sa_handler = leave};
    const struct itimerval soon = {.it_value = {0, 5000}}; /* of the process's own time */

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        pid_t pid = fork_child();
        if (pid == 0) {
            int fds[2];
            char c;
            make_pair(fds);
            (void)sigaction(SIGVTALRM, &action, NULL);
            (void)setitimer(ITIMER_VIRTUAL, &soon, NULL);
            for (;;) {
                (void)rsend(fds[0], "x", 1, 0);
                (void)rrecv(fds[1], &c, 1, MSG_DONTWAIT);
            }
        }
        expect_status(pid, 3 << 8);
    }
}

static _Atomic bool over;

static void *echo(void *arg)
{
    int *fds = arg;
    char c = 'e';

    while (!over) {
        if (rsend(fds[0], &c, 1, 0) != 1 || rrecv(fds[1], &c, 1, 0) != 1) {
            return "failed";
        }
    }
    return NULL;
}

static void child__of_a_process_with_rsockets__has_none_but_can(void **state)
{
    int fds[2], busy[2];
    char c;
    void *failed;
    pthread_t thread;
    uint16_t port;

    (void)state;
    make_pair(fds);
    make_pair(busy);
    pthread_create(&thread, NULL, echo, busy);
    int listener = listener_at(&port, 1);
    for (unsigned i = 0; i < 20; i++) {
        pid_t pid = fork_child();
        if (pid == 0) {
            if (rsend(fds[0], "x", 1, 0) != -1 || errno != EBADF || iwarp_rs_is(fds[0]) ||
                raccept(listener, NULL, NULL) != -1 || errno != EBADF || rclose(fds[0]) != 0 ||
                rclose(fds[0]) != -1 || rclose(listener) != 0) {
                _exit(1);
            }
            if (CHILD_SANITIZED) { /* a thread of the parent may have its allocator's lock for ever
                                    */
                _exit(0);
            }
            int own[2];
            make_pair(own);
            send_octets(own[0], "own", 3);
            expect_octets(own[1], "own", 3);
            exit(0);
        }
        expect_status(pid, 0);
        send_octets(fds[0], "parent", 6);
        expect_octets(fds[1], "parent", 6);
    }
    over = true;
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(rrecv(fds[1], &c, 1, MSG_DONTWAIT), -1);
    works(rclose(listener));
    close_pair(fds);
    close_pair(busy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* These fork while there is nothing else. */
        cmocka_unit_test(peer__that_is_killed__ends_waits_of_every_kind),
        cmocka_unit_test(exit__right_after_a_write__loses_nothing),
        cmocka_unit_test(exit__in_a_handler_within_a_call__ends_the_process),
        cmocka_unit_test(half_close__of_either_end__ends_that_way_alone),
        cmocka_unit_test(half_closes__of_both_ends__lose_nothing_that_waits_to_be_sent),
        cmocka_unit_test(shutdown__of_reading__ends_reads_alone),
        cmocka_unit_test(peer__that_closes__ends_reads_after_its_octets_and_writes),
        cmocka_unit_test(close__in_one_thread__wakes_calls_of_others),
        cmocka_unit_test(child__of_a_process_with_rsockets__has_none_but_can),
    };

    if (CHILD_SANITIZED == 2) {
        puts("ThreadSanitizer does not know children that start threads");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
