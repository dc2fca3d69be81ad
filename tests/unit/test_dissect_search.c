/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The dissector's search: FPDUs of which nobody knows where they begin, since a start-up frame or
 * a segment is missing; with CRCs, without, with markers, with payload that looks like FPDUs. None
 * is to be found that was not put in.
 */
#include "dissect_way.h"

static void middle_of_a_stream__no_handshake__found_by_the_crc(void **state)
{
    (void)state;
    for (size_t from = 0; from < 200; from += 7) {
        struct pair p;
        struct octets o = {0};
        pair_init(&p);
        put_sends(&o, 10, 97);
        const struct octets seen = {.p = o.p + from, .n = o.n - from};
        segment(&p.a, seen.p, 700);
        segment(&p.a, seen.p + 700, seen.n - 700);
        assert_int_equal(p.a.good, from == 0 ? 10 : from <= 124 ? 9 : 8);
        assert_int_equal(p.a.fpdus, p.a.good);
        octets_free(&o);
        pair_free(&p);
    }
}

static void middle_of_a_stream__markers__their_grid_is_found(void **state)
{
    (void)state;
    for (unsigned origin = 0; origin < 512; origin += 36) {
        struct pair p;
        struct octets o = {0};
        pair_init(&p);
        for (unsigned i = 1; i <= 8; i++) {
            put_send_marked(&o, origin, i, 600);
        }
        in_pieces(&p.a, &o, 1000);
        assert_int_equal(p.a.good, 8);
        assert_int_equal(p.conn.way[0].markers, DISSECT_ON);
        octets_free(&o);
        pair_free(&p);
    }
}

static void middle_of_a_stream__crc_zero__by_the_chain(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    for (unsigned i = 1; i <= 5; i++) {
        put_send(&o, i, 50);
        memset(o.p + o.n - 4, 0, 4);
    }
    segment(&p.a, o.p, o.n);
    assert_int_equal(p.a.fpdus, 5);
    assert_int_equal(p.a.absent, 5);
    pair_free(&p);

    pair_init(&p);
    p.conn.strict = true;
    segment(&p.a, o.p, o.n);
    assert_int_equal(p.a.fpdus, 0);
    octets_free(&o);
    pair_free(&p);
}

/* The rest of a Write is all that the first segment has before. */
static void middle_of_a_stream__crc_zero_behind_a_rest__by_the_chain(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    const uint32_t start = p.a.seq;
    for (unsigned i = 0; i < 301; i++) {
        octets_add(&o, &(uint8_t){(uint8_t)(i * 7 + 1)}, 1);
    }
    for (unsigned i = 1; i <= 3; i++) {
        put_send(&o, i, 50);
        memset(o.p + o.n - 4, 0, 4);
    }
    segment(&p.a, o.p, o.n);
    assert_int_equal(p.a.fpdus, 3);
    assert_int_equal((uint32_t)p.a.from[0], start + 301);
    octets_free(&o);
    pair_free(&p);
}

/* Octets that look like a header, with nothing else for it, are not enough. */
static void middle_of_a_stream__tagged_header_alone__is_not_believed(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    octets_hex(&o,
               "09090909 0012 c140 00000001 0000000000000002 01020304 00000000 77777777 77777777");
    segment(&p.a, o.p, o.n);
    assert_int_equal(p.a.fpdus, 0);
    octets_free(&o);
    pair_free(&p);
}

static void other_protocols__no_handshake__are_left_alone(void **state)
{
    struct chance chance = {.state = 4711};
    struct pair p;
    uint8_t octets[1460];

    (void)state;
    pair_init(&p);
    for (unsigned i = 0; i < 3000; i++) {
        for (size_t k = 0; k < sizeof octets; k++) {
            const char *text = "GET / HTTP/1.1\r\n AAAC";
            octets[k] = i % 2 ? (uint8_t)chance_next(&chance) : (uint8_t)text[k % 21];
        }
        const struct dissect_octets piece = {
            .p = octets, .captured = 1460, .reported = 1460, .seq = i, .may_wait = true};
        struct dissect_item item;
        const bool found = dissect_walk(&p.conn, 0, &piece, 0, &item);
        assert_true(!found || item.kind == DISSECT_ITEM_WAIT);
        assert_false(p.conn.way[0].begun);
    }
    pair_free(&p);
}

