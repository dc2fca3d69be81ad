/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is sent: the literal vectors, segmentation, the order of requests and responses, and
 * completion. Judged by the decoder of octets.c only.
 *
 * RFC 5041 5.2, RFC 5044 4, RFC 5040 5 and 6.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>

#include "deliveries.h"
#include "stream/stream_block.h"
#include "vectors.h"

#define KEY 0x00aabb00u

static void expect_fault(const struct endpoint *e, enum iwarp_fault_code code)
{
    assert_string_equal(iwarp_fault_name(e->s.fault.code), iwarp_fault_name(code));
}

static void post_area(struct endpoint *e, const struct area *a)
{
    const struct iwarp_sge sge = area_sge(a, 0, a->n);
    endpoint_post(e, &(struct iwarp_send_wr){.sg_list = &sge, .num_sge = 1});
}

/* --- vectors -----------------------------------------------------------------------------------
 */

static void post_five_sends(struct endpoint *e)
{
    struct area *a = endpoint_area(e, KEY, 0x7000, 16, 0, 0);
    struct iwarp_sge hello = area_sge(a, 0, 5), four = area_sge(a, 5, 4), x = area_sge(a, 9, 1);

    memcpy(a->p, "hello\1\2\3\4x", 10);
    endpoint_post(e, &(struct iwarp_send_wr){.sg_list = &hello, .num_sge = 1});
    endpoint_post(e, &(struct iwarp_send_wr){.invalidate_stag = 0x12345678}); /* means nothing */
    endpoint_post(e, &(struct iwarp_send_wr){.sg_list = &four,
                                             .num_sge = 1,
                                             .flags = IWARP_WR_SOLICITED,
                                             .invalidate_stag = 0x12345678});
    endpoint_post(
        e, &(struct iwarp_send_wr){.opcode = IWARP_WR_SEND_INV, .invalidate_stag = 0x12345678});
    endpoint_post(e, &(struct iwarp_send_wr){.opcode = IWARP_WR_SEND_INV,
                                             .flags = IWARP_WR_SOLICITED,
                                             .sg_list = &x,
                                             .num_sge = 1,
                                             .invalidate_stag = 0xabcdef01});
}

/* [MPA-4.1-01] [MPA-4.1-02] [MPA-4.4-10] [DDP-4.3-02] [RDMAP-4.1-03] [RDMAP-5.3-11] */
/* [DDP-5.2-09] [RDMAP-4.1-09] */
static void send__sends__are_the_literal_octets(void **state)
{
    struct chance c = {chance_seed()};

    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.no_crc = i % 2});
        post_five_sends(&e);
        assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_WRITE);
        if (i < 2) {
            endpoint_drain(&e);
        } else {
            endpoint_drain_randomly(&e, &c);
        }
        assert_int_equal(e.sq.done, 5);
        endpoint_expect_sent(&e, V01 V02 V03 V04 V05);
        assert_int_equal(iwarp_stream_interest(&e.s), 0);
        endpoint_fini(&e);
    }
}

/* One request on a new endpoint; its octets. */
static void expect_request(const struct iwarp_send_wr *wr, uint32_t mulpdu, const char *hex)
{
    static const uint8_t data[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 0xde, 0xad, 0xbe, 0xef};

    for (unsigned no_crc = 0; no_crc < 2; no_crc++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){
                              .no_crc = no_crc != 0, .mulpdu = mulpdu, .ird = 1, .ord = 1});
        memcpy(endpoint_area(&e, KEY, 0x7000, sizeof data, LOCAL, 0)->p, data, sizeof data);
        endpoint_area(&e, 0x11223344, 0x2000, 8, LOCAL, 0);
        endpoint_post(&e, wr);
        endpoint_drain(&e);
        endpoint_expect_sent(&e, hex);
        endpoint_fini(&e);
    }
}

