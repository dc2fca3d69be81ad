/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a stream begins and ends: the responder's silence, closing in order and not, detaching,
 * memory that cannot be had, and counters that wrap.
 *
 * RFC 5044 7.1.2 and 8, RFC 5041 4.3 and 6.2, RFC 5040 6.2, RFC 5042 6.4.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "alloc_fault.h"
#include "deliveries.h"
#include "vectors.h"

static void expect_end(struct endpoint *e, enum iwarp_fault_code code, bool abort)
{
    assert_string_equal(iwarp_fault_name(e->s.fault.code), iwarp_fault_name(code));
    assert_int_equal(e->s.life, STREAM_ENDED);
    assert_int_equal(e->s.abort, abort);
    assert_int_equal(iwarp_stream_interest(&e->s), 0);
}

static void post_empty_send(struct endpoint *e)
{
    endpoint_post(e, &(struct iwarp_send_wr){0});
}

/* --- the responder -----------------------------------------------------------------------------
 */

static void responder__before_the_first_fpdu__sends_nothing(void **state)
{
    struct endpoint e;
    struct octets o = {0};

    (void)state;
    octets_hex(&o, V09);
    endpoint_init(&e, &(struct endpoint_options){.hold_tx = true});
    post_empty_send(&e);
    for (size_t i = 0; i < o.n; i++) {
        assert_int_equal(iwarp_stream_interest(&e.s), 0);
        endpoint_drain(&e);
        assert_int_equal(e.sent.n, 0);
        iwarp_stream_feed(&e.s, o.p + i, 1);
    }
    assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_WRITE);
    endpoint_drain(&e);
    assert_int_equal(e.sent.n, 24);
    assert_int_equal(e.sq.done, 1);
    endpoint_fini(&e);
    octets_free(&o);
}

static void responder__peer_leaves_before_its_first_fpdu__sends_nothing(void **state)
{
    struct endpoint e;

    (void)state;
    for (unsigned busy = 0; busy < 2; busy++) {
        endpoint_init(&e, &(struct endpoint_options){.hold_tx = true});
        if (busy) {
            post_empty_send(&e);
        } else {
            endpoint_feed_hex(&e, "0012");
        }
        iwarp_stream_eof(&e.s, 0);
        expect_end(&e, IWARP_FAULT_RDMAP_PEER_CLOSED, false);
        endpoint_drain(&e);
        assert_int_equal(e.sent.n, 0);
        assert_int_equal(e.sq.done, 0);
        endpoint_fini(&e);
    }
}

/* --- closing in order --------------------------------------------------------------------------
 */

/* Nothing to do is no reason to close, before the first message and behind each. */
/* [DDP-6.2-01] */
static void idle__for_good__stays_open(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(iwarp_stream_interest(&e.s), 0);
        assert_int_equal(e.s.life, STREAM_RUNNING);
        endpoint_feed_hex(&e, V09);
        assert_int_equal(iwarp_stream_interest(&e.s), 0);
        assert_int_equal(e.s.life, STREAM_RUNNING);
        post_empty_send(&e);
        endpoint_drain(&e);
        assert_int_equal(e.sq.done, i + 1);
    }
    assert_int_equal(iwarp_stream_interest(&e.s), 0);
    assert_int_equal(e.s.life, STREAM_RUNNING);
    endpoint_fini(&e);
}

/* [DDP-6.2.1-01] [DDP-6.2.1-06] */
static void close__with_work_posted__finishes_it_first(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    endpoint_area(&e, 0x11223344, 0x2000, 8, LOCAL, 0);
    struct iwarp_sge sink = area_sge(&e.area[0], 0, 8);
    endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_READ,
                                              .sg_list = &sink,
                                              .num_sge = 1,
                                              .remote_stag = 0x00010203});
    post_empty_send(&e);
    iwarp_stream_close(&e.s);
    assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_WRITE);
    endpoint_drain(&e);
    assert_int_equal(iwarp_stream_interest(&e.s), 0); /* the response is missing */
    endpoint_feed_hex(&e, V12);
    assert_int_equal(e.sq.done, 2);
    assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
    endpoint_feed_hex(&e, V09); /* the peer may go on until it closes too */
    assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
    iwarp_stream_eof(&e.s, 0);
    expect_end(&e, IWARP_FAULT_NONE, false);
    endpoint_fini(&e);
}

