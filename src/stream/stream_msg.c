/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The meaning of received segments: RDMAP picks the sink, DDP computes the place, and the last
 * segment of a message is delivered. RFC 5040 5.1 to 5.4, 5.5; RFC 5041 5.4, 7.1; RFC 7306 6.
 *
 * A sink says what kind of memory a message may go to: a region that the segment names itself
 * (Write), the buffers of a receive (Send), the sink of an RDMA Read, or none (CONTROL: this end
 * itself reads, where they lie, requests for RDMA Reads and Atomics, Atomic Responses, Immediate
 * Data and Terminates).
 */
#include "stream/stream_msg.h"
#include "stream/stream_hold.h"

#include "base/guard.h"
#include "base/probe.h"
#include "rdmap/rdmap_atomic.h"
#include "rdmap/rdmap_ops.h"

#include <assert.h>

/* [RDMAP-4.1-08] */
static enum iwarp_opcode opcode_of(const struct iwarp_ddp_header *h)
{
    return (enum iwarp_opcode)(h->ulp_control & IWARP_RDMAP_OPCODE_MASK);
}

/* Always false, so that a check can return it. */
static bool found(struct iwarp_fault *fault, enum iwarp_fault_code code, uint64_t d0, uint64_t d1,
                  uint64_t d2)
{
    iwarp_fault_set(fault, code, IWARP_SIDE_LOCAL, d0, d1, d2);
    return false;
}

/* --- sinks ----------------------------------------------------------------------------------- */

/* All segments of one Send go to one receive: it stays current until the last is delivered. */
static void sink_receive(struct iwarp_stream *s, struct iwarp_ddp_sink *sink)
{
    struct iwarp_wq *rq = s->config.rq;
    const struct iwarp_rwqe *w = s->hold.blocked ? NULL : iwarp_rq_current(rq);

    if (!w) {
        sink->kind = DDP_SINK_NONE;
        return;
    }
    *sink = (struct iwarp_ddp_sink){.kind = DDP_SINK_SGL,
                                    .sgl = w->sgl,
                                    .num_sge = w->num_sge,
                                    .capacity = w->capacity,
                                    .pd = rq->pd};
}

/* Immediate Data consumes a receive, but its 8 octets go to the completion, not to the buffers. */
static void sink_immediate(struct iwarp_stream *s, struct iwarp_ddp_sink *sink)
{
    bool posted = !s->hold.blocked && iwarp_rq_current(s->config.rq) != NULL;

    *sink = (struct iwarp_ddp_sink){.kind = posted ? DDP_SINK_CONTROL : DDP_SINK_NONE,
                                    .capacity = IWARP_RDMAP_IMMEDIATE_LEN};
}

/*
 * Responses come in the order of the requests (RFC 5040 5.5), so this one answers the oldest. The
 * sink is computed from the work request: DDP compares what the peer names with it, and the peer
 * can write nowhere else.
 */
static bool sink_response(struct iwarp_stream *s, const struct iwarp_ddp_header *h,
                          struct iwarp_ddp_sink *sink, struct iwarp_fault *fault)
{
    const struct iwarp_read_out *out = iwarp_rdmap_out_oldest(&s->reads);

    if (!out || out->atomic) {
        return found(fault, IWARP_FAULT_RDMAP_READ_RESPONSE_UNEXPECTED, h->stag, 0, 0);
    }
    if (out->rtr) {
        *sink = (struct iwarp_ddp_sink){.kind = DDP_SINK_READ};
        return true;
    }
    const struct iwarp_swqe *w = iwarp_sq_at(s->config.sq, out->wqe);
    *sink = (struct iwarp_ddp_sink){.kind = DDP_SINK_READ,
                                    .sgl = &w->sgl[out->sge],
                                    .num_sge = 1,
                                    .capacity = out->size,
                                    .done = out->done};
    return true;
}

/*
 * A slot must be free before the request is accepted. No slot means either that the peer exceeds
 * the IRD of this end, which is its fault, or that the ring could not grow: a fault of this end.
 */
