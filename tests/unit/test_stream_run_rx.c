/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs of Writes, received: whatever the octets, a stream that takes runs ends as one that
 * takes each FPDU by itself, with the same memory, faults, answers and counts. Random streams of
 * FPDUs, most of them small Writes that are right, the others wrong in one of many ways; and each
 * of the ways alone, behind and before Writes that are right.
 *
 * RFC 5044 4.4 and 6, RFC 5041 7.1, RFC 5040 7.2.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "deliveries.h"
#include "stream/stream_run.h"

#define AREA    1024u /* octets of each region */
#define TO_BASE 0x2000u
#define PAGE    4096u

enum { GOOD_1 = 0x00010211, GOOD_2 = 0x00010312, MAPPED = 0x00010413 };
enum { READ_ONLY = 0x00010514, STRANGE = 0x00010615, HIGH = 0x00010716, OTHER_QP = 0x00010817 };
enum { SMALL = 0x00000019 };

/* What is wrong with an FPDU. The first few: nothing. */
enum wrong {
    RIGHT,
    RIGHT_ELSEWHERE,
    RIGHT_SEND,
    RIGHT_IMMEDIATE,
    RIGHT_EMPTY,
    RIGHT_NOT_LAST,
    RIGHT_RESERVED,
    RIGHT_LONG,
    RIGHT_STAG_BELOW_256,
    RIGHT_AT_THE_END,
    RIGHT_EVERY, /* how many of these there are */
    WRONG_CRC = RIGHT_EVERY,
    WRONG_OCTET,
    WRONG_STAG,
    WRONG_KEY,
    WRONG_STAG_0,
    WRONG_RIGHTS,
    WRONG_PD,
    WRONG_QP,
    WRONG_BEFORE,
    WRONG_BEYOND,
    WRONG_BY_ONE,
    WRONG_WRAP,
    WRONG_DDP_VERSION,
    WRONG_RDMAP_VERSION,
    WRONG_OPCODE,
    WRONG_UNTAGGED,
    WRONG_MEMORY,
    WRONG_SHORT,
    WRONG_LENGTH,
    WRONGS
};

struct segment {
    unsigned control, ulp_control;
    uint32_t stag, payload;
    uint64_t to;
};

static uint8_t *pages; /* the second half cannot be written */
static uint32_t sends; /* in the octets made so far */

static void put_segment(struct octets *o, const struct segment *g, uint32_t xor_crc,
                        struct chance *c)
{
    struct octets ulpdu = {0};

    octets_be(&ulpdu, g->control, 1);
    octets_be(&ulpdu, g->ulp_control, 1);
    octets_be(&ulpdu, g->stag, 4);
    octets_be(&ulpdu, g->to, 8);
    for (uint32_t i = 0; i < g->payload; i++) {
        octets_be(&ulpdu, chance_next(c) & 0xff, 1);
    }
    fpdu_add(o, ulpdu.p, ulpdu.n, xor_crc);
    octets_free(&ulpdu);
}

/* Immediate Data tells how long the Write before it was. */
static void put_send(struct octets *o, bool immediate)
{
    struct octets ulpdu = {0};

    octets_hex(&ulpdu, immediate ? "4148 00000000 00000000" : "4143 00000000 00000000");
    octets_be(&ulpdu, ++sends, 4);
    octets_hex(&ulpdu, "00000000 aabbccddee112233");
    fpdu_add(o, ulpdu.p, ulpdu.n, 0);
    octets_free(&ulpdu);
}

/* A segment of a Write that is right, of any size and alignment; most are the only one of theirs.
 */
static struct segment right_segment(struct chance *c)
{
    static const uint32_t most[] = {80, 80, 512, AREA};
    uint32_t len = 1 + (uint32_t)chance_below(c, most[chance_below(c, 4)]);

