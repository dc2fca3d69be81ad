/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The buffers of iwarp-nvmf: pieces never overlap, all memory comes back, those who wait are served
 * in their order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "programs/disks/arena.h"

#define MEMORY (4 * ARENA_LARGEST)

static struct arena_share one, two, three, four;

static void take__sizes_at_random__never_overlap_and_all_come_back(void **state)
{
    struct arena arena;
    struct piece {
        uint8_t *at;
        size_t len;
        uint8_t mark;
    } pieces[64] = {{0}};
    unsigned refused = 0;

    (void)state;
    one = (struct arena_share){0};
    assert_true(arena_open(&arena, MEMORY));
    srand(7);
    for (unsigned i = 0; i < 20000; i++) {
        struct piece *p = &pieces[rand() % 64];
        if (p->at) {
            for (size_t k = 0; k < p->len; k += 512) {
                assert_int_equal(p->at[k], p->mark);
            }
            assert_int_equal(p->at[p->len - 1], p->mark);
            arena_give(&arena, &one, p->at);
            p->at = NULL;
            continue;
        }
        p->len = 1 + (size_t)rand() % (ARENA_LARGEST >> rand() % 10);
        p->mark = (uint8_t)i;
        p->at = arena_take(&arena, &one, p->len);
        refused += !p->at;
        if (p->at) {
            assert_int_equal((uintptr_t)p->at % 4096, 0);
            assert_true(p->at >= arena.base && p->at + p->len <= arena.base + MEMORY);
            memset(p->at, p->mark, p->len);
        }
    }
    assert_true(refused > 0);
    for (size_t i = 0; i < 64; i++) {
        if (pieces[i].at) {
            arena_give(&arena, &one, pieces[i].at);
        }
    }
    assert_int_equal(arena.used, 0);
    for (unsigned i = 0; i < 4; i++) { /* all of it is in the largest pieces again */
        assert_non_null(arena_take(&arena, &one, ARENA_LARGEST));
    }
    assert_null(arena_take(&arena, &one, 1));
    arena_close(&arena);
}

static void *served[8];
static unsigned served_count;
static struct arena_wait *served_who[8];

static void on_ready(struct arena_wait *wait, void *piece)
{
    served_who[served_count] = wait;
    served[served_count++] = piece;
}

static void ask__nothing_is_free__is_served_in_order(void **state)
{
    struct arena arena;
    struct arena_wait waits[4] = {
        {.ready = on_ready}, {.ready = on_ready}, {.ready = on_ready}, {.ready = on_ready}};
    void *half[2];

    (void)state;
    served_count = 0;
    one = two = (struct arena_share){0};
    assert_true(arena_open(&arena, 1)); /* one largest piece */
    half[0] = arena_take(&arena, &two, ARENA_LARGEST / 2);
    half[1] = arena_take(&arena, &two, ARENA_LARGEST / 2);
    arena_ask(&arena, &one, &waits[0], ARENA_LARGEST);
    arena_ask(&arena, &one, &waits[1], 1);
    arena_ask(&arena, &one, &waits[2], 1);
    arena_ask(&arena, &one, &waits[3], 1);
    assert_int_equal(arena.waiting, 4);
    arena_give(&arena, &two, half[0]);
    assert_int_equal(served_count, 0); /* the first one wants all of it, and nobody overtakes it */
    arena_leave(&arena, &waits[2]);
    arena_leave(&arena, &waits[2]); /* does not wait: nothing happens */
    arena_leave(&arena, &waits[0]);
    assert_int_equal(served_count, 2); /* for those behind it there is room */
    assert_ptr_equal(served_who[0], &waits[1]);
    assert_ptr_equal(served_who[1], &waits[3]);
    assert_int_equal(arena.waiting, 0);
    arena_ask(&arena, &one, &waits[0], 1);
    assert_int_equal(served_count, 3);
    arena_give(&arena, &two, half[1]);
    for (unsigned i = 0; i < 3; i++) {
        arena_give(&arena, &one, served[i]);
    }
    assert_int_equal(arena.used, 0);
    arena_close(&arena);
}

/* Each share gets half of what the others have left, and takes turns with those that wait. */
static void ask__of_shares__is_served_in_turns_and_leaves_half(void **state)
{
    struct arena_wait waits[8];
    struct arena arena;

    (void)state;
    one = two = three = four = (struct arena_share){0};
    served_count = 0;
    for (unsigned i = 0; i < 8; i++) {
        waits[i] = (struct arena_wait){.ready = on_ready};
    }
    assert_true(arena_open(&arena, MEMORY));
    for (unsigned i = 0; i < 4; i++) {
        arena_ask(&arena, &one, &waits[i], ARENA_LARGEST);
    }
    assert_int_equal(served_count, 2);
    assert_int_equal(one.used, arena.pages / 2);
    arena_ask(&arena, &two, &waits[4], 1); /* the first share has what it may */
    arena_ask(&arena, &two, &waits[5], ARENA_LARGEST);
    assert_int_equal(served_count, 4);
    arena_ask(&arena, &three, &waits[6], ARENA_LARGEST); /* may have it, but there is none */
    arena_ask(&arena, &four, &waits[7], 1);              /* so nobody overtakes it */
    assert_int_equal(served_count, 4);
    assert_int_equal(arena.waiting, 4);
    arena_give(&arena, &one, served[0]);
    assert_int_equal(served_count, 6);
    assert_ptr_equal(served_who[4], &waits[6]);
    assert_ptr_equal(served_who[5], &waits[7]);
    arena_give(&arena, &one, served[1]);
    assert_int_equal(served_count, 7);
    assert_ptr_equal(served_who[6], &waits[2]); /* in the order in which they came */
    arena_leave(&arena, &waits[3]);
    assert_null(arena.first);
    arena_give(&arena, &two, served[2]);
    arena_give(&arena, &two, served[3]);
    arena_give(&arena, &three, served[4]);
    arena_give(&arena, &four, served[5]);
    arena_give(&arena, &one, served[6]);
    assert_int_equal(one.used + two.used + three.used + four.used + arena.used, 0);
    arena_close(&arena);
}

static struct arena chain;
static unsigned chained, within;

static void give_back(struct arena_wait *wait, void *piece)
{
    (void)wait;
    assert_int_equal(within++, 0);
    chained++;
    arena_give(&chain, &one, piece);
    within--;
}

/* A peer chooses how many wait: so many must not use up the stack. */
static void piece__given_back_at_once__serves_the_next_afterwards(void **state)
{
    enum { WAITS = 100000 };
    struct arena_wait *waits = calloc(WAITS, sizeof *waits);
    void *all;

    (void)state;
    assert_non_null(waits);
    one = (struct arena_share){0};
    assert_true(arena_open(&chain, 1));
    all = arena_take(&chain, &one, ARENA_LARGEST);
    for (unsigned i = 0; i < WAITS; i++) {
        waits[i].ready = give_back;
        arena_ask(&chain, &one, &waits[i], ARENA_LARGEST);
    }
    assert_int_equal(chained, 0);
    arena_give(&chain, &one, all);
    assert_int_equal(chained, WAITS);
    assert_int_equal(chain.used, 0);
    arena_close(&chain);
    free(waits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(take__sizes_at_random__never_overlap_and_all_come_back),
        cmocka_unit_test(ask__nothing_is_free__is_served_in_order),
        cmocka_unit_test(ask__of_shares__is_served_in_turns_and_leaves_half),
        cmocka_unit_test(piece__given_back_at_once__serves_the_next_afterwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