/* What is posted behind the close is neither sent nor waited for, nor is it the peer's fault. */
/* [DDP-6.2.1-02] */
static void close__and_then_posted__is_not_sent(void **state)
{
    struct endpoint e;

    (void)state;
    for (unsigned before = 0; before < 3; before++) {
        endpoint_init(&e, NULL);
        for (unsigned i = 0; i < before; i++) {
            post_empty_send(&e);
        }
        iwarp_stream_close(&e.s);
        post_empty_send(&e);
        post_empty_send(&e);
        endpoint_drain(&e);
        assert_int_equal(e.sent.n, 24 * before);
        assert_int_equal(e.sq.done, before);
        assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
        post_empty_send(&e);
        assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
        iwarp_stream_eof(&e.s, 0);
        expect_end(&e, IWARP_FAULT_NONE, false);
        assert_int_equal(e.sq.done, before);
        endpoint_fini(&e);
    }
}

/* Its last octets sent but not released: the transport still refers to memory. */
static void close__with_octets_unreleased__waits(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    post_empty_send(&e);
    iwarp_stream_close(&e.s);
    assert_int_equal(endpoint_send(&e, SIZE_MAX), 24);
    assert_int_equal(iwarp_stream_interest(&e.s), 0);
    iwarp_stream_released(&e.s, 24);
    assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
    endpoint_fini(&e);
}

/* A Read Request that crosses this end's FIN cannot be answered: its sender will say so. */
static void shutdown__read_request_behind_it__is_not_answered(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    endpoint_area(&e, 0x00010203, 0x1000, 8, READABLE, 0);
    iwarp_stream_close(&e.s);
    assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
    endpoint_feed_hex(&e, V10);
    assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
    endpoint_drain(&e);
    assert_int_equal(e.sent.n, 0);
    endpoint_feed_hex(&e, V14);
    expect_end(&e, IWARP_FAULT_PEER_TERMINATE, false);
    endpoint_fini(&e);
}

static void shutdown__fault_behind_it__resets(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    iwarp_stream_close(&e.s);
    assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
    endpoint_feed_hex(&e, V06);
    expect_end(&e, IWARP_FAULT_DDP_STAG_INVALID, true);
    endpoint_fini(&e);
}

/* [DDP-3-10] [DDP-6.2.1-05] [VERBS-6.2.2-01] */
static void eof__of_an_idle_peer__closes_this_side_too(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    iwarp_stream_eof(&e.s, 0);
    expect_end(&e, IWARP_FAULT_NONE, false);
    endpoint_fini(&e);
}

/* [VERBS-6.2.2-01] */
static void eof__with_a_request_unfinished__is_told_to_the_peer(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    post_empty_send(&e);
    iwarp_stream_eof(&e.s, 0);
    assert_int_equal(e.s.life, STREAM_TERMINATING);
    assert_int_equal(e.s.fault.side, IWARP_SIDE_PEER);
    endpoint_drain(&e);
    endpoint_expect_terminate(&e, "02070000");
    expect_end(&e, IWARP_FAULT_RDMAP_PEER_CLOSED, false);
    endpoint_fini(&e);
}

/* All octets are sent, and the peer will have them: its FIN has crossed them. */
static void eof__with_octets_unreleased__waits_for_them(void **state)
{
    (void)state;
    for (unsigned closing = 0; closing < 2; closing++) {
        struct endpoint e;
        endpoint_init(&e, NULL);
        post_empty_send(&e);
        if (closing) {
            iwarp_stream_close(&e.s);
        }
        assert_int_equal(endpoint_send(&e, SIZE_MAX), 24);
        iwarp_stream_eof(&e.s, 0);
        assert_int_equal(e.s.life, STREAM_CLOSING);
        assert_int_equal(iwarp_stream_interest(&e.s), 0);
        iwarp_stream_released(&e.s, 24);
        assert_int_equal(e.sq.done, 1);
        iwarp_stream_interest(&e.s);
        expect_end(&e, IWARP_FAULT_NONE, false);
        endpoint_fini(&e);
    }
}

