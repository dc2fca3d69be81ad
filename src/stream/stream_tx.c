/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending: work requests, Read Responses and the Terminate become segments, in batches. RFC
 * 5041 5.2 (segments), RFC 5040 5.5 (order). stream_frame.c frames one FPDU; unsent octets lie in
 * the send block (stream_block.c).
 *
 * Messages are never interleaved; at message borders requests and responses alternate. A Write with
 * Immediate Data is two messages (RFC 7306 6): the Write, then the Immediate Data.
 */
#include "stream/stream_frame.h"
#include "stream/stream_run.h"

#include "peers/peers.h"
#include "rdmap/rdmap_atomic.h"
#include "rdmap/rdmap_wire.h"

#include <assert.h>

/*
 * Octets framed ahead of the transport. Small batches are two of the largest FPDUs, so the peer
 * processes these while this end frames the next. With kernel TCP each call costs as much as the
 * copy of some 100 KiB, so a large batch takes 1 MiB of payload with its headers.
 */
#define TX_BATCH_SMALL (124 * 1024)
#define TX_BATCH_LARGE (1040 * 1024)
#define TX_LONE        (500 * 1024) /* a lone message of up to that begins with a small batch */

/* --- messages -------------------------------------------------------------------------------- */

/* Payload octets of the next segment of a message that has `left` to go. What is copied has to fit
 * into the block. */
/* [MPA-3-05] */
static uint32_t segment_len(const struct iwarp_stream *s, uint32_t header, uint32_t left,
                            bool response)
{
    uint32_t most = s->config.mulpdu - header, len = left < most ? left : most;
    uint32_t room = iwarp_tx_block_payload_room(s);

    return len > room && iwarp_tx_copies(s, response, len) ? room : len;
}

/* The local buffers of a request, as pieces. Inline data lies in the queue entry, which needs no
 * region; verbs does not reuse the entry before the request is done. */
static bool request_pieces(struct iwarp_stream *s, struct iwarp_swqe *w, uint32_t off, uint32_t len,
                           struct iwarp_lends *lends, struct iwarp_ddp_target *pieces)
{
    if (w->flags & IWARP_WR_INLINE) {
        pieces->n = len ? 1 : 0;
        pieces->iov[0] = (struct iovec){(uint8_t *)iwarp_swqe_inline(w) + off, len};
        return true;
    }
    return iwarp_ddp_resolve(s->config.regions, lends, s->config.pd, s->config.qp, w->sgl,
                             w->num_sge, off, len, 0, pieces, &s->fault);
}

/*
 * Is the next message of the request its Immediate Data? Yes, once the Write in front of it is
 * framed whole. A Write of no octets is not sent at all, unless the request before was a Write: the
 * peer would take that one for the Write that the Immediate Data belongs to.
 */
/* [RDMAX-6.3-06] */
static bool is_immediate(const struct iwarp_stream *s, const struct iwarp_swqe *w)
{
    return w->opcode == IWARP_WR_IMM || (w->opcode == IWARP_WR_WRITE_IMM && s->tx.off == w->len &&
                                         (w->len > 0 || !s->tx.behind_write));
}

static enum iwarp_opcode send_opcode(const struct iwarp_swqe *w, bool solicited)
{
    switch (w->opcode) {
    case IWARP_WR_SEND_INV:
        return solicited ? IWARP_OP_SEND_SE_INV : IWARP_OP_SEND_INV;
    case IWARP_WR_SEND_IMM:
        return solicited ? IWARP_OP_SEND_SE_IMM : IWARP_OP_SEND_IMM;
    default:
        return solicited ? IWARP_OP_SEND_SE : IWARP_OP_SEND;
    }
}

