/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: bounds, order, several queue pairs and threads on one, the limit event,
 * what a stream that ends takes with it, and what it leaves.
 */
#include "alloc_fault.h"
#include "verbs/conn.h"
#include "verbs/qp.h"
#include "verbs/srq.h"
#include "verbs_pair.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static void expect_counts(struct iwarp_srq *srq, unsigned posted, unsigned in_use, unsigned limit)
{
    struct iwarp_srq_info info = {.size = sizeof info};

    must(iwarp_srq_query(srq, &info));
    assert_int_equal(info.posted, posted);
    assert_int_equal(info.in_use, in_use);
    assert_int_equal(info.limit, limit);
}

static void create__with_impossible_options__is_misuse(void **state)
{
    struct iwarp_srq_info info = {.size = 4};
    struct iwarp_srq *srq = NULL;
    struct iwarp_srq_options o;
    struct pair_options po;
    struct pair p;

    (void)state;
    pair_options_init(&po, PAIR_MEMORY);
    pair_prepare(&p, &po);
    must_fail(iwarp_srq_create(p.side[0].pd, NULL, &srq), IWARP_MISUSE, "options_init");
    static const struct iwarp_srq_options bad[] = {{.max_wr = 0, .max_sge = 1},
                                                   {.max_wr = 65537, .max_sge = 1},
                                                   {.max_wr = 1, .max_sge = 0},
                                                   {.max_wr = 1, .max_sge = 33},
                                                   {.max_wr = 4, .max_sge = 1, .limit = 5}};
    static const char *const part[] = {"max_wr is 0", "max_wr is 65537", "0 SGEs", "33 SGEs",
                                       "limit is 5"};
    for (size_t i = 0; i < 5; i++) {
        o = bad[i];
        must_fail(iwarp_srq_create(p.side[0].pd, &o, &srq), IWARP_MISUSE, "options_init");
        o.size = sizeof o;
        must_fail(iwarp_srq_create(p.side[0].pd, &o, &srq), IWARP_MISUSE, part[i]);
    }
    iwarp_srq_options_init(&o);
    for (unsigned i = 1; i <= 2; i++) {
        alloc_fault_at(i);
        must_fail(iwarp_srq_create(p.side[0].pd, &o, &srq), IWARP_NO_MEMORY, "1024 entries");
        alloc_fault_at(0);
    }
    assert_null(srq);
    o.user = &o;
    must(iwarp_srq_create(p.side[0].pd, &o, &srq));
    assert_ptr_equal(iwarp_srq_user(srq), &o);
    must_fail(iwarp_srq_query(srq, &info), IWARP_MISUSE, "set size");
    must_fail(iwarp_srq_modify(srq, 1025), IWARP_MISUSE, "1024 entries");
    must_fail(iwarp_pd_destroy(p.side[0].pd), IWARP_MISUSE, "SRQs");
    must(iwarp_srq_destroy(srq));
    pair_close(&p);
}

static void post__more_than_it_holds__is_again(void **state)
{
    const struct iwarp_recv_wr bad_sge = {.num_sge = 5}, no_list = {.num_sge = 1};
    struct iwarp_recv_wr wr[4] = {{.wr_id = 1}, {.wr_id = 2}, {.wr_id = 3}, {.wr_id = 4}};
    const struct iwarp_recv_wr *at = NULL;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.srq = 3;
    pair_prepare(&p, &o);
    for (int i = 0; i < 3; i++) {
        wr[i].next = &wr[i + 1];
    }
    must_fail(iwarp_srq_post_recv(p.side[0].srq, &bad_sge, &at), IWARP_MISUSE, "5 SGEs, the SRQ");
    assert_ptr_equal(at, &bad_sge);
    must_fail(iwarp_srq_post_recv(p.side[0].srq, &no_list, NULL), IWARP_MISUSE, "NULL");
    must_fail(iwarp_srq_post_recv(p.side[0].srq, wr, &at), IWARP_AGAIN, "3 receives");
    assert_ptr_equal(at, &wr[3]);
    expect_counts(p.side[0].srq, 3, 3, 0);
    must_fail(iwarp_post_recv(p.side[0].qp, wr, &at), IWARP_MISUSE, "SRQ");
    must_fail(iwarp_srq_destroy(p.side[0].srq), IWARP_MISUSE, "1 queue pairs");
    pair_close(&p);
}

