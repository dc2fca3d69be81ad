/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The octets of docs/rsockets.md, by hand. The functions are hidden in the library, so they are
 * compiled in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rsocket/wire.c"

static const uint8_t literal[RS_PRIVATE_LEN] = {
    1,    2,    0x01, 0x80, 0,    0,    0,    5,    0x11, 0x22, 0x33, 0x44, 0x55, 0x66,
    0x77, 0x88, 0xa1, 0xa2, 0xa3, 0xa4, 0,    0,    0,    2,    0x21, 0x22, 0x23, 0x24,
    0x25, 0x26, 0x27, 0x28, 0xb1, 0xb2, 0xb3, 0xb4, 0,    1,    0,    0};
static const struct rs_hello hello = {.credits = 384,
                                      .map_entries = 5,
                                      .targets = {0x1122334455667788, 0xa1a2a3a4, 2},
                                      .data = {0x2122232425262728, 0xb1b2b3b4, 65536}};

static void private_data__of_an_end__are_these_40_octets(void **state)
{
    uint8_t octets[RS_PRIVATE_LEN];
    struct rs_hello got;

    (void)state;
    assert_int_equal(rs_hello_write(octets, &hello), sizeof literal);
    assert_memory_equal(octets, literal, sizeof literal);
    assert_null(rs_hello_read(literal, sizeof literal, &got));
    assert_false(got.big_endian);
    assert_int_equal(got.credits, 384);
    assert_int_equal(got.map_entries, 5);
    assert_memory_equal(&got.targets, &hello.targets, sizeof got.targets);
    assert_memory_equal(&got.data, &hello.data, sizeof got.data);
    assert_int_equal(got.second.len, 0);
    assert_null(rs_hello_read((uint8_t[50]){1, 2, 1, 128, [23] = 2, [38] = 1}, 50, &got));
}

static void private_data__with_a_second_half__are_these_56_octets(void **state)
{
    static const uint8_t second[RS_ENTRY_LEN] = {0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
                                                 0xc1, 0xc2, 0xc3, 0xc4, 0,    2,    0,    0};
    uint8_t octets[RS_PRIVATE_MAX];
    struct rs_hello got, h = hello;

    (void)state;
    h.second = (struct rs_entry){0x3132333435363738, 0xc1c2c3c4, 131072};
    assert_int_equal(rs_hello_write(octets, &h), sizeof octets);
    assert_int_equal(octets[1], literal[1] | 0x04);
    octets[1] = literal[1];
    assert_memory_equal(octets, literal, sizeof literal);
    assert_memory_equal(octets + sizeof literal, second, sizeof second);
    assert_null(rs_hello_read(octets, sizeof octets, &got)); /* octets that nobody looks at */
    assert_int_equal(got.second.len, 0);
    octets[1] |= 0x04;
    assert_null(rs_hello_read(octets, sizeof octets, &got));
    assert_memory_equal(&got.data, &h.data, sizeof got.data);
    assert_memory_equal(&got.second, &h.second, sizeof got.second);
    for (size_t len = 0; len < sizeof octets; len++) {
        assert_non_null(rs_hello_read(octets, len, &got));
    }
}

static const char *with(size_t at, uint8_t value)
{
    uint8_t octets[RS_PRIVATE_LEN];
    struct rs_hello got;

    memcpy(octets, literal, sizeof octets);
    octets[at] = value;
    return rs_hello_read(octets, sizeof octets, &got);
}

static void private_data__that_are_wrong__are_said_to_be(void **state)
{
    uint8_t none[RS_PRIVATE_LEN];
    struct rs_hello got;

    (void)state;
    for (size_t len = 0; len < RS_PRIVATE_LEN; len++) {
        assert_non_null(rs_hello_read(literal, len, &got));
    }
    assert_non_null(with(0, 0));
    assert_non_null(with(0, 2));
    assert_non_null(with(1, 3));
    assert_non_null(with(23, 1));
    assert_non_null(with(37, 0));
    memcpy(none, literal, sizeof none);
    none[2] = 0;
    none[3] = 1;
    assert_non_null(rs_hello_read(none, sizeof none, &got));
}

static void map_entries__of_any_number__are_announced_as_at_least_that(void **state)
{
    static const struct {
        uint32_t wanted, size;
        uint8_t said;
    } rows[] = {{0, 0, 0},
                {1, 1, 1},
                {127, 127, 127},
                {128, 256, 0x81},
                {256, 256, 0x81},
                {257, 512, 0x82},
                {RS_MAP_MAX, 32512, 0xff},
                {RS_MAP_MAX + 1, 32512, 0xff}};
    uint8_t octets[RS_PRIVATE_LEN];
    struct rs_hello got, h = hello;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        h.map_entries = rs_map_size(rows[i].wanted);
        assert_int_equal(h.map_entries, rows[i].size);
        rs_hello_write(octets, &h);
        assert_int_equal(octets[7], rows[i].said);
        assert_null(rs_hello_read(octets, sizeof octets, &got));
        assert_int_equal(got.map_entries, rows[i].size);
    }
    octets[7] = 128; /* a stock end says 128 directly */
    assert_null(rs_hello_read(octets, sizeof octets, &got));
    assert_int_equal(got.map_entries, 128);
    octets[1] = 0; /* octet 7 is not valid */
    assert_null(rs_hello_read(octets, sizeof octets, &got));
    assert_int_equal(got.map_entries, 0);
}

static void messages__of_each_type__are_these_words(void **state)
{
    (void)state;
    assert_int_equal(rs_message(RS_DATA, 5), 5);
    assert_int_equal(rs_message(RS_CREDITS, 0x1234), 0x80001234);
    assert_int_equal(rs_message(RS_MAP, 1), 0xc0000001);
    assert_int_equal(rs_message(RS_CONTROL, RS_DISCONNECT), 0xe0000000);
    assert_int_equal(rs_message(RS_CONTROL, RS_NO_MORE), 0xe0000002);
    assert_int_equal(rs_message_type(0xdfffffff), RS_MAP);
    assert_int_equal(rs_message_value(0xdfffffff), RS_VALUE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(private_data__of_an_end__are_these_40_octets),
        cmocka_unit_test(private_data__with_a_second_half__are_these_56_octets),
        cmocka_unit_test(private_data__that_are_wrong__are_said_to_be),
        cmocka_unit_test(map_entries__of_any_number__are_announced_as_at_least_that),
        cmocka_unit_test(messages__of_each_type__are_these_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
