/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two ends of connections of librdmacm.so.1, in one process or in two: listening, connecting,
 * accepting, a transfer, closing. Each step fails the test if it does not go as it should.
 */
#ifndef TESTS_COMPAT_ENDS_H
#define TESTS_COMPAT_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MS 90000
#define LEN     4096

/* 0, or errno for the message. */
#define ok(call) ok_at((call), #call, __LINE__)
static inline void ok_at(int result, const char *what, int line)
{
    if (result != 0) {
        fail_msg("line %d: %s: %d, %s", line, what, result, strerror(errno));
    }
}

struct end {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id, *listener;
    struct ibv_mr *mr;
    uint8_t memory[LEN];
};

static inline void address(struct sockaddr_storage *addr, int family, uint16_t port)
{
    memset(addr, 0, sizeof *addr);
    if (family == AF_INET6) {
        struct sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_port = port};
        in.sin6_addr = in6addr_loopback;
        memcpy(addr, &in, sizeof in);
    } else {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        memcpy(addr, &in, sizeof in);
    }
}

static inline struct rdma_cm_event *expect(struct rdma_event_channel *channel,
                                           enum rdma_cm_event_type type, int status)
{
    struct pollfd p = {.fd = channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;
    int n;

    do {
        n = poll(&p, 1, WAIT_MS);
    } while (n < 0 && errno == EINTR);
    assert_int_equal(n, 1);
    ok(rdma_get_cm_event(channel, &event));
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    assert_int_equal(event->status, status);
    return event;
}

static inline void expect_ack(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
                              int status)
{
    ok(rdma_ack_cm_event(expect(channel, type, status)));
}

static inline void nothing_more(struct rdma_event_channel *channel)
{
    struct pollfd p = {.fd = channel->fd, .events = POLLIN};

    assert_true(poll(&p, 1, 20) <= 0); /* a signal may end it */
}

static inline struct ibv_qp_init_attr qp_attr(void)
{
    return (struct ibv_qp_init_attr){
        .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC};
}

static inline void open_end(struct end *e)
{
    memset(e, 0, sizeof *e);
    e->channel = rdma_create_event_channel();
    assert_non_null(e->channel);
}

static inline void listen_at(struct end *e, int family)
{
    struct sockaddr_storage addr;

    open_end(e);
    address(&addr, family, 0);
    ok(rdma_create_id(e->channel, &e->listener, e, RDMA_PS_TCP));
    ok(rdma_bind_addr(e->listener, (struct sockaddr *)&addr));
    assert_int_not_equal(rdma_get_src_port(e->listener), 0);
    assert_non_null(e->listener->verbs);
    ok(rdma_listen(e->listener, 4));
}

/* Up to the queue pair. */
static inline void prepare_client(struct end *e, int family, uint16_t port)
{
    struct sockaddr_storage addr;
    struct ibv_qp_init_attr attr = qp_attr();

    address(&addr, family, port);
    ok(rdma_create_id(e->channel, &e->id, e, RDMA_PS_TCP));
    assert_null(e->id->verbs);
    ok(rdma_resolve_addr(e->id, NULL, (struct sockaddr *)&addr, 1000));
    expect_ack(e->channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    assert_non_null(e->id->verbs);
    assert_int_equal(rdma_get_local_addr(e->id)->sa_family, family);
    ok(rdma_resolve_route(e->id, 1000));
    expect_ack(e->channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    ok(rdma_create_qp(e->id, NULL, &attr));
    assert_ptr_equal(e->id->qp->context, e->id->verbs);
    assert_non_null(e->id->send_cq);
    assert_ptr_equal(e->id->recv_cq->cq_context, e->id);
}

static inline void connect_client(struct end *e, const char *data)
{
    struct rdma_conn_param param = {.private_data = data,
                                    .private_data_len = (uint8_t)strlen(data),
                                    .responder_resources = 5,
                                    .initiator_depth = 6};

    ok(rdma_connect(e->id, &param));
}

static inline struct rdma_cm_event *request(struct end *server, const char *data)
{
    struct rdma_cm_event *event = expect(server->channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);

    assert_ptr_equal(event->listen_id, server->listener);
    assert_ptr_equal(event->id->context, server);
    assert_ptr_equal(event->id->channel, server->channel);
    assert_non_null(event->id->verbs);
    assert_ptr_equal(event->id->verbs, server->listener->verbs);
    assert_int_equal(event->param.conn.private_data_len, strlen(data));
    assert_memory_equal(event->param.conn.private_data, data, strlen(data));
    assert_int_equal(event->param.conn.initiator_depth, 5);
    assert_int_equal(event->param.conn.responder_resources, 6);
    server->id = event->id;
    return event;
}

static inline void accept_request(struct end *server)
{
    struct ibv_qp_init_attr attr = qp_attr();
    struct rdma_conn_param param = {
        .private_data = "welcome", .private_data_len = 7, .responder_resources = 6};

    ok(rdma_create_qp(server->id, NULL, &attr));
    ok(rdma_accept(server->id, &param));
}

static inline void close_id(struct rdma_cm_id **id)
{
    if (*id) {
        rdma_destroy_qp(*id);
        ok(rdma_destroy_id(*id));
        *id = NULL;
    }
}

static inline void close_end(struct end *e)
{
    if (e->mr) {
        ok(rdma_dereg_mr(e->mr));
    }
    close_id(&e->id);
    if (e->listener) {
        ok(rdma_destroy_id(e->listener));
    }
    nothing_more(e->channel);
    rdma_destroy_event_channel(e->channel);
}

static inline void establish(struct end *server, struct end *client, int family)
{
    listen_at(server, family);
    open_end(client);
    prepare_client(client, family, rdma_get_src_port(server->listener));
    connect_client(client, "hello");
    ok(rdma_ack_cm_event(request(server, "hello")));
    accept_request(server);
    expect_ack(server->channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    struct rdma_cm_event *event = expect(client->channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    assert_int_equal(event->param.conn.private_data_len, 7);
    assert_memory_equal(event->param.conn.private_data, "welcome", 7);
    ok(rdma_ack_cm_event(event));
}

/* Octets from one to the other, with the calls of rdma_verbs.h. */
static inline void transfer(struct end *from, struct end *to)
{
    struct ibv_wc wc;

    if (!from->mr) {
        from->mr = rdma_reg_msgs(from->id, from->memory, LEN);
        assert_non_null(from->mr);
    }
    if (!to->mr) {
        to->mr = rdma_reg_msgs(to->id, to->memory, LEN);
        assert_non_null(to->mr);
    }
    memset(from->memory, 0x5a, LEN);
    memset(to->memory, 0, LEN);
    ok(rdma_post_recv(to->id, to, to->memory, LEN, to->mr));
    ok(rdma_post_send(from->id, from, from->memory, LEN, from->mr, IBV_SEND_SIGNALED));
    assert_int_equal(rdma_get_recv_comp(to->id, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, LEN);
    assert_int_equal(rdma_get_send_comp(from->id, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_memory_equal(from->memory, to->memory, LEN);
}

#endif
