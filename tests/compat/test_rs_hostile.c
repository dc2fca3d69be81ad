/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers of rsockets that break rules: programs of rdma_cm that know the wire, and say something
 * else. Each costs its own connection, and no other. And what the wire looks like, as literals.
 */
#include "ends.h"
#include "rspreload/adopt.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <rdma/rsocket.h>

#include "../../src/rsocket/wire.c"

/* --- the wire -------------------------------------------------------------------------------- */

static const uint8_t hello_octets[RS_PRIVATE_LEN] = {
    1,    2,    0x01, 0x80, 0,    0,    0,    0x83, 0x00, 0x00, 0x7f, 0x12, 0x34, 0x56,
    0x78, 0x90, 0xaa, 0xbb, 0xcc, 0xdd, 0,    0,    0,    2,    0x00, 0x00, 0x55, 0x01,
    0x02, 0x03, 0x04, 0x05, 0x11, 0x22, 0x33, 0x44, 0,    1,    0,    0};

static void hello__literal__is_read_and_written(void **state)
{
    struct rs_hello hello;
    uint8_t octets[RS_PRIVATE_LEN];

    (void)state;
    assert_null(rs_hello_read(hello_octets, sizeof hello_octets, &hello));
    assert_int_equal(hello.credits, 384);
    assert_int_equal(hello.map_entries, 3 * 256);
    assert_int_equal(hello.targets.addr, 0x00007f1234567890);
    assert_int_equal(hello.targets.stag, 0xaabbccdd);
    assert_int_equal(hello.data.len, 65536);
    rs_hello_write(octets, &hello);
    assert_memory_equal(octets, hello_octets, sizeof octets);
    assert_int_equal(rs_map_size(128), 256);
    assert_int_equal(rs_map_size(127), 127);
    assert_int_equal(rs_message(RS_CREDITS, 0x12345), 0x80012345);
    assert_int_equal(rs_message_type(0xc0000007), RS_MAP);
}

static void hello__wrong_in_any_way__is_refused(void **state)
{
    struct rs_hello hello;
    uint8_t octets[RS_PRIVATE_LEN];
    static const struct {
        size_t at;
        uint8_t value;
    } wrong[] = {{0, 2}, {0, 0}, {1, 3}, {23, 3}, {23, 0}};

    (void)state;
    for (size_t len = 0; len < RS_PRIVATE_LEN; len++) {
        assert_non_null(rs_hello_read(hello_octets, len, &hello));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        memcpy(octets, hello_octets, sizeof octets);
        octets[wrong[i].at] = wrong[i].value;
        assert_non_null(rs_hello_read(octets, sizeof octets, &hello));
    }
    memcpy(octets, hello_octets, sizeof octets);
    octets[2] = octets[3] = 0; /* no credits */
    assert_non_null(rs_hello_read(octets, sizeof octets, &hello));
    memcpy(octets, hello_octets, sizeof octets);
    octets[37] = 0; /* no buffer */
    assert_non_null(rs_hello_read(octets, sizeof octets, &hello));
}

/* --- peers ----------------------------------------------------------------------------------- */

static int listener;
static struct sockaddr_in at;

static struct {
    struct rdma_cm_id *id;
    struct ibv_mr *mr, *shared_mr;
    uint8_t memory[4096], shared[64];
} evil;

static int set_up(void **state)
{
    const int octets = 2 * 65536; /* halves that one message fills, but for an octet */
    socklen_t len = sizeof at;

    (void)state;
    at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = rsocket(AF_INET, SOCK_STREAM, 0);
    ok(rsetsockopt(listener, SOL_SOCKET, SO_RCVBUF, &octets, sizeof octets));
    ok(rbind(listener, (struct sockaddr *)&at, sizeof at));
    ok(rlisten(listener, 16));
    ok(rgetsockname(listener, (struct sockaddr *)&at, &len));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rclose(listener);
    return 0;
}