/* Round and round, so that entries are used again; full means posted or not yet completed. */
static void receive__through_an_srq__works_as_through_a_queue_of_its_own(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    for (int t = 0; t < PAIR_TRANSPORTS; t++) {
        pair_options_init(&o, (enum pair_transport)t);
        o.srq = 4;
        pair_open(&p, &o);
        for (uint64_t turn = 0; turn < 10; turn++) {
            for (uint64_t i = 0; i < 3; i++) {
                pair_srq_recv(&p.side[1], turn * 3 + i, (size_t)i * 512, 512);
            }
            for (uint64_t i = 0; i < 3; i++) {
                pair_fill(p.side[0].p, 300, turn * 3 + i);
                pair_send(&p.side[0], i, 0, 300);
                pair_wc(p.side[0].send_cq, i, IWARP_WC_SUCCESS);
                struct iwarp_wc wc = pair_wc(p.side[1].recv_cq, turn * 3 + i, IWARP_WC_SUCCESS);
                assert_int_equal(wc.byte_len, 300);
                assert_ptr_equal(wc.qp, p.side[1].qp);
                assert_memory_equal(p.side[1].p + i * 512, p.side[0].p, 300);
            }
            expect_counts(p.side[1].srq, 0, 0, 0);
        }
        pair_close(&p);
    }
}

/* [SEC-6.4.3.1-01] [DDP-8.3.2-06] [RDMAP-8.1.2-08] */
static void limit__fewer_posted__tells_once(void **state)
{
    struct iwarp_async_event event;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.srq = 8;
    pair_open(&p, &o);
    for (uint64_t i = 0; i < 5; i++) {
        pair_srq_recv(&p.side[1], i, 0, 64);
    }
    must(iwarp_srq_modify(p.side[1].srq, 3));
    for (uint64_t i = 0; i < 3; i++) {
        expect_counts(p.side[1].srq, (unsigned)(5 - i), (unsigned)(5 - i), 3);
        must_fail(iwarp_async_get(p.device, &event, 0), IWARP_AGAIN, "no asynchronous");
        pair_send(&p.side[0], i, 0, 8);
        pair_wc(p.side[1].recv_cq, i, IWARP_WC_SUCCESS);
    }
    event = pair_async(&p, IWARP_ASYNC_SRQ_LIMIT); /* 2 are left */
    assert_ptr_equal(event.srq, p.side[1].srq);
    assert_ptr_equal(event.user, &p.side[1]);
    assert_null(event.qp);
    assert_null(event.cq);
    expect_counts(p.side[1].srq, 2, 2, 0);
    pair_send(&p.side[0], 3, 0, 8);
    pair_wc(p.side[1].recv_cq, 3, IWARP_WC_SUCCESS);
    must_fail(iwarp_async_get(p.device, &event, 0), IWARP_AGAIN, "no asynchronous"); /* once */
    must(iwarp_srq_modify(p.side[1].srq, 1)); /* as many as there are: not fewer */
    must_fail(iwarp_async_get(p.device, &event, 0), IWARP_AGAIN, "no asynchronous");
    must(iwarp_srq_modify(p.side[1].srq, 2)); /* so already */
    expect_counts(p.side[1].srq, 1, 1, 0);
    struct iwarp_async_event second = pair_async(&p, IWARP_ASYNC_SRQ_LIMIT);
    iwarp_async_ack(&second);
    must(iwarp_srq_modify(p.side[1].srq, 1));
    must(iwarp_srq_modify(p.side[1].srq, 0)); /* taken back */
    pair_send(&p.side[0], 4, 0, 8);
    pair_wc(p.side[1].recv_cq, 4, IWARP_WC_SUCCESS);
    must_fail(iwarp_async_get(p.device, &event, 0), IWARP_AGAIN, "no asynchronous");
    iwarp_async_ack(&second); /* that of the first one: it names the same */
    pair_close(&p);
}

/* Nothing there: Terminate 1/2/02, the sender learns it. Other entries stay where they are. */
static void send__srq_empty__ends_the_stream(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    for (int t = 0; t < PAIR_TRANSPORTS; t++) {
        pair_options_init(&o, (enum pair_transport)t);
        o.srq = 4;
        pair_open(&p, &o);
        pair_send(&p.side[0], 7, 0, 8);
        must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
        must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
        assert_int_equal(iwarp_fault_code(iwarp_conn_fault(p.side[1].conn)),
                         IWARP_FAULT_DDP_NO_BUFFER);
        assert_int_equal(iwarp_fault_code(iwarp_conn_fault(p.side[0].conn)),
                         IWARP_FAULT_PEER_TERMINATE);
        expect_counts(p.side[1].srq, 0, 0, 0);
        pair_no_wc(p.side[1].recv_cq);
        pair_close(&p);
    }
}