/* The same for an answer that is owed, in either order of the closes. */
/* [VERBS-6.2.2-01] */
static void eof__with_a_read_unanswered__is_told_to_the_peer(void **state)
{
    (void)state;
    for (unsigned closing = 0; closing < 2; closing++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.ird = 1});
        endpoint_area(&e, 0x00010203, 0x1000, 8, READABLE, 7);
        endpoint_feed_hex(&e, V10);
        assert_int_equal(e.s.reads.in_count, 1);
        if (closing) {
            iwarp_stream_close(&e.s);
        }
        iwarp_stream_eof(&e.s, 0);
        if (closing) {
            expect_end(&e, IWARP_FAULT_NONE, true);
        } else {
            endpoint_drain(&e);
            endpoint_expect_terminate(&e, "02070000");
            expect_end(&e, IWARP_FAULT_RDMAP_PEER_CLOSED, false);
        }
        endpoint_fini(&e);
    }
}

static void eof__with_an_error__resets(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    post_empty_send(&e);
    endpoint_send(&e, 3);
    endpoint_feed_hex(&e, "0017 4143 00000000 0000");
    iwarp_stream_eof(&e.s, ECONNRESET);
    expect_end(&e, IWARP_FAULT_TCP_LOST, true);
    assert_int_equal(e.s.fault.side, IWARP_SIDE_TRANSPORT);
    assert_int_equal(e.s.fault.detail[0], ECONNRESET);
    endpoint_drain(&e);
    assert_int_equal(e.sent.n, 3);
    endpoint_fini(&e);
}

/* --- Terminates --------------------------------------------------------------------------------
 */

/* The FPDU under way is finished, then comes the Terminate, then nothing. RFC 5040 5.4. */
/* [VERBS-6.4-01] */
static void terminate__in_the_middle_of_an_fpdu__follows_it(void **state)
{
    struct endpoint e;
    struct fpdu f;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.ird = 1});
    struct area *a = endpoint_area(&e, 0x00aabb00, 0x7000, 5000, 0, 7);
    const struct iwarp_sge sge = area_sge(a, 0, 5000);
    endpoint_post(&e, &(struct iwarp_send_wr){.sg_list = &sge, .num_sge = 1});
    endpoint_send(&e, 10);
    endpoint_feed_hex(&e, V06);
    for (unsigned i = 0; i < 3; i++) {
        post_empty_send(&e);
    }
    endpoint_drain(&e);
    size_t at = 0;
    do {
        assert_true(fpdu_decode(e.sent.p + at, e.sent.n - at, true, &f));
        at += f.len;
    } while (f.opcode == 3);
    assert_int_equal(f.opcode, 7);
    assert_int_equal(at, e.sent.n);
    post_empty_send(&e);
    endpoint_feed_hex(&e, V10); /* nor is a Read answered now */
    assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
    endpoint_drain(&e);
    assert_int_equal(at, e.sent.n);
    endpoint_fini(&e);
}

/* --- detaching ---------------------------------------------------------------------------------
 */

static void detach__in_each_state__ends_or_drains(void **state)
{
    struct endpoint e;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        endpoint_init(&e, NULL);
        if (i == 1) {
            iwarp_stream_close(&e.s);
        } else if (i == 2) {
            post_empty_send(&e);
            iwarp_stream_close(&e.s);
        } else if (i == 3) {
            endpoint_feed_hex(&e, V06);
        }
        iwarp_stream_detach(&e.s);
        memset(e.sq.mem, 0xff, 64); /* not touched any more */
        if (i == 0 || i == 2) {
            expect_end(&e, IWARP_FAULT_LOCAL_ABORT, true);
        } else {
            endpoint_drain(&e);
            assert_int_equal(e.s.life, STREAM_DRAINING);
            assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
            endpoint_feed_hex(&e, V01);
            iwarp_stream_eof(&e.s, 0);
            expect_end(&e, i == 1 ? IWARP_FAULT_NONE : IWARP_FAULT_DDP_STAG_INVALID, false);
        }
        endpoint_fini(&e);
    }
}

/* --- memory that cannot be had -----------------------------------------------------------------
 */

