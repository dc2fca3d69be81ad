/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA start-up against literal octets: the frames that are sent, what is settled from those that
 * come, every rule by which a frame is refused, frames of a real peer, and every single-octet
 * mutation of valid frames. Each receive test runs whole, octet by octet and in random pieces, with
 * FPDU octets behind the frame that must not be taken.
 *
 * MPA_SETUP_SEED=N in the environment repeats a run.
 *
 * RFC 5044 7.1.1 and 7.1.2, RFC 6581 6, 9 and 10.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mpa_setup_driver.h"

/* "MPA ID Req Frame" and "MPA ID Rep Frame", RFC 5044 7.1.1 */
#define REQ "4d504120494420526571204672616d65"
#define REP "4d504120494420526570204672616d65"

#define UNSPEC 0x3fff

/* ---- wishes ---- */

static const struct iwarp_mpa_wish rev1 = {.rev = 1, .crc = true, .ird = 5, .ord = 6};
static const struct iwarp_mpa_wish rev1_no_crc = {.rev = 1, .ird = 5, .ord = 6};
static const struct iwarp_mpa_wish rev2 = {.rev = 2, .crc = true, .ird = 16, .ord = 8};
static const struct iwarp_mpa_wish rev2_no_crc = {.rev = 2, .ird = 16, .ord = 8};
static const struct iwarp_mpa_wish server = {.rev = 2, .crc = true, .ird = 32, .ord = 32};
static const struct iwarp_mpa_wish p2p = {.rev = 2,
                                          .crc = true,
                                          .peer_to_peer = true,
                                          .rtr = IWARP_RTR_WRITE | IWARP_RTR_READ,
                                          .ird = 16,
                                          .ord = 8};

static struct iwarp_mpa_wish depths(struct iwarp_mpa_wish wish, unsigned ird, unsigned ord)
{
    wish.ird = (uint16_t)ird;
    wish.ord = (uint16_t)ord;
    return wish;
}

static struct iwarp_mpa_wish with_rtr(struct iwarp_mpa_wish wish, unsigned rtr)
{
    wish.rtr = (uint8_t)rtr;
    return wish;
}

/* ---- the worked frames, sent ---- */

/* [MPA-7.1.1-01] [MPA-7.1.1-14] [MPA-7.1.1-18] [MPA-7.1.2-02] RFC 5044 7.1.1 */
static void request__rev_1__octets_of_m01_and_m03(void **state)
{
    struct iwarp_mpa_wish markers = rev1; /* [MPA-7.1.1-12] [MPA2-10-03] */

    (void)state;
    markers.markers_rx = true;
    assert_request(&rev1, "", REQ "40010000");                /* M01 */
    assert_request(&markers, "test", REQ "c001000474657374"); /* M03 */
    assert_request(&rev1_no_crc, "", REQ "00010000");         /* C=0 only if told so */
    markers = rev1;
    markers.peer_to_peer = true; /* needs revision 2. [MPA2-6-02] RFC 6581 6 */
    assert_request(&markers, "", REQ "40010000");
}

/* [MPA2-6-01] [MPA2-9-01] [MPA2-9.2-01] [MPA2-9.2-02] [MPA2-9.2-11] [MPA2-9.2-13] RFC 6581 9 */
static void request__rev_2__octets_of_m05_m07_m09(void **state)
{
    struct iwarp_mpa_wish all = with_rtr(depths(p2p, UNSPEC, UNSPEC), 7); /* [MPA2-6-06] */
    struct iwarp_mpa_wish quiet = with_rtr(rev2, 7);

    (void)state;
    assert_request(&rev2, "", REQ "5002000400100008");      /* M05 */
    assert_request(&quiet, "", REQ "5002000400100008");     /* A=0: B, C, D stay 0 */
    assert_request(&p2p, "ab", REQ "500200068010c0086162"); /* M07 */
    assert_request(&all, "", REQ "50020004ffffffff");       /* M09 */
    all = with_rtr(p2p, 0);                                 /* Read is what all peers have */
    assert_request(&all, "", REQ "5002000480104008");
    all = with_rtr(depths(p2p, 0, 0), IWARP_RTR_READ); /* a Read as RTR needs ORD 1 */
    assert_request(&all, "", REQ "5002000480004001");
    all = with_rtr(depths(p2p, 0, 0), IWARP_RTR_SEND);
    assert_request(&all, "", REQ "50020004c0000000");
    all = depths(rev2, 0xffff, 0x4000); /* no number has more than 14 bits */
    all.rev = 0;                        /* counts as 2 */
    assert_request(&all, "", REQ "500200043ffe3ffe");
}

/* M12, and one octet more. [MPA-7.1.1-21] [MPA2-9-02] RFC 6581 9 */
static void request__private_data_at_the_limit__fits_and_no_more(void **state)
{
    struct iwarp_mpa_wish small = depths(rev2, 1, 1);
    struct iwarp_mpa_setup s;
    uint8_t out[IWARP_MPA_FRAME_MAX], pd[513];

    (void)state;
    for (size_t i = 0; i < sizeof pd; i++) {
        pd[i] = (uint8_t)(i * 7);
    }
    iwarp_mpa_setup_init(&s, INITIATOR, &small);
    assert_int_equal(iwarp_mpa_setup_request(&s, pd, 508, out), 532);
    assert_octets(out, 24, REQ "5002020000010001");
    assert_memory_equal(out + 24, pd, 508);
    assert_int_equal(iwarp_mpa_setup_request(&s, pd, 509, out), 0);
    assert_int_equal(iwarp_mpa_setup_request(&s, pd, 65536, out), 0);

    iwarp_mpa_setup_init(&s, INITIATOR, &rev1);
    assert_int_equal(iwarp_mpa_setup_request(&s, pd, 512, out), 532);
    assert_octets(out, 20, REQ "40010200");
    assert_memory_equal(out + 20, pd, 512);
    assert_int_equal(iwarp_mpa_setup_request(&s, pd, 513, out), 0);
}