/* A message of two segments of which one came: its receive is flushed, the other two stay. */
static void end__in_the_middle_of_a_message__flushes_what_was_taken(void **state)
{
    struct iwarp_wc wc;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.srq = 4;
    o.memory = 1 << 20;
    pair_open(&p, &o);
    pair_srq_recv(&p.side[1], 1, 0, 1 << 20);
    pair_srq_recv(&p.side[1], 2, 0, 64);
    pair_srq_recv(&p.side[1], 3, 0, 64);
    struct iwarp_sge sge[2] = {pair_sge(&p.side[0], 0, 1 << 19), {p.side[0].p, 8, 0x00999900}};
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, 9, sge);
    wr.num_sge = 2; /* the second is wrong: the message never ends */
    must(iwarp_post_send(p.side[0].qp, &wr, NULL));
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    wc = pair_wc(p.side[1].recv_cq, 1, IWARP_WC_FLUSHED);
    assert_ptr_equal(wc.qp, p.side[1].qp);
    pair_no_wc(p.side[1].recv_cq);
    expect_counts(p.side[1].srq, 2, 2, 0);
    must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
    bool last[2] = {false, false};
    for (int i = 0; i < 4; i++) { /* each side: how it ended, then that nothing more is taken */
        struct iwarp_async_event event;
        must(iwarp_async_get(p.device, &event, PAIR_WAIT_MS));
        int side = event.qp == p.side[1].qp;
        assert_ptr_equal(event.user, &p.side[side]);
        if (event.type == IWARP_ASYNC_QP_LAST_WQE) {
            last[side] = true;
        } else {
            assert_false(last[side]);
            assert_int_equal(event.type, side ? IWARP_ASYNC_QP_TERMINATED : IWARP_ASYNC_QP_FATAL);
        }
        iwarp_async_ack(&event);
    }
    assert_true(last[0] && last[1]);
    pair_close(&p);
}

/* Nothing is taken of the SRQ any more, and a queue pair that was never connected says so, too. */
static void error__of_a_queue_pair_without_a_connection__is_its_last(void **state)
{
    const struct iwarp_qp_changes changes = {
        .size = sizeof changes, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_ERROR};
    struct iwarp_async_event event;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.srq = 4;
    pair_prepare(&p, &o);
    pair_srq_recv(&p.side[0], 1, 0, 64);
    must(iwarp_qp_modify(p.side[0].qp, &changes));
    must(iwarp_async_get(p.device, &event, 0));
    assert_int_equal(event.type, IWARP_ASYNC_QP_LAST_WQE);
    assert_ptr_equal(event.qp, p.side[0].qp);
    iwarp_async_ack(&event);
    expect_counts(p.side[0].srq, 1, 1, 0);
    pair_close(&p);
}

/* --- many on one ----------------------------------------------------------------------------- */

#define PAIRS    6u
#define MESSAGES 400u
#define SLOTS    64u

struct many {
    struct pair p;                 /* its queue pairs are not connected */
    struct iwarp_qp *qp[2][PAIRS]; /* senders, receivers */
    struct iwarp_conn *conn[2][PAIRS];
};

static void many_open(struct many *m)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_MEMORY);
    o.srq = SLOTS;
    o.device.workers = 3;
    pair_prepare(&m->p, &o);
    for (unsigned i = 0; i < PAIRS; i++) {
        for (int k = 0; k < 2; k++) {
            struct iwarp_qp_options q = o.qp;
            q.send_cq = m->p.side[k].send_cq;
            q.recv_cq = m->p.side[k].recv_cq;
            q.srq = k ? m->p.side[1].srq : NULL;
            q.user = (void *)(uintptr_t)i;
            must(iwarp_qp_create(m->p.side[k].pd, &q, &m->qp[k][i]));
        }
        must(iwarp_connect_pair(m->qp[0][i], m->qp[1][i], NULL, NULL, &m->conn[0][i],
                                &m->conn[1][i]));
        must(iwarp_conn_wait(m->conn[0][i], PAIR_WAIT_MS));
        must(iwarp_conn_wait(m->conn[1][i], PAIR_WAIT_MS));
    }
}

static void many_close(struct many *m)
{
    for (unsigned i = 0; i < PAIRS; i++) {
        for (int k = 0; k < 2; k++) {
            must(iwarp_conn_destroy(m->conn[k][i]));
            if (m->qp[k][i]) {
                must(iwarp_qp_destroy(m->qp[k][i]));
            }
        }
    }
    pair_close(&m->p);
}

