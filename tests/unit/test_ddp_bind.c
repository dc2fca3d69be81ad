/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an STag stands for, and when that may change: every check of verbs draft 7.8 and 7.10.6.1
 * and of RFC 5040 5.3 and 8.1.1 (7), one at a time; and the promise that a change waits for all
 * users of the memory, also while other threads look the STag up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "ddp/ddp.h"
#include "ddp/ddp_bind.h"

#define MR    0x00abcd10u /* the region */
#define W1    0x00111110u /* windows of type 1 and 2 */
#define W2    0x00222220u
#define BASE  0x70000000u
#define QP    5u
#define LOCAL IWARP_ACCESS_LOCAL_WRITE

static const int pd_here, pd_other;
static struct iwarp_region_table table;
static struct iwarp_binder here, other_qp, other_pd;
static struct iwarp_region mr, w1, w2;
static struct iwarp_fault fault;
static uint8_t memory[4096];

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

/* A valid region over memory[100] to memory[1099], and two windows that are not bound. */
static int setup(void **state)
{
    const struct iwarp_binding b = {
        .addr = memory + 100, .len = 1000, .to_base = BASE, .access = LOCAL | IWARP_ACCESS_MW_BIND};

    (void)state;
    here = (struct iwarp_binder){&table, &pd_here, QP};
    other_qp = (struct iwarp_binder){&table, &pd_here, QP + 1};
    other_pd = (struct iwarp_binder){&table, &pd_other, QP};
    mr = (struct iwarp_region){.kind = REGION_MEMORY};
    w1 = (struct iwarp_region){.kind = REGION_WINDOW_1, .pd = &pd_here};
    w2 = (struct iwarp_region){.kind = REGION_WINDOW_2, .pd = &pd_here};
    iwarp_region_fill(&mr, &pd_here, &b);
    return iwarp_region_insert(&table, &mr, MR) && iwarp_region_reserve(&table, &w1, W1) &&
                   iwarp_region_reserve(&table, &w2, W2)
               ? 0
               : -1;
}

static int teardown(void **state)
{
    (void)state;
    iwarp_region_revoke(&table, &mr);
    iwarp_region_revoke(&table, &w1);
    iwarp_region_revoke(&table, &w2);
    return mr.lends + w1.lends + w2.lends == 0 && !mr.claimed && !w1.claimed && !w2.claimed ? 0
                                                                                            : -1;
}

static void expect_fault(enum iwarp_fault_code code, uint64_t d0, uint64_t d1, uint64_t d2)
{
    assert_string_equal(iwarp_fault_name(fault.code), iwarp_fault_row(code)->name);
    assert_int_equal(fault.detail[0], d0);
    assert_int_equal(fault.detail[1], d1);
    assert_int_equal(fault.detail[2], d2);
    fault = (struct iwarp_fault){.code = IWARP_FAULT_NONE};
}

/* Octets [off, off + len) of the region through a window, readable. */
static struct iwarp_binding part(uint32_t stag, size_t off, uint64_t len)
{
    return (struct iwarp_binding){.addr = memory + 100 + off,
                                  .len = len,
                                  .access = IWARP_ACCESS_REMOTE_READ,
                                  .stag = stag,
                                  .region = MR};
}

static bool valid(uint32_t stag)
{
    struct iwarp_region *r = iwarp_region_lend(&table, stag);

    if (r) {
        iwarp_region_settle(r);
    }
    return r != NULL;
}

/* --- windows --- */