    return (struct segment){.control = chance_one_in(c, 4) ? 0x81 : 0xc1,
                            .ulp_control = 0x40,
                            .stag = chance_one_in(c, 5) ? GOOD_2 : GOOD_1,
                            .payload = len,
                            .to = TO_BASE + chance_below(c, AREA - len + 1)};
}

/* Another Write that is right. */
static void be_other(struct segment *g, enum wrong wrong, struct chance *c)
{
    if (wrong == RIGHT_EMPTY) {
        g->payload = 0;
        g->stag = (uint32_t)chance_next(c); /* RFC 5041 5.2: not looked at */
    } else if (wrong == RIGHT_NOT_LAST) {
        g->control = 0x81;
    } else if (wrong == RIGHT_RESERVED) {
        g->control |= 0x3c & (unsigned)chance_next(c);
        g->ulp_control |= 0x30 & (unsigned)chance_next(c);
    } else if (wrong == RIGHT_LONG) {
        g->payload = 513 + (uint32_t)chance_below(c, AREA - 512);
        g->to = TO_BASE + AREA - g->payload;
    } else if (wrong == RIGHT_STAG_BELOW_256) {
        g->stag = SMALL;
    } else if (wrong == RIGHT_AT_THE_END) {
        g->to = TO_BASE + AREA - g->payload;
    }
}

static uint32_t wrong_stag(enum wrong wrong, struct chance *c)
{
    return wrong == WRONG_STAG     ? 0x00123400
           : wrong == WRONG_KEY    ? GOOD_1 ^ 1u << chance_below(c, 8)
           : wrong == WRONG_STAG_0 ? 0
           : wrong == WRONG_RIGHTS ? READ_ONLY
           : wrong == WRONG_PD     ? STRANGE
           : wrong == WRONG_QP     ? OTHER_QP
           : wrong == WRONG_WRAP   ? HIGH
           : wrong == WRONG_MEMORY ? MAPPED
                                   : GOOD_1;
}

static void spoil(struct segment *g, enum wrong wrong, struct chance *c)
{
    g->stag = wrong_stag(wrong, c);
    if (wrong == WRONG_BEFORE) {
        g->to = TO_BASE - 1 - chance_below(c, 1000);
    } else if (wrong == WRONG_BEYOND) {
        g->to = TO_BASE + AREA + chance_below(c, 3);
    } else if (wrong == WRONG_BY_ONE) {
        g->to = TO_BASE + AREA - g->payload + 1;
    } else if (wrong == WRONG_WRAP) {
        g->to = UINT64_MAX - g->payload + 1 + chance_below(c, g->payload);
    } else if (wrong == WRONG_DDP_VERSION) {
        g->control ^= 1u + (unsigned)chance_below(c, 3);
    } else if (wrong == WRONG_RDMAP_VERSION) {
        g->ulp_control ^= 0xc0;
    } else if (wrong == WRONG_OPCODE) {
        g->ulp_control |= 1u + (unsigned)chance_below(c, 15);
    } else if (wrong == WRONG_UNTAGGED) {
        g->control ^= 0x80;
    } else if (wrong == WRONG_MEMORY) { /* its second half */
        g->to = PAGE - chance_below(c, g->payload);
    }
}

static void put_one(struct octets *o, enum wrong wrong, struct chance *c)
{
    struct segment g = right_segment(c);
    size_t start = o->n;

    if (wrong == RIGHT_SEND || wrong == RIGHT_IMMEDIATE) {
        put_send(o, wrong == RIGHT_IMMEDIATE);
    } else if (wrong == RIGHT_ELSEWHERE) { /* placed, although the neighbouring page is not there */
        g.stag = MAPPED;
        g.to = PAGE - g.payload;
        put_segment(o, &g, 0, c);
    } else if (wrong == WRONG_SHORT) {
        fpdu_hex(o, "c140 00010211", chance_below(c, 8));
    } else if (wrong == WRONG_LENGTH) {
        octets_hex(o, "fd01 c140 00010211 0000000000002000");
        octets_fill(o, 0, 200);
    } else {
        if (wrong < RIGHT_EVERY) {
            be_other(&g, wrong, c);
        } else {
            spoil(&g, wrong, c);
        }
        put_segment(o, &g, wrong == WRONG_CRC ? 1u << chance_below(c, 32) : 0, c);
    }
    if (wrong == WRONG_OCTET) { /* anywhere but in the length */
        o->p[start + 2 + chance_below(c, o->n - start - 2)] ^= (uint8_t)(1u << chance_below(c, 8));
    }
}

