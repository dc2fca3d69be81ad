/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The STag table: which STags name a region and which do not, the lends of a batch, and the promise
 * that after revocation and the last settle nobody touches the memory (RFC 5041 8.3.1).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "ddp/ddp_bind.h"

#define STAG 0x00abcd42u

static struct iwarp_region_table table;

static int open_table(void **state)
{
    (void)state;
    return iwarp_region_table_init(&table) ? 0 : -1;
}

static int close_table(void **state)
{
    (void)state;
    iwarp_region_table_fini(&table);
    return 0;
}

/* --- insert and look up --- */

static void insert__valid_stag__is_found_and_lent(void **state)
{
    struct iwarp_region r = {0};

    (void)state;
    assert_true(iwarp_region_insert(&table, &r, STAG));
    assert_int_equal(r.index, 0xabcd);
    assert_false(iwarp_region_lent(&r));
    assert_ptr_equal(iwarp_region_lend(&table, STAG), &r);
    assert_true(iwarp_region_lent(&r));
    assert_ptr_equal(iwarp_region_lend(&table, STAG), &r);
    assert_int_equal(r.lends, 2);
    iwarp_region_settle(&r);
    assert_true(iwarp_region_lent(&r));
    iwarp_region_settle(&r);
    assert_false(iwarp_region_lent(&r));
    iwarp_region_revoke(&table, &r);
}

/* [VERBS-7.2.1-01] */
static void insert__index_0_or_taken__is_refused(void **state)
{
    struct iwarp_region r = {0}, other = {0};

    (void)state;
    for (uint32_t key = 0; key < 256; key++) {
        assert_false(iwarp_region_insert(&table, &r, key));
    }
    assert_true(iwarp_region_insert(&table, &r, STAG));
    assert_false(iwarp_region_insert(&table, &other, STAG));
    assert_false(iwarp_region_insert(&table, &other, STAG ^ 0xff)); /* same index, another key */
    assert_ptr_equal(iwarp_region_lend(&table, STAG), &r);
    iwarp_region_settle(&r);
    iwarp_region_revoke(&table, &r);
}

static void insert__first_and_last_index__work(void **state)
{
    struct iwarp_region first = {0}, last = {0};

    (void)state;
    assert_true(iwarp_region_insert(&table, &first, 0x00000100));
    assert_true(iwarp_region_insert(&table, &last, 0xffffffff));
    assert_ptr_equal(iwarp_region_lend(&table, 0x00000100), &first);
    assert_ptr_equal(iwarp_region_lend(&table, 0xffffffff), &last);
    iwarp_region_settle(&first);
    iwarp_region_settle(&last);
    iwarp_region_revoke(&table, &first);
    iwarp_region_revoke(&table, &last);
}

/* [VERBS-7.2-01] */
static void lend__wrong_key_or_unknown_index__is_null_and_counts_nothing(void **state)
{
    struct iwarp_region r = {0};

    (void)state;
    assert_true(iwarp_region_insert(&table, &r, STAG));
    for (uint32_t key = 0; key < 256; key++) {
        if (key != (STAG & 0xff)) {
            assert_null(iwarp_region_lend(&table, (STAG & ~0xffu) | key));
        }
    }
    assert_null(iwarp_region_lend(&table, STAG + 0x100));
    assert_null(iwarp_region_lend(&table, STAG - 0x100));
    assert_null(iwarp_region_lend(&table, 0));
    assert_null(iwarp_region_lend(&table, UINT32_MAX));
    assert_int_equal(r.lends, 0);
    iwarp_region_revoke(&table, &r);
}

/* 0 is the STag of whatever is not valid; it is never looked up, wherever that lies. */
static void lend__stag_0__is_null_even_where_something_invalid_is(void **state)
{
    struct iwarp_region r = {0};

    (void)state;
    assert_true(iwarp_region_reserve(&table, &r, 0x10000000));
    assert_ptr_equal(table.slot[0], &r);
    assert_int_equal(r.stag, 0);
    assert_null(iwarp_region_lend(&table, 0));
    assert_int_equal(r.lends, 0);
    iwarp_region_revoke(&table, &r);
}

