/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomic operations through one stream: the octets of requests and responses, what is done to
 * memory and when, order and depth together with RDMA Reads, memory that is gone, and everything
 * that can be wrong with either message. Literal octets both ways; RFC 7306 5, 7 and 8.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "deliveries.h"
#include "vectors.h"

#define ATOMIC (IWARP_ACCESS_REMOTE_ATOMIC | IWARP_ACCESS_LOCAL_WRITE)

/* The header behind the DDP header: operation, request, STag, TO, then the operands. */
#define OP(aop, id, stag, to) "0000000" aop "0000000" id stag "00000000" to
#define ADD5                  "0000000000000005 0000000000000000 0000000000000000 ffffffffffffffff"
#define REQ(msn)              "414a 00000000 00000001 0000000" msn "00000000"
#define RESP(msn)             "414b 00000000 00000003 0000000" msn "00000000"
#define READ(msn, size)                                                                            \
    "4141 00000000 00000001 0000000" msn "00000000 11223344 0000000000002000 0000" size            \
    "00010203 0000000000001000"

static uint64_t word(const struct area *a, size_t off)
{
    uint64_t w;

    memcpy(&w, a->p + off, sizeof w);
    return w;
}

static void set_word(const struct area *a, size_t off, uint64_t w)
{
    memcpy(a->p + off, &w, sizeof w);
}

static void expect_ulpdus(struct endpoint *e, const char *const *ulpdu, unsigned n)
{
    struct octets o = {0};

    for (unsigned i = 0; i < n; i++) {
        fpdu_hex(&o, ulpdu[i], 0);
        for (size_t k = o.n - 4; e->options.no_crc && k < o.n; k++) {
            o.p[k] = 0;
        }
    }
    octets_expect("what was sent", e->sent.p, e->sent.n, o.p, o.n);
    octets_free(&o);
    endpoint_forget_sent(e);
}

static void feed_ulpdu(struct endpoint *e, const char *ulpdu)
{
    struct octets o = {0};

    fpdu_hex(&o, ulpdu, 0);
    iwarp_stream_feed(&e->s, o.p, o.n);
    octets_free(&o);
    iwarp_stream_check(&e->s);
}

/* --- this end asks --------------------------------------------------------------------------- */

static void post_add(struct endpoint *e, const struct area *sink, size_t off, unsigned flags)
{
    const struct iwarp_sge sge = area_sge(sink, off, 8);

    endpoint_post(e, &(struct iwarp_send_wr){.opcode = IWARP_WR_ATOMIC_FETCH_ADD,
                                             .flags = flags,
                                             .sg_list = &sge,
                                             .num_sge = 1,
                                             .remote_stag = 0x00010203,
                                             .remote_to = 0x1008,
                                             .operand = 5});
}

static void post_swap(struct endpoint *e, const struct area *sink, size_t off)
{
    const struct iwarp_sge sge = area_sge(sink, off, 8);

    endpoint_post(e, &(struct iwarp_send_wr){.opcode = IWARP_WR_ATOMIC_CMP_SWAP,
                                             .sg_list = &sge,
                                             .num_sge = 1,
                                             .remote_stag = 0x00010203,
                                             .remote_to = 0x1010,
                                             .operand = 0x1122334455667788,
                                             .mask = UINT64_MAX,
                                             .compare_mask = UINT64_MAX});
}

/* [RDMAX-4.1-01] [RDMAX-4.1-02] [RDMAX-4.1-03] [RDMAX-5.2-01] [RDMAX-5.2.1-07] */
/* [RDMAX-5.2.1-12] [RDMAX-5.2.1-13] */
static void request__of_both_kinds__is_the_literal_octets(void **state)
{
    (void)state;
    for (unsigned no_crc = 0; no_crc < 2; no_crc++) {
        struct endpoint e;
        endpoint_init(&e,
                      &(struct endpoint_options){.no_crc = no_crc != 0, .rfc7306 = true, .ord = 2});
        struct area *sink = endpoint_area(&e, 0x00aabb00, 0, 16, LOCAL, 0);
        post_add(&e, sink, 0, 0);
        post_swap(&e, sink, 8);
        endpoint_drain(&e);
        assert_int_equal(e.sq.done, 0); /* the answers are missing */
        endpoint_expect_sent(&e, V19 V20);
        endpoint_fini(&e);
    }
}

