/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a host of iwarp-nvmf asks before it reads and writes: Connect, properties, Identify,
 * features, log pages, events, Keep Alive.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/filter.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "nvmf_side.h"

#define DNR 0x4000

static struct side s;

static int set_up(void **state)
{
    (void)state;
    side_open(&s, 8 << 20, true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    side_close(&s);
    return 0;
}

static int property(uint8_t type, uint32_t offset, bool wide, uint64_t value)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_FABRICS, [4] = type};

    command[39] = 0x40;
    command[40] = wide;
    nvmf_put32(command + 44, offset);
    nvmf_put64(command + 48, value);
    return nvmf_host_do(s.admin, command, NULL, 0, &s.result);
}

static void connect__right_names__gives_a_controller_that_is_ready(void **state)
{
    (void)state;
    side_disk(&s, "ram:1M", false);
    side_join(&s);
    assert_in_range(s.connect.controller_id, 1, 0xffef);
    assert_int_equal(property(NVMF_PROPERTY_GET, NVMF_CSTS, false, 0), NVMF_OK);
    assert_int_equal(s.result, 1);
    assert_int_equal(property(NVMF_PROPERTY_GET, NVMF_VS, false, 0), NVMF_OK);
    assert_int_equal(s.result, 0x10400);
    assert_int_equal(property(NVMF_PROPERTY_GET, NVMF_CAP, true, 0), NVMF_OK);
    assert_int_equal(s.result & 0xffff, NVMF_QUEUE_DEPTH - 1);
    assert_int_equal(property(NVMF_PROPERTY_GET, NVMF_CAP, false, 0), NVMF_INVALID_FIELD | DNR);
    assert_int_equal(property(NVMF_PROPERTY_GET, 0x40, false, 0), NVMF_INVALID_FIELD | DNR);
    assert_int_equal(property(NVMF_PROPERTY_SET, NVMF_VS, false, 0), NVMF_INVALID_FIELD | DNR);
}

static int refused(uint16_t id, const char *subsystem, const char *host, uint16_t controller)
{
    struct nvmf_host_queue *queue = side_queue(&s, id, 32);
    int status = side_join_as(&s, queue, subsystem, host, controller, 0);

    nvmf_host_queue_close(queue);
    return status;
}

static void connect__wrong_names__is_refused_with_the_reason(void **state)
{
    uint16_t id;

    (void)state;
    side_disk(&s, "ram:1M", false);
    side_must(nvmf_store_hosts(&s.target.store, s.subsystem, (const char *[]){SIDE_HOST}, 1),
              "hosts");
    side_join(&s);
    id = s.connect.controller_id;
    assert_int_equal(refused(0, SIDE_NQN "x", SIDE_HOST, 0xffff), NVMF_CONNECT_PARAMETER | DNR);
    assert_int_equal(refused(0, SIDE_NQN, SIDE_HOST "x", 0xffff), NVMF_CONNECT_HOST | DNR);
    assert_int_equal(refused(0, SIDE_NQN, SIDE_HOST, id), NVMF_CONNECT_PARAMETER | DNR);
    assert_int_equal(refused(2, SIDE_NQN, SIDE_HOST, (uint16_t)(id + 1)),
                     NVMF_CONNECT_PARAMETER | DNR);
    assert_int_equal(refused(2, SIDE_NQN, SIDE_HOST "x", id), NVMF_CONNECT_PARAMETER | DNR);
    assert_int_equal(refused(1, SIDE_NQN, SIDE_HOST, id), NVMF_CONNECT_PARAMETER | DNR); /* taken */
    assert_int_equal(refused(2, SIDE_NQN, SIDE_HOST, id), NVMF_OK);
    /* Another machine with the name of this host. */
    struct nvmf_connect other = s.connect;
    struct nvmf_host_queue *queue = side_queue(&s, 2, 32);
    other.host_id[0] ^= 1;
    other.controller_id = id;
    assert_int_equal(nvmf_host_join(queue, &other, 0, NULL), NVMF_CONNECT_PARAMETER | DNR);
    nvmf_host_queue_close(queue);
    /* Twice on one queue; and before it, nothing else is answered. */
    assert_int_equal(side_join_as(&s, s.io, SIDE_NQN, SIDE_HOST, id, 0), NVMF_SEQUENCE | DNR);
    queue = side_queue(&s, 3, 32);
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_READ};
    nvmf_host_data(&s.host, command, 0, 4096);
    assert_int_equal(nvmf_host_do(queue, command, NULL, 0, NULL), NVMF_SEQUENCE | DNR);
    nvmf_host_queue_close(queue);
}

