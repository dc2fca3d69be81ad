/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that come before their receives: they wait, complete in order once there are receives,
 * and nothing that is not a message of queue 0 waits for them. What the peer does meanwhile, its
 * end above all, is noticed. RFC 5040 5.3 and 5.5, RFC 5041 5.3 and 7.1, RFC 7306 6.
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

#define HOLD   (64u * 1024)
#define RECV   0x00aabb00u
#define OF_LEN 64u /* octets of each receive */

static void feed(struct endpoint *e, const struct octets *o)
{
    iwarp_stream_feed(&e->s, o->p, o->n);
    iwarp_stream_check(&e->s);
}

static void feed_hex(struct endpoint *e, const char *hex)
{
    struct octets o = {0};

    octets_hex(&o, hex);
    feed(e, &o);
    octets_free(&o);
}

static void expect_waits(struct endpoint *e, uint32_t expected)
{
    uint32_t msn = 0;

    assert_string_equal(iwarp_fault_name(e->s.fault.code), "NONE");
    assert_true(iwarp_stream_waits(&e->s, &msn));
    assert_int_equal(msn, expected);
}

static void expect_quiet(struct endpoint *e)
{
    uint32_t msn;

    assert_string_equal(iwarp_fault_name(e->s.fault.code), "NONE");
    assert_int_equal(e->s.life, STREAM_RUNNING);
    assert_false(iwarp_stream_waits(&e->s, &msn));
    assert_int_equal(atomic_load(&e->budget.used), 0);
}

/* A receive into the i-th piece of the area, which was registered by setup. */
static void post(struct endpoint *e, struct area *a, unsigned i, size_t len)
{
    struct iwarp_sge sge = area_sge(a, (size_t)i * OF_LEN, len);

    endpoint_recv(e, &sge, 1);
    iwarp_stream_resume(&e->s);
    iwarp_stream_check(&e->s);
}

static bool is_valid(struct endpoint *e, uint32_t stag)
{
    struct iwarp_region *r = iwarp_region_lend(e->regions, stag);

    if (r) {
        iwarp_region_settle(r);
    }
    return r != NULL;
}

/* --- each kind of message ----------------------------------------------------------------------
 */

struct stage {
    struct area *landing;
    struct area *other;
};

static void setup_landing(struct endpoint *e, void *arg)
{
    struct stage *stage = arg;

    stage->landing = endpoint_area(e, RECV, 0, 8 * OF_LEN, LOCAL, 0xee);
}

static void setup_tokens(struct endpoint *e, void *arg)
{
    setup_landing(e, arg);
    endpoint_area(e, 0x12345678, 0, 8, READABLE, 1); /* what V04 and V05 invalidate */
    endpoint_area(e, 0xabcdef01, 0, 8, READABLE, 1);
}

/* One receive after the other: each takes one message, in order, and an STag stays valid until the
 * message that invalidates it is delivered. */
static void five_wait(struct endpoint *e, void *arg)
{
    static const uint32_t len[] = {5, 0, 4, 0, 1};
    struct stage *stage = arg;

    assert_int_equal(atomic_load(&e->counts.waited), 5);
    for (unsigned i = 0; i < 5; i++) {
        expect_waits(e, i + 1);
        assert_int_equal(e->rq.done, i);
        assert_true(i > 3 || is_valid(e, 0x12345678));
        assert_true(is_valid(e, 0xabcdef01));
        post(e, stage->landing, i, OF_LEN);
        const struct iwarp_rwqe *w = endpoint_rwqe(e, i);
        assert_int_equal(w->byte_len, len[i]);
        assert_int_equal(w->wc_flags, i == 2   ? IWARP_WC_SOLICITED
                                      : i == 3 ? IWARP_WC_WITH_INVALIDATE
                                      : i == 4 ? IWARP_WC_SOLICITED | IWARP_WC_WITH_INVALIDATE
                                               : 0);
    }
    assert_int_equal(e->rq.done, 5);
    assert_false(is_valid(e, 0x12345678) || is_valid(e, 0xabcdef01));
    assert_memory_equal(stage->landing->p, "hello", 5);
    assert_memory_equal(stage->landing->p + (size_t)2 * OF_LEN, "\1\2\3\4", 4);
    expect_quiet(e);
}