/* [RDMAP-5.2.1-02] [RDMAP-5.2.2-02] [RDMAP-6.1-02] [RDMAP-6.1-06] */
/* [RDMAX-5.2.2-03] */
static bool sink_read_request(struct iwarp_stream *s, const struct iwarp_ddp_header *h,
                              struct iwarp_ddp_sink *sink, struct iwarp_fault *fault)
{
    if (!iwarp_rdmap_in_slot(&s->reads)) {
        if (s->reads.in_count < s->reads.ird) {
            return found(fault, IWARP_FAULT_LOCAL_NO_MEMORY, sizeof *s->reads.in, 0, 0);
        }
        return found(fault, IWARP_FAULT_DDP_IRD_EXCEEDED, h->msn, s->reads.in_count, s->reads.ird);
    }
    bool atomic = opcode_of(h) == IWARP_OP_ATOMIC_REQUEST;
    *sink = (struct iwarp_ddp_sink){.kind = DDP_SINK_CONTROL,
                                    .capacity = atomic ? IWARP_RDMAP_ATOMIC_REQ_LEN
                                                       : IWARP_RDMAP_READ_REQUEST_LEN};
    return true;
}

/* Responses to Atomics and to RDMA Reads share one order, that of the requests. RFC 7306 5.2.2 (8),
 * 7. */
/* [RDMAX-5.2.2-04] */
static bool sink_atomic_response(struct iwarp_stream *s, const struct iwarp_ddp_header *h,
                                 struct iwarp_ddp_sink *sink, struct iwarp_fault *fault)
{
    const struct iwarp_read_out *out = iwarp_rdmap_out_oldest(&s->reads);

    if (!out || !out->atomic) {
        return found(fault, IWARP_FAULT_ATOMIC_RESPONSE_UNEXPECTED, h->msn, s->reads.out_count, 0);
    }
    *sink =
        (struct iwarp_ddp_sink){.kind = DDP_SINK_CONTROL, .capacity = IWARP_RDMAP_ATOMIC_RESP_LEN};
    return true;
}

/* [RDMAP-5.4-04] */
static bool choose_sink(struct iwarp_stream *s, const struct iwarp_ddp_header *h,
                        struct iwarp_ddp_sink *sink, struct iwarp_fault *fault)
{
    switch (opcode_of(h)) {
    case IWARP_OP_WRITE:
        *sink = (struct iwarp_ddp_sink){.kind = DDP_SINK_REGION};
        return true;
    case IWARP_OP_READ_RESPONSE:
        return sink_response(s, h, sink, fault);
    case IWARP_OP_READ_REQUEST:
    case IWARP_OP_ATOMIC_REQUEST:
        return sink_read_request(s, h, sink, fault);
    case IWARP_OP_SEND:
    case IWARP_OP_SEND_INV:
    case IWARP_OP_SEND_SE:
    case IWARP_OP_SEND_SE_INV:
    case IWARP_OP_SEND_IMM:
    case IWARP_OP_SEND_SE_IMM:
        sink_receive(s, sink);
        return true;
    case IWARP_OP_TERMINATE:
        /* Peers cut the quoted headers short or append octets: any length from 4 is accepted. */
        *sink = (struct iwarp_ddp_sink){.kind = DDP_SINK_CONTROL, .capacity = IWARP_MPA_ULPDU_MAX};
        return true;
    case IWARP_OP_IMMEDIATE:
    case IWARP_OP_IMMEDIATE_SE:
        sink_immediate(s, sink);
        return true;
    case IWARP_OP_ATOMIC_RESPONSE:
        return sink_atomic_response(s, h, sink, fault);
    }
    return found(fault, IWARP_FAULT_RDMAP_OPCODE, opcode_of(h), h->control, 0);
}

/*
 * The checks go from the outer header inwards: DDP version, RDMAP opcode against queue and length,
 * sink, then DDP's own. The first that fails decides which error the Terminate reports.
 */
/* [RDMAP-7.2-01] */
bool iwarp_stream_target(struct iwarp_stream *s, const struct iwarp_ddp_header *h, uint32_t len,
                         struct iwarp_ddp_target *target, struct iwarp_fault *fault)
{
    const struct iwarp_rdmap_segment segment = {
        h->control, h->ulp_control,    h->tagged,         h->last, h->qn,
        len,        s->config.rfc7306, s->config.send_imm};
    struct iwarp_ddp_sink sink;

    if (!iwarp_ddp_check_version(h, fault) || !iwarp_rdmap_check(&segment, fault) ||
        !choose_sink(s, h, &sink, fault)) {
        return false;
    }
    if (s->ddp.lends->n + IWARP_MAX_SGE > IWARP_MAX_LENDS) {
        iwarp_lends_settle(s->ddp.lends); /* payload of earlier segments is in place already */
    }
    return iwarp_ddp_place(&s->ddp, h, len, &sink, target, fault);
}

