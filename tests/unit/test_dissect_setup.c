/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The dissector's decoding of MPA start-up frames and of what they agree on, from literal octets.
 * RFC 5044 7.1, RFC 6581 6 and 9.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dissector/setup.h"
#include "support/octets.h"

#define REQ "4d504120494420526571204672616d65 "
#define REP "4d504120494420526570204672616d65 "

static struct dissect_setup decode(const char *hex)
{
    struct octets o = {0};
    struct dissect_setup s;

    octets_hex(&o, hex);
    assert_true(dissect_setup_decode(&s, o.p, o.n));
    octets_free(&o);
    return s;
}

static void key__every_prefix__told_from_anything_else(void **state)
{
    const uint8_t *req = (const uint8_t *)"MPA ID Req Frame",
                  *rep = (const uint8_t *)"MPA ID Rep Frame";

    (void)state;
    for (size_t n = 1; n <= 16; n++) {
        assert_int_equal(dissect_setup_kind(req, n), DISSECT_REQUEST);
        assert_int_equal(dissect_setup_kind(rep, n), n < 10 ? DISSECT_REQUEST : DISSECT_REPLY);
    }
    assert_int_equal(dissect_setup_kind(req, 0), DISSECT_NO_SETUP);
    assert_int_equal(dissect_setup_kind((const uint8_t *)"MPA ID Reg Frame", 16), DISSECT_NO_SETUP);
}

static void extent__by_private_data_and_revision(void **state)
{
    struct octets o = {0};

    (void)state;
    octets_hex(&o, REQ "c0010004 74657374");
    assert_int_equal(dissect_setup_extent(o.p, 19), 0);
    assert_int_equal(dissect_setup_extent(o.p, 20), 24);
    o.p[17] = 129;
    assert_int_equal(dissect_setup_extent(o.p, 20), 32);
    octets_free(&o);
}

static void revision_1__flags_and_private_data(void **state)
{
    struct dissect_setup s = decode(REQ "c1010004 74657374");

    (void)state;
    assert_int_equal(s.kind, DISSECT_REQUEST);
    assert_true(s.markers && s.crc && !s.rejected && !s.enhanced);
    assert_int_equal(s.reserved, 1);
    assert_int_equal(s.private_length, 4);
    s = decode(REP "60010002 0001");
    assert_int_equal(s.kind, DISSECT_REPLY);
    assert_true(s.rejected && s.crc && !s.markers);
    /* The S bit is reserved in revision 1: RFC 6581 6. */
    s = decode(REQ "50010004 00100008");
    assert_false(s.enhanced);
    assert_int_equal(s.reserved, 0x10);
}

static void revision_2__enhanced_words__all_bits(void **state)
{
    struct dissect_setup s = decode(REQ "50020006 8010c008 6162");

    (void)state;
    assert_true(s.enhanced && s.peer_to_peer);
    assert_int_equal(s.rtr, DISSECT_RTR_WRITE | DISSECT_RTR_READ);
    assert_int_equal(s.ird, 16);
    assert_int_equal(s.ord, 8);
    s = decode(REQ "50020004 ffffffff");
    assert_int_equal(s.rtr, DISSECT_RTR_SEND | DISSECT_RTR_WRITE | DISSECT_RTR_READ);
    assert_int_equal(s.ird, DISSECT_NO_DEPTH);
    s = decode(REQ "40020000");
    assert_false(s.enhanced);
    /* siw's own hint is a reserved bit. */
    s = decode(REQ "18020004 00010001");
    assert_int_equal(s.reserved, 8);
    assert_true(s.enhanced);
}

static void revision_129__cookie_and_congestion_word(void **state)
{
    struct dissect_setup s = decode(REQ "00810000 01020304 0a0b0c0d");

    (void)state;
    assert_int_equal(s.size, 28);
    assert_int_equal(s.cookie, 0x01020304);
    assert_int_equal(s.congestion, 0x0a0b0c0d);
}

static void agreement__markers__each_direction_by_its_receiver(void **state)
{
    const struct dissect_setup req = decode(REQ "80010000"), rep = decode(REP "40010000");
    struct dissect_agreement a;

    (void)state;
    dissect_setup_agree(&a, &req, &rep);
    assert_true(a.complete && a.crc_known && a.crc);
    assert_true(a.markers_known[0] && !a.markers[0]);
    assert_true(a.markers_known[1] && a.markers[1]);

    dissect_setup_agree(&a, &req, NULL);
    assert_false(a.complete || a.crc_known || a.markers_known[0]);
    assert_true(a.markers_known[1] && a.markers[1]);
}

static void agreement__depths__the_smaller_of_both(void **state)
{
    struct dissect_setup req = decode(REQ "50020006 8010c008 6162");
    struct dissect_setup rep = decode(REP "50020004 80044020");
    struct dissect_agreement a;

    (void)state;
    dissect_setup_agree(&a, &req, &rep);
    assert_true(a.depths_known);
    assert_int_equal(a.initiator_ord, 4);
    assert_int_equal(a.responder_ord, 16);
    assert_int_equal(a.rtr, DISSECT_RTR_READ);
    /* 0x3fff leaves a depth as it was: RFC 6581 9.1. */
    rep.ird = DISSECT_NO_DEPTH;
    dissect_setup_agree(&a, &req, &rep);
    assert_int_equal(a.initiator_ord, 8);
}

static void agreement__rejected__is_told(void **state)
{
    const struct dissect_setup req = decode(REQ "40010000"), rep = decode(REP "60010002 0001");
    struct dissect_agreement a;

    (void)state;
    dissect_setup_agree(&a, &req, &rep);
    assert_true(a.rejected);
}

static void frame__cut_short__is_not_decoded(void **state)
{
    struct octets o = {0};
    struct dissect_setup s;

    (void)state;
    octets_hex(&o, REQ "50020004 00100008");
    assert_false(dissect_setup_decode(&s, o.p, 19));
    assert_true(dissect_setup_decode(&s, o.p, 20));
    assert_false(s.enhanced);
    octets_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key__every_prefix__told_from_anything_else),
        cmocka_unit_test(extent__by_private_data_and_revision),
        cmocka_unit_test(revision_1__flags_and_private_data),
        cmocka_unit_test(revision_2__enhanced_words__all_bits),
        cmocka_unit_test(revision_129__cookie_and_congestion_word),
        cmocka_unit_test(agreement__markers__each_direction_by_its_receiver),
        cmocka_unit_test(agreement__depths__the_smaller_of_both),
        cmocka_unit_test(agreement__rejected__is_told),
        cmocka_unit_test(frame__cut_short__is_not_decoded),
    };
    return cmocka_run_group_tests_name("dissect_setup", tests, NULL, NULL);
}
