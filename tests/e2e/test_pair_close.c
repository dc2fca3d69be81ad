/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ends: in order from either side and from both, with work outstanding, by abort, by destroying
 * things in any order; five hundred times in a row; and that nothing is left over.
 * RFC 5040 6.2, RFC 5041 6.2.
 */
#include "octets.h"
#include "progress.h"
#include "verbs_pair.h"

#include <stdlib.h>
#include <unistd.h>

#define KIB ((size_t)1024)

static void wait_both(const struct pair *p)
{
    must(iwarp_conn_wait_end(p->side[0].conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait_end(p->side[1].conn, PAIR_WAIT_MS));
}

static void open_pair(struct pair *p, enum pair_transport transport, size_t memory)
{
    struct pair_options o;

    pair_options_init(&o, transport);
    o.memory = memory;
    pair_open(p, &o);
}

/* Nothing outstanding: no fault anywhere, receives are flushed, DISCONNECTED with OK. */
static void disconnect__while_idle__ends_in_order(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct pair p;
        open_pair(&p, i % 2 ? PAIR_TCP4 : PAIR_MEMORY, 64);
        pair_recv(&p.side[0], 1, 0, 8);
        pair_recv(&p.side[1], 2, 0, 8);
        must(iwarp_disconnect(p.side[i / 2 % 2].conn));
        if (i >= 4) {
            must(iwarp_disconnect(p.side[1].conn)); /* both */
        }
        wait_both(&p);
        for (unsigned k = 0; k < 2; k++) {
            struct pair_side *s = &p.side[k];
            struct iwarp_wc wc = pair_wc(s->recv_cq, k + 1, IWARP_WC_FLUSHED);
            assert_null(wc.fault);
            assert_null(iwarp_conn_fault(s->conn));
            assert_null(iwarp_qp_fault(s->qp));
            assert_int_equal(iwarp_qp_state(s->qp), IWARP_QP_ERROR);
            must_fail(iwarp_conn_wait(s->conn, 0), IWARP_CLOSED, "in order");
            struct iwarp_eq *eq = p.eq[p.options.transport == PAIR_MEMORY ? 0 : k];
            struct iwarp_event event = pair_event(eq, IWARP_EVENT_DISCONNECTED);
            assert_int_equal(event.status, IWARP_OK);
            assert_null(event.fault);
        }
        pair_close(&p);
    }
}

/* What was posted before is carried out: Writes, a Send and Reads, then the end. */
static void disconnect__with_work_outstanding__finishes_it_first(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct pair p;
        open_pair(&p, i % 2 ? PAIR_TCP4 : PAIR_MEMORY, 8 * 1024 * KIB);
        struct pair_side *a = &p.side[i / 2], *b = &p.side[1 - i / 2];
        pair_fill(a->p, 4 * 1024 * KIB, i);
        pair_fill(b->p + 4 * 1024 * KIB, 1024 * KIB, i + 1);
        if (i >= 2) { /* the responder may not begin (RFC 5044 7.1.2 rule 4) */
            pair_recv(a, 90, 0, 0);
            pair_send(b, 91, 0, 0);
            pair_wc(a->recv_cq, 90, IWARP_WC_SUCCESS);
        }
        pair_recv(b, 100, 0, 8);
        for (unsigned k = 0; k < 16; k++) {
            pair_write(a, k, k * 256 * KIB, 256 * KIB, b, k * 256 * KIB);
        }
        pair_read(a, 16, 4 * 1024 * KIB, 1024 * KIB, b, 4 * 1024 * KIB);
        pair_send(a, 17, 0, 8);
        must(iwarp_disconnect(a->conn));
        wait_both(&p);
        for (unsigned k = 0; k < 18; k++) {
            pair_wc(a->send_cq, k, IWARP_WC_SUCCESS);
        }
        pair_wc(b->recv_cq, 100, IWARP_WC_SUCCESS);
        assert_memory_equal(a->p, b->p, 5 * 1024 * KIB);
        assert_null(iwarp_conn_fault(a->conn));
        assert_null(iwarp_conn_fault(b->conn));
        pair_close(&p);
    }
}

/*
 * Both have much to send when both disconnect: it ends soon, and every request completes once, in
 * order. An end whose peer is done first has a fault (verbs draft 6.2.2): what it has framed still
 * goes out before its Terminate, so its Send may arrive and be flushed all the same. Without a
 * fault at that end, it was received exactly if it completed with success.
 */
