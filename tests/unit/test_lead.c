/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that waits for completions runs the loop of a threaded device itself: that it comes to
 * do so, and that everybody else is served when it stays away, waits for something else, is
 * cancelled, or when others wait and call.
 */
#include "child.h"
#include "loop/lease.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/worker.h"
#include "verbs_pair.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static void open_threaded(struct pair *p)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = IWARP_PROGRESS_THREADED;
    pair_open(p, &o);
    pair_await_homes(p->device);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void once(struct pair *p, unsigned i)
{
    pair_recv(&p->side[1], i, 0, 100);
    pair_send(&p->side[0], i, 0, 100);
    pair_wc(p->side[1].recv_cq, i, IWARP_WC_SUCCESS);
    pair_wc(p->side[0].send_cq, i, IWARP_WC_SUCCESS);
}

/* Until this thread leads. A machine with much else to do may not let it come back soon enough. */
static bool come_to_lead(struct pair *p, double seconds)
{
    double end = now() + seconds;
    unsigned i = 0;
    bool led;

    do {
        once(p, i++);
        led = iwarp_lease_is_out(&p->device->worker[0].loop.lease);
    } while (!led && now() < end);
    if (!led) {
        print_message("# never back soon enough to lead\n");
    }
    return led;
}

/* A thread has a habit at some devices only: the one that it used longest ago is forgotten. */
#define OTHERS 4

static void open_others(struct pair other[OTHERS])
{
    for (int i = 0; i < OTHERS; i++) {
        open_threaded(&other[i]);
    }
}

static void forget_penalties(struct pair other[OTHERS])
{
    for (int i = 0; i < OTHERS; i++) {
        once(&other[i], 0);
    }
}

static void close_others(struct pair other[OTHERS])
{
    for (int i = 0; i < OTHERS; i++) {
        pair_close(&other[i]);
    }
}

static void wait_until_taken_over(const struct pair *p)
{
    for (int i = 0; iwarp_lease_is_out(&p->device->worker[0].loop.lease); i++) {
        assert_true(i < 90000);
        usleep(1000);
    }
}

static void lead__after_quick_waits__loses_nothing(void **state)
{
    struct pair p;
    unsigned led = 0;

    (void)state;
    open_threaded(&p);
    assert_true(come_to_lead(&p, 80));
    for (unsigned i = 0; i < 3000; i++) {
        once(&p, i);
        led += iwarp_lease_is_out(&p.device->worker[0].loop.lease);
    }
    print_message("# led at %u of 3000 looks\n", led);
    pair_close(&p); /* the worker's thread is away, maybe */
}

/* What was threaded progress for: transfers go on while the application computes. */
static void lead__and_then_away__the_worker_takes_over(void **state)
{
    struct pair p, other[OTHERS];

    (void)state;
    open_threaded(&p);
    open_others(other);
    for (unsigned round = 1; round < 4; round++) {
        forget_penalties(other);
        (void)come_to_lead(&p, 5);
        const volatile uint8_t *last = p.side[0].p + 99;
        memset(p.side[1].p, (int)(100 + round), 100);
        pair_read(&p.side[0], 7, 0, 100, &p.side[1], 0);
        for (int i = 0; *last != 100 + round; i++) {
            assert_true(i < 90000);
            usleep(1000);
        }
        wait_until_taken_over(&p);
        pair_wc(p.side[0].send_cq, 7, IWARP_WC_SUCCESS);
    }
    close_others(other);
    pair_close(&p);
}

/* Nobody is served late by the same thread again and again: it has to come back more often each
 * time. */
static void lead__lost_again_and_again__is_earned_by_more_waits_each_time(void **state)
{
    unsigned waits[4] = {0}, losses = 0;
    double end = now() + 60;
    struct pair p;

    (void)state;
    open_threaded(&p);
    struct iwarp_worker *w = &p.device->worker[0];
    while (losses < 4 && now() < end) {
        double took = 0;
        for (unsigned i = 0; i < 10; i++) { /* in bursts, so that in between it is away for long */
            took = -now();
            once(&p, i);
            took += now();
            waits[losses]++;
        }
        bool led = iwarp_lease_is_out(&w->loop.lease) &&
                   took < 0.001; /* else it has given up the lead itself */
        usleep(5000);
        losses += led && !iwarp_lease_is_out(&w->loop.lease);
    }
    print_message("# %u losses; Sends before each: %u %u %u %u\n", losses, waits[0], waits[1],
                  waits[2], waits[3]);
    for (unsigned i = 1; i < losses; i++) { /* two waits a Send */
        assert_true(2 * waits[i] >= (64u << (i - 1)) + 8);
    }
    pair_close(&p);
}

static void lead__and_then_polling__is_served(void **state)
{
    struct pair p;
    struct iwarp_wc wc;

    (void)state;
    open_threaded(&p);
    (void)come_to_lead(&p, 5);
    for (unsigned i = 0; i < 200; i++) {
        pair_read(&p.side[0], i, 0, 100, &p.side[1], 0);
        while (iwarp_cq_poll(p.side[0].send_cq, &wc, 1) == 0) {
        }
        assert_int_equal(wc.wr_id, i);
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
    }
    pair_close(&p);
}

