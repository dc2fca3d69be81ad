/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs of Writes, sent: whatever is posted, a stream that frames runs sends the octets of one
 * that frames each request by itself, in the same batches, completes the same requests at the same
 * positions, and fails the same way. Random requests, most of them Writes that are right.
 *
 * RFC 5044 4.1 and 4.4, RFC 5041 5.2.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "endpoint.h"

#define AREA 8192u
#define PAGE 4096u
#define MANY 200u /* requests; the queue takes 256 */

enum { SOURCE = 0x00010211, SECOND = 0x00010312, MAPPED = 0x00010413, STRANGE = 0x00010514 };
enum { OTHER_QP = 0x00010615, WINDOW = 0x00010716, SHORT = 0x00010817, READ_BY_PEER = 0x00010918 };

static uint8_t *pages; /* the second half cannot be read */

struct request {
    struct iwarp_send_wr wr;
    struct iwarp_sge sge[2];
};

/* --- requests ----------------------------------------------------------------------------------
 */

/* Small, or of several segments, if this stream has a small MULPDU. */
static void be_write(struct endpoint *e, struct request *r, struct chance *c)
{
    static const uint32_t most[] = {80, 80, 80, 512, 512, 1600, 6000};
    struct area *a = &e->area[chance_one_in(c, 4)];
    uint32_t len = 1 + (uint32_t)chance_below(c, most[chance_below(c, 7)]);

    r->sge[0] = area_sge(a, chance_below(c, AREA - len + 1), len);
    r->wr = (struct iwarp_send_wr){.opcode = IWARP_WR_WRITE,
                                   .sg_list = r->sge,
                                   .num_sge = 1,
                                   .remote_stag = 0x00abcd00 | (uint32_t)chance_below(c, 256),
                                   .remote_to = chance_next(c)};
    if (len <= 512 && chance_one_in(c, 3)) { /* what verbs copies need not be registered */
        r->sge[0].addr = a->p;
        r->sge[0].lkey = 0;
        r->wr.flags = IWARP_WR_INLINE;
    }
    r->wr.flags |= chance_one_in(c, 8) ? IWARP_WR_FENCE : 0;
}

/* Another request, or another Write, that nothing is wrong with. */
static void be_other(struct endpoint *e, struct request *r, struct chance *c)
{
    switch (chance_below(c, 6)) {
    case 0:
        r->wr.opcode = IWARP_WR_SEND;
        break;
    case 1:
        r->wr.num_sge = 0;
        r->wr.flags = 0;
        break;
    case 2:
        r->sge[0] = area_sge(&e->area[0], 11, 17);
        r->sge[1] = area_sge(&e->area[1], 5, 100);
        r->wr.num_sge = 2;
        r->wr.flags = 0;
        break;
    case 3:
        r->sge[0] = area_sge(&e->area[2], 0, 8);
        r->wr.opcode = IWARP_WR_READ;
        r->wr.flags = 0;
        break;
    case 4:
        r->wr.opcode = IWARP_WR_WRITE_IMM;
        r->wr.imm = chance_next(c);
        r->wr.num_sge = chance_one_in(c, 2); /* of no octets: matters behind a Write */
        break;
    default: /* the last octets there are */
        r->sge[0] = (struct iwarp_sge){pages + PAGE - 64, 64, MAPPED};
        r->wr.flags = 0;
    }
}

