/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections in memory that refer to what is sent until the peer has read it, and say so late
 * (IWARP_FAULTS=lend): work requests complete then and not before, and memory that is deregistered
 * in between ends that stream alone. The test runs the loop itself, so nobody reads meanwhile.
 *
 * `make test-lent` runs all tests of pairs so.
 */
#include "base/fault.h"
#include "base/limits.h"
#include "verbs_pair.h"

#include <stdlib.h>
#include <uv.h>

#define LARGE 60000u

struct scene {
    uv_loop_t loop;
    struct pair pair;
    struct pair_side other[2]; /* a connection of the same device */
};

static void connect_sides(struct scene *s, struct pair_side *a, struct pair_side *b)
{
    must(iwarp_connect_pair(a->qp, b->qp, &s->pair.options.conn[0], NULL, &a->conn, &b->conn));
    must(iwarp_conn_wait(a->conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait(b->conn, PAIR_WAIT_MS));
}

static void open_scene(struct scene *s, uint64_t seed)
{
    struct pair_options o;
    char text[64];

    memset(s, 0, sizeof *s);
    snprintf(text, sizeof text, "lend=1-3000,seed=%llu", (unsigned long long)seed);
    assert_int_equal(setenv("IWARP_FAULTS", text, 1), 0);
    assert_int_equal(uv_loop_init(&s->loop), 0);
    pair_options_init(&o, PAIR_MEMORY);
    o.memory = 2 * LARGE;
    o.qp.max_inline = IWARP_MAX_INLINE;
    o.device.progress = IWARP_PROGRESS_EMBEDDED;
    o.device.loop = &s->loop;
    s->pair.options = o;
    must(iwarp_device_open(&o.device, &s->pair.device));
    for (int i = 0; i < 2; i++) {
        pair_side_open(&s->pair.side[i], s->pair.device, &o);
        pair_side_open(&s->other[i], s->pair.device, &o);
    }
    connect_sides(s, &s->pair.side[0], &s->pair.side[1]);
    connect_sides(s, &s->other[0], &s->other[1]);
}

static void close_scene(struct scene *s)
{
    for (int i = 0; i < 2; i++) {
        pair_side_close(&s->pair.side[i]);
        pair_side_close(&s->other[i]);
    }
    must(iwarp_device_close(s->pair.device));
    while (uv_run(&s->loop, UV_RUN_DEFAULT)) {
    }
    assert_int_equal(uv_loop_close(&s->loop), 0);
    unsetenv("IWARP_FAULTS");
}

/* What is sent is read from its memory as long as the request is not complete. */
static void request__completes_when_its_memory_is_free(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct scene s;
        struct iwarp_wc wc;
        unsigned late = 0;
        open_scene(&s, seed);
        struct pair_side *a = &s.pair.side[0], *b = &s.pair.side[1];
        pair_fill(a->p, LARGE, seed);
        pair_recv(b, 1, 0, LARGE);
        pair_send(a, 2, 0, LARGE);
        assert_int_equal(iwarp_cq_poll(a->send_cq, &wc, 1), 0); /* nobody has read */
        while (iwarp_cq_poll(a->send_cq, &wc, 1) == 0) {
            uv_run(&s.loop, UV_RUN_NOWAIT);
            late++;
        }
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
        memset(a->p, 0xee, LARGE); /* the application's again */
        (void)pair_wc(b->recv_cq, 1, IWARP_WC_SUCCESS);
        pair_fill(a->p, LARGE, seed);
        assert_memory_equal(a->p, b->p, LARGE);
        assert_true(late > 0);
        close_scene(&s);
    }
}

/* Of half of it, too: it must not go on, and it was not lost in silence. */
static void memory__deregistered_while_referred_to__ends_that_stream_only(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct scene s;
        struct iwarp_mr *mr = NULL;
        open_scene(&s, seed);
        struct pair_side *a = &s.pair.side[0], *b = &s.pair.side[1];
        uint8_t *p = malloc(LARGE);
        assert_non_null(p);
        must(iwarp_mr_register(a->pd, p, LARGE, PAIR_ALL, &mr));
        struct iwarp_sge sge = {p, LARGE, iwarp_mr_stag(mr)};
        struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, 2, &sge);
        pair_recv(b, 1, 0, LARGE);
        pair_recv(&s.other[1], 3, 0, LARGE);
        must(iwarp_post_send(a->qp, &wr, NULL));
        pair_send(&s.other[0], 4, 0, LARGE);
        must(iwarp_mr_deregister(mr));
        free(p); /* a sanitizer would see whoever looks at it */
        must(iwarp_conn_wait_end(a->conn, PAIR_WAIT_MS));
        assert_int_equal(iwarp_fault_code(iwarp_conn_fault(a->conn)),
                         IWARP_FAULT_LOCAL_DEREGISTERED);
        assert_true(pair_wc(a->send_cq, 2, IWARP_WC_FLUSHED).wr_id == 2);
        must(iwarp_conn_wait_end(b->conn, PAIR_WAIT_MS));
        assert_int_equal(iwarp_fault_code(iwarp_conn_fault(b->conn)), IWARP_FAULT_TCP_LOST);
        (void)pair_wc(s.other[1].recv_cq, 3, IWARP_WC_SUCCESS);
        (void)pair_wc(s.other[0].send_cq, 4, IWARP_WC_SUCCESS);
        close_scene(&s);
    }
}

