/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The steps of a program that connects queue pairs by number: INIT, RTR with the peer's address and
 * number, RTS. Each fails the test if it does not go as it should.
 */
#ifndef TESTS_COMPAT_NUMBERED_H
#define TESTS_COMPAT_NUMBERED_H

#include "loop.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* How a peer is named. Constant PSNs are what most programs have. */
struct naming {
    bool by_lid;
    uint16_t lid;
    int gid_index; /* of the peer's GID, which is this machine's, too */
    uint32_t rq_psn, sq_psn;
    uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
};

static const struct naming usual = {
    .rq_psn = 17, .sq_psn = 17, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 12};

static inline int try_rtr(struct ibv_qp *qp, uint32_t number, const struct naming *by)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
                            .path_mtu = IBV_MTU_1024,
                            .dest_qp_num = number,
                            .rq_psn = by->rq_psn,
                            .max_dest_rd_atomic = 4,
                            .min_rnr_timer = by->min_rnr_timer,
                            .ah_attr = {.port_num = 1, .dlid = by->lid}};

    if (!by->by_lid) {
        a.ah_attr.is_global = 1;
        a.ah_attr.grh.hop_limit = 1;
        a.ah_attr.grh.sgid_index = (uint8_t)by->gid_index;
        assert_int_equal(ibv_query_gid(qp->context, 1, by->gid_index, &a.ah_attr.grh.dgid), 0);
    }
    return ibv_modify_qp(qp, &a,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static inline void to_init(struct ibv_qp *qp)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
                            .port_num = 1,
                            .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                               IBV_ACCESS_REMOTE_ATOMIC};

    assert_int_equal(
        ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
}

static inline void to_rtr(struct ibv_qp *qp, uint32_t number, const struct naming *by)
{
    to_init(qp);
    assert_int_equal(try_rtr(qp, number, by), 0);
    assert_int_equal(qp->state, IBV_QPS_RTR);
}

static inline void to_rts(struct ibv_qp *qp, const struct naming *by)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS,
                            .timeout = by->timeout,
                            .retry_cnt = by->retry_cnt,
                            .rnr_retry = by->rnr_retry,
                            .sq_psn = by->sq_psn,
                            .max_rd_atomic = 3};

    assert_int_equal(ibv_modify_qp(qp, &a,
                                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
    assert_int_equal(qp->state, IBV_QPS_RTS);
}

static inline void to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr a = {.qp_state = state};

    assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE), 0);
}

static inline void name_each_other(struct loop *l, const struct naming *by)
{
    for (int i = 0; i < 2; i++) {
        to_rtr(l->qp[i], l->qp[!i]->qp_num, by);
        to_rts(l->qp[i], by);
    }
}

/* --- work ------------------------------------------------------------------------------------ */

static inline void post(struct loop *l, int side, uint64_t wr_id, enum ibv_wr_opcode opcode,
                        size_t at, uint32_t length)
{
    struct ibv_sge sge = loop_sge(l, side, at, length);
    struct ibv_send_wr *bad, wr = {.wr_id = wr_id,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = opcode,
                                   .send_flags = IBV_SEND_SIGNALED};

    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = (uintptr_t)l->memory[!side];
        wr.wr.atomic.rkey = l->mr[!side]->rkey;
        wr.wr.atomic.compare_add = 5;
    } else {
        wr.wr.rdma.remote_addr = (uintptr_t)l->memory[!side] + at;
        wr.wr.rdma.rkey = l->mr[!side]->rkey;
    }
    assert_int_equal(ibv_post_send(l->qp[side], &wr, &bad), 0);
}

static inline void fill_octets(uint8_t *p, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)(seed + i * 7 + (i >> 8));
    }
}

/* A Send, a Write and a Read of this side, compared octet by octet. */
static inline void exchange(struct loop *l, int side)
{
    enum { SEND = 3000, AT = 4096 };

    fill_octets(l->memory[side], LOOP_OCTETS, (unsigned)side + 3);
    memset(l->memory[!side], 0, LOOP_OCTETS);
    loop_recv(l, !side, 50, 0, SEND);
    post(l, side, 51, IBV_WR_SEND, 0, SEND);
    loop_expect(l, side, 51, IBV_WC_SEND);
    assert_int_equal(loop_expect(l, !side, 50, IBV_WC_RECV).byte_len, SEND);
    assert_memory_equal(l->memory[0], l->memory[1], SEND);
    post(l, side, 52, IBV_WR_RDMA_WRITE, AT, 1000);
    memset(l->memory[side] + AT + 2000, 0, 1000);
    fill_octets(l->memory[!side] + AT + 2000, 1000, 99);
    post(l, side, 53, IBV_WR_RDMA_READ, AT + 2000, 1000);
    loop_expect(l, side, 52, IBV_WC_RDMA_WRITE);
    loop_expect(l, side, 53, IBV_WC_RDMA_READ);
    assert_memory_equal(l->memory[0] + AT, l->memory[1] + AT, 1000);
    assert_memory_equal(l->memory[0] + AT + 2000, l->memory[1] + AT + 2000, 1000);
}

/* A child's failed assertion ends it, and so the test of its parent. */
static inline void run_in_child(int (*fn)(void *arg), void *arg)
{
    int status = -1;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL); /* cmocka has a handler of its own */
        setenv("CMOCKA_TEST_ABORT", "1", 1);
        alarm(LOOP_WAIT_MS / 1000);
        _exit(fn(arg));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* No completion of this side, now. */
static inline void quiet(struct loop *l, int side)
{
    struct ibv_wc wc;

    assert_int_equal(ibv_poll_cq(l->cq[side], 1, &wc), 0);
}

static inline void nap_ms(unsigned ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

#endif
