/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads: posting to one queue pair, polling one completion queue, waiting, destroying what
 * others do not use, several workers. Threads report to the test in variables; it alone asserts.
 */
#include "alloc_fault.h"
#include "octets.h"
#include "progress.h"
#include "seconds.h"
#include "verbs_pair.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define POSTERS  4u
#define MESSAGES 1500u /* of each poster */
#define ALL      (POSTERS * MESSAGES)

static void start(pthread_t *thread, void *(*fn)(void *arg), void *arg)
{
    assert_int_equal(pthread_create(thread, NULL, fn, arg), 0);
}

/* --- several threads post to one queue pair -------------------------------------------------- */

struct poster {
    pthread_t thread;
    struct pair_side *side;
    uint32_t number;
    enum iwarp_status status;
};

/* Inline Sends that say who sent them and how many before. */
static void *post_messages(void *arg)
{
    struct poster *me = arg;
    time_t end = seconds_now() + 60;

    for (uint32_t i = 0; i < MESSAGES && seconds_now() < end;) {
        uint32_t text[2] = {me->number, i};
        struct iwarp_sge sge = {text, sizeof text, 0};
        struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, me->number, &sge);
        wr.flags |= IWARP_WR_INLINE;
        me->status = iwarp_post_send(me->side->qp, &wr, NULL);
        if (me->status == IWARP_OK) {
            i++;
        } else if (me->status == IWARP_AGAIN) {
            sched_yield();
        } else {
            return NULL;
        }
    }
    return NULL;
}

struct poller {
    pthread_t thread;
    struct iwarp_cq *cq;
    unsigned expected;
    unsigned good, bad;
};

static void *poll_until_expected(void *arg)
{
    struct poller *me = arg;
    struct iwarp_wc wc[16];

    for (time_t end = seconds_now() + 60; me->good < me->expected && seconds_now() < end;) {
        int n = iwarp_cq_poll(me->cq, wc, 16);
        for (int i = 0; i < n; i++) {
            *(wc[i].status == IWARP_WC_SUCCESS ? &me->good : &me->bad) += 1;
        }
        if (n <= 0) {
            sched_yield();
        }
    }
    return NULL;
}

/* Take all messages; of each poster they come in order. */
static void receive_messages(struct pair_side *side)
{
    uint32_t next[POSTERS] = {0};

    for (unsigned i = 0; i < ALL; i++) {
        struct iwarp_wc wc = pair_wc(side->recv_cq, i, IWARP_WC_SUCCESS);
        uint32_t text[2];
        assert_int_equal(wc.byte_len, sizeof text);
        memcpy(text, side->p + (size_t)i * sizeof text, sizeof text);
        assert_true(text[0] < POSTERS);
        assert_int_equal(text[1], next[text[0]]);
        next[text[0]]++;
    }
}

/* A message that no receive waits for ends the stream (RFC 5041 7.1): all are posted before. */
static void try_posters(enum pair_transport transport)
{
    struct poster poster[POSTERS];
    struct poller poller = {.expected = ALL};
    struct pair_options o;
    struct pair p;

    pair_options_init(&o, transport);
    o.device.workers = 2;
    o.qp.max_send_wr = 32;
    o.qp.max_recv_wr = ALL;
    o.cq_entries = ALL;
    pair_prepare(&p, &o);
    for (unsigned i = 0; i < ALL; i++) {
        pair_recv(&p.side[1], i, (size_t)i * 8, 8);
    }
    pair_connect(&p);
    for (uint32_t i = 0; i < POSTERS; i++) {
        poster[i] = (struct poster){.side = &p.side[0], .number = i};
        start(&poster[i].thread, post_messages, &poster[i]);
    }
    poller.cq = p.side[0].send_cq;
    start(&poller.thread, poll_until_expected, &poller);
    receive_messages(&p.side[1]);
    for (unsigned i = 0; i < POSTERS; i++) {
        pthread_join(poster[i].thread, NULL);
        assert_int_equal(poster[i].status, IWARP_OK);
    }
    pthread_join(poller.thread, NULL);
    assert_int_equal(poller.good, ALL);
    assert_int_equal(poller.bad, 0);
    pair_close(&p);
}

static void post__by_several_threads__keeps_the_order_of_each(void **state)
{
    (void)state;
    try_posters(PAIR_MEMORY);
    try_posters(PAIR_TCP4);
}

/* --- waiting beside posting ------------------------------------------------------------------ */

struct waiter {
    pthread_t thread;
    struct iwarp_conn *conn;
    _Atomic bool stop;
};