static void bind__part_of_a_region__opens_just_that_part(void **state)
{
    struct iwarp_binding b = part(W2 + 7, 10, 20);

    (void)state;
    assert_true(iwarp_bind_window(&here, &b, &fault));
    assert_false(valid(W2));
    struct iwarp_region *r = iwarp_region_lend(&table, W2 + 7);
    assert_ptr_equal(r, &w2);
    const struct {
        uint64_t to, len;
        unsigned access;
        enum iwarp_fault_code code;
    } row[] = {
        {BASE + 10, 20, IWARP_ACCESS_REMOTE_READ, IWARP_FAULT_NONE},
        {BASE + 29, 1, IWARP_ACCESS_REMOTE_READ, IWARP_FAULT_NONE},
        {BASE + 9, 1, IWARP_ACCESS_REMOTE_READ, IWARP_FAULT_RDMAP_BOUNDS},
        {BASE + 30, 1, IWARP_ACCESS_REMOTE_READ, IWARP_FAULT_RDMAP_BOUNDS},
        {BASE + 10, 21, IWARP_ACCESS_REMOTE_READ, IWARP_FAULT_RDMAP_BOUNDS},
        {BASE + 10, 1, IWARP_ACCESS_REMOTE_WRITE, IWARP_FAULT_DDP_ACCESS},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        uint8_t *p =
            iwarp_ddp_remote(r, &pd_here, QP, W2 + 7, row[i].to, row[i].len, row[i].access, &fault);
        assert_int_equal(fault.code, row[i].code);
        assert_ptr_equal(p, row[i].code ? NULL : memory + 100 + (row[i].to - BASE));
        fault = (struct iwarp_fault){.code = IWARP_FAULT_NONE};
    }
    assert_null(iwarp_ddp_remote(r, &pd_here, QP + 1, W2 + 7, BASE + 10, 1,
                                 IWARP_ACCESS_REMOTE_READ, &fault));
    expect_fault(IWARP_FAULT_RDMAP_STAG_QP, W2 + 7, QP, QP + 1);
    iwarp_region_settle(r);
    assert_int_equal(mr.windows, 1);
}

static void bind__zero_based__counts_from_0(void **state)
{
    struct iwarp_binding b = part(W1, 10, 20);

    (void)state;
    b.access |= IWARP_ACCESS_ZERO_BASED;
    assert_true(iwarp_bind_window(&here, &b, &fault));
    assert_int_equal(w1.to_base, 0);
    assert_ptr_equal(w1.addr, memory + 110);
    assert_int_equal(w1.qp, 0); /* type 1: all of the PD */
}

/* [VERBS-7.10.6.1-01] */
static void bind__outside_the_region__is_refused_octet_by_octet(void **state)
{
    const struct {
        long off;
        uint64_t len;
        bool good;
    } row[] = {{0, 1000, true}, {999, 1, true},         {0, 1001, false},
               {-1, 1, false},  {1, 1000, false},       {1000, 1, false},
               {-1, 2, false},  {0, UINT64_MAX, false}, {999, UINT64_MAX - 998, false},
               {4000, 1, false}};

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct iwarp_binding b = part(W1 + (uint32_t)i, 0, row[i].len);
        b.addr += row[i].off;
        assert_int_equal(iwarp_bind_window(&here, &b, &fault), row[i].good);
        if (!row[i].good) {
            expect_fault(IWARP_FAULT_LOCAL_BIND_BOUNDS, b.stag, (uint64_t)(uintptr_t)b.addr, b.len);
        }
        assert_int_equal(valid(b.stag), row[i].good);
        assert_int_equal(mr.windows, 1); /* the last good one stays as it was */
    }
}

