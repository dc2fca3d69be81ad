/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls on connections: misuse that says why, waiting with a time
 * limit, and what can be asked at which time.
 */
#include "alloc_fault.h"
#include "loop/clock.h"
#include "verbs/conn.h"
#include "verbs/qp.h"
#include "verbs_pair.h"

#include <netinet/in.h>
#include <stdlib.h>

static void calls__with_null_for_what_is_needed__are_misuse(void **state)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    const struct sockaddr *to = (struct sockaddr *)&in;
    struct iwarp_conn *conn = NULL, *other = NULL;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    struct iwarp_qp *qp = p.side[0].qp;
    must_fail(iwarp_connect(NULL, to, sizeof in, NULL, NULL, 0, NULL, NULL, &conn), IWARP_MISUSE,
              "queue pair is NULL");
    must_fail(iwarp_connect(qp, NULL, sizeof in, NULL, NULL, 0, NULL, NULL, &conn), IWARP_MISUSE,
              "addr is NULL");
    must_fail(iwarp_connect(qp, to, sizeof in, NULL, NULL, 1, NULL, NULL, &conn), IWARP_MISUSE,
              "private_data is NULL");
    must_fail(iwarp_connect(qp, to, sizeof in, NULL, NULL, 0, NULL, NULL, NULL), IWARP_MISUSE,
              "place for the connection is NULL");
    must_fail(iwarp_accept(NULL, qp, NULL, NULL, 0, NULL), IWARP_MISUSE, "connection is NULL");
    must_fail(iwarp_reject(NULL, NULL, 0), IWARP_MISUSE, "connection is NULL");
    must_fail(iwarp_connect_pair(NULL, qp, NULL, NULL, &conn, &other), IWARP_MISUSE, "is NULL");
    must_fail(iwarp_connect_pair(qp, NULL, NULL, NULL, &conn, &other), IWARP_MISUSE, "is NULL");
    must_fail(iwarp_connect_pair(qp, p.side[1].qp, NULL, NULL, NULL, &other), IWARP_MISUSE,
              "is NULL");
    must_fail(iwarp_connect_pair(qp, p.side[1].qp, NULL, NULL, &conn, NULL), IWARP_MISUSE,
              "is NULL");
    assert_null(conn);
    assert_null(other);
    assert_int_equal(iwarp_qp_state(qp), IWARP_QP_IDLE);
    pair_connect(&p); /* nothing of that was remembered */
    pair_close(&p);
}

/* Either of the two may be the wrong one; the other is as it was. */
static void connect_pair__of_one_that_is_in_error__is_misuse(void **state)
{
    const struct iwarp_qp_changes to_error = {
        .size = sizeof to_error, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_ERROR};
    const struct iwarp_qp_changes to_idle = {
        .size = sizeof to_idle, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_IDLE};
    struct iwarp_conn *conn = NULL, *other = NULL;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    for (int i = 0; i < 2; i++) {
        must(iwarp_qp_modify(p.side[i].qp, &to_error));
        must_fail(iwarp_connect_pair(p.side[0].qp, p.side[1].qp, NULL, p.eq[0], &conn, &other),
                  IWARP_MISUSE, "not IDLE");
        assert_null(conn);
        assert_null(other);
        assert_int_equal(iwarp_qp_state(p.side[1 - i].qp), IWARP_QP_IDLE);
        must(iwarp_qp_modify(p.side[i].qp, &to_idle));
    }
    pair_connect(&p);
    pair_close(&p);
}

