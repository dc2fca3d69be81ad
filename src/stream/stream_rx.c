/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving: octets in, payload in place. RFC 5044 6 (an FPDU is verified before its ULPDU is
 * passed on), RFC 5041 7.1, RFC 5040 5.
 *
 * An FPDU that lies whole in the octets fed is processed in place. One that arrives in pieces is
 * either collected first (verified placement: `carry`), or its payload goes directly to its
 * destination and the CRC is computed over it there (early placement, or no CRC). Only Sends,
 * Writes and Read Responses of at least DIRECT_MIN octets are placed directly; everything else is
 * small and is collected. With markers every FPDU is collected, and its markers are removed after
 * the CRC was found right.
 *
 * Octets that the transport lends come by way of stream_lent.c. The meaning of a segment, once its
 * header is decoded, is in stream_msg.c.
 */
#include "stream/stream_msg.h"
#include "stream/stream_run.h"

#include "base/guard.h"
#include "mpa/crc32c.h"
#include "mpa/mpa_frame.h"
#include "mpa/mpa_marker.h"
#include "peers/peers.h"

#include <assert.h>

/* Payload below this is collected even if it could be placed directly: a copy costs less than one
 * more read. */
#define DIRECT_MIN 512

/* Staging that a driver should offer behind a direct payload: for its trailer and the next header,
 * or for as much as the driver has. */
#define STAGING_SMALL 32
#define STAGING_FULL  SIZE_MAX

/* In every other state of life received octets are counted and dropped. */
/* [MPA-8-07] [RDMAP-7.1-05] [DDP-3-08] [DDP-3-09] [DDP-7.1-16] [RDMAP-7-01] [RDMAP-7-02] */
static bool may_receive(const struct iwarp_stream *s)
{
    return s->life == STREAM_RUNNING || s->life == STREAM_CLOSING;
}

/* --- whole FPDUs ----------------------------------------------------------------------------- */

/* Is the CRC of a directly placed FPDU still to be checked? */
static bool checks(const struct iwarp_stream *s)
{
    return s->config.crc && !s->rx.verified;
}

/* `field` is the CRC as received. The fault keeps both values and the position of the FPDU. */
/* [MPA-4.1-04] [MPA-4.4-08] [MPA-7.1.1-09] [MPA-4.4-06] [MPA-4.4-07] [MPA-4.4-14] [MPA-6-03] */
/* [DDP-3-06] */
static bool crc_ok(struct iwarp_stream *s, uint32_t computed, const uint8_t *field)
{
    uint32_t got = iwarp_get_le32(field);

    if (!s->config.crc || computed == got) {
        return true;
    }
    iwarp_fault_set(&s->fault, IWARP_FAULT_MPA_CRC, IWARP_SIDE_LOCAL, s->rx.fpdu_pos, got,
                    computed);
    return false;
}

/* An FPDU of a responder before this initiator has sent one: allowed to known peers only. */
static bool too_early(const struct iwarp_stream *s)
{
    return iwarp_peers_fpdu_is_early(s->config.strict, s->config.responder, s->tx.fpdus);
}

/*
 * The FPDU is valid, CRC and all. From the first such one on a responder may send, and not before:
 * RFC 5044 7.1.2 rule 4. False: fault.
 */
/* [MPA-7.1.2-14] */
static bool validated(struct iwarp_stream *s)
{
    s->config.hold_tx = false;
    if (too_early(s)) {
        iwarp_fault_set(&s->fault, IWARP_FAULT_MPA_EARLY_FPDU, IWARP_SIDE_LOCAL, 0, 0, 0);
        return false;
    }
    return true;
}

