/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ddp_place.c and queue pairs: what is limited to one queue pair is nobody else's, what a queue
 * pair withholds no STag gives, and windows are for peers only. The other checks: test_ddp_place.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ddp/ddp.h"

#define STAG    0x00abcd42u
#define BASE    0x1000u
#define QP_HERE 3u

static const int pd_here;
static struct iwarp_region_table table;
static uint8_t memory[256];
static struct iwarp_region region;
static struct iwarp_ddp_rx rx;
static struct iwarp_lends lends;
static struct iwarp_fault fault;
static struct iwarp_ddp_target target;

static int setup(void **state)
{
    (void)state;
    region = (struct iwarp_region){.access = IWARP_ACCESS_LOCAL_WRITE | IWARP_ACCESS_REMOTE_WRITE |
                                             IWARP_ACCESS_REMOTE_READ,
                                   .pd = &pd_here,
                                   .addr = memory + 8,
                                   .len = 100,
                                   .to_base = BASE};
    if (!iwarp_region_table_init(&table)) {
        return -1;
    }
    iwarp_ddp_rx_init(&rx, &table, &pd_here, QP_HERE);
    rx.lends = &lends;
    return iwarp_region_insert(&table, &region, STAG) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    iwarp_lends_settle(&lends);
    iwarp_region_table_fini(&table);
    return region.lends == 0 ? 0 : -1;
}

static enum iwarp_fault_code write_to(uint32_t stag, uint64_t to, uint32_t len)
{
    const struct iwarp_ddp_header h = {
        .control = 0xc1, .tagged = true, .last = true, .stag = stag, .to = to};
    const struct iwarp_ddp_sink sink = {.kind = DDP_SINK_REGION};

    fault = (struct iwarp_fault){.code = IWARP_FAULT_NONE};
    bool good = iwarp_ddp_place(&rx, &h, len, &sink, &target, &fault);
    assert_int_equal(good, fault.code == IWARP_FAULT_NONE);
    return fault.code;
}

static void expect_details(uint64_t d0, uint64_t d1, uint64_t d2)
{
    assert_int_equal(fault.detail[0], d0);
    assert_int_equal(fault.detail[1], d1);
    assert_int_equal(fault.detail[2], d2);
}

/* What is limited to one queue pair is nobody else's: Writes, Reads, SGEs (RFC 5041 8.3.1). */
/* [DDP-8.2-02] [DDP-8.2-04] [DDP-8.3-03] [DDP-8.3.1-03] [RDMAP-8.1.1-02] [SEC-6.1.1-03] */
/* [SEC-6.1.1-01] */
static void access__region_of_another_queue_pair__is_refused(void **state)
{
    const struct iwarp_sge sge = {memory + 8, 4, STAG};

    (void)state;
    region.qp = QP_HERE;
    assert_int_equal(write_to(STAG, BASE, 1), IWARP_FAULT_NONE);
    region.qp = QP_HERE + 1;
    assert_int_equal(write_to(STAG, BASE, 1), IWARP_FAULT_DDP_STAG_QP);
    expect_details(STAG, QP_HERE + 1, QP_HERE);
    assert_int_equal(write_to(STAG, BASE, 0), IWARP_FAULT_NONE); /* zero length: no check */
    assert_null(iwarp_ddp_remote(&region, &pd_here, QP_HERE, STAG, BASE, 1,
                                 IWARP_ACCESS_REMOTE_READ, &fault));
    assert_int_equal(fault.code, IWARP_FAULT_RDMAP_STAG_QP);
    expect_details(STAG, QP_HERE + 1, QP_HERE);
    region.to_base = (uint64_t)(uintptr_t)region.addr;
    for (unsigned i = 0; i < 3; i++) { /* of a stranger; of this one; a window */
        region.qp = i == 0 ? QP_HERE + 1 : QP_HERE;
        region.kind = i == 2 ? REGION_WINDOW_2 : REGION_MEMORY;
        fault = (struct iwarp_fault){.code = IWARP_FAULT_NONE};
        assert_int_equal(
            iwarp_ddp_resolve(&table, &lends, &pd_here, QP_HERE, &sge, 1, 0, 4, 0, &target, &fault),
            i == 1);
        assert_int_equal(fault.code, i == 1 ? IWARP_FAULT_NONE : IWARP_FAULT_LOCAL_SGE);
    }
}

/* [VERBS-8.1.2.2-02] What the queue pair withholds no STag gives; length 0 is not checked. */
static void write__queue_pair_that_takes_none__is_refused(void **state)
{
    (void)state;
    rx.denied = IWARP_ACCESS_REMOTE_READ | IWARP_ACCESS_MW_BIND;
    assert_int_equal(write_to(STAG, BASE, 1), IWARP_FAULT_NONE);
    rx.denied |= IWARP_ACCESS_REMOTE_WRITE;
    assert_int_equal(write_to(STAG, BASE, 1), IWARP_FAULT_DDP_QP_ACCESS);
    expect_details(STAG, rx.denied, 0);
    assert_int_equal(write_to(STAG, BASE, 0), IWARP_FAULT_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(access__region_of_another_queue_pair__is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(write__queue_pair_that_takes_none__is_refused, setup,
                                        teardown),
    };

    return cmocka_run_group_tests_name("ddp_place_qp", tests, NULL, NULL);
}
