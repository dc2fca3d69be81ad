/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends with Immediate Data through one stream whose peer has agreed, or has not: the octets of
 * each kind, what a received one makes of its receive, and everything that can be wrong with it.
 * Literal octets both ways. The opcodes are this library's (protocol.h); all else is a Send's: RFC
 * 5040 5.3, RFC 5041 7.1.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "deliveries.h"

/* --- sending --------------------------------------------------------------------------------- */

static void post(struct endpoint *e, const struct iwarp_sge *sge, unsigned flags, uint32_t imm)
{
    endpoint_post(e, &(struct iwarp_send_wr){.opcode = IWARP_WR_SEND_IMM,
                                             .flags = flags,
                                             .sg_list = sge,
                                             .num_sge = sge ? 1 : 0,
                                             .imm = imm});
}

/* In segments, of nothing, solicited, inline, and between Sends: one order, one MSN each. */
static void send__of_each_kind__is_the_literal_octets(void **state)
{
    (void)state;
    for (unsigned markers = 0; markers < 2; markers++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){
                              .send_imm = true, .mulpdu = 24, .markers_tx = markers != 0});
        struct area *a = endpoint_area(&e, 0x00aabb00, 0x7000, 16, LOCAL, 0x5a);
        struct iwarp_sge sge = area_sge(a, 0, 8), raw = {.addr = a->p, .len = 3};
        post(&e, &sge, 0, 0x01020304);
        endpoint_post(&e, &(struct iwarp_send_wr){0});
        post(&e, NULL, IWARP_WR_SOLICITED, 0xfffefdfc);
        post(&e, &raw, IWARP_WR_INLINE, 0);
        endpoint_drain(&e);
        assert_int_equal(e.sq.done, 4);
        struct octets o = {0};
        fpdu_hex(&o, "014e 01020304 00000000 00000001 00000000 5a5a5a5a5a5a", 0);
        fpdu_hex(&o, "414e 01020304 00000000 00000001 00000006 5a5a", 0);
        fpdu_hex(&o, "4143 00000000 00000000 00000002 00000000", 0);
        fpdu_hex(&o, "414f fffefdfc 00000000 00000003 00000000", 0);
        fpdu_hex(&o, "414e 00000000 00000000 00000004 00000000 5a5a5a", 0);
        if (!markers) {
            octets_expect("what was sent", e.sent.p, e.sent.n, o.p, o.n);
        }
        octets_free(&o);
        assert_int_equal(atomic_load(&e.counts.tx.messages[IWARP_OP_SEND_IMM]), 2);
        assert_int_equal(atomic_load(&e.counts.tx.messages[IWARP_OP_SEND_SE_IMM]), 1);
        assert_int_equal(atomic_load(&e.counts.tx.payload), 11);
        endpoint_fini(&e);
    }
}

/* What came before it goes out; of it not an octet, but a Terminate that says that this end failed.
 */
/* [RDMAP-4.1-05] */
static void send__without_agreement__is_never_sent(void **state)
{
    struct octets o = {0};
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true});
    endpoint_post(&e, &(struct iwarp_send_wr){0});
    post(&e, NULL, 0, 7);
    endpoint_drain(&e);
    assert_string_equal(iwarp_fault_name(e.s.fault.code), "LOCAL_SEND_IMM");
    assert_int_equal(endpoint_swqe(&e, 1)->status, IWARP_WC_LOCAL_OPERATION);
    fpdu_hex(&o, "4143 00000000 00000000 00000001 00000000", 0);
    fpdu_hex(&o, "4147 00000000 00000002 00000001 00000000 00000000", 0);
    octets_expect("what was sent", e.sent.p, e.sent.n, o.p, o.n);
    octets_free(&o);
    endpoint_fini(&e);
}

