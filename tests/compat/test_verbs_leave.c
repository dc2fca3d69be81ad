/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How objects end. Those that one thread destroys while another one has an event of them: until it
 * is acknowledged the call waits, and the object can be used. And queue pairs that go to ERR or
 * RESET: what is flushed, dropped and reported.
 */
#include "late.h"
#include "numbered.h"

#include <poll.h>
#include <pthread.h>

static const struct loop_options unconnected = {.unconnected = true};
static const struct loop_options connected = {.srq = true};
static const struct loop_options shared = {.unconnected = true, .srq = true};

/* What the native device has of each kind. */
static struct iwarp_device_stats counts(void)
{
    struct iwarp_device_stats s = {.size = sizeof s};

    assert_int_equal(iwarp_device_stats(iwarp_compat_device(), &s), IWARP_OK);
    return s;
}

struct destroyer {
    pthread_t thread;
    int (*destroy)(void *object);
    void *object;
    int result;
    _Atomic bool done;
};

static void *destroy(void *arg)
{
    struct destroyer *d = arg;

    d->result = d->destroy(d->object);
    atomic_store(&d->done, true);
    return NULL;
}

/* It has had time to begin, and does not come back. */
static void begin(struct destroyer *d, int (*call)(void *object), void *object)
{
    *d = (struct destroyer){.destroy = call, .object = object};
    assert_int_equal(pthread_create(&d->thread, NULL, destroy, d), 0);
    nap_ms(100);
    assert_false(atomic_load(&d->done));
}

static void finish(struct destroyer *d)
{
    assert_int_equal(pthread_join(d->thread, NULL), 0);
    assert_int_equal(d->result, 0);
}

static int destroy_cq(void *cq)
{
    return ibv_destroy_cq(cq);
}

static int destroy_srq(void *srq)
{
    return ibv_destroy_srq(srq);
}

static int destroy_qp(void *qp)
{
    return ibv_destroy_qp(qp);
}

/* A flushed receive makes an event of the queue, whose queue pair then goes. */
static struct ibv_cq *cq_with_event(struct loop *l)
{
    struct ibv_cq *cq = ibv_create_cq(l->context, 4, NULL, l->channel, 0), *kept = l->cq[1];

    assert_non_null(cq);
    assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
    l->cq[1] = cq;
    struct ibv_qp *qp = l->qp[1];
    l->qp[1] = loop_qp(l, 1, &unconnected);
    loop_recv(l, 1, 5, 0, 0);
    to_state(l->qp[1], IBV_QPS_ERR);
    assert_int_equal(ibv_destroy_cq(cq), EBUSY); /* and loses no event */
    assert_int_equal(ibv_destroy_qp(l->qp[1]), 0);
    l->qp[1] = qp;
    l->cq[1] = kept;
    return cq;
}

static void destroy_cq__with_an_event_taken__leaves_the_queue_until_it_is_acknowledged(void **state)
{
    struct destroyer d;
    struct ibv_cq *cq, *of;
    struct ibv_wc wc;
    void *context;
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    cq = cq_with_event(&l);
    assert_int_equal(ibv_get_cq_event(l.channel, &of, &context), 0);
    assert_ptr_equal(of, cq);
    const unsigned before = counts().cqs;
    begin(&d, destroy_cq, cq);
    assert_int_equal(counts().cqs, before);
    assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
    assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
    ibv_ack_cq_events(cq, 1);
    finish(&d);
    assert_int_equal(counts().cqs, before - 1);
    loop_close(&l);
}

static void destroy_srq__with_an_event_taken__leaves_the_queue_until_it_is_acknowledged(
    void **state)
{
    struct ibv_srq_attr limit = {.srq_limit = 1};
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_recv_wr *bad, wr = {.wr_id = 1};
    struct ibv_async_event event;
    struct destroyer d;
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    struct ibv_srq *srq = ibv_create_srq(l.pd, &init);
    assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0); /* it is empty: at once */
    assert_int_equal(ibv_get_async_event(l.context, &event), 0);
    assert_ptr_equal(event.element.srq, srq);
    const unsigned before = counts().srqs;
    begin(&d, destroy_srq, srq);
    assert_int_equal(counts().srqs, before);
    assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
    assert_int_equal(ibv_query_srq(srq, &limit), 0);
    ibv_ack_async_event(&event);
    finish(&d);
    assert_int_equal(counts().srqs, before - 1);
    loop_close(&l);
}