/* The DDP header of the segment at `off`, but for `last`, which the caller knows. */
/* [DDP-4.2-02] [DDP-4.2-07] [DDP-5.2-07] [DDP-4.2-04] [DDP-4.2-05] [DDP-4.2-09] [DDP-4.2-10] */
/* [DDP-4.3-04] [DDP-4.3-06] [DDP-4.3-07] [DDP-4.3-11] [DDP-4.3-12] [DDP-4.3-13] [DDP-5.2-06] */
/* [DDP-5.2-08] [DDP-4.3-02] [RDMAP-4.1-09] [RDMAP-4.1-03] [RDMAP-5.3-11] [RDMAP-5.1-01] */
/* [RDMAP-5.3-01] */
/* [RDMAP-5.3-07] [RDMAP-5.2.1-01] [RDMAP-5.2.1-06] [RDMAP-5.1-07] */
/* [RDMAX-6.3-01] [RDMAX-6.3-04] [RDMAX-6.3-05] */
static void request_header(struct iwarp_stream *s, const struct iwarp_swqe *w, uint32_t off,
                           struct iwarp_ddp_header *h)
{
    bool solicited = (w->flags & IWARP_WR_SOLICITED) != 0;

    *h = (struct iwarp_ddp_header){0};
    if (is_immediate(s, w)) {
        h->ulp_control =
            iwarp_rdmap_control(solicited ? IWARP_OP_IMMEDIATE_SE : IWARP_OP_IMMEDIATE);
        h->qn = IWARP_DDP_QN_SEND;
        h->msn = s->tx.send_msn;
    } else if (iwarp_swqe_is_write(w)) {
        h->tagged = true;
        h->ulp_control = iwarp_rdmap_control(IWARP_OP_WRITE);
        h->stag = w->remote_stag;
        h->to = w->remote_to + off;
    } else if (iwarp_swqe_has_response(w)) {
        h->ulp_control = iwarp_rdmap_control(iwarp_swqe_is_atomic(w) ? IWARP_OP_ATOMIC_REQUEST
                                                                     : IWARP_OP_READ_REQUEST);
        h->qn = IWARP_DDP_QN_READ_REQUEST;
        h->msn = s->tx.read_msn;
    } else {
        h->ulp_control = iwarp_rdmap_control(send_opcode(w, solicited));
        h->stag = w->opcode == IWARP_WR_SEND_INV   ? w->invalidate_stag
                  : w->opcode == IWARP_WR_SEND_IMM ? (uint32_t)w->imm
                                                   : 0;
        h->qn = IWARP_DDP_QN_SEND;
        h->msn = s->tx.send_msn;
        h->mo = off;
    }
}

/*
 * The last message of the request is framed. From here on the request is in flight: it completes
 * when the transport has released its octets up to end_pos, or with the response. Message sequence
 * numbers move here, since only a whole message uses one up.
 */
/* [DDP-4.3-08] [DDP-5.3-01] [DDP-5.3-02] [RDMAP-5.1-05] [RDMAP-5.3-08] [RDMAP-5.5-07] */
/* [VERBS-8.2.2-01] */
/* [RDMAX-6.3-06] */
static void request_framed(struct iwarp_stream *s, struct iwarp_swqe *w)
{
    w->end_pos = s->tx.framed;
    w->response_done = false;
    s->tx.behind_write = w->opcode == IWARP_WR_WRITE;
    s->config.sq->next++;
    if (w->opcode != IWARP_WR_WRITE && !iwarp_swqe_has_response(w)) {
        s->tx.send_msn++;
    }
    s->tx.kind = TX_NONE;
    s->tx.off = 0;
    s->tx.sge = 0;
}

/* The Request for tx.sge is framed and awaits its response. The work request stays the next one
 * until its last Request is framed; at each border in between a response to the peer may go out. */
static void fetch_framed(struct iwarp_stream *s, struct iwarp_swqe *w, uint32_t size)
{
    struct iwarp_read_out *out = iwarp_rdmap_out_slot(&s->reads);

    s->tx.off += size;
    *out = (struct iwarp_read_out){.wqe = s->config.sq->next,
                                   .atomic = iwarp_swqe_is_atomic(w),
                                   .more = s->tx.off < w->len,
                                   .sge = s->tx.sge++,
                                   .size = size,
                                   .msn = s->tx.read_msn++};
    s->reads.out_count++;
    if (!out->more) {
        request_framed(s, w);
    }
}

static uint32_t put_read_request(const struct iwarp_stream *s, const struct iwarp_swqe *w,
                                 uint32_t size, uint8_t *wire)
{
    const struct iwarp_sge *sink = w->num_sge ? &w->sgl[s->tx.sge] : NULL;
    const struct iwarp_rdmap_read_request r = {
        .sink_stag = sink ? sink->lkey : 1, /* some RNICs fail on STag 0 */
        .sink_to = sink ? (uint64_t)(uintptr_t)sink->addr : 0,
        .size = size,
        .src_stag = w->remote_stag,
        .src_to = w->remote_to + s->tx.off};

    return iwarp_rdmap_read_request_put(wire, &r);
}

