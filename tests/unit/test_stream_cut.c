/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A conversation that the peer ends after each of its octets in turn: what is whole counts, what is
 * not is told. RFC 5041 6.2, RFC 5044 8.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "deliveries.h"

#define FILL 0xee

/* A short conversation of one end: a Send, a Write, a Send of two segments, a Read Request. */
static void speak(struct octets *o, size_t *borders)
{
    fpdu_hex(o, "4143 00000000 00000000 00000001 00000000", 5);
    borders[0] = o->n;
    fpdu_hex(o, "c140 00010203 0000000000001000", 600);
    borders[1] = o->n;
    fpdu_hex(o, "0145 00000000 00000000 00000002 00000000", 1);
    borders[2] = o->n;
    fpdu_hex(o, "4145 00000000 00000000 00000002 00000001", 530);
    borders[3] = o->n;
    fpdu_hex(o,
             "4141 00000000 00000001 00000001 00000000 11223344 0000000000002000 00000008"
             "00020304 0000000000001000",
             0);
    borders[4] = o->n;
}

static void cut_at(const struct octets *o, const size_t *borders, size_t k,
                   enum placement placement, bool singly)
{
    struct chance c = {k};
    struct endpoint e;
    unsigned whole = 0;

    endpoint_init(&e, &(struct endpoint_options){.ird = 1,
                                                 .no_crc = placement == PLACE_NO_CRC,
                                                 .early = placement == PLACE_EARLY});
    struct area *target = endpoint_area(&e, 0x00010203, 0x1000, 600, WRITABLE, FILL);
    endpoint_area(&e, 0x00020304, 0x1000, 8, READABLE, 1);
    endpoint_recv_area(&e, endpoint_area(&e, 0x00030405, 0, 600, LOCAL, FILL));
    endpoint_recv_area(&e, endpoint_area(&e, 0x00040506, 0, 600, LOCAL, FILL));
    deliver(&e, singly ? DELIVER_SINGLY : DELIVER_MIXED, o->p, k, &c);
    while (whole < 5 && borders[whole] <= k) {
        whole++;
    }
    size_t partial = k - (whole ? borders[whole - 1] : 0);
    assert_int_equal(e.s.rx.fpdus, whole);
    assert_int_equal(e.rq.done, (whole > 0) + (whole > 3));
    iwarp_stream_eof(&e.s, 0);
    if (partial == 0 && whole != 3 && whole < 5) {
        assert_int_equal(e.s.fault.code, IWARP_FAULT_NONE);
        assert_int_equal(e.s.life, STREAM_ENDED);
        assert_false(e.s.abort);
    } else { /* half an FPDU, half a message, or a Read that cannot be answered */
        assert_string_equal(iwarp_fault_name(e.s.fault.code), "RDMAP_PEER_CLOSED");
        assert_int_equal(e.s.fault.detail[1], whole == 5);
        assert_int_equal(e.s.fault.detail[2], partial);
        endpoint_drain(&e);
        endpoint_expect_terminate(&e, "02070000");
        assert_int_equal(e.s.life, STREAM_ENDED);
        assert_false(e.s.abort);
    }
    for (size_t i = 0; i < 600 && whole < 2 && placement == PLACE_VERIFIED; i++) {
        assert_int_equal(target->p[i], FILL);
    }
    endpoint_fini(&e);
}

static void eof__at_each_octet__tells_what_is_unfinished(void **state)
{
    struct octets o = {0};
    size_t borders[5];

    (void)state;
    speak(&o, borders);
    for (size_t k = 0; k <= o.n; k++) {
        for (unsigned placement = 0; placement < PLACEMENTS; placement++) {
            cut_at(&o, borders, k, (enum placement)placement, k % 2);
        }
    }
    octets_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eof__at_each_octet__tells_what_is_unfinished),
    };

    return cmocka_run_group_tests_name("stream_cut", tests, NULL, NULL);
}
