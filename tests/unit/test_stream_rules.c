/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Single rules of the RFCs that no other test breaks alone: what a receiver must ignore, and what
 * it must not do before the last octet or the last segment is there.
 *
 * RFC 5044 4.1, 6; RFC 5041 4.1, 5.4; RFC 5040 4.1, 5.5.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "deliveries.h"
#include "vectors.h"

#define TARGET 0x00010203
#define TOKEN  0x12345678

static void put(struct octets *o, const char *hex)
{
    octets_hex(o, hex);
}

/* Octets up to the CRC, and the CRC that is right for them. */
static void put_with_crc(struct octets *o, const char *hex)
{
    size_t at = o->n;

    put(o, hex);
    uint32_t crc = octets_crc(0, o->p + at, o->n - at);
    const uint8_t field[] = {(uint8_t)crc, (uint8_t)(crc >> 8), (uint8_t)(crc >> 16),
                             (uint8_t)(crc >> 24)};
    octets_add(o, field, sizeof field);
}

static void post_one(struct endpoint *e, void *arg)
{
    (void)arg;
    endpoint_recv_area(e, endpoint_area(e, 0x00020200, 0, 8, LOCAL, 0xee));
    endpoint_area(e, TOKEN, 0, 8, READABLE, 0x77);
}

static void expect_hello(struct endpoint *e, void *arg)
{
    (void)arg;
    assert_int_equal(e->s.fault.code, IWARP_FAULT_NONE);
    assert_int_equal(e->rq.done, 1);
    assert_int_equal(endpoint_rwqe(e, 0)->byte_len, 5);
    assert_int_equal(endpoint_rwqe(e, 0)->wc_flags, 0);
    assert_memory_equal(e->area[0].p, "hello\xee\xee\xee", 8);
    assert_int_equal(atomic_load(&e->area[1].region.stag), TOKEN); /* still valid */
}

static void receive_hello(const char *hex)
{
    struct octets o = {0};

    put_with_crc(&o, hex);
    receive_every_way(
        &(struct scene){.setup = post_one, .check = expect_hello, .octets = o.p, .n = o.n});
    octets_free(&o);
}

/* [MPA-4.1-03] */
static void receive__padding_that_is_not_zero__is_taken(void **state)
{
    (void)state;
    receive_hello("0017 4143 00000000 00000000 00000001 00000000 68656c6c6f aabbcc");
}

/* All reserved bits of DDP and RDMAP set, and the STag of a region where none is meant. */
/* [RDMAP-4.1-08] [RDMAP-4.1-09] */
static void receive__reserved_bits_and_stag__are_ignored(void **state)
{
    (void)state;
    receive_hello("0017 7d73 12345678 00000000 00000001 00000000 68656c6c6f 000000");
}

/* [MPA-6-05] */
static void receive__last_octet_missing__places_nothing(void **state)
{
    static const enum delivery ways[] = {DELIVER_WHOLE, DELIVER_SINGLY};
    struct chance c = {chance_seed()};
    struct octets o = {0};
    struct endpoint e;

    (void)state;
    put(&o, V06);
    for (unsigned i = 0; i < 4; i++) {
        endpoint_init(&e, &(struct endpoint_options){.early = i / 2});
        struct area *a = endpoint_area(&e, TARGET, 0x1000, 4, WRITABLE, 0x11);
        deliver(&e, ways[i % 2], o.p, o.n - 1, &c);
        assert_memory_equal(a->p, "\x11\x11\x11\x11", 4);
        deliver(&e, DELIVER_WHOLE, o.p + o.n - 1, 1, &c);
        assert_memory_equal(a->p, "\xde\xad\xbe\xef", 4);
        endpoint_fini(&e);
    }
    octets_free(&o);
}

/* [DDP-4.1-07] [DDP-5.4-01] */
static void receive__last_segment_missing__delivers_nothing(void **state)
{
    struct chance c = {chance_seed()};
    struct octets o = {0};
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    post_one(&e, NULL);
    put_with_crc(&o, "0015 0143 00000000 00000000 00000001 00000000 68656c 00");
    deliver(&e, DELIVER_SPLIT, o.p, o.n, &c);
    assert_int_equal(e.rq.done, 0);
    octets_free(&o);
    put_with_crc(&o, "0014 4143 00000000 00000000 00000001 00000003 6c6f 0000");
    deliver(&e, DELIVER_SPLIT, o.p, o.n, &c);
    expect_hello(&e, NULL);
    octets_free(&o);
    endpoint_fini(&e);
}

