/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What connections by number are made of. keep_qp: a queue pair that outlives its connection. What
 * is posted stays posted when a start-up fails and when the peer goes, and is carried out by the
 * next connection; a request that is half carried out, and a change to ERROR, flush as ever.
 */
#include "progress.h"
#include "raw_peer.h"
#include "verbs_pair.h"

#include "base/fault.h"

#include <stdlib.h>

enum { N = 3000 };

static void open_keeping(struct pair *p, bool srq)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_TCP4);
    o.conn[0].keep_qp = o.conn[1].keep_qp = true;
    o.srq = srq ? 4 : 0;
    pair_prepare(p, &o);
}

static void is_idle(struct iwarp_qp *qp)
{
    assert_int_equal(iwarp_qp_state(qp), IWARP_QP_IDLE);
}

static struct iwarp_conn *connect_to(struct pair *p, const struct sockaddr_in *to)
{
    struct iwarp_conn *conn;

    must(iwarp_connect(p->side[0].qp, (const struct sockaddr *)to, sizeof *to, &p->options.conn[0],
                       NULL, 0, p->eq[0], NULL, &conn));
    return conn;
}

static void end_connections(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        must(iwarp_conn_destroy(p->side[i].conn));
        p->side[i].conn = NULL;
    }
}

/* Octets that were sent as wr_id 2 have come to the receive with wr_id 1. */
static void expect_transfer(struct pair *p)
{
    pair_wc(p->side[0].send_cq, 2, IWARP_WC_SUCCESS);
    pair_wc(p->side[1].recv_cq, 1, IWARP_WC_SUCCESS);
    assert_memory_equal(p->side[0].p, p->side[1].p, N);
}

static void connect__in_vain__keeps_what_is_posted_for_the_next(void **state)
{
    struct sockaddr_in nobody;
    struct pair p;

    (void)state;
    open_keeping(&p, false);
    int fd = raw_listen(&nobody);
    raw_close(fd);
    pair_fill(p.side[0].p, N, 1);
    pair_recv(&p.side[1], 1, 0, N);
    pair_send(&p.side[0], 2, 0, N);
    for (int i = 0; i < 3; i++) {
        struct iwarp_conn *conn = connect_to(&p, &nobody);
        assert_ptr_equal(pair_event(p.eq[0], IWARP_EVENT_FAILED).conn, conn);
        is_idle(p.side[0].qp);
        must(iwarp_conn_destroy(conn));
    }
    pair_no_wc(p.side[0].send_cq);
    pair_connect(&p);
    expect_transfer(&p);
    pair_close(&p);
}

static void reject__keeps_what_is_posted_for_the_next(void **state)
{
    struct sockaddr_storage to;
    socklen_t len;
    struct pair p;

    (void)state;
    open_keeping(&p, false);
    pair_fill(p.side[0].p, N, 2);
    pair_recv(&p.side[1], 1, 0, N);
    pair_send(&p.side[0], 2, 0, N);
    struct iwarp_listener *l = pair_listen(p.device, PAIR_TCP4, NULL, p.eq[1]);
    must(iwarp_listener_addr(l, &to, &len));
    struct iwarp_conn *conn = connect_to(&p, (const struct sockaddr_in *)(const void *)&to);
    struct iwarp_event request = pair_event(p.eq[1], IWARP_EVENT_REQUEST);
    must(iwarp_reject(request.conn, "no", 2));
    must(iwarp_conn_destroy(request.conn));
    pair_event(p.eq[0], IWARP_EVENT_REJECTED);
    is_idle(p.side[0].qp);
    must(iwarp_conn_destroy(conn));
    must(iwarp_listener_close(l));
    pair_connect(&p);
    expect_transfer(&p);
    pair_close(&p);
}

static void take_to_idle(struct iwarp_qp *qp)
{
    const struct iwarp_qp_changes idle = {
        .size = sizeof idle, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_IDLE};

    must(iwarp_qp_modify(qp, &idle));
}

