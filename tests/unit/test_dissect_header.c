/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The dissector's decoding of DDP and RDMAP headers and of CRC32c, from literal octets.
 * RFC 5041 4, RFC 5040 4, RFC 7306 5 and 6, RFC 3720 B.4.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "dissector/crc.h"
#include "dissector/header.h"
#include "support/octets.h"

static struct dissect_header decode(const char *hex, size_t payload, bool revision_0)
{
    struct octets o = {0};
    struct dissect_header h;

    octets_hex(&o, hex);
    octets_fill(&o, 0x5a, payload);
    assert_true(dissect_header_decode(&h, o.p, o.n, (uint16_t)o.n, revision_0));
    octets_free(&o);
    return h;
}

static void crc32c__known_inputs__gives_published_values(void **state)
{
    uint8_t octets[64] = {0};

    (void)state;
    assert_int_equal(dissect_crc32c(0, (const uint8_t *)"123456789", 9), 0xe3069283);
    assert_int_equal(dissect_crc32c(0, octets, 32), 0x8a9136aa);
    memset(octets, 0xff, 32);
    assert_int_equal(dissect_crc32c(0, octets, 32), 0x62a8ab43);
    for (uint8_t i = 0; i < 32; i++) {
        octets[i] = i;
    }
    assert_int_equal(dissect_crc32c(0, octets, 32), 0x46dd794e);
}

static void crc32c__any_pieces_and_alignment__equals_bit_by_bit(void **state)
{
    uint8_t octets[100];

    (void)state;
    for (size_t i = 0; i < sizeof octets; i++) {
        octets[i] = (uint8_t)(i * 37 + 11);
    }
    for (size_t from = 0; from < 9; from++) {
        for (size_t n = 0; from + n <= sizeof octets; n++) {
            const uint32_t whole = octets_crc(0, octets + from, n);
            assert_int_equal(dissect_crc32c(0, octets + from, n), whole);
            assert_int_equal(dissect_crc32c(dissect_crc32c(0, octets + from, n / 3),
                                            octets + from + n / 3, n - n / 3),
                             whole);
        }
    }
}

static void tagged__write__fields_are_those_of_rfc_5041_figure_4(void **state)
{
    struct dissect_header h = decode("c140 00010203 0000000100001000", 4, false);

    (void)state;
    assert_true(h.tagged && h.last);
    assert_int_equal(h.dv, 1);
    assert_int_equal(h.rv, 1);
    assert_int_equal(h.opcode, DISSECT_WRITE);
    assert_int_equal(h.stag, 0x00010203);
    assert_true(h.to == 0x0000000100001000);
    assert_int_equal(h.size, 14);
    assert_int_equal(h.payload, 4);
    assert_int_equal(h.faults, 0);
    assert_true(dissect_header_plausible(&h));
}

static void untagged__send_with_invalidate__fields_are_those_of_rfc_5041_figure_5(void **state)
{
    struct dissect_header h = decode("0144 12345678 00000000 00000004 00000100", 10, false);

    (void)state;
    assert_false(h.tagged);
    assert_false(h.last);
    assert_int_equal(h.opcode, DISSECT_SEND_INVALIDATE);
    assert_int_equal(h.stag, 0x12345678);
    assert_int_equal(h.qn, 0);
    assert_int_equal(h.msn, 4);
    assert_int_equal(h.mo, 256);
    assert_int_equal(h.payload, 10);
    assert_true(dissect_header_plausible(&h));
}