/* One entry for each command, Connect and the one that enables the controller included; behind the
 * last entry comes the first. */
static void responses__have_the_head_of_the_queue(void **state)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_KEEP_ALIVE};

    (void)state;
    s.host.announce = 7;
    s.admin = side_queue(&s, 0, 32);
    assert_int_equal(side_join_as(&s, s.admin, SIDE_NQN, SIDE_HOST, 0xffff, 0), NVMF_OK);
    command[39] = 0x40;
    for (unsigned sent = 3; sent < 20; sent++) {
        const struct nvmf_host_slot *slot = nvmf_host_send(s.admin, command, NULL, 0, NULL, NULL);
        side_await_answer(&s, slot);
        assert_int_equal(slot->response.sq_head, sent % 7);
    }
}

static void note_status(struct nvmf_host_slot *slot)
{
    *(int *)slot->arg = slot->response.status;
}

/* Their data come by RDMA Reads, when each has been looked at. */
static void connect__twice_at_once__makes_one_controller(void **state)
{
    const unsigned before = s.target.controllers.count;
    struct nvmf_connect connect = {.controller_id = 0xffff};
    int status[2] = {-2, -2};

    (void)state;
    snprintf(connect.subsystem, sizeof connect.subsystem, "%s", SIDE_NQN);
    snprintf(connect.host, sizeof connect.host, "%s", SIDE_HOST);
    memset(connect.host_id, 0x5a, sizeof connect.host_id);
    nvmf_connect_write(s.host.memory, &connect);
    struct nvmf_host_queue *queue = side_queue(&s, 0, 32);
    for (unsigned i = 0; i < 2; i++) {
        uint8_t command[NVMF_COMMAND_LEN] = {NVMF_FABRICS, [4] = NVMF_CONNECT};
        nvmf_host_data(&s.host, command, 0, NVMF_CONNECT_LEN);
        nvmf_put16(command + 44, 31);
        assert_non_null(nvmf_host_send(queue, command, NULL, 0, note_status, &status[i]));
    }
    while (status[0] == -2 || status[1] == -2) {
        if (!nvmf_host_turn(&s.host)) {
            uv_run(&s.loop, UV_RUN_NOWAIT);
        }
    }
    assert_int_equal(status[0], NVMF_OK);
    assert_int_equal(status[1], NVMF_SEQUENCE | DNR);
    assert_int_equal(s.target.controllers.count, before + 1);
    nvmf_host_queue_close(queue);
}

