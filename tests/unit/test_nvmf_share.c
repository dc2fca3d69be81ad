/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host of iwarp-nvmf that takes what it can and gives nothing back, and one of another address,
 * which gets its share of buffers and places all the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>

#include "nvmf_side.h"

#define MEMORY ((size_t)4 << 20) /* of all buffers */
#define BLOCK  4096
#define LIMIT  60000

static struct side s;

static int set_up(void **state)
{
    (void)state;
    side_open(&s, MEMORY, true);
    side_disk(&s, "ram:4M", false);
    side_join(&s);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    side_close(&s);
    return 0;
}

/* --- a host in a thread of its own, which looks at nothing while it waits for `leave` ----------
 */

static struct side hog;
static sem_t here, leave;

static void come_from_another_address(struct nvmf_host *host)
{
    struct sockaddr_in *source = (struct sockaddr_in *)&host->source;

    source->sin_family = AF_INET;
    source->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
}

/* Writes of 1 MiB, as many as the queue takes; no RDMA Read of them is answered. */
static void *take_buffers(void *arg)
{
    uint8_t command[NVMF_COMMAND_LEN];

    (void)arg;
    side_must(nvmf_host_open(&hog.host, &hog.loop, SIDE_MEMORY, NULL), "host");
    come_from_another_address(&hog.host);
    side_join(&hog);
    side_put_io(&hog, command, NVMF_WRITE, 0, 255, 0, NVMF_TRANSFER_MAX);
    for (unsigned i = 0; i < 31; i++) {
        side_must(nvmf_host_send(hog.io, command, NULL, 0, NULL, NULL) != NULL, "write");
    }
    sem_post(&here);
    sem_wait(&leave);
    side_leave(&hog);
    nvmf_host_close(&hog.host);
    uv_run(&hog.loop, UV_RUN_DEFAULT);
    return NULL;
}

static pthread_t hog_begin(void)
{
    pthread_t thread;

    memset(&hog, 0, sizeof hog);
    uv_loop_init(&hog.loop);
    hog.addr = s.addr;
    hog.addr_len = s.addr_len;
    sem_init(&here, 0, 0);
    sem_init(&leave, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, take_buffers, NULL), 0);
    while (sem_trywait(&here) != 0) {
        side_run(&s, NULL, 10);
    }
    side_run(&s, NULL, 200);
    return thread;
}

static void hog_end(pthread_t thread)
{
    sem_post(&leave);
    for (unsigned i = 0; i < 1000 && s.target.net.queue_count > 2; i++) {
        side_run(&s, NULL, 10);
    }
    pthread_join(thread, NULL);
    assert_int_equal(uv_loop_close(&hog.loop), 0);
}

/* A write of 1 MiB is answered within 5 s. */
static bool writes(void)
{
    uint8_t command[NVMF_COMMAND_LEN];
    const struct nvmf_host_slot *slot;

    side_put_io(&s, command, NVMF_WRITE, 0, 255, 0, NVMF_TRANSFER_MAX);
    slot = nvmf_host_send(s.io, command, NULL, 0, NULL, NULL);
    for (unsigned i = 0; i < 500 && slot->busy; i++) {
        side_run(&s, NULL, 10);
    }
    return !slot->busy && slot->response.status == NVMF_OK;
}

static void reads__never_answered__leave_buffers_for_others_and_end(void **state)
{
    pthread_t thread = hog_begin();

    (void)state;
    assert_int_equal(s.target.net.arena.used * BLOCK, MEMORY / 2);
    assert_int_equal(s.target.net.arena.waiting, 29);
    assert_true(writes());
    nvmf_net_stuck(&s.target.net, uv_hrtime() / 1000000 + LIMIT - 5000, LIMIT);
    side_run(&s, NULL, 50);
    assert_int_equal(s.target.net.queue_count, 4); /* there is time left */
    nvmf_net_stuck(&s.target.net, uv_hrtime() / 1000000 + LIMIT + 1000, LIMIT);
    side_run(&s, NULL, 50);
    assert_int_equal(s.target.net.queue_count, 3); /* its admin queue has done nothing wrong */
    assert_int_equal(s.target.net.arena.used, 0);
    assert_int_equal(s.target.net.arena.waiting, 0);
    assert_true(writes());
    hog_end(thread);
}

/* --- places ---------------------------------------------------------------------------------- */