/* [DDP-4.2-02] [DDP-4.2-07] [DDP-5.2-07] [RDMAP-5.1-01] [RDMAP-5.3-01] [RDMAP-5.3-07] */
/* [RDMAP-5.2.1-01] [RDMAP-5.2.1-06] */
static void send__writes_and_reads__are_the_literal_octets(void **state)
{
    struct iwarp_sge beef = {(void *)(uintptr_t)0x7009, 4, KEY};
    struct iwarp_sge nine = {(void *)(uintptr_t)0x7000, 9, KEY};
    struct iwarp_sge sink = {(void *)(uintptr_t)0x2000, 8, 0x11223344};
    struct iwarp_sge null = {NULL, 0, 0};
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_WRITE,
                               .sg_list = &beef,
                               .num_sge = 1,
                               .remote_stag = 0x00010203,
                               .remote_to = 0x1000};

    (void)state;
    expect_request(&wr, 0, V06);
    wr.sg_list = &nine;
    wr.remote_to = 0x7ffffffffff0;
    expect_request(&wr, 20, V07 V08);
    expect_request(&(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE}, 0, V09);
    expect_request(&(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE, .remote_stag = 1}, 0, V24);
    expect_request(&(struct iwarp_send_wr){.opcode = IWARP_WR_READ, .remote_stag = 1}, 0, V25);
    wr = (struct iwarp_send_wr){.opcode = IWARP_WR_READ, .sg_list = &null, .num_sge = 1};
    expect_request(&wr, 0, V11);
    wr.sg_list = &sink;
    wr.remote_stag = 0x00010203;
    wr.remote_to = 0x1000;
    expect_request(&wr, 0, V10);
}

/* [RDMAP-5.4-01] [RDMAP-5.4-02] */
static void send__terminates__are_the_literal_octets(void **state)
{
    struct iwarp_sge wrong = {NULL, 4, 0x00111100};
    struct endpoint e;
    struct octets bad = {0};

    (void)state;
    octets_hex(&bad, V06);
    bad.p[20] ^= 1;
    for (unsigned i = 0; i < 5; i++) {
        endpoint_init(&e, NULL);
        endpoint_area(&e, 0x00010203, 0x1000, 8, i == 0 ? READABLE : WRITABLE, 0);
        if (i == 0) {
            atomic_store(&e.area[0].region.stag, 0);
            endpoint_feed_hex(&e, V06);
        } else if (i == 1) {
            endpoint_feed_hex(&e, V10);
        } else if (i == 2) {
            iwarp_stream_feed(&e.s, bad.p, bad.n);
        } else if (i == 3) {
            endpoint_post(&e, &(struct iwarp_send_wr){.sg_list = &wrong, .num_sge = 1});
        } else {
            iwarp_fault_set(&e.s.fault, IWARP_FAULT_MPA_NO_RTR, IWARP_SIDE_LOCAL, 0, 0, 0);
            iwarp_stream_fail(&e.s);
        }
        endpoint_drain(&e);
        endpoint_expect_sent(&e, i == 0 ? V14 : i == 1 ? V15 : i == 2 ? V16 : i == 3 ? V17 : V18);
        assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
        iwarp_stream_eof(&e.s, 0);
        assert_int_equal(e.s.life, STREAM_ENDED);
        assert_false(e.s.abort);
        endpoint_fini(&e);
    }
    octets_free(&bad);
}

/* --- segmentation ------------------------------------------------------------------------------
 */

/* Check that the FPDUs from *at on are one message with these contents; moves *at behind it. */
/* [MPA-3-01] [MPA-3-05] [DDP-4.1-03] [DDP-4.1-04] [DDP-4.1-05] [DDP-4.1-06] [DDP-5.2-01] */
/* [DDP-5.2-02] [DDP-5.2-04] [DDP-4.2-04] [DDP-4.2-05] [DDP-4.2-09] [DDP-4.2-10] [DDP-4.3-04] */
/* [DDP-4.3-06] [DDP-4.3-07] [DDP-4.3-11] [DDP-4.3-12] [DDP-4.3-13] [DDP-5.2-06] [DDP-5.2-08] */
/* [RDMAP-5.1-07] */
static void expect_message(const struct endpoint *e, size_t *at, const struct fpdu *like,
                           const uint8_t *data, size_t n)
{
    size_t done = 0, room = e->s.config.mulpdu - (like->tagged ? 14 : 18);
    struct fpdu f;

    do {
        assert_true(fpdu_decode(e->sent.p + *at, e->sent.n - *at, !e->options.no_crc, &f));
        assert_int_equal(f.opcode, like->opcode);
        assert_int_equal(f.tagged, like->tagged);
        assert_int_equal(f.stag, like->stag);
        assert_int_equal(f.qn, like->qn);
        assert_int_equal(f.msn, like->msn);
        assert_int_equal(f.mo, like->tagged ? 0 : done);
        assert_true(f.to == (like->tagged ? like->to + done : 0));
        assert_int_equal(f.payload_len, n - done < room ? n - done : room);
        octets_expect("payload", f.payload, f.payload_len, data + done, f.payload_len);
        done += f.payload_len;
        *at += f.len;
        assert_int_equal(f.last, done == n);
    } while (!f.last);
}

