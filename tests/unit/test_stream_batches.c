/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much goes out in one batch: small ones where calls are cheap; else large ones, but for the
 * begin of a lone message that is short or that the peer may wait for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "endpoint.h"
#include "vectors.h"

#define KEY   0x00aabb00u
#define KIB   1024u
#define MIB   (1024u * KIB)
#define SMALL (124 * KIB)
#define LARGE (1040 * KIB)
#define MOST  20

struct sent {
    size_t of[MOST]; /* octets of each batch */
    unsigned n;
};

static void begin(struct endpoint *e, uint32_t mulpdu, bool large)
{
    endpoint_init(e,
                  &(struct endpoint_options){.mulpdu = mulpdu, .large_batches = large, .ird = 4});
    endpoint_area(e, KEY, 0x7000, MIB, LOCAL | READABLE, 1);
}

static void post(struct endpoint *e, size_t octets)
{
    const struct iwarp_sge sge = area_sge(&e->area[0], 0, octets);
    endpoint_post(e, &(struct iwarp_send_wr){.sg_list = &sge, .num_sge = 1});
}

/* A Write of nothing. */
static void hear(struct endpoint *e)
{
    endpoint_feed_hex(e, V09);
}

static struct sent drain(struct endpoint *e)
{
    struct sent s = {.n = 0};

    for (size_t n; (n = endpoint_send(e, SIZE_MAX)) > 0; s.n++) {
        assert_true(s.n < MOST);
        s.of[s.n] = n;
        iwarp_stream_released(&e->s, n);
    }
    endpoint_forget_sent(e);
    return s;
}

/*
 * `n` batches: the first has `first` octets, the others `each`, and less than an FPDU more; but the
 * last takes what is left.
 */
static void expect(const struct endpoint *e, const struct sent *s, unsigned n, size_t first,
                   size_t each)
{
    assert_int_equal(s->n, n);
    for (unsigned k = 0; k + 1 < n; k++) {
        size_t least = k == 0 ? first : each;
        assert_in_range(s->of[k], least, least + e->s.config.mulpdu + 8);
    }
}

static const uint32_t mulpdus[] = {65000, 4000};

static void batches__by_what_waits_and_what_was_heard(void **state)
{
    static const struct {
        bool large, heard;
        unsigned requests; /* of 1 MiB each */
        unsigned batches;
        size_t first, each;
    } cases[] = {
        {true, true, 1, 2, SMALL, LARGE},   {true, false, 1, 1, LARGE, LARGE},
        {true, true, 2, 2, LARGE, LARGE},   {true, false, 2, 2, LARGE, LARGE},
        {false, true, 1, 9, SMALL, SMALL},  {false, false, 1, 9, SMALL, SMALL},
        {false, true, 2, 17, SMALL, SMALL}, {false, false, 2, 17, SMALL, SMALL},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (unsigned m = 0; m < 2; m++) {
            struct endpoint e;
            begin(&e, mulpdus[m], cases[i].large);
            for (unsigned round = 0; round < 3; round++) {
                if (cases[i].heard) {
                    hear(&e);
                }
                for (unsigned k = 0; k < cases[i].requests; k++) {
                    post(&e, MIB);
                }
                struct sent s = drain(&e);
                expect(&e, &s, cases[i].batches, cases[i].first, cases[i].each);
                assert_int_equal(e.sq.done, (round + 1) * cases[i].requests);
            }
            endpoint_fini(&e);
        }
    }
}

/* What was heard counts for one message that is not short. */
static void batches__of_the_next_message__are_large_again(void **state)
{
    struct endpoint e;
    struct sent s;

    (void)state;
    begin(&e, 65000, true);
    hear(&e);
    post(&e, 100);
    (void)drain(&e);
    post(&e, MIB);
    s = drain(&e);
    expect(&e, &s, 2, SMALL, LARGE);
    post(&e, MIB);
    s = drain(&e);
    expect(&e, &s, 1, LARGE, LARGE);
    hear(&e);
    post(&e, MIB);
    post(&e, MIB);
    (void)drain(&e);
    post(&e, MIB);
    s = drain(&e);
    expect(&e, &s, 1, LARGE, LARGE);
    endpoint_fini(&e);
}

