/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events: a queue for each device, and a source in each object that has events.
 *
 * Life: the queue is part of its device.  A source is part of its object, with a place for each
 * kind of event of the object, so that a report allocates nothing and cannot fail.  The object is
 * destroyed only if the application has acknowledged all events that it has taken.
 *
 * Lock: async.lock guards the list, and all sources of the device.  It is innermost.
 */
#ifndef IWARP_VERBS_ASYNC_H
#define IWARP_VERBS_ASYNC_H

#include "base/mutex.h"

#include <iwarp/async.h>

#define IWARP_ASYNC_SLOTS 2 /* kinds of events that one object has */

struct iwarp_async_source;

struct iwarp_async_node {
    struct iwarp_async_event event;
    struct iwarp_async_source *source;
    struct iwarp_async_node *prev, *next;
    bool queued;
};

struct iwarp_async_source {
    struct iwarp_device *device;
    unsigned unacked; /* events that the application has taken and not acknowledged */
    bool gone;        /* the object is being destroyed, and reports nothing any more */
    struct iwarp_async_node node[IWARP_ASYNC_SLOTS];
};

struct iwarp_async_queue {
    struct iwarp_mutex lock;
    struct iwarp_async_node *first, *last;
    void (*deliver)(const struct iwarp_async_event *event, void *arg); /* instead of the list */
    void *arg;
    int fd;
};

/*
 * no_locks: embedded progress, where one thread makes all calls.  False: the system has no
 * descriptor; the caller calls iwarp_async_fini all the same.
 */
bool iwarp_async_init(struct iwarp_async_queue *q, bool no_locks);
void iwarp_async_fini(struct iwarp_async_queue *q);

/*
 * Queue an event, or put it in the place of an earlier one of the same slot that the application
 * has not seen: that one may be of a connection that the queue pair had before.  Any thread; takes
 * async.lock.
 */
void iwarp_async_report(struct iwarp_async_source *source, unsigned slot,
                        const struct iwarp_async_event *event);

/* The object is about to be destroyed: its events are removed.  AGAIN: the application has not
 * acknowledged all of them, and nothing has changed. */
enum iwarp_status iwarp_async_leave(struct iwarp_async_source *source);

#endif