static void identify__controller__has_what_a_host_reads(void **state)
{
    const uint8_t *page = s.host.memory;

    (void)state;
    side_join(&s);
    assert_int_equal(side_admin(&s, NVMF_IDENTIFY, 0, 1, 0, 4096), NVMF_OK);
    assert_memory_equal(page + 4, s.subsystem->serial, 20);
    assert_memory_equal(page + 64, IWARP_VERSION " ", sizeof IWARP_VERSION);
    assert_int_equal(page[77], NVMF_MDTS);
    assert_int_equal(nvmf_get16(page + 78), s.connect.controller_id);
    assert_int_equal(nvmf_get32(page + 80), NVMF_VERSION);
    assert_int_equal(page[111], 1);
    assert_int_equal(page[512], 0x66);
    assert_int_equal(page[513], 0x44);
    assert_int_equal(nvmf_get16(page + 514), NVMF_QUEUE_DEPTH);
    assert_true(nvmf_get16(page + 320) > 0); /* without KAS, no kernel connects */
    assert_string_equal((const char *)page + 768, SIDE_NQN);
    assert_int_equal(nvmf_get32(page + 1792), (64 + NVMF_IN_CAPSULE) / 16);
    assert_int_equal(nvmf_get32(page + 1796), 1);
    assert_int_equal(side_admin(&s, NVMF_IDENTIFY, 0, 1, 0, 4095), NVMF_SGL_LENGTH | DNR);
    assert_int_equal(side_admin(&s, NVMF_IDENTIFY, 0, 1, 0, 0), NVMF_SGL_LENGTH | DNR);
    assert_int_equal(side_admin(&s, NVMF_IDENTIFY, 0, 0x99, 0, 4096), NVMF_INVALID_FIELD | DNR);
}

static void identify__namespaces__are_listed_and_described(void **state)
{
    uint8_t *page = s.host.memory;

    (void)state;
    side_disk(&s, "ram:1M", false);
    side_disk(&s, "ram:2M", true);
    side_disk(&s, "ram:3M", false);
    nvmf_namespace_remove(&s.target.store, nvmf_namespace_find(s.subsystem, 1));
    side_join(&s);
    assert_int_equal(side_admin(&s, NVMF_IDENTIFY, 0, 2, 0, 4096), NVMF_OK);
    assert_int_equal(nvmf_get32(page), 2);
    assert_int_equal(nvmf_get32(page + 4), 3);
    assert_int_equal(nvmf_get32(page + 8), 0);
    assert_int_equal(side_admin(&s, NVMF_IDENTIFY, 2, 2, 0, 4096), NVMF_OK); /* those above 2 */
    assert_int_equal(nvmf_get32(page), 3);
    assert_int_equal(side_admin(&s, NVMF_IDENTIFY, 2, 0, 0, 4096), NVMF_OK);
    assert_int_equal(nvmf_get64(page), 512);
    assert_int_equal(page[130], 12);
    assert_int_equal(page[99], 1); /* write protected */
    assert_int_equal(side_admin(&s, NVMF_IDENTIFY, 3, 3, 0, 4096), NVMF_OK);
    assert_int_equal(page[0], 3);
    assert_memory_equal(page + 4, nvmf_namespace_find(s.subsystem, 3)->uuid, 16);
    assert_memory_equal(page + 20, ((uint8_t[]){4, 1, 0, 0, 0, 0}), 6);
    assert_int_equal(side_admin(&s, NVMF_IDENTIFY, 1, 0, 0, 4096), NVMF_OK);
    assert_int_equal(nvmf_get64(page), 0); /* an inactive one */
    assert_int_equal(side_admin(&s, NVMF_IDENTIFY, 1, 3, 0, 4096), NVMF_INVALID_NAMESPACE | DNR);
    assert_int_equal(side_admin(&s, NVMF_IDENTIFY, 9999, 0, 0, 4096), NVMF_INVALID_NAMESPACE | DNR);
}

