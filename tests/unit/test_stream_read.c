/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA Reads into several SGEs: one Read Request for each SGE with octets, in order, at most ORD at
 * a time, and one work request that is done when the last response is in place. RFC 5040 5.2, 5.5
 * and 6.1: a Request names one sink, whose memory is contiguous.
 */
#include "deliveries.h"

#include "mpa/crc32c.h"
#include "mpa/mpa_frame.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEY    0x11223300u /* and one more for each further sink */
#define SOURCE 0x00010203u
#define FROM   0x5000u
#define SINKS  4u
#define ROOM   1000u

/* Sinks of ROOM octets at TO 0x1000, 0x2000 and so on. */
static void sinks(struct endpoint *e, unsigned n)
{
    for (uint32_t i = 0; i < n; i++) {
        endpoint_area(e, KEY + (i << 8), 0x1000u * (i + 1), ROOM, LOCAL, 0xee);
    }
}

static void post_read(struct endpoint *e, const struct iwarp_sge *sgl, unsigned n, unsigned flags)
{
    endpoint_post(e, &(struct iwarp_send_wr){.opcode = IWARP_WR_READ,
                                             .flags = flags,
                                             .sg_list = sgl,
                                             .num_sge = n,
                                             .remote_stag = SOURCE,
                                             .remote_to = FROM});
}

/* n SGEs of one octet each, at every other octet of the first sink. */
static void post_read_of(struct endpoint *e, unsigned n, unsigned flags)
{
    struct iwarp_sge sgl[IWARP_MAX_SGE];

    for (unsigned i = 0; i < n; i++) {
        sgl[i] = area_sge(&e->area[0], (size_t)2 * i, 1);
    }
    post_read(e, sgl, n, flags);
}

static uint64_t be(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < n; i++) {
        v = v << 8 | p[i];
    }
    return v;
}

/* Count what was sent of one opcode since the test began. */
static unsigned sent(struct endpoint *e, unsigned opcode)
{
    unsigned count = 0;
    struct fpdu f;

    endpoint_drain(e);
    for (size_t at = 0; at < e->sent.n; at += f.len) {
        assert_true(fpdu_decode(e->sent.p + at, e->sent.n - at, !e->options.no_crc, &f));
        count += f.opcode == opcode;
    }
    return count;
}

/* The i-th message that was sent is this Read Request. */
static void expect_request(struct endpoint *e, unsigned i, uint32_t stag, uint64_t to,
                           uint32_t size, uint64_t from)
{
    struct fpdu f = {0};
    size_t at = 0;

    for (unsigned k = 0; k <= i; k++, at += f.len) {
        assert_true(fpdu_decode(e->sent.p + at, e->sent.n - at, !e->options.no_crc, &f));
    }
    assert_int_equal(f.opcode, 1);
    assert_int_equal(f.qn, 1);
    assert_int_equal(f.msn, i + 1);
    assert_int_equal(f.payload_len, 28);
    assert_int_equal(be(f.payload, 4), stag);
    assert_int_equal(be(f.payload + 4, 8), to);
    assert_int_equal(be(f.payload + 12, 4), size);
    assert_int_equal(be(f.payload + 16, 4), SOURCE);
    assert_int_equal(be(f.payload + 20, 8), from);
}

/* One segment of a Read Response, its payload 00 01 02 and so on. */
static void add_response(struct octets *o, uint32_t stag, uint64_t to, size_t n, bool last)
{
    char ulpdu[64];

    snprintf(ulpdu, sizeof ulpdu, "%s42 %08x %016llx", last ? "c1" : "81", stag,
             (unsigned long long)to);
    fpdu_hex(o, ulpdu, n);
}

static void feed_response(struct endpoint *e, uint32_t stag, uint64_t to, size_t n)
{
    struct octets o = {0};

    add_response(&o, stag, to, n, true);
    iwarp_stream_feed(&e->s, o.p, o.n);
    octets_free(&o);
    endpoint_check(e);
}

/* --- requests -------------------------------------------------------------------------------- */

static void post_scattered(struct endpoint *e, void *arg)
{
    (void)arg;
    sinks(e, 3);
    const struct iwarp_sge sgl[] = {{NULL, 0, 0xdead},
                                    area_sge(&e->area[1], 100, 700),
                                    {NULL, 0, 0},
                                    area_sge(&e->area[0], 990, 10),
                                    area_sge(&e->area[0], 0, 1),
                                    area_sge(&e->area[2], 0, ROOM),
                                    {NULL, 0, 0xdead}};
    post_read(e, sgl, 7, 0);
    endpoint_drain(e);
}