static void disconnect__of_both_with_work_outstanding__ends_soon(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct pair p;
        open_pair(&p, i % 2 ? PAIR_TCP4 : PAIR_MEMORY, 4 * 1024 * KIB);
        pair_recv(&p.side[1], 90, 0, 0);
        pair_send(&p.side[0], 91, 0, 0);
        pair_wc(p.side[1].recv_cq, 90, IWARP_WC_SUCCESS);
        pair_wc(p.side[0].send_cq, 91, IWARP_WC_SUCCESS);
        for (int k = 0; k < 2; k++) {
            pair_recv(&p.side[k], 200, 0, 8);
            for (unsigned n = 0; n < 16; n++) {
                pair_write(&p.side[k], n, 0, 2048 * KIB, &p.side[1 - k], 2048 * KIB);
            }
            pair_send(&p.side[k], 16, 0, 8);
        }
        must(iwarp_disconnect(p.side[i / 2 % 2].conn));
        must(iwarp_disconnect(p.side[1 - i / 2 % 2].conn));
        wait_both(&p);
        for (int k = 0; k < 2; k++) {
            struct iwarp_wc wc = {.wr_id = 0};
            for (unsigned n = 0; n <= 16; n++) {
                assert_int_equal(iwarp_cq_wait(p.side[k].send_cq, &wc, 1, PAIR_WAIT_MS), 1);
                assert_int_equal(wc.wr_id, n);
            }
            enum iwarp_wc_status sent = wc.status;
            assert_int_equal(iwarp_cq_wait(p.side[1 - k].recv_cq, &wc, 1, PAIR_WAIT_MS), 1);
            bool fault = iwarp_conn_fault(p.side[k].conn) != NULL;
            assert_true(fault || sent == IWARP_WC_SUCCESS);
            assert_true(fault || wc.status == IWARP_WC_SUCCESS);
        }
        pair_close(&p);
    }
}

static void abort__with_work_outstanding__flushes_both_sides(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct pair p;
        open_pair(&p, i % 2 ? PAIR_TCP4 : PAIR_MEMORY, 4 * 1024 * KIB);
        struct pair_side *a = &p.side[i / 2], *b = &p.side[1 - i / 2];
        pair_recv(a, 50, 0, 8);
        pair_recv(b, 51, 0, 8);
        for (unsigned k = 0; k < 32; k++) {
            pair_write(&p.side[0], k, 0, 4 * 1024 * KIB, &p.side[1], 0);
        }
        must(iwarp_abort(a->conn));
        wait_both(&p);
        assert_int_equal(iwarp_fault_code(iwarp_conn_fault(a->conn)), IWARP_FAULT_LOCAL_ABORT);
        assert_int_equal(iwarp_fault_status(iwarp_conn_fault(a->conn)), IWARP_CLOSED);
        assert_int_equal(iwarp_fault_code(iwarp_conn_fault(b->conn)), IWARP_FAULT_TCP_LOST);
        struct iwarp_wc wc = pair_wc(a->recv_cq, 50, IWARP_WC_FLUSHED);
        assert_ptr_equal(wc.fault, iwarp_qp_fault(a->qp));
        pair_wc(b->recv_cq, 51, IWARP_WC_FLUSHED);
        for (unsigned k = 0; k < 32; k++) {
            assert_int_equal(iwarp_cq_wait(p.side[0].send_cq, &wc, 1, PAIR_WAIT_MS), 1);
            assert_int_equal(wc.wr_id, k);
        }
        assert_int_equal(wc.status, IWARP_WC_FLUSHED);
        must(iwarp_abort(a->conn)); /* again: nothing */
        must(iwarp_disconnect(a->conn));
        pair_close(&p);
    }
}

