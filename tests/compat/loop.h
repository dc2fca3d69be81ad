/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two queue pairs of the drop-in libibverbs, connected with each other: created and used by the
 * ibv_* calls alone; only the connection between them is the native one, so that these tests need
 * no connection manager. Linked with the shared libraries, as a program is.
 */
#ifndef TESTS_COMPAT_LOOP_H
#define TESTS_COMPAT_LOOP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compat/compat.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define LOOP_WAIT_MS 90000
#define LOOP_OCTETS  8192

struct loop {
    struct ibv_context *context;
    struct ibv_comp_channel *channel;
    struct ibv_pd *pd;
    struct ibv_cq *cq[2]; /* of each side, for both its queues, with the channel */
    struct ibv_srq *srq;  /* of side 1, if wanted */
    struct ibv_qp *qp[2];
    struct ibv_mr *mr[2]; /* all rights */
    struct iwarp_conn *conn[2];
    _Alignas(8) uint8_t memory[2][LOOP_OCTETS];
};

struct loop_options {
    bool srq, extended, unconnected, datagrams, sig_all;
    unsigned max_inline;
    uint64_t more_operations;
};

static const uint64_t loop_operations =
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
    IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
    IBV_QP_EX_WITH_SEND_WITH_INV;

static inline struct ibv_context *loop_context(void)
{
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);

    assert_non_null(list);
    assert_int_equal(n, 1);
    assert_null(list[1]);
    struct ibv_context *context = ibv_open_device(list[0]);
    assert_non_null(context);
    ibv_free_device_list(list);
    return context;
}

static inline struct ibv_qp *loop_qp(struct loop *l, int side, const struct loop_options *o)
{
    struct ibv_qp_init_attr_ex a = {
        .qp_context = l,
        .send_cq = l->cq[side],
        .recv_cq = l->cq[side],
        .srq = side ? l->srq : NULL,
        .cap = {.max_send_wr = 16,
                .max_recv_wr = 16,
                .max_send_sge = 2,
                .max_recv_sge = 2,
                .max_inline_data = o->max_inline},
        .qp_type = o->datagrams ? IBV_QPT_UD : IBV_QPT_RC,
        .sq_sig_all = o->sig_all,
        .comp_mask = IBV_QP_INIT_ATTR_PD | (o->extended ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0u),
        .pd = l->pd,
        .send_ops_flags = o->extended ? loop_operations | o->more_operations : 0,
    };

    return ibv_create_qp_ex(l->context, &a);
}

static inline void loop_connect(struct loop *l)
{
    for (int i = 0; i < 2; i++) {
        atomic_store(&compat_qp(l->qp[i])->connecting, true);
    }
    assert_int_equal(iwarp_connect_pair(compat_qp(l->qp[0])->native, compat_qp(l->qp[1])->native,
                                        NULL, NULL, &l->conn[0], &l->conn[1]),
                     IWARP_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(iwarp_conn_wait(l->conn[i], LOOP_WAIT_MS), IWARP_OK);
    }
}

static inline void loop_open(struct loop *l, const struct loop_options *o)
{
    const unsigned all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                         IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 16, .max_sge = 2}};

    memset(l, 0, sizeof *l);
    l->context = loop_context();
    l->channel = ibv_create_comp_channel(l->context);
    assert_non_null(l->channel);
    l->pd = ibv_alloc_pd(l->context);
    assert_non_null(l->pd);
    l->srq = o->srq ? ibv_create_srq(l->pd, &srq) : NULL;
    for (int i = 0; i < 2; i++) {
        l->cq[i] = ibv_create_cq(l->context, 64, &l->cq[i], l->channel, 0);
        assert_non_null(l->cq[i]);
        l->qp[i] = loop_qp(l, i, o);
        assert_non_null(l->qp[i]);
        l->mr[i] = ibv_reg_mr(l->pd, l->memory[i], LOOP_OCTETS, all);
        assert_non_null(l->mr[i]);
    }
    if (!o->unconnected) {
        loop_connect(l);
    }
}

/* Everything goes, in the order of a tidy program, and each call says that it is well. */
static inline void loop_close(struct loop *l)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_destroy_qp(l->qp[i]), 0);
        if (l->conn[i]) {
            assert_int_equal(iwarp_conn_destroy(l->conn[i]), IWARP_OK);
        }
        assert_int_equal(ibv_destroy_cq(l->cq[i]), 0);
        assert_int_equal(ibv_dereg_mr(l->mr[i]), 0);
    }
    if (l->srq) {
        assert_int_equal(ibv_destroy_srq(l->srq), 0);
    }
    assert_int_equal(ibv_dealloc_pd(l->pd), 0);
    assert_int_equal(ibv_destroy_comp_channel(l->channel), 0);
    assert_int_equal(ibv_close_device(l->context), 0);
}

/* The next completion of a side. */
static inline struct ibv_wc loop_wc(struct loop *l, int side)
{
    const struct timespec nap = {.tv_nsec = 200000};
    struct ibv_wc wc;

    memset(&wc, 0xee, sizeof wc);
    for (int i = 0; i < LOOP_WAIT_MS * 5; i++) {
        int n = ibv_poll_cq(l->cq[side], 1, &wc);
        assert_true(n >= 0);
        if (n == 1) {
            return wc;
        }
        nanosleep(&nap, NULL);
    }
    fail_msg("no completion at side %d", side);
    return wc;
}

static inline struct ibv_wc loop_expect(struct loop *l, int side, uint64_t wr_id,
                                        enum ibv_wc_opcode opcode)
{
    struct ibv_wc wc = loop_wc(l, side);

    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.wr_id, wr_id);
    assert_int_equal(wc.opcode, opcode);
    assert_int_equal(wc.qp_num, l->qp[side]->qp_num);
    return wc;
}

/* One piece of a side's memory. */
static inline struct ibv_sge loop_sge(struct loop *l, int side, size_t at, uint32_t length)
{
    return (struct ibv_sge){
        .addr = (uintptr_t)(l->memory[side] + at), .length = length, .lkey = l->mr[side]->lkey};
}

static inline void loop_recv(struct loop *l, int side, uint64_t wr_id, size_t at, uint32_t length)
{
    struct ibv_sge sge = loop_sge(l, side, at, length);
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;

    if (side && l->srq) {
        assert_int_equal(ibv_post_srq_recv(l->srq, &wr, &bad), 0);
    } else {
        assert_int_equal(ibv_post_recv(l->qp[side], &wr, &bad), 0);
    }
    assert_null(bad);
}

#endif
