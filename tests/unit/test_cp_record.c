/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records: literal octets, round trips, and names that must never get through: a peer's names reach
 * the file system only as what cp_record_read lets pass.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "programs/cp/record.h"

static const uint8_t file_octets[] = {
    1,                                     /* FILE */
    0, 0, 0x01, 0xa4,                      /* mode 0644 */
    0, 0, 0,    0,    0x65, 0x43, 0x21, 0, /* time */
    0, 0, 0,    5,                         /* ns */
    0, 0, 0,    1,    0,    0,    0,    2, /* size 2^32 + 2 */
    0, 3, 'a',  '.',  'b'                  /* name */
};

static int read_one(const uint8_t *octets, size_t len, struct cp_record *record)
{
    struct cp_reader reader = {octets, len, false};

    return cp_record_read(&reader, record);
}

static void file__read__gives_the_fields(void **state)
{
    struct cp_record record;

    (void)state;
    assert_int_equal(read_one(file_octets, sizeof file_octets, &record), 1);
    assert_int_equal(record.type, CP_RECORD_FILE);
    assert_int_equal(record.mode, 0644);
    assert_int_equal(record.mtime, 0x65432100);
    assert_int_equal(record.mtime_ns, 5);
    assert_int_equal(record.size, 0x100000002);
    assert_string_equal(record.name, "a.b");
}

static void file__written__is_literal_octets(void **state)
{
    struct cp_record record = {.type = CP_RECORD_FILE,
                               .name = "a.b",
                               .mode = 0644,
                               .size = 0x100000002,
                               .mtime = 0x65432100,
                               .mtime_ns = 5};
    uint8_t buf[64];
    struct cp_writer writer = {buf, sizeof buf, false};

    (void)state;
    cp_record_write(&writer, &record);
    assert_int_equal(sizeof buf - writer.left, sizeof file_octets);
    assert_memory_equal(buf, file_octets, sizeof file_octets);
}

static void file__cut_anywhere__is_refused(void **state)
{
    struct cp_record record;

    (void)state;
    assert_int_equal(read_one(file_octets, 0, &record), 0);
    for (size_t len = 1; len < sizeof file_octets; len++) {
        assert_int_equal(read_one(file_octets, len, &record), -1);
    }
}

static void file__setuid_bits__are_dropped(void **state)
{
    struct cp_record record;
    uint8_t buf[sizeof file_octets];

    (void)state;
    memcpy(buf, file_octets, sizeof buf);
    buf[3] = 0x0f; /* 07644 */
    assert_int_equal(read_one(buf, sizeof buf, &record), 1);
    assert_int_equal(record.mode, 0644);
}

static void directory__setuid_bit__is_dropped_alone(void **state)
{
    struct cp_record record;
    uint8_t buf[sizeof file_octets];

    (void)state;
    memcpy(buf, file_octets, sizeof buf);
    buf[0] = CP_RECORD_DIRECTORY;
    buf[3] = 0x0f; /* 07644 */
    assert_int_equal(read_one(buf, sizeof buf, &record), 1);
    assert_int_equal(record.mode, 03644);
}

static void file__impossible_time_or_size__is_refused(void **state)
{
    struct cp_record record;
    uint8_t buf[sizeof file_octets];

    (void)state;
    memcpy(buf, file_octets, sizeof buf);
    buf[13] = 0x3c; /* more than 10^9 ns */
    assert_int_equal(read_one(buf, sizeof buf, &record), -1);
    memcpy(buf, file_octets, sizeof buf);
    buf[17] = 0x80; /* size 2^63 */
    assert_int_equal(read_one(buf, sizeof buf, &record), -1);
}

static void name__unusable__is_refused(void **state)
{
    static const struct {
        const char *name;
        size_t len;
    } names[] = {{"", 0},     {".", 1},    {"..", 2}, {"/", 1},  {"a/b", 3},         {"../x", 4},
                 {"/etc", 4}, {"a\0b", 3}, {"\0", 1}, {"x/", 2}, {".iwarp-cp.x", 11}};
    struct cp_record record;
    uint8_t buf[64];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t fixed = sizeof file_octets - 4;
        memcpy(buf, file_octets, sizeof file_octets);
        buf[fixed] = (uint8_t)names[i].len;
        memcpy(buf + fixed + 1, names[i].name, names[i].len);
        assert_int_equal(read_one(buf, fixed + 1 + names[i].len, &record), -1);
    }
}

