/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: options and their bounds, states, one connection in a life, destruction.
 */
#include "alloc_fault.h"
#include "verbs_pair.h"

#include <pthread.h>
#include <unistd.h>

struct misuse {
    const char *part;
    unsigned max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
};

static void create__with_impossible_options__is_misuse(void **state)
{
    static const struct misuse cases[] = {
        {"max_send_wr 0", 0, 1, 1, 1, 0},         {"max_send_wr 65537", 65537, 1, 1, 1, 0},
        {"max_recv_wr 65537", 1, 65537, 1, 1, 0}, {"0 and 1 SGEs", 1, 1, 0, 1, 0},
        {"1 and 0 SGEs", 1, 1, 1, 0, 0},          {"33 and 1 SGEs", 1, 1, 33, 1, 0},
        {"1 and 33 SGEs", 1, 1, 1, 33, 0},        {"max_inline 1025", 1, 1, 1, 1, 1025},
    };
    struct pair_options o;
    struct iwarp_qp *qp = NULL;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    struct pair_side *s = &p.side[0];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct iwarp_qp_options q = {.size = sizeof q,
                                     .send_cq = s->send_cq,
                                     .recv_cq = s->recv_cq,
                                     .max_send_wr = cases[i].max_send_wr,
                                     .max_recv_wr = cases[i].max_recv_wr,
                                     .max_send_sge = cases[i].max_send_sge,
                                     .max_recv_sge = cases[i].max_recv_sge,
                                     .max_inline = cases[i].max_inline};
        must_fail(iwarp_qp_create(s->pd, &q, &qp), IWARP_MISUSE, cases[i].part);
    }
    must_fail(iwarp_qp_create(s->pd, NULL, &qp), IWARP_MISUSE, "iwarp_qp_options_init");
    struct iwarp_qp_options q = {.size = 8};
    must_fail(iwarp_qp_create(s->pd, &q, &qp), IWARP_MISUSE, "iwarp_qp_options_init");
    must_fail(iwarp_qp_create(s->pd, &q, &qp), IWARP_MISUSE, "size is 8, expected");
    iwarp_qp_options_init(&q);
    must_fail(iwarp_qp_create(NULL, &q, &qp), IWARP_MISUSE, "protection domain");
    struct iwarp_qp_options local = q;
    local.send_cq = local.recv_cq = s->send_cq;
    local.access |= IWARP_ACCESS_LOCAL_WRITE;
    must_fail(iwarp_qp_create(s->pd, &local, &qp), IWARP_MISUSE, "access 0x1f");
    must_fail(iwarp_qp_create(s->pd, &q, &qp), IWARP_MISUSE, "send_cq");
    q.send_cq = s->send_cq;
    must_fail(iwarp_qp_create(s->pd, &q, &qp), IWARP_MISUSE, "recv_cq");
    assert_null(qp);
    pair_close(&p);
}

static void create__with_queues_of_another_device__is_misuse(void **state)
{
    struct pair_options o;
    struct iwarp_qp_options q;
    struct iwarp_qp *qp;
    struct pair a, b;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&a, &o);
    pair_prepare(&b, &o);
    iwarp_qp_options_init(&q);
    q.send_cq = a.side[0].send_cq;
    q.recv_cq = b.side[0].recv_cq;
    must_fail(iwarp_qp_create(a.side[0].pd, &q, &qp), IWARP_MISUSE, "same device");
    must_fail(iwarp_qp_create(b.side[0].pd, &q, &qp), IWARP_MISUSE, "same device");
    must_fail(iwarp_connect_pair(a.side[0].qp, b.side[0].qp, NULL, NULL, &a.side[0].conn,
                                 &b.side[0].conn),
              IWARP_MISUSE, "one device");
    must_fail(iwarp_connect_pair(a.side[0].qp, a.side[0].qp, NULL, NULL, &a.side[0].conn,
                                 &b.side[0].conn),
              IWARP_MISUSE, "two IDLE");
    must_fail(iwarp_connect_pair(a.side[0].qp, a.side[1].qp, NULL, b.eq[0], &a.side[0].conn,
                                 &a.side[1].conn),
              IWARP_MISUSE, "different devices");
    pair_close(&a);
    pair_close(&b);
}

static void create__without_memory__leaves_nothing(void **state)
{
    struct pair_options o;
    struct iwarp_qp_options q;
    struct iwarp_qp *qp;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    q = o.qp;
    q.send_cq = q.recv_cq = p.side[0].send_cq;
    for (unsigned i = 1; i <= 3; i++) {
        alloc_fault_at(i);
        must_fail(iwarp_qp_create(p.side[0].pd, &q, &qp), IWARP_NO_MEMORY, "queue pair");
        alloc_fault_at(0);
    }
    pair_close(&p); /* PD and queues are free to go */
}

static void create__at_the_bounds__works(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.qp.max_send_wr = o.qp.max_recv_wr = 65536;
    o.qp.max_send_sge = o.qp.max_recv_sge = 32;
    o.qp.max_inline = 1024;
    pair_prepare(&p, &o);
    assert_int_equal(iwarp_qp_state(p.side[0].qp), IWARP_QP_IDLE);
    assert_null(iwarp_qp_fault(p.side[0].qp));
    assert_ptr_equal(iwarp_qp_user(p.side[0].qp), &p.side[0]);
    assert_int_not_equal(iwarp_qp_num(p.side[0].qp), iwarp_qp_num(p.side[1].qp));
    must_fail(iwarp_pd_destroy(p.side[0].pd), IWARP_MISUSE,
              "2 regions, windows, queue pairs and SRQs");
    pair_connect(&p);
    assert_int_equal(iwarp_qp_state(p.side[0].qp), IWARP_QP_RTS);
    assert_int_equal(iwarp_qp_state(p.side[1].qp), IWARP_QP_RTS);
    pair_close(&p);
}