static void receive_texts(struct scene *scene, const char *const *ulpdu, size_t n)
{
    struct octets o = {0};

    for (size_t i = 0; i < n; i++) {
        fpdu_hex(&o, ulpdu[i], 0);
    }
    scene->octets = o.p;
    scene->n = o.n;
    receive_every_way(scene);
    octets_free(&o);
}

/* [DDP-5.3-07] [RDMAP-5.3-05] [RDMAP-5.3-02] */
static void sends__before_their_receives__complete_in_order(void **state)
{
    struct stage stage;
    struct octets o = {0};
    struct scene scene = {
        .options = {.hold = HOLD}, .setup = setup_tokens, .check = five_wait, .arg = &stage};

    (void)state;
    octets_hex(&o, V01 V02 V03 V04 V05);
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

static void setup_target(struct endpoint *e, void *arg)
{
    struct stage *stage = arg;

    setup_landing(e, arg);
    stage->other = endpoint_area(e, 0x00010203, 0x1000, 64, WRITABLE, 0xee);
}

/* The lengths are those of the Writes directly in front, and the second Write, which came behind
 * what waits, is in place before that is delivered. */
static void immediate_waits(struct endpoint *e, void *arg)
{
    struct stage *stage = arg;

    assert_memory_equal(stage->other->p, "\1\2\3\4\5\6\7\x8", 8);
    expect_waits(e, 1);
    post(e, stage->landing, 0, 0);
    post(e, stage->landing, 1, 0);
    post(e, stage->landing, 2, 0);
    for (unsigned i = 0; i < 3; i++) {
        const struct iwarp_rwqe *w = endpoint_rwqe(e, i);
        assert_int_equal(w->byte_len, i == 0 ? 4 : i == 1 ? 0 : 2);
        assert_int_equal(w->wc_flags,
                         IWARP_WC_WITH_IMM | (i == 1 ? (unsigned)IWARP_WC_SOLICITED : 0));
        assert_int_equal(w->imm, 0x1100 + i);
    }
    expect_quiet(e);
}

/* [RDMAX-6.3-02] */
static void immediate_data__before_its_receive__keeps_the_length_of_its_write(void **state)
{
    static const char *const texts[] = {
        "c140 00010203 0000000000001000 01020304",
        "4148 00000000 00000000 00000001 00000000 0000000000001100",
        "4149 00000000 00000000 00000002 00000000 0000000000001101",
        "c140 00010203 0000000000001004 05060708",
        "c140 00010203 0000000000001006 0708",
        "4148 00000000 00000000 00000003 00000000 0000000000001102",
    };
    struct stage stage;
    struct scene scene = {.options = {.hold = HOLD, .rfc7306 = true},
                          .setup = setup_target,
                          .check = immediate_waits,
                          .arg = &stage};

    (void)state;
    receive_texts(&scene, texts, sizeof texts / sizeof *texts);
}

/* --- what comes behind a message that waits ----------------------------------------------------
 */

static void setup_read(struct endpoint *e, void *arg)
{
    struct stage *stage = arg;
    struct iwarp_sge sge;

    setup_landing(e, arg);
    stage->other = endpoint_area(e, 0x11223344, 0x2000, 8, LOCAL, 0xee);
    sge = area_sge(stage->other, 0, 8);
    endpoint_post(e, &(struct iwarp_send_wr){.opcode = IWARP_WR_READ,
                                             .sg_list = &sge,
                                             .num_sge = 1,
                                             .remote_stag = 0x00010203,
                                             .remote_to = 0x1000});
    endpoint_drain(e);
}

/* A program that posts its receive only when its RDMA Read is done does not hang. */
static void read_is_done(struct endpoint *e, void *arg)
{
    struct stage *stage = arg;

    expect_waits(e, 1);
    assert_int_equal(e->sq.done, 1);
    assert_memory_equal(stage->other->p, "\0\1\2\3\4\5\6\7", 8);
    post(e, stage->landing, 0, OF_LEN);
    assert_memory_equal(stage->landing->p, "hello", 5);
    assert_int_equal(e->rq.done, 1);
    expect_quiet(e);
}

/* [RDMAP-5.5-01] [RDMAP-5.5-16] */
static void read_response__behind_a_send_that_waits__completes_the_read(void **state)
{
    struct stage stage;
    struct octets o = {0};
    struct scene scene = {.options = {.hold = HOLD, .ord = 1},
                          .setup = setup_read,
                          .check = read_is_done,
                          .arg = &stage};

    (void)state;
    octets_hex(&o, V01 V12);
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

static void setup_source(struct endpoint *e, void *arg)
{
    struct stage *stage = arg;

    setup_landing(e, arg);
    stage->other = endpoint_area(e, 0x00010203, 0x1000, 8, READABLE, 0x5a);
}

static void request_is_answered(struct endpoint *e, void *arg)
{
    struct stage *stage = arg;

    expect_waits(e, 1);
    assert_int_equal(e->s.reads.in_count, 0);
    post(e, stage->landing, 0, OF_LEN);
    expect_quiet(e);
}

static void read_request__behind_a_send_that_waits__is_answered(void **state)
{
    struct stage stage;
    struct octets o = {0};
    struct scene scene = {.options = {.hold = HOLD, .ird = 1},
                          .setup = setup_source,
                          .check = request_is_answered,
                          .arg = &stage};

    (void)state;
    octets_hex(&o, V01 V10);
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

/* --- messages in pieces ------------------------------------------------------------------------
 */

#define LONG 9000u

/* A message of LONG octets in segments of 1400, CRC on. */
static void add_long(struct octets *o, uint32_t msn)
{
    for (uint32_t mo = 0; mo < LONG; mo += 1400) {
        struct octets u = {0};
        uint32_t len = LONG - mo < 1400 ? LONG - mo : 1400;
        octets_hex(&u, mo + len == LONG ? "4143 00000000 00000000" : "0143 00000000 00000000");
        octets_be(&u, msn, 4);
        octets_be(&u, mo, 4);
        for (uint32_t i = 0; i < len; i++) {
            octets_be(&u, (mo + i) * 7 / 3 & 0xff, 1);
        }
        fpdu_add(o, u.p, u.n, 0);
        octets_free(&u);
    }
}

static void expect_long(const uint8_t *p)
{
    for (uint32_t i = 0; i < LONG; i++) {
        if (p[i] != (uint8_t)(i * 7 / 3)) {
            fail_msg("octet %u", i);
        }
    }
}

/* The receive is posted after `cut` octets of two messages, wherever that is. */
static void cut_at(const struct octets *o, size_t cut, struct chance *c)
{
    struct endpoint e;

    endpoint_init(&e, &(struct endpoint_options){.hold = HOLD, .early = chance_one_in(c, 2)});
    struct area *a = endpoint_area(&e, RECV, 0, LONG, LOCAL, 0xee);
    struct area *b = endpoint_area(&e, RECV + 0x100, 0, LONG, LOCAL, 0xee);
    deliver(&e, DELIVER_MIXED, o->p, cut, c);
    endpoint_recv_area(&e, a);
    if (chance_one_in(c, 2)) { /* else the next message finds both at once */
        iwarp_stream_resume(&e.s);
        iwarp_stream_check(&e.s);
    }
    deliver(&e, DELIVER_MIXED, o->p + cut, o->n - cut, c);
    iwarp_stream_resume(&e.s);
    assert_int_equal(e.rq.done, 1);
    expect_waits(&e, 2);
    endpoint_recv_area(&e, b);
    iwarp_stream_resume(&e.s);
    assert_int_equal(e.rq.done, 2);
    assert_int_equal(endpoint_rwqe(&e, 1)->byte_len, LONG);
    expect_long(a->p);
    expect_long(b->p);
    expect_quiet(&e);
    endpoint_fini(&e);
}

/* [DDP-5.3-06] */
static void long_messages__partly_here_when_the_receive_comes__are_whole(void **state)
{
    struct chance c = {chance_seed()};
    struct octets o = {0};

    (void)state;
    add_long(&o, 1);
    add_long(&o, 2);
    for (unsigned i = 0; i < 300; i++) {
        cut_at(&o, chance_below(&c, o.n + 1), &c);
    }
    octets_free(&o);
}

static uint32_t take_none(void *arg)
{
    unsigned *left = arg;

    return *left > 0 ? --*left : IWARP_RQ_NONE;
}

/* The same from a shared queue: an entry is taken when there is one, and never two at a time. */
static void sends__before_shared_receives__complete_in_order(void **state)
{
    static _Alignas(32) uint8_t entries[2][128];
    unsigned left = 0;
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.hold = HOLD});
    struct area *a = endpoint_area(&e, RECV, 0, 64, LOCAL, 0xee);
    for (unsigned i = 0; i < 2; i++) {
        struct iwarp_rwqe *w = (void *)entries[i];
        *w = (struct iwarp_rwqe){.wr_id = i, .capacity = 8, .num_sge = 1};
        w->sgl[0] = area_sge(a, (size_t)8 * i, 8);
    }
    iwarp_wq_fini(&e.rq);
    iwarp_rq_share(&e.rq, entries[0], sizeof entries[0], NULL, take_none, &left);
    feed_hex(&e, V01 V02 V03);
    expect_waits(&e, 1);
    left = 2;
    iwarp_stream_resume(&e.s);
    expect_waits(&e, 3);
    assert_int_equal(iwarp_rq_pop(&e.rq)->byte_len, 5);
    assert_int_equal(iwarp_rq_pop(&e.rq)->byte_len, 0);
    assert_null(iwarp_rq_pop(&e.rq));
    assert_memory_equal(a->p + 8, "hello", 5);
    endpoint_fini(&e);
}

/* --- how waiting ends --------------------------------------------------------------------------
 */

/* The Terminate is the one that would have been sent at once, octet by octet. */
/* [DDP-7.1-04] [RDMAP-7.1-03] */
static void time_over__without_a_receive__is_1_2_02(void **state)
{
    static const char terminate[] =
        "002a4147 00000000 00000002 00000001 00000000 1202c000 00174143 "
        "00000000 00000000 00000001 00000000 ";
    struct octets sent[2] = {{0}, {0}};
    char text[400];

    (void)state;
    for (unsigned waits = 0; waits < 2; waits++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.hold = waits ? HOLD : 0});
        feed_hex(&e, V01 V02);
        if (waits) {
            assert_int_equal(e.sent.n, 0);
            iwarp_stream_wait_over(&e.s, 655);
            assert_int_equal(e.s.fault.code, IWARP_FAULT_DDP_WAITED);
            iwarp_fault_text(&e.s.fault, text, sizeof text);
            assert_non_null(strstr(text, "message 1 of queue 0"));
            assert_non_null(strstr(text, "655 ms"));
        } else {
            assert_int_equal(e.s.fault.code, IWARP_FAULT_DDP_NO_BUFFER);
        }
        endpoint_drain(&e);
        octets_add(&sent[waits], e.sent.p, e.sent.n);
        iwarp_stream_resume(&e.s); /* too late: nothing happens */
        iwarp_stream_wait_over(&e.s, 700);
        assert_int_equal(e.rq.done, 0);
        endpoint_fini(&e);
    }
    octets_expect("Terminate", sent[1].p, sent[1].n, sent[0].p, sent[0].n);
    struct octets literal = {0};
    octets_hex(&literal, terminate);
    octets_expect("literal", sent[1].p, literal.n, literal.p, literal.n);
    octets_free(&literal);
    octets_free(&sent[0]);
    octets_free(&sent[1]);
}

