/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one function that computes destinations: every check of RFC 5041 7.1 at its exact edges, the
 * RDMA Read sources of RFC 5040 5.2, local scatter/gather lists, and message sequence numbers.
 * After each test no region may be lent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "ddp/ddp.h"

#define STAG    0x00010203u
#define BASE    0x1000u
#define LEN     100u
#define QP_HERE 3u
#define BOTH    (IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE)

static const int pd_here, pd_other;
static struct iwarp_region_table table;
static uint8_t memory[4096];
static struct iwarp_region region;
static struct iwarp_ddp_rx rx;
static struct iwarp_lends lends;
static struct iwarp_fault fault;
static struct iwarp_ddp_target target;

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

/* One region of this PD: STAG, TO 0x1000 to 0x1063, over memory[8] to memory[107]. */
static int setup(void **state)
{
    (void)state;
    region = (struct iwarp_region){.access = BOTH | IWARP_ACCESS_REMOTE_READ,
                                   .pd = &pd_here,
                                   .addr = memory + 8,
                                   .len = LEN,
                                   .to_base = BASE};
    iwarp_ddp_rx_init(&rx, &table, &pd_here, QP_HERE);
    rx.lends = &lends;
    return iwarp_region_insert(&table, &region, STAG) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    iwarp_lends_settle(&lends);
    bool lent = iwarp_region_lent(&region);
    iwarp_region_revoke(&table, &region);
    return lent ? -1 : 0;
}

/* Place a segment; NONE if it was placed. The fault side and emptiness are checked here. */
static enum iwarp_fault_code place(const struct iwarp_ddp_header *h, uint32_t len,
                                   const struct iwarp_ddp_sink *sink)
{
    fault = (struct iwarp_fault){.code = IWARP_FAULT_NONE};
    memset(&target, 0xee, sizeof target);
    bool good = iwarp_ddp_place(&rx, h, len, sink, &target, &fault);
    assert_int_equal(good, fault.code == IWARP_FAULT_NONE);
    if (!good) {
        assert_int_equal(fault.side, IWARP_SIDE_LOCAL);
    }
    return fault.code;
}

static void expect_details(uint64_t d0, uint64_t d1, uint64_t d2)
{
    assert_true(fault.detail[0] == d0);
    assert_true(fault.detail[1] == d1);
    assert_true(fault.detail[2] == d2);
}

static void expect_one(const void *at, size_t len)
{
    assert_int_equal(target.n, 1);
    assert_ptr_equal(target.iov[0].iov_base, at);
    assert_int_equal(target.iov[0].iov_len, len);
}

/* --- DDP version --- */

/* [DDP-4.1-11] */
static void check_version__every_control_octet__accepts_1_only(void **state)
{
    (void)state;
    for (unsigned control = 0; control < 256; control++) {
        struct iwarp_ddp_header h = {.control = (uint8_t)control, .tagged = control >= 0x80};
        fault = (struct iwarp_fault){.code = IWARP_FAULT_NONE};
        bool good = iwarp_ddp_check_version(&h, &fault);
        assert_int_equal(good, (control & 3) == 1);
        if (!good) {
            assert_int_equal(fault.code, control >= 0x80 ? IWARP_FAULT_DDP_TAGGED_VERSION
                                                         : IWARP_FAULT_DDP_UNTAGGED_VERSION);
            expect_details(control & 3, 0, 0);
        }
    }
}

/* --- RDMA Write --- */

static enum iwarp_fault_code write_to(uint32_t stag, uint64_t to, uint32_t len)
{
    const struct iwarp_ddp_sink sink = {.kind = DDP_SINK_REGION};
    const struct iwarp_ddp_header h = {
        .control = 0xc1, .tagged = true, .last = true, .stag = stag, .to = to};

    return place(&h, len, &sink);
}

static void write__inside_its_region__is_placed(void **state)
{
    static const struct {
        uint64_t to;
        uint32_t len;
    } good[] = {{BASE, LEN}, {BASE, 1}, {BASE + LEN - 1, 1}, {BASE + 1, LEN - 1}, {BASE + 50, 25}};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(write_to(STAG, good[i].to, good[i].len), IWARP_FAULT_NONE);
        expect_one(memory + 8 + (good[i].to - BASE), good[i].len);
    }
    assert_int_equal(lends.n, 1);
    assert_int_equal(region.lends, 1);
}

