/* SPDX-License-Identifier: BSD-2-Clause */
/* JSON strings from names with any octets. RFC 8259 7, RFC 3629 4. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "programs/cp/json.h"

static void check(const char *text, const char *expected)
{
    char buf[256];

    assert_int_equal(cp_json_string(text, buf, sizeof buf), strlen(expected));
    assert_string_equal(buf, expected);
}

static void string__plain__is_quoted(void **state)
{
    (void)state;
    check("", "\"\"");
    check("a b/c'~", "\"a b/c'~\"");
}

static void string__special_characters__are_escaped(void **state)
{
    (void)state;
    check("\"", "\"\\\"\"");
    check("\\", "\"\\\\\"");
    check("a\nb\tc\rd\be\ff", "\"a\\nb\\tc\\rd\\be\\ff\"");
    check("\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\"");
}

static void string__utf8__passes_through(void **state)
{
    (void)state;
    check("\xc3\xa9", "\"\xc3\xa9\"");
    check("\xe2\x82\xac", "\"\xe2\x82\xac\"");
    check("\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\"");
    check("\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\"");
}

/* Each octet that is not UTF-8 becomes a lone surrogate that stands for it. */
static void string__not_utf8__becomes_lone_surrogates(void **state)
{
    (void)state;
    check("\xff", "\"\\udcff\"");
    check("\x80x", "\"\\udc80x\"");
    check("\xc3", "\"\\udcc3\"");
    check("\xc0\xaf", "\"\\udcc0\\udcaf\"");                       /* overlong */
    check("\xed\xa0\x80", "\"\\udced\\udca0\\udc80\"");            /* a surrogate */
    check("\xf4\x90\x80\x80", "\"\\udcf4\\udc90\\udc80\\udc80\""); /* above U+10FFFF */
    check("\xe2\x82", "\"\\udce2\\udc82\"");                       /* cut */
    check("\xe2(\xac", "\"\\udce2(\\udcac\"");
}

static void string__too_long_for_buffer__is_cut_and_terminated(void **state)
{
    char buf[6];

    (void)state;
    memset(buf, 'x', sizeof buf);
    assert_int_equal(cp_json_string("abcdefgh", buf, sizeof buf), 10);
    assert_string_equal(buf, "\"abcd");
    assert_int_equal(cp_json_string("abc", buf, 0), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(string__plain__is_quoted),
        cmocka_unit_test(string__special_characters__are_escaped),
        cmocka_unit_test(string__utf8__passes_through),
        cmocka_unit_test(string__not_utf8__becomes_lone_surrogates),
        cmocka_unit_test(string__too_long_for_buffer__is_cut_and_terminated),
    };

    return cmocka_run_group_tests_name("cp_json", tests, NULL, NULL);
}
