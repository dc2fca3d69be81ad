/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: what they report when created, which transitions iWARP takes and which it refuses,
 * what is told when a stream breaks, finding them by number, and a process that forks.
 */
#include "loop.h"

#include "../support/child.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct loop_options plain = {.max_inline = 0};
static const struct loop_options unconnected = {.unconnected = true, .max_inline = 20};

static struct ibv_qp_attr query(struct ibv_qp *qp, struct ibv_qp_init_attr *init)
{
    struct ibv_qp_attr attr;

    memset(&attr, 0xee, sizeof attr);
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP, init), 0);
    assert_int_equal(attr.qp_state, qp->state);
    return attr;
}

static int to(struct ibv_qp *qp, enum ibv_qp_state state, int more)
{
    struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1};

    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | more);
}

static void create__a_fresh_one__is_in_init_with_what_was_asked_for(void **state)
{
    struct ibv_qp_init_attr init;
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    assert_int_equal(l.qp[0]->state, IBV_QPS_RESET); /* until somebody asks */
    struct ibv_qp_attr attr = query(l.qp[0], &init);
    assert_int_equal(attr.qp_state, IBV_QPS_INIT);
    assert_int_equal(attr.cap.max_send_wr, 16);
    assert_int_equal(attr.cap.max_send_sge, 2);
    assert_true(attr.cap.max_inline_data >= 20);
    assert_int_equal(attr.timeout, 0);
    assert_ptr_equal(init.qp_context, &l);
    assert_ptr_equal(init.send_cq, l.cq[0]);
    assert_int_equal(init.qp_type, IBV_QPT_RC);
    assert_int_not_equal(l.qp[0]->qp_num, l.qp[1]->qp_num);
    for (int i = 0; i < 2; i++) {
        assert_ptr_equal(iwarp_compat_qp_find(l.qp[i]->qp_num), compat_qp(l.qp[i]));
    }
    uint32_t gone = l.qp[0]->qp_num;
    assert_int_equal(ibv_destroy_qp(l.qp[0]), 0);
    assert_null(iwarp_compat_qp_find(gone));
    l.qp[0] = loop_qp(&l, 0, &unconnected);
    loop_close(&l);
}

static void create__of_what_iwarp_has_not__is_refused(void **state)
{
    static const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND,
                                             IBV_QPT_XRC_RECV, IBV_QPT_DRIVER};
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    struct ibv_qp_init_attr a = {
        .send_cq = l.cq[0], .recv_cq = l.cq[0], .cap = {.max_send_wr = 1, .max_recv_wr = 1}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        a.qp_type = types[i];
        errno = 0;
        assert_null(ibv_create_qp(l.pd, &a));
        assert_int_equal(errno, EOPNOTSUPP);
    }
    a.qp_type = IBV_QPT_RC;
    a.cap.max_inline_data = 5000;
    assert_null(ibv_create_qp(l.pd, &a));
    assert_int_equal(errno, EINVAL);
    a.cap.max_inline_data = 0;
    a.cap.max_send_sge = 33;
    assert_null(ibv_create_qp(l.pd, &a));
    assert_int_equal(errno, EINVAL);
    a.cap.max_send_sge = 0;
    a.cap.max_send_wr = 0;
    struct ibv_qp *qp = ibv_create_qp(l.pd, &a); /* nothing is at least one */
    assert_non_null(qp);
    assert_int_equal(a.cap.max_send_wr, 1);
    assert_int_equal(a.cap.max_send_sge, 1);
    assert_int_equal(ibv_dealloc_pd(l.pd), EBUSY);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    loop_close(&l);
}