static void receive__too_small_for_what_waits__is_1_2_05(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.hold = HOLD});
    struct area *a = endpoint_area(&e, RECV, 0, 64, LOCAL, 0xee);
    feed_hex(&e, V01 V02);
    post(&e, a, 0, 4);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_DDP_TOO_LONG);
    assert_int_equal(iwarp_rq_current(&e.rq)->status, IWARP_WC_LOCAL_LENGTH);
    endpoint_drain(&e);
    endpoint_expect_terminate(&e, "1205c000 0017 4143 00000000 00000000 00000001 00000000");
    assert_int_equal(e.rq.done, 0);
    endpoint_fini(&e);
}

static void peer_terminates__behind_what_waits__is_heard(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.hold = HOLD});
    feed_hex(&e, V01 V17);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_PEER_TERMINATE);
    assert_int_equal(e.s.life, STREAM_ENDED);
    assert_int_equal(atomic_load(&e.budget.used), 0);
    endpoint_fini(&e);
}

static void peer_resets__behind_what_waits__ends(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.hold = HOLD});
    feed_hex(&e, V01);
    iwarp_stream_eof(&e.s, ECONNRESET);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_TCP_LOST);
    assert_int_equal(atomic_load(&e.budget.used), 0);
    endpoint_fini(&e);
}

