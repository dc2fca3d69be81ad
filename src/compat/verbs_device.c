/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices that programs see (identity.h): their list, names and GUIDs. Opening them is in
 * verbs_open.c. Nothing happens before the first call.
 */
#include "base/process.h"
#include "compat/compat.h"
#include "compat/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Providers (libmlx5, ...) compare the pointer behind the public part with the address of their own
 * operations to see whether a device is theirs. It must be readable, and never equal. */
struct device {
    struct ibv_device ibv;
    const void *ops;
    uint64_t rest[64];
    const struct compat_identity *identity;
};

static const char not_theirs;
static struct device devices[COMPAT_MAX_DEVICES];
static unsigned n_devices; /* these do not change after find_devices */

/* As the kernel names the device of an RNIC or of a RoCE adapter. Programs look for the latter's
 * files by these paths. */
static void give_place(struct ibv_device *d, unsigned i)
{
    if (iwarp_compat_poses_as_roce()) {
        d->node_type = IBV_NODE_CA;
        d->transport_type = IBV_TRANSPORT_IB;
        snprintf(d->dev_name, sizeof d->dev_name, "uverbs%u", i);
    } else {
        d->node_type = IBV_NODE_RNIC;
        d->transport_type = IBV_TRANSPORT_IWARP;
        memcpy(d->dev_name, d->name, sizeof d->dev_name);
    }
    snprintf(d->dev_path, sizeof d->dev_path, "/sys/class/infiniband_verbs/%s", d->dev_name);
    snprintf(d->ibdev_path, sizeof d->ibdev_path, "/sys/class/infiniband/%s", d->name);
}

static void name_devices(void)
{
    const struct compat_identity *all;

    n_devices = iwarp_compat_identities(&all);
    for (unsigned i = 0; i < n_devices; i++) {
        struct ibv_device *d = &devices[i].ibv;
        memset(d, 0, sizeof *d);
        snprintf(d->name, sizeof d->name, "%s", all[i].name);
        give_place(d, i);
        devices[i].ops = &not_theirs;
        devices[i].identity = &all[i];
    }
}

static void find_devices(void)
{
    IWARP_UNCANCELLED; /* files are read and sockets asked */
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)iwarp_compat_generation(); /* forks are watched from here on */
    pthread_once(&once, name_devices);
}

struct ibv_device *iwarp_compat_device_at(unsigned i)
{
    find_devices();
    return i < n_devices ? &devices[i].ibv : NULL;
}

int iwarp_compat_device_index(const struct ibv_device *d)
{
    find_devices();
    for (unsigned i = 0; i < n_devices; i++) {
        if (d == &devices[i].ibv) {
            return (int)i;
        }
    }
    return -1;
}

const struct compat_identity *iwarp_compat_identity(struct ibv_device *d)
{
    int i = iwarp_compat_device_index(d);

    return devices[i < 0 ? 0 : i].identity;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
    struct ibv_device **list = calloc(COMPAT_MAX_DEVICES + 1, sizeof *list);

    find_devices();
    if (num_devices) {
        *num_devices = list ? (int)n_devices : 0;
    }
    for (unsigned i = 0; list && i < n_devices; i++) {
        list[i] = &devices[i].ibv;
    }
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *d)
{
    return d->name;
}

int ibv_get_device_index(struct ibv_device *d)
{
    (void)d;
    return -1; /* the kernel knows of no such device */
}

__be64 ibv_get_device_guid(struct ibv_device *d)
{
    return iwarp_compat_guid(iwarp_compat_identity(d));
}

/* Nothing is pinned, so a fork needs no preparation. */
int ibv_fork_init(void)
{
    return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return IBV_FORK_UNNEEDED;
}
