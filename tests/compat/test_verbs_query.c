/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the device says of itself, regions and protection domains, and that what is not offered
 * fails as pyverbs and others expect it.
 */
#include "loop.h"

#include "../support/child.h"

#include "compat/gid.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>

static void device__is_an_rnic_with_a_name_and_a_guid(void **state)
{
    struct ibv_context *context = loop_context();
    struct ibv_device *device = context->device;
    uint8_t guid[8];
    __be64 guid_again = ibv_get_device_guid(device);

    (void)state;
    assert_string_equal(ibv_get_device_name(device), "iwarp0");
    assert_int_equal(device->node_type, IBV_NODE_RNIC);
    assert_int_equal(device->transport_type, IBV_TRANSPORT_IWARP);
    memcpy(guid, &guid_again, sizeof guid);
    assert_int_equal(guid[3], 0xff);
    assert_int_equal(guid[4], 0xfe);
    assert_true(fcntl(context->cmd_fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(context->async_fd, F_GETFD) & FD_CLOEXEC);
    assert_true(context->num_comp_vectors >= 1);
    assert_int_equal(ibv_close_device(context), 0);
}

/* From a machine id: always the same, of local use, and another one for another machine. */
static void mac__of_a_machine_id__is_stable(void **state)
{
    uint8_t a[6], b[6], c[6];

    (void)state;
    iwarp_compat_mac_of_machine("0123456789abcdef0123456789abcdef", a);
    iwarp_compat_mac_of_machine("0123456789abcdef0123456789abcdef", b);
    iwarp_compat_mac_of_machine("0123456789abcdef0123456789abcdee", c);
    assert_memory_equal(a, b, 6);
    assert_memory_not_equal(a, c, 6);
    assert_int_equal(a[0] & 3, 2);
}

/* Programs have 0, 1 or 3 written into them, and ask for an interface_id that is not 0. */
static void query__gids__are_addresses_of_this_machine(void **state)
{
    struct ibv_context *context = loop_context();
    struct ibv_gid_entry one, all[COMPAT_MAX_GIDS];
    union ibv_gid first, gid;
    struct ibv_port_attr port;

    (void)state;
    assert_int_equal(ibv_query_port(context, 1, &port), 0);
    assert_int_equal(ibv_query_gid(context, 1, 0, &first), 0);
    assert_true(port.gid_tbl_len >= COMPAT_GID_COPIES);
    assert_int_equal(ibv_query_gid_table(context, all, COMPAT_MAX_GIDS, 0), port.gid_tbl_len);
    for (int i = 0; i < port.gid_tbl_len; i++) {
        struct sockaddr_storage addr;
        assert_int_equal(ibv_query_gid(context, 1, i, &gid), 0);
        assert_true(gid.global.interface_id != 0);
        assert_int_equal(ibv_query_gid_ex(context, 1, (uint32_t)i, &one, 0), 0);
        assert_memory_equal(&one, &all[i], sizeof one);
        assert_memory_equal(&one.gid, &gid, sizeof gid);
        assert_int_equal(one.gid_type, IBV_GID_TYPE_ROCE_V2);
        assert_int_equal(one.gid_index, i);
        if (i < COMPAT_GID_COPIES) {
            assert_memory_equal(&gid, &first, sizeof gid);
        }
        iwarp_compat_addr_of_gid(&gid, 0, &addr);
        assert_true(iwarp_compat_is_here(&addr));
    }
    if (first.raw[10] == 0xff) { /* IPv4 */
        assert_int_equal(port.lid, first.raw[14] << 8 | first.raw[15]);
    }
    assert_int_equal(ibv_query_gid(context, 1, port.gid_tbl_len, &gid), -1);
    assert_int_equal(ibv_query_gid(context, 1, -1, &gid), -1);
    assert_int_equal(ibv_query_gid(context, 2, 0, &gid), -1);
    assert_int_equal(ibv_query_gid_ex(context, 1, (uint32_t)port.gid_tbl_len, &one, 0), ENODATA);
    assert_int_equal(ibv_query_gid_ex(context, 2, 0, &one, 0), EINVAL);
    assert_int_equal(ibv_query_gid_table(context, all, 2, 0), -EINVAL);
    assert_int_equal(ibv_query_gid_table(context, all, COMPAT_MAX_GIDS, 1), -EINVAL);
    assert_int_equal(ibv_close_device(context), 0);
}

static struct compat_address address(const char *text, const char *mask)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct compat_address a = {.interface = 1};

    assert_int_equal(inet_pton(AF_INET, text, &in.sin_addr), 1);
    memcpy(&a.addr, &in, sizeof in);
    assert_int_equal(inet_pton(AF_INET, mask, &a.mask), 1);
    return a;
}

