/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Terminate messages: whole FPDUs as literal octets, which headers each row of faults.def copies
 * (RFC 5040 figure 10), and what received control words mean, those of siw and of NICs included.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "ddp/ddp_wire.h"
#include "mpa/crc32c.h"
#include "mpa/mpa_frame.h"
#include "rdmap/rdmap_term.h"

/* --- the segments that are to blame, with ULPDU_Length and CRC as they came --- */

/* RDMA Write deadbeef to STag 0x00010203 TO 0x1000 */
static const uint8_t write_segment[18] = {0xc1, 0x40, 0x00, 0x01, 0x02, 0x03, 0x00, 0x00, 0x00,
                                          0x00, 0x00, 0x00, 0x10, 0x00, 0xde, 0xad, 0xbe, 0xef};
/* Send "hello", MSN 1 */
static const uint8_t send_segment[23] = {0x41, 0x43, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                         0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00,
                                         0x00, 0x00, 0x68, 0x65, 0x6c, 0x6c, 0x6f};
/* RDMA Read Request, sink 0x11223344/0x2000, size 8, source 0x00010203/0x1000, MSN 1 */
static const uint8_t read_segment[46] = {
    0x41, 0x41, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00,
    0x00, 0x00, 0x11, 0x22, 0x33, 0x44, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00,
    0x00, 0x08, 0x00, 0x01, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00};

static struct iwarp_term_cause cause_of(const uint8_t *segment, uint16_t len)
{
    struct iwarp_term_cause c = {.segment_len = len};

    c.ddp_header_len = segment[0] & 0x80 ? 14 : 18;
    c.read_request = segment == read_segment;
    memcpy(c.header, segment, c.ddp_header_len + (c.read_request ? 28u : 0u));
    return c;
}

/* --- whole FPDUs --- */

struct vector {
    enum iwarp_fault_code code;
    const uint8_t *segment;
    uint16_t segment_len;
    uint8_t fpdu[80];
    struct iwarp_term_info info;
};

static const struct vector vectors[] = {
    {IWARP_FAULT_DDP_STAG_INVALID,
     write_segment,
     18, /* 1/1/00 M,D */
     {0x00, 0x26, 0x41, 0x47, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00,
      0x01, 0x00, 0x00, 0x00, 0x00, 0x11, 0x00, 0xc0, 0x00, 0x00, 0x12, 0xc1, 0x40, 0x00, 0x01,
      0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x11, 0x6f, 0x87, 0x60},
     {1, 1, 0x00, 0xc0, false}},
    {IWARP_FAULT_RDMAP_ACCESS,
     read_segment,
     46, /* 0/1/02 M,D,R */
     {0x00, 0x46, 0x41, 0x47, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00,
      0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0xe0, 0x00, 0x00, 0x2e,
      0x41, 0x41, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,
      0x01, 0x00, 0x00, 0x00, 0x00, 0x11, 0x22, 0x33, 0x44, 0x00, 0x00, 0x00, 0x00,
      0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x00, 0x08, 0x00, 0x01, 0x02, 0x03, 0x00,
      0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x21, 0x78, 0x1c, 0xf6},
     {0, 1, 0x02, 0xe0, false}},
    {IWARP_FAULT_MPA_CRC,
     NULL,
     0, /* 2/0/02 */
     {0x00, 0x16, 0x41, 0x47, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00,
      0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x20, 0x02, 0x00, 0x00, 0x7f, 0xe4, 0x25, 0x85},
     {2, 0, 0x02, 0, false}},
    {IWARP_FAULT_LOCAL_NO_MEMORY,
     NULL,
     0, /* 0/0/00 */
     {0x00, 0x16, 0x41, 0x47, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00,
      0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf9, 0xa2, 0x6f, 0x1d},
     {0, 0, 0x00, 0, false}},
    {IWARP_FAULT_MPA_NO_RTR,
     NULL,
     0, /* 2/0/07 */
     {0x00, 0x16, 0x41, 0x47, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00,
      0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x20, 0x07, 0x00, 0x00, 0x1b, 0xd2, 0xba, 0xbe},
     {2, 0, 0x07, 0, false}},
};