/* [VERBS-7.10.6.1-01] */
static void bind__rights__need_those_of_the_region(void **state)
{
    const unsigned bind = IWARP_ACCESS_MW_BIND, rd = IWARP_ACCESS_REMOTE_READ,
                   wr = IWARP_ACCESS_REMOTE_WRITE, zero = IWARP_ACCESS_ZERO_BASED;
    const struct {
        unsigned region, window;
        bool good;
    } row[] = {
        {bind, rd, true},
        {bind, wr, false},
        {bind, rd | wr, false},
        {bind | LOCAL, wr, true},
        {bind | LOCAL, rd, true},
        {LOCAL, rd, false},
        {LOCAL | wr | rd, rd, false},
        {bind | zero, rd, false},
        {bind | LOCAL | zero, zero | wr, false},
        {bind, 0, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct iwarp_binding b = part(W1 + (uint32_t)i, 0, 8);
        mr.access = row[i].region;
        b.access = row[i].window;
        assert_int_equal(iwarp_bind_window(&here, &b, &fault), row[i].good);
        if (!row[i].good) {
            expect_fault(IWARP_FAULT_LOCAL_BIND_ACCESS, b.stag, b.access, mr.access);
        }
    }
}

/* [VERBS-7.10.6.1-01] */
static void bind__region_that_is_not_there__is_refused(void **state)
{
    struct iwarp_binding b = part(W2, 0, 8);

    (void)state;
    b.region = 0x00777700;
    assert_false(iwarp_bind_window(&here, &b, &fault));
    expect_fault(IWARP_FAULT_LOCAL_BIND_REGION, W2, b.region, 0);
    b.region = 0;
    assert_false(iwarp_bind_window(&here, &b, &fault));
    expect_fault(IWARP_FAULT_LOCAL_BIND_REGION, W2, 0, 0);
    b.region = W1; /* a window, and the window itself */
    assert_false(iwarp_bind_window(&here, &b, &fault));
    expect_fault(IWARP_FAULT_LOCAL_BIND_REGION, W2, W1, 0);
    b.region = W2;
    assert_false(iwarp_bind_window(&here, &b, &fault));
    expect_fault(IWARP_FAULT_LOCAL_BIND_REGION, W2, W2, 0);
    b.region = MR;
    mr.qp = QP + 1;
    assert_false(iwarp_bind_window(&here, &b, &fault));
    expect_fault(IWARP_FAULT_LOCAL_BIND_REGION, W2, MR, 0);
    mr.qp = 0;
    mr.pd = &pd_other;
    assert_false(iwarp_bind_window(&here, &b, &fault));
    expect_fault(IWARP_FAULT_LOCAL_BIND_REGION, W2, MR, 0);
    mr.pd = &pd_here;
    assert_true(iwarp_bind_invalidate(&here, MR, &fault));
    assert_false(iwarp_bind_window(&here, &b, &fault));
    expect_fault(IWARP_FAULT_LOCAL_BIND_REGION, W2, MR, 0);
    assert_false(valid(W2));
    assert_int_equal(mr.windows, 0);
}

/* An STag that stands for nothing, where the table has the window that is to be bound. */
static void bind__no_region_but_the_place_of_the_window__is_refused(void **state)
{
    struct iwarp_binding b = part(W2, 0, 8);

    (void)state;
    b.region = W2 ^ 0x80000000u;
    assert_ptr_equal(iwarp_region_slot(&table, b.region, iwarp_region_mask(&table)),
                     iwarp_region_slot(&table, W2, iwarp_region_mask(&table)));
    assert_false(iwarp_bind_window(&here, &b, &fault));
    expect_fault(IWARP_FAULT_LOCAL_BIND_REGION, W2, b.region, 0);
}

/* Another thread binds W2 to W1 at this moment: if each waited for the other's, both would for
 * ever. */
static void bind__to_a_window_that_is_being_bound__is_refused_without_waiting(void **state)
{
    const struct iwarp_binding b = {.addr = memory + 100, .len = 10, .stag = W1, .region = W2};

    (void)state;
    iwarp_region_claim(&w2);
    assert_false(iwarp_bind_window(&here, &b, &fault));
    iwarp_region_unclaim(&w2);
    expect_fault(IWARP_FAULT_LOCAL_BIND_REGION, W1, W2, 0);
}

static void bind__something_that_is_no_window_here__is_refused(void **state)
{
    struct iwarp_binding b = part(MR, 0, 8);

    (void)state;
    assert_false(iwarp_bind_window(&here, &b, &fault));
    expect_fault(IWARP_FAULT_LOCAL_BIND_WINDOW, MR, 0, 0);
    b.stag = 0x00777700;
    assert_false(iwarp_bind_window(&here, &b, &fault));
    expect_fault(IWARP_FAULT_LOCAL_BIND_WINDOW, b.stag, 0, 0);
    b.stag = W2;
    assert_false(iwarp_bind_window(&other_pd, &b, &fault));
    expect_fault(IWARP_FAULT_LOCAL_BIND_WINDOW, W2, 0, 0);
}

static void bind__again__type_1_moves_and_type_2_is_refused(void **state)
{
    struct iwarp_binding one = part(W1 + 1, 0, 8), two = part(W2 + 1, 0, 8);

    (void)state;
    assert_true(iwarp_bind_window(&here, &one, &fault));
    assert_true(iwarp_bind_window(&here, &two, &fault));
    assert_int_equal(mr.windows, 2);
    one = part(W1 + 2, 50, 8);
    assert_true(iwarp_bind_window(&other_qp, &one, &fault));
    assert_false(valid(W1 + 1));
    assert_true(valid(W1 + 2));
    assert_int_equal(w1.to_base, BASE + 50);
    two = part(W2 + 2, 50, 8);
    assert_false(iwarp_bind_window(&here, &two, &fault));
    expect_fault(IWARP_FAULT_LOCAL_BIND_VALID, W2 + 2, W2 + 1, 0);
    assert_true(valid(W2 + 1));
    assert_int_equal(mr.windows, 2);
    assert_true(iwarp_bind_invalidate(&here, W2 + 1, &fault));
    assert_true(iwarp_bind_window(&here, &two, &fault));
    assert_int_equal(mr.windows, 2);
}

static void bind__length_0__leaves_it_invalid(void **state)
{
    struct iwarp_binding b = part(W1 + 1, 0, 8);

    (void)state;
    assert_true(iwarp_bind_window(&here, &b, &fault));
    b = (struct iwarp_binding){.stag = W1 + 2};
    assert_true(iwarp_bind_window(&here, &b, &fault));
    assert_false(valid(W1 + 1));
    assert_false(valid(W1 + 2));
    assert_int_equal(mr.windows, 0);
}

/* --- regions --- */

static void register__invalid_stag__gets_memory_and_key(void **state)
{
    struct iwarp_binding b = {
        .addr = memory, .len = 64, .to_base = 1, .access = LOCAL, .stag = MR + 5, .qp = QP};

    (void)state;
    assert_false(iwarp_bind_region(&here, &b, &fault));
    expect_fault(IWARP_FAULT_LOCAL_REGISTER_VALID, MR + 5, MR, 0);
    assert_true(iwarp_bind_invalidate(&here, MR, &fault));
    uint32_t generation = mr.generation;
    assert_true(iwarp_bind_region(&here, &b, &fault));
    assert_false(valid(MR));
    assert_true(valid(MR + 5));
    assert_ptr_equal(mr.addr, memory);
    assert_int_equal(mr.len, 64);
    assert_int_equal(mr.to_base, 1);
    assert_int_equal(mr.access, LOCAL);
    assert_int_equal(mr.qp, QP);
    assert_int_equal(mr.last_stag, MR + 5);
    assert_true(mr.generation != generation);
    b.stag = 0x00777700;
    assert_false(iwarp_bind_region(&here, &b, &fault));
    expect_fault(IWARP_FAULT_LOCAL_REGISTER, b.stag, 0, 0);
    b.stag = W2;
    assert_false(iwarp_bind_region(&here, &b, &fault));
    expect_fault(IWARP_FAULT_LOCAL_REGISTER, W2, 0, 0);
    b.stag = MR;
    assert_false(iwarp_bind_region(&other_pd, &b, &fault));
    expect_fault(IWARP_FAULT_LOCAL_REGISTER, MR, 0, 0);
}

/* --- invalidation from here --- */

/* [VERBS-7.8-02] */
/* [VERBS-7.8-01] */
static void invalidate__what_is_invalid_already__is_fine_with_the_right_key(void **state)
{
    (void)state;
    assert_true(iwarp_bind_invalidate(&here, MR, &fault));
    assert_true(iwarp_bind_invalidate(&other_qp, MR, &fault));
    assert_true(iwarp_bind_invalidate(&here, W2, &fault));
    const uint32_t wrong[] = {MR ^ 1, W2 ^ 0x80, 0, 0x00777700, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(iwarp_bind_invalidate(&here, wrong[i], &fault));
        expect_fault(IWARP_FAULT_LOCAL_INVALIDATE, wrong[i], 0, 0);
    }
    assert_false(iwarp_bind_invalidate(&other_pd, MR, &fault));
    expect_fault(IWARP_FAULT_LOCAL_INVALIDATE, MR, 0, 0);
}

/* [VERBS-7.8-01] */
static void invalidate__of_a_window__needs_its_queue_pair_and_type_2(void **state)
{
    struct iwarp_binding one = part(W1, 0, 8), two = part(W2, 0, 8);

    (void)state;
    assert_true(iwarp_bind_window(&here, &one, &fault));
    assert_true(iwarp_bind_window(&here, &two, &fault));
    assert_false(iwarp_bind_invalidate(&other_qp, W2, &fault));
    expect_fault(IWARP_FAULT_LOCAL_INVALIDATE, W2, 0, 0);
    assert_false(iwarp_bind_invalidate(&here, W1, &fault));
    expect_fault(IWARP_FAULT_LOCAL_INVALIDATE, W1, 0, 0);
    assert_true(valid(W1) && valid(W2));
    assert_false(iwarp_bind_invalidate(&here, MR, &fault));
    expect_fault(IWARP_FAULT_LOCAL_INVALIDATE_BOUND, MR, 2, 0);
    assert_true(iwarp_bind_invalidate(&here, W2, &fault));
    assert_false(valid(W2));
    assert_false(iwarp_bind_invalidate(&here, MR, &fault));
    expect_fault(IWARP_FAULT_LOCAL_INVALIDATE_BOUND, MR, 1, 0);
    one.len = 0;
    assert_true(iwarp_bind_window(&here, &one, &fault));
    assert_true(iwarp_bind_invalidate(&here, MR, &fault));
    assert_false(valid(MR));
}

/* --- invalidation by the peer --- */

/* [RDMAP-5.3-12] [RDMAP-7.2-08] */
static void peer_invalidates__region__needs_a_remote_right_and_one_stream(void **state)
{
    (void)state;
    assert_false(iwarp_bind_invalidate_remote(&here, MR, 1, &fault)); /* local rights only */
    expect_fault(IWARP_FAULT_RDMAP_INVALIDATE, MR, 0, 0);
    mr.access |= IWARP_ACCESS_REMOTE_READ;
    assert_false(iwarp_bind_invalidate_remote(&here, MR, 2, &fault));
    expect_fault(IWARP_FAULT_RDMAP_INVALIDATE_SHARED, MR, 2, 0);
    const uint32_t wrong[] = {MR ^ 1, 0, 0x00777700, W2};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(iwarp_bind_invalidate_remote(&here, wrong[i], 1, &fault));
        expect_fault(IWARP_FAULT_RDMAP_INVALIDATE, wrong[i], 0, 0);
    }
    assert_false(iwarp_bind_invalidate_remote(&other_pd, MR, 1, &fault));
    expect_fault(IWARP_FAULT_RDMAP_INVALIDATE, MR, 0, 0);
    mr.qp = QP + 1;
    assert_false(iwarp_bind_invalidate_remote(&here, MR, 1, &fault));
    expect_fault(IWARP_FAULT_RDMAP_INVALIDATE, MR, 0, 0);
    assert_true(valid(MR));
    mr.qp = QP;
    assert_true(iwarp_bind_invalidate_remote(&here, MR, 9, &fault)); /* limited to this stream */
    assert_false(valid(MR));
    assert_false(iwarp_bind_invalidate_remote(&here, MR, 1, &fault)); /* RFC 5040 7.2 (4) */
    expect_fault(IWARP_FAULT_RDMAP_INVALIDATE, MR, 0, 0);
}

