/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The send block: the octets that a stream has framed and not yet sent. Headers, trailers and small
 * payloads lie in it, and those that may change meanwhile. It refers to larger payload of requests;
 * the regions of that are remembered by STag and lent only between gather and sent. A block exists
 * only while something is unsent. It is moved to a smaller one when the transport is full and
 * memory is scarce, so that many stopped peers together hold little.
 *
 * Nothing here ends a stream: a fault is left in s->fault, and the caller decides.
 */
#ifndef IWARP_STREAM_BLOCK_H
#define IWARP_STREAM_BLOCK_H

#include "stream/stream.h"

#define TX_IOV 1024 /* what one sendmsg takes: Linux's UIO_MAXIOV */

/*
 * Payload up to this is copied beside its header, which is cheaper than two iovec entries: TCP
 * takes many small entries slowly. Inline data is copied in any case, as it lies in the queue:
 * while the last octets of a stream go out, its queue is flushed, used anew, or freed. So the limit
 * is TX_COPY_SMALL where the transport itself refers to payload, or where memory is scarce, since
 * what is copied and unsent stays in memory while the peer has stopped.
 */
#define TX_COPY_MAX   1536 /* a whole FPDU at an MTU of 1500 */
#define TX_COPY_SMALL IWARP_MAX_INLINE

/* So much of payload that may change is copied at once where memory is scarce. */
#define TX_SCARCE_COPIES (16 * 1024)

/*
 * Payload of a request above this has its CRC computed where it lies, before it is copied: the CRC
 * asks ahead for memory that no cache holds, and a copy does not. Below, one pass over the FPDU
 * costs less.
 */
#define TX_CRC_FIRST 512

/*
 * Octets of a block. The small ones are for where max_buffer_bytes has no room for one of full
 * size; where memory is scarce, no more of a block is used.
 */
#define TX_BYTES       (192 * 1024)
#define TX_BYTES_SMALL (96 * 1024)

/*
 * The most that one FPDU may take of `bytes` and of `iov`: length field, largest DDP header, RDMAP
 * header (the Terminate's is the longest), copied payload, padding, CRC, markers. Payload that is
 * referred to takes no octets, but up to IWARP_MAX_SGE entries.
 */
#define TX_FPDU_BYTES (2 + 18 + IWARP_TERM_MAX_LEN + TX_COPY_MAX + 3 + 4 + 4 * TX_MARKERS_MAX)
#define TX_FPDU_IOV   (IWARP_MAX_SGE + 2 + 2 * TX_MARKERS_MAX)

/* Markers in the largest FPDU: one for each 512 octets of the stream, at most 64 KiB of it. */
#define TX_MARKERS_MAX 128

/*
 * A region that holds unsent octets. It is lent only between gather and sent, and checked anew each
 * time. The reference is dropped once stream position `end` is sent: the requests before that may
 * complete, and the application deregister the region, while later octets of the batch are unsent.
 */
struct iwarp_tx_ref {
    struct iwarp_region *region;
    uint64_t end;
    uint32_t stag;
    uint32_t generation; /* an STag may have become valid again, for other memory */
};

/* Blocks are moved once this part of the budget is in use. */
#define TX_SCARCE(limit) ((limit) / 8)

struct iwarp_tx_block {
    size_t size;       /* octets of the allocation, with the three arrays behind */
    bool moved;        /* allocated at the exact size: no further FPDU fits */
    bool small;        /* TX_BYTES_SMALL of `bytes` */
    struct iovec *iov; /* TX_IOV of them, unless moved */
    unsigned first, n; /* entries first..n-1 are unsent */
    uint32_t used;     /* octets of `bytes` */
    bool open;         /* the last entry ends at bytes + used and may be extended */
    bool lent;         /* the regions in `ref` are lent */
    uint32_t copy_max; /* TX_COPY_MAX or TX_COPY_SMALL, chosen when the block is opened */
    uint32_t most;     /* TX_BYTES or TX_BYTES_SMALL, the same */
    unsigned refs;
    struct iwarp_tx_ref *ref; /* IWARP_MAX_LENDS of them, unless moved */
    uint8_t *bytes;           /* TX_BYTES of them, unless small or moved */
};

