/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending: work requests, Read Responses and the Terminate become FPDUs. RFC 5041 5.2 (segments),
 * RFC 5044 4 (framing), RFC 5040 5.5 (order).
 *
 * FPDUs are framed in batches. Headers, trailers and small payloads are written into a block,
 * larger payloads are referred to where they lie; the trailer of one FPDU and the header of the
 * next are neighbours and share an iovec entry. The block exists only while something is unsent.
 *
 * Messages are never interleaved; at message borders requests and responses alternate.
 */
#include "stream/stream.h"

#include "base/guard.h"
#include "mpa/crc32c.h"
#include "mpa/mpa_frame.h"
#include "rdmap/rdmap_wire.h"

#include <assert.h>

#define TX_IOV       512
#define TX_BYTES     (56 * 1024)
#define TX_BATCH_MAX (256 * 1024) /* octets framed ahead of the transport */

/* Payload up to this is copied beside its header: cheaper than two iovec entries. */
#define TX_COPY_MAX 512

/* Room that any one FPDU may need besides its referenced payload. */
#define TX_FPDU_BYTES (2 + 18 + IWARP_TERM_MAX_LEN + TX_COPY_MAX + 3 + 4)
#define TX_FPDU_IOV   (IWARP_MAX_SGE + 2)

/*
 * A region that unsent octets lie in: lent between gather and sent only, checked anew each time.
 * Forgotten once stream position `end` is sent, as its requests may complete before the batch does.
 */
struct tx_ref {
    struct iwarp_region *region;
    uint64_t end;
    uint32_t stag;
};

struct iwarp_tx_block {
    struct iovec iov[TX_IOV];
    unsigned first, n; /* entries first..n-1 are unsent */
    uint32_t used;     /* octets of `bytes` */
    bool open;         /* the last entry ends at bytes + used and may be extended */
    bool lent;
    unsigned refs;
    struct tx_ref ref[IWARP_MAX_LENDS];
    uint8_t bytes[TX_BYTES];
};

/* --- the block ------------------------------------------------------------------------------- */

static bool block_ready(struct iwarp_stream *s)
{
    bool over = false;

    if (s->tx.block) {
        return true;
    }
    struct iwarp_tx_block *b = iwarp_budget_alloc(s->config.budget, sizeof *b, &over);
    if (!b) {
        iwarp_fault_set(&s->fault,
                        over ? IWARP_FAULT_LOCAL_BUFFER_LIMIT : IWARP_FAULT_LOCAL_NO_MEMORY,
                        IWARP_SIDE_LOCAL, sizeof *b, s->config.budget->limit, 0);
        s->tx.terminate_framed = true; /* no memory for a Terminate either */
        iwarp_stream_fail(s);
        return false;
    }
    b->first = b->n = b->refs = 0;
    b->used = 0;
    b->open = b->lent = false;
    s->tx.block = b;
    return true;
}

static void settle(struct iwarp_tx_block *b)
{
    for (unsigned i = 0; b->lent && i < b->refs; i++) {
        iwarp_region_settle(b->ref[i].region);
    }
    b->lent = false;
}

void iwarp_stream_tx_fini(struct iwarp_stream *s)
{
    if (s->tx.block) {
        settle(s->tx.block);
        iwarp_budget_free(s->config.budget, s->tx.block, sizeof *s->tx.block);
        s->tx.block = NULL;
        s->tx.framed = s->tx.sent;
    }
}

/* Lend the regions of unsent octets again. False: one is gone, half an FPDU cannot be finished. */
static bool lend_again(struct iwarp_stream *s)
{
    struct iwarp_tx_block *b = s->tx.block;

    for (unsigned i = 0; i < b->refs; i++) {
        struct iwarp_region *r = iwarp_region_lend(s->config.regions, b->ref[i].stag);
        if (!r) {
            uint32_t stag = b->ref[i].stag;
            b->refs = i;
            b->lent = true;
            iwarp_stream_kill(s, IWARP_FAULT_LOCAL_DEREGISTERED, IWARP_SIDE_LOCAL, stag);
            return false;
        }
        b->ref[i].region = r;
    }
    b->lent = true;
    return true;
}

