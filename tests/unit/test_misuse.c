/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Misuse of the public calls is a status and a sentence: handles that are NULL, objects of another
 * device, calls in the wrong state, objects destroyed in the wrong order. Each line is a call and a
 * word of what it says. Options and addresses are the matter of test_conn_options.c, test_device.c
 * and test_qp.c; requests that of test_post.c.
 */
#include "verbs_pair.h"

#include <iwarp/sim.h>
#include <iwarp/transport.h>
#include <limits.h>

#define refused(call, part) must_fail((enum iwarp_status)(call), IWARP_MISUSE, part)

static struct pair p;             /* connected in memory, with a listener besides */
static struct pair_side idle;     /* of the same device, not connected */
static struct pair_side stranger; /* of another device */
static struct iwarp_device *elsewhere;
static struct iwarp_eq *elsewhere_eq;

static int setup(void **state)
{
    struct pair_options o;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.device.progress = IWARP_PROGRESS_THREADED;
    pair_open(&p, &o);
    p.listener = pair_listen(p.device, PAIR_TCP4, NULL, p.eq[1]);
    pair_side_open(&idle, p.device, &o);
    must(iwarp_device_open(NULL, &elsewhere));
    must(iwarp_eq_create(elsewhere, &elsewhere_eq));
    pair_side_open(&stranger, elsewhere, &o);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pair_side_close(&stranger);
    must(iwarp_eq_destroy(elsewhere_eq));
    must(iwarp_device_close(elsewhere));
    pair_side_close(&idle);
    pair_close(&p);
    return 0;
}

/* --- NULL ------------------------------------------------------------------------------------ */

static void null__for_devices_and_memory__is_misuse(void **state)
{
    struct iwarp_stag_info info;
    struct iwarp_pd *pd;
    struct iwarp_mr *mr;
    struct iwarp_mw *mw;
    uint8_t octet;

    (void)state;
    refused(iwarp_device_open(NULL, NULL), "device is NULL");
    refused(iwarp_device_close(NULL), "NULL");
    refused(iwarp_device_call(NULL, NULL, NULL), "device is NULL");
    refused(iwarp_pd_create(NULL, &pd), "device is NULL");
    refused(iwarp_pd_create(p.device, NULL), "pd is NULL");
    refused(iwarp_pd_destroy(NULL), "pd is NULL");
    refused(iwarp_mr_register(NULL, &octet, 1, 0, &mr), "NULL");
    refused(iwarp_mr_register(idle.pd, &octet, 1, 0, NULL), "NULL");
    refused(iwarp_mr_create(idle.pd, NULL, &mr), "options_init first");
    refused(iwarp_mr_alloc(NULL, &mr), "NULL");
    refused(iwarp_mr_alloc(idle.pd, NULL), "NULL");
    refused(iwarp_mr_reregister(NULL, NULL, NULL), "NULL");
    refused(iwarp_mr_query(NULL, &info), "NULL");
    refused(iwarp_mr_query(idle.mr, NULL), "NULL");
    refused(iwarp_mr_deregister(NULL), "mr is NULL");
    refused(iwarp_mw_alloc(NULL, IWARP_MW_TYPE_1, &mw), "NULL");
    refused(iwarp_mw_alloc(idle.pd, IWARP_MW_TYPE_1, NULL), "NULL");
    refused(iwarp_mw_query(NULL, &info), "NULL");
    refused(iwarp_mw_free(NULL), "NULL");
    refused(iwarp_mw_bind(NULL, NULL, NULL, 0, 0), "NULL");
}