static bool is_local_sge(enum iwarp_fault_code code)
{
    return code == IWARP_FAULT_LOCAL_SGE || code == IWARP_FAULT_LOCAL_SGE_ACCESS ||
           code == IWARP_FAULT_LOCAL_SGE_BOUNDS;
}

void iwarp_stream_blame_sink(struct iwarp_stream *s, const struct iwarp_ddp_header *h)
{
    const enum iwarp_opcode opcode = opcode_of(h);
    const bool immediate = opcode == IWARP_OP_IMMEDIATE || opcode == IWARP_OP_IMMEDIATE_SE;
    const bool sent = !h->tagged && h->qn == IWARP_DDP_QN_SEND && !immediate;

    if (s->fault.code == IWARP_FAULT_DDP_TOO_LONG && sent) {
        iwarp_rq_current(s->config.rq)->status = IWARP_WC_LOCAL_LENGTH;
        return;
    }
    if (!is_local_sge(s->fault.code)) {
        return;
    }
    if (opcode == IWARP_OP_READ_RESPONSE) {
        uint32_t wqe = iwarp_rdmap_out_oldest(&s->reads)->wqe;
        iwarp_sq_at(s->config.sq, wqe)->status = IWARP_WC_LOCAL_PROTECTION;
    } else if (sent) {
        iwarp_rq_current(s->config.rq)->status = IWARP_WC_LOCAL_PROTECTION;
    }
}

/* --- delivery -------------------------------------------------------------------------------- */

/*
 * RFC 5040 5.3: on delivery the STag must be valid for this stream, then it becomes invalid. A
 * queue pair that withholds every remote right has nothing that its peer could invalidate. The
 * lends of this batch are settled first: the change waits until nobody has the region lent, this
 * thread included.
 */
static bool invalidate(struct iwarp_stream *s, uint32_t stag)
{
    const struct iwarp_binder who = iwarp_stream_binder(s);
    unsigned sharers = s->config.pd_qps ? atomic_load(s->config.pd_qps) : 1;

    const unsigned remote =
        IWARP_ACCESS_REMOTE_WRITE | IWARP_ACCESS_REMOTE_READ | IWARP_ACCESS_REMOTE_ATOMIC;
    if ((s->ddp.denied & remote) == remote) { /* verbs draft 7.8 */
        return found(&s->fault, IWARP_FAULT_RDMAP_INVALIDATE, stag, 0, 0);
    }
    iwarp_lends_settle(s->ddp.lends);
    return iwarp_bind_invalidate_remote(&who, stag, sharers, &s->fault);
}

/* [DDP-5.3-06] [DDP-5.3-07] [RDMAP-5.3-05] [RDMAP-5.5-03] [VERBS-8.2.2-03] */
/* [RDMAP-4.1-09] [RDMAP-5.3-02] [RDMAP-5.3-10] [VERBS-8.2.2.1-01] */
static bool deliver_send(struct iwarp_stream *s, const struct iwarp_ddp_header *h,
                         uint32_t message_len)
{
    struct iwarp_wq *rq = s->config.rq;
    struct iwarp_rwqe *w = iwarp_rq_current(rq); /* never NULL: sink_receive has found it */
    enum iwarp_opcode op = opcode_of(h);

    w->byte_len = message_len;
    w->wc_flags = 0;
    if (op == IWARP_OP_SEND_INV || op == IWARP_OP_SEND_SE_INV) {
        if (!invalidate(s, h->stag)) {
            return false;
        }
        w->invalidated_stag = h->stag;
        w->wc_flags |= IWARP_WC_WITH_INVALIDATE;
    }
    if (op == IWARP_OP_SEND_IMM || op == IWARP_OP_SEND_SE_IMM) {
        w->imm = h->stag; /* in its place */
        w->wc_flags |= IWARP_WC_WITH_IMM | IWARP_WC_IMM_OF_SEND;
    }
    if (op == IWARP_OP_SEND_SE || op == IWARP_OP_SEND_SE_INV || op == IWARP_OP_SEND_SE_IMM) {
        w->wc_flags |= IWARP_WC_SOLICITED;
    }
    w->status = IWARP_WC_SUCCESS;
    iwarp_rq_finish(rq);
    return true;
}