/* [DDP-7.1-12] [DDP-8.3.1-04] [RDMAP-8.1.1-03] [SEC-6.2.1-01] [VERBS-7.6.3-01] */
static void write__one_octet_outside__is_a_bounds_fault(void **state)
{
    static const struct {
        uint64_t to;
        uint32_t len;
    } bad[] = {
        {BASE - 1, 1},
        {BASE - 1, LEN},
        {BASE, LEN + 1},
        {BASE + LEN, 1},
        {BASE + LEN - 1, 2},
        {BASE + 1, LEN},
        {BASE + LEN + 1, 1},
        {0, 1},
        {BASE, UINT32_MAX},
        {UINT64_MAX - 1, 1},
        {BASE + (1ull << 32), 1},
        {BASE + (1ull << 63), 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(write_to(STAG, bad[i].to, bad[i].len), IWARP_FAULT_DDP_BOUNDS);
        expect_details(STAG, bad[i].to, bad[i].len);
    }
}

/* RFC 5041 7.1: the 64-bit sum of TO and length must not wrap; 2^64 itself is a wrap. */
static void write__sum_at_2_to_the_64__wraps_exactly_there(void **state)
{
    (void)state;
    assert_int_equal(write_to(STAG, UINT64_MAX - 7, 7), IWARP_FAULT_DDP_BOUNDS);
    assert_int_equal(write_to(STAG, UINT64_MAX - 7, 8), IWARP_FAULT_DDP_TO_WRAP);
    expect_details(STAG, UINT64_MAX - 7, 8);
    assert_int_equal(write_to(STAG, UINT64_MAX - 7, 16), IWARP_FAULT_DDP_TO_WRAP);
    assert_int_equal(write_to(STAG, UINT64_MAX, 1), IWARP_FAULT_DDP_TO_WRAP);
    assert_int_equal(write_to(STAG, UINT64_MAX - UINT32_MAX, UINT32_MAX), IWARP_FAULT_DDP_BOUNDS);
    assert_int_equal(write_to(STAG, UINT64_MAX - UINT32_MAX + 1, UINT32_MAX),
                     IWARP_FAULT_DDP_TO_WRAP);
}

/* The same at the very top of the address space: the last octet cannot be reached. */
static void write__region_at_the_top_of_the_offsets__still_checks_the_sum(void **state)
{
    (void)state;
    region.to_base = UINT64_MAX - LEN + 1;
    assert_int_equal(write_to(STAG, region.to_base, LEN - 1), IWARP_FAULT_NONE);
    expect_one(memory + 8, LEN - 1);
    assert_int_equal(write_to(STAG, region.to_base, LEN), IWARP_FAULT_DDP_TO_WRAP);
    assert_int_equal(write_to(STAG, region.to_base - 1, LEN), IWARP_FAULT_DDP_BOUNDS);
}

static void write__region_of_4_gib_and_more__takes_64_bit_offsets(void **state)
{
    (void)state;
    if (sizeof(void *) == 4) { /* no such region */
        skip();
    }
    region.len = (1ull << 33) + 5; /* never touched here */
    assert_int_equal(write_to(STAG, BASE + (1ull << 33), 5), IWARP_FAULT_NONE);
    assert_true((uintptr_t)target.iov[0].iov_base == (uintptr_t)memory + 8 + (1ull << 33));
    assert_int_equal(write_to(STAG, BASE + (1ull << 33), 6), IWARP_FAULT_DDP_BOUNDS);
    assert_int_equal(write_to(STAG, BASE + 1, UINT32_MAX), IWARP_FAULT_NONE);
}

static void write__empty_region__takes_nothing(void **state)
{
    (void)state;
    region.len = 0;
    assert_int_equal(write_to(STAG, BASE, 1), IWARP_FAULT_DDP_BOUNDS);
    assert_int_equal(write_to(STAG, BASE, 0), IWARP_FAULT_NONE);
}

/* RFC 5041 5.2: without payload neither STag nor TO may be checked. */
static void write__no_payload__checks_nothing(void **state)
{
    static const uint32_t stags[] = {0, 1, STAG, STAG ^ 1, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof stags / sizeof *stags; i++) {
        assert_int_equal(write_to(stags[i], UINT64_MAX, 0), IWARP_FAULT_NONE);
        assert_int_equal(target.n, 0);
    }
    assert_int_equal(lends.n, 0);
}

static void write__unknown_stag_or_key__is_invalid(void **state)
{
    static const uint32_t stags[] = {0, 1, STAG ^ 1, STAG + 0x100, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof stags / sizeof *stags; i++) {
        assert_int_equal(write_to(stags[i], BASE, 1), IWARP_FAULT_DDP_STAG_INVALID);
        expect_details(stags[i], 0, 0);
    }
    assert_int_equal(region.lends, 0);
}

/* [DDP-8.3-02] */
static void write__revoked_or_invalidated_in_the_batch__is_invalid(void **state)
{
    struct iwarp_region other = region;

    (void)state;
    assert_true(iwarp_region_insert(&table, &other, STAG + 0x100));
    assert_int_equal(write_to(STAG, BASE, 1), IWARP_FAULT_NONE);
    assert_int_equal(write_to(STAG + 0x100, BASE, 1), IWARP_FAULT_NONE);
    atomic_store(&region.stag, 0);
    iwarp_region_revoke(&table, &other);
    assert_int_equal(write_to(STAG, BASE, 1), IWARP_FAULT_DDP_STAG_INVALID);
    assert_int_equal(write_to(STAG + 0x100, BASE, 1), IWARP_FAULT_DDP_STAG_INVALID);
    iwarp_lends_settle(&lends);
    assert_int_equal(write_to(STAG, BASE, 1), IWARP_FAULT_DDP_STAG_INVALID);
    assert_false(iwarp_region_lent(&other));
}

static void write__region_of_another_pd__belongs_to_another_stream(void **state)
{
    (void)state;
    rx.pd = &pd_other;
    assert_int_equal(write_to(STAG, BASE, 1), IWARP_FAULT_DDP_STAG_STREAM);
    expect_details(STAG, 0, 0);
}

/* All eight combinations of rights: only REMOTE_WRITE counts. */
/* [DDP-8.3.1-06] [RDMAP-8.1.1-05] [SEC-6.3.5-01] */
static void write__every_set_of_rights__needs_remote_write(void **state)
{
    (void)state;
    for (unsigned access = 0; access < 8; access++) {
        region.access = access;
        enum iwarp_fault_code want =
            access & IWARP_ACCESS_REMOTE_WRITE ? IWARP_FAULT_NONE : IWARP_FAULT_DDP_ACCESS;
        assert_int_equal(write_to(STAG, BASE, 1), want);
        if (want != IWARP_FAULT_NONE) {
            expect_details(STAG, access, 0);
        }
    }
}

/* --- sources of RDMA Reads --- */

static enum iwarp_fault_code read_from(uint64_t to, uint64_t len, const void *pd)
{
    fault = (struct iwarp_fault){.code = IWARP_FAULT_NONE};
    uint8_t *p =
        iwarp_ddp_remote(&region, pd, QP_HERE, STAG, to, len, IWARP_ACCESS_REMOTE_READ, &fault);
    if (p) {
        assert_ptr_equal(p, memory + 8 + (to - BASE));
    }
    assert_int_equal(p == NULL, fault.code != IWARP_FAULT_NONE);
    return fault.code;
}

static void read_source__edges__give_the_codes_of_rdmap(void **state)
{
    (void)state;
    assert_int_equal(read_from(BASE, LEN, &pd_here), IWARP_FAULT_NONE);
    assert_int_equal(read_from(BASE + LEN - 1, 1, &pd_here), IWARP_FAULT_NONE);
    assert_int_equal(read_from(BASE, LEN + 1, &pd_here), IWARP_FAULT_RDMAP_BOUNDS);
    expect_details(STAG, BASE, LEN + 1);
    assert_int_equal(read_from(BASE + LEN, 1, &pd_here), IWARP_FAULT_RDMAP_BOUNDS);
    assert_int_equal(read_from(BASE - 1, 1, &pd_here), IWARP_FAULT_RDMAP_BOUNDS);
    assert_int_equal(read_from(BASE, UINT32_MAX, &pd_here), IWARP_FAULT_RDMAP_BOUNDS);
    assert_int_equal(read_from(UINT64_MAX - 7, 7, &pd_here), IWARP_FAULT_RDMAP_BOUNDS);
    assert_int_equal(read_from(UINT64_MAX - 7, 8, &pd_here), IWARP_FAULT_RDMAP_TO_WRAP);
    expect_details(STAG, UINT64_MAX - 7, 8);
    assert_int_equal(read_from(BASE, 1, &pd_other), IWARP_FAULT_RDMAP_STAG_STREAM);
    expect_details(STAG, 0, 0);
}

/* [DDP-8.3.1-06] [RDMAP-8.1.1-05] */
static void read_source__every_set_of_rights__needs_remote_read(void **state)
{
    (void)state;
    for (unsigned access = 0; access < 8; access++) {
        region.access = access;
        bool may = (access & IWARP_ACCESS_REMOTE_READ) != 0;
        assert_int_equal(read_from(BASE, 1, &pd_here),
                         may ? IWARP_FAULT_NONE : IWARP_FAULT_RDMAP_ACCESS);
    }
}

/* --- untagged: MSN, MO, length --- */

static struct iwarp_sge sge_at(size_t off, uint32_t len, uint32_t lkey)
{
    /* Local SGEs name memory by address; the region's TO is its address then, as in verbs. */
    region.to_base = (uint64_t)(uintptr_t)region.addr;
    return (struct iwarp_sge){region.addr + off, len, lkey};
}

static enum iwarp_fault_code untagged(uint32_t qn, uint32_t msn, uint32_t mo, uint32_t len,
                                      const struct iwarp_ddp_sink *sink)
{
    const struct iwarp_ddp_header h = {
        .control = 0x41, .last = true, .qn = qn, .msn = msn, .mo = mo};

    return place(&h, len, sink);
}

static void untagged__msn_beside_the_expected__is_a_msn_fault(void **state)
{
    const struct iwarp_ddp_sink sink = {.kind = DDP_SINK_CONTROL, .capacity = 28};
    static const uint32_t bad[] = {0, 2, 3, 0x80000001, UINT32_MAX};

    (void)state;
    for (uint32_t qn = 0; qn < 3; qn++) {
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            assert_int_equal(untagged(qn, bad[i], 0, 28, &sink), IWARP_FAULT_DDP_MSN);
            expect_details(qn, bad[i], 1);
        }
        assert_int_equal(untagged(qn, 1, 0, 28, &sink), IWARP_FAULT_NONE);
        assert_int_equal(target.n, 0);
    }
}