static void name__odd_but_usable__passes(void **state)
{
    static const char *const names[] = {"...",      "-rf", " ",         "a\nb",
                                        "\xff\xfe", "*",   ".iwarp-cp", "~"};
    uint8_t buf[CP_RECORD_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct cp_record record = {.type = CP_RECORD_DIRECTORY}, back;
        struct cp_writer writer = {buf, sizeof buf, false};
        strcpy(record.name, names[i]);
        cp_record_write(&writer, &record);
        assert_int_equal(read_one(buf, sizeof buf - writer.left, &back), 1);
        assert_string_equal(back.name, names[i]);
    }
}

static void name__of_255_octets__passes_and_is_the_largest(void **state)
{
    struct cp_record record = {.type = CP_RECORD_FILE}, back;
    uint8_t buf[CP_RECORD_MAX + 1];
    struct cp_writer writer = {buf, CP_RECORD_MAX, false};

    (void)state;
    memset(record.name, 'n', CP_NAME_MAX);
    cp_record_write(&writer, &record);
    assert_false(writer.full);
    assert_int_equal(writer.left, 0);
    assert_int_equal(read_one(buf, CP_RECORD_MAX, &back), 1);
    assert_string_equal(back.name, record.name);
    buf[26]++; /* one octet more */
    buf[25] = 1;
    buf[26] = 0;
    assert_int_equal(read_one(buf, sizeof buf, &back), -1);
}

static void other_records__written__read_back(void **state)
{
    struct cp_record records[] = {
        {.type = CP_RECORD_DATA, .data_len = 0xfffffffe},
        {.type = CP_RECORD_END},
        {.type = CP_RECORD_END, .digest_len = CP_DIGEST_LEN, .digest = {1, 2, 3}},
        {.type = CP_RECORD_ABORT, .result = {CP_CHANGED, 0}},
        {.type = CP_RECORD_LEAVE},
        {.type = CP_RECORD_SKIP, .name = ".iwarp-cp.1", .result = {CP_RESERVED, 0}},
        {.type = CP_RECORD_SKIP, .name = "link", .result = {CP_IS_LINK, 40}},
    };
    size_t count = sizeof records / sizeof records[0];
    uint8_t buf[256];
    struct cp_writer writer = {buf, sizeof buf, false};
    struct cp_record back = {0};

    (void)state;
    for (size_t i = 0; i < count; i++) {
        cp_record_write(&writer, &records[i]);
    }
    struct cp_reader reader = {buf, sizeof buf - writer.left, false};
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(cp_record_read(&reader, &back), 1);
        assert_int_equal(back.type, records[i].type);
        if (back.type == CP_RECORD_DATA) {
            assert_int_equal(back.data_len, records[i].data_len);
        } else if (back.type == CP_RECORD_END) {
            assert_int_equal(back.digest_len, records[i].digest_len);
            assert_memory_equal(back.digest, records[i].digest, back.digest_len);
        } else if (back.type != CP_RECORD_LEAVE) {
            assert_int_equal(back.result.status, records[i].result.status);
            assert_int_equal(back.result.system_errno, records[i].result.system_errno);
        }
    }
    assert_string_equal(back.name, "link");
    assert_int_equal(cp_record_read(&reader, &back), 0);
}

static void type_or_digest__unknown__is_refused(void **state)
{
    static const uint8_t zero[] = {0}, beyond[] = {CP_RECORD_SKIP + 1};
    static const uint8_t digest[34] = {CP_RECORD_END, 31},
                         aborted_ok[] = {CP_RECORD_ABORT, 0, 0, 0, 0};
    struct cp_record record;

    (void)state;
    assert_int_equal(read_one(zero, 1, &record), -1);
    assert_int_equal(read_one(beyond, 1, &record), -1);
    assert_int_equal(read_one(digest, sizeof digest, &record), -1);
    assert_int_equal(read_one(aborted_ok, sizeof aborted_ok, &record), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file__read__gives_the_fields),
        cmocka_unit_test(file__written__is_literal_octets),
        cmocka_unit_test(file__cut_anywhere__is_refused),
        cmocka_unit_test(file__setuid_bits__are_dropped),
        cmocka_unit_test(directory__setuid_bit__is_dropped_alone),
        cmocka_unit_test(file__impossible_time_or_size__is_refused),
        cmocka_unit_test(name__unusable__is_refused),
        cmocka_unit_test(name__odd_but_usable__passes),
        cmocka_unit_test(name__of_255_octets__passes_and_is_the_largest),
        cmocka_unit_test(other_records__written__read_back),
        cmocka_unit_test(type_or_digest__unknown__is_refused),
    };

    return cmocka_run_group_tests_name("cp_record", tests, NULL, NULL);
}
