/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends with Immediate Data over rdma_cm, with IWARP_SEND_IMM=1 at both ends: the two programs see
 * their private data and nothing of the agreement, also where they use all that rdma_cm has room
 * for; and the value comes with the message, in the order of the calls of librpma's example 10.
 */
#include "ends.h"

enum { MOST = 255 }; /* octets of private data in rdma_conn_param */

static void register_both(struct end *server, struct end *client)
{
    server->mr = rdma_reg_msgs(server->id, server->memory, LEN);
    client->mr = rdma_reg_msgs(client->id, client->memory, LEN);
    assert_non_null(server->mr);
    assert_non_null(client->mr);
}

static void send_imm(struct end *e, uint32_t len, uint32_t imm, unsigned flags)
{
    struct ibv_sge sge = {(uintptr_t)e->memory, len, e->mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 1,
                             .sg_list = &sge,
                             .num_sge = len ? 1 : 0,
                             .opcode = IBV_WR_SEND_WITH_IMM,
                             .send_flags = IBV_SEND_SIGNALED | flags,
                             .imm_data = htonl(imm)};
    struct ibv_send_wr *bad = NULL;
    struct ibv_wc wc;

    ok(ibv_post_send(e->id->qp, &wr, &bad));
    assert_int_equal(rdma_get_send_comp(e->id, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_SEND);
}

static void expect_imm(struct end *e, uint32_t len, uint32_t imm)
{
    struct ibv_wc wc;

    assert_int_equal(rdma_get_recv_comp(e->id, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
    assert_int_equal(ntohl(wc.imm_data), imm);
    assert_int_equal(wc.byte_len, len);
}

/* One with octets, one of nothing, and an ordinary Send behind them. */
static void send__of_both_kinds__brings_the_value(void **state)
{
    static const int families[] = {AF_INET, AF_INET6};
    static struct end server, client;

    (void)state;
    for (int i = 0; i < 2; i++) {
        establish(&server, &client, families[i]);
        register_both(&server, &client);
        for (int k = 0; k < 2; k++) {
            struct end *a = k ? &server : &client, *b = k ? &client : &server;
            memset(b->memory, 0, LEN);
            memset(a->memory, 0x42 + k, LEN);
            ok(rdma_post_recv(b->id, b, b->memory, LEN, b->mr));
            ok(rdma_post_recv(b->id, b, b->memory, LEN, b->mr));
            send_imm(a, 0, 0x12345678, 0);
            send_imm(a, LEN, 0x87654321, IBV_SEND_SOLICITED);
            expect_imm(b, 0, 0x12345678);
            expect_imm(b, LEN, 0x87654321);
            assert_memory_equal(a->memory, b->memory, LEN);
        }
        transfer(&client, &server);
        ok(rdma_disconnect(client.id));
        expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        expect_ack(client.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        close_end(&client);
        close_end(&server);
    }
}

static void private_data__of_most_octets__arrives_as_it_is(void **state)
{
    static struct end server, client;
    char data[MOST + 1];
    struct rdma_conn_param param = {.private_data = data, .private_data_len = MOST};
    struct ibv_qp_init_attr attr = qp_attr();

    (void)state;
    memset(data, 'p', MOST);
    data[MOST] = 0;
    listen_at(&server, AF_INET);
    open_end(&client);
    prepare_client(&client, AF_INET, rdma_get_src_port(server.listener));
    connect_client(&client, data);
    ok(rdma_ack_cm_event(request(&server, data)));
    ok(rdma_create_qp(server.id, NULL, &attr));
    ok(rdma_accept(server.id, &param));
    expect_ack(server.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    struct rdma_cm_event *event = expect(client.channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    assert_int_equal(event->param.conn.private_data_len, MOST);
    assert_memory_equal(event->param.conn.private_data, data, MOST);
    ok(rdma_ack_cm_event(event));
    register_both(&server, &client);
    ok(rdma_post_recv(server.id, &server, server.memory, LEN, server.mr));
    send_imm(&client, 7, 1, 0);
    expect_imm(&server, 7, 1);
    close_end(&client);
    expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    close_end(&server);
}

static void reject__with_private_data__is_as_ever(void **state)
{
    static struct end server, client;

    (void)state;
    listen_at(&server, AF_INET);
    open_end(&client);
    prepare_client(&client, AF_INET, rdma_get_src_port(server.listener));
    connect_client(&client, "may I");
    ok(rdma_ack_cm_event(request(&server, "may I")));
    ok(rdma_reject(server.id, "no", 2));
    struct rdma_cm_event *event = expect(client.channel, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED);
    assert_int_equal(event->param.conn.private_data_len, 2);
    ok(rdma_ack_cm_event(event));
    close_end(&client);
    close_end(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send__of_both_kinds__brings_the_value),
        cmocka_unit_test(private_data__of_most_octets__arrives_as_it_is),
        cmocka_unit_test(reject__with_private_data__is_as_ever),
    };

    setenv("IWARP_SEND_IMM", "1", 1);
    return cmocka_run_group_tests_name("cm_send_imm", tests, NULL, NULL);
}
