/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Polled progress, the connection that alone receives: the loop stops watching it, and watches it
 * again when no thread reads it directly any more. What comes then is received all the same.
 */
#include "verbs_pair.h"

#include "transport/transport.h"
#include "verbs/conn.h"
#include "verbs/worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 90000
#define MEMORY      (512u << 10)

static void open_polled(struct pair *p)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = IWARP_PROGRESS_POLLED;
    o.memory = MEMORY;
    pair_open(p, &o);
}

/* Not while the worker's own thread has the loop: it asks for all of them back before it sleeps. */
static bool is_away(struct pair_side *s)
{
    struct iwarp_worker *w = s->conn->worker;

    if (pthread_mutex_trylock(&w->loop.lease.run) != 0) {
        return false;
    }
    bool away = s->conn->ep && iwarp_tcp_is_away(s->conn->ep);
    pthread_mutex_unlock(&w->loop.lease.run);
    return away;
}

/* One message, all of it by polling. */
static void send_one(struct pair_side *from, struct pair_side *to, uint64_t id)
{
    struct iwarp_wc wc;

    pair_recv(to, id, 0, 100);
    pair_send(from, id, 0, 100);
    while (iwarp_cq_poll(to->recv_cq, &wc, 1) == 0) {
    }
    assert_int_equal(wc.wr_id, id);
    assert_int_equal(wc.status, IWARP_WC_SUCCESS);
    while (iwarp_cq_poll(from->send_cq, &wc, 1) == 0) {
    }
    assert_int_equal(wc.status, IWARP_WC_SUCCESS);
}

/*
 * Messages to side 1 until the loop does not watch it. Some dozens do, unless this thread is kept
 * from polling for so long in between that the worker's takes over.
 */
static void make_away(struct pair *p)
{
    for (unsigned i = 0; !is_away(&p->side[1]); i++) {
        assert_true(i < 1000000);
        for (unsigned k = 0; k < 40; k++) {
            send_one(&p->side[0], &p->side[1], k);
        }
    }
    assert_false(is_away(&p->side[0])); /* it receives nothing */
}

static void hot__for_long__is_not_watched(void **state)
{
    struct pair p;

    (void)state;
    open_polled(&p);
    for (unsigned i = 0; i < 3; i++) {
        send_one(&p.side[0], &p.side[1], i);
    }
    assert_false(is_away(&p.side[1])); /* so soon it is not */
    make_away(&p);
    pair_close(&p);
}

static void away__and_then_no_polls__the_worker_receives(void **state)
{
    struct pair p;

    (void)state;
    open_polled(&p);
    for (int round = 1; round < 10; round++) {
        const volatile uint8_t *last = p.side[1].p + 99;
        struct iwarp_wc wc;
        make_away(&p);
        memset(p.side[0].p, round, 100);
        pair_write(&p.side[0], 7, 0, 100, &p.side[1], 0);
        for (int i = 0; *last != round; i++) {
            assert_true(i < PATIENCE_MS);
            usleep(1000);
        }
        while (iwarp_cq_poll(p.side[0].send_cq, &wc, 1) == 0) {
        }
        memset(p.side[0].p, 0, 100);
    }
    pair_close(&p);
}

struct later {
    struct pair *pair;
    useconds_t delay;
};

static void *send_later(void *arg)
{
    const struct later *later = arg;

    usleep(later->delay);
    pair_send(&later->pair->side[0], 9, 0, 100);
    return NULL;
}

/* Asleep before it comes, or just about to sleep. */
static void away__and_then_a_wait__is_woken(void **state)
{
    struct later later;
    pthread_t thread;
    struct pair p;

    (void)state;
    open_polled(&p);
    later.pair = &p;
    for (unsigned round = 0; round < 20; round++) {
        make_away(&p);
        pair_recv(&p.side[1], 9, 0, 100);
        later.delay = round % 2 ? 5000 : 10 * round;
        assert_int_equal(pthread_create(&thread, NULL, send_later, &later), 0);
        pair_wc(p.side[1].recv_cq, 9, IWARP_WC_SUCCESS);
        pair_wc(p.side[0].send_cq, 9, IWARP_WC_SUCCESS);
        pthread_join(thread, NULL);
    }
    pair_close(&p);
}

