/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses and URLs of iwarp-cp: what is accepted means exactly one thing, what could be misread
 * is refused with a sentence.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "programs/cp/url.h"

static void url__well_formed__is_split(void **state)
{
    static const struct {
        const char *text, *host, *port, *name;
    } cases[] = {
        {"iwarp://host/name", "host", "7475", "name"},
        {"iwarp://host", "host", "7475", ""},
        {"iwarp://host/", "host", "7475", ""},
        {"iwarp://host:1/a/b/", "host", "1", "a/b/"},
        {"iwarp://127.0.0.1:65535//a", "127.0.0.1", "65535", "a"},
        {"iwarp://[::1]/x", "::1", "7475", "x"},
        {"iwarp://[fe80::1%eth0]:07475/x", "fe80::1%eth0", "7475", "x"},
        {"iwarp://h/a%20b%2f%25", "h", "7475", "a b/%"},
        {"iwarp://h//%2F%2fa%2f", "h", "7475", "a/"},
        {"iwarp://h/%C3%a9%ff", "h", "7475", "\xc3\xa9\xff"},
        {"iwarp://h/a?b#c d", "h", "7475", "a?b#c d"},
        {"iwarp://h/../etc", "h", "7475", "../etc"}, /* refused by the server, not here */
    };
    struct cp_url url;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_null(cp_url_parse(cases[i].text, &url));
        assert_string_equal(url.address.host, cases[i].host);
        assert_string_equal(url.address.port, cases[i].port);
        assert_string_equal(url.name, cases[i].name);
    }
}

static void url__malformed__is_refused_with_a_sentence(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"http://h/x", "begin with iwarp://"},
        {"iwarp:/h/x", "begin with iwarp://"},
        {"iwarp:///x", "host is missing"},
        {"iwarp://:1/x", "host is missing"},
        {"iwarp://h:/x", "port"},
        {"iwarp://h:65536/x", "port"},
        {"iwarp://h:-1/x", "port"},
        {"iwarp://h:7475a/x", "port"},
        {"iwarp://h:0/x", "port 0"},
        {"iwarp://h:999999999999/x", "port"},
        {"iwarp://::1/x", "brackets"},
        {"iwarp://[::1/x", "no ]"},
        {"iwarp://[::1]7/x", "]"},
        {"iwarp://h/%", "%25"},
        {"iwarp://h/%4", "%25"},
        {"iwarp://h/%g0", "%25"},
        {"iwarp://h/a%00b", "%00"},
    };
    struct cp_url url;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *why = cp_url_parse(cases[i].text, &url);
        assert_non_null(why);
        assert_non_null(strstr(why, cases[i].why));
    }
}

static void url__too_long__is_refused(void **state)
{
    static char text[2 * CP_PATH_MAX];
    struct cp_url url;

    (void)state;
    snprintf(text, sizeof text, "iwarp://h/%0*d", CP_PATH_MAX - 1, 0);
    assert_null(cp_url_parse(text, &url));
    assert_int_equal(strlen(url.name), CP_PATH_MAX - 1);
    snprintf(text, sizeof text, "iwarp://h/%0*d", CP_PATH_MAX, 0);
    assert_string_equal(cp_url_parse(text, &url), "the name is too long");
    snprintf(text, sizeof text, "iwarp://%0*d/x", CP_HOST_MAX, 0);
    assert_string_equal(cp_url_parse(text, &url), "the host name is too long");
}

static void address__without_host__is_every_address(void **state)
{
    struct cp_address address;

    (void)state;
    assert_null(cp_address_parse(":80", 3, &address));
    assert_string_equal(address.host, "");
    assert_string_equal(address.port, "80");
}

static void address__formatted__reads_back(void **state)
{
    static const char *const texts[] = {"127.0.0.1:1", "[::1]:7475", "localhost:65535"};
    struct cp_address address;
    char text[64];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_null(cp_address_parse(texts[i], strlen(texts[i]), &address));
        cp_address_format(&address, text, sizeof text);
        assert_string_equal(text, texts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(url__well_formed__is_split),
        cmocka_unit_test(url__malformed__is_refused_with_a_sentence),
        cmocka_unit_test(url__too_long__is_refused),
        cmocka_unit_test(address__without_host__is_every_address),
        cmocka_unit_test(address__formatted__reads_back),
    };

    return cmocka_run_group_tests_name("cp_url", tests, NULL, NULL);
}
