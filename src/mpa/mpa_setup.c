/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA start-up, revisions 1 and 2, both roles: frame codec, checks, and the rules by which both
 * ends come to the same CRC, marker, read depth and RTR choice. What is done for the sake of real
 * peers is in peers/peers.h. Closing the connection, time-outs, a Terminate, and holding the
 * responder's FPDUs back are the caller's.
 *
 * RFC 5044 7.1.1 and 7.1.2, RFC 6581 6, 9 and 10.
 */
#include "mpa/mpa_setup.h"

#include "base/bytes.h"
#include "base/limits.h"
#include "peers/peers.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define UNSPECIFIED IWARP_MPA_DEPTH_UNSPECIFIED
#define RTR_ALL     (IWARP_RTR_SEND | IWARP_RTR_WRITE | IWARP_RTR_READ)

/* --- codec ----------------------------------------------------------------------------------- */

/* Offsets within a frame. */
/* The first octets of TLS: its records begin with their type (RFC 8446 5.1). */
enum { TLS_ALERT = 21, TLS_HANDSHAKE = 22 };

enum { AT_FLAGS = 16, AT_REV = 17, AT_PD_LEN = 18, AT_IRD = 20, AT_ORD = 22 };

_Static_assert(AT_PD_LEN + 2 == IWARP_MPA_FRAME_HDR_LEN, "the private data follows its length");
_Static_assert(AT_ORD + 2 == IWARP_MPA_FRAME_HDR_LEN + IWARP_MPA_ENHANCED_LEN, "two words");

/* A frame in plain numbers; the depths and what follows them only if enhanced. */
struct frame {
    uint8_t flags, rev;
    uint16_t pd_len;
    bool enhanced;
    bool peer_to_peer;
    uint8_t rtr;
    uint16_t ird, ord;
};

/* [MPA2-6-07] */
static void header_decode(const uint8_t *p, struct frame *f)
{
    *f = (struct frame){.flags = p[AT_FLAGS], .rev = p[AT_REV]};
    f->pd_len = iwarp_get_be16(p + AT_PD_LEN);
    /* Revision 1 knows no S: the bit is reserved and not checked. [MPA-7.1.1-13] RFC 6581 6 */
    f->enhanced = f->rev >= 2 && (f->flags & IWARP_MPA_FLAG_ENHANCED);
}

/* The whole frame; the header was found valid, so that an enhanced one has its words. */
static void frame_decode(const uint8_t *p, struct frame *f)
{
    header_decode(p, f);
    if (!f->enhanced) {
        return;
    }
    unsigned ird = iwarp_get_be16(p + AT_IRD), ord = iwarp_get_be16(p + AT_ORD);
    f->ird = ird & IWARP_MPA_DEPTH_MASK;
    f->ord = ord & IWARP_MPA_DEPTH_MASK;
    f->peer_to_peer = ird & IWARP_MPA_IRD_PEER_TO_PEER;
    if (f->peer_to_peer) { /* otherwise B, C and D mean nothing. [MPA2-9.2-14] RFC 6581 9.2 */
        f->rtr = (uint8_t)((ird & IWARP_MPA_IRD_RTR_SEND ? IWARP_RTR_SEND : 0) |
                           (ord & IWARP_MPA_ORD_RTR_WRITE ? IWARP_RTR_WRITE : 0) |
                           (ord & IWARP_MPA_ORD_RTR_READ ? IWARP_RTR_READ : 0));
    }
}