/*
 * Its polls are visits, but too far apart for a loop that serves others, too: the worker takes
 * over.
 */
static void lead__and_then_polling_seldom__the_worker_takes_over(void **state)
{
    unsigned polls, most = 0;
    struct pair p, other[OTHERS];
    struct iwarp_wc wc;

    (void)state;
    open_threaded(&p);
    open_others(other);
    for (unsigned round = 0; round < 4; round++) {
        forget_penalties(other);
        (void)come_to_lead(&p, 5);
        for (polls = 0; polls < 500 && iwarp_lease_is_out(&p.device->worker[0].loop.lease);
             polls++) {
            assert_int_equal(iwarp_cq_poll(p.side[0].recv_cq, &wc, 1), 0);
            usleep(200);
        }
        most = polls > most ? polls : most;
    }
    print_message("# the worker is back after %u polls at most\n", most);
    assert_true(most < 500);
    close_others(other);
    pair_close(&p);
}

static void lead__with_nothing_to_come__keeps_to_its_time(void **state)
{
    struct pair p, other[OTHERS];
    struct iwarp_wc wc;

    (void)state;
    open_threaded(&p);
    open_others(other);
    for (int ms = 0; ms < 60; ms += 3) {
        forget_penalties(other);
        (void)come_to_lead(&p, 5);
        double before = now();
        assert_int_equal(iwarp_cq_wait(p.side[0].recv_cq, &wc, 1, ms), 0);
        double took = now() - before;
        assert_true(took >= ms / 1e3 - 0.001);
        assert_true(took < 60);
    }
    close_others(other);
    pair_close(&p);
}

/* The process would not survive memory that is gone. A thread that only waits may block these
 * signals. */
static void lead__with_faults_blocked__is_the_workers(void **state)
{
    sigset_t faults, before;
    struct pair p;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        open_threaded(&p);
        sigemptyset(&faults);
        sigaddset(&faults, i == 0 ? SIGSEGV : SIGBUS);
        pthread_sigmask(SIG_BLOCK, &faults, &before);
        bool led = come_to_lead(&p, 0.5);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        assert_false(led);
        pair_close(&p);
    }
}

/* What it spends in the lead is part of the time that it was given. */
static void lead__in_vain__adds_nothing_to_the_time(void **state)
{
    double end = now() + 20, least = 60;
    unsigned led = 0;
    struct pair p, other[OTHERS];
    struct iwarp_wc wc;

    (void)state;
    open_threaded(&p);
    open_others(other);
    while (led < 40 && now() < end) {
        forget_penalties(other);
        led += come_to_lead(&p, 5);
        double before = now();
        assert_int_equal(iwarp_cq_wait(p.side[0].recv_cq, &wc, 1, 5), 0);
        double took = now() - before;
        least = took < least ? took : least;
    }
    print_message("# 5 ms took at least %.1f ms\n", least * 1e3);
    assert_true(led < 40 || least < 0.0065);
    close_others(other);
    pair_close(&p);
}

/* --- beside others --------------------------------------------------------------------------- */

struct other {
    pthread_t thread;
    struct pair *pair;
    struct iwarp_cq *cq;
    struct iwarp_wc wc;
    int got;
    _Atomic bool stop;
};

static void *wait_for_one(void *arg)
{
    struct other *me = arg;

    me->got = iwarp_cq_wait(me->cq, &me->wc, 1, PAIR_WAIT_MS);
    return NULL;
}

static void start(struct other *me, struct pair *p, void *(*fn)(void *))
{
    me->pair = p;
    assert_int_equal(pthread_create(&me->thread, NULL, fn, me), 0);
}

/* Another thread sleeps for its queue; the leader goes away just when something comes for it. */
static void lead__beside_a_thread_that_waits__it_is_served(void **state)
{
    struct other other = {0};
    struct pair p;

    (void)state;
    open_threaded(&p);
    for (unsigned round = 0; round < 5; round++) {
        (void)come_to_lead(&p, 5);
        other.cq = p.side[0].recv_cq;
        pair_recv(&p.side[0], round, 0, 100);
        start(&other, &p, wait_for_one);
        for (unsigned i = 0; i < 50 * round; i++) {
            once(&p, i);
        }
        pair_send(&p.side[1], round, 0, 100);
        pthread_join(other.thread, NULL);
        assert_int_equal(other.got, 1);
        assert_int_equal(other.wc.wr_id, round);
        pair_wc(p.side[1].send_cq, round, IWARP_WC_SUCCESS);
    }
    pair_close(&p);
}

/* Completions that another thread produces wake the leader: here those of flushed receives. */
static void *leave_after_a_while(void *arg)
{
    struct other *me = arg;

    usleep(1000);
    assert_int_equal(iwarp_disconnect(me->pair->side[0].conn), IWARP_OK);
    return NULL;
}

