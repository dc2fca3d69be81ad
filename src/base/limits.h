/* SPDX-License-Identifier: BSD-2-Clause */
/* Every compile-time bound, with its reason. Bounds that a user may want to move are options
 * instead. */
#ifndef IWARP_BASE_LIMITS_H
#define IWARP_BASE_LIMITS_H

/* Scatter/gather entries of one work request: what RNICs offer, and small enough for the stack. */
#define IWARP_MAX_SGE 32

/* Inline octets per request: such data is copied twice, which pays only while it is small. */
#define IWARP_MAX_INLINE 1024

/* Send and receive queue entries: 16 bits of index leave room for wrap arithmetic in 32. */
#define IWARP_MAX_WR 65536

/* Completion queue entries. */
#define IWARP_MAX_CQE 4194304

/* RDMA Read depth that this end agrees to; 14 bits are possible on the wire (RFC 6581 9). */
#define IWARP_MAX_READ_DEPTH 1024

/* STags have a 24-bit index; a table at most a quarter full keeps random picks cheap. */
#define IWARP_MAX_REGIONS (1u << 22)

#define IWARP_MAX_WORKERS 64

/* Regions held for the length of one I/O batch: the SGEs of a few requests. */
#define IWARP_MAX_LENDS 64

#endif