/* --- a table that grows --- */

#define MANY 20000u

/* Number i of many STags whose indexes agree in no small number of low bits. */
static uint32_t spread(uint32_t i)
{
    return (i + 1) * 0x9e3779b1u << 8 | (i & 0xff); /* odd: the low bits of i decide on theirs */
}

static void insert__index_that_agrees_with_a_taken_one__is_refused_until_the_table_grows(
    void **state)
{
    static struct iwarp_region r[MANY];
    struct iwarp_region other = {0};
    uint32_t first = iwarp_region_mask(&table) + 1;

    (void)state;
    memset(r, 0, sizeof r);
    for (uint32_t i = 0; i < first / 2; i++) {
        assert_int_equal(iwarp_region_mask(&table), first - 1);
        assert_true(iwarp_region_insert(&table, &r[i], (i + 1) << 8));
        assert_false(iwarp_region_insert(&table, &other, (i + 1 + first) << 8));
    }
    assert_int_equal(other.generation, 0); /* untouched */
    assert_true(iwarp_region_insert(&table, &r[first / 2], (first / 2 + 1) << 8));
    assert_int_equal(iwarp_region_mask(&table), 2 * first - 1);
    assert_true(iwarp_region_insert(&table, &other, (1 + first) << 8));
    assert_ptr_equal(iwarp_region_lend(&table, (1 + first) << 8), &other);
    assert_ptr_equal(iwarp_region_lend(&table, 1 << 8), &r[0]);
    iwarp_region_revoke(&table, &other);
    assert_null(iwarp_region_lend(&table, (1 + first) << 8));
    for (uint32_t i = 0; i <= first / 2; i++) {
        iwarp_region_revoke(&table, &r[i]);
    }
    assert_int_equal(table.used, 0);
}

static void insert__many_that_come_and_go__are_all_found_and_no_other(void **state)
{
    static struct iwarp_region r[MANY];

    (void)state;
    memset(r, 0, sizeof r);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_true(iwarp_region_insert(&table, &r[i], spread(i)));
        if (i % 3 == 2) {
            iwarp_region_revoke(&table, &r[i - 1]);
        }
    }
    assert_int_equal(table.used, MANY - MANY / 3);
    assert_in_range(iwarp_region_mask(&table), table.used, 4 * table.used);
    for (uint32_t i = 0; i < MANY; i++) {
        struct iwarp_region *there = i % 3 == 1 && i + 1 < MANY ? NULL : &r[i];
        assert_ptr_equal(iwarp_region_lend(&table, spread(i)), there);
        assert_null(iwarp_region_lend(&table, spread(i) ^ 1));
        assert_int_equal(r[i].lends, there != NULL);
    }
    unsigned entries = 0;
    for (uint32_t i = 0; i <= iwarp_region_mask(&table); i++) {
        entries += table.slot[i] != NULL;
    }
    assert_int_equal(entries, table.used); /* none was left where it had been */
    for (uint32_t i = 0; i < MANY; i++) {
        if (r[i].lends) {
            iwarp_region_revoke(&table, &r[i]);
        }
    }
    assert_int_equal(table.used, 0);
}

#define SEEKERS 2
#define GROWTHS 100

static struct {
    _Atomic unsigned round, seeking, idle, missed;
    _Atomic bool grown;
} seekers;

/* The regions that move as soon as the new size is known: the first ones of the table. */
static uint32_t mover(uint32_t i)
{
    return (0x1001 + i) << 8;
}

/* In each round: STags that are valid all the time are found at any time. */
static void *seek(void *arg)
{
    (void)arg;
    for (unsigned round = 1; round <= GROWTHS; round++) {
        while (seekers.round < round) {
            sched_yield();
        }
        for (bool first = true; !seekers.grown; first = false) {
            for (uint32_t i = 0; i < 64; i++) {
                struct iwarp_region *r = iwarp_region_lend(&table, mover(i % 4));
                if (r) {
                    iwarp_region_settle(r);
                } else {
                    seekers.missed++;
                }
            }
            seekers.seeking += first;
        }
        seekers.idle++;
    }
    return NULL;
}

