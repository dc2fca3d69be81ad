/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA framing arithmetic against tables worked out by hand, and against the definitions of RFC 5044
 * 4.1 (padding) and 4.5 (MULPDU) over their whole range.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mpa/mpa_frame.h"

/* Lengths of real FPDUs: ULPDU, padding, the whole. RFC 5044 4.1. */
static void fpdu_len__known_ulpdus__matches(void **state)
{
    static const uint32_t row[][3] = {
        {14, 0, 20},       {15, 3, 24},       {16, 2, 24},     {17, 1, 24},       {18, 0, 24},
        {19, 3, 28},       {20, 2, 28},       {22, 0, 28},     {23, 3, 32},       {26, 0, 32},
        {38, 0, 44},       {46, 0, 52},       {70, 0, 76},     {0, 2, 8},         {1, 1, 8},
        {2, 0, 8},         {1038, 0, 1044},   {1442, 0, 1448}, {64765, 1, 64772}, {64766, 0, 64772},
        {64767, 3, 64776}, {64768, 2, 64776},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_int_equal(iwarp_mpa_pad(row[i][0]), row[i][1]);
        assert_int_equal(iwarp_mpa_fpdu_len(row[i][0]), row[i][2]);
    }
}

static void pad__every_length__is_the_least_that_aligns(void **state)
{
    (void)state;
    for (uint32_t len = 0; len <= IWARP_MPA_ULPDU_MAX; len++) {
        uint32_t pad = 0;
        while ((2 + len + pad) % 4 != 0) {
            pad++;
        }
        assert_int_equal(iwarp_mpa_pad(len), pad);
        assert_int_equal(iwarp_mpa_fpdu_len(len), 2 + len + pad + 4);
    }
}

/* EMSS, MULPDU without markers, with markers. RFC 5044 4.5. */
/* [MPA-4.5-01] [MPA-4.5-02] */
static void mulpdu__known_segment_sizes__matches(void **state)
{
    static const uint32_t row[][3] = {
        {128, 128, 128},    {536, 530, 522},    {1388, 1382, 1370}, {1448, 1442, 1430},
        {1460, 1454, 1442}, {4096, 4090, 4058}, {8948, 8942, 8870}, {65483, 64768, 64768},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_int_equal(iwarp_mpa_mulpdu(row[i][0], 0), row[i][1]);
        assert_int_equal(iwarp_mpa_mulpdu(row[i][0], 1), row[i][2]);
    }
}

/* Where the clamps begin and end: RFC 5044 3, 128 to 64768. */
/* [MPA-3-04] [MPA-4.5-05] [MPA-4.5-06] */
static void mulpdu__around_the_bounds__is_clamped(void **state)
{
    static const uint32_t row[][3] = {
        {0, 128, 128},         {1, 128, 128},           {134, 128, 128},
        {135, 128, 128},       {136, 130, 128},         {137, 130, 128},
        {139, 130, 128},       {140, 134, 130},         {64774, 64766, 64258},
        {64775, 64766, 64258}, {64776, 64768, 64262},   {64780, 64768, 64266},
        {65284, 64768, 64766}, {65287, 64768, 64766},   {65288, 64768, 64768},
        {65535, 64768, 64768}, {1000000, 64768, 64768}, {UINT32_MAX, 64768, 64768},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_int_equal(iwarp_mpa_mulpdu(row[i][0], 0), row[i][1]);
        assert_int_equal(iwarp_mpa_mulpdu(row[i][0], 1), row[i][2]);
    }
}

/* What the number is for: one FPDU of it fits one TCP segment wherever the first marker falls. */
static void mulpdu__every_segment_size__fits_it(void **state)
{
    (void)state;
    for (uint32_t emss = 144; emss <= 65535; emss++) {
        uint32_t plain = iwarp_mpa_mulpdu(emss, 0), marked = iwarp_mpa_mulpdu(emss, 1);
        uint32_t markers = 4 * ((emss + 511) / 512);
        assert_true(iwarp_mpa_fpdu_len(plain) <= emss);
        assert_true(iwarp_mpa_fpdu_len(marked) + markers <= emss);
        assert_true(marked < plain || plain == 64768);
        /* Not more than three octets are given away, but by the clamps. */
        assert_true(plain == 64768 || emss - iwarp_mpa_fpdu_len(plain) <= 3);
        assert_true(marked == 64768 || emss - markers - iwarp_mpa_fpdu_len(marked) <= 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fpdu_len__known_ulpdus__matches),
        cmocka_unit_test(pad__every_length__is_the_least_that_aligns),
        cmocka_unit_test(mulpdu__known_segment_sizes__matches),
        cmocka_unit_test(mulpdu__around_the_bounds__is_clamped),
        cmocka_unit_test(mulpdu__every_segment_size__fits_it),
    };
    return cmocka_run_group_tests_name("mpa_frame", tests, NULL, NULL);
}
