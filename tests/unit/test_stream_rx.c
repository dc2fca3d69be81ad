/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What arrives: the literal vectors, in every way a transport may hand them over, and what they do
 * to memory, queues and the peer. Faults are in test_stream_msg.c.
 *
 * RFC 5044 6, RFC 5041 5 and 7.1, RFC 5040 5.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "deliveries.h"
#include "vectors.h"

static void expect_running(const struct endpoint *e)
{
    assert_string_equal(iwarp_fault_name(e->s.fault.code), "NONE");
    assert_int_equal(e->s.life, STREAM_RUNNING);
}

static void expect_fault(const struct endpoint *e, enum iwarp_fault_code code)
{
    assert_string_equal(iwarp_fault_name(e->s.fault.code), iwarp_fault_name(code));
}

/* Deliver the FPDUs of hex in every way. */
static void receive(const char *hex, void (*setup)(struct endpoint *, void *),
                    void (*check)(struct endpoint *, void *), void *arg)
{
    struct octets o = {0};

    octets_hex(&o, hex);
    const struct scene scene = {.options = {.ird = 2, .ord = 2, .hold_tx = true},
                                .setup = setup,
                                .check = check,
                                .arg = arg,
                                .octets = o.p,
                                .n = o.n};
    receive_every_way(&scene);
    octets_free(&o);
}

/* --- Sends -------------------------------------------------------------------------------------
 */

static void post_five(struct endpoint *e, void *arg)
{
    (void)arg;
    endpoint_area(e, 0x12345678, 0, 16, WRITABLE, 0);
    endpoint_area(e, 0xabcdef01, 0, 16, READABLE, 0);
    for (uint32_t i = 0; i < 5; i++) {
        endpoint_recv_area(e, endpoint_area(e, 0x00111100 + (i << 8), 0, 7, LOCAL, 0xee));
    }
}

static void expect_recv(const struct endpoint *e, unsigned i, uint32_t len, unsigned flags,
                        uint32_t stag)
{
    const struct iwarp_rwqe *w = endpoint_rwqe(e, i);

    assert_int_equal(w->status, IWARP_WC_SUCCESS);
    assert_int_equal(w->byte_len, len);
    assert_int_equal(w->wc_flags, flags);
    assert_int_equal(w->invalidated_stag, stag);
}

static void expect_five(struct endpoint *e, void *arg)
{
    (void)arg;
    expect_running(e);
    assert_int_equal(e->rq.done, 5);
    expect_recv(e, 0, 5, 0, 0);
    expect_recv(e, 1, 0, 0, 0);
    expect_recv(e, 2, 4, IWARP_WC_SOLICITED, 0);
    expect_recv(e, 3, 0, IWARP_WC_WITH_INVALIDATE, 0x12345678);
    expect_recv(e, 4, 1, IWARP_WC_WITH_INVALIDATE | IWARP_WC_SOLICITED, 0xabcdef01);
    assert_memory_equal(e->area[2].p, "hello\xee\xee", 7);
    assert_memory_equal(e->area[3].p, "\xee\xee\xee\xee\xee\xee\xee", 7);
    assert_memory_equal(e->area[4].p, "\1\2\3\4\xee\xee\xee", 7);
    assert_memory_equal(e->area[5].p, "\xee\xee\xee\xee\xee\xee\xee", 7);
    assert_memory_equal(e->area[6].p, "x\xee\xee\xee\xee\xee\xee", 7);
    assert_int_equal(atomic_load(&e->area[0].region.stag), 0);
    assert_int_equal(atomic_load(&e->area[1].region.stag), 0);
    assert_int_equal(e->sent.n, 0);
}

/* [MPA-4.3-11] [DDP-3-07] [DDP-5.4-02] [DDP-4.1-02] [RDMAP-5.3-10] */
static void receive__sends__land_in_order_and_invalidate(void **state)
{
    (void)state;
    receive(V01 V02 V03 V04 V05, post_five, expect_five, NULL);
}

static void post_two(struct endpoint *e, void *arg)
{
    (void)arg;
    endpoint_recv_area(e, endpoint_area(e, 0x00111100, 0, 16, LOCAL, 0));
    endpoint_recv_area(e, endpoint_area(e, 0x00111200, 0, 16, LOCAL, 0));
    endpoint_area(e, 1, 0x0805b000, 1024, WRITABLE, 0);
}

static void expect_captured(struct endpoint *e, void *arg)
{
    (void)arg;
    expect_running(e);
    expect_recv(e, 0, 16, 0, 0);
    expect_recv(e, 1, 4, 0, 0);
    assert_memory_equal(e->area[0].p, "\0\4\0\0\1\0\0\0\0\xb0\5\x08\0\0\0\0", 16);
    assert_memory_equal(e->area[1].p, "\t\t\t\t\0\0\0\0", 8);
    for (unsigned i = 0; i < 1024; i++) {
        assert_int_equal(e->area[2].p[i], 2);
    }
}

