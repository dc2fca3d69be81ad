/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JSON as iwarp-nvmf reads it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "programs/nvmf/json.h"

static char *text; /* of the value that was read last; of its exact size, for AddressSanitizer */

static struct nvmf_json *read_text(const char *json, unsigned *line)
{
    const char *why;
    struct nvmf_json *value;

    free(text);
    text = strdup(json);
    value = nvmf_json_read(text, &why, line);
    assert_true((value == NULL) == (why != NULL));
    return value;
}

static void read__all_kinds_of_values__are_there(void **state)
{
    unsigned line;
    struct nvmf_json *v =
        read_text(" {\"a\" : [1, 18446744073709551615 ,0],\n\"b\":{}, \"c\":[ ], \"\":\"x\", "
                  "\"t\":true,\"f\":false,\"n\":null}\r\n",
                  &line);
    const struct nvmf_json *one = v->first;

    (void)state;
    assert_int_equal(v->type, NVMF_JSON_OBJECT);
    assert_string_equal(one->name, "a");
    assert_int_equal(one->type, NVMF_JSON_ARRAY);
    assert_int_equal(one->first->number, 1);
    assert_true(one->first->next->number == UINT64_MAX);
    assert_int_equal(one->first->next->next->number, 0);
    assert_null(one->first->next->next->next);
    one = one->next;
    assert_int_equal(one->type, NVMF_JSON_OBJECT);
    assert_int_equal(one->line, 2);
    assert_null(one->first);
    one = one->next->next;
    assert_string_equal(one->name, "");
    assert_string_equal(one->text, "x");
    one = one->next;
    assert_true(one->type == NVMF_JSON_BOOL && one->number == 1);
    one = one->next;
    assert_true(one->type == NVMF_JSON_BOOL && one->number == 0);
    assert_int_equal(one->next->type, NVMF_JSON_NULL);
    assert_null(one->next->next);
    nvmf_json_free(v);
}

static void read__texts__are_unescaped(void **state)
{
    static const struct {
        const char *json, *means; /* NULL: is refused */
    } cases[] = {
        {"\"\"", ""},
        {"\"a\\\"\\\\\\/\\b\\f\\n\\r\\tz\"", "a\"\\/\b\f\n\r\tz"},
        {"\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac"},
        {"\"\xc3\xa9\"", "\xc3\xa9"},
        {"\"\\u0000\"", NULL}, /* would end the text */
        {"\"\\ud83d\\ude00\"", NULL},
        {"\"\\u00g1\"", NULL},
        {"\"\\u00", NULL},
        {"\"\\x41\"", NULL},
        {"\"\\", NULL},
        {"\"a", NULL},
        {"\"a\nb\"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned line;
        struct nvmf_json *v = read_text(cases[i].json, &line);
        assert_int_equal(v != NULL, cases[i].means != NULL);
        if (v) {
            assert_string_equal(v->text, cases[i].means);
        }
        nvmf_json_free(v);
    }
}

static void read__what_is_no_json__is_refused_with_its_line(void **state)
{
    static const struct {
        const char *json;
        unsigned line;
    } cases[] = {
        {"", 1},
        {" ", 1},
        {"[1,]", 1},
        {"[1 2]", 1},
        {"[\n1\n", 3},
        {"{\"a\" 1}", 1},
        {"{\"a\":}", 1},
        {"{a:1}", 1},
        {"{\"a\":1,}", 1},
        {"{\"a\":1\n\n]", 3},
        {"01", 1},
        {"-1", 1},
        {"1.5", 1},
        {"1e3", 1},
        {"tru", 1},
        {"nul", 1},
        {"1 1", 1},
        {"[] []", 1},
        {"18446744073709551616", 1},
        {"]", 1},
        {"// x\n1", 1},
        {"{\"a\"", 1},
        {"{", 1},
        {"{\"a\":1}\n}", 2},
    };
    char deep[80];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned line = 0;
        assert_null(read_text(cases[i].json, &line));
        assert_int_equal(line, cases[i].line);
    }
    for (size_t depth = 30; depth < 40; depth++) {
        unsigned line;
        memset(deep, '[', depth);
        memset(deep + depth, ']', depth);
        deep[2 * depth] = '\0';
        struct nvmf_json *v = read_text(deep, &line);
        assert_int_equal(v != NULL, depth <= 32);
        nvmf_json_free(v);
    }
}

/* Each beginning of a right text is wrong, and no octet behind it is read. */
static void read__cut_anywhere__is_refused(void **state)
{
    static const char whole[] = "{\"a\":[1,\"\\u0041\\n\"],\"b\":{\"c\":true}}";
    unsigned line;

    (void)state;
    for (size_t len = 0; len + 1 < sizeof whole; len++) {
        char *part = strndup(whole, len);
        assert_null(read_text(part, &line));
        free(part);
    }
    nvmf_json_free(read_text(whole, &line));
    free(text);
    text = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read__all_kinds_of_values__are_there),
        cmocka_unit_test(read__texts__are_unescaped),
        cmocka_unit_test(read__what_is_no_json__is_refused_with_its_line),
        cmocka_unit_test(read__cut_anywhere__is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
