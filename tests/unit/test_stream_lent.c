/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Octets that a transport lends: the beginning of an FPDU is held and not copied, within the
 * budget; payload in several pieces is copied once; and what a transport refers to is known by its
 * region until it is released. That the end is the same as by any other way is in all tests of
 * receiving (support/deliveries.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "endpoint.h"

#include <stdlib.h>

#define KEY  0x00aabb00u
#define FILL 0xee

static void write_fpdu(struct octets *o, size_t payload)
{
    fpdu_hex(o, "c140 00010203 0000000000001000", payload);
}

static size_t take(struct endpoint *e, const struct octets *o, size_t from, size_t to, bool last,
                   size_t *held)
{
    const struct iovec iov[2] = {{o->p + from, (to - from) / 2},
                                 {o->p + from + (to - from) / 2, to - from - (to - from) / 2}};
    unsigned first = iov[0].iov_len == 0;

    return iwarp_stream_take(&e->s, iov + first, 2 - first, last, held);
}

/* Each beginning of an FPDU, in two pieces: nothing is copied, nothing allocated, and it counts. */
static void beginning__of_an_fpdu__is_held(void **state)
{
    struct octets o = {0};
    struct endpoint e;
    size_t held;

    (void)state;
    write_fpdu(&o, 1000);
    for (size_t n = 1; n < o.n; n++) {
        endpoint_init(&e, NULL);
        struct area *a = endpoint_area(&e, 0x00010203, 0x1000, 1000, WRITABLE, FILL);
        assert_int_equal(take(&e, &o, 0, n, false, &held), 0);
        assert_int_equal(held, n);
        assert_int_equal(atomic_load(&e.budget.used), n);
        assert_null(e.s.rx.carry);
        assert_int_equal(a->p[0], FILL);
        assert_int_equal(take(&e, &o, 0, o.n, false, &held), o.n);
        assert_int_equal(held, 0);
        assert_int_equal(atomic_load(&e.budget.used), 0);
        assert_memory_equal(a->p, o.p + 16, 1000);
        endpoint_fini(&e);
    }
    octets_free(&o);
}

/* Two whole ones and a half: the whole ones are given back. */
static void whole__before_a_beginning__are_given_back(void **state)
{
    struct octets o = {0};
    struct endpoint e;
    size_t held;

    (void)state;
    write_fpdu(&o, 700);
    write_fpdu(&o, 600);
    size_t whole = o.n;
    write_fpdu(&o, 1000);
    endpoint_init(&e, NULL);
    endpoint_area(&e, 0x00010203, 0x1000, 1000, WRITABLE, FILL);
    assert_int_equal(take(&e, &o, 0, whole + 500, false, &held), whole);
    assert_int_equal(held, 500);
    assert_int_equal(e.s.rx.fpdus, 2);
    assert_int_equal(take(&e, &o, whole, whole + 500, true, &held), 500); /* no more can be lent */
    assert_int_equal(held, 0);
    assert_non_null(e.s.rx.carry);
    assert_int_equal(take(&e, &o, whole + 500, o.n, false, &held), o.n - whole - 500);
    assert_int_equal(e.s.rx.fpdus, 3);
    endpoint_fini(&e);
    octets_free(&o);
}

/* An FPDU of more than half of a small window would close it for ever. */
static void beginning__of_a_large_fpdu__is_collected(void **state)
{
    struct octets o = {0};
    struct endpoint e;
    size_t held;

    (void)state;
    write_fpdu(&o, 40000);
    endpoint_init(&e, NULL);
    struct area *a = endpoint_area(&e, 0x00010203, 0x1000, 40000, WRITABLE, FILL);
    assert_int_equal(take(&e, &o, 0, 30000, false, &held), 30000);
    assert_int_equal(held, 0);
    assert_int_equal(take(&e, &o, 30000, o.n, false, &held), o.n - 30000);
    assert_memory_equal(a->p, o.p + 16, 40000);
    endpoint_fini(&e);
    octets_free(&o);
}

static void beginning__over_the_budget__is_a_fault(void **state)
{
    struct octets o = {0};
    struct endpoint e;
    size_t held;

    (void)state;
    write_fpdu(&o, 5000);
    endpoint_init(&e, &(struct endpoint_options){.budget = 3000});
    endpoint_area(&e, 0x00010203, 0x1000, 5000, WRITABLE, FILL);
    assert_int_equal(take(&e, &o, 0, 2000, false, &held), 0);
    assert_int_equal(held, 2000);
    assert_int_equal(take(&e, &o, 0, 4000, false, &held), 4000);
    assert_int_equal(held, 0);
    assert_string_equal(iwarp_fault_name(e.s.fault.code), "LOCAL_BUFFER_LIMIT");
    assert_int_equal(atomic_load(&e.budget.used), 0);
    endpoint_fini(&e);
    octets_free(&o);
}

/* --- referred to ----------------------------------------------------------------------------- */

struct burst {
    uint32_t fpdus[64];
    unsigned count;
    struct iovec passing;
    uint32_t rest;
};

/* As a driver does whose transport takes n octets, and refers to what stays. */
static size_t send_burst(struct endpoint *e, size_t n, struct burst *b, unsigned room)
{
    const struct iovec *iov = NULL;
    unsigned count = iwarp_stream_gather(&e->s, &iov);
    size_t offered = 0;

    assert_true(count > 0);
    b->rest = e->s.tx.cut;
    b->count = iwarp_stream_fpdus(&e->s, iov, b->fpdus, room, &b->passing);
    for (unsigned i = 0; i < b->count; i++) {
        offered += b->fpdus[i];
    }
    n = n < offered ? n : offered;
    iwarp_stream_cut(&e->s, b->fpdus, b->count, n);
    iwarp_stream_sent(&e->s, n);
    return n;
}

static void post_area(struct endpoint *e, const struct area *a)
{
    const struct iwarp_sge sge = area_sge(a, 0, a->n);
    endpoint_post(e, &(struct iwarp_send_wr){.sg_list = &sge, .num_sge = 1});
}

/* Payload of such a size is referred to. */
static const struct endpoint_options refers = {.refers = true};

static void region__with_octets_in_flight__is_known_until_released(void **state)
{
    struct burst burst;
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &refers);
    struct area *a = endpoint_area(&e, KEY, 0x7000, 1400, 0, 1);
    struct area *b = endpoint_area(&e, KEY + 0x100, 0x7000, 1400, 0, 2);
    struct area *small = endpoint_area(&e, KEY + 0x200, 0x7000, 100, 0, 3);
    post_area(&e, a);
    post_area(&e, b);
    post_area(&e, small);
    assert_int_equal(send_burst(&e, SIZE_MAX, &burst, 8), 1424 + 1424 + 124);
    assert_int_equal(burst.count, 3);
    assert_true(iwarp_stream_refers(&e.s, &a->region) && iwarp_stream_refers(&e.s, &b->region));
    assert_false(iwarp_stream_refers(&e.s, &small->region)); /* copied */
    assert_false(iwarp_region_lent(&a->region));
    assert_int_equal(atomic_load(&a->region.referred), 1);
    iwarp_stream_released(&e.s, 1423);
    assert_true(iwarp_stream_refers(&e.s, &a->region));
    assert_int_equal(e.sq.done, 0);
    iwarp_stream_released(&e.s, 1);
    assert_false(iwarp_stream_refers(&e.s, &a->region));
    assert_int_equal(atomic_load(&a->region.referred), 0);
    assert_true(iwarp_stream_refers(&e.s, &b->region));
    assert_int_equal(e.sq.done, 1);
    iwarp_stream_forget(&e.s); /* the transport is closed */
    assert_int_equal(atomic_load(&b->region.referred), 0);
    endpoint_fini(&e);
}

