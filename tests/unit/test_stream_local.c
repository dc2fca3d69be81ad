/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that send nothing: when their turn comes, what they wait for, what one that is not
 * possible does to the stream; RDMA Read with Invalidate; and STags that become valid again while
 * something is half sent. Verbs draft 8.2.2, 7.8, 7.10.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <unistd.h>

#include "endpoint.h"
#include "vectors.h"

#define STAG 0x00010203u
#define MIB  ((size_t)1 << 20)

static void post(struct endpoint *e, enum iwarp_wr_opcode opcode, unsigned flags,
                 const struct iwarp_binding *b, uint32_t stag)
{
    uint32_t head = iwarp_wq_head(&e->sq);

    endpoint_post(
        e, &(struct iwarp_send_wr){.opcode = opcode, .flags = flags, .invalidate_stag = stag});
    if (b) { /* nobody looks before the stream is driven */
        *iwarp_swqe_binding(iwarp_sq_at(&e->sq, head)) = *b;
    }
}

static void post_send(struct endpoint *e, const struct area *a, size_t len)
{
    struct iwarp_sge sge = area_sge(a, 0, len);

    endpoint_post(e, &(struct iwarp_send_wr){.sg_list = &sge, .num_sge = 1});
}

static bool valid(struct endpoint *e, uint32_t stag)
{
    struct iwarp_region *r = iwarp_region_lend(e->regions, stag);

    if (r) {
        iwarp_region_settle(r);
    }
    return r != NULL;
}

static void expect_fault(const struct endpoint *e, enum iwarp_fault_code code)
{
    assert_string_equal(iwarp_fault_name(e->s.fault.code), iwarp_fault_row(code)->name);
}

/* --- order --- */

static void local__alone__is_done_and_sends_nothing(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    struct area *a = endpoint_area(&e, STAG, 0x1000, 64, READABLE, 7);
    post(&e, IWARP_WR_LOCAL_INV, 0, NULL, STAG);
    assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_WRITE);
    endpoint_drain(&e);
    assert_int_equal(e.sq.done, 1);
    assert_false(valid(&e, STAG));
    const struct iwarp_binding b = {.addr = a->p,
                                    .len = 64,
                                    .to_base = 0x2000,
                                    .access = IWARP_ACCESS_REMOTE_READ,
                                    .stag = STAG ^ 0xff};
    post(&e, IWARP_WR_REG_MR, 0, &b, 0);
    endpoint_drain(&e);
    assert_int_equal(e.sq.done, 2);
    assert_true(valid(&e, STAG ^ 0xff));
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(endpoint_swqe(&e, i)->status, IWARP_WC_SUCCESS);
    }
    endpoint_expect_sent(&e, "");
    assert_int_equal(e.s.tx.send_msn, 1);
    endpoint_fini(&e);
}

/* Posted together: register, send from it, invalidate. The Send's octets are literal. */
/* [VERBS-8.2.2.1-03] */
static void local__in_a_chain__takes_effect_before_what_follows(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    struct area *a = endpoint_area(&e, STAG, 0x1000, 5, LOCAL, 0);
    memcpy(a->p, "hello", 5);
    const struct iwarp_binding b = {
        .addr = a->p, .len = 5, .to_base = 0x9000, .stag = (STAG & ~0xffu) | 9};
    post(&e, IWARP_WR_LOCAL_INV, 0, NULL, STAG);
    post(&e, IWARP_WR_REG_MR, 0, &b, 0);
    struct iwarp_sge sge = {(void *)(uintptr_t)0x9000, 5, b.stag}; /* area_sge has the old STag */
    endpoint_post(&e, &(struct iwarp_send_wr){.sg_list = &sge, .num_sge = 1});
    post(&e, IWARP_WR_LOCAL_INV, 0, NULL, b.stag);
    endpoint_drain(&e);
    endpoint_expect_sent(&e, V01);
    assert_int_equal(e.sq.done, 4);
    assert_false(valid(&e, b.stag));
    assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
    endpoint_fini(&e);
}

