/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending runs of RDMA Writes, see stream_run.h: each segment becomes one FPDU in one piece in the
 * send block. This file makes each check that stream_tx.c and stream_frame.c make of a Write. A
 * request of another kind, or a wrong one, ends the run. RFC 5044 4.1 and 4.4, RFC 5041 5.2.
 *
 * One guard covers the whole run. The run records its progress after each FPDU, so if the source of
 * one is gone only that segment is lost to the run; it then takes the general path, which reports
 * the fault.
 */
#include "stream/stream_run.h"

#include "base/guard_copy.h"
#include "base/probe.h"
#include "mpa/crc32c.h"
#include "mpa/mpa_frame.h"
#include "stream/stream_block.h"

/* Prefetch distances, in requests: for an lkey's table entry, and for the region it points to. */
#define AHEAD_ENTRY  16u
#define AHEAD_REGION 8u

/* A run in progress: in memory, and not in local variables, as in stream_run_rx.c. */
struct run {
    volatile struct iwarp_guard_range range; /* the source of the current FPDU */
    struct iwarp_stream *s;
    struct iwarp_region *region; /* that of lkey, lent; NULL: none */
    uint32_t lkey;
    bool ahead;     /* the run has seen a second lkey: it prefetches */
    uint32_t end;   /* position behind the last request that may be framed */
    uint32_t limit; /* octets after which no further FPDU is begun */
    uint32_t room;  /* octets of payload in a segment, at most */
    uint32_t most;  /* of a Write whose segments are copied (stream_block.h) */
    /* framed: */
    uint32_t octets, requests;
    uint32_t off;      /* octets of the next request */
    uint32_t segments; /* that were not the last of their request */
    uint64_t payload;
};

/* Some octets, no more than `most`, from one buffer or inline, and no fence that must wait for a
 * Read. */
static bool is_of_run(const struct run *run, const struct iwarp_swqe *w)
{
    return w->opcode == IWARP_WR_WRITE && w->len - 1 < run->most && /* 0 wraps */
           w->remote_stag != 0 && (w->num_sge == 1 || (w->flags & IWARP_WR_INLINE)) &&
           !((w->flags & IWARP_WR_FENCE) && run->s->reads.out_count > 0);
}

static void settle(struct run *run)
{
    if (run->region) {
        iwarp_region_settle(run->region);
        run->region = NULL;
    }
}

/*
 * Lend the region of this lkey, if this stream may send from it: memory, not a window, since
 * windows are for peers. Payload is copied before the next request is looked at, so one lend at a
 * time is enough.
 */
static void lend(struct run *run, uint32_t lkey)
{
    const struct iwarp_stream_config *config = &run->s->config;

    settle(run);
    run->lkey = lkey;
    run->region = lkey != 0 ? iwarp_region_lend(config->regions, lkey) : NULL;
    if (run->region && !(run->region->kind == REGION_MEMORY &&
                         iwarp_ddp_may(run->region, config->pd, config->qp, 0))) {
        settle(run);
    }
}

/* A hint: the lkey of the request `distance` behind the current one, or 0. */
static inline uint32_t lkey_ahead(const struct run *run, uint32_t current, uint32_t distance)
{
    if (run->end - current <= distance) {
        return 0;
    }
    const struct iwarp_swqe *w = iwarp_sq_at(run->s->config.sq, current + distance);
    return w->num_sge == 1 && !(w->flags & IWARP_WR_INLINE) ? w->sgl->lkey : 0;
}

/*
 * Prefetch, as in stream_run_rx.c. The first call fills the whole distance; each later one adds one
 * request.
 */
static void look_ahead(struct run *run, uint32_t current)
{
    const struct iwarp_region_table *table = run->s->config.regions;

    for (uint32_t i = run->ahead ? AHEAD_ENTRY : 1; i <= AHEAD_ENTRY; i++) {
        iwarp_region_expect(table, lkey_ahead(run, current, i));
    }
    for (uint32_t i = run->ahead ? AHEAD_REGION : 1; i <= AHEAD_REGION; i++) {
        iwarp_region_expect_more(table, lkey_ahead(run, current, i));
    }
    run->ahead = true;
}