static void send__at_the_edges_of_mulpdu__segments(void **state)
{
    static const uint32_t mulpdus[] = {128, 131, 1442, 64768};
    struct chance c = {chance_seed()};
    struct endpoint e;

    (void)state;
    for (unsigned i = 0; i < 4 * 5 * 3 * 2 * 2; i++) {
        uint32_t mulpdu = mulpdus[i % 4];
        bool write = i / 60 % 2;
        size_t room = mulpdu - (write ? 14 : 18), at = 0;
        size_t rooms = i / 20 % 3, n = (rooms ? room * rooms - 2 : 0) + i / 4 % 5;
        endpoint_init(&e, &(struct endpoint_options){.mulpdu = mulpdu, .no_crc = i / 120});
        struct area *a = endpoint_area(&e, KEY, 0x7000, n, 0, 0);
        for (size_t k = 0; k < n; k++) {
            a->p[k] = (uint8_t)chance_next(&c);
        }
        struct iwarp_sge sge = area_sge(a, 0, n);
        endpoint_post(&e, &(struct iwarp_send_wr){.opcode = write ? IWARP_WR_WRITE : IWARP_WR_SEND,
                                                  .sg_list = &sge,
                                                  .num_sge = 1,
                                                  .remote_stag = 0x01020304,
                                                  .remote_to = UINT64_MAX - 200000});
        endpoint_drain_randomly(&e, &c);
        struct fpdu like = {.tagged = write, .opcode = write ? 0 : 3, .msn = !write};
        like.stag = write ? 0x01020304 : 0;
        like.to = UINT64_MAX - 200000;
        expect_message(&e, &at, &like, a->p, n);
        assert_int_equal(at, e.sent.n);
        assert_int_equal(e.sq.done, 1);
        endpoint_fini(&e);
    }
}

/* Random requests: pieces, inline, sizes; random steps of the transport. */
struct message {
    struct fpdu like;
    struct octets data;
};

static void post_random(struct endpoint *e, struct chance *c, struct message *m)
{
    struct iwarp_sge sgl[IWARP_MAX_SGE];
    bool is_inline = chance_one_in(c, 4);
    size_t left = is_inline ? IWARP_MAX_INLINE : SIZE_MAX;
    struct iwarp_send_wr wr = {.opcode = (enum iwarp_wr_opcode)chance_below(c, 3),
                               .sg_list = sgl,
                               .num_sge = (unsigned)chance_size(c, IWARP_MAX_SGE),
                               .remote_stag = (uint32_t)chance_next(c),
                               .remote_to = chance_next(c),
                               .invalidate_stag = (uint32_t)chance_next(c),
                               .flags = is_inline ? IWARP_WR_INLINE : 0};

    wr.num_sge = wr.num_sge > IWARP_MAX_SGE ? IWARP_MAX_SGE : wr.num_sge;
    for (unsigned i = 0; i < wr.num_sge; i++) {
        const struct area *a = &e->area[chance_below(c, e->areas)];
        size_t n = chance_size(c, a->n < left ? a->n : left);
        size_t off = chance_below(c, a->n - n + 1);
        sgl[i] = area_sge(a, off, n);
        octets_add(&m->data, a->p + off, n);
        if (is_inline) {
            sgl[i].addr = a->p + off;
            left -= n;
        }
    }
    if (wr.opcode == IWARP_WR_WRITE) {
        m->like = (struct fpdu){.tagged = true, .stag = wr.remote_stag, .to = wr.remote_to};
    } else {
        bool invalidates = wr.opcode == IWARP_WR_SEND_INV, solicited = chance_one_in(c, 2);
        wr.flags |= solicited ? IWARP_WR_SOLICITED : 0;
        m->like.opcode = invalidates ? (solicited ? 6 : 4) : (solicited ? 5 : 3);
        m->like.stag = invalidates ? wr.invalidate_stag : 0;
    }
    endpoint_post(e, &wr);
}

