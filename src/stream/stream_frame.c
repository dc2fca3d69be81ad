/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One FPDU: length field, DDP header, payload, padding and CRC, laid into the send block. RFC 5044
 * 4.1 and 4.4. There are three ways: payload is referred to in place, or copied beside its header,
 * or either with markers between.
 *
 * User memory is read under guard (base/guard.h). The application must not change memory of a
 * request before that completes; if it does so after the CRC was computed, the peer finds a CRC
 * error, unless config.copies is set.
 */
#include "stream/stream_frame.h"

#include "base/guard.h"
#include "base/probe.h"
#include "mpa/crc32c.h"
#include "mpa/mpa_frame.h"
#include "mpa/mpa_marker.h"

/* Argument and result of a CRC over user memory, which runs as a callback of the guard. */
struct crc_pass {
    uint32_t crc;
    const struct iovec *iov;
};

static void crc_pass(void *arg)
{
    struct crc_pass *c = arg;
    c->crc = iwarp_crc32c(c->crc, c->iov->iov_base, c->iov->iov_len);
}

static bool memory_gone(struct iwarp_stream *s, const struct iovec *v)
{
    iwarp_fault_set(&s->fault, IWARP_FAULT_LOCAL_MEMORY, IWARP_SIDE_LOCAL,
                    (uint64_t)(uintptr_t)v->iov_base, v->iov_len, 0);
    return false;
}

/* Add the pieces of payload to the iovec and continue the CRC over them in place. */
static bool refer_payload(struct iwarp_stream *s, const struct iwarp_ddp_target *pieces,
                          uint32_t *crc)
{
    for (unsigned i = 0; i < pieces->n; i++) {
        const struct iovec *v = &pieces->iov[i];
        struct crc_pass c = {*crc, v};
        if (s->config.crc && iwarp_guard_run(v->iov_base, v->iov_len, crc_pass, &c) != 0) {
            return memory_gone(s, v);
        }
        *crc = c.crc;
        iwarp_tx_block_refer(s->tx.block, v);
    }
    return true;
}

/*
 * An FPDU whose payload is not copied (iwarp_tx_copies). Its head lies at bytes + used already.
 * The trailer opens an iovec entry, which the head of the next FPDU extends (b->open).
 */
static bool frame_referred(struct iwarp_stream *s, uint32_t head_len, uint32_t ulpdu,
                           const struct iwarp_ddp_target *pieces)
{
    struct iwarp_tx_block *b = s->tx.block;
    uint32_t crc = s->config.crc ? iwarp_crc32c(0, b->bytes + b->used, head_len) : 0;
    uint32_t pad = iwarp_mpa_pad(ulpdu);

    iwarp_tx_block_append(b, head_len);
    if (!refer_payload(s, pieces, &crc)) {
        return false;
    }
    uint8_t *trailer = b->bytes + b->used;
    memset(trailer, 0, pad);
    crc = s->config.crc && pad ? iwarp_crc32c(crc, trailer, pad) : crc;
    iwarp_put_le32(trailer + pad, crc);
    iwarp_tx_block_append(b, pad + IWARP_MPA_CRC_LEN);
    s->tx.framed += iwarp_mpa_fpdu_len(ulpdu);
    return true;
}

/*
 * The FPDU is copied into the block in one piece: one iovec entry. crc_first: the CRC of the
 * payload may be computed before it is copied (TX_CRC_FIRST); not if that changes
 * (iwarp_tx_changes).
 */
static bool frame_copied(struct iwarp_stream *s, uint32_t head_len, uint32_t ulpdu,
                         const struct iwarp_ddp_target *pieces, uint32_t payload_len,
                         bool crc_first)
{
    struct iwarp_tx_block *b = s->tx.block;
    uint8_t *fpdu = b->bytes + b->used, *to = fpdu + head_len;
    uint32_t len = iwarp_mpa_fpdu_len(ulpdu), crc_at = len - IWARP_MPA_CRC_LEN;
    const bool first = s->config.crc && crc_first && payload_len > TX_CRC_FIRST;
    uint32_t crc = first ? iwarp_crc32c(0, fpdu, head_len) : 0;

    for (unsigned i = 0; payload_len && i < pieces->n; i++) {
        const struct iovec *v = &pieces->iov[i];
        struct crc_pass c = {crc, v};
        if ((first && iwarp_guard_run(v->iov_base, v->iov_len, crc_pass, &c) != 0) ||
            iwarp_guard_copy_from(to, v->iov_base, v->iov_len) != 0) {
            return memory_gone(s, v);
        }
        crc = c.crc;
        to += v->iov_len;
    }
    iwarp_put_le32(to, 0); /* padding; what this store covers beyond it, the CRC overwrites */
    if (first) {
        crc = iwarp_crc32c(crc, to, (uint32_t)(fpdu + crc_at - to));
    } else if (s->config.crc) {
        crc = iwarp_crc32c(0, fpdu, crc_at);
    }
    iwarp_put_le32(fpdu + crc_at, crc);
    iwarp_tx_block_append(b, len);
    s->tx.framed += len;
    return true;
}

/*
 * The CRC over the FPDU with its markers, but without the CRC field at its end. It covers markers
 * as they are sent (RFC 5044 4.4, erratum 1427). False: memory that is gone.
 */