/* RFC 5041 4.3: after 0xffffffff comes 0; each queue counts for itself. */
static void advance__last_segments__count_the_msn_and_wrap_to_0(void **state)
{
    const struct iwarp_ddp_sink sink = {.kind = DDP_SINK_CONTROL, .capacity = 28};
    struct iwarp_ddp_header h = {.control = 0x41, .last = true, .qn = 1};
    static const uint32_t wrap[] = {0xfffffffe, 0xffffffff, 0, 1};

    (void)state;
    rx.msn[1] = 0xfffffffe;
    for (size_t i = 0; i < 4; i++) {
        h.msn = wrap[i];
        assert_int_equal(untagged(1, wrap[i] + 1, 0, 28, &sink), IWARP_FAULT_DDP_MSN);
        expect_details(1, (uint32_t)(wrap[i] + 1), wrap[i]);
        assert_int_equal(place(&h, 28, &sink), IWARP_FAULT_NONE);
        iwarp_ddp_advance(&rx, &h, 28);
        assert_int_equal(place(&h, 28, &sink), IWARP_FAULT_DDP_MSN);
    }
    assert_int_equal(rx.msn[0], 1);
    assert_int_equal(rx.msn[1], 2);
    assert_int_equal(rx.msn[2], 1);
}

static void advance__tagged_segment__changes_no_queue(void **state)
{
    const struct iwarp_ddp_header h = {.control = 0xc1, .tagged = true, .last = true};

    (void)state;
    iwarp_ddp_advance(&rx, &h, 1000);
    for (unsigned qn = 0; qn < 4; qn++) {
        assert_int_equal(rx.msn[qn], 1);
        assert_int_equal(rx.mo[qn], 0);
    }
}