/* An FPDU of len octets, without markers, lies whole at p. False: fault. */
/* [MPA-3-07] [MPA-6-01] [MPA-4.4-13] [MPA-4.1-03] [MPA-4.3-11] [DDP-3-07] */
static bool take_fpdu(struct iwarp_stream *s, const uint8_t *p, uint32_t len)
{
    uint32_t crc_at = len - IWARP_MPA_CRC_LEN;

    if (!crc_ok(s, s->config.crc ? iwarp_crc32c(0, p, crc_at) : 0, p + crc_at)) {
        return false;
    }
    return validated(s) && iwarp_stream_take_segment(s, p + IWARP_MPA_LEN_FIELD, iwarp_get_be16(p));
}

/* The FPDU's length by its first two octets; 0 and a fault if it is more than MPA allows. */
/* [MPA-5.2-01] [MPA-6-04] */
static uint32_t fpdu_len(struct iwarp_stream *s, const uint8_t *p)
{
    uint32_t ulpdu = iwarp_get_be16(p);

    if (ulpdu > IWARP_MPA_ULPDU_MAX) {
        iwarp_fault_set(&s->fault, IWARP_FAULT_MPA_ULPDU_LEN, IWARP_SIDE_LOCAL, ulpdu,
                        s->rx.fpdu_pos, IWARP_MPA_ULPDU_MAX);
        return 0;
    }
    return iwarp_mpa_fpdu_len(ulpdu);
}

/* --- FPDUs in pieces ------------------------------------------------------------------------- */

/* Octets of a marker in front of the current FPDU's length field: a marker belongs to the FPDU that
 * follows it. */
static uint32_t lead_len(const struct iwarp_stream *s)
{
    return s->config.markers_rx ? iwarp_mpa_marker_left(s->rx.fpdu_pos) : 0;
}

/*
 * Octets that must be in `head` before the next decision: first the length field and the control
 * octet, which tells the header's length; then the header, or the whole FPDU if it is shorter than
 * that. With markers the length field is enough, since the FPDU is collected in any case.
 */
static uint32_t head_need(const struct iwarp_stream *s)
{
    const struct iwarp_stream_rx *rx = &s->rx;

    if (s->config.markers_rx) {
        return lead_len(s) + IWARP_MPA_LEN_FIELD;
    }
    if (rx->head_len <= IWARP_MPA_LEN_FIELD) {
        return IWARP_MPA_LEN_FIELD + 1;
    }
    uint32_t header = IWARP_MPA_LEN_FIELD + iwarp_ddp_header_len(rx->head[IWARP_MPA_LEN_FIELD]);
    uint32_t whole = iwarp_mpa_fpdu_len(iwarp_get_be16(rx->head));
    return header < whole ? header : whole;
}

/*
 * The buffer has exactly the size of the FPDU and counts against max_buffer_bytes, so a peer that
 * sends many beginnings and no ends is bounded. Lack of memory is a fault of this end.
 */
static void begin_carry(struct iwarp_stream *s, uint32_t len)
{
    struct iwarp_stream_rx *rx = &s->rx;
    bool over = false;

    rx->carry = iwarp_budget_alloc(s->config.budget, len, &over);
    if (!rx->carry) {
        iwarp_fault_set(&s->fault,
                        over ? IWARP_FAULT_LOCAL_BUFFER_LIMIT : IWARP_FAULT_LOCAL_NO_MEMORY,
                        IWARP_SIDE_LOCAL, len, s->config.budget->limit, 0);
        iwarp_stream_fail(s);
        return;
    }
    rx->fpdu_len = len;
    memcpy(rx->carry, rx->head, rx->head_len);
    rx->carry_len = rx->head_len;
    rx->head_len = 0;
    rx->state = RX_CARRY;
}

/*
 * Begin direct placement if the header passes every check. A header that fails one may be corrupted
 * on its way: its FPDU is collected, so that a wrong CRC is reported as such, and the fault found
 * here is dropped. The target is not kept, only checked: rest_of_payload computes it for each read.
 */
