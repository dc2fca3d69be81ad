/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Everything that peers/peers.h lists, with the literal octets of the peer: what is accepted for
 * its sake, and that it is a fault, or read otherwise, in strict mode; what is chosen for its sake;
 * and that what both modes share is not touched by the option. RFC 5044 7.1, RFC 6581 9 and 10,
 * RFC 5040 4.8.
 */
#include "mpa_setup_driver.h"

#include "deliveries.h"
#include "peers/peers.h"

#define REQ "4d504120494420526571204672616d65"
#define REP "4d504120494420526570204672616d65"

static const struct iwarp_mpa_wish rev1[2] = {
    {.rev = 1, .crc = true, .ird = 0, .ord = 6},
    {.rev = 1, .crc = true, .ird = 0, .ord = 6, .strict = true}};
static const struct iwarp_mpa_wish rev2[2] = {
    {.rev = 2, .crc = true, .peer_to_peer = true, .ird = 16, .ord = 8},
    {.rev = 2, .crc = true, .peer_to_peer = true, .ird = 16, .ord = 8, .strict = true}};

/* --- accepted -------------------------------------------------------------------------------- */

/* [MPA2-10-01] RFC 6581 10 */
static void reject__in_the_older_format__is_one_unless_strict(void **state)
{
    struct iwarp_mpa_setup s;

    (void)state;
    receive(&s, INITIATOR, &rev2[0], REP "600100027a7a", IWARP_MPA_REJECTED);
    assert_private(&s, "7a7a");
    refuse(INITIATOR, &rev2[1], REP "600100027a7a", 20, MPA_FAULT(ENHANCED_MISSING), 0x60, 1, 2);
    receive(&s, INITIATOR, &rev2[0], REP "60020000", IWARP_MPA_REJECTED);
    refuse(INITIATOR, &rev2[1], REP "60020000", 20, MPA_FAULT(ENHANCED_MISSING), 0x60, 2, 0);
    for (int strict = 0; strict < 2; strict++) { /* as it should be; and no Reject at all */
        receive(&s, INITIATOR, &rev2[strict], REP "7002000480084010", IWARP_MPA_REJECTED);
        receive(&s, INITIATOR, &rev1[strict], REP "60010000", IWARP_MPA_REJECTED);
        refuse(INITIATOR, &rev2[strict], REP "40010000", 20, MPA_FAULT(ENHANCED_MISSING), 0x40, 1,
               0);
    }
}

/* [MPA-7.1.1-15] RFC 5044 7.1.1 */
static void reply__of_revision_2_to_one_of_1__is_one_unless_strict(void **state)
{
    struct iwarp_mpa_setup s;

    (void)state;
    receive(&s, INITIATOR, &rev1[0], REP "400200020102", IWARP_MPA_FRAME);
    assert_private(&s, "0102");
    refuse(INITIATOR, &rev1[1], REP "400200020102", 20, MPA_FAULT(REVISION), 2, 1, 0);
    for (int strict = 0; strict < 2; strict++) {
        receive(&s, INITIATOR, &rev1[strict], REP "400100020102", IWARP_MPA_FRAME);
        refuse(INITIATOR, &rev1[strict], REP "5002000400080010", 20, MPA_FAULT(REVISION), 2, 1, 0);
        refuse(INITIATOR, &rev1[strict], REP "40030000", 20, MPA_FAULT(REVISION), 3, 1, 0);
        refuse(RESPONDER, &rev1[strict], REQ "40020000", 20, MPA_FAULT(REVISION), 2, 1, 0);
    }
}

