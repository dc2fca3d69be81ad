/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Capsules of iwarp-nvmf: literal octets, and all that must be refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "programs/nvmf-wire/capsule.h"

/* A Read of 8 blocks from block 0x102030405 of namespace 2, into 0x8000 octets at STag 0x11223344.
 */
static const uint8_t read_octets[64] = {
    0x02, 0x40, 0x34, 0x12, 2,    0,    0,    0,    0,    0,    0, 0, 0, 0, 0, 0,
    0,    0,    0,    0,    0,    0,    0,    0,    0x08, 0x07, 6, 5, 4, 3, 2, 1,
    0x00, 0x80, 0,    0x44, 0x33, 0x22, 0x11, 0x4f, 5,    4,    3, 2, 1, 0, 0, 0,
    7,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0, 0, 0, 0, 0, 0,
};

static void command__keyed_sgl__is_read(void **state)
{
    struct nvmf_command command;

    (void)state;
    assert_int_equal(nvmf_command_read(read_octets, 64, 0, &command), NVMF_OK);
    assert_int_equal(command.opcode, NVMF_READ);
    assert_int_equal(command.cid, 0x1234);
    assert_int_equal(command.nsid, 2);
    assert_int_equal(command.sgl, NVMF_SGL_HOST);
    assert_true(command.invalidate);
    assert_int_equal(command.stag, 0x11223344);
    assert_int_equal(command.len, 0x8000);
    assert_true(command.to == UINT64_C(0x0102030405060708));
    assert_int_equal(command.dw[0], 0x02030405);
    assert_int_equal(command.dw[1], 1);
    assert_int_equal(command.dw[2], 7);
}

static void command__in_capsule__must_lie_within_what_came(void **state)
{
    uint8_t octets[64];
    struct nvmf_command command;

    (void)state;
    memcpy(octets, read_octets, 64);
    octets[39] = 0x01;
    memset(octets + 24, 0, 15);
    octets[24] = 16;   /* offset */
    octets[33] = 0x02; /* 512 octets */
    assert_int_equal(nvmf_command_read(octets, 64, 528, &command), NVMF_OK);
    assert_int_equal(command.sgl, NVMF_SGL_CAPSULE);
    assert_int_equal(command.len, 512);
    assert_false(command.invalidate);
    assert_int_equal(nvmf_command_read(octets, 64, 527, &command), NVMF_SGL_LENGTH);
    assert_int_equal(nvmf_command_read(octets, 64, 16, &command), NVMF_SGL_LENGTH);
    assert_int_equal(nvmf_command_read(octets, 64, 15, &command), NVMF_SGL_OFFSET);
    memset(octets + 24, 0xff, 8); /* an offset that would wrap */
    assert_int_equal(nvmf_command_read(octets, 64, 528, &command), NVMF_SGL_OFFSET);
}

static void command__other_descriptors_and_flags__are_refused(void **state)
{
    uint8_t octets[64];
    struct nvmf_command command;

    (void)state;
    memcpy(octets, read_octets, 64);
    for (unsigned type = 0; type < 256; type++) {
        bool known = type == 0x40 || type == 0x4f || type == 0x01;
        octets[39] = (uint8_t)type;
        if (!known) {
            assert_int_equal(nvmf_command_read(octets, 64, 0, &command), NVMF_SGL_TYPE);
        }
    }
    octets[39] = 0x40;
    for (unsigned flags = 0; flags < 256; flags++) {
        octets[1] = (uint8_t)flags;
        assert_int_equal(nvmf_command_read(octets, 64, 0, &command),
                         flags == 0x40 ? NVMF_OK : NVMF_INVALID_FIELD);
    }
}

static void command__of_fabrics__needs_no_reserved_octets(void **state)
{
    static const uint8_t property[64] = {NVMF_FABRICS, 0, 0x34, 0x12, NVMF_PROPERTY_GET};
    struct nvmf_command command;
    uint8_t octets[64];

    (void)state;
    assert_int_equal(nvmf_command_read(property, 64, 0, &command), NVMF_OK);
    assert_int_equal(command.fabrics_type, NVMF_PROPERTY_GET);
    assert_int_equal(command.sgl, NVMF_SGL_NONE);
    memcpy(octets, property, 64);
    octets[4] = NVMF_CONNECT; /* has an SGL */
    assert_int_equal(nvmf_command_read(octets, 64, 0, &command), NVMF_SGL_TYPE);
    octets[39] = 0x01;
    assert_int_equal(nvmf_command_read(octets, 64, 0, &command), NVMF_OK);
    octets[1] = 0x41;
    assert_int_equal(nvmf_command_read(octets, 64, 0, &command), NVMF_INVALID_FIELD);
}

