/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs for memory: regions, and what may be done with their STags. Included by verbs.h, whose head
 * says what holds for threads and for memory that is not there.
 */
#ifndef IWARP_MEMORY_H
#define IWARP_MEMORY_H

#include <iwarp/api.h>
#include <iwarp/status.h>
#include <stddef.h>
#include <stdint.h>

IWARP_BEGIN_DECLS

struct iwarp_pd;
struct iwarp_mr;
struct iwarp_mw;

/* --- memory regions -------------------------------------------------------------------------- */

/* Rights of a region. Remote rights let a peer use the STag; local ones are checked for SGEs. */
enum iwarp_access {
    IWARP_ACCESS_LOCAL_WRITE = 1 << 0,  /* receive buffers, RDMA Read sinks */
    IWARP_ACCESS_REMOTE_WRITE = 1 << 1, /* needs LOCAL_WRITE */
    IWARP_ACCESS_REMOTE_READ = 1 << 2,
    IWARP_ACCESS_MW_BIND = 1 << 4,    /* windows may be bound to the region */
    IWARP_ACCESS_ZERO_BASED = 1 << 5, /* no right: TO 0 is the first octet */
    IWARP_ACCESS_QP_ONLY = 1 << 6     /* no right: one queue pair alone may use the STag */
};

/*
 * Register len octets at addr (len may be 0). O(1): a table entry, no pinning, no page walk; the
 * memory need not even be mapped yet. Memory that is not there when it is used ends the stream that
 * used it with a fault, and nothing else. The region is addressed by virtual address: the TO that a
 * peer uses for addr[i] is (uint64_t)(uintptr_t)addr + i. STags are unpredictable (RFC 5042 6.1.1).
 */
IWARP_API enum iwarp_status iwarp_mr_register(struct iwarp_pd *pd, void *addr, size_t len,
                                              unsigned access, struct iwarp_mr **mr);

/*
 * Returns when no transfer touches the region any more; segments that arrive for its STag later end
 * their stream only. Freeing the memory is safe afterwards.
 */
IWARP_API enum iwarp_status iwarp_mr_deregister(struct iwarp_mr *mr);

/* The STag; serves as the lkey of SGEs, and is what a peer is told if it has remote rights. */
IWARP_API uint32_t iwarp_mr_stag(const struct iwarp_mr *mr);
IWARP_API void *iwarp_mr_addr(const struct iwarp_mr *mr);
IWARP_API size_t iwarp_mr_len(const struct iwarp_mr *mr);

/* What a work request binds: REG_MR memory to a region, BIND_MW part of a region to a window. */
struct iwarp_bind {
    struct iwarp_mr *mr;
    struct iwarp_mw *mw; /* BIND_MW */
    void *addr;          /* the first octet */
    size_t len;
    uint64_t to_base; /* REG_MR: TO of the first octet, usually (uint64_t)(uintptr_t)addr */
    unsigned access;  /* enum iwarp_access */
    uint8_t key;      /* the STag's new lowest 8 bits */
};

IWARP_END_DECLS

#endif
