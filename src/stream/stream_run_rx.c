/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving runs of small RDMA Writes, see stream_run.h. Every check that stream_rx.c, stream_msg.c
 * and ddp_place.c make of such an FPDU is made here, by the same predicates where it is arithmetic;
 * an FPDU that fails one is not touched. RFC 5044 4.4 and 6, RFC 5041 7.1, RFC 5040 7.2.
 *
 * One guard stands around the whole run. What is done is stored behind each FPDU, so that a copy
 * that faults costs nothing but its own FPDU, which then goes the general way.
 */
#include "stream/stream_run.h"

#include "base/guard_copy.h"
#include "mpa/crc32c.h"
#include "mpa/mpa_frame.h"
#include "peers/peers.h"

struct run {
    volatile struct iwarp_guard_range range; /* the destination of the current FPDU */
    struct iwarp_stream *s;
    const uint8_t *p;
    size_t n;
    /* done: */
    size_t used;
    uint64_t fpdus, payload;
    uint32_t last, last_payload; /* octets of the last FPDU, and of its payload */
};

/* The region that the peer may write to by this STag, lent for the batch; else NULL. */
static const struct iwarp_region *writable(struct iwarp_stream *s, uint32_t stag)
{
    struct iwarp_ddp_rx *ddp = &s->ddp;

    if (stag == 0 || ddp->lends.n + IWARP_MAX_SGE > IWARP_MAX_LENDS) {
        return NULL;
    }
    const struct iwarp_region *r = iwarp_lends_get(&ddp->lends, ddp->regions, stag);
    return r && iwarp_ddp_may(r, ddp->pd, ddp->qp, IWARP_ACCESS_REMOTE_WRITE) ? r : NULL;
}

/* The octets of the FPDU whose length field says ulpdu, if it is whole and its CRC right; else 0.
 */
static uint32_t whole_fpdu(const struct run *run, const uint8_t *p, size_t left, uint32_t ulpdu)
{
    uint32_t len = iwarp_mpa_fpdu_len(ulpdu), crc_at = len - IWARP_MPA_CRC_LEN;

    if (len > left ||
        (run->s->config.crc && iwarp_crc32c(0, p, crc_at) != iwarp_get_le32(p + crc_at))) {
        return 0;
    }
    return len;
}

static void take_run(void *arg)
{
    struct run *run = arg;
    const struct iwarp_region *region = NULL;
    uint32_t stag = 0, len;

    for (; iwarp_stream_is_run(run->s, run->p + run->used, run->n - run->used); run->used += len) {
        const uint8_t *p = run->p + run->used;
        uint32_t ulpdu = iwarp_get_be16(p), payload = ulpdu - IWARP_DDP_TAGGED_HDR_LEN;
        if (ulpdu <= IWARP_DDP_TAGGED_HDR_LEN || payload > STREAM_RUN_MAX) {
            break;
        }
        len = whole_fpdu(run, p, run->n - run->used, ulpdu);
        if (len == 0) {
            break;
        }
        /* The STag may become invalid at any time; what it stands for does not change while lent.
         */
        if (!region || stag != iwarp_get_be32(p + 4) ||
            atomic_load_explicit(&region->stag, memory_order_relaxed) != stag) {
            stag = iwarp_get_be32(p + 4);
            region = writable(run->s, stag);
        }
        uint8_t *to = region ? iwarp_ddp_within(region, iwarp_get_be64(p + 8), payload) : NULL;
        if (!to) {
            break;
        }
        run->range.addr = to;
        run->range.n = payload;
        iwarp_guard_place(to, p + STREAM_RUN_HEAD, payload);
        iwarp_guard_check(to, payload);
        run->fpdus++;
        run->payload += payload;
        run->last = len;
        run->last_payload = payload;
    }
}

/* [DDP-4.2-06] [DDP-7.1-08] [MPA-3-07] [MPA-6-01] */
size_t iwarp_stream_take_writes(struct iwarp_stream *s, const uint8_t *p, size_t n)
{
    struct run run = {.s = s, .p = p, .n = n};
    struct iwarp_stream_traffic *counts = &s->config.counts->rx;

    if (s->ddp.denied & IWARP_ACCESS_REMOTE_WRITE ||
        iwarp_peers_fpdu_is_early(s->config.strict, s->config.responder, s->tx.fpdus)) {
        return 0;
    }
    (void)iwarp_guard_batch(&run.range, take_run, &run); /* left: the next FPDU was not done */
    if (run.used > 0) {
        s->config.hold_tx = false; /* RFC 5044 7.1.2 rule 4 */
        s->rx.pos += run.used;
        s->rx.fpdu_pos = s->rx.pos - run.last;
        s->rx.fpdus += run.fpdus;
        /* The first may end a Write that earlier segments began: see count_written. */
        bool begun = run.fpdus == 1 && !s->rx.write_ended;
        s->rx.written = run.last_payload + (begun ? s->rx.written : 0);
        s->rx.write_ended = true;
        iwarp_count(&counts->fpdus, run.fpdus);
        iwarp_count(&counts->payload, run.payload);
        iwarp_count(&counts->messages[IWARP_OP_WRITE], run.fpdus);
    }
    return run.used;
}
