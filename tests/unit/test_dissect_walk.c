/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The dissector's walk: a connection's octets in any pieces, from the start or not, with losses,
 * repetitions, damage, snap lengths, markers of one or both directions; and recorded traffic.
 * What is expected are the FPDUs that were put in, at their places.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "capture.h"
#include "dissect_way.h"

static void stream__every_size_of_pieces__every_fpdu(void **state)
{
    struct octets o = {0};

    (void)state;
    octets_hex(&o, REQ "40010004 74657374");
    put_sends(&o, 12, 90);
    for (size_t size = 4; size < 300; size++) {
        struct pair p;
        pair_init(&p);
        in_pieces(&p.a, &o, size);
        assert_int_equal(p.a.setups, 1);
        assert_int_equal(p.a.fpdus, 12);
        assert_int_equal(p.a.good, 12);
        assert_int_equal(p.a.skipped, 0);
        assert_int_equal(p.a.resynced, 0);
        pair_free(&p);
    }
    octets_free(&o);
}

static void reply__one_octet_at_a_time__is_waited_for(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    octets_hex(&o, REQ "40010000");
    segment(&p.a, o.p, o.n);
    octets_free(&o);
    octets_hex(&o, REP "40010000");
    put_sends(&o, 2, 5);
    in_pieces(&p.b, &o, 1);
    assert_int_equal(p.b.setups, 1);
    assert_int_equal(p.b.good, 2);
    octets_free(&o);
    pair_free(&p);
}

static void crc_off__any_field__absent_and_all_found(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    handshake(&p.a, &p.b, REQ "00010000", REP "00010000");
    for (unsigned i = 1; i <= 5; i++) {
        put_send(&o, i, 50);
        memset(o.p + o.n - 4, (int)i, 4);
    }
    in_pieces(&p.a, &o, 100);
    assert_int_equal(p.a.fpdus, 5);
    assert_int_equal(p.a.absent, 5);
    assert_int_equal(p.a.skipped, 0);
    octets_free(&o);
    pair_free(&p);
}

static void markers__one_direction__the_other_is_plain(void **state)
{
    (void)state;
    for (size_t size = 60; size < 1500; size += 52) {
        struct pair p;
        struct octets o = {0};
        pair_init(&p);
        /* The initiator wants markers: the responder sends them. */
        handshake(&p.a, &p.b, REQ "c0010000", REP "40010000");
        for (unsigned i = 1; i <= 9; i++) {
            put_send_marked(&o, 0, i, 150 * i);
        }
        in_pieces(&p.b, &o, size);
        assert_int_equal(p.b.good, 9);
        assert_int_equal(p.b.skipped, 0);
        octets_free(&o);
        put_sends(&o, 9, 700);
        in_pieces(&p.a, &o, size);
        assert_int_equal(p.a.good, 9);
        assert_int_equal(p.a.skipped, 0);
        octets_free(&o);
        pair_free(&p);
    }
}

/* No CRC says where they are: they are counted from the start-up frame. */
static void markers__without_crcs__are_where_they_should_be(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    handshake(&p.a, &p.b, REQ "80010000", REP "00010000");
    for (unsigned i = 1; i <= 9; i++) {
        put_send_marked(&o, 0, i, 150 * i);
        memset(o.p + o.n - 4, (int)i, 4);
    }
    in_pieces(&p.b, &o, 700);
    assert_int_equal(p.b.fpdus, 9);
    assert_int_equal(p.b.absent, 9);
    assert_int_equal(p.b.skipped, 0);
    assert_int_equal(p.b.resynced, 0);
    assert_int_equal(p.conn.way[1].markers, DISSECT_ON);
    octets_free(&o);
    pair_free(&p);
}

/* An FPDU with its first marker at `first`, others at `distance`; the CRC is over them, too. */
static void put_odd(struct octets *o, unsigned msn, size_t payload, size_t first, size_t distance,
                    bool little)
{
    struct octets plain = {0}, odd = {0};

    put_send(&plain, msn, payload);
    for (size_t at = 0; at <= plain.n - 4; at++) {
        if (odd.n >= first && (odd.n - first) % distance == 0) {
            const size_t pointer = first == 0 && odd.n > 0 ? odd.n - 4 : odd.n;
            const uint8_t high = (uint8_t)(pointer >> 8), low = (uint8_t)pointer;
            octets_add(&odd, (const uint8_t[]){0, 0, little ? low : high, little ? high : low}, 4);
        }
        octets_add(&odd, plain.p + at, at < plain.n - 4);
    }
    const uint32_t crc = octets_crc(0, odd.p, odd.n);
    for (unsigned i = 0; i < 4; i++) {
        octets_add(&odd, &(uint8_t){(uint8_t)(crc >> 8 * i)}, 1);
    }
    octets_add(o, odd.p, odd.n);
    octets_free(&plain);
    octets_free(&odd);
}

