/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a stream: how it begins, what ends it, and what the driver should do with the TCP
 * connection. The diagram is in stream.h. RFC 5040 6.2 and 7.1, RFC 5041 6.2, RFC 5044 8.
 */
#include "stream/stream.h"

#include <assert.h>

/* [VERBS-6.2.1.2-01] */
void iwarp_stream_init(struct iwarp_stream *s, const struct iwarp_stream_config *config)
{
    *s = (struct iwarp_stream){.config = *config, .life = STREAM_RUNNING};
    iwarp_ddp_rx_init(&s->ddp, config->regions, config->pd, config->qp);
    s->ddp.denied = config->denied;
    s->tx.send_msn = s->tx.read_msn = s->tx.atomic_msn = 1; /* RFC 5041 4.3 */
    iwarp_rdmap_reads_init(&s->reads, config->ird, config->ord);
}

static void rx_release(struct iwarp_stream *s)
{
    if (s->ddp.lends) {
        iwarp_lends_settle(s->ddp.lends);
    }
    if (s->rx.carry) {
        iwarp_budget_free(s->config.budget, s->rx.carry, s->rx.fpdu_len);
        s->rx.carry = NULL;
    }
    s->rx.state = RX_HEAD;
    s->rx.head_len = 0;
}

void iwarp_stream_fini(struct iwarp_stream *s)
{
    rx_release(s);
    iwarp_stream_tx_fini(s);
    iwarp_rdmap_reads_fini(&s->reads);
}

static void end(struct iwarp_stream *s, bool with_reset)
{
    s->life = STREAM_ENDED;
    s->abort = with_reset;
    rx_release(s);
    iwarp_stream_tx_fini(s);
}

/*
 * A Terminate goes out if the row owes one and this end may send at all: the responder may not
 * before it has received a valid FPDU (RFC 5044 7.1.2 rule 4), nobody may twice or behind a FIN.
 */
/* [MPA-8-08] [DDP-6.2.2-04] [VERBS-8.3.2-01] */
void iwarp_stream_fail(struct iwarp_stream *s)
{
    assert(s->fault.code != IWARP_FAULT_NONE);
    if (s->life == STREAM_TERMINATING || s->life == STREAM_DRAINING || s->life == STREAM_ENDED) {
        return;
    }
    s->fault.rx_pos = s->rx.pos;
    rx_release(s);
    if (iwarp_fault_row(s->fault.code)->layer < 0 || s->config.hold_tx || s->shut) {
        end(s, s->fault.side != IWARP_SIDE_PEER);
    } else {
        s->life = STREAM_TERMINATING;
    }
}

void iwarp_stream_kill(struct iwarp_stream *s, enum iwarp_fault_code code,
                       enum iwarp_fault_side side, uint64_t detail)
{
    if (s->life == STREAM_ENDED) {
        return;
    }
    if (s->fault.code == IWARP_FAULT_NONE) {
        iwarp_fault_set(&s->fault, code, side, detail, 0, 0);
        s->fault.rx_pos = s->rx.pos;
    }
    end(s, true);
}

bool iwarp_stream_busy(struct iwarp_stream *s)
{
    return s->config.sq->done != iwarp_stream_sq_end(s) || s->reads.in_count > 0;
}

/*
 * RFC 5041 6.2, verbs 6.2: a FIN while nothing is unfinished is an orderly close; otherwise the
 * peer is told (0/2/07), which works as its other direction may still be open.
 */
/* [VERBS-6.2.2-01] */
static void peer_closed(struct iwarp_stream *s)
{
    uint32_t partial =
        s->rx.state == RX_HEAD ? s->rx.head_len : (uint32_t)(s->rx.pos - s->rx.fpdu_pos);

    bool mid_message = s->ddp.mo[IWARP_DDP_QN_SEND] > 0; /* its last segment never came */

    if (!iwarp_stream_busy(s) && partial == 0 && !mid_message) {
        if (s->life == STREAM_RUNNING) {
            iwarp_stream_close(s);
        }
        return;
    }
    if (s->life == STREAM_CLOSING && partial == 0 && !mid_message &&
        s->config.sq->done == iwarp_stream_sq_end(s)) {
        end(s, true); /* only the peer's own Reads are unfinished, and nobody waits for them */
        return;
    }
    iwarp_fault_set(&s->fault, IWARP_FAULT_RDMAP_PEER_CLOSED, IWARP_SIDE_PEER,
                    iwarp_stream_sq_end(s) - s->config.sq->done, s->reads.in_count, partial);
    iwarp_stream_fail(s);
}

