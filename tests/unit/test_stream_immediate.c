/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Immediate Data through one stream: the octets of each kind, a Write in front of it as one
 * request, what a received one makes of the receive it takes, and everything that can be wrong with
 * it. Literal octets both ways; RFC 7306 6 and 8, RFC 5041 7.1.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "deliveries.h"
#include "vectors.h"

#define IMM(msn) "4148 00000000 00000000 0000000" msn "00000000"

/* --- sending --------------------------------------------------------------------------------- */

/* [RDMAX-6.3-01] [RDMAX-6.3-04] [RDMAX-6.3-05] */
static void send__of_both_kinds__is_the_literal_octets(void **state)
{
    (void)state;
    for (unsigned no_crc = 0; no_crc < 2; no_crc++) {
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){.no_crc = no_crc != 0, .rfc7306 = true});
        e.s.tx.send_msn = 6;
        struct iwarp_send_wr wr = {.opcode = IWARP_WR_IMM, .imm = 0x0102030405060708};
        endpoint_post(&e, &wr);
        wr.flags = IWARP_WR_SOLICITED;
        endpoint_post(&e, &wr);
        endpoint_drain(&e);
        assert_int_equal(e.sq.done, 2);
        endpoint_expect_sent(&e, V22 V23);
        endpoint_fini(&e);
    }
}

/* A 32-bit value is in the last four octets. */
static void send__of_a_32_bit_value__is_in_the_low_half(void **state)
{
    struct octets o = {0};
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true});
    endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_IMM, .imm = 0xaabbccddu});
    endpoint_drain(&e);
    fpdu_hex(&o, IMM("1") "00000000 aabbccdd", 0);
    octets_expect("what was sent", e.sent.p, e.sent.n, o.p, o.n);
    octets_free(&o);
    endpoint_fini(&e);
}

/* A Write of n octets 00 01 02 .. in front: these ULPDUs, whatever the markers. */
static void expect_write(size_t n, unsigned flags, uint32_t mulpdu, const char *const *ulpdus)
{
    for (unsigned markers = 0; markers < 2; markers++) {
        struct octets o = {0};
        struct endpoint e;
        endpoint_init(&e, &(struct endpoint_options){
                              .rfc7306 = true, .mulpdu = mulpdu, .markers_tx = markers != 0});
        struct area *a = endpoint_area(&e, 0x00aabb00, 0x7000, 64, 0, 0);
        for (uint8_t i = 0; i < 64; i++) {
            a->p[i] = i;
        }
        struct iwarp_sge sge = area_sge(a, 0, n);
        if (flags & IWARP_WR_INLINE) {
            sge.addr = a->p;
        }
        endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE_IMM,
                                                  .flags = flags,
                                                  .sg_list = &sge,
                                                  .num_sge = 1,
                                                  .remote_stag = 0x00010203,
                                                  .remote_to = 0x1000,
                                                  .imm = 0x1122334455667788});
        while (endpoint_send(&e, 7) > 0) {
            assert_int_equal(e.sq.done, 0); /* one request: not before all of it is released */
        }
        iwarp_stream_released(&e.s, (size_t)(e.s.tx.sent - 1));
        assert_int_equal(e.sq.done, 0);
        iwarp_stream_released(&e.s, 1);
        assert_int_equal(e.sq.done, 1);
        assert_int_equal(e.s.tx.send_msn, 2);
        for (; *ulpdus && !markers; ulpdus++) {
            fpdu_hex(&o, *ulpdus, 0);
        }
        if (!markers) {
            octets_expect("what was sent", e.sent.p, e.sent.n, o.p, o.n);
        }
        octets_free(&o);
        endpoint_fini(&e);
    }
}

static void send__behind_a_write__is_one_request(void **state)
{
    static const char *const whole[] = {"c140 00010203 0000000000001000 0001020304",
                                        IMM("1") "11223344 55667788", NULL};
    static const char *const solicited[] = {
        "c140 00010203 0000000000001000 0001020304",
        "4149 00000000 00000000 00000001 00000000 11223344 55667788", NULL};
    static const char *const segments[] = {"8140 00010203 0000000000001000 000102030405",
                                           "8140 00010203 0000000000001006 060708090a0b",
                                           "c140 00010203 000000000000100c 0c",
                                           IMM("1") "11223344 55667788", NULL};
    static const char *const exact[] = {"8140 00010203 0000000000001000 000102030405",
                                        "c140 00010203 0000000000001006 060708090a0b",
                                        IMM("1") "11223344 55667788", NULL};
    static const char *const nothing[] = {IMM("1") "11223344 55667788", NULL};

    (void)state;
    expect_write(5, 0, 0, whole);
    expect_write(5, IWARP_WR_INLINE, 0, whole);
    expect_write(5, IWARP_WR_SOLICITED, 0, solicited);
    expect_write(13, 0, 20, segments);
    expect_write(13, IWARP_WR_INLINE, 20, segments);
    expect_write(12, 0, 20, exact);
    expect_write(0, 0, 0, nothing);
}