static void untagged__mo_beside_the_expected__is_a_mo_fault(void **state)
{
    const struct iwarp_sge sge = sge_at(0, LEN, STAG);
    const struct iwarp_ddp_sink sink = {
        .kind = DDP_SINK_SGL, .sgl = &sge, .num_sge = 1, .capacity = LEN};
    struct iwarp_ddp_header first = {.control = 0x01, .msn = 1};

    (void)state;
    assert_int_equal(untagged(0, 1, 1, 10, &sink), IWARP_FAULT_DDP_MO);
    expect_details(1, 1, 0);
    assert_int_equal(untagged(0, 1, UINT32_MAX, 0, &sink), IWARP_FAULT_DDP_MO);
    assert_int_equal(place(&first, 40, &sink), IWARP_FAULT_NONE);
    expect_one(region.addr, 40);
    iwarp_ddp_advance(&rx, &first, 40);
    assert_int_equal(untagged(0, 1, 39, 10, &sink), IWARP_FAULT_DDP_MO);
    expect_details(1, 39, 40);
    assert_int_equal(untagged(0, 1, 41, 10, &sink), IWARP_FAULT_DDP_MO);
    assert_int_equal(untagged(0, 1, 0, 10, &sink), IWARP_FAULT_DDP_MO);
    assert_int_equal(untagged(0, 1, 40, 10, &sink), IWARP_FAULT_NONE);
    expect_one(region.addr + 40, 10);
    /* The next message begins at 0 again. */
    const struct iwarp_ddp_header last = {.control = 0x41, .last = true, .msn = 1, .mo = 40};
    iwarp_ddp_advance(&rx, &last, 10);
    assert_int_equal(untagged(0, 2, 50, 10, &sink), IWARP_FAULT_DDP_MO);
    assert_int_equal(untagged(0, 2, 0, 10, &sink), IWARP_FAULT_NONE);
}

static void untagged__longer_than_the_buffer__is_too_long_at_one_octet(void **state)
{
    const struct iwarp_sge sge = sge_at(0, LEN, STAG);
    const struct iwarp_ddp_sink sink = {
        .kind = DDP_SINK_SGL, .sgl = &sge, .num_sge = 1, .capacity = LEN};
    const struct iwarp_ddp_header first = {.control = 0x01, .msn = 1};

    (void)state;
    assert_int_equal(untagged(0, 1, 0, LEN, &sink), IWARP_FAULT_NONE);
    assert_int_equal(untagged(0, 1, 0, LEN + 1, &sink), IWARP_FAULT_DDP_TOO_LONG);
    expect_details(1, LEN + 1, LEN);
    iwarp_ddp_advance(&rx, &first, 60);
    assert_int_equal(untagged(0, 1, 60, LEN - 60, &sink), IWARP_FAULT_NONE);
    assert_int_equal(untagged(0, 1, 60, LEN - 59, &sink), IWARP_FAULT_DDP_TOO_LONG);
    expect_details(1, LEN + 1, LEN);
}

/* 2^32 - 1 is the longest message: the sum must be taken in more than 32 bits. */
static void untagged__sum_of_mo_and_length_past_32_bits__is_too_long(void **state)
{
    const struct iwarp_ddp_sink sink = {.kind = DDP_SINK_CONTROL, .capacity = UINT32_MAX};

    (void)state;
    rx.mo[0] = UINT32_MAX - 10;
    assert_int_equal(untagged(0, 1, UINT32_MAX - 10, 10, &sink), IWARP_FAULT_NONE);
    assert_int_equal(untagged(0, 1, UINT32_MAX - 10, 11, &sink), IWARP_FAULT_DDP_TOO_LONG);
    expect_details(1, 1ull << 32, UINT32_MAX);
}

