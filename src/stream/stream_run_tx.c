/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending runs of small RDMA Writes, see stream_run.h: each becomes one FPDU in one piece in the
 * send block. What stream_tx.c and stream_frame.c ask of such a request is asked here, too; one
 * that is anything else, or wrong, ends the run. RFC 5044 4.1 and 4.4, RFC 5041 5.2.
 *
 * One guard stands around the whole run. What is framed is told behind each FPDU, so that memory
 * that is gone costs nothing but its own FPDU, which then goes the general way.
 */
#include "stream/stream_run.h"

#include "base/guard_copy.h"
#include "mpa/crc32c.h"
#include "mpa/mpa_frame.h"
#include "stream/stream_block.h"

struct run {
    volatile struct iwarp_guard_range range; /* the source of the current FPDU */
    struct iwarp_stream *s;
    struct iwarp_lends *lends;
    const struct iwarp_region *region; /* of lkey; NULL: none yet */
    uint32_t lkey;
    uint32_t end;   /* of the requests that may be framed */
    uint32_t limit; /* octets after which no further FPDU is begun */
    /* framed: */
    uint32_t octets, requests;
    uint64_t payload;
};

static bool is_small_write(const struct iwarp_stream *s, const struct iwarp_swqe *w)
{
    return w->opcode == IWARP_WR_WRITE && w->len - 1 < STREAM_RUN_MAX && w->remote_stag != 0 &&
           w->len <= s->config.mulpdu - IWARP_DDP_TAGGED_HDR_LEN &&
           (w->num_sge == 1 || (w->flags & IWARP_WR_INLINE)) &&
           !((w->flags & IWARP_WR_FENCE) && s->reads.out_count > 0);
}

/* The memory that this end may send from by this lkey, lent for the batch; else NULL. */
static const struct iwarp_region *readable(struct run *run, uint32_t lkey)
{
    const struct iwarp_stream_config *config = &run->s->config;

    if (lkey == 0 || run->lends->n + IWARP_MAX_SGE > IWARP_MAX_LENDS) {
        return NULL;
    }
    const struct iwarp_region *r = iwarp_lends_get(run->lends, config->regions, lkey);
    return r && r->kind == REGION_MEMORY && iwarp_ddp_may(r, config->pd, config->qp, 0) ? r : NULL;
}

/* Where the payload lies, guarded if it is the application's. NULL: not a matter for a run. */
static const uint8_t *payload_of(struct run *run, struct iwarp_swqe *w)
{
    const struct iwarp_sge *sge = w->sgl;

    if (w->flags & IWARP_WR_INLINE) {
        return iwarp_swqe_inline(w);
    }
    /* The STag may become invalid at any time; what it stands for does not change while lent. */
    if (!run->region || run->lkey != sge->lkey ||
        atomic_load_explicit(&run->region->stag, memory_order_relaxed) != sge->lkey) {
        run->lkey = sge->lkey;
        run->region = readable(run, sge->lkey);
    }
    const uint8_t *p = run->region
                           ? iwarp_ddp_within(run->region, (uint64_t)(uintptr_t)sge->addr, sge->len)
                           : NULL;
    run->range.addr = p;
    run->range.n = w->len;
    return p;
}

/* [DDP-4.2-01] [DDP-4.2-02] [MPA-4.1-01] [MPA-4.1-02] [MPA-4.4-10] */
static uint32_t put_fpdu(const struct iwarp_stream *s, const struct iwarp_swqe *w, uint8_t *fpdu,
                         const uint8_t *payload)
{
    uint32_t ulpdu = IWARP_DDP_TAGGED_HDR_LEN + w->len;
    uint32_t len = iwarp_mpa_fpdu_len(ulpdu), crc_at = len - IWARP_MPA_CRC_LEN;

    iwarp_put_be16(fpdu, (uint16_t)ulpdu);
    iwarp_put_be16(fpdu + 2, STREAM_RUN_CONTROL);
    iwarp_put_be32(fpdu + 4, w->remote_stag);
    iwarp_put_be64(fpdu + 8, w->remote_to);
    iwarp_guard_fetch(fpdu + STREAM_RUN_HEAD, payload, w->len);
    iwarp_guard_check(payload, w->len);
    iwarp_put_le32(fpdu + STREAM_RUN_HEAD + w->len, 0); /* the padding */
    iwarp_put_le32(fpdu + crc_at, s->config.crc ? iwarp_crc32c(0, fpdu, crc_at) : 0);
    return len;
}

static void frame_run(void *arg)
{
    struct run *run = arg;
    struct iwarp_stream *s = run->s;
    uint8_t *bytes = s->tx.block->bytes + s->tx.block->used;
    uint32_t next = s->config.sq->next;

    for (; next != run->end && run->octets < run->limit; next++) {
        struct iwarp_swqe *w = iwarp_sq_at(s->config.sq, next);
        const uint8_t *payload = is_small_write(s, w) ? payload_of(run, w) : NULL;
        if (!payload) {
            break;
        }
        run->octets += put_fpdu(s, w, bytes + run->octets, payload);
        run->requests++;
        run->payload += w->len;
        w->end_pos = s->tx.framed + run->octets;
        w->response_done = false;
    }
}

unsigned iwarp_stream_frame_writes(struct iwarp_stream *s, struct iwarp_lends *lends, uint64_t most)
{
    struct iwarp_tx_block *b = s->tx.block;
    struct iwarp_stream_traffic *counts = &s->config.counts->tx;
    struct run run = {.s = s, .lends = lends, .end = iwarp_stream_sq_end(s)};

    if (s->config.plain || s->config.markers_tx || s->tx.off > 0 || s->reads.in_count > 0 ||
        !is_small_write(s, iwarp_sq_at(s->config.sq, s->config.sq->next))) {
        return 0;
    }
    run.limit = TX_BYTES - TX_FPDU_BYTES - b->used + 1;
    run.limit = run.limit < most ? run.limit : (uint32_t)most;
    (void)iwarp_guard_batch(&run.range, frame_run, &run); /* left: the next FPDU was not done */
    if (run.requests > 0) {
        iwarp_tx_block_append(b, run.octets);
        s->config.sq->next += run.requests;
        s->tx.framed += run.octets;
        s->tx.behind_write = true;
        s->tx.fpdus += run.requests;
        iwarp_count(&counts->fpdus, run.requests);
        iwarp_count(&counts->payload, run.payload);
        iwarp_count(&counts->messages[IWARP_OP_WRITE], run.requests);
    }
    return run.requests;
}
