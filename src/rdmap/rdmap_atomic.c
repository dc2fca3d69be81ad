/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomic operations of RFC 7306 5: the request header, the arithmetic and the access to memory.
 * When an operation may be done, and that it is done once only, is decided in src/stream.
 */
#include "rdmap/rdmap_atomic.h"

#include <assert.h>
#include <stdatomic.h>

/* A lock of the compiler's library would neither exclude the host nor survive a guard. */
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && sizeof(long long) == sizeof(uint64_t),
               "atomics need a processor with 64-bit atomic instructions");

/*
 * The access is not instrumented: a sanitizer would look up its shadow of an address that may be
 * gone, and TSan would make the access under a lock of its own, which a fault would leave held.
 * clang's no_sanitize leaves atomics to TSan nevertheless.
 */
#if defined(__has_attribute)
#if __has_attribute(disable_sanitizer_instrumentation)
#define UNCHECKED                                                                                  \
    __attribute__((disable_sanitizer_instrumentation,                                              \
                   no_sanitize("address", "thread", "undefined")))
#endif
#endif
#if !defined(UNCHECKED)
#define UNCHECKED __attribute__((no_sanitize("address", "thread", "undefined")))
#endif

/* --- header ---------------------------------------------------------------------------------- */

/* 28 reserved bits stand before the operation code. [RDMAX-5.2.1-01] */
#define AOP_MASK 0x0fu

void iwarp_rdmap_atomic_request_get(const uint8_t *p, struct iwarp_rdmap_atomic_request *r)
{
    r->aop = p[3] & AOP_MASK;
    r->id = iwarp_get_be32(p + 4);
    r->stag = iwarp_get_be32(p + 8);
    r->to = iwarp_get_be64(p + 12);
    r->operand = iwarp_get_be64(p + 20);
    r->mask = iwarp_get_be64(p + 28);
    r->compare = iwarp_get_be64(p + 36);
    r->compare_mask = iwarp_get_be64(p + 44);
}

uint32_t iwarp_rdmap_atomic_request_put(uint8_t *p, const struct iwarp_rdmap_atomic_request *r)
{
    bool add = r->aop == IWARP_AOP_FETCH_ADD; /* [RDMAX-5.2.1-06] */

    iwarp_put_be32(p, r->aop & AOP_MASK);
    iwarp_put_be32(p + 4, r->id);
    iwarp_put_be32(p + 8, r->stag);
    iwarp_put_be64(p + 12, r->to);
    iwarp_put_be64(p + 20, r->operand);
    iwarp_put_be64(p + 28, r->mask);
    iwarp_put_be64(p + 36, add ? 0 : r->compare);
    iwarp_put_be64(p + 44, add ? UINT64_MAX : r->compare_mask);
    return IWARP_RDMAP_ATOMIC_REQ_LEN;
}

/* --- arithmetic ------------------------------------------------------------------------------ */

/*
 * Without the top bits of the fields no carry can leave a field: it ends in the top bit, to which
 * the two that were left out are then added without carry. [RDMAX-5.1.1-05]
 */
uint64_t iwarp_rdmap_fetch_add(uint64_t original, uint64_t add, uint64_t mask)
{
    uint64_t low = (original & ~mask) + (add & ~mask);
    return low ^ ((original ^ add) & mask);
}

/* [RDMAX-5.1.2-01] */
uint64_t iwarp_rdmap_cmp_swap(uint64_t original, uint64_t swap, uint64_t swap_mask,
                              uint64_t compare, uint64_t compare_mask)
{
    if (((compare ^ original) & compare_mask) != 0) {
        return original;
    }
    return (original & ~swap_mask) | (swap & swap_mask);
}

static uint64_t outcome(uint64_t original, const struct iwarp_rdmap_atomic_request *r)
{
    if (r->aop == IWARP_AOP_FETCH_ADD) {
        return iwarp_rdmap_fetch_add(original, r->operand, r->mask);
    }
    return iwarp_rdmap_cmp_swap(original, r->operand, r->mask, r->compare, r->compare_mask);
}

/* --- memory ---------------------------------------------------------------------------------- */

/* [RDMAX-5-01] [RDMAX-5-03] [RDMAX-5.2.1-02] [RDMAX-5.3-01] [RDMAX-5.4-02] */
UNCHECKED bool iwarp_rdmap_atomic_execute(void *target, const struct iwarp_rdmap_atomic_request *r,
                                          uint64_t *original)
{
    uint64_t *word = target;

    if (!iwarp_rdmap_atomic_known(r->aop)) {
        return false;
    }
    assert(iwarp_rdmap_atomic_aligned(target));
    uint64_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
    /* Stored even if unchanged: always one read-modify-write, ordered and faulting alike. */
    while (!__atomic_compare_exchange_n(word, &seen, outcome(seen, r), true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED)) {
    }
    *original = seen;
    return true;
}
