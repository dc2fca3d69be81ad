/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attributes of the device, as an iWARP RNIC reports them: limits, its one port and P_Key.
 * Attributes that only InfiniBand has are 0.
 */
#include "base/process.h"
#include "compat/compat.h"
#include "compat/gid.h"
#include "compat/identity.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLENTY             65536      /* for counts that only memory limits */
#define PORT_CAPABILITIES  0x00090000 /* CM_SUP, DEVICE_MGMT: as siw says */
#define PHYS_STATE_LINK_UP 5
#define PKEY_DEFAULT       0xffff /* of RoCE: full members of the only partition */
#define VENDOR_ID          0x697770 /* nobody else's: programs adapt themselves to those that they know */

/* Atomic with the processor, too. Of adapters programs expect less, and UCX takes no more. */
static enum ibv_atomic_cap atomic_cap(void)
{
    return iwarp_compat_poses_as_roce() ? IBV_ATOMIC_HCA : IBV_ATOMIC_GLOB;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    struct iwarp_device_info info = {.size = sizeof info};
    struct iwarp_device *native = iwarp_compat_device();

    if (!native) {
        return errno;
    }
    if (iwarp_device_query(native, &info) != IWARP_OK) {
        return iwarp_compat_failed("verbs", IWARP_MISUSE, "ibv_query_device");
    }
    *attr = (struct ibv_device_attr){
        .node_guid = ibv_get_device_guid(context->device),
        .sys_image_guid = ibv_get_device_guid(context->device),
        .max_mr_size = info.max_region,
        .page_size_cap = 0xfffff000,
        .vendor_id = VENDOR_ID,
        .vendor_part_id = 1,
        .hw_ver = 1,
        .max_qp = PLENTY,
        .max_qp_wr = (int)info.max_wr,
        .device_cap_flags =
            IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
        .max_sge = (int)info.max_sge,
        .max_sge_rd = (int)info.max_sge_rd,
        .max_cq = PLENTY,
        .max_cqe = (int)info.max_cq_entries,
        .max_mr = (int)info.options.max_regions,
        .max_pd = PLENTY,
        .max_qp_rd_atom = COMPAT_MAX_RD_ATOM,
        .max_res_rd_atom = COMPAT_MAX_RD_ATOM * PLENTY,
        .max_qp_init_rd_atom = COMPAT_MAX_RD_ATOM,
        .atomic_cap = info.features & IWARP_FEATURE_ATOMIC ? atomic_cap() : IBV_ATOMIC_NONE,
        .max_mw = (int)info.options.max_regions,
        .max_srq = PLENTY,
        .max_srq_wr = (int)info.max_wr,
        .max_srq_sge = (int)info.max_sge,
        .max_pkeys = 1,
        .phys_port_cnt = 1,
    };
    snprintf(attr->fw_ver, sizeof attr->fw_ver, "%s%s", IWARP_VERSION,
             iwarp_compat_poses_as_roce() ? " (libiwarp, iWARP posing as RoCE)" : "");
    return 0;
}

int iwarp_compat_query_device_ex(struct ibv_context *context,
                                 const struct ibv_query_device_ex_input *input,
                                 struct ibv_device_attr_ex *attr, size_t size)
{
    if ((input && input->comp_mask) || size < sizeof attr->orig_attr) {
        return EINVAL;
    }
    struct ibv_device_attr_ex all;
    memset(&all, 0, sizeof all);
    int error = ibv_query_device(context, &all.orig_attr);
    if (error) {
        return error;
    }
    all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
    all.phys_port_cnt_ex = 1;
    memset(attr, 0, size);
    memcpy(attr, &all, size < sizeof all ? size : sizeof all);
    return 0;
}

static bool no_such_port(unsigned port)
{
    if (port != 1) {
        (void)iwarp_compat_refuse("verbs", EINVAL, "port %u: the device has port 1 alone", port);
        return true;
    }
    return false;
}

int iwarp_compat_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                            size_t size)
{
    struct compat_addresses addresses;

    if (no_such_port(port)) {
        return EINVAL;
    }
    iwarp_compat_addresses(iwarp_compat_identity(context->device), &addresses);
    const struct ibv_port_attr all = {
        .state = IBV_PORT_ACTIVE,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = iwarp_compat_mtu(iwarp_compat_identity(context->device)),
        .gid_tbl_len = (int)iwarp_compat_gids(&addresses),
        .port_cap_flags = PORT_CAPABILITIES,
        .max_msg_sz = UINT32_MAX,
        .pkey_tbl_len = 1,
        .max_vl_num = 1,
        .active_width = 2, /* 4 lanes */
        .active_speed = 4, /* of 10 Gbit/s; the real speed of the path is not known */
        .phys_state = PHYS_STATE_LINK_UP,
        .link_layer = IBV_LINK_LAYER_ETHERNET,
        .lid = iwarp_compat_lid(&addresses),
    };

    memset(attr, 0, size);
    memcpy(attr, &all, size < sizeof all ? size : sizeof all);
    return 0;
}

/* Programs built with old headers call the exported function; their structure ends with `flags`. */
#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
    return iwarp_compat_query_port(context, port, (struct ibv_port_attr *)(void *)attr,
                                   offsetof(struct ibv_port_attr, port_cap_flags2));
}

static __be16 only_pkey(void)
{
    return iwarp_compat_poses_as_roce() ? htobe16(PKEY_DEFAULT) : 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    (void)context;
    if (no_such_port(port) || index != 0) {
        errno = EINVAL;
        return -1;
    }
    *pkey = only_pkey();
    return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
    (void)context;
    if (no_such_port(port) || pkey != only_pkey()) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

/* --- files that other libraries ask for ------------------------------------------------------ */

const char *ibv_get_sysfs_path(void);
const char *ibv_get_sysfs_path(void)
{
    const char *path = secure_getenv("SYSFS_PATH");

    return path ? path : "/sys";
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
    IWARP_UNCANCELLED;
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path) {
        return -1;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t n = read(fd, buf, size);
    close(fd);
    if (n > 0 && buf[n - 1] == '\n') {
        buf[--n] = '\0';
    } else if (n >= 0 && (size_t)n < size) {
        buf[n] = '\0';
    }
    return (int)n;
}
