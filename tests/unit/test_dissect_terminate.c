/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The dissector's decoding of Terminate messages, from literal octets, in the order of RFC 5040 4.8
 * and in that of Linux's siw.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dissector/terminate.h"
#include "support/octets.h"

static struct dissect_terminate decode(const char *hex)
{
    struct octets o = {0};
    struct dissect_terminate t;

    octets_hex(&o, hex);
    assert_true(dissect_terminate_decode(&t, o.p, o.n));
    octets_free(&o);
    return t;
}

static void no_headers__crc_error(void **state)
{
    struct dissect_terminate t = decode("20020000");

    (void)state;
    assert_int_equal(t.order, DISSECT_ORDER_RFC);
    assert_int_equal(t.layer, 2);
    assert_int_equal(t.etype, 0);
    assert_int_equal(t.code, 2);
    assert_int_equal(t.length_at, 0);
    assert_int_equal(t.ddp_at, 0);
    assert_string_equal(dissect_terminate_layer(2), "MPA");
    assert_string_equal(dissect_terminate_code(2, 0, 2), "MPA CRC error");
}

static void tagged_header__fourteen_octets(void **state)
{
    struct dissect_terminate t = decode("1100c000 0012 c140 00010203 0000000000001000");

    (void)state;
    assert_true(t.m && t.d && !t.r);
    assert_int_equal(t.ddp_length, 18);
    assert_int_equal(t.ddp_at, 6);
    assert_int_equal(t.ddp_size, 14);
    assert_true(t.ddp.tagged);
    assert_int_equal(t.ddp.stag, 0x00010203);
    assert_true(t.ddp.to == 0x1000);
    assert_int_equal(t.rdma_at, 0);
}

static void length_alone__no_header_is_looked_for(void **state)
{
    struct dissect_terminate t = decode("11009f00 0012 c140 00010203 0000000000001000");

    (void)state;
    assert_true(t.m && !t.d && !t.r);
    assert_int_equal(t.reserved, 0x1f);
    assert_int_equal(t.length_at, 4);
    assert_int_equal(t.ddp_length, 18);
    assert_int_equal(t.ddp_at, 0);
    assert_int_equal(t.ddp_size, 0);
    t = decode("20020000 0012");
    assert_int_equal(t.length_at, 0);
}

/* An error of RDMAP's remote protection: the header is untagged all the same. */
static void read_request_header__eighteen_octets_by_its_own_t_bit(void **state)
{
    struct dissect_terminate t =
        decode("0102e000 002e 4141 00000000 00000001 00000007 00000000"
               "11223344 0000000000002000 00000008 00010203 0000000000001000");

    (void)state;
    assert_int_equal(t.ddp_size, 18);
    assert_int_equal(t.ddp.msn, 7);
    assert_int_equal(t.rdma_at, 24);
    assert_int_equal(t.rdma_size, 28);
    assert_string_equal(dissect_terminate_code(t.layer, t.etype, t.code),
                        "Access rights violation");
}

static void siw__bits_the_wrong_way_round__are_recognised(void **state)
{
    struct dissect_terminate t = decode("11000300 0004 c140 00010203 0000000000001000");

    (void)state;
    assert_int_equal(t.order, DISSECT_ORDER_SIW);
    assert_true(t.m && t.d && !t.r);
    assert_int_equal(t.ddp.stag, 0x00010203);

    t = decode("21030300 0004 4143 00000000 00000000 00000009 00000000");
    assert_int_equal(t.order, DISSECT_ORDER_SIW);
    assert_int_equal(t.layer, 1);
    assert_int_equal(t.etype, 2);
    assert_int_equal(t.ddp.msn, 9);

    /* R for a Send, which has no such header. */
    t = decode("10090700 0004 4144 12345678 00000000 00000002 00000000");
    assert_int_equal(t.order, DISSECT_ORDER_SIW);
    assert_true(t.r);
    assert_int_equal(t.rdma_at, 0);
}

static void no_header_bits__the_registered_code_decides(void **state)
{
    struct dissect_terminate t = decode("02020000");

    (void)state;
    assert_int_equal(t.order, DISSECT_ORDER_SIW);
    assert_int_equal(t.layer, 2);
    assert_int_equal(t.etype, 0);
    t = decode("02070000");
    assert_int_equal(t.order, DISSECT_ORDER_RFC);
    assert_int_equal(t.layer, 0);
    assert_int_equal(t.etype, 2);
}

static void hardware__mpa_type_3__has_a_name(void **state)
{
    struct dissect_terminate t = decode("23020000");

    (void)state;
    assert_int_equal(t.layer, 2);
    assert_int_equal(t.etype, 3);
    assert_string_equal(dissect_terminate_code(2, 3, 2), "MPA CRC error");
}

static void cut_anywhere__never_more_than_there_is(void **state)
{
    struct octets o = {0};
    struct dissect_terminate t;

    (void)state;
    octets_hex(&o, "0102e000 002e 4141 00000000 00000001 00000007 00000000"
                   "11223344 0000000000002000 00000008 00010203 0000000000001000");
    for (size_t n = 0; n <= o.n; n++) {
        assert_int_equal(dissect_terminate_decode(&t, o.p, n), n >= 4);
        assert_int_equal(t.ddp_at, n < 8 ? 0 : 6);
        assert_true(n < 4 || t.ddp_at + t.ddp_size <= n);
        assert_true(n < 4 || t.rdma_at + t.rdma_size <= n);
    }
    octets_free(&o);
}

static void codes__all_layers__registered_or_not(void **state)
{
    (void)state;
    assert_true(dissect_terminate_registered(0, 0, 0x77));
    assert_true(dissect_terminate_registered(0, 1, 9));
    assert_false(dissect_terminate_registered(0, 1, 5));
    assert_true(dissect_terminate_registered(1, 2, 5));
    assert_false(dissect_terminate_registered(1, 2, 0));
    assert_string_equal(dissect_terminate_code(2, 0, 6), "Insufficient IRD resources");
    assert_string_equal(dissect_terminate_code(2, 0, 7), "No matching RTR option");
    assert_string_equal(dissect_terminate_code(3, 0, 0), "Unregistered code");
    assert_string_equal(dissect_terminate_type(1, 1), "Tagged Buffer");
    assert_string_equal(dissect_terminate_type(2, 1), "Unknown type");
    assert_string_equal(dissect_terminate_type(0, 4), "Unknown type");
    assert_string_equal(dissect_terminate_type(3, 0), "Unknown type");
    assert_string_equal(dissect_terminate_layer(3), "Unknown layer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_headers__crc_error),
        cmocka_unit_test(tagged_header__fourteen_octets),
        cmocka_unit_test(length_alone__no_header_is_looked_for),
        cmocka_unit_test(read_request_header__eighteen_octets_by_its_own_t_bit),
        cmocka_unit_test(siw__bits_the_wrong_way_round__are_recognised),
        cmocka_unit_test(no_header_bits__the_registered_code_decides),
        cmocka_unit_test(hardware__mpa_type_3__has_a_name),
        cmocka_unit_test(cut_anywhere__never_more_than_there_is),
        cmocka_unit_test(codes__all_layers__registered_or_not),
    };
    return cmocka_run_group_tests_name("dissect_terminate", tests, NULL, NULL);
}
