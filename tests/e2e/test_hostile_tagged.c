/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer whose RDMA Writes and RDMA Read Responses are wrong: STag, bounds, rights, versions, what
 * was not asked for. Each octet sent and each octet of the Terminate that comes back is literal.
 *
 * RFC 5041 7.1 and 7.2, RFC 5040 5.1, 5.2 and 7.2.
 */
#include "tcp_host.h"

#define FAULT(name) .fault = IWARP_FAULT_##name

/* {name, what the peer sends, the Terminate that it gets back} */
static const struct hostile_case cases[] = {
    /* [DDP-8.3-04] [RDMAP-7.1-03] */
    {"write__unknown_stag__is_1_1_00", "0012c140 00010203 00000000 00001000 deadbeef 17369156",
     "00264147 00000000 00000002 00000001 00000000 1100c000 0012c140 00010203 00000000 "
     "00001000 116f8760",
     FAULT(DDP_STAG_INVALID)},
    {"write__stag_0_with_payload__is_1_1_00",
     "0012c140 00000000 00000000 00000000 deadbeef 0b196b08",
     "00264147 00000000 00000002 00000001 00000000 1100c000 0012c140 00000000 00000000 "
     "00000000 c3e4dc42",
     FAULT(DDP_STAG_INVALID)},
    {"write__all_ones_stag__is_1_1_00", "0012c140 ffffffff 00000000 00001000 deadbeef 204ce875",
     "00264147 00000000 00000002 00000001 00000000 1100c000 0012c140 ffffffff 00000000 "
     "00001000 e05f86a9",
     FAULT(DDP_STAG_INVALID)},
    {"write__wrong_key__is_1_1_00", "0012c140 X T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1100c000 0012c140 X T C",
     FAULT(DDP_STAG_INVALID)},
    /* [DDP-7.1-11] */
    {"write__begins_before_the_region__is_1_1_01", "0012c140 W T-1 deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 0012c140 W T-1 C", FAULT(DDP_BOUNDS)},
    {"write__ends_behind_the_region__is_1_1_01", "0012c140 W T+ffd deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 0012c140 W T+ffd C", FAULT(DDP_BOUNDS)},
    {"write__begins_at_the_end__is_1_1_01", "0012c140 W T+1000 deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 0012c140 W T+1000 C",
     FAULT(DDP_BOUNDS)},
    {"write__begins_far_behind__is_1_1_01", "0012c140 W T+100001000 deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 0012c140 W T+100001000 C",
     FAULT(DDP_BOUNDS)},
    {"write__to_0__is_1_1_01", "0012c140 W 00000000 00000000 deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 0012c140 W 00000000 00000000 "
     "C",
     FAULT(DDP_BOUNDS)},
    {"write__longer_than_the_region__is_1_1_01", "100fc140 W T N77*4097 000000 C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 100fc140 W T C", FAULT(DDP_BOUNDS)},
    {"write__last_octet_of_the_address_space__is_1_1_01", "0012c140 W ffffffff fffffffb deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 0012c140 W ffffffff fffffffb "
     "C",
     FAULT(DDP_BOUNDS)},
    /* [DDP-7.1-14] */
    {"write__second_segment_leaves_the_region__is_1_1_01",
     "000e8140 00010203 00000000 00001000 d41d66c4 | 0012c140 W T+ffe deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 0012c140 W T+ffe C", FAULT(DDP_BOUNDS)},
    /* [DDP-7.1-13] */
    {"write__to_wraps__is_1_1_03", "0012c140 W ffffffff fffffffe deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1103c000 0012c140 W ffffffff fffffffe "
     "C",
     FAULT(DDP_TO_WRAP)},
    {"write__to_plus_length_is_2_to_64__is_1_1_03", "0012c140 W ffffffff fffffffc deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1103c000 0012c140 W ffffffff fffffffc "
     "C",
     FAULT(DDP_TO_WRAP)},
    /* [DDP-4.2-06] [DDP-7.1-09] [DDP-8.2-01] [DDP-8.3.1-02] [RDMAP-8.1.1-01] [SEC-6.1.1-02] */
    {"write__stag_of_another_pd__is_1_1_02", "0012c140 P V deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1102c000 0012c140 P V C",
     FAULT(DDP_STAG_STREAM)},
    {"write__region_without_remote_rights__is_1_1_02", "0012c140 L Q deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1102c000 0012c140 L Q C", FAULT(DDP_ACCESS)},
    /* [DDP-7.1-10] */
    {"write__region_for_remote_read_only__is_1_1_02", "0012c140 R U deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1102c000 0012c140 R U C", FAULT(DDP_ACCESS)},
    {"write__ddp_version_0__is_1_1_04", "0012c040 W T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1104c000 0012c040 W T C",
     FAULT(DDP_TAGGED_VERSION)},
    {"write__ddp_version_2__is_1_1_04", "0012c240 W T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1104c000 0012c240 W T C",
     FAULT(DDP_TAGGED_VERSION)},
    {"write__ddp_version_3__is_1_1_04", "0012c340 W T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 1104c000 0012c340 W T C",
     FAULT(DDP_TAGGED_VERSION)},
    {"write__rdmap_version_0__is_0_2_05", "0012c100 W T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 0205c000 0012c100 W T C", FAULT(RDMAP_VERSION)},
    {"write__rdmap_version_2__is_0_2_05", "0012c180 W T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 0205c000 0012c180 W T C", FAULT(RDMAP_VERSION)},
    {"write__rdmap_version_3__is_0_2_05", "0012c1c0 W T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 0205c000 0012c1c0 W T C", FAULT(RDMAP_VERSION)},
    /* [RDMAP-7.2-05] */
    {"tagged__read_request__is_0_2_06", "0012c141 W T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 0206c000 0012c141 W T C", FAULT(RDMAP_OPCODE)},
    {"tagged__send__is_0_2_06", "0012c143 W T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 0206c000 0012c143 W T C", FAULT(RDMAP_OPCODE)},
    {"tagged__send_inv__is_0_2_06", "0012c144 W T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 0206c000 0012c144 W T C", FAULT(RDMAP_OPCODE)},
    {"tagged__send_se__is_0_2_06", "0012c145 W T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 0206c000 0012c145 W T C", FAULT(RDMAP_OPCODE)},
    {"tagged__send_se_inv__is_0_2_06", "0012c146 W T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 0206c000 0012c146 W T C", FAULT(RDMAP_OPCODE)},
    {"tagged__terminate__is_0_2_06", "0012c147 W T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 0206c000 0012c147 W T C", FAULT(RDMAP_OPCODE)},
    {"tagged__opcode_8__is_0_2_06", "0012c148 W T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 0206c000 0012c148 W T C", FAULT(RDMAP_OPCODE)},
    {"tagged__opcode_b__is_0_2_06", "0012c14b W T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 0206c000 0012c14b W T C", FAULT(RDMAP_OPCODE)},
    {"tagged__opcode_f__is_0_2_06", "0012c14f W T deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 0206c000 0012c14f W T C", FAULT(RDMAP_OPCODE)},
    {"read_response__no_read_outstanding__is_0_2_06", "0012c142 L Q+400 deadbeef C",
     "00264147 00000000 00000002 00000001 00000000 0206c000 0012c142 L Q+400 C",
     FAULT(RDMAP_READ_RESPONSE_UNEXPECTED)},
    {"read_response__empty_and_no_read_outstanding__is_0_2_06",
     "000ec142 00000000 00000000 00000000 6975d6ca",
     "00264147 00000000 00000002 00000001 00000000 0206c000 000ec142 00000000 00000000 "
     "00000000 944a0a55",
     FAULT(RDMAP_READ_RESPONSE_UNEXPECTED)},
    {"read_response__wrong_sink_stag__is_1_1_00", "010ec142 W T N66*256 C",
     "00264147 00000000 00000002 00000001 00000000 1100c000 010ec142 W T C",
     FAULT(READ_RESPONSE_STAG), .read = true},
    {"read_response__unknown_sink_stag__is_1_1_00", "010ec142 00010203 Q+400 N66*256 C",
     "00264147 00000000 00000002 00000001 00000000 1100c000 010ec142 00010203 Q+400 C",
     FAULT(READ_RESPONSE_STAG), .read = true},
    {"read_response__begins_before_its_sink__is_1_1_01", "010ec142 L Q+3ff N66*256 C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 010ec142 L Q+3ff C",
     FAULT(READ_RESPONSE_BOUNDS), .read = true},
    {"read_response__begins_behind_its_sink__is_1_1_01", "010ec142 L Q+401 N66*256 C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 010ec142 L Q+401 C",
     FAULT(READ_RESPONSE_BOUNDS), .read = true},
    {"read_response__too_long__is_1_1_01", "010fc142 L Q+400 N66*257 000000 C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 010fc142 L Q+400 C",
     FAULT(READ_RESPONSE_BOUNDS), .read = true},
    {"read_response__too_short__is_1_1_01", "010dc142 L Q+400 N66*255 00 C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 010dc142 L Q+400 C",
     FAULT(READ_RESPONSE_BOUNDS), .read = true},
    {"read_response__empty__is_1_1_01", "000ec142 L Q+400 C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 000ec142 L Q+400 C",
     FAULT(READ_RESPONSE_BOUNDS), .read = true},
    {"read_response__whole_but_not_last__is_1_1_01", "010e8142 L Q+400 N66*256 C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 010e8142 L Q+400 C",
     FAULT(READ_RESPONSE_BOUNDS), .read = true},
    {"read_response__gap_between_segments__is_1_1_01",
     "00728142 L Q+400 N66*100 C | 00a9c142 L Q+465 N66*155 00 C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 00a9c142 L Q+465 C",
     FAULT(READ_RESPONSE_BOUNDS), .read = true},
    {"read_response__same_octets_twice__is_1_1_01",
     "00728142 L Q+400 N66*100 C | 00aac142 L Q+400 N66*156 C",
     "00264147 00000000 00000002 00000001 00000000 1101c000 00aac142 L Q+400 C",
     FAULT(READ_RESPONSE_BOUNDS), .read = true},
    {"read_response__after_the_answer_was_whole__is_0_2_06",
     "010ec142 L Q+400 N66*256 C | 0012c142 L Q+400 N66*4 C",
     "00264147 00000000 00000002 00000001 00000000 0206c000 0012c142 L Q+400 C",
     FAULT(RDMAP_READ_RESPONSE_UNEXPECTED), .read = true, .read_done = true},
};

int main(void)
{
    return hostile_run("hostile_tagged", cases, sizeof cases / sizeof *cases);
}