static void *ask_all_the_time(void *arg)
{
    struct waiter *me = arg;
    struct iwarp_conn_info info = {.size = sizeof info};
    struct sockaddr_storage addr;
    socklen_t len;
    size_t pd_len;

    while (!atomic_load(&me->stop)) {
        (void)iwarp_conn_wait_end(me->conn, 1);
        (void)iwarp_conn_info(me->conn, &info);
        (void)iwarp_conn_fault(me->conn);
        (void)iwarp_conn_private_data(me->conn, &pd_len);
        (void)iwarp_conn_peer_addr(me->conn, &addr, &len);
        (void)iwarp_qp_fault(iwarp_conn_qp(me->conn));
    }
    return NULL;
}

/* Each message waits for the one before: one that is left undone would stop it all. */
static void post__beside_threads_that_wait_and_ask__leaves_nothing_undone(void **state)
{
    struct pair_options o;
    struct waiter waiter[2];
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    pair_open(&p, &o);
    for (int i = 0; i < 2; i++) {
        waiter[i] = (struct waiter){.conn = p.side[i].conn};
        start(&waiter[i].thread, ask_all_the_time, &waiter[i]);
    }
    for (uint64_t i = 0; i < 2000; i++) {
        struct pair_side *from = &p.side[i % 2], *to = &p.side[1 - i % 2];
        pair_recv(to, i, 0, 8);
        pair_send(from, i, 8, 8);
        pair_wc(to->recv_cq, i, IWARP_WC_SUCCESS);
        pair_wc(from->send_cq, i, IWARP_WC_SUCCESS);
    }
    for (int i = 0; i < 2; i++) {
        atomic_store(&waiter[i].stop, true);
        pthread_join(waiter[i].thread, NULL);
    }
    pair_close(&p);
}

/* --- many queue pairs, one completion queue, several workers --------------------------------- */

#define PAIRS 8u
#define ROUND 40u

struct crowd {
    struct pair p; /* its sides lend their protection domains and memory */
    struct iwarp_cq *cq;
    struct iwarp_qp *qp[2 * PAIRS]; /* 2i is connected with 2i + 1 */
    struct iwarp_conn *conn[2 * PAIRS];
};

static void crowd_open(struct crowd *c)
{
    struct iwarp_qp_options qp;
    struct pair_options o;

    pair_options_init(&o, PAIR_TCP4);
    o.device.workers = 4;
    o.memory = 2 * PAIRS * ROUND * 1000;
    pair_prepare(&c->p, &o);
    must(iwarp_cq_create(c->p.device, 4 * PAIRS * ROUND, NULL, &c->cq));
    iwarp_qp_options_init(&qp);
    qp.send_cq = qp.recv_cq = c->cq;
    for (unsigned i = 0; i < 2 * PAIRS; i++) {
        qp.user = &c->qp[i];
        must(iwarp_qp_create(c->p.side[i % 2].pd, &qp, &c->qp[i]));
    }
    for (unsigned i = 0; i < 2 * PAIRS; i += 2) {
        struct sockaddr_storage addr;
        socklen_t len;
        if (i % 4) {
            must(iwarp_connect_pair(c->qp[i], c->qp[i + 1], NULL, NULL, &c->conn[i],
                                    &c->conn[i + 1]));
        } else {
            must(iwarp_listener_addr(c->p.listener, &addr, &len));
            must(iwarp_connect(c->qp[i], (struct sockaddr *)&addr, len, NULL, NULL, 0, NULL, NULL,
                               &c->conn[i]));
            c->conn[i + 1] = pair_event(c->p.eq[1], IWARP_EVENT_REQUEST).conn;
            must(iwarp_accept(c->conn[i + 1], c->qp[i + 1], NULL, NULL, 0, NULL));
            pair_event(c->p.eq[1], IWARP_EVENT_ESTABLISHED);
        }
        must(iwarp_conn_wait(c->conn[i], PAIR_WAIT_MS));
        must(iwarp_conn_wait(c->conn[i + 1], PAIR_WAIT_MS));
    }
}

static void crowd_close(struct crowd *c)
{
    for (unsigned i = 0; i < 2 * PAIRS; i++) {
        if (i % 3) {
            must(iwarp_conn_destroy(c->conn[i]));
        }
        must(iwarp_qp_destroy(c->qp[i]));
        if (i % 3 == 0) {
            must(iwarp_conn_destroy(c->conn[i]));
        }
    }
    must(iwarp_cq_destroy(c->cq));
    pair_close(&c->p);
}