/* A Chelsio initiator of revision 1. The Reply is the same: it says nothing of depths. */
static void ird__nobody_announces__has_room_for_one_read_unless_strict(void **state)
{
    struct iwarp_mpa_wish some = rev1[1];
    struct iwarp_mpa_setup s;

    (void)state;
    assert_reply(&s, &rev1[0], REQ "40010000", false, REP "40010000");
    assert_depths(&s, 1, 6, 0, 0);
    assert_reply(&s, &rev1[1], REQ "40010000", false, REP "40010000");
    assert_depths(&s, 0, 6, 0, 0);
    some.ird = 3;
    assert_reply(&s, &some, REQ "40010000", false, REP "40010000");
    assert_depths(&s, 3, 6, 0, 0);
    for (int strict = 0; strict < 2; strict++) {
        struct iwarp_mpa_wish none = rev2[strict];
        none.ird = 0;
        receive(&s, INITIATOR, &rev1[strict], REP "40010000", IWARP_MPA_FRAME);
        assert_depths(&s, 0, 6, 0, 0); /* only a responder */
        assert_reply(&s, &none, REQ "5002000400100008", false, REP "5002000400000008");
        assert_depths(&s, 0, 8, 16, 8); /* the words say what room there is */
    }
}

/* --- FPDUs of a responder before ours -------------------------------------------------------- */

/* "hello" as Send 1; the other one is a Write of 600 octets, which goes direct. */
#define HELLO "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c"

struct early {
    bool accepted, write;
};

static void early_setup(struct endpoint *e, void *arg)
{
    const struct area *a = endpoint_area(e, 0x00000100, 0, 4096, WRITABLE, 0xee);

    (void)arg;
    endpoint_recv_area(e, a);
}

static void early_check(struct endpoint *e, void *arg)
{
    const struct early *x = arg;

    if (x->accepted) {
        assert_int_equal(e->s.fault.code, IWARP_FAULT_NONE);
        assert_int_equal(e->rq.done, x->write ? 0 : 1);
        assert_memory_equal(e->area[0].p, x->write ? "\0\1\2\3" : "hell", 4);
        return;
    }
    assert_string_equal(iwarp_fault_name(e->s.fault.code), "MPA_EARLY_FPDU");
    assert_int_equal(e->s.fault.side, IWARP_SIDE_LOCAL);
    assert_int_equal(e->s.life, STREAM_ENDED);
    assert_true(e->s.abort); /* there is no Terminate for it */
    assert_int_equal(e->sent.n, 0);
    assert_int_equal(e->rq.done, 0);
    for (size_t i = 0; i < 4096; i++) { /* also where octets go direct */
        assert_int_equal(e->area[0].p[i], 0xee);
    }
}

static void receive_early(struct endpoint_options options, struct early x)
{
    struct octets o = {0};

    if (x.write) {
        fpdu_hex(&o, "c140 00000100 00000000 00000000", 600);
    } else if (options.markers_rx) {
        fpdu_hex_marked(&o, 0, "4143 00000000 00000000 00000001 00000000 68656c6c 6f", 0);
    } else {
        octets_hex(&o, HELLO);
    }
    const struct scene scene = {.options = options,
                                .setup = early_setup,
                                .check = early_check,
                                .arg = &x,
                                .octets = o.p,
                                .n = o.n};
    receive_every_way(&scene);
    octets_free(&o);
}

/* As of siw without peer-to-peer mode. [MPA-7.1.2-14] RFC 5044 7.1.2 rule 4 */
static void fpdu__of_a_responder_before_ours__is_taken_unless_strict(void **state)
{
    (void)state;
    for (int strict = 0; strict < 2; strict++) {
        const struct endpoint_options o = {.strict = strict};
        receive_early(o, (struct early){.accepted = !strict});
        receive_early(o, (struct early){.accepted = !strict, .write = true});
        receive_early((struct endpoint_options){.strict = strict, .markers_rx = true},
                      (struct early){.accepted = !strict});
        /* of an initiator it is what must come first */
        receive_early((struct endpoint_options){.strict = strict, .hold_tx = true},
                      (struct early){.accepted = true});
    }
}

static void fpdu__of_a_responder_behind_ours__is_taken(void **state)
{
    struct octets o = {0};
    struct endpoint e;

    (void)state;
    octets_hex(&o, HELLO);
    endpoint_init(&e, &(struct endpoint_options){.strict = true});
    early_setup(&e, NULL);
    endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_SEND});
    endpoint_drain(&e);
    iwarp_stream_feed(&e.s, o.p, o.n);
    early_check(&e, &(struct early){.accepted = true});
    endpoint_fini(&e);
    octets_free(&o);
}