/* Each message says its queue pair and number, and waits until fewer than SLOTS are on the way. */
struct sender {
    struct many *m;
    unsigned pair;
    _Atomic unsigned *credit;
};

static void *send_all(void *arg)
{
    struct sender *s = arg;
    struct iwarp_qp *qp = s->m->qp[0][s->pair];

    for (uint32_t n = 0; n < MESSAGES; n++) {
        uint32_t text[2] = {s->pair, n};
        struct iwarp_sge sge = {text, sizeof text, 0};
        const struct iwarp_send_wr wr = {
            .opcode = IWARP_WR_SEND, .flags = IWARP_WR_INLINE, .sg_list = &sge, .num_sge = 1};
        for (;;) {
            unsigned c = atomic_load(s->credit);
            if (c > 0 && atomic_compare_exchange_weak(s->credit, &c, c - 1)) {
                break;
            }
            if (c == 0) {
                usleep(200);
            }
        }
        while (iwarp_post_send(qp, &wr, NULL) == IWARP_AGAIN) {
            usleep(200);
        }
    }
    return NULL;
}

static void post_slot(struct pair_side *s, uint64_t slot)
{
    pair_srq_recv(s, slot, (size_t)slot * 8, 8);
}

static void several_queue_pairs__on_one_srq__share_its_entries(void **state)
{
    _Atomic unsigned credit = SLOTS;
    struct sender sender[PAIRS];
    pthread_t thread[PAIRS];
    uint32_t next[PAIRS] = {0};
    struct many m;

    (void)state;
    many_open(&m);
    for (uint64_t i = 0; i < SLOTS; i++) {
        post_slot(&m.p.side[1], i);
    }
    for (unsigned i = 0; i < PAIRS; i++) {
        sender[i] = (struct sender){&m, i, &credit};
        assert_int_equal(pthread_create(&thread[i], NULL, send_all, &sender[i]), 0);
    }
    for (unsigned n = 0; n < PAIRS * MESSAGES; n++) {
        struct iwarp_wc wc;
        uint32_t text[2];
        assert_int_equal(iwarp_cq_wait(m.p.side[1].recv_cq, &wc, 1, PAIR_WAIT_MS), 1);
        assert_int_equal(wc.status, IWARP_WC_SUCCESS);
        assert_int_equal(wc.byte_len, 8);
        memcpy(text, m.p.side[1].p + wc.wr_id * 8, 8);
        assert_true(text[0] < PAIRS);
        assert_ptr_equal(wc.qp, m.qp[1][text[0]]);
        assert_int_equal(text[1], next[text[0]]++); /* per queue pair in order */
        post_slot(&m.p.side[1], wc.wr_id);
        atomic_fetch_add(&credit, 1);
    }
    for (unsigned i = 0; i < PAIRS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(next[i], MESSAGES);
    }
    expect_counts(m.p.side[1].srq, SLOTS, SLOTS, 0);
    /* One goes, with its completions; the others are not touched. */
    must(iwarp_qp_destroy(m.qp[1][0]));
    m.qp[1][0] = NULL;
    expect_counts(m.p.side[1].srq, SLOTS, SLOTS, 0);
    uint32_t text[2] = {1, 77};
    struct iwarp_sge sge = {text, sizeof text, 0};
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_SEND, 1, &sge);
    wr.flags = IWARP_WR_INLINE;
    must(iwarp_post_send(m.qp[0][1], &wr, NULL));
    struct iwarp_wc wc;
    assert_int_equal(iwarp_cq_wait(m.p.side[1].recv_cq, &wc, 1, PAIR_WAIT_MS), 1);
    assert_ptr_equal(wc.qp, m.qp[1][1]);
    many_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create__with_impossible_options__is_misuse),
        cmocka_unit_test(post__more_than_it_holds__is_again),
        cmocka_unit_test(receive__through_an_srq__works_as_through_a_queue_of_its_own),
        cmocka_unit_test(limit__fewer_posted__tells_once),
        cmocka_unit_test(send__srq_empty__ends_the_stream),
        cmocka_unit_test(end__in_the_middle_of_a_message__flushes_what_was_taken),
        cmocka_unit_test(error__of_a_queue_pair_without_a_connection__is_its_last),
        cmocka_unit_test(several_queue_pairs__on_one_srq__share_its_entries),
    };

    return cmocka_run_group_tests_name("srq", tests, NULL, NULL);
}
