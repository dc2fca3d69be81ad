/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a stream sends next: the rule alone, which changes nothing. Three places ask: stream_tx.c
 * before each FPDU, stream_life.c for what the driver should watch, and the driver itself. They
 * must agree, and so have one rule: the driver of a stream that waits to send, and then frames
 * nothing, would call it for ever.
 */
#include "stream/stream_block.h"

/*
 * May the next request, a local one, be carried out? One that makes an STag invalid waits until all
 * octets framed are sent, for two reasons: a Send and the invalidation of its buffer may be posted
 * together; and the change waits until nobody has the region lent, so this stream must not, or it
 * would wait for itself. With a fence a local request waits for all earlier requests, RDMA Reads
 * among them (verbs draft 8.2.2.2).
 */
/* [VERBS-8.2.2.2-02] */
static bool local_ready(const struct iwarp_stream *s, const struct iwarp_swqe *w)
{
    if ((w->flags & IWARP_WR_FENCE) && s->config.sq->done != s->config.sq->next) {
        return false;
    }
    return w->opcode == IWARP_WR_REG_MR || iwarp_stream_drained(s);
}

/* Can the next send request begin, or go on? RFC 5040 6.1 (ORD), verbs 8.2.2 (read fence). */
/* [RDMAP-6.1-03] [RDMAP-6.1-05] [VERBS-6.5-01] [VERBS-8.2.2-06] [VERBS-8.2.2.2-01] */
static bool request_ready(const struct iwarp_stream *s)
{
    if (s->config.sq->next == iwarp_stream_sq_end(s)) {
        return false;
    }
    const struct iwarp_swqe *w = iwarp_sq_at(s->config.sq, s->config.sq->next);
    if (iwarp_swqe_is_local(w)) {
        return local_ready(s, w);
    }
    if (s->config.hold_tx || ((w->flags & IWARP_WR_FENCE) && s->reads.out_count > 0)) {
        return false;
    }
    /* With ORD 0 it will never be possible: framing it says so. */
    return !iwarp_swqe_has_response(w) || s->reads.ord == 0 || s->reads.out_count < s->config.ord;
}

/*
 * Can the peer's oldest Read or Atomic be answered? An answer that is framed and refers to memory
 * has its CRC already: an Atomic that changed this memory before it is sent would spoil the CRC. So
 * an Atomic waits until nothing unsent refers to memory.
 */
static bool response_ready(const struct iwarp_stream *s)
{
    const struct iwarp_tx_block *b = s->tx.block;

    return s->reads.in_count > 0 && (!s->reads.in[s->reads.in_head].atomic || !b || b->refs == 0);
}

static enum iwarp_tx_kind next_message(const struct iwarp_stream *s)
{
    bool response = false;

    if (!s->config.hold_tx) { /* otherwise a local request is all there can be */
        if (s->config.rtr != STREAM_RTR_NONE) {
            return TX_RTR;
        }
        if (s->tx.kind != TX_NONE) {
            return s->tx.kind;
        }
        response = response_ready(s);
        if (response && s->tx.response_turn) {
            return TX_RESPONSE;
        }
    }
    return request_ready(s) ? TX_REQUEST : response ? TX_RESPONSE : TX_NONE;
}

/* [RDMAP-5.4-08] */
enum iwarp_tx_kind iwarp_stream_next(const struct iwarp_stream *s)
{
    switch (s->life) {
    case STREAM_RUNNING:
    case STREAM_CLOSING:
        return s->shut ? TX_NONE : next_message(s);
    case STREAM_TERMINATING:
        return s->tx.terminate_framed ? TX_NONE : TX_TERMINATE;
    case STREAM_DRAINING: /* RFC 5040 5.4: nothing follows a Terminate */
    case STREAM_ENDED:
        break;
    }
    return TX_NONE;
}