/* f->pd_len is that of the ULP here; returns the frame's length, or 0 if it is too long. */
/* [MPA-7.1.1-18] */
static size_t frame_encode(const char *key, const struct frame *f, const void *pd, uint8_t *out)
{
    size_t words = f->enhanced ? IWARP_MPA_ENHANCED_LEN : 0;

    memcpy(out, key, IWARP_MPA_KEY_LEN);
    /* Reserved bits are zero: nobody sets them in f->flags. [MPA-7.1.1-12] [MPA2-6-06] */
    out[AT_FLAGS] = (uint8_t)(f->flags | (f->enhanced ? IWARP_MPA_FLAG_ENHANCED : 0));
    out[AT_REV] = f->rev;
    iwarp_put_be16(out + AT_PD_LEN, (uint16_t)(words + f->pd_len)); /* [MPA2-6-05] */
    if (f->enhanced) {
        unsigned ird = f->ird, ord = f->ord;
        if (f->peer_to_peer) { /* B, C and D are 0 without A. [MPA2-9.2-13] */
            ird |= IWARP_MPA_IRD_PEER_TO_PEER;
            ird |= f->rtr & IWARP_RTR_SEND ? IWARP_MPA_IRD_RTR_SEND : 0;
            ord |= f->rtr & IWARP_RTR_WRITE ? IWARP_MPA_ORD_RTR_WRITE : 0;
            ord |= f->rtr & IWARP_RTR_READ ? IWARP_MPA_ORD_RTR_READ : 0;
        }
        iwarp_put_be16(out + AT_IRD, (uint16_t)ird); /* [MPA2-9-01] */
        iwarp_put_be16(out + AT_ORD, (uint16_t)ord);
    }
    if (f->pd_len > 0) {
        memcpy(out + IWARP_MPA_FRAME_HDR_LEN + words, pd, f->pd_len);
    }
    return IWARP_MPA_FRAME_HDR_LEN + words + f->pd_len;
}

/* Is there room for the ULP's private data? [MPA-7.1.1-21] [MPA2-9-02] RFC 6581 9 */
static bool pd_fits(size_t pd_len, bool enhanced)
{
    return pd_len <= IWARP_MPA_PRIVATE_DATA_MAX - (enhanced ? IWARP_MPA_ENHANCED_LEN : 0);
}

/* --- wishes ---------------------------------------------------------------------------------- */

static uint16_t depth_legal(uint16_t depth)
{
    return depth > UNSPECIFIED ? UNSPECIFIED - 1 : depth;
}

static void wish_set(struct iwarp_mpa_setup *s, const struct iwarp_mpa_wish *wish, uint8_t rev)
{
    struct iwarp_mpa_wish *w = &s->wish;

    *w = *wish;
    w->rev = rev;
    w->rtr &= RTR_ALL;
    w->ird = depth_legal(w->ird);
    w->ord = depth_legal(w->ord);
    if (s->role == IWARP_MPA_RESPONDER) {
        if (w->rtr == IWARP_RTR_NONE) { /* at least one is a MUST. [MPA2-9.2-03] RFC 6581 9.2 */
            w->rtr = RTR_ALL;
        }
        return;
    }
    if (w->rtr == IWARP_RTR_NONE) {
        w->rtr = IWARP_PEERS_RTR_OFFER;
    }
    if (w->rev < 2) { /* no enhanced feature before 2. [MPA2-6-02] RFC 6581 6 */
        w->peer_to_peer = false;
    }
    if (w->peer_to_peer && (w->rtr & IWARP_RTR_READ)) {
        w->ord = iwarp_peers_rtr_depth(w->ord); /* [MPA2-9.1-03] RFC 6581 9.1 */
    }
}

void iwarp_mpa_setup_init(struct iwarp_mpa_setup *s, enum iwarp_mpa_role role,
                          const struct iwarp_mpa_wish *wish)
{
    memset(s, 0, sizeof *s);
    s->role = role;
    s->need = IWARP_MPA_FRAME_HDR_LEN;
    wish_set(s, wish, wish->rev == 1 ? 1 : 2);
}

/* --- what is settled ------------------------------------------------------------------------- */

static void fail(struct iwarp_mpa_setup *s, enum iwarp_fault_code code, uint64_t d0, uint64_t d1,
                 uint64_t d2)
{
    s->step = IWARP_MPA_FAULT;
    iwarp_fault_set(&s->fault, code, IWARP_SIDE_LOCAL, d0, d1, d2);
    s->fault.rx_pos = s->have;
}

/* The smaller depth; 0x3fff, the largest number, needs no special case. */
static uint16_t depth_min(uint16_t a, uint16_t b)
{
    return a < b ? a : b;
}

