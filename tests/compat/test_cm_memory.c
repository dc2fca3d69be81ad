/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm.so.1 without memory for events: what was begun is told to its end, and what could not
 * be told is not begun. calloc here stands in front of the C library's, for the library too.
 */
#include "ends.h"

#include "../support/child.h"

#include "compat/cm.h"

#include <stdatomic.h>

#if CHILD_SANITIZED
int main(void)
{
    puts("the sanitizer's own calloc cannot be replaced");
    return 77;
}
#else

static _Atomic int events_left = -1; /* so many more are to be had; -1: any number */

void *__libc_calloc(size_t n, size_t size);
__attribute__((visibility("default"))) void *calloc(size_t n, size_t size)
{
    if (n * size == sizeof(struct cm_event) && atomic_load(&events_left) >= 0) {
        int left = atomic_load(&events_left);
        do {
            if (left == 0) {
                errno = ENOMEM;
                return NULL;
            }
        } while (!atomic_compare_exchange_weak(&events_left, &left, left - 1));
    }
    return __libc_calloc(n, size);
}

static void refused(int result)
{
    assert_int_equal(result, -1);
    assert_int_equal(errno, ENOMEM);
}

static struct end server, client;

static void events__without_memory__of_a_connection_come_all_the_same(void **state)
{
    (void)state;
    listen_at(&server, AF_INET);
    open_end(&client);
    prepare_client(&client, AF_INET, rdma_get_src_port(server.listener));
    atomic_store(&events_left, 3); /* two of the client's, and the request */
    connect_client(&client, "hello");
    ok(rdma_ack_cm_event(request(&server, "hello")));
    atomic_store(&events_left, 2);
    accept_request(&server);
    atomic_store(&events_left, 0);
    expect_ack(server.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    expect_ack(client.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    ok(rdma_disconnect(client.id));
    expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    expect_ack(client.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    atomic_store(&events_left, -1);
    close_end(&client);
    close_end(&server);
}

static void calls__without_memory_for_their_events__are_refused_and_can_be_repeated(void **state)
{
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
    struct ibv_qp_init_attr attr = qp_attr();
    struct sockaddr_storage to;

    (void)state;
    open_end(&client);
    address(&to, AF_INET, htons(9));
    ok(rdma_create_id(client.channel, &client.id, NULL, RDMA_PS_TCP));
    atomic_store(&events_left, 0);
    refused(rdma_resolve_addr(client.id, NULL, (struct sockaddr *)&to, 1000));
    atomic_store(&events_left, 1);
    ok(rdma_resolve_addr(client.id, NULL, (struct sockaddr *)&to, 1000));
    expect_ack(client.channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    refused(rdma_resolve_route(client.id, 1000));
    atomic_store(&events_left, 1);
    ok(rdma_resolve_route(client.id, 1000));
    expect_ack(client.channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    ok(rdma_create_qp(client.id, NULL, &attr));
    refused(rdma_connect(client.id, &param));
    atomic_store(&events_left, 1);
    refused(rdma_connect(client.id, &param));
    atomic_store(&events_left, 1); /* the other one is there from the time before */
    ok(rdma_connect(client.id, &param));
    expect_ack(client.channel, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED); /* nobody is at port 9 */
    atomic_store(&events_left, -1);
    close_end(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events__without_memory__of_a_connection_come_all_the_same),
        cmocka_unit_test(calls__without_memory_for_their_events__are_refused_and_can_be_repeated),
    };

    alarm(CHILD_SECONDS);
    return cmocka_run_group_tests_name("test_cm_memory", tests, NULL, NULL);
}
#endif
