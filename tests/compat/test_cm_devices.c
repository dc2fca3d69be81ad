/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IWARP_DEVICES=per-interface: which devices there are, and that ids get the one that has their
 * local address, with its context and its protection domain; requests of peers, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 90000

static void ok(int result)
{
    if (result != 0) {
        fail_msg("%d, errno %d (%s)", result, errno, strerror(errno));
    }
}

static struct sockaddr_in at(uint32_t address)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
}

static struct rdma_cm_id *bound(struct rdma_event_channel *channel, struct sockaddr *addr)
{
    struct rdma_cm_id *id;

    ok(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
    ok(rdma_bind_addr(id, addr));
    return id;
}

/* With completion queues of its own. */
static int create_qp(struct rdma_cm_id *id, struct ibv_pd *pd)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1}};

    return rdma_create_qp(id, pd, &attr);
}

static struct rdma_cm_event *expect(struct rdma_event_channel *channel,
                                    enum rdma_cm_event_type type)
{
    struct pollfd p = {.fd = channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;

    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    ok(rdma_get_cm_event(channel, &event));
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    assert_int_equal(event->status, 0);
    return event;
}

/* --- the list -------------------------------------------------------------------------------- */

static bool has_address(const struct ifaddrs *all, const char *interface)
{
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        if (a->ifa_addr && (a->ifa_flags & IFF_UP) && strcmp(a->ifa_name, interface) == 0 &&
            (a->ifa_addr->sa_family == AF_INET || a->ifa_addr->sa_family == AF_INET6)) {
            return true;
        }
    }
    return false;
}

static int is_device(struct ibv_device *const *list, int n, const char *interface)
{
    int times = 0;

    for (int i = 0; i < n; i++) {
        times += strcmp(ibv_get_device_name(list[i]) + strlen("iwarp_"), interface) == 0;
    }
    return times;
}

static void list__has_each_interface_with_an_address_once__but_loopback(void **state)
{
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    struct if_nameindex *interfaces = if_nameindex();
    struct ifaddrs *all = NULL;
    int expected = 0;

    (void)state;
    assert_non_null(list);
    assert_non_null(interfaces);
    ok(getifaddrs(&all));
    assert_null(list[n]);
    for (int i = 0; interfaces[i].if_index != 0; i++) {
        if (strcmp(interfaces[i].if_name, "lo") != 0) {
            bool has = has_address(all, interfaces[i].if_name);
            assert_int_equal(is_device(list, n, interfaces[i].if_name), has);
            expected += has;
        }
    }
    assert_int_equal(n, expected > 0 ? expected : 1); /* loopback, if there is nothing else */
    assert_int_equal(is_device(list, n, "lo"), expected == 0);
    assert_memory_equal(list[0]->ibdev_path, "/sys/class/infiniband/iwarp_", 28);
    for (int i = 0; i < n; i++) {
        struct ibv_context *context = ibv_open_device(list[i]);
        struct ibv_device_attr attr;
        assert_non_null(context);
        assert_ptr_equal(context->device, list[i]);
        ok(ibv_query_device(context, &attr));
        assert_int_equal(attr.node_guid, ibv_get_device_guid(list[i]));
        for (int j = 0; j < i; j++) {
            assert_int_not_equal(attr.node_guid, ibv_get_device_guid(list[j]));
        }
        ok(ibv_close_device(context));
    }
    freeifaddrs(all);
    if_freenameindex(interfaces);
    ibv_free_device_list(list);
}

/* --- ids ------------------------------------------------------------------------------------- */

static void bind__to_each_address__gives_the_device_that_has_it(void **state)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct sockaddr_in second = at(INADDR_LOOPBACK + 1), any = at(INADDR_ANY);
    struct ifaddrs *all = NULL;
    int n = 0, seen = 0;

    (void)state;
    ok(getifaddrs(&all));
    struct ibv_context **contexts = rdma_get_devices(&n);
    assert_non_null(contexts);
    assert_null(contexts[n]);
    for (struct ifaddrs *a = all; a; a = a->ifa_next) {
        if (!a->ifa_addr || !(a->ifa_flags & IFF_UP) || a->ifa_addr->sa_family != AF_INET) {
            continue;
        }
        struct rdma_cm_id *id = bound(channel, a->ifa_addr);
        assert_non_null(id->verbs);
        const char *name = ibv_get_device_name(id->verbs->device);
        if (a->ifa_flags & IFF_LOOPBACK) {
            assert_ptr_equal(id->verbs, contexts[0]);
        } else {
            assert_string_equal(name + strlen("iwarp_"), a->ifa_name);
        }
        assert_ptr_equal(id->pd->context, id->verbs);
        int known = 0;
        for (int i = 0; i < n; i++) {
            known += contexts[i] == id->verbs;
        }
        assert_int_equal(known, 1);
        ok(rdma_destroy_id(id));
        seen++;
    }
    assert_true(seen > 0);
    struct rdma_cm_id *id = bound(channel, (struct sockaddr *)&second);
    assert_ptr_equal(id->verbs, contexts[0]);
    ok(rdma_destroy_id(id));
    id = bound(channel, (struct sockaddr *)&any);
    assert_null(id->verbs);
    ok(rdma_destroy_id(id));
    rdma_free_devices(contexts);
    freeifaddrs(all);
    rdma_destroy_event_channel(channel);
}