/* [MPA-7.1.1-03] [MPA-7.1.1-11] [MPA-7.1.2-05] [MPA-7.1.2-06] RFC 5044 7.1.2 (2) */
static void reply__rev_1__octets_of_m02_and_m04(void **state)
{
    struct iwarp_mpa_wish markers = rev1_no_crc;
    struct iwarp_mpa_setup s;
    uint8_t out[IWARP_MPA_FRAME_MAX];

    (void)state;
    assert_reply(&s, &server, REQ "40010000", false, REP "40010000"); /* M02 */
    receive(&s, RESPONDER, &server, REQ "40010000", IWARP_MPA_FRAME);
    assert_octets(out, iwarp_mpa_setup_reply(&s, true, NULL, "\0\1", 2, out),
                  REP "600100020001"); /* M04 */
    markers.markers_rx = true;
    assert_reply(&s, &markers, REQ "00010000", false, REP "80010000");
    assert_reply(&s, &markers, REQ "00010000", true, REP "20010000");
}

/* [MPA2-10-01] [MPA2-9.1-05] [MPA2-9.2-04] [MPA2-9.2-12] RFC 6581 9.1, 9.2 */
static void reply__rev_2__octets_of_m06_m08_m10(void **state)
{
    struct iwarp_mpa_setup s;

    (void)state;
    assert_reply(&s, &server, REQ "5002000400100008", false, REP "5002000400080010"); /* M06 */
    assert_false(s.settled.peer_to_peer);
    assert_reply(&s, &server, REQ "500200068010c0086162", false, REP "5002000480084010"); /* M08 */
    assert_int_equal(s.settled.rtr, IWARP_RTR_READ);
    assert_reply(&s, &server, REQ "5002000400100008", true, REP "7002000400080020"); /* M10 */
}

/* [MPA-7.1.1-21] [MPA2-9-02] */
static void reply__private_data_at_the_limit__fits_and_no_more(void **state)
{
    struct iwarp_mpa_setup s;
    uint8_t out[IWARP_MPA_FRAME_MAX], pd[513] = {0x55};

    (void)state;
    receive(&s, RESPONDER, &server, REQ "5002000400100008", IWARP_MPA_FRAME);
    assert_int_equal(iwarp_mpa_setup_reply(&s, false, NULL, pd, 509, out), 0);
    assert_int_equal(iwarp_mpa_setup_reply(&s, false, NULL, pd, 508, out), 532);
    assert_octets(out, 25, REP "500202000008001055");
    receive(&s, RESPONDER, &server, REQ "40010000", IWARP_MPA_FRAME);
    assert_int_equal(iwarp_mpa_setup_reply(&s, false, NULL, pd, 513, out), 0);
    assert_int_equal(iwarp_mpa_setup_reply(&s, false, NULL, pd, 512, out), 532);
    assert_octets(out, 21, REP "4001020055");
}

/* What accept() says replaces what listen() said. */
static void reply__wish_given_late__counts_instead(void **state)
{
    struct iwarp_mpa_wish late = depths(rev2_no_crc, 3, 2);
    struct iwarp_mpa_setup s;
    uint8_t out[IWARP_MPA_FRAME_MAX];

    (void)state;
    late.rev = 1; /* the revision is settled already */
    receive(&s, RESPONDER, &server, REQ "1002000400100008", IWARP_MPA_FRAME);
    assert_depths(&s, 8, 16, 16, 8);
    assert_octets(out, iwarp_mpa_setup_reply(&s, false, &late, NULL, 0, out),
                  REP "1002000400030002");
    assert_depths(&s, 3, 2, 16, 8);
    assert_false(s.settled.crc);
    assert_int_equal(s.wish.rev, 2);
}

/* [MPA-7.1.2-03] RFC 5044 7.1.2 (2) */
static void frames__asked_for_out_of_turn__none(void **state)
{
    struct iwarp_mpa_setup s;
    uint8_t out[IWARP_MPA_FRAME_MAX];
    size_t used;

    (void)state;
    iwarp_mpa_setup_init(&s, RESPONDER, &server);
    assert_int_equal(iwarp_mpa_setup_request(&s, NULL, 0, out), 0);
    assert_int_equal(iwarp_mpa_setup_reply(&s, false, NULL, NULL, 0, out), 0);
    assert_int_equal(iwarp_mpa_setup_feed(&s, "MPA ID R", 8, &used), IWARP_MPA_MORE);
    assert_int_equal(used, 8);
    assert_int_equal(iwarp_mpa_setup_reply(&s, false, NULL, NULL, 0, out), 0);
    assert_int_equal(iwarp_mpa_setup_feed(&s, NULL, 0, &used), IWARP_MPA_MORE);
    assert_int_equal(used, 0);
    iwarp_mpa_setup_private_data(&s, &used);
    assert_int_equal(used, 0);

    receive(&s, INITIATOR, &rev1, REP "40010000", IWARP_MPA_FRAME);
    assert_int_equal(iwarp_mpa_setup_reply(&s, false, NULL, NULL, 0, out), 0);
}

/* ---- the worked frames, received ---- */

