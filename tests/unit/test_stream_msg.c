/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Malformed input, one row per condition: literal segments, the fault that is found, and the
 * Terminate that is owed, octet by octet. Each in every way of delivery and with every placement;
 * a valid Write follows each and must be dropped.
 *
 * RFC 5040 7.2 and 4.8, RFC 5041 7.1 and 7.2, RFC 5044 8.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deliveries.h"

#define ROW_SEGMENTS 4

struct segment {
    const char *ulpdu; /* hexadecimal digits */
    size_t payload;    /* octets of payload behind them */
};

enum how {
    PLAIN,
    IRD_0,  /* the peer may not read */
    READING /* an RDMA Read of 600 octets to STag 40506, TO 1000 is outstanding */
};

struct row {
    const char *name;
    enum iwarp_fault_code fault;
    enum how how;
    const char *terminate; /* ULPDU of the Terminate behind its DDP header */
    struct segment segment[ROW_SEGMENTS];
};

#define SEND1     "4143 00000000 00000000 00000001 00000000"
#define RREQ(msn) "4141 00000000 00000001 0000000" msn "00000000"
#define SINK      "11223344 0000000000002000"

/* What a row's octets meet: see setup below for the regions. */
static const struct row rows[] = {
    /* tagged buffers */
    {"write_unknown_stag",
     IWARP_FAULT_DDP_STAG_INVALID,
     PLAIN,
     "1100c000 0012 c140 00990203 0000000000001000",
     {{"c140 00990203 0000000000001000", 4}}},
    {"write_unknown_stag_large",
     IWARP_FAULT_DDP_STAG_INVALID,
     PLAIN,
     "1100c000 03ce c140 00990203 0000000000001000",
     {{"c140 00990203 0000000000001000", 960}}},
    {"write_wrong_key",
     IWARP_FAULT_DDP_STAG_INVALID,
     PLAIN,
     "1100c000 0012 c140 00010204 0000000000001000",
     {{"c140 00010204 0000000000001000", 4}}},
    {"write_stag_0",
     IWARP_FAULT_DDP_STAG_INVALID,
     PLAIN,
     "1100c000 000f c140 00000000 0000000000000000",
     {{"c140 00000000 0000000000000000", 1}}},
    /* [DDP-7.1-08] */
    {"write_beyond_end",
     IWARP_FAULT_DDP_BOUNDS,
     PLAIN,
     "1101c000 0012 c140 00010203 00000000000013fd",
     {{"c140 00010203 00000000000013fd", 4}}},
    {"write_beyond_end_large",
     IWARP_FAULT_DDP_BOUNDS,
     PLAIN,
     "1101c000 040f c140 00010203 0000000000001000",
     {{"c140 00010203 0000000000001000", 1025}}},
    {"write_behind_end",
     IWARP_FAULT_DDP_BOUNDS,
     PLAIN,
     "1101c000 000f c140 00010203 0000000000001400",
     {{"c140 00010203 0000000000001400", 1}}},
    /* [RDMAP-7.2-01] */
    {"write_before_begin",
     IWARP_FAULT_DDP_BOUNDS,
     PLAIN,
     "1101c000 0012 c140 00010203 0000000000000fff",
     {{"c140 00010203 0000000000000fff", 4}}},
    {"write_reserved_bits_are_quoted",
     IWARP_FAULT_DDP_BOUNDS,
     PLAIN,
     "1101c000 040f fd70 00010203 0000000000001000",
     {{"fd70 00010203 0000000000001000", 1025}}},
    {"write_second_segment",
     IWARP_FAULT_DDP_BOUNDS,
     PLAIN,
     "1101c000 0012 c140 00010203 00000000000013fe",
     {{"8140 00010203 0000000000001000", 1022}, {"c140 00010203 00000000000013fe", 4}}},
    {"write_other_pd",
     IWARP_FAULT_DDP_STAG_STREAM,
     PLAIN,
     "1102c000 0012 c140 00030405 0000000000001000",
     {{"c140 00030405 0000000000001000", 4}}},
    {"write_no_right",
     IWARP_FAULT_DDP_ACCESS,
     PLAIN,
     "1102c000 0012 c140 00020304 0000000000001000",
     {{"c140 00020304 0000000000001000", 4}}},
    {"write_wraps",
     IWARP_FAULT_DDP_TO_WRAP,
     PLAIN,
     "1103c000 0012 c140 00050607 fffffffffffffffd",
     {{"c140 00050607 fffffffffffffffd", 4}}},
    {"write_wraps_to_0",
     IWARP_FAULT_DDP_TO_WRAP,
     PLAIN,
     "1103c000 0012 c140 00050607 fffffffffffffffc",
     {{"c140 00050607 fffffffffffffffb", 4}, {"c140 00050607 fffffffffffffffc", 4}}},
    {"tagged_version_0",
     IWARP_FAULT_DDP_TAGGED_VERSION,
     PLAIN,
     "1104c000 0012 c040 00010203 0000000000001000",
     {{"c040 00010203 0000000000001000", 4}}},
    {"tagged_version_2",
     IWARP_FAULT_DDP_TAGGED_VERSION,
     PLAIN,
     "1104c000 0012 c240 00010203 0000000000001000",
     {{"c240 00010203 0000000000001000", 4}}},
    {"tagged_version_3_empty",
     IWARP_FAULT_DDP_TAGGED_VERSION,
     PLAIN,
     "1104c000 000e c340 00010203 0000000000001000",
     {{"c340 00010203 0000000000001000", 0}}},

    /* untagged buffers */
    {"untagged_version_0",
     IWARP_FAULT_DDP_UNTAGGED_VERSION,
     PLAIN,
     "1206c000 0016 4043 00000000 00000000 00000001 00000000",
     {{"4043 00000000 00000000 00000001 00000000", 4}}},
    {"untagged_version_3",
     IWARP_FAULT_DDP_UNTAGGED_VERSION,
     PLAIN,
     "1206c000 0012 4347 00000000 00000002 00000001 00000000",
     {{"4347 00000000 00000002 00000001 00000000", 0}}},
    {"qn_3",
     IWARP_FAULT_DDP_QN,
     PLAIN,
     "1201c000 0016 4143 00000000 00000003 00000001 00000000",
     {{"4143 00000000 00000003 00000001 00000000", 4}}},
    {"qn_huge",
     IWARP_FAULT_DDP_QN,
     PLAIN,
     "1201c000 0016 4143 00000000 ffffffff 00000001 00000000",
     {{"4143 00000000 ffffffff 00000001 00000000", 4}}},
    {"send_on_qn_1",
     IWARP_FAULT_DDP_QN,
     PLAIN,
     "1201c000 0016 4143 00000000 00000001 00000001 00000000",
     {{"4143 00000000 00000001 00000001 00000000", 4}}},
    {"read_request_on_qn_0",
     IWARP_FAULT_DDP_QN,
     PLAIN,
     "1201c000 002e 4141 00000000 00000000 00000001 00000000",
     {{"4141 00000000 00000000 00000001 00000000" SINK "00000008 00020304 0000000000001000", 0}}},
    {"terminate_on_qn_1",
     IWARP_FAULT_DDP_QN,
     PLAIN,
     "1201c000 0016 4147 00000000 00000001 00000001 00000000",
     {{"4147 00000000 00000001 00000001 00000000 00000000", 0}}},
    {"send_without_receive",
     IWARP_FAULT_DDP_NO_BUFFER,
     PLAIN,
     "1202c000 0016 4143 00000000 00000000 00000002 00000000",
     {{SEND1, 64}, {"4143 00000000 00000000 00000002 00000000", 4}}},
    {"empty_send_without_receive",
     IWARP_FAULT_DDP_NO_BUFFER,
     PLAIN,
     "1202c000 0012 4146 00010203 00000000 00000002 00000000",
     {{SEND1, 64}, {"4146 00010203 00000000 00000002 00000000", 0}}},
    {"msn_gap",
     IWARP_FAULT_DDP_MSN,
     PLAIN,
     "1203c000 0016 4143 00000000 00000000 00000002 00000000",
     {{"4143 00000000 00000000 00000002 00000000", 4}}},
    {"msn_0",
     IWARP_FAULT_DDP_MSN,
     PLAIN,
     "1203c000 0012 4143 00000000 00000000 00000000 00000000",
     {{"4143 00000000 00000000 00000000 00000000", 0}}},
    {"msn_twice",
     IWARP_FAULT_DDP_MSN,
     PLAIN,
     "1203c000 0012 4143 00000000 00000000 00000001 00000000",
     {{SEND1, 0}, {SEND1, 0}}},
    {"msn_of_second_segment",
     IWARP_FAULT_DDP_MSN,
     PLAIN,
     "1203c000 0016 4143 00000000 00000000 00000002 00000004",
     {{"0143 00000000 00000000 00000001 00000000", 4},
      {"4143 00000000 00000000 00000002 00000004", 4}}},
    {"read_request_msn",
     IWARP_FAULT_DDP_MSN,
     PLAIN,
     "1203c000 002e 4141 00000000 00000001 00000002 00000000",
     {{RREQ("2") SINK "00000008 00020304 0000000000001000", 0}}},
    /* [RDMAP-5.4-03] */
    {"terminate_msn_2",
     IWARP_FAULT_DDP_MSN,
     PLAIN,
     "1203c000 0016 4147 00000000 00000002 00000002 00000000",
     {{"4147 00000000 00000002 00000002 00000000 11000000", 0}}},
    /* [RDMAP-6.1-06] */
    {"reads_beyond_ird",
     IWARP_FAULT_DDP_IRD_EXCEEDED,
     PLAIN,
     "1203c000 002e 4141 00000000 00000001 00000003 00000000",
     {{RREQ("1") SINK "00000008 00020304 0000000000001000", 0},
      {RREQ("2") SINK "00000000 00000000 0000000000000000", 0},
      {RREQ("3") SINK "00000008 00020304 0000000000001000", 0}}},
    {"read_with_ird_0",
     IWARP_FAULT_DDP_IRD_EXCEEDED,
     IRD_0,
     "1203c000 002e 4141 00000000 00000001 00000001 00000000",
     {{RREQ("1") SINK "00000000 00020304 0000000000001000", 0}}},
    {"mo_of_first_segment",
     IWARP_FAULT_DDP_MO,
     PLAIN,
     "1204c000 0016 4143 00000000 00000000 00000001 00000004",
     {{"4143 00000000 00000000 00000001 00000004", 4}}},
    {"mo_gap",
     IWARP_FAULT_DDP_MO,
     PLAIN,
     "1204c000 0013 4143 00000000 00000000 00000001 00000005",
     {{"0143 00000000 00000000 00000001 00000000", 4},
      {"4143 00000000 00000000 00000001 00000005", 1}}},
    {"mo_again",
     IWARP_FAULT_DDP_MO,
     PLAIN,
     "1204c000 0013 4143 00000000 00000000 00000001 00000000",
     {{"0143 00000000 00000000 00000001 00000000", 4}, {SEND1, 1}}},
    {"read_request_mo",
     IWARP_FAULT_DDP_MO,
     PLAIN,
     "1204c000 002e 4141 00000000 00000001 00000001 00000001",
     {{"4141 00000000 00000001 00000001 00000001" SINK "00000008 00020304 0000000000001000", 0}}},
    /* [DDP-7.1-01] */
    {"send_too_long",
     IWARP_FAULT_DDP_TOO_LONG,
     PLAIN,
     "1205c000 0053 4143 00000000 00000000 00000001 00000000",
     {{SEND1, 65}}},
    {"send_too_long_large",
     IWARP_FAULT_DDP_TOO_LONG,
     PLAIN,
     "1205c000 fd00 4143 00000000 00000000 00000001 00000000",
     {{SEND1, 0xfd00 - 0x12}}},
    {"send_too_long_by_second_segment",
     IWARP_FAULT_DDP_TOO_LONG,
     PLAIN,
     "1205c000 0013 4143 00000000 00000000 00000001 00000040",
     {{"0143 00000000 00000000 00000001 00000000", 64},
      {"4143 00000000 00000000 00000001 00000040", 1}}},
    {"read_request_too_long",
     IWARP_FAULT_DDP_TOO_LONG,
     PLAIN,
     "1205c000 002f 4141 00000000 00000001 00000001 00000000",
     {{RREQ("1") SINK "00000008 00020304 0000000000001000", 1}}},

    /* remote protection: sources of RDMA Reads, invalidation */
    {"read_unknown_stag",
     IWARP_FAULT_RDMAP_STAG_INVALID,
     PLAIN,
     "0100e000 002e 4141 00000000 00000001 00000001 00000000" SINK
     "00000008 00990304 0000000000001000",
     {{RREQ("1") SINK "00000008 00990304 0000000000001000", 0}}},
    {"read_wrong_key",
     IWARP_FAULT_RDMAP_STAG_INVALID,
     PLAIN,
     "0100e000 002e 4141 00000000 00000001 00000001 00000000" SINK
     "00000001 00020305 0000000000001000",
     {{RREQ("1") SINK "00000001 00020305 0000000000001000", 0}}},
    {"read_beyond_end",
     IWARP_FAULT_RDMAP_BOUNDS,
     PLAIN,
     "0101e000 002e 4141 00000000 00000001 00000001 00000000" SINK
     "00000401 00020304 0000000000001000",
     {{RREQ("1") SINK "00000401 00020304 0000000000001000", 0}}},
    {"read_everything",
     IWARP_FAULT_RDMAP_BOUNDS,
     PLAIN,
     "0101e000 002e 4141 00000000 00000001 00000001 00000000" SINK
     "ffffffff 00020304 0000000000001000",
     {{RREQ("1") SINK "ffffffff 00020304 0000000000001000", 0}}},
    {"read_before_begin",
     IWARP_FAULT_RDMAP_BOUNDS,
     PLAIN,
     "0101e000 002e 4141 00000000 00000001 00000001 00000000" SINK
     "00000008 00020304 0000000000000000",
     {{RREQ("1") SINK "00000008 00020304 0000000000000000", 0}}},
    {"read_no_right",
     IWARP_FAULT_RDMAP_ACCESS,
     PLAIN,
     "0102e000 002e 4141 00000000 00000001 00000001 00000000" SINK
     "00000008 00010203 0000000000001000",
     {{RREQ("1") SINK "00000008 00010203 0000000000001000", 0}}},
    {"read_other_pd",
     IWARP_FAULT_RDMAP_STAG_STREAM,
     PLAIN,
     "0103e000 002e 4141 00000000 00000001 00000001 00000000" SINK
     "00000008 00030405 0000000000001000",
     {{RREQ("1") SINK "00000008 00030405 0000000000001000", 0}}},
    {"read_wraps",
     IWARP_FAULT_RDMAP_TO_WRAP,
     PLAIN,
     "0104e000 002e 4141 00000000 00000001 00000001 00000000" SINK
     "00000009 00050607 fffffffffffffff8",
     {{RREQ("1") SINK "00000009 00050607 fffffffffffffff8", 0}}},
    {"invalidate_unknown",
     IWARP_FAULT_RDMAP_INVALIDATE,
     PLAIN,
     "0109c000 0012 4144 00990203 00000000 00000001 00000000",
     {{"4144 00990203 00000000 00000001 00000000", 0}}},
    {"invalidate_wrong_key",
     IWARP_FAULT_RDMAP_INVALIDATE,
     PLAIN,
     "0109c000 0013 4146 00010204 00000000 00000001 00000000",
     {{"4146 00010204 00000000 00000001 00000000", 1}}},
    {"invalidate_other_pd",
     IWARP_FAULT_RDMAP_INVALIDATE,
     PLAIN,
     "0109c000 0012 4144 00030405 00000000 00000001 00000000",
     {{"4144 00030405 00000000 00000001 00000000", 0}}},
    {"invalidate_without_remote_right",
     IWARP_FAULT_RDMAP_INVALIDATE,
     PLAIN,
     "0109c000 0012 4144 00040506 00000000 00000001 00000000",
     {{"4144 00040506 00000000 00000001 00000000", 0}}},
    {"write_after_invalidation",
     IWARP_FAULT_DDP_STAG_INVALID,
     PLAIN,
     "1100c000 0012 c140 00010203 0000000000001000",
     {{"4144 00010203 00000000 00000001 00000000", 0}, {"c140 00010203 0000000000001000", 4}}},

    /* remote operation */
    {"rdmap_version_0",
     IWARP_FAULT_RDMAP_VERSION,
     PLAIN,
     "0205c000 0016 4103 00000000 00000000 00000001 00000000",
     {{"4103 00000000 00000000 00000001 00000000", 4}}},
    {"rdmap_version_2",
     IWARP_FAULT_RDMAP_VERSION,
     PLAIN,
     "0205c000 0012 c180 00010203 0000000000001000",
     {{"c180 00010203 0000000000001000", 4}}},
    {"rdmap_version_3_large",
     IWARP_FAULT_RDMAP_VERSION,
     PLAIN,
     "0205c000 03ce c1c0 00010203 0000000000001000",
     {{"c1c0 00010203 0000000000001000", 960}}},
    {"write_untagged",
     IWARP_FAULT_RDMAP_OPCODE,
     PLAIN,
     "0206c000 0016 4140 00000000 00000000 00000001 00000000",
     {{"4140 00000000 00000000 00000001 00000000", 4}}},
    {"read_response_untagged",
     IWARP_FAULT_RDMAP_OPCODE,
     PLAIN,
     "0206c000 0012 4142 00000000 00000000 00000001 00000000",
     {{"4142 00000000 00000000 00000001 00000000", 0}}},
    {"send_tagged",
     IWARP_FAULT_RDMAP_OPCODE,
     PLAIN,
     "0206c000 0012 c143 00010203 0000000000001000",
     {{"c143 00010203 0000000000001000", 4}}},
    {"terminate_tagged",
     IWARP_FAULT_RDMAP_OPCODE,
     PLAIN,
     "0206c000 0012 c147 00010203 0000000000001000",
     {{"c147 00010203 0000000000001000", 4}}},
    {"immediate_data",
     IWARP_FAULT_RDMAP_SWITCHED_OFF,
     PLAIN,
     "0206c000 001a 4148 00000000 00000000 00000001 00000000",
     {{"4148 00000000 00000000 00000001 00000000", 8}}},
    {"atomic_request",
     IWARP_FAULT_RDMAP_SWITCHED_OFF,
     PLAIN,
     "0206c000 0046 414a 00000000 00000001 00000001 00000000",
     {{"414a 00000000 00000001 00000001 00000000", 52}}},
    {"opcode_f",
     IWARP_FAULT_RDMAP_OPCODE,
     PLAIN,
     "0206c000 0012 414f 00000000 00000000 00000001 00000000",
     {{"414f 00000000 00000000 00000001 00000000", 0}}},
    {"opcode_c_tagged",
     IWARP_FAULT_RDMAP_OPCODE,
     PLAIN,
     "0206c000 000e c14c 00000000 0000000000000000",
     {{"c14c 00000000 0000000000000000", 0}}},
    {"read_request_not_last",
     IWARP_FAULT_RDMAP_NOT_LAST,
     PLAIN,
     "0207c000 002e 0141 00000000 00000001 00000001 00000000",
     {{"0141 00000000 00000001 00000001 00000000" SINK "00000008 00020304 0000000000001000", 0}}},
    {"terminate_not_last",
     IWARP_FAULT_RDMAP_NOT_LAST,
     PLAIN,
     "0207c000 0016 0147 00000000 00000002 00000001 00000000",
     {{"0147 00000000 00000002 00000001 00000000 11000000", 0}}},
    {"read_request_short",
     IWARP_FAULT_RDMAP_HEADER_LEN,
     PLAIN,
     "0207c000 002d 4141 00000000 00000001 00000001 00000000",
     {{RREQ("1") SINK "00000008 00020304 00000000000010", 0}}},
    {"terminate_short",
     IWARP_FAULT_RDMAP_HEADER_LEN,
     PLAIN,
     "0207c000 0015 4147 00000000 00000002 00000001 00000000",
     {{"4147 00000000 00000002 00000001 00000000 110000", 0}}},

    /* Read Responses */
    {"response_without_read",
     IWARP_FAULT_RDMAP_READ_RESPONSE_UNEXPECTED,
     PLAIN,
     "0206c000 0012 c142 00010203 0000000000001000",
     {{"c142 00010203 0000000000001000", 4}}},
    {"response_without_read_large",
     IWARP_FAULT_RDMAP_READ_RESPONSE_UNEXPECTED,
     PLAIN,
     "0206c000 03ce c142 00010203 0000000000001000",
     {{"c142 00010203 0000000000001000", 960}}},
    {"response_twice",
     IWARP_FAULT_RDMAP_READ_RESPONSE_UNEXPECTED,
     READING,
     "0206c000 000e c142 00000000 0000000000000000",
     {{"c142 00040506 0000000000001000", 600}, {"c142 00000000 0000000000000000", 0}}},
    {"response_stag",
     IWARP_FAULT_READ_RESPONSE_STAG,
     READING,
     "1100c000 0266 c142 00010203 0000000000001000",
     {{"c142 00010203 0000000000001000", 600}}},
    {"response_to",
     IWARP_FAULT_READ_RESPONSE_BOUNDS,
     READING,
     "1101c000 0266 c142 00040506 0000000000001001",
     {{"c142 00040506 0000000000001001", 600}}},
    {"response_gap",
     IWARP_FAULT_READ_RESPONSE_BOUNDS,
     READING,
     "1101c000 0032 c142 00040506 0000000000001235",
     {{"8142 00040506 0000000000001000", 564}, {"c142 00040506 0000000000001235", 36}}},
    {"response_too_long",
     IWARP_FAULT_READ_RESPONSE_BOUNDS,
     READING,
     "1101c000 0267 c142 00040506 0000000000001000",
     {{"c142 00040506 0000000000001000", 601}}},
    {"response_ends_early",
     IWARP_FAULT_READ_RESPONSE_BOUNDS,
     READING,
     "1101c000 0265 c142 00040506 0000000000001000",
     {{"c142 00040506 0000000000001000", 599}}},
    {"response_does_not_end",
     IWARP_FAULT_READ_RESPONSE_BOUNDS,
     READING,
     "1101c000 0266 8142 00040506 0000000000001000",
     {{"8142 00040506 0000000000001000", 600}}},

    /* segments shorter than their header: not enough of it to quote */
    {"empty_ulpdu", IWARP_FAULT_DDP_SEGMENT_SHORT, PLAIN, "10000000", {{"", 0}}},
    {"one_octet", IWARP_FAULT_DDP_SEGMENT_SHORT, PLAIN, "10000000", {{"c1", 0}}},
    {"tagged_13",
     IWARP_FAULT_DDP_SEGMENT_SHORT,
     PLAIN,
     "10000000",
     {{"c140 00010203 00000000000010", 0}}},
    {"untagged_14",
     IWARP_FAULT_DDP_SEGMENT_SHORT,
     PLAIN,
     "10000000",
     {{"4143 00000000 00000000 00000001", 0}}},
    {"untagged_17",
     IWARP_FAULT_DDP_SEGMENT_SHORT,
     PLAIN,
     "10000000",
     {{"4143 00000000 00000000 00000001 000000", 0}}},
};