/* [RDMAP-5.5-04] [RDMAP-5.5-13] */
static void read__last_segment_missing__is_not_complete(void **state)
{
    struct chance c = {chance_seed()};
    struct octets o = {0};
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    struct area *a = endpoint_area(&e, 0x11223344, 0x2000, 8, LOCAL, 0);
    struct iwarp_sge sge = area_sge(a, 0, 8);
    endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_READ,
                                              .sg_list = &sge,
                                              .num_sge = 1,
                                              .remote_stag = TARGET,
                                              .remote_to = 0x1000});
    endpoint_drain(&e);
    put_with_crc(&o, "0012 8142 11223344 00000000 00002000 00010203");
    deliver(&e, DELIVER_SPLIT, o.p, o.n, &c);
    assert_int_equal(e.sq.done, 0);
    octets_free(&o);
    put_with_crc(&o, "0012 c142 11223344 00000000 00002004 04050607");
    deliver(&e, DELIVER_SPLIT, o.p, o.n, &c);
    assert_int_equal(e.sq.done, 1);
    assert_memory_equal(a->p, "\0\1\2\3\4\5\6\7", 8);
    octets_free(&o);
    endpoint_fini(&e);
}

static void post_target(struct endpoint *e, void *arg)
{
    (void)arg;
    endpoint_area(e, TARGET, 0x1000, 8, WRITABLE | READABLE, 0x11);
}

/* deadbeef, and what was there behind it */
static void expect_answer(struct endpoint *e, void *arg)
{
    struct fpdu f;

    (void)arg;
    assert_true(fpdu_decode(e->sent.p, e->sent.n, !e->options.no_crc, &f));
    assert_int_equal(f.opcode, 2);
    assert_int_equal(f.stag, 0x11223344);
    assert_int_equal(f.payload_len, 8);
    assert_memory_equal(f.payload, "\xde\xad\xbe\xef\x11\x11\x11\x11", 8);
    assert_int_equal(f.len, e->sent.n);
}

/* [RDMAP-5.5-05] [RDMAP-5.5-11] [VERBS-8.2.2-05] */
static void read__behind_a_write__sees_what_was_written(void **state)
{
    struct octets o = {0};

    (void)state;
    put(&o, V06);
    put(&o, V10); /* 8 octets from where V06 writes 4 */
    receive_every_way(&(struct scene){.options = {.ird = 1, .ord = 1},
                                      .setup = post_target,
                                      .check = expect_answer,
                                      .octets = o.p,
                                      .n = o.n});
    octets_free(&o);
}

/* Two bad segments come together. [RDMAP-7.1-05] */
static void fault__two_bad_segments__first_is_told(void **state)
{
    struct octets o = {0};
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    fpdu_hex(&o, "c140 00990203 0000000000001000", 4);
    fpdu_hex(&o, "c140 00880203 0000000000002000", 8);
    iwarp_stream_feed(&e.s, o.p, o.n);
    endpoint_drain(&e);
    endpoint_expect_terminate(&e, "1100c000 0012 c140 00990203 0000000000001000");
    octets_free(&o);
    endpoint_fini(&e);
}

/* A Read that could be answered and a Send wait when something bad comes. [RDMAP-5.4-08] */
static void terminate__with_work_waiting__is_the_last(void **state)
{
    struct octets o = {0};
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    post_target(&e, NULL);
    put(&o, V10);
    fpdu_hex(&o, "c140 00990203 0000000000001000", 4);
    iwarp_stream_feed(&e.s, o.p, o.n);
    assert_int_equal(e.s.reads.in_count, 1);
    endpoint_post(&e, &(struct iwarp_send_wr){0});
    endpoint_drain(&e);
    endpoint_expect_terminate(&e, "1100c000 0012 c140 00990203 0000000000001000");
    endpoint_post(&e, &(struct iwarp_send_wr){0});
    endpoint_drain(&e);
    assert_int_equal(e.s.tx.fpdus, 1);
    assert_int_equal(e.sq.next, 0);
    octets_free(&o);
    endpoint_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receive__padding_that_is_not_zero__is_taken),
        cmocka_unit_test(receive__reserved_bits_and_stag__are_ignored),
        cmocka_unit_test(receive__last_octet_missing__places_nothing),
        cmocka_unit_test(receive__last_segment_missing__delivers_nothing),
        cmocka_unit_test(read__last_segment_missing__is_not_complete),
        cmocka_unit_test(read__behind_a_write__sees_what_was_written),
        cmocka_unit_test(fault__two_bad_segments__first_is_told),
        cmocka_unit_test(terminate__with_work_waiting__is_the_last),
    };

    return cmocka_run_group_tests_name("stream_rules", tests, NULL, NULL);
}
