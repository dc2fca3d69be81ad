/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules that Atomics share with RDMA Reads or have alone, one table each: what a fence holds back
 * while an Atomic is unanswered, every operation code that there is not, requests that come twice,
 * memory for answers that runs out. RFC 7306 5 and 8.2, verbs 8.2.2.2.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "alloc_fault.h"
#include "deliveries.h"

#define ATOMIC (IWARP_ACCESS_REMOTE_ATOMIC | IWARP_ACCESS_LOCAL_WRITE)

#define OPERANDS "0000000000000005 0000000000000000 0000000000000000 ffffffffffffffff"
#define REQ(msn) "414a 00000000 00000001 0000000" msn "00000000"
#define ADD(msn) REQ(msn) "00000000 0000000" msn "00010203 0000000000001008" OPERANDS

static uint64_t word(const struct area *a, size_t off)
{
    uint64_t w;

    memcpy(&w, a->p + off, sizeof w);
    return w;
}

static void feed_ulpdu(struct endpoint *e, const char *ulpdu)
{
    struct octets o = {0};

    fpdu_hex(&o, ulpdu, 0);
    iwarp_stream_feed(&e->s, o.p, o.n);
    octets_free(&o);
    iwarp_stream_check(&e->s);
}

static void post(struct endpoint *e, enum iwarp_wr_opcode opcode, unsigned flags,
                 const struct iwarp_sge *sge)
{
    bool bare = opcode == IWARP_WR_SEND || opcode == IWARP_WR_IMM;

    endpoint_post(e, &(struct iwarp_send_wr){.opcode = opcode,
                                             .flags = flags,
                                             .sg_list = sge,
                                             .num_sge = bare ? 0 : 1,
                                             .remote_stag = 0x00010203,
                                             .remote_to = 0x1008,
                                             .operand = 5});
}

/* --- fence ----------------------------------------------------------------------------------- */

static const enum iwarp_wr_opcode kinds[] = {IWARP_WR_SEND,           IWARP_WR_WRITE,
                                             IWARP_WR_READ,           IWARP_WR_IMM,
                                             IWARP_WR_WRITE_IMM,      IWARP_WR_ATOMIC_FETCH_ADD,
                                             IWARP_WR_ATOMIC_CMP_SWAP};

/* Two Atomics, and then one of each kind: it waits for both if it has the fence, else for none. */
static void fence__with_atomics_outstanding__waits_for_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * (sizeof kinds / sizeof *kinds); i++) {
        bool fenced = i & 1;
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true, .ord = 8});
        struct area *sink = endpoint_area(&e, 0x00aabb00, 0, 32, LOCAL, 0xee);
        const struct iwarp_sge sge[] = {area_sge(sink, 0, 8), area_sge(sink, 8, 8),
                                        area_sge(sink, 16, 8)};
        post(&e, IWARP_WR_ATOMIC_FETCH_ADD, 0, &sge[0]);
        post(&e, IWARP_WR_ATOMIC_CMP_SWAP, 0, &sge[1]);
        endpoint_drain(&e);
        endpoint_forget_sent(&e);
        post(&e, kinds[i / 2], fenced ? IWARP_WR_FENCE : 0, &sge[2]);
        endpoint_drain(&e);
        assert_int_equal(e.sent.n != 0, !fenced);
        feed_ulpdu(&e, "414b 00000000 00000003 00000001 00000000 00000001 0000000000000000");
        endpoint_drain(&e);
        assert_int_equal(e.sent.n != 0, !fenced); /* one of them is not all */
        assert_int_equal(e.sq.done, 1);
        feed_ulpdu(&e, "414b 00000000 00000003 00000002 00000000 00000002 0000000000000000");
        endpoint_drain(&e);
        assert_int_not_equal(e.sent.n, 0);
        assert_int_equal(e.s.life, STREAM_RUNNING);
        endpoint_fini(&e);
    }
}

/* --- operations that there are not ----------------------------------------------------------- */

struct unknown {
    unsigned aop;
};

static void setup_unknown(struct endpoint *e, void *arg)
{
    (void)arg;
    endpoint_area(e, 0x00010203, 0x1000, 32, ATOMIC, 0);
}