/* [RDMAP-5.2.1-07] */
static void read__into_several_sges__is_a_request_for_each_with_octets(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.ord = 4});
    post_scattered(&e, NULL);
    assert_int_equal(sent(&e, 1), 4);
    expect_request(&e, 0, KEY + 0x100, 0x2000 + 100, 700, FROM);
    expect_request(&e, 1, KEY, 0x1000 + 990, 10, FROM + 700);
    expect_request(&e, 2, KEY, 0x1000, 1, FROM + 710);
    expect_request(&e, 3, KEY + 0x200, 0x3000, ROOM, FROM + 711);
    assert_int_equal(e.sq.done, 0);
    endpoint_fini(&e);
}

/* Whatever its SGEs: one Request, one response. */
static void read__of_no_octets__is_one_request(void **state)
{
    static const struct iwarp_sge empty[IWARP_MAX_SGE] = {{(void *)0x7000, 0, 0x99}, {NULL, 0, 1}};

    (void)state;
    for (unsigned n = 0; n <= IWARP_MAX_SGE; n += 8) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.ord = 4});
        post_read(&e, empty, n, 0);
        assert_int_equal(sent(&e, 1), 1);
        expect_request(&e, 0, n ? 0x99 : 1, n ? 0x7000 : 0, 0, FROM);
        feed_response(&e, n ? 0x99 : 1, 0, 0);
        assert_int_equal(e.sq.done, 1);
        endpoint_fini(&e);
    }
}

/* As many SGEs as there may be, and as few Requests at a time: they follow one by one, what is
 * behind them waits for the last Request and no longer, and the work request is done once. */
/* [RDMAP-6.1-03] [RDMAP-6.1-05] [VERBS-8.2.2-06] */
static void read__with_more_sges_than_ord__waits_for_responses(void **state)
{
    (void)state;
    for (uint32_t ord = 1; ord <= 3; ord++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.ord = ord});
        sinks(&e, 1);
        post_read_of(&e, IWARP_MAX_SGE, 0);
        endpoint_post(&e, &(struct iwarp_send_wr){0});
        for (unsigned i = 0; i < IWARP_MAX_SGE; i++) {
            unsigned asked = i + ord < IWARP_MAX_SGE ? i + ord : IWARP_MAX_SGE;
            assert_int_equal(sent(&e, 1), asked);
            assert_int_equal(sent(&e, 3), asked == IWARP_MAX_SGE);
            assert_int_equal(e.sq.done, 0);
            assert_int_equal(iwarp_stream_interest(&e.s), 0);
            feed_response(&e, KEY, 0x1000 + 2 * i, 1);
        }
        assert_int_equal(e.sq.done, 2);
        for (unsigned i = 0; i < IWARP_MAX_SGE; i++) {
            assert_int_equal(e.area[0].p[2 * i], 0);
            assert_int_equal(e.area[0].p[2 * i + 1], 0xee);
        }
        endpoint_fini(&e);
    }
}

/* A fence waits once, for what was posted before: not for the Read's own Requests. */
/* [VERBS-8.2.2.2-01] */
static void read__with_fence__waits_for_earlier_reads_and_not_for_itself(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.ord = 8});
    sinks(&e, 1);
    post_read_of(&e, 2, 0);
    post_read_of(&e, 3, IWARP_WR_FENCE);
    endpoint_post(&e, &(struct iwarp_send_wr){.flags = IWARP_WR_FENCE});
    assert_int_equal(sent(&e, 1), 2);
    feed_response(&e, KEY, 0x1000, 1);
    assert_int_equal(sent(&e, 1), 2);
    assert_int_equal(e.sq.done, 0);
    feed_response(&e, KEY, 0x1002, 1);
    assert_int_equal(e.sq.done, 1);
    assert_int_equal(sent(&e, 1), 5);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(sent(&e, 3), 0);
        feed_response(&e, KEY, 0x1000 + 2 * i, 1);
    }
    assert_int_equal(sent(&e, 3), 1);
    assert_int_equal(e.sq.done, 3);
    endpoint_fini(&e);
}

/* Two ends with ORD 1 that read from each other: neither waits for the other's whole Read. */
static void read__half_asked_for__lets_the_peer_be_answered(void **state)
{
    struct octets o = {0};
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.ird = 1, .ord = 1});
    sinks(&e, 1);
    endpoint_area(&e, SOURCE, FROM, 8, READABLE, 1);
    post_read_of(&e, 3, 0);
    assert_int_equal(sent(&e, 1), 1);
    fpdu_hex(&o,
             "4141 00000000 00000001 00000001 00000000"
             "00000099 0000000000000000 00000008 00010203 0000000000005000",
             0);
    iwarp_stream_feed(&e.s, o.p, o.n);
    octets_free(&o);
    assert_int_equal(sent(&e, 2), 1);
    assert_int_equal(sent(&e, 1), 1);
    feed_response(&e, KEY, 0x1000, 1);
    assert_int_equal(sent(&e, 1), 2);
    endpoint_fini(&e);
}