/* The CRC is checked first: the other fields of a damaged FPDU mean nothing. */
static void fpdu__damaged_and_early__is_a_crc_error(void **state)
{
    struct octets o = {0};
    struct endpoint e;

    (void)state;
    octets_hex(&o, HELLO);
    o.p[o.n - 1] ^= 1;
    endpoint_init(&e, &(struct endpoint_options){.strict = true});
    early_setup(&e, NULL);
    iwarp_stream_feed(&e.s, o.p, o.n);
    assert_string_equal(iwarp_fault_name(e.s.fault.code), "MPA_CRC");
    endpoint_fini(&e);
    octets_free(&o);
}

/* --- Terminates ------------------------------------------------------------------------------ */

static const struct terminate {
    const char *ulpdu;   /* behind its DDP header; whatever length it has there */
    unsigned says[2][3]; /* tolerant, strict: layer, etype, code */
} terminates[] = {
    /* siw: CRC error without headers; a Write of 46 octets (2 + 14 header octets are copied) */
    {"02020000", {{2, 0, 0x02}, {0, 2, 0x02}}},
    {"11000300 0014 002ec140 00010203 00000000 00001000", {{1, 1, 0x00}, {1, 1, 0x00}}},
    {"21030300 0005 0017 4143 00000000 00000000 00000001 00000000", {{1, 2, 3}, {2, 1, 3}}},
    {"10020700 0008 002e4141 00000000 00000001 00000001 00000000 11223344 00000000 00002000"
     "00000008 00010203 00000000 00001000",
     {{0, 1, 2}, {1, 0, 2}}},
    /* Chelsio and Intel: MPA errors with type 3; Chelsio: the wrong RTR, no headers */
    {"23070000", {{2, 0, 7}, {2, 3, 7}}},
    {"23020000", {{2, 0, 2}, {2, 3, 2}}},
    {"00000000", {{0, 0, 0}, {0, 0, 0}}},
    /* Intel: a bad key of an STag, not registered */
    {"0200c000 0012 c140 00010203 00000000 00001000", {{0, 2, 0}, {0, 2, 0}}},
    /* RFC order, with headers that are announced and missing, cut short, and too many */
    {"1100c000", {{1, 1, 0}, {1, 1, 0}}},
    {"1100c000 0012 c140 0001", {{1, 1, 0}, {1, 1, 0}}},
    {"20020000 0012 c140 00010203 00000000 00001000", {{2, 0, 2}, {2, 0, 2}}},
    {"0102e000 002e4141 00000000 00000001 00000001 00000000 11223344 00000000 00002000 00000008"
     "00010203 00000000 00001000 deadbeef deadbeef",
     {{0, 1, 2}, {0, 1, 2}}},
};

static void terminate_check(struct endpoint *e, void *arg)
{
    const unsigned *says = arg;

    assert_string_equal(iwarp_fault_name(e->s.fault.code), "PEER_TERMINATE");
    assert_int_equal(e->s.fault.side, IWARP_SIDE_PEER);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(e->s.fault.detail[i], says[i]);
    }
    assert_int_equal(e->s.life, STREAM_ENDED);
    assert_int_equal(e->sent.n, 0);
}

/* Whatever it says, in whatever order and length, it ends the stream without an answer. */
static void terminate__of_each_peer__is_understood_unless_strict(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * sizeof terminates / sizeof *terminates; i++) {
        const struct terminate *t = &terminates[i / 2];
        unsigned says[3];
        struct octets ulpdu = {0}, o = {0};
        octets_hex(&ulpdu, "4147 00000000 00000002 00000001 00000000");
        octets_hex(&ulpdu, t->ulpdu);
        fpdu_add(&o, ulpdu.p, ulpdu.n, 0);
        memcpy(says, t->says[i % 2], sizeof says);
        /* strict refers to what the responder may not do; so this end is one */
        const struct scene scene = {.options = {.strict = i % 2, .hold_tx = true},
                                    .check = terminate_check,
                                    .arg = says,
                                    .octets = o.p,
                                    .n = o.n};
        receive_every_way(&scene);
        octets_free(&ulpdu);
        octets_free(&o);
    }
}