/* With target entries of this end's own. 0, or -1 as rdma_connect says. */
static int come(const uint8_t *private_data, size_t len)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1000, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
    uint8_t octets[RS_PRIVATE_LEN];
    struct rdma_conn_param param = {.private_data = octets,
                                    .private_data_len = (uint8_t)len,
                                    .responder_resources = 1,
                                    .initiator_depth = 1};

    memset(&evil, 0, sizeof evil);
    ok(rdma_create_id(NULL, &evil.id, NULL, RDMA_PS_TCP));
    ok(rdma_resolve_addr(evil.id, NULL, (struct sockaddr *)&at, WAIT_MS));
    ok(rdma_resolve_route(evil.id, WAIT_MS));
    ok(rdma_create_qp(evil.id, NULL, &attr));
    evil.mr = rdma_reg_msgs(evil.id, evil.memory, sizeof evil.memory);
    evil.shared_mr = rdma_reg_write(evil.id, evil.shared, sizeof evil.shared);
    assert_true(evil.mr && evil.shared_mr);
    for (int i = 0; i < 16; i++) {
        ok(rdma_post_recv(evil.id, NULL, evil.memory, 4, evil.mr));
    }
    memcpy(octets, private_data, len);
    iwarp_put_be64(octets + 8, (uintptr_t)evil.shared);
    iwarp_put_be32(octets + 16, evil.shared_mr->rkey);
    iwarp_put_be64(octets + 24, (uintptr_t)evil.shared + 32); /* the data go there, if any */
    iwarp_put_be32(octets + 32, evil.shared_mr->rkey);
    return rdma_connect(evil.id, &param);
}

static void go(void)
{
    rdma_disconnect(evil.id);
    rdma_dereg_mr(evil.mr);
    rdma_dereg_mr(evil.shared_mr);
    rdma_destroy_ep(evil.id);
}

static void *accept_one(void *arg)
{
    *(int *)arg = raccept(listener, NULL, NULL);
    return NULL;
}

/* A connection with private data that are right. The victim. */
static int meet_with(uint16_t credits)
{
    struct rs_hello hello;
    uint8_t octets[RS_PRIVATE_LEN];
    pthread_t thread;
    int victim = -1;

    assert_null(rs_hello_read(hello_octets, sizeof hello_octets, &hello));
    pthread_create(&thread, NULL, accept_one, &victim);
    hello.map_entries = 0;
    hello.credits = credits;
    rs_hello_write(octets, &hello);
    ok(come(octets, sizeof octets));
    pthread_join(thread, NULL);
    assert_true(victim >= 0);
    return victim;
}

static int meet(void)
{
    return meet_with(384);
}

static void say(uint32_t message, size_t octets)
{
    struct ibv_wc wc;

    memcpy(evil.memory + 64, &message, sizeof message);
    ok(rdma_post_send(evil.id, NULL, evil.memory + 64, octets, evil.mr, IBV_SEND_SIGNALED));
    (void)rdma_get_send_comp(evil.id, &wc);
}

/* The victim has noticed; others have not. */
static void ends(int victim, int error)
{
    char octet;
    ssize_t n;

    while ((n = rrecv(victim, &octet, 1, 0)) > 0) {
    }
    assert_int_equal(n, error ? -1 : 0);
    assert_int_equal(error ? errno : 0, error);
    rclose(victim);
    go();
}

static void private_data__wrong__are_rejected_and_others_still_come(void **state)
{
    uint8_t octets[RS_PRIVATE_LEN];
    int victim;

    (void)state;
    for (int i = 0; i < 4; i++) {
        memcpy(octets, hello_octets, sizeof octets);
        octets[0] = i == 1 ? 9 : octets[0];
        octets[1] = i == 2 ? 3 : octets[1];
        octets[2] = octets[3] = i == 3 ? 0 : octets[3];
        assert_int_equal(come(octets, i == 0 ? 39 : sizeof octets), -1);
        assert_int_equal(errno, ECONNREFUSED);
        go();
    }
    victim = meet();
    say(rs_message(RS_CONTROL, RS_DISCONNECT), 4);
    ends(victim, 0);
}

static void message__longer_than_what_was_lent__ends_the_connection(void **state)
{
    int victim = meet();

    (void)state;
    say(rs_message(RS_DATA, 65535), 4);
    say(rs_message(RS_DATA, 2), 4); /* one more than is left of the half */
    ends(victim, EPROTO);
}

/* A connection that fills what it is lent, and ends. */
static void leave_octets(void)
{
    static uint8_t octets[65535];
    const int client = rsocket(AF_INET, SOCK_STREAM, 0);
    pthread_t thread;
    int server = -1;

    pthread_create(&thread, NULL, accept_one, &server);
    ok(rconnect(client, (struct sockaddr *)&at, sizeof at));
    pthread_join(thread, NULL);
    memset(octets, 1, sizeof octets);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(rsend(client, octets, sizeof octets, 0), sizeof octets);
        assert_int_equal(rrecv(server, octets, sizeof octets, MSG_WAITALL), sizeof octets);
    }
    rclose(client);
    rclose(server);
    usleep(100000); /* until it is freed */
}