/* [MPA-7.1.1-15] [MPA-7.1.1-17] [MPA-7.1.1-20] [MPA2-6-04] [MPA2-10-02] [MPA2-10-04] */
static void request__rev_1__accepted_with_local_depths(void **state)
{
    struct iwarp_mpa_setup s;

    (void)state;
    receive(&s, RESPONDER, &server, REQ "40010000", IWARP_MPA_FRAME); /* M01 */
    assert_int_equal(s.settled.rev, 1);
    assert_true(s.settled.crc);
    assert_false(s.settled.enhanced || s.settled.markers_tx || s.settled.peer_to_peer);
    assert_depths(&s, 32, 32, 0, 0);
    assert_private(&s, "");
    receive(&s, RESPONDER, &rev1, REQ "c001000474657374", IWARP_MPA_FRAME); /* M03 */
    assert_true(s.settled.markers_tx);
    assert_false(s.settled.markers_rx);
    assert_depths(&s, 5, 6, 0, 0);
    assert_private(&s, "74657374");
}

/* [MPA2-9.1-01] [MPA2-9.1-04] [MPA2-6-05] RFC 6581 9 */
static void request__rev_2__words_taken_off(void **state)
{
    struct iwarp_mpa_setup s;
    char hex[2 * 532 + 1] = REQ "5002020000010001";
    size_t len;

    (void)state;
    receive(&s, RESPONDER, &server, REQ "5002000400100008", IWARP_MPA_FRAME); /* M05 */
    assert_int_equal(s.settled.rev, 2);
    assert_true(s.settled.enhanced);
    assert_false(s.settled.peer_to_peer);
    assert_int_equal(s.settled.rtr, IWARP_RTR_NONE);
    assert_depths(&s, 8, 16, 16, 8);
    assert_private(&s, "");
    receive(&s, RESPONDER, &server, REQ "500200068010c0086162", IWARP_MPA_FRAME);
    assert_true(s.settled.peer_to_peer); /* M07 */
    assert_private(&s, "6162");
    for (int i = 0; i < 508; i++) {
        snprintf(hex + 48 + 2 * i, 3, "%02x", i & 0xff);
    }
    receive(&s, RESPONDER, &server, hex, IWARP_MPA_FRAME); /* M12 */
    assert_int_equal(((const uint8_t *)iwarp_mpa_setup_private_data(&s, &len))[507], 507 & 0xff);
    assert_int_equal(len, 508);
    assert_private(&s, hex + 48);
}

/* M11. [MPA2-10-02] RFC 6581 10 */
static void request__rev_2_without_s__unenhanced_reply_of_rev_2(void **state)
{
    struct iwarp_mpa_setup s;

    (void)state;
    assert_reply(&s, &server, REQ "40020000", false, REP "40020000");
    assert_false(s.settled.enhanced);
    assert_depths(&s, 32, 32, 0, 0);
    assert_reply(&s, &server, REQ "400200058010c00861", false, REP "40020000");
    assert_private(&s, "8010c00861");
}

/* R and reserved flags, and S before revision 2. [MPA-7.1.1-10] [MPA-7.1.1-13] [MPA2-6-07] */
static void request__reserved_flags__ignored(void **state)
{
    struct iwarp_mpa_setup s;

    (void)state;
    assert_reply(&s, &server, REQ "6f010000", false, REP "40010000");
    assert_reply(&s, &server, REQ "7f010000", false, REP "40010000");
    assert_false(s.settled.enhanced);
    assert_reply(&s, &server, REQ "5001000400100008", false, REP "40010000");
    assert_private(&s, "00100008");
    assert_reply(&s, &server, REQ "7f02000400100008", false, REP "5002000400080010");
    assert_true(s.settled.enhanced);
}

/* M02, M06, M08. [MPA-7.1.2-10] [MPA-7.1.2-13] [MPA2-9.1-07] [MPA2-9.1-08] [MPA2-9.2-09] */
static void reply__accepting__settled(void **state)
{
    struct iwarp_mpa_setup s;

    (void)state;
    receive(&s, INITIATOR, &rev1, REP "40010000", IWARP_MPA_FRAME);
    assert_int_equal(s.settled.rev, 1);
    assert_true(s.settled.crc);
    assert_depths(&s, 5, 6, 0, 0);
    receive(&s, INITIATOR, &rev2, REP "5002000400080010", IWARP_MPA_FRAME);
    assert_true(s.settled.enhanced);
    assert_depths(&s, 16, 8, 8, 16);
    receive(&s, INITIATOR, &p2p, REP "5002000480084010", IWARP_MPA_FRAME);
    assert_true(s.settled.peer_to_peer);
    assert_int_equal(s.settled.rtr, IWARP_RTR_READ);
    assert_depths(&s, 16, 8, 8, 16);
    /* all reserved flags, and S in revision 1. [MPA-7.1.1-13] [MPA2-6-07] */
    receive(&s, INITIATOR, &rev1, REP "5f01000400100008", IWARP_MPA_FRAME);
    assert_false(s.settled.enhanced);
    assert_private(&s, "00100008");
    receive(&s, INITIATOR, &rev2, REP "5f020006000800106162", IWARP_MPA_FRAME);
    assert_private(&s, "6162");
}

