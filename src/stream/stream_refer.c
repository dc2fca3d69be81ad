/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a transport refers to until the peer has acknowledged it: payload in registered memory. The
 * headers, trailers and small payloads of the send block pass: the transport copies them.
 *
 * A region that is referred to is not lent, so a deregistration never waits for a slow peer. It is
 * counted (region.referred), and who takes the memory away asks for the count and ends the streams
 * that refer to it. The count goes up while the region is lent, so it cannot be overlooked.
 */
#include "base/memory.h"
#include "stream/stream_block.h"

#include "mpa/mpa_frame.h"
#include "mpa/mpa_marker.h"

#include <stdlib.h>

#define REFS_MAX 32 /* regions at a time; the payload of further ones is copied */

struct iwarp_refs {
    unsigned n;
    struct {
        struct iwarp_region *region; /* memory, never a window */
        uint64_t end;                /* stream position up to which it is referred to */
    } ref[REFS_MAX];
};

/* A window may go before what was sent through it is released: its region counts. */
static struct iwarp_region *memory_of(struct iwarp_region *r)
{
    return r->parent ? r->parent : r;
}

static bool add(struct iwarp_refs *refs, struct iwarp_region *region, uint64_t end)
{
    unsigned i = 0;

    while (i < refs->n && refs->ref[i].region != region) {
        i++;
    }
    if (i == REFS_MAX) {
        return false;
    }
    if (i == refs->n) {
        refs->n++;
        refs->ref[i].region = region;
        atomic_fetch_add(&region->referred, 1);
    }
    refs->ref[i].end = end;
    return true;
}

/*
 * False: no room for all regions of the block, or no memory; then all of it is copied. The list is
 * kept for as long as the stream lives, so it does not count in the budget.
 */
static bool refer(struct iwarp_stream *s)
{
    const struct iwarp_tx_block *b = s->tx.block;

    if (b->refs > 0 && !s->tx.refs) {
        s->tx.refs = iwarp_calloc(1, sizeof *s->tx.refs);
        if (!s->tx.refs) {
            return false;
        }
    }
    for (unsigned i = 0; i < b->refs; i++) {
        if (!add(s->tx.refs, memory_of(b->ref[i].region), b->ref[i].end)) {
            return false;
        }
    }
    return true;
}

/* Octets of the FPDU that begins at stream position `pos` with p. */
static uint32_t fpdu_at(const struct iwarp_stream *s, uint64_t pos, const struct iovec *iov,
                        size_t off)
{
    const uint8_t *p = (const uint8_t *)iov->iov_base + off;

    if (s->config.markers_tx && iwarp_mpa_marker_left(pos) > 0) {
        p = iov[1].iov_base; /* a marker is an entry of its own, and so is what follows it */
    }
    uint32_t len = iwarp_mpa_fpdu_len(iwarp_get_be16(p));
    return s->config.markers_tx ? iwarp_mpa_marked_len(pos, len) : len;
}

unsigned iwarp_stream_fpdus(struct iwarp_stream *s, const struct iovec *iov, uint32_t *fpdus,
                            unsigned room, struct iovec *passing)
{
    const struct iwarp_tx_block *b = s->tx.block;
    uint64_t pos = s->tx.sent;
    unsigned count = 0;
    size_t off = 0;

    *passing = refer(s) ? (struct iovec){b->bytes, b->used} : (struct iovec){NULL, SIZE_MAX};
    while (pos < s->tx.framed && count < room) {
        bool rest = count == 0 && s->tx.cut > 0;
        uint32_t len = rest ? s->tx.cut : fpdu_at(s, pos, iov, off);
        fpdus[count++] = len;
        pos += len;
        for (off += len; off > 0 && off >= iov->iov_len; iov++) {
            off -= iov->iov_len;
        }
    }
    return count;
}

void iwarp_stream_cut(struct iwarp_stream *s, const uint32_t *fpdus, unsigned count, size_t n)
{
    for (unsigned i = 0; i < count && n > 0; i++) {
        s->tx.cut = n < fpdus[i] ? fpdus[i] - (uint32_t)n : 0;
        n -= n < fpdus[i] ? n : fpdus[i];
    }
}

void iwarp_stream_unrefer(struct iwarp_stream *s, uint64_t released)
{
    struct iwarp_refs *refs = s->tx.refs;
    unsigned kept = 0;

    for (unsigned i = 0; i < refs->n; i++) {
        if (refs->ref[i].end > released) {
            refs->ref[kept++] = refs->ref[i];
        } else {
            atomic_fetch_sub(&refs->ref[i].region->referred, 1);
        }
    }
    refs->n = kept;
}

bool iwarp_stream_refers(const struct iwarp_stream *s, const struct iwarp_region *region)
{
    const struct iwarp_refs *refs = s->tx.refs;

    for (unsigned i = 0; refs && i < refs->n; i++) {
        if (refs->ref[i].region == region) {
            return true;
        }
    }
    return false;
}

void iwarp_stream_forget(struct iwarp_stream *s)
{
    if (s->tx.refs) {
        iwarp_stream_unrefer(s, UINT64_MAX);
        free(s->tx.refs);
        s->tx.refs = NULL;
    }
}
