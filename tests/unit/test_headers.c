/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * capture/headers: made-up headers as literal octets; the checksums were computed by hand, RFC
 * 1071.
 */
#include "capture/headers.h"

#include "octets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct iwarp_headers_addr v4[2] = {{.port = 0x1234, .ip = {10, 0, 0, 1}},
                                                {.port = 0x5678, .ip = {10, 0, 0, 2}}};
static const struct iwarp_headers_addr v6[2] = {{true, 0x1234, {0x20, 0x01, 0x0d, 0xb8, [15] = 1}},
                                                {true, 0x5678, {0x20, 0x01, 0x0d, 0xb8, [15] = 2}}};

static void expect(const struct iwarp_headers *h, const char *payload, const char *hex)
{
    uint8_t to[1 + IWARP_HEADERS_MAX + 16];
    uint8_t *end = to + 1 + IWARP_HEADERS_MAX;
    struct octets expected = {0};

    memset(to, 0x5a, sizeof to);
    memcpy(end, payload, strlen(payload));
    size_t n = iwarp_headers_put(end, h, strlen(payload));
    assert_int_equal(n, iwarp_headers_size(h));
    assert_int_equal(end[-(ptrdiff_t)n - 1], 0x5a);
    octets_hex(&expected, hex);
    octets_expect("headers", end - n, n + strlen(payload), expected.p, expected.n);
    octets_free(&expected);
}

static void headers__ipv4_with_odd_payload__are_these_octets(void **state)
{
    (void)state;
    expect(&(struct iwarp_headers){&v4[0], &v4[1], 0, IWARP_TCP_PSH | IWARP_TCP_ACK, 0x11223344,
                                   0x55667788},
           "hello",
           "020000000002 020000000001 0800"
           "4500002d 00004000 400626c9 0a000001 0a000002"
           "12345678 11223344 55667788 5018ffff ddf10000 68656c6c 6f");
}

static void headers__ipv6_syn__has_segment_size_and_window_scale(void **state)
{
    (void)state;
    expect(&(struct iwarp_headers){&v6[0], &v6[1], 0, IWARP_TCP_SYN, 0xffffffff, 0}, "",
           "020000000002 020000000001 86dd"
           "60000000 001c0640 20010db8 00000000 00000000 00000001 20010db8 00000000 00000000 "
           "00000002"
           "12345678 ffffffff 00000000 7002ffff c7bb0000 0204fde8 0103030e");
}

static void headers__of_the_other_side__go_back(void **state)
{
    uint8_t to[IWARP_HEADERS_MAX];
    const struct iwarp_headers h = {&v4[1], &v4[0], 1, IWARP_TCP_ACK, 1, 2};

    (void)state;
    size_t n = iwarp_headers_put(to + sizeof to, &h, 0);
    const uint8_t *p = to + sizeof to - n;
    assert_memory_equal(p, "\x02\0\0\0\0\x01\x02\0\0\0\0\x02", 12);
    assert_memory_equal(p + 14 + 12, "\x0a\0\0\x02\x0a\0\0\x01\x56\x78\x12\x34", 12);
}

/* The longest payload: lengths of IP and sums do not overflow. */
static void headers__longest_payload__keep_their_lengths(void **state)
{
    static uint8_t to[IWARP_HEADERS_MAX + 65000];
    const struct iwarp_headers h = {&v4[0], &v4[1], 0, IWARP_TCP_ACK, 0, 0};

    (void)state;
    memset(to, 0xff, sizeof to);
    size_t n = iwarp_headers_put(to + IWARP_HEADERS_MAX, &h, 65000);
    const uint8_t *ip = to + IWARP_HEADERS_MAX - n + 14;
    assert_int_equal(ip[2] << 8 | ip[3], 65040);
    assert_false(ip[36] == 0xff && ip[37] == 0xff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers__ipv4_with_odd_payload__are_these_octets),
        cmocka_unit_test(headers__ipv6_syn__has_segment_size_and_window_scale),
        cmocka_unit_test(headers__of_the_other_side__go_back),
        cmocka_unit_test(headers__longest_payload__keep_their_lengths),
    };

    return cmocka_run_group_tests_name("headers", tests, NULL, NULL);
}