static void connect__to_an_impossible_address__is_misuse(void **state)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNIX};
    struct iwarp_conn *conn = NULL;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    struct sockaddr *to = (struct sockaddr *)&addr;
    must_fail(iwarp_connect(p.side[0].qp, to, sizeof addr, NULL, NULL, 0, NULL, NULL, &conn),
              IWARP_MISUSE, "family 1");
    addr.ss_family = AF_INET;
    must_fail(iwarp_connect(p.side[0].qp, to, sizeof addr + 1, NULL, NULL, 0, NULL, NULL, &conn),
              IWARP_MISUSE, "129 octets");
    must_fail(iwarp_connect(p.side[0].qp, to, 15, NULL, NULL, 0, NULL, NULL, &conn), IWARP_MISUSE,
              "15 octets, AF_INET has 16");
    must_fail(iwarp_connect(p.side[0].qp, to, 1, NULL, NULL, 0, NULL, NULL, &conn), IWARP_MISUSE,
              "1 octets, expected 16 to 128");
    addr.ss_family = AF_INET6;
    must_fail(iwarp_connect(p.side[0].qp, to, 27, NULL, NULL, 0, NULL, NULL, &conn), IWARP_MISUSE,
              "27 octets, AF_INET6 has 28");
    struct iwarp_conn_options options;
    struct sockaddr_in from = {.sin_family = AF_INET};
    iwarp_conn_options_init(&options);
    options.source = (struct sockaddr *)&from;
    options.source_len = sizeof from;
    must_fail(iwarp_connect(p.side[0].qp, to, 28, &options, NULL, 0, NULL, NULL, &conn),
              IWARP_MISUSE, "source is of address family 2, addr of 10");
    assert_null(conn);
    /* What the system does not like is no misuse: the connection fails. */
    struct sockaddr_in all = {.sin_family = AF_INET, .sin_addr = {INADDR_BROADCAST}};
    must(iwarp_connect(p.side[0].qp, (struct sockaddr *)&all, sizeof all, NULL, NULL, 0, p.eq[0],
                       NULL, &conn));
    p.side[0].conn = conn;
    assert_int_equal(pair_event(p.eq[0], IWARP_EVENT_FAILED).status, IWARP_TRANSPORT);
    pair_close(&p);
}

/* Each allocation fails in turn; the queue pair can be connected afterwards. */
static void connect__without_memory__leaves_the_queue_pairs_alone(void **state)
{
    struct iwarp_conn *conn[2];
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    for (unsigned i = 1; i <= 7; i++) { /* two connections, two for the Request, three the pair */
        alloc_fault_at(i);
        enum iwarp_status status =
            iwarp_connect_pair(p.side[0].qp, p.side[1].qp, NULL, p.eq[0], &conn[0], &conn[1]);
        assert_true(alloc_fault_count() >= i);
        alloc_fault_at(0);
        assert_int_equal(status, IWARP_NO_MEMORY);
        assert_non_null(strstr(iwarp_last_error(), "no memory"));
    }
    must(iwarp_eq_destroy(p.eq[0])); /* not counted for what never was */
    must(iwarp_eq_create(p.device, &p.eq[0]));
    pair_connect(&p);
    pair_close(&p);
}

static void accept__out_of_order__is_misuse(void **state)
{
    struct sockaddr_storage addr;
    struct pair_options o;
    struct pair p, other;
    struct iwarp_listener *listener;
    char taken[64];
    socklen_t len;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    pair_prepare(&p, &o);
    pair_prepare(&other, &o);
    must(iwarp_listener_addr(p.listener, &addr, &len));
    snprintf(taken, sizeof taken, "127.0.0.1:%u: Address already in use",
             ntohs(((struct sockaddr_in *)(void *)&addr)->sin_port));
    must_fail(
        iwarp_listen(p.device, (struct sockaddr *)&addr, len, NULL, 1, p.eq[1], NULL, &listener),
        IWARP_TRANSPORT, taken);
    must(iwarp_connect(p.side[0].qp, (struct sockaddr *)&addr, len, NULL, NULL, 0, NULL, NULL,
                       &p.side[0].conn));
    struct iwarp_conn *conn = p.side[1].conn = pair_event(p.eq[1], IWARP_EVENT_REQUEST).conn;
    must_fail(iwarp_accept(p.side[0].conn, p.side[1].qp, NULL, NULL, 0, NULL), IWARP_MISUSE,
              "answer");
    must_fail(iwarp_reject(p.side[0].conn, NULL, 0), IWARP_MISUSE, "answer");
    must_fail(iwarp_accept(conn, NULL, NULL, NULL, 0, NULL), IWARP_MISUSE, "queue pair");
    must_fail(iwarp_accept(conn, p.side[0].qp, NULL, NULL, 0, NULL), IWARP_MISUSE,
              "connected before");
    must_fail(iwarp_accept(conn, other.side[0].qp, NULL, NULL, 0, NULL), IWARP_MISUSE,
              "different devices");
    must_fail(iwarp_accept(conn, p.side[1].qp, NULL, NULL, 3, NULL), IWARP_MISUSE,
              "3 octets of private data, but private_data is NULL");
    must_fail(iwarp_reject(conn, NULL, 3), IWARP_MISUSE, "but private_data is NULL");
    must_fail(iwarp_conn_wait(conn, 20), IWARP_AGAIN, "20 ms");
    must_fail(iwarp_conn_wait(p.side[0].conn, 0), IWARP_AGAIN, "0 ms");
    must(iwarp_accept(conn, p.side[1].qp, NULL, NULL, 0, &p));
    must_fail(iwarp_accept(conn, p.side[1].qp, NULL, NULL, 0, NULL), IWARP_MISUSE, "answer");
    must_fail(iwarp_reject(conn, NULL, 0), IWARP_MISUSE, "answer");
    must(iwarp_conn_wait(p.side[0].conn, PAIR_WAIT_MS));
    assert_ptr_equal(iwarp_conn_user(conn), &p);
    assert_ptr_equal(iwarp_conn_qp(conn), p.side[1].qp);
    pair_close(&other);
    pair_close(&p);
}