static void be_wrong(struct endpoint *e, struct request *r, struct chance *c)
{
    r->wr.flags = 0;
    r->sge[0] = area_sge(&e->area[0], 0, 64);
    switch (chance_below(c, 8)) {
    case 0:
        r->wr.remote_stag = 0;
        break;
    case 1:
        r->sge[0].lkey ^= 1u << chance_below(c, 8);
        break;
    case 2:
        r->sge[0].lkey = STRANGE;
        break;
    case 3:
        r->sge[0].lkey = OTHER_QP;
        break;
    case 4:
        r->sge[0].lkey = WINDOW;
        break;
    case 5:
        r->sge[0] = area_sge(&e->area[0], AREA - 63, 64);
        break;
    case 6:
        r->sge[0].lkey = SHORT;
        r->sge[0].addr = (void *)(uintptr_t)(UINT64_MAX - 20);
        break;
    default:
        r->sge[0] = (struct iwarp_sge){pages + PAGE - 32, 64, MAPPED};
        /* Anywhere in it; but payload that is not copied would be read by this test itself. */
        if (e->options.mulpdu < 1500 && chance_one_in(c, 2)) {
            r->sge[0] = (struct iwarp_sge){pages + chance_below(c, PAGE), PAGE, MAPPED};
        }
    }
}

/* --- two streams -------------------------------------------------------------------------------
 */

static void open_end(struct endpoint *e, const struct endpoint_options *options)
{
    endpoint_init(e, options);
    for (unsigned i = 0; i < 2; i++) {
        struct area *a = endpoint_area(e, i ? SECOND : SOURCE, 0x10000u + AREA * i, AREA, LOCAL, 0);
        for (unsigned k = 0; k < AREA; k++) {
            a->p[k] = (uint8_t)(k * 7 + k / 251 + i);
        }
    }
    endpoint_area(e, 0x00010f00, 0, 64, LOCAL, 0);
    endpoint_foreign(e, MAPPED, (uint64_t)(uintptr_t)pages, pages, (size_t)2 * PAGE, LOCAL);
    endpoint_stranger(e, STRANGE, 0x10000, AREA, LOCAL);
    endpoint_area(e, OTHER_QP, 0x10000, AREA, LOCAL, 0)->region.qp = 77;
    endpoint_area(e, WINDOW, 0x10000, AREA, WRITABLE, 0)->region.kind = REGION_WINDOW_1;
    endpoint_area(e, READ_BY_PEER, 0x10000, AREA, READABLE, 0x77);
    endpoint_area(e, SHORT, UINT64_MAX - 31, 32, LOCAL, 0);
}

/* The peer reads: its answer alternates with requests. */
static void be_read(struct endpoint *e, struct chance *c)
{
    struct octets ulpdu = {0}, o = {0};

    if (e->s.life != STREAM_RUNNING || e->s.reads.in_count == e->options.ird) {
        return;
    }
    octets_hex(&ulpdu, "4141 00000000 00000001");
    octets_be(&ulpdu, e->s.ddp.msn[1], 4);
    octets_hex(&ulpdu, "00000000 00aa0000 0000000000005000");
    octets_be(&ulpdu, chance_below(c, 2000), 4);
    octets_be(&ulpdu, READ_BY_PEER, 4);
    octets_be(&ulpdu, 0x10000, 8);
    fpdu_add(&o, ulpdu.p, ulpdu.n, 0);
    iwarp_stream_feed(&e->s, o.p, o.n);
    octets_free(&ulpdu);
    octets_free(&o);
}

static void report(struct endpoint *e, FILE *to)
{
    endpoint_dump(e, DUMP_NO_MEMORY, to);
    fprintf(to, "next %u framed %llu fpdus %llu kind %d turn %d\n", e->sq.next,
            (unsigned long long)e->s.tx.framed, (unsigned long long)e->s.tx.fpdus, e->s.tx.kind,
            e->s.tx.response_turn);
}

