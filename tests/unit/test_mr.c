/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions: what may be registered and how it is addressed, STags without memory, registering
 * anew, and what a region says about itself. The limits, and what STags look like: test_stag.c.
 */
#include "alloc_fault.h"
#include "verbs_pair.h"

#include "base/limits.h"

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

/* [VERBS-7.4.2-01] */
static void register__with_wrong_arguments__is_misuse(void **state)
{
    char octets[8];
    struct iwarp_mr *mr = NULL;
    struct set s;

    (void)state;
    set_open(&s, 0);
    must_fail(iwarp_mr_register(s.pd, octets, 8, 0x80, &mr), IWARP_MISUSE, "0x80");
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

static void expect_info(struct iwarp_mr *mr, const struct iwarp_stag_info *want)
{
    struct iwarp_stag_info info = {.size = sizeof info};

    must(iwarp_mr_query(mr, &info));
    assert_int_equal(info.stag, want->stag);
    assert_int_equal(info.valid, want->valid);
    assert_int_equal(info.access, want->access);
    assert_int_equal(info.windows, want->windows);
    assert_int_equal(info.qp_num, want->qp_num);
    assert_ptr_equal(info.addr, want->addr);
    assert_int_equal(info.len, want->len);
    assert_int_equal(info.to_base, want->to_base);
}

/* Verbs 7.6.1: by virtual address, from 0, and from a TO of the application's choice. */
/* [VERBS-7.6.1-01] */
/* [DDP-8.3-01] */
static void create__each_way_of_addressing__is_told(void **state)
{
    static char octets[8];
    const unsigned w = IWARP_ACCESS_LOCAL_WRITE, zero = IWARP_ACCESS_ZERO_BASED;
    const uint64_t va = (uint64_t)(uintptr_t)octets;
    const struct {
        unsigned access;
        uint64_t to_base, told;
    } row[] = {
        {w, va, va}, {w | zero, 0, 0}, {w, 0, 0}, {w, 77, 77}, {w, UINT64_MAX - 7, UINT64_MAX - 7}};
    struct iwarp_mr_options o;
    struct iwarp_mr *mr;
    struct set s;

    (void)state;
    set_open(&s, 0);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        iwarp_mr_options_init(&o, octets, 8, row[i].access);
        assert_int_equal(o.to_base, row[i].access & zero ? 0 : va);
        o.to_base = row[i].to_base;
        must(iwarp_mr_create(s.pd, &o, &mr));
        assert_int_equal(iwarp_mr_to_base(mr), row[i].told);
        assert_int_equal(iwarp_mr_access(mr), row[i].access);
        expect_info(mr, &(struct iwarp_stag_info){.stag = iwarp_mr_stag(mr),
                                                  .valid = true,
                                                  .access = row[i].access,
                                                  .addr = octets,
                                                  .len = 8,
                                                  .to_base = row[i].told});
        must(iwarp_mr_deregister(mr));
    }
    must(iwarp_mr_register(s.pd, octets, 8, zero, &mr));
    assert_int_equal(iwarp_mr_to_base(mr), 0);
    must(iwarp_mr_deregister(mr));
    set_close(&s);
}

static void create__with_wrong_options__is_misuse(void **state)
{
    static char octets[8];
    struct iwarp_mr_options o, good;
    struct iwarp_mr *mr;
    struct set s;

    (void)state;
    set_open(&s, 0);
    iwarp_mr_options_init(&good, octets, 8, IWARP_ACCESS_LOCAL_WRITE);
    must_fail(iwarp_mr_create(s.pd, NULL, &mr), IWARP_MISUSE, "init");
    must_fail(iwarp_mr_create(NULL, &good, &mr), IWARP_MISUSE, "NULL");
    must_fail(iwarp_mr_create(s.pd, &good, NULL), IWARP_MISUSE, "NULL");
    o = good;
    o.size--;
    must_fail(iwarp_mr_create(s.pd, &o, &mr), IWARP_MISUSE, "init");
    o = good;
    o.to_base = UINT64_MAX - 6;
    must_fail(iwarp_mr_create(s.pd, &o, &mr), IWARP_MISUSE, "2^64");
    o = good;
    o.access |= IWARP_ACCESS_ZERO_BASED; /* to_base is that of good still */
    must_fail(iwarp_mr_create(s.pd, &o, &mr), IWARP_MISUSE, "ZERO_BASED");
    o = good;
    o.access |= IWARP_ACCESS_QP_ONLY;
    must_fail(iwarp_mr_create(s.pd, &o, &mr), IWARP_MISUSE, "QP_ONLY");
    set_close(&s);
}