/* --- two streams -------------------------------------------------------------------------------
 */

static void open_end(struct endpoint *e, const struct endpoint_options *options)
{
    endpoint_init(e, options);
    struct area *a = endpoint_area(e, GOOD_1, TO_BASE, AREA, WRITABLE, 0);
    endpoint_area(e, GOOD_2, TO_BASE, AREA, WRITABLE, 0);
    endpoint_area(e, SMALL, TO_BASE, AREA, WRITABLE, 0);
    endpoint_area(e, READ_ONLY, TO_BASE, AREA, LOCAL | READABLE, 0);
    endpoint_stranger(e, STRANGE, TO_BASE, AREA, WRITABLE);
    endpoint_area(e, HIGH, UINT64_MAX - AREA + 1, AREA, WRITABLE, 0);
    endpoint_area(e, OTHER_QP, TO_BASE, AREA, WRITABLE, 0)->region.qp = 77;
    endpoint_foreign(e, MAPPED, 0, pages, (size_t)2 * PAGE, WRITABLE);
    for (unsigned i = 0; i < 200; i++) {
        endpoint_recv_area(e, a);
    }
}

static char *end_of(struct endpoint *e)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    assert_non_null(to);
    endpoint_dump(e, DUMP_ALL, to);
    fprintf(to, "mapped %08x, fpdu at %llu, lends %u\n", octets_crc(0, pages, PAGE),
            (unsigned long long)e->s.rx.fpdu_pos, e->s.ddp.lends ? e->s.ddp.lends->n : 0);
    const uint64_t *count = (const void *)&e->counts;
    for (size_t i = 0; i < sizeof e->counts / sizeof *count; i++) {
        fprintf(to, "%llu ", (unsigned long long)count[i]);
    }
    fclose(to);
    return text;
}

/* The same octets in the same steps; returns how the stream stands after each of them. */
static char *receive(const struct endpoint_options *options, bool plain, const struct octets *o,
                     uint64_t seed, bool split)
{
    struct chance c = {seed};
    struct endpoint_options own = *options;
    struct endpoint e;

    memset(pages, 0, PAGE);
    own.plain = plain;
    open_end(&e, &own);
    for (size_t at = 0; at < o->n;) {
        size_t k = split ? 1 + chance_size(&c, 900) : o->n;
        k = k < o->n - at ? k : o->n - at;
        iwarp_stream_feed(&e.s, o->p + at, k);
        endpoint_check(&e);
        at += k;
    }
    for (unsigned i = 0; i < e.areas; i++) {
        assert_false(iwarp_region_lent(&e.area[i].region));
    }
    endpoint_drain(&e);
    char *text = end_of(&e);
    endpoint_fini(&e);
    return text;
}

static void expect_same_end(const struct endpoint_options *options, const struct octets *o,
                            uint64_t seed, bool split, bool ends_well)
{
    char *one = receive(options, true, o, seed, split);
    char *run = receive(options, false, o, seed, split);

    if (strcmp(one, run) != 0) {
        print_error("each by itself:\n%s\nin runs:\n%s\n", one, run);
        fail_msg("runs end otherwise");
    }
    assert_true(!ends_well || strstr(run, "fault NONE") != NULL);
    free(one);
    free(run);
}