static void *post_late(void *loop)
{
    struct loop *l = loop;
    struct ibv_sge sge = {.addr = (uintptr_t)l->memory[0], .length = 8, .lkey = l->mr[0]->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = 7,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_SEND,
                                   .send_flags = IBV_SEND_SIGNALED};
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(l->qp[0]);
    int error;

    if (!qp) {
        returns_late = true;
        error = ibv_post_send(l->qp[0], &wr, &bad);
    } else {
        ibv_wr_start(qp);
        qp->wr_id = wr.wr_id;
        qp->wr_flags = wr.send_flags;
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
        returns_late = true;
        error = ibv_wr_complete(qp);
    }
    return error == 0 ? NULL : loop;
}

/* Another thread has the completion before the call that posts has returned: by number, and by the
 * extended way to post. */
static void destroy_qp__under_a_post_that_returns_late__waits_for_it(void **state)
{
    static const struct loop_options extended = {.extended = true};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct destroyer d;
        pthread_t thread;
        struct loop l;
        void *failed;
        loop_open(&l, i ? &extended : &unconnected);
        if (i == 0) {
            name_each_other(&l, &usual);
            exchange(&l, 0);
        }
        loop_recv(&l, 1, 8, 0, 8);
        atomic_store(&may_return, false);
        assert_int_equal(pthread_create(&thread, NULL, post_late, &l), 0);
        loop_expect(&l, 1, 8, IBV_WC_RECV);
        loop_expect(&l, 0, 7, IBV_WC_SEND);
        await_late();
        begin(&d, destroy_qp, l.qp[0]);
        let_return();
        assert_int_equal(pthread_join(thread, &failed), 0);
        assert_null(failed);
        finish(&d);
        l.qp[0] = loop_qp(&l, 0, &unconnected);
        loop_close(&l);
    }
}