static char *send_all(const struct endpoint_options *options, bool plain, uint64_t seed, size_t odd)
{
    struct chance c = {seed};
    struct endpoint_options own = *options;
    struct endpoint e;
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    assert_non_null(to);
    own.plain = plain;
    open_end(&e, &own);
    for (unsigned posted = 0; posted < MANY;) {
        for (size_t n = 1 + chance_below(&c, 70); n > 0 && posted < MANY; n--, posted++) {
            struct request r;
            be_write(&e, &r, &c);
            if (chance_one_in(&c, odd)) {
                be_other(&e, &r, &c);
            } else if (chance_one_in(&c, odd * 20)) {
                be_wrong(&e, &r, &c);
            }
            endpoint_post(&e, &r.wr);
        }
        if (chance_one_in(&c, 3)) {
            be_read(&e, &c);
        }
        if (chance_one_in(&c, 10)) {
            endpoint_deregister(&e, &e.area[1]);
        }
        size_t n = endpoint_send(&e, chance_one_in(&c, 2) ? SIZE_MAX : chance_size(&c, 40000));
        iwarp_stream_released(&e.s, chance_one_in(&c, 2) ? n : 0);
        report(&e, to);
    }
    endpoint_drain(&e);
    report(&e, to);
    for (unsigned i = 0; i < MANY; i++) {
        const struct iwarp_swqe *w = endpoint_swqe(&e, i);
        fprintf(to, "%u: %d %llu\n", i, w->status, (unsigned long long)w->end_pos);
    }
    const uint64_t *count = (const void *)&e.counts;
    for (size_t i = 0; i < sizeof e.counts / sizeof *count; i++) {
        fprintf(to, "%llu ", (unsigned long long)count[i]);
    }
    fclose(to);
    endpoint_fini(&e);
    return text;
}

static struct endpoint_options draw_options(struct chance *c)
{
    static const uint32_t mulpdus[] = {128, 530, 1442, 8942};

    return (struct endpoint_options){.no_crc = chance_one_in(c, 4),
                                     .rfc7306 = true,
                                     .markers_tx = chance_one_in(c, 8),
                                     .mulpdu = mulpdus[chance_below(c, 4)],
                                     .ird = 4,
                                     .ord = 100};
}

/* --- tests -------------------------------------------------------------------------------------
 */

static int make_pages(void **state)
{
    (void)state;
    pages =
        mmap(NULL, (size_t)2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        return -1;
    }
    memset(pages, 0x3d, PAGE);
    return mprotect(pages + PAGE, PAGE, PROT_NONE);
}

static int drop_pages(void **state)
{
    (void)state;
    return munmap(pages, (size_t)2 * PAGE);
}

static void send__random_requests__sends_the_octets_of_a_stream_without_runs(void **state)
{
    struct chance c = {chance_seed()};

    (void)state;
    for (unsigned times = 0; times < 250; times++) {
        const struct endpoint_options options = draw_options(&c);
        uint64_t seed = chance_next(&c);
        size_t odd = 1 + chance_below(&c, 30);
        char *one = send_all(&options, true, seed, odd);
        char *run = send_all(&options, false, seed, odd);
        if (strcmp(one, run) != 0) {
            print_error("each by itself:\n%s\nin runs:\n%s\n", one, run);
            fail_msg("runs are sent otherwise");
        }
        free(one);
        free(run);
    }
}

/* Literal octets: two Writes of 64 and 3 octets in a row, one of them inline. */
static void send__two_small_writes__are_two_fpdus(void **state)
{
    struct octets expected = {0};
    struct endpoint e;

    (void)state;
    open_end(&e, NULL);
    for (unsigned i = 0; i < 64; i++) {
        e.area[0].p[i] = (uint8_t)i;
    }
    struct iwarp_sge sge[2] = {area_sge(&e.area[0], 0, 64), {e.area[0].p, 3, 0}};
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_WRITE,
                               .sg_list = sge,
                               .num_sge = 1,
                               .remote_stag = 0x11223344,
                               .remote_to = 0x0102030405060708};
    endpoint_post(&e, &wr);
    wr.sg_list = sge + 1;
    wr.flags = IWARP_WR_INLINE;
    wr.remote_to = UINT64_MAX - 2;
    endpoint_post(&e, &wr);
    fpdu_hex(&expected, "c140 11223344 0102030405060708", 64);
    fpdu_hex(&expected, "c140 11223344 fffffffffffffffd", 3);
    endpoint_drain(&e);
    octets_expect("sent", e.sent.p, e.sent.n, expected.p, expected.n);
    assert_int_equal(e.s.tx.fpdus, 2);
    assert_int_equal(e.sq.done, 2);
    octets_free(&expected);
    endpoint_fini(&e);
}

