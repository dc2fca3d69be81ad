/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that wait: what ends them besides data, and that nothing is lost by it.
 */
#include "rsockets.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

static _Atomic unsigned handled;
static sigjmp_buf back;

static void on_signal(int number)
{
    (void)number;
    handled++;
}

static void handle(int flags)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};

    works(sigaction(SIGUSR1, &action, NULL));
}

struct disturber {
    pthread_t whom;
    unsigned count, every_ms;
};

static void *disturb(void *arg)
{
    const struct disturber *d = arg;

    for (unsigned i = 0; i < d->count; i++) {
        sleep_ms(d->every_ms);
        pthread_kill(d->whom, SIGUSR1);
    }
    return NULL;
}

/* Several signals, since the first may come before the call. */
static pthread_t start(struct disturber *d)
{
    pthread_t thread;

    *d = (struct disturber){pthread_self(), 5, 50};
    assert_int_equal(pthread_create(&thread, NULL, disturb, d), 0);
    return thread;
}

static void signal__with_a_handler__ends_calls_that_block(void **state)
{
    static uint8_t octets[1 << 16];
    struct disturber d;
    uint16_t port;
    int listener = listener_at(&port, 4), fds[2];
    char c;

    (void)state;
    handle(0);
    make_pair(fds);
    pthread_t thread = start(&d);
    fails(rrecv(fds[0], &c, 1, 0), EINTR);
    pthread_join(thread, NULL);
    thread = start(&d);
    fails(raccept(listener, NULL, NULL), EINTR);
    pthread_join(thread, NULL);
    set_nonblocking(fds[0], true);
    while (rsend(fds[0], octets, sizeof octets, 0) > 0 || polled(fds[0], POLLOUT, 50)) {
    }
    set_nonblocking(fds[0], false);
    thread = start(&d);
    fails(rsend(fds[0], &c, 1, 0), EINTR);
    pthread_join(thread, NULL);
    thread = start(&d);
    struct pollfd p = {listener, POLLIN, 0};
    fails(rpoll(&p, 1, -1), EINTR);
    pthread_join(thread, NULL);
    close_pair(fds);
    works(rclose(listener));
}

static void *answer_after(void *arg)
{
    sleep_ms(400);
    (void)rsend(*(int *)arg, "x", 1, 0);
    return NULL;
}

static void signal__with_a_handler_that_restarts__does_not(void **state)
{
    struct disturber d;
    pthread_t thread, other;
    int fds[2];
    char c = 0;

    (void)state;
    handle(SA_RESTART);
    make_pair(fds);
    handled = 0;
    assert_int_equal(pthread_create(&other, NULL, answer_after, &fds[1]), 0);
    thread = start(&d);
    assert_int_equal(rrecv(fds[0], &c, 1, 0), 1);
    assert_int_equal(c, 'x');
    assert_true(handled > 0);
    pthread_join(thread, NULL);
    pthread_join(other, NULL);
    close_pair(fds);
}

struct trickle {
    int fd;
    unsigned count, every_ms;
};

static void *send_slowly(void *arg)
{
    const struct trickle *t = arg;

    for (unsigned i = 0; i < t->count; i++) {
        sleep_ms(t->every_ms);
        if (rsend(t->fd, "y", 1, 0) != 1) {
            break;
        }
    }
    return NULL;
}

