/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands of iwarp-nvmf that a disk still has when their connection has ended: what the host sends
 * on a new one comes after them, and nothing of them is left in memory that is freed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "nvmf_side.h"
#include "programs/disks/engine.h"

#define DNR   0x4000
#define BLOCK 4096

static struct side s;

/* A disk that does nothing before `let_go`. */
static void (*real_start)(struct disk_engine *engine, struct disk_io *io);
static struct disk_io *held;

static void hold(struct disk_engine *engine, struct disk_io *io)
{
    (void)engine;
    held = io;
}

static void let_go(void)
{
    struct disk_io *io = held;

    held = NULL;
    s.target.engine->start = real_start;
    real_start(s.target.engine, io);
}

static int set_up(void **state)
{
    (void)state;
    side_open(&s, 4 << 20, true);
    side_file(&s, 4 << 20);
    side_join(&s);
    held = NULL;
    real_start = s.target.engine->start;
    s.target.engine->start = hold;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (held) {
        let_go(); /* a test has failed */
    }
    side_close(&s);
    return 0;
}

static void run_until(bool (*is_so)(void))
{
    for (unsigned i = 0; i < 500 && !is_so(); i++) {
        side_run(&s, NULL, 10);
    }
    assert_true(is_so());
}

static bool disk_has_it(void)
{
    return held;
}

static bool a_queue_has_ended(void)
{
    const struct nvmf_queue *queue = s.target.net.queues;

    while (queue && queue->state != NVMF_ENDED) {
        queue = queue->next;
    }
    return queue;
}

static bool connect_waits(void)
{
    const struct nvmf_queue *queue = s.target.net.queues;

    while (queue && !queue->connecting) {
        queue = queue->next;
    }
    return queue;
}

static bool only_admin_is_left(void)
{
    return s.target.net.queue_count == 1;
}

/* The disk gets this command, and the host's I/O queue ends. */
static void lose_queue_with(uint8_t opcode)
{
    uint8_t command[NVMF_COMMAND_LEN];
    size_t queues = s.target.net.queue_count;

    side_put_io(&s, command, opcode, 3, 0, 0, opcode == NVMF_WRITE ? BLOCK : 0);
    memset(s.host.memory, 'a', BLOCK);
    assert_non_null(nvmf_host_send(s.io, command, NULL, 0, NULL, NULL));
    run_until(disk_has_it);
    iwarp_abort(s.io->conn);
    nvmf_host_queue_close(s.io);
    s.io = NULL;
    run_until(a_queue_has_ended);
    assert_int_equal(s.target.net.queue_count, queues); /* it has yet to be freed */
}

/* Connect, without waiting for the answer. */
static struct nvmf_host_slot *send_connect(struct nvmf_host_queue *queue, const char *host,
                                           uint16_t controller)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_FABRICS, [4] = NVMF_CONNECT}, data[NVMF_CONNECT_LEN];
    struct nvmf_connect connect = {.controller_id = controller};
    struct nvmf_host_slot *slot;

    snprintf(connect.subsystem, sizeof connect.subsystem, "%s", SIDE_NQN);
    snprintf(connect.host, sizeof connect.host, "%s", host);
    memset(connect.host_id, 0x5a, sizeof connect.host_id);
    nvmf_connect_write(data, &connect);
    nvmf_put32(command + 32, sizeof data);
    command[39] = 0x01;
    nvmf_put16(command + 42, queue->id);
    nvmf_put16(command + 44, 31);
    slot = nvmf_host_send(queue, command, data, sizeof data, NULL, NULL);
    assert_non_null(slot);
    return slot;
}

static void has_answer(const struct nvmf_host_slot *slot, unsigned status)
{
    side_await_answer(&s, slot);
    assert_int_equal(slot->response.status, status);
}