#define ROWS (sizeof rows / sizeof *rows)

/* 10203 writable, 20304 readable, 30405 another PD's, 40506 local, 50607 at the end of all TOs. */
static void setup(struct endpoint *e, void *arg)
{
    const struct row *row = arg;
    const struct iwarp_sge sink = {(void *)(uintptr_t)0x1000, 600, 0x00040506};
    const struct iwarp_sge receive = {(void *)(uintptr_t)0x1300, 64, 0x00040506};

    endpoint_area(e, 0x00010203, 0x1000, 1024, WRITABLE, 0);
    endpoint_area(e, 0x00020304, 0x1000, 1024, READABLE | LOCAL, 0);
    endpoint_stranger(e, 0x00030405, 0x1000, 1024, READABLE | WRITABLE);
    endpoint_area(e, 0x00040506, 0x1000, 1024, LOCAL, 0);
    endpoint_area(e, 0x00050607, UINT64_MAX - 15, 16, READABLE | WRITABLE, 0);
    endpoint_recv(e, &receive, 1);
    if (row->how == READING) {
        e->s.config.hold_tx = false;
        endpoint_post(e, &(struct iwarp_send_wr){.opcode = IWARP_WR_READ,
                                                 .sg_list = &sink,
                                                 .num_sge = 1,
                                                 .remote_stag = 0x00010203});
        endpoint_drain(e);
        endpoint_forget_sent(e);
    }
}

