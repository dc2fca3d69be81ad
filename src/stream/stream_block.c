/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The send block: its memory, its references to regions, its iovec (stream_block.h). This file
 * knows nothing of FPDUs.
 *
 * Lends and references: while a batch is framed, and until the transport has taken what it will,
 * each region in `ref` is lent (b->lent). Between two batches none is, so that a deregistration
 * never waits for a peer that reads slowly. The next batch lends the same regions again by STag and
 * compares pointer and generation.
 */
#include "stream/stream_block.h"

#include <assert.h>

/*
 * One allocation holds the block and its three arrays. `spare`: where the worker keeps a block of
 * full size; NULL for others.
 */
static struct iwarp_tx_block *block_new(const struct iwarp_stream_config *c,
                                        struct iwarp_spare *spare, unsigned iov, unsigned refs,
                                        size_t bytes, size_t *size, bool *over)
{
    *size = sizeof(struct iwarp_tx_block) + iov * sizeof(struct iovec) +
            refs * sizeof(struct iwarp_tx_ref) + bytes;
    struct iwarp_tx_block *b = iwarp_budget_alloc_kept(c->budget, spare, *size, over);
    if (b) {
        *b = (struct iwarp_tx_block){.size = *size, .iov = (struct iovec *)(void *)(b + 1)};
        b->ref = (struct iwarp_tx_ref *)(void *)(b->iov + iov);
        b->bytes = (uint8_t *)(b->ref + refs);
    }
    return b;
}

/* Record a fault unless there is one already: the first one tells the cause. Always false. */
static bool found(struct iwarp_stream *s, enum iwarp_fault_code code, uint64_t d0, uint64_t d1)
{
    if (s->fault.code == IWARP_FAULT_NONE) {
        iwarp_fault_set(&s->fault, code, IWARP_SIDE_LOCAL, d0, d1, 0);
        s->fault.rx_pos = s->rx.pos;
    }
    return false;
}

static bool is_scarce(const struct iwarp_budget *budget)
{
    return atomic_load_explicit(&budget->used, memory_order_relaxed) >= TX_SCARCE(budget->limit);
}

static bool begin(struct iwarp_stream *s)
{
    bool over = false, small = false;
    size_t size;
    struct iwarp_tx_block *b =
        block_new(&s->config, s->config.spare, TX_IOV, IWARP_MAX_LENDS, TX_BYTES, &size, &over);

    if (over) {
        small = true;
        b = block_new(&s->config, NULL, TX_IOV, IWARP_MAX_LENDS, TX_BYTES_SMALL, &size, &over);
    }
    if (!b) {
        return found(s, over ? IWARP_FAULT_LOCAL_BUFFER_LIMIT : IWARP_FAULT_LOCAL_NO_MEMORY, size,
                     s->config.budget->limit);
    }
    b->small = small;
    s->tx.block = b;
    return true;
}

/* Does the entry lie in the block itself, rather than in the user's memory? */
static bool is_inside(const struct iwarp_tx_block *b, const struct iovec *v)
{
    return (uintptr_t)v->iov_base - (uintptr_t)b->bytes < b->used;
}

/*
 * Copies what lies in the block, in the order of the iovec, and keeps entries that refer to user
 * memory as they are. Below the threshold of scarce memory it does nothing: a full transport is
 * usual, and a block that can take more FPDUs is worth keeping.
 */
void iwarp_tx_block_shrink(struct iwarp_stream *s)
{
    struct iwarp_tx_block *b = s->tx.block;
    struct iwarp_budget *budget = s->config.budget;
    size_t bytes = 0, size;
    bool over = false;

    if (b->moved || !is_scarce(budget)) {
        return;
    }
    for (unsigned i = b->first; i < b->n; i++) {
        bytes += is_inside(b, &b->iov[i]) ? b->iov[i].iov_len : 0;
    }
    struct iwarp_tx_block *m =
        block_new(&s->config, NULL, b->n - b->first, b->refs, bytes, &size, &over);
    if (!m) {
        return; /* the stream goes on with the large block */
    }
    m->moved = true;
    for (unsigned i = b->first; i < b->n; i++) {
        const struct iovec *from = &b->iov[i];
        struct iovec *to = &m->iov[m->n++];
        *to = *from;
        if (is_inside(b, from)) {
            to->iov_base = m->bytes + m->used;
            memcpy(to->iov_base, from->iov_base, from->iov_len);
            m->used += (uint32_t)from->iov_len;
        }
    }
    for (; m->refs < b->refs; m->refs++) {
        m->ref[m->refs] = b->ref[m->refs];
    }
    iwarp_budget_free(budget, b, b->size); /* memory is scarce: not kept */
    s->tx.block = m;
}

