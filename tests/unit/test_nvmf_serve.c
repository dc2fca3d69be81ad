/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What iwarp-nvmf serves becomes what it is asked for, while hosts use it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nvmf_side.h"
#include "programs/nvmf/metrics.h"
#include "programs/nvmf/serve.h"

#define OTHER SIDE_NQN "2"

static struct side s;
static const char *nobody[] = {"nqn.2014-08.org.example:nobody"};

static int set_up(void **state)
{
    (void)state;
    side_open(&s, 4 << 20, true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    side_close(&s);
    return 0;
}

/* Serve these disks as one subsystem, and OTHER without any, if count_other is 1. */
static bool serve(struct nvmf_wanted_disk *disks, size_t count, size_t hosts, size_t count_other)
{
    struct nvmf_wanted wanted[2] = {
        {SIDE_NQN, disks, count, nobody, hosts},
        {OTHER, NULL, 0, NULL, 0},
    };
    struct nvmf_options options = {.subsystems = wanted, .subsystem_count = 1 + count_other};

    return nvmf_serve(&s.target.store, &options);
}

static uint32_t first_change(void)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_GET_LOG_PAGE};

    nvmf_put32(command + 40, NVMF_LOG_CHANGED | 1023u << 16);
    nvmf_host_data(&s.host, command, 0, 4096);
    side_must(nvmf_host_do(s.admin, command, NULL, 0, NULL) == NVMF_OK, "log");
    return nvmf_get32(s.host.memory);
}

static void serve__other_disks__replaces_those_alone(void **state)
{
    struct nvmf_wanted_disk before[] = {{"ram:1M", false, 0, 0}, {"ram:2M", false, 0, 0}};
    struct nvmf_wanted_disk after[] = {
        {"ram:3M", false, 0, 0}, {"ram:2M", false, 0, 0}, {"ram:1M", true, 0, 1}};
    const struct nvmf_namespace *kept;

    (void)state;
    assert_true(serve(before, 2, 0, 0));
    side_join(&s);
    kept = nvmf_namespace_find(s.subsystem, 2);
    assert_true(serve(before, 2, 0, 0));
    assert_int_equal(first_change(), 0); /* nothing has changed */
    assert_true(serve(after, 3, 0, 0));
    assert_true(nvmf_namespace_find(s.subsystem, 2) == kept);
    assert_true(nvmf_namespace_find(s.subsystem, 1)->read_only); /* the number was its own */
    assert_string_equal(nvmf_namespace_find(s.subsystem, 3)->name, "ram:3M");
    assert_int_equal(first_change(), 1);
    assert_int_equal(side_io(&s, NVMF_WRITE, 0, 0, 0, 4096), NVMF_WRITE_PROTECTED | 0x4000);
    after[0].name = "/nonexistent";
    assert_false(serve(after, 3, 0, 0)); /* the rest is served */
    assert_null(nvmf_namespace_find(s.subsystem, 3));
    assert_true(nvmf_namespace_find(s.subsystem, 2) == kept);
}

static void serve__other_hosts__ends_connections_of_those_that_were(void **state)
{
    struct nvmf_wanted_disk disk[] = {{"ram:1M", false, 0, 0}};

    (void)state;
    assert_true(serve(disk, 1, 0, 0));
    side_join(&s);
    assert_true(serve(disk, 1, 1, 0));
    assert_false(nvmf_controller_ready(s.target.controllers.first)); /* no more queues, either */
    side_run(&s, s.admin, 5000);
    side_run(&s, s.io, 5000);
    assert_true(s.admin->ended && s.io->ended);
    side_leave(&s);
    s.admin = side_queue(&s, 0, 32);
    assert_int_equal(side_join_as(&s, s.admin, SIDE_NQN, SIDE_HOST, 0xffff, 0),
                     NVMF_CONNECT_HOST | 0x4000);
}

static void serve__subsystems__come_go_and_come_back(void **state)
{
    struct nvmf_wanted_disk disk[] = {{"ram:1M", false, 0, 0}};
    struct nvmf_host_queue *discovery = side_queue(&s, 0, 32);
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_ASYNC_EVENT};
    struct nvmf_host_slot *event;
    uint64_t generation;

    (void)state;
    assert_true(serve(disk, 1, 0, 1));
    side_must(side_join_as(&s, discovery, NVMF_DISCOVERY, SIDE_HOST, 0xffff, 0) == 0, "discovery");
    s.admin = discovery;
    side_admin(&s, NVMF_SET_FEATURES, 0, NVMF_FEATURE_EVENTS, NVMF_NOTICE_DISCOVERY, 0);
    command[39] = 0x40;
    event = nvmf_host_send(discovery, command, NULL, 0, NULL, NULL);
    s.admin = side_queue(&s, 0, 32);
    side_must(side_join_as(&s, s.admin, OTHER, SIDE_HOST, 0xffff, 0) == 0, "Connect");
    assert_true(event->busy);
    generation = s.target.store.generation;
    assert_true(serve(disk, 1, 0, 0));
    side_run(&s, s.admin, 5000);
    assert_true(s.admin->ended);
    side_run(&s, NULL, 100);
    assert_false(event->busy);
    assert_int_equal(event->response.result, 0x0070f002);
    assert_true(s.target.store.generation > generation);
    assert_null(nvmf_store_find(&s.target.store, OTHER));
    assert_true(serve(disk, 1, 0, 1));
    nvmf_host_queue_close(s.admin);
    s.admin = side_queue(&s, 0, 32);
    assert_int_equal(side_join_as(&s, s.admin, OTHER, SIDE_HOST, 0xffff, 0), NVMF_OK);
    nvmf_host_queue_close(discovery);
}

static void metrics__names__are_quoted(void **state)
{
    struct nvmf_namespace *ns = side_disk(&s, "ram:1M", false);
    char *page;

    (void)state;
    free(ns->name);
    ns->name = strdup("a\"b\\c\nd");
    page = nvmf_metrics_page(&s.target, "/metrics");
    assert_non_null(strstr(page, "disk=\"a\\\"b\\\\c\\nd\"} 1048576\n"));
    free(page);
    assert_null(nvmf_metrics_page(&s.target, "/"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(serve__other_disks__replaces_those_alone),
        TEST(serve__other_hosts__ends_connections_of_those_that_were),
        TEST(serve__subsystems__come_go_and_come_back),
        TEST(metrics__names__are_quoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