static void lost_reply__markers_of_the_initiator__are_found_out(void **state)
{
    struct pair p;
    struct octets o = {0};

    (void)state;
    pair_init(&p);
    octets_hex(&o, REQ "40010000");
    segment(&p.a, o.p, o.n);
    octets_free(&o);
    for (unsigned i = 1; i <= 6; i++) {
        put_send_marked(&o, 0, i, 300);
    }
    in_pieces(&p.a, &o, 777);
    assert_int_equal(p.a.good, 6);
    octets_free(&o);
    pair_free(&p);
}

/* The starts of all FPDUs in o, which begins at p->seq, and those that were found. */
struct truth {
    size_t starts[64];
    unsigned n;
};

static unsigned count_wrong(const struct direction *d, const struct truth *t, uint32_t first)
{
    unsigned wrong = 0;

    for (unsigned i = 0; i < d->fpdus && i < 64; i++) {
        bool known = false;
        for (unsigned k = 0; k < t->n; k++) {
            known = known || (uint32_t)d->from[i] == first + (uint32_t)t->starts[k];
        }
        wrong += !known;
    }
    return wrong;
}

static void spoil_crc(struct octets *o, struct chance *c)
{
    for (unsigned i = 1; i <= 4; i++) {
        o->p[o->n - i] = (uint8_t)chance_next(c);
    }
}

/* The Reply says that there are markers, nobody where; CRC fields hold anything. */
static void lost_request__markers_and_no_crcs__one_pointer_is_enough(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct chance chance = {.state = seed};
        struct truth t = {.n = 0};
        struct octets o = {0};
        struct pair p;
        pair_init(&p);
        octets_hex(&o, REP "80010000");
        segment(&p.b, o.p, o.n);
        octets_free(&o);
        for (t.n = 0; t.n < 40; t.n++) {
            t.starts[t.n] = o.n;
            put_send_marked(&o, 0, t.n + 1, chance_below(&chance, 1400));
            spoil_crc(&o, &chance);
        }
        const uint32_t first = p.a.seq;
        in_pieces(&p.a, &o, 1448);
        assert_in_range(p.a.fpdus, 38, 40); /* the first may have no marker inside */
        assert_int_equal(count_wrong(&p.a, &t, first), 0);
        octets_free(&o);
        pair_free(&p);
    }
}

/* Four zeroes in front of an FPDU are a marker or the CRC of the one before. */
static void middle_of_a_stream__zeroes_in_front__are_no_marker_by_themselves(void **state)
{
    (void)state;
    for (size_t from = 4; from < 80; from += 4) {
        struct truth t = {.n = 0};
        struct octets o = {0};
        struct pair p;
        pair_init(&p);
        for (t.n = 0; t.n < 12; t.n++) {
            t.starts[t.n] = o.n;
            put_send(&o, t.n + 1, 52);
            memset(o.p + o.n - 4, 0, 4);
        }
        const uint32_t first = p.a.seq - (uint32_t)from;
        segment(&p.a, o.p + from, o.n - from);
        assert_in_range(p.a.fpdus, 10, 11);
        assert_int_equal(count_wrong(&p.a, &t, first), 0);
        octets_free(&o);
        pair_free(&p);
    }
}

/* A file with FPDUs in it, their CRCs right: that of the FPDU that carries it decides. */
static void payload__of_right_fpdus__is_not_taken_for_a_wrong_length(void **state)
{
    struct octets inside = {0}, ulpdu = {0}, o = {0};
    struct pair p;

    (void)state;
    pair_init(&p);
    handshake(&p.a, &p.b, REQ "40010000", REP "40010000");
    put_sends(&inside, 40, 60);
    put_send(&o, 1, 8);
    for (unsigned i = 0; i < 3; i++) {
        octets_free(&ulpdu);
        octets_hex(&ulpdu, "c140 00000001 0000000000000000");
        octets_add(&ulpdu, inside.p, inside.n);
        fpdu_add(&o, ulpdu.p, ulpdu.n, 0);
    }
    put_send(&o, 2, 8);
    in_pieces(&p.a, &o, 1448);
    assert_int_equal(p.a.fpdus, 5);
    assert_int_equal(p.a.good, 5);
    assert_int_equal(p.a.bad_length, 0);
    octets_free(&inside);
    octets_free(&ulpdu);
    octets_free(&o);
    pair_free(&p);
}