static bool begin_direct(struct iwarp_stream *s)
{
    struct iwarp_stream_rx *rx = &s->rx;
    struct iwarp_fault unused = {.code = IWARP_FAULT_NONE};
    struct iwarp_ddp_target target;

    if ((checks(s) && !s->config.early) || s->config.markers_rx || too_early(s)) {
        return false;
    }
    uint32_t ulpdu = iwarp_get_be16(rx->head);
    uint32_t header_len = iwarp_ddp_header_len(rx->head[IWARP_MPA_LEN_FIELD]);
    if (ulpdu < header_len || ulpdu - header_len < DIRECT_MIN) {
        return false;
    }
    iwarp_ddp_header_get(rx->head + IWARP_MPA_LEN_FIELD, &rx->header);
    rx->payload_len = ulpdu - header_len;
    bool good = iwarp_stream_target(s, &rx->header, rx->payload_len, &target, &unused);
    iwarp_lends_settle(s->ddp.lends);
    if (!good || target.n == 0) {
        return false;
    }
    rx->payload_done = 0;
    rx->crc = checks(s) ? iwarp_crc32c(0, rx->head, rx->head_len) : 0;
    rx->state = RX_PAYLOAD;
    return true;
}

/* The end of one FPDU is the begin of the next: MPA has no other framing. */
/* [MPA-6-02] */
static void next_fpdu(struct iwarp_stream *s)
{
    s->rx.state = RX_HEAD;
    s->rx.head_len = 0;
    s->rx.fpdu_pos = s->rx.pos;
}

/* Like take_fpdu, for a collected FPDU with markers. The CRC covers markers as received (RFC 5044
 * erratum 1427), so it is checked before they are removed. */
static bool take_marked_fpdu(struct iwarp_stream *s, uint8_t *p, uint32_t len)
{
    uint32_t crc_at = len - IWARP_MPA_CRC_LEN;
    uint32_t ulpdu = iwarp_get_be16(p + lead_len(s));

    if (!crc_ok(s, s->config.crc ? iwarp_crc32c(0, p, crc_at) : 0, p + crc_at) ||
        !iwarp_mpa_marker_strip(p, p, s->rx.fpdu_pos, iwarp_mpa_fpdu_len(ulpdu), &s->fault)) {
        return false;
    }
    return validated(s) && iwarp_stream_take_segment(s, p + IWARP_MPA_LEN_FIELD, ulpdu);
}

/* The carry is taken from the stream before it is processed: if a fault ends the stream, rx_release
 * must not free it. */
static void carry_complete(struct iwarp_stream *s)
{
    struct iwarp_stream_rx *rx = &s->rx;
    uint8_t *fpdu = rx->carry;
    bool good = s->config.markers_rx ? take_marked_fpdu(s, fpdu, rx->fpdu_len)
                                     : take_fpdu(s, fpdu, rx->fpdu_len);

    rx->carry = NULL;
    iwarp_budget_free(s->config.budget, fpdu, rx->fpdu_len);
    next_fpdu(s);
    if (!good) {
        iwarp_stream_fail(s);
    }
}

/* The length and, without markers, the DDP header are in `head`. */
static void head_complete(struct iwarp_stream *s)
{
    uint32_t len = fpdu_len(s, s->rx.head + lead_len(s));

    if (len == 0) {
        iwarp_stream_fail(s);
    } else if (!begin_direct(s)) {
        len = s->config.markers_rx ? iwarp_mpa_marked_len(s->rx.fpdu_pos, len) : len;
        begin_carry(s, len);
        if (s->rx.carry && s->rx.carry_len == len) { /* shorter than a DDP header: here already */
            carry_complete(s);
        }
    }
}

static size_t feed_head(struct iwarp_stream *s, const uint8_t *p, size_t n)
{
    struct iwarp_stream_rx *rx = &s->rx;
    size_t used = 0;

    if (rx->head_len == 0) {
        rx->fpdu_pos = rx->pos;
    }
    while (used < n) {
        uint32_t need = head_need(s);
        if (rx->head_len == need) {
            break;
        }
        size_t take = need - rx->head_len < n - used ? need - rx->head_len : n - used;
        memcpy(rx->head + rx->head_len, p + used, take);
        rx->head_len += (uint32_t)take;
        used += take;
    }
    rx->pos += used;
    if (rx->head_len == head_need(s)) {
        head_complete(s);
    }
    return used;
}

