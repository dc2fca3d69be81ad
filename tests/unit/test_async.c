/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events: which one each end of a stream gives, order, the descriptor, one of a kind
 * per object, and that an object stays until its events are acknowledged.
 */
#include "verbs_pair.h"

#include "verbs/conn.h"
#include "verbs/device.h"
#include "verbs/qp.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

static bool readable(struct pair *p)
{
    struct pollfd fd = {.fd = iwarp_async_fd(p->device), .events = POLLIN};

    return poll(&fd, 1, 0) == 1;
}

static void none(struct pair *p)
{
    struct iwarp_async_event event;

    assert_false(readable(p));
    must_fail(iwarp_async_get(p->device, &event, 0), IWARP_AGAIN, "no asynchronous event");
}

/* What each side's queue pair is told when a connection has ended. */
static void expect_ends(struct pair *p, enum iwarp_async_type first, enum iwarp_fault_code code0,
                        enum iwarp_async_type second, enum iwarp_fault_code code1)
{
    must(iwarp_conn_wait_end(p->side[0].conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait_end(p->side[1].conn, PAIR_WAIT_MS));
    for (int i = 0; i < 2; i++) {
        struct iwarp_async_event event;
        must(iwarp_async_get(p->device, &event, PAIR_WAIT_MS));
        int side = event.qp == p->side[1].qp;
        assert_ptr_equal(event.qp, p->side[side].qp);
        assert_ptr_equal(event.user, &p->side[side]);
        assert_null(event.cq);
        assert_null(event.srq);
        assert_int_equal(event.type, side ? second : first);
        assert_int_equal(event.fault, side ? code1 : code0);
        iwarp_async_ack(&event);
    }
    none(p);
}

/* [VERBS-6.2.2-01] */
static void end__in_order__is_closed_on_both_sides(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    for (int t = 0; t < PAIR_TRANSPORTS; t++) {
        pair_options_init(&o, (enum pair_transport)t);
        pair_open(&p, &o);
        none(&p);
        must(iwarp_disconnect(p.side[0].conn));
        expect_ends(&p, IWARP_ASYNC_QP_CLOSED, IWARP_FAULT_NONE, IWARP_ASYNC_QP_CLOSED,
                    IWARP_FAULT_NONE);
        pair_close(&p);
    }
}

static void end__by_a_terminate__is_told_apart(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    for (int t = 0; t < PAIR_TRANSPORTS; t++) {
        pair_options_init(&o, (enum pair_transport)t);
        pair_open(&p, &o); /* a Write past the end of the region: Terminate 1/1/01 */
        pair_write(&p.side[0], 1, 0, 8, &p.side[1], o.memory - 4);
        expect_ends(&p, IWARP_ASYNC_QP_TERMINATED, IWARP_FAULT_PEER_TERMINATE,
                    IWARP_ASYNC_QP_ACCESS, IWARP_FAULT_DDP_BOUNDS);
        pair_close(&p);
        pair_open(&p, &o); /* a Read of it: 0/1/01 */
        pair_read(&p.side[0], 1, 0, 8, &p.side[1], o.memory - 4);
        expect_ends(&p, IWARP_ASYNC_QP_TERMINATED, IWARP_FAULT_PEER_TERMINATE,
                    IWARP_ASYNC_QP_ACCESS, IWARP_FAULT_RDMAP_BOUNDS);
        pair_close(&p);
        pair_open(&p, &o); /* no receive: 1/2/02 */
        pair_send(&p.side[0], 1, 0, 8);
        expect_ends(&p, IWARP_ASYNC_QP_TERMINATED, IWARP_FAULT_PEER_TERMINATE, IWARP_ASYNC_QP_FATAL,
                    IWARP_FAULT_DDP_NO_BUFFER);
        pair_close(&p);
    }
}

static void end__by_an_abort__is_told_to_the_other_side_only(void **state)
{
    struct iwarp_async_event event;
    struct pair_options o;
    struct pair p;

    (void)state;
    for (int t = 0; t < PAIR_TRANSPORTS; t++) {
        pair_options_init(&o, (enum pair_transport)t);
        pair_open(&p, &o);
        must(iwarp_abort(p.side[0].conn));
        must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
        event = pair_async(&p, IWARP_ASYNC_QP_LOST);
        assert_ptr_equal(event.qp, p.side[1].qp);
        assert_int_equal(event.fault, IWARP_FAULT_TCP_LOST);
        iwarp_async_ack(&event);
        none(&p);
        pair_close(&p);
    }
}

static void overflow__of_a_completion_queue__is_told_once(void **state)
{
    struct iwarp_async_event event;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.cq_entries = 2;
    pair_open(&p, &o);
    for (uint64_t i = 0; i < 6; i++) {
        pair_write(&p.side[0], i, 0, 8, &p.side[1], 0);
    }
    must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
    event = pair_async(&p, IWARP_ASYNC_CQ_OVERFLOW);
    assert_ptr_equal(event.cq, p.side[0].send_cq);
    assert_ptr_equal(event.user, &p.side[0]);
    assert_null(event.qp);
    assert_int_equal(event.fault, IWARP_FAULT_LOCAL_CQ_OVERFLOW);
    struct iwarp_async_event end = pair_async(&p, IWARP_ASYNC_QP_FATAL);
    assert_ptr_equal(end.qp, p.side[0].qp);
    assert_int_equal(end.fault, IWARP_FAULT_LOCAL_CQ_OVERFLOW);
    iwarp_async_ack(&end);
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    end = pair_async(&p, IWARP_ASYNC_QP_LOST);
    iwarp_async_ack(&end);
    none(&p);
    must(iwarp_qp_destroy(p.side[0].qp));
    p.side[0].qp = NULL;
    must_fail(iwarp_cq_destroy(p.side[0].send_cq), IWARP_AGAIN, "1 asynchronous events");
    iwarp_async_ack(&event);
    pair_close(&p);
}

static void destroy__with_events__waits_for_acknowledgement_only(void **state)
{
    struct iwarp_async_event event;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    o.srq = 8;
    pair_open(&p, &o);
    must(iwarp_srq_modify(p.side[0].srq, 1)); /* nothing is posted: at once */
    must(iwarp_disconnect(p.side[0].conn));
    must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    event = pair_async(&p, IWARP_ASYNC_SRQ_LIMIT);
    struct iwarp_async_event closed = pair_async(&p, IWARP_ASYNC_QP_CLOSED);
    int side = closed.qp == p.side[1].qp;
    for (int i = 0; i < 2; i++) { /* nothing has changed by trying */
        must_fail(iwarp_qp_destroy(p.side[side].qp), IWARP_AGAIN, "1 asynchronous events");
        assert_int_equal(iwarp_qp_state(p.side[side].qp), IWARP_QP_ERROR);
    }
    assert_true(readable(&p)); /* its LAST_WQE, and both events of the other */
    iwarp_async_ack(&closed);
    must(iwarp_qp_destroy(p.side[side].qp));
    p.side[side].qp = NULL;
    closed = pair_async(&p, IWARP_ASYNC_QP_CLOSED);
    assert_ptr_equal(closed.qp, p.side[!side].qp);
    iwarp_async_ack(&closed);
    must(iwarp_qp_destroy(p.side[!side].qp)); /* one event is still queued: it vanishes */
    p.side[!side].qp = NULL;
    none(&p);
    must_fail(iwarp_srq_destroy(p.side[0].srq), IWARP_AGAIN, "1 asynchronous events");
    iwarp_async_ack(&event);
    pair_close(&p);
}

/* Ends come while another thread takes and acknowledges, and objects go as soon as they may. */
struct taker {
    struct iwarp_device *device;
    _Atomic bool stop;
    unsigned n;
};

static void *take_all(void *arg)
{
    struct taker *t = arg;
    struct iwarp_async_event event;

    while (!atomic_load(&t->stop)) {
        if (iwarp_async_get(t->device, &event, 20) == IWARP_OK) {
            t->n++;
            assert_non_null(event.qp);
            (void)iwarp_qp_num(event.qp); /* still there */
            iwarp_async_ack(&event);
        }
    }
    return NULL;
}

static void events__taken_by_another_thread__name_living_objects(void **state)
{
    struct taker taker = {.stop = false};
    struct pair_options o;
    pthread_t thread;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    taker.device = p.device;
    assert_int_equal(pthread_create(&thread, NULL, take_all, &taker), 0);
    for (int turn = 0; turn < 60; turn++) {
        struct iwarp_qp *qp[2];
        struct iwarp_conn *conn[2];
        for (int i = 0; i < 2; i++) {
            struct iwarp_qp_options q = o.qp;
            q.send_cq = p.side[i].send_cq;
            q.recv_cq = p.side[i].recv_cq;
            must(iwarp_qp_create(p.side[i].pd, &q, &qp[i]));
        }
        must(iwarp_connect_pair(qp[0], qp[1], NULL, NULL, &conn[0], &conn[1]));
        must(iwarp_conn_wait(conn[0], PAIR_WAIT_MS));
        must(iwarp_conn_wait(conn[1], PAIR_WAIT_MS));
        must(iwarp_disconnect(conn[turn % 2]));
        for (int i = 0; i < 2; i++) {
            if (turn % 3 == 0) {
                must(iwarp_conn_wait_end(conn[i], PAIR_WAIT_MS));
            }
            while (iwarp_qp_destroy(qp[i]) == IWARP_AGAIN) {
                usleep(100);
            }
            must(iwarp_conn_destroy(conn[i]));
        }
    }
    atomic_store(&taker.stop, true);
    pthread_join(thread, NULL);
    none(&p);
    pair_close(&p);
}

static void keep(const struct iwarp_async_event *event, void *arg)
{
    struct iwarp_async_event *kept = arg;

    kept[event->user ? 1 : 0] = *event;
}

/* Who has a function for events takes none from the queue, and acknowledges nothing. */
static void deliver_by__a_function__gets_the_event_instead_of_the_queue(void **state)
{
    struct pair_options o;
    struct pair p;
    struct iwarp_async_event kept[2] = {{.fault = IWARP_FAULT_NONE}};

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_open(&p, &o);
    must_fail(iwarp_async_deliver_by(p.device, NULL, NULL), IWARP_MISUSE, "deliver");
    must_fail(iwarp_async_deliver_by(NULL, keep, kept), IWARP_MISUSE, "device");
    must(iwarp_async_deliver_by(p.device, keep, kept));
    must_fail(iwarp_async_deliver_by(p.device, keep, kept), IWARP_MISUSE, "already");
    must(iwarp_abort(p.side[0].conn)); /* the other side alone is told */
    must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    none(&p);
    pair_close(&p); /* destroys the queue pairs: nothing is unacknowledged */
    assert_int_equal(kept[1].type, IWARP_ASYNC_QP_LOST);
    assert_non_null(kept[1].qp);
}

static void text__of_any_number__is_a_word(void **state)
{
    (void)state;
    for (int i = 0; i <= IWARP_ASYNC_SRQ_LIMIT; i++) {
        assert_null(strstr(iwarp_async_text((enum iwarp_async_type)i), "unknown"));
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(iwarp_async_text((enum iwarp_async_type)i),
                                    iwarp_async_text((enum iwarp_async_type)k));
        }
    }
    assert_non_null(strstr(iwarp_async_text((enum iwarp_async_type)99), "unknown"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(end__in_order__is_closed_on_both_sides),
        cmocka_unit_test(end__by_a_terminate__is_told_apart),
        cmocka_unit_test(end__by_an_abort__is_told_to_the_other_side_only),
        cmocka_unit_test(overflow__of_a_completion_queue__is_told_once),
        cmocka_unit_test(destroy__with_events__waits_for_acknowledgement_only),
        cmocka_unit_test(events__taken_by_another_thread__name_living_objects),
        cmocka_unit_test(deliver_by__a_function__gets_the_event_instead_of_the_queue),
        cmocka_unit_test(text__of_any_number__is_a_word),
    };

    return cmocka_run_group_tests_name("async", tests, NULL, NULL);
}
