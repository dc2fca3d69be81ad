/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control messages of iwarp-cp: literal octets both ways, and everything that must be refused: cut
 * anywhere, too long, unknown values.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "programs/cp/limits.h"
#include "programs/cp/wire.h"

/* OPEN, put with checksum and one file, of "a/b". */
static const uint8_t open_octets[] = {
    1, 0,    0, 0, 0,   0,   0,   7, /* type, 0, slot, length of the rest */
    1, 0x0a, 0, 3, 'a', '/', 'b',    /* action, flags, name */
};

static void hello__written__is_literal_octets_and_reads_back(void **state)
{
    static const uint8_t expected[CP_HELLO_LEN] = {
        'i', 'w',     'c', 'p', 0, 1, 0, 8, 0, 0x10, 0,  0,
        0,   CP_BUSY, 0,   11, /* as in older versions */
        1,   2,       3,   4,   5, 6, 7, 8, 9, 10,   11, 12};
    struct cp_hello hello = {1, 8, 0x100000, {CP_BUSY, 11}, 0x01020304, 0x05060708090a0b0c};
    struct cp_hello back = {0};
    uint8_t buf[CP_HELLO_LEN];

    (void)state;
    assert_int_equal(cp_hello_write(buf, &hello), CP_HELLO_LEN);
    assert_memory_equal(buf, expected, sizeof expected);
    assert_true(cp_hello_read(buf, sizeof buf, &back));
    assert_int_equal(back.version, 1);
    assert_int_equal(back.slots, 8);
    assert_int_equal(back.slot_size, 0x100000);
    assert_int_equal(back.result.status, CP_BUSY);
    assert_int_equal(back.result.system_errno, 11);
    assert_int_equal(back.pulse_stag, 0x01020304);
    assert_int_equal(back.pulse_to, 0x05060708090a0b0c);
}

static void hello__of_an_older_version__has_no_pulse(void **state)
{
    struct cp_hello hello = {.version = 1, .slots = 8, .pulse_stag = 7}, back;
    uint8_t buf[CP_HELLO_LEN];

    (void)state;
    cp_hello_write(buf, &hello);
    for (size_t len = CP_HELLO_MIN; len < CP_HELLO_LEN; len++) {
        assert_true(cp_hello_read(buf, len, &back));
        assert_int_equal(back.slots, 8);
        assert_int_equal(back.pulse_stag, 0);
    }
}

static void hello__cut_or_foreign__is_refused(void **state)
{
    struct cp_hello hello = {.version = 1}, back;
    uint8_t buf[CP_HELLO_LEN];

    (void)state;
    cp_hello_write(buf, &hello);
    for (size_t len = 0; len < CP_HELLO_MIN; len++) {
        assert_false(cp_hello_read(buf, len, &back));
    }
    buf[0] ^= 1;
    assert_false(cp_hello_read(buf, sizeof buf, &back));
}

static void open__written__is_literal_octets(void **state)
{
    struct cp_open open = {CP_ACTION_PUT, CP_OPEN_CHECKSUM | CP_OPEN_ONE_FILE, "a/b", 3};
    struct cp_writer writer;
    uint8_t buf[64];

    (void)state;
    cp_message_begin(&writer, buf, sizeof buf, CP_MESSAGE_OPEN, 0);
    cp_open_write(&writer, &open);
    assert_int_equal(cp_message_finish(&writer, buf), sizeof open_octets);
    assert_memory_equal(buf, open_octets, sizeof open_octets);
}

static void open__read__gives_the_fields(void **state)
{
    struct cp_message message;
    struct cp_open open;

    (void)state;
    assert_true(cp_message_read(open_octets, sizeof open_octets, &message));
    assert_int_equal(message.type, CP_MESSAGE_OPEN);
    assert_true(cp_open_read(&message.body, &open));
    assert_int_equal(open.action, CP_ACTION_PUT);
    assert_int_equal(open.flags, CP_OPEN_CHECKSUM | CP_OPEN_ONE_FILE);
    assert_int_equal(open.name_len, 3);
    assert_memory_equal(open.name, "a/b", 3);
}

/* Cut at every octet, with and without the length in the head being put right. */
static void open__cut_anywhere__is_refused(void **state)
{
    struct cp_message message;
    struct cp_open open;
    uint8_t buf[sizeof open_octets];

    (void)state;
    for (size_t len = 0; len < sizeof open_octets; len++) {
        assert_false(cp_message_read(open_octets, len, &message));
        memcpy(buf, open_octets, sizeof buf);
        if (len >= CP_HEAD_LEN) {
            buf[7] = (uint8_t)(len - CP_HEAD_LEN);
            assert_true(cp_message_read(buf, len, &message));
            assert_false(cp_open_read(&message.body, &open));
        }
    }
}