static void random_requests(struct chance *c)
{
    static const uint32_t mulpdus[] = {128, 131, 1442, 64768};
    struct message m[30] = {0};
    size_t at = 0, count = 1 + chance_below(c, 30);
    uint32_t msn = (uint32_t)(0 - chance_below(c, 20));
    struct endpoint e;

    endpoint_init(&e, &(struct endpoint_options){.mulpdu = mulpdus[chance_below(c, 4)],
                                                 .no_crc = chance_one_in(c, 4)});
    e.s.tx.send_msn = msn;
    for (uint32_t i = 0; i < ENDPOINT_REGIONS; i++) {
        struct area *a = endpoint_area(&e, 0x00300000 + (i << 8), chance_next(c) & UINTPTR_MAX >> 1,
                                       1 + chance_size(c, 20000), 0, 0);
        for (size_t k = 0; k < a->n; k++) {
            a->p[k] = (uint8_t)chance_next(c);
        }
    }
    for (size_t i = 0; i < count; i++) {
        post_random(&e, c, &m[i]);
        if (chance_one_in(c, 5)) {
            endpoint_drain_randomly(&e, c);
        }
    }
    endpoint_drain_randomly(&e, c);
    assert_int_equal(e.sq.done, count);
    for (size_t i = 0; i < count; i++) {
        m[i].like.msn = m[i].like.tagged ? 0 : msn++;
        expect_message(&e, &at, &m[i].like, m[i].data.p, m[i].data.n);
        octets_free(&m[i].data);
    }
    assert_int_equal(at, e.sent.n);
    endpoint_fini(&e);
}

/* [DDP-4.3-08] [DDP-5.3-01] [DDP-5.3-02] [RDMAP-5.1-05] [RDMAP-5.3-08] [RDMAP-5.5-07] */
/* [VERBS-8.2.2-01] [RDMAP-5.2.1-07] [RDMAP-5.2.1-09] [RDMAP-6.1-01] */
static void send__random_requests__come_out_whole_and_in_order(void **state)
{
    struct chance c = {chance_seed()};

    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        random_requests(&c);
    }
}

/* --- completion --------------------------------------------------------------------------------
 */

/* A request is done when its last octet is released, and not before. */
/* [RDMAP-5.5-08] */
static void released__octet_by_octet__completes_at_the_last(void **state)
{
    struct endpoint e;
    size_t pos = 0;

    (void)state;
    endpoint_init(&e, NULL);
    post_five_sends(&e);
    while (endpoint_send(&e, 7) > 0) {
    }
    static const size_t ends[] = {32, 56, 84, 108, 136};
    assert_int_equal(e.sent.n, 136);
    assert_int_equal(e.sq.done, 0);
    for (unsigned i = 0; i < 5; i++) {
        iwarp_stream_released(&e.s, ends[i] - pos - 1);
        assert_int_equal(e.sq.done, i);
        iwarp_stream_released(&e.s, 1);
        assert_int_equal(e.sq.done, i + 1);
        assert_int_equal(endpoint_swqe(&e, i)->status, IWARP_WC_SUCCESS);
        pos = ends[i];
    }
    endpoint_fini(&e);
}

static void post_read(struct endpoint *e, unsigned flags)
{
    static const struct iwarp_sge sink = {(void *)0x2000, 8, 0x11223344};

    endpoint_post(e, &(struct iwarp_send_wr){.opcode = IWARP_WR_READ,
                                             .flags = flags,
                                             .sg_list = &sink,
                                             .num_sge = 1,
                                             .remote_stag = 0x00010203,
                                             .remote_to = 0x1000});
}

static unsigned fpdus_sent(struct endpoint *e, unsigned opcode)
{
    unsigned count = 0;
    struct fpdu f;

    endpoint_drain(e);
    for (size_t at = 0; at < e->sent.n; at += f.len) {
        assert_true(fpdu_decode(e->sent.p + at, e->sent.n - at, true, &f));
        count += f.opcode == opcode;
        assert_true(f.opcode != 1 || f.qn == 1);
    }
    return count;
}

/* A Send that was posted behind a Read is sent at once but completes behind it. */
/* [RDMAP-5.5-08] [RDMAP-5.5-09] [VERBS-8.2.2-02] */
static void complete__send_behind_read__waits_for_the_response(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.ord = 4});
    endpoint_area(&e, 0x11223344, 0x2000, 8, LOCAL, 0);
    post_read(&e, 0);
    endpoint_post(&e, &(struct iwarp_send_wr){0});
    assert_int_equal(fpdus_sent(&e, 1), 1);
    assert_int_equal(fpdus_sent(&e, 3), 1);
    assert_int_equal(e.sq.done, 0);
    endpoint_feed_hex(&e, V12);
    assert_int_equal(e.sq.done, 2);
    endpoint_fini(&e);
}