/* Side 0 goes ROUNDS times, in order or by a reset. The receives of side 1 are all posted before
 * the first connection, to its own queue or a shared one, and each connection uses one. */
static void end_by_the_peer(bool reset, bool srq)
{
    enum { ROUNDS = 3 };
    struct pair p;

    open_keeping(&p, srq);
    p.options.conn[0].keep_qp = false;
    for (int i = 0; i < ROUNDS; i++) {
        srq ? pair_srq_recv(&p.side[1], 1, 0, N) : pair_recv(&p.side[1], 1, 0, N);
    }
    for (int i = 0; i < ROUNDS; i++) {
        pair_connect(&p);
        pair_fill(p.side[0].p, N, (uint64_t)i);
        pair_send(&p.side[0], 2, 0, N);
        expect_transfer(&p);
        must(reset ? iwarp_abort(p.side[0].conn) : iwarp_disconnect(p.side[0].conn));
        pair_event(p.eq[0], IWARP_EVENT_DISCONNECTED);
        pair_event(p.eq[1], IWARP_EVENT_DISCONNECTED);
        is_idle(p.side[1].qp);
        pair_no_wc(p.side[1].recv_cq);
        end_connections(&p);
        take_to_idle(p.side[0].qp);
    }
    pair_close(&p);
}

static void end__by_the_peer__keeps_receives(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        end_by_the_peer(i & 1, i & 2);
    }
}

/* One of 3 receives was taken for a message that never became whole: the next connection's first
 * message has it, so all of them complete in the order in which they were posted. */
static void end__within_a_message__posts_its_shared_receive_again(void **state)
{
    struct iwarp_srq_info info = {.size = sizeof info};
    struct pair p;

    (void)state;
    setenv("IWARP_FAULTS", "lose-fpdu=4,only=1", 1);
    open_keeping(&p, true);
    unsetenv("IWARP_FAULTS");
    p.options.conn[0].keep_qp = false;
    p.options.conn[0].ulpdu_max = p.options.conn[1].ulpdu_max = 512;
    for (uint64_t i = 0; i < 3; i++) {
        pair_srq_recv(&p.side[1], i, 0, N);
    }
    pair_connect(&p);
    pair_send(&p.side[0], 2, 0, N);
    pair_event(p.eq[1], IWARP_EVENT_DISCONNECTED);
    is_idle(p.side[1].qp);
    pair_no_wc(p.side[1].recv_cq);
    must(iwarp_srq_query(p.side[1].srq, &info));
    assert_int_equal(info.posted, 3);
    assert_int_equal(info.in_use, 3);
    pair_event(p.eq[0], IWARP_EVENT_DISCONNECTED);
    end_connections(&p);
    take_to_idle(p.side[0].qp);
    pair_connect(&p);
    for (uint64_t i = 0; i < 3; i++) { /* each is one FPDU */
        pair_send(&p.side[0], i, 0, 8);
        pair_wc(p.side[1].recv_cq, i, IWARP_WC_SUCCESS);
    }
    pair_close(&p);
}

/* The peer's end is told by the connection alone: a queue pair that lives on is in no trouble. */
static void end__by_the_peer__is_no_asynchronous_event(void **state)
{
    struct iwarp_async_event event;
    struct pair p;

    (void)state;
    open_keeping(&p, true);
    p.options.conn[0].keep_qp = false;
    pair_connect(&p);
    must(iwarp_abort(p.side[0].conn));
    pair_event(p.eq[1], IWARP_EVENT_DISCONNECTED);
    is_idle(p.side[1].qp);
    assert_int_equal(iwarp_async_get(p.device, &event, 0), IWARP_OK); /* of side 0 */
    assert_ptr_equal(event.qp, p.side[0].qp);
    iwarp_async_ack(&event);
    assert_int_equal(iwarp_async_get(p.device, &event, 50), IWARP_AGAIN);
    pair_close(&p);
}