/* More regions than are counted: the payload of all is copied, and the stream goes on. */
static void regions__too_many__are_copied(void **state)
{
    struct burst burst;
    struct area *area[40];
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &refers);
    for (unsigned i = 0; i < 40; i++) {
        area[i] = endpoint_area(&e, KEY + 0x100 * i, 0x7000, 1100, 0, (uint8_t)i);
        post_area(&e, area[i]);
    }
    bool copied = false;
    for (size_t sent = 0; sent < 40 * 1124ul;) {
        sent += send_burst(&e, SIZE_MAX, &burst, 64);
        copied = copied || (!burst.passing.iov_base && burst.passing.iov_len == SIZE_MAX);
    }
    assert_true(copied);
    iwarp_stream_released(&e.s, 40 * 1124ul);
    assert_int_equal(e.sq.done, 40);
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(atomic_load(&area[i]->region.referred), 0);
    }
    endpoint_fini(&e);
}

/* Cut anywhere and with room for few: the bursts always say where FPDUs begin. */
static void burst__cut_anywhere__knows_the_borders(void **state)
{
    struct chance c = {chance_seed()};

    (void)state;
    for (unsigned markers = 0; markers < 2; markers++) {
        struct endpoint e;
        size_t border = 0, sent = 0, total = 0;
        endpoint_init(&e, &(struct endpoint_options){.markers_tx = markers});
        struct area *a = endpoint_area(&e, KEY, 0x7000, 30000, 0, 1);
        for (unsigned i = 0; i < 20; i++) {
            const struct iwarp_sge sge = area_sge(a, 0, chance_size(&c, 9000));
            endpoint_post(&e, &(struct iwarp_send_wr){.sg_list = &sge, .num_sge = 1});
        }
        while (iwarp_stream_interest(&e.s) & IWARP_STREAM_WRITE) {
            struct burst burst;
            bool at_border = sent == border;
            size_t n = send_burst(&e, chance_size(&c, 6000), &burst, 5);
            assert_int_equal(burst.rest > 0, !at_border);
            if (burst.rest > 0) {
                assert_int_equal(border - sent, burst.fpdus[0]);
            }
            total = sent;
            for (unsigned i = 0; i < burst.count && total < sent + n; i++) {
                total += burst.fpdus[i];
            }
            border = n > 0 ? total : border;
            sent += n;
        }
        assert_int_equal(border, sent);
        assert_int_equal(sent, e.s.tx.framed);
        iwarp_stream_released(&e.s, sent);
        assert_int_equal(e.sq.done, 20);
        endpoint_fini(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beginning__of_an_fpdu__is_held),
        cmocka_unit_test(whole__before_a_beginning__are_given_back),
        cmocka_unit_test(beginning__of_a_large_fpdu__is_collected),
        cmocka_unit_test(beginning__over_the_budget__is_a_fault),
        cmocka_unit_test(region__with_octets_in_flight__is_known_until_released),
        cmocka_unit_test(regions__too_many__are_copied),
        cmocka_unit_test(burst__cut_anywhere__knows_the_borders),
    };

    return cmocka_run_group_tests_name("stream_lent", tests, NULL, NULL);
}