/* ORD: the third Read waits until a response came; what is behind it waits too (order). */
/* [RDMAP-6.1-03] [RDMAP-6.1-05] [VERBS-6.5-01] [VERBS-8.2.2-06] */
static void reads__beyond_ord__wait(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.ord = 2});
    endpoint_area(&e, 0x11223344, 0x2000, 8, LOCAL, 0);
    for (unsigned i = 0; i < 4; i++) {
        post_read(&e, 0);
    }
    endpoint_post(&e, &(struct iwarp_send_wr){0});
    assert_int_equal(fpdus_sent(&e, 1), 2);
    assert_int_equal(iwarp_stream_interest(&e.s), 0);
    endpoint_feed_hex(&e, V12);
    assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_WRITE);
    assert_int_equal(fpdus_sent(&e, 1), 3);
    assert_int_equal(fpdus_sent(&e, 3), 0);
    endpoint_feed_hex(&e, V12 V12);
    assert_int_equal(fpdus_sent(&e, 1), 4);
    assert_int_equal(fpdus_sent(&e, 3), 1);
    assert_int_equal(e.sq.done, 3);
    endpoint_feed_hex(&e, V12);
    assert_int_equal(e.sq.done, 5);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
    endpoint_fini(&e);
}

/* [VERBS-8.2.2.2-01] */
static void fence__with_reads_outstanding__waits_for_all(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.ord = 4});
    endpoint_area(&e, 0x11223344, 0x2000, 8, LOCAL, 0);
    post_read(&e, 0);
    post_read(&e, 0);
    endpoint_post(&e, &(struct iwarp_send_wr){.flags = IWARP_WR_FENCE});
    assert_int_equal(fpdus_sent(&e, 3), 0);
    endpoint_feed_hex(&e, V12);
    assert_int_equal(fpdus_sent(&e, 3), 0);
    endpoint_feed_hex(&e, V12);
    assert_int_equal(fpdus_sent(&e, 3), 1);
    assert_int_equal(e.sq.done, 3);
    post_read(&e, IWARP_WR_FENCE);
    assert_int_equal(fpdus_sent(&e, 1), 3);
    endpoint_fini(&e);
}

/* [VERBS-8.2.2-06] */
static void read__with_ord_0__ends_the_stream(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.ord = 0});
    endpoint_area(&e, 0x11223344, 0x2000, 8, LOCAL, 0);
    post_read(&e, 0);
    assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_WRITE);
    endpoint_drain(&e);
    expect_fault(&e, IWARP_FAULT_LOCAL_READ_ORD);
    endpoint_expect_sent(&e, V17);
    assert_int_equal(endpoint_swqe(&e, 0)->status, IWARP_WC_LOCAL_OPERATION);
    endpoint_fini(&e);
}

/* What asks for octets by STag 0 is sent to nobody; without octets the STag is not looked at. */
/* [VERBS-8.1.3.2.1-01] */
static void send__to_stag_0__is_refused_here_unless_it_is_empty(void **state)
{
    static const enum iwarp_wr_opcode opcodes[] = {IWARP_WR_WRITE,
                                                   IWARP_WR_READ,
                                                   IWARP_WR_WRITE_IMM,
                                                   IWARP_WR_READ_INV,
                                                   IWARP_WR_ATOMIC_FETCH_ADD,
                                                   IWARP_WR_ATOMIC_CMP_SWAP};

    (void)state;
    for (size_t i = 0; i < 2 * sizeof opcodes / sizeof *opcodes; i++) {
        enum iwarp_wr_opcode opcode = opcodes[i / 2];
        struct endpoint e;
        bool empty = i % 2 && opcode != IWARP_WR_READ_INV && opcode != IWARP_WR_ATOMIC_FETCH_ADD &&
                     opcode != IWARP_WR_ATOMIC_CMP_SWAP;
        endpoint_init(&e, &(struct endpoint_options){.ord = 2, .rfc7306 = true});
        struct area *a = endpoint_area(&e, KEY, 0x7000, 8, LOCAL, 1);
        const struct iwarp_sge sge = area_sge(a, 0, 8);
        endpoint_post(&e, &(struct iwarp_send_wr){.opcode = opcode,
                                                  .sg_list = &sge,
                                                  .num_sge = empty ? 0 : 1,
                                                  .remote_to = 0x1000});
        endpoint_post(&e, &(struct iwarp_send_wr){0});
        endpoint_drain(&e);
        if (empty) {
            assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
            assert_int_equal(e.sq.next, 2);
        } else {
            expect_fault(&e, IWARP_FAULT_LOCAL_STAG_ZERO);
            assert_int_equal(e.s.fault.detail[0], 8);
            assert_int_equal(endpoint_swqe(&e, 0)->status, IWARP_WC_LOCAL_OPERATION);
            assert_int_equal(e.sq.next, 0);
            endpoint_expect_sent(&e, V17); /* a Terminate 0/0/00, and nothing before it */
        }
        endpoint_fini(&e);
    }
}