/* A Read that nobody answers is half carried out: it cannot be sent again. */
static void end__with_a_read_in_flight__flushes(void **state)
{
    const struct iwarp_qp_changes closing = {
        .size = sizeof closing, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_ERROR};
    struct pair p;

    (void)state;
    for (int flush = 0; flush < 2; flush++) {
        open_keeping(&p, false);
        pair_connect(&p);
        pair_recv(&p.side[0], 7, 0, N);
        if (flush) { /* of its own will */
            must(iwarp_qp_modify(p.side[0].qp, &closing));
        } else { /* a Read beyond the peer's region: it answers with a Terminate */
            pair_read(&p.side[0], 8, 0, 64, &p.side[1], p.options.memory);
            pair_wc(p.side[0].send_cq, 8, IWARP_WC_REMOTE_ACCESS);
        }
        pair_event(p.eq[0], IWARP_EVENT_DISCONNECTED);
        pair_wc(p.side[0].recv_cq, 7, IWARP_WC_FLUSHED);
        assert_int_equal(iwarp_qp_state(p.side[0].qp), IWARP_QP_ERROR);
        pair_close(&p);
    }
}

static void error__while_connecting__flushes(void **state)
{
    const struct iwarp_qp_changes error = {
        .size = sizeof error, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_ERROR};
    struct sockaddr_in silent;
    struct pair p;

    (void)state;
    open_keeping(&p, false);
    int fd = raw_listen(&silent);
    pair_recv(&p.side[0], 1, 0, N);
    pair_send(&p.side[0], 2, 0, N);
    struct iwarp_conn *conn = connect_to(&p, &silent);
    must(iwarp_qp_modify(p.side[0].qp, &error));
    assert_int_equal(iwarp_qp_state(p.side[0].qp), IWARP_QP_ERROR);
    pair_wc(p.side[0].recv_cq, 1, IWARP_WC_FLUSHED);
    pair_wc(p.side[0].send_cq, 2, IWARP_WC_FLUSHED);
    pair_event(p.eq[0], IWARP_EVENT_FAILED);
    must(iwarp_conn_destroy(conn));
    raw_close(fd);
    pair_close(&p);
}

/* What counts as used: a message of an application, not what the start-up sends. */
static void info__says_whether_a_message_has_passed(void **state)
{
    struct iwarp_conn_info info = {.size = sizeof info};
    struct pair p;

    (void)state;
    open_keeping(&p, false);
    pair_connect(&p);
    pair_recv(&p.side[0], 1, 0, 0); /* side 1 may send once the start-up's Read is answered */
    for (int i = 0; i < 2; i++) {
        must(iwarp_conn_info(p.side[i].conn, &info));
        assert_false(info.used);
    }
    pair_send(&p.side[1], 2, 0, 0);
    pair_wc(p.side[0].recv_cq, 1, IWARP_WC_SUCCESS);
    pair_wc(p.side[1].send_cq, 2, IWARP_WC_SUCCESS);
    for (int i = 0; i < 2; i++) {
        must(iwarp_conn_info(p.side[i].conn, &info));
        assert_true(info.used);
    }
    pair_close(&p);
}

static void number__is_what_the_application_asked_for(void **state)
{
    struct iwarp_qp_options o;
    struct iwarp_qp *qp;
    struct pair p;

    (void)state;
    open_keeping(&p, false);
    o = p.options.qp;
    o.send_cq = p.side[0].send_cq;
    o.recv_cq = p.side[0].recv_cq;
    o.num = 0xabcdef;
    must(iwarp_qp_create(p.side[0].pd, &o, &qp));
    assert_int_equal(iwarp_qp_num(qp), 0xabcdef);
    must(iwarp_qp_destroy(qp));
    pair_close(&p);
}

