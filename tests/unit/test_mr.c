/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions: what may be registered, limits, and STags that nobody can guess (RFC 5042 6.1.1):
 * unique, spread over all 32 bits, and without a pattern from one to the next.
 */
#include "alloc_fault.h"
#include "verbs_pair.h"

#include "base/limits.h"

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

static void register__with_wrong_arguments__is_misuse(void **state)
{
    char octets[8];
    struct iwarp_mr *mr = NULL;
    struct set s;

    (void)state;
    set_open(&s, 0);
    must_fail(iwarp_mr_register(s.pd, octets, 8, 8, &mr), IWARP_MISUSE, "0x8");
    must_fail(iwarp_mr_register(s.pd, octets, 8, 0x100 | IWARP_ACCESS_LOCAL_WRITE, &mr),
              IWARP_MISUSE, "0x100");
    must_fail(iwarp_mr_register(s.pd, octets, 8, IWARP_ACCESS_REMOTE_WRITE, &mr), IWARP_MISUSE,
              "LOCAL_WRITE");
    must_fail(iwarp_mr_register(s.pd, octets, SIZE_MAX, 0, &mr), IWARP_MISUSE, "wrap");
    must_fail(iwarp_mr_register(s.pd, (void *)UINTPTR_MAX, 2, 0, &mr), IWARP_MISUSE, "2 octets");
    must(iwarp_mr_register(s.pd, (void *)UINTPTR_MAX, 1, 0, &mr)); /* need not be there */
    must(iwarp_mr_deregister(mr));
    must(iwarp_mr_register(s.pd, NULL, 0, PAIR_ALL, &mr));
    assert_int_equal(iwarp_mr_len(mr), 0);
    assert_null(iwarp_mr_addr(mr));
    must_fail(iwarp_pd_destroy(s.pd), IWARP_MISUSE, "1 regions");
    must(iwarp_mr_deregister(mr));
    must(iwarp_mr_register(s.pd, octets, 8, IWARP_ACCESS_REMOTE_READ, &mr));
    assert_ptr_equal(iwarp_mr_addr(mr), octets);
    assert_int_equal(iwarp_mr_len(mr), 8);
    must(iwarp_mr_deregister(mr));
    alloc_fault_at(1);
    struct set t;
    must_fail(iwarp_pd_create(s.device, &t.pd), IWARP_NO_MEMORY, "protection domain");
    alloc_fault_at(0);
    set_close(&s);
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

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

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
            set += stag[i] >> bit & 1;
            flipped += i > 0 && ((stag[i] ^ stag[i - 1]) >> bit & 1);
        }
        if (labs(set - (long)n / 2) > 600 || labs(flipped - (long)n / 2) > 600) {
            fail_msg("bit %u: set %ld times of %zu, flipped %ld times", bit, set, n, flipped);
        }
    }
}

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
        cmocka_unit_test(register__with_wrong_arguments__is_misuse),
        cmocka_unit_test(register__beyond_max_regions__is_limit),
        cmocka_unit_test(register__without_memory__fails_and_may_be_tried_again),
        cmocka_unit_test(stags__of_many_regions__are_unpredictable),
        cmocka_unit_test(stags__of_the_same_memory__are_fresh_each_time),
    };

    return cmocka_run_group_tests_name("mr", tests, NULL, NULL);
}
