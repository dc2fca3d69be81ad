/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that lead for an epoll set (rspreload/lead.c), by what the preload library calls. Whole
 * programs are in tests/programs/sockets_wait.c.
 */
#include "rsockets.h"

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <time.h>

#define PAIRS  3
#define ROUNDS 2000

/* Rsockets that one set watches, and their peers. */
struct world {
    int set, fds[PAIRS][2], faces[PAIRS];
    _Atomic bool stop; /* for the threads aside */
    unsigned echoed;
};

static void open_world(struct world *w, uint32_t events)
{
    memset(w, 0, sizeof *w);
    iwarp_rs_lead_with(epoll_ctl);
    w->set = works(epoll_create1(0));
    for (int i = 0; i < PAIRS; i++) {
        struct epoll_event e = {.events = events, .data.u32 = (uint32_t)i};
        make_pair(w->fds[i]);
        set_nonblocking(w->fds[i][0], true);
        w->faces[i] = works(iwarp_rs_watch(w->fds[i][0]));
        works(iwarp_rs_ctl(w->fds[i][0], EPOLL_CTL_ADD, w->set, w->faces[i], &e));
        fails(iwarp_rs_ctl(w->fds[i][0], EPOLL_CTL_ADD, w->set, w->faces[i], &e), EEXIST);
    }
}

static void close_world(struct world *w)
{
    for (int i = 0; i < PAIRS; i++) {
        close_pair(w->fds[i]);
    }
    close(w->set);
}

static int64_t soon(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec + INT64_C(5000000000);
}

/* As the preload library waits. *led: the event came from the leader's own look. */
static int wait_for_one(struct world *w, struct epoll_event *e, bool *led)
{
    struct pollfd set[2] = {{.fd = w->set, .events = POLLIN}};
    int n = iwarp_rs_take(w->set, e, 1), error = EAGAIN;
    bool interrupted;

    *led = n > 0;
    if (n == 0) {
        error = iwarp_rs_lead(w->set, 0, set, 1, soon(), &interrupted);
        n = error == 0 ? iwarp_rs_take(w->set, e, 1) : 0;
        *led = n > 0;
    }
    if (n == 0 && error == 0) {
        n = works(epoll_wait(w->set, e, 1, 0));
    } else if (n == 0) {
        iwarp_rs_begin_sleep();
        n = works(epoll_wait(w->set, e, 1, 5000));
        iwarp_rs_end_sleep();
    }
    return n;
}

/* True: an octet came and went back, and the leader had seen it. */
static bool echo_one(struct world *w)
{
    const uint64_t began = now_ms();
    struct epoll_event e = {0};
    bool led;
    char c;

    if (wait_for_one(w, &e, &led) == 0) {
        assert_true(now_ms() - began < 4000); /* an octet was missed, and time is over */
        return false;
    }
    assert_int_equal(e.events & ~(uint32_t)(EPOLLIN | EPOLLOUT), 0);
    assert_true(e.data.u32 < PAIRS);
    if (e.events & EPOLLIN) {
        const int fd = w->fds[e.data.u32][0];
        assert_int_equal(rrecv(fd, &c, 1, 0), 1);
        assert_int_equal(rsend(fd, &c, 1, 0), 1);
        w->echoed++;
    }
    return led;
}

/* The program's other end, in a thread: an octet there and back. It does not sleep, which would
 * keep others from the loop. */
static void *ask(void *arg)
{
    struct world *w = arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        const int fd = w->fds[i % PAIRS][1];
        char c = (char)i, back;
        assert_int_equal(rsend(fd, &c, 1, 0), 1);
        while (rrecv(fd, &back, 1, MSG_DONTWAIT) != 1) {
            sched_yield();
        }
        assert_int_equal(c, back);
    }
    w->stop = true;
    assert_int_equal(rsend(w->fds[0][1], "x", 1, 0), 1); /* the last wait has an end, too */
    return NULL;
}

static void thread__that_waits_again_and_again__leads(void **state)
{
    struct world w;
    pthread_t asker;
    unsigned led = 0;

    (void)state;
    open_world(&w, EPOLLIN);
    assert_int_equal(pthread_create(&asker, NULL, ask, &w), 0);
    while (w.echoed <= ROUNDS) {
        led += echo_one(&w);
    }
    pthread_join(asker, NULL);
    assert_true(led > 0);
    print_message("# %u of %u octets were seen by the leader\n", led, ROUNDS);
    close_world(&w);
}

/* What a leader has not taken is shown by the kernel's set once another thread waits there. */
static void octet__that_is_due_to_a_leader__is_shown_to_another_thread(void **state)
{
    struct epoll_event e = {0};
    struct world w;
    pthread_t asker;
    char c;

    (void)state;
    open_world(&w, EPOLLIN);
    assert_int_equal(pthread_create(&asker, NULL, ask, &w), 0);
    while (w.echoed <= ROUNDS) {
        (void)echo_one(&w);
    }
    pthread_join(asker, NULL);
    const unsigned seen = iwarp_rs_news();
    send_octets(w.fds[1][1], "x", 1);
    for (uint64_t until = now_ms() + 100; iwarp_rs_news() == seen && now_ms() < until;) {
        sched_yield(); /* until it is due, if there is a leader still */
    }
    iwarp_rs_begin_sleep();
    assert_int_equal(epoll_wait(w.set, &e, 1, 5000), 1);
    iwarp_rs_end_sleep();
    assert_int_equal(e.data.u32, 1);
    assert_int_equal(e.events, EPOLLIN);
    assert_int_equal(rrecv(w.fds[1][0], &c, 1, 0), 1);
    close_world(&w);
}

/* Sleeps in the kernel now and then, so the leader has to give up in the midst of it. */
static void *sleep_aside(void *arg)
{
    struct world *w = arg;

    while (!w->stop) {
        const struct timespec a_while = {.tv_nsec = 300000};
        iwarp_rs_begin_sleep();
        nanosleep(&a_while, NULL);
        iwarp_rs_end_sleep();
        nanosleep(&a_while, NULL);
    }
    return NULL;
}

/* Takes a socket out of the set and puts it back. */
static void *change(void *arg)
{
    struct world *w = arg;
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = 0};

    while (!w->stop) {
        const struct timespec a_while = {.tv_nsec = 100000};
        works(iwarp_rs_ctl(w->fds[0][0], EPOLL_CTL_DEL, w->set, w->faces[0], NULL));
        fails(iwarp_rs_ctl(w->fds[0][0], EPOLL_CTL_MOD, w->set, w->faces[0], &e), ENOENT);
        nanosleep(&a_while, NULL);
        works(iwarp_rs_ctl(w->fds[0][0], EPOLL_CTL_ADD, w->set, w->faces[0], &e));
        e.events ^= EPOLLOUT;
        works(iwarp_rs_ctl(w->fds[0][0], EPOLL_CTL_MOD, w->set, w->faces[0], &e));
        nanosleep(&a_while, NULL);
    }
    return NULL;
}

static void leader__among_threads_that_sleep_and_change_its_set__misses_nothing(void **state)
{
    static void *(*const others[])(void *arg) = {ask, sleep_aside, change};
    struct world w;
    pthread_t threads[3];

    (void)state;
    open_world(&w, EPOLLIN);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, others[i], &w), 0);
    }
    while (w.echoed <= ROUNDS) {
        (void)echo_one(&w);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread__that_waits_again_and_again__leads),
        cmocka_unit_test(octet__that_is_due_to_a_leader__is_shown_to_another_thread),
        cmocka_unit_test(leader__among_threads_that_sleep_and_change_its_set__misses_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