static struct nvmf_host_queue *try_queue(void)
{
    return nvmf_host_queue_open(&s.host, (struct sockaddr *)&s.addr, s.addr_len, 0, 32, true);
}

static void queues__of_one_address__leave_places_for_others(void **state)
{
    struct nvmf_host_queue *queues[32];
    unsigned count = 0, mine, others = NVMF_NET_QUEUES - 24;
    bool others_too;

    (void)state;
    s.target.net.queue_count += others; /* as if they were there: 22 places are free */
    while (count < 31 && (queues[count] = try_queue()) != NULL) {
        count++;
    }
    mine = count;
    come_from_another_address(&s.host);
    queues[count] = try_queue();
    others_too = queues[count] != NULL;
    for (count += others_too; count > 0; count--) {
        nvmf_host_queue_close(queues[count - 1]);
    }
    for (unsigned i = 0; i < 1000 && s.target.net.queue_count > 2 + others; i++) {
        side_run(&s, NULL, 10);
    }
    s.target.net.queue_count -= others;
    assert_int_equal(mine, 10); /* it has 12 with its first two, and 12 are free */
    assert_true(others_too);
    assert_int_equal(s.target.net.queue_count, 2);
    assert_non_null(s.target.net.shares);
    assert_null(s.target.net.shares->next);
}

/* A host connects as many as it is promised, or gives up altogether. */
static void queues__promised__are_those_that_have_places(void **state)
{
    struct nvmf_host_queue *queues[NVMF_QUEUES] = {NULL};
    unsigned others = NVMF_NET_QUEUES - 25, promised, count = 0;

    (void)state;
    nvmf_host_queue_close(s.io);
    s.io = NULL;
    for (unsigned i = 0; i < 1000 && s.target.net.queue_count > 1; i++) {
        side_run(&s, NULL, 10);
    }
    s.target.net.queue_count += others; /* as if they were there */
    assert_int_equal(side_admin(&s, NVMF_SET_FEATURES, 0, NVMF_FEATURE_QUEUES, 0x003f003f, 0),
                     NVMF_OK);
    promised = (s.result & 0xffff) + 1;
    while (count < NVMF_QUEUES) {
        queues[count] = nvmf_host_queue_open(&s.host, (struct sockaddr *)&s.addr, s.addr_len,
                                             (uint16_t)(count + 1), 8, true);
        if (!queues[count] || side_join_as(&s, queues[count], SIDE_NQN, SIDE_HOST,
                                           s.connect.controller_id, 0) != NVMF_OK) {
            break;
        }
        count++;
    }
    if (count < NVMF_QUEUES && queues[count]) {
        nvmf_host_queue_close(queues[count]);
    }
    for (unsigned i = 0; i < count; i++) {
        nvmf_host_queue_close(queues[i]);
    }
    s.target.net.queue_count -= others;
    assert_int_equal(promised, count);
    assert_in_range(count, 2, 20);
    s.target.net.queue_count += NVMF_NET_QUEUES; /* one in any case: there is no answer for none */
    assert_int_equal(side_admin(&s, NVMF_SET_FEATURES, 0, NVMF_FEATURE_QUEUES, 0x003f003f, 0),
                     NVMF_OK);
    s.target.net.queue_count -= NVMF_NET_QUEUES;
    assert_int_equal(s.result, 0);
}

static void discovery__without_keep_alive__ends_after_two_minutes(void **state)
{
    struct nvmf_host_queue *queue = side_queue(&s, 0, 32);
    uint64_t now_ms;
    bool early, late;

    (void)state;
    assert_int_equal(side_join_as(&s, queue, NVMF_DISCOVERY, SIDE_HOST, 0xffff, 0), NVMF_OK);
    now_ms = uv_hrtime() / 1000000;
    nvmf_controllers_tick(&s.target.controllers, now_ms + 120000);
    side_run(&s, queue, 100);
    early = queue->ended;
    nvmf_controllers_tick(&s.target.controllers, now_ms + 122000);
    side_run(&s, queue, 2000);
    late = queue->ended;
    nvmf_host_queue_close(queue);
    assert_false(early);
    assert_true(late);
    assert_false(s.admin->ended); /* a host of a subsystem keeps it without Keep Alive */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads__never_answered__leave_buffers_for_others_and_end,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(queues__of_one_address__leave_places_for_others, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(queues__promised__are_those_that_have_places, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(discovery__without_keep_alive__ends_after_two_minutes,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
