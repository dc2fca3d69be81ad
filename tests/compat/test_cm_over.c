/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm.so.1, when a program is told that its peer has gone: once it has polled what the peer
 * sent before, soon all the same if it does not poll, and at once where nothing waits.
 *
 * Each time is taken from before the call that ends the connection.  So what is held until LATE_MS
 * never comes before them, however slow the machine: only what should come sooner may be late, and
 * then the test tries again.
 */
#include "ends.h"

#include "../support/child.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define SOON_MS 30 /* the first looks are over */
#define LAST_MS 63 /* the last look but the one that tells in any case */
#define LATE_MS 127
#define MOST    64 /* held at the same time */

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

static void open_pair(struct end *s, struct end *c)
{
    establish(s, c, AF_INET);
    s->mr = rdma_reg_msgs(s->id, s->memory, LEN);
    c->mr = rdma_reg_msgs(c->id, c->memory, LEN);
    assert_true(s->mr && c->mr);
}

static void open_both(void)
{
    open_pair(&server, &client);
}

static void send_message(struct end *from, struct end *to)
{
    struct ibv_wc wc;

    ok(rdma_post_recv(to->id, to, to->memory, LEN, to->mr));
    ok(rdma_post_send(from->id, from, from->memory, 100, from->mr, IBV_SEND_SIGNALED));
    assert_int_equal(rdma_get_send_comp(from->id, &wc), 1);
}

/* Its queue pair knows that the peer has gone, and so has all that the peer had sent. */
static void await_end(const struct end *e)
{
    const int64_t end = now_ms() + WAIT_MS;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    for (;;) {
        ok(ibv_query_qp(e->id->qp, &attr, IBV_QP_STATE, &init));
        if (attr.qp_state != IBV_QPS_RTS && attr.qp_state != IBV_QPS_SQD) {
            return;
        }
        assert_true(now_ms() < end);
        usleep(100);
    }
}

/* The client sends a message and goes.  Returns when it went, once the server has both. */
static int64_t send_and_go(void)
{
    open_both();
    send_message(&client, &server);
    const int64_t begin = now_ms();
    ok(rdma_disconnect(client.id));
    await_end(&server);
    return begin;
}

static void take_message(struct end *e)
{
    struct ibv_wc wc;

    assert_int_equal(ibv_poll_cq(e->id->recv_cq, 1, &wc), 1);
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
    int fair = 0, in_time = 0;

    (void)state;
    for (int i = 0; i < 8; i++) {
        const int64_t begin = send_and_go();
        const bool early = told(&server, SOON_MS);
        assert_true(!early || now_ms() - begin >= LATE_MS);
        take_message(&server);
        const bool in_turn = now_ms() - begin < LAST_MS; /* else only the last look is left */
        expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        fair += in_turn;
        in_time += in_turn && now_ms() - begin < LATE_MS;
        close_both();
    }
    print_message("# %d fair tries, %d told in time\n", fair, in_time);
    assert_true(in_time > 0 || fair == 0); /* on a busy machine none may be fair */
}

static void peer_gone__with_a_message_never_polled__is_told_all_the_same(void **state)
{
    (void)state;
    const int64_t begin = send_and_go();
    expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    assert_true(now_ms() - begin < 30000);
    take_message(&server);
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
        const int64_t begin = now_ms();
        ok(rdma_disconnect(client.id));
        expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        const int64_t took = now_ms() - begin;
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
        open_both();
        ok(ibv_req_notify_cq(client.id->recv_cq, 0));
        send_message(&server, &client);
        struct pollfd p = {.fd = client.id->recv_cq_channel->fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, WAIT_MS), 1); /* it is in the completion queue */
        const int64_t begin = now_ms();
        ok(rdma_disconnect(client.id));
        expect_ack(client.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        const int64_t took = now_ms() - begin;
        least = took < least ? took : least;
        take_message(&client); /* it was there all the time */
        close_both();
    }
    print_message("# %lld ms at least\n", (long long)least);
    assert_true(least < SOON_MS);
}

