/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ids that are destroyed while events of them wait or come, and ids of a listener without an event
 * channel: each has a channel of its own.
 */
#include "ends.h"
#include "late.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>

static _Atomic bool destroyed;

static void *destroy(void *id)
{
    int result = rdma_destroy_id(id);

    atomic_store(&destroyed, true);
    return result == 0 ? NULL : id;
}

static void begin_to_destroy(struct rdma_cm_id *id, pthread_t *thread)
{
    atomic_store(&destroyed, false);
    ok(pthread_create(thread, NULL, destroy, id));
    usleep(100000);
    assert_false(atomic_load(&destroyed));
}

static void finish(pthread_t thread)
{
    void *result = NULL;

    ok(pthread_join(thread, &result));
    assert_null(result);
}

/* The peer's end comes while the call waits. */
static void destroy__waiting_for_an_acknowledgement__reports_nothing_more(void **state)
{
    struct end server, client;
    pthread_t thread;

    (void)state;
    listen_at(&server, AF_INET);
    open_end(&client);
    prepare_client(&client, AF_INET, rdma_get_src_port(server.listener));
    connect_client(&client, "hello");
    ok(rdma_ack_cm_event(request(&server, "hello")));
    accept_request(&server);
    expect_ack(server.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    struct rdma_cm_event *taken = expect(client.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    rdma_destroy_qp(client.id);
    begin_to_destroy(client.id, &thread);
    ok(rdma_disconnect(client.id)); /* as a thread does that has the event */
    ok(rdma_disconnect(server.id));
    expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    nothing_more(client.channel);
    ok(rdma_ack_cm_event(taken));
    finish(thread);
    client.id = NULL;
    close_end(&client);
    close_end(&server);
}

/* A listener takes no request from then on, and rejects those that nobody has taken. */
static void destroy__of_a_listener_with_a_request_taken__takes_no_other(void **state)
{
    struct end server, client, late;
    pthread_t thread;

    (void)state;
    listen_at(&server, AF_INET);
    open_end(&client);
    open_end(&late);
    prepare_client(&client, AF_INET, rdma_get_src_port(server.listener));
    prepare_client(&late, AF_INET, rdma_get_src_port(server.listener));
    connect_client(&client, "hello");
    struct rdma_cm_event *taken = request(&server, "hello");
    connect_client(&late, "hello");
    struct pollfd p = {.fd = server.channel->fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    begin_to_destroy(server.listener, &thread);
    nothing_more(server.channel);
    expect_ack(late.channel, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
    accept_request(&server); /* the one that was taken is the program's */
    expect_ack(server.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    expect_ack(client.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    ok(rdma_ack_cm_event(taken));
    finish(thread);
    server.listener = NULL;
    transfer(&client, &server);
    close_id(&client.id);
    expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    close_end(&client);
    close_end(&late);
    close_end(&server);
}

/* rdma_get_cm_event is how a program without rdma_get_request takes it: calls of the new id wait
 * for their events, too, and the listener's channel has requests alone. */
static void request__of_a_listener_without_a_channel__has_an_id_whose_calls_wait(void **state)
{
    struct sockaddr_storage addr;
    struct rdma_cm_id *listener;
    struct ibv_qp_init_attr attr = qp_attr();
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
    struct end client;

    (void)state;
    address(&addr, AF_INET, 0);
    ok(rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP));
    ok(rdma_bind_addr(listener, (struct sockaddr *)&addr));
    ok(rdma_listen(listener, 4));
    errno = 0;
    assert_int_equal(rdma_migrate_id(listener, NULL), -1);
    assert_int_equal(errno, EINVAL);
    open_end(&client);
    prepare_client(&client, AF_INET, rdma_get_src_port(listener));
    connect_client(&client, "hello");
    struct rdma_cm_event *event = expect(listener->channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    struct rdma_cm_id *id = event->id;
    assert_ptr_equal(event->listen_id, listener);
    assert_ptr_not_equal(id->channel, listener->channel);
    ok(rdma_ack_cm_event(event));
    ok(rdma_create_qp(id, NULL, &attr));
    ok(rdma_accept(id, &param));
    assert_non_null(id->event);
    assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
    nothing_more(listener->channel);
    expect_ack(client.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    ok(rdma_disconnect(id));
    assert_int_equal(id->event->event, RDMA_CM_EVENT_DISCONNECTED);
    expect_ack(client.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    rdma_destroy_ep(id);
    rdma_destroy_ep(listener);
    close_end(&client);
}

/* --- a call that returns late ---------------------------------------------------------------- */

static void *accept_late(void *id)
{
    struct rdma_conn_param param = {.responder_resources = 6};

    returns_late = true;
    return rdma_accept(id, &param) == 0 ? NULL : id;
}

/* One thread answers requests, another one takes what comes of it: the connection may be over, and
 * its id gone, before the first call has returned. */
static void accept__whose_id_is_destroyed_before_it_returns__does_not_look_at_it(void **state)
{
    struct end server, client;
    struct ibv_qp_init_attr attr = qp_attr();
    pthread_t thread;

    (void)state;
    listen_at(&server, AF_INET);
    open_end(&client);
    prepare_client(&client, AF_INET, rdma_get_src_port(server.listener));
    connect_client(&client, "hello");
    ok(rdma_ack_cm_event(request(&server, "hello")));
    ok(rdma_create_qp(server.id, NULL, &attr));
    mallopt(M_PERTURB, 0x5a); /* what is freed is no id any more */
    ok(pthread_create(&thread, NULL, accept_late, server.id));
    expect_ack(server.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    expect_ack(client.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    await_late();
    close_id(&server.id);
    expect_ack(client.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    usleep(100000); /* the thread of events frees the id behind its next event */
    let_return();
    finish(thread);
    mallopt(M_PERTURB, 0);
    close_end(&client);
    close_end(&server);
}

/* Also a queue pair that never was connected takes no further receive, and says so. */
static void connect__refused_with_an_srq__reports_the_last_wqe(void **state)
{
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_qp_init_attr attr = qp_attr();
    struct ibv_async_event event;
    struct end client;

    (void)state;
    open_end(&client);
    prepare_client(&client, AF_INET, htons(9)); /* nobody is there */
    rdma_destroy_qp(client.id);
    ok(rdma_create_srq(client.id, NULL, &srq));
    ok(rdma_create_qp(client.id, NULL, &attr));
    connect_client(&client, "hello");
    expect_ack(client.channel, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
    struct pollfd p = {.fd = client.id->verbs->async_fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 1000), 1);
    ok(ibv_get_async_event(client.id->verbs, &event));
    assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
    assert_ptr_equal(event.element.qp, client.id->qp);
    ibv_ack_async_event(&event);
    assert_int_equal(poll(&p, 1, 0), 0);
    rdma_destroy_qp(client.id);
    rdma_destroy_srq(client.id);
    close_end(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(destroy__waiting_for_an_acknowledgement__reports_nothing_more),
        cmocka_unit_test(destroy__of_a_listener_with_a_request_taken__takes_no_other),
        cmocka_unit_test(request__of_a_listener_without_a_channel__has_an_id_whose_calls_wait),
        cmocka_unit_test(accept__whose_id_is_destroyed_before_it_returns__does_not_look_at_it),
        cmocka_unit_test(connect__refused_with_an_srq__reports_the_last_wqe),
    };

    return cmocka_run_group_tests_name("test_cm_leave", tests, NULL, NULL);
}