/* A capture file on its way: right FPDUs, each behind the headers of its packet. */
static void other_protocols__fpdus_between_headers__are_left_alone(void **state)
{
    struct chance chance = {.state = 7};
    struct octets o = {0};
    struct pair p;

    (void)state;
    pair_init(&p);
    for (unsigned i = 1; i <= 40; i++) {
        for (unsigned k = 0; k < 70; k++) {
            octets_add(&o, &(uint8_t){(uint8_t)chance_next(&chance)}, 1);
        }
        put_send(&o, i, 90 + i);
    }
    in_pieces(&p.a, &o, 1448);
    assert_int_equal(p.a.fpdus, 0);
    octets_free(&o);
    pair_free(&p);
}

/* Where CRCs are right, payload with headers of FPDUs, zeroes for CRCs, is payload. */
static void loss__payload_of_headers_behind_it__no_fpdu(void **state)
{
    for (unsigned other_way = 0; other_way < 2; other_way++) {
        struct octets o = {0}, inside = {0};
        struct pair p;
        (void)state;
        pair_init(&p);
        put_sends(&o, 3, 40);
        segment(other_way ? &p.b : &p.a, o.p, o.n);
        assert_int_equal(p.a.good + p.b.good, 3);
        for (unsigned i = 1; i <= 30; i++) {
            put_send(&inside, i, 52);
            memset(inside.p + inside.n - 4, 0, 4);
        }
        lose(&p.a, 400);
        segment(&p.a, inside.p, inside.n);
        octets_free(&o);
        put_sends(&o, 5, 40);
        segment(&p.a, o.p, o.n);
        assert_int_equal(p.a.good, other_way ? 5 : 8);
        assert_int_equal(p.a.fpdus, p.a.good);
        octets_free(&o);
        octets_free(&inside);
        pair_free(&p);
    }
}

/* Early drafts: DDP and RDMAP of version 0, no start-up frame to say so. */
static void middle_of_a_stream__version_0__by_the_crc(void **state)
{
    (void)state;
    for (unsigned origin = 0; origin < 512; origin += 124) {
        struct octets o = {0};
        struct pair p;
        char header[64];
        pair_init(&p);
        for (unsigned i = 1; i <= 8; i++) {
            snprintf(header, sizeof header, "4003 00000000 00000000 %08x 00000000", i);
            fpdu_hex_marked(&o, origin + o.n, header, 100 * i);
            snprintf(header, sizeof header, "c000 00000001 %016x", i);
            fpdu_hex_marked(&o, origin + o.n, header, 90 * i);
        }
        in_pieces(&p.a, &o, 1000);
        assert_in_range(p.a.good, 15, 16);
        assert_int_equal(p.a.fpdus, p.a.good);
        assert_true(p.conn.way[0].revision_0);
        octets_free(&o);
        pair_free(&p);
    }
}

/* One of that version that goes on beyond the segment: nothing speaks for it. */
static void loss__version_0_behind_it__is_not_waited_for(void **state)
{
    struct octets o = {0};
    struct pair p;

    (void)state;
    pair_init(&p);
    put_sends(&o, 3, 700);
    segment(&p.a, o.p, o.n);
    assert_int_equal(p.a.good, 3);
    assert_int_equal(p.conn.way[0].markers, DISSECT_OFF); /* one would have been inside */
    octets_free(&o);
    lose(&p.a, 400);
    octets_hex(&o, "0400 4003 00000000 00000000 00000001 00000000");
    octets_fill(&o, 9, 100);
    segment(&p.a, o.p, o.n);
    assert_int_equal(p.a.skipped, o.n);
    octets_free(&o);
    pair_free(&p);
}

