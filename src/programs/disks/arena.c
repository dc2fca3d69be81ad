/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buddies: a free piece of order n begins at a multiple of 2^n pages, and its buddy is the piece
 * whose number differs in bit n. Two free buddies become one piece of the next order.
 */
#include "arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096
#define NONE UINT32_MAX

/* Of the first page of a piece; `next` and `before` while it is free. */
struct arena_page {
    uint32_t next, before;
    uint8_t order;
    bool is_free;
};

static void list_add(struct arena *arena, uint32_t number, unsigned order)
{
    struct arena_page *page = &arena->page[number];

    page->order = (uint8_t)order;
    page->is_free = true;
    page->before = NONE;
    page->next = arena->free[order];
    if (page->next != NONE) {
        arena->page[page->next].before = number;
    }
    arena->free[order] = number;
}

static void list_remove(struct arena *arena, uint32_t number)
{
    struct arena_page *page = &arena->page[number];

    page->is_free = false;
    if (page->next != NONE) {
        arena->page[page->next].before = page->before;
    }
    if (page->before != NONE) {
        arena->page[page->before].next = page->next;
    } else {
        arena->free[page->order] = page->next;
    }
}

bool arena_open(struct arena *arena, size_t octets)
{
    size_t count = octets / ARENA_LARGEST, step = ARENA_LARGEST / PAGE;
    void *base;

    memset(arena, 0, sizeof *arena);
    count = count ? count : 1;
    arena->pages = count * step;
    arena->page = calloc(arena->pages, sizeof *arena->page);
    base = mmap(NULL, arena_len(arena), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!arena->page || base == MAP_FAILED) {
        free(arena->page);
        if (base != MAP_FAILED) {
            munmap(base, arena_len(arena));
        }
        return false;
    }
    arena->base = base;
    arena->last = &arena->first;
    for (unsigned order = 0; order < ARENA_ORDERS; order++) {
        arena->free[order] = NONE;
    }
    while (count > 0) {
        list_add(arena, (uint32_t)(--count * step), ARENA_ORDERS - 1);
    }
    return true;
}

void arena_close(struct arena *arena)
{
    munmap(arena->base, arena_len(arena));
    free(arena->page);
}

size_t arena_len(const struct arena *arena)
{
    return arena->pages * PAGE;
}

/* The order of the smallest piece that has room. */
static unsigned order_of(size_t octets)
{
    unsigned order = 0;

    while (order < ARENA_ORDERS && (size_t)PAGE << order < octets) {
        order++;
    }
    return order;
}

void *arena_take(struct arena *arena, struct arena_share *share, size_t octets)
{
    unsigned want = order_of(octets), order = want;
    uint32_t number;

    while (order < ARENA_ORDERS && arena->free[order] == NONE) {
        order++;
    }
    if (order >= ARENA_ORDERS) {
        return NULL;
    }
    number = arena->free[order];
    list_remove(arena, number);
    while (order > want) {
        order--;
        list_add(arena, number + (1u << order), order);
    }
    arena->page[number].order = (uint8_t)want;
    arena->used += (size_t)1 << want;
    share->used += (size_t)1 << want;
    return arena->base + (size_t)number * PAGE;
}

static void put_back(struct arena *arena, struct arena_share *share, uint32_t number)
{
    unsigned order = arena->page[number].order;

    arena->used -= (size_t)1 << order;
    share->used -= (size_t)1 << order;
    while (order + 1 < ARENA_ORDERS) {
        uint32_t buddy = number ^ 1u << order;
        if (!arena->page[buddy].is_free || arena->page[buddy].order != order) {
            break;
        }
        list_remove(arena, buddy);
        number &= ~(1u << order);
        order++;
    }
    list_add(arena, number, order);
}

/* --- shares and their lines ------------------------------------------------------------------- */

static void share_join(struct arena *arena, struct arena_share *share)
{
    share->next = NULL;
    share->at = arena->last;
    *arena->last = share;
    arena->last = &share->next;
}

static void share_leave(struct arena *arena, struct arena_share *share)
{
    *share->at = share->next;
    if (share->next) {
        share->next->at = share->at;
    } else {
        arena->last = share->at;
    }
    share->at = NULL;
}

static void wait_join(struct arena *arena, struct arena_share *share, struct arena_wait *wait)
{
    wait->share = share;
    wait->next = NULL;
    wait->before = share->last;
    if (share->last) {
        share->last->next = wait;
    } else {
        share->first = wait;
        share_join(arena, share);
    }
    share->last = wait;
    arena->waiting++;
}

static void wait_leave(struct arena *arena, struct arena_wait *wait)
{
    struct arena_share *share = wait->share;

    if (wait->before) {
        wait->before->next = wait->next;
    } else {
        share->first = wait->next;
    }
    if (wait->next) {
        wait->next->before = wait->before;
    } else {
        share->last = wait->before;
    }
    if (!share->first) {
        share_leave(arena, share);
    }
    wait->share = NULL;
    arena->waiting--;
}

/* May the share have so much more? One that has nothing always may. */
static bool may_have(const struct arena *arena, const struct arena_share *share, size_t octets)
{
    return share->used == 0 ||
           share->used + ((size_t)1 << order_of(octets)) <= arena->pages - arena->used;
}

/* The share whose turn it is; NULL: none that waits may have more. */
static struct arena_share *next_share(const struct arena *arena)
{
    struct arena_share *share = arena->first;

    while (share && !may_have(arena, share, share->first->octets)) {
        share = share->next;
    }
    return share;
}

/* `ready` may give its piece back at once: then this loop goes on, and not one within it, whose
 * depth would be a peer's to choose. */
static void serve(struct arena *arena)
{
    struct arena_share *share;
    void *piece;

    if (arena->serving) {
        return;
    }
    arena->serving = true;
    while ((share = next_share(arena)) != NULL &&
           (piece = arena_take(arena, share, share->first->octets)) != NULL) {
        struct arena_wait *wait = share->first;
        wait_leave(arena, wait);
        if (share->first) { /* the others come first now */
            share_leave(arena, share);
            share_join(arena, share);
        }
        wait->ready(wait, piece);
    }
    arena->serving = false;
}

void arena_leave(struct arena *arena, struct arena_wait *wait)
{
    if (wait->share) {
        wait_leave(arena, wait);
        serve(arena); /* those behind it may want less */
    }
}

void arena_give(struct arena *arena, struct arena_share *share, void *piece)
{
    put_back(arena, share, (uint32_t)((size_t)((uint8_t *)piece - arena->base) / PAGE));
    serve(arena);
}

void arena_ask(struct arena *arena, struct arena_share *share, struct arena_wait *wait,
               size_t octets)
{
    void *piece =
        !arena->first && may_have(arena, share, octets) ? arena_take(arena, share, octets) : NULL;

    wait->octets = octets;
    wait->share = NULL;
    if (piece) {
        wait->ready(wait, piece);
    } else {
        wait_join(arena, share, wait);
        serve(arena); /* those in line may have had their share */
    }
}