/* What was posted before the close is carried out whole. */
static void close__with_half_a_read_asked_for__goes_on_with_it(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.ord = 1});
    sinks(&e, 1);
    post_read_of(&e, 2, 0);
    assert_int_equal(sent(&e, 1), 1);
    iwarp_stream_close(&e.s);
    assert_int_equal(iwarp_stream_interest(&e.s), 0);
    feed_response(&e, KEY, 0x1000, 1);
    assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_WRITE);
    assert_int_equal(sent(&e, 1), 2);
    feed_response(&e, KEY, 0x1002, 1);
    assert_int_equal(e.sq.done, 1);
    assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
    endpoint_fini(&e);
}

/* --- responses ------------------------------------------------------------------------------- */

static void expect_scattered(struct endpoint *e, void *arg)
{
    (void)arg;
    assert_int_equal(e->s.life, STREAM_RUNNING);
    assert_int_equal(e->sq.done, 1);
    assert_int_equal(endpoint_swqe(e, 0)->status, IWARP_WC_SUCCESS);
    for (unsigned i = 0; i < ROOM; i++) {
        unsigned first = i == 0 ? 0 : i >= 990 ? i - 990 : 0xee;
        assert_int_equal(e->area[0].p[i], first);
        assert_int_equal(e->area[1].p[i], i < 100 || i >= 800 ? 0xee : (uint8_t)(i - 100));
        assert_int_equal(e->area[2].p[i], (uint8_t)(i < 600 ? i : i - 600));
    }
}

/* Whole, octet by octet, in pieces, directly and collected. */
/* [RDMAP-5.5-16] */
static void responses__to_a_scattered_read__are_placed_in_their_sges(void **state)
{
    struct scene scene = {.options.ord = 4, .setup = post_scattered, .check = expect_scattered};
    struct octets o = {0};

    (void)state;
    add_response(&o, KEY + 0x100, 0x2000 + 100, 700, true);
    add_response(&o, KEY, 0x1000 + 990, 10, true);
    add_response(&o, KEY, 0x1000, 1, true);
    add_response(&o, KEY + 0x200, 0x3000, 600, false);
    add_response(&o, KEY + 0x200, 0x3000 + 600, 400, true);
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

/* The sink of each response is that of its own Request: not the one before or behind it, not two
 * of them at once, and not a part. */
static void response__for_another_sge__is_a_fault(void **state)
{
    static const struct {
        uint32_t stag;
        uint64_t to;
        size_t n;
        enum iwarp_fault_code code;
    } rows[] = {{KEY, 0x1000, 8, IWARP_FAULT_NONE},
                {KEY, 0x1008, 8, IWARP_FAULT_READ_RESPONSE_BOUNDS},
                {KEY + 0x100, 0x2000, 8, IWARP_FAULT_READ_RESPONSE_STAG},
                {KEY, 0x1000, 16, IWARP_FAULT_READ_RESPONSE_BOUNDS},
                {KEY, 0x1000, 7, IWARP_FAULT_READ_RESPONSE_BOUNDS}};

    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.ord = 4});
        sinks(&e, 2);
        const struct iwarp_sge sgl[] = {area_sge(&e.area[0], 0, 8), area_sge(&e.area[0], 8, 8),
                                        area_sge(&e.area[1], 0, 8)};
        post_read(&e, sgl, 3, 0);
        endpoint_drain(&e);
        feed_response(&e, rows[i].stag, rows[i].to, rows[i].n);
        assert_string_equal(iwarp_fault_name(e.s.fault.code), iwarp_fault_name(rows[i].code));
        assert_int_equal(e.sq.done, 0);
        endpoint_drain(&e);
        endpoint_fini(&e);
    }
}

/* --- failures -------------------------------------------------------------------------------- */