static void every_opcode__its_own_shape__is_plausible(void **state)
{
    static const struct {
        const char *hex;
        size_t payload;
        const char *name;
        const char *is; /* Tagged, Send, it Invalidates, or has iMmediate data */
    } rows[] = {
        {"c140 00000001 0000000000000000", 0, "Write", "T"},
        {"4141 00000000 00000001 00000001 00000000", 28, "Read Request", ""},
        {"8142 00000001 0000000000000000", 9, "Read Response", "T"},
        {"4143 00000000 00000000 00000001 00000000", 0, "Send", "S"},
        {"4144 00000000 00000000 00000001 00000000", 1, "Send with Invalidate", "SI"},
        {"4145 00000000 00000000 00000001 00000000", 1, "Send with SE", "S"},
        {"4146 00000000 00000000 00000001 00000000", 1, "Send with SE and Invalidate", "SI"},
        {"4147 00000000 00000002 00000001 00000000", 4, "Terminate", ""},
        {"4148 00000000 00000000 00000001 00000000", 8, "Immediate Data", ""},
        {"4149 00000000 00000000 00000001 00000000", 8, "Immediate Data with SE", ""},
        {"414a 00000000 00000001 00000001 00000000", 52, "Atomic Request", ""},
        {"414b 00000000 00000003 00000001 00000000", 12, "Atomic Response", ""},
        {"414e 00000007 00000000 00000001 00000000", 1, "Send with Immediate Data", "SM"},
        {"414f 00000007 00000000 00000001 00000000", 0, "Send with SE and Immediate Data", "SM"},
    };

    (void)state;
    for (uint8_t i = 0; i < 14; i++) {
        const uint8_t opcode = i < 12 ? i : i + 2;
        struct dissect_header h = decode(rows[i].hex, rows[i].payload, false);
        assert_int_equal(h.opcode, opcode);
        assert_int_equal(h.faults, 0);
        assert_string_equal(dissect_opcode_name(opcode), rows[i].name);
        assert_int_equal(dissect_opcode_is_tagged(opcode), strchr(rows[i].is, 'T') != NULL);
        assert_int_equal(dissect_opcode_is_send(opcode), strchr(rows[i].is, 'S') != NULL);
        assert_int_equal(dissect_opcode_invalidates(opcode), strchr(rows[i].is, 'I') != NULL);
        assert_int_equal(dissect_opcode_is_send_imm(opcode), strchr(rows[i].is, 'M') != NULL);
    }
    assert_string_equal(dissect_opcode_name(12), "Reserved opcode");
    assert_string_equal(dissect_opcode_name(13), "Reserved opcode");
}

static void each_broken_rule__its_own_fault(void **state)
{
    static const struct {
        const char *hex;
        size_t payload;
        unsigned fault;
    } rows[] = {
        {"c240 00000001 0000000000000000", 0, DISSECT_FAULT_DV},
        {"c180 00000001 0000000000000000", 0, DISSECT_FAULT_RV},
        {"414c 00000000 00000000 00000001 00000000", 0, DISSECT_FAULT_OPCODE},
        {"414d 00000000 00000000 00000001 00000000", 0, DISSECT_FAULT_OPCODE},
        {"c143 00000001 0000000000000000", 0, DISSECT_FAULT_TAG},
        {"4140 00000000 00000000 00000001 00000000", 0, DISSECT_FAULT_TAG},
        {"4143 00000000 00000001 00000001 00000000", 0, DISSECT_FAULT_QUEUE},
        {"4141 00000000 00000000 00000001 00000000", 28, DISSECT_FAULT_QUEUE},
        {"4141 00000000 00000001 00000001 00000000", 27, DISSECT_FAULT_LENGTH},
        {"4148 00000000 00000000 00000001 00000000", 9, DISSECT_FAULT_LENGTH},
        {"4147 00000000 00000002 00000001 00000000", 3, DISSECT_FAULT_LENGTH},
        {"0141 00000000 00000001 00000001 00000000", 28, DISSECT_FAULT_LAST},
        {"4141 00000000 00000001 00000001 00000004", 28, DISSECT_FAULT_OFFSET},
        {"c540 00000001 0000000000000000", 0, DISSECT_FAULT_RESERVED},
        {"c150 00000001 0000000000000000", 0, DISSECT_FAULT_RESERVED},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dissect_header h = decode(rows[i].hex, rows[i].payload, false);
        assert_int_equal(h.faults, rows[i].fault);
        assert_false(dissect_header_plausible(&h));
    }
}

static void ulpdu__shorter_than_its_header__length_fault(void **state)
{
    static const uint8_t p[] = {0xc1, 0x40, 0, 1, 2, 3};
    struct dissect_header h;

    (void)state;
    assert_true(dissect_header_decode(&h, p, sizeof p, sizeof p, false));
    assert_int_equal(h.faults, DISSECT_FAULT_LENGTH);
    assert_int_equal(h.payload, 0);
    assert_int_equal(h.stag, 0x00010203);
}