/* A point to go back to when an FPDU cannot be finished. */
struct iwarp_tx_mark {
    unsigned n;
    uint32_t used;
    bool open;
    size_t last_len;
};

/*
 * Make s->tx.block ready to be framed into: a new one, or the one that is there, with the regions
 * of its unsent octets lent again. False, with s->fault: there is no memory for one, or a region is
 * gone and half an FPDU cannot be finished. What is lent stays so until the block is settled or
 * given back.
 */
bool iwarp_tx_block_open(struct iwarp_stream *s);
void iwarp_tx_block_settle(struct iwarp_tx_block *b);

/* The FPDU just framed refers to the regions in `lends`: the block takes over these lends. */
void iwarp_tx_block_adopt(struct iwarp_stream *s, struct iwarp_lends *lends);

/* Drop the references to regions whose octets are all sent. Called with nothing lent. */
void iwarp_tx_block_forget_sent(struct iwarp_stream *s);

/*
 * The transport is full; nothing is lent. If memory is scarce, keep no more of it than the unsent
 * octets need. Nothing is framed until these are sent.
 */
void iwarp_tx_block_shrink(struct iwarp_stream *s);

/* Is there room for one more FPDU? */
static inline bool iwarp_tx_block_room(const struct iwarp_tx_block *b)
{
    return !b->moved && b->used + TX_FPDU_BYTES <= b->most && b->n + TX_FPDU_IOV <= TX_IOV &&
           b->refs + IWARP_MAX_SGE <= IWARP_MAX_LENDS;
}

/* Is memory scarce, as far as this block has to know? A peer that stops leaves with us what it
 * holds. */
static inline bool iwarp_tx_block_is_scarce(const struct iwarp_stream *s)
{
    return s->tx.block->copy_max == TX_COPY_SMALL && !s->config.refers;
}

/* How much of the next FPDU may be payload that is copied. At least TX_COPY_MAX where there is room
 * for an FPDU. */
static inline uint32_t iwarp_tx_block_payload_room(const struct iwarp_stream *s)
{
    const struct iwarp_tx_block *b = s->tx.block;
    const uint32_t room = b->most - b->used - (TX_FPDU_BYTES - TX_COPY_MAX);

    return iwarp_tx_block_is_scarce(s) && room > TX_SCARCE_COPIES ? TX_SCARCE_COPIES : room;
}

/*
 * May the payload change until it is sent? Then what is sent has to be what was summed: it is
 * copied, and its CRC is that of the copy. That of a Read Response may: no request of the
 * application asks for this memory to stay as it is (RFC 5040 5.5), and a peer that writes where
 * another one reads would end that one's stream. That of a request may if the application says so.
 */
static inline bool iwarp_tx_changes(const struct iwarp_stream *s, bool response)
{
    return s->config.crc && (response || s->config.copies);
}

/* Is payload of that length copied? */
static inline bool iwarp_tx_copies(const struct iwarp_stream *s, bool response, uint32_t len)
{
    return len <= s->tx.block->copy_max || iwarp_tx_changes(s, response);
}

/* n octets that were written at bytes + used belong to the batch. */
static inline void iwarp_tx_block_append(struct iwarp_tx_block *b, uint32_t n)
{
    if (b->open) {
        b->iov[b->n - 1].iov_len += n;
    } else {
        b->iov[b->n++] = (struct iovec){b->bytes + b->used, n};
        b->open = true;
    }
    b->used += n;
}

/* Payload of the batch that stays where it lies, in a lent region. */
void iwarp_tx_block_refer(struct iwarp_tx_block *b, const struct iovec *iov);

/* Reset undoes what was added since the mark: the block ends behind the last whole FPDU again. */
struct iwarp_tx_mark iwarp_tx_block_mark(const struct iwarp_tx_block *b);
void iwarp_tx_block_reset(struct iwarp_tx_block *b, const struct iwarp_tx_mark *mark);

#endif