/* [MPA-5.1-05] [MPA-A.4-01] [DDP-3-04] [MPA-6-05] */
static size_t feed_carry(struct iwarp_stream *s, const uint8_t *p, size_t n)
{
    struct iwarp_stream_rx *rx = &s->rx;
    size_t take = rx->fpdu_len - rx->carry_len < n ? rx->fpdu_len - rx->carry_len : n;

    memcpy(rx->carry + rx->carry_len, p, take);
    rx->carry_len += (uint32_t)take;
    rx->pos += take;
    if (rx->carry_len == rx->fpdu_len) {
        carry_complete(s);
    }
    return take;
}

/* --- direct placement ------------------------------------------------------------------------ */

/* For a Terminate: the headers of the segment that caused the fault, encoded again, since a segment
 * that was placed directly was never whole in one place. RFC 5040 4.8. */
static void remember_direct(struct iwarp_stream *s)
{
    struct iwarp_term_cause *c = &s->cause;
    uint32_t header_len = iwarp_ddp_header_put(c->header, &s->rx.header);

    c->header[0] = s->rx.header.control; /* as received, with its reserved bits */
    c->segment_len = (uint16_t)(header_len + s->rx.payload_len);
    c->ddp_header_len = (uint8_t)header_len;
    c->read_request = false;
}

/*
 * Where the rest of the current payload belongs. The destination is computed anew each time, so
 * that memory which was deregistered in between is noticed. False: fault.
 */
static bool rest_of_payload(struct iwarp_stream *s, struct iwarp_ddp_target *t)
{
    size_t skip = s->rx.payload_done;
    unsigned first = 0;

    if (!iwarp_stream_target(s, &s->rx.header, s->rx.payload_len, t, &s->fault)) {
        remember_direct(s);
        iwarp_stream_blame_sink(s, &s->rx.header);
        return false;
    }
    while (skip >= t->iov[first].iov_len) {
        skip -= t->iov[first++].iov_len;
    }
    t->n -= first;
    for (unsigned i = 0; i < t->n; i++) {
        t->iov[i] = t->iov[first + i];
    }
    t->iov[0] = (struct iovec){(uint8_t *)t->iov[0].iov_base + skip, t->iov[0].iov_len - skip};
    return true;
}

struct crc_pass {
    uint32_t crc;
    const void *p;
    size_t n;
};

static void crc_pass(void *arg)
{
    struct crc_pass *c = arg;
    c->crc = iwarp_crc32c(c->crc, c->p, c->n);
}

/* The region is valid, but the application has unmapped or truncated the memory. Always false. */
static bool memory_gone(struct iwarp_stream *s, const void *p, size_t n)
{
    iwarp_fault_set(&s->fault, IWARP_FAULT_LOCAL_MEMORY, IWARP_SIDE_LOCAL, (uint64_t)(uintptr_t)p,
                    n, 0);
    return false;
}

/*
 * n payload octets: copy them from `from` to their places, or, if `from` is NULL and they are there
 * already, compute the CRC over them in place. The target's regions are lent. False: fault.
 */
static bool land(struct iwarp_stream *s, const struct iwarp_ddp_target *t, const uint8_t *from,
                 size_t n)
{
    for (unsigned i = 0; n > 0; i++) {
        size_t take = t->iov[i].iov_len < n ? t->iov[i].iov_len : n;
        if (from) {
            s->rx.crc = checks(s) ? iwarp_crc32c(s->rx.crc, from, take) : 0;
            if (iwarp_guard_copy_to(t->iov[i].iov_base, from, take) != 0) {
                return memory_gone(s, t->iov[i].iov_base, take);
            }
            from += take;
        } else if (s->config.crc) {
            struct crc_pass c = {s->rx.crc, t->iov[i].iov_base, take};
            if (iwarp_guard_run(c.p, c.n, crc_pass, &c) != 0) {
                return memory_gone(s, c.p, c.n);
            }
            s->rx.crc = c.crc;
        }
        n -= take;
    }
    return true;
}

