/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A shared receive queue.
 *
 * Life: the application creates and destroys it; it cannot be destroyed while a queue pair uses it
 * (`users`).  Its entries are one block of memory; each is free, posted, or taken by a stream.
 *
 * Lock: srq.lock guards the lists of entries.  It is innermost.  A stream works on the entry that
 * it has taken without the lock.
 */
#ifndef IWARP_VERBS_SRQ_H
#define IWARP_VERBS_SRQ_H

#include "base/mutex.h"
#include "stream/wq.h"
#include "verbs/async.h"

#include <iwarp/srq.h>

struct iwarp_srq {
    struct iwarp_pd *pd;
    struct iwarp_srq_options options;
    _Atomic unsigned users; /* queue pairs */
    struct iwarp_mutex lock;
    uint8_t *mem;         /* max_wr entries of stride octets; lists go by their numbers */
    uint32_t stride;      /* octets of an entry */
    uint32_t touched;     /* entries from here on were never used */
    uint32_t free;        /* list of entries that were used and are free */
    uint32_t first, last; /* list of posted entries */
    unsigned posted, in_use, limit;
    struct iwarp_async_source async;
};

/*
 * attach: let a queue pair receive from the SRQ through rq. detach: end that; entries that rq holds
 * are free again, without completions.
 */
void iwarp_srq_attach(struct iwarp_srq *srq, struct iwarp_wq *rq);
void iwarp_srq_detach(struct iwarp_srq *srq, struct iwarp_wq *rq);

/* An entry that a queue pair has finished is free again: its completion was copied, or it needs
 * none. */
void iwarp_srq_give_back(struct iwarp_srq *srq, struct iwarp_rwqe *w);

#endif