/* [DDP-3-10] [DDP-6.2.1-05] */
void iwarp_stream_eof(struct iwarp_stream *s, int error)
{
    if (s->life == STREAM_ENDED) {
        return;
    }
    if (error) {
        iwarp_stream_kill(s, IWARP_FAULT_TCP_LOST, IWARP_SIDE_TRANSPORT, (uint64_t)error);
        return;
    }
    s->eof = true;
    if (s->life == STREAM_RUNNING || s->life == STREAM_CLOSING) {
        peer_closed(s);
    }
    (void)iwarp_stream_interest(s);
}

/*
 * RFC 5041 6.2.1: requests posted before go out, requests posted from now on do not, and the peer
 * may go on until its own FIN. The verbs draft (6.2.5) would reset if anything is under way or
 * comes, which would destroy the octets that this end has sent last.
 */
/* [DDP-6.2-01] [DDP-6.2.1-01] [DDP-6.2.1-02] [DDP-6.2.1-06] */
void iwarp_stream_close(struct iwarp_stream *s)
{
    if (s->life == STREAM_RUNNING) {
        s->sq_end = iwarp_wq_head(s->config.sq);
        s->life = STREAM_CLOSING;
    }
}

/*
 * The ready-to-receive message is no work of the user's, but a FIN before the answer to an RDMA
 * Read would leave the peer with a Read that it cannot finish. After its FIN no answer can come.
 */
static bool start_unfinished(const struct iwarp_stream *s)
{
    const struct iwarp_rdmap_reads *r = &s->reads;

    return !s->eof &&
           (s->config.rtr != STREAM_RTR_NONE || (r->out_count > 0 && r->out[r->out_head].rtr));
}

/* Nothing more will ever be sent. */
static bool tx_finished(struct iwarp_stream *s)
{
    if (s->life == STREAM_RUNNING || !iwarp_stream_drained(s)) {
        return false;
    }
    switch (s->life) {
    case STREAM_RUNNING:
    case STREAM_CLOSING:
        return s->shut || (!iwarp_stream_busy(s) && !start_unfinished(s));
    case STREAM_TERMINATING:
        return s->tx.terminate_framed;
    case STREAM_DRAINING:
    case STREAM_ENDED:
        return true;
    }
    return true;
}

void iwarp_stream_detach(struct iwarp_stream *s)
{
    if (s->life == STREAM_CLOSING && iwarp_stream_drained(s) &&
        (s->shut || !iwarp_stream_busy(s))) {
        rx_release(s);
        s->life = STREAM_DRAINING;
    } else if (s->life == STREAM_RUNNING || s->life == STREAM_CLOSING) {
        iwarp_stream_kill(s, IWARP_FAULT_LOCAL_ABORT, IWARP_SIDE_LOCAL, 0);
    }
}

unsigned iwarp_stream_interest(struct iwarp_stream *s)
{
    unsigned interest = 0;

    if (tx_finished(s)) {
        if (s->life == STREAM_TERMINATING) {
            s->life = STREAM_DRAINING;
        }
        if (s->eof && s->life != STREAM_ENDED) {
            end(s, false);
        }
        s->shut = s->shut || s->life != STREAM_ENDED;
        interest = IWARP_STREAM_SHUTDOWN;
    }
    if (s->life == STREAM_ENDED) {
        return 0;
    }
    if (!iwarp_stream_drained(s) || iwarp_stream_tx_waits(s)) {
        interest |= IWARP_STREAM_WRITE;
    }
    return interest;
}

void iwarp_stream_check(struct iwarp_stream *s)
{
    const struct iwarp_wq *sq = s->config.sq;

    assert((s->rx.carry != NULL) == (s->rx.state == RX_CARRY));
    assert(s->rx.state != RX_CARRY || s->rx.carry_len < s->rx.fpdu_len);
    assert(s->rx.state != RX_PAYLOAD || s->rx.payload_done < s->rx.payload_len);
    assert(!s->ddp.lends);
    assert(s->life != STREAM_TERMINATING || s->fault.code != IWARP_FAULT_NONE);
    assert(sq->next - sq->done <= iwarp_wq_head(s->config.sq) - sq->done);
    assert(s->tx.released <= s->tx.sent && s->tx.sent <= s->tx.framed);
    assert(s->reads.in_count <= s->reads.in_slots && s->reads.in_slots <= s->reads.ird);
    assert(s->reads.out_count <= s->reads.out_slots && s->reads.out_slots <= s->reads.ord);
    (void)sq;
}