static void away__while_another_receives__is_watched(void **state)
{
    struct pair p;

    (void)state;
    open_polled(&p);
    for (unsigned round = 0; round < 5; round++) {
        make_away(&p);
        send_one(&p.side[1], &p.side[0], 1); /* found although its turn comes seldom now */
        assert_false(is_away(&p.side[1]));
        for (unsigned i = 0; i < 200; i++) {
            send_one(&p.side[i % 2], &p.side[1 - i % 2], i);
        }
        assert_false(is_away(&p.side[0])); /* by turns nobody is hot */
        assert_false(is_away(&p.side[1]));
    }
    pair_close(&p);
}

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A message for side 0: how many polls until it is there. *steady: the worker's had no chance. */
static unsigned polls_for_the_other(struct pair *p, bool *steady)
{
    struct iwarp_wc wc;
    unsigned polls = 0;
    double before, gap = 0;

    make_away(p);
    pair_recv(&p->side[0], 5, 0, 100);
    pthread_mutex_lock(&p->side[0].conn->worker->loop.lease.run);
    p->side[0].conn->worker->loop.hot.direct = 0;
    pthread_mutex_unlock(&p->side[0].conn->worker->loop.lease.run);
    pair_send(&p->side[1], 5, 0, 100);
    do {
        before = now_ms();
        usleep(1200);
        polls++;
        gap = now_ms() - before > gap ? now_ms() - before : gap;
    } while (iwarp_cq_poll(p->side[0].recv_cq, &wc, 1) == 0);
    *steady = gap < 1.9;
    while (iwarp_cq_poll(p->side[1].send_cq, &wc, 1) == 0) {
    }
    return polls;
}

/* Often enough that the worker's thread stays back, but not as often as eight polls are soon. */
static void away__and_polled_seldom__others_do_not_wait(void **state)
{
    unsigned steady = 0, late = 0;
    struct pair p;

    (void)state;
    open_polled(&p);
    for (unsigned i = 0; i < 60 && steady < 20; i++) {
        bool counts;
        unsigned polls = polls_for_the_other(&p, &counts);
        steady += counts;
        late += counts && polls > 5;
    }
    print_message("# late in %u of %u rounds\n", late, steady);
    assert_true(steady == 0 || late < steady);
    pair_close(&p);
}

/* More than the sockets take: a sender that waits for room has to be watched, and the poster kicks
 * it. */
static void away__and_sending_much__goes_on(void **state)
{
    enum { WRITES = 32 };
    struct pair p;
    struct iwarp_wc wc;

    (void)state;
    open_polled(&p);
    for (unsigned round = 0; round < 3; round++) {
        make_away(&p);
        pair_fill(p.side[1].p, MEMORY, round);
        for (unsigned i = 0; i < WRITES; i++) {
            pair_write(&p.side[1], i, 0, MEMORY, &p.side[0], 0);
        }
        for (unsigned done = 0; done < WRITES;) {
            int n = iwarp_cq_poll(p.side[1].send_cq, &wc, 1);
            assert_true(n >= 0);
            assert_true(n == 0 || wc.status == IWARP_WC_SUCCESS);
            done += (unsigned)n;
        }
        send_one(&p.side[1], &p.side[0], 1); /* behind all of it */
        assert_memory_equal(p.side[0].p + 100, p.side[1].p + 100, MEMORY - 100);
    }
    pair_close(&p);
}

/* The peer's FIN, this end's own, and memory that is let go of: with and without polls. */
static void away__and_then_the_end__is_told(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 4; round++) {
        struct pair p;
        open_polled(&p);
        make_away(&p);
        must(iwarp_disconnect(p.side[round % 2].conn));
        if (round < 2) { /* by polling alone */
            struct iwarp_wc wc;
            while (iwarp_qp_state(p.side[1].qp) != IWARP_QP_ERROR) {
                assert_int_equal(iwarp_cq_poll(p.side[1].recv_cq, &wc, 1), 0);
            }
        }
        must(iwarp_conn_wait_end(p.side[0].conn, PATIENCE_MS));
        must(iwarp_conn_wait_end(p.side[1].conn, PATIENCE_MS));
        pair_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hot__for_long__is_not_watched),
        cmocka_unit_test(away__and_then_no_polls__the_worker_receives),
        cmocka_unit_test(away__and_then_a_wait__is_woken),
        cmocka_unit_test(away__while_another_receives__is_watched),
        cmocka_unit_test(away__and_polled_seldom__others_do_not_wait),
        cmocka_unit_test(away__and_sending_much__goes_on),
        cmocka_unit_test(away__and_then_the_end__is_told),
    };
    unsetenv("TEST_PROGRESS");
    unsetenv("IWARP_PROGRESS");
    return cmocka_run_group_tests_name("hot", tests, NULL, NULL);
}