static void null__for_queues__is_misuse(void **state)
{
    const struct iwarp_recv_wr recv = {.wr_id = 1};
    const struct iwarp_send_wr send = {.opcode = IWARP_WR_SEND};
    struct iwarp_async_event async;
    struct iwarp_event event;
    struct iwarp_eq *eq;
    struct iwarp_cq *cq;
    struct iwarp_wc wc;
    const struct iwarp_send_wr *bad_send = NULL;
    const struct iwarp_recv_wr *bad_recv = NULL;

    (void)state;
    refused(iwarp_cq_create(NULL, 1, NULL, &cq), "NULL");
    refused(iwarp_cq_create(p.device, 1, NULL, NULL), "NULL");
    refused(iwarp_cq_resize(NULL, 4), "NULL");
    refused(iwarp_cq_poll(NULL, &wc, 1), "cq is NULL");
    refused(iwarp_cq_poll(idle.send_cq, NULL, 1), "wc is NULL");
    refused(iwarp_cq_wait(NULL, &wc, 1, 0), "cq is NULL");
    refused(iwarp_cq_wait(idle.send_cq, NULL, 1, 0), "wc is NULL");
    refused(iwarp_cq_arm(NULL, false), "cq is NULL");
    assert_int_equal(iwarp_cq_fd(NULL), -1);
    assert_non_null(strstr(iwarp_last_error(), "cq is NULL"));
    iwarp_cq_drain(NULL);
    refused(iwarp_cq_destroy(NULL), "cq is NULL");
    refused(iwarp_eq_create(NULL, &eq), "device is NULL");
    refused(iwarp_eq_create(p.device, NULL), "eq is NULL");
    refused(iwarp_eq_get(NULL, &event, 0), "eq is NULL");
    refused(iwarp_eq_get(p.eq[0], NULL, 0), "event is NULL");
    assert_int_equal(iwarp_eq_fd(NULL), -1);
    refused(iwarp_eq_destroy(NULL), "eq is NULL");
    refused(iwarp_async_get(NULL, &async, 0), "NULL");
    refused(iwarp_async_get(p.device, NULL, 0), "NULL");
    refused(iwarp_qp_create(idle.pd, NULL, NULL), "NULL");
    refused(iwarp_post_send(NULL, &send, NULL), "NULL");
    refused(iwarp_post_send(NULL, &send, &bad_send), "NULL");
    assert_ptr_equal(bad_send, &send);
    refused(iwarp_post_recv(NULL, &recv, NULL), "NULL");
    refused(iwarp_post_recv(NULL, &recv, &bad_recv), "NULL");
    assert_ptr_equal(bad_recv, &recv);
    assert_null(iwarp_qp_fault(NULL));
    refused(iwarp_qp_destroy(NULL), "qp is NULL");
    refused(iwarp_srq_create(NULL, NULL, NULL), "NULL");
    refused(iwarp_srq_post_recv(NULL, &recv, NULL), "NULL");
    bad_recv = NULL;
    refused(iwarp_srq_post_recv(NULL, &recv, &bad_recv), "NULL");
    assert_ptr_equal(bad_recv, &recv);
    refused(iwarp_srq_query(NULL, NULL), "srq is NULL");
    refused(iwarp_srq_destroy(NULL), "NULL");
    refused(iwarp_qp_stats(NULL, NULL), "NULL");
    refused(iwarp_device_stats(NULL, NULL), "NULL");
    refused(iwarp_device_query(NULL, NULL), "device is NULL");
    refused(iwarp_device_query(p.device, NULL), "info is NULL");
    /* Nothing to post is nothing done. */
    must(iwarp_post_send(p.side[0].qp, NULL, NULL));
    must(iwarp_post_recv(p.side[0].qp, NULL, NULL));
}