/* This end's FIN goes out at once; the end comes when the last message is delivered, or too late.
 */
/* [DDP-6.2.1-06] */
static void peer_closes__behind_what_waits__loses_nothing(void **state)
{
    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.hold = HOLD});
        struct area *a = endpoint_area(&e, RECV, 0, 128, LOCAL, 0xee);
        feed_hex(&e, V01 V02);
        iwarp_stream_eof(&e.s, 0);
        assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
        assert_int_equal(e.s.life, STREAM_CLOSING);
        post(&e, a, 0, 64);
        assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
        assert_int_equal(e.s.life, STREAM_CLOSING);
        if (late) {
            iwarp_stream_wait_over(&e.s, 9);
            assert_int_equal(e.s.fault.code, IWARP_FAULT_DDP_WAITED);
        } else {
            post(&e, a, 1, 64);
            assert_int_equal(iwarp_stream_interest(&e.s), 0);
            assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
        }
        assert_int_equal(e.s.life, STREAM_ENDED);
        assert_int_equal(e.rq.done, late ? 1 : 2);
        endpoint_fini(&e);
    }
}

/* The application's own close waits for no receive: what waited and what comes without one is
 * dropped, and nothing overtakes it. */
static void close__with_messages_that_wait__drops_them(void **state)
{
    (void)state;
    for (unsigned closed_before = 0; closed_before < 2; closed_before++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.hold = HOLD});
        struct area *a = endpoint_area(&e, RECV, 0, 64, LOCAL, 0xee);
        if (closed_before) {
            iwarp_stream_close(&e.s);
        }
        feed_hex(&e, V01);
        iwarp_stream_close(&e.s);
        assert_int_equal(atomic_load(&e.budget.used), 0);
        assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
        post(&e, a, 0, 64);
        feed_hex(&e, V02);
        assert_int_equal(e.rq.done, 0);
        iwarp_stream_eof(&e.s, 0);
        assert_int_equal(e.s.life, STREAM_ENDED);
        assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
        endpoint_fini(&e);
    }
}

