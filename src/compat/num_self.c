/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue pair that is connected to itself. A native one cannot be: a connection has two ends. So
 * a second native queue pair, with the same completion queue and number, takes what the program
 * sends, and a connection in memory leads from it to the first one, which has the receives.
 */
#include "compat/num.h"
#include "compat/rnr.h"

static enum iwarp_status create_sender(struct compat_qp *qp, struct iwarp_qp **sender)
{
    struct iwarp_qp_info first = {.size = sizeof first};
    enum iwarp_status status = iwarp_qp_query(qp->native, &first);

    if (status != IWARP_OK) {
        return status;
    }
    first.options.srq = NULL;
    first.options.max_recv_wr = 0;
    return iwarp_qp_create(compat_pd(qp->ibv.pd)->native, &first.options, sender);
}

int num_self_connect(struct num *n)
{
    struct iwarp_conn_options o;
    struct iwarp_qp *sender = NULL;

    iwarp_conn_options_init(&o);
    o.ird = o.ord = COMPAT_MAX_RD_ATOM;
    o.send_imm = IWARP_SEND_IMM_AGREED;
    o.rnr_timeout_ms = iwarp_compat_rnr_timeout(7, n->set.min_rnr_timer); /* RTS sets rnr_retry */
    enum iwarp_status status = create_sender(n->qp, &sender);
    if (status == IWARP_OK) {
        status = iwarp_connect_pair(sender, n->qp->native, &o, NULL, &n->loop[0], &n->loop[1]);
    }
    if (status != IWARP_OK) {
        int error = iwarp_compat_failed("verbs", status, "ibv_modify_qp: a loop back");
        if (sender) {
            (void)iwarp_qp_destroy(sender);
        }
        n->loop[0] = n->loop[1] = NULL;
        return error;
    }
    n->qp->sender = sender;
    return 0;
}

/* What is posted is flushed, on both. */
void num_self_abort(struct num *n)
{
    for (int i = 0; i < 2 && n->loop[i]; i++) {
        (void)iwarp_abort(n->loop[i]);
        (void)iwarp_conn_destroy(n->loop[i]);
        n->loop[i] = NULL;
    }
}

void num_self_end(struct num *n)
{
    struct iwarp_qp *sender = n->qp->sender;

    num_self_abort(n);
    if (sender != n->qp->native) {
        n->qp->sender = n->qp->native;
        (void)iwarp_qp_destroy(sender);
    }
}
