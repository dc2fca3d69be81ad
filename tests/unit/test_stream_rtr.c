/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ready-to-receive message of peer-to-peer mode at the level of the stream: the literal first
 * FPDU of the initiator, what may follow it and when, its answer, right and wrong, and what it
 * starts at the responder.
 *
 * RFC 6581 9.2, RFC 5040 5.2 and 6.1, RFC 5044 7.1.2.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "alloc_fault.h"
#include "deliveries.h"
#include "vectors.h"

#define KEY      0x00aabb00u
#define RTR_SEND "00124143 00000000 00000000 00000001 00000000 587be8c4"

static const struct {
    enum iwarp_stream_rtr rtr;
    const char *octets;
    size_t n;
} kinds[] = {
    {STREAM_RTR_SEND, RTR_SEND, 24},
    {STREAM_RTR_WRITE, V24, 20},
    {STREAM_RTR_READ, V25, 52},
};

static void feed_fpdu(struct endpoint *e, const char *ulpdu, size_t payload)
{
    struct octets o = {0};

    fpdu_hex(&o, ulpdu, payload);
    iwarp_stream_feed(&e->s, o.p, o.n);
    octets_free(&o);
    endpoint_check(e);
}

static void expect_fault(const struct endpoint *e, enum iwarp_fault_code code)
{
    assert_string_equal(iwarp_fault_name(e->s.fault.code), iwarp_fault_name(code));
}

/* An initiator that is to send RTR `rtr` and may have `ord` RDMA Reads. */
static void initiator(struct endpoint *e, enum iwarp_stream_rtr rtr, uint32_t ord)
{
    endpoint_init(e, &(struct endpoint_options){.rtr = rtr, .ird = 1, .ord = ord});
}

static void post_send(struct endpoint *e)
{
    endpoint_post(e, &(struct iwarp_send_wr){0});
}

/* A zero-length RDMA Read as V25, but for its MSN. */
static void post_read(struct endpoint *e)
{
    endpoint_post(e, &(struct iwarp_send_wr){.opcode = IWARP_WR_READ, .remote_stag = 1});
}

/* The MSNs of what was sent on queue qn, as a text. */
static void expect_opcodes(struct endpoint *e, const char *expected)
{
    char text[80] = "";
    struct fpdu f;
    size_t used = 0;

    for (size_t at = 0; at < e->sent.n; at += f.len) {
        assert_true(fpdu_decode(e->sent.p + at, e->sent.n - at, !e->options.no_crc, &f));
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%x/%u", at ? " " : "",
                                 f.opcode, f.tagged ? 0 : f.msn);
    }
    assert_string_equal(text, expected);
    endpoint_forget_sent(e);
}

/* --- the message -------------------------------------------------------------------------------
 */

static void rtr__nothing_posted__is_the_literal_octets(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3 * 2 * 2; i++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.rtr = kinds[i % 3].rtr,
                                                     .no_crc = i / 3 % 2,
                                                     .markers_tx = i / 6 != 0,
                                                     .ord = 1});
        assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_WRITE);
        endpoint_drain(&e);
        assert_int_equal(e.sent.n, kinds[i % 3].n + (i / 6 ? 4 : 0));
        endpoint_expect_sent(&e, kinds[i % 3].octets);
        endpoint_drain(&e);
        assert_int_equal(e.sent.n, 0); /* once */
        assert_int_equal(iwarp_stream_interest(&e.s), 0);
        assert_int_equal(e.sq.done, 0);
        assert_false(iwarp_stream_busy(&e.s)); /* it is nobody's work */
        endpoint_fini(&e);
    }
}

static void rtr__cut_at_each_octet__is_the_literal_octets(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        for (size_t k = 0; k <= kinds[i].n + 24; k++) {
            struct endpoint e;
            struct octets both = {0};
            initiator(&e, kinds[i].rtr, 1);
            post_send(&e);
            size_t n = endpoint_send(&e, k);
            assert_int_equal(n, k);
            iwarp_stream_released(&e.s, n);
            assert_int_equal(e.sq.done, k == kinds[i].n + 24);
            endpoint_drain(&e);
            assert_int_equal(e.sq.done, 1);
            octets_hex(&both, kinds[i].octets);
            octets_hex(&both, i == 0 ? V02 : RTR_SEND);
            octets_expect("stream", e.sent.p, e.sent.n, both.p, both.n);
            octets_free(&both);
            endpoint_fini(&e);
        }
    }
}