static void revision_0__versions_of_0_or_1__are_right_and_others_are_not(void **state)
{
    struct dissect_header h = decode("c000 00000001 0000000000000000", 0, true);

    (void)state;
    assert_int_equal(h.faults, 0);
    h = decode("c140 00000001 0000000000000000", 0, true);
    assert_int_equal(h.faults, 0);
    h = decode("c100 00000001 0000000000000000", 0, true);
    assert_int_equal(h.faults, DISSECT_FAULT_DV);
    h = decode("c280 00000001 0000000000000000", 0, true);
    assert_int_equal(h.faults, DISSECT_FAULT_DV | DISSECT_FAULT_RV);
}

static void header__cut_by_the_capture__what_is_there_is_decoded(void **state)
{
    static const uint8_t p[] = {0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0};
    struct dissect_header h;

    (void)state;
    assert_true(dissect_header_decode(&h, p, sizeof p, 100, false));
    assert_int_equal(h.msn, 9);
    assert_int_equal(h.mo, 0);
    assert_int_equal(h.payload, 82);
    assert_false(dissect_header_plausible(&h));
    assert_false(dissect_header_decode(&h, p, 1, 100, false));
}

static void read_request__octets_of_rfc_5040_figure_6__five_fields(void **state)
{
    struct octets o = {0};
    struct dissect_read_request r;

    (void)state;
    octets_hex(&o, "11223344 0000000000002000 00000008 00010203 0000000000001000");
    assert_true(dissect_read_request_decode(&r, o.p, o.n));
    assert_int_equal(r.sink_stag, 0x11223344);
    assert_true(r.sink_to == 0x2000);
    assert_int_equal(r.length, 8);
    assert_int_equal(r.source_stag, 0x00010203);
    assert_true(r.source_to == 0x1000);
    assert_false(dissect_read_request_decode(&r, o.p, o.n - 1));
    octets_free(&o);
}

static void atomics__octets_of_rfc_7306_figures_4_and_6__all_fields(void **state)
{
    struct octets o = {0};
    struct dissect_atomic_request r;
    struct dissect_atomic_response a;

    (void)state;
    octets_hex(&o, "00000002 00000007 00010203 0000000000001010 1122334455667788"
                   "ffffffffffffff00 0000000000000001 00000000ffffffff");
    assert_true(dissect_atomic_request_decode(&r, o.p, o.n));
    assert_int_equal(r.operation, 2);
    assert_int_equal(r.id, 7);
    assert_int_equal(r.stag, 0x00010203);
    assert_true(r.to == 0x1010 && r.data == 0x1122334455667788);
    assert_true(r.mask == 0xffffffffffffff00);
    assert_true(r.compare == 1 && r.compare_mask == 0xffffffff);
    assert_false(dissect_atomic_request_decode(&r, o.p, 51));
    octets_free(&o);

    octets_hex(&o, "00000001 000000000000002a");
    assert_true(dissect_atomic_response_decode(&a, o.p, o.n));
    assert_int_equal(a.id, 1);
    assert_true(a.value == 0x2a);
    assert_false(dissect_atomic_response_decode(&a, o.p, 11));
    octets_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c__known_inputs__gives_published_values),
        cmocka_unit_test(crc32c__any_pieces_and_alignment__equals_bit_by_bit),
        cmocka_unit_test(tagged__write__fields_are_those_of_rfc_5041_figure_4),
        cmocka_unit_test(untagged__send_with_invalidate__fields_are_those_of_rfc_5041_figure_5),
        cmocka_unit_test(every_opcode__its_own_shape__is_plausible),
        cmocka_unit_test(each_broken_rule__its_own_fault),
        cmocka_unit_test(ulpdu__shorter_than_its_header__length_fault),
        cmocka_unit_test(revision_0__versions_of_0_or_1__are_right_and_others_are_not),
        cmocka_unit_test(header__cut_by_the_capture__what_is_there_is_decoded),
        cmocka_unit_test(read_request__octets_of_rfc_5040_figure_6__five_fields),
        cmocka_unit_test(atomics__octets_of_rfc_7306_figures_4_and_6__all_fields),
    };
    return cmocka_run_group_tests_name("dissect_header", tests, NULL, NULL);
}