/* The low half of the address, within its network. */
static void lid__names_a_host_of_the_network(void **state)
{
    static const struct {
        const char *mask;
        uint16_t lid;
        const char *host; /* NULL: there is none such */
    } cases[] = {{"255.255.255.0", 0x0302, "10.1.3.2"}, {"255.255.255.0", 0x0402, NULL},
                 {"255.255.0.0", 0x0402, "10.1.4.2"},   {"255.0.0.0", 0xfffe, "10.1.255.254"},
                 {"255.255.255.0", 0, "10.1.3.9"},      {"255.255.255.255", 0x0309, "10.1.3.9"},
                 {"255.255.255.255", 0x0308, NULL}};
    struct compat_addresses list = {.n = 1};
    struct sockaddr_storage addr;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        list.at[0] = address("10.1.3.9", cases[i].mask);
        assert_int_equal(iwarp_compat_lid(&list), 0x0309);
        bool found = iwarp_compat_addr_of_lid(&list, cases[i].lid, &addr);
        assert_int_equal(found, cases[i].host != NULL);
        if (found) {
            struct compat_address host = address(cases[i].host, "0.0.0.0");
            assert_true(iwarp_compat_same_host(&addr, &host.addr));
        }
    }
}

static void query__pkey(void **state)
{
    struct ibv_context *context = loop_context();
    __be16 pkey = 7;

    (void)state;
    assert_int_equal(ibv_query_pkey(context, 1, 0, &pkey), 0);
    assert_int_equal(pkey, 0);
    assert_int_equal(ibv_query_pkey(context, 1, 1, &pkey), -1);
    assert_int_equal(ibv_close_device(context), 0);
}

static void query__device_and_port(void **state)
{
    struct ibv_context *context = loop_context();
    struct ibv_device_attr_ex ex;
    struct ibv_device_attr attr;
    struct ibv_port_attr port;

    (void)state;
    memset(&ex, 0xee, sizeof ex);
    memset(&attr, 0xee, sizeof attr);
    memset(&port, 0xee, sizeof port);
    assert_int_equal(ibv_query_device(context, &attr), 0);
    assert_string_equal(attr.fw_ver, IWARP_VERSION);
    assert_int_equal(attr.node_guid, ibv_get_device_guid(context->device));
    assert_int_equal(attr.max_sge_rd, 32);
    assert_int_equal(attr.phys_port_cnt, 1);
    assert_in_range(attr.max_qp_rd_atom, 1, 128); /* CM callers keep the low 8 bits */
    assert_in_range(attr.max_qp_init_rd_atom, 1, 128);
    assert_int_equal(attr.atomic_cap, IBV_ATOMIC_GLOB);
    assert_int_equal(ibv_query_device_ex(context, NULL, &ex), 0);
    assert_int_equal(ex.phys_port_cnt_ex, 1);
    assert_int_equal(ex.orig_attr.max_qp_wr, attr.max_qp_wr);
    assert_int_equal(ex.completion_timestamp_mask, 0);
    assert_int_equal(ibv_query_port(context, 1, &port), 0);
    assert_int_equal(port.state, IBV_PORT_ACTIVE);
    assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    assert_int_equal(port.phys_state, 5);
    assert_int_equal(port.max_msg_sz, UINT32_MAX);
    assert_in_range(port.active_mtu, IBV_MTU_256, IBV_MTU_4096);
    assert_int_equal(ibv_query_port(context, 2, &port), EINVAL);

    /* The exported function, as programs built against older headers call it, writes 48 octets. */
    memset(&port, 0xee, sizeof port);
    assert_int_equal((ibv_query_port)(context, 1, (struct _compat_ibv_port_attr *)(void *)&port),
                     0);
    assert_int_equal(port.state, IBV_PORT_ACTIVE);
    assert_int_equal(port.port_cap_flags2, 0xeeee);
    assert_int_equal(ibv_close_device(context), 0);
}

