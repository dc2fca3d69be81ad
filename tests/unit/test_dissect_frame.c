/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The dissector's FPDUs and markers: literal FPDUs of RFC 5044 figures 5 and 6, and every length
 * at every alignment against an encoder that goes word by word. RFC 5044 4.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "dissector/frame.h"
#include "support/octets.h"

static void fpdu__without_markers__length_pad_and_crc(void **state)
{
    struct octets o = {0};
    struct dissect_frame f;

    (void)state;
    octets_hex(&o, "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c");
    assert_true(dissect_frame_measure(&f, o.p, 2, 77, false));
    assert_int_equal(f.ulpdu_length, 23);
    assert_int_equal(f.pad, 3);
    assert_int_equal(f.whole, 32);
    assert_int_equal(f.markers, 0);
    assert_int_equal(dissect_frame_crc(&f, o.p), 0x0cb190b9);
    assert_int_equal(dissect_frame_crc_expected(&f, o.p), 0x0cb190b9);
    assert_false(dissect_frame_measure(&f, o.p, 1, 77, false));
    octets_free(&o);
}

static void marker__in_front__belongs_to_the_fpdu(void **state)
{
    struct octets o = {0};
    struct dissect_frame f;

    (void)state;
    octets_hex(&o, "00000000 002a4143 00000000 00000000 00000001 00000000");
    octets_fill(&o, 0, 24);
    octets_hex(&o, "52239983");
    assert_false(dissect_frame_measure(&f, o.p, 5, 0, true));
    assert_true(dissect_frame_measure(&f, o.p, 6, 0, true));
    assert_int_equal(f.lead, 4);
    assert_int_equal(f.markers, 1);
    assert_int_equal(f.whole, o.n);
    assert_int_equal(dissect_frame_check(&f, 0, o.p), DISSECT_POINTER_RIGHT);
    assert_int_equal(dissect_frame_crc(&f, o.p), dissect_frame_crc_expected(&f, o.p));
    octets_free(&o);
}

static void marker__inside__pointer_and_octets(void **state)
{
    struct octets o = {0};
    struct dissect_frame f;
    uint8_t plain[64];

    (void)state;
    octets_hex(&o, "002a4143 00000000 00000000 00000002 00000000 00000014");
    octets_fill(&o, 0, 24);
    octets_hex(&o, "84925898");
    assert_true(dissect_frame_measure(&f, o.p, o.n, 0x1ec, true));
    assert_int_equal(f.lead, 0);
    assert_int_equal(f.markers, 1);
    assert_int_equal(f.whole, o.n);
    assert_int_equal(dissect_frame_marker(&f, 0), 20);
    assert_int_equal(dissect_frame_check(&f, 0, o.p + 20), DISSECT_POINTER_RIGHT);
    assert_int_equal(dissect_frame_crc(&f, o.p), dissect_frame_crc_expected(&f, o.p));
    assert_int_equal(dissect_frame_unmark(&f, o.p, o.n, plain, sizeof plain), 48);
    assert_memory_equal(plain, o.p, 20);
    assert_memory_equal(plain + 20, o.p + 24, 28);
    /* No more than there is room for, nor than was captured. */
    assert_int_equal(dissect_frame_unmark(&f, o.p, o.n, plain, 22), 22);
    assert_int_equal(dissect_frame_unmark(&f, o.p, 22, plain, sizeof plain), 20);
    octets_free(&o);
}

/* 12 octets of an FPDU, a marker that says so, 512 more, a marker: not where RFC 5044 4.3 has them.
 */
static void markers__516_octets_apart__are_taken_out(void **state)
{
    struct octets o = {0};
    struct dissect_frame f;
    uint8_t plain[700];

    (void)state;
    octets_hex(&o, "02584143 00000000 00000000 0000000c 00000001 00000000");
    octets_fill(&o, 0x5a, 504);
    octets_hex(&o, "00000210");
    octets_fill(&o, 0x5b, 602 - 20 - 504 + 2 + 4);
    assert_true(dissect_frame_measure_odd(&f, o.p, o.n, 12, 516));
    assert_int_equal(f.markers, 2);
    assert_int_equal(f.whole, 2 + 600 + 2 + 4 + 8);
    assert_int_equal(dissect_frame_marker(&f, 1), 528);
    assert_int_equal(dissect_frame_check(&f, 0, o.p + 12), DISSECT_POINTER_RIGHT);
    assert_int_equal(dissect_frame_check(&f, 1, o.p + 528), DISSECT_POINTER_RIGHT);
    assert_int_equal(dissect_frame_unmark(&f, o.p, o.n, plain, sizeof plain), 608);
    assert_int_equal(plain[523], 0x5a);
    assert_int_equal(plain[524], 0x5b);
    octets_free(&o);
}