/* Whatever is posted before stands behind it, and counts on from its MSN. */
/* [MPA2-5-01] */
static void rtr__requests_posted_before__is_first(void **state)
{
    static const char *const expected[] = {"3/1 3/2 1/1 0/0 3/3", "0/0 3/1 1/1 0/0 3/2",
                                           "1/1 3/1 1/2 0/0 3/2"};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct endpoint e;
        initiator(&e, kinds[i].rtr, 2);
        post_send(&e);
        post_read(&e);
        endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE});
        post_send(&e);
        endpoint_drain(&e);
        expect_opcodes(&e, expected[i]);
        endpoint_fini(&e);
    }
}

/* It does not wait for what the peer sends, and the peer's first FPDU does not overtake it. */
static void rtr__behind_a_request_of_the_peer__is_first(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct endpoint e;
        initiator(&e, kinds[i].rtr, 1);
        endpoint_feed_hex(&e, V25); /* of a responder that does not wait */
        endpoint_drain(&e);
        expect_opcodes(&e, i == 0 ? "3/1 2/0" : i == 1 ? "0/0 2/0" : "1/1 2/0");
        endpoint_fini(&e);
    }
}

/* A fault before it is out: only the Terminate. */
static void rtr__fault_before_it__is_not_sent(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct endpoint e;
        initiator(&e, kinds[i].rtr, 1);
        endpoint_feed_hex(&e, "0012c140 00010203 00000000 00001000 deadbeef 17369157");
        expect_fault(&e, IWARP_FAULT_MPA_CRC);
        endpoint_drain(&e);
        endpoint_expect_sent(&e, V16);
        endpoint_fini(&e);
    }
}

/* --- an RDMA Read as RTR -----------------------------------------------------------------------
 */

/* Without memory for the Read's place there is no such message, and no stream without it. */
static void rtr_read__no_memory__ends_with_a_reset(void **state)
{
    bool ended = false;

    (void)state;
    for (unsigned n = 1; !ended; n++) {
        struct endpoint e;
        const struct iovec *iov;
        initiator(&e, STREAM_RTR_READ, 1);
        alloc_fault_at(n);
        unsigned pieces = iwarp_stream_gather(&e.s, &iov);
        ended = alloc_fault_count() < n;
        alloc_fault_at(0);
        if (ended) {
            assert_true(n > 2); /* the block and the ring */
            assert_int_equal(pieces, 1);
            iwarp_stream_sent(&e.s, 0);
        } else {
            assert_int_equal(pieces, 0);
            expect_fault(&e, IWARP_FAULT_LOCAL_NO_MEMORY);
            assert_true(e.s.life == STREAM_ENDED && e.s.abort);
        }
        endpoint_fini(&e);
    }
}

static void rtr_read__ord_1__holds_the_next_read_back(void **state)
{
    struct endpoint e;

    (void)state;
    initiator(&e, STREAM_RTR_READ, 1);
    post_read(&e);
    endpoint_drain(&e);
    expect_opcodes(&e, "1/1");
    assert_int_equal(e.s.reads.out_count, 1);
    endpoint_feed_hex(&e, V26);
    assert_int_equal(e.sq.done, 0);
    endpoint_drain(&e);
    expect_opcodes(&e, "1/2");
    assert_int_equal(e.s.reads.out_count, 1);
    endpoint_feed_hex(&e, V26);
    assert_int_equal(e.sq.done, 1);
    assert_int_equal(e.s.reads.out_count, 0);
    expect_fault(&e, IWARP_FAULT_NONE);
    endpoint_fini(&e);
}

static void rtr_read__ord_3__takes_one_place(void **state)
{
    struct endpoint e;

    (void)state;
    initiator(&e, STREAM_RTR_READ, 3);
    for (unsigned i = 0; i < 4; i++) {
        post_read(&e);
    }
    endpoint_drain(&e);
    expect_opcodes(&e, "1/1 1/2 1/3");
    for (unsigned i = 0; i < 5; i++) { /* the first answer is nobody's */
        endpoint_feed_hex(&e, V26);
        assert_int_equal(e.sq.done, i);
        endpoint_drain(&e);
    }
    expect_opcodes(&e, "1/4 1/5");
    endpoint_feed_hex(&e, V26);
    expect_fault(&e, IWARP_FAULT_RDMAP_READ_RESPONSE_UNEXPECTED);
    endpoint_fini(&e);
}

