/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on request at the border between a connection and its endpoint: octets are counted, FPDUs
 * followed by their length fields, one octet of a CRC replaced on its way, reads and writes cut
 * short, releases told late. A lost connection is a write that fails with ECONNABORTED: the stream
 * ends as with an error of TCP, and the endpoint is closed with a reset, which the peer sees. RFC
 * 5044 4.
 */
#include "base/log.h"
#include "loop/clock.h"
#include "mpa/mpa_frame.h"
#include "mpa/mpa_marker.h"
#include "stream/stream.h"
#include "verbs/conn.h"
#include "verbs/conn_tap.h"
#include "verbs/inject.h"

#include <errno.h>
#include <time.h>

enum { CUT_IOV = 64 };

/* --- following FPDUs ------------------------------------------------------------------------- */

/* The octet at `off` of the concatenated pieces. off lies within them. */
static uint8_t octet_at(const struct iovec *iov, uint64_t off)
{
    while (off >= iov->iov_len) {
        off -= iov->iov_len;
        iov++;
    }
    return ((const uint8_t *)iov->iov_base)[off];
}

/*
 * Find where the current FPDU ends, from its length field, which a marker may precede. The field
 * may be cut between two writes: then its first octet is kept. False: the field has not been sent
 * whole.
 */
static bool measure(struct iwarp_inject_track *t, const struct iovec *iov, uint64_t end,
                    bool markers)
{
    uint64_t origin = t->start + (markers ? iwarp_mpa_marker_left(t->start) : 0);

    if (origin + 2 > end) {
        if (origin >= t->at && origin < end) {
            t->first = octet_at(iov, origin - t->at);
        }
        return false;
    }
    uint8_t high = origin < t->at ? t->first : octet_at(iov, origin - t->at);
    uint8_t low = octet_at(iov, origin + 1 - t->at);
    uint32_t len = iwarp_mpa_fpdu_len((uint32_t)high << 8 | low);
    t->end = t->start + (markers ? iwarp_mpa_marked_len(t->start, len) : len);
    return true;
}

/*
 * Callers work on a copy of the track to look ahead at a write, and on the original once they know
 * how much of it was taken.
 */
void iwarp_inject_follow(struct iwarp_inject_track *t, const struct iovec *iov, uint64_t n,
                         bool markers, const struct iwarp_inject *inject, uint64_t *wrong,
                         uint64_t *lose)
{
    uint64_t end = t->at + n;

    while (t->start < end) {
        if (t->fpdus == inject->lose_fpdu && t->start >= t->at) {
            *lose = t->start;
        }
        if (t->end == t->start && !measure(t, iov, end, markers)) {
            break;
        }
        if (t->fpdus == inject->crc && t->end <= end) {
            *wrong = t->end - 1;
        }
        if (t->end > end) {
            break;
        }
        t->start = t->end;
        t->fpdus++;
    }
    t->at = end;
}

/* --- writing --------------------------------------------------------------------------------- */