static void setup_asked(struct endpoint *e, void *arg)
{
    (void)arg;
    struct area *sink = endpoint_area(e, 0x00aabb00, 0, 24, LOCAL, 0xee);
    post_add(e, sink, 0, 0);
    post_swap(e, sink, 9); /* the sink need not be aligned */
    endpoint_drain(e);
    endpoint_forget_sent(e);
}

static void answered(struct endpoint *e, void *arg)
{
    (void)arg;
    assert_int_equal(e->s.life, STREAM_RUNNING);
    assert_int_equal(e->sq.done, 2);
    assert_int_equal(e->s.reads.out_count, 0);
    assert_true(word(&e->area[0], 0) == 0x2a);
    assert_true(word(&e->area[0], 9) == 0x8000000000000001);
    assert_int_equal(e->area[0].p[8], 0xee);
    assert_int_equal(e->area[0].p[17], 0xee);
    assert_int_equal(e->s.ddp.msn[3], 3);
}

/* [RDMAX-5.2.2-05] [RDMAX-5.4-07] [RDMAX-5.4-01] [RDMAX-5.2.2-04] */
static void response__in_order__lands_in_the_sinks(void **state)
{
    struct octets o = {0};
    struct scene scene = {
        .options = {.rfc7306 = true, .ord = 2}, .setup = setup_asked, .check = answered};

    (void)state;
    octets_hex(&o, V21);
    fpdu_hex(&o, RESP("2") "00000002 8000000000000001", 0);
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

/* ORD is for both kinds together; a fence waits for both. */
static void request__beyond_ord__waits_for_answers(void **state)
{
    static const char *const first[] = {REQ("1") OP("0", "1", "00010203", "00001008") ADD5};
    static const char *const second[] = {
        "4141 00000000 00000001 00000002 00000000 00aabb00 0000000000000008 00000008"
        "00010203 0000000000001000"};
    static const char *const third[] = {REQ("3") OP("0", "3", "00010203", "00001008") ADD5};
    static const char *const last[] = {"4143 00000000 00000000 00000001 00000000"};
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true, .ord = 1});
    struct area *sink = endpoint_area(&e, 0x00aabb00, 0, 24, LOCAL, 0xee);
    const struct iwarp_sge sge = area_sge(sink, 8, 8);
    post_add(&e, sink, 0, 0);
    endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_READ,
                                              .sg_list = &sge,
                                              .num_sge = 1,
                                              .remote_stag = 0x00010203,
                                              .remote_to = 0x1000});
    post_add(&e, sink, 16, 0);
    endpoint_post(&e, &(struct iwarp_send_wr){.flags = IWARP_WR_FENCE});
    endpoint_drain(&e);
    expect_ulpdus(&e, first, 1);
    feed_ulpdu(&e, RESP("1") "00000001 0000000000000001");
    endpoint_drain(&e);
    expect_ulpdus(&e, second, 1);
    feed_ulpdu(&e, "c142 00aabb00 0000000000000008 0202020202020202");
    endpoint_drain(&e);
    expect_ulpdus(&e, third, 1);
    assert_int_equal(e.sq.done, 2);
    feed_ulpdu(&e, RESP("2") "00000003 0000000000000003"); /* queue 3 has MSNs of its own */
    endpoint_drain(&e);
    expect_ulpdus(&e, last, 1);
    assert_int_equal(e.sq.done, 4);
    assert_true(word(sink, 0) == 1 && word(sink, 16) == 3);
    endpoint_fini(&e);
}

/* [RDMAX-8.1-01] */
static void request__that_is_not_possible__fails(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) { /* ORD 0; a sink that may not be written */
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true, .ord = i});
        post_add(&e, endpoint_area(&e, 0x00aabb00, 0, 8, i ? READABLE : LOCAL, 0), 0, 0);
        endpoint_drain(&e);
        assert_int_equal(e.s.fault.code,
                         i ? IWARP_FAULT_LOCAL_SGE_ACCESS : IWARP_FAULT_LOCAL_READ_ORD);
        assert_int_equal(endpoint_swqe(&e, 0)->status,
                         i ? IWARP_WC_LOCAL_PROTECTION : IWARP_WC_LOCAL_OPERATION);
        endpoint_expect_terminate(&e, "00000000");
        endpoint_fini(&e);
    }
}