/* [RDMAX-5.2-01] [RDMAX-5.2.1-07] [RDMAX-5.2.1-12] [RDMAX-5.2.1-13] [RDMAX-4.1-01] */
/* [RDMAX-4.1-02] [RDMAX-4.1-03] */
static uint32_t put_atomic_request(struct iwarp_stream *s, struct iwarp_swqe *w, uint8_t *wire)
{
    const struct iwarp_operands *o = iwarp_swqe_operands(w);
    const struct iwarp_rdmap_atomic_request r = {
        .aop = w->opcode == IWARP_WR_ATOMIC_FETCH_ADD ? IWARP_AOP_FETCH_ADD : IWARP_AOP_CMP_SWAP,
        .id = s->tx.read_msn,
        .stag = w->remote_stag,
        .to = w->remote_to,
        .operand = o->operand,
        .mask = o->mask,
        .compare = o->compare,
        .compare_mask = o->compare_mask};

    s->tx.extended = true;
    return iwarp_rdmap_atomic_request_put(wire, &r);
}

/*
 * Octets to ask for next: those of the first SGE from tx.sge on that has any. A Read of no octets
 * is one Request, whatever its SGEs.
 */
static uint32_t fetch_size(struct iwarp_stream *s, const struct iwarp_swqe *w)
{
    if (w->len == 0) {
        return 0;
    }
    while (w->sgl[s->tx.sge].len == 0) { /* ends: tx.off < w->len */
        s->tx.sge++;
    }
    return w->sgl[s->tx.sge].len;
}

/* The SGEs of a Read are checked together before its first Request, so that a wrong one asks the
 * peer for nothing, and each again before its own: its region may have been deregistered. */
static bool sinks_good(struct iwarp_stream *s, struct iwarp_swqe *w, uint32_t size,
                       struct iwarp_lends *batch)
{
    struct iwarp_ddp_target pieces;
    unsigned first = s->tx.off ? s->tx.sge : 0;

    return iwarp_ddp_resolve(s->config.regions, batch, s->config.pd, s->config.qp, w->sgl + first,
                             w->num_sge - first, 0, s->tx.off ? size : w->len,
                             IWARP_ACCESS_LOCAL_WRITE, &pieces, &s->fault);
}

/*
 * An RDMA Read Request or Atomic of this end. A Request has one sink, so a Read is as many Requests
 * as it has SGEs with octets. Everything that can fail is done before the Request is framed: a slot
 * for it, and the check that its sink lies in a region with local write.
 */
/* [RDMAP-5.2.1-07] [RDMAP-5.2.1-09] */
/* [VERBS-8.2.2-06] */
static bool frame_fetch(struct iwarp_stream *s, struct iwarp_swqe *w, struct iwarp_lends *batch)
{
    uint8_t wire[IWARP_RDMAP_ATOMIC_REQ_LEN];
    struct iwarp_ddp_header h;
    uint32_t size = fetch_size(s, w);

    if (s->reads.ord == 0) {
        w->status = IWARP_WC_LOCAL_OPERATION;
        iwarp_fault_set(&s->fault, IWARP_FAULT_LOCAL_READ_ORD, IWARP_SIDE_LOCAL, 0, 0, 0);
        return false;
    }
    if (!iwarp_rdmap_out_slot(&s->reads)) { /* the depth is not reached: request_ready */
        w->status = IWARP_WC_LOCAL_OPERATION;
        iwarp_fault_set(&s->fault, IWARP_FAULT_LOCAL_NO_MEMORY, IWARP_SIDE_LOCAL,
                        sizeof *s->reads.out, 0, 0);
        return false;
    }
    if (!sinks_good(s, w, size, batch)) {
        w->status = IWARP_WC_LOCAL_PROTECTION;
        return false;
    }
    uint32_t len = iwarp_swqe_is_atomic(w) ? put_atomic_request(s, w, wire)
                                           : put_read_request(s, w, size, wire);
    request_header(s, w, 0, &h);
    h.last = true;
    if (!iwarp_stream_frame(s, &h, wire, len, NULL, 0)) {
        return false;
    }
    fetch_framed(s, w, size);
    return true;
}