/* Nothing of a Send is lost when its buffer's STag ends right behind it; no fence is needed. */
static void invalidate__behind_a_large_send__waits_until_all_is_sent(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    struct area *a = endpoint_area(&e, STAG, 0x1000, MIB, LOCAL, 5);
    post_send(&e, a, MIB);
    post(&e, IWARP_WR_LOCAL_INV, 0, NULL, STAG);
    post(&e, IWARP_WR_SEND, 0, NULL, 0);
    while (e.s.tx.sent < MIB) {
        size_t n = endpoint_send(&e, 100001);
        assert_true(n > 0);
        iwarp_stream_released(&e.s, n);
        assert_true(valid(&e, STAG) || e.s.tx.sent > MIB);
    }
    endpoint_drain(&e);
    assert_int_equal(e.sq.done, 3);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
    assert_false(valid(&e, STAG));
    assert_int_equal(e.s.tx.send_msn, 3);
    endpoint_fini(&e);
}

/* A window of type 1 is bound elsewhere only once nothing framed refers to it; registering waits
 * for nothing. */
static void bind__while_half_an_fpdu_is_unsent__waits(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    struct area *a = endpoint_area(&e, STAG, 0x1000, 4000, LOCAL | IWARP_ACCESS_MW_BIND, 5);
    struct area *fresh = endpoint_area(&e, 0x00444400, 0x9000, 8, LOCAL, 0);
    struct iwarp_region window = {.kind = REGION_WINDOW_1, .pd = a->region.pd};
    assert_true(iwarp_region_reserve(e.regions, &window, 0x00777700));
    atomic_store(&fresh->region.stag, 0);
    const struct iwarp_binding open = {.addr = a->p,
                                       .len = 100,
                                       .access = IWARP_ACCESS_REMOTE_READ,
                                       .stag = 0x00777701,
                                       .region = STAG};
    const struct iwarp_binding anew = {.addr = fresh->p, .len = 8, .stag = 0x00444401};
    post_send(&e, a, 1000);
    post(&e, IWARP_WR_REG_MR, 0, &anew, 0);
    post(&e, IWARP_WR_BIND_MW, 0, &open, 0);
    assert_int_equal(endpoint_send(&e, 600), 600);
    assert_true(valid(&e, anew.stag));
    assert_false(valid(&e, open.stag));
    iwarp_stream_released(&e.s, 600);
    endpoint_drain(&e);
    assert_true(valid(&e, open.stag));
    assert_int_equal(e.sq.done, 3);
    assert_int_equal(a->region.windows, 1);
    iwarp_region_revoke(e.regions, &window);
    iwarp_region_end(&window);
    assert_int_equal(a->region.windows, 0);
    endpoint_fini(&e);
}

/* --- fences --- */

static void post_read(struct endpoint *e, enum iwarp_wr_opcode opcode)
{
    struct iwarp_sge sge = {(void *)(uintptr_t)0x2000, 8, 0x11223344};

    endpoint_post(e, &(struct iwarp_send_wr){.opcode = opcode,
                                             .sg_list = &sge,
                                             .num_sge = 1,
                                             .remote_stag = STAG,
                                             .remote_to = 0x1000});
}

/* VERBS-8.2.2.2-02 */
/* [VERBS-8.2.2.2-02] */
static void fence__local__waits_for_all_earlier_requests(void **state)
{
    struct endpoint e;

    (void)state;
    for (unsigned fenced = 0; fenced < 2; fenced++) {
        endpoint_init(&e, NULL);
        endpoint_area(&e, 0x11223344, 0x2000, 8, LOCAL, 0);
        endpoint_area(&e, 0x00555500, 0x3000, 8, LOCAL, 0);
        post_read(&e, IWARP_WR_READ);
        post(&e, IWARP_WR_LOCAL_INV, fenced ? IWARP_WR_FENCE : 0, NULL, 0x00555500);
        endpoint_drain(&e);
        assert_int_equal(valid(&e, 0x00555500), fenced);
        assert_int_equal(e.sq.done, 0); /* completions keep the order */
        endpoint_feed_hex(&e, V12);
        endpoint_drain(&e);
        assert_false(valid(&e, 0x00555500));
        assert_int_equal(e.sq.done, 2);
        endpoint_expect_sent(&e, V10);
        endpoint_fini(&e);
    }
}