/* Half of what names a peer is no name: test_num.c has those that name one. */
static void modify__without_a_connection__goes_as_far_as_rtr(void **state)
{
    struct ibv_qp_attr none = {.qp_state = IBV_QPS_RTS};
    struct ibv_qp_init_attr init;
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    struct ibv_qp *qp = l.qp[0];
    assert_int_equal(ibv_modify_qp(qp, &none, 0), 0);
    assert_int_equal(to(qp, IBV_QPS_INIT, IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
    assert_int_equal(to(qp, IBV_QPS_RTR, IBV_QP_DEST_QPN), EINVAL);
    assert_int_equal(to(qp, IBV_QPS_RTR, IBV_QP_AV), EINVAL);
    assert_int_equal(qp->state, IBV_QPS_INIT);
    assert_int_equal(to(qp, IBV_QPS_RTR, IBV_QP_ACCESS_FLAGS), 0);
    assert_int_equal(qp->state, IBV_QPS_RTR);
    assert_int_equal(to(qp, IBV_QPS_RTS, 0), EINVAL);
    assert_int_equal(to(qp, IBV_QPS_SQD, 0), EINVAL);
    assert_int_equal(to(qp, IBV_QPS_SQE, 0), EINVAL);
    none.port_num = 2;
    assert_int_equal(ibv_modify_qp(qp, &none, IBV_QP_PORT), EINVAL);
    assert_int_equal(to(qp, IBV_QPS_ERR, 0), 0);
    assert_int_equal(to(qp, IBV_QPS_ERR, 0), 0);
    assert_int_equal(to(qp, IBV_QPS_RESET, 0), 0);
    assert_int_equal(query(qp, &init).qp_state, IBV_QPS_RESET);
    assert_int_equal(to(qp, IBV_QPS_INIT, 0), 0);
    loop_connect(&l); /* after all that it still can */
    loop_close(&l);
}

static void modify__connected__closes_in_order_and_begins_anew(void **state)
{
    struct ibv_qp_init_attr init;
    struct loop l;

    (void)state;
    loop_open(&l, &plain);
    assert_int_equal(query(l.qp[0], &init).qp_state, IBV_QPS_RTS);
    assert_int_equal(to(l.qp[0], IBV_QPS_RTS, 0), 0);
    assert_int_equal(to(l.qp[0], IBV_QPS_RESET, 0), EINVAL);
    assert_int_equal(to(l.qp[0], IBV_QPS_INIT, 0), 0); /* as after rdma_connect: no change */
    assert_int_equal(query(l.qp[0], &init).qp_state, IBV_QPS_RTS);
    assert_int_equal(to(l.qp[0], IBV_QPS_SQD, 0), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(iwarp_conn_wait_end(l.conn[i], LOOP_WAIT_MS), IWARP_OK);
        assert_int_equal(query(l.qp[i], &init).qp_state, IBV_QPS_ERR);
        assert_int_equal(to(l.qp[i], IBV_QPS_RESET, 0), 0);
        assert_int_equal(iwarp_conn_destroy(l.conn[i]), IWARP_OK);
    }
    loop_connect(&l);
    loop_close(&l);
}

static void access__withheld_by_the_queue_pair__breaks_the_stream_and_is_told(void **state)
{
    struct ibv_qp_attr rights = {.qp_access_flags = IBV_ACCESS_REMOTE_READ};
    struct ibv_async_event event;
    struct ibv_send_wr *bad;
    struct loop l;

    (void)state;
    loop_open(&l, &plain);
    assert_int_equal(ibv_modify_qp(l.qp[1], &rights, IBV_QP_ACCESS_FLAGS), 0);
    struct ibv_sge sge = loop_sge(&l, 0, 0, 8);
    struct ibv_send_wr wr = {
        .wr_id = 3, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
    wr.wr.rdma.remote_addr = (uintptr_t)l.memory[1];
    wr.wr.rdma.rkey = l.mr[1]->rkey;
    memset(l.memory[0], 1, 8);
    loop_recv(&l, 1, 4, 100, 8);
    assert_int_equal(ibv_post_send(l.qp[0], &wr, &bad), 0);
    assert_int_equal(loop_wc(&l, 1).status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(l.memory[1][0], 0);
    /* One side has found it, the other has got the Terminate. */
    unsigned seen = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_get_async_event(l.context, &event), 0);
        assert_true(event.event_type == IBV_EVENT_QP_ACCESS_ERR ||
                    event.event_type == IBV_EVENT_QP_FATAL);
        seen |= event.element.qp == l.qp[1] ? 2u : 1u;
        ibv_ack_async_event(&event);
    }
    assert_int_equal(seen, 3);
    iwarp_compat_qp_refresh(compat_qp(l.qp[1]));
    assert_int_equal(l.qp[1]->state, IBV_QPS_ERR);
    loop_close(&l);
}

static void async_event__not_taken__goes_with_its_object(void **state)
{
    struct ibv_srq_attr attr = {.srq_limit = 1};
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    struct ibv_srq *srq = ibv_create_srq(l.pd, &init);
    struct pollfd p = {.fd = l.context->async_fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 0);
    assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0); /* it is empty: at once */
    assert_int_equal(poll(&p, 1, LOOP_WAIT_MS), 1);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_int_equal(poll(&p, 1, 0), 0);
    loop_close(&l);
}

/* The child lets go of what it inherited, and has a device of its own, which works. */
static void fork__the_child__starts_anew_and_the_parent_goes_on(void **state)
{
    struct loop l;
    int status = 0;

    (void)state;
    if (CHILD_SANITIZED == 2) { /* it does not know children that start threads */
        return;
    }
    loop_open(&l, &plain);
    pid_t child = fork();
    if (child == 0) {
        struct loop own;
        l.conn[0] = l.conn[1] = NULL;
        loop_close(&l);
        loop_open(&own, &plain);
        loop_recv(&own, 1, 1, 0, 0);
        struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
        int error = ibv_post_send(own.qp[0], &wr, &bad);
        _exit(error || loop_wc(&own, 1).status != IBV_WC_SUCCESS);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    loop_recv(&l, 1, 1, 0, 0);
    assert_int_equal(ibv_post_send(l.qp[0], &wr, &bad), 0);
    (void)loop_expect(&l, 1, 1, IBV_WC_RECV);
    loop_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create__a_fresh_one__is_in_init_with_what_was_asked_for),
        cmocka_unit_test(create__of_what_iwarp_has_not__is_refused),
        cmocka_unit_test(modify__without_a_connection__goes_as_far_as_rtr),
        cmocka_unit_test(modify__connected__closes_in_order_and_begins_anew),
        cmocka_unit_test(access__withheld_by_the_queue_pair__breaks_the_stream_and_is_told),
        cmocka_unit_test(async_event__not_taken__goes_with_its_object),
        cmocka_unit_test(fork__the_child__starts_anew_and_the_parent_goes_on),
    };

    return cmocka_run_group_tests_name("verbs_qp", tests, NULL, NULL);
}
