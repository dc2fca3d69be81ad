/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stream/stream_block, while the peer has stopped reading: when memory is scarce a stream holds no
 * more than the unsent octets need, and what goes out in the end is the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "endpoint.h"
#include "stream/stream_block.h"

#define STAG  0x00010200u
#define LARGE 300000u

/* As if other streams held that much. */
static void others_hold(struct endpoint *e, size_t n)
{
    atomic_fetch_add(&e->budget.used, n);
}

static void others_give_back(struct endpoint *e, size_t n)
{
    atomic_fetch_sub(&e->budget.used, n);
}

static size_t held(struct endpoint *e, size_t by_others)
{
    return atomic_load(&e->budget.used) - by_others;
}

static struct area *area_with_pattern(struct endpoint *e)
{
    struct area *a = endpoint_area(e, STAG, 0x7000, LARGE, 0, 0);

    for (size_t i = 0; i < LARGE; i++) {
        a->p[i] = (uint8_t)(i * 31 + (i >> 9));
    }
    return a;
}

static void post(struct endpoint *e, const struct area *a, size_t off, size_t len, bool write)
{
    struct iwarp_sge sge = area_sge(a, off, len);
    struct iwarp_send_wr wr = {.opcode = write ? IWARP_WR_WRITE : IWARP_WR_SEND,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .remote_stag = 0x11223344,
                               .remote_to = 0x1000};

    endpoint_post(e, &wr);
}

static void blocked__memory_is_plenty__keeps_its_block(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    post(&e, area_with_pattern(&e), 0, LARGE, true);
    assert_int_equal(endpoint_send(&e, 1000), 1000);
    assert_in_range(held(&e, 0), TX_BYTES, TX_BYTES + 32768);
    endpoint_drain(&e);
    assert_int_equal(held(&e, 0), 0);
    endpoint_fini(&e);
}

static void blocked__memory_is_scarce__keeps_what_is_unsent(void **state)
{
    const struct endpoint_options o = {.budget = 1 << 20};
    const size_t others = TX_SCARCE((size_t)1 << 20);
    struct endpoint e;

    (void)state;
    for (unsigned n = 0; n < 2; n++) { /* nothing taken, and some */
        endpoint_init(&e, &o);
        others_hold(&e, others);
        post(&e, area_with_pattern(&e), 0, LARGE, true);
        assert_int_equal(endpoint_send(&e, 1000 * n), 1000 * n);
        assert_in_range(held(&e, others), 1, 12000);
        assert_int_equal(endpoint_send(&e, 0), 0); /* not moved again and again */
        assert_in_range(held(&e, others), 1, 12000);
        endpoint_drain(&e);
        iwarp_stream_released(&e.s, 1000 * n);
        assert_int_equal(held(&e, others), 0);
        assert_int_equal(e.sq.done, 1);
        others_give_back(&e, others);
        endpoint_fini(&e);
    }
}

/* Of a Read Response some 16 KiB are copied at a time. */
static void blocked__in_a_read_response_and_memory_is_scarce__keeps_little(void **state)
{
    const struct endpoint_options o = {.budget = 1 << 20, .ird = 1};
    const size_t others = TX_SCARCE((size_t)1 << 20);
    struct octets request = {0};
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &o);
    others_hold(&e, others);
    (void)endpoint_area(&e, STAG, 0x7000, LARGE, IWARP_ACCESS_REMOTE_READ, 0);
    fpdu_hex(&request,
             "4141 00000000 00000001 00000001 00000000 11223344 00000000 00002000"
             "000493e0 00010200 00000000 00007000", /* LARGE octets of STAG */
             0);
    iwarp_stream_feed(&e.s, request.p, request.n);
    octets_free(&request);
    assert_int_equal(endpoint_send(&e, 1000), 1000);
    assert_in_range(held(&e, others), 1000, 20000);
    endpoint_drain(&e);
    assert_int_equal(held(&e, others), 0);
    others_give_back(&e, others);
    endpoint_fini(&e);
}

