/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that come before their receives, between two queue pairs, over every transport and with
 * receives of their own and of an SRQ: a receive that is posted later takes them at once, and
 * nobody else is delayed meanwhile. Side 1 receives.
 */
#include "progress.h"
#include "verbs_pair.h"

#include <stdlib.h>
#include <time.h>

#define LONG_MS 60000u /* longer than any wait of a test that passes */
#define MESSAGE 3000u

static void options(struct pair_options *o, enum pair_transport transport, bool srq, unsigned ms)
{
    pair_options_init(o, transport);
    o->srq = srq ? 64 : 0;
    o->conn[0].rnr_timeout_ms = o->conn[1].rnr_timeout_ms = ms;
}

static void receive(struct pair_side *s, uint64_t id, size_t off, size_t len)
{
    if (s->srq) {
        pair_srq_recv(s, id, off, len);
    } else {
        pair_recv(s, id, off, len);
    }
}

static uint64_t waited(struct pair_side *s)
{
    struct iwarp_qp_stats stats = {.size = sizeof stats};

    must(iwarp_qp_stats(s->qp, &stats));
    return stats.messages_waited;
}

/* Until n messages have come without a receive. */
static void await_waiting(struct pair_side *s, uint64_t n)
{
    for (unsigned ms = 0; waited(s) < n; ms++) {
        assert_true(ms < PAIR_WAIT_MS);
        pair_no_wc(s->recv_cq);
        progress_sleep(1000);
    }
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- each transport, each kind of receive queue ------------------------------------------------
 */

/* Some are posted before, the others one after the other: each wakes the stream. */
static void send_late(struct pair *p, unsigned n)
{
    struct pair_side *a = &p->side[0], *b = &p->side[1];
    uint64_t before = waited(b);

    pair_fill(a->p, (size_t)n * MESSAGE, n);
    memset(b->p, 0xee, (size_t)n * MESSAGE);
    for (unsigned i = 0; i < n; i++) {
        pair_send(a, i, (size_t)i * MESSAGE, MESSAGE);
        pair_wc(a->send_cq, i, IWARP_WC_SUCCESS);
    }
    await_waiting(b, before + n);
    for (unsigned i = 0; i < n; i++) {
        receive(b, 100 + i, (size_t)i * MESSAGE, MESSAGE);
        assert_int_equal(pair_wc(b->recv_cq, 100 + i, IWARP_WC_SUCCESS).byte_len, MESSAGE);
    }
    assert_memory_equal(a->p, b->p, (size_t)n * MESSAGE);
    pair_no_wc(b->recv_cq);
}

static void sends__before_their_receives__are_taken_as_these_come(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * PAIR_TRANSPORTS; i++) {
        struct pair_options o;
        struct pair p;
        options(&o, (enum pair_transport)(i % PAIR_TRANSPORTS), i >= PAIR_TRANSPORTS, LONG_MS);
        o.memory = (size_t)32 * MESSAGE;
        pair_open(&p, &o);
        send_late(&p, 20);
        send_late(&p, 1);
        pair_close(&p);
    }
}

/* More than may be held: TCP holds the rest, in order. */
static void sends__more_than_may_be_held__arrive_all_the_same(void **state)
{
    enum { SENDS = 40, LEN = 60000 };

    (void)state;
    for (unsigned i = 0; i < PAIR_TRANSPORTS; i++) {
        struct pair_options o;
        struct pair p;
        options(&o, (enum pair_transport)i, false, LONG_MS);
        o.conn[0].rnr_bytes = o.conn[1].rnr_bytes = 100000;
        o.memory = (size_t)SENDS * LEN;
        pair_open(&p, &o);
        struct pair_side *a = &p.side[0], *b = &p.side[1];
        pair_fill(a->p, o.memory, i);
        for (unsigned k = 0; k < SENDS; k++) {
            pair_send(a, k, (size_t)k * LEN, LEN);
        }
        await_waiting(b, 1);
        for (unsigned k = 0; k < SENDS; k++) {
            receive(b, 100 + k, (size_t)k * LEN, LEN);
            pair_wc(b->recv_cq, 100 + k, IWARP_WC_SUCCESS);
        }
        for (unsigned k = 0; k < SENDS; k++) {
            pair_wc(a->send_cq, k, IWARP_WC_SUCCESS);
        }
        assert_memory_equal(a->p, b->p, o.memory);
        pair_close(&p);
    }
}