/* Senders that count 512 octets between markers, or turn the pointer round, from where they like.
 */
static void markers__not_where_they_should_be__are_found_by_the_crc(void **state)
{
    (void)state;
    for (size_t first = 0; first < 500; first += 36) {
        for (unsigned kind = 0; kind < 4; kind++) {
            struct pair p;
            struct octets o = {0};
            pair_init(&p);
            handshake(&p.a, &p.b, REQ "40010000", REP "c0010000");
            for (unsigned i = 1; i <= 6; i++) {
                put_odd(&o, i, 900 + 4 * i, first, kind & 1 ? 516 : 512, kind & 2);
            }
            in_pieces(&p.a, &o, o.n);
            assert_int_equal(p.a.good, 6);
            assert_int_equal(p.a.last.first_marker, first);
            assert_true(p.a.last.markers == 1 || p.a.last.distance == (kind & 1 ? 516 : 512));
            assert_int_equal(p.a.skipped, 0);
            octets_free(&o);
            pair_free(&p);
        }
    }
}

/* Of what an FPDU lacks nothing is said if there may be markers in the rest of it. */
static void missing_octets__markers_off_or_not_known__are_told_or_not(void **state)
{
    (void)state;
    for (unsigned known = 0; known < 2; known++) {
        struct pair p;
        struct octets o = {0};
        struct dissect_item item;
        pair_init(&p);
        if (known) {
            handshake(&p.a, &p.b, REQ "40010000", REP "40010000");
        }
        put_send(&o, 1, 800);
        const struct dissect_octets piece = {
            .p = o.p, .captured = 100, .reported = 100, .seq = p.a.seq, .may_wait = true};
        assert_true(dissect_walk(p.a.conn, p.a.side, &piece, 0, &item));
        assert_int_equal(item.kind, DISSECT_ITEM_WAIT);
        assert_int_equal(item.missing, known ? 824 - 100 : 0);
        octets_free(&o);
        pair_free(&p);
    }
}

static void loss__in_the_middle__only_what_was_lost_is_missing(void **state)
{
    (void)state;
    for (size_t lost = 4; lost < 400; lost += 12) {
        struct pair p;
        struct octets o = {0};
        pair_init(&p);
        handshake(&p.a, &p.b, REQ "40010000", REP "40010000");
        put_sends(&o, 3, 97); /* each 124 or 128 octets */
        const size_t begin = o.n;
        put_sends(&o, 20, 97);
        segment(&p.a, o.p, begin - 40);
        lose(&p.a, lost);
        const struct octets rest = {.p = o.p + begin - 40 + lost, .n = o.n - (begin - 40 + lost)};
        in_pieces(&p.a, &rest, 333);
        /* One that began before the gap, and those in it. */
        assert_in_range(p.a.good, 22 - (lost + 127) / 124 - 1, 22);
        assert_int_equal(p.a.good, p.a.fpdus);
        assert_true(p.a.skipped < 132);
        octets_free(&o);
        pair_free(&p);
    }
}

/* siw makes FPDUs longer than RFC 5044 3.2 lets them be; here their CRC is off. */
/* Behind what is no FPDU one begins: the rest of it is waited for. */
static void loss__fpdu_that_begins_behind_a_rest__is_waited_for(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    handshake(&p.a, &p.b, REQ "40010000", REP "40010000");
    put_sends(&o, 2, 40);
    segment(&p.a, o.p, o.n);
    octets_free(&o);
    lose(&p.a, 400);
    octets_fill(&o, 9, 40);
    put_send(&o, 3, 600);
    segment(&p.a, o.p, 240);
    assert_int_equal(p.a.skipped, 40);
    segment(&p.a, o.p + 240, o.n - 240);
    assert_int_equal(p.a.good, 3);
    assert_int_equal(p.a.skipped, 40);
    octets_free(&o);
    pair_free(&p);
}

