/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every kind of work request through ibv_post_send and ibv_post_recv: what arrives, what both
 * completions say; chains longer than what is translated at a time, and what is refused.
 */
#include "loop.h"

#include <arpa/inet.h>
#include <stdlib.h>

static const struct loop_options plain = {.max_inline = 64};

static void post(struct loop *l, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad = NULL;

    wr->send_flags |= IBV_SEND_SIGNALED;
    assert_int_equal(ibv_post_send(l->qp[0], wr, &bad), 0);
    assert_null(bad);
}

static void send__of_two_pieces__arrives_in_one_receive(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &plain);
    struct ibv_sge sge[2] = {loop_sge(&l, 0, 0, 3), loop_sge(&l, 0, 100, 4)};
    struct ibv_send_wr wr = {.wr_id = 7, .sg_list = sge, .num_sge = 2, .opcode = IBV_WR_SEND};
    memcpy(l.memory[0], "abc", 3);
    memcpy(l.memory[0] + 100, "defg", 4);
    loop_recv(&l, 1, 9, 50, 20);
    post(&l, &wr);
    struct ibv_wc wc = loop_expect(&l, 1, 9, IBV_WC_RECV);
    assert_int_equal(wc.byte_len, 7);
    assert_int_equal(wc.wc_flags, 0);
    assert_memory_equal(l.memory[1] + 50, "abcdefg", 7);
    (void)loop_expect(&l, 0, 7, IBV_WC_SEND);
    loop_close(&l);
}

static void send__inline__needs_no_region_and_is_copied_at_once(void **state)
{
    struct loop l;
    char text[] = "inline";

    (void)state;
    loop_open(&l, &plain);
    struct ibv_sge sge = {.addr = (uintptr_t)text, .length = 6};
    /* A bit that iWARP has no meaning for is passed over. */
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_INLINE | IBV_SEND_IP_CSUM};
    loop_recv(&l, 1, 1, 0, 20);
    post(&l, &wr);
    memset(text, 0, sizeof text);
    assert_int_equal(loop_expect(&l, 1, 1, IBV_WC_RECV).byte_len, 6);
    assert_memory_equal(l.memory[1], "inline", 6);
    loop_close(&l);
}

static void write_and_read__both_ways(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &plain);
    struct ibv_sge sge = loop_sge(&l, 0, 0, 4000);
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1};
    wr.wr.rdma.remote_addr = (uintptr_t)l.memory[1];
    wr.wr.rdma.rkey = l.mr[1]->rkey;
    memset(l.memory[0], 0x5a, 4000);
    wr.opcode = IBV_WR_RDMA_WRITE;
    post(&l, &wr);
    (void)loop_expect(&l, 0, 1, IBV_WC_RDMA_WRITE);
    sge.addr += 4000;
    wr.opcode = IBV_WR_RDMA_READ; /* behind the Write: it reads what that has written */
    wr.wr_id = 2;
    post(&l, &wr);
    assert_int_equal(loop_expect(&l, 0, 2, IBV_WC_RDMA_READ).byte_len, 4000);
    assert_memory_equal(l.memory[1], l.memory[0], 4000);
    assert_memory_equal(l.memory[0] + 4000, l.memory[0], 4000);
    loop_close(&l);
}

static void write_with_imm__takes_a_receive(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &plain);
    struct ibv_sge sge = loop_sge(&l, 0, 0, 10);
    struct ibv_send_wr wr = {.wr_id = 1,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .imm_data = htonl(0x01020304)};
    wr.wr.rdma.remote_addr = (uintptr_t)l.memory[1] + 5;
    wr.wr.rdma.rkey = l.mr[1]->rkey;
    memcpy(l.memory[0], "0123456789", 10);
    loop_recv(&l, 1, 9, 100, 10);
    post(&l, &wr);
    struct ibv_wc wc = loop_expect(&l, 1, 9, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
    assert_int_equal(ntohl(wc.imm_data), 0x01020304);
    assert_int_equal(wc.byte_len, 10);
    assert_memory_equal(l.memory[1] + 5, "0123456789", 10);
    assert_int_equal(l.memory[1][100], 0);
    (void)loop_expect(&l, 0, 1, IBV_WC_RDMA_WRITE);
    loop_close(&l);
}