static void destroy_qp__with_an_event_taken__leaves_it_until_it_is_acknowledged(void **state)
{
    struct ibv_qp_init_attr init;
    struct ibv_async_event event;
    struct ibv_qp_attr attr;
    struct destroyer d;
    struct loop l;

    (void)state;
    loop_open(&l, &connected);
    to_state(l.qp[1], IBV_QPS_ERR);
    assert_int_equal(ibv_get_async_event(l.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
    assert_ptr_equal(event.element.qp, l.qp[1]);
    const unsigned before = counts().qps;
    begin(&d, destroy_qp, l.qp[1]);
    assert_int_equal(counts().qps, before);
    assert_int_equal(ibv_query_qp(l.qp[1], &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_ERR);
    ibv_ack_async_event(&event);
    finish(&d);
    assert_int_equal(counts().qps, before - 1);
    l.qp[1] = loop_qp(&l, 1, &shared);
    loop_close(&l);
}

/* --- a queue pair with a shared receive queue ------------------------------------------------ */

static int waiting(struct loop *l)
{
    struct pollfd p = {.fd = l->context->async_fd, .events = POLLIN};

    return poll(&p, 1, 0);
}

static void expect_last_wqe(struct loop *l)
{
    struct ibv_async_event event;

    assert_int_equal(waiting(l), 1);
    assert_int_equal(ibv_get_async_event(l->context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
    assert_ptr_equal(event.element.qp, l->qp[1]);
    ibv_ack_async_event(&event);
}

/* Whether it has been connected or not: programs wait for the event before they destroy it. */
static void err__with_an_srq__reports_the_last_wqe(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &shared);
    to_state(l.qp[1], IBV_QPS_ERR); /* from RESET */
    expect_last_wqe(&l);
    to_state(l.qp[1], IBV_QPS_RESET);
    to_rtr(l.qp[1], l.qp[0]->qp_num, &usual);
    to_rts(l.qp[1], &usual);
    to_state(l.qp[1], IBV_QPS_ERR); /* while it looks for its peer */
    expect_last_wqe(&l);
    to_state(l.qp[1], IBV_QPS_RESET);
    assert_int_equal(waiting(&l), 0);
    loop_close(&l);
}

/* RESET is no end, but a new beginning. */
static void reset__with_an_srq__reports_nothing(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &shared);
    to_state(l.qp[1], IBV_QPS_RESET);
    name_each_other(&l, &usual);
    loop_recv(&l, 1, 2, 0, 8);
    post(&l, 0, 1, IBV_WR_SEND, 0, 8);
    loop_expect(&l, 1, 2, IBV_WC_RECV);
    to_state(l.qp[1], IBV_QPS_RESET);
    assert_int_equal(waiting(&l), 0);
    loop_close(&l);
}

/* A confirmed Write is one request for the program, with Immediate Data or without: it is flushed
 * once. */
static void err__with_confirmed_writes_posted__flushes_each_once(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    to_rtr(l.qp[0], l.qp[1]->qp_num, &usual);
    to_rts(l.qp[0], &usual);
    post(&l, 0, 1, IBV_WR_RDMA_WRITE, 0, 8);
    post(&l, 0, 2, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8);
    post(&l, 0, 3, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8);
    to_state(l.qp[0], IBV_QPS_ERR);
    for (uint64_t i = 1; i <= 3; i++) {
        struct ibv_wc wc = loop_wc(&l, 0);
        assert_int_equal(wc.wr_id, i);
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    }
    quiet(&l, 0);
    loop_close(&l);
}

/* --- RESET ----------------------------------------------------------------------------------- */

/* Its receive queue has 16 places. */
static void reset__never_connected__drops_the_receives(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    for (int round = 0; round < 3; round++) {
        to_init(l.qp[1]);
        for (uint64_t i = 0; i < 16; i++) {
            loop_recv(&l, 1, i, 0, 8);
        }
        to_state(l.qp[1], IBV_QPS_RESET);
        quiet(&l, 1);
    }
    to_state(l.qp[0], IBV_QPS_RESET);
    name_each_other(&l, &usual);
    loop_recv(&l, 1, 99, 0, 8);
    post(&l, 0, 1, IBV_WR_SEND, 0, 8);
    loop_expect(&l, 1, 99, IBV_WC_RECV);
    loop_close(&l);
}

/* Before a connection is made, INIT again changes nothing. */
static void init__with_receives_posted__keeps_them(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &unconnected);
    to_init(l.qp[1]);
    loop_recv(&l, 1, 7, 0, 8);
    to_init(l.qp[1]);
    loop_connect(&l);
    struct ibv_sge sge = loop_sge(&l, 0, 0, 8);
    struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    assert_int_equal(ibv_post_send(l.qp[0], &wr, &bad), 0);
    loop_expect(&l, 1, 7, IBV_WC_RECV);
    loop_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            destroy_cq__with_an_event_taken__leaves_the_queue_until_it_is_acknowledged),
        cmocka_unit_test(
            destroy_srq__with_an_event_taken__leaves_the_queue_until_it_is_acknowledged),
        cmocka_unit_test(destroy_qp__with_an_event_taken__leaves_it_until_it_is_acknowledged),
        cmocka_unit_test(destroy_qp__under_a_post_that_returns_late__waits_for_it),
        cmocka_unit_test(err__with_an_srq__reports_the_last_wqe),
        cmocka_unit_test(reset__with_an_srq__reports_nothing),
        cmocka_unit_test(err__with_confirmed_writes_posted__flushes_each_once),
        cmocka_unit_test(reset__never_connected__drops_the_receives),
        cmocka_unit_test(init__with_receives_posted__keeps_them),
    };

    return cmocka_run_group_tests_name("verbs_leave", tests, NULL, NULL);
}