/* Short ones are never in more than two, and need no word of the peer. */
static void batches__of_short_messages__begin_small(void **state)
{
    static const struct {
        size_t octets;
        unsigned batches;
    } cases[] = {{1, 1},         {64 * KIB, 1},  {120 * KIB, 1}, {128 * KIB, 2},
                 {256 * KIB, 2}, {500 * KIB, 2}, {501 * KIB, 1}};

    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct endpoint e;
        begin(&e, 65000, true);
        post(&e, cases[i].octets);
        struct sent s = drain(&e);
        expect(&e, &s, cases[i].batches, SMALL, LARGE);
        endpoint_fini(&e);
    }
}

/* The peer may have asked for more meanwhile, so only the begin of a short one comes soon. */
static void batches__of_read_responses__begin_small_if_they_are_short(void **state)
{
    (void)state;
    for (unsigned m = 0; m < 2; m++) {
        struct endpoint e;
        struct sent s;
        begin(&e, mulpdus[m], true);
        e.s.config.crc = false;
        endpoint_feed_read(&e, 1, MIB);
        s = drain(&e);
        expect(&e, &s, 1, LARGE, LARGE);
        endpoint_feed_read(&e, 2, 256 * KIB);
        s = drain(&e);
        expect(&e, &s, 2, SMALL, LARGE);
        endpoint_feed_read(&e, 3, MIB);
        endpoint_feed_read(&e, 4, MIB);
        s = drain(&e);
        expect(&e, &s, 2, LARGE, LARGE);
        endpoint_fini(&e);
    }
}

/* With CRCs Read Responses are copied, and requests if that was chosen: a batch has what a block
 * has room for. */
static void batches__of_what_is_copied__are_as_long_as_a_block(void **state)
{
    (void)state;
    for (unsigned m = 0; m < 4; m++) {
        struct endpoint e;
        begin(&e, mulpdus[m % 2], true);
        if (m < 2) {
            endpoint_feed_read(&e, 1, MIB);
        } else {
            e.s.config.copies = true;
            post(&e, MIB);
        }
        struct sent s = drain(&e);
        assert_int_equal(s.n, 6);
        for (unsigned i = 0; i + 1 < s.n; i++) {
            assert_in_range(s.of[i], 184 * KIB, 192 * KIB);
        }
        endpoint_fini(&e);
    }
}

/* The transport was full, so the batch in which the answer could begin has no room for it. */
static void batches__behind_octets_that_are_left__begin_small(void **state)
{
    struct endpoint e;
    struct sent s;

    (void)state;
    begin(&e, 65000, true);
    post(&e, MIB);
    iwarp_stream_released(&e.s, endpoint_send(&e, MIB - 200 * KIB));
    hear(&e);
    post(&e, MIB);
    iwarp_stream_released(&e.s, endpoint_send(&e, SIZE_MAX));
    s = drain(&e);
    expect(&e, &s, 2, SMALL, LARGE);
    assert_int_equal(e.sq.done, 2);
    endpoint_fini(&e);
}

/* A Terminate is left behind octets that the transport did not take: no queue is looked at. */
static void batches__of_a_terminate__need_no_queues(void **state)
{
    struct endpoint e;

    (void)state;
    begin(&e, 65000, true);
    struct iwarp_wq *sq = e.s.config.sq;
    post(&e, 1000);
    (void)endpoint_send(&e, 500);
    endpoint_feed_hex(&e, "000ec140 00000000 00000000 00000000 a30572ac"); /* a wrong CRC */
    assert_int_equal(e.s.fault.code, IWARP_FAULT_MPA_CRC);
    iwarp_stream_detach(&e.s);
    e.s.config.sq = NULL;
    const struct iovec *iov = NULL;
    unsigned count = iwarp_stream_gather(&e.s, &iov);
    assert_true(count > 0);
    size_t n = 0;
    for (unsigned i = 0; i < count; i++) {
        n += iov[i].iov_len;
    }
    assert_true(n > 1000 + 24 - 500); /* the rest of the message, and the Terminate */
    assert_true(e.s.tx.terminate_framed);
    iwarp_stream_sent(&e.s, n);
    e.s.config.sq = sq;
    endpoint_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches__by_what_waits_and_what_was_heard),
        cmocka_unit_test(batches__of_the_next_message__are_large_again),
        cmocka_unit_test(batches__of_short_messages__begin_small),
        cmocka_unit_test(batches__of_read_responses__begin_small_if_they_are_short),
        cmocka_unit_test(batches__of_what_is_copied__are_as_long_as_a_block),
        cmocka_unit_test(batches__behind_octets_that_are_left__begin_small),
        cmocka_unit_test(batches__of_a_terminate__need_no_queues),
    };

    return cmocka_run_group_tests_name("stream_batches", tests, NULL, NULL);
}