/* M04, M10: private data and depths reach the ULP. [MPA-7.1.2-12] [MPA2-9.1-10] RFC 6581 9.1 */
static void reply__rejecting__told_with_what_it_carries(void **state)
{
    struct iwarp_mpa_setup s;

    (void)state;
    receive(&s, INITIATOR, &rev1, REP "600100020001", IWARP_MPA_REJECTED);
    assert_int_equal(s.fault.code, IWARP_FAULT_MPA_REJECTED);
    assert_int_equal(s.fault.side, IWARP_SIDE_PEER);
    assert_int_equal(iwarp_fault_status(&s.fault), IWARP_PEER);
    assert_private(&s, "0001");
    receive(&s, INITIATOR, &rev2, REP "7002000400080020", IWARP_MPA_REJECTED);
    assert_int_equal(s.settled.peer_ird, 8);
    assert_int_equal(s.settled.peer_ord, 32); /* more than IRD 16: no fault of its own here */
    receive(&s, INITIATOR, &p2p, REP "70020005000000007a", IWARP_MPA_REJECTED);
    assert_private(&s, "7a");
    /* tolerance: a Reject in the format of revision 1 is a Reject */
    receive(&s, INITIATOR, &rev2, REP "600100027a7a", IWARP_MPA_REJECTED);
    assert_private(&s, "7a7a");
    receive(&s, INITIATOR, &p2p, REP "60020000", IWARP_MPA_REJECTED);
}

/* ---- refusals ---- */

/* Each octet of the key altered. [MPA-7.1.1-02] [MPA-7.1.1-04] [MPA-7.1.2-15] RFC 5044 7.1.2 (5) */
static void key__any_octet_wrong__fault_at_that_octet(void **state)
{
    char request[] = REQ "40010000", reply[] = REP "40010000", octet[3];
    uint8_t key[16];

    (void)state;
    for (size_t i = 0; i < 16; i++) {
        setup_unhex(REQ, key);
        snprintf(octet, sizeof octet, "%02x", key[i] ^ 0x20u);
        memcpy(request + 2 * i, octet, 2);
        refuse(RESPONDER, &server, request, i + 1, MPA_FAULT(KEY), i, key[i] ^ 0x20u, key[i]);
        memcpy(request + 2 * i, &REQ[2 * i], 2);

        setup_unhex(REP, key);
        snprintf(octet, sizeof octet, "%02x", key[i] ^ 0x80u);
        memcpy(reply + 2 * i, octet, 2);
        refuse(INITIATOR, &rev1, reply, i + 1, MPA_FAULT(KEY), i, key[i] ^ 0x80u, key[i]);
        memcpy(reply + 2 * i, &REP[2 * i], 2);
    }
    /* a peer that speaks something else is known by its first octet */
    refuse(INITIATOR, &rev2, "485454502f312e31", 1, MPA_FAULT(KEY), 0, 'H', 'M');
    refuse(RESPONDER, &server, "1603010200010001fc", 1, MPA_FAULT(TLS), 22, 0, 0);
    refuse(INITIATOR, &rev2, "15030300020228", 1, MPA_FAULT(TLS), 21, 0, 0);
    refuse(RESPONDER, &server, "4d16", 2, MPA_FAULT(KEY), 1, 0x16, 'P');
}

/* [MPA-7.1.2-19] RFC 5044 7.1.2 (8) */
static void key__of_the_own_role__both_ends_alike(void **state)
{
    (void)state;
    refuse(INITIATOR, &rev2, REQ "5002000400100008", 10, MPA_FAULT(BOTH_INITIATORS), 0, 0, 0);
    refuse(RESPONDER, &rev2, REP "5002000400100008", 10, MPA_FAULT(BOTH_RESPONDERS), 0, 0, 0);
}

/* [MPA-7.1.1-15] [MPA-7.1.1-16] [MPA2-10-05] RFC 5044 7.1.1 */
static void revision__not_spoken__refused(void **state)
{
    static const char *const request[] = {REQ "40000000", REQ "5003000400100008", REQ "40ff0000"};
    static const char *const reply[] = {REP "40000000", REP "5003000400100008", REP "60ff0000"};
    static const uint8_t rev[] = {0, 3, 255};

    (void)state;
    for (int i = 0; i < 3; i++) {
        refuse(RESPONDER, &server, request[i], 20, MPA_FAULT(REVISION), rev[i], 2, 0);
        refuse(INITIATOR, &rev2, reply[i], 20, MPA_FAULT(REVISION), rev[i], 2, 0);
        refuse(INITIATOR, &rev1, reply[i], 20, MPA_FAULT(REVISION), rev[i], 1, 0);
    }
    /* an end without RFC 6581 */
    refuse(RESPONDER, &rev1, REQ "5002000400100008", 20, MPA_FAULT(REVISION), 2, 1, 0);
    /* an enhanced Reply to an unenhanced Request. [MPA2-10-02] RFC 6581 10 */
    refuse(INITIATOR, &rev1, REP "5002000400100008", 20, MPA_FAULT(REVISION), 2, 1, 0);
}

/* tolerance: without S, revision 2 is the same frame */
static void reply__rev_2_without_s_to_rev_1__accepted(void **state)
{
    struct iwarp_mpa_wish none = depths(p2p, 0, 0);
    struct iwarp_mpa_setup s;

    (void)state;
    receive(&s, INITIATOR, &rev1, REP "400200020102", IWARP_MPA_FRAME);
    assert_private(&s, "0102");
    assert_depths(&s, 5, 6, 0, 0);
    none.rev = 1; /* no peer-to-peer, so no depth for an RTR either */
    receive(&s, INITIATOR, &none, REP "40010000", IWARP_MPA_FRAME);
    assert_depths(&s, 0, 0, 0, 0);
}

/* [MPA-7.1.1-19] [MPA-7.1.2-21] [MPA-7.1.2-22] [MPA-7.1.2-24] RFC 5044 7.1.2 (9) */
static void private_data__announced_above_512__refused_at_the_header(void **state)
{
    (void)state;
    refuse(RESPONDER, &server, REQ "40010201", 20, MPA_FAULT(PRIVATE_DATA_LEN), 513, 512, 0);
    refuse(RESPONDER, &server, REQ "5002ffff", 20, MPA_FAULT(PRIVATE_DATA_LEN), 65535, 512, 0);
    refuse(INITIATOR, &rev1, REP "40010201", 20, MPA_FAULT(PRIVATE_DATA_LEN), 513, 512, 0);
    refuse(INITIATOR, &rev2, REP "7002ffff", 20, MPA_FAULT(PRIVATE_DATA_LEN), 65535, 512, 0);
}