/* A fence waits for Sends too: until the transport has released them. */
static void fence__behind_a_send__waits_until_it_is_released(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    endpoint_area(&e, STAG, 0x3000, 8, LOCAL, 0);
    post(&e, IWARP_WR_SEND, 0, NULL, 0);
    post(&e, IWARP_WR_LOCAL_INV, IWARP_WR_FENCE, NULL, STAG);
    size_t n = endpoint_send(&e, SIZE_MAX);
    assert_int_equal(n, 24);
    assert_int_equal(endpoint_send(&e, SIZE_MAX), 0);
    assert_true(valid(&e, STAG));
    iwarp_stream_released(&e.s, n);
    endpoint_drain(&e);
    assert_false(valid(&e, STAG));
    endpoint_fini(&e);
}

/* --- beside a thread that changes the same region --- */

struct other {
    struct endpoint *e;
    struct area *a;
    pthread_t thread;
    _Atomic bool ready, over;
};

/* Another stream of the PD invalidates the region, once this one has it lent. */
static void *invalidate_when_lent(void *arg)
{
    struct other *o = arg;
    const struct iwarp_binder who = {o->e->regions, o->e->s.config.pd, 77};
    struct iwarp_fault fault = {.code = IWARP_FAULT_NONE};

    atomic_store(&o->ready, true);
    while (!iwarp_region_lent(&o->a->region) && !atomic_load(&o->over)) {
    }
    (void)iwarp_bind_invalidate(&who, STAG, &fault);
    return NULL;
}

/* It waits until the Sends are out: it claims a region, and a thread that has claimed that one may
 * wait for what this one has lent. */
static void register__behind_sends_of_a_region_that_another_invalidates__does_not_hang(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 300; round++) {
        struct endpoint e;
        struct other o = {.e = &e};
        endpoint_init(&e, &(struct endpoint_options){.mulpdu = 64768, .large_batches = true});
        o.a = endpoint_area(&e, STAG, 0x1000, MIB, LOCAL, 7);
        const struct iwarp_binding b = {.addr = o.a->p, .len = 64, .to_base = 0x2000, .stag = STAG};
        post_send(&e, o.a, 64000); /* one FPDU: a second one would find the region gone */
        post(&e, IWARP_WR_REG_MR, 0, &b, 0);
        assert_int_equal(pthread_create(&o.thread, NULL, invalidate_when_lent, &o), 0);
        while (!atomic_load(&o.ready)) {
        }
        alarm(20); /* a thread that waits for the other one spins */
        endpoint_drain(&e);
        atomic_store(&o.over, true);
        pthread_join(o.thread, NULL);
        alarm(0);
        endpoint_fini(&e);
    }
}

/* --- beside a peer that reads without a pause --- */

/*
 * Two Reads of the peer wait at any time, and their responses fill each batch to its end: short
 * ones, an even or odd number of them, or long ones that end amid a batch. `late`: what is sent is
 * released only after the next batch.
 */
static void invalidate_beside_reads(uint32_t octets, bool late)
{
    enum { ROUNDS = 200 };
    struct endpoint e;
    uint32_t asked = 0;
    size_t unreleased = 0;

    endpoint_init(&e, &(struct endpoint_options){.mulpdu = 64768, .ird = 2});
    endpoint_area(&e, 0x00aabb00, 0x7000, MIB, LOCAL | READABLE, 1);
    endpoint_area(&e, STAG, 0x1000, 64, LOCAL | READABLE, 7);
    for (unsigned round = 0; round < ROUNDS && valid(&e, STAG); round++) {
        while (e.s.reads.in_count < 2) {
            endpoint_feed_read(&e, ++asked, octets);
        }
        if (round == 3) {
            post(&e, IWARP_WR_LOCAL_INV, 0, NULL, STAG);
            post_send(&e, &e.area[0], 100);
        }
        size_t n = endpoint_send(&e, SIZE_MAX);
        iwarp_stream_released(&e.s, late ? unreleased : n);
        unreleased = n;
        endpoint_forget_sent(&e);
    }
    assert_false(valid(&e, STAG));
    iwarp_stream_released(&e.s, late ? unreleased : 0);
    endpoint_drain(&e);
    assert_int_equal(e.sq.done, 2);
    assert_int_equal(e.s.reads.in_count, 0);
    assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
    endpoint_fini(&e);
}