static struct endpoint_options draw_options(struct chance *c)
{
    return (struct endpoint_options){.no_crc = chance_one_in(c, 4),
                                     .early = chance_one_in(c, 4),
                                     .hold_tx = chance_one_in(c, 3),
                                     .strict = chance_one_in(c, 4),
                                     .rfc7306 = true,
                                     .ird = 4,
                                     .ord = 4};
}

/* --- tests -------------------------------------------------------------------------------------
 */

static int make_pages(void **state)
{
    (void)state;
    pages =
        mmap(NULL, (size_t)2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED || mprotect(pages + PAGE, PAGE, PROT_NONE);
}

static int drop_pages(void **state)
{
    (void)state;
    return munmap(pages, (size_t)2 * PAGE);
}

/* Each kind alone, in front, in the middle, at the end of FPDUs that are right. */
static void receive__each_kind_of_fpdu_in_a_run__ends_as_without_runs(void **state)
{
    struct chance c = {chance_seed()};

    (void)state;
    for (unsigned kind = 0; kind < WRONGS; kind++) {
        for (unsigned times = 0; times < 12; times++) {
            struct endpoint_options options = draw_options(&c);
            struct octets o = {0};
            sends = 0;
            for (unsigned i = 0; i < 9; i++) {
                put_one(&o, i % 4 == times % 4 ? (enum wrong)kind : RIGHT, &c);
            }
            options.strict = options.strict && kind >= RIGHT_EVERY;
            expect_same_end(&options, &o, chance_next(&c), times % 3 == 0, kind < RIGHT_EVERY);
            octets_free(&o);
        }
    }
}

static void receive__random_fpdus__end_as_without_runs(void **state)
{
    struct chance c = {chance_seed()};

    (void)state;
    for (unsigned times = 0; times < 400; times++) {
        struct endpoint_options options = draw_options(&c);
        size_t n = 1 + chance_below(&c, 60), odd = 1 + chance_below(&c, 20);
        struct octets o = {0};
        sends = 0;
        for (size_t i = 0; i < n; i++) {
            enum wrong wrong = RIGHT;
            if (chance_one_in(&c, odd)) {
                wrong = (enum wrong)chance_below(&c, chance_one_in(&c, 4) ? WRONGS : RIGHT_EVERY);
            }
            put_one(&o, wrong, &c);
        }
        expect_same_end(&options, &o, chance_next(&c), chance_one_in(&c, 2), false);
        octets_free(&o);
    }
}

/* The queue pair gives no right to write, whatever the STag says. */
static void receive__run_for_a_queue_pair_without_the_right__is_a_fault(void **state)
{
    struct octets o = {0};
    struct endpoint e;

    (void)state;
    open_end(&e, NULL);
    e.s.ddp.denied = IWARP_ACCESS_REMOTE_WRITE;
    fpdu_hex(&o, "c140 00010211 0000000000002000", 64);
    fpdu_hex(&o, "c140 00010211 0000000000002040", 64);
    iwarp_stream_feed(&e.s, o.p, o.n);
    assert_string_equal(iwarp_fault_name(e.s.fault.code), "DDP_QP_ACCESS");
    assert_int_equal(e.s.rx.fpdus, 0);
    for (unsigned i = 0; i < AREA; i++) {
        assert_int_equal(e.area[0].p[i], 0);
    }
    octets_free(&o);
    endpoint_fini(&e);
}

/* More regions in one batch than may be lent at a time. */
static void receive__run_over_many_regions__places_all(void **state)
{
    struct endpoint e;
    struct octets o = {0};

    (void)state;
    endpoint_init(&e, NULL);
    for (unsigned i = 0; i < ENDPOINT_REGIONS; i++) {
        endpoint_area(&e, 0x00020000 + (i << 8), 0, 64, WRITABLE, 0);
    }
    for (unsigned i = 0; i < 3 * ENDPOINT_REGIONS; i++) {
        struct octets ulpdu = {0};
        octets_hex(&ulpdu, "c140");
        octets_be(&ulpdu, 0x00020000 + (i * 7 % ENDPOINT_REGIONS << 8), 4);
        octets_be(&ulpdu, 8 * (i / ENDPOINT_REGIONS), 8);
        octets_be(&ulpdu, 0x0101010101010101 * (i * 7 % ENDPOINT_REGIONS + 1), 8);
        fpdu_add(&o, ulpdu.p, ulpdu.n, 0);
        octets_free(&ulpdu);
    }
    iwarp_stream_feed(&e.s, o.p, o.n);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
    assert_int_equal(e.s.rx.fpdus, 3 * ENDPOINT_REGIONS);
    assert_null(e.s.ddp.lends);
    for (unsigned i = 0; i < ENDPOINT_REGIONS; i++) {
        assert_false(iwarp_region_lent(&e.area[i].region));
        for (unsigned k = 0; k < 64; k++) {
            assert_int_equal(e.area[i].p[k], k < 24 ? i + 1 : 0);
        }
    }
    octets_free(&o);
    endpoint_fini(&e);
}

/* Of segments that are whole, of any Write. */
static void run_payload__by_length_and_control__is_0_where_no_run_takes_them(void **state)
{
    static const struct {
        uint32_t ulpdu, payload;
    } cases[] = {{0, 0},       {13, 0},   {14, 0},    {15, 1},          {14 + 512, 512},
                 {1442, 1428}, {4100, 0}, {64000, 0}, {0xffff - 14, 0}, {0xffff, 0}};
    static uint8_t fpdu[4096];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t whole = iwarp_mpa_fpdu_len(cases[i].ulpdu);
        iwarp_put_be16(fpdu, (uint16_t)cases[i].ulpdu);
        iwarp_put_be16(fpdu + 2, 0xc140);
        assert_int_equal(iwarp_stream_run_payload(fpdu, sizeof fpdu), cases[i].payload);
        if (whole <= sizeof fpdu) {
            assert_int_equal(iwarp_stream_run_payload(fpdu, whole), cases[i].payload);
            assert_int_equal(iwarp_stream_run_payload(fpdu, whole - 1), 0);
        }
        iwarp_put_be16(fpdu + 2, 0x8140); /* not the last segment */
        assert_int_equal(iwarp_stream_run_payload(fpdu, sizeof fpdu), cases[i].payload);
        iwarp_put_be16(fpdu + 2, 0xc143); /* not a Write */
        assert_int_equal(iwarp_stream_run_payload(fpdu, sizeof fpdu), 0);
        iwarp_put_be16(fpdu + 2, 0x4140); /* not tagged */
        assert_int_equal(iwarp_stream_run_payload(fpdu, sizeof fpdu), 0);
    }
}

/* MPA allows no such FPDU, though it is whole. */
static void run_payload__of_a_ulpdu_beyond_mpa__is_0(void **state)
{
    static uint8_t fpdu[66000];

    (void)state;
    for (uint32_t ulpdu = 65000; ulpdu <= 0xffff; ulpdu++) {
        iwarp_put_be16(fpdu, (uint16_t)ulpdu);
        iwarp_put_be16(fpdu + 2, 0xc140);
        assert_int_equal(iwarp_stream_run_payload(fpdu, sizeof fpdu),
                         ulpdu <= IWARP_MPA_ULPDU_MAX ? ulpdu - 14 : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receive__each_kind_of_fpdu_in_a_run__ends_as_without_runs),
        cmocka_unit_test(receive__random_fpdus__end_as_without_runs),
        cmocka_unit_test(receive__run_for_a_queue_pair_without_the_right__is_a_fault),
        cmocka_unit_test(receive__run_over_many_regions__places_all),
        cmocka_unit_test(run_payload__by_length_and_control__is_0_where_no_run_takes_them),
        cmocka_unit_test(run_payload__of_a_ulpdu_beyond_mpa__is_0),
    };

    return cmocka_run_group_tests_name("stream_run_rx", tests, make_pages, drop_pages);
}