/* [RDMAX-6.3-01] [RDMAX-6.3-04] [RDMAX-6.3-05] */
static bool frame_immediate(struct iwarp_stream *s, struct iwarp_swqe *w)
{
    uint8_t wire[IWARP_RDMAP_IMMEDIATE_LEN];
    struct iwarp_ddp_header h;

    request_header(s, w, 0, &h);
    h.last = true;
    s->tx.extended = true;
    iwarp_rdmap_immediate_put(wire, w->imm);
    if (!iwarp_stream_frame(s, &h, wire, sizeof wire, NULL, 0)) {
        return false;
    }
    request_framed(s, w);
    return true;
}

/*
 * No peer may advertise STag 0 (verbs draft 8.1.3.2.1), so a request for it is wrong. In a request
 * of no octets the STag does not matter (RFC 5041 5.2).
 */
/* [VERBS-8.1.3.2.1-01] */
static bool names_stag_0(struct iwarp_stream *s, struct iwarp_swqe *w)
{
    if (w->remote_stag != 0 || w->len == 0 ||
        !(iwarp_swqe_is_write(w) || iwarp_swqe_has_response(w))) {
        return false;
    }
    w->status = IWARP_WC_LOCAL_OPERATION;
    iwarp_fault_set(&s->fault, IWARP_FAULT_LOCAL_STAG_ZERO, IWARP_SIDE_LOCAL, w->len, 0, 0);
    return true;
}

/* The request was posted before the start-up showed that the peer has not agreed. */
/* [RDMAP-4.1-05] */
static bool not_agreed(struct iwarp_stream *s, struct iwarp_swqe *w)
{
    if (w->opcode != IWARP_WR_SEND_IMM || s->config.send_imm) {
        s->tx.send_imm |= w->opcode == IWARP_WR_SEND_IMM;
        return false;
    }
    w->status = IWARP_WC_LOCAL_OPERATION;
    iwarp_fault_set(&s->fault, IWARP_FAULT_LOCAL_SEND_IMM, IWARP_SIDE_LOCAL, 0, 0, 0);
    return true;
}

/*
 * Frame one segment of the next request, or carry the request out if it is local. Regions of
 * payload that is referred to go into `own`, and with the FPDU to the send block; those of copied
 * payload stay in `batch`. A local request settles `batch` first: it may have to wait for lends.
 */
/* [DDP-4.1-03] [DDP-4.1-04] [DDP-4.1-05] [DDP-4.1-06] [DDP-5.2-01] [DDP-5.2-02] [DDP-5.2-04] */
/* [DDP-5.2-09] */
static bool frame_request(struct iwarp_stream *s, struct iwarp_lends *batch)
{
    struct iwarp_swqe *w = iwarp_sq_at(s->config.sq, s->config.sq->next);
    struct iwarp_ddp_target pieces;
    struct iwarp_ddp_header h;
    struct iwarp_lends own;

    if (iwarp_swqe_is_local(w)) {
        iwarp_lends_settle(batch);
        return iwarp_stream_local_do(s, w);
    }
    if (names_stag_0(s, w) || not_agreed(s, w)) {
        return false;
    }
    if (iwarp_swqe_has_response(w)) {
        return frame_fetch(s, w, batch);
    }
    if (is_immediate(s, w)) {
        return frame_immediate(s, w);
    }
    uint32_t header =
        iwarp_swqe_is_write(w) ? IWARP_DDP_TAGGED_HDR_LEN : IWARP_DDP_UNTAGGED_HDR_LEN;
    uint32_t len = segment_len(s, header, w->len - s->tx.off, false);
    request_header(s, w, s->tx.off, &h);
    h.last = s->tx.off + len == w->len;
    own.n = 0;
    if (!request_pieces(s, w, s->tx.off, len, iwarp_tx_copies(s, false, len) ? batch : &own,
                        &pieces) ||
        !iwarp_stream_frame(s, &h, NULL, 0, &pieces, len)) {
        iwarp_lends_settle(&own);
        w->status = IWARP_WC_LOCAL_PROTECTION;
        return false;
    }
    iwarp_tx_block_adopt(s, &own);
    s->tx.kind = TX_REQUEST;
    s->tx.off += len;
    s->tx.behind_write = false;
    if (h.last && w->opcode != IWARP_WR_WRITE_IMM) {
        request_framed(s, w);
    }
    return true;
}