/*
 * The FPDU just framed refers to the regions that `lends` holds: they change hands. If its payload
 * was copied instead, they are given back.
 */
static void adopt(struct iwarp_stream *s, struct iwarp_lends *lends, uint32_t payload_len)
{
    struct iwarp_tx_block *b = s->tx.block;

    for (unsigned i = 0; i < lends->n && payload_len > TX_COPY_MAX; i++) {
        struct iwarp_region *r = lends->region[i];
        uint32_t stag = atomic_load_explicit(&r->stag, memory_order_relaxed);
        unsigned k = 0;
        while (k < b->refs && b->ref[k].region != r) {
            k++;
        }
        if (k < b->refs) {
            iwarp_region_settle(r);
        } else {
            b->ref[b->refs++] = (struct tx_ref){r, 0, stag};
        }
        b->ref[k].end = s->tx.framed;
    }
    if (payload_len > TX_COPY_MAX) {
        lends->n = 0;
    }
    iwarp_lends_settle(lends);
}

/* Forget the regions whose octets are all sent. They are not lent now. */
static void forget_sent(struct iwarp_stream *s)
{
    struct iwarp_tx_block *b = s->tx.block;
    unsigned kept = 0;

    for (unsigned i = 0; i < b->refs; i++) {
        if (b->ref[i].end > s->tx.sent) {
            b->ref[kept++] = b->ref[i];
        }
    }
    b->refs = kept;
}

static void block_append(struct iwarp_tx_block *b, uint32_t n)
{
    if (b->open) {
        b->iov[b->n - 1].iov_len += n;
    } else {
        b->iov[b->n++] = (struct iovec){b->bytes + b->used, n};
        b->open = true;
    }
    b->used += n;
}

static void block_refer(struct iwarp_tx_block *b, const struct iovec *iov)
{
    b->iov[b->n++] = *iov;
    b->open = false;
}

static bool block_room(const struct iwarp_tx_block *b)
{
    return b->used + TX_FPDU_BYTES <= TX_BYTES && b->n + TX_FPDU_IOV <= TX_IOV &&
           b->refs + IWARP_MAX_SGE <= IWARP_MAX_LENDS;
}

/* --- one FPDU -------------------------------------------------------------------------------- */

struct crc_pass {
    uint32_t crc;
    const struct iovec *iov;
};

static void crc_pass(void *arg)
{
    struct crc_pass *c = arg;
    c->crc = iwarp_crc32c(c->crc, c->iov->iov_base, c->iov->iov_len);
}

/* Payload pieces into the block (copy) or into the iovec (refer), CRC over them. */
static bool put_payload(struct iwarp_stream *s, const struct iwarp_ddp_target *pieces, bool copy,
                        uint32_t *crc)
{
    struct iwarp_tx_block *b = s->tx.block;
    bool good = true;

    for (unsigned i = 0; i < pieces->n && good; i++) {
        const struct iovec *v = &pieces->iov[i];
        if (copy) {
            uint8_t *to = b->bytes + b->used;
            good = iwarp_guard_copy_from(to, v->iov_base, v->iov_len) == 0;
            *crc = s->config.crc && good ? iwarp_crc32c(*crc, to, v->iov_len) : 0;
            block_append(b, (uint32_t)v->iov_len);
        } else {
            struct crc_pass c = {*crc, v};
            good = !s->config.crc || iwarp_guard_run(v->iov_base, v->iov_len, crc_pass, &c) == 0;
            *crc = c.crc;
            block_refer(b, v);
        }
        if (!good) {
            iwarp_fault_set(&s->fault, IWARP_FAULT_LOCAL_MEMORY, IWARP_SIDE_LOCAL,
                            (uint64_t)(uintptr_t)v->iov_base, v->iov_len, 0);
        }
    }
    return good;
}

/*
 * Frame one FPDU: DDP header *h, then `extra` octets already laid out behind it by the caller in
 * `more`, then the payload pieces. False: fault, and nothing was framed.
 */
