/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * capture/pcapng: blocks as literal octets.
 */
#include "capture/pcapng.h"

#include "octets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void expect(const uint8_t *p, size_t n, const char *hex)
{
    struct octets expected = {0};

    octets_hex(&expected, hex);
    octets_expect("blocks", p, n, expected.p, expected.n);
    octets_free(&expected);
}

static void start__texts__are_options_of_section_and_interface(void **state)
{
    uint8_t to[IWARP_PCAPNG_START_MAX];

    (void)state;
    size_t n = iwarp_pcapng_put_start(to, "hi", "app", "if0");
    expect(to, n,
           "0a0d0d0a 30000000 4d3c2b1a 01000000 ffffffffffffffff"
           "01000200 68690000 04000300 61707000 00000000 30000000"
           "01000000 28000000 01000000 00000000"
           "02000300 69663000 09000100 09000000 00000000 28000000");
}

static void start__longest_texts__fit_and_are_cut(void **state)
{
    char text[IWARP_PCAPNG_TEXT_MAX + 100];
    uint8_t to[IWARP_PCAPNG_START_MAX + 1];

    (void)state;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    to[IWARP_PCAPNG_START_MAX] = 0x5a;
    assert_true(iwarp_pcapng_put_start(to, text, text, text) <= IWARP_PCAPNG_START_MAX);
    assert_int_equal(to[IWARP_PCAPNG_START_MAX], 0x5a);
}

/* Head, "hello" as far as it goes, tail. */
static void expect_packet(const struct iwarp_pcapng_packet *p, const char *hex)
{
    uint8_t to[IWARP_PCAPNG_HEAD + 8 + IWARP_PCAPNG_TAIL_MAX];

    iwarp_pcapng_put_head(to, p);
    memcpy(to + IWARP_PCAPNG_HEAD, "hello!!!", p->captured);
    size_t n = IWARP_PCAPNG_HEAD + p->captured;
    n += iwarp_pcapng_put_tail(to + n, p);
    assert_int_equal(n, iwarp_pcapng_size(p));
    expect(to, n, hex);
}

static void packet__with_comment__is_padded_and_flagged(void **state)
{
    (void)state;
    expect_packet(&(struct iwarp_pcapng_packet){.ns = 0x0102030405060708,
                                                .captured = 5,
                                                .original = 9,
                                                .inbound = true,
                                                .comment = "QP 1"},
                  "06000000 3c000000 00000000 04030201 08070605 05000000 09000000"
                  "68656c6c 6f000000 01000400 51502031 02000400 01000000 00000000 3c000000");
}

static void packet__without_comment__has_its_direction_only(void **state)
{
    (void)state;
    expect_packet(&(struct iwarp_pcapng_packet){.ns = 1, .captured = 8, .original = 8},
                  "06000000 34000000 00000000 00000000 01000000 08000000 08000000"
                  "68656c6c 6f212121 02000400 02000000 00000000 34000000");
}

static void packet__longest_comment__fits_the_tail(void **state)
{
    char text[IWARP_PCAPNG_TEXT_MAX + 100];
    uint8_t to[IWARP_PCAPNG_TAIL_MAX + 1];

    (void)state;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    to[IWARP_PCAPNG_TAIL_MAX] = 0x5a;
    const struct iwarp_pcapng_packet p = {.captured = 1, .original = 1, .comment = text};
    assert_int_equal(iwarp_pcapng_put_tail(to, &p), IWARP_PCAPNG_TAIL_MAX - 4);
    assert_int_equal(iwarp_pcapng_size(&p), IWARP_PCAPNG_HEAD + 1 + IWARP_PCAPNG_TAIL_MAX - 4);
    assert_int_equal(to[IWARP_PCAPNG_TAIL_MAX], 0x5a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start__texts__are_options_of_section_and_interface),
        cmocka_unit_test(start__longest_texts__fit_and_are_cut),
        cmocka_unit_test(packet__with_comment__is_padded_and_flagged),
        cmocka_unit_test(packet__without_comment__has_its_direction_only),
        cmocka_unit_test(packet__longest_comment__fits_the_tail),
    };

    return cmocka_run_group_tests_name("pcapng", tests, NULL, NULL);
}