/* The sink is looked up when the answer comes. */
static void response__to_a_sink_that_is_gone__fails(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true, .ord = 1});
    struct area *sink = endpoint_area(&e, 0x00aabb00, 0, 8, LOCAL, 0xee);
    post_add(&e, sink, 0, 0);
    endpoint_drain(&e);
    endpoint_forget_sent(&e);
    endpoint_deregister(&e, sink);
    feed_ulpdu(&e, RESP("1") "00000001 0000000000000001");
    assert_int_equal(e.s.fault.code, IWARP_FAULT_LOCAL_SGE);
    assert_int_equal(endpoint_swqe(&e, 0)->status, IWARP_WC_LOCAL_PROTECTION);
    assert_true(word(sink, 0) == 0xeeeeeeeeeeeeeeee);
    endpoint_fini(&e);
}

/* --- the peer asks --------------------------------------------------------------------------- */

static void setup_target(struct endpoint *e, void *arg)
{
    (void)arg;
    struct area *a = endpoint_area(e, 0x00010203, 0x1000, 32, ATOMIC, 0);
    set_word(a, 8, 0x2a);
}

/* [RDMAX-5-05] [RDMAX-5.2-02] [RDMAX-5.2.1-09] [RDMAX-5.2.1-10] [RDMAX-5.2.1-14] */
/* [RDMAX-5.2.1-15] [RDMAX-5.2.2-01] [RDMAX-5.2.2-02] [RDMAX-5.2.2-07] [RDMAX-5.4-08] */
/* [RDMAX-5.4-09] [RDMAX-4.1-03] [RDMAX-5.2.2-03] */
static void executed(struct endpoint *e, void *arg)
{
    static const char *const sent[] = {RESP("1") "00000001 000000000000002a",
                                       RESP("2") "00000002 0000000000000000",
                                       RESP("3") "00000003 1122334455667788"};
    const struct area *a = &e->area[0];

    (void)arg;
    assert_int_equal(e->s.life, STREAM_RUNNING);
    expect_ulpdus(e, sent, 3);
    assert_true(word(a, 0) == 0 && word(a, 24) == 0);
    assert_true(word(a, 8) == 0x2f);
    assert_true(word(a, 16) == 0x1122334455667788);
    assert_int_equal(e->rq.done, 0); /* nothing that the user sees */
    assert_int_equal(atomic_load(&e->counts.rx.payload), 0);
}

/* The comparison of the third fails. Reserved bits and a FetchAdd's compare fields do not matter.
 */