/* RFC 5040 4.8: if part of a Read has been answered, the copy in a Terminate tells what is left. */
static void response_cause(struct iwarp_stream *s, const struct iwarp_read_in *in)
{
    struct iwarp_rdmap_read_request left = in->request;
    const struct iwarp_ddp_header h = {.last = true,
                                       .ulp_control = iwarp_rdmap_control(IWARP_OP_READ_REQUEST),
                                       .qn = IWARP_DDP_QN_READ_REQUEST,
                                       .msn = in->msn};

    left.sink_to += in->sent;
    left.src_to += in->sent;
    left.size -= in->sent;
    s->cause = (struct iwarp_term_cause){.segment_len = IWARP_DDP_UNTAGGED_HDR_LEN +
                                                        IWARP_RDMAP_READ_REQUEST_LEN,
                                         .ddp_header_len = IWARP_DDP_UNTAGGED_HDR_LEN,
                                         .read_request = true};
    iwarp_ddp_header_put(s->cause.header, &h);
    iwarp_rdmap_read_request_put(s->cause.header + IWARP_DDP_UNTAGGED_HDR_LEN, &left);
}

/* The source is checked for each segment: the region may become invalid in the middle of a Read. */
/* [RDMAP-5.2.1-14] [RDMAP-5.2.1-15] */
static bool response_pieces(struct iwarp_stream *s, const struct iwarp_read_in *in, uint32_t len,
                            struct iwarp_lends *lends, struct iwarp_ddp_target *pieces)
{
    const struct iwarp_rdmap_read_request *r = &in->request;

    pieces->n = 0;
    if (len == 0) {
        return true;
    }
    if (s->ddp.denied & IWARP_ACCESS_REMOTE_READ) {
        iwarp_fault_set(&s->fault, IWARP_FAULT_RDMAP_QP_ACCESS, IWARP_SIDE_LOCAL, r->src_stag,
                        s->ddp.denied, 0);
        return false;
    }
    struct iwarp_region *region = iwarp_lends_get(lends, s->config.regions, r->src_stag);
    uint8_t *p = NULL;
    if (!region) {
        iwarp_fault_set(&s->fault, IWARP_FAULT_RDMAP_STAG_INVALID, IWARP_SIDE_LOCAL, r->src_stag, 0,
                        0);
    } else {
        p = iwarp_ddp_remote(region, s->config.pd, s->config.qp, r->src_stag, r->src_to + in->sent,
                             len, IWARP_ACCESS_REMOTE_READ, &s->fault);
    }
    pieces->n = 1;
    pieces->iov[0] = (struct iovec){p, len};
    return p != NULL;
}

/* RFC 7306 8.1 (2): of an Atomic Request the DDP header alone is quoted. */
/* [RDMAX-8.1-02] */
static void atomic_cause(struct iwarp_stream *s, const struct iwarp_read_in *in)
{
    const struct iwarp_ddp_header h = {.last = true,
                                       .ulp_control = iwarp_rdmap_control(IWARP_OP_ATOMIC_REQUEST),
                                       .qn = IWARP_DDP_QN_READ_REQUEST,
                                       .msn = in->msn};

    s->cause = (struct iwarp_term_cause){.segment_len = IWARP_DDP_UNTAGGED_HDR_LEN +
                                                        IWARP_RDMAP_ATOMIC_REQ_LEN,
                                         .ddp_header_len = IWARP_DDP_UNTAGGED_HDR_LEN};
    iwarp_ddp_header_put(s->cause.header, &h);
}

/* The request leaves its ring before the response is framed, so it is carried out once, whatever
 * fails later. */
