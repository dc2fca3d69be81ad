/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send and receive queues of one stream: rings of work requests that verbs fills and the stream
 * processes in order. There is one producer at a time (a posting thread, under qp.post_lock) and
 * one consumer at a time (the driver of the stream, under conn.lock). They share no lock: `head` is
 * stored with release and loaded with acquire, and so is `reaped` in the other direction.
 *
 * An entry's life:   posted --(stream)--> next --(stream)--> done --(verbs)--> reaped
 * Positions count up for ever (modulo 2^32); an entry is found at position & mask.
 *
 * A receive queue may instead draw on a shared receive queue, a block of entries that belongs to
 * verbs. Then `take` gives the stream an entry when a message begins (it must neither call the
 * stream nor wait), `taken` is the entry of the current message, and finished entries form a list,
 * oldest first, until verbs pops them. A stream never takes a second entry before it has finished
 * the first.
 */
#ifndef IWARP_STREAM_WQ_H
#define IWARP_STREAM_WQ_H

#include "base/memory.h"
#include "ddp/ddp_bind.h"

#include <iwarp/verbs.h>
#include <stdatomic.h>
#include <stdlib.h>

struct iwarp_swqe {
    uint64_t wr_id;
    uint64_t remote_to;
    uint64_t imm;     /* IMM, WRITE_IMM, SEND_IMM */
    uint64_t end_pos; /* stream position behind its last FPDU, set when that is framed */
    uint32_t remote_stag;
    uint32_t invalidate_stag; /* SEND_INV, LOCAL_INV */
    uint32_t len;             /* octets of the message */
    uint8_t opcode;           /* enum iwarp_wr_opcode */
    uint8_t flags;            /* enum iwarp_wr_flags */
    uint8_t num_sge;
    uint8_t status;         /* enum iwarp_wc_status, once it is done or has failed */
    bool response_done;     /* RDMA Read, Atomic: the response has been delivered */
    uint32_t inline_len;    /* octets at iwarp_swqe_inline, if INLINE */
    struct iwarp_sge sgl[]; /* or inline data, or a binding, or one SGE and operands */
};

struct iwarp_rwqe {
    uint64_t wr_id;
    uint64_t capacity; /* octets, at most 2^32-1 */
    uint64_t imm;      /* if wc_flags say so */
    uint32_t byte_len; /* once delivered */
    uint32_t invalidated_stag;
    uint8_t num_sge;
    uint8_t wc_flags; /* enum iwarp_wc_flags */
    uint8_t status;   /* enum iwarp_wc_status */
    uint32_t link;    /* shared entries: number of the next in the list that this one is in */
    struct iwarp_sge sgl[];
};

#define IWARP_RQ_NONE UINT32_MAX /* no entry of a shared block */

/* A ring of entries of equal size, or a view of a shared block of such entries. */
struct iwarp_wq {
    uint8_t *mem;
    uint32_t stride;         /* octets from entry to entry */
    uint32_t mask;           /* ring size - 1 */
    uint32_t limit;          /* entries that may be posted and not yet reaped */
    _Atomic uint32_t head;   /* posted: producer writes, consumer reads */
    uint32_t next;           /* stream: first entry not yet begun (SQ), or not yet taken (RQ) */
    uint32_t done;           /* stream: first entry that is not finished */
    _Atomic uint32_t reaped; /* verbs: first entry whose completion was not yet produced */

    uint32_t (*take)(void *shared); /* NULL: a ring. Returns an entry's number or NONE */
    void *shared;
    const void *pd; /* protection domain of the shared entries' buffers; NULL: the stream's */
    uint32_t taken, done_first, done_last; /* numbers of shared entries, or NONE */
};

_Static_assert(offsetof(struct iwarp_swqe, sgl) % sizeof(uint64_t) == 0, "what else lies there");

static inline void *iwarp_wq_at(const struct iwarp_wq *q, uint32_t position)
{
    return q->mem + (size_t)(position & q->mask) * q->stride;
}