/* A peer that does not keep to the agreement is told apart from one without RFC 7306. */
static void terminate__for_one__says_who_has_not_agreed(void **state)
{
    static const struct {
        const char *quote;
        bool sent;
        const char *fault;
    } cases[] = {
        {"0206c000 0012 414e 00000007 00000000 00000001 00000000", true, "PEER_NO_SEND_IMM"},
        {"02060000", true, "PEER_NO_SEND_IMM"},
        {"0206c000 0012 4143 00000000 00000000 00000001 00000000", true, "PEER_TERMINATE"},
        {"0206c000 001a 4148 00000000 00000000 00000001 00000000", true, "PEER_TERMINATE"},
        {"0207c000 0012 414e 00000007 00000000 00000001 00000000", true, "PEER_TERMINATE"},
        {"0206c000 0012 414e 00000007 00000000 00000001 00000000", false, "PEER_TERMINATE"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct octets o = {0};
        struct endpoint e;
        char hex[200];
        endpoint_init(&e, &(struct endpoint_options){.send_imm = true, .rfc7306 = true});
        if (cases[i].sent) {
            post(&e, NULL, 0, 7);
        }
        endpoint_drain(&e);
        snprintf(hex, sizeof hex, "4147 00000000 00000002 00000001 00000000 %s", cases[i].quote);
        fpdu_hex(&o, hex, 0);
        iwarp_stream_feed(&e.s, o.p, o.n);
        assert_string_equal(iwarp_fault_name(e.s.fault.code), cases[i].fault);
        octets_free(&o);
        endpoint_fini(&e);
    }
}

/* --- receiving ------------------------------------------------------------------------------- */

static void setup_three(struct endpoint *e, void *arg)
{
    (void)arg;
    endpoint_recv_area(e, endpoint_area(e, 0x00aabb00, 0, 1024, LOCAL, 0xee));
    endpoint_recv_area(e, endpoint_area(e, 0x00aabc00, 0, 8, LOCAL, 0xee));
    endpoint_recv(e, NULL, 0);
}

static void three_came(struct endpoint *e, void *arg)
{
    static const struct {
        uint64_t imm;
        uint32_t len;
        unsigned flags;
    } expected[] = {{0x01020304, 1024, 0}, {0xfffefdfc, 2, IWARP_WC_SOLICITED}, {0, 0, 0}};

    (void)arg;
    assert_int_equal(e->s.life, STREAM_RUNNING);
    assert_int_equal(e->rq.done, 3);
    for (unsigned i = 0; i < 3; i++) {
        const struct iwarp_rwqe *w = endpoint_rwqe(e, i);
        assert_int_equal(w->status, IWARP_WC_SUCCESS);
        assert_int_equal(w->byte_len, expected[i].len);
        assert_int_equal(w->wc_flags, IWARP_WC_WITH_IMM | IWARP_WC_IMM_OF_SEND | expected[i].flags);
        assert_true(w->imm == expected[i].imm);
    }
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(e->area[0].p[i], i & 0xff);
    }
    assert_memory_equal(e->area[1].p, "\x11\x22\xee\xee", 4);
    assert_int_equal(atomic_load(&e->counts.rx.messages[IWARP_OP_SEND_IMM]), 2);
    assert_int_equal(atomic_load(&e->counts.rx.messages[IWARP_OP_SEND_SE_IMM]), 1);
    assert_int_equal(atomic_load(&e->counts.rx.payload), 1026);
}

