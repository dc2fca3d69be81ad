/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Integers at octet pointers, against literal octets: the order of the octets, every alignment,
 * and that exactly the octets of the integer are written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/bytes.h"

static const uint8_t octets[8] = {0x81, 0x92, 0xa3, 0xb4, 0xc5, 0xd6, 0xe7, 0xf8};

static void get__literal_octets__gives_the_number(void **state)
{
    (void)state;
    assert_int_equal(iwarp_get_be16(octets), 0x8192);
    assert_int_equal(iwarp_get_be32(octets), 0x8192a3b4);
    assert_int_equal(iwarp_get_be64(octets), 0x8192a3b4c5d6e7f8);
    assert_int_equal(iwarp_get_le32(octets), 0xb4a39281);
}

/* The CRC of "123456789" as RFC 5044 4.4 puts it on the wire. */
static void put_le32__crc_of_the_check_string__is_least_significant_octet_first(void **state)
{
    static const uint8_t wire[4] = {0x83, 0x92, 0x06, 0xe3};
    uint8_t out[4];

    (void)state;
    iwarp_put_le32(out, 0xe3069283);
    assert_memory_equal(out, wire, 4);
    assert_int_equal(iwarp_get_le32(wire), 0xe3069283);
}

static void check_put(const uint8_t *buf, size_t at, const uint8_t *want, size_t n, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(buf[i], i < at || i >= at + n ? 0x55 : want[i - at]);
    }
}

static void put__every_alignment__writes_these_octets_and_no_other(void **state)
{
    static const uint8_t reversed[4] = {0x81, 0x92, 0xa3, 0xb4};
    uint8_t buf[24];

    (void)state;
    for (size_t at = 0; at < 12; at++) {
        memset(buf, 0x55, sizeof buf);
        iwarp_put_be16(buf + at, 0x8192);
        check_put(buf, at, octets, 2, sizeof buf);
        memset(buf, 0x55, sizeof buf);
        iwarp_put_be32(buf + at, 0x8192a3b4);
        check_put(buf, at, octets, 4, sizeof buf);
        memset(buf, 0x55, sizeof buf);
        iwarp_put_be64(buf + at, 0x8192a3b4c5d6e7f8);
        check_put(buf, at, octets, 8, sizeof buf);
        memset(buf, 0x55, sizeof buf);
        iwarp_put_le32(buf + at, 0xb4a39281);
        check_put(buf, at, reversed, 4, sizeof buf);
    }
}

static void get__every_alignment__gives_the_number(void **state)
{
    uint8_t buf[24];

    (void)state;
    for (size_t at = 0; at < 12; at++) {
        memset(buf, 0x55, sizeof buf);
        memcpy(buf + at, octets, sizeof octets);
        assert_int_equal(iwarp_get_be16(buf + at), 0x8192);
        assert_int_equal(iwarp_get_be32(buf + at), 0x8192a3b4);
        assert_int_equal(iwarp_get_be64(buf + at), 0x8192a3b4c5d6e7f8);
        assert_int_equal(iwarp_get_le32(buf + at), 0xb4a39281);
    }
}

static void get__extreme_values__come_back(void **state)
{
    static const uint64_t values[] = {0, 1, 0x7fffffffffffffff, 0x8000000000000000, UINT64_MAX};
    uint8_t buf[8];

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        iwarp_put_be64(buf, values[i]);
        assert_true(iwarp_get_be64(buf) == values[i]);
        iwarp_put_be32(buf, (uint32_t)values[i]);
        assert_true(iwarp_get_be32(buf) == (uint32_t)values[i]);
        iwarp_put_le32(buf, (uint32_t)values[i]);
        assert_true(iwarp_get_le32(buf) == (uint32_t)values[i]);
        iwarp_put_be16(buf, (uint16_t)values[i]);
        assert_true(iwarp_get_be16(buf) == (uint16_t)values[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(get__literal_octets__gives_the_number),
        cmocka_unit_test(put_le32__crc_of_the_check_string__is_least_significant_octet_first),
        cmocka_unit_test(put__every_alignment__writes_these_octets_and_no_other),
        cmocka_unit_test(get__every_alignment__gives_the_number),
        cmocka_unit_test(get__extreme_values__come_back),
    };
    return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
