/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The opcode table and its check, against a table of its own that is written down from RFC 5040
 * figures 4 and 5 and RFC 7306 figures 2 and 3: every opcode with both buffer models, queues 0 to
 * 4, both values of L, and the lengths around what its header needs; with RFC 7306 and without.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "rdmap/rdmap_ops.h"

/* What the RFC says. header: octets that must be there behind the DDP header. */
static const struct {
    bool known, tagged;
    unsigned qn;
    uint32_t header;
    bool one_segment;
    const char *name;
    bool exact; /* of RFC 7306: not a single octet more */
} rfc[16] = {
    [0x0] = {true, true, 0, 0, false, "RDMA Write", false},
    [0x1] = {true, false, 1, 28, true, "RDMA Read Request", false},
    [0x2] = {true, true, 0, 0, false, "RDMA Read Response", false},
    [0x3] = {true, false, 0, 0, false, "Send", false},
    [0x4] = {true, false, 0, 0, false, "Send with Invalidate", false},
    [0x5] = {true, false, 0, 0, false, "Send with SE", false},
    [0x6] = {true, false, 0, 0, false, "Send with SE and Invalidate", false},
    [0x7] = {true, false, 2, 4, true, "Terminate", false},
    [0x8] = {true, false, 0, 8, true, "Immediate Data", true},
    [0x9] = {true, false, 0, 8, true, "Immediate Data with SE", true},
    [0xa] = {true, false, 1, 52, true, "Atomic Request", false},
    [0xb] = {true, false, 3, 12, true, "Atomic Response", false},
    [0xe] = {true, false, 0, 0, false, "Send with Immediate Data", false}, /* of this library */
    [0xf] = {true, false, 0, 0, false, "Send with SE and Immediate Data", false},
};

/* The right answer: a queue that does not exist at all comes before the opcode. */
static enum iwarp_fault_code expected(unsigned opcode, const struct iwarp_rdmap_segment *s)
{
    if (!s->tagged && s->qn > (s->rfc7306 ? 3 : 2)) {
        return IWARP_FAULT_DDP_QN;
    }
    if (opcode > 7 && opcode < 0xc && !s->rfc7306) {
        return IWARP_FAULT_RDMAP_SWITCHED_OFF;
    }
    if (opcode > 0xb && !s->send_imm) {
        return IWARP_FAULT_RDMAP_OPCODE;
    }
    if (!rfc[opcode].known || rfc[opcode].tagged != s->tagged) {
        return IWARP_FAULT_RDMAP_OPCODE;
    }
    if (!s->tagged && rfc[opcode].qn != s->qn) {
        return IWARP_FAULT_DDP_QN;
    }
    if (rfc[opcode].one_segment && !s->last) {
        return IWARP_FAULT_RDMAP_NOT_LAST;
    }
    if (rfc[opcode].exact && s->payload_len > rfc[opcode].header) {
        return IWARP_FAULT_RDMAP_HEADER_LEN;
    }
    return s->payload_len < rfc[opcode].header ? IWARP_FAULT_RDMAP_HEADER_LEN : IWARP_FAULT_NONE;
}

static void expect_details(const struct iwarp_fault *f, unsigned opcode,
                           const struct iwarp_rdmap_segment *s)
{
    switch ((int)f->code) {
    case IWARP_FAULT_DDP_QN:
        assert_int_equal(f->detail[0], s->qn);
        assert_int_equal(f->detail[1], opcode);
        assert_int_equal(f->detail[2],
                         opcode > 7 && opcode < 0xc && !s->rfc7306 ? 0 : rfc[opcode].qn);
        break;
    case IWARP_FAULT_RDMAP_OPCODE:
        assert_int_equal(f->detail[0], opcode);
        assert_int_equal(f->detail[1], s->ddp_control);
        break;
    case IWARP_FAULT_RDMAP_SWITCHED_OFF:
    case IWARP_FAULT_RDMAP_NOT_LAST:
        assert_int_equal(f->detail[0], opcode);
        break;
    case IWARP_FAULT_RDMAP_HEADER_LEN:
        assert_int_equal(f->detail[0], opcode);
        assert_int_equal(f->detail[1], s->payload_len);
        assert_int_equal(f->detail[2], rfc[opcode].header);
        break;
    }
}

static void check_one(unsigned opcode, const struct iwarp_rdmap_segment *s, unsigned *accepted)
{
    struct iwarp_fault fault = {.code = IWARP_FAULT_NONE};
    bool good = iwarp_rdmap_check(s, &fault);

    assert_int_equal(fault.code, expected(opcode, s));
    assert_int_equal(good, fault.code == IWARP_FAULT_NONE);
    expect_details(&fault, opcode, s);
    *accepted += good;
}