/* The Response comes behind the Send, and the receive is posted only when the Read is done. */
static void read__behind_a_send_that_waits__completes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * PAIR_TRANSPORTS; i++) {
        struct pair_options o;
        struct pair p;
        options(&o, (enum pair_transport)(i % PAIR_TRANSPORTS), i >= PAIR_TRANSPORTS, LONG_MS);
        pair_open(&p, &o);
        struct pair_side *a = &p.side[0], *b = &p.side[1];
        pair_fill(a->p, 2000, i);
        pair_send(a, 1, 0, 1000);
        await_waiting(b, 1);
        pair_read(b, 2, 0, 2000, a, 0);
        pair_wc(b->send_cq, 2, IWARP_WC_SUCCESS);
        assert_memory_equal(a->p, b->p, 2000);
        pair_no_wc(b->recv_cq);
        receive(b, 3, 3000, 1000);
        pair_wc(b->recv_cq, 3, IWARP_WC_SUCCESS);
        assert_memory_equal(a->p, b->p + 3000, 1000);
        pair_close(&p);
    }
}

/* --- an SRQ of several connections -------------------------------------------------------------
 */

/* Both of a pair's sides wait on one SRQ, and one receive goes to the one that has waited longer.
 */
static void srq__of_two_that_wait__serves_them_in_turn(void **state)
{
    struct pair_options o;
    struct pair p, q;

    (void)state;
    options(&o, PAIR_TCP4, true, LONG_MS);
    pair_open(&p, &o);
    struct pair_side *b = &p.side[1];
    struct iwarp_qp_options qp = o.qp;
    struct iwarp_qp *more[2];
    struct iwarp_conn *conn[2];
    qp.send_cq = b->send_cq;
    qp.recv_cq = b->recv_cq;
    qp.srq = b->srq;
    for (unsigned i = 0; i < 2; i++) {
        must(iwarp_qp_create(b->pd, &qp, &more[i]));
    }
    must(iwarp_connect_pair(more[0], more[1], &o.conn[0], NULL, &conn[0], &conn[1]));
    must(iwarp_conn_wait(conn[0], PAIR_WAIT_MS));
    pair_send(&p.side[0], 1, 0, 8); /* to b */
    await_waiting(b, 1);
    struct iwarp_sge sge = pair_sge(b, 100, 16);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, 2, &sge);
    for (unsigned i = 0; i < 2; i++) {
        must(iwarp_post_send(more[0], &wr, NULL));
        pair_wc(b->send_cq, 2, IWARP_WC_SUCCESS);
    }
    struct iwarp_qp_stats stats = {.size = sizeof stats};
    while (stats.messages_waited < 2) {
        must(iwarp_qp_stats(more[1], &stats));
        progress_sleep(1000);
    }
    pair_srq_recv(b, 11, 0, 16);
    assert_ptr_equal(pair_wc(b->recv_cq, 11, IWARP_WC_SUCCESS).qp, b->qp);
    for (unsigned i = 12; i < 14; i++) { /* one kick, two messages; the first one waits no more */
        pair_srq_recv(b, i, 0, 16);
    }
    for (unsigned i = 12; i < 14; i++) {
        assert_ptr_equal(pair_wc(b->recv_cq, i, IWARP_WC_SUCCESS).qp, more[1]);
    }
    (void)q;
    for (unsigned i = 0; i < 2; i++) {
        must(iwarp_conn_destroy(conn[i]));
        must(iwarp_qp_destroy(more[i]));
    }
    pair_close(&p);
}

/* Whoever waits at the head of the queue and goes away does not take the wake-up of the others with
 * it. */
static void srq__the_first_that_waits_goes_away__the_next_is_served(void **state)
{
    (void)state;
    for (unsigned how = 0; how < 3; how++) {
        struct pair_options o;
        struct pair p;
        options(&o, PAIR_TCP4, true, LONG_MS);
        pair_open(&p, &o);
        struct pair_side *b = &p.side[1];
        struct iwarp_qp_options qp = o.qp;
        struct iwarp_qp *more[2];
        struct iwarp_conn *conn[2];
        qp.send_cq = b->send_cq;
        qp.recv_cq = b->recv_cq;
        qp.srq = b->srq;
        for (unsigned i = 0; i < 2; i++) {
            must(iwarp_qp_create(b->pd, &qp, &more[i]));
        }
        must(iwarp_connect_pair(more[0], more[1], &o.conn[0], NULL, &conn[0], &conn[1]));
        must(iwarp_conn_wait(conn[0], PAIR_WAIT_MS));
        struct iwarp_sge sge = pair_sge(b, 100, 16);
        struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, 2, &sge);
        must(iwarp_post_send(more[0], &wr, NULL));
        struct iwarp_qp_stats stats = {.size = sizeof stats};
        while (stats.messages_waited < 1) {
            must(iwarp_qp_stats(more[1], &stats));
            progress_sleep(1000);
        }
        pair_send(&p.side[0], 1, 0, 8);
        await_waiting(b, 1);
        if (how == 0) {
            must(iwarp_abort(conn[1]));
        } else if (how == 1) {
            must(iwarp_qp_destroy(more[1]));
            more[1] = NULL;
        } else {
            must(iwarp_disconnect(conn[1]));
        }
        pair_srq_recv(b, 11, 0, 16);
        assert_ptr_equal(pair_wc(b->recv_cq, 11, IWARP_WC_SUCCESS).qp, b->qp);
        for (unsigned i = 0; i < 2; i++) {
            must(iwarp_conn_destroy(conn[i]));
            if (more[i]) {
                must(iwarp_qp_destroy(more[i]));
            }
        }
        pair_close(&p);
    }
}