/* It stands in front of all later requests, so a peer must not be able to put it off. */
static void invalidate__while_a_peer_reads_without_a_pause__is_done(void **state)
{
    static const uint32_t sizes[] = {0, 10, 50000, 64000, 150000, 400000};

    (void)state;
    for (unsigned i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        print_message("# %u octets, %s\n", sizes[i / 2], i % 2 ? "released late" : "released");
        invalidate_beside_reads(sizes[i / 2], i % 2);
    }
}

/* While a local request waits behind a Read of this end, the peer's Reads are answered in one
 * batch: none of the responses waits for the release of the one before. */
static void fence__behind_a_read__holds_up_no_responses(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    endpoint_area(&e, 0x00aabb00, 0x7000, 64, LOCAL | READABLE, 1);
    endpoint_area(&e, 0x11223344, 0x2000, 8, LOCAL, 0);
    endpoint_area(&e, STAG, 0x3000, 8, LOCAL, 0);
    post_read(&e, IWARP_WR_READ);
    post(&e, IWARP_WR_LOCAL_INV, IWARP_WR_FENCE, NULL, STAG);
    endpoint_drain(&e);
    for (uint32_t msn = 1; msn <= 4; msn++) {
        endpoint_feed_read(&e, msn, 10);
    }
    size_t n = endpoint_send(&e, SIZE_MAX);
    assert_int_equal(e.s.reads.in_count, 0);
    iwarp_stream_released(&e.s, n);
    assert_true(valid(&e, STAG));
    endpoint_feed_hex(&e, V12);
    endpoint_drain(&e);
    assert_false(valid(&e, STAG));
    assert_int_equal(e.sq.done, 2);
    endpoint_fini(&e);
}

/* A responder may not send before the first FPDU came, but may bind. */
static void local__at_a_responder_that_must_be_silent__is_done(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.hold_tx = true, .ird = 4, .ord = 4});
    endpoint_area(&e, STAG, 0x3000, 8, LOCAL, 0);
    endpoint_area(&e, 0x00555500, 0x4000, 8, LOCAL, 0);
    post(&e, IWARP_WR_LOCAL_INV, 0, NULL, STAG);
    post(&e, IWARP_WR_SEND, 0, NULL, 0);
    post(&e, IWARP_WR_LOCAL_INV, 0, NULL, 0x00555500);
    endpoint_drain(&e);
    assert_false(valid(&e, STAG));
    assert_true(valid(&e, 0x00555500)); /* behind the Send */
    assert_int_equal(e.sq.done, 1);
    endpoint_expect_sent(&e, "");
    endpoint_feed_hex(&e, V09);
    endpoint_drain(&e);
    assert_int_equal(e.sq.done, 3);
    endpoint_expect_sent(&e, "00124143 00000000 00000000 00000001 00000000 587be8c4");
    endpoint_fini(&e);
}

/* --- what is not possible --- */