static void detach__with_messages_that_wait__frees_them(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.hold = HOLD});
    feed_hex(&e, V01);
    iwarp_stream_detach(&e.s);
    assert_int_equal(atomic_load(&e.budget.used), 0);
    endpoint_fini(&e);
}

/* --- how much may wait -------------------------------------------------------------------------
 */

/* From the bound on nothing is read; a receive makes room again. A message may be larger than the
 * bound. The peer's end, seen while nothing is read, makes as much room again, once. */
static void full__reads_no_more__until_a_receive_makes_room(void **state)
{
    struct endpoint e;
    struct octets o = {0};
    struct iwarp_lends lends;
    struct iovec iov[4];
    size_t staging = SIZE_MAX, at = 0;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.hold = 4000});
    struct area *a = endpoint_area(&e, RECV, 0, LONG, LOCAL, 0xee);
    add_long(&o, 1);
    for (; !iwarp_stream_full(&e.s); at++) {
        (void)iwarp_stream_want(&e.s, &lends, iov, 4, &staging);
        iwarp_stream_placed(&e.s, 0);
        assert_true(staging == SIZE_MAX || staging <= 4000);
        assert_true(e.s.hold.octets == 0 || staging == 4000 - e.s.hold.octets);
        iwarp_stream_feed(&e.s, o.p + at, 1);
    }
    assert_in_range(atomic_load(&e.budget.used), 4000, 4000 + 1500);
    assert_true(at < 3 * 1450);
    iwarp_stream_hold_rest(&e.s);
    assert_false(iwarp_stream_full(&e.s));
    for (; !iwarp_stream_full(&e.s); at++) {
        iwarp_stream_feed(&e.s, o.p + at, 1);
    }
    iwarp_stream_hold_rest(&e.s);
    assert_true(iwarp_stream_full(&e.s));
    endpoint_recv_area(&e, a);
    iwarp_stream_resume(&e.s);
    assert_false(iwarp_stream_full(&e.s));
    assert_int_equal(e.rq.done, 0);
    iwarp_stream_feed(&e.s, o.p + at, o.n - at);
    assert_int_equal(e.rq.done, 1);
    expect_long(a->p);
    expect_quiet(&e);
    octets_free(&o);
    endpoint_fini(&e);
}