static void loss__longest_fpdus_cut_anywhere__only_what_was_lost_is_missing(void **state)
{
    struct pair p;
    struct octets o = {0};
    char header[64];

    (void)state;
    pair_init(&p);
    handshake(&p.a, &p.b, REQ "00010000", REP "00010000");
    for (unsigned i = 0; i < 3; i++) {
        snprintf(header, sizeof header, "8142 12345678 %016x", i * 65460);
        fpdu_hex(&o, header, 65460);
        memset(o.p + o.n - 4, 0, 4);
    }
    assert_int_equal(o.n, 3 * 65480);
    segment(&p.a, o.p, 65476);
    lose(&p.a, 4);
    segment(&p.a, o.p + 65480, 65476);
    segment(&p.a, o.p + 2 * 65480 - 4, 4);
    segment(&p.a, o.p + 2 * 65480, 65480);
    assert_int_equal(p.a.fpdus, 2);
    assert_int_equal(p.a.absent, 2);
    assert_int_equal(p.a.skipped, 0);
    octets_free(&o);
    pair_free(&p);
}

static void damage__each_octet_of_an_fpdu__the_others_are_found(void **state)
{
    struct octets o = {0};

    (void)state;
    put_send(&o, 1, 60);
    put_send(&o, 2, 60);
    const size_t one = o.n / 2;
    put_sends(&o, 4, 60);
    for (size_t at = 0; at < one; at++) {
        struct pair p;
        pair_init(&p);
        handshake(&p.a, &p.b, REQ "40010000", REP "40010000");
        o.p[one + at] ^= 0x41;
        segment(&p.a, o.p, o.n);
        o.p[one + at] ^= 0x41;
        assert_int_equal(p.a.good, 5);
        assert_true(p.a.bad + p.a.bad_length == 1 || p.a.skipped == one);
        pair_free(&p);
    }
    octets_free(&o);
}

static void reserved_opcode__right_crc__is_an_fpdu_all_the_same(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    handshake(&p.a, &p.b, REQ "40010000", REP "40010000");
    fpdu_hex(&o, "414d 00000000 00000000 00000001 00000000", 12);
    fpdu_hex(&o, "c2c0 00000001 0000000000000000", 12);
    put_send(&o, 1, 9);
    segment(&p.a, o.p, o.n);
    assert_int_equal(p.a.good, 3);
    octets_free(&o);
    pair_free(&p);
}

static void snap_length__headers_only__each_fpdu_unverified(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    handshake(&p.a, &p.b, REQ "40010000", REP "40010000");
    for (unsigned i = 1; i <= 5; i++) {
        octets_free(&o);
        put_send(&o, i, 1000);
        offer(&p.a, &o, 40);
    }
    assert_int_equal(p.a.fpdus, 5);
    assert_int_equal(p.a.cut, 5);
    assert_int_equal(p.a.unverified, 5);
    octets_free(&o);
    pair_free(&p);
}

static void snap_length__two_fpdus_in_a_segment__the_next_segment_is_found(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    handshake(&p.a, &p.b, REQ "40010000", REP "40010000");
    for (unsigned i = 0; i < 4; i++) {
        octets_free(&o);
        put_send(&o, 2 * i + 1, 200);
        put_send(&o, 2 * i + 2, 200);
        offer(&p.a, &o, 60);
    }
    assert_int_equal(p.a.fpdus, 4);
    assert_int_equal(p.a.resynced, 3);
    octets_free(&o);
    pair_free(&p);
}

static void no_reassembly__fpdu_over_segments__shown_where_it_begins(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    handshake(&p.a, &p.b, REQ "40010000", REP "40010000");
    p.a.no_waiting = true;
    put_send(&o, 1, 3000);
    put_send(&o, 2, 20);
    in_pieces(&p.a, &o, 1000);
    assert_int_equal(p.a.fpdus, 2);
    assert_int_equal(p.a.cut, 1);
    assert_int_equal(p.a.skipped, 0);
    assert_true(p.a.rest > 1900);
    octets_free(&o);
    pair_free(&p);
}