static void features__queues_events_cache__are_kept(void **state)
{
    (void)state;
    side_join(&s);
    assert_int_equal(side_admin(&s, NVMF_SET_FEATURES, 0, NVMF_FEATURE_QUEUES, 0x00070003, 0),
                     NVMF_OK);
    assert_int_equal(s.result, 0x00030003);
    assert_int_equal(side_admin(&s, NVMF_SET_FEATURES, 0, NVMF_FEATURE_QUEUES, 0xfff0fff0, 0),
                     NVMF_OK);
    assert_int_equal(s.result, (NVMF_QUEUES - 1) * 0x10001);
    assert_int_equal(side_admin(&s, NVMF_SET_FEATURES, 0, NVMF_FEATURE_EVENTS, 0x100, 0), NVMF_OK);
    assert_int_equal(side_admin(&s, NVMF_GET_FEATURES, 0, NVMF_FEATURE_EVENTS, 0, 0), NVMF_OK);
    assert_int_equal(s.result, 0x100);
    assert_int_equal(side_admin(&s, NVMF_SET_FEATURES, 0, NVMF_FEATURE_CACHE, 0, 0),
                     NVMF_NOT_CHANGEABLE | DNR);
    assert_int_equal(side_admin(&s, NVMF_SET_FEATURES, 0, 0x80000000u | NVMF_FEATURE_EVENTS, 0, 0),
                     NVMF_NOT_SAVEABLE | DNR);
    assert_int_equal(side_admin(&s, NVMF_GET_FEATURES, 0, 0x77, 0, 0), NVMF_INVALID_FIELD | DNR);
    assert_int_equal(side_admin(&s, NVMF_GET_FEATURES, 0, NVMF_FEATURE_HOST_ID, 1, 16), NVMF_OK);
    assert_int_equal(s.host.memory[15], 0x5a);
    assert_int_equal(side_admin(&s, 0x33, 0, 0, 0, 0), NVMF_INVALID_OPCODE | DNR);
    assert_int_equal(side_admin(&s, NVMF_KEEP_ALIVE, 0, 0, 0, 0), NVMF_OK);
}

static int get_log(uint8_t log, uint32_t octets, uint32_t offset)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_GET_LOG_PAGE};

    nvmf_put32(command + 40, log | (octets / 4 - 1) << 16);
    nvmf_put32(command + 48, offset);
    nvmf_host_data(&s.host, command, 0, octets);
    return nvmf_host_do(s.admin, command, NULL, 0, &s.result);
}

static void log__errors__tell_of_the_newest_first(void **state)
{
    const uint8_t *page = s.host.memory;

    (void)state;
    side_disk(&s, "ram:1M", false);
    side_join(&s);
    assert_int_equal(side_io(&s, NVMF_READ, 255, 1, 0, 8192), NVMF_LBA_RANGE | DNR);
    assert_int_equal(side_io(&s, NVMF_READ, 0, 1, 0, 8192), NVMF_OK);
    assert_int_equal(side_admin(&s, 0x33, 7, 0, 0, 0), NVMF_INVALID_OPCODE | DNR);
    assert_int_equal(get_log(NVMF_LOG_ERROR, 128, 0), NVMF_OK);
    assert_int_equal(nvmf_get64(page), 2);
    assert_int_equal(nvmf_get16(page + 8), 0);
    assert_int_equal(nvmf_get32(page + 24), 7);
    assert_int_equal(nvmf_get64(page + 64), 1);
    assert_int_equal(nvmf_get16(page + 72), 1);
    assert_int_equal(nvmf_get16(page + 76), (NVMF_LBA_RANGE | DNR) << 1);
    assert_int_equal(nvmf_get64(page + 80), 255);
    assert_int_equal(get_log(NVMF_LOG_SMART, 512, 0), NVMF_OK);
    assert_int_equal(nvmf_get64(page + 64), 1); /* reads */
    assert_int_equal(nvmf_get64(page + 80), 0); /* writes */
    assert_int_equal(nvmf_get64(page + 176), 2);
    assert_int_equal(get_log(NVMF_LOG_EFFECTS, 2048, 1024), NVMF_OK); /* from an offset on */
    assert_int_equal(nvmf_get32(page + 4 * NVMF_WRITE), 3);
    assert_int_equal(nvmf_get32(page + 4 * NVMF_READ), 1);
    assert_int_equal(nvmf_get32(page + 4 * 0x0d), 0); /* no reservations */
    assert_int_equal(get_log(NVMF_LOG_EFFECTS, 512, 5000), NVMF_INVALID_FIELD | DNR);
    assert_int_equal(get_log(0x55, 512, 0), NVMF_INVALID_LOG | DNR);
    assert_int_equal(get_log(NVMF_LOG_DISCOVERY, 1024, 0), NVMF_INVALID_LOG | DNR);
}