/* [RDMAX-5-05] [RDMAX-5.2-02] [RDMAX-5.2.2-01] [RDMAX-5.2.2-02] [RDMAX-5.2.2-07] [RDMAX-5.4-09] */
static bool frame_atomic_response(struct iwarp_stream *s, struct iwarp_read_in *in)
{
    uint8_t wire[IWARP_RDMAP_ATOMIC_RESP_LEN];
    const struct iwarp_ddp_header h = {.last = true,
                                       .ulp_control = iwarp_rdmap_control(IWARP_OP_ATOMIC_RESPONSE),
                                       .qn = IWARP_DDP_QN_ATOMIC_RESP,
                                       .msn = s->tx.atomic_msn};

    if (!iwarp_stream_atomic_do(s, in, wire)) {
        atomic_cause(s, in);
        return false;
    }
    iwarp_rdmap_in_pop(&s->reads);
    s->tx.atomic_msn++;
    return iwarp_stream_frame(s, &h, wire, sizeof wire, NULL, 0);
}

/* One segment of the response to the peer's oldest request. The request leaves its ring with the
 * last segment, which gives the peer its credit (IRD) back. */
/* [RDMAP-4.4-02] [RDMAP-5.2.2-01] [RDMAP-5.2.2-07] [RDMAP-5.2.1-08] [RDMAP-5.2.2-05] */
/* [RDMAP-5.5-14] */
static bool frame_response(struct iwarp_stream *s, struct iwarp_lends *batch)
{
    struct iwarp_read_in *in = iwarp_rdmap_in_oldest(&s->reads);

    if (in->atomic) {
        return frame_atomic_response(s, in);
    }
    uint32_t len = segment_len(s, IWARP_DDP_TAGGED_HDR_LEN, in->request.size - in->sent, true);
    const bool copied = iwarp_tx_copies(s, true, len);
    struct iwarp_ddp_target pieces;
    struct iwarp_lends own;
    const struct iwarp_ddp_header h = {.tagged = true,
                                       .last = in->sent + len == in->request.size,
                                       .ulp_control = iwarp_rdmap_control(IWARP_OP_READ_RESPONSE),
                                       .stag = in->request.sink_stag,
                                       .to = in->request.sink_to + in->sent};

    own.n = 0;
    if (!response_pieces(s, in, len, copied ? batch : &own, &pieces) ||
        !iwarp_stream_frame(s, &h, NULL, 0, &pieces, len)) {
        iwarp_lends_settle(&own);
        response_cause(s, in);
        return false;
    }
    iwarp_tx_block_adopt(s, &own);
    s->tx.kind = TX_RESPONSE;
    in->sent += len;
    if (h.last) {
        iwarp_rdmap_in_pop(&s->reads);
        s->tx.kind = TX_NONE;
    }
    return true;
}

/*
 * RFC 6581 5: in peer-to-peer mode the initiator's first FPDU is the ready-to-receive message, of
 * length zero and of the kind that the start-up negotiated.
 */
static bool frame_rtr(struct iwarp_stream *s)
{
    const struct iwarp_rdmap_read_request r = {.sink_stag = IWARP_PEERS_RTR_STAG,
                                               .src_stag = IWARP_PEERS_RTR_STAG};
    uint8_t wire[IWARP_RDMAP_READ_REQUEST_LEN];
    struct iwarp_ddp_header h = {.last = true};
    struct iwarp_read_out *out;

    switch (s->config.rtr) {
    case STREAM_RTR_NONE:
        return true;
    case STREAM_RTR_SEND:
        h.ulp_control = iwarp_rdmap_control(IWARP_OP_SEND);
        h.msn = s->tx.send_msn++;
        break;
    case STREAM_RTR_WRITE:
        h = (struct iwarp_ddp_header){.tagged = true,
                                      .last = true,
                                      .ulp_control = iwarp_rdmap_control(IWARP_OP_WRITE),
                                      .stag = IWARP_PEERS_RTR_STAG};
        break;
    case STREAM_RTR_READ:
        out = iwarp_rdmap_out_slot(&s->reads);
        if (!out) { /* nothing has come yet that a Terminate could be about */
            iwarp_fault_set(&s->fault, IWARP_FAULT_LOCAL_NO_MEMORY, IWARP_SIDE_LOCAL, sizeof *out,
                            0, 0);
            iwarp_stream_kill(s, IWARP_FAULT_LOCAL_NO_MEMORY, IWARP_SIDE_LOCAL, 0);
            return false;
        }
        h.ulp_control = iwarp_rdmap_control(IWARP_OP_READ_REQUEST);
        h.qn = IWARP_DDP_QN_READ_REQUEST;
        h.msn = s->tx.read_msn++;
        *out = (struct iwarp_read_out){.rtr = true};
        s->reads.out_count++;
        break;
    }
    uint32_t len = s->config.rtr == STREAM_RTR_READ ? iwarp_rdmap_read_request_put(wire, &r) : 0;
    s->config.rtr = STREAM_RTR_NONE;
    return iwarp_stream_frame(s, &h, wire, len, NULL, 0);
}