/* --- the time, and the option ------------------------------------------------------------------
 */

static void expect_end(struct pair *p, enum iwarp_fault_code code, const char *part)
{
    char text[512];

    must(iwarp_conn_wait_end(p->side[1].conn, PAIR_WAIT_MS));
    const struct iwarp_fault *fault = iwarp_conn_fault(p->side[1].conn);
    assert_int_equal(iwarp_fault_code(fault), code);
    iwarp_fault_text(fault, text, sizeof text);
    assert_non_null(strstr(text, part));
    must(iwarp_conn_wait_end(p->side[0].conn, PAIR_WAIT_MS));
    fault = iwarp_conn_fault(p->side[0].conn);
    assert_int_equal(iwarp_fault_code(fault), IWARP_FAULT_PEER_TERMINATE);
    iwarp_fault_text(fault, text, sizeof text);
    assert_non_null(strstr(text, "(DDP_NO_BUFFER)"));
}

static void time__is_over__ends_by_the_terminate(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * PAIR_TRANSPORTS; i++) {
        struct iwarp_device_stats stats = {.size = sizeof stats};
        struct pair_options o;
        struct pair p;
        options(&o, (enum pair_transport)(i % PAIR_TRANSPORTS), i >= PAIR_TRANSPORTS, 120);
        pair_open(&p, &o);
        int64_t begun = now_ms();
        pair_send(&p.side[0], 1, 0, 100);
        expect_end(&p, IWARP_FAULT_DDP_WAITED, "message 1 of queue 0 came with no receive posted");
        assert_true(now_ms() - begun >= 119);
        must(iwarp_device_stats(p.device, &stats));
        assert_int_equal(stats.messages_waited, 1);
        assert_int_equal(stats.receive_queue_empty, 1);
        assert_int_equal(stats.buffer_bytes, 0);
        pair_close(&p);
    }
}

/* The time begins anew with each message. */
static void time__of_the_second_message__begins_when_it_is_the_oldest(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    options(&o, PAIR_TCP4, false, 1500);
    pair_open(&p, &o);
    pair_send(&p.side[0], 1, 0, 100);
    pair_send(&p.side[0], 2, 0, 100);
    await_waiting(&p.side[1], 2);
    progress_sleep(1000000);
    receive(&p.side[1], 11, 0, 100);
    pair_wc(p.side[1].recv_cq, 11, IWARP_WC_SUCCESS);
    progress_sleep(1000000);
    assert_null(iwarp_conn_fault(p.side[1].conn));
    receive(&p.side[1], 12, 0, 100);
    pair_wc(p.side[1].recv_cq, 12, IWARP_WC_SUCCESS);
    pair_close(&p);
}

/* Of the connection, of the device, of the environment; none is the default. */
static void time__by_each_option__is_what_was_waited(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct pair_options o;
        struct pair p;
        if (i == 2) {
            setenv("IWARP_RNR_TIMEOUT", "90", 1);
        }
        options(&o, PAIR_TCP4, false, i == 1 ? 90 : IWARP_RNR_OF_DEVICE);
        if (i == 3) {
            o.device.rnr_timeout_ms = 90;
        }
        pair_open(&p, &o);
        unsetenv("IWARP_RNR_TIMEOUT");
        pair_send(&p.side[0], 1, 0, 100);
        expect_end(&p, i == 0 ? IWARP_FAULT_DDP_NO_BUFFER : IWARP_FAULT_DDP_WAITED,
                   "came with no receive posted");
        pair_close(&p);
    }
}

/* Longer for one that waits, then shorter for the next one that waits. */
static void time__set_while_a_message_waits__holds_for_it(void **state)
{
    enum { FIRST_MS = 3000 };

    (void)state;
    for (unsigned srq = 0; srq < 2; srq++) {
        struct pair_options o;
        struct pair p;
        options(&o, PAIR_TCP4, srq, FIRST_MS);
        pair_open(&p, &o);
        pair_send(&p.side[0], 1, 0, 100);
        await_waiting(&p.side[1], 1);
        int64_t waits = now_ms();
        must(iwarp_conn_set_rnr_timeout(p.side[1].conn, LONG_MS));
        while (now_ms() - waits < FIRST_MS + 200) {
            progress_sleep(20000);
        }
        receive(&p.side[1], 11, 0, 100);
        pair_wc(p.side[1].recv_cq, 11, IWARP_WC_SUCCESS);
        pair_send(&p.side[0], 2, 0, 100);
        await_waiting(&p.side[1], 2);
        waits = now_ms();
        must(iwarp_conn_set_rnr_timeout(p.side[1].conn, 120));
        expect_end(&p, IWARP_FAULT_DDP_WAITED, "message 2 of queue 0 came with no receive posted");
        assert_true(now_ms() - waits < LONG_MS / 2);
        pair_close(&p);
    }
}