/* MSNs and order are those of the Sends around it. RFC 7306 6.4 */
/* [RDMAX-6.3-06] */
static void send__among_sends__shares_their_msn(void **state)
{
    struct octets o = {0};
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true});
    endpoint_post(&e, &(struct iwarp_send_wr){0});
    endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_IMM, .imm = 1});
    endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE_IMM, .imm = 2});
    endpoint_post(&e, &(struct iwarp_send_wr){0});
    endpoint_drain(&e);
    fpdu_hex(&o, "4143 00000000 00000000 00000001 00000000", 0);
    fpdu_hex(&o, IMM("2") "0000000000000001", 0);
    fpdu_hex(&o, IMM("3") "0000000000000002", 0);
    fpdu_hex(&o, "4143 00000000 00000000 00000004 00000000", 0);
    octets_expect("what was sent", e.sent.p, e.sent.n, o.p, o.n);
    assert_int_equal(atomic_load(&e.counts.tx.messages[IWARP_OP_IMMEDIATE]), 2);
    assert_int_equal(atomic_load(&e.counts.tx.payload), 0);
    octets_free(&o);
    endpoint_fini(&e);
}

/*
 * The peer takes a Write right before for that of the Immediate Data: where that was a request of
 * its own, one of no octets says otherwise.
 */
static void send__of_nothing_behind_a_write__begins_with_an_empty_one(void **state)
{
    const struct iwarp_send_wr both = {
        .opcode = IWARP_WR_WRITE_IMM, .remote_stag = 0x00010203, .remote_to = 0x1004, .imm = 5};
    struct octets o = {0};
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true});
    struct area *a = endpoint_area(&e, 0x00aabb00, 0x7000, 8, READABLE, 0x5a);
    struct iwarp_sge sge = area_sge(a, 0, 4);
    endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE,
                                              .sg_list = &sge,
                                              .num_sge = 1,
                                              .remote_stag = 0x00010203,
                                              .remote_to = 0x1000});
    endpoint_post(&e, &both);
    endpoint_post(&e, &both);
    endpoint_drain(&e);
    assert_int_equal(e.sq.done, 3);
    fpdu_hex(&o, "c140 00010203 0000000000001000 5a5a5a5a", 0);
    fpdu_hex(&o, "c140 00010203 0000000000001004", 0);
    fpdu_hex(&o, IMM("1") "0000000000000005", 0);
    fpdu_hex(&o, IMM("2") "0000000000000005", 0);
    octets_expect("what was sent", e.sent.p, e.sent.n, o.p, o.n);
    octets_free(&o);
    endpoint_fini(&e);
}

/* No answer to the peer's Read comes between the Write and its Immediate Data. */
static void send__with_a_read_to_answer__is_not_torn(void **state)
{
    struct octets in = {0}, out = {0};
    struct endpoint e;

    (void)state;
    endpoint_init(&e, &(struct endpoint_options){.rfc7306 = true, .ird = 1, .mulpdu = 18});
    struct area *a = endpoint_area(&e, 0x00aabb00, 0x7000, 8, READABLE, 0x5a);
    struct iwarp_sge sge = area_sge(a, 0, 8);
    endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE_IMM,
                                              .sg_list = &sge,
                                              .num_sge = 1,
                                              .remote_stag = 0x00010203,
                                              .remote_to = 0x1000,
                                              .imm = 9});
    fpdu_hex(&in,
             "4141 00000000 00000001 00000001 00000000 11223344 0000000000002000 00000004"
             "00aabb00 0000000000007000",
             0);
    iwarp_stream_feed(&e.s, in.p, in.n);
    endpoint_drain(&e);
    fpdu_hex(&out, "8140 00010203 0000000000001000 5a5a5a5a", 0);
    fpdu_hex(&out, "c140 00010203 0000000000001004 5a5a5a5a", 0);
    fpdu_hex(&out, IMM("1") "0000000000000009", 0);
    fpdu_hex(&out, "c142 11223344 0000000000002000 5a5a5a5a", 0);
    octets_expect("what was sent", e.sent.p, e.sent.n, out.p, out.n);
    octets_free(&in);
    octets_free(&out);
    endpoint_fini(&e);
}

/* --- receiving ------------------------------------------------------------------------------- */

static void setup_two(struct endpoint *e, void *arg)
{
    (void)arg;
    e->s.ddp.msn[0] = 6;
    endpoint_recv_area(e, endpoint_area(e, 0x00aabb00, 0, 16, LOCAL, 0xee));
    endpoint_recv(e, NULL, 0); /* needs no buffer */
}