/* Both directions of all at once. Completions of a queue pair and kind are in order. */
static void transfer__of_many_queue_pairs_into_one_queue__completes_in_order(void **state)
{
    uint64_t next[2 * PAIRS][2] = {{0}};
    struct crowd c;
    struct iwarp_wc wc;

    (void)state;
    memset(&c, 0, sizeof c);
    crowd_open(&c);
    pair_fill(c.p.side[0].p, c.p.options.memory, 1);
    pair_fill(c.p.side[1].p, c.p.options.memory, 1);
    for (unsigned k = 0; k < ROUND; k++) {
        for (unsigned i = 0; i < 2 * PAIRS; i++) {
            struct pair_side side = c.p.side[i % 2];
            side.qp = c.qp[i];
            pair_recv(&side, k, (i * ROUND + k) * 1000, 1000);
        }
    }
    for (unsigned k = 0; k < ROUND; k++) {
        for (unsigned i = 0; i < 2 * PAIRS; i++) {
            struct pair_side side = c.p.side[i % 2];
            side.qp = c.qp[i];
            pair_send(&side, k, ((i ^ 1) * ROUND + k) * 1000, 1000);
        }
    }
    for (unsigned k = 0; k < 4 * PAIRS * ROUND; k++) {
        assert_int_equal(iwarp_cq_wait(c.cq, &wc, 1, PAIR_WAIT_MS), 1);
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
        struct iwarp_qp **of = iwarp_qp_user(wc.qp);
        assert_int_equal(wc.wr_id, next[of - c.qp][wc.opcode == IWARP_WC_RECV]++);
    }
    assert_memory_equal(c.p.side[0].p, c.p.side[1].p, c.p.options.memory);
    crowd_close(&c);
}

/* --- polling beside destroying --------------------------------------------------------------- */

struct endless {
    pthread_t thread;
    struct iwarp_cq *cq;
    _Atomic bool stop;
    _Atomic unsigned seen;
};

static void *poll_until_told(void *arg)
{
    struct endless *me = arg;
    struct iwarp_wc wc[4];

    while (!atomic_load(&me->stop)) {
        int n = iwarp_cq_wait(me->cq, wc, 4, 5);
        atomic_fetch_add(&me->seen, n > 0 ? (unsigned)n : 0);
    }
    return NULL;
}

/* The poller touches the queue only, never the queue pairs that come and go. */
static void destroy__of_queue_pairs_beside_a_poller__is_safe(void **state)
{
    struct endless endless = {.stop = false};
    struct pair_options o;
    unsigned seen = 0;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.device.workers = 2;
    pair_prepare(&p, &o);
    endless.cq = p.side[0].send_cq;
    start(&endless.thread, poll_until_told, &endless);
    for (unsigned i = 0; i < 200; i++) {
        struct iwarp_qp_options qp = o.qp;
        struct pair_side side[2] = {p.side[0], p.side[1]};
        qp.send_cq = qp.recv_cq = endless.cq;
        must(iwarp_qp_create(p.side[0].pd, &qp, &side[0].qp));
        must(iwarp_qp_create(p.side[1].pd, &qp, &side[1].qp));
        must(iwarp_connect_pair(side[0].qp, side[1].qp, NULL, NULL, &side[0].conn, &side[1].conn));
        must(iwarp_conn_wait(side[0].conn, PAIR_WAIT_MS));
        must(iwarp_conn_wait(side[1].conn, PAIR_WAIT_MS));
        for (uint64_t k = 0; k < 8; k++) {
            pair_recv(&side[1], k, 0, 4096);
            pair_send(&side[0], k, 0, 4096);
        }
        /* What is destroyed takes its completions along: now and then the poller has its turn. */
        for (unsigned ms = 0; i % 50 == 0 && atomic_load(&endless.seen) == seen; ms++) {
            assert_true(ms < PAIR_WAIT_MS);
            usleep(1000);
        }
        seen = atomic_load(&endless.seen);
        for (int k = 0; k < 2; k++) {
            must(iwarp_qp_destroy(side[(i + (unsigned)k) % 2].qp));
            must(iwarp_conn_destroy(side[(i + (unsigned)k) % 2].conn));
        }
    }
    atomic_store(&endless.stop, true);
    pthread_join(endless.thread, NULL);
    pair_close(&p);
}

/* --- posting beside the end ------------------------------------------------------------------ */

struct late {
    pthread_t thread;
    struct pair_side *side;
    unsigned posted[2];
};