static void log__discovery__lists_what_the_host_may_have(void **state)
{
    struct nvmf_subsystem *other = nvmf_store_add(&s.target.store, SIDE_NQN "2");
    const uint8_t *page = s.host.memory;
    char port[8];

    (void)state;
    side_must(nvmf_store_hosts(&s.target.store, other, (const char *[]){SIDE_HOST "x"}, 1),
              "hosts");
    s.admin = side_queue(&s, 0, 32);
    assert_int_equal(side_join_as(&s, s.admin, NVMF_DISCOVERY, SIDE_HOST, 0xffff, 0), NVMF_OK);
    assert_int_equal(get_log(NVMF_LOG_DISCOVERY, 4096, 0), NVMF_OK);
    assert_int_equal(nvmf_get64(page + 8), 1);
    assert_int_equal(page[1024], 1);
    assert_int_equal(page[1024 + 2], 2);
    snprintf(port, sizeof port, "%u", ntohs(((struct sockaddr_in *)&s.addr)->sin_port));
    assert_string_equal((const char *)page + 1024 + 32, port);
    assert_string_equal((const char *)page + 1024 + 256, SIDE_NQN);
    assert_string_equal((const char *)page + 1024 + 512, "127.0.0.1");
    assert_int_equal(page[1024 + 769], 5); /* iWARP */
    assert_int_equal(page[2048], 0);
    assert_int_equal(side_admin(&s, NVMF_IDENTIFY, 0, 1, 0, 4096), NVMF_OK);
    assert_int_equal(page[111], 2);
    assert_int_equal(page[261], 0x04); /* it has no log of effects, which bit 1 would promise */
    assert_int_equal(get_log(NVMF_LOG_EFFECTS, 4096, 0), NVMF_INVALID_LOG | DNR);
    assert_int_equal(side_admin(&s, NVMF_IDENTIFY, 1, 0, 0, 4096), NVMF_INVALID_FIELD | DNR);
    assert_int_equal(refused(1, NVMF_DISCOVERY, SIDE_HOST, s.connect.controller_id),
                     NVMF_CONNECT_PARAMETER | DNR);
}

static struct nvmf_host_slot *await_event(void)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_ASYNC_EVENT};
    struct nvmf_host_slot *slot;

    command[39] = 0x40;
    slot = nvmf_host_send(s.admin, command, NULL, 0, NULL, NULL);
    side_run(&s, NULL, 50);
    return slot;
}

static void event__namespaces_change__is_told_once_until_the_log_is_read(void **state)
{
    struct nvmf_host_slot *first, *second;

    (void)state;
    side_file(&s, 1 << 20);
    side_join(&s);
    assert_int_equal(side_admin(&s, NVMF_SET_FEATURES, 0, NVMF_FEATURE_EVENTS, 0x100, 0), NVMF_OK);
    first = await_event();
    second = await_event();
    assert_true(first->busy && second->busy);
    side_must(truncate(s.file, 2 << 20) == 0, "truncate");
    nvmf_store_look(&s.target.store);
    side_disk(&s, "ram:1M", false);
    side_run(&s, NULL, 100);
    assert_int_equal(first->busy + second->busy, 1);
    if (first->busy) {
        second = first;
    }
    assert_int_equal(get_log(NVMF_LOG_CHANGED, 4096, 0), NVMF_OK);
    assert_int_equal(nvmf_get32(s.host.memory), 1);
    assert_int_equal(nvmf_get32(s.host.memory + 4), 2);
    assert_int_equal(nvmf_get32(s.host.memory + 8), 0);
    nvmf_namespace_remove(&s.target.store, nvmf_namespace_find(s.subsystem, 2));
    side_run(&s, NULL, 100);
    assert_false(second->busy);
    assert_int_equal(second->response.result, 0x00040002);
    /* One more than can wait. */
    for (unsigned i = 0; i < NVMF_AERS; i++) {
        assert_true(await_event()->busy || i == 0);
    }
    assert_int_equal(get_log(NVMF_LOG_CHANGED, 4096, 0), NVMF_OK);
    first = await_event();
    assert_false(first->busy);
    assert_int_equal(first->response.status, NVMF_AER_LIMIT);
}

