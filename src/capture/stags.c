/* SPDX-License-Identifier: BSD-2-Clause */
/* See stags.h. */
#include "capture/stags.h"

#include "base/bytes.h"
#include "base/guard.h"

#include <iwarp/protocol.h>
#include <string.h>

#define UNTAGGED (IWARP_MPA_LEN_FIELD + IWARP_DDP_UNTAGGED_HDR_LEN)

enum { CONTROL_END = 4, STAG_AT = 4, STAG_END = 8, ATOMIC_STAG_AT = UNTAGGED + 8 };
_Static_assert(UNTAGGED + IWARP_RDMAP_READ_REQUEST_LEN <= sizeof((struct iwarp_stags *)0)->head,
               "what is wanted fits");

static unsigned opcode(const struct iwarp_stags *s)
{
    return s->head[3] & IWARP_RDMAP_OPCODE_MASK;
}

/*
 * How many octets of the frame or FPDU are wanted in `head`. The control octets say how many, so
 * the answer grows as these arrive.
 */
static unsigned wanted(const struct iwarp_stags *s)
{
    if (!s->started) {
        return IWARP_MPA_FRAME_HDR_LEN;
    }
    if (s->have < CONTROL_END) {
        return CONTROL_END;
    }
    if (s->head[2] & IWARP_DDP_TAGGED) {
        return STAG_END;
    }
    switch (opcode(s)) {
    case IWARP_OP_READ_REQUEST:
        return UNTAGGED + IWARP_RDMAP_READ_REQUEST_LEN;
    case IWARP_OP_ATOMIC_REQUEST:
        return ATOMIC_STAG_AT + 4;
    default:
        return CONTROL_END;
    }
}

/* The start-up frame's header is there (RFC 5044 7.1.1): its private data are skipped. */
static void take_start(struct iwarp_stags *s)
{
    s->started = true;
    s->over = memcmp(s->head, IWARP_MPA_KEY_REQUEST, IWARP_MPA_KEY_LEN) != 0 &&
              memcmp(s->head, IWARP_MPA_KEY_REPLY, IWARP_MPA_KEY_LEN) != 0;
    s->peer_marked = s->head[16] & IWARP_MPA_FLAG_MARKERS;
    s->skip = iwarp_get_be16(s->head + 18);
}

/* What is wanted of an FPDU is there: report its STags, and skip the rest of it. */
static void take_fpdu(struct iwarp_stags *s, iwarp_stags_fn *fn, void *arg)
{
    const unsigned length = iwarp_get_be16(s->head);

    /* Length and ULPDU are padded to a multiple of four; the CRC is behind. */
    s->skip = ((IWARP_MPA_LEN_FIELD + length + 3) & ~3u) + IWARP_MPA_CRC_LEN;
    if (s->skip < s->have) {
        s->over = true;
        return;
    }
    s->skip -= s->have;
    if (s->head[2] & IWARP_DDP_TAGGED) {
        fn(arg, iwarp_get_be32(s->head + STAG_AT), false);
    } else if (opcode(s) == IWARP_OP_READ_REQUEST) {
        if (iwarp_get_be32(s->head + UNTAGGED + 12) > 0) { /* of no octets: it names none */
            fn(arg, iwarp_get_be32(s->head + UNTAGGED), true);
            fn(arg, iwarp_get_be32(s->head + UNTAGGED + 16), false);
        }
    } else if (opcode(s) == IWARP_OP_ATOMIC_REQUEST) {
        fn(arg, iwarp_get_be32(s->head + ATOMIC_STAG_AT), false);
    }
}

/*
 * Take some of n octets at p, at least one: skip them, or copy what is wanted. Returns how many.
 * The octets may lie in memory of the application that is gone, so the copy is guarded.
 */
static size_t feed_some(struct iwarp_stags *s, const uint8_t *p, size_t n, iwarp_stags_fn *fn,
                        void *arg)
{
    if (s->skip > 0) {
        n = s->skip < n ? (size_t)s->skip : n;
        s->skip -= n;
        return n;
    }
    n = wanted(s) - s->have < n ? wanted(s) - s->have : n;
    if (iwarp_guard_copy_from(s->head + s->have, p, n) != 0) {
        s->over = true;
        return n;
    }
    s->have += (unsigned)n;
    if (s->have == wanted(s)) {
        if (s->started) {
            take_fpdu(s, fn, arg);
        } else {
            take_start(s);
        }
        s->have = 0;
    }
    return n;
}

void iwarp_stags_feed(struct iwarp_stags *s, const struct iovec *iov, size_t skip, size_t len,
                      iwarp_stags_fn *fn, void *arg)
{
    for (; len > 0 && !s->over; iov++) {
        size_t n = iov->iov_len;
        size_t at = skip < n ? skip : n;
        skip -= at;
        n = n - at < len ? n - at : len;
        len -= n;
        while (n > 0 && !s->over) {
            size_t used = feed_some(s, (const uint8_t *)iov->iov_base + at, n, fn, arg);
            at += used;
            n -= used;
        }
    }
}