/* The one before it was done and answered, this one and the one behind it were not. */
static void check_unknown(struct endpoint *e, void *arg)
{
    const struct unknown *u = arg;

    assert_string_equal(iwarp_fault_name(e->s.fault.code), "ATOMIC_OPERATION");
    assert_int_equal(e->s.fault.detail[0], u->aop);
    struct octets o = {0};
    fpdu_hex(&o, "414b 00000000 00000003 00000001 00000000 00000001 0000000000000000", 0);
    fpdu_hex(&o, "4147 00000000 00000002 00000001 00000000 0206c000 0046" REQ("2"), 0);
    if (e->options.no_crc) {
        memset(o.p + 32, 0, 4); /* behind 2 + 30 octets; the Terminate's is the last */
        memset(o.p + o.n - 4, 0, 4);
    }
    octets_expect("what was sent", e->sent.p, e->sent.n, o.p, o.n);
    octets_free(&o);
    assert_true(word(&e->area[0], 8) == 5);
    assert_true(word(&e->area[0], 16) == 0);
}

static void request__of_every_unknown_operation__is_0_2_06(void **state)
{
    (void)state;
    for (unsigned aop = 0; aop < 16; aop++) {
        struct unknown u = {aop};
        struct octets o = {0};
        struct scene scene = {.options = {.rfc7306 = true, .ird = 3},
                              .setup = setup_unknown,
                              .check = check_unknown,
                              .arg = &u};
        char ulpdu[300];
        if (aop == 0 || aop == 2) { /* FetchAdd, CmpSwap: RFC 7306 figure 5 */
            continue;
        }
        fpdu_hex(&o, ADD("1"), 0);
        snprintf(ulpdu, sizeof ulpdu,
                 REQ("2") "0000000%x 00000002 00010203 0000000000001010" OPERANDS, aop);
        fpdu_hex(&o, ulpdu, 0);
        fpdu_hex(&o, ADD("3"), 0);
        scene.octets = o.p;
        scene.n = o.n;
        receive_every_way(&scene);
        octets_free(&o);
    }
}

/* --- alignment ------------------------------------------------------------------------------- */

/* It is the address that counts: here TOs that are multiples of 8 belong to addresses that are not,
 * and the other way round. */
/* [RDMAX-8.2-05] [RDMAX-5.2.1-05] */
static void request__where_to_and_address_differ__goes_by_the_address(void **state)
{
    (void)state;
    for (unsigned to = 0x1004; to <= 0x100c; to++) {
        struct endpoint e;
        char ulpdu[300];
        endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true, .ird = 1});
        struct area *a = endpoint_area(&e, 0x00010203, 0x1004, 16, ATOMIC, 0);
        bool aligned = (uintptr_t)(a->p + (to - 0x1004)) % 8 == 0;
        snprintf(ulpdu, sizeof ulpdu,
                 REQ("1") "00000000 00000001 00010203 000000000000%04x" OPERANDS, to);
        feed_ulpdu(&e, ulpdu);
        endpoint_drain(&e);
        assert_string_equal(iwarp_fault_name(e.s.fault.code),
                            aligned ? "NONE" : "ATOMIC_ALIGNMENT");
        assert_int_equal(word(a, 0) != 0 || word(a, 8) != 0, aligned);
        endpoint_fini(&e);
    }
}

/* --- among requests without a pause --------------------------------------------------------- */

/* Three FPDUs: batches of a little more than two of the largest end amid such a Write. */
#define LONG (3u * 50000u)

static void post_write(struct endpoint *e, const struct area *a)
{
    const struct iwarp_sge sge = area_sge(a, 0, LONG);

    endpoint_post(e, &(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE,
                                             .sg_list = &sge,
                                             .num_sge = 1,
                                             .remote_stag = 0x00010203,
                                             .remote_to = 0x1008});
}

/* The send queue is never empty, and no batch ends where a message does: the answer goes out at the
 * next border of a message all the same, as a Read Response would. */
static void request__while_long_writes_go_out__is_answered_in_its_turn(void **state)
{
    (void)state;
    struct endpoint e;
    endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true, .ird = 2, .mulpdu = 64768});
    struct area *from = endpoint_area(&e, 0x00aabb00, 0, LONG, LOCAL, 0x55);
    struct area *a = endpoint_area(&e, 0x00010203, 0x1000, 16, ATOMIC, 0);
    unsigned writes = 2;
    post_write(&e, from);
    post_write(&e, from);
    size_t n = endpoint_send(&e, SIZE_MAX);
    iwarp_stream_released(&e.s, n);
    assert_int_equal(e.s.tx.kind, TX_REQUEST); /* amid a Write */
    feed_ulpdu(&e, ADD("1"));
    while (word(a, 8) == 0 && writes < 60) {
        post_write(&e, from);
        writes++;
        n = endpoint_send(&e, SIZE_MAX);
        iwarp_stream_released(&e.s, n);
        endpoint_forget_sent(&e);
    }
    assert_true(word(a, 8) == 5);
    assert_true(writes <= 4);
    endpoint_drain(&e);
    assert_int_equal(e.sq.done, writes);
    endpoint_fini(&e);
}