static void rtr_read__unanswered__holds_a_fenced_request_back(void **state)
{
    struct endpoint e;

    (void)state;
    initiator(&e, STREAM_RTR_READ, 1);
    post_send(&e);
    endpoint_post(&e, &(struct iwarp_send_wr){.flags = IWARP_WR_FENCE});
    endpoint_drain(&e);
    expect_opcodes(&e, "1/1 3/1");
    assert_int_equal(e.sq.done, 1);
    endpoint_feed_hex(&e, V26);
    endpoint_drain(&e);
    expect_opcodes(&e, "3/2");
    endpoint_fini(&e);
}

/* Whatever STag and TO the answer has: it is of length zero. */
static void rtr_read__answered_with_other_names__is_done(void **state)
{
    static const char *const answers[] = {V26, V13, "000ec142 11223344 00000000 00002000"};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct endpoint e;
        endpoint_init(
            &e, &(struct endpoint_options){.rtr = STREAM_RTR_READ, .ord = 1, .no_crc = i == 2});
        endpoint_drain(&e);
        endpoint_feed_hex(&e, answers[i]);
        if (i == 2) {
            endpoint_feed_hex(&e, "00000000"); /* its CRC field */
        }
        expect_fault(&e, IWARP_FAULT_NONE);
        assert_int_equal(e.s.reads.out_count, 0);
        endpoint_fini(&e);
    }
}

struct answer {
    const char *ulpdu;
    size_t payload;
    enum iwarp_fault_code fault;
    const char *terminate; /* its first octets */
};

static void answer_setup(struct endpoint *e, void *arg)
{
    (void)arg;
    endpoint_area(e, 0x00000100, 0, 4096, WRITABLE, 0xee);
    endpoint_drain(e);
    endpoint_forget_sent(e);
}

static void answer_check(struct endpoint *e, void *arg)
{
    const struct answer *a = arg;
    struct octets begin = {0};
    struct fpdu f;

    expect_fault(e, a->fault);
    octets_hex(&begin, a->terminate);
    assert_true(fpdu_decode(e->sent.p, e->sent.n, !e->options.no_crc, &f));
    assert_int_equal(f.opcode, 7);
    assert_memory_equal(f.payload, begin.p, begin.n);
    octets_free(&begin);
    for (size_t i = 0; i < 4096; i++) {
        assert_int_equal(e->area[0].p[i], 0xee);
    }
}

static void rtr_read__answered_wrongly__is_a_fault(void **state)
{
    static const struct answer answers[] = {
        {"c142 00000001 00000000 00000000", 1, IWARP_FAULT_READ_RESPONSE_BOUNDS, "1101"},
        {"c142 00000100 00000000 00000000", 4, IWARP_FAULT_READ_RESPONSE_BOUNDS, "1101"},
        {"c142 00000100 00000000 00000000", 2000, IWARP_FAULT_READ_RESPONSE_BOUNDS, "1101"},
        {"8142 00000001 00000000 00000000", 0, IWARP_FAULT_READ_RESPONSE_BOUNDS, "1101"},
        {"8142 00000100 00000000 00000000", 600, IWARP_FAULT_READ_RESPONSE_BOUNDS, "1101"},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct answer a = answers[i];
        struct octets o = {0};
        fpdu_hex(&o, a.ulpdu, a.payload);
        const struct scene scene = {.options = {.rtr = STREAM_RTR_READ, .ord = 1},
                                    .setup = answer_setup,
                                    .check = answer_check,
                                    .arg = &a,
                                    .octets = o.p,
                                    .n = o.n};
        receive_every_way(&scene);
        octets_free(&o);
    }
}

/* Nobody asked: the other two have no answer. */
static void rtr_send_or_write__answered__is_a_fault(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct endpoint e;
        initiator(&e, kinds[i].rtr, 1);
        endpoint_drain(&e);
        endpoint_feed_hex(&e, V26);
        expect_fault(&e, IWARP_FAULT_RDMAP_READ_RESPONSE_UNEXPECTED);
        endpoint_fini(&e);
    }
}