static void grow__while_threads_look_up__nothing_valid_is_missed(void **state)
{
    static struct iwarp_region r[MANY];
    pthread_t thread[SEEKERS];

    (void)state;
    for (unsigned i = 0; i < SEEKERS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, seek, NULL), 0);
    }
    for (unsigned round = 1; round <= GROWTHS; round++) {
        uint32_t half = (iwarp_region_mask(&table) + 1) / 2;
        memset(r, 0, sizeof r);
        for (uint32_t i = 0; i < half; i++) {
            assert_true(iwarp_region_insert(&table, &r[i], i < 4 ? mover(i) : (i + 1) << 8));
        }
        seekers.grown = false;
        seekers.seeking = seekers.idle = 0;
        seekers.round = round;
        while (seekers.seeking < SEEKERS) {
            sched_yield();
        }
        assert_true(iwarp_region_insert(&table, &r[half], (half + 1) << 8));
        seekers.grown = true;
        while (seekers.idle < SEEKERS) {
            sched_yield();
        }
        assert_int_equal(iwarp_region_mask(&table), 4 * half - 1);
        assert_int_equal(seekers.missed, 0);
        iwarp_region_table_fini(&table);
        assert_true(iwarp_region_table_init(&table));
    }
    for (unsigned i = 0; i < SEEKERS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    }
}

/* --- the end of an STag --- */

/* [DDP-8.3-01] [DDP-8.3.1-05] [RDMAP-8.1.1-04] */
static void revoke__then_lend__is_null_and_the_index_is_free(void **state)
{
    struct iwarp_region r = {0}, next = {0};

    (void)state;
    assert_true(iwarp_region_insert(&table, &r, STAG));
    iwarp_region_revoke(&table, &r);
    assert_null(iwarp_region_lend(&table, STAG));
    assert_int_equal(r.lends, 0);
    assert_true(iwarp_region_insert(&table, &next, STAG ^ 1));
    assert_null(iwarp_region_lend(&table, STAG));
    assert_ptr_equal(iwarp_region_lend(&table, STAG ^ 1), &next);
    iwarp_region_settle(&next);
    iwarp_region_revoke(&table, &next);
}

static void revoke__while_lent__leaves_it_lent_until_settled(void **state)
{
    struct iwarp_region r = {0};

    (void)state;
    assert_true(iwarp_region_insert(&table, &r, STAG));
    assert_ptr_equal(iwarp_region_lend(&table, STAG), &r);
    iwarp_region_revoke(&table, &r);
    assert_true(iwarp_region_lent(&r));
    assert_null(iwarp_region_lend(&table, STAG));
    iwarp_region_settle(&r);
    assert_false(iwarp_region_lent(&r));
}

/* An STag that is allocated only: its index is taken, and no key opens it. */
static void reserve__then_lend__is_null_until_it_is_made_valid(void **state)
{
    struct iwarp_region r = {0}, other = {0};

    (void)state;
    assert_true(iwarp_region_reserve(&table, &r, STAG));
    assert_int_equal(r.last_stag, STAG);
    for (uint32_t key = 0; key < 256; key++) {
        assert_null(iwarp_region_lend(&table, (STAG & ~0xffu) | key));
    }
    assert_int_equal(r.lends, 0);
    assert_false(iwarp_region_insert(&table, &other, STAG));
    assert_false(iwarp_region_reserve(&table, &other, STAG));
    iwarp_region_revoke(&table, &r);
    assert_true(iwarp_region_insert(&table, &other, STAG));
    iwarp_region_revoke(&table, &other);
}

/* --- lends of a batch --- */

static void lends_get__same_stag_again__is_lent_once(void **state)
{
    struct iwarp_region r = {0};
    struct iwarp_lends lends = {0};

    (void)state;
    assert_true(iwarp_region_insert(&table, &r, STAG));
    for (int i = 0; i < 1000; i++) {
        assert_ptr_equal(iwarp_lends_get(&lends, &table, STAG), &r);
    }
    assert_int_equal(lends.n, 1);
    assert_int_equal(r.lends, 1);
    iwarp_lends_settle(&lends);
    assert_int_equal(lends.n, 0);
    assert_int_equal(r.lends, 0);
    iwarp_lends_settle(&lends);
    assert_int_equal(r.lends, 0);
    iwarp_region_revoke(&table, &r);
}

