/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters of a stream. The driver of the stream is the only writer; any thread may read at any
 * time. So an increment is a relaxed load and a relaxed store, without the cost of a locked
 * instruction. A reader sees each counter whole, but not all of them at one moment.
 */
#ifndef IWARP_STREAM_COUNT_H
#define IWARP_STREAM_COUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define STREAM_COUNT_OPCODES 16 /* as many as there are; of the unknown ones none is counted */

struct iwarp_stream_traffic {
    _Atomic uint64_t messages[STREAM_COUNT_OPCODES]; /* finished ones, by RDMAP opcode */
    _Atomic uint64_t payload;                        /* octets, without any header */
    _Atomic uint64_t fpdus;
    _Atomic uint64_t octets; /* of the stream */
};

struct iwarp_stream_counts {
    struct iwarp_stream_traffic tx, rx;
    _Atomic uint64_t waited; /* messages that came before their receive, and were held */
};

/* Correct only because there is one writer: two could lose an increment. */
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
    if (last) {
        iwarp_count(&t->messages[opcode % STREAM_COUNT_OPCODES], 1);
    }
}

#endif