/* [DDP-8.3-03] */
static void create__for_a_queue_pair__must_be_of_its_pd(void **state)
{
    struct pair_options po;
    struct iwarp_mr_options o;
    struct iwarp_mr *mr;
    struct pair p;

    (void)state;
    pair_options_init(&po, PAIR_MEMORY);
    pair_prepare(&p, &po);
    iwarp_mr_options_init(&o, p.side[0].p, 8, IWARP_ACCESS_REMOTE_READ);
    o.qp = p.side[1].qp;
    must_fail(iwarp_mr_create(p.side[0].pd, &o, &mr), IWARP_MISUSE, "another protection domain");
    o.qp = p.side[0].qp;
    must(iwarp_mr_create(p.side[0].pd, &o, &mr));
    expect_info(mr,
                &(struct iwarp_stag_info){.stag = iwarp_mr_stag(mr),
                                          .valid = true,
                                          .access = IWARP_ACCESS_REMOTE_READ | IWARP_ACCESS_QP_ONLY,
                                          .qp_num = iwarp_qp_num(p.side[0].qp),
                                          .addr = p.side[0].p,
                                          .len = 8,
                                          .to_base = o.to_base});
    must(iwarp_mr_deregister(mr));
    pair_close(&p);
}

static void alloc__stag_without_memory__is_invalid(void **state)
{
    struct iwarp_mr *mr;
    struct set s;

    (void)state;
    set_open(&s, 0);
    must_fail(iwarp_mr_alloc(NULL, &mr), IWARP_MISUSE, "NULL");
    must_fail(iwarp_mr_alloc(s.pd, NULL), IWARP_MISUSE, "NULL");
    must(iwarp_mr_alloc(s.pd, &mr));
    assert_true(iwarp_mr_stag(mr) >> 8 != 0);
    expect_info(mr, &(struct iwarp_stag_info){.stag = iwarp_mr_stag(mr)});
    must_fail(iwarp_pd_destroy(s.pd), IWARP_MISUSE, "1 regions");
    must(iwarp_mr_deregister(mr));
    must_fail(iwarp_mr_deregister(NULL), IWARP_MISUSE, "NULL");
    set_close(&s);
}

static void reregister__other_memory_and_pd__keeps_the_index_with_another_key(void **state)
{
    static char octets[16];
    struct iwarp_mr_options o;
    struct iwarp_mr *mr;
    struct iwarp_pd *pd;
    struct set s;

    (void)state;
    set_open(&s, 0);
    must(iwarp_pd_create(s.device, &pd));
    must(iwarp_mr_alloc(s.pd, &mr));
    uint32_t stag = iwarp_mr_stag(mr);
    iwarp_mr_options_init(&o, octets + 8, 8, IWARP_ACCESS_REMOTE_READ);
    o.to_base = 5;
    must(iwarp_mr_reregister(mr, pd, &o));
    assert_int_equal(iwarp_mr_stag(mr) >> 8, stag >> 8);
    assert_int_not_equal(iwarp_mr_stag(mr), stag);
    expect_info(mr, &(struct iwarp_stag_info){.stag = iwarp_mr_stag(mr),
                                              .valid = true,
                                              .access = IWARP_ACCESS_REMOTE_READ,
                                              .addr = octets + 8,
                                              .len = 8,
                                              .to_base = 5});
    must(iwarp_pd_destroy(s.pd)); /* the region has left it */
    must_fail(iwarp_pd_destroy(pd), IWARP_MISUSE, "1 regions");
    s.pd = pd;
    stag = iwarp_mr_stag(mr);
    o.access = IWARP_ACCESS_REMOTE_WRITE;
    must_fail(iwarp_mr_reregister(mr, NULL, &o), IWARP_MISUSE, "LOCAL_WRITE");
    must_fail(iwarp_mr_reregister(NULL, pd, &o), IWARP_MISUSE, "NULL");
    must_fail(iwarp_mr_reregister(mr, NULL, NULL), IWARP_MISUSE, "init");
    assert_int_equal(iwarp_mr_stag(mr), stag); /* as before */
    o.access = 0;
    must(iwarp_mr_reregister(mr, NULL, &o));
    assert_int_equal(iwarp_mr_access(mr), 0);
    must(iwarp_mr_deregister(mr));
    set_close(&s);
}

static void reregister__into_a_pd_of_another_device__is_misuse(void **state)
{
    struct iwarp_mr_options o;
    struct iwarp_mr *mr;
    struct set s, t;

    (void)state;
    set_open(&s, 0);
    set_open(&t, 0);
    must(iwarp_mr_alloc(s.pd, &mr));
    iwarp_mr_options_init(&o, &s, 1, 0);
    must_fail(iwarp_mr_reregister(mr, t.pd, &o), IWARP_MISUSE, "another device");
    must(iwarp_mr_deregister(mr));
    set_close(&s);
    set_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(register__with_wrong_arguments__is_misuse),
        cmocka_unit_test(create__each_way_of_addressing__is_told),
        cmocka_unit_test(create__with_wrong_options__is_misuse),
        cmocka_unit_test(create__for_a_queue_pair__must_be_of_its_pd),
        cmocka_unit_test(alloc__stag_without_memory__is_invalid),
        cmocka_unit_test(reregister__other_memory_and_pd__keeps_the_index_with_another_key),
        cmocka_unit_test(reregister__into_a_pd_of_another_device__is_misuse),
    };

    return cmocka_run_group_tests_name("mr", tests, NULL, NULL);
}