/* What both roles take over from any valid frame, and the depths of an unenhanced one. */
static void settle_basics(struct iwarp_mpa_setup *s, const struct frame *peer)
{
    const struct iwarp_mpa_wish *wish = &s->wish;

    s->settled = (struct iwarp_mpa_settled){
        .rev = peer->rev, /* reported to the ULP. [MPA-7.1.1-17] */
        /* One C=1 is enough. [MPA-4.4-04] [MPA-7.1.1-07] [MPA-7.1.1-08] RFC 5044 7.1.1 */
        .crc = wish->crc || (peer->flags & IWARP_MPA_FLAG_CRC),
        /* Two switches, one per direction. [MPA-7.1.1-05] [MPA-7.1.1-06] RFC 5044 7.1.1 */
        .markers_rx = wish->markers_rx,
        .markers_tx = peer->flags & IWARP_MPA_FLAG_MARKERS,
        .enhanced = peer->enhanced,
        .peer_to_peer = peer->peer_to_peer,
        .ird = peer->enhanced ? wish->ird
                              : iwarp_peers_ird_unannounced(
                                    wish->strict, s->role == IWARP_MPA_RESPONDER, wish->ird),
        .ord = wish->ord,
        .peer_ird = peer->ird, /* for the ULP too. [MPA2-9.1-01] [MPA2-9.1-10] RFC 6581 9.1 */
        .peer_ord = peer->ord,
    };
}

/*
 * The responder's depths and RTR. IRD follows the Request's ORD as far as this end can, ORD never
 * exceeds the Request's IRD, and 0x3fff leaves the local value alone. RFC 6581 9.1, 9.2
 */
static void settle_responder(struct iwarp_mpa_setup *s)
{
    struct iwarp_mpa_settled *t = &s->settled;
    struct frame peer;

    frame_decode(s->frame, &peer);
    settle_basics(s, &peer);
    if (!peer.enhanced) {
        return;
    }
    if (t->ird != UNSPECIFIED) { /* [MPA2-9.1-11] */
        t->ird = depth_min(t->ird, peer.ord);
    }
    t->ord = depth_min(t->ord, peer.ird); /* [MPA2-9.1-02] [MPA2-9.1-04] [MPA2-9.1-13] */
    if (!peer.peer_to_peer) {
        return;
    }
    /* One of those offered, else any that is possible. [MPA2-9.2-06] [MPA2-9.2-08] */
    t->rtr = iwarp_peers_rtr_pick(peer.rtr & s->wish.rtr);
    if (t->rtr == IWARP_RTR_NONE) {
        t->rtr = iwarp_peers_rtr_pick(s->wish.rtr);
    }
    if (t->rtr == IWARP_RTR_READ) {
        t->ird = iwarp_peers_rtr_depth(t->ird);
    }
}

/* The initiator's depths. RFC 6581 9.1 */
static bool settle_initiator_depths(struct iwarp_mpa_setup *s, const struct frame *reply)
{
    struct iwarp_mpa_settled *t = &s->settled;
    uint16_t limit = t->ird == UNSPECIFIED ? IWARP_MAX_READ_DEPTH : t->ird;

    t->ord = depth_min(t->ord, reply->ird); /* [MPA2-9.1-08] [MPA2-9.1-12] */
    if (reply->ord == UNSPECIFIED) {        /* [MPA2-9.1-14] */
        return true;
    }
    if (reply->ord > limit) { /* [MPA2-9.1-06] [MPA2-9.1-09] */
        fail(s, IWARP_FAULT_MPA_IRD_INSUFFICIENT, reply->ord, limit, 0);
        return false;
    }
    if (t->ird == UNSPECIFIED) {
        t->ird = reply->ord; /* [MPA2-9.1-07] */
    }
    return true;
}

/* An accepting Reply, properly formatted. */
static void settle_initiator(struct iwarp_mpa_setup *s, const struct frame *reply)
{
    struct iwarp_mpa_settled *t = &s->settled;
    unsigned common = reply->rtr & s->wish.rtr;

    if (!reply->enhanced) {
        s->step = IWARP_MPA_FRAME;
        return;
    }
    if (reply->peer_to_peer != s->wish.peer_to_peer) {
        fail(s, IWARP_FAULT_MPA_RTR_MISMATCH, reply->peer_to_peer, s->wish.peer_to_peer, 0);
        return;
    }
    if (!settle_initiator_depths(s, reply)) {
        return;
    }
    if (reply->peer_to_peer) {
        if (t->ord == 0) { /* a Read as RTR would break the peer's own limit */
            common &= ~(unsigned)IWARP_RTR_READ;
        }
        t->rtr = iwarp_peers_rtr_pick(common); /* [MPA2-9.2-09] */
        if (t->rtr == IWARP_RTR_NONE) {        /* [MPA2-9.2-10] */
            fail(s, IWARP_FAULT_MPA_NO_RTR, s->wish.rtr, reply->rtr, reply->ird);
            return;
        }
    }
    s->step = IWARP_MPA_FRAME;
}

