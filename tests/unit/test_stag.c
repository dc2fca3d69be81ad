/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * STags: limits, and that nobody can guess them (RFC 5042 6.1.1): unique, spread over all 32 bits,
 * and without a pattern from one to the next.
 */
#include "alloc_fault.h"
#include "base/limits.h"
#include "ddp/ddp_region.h"
#include "verbs/device.h"
#include "verbs/mr.h"
#include "verbs_pair.h"

#include <stdlib.h>

struct set {
    struct iwarp_device *device;
    struct iwarp_pd *pd;
};

static void set_open(struct set *s, unsigned max_regions)
{
    struct iwarp_device_options o;

    iwarp_device_options_init(&o);
    o.max_regions = max_regions ? max_regions : o.max_regions;
    must(iwarp_device_open(&o, &s->device));
    must(iwarp_pd_create(s->device, &s->pd));
}

static void set_close(struct set *s)
{
    must(iwarp_pd_destroy(s->pd));
    must(iwarp_device_close(s->device));
}

static void register__beyond_max_regions__is_limit(void **state)
{
    struct iwarp_mr *mr[101];
    struct set s;
    char octet;

    (void)state;
    set_open(&s, 100);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 100; i++) {
            must(iwarp_mr_register(s.pd, &octet, 1, 0, &mr[i]));
        }
        must_fail(iwarp_mr_register(s.pd, &octet, 1, 0, &mr[100]), IWARP_LIMIT, "100");
        must(iwarp_mr_deregister(mr[turn]));
        must(iwarp_mr_register(s.pd, &octet, 1, 0, &mr[turn]));
        for (int i = 0; i < 100; i++) {
            must(iwarp_mr_deregister(mr[i]));
        }
    }
    set_close(&s);
}

static void register__without_memory__fails_and_may_be_tried_again(void **state)
{
    struct iwarp_mr *mr;
    struct set s;
    char octet;

    (void)state;
    set_open(&s, 0);
    alloc_fault_at(1);
    must_fail(iwarp_mr_register(s.pd, &octet, 1, 0, &mr), IWARP_NO_MEMORY, "region");
    alloc_fault_at(0);
    must(iwarp_mr_register(s.pd, &octet, 1, 0, &mr));
    must(iwarp_mr_deregister(mr));
    set_close(&s);
}

/* Regions and windows come from one pool and count together. */
static void limit__regions_and_windows__count_together(void **state)
{
    struct iwarp_mr *mr[2];
    struct iwarp_mw *mw[2];
    struct set s;
    char octet;

    (void)state;
    set_open(&s, 2);
    must(iwarp_mr_register(s.pd, &octet, 1, 0, &mr[0]));
    must(iwarp_mw_alloc(s.pd, IWARP_MW_TYPE_2, &mw[0]));
    must_fail(iwarp_mw_alloc(s.pd, IWARP_MW_TYPE_2, &mw[1]), IWARP_LIMIT, "regions and windows");
    must_fail(iwarp_mr_alloc(s.pd, &mr[1]), IWARP_LIMIT, "2");
    must_fail(iwarp_pd_destroy(s.pd), IWARP_MISUSE, "2 regions, windows");
    must(iwarp_mw_free(mw[0]));
    must(iwarp_mr_alloc(s.pd, &mr[1])); /* what was a window is a region now */
    must(iwarp_mr_deregister(mr[1]));
    must(iwarp_mr_deregister(mr[0]));
    set_close(&s);
}

/* Every key but the last one comes, and no other index. */
static void fresh_key__many_times__is_never_the_last(void **state)
{
    unsigned seen[256] = {0};
    uint32_t stag = 0x12345678;
    struct set s;

    (void)state;
    set_open(&s, 0);
    for (unsigned i = 0; i < 20000; i++) { /* 78 of each expected */
        uint32_t last = stag;
        must(iwarp_stag_fresh_key(s.device, &stag));
        assert_int_equal(stag >> 8, 0x123456);
        assert_int_not_equal(stag, last);
        seen[stag & 0xff]++;
    }
    for (unsigned i = 0; i < 256; i++) {
        assert_in_range(seen[i], 20, 150);
    }
    set_close(&s);
}