static bool frame(struct iwarp_stream *s, const struct iwarp_ddp_header *h, const uint8_t *more,
                  uint32_t more_len, const struct iwarp_ddp_target *pieces, uint32_t payload_len)
{
    struct iwarp_tx_block *b = s->tx.block;
    const struct iwarp_tx_block before = {.n = b->n, .used = b->used, .open = b->open};
    size_t last_len = b->n ? b->iov[b->n - 1].iov_len : 0;
    uint8_t *p = b->bytes + b->used;

    uint32_t header = iwarp_ddp_header_put(p + IWARP_MPA_LEN_FIELD, h);
    uint32_t ulpdu = header + more_len + payload_len;
    iwarp_put_be16(p, (uint16_t)ulpdu);
    if (more_len) {
        memcpy(p + IWARP_MPA_LEN_FIELD + header, more, more_len);
    }
    uint32_t head_len = IWARP_MPA_LEN_FIELD + header + more_len;
    uint32_t crc = s->config.crc ? iwarp_crc32c(0, p, head_len) : 0;
    block_append(b, head_len);
    if (payload_len && !put_payload(s, pieces, payload_len <= TX_COPY_MAX, &crc)) {
        b->n = before.n;
        b->used = before.used;
        b->open = before.open;
        if (b->n) {
            b->iov[b->n - 1].iov_len = last_len;
        }
        return false;
    }
    uint8_t trailer[3 + IWARP_MPA_CRC_LEN] = {0};
    uint32_t pad = iwarp_mpa_pad(ulpdu);
    crc = s->config.crc ? iwarp_crc32c(crc, trailer, pad) : 0;
    iwarp_put_le32(trailer + pad, crc);
    memcpy(b->bytes + b->used, trailer, pad + IWARP_MPA_CRC_LEN);
    block_append(b, pad + IWARP_MPA_CRC_LEN);
    s->tx.framed += iwarp_mpa_fpdu_len(ulpdu);
    s->tx.fpdus++;
    return true;
}

/* --- messages -------------------------------------------------------------------------------- */

/* Payload octets of the next segment of a message that has `left` to go. */
static uint32_t segment_len(const struct iwarp_stream *s, uint32_t header, uint32_t left)
{
    uint32_t room = s->config.mulpdu - header;
    return left < room ? left : room;
}

/* The local buffers of a request, as pieces. Inline data lies in the queue entry itself. */
static bool request_pieces(struct iwarp_stream *s, struct iwarp_swqe *w, uint32_t off, uint32_t len,
                           struct iwarp_lends *lends, struct iwarp_ddp_target *pieces)
{
    if (w->flags & IWARP_WR_INLINE) {
        pieces->n = len ? 1 : 0;
        pieces->iov[0] = (struct iovec){(uint8_t *)iwarp_swqe_inline(w) + off, len};
        return true;
    }
    return iwarp_ddp_resolve(s->config.regions, lends, s->config.pd, w->sgl, w->num_sge, off, len,
                             0, pieces, &s->fault);
}

static void request_header(struct iwarp_stream *s, const struct iwarp_swqe *w, uint32_t off,
                           struct iwarp_ddp_header *h)
{
    bool solicited = (w->flags & IWARP_WR_SOLICITED) != 0;

    *h = (struct iwarp_ddp_header){0};
    if (w->opcode == IWARP_WR_WRITE) {
        h->tagged = true;
        h->ulp_control = iwarp_rdmap_control(IWARP_OP_WRITE);
        h->stag = w->remote_stag;
        h->to = w->remote_to + off;
    } else if (w->opcode == IWARP_WR_READ) {
        h->ulp_control = iwarp_rdmap_control(IWARP_OP_READ_REQUEST);
        h->qn = IWARP_DDP_QN_READ_REQUEST;
        h->msn = s->tx.read_msn;
    } else {
        bool inv = w->opcode == IWARP_WR_SEND_INV;
        h->ulp_control =
            iwarp_rdmap_control(inv ? (solicited ? IWARP_OP_SEND_SE_INV : IWARP_OP_SEND_INV)
                                    : (solicited ? IWARP_OP_SEND_SE : IWARP_OP_SEND));
        h->stag = inv ? w->invalidate_stag : 0;
        h->qn = IWARP_DDP_QN_SEND;
        h->msn = s->tx.send_msn;
        h->mo = off;
    }
}