/* There is room for the block itself, but not for another one beside it. */
static void blocked__no_room_to_move__goes_on_as_it_is(void **state)
{
    struct endpoint_options o = {.budget = 1 << 20};
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    post(&e, area_with_pattern(&e), 0, LARGE, false);
    (void)endpoint_send(&e, 1);
    o.budget = held(&e, 0); /* exactly one block */
    endpoint_drain(&e);
    endpoint_fini(&e);
    endpoint_init(&e, &o);
    post(&e, area_with_pattern(&e), 0, LARGE, false);
    assert_int_equal(endpoint_send(&e, 777), 777);
    assert_int_equal(held(&e, 0), o.budget);
    endpoint_drain(&e);
    iwarp_stream_released(&e.s, 777);
    assert_int_equal(e.sq.done, 1);
    endpoint_fini(&e);
}

/* Requests of all sizes, sent in random steps: scarce or not, the octets are the same. */
static void drain(struct octets *sent, const struct endpoint_options *o, bool scarce, uint64_t seed)
{
    struct chance chance = {seed}, steps = {~seed};
    size_t others = scarce ? TX_SCARCE(o->budget) : 0;
    struct endpoint e;

    endpoint_init(&e, o);
    others_hold(&e, others);
    const struct area *a = area_with_pattern(&e);
    for (unsigned i = 0; i < 40; i++) {
        size_t n = chance_below(&chance, i % 4 ? 700 : 40000), off = chance_below(&chance, 200000);
        post(&e, a, off, n, i % 3 == 0);
        while (chance_one_in(&steps, 2) && endpoint_send(&e, chance_below(&steps, 9000)) > 0) {
        }
    }
    while (endpoint_send(&e, 1 + chance_below(&steps, 5000)) > 0) {
    }
    assert_int_equal(held(&e, others), 0);
    others_give_back(&e, others);
    octets_add(sent, e.sent.p, e.sent.n);
    iwarp_stream_released(&e.s, e.sent.n);
    assert_int_equal(e.sq.done, 40);
    endpoint_forget_sent(&e);
    endpoint_fini(&e);
}

static void blocked__again_and_again__sends_the_same_octets(void **state)
{
    uint64_t seed = chance_seed();

    (void)state;
    for (unsigned i = 0; i < 40; i++, seed++) {
        struct octets plenty = {0}, scarce = {0};
        const struct endpoint_options o = {.budget = 1 << 20,
                                           .no_crc = i % 2,
                                           .markers_tx = i / 2 % 2,
                                           .mulpdu = i / 4 % 2 ? 8000 : 0};
        drain(&plenty, &o, false, seed);
        drain(&scarce, &o, true, seed);
        assert_true(plenty.n > 50000); /* 210000 in the mean */
        assert_int_equal(plenty.n, scarce.n);
        assert_memory_equal(plenty.p, scarce.p, plenty.n);
        octets_free(&plenty);
        octets_free(&scarce);
    }
}

/* A region that goes while its octets are in a moved block is noticed as in another. */
static void blocked__region_goes__resets(void **state)
{
    const struct endpoint_options o = {.budget = 1 << 20};
    const size_t others = TX_SCARCE((size_t)1 << 20);
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &o);
    others_hold(&e, others);
    struct area *a = area_with_pattern(&e);
    post(&e, a, 0, LARGE, true);
    assert_int_equal(endpoint_send(&e, 1000), 1000);
    endpoint_deregister(&e, a);
    assert_int_equal(endpoint_send(&e, 1000), 0);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_LOCAL_DEREGISTERED);
    assert_int_equal(held(&e, others), 0);
    others_give_back(&e, others);
    endpoint_forget_sent(&e);
    endpoint_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocked__memory_is_plenty__keeps_its_block),
        cmocka_unit_test(blocked__memory_is_scarce__keeps_what_is_unsent),
        cmocka_unit_test(blocked__in_a_read_response_and_memory_is_scarce__keeps_little),
        cmocka_unit_test(blocked__no_room_to_move__goes_on_as_it_is),
        cmocka_unit_test(blocked__again_and_again__sends_the_same_octets),
        cmocka_unit_test(blocked__region_goes__resets),
    };

    return cmocka_run_group_tests_name("stream_stopped", tests, NULL, NULL);
}
