/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One FPDU: length field, DDP header, payload, padding and CRC, laid into the send block. RFC 5044
 * 4.1 and 4.4. The user's memory is read under guard (base/guard.h).
 */
#include "stream/stream_frame.h"

#include "base/guard.h"
#include "mpa/crc32c.h"
#include "mpa/mpa_frame.h"

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
            iwarp_tx_block_append(b, (uint32_t)v->iov_len);
        } else {
            struct crc_pass c = {*crc, v};
            good = !s->config.crc || iwarp_guard_run(v->iov_base, v->iov_len, crc_pass, &c) == 0;
            *crc = c.crc;
            iwarp_tx_block_refer(b, v);
        }
        if (!good) {
            iwarp_fault_set(&s->fault, IWARP_FAULT_LOCAL_MEMORY, IWARP_SIDE_LOCAL,
                            (uint64_t)(uintptr_t)v->iov_base, v->iov_len, 0);
        }
    }
    return good;
}

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
    uint32_t crc = s->config.crc ? iwarp_crc32c(0, p, head_len) : 0;
    iwarp_tx_block_append(b, head_len);
    if (payload_len && !put_payload(s, pieces, payload_len <= TX_COPY_MAX, &crc)) {
        iwarp_tx_block_reset(b, &before);
        return false;
    }
    uint8_t trailer[3 + IWARP_MPA_CRC_LEN] = {0};
    uint32_t pad = iwarp_mpa_pad(ulpdu);
    crc = s->config.crc ? iwarp_crc32c(crc, trailer, pad) : 0;
    iwarp_put_le32(trailer + pad, crc);
    memcpy(b->bytes + b->used, trailer, pad + IWARP_MPA_CRC_LEN);
    iwarp_tx_block_append(b, pad + IWARP_MPA_CRC_LEN);
    s->tx.framed += iwarp_mpa_fpdu_len(ulpdu);
    s->tx.fpdus++;
    return true;
}