static void null__for_connections__is_misuse(void **state)
{
    struct iwarp_conn_info info = {.size = sizeof info};
    struct sockaddr_storage addr;
    socklen_t addr_len;
    size_t len = 3;

    (void)state;
    refused(iwarp_listener_addr(NULL, &addr, &addr_len), "NULL");
    refused(iwarp_listener_addr(p.listener, NULL, &addr_len), "NULL");
    refused(iwarp_listener_addr(p.listener, &addr, NULL), "NULL");
    refused(iwarp_listener_close(NULL), "NULL");
    refused(iwarp_accept(NULL, idle.qp, NULL, NULL, 0, NULL), "NULL");
    refused(iwarp_accept(p.side[0].conn, NULL, NULL, NULL, 0, NULL), "NULL");
    refused(iwarp_reject(NULL, NULL, 0), "NULL");
    refused(iwarp_conn_wait(NULL, 0), "conn is NULL");
    refused(iwarp_conn_wait_end(NULL, 0), "conn is NULL");
    refused(iwarp_disconnect(NULL), "conn is NULL");
    refused(iwarp_abort(NULL), "conn is NULL");
    refused(iwarp_conn_destroy(NULL), "conn is NULL");
    refused(iwarp_conn_info(NULL, &info), "conn is NULL");
    refused(iwarp_conn_set_rnr_timeout(NULL, 1), "conn is NULL");
    refused(iwarp_conn_set_rnr_timeout(p.side[0].conn, 1), "option at 0");
    refused(iwarp_conn_info(p.side[0].conn, NULL), "info is NULL");
    refused(iwarp_conn_peer_addr(NULL, &addr, &addr_len), "conn is NULL");
    refused(iwarp_conn_peer_addr(p.side[0].conn, NULL, &addr_len), "addr is NULL");
    refused(iwarp_conn_local_addr(p.side[0].conn, &addr, NULL), "addr_len is NULL");
    assert_null(iwarp_conn_qp(NULL));
    assert_null(iwarp_conn_fault(NULL));
    assert_non_null(iwarp_conn_private_data(NULL, &len));
    assert_int_equal(len, 0);
    assert_non_null(iwarp_conn_private_data(p.side[0].conn, NULL));
}

static void null__where_no_status_is_returned__gives_nothing(void **state)
{
    char text[8] = "left";

    (void)state;
    assert_null(iwarp_qp_user(NULL));
    assert_non_null(strstr(iwarp_last_error(), "qp is NULL"));
    assert_int_equal(iwarp_qp_num(NULL), 0);
    assert_int_equal(iwarp_qp_state(NULL), IWARP_QP_ERROR);
    assert_int_equal(iwarp_cq_entries(NULL), 0);
    assert_non_null(strstr(iwarp_last_error(), "cq is NULL"));
    assert_null(iwarp_cq_user(NULL));
    assert_null(iwarp_srq_user(NULL));
    assert_null(iwarp_conn_user(NULL));
    assert_int_equal(iwarp_mr_stag(NULL), 0);
    assert_non_null(strstr(iwarp_last_error(), "mr is NULL"));
    assert_null(iwarp_mr_addr(NULL));
    assert_int_equal(iwarp_mr_len(NULL), 0);
    assert_int_equal(iwarp_mr_access(NULL), 0);
    assert_int_equal(iwarp_mr_to_base(NULL), 0);
    assert_int_equal(iwarp_mw_stag(NULL), 0);
    assert_int_equal(iwarp_async_fd(NULL), -1);
    assert_int_equal(iwarp_device_stats_text(NULL, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(iwarp_device_stats_text(&(struct iwarp_device_stats){0}, NULL, 8), 0);
    iwarp_endpoint_wake(NULL);
    assert_non_null(strstr(iwarp_last_error(), "ep is NULL"));
    iwarp_device_options_init(NULL);
    assert_non_null(strstr(iwarp_last_error(), "options is NULL"));
    iwarp_conn_options_init(NULL);
    iwarp_qp_options_init(NULL);
    iwarp_srq_options_init(NULL);
    iwarp_mr_options_init(NULL, text, 1, 0);
    iwarp_sim_options_init(NULL, 1);
}

/* --- state ----------------------------------------------------------------------------------- */

static void state__that_does_not_allow_it__is_misuse(void **state)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct iwarp_conn_info info = {.size = sizeof info - 1};
    struct iwarp_conn *conn = NULL, *other = NULL;
    struct sockaddr_storage addr;
    socklen_t len;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pair_side *s = &p.side[i];
        refused(iwarp_accept(s->conn, idle.qp, NULL, NULL, 0, NULL), "does not wait");
        refused(iwarp_reject(s->conn, NULL, 0), "does not wait");
        refused(iwarp_connect(s->qp, (struct sockaddr *)&to, sizeof to, NULL, NULL, 0, NULL, NULL,
                              &conn),
                "connected before");
        refused(iwarp_connect_pair(s->qp, idle.qp, NULL, NULL, &conn, &other), "connected before");
        refused(iwarp_connect_pair(idle.qp, s->qp, NULL, NULL, &conn, &other), "IDLE");
        refused(iwarp_conn_peer_addr(s->conn, &addr, &len), "no such address");
        refused(iwarp_conn_info(s->conn, &info), "sizeof");
    }
    refused(iwarp_connect_pair(idle.qp, idle.qp, NULL, NULL, &conn, &other), "two IDLE");
    assert_null(conn);
    assert_null(other);
    assert_int_equal(iwarp_qp_state(idle.qp), IWARP_QP_IDLE); /* of use as before */
    assert_true(iwarp_cq_poll(idle.send_cq, &(struct iwarp_wc){0}, -1) == 0);
    assert_true(iwarp_cq_poll(idle.send_cq, &(struct iwarp_wc){0}, INT_MIN) == 0);
}

