/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a stream counts while it works. One writer at a time (who drives the stream), readers at any
 * time from any thread: relaxed atomics that are loaded and stored, never locked.
 */
#ifndef IWARP_STREAM_COUNT_H
#define IWARP_STREAM_COUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define STREAM_COUNT_OPCODES 12 /* those that there are; the others are refused */

struct iwarp_stream_traffic {
    _Atomic uint64_t messages[STREAM_COUNT_OPCODES]; /* whole ones, by RDMAP opcode */
    _Atomic uint64_t payload;                        /* octets, without any header */
    _Atomic uint64_t fpdus;
    _Atomic uint64_t octets; /* of the stream */
};

struct iwarp_stream_counts {
    struct iwarp_stream_traffic tx, rx;
};

static inline void iwarp_count(_Atomic uint64_t *c, uint64_t n)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* One FPDU, which ends a message if `last`. */
static inline void iwarp_count_fpdu(struct iwarp_stream_traffic *t, unsigned opcode, bool last,
                                    uint32_t payload)
{
    iwarp_count(&t->fpdus, 1);
    iwarp_count(&t->payload, payload);
    if (last && opcode < STREAM_COUNT_OPCODES) {
        iwarp_count(&t->messages[opcode], 1);
    }
}

#endif
