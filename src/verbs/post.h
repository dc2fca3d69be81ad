/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests on their way into a work queue (post.c, post_memory.c).  No object of its own. */
#ifndef IWARP_VERBS_POST_H
#define IWARP_VERBS_POST_H

#include "stream/wq.h"

#include <iwarp/verbs.h>

/*
 * For both kinds of receive queue. check: is the request right?  `queue` names the queue in the
 * message. fill: write it into an entry, which the caller owns (post_lock or srq.lock held).
 */
enum iwarp_status iwarp_recv_check(const struct iwarp_recv_wr *wr, unsigned max_sge,
                                   const char *queue);
void iwarp_recv_fill(struct iwarp_rwqe *w, const struct iwarp_recv_wr *wr);

/* Requests that change what an STag stands for.  undo: the request is not posted after all.  All
 * with qp.post_lock held. */
enum iwarp_status iwarp_post_memory_check(const struct iwarp_qp *qp,
                                          const struct iwarp_send_wr *wr);
void iwarp_post_memory_fill(const struct iwarp_qp *qp, const struct iwarp_send_wr *wr,
                            struct iwarp_swqe *w);
void iwarp_post_memory_undo(const struct iwarp_swqe *w);

#endif
