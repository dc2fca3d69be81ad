/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Budgeted memory: what fits and what does not at the exact edge, which of the two reasons a
 * refusal has, and that whatever threads do at once every octet is given back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "alloc_fault.h"

#include "base/budget.h"

static void alloc__up_to_the_limit__succeeds_and_counts(void **state)
{
    struct iwarp_budget b = {.limit = 100};
    bool over = true;

    (void)state;
    void *p = iwarp_budget_alloc(&b, 60, &over);
    assert_non_null(p);
    assert_false(over);
    memset(p, 0xff, 60);
    void *q = iwarp_budget_alloc(&b, 40, &over);
    assert_non_null(q);
    assert_false(over);
    assert_int_equal(b.used, 100);
    iwarp_budget_free(&b, p, 60);
    assert_int_equal(b.used, 40);
    iwarp_budget_free(&b, q, 40);
    assert_int_equal(b.used, 0);
}

static void alloc__one_octet_too_many__is_over_and_counts_nothing(void **state)
{
    struct iwarp_budget b = {.limit = 100};
    bool over = false;

    (void)state;
    assert_null(iwarp_budget_alloc(&b, 101, &over));
    assert_true(over);
    assert_int_equal(b.used, 0);

    void *p = iwarp_budget_alloc(&b, 60, &over);
    assert_non_null(p);
    assert_null(iwarp_budget_alloc(&b, 41, &over));
    assert_true(over);
    assert_int_equal(b.used, 60);
    iwarp_budget_free(&b, p, 60);
}

static void alloc__nothing_allowed__is_over(void **state)
{
    struct iwarp_budget b = {.limit = 0};
    bool over = false;

    (void)state;
    assert_null(iwarp_budget_alloc(&b, 1, &over));
    assert_true(over);
    assert_int_equal(b.used, 0);
}

/* The budget allows it, the system does not: another reason, and nothing stays counted. */
static void alloc__system_out_of_memory__is_not_over(void **state)
{
    struct iwarp_budget b = {.limit = 100};
    bool over = true;

    (void)state;
    alloc_fault_at(1);
    void *p = iwarp_budget_alloc(&b, 100, &over);
    alloc_fault_at(0);
    assert_null(p);
    assert_false(over);
    assert_int_equal(b.used, 0);
}

static void free__null__changes_nothing(void **state)
{
    struct iwarp_budget b = {.limit = 100};
    bool over = false;
    void *p = iwarp_budget_alloc(&b, 10, &over);

    (void)state;
    iwarp_budget_free(&b, NULL, 50);
    assert_int_equal(b.used, 10);
    iwarp_budget_free(&b, p, 10);
}

#define THREADS 4
#define ROUNDS  20000
#define PIECE   16

struct racer {
    struct iwarp_budget *budget;
    pthread_t thread;
    unsigned served;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    void *held[3] = {NULL, NULL, NULL};

    for (unsigned i = 0; i < ROUNDS; i++) {
        bool over = false;
        void **slot = &held[i % 3];
        iwarp_budget_free(r->budget, *slot, PIECE);
        *slot = iwarp_budget_alloc(r->budget, PIECE, &over);
        r->served += *slot != NULL;
    }
    for (unsigned i = 0; i < 3; i++) {
        iwarp_budget_free(r->budget, held[i], PIECE);
    }
    return NULL;
}

/* Room for 7 pieces, 12 are wanted: some are refused all the time, none gets lost. */
static void alloc__by_threads_at_the_limit__ends_at_zero(void **state)
{
    struct iwarp_budget b = {.limit = (size_t)7 * PIECE};
    struct racer racers[THREADS];

    (void)state;
    for (unsigned i = 0; i < THREADS; i++) {
        racers[i] = (struct racer){.budget = &b};
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    uint64_t served = 0; /* a single one may find the budget taken each time it is scheduled */
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
        served += racers[i].served;
    }
    assert_true(served > 0);
    assert_int_equal(b.used, 0);
}

/* One piece is kept and handed out again; it is not counted meanwhile, and the limit holds. */
static void keep__one_piece__is_handed_out_again(void **state)
{
    struct iwarp_budget b = {.limit = 100};
    struct iwarp_spare spare = {NULL};
    bool over = true;

    (void)state;
    void *p = iwarp_budget_alloc_kept(&b, &spare, 50, &over);
    void *q = iwarp_budget_alloc_kept(&b, &spare, 50, &over);
    assert_non_null(p);
    assert_non_null(q);
    assert_null(iwarp_budget_alloc_kept(&b, &spare, 50, &over));
    assert_true(over);
    iwarp_budget_keep(&b, &spare, p, 50);
    assert_int_equal(b.used, 50);
    iwarp_budget_keep(&b, &spare, q, 50); /* there is one: this one is freed */
    assert_int_equal(b.used, 0);
    alloc_fault_at(1); /* the first call of malloc from here on fails */
    void *again = iwarp_budget_alloc_kept(&b, &spare, 50, &over);
    assert_ptr_equal(again, p);
    memset(again, 0xff, 50);
    assert_null(iwarp_budget_alloc_kept(&b, &spare, 50, &over));
    assert_false(over);
    alloc_fault_at(0);
    assert_int_equal(b.used, 50);
    iwarp_budget_keep(&b, &spare, again, 50);
    void *other = iwarp_budget_alloc(&b, 100, &over); /* what is kept takes nothing of the limit */
    assert_non_null(other);
    assert_null(iwarp_budget_alloc_kept(&b, &spare, 50, &over));
    assert_true(over);
    iwarp_budget_free(&b, other, 100);
    iwarp_spare_fini(&spare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc__up_to_the_limit__succeeds_and_counts),
        cmocka_unit_test(alloc__one_octet_too_many__is_over_and_counts_nothing),
        cmocka_unit_test(alloc__nothing_allowed__is_over),
        cmocka_unit_test(alloc__system_out_of_memory__is_not_over),
        cmocka_unit_test(free__null__changes_nothing),
        cmocka_unit_test(keep__one_piece__is_handed_out_again),
        cmocka_unit_test(alloc__by_threads_at_the_limit__ends_at_zero),
    };
    return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