/* It completes with an error, a Terminate 0/0/00 goes out, and nothing behind it is carried out. */
static void local__not_possible__ends_the_stream(void **state)
{
    static const enum iwarp_wr_opcode opcodes[] = {IWARP_WR_LOCAL_INV, IWARP_WR_REG_MR,
                                                   IWARP_WR_BIND_MW};
    static const enum iwarp_fault_code codes[] = {
        IWARP_FAULT_LOCAL_INVALIDATE, IWARP_FAULT_LOCAL_REGISTER, IWARP_FAULT_LOCAL_BIND_WINDOW};
    const struct iwarp_binding b = {.stag = 0x00777700, .len = 1};
    struct endpoint e;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        endpoint_init(&e, NULL);
        endpoint_area(&e, STAG, 0x3000, 8, LOCAL, 0);
        post(&e, opcodes[i], 0, i == 0 ? NULL : &b, 0x00777700);
        post(&e, IWARP_WR_LOCAL_INV, 0, NULL, STAG);
        post(&e, IWARP_WR_SEND, 0, NULL, 0);
        endpoint_drain(&e);
        expect_fault(&e, codes[i]);
        endpoint_expect_sent(&e, V17);
        assert_int_equal(endpoint_swqe(&e, 0)->status, IWARP_WC_LOCAL_BIND);
        assert_int_equal(endpoint_swqe(&e, 1)->status, IWARP_WC_SUCCESS); /* untouched */
        assert_int_equal(e.sq.done, 0);
        assert_true(valid(&e, STAG));
        endpoint_fini(&e);
    }
}

/* --- RDMA Read with Invalidate --- */

/* VERBS-8.2.2.1-02: behind the last segment of the response, before the completion. */
/* [VERBS-8.2.2.1-02] */
static void read_inv__response_in_two_segments__invalidates_behind_the_last(void **state)
{
    struct endpoint e;
    struct octets o = {0}, u = {0};

    (void)state;
    endpoint_init(&e, NULL);
    struct area *a = endpoint_area(&e, 0x11223344, 0x2000, 8, LOCAL, 0);
    post_read(&e, IWARP_WR_READ_INV);
    endpoint_drain(&e);
    endpoint_expect_sent(&e, V10); /* as any RDMA Read */
    octets_hex(&u, "8142 11223344 00000000 00002000 00010203");
    fpdu_add(&o, u.p, u.n, 0);
    iwarp_stream_feed(&e.s, o.p, o.n);
    assert_true(valid(&e, 0x11223344));
    assert_int_equal(e.sq.done, 0);
    o.n = u.n = 0;
    octets_hex(&u, "c142 11223344 00000000 00002004 04050607");
    fpdu_add(&o, u.p, u.n, 0);
    iwarp_stream_feed(&e.s, o.p, o.n);
    assert_false(valid(&e, 0x11223344));
    assert_int_equal(e.sq.done, 1);
    assert_memory_equal(a->p, "\0\1\2\3\4\5\6\7", 8);
    octets_free(&o);
    octets_free(&u);
    endpoint_fini(&e);
}

static void read_inv__sink_with_a_window__ends_the_stream(void **state)
{
    struct endpoint e;

    (void)state;
    endpoint_init(&e, NULL);
    struct area *a = endpoint_area(&e, 0x11223344, 0x2000, 8, LOCAL, 0);
    a->region.windows = 1;
    endpoint_recv_area(&e, endpoint_area(&e, 0x00aabb00, 0, 16, LOCAL, 0xee));
    post_read(&e, IWARP_WR_READ_INV);
    endpoint_drain(&e);
    endpoint_forget_sent(&e);
    endpoint_feed_hex(&e, V12 V01);
    endpoint_drain(&e);
    expect_fault(&e, IWARP_FAULT_LOCAL_INVALIDATE_BOUND);
    assert_int_equal(endpoint_swqe(&e, 0)->status, IWARP_WC_LOCAL_BIND);
    assert_int_equal(e.sq.done, 0);
    assert_int_equal(e.rq.done, 0); /* the Send behind it is not taken */
    a->region.windows = 0;
    endpoint_fini(&e);
}

/* --- STags that become valid again --- */

/*
 * Half an FPDU is sent when another queue pair invalidates its buffer and registers other memory
 * under the very same STag: the old memory may not be read any more, the new was not meant.
 */
