/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer whose Atomic Requests and Responses are wrong. Each octet sent and each octet of the
 * Terminate that comes back is literal, but for CRC fields (C) and STags (W, R, L, P: none of these
 * regions allows Atomics).
 *
 * RFC 7306 5.2, 8.1 and 8.2, RFC 5041 7.1.
 */
#include "tcp_host.h"

#define FAULT(name) .fault = IWARP_FAULT_##name

#define TERM  "002a4147 00000000 00000002 00000001 00000000 "
#define REQ1  "0046414a 00000000 00000001 00000001 00000000 "
#define RESP1 "001e414b 00000000 00000003 00000001 00000000 "
#define ADD5  "00000000 00000005 00000000 00000000 00000000 00000000 ffffffff ffffffff "

/* {name, what the peer sends, the Terminate that it gets back} */
static const struct hostile_case cases[] = {
    {"atomic__unknown_stag__is_0_1_00", REQ1 "00000000 00000001 X T " ADD5 "C",
     TERM "0100c000 " REQ1 "C", FAULT(ATOMIC_STAG_INVALID)},
    {"atomic__writable_but_no_right__is_0_1_02", REQ1 "00000000 00000001 W T " ADD5 "C",
     TERM "0102c000 " REQ1 "C", FAULT(ATOMIC_ACCESS)},
    {"atomic__readable_but_no_right__is_0_1_02", REQ1 "00000002 00000001 R U " ADD5 "C",
     TERM "0102c000 " REQ1 "C", FAULT(ATOMIC_ACCESS)},
    {"atomic__other_pd__is_0_1_03", REQ1 "00000000 00000001 P V " ADD5 "C",
     TERM "0103c000 " REQ1 "C", FAULT(ATOMIC_STAG_STREAM)},
    {"atomic__operation_1__is_0_2_06", REQ1 "00000001 00000001 W T " ADD5 "C",
     TERM "0206c000 " REQ1 "C", FAULT(ATOMIC_OPERATION)},
    {"atomic__operation_4_and_reserved_bits__is_0_2_06", REQ1 "fffffff4 00000001 W T " ADD5 "C",
     TERM "0206c000 " REQ1 "C", FAULT(ATOMIC_OPERATION)},
    {"atomic__no_ird__is_1_2_03", REQ1 "00000000 00000001 W T " ADD5 "C", TERM "1203c000 " REQ1 "C",
     FAULT(DDP_IRD_EXCEEDED), .no_ird = true},
    {"atomic__one_octet_short__is_0_2_07",
     "0045414a 00000000 00000001 00000001 00000000 00000000 00000001 W T 00000000 00000005 "
     "00000000 00000000 00000000 00000000 ffffffff ffffff 00 C",
     TERM "0207c000 0045414a 00000000 00000001 00000001 00000000 C", FAULT(RDMAP_HEADER_LEN)},
    {"atomic__one_octet_long__is_1_2_05",
     "0047414a 00000000 00000001 00000001 00000000 00000000 00000001 W T " ADD5 "00 000000 C",
     TERM "1205c000 0047414a 00000000 00000001 00000001 00000000 C", FAULT(DDP_TOO_LONG)},
    {"atomic__not_last__is_0_2_07",
     "0046014a 00000000 00000001 00000001 00000000 00000000 00000001 W T " ADD5 "C",
     TERM "0207c000 0046014a 00000000 00000001 00000001 00000000 C", FAULT(RDMAP_NOT_LAST)},
    {"atomic__queue_0__is_1_2_01",
     "0046414a 00000000 00000000 00000001 00000000 00000000 00000001 W T " ADD5 "C",
     TERM "1201c000 0046414a 00000000 00000000 00000001 00000000 C", FAULT(DDP_QN)},
    {"atomic__msn_2__is_1_2_03",
     "0046414a 00000000 00000001 00000002 00000000 00000000 00000001 W T " ADD5 "C",
     TERM "1203c000 0046414a 00000000 00000001 00000002 00000000 C", FAULT(DDP_MSN)},
    {"atomic__mo_4__is_1_2_04",
     "0046414a 00000000 00000001 00000001 00000004 00000000 00000001 W T " ADD5 "C",
     TERM "1204c000 0046414a 00000000 00000001 00000001 00000004 C", FAULT(DDP_MO)},
    {"response__none_asked__is_0_2_06", RESP1 "00000001 00000000 0000002a C",
     TERM "0206c000 " RESP1 "C", FAULT(ATOMIC_RESPONSE_UNEXPECTED)},
    {"response__to_a_read__is_0_2_06", RESP1 "00000001 00000000 0000002a C",
     TERM "0206c000 " RESP1 "C", FAULT(ATOMIC_RESPONSE_UNEXPECTED), .read = true},
    {"response__queue_1__is_1_2_01",
     "001e414b 00000000 00000001 00000001 00000000 00000001 00000000 0000002a C",
     TERM "1201c000 001e414b 00000000 00000001 00000001 00000000 C", FAULT(DDP_QN)},
    {"response__short__is_0_2_07",
     "001d414b 00000000 00000003 00000001 00000000 00000001 00000000 000000 00 C",
     TERM "0207c000 001d414b 00000000 00000003 00000001 00000000 C", FAULT(RDMAP_HEADER_LEN)},
};

int main(void)
{
    return hostile_run("hostile_atomic", cases, sizeof cases / sizeof *cases);
}