static void lead__and_the_connection_ends__hears_of_it(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        struct other other = {0};
        struct pair p;
        open_threaded(&p);
        (void)come_to_lead(&p, 5);
        pair_recv(&p.side[0], 5, 0, 100);
        start(&other, &p, leave_after_a_while);
        pair_wc(p.side[0].recv_cq, 5, IWARP_WC_FLUSHED);
        pthread_join(other.thread, NULL);
        pair_close(&p);
    }
}

static void *once_and_again(void *arg)
{
    struct other *me = arg;

    for (unsigned i = 0; !atomic_load(&me->stop); i++) {
        struct pair_side *from = &me->pair->side[1], *to = &me->pair->side[0];
        struct iwarp_wc wc;
        pair_recv(to, i, 200, 100);
        pair_send(from, i, 200, 100);
        if (iwarp_cq_wait(to->recv_cq, &wc, 1, PAIR_WAIT_MS) != 1 || wc.wr_id != i ||
            iwarp_cq_wait(from->send_cq, &wc, 1, PAIR_WAIT_MS) != 1 || wc.wr_id != i) {
            me->got = -1;
            break;
        }
    }
    return NULL;
}

/* Both would like to; and listeners that come and go need the worker now and then. */
static void lead__of_two_threads__both_are_served(void **state)
{
    struct other other = {0};
    struct pair p;

    (void)state;
    open_threaded(&p);
    start(&other, &p, once_and_again);
    double end = now() + 2;
    for (unsigned i = 0; now() < end; i++) {
        once(&p, i);
        if (i % 256 == 0) {
            must(iwarp_listener_close(pair_listen(p.device, PAIR_TCP4, NULL, p.eq[1])));
        }
    }
    atomic_store(&other.stop, true);
    pthread_join(other.thread, NULL);
    assert_int_equal(other.got, 0);
    pair_close(&p);
}

#if CHILD_SANITIZED != 1 /* as in test_process_cancel.c */
static void *wait_for_ever(void *arg)
{
    struct other *me = arg;
    struct iwarp_wc wc;

    for (;;) {
        pair_recv(&me->pair->side[1], 1, 0, 100);
        pair_send(&me->pair->side[0], 1, 0, 100);
        if (iwarp_cq_wait(me->pair->side[1].recv_cq, &wc, 1, -1) != 1 ||
            iwarp_cq_wait(me->pair->side[0].send_cq, &wc, 1, -1) != 1) {
            return NULL;
        }
    }
}

static void *poll_while_cancelled(void *arg)
{
    struct other *me = arg;
    struct iwarp_wc wc;

    pthread_cancel(pthread_self()); /* takes effect where it can be cancelled next */
    for (unsigned i = 0; i < 64; i++) {
        (void)iwarp_cq_poll(me->pair->side[0].recv_cq, &wc, 1);
    }
    pthread_testcancel();
    return NULL;
}

/* It visits the loop of a thread that is away. */
static void lead__and_a_poller_is_cancelled__that_holds_nothing(void **state)
{
    struct pair p;

    (void)state;
    open_threaded(&p);
    for (unsigned round = 0; round < 3; round++) {
        struct other other = {0};
        void *result;
        (void)come_to_lead(&p, 5);
        start(&other, &p, poll_while_cancelled);
        assert_int_equal(pthread_join(other.thread, &result), 0);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        wait_until_taken_over(&p);
        once(&p, round);
    }
    pair_close(&p);
}

static void lead__when_cancelled__ends_and_holds_nothing(void **state)
{
    struct other other = {0};
    struct pair p;
    struct iwarp_wc wc;
    void *result;

    (void)state;
    open_threaded(&p);
    start(&other, &p, wait_for_ever);
    usleep(50000);
    assert_int_equal(pthread_cancel(other.thread), 0);
    assert_int_equal(pthread_join(other.thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    wait_until_taken_over(&p);
    pair_read(&p.side[0], 77, 0, 100, &p.side[1], 0);
    do {
        assert_int_equal(iwarp_cq_wait(p.side[0].send_cq, &wc, 1, PAIR_WAIT_MS), 1);
    } while (wc.wr_id != 77);
    pair_close(&p);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lead__after_quick_waits__loses_nothing),
        cmocka_unit_test(lead__and_then_away__the_worker_takes_over),
        cmocka_unit_test(lead__lost_again_and_again__is_earned_by_more_waits_each_time),
        cmocka_unit_test(lead__and_then_polling__is_served),
        cmocka_unit_test(lead__and_then_polling_seldom__the_worker_takes_over),
        cmocka_unit_test(lead__with_nothing_to_come__keeps_to_its_time),
        cmocka_unit_test(lead__with_faults_blocked__is_the_workers),
        cmocka_unit_test(lead__in_vain__adds_nothing_to_the_time),
        cmocka_unit_test(lead__beside_a_thread_that_waits__it_is_served),
        cmocka_unit_test(lead__and_the_connection_ends__hears_of_it),
        cmocka_unit_test(lead__of_two_threads__both_are_served),
#if CHILD_SANITIZED != 1
        cmocka_unit_test(lead__and_a_poller_is_cancelled__that_holds_nothing),
        cmocka_unit_test(lead__when_cancelled__ends_and_holds_nothing),
#endif
    };

    return cmocka_run_group_tests_name("lead", tests, NULL, NULL);
}