/* [MPA2-6-05] [MPA2-10-01] RFC 6581 6, 10 */
static void enhanced_words__missing__refused(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 4; n++) {
        char request[] = REQ "50020000ffffff", reply[] = REP "50020000ffffff";
        request[39] = reply[39] = (char)('0' + n);
        refuse(RESPONDER, &server, request, 20, MPA_FAULT(ENHANCED_MISSING), 0x50, 2, n);
        refuse(INITIATOR, &rev2, reply, 20, MPA_FAULT(ENHANCED_MISSING), 0x50, 2, n);
        reply[32] = '7'; /* nor may a Reject be cut short */
        refuse(INITIATOR, &rev2, reply, 20, MPA_FAULT(ENHANCED_MISSING), 0x70, 2, n);
    }
    refuse(INITIATOR, &rev2, REP "4002000400080010", 20, MPA_FAULT(ENHANCED_MISSING), 0x40, 2, 4);
    refuse(INITIATOR, &rev2, REP "5001000400080010", 20, MPA_FAULT(ENHANCED_MISSING), 0x50, 1, 4);
}

/* ---- CRC and markers ---- */

/* [MPA-4.4-04] [MPA-7.1.1-07] [MPA-7.1.1-08] RFC 5044 7.1.1 */
static void crc__wished_by_either_end__on(void **state)
{
    struct iwarp_mpa_setup s;

    (void)state;
    assert_reply(&s, &rev1, REQ "00010000", false, REP "40010000");
    assert_true(s.settled.crc);
    assert_reply(&s, &rev1_no_crc, REQ "40010000", false, REP "40010000"); /* siw needs the C */
    assert_true(s.settled.crc);
    assert_reply(&s, &rev1_no_crc, REQ "00010000", false, REP "00010000");
    assert_false(s.settled.crc);
    receive(&s, INITIATOR, &rev1, REP "00010000", IWARP_MPA_FRAME);
    assert_true(s.settled.crc);
    receive(&s, INITIATOR, &rev1_no_crc, REP "40010000", IWARP_MPA_FRAME);
    assert_true(s.settled.crc);
    receive(&s, INITIATOR, &rev1_no_crc, REP "00010000", IWARP_MPA_FRAME);
    assert_false(s.settled.crc);
}

/* [MPA-7.1.1-05] [MPA-7.1.1-06] RFC 5044 7.1.1 */
static void markers__four_combinations__each_direction_on_its_own(void **state)
{
    static const char *const request[] = {REQ "40010000", REQ "c0010000"};
    static const char *const reply[] = {REP "40010000", REP "c0010000"};
    struct iwarp_mpa_setup s;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct iwarp_mpa_wish wish = rev1;
        wish.markers_rx = i & 1;
        assert_reply(&s, &wish, request[i >> 1], false, reply[i & 1]);
        assert_int_equal(s.settled.markers_rx, i & 1);
        assert_int_equal(s.settled.markers_tx, i >> 1);
        receive(&s, INITIATOR, &wish, reply[i >> 1], IWARP_MPA_FRAME);
        assert_int_equal(s.settled.markers_rx, i & 1);
        assert_int_equal(s.settled.markers_tx, i >> 1);
    }
}

/* ---- depths ---- */

/* RFC 6581 9.1, and the words of the Reply. [MPA2-9.1-02] [MPA2-9.1-04] [MPA2-9.1-11]
 * [MPA2-9.1-13] */
static void depths__of_a_responder__mirrored_and_clamped(void **state)
{
    static const struct {
        uint16_t ird, ord; /* wished */
        const char *words, *accept, *reject;
        uint16_t use_ird, use_ord;
    } row[] = {
        {32, 32, "00100008", "00080010", "00080020", 8, 16},
        {4, 16, "00020008", "00040002", "00040010", 4, 2},
        {32, 32, "00000000", "00000000", "00000020", 0, 0},
        {0, 0, "00100008", "00000000", "00000000", 0, 0},
        {7, 9, "3fff3fff", "3fff3fff", "3fff3fff", 7, 9},
        {7, 9, "00043fff", "3fff0004", "3fff0009", 7, 4},
        {7, 9, "3fff0004", "00043fff", "00043fff", 4, 9},
        {7, 9, "3ffe3ffe", "00070009", "00070009", 7, 9},
        {UNSPEC, UNSPEC, "00100008", "3fff0010", "3fff3fff", UNSPEC, 16},
        {UNSPEC, UNSPEC, "3fff3fff", "3fff3fff", "3fff3fff", UNSPEC, UNSPEC},
        {7, 9, "4010c008", "00070009", "00070009", 7, 9}, /* B, C, D without A [MPA2-9.2-14] */
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct iwarp_mpa_wish wish = depths(server, row[i].ird, row[i].ord);
        char request[64], accept[64], reject[64];
        struct iwarp_mpa_setup s;

        snprintf(request, sizeof request, REQ "50020004%s", row[i].words);
        snprintf(accept, sizeof accept, REP "50020004%s", row[i].accept);
        snprintf(reject, sizeof reject, REP "70020004%s", row[i].reject);
        assert_reply(&s, &wish, request, true, reject); /* [MPA2-9.1-05] */
        assert_reply(&s, &wish, request, false, accept);
        assert_int_equal(s.settled.ird, row[i].use_ird);
        assert_int_equal(s.settled.ord, row[i].use_ord);
    }
}