static void expect_zeros(void)
{
    static uint8_t got[65535], zeros[sizeof got];

    for (unsigned i = 0; i < 3; i++) { /* also in memory that other connections have used */
        leave_octets();
        int victim = meet();
        say(rs_message(RS_DATA, sizeof got), 4);
        memset(got, 1, sizeof got);
        assert_int_equal(rrecv(victim, got, sizeof got, MSG_WAITALL), sizeof got);
        assert_memory_equal(got, zeros, sizeof got);
        say(rs_message(RS_CONTROL, RS_DISCONNECT), 4);
        ends(victim, 0);
    }
}

/* What this end's process had in that memory before would be told to a peer that gets an echo.
 * Buffers of both lengths, that of the listener and the default. */
static void message__about_octets_that_were_not_written__gives_zeros(void **state)
{
    const struct sockaddr_in first = at;
    const int first_listener = listener;
    socklen_t len = sizeof at;

    (void)state;
    expect_zeros();
    at.sin_port = 0;
    listener = rsocket(AF_INET, SOCK_STREAM, 0);
    ok(rbind(listener, (struct sockaddr *)&at, sizeof at));
    ok(rlisten(listener, 16));
    ok(rgetsockname(listener, (struct sockaddr *)&at, &len));
    expect_zeros();
    rclose(listener);
    listener = first_listener;
    at = first;
}

static void message__of_nothing_of_no_type_or_length__ends_the_connection(void **state)
{
    static const struct {
        uint32_t message;
        size_t octets;
    } wrong[] = {{0x00000000, 4},
                 {0x20000001, 4},
                 {0x40000001, 4},
                 {0xa0000001, 4},
                 {0xc0000000, 4} /* no map */,
                 {0x00000001, 3}};

    (void)state;
    for (size_t i = 0; i < 2 * sizeof wrong / sizeof wrong[0]; i++) {
        struct pollfd face = {-1, 0, 0};
        int victim = meet();
        if (i % 2 == 1) { /* the loop's thread finds it */
            face.fd = iwarp_rs_watch(victim);
            assert_true(face.fd >= 0);
        }
        say(wrong[i / 2].message, wrong[i / 2].octets);
        if (i % 2 == 1) {
            assert_int_equal(poll(&face, 1, 20000), 1);
            assert_true(face.revents & POLLHUP);
        }
        ends(victim, EPROTO);
    }
}

static void credits__taken_back__end_the_connection(void **state)
{
    int victim = meet();

    (void)state;
    say(rs_message(RS_CREDITS, 385), 4);
    say(rs_message(RS_CREDITS, 384), 4);
    ends(victim, EPROTO);
}

/* A queue may be so long that the count looks as if it were below zero. */
static void credits__of_the_longest_queues__are_used(void **state)
{
    static const uint16_t queues[] = {32767, 32768, 65534};

    (void)state;
    for (size_t i = 0; i < sizeof queues / sizeof queues[0]; i++) {
        int victim = meet_with(queues[i]);
        struct ibv_wc wc;
        uint32_t message;
        assert_int_equal(rsend(victim, "x", 1, 0), 1);
        do { /* its credits may come first */
            assert_int_equal(rdma_get_recv_comp(evil.id, &wc), 1);
            memcpy(&message, evil.memory, sizeof message);
        } while (rs_message_type(message) == RS_CREDITS);
        assert_int_equal(message, rs_message(RS_DATA, 1));
        say(rs_message(RS_CREDITS, (uint16_t)(queues[i] + 1)), 4);
        say(rs_message(RS_CREDITS, queues[i]), 4);
        ends(victim, EPROTO);
    }
}

static void messages__beyond_the_credits__end_the_connection(void **state)
{
    int victim = meet();

    (void)state;
    for (int i = 0; i < 385; i++) {
        say(rs_message(RS_DATA, 1), 4);
    }
    usleep(200000); /* all of them have come before the first is read */
    ends(victim, EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello__literal__is_read_and_written),
        cmocka_unit_test(hello__wrong_in_any_way__is_refused),
        cmocka_unit_test(private_data__wrong__are_rejected_and_others_still_come),
        cmocka_unit_test(message__longer_than_what_was_lent__ends_the_connection),
        cmocka_unit_test(message__about_octets_that_were_not_written__gives_zeros),
        cmocka_unit_test(message__of_nothing_of_no_type_or_length__ends_the_connection),
        cmocka_unit_test(credits__taken_back__end_the_connection),
        cmocka_unit_test(credits__of_the_longest_queues__are_used),
        cmocka_unit_test(messages__beyond_the_credits__end_the_connection),
    };

    alarm(300);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
