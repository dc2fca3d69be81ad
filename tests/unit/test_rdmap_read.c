/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rings of RDMA Reads in flight: order, depth exactly IRD and ORD, depth 0, many turns around
 * the ring.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/limits.h"
#include "rdmap/rdmap_read.h"

static void reads__depth_0__has_no_slot_and_no_oldest(void **state)
{
    struct iwarp_rdmap_reads r;

    (void)state;
    iwarp_rdmap_reads_init(&r, 0, 0);
    assert_null(iwarp_rdmap_in_slot(&r));
    assert_null(iwarp_rdmap_out_slot(&r));
    assert_null(iwarp_rdmap_in_oldest(&r));
    assert_null(iwarp_rdmap_out_oldest(&r));
    iwarp_rdmap_reads_fini(&r);
}

static void reads__slot_not_counted__is_given_again(void **state)
{
    struct iwarp_rdmap_reads r;

    (void)state;
    iwarp_rdmap_reads_init(&r, 2, 2);
    assert_non_null(iwarp_rdmap_in_slot(&r));
    assert_ptr_equal(iwarp_rdmap_in_slot(&r), iwarp_rdmap_in_slot(&r));
    assert_null(iwarp_rdmap_in_oldest(&r));
    iwarp_rdmap_reads_fini(&r);
}

/* For every depth: fill up, be refused, take the oldest off, and so on, three times around. */
static void in__every_small_depth__is_a_queue_of_exactly_that_depth(void **state)
{
    (void)state;
    for (uint32_t ird = 1; ird <= 9; ird++) {
        struct iwarp_rdmap_reads r;
        uint32_t put = 0, taken = 0;
        iwarp_rdmap_reads_init(&r, ird, 1);
        for (uint32_t step = 0; step < 3 * ird; step++) {
            struct iwarp_read_in *slot;
            while ((slot = iwarp_rdmap_in_slot(&r)) != NULL) {
                slot->msn = put++;
                r.in_count++;
            }
            assert_int_equal(put - taken, ird);
            for (uint32_t k = 0; k <= step % ird; k++) {
                assert_int_equal(iwarp_rdmap_in_oldest(&r)->msn, taken++);
                iwarp_rdmap_in_pop(&r);
            }
        }
        while (r.in_count > 0) {
            assert_int_equal(iwarp_rdmap_in_oldest(&r)->msn, taken++);
            iwarp_rdmap_in_pop(&r);
        }
        assert_int_equal(put, taken);
        assert_null(iwarp_rdmap_in_oldest(&r));
        iwarp_rdmap_reads_fini(&r);
    }
}

/* A peer that uses up its own depth takes nothing away from another stream. */
/* [RDMAP-8.1.2-07] [SEC-6.4.3.3-01] */
static void in__of_two_streams__have_nothing_in_common(void **state)
{
    enum { IRD = 4 };
    struct iwarp_rdmap_reads r[2];

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        iwarp_rdmap_reads_init(&r[i], IRD, 0);
        for (uint32_t k = 0; k < IRD; k++) {
            struct iwarp_read_in *slot = iwarp_rdmap_in_slot(&r[i]);
            assert_non_null(slot);
            slot->msn = 100 * i + k;
            r[i].in_count++;
        }
        assert_null(iwarp_rdmap_in_slot(&r[i]));
    }
    for (uint32_t k = 0; k < IRD; k++) {
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(iwarp_rdmap_in_oldest(&r[i])->msn, 100 * i + k);
            iwarp_rdmap_in_pop(&r[i]);
        }
    }
    iwarp_rdmap_reads_fini(&r[0]);
    iwarp_rdmap_reads_fini(&r[1]);
}