/* Posts to the very end and behind it. */
static void *post_on(void *arg)
{
    struct late *me = arg;
    const struct iwarp_recv_wr recv = {.wr_id = 7};
    const struct iwarp_send_wr send = {.wr_id = 8, .flags = IWARP_WR_SIGNALED};

    for (unsigned i = 0; i < 300; i++) {
        me->posted[0] += iwarp_post_send(me->side->qp, &send, NULL) == IWARP_OK;
        me->posted[1] += iwarp_post_recv(me->side->qp, &recv, NULL) == IWARP_OK;
    }
    return NULL;
}

static unsigned count_wc(struct iwarp_cq *cq, unsigned expected)
{
    struct iwarp_wc wc;
    unsigned n = 0;

    while (n < expected && iwarp_cq_wait(cq, &wc, 1, PAIR_WAIT_MS) == 1) {
        n++;
    }
    return n + (unsigned)iwarp_cq_poll(cq, &wc, 1);
}

/* Every request that was accepted completes exactly once, whenever the end came. */
/* [VERBS-8.2.4-01] */
static void post__beside_an_abort__completes_everything_once(void **state)
{
    struct chance chance = {chance_seed()};

    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        struct pair_options o;
        struct late late[2];
        struct pair p;
        pair_options_init(&o, i % 2 ? PAIR_TCP4 : PAIR_MEMORY);
        o.qp.max_send_wr = o.qp.max_recv_wr = 1000;
        pair_open(&p, &o);
        for (int k = 0; k < 2; k++) {
            late[k] = (struct late){.side = &p.side[k]};
            start(&late[k].thread, post_on, &late[k]);
        }
        for (size_t n = chance_below(&chance, 20); n > 0; n--) {
            sched_yield();
        }
        must(i % 4 < 2 ? iwarp_abort(p.side[0].conn) : iwarp_disconnect(p.side[0].conn));
        for (int k = 0; k < 2; k++) {
            pthread_join(late[k].thread, NULL);
        }
        must(iwarp_abort(p.side[0].conn));
        for (int k = 0; k < 2; k++) {
            must(iwarp_conn_wait_end(p.side[k].conn, PAIR_WAIT_MS));
            assert_int_equal(count_wc(p.side[k].send_cq, late[k].posted[0]), late[k].posted[0]);
            assert_int_equal(count_wc(p.side[k].recv_cq, late[k].posted[1]), late[k].posted[1]);
        }
        pair_close(&p);
    }
}

/* --- posting beside what gives a queue pair its connection, and takes it away ----------------- */

struct tireless {
    pthread_t thread;
    struct pair_side *side;
    _Atomic bool stop;
    _Atomic unsigned posted;
    enum iwarp_status strange; /* neither OK nor AGAIN */
};

/* Posts zero-length Writes all the time, and keeps its queue empty. */
static void *post_tirelessly(void *arg)
{
    struct tireless *me = arg;
    const struct iwarp_send_wr wr = {.opcode = IWARP_WR_WRITE, .flags = IWARP_WR_SIGNALED};
    const struct iwarp_recv_wr recv = {.wr_id = 1};
    struct iwarp_wc wc[8];

    while (!atomic_load(&me->stop)) {
        enum iwarp_status status = iwarp_post_send(me->side->qp, &wr, NULL);
        me->posted += status == IWARP_OK;
        me->strange = status == IWARP_OK || status == IWARP_AGAIN ? me->strange : status;
        (void)iwarp_post_recv(me->side->qp, &recv, NULL);
        while (iwarp_cq_poll(me->side->send_cq, wc, 8) > 0 ||
               iwarp_cq_poll(me->side->recv_cq, wc, 8) > 0) {
        }
        sched_yield();
    }
    return NULL;
}

#define TIRELESS 2

static void tireless_start(struct tireless *t, struct pair *p)
{
    for (int i = 0; i < TIRELESS; i++) {
        t[i] = (struct tireless){.side = &p->side[0], .strange = IWARP_OK};
        start(&t[i].thread, post_tirelessly, &t[i]);
    }
    for (time_t end = seconds_now() + 60; t[0].posted + t[1].posted == 0;) {
        assert_true(seconds_now() < end);
        sched_yield();
    }
}

static void tireless_stop(struct tireless *t)
{
    for (int i = 0; i < TIRELESS; i++) {
        atomic_store(&t[i].stop, true);
        pthread_join(t[i].thread, NULL);
        assert_int_equal(t[i].strange, IWARP_OK);
    }
}