static void receive__over_the_budget__is_a_limit_fault(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.budget = 200000});
    atomic_fetch_add(&e.budget.used, 200000 - 31); /* others have most of it */
    endpoint_feed_hex(&e, "00174143 00000000 00000000 00000001 00000000");
    atomic_fetch_sub(&e.budget.used, 200000 - 31);
    assert_string_equal(iwarp_fault_name(e.s.fault.code), "LOCAL_BUFFER_LIMIT");
    assert_int_equal(e.s.fault.detail[0], 32);
    assert_int_equal(e.s.fault.detail[1], 200000);
    endpoint_drain(&e);
    endpoint_expect_sent(&e, V17);
    endpoint_fini(&e);
}

static void send__over_the_budget__is_a_limit_fault(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.budget = 1000});
    post_empty_send(&e);
    endpoint_drain(&e);
    assert_string_equal(iwarp_fault_name(e.s.fault.code), "LOCAL_BUFFER_LIMIT");
    assert_int_equal(e.sent.n, 0); /* not even a Terminate */
    assert_int_equal(iwarp_stream_interest(&e.s), 0);
    assert_true(e.s.life == STREAM_ENDED && e.s.abort); /* a FIN would pass for an orderly close */
    endpoint_fini(&e);
}

/* A short conversation, each way. */
static void converse_shortly(struct endpoint *e)
{
    const struct iwarp_stream_config config = e->s.config;
    const struct iwarp_sge sge = area_sge(&e->area[0], 0, 8);

    iwarp_stream_fini(&e->s);
    iwarp_stream_init(&e->s, &config);
    endpoint_post(
        e, &(struct iwarp_send_wr){
               .opcode = IWARP_WR_READ, .sg_list = &sge, .num_sge = 1, .remote_stag = 0x00010203});
    const char *const pieces[] = {"002e4141 00000000 00000001 00000001 00000000 11223344 00000000",
                                  "00002000 00000008 00010203 00000000 00001000 d41cc19d", V12 V06,
                                  "0017 4143",
                                  "00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c"};
    for (unsigned i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        uint8_t octets[64];
        size_t n = 0;
        for (const char *h = pieces[i]; *h; h++) { /* without allocating */
            static const char digits[] = "0123456789abcdef";
            if (*h != ' ') {
                octets[n++] = (uint8_t)((strchr(digits, h[0]) - digits) << 4 |
                                        (strchr(digits, h[1]) - digits));
                h++;
            }
        }
        const struct iovec *iov;
        size_t left = 0;
        for (unsigned k = iwarp_stream_gather(&e->s, &iov); k > 0; k--) {
            left += iov[k - 1].iov_len;
        }
        iwarp_stream_sent(&e->s, left);
        iwarp_stream_released(&e->s, left);
        iwarp_stream_feed(&e->s, octets, n);
        iwarp_stream_check(&e->s);
    }
    iwarp_stream_eof(&e->s, 0);
}

static void allocation__each_one_failing__ends_the_stream_only(void **state)
{
    unsigned n = 0, tried;

    (void)state;
    do {
        struct endpoint e;
        endpoint_init(&e, NULL);
        endpoint_area(&e, 0x11223344, 0x2000, 8, LOCAL, 0);
        endpoint_area(&e, 0x00010203, 0x1000, 8, READABLE | WRITABLE, 0);
        endpoint_recv_area(&e, endpoint_area(&e, 0x00030405, 0, 8, LOCAL, 0));
        alloc_fault_at(n);
        converse_shortly(&e);
        tried = alloc_fault_count();
        alloc_fault_at(0);
        if (n == 0) { /* nothing fails */
            assert_true(tried >= 5);
            expect_end(&e, IWARP_FAULT_NONE, false);
            assert_int_equal(e.rq.done, 1);
            assert_int_equal(e.sq.done, 1);
        } else if (n <= tried) {
            assert_string_equal(iwarp_fault_name(e.s.fault.code), "LOCAL_NO_MEMORY");
        }
        endpoint_fini(&e);
    } while (n++ <= tried);
    assert_true(n > 6);
}

/* --- counters ----------------------------------------------------------------------------------
 */