/* --- responses ---------------------------------------------------------------------------------
 */

/* Requests and responses take turns by message, so that neither starves the other. */
static void send__requests_and_responses__take_turns(void **state)
{
    struct endpoint e;
    struct fpdu f;
    unsigned opcodes[12], n = 0;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.ird = 4, .mulpdu = 128});
    struct area *a = endpoint_area(&e, 0x00010203, 0x1000, 300, READABLE, 3);
    struct iwarp_sge sge = area_sge(a, 0, 200); /* two segments each */
    for (unsigned i = 0; i < 3; i++) {
        endpoint_post(&e, &(struct iwarp_send_wr){.sg_list = &sge, .num_sge = 1});
        struct octets o = {0}, u = {0};
        octets_hex(&u, "4141 00000000 00000001");
        octets_be(&u, 1 + i, 4);
        octets_hex(&u, "00000000 11223344 00000000 00002000 000000c8 00010203 00000000 00001000");
        fpdu_add(&o, u.p, u.n, 0);
        iwarp_stream_feed(&e.s, o.p, o.n);
        octets_free(&o);
        octets_free(&u);
    }
    endpoint_drain(&e);
    for (size_t at = 0; at < e.sent.n; at += f.len) {
        assert_true(fpdu_decode(e.sent.p + at, e.sent.n - at, true, &f));
        assert_true(n < 12);
        opcodes[n++] = f.opcode;
    }
    assert_int_equal(n, 12);
    for (unsigned i = 0; i < 12; i += 2) { /* a message is never interrupted */
        assert_int_equal(opcodes[i], opcodes[i + 1]);
        assert_true(i == 0 || opcodes[i] != opcodes[i - 1]);
    }
    endpoint_fini(&e);
}

/* Responses are in the order of the requests, whatever their sizes. */
/* [RDMAP-5.2.1-08] [RDMAP-5.2.2-05] [RDMAP-5.5-14] */
/* [RDMAP-5.2.1-02] [RDMAP-5.2.2-02] [RDMAP-6.1-02] */
static void send__responses__are_in_order(void **state)
{
    static const uint32_t sizes[] = {5000, 0, 1, 600};
    struct chance c = {chance_seed()};
    struct endpoint e;
    size_t at = 0;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.ird = 4});
    struct area *a = endpoint_area(&e, 0x00010203, 0x1000, 5000, READABLE, 3);
    for (unsigned i = 0; i < 4; i++) {
        struct octets o = {0}, u = {0};
        octets_hex(&u, "4141 00000000 00000001");
        octets_be(&u, 1 + i, 4);
        octets_hex(&u, "00000000");
        octets_be(&u, 0x100 + i, 4);
        octets_be(&u, UINT64_MAX - i, 8); /* the sink is copied, not looked at */
        octets_be(&u, sizes[i], 4);
        octets_hex(&u, sizes[i] ? "00010203 00000000 00001000" : "99999999 ffffffff ffffffff");
        fpdu_add(&o, u.p, u.n, 0);
        iwarp_stream_feed(&e.s, o.p, o.n);
        octets_free(&o);
        octets_free(&u);
    }
    assert_int_equal(e.s.reads.in_count, 4);
    endpoint_drain_randomly(&e, &c);
    for (unsigned i = 0; i < 4; i++) {
        const struct fpdu like = {
            .tagged = true, .opcode = 2, .stag = 0x100 + i, .to = UINT64_MAX - i};
        expect_message(&e, &at, &like, a->p, sizes[i]);
    }
    assert_int_equal(at, e.sent.n);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
    endpoint_fini(&e);
}