/* Registered anew for other memory: what was sent before is of the old one. */
static void memory__registered_anew_while_referred_to__ends_that_stream(void **state)
{
    struct scene s;
    struct iwarp_mr_options o;

    (void)state;
    open_scene(&s, 7);
    struct pair_side *a = &s.pair.side[0];
    pair_recv(&s.pair.side[1], 1, 0, LARGE);
    pair_send(a, 2, 0, LARGE);
    iwarp_mr_options_init(&o, a->p, 100, PAIR_ALL);
    must(iwarp_mr_reregister(a->mr, NULL, &o));
    must(iwarp_conn_wait_end(a->conn, PAIR_WAIT_MS));
    assert_int_equal(iwarp_fault_code(iwarp_conn_fault(a->conn)), IWARP_FAULT_LOCAL_DEREGISTERED);
    close_scene(&s);
}

/* The Terminate is out, and nobody has read it, nor what was sent before. */
static void terminate(struct iwarp_qp *qp)
{
    const struct iwarp_qp_changes change = {
        .size = sizeof change, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_TERMINATE};

    must(iwarp_qp_modify(qp, &change));
    assert_int_equal(iwarp_qp_state(qp), IWARP_QP_TERMINATE);
}

/* n octets came, and then the Terminate. */
static void expect_both(struct pair_side *b, size_t n)
{
    uint8_t *expected = test_malloc(n);

    pair_fill(expected, n, 1);
    must(iwarp_conn_wait_end(b->conn, PAIR_WAIT_MS));
    pair_wc(b->recv_cq, 1, IWARP_WC_SUCCESS);
    assert_memory_equal(b->p, expected, n);
    assert_int_equal(iwarp_conn_fault(b->conn)->code, IWARP_FAULT_PEER_TERMINATE);
    test_free(expected);
}

/* Once a request has completed, flushed or not, its memory is the application's. */
static void request__of_a_stream_that_ends__completes_when_its_memory_is_free(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct scene s;
        struct iwarp_wc wc;
        open_scene(&s, seed);
        struct pair_side *a = &s.pair.side[0], *b = &s.pair.side[1];
        pair_fill(a->p, LARGE, 1);
        pair_recv(b, 1, 0, LARGE);
        pair_send(a, 2, 0, LARGE);
        terminate(a->qp);
        assert_int_equal(iwarp_cq_poll(a->send_cq, &wc, 1), 0);
        while (iwarp_cq_poll(a->send_cq, &wc, 1) == 0) {
            uv_run(&s.loop, UV_RUN_NOWAIT);
        }
        memset(a->p, 0, LARGE);
        expect_both(b, LARGE);
        must(iwarp_conn_wait_end(a->conn, PAIR_WAIT_MS));
        assert_int_equal(iwarp_qp_state(a->qp), IWARP_QP_ERROR);
        close_scene(&s);
    }
}

/* Inline data lies in the send queue. That is freed before the peer has read, and the next queue
 * pair's lies there. */
static void inline_data__of_a_queue_pair_that_is_gone__arrives_as_it_was_posted(void **state)
{
    struct scene s;

    (void)state;
    open_scene(&s, 1);
    struct pair_side *a = &s.pair.side[0], *b = &s.pair.side[1];
    struct iwarp_sge sge = pair_sge(a, 0, IWARP_MAX_INLINE);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, 2, &sge);
    wr.flags |= IWARP_WR_INLINE;
    pair_fill(a->p, IWARP_MAX_INLINE, 1);
    pair_recv(b, 1, 0, IWARP_MAX_INLINE);
    must(iwarp_post_send(a->qp, &wr, NULL));
    terminate(a->qp);
    must(iwarp_qp_destroy(a->qp));
    struct iwarp_qp_options o = s.pair.options.qp;
    o.send_cq = a->send_cq;
    o.recv_cq = a->recv_cq;
    must(iwarp_qp_create(a->pd, &o, &a->qp));
    memset(a->p, 0, IWARP_MAX_INLINE);
    for (unsigned i = 0; i < o.max_send_wr; i++) {
        must(iwarp_post_send(a->qp, &wr, NULL));
    }
    expect_both(b, IWARP_MAX_INLINE);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request__completes_when_its_memory_is_free),
        cmocka_unit_test(memory__deregistered_while_referred_to__ends_that_stream_only),
        cmocka_unit_test(request__of_a_stream_that_ends__completes_when_its_memory_is_free),
        cmocka_unit_test(inline_data__of_a_queue_pair_that_is_gone__arrives_as_it_was_posted),
        cmocka_unit_test(memory__registered_anew_while_referred_to__ends_that_stream),
    };

    return cmocka_run_group_tests_name("pair_lent", tests, NULL, NULL);
}