static void command__cut__is_refused_with_its_identifier(void **state)
{
    struct nvmf_command command;

    (void)state;
    for (size_t len = 0; len < 64; len++) {
        assert_int_equal(nvmf_command_read(read_octets, len, 0, &command), NVMF_INVALID_FIELD);
        assert_int_equal(command.cid, len < 4 ? 0 : 0x1234);
        assert_int_equal(command.sgl, NVMF_SGL_NONE);
    }
}

static void response__written__is_literal_octets_and_reads_back(void **state)
{
    static const uint8_t expected[16] = {8,    7,    6, 5, 4,    3,    2, 1,
                                         0x34, 0x12, 9, 0, 0x78, 0x56, 4, 0x83};
    struct nvmf_response response = {UINT64_C(0x0102030405060708), 0x1234, 9, 0x5678,
                                     NVMF_CONNECT_PARAMETER | NVMF_DNR};
    struct nvmf_response back;
    uint8_t octets[16];

    (void)state;
    nvmf_response_write(octets, &response);
    assert_memory_equal(octets, expected, 16);
    nvmf_response_read(octets, &back);
    assert_int_equal(back.status, response.status);
    assert_true(back.result == response.result);
}

static void connect__names__are_checked(void **state)
{
    struct nvmf_connect connect = {.controller_id = 0xffff,
                                   .subsystem = "nqn.2014-08.org.example:s",
                                   .host = "nqn.2014-08.org.example:h"};
    struct nvmf_connect back;
    uint8_t octets[NVMF_CONNECT_LEN];

    (void)state;
    nvmf_connect_write(octets, &connect);
    assert_int_equal(nvmf_connect_read(octets, &back), 0);
    assert_string_equal(back.subsystem, connect.subsystem);
    assert_string_equal(back.host, connect.host);
    assert_int_equal(back.controller_id, 0xffff);
    octets[512] = '\n'; /* would be a line of its own in a log */
    assert_int_equal(nvmf_connect_read(octets, &back), 512);
    octets[256] = 0;
    assert_int_equal(nvmf_connect_read(octets, &back), 256);
    memset(octets + 256, 'x', 256); /* without an end */
    assert_int_equal(nvmf_connect_read(octets, &back), 256);
}

static void hello__bounds__are_checked(void **state)
{
    struct nvmf_hello hello = {3, 32, NVMF_QUEUE_DEPTH}, back;
    uint8_t octets[NVMF_PRIVATE_LEN];

    (void)state;
    nvmf_hello_write(octets, &hello);
    assert_int_equal(octets[6], NVMF_QUEUE_DEPTH - 1);
    assert_int_equal(nvmf_hello_read(octets, sizeof octets, &back), 0);
    assert_int_equal(back.qid, 3);
    assert_int_equal(back.entries, NVMF_QUEUE_DEPTH);
    assert_int_equal(nvmf_hello_read(octets, sizeof octets - 1, &back), NVMF_REJECT_LENGTH);
    octets[6] = NVMF_QUEUE_DEPTH;
    assert_int_equal(nvmf_hello_read(octets, sizeof octets, &back), NVMF_REJECT_HSQSIZE);
    octets[4] = 0;
    assert_int_equal(nvmf_hello_read(octets, sizeof octets, &back), NVMF_REJECT_HRQSIZE);
    octets[2] = NVMF_QUEUES + 1;
    assert_int_equal(nvmf_hello_read(octets, sizeof octets, &back), NVMF_REJECT_QID);
    octets[0] = 1;
    assert_int_equal(nvmf_hello_read(octets, sizeof octets, &back), NVMF_REJECT_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(command__keyed_sgl__is_read),
        cmocka_unit_test(command__in_capsule__must_lie_within_what_came),
        cmocka_unit_test(command__other_descriptors_and_flags__are_refused),
        cmocka_unit_test(command__of_fabrics__needs_no_reserved_octets),
        cmocka_unit_test(command__cut__is_refused_with_its_identifier),
        cmocka_unit_test(response__written__is_literal_octets_and_reads_back),
        cmocka_unit_test(connect__names__are_checked),
        cmocka_unit_test(hello__bounds__are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