static void half_sent__stag_registered_anew__resets_the_connection(void **state)
{
    struct endpoint e;

    (void)state;
    for (unsigned same = 0; same < 2; same++) {
        endpoint_init(&e, &(struct endpoint_options){.refers = true});
        struct area *a = endpoint_area(&e, STAG, 0x1000, 4000, LOCAL, 5);
        struct area *b = endpoint_area(&e, 0x00555500, 0x1000, 4000, LOCAL, 6);
        const struct iwarp_binder who = {e.regions, a->region.pd, 99};
        const struct iwarp_binding anew = {
            .addr = b->p, .len = 4000, .to_base = 0x1000, .access = LOCAL, .stag = STAG};
        post_send(&e, a, 4000);
        assert_int_equal(endpoint_send(&e, 1000), 1000);
        if (!same) {
            assert_true(iwarp_bind_invalidate(&who, STAG, &e.s.fault));
            assert_true(iwarp_bind_region(&who, &anew, &e.s.fault));
        }
        endpoint_drain(&e);
        if (same) {
            assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
        } else {
            expect_fault(&e, IWARP_FAULT_LOCAL_DEREGISTERED);
            assert_true(e.s.abort);
            assert_int_equal(e.sent.n, 1000);
        }
        endpoint_fini(&e);
    }
}

/* The same with an RDMA Read Response, from a window that is opened elsewhere under the very same
 * STag. */
static void half_answered__window_opened_anew__resets_the_connection(void **state)
{
    struct endpoint e;

    (void)state;
    for (unsigned same = 0; same < 2; same++) {
        endpoint_init(&e, &(struct endpoint_options){.refers = true, .no_crc = true, .ird = 1});
        e.s.config.qp = 7;
        struct area *a = endpoint_area(&e, STAG, 0, 4000, LOCAL | IWARP_ACCESS_MW_BIND, 5);
        struct area *b = endpoint_area(&e, 0x00555500, 0, 4000, LOCAL | IWARP_ACCESS_MW_BIND, 6);
        struct iwarp_region window = {.kind = REGION_WINDOW_2, .pd = a->region.pd};
        assert_true(iwarp_region_reserve(e.regions, &window, 0x00777700));
        const struct iwarp_binder who = {e.regions, a->region.pd, 7};
        struct iwarp_binding open = {.addr = a->p,
                                     .len = 1400,
                                     .access = READABLE | IWARP_ACCESS_ZERO_BASED,
                                     .stag = 0x00777701,
                                     .region = STAG};
        assert_true(iwarp_bind_window(&who, &open, &e.s.fault));
        struct octets o = {0}, u = {0};
        octets_hex(&u, "4141 00000000 00000001 00000001 00000000"
                       "11223344 00000000 00002000 00000578 00777701 00000000 00000000");
        fpdu_add(&o, u.p, u.n, 0);
        iwarp_stream_feed(&e.s, o.p, o.n);
        expect_fault(&e, IWARP_FAULT_NONE);
        assert_int_equal(endpoint_send(&e, 1000), 1000);
        if (!same) {
            open.addr = b->p;
            open.region = 0x00555500;
            assert_true(iwarp_bind_invalidate(&who, open.stag, &e.s.fault));
            assert_true(iwarp_bind_window(&who, &open, &e.s.fault));
        }
        endpoint_drain(&e);
        expect_fault(&e, same ? IWARP_FAULT_NONE : IWARP_FAULT_LOCAL_DEREGISTERED);
        assert_int_equal(e.s.abort, !same);
        assert_int_equal(e.sent.n, same ? 2 + 14 + 1400 + 4 : 1000);
        iwarp_region_revoke(e.regions, &window);
        iwarp_region_end(&window);
        octets_free(&o);
        octets_free(&u);
        endpoint_fini(&e);
    }
}

/* --- the peer invalidates --- */

/* RFC 5040 8.1.1 (7): not what several streams may use. The Send's payload has come nevertheless.
 */