/* The peer refuses it; its Terminate quotes it. No request of the user's is to blame. */
static void rtr_read__refused_by_terminate__blames_no_request(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct endpoint e;
        initiator(&e, STREAM_RTR_READ, 1);
        if (i) {
            post_read(&e);
        }
        endpoint_drain(&e);
        feed_fpdu(&e,
                  "4147 00000000 00000002 00000001 00000000 0100e000 002e4141 00000000 00000001"
                  "00000001 00000000 00000001 00000000 00000000 00000000 00000001 00000000"
                  "00000000",
                  0);
        expect_fault(&e, IWARP_FAULT_PEER_TERMINATE);
        if (i) {
            assert_int_equal(endpoint_swqe(&e, 0)->status, IWARP_WC_SUCCESS);
            assert_int_equal(e.sq.next, 0);
        }
        endpoint_fini(&e);
    }
}

/* --- closing -----------------------------------------------------------------------------------
 */

/* A FIN in front of the answer would leave the peer with a Read that it cannot finish. */
static void close__rtr_read_unanswered__waits_for_the_answer(void **state)
{
    (void)state;
    for (unsigned sent_first = 0; sent_first < 2; sent_first++) {
        struct endpoint e;
        initiator(&e, STREAM_RTR_READ, 1);
        if (sent_first) {
            endpoint_drain(&e);
        }
        iwarp_stream_close(&e.s);
        endpoint_drain(&e);
        endpoint_expect_sent(&e, V25);
        assert_int_equal(iwarp_stream_interest(&e.s), 0);
        endpoint_feed_hex(&e, V26);
        assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
        iwarp_stream_eof(&e.s, 0);
        assert_int_equal(e.s.life, STREAM_ENDED);
        assert_false(e.s.abort);
        expect_fault(&e, IWARP_FAULT_NONE);
        endpoint_fini(&e);
    }
}

static void close__other_rtr__is_sent_before_the_fin(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct endpoint e;
        initiator(&e, kinds[i].rtr, 1);
        iwarp_stream_close(&e.s);
        assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_WRITE);
        endpoint_drain(&e);
        endpoint_expect_sent(&e, kinds[i].octets);
        assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
        endpoint_fini(&e);
    }
}

/* The responder closed at once: the answer can never come, and nothing is lost. */
static void eof__rtr_read_unanswered__is_a_close_in_order(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct endpoint e;
        initiator(&e, STREAM_RTR_READ, 1);
        if (i & 1) {
            endpoint_drain(&e);
        }
        if (i & 2) {
            iwarp_stream_close(&e.s);
        }
        iwarp_stream_eof(&e.s, 0);
        assert_int_equal(e.s.life, STREAM_ENDED);
        assert_false(e.s.abort);
        expect_fault(&e, IWARP_FAULT_NONE);
        endpoint_fini(&e);
    }
}

static void eof__requests_behind_the_rtr__is_a_fault(void **state)
{
    struct endpoint e;

    (void)state;
    initiator(&e, STREAM_RTR_READ, 1);
    post_read(&e);
    endpoint_drain(&e);
    iwarp_stream_eof(&e.s, 0);
    expect_fault(&e, IWARP_FAULT_RDMAP_PEER_CLOSED);
    endpoint_fini(&e);
}

/* The queue pair goes while the answer is awaited: nobody waits any more, but no reset either. */
static void detach__rtr_read_unanswered__drains(void **state)
{
    struct endpoint e;

    (void)state;
    initiator(&e, STREAM_RTR_READ, 1);
    endpoint_drain(&e);
    iwarp_stream_close(&e.s);
    assert_int_equal(iwarp_stream_interest(&e.s), 0);
    iwarp_stream_detach(&e.s);
    assert_int_equal(e.s.life, STREAM_DRAINING);
    assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
    endpoint_feed_hex(&e, V26);
    iwarp_stream_eof(&e.s, 0);
    assert_int_equal(e.s.life, STREAM_ENDED);
    assert_false(e.s.abort);
    endpoint_fini(&e);
}

/* --- the responder -----------------------------------------------------------------------------
 */

/* Between messages, while the peer has not sent an octet, a reminder may go out; and only then. */
static void remind__nothing_came__is_a_write_of_length_zero(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct endpoint e;
        initiator(&e, kinds[i].rtr, 1);
        assert_false(iwarp_stream_remind(&e.s)); /* nothing of this end's is out */
        assert_int_equal(endpoint_send(&e, 10), 10);
        assert_false(iwarp_stream_remind(&e.s)); /* half of it is */
        endpoint_drain(&e);
        endpoint_forget_sent(&e);
        for (unsigned again = 0; again < 2; again++) {
            assert_true(iwarp_stream_remind(&e.s));
            assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_WRITE);
            endpoint_drain(&e);
            endpoint_expect_sent(&e, V24);
        }
        endpoint_fini(&e);
    }
}