/* [MPA2-9.1-07] [MPA2-9.1-08] [MPA2-9.1-12] [MPA2-9.1-14] RFC 6581 9.1 */
static void depths__of_an_initiator__ord_lowered_ird_kept(void **state)
{
    static const struct {
        uint16_t ird, ord;
        const char *reply;
        uint16_t use_ird, use_ord;
    } row[] = {
        {16, 8, REP "5002000400010010", 16, 1},
        {16, 8, REP "5002000400000000", 16, 0},
        {16, 8, REP "500200043ffe0001", 16, 8},
        {16, 8, REP "500200043fff0010", 16, 8},
        {16, 8, REP "5002000400043fff", 16, 4},
        {16, 8, REP "500200043fff3fff", 16, 8},
        {UNSPEC, 8, REP "5002000400080020", 32, 8},
        {16, UNSPEC, REP "5002000400800010", 16, 128},
        {UNSPEC, 8, REP "500200043fff3fff", UNSPEC, 8},
        {16, 8, REP "500200044008c010", 16, 8}, /* B, C, D without A [MPA2-9.2-14] */
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct iwarp_mpa_wish wish = depths(rev2, row[i].ird, row[i].ord);
        struct iwarp_mpa_setup s;

        receive(&s, INITIATOR, &wish, row[i].reply, IWARP_MPA_FRAME);
        assert_int_equal(s.settled.ird, row[i].use_ird);
        assert_int_equal(s.settled.ord, row[i].use_ord);
        assert_int_equal(s.settled.rtr, IWARP_RTR_NONE);
    }
}

/* 2/0/06 is owed, framed as settled. [MPA2-9.1-06] [MPA2-9.1-09] [MPA2-8-01] RFC 6581 9.1 */
static void depths__reply_ord_above_own_ird__insufficient_ird(void **state)
{
    struct iwarp_mpa_wish unspecified = depths(rev2, UNSPEC, 8);
    struct iwarp_mpa_setup s;

    (void)state;
    refuse(INITIATOR, &rev2, REP "5002000400080011", 24, MPA_FAULT(IRD_INSUFFICIENT), 17, 16, 0);
    refuse(INITIATOR, &p2p, REP "5002000480087ffe", 24, MPA_FAULT(IRD_INSUFFICIENT), 0x3ffe, 16, 0);
    refuse(INITIATOR, &unspecified, REP "5002000400083ffe", 24, MPA_FAULT(IRD_INSUFFICIENT), 0x3ffe,
           1024, 0);
    receive(&s, INITIATOR, &rev2, REP "d002000400080011", IWARP_MPA_FAULT);
    const struct iwarp_fault_row *fault = iwarp_fault_row(s.fault.code);
    assert_true(fault->layer == 2 && fault->etype == 0 && fault->code == 6);
    assert_true(s.settled.crc && s.settled.markers_tx);
}

/* ---- peer-to-peer ---- */

/* One of the offered: Read before Write before Send. [MPA2-9.2-03] [MPA2-9.2-06] [MPA2-9.2-08] */
static void rtr__chosen_by_a_responder__exactly_one(void **state)
{
    static const char *const word[8] = {"80100008", "c0100008", "80108008", "c0108008",
                                        "80104008", "c0104008", "8010c008", "c010c008"};

    (void)state;
    for (unsigned offered = 0; offered < 8; offered++) {
        for (unsigned able = 0; able < 8; able++) {
            struct iwarp_mpa_wish wish = with_rtr(server, able);
            unsigned real = able ? able : 7, common = offered & real ? offered & real : real;
            unsigned one = common & 4 ? 4 : common & 2 ? 2 : 1;
            char request[64], reply[64];
            struct iwarp_mpa_setup s;

            snprintf(request, sizeof request, REQ "50020004%s", word[offered]);
            snprintf(reply, sizeof reply, REP "50020004%s%s", one == 1 ? "c008" : "8008",
                     one == 2   ? "8010"
                     : one == 4 ? "4010"
                                : "0010");
            assert_reply(&s, &wish, request, false, reply);
            assert_int_equal(s.settled.rtr, one);
        }
    }
}

/* [MPA2-9.2-09] [MPA2-9.2-10] RFC 6581 9.2 */
static void rtr__chosen_by_an_initiator__common_or_2_0_07(void **state)
{
    static const char *const word[8] = {"80080010", "c0080010", "80088010", "c0088010",
                                        "80084010", "c0084010", "8008c010", "c008c010"};

    (void)state;
    for (unsigned theirs = 0; theirs < 8; theirs++) {
        for (unsigned offered = 1; offered < 8; offered++) {
            struct iwarp_mpa_wish wish = with_rtr(p2p, offered);
            unsigned common = offered & theirs;
            struct iwarp_mpa_setup s;
            char reply[64];

            snprintf(reply, sizeof reply, REP "50020004%s", word[theirs]);
            if (common == 0) {
                refuse(INITIATOR, &wish, reply, 24, MPA_FAULT(NO_RTR), offered, theirs, 8);
                continue;
            }
            receive(&s, INITIATOR, &wish, reply, IWARP_MPA_FRAME);
            assert_int_equal(s.settled.rtr, common & 4 ? 4 : common & 2 ? 2 : 1);
        }
    }
    const struct iwarp_fault_row *row = iwarp_fault_row(IWARP_FAULT_MPA_NO_RTR);
    assert_true(row->layer == 2 && row->etype == 0 && row->code == 7);
}

