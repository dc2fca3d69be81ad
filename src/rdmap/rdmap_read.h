/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA Reads and Atomics in flight, both ways: requests of the peer that this end answers in order
 * (bounded by IRD), and requests of this end whose responses are awaited in order (bounded by ORD).
 * Both kinds share queue, depth and order. RFC 5040 5.2 and 5.5 rules 11, 12, 17, 19, 20; RFC 7306
 * 5.2.2 and 7. Bounded rings, no I/O.
 */
#ifndef IWARP_RDMAP_READ_H
#define IWARP_RDMAP_READ_H

#include "rdmap/rdmap_atomic.h"
#include "rdmap/rdmap_wire.h"

#include <stdbool.h>
#include <stdlib.h>

/* A request of the peer. `sent` octets of its response have been framed. */
struct iwarp_read_in {
    union {
        struct iwarp_rdmap_read_request request;
        struct iwarp_rdmap_atomic_request op; /* if it is of an Atomic: done when it is answered */
    };
    bool atomic;
    uint32_t msn; /* of the request, for a Terminate that has to quote it */
    uint32_t sent;
};

/*
 * A request of this end: the send queue entry that waits, and how much has come. An RDMA Read has a
 * request for each of its SGEs with octets; `more`: the entry's next request is to follow.
 */
struct iwarp_read_out {
    bool rtr;      /* the ready-to-receive message: nobody posted it, `wqe` says nothing */
    bool atomic;   /* expects an Atomic Response */
    bool more;     /* the entry is not done with this response */
    uint8_t sge;   /* which of the entry's SGEs is the sink */
    uint32_t wqe;  /* send queue position */
    uint32_t msn;  /* of the request; an Atomic's Request Identifier too */
    uint32_t size; /* octets asked for */
    uint32_t done; /* octets that have come */
};

struct iwarp_rdmap_reads {
    struct iwarp_read_in *in;
    struct iwarp_read_out *out;
    uint32_t ird, ord;            /* depths: at most so many */
    uint32_t in_slots, out_slots; /* of the rings, which grow up to that */
    uint32_t in_head, in_count;   /* requests to be answered, from in[in_head] on */
    uint32_t out_head, out_count; /* responses awaited */
};

/* Allocates nothing: the rings come with their first slots. */
void iwarp_rdmap_reads_init(struct iwarp_rdmap_reads *r, uint32_t ird, uint32_t ord);
void iwarp_rdmap_reads_fini(struct iwarp_rdmap_reads *r);

/* A full ring, not of its final depth yet, gets more slots. False: no memory, nothing changed. */
bool iwarp_rdmap_in_grow(struct iwarp_rdmap_reads *r);
bool iwarp_rdmap_out_grow(struct iwarp_rdmap_reads *r);

/*
 * A free slot behind the last, to be filled and then counted, and until then the same one if asked
 * again. NULL: the depth is reached; or, if the count is below it, no memory for more slots.
 */
static inline struct iwarp_read_in *iwarp_rdmap_in_slot(struct iwarp_rdmap_reads *r)
{
    if (r->in_count == r->in_slots && (r->in_slots == r->ird || !iwarp_rdmap_in_grow(r))) {
        return NULL;
    }
    return &r->in[(r->in_head + r->in_count) % r->in_slots];
}

static inline struct iwarp_read_out *iwarp_rdmap_out_slot(struct iwarp_rdmap_reads *r)
{
    if (r->out_count == r->out_slots && (r->out_slots == r->ord || !iwarp_rdmap_out_grow(r))) {
        return NULL;
    }
    return &r->out[(r->out_head + r->out_count) % r->out_slots];
}

/* The oldest, NULL if there is none. */
static inline struct iwarp_read_in *iwarp_rdmap_in_oldest(struct iwarp_rdmap_reads *r)
{
    return r->in_count ? &r->in[r->in_head] : NULL;
}

static inline struct iwarp_read_out *iwarp_rdmap_out_oldest(struct iwarp_rdmap_reads *r)
{
    return r->out_count ? &r->out[r->out_head] : NULL;
}

/* The oldest is done: its slot is free again. */
static inline void iwarp_rdmap_in_pop(struct iwarp_rdmap_reads *r)
{
    r->in_head = (r->in_head + 1) % r->in_slots;
    r->in_count--;
}

static inline void iwarp_rdmap_out_pop(struct iwarp_rdmap_reads *r)
{
    r->out_head = (r->out_head + 1) % r->out_slots;
    r->out_count--;
}

#endif