static inline struct iwarp_swqe *iwarp_sq_at(const struct iwarp_wq *q, uint32_t position)
{
    return iwarp_wq_at(q, position);
}

static inline struct iwarp_rwqe *iwarp_rq_at(const struct iwarp_wq *q, uint32_t position)
{
    return iwarp_wq_at(q, position);
}

static inline void *iwarp_swqe_inline(struct iwarp_swqe *w)
{
    return w->sgl;
}

/* ATOMIC_*: the operands lie behind the one SGE, aligned to 8 octets also on 32-bit machines, where
 * an SGE has 12. */
struct iwarp_operands {
    uint64_t operand, mask, compare, compare_mask;
};

#define IWARP_OPERANDS_AT ((sizeof(struct iwarp_sge) + 7) & ~(size_t)7)

static inline struct iwarp_operands *iwarp_swqe_operands(struct iwarp_swqe *w)
{
    void *p = (uint8_t *)w->sgl + IWARP_OPERANDS_AT;
    return p;
}

/* REG_MR, BIND_MW: what is to be bound. */
static inline struct iwarp_binding *iwarp_swqe_binding(struct iwarp_swqe *w)
{
    void *p = w->sgl;
    return p;
}

static inline bool iwarp_swqe_is_read(const struct iwarp_swqe *w)
{
    return w->opcode == IWARP_WR_READ || w->opcode == IWARP_WR_READ_INV;
}

/* Begins with an RDMA Write? */
static inline bool iwarp_swqe_is_write(const struct iwarp_swqe *w)
{
    return w->opcode == IWARP_WR_WRITE || w->opcode == IWARP_WR_WRITE_IMM;
}

static inline bool iwarp_swqe_is_atomic(const struct iwarp_swqe *w)
{
    return w->opcode == IWARP_WR_ATOMIC_FETCH_ADD || w->opcode == IWARP_WR_ATOMIC_CMP_SWAP;
}

/* Does it complete with the peer's response, rather than when it is sent? */
static inline bool iwarp_swqe_has_response(const struct iwarp_swqe *w)
{
    return iwarp_swqe_is_read(w) || iwarp_swqe_is_atomic(w);
}

/* Carried out here, without a message. */
static inline bool iwarp_swqe_is_local(const struct iwarp_swqe *w)
{
    return w->opcode == IWARP_WR_REG_MR || w->opcode == IWARP_WR_LOCAL_INV ||
           w->opcode == IWARP_WR_BIND_MW;
}

/* The acquire makes the entries before `head` visible that the producer has filled. */
static inline uint32_t iwarp_wq_head(struct iwarp_wq *q)
{
    return atomic_load_explicit(&q->head, memory_order_acquire);
}

/* Is there a posted entry that the stream has not begun? */
static inline bool iwarp_wq_waiting(struct iwarp_wq *q)
{
    return q->next != iwarp_wq_head(q);
}

/* Room at this position, the head or beyond? Asked by the producer. */
static inline bool iwarp_wq_room_at(struct iwarp_wq *q, uint32_t position)
{
    return position - atomic_load_explicit(&q->reaped, memory_order_acquire) < q->limit;
}

/* Room for one more? */
static inline bool iwarp_wq_room(struct iwarp_wq *q)
{
    return iwarp_wq_room_at(q, atomic_load_explicit(&q->head, memory_order_relaxed));
}

/* By the producer, after it has filled the entry at `head`: the release publishes it. */
static inline void iwarp_wq_push(struct iwarp_wq *q)
{
    atomic_store_explicit(&q->head, atomic_load_explicit(&q->head, memory_order_relaxed) + 1,
                          memory_order_release);
}

/*
 * Move q->done over the requests that are finished, in order. `released` is the stream position up
 * to which the transport no longer refers to memory. A request without a response is finished once
 * that reaches its end_pos; one with a response, once the response has come.
 */