/*
 * The completion of Immediate Data reports the length of the RDMA Write in front of it. No segment
 * says how long its RDMA Write is, so the lengths of the segments are added up. Returns the octets
 * of a Write whose last segment came directly before this one; otherwise 0.
 */
static uint32_t count_written(struct iwarp_stream *s, const struct iwarp_ddp_header *h,
                              uint32_t len)
{
    uint32_t before = s->rx.write_ended ? s->rx.written : 0;

    if (opcode_of(h) == IWARP_OP_WRITE) {
        s->rx.written = s->rx.write_ended ? len : s->rx.written + len;
        s->rx.write_ended = h->last;
    } else {
        s->rx.written = 0;
        s->rx.write_ended = false;
    }
    return before;
}

/* `behind`: octets of the RDMA Write that the Immediate Data follows directly. */
/* [RDMAX-6.3-02] [RDMAX-6.3-03] */
static bool deliver_immediate(struct iwarp_stream *s, const struct iwarp_ddp_header *h,
                              uint32_t behind, const uint8_t *p)
{
    struct iwarp_rwqe *w = iwarp_rq_current(s->config.rq);

    w->byte_len = behind;
    w->imm = iwarp_rdmap_immediate_get(p);
    w->wc_flags = IWARP_WC_WITH_IMM;
    if (opcode_of(h) == IWARP_OP_IMMEDIATE_SE) {
        w->wc_flags |= IWARP_WC_SOLICITED;
    }
    w->status = IWARP_WC_SUCCESS;
    iwarp_rq_finish(s->config.rq);
    return true;
}

/*
 * RFC 5040 5.2: the request joins the queue that the send side answers. Its source is checked here
 * only if no other request waits, and not at all if it asks for no octet.
 */
/* [RDMAP-5.2.1-03] [RDMAP-5.2.1-11] [RDMAP-5.2.1-04] [RDMAP-5.2.1-13] [RDMAP-7.2-09] */
/* [RDMAP-5.2.1-14] */
/* [RDMAP-5.5-05] [RDMAP-5.5-11] [VERBS-8.2.2-05] */
static bool deliver_read_request(struct iwarp_stream *s, const struct iwarp_ddp_header *h,
                                 const uint8_t *p)
{
    struct iwarp_read_in *in = iwarp_rdmap_in_slot(&s->reads);
    struct iwarp_rdmap_read_request *r = &in->request;

    assert(in);
    iwarp_rdmap_read_request_get(p, r);
    in->atomic = false;
    in->msn = h->msn;
    in->sent = 0;
    /*
     * Requests are answered in order, so a wrong one must wait for the responses to those before
     * it; the send side checks each again. If none is before it, it is refused at once.
     */
    if (r->size > 0 && s->reads.in_count == 0) {
        const struct iwarp_region *region =
            iwarp_lends_get(s->ddp.lends, s->config.regions, r->src_stag);
        if (!region) {
            return found(&s->fault, IWARP_FAULT_RDMAP_STAG_INVALID, r->src_stag, 0, 0);
        }
        if (!iwarp_ddp_remote(region, s->config.pd, s->config.qp, r->src_stag, r->src_to, r->size,
                              IWARP_ACCESS_REMOTE_READ, &s->fault)) {
            return false;
        }
    }
    s->reads.in_count++;
    return true;
}

/*
 * The operation is carried out when its response is framed, not here. As with RDMA Reads, a wrong
 * request is refused at once only if no other request waits.
 */
/* [RDMAX-5.2.1-08] [RDMAX-5.2.1-14] [RDMAX-5.4-08] */
static bool deliver_atomic_request(struct iwarp_stream *s, const struct iwarp_ddp_header *h,
                                   const uint8_t *p)
{
    struct iwarp_read_in *in = iwarp_rdmap_in_slot(&s->reads);

    assert(in);
    iwarp_rdmap_atomic_request_get(p, &in->op);
    in->atomic = true;
    in->msn = h->msn;
    if (s->reads.in_count == 0 && !iwarp_stream_atomic_target(s, s->ddp.lends, &in->op)) {
        return false;
    }
    s->reads.in_count++;
    return true;
}

/*
 * The oldest Read or Atomic of this end has its response. w is the work request that is done with
 * it; NULL: there is none, since nobody posted the ready-to-receive message, or since other SGEs of
 * the Read wait for theirs. w completes now if its own octets are released.
 */
