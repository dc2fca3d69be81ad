/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving from octets that the transport lends. FPDUs that lie whole in one piece are processed
 * there. One that lies in several is verified across them, and then its payload goes piece by
 * piece to its place: it is copied once, as from a single piece. The beginning of an FPDU stays
 * with the transport, held, and is looked at again when more has come.
 *
 * Held octets count against max_buffer_bytes, as a collected FPDU does. Where nothing may be held
 * the FPDU is collected by iwarp_stream_feed: FPDUs of more than HELD_MAX octets, since the peer's
 * window is closed by what is held; streams with markers; and the last octets of a connection.
 */
#include "stream/stream.h"

#include "mpa/crc32c.h"
#include "mpa/mpa_frame.h"

/* Half of the smallest window that a transport has. */
#define HELD_MAX 32768

/* What is lent and not used yet: the piece at iov from `off` on, and those behind it. */
struct lent {
    const struct iovec *iov;
    size_t off, left;
};

static const uint8_t *piece(const struct lent *l, size_t *n)
{
    size_t there = l->iov->iov_len - l->off;

    *n = there < l->left ? there : l->left;
    return (const uint8_t *)l->iov->iov_base + l->off;
}

/* Within the piece, or to its end. */
static void used(struct lent *l, size_t n)
{
    l->off += n;
    l->left -= n;
    while (l->left > 0 && l->off == l->iov->iov_len) {
        l->iov++;
        l->off = 0;
    }
}

/* Feed n octets, piece by piece. */
static void feed(struct iwarp_stream *s, struct lent *l, size_t n)
{
    while (n > 0) {
        size_t k;
        const uint8_t *p = piece(l, &k);
        k = k < n ? k : n;
        iwarp_stream_feed(s, p, k);
        used(l, k);
        n -= k;
    }
}

/* Copy n octets without using them up. */
static void peek(struct lent l, uint8_t *to, size_t n)
{
    while (n > 0) {
        size_t k;
        const uint8_t *p = piece(&l, &k);
        k = k < n ? k : n;
        memcpy(to, p, k);
        used(&l, k);
        to += k;
        n -= k;
    }
}

/* Is the CRC of the FPDU right? */
static bool is_right(struct lent l, size_t len)
{
    uint8_t field[IWARP_MPA_CRC_LEN];
    uint32_t crc = 0;

    for (size_t n = len - IWARP_MPA_CRC_LEN; n > 0;) {
        size_t k;
        const uint8_t *p = piece(&l, &k);
        k = k < n ? k : n;
        crc = iwarp_crc32c(crc, p, k);
        used(&l, k);
        n -= k;
    }
    peek(l, field, sizeof field);
    return crc == iwarp_get_le32(field);
}

/* A whole FPDU in several pieces. One with a wrong CRC is collected, and found wrong once more. */
/* [MPA-6-03] [MPA-4.4-14] */
static void take_scattered(struct iwarp_stream *s, struct lent *l, size_t len)
{
    s->rx.verified = s->config.crc && is_right(*l, len);
    feed(s, l, len);
    s->rx.verified = false;
}

/* Is what is left the beginning of an FPDU that may be held? *len: the FPDU's, if it is whole. */
static bool may_hold(const struct lent *l, size_t *len)
{
    uint8_t field[IWARP_MPA_LEN_FIELD];

    *len = 0;
    if (l->left < sizeof field) {
        return true;
    }
    peek(*l, field, sizeof field);
    size_t fpdu = iwarp_mpa_fpdu_len(iwarp_get_be16(field));
    *len = fpdu <= l->left ? fpdu : 0;
    return fpdu <= HELD_MAX;
}

/*
 * One step from an FPDU's border. Returns false if all that is left is held. A length that MPA does
 * not allow is longer than what may be held, so it is fed, and found wrong.
 */
static bool step(struct iwarp_stream *s, struct lent *l, bool last)
{
    size_t n, len;
    const uint8_t *p = piece(l, &n);
    size_t whole = iwarp_stream_feed_whole(s, p, n);

    if (whole > 0 || s->fault.code != IWARP_FAULT_NONE) {
        used(l, whole);
        return true;
    }
    bool hold = may_hold(l, &len);
    if (len > 0) {
        take_scattered(s, l, len);
    } else if (!hold || last || !iwarp_budget_reserve(s->config.budget, l->left)) {
        feed(s, l, l->left);
    } else {
        s->rx.held = l->left;
        return false;
    }
    return true;
}

/* Octets that belong to an FPDU which is being collected: no more of them, so that what follows is
 * not collected, too. With markers all is. */
static size_t owed(const struct iwarp_stream *s, const struct lent *l)
{
    const struct iwarp_stream_rx *rx = &s->rx;
    size_t n = rx->state == RX_CARRY ? rx->fpdu_len - rx->carry_len : l->left;

    return s->config.markers_rx || n > l->left ? l->left : n;
}

static bool at_border(const struct iwarp_stream *s)
{
    return s->rx.state == RX_HEAD && s->rx.head_len == 0 && !s->config.markers_rx;
}

/* [MPA-5.1-05] [MPA-6-01] */
size_t iwarp_stream_take(struct iwarp_stream *s, const struct iovec *iov, unsigned n, bool last,
                         size_t *held)
{
    struct lent l = {iov, 0, 0};
    bool more = true;

    for (unsigned i = 0; i < n; i++) {
        l.left += iov[i].iov_len;
    }
    size_t total = l.left;
    iwarp_stream_unhold(s);
    while (l.left > 0 && more && !iwarp_stream_full(s)) {
        if (s->life != STREAM_RUNNING && s->life != STREAM_CLOSING) {
            feed(s, &l, l.left); /* counted and dropped */
        } else if (at_border(s)) {
            more = step(s, &l, last);
        } else {
            feed(s, &l, owed(s, &l));
        }
    }
    *held = s->rx.held;
    return total - l.left;
}
