/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices that programs see (identity.h): listing, opening and closing them, and the one native
 * device behind all contexts of the process, which starts (with its thread) when it is first
 * needed, and once more in a forked child. Nothing happens before the first call.
 */
#include "base/process.h"
#include "compat/compat.h"
#include "compat/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Providers read the pointer behind the public part to see whether the device is theirs. */
struct device {
    struct ibv_device ibv;
    const void *ops;
    uint64_t rest[64];
    const struct compat_identity *identity;
    struct ibv_context *shared; /* under lock; kept over forks */
};

static const char not_theirs;
static struct device devices[COMPAT_MAX_DEVICES];
static unsigned n_devices; /* these do not change after `begin` */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct iwarp_device *native;     /* under lock */
static unsigned native_born;            /* the generation that opened it */
static struct compat_context *contexts; /* those that are open; under lock */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

/* The program and its copy would take events from one another, and a lock may be held for ever. */
static void renew_context(struct compat_context *c)
{
    int *at = &c->v.context.async_fd, flags = fcntl(*at, F_GETFL);

    pthread_mutex_init(&c->v.context.mutex, NULL);
    pthread_mutex_init(&c->lock, NULL);
    c->first = c->last = NULL;
    close(*at); /* so that there is a descriptor to be had */
    int fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC | (flags & EFD_NONBLOCK));
    if (fd >= 0 && fd != *at) {
        (void)dup3(fd, *at, O_CLOEXEC);
        close(fd);
    }
    *at = fd >= 0 ? *at : -1;
}

static void after_fork_in_child(void)
{
    IWARP_UNCANCELLED;

    iwarp_compat_qp_forget_all();
    for (struct compat_context *c = contexts; c; c = c->next) {
        renew_context(c);
    }
    after_fork();
}

static void name_devices(void)
{
    const struct compat_identity *all;

    n_devices = iwarp_compat_identities(&all);
    for (unsigned i = 0; i < n_devices; i++) {
        struct ibv_device *d = &devices[i].ibv;
        *d = (struct ibv_device){.node_type = IBV_NODE_RNIC, .transport_type = IBV_TRANSPORT_IWARP};
        snprintf(d->name, sizeof d->name, "%s", all[i].name);
        snprintf(d->dev_name, sizeof d->dev_name, "%s", all[i].name);
        snprintf(d->dev_path, sizeof d->dev_path, "/sys/class/infiniband_verbs/%s", all[i].name);
        snprintf(d->ibdev_path, sizeof d->ibdev_path, "/sys/class/infiniband/%s", all[i].name);
        devices[i].ops = &not_theirs;
        devices[i].identity = &all[i];
    }
}

static void watch(void)
{
    iwarp_process_watch(); /* first, so that its handler runs with our lock held already */
    (void)pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

static void begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch);
}

/* Whose own handlers come after this run with their locks held already. */
unsigned iwarp_compat_generation(void)
{
    begin();
    return iwarp_process_generation();
}

/* lock held. */
static struct iwarp_device *open_native(void)
{
    struct iwarp_device *opened;

    if (native && native_born == iwarp_compat_generation()) {
        return native;
    }
    enum iwarp_status status = iwarp_device_open(NULL, &opened);
    if (status == IWARP_OK) {
        status = iwarp_async_deliver_by(opened, iwarp_compat_async_deliver, NULL);
    }
    if (status != IWARP_OK) {
        (void)iwarp_compat_failed("verbs", status, "opening the device");
        return NULL;
    }
    native = opened;
    native_born = iwarp_compat_generation();
    return native;
}

struct iwarp_device *iwarp_compat_device(void)
{
    IWARP_UNCANCELLED;
    begin();
    pthread_mutex_lock(&lock);
    struct iwarp_device *d = open_native();
    pthread_mutex_unlock(&lock);
    return d;
}