static bool answered(struct iwarp_stream *s, struct iwarp_swqe *w)
{
    if (w) {
        w->response_done = true;
    }
    iwarp_rdmap_out_pop(&s->reads);
    iwarp_sq_retire(s->config.sq, s->tx.released);
    return true;
}

/* The sink of the original value is resolved and written in iwarp_stream_atomic_done. */
static bool deliver_atomic_response(struct iwarp_stream *s, const uint8_t *p)
{
    const struct iwarp_read_out *out = iwarp_rdmap_out_oldest(&s->reads);

    return iwarp_stream_atomic_done(s, out, p) && answered(s, iwarp_sq_at(s->config.sq, out->wqe));
}

/* out->done is where the next segment must begin: DDP allows no gap and no overlap. */
/* [RDMAP-5.2-01] [RDMAP-5.2.2-03] [RDMAP-5.5-16] [RDMAP-5.5-04] [RDMAP-5.5-13] */
/* [VERBS-8.2.2.1-02] */
static bool deliver_response(struct iwarp_stream *s, const struct iwarp_ddp_header *h, uint32_t len)
{
    struct iwarp_read_out *out = iwarp_rdmap_out_oldest(&s->reads);

    out->done += len;
    if (!h->last) {
        return true;
    }
    struct iwarp_swqe *w = out->rtr || out->more ? NULL : iwarp_sq_at(s->config.sq, out->wqe);
    if (w && w->opcode == IWARP_WR_READ_INV && !iwarp_stream_invalidate_sink(s, w)) {
        return false;
    }
    return answered(s, w);
}

/*
 * A Terminate that quotes an RDMA Read or Atomic Request of this end tells which one failed. RFC
 * 5040 4.8. The quote is not trusted: its MSN must be one in flight, and it selects the status of
 * that completion and nothing else.
 */
static void blame_read(struct iwarp_stream *s, const struct iwarp_quote *quote,
                       const struct iwarp_term_info *info)
{
    uint32_t oldest = s->tx.read_msn - s->reads.out_count;
    bool read = quote->kind == IWARP_QUOTE_READ ||
                (quote->kind == IWARP_QUOTE_UNTAGGED && (quote->opcode == IWARP_OP_READ_REQUEST ||
                                                         quote->opcode == IWARP_OP_ATOMIC_REQUEST));

    if (!read || quote->msn - oldest >= s->reads.out_count) {
        return;
    }
    const struct iwarp_read_out *out =
        &s->reads.out[(s->reads.out_head + (quote->msn - oldest)) % s->reads.out_slots];
    if (!out->rtr) {
        iwarp_sq_at(s->config.sq, out->wqe)->status = info->etype == IWARP_TERM_RDMAP_PROTECTION
                                                          ? IWARP_WC_REMOTE_ACCESS
                                                          : IWARP_WC_REMOTE_OPERATION;
    }
}

/*
 * A peer answers opcodes that it does not know with "unexpected opcode" (layer RDMAP, code 06). If
 * this end has sent a message of RFC 7306, or a Send with Immediate Data, and the Terminate quotes
 * such a message or nothing, the fault says so: the remedy is an option. RFC 7306 1.1
 */
static enum iwarp_fault_code terminate_code(const struct iwarp_stream *s,
                                            const struct iwarp_quote *quote,
                                            const struct iwarp_term_info *info)
{
    bool bare = quote->kind == IWARP_QUOTE_NONE;
    bool of_send = bare ? !s->tx.extended : quote->opcode > IWARP_OP_ATOMIC_RESPONSE;

    if (info->layer != IWARP_TERM_RDMAP || info->etype != IWARP_TERM_RDMAP_OPERATION ||
        info->code != 0x06 || (!bare && quote->opcode <= IWARP_OP_TERMINATE)) {
        return IWARP_FAULT_PEER_TERMINATE;
    }
    if (of_send) {
        return s->tx.send_imm ? IWARP_FAULT_PEER_NO_SEND_IMM : IWARP_FAULT_PEER_TERMINATE;
    }
    return s->tx.extended ? IWARP_FAULT_PEER_NO_RFC7306 : IWARP_FAULT_PEER_TERMINATE;
}

/*
 * The Terminate becomes the fault of the stream, with its quote, unless an earlier fault is there.
 * Returns false, as after any fault: nothing that follows is looked at.
 */
