/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices that pose as RoCE adapters (IWARP_PERSONA=roce): what the calls say, and that the files
 * say the same. That programs find the files is in tests/scripts/persona.sh.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compat/compat.h"
#include "compat/files.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type);

static struct ibv_context *context;

static void device__with_the_persona__is_an_adapter_and_says_what_it_is(void **state)
{
    struct ibv_device *d = context->device;
    struct ibv_device_attr attr;
    struct ibv_port_attr port;

    (void)state;
    assert_int_equal(d->transport_type, IBV_TRANSPORT_IB);
    assert_int_equal(d->node_type, IBV_NODE_CA);
    assert_string_equal(d->name, "iwarp0");
    assert_string_equal(d->dev_name, "uverbs0");
    assert_string_equal(d->dev_path, "/sys/class/infiniband_verbs/uverbs0");
    assert_string_equal(d->ibdev_path, "/sys/class/infiniband/iwarp0");
    assert_int_equal(ibv_query_device(context, &attr), 0);
    assert_non_null(strstr(attr.fw_ver, "libiwarp, iWARP posing as RoCE"));
    assert_int_equal(attr.vendor_id, 0x697770);
    assert_int_equal(attr.atomic_cap, IBV_ATOMIC_HCA);
    assert_int_equal(ibv_query_port(context, 1, &port), 0);
    assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
}

static void queue_pair__with_the_persona__begins_in_reset(void **state)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
    struct ibv_qp_attr attr;

    (void)state;
    assert_non_null(pd);
    assert_non_null(cq);
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    assert_non_null(qp);
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_RESET);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void port__with_the_persona__has_gid_types_and_the_default_partition(void **state)
{
    struct ibv_gid_entry entry;
    int type = -1;
    __be16 pkey;

    (void)state;
    assert_int_equal(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
    assert_int_equal(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
    assert_int_equal(ibv_query_gid_type(context, 1, 0, &type), 0);
    assert_int_equal(type, 1);
    assert_int_equal(ibv_query_pkey(context, 1, 0, &pkey), 0);
    assert_int_equal(ntohs(pkey), 0xffff);
    assert_int_equal(ibv_get_pkey_index(context, 1, htons(0xffff)), 0);
    assert_int_equal(ibv_get_pkey_index(context, 1, 0), -1);
}

static void says(const char *path, const char *expected)
{
    char text[COMPAT_FILE_OCTETS] = "";

    assert_int_equal(iwarp_compat_file(path, text), COMPAT_FILE_TEXT);
    assert_string_equal(text, expected);
}

static void files__of_a_device__say_what_the_calls_say(void **state)
{
    char guid[32], gid[48];
    struct ibv_gid_entry entry;
    __be64 n = ibv_get_device_guid(context->device);
    const uint8_t *p = (const void *)&n;

    (void)state;
    says("/sys/class/infiniband/iwarp0/node_type", "1: CA\n");
    snprintf(guid, sizeof guid, "%02x%02x:%02x%02x:%02x%02x:%02x%02x\n", p[0], p[1], p[2], p[3],
             p[4], p[5], p[6], p[7]);
    says("/sys/class/infiniband/iwarp0/node_guid", guid);
    says("/sys/class/infiniband/iwarp0/ports/1/state", "4: ACTIVE\n");
    says("/sys/class/infiniband/iwarp0/ports/1/link_layer", "Ethernet\n");
    says("/sys/class/infiniband/iwarp0/ports/1/gid_attrs/types/0", "RoCE v2\n");
    assert_int_equal(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
    for (int i = 0; i < 16; i += 2) {
        snprintf(gid + i / 2 * 5, sizeof gid - (size_t)(i / 2 * 5), "%02x%02x%c", entry.gid.raw[i],
                 entry.gid.raw[i + 1], i < 14 ? ':' : '\n');
    }
    says("/sys/class/infiniband/iwarp0/ports/1/gids/0", gid);
    says("/sys/class/infiniband_verbs/uverbs0/ibdev", "iwarp0\n");
}

static void files__of_others__are_the_systems(void **state)
{
    static const struct {
        const char *path;
        enum compat_file kind;
    } cases[] = {{"/sys/class/infiniband/iwarp0", COMPAT_FILE_FOLDER},
                 {"/sys/class/infiniband/iwarp0/", COMPAT_FILE_FOLDER},
                 {"/sys/class/infiniband_verbs/uverbs0", COMPAT_FILE_FOLDER},
                 {"/dev/infiniband/uverbs0", COMPAT_FILE_DEVICE},
                 {"/sys/class/infiniband", COMPAT_FILE_FOLDER},
                 {"/sys/class/infiniband/", COMPAT_FILE_FOLDER},
                 {"/sys/class/infiniband_verbs", COMPAT_FILE_FOLDER},
                 {"/dev/infiniband", COMPAT_FILE_FOLDER},
                 {"/sys/class/infiniban", COMPAT_FILE_NONE},
                 {"/sys/class/infiniband_mad", COMPAT_FILE_NONE},
                 {"/sys/class/infiniband/iwarp", COMPAT_FILE_NONE},
                 {"/sys/class/infiniband/iwarp00", COMPAT_FILE_NONE},
                 {"/sys/class/infiniband/mlx5_0/node_type", COMPAT_FILE_NONE},
                 {"/sys/class/infiniband/iwarp0/ports/2/state", COMPAT_FILE_NONE},
                 {"/sys/class/infiniband/iwarp0/ports/1/gids/999", COMPAT_FILE_NONE},
                 {"/sys/class/infiniband/iwarp0/ports/1/gids/0x", COMPAT_FILE_NONE},
                 {"/sys/class/infiniband/iwarp0/ports/1/gids/", COMPAT_FILE_NONE},
                 {"/sys/class/infiniband/iwarp0/device/numa_node", COMPAT_FILE_NONE},
                 {"/dev/infiniband/uverbs1", COMPAT_FILE_NONE},
                 {"/dev/infiniband/rdma_cm", COMPAT_FILE_NONE},
                 {"/dev/null", COMPAT_FILE_NONE},
                 {"", COMPAT_FILE_NONE}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[COMPAT_FILE_OCTETS] = "";
        assert_int_equal(iwarp_compat_file(cases[i].path, text), cases[i].kind);
    }
}

static int setup(void **state)
{
    (void)state;
    setenv("IWARP_PERSONA", "roce", 1);
    struct ibv_device **list = ibv_get_device_list(NULL);
    context = list && list[0] ? ibv_open_device(list[0]) : NULL;
    ibv_free_device_list(list);
    return context ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return ibv_close_device(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device__with_the_persona__is_an_adapter_and_says_what_it_is),
        cmocka_unit_test(queue_pair__with_the_persona__begins_in_reset),
        cmocka_unit_test(port__with_the_persona__has_gid_types_and_the_default_partition),
        cmocka_unit_test(files__of_a_device__say_what_the_calls_say),
        cmocka_unit_test(files__of_others__are_the_systems),
    };

    return cmocka_run_group_tests_name("verbs_persona", tests, setup, teardown);
}
