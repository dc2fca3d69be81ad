/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer whose Immediate Data is wrong; and a device for which RFC 7306 is switched off, to which
 * all of its messages are. Each octet sent and each octet of the Terminate that comes back is
 * literal, but for CRC fields (C).
 *
 * RFC 7306 1.1, 6.3 and 8.2, RFC 5041 7.1.
 */
#include "tcp_host.h"

#include <stdlib.h>

#define FAULT(name) .fault = IWARP_FAULT_##name

#define TERM  "002a4147 00000000 00000002 00000001 00000000 "
#define EIGHT "01020304 05060708 "

/* {name, what the peer sends, the Terminate that it gets back} */
static const struct hostile_case on[] = {
    /* [RDMAX-6.3-07] */
    {"immediate__seven_octets__is_0_2_07",
     "00194148 00000000 00000000 00000001 00000000 01020304 050607 00 C",
     TERM "0207c000 00194148 00000000 00000000 00000001 00000000 C", FAULT(RDMAP_HEADER_LEN)},
    /* [RDMAX-6.3-07] */
    {"immediate__nine_octets__is_0_2_07",
     "001b4149 00000000 00000000 00000001 00000000 " EIGHT "09 0000 00 C",
     TERM "0207c000 001b4149 00000000 00000000 00000001 00000000 C", FAULT(RDMAP_HEADER_LEN)},
    {"immediate__not_last__is_0_2_07", "001a0148 00000000 00000000 00000001 00000000 " EIGHT "C",
     TERM "0207c000 001a0148 00000000 00000000 00000001 00000000 C", FAULT(RDMAP_NOT_LAST)},
    {"immediate__tagged__is_0_2_06", "0016c148 W T " EIGHT "C",
     "00264147 00000000 00000002 00000001 00000000 0206c000 0016c148 W T C", FAULT(RDMAP_OPCODE)},
    {"immediate__queue_2__is_1_2_01", "001a4149 00000000 00000002 00000001 00000000 " EIGHT "C",
     TERM "1201c000 001a4149 00000000 00000002 00000001 00000000 C", FAULT(DDP_QN)},
    {"immediate__msn_0__is_1_2_03", "001a4148 00000000 00000000 00000000 00000000 " EIGHT "C",
     TERM "1203c000 001a4148 00000000 00000000 00000000 00000000 C", FAULT(DDP_MSN)},
    {"immediate__mo_8__is_1_2_04", "001a4148 00000000 00000000 00000001 00000008 " EIGHT "C",
     TERM "1204c000 001a4148 00000000 00000000 00000001 00000008 C", FAULT(DDP_MO)},
    {"immediate__no_receive__is_1_2_02", "001a4148 00000000 00000000 00000001 00000000 " EIGHT "C",
     TERM "1202c000 001a4148 00000000 00000000 00000001 00000000 C", FAULT(DDP_NO_BUFFER),
     .no_receive = true},
    {"immediate__third_of_two_receives__is_1_2_02",
     "001a4148 00000000 00000000 00000001 00000000 " EIGHT "C |"
     "001a4149 00000000 00000000 00000002 00000000 " EIGHT "C |"
     "001a4148 00000000 00000000 00000003 00000000 " EIGHT "C",
     TERM "1202c000 001a4148 00000000 00000000 00000003 00000000 C", FAULT(DDP_NO_BUFFER),
     .delivered = 2},
};

static const struct hostile_case off[] = {
    {"off__immediate__is_0_2_06", "001a4148 00000000 00000000 00000001 00000000 " EIGHT "C",
     TERM "0206c000 001a4148 00000000 00000000 00000001 00000000 C", FAULT(RDMAP_SWITCHED_OFF)},
    {"off__immediate_se__is_0_2_06", "001a4149 00000000 00000000 00000001 00000000 " EIGHT "C",
     TERM "0206c000 001a4149 00000000 00000000 00000001 00000000 C", FAULT(RDMAP_SWITCHED_OFF)},
    {"off__opcode_8_of_any_length__is_0_2_06",
     "00174148 00000000 00000000 00000001 00000000 68656c6c 6f 000000 07e6a60a",
     TERM "0206c000 00174148 00000000 00000000 00000001 00000000 0afefe2f",
     FAULT(RDMAP_SWITCHED_OFF)},
    {"off__opcode_9_of_any_length__is_0_2_06",
     "00174149 00000000 00000000 00000001 00000000 68656c6c 6f 000000 9a2d9224",
     TERM "0206c000 00174149 00000000 00000000 00000001 00000000 55221a70",
     FAULT(RDMAP_SWITCHED_OFF)},
    {"off__opcode_a__is_0_2_06",
     "0017414a 00000000 00000001 00000001 00000000 68656c6c 6f 000000 62ad2b09",
     TERM "0206c000 0017414a 00000000 00000001 00000001 00000000 fc900964",
     FAULT(RDMAP_SWITCHED_OFF)},
    {"off__opcode_b__is_0_2_06",
     "0017414b 00000000 00000000 00000001 00000000 68656c6c 6f 000000 a0bafb78",
     TERM "0206c000 0017414b 00000000 00000000 00000001 00000000 eb9ad3cf",
     FAULT(RDMAP_SWITCHED_OFF)},
};

int main(void)
{
    int failed = hostile_run("hostile_immediate", on, sizeof on / sizeof *on);

    setenv("IWARP_RFC7306", "off", 1);
    return hostile_run("hostile_immediate_off", off, sizeof off / sizeof *off) + failed;
}
