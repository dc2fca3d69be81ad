/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm.so.1, when a program is told that its peer has gone: once it has polled what the peer
 * sent before, soon all the same if it does not poll, and at once where nothing waits.
 */
#include "ends.h"

#include <time.h>

#define SOON_MS 30 /* the first looks are over */
#define LATE_MS 127

static struct end server, client;

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool told(const struct end *e, int ms)
{
    struct pollfd p = {.fd = e->channel->fd, .events = POLLIN};

    return poll(&p, 1, ms) > 0;
}

static void open_both(void)
{
    establish(&server, &client, AF_INET);
    server.mr = rdma_reg_msgs(server.id, server.memory, LEN);
    client.mr = rdma_reg_msgs(client.id, client.memory, LEN);
    assert_true(server.mr && client.mr);
}

/* The client sends a message and goes.  Returns once its completion is at the server. */
static void send_and_go(void)
{
    struct ibv_wc wc;

    open_both();
    ok(rdma_post_recv(server.id, &server, server.memory, LEN, server.mr));
    ok(rdma_post_send(client.id, &client, client.memory, 100, client.mr, IBV_SEND_SIGNALED));
    assert_int_equal(rdma_get_send_comp(client.id, &wc), 1);
    ok(rdma_disconnect(client.id));
}

static void take_message(void)
{
    struct ibv_wc wc;
    int n;

    do {
        n = ibv_poll_cq(server.id->recv_cq, 1, &wc);
    } while (n == 0);
    assert_int_equal(n, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, 100);
}

static void close_both(void)
{
    close_end(&client);
    close_end(&server);
}

static void peer_gone__with_a_message_unpolled__is_told_when_it_was_polled(void **state)
{
    int in_time = 0;

    (void)state;
    for (int i = 0; i < 5; i++) {
        int64_t begin = now_ms();
        send_and_go();
        in_time += !told(&server, SOON_MS);
        take_message();
        expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        in_time -= now_ms() - begin > LATE_MS; /* a busy machine: it proves nothing */
        close_both();
    }
    assert_true(in_time > 0);
}

static void peer_gone__with_a_message_never_polled__is_told_all_the_same(void **state)
{
    struct ibv_wc wc;

    (void)state;
    send_and_go();
    int64_t begin = now_ms();
    expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    assert_true(now_ms() - begin < 30000);
    assert_int_equal(ibv_poll_cq(server.id->recv_cq, 1, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    close_both();
}

/* Receives that were flushed hold nothing up: many programs never poll them. */
static void peer_gone__with_nothing_but_flushed_receives__is_told_at_once(void **state)
{
    int64_t least = 1000;

    (void)state;
    for (int i = 0; i < 10; i++) {
        open_both();
        ok(rdma_post_recv(server.id, &server, server.memory, LEN, server.mr));
        ok(rdma_post_recv(server.id, &server, server.memory, LEN, server.mr));
        int64_t begin = now_ms();
        ok(rdma_disconnect(client.id));
        expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        int64_t took = now_ms() - begin;
        least = took < least ? took : least;
        close_both();
    }
    print_message("# %lld ms at least\n", (long long)least);
    assert_true(least < SOON_MS);
}

/* It has decided already, and may never poll. */
static void this_end_gone__with_a_message_unpolled__is_told_at_once(void **state)
{
    int64_t least = 1000;

    (void)state;
    for (int i = 0; i < 10; i++) {
        send_and_go();
        int64_t begin = now_ms();
        expect_ack(client.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        int64_t took = now_ms() - begin;
        least = took < least ? took : least;
        close_both();
    }
    assert_true(least < SOON_MS);
}

static void id__that_ends_before_it_is_told__is_forgotten(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        send_and_go();
        (void)told(&server, 5);
        close_both();
    }
    send_and_go(); /* the thread of events goes on */
    take_message();
    expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    close_both();
}

static void id__that_moves_before_it_is_told__is_told_on_its_new_channel(void **state)
{
    struct rdma_event_channel *other;

    (void)state;
    for (int i = 0; i < 5; i++) {
        send_and_go();
        (void)told(&server, 5);
        other = rdma_create_event_channel();
        assert_non_null(other);
        ok(rdma_migrate_id(server.id, other));
        expect_ack(other, RDMA_CM_EVENT_DISCONNECTED, 0);
        ok(rdma_migrate_id(server.id, server.channel));
        rdma_destroy_event_channel(other);
        nothing_more(server.channel);
        close_both();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peer_gone__with_a_message_unpolled__is_told_when_it_was_polled),
        cmocka_unit_test(peer_gone__with_a_message_never_polled__is_told_all_the_same),
        cmocka_unit_test(peer_gone__with_nothing_but_flushed_receives__is_told_at_once),
        cmocka_unit_test(this_end_gone__with_a_message_unpolled__is_told_at_once),
        cmocka_unit_test(id__that_ends_before_it_is_told__is_forgotten),
        cmocka_unit_test(id__that_moves_before_it_is_told__is_told_on_its_new_channel),
    };

    return cmocka_run_group_tests_name("cm_over", tests, NULL, NULL);
}
