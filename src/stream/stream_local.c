/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that change what an STag stands for and send nothing: registering, binding,
 * invalidating. They are carried out in send queue order and before any later request (verbs
 * draft 8.2.2.1), and complete in order with the rest. stream_next.c says when it is their turn;
 * their checks, and the change itself, are in ddp_bind.c.
 */
#include "stream/stream.h"

struct iwarp_binder iwarp_stream_binder(const struct iwarp_stream *s)
{
    return (struct iwarp_binder){s->config.regions, s->config.pd, s->config.qp};
}

/*
 * end_pos is what is framed by now, as if the request were a message without octets: it completes
 * behind all requests before it, and at once if these are released already.
 */
/* [VERBS-8.2.2.1-03] */
bool iwarp_stream_local_do(struct iwarp_stream *s, struct iwarp_swqe *w)
{
    const struct iwarp_binder who = iwarp_stream_binder(s);
    bool good;

    if (w->opcode == IWARP_WR_REG_MR) {
        good = iwarp_bind_region(&who, iwarp_swqe_binding(w), &s->fault);
    } else if (w->opcode == IWARP_WR_BIND_MW) {
        good = iwarp_bind_window(&who, iwarp_swqe_binding(w), &s->fault);
    } else {
        good = iwarp_bind_invalidate(&who, w->invalidate_stag, &s->fault);
    }
    if (!good) {
        w->status = IWARP_WC_LOCAL_BIND;
        return false;
    }
    w->end_pos = s->tx.framed;
    s->config.sq->next++;
    iwarp_sq_retire(s->config.sq, s->tx.released);
    return true;
}

/*
 * Verbs draft 8.2.2.1: the STag becomes invalid after the response is placed and before the Read
 * completes. The lends of this batch are settled first: the change waits until nobody has the
 * region lent, and would wait for this thread.
 */
bool iwarp_stream_invalidate_sink(struct iwarp_stream *s, struct iwarp_swqe *w)
{
    const struct iwarp_binder who = iwarp_stream_binder(s);

    iwarp_lends_settle(s->ddp.lends);
    if (iwarp_bind_invalidate(&who, w->sgl[0].lkey, &s->fault)) {
        return true;
    }
    w->status = IWARP_WC_LOCAL_BIND;
    return false;
}
