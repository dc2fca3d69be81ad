/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The networks of the option `allow` decide which peers are let in, so every edge of a prefix is
 * tried.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/network.h"

#include "iwarp/verbs.h"

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage storage = {0};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        memcpy(&storage, &v4, sizeof v4);
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
        memcpy(&storage, &v6, sizeof v6);
    }
    return storage;
}

static bool has(const char *network_text, const char *address_text)
{
    struct iwarp_networks *networks;
    struct sockaddr_storage storage = address(address_text);

    assert_int_equal(iwarp_networks_parse(network_text, &networks), IWARP_OK);
    bool in = iwarp_networks_have(networks, (struct sockaddr *)&storage);
    free(networks);
    return in;
}

static void network__edges_of_prefix__decide(void **state)
{
    (void)state;
    assert_true(has("192.0.2.0/24", "192.0.2.0"));
    assert_true(has("192.0.2.0/24", "192.0.2.255"));
    assert_false(has("192.0.2.0/24", "192.0.3.0"));
    assert_false(has("192.0.2.0/24", "192.0.1.255"));
    assert_true(has("192.0.2.128/25", "192.0.2.128"));
    assert_false(has("192.0.2.128/25", "192.0.2.127"));
    assert_true(has("192.0.2.7", "192.0.2.7"));
    assert_false(has("192.0.2.7/32", "192.0.2.6"));
    assert_true(has("0.0.0.0/0", "203.0.113.9"));
    assert_true(has("2001:db8::/33", "2001:db8:7fff::1"));
    assert_false(has("2001:db8::/33", "2001:db8:8000::1"));
    assert_true(has("::1", "::1"));
    assert_false(has("::1/128", "::2"));
}

static void network__families__do_not_mix(void **state)
{
    (void)state;
    assert_false(has("0.0.0.0/0", "2001:db8::1"));
    assert_false(has("::/0", "192.0.2.1"));
    assert_true(has("::/0", "2001:db8::1"));
}

static void network__mapped_client__is_its_ipv4_address(void **state)
{
    (void)state;
    assert_true(has("192.0.2.0/24", "::ffff:192.0.2.9"));
    assert_false(has("192.0.2.0/24", "::ffff:192.0.3.9"));
    assert_false(has("::/0", "::ffff:192.0.2.9"));
    assert_true(has("::ffff:192.0.2.0/120", "192.0.2.9"));
}

static void network__malformed__is_refused(void **state)
{
    static const char *const texts[] = {"x",
                                        ",",
                                        "192.0.2.0/24,",
                                        ",192.0.2.0/24",
                                        "192.0.2.0/24,,::1",
                                        "::1,x",
                                        "2001:0db8:0000:0000:0000:0000:192.168.100.100/128x",
                                        "192.0.2.0/",
                                        "192.0.2.0/33",
                                        "::/129",
                                        "192.0.2.0/-1",
                                        "192.0.2.1/24",
                                        "192.0.2",
                                        "::1/64",
                                        "192.0.2.0/a",
                                        "192.0.2.0/0024",
                                        " 192.0.2.0",
                                        "192.0.2.0 /24"};
    struct iwarp_networks *networks;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(iwarp_networks_parse(texts[i], &networks), IWARP_MISUSE);
        assert_null(networks);
        assert_non_null(strstr(iwarp_last_error(), "is no network"));
    }
}

static void list__each__counts(void **state)
{
    struct iwarp_networks *networks;

    (void)state;
    assert_true(has("192.0.2.0/24,2001:db8::/32", "192.0.2.1"));
    assert_true(has("192.0.2.0/24,2001:db8::/32", "2001:db8::1"));
    assert_false(has("192.0.2.0/24,2001:db8::/32", "192.0.3.1"));
    assert_int_equal(iwarp_networks_parse("", &networks), IWARP_OK);
    assert_null(networks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(network__edges_of_prefix__decide),
        cmocka_unit_test(network__families__do_not_mix),
        cmocka_unit_test(network__mapped_client__is_its_ipv4_address),
        cmocka_unit_test(network__malformed__is_refused),
        cmocka_unit_test(list__each__counts),
    };

    return cmocka_run_group_tests_name("network", tests, NULL, NULL);
}
