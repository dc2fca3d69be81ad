/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hosts of iwarp-nvmf that do what they may not: each gets what it deserves, and the one beside it
 * notices nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nvmf_side.h"

#define DNR   0x4000
#define BLOCK 4096

static struct side s;
static struct nvmf_host_queue *other_admin, *other; /* of the host beside it */

static int set_up(void **state)
{
    (void)state;
    side_open(&s, 4 << 20, true);
    side_disk(&s, "ram:4M", false);
    side_join(&s);
    other_admin = s.admin;
    other = s.io;
    side_join(&s);
    return 0;
}

static int tear_down(void **state)
{
    struct nvmf_host_queue *io = s.io, *admin = s.admin;

    (void)state;
    s.io = other;
    assert_int_equal(side_io(&s, NVMF_WRITE, 0, 0, 0, BLOCK), NVMF_OK);
    s.io = io;
    s.admin = admin;
    nvmf_host_queue_close(other);
    nvmf_host_queue_close(other_admin);
    side_close(&s);
    return 0;
}

static void stag__wrong__ends_that_queue_alone(void **state)
{
    uint8_t command[NVMF_COMMAND_LEN];

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        side_put_io(&s, command, i ? NVMF_READ : NVMF_WRITE, 0, 0, 0, BLOCK);
        command[35] ^= 0x10;
        assert_int_equal(nvmf_host_do(s.io, command, NULL, 0, NULL), -1);
        assert_false(s.admin->ended);
        side_run(&s, NULL, 50); /* the target sees the end */
        assert_int_equal(s.target.net.arena.used, 0);
        nvmf_host_queue_close(s.io);
        s.io = side_queue(&s, 1, 32);
        assert_int_equal(side_join_as(&s, s.io, SIDE_NQN, SIDE_HOST, s.connect.controller_id, 0),
                         NVMF_OK);
    }
    /* Beyond its end. */
    side_put_io(&s, command, NVMF_WRITE, 0, 0, SIDE_MEMORY - BLOCK + 1, BLOCK);
    assert_int_equal(nvmf_host_do(s.io, command, NULL, 0, NULL), -1);
}

static void commands__more_than_announced__end_the_queue(void **state)
{
    uint8_t command[NVMF_COMMAND_LEN];
    struct arena_share all = {0};
    void *piece[3];
    struct nvmf_host_queue *queue;

    (void)state;
    s.host.announce = 4;
    queue = side_queue(&s, 2, 32);
    assert_int_equal(side_join_as(&s, queue, SIDE_NQN, SIDE_HOST, s.connect.controller_id, 0),
                     NVMF_OK);
    for (unsigned i = 0; i < 2; i++) { /* no buffer is left, so all commands wait */
        piece[i] = arena_take(&s.target.net.arena, &all, ARENA_LARGEST);
        assert_non_null(piece[i]);
    }
    side_put_io(&s, command, NVMF_READ, 0, 0, 0, BLOCK);
    for (unsigned i = 0; i < 4; i++) {
        assert_non_null(nvmf_host_send(queue, command, NULL, 0, NULL, NULL));
    }
    side_run(&s, queue, 100);
    assert_false(queue->ended);
    assert_int_equal(s.target.net.arena.waiting, 4);
    assert_non_null(nvmf_host_send(queue, command, NULL, 0, NULL, NULL));
    side_run(&s, queue, 5000);
    assert_true(queue->ended);
    side_run(&s, NULL, 50);
    assert_int_equal(s.target.net.arena.waiting, 0);
    for (unsigned i = 0; i < 2; i++) {
        arena_give(&s.target.net.arena, &all, piece[i]);
    }
    nvmf_host_queue_close(queue);
}

/* Hosts go away while their commands are everywhere: in line, being read, with the disk. */
static void host__vanishes_under_load__leaves_nothing_behind(void **state)
{
    uint8_t command[NVMF_COMMAND_LEN];

    (void)state;
    side_file(&s, 4 << 20);
    for (unsigned round = 0; round < 40; round++) {
        struct nvmf_host_queue *queue = side_queue(&s, 2, 32);
        assert_int_equal(side_join_as(&s, queue, SIDE_NQN, SIDE_HOST, s.connect.controller_id, 0),
                         NVMF_OK);
        for (unsigned i = 0; i < 32; i++) {
            side_put_io(&s, command, i % 3 ? NVMF_WRITE : NVMF_READ, 0, 63, 0, 64 * BLOCK);
            nvmf_put32(command + 4, 1 + i % 2);
            nvmf_host_send(queue, command, NULL, 0, NULL, NULL);
        }
        for (unsigned i = 0; i < round; i++) {
            uv_run(&s.loop, UV_RUN_NOWAIT);
        }
        iwarp_abort(queue->conn);
        nvmf_host_queue_close(queue);
        side_run(&s, NULL, 20);
    }
    for (unsigned i = 0; i < 100 && s.target.net.queue_count > 4; i++) {
        side_run(&s, NULL, 20);
    }
    assert_int_equal(s.target.net.queue_count, 4);
    assert_int_equal(s.target.net.arena.used, 0);
    assert_int_equal(nvmf_namespace_find(s.subsystem, 2)->busy, 0);
}

