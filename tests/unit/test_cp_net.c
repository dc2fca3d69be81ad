/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The networks of --allow and what counts as loopback: these decide which clients are let in, so
 * every edge of a prefix is tried.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <string.h>

#include "programs/cp/net.h"

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
    struct cp_network network;
    struct sockaddr_storage storage = address(address_text);

    assert_true(cp_network_parse(network_text, &network));
    return cp_network_has(&network, (struct sockaddr *)&storage);
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
    static const char *const texts[] = {"",
                                        "x",
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
    struct cp_network network;

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_false(cp_network_parse(texts[i], &network));
    }
}

static void loopback__is_recognised(void **state)
{
    static const struct {
        const char *text;
        bool loopback;
    } cases[] = {{"127.0.0.1", true},
                 {"127.255.255.254", true},
                 {"128.0.0.1", false},
                 {"0.0.0.0", false},
                 {"::1", true},
                 {"::", false},
                 {"::ffff:127.0.0.1", true},
                 {"::ffff:10.0.0.1", false},
                 {"::2", false}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sockaddr_storage storage = address(cases[i].text);
        assert_int_equal(cp_net_is_loopback((struct sockaddr *)&storage), cases[i].loopback);
    }
}

static void same_host__by_address_or_network__is_recognised(void **state)
{
    static const struct {
        const char *one, *other;
        bool same;
    } cases[] = {{"127.0.0.1", "127.0.0.1", true},
                 {"127.0.0.1", "127.0.0.2", false},
                 {"127.0.0.1", "::ffff:127.0.0.1", true},
                 {"::ffff:127.0.0.1", "::ffff:127.0.0.2", false},
                 {"2001:db8::1", "2001:db8::ffff:0:0:1", true},
                 {"2001:db8::1", "2001:db8:0:1::1", false},
                 {"::1", "127.0.0.1", false}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sockaddr_storage one = address(cases[i].one), other = address(cases[i].other);
        assert_int_equal(cp_net_is_same_host((struct sockaddr *)&one, (struct sockaddr *)&other),
                         cases[i].same);
        assert_int_equal(cp_net_is_same_host((struct sockaddr *)&other, (struct sockaddr *)&one),
                         cases[i].same);
    }
}

static void formatting__both_families__as_people_write_them(void **state)
{
    struct sockaddr_storage v4 = address("127.0.0.1"), v6 = address("::1");
    char text[64];

    (void)state;
    cp_net_format((struct sockaddr *)&v4, sizeof(struct sockaddr_in), text, sizeof text);
    assert_string_equal(text, "127.0.0.1:0");
    cp_net_format((struct sockaddr *)&v6, sizeof(struct sockaddr_in6), text, sizeof text);
    assert_string_equal(text, "[::1]:0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(network__edges_of_prefix__decide),
        cmocka_unit_test(network__families__do_not_mix),
        cmocka_unit_test(network__mapped_client__is_its_ipv4_address),
        cmocka_unit_test(network__malformed__is_refused),
        cmocka_unit_test(loopback__is_recognised),
        cmocka_unit_test(same_host__by_address_or_network__is_recognised),
        cmocka_unit_test(formatting__both_families__as_people_write_them),
    };

    return cmocka_run_group_tests_name("cp_net", tests, NULL, NULL);
}