/* A source that goes away between request and response: RDMAP's own error, with what is left. */
static void send__response_whose_source_is_gone__terminates(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.ird = 1});
    struct area *a = endpoint_area(&e, 0x00010203, 0x1000, 8, READABLE, 0);
    endpoint_feed_hex(&e, V10);
    endpoint_deregister(&e, a);
    endpoint_drain(&e);
    expect_fault(&e, IWARP_FAULT_RDMAP_STAG_INVALID);
    assert_int_equal(e.sent.n, 76);
    static const uint8_t code[] = {0x01, 0x00, 0xe0, 0x00, 0x00, 0x2e, 0x41, 0x41};
    assert_memory_equal(e.sent.p + 20, code, sizeof code);
    endpoint_fini(&e);
}

/* The same when part of the response is out: the quoted request tells what is left. */
static void send__response_whose_source_goes_midway__quotes_what_is_left(void **state)
{
    struct endpoint e;
    struct fpdu f;
    struct octets quoted = {0};
    size_t at = 0, n = 0;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.ird = 1, .mulpdu = 64768});
    struct area *a = endpoint_area(&e, 0x00010203, 0x1000, 400000, READABLE, 0);
    fpdu_hex(&quoted,
             "4141 00000000 00000001 00000001 00000000 11223344 0000000000002000 00061a80"
             "00010203 0000000000001000",
             0);
    iwarp_stream_feed(&e.s, quoted.p, quoted.n);
    assert_in_range(endpoint_send(&e, SIZE_MAX), 100000, 300000);
    endpoint_deregister(&e, a);
    endpoint_drain(&e);
    expect_fault(&e, IWARP_FAULT_RDMAP_STAG_INVALID);
    for (; fpdu_decode(e.sent.p + at, e.sent.n - at, true, &f) && f.opcode == 2; at += f.len) {
        n += f.payload_len;
    }
    quoted.n = 0;
    octets_hex(&quoted, "0100e000 002e 4141 00000000 00000001 00000001 00000000 11223344");
    octets_be(&quoted, 0x2000 + n, 8);
    octets_be(&quoted, 400000 - n, 4);
    octets_hex(&quoted, "00010203");
    octets_be(&quoted, 0x1000 + n, 8);
    assert_int_equal(f.opcode, 7);
    octets_expect("Terminate", f.payload, f.payload_len, quoted.p, quoted.n);
    octets_free(&quoted);
    endpoint_fini(&e);
}

/* --- memory that is not there ------------------------------------------------------------------
 */

/* The source of a request or of a response is registered but not mapped. */
static void unmapped_source(size_t n, bool response, bool no_crc, bool refers)
{
    const size_t copied = refers ? TX_COPY_SMALL : TX_COPY_MAX;
    struct endpoint e;
    /* Kept as a mapping without rights, so that nobody else gets the addresses. */
    uint8_t *page = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(page != MAP_FAILED);
    endpoint_init(&e, &(struct endpoint_options){
                          .ird = 1, .no_crc = no_crc, .refers = refers, .mulpdu = 8192});
    struct area *a = endpoint_foreign(&e, 0x00010203, 0x1000, page, n, READABLE);
    if (response) {
        struct octets o = {0}, u = {0};
        octets_hex(&u, "4141 00000000 00000001 00000001 00000000 11223344 00000000 00002000");
        octets_be(&u, n, 4);
        octets_hex(&u, "00010203 00000000 00001000");
        fpdu_add(&o, u.p, u.n, 0);
        iwarp_stream_feed(&e.s, o.p, o.n);
        octets_free(&o);
        octets_free(&u);
    } else {
        post_area(&e, a);
    }
    if (no_crc && n > copied) { /* nobody looked at it: the write call will see it */
        assert_true(endpoint_send(&e, 10) > 0);
        assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
        iwarp_stream_kill(&e.s, IWARP_FAULT_LOCAL_MEMORY, IWARP_SIDE_LOCAL, 0);
        assert_true(e.s.abort);
    } else {
        endpoint_drain(&e);
        endpoint_expect_sent(&e, V17);
        assert_true(response || endpoint_swqe(&e, 0)->status == IWARP_WC_LOCAL_PROTECTION);
    }
    expect_fault(&e, IWARP_FAULT_LOCAL_MEMORY);
    endpoint_fini(&e);
    munmap(page, 65536);
}

