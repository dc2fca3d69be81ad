/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An event queue: events of connections and listeners.
 *
 * Life: the application creates and destroys it; it cannot be destroyed while a listener or a
 * connection with a handle reports to it (`users`).  An event lies in its connection, so that a
 * report allocates nothing and cannot fail.
 *
 * Lock: eq.lock guards the list.  It is innermost.
 */
#ifndef IWARP_VERBS_EQ_H
#define IWARP_VERBS_EQ_H

#include "base/mutex.h"

#include <iwarp/conn.h>
#include <stdatomic.h>

struct iwarp_worker;

struct iwarp_event_node {
    struct iwarp_event event;
    struct iwarp_event_node *next, **at; /* at NULL: not queued */
};

struct iwarp_eq {
    struct iwarp_device *device;
    struct iwarp_mutex lock;
    struct iwarp_event_node *first, **last;
    int fd;
    void (*notify)(void *arg); /* instead of fd, if not NULL; constant once there are users */
    void *notify_arg;
    _Atomic unsigned users;
    _Atomic uint64_t workers; /* as of a completion queue */
};

/* A listener or connection of this worker will report to it. */
void iwarp_eq_use(struct iwarp_eq *eq, const struct iwarp_worker *w);

/*
 * Append an event.  Any thread, with the connection's lock held.  The node must not be queued
 * already: a caller that reports again removes it first.
 */
void iwarp_eq_push(struct iwarp_eq *eq, struct iwarp_event_node *node);

/*
 * Take an event back, before it changes or its connection is freed.  True: the application had not
 * taken it yet.
 */
bool iwarp_eq_remove(struct iwarp_eq *eq, struct iwarp_event_node *node);

#endif
