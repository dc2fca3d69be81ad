/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device: the root of all objects.
 *
 * Life: iwarp_device_open creates it, and iwarp_device_close refuses while the application still
 * has a handle of one of its objects.  With embedded progress the memory stays until the loop has
 * closed the library's handles (iwarp_device_maybe_free).
 *
 * Lock: device.lock guards the list of connections, the list of listeners, the pool of regions and
 * changes of the STag table.  Only a loop's lease.run is taken before it (docs/locks.md).  Counters
 * are atomic; what the options say is constant.
 */
#ifndef IWARP_VERBS_DEVICE_H
#define IWARP_VERBS_DEVICE_H

#include "base/budget.h"
#include "base/mutex.h"
#include "base/process.h"
#include "ddp/ddp_region.h"
#include "tls/tls.h"
#include "verbs/async.h"
#include "verbs/crowd.h"
#include "verbs/stats.h"
#include "verbs/worker.h"

#include <iwarp/device.h>

struct iwarp_device {
    struct iwarp_device_options options;
    bool embedded, polled;  /* options.progress, in the form that is asked most often */
    bool rfc7306;           /* options.rfc7306 */
    bool copies;            /* IWARP_COPY_PAYLOAD */
    bool simulated;         /* embedded, in virtual time: src/sim */
    bool closing;           /* embedded: closed, and waits for the loop to close the handles */
    _Atomic unsigned dying; /* embedded: listeners whose handles are not closed yet */
    struct iwarp_mutex lock;
    struct iwarp_region_table regions;
    struct iwarp_mr *free_mr;      /* unused entries of the chunks */
    struct iwarp_mr_chunk *chunks; /* memory of regions; freed with the device: ddp_region.h */
    unsigned mr_count;             /* regions and windows that exist */
    uint8_t random[256];           /* for STags */
    unsigned random_left;          /* octets of `random` that are not used yet */
    struct iwarp_budget budget;    /* max_buffer_bytes, and how much is in use */
    struct iwarp_async_queue async;
    struct iwarp_device_counts stats;
    struct iwarp_stack *stack;       /* what makes its connections of TCP */
    struct iwarp_capture *capture;   /* NULL: nothing is recorded */
    struct iwarp_injector *injector; /* faults on request; NULL: none */
    struct iwarp_conn *conns;        /* all connections */
    struct iwarp_listener *listening;
    unsigned conn_count;
    struct iwarp_crowd startups;    /* inbound start-ups, and rejected peers that have not closed */
    _Atomic unsigned leaving;       /* connections turned away, and not ended by their worker yet */
    struct iwarp_sleepers sleepers; /* completion queues that are armed */
    _Atomic unsigned pauses;        /* how often a thread has armed a queue or waited: spin.h */
    _Atomic unsigned pds, cqs, eqs, listeners;
    _Atomic uint32_t next_qp_num;
    _Atomic unsigned next_worker;
    struct iwarp_device *metrics_next; /* metrics.c, under its lock */
    bool in_metrics;
    uint64_t serial;            /* unique among all devices of this process */
    unsigned generation;        /* of the process that opened it: base/process.h */
    _Atomic unsigned deferring; /* connections that have deferred requests: defer.h */
    unsigned workers;
    struct iwarp_tls_store tls_store;
    struct iwarp_tls_context *tls; /* of connections that say nothing; NULL: they are plain */
    struct iwarp_worker worker[];
};

/* --- may this thread use it? ----------------------------------------------------------------- */

/*
 * May this thread use what belongs to the device?  Not after a fork, in the child, where locks may
 * be held for ever; and not with embedded progress on any other thread than the loop's.
 * iwarp_last_error gives the reason.  is_ours checks the first half only.
 */
bool iwarp_device_usable(const struct iwarp_device *device);
bool iwarp_device_is_ours(const struct iwarp_device *device);

/* Usable by any thread: the common case, at the cost of two comparisons. */
static inline bool iwarp_device_is_plain(const struct iwarp_device *device)
{
    return device && !device->embedded && device->generation == iwarp_process_generation();
}

/* First lines of public functions, before any lock. */
#define IWARP_MAY_CALL(device) (iwarp_device_is_plain(device) || iwarp_device_usable(device))
#define IWARP_ON_LOOP(device)                                                                      \
    do {                                                                                           \
        if (!IWARP_MAY_CALL(device)) {                                                             \
            return IWARP_MISUSE;                                                                   \
        }                                                                                          \
    } while (0)

/* --- its workers ----------------------------------------------------------------------------- */

#define IWARP_EVERY_WORKER UINT64_MAX /* a set of workers has a bit for each */

/* The workers that a queue has been used with so far; if there are none, all of them. */
static inline uint64_t iwarp_workers_of(const _Atomic uint64_t *queue)
{
    uint64_t workers = atomic_load_explicit(queue, memory_order_relaxed);

    return workers ? workers : IWARP_EVERY_WORKER;
}

static inline void iwarp_workers_add(_Atomic uint64_t *queue, const struct iwarp_worker *w)
{
    atomic_fetch_or(queue, (uint64_t)1 << (w - w->device->worker));
}

/* wanted: as in the connection options.  NULL: there is no such worker, MISUSE. */
struct iwarp_worker *iwarp_device_pick_worker(struct iwarp_device *device, unsigned wanted);

/*
 * As iwarp_device_open; but in virtual time, with a stack whose memory stays the caller's.
 */
struct iwarp_stack;
enum iwarp_status iwarp_device_open_on(const struct iwarp_device_options *options,
                                       struct iwarp_stack *stack, struct iwarp_device **device);

/* Embedded, on the loop's thread: free a closed device as soon as nothing is left of it. */
void iwarp_device_maybe_free(struct iwarp_device *device);

#endif