static void check__every_combination__is_as_the_rfc_table_says(void **state)
{
    static const uint32_t lengths[] = {0, 3, 4, 7, 8, 9, 11, 12, 27, 28, 29, 51, 52, 64750};
    unsigned accepted[4] = {0};

    (void)state;
    for (unsigned bits = 0; bits < 16 * 2 * 5 * 2 * 14 * 4; bits++) {
        unsigned opcode = bits % 16, rest = bits / 16;
        struct iwarp_rdmap_segment s = {.control = (uint8_t)(0x40 | opcode)};
        s.tagged = rest % 2;
        s.qn = rest / 2 % 5;
        s.last = rest / 10 % 2;
        s.payload_len = lengths[rest / 20 % 14];
        s.rfc7306 = rest / 280 % 2;
        s.send_imm = rest / 560;
        s.ddp_control = (uint8_t)((s.tagged ? 0x81 : 0x01) | (s.last ? 0x40 : 0));
        check_one(opcode, &s, &accepted[rest / 280]);
    }
    /* Two tagged opcodes with any "queue", four Sends, one Read Request, one Terminate. */
    assert_int_equal(accepted[0], 2 * 5 * 2 * 14 + 4 * 2 * 14 + 5 + 12);
    assert_int_equal(accepted[1], accepted[0] + 2 + 2 + 7); /* Immediate Data, Atomics */
    for (unsigned i = 0; i < 2; i++) {                      /* two more Sends */
        assert_int_equal(accepted[2 + i], accepted[i] + 2 * 2 * 14);
    }
}

/* QN is 32 bits on the wire. */
static void check__high_queue_numbers__are_invalid(void **state)
{
    static const uint32_t qns[] = {3, 0x100, 0x10000, 0x80000000, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof qns / sizeof *qns; i++) {
        for (unsigned opcode = 1; opcode < 16; opcode++) {
            struct iwarp_rdmap_segment s = {
                0x41, (uint8_t)(0x40 | opcode), false, true, qns[i], 28, qns[i] > 3, true};
            unsigned accepted = 0;
            check_one(opcode, &s, &accepted);
            assert_int_equal(accepted, 0);
        }
    }
}

/* RFC 5040 7.2: RV is looked at before anything else; the RDMA Consortium's 0 is not spoken. */
/* [RDMAP-4.1-01] [RDMAP-4.1-07] */
static void check__every_version__accepts_1_only_and_ignores_reserved_bits(void **state)
{
    (void)state;
    for (unsigned control = 0; control < 256; control++) {
        const struct iwarp_rdmap_segment s = {0xc1, (uint8_t)control, true, true, 0, 8, true,
                                              false};
        struct iwarp_fault fault = {.code = IWARP_FAULT_NONE};
        unsigned opcode = control & 0x0f;
        bool good = iwarp_rdmap_check(&s, &fault);
        if (control >> 6 != 1) {
            assert_int_equal(fault.code, IWARP_FAULT_RDMAP_VERSION);
            assert_int_equal(fault.detail[0], control >> 6);
        } else {
            assert_int_equal(good, opcode == 0 || opcode == 2);
        }
    }
}

/* [RDMAP-4.1-04] [RDMAP-4.1-06] [RDMAP-4.2-01] */
static void op__every_opcode__has_the_row_of_the_rfc(void **state)
{
    (void)state;
    for (unsigned opcode = 0; opcode < 16; opcode++) {
        const struct iwarp_rdmap_op *op = iwarp_rdmap_op(opcode);
        if (!rfc[opcode].known) {
            assert_null(op->name);
            continue;
        }
        assert_string_equal(op->name, rfc[opcode].name);
        assert_int_equal(op->tagged, rfc[opcode].tagged);
        assert_int_equal(op->qn, rfc[opcode].qn);
        assert_int_equal(op->header_len, rfc[opcode].header);
        assert_int_equal(op->single, rfc[opcode].one_segment);
        assert_int_equal(op->exact, rfc[opcode].exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check__every_combination__is_as_the_rfc_table_says),
        cmocka_unit_test(check__high_queue_numbers__are_invalid),
        cmocka_unit_test(check__every_version__accepts_1_only_and_ignores_reserved_bits),
        cmocka_unit_test(op__every_opcode__has_the_row_of_the_rfc),
    };
    return cmocka_run_group_tests_name("rdmap_ops", tests, NULL, NULL);
}