/*
 * Nothing is framed that does not fit the batch, and nothing that fits is left. A batch has half as
 * much where memory is scarce.
 */
static void send__more_than_a_batch__goes_out_in_order(void **state)
{
    (void)state;
    for (unsigned scarce = 0; scarce < 2; scarce++) {
        struct endpoint e;
        struct iwarp_sge sge;
        size_t at = 0, gathers = 0;
        open_end(&e, &(struct endpoint_options){.budget = scarce ? 1 << 20 : 0});
        for (unsigned i = 0; i < MANY; i++) {
            sge = area_sge(&e.area[0], i, 512);
            endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE,
                                                      .sg_list = &sge,
                                                      .num_sge = 1,
                                                      .remote_stag = 0x11223344,
                                                      .remote_to = i});
        }
        for (size_t n; (n = endpoint_send(&e, SIZE_MAX)) > 0; gathers++) {
            iwarp_stream_released(&e.s, n);
        }
        assert_int_equal(gathers, scarce ? 2 : 1); /* of 96 or 192 KiB at most */
        for (unsigned i = 0; i < MANY; i++) {
            struct fpdu f;
            assert_true(fpdu_decode(e.sent.p + at, e.sent.n - at, true, &f));
            assert_int_equal(f.to, i);
            octets_expect("payload", f.payload, f.payload_len, e.area[0].p + i, 512);
            at += f.len;
        }
        assert_int_equal(at, e.sent.n);
        endpoint_fini(&e);
    }
}

/*
 * Requests are looked at ahead once there is more than one region: across the end of the ring, and
 * up to the last request but no further.
 */
static void send__each_request_from_another_region__sends_each_ones_octets(void **state)
{
    struct area *area[ENDPOINT_REGIONS];
    struct endpoint e;
    unsigned n = 0;
    size_t at = 0;

    (void)state;
    endpoint_init(&e, NULL);
    for (; n < ENDPOINT_REGIONS; n++) {
        area[n] = endpoint_area(&e, 0x00020022 + (n << 8), 0x1000u * n, 64, LOCAL, 0);
        memset(area[n]->p, (int)(0x40 + n), 64);
    }
    for (unsigned round = 0; round < 3 * 256; round += 96) {
        for (unsigned i = round; i < round + 96; i++) {
            struct iwarp_sge sge = area_sge(area[i * 5 % n], i % 7, 50);
            endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE,
                                                      .sg_list = &sge,
                                                      .num_sge = 1,
                                                      .remote_stag = 0x11223344,
                                                      .remote_to = i});
        }
        iwarp_stream_released(&e.s, endpoint_send(&e, SIZE_MAX));
        assert_int_equal(e.sq.done, round + 96);
        while (e.sq.reaped != e.sq.done) {
            e.sq.reaped++;
        }
        for (unsigned i = round; i < round + 96; i++) {
            struct fpdu f;
            assert_true(fpdu_decode(e.sent.p + at, e.sent.n - at, true, &f));
            assert_int_equal(f.to, i);
            octets_expect("payload", f.payload, f.payload_len, area[i * 5 % n]->p + i % 7, 50);
            at += f.len;
        }
    }
    assert_int_equal(at, e.sent.n);
    endpoint_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send__random_requests__sends_the_octets_of_a_stream_without_runs),
        cmocka_unit_test(send__two_small_writes__are_two_fpdus),
        cmocka_unit_test(send__more_than_a_batch__goes_out_in_order),
        cmocka_unit_test(send__each_request_from_another_region__sends_each_ones_octets),
    };

    return cmocka_run_group_tests_name("stream_run_tx", tests, make_pages, drop_pages);
}
