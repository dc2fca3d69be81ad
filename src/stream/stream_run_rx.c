/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving runs of RDMA Writes, see stream_run.h. This file makes each check that stream_rx.c,
 * stream_msg.c and ddp_place.c make of a Write, with the same predicates where it is arithmetic. An
 * FPDU that fails one is not touched. RFC 5044 4.4 and 6, RFC 5041 7.1, RFC
 * 5040 7.2.
 *
 * One guard covers the whole run. The run records its progress after each FPDU, so if a copy faults
 * only that FPDU is lost to the run; it then takes the general path, which reports the fault.
 */
#include "stream/stream_run.h"

#include "base/guard_copy.h"
#include "base/probe.h"
#include "mpa/crc32c.h"
#include "mpa/mpa_frame.h"
#include "peers/peers.h"

/* Prefetch distances, in FPDUs: first an STag's table entry, and, once that is in the cache, the
 * region that it points to. */
#define AHEAD_ENTRY  32u
#define AHEAD_REGION 16u

/*
 * A run in progress. The guard may leave take_run in the middle of a copy, so everything that must
 * survive is here, in memory, and not in a local variable. `range` is volatile, since the signal
 * handler reads it.
 */
struct run {
    volatile struct iwarp_guard_range range; /* the destination of the current FPDU */
    struct iwarp_stream *s;
    const uint8_t *p;
    size_t n;
    struct iwarp_region *region; /* that of `stag`, lent; NULL: none */
    uint32_t stag;
    /* prefetching, which begins with the second STag: */
    size_t seen_at;              /* offset of the first FPDU whose STag was not read yet */
    uint32_t stags[AHEAD_ENTRY]; /* ring of the STags read last */
    uint32_t seen, expected;     /* STags whose entry, or whose region, was prefetched */
    /* done: */
    size_t used;
    uint64_t fpdus, payload;
    uint32_t last, last_payload; /* octets of the last FPDU, and of its payload */
    bool open;                   /* that is not the last segment of its Write */
    uint64_t opens;              /* FPDUs that were not the last of theirs */
    uint32_t before;             /* octets of segments of a Write in front of FPDU `before_at` */
    uint64_t before_at;
};

static void settle(struct run *run)
{
    if (run->region) {
        iwarp_region_settle(run->region);
        run->region = NULL;
    }
}

/*
 * Lend the region that the peer may write to by this STag, if there is one. Payload is in place
 * before the next FPDU is looked at, so one at a time is enough.
 */
static void lend(struct run *run, uint32_t stag)
{
    const struct iwarp_ddp_rx *ddp = &run->s->ddp;

    settle(run);
    run->stag = stag;
    run->region = stag != 0 ? iwarp_region_lend(ddp->regions, stag) : NULL;
    if (run->region && !iwarp_ddp_may(run->region, ddp->pd, ddp->qp, IWARP_ACCESS_REMOTE_WRITE)) {
        settle(run);
    }
}

/*
 * Prefetch the table entry for one more FPDU. That FPDU is not checked yet, so nothing in it is
 * trusted: its STag is only a hint for the cache, and its length is clamped to what was received.
 */
static inline void see_next(struct run *run)
{
    const uint8_t *p = run->p + run->seen_at;
    size_t left = run->n - run->seen_at;

    if (left <= STREAM_RUN_HEAD + IWARP_MPA_CRC_LEN ||
        !iwarp_stream_run_control(p + IWARP_MPA_LEN_FIELD)) {
        return;
    }
    uint32_t len = iwarp_mpa_fpdu_len(iwarp_get_be16(p)), stag = iwarp_get_be32(p + 4);
    iwarp_region_expect(run->s->ddp.regions, stag);
    run->stags[run->seen++ % AHEAD_ENTRY] = stag;
    run->seen_at += len < left ? len : left;
}

static inline void expect_next(struct run *run)
{
    if (run->expected != run->seen) {
        iwarp_region_expect_more(run->s->ddp.regions, run->stags[run->expected++ % AHEAD_ENTRY]);
    }
}

/*
 * With many STags, table entries and regions are scattered over memory. A cache miss for each would
 * take longer than all other work on an FPDU. A run with one STag needs none of this.
 */
static void look_ahead(struct run *run)
{
    if (run->seen == 0) {
        run->seen_at = run->used;
        for (unsigned i = 0; i < AHEAD_ENTRY - 1; i++) {
            see_next(run);
        }
        for (unsigned i = 0; i < AHEAD_REGION - 1; i++) {
            expect_next(run);
        }
    }
    see_next(run);
    expect_next(run);
}

