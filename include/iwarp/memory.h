/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs for memory: regions, windows, and what their STags stand for (verbs draft 7, RFC 5040 8.1).
 * Included by verbs.h, whose head says what holds for threads and for memory that is not there.
 *
 * An STag is 24 bits of index, which the library draws, and 8 bits of key; all 32 have to match.
 * It is valid or invalid. A call or request that makes an STag invalid waits for all transfers that
 * use the STag. So after it has returned or completed, no octet is read or changed through that
 * STag (RFC 5042 6.2.2). These operations change what an STag stands for:
 *
 *   registered     iwarp_mr_register, iwarp_mr_create; iwarp_mr_reregister; work request REG_MR
 *   bound          a window to part of a region: iwarp_mw_bind, work request BIND_MW
 *   invalidated    work requests LOCAL_INV and READ_INV, the peer's Send with Invalidate
 *   given back     iwarp_mr_deregister, iwarp_mw_free
 *
 * The work requests REG_MR, BIND_MW and LOCAL_INV send nothing. They are carried out in the order
 * of the send queue and before any later request begins. LOCAL_INV and BIND_MW wait until earlier
 * Sends and Writes have been handed to TCP, and with IWARP_WR_FENCE all three wait for all earlier
 * requests, RDMA Reads too. A request that cannot be carried out completes as IWARP_WC_LOCAL_BIND
 * and ends the stream; the fault of the completion gives the reason.
 *
 * A peer may invalidate (RFC 5040 5.3, 8.1.1) what has a remote right, no windows bound to it, and
 * cannot be used by another stream: windows of type 2, regions limited to the queue pair, and other
 * regions as long as theirs is the only queue pair of the protection domain. When the Receive
 * completes, the STag is invalid already.
 */
#ifndef IWARP_MEMORY_H
#define IWARP_MEMORY_H

#include <iwarp/api.h>
#include <iwarp/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

IWARP_BEGIN_DECLS

struct iwarp_pd;
struct iwarp_qp;
struct iwarp_mr;
struct iwarp_mw;

/* Rights of a region or window. Remote rights let a peer use the STag; local ones are checked for
 * SGEs. Reading locally needs no right. */
enum iwarp_access {
    IWARP_ACCESS_LOCAL_WRITE = 1 << 0,  /* receive buffers, RDMA Read sinks; not for windows */
    IWARP_ACCESS_REMOTE_WRITE = 1 << 1, /* needs LOCAL_WRITE of the region */
    IWARP_ACCESS_REMOTE_READ = 1 << 2,
    IWARP_ACCESS_REMOTE_ATOMIC = 1 << 3, /* RFC 7306 5; needs LOCAL_WRITE of the region */
    IWARP_ACCESS_MW_BIND = 1 << 4,       /* windows may be bound to the region */
    IWARP_ACCESS_ZERO_BASED = 1 << 5,    /* no right: the TO of the first octet is 0 */
    IWARP_ACCESS_QP_ONLY = 1 << 6        /* no right: one queue pair alone may use the STag */
};

/* The same STag with another key. */
static inline uint32_t iwarp_stag_with_key(uint32_t stag, uint8_t key)
{
    return (stag & 0xffffff00u) | key;
}

/* --- regions --------------------------------------------------------------------------------- */

struct iwarp_mr_options {
    size_t size; /* set by init */
    void *addr;
    size_t len;       /* octets, may be 0 */
    unsigned access;  /* enum iwarp_access */
    uint64_t to_base; /* TO of the first octet, in SGEs too; init: by virtual address, or 0 */
    struct iwarp_qp
        *qp; /* the only queue pair that may use the STag; default NULL: all of the PD */
};

/*
 * Set *options for len octets at addr, with these rights, for all queue pairs of the domain.
 * to_base is the address, or 0 if access has ZERO_BASED.
 */
IWARP_API void iwarp_mr_options_init(struct iwarp_mr_options *options, void *addr, size_t len,
                                     unsigned access);