/* [RDMAP-5.4-03] [RDMAP-5.4-05] [RDMAP-5.4-06] */
static bool deliver_terminate(struct iwarp_stream *s, const uint8_t *p, uint32_t len)
{
    const struct iwarp_peers_term when = {.strict = s->config.strict,
                                          .first = s->rx.fpdus == 1,
                                          .silent = s->tx.fpdus == 0 && !s->shut};
    struct iwarp_term_info info;
    struct iwarp_quote quote;

    iwarp_rdmap_term_get(p, &when, &info);
    s->terminate_received = true;
    s->terminate_len = (uint8_t)(len < sizeof s->terminate ? len : sizeof s->terminate);
    memcpy(s->terminate, p, s->terminate_len);
    iwarp_rdmap_term_quote(p, len, &info, &quote);
    blame_read(s, &quote, &info);
    if (s->fault.code == IWARP_FAULT_NONE) {
        s->fault.quote = quote;
    }
    iwarp_fault_set(&s->fault, terminate_code(s, &quote, &info), IWARP_SIDE_PEER, info.layer,
                    info.etype, info.code);
    return false;
}

/*
 * The receive state of DDP advances with every segment, in order. The payload counter leaves out
 * messages that carry only control information. Returns what count_written does.
 */
static inline uint32_t account(struct iwarp_stream *s, const struct iwarp_ddp_header *h,
                               uint32_t len)
{
    bool control_only =
        opcode_of(h) == IWARP_OP_READ_REQUEST ||
        (opcode_of(h) >= IWARP_OP_TERMINATE && opcode_of(h) <= IWARP_OP_ATOMIC_RESPONSE);

    s->rx.fpdus++;
    IWARP_PROBE4(fpdu_in, s, opcode_of(h), len, 1);
    iwarp_count_fpdu(&s->config.counts->rx, opcode_of(h), h->last, control_only ? 0 : len);
    iwarp_ddp_advance(&s->ddp, h, len);
    s->rx.open = !h->last;
    return count_written(s, h, len);
}

/* Only the last segment of a Send delivers it, and an RDMA Write is delivered to nobody (RFC
 * 5040 5.1). A segment that was held was accounted for when it came. */
/* [DDP-4.1-07] [DDP-5.4-01] [DDP-5.4-02] [RDMAP-5.1-02] [VERBS-8.1.2.2-01] [RDMAP-5.5-10] */
/* [VERBS-8.2.2-04] */
bool iwarp_stream_deliver(struct iwarp_stream *s, const struct iwarp_ddp_header *h, uint32_t len,
                          const uint8_t *control)
{
    uint32_t behind = s->hold.again ? s->hold.again->behind : account(s, h, len);

    switch (opcode_of(h)) {
    case IWARP_OP_READ_RESPONSE:
        return deliver_response(s, h, len);
    case IWARP_OP_READ_REQUEST:
        return deliver_read_request(s, h, control);
    case IWARP_OP_SEND:
    case IWARP_OP_SEND_INV:
    case IWARP_OP_SEND_SE:
    case IWARP_OP_SEND_SE_INV:
    case IWARP_OP_SEND_IMM:
    case IWARP_OP_SEND_SE_IMM:
        return !h->last || deliver_send(s, h, h->mo + len);
    case IWARP_OP_TERMINATE:
        return deliver_terminate(s, control, len);
    case IWARP_OP_IMMEDIATE:
    case IWARP_OP_IMMEDIATE_SE:
        return deliver_immediate(s, h, behind, control);
    case IWARP_OP_ATOMIC_REQUEST:
        return deliver_atomic_request(s, h, control);
    case IWARP_OP_ATOMIC_RESPONSE:
        return deliver_atomic_response(s, control);
    case IWARP_OP_WRITE:
        break;
    }
    return true;
}

/* --- segments that lie whole in memory ------------------------------------------------------- */

/* For a Terminate: the headers of the segment that caused the fault. RFC 5040 4.8. A segment that
 * is shorter than its header is quoted by its length alone. */
