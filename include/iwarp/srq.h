/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: receives that several queue pairs take from, in the order in which they
 * were posted, one when a message begins. draft-hilland-rddp-verbs-00 6.3.
 *
 * Completions go to the receive CQ of the queue pair that took the entry, in the order of its
 * peer's Sends. A message that finds the queue empty ends its stream as with a receive queue of its
 * own (RFC 5041 7.2, Terminate 1/2/02). When a stream ends, the entry that it has taken is flushed.
 * The event IWARP_ASYNC_QP_LAST_WQE then says that its queue pair takes no further entry; it also
 * comes when a queue pair goes to ERROR that was never connected. All other entries stay for other
 * queue pairs. If the queue pair goes on (keep_qp in conn.h), there is no event, and the entry is
 * the first of the posted ones again.
 *
 * Threads: as verbs.h; posting is safe from any thread.
 */
#ifndef IWARP_SRQ_H
#define IWARP_SRQ_H

#include <iwarp/verbs.h>

IWARP_BEGIN_DECLS

struct iwarp_srq_options {
    size_t size;      /* set by init */
    unsigned max_wr;  /* entries posted or being worked on, 1 to 65536; default 1024 */
    unsigned max_sge; /* per entry, 1 to 32; default 4 */
    unsigned limit;   /* see iwarp_srq_modify; default 0 */
    void *user;
};

/* Set *options to the defaults. */
IWARP_API void iwarp_srq_options_init(struct iwarp_srq_options *options);

/*
 * Create a queue in pd. The lkeys of its receives belong to pd; the queue pairs may be in other
 * domains of the same device. options are copied. MISUSE: an option is out of its bounds.
 * NO_MEMORY.
 */
IWARP_API enum iwarp_status iwarp_srq_create(struct iwarp_pd *pd,
                                             const struct iwarp_srq_options *options,
                                             struct iwarp_srq **srq);

/*
 * Destroy a queue; what is still posted is released without completions. MISUSE: a queue pair uses
 * it. AGAIN: an event of it was taken and is not acknowledged (async.h).
 */
IWARP_API enum iwarp_status iwarp_srq_destroy(struct iwarp_srq *srq);

/* Return the pointer of the options. */
IWARP_API void *iwarp_srq_user(const struct iwarp_srq *srq);

/*
 * Request one IWARP_ASYNC_SRQ_LIMIT event when fewer than `limit` receives are posted; it is
 * reported at once if fewer are posted already. 0 cancels the request. The limit is the one thing
 * about an SRQ that can be changed. MISUSE: limit is more than max_wr.
 */
IWARP_API enum iwarp_status iwarp_srq_modify(struct iwarp_srq *srq, unsigned limit);

struct iwarp_srq_info {
    size_t size;              /* set by the caller to sizeof(struct iwarp_srq_info) */
    unsigned max_wr, max_sge; /* as created */
    unsigned limit;           /* 0: none, or reached already */
    unsigned posted;          /* receives that no queue pair has taken */
    unsigned in_use;          /* posted, or taken and not completed */
    unsigned queue_pairs;     /* attached */
};

/* Fill in *info, whose size the caller has set, with values of one moment. MISUSE: another size. */
IWARP_API enum iwarp_status iwarp_srq_query(struct iwarp_srq *srq, struct iwarp_srq_info *info);

/*
 * Post a chain of receives, which are copied. The call stops at the first that cannot be posted,
 * returns its status and sets *bad to it (bad may be NULL); those before it are posted. Any thread.
 * AGAIN: max_wr entries are posted or being worked on. MISUSE: a receive has too many SGEs, or
 * sg_list is NULL and num_sge is not 0.
 */
IWARP_API enum iwarp_status iwarp_srq_post_recv(struct iwarp_srq *srq,
                                                const struct iwarp_recv_wr *wr,
                                                const struct iwarp_recv_wr **bad);

IWARP_END_DECLS

#endif