/* --- sending --------------------------------------------------------------------------------- */

/* [MPA2-10-03] */
size_t iwarp_mpa_setup_request(const struct iwarp_mpa_setup *s, const void *pd, size_t pd_len,
                               uint8_t *out)
{
    const struct iwarp_mpa_wish *wish = &s->wish;
    bool enhanced = wish->rev >= 2;

    if (s->role != IWARP_MPA_INITIATOR || !pd_fits(pd_len, enhanced)) {
        return 0;
    }
    struct frame f = {
        .flags = (uint8_t)((wish->markers_rx ? IWARP_MPA_FLAG_MARKERS : 0) |
                           (wish->crc ? IWARP_MPA_FLAG_CRC : 0)), /* R is 0. [MPA-7.1.1-10] */
        .rev = wish->rev,                                         /* [MPA-7.1.1-14] [MPA2-6-02] */
        .pd_len = (uint16_t)pd_len,
        .enhanced = enhanced,
        .peer_to_peer = wish->peer_to_peer, /* [MPA2-9.2-01] [MPA2-9.2-11] */
        .rtr = wish->rtr,                   /* [MPA2-9.2-02] */
        .ird = wish->ird,
        .ord = wish->ord,
    };
    return frame_encode(IWARP_MPA_KEY_REQUEST, &f, pd, out); /* [MPA-7.1.1-01] */
}

size_t iwarp_mpa_setup_reply(struct iwarp_mpa_setup *s, bool reject,
                             const struct iwarp_mpa_wish *wish, const void *pd, size_t pd_len,
                             uint8_t *out)
{
    struct iwarp_mpa_settled *t = &s->settled;

    if (s->role != IWARP_MPA_RESPONDER || s->step != IWARP_MPA_FRAME ||
        !pd_fits(pd_len, t->enhanced)) {
        return 0;
    }
    if (wish) {
        wish_set(s, wish, s->wish.rev);
    }
    settle_responder(s);

    struct frame f = {
        .flags = (uint8_t)((t->crc ? IWARP_MPA_FLAG_CRC : 0) |
                           (reject ? IWARP_MPA_FLAG_REJECT : 0) | /* [MPA-7.1.1-11] */
                           (t->markers_rx && !reject ? IWARP_MPA_FLAG_MARKERS : 0)),
        .rev = t->rev,
        .pd_len = (uint16_t)pd_len,
        .enhanced = t->enhanced,         /* as the Request. [MPA2-10-01] [MPA2-10-02] RFC 6581 10 */
        .peer_to_peer = t->peer_to_peer, /* as the Request. [MPA2-9.2-04] [MPA2-9.2-12] */
        .rtr = t->rtr,
        /* 0x3fff is answered by 0x3fff. [MPA2-9.1-11] [MPA2-9.1-13] */
        .ird = t->peer_ord == UNSPECIFIED ? UNSPECIFIED : t->ird,
        .ord = t->peer_ird == UNSPECIFIED ? UNSPECIFIED
               : reject                   ? s->wish.ord /* what was needed. [MPA2-9.1-05] */
                                          : t->ord,
    };
    return frame_encode(IWARP_MPA_KEY_REPLY, &f, pd, out); /* [MPA-7.1.1-03] */
}

/* --- receiving ------------------------------------------------------------------------------- */

/*
 * Compare the key's octets that came between `from` and have; at the first wrong one fail, and make
 * it the last octet that was taken. RFC 5044 7.1.1, 7.1.2 (5)
 */