static void untagged__nothing_posted__is_no_buffer_even_without_payload(void **state)
{
    const struct iwarp_ddp_sink sink = {.kind = DDP_SINK_NONE};

    (void)state;
    assert_int_equal(untagged(0, 1, 0, 5, &sink), IWARP_FAULT_DDP_NO_BUFFER);
    expect_details(0, 1, 0);
    assert_int_equal(untagged(0, 1, 0, 0, &sink), IWARP_FAULT_DDP_NO_BUFFER);
    assert_int_equal(untagged(0, 7, 0, 5, &sink), IWARP_FAULT_DDP_MSN);
}

static void untagged__control_message__has_no_target_but_a_length(void **state)
{
    const struct iwarp_ddp_sink sink = {.kind = DDP_SINK_CONTROL, .capacity = 28};

    (void)state;
    assert_int_equal(untagged(1, 1, 0, 28, &sink), IWARP_FAULT_NONE);
    assert_int_equal(target.n, 0);
    assert_int_equal(untagged(1, 1, 0, 29, &sink), IWARP_FAULT_DDP_TOO_LONG);
    expect_details(1, 29, 28);
}

/* --- scatter lists --- */

/* 32 entries of 1, 2, 3 ... octets, in memory order, each followed by a gap of 1. */
static uint32_t many_sges(struct iwarp_sge *sgl)
{
    size_t off = 0;
    uint32_t total = 0;

    region.len = 1024;
    for (uint32_t i = 0; i < IWARP_MAX_SGE; i++) {
        sgl[i] = sge_at(off, i + 1, STAG);
        off += i + 2;
        total += i + 1;
    }
    return total;
}

/* Every offset and length over 32 entries, against a walk octet by octet. */
static void scatter__32_entries_every_piece__falls_where_a_walk_says(void **state)
{
    struct iwarp_sge sgl[IWARP_MAX_SGE];
    uint32_t total = many_sges(sgl);
    uint8_t *place_of[1024];
    uint32_t n = 0;

    (void)state;
    for (unsigned i = 0; i < IWARP_MAX_SGE; i++) {
        for (uint32_t k = 0; k < sgl[i].len; k++) {
            place_of[n++] = (uint8_t *)sgl[i].addr + k;
        }
    }
    assert_int_equal(n, total);
    for (uint32_t off = 0; off < total; off++) {
        for (uint32_t len = 1; len <= total - off; len += 1 + len / 8) {
            uint32_t at = off;
            memset(&target, 0, sizeof target);
            assert_true(iwarp_ddp_resolve(&table, &lends, &pd_here, QP_HERE, sgl, IWARP_MAX_SGE,
                                          off, len, IWARP_ACCESS_LOCAL_WRITE, &target, &fault));
            for (unsigned i = 0; i < target.n; i++) {
                assert_true(target.iov[i].iov_len > 0);
                for (size_t k = 0; k < target.iov[i].iov_len; k++) {
                    assert_ptr_equal((uint8_t *)target.iov[i].iov_base + k, place_of[at++]);
                }
            }
            assert_int_equal(at, off + len);
        }
    }
    assert_int_equal(lends.n, 1);
}

static void scatter__whole_of_32_entries__fills_the_target(void **state)
{
    struct iwarp_sge sgl[IWARP_MAX_SGE];
    uint32_t total = many_sges(sgl);
    const struct iwarp_ddp_sink sink = {
        .kind = DDP_SINK_SGL, .sgl = sgl, .num_sge = IWARP_MAX_SGE, .capacity = total};

    (void)state;
    assert_int_equal(untagged(0, 1, 0, total, &sink), IWARP_FAULT_NONE);
    assert_int_equal(target.n, IWARP_MAX_SGE);
    assert_int_equal(untagged(0, 1, 0, total + 1, &sink), IWARP_FAULT_DDP_TOO_LONG);
}

/* 32 entries in 32 regions: as many lends, and none left afterwards (teardown sees its own). */
static void scatter__32_regions__are_all_lent_and_given_back(void **state)
{
    static struct iwarp_region many[IWARP_MAX_SGE];
    struct iwarp_sge sgl[IWARP_MAX_SGE];
    const struct iwarp_ddp_sink sink = {
        .kind = DDP_SINK_SGL, .sgl = sgl, .num_sge = IWARP_MAX_SGE, .capacity = IWARP_MAX_SGE};

    (void)state;
    for (uint32_t i = 0; i < IWARP_MAX_SGE; i++) {
        uint8_t *p = memory + 2048 + (size_t)i * 8;
        many[i] = (struct iwarp_region){.access = IWARP_ACCESS_LOCAL_WRITE,
                                        .pd = &pd_here,
                                        .addr = p,
                                        .len = 1,
                                        .to_base = (uint64_t)(uintptr_t)p};
        assert_true(iwarp_region_insert(&table, &many[i], (i + 0x200) << 8));
        sgl[i] = (struct iwarp_sge){p, 1, (i + 0x200) << 8};
    }
    assert_int_equal(untagged(0, 1, 0, IWARP_MAX_SGE, &sink), IWARP_FAULT_NONE);
    assert_int_equal(target.n, IWARP_MAX_SGE);
    assert_int_equal(lends.n, IWARP_MAX_SGE);
    for (uint32_t i = 0; i < IWARP_MAX_SGE; i++) {
        assert_int_equal(many[i].lends, 1);
    }
    iwarp_lends_settle(&lends);
    for (uint32_t i = 0; i < IWARP_MAX_SGE; i++) {
        assert_int_equal(many[i].lends, 0);
        iwarp_region_revoke(&table, &many[i]);
    }
}

