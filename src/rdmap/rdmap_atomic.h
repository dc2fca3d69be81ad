/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RFC 7306: Atomic Request and Response headers and the 8 octets of Immediate Data, both ways; what
 * FetchAdd and CmpSwap compute; and doing it in memory. Operands are big-endian on the wire and in
 * the byte order of this host in memory and in these structures. (RFC 7306 5, 6)
 *
 * STags, rights, bounds, queues and order are the business of others.
 */
#ifndef IWARP_RDMAP_ATOMIC_H
#define IWARP_RDMAP_ATOMIC_H

#include "base/bytes.h"

#include <iwarp/protocol.h>
#include <stdbool.h>

/* Atomic operation codes, RFC 7306 figure 5; 4 bits. All others are unassigned. */
enum iwarp_rdmap_aop { IWARP_AOP_FETCH_ADD = 0x0, IWARP_AOP_CMP_SWAP = 0x2 };

struct iwarp_rdmap_atomic_request {
    uint8_t aop; /* enum iwarp_rdmap_aop, or as received any value of 0 to 15 */
    uint32_t id; /* chosen by the requester, repeated in the response */
    uint32_t stag;
    uint64_t to;
    uint64_t operand; /* Add Data or Swap Data */
    uint64_t mask;    /* Add Mask (0: one 64-bit field) or Swap Mask */
    uint64_t compare; /* Compare Data and Compare Mask: CmpSwap only */
    uint64_t compare_mask;
};

struct iwarp_rdmap_atomic_response {
    uint32_t id;
    uint64_t original;
};

/* p holds IWARP_RDMAP_ATOMIC_REQ_LEN octets. Reserved bits are ignored. */
void iwarp_rdmap_atomic_request_get(const uint8_t *p, struct iwarp_rdmap_atomic_request *r);

/* Returns the length. A FetchAdd's compare fields are sent as RFC 7306 wants, whatever r has. */
uint32_t iwarp_rdmap_atomic_request_put(uint8_t *p, const struct iwarp_rdmap_atomic_request *r);

/* p holds IWARP_RDMAP_ATOMIC_RESP_LEN octets. */
static inline void iwarp_rdmap_atomic_response_get(const uint8_t *p,
                                                   struct iwarp_rdmap_atomic_response *r)
{
    r->id = iwarp_get_be32(p);
    r->original = iwarp_get_be64(p + 4);
}

static inline uint32_t iwarp_rdmap_atomic_response_put(uint8_t *p,
                                                       const struct iwarp_rdmap_atomic_response *r)
{
    iwarp_put_be32(p, r->id);
    iwarp_put_be64(p + 4, r->original);
    return IWARP_RDMAP_ATOMIC_RESP_LEN;
}

/* Immediate Data as a number: its first octet on the wire is the most significant. RFC 7306 6.2 */
static inline uint64_t iwarp_rdmap_immediate_get(const uint8_t *p)
{
    return iwarp_get_be64(p);
}

static inline uint32_t iwarp_rdmap_immediate_put(uint8_t *p, uint64_t value)
{
    iwarp_put_be64(p, value);
    return IWARP_RDMAP_IMMEDIATE_LEN;
}

/* Is there such an operation? If not, the request is answered with Terminate 0/2/06. */
static inline bool iwarp_rdmap_atomic_known(uint8_t aop)
{
    return aop == IWARP_AOP_FETCH_ADD || aop == IWARP_AOP_CMP_SWAP;
}

/* It is the address in memory that has to be aligned, not the TO; else Terminate 0/2/07. */
static inline bool iwarp_rdmap_atomic_aligned(const void *target)
{
    return (uintptr_t)target % sizeof(uint64_t) == 0;
}

/* What memory holds after the operation. A mask bit of FetchAdd is the top bit of a field. */
uint64_t iwarp_rdmap_fetch_add(uint64_t original, uint64_t add, uint64_t mask);
uint64_t iwarp_rdmap_cmp_swap(uint64_t original, uint64_t swap, uint64_t swap_mask,
                              uint64_t compare, uint64_t compare_mask);

/*
 * Do the operation once on the aligned word at target. Atomic against itself in any thread and
 * against the processor's own atomic instructions in any process that maps the word. False, and
 * nothing is touched, if the operation is unknown.
 *
 * May be left by iwarp_guard_run (addr target, 8 octets) at an access to the word; then memory is
 * unchanged. No access follows the one that changes it. CmpSwap needs writable memory even where
 * the comparison fails, as the processor's instruction does.
 */
bool iwarp_rdmap_atomic_execute(void *target, const struct iwarp_rdmap_atomic_request *r,
                                uint64_t *original);

#endif