static void time_out__of_a_receive__bounds_the_whole_call(void **state)
{
    struct timeval limit = {0, 300000};
    struct trickle trickle = {.count = 19, .every_ms = 100};
    char octets[20];
    pthread_t thread;
    int fds[2];

    (void)state;
    make_pair(fds);
    works(rsetsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    trickle.fd = fds[1];
    send_octets(fds[1], "y", 1);
    assert_int_equal(polled(fds[0], POLLIN, RS_WAIT_MS), POLLIN);
    assert_int_equal(pthread_create(&thread, NULL, send_slowly, &trickle), 0);
    uint64_t begin = now_ms();
    ssize_t got = rrecv(fds[0], octets, sizeof octets, MSG_WAITALL);
    assert_in_range(now_ms() - begin, 250, 1500);
    assert_in_range(got, 1, 19);
    pthread_join(thread, NULL);
    assert_int_equal(rrecv(fds[0], octets, sizeof octets - (size_t)got, MSG_WAITALL), 20 - got);
    begin = now_ms();
    fails(rrecv(fds[0], octets, 1, 0), EAGAIN);
    assert_in_range(now_ms() - begin, 250, 5000);
    close_pair(fds);
}

static void time_out__of_a_connect__leaves_it_under_way(void **state)
{
    struct timeval limit = {0, 300000};
    uint16_t port;
    int listener = listener_at(&port, 4), fds[2];
    struct sockaddr_in to = loopback(port);

    (void)state;
    fds[0] = works(rsocket(AF_INET, SOCK_STREAM, 0));
    works(rsetsockopt(fds[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
    uint64_t begin = now_ms();
    fails(rconnect(fds[0], (struct sockaddr *)&to, sizeof to), EINPROGRESS); /* nobody accepts */
    assert_in_range(now_ms() - begin, 250, 5000);
    fails(rconnect(fds[0], (struct sockaddr *)&to, sizeof to), EALREADY);
    fds[1] = works(raccept(listener, NULL, NULL));
    assert_int_equal(polled(fds[0], POLLOUT, RS_WAIT_MS), POLLOUT);
    send_octets(fds[0], "on", 2);
    expect_octets(fds[1], "on", 2);
    close_pair(fds);
    works(rclose(listener));
}

static void raccept__without_a_free_descriptor__leaves_the_request_for_later(void **state)
{
    uint16_t port;
    int listener = listener_at(&port, 4), fds[2], spare = works(dup(0)), error;
    struct rlimit before, none;

    (void)state;
    fds[0] = works(rsocket(AF_INET, SOCK_STREAM, 0));
    begin_connect(fds[0], port);
    assert_int_equal(polled(listener, POLLIN, RS_WAIT_MS), POLLIN);
    getrlimit(RLIMIT_NOFILE, &before);
    none = (struct rlimit){(rlim_t)spare, before.rlim_max};
    close(spare);
    setrlimit(RLIMIT_NOFILE, &none);
    errno = 0;
    fds[1] = raccept(listener, NULL, NULL);
    error = errno;
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(fds[1], -1);
    assert_int_equal(error, EMFILE);
    fds[1] = works(raccept(listener, NULL, NULL));
    finish_connect(fds[0]);
    send_octets(fds[0], "late", 4);
    expect_octets(fds[1], "late", 4);
    close_pair(fds);
    works(rclose(listener));
}

static void riounmap__of_what_was_not_mapped__is_refused(void **state)
{
    static char memory[4096];
    const int entries = 4;
    uint16_t port;
    int listener = listener_at(&port, 4), fds[2];

    (void)state;
    fds[0] = works(rsocket(AF_INET, SOCK_STREAM, 0));
    works(rsetsockopt(fds[0], SOL_RDMA, RDMA_IOMAPSIZE, &entries, sizeof entries));
    works(rsetsockopt(listener, SOL_RDMA, RDMA_IOMAPSIZE, &entries, sizeof entries));
    connect_through(listener, port, fds);
    assert_int_equal(riomap(fds[0], memory, sizeof memory, PROT_WRITE, 0, 0), 0);
    fails(riounmap(fds[0], memory + 1, sizeof memory), EINVAL);
    fails(riounmap(fds[0], memory, sizeof memory - 1), EINVAL);
    works(riounmap(fds[0], memory, sizeof memory));
    fails(riounmap(fds[0], memory, sizeof memory), EINVAL);
    close_pair(fds);
    works(rclose(listener));
}

/* Memory that is only written from needs no entry of the peer's map. */
static void riounmap__of_memory_to_write_from__succeeds_once(void **state)
{
    static char memory[4096];
    uint16_t port;
    int listener = listener_at(&port, 4), fds[2];

    (void)state;
    fds[0] = works(rsocket(AF_INET, SOCK_STREAM, 0));
    connect_through(listener, port, fds);
    assert_int_equal(riomap(fds[0], memory, sizeof memory, PROT_NONE, 0, 7), 7);
    works(riounmap(fds[0], memory, sizeof memory));
    fails(riounmap(fds[0], memory, sizeof memory), EINVAL);
    assert_int_equal(riomap(fds[0], memory, sizeof memory, PROT_NONE, 0, 7), 7);
    close_pair(fds);
    works(rclose(listener));
}

static void *echo(void *arg)
{
    int fd = *(int *)arg;
    char c;

    while (rrecv(fd, &c, 1, 0) == 1 && rsend(fd, &c, 1, 0) == 1) {
    }
    return NULL;
}

static void on_jump(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

/* In a thread that has nothing to do with the jump: whatever the jump took along is missing here.
 */
static void *use_another(void *fd)
{
    send_octets(*(int *)fd, "x", 1);
    expect_octets(*(int *)fd, "x", 1);
    return NULL;
}

/* A request a turn, and a signal right behind the last: the thread runs the loop itself then. */
static void handler__that_jumps_out_of_a_call__leaves_the_library_whole(void **state)
{
    struct sigaction action = {.sa_handler = on_jump};
    sigset_t alarms;
    pthread_t other[2], user;
    int fds[2], more[2];
    char c = 0;

    (void)state;
    make_pair(fds);
    make_pair(more);
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL); /* for the other threads */
    assert_int_equal(pthread_create(&other[0], NULL, echo, &fds[1]), 0);
    assert_int_equal(pthread_create(&other[1], NULL, echo, &more[1]), 0);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    works(sigaction(SIGALRM, &action, NULL));
    for (unsigned i = 0; i < 5; i++) {
        for (unsigned j = 0; j < 500; j++) {
            send_octets(fds[0], &c, 1);
            assert_int_equal(rrecv(fds[0], &c, 1, 0), 1);
        }
        if (sigsetjmp(back, 1) == 0) {
            works(setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 1000}}, NULL));
            (void)rrecv(fds[0], &c, 1, 0);
            fail_msg("the signal has not come");
        }
        assert_int_equal(pthread_create(&user, NULL, use_another, &more[0]), 0);
        pthread_join(user, NULL);
    }
    works(rshutdown(fds[1], SHUT_RDWR));
    works(rshutdown(more[1], SHUT_RDWR));
    pthread_join(other[0], NULL);
    pthread_join(other[1], NULL);
    works(rclose(fds[1]));
    close_pair(more);
}

static void rpoll__of_a_number_that_was_closed__says_so(void **state)
{
    int fd = works(rsocket(AF_INET, SOCK_STREAM, 0));

    (void)state;
    works(rclose(fd));
    assert_int_equal(polled(fd, POLLIN, RS_WAIT_MS), POLLNVAL);
}

static void *send_on(void *arg)
{
    send_octets(*(int *)arg, "x", 1);
    return NULL;
}

static void *send_cancelled(void *arg)
{
    pthread_cancel(pthread_self());
    return send_on(arg);
}

static void cancellation__within_calls__leaves_no_lock_behind(void **state)
{
    pthread_t thread;
    int fds[2];

    (void)state;
    make_pair(fds);
    assert_true(iwarp_rs_watch(fds[0]) >= 0);
    assert_true(iwarp_rs_watch(fds[1]) >= 0);
    assert_int_equal(pthread_create(&thread, NULL, send_cancelled, &fds[0]), 0);
    pthread_join(thread, NULL);
    expect_octets(fds[1], "x", 1);
    assert_int_equal(pthread_create(&thread, NULL, send_on, &fds[0]), 0);
    pthread_join(thread, NULL);
    expect_octets(fds[1], "x", 1);
    close_pair(fds);
}

/* So many turns that both threads come to run the loop. */
static void ping_pong__of_threads_that_block__goes_on_under_signals(void **state)
{
    struct disturber d;
    pthread_t thread, other;
    int fds[2];
    char c;

    (void)state;
    handle(SA_RESTART);
    make_pair(fds);
    assert_int_equal(pthread_create(&other, NULL, echo, &fds[1]), 0);
    d = (struct disturber){pthread_self(), 100, 5};
    assert_int_equal(pthread_create(&thread, NULL, disturb, &d), 0);
    for (unsigned i = 0; i < 20000; i++) {
        c = (char)i;
        send_octets(fds[0], &c, 1);
        assert_int_equal(rrecv(fds[0], &c, 1, 0), 1);
        assert_int_equal(c, (char)i);
    }
    pthread_join(thread, NULL);
    works(rclose(fds[0]));
    pthread_join(other, NULL);
    works(rclose(fds[1]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signal__with_a_handler__ends_calls_that_block),
        cmocka_unit_test(signal__with_a_handler_that_restarts__does_not),
        cmocka_unit_test(time_out__of_a_receive__bounds_the_whole_call),
        cmocka_unit_test(time_out__of_a_connect__leaves_it_under_way),
        cmocka_unit_test(raccept__without_a_free_descriptor__leaves_the_request_for_later),
        cmocka_unit_test(riounmap__of_what_was_not_mapped__is_refused),
        cmocka_unit_test(riounmap__of_memory_to_write_from__succeeds_once),
        cmocka_unit_test(handler__that_jumps_out_of_a_call__leaves_the_library_whole),
        cmocka_unit_test(rpoll__of_a_number_that_was_closed__says_so),
        cmocka_unit_test(cancellation__within_calls__leaves_no_lock_behind),
        cmocka_unit_test(ping_pong__of_threads_that_block__goes_on_under_signals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