/* Where the payload lies; memory of the application becomes the guarded range. NULL: a check
 * failed, and the general path has to find out which. */
static const uint8_t *payload_of(struct run *run, struct iwarp_swqe *w, uint32_t current)
{
    const struct iwarp_sge *sge = w->sgl;

    if (w->flags & IWARP_WR_INLINE) {
        return iwarp_swqe_inline(w);
    }
    /* Another thread may make the STag invalid at any time: see take_run in stream_run_rx.c. */
    if (!run->region || run->lkey != sge->lkey ||
        atomic_load_explicit(&run->region->stag, memory_order_relaxed) != sge->lkey) {
        if (run->ahead || run->region) {
            look_ahead(run, current);
        }
        lend(run, sge->lkey);
    }
    const uint8_t *p = run->region
                           ? iwarp_ddp_within(run->region, (uint64_t)(uintptr_t)sge->addr, sge->len)
                           : NULL;
    run->range.addr = p;
    run->range.n = w->len;
    return p;
}

/* n octets of the request, from `off` on. */
/* [DDP-4.2-01] [DDP-4.2-02] [MPA-4.1-01] [MPA-4.1-02] [MPA-4.4-10] */
static inline __attribute__((always_inline)) uint32_t put_fpdu(const struct iwarp_stream *s,
                                                               const struct iwarp_swqe *w,
                                                               uint32_t off, uint32_t n,
                                                               unsigned control, uint8_t *fpdu,
                                                               const uint8_t *payload)
{
    uint32_t ulpdu = IWARP_DDP_TAGGED_HDR_LEN + n;
    uint32_t len = iwarp_mpa_fpdu_len(ulpdu), crc_at = len - IWARP_MPA_CRC_LEN;

    iwarp_put_be16(fpdu, (uint16_t)ulpdu);
    iwarp_put_be16(fpdu + 2, (uint16_t)control);
    iwarp_put_be32(fpdu + 4, w->remote_stag);
    iwarp_put_be64(fpdu + 8, w->remote_to + off);
    uint32_t crc = 0;
    const bool first = s->config.crc && n > TX_CRC_FIRST && !s->config.copies;
    if (first) {
        crc = iwarp_crc32c(iwarp_crc32c(0, fpdu, STREAM_RUN_HEAD), payload + off, n);
    }
    iwarp_guard_fetch(fpdu + STREAM_RUN_HEAD, payload + off, n);
    iwarp_guard_check(payload + off, n);
    iwarp_put_le32(fpdu + STREAM_RUN_HEAD + n, 0); /* the padding */
    if (first) {
        crc = iwarp_crc32c(crc, fpdu + STREAM_RUN_HEAD + n, crc_at - STREAM_RUN_HEAD - n);
    }
    iwarp_put_le32(fpdu + crc_at, crc);
    return len;
}

/*
 * The CRCs of the n octets of FPDUs at `fpdu`, but for those that put_fpdu has computed. None
 * depends on another, so the processor works on several at a time. While it frames it gets to one
 * only.
 */
static void sum_up(const struct iwarp_stream *s, uint8_t *fpdu, uint32_t n)
{
    const uint32_t most = s->config.copies ? UINT32_MAX : IWARP_DDP_TAGGED_HDR_LEN + TX_CRC_FIRST;

    for (uint32_t len; n > 0; fpdu += len, n -= len) {
        const uint32_t ulpdu = iwarp_get_be16(fpdu);
        len = iwarp_mpa_fpdu_len(ulpdu);
        const uint32_t crc_at = len - IWARP_MPA_CRC_LEN;
        if (ulpdu <= most) {
            iwarp_put_le32(fpdu + crc_at, iwarp_crc32c(0, fpdu, crc_at));
        }
    }
}