static void region__registered_moved_and_given_back(void **state)
{
    static uint8_t memory[2][256];
    struct ibv_context *context = loop_context();
    struct ibv_pd *pd = ibv_alloc_pd(context);

    (void)state;
    struct ibv_mr *mr = ibv_reg_mr(pd, memory[0], 256, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
    assert_ptr_equal(mr->addr, memory[0]);
    assert_int_equal(mr->length, 256);
    assert_ptr_equal(mr->pd, pd);
    assert_int_equal(mr->lkey, mr->rkey);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    uint32_t key = mr->lkey;
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory[1], 128, 0), 0);
    assert_ptr_equal(mr->addr, memory[1]);
    assert_int_equal(mr->length, 128);
    assert_int_not_equal(mr->lkey, key);
    assert_int_equal(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE),
        IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(mr->length, 128);
    assert_int_equal(ibv_dereg_mr(mr), 0);

    errno = 0;
    assert_null(ibv_reg_mr(pd, memory[0], 256, IBV_ACCESS_REMOTE_WRITE)); /* LOCAL_WRITE, too */
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_reg_mr(pd, memory[0], 256, IBV_ACCESS_ON_DEMAND));
    assert_int_equal(errno, EOPNOTSUPP);
    /* Wishes that may be ignored are. */
    volatile int wish = (int)IBV_ACCESS_LOCAL_WRITE | (int)IBV_ACCESS_RELAXED_ORDERING;
    mr = ibv_reg_mr_iova2(pd, memory[0], 256, (uintptr_t)memory[0], (unsigned)wish);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    /* The macro of the same name mixes two enumerations, of which compilers warn. */
    mr = (ibv_reg_mr_iova)(pd, memory[0], 256, 0x1000, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
    assert_int_equal(iwarp_mr_to_base(compat_mr(mr)->native), 0x1000);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

/* Headers of release 64 and later declare these; ours are older or newer. */
struct ibv_buf;
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
                              int access);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);