/* One life, one connection: neither while it is connected nor afterwards. */
static void connect__a_second_time__is_misuse(void **state)
{
    struct iwarp_conn *conn[2] = {NULL, NULL};
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    pair_open(&p, &o);
    struct sockaddr_storage addr;
    socklen_t len;
    must(iwarp_listener_addr(p.listener, &addr, &len));
    for (int i = 0; i < 2; i++) {
        must_fail(iwarp_connect(p.side[0].qp, (struct sockaddr *)&addr, len, NULL, NULL, 0, NULL,
                                NULL, &conn[0]),
                  IWARP_MISUSE, "before");
        must_fail(iwarp_connect_pair(p.side[0].qp, p.side[1].qp, NULL, NULL, &conn[0], &conn[1]),
                  IWARP_MISUSE, "IDLE");
        must(iwarp_abort(p.side[0].conn));
        must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    }
    assert_null(conn[0]);
    pair_close(&p);
}

/* What was there for a queue pair that is destroyed is not polled afterwards. */
static void destroy__with_completions_waiting__discards_them(void **state)
{
    struct pair_options o;
    struct iwarp_cq *cq;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    pair_prepare(&p, &o);
    must(iwarp_cq_create(p.device, 64, NULL, &cq));
    for (int i = 0; i < 2; i++) { /* one queue for both sides */
        struct iwarp_qp_options q = o.qp;
        must(iwarp_qp_destroy(p.side[i].qp));
        q.send_cq = q.recv_cq = cq;
        must(iwarp_qp_create(p.side[i].pd, &q, &p.side[i].qp));
    }
    pair_connect(&p);
    struct iwarp_wc wc;
    for (uint64_t i = 0; i < 5; i++) {
        pair_recv(&p.side[1], 100 + i, 0, 8);
        pair_send(&p.side[0], i, 0, 8);
    }
    must(iwarp_disconnect(p.side[0].conn));
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
    must(iwarp_qp_destroy(p.side[0].qp));
    p.side[0].qp = NULL;
    for (uint64_t i = 0; i < 5; i++) {
        assert_int_equal(iwarp_cq_poll(cq, &wc, 1), 1);
        assert_ptr_equal(wc.qp, p.side[1].qp);
        assert_int_equal(wc.wr_id, 100 + i);
    }
    pair_no_wc(cq);
    must(iwarp_qp_destroy(p.side[1].qp));
    p.side[1].qp = NULL;
    must(iwarp_cq_destroy(cq));
    pair_close(&p);
}

static void destroy__with_completions_in_two_queues__discards_them_in_both(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    pair_open(&p, &o);
    pair_recv(&p.side[1], 100, 0, 8);
    pair_recv(&p.side[0], 101, 0, 8); /* flushed */
    pair_send(&p.side[0], 1, 0, 8);
    must(iwarp_disconnect(p.side[0].conn));
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
    for (int i = 0; i < 2; i++) {
        assert_ptr_not_equal(p.side[i].send_cq, p.side[i].recv_cq);
        must(iwarp_qp_destroy(p.side[i].qp));
        p.side[i].qp = NULL;
        pair_no_wc(p.side[i].send_cq);
        pair_no_wc(p.side[i].recv_cq);
    }
    pair_close(&p);
}

static void *destroy_when_done(void *arg)
{
    struct pair_side *side = arg;
    struct iwarp_wc wc;

    if (iwarp_cq_wait(side->send_cq, &wc, 1, PAIR_WAIT_MS) == 1 &&
        iwarp_qp_destroy(side->qp) == IWARP_OK) {
        side->qp = NULL;
    }
    return NULL;
}

/* The poster may not be back from its call when another thread has its completion; for ASan. */
static void destroy__by_who_takes_the_last_completion__lets_the_poster_out(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    for (int i = 0; i < 100; i++) {
        pair_options_init(&o, i % 2 ? PAIR_TCP4 : PAIR_MEMORY);
        pair_open(&p, &o);
        struct pair_side *side = &p.side[0];
        struct iwarp_sge sge = pair_sge(side, 0, 8);
        struct iwarp_send_wr wr = pair_wr(IWARP_WR_WRITE, 5, &sge);
        pthread_t thread;

        wr.remote_stag = iwarp_mr_stag(p.side[1].mr);
        wr.remote_to = (uintptr_t)p.side[1].p;
        assert_int_equal(pthread_create(&thread, NULL, destroy_when_done, side), 0);
        usleep(1000); /* it sleeps */
        must(iwarp_post_send(side->qp, &wr, NULL));
        pthread_join(thread, NULL);
        assert_null(side->qp);
        pair_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create__with_impossible_options__is_misuse),
        cmocka_unit_test(create__with_queues_of_another_device__is_misuse),
        cmocka_unit_test(create__without_memory__leaves_nothing),
        cmocka_unit_test(create__at_the_bounds__works),
        cmocka_unit_test(connect__a_second_time__is_misuse),
        cmocka_unit_test(destroy__with_completions_waiting__discards_them),
        cmocka_unit_test(destroy__with_completions_in_two_queues__discards_them_in_both),
        cmocka_unit_test(destroy__by_who_takes_the_last_completion__lets_the_poster_out),
    };

    return cmocka_run_group_tests_name("qp", tests, NULL, NULL);
}