/*
 * Register memory. The cost does not depend on the length: the library makes a table entry and pins
 * no page. The memory need not be mapped yet. If it is not mapped when a stream uses it, that
 * stream alone ends with a fault. STags are unpredictable (RFC 5042 6.1.1). The application keeps
 * the memory, and releases *mr with iwarp_mr_deregister.
 *
 * MISUSE: unknown rights; REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE; addresses or TOs that
 * wrap; ZERO_BASED with a to_base; QP_ONLY without qp; a qp of another protection domain. LIMIT:
 * the device has max_regions regions and windows, or the system has no random octets. NO_MEMORY.
 */
IWARP_API enum iwarp_status iwarp_mr_create(struct iwarp_pd *pd,
                                            const struct iwarp_mr_options *options,
                                            struct iwarp_mr **mr);

/*
 * The same for len octets at addr. The region is addressed by virtual address: the TO that a peer
 * uses for addr[i] is (uint64_t)(uintptr_t)addr + i; or i, if access has ZERO_BASED.
 */
IWARP_API enum iwarp_status iwarp_mr_register(struct iwarp_pd *pd, void *addr, size_t len,
                                              unsigned access, struct iwarp_mr **mr);

/*
 * Allocate an STag without memory. It is invalid until a REG_MR or iwarp_mr_reregister. LIMIT,
 * NO_MEMORY: as for iwarp_mr_create.
 */
IWARP_API enum iwarp_status iwarp_mr_alloc(struct iwarp_pd *pd, struct iwarp_mr **mr);

/*
 * Make a region stand for other memory, rights or a protection domain of the same device (pd may be
 * NULL: keep the domain). The STag may be valid or invalid before; its key changes, so a peer that
 * knows the old STag cannot use the new memory. The call returns when no transfer uses the former
 * memory any more. No other thread may use *mr meanwhile. MISUSE: as for iwarp_mr_create, or
 * windows are bound to the region. LIMIT: the system has no random octets.
 */
IWARP_API enum iwarp_status iwarp_mr_reregister(struct iwarp_mr *mr, struct iwarp_pd *pd,
                                                const struct iwarp_mr_options *options);

/*
 * Invalidate the STag and release *mr. The call returns when no transfer uses the memory any more,
 * so the application may free the memory then. A segment that arrives later for the STag ends its
 * own stream only (RFC 5041 7.1). MISUSE: windows are bound to the region.
 */
IWARP_API enum iwarp_status iwarp_mr_deregister(struct iwarp_mr *mr);

/*
 * Return the STag: the lkey for SGEs, and the value to give to a peer if the region has remote
 * rights. After a REG_MR was posted, this is the new STag; it becomes valid when the request is
 * carried out.
 */
IWARP_API uint32_t iwarp_mr_stag(const struct iwarp_mr *mr);

/*
 * Return what was registered last: first octet, length in octets, enum iwarp_access, TO of the
 * first octet. Do not call these while a REG_MR for the region is posted and not completed;
 * iwarp_mr_query may be called then.
 */
IWARP_API void *iwarp_mr_addr(const struct iwarp_mr *mr);
IWARP_API size_t iwarp_mr_len(const struct iwarp_mr *mr);
IWARP_API unsigned iwarp_mr_access(const struct iwarp_mr *mr);
IWARP_API uint64_t iwarp_mr_to_base(const struct iwarp_mr *mr);

/* --- windows --------------------------------------------------------------------------------- */