/* What is posted behind a disconnect is not carried out; nobody is to blame for it. */
/* [DDP-6.2.1-02] [DDP-6.2.1-01] */
static void post__behind_a_disconnect__is_flushed_in_order(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct pair p;
        open_pair(&p, i % 2 ? PAIR_TCP4 : PAIR_MEMORY, 64);
        struct pair_side *a = &p.side[i / 2], *b = &p.side[1 - i / 2];
        pair_recv(&p.side[1], 1, 0, 8);
        pair_send(&p.side[0], 2, 0, 8); /* behind it the responder may send, too */
        pair_wc(p.side[0].send_cq, 2, IWARP_WC_SUCCESS);
        pair_wc(p.side[1].recv_cq, 1, IWARP_WC_SUCCESS);
        for (uint64_t id = 10; id < 14; id++) {
            pair_write(a, id, 0, 64, b, 0);
        }
        must(iwarp_disconnect(a->conn));
        for (uint64_t id = 14; id < 20; id++) {
            pair_write(a, id, 0, 64, b, 0);
        }
        wait_both(&p);
        for (uint64_t id = 10; id < 20; id++) {
            struct iwarp_wc wc =
                pair_wc(a->send_cq, id, id < 14 ? IWARP_WC_SUCCESS : IWARP_WC_FLUSHED);
            assert_null(wc.fault);
        }
        assert_null(iwarp_conn_fault(a->conn));
        assert_null(iwarp_conn_fault(b->conn));
        pair_close(&p);
    }
}

/* Posting behind the end succeeds, and completes as flushed in order. */
/* [DDP-6.2.1-02] */
static void post__behind_the_end__is_flushed(void **state)
{
    struct iwarp_wc wc;
    struct pair p;

    (void)state;
    open_pair(&p, PAIR_TCP4, 64);
    must(iwarp_abort(p.side[0].conn));
    wait_both(&p);
    for (int k = 0; k < 2; k++) {
        for (uint64_t n = 0; n < 300; n++) { /* more than the queues hold */
            pair_send(&p.side[k], n, 0, 8);
            pair_recv(&p.side[k], n, 0, 8);
            wc = pair_wc(p.side[k].send_cq, n, IWARP_WC_FLUSHED);
            assert_non_null(wc.fault);
            assert_ptr_equal(wc.qp, p.side[k].qp);
            pair_wc(p.side[k].recv_cq, n, IWARP_WC_FLUSHED);
        }
    }
    pair_close(&p);
}

/* A disconnect that was asked for goes on when the handles are gone; the peer sees an orderly end.
 */
static void destroy__behind_a_disconnect__lets_it_finish(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct pair p;
        open_pair(&p, i % 2 ? PAIR_TCP4 : PAIR_MEMORY, 64);
        pair_recv(&p.side[1], 1, 0, 8);
        pair_send(&p.side[0], 2, 0, 8);
        pair_wc(p.side[0].send_cq, 2, IWARP_WC_SUCCESS);
        must(iwarp_disconnect(p.side[0].conn));
        if (i < 2) {
            must(iwarp_qp_destroy(p.side[0].qp));
            must(iwarp_conn_destroy(p.side[0].conn));
        } else {
            must(iwarp_conn_destroy(p.side[0].conn));
            must(iwarp_qp_destroy(p.side[0].qp));
        }
        p.side[0].qp = NULL;
        p.side[0].conn = NULL;
        must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
        assert_null(iwarp_conn_fault(p.side[1].conn));
        pair_wc(p.side[1].recv_cq, 1, IWARP_WC_SUCCESS);
        pair_close(&p);
    }
}

/* The peer is not told politely if the connection is destroyed while it lives. */
static void destroy__of_a_living_connection__resets_it(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct pair p;
        open_pair(&p, i % 2 ? PAIR_TCP4 : PAIR_MEMORY, 64);
        struct pair_side *a = &p.side[i / 2 % 2], *b = &p.side[1 - i / 2 % 2];
        if (i < 4) {
            must(iwarp_conn_destroy(a->conn));
            a->conn = NULL;
        } else {
            must(iwarp_qp_destroy(a->qp));
            a->qp = NULL;
            must(iwarp_conn_wait_end(a->conn, PAIR_WAIT_MS));
            assert_null(iwarp_conn_qp(a->conn));
            assert_int_equal(iwarp_fault_code(iwarp_conn_fault(a->conn)), IWARP_FAULT_LOCAL_ABORT);
        }
        must(iwarp_conn_wait_end(b->conn, PAIR_WAIT_MS));
        assert_int_equal(iwarp_fault_code(iwarp_conn_fault(b->conn)), IWARP_FAULT_TCP_LOST);
        if (i < 4) { /* the queue pair outlives it, ended */
            assert_int_equal(iwarp_qp_state(a->qp), IWARP_QP_ERROR);
            assert_int_equal(iwarp_fault_code(iwarp_qp_fault(a->qp)), IWARP_FAULT_LOCAL_ABORT);
            pair_send(a, 3, 0, 8);
            pair_wc(a->send_cq, 3, IWARP_WC_FLUSHED);
        }
        pair_close(&p);
    }
}