static void payload_arrived(struct iwarp_stream *s, const struct iwarp_ddp_target *t,
                            const uint8_t *from, size_t n)
{
    struct iwarp_stream_rx *rx = &s->rx;

    rx->pos += n;
    if (!land(s, t, from, n)) {
        iwarp_stream_fail(s);
        return;
    }
    rx->payload_done += (uint32_t)n;
    rx->direct += from ? 0 : n;
    if (rx->payload_done == rx->payload_len) {
        rx->state = RX_TRAILER;
        rx->head_len = 0;
    }
}

static size_t feed_payload(struct iwarp_stream *s, const uint8_t *p, size_t n)
{
    struct iwarp_ddp_target t;
    size_t left = s->rx.payload_len - s->rx.payload_done;
    size_t take = left < n ? left : n;

    if (!rest_of_payload(s, &t)) {
        s->rx.pos += take;
        iwarp_stream_fail(s);
        return take;
    }
    payload_arrived(s, &t, p, take);
    return take;
}

/* Padding and CRC behind a payload that was placed directly. Only now is the segment delivered:
 * until here nothing but memory that the peer may write has changed. */
static size_t feed_trailer(struct iwarp_stream *s, const uint8_t *p, size_t n)
{
    struct iwarp_stream_rx *rx = &s->rx;
    uint32_t pad = (uint32_t)(-(IWARP_MPA_LEN_FIELD + iwarp_ddp_header_len(rx->header.control) +
                                rx->payload_len)) &
                   3u;
    size_t take = pad + IWARP_MPA_CRC_LEN - rx->head_len;

    take = take < n ? take : n;
    memcpy(rx->head + rx->head_len, p, take);
    rx->head_len += (uint32_t)take;
    rx->pos += take;
    if (rx->head_len == pad + IWARP_MPA_CRC_LEN) {
        uint32_t crc = checks(s) ? iwarp_crc32c(rx->crc, rx->head, pad) : 0;
        bool good = (rx->verified || crc_ok(s, crc, rx->head + pad)) && validated(s);
        if (good && !iwarp_stream_deliver(s, &rx->header, rx->payload_len, NULL)) {
            remember_direct(s);
            good = false;
        }
        next_fpdu(s);
        if (!good) {
            iwarp_stream_fail(s);
        }
    }
    return take;
}

/* --- the three calls ------------------------------------------------------------------------- */

/* Process the whole FPDUs at the front of what was fed, in place. Returns their octets. `pos` moves
 * before each FPDU is taken, so that a fault reports the position behind it. */
static size_t feed_whole(struct iwarp_stream *s, const uint8_t *p, size_t n)
{
    size_t used = 0;

    while (n - used >= IWARP_MPA_LEN_FIELD && may_receive(s)) {
        size_t run = iwarp_stream_run_payload(p + used, n - used) > 0
                         ? iwarp_stream_take_writes(s, p + used, n - used)
                         : 0;
        if (run > 0) {
            used += run;
            continue;
        }
        s->rx.fpdu_pos = s->rx.pos;
        uint32_t len = fpdu_len(s, p + used);
        if (len == 0) {
            iwarp_stream_fail(s);
            break;
        }
        if (len > n - used) {
            break;
        }
        s->rx.pos += len;
        if (!take_fpdu(s, p + used, len)) {
            iwarp_stream_fail(s);
        }
        used += len;
    }
    return used;
}