/* As many regions as a batch may hold, taken in turns, and all given back by one settle. */
static void lends_get__the_most_regions__are_all_given_back(void **state)
{
    static struct iwarp_region r[IWARP_MAX_LENDS];
    struct iwarp_lends lends = {0};

    (void)state;
    memset(r, 0, sizeof r);
    for (uint32_t i = 0; i < IWARP_MAX_LENDS; i++) {
        assert_true(iwarp_region_insert(&table, &r[i], (i + 7) << 8 | i));
    }
    for (uint32_t i = 0; i < 2 * IWARP_MAX_LENDS - 1; i++) {
        uint32_t k = i < IWARP_MAX_LENDS ? i : 2 * IWARP_MAX_LENDS - 2 - i;
        assert_ptr_equal(iwarp_lends_get(&lends, &table, (k + 7) << 8 | k), &r[k]);
    }
    assert_int_equal(lends.n, IWARP_MAX_LENDS);
    for (uint32_t i = 0; i < IWARP_MAX_LENDS; i++) {
        assert_int_equal(r[i].lends, 1);
    }
    iwarp_lends_settle(&lends);
    for (uint32_t i = 0; i < IWARP_MAX_LENDS; i++) {
        assert_int_equal(r[i].lends, 0);
        iwarp_region_revoke(&table, &r[i]);
    }
}

static void lends_get__unknown_stag__is_null_and_holds_nothing(void **state)
{
    struct iwarp_region r = {0};
    struct iwarp_lends lends = {0};

    (void)state;
    assert_true(iwarp_region_insert(&table, &r, STAG));
    assert_null(iwarp_lends_get(&lends, &table, STAG ^ 1));
    assert_null(iwarp_lends_get(&lends, &table, 0));
    assert_int_equal(lends.n, 0);
    assert_int_equal(r.lends, 0);
    iwarp_region_revoke(&table, &r);
}

/* A lend held in the batch is no excuse: an STag that ended in between is not found any more. */
static void lends_get__ended_within_the_batch__is_null_but_still_settled(void **state)
{
    struct iwarp_region r = {0}, s = {0};
    struct iwarp_lends lends = {0};

    (void)state;
    assert_true(iwarp_region_insert(&table, &r, STAG));
    assert_true(iwarp_region_insert(&table, &s, STAG + 0x100));
    assert_ptr_equal(iwarp_lends_get(&lends, &table, STAG), &r);
    assert_ptr_equal(iwarp_lends_get(&lends, &table, STAG + 0x100), &s);
    iwarp_region_revoke(&table, &r);
    atomic_store(&s.stag, 0);
    assert_null(iwarp_lends_get(&lends, &table, STAG));
    assert_null(iwarp_lends_get(&lends, &table, STAG + 0x100));
    assert_null(iwarp_lends_get(&lends, &table, 0));
    assert_true(iwarp_region_lent(&r));
    assert_true(iwarp_region_lent(&s));
    iwarp_lends_settle(&lends);
    assert_false(iwarp_region_lent(&r));
    assert_false(iwarp_region_lent(&s));
    iwarp_region_revoke(&table, &s);
}

/* --- many threads --- */

#define USERS  3
#define ROUNDS 200
#define OCTETS 64

static struct {
    struct iwarp_region region;
    uint8_t memory[OCTETS];
    _Atomic uint32_t stag; /* what peers believe */
    _Atomic bool stop;
    _Atomic unsigned served;
} race;