/* [RDMAP-8.1.1-07] [SEC-6.4.5-01] */
static void peer_invalidates__region_of_several_streams__is_0_1_09(void **state)
{
    _Atomic unsigned qps = 1;
    struct endpoint e;

    (void)state;
    for (unsigned limited = 0; limited < 3; limited++) { /* shared; limited; the only stream */
        endpoint_init(&e, NULL);
        e.s.config.pd_qps = &qps;
        e.s.config.qp = 7;
        qps = limited == 2 ? 1 : 2;
        struct area *in = endpoint_area(&e, 0x00555500, 0x1000, 5, LOCAL, 0);
        struct area *a = endpoint_area(&e, 0x12345678, 0x9000, 5, READABLE, 0);
        a->region.qp = limited == 1 ? 7 : 0;
        endpoint_recv_area(&e, in);
        struct octets o = {0}, u = {0};
        octets_hex(&u, "4144 12345678 00000000 00000001 00000000 68656c6c6f");
        fpdu_add(&o, u.p, u.n, 0);
        iwarp_stream_feed(&e.s, o.p, o.n);
        assert_memory_equal(in->p, "hello", 5);
        assert_int_equal(valid(&e, 0x12345678), limited == 0);
        assert_int_equal(e.rq.done, limited > 0);
        endpoint_drain(&e);
        if (limited == 0) {
            expect_fault(&e, IWARP_FAULT_RDMAP_INVALIDATE_SHARED);
            endpoint_expect_terminate(&e, "0109c000 00174144 12345678 00000000 00000001 00000000");
        }
        octets_free(&o);
        octets_free(&u);
        endpoint_fini(&e);
    }
}

/* What has just come is not lent any more: the STag's end waits for the last user of its memory. */
static void peer_invalidates__behind_a_write_to_the_same_stag__does_not_wait_for_itself(
    void **state)
{
    struct octets o = {0}, u = {0};
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.plain = true});
    struct area *a = endpoint_area(&e, 0x12345678, 0x9000, 5, WRITABLE, 0);
    endpoint_recv_area(&e, endpoint_area(&e, 0x00555500, 0x1000, 5, LOCAL, 0));
    octets_hex(&u, "c140 12345678 00000000 00009000 68656c6c6f");
    fpdu_add(&o, u.p, u.n, 0);
    u.n = 0;
    octets_hex(&u, "4144 12345678 00000000 00000001 00000000 68656c6c6f");
    fpdu_add(&o, u.p, u.n, 0);
    iwarp_stream_feed(&e.s, o.p, o.n);
    expect_fault(&e, IWARP_FAULT_NONE);
    assert_memory_equal(a->p, "hello", 5);
    assert_int_equal(e.rq.done, 1);
    assert_false(valid(&e, 0x12345678));
    octets_free(&o);
    octets_free(&u);
    endpoint_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local__alone__is_done_and_sends_nothing),
        cmocka_unit_test(local__in_a_chain__takes_effect_before_what_follows),
        cmocka_unit_test(invalidate__behind_a_large_send__waits_until_all_is_sent),
        cmocka_unit_test(bind__while_half_an_fpdu_is_unsent__waits),
        cmocka_unit_test(fence__local__waits_for_all_earlier_requests),
        cmocka_unit_test(fence__behind_a_send__waits_until_it_is_released),
        cmocka_unit_test(
            register__behind_sends_of_a_region_that_another_invalidates__does_not_hang),
        cmocka_unit_test(invalidate__while_a_peer_reads_without_a_pause__is_done),
        cmocka_unit_test(fence__behind_a_read__holds_up_no_responses),
        cmocka_unit_test(local__at_a_responder_that_must_be_silent__is_done),
        cmocka_unit_test(local__not_possible__ends_the_stream),
        cmocka_unit_test(read_inv__response_in_two_segments__invalidates_behind_the_last),
        cmocka_unit_test(read_inv__sink_with_a_window__ends_the_stream),
        cmocka_unit_test(half_sent__stag_registered_anew__resets_the_connection),
        cmocka_unit_test(half_answered__window_opened_anew__resets_the_connection),
        cmocka_unit_test(peer_invalidates__region_of_several_streams__is_0_1_09),
        cmocka_unit_test(
            peer_invalidates__behind_a_write_to_the_same_stag__does_not_wait_for_itself),
    };

    return cmocka_run_group_tests_name("stream_local", tests, NULL, NULL);
}