/* Sleeps with conn.lock held, on purpose: that is what a slow system looks like to a program. */
static void wait_some(struct iwarp_inject *j)
{
    uint64_t ms = iwarp_inject_draw(&j->random, &j->delay);
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

    while (ms > 0 && nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* The first n octets of iov, in at most CUT_IOV entries; returns how many octets. */
static uint64_t cut(const struct iovec *iov, int entries, uint64_t n, struct iovec *out, int *used)
{
    uint64_t total = 0;

    *used = 0;
    for (int i = 0; i < entries && *used < CUT_IOV && total < n; i++) {
        size_t len = iov[i].iov_len < n - total ? iov[i].iov_len : (size_t)(n - total);
        out[(*used)++] = (struct iovec){iov[i].iov_base, len};
        total += len;
    }
    return total;
}

/*
 * Replace the octet at `off` by *other, with one bit flipped. The application's memory is not
 * touched: the piece is split around the octet, for which `out` has room for two more entries.
 */
static void replace(struct iovec *out, int *used, uint64_t off, uint8_t *other)
{
    int i = 0;

    while (off >= out[i].iov_len) {
        off -= out[i++].iov_len;
    }
    uint8_t *base = out[i].iov_base;
    size_t behind = out[i].iov_len - (size_t)off - 1;
    *other = base[off] ^ 1;
    for (int k = *used - 1; k > i; k--) {
        out[k + 2] = out[k];
    }
    out[i] = (struct iovec){base, (size_t)off};
    out[i + 1] = (struct iovec){other, 1};
    out[i + 2] = (struct iovec){base + off + 1, behind};
    *used += 2;
}

/* From here on all reads and writes fail, as on a TCP connection after an error. */
static ssize_t lose(struct iwarp_inject *j)
{
    j->lost = true;
    iwarp_log(IWARP_LOG_WARN, "faults",
              "connection %llu is lost after %llu octets, in FPDU %llu, as IWARP_FAULTS asks",
              (unsigned long long)j->number, (unsigned long long)j->sent,
              (unsigned long long)(j->framing ? j->track.fpdus : 0));
    return -ECONNABORTED;
}

/* The log line comes when the octet is sent, not when it is planned: TCP may take less. */
static void tell_crc(const struct iwarp_conn *conn)
{
    iwarp_log(IWARP_LOG_WARN, "faults",
              "connection %llu: FPDU %llu was sent with a wrong CRC, as IWARP_FAULTS asks%s",
              (unsigned long long)conn->inject->number, (unsigned long long)conn->inject->crc,
              conn->settled.crc ? "" : "; nobody looks, since the two ends agreed on no CRC");
}

/*
 * Write n octets at most, fewer if `split` asks for small pieces. Not during the start-up: several
 * peers cannot take a frame in pieces.
 */
static ssize_t write_some(struct iwarp_conn *conn, const struct iovec *iov, int entries, uint64_t n)
{
    struct iwarp_inject *j = conn->inject;
    struct iwarp_inject_track ahead = j->track;
    uint64_t wrong = UINT64_MAX, none = UINT64_MAX;
    struct iovec out[CUT_IOV + 2];
    uint8_t other;
    int used;

    if (j->framing && j->split.given) {
        uint64_t most = iwarp_inject_draw(&j->random, &j->split);
        n = n < most ? n : most;
    }
    n = cut(iov, entries, n, out, &used);
    if (j->framing && j->crc) {
        iwarp_inject_follow(&ahead, iov, n, conn->settled.markers_tx, j, &wrong, &none);
        if (wrong != UINT64_MAX) {
            replace(out, &used, wrong - j->track.at, &other);
        }
    }
    ssize_t sent = iwarp_conn_plain_writev(conn, out, used);
    if (sent > 0) {
        uint64_t last = j->track.at + (uint64_t)sent;
        j->sent += (uint64_t)sent;
        if (j->framing) {
            iwarp_inject_follow(&j->track, iov, (uint64_t)sent, conn->settled.markers_tx, j, &none,
                                &none);
        }
        if (wrong < last) {
            tell_crc(conn);
        }
    }
    return sent;
}

/*
 * A loss that falls within this write shortens it; the octets before it go out, and the next write
 * fails. During the start-up a short write is an error for the caller, so the loss is reported at
 * once.
 */
ssize_t iwarp_inject_writev(struct iwarp_conn *conn, const struct iovec *iov, int n)
{
    struct iwarp_inject *j = conn->inject;
    uint64_t total = 0, none = UINT64_MAX, lost = UINT64_MAX;

    if (j->lost) {
        return -ECONNABORTED;
    }
    wait_some(j);
    for (int i = 0; i < n; i++) {
        total += iov[i].iov_len;
    }
    uint64_t allowed = total;
    j->framing = j->framing || conn->state == CONN_ESTABLISHED;
    if (j->framing && j->lose_fpdu) {
        struct iwarp_inject_track ahead = j->track;
        iwarp_inject_follow(&ahead, iov, total, conn->settled.markers_tx, j, &none, &lost);
        allowed = lost != UINT64_MAX ? lost - j->track.at : total;
    }
    if (j->lose_octet && j->lose_octet - 1 - j->sent < allowed) {
        allowed = j->lose_octet - 1 - j->sent;
    }
    ssize_t sent = allowed > 0 ? write_some(conn, iov, n, allowed) : 0;
    if (allowed == total || (j->framing && allowed > 0)) {
        return sent;
    }
    return lose(j);
}

/* --- reading --------------------------------------------------------------------------------- */

/*
 * A short read is what any transport may do, so only the amount is drawn. A polled transport is
 * woken up again, since it takes a read of less than it had for nothing left.
 */
ssize_t iwarp_inject_readv(struct iwarp_conn *conn, const struct iovec *iov, int n)
{
    struct iwarp_inject *j = conn->inject;
    struct iovec out[CUT_IOV];
    int used;

    if (j->lost) {
        return -ECONNABORTED;
    }
    if (!j->split.given) {
        return iwarp_conn_plain_readv(conn, iov, n);
    }
    cut(iov, n, iwarp_inject_draw(&j->random, &j->split), out, &used);
    ssize_t got = iwarp_conn_plain_readv(conn, out, used);
    if (got > 0 && conn->ep->ops->poll) {
        iwarp_endpoint_wake(conn->ep); /* it believes that everything was taken */
    }
    return got;
}

/* --- late releases --------------------------------------------------------------------------- */

/*
 * Octets are written as ever, and the transport has a copy; but the stream is told only after a
 * while that they are released, so work requests complete late, and regions count as referred to
 * until then, as with a transport that sends from the application's memory (conn_lend.c).
 *
 * Invariant: while octets are held, the oldest of them have a time, and the worker has a timer for
 * it or has been kicked to set one. A stream that ends holds nothing.
 */

static struct iwarp_conn *conn_of(struct iwarp_endpoint *ep)
{
    return ep->user;
}

/* Any thread may send, and the worker alone sets timers. */
static ssize_t late_refer(struct iwarp_endpoint *ep, const struct iwarp_burst *burst)
{
    struct iwarp_conn *conn = conn_of(ep);
    ssize_t sent = iwarp_inject_writev(conn, burst->iov, (int)burst->n);

    if (sent > 0) {
        conn->inject->held += (size_t)sent;
        iwarp_endpoint_wake(ep);
    }
    return sent;
}

/* Those that were written since the last time was set get theirs when it is over. */
static size_t late_released(struct iwarp_endpoint *ep)
{
    const struct iwarp_conn *conn = conn_of(ep);
    struct iwarp_inject *j = conn->inject;
    int64_t now = iwarp_now_ms();
    size_t n = 0;

    if (conn->stream.life != STREAM_RUNNING) {
        n = j->held;
        j->due = 0;
    } else if (j->due > 0 && now >= j->due_ms) {
        n = j->due;
        j->due = 0;
    }
    j->held -= n;
    if (j->due == 0 && j->held > 0) {
        j->due = j->held;
        j->due_ms = now + (int64_t)iwarp_inject_draw(&j->random, &j->late);
    }
    return n;
}

/* No transport refers to anything. */
static void late_forsake(struct iwarp_endpoint *ep)
{
    struct iwarp_inject *j = conn_of(ep)->inject;

    j->held = j->due = 0;
}

static const struct iwarp_loans late_loans = {
    .size = sizeof late_loans,
    .refer = late_refer,
    .released = late_released,
    .forsake = late_forsake,
};

const struct iwarp_loans *iwarp_inject_loans(const struct iwarp_inject *inject)
{
    return inject->late.given ? &late_loans : NULL;
}

unsigned iwarp_inject_late_ms(const struct iwarp_inject *inject)
{
    int64_t left = inject->due_ms - iwarp_now_ms();

    return inject->due == 0 ? 0 : left < 1 ? 1 : (unsigned)left;
}