/* [MPA2-9.2-04] [MPA2-9.2-12] RFC 6581 9.2 */
static void rtr__model_of_reply_differs__refused(void **state)
{
    (void)state;
    refuse(INITIATOR, &p2p, REP "5002000400084010", 24, MPA_FAULT(RTR_MISMATCH), 0, 1, 0);
    refuse(INITIATOR, &rev2, REP "5002000480084010", 24, MPA_FAULT(RTR_MISMATCH), 1, 0, 0);
}

/* A Read as RTR needs one entry at each end. [MPA2-9.1-03] RFC 6581 9.1 */
static void rtr__read_without_depth__one_entry_or_another_rtr(void **state)
{
    struct iwarp_mpa_wish none = depths(server, 0, 0), client = depths(p2p, 0, 0);
    struct iwarp_mpa_setup s;

    (void)state;
    assert_reply(&s, &server, REQ "5002000480004000", false, REP "5002000480014000");
    assert_depths(&s, 1, 0, 0, 0);
    assert_reply(&s, &none, REQ "5002000480104008", false, REP "5002000480014000");
    assert_reply(&s, &none, REQ "50020004bfff7fff", false,
                 REP "50020004bfff7fff"); /* M09, D only */
    assert_depths(&s, 1, 0, UNSPEC, UNSPEC);
    assert_reply(&s, &none, REQ "5002000480108008", false, REP "5002000480008000");
    assert_depths(&s, 0, 0, 16, 8);
    assert_reply(&s, &none, REQ "40010000", false, REP "40010000"); /* Chelsio, revision 1 */
    assert_depths(&s, 1, 0, 0, 0);

    receive(&s, INITIATOR, &client, REP "5002000480014000", IWARP_MPA_FRAME);
    assert_int_equal(s.settled.ord, 1);
    receive(&s, INITIATOR, &client, REP "500200048000c000", IWARP_MPA_FRAME);
    assert_int_equal(s.settled.rtr, IWARP_RTR_WRITE);
    refuse(INITIATOR, &client, REP "5002000480004000", 24, MPA_FAULT(NO_RTR), 6, 4, 0);
    receive(&s, RESPONDER, &server, REQ "50020004ffffffff", IWARP_MPA_FRAME); /* M09 */
    assert_depths(&s, 32, 32, UNSPEC, UNSPEC);
    assert_int_equal(s.settled.rtr, IWARP_RTR_READ);
}

/* ---- frames of other implementations ---- */

/* Requests as captured (Linux 6.1 siw; revision 1 with text: 2008), and what is answered. */
static void request__captured__understood(void **state)
{
    static const struct {
        const char *request, *reply, *pd;
        bool crc;
        uint16_t peer_ird, peer_ord;
        uint8_t rtr;
    } row[] = {
        {REQ "0001000761637469766500", REP "40010000", "61637469766500", true, 0, 0, 0},
        {REQ "00010000", REP "40010000", "", true, 0, 0, 0},
        {REQ "400100104ac9ee0000007fd464e0500000010000", REP "40010000",
         "4ac9ee0000007fd464e0500000010000", true, 0, 0, 0},
        {REQ "1002000400010001", REP "5002000400010001", "", true, 1, 1, 0},
        {REQ "5002000400000000", REP "5002000400000000", "", true, 0, 0, 0},
        {REQ "5002000400800080", REP "5002000400200020", "", true, 128, 128, 0},
        {REQ "500200048001c001", REP "5002000480014001", "", true, 1, 1, IWARP_RTR_READ},
    };

    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct iwarp_mpa_setup s;

        assert_reply(&s, &server, row[i].request, false, row[i].reply);
        assert_private(&s, row[i].pd);
        assert_int_equal(s.settled.crc, row[i].crc);
        assert_int_equal(s.settled.peer_ird, row[i].peer_ird);
        assert_int_equal(s.settled.peer_ord, row[i].peer_ord);
        assert_int_equal(s.settled.rtr, row[i].rtr);
    }
}

/* Replies as captured, each to the Request that its connection began with. */
static void reply__captured__understood(void **state)
{
    struct iwarp_mpa_wish bench = depths(rev2_no_crc, 128, 128), one = depths(p2p, 1, 1);
    struct iwarp_mpa_setup s;

    (void)state;
    receive(&s, INITIATOR, &rev1_no_crc, REP "000100087061737369766500", IWARP_MPA_FRAME);
    assert_private(&s, "7061737369766500");
    receive(&s, INITIATOR, &rev1, REP "400100103999ed0000007fa03f53a00000010000", IWARP_MPA_FRAME);
    assert_private(&s, "3999ed0000007fa03f53a00000010000");
    receive(&s, INITIATOR, &bench, REP "5002000400800080", IWARP_MPA_FRAME);
    assert_true(s.settled.crc);
    assert_depths(&s, 128, 128, 128, 128);
    receive(&s, INITIATOR, &bench, REP "1002000400010001", IWARP_MPA_FRAME);
    assert_false(s.settled.crc);
    assert_depths(&s, 128, 1, 1, 1);
    receive(&s, INITIATOR, &one, REP "5002000480018001", IWARP_MPA_FRAME);
    assert_int_equal(s.settled.rtr, IWARP_RTR_WRITE);
}

/* ---- every single-octet mutation ---- */