static void open__impossible_values__are_refused(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
    } changes[] = {{8, 0}, {8, 4}, {11, 2}, {11, 4}, {13, 0}};
    struct cp_message message;
    struct cp_open open;
    uint8_t buf[sizeof open_octets];

    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        memcpy(buf, open_octets, sizeof buf);
        buf[changes[i].at] = changes[i].value;
        assert_true(cp_message_read(buf, sizeof buf, &message));
        assert_false(cp_open_read(&message.body, &open));
    }
}

static void message__unknown_type_or_wrong_length__is_refused(void **state)
{
    struct cp_message message;
    uint8_t buf[CP_HEAD_LEN] = {CP_MESSAGE_FETCH, 0, 0x01, 0x02, 0, 0, 0, 0};

    (void)state;
    assert_true(cp_message_read(buf, sizeof buf, &message));
    assert_int_equal(message.slot, 0x102);
    buf[0] = 0;
    assert_false(cp_message_read(buf, sizeof buf, &message));
    buf[0] = CP_MESSAGE_FAILED + 1;
    assert_false(cp_message_read(buf, sizeof buf, &message));
    buf[0] = CP_MESSAGE_FETCH;
    buf[4] = 0x80;
    assert_false(cp_message_read(buf, sizeof buf, &message));
}

static void message__too_long_for_buffer__is_not_finished(void **state)
{
    struct cp_writer writer;
    uint8_t buf[16];

    (void)state;
    cp_message_begin(&writer, buf, sizeof buf, CP_MESSAGE_STORE, 0);
    cp_add(&writer, "123456789", 9);
    assert_int_equal(cp_message_finish(&writer, buf), 0);
}

static void opened__written__reads_back(void **state)
{
    struct cp_opened opened = {{CP_OK, 0}, CP_KIND_DIRECTORY, 0x12345678, 5, 0x1122334455667788, 7,
                               9};
    struct cp_opened back;
    struct cp_writer writer;
    struct cp_message message;
    uint8_t buf[64];

    (void)state;
    cp_message_begin(&writer, buf, sizeof buf, CP_MESSAGE_OPENED, 0);
    cp_opened_write(&writer, &opened);
    size_t len = cp_message_finish(&writer, buf);
    assert_int_equal(len, CP_HEAD_LEN + CP_OPENED_LEN);
    assert_true(cp_message_read(buf, len, &message));
    assert_true(cp_opened_read(&message.body, &back));
    assert_int_equal(back.kind, CP_KIND_DIRECTORY);
    assert_int_equal(back.stag, 0x12345678);
    assert_int_equal(back.slots, 5);
    assert_int_equal(back.to, 0x1122334455667788);
    assert_int_equal(back.total_files, 7);
    assert_int_equal(back.total_bytes, 9);
    buf[CP_HEAD_LEN + 7] = 3; /* no such kind */
    assert_true(cp_message_read(buf, len, &message));
    assert_false(cp_opened_read(&message.body, &back));
}

static void failures__written__read_back_until_the_end(void **state)
{
    struct cp_failure failure = {0x0102030405060708, {CP_NO_SPACE, 28}}, back;
    struct cp_writer writer;
    uint8_t buf[64];

    (void)state;
    writer = (struct cp_writer){buf, sizeof buf, false};
    cp_failure_write(&writer, &failure);
    cp_failure_write(&writer, &failure);
    struct cp_reader reader = {buf, sizeof buf - writer.left, false};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cp_failure_read(&reader, &back), 1);
        assert_int_equal(back.sequence, 0x0102030405060708);
        assert_int_equal(back.result.status, CP_NO_SPACE);
        assert_int_equal(back.result.system_errno, 28);
    }
    assert_int_equal(cp_failure_read(&reader, &back), 0);
    reader = (struct cp_reader){buf, 11, false};
    assert_int_equal(cp_failure_read(&reader, &back), -1);
}

static void result__unknown_row__keeps_the_errno(void **state)
{
    static const uint8_t octets[] = {0x7f, 0xff, 0, 28};
    struct cp_reader reader = {octets, sizeof octets, false};
    struct cp_result result;

    (void)state;
    assert_true(cp_result_read(&reader, &result));
    assert_int_equal(result.status, CP_SYSTEM);
    assert_string_equal(cp_result_text(result), strerror(28));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello__written__is_literal_octets_and_reads_back),
        cmocka_unit_test(hello__of_an_older_version__has_no_pulse),
        cmocka_unit_test(hello__cut_or_foreign__is_refused),
        cmocka_unit_test(open__written__is_literal_octets),
        cmocka_unit_test(open__read__gives_the_fields),
        cmocka_unit_test(open__cut_anywhere__is_refused),
        cmocka_unit_test(open__impossible_values__are_refused),
        cmocka_unit_test(message__unknown_type_or_wrong_length__is_refused),
        cmocka_unit_test(message__too_long_for_buffer__is_not_finished),
        cmocka_unit_test(opened__written__reads_back),
        cmocka_unit_test(failures__written__read_back_until_the_end),
        cmocka_unit_test(result__unknown_row__keeps_the_errno),
    };

    return cmocka_run_group_tests_name("cp_wire", tests, NULL, NULL);
}
