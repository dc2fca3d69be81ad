/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DDP headers, both ways, against literal octets: RFC 5041 4.1 to 4.3 as RDMAP uses them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "ddp/ddp_wire.h"

struct vector {
    const char *what;
    uint8_t wire[18];
    struct iwarp_ddp_header h;
};

static const struct vector vectors[] = {
    {"Send, L, MSN 1",
     {0x41, 0x43,              /* T 0, L 1, DV 1; RV 1, opcode 3 */
      0x00, 0x00, 0x00, 0x00,  /* reserved for the ULP */
      0x00, 0x00, 0x00, 0x00,  /* QN 0 */
      0x00, 0x00, 0x00, 0x01,  /* MSN */
      0x00, 0x00, 0x00, 0x00}, /* MO */
     {.control = 0x41, .ulp_control = 0x43, .last = true, .msn = 1}},
    {"Send with Invalidate, not the last, in every field another octet",
     {0x01, 0x44, 0x12, 0x34, 0x56, 0x78, /* Invalidate STag */
      0x9a, 0xbc, 0xde, 0xf0,             /* QN */
      0x0f, 0x1e, 0x2d, 0x3c,             /* MSN */
      0x4b, 0x5a, 0x69, 0x87},            /* MO */
     {.control = 0x01,
      .ulp_control = 0x44,
      .stag = 0x12345678,
      .qn = 0x9abcdef0,
      .msn = 0x0f1e2d3c,
      .mo = 0x4b5a6987}},
    {"RDMA Write, L",
     {0xc1, 0x40,                                      /* T 1, L 1, DV 1; RV 1, opcode 0 */
      0x00, 0x01, 0x02, 0x03,                          /* STag */
      0x00, 0x00, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xf0}, /* TO */
     {.control = 0xc1,
      .ulp_control = 0x40,
      .tagged = true,
      .last = true,
      .stag = 0x00010203,
      .to = 0x7ffffffffff0}},
    {"RDMA Read Response, not the last",
     {0x81, 0x42, 0xab, 0xcd, 0xef, 0x01, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10},
     {.control = 0x81,
      .ulp_control = 0x42,
      .tagged = true,
      .stag = 0xabcdef01,
      .to = 0xfedcba9876543210}},
    {"Terminate",
     {0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0},
     {.control = 0x41, .ulp_control = 0x47, .last = true, .qn = 2, .msn = 1}},
};

#define VECTORS (sizeof vectors / sizeof *vectors)

static uint32_t len_of(const struct vector *v)
{
    return v->h.tagged ? 14 : 18;
}

static void check_equal(const struct iwarp_ddp_header *a, const struct iwarp_ddp_header *b)
{
    assert_int_equal(a->control, b->control);
    assert_int_equal(a->ulp_control, b->ulp_control);
    assert_int_equal(a->tagged, b->tagged);
    assert_int_equal(a->last, b->last);
    assert_int_equal(a->stag, b->stag);
    assert_true(a->to == b->to);
    assert_int_equal(a->qn, b->qn);
    assert_int_equal(a->msn, b->msn);
    assert_int_equal(a->mo, b->mo);
}

/* [DDP-4.2-03] [DDP-4.2-08] [DDP-4.3-03] [DDP-5.4-03] */
static void header_get__literal_octets__gives_the_fields(void **state)
{
    (void)state;
    for (size_t i = 0; i < VECTORS; i++) {
        struct iwarp_ddp_header h;
        memset(&h, 0xee, sizeof h);
        iwarp_ddp_header_get(vectors[i].wire, &h);
        check_equal(&h, &vectors[i].h);
    }
}

/* [MPA-3-12] [MPA-C.1-01] [DDP-4.1-10] [DDP-4.1-08] [DDP-4.2-01] [DDP-4.3-01] [DDP-4.4-01] */
static void header_put__fields__writes_these_octets_and_no_other(void **state)
{
    (void)state;
    for (size_t i = 0; i < VECTORS; i++) {
        struct iwarp_ddp_header h = vectors[i].h;
        uint8_t out[20];
        memset(out, 0x55, sizeof out);
        h.control = 0xff; /* is not looked at */
        assert_int_equal(iwarp_ddp_header_put(out, &h), len_of(&vectors[i]));
        assert_memory_equal(out, vectors[i].wire, len_of(&vectors[i]));
        for (size_t k = len_of(&vectors[i]); k < sizeof out; k++) {
            assert_int_equal(out[k], 0x55);
        }
    }
}

/* A tagged header is 14 octets: nothing behind them may be touched. */
static void header_get__tagged_at_the_end_of_its_memory__reads_14_octets(void **state)
{
    uint8_t *exact = test_malloc(14);
    struct iwarp_ddp_header h;

    (void)state;
    memcpy(exact, vectors[2].wire, 14);
    iwarp_ddp_header_get(exact, &h);
    check_equal(&h, &vectors[2].h);
    test_free(exact);
}

/* RFC 5041 4.1: the four reserved bits are sent as 0 and not checked. */
/* [DDP-4.1-09] */
static void header_get__reserved_bits_set__are_ignored(void **state)
{
    (void)state;
    for (size_t i = 0; i < VECTORS; i++) {
        for (unsigned bits = 0; bits < 16; bits++) {
            struct iwarp_ddp_header h, want = vectors[i].h;
            uint8_t wire[18];
            memcpy(wire, vectors[i].wire, sizeof wire);
            wire[0] |= (uint8_t)(bits << 2);
            want.control = wire[0];
            iwarp_ddp_header_get(wire, &h);
            check_equal(&h, &want);
            assert_int_equal(iwarp_ddp_header_put(wire, &h), len_of(&vectors[i]));
            assert_memory_equal(wire, vectors[i].wire, len_of(&vectors[i]));
        }
    }
}

static void header_len__every_control_octet__goes_by_the_T_bit_alone(void **state)
{
    (void)state;
    for (unsigned control = 0; control < 256; control++) {
        assert_int_equal(iwarp_ddp_header_len((uint8_t)control), control >= 0x80 ? 14 : 18);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_get__literal_octets__gives_the_fields),
        cmocka_unit_test(header_put__fields__writes_these_octets_and_no_other),
        cmocka_unit_test(header_get__tagged_at_the_end_of_its_memory__reads_14_octets),
        cmocka_unit_test(header_get__reserved_bits_set__are_ignored),
        cmocka_unit_test(header_len__every_control_octet__goes_by_the_T_bit_alone),
    };
    return cmocka_run_group_tests_name("ddp_wire", tests, NULL, NULL);
}