/* [MPA2-12-01] RFC 6581 12 */
static void frames__every_single_octet_mutated__never_taken_beyond(void **state)
{
    (void)state;
    setup_mutants_check(RESPONDER, &server, REQ "40010000", 20);
    setup_mutants_check(RESPONDER, &rev1, REQ "c001000474657374", 24);
    setup_mutants_check(RESPONDER, &server, REQ "5002000400100008", 24);
    setup_mutants_check(RESPONDER, &server, REQ "500200068010c0086162", 26);
    setup_mutants_check(RESPONDER, &server, REQ "40020000", 20);
    setup_mutants_check(RESPONDER, &server, REQ "5002020000010001", 532);
    setup_mutants_check(INITIATOR, &rev1, REP "40010000", 20);
    setup_mutants_check(INITIATOR, &rev1, REP "600100020001", 22);
    setup_mutants_check(INITIATOR, &rev2, REP "5002000400080010", 24);
    setup_mutants_check(INITIATOR, &p2p, REP "5002000480084010", 24);
    setup_mutants_check(INITIATOR, &rev2, REP "7002000400080020", 24);
}

/* ---- the text for logs ---- */

static void assert_text(enum iwarp_mpa_role role, const struct iwarp_mpa_wish *wish,
                        const char *hex, const char *want)
{
    struct iwarp_mpa_setup s;
    uint8_t data[600];
    char text[300], little[10] = "untouched";
    size_t used, len = setup_unhex(hex, data);

    iwarp_mpa_setup_init(&s, role, wish);
    iwarp_mpa_setup_feed(&s, data, len, &used);
    assert_int_equal(iwarp_mpa_setup_describe(&s, text, sizeof text), strlen(want));
    assert_string_equal(text, want);
    assert_int_equal(iwarp_mpa_setup_describe(&s, little, 4), strlen(want));
    assert_memory_equal(little, "MPA\0uched", 10);
    assert_int_equal(iwarp_mpa_setup_describe(&s, NULL, 0), strlen(want));
}

static void describe__frames__say_what_is_in_them(void **state)
{
    (void)state;
    assert_text(RESPONDER, &server, "4d504120", "MPA Request, 4 of at least 20 octets");
    assert_text(RESPONDER, &server, REQ "c001000474657374",
                "MPA Request, revision 1, flags 0xc0 markers crc, 4 octets private data");
    assert_text(RESPONDER, &server, REQ "500200068010c0086162",
                "MPA Request, revision 2, flags 0x50 crc enhanced, 6 octets private data, IRD 16, "
                "ORD 8, peer-to-peer with RTR write read");
    assert_text(INITIATOR, &rev2, REP "700200043fff0020",
                "MPA Reply, revision 2, flags 0x70 crc reject enhanced, 4 octets private data, IRD "
                "unspecified, ORD 32, client-server");
    assert_text(RESPONDER, &server, REQ "100200044010c008", /* [MPA2-9.2-14] */
                "MPA Request, revision 2, flags 0x10 enhanced, 4 octets private data, IRD 16, ORD "
                "8, client-server");
    assert_text(INITIATOR, &rev2, REP "5002ffff",
                "MPA Reply, revision 2, flags 0x50 crc enhanced, 65535 octets private data");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request__rev_1__octets_of_m01_and_m03),
        cmocka_unit_test(request__rev_2__octets_of_m05_m07_m09),
        cmocka_unit_test(request__private_data_at_the_limit__fits_and_no_more),
        cmocka_unit_test(reply__rev_1__octets_of_m02_and_m04),
        cmocka_unit_test(reply__rev_2__octets_of_m06_m08_m10),
        cmocka_unit_test(reply__private_data_at_the_limit__fits_and_no_more),
        cmocka_unit_test(reply__wish_given_late__counts_instead),
        cmocka_unit_test(frames__asked_for_out_of_turn__none),
        cmocka_unit_test(request__rev_1__accepted_with_local_depths),
        cmocka_unit_test(request__rev_2__words_taken_off),
        cmocka_unit_test(request__rev_2_without_s__unenhanced_reply_of_rev_2),
        cmocka_unit_test(request__reserved_flags__ignored),
        cmocka_unit_test(reply__accepting__settled),
        cmocka_unit_test(reply__rejecting__told_with_what_it_carries),
        cmocka_unit_test(key__any_octet_wrong__fault_at_that_octet),
        cmocka_unit_test(key__of_the_own_role__both_ends_alike),
        cmocka_unit_test(revision__not_spoken__refused),
        cmocka_unit_test(reply__rev_2_without_s_to_rev_1__accepted),
        cmocka_unit_test(private_data__announced_above_512__refused_at_the_header),
        cmocka_unit_test(enhanced_words__missing__refused),
        cmocka_unit_test(crc__wished_by_either_end__on),
        cmocka_unit_test(markers__four_combinations__each_direction_on_its_own),
        cmocka_unit_test(depths__of_a_responder__mirrored_and_clamped),
        cmocka_unit_test(depths__of_an_initiator__ord_lowered_ird_kept),
        cmocka_unit_test(depths__reply_ord_above_own_ird__insufficient_ird),
        cmocka_unit_test(rtr__chosen_by_a_responder__exactly_one),
        cmocka_unit_test(rtr__chosen_by_an_initiator__common_or_2_0_07),
        cmocka_unit_test(rtr__model_of_reply_differs__refused),
        cmocka_unit_test(rtr__read_without_depth__one_entry_or_another_rtr),
        cmocka_unit_test(request__captured__understood),
        cmocka_unit_test(reply__captured__understood),
        cmocka_unit_test(frames__every_single_octet_mutated__never_taken_beyond),
        cmocka_unit_test(describe__frames__say_what_is_in_them),
    };
    const char *seed = getenv("MPA_SETUP_SEED");

    setup_random_state = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL); /* wall clock */
    printf("MPA_SETUP_SEED=%llu\n", (unsigned long long)setup_random_state);
    return cmocka_run_group_tests_name("mpa_setup", tests, NULL, NULL);
}