/*
 * A window gives peers access to part of a region for some time, with rights of its own. Binding
 * and invalidating it need no registration. The region needs MW_BIND, and LOCAL_WRITE if a peer may
 * write; it may not be ZERO_BASED (the window may). The region's own remote rights do not matter.
 *
 * A window of type 2 belongs to its queue pair, not to the connection: it stays bound when that
 * ends, and when the queue pair goes to IDLE and is connected anew the new peer may use it, if it
 * knows the STag (verbs draft 6.2.4). To prevent that, free it, or post a LOCAL_INV for it as the
 * first request in IDLE: that is carried out before anything of the new peer is taken. A queue pair
 * may be destroyed while windows are bound to it (unlike in the draft). No queue pair can use or
 * invalidate such a window any more, and only iwarp_mw_free unbinds it from its region.
 */
enum iwarp_mw_type {
    IWARP_MW_TYPE_1 = 1, /* usable by all queue pairs of the PD; bound again at any time, and not
                          * invalidated otherwise */
    IWARP_MW_TYPE_2 = 2  /* usable by the queue pair that bound it; bound while it is invalid */
};

/*
 * Allocate a window, which is invalid until it is bound. MISUSE: another type. LIMIT: the device
 * has max_regions regions and windows, or the system has no random octets. NO_MEMORY.
 */
IWARP_API enum iwarp_status iwarp_mw_alloc(struct iwarp_pd *pd, enum iwarp_mw_type type,
                                           struct iwarp_mw **mw);

/* Release a window, valid or not. Returns when no transfer uses memory through it any more. */
IWARP_API enum iwarp_status iwarp_mw_free(struct iwarp_mw *mw);

/* Return the STag. After a bind was posted, this is the new STag; it becomes valid when the bind is
 * carried out. */
IWARP_API uint32_t iwarp_mw_stag(const struct iwarp_mw *mw);

/*
 * What a work request binds: REG_MR memory to a region, BIND_MW part of a region to a window. The
 * TO of a window's first octet is what it is in the region, or 0 with ZERO_BASED. A window of
 * length 0 is invalid (mr may be NULL then).
 */
struct iwarp_bind {
    struct iwarp_mr *mr;
    struct iwarp_mw *mw; /* BIND_MW */
    void *addr;          /* the first octet */
    size_t len;
    uint64_t to_base; /* REG_MR: TO of the first octet, usually (uint64_t)(uintptr_t)addr; with
                       * ZERO_BASED it is 0 whatever is said here */
    unsigned access;  /* REG_MR: of the region; BIND_MW: remote rights, ZERO_BASED */
    uint8_t key;      /* the STag's new lowest 8 bits: different from the last is wise */
};

/*
 * Post a BIND_MW for a window of type 1, with a key that differs from the last; iwarp_mw_stag has
 * the new STag at once. Of *bind only mr, addr, len and access count. wr_id and flags are as in
 * iwarp_send_wr. MISUSE: a window of type 2, or as for iwarp_post_send, which this call makes.
 * AGAIN: the send queue is full.
 */
IWARP_API enum iwarp_status iwarp_mw_bind(struct iwarp_qp *qp, struct iwarp_mw *mw,
                                          const struct iwarp_bind *bind, uint64_t wr_id,
                                          unsigned flags);

/* --- how it is now --------------------------------------------------------------------------- */

struct iwarp_stag_info {
    size_t size;      /* set by the caller to sizeof(struct iwarp_stag_info) */
    uint32_t stag;    /* the STag, or what it was while it was valid */
    bool valid;       /* the rest is what it stands for, or stood for */
    unsigned access;  /* enum iwarp_access */
    unsigned windows; /* bound to the region */
    uint32_t qp_num;  /* the only queue pair that may use it, or 0 */
    void *addr;
    size_t len;
    uint64_t to_base;
};

/*
 * Fill in *info, whose size the caller has set: the state after all requests that were carried out,
 * all of one moment. If a change is in progress, the call waits for its end. MISUSE: another size.
 */
IWARP_API enum iwarp_status iwarp_mr_query(struct iwarp_mr *mr, struct iwarp_stag_info *info);
IWARP_API enum iwarp_status iwarp_mw_query(struct iwarp_mw *mw, struct iwarp_stag_info *info);

IWARP_END_DECLS

#endif
