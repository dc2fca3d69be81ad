/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs/addr: addresses as text. */
#include "verbs/addr.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect_text(const struct iwarp_addr *addr, const char *expected)
{
    char text[IWARP_ADDR_TEXT];

    assert_ptr_equal(iwarp_addr_text(addr, text), text);
    assert_string_equal(text, expected);
}

static void text__of_ipv4(void **state)
{
    (void)state;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(65535)};
    struct iwarp_addr addr;
    inet_pton(AF_INET, "192.0.2.200", &in.sin_addr);
    iwarp_addr_set(&addr, (const struct sockaddr *)&in, sizeof in);
    expect_text(&addr, "192.0.2.200:65535");
}

static void expect_text_of_ipv6(const char *host, uint16_t port, const char *expected)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct iwarp_addr addr;

    assert_int_equal(inet_pton(AF_INET6, host, &in6.sin6_addr), 1);
    iwarp_addr_set(&addr, (const struct sockaddr *)&in6, sizeof in6);
    expect_text(&addr, expected);
}

static void text__of_ipv6(void **state)
{
    (void)state;
    expect_text_of_ipv6("2001:db8::1", 7471, "[2001:db8::1]:7471");
}

/* The longest there is has its place. */
static void text__of_a_long_ipv6(void **state)
{
    (void)state;
    expect_text_of_ipv6("::ffff:255.255.255.255", 65535, "[::ffff:255.255.255.255]:65535");
    expect_text_of_ipv6("2001:db8:1111:2222:3333:4444:5555:6666", 65535,
                        "[2001:db8:1111:2222:3333:4444:5555:6666]:65535");
}

static void text__of_none(void **state)
{
    (void)state;
    expect_text(&(struct iwarp_addr){0}, "a peer without address");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text__of_ipv4),
        cmocka_unit_test(text__of_ipv6),
        cmocka_unit_test(text__of_a_long_ipv6),
        cmocka_unit_test(text__of_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
