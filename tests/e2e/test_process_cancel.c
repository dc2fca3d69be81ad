/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads are cancelled inside calls: those that wait end, those that do something finish it first,
 * and nothing stays locked. And a process with idle connections uses no processor time.
 */
#include "child.h"
#include "octets.h"
#include "seconds.h"
#include "verbs_pair.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ---- threads that wait ------------------------------------------------------------------------
 */

static void *in_cq_wait(void *arg)
{
    const struct pair *p = arg;
    struct iwarp_wc wc;

    (void)iwarp_cq_wait(p->side[1].recv_cq, &wc, 1, -1);
    return NULL;
}

static void *in_eq_get(void *arg)
{
    const struct pair *p = arg;
    struct iwarp_event event;

    (void)iwarp_eq_get(p->eq[0], &event, -1);
    return NULL;
}

static void *in_conn_wait_end(void *arg)
{
    const struct pair *p = arg;

    (void)iwarp_conn_wait_end(p->side[0].conn, -1);
    return NULL;
}

#if CHILD_SANITIZED != 1
static void *in_conn_wait_end_bounded(void *arg)
{
    const struct pair *p = arg;

    (void)iwarp_conn_wait_end(p->side[0].conn, 3600 * 1000);
    return NULL;
}

static void *in_async_get(void *arg)
{
    const struct pair *p = arg;
    struct iwarp_async_event event;

    (void)iwarp_async_get(p->device, &event, -1);
    return NULL;
}

static void cancel(pthread_t thread)
{
    void *result = NULL;

    assert_int_equal(pthread_cancel(thread), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
}
#endif

static void exchange(struct pair *p, uint64_t id)
{
    pair_recv(&p->side[1], id, 0, 4096);
    pair_send(&p->side[0], id, 0, 4096);
    pair_wc(p->side[1].recv_cq, id, IWARP_WC_SUCCESS);
    pair_wc(p->side[0].send_cq, id, IWARP_WC_SUCCESS);
}

#if CHILD_SANITIZED != 1
static void cancel__in_a_wait__ends_it(void **state)
{
    static void *(*const waits[])(void *) = {in_cq_wait, in_eq_get, in_conn_wait_end,
                                             in_conn_wait_end_bounded, in_async_get};
    struct chance chance = {chance_seed()};
    struct pair_options o;
    struct pair p;
    pthread_t thread;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = IWARP_PROGRESS_THREADED; /* whatever TEST_PROGRESS says */
    pair_open(&p, &o);
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(pthread_create(&thread, NULL, waits[i % 5], &p), 0);
        usleep((useconds_t)chance_below(&chance, 2000));
        cancel(thread);
        exchange(&p, i);
    }
    must(iwarp_disconnect(p.side[0].conn)); /* all who might wait can still be told */
    pair_event(p.eq[0], IWARP_EVENT_DISCONNECTED);
    must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
    pair_close(&p);
}

/* ---- threads that do something ----------------------------------------------------------------
 */

struct poster {
    struct pair pair;
    _Atomic uint64_t posted; /* Writes that were accepted */
    _Atomic uint64_t taken;  /* completions of theirs that were polled */
};

/* Not cancelled between the post and its being counted: that would be this thread's own bug. */
static void *post_for_ever(void *arg)
{
    struct poster *b = arg;
    struct iwarp_sge sge = pair_sge(&b->pair.side[0], 0, 4096);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_WRITE, 1, &sge);
    int unused;

    wr.remote_stag = iwarp_mr_stag(b->pair.side[1].mr);
    wr.remote_to = (uint64_t)(uintptr_t)b->pair.side[1].p;
    for (;;) {
        pthread_testcancel();
        if (atomic_load(&b->posted) - atomic_load(&b->taken) > 500) {
            continue; /* the completion queue is not endless */
        }
        wr.wr_id = atomic_load(&b->posted);
        enum iwarp_status status = iwarp_post_send(b->pair.side[0].qp, &wr, NULL);
        atomic_fetch_add(&b->posted, status == IWARP_OK);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &unused);
        assert_int_equal(unused, PTHREAD_CANCEL_ENABLE); /* as it was before the call */
    }
    return NULL;
}

static void *register_for_ever(void *arg)
{
    struct poster *b = arg;
    struct iwarp_mr *mr;

    for (;;) {
        must(iwarp_mr_register(b->pair.side[1].pd, b, 64, 0, &mr));
        must(iwarp_mr_deregister(mr));
        pthread_testcancel();
    }
    return NULL;
}

/* Until as many have completed as were posted, all of them in order. */
static void take(struct poster *b)
{
    while (atomic_load(&b->taken) < atomic_load(&b->posted)) {
        pair_wc(b->pair.side[0].send_cq, atomic_load(&b->taken), IWARP_WC_SUCCESS);
        atomic_fetch_add(&b->taken, 1);
    }
}