static void peer_invalidates__window__type_2_of_its_stream_only(void **state)
{
    struct iwarp_binding one = part(W1, 0, 8), two = part(W2, 0, 8);

    (void)state;
    assert_true(iwarp_bind_window(&here, &one, &fault));
    assert_true(iwarp_bind_window(&here, &two, &fault));
    mr.access |= IWARP_ACCESS_REMOTE_READ;
    assert_false(iwarp_bind_invalidate_remote(&here, MR, 1, &fault));
    expect_fault(IWARP_FAULT_RDMAP_INVALIDATE_BOUND, MR, 2, 0);
    assert_false(iwarp_bind_invalidate_remote(&here, W1, 1, &fault));
    expect_fault(IWARP_FAULT_RDMAP_INVALIDATE, W1, 0, 0);
    assert_false(iwarp_bind_invalidate_remote(&other_qp, W2, 1, &fault));
    expect_fault(IWARP_FAULT_RDMAP_INVALIDATE, W2, 0, 0);
    assert_true(iwarp_bind_invalidate_remote(&here, W2, 2, &fault));
    assert_false(valid(W2));
    assert_int_equal(mr.windows, 1);
}

/* --- while others look it up --- */

struct crowd {
    _Atomic bool stop;
    _Atomic uint32_t stag;  /* to be tried */
    _Atomic unsigned seen;  /* successful lookups */
    _Atomic unsigned wrong; /* lookups that saw fields change, or found what was invalid */
};