/* The whole message is framed. */
static void request_framed(struct iwarp_stream *s, struct iwarp_swqe *w)
{
    w->end_pos = s->tx.framed;
    w->response_done = false;
    s->config.sq->next++;
    if (w->opcode == IWARP_WR_READ) {
        s->tx.read_msn++;
        struct iwarp_read_out *out = iwarp_rdmap_out_slot(&s->reads);
        *out = (struct iwarp_read_out){.wqe = s->config.sq->next - 1};
        s->reads.out_count++;
    } else if (w->opcode != IWARP_WR_WRITE) {
        s->tx.send_msn++;
    }
    s->tx.kind = TX_NONE;
    s->tx.off = 0;
}

/* Is the sink of an RDMA Read inside a region that may be written? Found out before asking. */
static bool frame_read_request(struct iwarp_stream *s, struct iwarp_swqe *w)
{
    const struct iwarp_rdmap_read_request r = {
        .sink_stag = w->num_sge ? w->sgl[0].lkey : 1, /* some RNICs choke on STag 0 */
        .sink_to = w->num_sge ? (uint64_t)(uintptr_t)w->sgl[0].addr : 0,
        .size = w->len,
        .src_stag = w->remote_stag,
        .src_to = w->remote_to};
    uint8_t wire[IWARP_RDMAP_READ_REQUEST_LEN];
    struct iwarp_ddp_target pieces;
    struct iwarp_ddp_header h;
    struct iwarp_lends lends;

    if (s->reads.ord == 0) {
        w->status = IWARP_WC_LOCAL_OPERATION;
        iwarp_fault_set(&s->fault, IWARP_FAULT_LOCAL_READ_ORD, IWARP_SIDE_LOCAL, 0, 0, 0);
        return false;
    }
    lends.n = 0;
    bool good = iwarp_ddp_resolve(s->config.regions, &lends, s->config.pd, w->sgl, w->num_sge, 0,
                                  w->len, IWARP_ACCESS_LOCAL_WRITE, &pieces, &s->fault);
    iwarp_lends_settle(&lends);
    if (!good) {
        w->status = IWARP_WC_LOCAL_PROTECTION;
        return false;
    }
    iwarp_rdmap_read_request_put(wire, &r);
    request_header(s, w, 0, &h);
    h.last = true;
    if (!frame(s, &h, wire, sizeof wire, NULL, 0)) {
        return false;
    }
    request_framed(s, w);
    return true;
}

