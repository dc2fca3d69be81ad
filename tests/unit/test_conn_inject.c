/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs/conn_inject: FPDUs are followed by their length fields, in pieces of every size, without
 * and with markers. What then happens to a connection: tests/e2e/test_injected.c. RFC 5044 4.
 */
#include "verbs/inject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { NONE = 100000 };

/* Over n octets in pieces: where the octets were found, NONE if nowhere. */
static void follow(uint8_t *octets, size_t n, size_t piece, bool markers, uint64_t number,
                   uint64_t *wrong, uint64_t *lose)
{
    const struct iwarp_inject wanted = {.crc = number, .lose_fpdu = number};
    struct iwarp_inject_track t = {.fpdus = 1};

    *wrong = *lose = NONE;
    for (size_t at = 0; at < n; at += piece) {
        size_t len = n - at < piece ? n - at : piece;
        struct iovec iov[3] = {{octets + at, len / 3},
                               {octets + at + len / 3, 0},
                               {octets + at + len / 3, len - len / 3}};
        uint64_t w = NONE, l = NONE;
        iwarp_inject_follow(&t, iov, len, markers, &wanted, &w, &l);
        assert_int_equal(t.at, at + len);
        if (w != NONE) {
            assert_int_equal(*wrong, NONE); /* once */
            assert_in_range(w, at, at + len - 1);
            *wrong = w;
        }
        if (l != NONE) {
            assert_int_equal(*lose, NONE);
            assert_in_range(l, at, at + len - 1);
            *lose = l;
        }
    }
}

static void expect(uint8_t *octets, size_t n, bool markers, uint64_t number, uint64_t begins,
                   uint64_t ends)
{
    uint64_t wrong, lose;

    for (size_t piece = 1; piece <= n; piece++) {
        follow(octets, n, piece, markers, number, &wrong, &lose);
        assert_int_equal(lose, begins);
        assert_int_equal(wrong, ends);
    }
}

/* Of 18, 21 and 256 octets: 24, 28 (one of padding) and 264 with length field, padding and CRC. */
static void fpdus__without_markers__are_found_in_all_pieces(void **state)
{
    uint8_t octets[400];

    (void)state;
    memset(octets, 0xee, sizeof octets);
    memcpy(octets, "\x00\x12", 2);
    memcpy(octets + 24, "\x00\x15", 2);
    memcpy(octets + 52, "\x01\x00", 2);
    memcpy(octets + 316, "\x40\x00", 2); /* a large one, not whole */
    expect(octets, sizeof octets, false, 1, 0, 23);
    expect(octets, sizeof octets, false, 2, 24, 51);
    expect(octets, sizeof octets, false, 3, 52, 315);
    expect(octets, sizeof octets, false, 4, 316, NONE);
    expect(octets, sizeof octets, false, 5, NONE, NONE);
}

/* A marker before the first; the second, of 600 octets, has one at 512; the fourth begins with one.
 */
static void fpdus__with_markers__are_found_in_all_pieces(void **state)
{
    uint8_t octets[1100];

    (void)state;
    memset(octets, 0xee, sizeof octets);
    memcpy(octets + 4, "\x00\x12", 2);   /* 24 and a marker */
    memcpy(octets + 28, "\x02\x58", 2);  /* 608 and a marker */
    memcpy(octets + 640, "\x01\x7a", 2); /* 384, up to 1024 */
    memcpy(octets + 1028, "\x00\x12", 2);
    expect(octets, sizeof octets, true, 1, 0, 27);
    expect(octets, sizeof octets, true, 2, 28, 639);
    expect(octets, sizeof octets, true, 3, 640, 1023);
    expect(octets, sizeof octets, true, 4, 1024, 1051);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fpdus__without_markers__are_found_in_all_pieces),
        cmocka_unit_test(fpdus__with_markers__are_found_in_all_pieces),
    };

    return cmocka_run_group_tests_name("conn_inject", tests, NULL, NULL);
}