/* A Read without octets that confirms Writes: it completes as one, when their octets are there. */
static void confirm__completes_as_a_write_and_takes_no_room(void **state)
{
    struct iwarp_sge sge;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.qp.confirms = true;
    o.qp.max_send_wr = 2;
    pair_open(&p, &o);
    sge = pair_sge(&p.side[0], 0, N);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_READ, 9, &sge);
    wr.flags |= IWARP_WR_CONFIRM;
    must_fail(iwarp_post_send(p.side[0].qp, &wr, NULL), IWARP_MISUSE, "without SGEs");
    wr.num_sge = 0;
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 2; i++) {
            pair_fill(p.side[0].p, N, round);
            struct iwarp_send_wr write = pair_wr(IWARP_WR_WRITE, 1, &sge);
            write.flags = 0;
            write.remote_stag = iwarp_mr_stag(p.side[1].mr);
            write.remote_to = (uintptr_t)p.side[1].p;
            must(iwarp_post_send(p.side[0].qp, &write, NULL));
            must(iwarp_post_send(p.side[0].qp, &wr, NULL));
        }
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(pair_wc(p.side[0].send_cq, 9, IWARP_WC_SUCCESS).opcode,
                             IWARP_WC_WRITE);
        }
        assert_memory_equal(p.side[0].p, p.side[1].p, N);
    }
    pair_close(&p);
}

/* A Write of which the confirmation finds no room is not sent without it: neither is posted. */
static void write__whose_confirmation_finds_no_room__is_not_posted(void **state)
{
    const struct iwarp_send_wr *bad = NULL;
    struct iwarp_qp_info info = {.size = sizeof info};
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.qp.confirms = true;
    o.qp.max_send_wr = 2;
    pair_prepare(&p, &o);
    struct iwarp_sge sge = pair_sge(&p.side[0], 0, N);
    struct iwarp_send_wr send = pair_wr(IWARP_WR_SEND, 1, &sge);
    struct iwarp_send_wr confirm = {
        .wr_id = 9, .opcode = IWARP_WR_READ, .flags = IWARP_WR_SIGNALED | IWARP_WR_CONFIRM};
    struct iwarp_send_wr write = pair_wr(IWARP_WR_WRITE, 9, &sge);
    write.flags = 0;
    write.next = &confirm;
    must(iwarp_post_send(p.side[0].qp, &write, NULL)); /* two of four places */
    struct iwarp_send_wr chain = send;
    chain.next = &write; /* the Send is posted, and the confirmation would be the fifth */
    must_fail(iwarp_post_send(p.side[0].qp, &chain, &bad), IWARP_AGAIN, "full");
    assert_ptr_equal(bad, &write);
    bad = NULL;
    must_fail(iwarp_post_send(p.side[0].qp, &write, &bad), IWARP_AGAIN, "full");
    assert_ptr_equal(bad, &write);
    write.opcode = IWARP_WR_WRITE_IMM;
    must_fail(iwarp_post_send(p.side[0].qp, &write, &bad), IWARP_AGAIN, "full");
    assert_ptr_equal(bad, &write);
    must_fail(iwarp_post_send(p.side[0].qp, &chain, &bad), IWARP_AGAIN, "full");
    assert_ptr_equal(bad, &write);
    must(iwarp_qp_query(p.side[0].qp, &info));
    assert_int_equal(info.send_in_use, 4); /* the first Write with its own, and the Sends */
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect__in_vain__keeps_what_is_posted_for_the_next),
        cmocka_unit_test(reject__keeps_what_is_posted_for_the_next),
        cmocka_unit_test(end__by_the_peer__keeps_receives),
        cmocka_unit_test(end__within_a_message__posts_its_shared_receive_again),
        cmocka_unit_test(end__by_the_peer__is_no_asynchronous_event),
        cmocka_unit_test(end__with_a_read_in_flight__flushes),
        cmocka_unit_test(error__while_connecting__flushes),
        cmocka_unit_test(info__says_whether_a_message_has_passed),
        cmocka_unit_test(confirm__completes_as_a_write_and_takes_no_room),
        cmocka_unit_test(write__whose_confirmation_finds_no_room__is_not_posted),
        cmocka_unit_test(number__is_what_the_application_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