/* verbs: the lkey of an entry of length 0 is not looked at, wherever the entry stands. */
/* [VERBS-8.1.3.2-02] */
static void scatter__empty_entries__are_skipped_unseen(void **state)
{
    struct iwarp_sge sgl[5] = {
        {NULL, 0, 0xdeadbeef}, sge_at(0, 4, STAG), {NULL, 0, 0}, sge_at(10, 4, STAG), {NULL, 0, 7}};
    const struct iwarp_ddp_sink sink = {
        .kind = DDP_SINK_SGL, .sgl = sgl, .num_sge = 5, .capacity = 8};

    (void)state;
    assert_int_equal(untagged(0, 1, 0, 8, &sink), IWARP_FAULT_NONE);
    assert_int_equal(target.n, 2);
    assert_ptr_equal(target.iov[0].iov_base, region.addr);
    assert_ptr_equal(target.iov[1].iov_base, region.addr + 10);
    assert_int_equal(untagged(0, 1, 0, 0, &sink), IWARP_FAULT_NONE);
    assert_int_equal(target.n, 0);
}

static enum iwarp_fault_code resolve_one(struct iwarp_sge sge, uint64_t off, uint64_t len,
                                         unsigned access)
{
    fault = (struct iwarp_fault){.code = IWARP_FAULT_NONE};
    bool good = iwarp_ddp_resolve(&table, &lends, &pd_here, QP_HERE, &sge, 1, off, len, access,
                                  &target, &fault);
    assert_int_equal(good, fault.code == IWARP_FAULT_NONE);
    if (!good) {
        expect_details(sge.lkey, (uint64_t)(uintptr_t)sge.addr, sge.len);
    }
    return fault.code;
}

/* What is to be read must lie inside whole, however little of it is asked for. */
static void sge__that_is_read__must_lie_inside_its_region_whole(void **state)
{
    (void)state;
    assert_int_equal(resolve_one(sge_at(0, LEN, STAG), 0, 1, 0), IWARP_FAULT_NONE);
    expect_one(region.addr, 1);
    assert_int_equal(resolve_one(sge_at(0, LEN + 1, STAG), 0, LEN, 0),
                     IWARP_FAULT_LOCAL_SGE_BOUNDS);
    assert_int_equal(resolve_one(sge_at(0, LEN + 1, STAG), 0, 1, 0), IWARP_FAULT_LOCAL_SGE_BOUNDS);
    assert_int_equal(resolve_one(sge_at(1, LEN, STAG), 0, 1, 0), IWARP_FAULT_LOCAL_SGE_BOUNDS);
    assert_int_equal(resolve_one(sge_at(0, UINT32_MAX, STAG), 0, 1, 0),
                     IWARP_FAULT_LOCAL_SGE_BOUNDS);
    assert_int_equal(resolve_one(sge_at(LEN + 1, 1, STAG), 0, 1, 0), IWARP_FAULT_LOCAL_SGE_BOUNDS);
}

/* Of an SGE that is written, the octets up to the last one that is placed. */
static void sge__that_is_written__must_lie_inside_its_region_as_far_as_it_is_used(void **state)
{
    const unsigned w = IWARP_ACCESS_LOCAL_WRITE;

    (void)state;
    assert_int_equal(resolve_one(sge_at(0, LEN, STAG), 0, LEN, w), IWARP_FAULT_NONE);
    expect_one(region.addr, LEN);
    assert_int_equal(resolve_one(sge_at(LEN - 1, 1, STAG), 0, 1, w), IWARP_FAULT_NONE);
    expect_one(region.addr + LEN - 1, 1);
    assert_int_equal(resolve_one(sge_at(0, LEN + 1, STAG), 0, LEN, w), IWARP_FAULT_NONE);
    expect_one(region.addr, LEN);
    assert_int_equal(resolve_one(sge_at(0, LEN + 1, STAG), 0, LEN + 1, w),
                     IWARP_FAULT_LOCAL_SGE_BOUNDS);
    assert_int_equal(resolve_one(sge_at(0, LEN + 1, STAG), LEN - 1, 1, w), IWARP_FAULT_NONE);
    expect_one(region.addr + LEN - 1, 1);
    assert_int_equal(resolve_one(sge_at(0, LEN + 1, STAG), LEN, 1, w),
                     IWARP_FAULT_LOCAL_SGE_BOUNDS);
    assert_int_equal(resolve_one(sge_at(LEN, 1, STAG), 0, 1, w), IWARP_FAULT_LOCAL_SGE_BOUNDS);
    assert_int_equal(resolve_one(sge_at(LEN + 1, 1, STAG), 0, 1, w), IWARP_FAULT_LOCAL_SGE_BOUNDS);
    assert_int_equal(resolve_one(sge_at(1, LEN, STAG), 0, LEN - 1, w), IWARP_FAULT_NONE);
    assert_int_equal(resolve_one(sge_at(1, LEN, STAG), 0, LEN, w), IWARP_FAULT_LOCAL_SGE_BOUNDS);
    assert_int_equal(resolve_one(sge_at(0, UINT32_MAX, STAG), 0, 1, w), IWARP_FAULT_NONE);
    assert_int_equal(resolve_one(sge_at(0, UINT32_MAX, STAG), UINT32_MAX - 1u, 1, w),
                     IWARP_FAULT_LOCAL_SGE_BOUNDS);
    struct iwarp_sge below = sge_at(0, 2, STAG);
    below.addr = region.addr - 1;
    assert_int_equal(resolve_one(below, 0, 1, w), IWARP_FAULT_LOCAL_SGE_BOUNDS);
    assert_int_equal(resolve_one(sge_at(0, LEN, STAG), 0, 0, w), IWARP_FAULT_NONE);
    assert_int_equal(target.n, 0);
}