static void request__of_both_kinds__is_done_and_answered(void **state)
{
    struct octets o = {0};
    struct scene scene = {
        .options = {.rfc7306 = true, .ird = 3}, .setup = setup_target, .check = executed};

    (void)state;
    fpdu_hex(&o,
             "414a ffffffff 00000001 00000001 00000000 fffffff0 00000001 00010203"
             "0000000000001008 0000000000000005 0000000000000000 123456789abcdef0 0000000000000000",
             0);
    octets_hex(&o, V20);
    fpdu_hex(&o,
             REQ("3") OP("2", "3", "00010203", "00001010") "ffffffffffffffff ffffffffffffffff"
                                                           "1122334455667787 ffffffffffffffff",
             0);
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

/* Nothing is done before it is its turn to be answered, and Reads before it see what was. */
/* [RDMAX-5.2.2-03] [RDMAX-5.4-03] [RDMAX-5.4-05] */
static void request__behind_a_read__does_not_touch_its_answer(void **state)
{
    (void)state;
    for (unsigned markers = 0; markers < 2; markers++) {
        struct endpoint e;
        struct fpdu f;
        endpoint_init(&e,
                      &(struct endpoint_options){
                          .rfc7306 = true, .ird = 3, .refers = true, .markers_tx = markers != 0});
        struct area *a = endpoint_area(&e, 0x00010203, 0x1000, 1024, ATOMIC | READABLE, 7);
        feed_ulpdu(&e, READ("1", "0400")); /* large: copied all the same */
        feed_ulpdu(&e, REQ("2") OP("0", "9", "00010203", "00001008") ADD5);
        feed_ulpdu(&e, READ("3", "0010")); /* small */
        assert_true(word(a, 8) == 0x0707070707070707);
        size_t n = endpoint_send(&e, 1000);
        assert_int_equal(n, 1000);
        assert_true(word(a, 8) == 0x070707070707070c); /* its octets are still on their way */
        endpoint_drain(&e);
        if (markers) {
            struct octets plain = {0};
            fpdu_unmark(&plain, 0, e.sent.p, e.sent.n, true);
            octets_free(&e.sent);
            e.sent = plain;
        }
        assert_true(fpdu_decode(e.sent.p, e.sent.n, true, &f)); /* and its CRC */
        assert_int_equal(f.opcode, IWARP_OP_READ_RESPONSE);
        assert_int_equal(f.payload[8], 7);
        assert_int_equal(f.payload[15], 7);
        size_t at = f.len;
        assert_true(fpdu_decode(e.sent.p + at, e.sent.n - at, true, &f));
        assert_int_equal(f.opcode, IWARP_OP_ATOMIC_RESPONSE);
        assert_int_equal(f.msn, 1);
        at += f.len;
        assert_true(fpdu_decode(e.sent.p + at, e.sent.n - at, true, &f));
        assert_int_equal(f.opcode, IWARP_OP_READ_RESPONSE);
        uint64_t seen;
        memcpy(&seen, f.payload + 8, 8);
        assert_true(seen == 0x070707070707070c);
        assert_int_equal(at + f.len, e.sent.n);
        endpoint_fini(&e);
    }
}

/* Each is done once, however little the transport takes at a time. */
static void request__sent_octet_by_octet__is_done_once(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true, .ird = 8});
    struct area *a = endpoint_area(&e, 0x00010203, 0x1000, 16, ATOMIC, 0);
    char ulpdu[300];
    for (unsigned i = 1; i <= 8; i++) {
        snprintf(ulpdu, sizeof ulpdu,
                 "414a 00000000 00000001 0000000%u 00000000 00000000 0000000%u 00010203 "
                 "0000000000001008" ADD5,
                 i, i);
        feed_ulpdu(&e, ulpdu);
    }
    while (endpoint_send(&e, 1) > 0) {
    }
    assert_true(word(a, 8) == 40);
    assert_int_equal(e.s.tx.fpdus, 8);
    endpoint_fini(&e);
}

/* The one that is wrong comes second: the first is answered, and then the Terminate says why. */
static void request__wrong_behind_a_good_one__terminates_in_turn(void **state)
{
    static const char *const sent[] = {RESP("1") "00000001 0000000000000000",
                                       "4147 00000000 00000002 00000001 00000000 0101c000 0046"
                                       "414a 00000000 00000001 00000002 00000000"};
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true, .ird = 2});
    struct area *a = endpoint_area(&e, 0x00010203, 0x1000, 16, ATOMIC, 0);
    feed_ulpdu(&e, REQ("1") OP("0", "1", "00010203", "00001008") ADD5);
    feed_ulpdu(&e, REQ("2") OP("0", "2", "00010203", "00001010") ADD5);
    assert_int_equal(e.s.life, STREAM_RUNNING);
    endpoint_drain(&e);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_ATOMIC_BOUNDS);
    expect_ulpdus(&e, sent, 2);
    assert_true(word(a, 8) == 5);
    endpoint_fini(&e);
}

/* Memory that is not there, or may only be read, ends the stream and nothing else. */
/* [RDMAX-8.1-01] */
static void request__to_missing_memory__is_a_fault(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct endpoint e;
        uint8_t *p =
            mmap(NULL, 4096, i ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(p, MAP_FAILED);
        endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true, .ird = 1});
        endpoint_foreign(&e, 0x00010203, 0x1000, p, 4096, ATOMIC);
        feed_ulpdu(&e, REQ("1") OP("0", "1", "00010203", "00001008") ADD5);
        endpoint_drain(&e);
        assert_int_equal(e.s.fault.code, IWARP_FAULT_LOCAL_MEMORY);
        assert_true(e.s.fault.detail[0] == (uintptr_t)p + 8);
        endpoint_expect_terminate(&e, "00000000");
        endpoint_fini(&e);
        munmap(p, 4096);
    }
}

/* What the queue pair withholds counts, whatever the STag allows. */
static void request__that_the_queue_pair_denies__terminates(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true, .ird = 1});
    struct area *a = endpoint_area(&e, 0x00010203, 0x1000, 16, ATOMIC, 0);
    e.s.ddp.denied = IWARP_ACCESS_REMOTE_ATOMIC;
    feed_ulpdu(&e, REQ("1") OP("0", "1", "00010203", "00001008") ADD5);
    endpoint_drain(&e);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_ATOMIC_QP_ACCESS);
    endpoint_expect_terminate(&e, "0102c000 0046" REQ("1"));
    assert_true(word(a, 8) == 0);
    endpoint_fini(&e);
}

