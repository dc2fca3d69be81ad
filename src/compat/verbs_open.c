/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contexts: open, close, share between ids (one per device, which is never closed), and renew in a
 * forked child. Opening fills in the table of operations (verbs_context.c), so this file is above
 * all files whose functions are in it.
 */
#include "base/process.h"
#include "compat/compat.h"
#include "compat/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct compat_context *contexts; /* open ones; this and `shared` under iwarp_compat_hold */
static struct ibv_context *shared[COMPAT_MAX_DEVICES]; /* of each device; kept over forks */

/* In a forked child: with one descriptor, parent and child would take events from one another, and
 * a thread of the parent may have held a lock. The number of the descriptor stays, as the program
 * may have stored it. */
static void renew_context(struct compat_context *c)
{
    int *at = &c->v.context.async_fd, flags = fcntl(*at, F_GETFL);

    pthread_mutex_init(&c->v.context.mutex, NULL);
    pthread_mutex_init(&c->lock, NULL);
    c->first = c->last = NULL;
    close(*at); /* first, so that eventfd cannot fail for want of a descriptor */
    int fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC | (flags & EFD_NONBLOCK));
    if (fd >= 0 && fd != *at) {
        (void)dup3(fd, *at, O_CLOEXEC);
        close(fd);
    }
    *at = fd >= 0 ? *at : -1;
}

static void renew_all(void)
{
    iwarp_compat_qp_forget_all();
    iwarp_num_forget_all();
    for (struct compat_context *c = contexts; c; c = c->next) {
        renew_context(c);
    }
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

/* The lock is held. */
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
    iwarp_compat_renew_in_child(renew_all);
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
    if (iwarp_compat_device_index(d) < 0) {
        (void)iwarp_compat_refuse("verbs", ENODEV, "ibv_open_device: not a device of libiwarp");
        return NULL;
    }
    iwarp_compat_hold();
    struct ibv_context *context = open_context(d);
    iwarp_compat_release();
    return context;
}

/* A context with objects left, or shared by ids, is kept: objects and events point to it. */
int ibv_close_device(struct ibv_context *context)
{
    IWARP_UNCANCELLED;
    struct compat_context *c = compat_context(context);
    const int device = iwarp_compat_device_index(context->device);

    iwarp_compat_hold();
    bool kept = (device >= 0 && context == shared[device]) || atomic_load(&c->users) > 0;
    if (!kept) {
        *c->at = c->next;
        if (c->next) {
            c->next->at = c->at;
        }
    }
    iwarp_compat_release();
    if (!kept) {
        release(c);
    }
    return 0;
}

static struct ibv_context *shared_of(unsigned device)
{
    struct ibv_device *d = iwarp_compat_device_at(device);

    iwarp_compat_hold();
    if (!shared[device]) {
        shared[device] = open_context(d);
    }
    struct ibv_context *context = shared[device];
    iwarp_compat_release();
    return context;
}

struct ibv_context *iwarp_compat_shared_context(const struct sockaddr *addr)
{
    IWARP_UNCANCELLED;
    return shared_of(iwarp_compat_identity_at(addr));
}

struct ibv_context **iwarp_compat_shared_contexts(int *n)
{
    IWARP_UNCANCELLED;
    struct ibv_context **list = calloc(COMPAT_MAX_DEVICES + 1, sizeof *list);

    *n = 0;
    for (unsigned i = 0; list && iwarp_compat_device_at(i); i++) {
        list[i] = shared_of(i);
        if (!list[i]) {
            free(list);
            return NULL;
        }
        *n = (int)i + 1;
    }
    return list;
}