static void sge__wrong_key_pd_or_right__is_a_local_fault(void **state)
{
    (void)state;
    assert_int_equal(resolve_one(sge_at(0, 4, STAG ^ 1), 0, 4, 0), IWARP_FAULT_LOCAL_SGE);
    assert_int_equal(resolve_one(sge_at(0, 4, 0), 0, 4, 0), IWARP_FAULT_LOCAL_SGE);
    for (unsigned access = 0; access < 8; access++) {
        region.access = access;
        bool may = (access & IWARP_ACCESS_LOCAL_WRITE) != 0;
        assert_int_equal(resolve_one(sge_at(0, 4, STAG), 0, 4, IWARP_ACCESS_LOCAL_WRITE),
                         may ? IWARP_FAULT_NONE : IWARP_FAULT_LOCAL_SGE_ACCESS);
        assert_int_equal(resolve_one(sge_at(0, 4, STAG), 0, 4, 0), IWARP_FAULT_NONE);
    }
    region.pd = &pd_other;
    assert_int_equal(resolve_one(sge_at(0, 4, STAG), 0, 4, 0), IWARP_FAULT_LOCAL_SGE);
}

/* A receive whose memory was deregistered: the fault is this end's, not the peer's. */
static void receive__into_a_revoked_region__is_a_local_fault(void **state)
{
    const struct iwarp_sge sge = sge_at(0, LEN, STAG);
    const struct iwarp_ddp_sink sink = {
        .kind = DDP_SINK_SGL, .sgl = &sge, .num_sge = 1, .capacity = LEN};

    (void)state;
    atomic_store(&region.stag, 0);
    assert_int_equal(untagged(0, 1, 0, 1, &sink), IWARP_FAULT_LOCAL_SGE);
    assert_int_equal(untagged(0, 1, 0, 0, &sink), IWARP_FAULT_NONE);
}

/* --- RDMA Read Responses --- */

static enum iwarp_fault_code respond(uint32_t stag, uint64_t to, uint32_t len, bool last,
                                     uint64_t capacity, uint64_t done)
{
    const struct iwarp_sge sge = sge_at(0, (uint32_t)capacity, STAG);
    const struct iwarp_ddp_sink sink = {
        .kind = DDP_SINK_READ, .sgl = &sge, .num_sge = 1, .capacity = capacity, .done = done};
    const struct iwarp_ddp_header h = {
        .control = last ? 0xc1 : 0x81, .tagged = true, .last = last, .stag = stag, .to = to};

    return place(&h, len, &sink);
}

static void response__that_continues_the_read__is_placed(void **state)
{
    uint64_t to = (uint64_t)(uintptr_t)(memory + 8);

    (void)state;
    assert_int_equal(respond(STAG, to, 50, true, 50, 0), IWARP_FAULT_NONE);
    expect_one(memory + 8, 50);
    assert_int_equal(respond(STAG, to, 20, false, 50, 0), IWARP_FAULT_NONE);
    expect_one(memory + 8, 20);
    assert_int_equal(respond(STAG, to + 20, 29, false, 50, 20), IWARP_FAULT_NONE);
    expect_one(memory + 28, 29);
    assert_int_equal(respond(STAG, to + 49, 1, true, 50, 49), IWARP_FAULT_NONE);
    expect_one(memory + 57, 1);
}

static void response__longer_shorter_or_elsewhere__is_out_of_bounds(void **state)
{
    uint64_t to = (uint64_t)(uintptr_t)(memory + 8);

    (void)state;
    assert_int_equal(respond(STAG, to, 51, true, 50, 0), IWARP_FAULT_READ_RESPONSE_BOUNDS);
    expect_details(to, 51, 50);
    assert_int_equal(respond(STAG, to, 51, false, 50, 0), IWARP_FAULT_READ_RESPONSE_BOUNDS);
    assert_int_equal(respond(STAG, to, 49, true, 50, 0), IWARP_FAULT_READ_RESPONSE_BOUNDS);
    assert_int_equal(respond(STAG, to, 50, false, 50, 0), IWARP_FAULT_READ_RESPONSE_BOUNDS);
    assert_int_equal(respond(STAG, to + 20, 31, true, 50, 20), IWARP_FAULT_READ_RESPONSE_BOUNDS);
    expect_details(to + 20, 31, 30);
    assert_int_equal(respond(STAG, to + 1, 50, true, 50, 0), IWARP_FAULT_READ_RESPONSE_BOUNDS);
    expect_details(to + 1, 50, 50);
    assert_int_equal(respond(STAG, to - 1, 50, true, 50, 0), IWARP_FAULT_READ_RESPONSE_BOUNDS);
    assert_int_equal(respond(STAG, to, 30, true, 50, 20), IWARP_FAULT_READ_RESPONSE_BOUNDS);
}