static void key_check(struct iwarp_mpa_setup *s, size_t from)
{
    bool initiator = s->role == IWARP_MPA_INITIATOR;
    const char *want = initiator ? IWARP_MPA_KEY_REPLY : IWARP_MPA_KEY_REQUEST;
    const char *other = initiator ? IWARP_MPA_KEY_REQUEST : IWARP_MPA_KEY_REPLY;

    for (size_t i = from; i < s->have && i < IWARP_MPA_KEY_LEN; i++) {
        uint8_t got = s->frame[i];
        if (got == (uint8_t)want[i]) {
            continue;
        }
        s->have = (uint16_t)(i + 1);
        if (got == (uint8_t)other[i]) { /* [MPA-7.1.2-19] RFC 5044 7.1.2 (8) */
            fail(s, initiator ? IWARP_FAULT_MPA_BOTH_INITIATORS : IWARP_FAULT_MPA_BOTH_RESPONDERS,
                 0, 0, 0);
        } else if (i == 0 && (got == TLS_ALERT || got == TLS_HANDSHAKE)) {
            fail(s, IWARP_FAULT_MPA_TLS, got, 0, 0);
        } else { /* [MPA-7.1.1-02] [MPA-7.1.1-04] [MPA-7.1.2-15] */
            fail(s, IWARP_FAULT_MPA_KEY, i, got, (uint8_t)want[i]);
        }
        return;
    }
}

/* Is this a revision that both ends can live with? [MPA-7.1.1-15] [MPA-7.1.1-16] RFC 5044 7.1.1 */
/* [MPA2-6-04] [MPA2-10-04] */
static bool revision_ok(const struct iwarp_mpa_setup *s, const struct frame *f)
{
    if (f->rev <= s->wish.rev) {
        return f->rev >= 1;
    }
    return s->role == IWARP_MPA_INITIATOR &&
           iwarp_peers_reply_is_newer(s->wish.strict, f->rev, f->enhanced);
}

/* The header is there: check it before any private data is taken. */
/* [MPA-7.1.2-21] [MPA-7.1.2-22] [MPA-7.1.2-24] */
static void header_check(struct iwarp_mpa_setup *s)
{
    struct frame f;

    header_decode(s->frame, &f);
    if (!revision_ok(s, &f)) { /* also the enhanced Request to a revision 1 end. [MPA2-10-05] */
        fail(s, IWARP_FAULT_MPA_REVISION, f.rev, s->wish.rev, 0);
    } else if (f.pd_len > IWARP_MPA_PRIVATE_DATA_MAX) { /* RFC 5044 7.1.2 (9) [MPA-7.1.1-19] */
        fail(s, IWARP_FAULT_MPA_PRIVATE_DATA_LEN, f.pd_len, IWARP_MPA_PRIVATE_DATA_MAX, 0);
    } else if (f.enhanced && f.pd_len < IWARP_MPA_ENHANCED_LEN) { /* [MPA2-6-05] RFC 6581 6 */
        fail(s, IWARP_FAULT_MPA_ENHANCED_MISSING, f.flags, f.rev, f.pd_len);
    } else if (s->role == IWARP_MPA_INITIATOR && s->wish.rev >= 2 && !f.enhanced &&
               !iwarp_peers_reject_is_plain(s->wish.strict, f.flags & IWARP_MPA_FLAG_REJECT,
                                            f.enhanced)) { /* [MPA2-10-01] RFC 6581 10 */
        fail(s, IWARP_FAULT_MPA_ENHANCED_MISSING, f.flags, f.rev, f.pd_len);
    } else {
        s->need = (uint16_t)(IWARP_MPA_FRAME_HDR_LEN + f.pd_len);
    }
}

/* The whole frame is there and properly formatted. */
/* [MPA-7.1.2-10] */
static void frame_complete(struct iwarp_mpa_setup *s)
{
    struct frame f;

    if (s->role == IWARP_MPA_RESPONDER) { /* R is not looked at here. [MPA-7.1.1-10] */
        settle_responder(s);
        s->step = IWARP_MPA_FRAME;
        return;
    }
    frame_decode(s->frame, &f);
    settle_basics(s, &f);
    if (f.flags & IWARP_MPA_FLAG_REJECT) { /* RFC 5044 7.1.2 (3) [MPA-7.1.2-12] */
        s->step = IWARP_MPA_REJECTED;
        iwarp_fault_set(&s->fault, IWARP_FAULT_MPA_REJECTED, IWARP_SIDE_PEER, 0, 0, 0);
        s->fault.rx_pos = s->have;
        return;
    }
    settle_initiator(s, &f); /* [MPA-7.1.2-13] */
}