static void check(struct endpoint *e, void *arg)
{
    const struct row *row = arg;

    assert_string_equal(iwarp_fault_name(e->s.fault.code), iwarp_fault_name(row->fault));
    assert_int_equal(e->s.fault.side, IWARP_SIDE_LOCAL);
    assert_int_equal(e->s.life, STREAM_DRAINING); /* as the Terminate is sent */
    endpoint_expect_terminate(e, row->terminate);
    assert_int_equal(iwarp_stream_interest(&e->s), IWARP_STREAM_SHUTDOWN);
    assert_int_not_equal(e->area[0].p[512], 0x77); /* the Write that follows each row */
    for (unsigned i = 0; i < 1024; i++) {
        assert_int_equal(e->area[2].p[i], 0);
    }
}

static const char write_behind[] = "c140 00010203 0000000000001200 77777777";

static void run_row(void **state)
{
    const struct row *row = *state;
    struct row copy = *row;
    struct octets o = {0};
    struct scene scene = {.options = {.ird = row->how == IRD_0 ? 0 : 2, .ord = 1, .hold_tx = true},
                          .setup = setup,
                          .check = check,
                          .arg = &copy};

    for (unsigned i = 0; i < ROW_SEGMENTS && row->segment[i].ulpdu; i++) {
        fpdu_hex(&o, row->segment[i].ulpdu, row->segment[i].payload);
    }
    fpdu_hex(&o, write_behind, 0);
    scene.octets = o.p;
    scene.n = o.n;
    receive_every_way(&scene);
    octets_free(&o);
}

int main(void)
{
    static struct CMUnitTest tests[ROWS];
    static struct row own[ROWS];
    static char names[ROWS][80];

    for (size_t i = 0; i < ROWS; i++) {
        own[i] = rows[i];
        snprintf(names[i], sizeof names[i], "receive__%s__terminates", rows[i].name);
        tests[i] = (struct CMUnitTest){names[i], run_row, NULL, NULL, &own[i]};
    }
    return cmocka_run_group_tests_name("stream_msg", tests, NULL, NULL);
}