static void tcp_ends(int fd[2])
{
    struct sockaddr_storage addr;
    socklen_t len = pair_loopback(PAIR_TCP4, &addr);
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    fd[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd[0], (struct sockaddr *)&addr, len), 0);
    fd[1] = accept(listener, NULL, NULL);
    assert_true(fd[1] >= 0);
    close(listener);
}

#define FAILING 1500
#define ADOPTS  4 /* the allocation of adopting a socket with octets that were read already */

/* In memory and over a socket: the connection that did not come about is gone at once. */
static void post__beside_connecting_that_fails__is_safe_and_keeps_the_requests(void **state)
{
    const struct iwarp_qp_changes give_up = {
        .size = sizeof give_up, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_ERROR};
    struct tireless tireless[TIRELESS];
    struct iwarp_qp *responder;
    struct pair_options o;
    struct pair p;
    int fd[2];

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.qp.max_send_wr = 64;
    pair_prepare(&p, &o);
    o.qp.send_cq = o.qp.recv_cq = p.side[1].recv_cq;
    must(iwarp_qp_create(p.side[1].pd, &o.qp, &responder));
    must(iwarp_qp_modify(responder, &give_up));
    tcp_ends(fd);
    tireless_start(tireless, &p);
    for (int i = 0; i < FAILING; i++) {
        struct iwarp_conn *conn[2];
        must_fail(iwarp_connect_pair(p.side[0].qp, responder, NULL, NULL, &conn[0], &conn[1]),
                  IWARP_MISUSE, "state ERROR");
        alloc_fault_anywhere_at(ADOPTS);
        must_fail(
            iwarp_connect_socket(p.side[0].qp, fd[0], "x", 1, NULL, NULL, 0, NULL, NULL, &conn[0]),
            IWARP_NO_MEMORY, "adopting a socket");
        alloc_fault_anywhere_at(0);
    }
    tireless_stop(tireless);
    must(iwarp_qp_destroy(responder));
    assert_int_equal(iwarp_qp_state(p.side[0].qp), IWARP_QP_IDLE);
    pair_connect(&p);
    for (unsigned i = tireless[0].posted + tireless[1].posted; i > 0; i--) {
        pair_wc(p.side[0].send_cq, 0, IWARP_WC_SUCCESS);
    }
    pair_no_wc(p.side[0].send_cq);
    pair_close(&p);
    close(fd[0]);
    close(fd[1]);
}

static void back_to_idle(struct iwarp_qp *qp)
{
    const struct iwarp_qp_changes idle = {
        .size = sizeof idle, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_IDLE};

    for (time_t end = seconds_now() + 60; iwarp_qp_modify(qp, &idle) != IWARP_OK;) {
        assert_non_null(strstr(iwarp_last_error(), "not flushed yet"));
        assert_true(seconds_now() < end);
        sched_yield();
    }
}

/* One after the other, of the same two queue pairs. */
static void post__beside_connections_that_come_and_go__is_safe(void **state)
{
    struct tireless tireless[TIRELESS];
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.qp.max_send_wr = 16;
    o.device.workers = 2;
    pair_prepare(&p, &o);
    tireless_start(tireless, &p);
    for (int i = 0; i < 250; i++) {
        struct iwarp_conn *conn[2];
        must(iwarp_connect_pair(p.side[0].qp, p.side[1].qp, NULL, NULL, &conn[0], &conn[1]));
        if (i % 4) {
            must(iwarp_conn_wait(conn[0], PAIR_WAIT_MS));
        }
        must(iwarp_abort(conn[i % 2]));
        for (int k = 0; k < 2; k++) {
            must(iwarp_conn_wait_end(conn[k], PAIR_WAIT_MS));
            must(iwarp_conn_destroy(conn[k]));
        }
        back_to_idle(p.side[0].qp);
        back_to_idle(p.side[1].qp);
    }
    tireless_stop(tireless);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(post__by_several_threads__keeps_the_order_of_each),
        cmocka_unit_test(post__beside_threads_that_wait_and_ask__leaves_nothing_undone),
        cmocka_unit_test(transfer__of_many_queue_pairs_into_one_queue__completes_in_order),
        cmocka_unit_test(destroy__of_queue_pairs_beside_a_poller__is_safe),
        cmocka_unit_test(post__beside_an_abort__completes_everything_once),
        cmocka_unit_test(post__beside_connecting_that_fails__is_safe_and_keeps_the_requests),
        cmocka_unit_test(post__beside_connections_that_come_and_go__is_safe),
    };

    if (progress_is_embedded()) {
        puts("embedded progress is for one thread");
        return 77;
    }
    return cmocka_run_group_tests_name("pair_threads", tests, NULL, NULL);
}