static void capsule__cut_or_with_wrong_flags__is_answered(void **state)
{
    uint8_t command[NVMF_COMMAND_LEN];

    (void)state;
    side_put_io(&s, command, NVMF_READ, 0, 0, 0, BLOCK);
    command[1] = 0x41; /* fused with the next */
    assert_int_equal(nvmf_host_do(s.io, command, NULL, 0, NULL), NVMF_INVALID_FIELD | DNR);
    command[1] = 0x80; /* an SGL for metadata */
    assert_int_equal(nvmf_host_do(s.io, command, NULL, 0, NULL), NVMF_INVALID_FIELD | DNR);
    command[1] = 0;
    command[39] = 0x30; /* an SGL segment elsewhere */
    assert_int_equal(nvmf_host_do(s.io, command, NULL, 0, NULL), NVMF_SGL_TYPE | DNR);
    /* 20 octets, of identifier 31. */
    memset(s.io->capsules, 0, 20);
    s.io->capsules[2] = 31;
    s.io->slots[31].busy = true;
    struct iwarp_sge sge = {s.io->capsules, 20, iwarp_mr_stag(s.io->mr)};
    struct iwarp_send_wr wr = {.opcode = IWARP_WR_SEND, .sg_list = &sge, .num_sge = 1};
    side_must(iwarp_post_send(s.io->qp, &wr, NULL) == IWARP_OK, "send");
    for (unsigned i = 0; i < 100 && s.io->slots[31].busy; i++) {
        side_run(&s, s.io, 20);
    }
    assert_false(s.io->slots[31].busy);
    assert_int_equal(s.io->slots[31].response.status, NVMF_INVALID_FIELD | DNR);
}

static void private_data__wrong__is_rejected(void **state)
{
    static const struct {
        uint8_t octets[32];
        size_t len;
        uint8_t reason;
    } cases[] = {
        {{0}, 31, NVMF_REJECT_LENGTH},
        {{1}, 32, NVMF_REJECT_FORMAT},
        {{0, 0, 200, 0, 32, 0, 31, 0}, 32, NVMF_REJECT_QID},
        {{0, 0, 0, 0, 32, 0, 255, 255}, 32, NVMF_REJECT_HSQSIZE},
        {{0, 0, 0, 0, 0, 0, 31, 0}, 32, NVMF_REJECT_HRQSIZE},
    };
    struct iwarp_qp_options options;

    (void)state;
    iwarp_qp_options_init(&options);
    options.send_cq = options.recv_cq = s.host.cq;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct iwarp_conn *conn;
        struct iwarp_qp *qp;
        size_t len;
        const uint8_t *answer;
        side_must(iwarp_qp_create(s.host.pd, &options, &qp) == IWARP_OK, "qp");
        side_must(iwarp_connect(qp, (struct sockaddr *)&s.addr, s.addr_len, NULL, cases[i].octets,
                                cases[i].len, NULL, NULL, &conn) == IWARP_OK,
                  "connect");
        assert_int_equal(iwarp_conn_wait(conn, 10000), IWARP_PEER);
        answer = iwarp_conn_private_data(conn, &len);
        assert_int_equal(len, 4);
        assert_int_equal(answer[2], cases[i].reason);
        iwarp_conn_destroy(conn);
        iwarp_qp_destroy(qp);
    }
}

static void queues__200_at_a_time__are_served_and_freed(void **state)
{
    static struct nvmf_host_queue *queues[200];
    uint8_t command[NVMF_COMMAND_LEN];
    size_t before = s.target.net.queue_count;

    (void)state;
    for (unsigned i = 0; i < 200; i += 2) {
        queues[i] = side_queue(&s, 0, 32);
        assert_int_equal(side_join_as(&s, queues[i], SIDE_NQN, SIDE_HOST, 0xffff, 0), NVMF_OK);
        queues[i + 1] = side_queue(&s, 1, 8);
        assert_int_equal(
            side_join_as(&s, queues[i + 1], SIDE_NQN, SIDE_HOST, s.connect.controller_id, 0),
            NVMF_OK);
    }
    assert_int_equal(s.target.controllers.count, 102);
    for (unsigned i = 1; i < 200; i += 2) {
        side_put_io(&s, command, NVMF_READ, i, 0, 0, BLOCK);
        assert_int_equal(nvmf_host_do(queues[i], command, NULL, 0, NULL), NVMF_OK);
    }
    for (unsigned i = 0; i < 200; i++) {
        nvmf_host_queue_close(queues[i]);
    }
    for (unsigned i = 0; i < 100 && s.target.net.queue_count > before; i++) {
        side_run(&s, NULL, 20);
    }
    assert_int_equal(s.target.net.queue_count, before);
    assert_int_equal(s.target.controllers.count, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stag__wrong__ends_that_queue_alone),
        TEST(commands__more_than_announced__end_the_queue),
        TEST(host__vanishes_under_load__leaves_nothing_behind),
        TEST(capsule__cut_or_with_wrong_flags__is_answered),
        TEST(private_data__wrong__is_rejected),
        TEST(queues__200_at_a_time__are_served_and_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