/* --- five hundred times ---------------------------------------------------------------------- */

static void end_somehow(struct pair_side s[2], size_t how)
{
    switch (how) {
    case 0:
    case 1:
        must(iwarp_disconnect(s[how].conn));
        must(iwarp_conn_wait_end(s[1 - how].conn, PAIR_WAIT_MS));
        break;
    case 2:
        must(iwarp_disconnect(s[0].conn));
        must(iwarp_disconnect(s[1].conn));
        break;
    case 3:
        must(iwarp_abort(s[1].conn));
        break;
    case 4:
        must(iwarp_qp_destroy(s[1].qp));
        must(iwarp_conn_destroy(s[1].conn));
        s[1].qp = NULL;
        s[1].conn = NULL;
        break;
    default:
        break; /* destroyed as it is */
    }
}

static void churn(struct pair *p, enum pair_transport transport, unsigned rounds)
{
    struct chance chance = {chance_seed()};

    for (unsigned i = 0; i < rounds; i++) {
        struct pair q = *p; /* its device, listener, queues; new sides */
        q.options.transport = transport;
        q.options.no_events = chance_one_in(&chance, 2);
        pair_side_open(&q.side[0], q.device, &q.options);
        pair_side_open(&q.side[1], q.device, &q.options);
        pair_recv(&q.side[1], 1, 0, 64);
        pair_connect(&q);
        pair_send(&q.side[0], 2, 0, 64);
        if (chance_one_in(&chance, 2)) {
            pair_wc(q.side[1].recv_cq, 1, IWARP_WC_SUCCESS);
        }
        end_somehow(q.side, chance_below(&chance, 6));
        size_t first = chance_below(&chance, 2);
        pair_side_close(&q.side[first]);
        pair_side_close(&q.side[1 - first]);
    }
}

static void connect__five_hundred_times__leaves_nothing(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    open_pair(&p, PAIR_TCP4, 64); /* libuv keeps a pipe from its first loop on */
    pair_close(&p);
    unsigned fds = pair_fd_count(), threads = pair_thread_count();
    pair_options_init(&o, PAIR_TCP4);
    o.device.workers = 4;
    o.memory = 64;
    o.cq_entries = 16;
    pair_prepare(&p, &o);
    assert_int_equal(pair_thread_count(), threads + (progress_is_embedded() ? 0 : 4));
    churn(&p, PAIR_TCP4, 350);
    churn(&p, PAIR_MEMORY, 150);
    struct iwarp_event event;
    assert_int_equal(iwarp_eq_get(p.eq[0], &event, 0), IWARP_AGAIN);
    assert_int_equal(iwarp_eq_get(p.eq[1], &event, 0), IWARP_AGAIN);
    pair_close(&p);
    assert_int_equal(pair_fd_count(), fds);
    assert_int_equal(pair_thread_count(), threads);
}

/* Connections that still wait for a FIN that nobody sends end with the device. */
static void device_close__while_closes_linger__leaves_nothing(void **state)
{
    unsigned fds = 0, threads = 0;

    (void)state;
    for (unsigned i = 0; i < 50; i++) {
        struct pair p;
        fds = i == 1 ? pair_fd_count() : fds;
        threads = i == 1 ? pair_thread_count() : threads;
        open_pair(&p, i % 2 ? PAIR_TCP4 : PAIR_MEMORY, 64);
        must(iwarp_disconnect(p.side[i / 2 % 2].conn));
        pair_close(&p); /* destroys the rest at once */
    }
    assert_int_equal(pair_fd_count(), fds);
    assert_int_equal(pair_thread_count(), threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disconnect__while_idle__ends_in_order),
        cmocka_unit_test(disconnect__with_work_outstanding__finishes_it_first),
        cmocka_unit_test(disconnect__of_both_with_work_outstanding__ends_soon),
        cmocka_unit_test(abort__with_work_outstanding__flushes_both_sides),
        cmocka_unit_test(post__behind_a_disconnect__is_flushed_in_order),
        cmocka_unit_test(post__behind_the_end__is_flushed),
        cmocka_unit_test(destroy__behind_a_disconnect__lets_it_finish),
        cmocka_unit_test(destroy__of_a_living_connection__resets_it),
        cmocka_unit_test(connect__five_hundred_times__leaves_nothing),
        cmocka_unit_test(device_close__while_closes_linger__leaves_nothing),
    };

    return cmocka_run_group_tests_name("pair_close", tests, NULL, NULL);
}
