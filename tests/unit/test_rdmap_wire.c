/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RDMAP control octet and the RDMA Read Request header against literal octets. RFC 5040 4.1,
 * 4.4.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "rdmap/rdmap_wire.h"

/* RFC 5040 4.4: a Read of 8 octets; and one with another value in every octet. */
static const uint8_t plain[28] = {
    0x11, 0x22, 0x33, 0x44,                         /* SinkSTag */
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x20, 0x00, /* SinkTO */
    0x00, 0x00, 0x00, 0x08,                         /* RDMARDSZ */
    0x00, 0x01, 0x02, 0x03,                         /* SrcSTag */
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, /* SrcTO */
};
static const uint8_t varied[28] = {
    0xf0, 0xf1, 0xf2, 0xf3,                         /* SinkSTag */
    0xe0, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, /* SinkTO */
    0xd0, 0xd1, 0xd2, 0xd3,                         /* RDMARDSZ */
    0xc0, 0xc1, 0xc2, 0xc3,                         /* SrcSTag */
    0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, /* SrcTO */
};

static void read_request_get__literal_octets__gives_the_fields(void **state)
{
    struct iwarp_rdmap_read_request r;

    (void)state;
    iwarp_rdmap_read_request_get(plain, &r);
    assert_int_equal(r.sink_stag, 0x11223344);
    assert_true(r.sink_to == 0x2000);
    assert_int_equal(r.size, 8);
    assert_int_equal(r.src_stag, 0x00010203);
    assert_true(r.src_to == 0x1000);
    iwarp_rdmap_read_request_get(varied, &r);
    assert_int_equal(r.sink_stag, 0xf0f1f2f3);
    assert_true(r.sink_to == 0xe0e1e2e3e4e5e6e7);
    assert_int_equal(r.size, 0xd0d1d2d3);
    assert_int_equal(r.src_stag, 0xc0c1c2c3);
    assert_true(r.src_to == 0xb0b1b2b3b4b5b6b7);
}

/* [RDMAP-4.4-01] */
static void read_request_put__fields__writes_28_octets_and_no_other(void **state)
{
    const struct iwarp_rdmap_read_request r = {0xf0f1f2f3, 0xe0e1e2e3e4e5e6e7, 0xd0d1d2d3,
                                               0xc0c1c2c3, 0xb0b1b2b3b4b5b6b7};
    const struct iwarp_rdmap_read_request p = {0x11223344, 0x2000, 8, 0x00010203, 0x1000};
    uint8_t out[30];

    (void)state;
    memset(out, 0x55, sizeof out);
    assert_int_equal(iwarp_rdmap_read_request_put(out + 1, &r), 28);
    assert_memory_equal(out + 1, varied, 28);
    assert_int_equal(out[0], 0x55);
    assert_int_equal(out[29], 0x55);
    assert_int_equal(iwarp_rdmap_read_request_put(out, &p), 28);
    assert_memory_equal(out, plain, 28);
}

/* RFC 5040 4.1: version 1 above the opcode. */
/* [RDMAP-3.1-01] [RDMAP-4.1-02] [RDMAP-4.1-05] */
/* [RDMAP-4.1-08] */
static void control__every_opcode__is_0x40_and_the_opcode(void **state)
{
    (void)state;
    assert_int_equal(iwarp_rdmap_control(IWARP_OP_WRITE), 0x40);
    assert_int_equal(iwarp_rdmap_control(IWARP_OP_READ_REQUEST), 0x41);
    assert_int_equal(iwarp_rdmap_control(IWARP_OP_READ_RESPONSE), 0x42);
    assert_int_equal(iwarp_rdmap_control(IWARP_OP_SEND), 0x43);
    assert_int_equal(iwarp_rdmap_control(IWARP_OP_SEND_INV), 0x44);
    assert_int_equal(iwarp_rdmap_control(IWARP_OP_SEND_SE), 0x45);
    assert_int_equal(iwarp_rdmap_control(IWARP_OP_SEND_SE_INV), 0x46);
    assert_int_equal(iwarp_rdmap_control(IWARP_OP_TERMINATE), 0x47);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_request_get__literal_octets__gives_the_fields),
        cmocka_unit_test(read_request_put__fields__writes_28_octets_and_no_other),
        cmocka_unit_test(control__every_opcode__is_0x40_and_the_opcode),
    };
    return cmocka_run_group_tests_name("rdmap_wire", tests, NULL, NULL);
}