/* [RDMAX-6.3-02] [RDMAX-6.3-03] */
static void two_came(struct endpoint *e, void *arg)
{
    (void)arg;
    assert_int_equal(e->s.life, STREAM_RUNNING);
    assert_int_equal(e->rq.done, 2);
    for (unsigned i = 0; i < 2; i++) {
        const struct iwarp_rwqe *w = endpoint_rwqe(e, i);
        assert_int_equal(w->status, IWARP_WC_SUCCESS);
        assert_int_equal(w->wc_flags, IWARP_WC_WITH_IMM | (i ? IWARP_WC_SOLICITED : 0));
        assert_int_equal(w->byte_len, 0);
        assert_true(w->imm == 0x0102030405060708);
    }
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(e->area[0].p[i], 0xee);
    }
    assert_int_equal(e->s.ddp.msn[0], 8);
    assert_int_equal(atomic_load(&e->counts.rx.messages[IWARP_OP_IMMEDIATE]), 1);
    assert_int_equal(atomic_load(&e->counts.rx.payload), 0);
}

/* [RDMAX-6.3-02] [RDMAX-6.3-03] */
static void receive__of_both_kinds__completes_receives(void **state)
{
    struct octets o = {0};
    struct scene scene = {.options = {.rfc7306 = true}, .setup = setup_two, .check = two_came};

    (void)state;
    octets_hex(&o, V22 V23);
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

static void setup_write(struct endpoint *e, void *arg)
{
    (void)arg;
    endpoint_area(e, 0x00010203, 0x1000, 1024, WRITABLE, 0xee);
    endpoint_recv(e, NULL, 0);
}

static void write_came(struct endpoint *e, void *arg)
{
    (void)arg;
    assert_int_equal(e->rq.done, 1);
    assert_int_equal(endpoint_rwqe(e, 0)->byte_len, 1024);
    assert_true(endpoint_rwqe(e, 0)->imm == 0x00000000aabbccdd);
    for (unsigned i = 0; i < 1024; i++) {
        assert_int_equal(e->area[0].p[i], i & 0xff);
    }
}

static void receive__behind_a_write__finds_it_in_place(void **state)
{
    struct octets o = {0};
    struct scene scene = {.options = {.rfc7306 = true}, .setup = setup_write, .check = write_came};

    (void)state;
    fpdu_hex(&o, "c140 00010203 0000000000001000", 1024);
    fpdu_hex(&o, "4148 ffffffff 00000000 00000001 00000000 00000000 aabbccdd",
             0); /* not looked at */
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

static void setup_lengths(struct endpoint *e, void *arg)
{
    (void)arg;
    endpoint_area(e, 0x00010203, 0x1000, 64, WRITABLE, 0xee);
    for (unsigned i = 0; i < 6; i++) {
        endpoint_recv(e, NULL, 0);
    }
}

static void lengths_came(struct endpoint *e, void *arg)
{
    static const uint32_t lengths[] = {7, 0, 3, 0, 0, 0};

    (void)arg;
    assert_int_equal(e->s.life, STREAM_RUNNING);
    assert_int_equal(e->rq.done, 6);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(endpoint_rwqe(e, i)->byte_len, lengths[i]);
    }
}

/* That of the Write, of one segment or several, that ends right before; never that of another. */
static void receive__behind_a_write__has_its_length(void **state)
{
    static const char *const ulpdus[] = {
        "c140 00010203 0000000000001000 0000000000", /* another one */
        "8140 00010203 0000000000001000 00010203",
        "c140 00010203 0000000000001004 040506",
        IMM("1") "0000000000000001",
        IMM("2") "0000000000000002", /* behind no Write */
        "c140 00010203 0000000000001000 000000",
        "4149 00000000 00000000 00000003 00000000 0000000000000003",
        "c140 00010203 0000000000001000 000000",
        "4143 00000000 00000000 00000004 00000000", /* a Send in between */
        IMM("5") "0000000000000005",
        "c140 00010203 0000000000001000 000000",
        "c140 00010203 0000000000001000", /* one of no octets in between */
        IMM("6") "0000000000000006"};
    struct octets o = {0};
    struct scene scene = {
        .options = {.rfc7306 = true}, .setup = setup_lengths, .check = lengths_came};

    (void)state;
    for (unsigned i = 0; i < sizeof ulpdus / sizeof *ulpdus; i++) {
        fpdu_hex(&o, ulpdus[i], 0);
    }
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

#define IMM1 "4148 00000000 00000000 00000001 00000000"
#define SE1  "4149 00000000 00000000 00000001 00000000"

/* [RDMAX-6.3-07] [RDMAX-6.3-03] */
static const struct row rows[] = {
    {"seven_octets",
     IWARP_FAULT_RDMAP_HEADER_LEN,
     "0207c000 0019" IMM1,
     {IMM1 "01020304050607"},
     false,
     false},
    {"nine_octets",
     IWARP_FAULT_RDMAP_HEADER_LEN,
     "0207c000 001b" SE1,
     {SE1 "010203040506070809"},
     false,
     false},
    {"no_octets", IWARP_FAULT_RDMAP_HEADER_LEN, "0207c000 0012" SE1, {SE1}, false, false},
    {"not_last",
     IWARP_FAULT_RDMAP_NOT_LAST,
     "0207c000 001a 0148 00000000 00000000 00000001 00000000",
     {"0148 00000000 00000000 00000001 00000000 0102030405060708"},
     false,
     false},
    {"tagged",
     IWARP_FAULT_RDMAP_OPCODE,
     "0206c000 0016 c148 00010203 0000000000001000",
     {"c148 00010203 0000000000001000 0102030405060708"},
     false,
     false},
    {"queue_1",
     IWARP_FAULT_DDP_QN,
     "1201c000 001a 4148 00000000 00000001 00000001 00000000",
     {"4148 00000000 00000001 00000001 00000000 0102030405060708"},
     false,
     false},
    {"msn_2",
     IWARP_FAULT_DDP_MSN,
     "1203c000 001a 4149 00000000 00000000 00000002 00000000",
     {"4149 00000000 00000000 00000002 00000000 0102030405060708"},
     false,
     false},
    {"mo_1",
     IWARP_FAULT_DDP_MO,
     "1204c000 001a 4148 00000000 00000000 00000001 00000001",
     {"4148 00000000 00000000 00000001 00000001 0102030405060708"},
     false,
     false},
    {"inside_a_send",
     IWARP_FAULT_DDP_MO,
     "1204c000 001a" IMM1,
     {"0143 00000000 00000000 00000001 00000000 01", IMM1 "0102030405060708"},
     false,
     false},
    {"as_the_end_of_a_send",
     IWARP_FAULT_DDP_TOO_LONG,
     "1205c000 001a 4148 00000000 00000000 00000001 00000001",
     {"0143 00000000 00000000 00000001 00000000 01",
      "4148 00000000 00000000 00000001 00000001 0102030405060708"},
     false,
     false},
    {"no_receive",
     IWARP_FAULT_DDP_NO_BUFFER,
     "1202c000 001a" IMM1,
     {IMM1 "0102030405060708"},
     true,
     false},
    {"version_0",
     IWARP_FAULT_RDMAP_VERSION,
     "0205c000 001a 4108 00000000 00000000 00000001 00000000",
     {"4108 00000000 00000000 00000001 00000000 0102030405060708"},
     false,
     false},
    {"switched_off",
     IWARP_FAULT_RDMAP_SWITCHED_OFF,
     "0206c000 001a" IMM1,
     {IMM1 "0102030405060708"},
     false,
     true},
    {"switched_off_se",
     IWARP_FAULT_RDMAP_SWITCHED_OFF,
     "0206c000 001a" SE1,
     {SE1 "0102030405060708"},
     false,
     true},
};

#define ROWS (sizeof rows / sizeof *rows)

static void setup_row(struct endpoint *e, void *arg)
{
    const struct row *row = arg;

    endpoint_area(e, 0x00010203, 0x1000, 64, WRITABLE, 0xee);
    if (!row->no_receive) {
        endpoint_recv_area(e, endpoint_area(e, 0x00aabb00, 0, 64, LOCAL, 0xee));
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
    struct scene scene = {
        .options = {.rfc7306 = !row->off}, .setup = setup_row, .check = check_row, .arg = row};

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
    enum { OTHERS = 9 };
    struct CMUnitTest tests[OTHERS + ROWS] = {
        cmocka_unit_test(send__of_both_kinds__is_the_literal_octets),
        cmocka_unit_test(send__of_a_32_bit_value__is_in_the_low_half),
        cmocka_unit_test(send__behind_a_write__is_one_request),
        cmocka_unit_test(send__among_sends__shares_their_msn),
        cmocka_unit_test(send__of_nothing_behind_a_write__begins_with_an_empty_one),
        cmocka_unit_test(send__with_a_read_to_answer__is_not_torn),
        cmocka_unit_test(receive__of_both_kinds__completes_receives),
        cmocka_unit_test(receive__behind_a_write__finds_it_in_place),
        cmocka_unit_test(receive__behind_a_write__has_its_length),
    };

    for (size_t i = 0; i < ROWS; i++) {
        own[i] = rows[i];
        snprintf(names[i], sizeof names[i], "receive__%s__terminates", rows[i].name);
        tests[OTHERS + i] = (struct CMUnitTest){names[i], run_row, NULL, NULL, &own[i]};
    }
    return cmocka_run_group_tests_name("stream_immediate", tests, NULL, NULL);
}