static void atomics__change_the_word_and_give_what_it_was(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &plain);
    uint64_t *word = (void *)l.memory[1], *was = (void *)l.memory[0];
    struct ibv_sge sge = loop_sge(&l, 0, 0, 8);
    struct ibv_send_wr wr = {
        .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};
    wr.wr.atomic.remote_addr = (uintptr_t)word;
    wr.wr.atomic.rkey = l.mr[1]->rkey;
    wr.wr.atomic.compare_add = 5;
    *word = 0xffffffffu;
    post(&l, &wr);
    (void)loop_expect(&l, 0, 1, IBV_WC_FETCH_ADD);
    assert_int_equal(*was, 0xffffffffu);
    assert_int_equal(*word, 0x100000004u);

    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.wr.atomic.compare_add = 0x100000004u;
    wr.wr.atomic.swap = 77;
    post(&l, &wr);
    (void)loop_expect(&l, 0, 1, IBV_WC_COMP_SWAP);
    assert_int_equal(*was, 0x100000004u);
    assert_int_equal(*word, 77);
    post(&l, &wr); /* does not compare any more */
    (void)loop_expect(&l, 0, 1, IBV_WC_COMP_SWAP);
    assert_int_equal(*was, 77);
    assert_int_equal(*word, 77);
    loop_close(&l);
}

static void send_with_invalidate__makes_the_window_unusable(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &plain);
    struct ibv_mw *mw = ibv_alloc_mw(l.pd, IBV_MW_TYPE_2);
    assert_non_null(mw);
    struct ibv_send_wr *bad,
        wr = {.wr_id = 4,
              .opcode = IBV_WR_BIND_MW,
              .send_flags = IBV_SEND_SIGNALED,
              .bind_mw = {.mw = mw,
                          .rkey = ibv_inc_rkey(mw->rkey) & 0xff, /* no more of it counts */
                          .bind_info = {.mr = l.mr[1],
                                        .addr = (uintptr_t)l.memory[1] + 8,
                                        .length = 16,
                                        .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}}};
    uint32_t rkey = ibv_inc_rkey(mw->rkey);
    assert_int_equal(ibv_post_send(l.qp[1], &wr, &bad), 0);
    assert_int_equal(mw->rkey, rkey);
    (void)loop_expect(&l, 1, 4, IBV_WC_BIND_MW);

    struct ibv_sge sge = loop_sge(&l, 0, 0, 16);
    struct ibv_send_wr write = {
        .wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
    write.wr.rdma.remote_addr = (uintptr_t)l.memory[1] + 8;
    write.wr.rdma.rkey = rkey;
    memcpy(l.memory[0], "through a window", 16);
    struct ibv_send_wr send = {.wr_id = 6, .opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = rkey};
    loop_recv(&l, 1, 7, 0, 0);
    post(&l, &write);
    (void)loop_expect(&l, 0, 5, IBV_WC_RDMA_WRITE);
    post(&l, &send);
    struct ibv_wc wc = loop_expect(&l, 1, 7, IBV_WC_RECV);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
    assert_int_equal(wc.invalidated_rkey, rkey);
    assert_memory_equal(l.memory[1] + 8, "through a window", 16);
    (void)loop_expect(&l, 0, 6, IBV_WC_SEND);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    loop_close(&l);
}

static void bind_mw__of_type_1__is_a_call_of_its_own(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &plain);
    struct ibv_mw *mw = ibv_alloc_mw(l.pd, IBV_MW_TYPE_1);
    assert_non_null(mw);
    uint32_t before = mw->rkey;
    struct ibv_mw_bind bind = {.wr_id = 3,
                               .send_flags = IBV_SEND_SIGNALED,
                               .bind_info = {.mr = l.mr[1],
                                             .addr = (uintptr_t)l.memory[1],
                                             .length = 8,
                                             .mw_access_flags = IBV_ACCESS_REMOTE_READ}};
    assert_int_equal(ibv_bind_mw(l.qp[1], mw, &bind), 0);
    assert_int_not_equal(mw->rkey, before);
    (void)loop_expect(&l, 1, 3, IBV_WC_BIND_MW);
    memcpy(l.memory[1], "readable", 8);
    struct ibv_sge sge = loop_sge(&l, 0, 0, 8);
    struct ibv_send_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ};
    wr.wr.rdma.remote_addr = (uintptr_t)l.memory[1];
    wr.wr.rdma.rkey = mw->rkey;
    post(&l, &wr);
    (void)loop_expect(&l, 0, 5, IBV_WC_RDMA_READ);
    assert_memory_equal(l.memory[0], "readable", 8);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    loop_close(&l);
}

