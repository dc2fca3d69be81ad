/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that come before their receives, with librdmacm: they wait as rnr_retry_count of the end
 * that receives says. And the rule itself, for each number that InfiniBand has.
 */
#include "ends.h"

#include "compat/rnr.h"

#include <time.h>

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* --- the rule ----------------------------------------------------------------------------------
 */

/* Times of 1 and of 6 tries, in ms, for each min_rnr_timer. */
static void rule__each_timer__is_that_of_the_standard(void **state)
{
    static const unsigned one[32] = {656, 1,  1,  1,  1,  1,   1,   1,   1,   1,  1,
                                     1,   1,  1,  2,  2,  3,   4,   6,   8,   11, 16,
                                     21,  31, 41, 62, 82, 123, 164, 246, 328, 492};
    static const unsigned six[32] = {3933, 1,   1,   1,   1,   1,   1,   1,    1,    2,   2,
                                     3,    4,   6,   8,   12,  16,  24,  31,   47,   62,  93,
                                     123,  185, 246, 369, 492, 738, 984, 1475, 1967, 2950};

    (void)state;
    for (unsigned timer = 0; timer < 32; timer++) {
        assert_int_equal(iwarp_compat_rnr_ms(0, timer, 60000), 0);
        assert_int_equal(iwarp_compat_rnr_ms(1, timer, 60000), one[timer]);
        assert_int_equal(iwarp_compat_rnr_ms(6, timer, 60000), six[timer]);
        assert_int_equal(iwarp_compat_rnr_ms(7, timer, 60000), 60000);
        assert_int_equal(iwarp_compat_rnr_ms(255, timer, 60000), 60000);
    }
    assert_int_equal(iwarp_compat_rnr_ms(6, 32, 60000), six[31]); /* not a timer */
    assert_int_equal(iwarp_compat_rnr_ms(6, 0, 1000), 1000);
    assert_int_equal(iwarp_compat_rnr_ms(7, 0, 0), 0);
}

static void rule__by_the_environment__is_that(void **state)
{
    (void)state;
    assert_int_equal(iwarp_compat_rnr_timeout(7, 0), 60000);
    setenv("IWARP_RNR_MAX", "500", 1);
    assert_int_equal(iwarp_compat_rnr_timeout(7, 0), 500);
    assert_int_equal(iwarp_compat_rnr_timeout(1, 0), 500);
    assert_int_equal(iwarp_compat_rnr_timeout(1, 20), 11);
    setenv("IWARP_RNR_TIMEOUT", "0", 1);
    assert_int_equal(iwarp_compat_rnr_timeout(7, 0), 0);
    setenv("IWARP_RNR_TIMEOUT", "77", 1);
    assert_int_equal(iwarp_compat_rnr_timeout(0, 0), 77);
    unsetenv("IWARP_RNR_TIMEOUT");
    unsetenv("IWARP_RNR_MAX");
}

/* --- connections -------------------------------------------------------------------------------
 */

/* rnr: of the server; NULL for its conn_param: 256. */
static void establish_with(struct end *server, struct end *client, unsigned rnr)
{
    struct ibv_qp_init_attr attr = qp_attr();
    struct rdma_conn_param param = {.responder_resources = 6, .rnr_retry_count = (uint8_t)rnr};

    listen_at(server, AF_INET);
    open_end(client);
    prepare_client(client, AF_INET, rdma_get_src_port(server->listener));
    connect_client(client, "hello");
    ok(rdma_ack_cm_event(request(server, "hello")));
    ok(rdma_create_qp(server->id, NULL, &attr));
    ok(rdma_accept(server->id, rnr > 255 ? NULL : &param));
    expect_ack(server->channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    expect_ack(client->channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    client->mr = rdma_reg_msgs(client->id, client->memory, LEN);
    server->mr = rdma_reg_msgs(server->id, server->memory, LEN);
    assert_true(client->mr && server->mr);
    memset(client->memory, 0x5a, LEN);
}

static void send_one(struct end *client)
{
    struct ibv_wc wc;

    ok(rdma_post_send(client->id, client, client->memory, LEN, client->mr, IBV_SEND_SIGNALED));
    assert_int_equal(rdma_get_send_comp(client->id, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void finish(struct end *server, struct end *client)
{
    close_end(client);
    close_end(server);
}

/* The message waits, and is taken by the receive when that is posted at last. */
static void send__before_the_receive__waits_if_tries_are_many(void **state)
{
    static const unsigned rnr[] = {7, 6, 256};

    (void)state;
    for (unsigned i = 0; i < sizeof rnr / sizeof *rnr; i++) {
        struct end server, client;
        struct ibv_wc wc;
        establish_with(&server, &client, rnr[i]);
        send_one(&client);
        usleep(200000);
        nothing_more(server.channel);
        ok(rdma_post_recv(server.id, &server, server.memory, LEN, server.mr));
        assert_int_equal(rdma_get_recv_comp(server.id, &wc), 1);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_memory_equal(server.memory, client.memory, LEN);
        ok(rdma_disconnect(client.id));
        expect_ack(client.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        finish(&server, &client);
    }
}

/* 0 counts as 1. */
static void send__no_receive_comes__ends_when_the_tries_are_over(void **state)
{
    (void)state;
    for (unsigned rnr = 0; rnr < 2; rnr++) {
        struct end server, client;
        establish_with(&server, &client, rnr);
        int64_t begun = now_ms();
        send_one(&client);
        expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        assert_true(now_ms() - begun >= 655);
        expect_ack(client.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        finish(&server, &client);
    }
}

/* The program closes: it does not wait for what nobody will take. */
static void disconnect__while_a_message_waits__is_soon(void **state)
{
    (void)state;
    for (unsigned by_client = 0; by_client < 2; by_client++) {
        struct end server, client;
        establish_with(&server, &client, 7);
        send_one(&client);
        usleep(50000);
        int64_t begun = now_ms();
        ok(rdma_disconnect(by_client ? client.id : server.id));
        expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        expect_ack(client.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        assert_true(now_ms() - begun < 30000); /* of 60000 */
        finish(&server, &client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rule__each_timer__is_that_of_the_standard),
        cmocka_unit_test(rule__by_the_environment__is_that),
        cmocka_unit_test(send__before_the_receive__waits_if_tries_are_many),
        cmocka_unit_test(send__no_receive_comes__ends_when_the_tries_are_over),
        cmocka_unit_test(disconnect__while_a_message_waits__is_soon),
    };

    return cmocka_run_group_tests_name("cm_wait", tests, NULL, NULL);
}