/*
 * Without headers 2/0/05 to 07 in one order are 0/2/05 to 07 in the other. Which is meant depends
 * on what has been said before.
 */
static void terminate__of_two_readings__is_the_possible_one(void **state)
{
    static const struct {
        uint8_t octet; /* the first */
        bool first, silent;
        uint8_t layer, siw;
    } row[] = {
        {0x20, true, true, 2, false},  /* our Reply was not liked */
        {0x20, true, false, 2, false}, /* a responder that cannot start */
        {0x20, false, true, 0, true},  /* siw: too late for the start-up */
        {0x20, false, false, 0, true},
        {0x02, true, true, 2, true}, /* siw: there was no operation of ours to complain about */
        {0x02, true, false, 0, false},
        {0x02, false, true, 0, false},
        {0x02, false, false, 0, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        for (uint8_t code = 5; code <= 7; code++) {
            const uint8_t word[4] = {row[i].octet, code, 0, 0};
            struct iwarp_peers_term when = {.first = row[i].first, .silent = row[i].silent};
            struct iwarp_term_info info;
            iwarp_rdmap_term_get(word, &when, &info);
            assert_int_equal(info.layer, row[i].layer);
            assert_int_equal(info.etype, 2 - row[i].layer);
            assert_int_equal(info.siw_bit_order, row[i].siw);
            when.strict = true;
            iwarp_rdmap_term_get(word, &when, &info);
            assert_int_equal(info.layer, row[i].octet >> 4);
            assert_false(info.siw_bit_order);
        }
    }
}

/* Our FIN came while the peer had work: 0/2/07 is its first word, though we never said any. */
static void terminate__about_our_fin__is_of_the_peers_rdmap(void **state)
{
    (void)state;
    for (int closed = 0; closed < 2; closed++) {
        struct octets o = {0}, ulpdu = {0};
        struct endpoint e;
        octets_hex(&ulpdu, "4147 00000000 00000002 00000001 00000000 02070000");
        fpdu_add(&o, ulpdu.p, ulpdu.n, 0);
        endpoint_init(&e, &(struct endpoint_options){0});
        if (closed) {
            iwarp_stream_close(&e.s);
            assert_int_equal(iwarp_stream_interest(&e.s), IWARP_STREAM_SHUTDOWN);
        }
        iwarp_stream_feed(&e.s, o.p, o.n);
        assert_string_equal(iwarp_fault_name(e.s.fault.code), "PEER_TERMINATE");
        assert_int_equal(e.s.fault.detail[0], closed ? 0 : 2);
        endpoint_fini(&e);
        octets_free(&ulpdu);
        octets_free(&o);
    }
}

/*
 * siw does not know Immediate Data and says 0/2/06 in its order, without headers. We are responder,
 * and it has begun with a Write of nothing.
 */
static void terminate__of_siw_about_immediate_data__says_that_it_does_not_know_it(void **state)
{
    (void)state;
    for (int strict = 0; strict < 2; strict++) {
        struct octets o = {0}, ulpdu = {0};
        struct endpoint e;
        octets_hex(&o, "000ec140 00000001 00000000 00000000 ebd34c5f");
        octets_hex(&ulpdu, "4147 00000000 00000002 00000001 00000000 20060000");
        fpdu_add(&o, ulpdu.p, ulpdu.n, 0);
        endpoint_init(
            &e, &(struct endpoint_options){.rfc7306 = true, .strict = strict, .hold_tx = true});
        iwarp_stream_feed(&e.s, o.p, 20);
        endpoint_post(&e, &(struct iwarp_send_wr){.opcode = IWARP_WR_IMM, .imm = 1});
        endpoint_drain(&e);
        iwarp_stream_feed(&e.s, o.p + 20, o.n - 20);
        assert_string_equal(iwarp_fault_name(e.s.fault.code),
                            strict ? "PEER_TERMINATE" : "PEER_NO_RFC7306");
        endpoint_fini(&e);
        octets_free(&ulpdu);
        octets_free(&o);
    }
}

/* --- chosen ---------------------------------------------------------------------------------- */

static void rtr__of_several__is_read_then_write_then_send(void **state)
{
    static const uint8_t pick[8] = {0, 1, 2, 2, 4, 4, 4, 4};

    (void)state;
    for (unsigned mask = 0; mask < 8; mask++) {
        assert_int_equal(iwarp_peers_rtr_pick(mask), pick[mask]);
    }
    assert_int_equal(iwarp_peers_rtr_depth(0), 1);
    assert_int_equal(iwarp_peers_rtr_depth(1), 1);
    assert_int_equal(iwarp_peers_rtr_depth(0x3fff), 0x3fff);
}

/*
 * Requests as these peers send them, and our Reply: it is the same in strict mode, since none of
 * them breaks a rule.
 */
static void request__of_each_peer__gets_the_same_reply_in_both_modes(void **state)
{
    static const struct {
        const char *request, *reply;
    } row[] = {
        {REQ "10020004 0080 0080", REP "50020004 0020 0020"}, /* siw: C=0, A=0 */
        {REQ "50020004 8020 4020", REP "50020004 8020 4020"}, /* Chelsio: D */
        {REQ "50020004 807f c07f", REP "50020004 8020 4020"}, /* Intel: C and D */
        {REQ "50020004 bfff ffff", REP "50020004 bfff 7fff"}, /* Intel, no negotiation */
        {REQ "50020004 c020 c020", REP "50020004 8020 4020"}, /* Marvell: B, C and D */
        {REQ "40010000", REP "40010000"},                     /* Chelsio, revision 1 */
        {REQ "18020004 0080 0080", REP "50020004 0020 0020"}, /* siw with its flag 0x08 */
    };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof row / sizeof *row; i++) {
        const struct iwarp_mpa_wish wish = {
            .rev = 2, .crc = true, .ird = 32, .ord = 32, .strict = i % 2};
        struct octets q = {0}, r = {0};
        char request[80] = "", reply[80] = "";
        struct iwarp_mpa_setup s;

        octets_hex(&q, row[i / 2].request);
        octets_hex(&r, row[i / 2].reply);
        for (size_t k = 0; k < q.n; k++) {
            snprintf(request + 2 * k, 3, "%02x", q.p[k]);
        }
        for (size_t k = 0; k < r.n; k++) {
            snprintf(reply + 2 * k, 3, "%02x", r.p[k]);
        }
        assert_reply(&s, &wish, request, false, reply);
        assert_true(s.settled.crc);
        octets_free(&q);
        octets_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reject__in_the_older_format__is_one_unless_strict),
        cmocka_unit_test(reply__of_revision_2_to_one_of_1__is_one_unless_strict),
        cmocka_unit_test(ird__nobody_announces__has_room_for_one_read_unless_strict),
        cmocka_unit_test(fpdu__of_a_responder_before_ours__is_taken_unless_strict),
        cmocka_unit_test(fpdu__of_a_responder_behind_ours__is_taken),
        cmocka_unit_test(fpdu__damaged_and_early__is_a_crc_error),
        cmocka_unit_test(terminate__of_each_peer__is_understood_unless_strict),
        cmocka_unit_test(terminate__of_two_readings__is_the_possible_one),
        cmocka_unit_test(terminate__about_our_fin__is_of_the_peers_rdmap),
        cmocka_unit_test(terminate__of_siw_about_immediate_data__says_that_it_does_not_know_it),
        cmocka_unit_test(rtr__of_several__is_read_then_write_then_send),
        cmocka_unit_test(request__of_each_peer__gets_the_same_reply_in_both_modes),
    };

    setup_random_state = chance_seed();
    return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