static void device__is_another_one__is_misuse(void **state)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    struct iwarp_conn *conn = NULL, *other = NULL;
    struct iwarp_listener *listener = NULL;
    struct iwarp_qp_options o;
    struct iwarp_qp *qp = NULL;

    (void)state;
    iwarp_qp_options_init(&o);
    o.send_cq = idle.send_cq;
    refused(iwarp_qp_create(idle.pd, &o, &qp), "recv_cq is NULL");
    o.recv_cq = stranger.recv_cq;
    refused(iwarp_qp_create(idle.pd, &o, &qp), "device");
    o.send_cq = stranger.send_cq;
    o.recv_cq = idle.recv_cq;
    refused(iwarp_qp_create(idle.pd, &o, &qp), "device");
    refused(iwarp_connect(idle.qp, (struct sockaddr *)&any, sizeof any, NULL, NULL, 0, elsewhere_eq,
                          NULL, &conn),
            "different devices");
    refused(iwarp_connect_pair(idle.qp, stranger.qp, NULL, NULL, &conn, &other), "one device");
    refused(iwarp_listen(p.device, (struct sockaddr *)&any, sizeof any, NULL, 1, elsewhere_eq, NULL,
                         &listener),
            "its device");
    assert_true(!qp && !conn && !other && !listener);
}

/* A Request is answered with a queue pair of another device, of use, and then not again. */
static void request__answered_wrongly__waits_for_a_right_answer(void **state)
{
    struct sockaddr_storage at;
    struct iwarp_conn *conn;
    struct pair_options o;
    socklen_t len;

    (void)state;
    must(iwarp_listener_addr(p.listener, &at, &len));
    pair_options_init(&o, PAIR_TCP4);
    must(iwarp_connect(stranger.qp, (struct sockaddr *)&at, len, NULL, NULL, 0, NULL, NULL,
                       &stranger.conn));
    conn = pair_event(p.eq[1], IWARP_EVENT_REQUEST).conn;
    refused(iwarp_accept(conn, stranger.qp, NULL, NULL, 0, NULL), "connected before");
    refused(iwarp_accept(conn, p.side[0].qp, NULL, NULL, 0, NULL), "connected before");
    refused(iwarp_accept(conn, idle.qp, NULL, "x", 600, NULL), "600 octets");
    refused(iwarp_reject(conn, NULL, 1), "NULL");
    must(iwarp_accept(conn, idle.qp, NULL, NULL, 0, NULL));
    pair_event(p.eq[1], IWARP_EVENT_ESTABLISHED);
    must(iwarp_conn_wait(stranger.conn, PAIR_WAIT_MS));
    refused(iwarp_accept(conn, idle.qp, NULL, NULL, 0, NULL), "does not wait");
    must(iwarp_disconnect(conn));
    must(iwarp_disconnect(conn)); /* once more is no harm */
    must(iwarp_conn_wait_end(conn, PAIR_WAIT_MS));
    must_fail(iwarp_reject(conn, NULL, 0), IWARP_CLOSED, "gone");
    must(iwarp_disconnect(conn));
    must(iwarp_abort(conn));
    must(iwarp_conn_destroy(conn));
}