/* All that counts up wraps or is wide enough; both directions. */
/* [DDP-4.3-10] */
static void counters__at_their_ends__wrap(void **state)
{
    struct endpoint e;
    struct fpdu f;
    size_t at = 0;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.ird = 1, .ord = 2});
    endpoint_area(&e, 0x11223344, 0x2000, 8, LOCAL, 0);
    const struct iwarp_sge sge = area_sge(&e.area[0], 0, 8);
    for (unsigned i = 0; i < 2; i++) {
        struct iwarp_wq *q = i ? &e.sq : &e.rq;
        q->next = q->done = UINT32_MAX - 1;
        atomic_store(&q->head, UINT32_MAX - 1);
        atomic_store(&q->reaped, UINT32_MAX - 1);
    }
    e.s.tx.send_msn = e.s.tx.read_msn = e.s.ddp.msn[0] = e.s.ddp.msn[1] = UINT32_MAX - 1;
    e.s.tx.framed = e.s.tx.sent = e.s.tx.released = UINT32_MAX - 40u;
    e.s.rx.pos = e.s.rx.fpdu_pos = UINT32_MAX - 40u;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t msn = UINT32_MAX - 1 + i;
        struct octets o = {0}, u = {0};
        endpoint_recv_area(&e, &e.area[0]);
        octets_hex(&u, "4143 00000000 00000000");
        octets_be(&u, msn, 4);
        octets_hex(&u, "00000000 77");
        fpdu_add(&o, u.p, u.n, 0);
        u.n = 0;
        octets_hex(&u, "4141 00000000 00000001");
        octets_be(&u, msn, 4);
        octets_hex(&u, "00000000 00000000 0000000000000000 00000000 00000000 0000000000000000");
        fpdu_add(&o, u.p, u.n, 0);
        octets_hex(&o, V12);
        endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_READ,
                                                  .sg_list = &sge,
                                                  .num_sge = 1,
                                                  .remote_stag = 0x00010203});
        post_empty_send(&e);
        endpoint_drain(&e);
        iwarp_stream_feed(&e.s, o.p, o.n);
        endpoint_drain(&e);
        assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
        assert_int_equal(e.rq.done, UINT32_MAX + i);
        assert_int_equal(e.sq.done, UINT32_MAX - 1 + 2 * (i + 1));
        for (; at < e.sent.n; at += f.len) {
            assert_true(fpdu_decode(e.sent.p + at, e.sent.n - at, true, &f));
            assert_true(f.tagged || f.msn == msn);
        }
        octets_free(&o);
        octets_free(&u);
    }
    assert_true(e.s.tx.sent > UINT32_MAX && e.s.rx.pos > UINT32_MAX);
    endpoint_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(responder__before_the_first_fpdu__sends_nothing),
        cmocka_unit_test(responder__peer_leaves_before_its_first_fpdu__sends_nothing),
        cmocka_unit_test(idle__for_good__stays_open),
        cmocka_unit_test(close__with_work_posted__finishes_it_first),
        cmocka_unit_test(close__and_then_posted__is_not_sent),
        cmocka_unit_test(close__with_octets_unreleased__waits),
        cmocka_unit_test(shutdown__read_request_behind_it__is_not_answered),
        cmocka_unit_test(shutdown__fault_behind_it__resets),
        cmocka_unit_test(eof__of_an_idle_peer__closes_this_side_too),
        cmocka_unit_test(eof__with_a_request_unfinished__is_told_to_the_peer),
        cmocka_unit_test(eof__with_octets_unreleased__waits_for_them),
        cmocka_unit_test(eof__with_a_read_unanswered__is_told_to_the_peer),
        cmocka_unit_test(eof__with_an_error__resets),
        cmocka_unit_test(terminate__in_the_middle_of_an_fpdu__follows_it),
        cmocka_unit_test(detach__in_each_state__ends_or_drains),
        cmocka_unit_test(receive__over_the_budget__is_a_limit_fault),
        cmocka_unit_test(send__over_the_budget__is_a_limit_fault),
        cmocka_unit_test(allocation__each_one_failing__ends_the_stream_only),
        cmocka_unit_test(counters__at_their_ends__wrap),
    };

    return cmocka_run_group_tests_name("stream_life", tests, NULL, NULL);
}