static void query__with_the_wrong_size__is_misuse(void **state)
{
    struct iwarp_stag_info info = {.size = 1};
    struct iwarp_mr *mr;
    struct set s;

    (void)state;
    set_open(&s, 0);
    must(iwarp_mr_alloc(s.pd, &mr));
    must_fail(iwarp_mr_query(mr, &info), IWARP_MISUSE, "size");
    must_fail(iwarp_mr_query(mr, NULL), IWARP_MISUSE, "NULL");
    must_fail(iwarp_mr_query(NULL, &info), IWARP_MISUSE, "NULL");
    must(iwarp_mr_deregister(mr));
    set_close(&s);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static int compare_places(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

#define MANY 40000u

/*
 * Each bit is set in half of them: for a fair coin 6 standard deviations are 600 of 40000, which
 * fails once in 10^7 runs. The same for the difference to the one before, bit by bit.
 */
static void expect_fair_bits(const uint32_t *stag, size_t n)
{
    for (unsigned bit = 0; bit < 32; bit++) {
        long set = 0, flipped = 0;
        for (size_t i = 0; i < n; i++) {
            set += (long)(stag[i] >> bit & 1);
            flipped += i > 0 && ((stag[i] ^ stag[i - 1]) >> bit & 1);
        }
        if (labs(set - (long)n / 2) > 600 || labs(flipped - (long)n / 2) > 600) {
            fail_msg("bit %u: set %ld times of %zu, flipped %ld times", bit, set, n, flipped);
        }
    }
}

/* [RDMAP-8.1.1-08] */
static void stags__of_many_regions__are_unpredictable(void **state)
{
    struct iwarp_mr **mr = calloc(MANY, sizeof(struct iwarp_mr *));
    uint32_t *stag = calloc(MANY, sizeof *stag);
    unsigned bucket[256] = {0};
    struct set s;
    char octet;

    (void)state;
    assert_true(mr && stag);
    set_open(&s, 0);
    for (size_t i = 0; i < MANY; i++) {
        must(iwarp_mr_register(s.pd, &octet, 1, 0, &mr[i]));
        stag[i] = iwarp_mr_stag(mr[i]);
        bucket[stag[i] >> 24]++;
        assert_true(stag[i] >> 8 != 0);
    }
    expect_fair_bits(stag, MANY);
    for (unsigned i = 0; i < 256; i++) { /* 156 expected, 12.5 is one standard deviation */
        assert_in_range(bucket[i], 156 - 90, 156 + 90);
    }
    qsort(stag, MANY, sizeof *stag, compare);
    for (size_t i = 1; i < MANY; i++) {
        assert_true(stag[i] >> 8 != stag[i - 1] >> 8); /* the table's index is unique too */
    }
    for (size_t i = 0; i < MANY; i++) {
        must(iwarp_mr_deregister(mr[i]));
    }
    set_close(&s);
    free(mr);
    free(stag);
}

/* More than fill the first huge page: each begins with a cache line, and none is there twice. */
static void register__many_and_again__are_apart_and_used_again(void **state)
{
    struct iwarp_mr **mr = calloc(MANY, sizeof(struct iwarp_mr *));
    uint64_t *place = calloc(MANY, sizeof *place);
    struct set s;
    char octet;

    (void)state;
    assert_true(mr && place);
    set_open(&s, 0);
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i < MANY; i++) {
            must(iwarp_mr_register(s.pd, &octet, 1, 0, &mr[i]));
            place[i] = (uintptr_t)mr[i];
            assert_true(place[i] % 64 == 0);
        }
        for (unsigned i = 0; i < MANY; i++) {
            struct iwarp_region *r = iwarp_region_lend(&s.device->regions, iwarp_mr_stag(mr[i]));
            assert_ptr_equal(r, &mr[i]->region);
            iwarp_region_settle(r);
        }
        qsort(place, MANY, sizeof *place, compare_places);
        for (unsigned i = 1; i < MANY; i++) {
            assert_true(place[i] - place[i - 1] >= sizeof(struct iwarp_mr));
        }
        unsigned chunks = 0;
        for (struct iwarp_mr_chunk *c = s.device->chunks; c; c = c->next) {
            chunks += c->mapped > 0;
        }
        assert_int_equal(chunks, 3); /* the first 4096 lie elsewhere, 16384 in each */
        for (unsigned i = 0; i < MANY; i++) {
            must(iwarp_mr_deregister(mr[i]));
        }
    }
    set_close(&s);
    free(mr);
    free(place);
}

/* Registering the same memory again and again does not give an old STag back. */
static void stags__of_the_same_memory__are_fresh_each_time(void **state)
{
    uint32_t *stag = calloc(MANY, sizeof *stag);
    struct iwarp_mr *mr;
    struct set s;
    char octet;

    (void)state;
    assert_non_null(stag);
    set_open(&s, 1);
    for (size_t i = 0; i < MANY; i++) {
        must(iwarp_mr_register(s.pd, &octet, 1, 0, &mr));
        stag[i] = iwarp_mr_stag(mr);
        must(iwarp_mr_deregister(mr));
    }
    expect_fair_bits(stag, MANY);
    qsort(stag, MANY, sizeof *stag, compare);
    unsigned same = 0;
    for (size_t i = 1; i < MANY; i++) {
        same += stag[i] == stag[i - 1];
    }
    assert_true(same <= 4); /* 40000^2 / 2^33 = 0.2 expected by chance */
    set_close(&s);
    free(stag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(register__beyond_max_regions__is_limit),
        cmocka_unit_test(register__without_memory__fails_and_may_be_tried_again),
        cmocka_unit_test(limit__regions_and_windows__count_together),
        cmocka_unit_test(stags__of_many_regions__are_unpredictable),
        cmocka_unit_test(register__many_and_again__are_apart_and_used_again),
        cmocka_unit_test(stags__of_the_same_memory__are_fresh_each_time),
        cmocka_unit_test(fresh_key__many_times__is_never_the_last),
        cmocka_unit_test(query__with_the_wrong_size__is_misuse),
    };

    return cmocka_run_group_tests_name("stag", tests, NULL, NULL);
}