static void receive__captured_fpdus__are_understood(void **state)
{
    struct octets o = {0};
    const struct scene scene = {.setup = post_two, .check = expect_captured};
    struct scene s = scene;

    (void)state;
    octets_hex(&o, CAPTURED_SEND_1 CAPTURED_SEND_2 CAPTURED_WRITE_HEAD);
    octets_fill(&o, 2, 1024);
    octets_hex(&o, CAPTURED_WRITE_CRC);
    s.octets = o.p;
    s.n = o.n;
    receive_every_way(&s);
    octets_free(&o);
}

/* --- Writes ------------------------------------------------------------------------------------
 */

static void register_for_writes(struct endpoint *e, void *arg)
{
    const uint64_t *to = arg;
    endpoint_area(e, 0x00010203, *to, 9, WRITABLE, 0xee);
    endpoint_recv(e, NULL, 0);
}

/* Nothing that the user would see. */
static void expect_silence(const struct endpoint *e)
{
    assert_int_equal(e->rq.done, 0);
    assert_int_equal(e->s.ddp.msn[0], 1);
}

static void expect_v06(struct endpoint *e, void *arg)
{
    (void)arg;
    expect_running(e);
    expect_silence(e);
    assert_memory_equal(e->area[0].p, "\xde\xad\xbe\xef\xee\xee\xee\xee\xee", 9);
}

static void expect_v07_v08(struct endpoint *e, void *arg)
{
    (void)arg;
    expect_running(e);
    expect_silence(e);
    assert_memory_equal(e->area[0].p, "\0\1\2\3\4\5\6\7\x08", 9);
}

/* [DDP-4.1-01] [DDP-5.2-05] [RDMAP-5.1-02] [VERBS-8.1.2.2-01] */
static void receive__writes__land_at_their_offset(void **state)
{
    uint64_t low = 0x1000, high = 0x7ffffffffff0;

    (void)state;
    receive(V06, register_for_writes, expect_v06, &low);
    receive(V07 V08, register_for_writes, expect_v07_v08, &high);
}

static void expect_nothing(struct endpoint *e, void *arg)
{
    (void)arg;
    expect_running(e);
    assert_int_equal(e->s.rx.fpdus, 4);
    assert_false(e->s.config.hold_tx);
    assert_int_equal(e->sent.n, 0);
}

/* Of no octets, at the last TO: to an STag that is unknown, and to one that grants no writes. */
#define LAST_UNKNOWN  "000ec140 ffffffff ffffffff ffffffff 4cb6a2bb"
#define LAST_READABLE "000ec140 00010203 ffffffff ffffffff bd86a372"

static void register_readable(struct endpoint *e, void *arg)
{
    (void)arg;
    endpoint_area(e, 0x00010203, 0x1000, 9, READABLE, 0xee);
}

/* [DDP-5.2-10] [DDP-5.2-11] [VERBS-7.10.6.2-03] */
static void receive__writes_of_nothing__are_not_checked(void **state)
{
    (void)state;
    receive(V09 V24 LAST_UNKNOWN LAST_READABLE, register_readable, expect_nothing, NULL);
}

/* --- Read Requests -----------------------------------------------------------------------------
 */

static void register_source(struct endpoint *e, void *arg)
{
    struct area *a = endpoint_area(e, 0x00010203, 0x1000, 8, READABLE, 0);

    (void)arg;
    for (uint8_t i = 0; i < 8; i++) {
        a->p[i] = i;
    }
}

static void expect_sent_hex(struct endpoint *e, void *arg)
{
    expect_running(e);
    endpoint_expect_sent(e, arg);
    assert_int_equal(e->s.reads.in_count, 0);
}

/* [RDMAP-4.4-02] [RDMAP-5.2.2-01] [RDMAP-5.2.2-07] [RDMAP-5.2.1-03] [RDMAP-5.2.1-11] */
/* [RDMAP-5.2.1-04] [RDMAP-5.2.1-14] [RDMAP-5.2.1-15] */
static void receive__read_requests__are_answered(void **state)
{
    static char v12[] = V12, v13[] = V13, v26[] = V26;

    (void)state;
    receive(V10, register_source, expect_sent_hex, v12);
    receive(V11, NULL, expect_sent_hex, v13);
    receive(V25, NULL, expect_sent_hex, v26);
}

/* --- Read Responses ----------------------------------------------------------------------------
 */