/* Only at a message border, and with nothing unsent: unsent octets would do the same work. */
bool iwarp_stream_remind(struct iwarp_stream *s)
{
    bool stuck = s->life == STREAM_RUNNING && !s->config.responder && s->rx.pos == 0 &&
                 s->tx.framed > 0 && s->tx.kind == TX_NONE && iwarp_stream_drained(s);

    if (stuck) {
        s->config.rtr = STREAM_RTR_WRITE;
    }
    return stuck;
}

/* RFC 5040 5.4: QN 2, MSN 1, the last message of this direction. A copy is kept for the application
 * to query. */
/* [RDMAP-5.4-01] [RDMAP-5.4-02] [RDMAP-7.1-02] */
static bool frame_terminate(struct iwarp_stream *s)
{
    uint8_t wire[IWARP_TERM_MAX_LEN];
    uint32_t len = iwarp_rdmap_term_put(&s->fault, &s->cause, wire);
    const struct iwarp_ddp_header h = {.last = true,
                                       .ulp_control = iwarp_rdmap_control(IWARP_OP_TERMINATE),
                                       .qn = IWARP_DDP_QN_TERMINATE,
                                       .msn = 1};

    s->tx.terminate_framed = true;
    s->terminate_len = (uint8_t)len;
    memcpy(s->terminate, wire, len);
    return iwarp_stream_frame(s, &h, wire, len, NULL, 0);
}

/* --- batches --------------------------------------------------------------------------------- */

/* Requests and responses alternate by message. If one of them has nothing to send, it loses its
 * turn. */
static void take_turn(struct iwarp_stream *s, enum iwarp_tx_kind next)
{
    if (s->tx.kind == TX_NONE) {
        s->tx.response_turn = next != TX_RESPONSE || !s->tx.response_turn;
    }
}

/*
 * Payload octets of the next message, which is of kind `next`, if nothing is behind it; else 0. The
 * queues are looked at for requests and responses only: they may be gone when a Terminate is left.
 */
static size_t lone_len(struct iwarp_stream *s, enum iwarp_tx_kind next)
{
    struct iwarp_wq *sq = s->config.sq;

    if ((next != TX_REQUEST && next != TX_RESPONSE) ||
        iwarp_wq_head(sq) - sq->next + s->reads.in_count != 1) {
        return 0;
    }
    if (next == TX_RESPONSE) {
        const struct iwarp_read_in *in = iwarp_rdmap_in_oldest(&s->reads);
        return in->atomic ? 0 : in->request.size;
    }
    const struct iwarp_swqe *w = iwarp_sq_at(sq, sq->next);
    return iwarp_swqe_is_local(w) || iwarp_swqe_has_response(w) ? 0 : w->len;
}

/*
 * Does the next message begin with a small batch? While the peer works on that, this end computes
 * the CRCs of the rest. For what is sent without a pause fewer calls count, so only a lone message
 * does: a short one, or a request that the peer may wait for. It may if it has sent something since
 * the last batch that was not short: a question, or the answer to one. A Read Request does not tell
 * so: the peer may have sent the next one meanwhile.
 */
static bool begins_small(struct iwarp_stream *s, enum iwarp_tx_kind next)
{
    size_t len = lone_len(s, next);
    bool awaited = next == TX_REQUEST && s->rx.pos != s->tx.heard;

    return len > 0 && (len <= TX_LONE || awaited);
}

/*
 * Where memory is scarce batches are small, since a peer that stops leaves one unsent: half the
 * size of a block tells so.
 */
