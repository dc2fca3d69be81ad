/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Octets that were damaged on the way, and memory that is not what it was: CRC, length, regions
 * that go away, pages that are not mapped. What must not be touched is not; what is owed is sent.
 *
 * RFC 5044 4.4, 6 and 8; RFC 5041 7.1; RFC 5040 7.1.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>

#include "deliveries.h"
#include "vectors.h"

#define SEND1 "4143 00000000 00000000 00000001 00000000"

static const char write_behind[] = "c140 00010203 0000000000001200 77777777";

/* --- damage ------------------------------------------------------------------------------------
 */

struct damage {
    size_t fpdu_len; /* of the second FPDU, the damaged one */
    unsigned kind;   /* its octets: 0 Write, 1 Send */
    bool quiet;      /* it is the first: the responder may not answer */
};

static void setup_damage(struct endpoint *e, void *arg)
{
    (void)arg;
    endpoint_area(e, 0x00010203, 0x1000, 4096, WRITABLE, 0);
    endpoint_recv_area(e, endpoint_area(e, 0x00020304, 0x1000, 4096, LOCAL, 0));
}

static void check_damage(struct endpoint *e, void *arg)
{
    const struct damage *d = arg;

    assert_string_equal(iwarp_fault_name(e->s.fault.code), "MPA_CRC");
    assert_int_equal(e->s.fault.detail[0], d->quiet ? 0 : 20);
    assert_int_equal(e->rq.done, 0);
    assert_int_equal(e->s.rx.fpdus, d->quiet ? 0 : 1);
    assert_int_equal(e->s.life, d->quiet ? STREAM_ENDED : STREAM_DRAINING);
    if (d->quiet) {
        assert_true(e->s.abort);
        assert_int_equal(e->sent.n, 0);
    } else {
        endpoint_expect_sent(e, V16);
    }
    for (unsigned i = 0; i < 4096 && !e->options.early; i++) {
        assert_int_equal(e->area[0].p[i], 0);
        assert_int_equal(e->area[1].p[i], 0);
    }
}

/* One wrong bit anywhere but in the length: nothing is placed, or nothing is delivered if early. */
/* [MPA-3-07] [MPA-6-01] [MPA-4.4-13] [MPA-4.4-07] [MPA-4.4-14] [MPA-6-03] [DDP-3-06] */
static void receive__one_bit_wrong__is_a_crc_fault(void **state)
{
    struct chance c = {chance_seed()};

    (void)state;
    for (unsigned i = 0; i < 120; i++) {
        struct damage d = {.kind = i % 2, .quiet = i / 2 % 2};
        struct octets o = {0};
        struct scene scene = {.options = {.hold_tx = true},
                              .setup = setup_damage,
                              .check = check_damage,
                              .arg = &d,
                              .without = DUMP_NO_POSITIONS | DUMP_NO_MEMORY,
                              .not_placement = 1u << PLACE_NO_CRC};
        if (!d.quiet) {
            octets_hex(&o, V09);
        }
        size_t start = o.n;
        fpdu_hex(&o, d.kind ? SEND1 : "c140 00010203 0000000000001000", chance_size(&c, 3000));
        o.p[start + 2 + chance_below(&c, o.n - start - 2)] ^= (uint8_t)(1u << chance_below(&c, 8));
        fpdu_hex(&o, write_behind, 0);
        scene.octets = o.p;
        scene.n = o.n;
        receive_every_way(&scene);
        octets_free(&o);
    }
}

static void check_ulpdu_len(struct endpoint *e, void *arg)
{
    (void)arg;
    assert_string_equal(iwarp_fault_name(e->s.fault.code), "MPA_ULPDU_LEN");
    assert_int_equal(e->s.fault.detail[0], 64769);
    endpoint_expect_terminate(e, "20030000");
}