/* [RDMAP-7.1-03] [RDMAP-7.1-04] */
void iwarp_stream_remember_cause(struct iwarp_stream *s, const uint8_t *p, uint32_t len)
{
    struct iwarp_term_cause *c = &s->cause;
    uint32_t header_len = iwarp_ddp_header_len(p[0]);

    *c = (struct iwarp_term_cause){.segment_len = (uint16_t)len};
    if (len < header_len) {
        return;
    }
    c->ddp_header_len = (uint8_t)header_len;
    memcpy(c->header, p, header_len);
    if (header_len == IWARP_DDP_UNTAGGED_HDR_LEN &&
        (p[1] & IWARP_RDMAP_OPCODE_MASK) == IWARP_OP_READ_REQUEST &&
        len >= header_len + IWARP_RDMAP_READ_REQUEST_LEN) {
        c->read_request = true;
        memcpy(c->header + header_len, p + header_len, IWARP_RDMAP_READ_REQUEST_LEN);
    }
}

/* Under guard: the application may have unmapped the memory, although the region is valid. */
static bool copy_payload(struct iwarp_stream *s, const struct iwarp_ddp_target *t, const uint8_t *p)
{
    for (unsigned i = 0; i < t->n; i++) {
        if (iwarp_guard_copy_to(t->iov[i].iov_base, p, t->iov[i].iov_len) != 0) {
            return found(&s->fault, IWARP_FAULT_LOCAL_MEMORY,
                         (uint64_t)(uintptr_t)t->iov[i].iov_base, t->iov[i].iov_len, 0);
        }
        p += t->iov[i].iov_len;
    }
    return true;
}

/*
 * A segment found no receive. It is held if that is wished for; DDP accounts for it now, so that
 * what follows is in order, and its message is delivered later. After the application has closed
 * nobody will post a receive, and it is dropped. False: it is not held, and the fault stands.
 */
/* [DDP-7.1-04] */
static bool hold(struct iwarp_stream *s, const struct iwarp_ddp_header *h, const uint8_t *p,
                 uint32_t len)
{
    uint32_t payload = len - iwarp_ddp_header_len(p[0]);

    if (s->config.hold == 0) {
        return false;
    }
    if (s->hold.closed) {
        s->hold.blocked = true; /* no later message overtakes one that was dropped */
    } else if (iwarp_hold_push(s, p, len, s->rx.write_ended ? s->rx.written : 0)) {
        iwarp_count(&s->config.counts->waited, h->mo == 0);
    } else {
        return false;
    }
    (void)account(s, h, payload);
    return true;
}

/* An empty segment has no control octet that could tell its header's length: it is too short for
 * either kind. */
/* [DDP-7.1-14] */
bool iwarp_stream_take_segment(struct iwarp_stream *s, const uint8_t *p, uint32_t len)
{
    struct iwarp_ddp_header h;
    struct iwarp_ddp_target target;
    uint32_t header_len = len > 0 ? iwarp_ddp_header_len(p[0]) : IWARP_DDP_TAGGED_HDR_LEN;

    if (len < header_len) {
        found(&s->fault, IWARP_FAULT_DDP_SEGMENT_SHORT, len, header_len, 0);
        return false;
    }
    iwarp_ddp_header_get(p, &h);
    if (iwarp_stream_target(s, &h, len - header_len, &target, &s->fault) &&
        copy_payload(s, &target, p + header_len) &&
        iwarp_stream_deliver(s, &h, len - header_len, p + header_len)) {
        return true;
    }
    if (s->fault.code == IWARP_FAULT_DDP_NO_BUFFER && hold(s, &h, p, len)) {
        s->fault = (struct iwarp_fault){.code = IWARP_FAULT_NONE};
        return true;
    }
    iwarp_stream_remember_cause(s, p, len);
    iwarp_stream_blame_sink(s, &h);
    return false;
}

/*
 * It goes the same way again, with the MSN and MO that were expected when it came. Other messages
 * may have come and been placed meanwhile, but none of this queue. An STag that it invalidates was
 * valid until now.
 */
bool iwarp_stream_take_held(struct iwarp_stream *s, const struct iwarp_held *held)
{
    uint32_t *msn = &s->ddp.msn[IWARP_DDP_QN_SEND], *mo = &s->ddp.mo[IWARP_DDP_QN_SEND];
    const uint32_t next_msn = *msn, next_mo = *mo;
    struct iwarp_ddp_header h;

    iwarp_ddp_header_get(held->segment, &h);
    *msn = h.msn;
    *mo = h.mo;
    s->hold.again = held;
    bool good = iwarp_stream_take_segment(s, held->segment, held->len);
    s->hold.again = NULL;
    *msn = next_msn;
    *mo = next_mo;
    return good;
}
