/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Immediate Data between two queue pairs, over every transport, with receives of their own and of
 * an SRQ: a Write with it is one request here and one receive there, which comes when the Write is
 * in place; and what the option rfc7306 does to it. RFC 7306 6.
 */
#include "progress.h"
#include "verbs_pair.h"

#include <stdlib.h>

#define LEN 100000u

static void receive_one(struct pair_side *s, uint64_t id, bool srq)
{
    if (srq) {
        pair_srq_recv(s, id, 0, 0);
    } else {
        pair_recv(s, id, 0, 0);
    }
}

static void expect_imm(struct pair_side *s, uint64_t id, uint64_t imm, unsigned flags, size_t len)
{
    struct iwarp_wc wc = pair_wc(s->recv_cq, id, IWARP_WC_SUCCESS);

    assert_int_equal(wc.opcode, IWARP_WC_RECV);
    assert_int_equal(wc.flags, IWARP_WC_WITH_IMM | flags);
    assert_true(wc.imm == imm);
    assert_int_equal(wc.byte_len, len);
}

/* Both kinds one way: a Write of LEN octets with it, Immediate Data alone, and a Send. */
static void exchange(struct pair_side *a, struct pair_side *b, bool srq, uint64_t seed)
{
    struct iwarp_sge sge = pair_sge(a, 0, LEN);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_WRITE_IMM, 1, &sge);

    pair_fill(a->p, LEN, seed);
    memset(b->p + LEN, 0xee, LEN);
    for (uint64_t id = 11; id < 14; id++) {
        receive_one(b, id, srq);
    }
    wr.imm = 0xaabbccdd;
    wr.remote_stag = iwarp_mr_stag(b->mr);
    wr.remote_to = (uint64_t)(uintptr_t)b->p + LEN;
    must(iwarp_post_send(a->qp, &wr, NULL));
    expect_imm(b, 11, 0xaabbccdd, 0, LEN);
    assert_memory_equal(b->p + LEN, a->p, LEN);
    struct iwarp_wc wc = pair_wc(a->send_cq, 1, IWARP_WC_SUCCESS);
    assert_int_equal(wc.opcode, IWARP_WC_WRITE);
    assert_int_equal(wc.byte_len, LEN);

    wr = pair_wr(IWARP_WR_IMM, 2, NULL);
    wr.flags |= IWARP_WR_SOLICITED;
    wr.imm = 0x8000000000000001 + seed;
    must(iwarp_post_send(a->qp, &wr, NULL));
    pair_send(a, 3, 0, 0);
    expect_imm(b, 12, 0x8000000000000001 + seed, IWARP_WC_SOLICITED, 0);
    wc = pair_wc(b->recv_cq, 13, IWARP_WC_SUCCESS);
    assert_int_equal(wc.flags, 0);
    assert_true(wc.imm == 0);
    assert_int_equal(pair_wc(a->send_cq, 2, IWARP_WC_SUCCESS).opcode, IWARP_WC_IMM);
    pair_wc(a->send_cq, 3, IWARP_WC_SUCCESS);
    pair_no_wc(a->send_cq);
    pair_no_wc(b->recv_cq);
}

static void immediate__both_ways__takes_one_receive(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * PAIR_TRANSPORTS; i++) {
        bool srq = i >= PAIR_TRANSPORTS;
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, (enum pair_transport)(i % PAIR_TRANSPORTS));
        o.memory = (size_t)2 * LEN;
        o.srq = srq ? 8 : 0;
        pair_open(&p, &o);
        exchange(&p.side[0], &p.side[1], srq, i);
        exchange(&p.side[1], &p.side[0], srq, i + 100);
        pair_close(&p);
    }
}

/* Take a completion without asking for a notification. */
static void take(struct iwarp_cq *cq)
{
    struct iwarp_wc wc;
    int got = 0;

    for (unsigned ms = 0; ms < PAIR_WAIT_MS && got == 0; ms++) {
        got = iwarp_cq_poll(cq, &wc, 1);
        progress_sleep(1000);
    }
    assert_int_equal(got, 1);
    assert_int_equal(wc.status, IWARP_WC_SUCCESS);
}