static void questions__before_there_is_an_answer__are_misuse(void **state)
{
    struct iwarp_conn_info info = {.size = 4};
    struct sockaddr_storage addr;
    struct pair_options o;
    struct pair p;
    socklen_t len;
    size_t pd_len = 7;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_open(&p, &o);
    must_fail(iwarp_conn_info(p.side[0].conn, &info), IWARP_MISUSE, "size");
    must_fail(iwarp_conn_peer_addr(p.side[0].conn, &addr, &len), IWARP_MISUSE, "address");
    must_fail(iwarp_conn_local_addr(p.side[0].conn, &addr, &len), IWARP_MISUSE, "address");
    assert_non_null(iwarp_conn_private_data(p.side[0].conn, &pd_len));
    assert_int_equal(pd_len, 0);
    int64_t begin = iwarp_now_ms();
    must_fail(iwarp_conn_wait_end(p.side[0].conn, 30), IWARP_AGAIN, "30 ms");
    assert_true(iwarp_now_ms() - begin >= 25);
    pair_close(&p);

    pair_options_init(&o, PAIR_TCP4);
    pair_prepare(&p, &o);
    must(iwarp_listener_addr(p.listener, &addr, &len));
    must(iwarp_connect(p.side[0].qp, (struct sockaddr *)&addr, len, NULL, NULL, 0, NULL, NULL,
                       &p.side[0].conn));
    info.size = sizeof info;
    must_fail(iwarp_conn_info(p.side[0].conn, &info), IWARP_MISUSE, "no valid start-up frame");
    pair_close(&p);
}

/* Both ends; a connection that never was established has it to its own end. */
static void conn__established__has_freed_what_the_start_up_needs(void **state)
{
    const enum pair_transport transports[] = {PAIR_MEMORY, PAIR_TCP4};
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;
    struct pair_options o;
    struct pair p;

    (void)state;
    for (unsigned i = 0; i < sizeof transports / sizeof *transports; i++) {
        pair_options_init(&o, transports[i]);
        pair_open(&p, &o);
        for (int side = 0; side < 2; side++) {
            struct iwarp_conn *conn = p.side[side].conn;
            iwarp_mutex_lock(&conn->lock);
            assert_null(conn->startup);
            iwarp_conn_unlock(conn);
        }
        pair_close(&p);
    }
    pair_prepare(&p, &o);
    must(iwarp_listener_addr(p.listener, &addr, &len));
    must(iwarp_connect(p.side[0].qp, (struct sockaddr *)&addr, len, NULL, NULL, 0, NULL, NULL,
                       &p.side[0].conn));
    must(iwarp_abort(p.side[0].conn));
    assert_non_null(p.side[0].conn->startup);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls__with_null_for_what_is_needed__are_misuse),
        cmocka_unit_test(connect_pair__of_one_that_is_in_error__is_misuse),
        cmocka_unit_test(connect__to_an_impossible_address__is_misuse),
        cmocka_unit_test(connect__without_memory__leaves_the_queue_pairs_alone),
        cmocka_unit_test(accept__out_of_order__is_misuse),
        cmocka_unit_test(questions__before_there_is_an_answer__are_misuse),
        cmocka_unit_test(conn__established__has_freed_what_the_start_up_needs),
    };

    return cmocka_run_group_tests_name("conn", tests, NULL, NULL);
}