/* --- what is wrong --------------------------------------------------------------------------- */

enum how { ASKED, ADDING, READING, OFF }; /* what this end waits for, if anything */

struct row {
    const char *name;
    enum iwarp_fault_code fault;
    const char *terminate;
    const char *ulpdu[2];
    enum how how;
    uint32_t ird;
};

#define ONE(stag, to) {REQ("1") OP("0", "1", stag, to) ADD5}

/* [RDMAX-5.2.1-11] [RDMAX-8.2-01] [RDMAX-8.2-02] [RDMAX-8.2-03] [RDMAX-8.2-04] */
/* [RDMAX-5.1.1-02] [RDMAX-5.1.1-03] [RDMAX-5.1.1-04] [RDMAX-5.1.2-03] [RDMAX-5.1.2-04] */
/* [RDMAX-5.1.2-05] [RDMAX-5.1.2-06] [RDMAX-5.2.1-08] [RDMAX-8.1-02] [RDMAX-8.2-05] */
/* [RDMAX-8.2-06] */
static const struct row rows[] = {
    {"request_unknown_stag", IWARP_FAULT_ATOMIC_STAG_INVALID, "0100c000 0046" REQ("1"),
     ONE("00990203", "00001008"), ASKED, 1},
    {"request_wrong_key", IWARP_FAULT_ATOMIC_STAG_INVALID, "0100c000 0046" REQ("1"),
     ONE("00010204", "00001008"), ASKED, 1},
    {"request_behind_the_end", IWARP_FAULT_ATOMIC_BOUNDS, "0101c000 0046" REQ("1"),
     ONE("00010203", "00001040"), ASKED, 1},
    {"request_across_the_end", IWARP_FAULT_ATOMIC_BOUNDS, "0101c000 0046" REQ("1"),
     ONE("00010203", "0000103c"), ASKED, 1},
    {"request_before_the_begin", IWARP_FAULT_ATOMIC_BOUNDS, "0101c000 0046" REQ("1"),
     ONE("00010203", "00000ff8"), ASKED, 1},
    {"request_no_right", IWARP_FAULT_ATOMIC_ACCESS, "0102c000 0046" REQ("1"),
     ONE("00020304", "00001008"), ASKED, 1},
    {"request_other_pd", IWARP_FAULT_ATOMIC_STAG_STREAM, "0103c000 0046" REQ("1"),
     ONE("00030405", "00001008"), ASKED, 1},
    {"request_wraps",
     IWARP_FAULT_ATOMIC_TO_WRAP,
     "0104c000 0046" REQ("1"),
     {REQ("1") "00000000 00000001 00050607 fffffffffffffff8" ADD5},
     ASKED,
     1},
    {"request_unaligned", IWARP_FAULT_ATOMIC_ALIGNMENT, "0207c000 0046" REQ("1"),
     ONE("00010203", "0000100c"), ASKED, 1},
    {"request_unaligned_swap",
     IWARP_FAULT_ATOMIC_ALIGNMENT,
     "0207c000 0046" REQ("1"),
     {REQ("1") OP("2", "1", "00010203", "00001009") ADD5},
     ASKED,
     1},
    {"request_operation_1",
     IWARP_FAULT_ATOMIC_OPERATION,
     "0206c000 0046" REQ("1"),
     {REQ("1") OP("1", "1", "00010203", "00001008") ADD5},
     ASKED,
     1},
    {"request_operation_3",
     IWARP_FAULT_ATOMIC_OPERATION,
     "0206c000 0046" REQ("1"),
     {REQ("1") OP("3", "1", "00010203", "00001008") ADD5},
     ASKED,
     1},
    {"request_operation_f",
     IWARP_FAULT_ATOMIC_OPERATION,
     "0206c000 0046" REQ("1"),
     {REQ("1") OP("f", "1", "00010203", "00001008") ADD5},
     ASKED,
     1},
    {"request_beyond_ird", IWARP_FAULT_DDP_IRD_EXCEEDED, "1203c000 0046" REQ("1"),
     ONE("00010203", "00001008"), ASKED, 0},
    {"request_short",
     IWARP_FAULT_RDMAP_HEADER_LEN,
     "0207c000 0045" REQ("1"),
     {REQ("1") OP("0", "1", "00010203", "00001008") "0000000000000005 0000000000000000"
                                                    "0000000000000000 ffffffffffffff"},
     ASKED,
     1},
    {"request_long",
     IWARP_FAULT_DDP_TOO_LONG,
     "1205c000 0047" REQ("1"),
     {REQ("1") OP("0", "1", "00010203", "00001008") ADD5 "00"},
     ASKED,
     1},
    {"request_not_last",
     IWARP_FAULT_RDMAP_NOT_LAST,
     "0207c000 0046 014a 00000000 00000001 00000001 00000000",
     {"014a 00000000 00000001 00000001 00000000" OP("0", "1", "00010203", "00001008") ADD5},
     ASKED,
     1},
    {"request_queue_0",
     IWARP_FAULT_DDP_QN,
     "1201c000 0046 414a 00000000 00000000 00000001 00000000",
     {"414a 00000000 00000000 00000001 00000000" OP("0", "1", "00010203", "00001008") ADD5},
     ASKED,
     1},
    {"request_msn_2",
     IWARP_FAULT_DDP_MSN,
     "1203c000 0046" REQ("2"),
     {REQ("2") OP("0", "1", "00010203", "00001008") ADD5},
     ASKED,
     1},
    {"request_mo_1",
     IWARP_FAULT_DDP_MO,
     "1204c000 0046 414a 00000000 00000001 00000001 00000001",
     {"414a 00000000 00000001 00000001 00000001" OP("0", "1", "00010203", "00001008") ADD5},
     ASKED,
     1},
    {"request_tagged",
     IWARP_FAULT_RDMAP_OPCODE,
     "0206c000 0016 c14a 00010203 0000000000001008",
     {"c14a 00010203 0000000000001008 0000000000000005"},
     ASKED,
     1},
    {"request_version_2",
     IWARP_FAULT_RDMAP_VERSION,
     "0205c000 0046 418a 00000000 00000001 00000001 00000000",
     {"418a 00000000 00000001 00000001 00000000" OP("0", "1", "00010203", "00001008") ADD5},
     ASKED,
     1},
    {"request_switched_off", IWARP_FAULT_RDMAP_SWITCHED_OFF, "0206c000 0046" REQ("1"),
     ONE("00010203", "00001008"), OFF, 1},
    {"response_without_request",
     IWARP_FAULT_ATOMIC_RESPONSE_UNEXPECTED,
     "0206c000 001e" RESP("1"),
     {RESP("1") "00000001 0000000000000000"},
     ASKED,
     1},
    {"response_twice",
     IWARP_FAULT_ATOMIC_RESPONSE_UNEXPECTED,
     "0206c000 001e" RESP("2"),
     {RESP("1") "00000001 0000000000000000", RESP("2") "00000002 0000000000000000"},
     ADDING,
     1},
    {"response_to_a_read",
     IWARP_FAULT_ATOMIC_RESPONSE_UNEXPECTED,
     "0206c000 001e" RESP("1"),
     {RESP("1") "00000001 0000000000000000"},
     READING,
     1},
    {"read_response_to_an_atomic",
     IWARP_FAULT_RDMAP_READ_RESPONSE_UNEXPECTED,
     "0206c000 0016 c142 00040506 0000000000001000",
     {"c142 00040506 0000000000001000 0000000000000000"},
     ADDING,
     1},
    {"response_unknown_id",
     IWARP_FAULT_ATOMIC_RESPONSE_ID,
     "0207c000 001e" RESP("1"),
     {RESP("1") "00000002 0000000000000000"},
     ADDING,
     1},
    {"response_short",
     IWARP_FAULT_RDMAP_HEADER_LEN,
     "0207c000 001d" RESP("1"),
     {RESP("1") "00000001 00000000000000"},
     ADDING,
     1},
    {"response_long",
     IWARP_FAULT_DDP_TOO_LONG,
     "1205c000 001f" RESP("1"),
     {RESP("1") "00000001 0000000000000000 00"},
     ADDING,
     1},
    {"response_not_last",
     IWARP_FAULT_RDMAP_NOT_LAST,
     "0207c000 001e 014b 00000000 00000003 00000001 00000000",
     {"014b 00000000 00000003 00000001 00000000 00000001 0000000000000000"},
     ADDING,
     1},
    {"response_queue_1",
     IWARP_FAULT_DDP_QN,
     "1201c000 001e 414b 00000000 00000001 00000001 00000000",
     {"414b 00000000 00000001 00000001 00000000 00000001 0000000000000000"},
     ADDING,
     1},
    {"response_queue_4",
     IWARP_FAULT_DDP_QN,
     "1201c000 001e 414b 00000000 00000004 00000001 00000000",
     {"414b 00000000 00000004 00000001 00000000 00000001 0000000000000000"},
     ADDING,
     1},
    {"response_msn_2",
     IWARP_FAULT_DDP_MSN,
     "1203c000 001e" RESP("2"),
     {RESP("2") "00000001 0000000000000000"},
     ADDING,
     1},
    {"response_switched_off",
     IWARP_FAULT_DDP_QN,
     "1201c000 001e" RESP("1"),
     {RESP("1") "00000001 0000000000000000"},
     OFF,
     1},
    {"send_on_queue_3",
     IWARP_FAULT_DDP_QN,
     "1201c000 0012 4143 00000000 00000003 00000001 00000000",
     {"4143 00000000 00000003 00000001 00000000"},
     ASKED,
     1},
};

