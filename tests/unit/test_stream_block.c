/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The send block: memory is lent while the transport may look at it, given back in every case, and
 * what was taken away meanwhile is not looked at again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "endpoint.h"
#include "stream/stream_block.h"

#define KEY 0x00aabb00u

static void expect_fault(const struct endpoint *e, enum iwarp_fault_code code)
{
    assert_string_equal(iwarp_fault_name(e->s.fault.code), iwarp_fault_name(code));
}

static void post_area(struct endpoint *e, const struct area *a)
{
    const struct iwarp_sge sge = area_sge(a, 0, a->n);
    endpoint_post(e, &(struct iwarp_send_wr){.sg_list = &sge, .num_sge = 1});
}

/* Payload of such a size is referred to. */
static const struct endpoint_options refers = {.refers = true};

static void gather__memory__is_lent_until_sent(void **state)
{
    struct endpoint e;
    const struct iovec *iov;

    (void)state;
    endpoint_init(&e, &refers);
    struct area *a = endpoint_area(&e, KEY, 0x7000, 1400, 0, 1);
    post_area(&e, a);
    for (unsigned i = 0; i < 4; i++) {
        assert_true(iwarp_stream_gather(&e.s, &iov) > 0);
        assert_true(iwarp_region_lent(&a->region));
        iwarp_stream_sent(&e.s, i * 5);
        assert_false(iwarp_region_lent(&a->region));
    }
    endpoint_fini(&e);
}

static void deregister__with_octets_unsent__resets(void **state)
{
    struct endpoint e;

    (void)state;
    for (unsigned part = 0; part < 1424; part += 89) {
        endpoint_init(&e, &refers);
        struct area *a = endpoint_area(&e, KEY, 0x7000, 1400, 0, 1);
        post_area(&e, a);
        endpoint_send(&e, part);
        endpoint_deregister(&e, a);
        endpoint_drain(&e);
        expect_fault(&e, IWARP_FAULT_LOCAL_DEREGISTERED);
        assert_int_equal(e.s.life, STREAM_ENDED);
        assert_true(e.s.abort);
        assert_int_equal(e.sent.n, part);
        assert_int_equal(e.sq.done, 0);
        assert_int_equal(iwarp_stream_interest(&e.s), 0);
        endpoint_fini(&e);
    }
}

/* Those of the batch that were lent again before the missing one was found are given back. */
static void deregister__of_one_of_three_unsent__gives_the_others_back(void **state)
{
    (void)state;
    for (unsigned gone = 0; gone < 3; gone++) {
        struct endpoint e;
        struct area *area[3];
        endpoint_init(&e, &refers);
        for (unsigned i = 0; i < 3; i++) {
            area[i] = endpoint_area(&e, KEY + 0x100 * i, 0x7000, 1400, 0, 1);
            post_area(&e, area[i]);
        }
        endpoint_send(&e, 100);
        endpoint_deregister(&e, area[gone]);
        endpoint_drain(&e);
        expect_fault(&e, IWARP_FAULT_LOCAL_DEREGISTERED);
        assert_int_equal(e.sent.n, 100);
        for (unsigned i = 0; i < 3; i++) {
            assert_false(iwarp_region_lent(&area[i]->region));
        }
        endpoint_fini(&e);
    }
}

/* What is half sent was of the first region: its octets must not go on, the other's neither. */
static void deregister__and_another_gets_the_stag__resets(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &refers);
    struct area *a = endpoint_area(&e, KEY, 0x7000, 1400, 0, 1);
    post_area(&e, a);
    endpoint_send(&e, 100);
    endpoint_deregister(&e, a);
    struct area *b = endpoint_area(&e, KEY, 0x7000, 1400, 0, 2);
    endpoint_drain(&e);
    expect_fault(&e, IWARP_FAULT_LOCAL_DEREGISTERED);
    assert_int_equal(e.s.life, STREAM_ENDED);
    assert_true(e.s.abort);
    assert_int_equal(e.sent.n, 100);
    assert_false(iwarp_region_lent(&a->region));
    assert_false(iwarp_region_lent(&b->region));
    endpoint_fini(&e);
}

/* The first request's octets are all sent: its memory may go while others of the batch wait. */
static void deregister__with_its_octets_sent__is_no_fault(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &refers);
    struct area *a = endpoint_area(&e, KEY, 0x7000, 1400, 0, 1);
    struct area *b = endpoint_area(&e, KEY + 0x100, 0x7000, 1400, 0, 2);
    post_area(&e, a);
    post_area(&e, b);
    assert_int_equal(endpoint_send(&e, 1424 + 700), 1424 + 700);
    iwarp_stream_released(&e.s, 1424);
    assert_int_equal(e.sq.done, 1);
    endpoint_deregister(&e, a);
    endpoint_drain(&e);
    iwarp_stream_released(&e.s, 700);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
    assert_int_equal(e.sq.done, 2);
    endpoint_fini(&e);
}