static size_t batch_max(struct iwarp_stream *s, enum iwarp_tx_kind next)
{
    if (iwarp_tx_changes(s, next == TX_RESPONSE) && iwarp_tx_block_is_scarce(s)) {
        return TX_SCARCE_COPIES;
    }
    if (!s->config.large_batches || s->tx.block->most != TX_BYTES) {
        return TX_BATCH_SMALL;
    }
    return s->tx.kind == TX_NONE && begins_small(s, next) ? TX_BATCH_SMALL : TX_BATCH_LARGE;
}

/*
 * Frame one more FPDU or a run, or carry out one local request. `next` is what iwarp_stream_next
 * has returned. False: the batch is over. Regions whose octets are copied stay lent for the whole
 * batch, since many small requests in a row mostly use the same few regions.
 */
/* [RDMAP-6.1-01] [MPA2-5-01] [VERBS-6.4-01] */
static bool frame(struct iwarp_stream *s, enum iwarp_tx_kind next, size_t left,
                  struct iwarp_lends *batch)
{
    bool good = true;

    if (batch->n + IWARP_MAX_SGE > IWARP_MAX_LENDS) {
        iwarp_lends_settle(batch);
    }
    switch (next) {
    case TX_TERMINATE:
        return frame_terminate(s);
    case TX_RTR:
        return frame_rtr(s);
    case TX_NONE:
        return false;
    case TX_REQUEST:
        take_turn(s, next);
        good = iwarp_stream_frame_writes(s, left) || frame_request(s, batch);
        break;
    case TX_RESPONSE:
        take_turn(s, next);
        good = frame_response(s, batch);
        break;
    }
    if (!good) {
        iwarp_stream_fail(s);
    }
    return s->life != STREAM_ENDED;
}

/*
 * Octets that the transport did not take last time are still in the block: their regions are lent
 * again, and new FPDUs are framed behind them as far as batch and block have room.
 */
unsigned iwarp_stream_gather(struct iwarp_stream *s, const struct iovec **iov)
{
    enum iwarp_tx_kind next = iwarp_stream_next(s);

    if ((next == TX_NONE && iwarp_stream_drained(s)) || s->life == STREAM_ENDED) {
        return 0;
    }
    if (!iwarp_tx_block_open(s)) {
        /* Not even a Terminate could be sent, and a FIN would pass for an orderly close. */
        iwarp_stream_kill(s, s->fault.code, IWARP_SIDE_LOCAL, 0);
        return 0;
    }
    struct iwarp_tx_block *b = s->tx.block;
    struct iwarp_lends batch;
    batch.n = 0;
    uint64_t begin = s->tx.framed, end = s->tx.sent + batch_max(s, next);
    while (s->tx.framed < end && iwarp_tx_block_room(b) &&
           frame(s, next, (size_t)(end - s->tx.framed), &batch)) {
        next = iwarp_stream_next(s);
    }
    iwarp_lends_settle(&batch);
    if (s->tx.framed - begin >= TX_BATCH_SMALL) {
        s->tx.heard = s->rx.pos;
    }
    if (!s->tx.block || b->first == b->n) {
        iwarp_stream_tx_fini(s);
        return 0;
    }
    *iov = b->iov + b->first;
    return b->n - b->first;
}

/* Ends the lends of gather, whatever n is. If octets are left, the transport is full: the block
 * then gives up what the rest does not need. No block: the stream ended between gather and this
 * call. */
void iwarp_stream_sent(struct iwarp_stream *s, size_t n)
{
    struct iwarp_tx_block *b = s->tx.block;

    if (!b) {
        return;
    }
    iwarp_tx_block_settle(b);
    s->tx.sent += n;
    iwarp_count(&s->config.counts->tx.octets, n);
    while (n > 0) {
        struct iovec *v = &b->iov[b->first];
        if (n < v->iov_len) {
            v->iov_base = (uint8_t *)v->iov_base + n;
            v->iov_len -= n;
            break;
        }
        n -= v->iov_len;
        b->first++;
    }
    if (b->first == b->n) {
        iwarp_stream_tx_fini(s);
    } else {
        iwarp_tx_block_forget_sent(s);
        iwarp_tx_block_shrink(s);
    }
}

void iwarp_stream_released(struct iwarp_stream *s, size_t n)
{
    s->tx.released += n;
    if (s->tx.refs) {
        iwarp_stream_unrefer(s, s->tx.released);
    }
    iwarp_sq_retire(s->config.sq, s->tx.released);
}