#define ROWS (sizeof rows / sizeof *rows)

/* 10203 the target, 20304 all rights but this, 30405 another PD's, 40506 the sink, 50607 at the
 * end of all TOs. */
static void setup_row(struct endpoint *e, void *arg)
{
    const struct row *row = arg;
    const struct iwarp_sge sink = {(void *)(uintptr_t)0x1000, 8, 0x00040506};

    endpoint_area(e, 0x00010203, 0x1000, 64, ATOMIC, 0xee);
    endpoint_area(e, 0x00020304, 0x1000, 64, READABLE | WRITABLE, 0xee);
    endpoint_stranger(e, 0x00030405, 0x1000, 64, ATOMIC);
    struct area *a = endpoint_area(e, 0x00040506, 0x1000, 64, LOCAL, 0xee);
    endpoint_area(e, 0x00050607, UINT64_MAX - 15, 16, ATOMIC, 0xee);
    if (row->how == ADDING) {
        post_add(e, a, 0, 0);
    } else if (row->how == READING) {
        endpoint_post(e, &(struct iwarp_send_wr){.opcode = IWARP_WR_READ,
                                                 .sg_list = &sink,
                                                 .num_sge = 1,
                                                 .remote_stag = 0x00010203});
    }
    endpoint_drain(e);
    endpoint_forget_sent(e);
}