static void send__memory_that_is_not_mapped__is_a_fault(void **state)
{
    static const size_t sizes[] = {1, 512, 513, 1536, 1537, 8000, 60000};

    (void)state;
    for (unsigned i = 0; i < 7 * 8; i++) {
        unmapped_source(sizes[i % 7], i / 7 % 2, i / 14 % 2, i / 28);
    }
}

/* What was framed ahead of it in the same batch is sent as it was. */
static void send__memory_that_is_not_mapped__leaves_the_batch_alone(void **state)
{
    uint8_t *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_true(page != MAP_FAILED);
    for (size_t n = 400; n < 2000; n += 1400) { /* copied, referred to */
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.mulpdu = 8192});
        post_five_sends(&e);
        post_area(&e, endpoint_foreign(&e, 0x00010203, 0x1000, page, n, 0));
        endpoint_drain(&e);
        endpoint_expect_sent(&e, V01 V02 V03 V04 V05 V17);
        assert_int_equal(e.sq.done, 5);
        endpoint_fini(&e);
    }
    munmap(page, 4096);
}

/* A request that names memory it has no right to. */
/* [VERBS-8.3.2-01] */
static void send__wrong_sge__terminates(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct endpoint e;
        endpoint_init(&e, NULL);
        struct area *a = endpoint_area(&e, KEY, 0x7000, 100, i == 4 ? READABLE : LOCAL, 1);
        endpoint_stranger(&e, KEY + 0x100, 0x7000, 100, WRITABLE | READABLE);
        struct iwarp_sge sge = area_sge(a, 0, 100);
        sge.lkey += i == 0 ? 1 : i == 1 ? 0x100 : 0;
        sge.len += i == 2;
        sge.addr = (void *)(uintptr_t)(0x7000 - (i == 3));
        struct iwarp_send_wr wr = {.sg_list = &sge, .num_sge = 1, .remote_stag = KEY};
        wr.opcode = i == 4 ? IWARP_WR_READ : IWARP_WR_SEND; /* a sink without local write */
        if (i == 5) {
            endpoint_deregister(&e, a);
        }
        endpoint_post(&e, &wr);
        endpoint_drain(&e);
        expect_fault(&e, i == 2 || i == 3 ? IWARP_FAULT_LOCAL_SGE_BOUNDS
                         : i == 4         ? IWARP_FAULT_LOCAL_SGE_ACCESS
                                          : IWARP_FAULT_LOCAL_SGE);
        assert_int_equal(endpoint_swqe(&e, 0)->status, IWARP_WC_LOCAL_PROTECTION);
        assert_int_equal(e.sq.done, 0);
        endpoint_expect_sent(&e, V17);
        endpoint_fini(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send__sends__are_the_literal_octets),
        cmocka_unit_test(send__writes_and_reads__are_the_literal_octets),
        cmocka_unit_test(send__terminates__are_the_literal_octets),
        cmocka_unit_test(send__at_the_edges_of_mulpdu__segments),
        cmocka_unit_test(send__random_requests__come_out_whole_and_in_order),
        cmocka_unit_test(released__octet_by_octet__completes_at_the_last),
        cmocka_unit_test(complete__send_behind_read__waits_for_the_response),
        cmocka_unit_test(reads__beyond_ord__wait),
        cmocka_unit_test(fence__with_reads_outstanding__waits_for_all),
        cmocka_unit_test(read__with_ord_0__ends_the_stream),
        cmocka_unit_test(send__to_stag_0__is_refused_here_unless_it_is_empty),
        cmocka_unit_test(send__requests_and_responses__take_turns),
        cmocka_unit_test(send__responses__are_in_order),
        cmocka_unit_test(send__response_whose_source_is_gone__terminates),
        cmocka_unit_test(send__response_whose_source_goes_midway__quotes_what_is_left),
        cmocka_unit_test(send__memory_that_is_not_mapped__is_a_fault),
        cmocka_unit_test(send__memory_that_is_not_mapped__leaves_the_batch_alone),
        cmocka_unit_test(send__wrong_sge__terminates),
    };

    return cmocka_run_group_tests_name("stream_tx", tests, NULL, NULL);
}