static void read_eight(struct endpoint *e, void *arg)
{
    const struct area *a = endpoint_area(e, 0x11223344, 0x2000, 8, LOCAL, 0xee);
    const struct iwarp_sge sge = area_sge(a, 0, 8);

    (void)arg;
    e->s.config.hold_tx = false;
    endpoint_post(e, &(struct iwarp_send_wr){.opcode = IWARP_WR_READ,
                                             .sg_list = &sge,
                                             .num_sge = 1,
                                             .remote_stag = 0x00010203,
                                             .remote_to = 0x1000});
    endpoint_drain(e);
    endpoint_expect_sent(e, V10);
}

static void expect_eight(struct endpoint *e, void *arg)
{
    (void)arg;
    expect_running(e);
    assert_int_equal(e->sq.done, 1);
    assert_memory_equal(e->area[0].p, "\0\1\2\3\4\5\6\7", 8);
}

static void read_nothing(struct endpoint *e, void *arg)
{
    const uint32_t *stag = arg;
    const struct iwarp_sge sge = {NULL, 0, 0};

    e->s.config.hold_tx = false;
    endpoint_post(e, &(struct iwarp_send_wr){.opcode = IWARP_WR_READ,
                                             .sg_list = &sge,
                                             .num_sge = *stag == 0,
                                             .remote_stag = *stag});
    endpoint_drain(e);
    endpoint_expect_sent(e, *stag ? V25 : V11);
}

static void expect_read_done(struct endpoint *e, void *arg)
{
    (void)arg;
    expect_running(e);
    assert_int_equal(e->sq.done, 1);
}

/* [RDMAP-5.2-01] [RDMAP-5.2.2-03] [RDMAP-5.5-16] */
static void receive__read_responses__complete_the_read(void **state)
{
    uint32_t zero = 0, one = 1;

    (void)state;
    receive(V12, read_eight, expect_eight, NULL);
    receive(V13, read_nothing, expect_read_done, &zero);
    receive(V26, read_nothing, expect_read_done, &one);
}

/* --- Terminates --------------------------------------------------------------------------------
 */

static void expect_terminated(struct endpoint *e, void *arg)
{
    const unsigned *what = arg;

    expect_fault(e, IWARP_FAULT_PEER_TERMINATE);
    assert_int_equal(e->s.fault.side, IWARP_SIDE_PEER);
    assert_int_equal(e->s.fault.detail[0], what[0]);
    assert_int_equal(e->s.fault.detail[1], what[1]);
    assert_int_equal(e->s.fault.detail[2], what[2]);
    assert_int_equal(e->s.life, STREAM_ENDED);
    assert_false(e->s.abort);
    assert_int_equal(e->sent.n, 0);
    assert_int_equal(e->s.rx.fpdus, 1); /* what follows is dropped */
}

/* [RDMAP-5.4-03] [RDMAP-5.4-05] [RDMAP-5.4-06] */
/* [RDMAP-5.4-04] */
static void receive__terminates__end_the_stream_and_say_why(void **state)
{
    unsigned what[5][3] = {{1, 1, 0}, {0, 1, 2}, {2, 0, 2}, {0, 0, 0}, {2, 0, 7}};

    (void)state;
    receive(V14 V09, NULL, expect_terminated, what[0]);
    receive(V15 V09, NULL, expect_terminated, what[1]);
    receive(V16 V09, NULL, expect_terminated, what[2]);
    receive(V17 V09, NULL, expect_terminated, what[3]);
    receive(V18 V09, NULL, expect_terminated, what[4]);
}

/* --- large FPDUs, where payload goes directly to its place -------------------------------------
 */

struct large {
    size_t ulpdu; /* octets of payload of each FPDU */
    unsigned fpdus;
    bool write;
};

#define SGES 32

/* A receive of 32 pieces of odd lengths, together as long as the message. */
static void post_pieces(struct endpoint *e, void *arg)
{
    const struct large *l = arg;
    size_t total = l->ulpdu * l->fpdus, at = 0;
    struct iwarp_sge sgl[SGES];

    if (l->write) {
        endpoint_area(e, 0x00010203, 0x1000, total, WRITABLE, 0);
        return;
    }
    for (uint32_t i = 0; i < SGES; i++) {
        size_t n = i == SGES - 1 ? total - at : i % 5 == 4 ? 0 : total / SGES / 2 + i * 7 % 13;
        struct area *a = endpoint_area(e, 0x00200000 + (i << 8), 0x5000, n + 3, LOCAL, 0xee);
        sgl[i] = area_sge(a, 2, n);
        at += n;
    }
    endpoint_recv(e, sgl, SGES);
}