/* The host writes anew what was not answered, then something else, which must stay. */
static void writes_again(void)
{
    memset(s.host.memory, 'b', BLOCK);
    assert_int_equal(side_io(&s, NVMF_WRITE, 3, 0, 0, BLOCK), NVMF_OK);
    side_run(&s, NULL, 100);
    assert_int_equal(side_io(&s, NVMF_READ, 3, 0, BLOCK, BLOCK), NVMF_OK);
    assert_memory_equal(s.host.memory, s.host.memory + BLOCK, BLOCK);
    assert_int_equal(s.target.net.queue_count, 2);
}

/* A new queue takes the place of the lost one, and waits for the disk. */
static struct nvmf_host_slot *lose_queue_and_connect(void)
{
    lose_queue_with(NVMF_WRITE);
    s.io = side_queue(&s, 1, 32);
    struct nvmf_host_slot *slot = send_connect(s.io, SIDE_HOST, s.connect.controller_id);
    run_until(connect_waits);
    assert_true(slot->busy);
    return slot;
}

static void write__of_a_queue_that_has_ended__comes_before_another_queue(void **state)
{
    struct nvmf_host_slot *slot;

    (void)state;
    slot = lose_queue_and_connect();
    /* One more is not kept. */
    has_answer(send_connect(s.io, SIDE_HOST, s.connect.controller_id), NVMF_SEQUENCE | DNR);
    let_go();
    has_answer(slot, NVMF_OK);
    writes_again();
}

static void write__of_a_host_that_was_away__comes_before_another_controller(void **state)
{
    struct nvmf_host_queue *admin;
    struct nvmf_host_slot *slot;

    (void)state;
    lose_queue_with(NVMF_WRITE);
    nvmf_host_queue_close(s.admin);
    s.admin = side_queue(&s, 0, 32);
    slot = send_connect(s.admin, SIDE_HOST, 0xffff);
    run_until(connect_waits);
    assert_true(slot->busy);
    admin = side_queue(&s, 0, 32); /* another host need not wait for it */
    has_answer(send_connect(admin, SIDE_HOST "x", 0xffff), NVMF_OK);
    nvmf_host_queue_close(admin);
    let_go();
    has_answer(slot, NVMF_OK);
    nvmf_host_queue_close(s.admin);
    side_join(&s);
    writes_again();
}

/* It is as long as any Connect may take; and its end, too, leaves nothing behind. */
static void connect__that_waits_too_long_for_a_disk__ends_its_connection(void **state)
{
    const struct nvmf_host_slot *slot;

    (void)state;
    slot = lose_queue_and_connect();
    nvmf_net_idle(&s.target.net, uv_hrtime() / 1000000 + 10001, 10000);
    side_run(&s, s.io, 5000);
    assert_true(s.io->ended);
    has_answer(slot, NVMF_CONNECT_BUSY); /* the host may try again */
    let_go();
    run_until(only_admin_is_left);
    assert_false(s.admin->ended);
}

/* The file system cannot write zeros by itself, so they need a buffer, and there is none. */
static void zeroes__of_a_queue_that_has_ended__wait_for_no_buffer(void **state)
{
    struct arena_share all = {0};
    void *pieces[2];

    (void)state;
    lose_queue_with(NVMF_WRITE_ZEROES);
    for (unsigned i = 0; i < 2; i++) {
        pieces[i] = arena_take(&s.target.net.arena, &all, ARENA_LARGEST);
        assert_non_null(pieces[i]);
    }
    held->error = EOPNOTSUPP;
    s.target.engine->start = real_start;
    disk_finish(held);
    held = NULL;
    assert_int_equal(s.target.net.arena.waiting, 0);
    run_until(only_admin_is_left);
    for (unsigned i = 0; i < 2; i++) {
        arena_give(&s.target.net.arena, &all, pieces[i]);
    }
    assert_int_equal(s.target.net.arena.used, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(write__of_a_queue_that_has_ended__comes_before_another_queue),
        TEST(write__of_a_host_that_was_away__comes_before_another_controller),
        TEST(connect__that_waits_too_long_for_a_disk__ends_its_connection),
        TEST(zeroes__of_a_queue_that_has_ended__wait_for_no_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
