/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work queues: exactly as many entries as asked for, positions that wrap at 2^32, entries that do
 * not overlap, and one producer beside one consumer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/limits.h"
#include "stream/wq.h"

#define ENTRY (sizeof(struct iwarp_rwqe) + 3 * sizeof(struct iwarp_sge))

static void start_at(struct iwarp_wq *q, uint32_t position)
{
    q->head = q->reaped = position;
    q->next = q->done = position;
}

static void init__no_entries__has_no_room_and_nothing_waits(void **state)
{
    struct iwarp_wq q;

    (void)state;
    assert_true(iwarp_wq_init(&q, 0, ENTRY));
    assert_false(iwarp_wq_room(&q));
    assert_false(iwarp_wq_waiting(&q));
    iwarp_wq_fini(&q);
}

/* From a start in front of the wrap of the counters, as many as asked for and then no more. */
static void push__any_number_of_entries__has_room_for_exactly_these(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 127, 128, 129, 1000};
    static const uint32_t starts[] = {0, UINT32_MAX, UINT32_MAX - 2, 0x7fffffff};

    (void)state;
    for (size_t i = 0; i < 9 * 4; i++) {
        struct iwarp_wq q;
        uint32_t n = 0, size = sizes[i % 9];
        assert_true(iwarp_wq_init(&q, size, ENTRY));
        start_at(&q, starts[i / 9]);
        for (; iwarp_wq_room(&q); n++) {
            assert_int_equal(iwarp_wq_waiting(&q), n > 0);
            iwarp_rq_at(&q, iwarp_wq_head(&q))->wr_id = n;
            iwarp_wq_push(&q);
        }
        assert_int_equal(n, size);
        for (uint32_t k = 0; k < n; k++) {
            assert_true(iwarp_wq_waiting(&q));
            assert_int_equal(iwarp_rq_at(&q, q.next)->wr_id, k);
            q.next++;
            /* Taken is not yet reaped: only that gives room. */
            assert_int_equal(iwarp_wq_room(&q), k > 0);
            q.done++;
            q.reaped++;
            assert_true(iwarp_wq_room(&q));
        }
        assert_false(iwarp_wq_waiting(&q));
        iwarp_wq_fini(&q);
    }
}

/* Each entry may be filled to its last octet without touching its neighbours. */
static void at__neighbouring_positions__do_not_overlap(void **state)
{
    static const size_t bytes[] = {sizeof(struct iwarp_rwqe), ENTRY, 64, 65, 1100};

    (void)state;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        struct iwarp_wq q;
        assert_true(iwarp_wq_init(&q, 8, bytes[i]));
        for (uint32_t p = 0; p < 8; p++) {
            assert_int_equal((uintptr_t)iwarp_wq_at(&q, p) % _Alignof(struct iwarp_swqe), 0);
            memset(iwarp_wq_at(&q, p), (int)p + 1, bytes[i]);
        }
        for (uint32_t p = 0; p < 8; p++) {
            const uint8_t *e = iwarp_wq_at(&q, p);
            for (size_t k = 0; k < bytes[i]; k++) {
                assert_int_equal(e[k], p + 1);
            }
            assert_ptr_equal(iwarp_wq_at(&q, p + 8), e);
            assert_ptr_equal(iwarp_wq_at(&q, p - 8), e);
        }
        iwarp_wq_fini(&q);
    }
}

static void init__the_most_entries_of_the_largest_size__works(void **state)
{
    struct iwarp_wq q;
    size_t bytes = sizeof(struct iwarp_swqe) + IWARP_MAX_SGE * sizeof(struct iwarp_sge);

    (void)state;
    assert_true(iwarp_wq_init(&q, IWARP_MAX_WR, bytes));
    assert_int_equal(q.mask, IWARP_MAX_WR - 1);
    memset(iwarp_wq_at(&q, IWARP_MAX_WR - 1), 1, bytes);
    iwarp_wq_fini(&q);
}

/* --- one producer, one consumer --- */

#define MESSAGES 50000u

static void *produce(void *arg)
{
    struct iwarp_wq *q = arg;

    for (uint32_t i = 0; i < MESSAGES; i++) {
        while (!iwarp_wq_room(q)) {
            sched_yield();
        }
        struct iwarp_rwqe *w = iwarp_rq_at(q, iwarp_wq_head(q));
        w->wr_id = i;
        w->capacity = (uint64_t)i << 32 | (i * 3u);
        iwarp_wq_push(q);
    }
    return NULL;
}

static void push__beside_a_consumer__hands_entries_over_whole_and_in_order(void **state)
{
    struct iwarp_wq q;
    pthread_t producer;

    (void)state;
    assert_true(iwarp_wq_init(&q, 7, ENTRY));
    start_at(&q, UINT32_MAX - MESSAGES / 2);
    assert_int_equal(pthread_create(&producer, NULL, produce, &q), 0);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        while (!iwarp_wq_waiting(&q)) {
            sched_yield();
        }
        struct iwarp_rwqe *w = iwarp_rq_at(&q, q.next);
        assert_int_equal(w->wr_id, i);
        assert_true(w->capacity == ((uint64_t)i << 32 | (i * 3u)));
        w->capacity = 0;
        q.next++;
        q.done++;
        atomic_store_explicit(&q.reaped, q.done, memory_order_release);
    }
    assert_int_equal(pthread_join(producer, NULL), 0);
    assert_false(iwarp_wq_waiting(&q));
    iwarp_wq_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init__no_entries__has_no_room_and_nothing_waits),
        cmocka_unit_test(push__any_number_of_entries__has_room_for_exactly_these),
        cmocka_unit_test(at__neighbouring_positions__do_not_overlap),
        cmocka_unit_test(init__the_most_entries_of_the_largest_size__works),
        cmocka_unit_test(push__beside_a_consumer__hands_entries_over_whole_and_in_order),
    };
    return cmocka_run_group_tests_name("wq", tests, NULL, NULL);
}