static void check_row(struct endpoint *e, void *arg)
{
    const struct row *row = arg;

    assert_string_equal(iwarp_fault_name(e->s.fault.code), iwarp_fault_name(row->fault));
    endpoint_expect_terminate(e, row->terminate);
    for (unsigned i = 0; i < 5; i++) {
        for (unsigned k = 0; k < e->area[i].n && i != 3; k++) {
            assert_int_equal(e->area[i].p[k], i == 2 ? 0 : 0xee);
        }
    }
}

static void run_row(void **state)
{
    struct row *row = *state;
    struct octets o = {0};
    struct scene scene = {.options = {.rfc7306 = row->how != OFF, .ird = row->ird, .ord = 1},
                          .setup = setup_row,
                          .check = check_row,
                          .arg = row};

    for (unsigned i = 0; i < 2 && row->ulpdu[i]; i++) {
        fpdu_hex(&o, row->ulpdu[i], 0);
    }
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

/* --- Terminates from the peer ---------------------------------------------------------------- */

static void terminate__about_unknown_opcodes__says_what_the_peer_lacks(void **state)
{
    static const char about_imm[] = "4147 00000000 00000002 00000001 00000000 0206c000 001a"
                                    "4148 00000000 00000000 00000001 00000000";
    static const char about_atomic[] = "4147 00000000 00000002 00000001 00000000 0206c000 0046"
                                       "414a 00000000 00000001 00000001 00000000";
    static const char about_send[] = "4147 00000000 00000002 00000001 00000000 0206c000 0012"
                                     "4143 00000000 00000000 00000001 00000000";
    static const char bare[] = "4147 00000000 00000002 00000001 00000000 02060000";
    static const struct {
        const char *ulpdu;
        enum iwarp_wr_opcode posted;
        enum iwarp_fault_code fault;
    } cases[] = {
        {about_imm, IWARP_WR_IMM, IWARP_FAULT_PEER_NO_RFC7306},
        {bare, IWARP_WR_IMM, IWARP_FAULT_PEER_NO_RFC7306},
        {about_atomic, IWARP_WR_ATOMIC_FETCH_ADD, IWARP_FAULT_PEER_NO_RFC7306},
        {about_send, IWARP_WR_IMM, IWARP_FAULT_PEER_TERMINATE},
        {bare, IWARP_WR_SEND, IWARP_FAULT_PEER_TERMINATE},
        {about_imm, IWARP_WR_SEND, IWARP_FAULT_PEER_TERMINATE}, /* none was sent */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true, .ord = 1});
        struct area *sink = endpoint_area(&e, 0x00aabb00, 0, 8, LOCAL, 0xee);
        if (cases[i].posted == IWARP_WR_ATOMIC_FETCH_ADD) {
            post_add(&e, sink, 0, 0);
        } else {
            endpoint_post(&e, &(struct iwarp_send_wr){.opcode = cases[i].posted});
        }
        endpoint_drain(&e);
        feed_ulpdu(&e, cases[i].ulpdu);
        assert_string_equal(iwarp_fault_name(e.s.fault.code), iwarp_fault_name(cases[i].fault));
        assert_int_equal(e.s.fault.detail[2], 6);
        if (cases[i].posted == IWARP_WR_ATOMIC_FETCH_ADD) {
            assert_int_equal(endpoint_swqe(&e, 0)->status, IWARP_WC_REMOTE_OPERATION);
        }
        endpoint_fini(&e);
    }
}