static void keep_alive__silent_host__is_disconnected(void **state)
{
    (void)state;
    s.admin = side_queue(&s, 0, 32);
    assert_int_equal(side_join_as(&s, s.admin, SIDE_NQN, SIDE_HOST, 0xffff, 500), NVMF_OK);
    side_run(&s, s.admin, 900);
    assert_false(s.admin->ended);
    assert_int_equal(side_admin(&s, NVMF_KEEP_ALIVE, 0, 0, 0, 0), NVMF_OK);
    side_run(&s, s.admin, 10000);
    assert_true(s.admin->ended);
    assert_int_equal(s.target.controllers.count, 0);
}

/* The target stood still, as one that was stopped, and the host's Keep Alive has come meanwhile. */
static void keep_alive__that_waits_for_the_target__is_in_time(void **state)
{
    uint8_t command[NVMF_COMMAND_LEN] = {NVMF_KEEP_ALIVE};

    (void)state;
    s.admin = side_queue(&s, 0, 32);
    assert_int_equal(side_join_as(&s, s.admin, SIDE_NQN, SIDE_HOST, 0xffff, 500), NVMF_OK);
    nvmf_host_data(&s.host, command, 0, 0);
    assert_non_null(nvmf_host_send(s.admin, command, NULL, 0, NULL, NULL));
    usleep(3000000);
    side_run(&s, s.admin, 500);
    assert_false(s.admin->ended);
}

/* Calls `see` with the sockets that the target has accepted, or with those of its hosts. */
static void each_socket(bool of_target, void (*see)(int fd))
{
    in_port_t port = ((struct sockaddr_in *)&s.addr)->sin_port;

    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in local = {0}, peer = {0};
        socklen_t a = sizeof local, b = sizeof peer;
        if (getsockname(fd, (struct sockaddr *)&local, &a) == 0 &&
            getpeername(fd, (struct sockaddr *)&peer, &b) == 0 && peer.sin_family == AF_INET &&
            (of_target ? local.sin_port : peer.sin_port) == port) {
            see(fd);
        }
    }
}

/* From now on nothing reaches it: a host without power answers no probe, and resets nothing. */
static void vanish(int fd)
{
    struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog all = {1, &drop};

    side_must(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &all, sizeof all) == 0, "filter");
}

/* The target probes it already; this makes the probes come sooner. */
static void hurry(int fd)
{
    int on = 0, idle_s = 1, limit_ms = 700;
    socklen_t len = sizeof on;

    side_must(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &len) == 0 && on, "no probes");
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
}

static void keep_alive__none_and_the_host_vanishes__ends_by_probes_of_tcp(void **state)
{
    (void)state;
    side_disk(&s, "ram:1M", false);
    side_join(&s); /* its Keep Alive time is 0 */
    each_socket(false, vanish);
    each_socket(true, hurry);
    for (unsigned i = 0; i < 1000 && s.target.net.queue_count > 0; i++) {
        side_run(&s, NULL, 10);
    }
    assert_int_equal(s.target.net.queue_count, 0);
    assert_int_equal(s.target.controllers.count, 0);
    iwarp_abort(s.io->conn);
    iwarp_abort(s.admin->conn);
}

