/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses with ports, as texts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "programs/service/address.h"

static void address__all_forms__are_understood(void **state)
{
    struct sockaddr_storage addr;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&addr;
    struct sockaddr_in *v4 = (struct sockaddr_in *)&addr;
    socklen_t len;

    (void)state;
    assert_true(address_parse("10.0.0.1", 4420, &addr, &len));
    assert_int_equal(ntohs(v4->sin_port), 4420);
    assert_true(address_parse("10.0.0.1:0", 4420, &addr, &len));
    assert_int_equal(v4->sin_port, 0);
    assert_true(address_parse("[::1]:5", 4420, &addr, &len));
    assert_int_equal(ntohs(v6->sin6_port), 5);
    assert_true(address_parse("::1", 4420, &addr, &len));
    assert_int_equal(ntohs(v6->sin6_port), 4420);
    assert_int_equal(len, sizeof *v6);
    assert_false(address_parse("[::1", 4420, &addr, &len));
    assert_false(address_parse("[::1]5", 4420, &addr, &len));
    assert_false(address_parse("10.0.0.1:", 4420, &addr, &len));
    assert_false(address_parse("", 4420, &addr, &len));
    assert_false(address_parse("10.0.0.1:65536", 4420, &addr, &len));
    assert_false(address_parse("host:1", 4420, &addr, &len));
}

static void address__as_text__is_what_it_was_read_from(void **state)
{
    static const char *const texts[] = {"192.0.2.1:4420", "[2001:db8::1]:1", "[::1]:65535",
                                        "[1111:2222:3333:4444:5555:6666:7777:8888]:65535"};
    char text[ADDRESS_TEXT_MAX], host[INET6_ADDRSTRLEN];
    struct sockaddr_storage addr;
    socklen_t len;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_true(address_parse(texts[i], 0, &addr, &len));
        address_text(&addr, text);
        assert_string_equal(text, texts[i]);
    }
    assert_int_equal(address_split(&addr, host), 65535);
    assert_string_equal(host, "1111:2222:3333:4444:5555:6666:7777:8888");
    addr.ss_family = AF_UNIX;
    address_text(&addr, text);
    assert_string_equal(text, "?:0");
}

static void address__of_loopback__is_told_apart(void **state)
{
    static const struct {
        const char *text;
        bool loopback;
    } cases[] = {{"127.9.0.1", true}, {"::1", true}, {"128.0.0.1", false}, {"::2", false}};
    struct sockaddr_storage addr;
    socklen_t len;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(address_parse(cases[i].text, 1, &addr, &len));
        assert_int_equal(address_is_loopback(&addr), cases[i].loopback);
    }
}

static void address__of_one_machine__has_one_owner(void **state)
{
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {{"192.0.2.1", "192.0.2.2", false},
                 {"192.0.2.1", "::ffff:192.0.2.1", true},
                 {"::ffff:192.0.2.1", "::ffff:192.0.2.2", false},
                 {"64:ff9b::192.0.2.1", "64:ff9b::192.0.2.2", false},
                 {"fe80::1", "fe80::2", false},
                 {"2001:db8::1", "2001:db8::2:3:4:5", true},
                 {"2001:db8::1", "2001:db8:0:1::1", false}};
    struct sockaddr_storage addr;
    uint8_t a[ADDRESS_OWNER_LEN], b[ADDRESS_OWNER_LEN];
    socklen_t len;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(address_parse(cases[i].a, 1, &addr, &len));
        address_owner(&addr, a);
        assert_true(address_parse(cases[i].b, 2, &addr, &len));
        address_owner(&addr, b);
        assert_int_equal(memcmp(a, b, sizeof a) == 0, cases[i].same);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address__all_forms__are_understood),
        cmocka_unit_test(address__as_text__is_what_it_was_read_from),
        cmocka_unit_test(address__of_loopback__is_told_apart),
        cmocka_unit_test(address__of_one_machine__has_one_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