static void cancel__while_posting__loses_and_locks_nothing(void **state)
{
    struct chance chance = {chance_seed()};
    struct poster b = {.posted = 0};
    struct pair_options o;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = IWARP_PROGRESS_THREADED; /* whatever TEST_PROGRESS says */
    pair_open(&b.pair, &o);
    for (unsigned i = 0; i < 60; i++) {
        const time_t end = seconds_now() + PAIR_WAIT_MS / 1000;
        uint64_t enough = atomic_load(&b.posted) + chance_below(&chance, 40);
        pthread_t poster, registrar;
        assert_int_equal(pthread_create(&poster, NULL, post_for_ever, &b), 0);
        assert_int_equal(pthread_create(&registrar, NULL, register_for_ever, &b), 0);
        while (atomic_load(&b.posted) < enough && seconds_now() < end) {
            take(&b);
        }
        cancel(poster);
        cancel(registrar);
        take(&b);
    }
    assert_true(atomic_load(&b.taken) > 60);
    must(iwarp_disconnect(b.pair.side[0].conn));
    must(iwarp_conn_wait_end(b.pair.side[1].conn, PAIR_WAIT_MS));
    assert_null(iwarp_conn_fault(b.pair.side[1].conn));
    pair_close(&b.pair);
}

/* The queue pair has given up: the receive's completion is told at once, by a system call. */
static void *receive_for_ever(void *arg)
{
    const struct pair *p = arg;
    const struct iwarp_recv_wr wr = {.wr_id = 1};
    struct iwarp_wc wc;

    for (;;) {
        must(iwarp_cq_arm(p->side[0].recv_cq, false));
        must(iwarp_post_recv(p->side[0].qp, &wr, NULL));
        while (iwarp_cq_poll(p->side[0].recv_cq, &wc, 1) > 0) {
        }
        pthread_testcancel();
    }
    return NULL;
}

static void cancel__while_posting_receives_that_are_flushed__locks_nothing(void **state)
{
    const struct iwarp_qp_changes give_up = {
        .size = sizeof give_up, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_ERROR};
    struct pair_options o;
    struct pair p;
    pthread_t thread;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.device.progress = IWARP_PROGRESS_THREADED; /* whatever TEST_PROGRESS says */
    pair_prepare(&p, &o);
    assert_true(iwarp_cq_fd(p.side[0].recv_cq) >= 0);
    must(iwarp_qp_modify(p.side[0].qp, &give_up));
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(pthread_create(&thread, NULL, receive_for_ever, &p), 0);
        usleep(i % 4 * 300);
        cancel(thread);
        pair_recv(&p.side[0], 2, 0, 8); /* would wait for ever */
    }
    pair_close(&p);
}
#endif

/* ---- an idle process --------------------------------------------------------------------------
 */

static double cpu_seconds(const struct rusage *r)
{
    return (double)(r->ru_utime.tv_sec + r->ru_stime.tv_sec) +
           (double)(r->ru_utime.tv_usec + r->ru_stime.tv_usec) / 1e6;
}

#define IDLE_PAIRS 8

static int be_idle(void *arg)
{
    struct pair pair[IDLE_PAIRS];
    struct rusage before, after;
    struct pair_options o;
    pthread_t thread[3];
    void *(*const waits[3])(void *) = {in_cq_wait, in_eq_get, in_conn_wait_end};

    for (int i = 0; i < IDLE_PAIRS; i++) {
        pair_options_init(&o, i % 2 ? PAIR_MEMORY : PAIR_TCP4);
        o.device.progress = IWARP_PROGRESS_THREADED; /* whatever TEST_PROGRESS says */
        o.device.workers = 2;
        pair_open(&pair[i], &o);
        exchange(&pair[i], 1);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, waits[i], &pair[i]), 0);
    }
    usleep(300000); /* what the start brings with it is over */
    getrusage(RUSAGE_SELF, &before);
    usleep(2000000);
    getrusage(RUSAGE_SELF, &after);
    double used = cpu_seconds(&after) - cpu_seconds(&before);
    long switches = after.ru_nvcsw - before.ru_nvcsw;
    print_message("%.3f s of 2 s, %ld wake-ups\n", used, switches);
    (void)arg;
    return used < 0.05 && switches < (CHILD_SANITIZED ? 1000 : 20) ? 0 : 1;
}

/* 32 threads and 16 ends of connections, some with somebody waiting. */
static void idle__connections_and_waits__use_no_processor_time(void **state)
{
    (void)state;
    assert_int_equal(child_run(be_idle, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#if CHILD_SANITIZED != 1 /* ASan takes the frames that a cancelled thread leaves for alive */
        cmocka_unit_test(cancel__in_a_wait__ends_it),
        cmocka_unit_test(cancel__while_posting__loses_and_locks_nothing),
        cmocka_unit_test(cancel__while_posting_receives_that_are_flushed__locks_nothing),
#endif
        cmocka_unit_test(idle__connections_and_waits__use_no_processor_time),
    };

    return cmocka_run_group_tests_name("process_cancel", tests, NULL, NULL);
}