/* Each binding has len == to_base == key: a thread that holds the region lent must see that. */
static void *look(void *arg)
{
    struct crowd *c = arg;

    while (!atomic_load(&c->stop)) {
        uint32_t stag = atomic_load(&c->stag);
        struct iwarp_region *r = iwarp_region_lend(&table, stag);
        if (!r) {
            sched_yield();
            continue;
        }
        for (int i = 0; i < 20; i++) {
            if (r->len != (stag & 0xff) || r->to_base != r->len ||
                r->addr != memory + (stag & 0xff)) {
                atomic_fetch_add(&c->wrong, 1);
            }
        }
        atomic_fetch_add(&c->seen, 1);
        iwarp_region_settle(r);
    }
    return NULL;
}

/* Two threads that each invalidate and register anew, while two look it up. */
struct changer {
    struct crowd *crowd;
    unsigned done;
};

static void *change(void *arg)
{
    struct changer *c = arg;

    for (unsigned i = 1; i <= 3000; i++) {
        uint32_t key = 1 + i % 255;
        struct iwarp_binding b = {
            .addr = memory + key, .len = key, .to_base = key, .stag = (MR & ~0xffu) | key};
        struct iwarp_fault why = {.code = IWARP_FAULT_NONE};
        uint32_t old = atomic_load(&c->crowd->stag);
        if (iwarp_bind_invalidate(&here, old, &why) && iwarp_bind_region(&here, &b, &why)) {
            atomic_store(&c->crowd->stag, b.stag);
            c->done++;
        }
        if (i % 16 == 0) {
            sched_yield();
        }
    }
    return NULL;
}