enum iwarp_mpa_step iwarp_mpa_setup_feed(struct iwarp_mpa_setup *s, const void *data, size_t len,
                                         size_t *used)
{
    const uint8_t *in = data;
    size_t before = s->have;

    while (s->step == IWARP_MPA_MORE && s->have - before < len) {
        size_t from = s->have, taken = from - before;
        size_t n = len - taken < s->need - from ? len - taken : s->need - from;

        assert(n > 0 && from + n <= sizeof s->frame);
        memcpy(s->frame + from, in + taken, n);
        s->have = (uint16_t)(from + n);
        key_check(s, from);
        if (s->step == IWARP_MPA_MORE && s->have == IWARP_MPA_FRAME_HDR_LEN) {
            header_check(s);
        }
        if (s->step == IWARP_MPA_MORE && s->have == s->need) {
            frame_complete(s);
        }
    }
    *used = s->have - before;
    return s->step;
}

/* --- looking at the frame -------------------------------------------------------------------- */

const void *iwarp_mpa_setup_private_data(const struct iwarp_mpa_setup *s, size_t *len)
{
    size_t at = IWARP_MPA_FRAME_HDR_LEN + (s->settled.enhanced ? IWARP_MPA_ENHANCED_LEN : 0);
    bool complete = s->step != IWARP_MPA_MORE && s->have == s->need && s->settled.rev != 0;

    *len = complete ? s->have - at : 0; /* [MPA-7.1.1-20] [MPA-7.1.2-23] */
    return s->frame + at;
}

/* "16", or "unspecified". */
static const char *depth_text(uint16_t depth, char buf[12])
{
    if (depth == UNSPECIFIED) {
        return "unspecified";
    }
    snprintf(buf, 12, "%u", (unsigned)depth);
    return buf;
}

static size_t describe_enhanced(const struct iwarp_mpa_setup *s, const char *head, char *buf,
                                size_t size)
{
    char ird[12], ord[12];
    struct frame f;

    frame_decode(s->frame, &f);
    int n =
        snprintf(buf, size, "%s, IRD %s, ORD %s, %s%s%s%s", head, depth_text(f.ird, ird),
                 depth_text(f.ord, ord), f.peer_to_peer ? "peer-to-peer with RTR" : "client-server",
                 f.rtr & IWARP_RTR_SEND ? " send" : "", f.rtr & IWARP_RTR_WRITE ? " write" : "",
                 f.rtr & IWARP_RTR_READ ? " read" : "");
    return (size_t)n;
}

size_t iwarp_mpa_setup_describe(const struct iwarp_mpa_setup *s, char *buf, size_t size)
{
    const char *name = s->role == IWARP_MPA_RESPONDER ? "Request" : "Reply";
    char head[128];
    struct frame f;

    if (s->have < IWARP_MPA_FRAME_HDR_LEN) {
        int n = snprintf(buf, size, "MPA %s, %u of at least %d octets", name, (unsigned)s->have,
                         IWARP_MPA_FRAME_HDR_LEN);
        return (size_t)n;
    }
    header_decode(s->frame, &f);
    snprintf(head, sizeof head, "MPA %s, revision %u, flags 0x%02x%s%s%s%s, %u octets private data",
             name, (unsigned)f.rev, (unsigned)f.flags,
             f.flags & IWARP_MPA_FLAG_MARKERS ? " markers" : "",
             f.flags & IWARP_MPA_FLAG_CRC ? " crc" : "",
             f.flags & IWARP_MPA_FLAG_REJECT ? " reject" : "", f.enhanced ? " enhanced" : "",
             (unsigned)f.pd_len);
    if (f.enhanced && s->have >= IWARP_MPA_FRAME_HDR_LEN + IWARP_MPA_ENHANCED_LEN) {
        return describe_enhanced(s, head, buf, size);
    }
    return (size_t)snprintf(buf, size, "%s", head);
}
