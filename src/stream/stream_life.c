/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a stream: how it begins, what ends it, and what the driver should do with the TCP
 * connection. The diagram is in stream.h. RFC 5040 6.2 and 7.1, RFC 5041 6.2, RFC 5044 8.
 */
#include "stream/stream_hold.h"

#include <assert.h>

/* Allocates nothing and cannot fail: the rings for RDMA Reads grow when the first is used. */
/* [VERBS-6.2.1.2-01] */
void iwarp_stream_init(struct iwarp_stream *s, const struct iwarp_stream_config *config)
{
    *s = (struct iwarp_stream){.config = *config, .life = STREAM_RUNNING};
    iwarp_ddp_rx_init(&s->ddp, config->regions, config->pd, config->qp);
    s->ddp.denied = config->denied;
    s->hold.room = config->hold;
    s->tx.send_msn = s->tx.read_msn = s->tx.atomic_msn = 1; /* RFC 5041 4.3 */
    iwarp_rdmap_reads_init(&s->reads, config->ird, config->ord);
}

/*
 * Give back what receiving holds. A fault may be found within feed, so lends of the current batch
 * can be there; feed settles its empty list once more when it returns.
 */
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
    iwarp_stream_unhold(s);
    iwarp_hold_clear(s);
}

void iwarp_stream_fini(struct iwarp_stream *s)
{
    rx_release(s);
    iwarp_stream_tx_fini(s);
    iwarp_stream_forget(s);
    iwarp_rdmap_reads_fini(&s->reads);
}

/* From here on the stream holds no buffers and no lends. */
static void end(struct iwarp_stream *s, bool with_reset)
{
    s->life = STREAM_ENDED;
    s->abort = with_reset;
    rx_release(s);
    iwarp_stream_tx_fini(s);
}

/*
 * A Terminate goes out if the fault's row demands one and this end may send at all: a responder may
 * not before it has received a valid FPDU (RFC 5044 7.1.2 rule 4), neither end may send two, and
 * nothing follows a FIN. Without a Terminate TCP is reset, unless the peer found the fault: then
 * the peer has closed or terminated already.
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

/*
 * RFC 5041 6.2.1: requests posted before this moment are sent, later ones are not, and the peer may
 * go on until its own FIN. The verbs draft (6.2.5) demands a reset if anything is in flight or
 * arrives, but a reset would destroy the octets that this end has sent last.
 */
/* [DDP-6.2-01] [DDP-6.2.1-01] [DDP-6.2.1-02] [DDP-6.2.1-06] */
static void begin_closing(struct iwarp_stream *s)
{
    if (s->life == STREAM_RUNNING) {
        s->sq_end = iwarp_wq_head(s->config.sq);
        s->life = STREAM_CLOSING;
    }
}

/* `done` also stays behind for a request that is sent and waits for the transport or a response. */
bool iwarp_stream_busy(struct iwarp_stream *s)
{
    return s->config.sq->done != iwarp_stream_sq_end(s) || s->reads.in_count > 0;
}

/* Requests that are not sent whole, or wait for a response.  What only waits to be acknowledged
 * will arrive: the peer reads on until this end's FIN. */
static bool has_unfinished(struct iwarp_stream *s)
{
    struct iwarp_wq *sq = s->config.sq;

    for (uint32_t i = sq->done; i != iwarp_stream_sq_end(s); i++) {
        const struct iwarp_swqe *w = iwarp_sq_at(sq, i);
        if (i == sq->next ||
            (iwarp_swqe_has_response(w) ? !w->response_done : s->tx.sent < w->end_pos)) {
            return true;
        }
    }
    return false;
}

/*
 * RFC 5041 6.2, verbs draft 6.2: a FIN is an orderly close if nothing is unfinished: no request of
 * either end, no FPDU, no message of several segments. Otherwise the peer gets a Terminate
 * (0/2/07); it can receive one, since its FIN closed the other direction only. Messages that still
 * wait for their receives keep the stream from its end (interest), but not this end's FIN.
 */
/* [VERBS-6.2.2-01] */
static void peer_closed(struct iwarp_stream *s)
{
    uint32_t partial =
        s->rx.state == RX_HEAD ? s->rx.head_len : (uint32_t)(s->rx.pos - s->rx.fpdu_pos);

    bool mid_message = s->rx.open || s->ddp.mo[IWARP_DDP_QN_SEND] > 0; /* its last never came */

    bool whole = partial == 0 && !mid_message && !has_unfinished(s);
    if (whole && s->reads.in_count == 0) {
        begin_closing(s);
        return;
    }
    if (whole && s->life == STREAM_CLOSING && s->config.sq->done == iwarp_stream_sq_end(s)) {
        end(s, true); /* only the peer's own Reads are unfinished, and nobody waits for them */
        return;
    }
    iwarp_fault_set(&s->fault, IWARP_FAULT_RDMAP_PEER_CLOSED, IWARP_SIDE_PEER,
                    iwarp_stream_sq_end(s) - s->config.sq->done, s->reads.in_count, partial);
    iwarp_stream_fail(s);
}

/* The call of interest at the end takes a stream that has sent everything to ENDED right away. */
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

/* The application itself posts no more receives, so messages that wait for one, and those that will
 * come, are dropped: the end does not wait for them. */
void iwarp_stream_close(struct iwarp_stream *s)
{
    if (s->life == STREAM_RUNNING || s->life == STREAM_CLOSING) {
        begin_closing(s);
        s->hold.closed = true;
        iwarp_hold_clear(s);
    }
}

/*
 * Is the ready-to-receive message unsent, or an RDMA Read with this role unanswered? It is no
 * request of the user, so iwarp_stream_busy does not see it. But a FIN before the response would
 * leave the peer with a Read that it cannot finish. After the peer's FIN no response can come.
 */
static bool start_unfinished(const struct iwarp_stream *s)
{
    const struct iwarp_rdmap_reads *r = &s->reads;

    return !s->eof &&
           (s->config.rtr != STREAM_RTR_NONE || (r->out_count > 0 && r->out[r->out_head].rtr));
}

/* Will nothing be sent any more? True means that the driver may half-close. */
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

/* After this call the stream touches no work queue: the caller may free them. */
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

/*
 * Two steps of `life` happen here, since both wait for the transport and no other call comes at
 * that moment: TERMINATING to DRAINING once the Terminate is sent, and the end once all is sent and
 * the peer's FIN is there. Until then each call reports SHUTDOWN; `shut` remembers that one has.
 */
unsigned iwarp_stream_interest(struct iwarp_stream *s)
{
    unsigned interest = 0;

    if (tx_finished(s)) {
        if (s->life == STREAM_TERMINATING) {
            s->life = STREAM_DRAINING;
        }
        if (s->eof && s->life != STREAM_ENDED && !s->hold.first) {
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
    assert(!s->hold.first || s->life == STREAM_RUNNING || s->life == STREAM_CLOSING);
    assert((s->hold.first == NULL) == (s->hold.octets == 0));
    assert(s->life != STREAM_TERMINATING || s->fault.code != IWARP_FAULT_NONE);
    assert(sq->next - sq->done <= iwarp_wq_head(s->config.sq) - sq->done);
    assert(s->tx.released <= s->tx.sent && s->tx.sent <= s->tx.framed);
    assert(s->reads.in_count <= s->reads.in_slots && s->reads.in_slots <= s->reads.ird);
    assert(s->reads.out_count <= s->reads.out_slots && s->reads.out_slots <= s->reads.ord);
    (void)sq;
}