/* Idempotent: `lent` says whether there is anything to settle. */
void iwarp_tx_block_settle(struct iwarp_tx_block *b)
{
    for (unsigned i = 0; b->lent && i < b->refs; i++) {
        iwarp_region_settle(b->ref[i].region);
    }
    b->lent = false;
}

/*
 * Called when all is sent, and also when the stream ends with octets unsent. These are dropped, and
 * `framed` goes back to `sent`, so that the stream counts as drained. A block of full size becomes
 * the worker's spare.
 */
void iwarp_stream_tx_fini(struct iwarp_stream *s)
{
    if (s->tx.block) {
        iwarp_tx_block_settle(s->tx.block);
        if (s->tx.block->moved || s->tx.block->small) {
            iwarp_budget_free(s->config.budget, s->tx.block, s->tx.block->size);
        } else {
            iwarp_budget_keep(s->config.budget, s->config.spare, s->tx.block, s->tx.block->size);
        }
        s->tx.block = NULL;
        s->tx.framed = s->tx.sent;
    }
}

/*
 * The STag is not enough: between two batches it may have been given to another region, or this
 * region may have been registered anew for other memory. In both cases the framed CRC is that of
 * octets which are out of reach now. False.
 */
static bool lend_again(struct iwarp_stream *s, const struct iwarp_tx_ref *ref)
{
    struct iwarp_region *r = iwarp_region_lend(s->config.regions, ref->stag);

    if (r && (r != ref->region || r->generation != ref->generation)) {
        iwarp_region_settle(r);
        r = NULL;
    }
    return r != NULL;
}

bool iwarp_tx_block_open(struct iwarp_stream *s)
{
    if (!s->tx.block && !begin(s)) {
        return false;
    }
    struct iwarp_tx_block *b = s->tx.block;
    assert(!b->lent);
    b->lent = true;
    bool scarce = is_scarce(s->config.budget);
    b->copy_max = scarce || s->config.refers ? TX_COPY_SMALL : TX_COPY_MAX;
    b->most = scarce || b->small ? TX_BYTES_SMALL : TX_BYTES;
    for (unsigned i = 0; i < b->refs; i++) {
        if (!lend_again(s, &b->ref[i])) {
            b->refs = i; /* only those before i are lent: settle must not touch the others */
            return found(s, IWARP_FAULT_LOCAL_DEREGISTERED, b->ref[i].stag, 0);
        }
    }
    return true;
}

/*
 * One reference per region, however many FPDUs use it: a second lend is given back at once, and
 * `end` moves to the last FPDU. iwarp_tx_block_room has kept IWARP_MAX_SGE references free.
 */
void iwarp_tx_block_adopt(struct iwarp_stream *s, struct iwarp_lends *lends)
{
    struct iwarp_tx_block *b = s->tx.block;

    for (unsigned i = 0; i < lends->n; i++) {
        struct iwarp_region *r = lends->region[i];
        uint32_t stag = atomic_load_explicit(&r->stag, memory_order_relaxed);
        unsigned k = 0;
        while (k < b->refs && b->ref[k].region != r) {
            k++;
        }
        if (k < b->refs) {
            iwarp_region_settle(r);
        } else {
            b->ref[b->refs++] = (struct iwarp_tx_ref){r, 0, stag, r->generation};
        }
        b->ref[k].end = s->tx.framed;
    }
    lends->n = 0;
}

void iwarp_tx_block_forget_sent(struct iwarp_stream *s)
{
    struct iwarp_tx_block *b = s->tx.block;
    unsigned kept = 0;

    for (unsigned i = 0; i < b->refs; i++) {
        if (b->ref[i].end > s->tx.sent) {
            b->ref[kept++] = b->ref[i];
        }
    }
    b->refs = kept;
}

void iwarp_tx_block_refer(struct iwarp_tx_block *b, const struct iovec *iov)
{
    b->iov[b->n++] = *iov;
    b->open = false;
}

/*
 * The state before an FPDU that might fail half-way. `last_len` is part of it, since append makes
 * the last entry longer when its octets adjoin.
 */
struct iwarp_tx_mark iwarp_tx_block_mark(const struct iwarp_tx_block *b)
{
    return (struct iwarp_tx_mark){b->n, b->used, b->open, b->n ? b->iov[b->n - 1].iov_len : 0};
}

void iwarp_tx_block_reset(struct iwarp_tx_block *b, const struct iwarp_tx_mark *mark)
{
    b->n = mark->n;
    b->used = mark->used;
    b->open = mark->open;
    if (b->n) {
        b->iov[b->n - 1].iov_len = mark->last_len;
    }
}