/* [RDMAP-4.8-01] [RDMAP-4.8-02] [RDMAP-4.8-08] [RDMAP-4.8-09] [RDMAP-4.8-10] [RDMAP-4.8-11] */
/* [RDMAP-4.8-07] */
static void put__published_vectors__gives_these_fpdus(void **state)
{
    const struct iwarp_ddp_header h = {.last = true, .ulp_control = 0x47, .qn = 2, .msn = 1};

    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const struct vector *v = &vectors[i];
        const struct iwarp_fault fault = {.code = v->code};
        struct iwarp_term_cause cause = {0};
        uint8_t fpdu[2 + 18 + IWARP_TERM_MAX_LEN + 4];

        if (v->segment) {
            cause = cause_of(v->segment, v->segment_len);
        }
        uint32_t ulpdu = iwarp_ddp_header_put(fpdu + 2, &h);
        ulpdu += iwarp_rdmap_term_put(&fault, &cause, fpdu + 2 + ulpdu);
        iwarp_put_be16(fpdu, (uint16_t)ulpdu);
        assert_int_equal(iwarp_mpa_pad(ulpdu), 0);
        iwarp_put_le32(fpdu + 2 + ulpdu, iwarp_crc32c(0, fpdu, 2 + ulpdu));
        assert_memory_equal(fpdu, v->fpdu, 2 + ulpdu + 4);
        assert_int_equal(iwarp_get_be16(v->fpdu), ulpdu);
    }
}

static void expect_info_when(const struct iwarp_peers_term *when, const uint8_t *word,
                             const struct iwarp_term_info *want)
{
    struct iwarp_term_info info;

    memset(&info, 0xee, sizeof info);
    iwarp_rdmap_term_get(word, when, &info);
    assert_int_equal(info.layer, want->layer);
    assert_int_equal(info.etype, want->etype);
    assert_int_equal(info.code, want->code);
    assert_int_equal(info.hdrct, want->hdrct);
    assert_int_equal(info.siw_bit_order, want->siw_bit_order);
}

/* As the peer's first FPDU, and in the middle of a conversation. */
static const struct iwarp_peers_term first = {.first = true}, later;

static void expect_info(const uint8_t *word, const struct iwarp_term_info *want)
{
    expect_info_when(&later, word, want);
}

static void get__published_vectors__are_understood(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        expect_info_when(&first, vectors[i].fpdu + 2 + 18, &vectors[i].info);
    }
}

/* --- RFC 5040 figure 10, for every row --- */

/* M and D (0xc0) and R (0x20) that a Terminate of this layer and type has; no word of ours in it.
 */
static uint8_t figure_10(int layer, unsigned etype, bool segment_known, bool read_request)
{
    if (layer == 2 || (layer == 0 && etype == 0) || !segment_known) {
        return 0;
    }
    if (layer == 0 && etype == 1 && read_request) {
        return 0xe0;
    }
    return 0xc0;
}

static void check_row(enum iwarp_fault_code code, const uint8_t *segment, uint16_t len)
{
    const struct iwarp_fault_row *row = iwarp_fault_row(code);
    const struct iwarp_fault fault = {.code = code};
    struct iwarp_term_cause cause = {0};
    uint8_t out[IWARP_TERM_MAX_LEN + 1], want[IWARP_TERM_MAX_LEN];
    uint32_t want_len = 4;

    if (segment) {
        cause = cause_of(segment, len);
    }
    memset(out, 0x55, sizeof out);
    uint32_t got = iwarp_rdmap_term_put(&fault, &cause, out);
    if (row->layer < 0) {
        assert_int_equal(got, 0);
        assert_int_equal(out[0], 0x55);
        return;
    }
    uint8_t hdrct = figure_10(row->layer, row->etype, segment != NULL, segment == read_segment);
    want[0] = (uint8_t)(row->layer * 16 + (int)row->etype);
    want[1] = (uint8_t)row->code;
    want[2] = hdrct;
    want[3] = 0;
    if (hdrct) {
        uint32_t copy = (segment[0] & 0x80 ? 14 : 18) + (hdrct == 0xe0 ? 28u : 0u);
        want[4] = (uint8_t)(len >> 8);
        want[5] = (uint8_t)len;
        memcpy(want + 6, segment, copy);
        want_len = 6 + copy;
    }
    assert_int_equal(got, want_len);
    assert_memory_equal(out, want, want_len);
    assert_int_equal(out[want_len], 0x55);
    /* And back. */
    const struct iwarp_term_info info = {(uint8_t)row->layer, (uint8_t)row->etype,
                                         (uint8_t)row->code, hdrct, false};
    expect_info_when(&first, out, &info);
}

/* [DDP-7.2-01] [RDMAP-4.8-03] */
static void put__every_row_and_segment__copies_what_figure_10_says(void **state)
{
    (void)state;
    for (unsigned c = 0; c < IWARP_FAULT_COUNT; c++) {
        enum iwarp_fault_code code = (enum iwarp_fault_code)c;
        check_row(code, NULL, 0);
        if (code == IWARP_FAULT_DDP_SEGMENT_SHORT) {
            continue; /* there is no whole header to copy */
        }
        check_row(code, write_segment, 18);
        check_row(code, send_segment, 23);
        check_row(code, read_segment, 46);
        check_row(code, write_segment, 64768);
    }
}