/* Whichever SGE is wrong: the peer is asked for nothing. */
/* [VERBS-8.3.2-01] */
static void read__one_of_its_sges_wrong__asks_for_nothing(void **state)
{
    (void)state;
    for (unsigned wrong = 0; wrong < SINKS; wrong++) {
        for (unsigned how = 0; how < 4; how++) {
            struct iwarp_sge sgl[SINKS];
            struct endpoint e;
            endpoint_init(&e, &(struct endpoint_options){.ord = 8});
            sinks(&e, SINKS);
            endpoint_area(&e, 0x00888800, 0x1000, ROOM, READABLE, 0);
            endpoint_stranger(&e, 0x00999900, 0x1000, ROOM, LOCAL);
            for (unsigned i = 0; i < SINKS; i++) {
                sgl[i] = area_sge(&e.area[i], 0, 10);
            }
            sgl[wrong] = how == 0   ? area_sge(&e.area[SINKS], 0, 10)     /* no right */
                         : how == 1 ? area_sge(&e.area[SINKS + 1], 0, 10) /* another PD */
                                    : sgl[wrong];
            sgl[wrong].len = how == 2 ? ROOM + 1 : 10; /* out of bounds */
            sgl[wrong].lkey += how == 3;               /* no such STag */
            post_read(&e, sgl, SINKS, 0);
            assert_int_equal(sent(&e, 1), 0);
            assert_int_equal(sent(&e, 7), 1);
            assert_int_equal(e.s.fault.code, how == 0   ? IWARP_FAULT_LOCAL_SGE_ACCESS
                                             : how == 2 ? IWARP_FAULT_LOCAL_SGE_BOUNDS
                                                        : IWARP_FAULT_LOCAL_SGE);
            assert_int_equal(endpoint_swqe(&e, 0)->status, IWARP_WC_LOCAL_PROTECTION);
            assert_int_equal(e.sq.done, 0);
            endpoint_fini(&e);
        }
    }
}

/* The second sink goes after the first Request was sent. Either it is not asked for (ord 1), or its
 * response finds no place: the work request says why in both cases, and is not done. */
static void read__whose_second_sink_is_deregistered__is_a_local_protection_error(void **state)
{
    (void)state;
    for (uint32_t ord = 1; ord <= 2; ord++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.ord = ord});
        sinks(&e, 2);
        const struct iwarp_sge sgl[] = {area_sge(&e.area[0], 0, 8), area_sge(&e.area[1], 0, 600)};
        post_read(&e, sgl, 2, 0);
        assert_int_equal(sent(&e, 1), ord);
        endpoint_deregister(&e, &e.area[1]);
        feed_response(&e, KEY, 0x1000, 8);
        assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
        if (ord == 2) {
            feed_response(&e, KEY + 0x100, 0x2000, 600);
        }
        assert_int_equal(sent(&e, 1), ord);
        assert_int_equal(sent(&e, 7), 1);
        assert_int_equal(e.s.fault.code, IWARP_FAULT_LOCAL_SGE);
        assert_int_equal(endpoint_swqe(&e, 0)->status, IWARP_WC_LOCAL_PROTECTION);
        assert_int_equal(e.sq.done, 0);
        endpoint_fini(&e);
    }
}

/* A Terminate that quotes any Request of a Read is about that Read; its quote of an MSN that no
 * Request in flight has is about nobody. */
/* [RDMAP-7.1-03] */
static void terminate__about_one_request__blames_the_whole_read(void **state)
{
    (void)state;
    for (uint32_t msn = 1; msn <= 5; msn++) {
        struct octets o = {0};
        struct endpoint e;
        char ulpdu[200];
        endpoint_init(&e, &(struct endpoint_options){.ord = 4});
        sinks(&e, 1);
        post_read_of(&e, 1, 0);
        post_read_of(&e, 30, 0); /* of which 3 Requests are in flight */
        assert_int_equal(sent(&e, 1), 4);
        snprintf(ulpdu, sizeof ulpdu,
                 "4147 00000000 00000002 00000001 00000000 0100e000 002e"
                 "4141 00000000 00000001 %08x 00000000"
                 "11223300 0000000000001000 00000001 00010203 0000000000005000",
                 msn);
        fpdu_hex(&o, ulpdu, 0);
        iwarp_stream_feed(&e.s, o.p, o.n);
        assert_int_equal(e.s.fault.code, IWARP_FAULT_PEER_TERMINATE);
        assert_int_equal(endpoint_swqe(&e, 0)->status,
                         msn == 1 ? IWARP_WC_REMOTE_ACCESS : IWARP_WC_SUCCESS);
        assert_int_equal(endpoint_swqe(&e, 1)->status,
                         msn > 1 && msn < 5 ? IWARP_WC_REMOTE_ACCESS : IWARP_WC_SUCCESS);
        octets_free(&o);
        endpoint_fini(&e);
    }
}