/* --- never twice ----------------------------------------------------------------------------- */

/* The same request once more is out of order, whether the first was answered by then or not. */
static void request__that_comes_again__is_done_once(void **state)
{
    (void)state;
    for (unsigned answered = 0; answered < 2; answered++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true, .ird = 2});
        struct area *a = endpoint_area(&e, 0x00010203, 0x1000, 16, ATOMIC, 0);
        feed_ulpdu(&e, ADD("1"));
        if (answered) {
            endpoint_drain(&e);
            assert_true(word(a, 8) == 5);
        }
        feed_ulpdu(&e, ADD("1"));
        endpoint_drain(&e);
        assert_string_equal(iwarp_fault_name(e.s.fault.code), "DDP_MSN");
        assert_true(word(a, 8) == (answered ? 5 : 0));
        endpoint_fini(&e);
    }
}

struct sides {
    struct endpoint e[2];
    struct area *sink, *target;
};

#define ROUNDS 4

static void sides_init(struct sides *s)
{
    for (unsigned i = 0; i < 2; i++) {
        endpoint_init(&s->e[i], &(struct endpoint_options){.rfc7306 = true, .ird = 2, .ord = 2});
        octets_fill(&s->e[i].sent, 0, 1u << 14); /* grows no more */
        endpoint_forget_sent(&s->e[i]);
    }
    s->sink = endpoint_area(&s->e[0], 0x00aabb00, 0, 8 * ROUNDS, LOCAL, 0xee);
    s->target = endpoint_area(&s->e[1], 0x00010203, 0x1000, 16, ATOMIC, 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        const struct iwarp_sge sge = area_sge(s->sink, (size_t)8 * i, 8);
        post(&s->e[0], IWARP_WR_ATOMIC_FETCH_ADD, 0, &sge);
    }
}

/* In pieces of 7 octets, so that every FPDU is collected. */
static void talk(struct sides *s)
{
    for (unsigned i = 0, quiet = 0; quiet < 2; i++) {
        struct endpoint *from = &s->e[i & 1], *to = &s->e[1 - (i & 1)];
        endpoint_drain(from);
        quiet = from->sent.n == 0 ? quiet + 1 : 0;
        for (size_t at = 0; at < from->sent.n; at += 7) {
            size_t left = from->sent.n - at;
            iwarp_stream_feed(&to->s, from->sent.p + at, left < 7 ? left : 7);
            iwarp_stream_check(&to->s);
        }
        endpoint_forget_sent(from);
    }
}

/* The n-th allocation fails, for all n: what was reported as done was done, at most one was done
 * and not reported, for each that could be on its way, and none was done twice. */
static void exchange__any_allocation_fails__does_none_twice(void **state)
{
    bool whole = false;

    (void)state;
    for (unsigned n = 1; !whole; n++) {
        struct sides s;
        sides_init(&s);
        alloc_fault_at(n);
        talk(&s);
        whole = alloc_fault_count() < n;
        alloc_fault_at(0);
        uint64_t value = word(s.target, 8), done = 0;
        for (unsigned i = 0; i < ROUNDS; i++) {
            uint64_t old = word(s.sink, (size_t)8 * i);
            assert_true(old == 5 * (uint64_t)i || old == 0xeeeeeeeeeeeeeeee);
            done += old != 0xeeeeeeeeeeeeeeee;
        }
        assert_int_equal(value % 5, 0);
        assert_in_range(value / 5, done, done + 2 < ROUNDS ? done + 2 : ROUNDS);
        assert_true(!whole || (done == ROUNDS && s.e[0].sq.done == ROUNDS && n > 3));
        endpoint_fini(&s.e[0]);
        endpoint_fini(&s.e[1]);
        assert_true(n < 200);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fence__with_atomics_outstanding__waits_for_all),
        cmocka_unit_test(request__where_to_and_address_differ__goes_by_the_address),
        cmocka_unit_test(request__while_long_writes_go_out__is_answered_in_its_turn),
        cmocka_unit_test(request__of_every_unknown_operation__is_0_2_06),
        cmocka_unit_test(request__that_comes_again__is_done_once),
        cmocka_unit_test(exchange__any_allocation_fails__does_none_twice),
    };

    return cmocka_run_group_tests_name("stream_atomic_rules", tests, NULL, NULL);
}