static void expect_pieces(struct endpoint *e, void *arg)
{
    const struct large *l = arg;
    size_t at = 0;

    expect_running(e);
    for (unsigned i = 0; i < e->areas; i++) {
        const struct area *a = &e->area[i];
        size_t skip = l->write ? 0 : 2, end = l->write ? 0 : 1;
        for (size_t k = skip; k < a->n - end; k++, at++) {
            if (a->p[k] != (uint8_t)(at % l->ulpdu)) {
                fail_msg("octet %zu of area %u is %u", k, i, a->p[k]);
            }
        }
        assert_true(l->write || (a->p[0] == 0xee && a->p[1] == 0xee && a->p[a->n - 1] == 0xee));
    }
    assert_int_equal(at, l->ulpdu * l->fpdus);
    if (!l->write) {
        expect_recv(e, 0, (uint32_t)at, IWARP_WC_SOLICITED, 0);
    }
}

static void receive_large(struct large l)
{
    struct octets o = {0}, u = {0};
    struct scene scene = {.setup = post_pieces, .check = expect_pieces, .arg = &l};

    for (unsigned i = 0; i < l.fpdus; i++) {
        bool last = i == l.fpdus - 1;
        u.n = 0;
        if (l.write) {
            octets_hex(&u, last ? "c140 00010203" : "8140 00010203");
            octets_be(&u, 0x1000 + i * l.ulpdu, 8);
        } else {
            octets_hex(&u, last ? "4145 00000000 00000000 00000001"
                                : "0145 00000000 00000000 00000001");
            octets_be(&u, i * l.ulpdu, 4);
        }
        for (size_t k = 0; k < l.ulpdu; k++) {
            octets_fill(&u, (uint8_t)k, 1);
        }
        fpdu_add(&o, u.p, u.n, 0);
    }
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
    octets_free(&u);
}

/* [DDP-5.4-02] */
static void receive__large_messages__land_in_all_their_pieces(void **state)
{
    static const size_t sizes[] = {511, 512, 513, 1424, 1425, 8191, 8192, 20001};

    (void)state;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        receive_large((struct large){sizes[i], 3, false});
        receive_large((struct large){sizes[i], 3, true});
    }
    receive_large((struct large){64768 - 18, 1, false});
    receive_large((struct large){64768 - 14, 1, true});
}

/* Octets that can be read directly are, and those are never copied. */
static void want__large_write__asks_for_its_place(void **state)
{
    for (unsigned placement = 0; placement < PLACEMENTS; placement++) {
        struct octets o = {0};
        struct endpoint e;
        struct iovec iov[4];
        struct iwarp_lends lends;
        size_t staging = 0;

        (void)state;
        fpdu_hex(&o, "c140 00010203 0000000000001000", 20000);
        endpoint_init(&e, &(struct endpoint_options){.no_crc = placement == PLACE_NO_CRC,
                                                     .early = placement == PLACE_EARLY});
        struct area *a = endpoint_area(&e, 0x00010203, 0x1000, 20000, WRITABLE, 0);
        assert_int_equal(iwarp_stream_want(&e.s, &lends, iov, 4, &staging), 0);
        assert_true(staging >= 64);
        iwarp_stream_placed(&e.s, 0);
        iwarp_stream_feed(&e.s, o.p, 16 + 100);
        assert_int_equal(iwarp_stream_want(&e.s, &lends, iov, 4, &staging), 1);
        assert_int_equal(iwarp_region_lent(&a->region), placement != PLACE_VERIFIED);
        if (placement == PLACE_VERIFIED) {
            assert_ptr_equal(iov[0].iov_base, e.s.rx.carry + 116);
            assert_int_equal(iov[0].iov_len, o.n - 116);
        } else {
            assert_ptr_equal(iov[0].iov_base, a->p + 100);
            assert_int_equal(iov[0].iov_len, 19900);
        }
        memcpy(iov[0].iov_base, o.p + 116, iov[0].iov_len);
        iwarp_stream_placed(&e.s, iov[0].iov_len);
        iwarp_stream_feed(&e.s, o.p + 116 + iov[0].iov_len, o.n - 116 - iov[0].iov_len);
        expect_running(&e);
        assert_int_equal(e.s.rx.fpdus, 1);
        assert_int_equal(e.s.rx.direct, placement == PLACE_VERIFIED ? 0 : 19900);
        assert_memory_equal(a->p, o.p + 16, 20000);
        endpoint_fini(&e);
        octets_free(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receive__sends__land_in_order_and_invalidate),
        cmocka_unit_test(receive__captured_fpdus__are_understood),
        cmocka_unit_test(receive__writes__land_at_their_offset),
        cmocka_unit_test(receive__writes_of_nothing__are_not_checked),
        cmocka_unit_test(receive__read_requests__are_answered),
        cmocka_unit_test(receive__read_responses__complete_the_read),
        cmocka_unit_test(receive__terminates__end_the_stream_and_say_why),
        cmocka_unit_test(receive__large_messages__land_in_all_their_pieces),
        cmocka_unit_test(want__large_write__asks_for_its_place),
    };

    return cmocka_run_group_tests_name("stream_rx", tests, NULL, NULL);
}
