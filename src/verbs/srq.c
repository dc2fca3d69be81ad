/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: one block of entries, each of them free, posted, or taken by a queue pair
 * until its completion is produced. Verbs 6.3.
 *
 * Streams take entries through the function pointer in wq.h, with their connections' locks held.
 * srq.lock guards the lists, and nothing is locked inside it but a worker's list of tasks. An entry
 * that is taken belongs to one stream, under its conn.lock, until iwarp_srq_give_back. in_use
 * counts entries that are posted or taken, so posting can be refused before the block is overrun;
 * `posted` counts those that are still to be taken.
 */
#include "verbs/srq.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/mutex.h"
#include "base/probe.h"
#include "base/process.h"
#include "stream/wq.h"
#include "verbs/async.h"
#include "verbs/device.h"
#include "verbs/mr.h"
#include "verbs/post.h"

#include <stdlib.h>
#include <string.h>

void iwarp_srq_options_init(struct iwarp_srq_options *options)
{
    if (!IWARP_GIVEN(options)) {
        return;
    }
    *options = (struct iwarp_srq_options){.size = sizeof *options, .max_wr = 1024, .max_sge = 4};
}

/* A limit of 0 is allowed and means no event. */
static enum iwarp_status check(const struct iwarp_srq_options *o)
{
    if (!o || o->size != sizeof *o) {
        return iwarp_fail(IWARP_MISUSE, "SRQ options: call iwarp_srq_options_init first");
    }
    if (o->max_wr < 1 || o->max_wr > IWARP_MAX_WR) {
        return iwarp_fail(IWARP_MISUSE, "SRQ options: max_wr is %u, allowed are 1 to %d", o->max_wr,
                          IWARP_MAX_WR);
    }
    if (o->max_sge < 1 || o->max_sge > IWARP_MAX_SGE) {
        return iwarp_fail(IWARP_MISUSE, "SRQ options: %u SGEs, allowed are 1 to %d", o->max_sge,
                          IWARP_MAX_SGE);
    }
    if (o->limit > o->max_wr) {
        return iwarp_fail(IWARP_MISUSE, "SRQ options: limit is %u, max_wr %u", o->limit, o->max_wr);
    }
    return IWARP_OK;
}

/*
 * Entries are named by numbers, not pointers: a list link is 4 octets, and IWARP_RQ_NONE ends it.
 */
static struct iwarp_rwqe *entry(const struct iwarp_srq *srq, uint32_t i)
{
    return (void *)(srq->mem + (size_t)i * srq->stride);
}

/*
 * The stride is a multiple of 32 octets, for alignment. Memory from calloc is not touched before
 * its entry is used for the first time (`touched`), so a large SRQ costs memory as it fills.
 */
enum iwarp_status iwarp_srq_create(struct iwarp_pd *pd, const struct iwarp_srq_options *options,
                                   struct iwarp_srq **out)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(pd) || !IWARP_GIVEN(out)) {
        return IWARP_MISUSE;
    }
    enum iwarp_status status = check(options);

    IWARP_ON_LOOP(pd->device);
    if (status != IWARP_OK) {
        return status;
    }
    size_t bytes = sizeof(struct iwarp_rwqe) + options->max_sge * sizeof(struct iwarp_sge);
    size_t stride = (bytes + 31) & ~(size_t)31;
    struct iwarp_srq *srq = iwarp_calloc(1, sizeof *srq);
    uint8_t *mem = iwarp_calloc(options->max_wr, stride);
    if (!srq || !mem) {
        free(srq);
        free(mem);
        return iwarp_fail(IWARP_NO_MEMORY, "no memory for an SRQ of %u entries", options->max_wr);
    }
    srq->pd = pd;
    srq->options = *options;
    srq->mem = mem;
    srq->stride = (uint32_t)stride;
    srq->free = srq->first = srq->last = IWARP_RQ_NONE;
    srq->limit = options->limit;
    srq->async.device = pd->device;
    iwarp_mutex_init(&srq->lock, pd->device->embedded);
    atomic_fetch_add(&pd->users, 1);
    atomic_fetch_add(&pd->device->stats.srqs, 1);
    *out = srq;
    return IWARP_OK;
}

/*
 * Without users no stream can call take(). Receives that are still posted are dropped without
 * completions.
 */