/* The next segment of a request that has several. True: it is the last one. */
static __attribute__((noinline)) bool frame_segment(struct run *run, const struct iwarp_swqe *w,
                                                    uint8_t *fpdu, const uint8_t *payload)
{
    const uint32_t off = run->off, left = w->len - off, n = left < run->room ? left : run->room;
    const unsigned control = STREAM_RUN_CONTROL & ~(left > n ? STREAM_RUN_LAST : 0);

    run->octets += put_fpdu(run->s, w, off, n, control, fpdu, payload);
    run->off = left > n ? off + n : 0;
    run->payload += n;
    run->segments += left > n;
    return left == n;
}

/*
 * The callback of the guard. It writes behind what the block has used, and into the entries of the
 * queue; both count only once iwarp_stream_frame_writes has moved `used` and `next` over them.
 */
static void frame_run(void *arg)
{
    struct run *run = arg;
    struct iwarp_stream *s = run->s;
    uint8_t *bytes = s->tx.block->bytes + s->tx.block->used;
    uint32_t next = s->config.sq->next;

    while (next != run->end && run->octets < run->limit) {
        struct iwarp_swqe *w = iwarp_sq_at(s->config.sq, next);
        const uint8_t *payload = is_of_run(run, w) ? payload_of(run, w, next) : NULL;
        if (!payload) {
            break;
        }
        if (w->len <= run->room && run->off == 0) {
            run->octets +=
                put_fpdu(s, w, 0, w->len, STREAM_RUN_CONTROL, bytes + run->octets, payload);
            run->payload += w->len;
        } else if (!frame_segment(run, w, bytes + run->octets, payload)) {
            continue;
        }
        run->requests++;
        w->end_pos = s->tx.framed + run->octets;
        w->response_done = false;
        next++;
    }
}

bool iwarp_stream_frame_writes(struct iwarp_stream *s, uint64_t most)
{
    struct iwarp_tx_block *b = s->tx.block;
    struct iwarp_stream_traffic *counts = &s->config.counts->tx;
    struct run run = {.s = s,
                      .end = iwarp_stream_sq_end(s),
                      .room = s->config.mulpdu - IWARP_DDP_TAGGED_HDR_LEN,
                      .off = s->tx.off};
    run.most = run.room <= b->copy_max ? UINT32_MAX : b->copy_max;

    if (s->config.plain || s->config.markers_tx || s->reads.in_count > 0 ||
        !is_of_run(&run, iwarp_sq_at(s->config.sq, s->config.sq->next))) {
        return false;
    }
    /* An FPDU that begins below the limit fits, since the block has room for TX_FPDU_BYTES then. */
    run.limit = b->most - TX_FPDU_BYTES - b->used + 1;
    run.limit = run.limit < most ? run.limit : (uint32_t)most;
    (void)iwarp_guard_batch(&run.range, frame_run, &run); /* after a fault fewer of them */
    if (s->config.crc) {
        sum_up(s, b->bytes + b->used, run.octets);
    }
    settle(&run);
    const uint32_t fpdus = run.requests + run.segments;
    if (fpdus > 0) {
        iwarp_tx_block_append(b, run.octets);
        s->config.sq->next += run.requests;
        s->tx.framed += run.octets;
        s->tx.kind = run.off > 0 ? TX_REQUEST : TX_NONE;
        s->tx.off = run.off;
        s->tx.behind_write = true;
        s->tx.fpdus += fpdus;
        IWARP_PROBE4(fpdu_out, s, IWARP_OP_WRITE, run.payload, fpdus);
        iwarp_count(&counts->fpdus, fpdus);
        iwarp_count(&counts->payload, run.payload);
        iwarp_count(&counts->messages[IWARP_OP_WRITE], run.requests);
    }
    return fpdus > 0;
}