/* The peer names the second of two by its MSN. */
static void terminate__that_quotes_an_atomic__blames_it(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true, .ord = 2});
    struct area *sink = endpoint_area(&e, 0x00aabb00, 0, 16, LOCAL, 0xee);
    post_add(&e, sink, 0, 0);
    post_swap(&e, sink, 8);
    endpoint_drain(&e);
    feed_ulpdu(&e, "4147 00000000 00000002 00000001 00000000 0102c000 0046" REQ("2"));
    assert_int_equal(e.s.fault.code, IWARP_FAULT_PEER_TERMINATE);
    assert_int_equal(endpoint_swqe(&e, 0)->status, IWARP_WC_SUCCESS); /* nothing against it */
    assert_int_equal(endpoint_swqe(&e, 1)->status, IWARP_WC_REMOTE_ACCESS);
    endpoint_fini(&e);
}

int main(void)
{
    static struct row own[ROWS];
    static char names[ROWS][80];
    const struct CMUnitTest plain[] = {
        cmocka_unit_test(request__of_both_kinds__is_the_literal_octets),
        cmocka_unit_test(response__in_order__lands_in_the_sinks),
        cmocka_unit_test(request__beyond_ord__waits_for_answers),
        cmocka_unit_test(request__that_is_not_possible__fails),
        cmocka_unit_test(response__to_a_sink_that_is_gone__fails),
        cmocka_unit_test(request__of_both_kinds__is_done_and_answered),
        cmocka_unit_test(request__behind_a_read__does_not_touch_its_answer),
        cmocka_unit_test(request__sent_octet_by_octet__is_done_once),
        cmocka_unit_test(request__wrong_behind_a_good_one__terminates_in_turn),
        cmocka_unit_test(request__to_missing_memory__is_a_fault),
        cmocka_unit_test(request__that_the_queue_pair_denies__terminates),
        cmocka_unit_test(terminate__about_unknown_opcodes__says_what_the_peer_lacks),
        cmocka_unit_test(terminate__that_quotes_an_atomic__blames_it),
    };
    enum { PLAIN = sizeof plain / sizeof *plain };
    struct CMUnitTest tests[PLAIN + ROWS];

    memcpy(tests, plain, sizeof plain);
    for (size_t i = 0; i < ROWS; i++) {
        own[i] = rows[i];
        snprintf(names[i], sizeof names[i], "receive__%s__terminates", rows[i].name);
        tests[PLAIN + i] = (struct CMUnitTest){names[i], run_row, NULL, NULL, &own[i]};
    }
    return cmocka_run_group_tests_name("stream_atomic", tests, NULL, NULL);
}