static void receive__of_each_kind__completes_receives(void **state)
{
    struct octets o = {0};
    struct scene scene = {.options = {.send_imm = true}, .setup = setup_three, .check = three_came};

    (void)state;
    fpdu_hex(&o, "014e 01020304 00000000 00000001 00000000", 1000);
    fpdu_hex(&o, "414e 01020304 00000000 00000001 000003e8", 24);
    fpdu_hex(&o, "414f fffefdfc 00000000 00000002 00000000 1122", 0);
    fpdu_hex(&o, "414e 00000000 00000000 00000003 00000000", 0);
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

/* --- what is wrong --------------------------------------------------------------------------- */

struct row {
    const char *name;
    enum iwarp_fault_code fault;
    const char *terminate;
    const char *ulpdu[2];
    bool no_receive, off;
};

#define SEND1 "414e 00000007 00000000 00000001 00000000"
#define SE1   "414f 00000007 00000000 00000001 00000000"

static const struct row rows[] = {
    /* [RDMAP-7.2-02] */
    {"not_agreed", IWARP_FAULT_RDMAP_OPCODE, "0206c000 0012" SEND1, {SEND1}, false, true},
    /* [RDMAP-7.2-02] */
    {"not_agreed_se", IWARP_FAULT_RDMAP_OPCODE, "0206c000 0012" SE1, {SE1}, false, true},
    {"of_opcode_c",
     IWARP_FAULT_RDMAP_OPCODE,
     "0206c000 0012 414c 00000007 00000000 00000001 00000000",
     {"414c 00000007 00000000 00000001 00000000"},
     false,
     false},
    {"tagged",
     IWARP_FAULT_RDMAP_OPCODE,
     "0206c000 000e c14e 00010203 0000000000001000",
     {"c14e 00010203 0000000000001000"},
     false,
     false},
    {"queue_1",
     IWARP_FAULT_DDP_QN,
     "1201c000 0012 414e 00000007 00000001 00000001 00000000",
     {"414e 00000007 00000001 00000001 00000000"},
     false,
     false},
    {"msn_2",
     IWARP_FAULT_DDP_MSN,
     "1203c000 0012 414f 00000007 00000000 00000002 00000000",
     {"414f 00000007 00000000 00000002 00000000"},
     false,
     false},
    {"mo_1",
     IWARP_FAULT_DDP_MO,
     "1204c000 0013 414e 00000007 00000000 00000001 00000001",
     {"414e 00000007 00000000 00000001 00000001 01"},
     false,
     false},
    {"too_long",
     IWARP_FAULT_DDP_TOO_LONG,
     "1205c000 0013 414e 00000007 00000000 00000001 00000004",
     {"014e 00000007 00000000 00000001 00000000 01020304",
      "414e 00000007 00000000 00000001 00000004 05"},
     false,
     false},
    {"no_receive", IWARP_FAULT_DDP_NO_BUFFER, "1202c000 0012" SEND1, {SEND1}, true, false},
    {"version_0",
     IWARP_FAULT_RDMAP_VERSION,
     "0205c000 0012 410e 00000007 00000000 00000001 00000000",
     {"410e 00000007 00000000 00000001 00000000"},
     false,
     false},
};

#define ROWS (sizeof rows / sizeof *rows)

static void setup_row(struct endpoint *e, void *arg)
{
    const struct row *row = arg;

    endpoint_area(e, 0x00010203, 0x1000, 64, WRITABLE, 0xee);
    if (!row->no_receive) {
        endpoint_recv_area(e, endpoint_area(e, 0x00aabb00, 0, 4, LOCAL, 0xee));
    }
}

static void check_row(struct endpoint *e, void *arg)
{
    const struct row *row = arg;

    assert_string_equal(iwarp_fault_name(e->s.fault.code), iwarp_fault_name(row->fault));
    assert_int_equal(e->rq.done, 0);
    endpoint_expect_terminate(e, row->terminate);
}

static void run_row(void **state)
{
    struct row *row = *state;
    struct octets o = {0};
    struct scene scene = {.options = {.rfc7306 = true, .send_imm = !row->off},
                          .setup = setup_row,
                          .check = check_row,
                          .arg = row};

    for (unsigned i = 0; i < 2 && row->ulpdu[i]; i++) {
        fpdu_hex(&o, row->ulpdu[i], 0);
    }
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

int main(void)
{
    static struct row own[ROWS];
    static char names[ROWS][80];
    enum { OTHERS = 4 };
    struct CMUnitTest tests[OTHERS + ROWS] = {
        cmocka_unit_test(send__of_each_kind__is_the_literal_octets),
        cmocka_unit_test(send__without_agreement__is_never_sent),
        cmocka_unit_test(terminate__for_one__says_who_has_not_agreed),
        cmocka_unit_test(receive__of_each_kind__completes_receives),
    };

    for (size_t i = 0; i < ROWS; i++) {
        own[i] = rows[i];
        snprintf(names[i], sizeof names[i], "receive__%s__terminates", rows[i].name);
        tests[OTHERS + i] = (struct CMUnitTest){names[i], run_row, NULL, NULL, &own[i]};
    }
    return cmocka_run_group_tests_name("stream_send_imm", tests, NULL, NULL);
}