static void remind__no_peer_to_peer_mode__follows_what_was_sent(void **state)
{
    struct endpoint e;

    (void)state;
    initiator(&e, STREAM_RTR_NONE, 1);
    assert_false(iwarp_stream_remind(&e.s));
    post_send(&e);
    endpoint_drain(&e);
    endpoint_expect_sent(&e, RTR_SEND);
    assert_int_equal(e.sq.done, 1);
    assert_true(iwarp_stream_remind(&e.s));
    post_send(&e);
    endpoint_drain(&e);
    expect_opcodes(&e, "0/0 3/2");
    assert_int_equal(e.sq.done, 2);
    endpoint_fini(&e);
}

static void remind__not_called_for__does_nothing(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.ird = 1, .ord = 1});
        post_send(&e);
        endpoint_drain(&e);
        switch (i) {
        case 0: /* it is alive */
            iwarp_stream_feed(&e.s, "", 1);
            break;
        case 1:
            e.s.config.responder = true;
            break;
        case 2:
            iwarp_stream_close(&e.s);
            break;
        }
        assert_false(iwarp_stream_remind(&e.s));
        endpoint_fini(&e);
    }
}

static void responder__rtr__lets_held_work_go(void **state)
{
    static const char *const first[] = {"3/1 3/2", "3/1 3/2", "3/1 2/0 3/2"};

    (void)state;
    for (unsigned i = 0; i < 3 * 2; i++) {
        struct endpoint e;
        struct octets o = {0};
        bool markers = i / 3 != 0;
        endpoint_init(&e,
                      &(struct endpoint_options){.hold_tx = true, .ird = 1, .markers_rx = markers});
        endpoint_recv(&e, NULL, 0);
        post_send(&e);
        post_send(&e);
        assert_int_equal(iwarp_stream_interest(&e.s), 0);
        octets_hex(&o, kinds[i % 3].octets);
        if (markers) { /* the same ULPDU behind a leading marker */
            struct fpdu f;
            struct octets marked = {0};
            assert_true(fpdu_decode(o.p, o.n, true, &f));
            fpdu_add_marked(&marked, 0, f.ulpdu, f.ulpdu_len, 0);
            octets_free(&o);
            o = marked;
        }
        for (size_t at = 0; at < o.n; at++) { /* not before its last octet */
            endpoint_drain(&e);
            assert_int_equal(e.sent.n, 0);
            iwarp_stream_feed(&e.s, o.p + at, 1);
        }
        endpoint_drain(&e);
        expect_opcodes(&e, first[i % 3]);
        assert_int_equal(e.sq.done, 2);
        assert_int_equal(e.rq.done, i % 3 == 0); /* a Send takes a receive */
        if (i % 3 == 0) {
            assert_int_equal(endpoint_rwqe(&e, 0)->byte_len, 0);
        }
        octets_free(&o);
        endpoint_fini(&e);
    }
}

static void responder__rtr_read__is_answered_literally(void **state)
{
    static const char *const pairs[][2] = {{V25, V26}, {V11, V13}};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.hold_tx = true, .ird = 1});
        endpoint_feed_hex(&e, pairs[i][0]);
        endpoint_drain(&e);
        endpoint_expect_sent(&e, pairs[i][1]);
        endpoint_fini(&e);
    }
}

static void responder__rtr_that_it_cannot_take__terminates(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.hold_tx = true, .ird = 1});
    endpoint_feed_hex(&e, RTR_SEND); /* no receive is posted */
    expect_fault(&e, IWARP_FAULT_DDP_NO_BUFFER);
    endpoint_drain(&e);
    endpoint_expect_terminate(&e, "1202c000 0012 4143 00000000 00000000 00000001 00000000");
    endpoint_fini(&e);
    endpoint_init(&e, &(struct endpoint_options){.hold_tx = true, .ird = 0});
    endpoint_feed_hex(&e, V25); /* it grants no Reads */
    expect_fault(&e, IWARP_FAULT_DDP_IRD_EXCEEDED);
    endpoint_fini(&e);
}

/* --- both ends ---------------------------------------------------------------------------------
 */

static void carry_over(struct endpoint *from, struct endpoint *to, struct chance *c)
{
    endpoint_forget_sent(from);
    endpoint_drain_randomly(from, c);
    deliver(to, DELIVER_MIXED, from->sent.p, from->sent.n, c);
    expect_fault(from, IWARP_FAULT_NONE);
    expect_fault(to, IWARP_FAULT_NONE);
}

