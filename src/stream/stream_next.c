/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a stream sends next. The rule changes nothing. Three callers ask: stream_tx.c before each
 * FPDU, stream_life.c for what the driver should watch, and the driver itself. They must agree, so
 * there is one rule: if interest said "write" and gather then framed nothing, the driver would
 * spin.
 */
#include "stream/stream_block.h"

/* The next request that has begun or may begin; NULL: there is none. */
static const struct iwarp_swqe *next_request(const struct iwarp_stream *s)
{
    const struct iwarp_wq *sq = s->config.sq;

    return sq->next == iwarp_stream_sq_end(s) ? NULL : iwarp_sq_at(sq, sq->next);
}

/* With a fence a local request waits for all earlier requests, RDMA Reads among them (verbs draft
 * 8.2.2.2). */
/* [VERBS-8.2.2.2-02] */
static bool fence_open(const struct iwarp_stream *s, const struct iwarp_swqe *w)
{
    return !(w->flags & IWARP_WR_FENCE) || s->config.sq->done == s->config.sq->next;
}

/*
 * A local request that makes an STag invalid waits until all framed octets are released, for two
 * reasons. A program may post a Send and the invalidation of its buffer together. And the change
 * waits until no stream has the region lent: if this stream had, it would wait for itself. A
 * request that registers waits until the send block has no references: their regions are lent, and
 * another thread that has claimed the same region may wait for the end of such a lend.
 */
static bool awaits_release(const struct iwarp_stream *s, const struct iwarp_swqe *w)
{
    if (w->opcode == IWARP_WR_REG_MR) {
        return s->tx.block && s->tx.block->refs > 0;
    }
    return s->tx.released != s->tx.framed;
}

/*
 * Is the next request a local one that waits for the release alone? Then no response begins: a peer
 * that reads without a pause would put off that request, and all behind it, for ever. While its
 * fence is closed responses go on: that may last as long as the peer likes.
 */
static bool local_blocks(const struct iwarp_stream *s)
{
    const struct iwarp_swqe *w = next_request(s);

    return w && iwarp_swqe_is_local(w) && fence_open(s, w) && awaits_release(s, w);
}

/* Can the next send request begin, or go on? RFC 5040 6.1 (ORD), verbs 8.2.2 (read fence). */
/* [RDMAP-6.1-03] [RDMAP-6.1-05] [VERBS-6.5-01] [VERBS-8.2.2-06] [VERBS-8.2.2.2-01] */
static bool request_ready(const struct iwarp_stream *s)
{
    const struct iwarp_swqe *w = next_request(s);

    if (!w) {
        return false;
    }
    if (iwarp_swqe_is_local(w)) {
        return fence_open(s, w) && !awaits_release(s, w);
    }
    /* A Read that has begun does not wait for its own Requests. */
    bool fence = (w->flags & IWARP_WR_FENCE) && s->tx.off == 0;
    if (s->config.hold_tx || (fence && s->reads.out_count > 0)) {
        return false;
    }
    /* With ORD 0 no Read can ever be sent: frame_fetch turns it into a fault. */
    return !iwarp_swqe_has_response(w) || s->reads.ord == 0 || s->reads.out_count < s->config.ord;
}

/*
 * Can the peer's oldest Read or Atomic be answered? A request that is framed but unsent may refer
 * to user memory, and has its CRC already. An Atomic that changed this memory now would make the
 * CRC wrong. So an Atomic waits until the send block has no references. If it is the turn of
 * responses, no request begins meanwhile: long requests without a pause would keep references in
 * the block for ever.
 */
static bool response_ready(const struct iwarp_stream *s)
{
    const struct iwarp_tx_block *b = s->tx.block;

    return s->reads.in_count > 0 && (!s->reads.in[s->reads.in_head].atomic || !b || b->refs == 0);
}

static enum iwarp_tx_kind next_message(const struct iwarp_stream *s)
{
    bool response = false;

    if (!s->config.hold_tx) { /* otherwise only a local request is possible: it sends nothing */
        if (s->config.rtr != STREAM_RTR_NONE) {
            return TX_RTR;
        }
        if (s->tx.kind != TX_NONE) {
            return s->tx.kind;
        }
        response = response_ready(s);
        if (s->reads.in_count > 0 && s->tx.response_turn) {
            return response ? TX_RESPONSE : TX_NONE; /* ready once what is unsent is out */
        }
        if (response && local_blocks(s)) {
            return TX_NONE;
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
