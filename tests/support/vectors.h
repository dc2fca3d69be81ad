/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Literal FPDUs, CRC on, no markers: computed from the RFCs' rules apart from this library, and two
 * exchanges that were captured from other implementations. For sending and for receiving.
 */
#ifndef TESTS_VECTORS_H
#define TESTS_VECTORS_H

/* Sends of MSN 1 to 5: "hello", nothing, 01020304 solicited, and two that invalidate. */
#define V01 "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c"
#define V02 "00124143 00000000 00000000 00000002 00000000 accbdb8c"
#define V03 "00164145 00000000 00000000 00000003 00000000 01020304 bb3419ea"
#define V04 "00124144 12345678 00000000 00000004 00000000 b020e02f"
#define V05 "00134146 abcdef01 00000000 00000005 00000000 78000000 540d05f6"

/* RDMA Writes: one segment, a message of two, nothing (twice). */
#define V06 "0012c140 00010203 00000000 00001000 deadbeef 17369156"
#define V07 "00148140 00010203 00007fff fffffff0 00010203 04050000 4ed4d468"
#define V08 "0011c140 00010203 00007fff fffffff6 06070800 096cbe46"
#define V09 "000ec140 00000000 00000000 00000000 a30572ab"
#define V24 "000ec140 00000001 00000000 00000000 ebd34c5f"

/* RDMA Reads: requests and the responses to them. */
#define V10                                                                                        \
    "002e4141 00000000 00000001 00000001 00000000 11223344 00000000 00002000"                      \
    "00000008 00010203 00000000 00001000 d41cc19d"
#define V11                                                                                        \
    "002e4141 00000000 00000001 00000001 00000000 00000000 00000000 00000000"                      \
    "00000000 00000000 00000000 00000000 f2c6dd3d"
#define V12 "0016c142 11223344 00000000 00002000 00010203 04050607 643c32bc"
#define V13 "000ec142 00000000 00000000 00000000 6975d6ca"
#define V25                                                                                        \
    "002e4141 00000000 00000001 00000001 00000000 00000001 00000000 00000000"                      \
    "00000000 00000001 00000000 00000000 27dbd7e7"
#define V26 "000ec142 00000001 00000000 00000000 21a3e83e"

/* Terminates: about V06, about V10, CRC, local, no matching RTR. */
#define V14                                                                                        \
    "00264147 00000000 00000002 00000001 00000000 1100c000 0012c140 00010203"                      \
    "00000000 00001000 116f8760"
#define V15                                                                                        \
    "00464147 00000000 00000002 00000001 00000000 0102e000 002e4141 00000000"                      \
    "00000001 00000001 00000000 11223344 00000000 00002000 00000008 00010203"                      \
    "00000000 00001000 21781cf6"
#define V16 "00164147 00000000 00000002 00000001 00000000 20020000 7fe42585"
#define V17 "00164147 00000000 00000002 00000001 00000000 00000000 f9a26f1d"
#define V18 "00164147 00000000 00000002 00000001 00000000 20070000 1bd2babe"

/* RFC 7306: atomics and immediate data. */
#define V19                                                                                        \
    "0046414a 00000000 00000001 00000001 00000000 00000000 00000001 00010203"                      \
    "00000000 00001008 00000000 00000005 00000000 00000000 00000000 00000000"                      \
    "ffffffff ffffffff 120703b1"
#define V20                                                                                        \
    "0046414a 00000000 00000001 00000002 00000000 00000002 00000002 00010203"                      \
    "00000000 00001010 11223344 55667788 ffffffff ffffffff 00000000 00000000"                      \
    "ffffffff ffffffff 82d7fed0"
#define V21                                                                                        \
    "001e414b 00000000 00000003 00000001 00000000 00000001 00000000 0000002a"                      \
    "1f00a1c8"
#define V22 "001a4148 00000000 00000000 00000006 00000000 01020304 05060708 3d6b1697"
#define V23 "001a4149 00000000 00000000 00000007 00000000 01020304 05060708 c598f089"

/* Captured: Sends of 16 and 4 octets; the head and the CRC of a Write of 1024 octets 02. */
#define CAPTURED_SEND_1                                                                            \
    "00224143 00000000 00000000 00000001 00000000 00040000 01000000 00b00508 00000000 5116f074"
#define CAPTURED_SEND_2     "00164143 00000000 00000000 00000002 00000000 09090909 48cc5811"
#define CAPTURED_WRITE_HEAD "040ec140 00000001 00000000 0805b000"
#define CAPTURED_WRITE_CRC  "37208390"

#endif
