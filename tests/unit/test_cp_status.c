/* SPDX-License-Identifier: BSD-2-Clause */
/* Results: the row of an errno, the sentence of a row. The numbers travel and must not change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "programs/cp/status.h"

static void errno__known__has_its_row_and_is_kept(void **state)
{
    static const struct {
        int error;
        enum cp_status status;
    } cases[] = {{0, CP_OK},
                 {ENOENT, CP_NOT_FOUND},
                 {EACCES, CP_DENIED},
                 {EPERM, CP_DENIED},
                 {ENOSPC, CP_NO_SPACE},
                 {EDQUOT, CP_QUOTA},
                 {EROFS, CP_READ_ONLY_DISK},
                 {EISDIR, CP_IS_DIRECTORY},
                 {ENOTDIR, CP_NOT_DIRECTORY},
                 {EXDEV, CP_OUTSIDE},
                 {ELOOP, CP_IS_LINK},
                 {ENAMETOOLONG, CP_LONG_NAME},
                 {EFBIG, CP_TOO_BIG},
                 {EIO, CP_IO},
                 {ENOMEM, CP_NO_MEMORY},
                 {EMFILE, CP_SYSTEM}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cp_result result = cp_result_from_errno(cases[i].error);
        assert_int_equal(result.status, cases[i].status);
        assert_int_equal(result.system_errno, cases[i].error);
    }
}

static void text__of_every_row__is_a_sentence_with_a_hint(void **state)
{
    (void)state;
    for (int i = 0; i < CP_STATUS_COUNT; i++) {
        struct cp_result result = cp_result_of((enum cp_status)i);
        assert_true(strlen(cp_result_text(result)) > 3);
        for (int at_server = 0; at_server < 2; at_server++) {
            assert_true(strlen(cp_result_hint(result, at_server)) > 3);
        }
        assert_null(strchr(cp_result_text(result), '\n'));
    }
    assert_string_equal(cp_result_text((struct cp_result){CP_SYSTEM, EMFILE}), strerror(EMFILE));
    /* of a peer that tells no reason: "Success" would be none, either */
    assert_string_not_equal(cp_result_text(cp_result_of(CP_SYSTEM)), strerror(0));
    assert_string_equal(cp_result_text(cp_result_of(CP_NO_SPACE)), "the disk is full");
}

/* iwarp-cp ls shows what is at the server, and nothing else. */
static void hint__about_a_file_here__does_not_send_to_the_server(void **state)
{
    struct cp_result missing = cp_result_from_errno(ENOENT);

    (void)state;
    assert_non_null(strstr(cp_result_hint(missing, true), "iwarp-cp ls"));
    for (int i = 0; i < CP_STATUS_COUNT; i++) {
        assert_null(strstr(cp_result_hint(cp_result_of((enum cp_status)i), false), "iwarp-cp ls"));
    }
}

static void special__of_each_kind__says_what_it_is(void **state)
{
    static const struct {
        mode_t mode;
        enum cp_status status;
        const char *word;
    } cases[] = {
        {S_IFIFO, CP_IS_FIFO, "FIFO"},     {S_IFSOCK, CP_IS_SOCKET, "socket"},
        {S_IFCHR, CP_IS_DEVICE, "device"}, {S_IFBLK, CP_IS_DEVICE, "device"},
        {0, CP_IS_SPECIAL, "neither"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cp_result result = cp_result_of_special(cases[i].mode | 0600);
        assert_int_equal(result.status, cases[i].status);
        assert_non_null(strstr(cp_result_text(result), cases[i].word));
        assert_true(cp_result_is_left_out(result));
    }
    assert_true(cp_result_is_left_out(cp_result_of(CP_IS_LINK)));
    assert_true(cp_result_is_left_out(cp_result_of(CP_RESERVED)));
    assert_false(cp_result_is_left_out(cp_result_of(CP_OK)));
    assert_false(cp_result_is_left_out(cp_result_of(CP_DENIED)));
    assert_false(cp_result_is_left_out(cp_result_of(CP_TOO_DEEP)));
}

static void numbers__on_the_wire__stay(void **state)
{
    (void)state;
    assert_int_equal(CP_OK, 0);
    assert_int_equal(CP_SYSTEM, 1);
    assert_int_equal(CP_NO_SPACE, 4);
    assert_int_equal(CP_IS_LINK, 11);
    assert_int_equal(CP_CHECKSUM, 16);
    assert_int_equal(CP_BUSY, 21);
    assert_int_equal(CP_MALFORMED, 24);
    assert_int_equal(CP_STOPPED, 28);
    assert_int_equal(CP_IS_FIFO, 29);
    assert_int_equal(CP_RESERVED, 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errno__known__has_its_row_and_is_kept),
        cmocka_unit_test(text__of_every_row__is_a_sentence_with_a_hint),
        cmocka_unit_test(hint__about_a_file_here__does_not_send_to_the_server),
        cmocka_unit_test(special__of_each_kind__says_what_it_is),
        cmocka_unit_test(numbers__on_the_wire__stay),
    };

    return cmocka_run_group_tests_name("cp_status", tests, NULL, NULL);
}