static void response__to_another_stag__names_both(void **state)
{
    uint64_t to = (uint64_t)(uintptr_t)(memory + 8);

    (void)state;
    assert_int_equal(respond(STAG ^ 1, to, 50, true, 50, 0), IWARP_FAULT_READ_RESPONSE_STAG);
    expect_details(STAG ^ 1, STAG, 0);
}

/* RFC 5041 5.2 again: a Response to a Read of nothing is not checked but for being the last. */
static void response__to_a_read_of_nothing__checks_neither_stag_nor_to(void **state)
{
    (void)state;
    assert_int_equal(respond(0x99, 12345, 0, true, 0, 0), IWARP_FAULT_NONE);
    assert_int_equal(target.n, 0);
    assert_int_equal(respond(0x99, 12345, 0, false, 0, 0), IWARP_FAULT_READ_RESPONSE_BOUNDS);
    assert_int_equal(respond(0x99, 12345, 1, true, 0, 0), IWARP_FAULT_READ_RESPONSE_BOUNDS);
    assert_int_equal(respond(STAG, 0, 0, true, 50, 0), IWARP_FAULT_READ_RESPONSE_BOUNDS);
}

/* The sink needs LOCAL_WRITE only, and is looked up anew for each segment. */
static void response__sink_region_ended__is_a_local_fault(void **state)
{
    uint64_t to = (uint64_t)(uintptr_t)(memory + 8);

    (void)state;
    region.access = IWARP_ACCESS_LOCAL_WRITE;
    assert_int_equal(respond(STAG, to, 20, false, 50, 0), IWARP_FAULT_NONE);
    atomic_store(&region.stag, 0);
    assert_int_equal(respond(STAG, to + 20, 30, true, 50, 20), IWARP_FAULT_LOCAL_SGE);
}

#define UNIT(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(check_version__every_control_octet__accepts_1_only),
        UNIT(write__inside_its_region__is_placed),
        UNIT(write__one_octet_outside__is_a_bounds_fault),
        UNIT(write__sum_at_2_to_the_64__wraps_exactly_there),
        UNIT(write__region_at_the_top_of_the_offsets__still_checks_the_sum),
        UNIT(write__region_of_4_gib_and_more__takes_64_bit_offsets),
        UNIT(write__empty_region__takes_nothing),
        UNIT(write__no_payload__checks_nothing),
        UNIT(write__unknown_stag_or_key__is_invalid),
        UNIT(write__revoked_or_invalidated_in_the_batch__is_invalid),
        UNIT(write__region_of_another_pd__belongs_to_another_stream),
        UNIT(write__every_set_of_rights__needs_remote_write),
        UNIT(read_source__edges__give_the_codes_of_rdmap),
        UNIT(read_source__every_set_of_rights__needs_remote_read),
        UNIT(untagged__msn_beside_the_expected__is_a_msn_fault),
        UNIT(advance__last_segments__count_the_msn_and_wrap_to_0),
        UNIT(advance__tagged_segment__changes_no_queue),
        UNIT(untagged__mo_beside_the_expected__is_a_mo_fault),
        UNIT(untagged__longer_than_the_buffer__is_too_long_at_one_octet),
        UNIT(untagged__sum_of_mo_and_length_past_32_bits__is_too_long),
        UNIT(untagged__nothing_posted__is_no_buffer_even_without_payload),
        UNIT(untagged__control_message__has_no_target_but_a_length),
        UNIT(scatter__32_entries_every_piece__falls_where_a_walk_says),
        UNIT(scatter__whole_of_32_entries__fills_the_target),
        UNIT(scatter__32_regions__are_all_lent_and_given_back),
        UNIT(scatter__empty_entries__are_skipped_unseen),
        UNIT(sge__that_is_read__must_lie_inside_its_region_whole),
        UNIT(sge__that_is_written__must_lie_inside_its_region_as_far_as_it_is_used),
        UNIT(sge__wrong_key_pd_or_right__is_a_local_fault),
        UNIT(receive__into_a_revoked_region__is_a_local_fault),
        UNIT(response__that_continues_the_read__is_placed),
        UNIT(response__longer_shorter_or_elsewhere__is_out_of_bounds),
        UNIT(response__to_another_stag__names_both),
        UNIT(response__to_a_read_of_nothing__checks_neither_stag_nor_to),
        UNIT(response__sink_region_ended__is_a_local_fault),
    };
    return cmocka_run_group_tests_name("ddp_place", tests, open_table, close_table);
}