static void change__while_others_look__nobody_sees_half_of_it(void **state)
{
    static struct crowd crowd;
    struct changer changer[2] = {{&crowd, 0}, {&crowd, 0}};
    pthread_t looker[2], worker[2];

    (void)state;
    mr.addr = memory + (MR & 0xff);
    mr.len = mr.to_base = MR & 0xff;
    crowd.stag = MR;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&looker[i], NULL, look, &crowd), 0);
    }
    for (unsigned i = 0; i < 10000 && crowd.seen == 0; i++) {
        sched_yield();
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&worker[i], NULL, change, &changer[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(worker[i], NULL);
    }
    crowd.stop = true;
    for (int i = 0; i < 2; i++) {
        pthread_join(looker[i], NULL);
    }
    assert_int_equal(crowd.wrong, 0);
    assert_true(changer[0].done + changer[1].done >= 100);
}

/* The change returns only when nobody holds the region lent, however long that takes. */
struct holder {
    struct iwarp_region *region;
    _Atomic bool settled;
};

static void *hold(void *arg)
{
    struct holder *h = arg;

    for (unsigned i = 0; i < 2000; i++) {
        sched_yield();
    }
    atomic_store(&h->settled, true);
    iwarp_region_settle(h->region);
    return NULL;
}

/* [VERBS-7.10.4-01] */
static void invalidate__while_lent__waits_until_it_is_settled(void **state)
{
    static struct holder h;
    pthread_t thread;

    (void)state;
    mr.access |= IWARP_ACCESS_REMOTE_READ;
    for (unsigned i = 0; i < 2; i++) {
        h.region = iwarp_region_lend(&table, MR);
        h.settled = false;
        assert_ptr_equal(h.region, &mr);
        assert_int_equal(pthread_create(&thread, NULL, hold, &h), 0);
        assert_true(i == 0 ? iwarp_bind_invalidate(&here, MR, &fault)
                           : iwarp_bind_invalidate_remote(&here, MR, 1, &fault));
        assert_true(h.settled);
        pthread_join(thread, NULL);
        const struct iwarp_binding b = {
            .addr = memory, .len = 64, .stag = MR, .access = IWARP_ACCESS_REMOTE_READ};
        assert_true(iwarp_bind_region(&here, &b, &fault));
    }
}

#define UNIT(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(bind__part_of_a_region__opens_just_that_part),
        UNIT(bind__zero_based__counts_from_0),
        UNIT(bind__outside_the_region__is_refused_octet_by_octet),
        UNIT(bind__rights__need_those_of_the_region),
        UNIT(bind__region_that_is_not_there__is_refused),
        UNIT(bind__no_region_but_the_place_of_the_window__is_refused),
        UNIT(bind__to_a_window_that_is_being_bound__is_refused_without_waiting),
        UNIT(bind__something_that_is_no_window_here__is_refused),
        UNIT(bind__again__type_1_moves_and_type_2_is_refused),
        UNIT(bind__length_0__leaves_it_invalid),
        UNIT(register__invalid_stag__gets_memory_and_key),
        UNIT(invalidate__what_is_invalid_already__is_fine_with_the_right_key),
        UNIT(invalidate__of_a_window__needs_its_queue_pair_and_type_2),
        UNIT(peer_invalidates__region__needs_a_remote_right_and_one_stream),
        UNIT(peer_invalidates__window__type_2_of_its_stream_only),
        UNIT(change__while_others_look__nobody_sees_half_of_it),
        UNIT(invalidate__while_lent__waits_until_it_is_settled),
    };

    return cmocka_run_group_tests_name("ddp_bind", tests, open_table, close_table);
}
