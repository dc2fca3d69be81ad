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

void *arena_take(struct arena *arena, size_t octets)
{
    unsigned want = 0, order;
    uint32_t number;

    while (want < ARENA_ORDERS && (size_t)PAGE << want < octets) {
        want++;
    }
    order = want;
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
    return arena->base + (size_t)number * PAGE;
}

static void put_back(struct arena *arena, uint32_t number)
{
    unsigned order = arena->page[number].order;

    arena->used -= (size_t)1 << order;
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

static void unlink_wait(struct arena *arena, struct arena_wait *wait)
{
    *wait->at = wait->next;
    if (wait->next) {
        wait->next->at = wait->at;
    } else {
        arena->last = wait->at;
    }
    wait->at = NULL;
    arena->waiting--;
}

/* `ready` may give its piece back at once: then this loop goes on, and not one within it, whose
 * depth would be a peer's to choose. */
static void serve(struct arena *arena)
{
    void *piece;

    if (arena->serving) {
        return;
    }
    arena->serving = true;
    while (arena->first && (piece = arena_take(arena, arena->first->octets)) != NULL) {
        struct arena_wait *wait = arena->first;
        unlink_wait(arena, wait);
        wait->ready(wait, piece);
    }
    arena->serving = false;
}

void arena_leave(struct arena *arena, struct arena_wait *wait)
{
    if (wait->at) {
        unlink_wait(arena, wait);
        serve(arena); /* those behind it may want less */
    }
}

void arena_give(struct arena *arena, void *piece)
{
    put_back(arena, (uint32_t)((size_t)((uint8_t *)piece - arena->base) / PAGE));
    serve(arena);
}

void arena_ask(struct arena *arena, struct arena_wait *wait, size_t octets)
{
    /* Nobody overtakes those who wait. */
    void *piece = arena->first ? NULL : arena_take(arena, octets);

    wait->octets = octets;
    wait->at = NULL;
    if (piece) {
        wait->ready(wait, piece);
        return;
    }
    wait->next = NULL;
    wait->at = arena->last;
    *arena->last = wait;
    arena->last = &wait->next;
    arena->waiting++;
}