static bool marked_crc(struct iwarp_stream *s, const struct iovec *iov, unsigned n, uint32_t *crc)
{
    *crc = 0;
    for (unsigned i = 0; i < n && s->config.crc; i++) {
        const struct iovec v = {iov[i].iov_base,
                                iov[i].iov_len - (i + 1 == n ? IWARP_MPA_CRC_LEN : 0)};
        struct crc_pass c = {*crc, &v};
        if (iwarp_guard_run(v.iov_base, v.iov_len, crc_pass, &c) != 0) {
            return memory_gone(s, &v);
        }
        *crc = c.crc;
    }
    return true;
}

/*
 * An FPDU with markers. The pieces (head, payload, trailer) are listed first, then markers are
 * inserted between them where the stream position asks for one, and the CRC runs over the result.
 * Payload is still referred to or copied as without markers. The head lies at bytes + used. RFC
 * 5044 4.3, 4.4.
 */
static bool frame_marked(struct iwarp_stream *s, uint32_t head_len, uint32_t ulpdu,
                         const struct iwarp_ddp_target *pieces, uint32_t payload_len, bool copied)
{
    struct iwarp_tx_block *b = s->tx.block;
    struct iovec in[IWARP_MAX_SGE + 2];
    uint32_t pad = iwarp_mpa_pad(ulpdu), fpdu = iwarp_mpa_fpdu_len(ulpdu), crc;
    unsigned n = 0;

    in[n++] = (struct iovec){b->bytes + b->used, head_len};
    b->used += head_len;
    for (unsigned i = 0; payload_len && i < pieces->n; i++, n++) {
        in[n] = pieces->iov[i];
        if (copied) {
            in[n].iov_base = b->bytes + b->used;
            if (iwarp_guard_copy_from(in[n].iov_base, pieces->iov[i].iov_base, in[n].iov_len) !=
                0) {
                return memory_gone(s, &pieces->iov[i]);
            }
            b->used += (uint32_t)in[n].iov_len;
        }
    }
    uint8_t *trailer = b->bytes + b->used;
    memset(trailer, 0, pad);
    in[n++] = (struct iovec){trailer, pad + IWARP_MPA_CRC_LEN};
    b->used += pad + IWARP_MPA_CRC_LEN;
    struct iovec *out = b->iov + b->n;
    unsigned woven = iwarp_mpa_marker_weave(s->tx.framed, in, n, b->bytes + b->used, out);
    b->used += IWARP_MPA_MARKER_LEN * iwarp_mpa_marker_count(s->tx.framed, fpdu);
    if (!marked_crc(s, out, woven, &crc)) {
        return false;
    }
    iwarp_put_le32(trailer + pad, crc);
    b->n += woven;
    b->open = false;
    s->tx.framed += iwarp_mpa_marked_len(s->tx.framed, fpdu);
    return true;
}

static void count(struct iwarp_stream *s, const struct iwarp_ddp_header *h, uint32_t payload_len)
{
    s->tx.fpdus++;
    IWARP_PROBE4(fpdu_out, s, h->ulp_control & IWARP_RDMAP_OPCODE_MASK, payload_len, 1);
    iwarp_count_fpdu(&s->config.counts->tx, h->ulp_control & IWARP_RDMAP_OPCODE_MASK, h->last,
                     payload_len);
}

/*
 * All or nothing: after a failure the block is as it was before the call, and ends behind the last
 * whole FPDU. So a Terminate can still be framed.
 */
/* [MPA-3-01] [MPA-4.1-01] [MPA-4.1-02] [MPA-4.4-10] */
bool iwarp_stream_frame(struct iwarp_stream *s, const struct iwarp_ddp_header *h,
                        const uint8_t *more, uint32_t more_len,
                        const struct iwarp_ddp_target *pieces, uint32_t payload_len)
{
    struct iwarp_tx_block *b = s->tx.block;
    const struct iwarp_tx_mark before = iwarp_tx_block_mark(b);
    uint8_t *p = b->bytes + b->used;

    uint32_t header = iwarp_ddp_header_put(p + IWARP_MPA_LEN_FIELD, h);
    uint32_t ulpdu = header + more_len + payload_len;
    iwarp_put_be16(p, (uint16_t)ulpdu);
    if (more_len) {
        memcpy(p + IWARP_MPA_LEN_FIELD + header, more, more_len);
    }
    uint32_t head_len = IWARP_MPA_LEN_FIELD + header + more_len;
    const bool is_response = (h->ulp_control & IWARP_RDMAP_OPCODE_MASK) == IWARP_OP_READ_RESPONSE;
    const bool copied = iwarp_tx_copies(s, is_response, payload_len);
    bool framed;
    if (s->config.markers_tx) {
        framed = frame_marked(s, head_len, ulpdu, pieces, payload_len, copied);
    } else if (!copied) {
        framed = frame_referred(s, head_len, ulpdu, pieces);
    } else {
        framed = frame_copied(s, head_len, ulpdu, pieces, payload_len,
                              !iwarp_tx_changes(s, is_response));
    }
    if (framed) {
        count(s, h, payload_len);
    } else {
        iwarp_tx_block_reset(b, &before);
    }
    return framed;
}