enum iwarp_status iwarp_srq_destroy(struct iwarp_srq *srq)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(srq)) {
        return IWARP_MISUSE;
    }
    unsigned users = atomic_load(&srq->users);

    IWARP_ON_LOOP(srq->pd->device);
    if (users) {
        return iwarp_fail(IWARP_MISUSE, "SRQ is still used by %u queue pairs", users);
    }
    enum iwarp_status status = iwarp_async_leave(&srq->async);
    if (status != IWARP_OK) {
        return status;
    }
    atomic_fetch_sub(&srq->pd->users, 1);
    atomic_fetch_sub(&srq->pd->device->stats.srqs, 1);
    iwarp_mutex_fini(&srq->lock);
    free(srq->mem);
    free(srq);
    return IWARP_OK;
}

void *iwarp_srq_user(const struct iwarp_srq *srq)
{
    return IWARP_GIVEN(srq) ? srq->options.user : NULL;
}

/*
 * Are fewer receives posted than the limit? The event is one-shot: the limit is then 0 until the
 * application sets it again. srq.lock held; the caller reports without it.
 */
static bool limit_reached(struct iwarp_srq *srq)
{
    bool reached = srq->posted < srq->limit;

    if (reached) {
        srq->limit = 0;
    }
    return reached;
}

/*
 * The application posts more when it is told, so a busy queue pair cannot starve the others unseen.
 * Without srq.lock, which is innermost.
 */
/* [SEC-6.4.3.1-01] [DDP-8.3.2-06] [RDMAP-8.1.2-08] */
static void report_limit(struct iwarp_srq *srq)
{
    const struct iwarp_async_event event = {
        .type = IWARP_ASYNC_SRQ_LIMIT, .srq = srq, .user = srq->options.user};

    iwarp_async_report(&srq->async, 0, &event);
}

/*
 * If fewer receives than the new limit are posted already, the event comes at once: otherwise it
 * would wait for a message, although the queue is short now.
 */
enum iwarp_status iwarp_srq_modify(struct iwarp_srq *srq, unsigned limit)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(srq)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(srq->pd->device);
    if (limit > srq->options.max_wr) {
        return iwarp_fail(IWARP_MISUSE, "SRQ limit is %u, the queue was created for %u entries",
                          limit, srq->options.max_wr);
    }
    iwarp_mutex_lock(&srq->lock);
    srq->limit = limit;
    bool tell = limit_reached(srq);
    iwarp_mutex_unlock(&srq->lock);
    if (tell) {
        report_limit(srq);
    }
    return IWARP_OK;
}

enum iwarp_status iwarp_srq_query(struct iwarp_srq *srq, struct iwarp_srq_info *info)
{
    IWARP_UNCANCELLED;
    if (!IWARP_GIVEN(srq) || !IWARP_GIVEN(info)) {
        return IWARP_MISUSE;
    }
    IWARP_ON_LOOP(srq->pd->device);
    if (info->size != sizeof *info) {
        return iwarp_fail(IWARP_MISUSE, "SRQ info: set size to sizeof(struct iwarp_srq_info)");
    }
    iwarp_mutex_lock(&srq->lock);
    *info = (struct iwarp_srq_info){.size = sizeof *info,
                                    .max_wr = srq->options.max_wr,
                                    .max_sge = srq->options.max_sge,
                                    .limit = srq->limit,
                                    .posted = srq->posted,
                                    .in_use = srq->in_use,
                                    .queue_pairs = atomic_load(&srq->users)};
    iwarp_mutex_unlock(&srq->lock);
    return IWARP_OK;
}

/* --- posting --------------------------------------------------------------------------------- */

/*
 * A free entry: one that was used before, since its memory is there already, else the next
 * untouched one. IWARP_RQ_NONE: all are in use. srq.lock held.
 */
static uint32_t take_free(struct iwarp_srq *srq)
{
    uint32_t i = srq->free;

    if (i != IWARP_RQ_NONE) {
        srq->free = entry(srq, i)->link;
    } else if (srq->touched < srq->options.max_wr) {
        i = srq->touched++;
    }
    return i;
}

/*
 * Append one receive to the posted list: receives are taken in the order in which they were posted,
 * over all queue pairs. srq.lock held.
 */
static enum iwarp_status post_one(struct iwarp_srq *srq, const struct iwarp_recv_wr *wr)
{
    enum iwarp_status status = iwarp_recv_check(wr, srq->options.max_sge, "SRQ");