/* Both have posted before the start; the responder's Send gets through with any RTR. */
static void both__post_first__all_arrives(void **state)
{
    struct chance c = {chance_seed()};

    (void)state;
    for (unsigned i = 0; i < 3 * 2 * 2 * 2 * 3; i++) {
        bool rx = i / 3 % 2, tx = i / 6 % 2, no_crc = i / 12 % 2;
        struct endpoint a, b;
        endpoint_init(&a, &(struct endpoint_options){.rtr = kinds[i % 3].rtr,
                                                     .markers_rx = rx,
                                                     .markers_tx = tx,
                                                     .no_crc = no_crc,
                                                     .ord = 1});
        endpoint_init(
            &b,
            &(struct endpoint_options){
                .hold_tx = true, .markers_rx = tx, .markers_tx = rx, .no_crc = no_crc, .ird = 1});
        for (unsigned k = 0; k < 2; k++) {
            struct endpoint *e = k ? &b : &a, *other = k ? &a : &b;
            struct area *from = endpoint_area(e, KEY, 0x7000, 3000, 0, (uint8_t)(k + 1));
            struct area *to = endpoint_area(other, KEY + 0x100, 0x7000, 3000, LOCAL, 0xee);
            const struct iwarp_sge sge = area_sge(from, 0, 3000);
            endpoint_post(e, &(struct iwarp_send_wr){.sg_list = &sge, .num_sge = 1});
            if (i % 3 == 0 && k == 0) {
                endpoint_recv(other, NULL, 0); /* for the RTR */
            }
            endpoint_recv_area(other, to);
        }
        carry_over(&b, &a, &c);
        assert_int_equal(b.sent.n, 0);
        carry_over(&a, &b, &c);
        assert_int_equal(b.rq.done, i % 3 == 0 ? 2 : 1);
        carry_over(&b, &a, &c);
        assert_int_equal(a.rq.done, 1);
        assert_int_equal(a.s.reads.out_count, 0);
        assert_int_equal(a.sq.done, 1);
        assert_int_equal(b.sq.done, 1);
        for (size_t k = 0; k < 3000; k++) {
            assert_int_equal(a.area[1].p[k], 2);
            assert_int_equal(b.area[0].p[k], 1);
        }
        endpoint_fini(&a);
        endpoint_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rtr__nothing_posted__is_the_literal_octets),
        cmocka_unit_test(rtr__cut_at_each_octet__is_the_literal_octets),
        cmocka_unit_test(rtr__requests_posted_before__is_first),
        cmocka_unit_test(rtr__behind_a_request_of_the_peer__is_first),
        cmocka_unit_test(rtr__fault_before_it__is_not_sent),
        cmocka_unit_test(rtr_read__no_memory__ends_with_a_reset),
        cmocka_unit_test(rtr_read__ord_1__holds_the_next_read_back),
        cmocka_unit_test(rtr_read__ord_3__takes_one_place),
        cmocka_unit_test(rtr_read__unanswered__holds_a_fenced_request_back),
        cmocka_unit_test(rtr_read__answered_with_other_names__is_done),
        cmocka_unit_test(rtr_read__answered_wrongly__is_a_fault),
        cmocka_unit_test(rtr_send_or_write__answered__is_a_fault),
        cmocka_unit_test(rtr_read__refused_by_terminate__blames_no_request),
        cmocka_unit_test(close__rtr_read_unanswered__waits_for_the_answer),
        cmocka_unit_test(close__other_rtr__is_sent_before_the_fin),
        cmocka_unit_test(eof__rtr_read_unanswered__is_a_close_in_order),
        cmocka_unit_test(eof__requests_behind_the_rtr__is_a_fault),
        cmocka_unit_test(detach__rtr_read_unanswered__drains),
        cmocka_unit_test(remind__nothing_came__is_a_write_of_length_zero),
        cmocka_unit_test(remind__no_peer_to_peer_mode__follows_what_was_sent),
        cmocka_unit_test(remind__not_called_for__does_nothing),
        cmocka_unit_test(responder__rtr__lets_held_work_go),
        cmocka_unit_test(responder__rtr_read__is_answered_literally),
        cmocka_unit_test(responder__rtr_that_it_cannot_take__terminates),
        cmocka_unit_test(both__post_first__all_arrives),
    };

    return cmocka_run_group_tests_name("stream_rtr", tests, NULL, NULL);
}