static void no_reassembly__what_came_before_once_more__is_no_rest(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    handshake(&p.a, &p.b, REQ "40010000", REP "40010000");
    p.a.no_waiting = true;
    p.a.seq = 1000;
    put_send(&o, 1, 20);
    const size_t one = o.n;
    put_send(&o, 2, 3000);
    const uint32_t begin = p.a.seq;
    segment(&p.a, o.p, one);
    segment(&p.a, o.p + one, 1000);
    assert_int_equal(p.a.fpdus, 2);
    p.a.seq = begin;
    segment(&p.a, o.p, one);
    assert_int_equal(p.a.fpdus, 3);
    assert_int_equal(p.a.rest, 0);
    octets_free(&o);
    pair_free(&p);
}

static void reordered__segment_behind_its_follower__both_known(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    handshake(&p.a, &p.b, REQ "40010000", REP "40010000");
    put_send(&o, 1, 61);
    const size_t one = o.n;
    put_send(&o, 2, 61);
    put_send(&o, 3, 61);
    put_send(&o, 4, 61);
    const uint32_t begin = p.a.seq;
    segment(&p.a, o.p, one);
    p.a.seq = begin + (uint32_t)(2 * one);
    segment(&p.a, o.p + 2 * one, one);
    assert_int_equal(p.a.resynced, 1);
    p.a.seq = begin + (uint32_t)one;
    segment(&p.a, o.p + one, one);
    assert_int_equal(p.a.good, 3);
    assert_int_equal(p.a.late, 1);
    p.a.seq = begin + (uint32_t)(3 * one);
    segment(&p.a, o.p + 3 * one, one);
    assert_int_equal(p.a.good, 4);
    assert_int_equal(p.a.resynced, 1); /* its place was known */
    /* And once more the first. */
    p.a.seq = begin;
    segment(&p.a, o.p, one);
    assert_int_equal(p.a.good, 5);
    assert_int_equal(p.a.late, 2);
    octets_free(&o);
    pair_free(&p);
}

static void reordered__middle_of_an_fpdu_first__the_whole_is_not_late(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    handshake(&p.a, &p.b, REQ "40010000", REP "40010000");
    put_send(&o, 1, 61);
    const size_t one = o.n;
    put_send(&o, 2, 600);
    const size_t two = o.n;
    const uint32_t begin = p.a.seq;
    segment(&p.a, o.p, one);
    p.a.seq = begin + (uint32_t)one + 300;
    segment(&p.a, o.p + one + 300, two - one - 300);
    assert_int_equal(p.a.good, 1);
    p.a.seq = begin + (uint32_t)one;
    segment(&p.a, o.p + one, two - one);
    assert_int_equal(p.a.good, 2);
    assert_int_equal(p.a.late, 0);
    octets_free(&o);
    pair_free(&p);
}

static void rejected__second_request__starts_anew_with_its_own_markers(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    handshake(&p.a, &p.b, REQ "40010000", REP "60010000");
    octets_hex(&o, REQ "c0010000");
    segment(&p.a, o.p, o.n);
    octets_free(&o);
    octets_hex(&o, REP "c0010000");
    segment(&p.b, o.p, o.n);
    octets_free(&o);
    assert_int_equal(p.a.setups, 2);
    put_send_marked(&o, 0, 1, 900);
    segment(&p.a, o.p, o.n);
    assert_int_equal(p.a.good, 1);
    octets_free(&o);
    pair_free(&p);
}

/* What the first Reply said is no longer true, and the second one is to come. */
static void rejected__second_request_without_crcs__starts_anew(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    handshake(&p.a, &p.b, REQ "40010000", REP "e0010000");
    assert_int_equal(p.conn.way[0].crc, DISSECT_ON);
    assert_int_equal(p.conn.way[0].markers, DISSECT_ON);
    octets_hex(&o, REQ "00010000");
    segment(&p.a, o.p, o.n);
    octets_free(&o);
    assert_int_equal(p.conn.way[0].markers, DISSECT_UNKNOWN);
    assert_int_equal(p.conn.way[0].crc, DISSECT_UNKNOWN);
    assert_int_equal(p.conn.way[1].crc, DISSECT_UNKNOWN);
    octets_hex(&o, REP "00010000");
    segment(&p.b, o.p, o.n);
    octets_free(&o);
    put_send(&o, 1, 50);
    memset(o.p + o.n - 4, 7, 4);
    segment(&p.a, o.p, o.n);
    assert_int_equal(p.a.absent, 1);
    octets_free(&o);
    pair_free(&p);
}