/* More regions in one batch than may be lent at a time: several batches. */
static void gather__many_regions__are_not_too_many(void **state)
{
    struct endpoint e;
    struct iwarp_sge sgl[IWARP_MAX_SGE];

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.mulpdu = 64768});
    for (uint32_t i = 0; i < ENDPOINT_REGIONS; i++) {
        endpoint_area(&e, 0x00300000 + (i << 8), 0x9000, 600, 0, (uint8_t)i);
    }
    for (unsigned k = 0; k < 20; k++) {
        for (unsigned i = 0; i < IWARP_MAX_SGE; i++) {
            sgl[i] = area_sge(&e.area[(i + 11 * k) % ENDPOINT_REGIONS], 0, 600);
        }
        endpoint_post(&e, &(struct iwarp_send_wr){.sg_list = sgl, .num_sge = IWARP_MAX_SGE});
    }
    endpoint_drain(&e);
    assert_int_equal(e.sq.done, 20);
    assert_int_equal(e.sent.n, 20 * (2 + 18 + 600 * 32 + 4));
    endpoint_fini(&e);
}

/*
 * Small payload is copied beside its header, and then its memory may go. What counts as small
 * depends on the transport, and on how much memory is left.
 */
static void payload__up_to_a_size__is_copied(void **state)
{
    static const struct {
        bool refers, scarce;
        uint32_t copied;
    } cases[] = {{false, false, TX_COPY_MAX},
                 {false, true, TX_COPY_SMALL},
                 {true, false, TX_COPY_SMALL},
                 {true, true, TX_COPY_SMALL}};

    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        uint32_t n = cases[i % 4].copied + (i / 4 % 2);
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.refers = cases[i % 4].refers,
                                                     .markers_tx = i / 8 != 0,
                                                     .mulpdu = 8192,
                                                     .budget = 4 << 20});
        size_t others = cases[i % 4].scarce ? TX_SCARCE(e.budget.limit) : 0;
        atomic_fetch_add(&e.budget.used, others);
        struct area *a = endpoint_area(&e, KEY, 0x7000, n, 0, 1);
        post_area(&e, a);
        endpoint_send(&e, 100);
        endpoint_deregister(&e, a);
        endpoint_drain(&e);
        expect_fault(&e, i / 4 % 2 ? IWARP_FAULT_LOCAL_DEREGISTERED : IWARP_FAULT_NONE);
        assert_int_equal(e.sent.n > 100, i / 4 % 2 == 0);
        atomic_fetch_sub(&e.budget.used, others);
        endpoint_fini(&e);
    }
}

/* --- a path that changes ---------------------------------------------------------------------- */

/* FPDUs as they lie in the stream: those framed before the change keep their size. */
/* [DDP-3-02] */
static void mulpdu__changed_amid_a_message__counts_for_what_is_framed_later(void **state)
{
    const uint32_t octets = 1 << 20;

    (void)state;
    for (uint32_t later = 500; later <= 4500; later += 4000) {
        uint32_t payload = 0, sizes[2] = {0, 0};
        struct endpoint e;
        struct fpdu f;
        endpoint_init(&e, &(struct endpoint_options){.mulpdu = 1442});
        struct area *a = endpoint_area(&e, KEY, 0x7000, octets, 0, 0x5a);
        const struct iwarp_sge sge = area_sge(a, 0, octets);
        endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE,
                                                  .sg_list = &sge,
                                                  .num_sge = 1,
                                                  .remote_stag = 0x00010203,
                                                  .remote_to = 0x1000});
        assert_int_equal(endpoint_send(&e, 1000), 1000); /* of the first FPDU */
        uint64_t framed = e.s.tx.framed;
        assert_in_range(framed, 2000, octets / 2);
        e.s.config.mulpdu = later;
        endpoint_drain(&e);
        for (size_t at = 0; at < e.sent.n; at += f.len) {
            uint32_t room = (at < framed ? 1442 : later) - 14, left = octets - payload;
            assert_true(fpdu_decode(e.sent.p + at, e.sent.n - at, true, &f));
            assert_true(f.to == 0x1000 + payload);
            assert_int_equal(f.payload_len, room < left ? room : left);
            payload += (uint32_t)f.payload_len;
            sizes[at >= framed]++;
        }
        assert_int_equal(payload, octets);
        assert_true(sizes[0] > 1 && sizes[1] > 1);
        endpoint_fini(&e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gather__memory__is_lent_until_sent),
        cmocka_unit_test(deregister__with_octets_unsent__resets),
        cmocka_unit_test(deregister__of_one_of_three_unsent__gives_the_others_back),
        cmocka_unit_test(deregister__and_another_gets_the_stag__resets),
        cmocka_unit_test(deregister__with_its_octets_sent__is_no_fault),
        cmocka_unit_test(gather__many_regions__are_not_too_many),
        cmocka_unit_test(payload__up_to_a_size__is_copied),
        cmocka_unit_test(mulpdu__changed_amid_a_message__counts_for_what_is_framed_later),
    };

    return cmocka_run_group_tests_name("stream_block", tests, NULL, NULL);
}