static bool frame_request(struct iwarp_stream *s)
{
    struct iwarp_swqe *w = iwarp_sq_at(s->config.sq, s->config.sq->next);
    struct iwarp_ddp_target pieces;
    struct iwarp_ddp_header h;
    struct iwarp_lends lends;

    if (w->opcode == IWARP_WR_READ) {
        return frame_read_request(s, w);
    }
    uint32_t header =
        w->opcode == IWARP_WR_WRITE ? IWARP_DDP_TAGGED_HDR_LEN : IWARP_DDP_UNTAGGED_HDR_LEN;
    uint32_t len = segment_len(s, header, w->len - s->tx.off);
    request_header(s, w, s->tx.off, &h);
    h.last = s->tx.off + len == w->len;
    lends.n = 0;
    if (!request_pieces(s, w, s->tx.off, len, &lends, &pieces) ||
        !frame(s, &h, NULL, 0, &pieces, len)) {
        iwarp_lends_settle(&lends);
        w->status = IWARP_WC_LOCAL_PROTECTION;
        return false;
    }
    adopt(s, &lends, len);
    s->tx.kind = TX_REQUEST;
    s->tx.off += len;
    if (h.last) {
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

static bool response_pieces(struct iwarp_stream *s, const struct iwarp_read_in *in, uint32_t len,
                            struct iwarp_lends *lends, struct iwarp_ddp_target *pieces)
{
    const struct iwarp_rdmap_read_request *r = &in->request;

    pieces->n = 0;
    if (len == 0) {
        return true;
    }
    struct iwarp_region *region = iwarp_lends_get(lends, s->config.regions, r->src_stag);
    uint8_t *p = NULL;
    if (!region) {
        iwarp_fault_set(&s->fault, IWARP_FAULT_RDMAP_STAG_INVALID, IWARP_SIDE_LOCAL, r->src_stag, 0,
                        0);
    } else {
        p = iwarp_ddp_remote(region, s->config.pd, r->src_stag, r->src_to + in->sent, len,
                             IWARP_ACCESS_REMOTE_READ, &s->fault);
    }
    pieces->n = 1;
    pieces->iov[0] = (struct iovec){p, len};
    return p != NULL;
}

static bool frame_response(struct iwarp_stream *s)
{
    struct iwarp_read_in *in = iwarp_rdmap_in_oldest(&s->reads);
    uint32_t len = segment_len(s, IWARP_DDP_TAGGED_HDR_LEN, in->request.size - in->sent);
    struct iwarp_ddp_target pieces;
    struct iwarp_lends lends;
    const struct iwarp_ddp_header h = {.tagged = true,
                                       .last = in->sent + len == in->request.size,
                                       .ulp_control = iwarp_rdmap_control(IWARP_OP_READ_RESPONSE),
                                       .stag = in->request.sink_stag,
                                       .to = in->request.sink_to + in->sent};

    lends.n = 0;
    if (!response_pieces(s, in, len, &lends, &pieces) || !frame(s, &h, NULL, 0, &pieces, len)) {
        iwarp_lends_settle(&lends);
        response_cause(s, in);
        return false;
    }
    adopt(s, &lends, len);
    s->tx.kind = TX_RESPONSE;
    in->sent += len;
    if (h.last) {
        iwarp_rdmap_in_pop(&s->reads);
        s->tx.kind = TX_NONE;
    }
    return true;
}

/*
 * RFC 6581 5: in peer-to-peer mode the initiator's first FPDU is the ready-to-receive message that
 * the start-up settled, of length zero. STag 1, since some RNICs choke on STag 0 even here.
 */
static bool frame_rtr(struct iwarp_stream *s)
{
    const struct iwarp_rdmap_read_request r = {.sink_stag = 1, .src_stag = 1};
    uint8_t wire[IWARP_RDMAP_READ_REQUEST_LEN];
    struct iwarp_ddp_header h = {.last = true, .msn = 1};

    switch (s->config.rtr) {
    case STREAM_RTR_NONE:
        return true;
    case STREAM_RTR_SEND:
        h.ulp_control = iwarp_rdmap_control(IWARP_OP_SEND);
        s->tx.send_msn++;
        break;
    case STREAM_RTR_WRITE:
        h = (struct iwarp_ddp_header){.tagged = true,
                                      .last = true,
                                      .ulp_control = iwarp_rdmap_control(IWARP_OP_WRITE),
                                      .stag = 1};
        break;
    case STREAM_RTR_READ:
        h.ulp_control = iwarp_rdmap_control(IWARP_OP_READ_REQUEST);
        h.qn = IWARP_DDP_QN_READ_REQUEST;
        s->tx.read_msn++;
        *iwarp_rdmap_out_slot(&s->reads) = (struct iwarp_read_out){.rtr = true};
        s->reads.out_count++;
        break;
    }
    uint32_t len = s->config.rtr == STREAM_RTR_READ ? iwarp_rdmap_read_request_put(wire, &r) : 0;
    s->config.rtr = STREAM_RTR_NONE;
    return frame(s, &h, wire, len, NULL, 0);
}

/* RFC 5040 5.4: QN 2, MSN 1, the last message of this direction. */
static bool frame_terminate(struct iwarp_stream *s)
{
    uint8_t wire[IWARP_TERM_MAX_LEN];
    uint32_t len = iwarp_rdmap_term_put(&s->fault, &s->cause, wire);
    const struct iwarp_ddp_header h = {.last = true,
                                       .ulp_control = iwarp_rdmap_control(IWARP_OP_TERMINATE),
                                       .qn = IWARP_DDP_QN_TERMINATE,
                                       .msn = 1};

    s->tx.terminate_framed = true;
    return frame(s, &h, wire, len, NULL, 0);
}

/* --- what comes next ------------------------------------------------------------------------- */

/* Can the next send request begin? RFC 5040 6.1 (ORD), verbs 8.2.2 (read fence). */
static bool request_ready(struct iwarp_stream *s)
{
    if (!iwarp_wq_waiting(s->config.sq)) {
        return false;
    }
    struct iwarp_swqe *w = iwarp_sq_at(s->config.sq, s->config.sq->next);
    if ((w->flags & IWARP_WR_FENCE) && s->reads.out_count > 0) {
        return false;
    }
    /* With ORD 0 it will never be possible: framing it says so. */
    return w->opcode != IWARP_WR_READ || s->reads.ord == 0 || s->reads.out_count < s->reads.ord;
}

static enum iwarp_tx_kind choose(struct iwarp_stream *s)
{
    if (s->tx.kind != TX_NONE) {
        return s->tx.kind;
    }
    bool response = s->reads.in_count > 0;
    if (response && s->tx.response_turn) {
        s->tx.response_turn = false;
        return TX_RESPONSE;
    }
    s->tx.response_turn = true;
    return request_ready(s) ? TX_REQUEST : response ? TX_RESPONSE : TX_NONE;
}

/* Frame one more FPDU. False: nothing to frame now. */
static bool frame_next(struct iwarp_stream *s)
{
    bool good = true;

    if (s->life == STREAM_TERMINATING) {
        return !s->tx.terminate_framed && frame_terminate(s);
    }
    if (s->config.rtr != STREAM_RTR_NONE) {
        return frame_rtr(s);
    }
    switch (choose(s)) {
    case TX_NONE:
        return false;
    case TX_REQUEST:
        good = frame_request(s);
        break;
    case TX_RESPONSE:
        good = frame_response(s);
        break;
    }
    if (!good) {
        iwarp_stream_fail(s);
    }
    return s->life != STREAM_ENDED;
}

bool iwarp_stream_tx_waits(struct iwarp_stream *s)
{
    switch (s->life) {
    case STREAM_RUNNING:
    case STREAM_CLOSING:
        return !s->config.hold_tx && !s->shut &&
               (s->config.rtr != STREAM_RTR_NONE || s->tx.kind != TX_NONE ||
                s->reads.in_count > 0 || request_ready(s));
    case STREAM_TERMINATING:
        return !s->tx.terminate_framed;
    case STREAM_DRAINING: /* RFC 5040 5.4: nothing follows a Terminate */
    case STREAM_ENDED:
        break;
    }
    return false;
}

unsigned iwarp_stream_gather(struct iwarp_stream *s, const struct iovec **iov)
{
    if (iwarp_stream_drained(s) && !iwarp_stream_tx_waits(s)) {
        return 0;
    }
    if (s->life == STREAM_ENDED || !block_ready(s)) {
        return 0;
    }
    struct iwarp_tx_block *b = s->tx.block;
    assert(!b->lent);
    if (!lend_again(s)) {
        return 0;
    }
    while (s->tx.framed - s->tx.sent < TX_BATCH_MAX && block_room(b) && frame_next(s)) {
    }
    if (!s->tx.block || b->first == b->n) {
        iwarp_stream_tx_fini(s);
        return 0;
    }
    *iov = b->iov + b->first;
    return b->n - b->first;
}

void iwarp_stream_sent(struct iwarp_stream *s, size_t n)
{
    struct iwarp_tx_block *b = s->tx.block;

    if (!b) {
        return;
    }
    settle(b);
    s->tx.sent += n;
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
        forget_sent(s);
    }
}

void iwarp_stream_released(struct iwarp_stream *s, size_t n)
{
    s->tx.released += n;
    iwarp_stream_retire(s);
}

void iwarp_stream_retire(struct iwarp_stream *s)
{
    struct iwarp_wq *sq = s->config.sq;

    while (sq->done != sq->next) {
        struct iwarp_swqe *w = iwarp_sq_at(sq, sq->done);
        if (w->opcode == IWARP_WR_READ ? !w->response_done : s->tx.released < w->end_pos) {
            return;
        }
        w->status = IWARP_WC_SUCCESS;
        sq->done++;
    }
}