/* One with the solicited event wakes who waits for such; one without does not. */
static void immediate__solicited__notifies(void **state)
{
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_IMM, 1, NULL);
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    pair_open(&p, &o);
    struct pair_side *a = &p.side[0], *b = &p.side[1];
    struct pollfd readable = {.fd = iwarp_cq_fd(b->recv_cq), .events = POLLIN};
    assert_true(readable.fd >= 0);
    receive_one(b, 1, false);
    receive_one(b, 2, false);
    must(iwarp_cq_arm(b->recv_cq, true));
    must(iwarp_post_send(a->qp, &wr, NULL));
    take(b->recv_cq);
    assert_int_equal(progress_poll(&readable, 1, 0), 0);
    wr.flags |= IWARP_WR_SOLICITED;
    must(iwarp_post_send(a->qp, &wr, NULL));
    assert_int_equal(progress_poll(&readable, 1, PAIR_WAIT_MS), 1);
    take(b->recv_cq);
    pair_close(&p);
}

static void immediate__without_a_receive__is_told(void **state)
{
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_IMM, 7, NULL);
    char text[512];
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    pair_open(&p, &o);
    must(iwarp_post_send(p.side[0].qp, &wr, NULL));
    pair_wc(p.side[0].send_cq, 7, IWARP_WC_SUCCESS); /* it was handed over */
    must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
    const struct iwarp_fault *fault = iwarp_conn_fault(p.side[0].conn);
    assert_non_null(fault);
    iwarp_fault_text(fault, text, sizeof text);
    assert_non_null(strstr(text, "a message came with no receive posted"));
    assert_non_null(strstr(text, "(opcode 0x8)"));
    pair_close(&p);
}

static void post__where_rfc_7306_is_off__is_misuse(void **state)
{
    (void)state;
    for (unsigned by_option = 0; by_option < 2; by_option++) {
        struct iwarp_send_wr wr = pair_wr(IWARP_WR_IMM, 1, NULL);
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, PAIR_MEMORY);
        if (by_option) {
            o.device.rfc7306 = IWARP_RFC7306_OFF;
        } else {
            setenv("IWARP_RFC7306", "off", 1);
        }
        pair_open(&p, &o);
        must_fail(iwarp_post_send(p.side[0].qp, &wr, NULL), IWARP_MISUSE, "switched off");
        wr.opcode = IWARP_WR_WRITE_IMM;
        must_fail(iwarp_post_send(p.side[0].qp, &wr, NULL), IWARP_MISUSE, "switched off");
        pair_close(&p);
        unsetenv("IWARP_RFC7306");
    }
}

/* The option counts for more than the environment; nonsense there is said. */
static void open__with_the_environment__obeys_the_option(void **state)
{
    struct iwarp_device *device = NULL;
    struct pair_options o;
    struct pair p;

    (void)state;
    setenv("IWARP_RFC7306", "off", 1);
    pair_options_init(&o, PAIR_MEMORY);
    o.memory = (size_t)2 * LEN;
    o.device.rfc7306 = IWARP_RFC7306_ON;
    pair_open(&p, &o);
    exchange(&p.side[0], &p.side[1], false, 3);
    pair_close(&p);
    setenv("IWARP_RFC7306", "maybe", 1);
    must_fail(iwarp_device_open(NULL, &device), IWARP_MISUSE, "is \"maybe\", expected on or off");
    setenv("IWARP_RFC7306", "on", 1);
    must(iwarp_device_open(NULL, &device));
    must(iwarp_device_close(device));
    unsetenv("IWARP_RFC7306");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(immediate__both_ways__takes_one_receive),
        cmocka_unit_test(immediate__solicited__notifies),
        cmocka_unit_test(immediate__without_a_receive__is_told),
        cmocka_unit_test(post__where_rfc_7306_is_off__is_misuse),
        cmocka_unit_test(open__with_the_environment__obeys_the_option),
    };

    return cmocka_run_group_tests_name("pair_immediate", tests, NULL, NULL);
}