/* A peer: whenever its STag is good it writes all of the memory, with plain stores. */
static void *use(void *arg)
{
    uint8_t mark = (uint8_t)(uintptr_t)arg;

    while (!race.stop) {
        uint32_t stag = race.stag;
        struct iwarp_region *r = iwarp_region_lend(&table, stag);
        if (!r) {
            sched_yield();
            continue;
        }
        for (size_t i = 0; i < OCTETS; i++) {
            /* Peers may write at once, as on a NIC; the tests' own accesses are what must not race.
             */
            __atomic_store_n(&r->addr[i], mark, __ATOMIC_RELAXED);
        }
        iwarp_region_settle(r);
        race.served++;
    }
    return NULL;
}

/*
 * The owner ends the STag, waits until nobody holds it, and then uses the memory as his own, with
 * plain accesses (ThreadSanitizer sees a missing order). The region object is used again under the
 * same index with another key, as verbs does.
 */
static void own(bool by_invalidation, uint32_t round)
{
    struct iwarp_region *r = &race.region;
    uint32_t stag = 0x00123400u | (round & 0xff);
    unsigned before = race.served;

    memset(race.memory, 0, OCTETS);
    r->addr = race.memory;
    r->len = OCTETS;
    assert_true(iwarp_region_insert(&table, r, stag));
    race.stag = stag;
    while (race.served == before) {
        sched_yield();
    }
    if (by_invalidation) {
        const struct iwarp_binder who = {.regions = &table};
        struct iwarp_fault fault = {.code = IWARP_FAULT_NONE};
        assert_true(iwarp_bind_invalidate(&who, stag, &fault)); /* waits by itself */
    } else {
        iwarp_region_revoke(&table, r);
        while (iwarp_region_lent(r)) {
            sched_yield();
        }
    }
    memset(race.memory, 0x5a, OCTETS);
    for (int pause = 0; pause < 3; pause++) {
        sched_yield();
        for (size_t i = 0; i < OCTETS; i++) {
            assert_int_equal(race.memory[i], 0x5a);
        }
    }
    if (by_invalidation) {
        iwarp_region_revoke(&table, r);
        while (iwarp_region_lent(r)) {
            sched_yield();
        }
    }
}

/* [DDP-8.3.1-07] [RDMAP-8.1.1-06] [SEC-6.2.2-02] */
static void revoke__while_threads_write__nobody_writes_afterwards(void **state)
{
    pthread_t thread[USERS];

    (void)state;
    for (uintptr_t i = 0; i < USERS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, use, (void *)(i + 1)), 0);
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        own(round % 2 == 1, round);
    }
    race.stop = true;
    for (unsigned i = 0; i < USERS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    }
    assert_int_equal(race.region.lends, 0);
    assert_true(race.served >= ROUNDS);
}

#define WITH_TABLE(test) cmocka_unit_test_setup_teardown(test, open_table, close_table)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_TABLE(insert__valid_stag__is_found_and_lent),
        WITH_TABLE(insert__index_0_or_taken__is_refused),
        WITH_TABLE(insert__first_and_last_index__work),
        WITH_TABLE(lend__wrong_key_or_unknown_index__is_null_and_counts_nothing),
        WITH_TABLE(lend__stag_0__is_null_even_where_something_invalid_is),
        WITH_TABLE(insert__index_that_agrees_with_a_taken_one__is_refused_until_the_table_grows),
        WITH_TABLE(insert__many_that_come_and_go__are_all_found_and_no_other),
        WITH_TABLE(grow__while_threads_look_up__nothing_valid_is_missed),
        WITH_TABLE(revoke__then_lend__is_null_and_the_index_is_free),
        WITH_TABLE(revoke__while_lent__leaves_it_lent_until_settled),
        WITH_TABLE(reserve__then_lend__is_null_until_it_is_made_valid),
        WITH_TABLE(lends_get__same_stag_again__is_lent_once),
        WITH_TABLE(lends_get__the_most_regions__are_all_given_back),
        WITH_TABLE(lends_get__unknown_stag__is_null_and_holds_nothing),
        WITH_TABLE(lends_get__ended_within_the_batch__is_null_but_still_settled),
        WITH_TABLE(revoke__while_threads_write__nobody_writes_afterwards),
    };
    return cmocka_run_group_tests_name("ddp_region", tests, NULL, NULL);
}