static void out__every_small_depth__is_a_queue_of_exactly_that_depth(void **state)
{
    (void)state;
    for (uint32_t ord = 1; ord <= 9; ord++) {
        struct iwarp_rdmap_reads r;
        uint32_t put = 0, taken = 0;
        iwarp_rdmap_reads_init(&r, 1, ord);
        for (uint32_t step = 0; step < 3 * ord; step++) {
            struct iwarp_read_out *slot;
            while ((slot = iwarp_rdmap_out_slot(&r)) != NULL) {
                slot->wqe = put++;
                r.out_count++;
            }
            assert_int_equal(put - taken, ord);
            for (uint32_t k = 0; k <= step % ord; k++) {
                assert_int_equal(iwarp_rdmap_out_oldest(&r)->wqe, taken++);
                iwarp_rdmap_out_pop(&r);
            }
        }
        iwarp_rdmap_reads_fini(&r);
    }
}

static void reads__greatest_depth__is_there_whole(void **state)
{
    struct iwarp_rdmap_reads r;
    uint32_t n = 0;

    (void)state;
    iwarp_rdmap_reads_init(&r, IWARP_MAX_READ_DEPTH, IWARP_MAX_READ_DEPTH);
    for (; iwarp_rdmap_in_slot(&r); n++) {
        iwarp_rdmap_in_slot(&r)->request.size = n;
        iwarp_rdmap_out_slot(&r)->wqe = n;
        r.in_count++;
        r.out_count++;
    }
    assert_int_equal(n, IWARP_MAX_READ_DEPTH);
    assert_null(iwarp_rdmap_out_slot(&r));
    iwarp_rdmap_reads_fini(&r);
}

static void put(struct iwarp_rdmap_reads *r, uint32_t n)
{
    iwarp_rdmap_in_slot(r)->msn = n;
    iwarp_rdmap_out_slot(r)->wqe = n;
    r->in_count++;
    r->out_count++;
}

static void take(struct iwarp_rdmap_reads *r, uint32_t n)
{
    assert_int_equal(iwarp_rdmap_in_oldest(r)->msn, n);
    assert_int_equal(iwarp_rdmap_out_oldest(r)->wqe, n);
    iwarp_rdmap_in_pop(r);
    iwarp_rdmap_out_pop(r);
}

/* However far a ring of four slots has turned when it is full: what is in it stays in order. */
static void rings__growing_at_any_turn__keep_their_order(void **state)
{
    enum { DEPTH = 11, SLOTS = 4 };

    (void)state;
    for (uint32_t turned = 0; turned < SLOTS; turned++) {
        struct iwarp_rdmap_reads r;
        uint32_t in = 0, out = 0;
        iwarp_rdmap_reads_init(&r, DEPTH, DEPTH);
        while (in < SLOTS) {
            put(&r, in++);
        }
        while (out < turned) {
            take(&r, out++);
        }
        while (r.in_count < SLOTS) {
            put(&r, in++);
        }
        assert_int_equal(r.in_slots, SLOTS);
        assert_int_equal(r.in_head, turned);
        assert_int_equal(r.out_slots, SLOTS);
        assert_int_equal(r.out_head, turned);
        while (r.in_count < DEPTH) {
            put(&r, in++);
        }
        assert_null(iwarp_rdmap_in_slot(&r));
        assert_null(iwarp_rdmap_out_slot(&r));
        while (out < in) {
            take(&r, out++);
        }
        iwarp_rdmap_reads_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads__depth_0__has_no_slot_and_no_oldest),
        cmocka_unit_test(reads__slot_not_counted__is_given_again),
        cmocka_unit_test(in__every_small_depth__is_a_queue_of_exactly_that_depth),
        cmocka_unit_test(in__of_two_streams__have_nothing_in_common),
        cmocka_unit_test(out__every_small_depth__is_a_queue_of_exactly_that_depth),
        cmocka_unit_test(reads__greatest_depth__is_there_whole),
        cmocka_unit_test(rings__growing_at_any_turn__keep_their_order),
    };
    return cmocka_run_group_tests_name("rdmap_read", tests, NULL, NULL);
}