/* Sends and Reads are numbered apart: a quoted Send says nothing about the Read of its MSN. */
static void terminate__about_a_send_of_the_same_msn__blames_no_read(void **state)
{
    (void)state;
    struct octets o = {0};
    struct endpoint e;

    endpoint_init(&e, &(struct endpoint_options){.ord = 4});
    sinks(&e, 1);
    post_read_of(&e, 1, 0);
    assert_int_equal(sent(&e, 1), 1);
    fpdu_hex(&o,
             "4147 00000000 00000002 00000001 00000000 1202c000 0012"
             "4143 00000000 00000000 00000001 00000000",
             0);
    iwarp_stream_feed(&e.s, o.p, o.n);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_PEER_TERMINATE);
    assert_int_equal(endpoint_swqe(&e, 0)->status, IWARP_WC_SUCCESS);
    octets_free(&o);
    endpoint_fini(&e);
}

/* --- the answer to a peer's Read ---------------------------------------------------------------
 */

#define CHANGED 8192u

static atomic_bool over;

static void *change(void *at)
{
    volatile uint64_t *words = at;

    for (uint64_t i = 0; !atomic_load_explicit(&over, memory_order_relaxed); i++) {
        for (unsigned k = 0; k < CHANGED / sizeof *words; k += 8) {
            words[k] = i;
        }
    }
    return NULL;
}

static void be_read(struct endpoint *e, uint32_t size)
{
    struct octets ulpdu = {0}, o = {0};

    octets_hex(&ulpdu, "4141 00000000 00000001");
    octets_be(&ulpdu, e->s.ddp.msn[IWARP_DDP_QN_READ_REQUEST], 4);
    octets_hex(&ulpdu, "00000000 00aa0000 0000000000005000");
    octets_be(&ulpdu, size, 4);
    octets_be(&ulpdu, SOURCE, 4);
    octets_be(&ulpdu, FROM, 8);
    fpdu_add(&o, ulpdu.p, ulpdu.n, 0);
    iwarp_stream_feed(&e->s, o.p, o.n);
    octets_free(&ulpdu);
    octets_free(&o);
}

static void expect_right_crcs(const struct octets *sent)
{
    for (size_t at = 0; at < sent->n;) {
        const uint8_t *p = sent->p + at;
        const uint32_t len = iwarp_mpa_fpdu_len(iwarp_get_be16(p)), crc_at = len - 4;
        assert_int_equal(iwarp_crc32c(0, p, crc_at), iwarp_get_le32(p + crc_at));
        at += len;
    }
}

/* Other peers may write to it. That is no fault of the reader, which is to find no wrong CRC.
 */
static void response__of_memory_that_changes__has_the_crc_of_what_is_sent(void **state)
{
    static const uint32_t sizes[] = {64, 1024, 1428, 4000};
    struct endpoint e;
    pthread_t thread;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.mulpdu = 1442, .ird = 4, .ord = 4});
    struct area *a = endpoint_area(&e, SOURCE, FROM, CHANGED, READABLE, 0);
    atomic_store(&over, false);
    assert_int_equal(pthread_create(&thread, NULL, change, a->p), 0);
    for (unsigned i = 0; i < 4000; i++) {
        be_read(&e, sizes[i % 4]);
        e.sent.n = 0;
        endpoint_drain(&e);
        expect_right_crcs(&e.sent);
    }
    atomic_store(&over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    endpoint_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read__into_several_sges__is_a_request_for_each_with_octets),
        cmocka_unit_test(read__of_no_octets__is_one_request),
        cmocka_unit_test(read__with_more_sges_than_ord__waits_for_responses),
        cmocka_unit_test(read__with_fence__waits_for_earlier_reads_and_not_for_itself),
        cmocka_unit_test(read__half_asked_for__lets_the_peer_be_answered),
        cmocka_unit_test(close__with_half_a_read_asked_for__goes_on_with_it),
        cmocka_unit_test(responses__to_a_scattered_read__are_placed_in_their_sges),
        cmocka_unit_test(response__for_another_sge__is_a_fault),
        cmocka_unit_test(read__one_of_its_sges_wrong__asks_for_nothing),
        cmocka_unit_test(read__whose_second_sink_is_deregistered__is_a_local_protection_error),
        cmocka_unit_test(terminate__about_one_request__blames_the_whole_read),
        cmocka_unit_test(terminate__about_a_send_of_the_same_msn__blames_no_read),
        cmocka_unit_test(response__of_memory_that_changes__has_the_crc_of_what_is_sent),
    };

    return cmocka_run_group_tests_name("stream_read", tests, NULL, NULL);
}