/* Once too often, and the count of what is due would never be 0 again. */
static void acknowledging__what_was_not_taken__changes_nothing(void **state)
{
    const struct iwarp_async_event nothing = {.type = IWARP_ASYNC_QP_CLOSED};
    struct iwarp_srq_options o;
    struct iwarp_async_event event;
    struct iwarp_srq *srq;

    (void)state;
    iwarp_srq_options_init(&o);
    must(iwarp_srq_create(idle.pd, &o, &srq));
    must(iwarp_srq_modify(srq, 1)); /* nothing is posted: an event */
    while (must(iwarp_async_get(p.device, &event, PAIR_WAIT_MS)), event.srq != srq) {
        iwarp_async_ack(&event); /* of the tests before */
    }
    must_fail(iwarp_srq_destroy(srq), IWARP_AGAIN, "1 asynchronous");
    iwarp_async_ack(NULL);
    assert_non_null(strstr(iwarp_last_error(), "event is NULL"));
    iwarp_async_ack(&nothing);
    assert_non_null(strstr(iwarp_last_error(), "names no object"));
    iwarp_async_ack(&event);
    iwarp_async_ack(&event);
    assert_non_null(strstr(iwarp_last_error(), "acknowledged already"));
    must(iwarp_srq_destroy(srq));
}

static void waiting__for_no_completions__is_misuse(void **state)
{
    struct iwarp_wc wc;

    (void)state;
    refused(iwarp_cq_wait(p.side[0].send_cq, &wc, 0, 0), "0 completions");
    refused(iwarp_cq_wait(p.side[0].send_cq, &wc, -1, -1), "-1 completions");
    assert_int_equal(iwarp_cq_poll(p.side[0].send_cq, &wc, 0), 0); /* a question like another */
}

/* --- order of destruction --------------------------------------------------------------------- */

static void destroy__of_what_others_use__is_misuse(void **state)
{
    (void)state;
    refused(iwarp_device_close(p.device), "still has 3 PDs");
    refused(iwarp_pd_destroy(idle.pd), "still has 2 ");
    refused(iwarp_cq_destroy(idle.send_cq), "used by a queue pair");
    refused(iwarp_cq_destroy(idle.recv_cq), "used by a queue pair");
    refused(iwarp_eq_destroy(p.eq[1]), "1 listeners and connections");
    refused(iwarp_eq_destroy(p.eq[0]), "2 listeners and connections");
    must(iwarp_mr_deregister(idle.mr));
    idle.mr = NULL;
    refused(iwarp_pd_destroy(idle.pd), "still has 1 ");
    /* All goes on as if nothing had been tried. */
    pair_recv(&p.side[1], 1, 0, 8);
    pair_send(&p.side[0], 2, 0, 8);
    pair_wc(p.side[1].recv_cq, 1, IWARP_WC_SUCCESS);
    pair_wc(p.side[0].send_cq, 2, IWARP_WC_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null__for_devices_and_memory__is_misuse),
        cmocka_unit_test(null__for_queues__is_misuse),
        cmocka_unit_test(null__for_connections__is_misuse),
        cmocka_unit_test(null__where_no_status_is_returned__gives_nothing),
        cmocka_unit_test(state__that_does_not_allow_it__is_misuse),
        cmocka_unit_test(device__is_another_one__is_misuse),
        cmocka_unit_test(request__answered_wrongly__waits_for_a_right_answer),
        cmocka_unit_test(acknowledging__what_was_not_taken__changes_nothing),
        cmocka_unit_test(waiting__for_no_completions__is_misuse),
        cmocka_unit_test(destroy__of_what_others_use__is_misuse),
    };

    return cmocka_run_group_tests_name("misuse", tests, setup, teardown);
}