/* As all requests of a queue pair that was made so. */
static void bind_mw__unsignaled__completes_if_all_are_signaled(void **state)
{
    const struct loop_options all = {.max_inline = 32, .sig_all = true};
    struct loop l;

    (void)state;
    loop_open(&l, &all);
    struct ibv_mw *mw = ibv_alloc_mw(l.pd, IBV_MW_TYPE_1);
    assert_non_null(mw);
    struct ibv_mw_bind bind = {.wr_id = 3,
                               .bind_info = {.mr = l.mr[1],
                                             .addr = (uintptr_t)l.memory[1],
                                             .length = 8,
                                             .mw_access_flags = IBV_ACCESS_REMOTE_READ}};
    assert_int_equal(ibv_bind_mw(l.qp[1], mw, &bind), 0);
    (void)loop_expect(&l, 1, 3, IBV_WC_BIND_MW);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    loop_close(&l);
}

/* Into as many pieces as the queue pair has been made for, in two regions: one completion. */
static void read__into_two_pieces__is_one_request(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &plain);
    struct ibv_mr *mr = ibv_reg_mr(l.pd, l.memory[0], 100, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
    struct ibv_sge sge[2] = {loop_sge(&l, 0, 400, 4), {(uintptr_t)l.memory[0] + 90, 5, mr->lkey}};
    struct ibv_send_wr wr = {.wr_id = 5, .sg_list = sge, .num_sge = 2, .opcode = IBV_WR_RDMA_READ};
    wr.wr.rdma.remote_addr = (uintptr_t)l.memory[1];
    wr.wr.rdma.rkey = l.mr[1]->rkey;
    memcpy(l.memory[1], "scattered", 9);
    post(&l, &wr);
    assert_int_equal(loop_expect(&l, 0, 5, IBV_WC_RDMA_READ).byte_len, 9);
    assert_memory_equal(l.memory[0] + 400, "scat\0", 5);
    assert_memory_equal(l.memory[0] + 90, "tered\0", 6);
    struct ibv_wc wc;
    assert_int_equal(ibv_poll_cq(l.cq[0], 1, &wc), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    loop_close(&l);
}

/* A region of 1 octet and an SGE of 4 in it: a message of 1 octet fits, one of 2 does not. */
static void receive__beyond_its_region__takes_what_fits(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &plain);
    struct ibv_mr *mr = ibv_reg_mr(l.pd, l.memory[1], 1, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
    for (uint32_t len = 1; len <= 2; len++) {
        struct ibv_sge sink = {(uintptr_t)l.memory[1], 4, mr->lkey}, sge = loop_sge(&l, 0, 0, len);
        struct ibv_recv_wr receive = {.wr_id = len, .sg_list = &sink, .num_sge = 1}, *bad = NULL;
        struct ibv_send_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
        memcpy(l.memory[0], "XY", 2);
        assert_int_equal(ibv_post_recv(l.qp[1], &receive, &bad), 0);
        post(&l, &wr);
        struct ibv_wc wc = loop_wc(&l, 1);
        assert_int_equal(wc.wr_id, len);
        assert_int_equal(wc.status, len == 1 ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
    }
    assert_memory_equal(l.memory[1], "X\0", 2);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    loop_close(&l);
}

/* Only the receive that was too short says so: those behind it are flushed. */
static void receive__shorter_than_the_message__is_a_length_error(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        const struct loop_options o = {.srq = i == 1};
        struct loop l;
        loop_open(&l, &o);
        struct ibv_sge sge = loop_sge(&l, 0, 0, 6);
        struct ibv_send_wr wr = {.wr_id = 9, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
        loop_recv(&l, 1, 1, 0, 4);
        loop_recv(&l, 1, 2, 0, 4);
        post(&l, &wr);
        struct ibv_wc wc = loop_wc(&l, 1);
        assert_int_equal(wc.wr_id, 1);
        assert_int_equal(wc.status, IBV_WC_LOC_LEN_ERR);
        if (!o.srq) {
            assert_int_equal(loop_wc(&l, 1).status, IBV_WC_WR_FLUSH_ERR);
        }
        loop_close(&l);
    }
}

/* A Read of nothing goes behind each Write, and the Write completes with its response. */
static void write__confirmed_on_request__is_in_the_peers_memory(void **state)
{
    (void)state;
    for (unsigned on = 0; on < 2; on++) {
        struct iwarp_qp_stats stats = {.size = sizeof stats};
        struct loop l;
        assert_int_equal(setenv("IWARP_CONFIRM_WRITES", on ? "on" : "off", 1), 0);
        loop_open(&l, &plain);
        for (unsigned i = 0; i < 50; i++) {
            struct ibv_sge sge = loop_sge(&l, 0, 0, LOOP_OCTETS);
            struct ibv_send_wr wr = {
                .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
            wr.wr.rdma.remote_addr = (uintptr_t)l.memory[1];
            wr.wr.rdma.rkey = l.mr[1]->rkey;
            memset(l.memory[0], (int)i + 1, LOOP_OCTETS);
            post(&l, &wr);
            (void)loop_expect(&l, 0, i, IBV_WC_RDMA_WRITE);
            if (on) {
                assert_memory_equal(l.memory[0], l.memory[1], LOOP_OCTETS);
            }
        }
        assert_int_equal(iwarp_qp_stats(compat_qp(l.qp[0])->native, &stats), IWARP_OK);
        /* The start-up sends one, too. */
        assert_in_range(stats.sent.messages[IWARP_OP_READ_REQUEST], on * 50, on * 50 + 1);
        loop_close(&l);
    }
    assert_int_equal(unsetenv("IWARP_CONFIRM_WRITES"), 0);
}

/* Many programs know nothing of the RNICs' rule; theirs is to see whether they keep it. */
static void read__into_a_region_without_remote_write__is_refused_on_request(void **state)
{
    (void)state;
    for (int strict = 0; strict < 2; strict++) {
        struct ibv_send_wr *bad = NULL;
        struct loop l;
        if (strict) {
            assert_int_equal(setenv("IWARP_READ_SINK", "remote", 1), 0);
        }
        loop_open(&l, &plain);
        struct ibv_mr *mr = ibv_reg_mr(l.pd, l.memory[0], 8, IBV_ACCESS_LOCAL_WRITE);
        assert_non_null(mr);
        struct ibv_sge sge = {(uintptr_t)l.memory[0], 8, mr->lkey};
        struct ibv_send_wr wr = {
            .wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ};
        wr.wr.rdma.remote_addr = (uintptr_t)l.memory[1];
        wr.wr.rdma.rkey = l.mr[1]->rkey;
        memcpy(l.memory[1], "readable", 8);
        if (strict) {
            assert_int_equal(ibv_post_send(l.qp[0], &wr, &bad), EINVAL);
            assert_ptr_equal(bad, &wr);
            assert_non_null(strstr(iwarp_last_error(), "does not allow REMOTE_WRITE"));
            sge.lkey = l.mr[0]->lkey;
        }
        post(&l, &wr);
        (void)loop_expect(&l, 0, 5, IBV_WC_RDMA_READ);
        assert_memory_equal(l.memory[0], "readable", 8);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        loop_close(&l);
    }
    assert_int_equal(unsetenv("IWARP_READ_SINK"), 0);
}

/* More than are translated at a time, and more than the queue holds: *bad is the first too many. */
static void chain__longer_than_the_queue__stops_where_it_is_full(void **state)
{
    enum { MANY = 40 };
    const struct loop_options unconnected = {.unconnected = true};
    struct ibv_send_wr wr[MANY], *bad = NULL;
    struct ibv_recv_wr receive[MANY], *bad_receive = NULL;
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    atomic_store(&compat_qp(l.qp[0])->connecting, true); /* on its way: what is posted waits */
    memset(wr, 0, sizeof wr);
    memset(receive, 0, sizeof receive);
    for (int i = 0; i < MANY; i++) {
        receive[i].wr_id = wr[i].wr_id = (uint64_t)i;
        receive[i].next = i + 1 < MANY ? &receive[i + 1] : NULL;
        wr[i].next = i + 1 < MANY ? &wr[i + 1] : NULL;
        wr[i].opcode = IBV_WR_SEND;
        wr[i].send_flags = IBV_SEND_SIGNALED;
    }
    assert_int_equal(ibv_post_recv(l.qp[1], receive, &bad_receive), ENOMEM);
    assert_ptr_equal(bad_receive, &receive[16]);
    assert_int_equal(ibv_post_send(l.qp[0], wr, &bad), ENOMEM);
    assert_ptr_equal(bad, &wr[16]);
    loop_connect(&l);
    for (int i = 0; i < 16; i++) {
        (void)loop_expect(&l, 1, (uint64_t)i, IBV_WC_RECV);
        (void)loop_expect(&l, 0, (uint64_t)i, IBV_WC_SEND);
    }
    loop_close(&l);
}

static void post__of_what_iwarp_has_not__is_refused_and_the_rest_before_it_goes(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &plain);
    struct ibv_send_wr no = {.opcode = IBV_WR_SEND_WITH_IMM}, *bad = NULL;
    struct ibv_send_wr yes = {.wr_id = 1, .next = &no, .opcode = IBV_WR_SEND};
    yes.send_flags = IBV_SEND_SIGNALED;
    loop_recv(&l, 1, 2, 0, 0);
    assert_int_equal(ibv_post_send(l.qp[0], &yes, &bad), EINVAL);
    assert_ptr_equal(bad, &no);
    (void)loop_expect(&l, 1, 2, IBV_WC_RECV);
    (void)loop_expect(&l, 0, 1, IBV_WC_SEND);
    no.opcode = IBV_WR_TSO;
    assert_int_equal(ibv_post_send(l.qp[0], &no, &bad), EINVAL);
    loop_close(&l);
}

static void post__before_connecting__is_refused_and_after_the_end_flushed(void **state)
{
    const struct loop_options unconnected = {.unconnected = true};
    struct ibv_send_wr wr = {.wr_id = 3, .opcode = IBV_WR_SEND}, *bad = NULL;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    wr.send_flags = IBV_SEND_SIGNALED;
    assert_int_equal(ibv_post_send(l.qp[0], &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    loop_recv(&l, 0, 1, 0, 4); /* receives may wait */
    assert_int_equal(ibv_modify_qp(l.qp[0], &attr, IBV_QP_STATE), 0);
    assert_int_equal(l.qp[0]->state, IBV_QPS_ERR);
    struct ibv_wc wc = loop_wc(&l, 0);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(wc.wr_id, 1);
    assert_int_equal(ibv_post_send(l.qp[0], &wr, &bad), 0);
    wc = loop_wc(&l, 0);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(wc.wr_id, 3);
    loop_close(&l);
}

static void srq__serves_the_queue_pair_and_tells_of_its_limit(void **state)
{
    const struct loop_options with_srq = {.srq = true};
    struct ibv_srq_attr attr = {.srq_limit = 1};
    struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND};
    struct ibv_async_event event;
    struct loop l;

    (void)state;
    loop_open(&l, &with_srq);
    loop_recv(&l, 1, 2, 0, 0);
    assert_int_equal(ibv_modify_srq(l.srq, &attr, IBV_SRQ_LIMIT), 0);
    post(&l, &wr);
    (void)loop_expect(&l, 1, 2, IBV_WC_RECV);
    assert_int_equal(ibv_get_async_event(l.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    assert_ptr_equal(event.element.srq, l.srq);
    ibv_ack_async_event(&event);
    assert_int_equal(ibv_query_srq(l.srq, &attr), 0);
    assert_int_equal(attr.max_wr, 16);
    assert_int_equal(attr.srq_limit, 0);
    assert_int_equal(ibv_destroy_srq(l.srq), EBUSY);
    loop_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send__of_two_pieces__arrives_in_one_receive),
        cmocka_unit_test(send__inline__needs_no_region_and_is_copied_at_once),
        cmocka_unit_test(write_and_read__both_ways),
        cmocka_unit_test(write_with_imm__takes_a_receive),
        cmocka_unit_test(atomics__change_the_word_and_give_what_it_was),
        cmocka_unit_test(send_with_invalidate__makes_the_window_unusable),
        cmocka_unit_test(bind_mw__of_type_1__is_a_call_of_its_own),
        cmocka_unit_test(bind_mw__unsignaled__completes_if_all_are_signaled),
        cmocka_unit_test(read__into_two_pieces__is_one_request),
        cmocka_unit_test(receive__beyond_its_region__takes_what_fits),
        cmocka_unit_test(receive__shorter_than_the_message__is_a_length_error),
        cmocka_unit_test(write__confirmed_on_request__is_in_the_peers_memory),
        cmocka_unit_test(read__into_a_region_without_remote_write__is_refused_on_request),
        cmocka_unit_test(chain__longer_than_the_queue__stops_where_it_is_full),
        cmocka_unit_test(post__of_what_iwarp_has_not__is_refused_and_the_rest_before_it_goes),
        cmocka_unit_test(post__before_connecting__is_refused_and_after_the_end_flushed),
        cmocka_unit_test(srq__serves_the_queue_pair_and_tells_of_its_limit),
    };

    return cmocka_run_group_tests_name("verbs_post", tests, NULL, NULL);
}
