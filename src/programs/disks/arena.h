/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of all I/O buffers: one block, registered once with the device and once with io_uring.
 * Pieces of 2^n pages are taken and given back (buddies), so a piece is contiguous, one RDMA Read
 * needs one SGE, and the disk one vector.
 *
 * Users have shares. A share that has something gets more only as long as it does not have more
 * than what is free then: one user alone gets half of the memory, the next one half of the rest. So
 * a user that gives nothing back leaves memory for the others. A request that finds no piece waits
 * in the line of its share. The shares that may have more take turns, and none overtakes the one
 * whose turn it is, so large pieces do not starve.
 */
#ifndef DISKS_ARENA_H
#define DISKS_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pages of the largest piece: twice what a command moves, for Compare. */
#define ARENA_ORDERS  10
#define ARENA_LARGEST ((size_t)4096 << (ARENA_ORDERS - 1))

struct arena_wait;

/* What one user has and waits for; all 0 at the beginning. It has to stay until it has nothing. */
struct arena_share {
    struct arena_share *next, **at;  /* at NULL: does not wait */
    struct arena_wait *first, *last; /* its line */
    size_t used;                     /* pages */
};

/* One that waits for a piece. */
struct arena_wait {
    struct arena_share *share; /* NULL: does not wait */
    struct arena_wait *next, *before;
    size_t octets;
    void (*ready)(struct arena_wait *wait, void *piece);
};

struct arena {
    uint8_t *base;
    size_t pages;
    struct arena_page *page;
    uint32_t free[ARENA_ORDERS];       /* head of the list of each order */
    size_t used;                       /* pages */
    struct arena_share *first, **last; /* that wait */
    size_t waiting;                    /* requests */
    bool serving;
};

/* octets is rounded down to whole largest pieces, at least one. False: no memory. */
bool arena_open(struct arena *arena, size_t octets);
void arena_close(struct arena *arena);
size_t arena_len(const struct arena *arena);

/* A piece of at least `octets`, at most ARENA_LARGEST, or NULL. Whether the share may have it, and
 * who waits, does not matter. */
void *arena_take(struct arena *arena, struct arena_share *share, size_t octets);

/* Give a piece of the share back. It may serve those who wait: their `ready` is called before this
 * returns, or, from within a `ready`, before the call around it does. */
void arena_give(struct arena *arena, struct arena_share *share, void *piece);

/* Take a piece now, or wait for one: `ready` is called, possibly at once. */
void arena_ask(struct arena *arena, struct arena_share *share, struct arena_wait *wait,
               size_t octets);

/* Wait no more; others may be served before this returns. Nothing happens if it does not wait. */
void arena_leave(struct arena *arena, struct arena_wait *wait);

#endif