/* [RDMAP-5.5-08] [RDMAP-5.5-09] [VERBS-8.2.2-02] */
static inline void iwarp_sq_retire(struct iwarp_wq *q, uint64_t released)
{
    while (q->done != q->next) {
        struct iwarp_swqe *w = iwarp_sq_at(q, q->done);
        if (iwarp_swqe_has_response(w) ? !w->response_done : released < w->end_pos) {
            return;
        }
        w->status = IWARP_WC_SUCCESS;
        q->done++;
    }
}

/* --- receives, of either kind ---------------------------------------------------------------- */

/* The receive for the current message; NULL if nothing is posted. */
static inline struct iwarp_rwqe *iwarp_rq_current(struct iwarp_wq *q)
{
    if (!q->take) {
        return iwarp_wq_waiting(q) ? iwarp_rq_at(q, q->next) : NULL;
    }
    if (q->taken == IWARP_RQ_NONE) {
        q->taken = q->take(q->shared);
    }
    return q->taken == IWARP_RQ_NONE ? NULL : iwarp_rq_at(q, q->taken);
}

/* The current receive is finished: verbs may produce its completion. */
static inline void iwarp_rq_finish(struct iwarp_wq *q)
{
    if (!q->take) {
        q->next++;
        q->done++;
        return;
    }
    iwarp_rq_at(q, q->taken)->link = IWARP_RQ_NONE;
    if (q->done_first == IWARP_RQ_NONE) {
        q->done_first = q->taken;
    } else {
        iwarp_rq_at(q, q->done_last)->link = q->taken;
    }
    q->done_last = q->taken;
    q->taken = IWARP_RQ_NONE;
}

/* Remove the oldest finished shared entry from the list and return it; NULL: there is none. */
static inline struct iwarp_rwqe *iwarp_rq_pop(struct iwarp_wq *q)
{
    if (q->done_first == IWARP_RQ_NONE) {
        return NULL;
    }
    struct iwarp_rwqe *w = iwarp_rq_at(q, q->done_first);
    q->done_first = w->link;
    return w;
}

/* For a stream that has ended: the shared entry of a message that will never finish; NULL: none. */
static inline struct iwarp_rwqe *iwarp_rq_untake(struct iwarp_wq *q)
{
    struct iwarp_rwqe *w = q->taken == IWARP_RQ_NONE ? NULL : iwarp_rq_at(q, q->taken);

    q->taken = IWARP_RQ_NONE;
    return w;
}

/* Make q a view of a shared block of entries. The block is not freed with q. */
static inline void iwarp_rq_share(struct iwarp_wq *q, uint8_t *mem, uint32_t stride, const void *pd,
                                  uint32_t (*take)(void *shared), void *shared)
{
    *q = (struct iwarp_wq){.mem = mem,
                           .stride = stride,
                           .mask = UINT32_MAX,
                           .take = take,
                           .shared = shared,
                           .pd = pd,
                           .taken = IWARP_RQ_NONE,
                           .done_first = IWARP_RQ_NONE};
}

/* A ring of at least `entries` entries (0: no memory). entry_bytes is rounded up to 16 octets and
 * no further, since idle connections have rings, too. False: no memory. */
static inline bool iwarp_wq_init(struct iwarp_wq *q, uint32_t entries, size_t entry_bytes)
{
    uint32_t size = 1;

    while (size < entries) {
        size *= 2;
    }
    *q = (struct iwarp_wq){
        .stride = (uint32_t)((entry_bytes + 15) & ~(size_t)15), .mask = size - 1, .limit = entries};
    q->mem = entries ? iwarp_malloc_array(size, q->stride) : NULL;
    return !entries || q->mem;
}

static inline void iwarp_wq_fini(struct iwarp_wq *q)
{
    if (!q->take) {
        free(q->mem);
    }
    q->mem = NULL;
}

#endif
