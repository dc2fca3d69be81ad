/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends with Immediate Data in the drop-in libibverbs, where the device asks for them: by
 * ibv_post_send and by the extended calls, into a queue of its own and an SRQ. The process has one
 * device, so what is refused without them is in test_verbs_post and test_verbs_wr.
 */
#include "loop.h"

#include <arpa/inet.h>
#include <stdlib.h>

/* From an SRQ, in a chain with an ordinary Send. */
static void post__with_imm__arrives(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        const struct loop_options options = {.srq = i != 0};
        struct loop l;
        loop_open(&l, &options);
        struct ibv_sge sge = loop_sge(&l, 0, 0, 300);
        struct ibv_send_wr ordinary = {.wr_id = 2, .opcode = IBV_WR_SEND}, *bad = NULL;
        struct ibv_send_wr with_imm = {.wr_id = 1,
                                       .next = &ordinary,
                                       .sg_list = &sge,
                                       .num_sge = 1,
                                       .opcode = IBV_WR_SEND_WITH_IMM,
                                       .imm_data = htonl(0xfedcba98)};
        ordinary.send_flags = with_imm.send_flags = IBV_SEND_SIGNALED;
        memset(l.memory[0], 0x37, 300);
        loop_recv(&l, 1, 8, 0, 300);
        loop_recv(&l, 1, 9, 0, 0);
        assert_int_equal(ibv_post_send(l.qp[0], &with_imm, &bad), 0);
        struct ibv_wc wc = loop_expect(&l, 1, 8, IBV_WC_RECV);
        assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
        assert_int_equal(ntohl(wc.imm_data), 0xfedcba98);
        assert_int_equal(wc.byte_len, 300);
        assert_memory_equal(l.memory[1], l.memory[0], 300);
        assert_int_equal(loop_expect(&l, 1, 9, IBV_WC_RECV).wc_flags, 0);
        (void)loop_expect(&l, 0, 1, IBV_WC_SEND);
        (void)loop_expect(&l, 0, 2, IBV_WC_SEND);
        loop_close(&l);
    }
}

static void wr__send_imm__arrives(void **state)
{
    const struct loop_options options = {
        .extended = true, .max_inline = 8, .more_operations = IBV_QP_EX_WITH_SEND_WITH_IMM};
    struct loop l;

    (void)state;
    loop_open(&l, &options);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(l.qp[0]);
    loop_recv(&l, 1, 100, 0, 16);
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
    qp->wr_id = 1;
    ibv_wr_send_imm(qp, htonl(0x01020304));
    ibv_wr_set_inline_data(qp, (char[]){"five"}, 5);
    assert_int_equal(ibv_wr_complete(qp), 0);
    (void)loop_expect(&l, 0, 1, IBV_WC_SEND);
    struct ibv_wc wc = loop_expect(&l, 1, 100, IBV_WC_RECV);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
    assert_int_equal(ntohl(wc.imm_data), 0x01020304);
    assert_int_equal(wc.byte_len, 5);
    assert_string_equal((char *)l.memory[1], "five");
    loop_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(post__with_imm__arrives),
        cmocka_unit_test(wr__send_imm__arrives),
    };

    setenv("IWARP_SEND_IMM", "1", 1);
    return cmocka_run_group_tests_name("verbs_send_imm", tests, NULL, NULL);
}