/* Not in `begin`, which cm_* calls with its lock held, and which is to do nothing but that. */
static void find_devices(void)
{
    IWARP_UNCANCELLED; /* files are read and sockets asked */
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    begin();
    pthread_once(&once, name_devices);
}

/* NULL: none of ours. */
static struct device *device_of(struct ibv_device *d)
{
    find_devices();
    for (unsigned i = 0; i < n_devices; i++) {
        if (d == &devices[i].ibv) {
            return &devices[i];
        }
    }
    return NULL;
}

const struct compat_identity *iwarp_compat_identity(struct ibv_device *d)
{
    struct device *device = device_of(d);

    return device ? device->identity : devices[0].identity;
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

static void release(struct compat_context *c)
{
    if (c->v.context.cmd_fd >= 0) {
        close(c->v.context.cmd_fd);
    }
    if (c->v.context.async_fd >= 0) {
        close(c->v.context.async_fd);
    }
    pthread_mutex_destroy(&c->v.context.mutex);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* lock held. */
static struct ibv_context *open_context(struct ibv_device *d)
{
    struct compat_context *c = calloc(1, sizeof *c);
    if (!c) {
        errno = ENOMEM;
        return NULL;
    }
    c->v.context.device = d;
    c->v.context.cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    c->v.context.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    c->v.context.num_comp_vectors = 1;
    pthread_mutex_init(&c->v.context.mutex, NULL);
    pthread_mutex_init(&c->lock, NULL);
    iwarp_compat_fill_operations(c);
    if (c->v.context.cmd_fd < 0 || c->v.context.async_fd < 0) {
        int error = errno;
        release(c);
        (void)iwarp_compat_refuse("verbs", error, "ibv_open_device: no descriptors: %s",
                                  strerror(error));
        return NULL;
    }
    c->next = contexts;
    c->at = &contexts;
    if (contexts) {
        contexts->at = &c->next;
    }
    contexts = c;
    return &c->v.context;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
    IWARP_UNCANCELLED;
    if (!device_of(d)) {
        (void)iwarp_compat_refuse("verbs", ENODEV, "ibv_open_device: not a device of libiwarp");
        return NULL;
    }
    pthread_mutex_lock(&lock);
    struct ibv_context *context = open_context(d);
    pthread_mutex_unlock(&lock);
    return context;
}

/* What is left of its objects keeps the memory: an event may still name them. */
int ibv_close_device(struct ibv_context *context)
{
    IWARP_UNCANCELLED;
    struct compat_context *c = compat_context(context);
    const struct device *device = device_of(context->device);

    pthread_mutex_lock(&lock);
    bool kept = (device && context == device->shared) || atomic_load(&c->users) > 0;
    if (!kept) {
        *c->at = c->next;
        if (c->next) {
            c->next->at = c->at;
        }
    }
    pthread_mutex_unlock(&lock);
    if (!kept) {
        release(c);
    }
    return 0;
}

static struct ibv_context *shared_of(struct device *device)
{
    pthread_mutex_lock(&lock);
    if (!device->shared) {
        device->shared = open_context(&device->ibv);
    }
    struct ibv_context *context = device->shared;
    pthread_mutex_unlock(&lock);
    return context;
}

struct ibv_context *iwarp_compat_shared_context(const struct sockaddr *addr)
{
    IWARP_UNCANCELLED;
    find_devices();
    return shared_of(&devices[iwarp_compat_identity_at(addr)]);
}

struct ibv_context **iwarp_compat_shared_contexts(int *n)
{
    IWARP_UNCANCELLED;
    struct ibv_context **list = calloc(COMPAT_MAX_DEVICES + 1, sizeof *list);

    find_devices();
    *n = 0;
    for (unsigned i = 0; list && i < n_devices; i++) {
        list[i] = shared_of(&devices[i]);
        if (!list[i]) {
            free(list);
            return NULL;
        }
        *n = (int)i + 1;
    }
    return list;
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