static void create_qp__with_the_domain_of_another_device__is_refused(void **state)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct sockaddr_in addr = at(INADDR_LOOPBACK);
    struct rdma_cm_id *id = bound(channel, (struct sockaddr *)&addr);
    int n = 0;
    struct ibv_context **contexts = rdma_get_devices(&n);

    (void)state;
    for (int i = 0; i < n; i++) {
        struct ibv_pd *pd = ibv_alloc_pd(contexts[i]);
        assert_non_null(pd);
        if (contexts[i] == id->verbs) {
            ok(create_qp(id, pd));
            rdma_destroy_qp(id);
        } else {
            assert_int_equal(create_qp(id, pd), -1);
            assert_int_equal(errno, EINVAL);
        }
        ok(ibv_dealloc_pd(pd));
    }
    ok(rdma_destroy_id(id));
    rdma_free_devices(contexts);
    rdma_destroy_event_channel(channel);
}

/* An IPv4 address of this machine, of loopback only if there is no other. */
static struct sockaddr_in last_address(void)
{
    struct sockaddr_in addr = at(INADDR_LOOPBACK);
    struct ifaddrs *all = NULL;

    ok(getifaddrs(&all));
    for (struct ifaddrs *a = all; a; a = a->ifa_next) {
        if (a->ifa_addr && (a->ifa_flags & IFF_UP) && !(a->ifa_flags & IFF_LOOPBACK) &&
            a->ifa_addr->sa_family == AF_INET) {
            memcpy(&addr, a->ifa_addr, sizeof addr);
        }
    }
    freeifaddrs(all);
    return addr;
}

/* Who listens on all addresses gets to know the device with the request. */
static void request__to_a_listener_on_all_addresses__is_of_the_device_it_came_to(void **state)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct sockaddr_in any = at(INADDR_ANY), to = last_address();
    struct rdma_cm_id *listener = bound(channel, (struct sockaddr *)&any), *client;

    (void)state;
    ok(rdma_listen(listener, 1));
    to.sin_port = rdma_get_src_port(listener);
    ok(rdma_create_id(channel, &client, NULL, RDMA_PS_TCP));
    ok(rdma_resolve_addr(client, NULL, (struct sockaddr *)&to, 1000));
    ok(rdma_ack_cm_event(expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED)));
    ok(rdma_resolve_route(client, 1000));
    ok(rdma_ack_cm_event(expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED)));
    ok(create_qp(client, NULL));
    ok(rdma_connect(client, NULL));
    struct rdma_cm_event *event = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;
    assert_ptr_equal(server->verbs, client->verbs);
    assert_ptr_equal(server->pd, client->pd);
    ok(rdma_ack_cm_event(event));
    ok(create_qp(server, NULL));
    ok(rdma_accept(server, NULL));
    for (int i = 0; i < 2; i++) {
        ok(rdma_ack_cm_event(expect(channel, RDMA_CM_EVENT_ESTABLISHED)));
    }
    rdma_destroy_qp(client);
    ok(rdma_destroy_id(client));
    ok(rdma_ack_cm_event(expect(channel, RDMA_CM_EVENT_DISCONNECTED)));
    rdma_destroy_qp(server);
    ok(rdma_destroy_id(server));
    ok(rdma_destroy_id(listener));
    rdma_destroy_event_channel(channel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list__has_each_interface_with_an_address_once__but_loopback),
        cmocka_unit_test(bind__to_each_address__gives_the_device_that_has_it),
        cmocka_unit_test(create_qp__with_the_domain_of_another_device__is_refused),
        cmocka_unit_test(request__to_a_listener_on_all_addresses__is_of_the_device_it_came_to),
    };

    if (setenv("IWARP_DEVICES", "per-interface", 1) != 0) {
        return 1;
    }
    return cmocka_run_group_tests_name("test_cm_devices", tests, NULL, NULL);
}
