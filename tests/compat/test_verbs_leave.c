/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How objects end. Those that one thread destroys while another one has an event of them: until it
 * is acknowledged the call waits, and the object can be used. And queue pairs that go to ERR or
 * RESET: what is flushed, dropped and reported.
 */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            destroy_cq__with_an_event_taken__leaves_the_queue_until_it_is_acknowledged),
        cmocka_unit_test(
            destroy_srq__with_an_event_taken__leaves_the_queue_until_it_is_acknowledged),
        cmocka_unit_test(destroy_qp__with_an_event_taken__leaves_it_until_it_is_acknowledged),
    };

    return cmocka_run_group_tests_name("verbs_leave", tests, NULL, NULL);
}