/* --- ends while a message waits ----------------------------------------------------------------
 */

enum ending { PEER_CLOSES, PEER_ABORTS, PEER_VANISHES, CLOSES, ABORTS, DESTROYS, ENDINGS };

static void end_by(struct pair *p, enum ending how)
{
    struct pair_side *a = &p->side[0], *b = &p->side[1];

    switch (how) {
    case PEER_CLOSES:
        must(iwarp_disconnect(a->conn));
        break;
    case PEER_ABORTS:
        must(iwarp_abort(a->conn));
        break;
    case PEER_VANISHES:
        must(iwarp_conn_destroy(a->conn));
        a->conn = NULL;
        break;
    case CLOSES:
        must(iwarp_disconnect(b->conn));
        break;
    case ABORTS:
        must(iwarp_abort(b->conn));
        break;
    case DESTROYS:
    case ENDINGS:
        must(iwarp_qp_destroy(b->qp));
        b->qp = NULL;
        must(iwarp_conn_destroy(b->conn));
        b->conn = NULL;
        break;
    }
}

/* Every end is noticed long before the time is over, with much or little waiting. */
static void end__while_a_message_waits__is_noticed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * ENDINGS; i++) {
        enum ending how = (enum ending)(i / 2);
        struct pair_options o;
        struct pair p;
        options(&o, PAIR_TCP4, false, LONG_MS);
        o.conn[0].close_timeout_ms = o.conn[1].close_timeout_ms = 1000;
        o.conn[1].rnr_bytes = i % 2 ? 1 : 100000; /* full, or not */
        pair_open(&p, &o);
        int64_t begun = now_ms();
        pair_send(&p.side[0], 1, 0, 1000);
        pair_wc(p.side[0].send_cq, 1, IWARP_WC_SUCCESS);
        await_waiting(&p.side[1], 1);
        end_by(&p, how);
        if (how != DESTROYS) {
            must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
        }
        if (how == CLOSES) {
            assert_null(iwarp_conn_fault(p.side[1].conn));
        }
        if (p.side[0].conn) {
            must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
        }
        assert_true(now_ms() - begun < LONG_MS / 2);
        pair_close(&p);
    }
}

/* A peer that sends and closes in order has its messages delivered to receives that come soon. */
static void peer_closes__and_a_receive_comes__it_takes_the_message(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct pair_options o;
        struct pair p;
        options(&o, PAIR_TCP4, false, LONG_MS);
        o.conn[0].close_timeout_ms = o.conn[1].close_timeout_ms = LONG_MS / 2;
        o.conn[1].rnr_bytes = i ? 1 : 100000;
        pair_open(&p, &o);
        for (unsigned k = 0; k < 3; k++) {
            pair_send(&p.side[0], k, 0, 1000);
            pair_wc(p.side[0].send_cq, k, IWARP_WC_SUCCESS);
        }
        await_waiting(&p.side[1], i ? 1 : 3);
        must(iwarp_disconnect(p.side[0].conn));
        for (unsigned k = 0; k < 3; k++) {
            progress_sleep(20000);
            receive(&p.side[1], 10 + k, 0, 1000);
            pair_wc(p.side[1].recv_cq, 10 + k, IWARP_WC_SUCCESS);
        }
        must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
        assert_null(iwarp_conn_fault(p.side[1].conn));
        pair_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends__before_their_receives__are_taken_as_these_come),
        cmocka_unit_test(sends__more_than_may_be_held__arrive_all_the_same),
        cmocka_unit_test(read__behind_a_send_that_waits__completes),
        cmocka_unit_test(srq__of_two_that_wait__serves_them_in_turn),
        cmocka_unit_test(srq__the_first_that_waits_goes_away__the_next_is_served),
        cmocka_unit_test(time__is_over__ends_by_the_terminate),
        cmocka_unit_test(time__of_the_second_message__begins_when_it_is_the_oldest),
        cmocka_unit_test(time__by_each_option__is_what_was_waited),
        cmocka_unit_test(time__set_while_a_message_waits__holds_for_it),
        cmocka_unit_test(end__while_a_message_waits__is_noticed),
        cmocka_unit_test(peer_closes__and_a_receive_comes__it_takes_the_message),
    };

    return cmocka_run_group_tests_name("pair_wait", tests, NULL, NULL);
}