static void pointer__low_bits_little_endian_wrong__told_apart(void **state)
{
    static const uint8_t low_bits[] = {0, 0, 0x00, 0x17}, little[] = {0, 0, 0x14, 0x00},
                         wrong[] = {0, 0, 0x00, 0x18};
    struct dissect_frame f;

    (void)state;
    assert_true(dissect_frame_measure(&f, (const uint8_t *)"\0\x2a", 2, 0x1ec, true));
    assert_int_equal(dissect_frame_check(&f, 0, low_bits), DISSECT_POINTER_RIGHT);
    assert_int_equal(dissect_frame_check(&f, 0, little), DISSECT_POINTER_LITTLE);
    assert_int_equal(dissect_frame_check(&f, 0, wrong), DISSECT_POINTER_WRONG);
}

/* Every alignment, lengths around each that matters: the encoder of the tests has the last word. */
static void expect_same(uint32_t position, size_t length)
{
    struct octets ulpdu = {0}, wire = {0}, plain = {0};
    struct dissect_frame f;
    uint8_t out[2400];

    for (size_t i = 0; i < length; i++) {
        octets_be(&ulpdu, i * 7 + length, 1);
    }
    fpdu_add_marked(&wire, position, ulpdu.p, ulpdu.n, 0);
    fpdu_add(&plain, ulpdu.p, ulpdu.n, 0);
    assert_true(dissect_frame_measure(&f, wire.p, wire.n, position, true));
    assert_int_equal(f.whole, wire.n);
    assert_int_equal(f.ulpdu_length, length);
    assert_int_equal(dissect_frame_crc(&f, wire.p), dissect_frame_crc_expected(&f, wire.p));
    for (unsigned i = 0; i < f.markers; i++) {
        assert_int_equal(dissect_frame_check(&f, i, wire.p + dissect_frame_marker(&f, i)),
                         DISSECT_POINTER_RIGHT);
    }
    assert_int_equal(dissect_frame_unmark(&f, wire.p, wire.n, out, sizeof out), plain.n);
    assert_memory_equal(out, plain.p, plain.n - 4); /* but for the CRC */
    octets_free(&ulpdu);
    octets_free(&wire);
    octets_free(&plain);
}

static void markers__every_alignment__as_the_reference_puts_them(void **state)
{
    (void)state;
    for (uint32_t position = 0; position < 512; position += 4) {
        for (size_t length = 14; length < 1600; length += 31) {
            expect_same(position, length);
        }
        for (size_t length = 480; length < 520; length++) {
            expect_same(position, length);
        }
    }
}

static void positions__across_the_wrap__stay_on_the_grid(void **state)
{
    (void)state;
    expect_same(0xfffffffc, 1500);
    expect_same(0xfffffe00, 100);
    expect_same(0, 2200);
}

static void largest_ulpdu__markers__fits_in_a_pointer(void **state)
{
    static const uint8_t length[] = {0, 0, 0, 0, 0xfd, 0x00};
    struct dissect_frame f;

    (void)state;
    assert_true(dissect_frame_measure(&f, length, sizeof length, 0, true));
    assert_int_equal(f.markers, 128);
    assert_int_equal(f.whole, 2 + 64768 + 2 + 4 + 4 * 128);
    assert_int_equal(dissect_frame_pointer(&f, 127), 127 * 512 - 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fpdu__without_markers__length_pad_and_crc),
        cmocka_unit_test(marker__in_front__belongs_to_the_fpdu),
        cmocka_unit_test(marker__inside__pointer_and_octets),
        cmocka_unit_test(markers__516_octets_apart__are_taken_out),
        cmocka_unit_test(pointer__low_bits_little_endian_wrong__told_apart),
        cmocka_unit_test(markers__every_alignment__as_the_reference_puts_them),
        cmocka_unit_test(positions__across_the_wrap__stay_on_the_grid),
        cmocka_unit_test(largest_ulpdu__markers__fits_in_a_pointer),
    };
    return cmocka_run_group_tests_name("dissect_frame", tests, NULL, NULL);
}