static void buffer__registered_within_its_bounds(void **state)
{
    struct ibv_context *context = loop_context();
    struct ibv_pd *pd = ibv_alloc_pd(context), *other = ibv_alloc_pd(context);
    struct ibv_buf *buf;
    char *memory = ibv_alloc_buf(pd, 10000, &buf);

    (void)state;
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
    memset(memory, 1, 10000);
    struct ibv_mr *mr = ibv_reg_buf_mr(pd, buf, memory + 1, 9999, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
    assert_ptr_equal(mr->addr, memory + 1);
    assert_int_equal(mr->length, 9999);
    assert_int_equal(ibv_dereg_mr(mr), 0);

    static const struct {
        long from;
        size_t length;
    } wrong[] = {{1, 10000}, {-1, 1}, {10001, 0}, {0, SIZE_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        errno = 0;
        assert_null(ibv_reg_buf_mr(pd, buf, memory + wrong[i].from, wrong[i].length, 0));
        assert_int_equal(errno, EINVAL);
    }
    errno = 0;
    assert_null(ibv_reg_buf_mr(other, buf, memory, 10000, 0));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_export_buf_dmabuf_fd(buf), -1);
    assert_int_equal(errno, ENODATA);
    ibv_free_buf(buf);
    if (!CHILD_SANITIZED) { /* a sanitizer's allocator ends the program instead */
        assert_null(ibv_alloc_buf(pd, SIZE_MAX / 2, &buf));
        assert_int_equal(errno, ENOMEM);
    }
    assert_int_equal(ibv_dealloc_pd(other), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void missing__fails_with_eopnotsupp(void **state)
{
    struct ibv_context *context = loop_context();
    struct ibv_pd *pd = ibv_alloc_pd(context);

    (void)state;
    errno = 0;
    assert_null(ibv_reg_dmabuf_mr(pd, 0, 10, 0, -1, 0));
    assert_int_equal(errno, EOPNOTSUPP);
    errno = 0;
    assert_null(ibv_import_device(context->cmd_fd));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(ibv_import_pd(context, 1));
    errno = 0;
    assert_null(ibv_open_xrcd(context, &(struct ibv_xrcd_init_attr){.fd = -1}));
    assert_int_equal(errno, EOPNOTSUPP);
    struct ibv_srq_init_attr_ex tagged = {.attr = {.max_wr = 1, .max_sge = 1},
                                          .comp_mask =
                                              IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
                                          .srq_type = IBV_SRQT_TM,
                                          .pd = pd};
    errno = 0;
    assert_null(ibv_create_srq_ex(context, &tagged));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(ibv_fork_init(), 0);
    assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void words__for_all_numbers(void **state)
{
    (void)state;
    assert_string_equal(ibv_node_type_str(IBV_NODE_RNIC), "iWARP NIC");
    assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
    assert_string_equal(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
    assert_string_equal(ibv_wc_status_str(IBV_WC_SUCCESS), "success");
    for (int i = IBV_WC_SUCCESS; i <= IBV_WC_TM_RNDV_INCOMPLETE; i++) {
        assert_string_not_equal(ibv_wc_status_str((enum ibv_wc_status)i), "unknown");
    }
    for (int i = IBV_EVENT_CQ_ERR; i <= IBV_EVENT_WQ_FATAL; i++) {
        assert_string_not_equal(ibv_event_type_str((enum ibv_event_type)i), "unknown");
    }
    assert_string_equal(ibv_wc_status_str((enum ibv_wc_status)99), "unknown");
    for (int i = IBV_WR_RDMA_WRITE; i <= IBV_WR_ATOMIC_WRITE; i++) {
        if (i <= IBV_WR_DRIVER1 || i >= 14) {
            assert_string_not_equal(ibv_wr_opcode_str((enum ibv_wr_opcode)i), "unknown");
        }
    }
    assert_string_equal(ibv_wr_opcode_str((enum ibv_wr_opcode)99), "unknown");
    assert_int_equal(ibv_rate_to_mult(IBV_RATE_40_GBPS), 16);
    assert_int_equal(mult_to_ibv_rate(16), IBV_RATE_40_GBPS);
    assert_int_equal(ibv_rate_to_mult(IBV_RATE_28_GBPS), 11);
    assert_int_equal(mult_to_ibv_rate(480), IBV_RATE_1200_GBPS);
    assert_int_equal(ibv_rate_to_mbps(IBV_RATE_2_5_GBPS), 2500);
    assert_int_equal(mbps_to_ibv_rate(2500), IBV_RATE_2_5_GBPS);
    assert_int_equal(ibv_rate_to_mult(IBV_RATE_MAX), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device__is_an_rnic_with_a_name_and_a_guid),
        cmocka_unit_test(mac__of_a_machine_id__is_stable),
        cmocka_unit_test(query__gids__are_addresses_of_this_machine),
        cmocka_unit_test(lid__names_a_host_of_the_network),
        cmocka_unit_test(query__pkey),
        cmocka_unit_test(query__device_and_port),
        cmocka_unit_test(region__registered_moved_and_given_back),
        cmocka_unit_test(buffer__registered_within_its_bounds),
        cmocka_unit_test(missing__fails_with_eopnotsupp),
        cmocka_unit_test(words__for_all_numbers),
    };

    return cmocka_run_group_tests_name("verbs_query", tests, NULL, NULL);
}