/* The length of the FPDU at p, which is whole, if its CRC is right; else 0. */
static uint32_t right_fpdu(const struct run *run, const uint8_t *p, uint32_t ulpdu)
{
    uint32_t len = iwarp_mpa_fpdu_len(ulpdu), crc_at = len - IWARP_MPA_CRC_LEN;

    return !run->s->config.crc || iwarp_crc32c(0, p, crc_at) == iwarp_get_le32(p + crc_at) ? len
                                                                                           : 0;
}

/* The payload is in place. Most Writes have one segment. */
static inline void count(struct run *run, bool open, uint32_t len, uint32_t payload)
{
    run->fpdus++;
    if (open || run->open) {
        run->before = run->open ? run->before + run->last_payload : 0;
        run->before_at = run->fpdus;
        run->open = open;
        run->opens += open;
    }
    run->payload += payload;
    run->last = len;
    run->last_payload = payload;
}

/*
 * The callback of the guard. Before each copy it sets `range` to that copy's destination; after the
 * copy it counts the FPDU. Nothing may be counted before that.
 */
static void take_run(void *arg)
{
    struct run *run = arg;
    bool many = false;
    uint32_t len, payload;

    for (; (payload = iwarp_stream_run_payload(run->p + run->used, run->n - run->used)) > 0;
         run->used += len) {
        const uint8_t *p = run->p + run->used;
        const bool open = iwarp_get_be16(p + IWARP_MPA_LEN_FIELD) != STREAM_RUN_CONTROL;
        len = right_fpdu(run, p, IWARP_DDP_TAGGED_HDR_LEN + payload);
        if (len == 0) {
            break;
        }
        /* Another thread may make the STag invalid at any time. The lent region then keeps its
         * memory, but its `stag` is cleared, which ends the use of it at the next FPDU. */
        uint32_t stag = iwarp_get_be32(p + 4);
        if (!run->region || run->stag != stag ||
            atomic_load_explicit(&run->region->stag, memory_order_relaxed) != stag) {
            many = many || run->region;
            lend(run, stag);
        }
        if (many) {
            look_ahead(run);
        }
        uint8_t *to =
            run->region ? iwarp_ddp_within(run->region, iwarp_get_be64(p + 8), payload) : NULL;
        if (!to) {
            break;
        }
        run->range.addr = to;
        run->range.n = payload;
        iwarp_guard_place(to, p + STREAM_RUN_HEAD, payload);
        iwarp_guard_check(to, payload);
        count(run, open, len, payload);
    }
}

/* The state of the stream changes here alone, after the guard, so a fault cannot leave it half
 * updated. */
/* [DDP-4.2-06] [DDP-7.1-08] [MPA-3-07] [MPA-6-01] */
size_t iwarp_stream_take_writes(struct iwarp_stream *s, const uint8_t *p, size_t n)
{
    struct run run = {
        .s = s, .p = p, .n = n, .open = !s->rx.write_ended, .last_payload = s->rx.written};
    struct iwarp_stream_traffic *counts = &s->config.counts->rx;

    if (s->config.plain || s->ddp.denied & IWARP_ACCESS_REMOTE_WRITE ||
        iwarp_peers_fpdu_is_early(s->config.strict, s->config.responder, s->tx.fpdus)) {
        return 0;
    }
    (void)iwarp_guard_batch(&run.range, take_run, &run); /* after a fault run.used is less */
    settle(&run);
    if (run.used > 0) {
        s->config.hold_tx = false; /* RFC 5044 7.1.2 rule 4 */
        s->rx.pos += run.used;
        s->rx.fpdu_pos = s->rx.pos - run.last;
        s->rx.fpdus += run.fpdus;
        s->rx.written = (run.before_at == run.fpdus ? run.before : 0) + run.last_payload;
        s->rx.write_ended = !run.open;
        s->rx.open = run.open;
        IWARP_PROBE4(fpdu_in, s, IWARP_OP_WRITE, run.payload, run.fpdus);
        iwarp_count(&counts->fpdus, run.fpdus);
        iwarp_count(&counts->payload, run.payload);
        iwarp_count(&counts->messages[IWARP_OP_WRITE], run.fpdus - run.opens);
    }
    return run.used;
}
