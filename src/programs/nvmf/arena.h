/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of all I/O buffers: one block, registered once with the device and once with io_uring.
 * Pieces of 2^n pages are taken and given back (buddies), so a piece is contiguous, one RDMA Read
 * needs one SGE, and the disk one vector. Whoever finds no piece waits in line; the first in line
 * gets the next piece that is large enough, so nobody starves.
 */
#ifndef NVMF_ARENA_H
#define NVMF_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pages of the largest piece: twice what a command moves, for Compare. */
#define NVMF_ARENA_ORDERS  10
#define NVMF_ARENA_LARGEST ((size_t)4096 << (NVMF_ARENA_ORDERS - 1))

/* One that waits for a piece. */
struct nvmf_wait {
    struct nvmf_wait *next, **at; /* at NULL: does not wait */
    size_t octets;
    void (*ready)(struct nvmf_wait *wait, void *piece);
};

struct nvmf_arena {
    uint8_t *base;
    size_t pages;
    struct nvmf_page *page;
    uint32_t free[NVMF_ARENA_ORDERS]; /* head of the list of each order */
    size_t used;                      /* pages */
    struct nvmf_wait *first, **last;
    size_t waiting;
};

/* octets is rounded down to whole largest pieces, at least one. False: no memory. */
bool nvmf_arena_open(struct nvmf_arena *arena, size_t octets);
void nvmf_arena_close(struct nvmf_arena *arena);
size_t nvmf_arena_len(const struct nvmf_arena *arena);

/* A piece of at least `octets`, at most NVMF_ARENA_LARGEST, or NULL. */
void *nvmf_arena_take(struct nvmf_arena *arena, size_t octets);

/* Give a piece back. It may serve those who wait: their `ready` is called before this returns. */
void nvmf_arena_give(struct nvmf_arena *arena, void *piece);

/* Take a piece now, or wait for one: `ready` is called, possibly at once. */
void nvmf_arena_ask(struct nvmf_arena *arena, struct nvmf_wait *wait, size_t octets);

/* Wait no more; those behind it may be served before this returns. Nothing happens if it does not
 * wait. */
void nvmf_arena_leave(struct nvmf_arena *arena, struct nvmf_wait *wait);

#endif