static void private_data__longer_than_allowed__what_follows_is_found(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    octets_hex(&o, REQ "40010800"); /* 2048, and only 8 octets come */
    octets_fill(&o, 1, 8);
    segment(&p.a, o.p, o.n);
    octets_free(&o);
    put_sends(&o, 3, 40);
    segment(&p.a, o.p, o.n);
    assert_int_equal(p.a.setups, 1);
    assert_int_equal(p.a.good, 3);
    octets_free(&o);
    pair_free(&p);
}

/* FPDUs and right CRCs by tests/captures/README.md. */
static void recorded__siw__as_many_as_an_independent_parser_found(void **state)
{
    static const struct {
        const char *name;
        unsigned fpdus, good;
    } rows[] = {
        {"rping-v2-nocrc", 28, 0},        {"rping-v2-crc", 28, 28},
        {"rping-v2-crc-20000", 105, 105}, {"rping-v2-p2p-crc", 29, 29},
        {"rping-v1-nocrc-noread", 1, 0},  {"write-crc-65536", 262, 262},
        {"write-v2-nocrc", 62, 0},        {"read-crc-65536", 267, 267},
        {"send-crc-65536", 259, 259},     {"send-v1-nocrc", 39, 0},
        {"read-crc-4096", 52, 52},        {"send-v1-crc", 3, 3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[80];
        struct capture c;
        unsigned fpdus = 0, good = 0;
        snprintf(path, sizeof path, "tests/captures/%s.pcap", rows[i].name);
        capture_load(&c, path);
        for (unsigned k = 0; k < c.connections; k++) {
            struct pair p;
            pair_init(&p);
            in_pieces(&p.a, &c.connection[k].direction[0].octets, 1448);
            in_pieces(&p.b, &c.connection[k].direction[1].octets, 1001);
            fpdus += p.a.fpdus + p.b.fpdus;
            good += p.a.good + p.b.good;
            assert_int_equal(p.a.skipped + p.b.skipped, 0);
            pair_free(&p);
        }
        assert_int_equal(fpdus, rows[i].fpdus);
        assert_int_equal(good, rows[i].good);
        capture_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream__every_size_of_pieces__every_fpdu),
        cmocka_unit_test(reply__one_octet_at_a_time__is_waited_for),
        cmocka_unit_test(crc_off__any_field__absent_and_all_found),
        cmocka_unit_test(markers__one_direction__the_other_is_plain),
        cmocka_unit_test(markers__without_crcs__are_where_they_should_be),
        cmocka_unit_test(markers__not_where_they_should_be__are_found_by_the_crc),
        cmocka_unit_test(missing_octets__markers_off_or_not_known__are_told_or_not),
        cmocka_unit_test(loss__in_the_middle__only_what_was_lost_is_missing),
        cmocka_unit_test(loss__fpdu_that_begins_behind_a_rest__is_waited_for),
        cmocka_unit_test(loss__longest_fpdus_cut_anywhere__only_what_was_lost_is_missing),
        cmocka_unit_test(damage__each_octet_of_an_fpdu__the_others_are_found),
        cmocka_unit_test(reserved_opcode__right_crc__is_an_fpdu_all_the_same),
        cmocka_unit_test(snap_length__headers_only__each_fpdu_unverified),
        cmocka_unit_test(snap_length__two_fpdus_in_a_segment__the_next_segment_is_found),
        cmocka_unit_test(no_reassembly__fpdu_over_segments__shown_where_it_begins),
        cmocka_unit_test(no_reassembly__what_came_before_once_more__is_no_rest),
        cmocka_unit_test(reordered__segment_behind_its_follower__both_known),
        cmocka_unit_test(reordered__middle_of_an_fpdu_first__the_whole_is_not_late),
        cmocka_unit_test(rejected__second_request__starts_anew_with_its_own_markers),
        cmocka_unit_test(rejected__second_request_without_crcs__starts_anew),
        cmocka_unit_test(private_data__longer_than_allowed__what_follows_is_found),
        cmocka_unit_test(recorded__siw__as_many_as_an_independent_parser_found),
    };
    return cmocka_run_group_tests_name("dissect_walk", tests, NULL, NULL);
}