static void receive__ulpdu_above_64768__is_a_length_fault(void **state)
{
    struct octets o = {0};
    struct scene scene = {.check = check_ulpdu_len, .without = DUMP_NO_POSITIONS};

    (void)state;
    octets_hex(&o, V09 "fd01 c140 00010203 0000000000001000");
    octets_fill(&o, 0, 70000);
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

/* CRC off: the field may hold anything. */
static void check_anything(struct endpoint *e, void *arg)
{
    (void)arg;
    assert_int_equal(e->s.fault.code, IWARP_FAULT_NONE);
    assert_int_equal(e->rq.done, 1);
    assert_int_equal(endpoint_rwqe(e, 0)->byte_len, 2000);
}

/* [MPA-4.1-04] [MPA-4.4-08] [MPA-7.1.1-09] */
static void receive__without_crc__takes_any_crc_field(void **state)
{
    struct octets o = {0};
    struct scene scene = {.setup = setup_damage,
                          .check = check_anything,
                          .not_placement = 1u << PLACE_VERIFIED | 1u << PLACE_EARLY};

    (void)state;
    fpdu_hex(&o, SEND1, 2000);
    o.p[o.n - 1] ^= 0x55;
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

/* --- faults that direct placement could tell differently ----------------------------------------
 */

static void check_invalidate(struct endpoint *e, void *arg)
{
    (void)arg;
    assert_string_equal(iwarp_fault_name(e->s.fault.code), "RDMAP_INVALIDATE");
    assert_int_equal(e->rq.done, 0);
    endpoint_expect_terminate(e, "0109c000 07e2 7d54 00990203 00000000 00000001 00000000");
}

static void receive__large_send_that_cannot_invalidate__quotes_its_header(void **state)
{
    struct octets o = {0};
    struct scene scene = {.setup = setup_damage, .check = check_invalidate};

    (void)state;
    fpdu_hex(&o, "7d54 00990203 00000000 00000001 00000000", 2000);
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

/* The region goes away while payload flows into it: not one octet more. */
static void receive__region_gone_midway__takes_no_more(void **state)
{
    struct octets o = {0};

    (void)state;
    fpdu_hex(&o, "c140 00010203 0000000000001000", 4096);
    for (unsigned placement = 0; placement < PLACEMENTS; placement++) {
        for (unsigned way = 0; way < 2; way++) {
            struct endpoint e;
            struct iovec iov[2];
            struct iwarp_lends lends;
            size_t staging;
            endpoint_init(&e, &(struct endpoint_options){.no_crc = placement == PLACE_NO_CRC,
                                                         .early = placement == PLACE_EARLY});
            setup_damage(&e, NULL);
            iwarp_stream_feed(&e.s, o.p, 16 + 1000);
            endpoint_deregister(&e, &e.area[0]);
            size_t at = 1016;
            while (at < o.n) {
                if (way && iwarp_stream_want(&e.s, &lends, iov, 2, &staging) > 0) {
                    size_t n = iov[0].iov_len < o.n - at ? iov[0].iov_len : o.n - at;
                    memcpy(iov[0].iov_base, o.p + at, n);
                    iwarp_stream_placed(&e.s, n);
                    at += n;
                } else {
                    iwarp_stream_feed(&e.s, o.p + at, o.n - at);
                    at = o.n;
                }
            }
            assert_string_equal(iwarp_fault_name(e.s.fault.code), "DDP_STAG_INVALID");
            assert_int_equal(e.s.rx.pos, o.n);
            endpoint_drain(&e);
            endpoint_expect_terminate(&e, "1100c000 100e c140 00010203 0000000000001000");
            for (unsigned i = placement == PLACE_VERIFIED ? 0 : 1000; i < 4096; i++) {
                assert_int_equal(e.area[0].p[i], 0);
            }
            endpoint_fini(&e);
        }
    }
    octets_free(&o);
}

/* --- memory that is not there ------------------------------------------------------------------
 */

static uint8_t *unmapped;

static void setup_unmapped(struct endpoint *e, void *arg)
{
    const struct damage *d = arg;

    unmapped = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(unmapped != MAP_FAILED);
    assert_int_equal(mprotect(unmapped + 4096, 65536 - 4096, PROT_NONE), 0);
    struct area *a = endpoint_foreign(e, 0x00010203, 0x1000, unmapped, 65536, WRITABLE);
    if (d->kind) {
        endpoint_recv_area(e, a);
    }
}

static void check_unmapped(struct endpoint *e, void *arg)
{
    (void)arg;
    assert_string_equal(iwarp_fault_name(e->s.fault.code), "LOCAL_MEMORY");
    assert_int_equal(e->rq.done, 0);
    endpoint_expect_sent(e, V17);
    munmap(unmapped, 65536);
}

static void receive__memory_that_is_not_mapped__is_a_fault(void **state)
{
    static const size_t sizes[] = {4097, 5000, 20000};

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct damage d = {.kind = i % 2};
        struct octets o = {0};
        struct scene scene = {.setup = setup_unmapped,
                              .check = check_unmapped,
                              .arg = &d,
                              .without = DUMP_NO_POSITIONS};
        fpdu_hex(&o, d.kind ? SEND1 : "c140 00010203 0000000000001000", sizes[i / 2]);
        scene.octets = o.p;
        scene.n = o.n;
        receive_every_way(&scene);
        octets_free(&o);
    }
}

/* --- which fault -------------------------------------------------------------------------------
 */

static void fail__second_fault__is_not_told(void **state)
{
    struct endpoint e;
    struct octets o = {0};

    (void)state;
    endpoint_init(&e, NULL);
    fpdu_hex(&o, "c140 00990203 0000000000001000", 4);
    fpdu_hex(&o, "4143 00000000 00000000 00000009 00000000", 4);
    iwarp_stream_feed(&e.s, o.p, o.n);
    uint64_t pos = e.s.fault.rx_pos;
    iwarp_stream_feed(&e.s, o.p, o.n);
    iwarp_stream_kill(&e.s, IWARP_FAULT_LOCAL_ABORT, IWARP_SIDE_LOCAL, 0);
    iwarp_stream_kill(&e.s, IWARP_FAULT_TCP_LOST, IWARP_SIDE_LOCAL, 0);
    iwarp_stream_eof(&e.s, 104);
    assert_string_equal(iwarp_fault_name(e.s.fault.code), "DDP_STAG_INVALID");
    assert_true(e.s.fault.rx_pos == pos && e.s.rx.pos == 2 * o.n);
    assert_int_equal(e.s.life, STREAM_ENDED);
    assert_true(e.s.abort);
    endpoint_drain(&e);
    assert_int_equal(e.sent.n, 0);
    endpoint_fini(&e);
    octets_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receive__one_bit_wrong__is_a_crc_fault),
        cmocka_unit_test(receive__ulpdu_above_64768__is_a_length_fault),
        cmocka_unit_test(receive__without_crc__takes_any_crc_field),
        cmocka_unit_test(receive__large_send_that_cannot_invalidate__quotes_its_header),
        cmocka_unit_test(receive__region_gone_midway__takes_no_more),
        cmocka_unit_test(receive__memory_that_is_not_mapped__is_a_fault),
        cmocka_unit_test(fail__second_fault__is_not_told),
    };

    return cmocka_run_group_tests_name("stream_damage", tests, NULL, NULL);
}