static size_t feed_step(struct iwarp_stream *s, const uint8_t *p, size_t n)
{
    switch (s->rx.state) {
    case RX_HEAD:
        if (s->rx.head_len == 0 && !s->config.markers_rx) {
            size_t used = feed_whole(s, p, n);
            if (used > 0 || !may_receive(s)) {
                return used;
            }
        }
        return feed_head(s, p, n);
    case RX_CARRY:
        return feed_carry(s, p, n);
    case RX_PAYLOAD:
        return feed_payload(s, p, n);
    case RX_TRAILER:
        return feed_trailer(s, p, n);
    }
    return n;
}

size_t iwarp_stream_feed_whole(struct iwarp_stream *s, const void *data, size_t n)
{
    struct iwarp_lends lends;

    lends.n = 0;
    s->ddp.lends = &lends;
    size_t used = feed_whole(s, data, n);
    iwarp_count(&s->config.counts->rx.octets, used);
    iwarp_lends_settle(s->ddp.lends);
    s->ddp.lends = NULL;
    return used;
}

void iwarp_stream_feed(struct iwarp_stream *s, const void *data, size_t n)
{
    const uint8_t *p = data;
    struct iwarp_lends lends;

    lends.n = 0;
    s->ddp.lends = &lends;
    iwarp_count(&s->config.counts->rx.octets, n);
    while (n > 0 && may_receive(s)) {
        size_t used = feed_step(s, p, n);
        p += used;
        n -= used;
    }
    s->rx.pos += n; /* left over once the stream has ended: counted, dropped; RFC 5041 6.2 */
    iwarp_lends_settle(s->ddp.lends);
    s->ddp.lends = NULL;
}

/* Messages wait for receives, and so may those that are read now: no more than may be held. */
static size_t room_to_hold(const struct iwarp_stream *s)
{
    return iwarp_stream_full(s) ? 0 : s->hold.room - s->hold.octets;
}

unsigned iwarp_stream_want(struct iwarp_stream *s, struct iwarp_lends *lends, struct iovec *iov,
                           unsigned max, size_t *staging)
{
    struct iwarp_ddp_target t;

    lends->n = 0;
    s->ddp.lends = lends;
    *staging = s->hold.first ? room_to_hold(s) : STAGING_FULL;
    if (!may_receive(s)) {
        return 0;
    }
    if (s->rx.state == RX_CARRY) {
        iov[0] = (struct iovec){s->rx.carry + s->rx.carry_len, s->rx.fpdu_len - s->rx.carry_len};
        return 1;
    }
    if (s->rx.state != RX_PAYLOAD) {
        return 0;
    }
    if (!rest_of_payload(s, &t)) {
        iwarp_stream_fail(s);
        return 0;
    }
    unsigned n = t.n < max ? t.n : max;
    for (unsigned i = 0; i < n; i++) {
        iov[i] = t.iov[i];
    }
    /* Behind a large FPDU another is likely: little staging, so that its payload is not copied.
     * Small FPDUs: much staging, so that one read brings many. */
    *staging = n < t.n ? 0 : s->rx.payload_len >= 8192 ? STAGING_SMALL : STAGING_FULL;
    return n;
}

/* The target is computed anew: its lends are those that `want` took, so the answer is the same
 * unless the region was made invalid meanwhile. */
void iwarp_stream_placed(struct iwarp_stream *s, size_t n)
{
    struct iwarp_ddp_target t;

    iwarp_count(&s->config.counts->rx.octets, n);
    if (n > 0 && s->rx.state == RX_CARRY) {
        s->rx.carry_len += (uint32_t)n;
        s->rx.pos += n;
        if (s->rx.carry_len == s->rx.fpdu_len) {
            carry_complete(s);
        }
    } else if (n > 0 && s->rx.state == RX_PAYLOAD) {
        if (rest_of_payload(s, &t)) {
            payload_arrived(s, &t, NULL, n);
        } else {
            s->rx.pos += n;
            iwarp_stream_fail(s);
        }
    }
    iwarp_lends_settle(s->ddp.lends);
    s->ddp.lends = NULL;
}