/* With revision 0 of MPA that version is nothing new, so it needs no CRC. */
static void loss__revision_0__version_0_is_found(void **state)
{
    struct octets o = {0};
    struct pair p;
    char header[64];

    (void)state;
    pair_init(&p);
    handshake(&p.a, &p.b, REQ "00000000", REP "00000000");
    lose(&p.a, 400);
    for (unsigned i = 1; i <= 5; i++) {
        snprintf(header, sizeof header, "4003 00000000 00000000 %08x 00000000", i);
        fpdu_hex(&o, header, 50);
        memset(o.p + o.n - 4, 0, 4);
    }
    segment(&p.a, o.p, o.n);
    assert_int_equal(p.a.fpdus, 5);
    octets_free(&o);
    pair_free(&p);
}

/* Headers one behind the other, as they should be, and CRC fields that hold anything. */
static void other_protocols__headers_without_crcs_within__are_left_alone(void **state)
{
    struct octets o = {0};
    struct pair p;

    (void)state;
    pair_init(&p);
    octets_fill(&o, 9, 70);
    for (unsigned i = 1; i <= 6; i++) {
        put_send(&o, i, 50);
        memset(o.p + o.n - 4, (int)i, 4);
    }
    segment(&p.a, o.p, o.n);
    assert_int_equal(p.a.fpdus, 0);
    octets_free(&o);
    pair_free(&p);
}

/* The same without a right CRC: little numbers look like that. */
static void other_protocols__little_numbers__are_no_version_0(void **state)
{
    struct octets o = {0};
    struct pair p;

    (void)state;
    pair_init(&p);
    for (unsigned i = 0; i < 40; i++) {
        octets_hex(
            &o, "001e 4003 00000000 00000000 00000001 00000000 000102030405060708090a0b 00000000");
        o.p[o.n - 34] = 0;
    }
    in_pieces(&p.a, &o, 1000);
    assert_int_equal(p.a.fpdus, 0);
    octets_free(&o);
    pair_free(&p);
}

static void first_octets__one_to_three_of_a_request__are_waited_for(void **state)
{
    (void)state;
    for (size_t cut = 1; cut < 4; cut++) {
        struct octets o = {0};
        struct pair p;
        struct dissect_item item;
        pair_init(&p);
        octets_hex(&o, REQ "40010000");
        struct dissect_octets piece = {
            .p = o.p, .captured = cut, .reported = cut, .seq = 1, .may_wait = true};
        assert_false(dissect_walk(&p.conn, 0, &piece, 0, &item));
        piece.opening = true;
        assert_true(dissect_walk(&p.conn, 0, &piece, 0, &item));
        assert_int_equal(item.kind, DISSECT_ITEM_WAIT);
        octets_free(&o);
        pair_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(middle_of_a_stream__no_handshake__found_by_the_crc),
        cmocka_unit_test(middle_of_a_stream__markers__their_grid_is_found),
        cmocka_unit_test(middle_of_a_stream__crc_zero__by_the_chain),
        cmocka_unit_test(middle_of_a_stream__crc_zero_behind_a_rest__by_the_chain),
        cmocka_unit_test(middle_of_a_stream__tagged_header_alone__is_not_believed),
        cmocka_unit_test(other_protocols__no_handshake__are_left_alone),
        cmocka_unit_test(lost_reply__markers_of_the_initiator__are_found_out),
        cmocka_unit_test(lost_request__markers_and_no_crcs__one_pointer_is_enough),
        cmocka_unit_test(middle_of_a_stream__zeroes_in_front__are_no_marker_by_themselves),
        cmocka_unit_test(payload__of_right_fpdus__is_not_taken_for_a_wrong_length),
        cmocka_unit_test(other_protocols__fpdus_between_headers__are_left_alone),
        cmocka_unit_test(loss__payload_of_headers_behind_it__no_fpdu),
        cmocka_unit_test(middle_of_a_stream__version_0__by_the_crc),
        cmocka_unit_test(loss__version_0_behind_it__is_not_waited_for),
        cmocka_unit_test(loss__revision_0__version_0_is_found),
        cmocka_unit_test(other_protocols__headers_without_crcs_within__are_left_alone),
        cmocka_unit_test(other_protocols__little_numbers__are_no_version_0),
        cmocka_unit_test(first_octets__one_to_three_of_a_request__are_waited_for),
    };
    return cmocka_run_group_tests_name("dissect_search", tests, NULL, NULL);
}