/* The other half is for streams that wait for nothing. */
static void send__with_half_of_the_budget_used__is_not_held(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.hold = HOLD, .budget = 1000000});
    feed_hex(&e, V01 V02);
    expect_waits(&e, 1);
    atomic_fetch_add(&e.budget.used, 500000);
    feed_hex(&e, V03);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_DDP_NO_BUFFER);
    assert_int_equal(atomic_fetch_sub(&e.budget.used, 500000), 500000);
    endpoint_drain(&e);
    endpoint_expect_terminate(&e, "1202c000 0016 4145 00000000 00000000 00000003 00000000");
    endpoint_fini(&e);
}

static void send__no_memory_to_hold_it__is_1_2_02(void **state)
{
    struct endpoint e;
    struct octets o = {0};

    (void)state;
    octets_hex(&o, V01);
    endpoint_init(&e, &(struct endpoint_options){.hold = HOLD});
    alloc_fault_at(1);
    feed(&e, &o);
    alloc_fault_at(0);
    octets_free(&o);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_DDP_NO_BUFFER);
    endpoint_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends__before_their_receives__complete_in_order),
        cmocka_unit_test(immediate_data__before_its_receive__keeps_the_length_of_its_write),
        cmocka_unit_test(read_response__behind_a_send_that_waits__completes_the_read),
        cmocka_unit_test(read_request__behind_a_send_that_waits__is_answered),
        cmocka_unit_test(long_messages__partly_here_when_the_receive_comes__are_whole),
        cmocka_unit_test(sends__before_shared_receives__complete_in_order),
        cmocka_unit_test(time_over__without_a_receive__is_1_2_02),
        cmocka_unit_test(receive__too_small_for_what_waits__is_1_2_05),
        cmocka_unit_test(peer_terminates__behind_what_waits__is_heard),
        cmocka_unit_test(peer_resets__behind_what_waits__ends),
        cmocka_unit_test(peer_closes__behind_what_waits__loses_nothing),
        cmocka_unit_test(close__with_messages_that_wait__drops_them),
        cmocka_unit_test(detach__with_messages_that_wait__frees_them),
        cmocka_unit_test(full__reads_no_more__until_a_receive_makes_room),
        cmocka_unit_test(send__with_half_of_the_budget_used__is_not_held),
        cmocka_unit_test(send__no_memory_to_hold_it__is_1_2_02),
    };

    return cmocka_run_group_tests_name("stream_wait", tests, NULL, NULL);
}