static void reset__controller__loses_its_queues_and_comes_back(void **state)
{
    uint16_t id;

    (void)state;
    side_disk(&s, "ram:1M", false);
    side_join(&s);
    id = s.connect.controller_id;
    assert_int_equal(property(NVMF_PROPERTY_SET, NVMF_CC, false, 0), NVMF_OK);
    side_run(&s, s.io, 5000);
    assert_true(s.io->ended);
    assert_int_equal(side_admin(&s, NVMF_IDENTIFY, 0, 1, 0, 4096), NVMF_SEQUENCE | DNR);
    assert_int_equal(refused(2, SIDE_NQN, SIDE_HOST, id), NVMF_CONNECT_PARAMETER | DNR);
    assert_int_equal(property(NVMF_PROPERTY_SET, NVMF_CC, false, 0x460001), NVMF_OK);
    assert_int_equal(s.result, 0); /* reserved */
    assert_int_equal(refused(1, SIDE_NQN, SIDE_HOST, id), NVMF_OK);
    assert_int_equal(s.target.controllers.count, 1);
}

static void reset__controller__ends_requests_for_events(void **state)
{
    const struct nvmf_host_slot *old[NVMF_AERS], *slot;

    (void)state;
    side_disk(&s, "ram:1M", false);
    side_join(&s);
    for (unsigned i = 0; i < NVMF_AERS; i++) {
        old[i] = await_event();
        assert_true(old[i]->busy);
    }
    assert_int_equal(property(NVMF_PROPERTY_SET, NVMF_CC, false, 0), NVMF_OK);
    side_run(&s, NULL, 50);
    for (unsigned i = 0; i < NVMF_AERS; i++) {
        assert_false(old[i]->busy);
        assert_int_equal(old[i]->response.status, NVMF_ABORTED);
    }
    assert_int_equal(property(NVMF_PROPERTY_SET, NVMF_CC, false, 0x460001), NVMF_OK);
    assert_int_equal(side_admin(&s, NVMF_SET_FEATURES, 0, NVMF_FEATURE_EVENTS, 0x100, 0), NVMF_OK);
    slot = await_event();
    assert_true(slot->busy);
    side_disk(&s, "ram:1M", false);
    side_await_answer(&s, slot);
    assert_int_equal(slot->response.result, 0x00040002);
}

/* Its log page was never read; a host that has begun anew knows nothing of it. */
static void reset__after_an_event__tells_of_the_next(void **state)
{
    struct nvmf_host_slot *slot;

    (void)state;
    side_disk(&s, "ram:1M", false);
    side_join(&s);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(side_admin(&s, NVMF_SET_FEATURES, 0, NVMF_FEATURE_EVENTS, 0x100, 0),
                         NVMF_OK);
        slot = await_event();
        assert_true(slot->busy);
        side_disk(&s, "ram:1M", false);
        side_await_answer(&s, slot);
        assert_int_equal(slot->response.result, 0x00040002);
        assert_int_equal(property(NVMF_PROPERTY_SET, NVMF_CC, false, 0), NVMF_OK);
        assert_int_equal(property(NVMF_PROPERTY_SET, NVMF_CC, false, 0x460001), NVMF_OK);
    }
    assert_int_equal(get_log(NVMF_LOG_CHANGED, 4096, 0), NVMF_OK);
    assert_int_equal(nvmf_get32(s.host.memory), 0);
}

static void event__wished_for_when_it_has_happened__is_told(void **state)
{
    struct nvmf_host_slot *slot;

    (void)state;
    side_join(&s);
    slot = await_event();
    side_disk(&s, "ram:1M", false);
    side_run(&s, NULL, 50);
    assert_true(slot->busy);
    assert_int_equal(side_admin(&s, NVMF_SET_FEATURES, 0, NVMF_FEATURE_EVENTS, 0x100, 0), NVMF_OK);
    side_await_answer(&s, slot);
    assert_int_equal(slot->response.result, 0x00040002);
}

static void shutdown__asked_for__ends_when_disks_are_flushed(void **state)
{
    (void)state;
    side_file(&s, 1 << 20);
    side_join(&s);
    assert_int_equal(property(NVMF_PROPERTY_SET, NVMF_CC, false, 0x464001), NVMF_OK);
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(property(NVMF_PROPERTY_GET, NVMF_CSTS, false, 0), NVMF_OK);
        if ((s.result & 0xc) == 0x8) {
            break;
        }
        side_run(&s, NULL, 5);
    }
    assert_int_equal(s.result, 0x9);
}