/* --- control words of real peers --- */

static void get__siw_bit_order__is_recognised_by_its_header_bits(void **state)
{
    static const struct {
        uint8_t word[4];
        struct iwarp_term_info info;
    } row[] = {
        {{0x11, 0x00, 0x03, 0x00}, {1, 1, 0x00, 0xc0, true}},
        {{0x21, 0x03, 0x03, 0x00}, {1, 2, 0x03, 0xc0, true}},
        {{0x21, 0x02, 0x03, 0x00}, {1, 2, 0x02, 0xc0, true}},
        {{0x10, 0x02, 0x07, 0x00}, {0, 1, 0x02, 0xe0, true}},
        {{0x10, 0x09, 0x07, 0x00}, {0, 1, 0x09, 0xe0, true}},
        {{0x20, 0x07, 0x03, 0x00}, {0, 2, 0x07, 0xc0, true}},
        {{0x01, 0x00, 0x01, 0x00}, {1, 0, 0x00, 0x80, true}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        expect_info(row[i].word, &row[i].info);
    }
}

/* Without headers only one of the two readings may exist; if both do, it depends (test_peers.c), or
 * the RFC's order is taken. */
static void get__no_header_bits__takes_the_registered_reading(void **state)
{
    static const struct {
        uint8_t word[4];
        struct iwarp_term_info info;
    } row[] = {
        {{0x02, 0x02, 0x00, 0x00}, {2, 0, 0x02, 0, true}},  /* siw's CRC error */
        {{0x20, 0xff, 0x00, 0x00}, {0, 2, 0xff, 0, true}},  /* 2/0/ff does not exist */
        {{0x20, 0x09, 0x00, 0x00}, {0, 2, 0x09, 0, true}},  /* 2/0/09 neither */
        {{0x21, 0x01, 0x00, 0x00}, {1, 2, 0x01, 0, true}},  /* nor layer 2 type 1 */
        {{0x10, 0x02, 0x00, 0x00}, {0, 1, 0x02, 0, true}},  /* 1/0/02 */
        {{0x02, 0x05, 0x00, 0x00}, {0, 2, 0x05, 0, false}}, /* both exist */
        {{0x20, 0x05, 0x00, 0x00}, {0, 2, 0x05, 0, true}},  /* both, but too late for 2/0/05 */
        {{0x20, 0x02, 0x00, 0x00}, {2, 0, 0x02, 0, false}},
        {{0x10, 0x00, 0x00, 0x00}, {1, 0, 0x00, 0, false}},
        {{0x12, 0x01, 0x00, 0x00}, {1, 2, 0x01, 0, false}},
        {{0x00, 0xff, 0x00, 0x00}, {0, 0, 0xff, 0, false}},
        {{0x7f, 0x99, 0x00, 0x00}, {7, 15, 0x99, 0, false}}, /* neither */
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        expect_info(row[i].word, &row[i].info);
    }
}

/* Chelsio and Intel number MPA's errors with type 3. */
static void get__mpa_error_with_type_3__is_type_0(void **state)
{
    const struct iwarp_term_info crc = {2, 0, 0x02, 0, false}, marker = {2, 0, 0x03, 0, false};

    (void)state;
    expect_info((const uint8_t[]){0x23, 0x02, 0x00, 0x00}, &crc);
    expect_info((const uint8_t[]){0x23, 0x03, 0x00, 0x00}, &marker);
}

/* RFC 5040 4.8: reserved bits are ignored on receive. */
/* [RDMAP-4.8-07] */
static void get__reserved_bits__do_not_matter_beside_rfc_header_bits(void **state)
{
    const struct iwarp_term_info info = {1, 2, 0x05, 0xc0, false};

    (void)state;
    expect_info((const uint8_t[]){0x12, 0x05, 0xdf, 0xff}, &info);
    expect_info((const uint8_t[]){0x12, 0x05, 0xc1, 0x80}, &info);
}

/* Whatever a peer sends, the answer is a value: 4 octets are read and the fields are in range. */
static void get__every_first_and_third_octet__stays_in_range(void **state)
{
    uint8_t *word = test_malloc(4);

    (void)state;
    for (unsigned i = 0; i < 256 * 256; i++) {
        struct iwarp_term_info info;
        word[0] = (uint8_t)i;
        word[1] = (uint8_t)(i * 7);
        word[2] = (uint8_t)(i >> 8);
        word[3] = 0;
        iwarp_rdmap_term_get(word, &later, &info);
        assert_true(info.layer < 16 && info.etype < 16);
        assert_int_equal(info.hdrct & 0x1f, 0);
        assert_int_equal(info.code, word[1]);
    }
    test_free(word);
}

/* What is quoted of this end's segments; cut short anywhere, nothing is read behind the end. */
static void quote__of_each_kind__tells_what_is_there(void **state)
{
    static const struct {
        uint8_t octets[52];
        uint32_t len;
        struct iwarp_quote quote;
        uint32_t less;             /* shorter than this: the quote below */
        enum iwarp_quote_kind cut; /* of that */
    } cases[] = {
        /* 0/1/02 with M, D, R: Read Request 7 of 0x100 octets from STag 00010203, TO 0x1000 */
        {{0x01, 0x02, 0xe0, 0x00, 0x00, 0x2e, 0x41, 0x41, 0,    0,    0, 0, 0, 0, 0,    1, 0,    0,
          0,    7,    0,    0,    0,    0,    0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 0,    0, 0x20, 0,
          0,    0,    1,    0,    0x00, 0x01, 0x02, 0x03, 0,    0,    0, 0, 0, 0, 0x10, 0},
         52,
         {.kind = IWARP_QUOTE_READ,
          .opcode = 1,
          .qn = 1,
          .msn = 7,
          .stag = 0x00010203,
          .len = 0x100,
          .to = 0x1000},
         52,
         IWARP_QUOTE_UNTAGGED},
        /* 1/2/02 with M, D, in siw's order: Send 9 */
        {{0x21, 0x02, 0x03, 0x00, 0x00, 0x17, 0x41, 0x43, 0, 0, 0, 0,
          0,    0,    0,    0,    0,    0,    0,    9,    0, 0, 0, 0},
         24,
         {.kind = IWARP_QUOTE_UNTAGGED, .opcode = 3, .siw_bit_order = true, .msn = 9},
         24,
         IWARP_QUOTE_NONE},
        /* 1/1/01 with M, D: a Write */
        {{0x11, 0x01, 0xc0, 0x00, 0x00, 0x12, 0xc1, 0x40, 0x00, 0x01,
          0x02, 0x03, 0xff, 0,    0,    0,    0,    0,    0x10, 0},
         20,
         {.kind = IWARP_QUOTE_TAGGED, .stag = 0x00010203, .to = 0xff00000000001000},
         20,
         IWARP_QUOTE_NONE},
        /* no flag: nothing, whatever follows */
        {{0x11, 0x01, 0x00, 0x00, 0x00, 0x12, 0xc1, 0x40}, 20, {.kind = IWARP_QUOTE_NONE}, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t len = 4; len <= cases[i].len; len++) {
            struct iwarp_term_info info;
            struct iwarp_quote q;
            uint8_t *exact = malloc(len); /* a sanitizer sees an octet too many */
            memcpy(exact, cases[i].octets, len);
            iwarp_rdmap_term_get(exact, &later, &info);
            iwarp_rdmap_term_quote(exact, len, &info, &q);
            if (len >= cases[i].less) {
                assert_int_equal(q.kind, cases[i].quote.kind);
                assert_int_equal(q.opcode, cases[i].quote.opcode);
                assert_int_equal(q.siw_bit_order, cases[i].quote.siw_bit_order);
                assert_int_equal(q.qn, cases[i].quote.qn);
                assert_int_equal(q.msn, cases[i].quote.msn);
                assert_int_equal(q.stag, cases[i].quote.stag);
                assert_int_equal(q.len, cases[i].quote.len);
                assert_int_equal(q.to, cases[i].quote.to);
            } else if (q.kind != IWARP_QUOTE_NONE) {
                assert_int_equal(q.kind, cases[i].cut);
            }
            free(exact);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put__published_vectors__gives_these_fpdus),
        cmocka_unit_test(get__published_vectors__are_understood),
        cmocka_unit_test(put__every_row_and_segment__copies_what_figure_10_says),
        cmocka_unit_test(get__siw_bit_order__is_recognised_by_its_header_bits),
        cmocka_unit_test(get__no_header_bits__takes_the_registered_reading),
        cmocka_unit_test(get__mpa_error_with_type_3__is_type_0),
        cmocka_unit_test(get__reserved_bits__do_not_matter_beside_rfc_header_bits),
        cmocka_unit_test(get__every_first_and_third_octet__stays_in_range),
        cmocka_unit_test(quote__of_each_kind__tells_what_is_there),
    };
    return cmocka_run_group_tests_name("rdmap_term", tests, NULL, NULL);
}