/* --- more than are held ---------------------------------------------------------------------- */

#define MANY  (MOST + 2)
#define TRIES 3
static struct end servers[MANY], clients[MANY];

static void open_many(void)
{
    for (int i = 0; i < MANY; i++) {
        open_pair(&servers[i], &clients[i]);
        ok(rdma_destroy_id(servers[i].listener)); /* fewer descriptors */
        servers[i].listener = NULL;
        send_message(&clients[i], &servers[i]);
    }
}

/* Without the pause in which close_end looks for further events. */
static void close_many(struct end *e)
{
    for (int i = 0; i < MANY; i++) {
        ok(rdma_dereg_mr(e[i].mr));
        close_id(&e[i].id);
        rdma_destroy_event_channel(e[i].channel);
    }
}

static int count_told(void)
{
    int n = 0;

    for (int i = 0; i < MANY; i++) {
        n += told(&servers[i], 0);
    }
    return n;
}

static void peers_gone__more_than_are_held__the_others_are_told_at_once(void **state)
{
    int n = 0, fair = 0;

    (void)state;
    for (int tries = 0; tries < TRIES && n < MANY - MOST; tries++) {
        open_many();
        const int64_t begin = now_ms();
        for (int i = 0; i < MANY; i++) {
            ok(rdma_disconnect(clients[i].id));
        }
        for (int i = 0; i < MANY; i++) {
            await_end(&servers[i]);
        }
        fair += now_ms() - begin < LAST_MS;
        while (now_ms() - begin < LATE_MS) {
            const int now = count_told();
            n = now_ms() - begin < LATE_MS ? now : n;
            usleep(1000);
        }
        close_many(clients);
        close_many(servers);
    }
    print_message("# %d fair tries, %d told\n", fair, n);
    assert_true(n == MANY - MOST || (n < MANY - MOST && fair < TRIES));
}

/* --- ids that do not stay -------------------------------------------------------------------- */

static void id__that_ends_before_it_is_told__is_forgotten(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        (void)send_and_go();
        (void)told(&server, 5);
        close_both();
    }
    (void)send_and_go(); /* the thread of events goes on */
    take_message(&server);
    expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    close_both();
}

static void id__that_moves_before_it_is_told__is_told_on_its_new_channel(void **state)
{
    struct rdma_event_channel *other;

    (void)state;
    for (int i = 0; i < 5; i++) {
        (void)send_and_go();
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

/* In a child, which a failed assertion ends.  When this is told, all looks are over. */
static void be_told_of_ones_own(void)
{
    (void)signal(SIGABRT, SIG_DFL);
    (void)setenv("CMOCKA_TEST_ABORT", "1", 1);
    (void)alarm(CHILD_SECONDS);
    (void)send_and_go();
    expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    _exit(0);
}

/* A child that told it would do so in the channel's descriptor, which is the parent's as well. */
static void id__that_is_held_at_a_fork__is_told_by_the_parent_alone(void **state)
{
    int status = -1;

    (void)state;
    if (CHILD_SANITIZED == 2) { /* it does not know children that start threads */
        return;
    }
    for (int i = 0; i < 3; i++) {
        (void)send_and_go();
        (void)told(&server, 5);
        (void)fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            be_told_of_ones_own();
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        expect_ack(server.channel, RDMA_CM_EVENT_DISCONNECTED, 0);
        nothing_more(server.channel);
        take_message(&server);
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
        cmocka_unit_test(peers_gone__more_than_are_held__the_others_are_told_at_once),
        cmocka_unit_test(id__that_ends_before_it_is_told__is_forgotten),
        cmocka_unit_test(id__that_moves_before_it_is_told__is_told_on_its_new_channel),
        cmocka_unit_test(id__that_is_held_at_a_fork__is_told_by_the_parent_alone),
    };

    return cmocka_run_group_tests_name("cm_over", tests, NULL, NULL);
}
