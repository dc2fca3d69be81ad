/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Room on the disk that copies go to.
 *
 * Two invariants. A copy never has more room reserved than it has data, or CP_RESERVE_MIN, and
 * never more than CP_RESERVE_STEP ahead of its data: a size that is only announced takes nothing.
 * And all copies of a server together leave keep_free octets and some inodes: what a copy is going
 * to write and the file system does not count yet is promised, and no octet is promised twice.
 *
 * The second one holds as far as the file system tells the truth: one that counts written data
 * late, as NFS does, can come as much below keep_free.
 */
#ifndef CP_ROOM_H
#define CP_ROOM_H

#include "status.h"

#include <pthread.h>
#include <stdint.h>

/* What CP_KEEP_FREE_AUTO stands for: a twentieth of the file system, at most 1 GiB. */
#define CP_KEEP_FREE_AUTO UINT64_MAX

/* Of one server; shared by its sessions. */
struct cp_room {
    uint64_t keep_free; /* octets, or CP_KEEP_FREE_AUTO */
    pthread_mutex_t lock;
    uint64_t promised;
};

/* Is there room for octets more on the file system of fd? A client has no struct: NULL. */
struct cp_result cp_room_check(struct cp_room *room, int fd, uint64_t octets);

/* The room of one copy. */
struct cp_claim {
    struct cp_room *room; /* borrowed; may be NULL */
    int fd;               /* borrowed */
    uint64_t size;        /* announced */
    uint64_t end;         /* there is room up to here */
    uint64_t promised;    /* of it, what the file system does not know of */
};

/* Begin a copy of so many octets: fails at once if they do not fit, and reserves nothing yet. */
struct cp_result cp_claim_begin(struct cp_claim *claim, struct cp_room *room, int fd,
                                uint64_t size);

/* Before data up to offset end is written. */
struct cp_result cp_claim_extend(struct cp_claim *claim, uint64_t end);

/* So many octets were written. */
void cp_claim_written(struct cp_claim *claim, uint64_t octets);

/* The copy has ended, in whatever way; nothing happens the second time. */
void cp_claim_end(struct cp_claim *claim);

#endif