static void shutdown__asked_for_again_and_again__has_one_flush_at_a_time(void **state)
{
    struct nvmf_controller *controller;

    (void)state;
    side_file(&s, 1 << 20);
    side_join(&s);
    controller = s.target.controllers.first;
    for (unsigned i = 0; i < 100; i++) {
        assert_true(nvmf_property_set(controller, NVMF_CC, false, 0x464001));
        assert_int_equal(controller->csts, 0x05);
        assert_true(nvmf_property_set(controller, NVMF_CC, false, 0x460001));
    }
    assert_int_equal(s.target.engine->under_way, 1);
    for (unsigned i = 0; i < 200 && controller->csts == 0x05; i++) {
        side_run(&s, NULL, 10);
    }
    assert_int_equal(controller->csts, 0x09);
    /* Enabled anew while a flush is under way, it is not shut down by that. */
    assert_true(nvmf_property_set(controller, NVMF_CC, false, 0x464001));
    assert_int_equal(s.target.engine->under_way, 1);
    assert_true(nvmf_property_set(controller, NVMF_CC, false, 0));
    assert_true(nvmf_property_set(controller, NVMF_CC, false, 0x460001));
    for (unsigned i = 0; i < 200 && s.target.engine->under_way > 0; i++) {
        side_run(&s, NULL, 10);
    }
    assert_int_equal(controller->csts, 0x01);
}

/* The flush of a shutdown is with the disk when the target ends: it waits for that. */
static void stop__while_a_shutdown_flushes__waits_for_the_disk(void **state)
{
    (void)state;
    side_file(&s, 1 << 20);
    side_join(&s);
    side_must(nvmf_property_set(s.target.controllers.first, NVMF_CC, false, 0x464001), "shutdown");
    assert_int_equal(s.target.engine->under_way, 1);
    nvmf_target_close(&s.target);
    side_leave(&s);
    nvmf_host_close(&s.host);
    uv_run(&s.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&s.loop), 0);
    unlink(s.file);
    side_open(&s, 8 << 20, true); /* for tear_down */
}

static void stop__with_hosts__ends_their_connections(void **state)
{
    (void)state;
    side_disk(&s, "ram:1M", false);
    side_join(&s);
    nvmf_target_close(&s.target);
    side_run(&s, s.admin, 5000);
    assert_true(s.admin->ended && s.io->ended);
    side_leave(&s);
    nvmf_host_close(&s.host);
    uv_run(&s.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&s.loop), 0);
    side_open(&s, 8 << 20, true); /* for tear_down */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(connect__right_names__gives_a_controller_that_is_ready),
        TEST(connect__wrong_names__is_refused_with_the_reason),
        TEST(connect__twice_at_once__makes_one_controller),
        TEST(responses__have_the_head_of_the_queue),
        TEST(identify__controller__has_what_a_host_reads),
        TEST(identify__namespaces__are_listed_and_described),
        TEST(features__queues_events_cache__are_kept),
        TEST(log__errors__tell_of_the_newest_first),
        TEST(log__discovery__lists_what_the_host_may_have),
        TEST(event__namespaces_change__is_told_once_until_the_log_is_read),
        TEST(keep_alive__silent_host__is_disconnected),
        TEST(keep_alive__that_waits_for_the_target__is_in_time),
        TEST(keep_alive__none_and_the_host_vanishes__ends_by_probes_of_tcp),
        TEST(reset__controller__loses_its_queues_and_comes_back),
        TEST(reset__controller__ends_requests_for_events),
        TEST(reset__after_an_event__tells_of_the_next),
        TEST(event__wished_for_when_it_has_happened__is_told),
        TEST(shutdown__asked_for__ends_when_disks_are_flushed),
        TEST(shutdown__asked_for_again_and_again__has_one_flush_at_a_time),
        TEST(stop__while_a_shutdown_flushes__waits_for_the_disk),
        TEST(stop__with_hosts__ends_their_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
