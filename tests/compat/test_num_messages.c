/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What queue pairs connected by number have agreed on without a word of the program: messages wait
 * for their receives as long as both ends' attributes say, and Sends carry Immediate Data.
 */
#include "numbered.h"

#include <arpa/inet.h>

static const struct loop_options unconnected = {.unconnected = true};
static const struct loop_options shared = {.unconnected = true, .srq = true};

static void send_imm(struct loop *l, int side, uint32_t length, uint32_t imm)
{
    struct ibv_sge sge = loop_sge(l, side, 0, length);
    struct ibv_send_wr *bad, wr = {.wr_id = 7,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_SEND_WITH_IMM,
                                   .imm_data = htonl(imm),
                                   .send_flags = IBV_SEND_SIGNALED};

    assert_int_equal(ibv_post_send(l->qp[side], &wr, &bad), 0);
}

static void send_imm__either_way_and_to_itself__arrives(void **state)
{
    (void)state;
    for (int side = 0; side < 4; side++) {
        const int from = side % 2, to = side < 2 ? !from : from;
        struct loop l;
        loop_open(&l, &unconnected);
        if (from == to) {
            to_rtr(l.qp[to], l.qp[to]->qp_num, &usual);
            to_rts(l.qp[to], &usual);
        } else {
            name_each_other(&l, &usual);
        }
        loop_recv(&l, to, 8, 4096, 100);
        send_imm(&l, from, 100, 0xcafe0001);
        for (int n = 0; n < 2; n++) { /* in either order, if they are of one queue */
            struct ibv_wc wc = loop_wc(&l, from == to || n ? to : from);
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            if (wc.wr_id == 8) {
                assert_int_equal(wc.byte_len, 100);
                assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
                assert_int_equal(ntohl(wc.imm_data), 0xcafe0001);
            }
        }
        loop_close(&l);
    }
}

/* One of the two sides has begun the connection, and the other has answered. */
static void receive__that_comes_late__is_waited_for(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        const int from = i % 2;
        struct loop l;
        loop_open(&l, i < 2 ? &unconnected : &shared);
        name_each_other(&l, &usual);
        fill_octets(l.memory[from], 500, 5);
        post(&l, from, 1, IBV_WR_SEND, 0, 500);
        loop_expect(&l, from, 1, IBV_WC_SEND);
        nap_ms(100);
        quiet(&l, !from);
        loop_recv(&l, !from, 2, 0, 500);
        assert_int_equal(loop_expect(&l, !from, 2, IBV_WC_RECV).byte_len, 500);
        assert_memory_equal(l.memory[0], l.memory[1], 500);
        loop_close(&l);
    }
}

/* By the sender's rnr_retry and the receiver's min_rnr_timer: 0, or 3 times 0.64 ms. */
static void receive__that_comes_too_late__is_flushed(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct naming by[2] = {usual, usual};
        const int from = i % 2;
        struct ibv_wc wc;
        struct loop l;
        by[from].rnr_retry = i < 2 ? 0 : 3;
        by[from].min_rnr_timer = 0; /* would be 655 ms for each */
        loop_open(&l, &unconnected);
        for (int side = 0; side < 2; side++) {
            to_rtr(l.qp[side], l.qp[!side]->qp_num, &by[side]);
            to_rts(l.qp[side], &by[side]);
        }
        post(&l, !from, 1, IBV_WR_RDMA_WRITE, 0,
             8); /* they are connected, and know of each other */
        loop_expect(&l, !from, 1, IBV_WC_RDMA_WRITE);
        post(&l, from, 2, IBV_WR_SEND, 0, 500);
        nap_ms(200);
        loop_recv(&l, !from, 3, 0, 500);
        wc = loop_wc(&l, !from);
        assert_int_equal(wc.wr_id, 3);
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        loop_close(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send_imm__either_way_and_to_itself__arrives),
        cmocka_unit_test(receive__that_comes_late__is_waited_for),
        cmocka_unit_test(receive__that_comes_too_late__is_flushed),
    };

    return cmocka_run_group_tests_name("num_messages", tests, NULL, NULL);
}