    if (status != IWARP_OK) {
        return status;
    }
    uint32_t i = take_free(srq);
    if (i == IWARP_RQ_NONE) {
        return iwarp_fail(IWARP_AGAIN, "SRQ is full: %u receives are posted or being worked on",
                          srq->in_use);
    }
    struct iwarp_rwqe *w = entry(srq, i);
    iwarp_recv_fill(w, wr);
    w->link = IWARP_RQ_NONE;
    if (srq->first == IWARP_RQ_NONE) {
        srq->first = i;
    } else {
        entry(srq, srq->last)->link = i;
    }
    srq->last = i;
    srq->posted++;
    srq->in_use++;
    IWARP_PROBE2(post_srq_recv, srq, wr->wr_id);
    return IWARP_OK;
}

enum iwarp_status iwarp_srq_post_recv(struct iwarp_srq *srq, const struct iwarp_recv_wr *wr,
                                      const struct iwarp_recv_wr **bad)
{
    IWARP_UNCANCELLED;
    enum iwarp_status status = IWARP_OK;

    if (!IWARP_GIVEN(srq) || !IWARP_MAY_CALL(srq->pd->device)) {
        if (bad) {
            *bad = wr;
        }
        return IWARP_MISUSE;
    }
    iwarp_mutex_lock(&srq->lock);
    for (; wr && status == IWARP_OK; wr = status == IWARP_OK ? wr->next : wr) {
        status = post_one(srq, wr);
    }
    iwarp_srq_wake_first(srq);
    iwarp_mutex_unlock(&srq->lock);
    if (status != IWARP_OK && bad) {
        *bad = wr;
    }
    return status;
}

/* --- queue pairs ----------------------------------------------------------------------------- */

/*
 * A message begins and needs a receive. Called by a stream with its conn.lock held; see wq.h.
 * IWARP_RQ_NONE: none is posted.
 */
static uint32_t take(void *arg)
{
    struct iwarp_srq *srq = arg;

    iwarp_mutex_lock(&srq->lock);
    uint32_t i = srq->first;
    bool tell = false;
    if (i != IWARP_RQ_NONE) {
        srq->first = entry(srq, i)->link;
        srq->posted--;
        tell = limit_reached(srq);
    }
    iwarp_mutex_unlock(&srq->lock);
    if (tell) {
        report_limit(srq);
    }
    return i;
}

/*
 * The stream knows the SRQ only as a function that hands out entries: src/stream does not include
 * src/verbs.
 */
void iwarp_srq_attach(struct iwarp_srq *srq, struct iwarp_wq *rq)
{
    iwarp_rq_share(rq, srq->mem, srq->stride, srq->pd, take, srq);
    atomic_fetch_add(&srq->users, 1);
}

/* It follows from the entry's address. */
static uint32_t number_of(const struct iwarp_srq *srq, const struct iwarp_rwqe *w)
{
    return (uint32_t)((size_t)((const uint8_t *)w - srq->mem) / srq->stride);
}

/* The entry is free at once, so a caller that still needs its fields has copied them. */
void iwarp_srq_give_back(struct iwarp_srq *srq, struct iwarp_rwqe *w)
{
    uint32_t i = number_of(srq, w);

    iwarp_mutex_lock(&srq->lock);
    w->link = srq->free;
    srq->free = i;
    srq->in_use--;
    iwarp_mutex_unlock(&srq->lock);
}

/*
 * The stream has ended within a message, and its queue pair goes on: the entry is the first of all
 * again, since it was posted before those that are left.
 */
void iwarp_srq_put_back(struct iwarp_srq *srq, struct iwarp_rwqe *w)
{
    uint32_t i = number_of(srq, w);

    iwarp_mutex_lock(&srq->lock);
    w->link = srq->first;
    if (srq->first == IWARP_RQ_NONE) {
        srq->last = i;
    }
    srq->first = i;
    srq->posted++;
    iwarp_srq_wake_first(srq);
    iwarp_mutex_unlock(&srq->lock);
}

/*
 * Finished entries first, then the one that a message is being placed into. The connection has been
 * separated before, so no stream uses rq any more.
 */
void iwarp_srq_detach(struct iwarp_srq *srq, struct iwarp_wq *rq)
{
    struct iwarp_rwqe *w;

    while ((w = iwarp_rq_pop(rq)) != NULL || (w = iwarp_rq_untake(rq)) != NULL) {
        iwarp_srq_give_back(srq, w);
    }
    atomic_fetch_sub(&srq->users, 1);
}
