/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a transport must do that lends what it receives and refers to what it sends (struct
 * iwarp_loans, docs/transport.md): the same tests for memory and for lwIP over each kind of link.
 */
#include "octets.h"
#include "wires.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECES 64
#define LARGE  3000u

static uint8_t text[LARGE];

/* A connection, and the loans of either end. */
struct scene {
    struct wire *w;
    struct wire_end a, b;
    const struct iwarp_loans *from, *to;
    size_t released;
    uint8_t seen[LARGE];
    size_t got;
};

static void open_scene(struct scene *s, struct wire *w)
{
    memset(s, 0, sizeof *s);
    s->w = w;
    wire_connect(w, &s->a, &s->b);
    assert_non_null(s->a.ep->loans);
    s->from = s->a.ep->loans;
    s->to = s->b.ep->loans;
}

static void close_scene(struct scene *s, bool reset)
{
    wire_end_close(s->w, &s->a, reset);
    wire_end_close(s->w, &s->b, false);
}

static bool is_readable(void *end)
{
    return ((struct wire_end *)end)->readable;
}

static void await_news(struct scene *s)
{
    s->b.readable = false;
    s->b.ep->ops->watch(s->b.ep, true, false);
    wire_until(s->w, is_readable, &s->b);
}

/*
 * What is lent, of the text from `at` on. Returns how many octets, of which some are held, and in
 * *news what borrow says.
 */
static size_t borrow(struct scene *s, size_t at, size_t held, ssize_t *news)
{
    struct iovec iov[PIECES];
    unsigned n = PIECES;
    size_t total = 0;

    *news = s->to->borrow(s->b.ep, iov, &n);
    for (unsigned i = 0; i < n; i++) {
        assert_memory_equal(iov[i].iov_base, text + at + total, iov[i].iov_len);
        total += iov[i].iov_len;
    }
    assert_int_equal(total, held + (*news > 0 ? (size_t)*news : 0));
    return total;
}

/* Hold what the peer has sent, from `held` octets on up to `all`: one borrow may tell of less. */
static void hold(struct scene *s, size_t held, size_t all)
{
    ssize_t news;

    while (held < all) {
        await_news(s);
        held = borrow(s, 0, held, &news);
        assert_true(news > 0 && held <= all);
        s->to->give_back(s->b.ep, 0, held);
    }
}

/* --- received -------------------------------------------------------------------------------- */

static void lent_octets__stay_until_they_are_given_back(struct wire *w)
{
    struct scene s;
    ssize_t news;

    open_scene(&s, w);
    assert_int_equal(wire_put(&s.a, text, 10), 10);
    for (size_t at = 0; at < 10; at++) {
        await_news(&s);
        (void)borrow(&s, at, 0, &news);
        assert_true(news > 0);
        (void)borrow(&s, at, 0, &news); /* the same again */
        assert_true(news > 0);
        s.to->give_back(s.b.ep, 1, 0);
    }
    (void)borrow(&s, 10, 0, &news);
    assert_int_equal(news, -EAGAIN);
    close_scene(&s, false);
}

static void held_octets__are_no_news_until_more_comes(struct wire *w)
{
    struct scene s;
    ssize_t news;

    open_scene(&s, w);
    assert_int_equal(wire_put(&s.a, text, 10), 10);
    hold(&s, 0, 10);
    s.b.readable = false;
    s.b.ep->ops->watch(s.b.ep, true, false);
    wire_settle(w, 30);
    assert_false(s.b.readable);
    (void)borrow(&s, 0, 10, &news);
    assert_int_equal(news, -EAGAIN);
    assert_int_equal(wire_put(&s.a, text + 10, 5), 5);
    hold(&s, 10, 15);
    s.to->give_back(s.b.ep, 15, 0);
    close_scene(&s, false);
}

static void end__behind_held_octets__is_told_with_them(struct wire *w)
{
    struct scene s;
    ssize_t news;

    open_scene(&s, w);
    assert_int_equal(wire_put(&s.a, text, 10), 10);
    hold(&s, 0, 10);
    s.a.ep->ops->shutdown_write(s.a.ep);
    await_news(&s);
    assert_int_equal(borrow(&s, 0, 10, &news), 10);
    assert_int_equal(news, 0);
    s.to->give_back(s.b.ep, 10, 0);
    close_scene(&s, false);
}

/* --- sent ------------------------------------------------------------------------------------ */

/* One burst of one FPDU. */
static void refer(struct scene *s, const uint8_t *p, uint32_t n)
{
    const struct iovec iov = {(void *)(uintptr_t)p, n};
    const struct iwarp_burst burst = {
        .size = sizeof burst, .iov = &iov, .n = 1, .fpdus = &n, .fpdu_count = 1};

    assert_int_equal(s->from->refer(s->a.ep, &burst), n);
}

static bool is_released(void *arg)
{
    struct scene *s = arg;
    ssize_t got = s->got < LARGE ? wire_get(&s->b, s->seen + s->got, LARGE - s->got) : -EAGAIN;

    s->got += got > 0 ? (size_t)got : 0;
    if (s->a.ready > 0) { /* it was told of */
        s->released += s->from->released(s->a.ep);
    }
    assert_true(s->released <= LARGE);
    return s->got == LARGE && s->released == LARGE;
}

/* A transport that copies says so at once, and the owner asks after each burst. */
static void octets_referred_to__arrive_and_are_released_once(struct wire *w)
{
    struct scene s;

    open_scene(&s, w);
    refer(&s, text, LARGE);
    s.a.ready = 0;
    s.released = s.from->released(s.a.ep);
    wire_until(w, is_released, &s);
    assert_memory_equal(s.seen, text, LARGE);
    wire_settle(w, 20);
    assert_int_equal(s.from->released(s.a.ep), 0);
    close_scene(&s, false);
}

/* The peer does not read meanwhile, so what is not released yet never will be. */
static void octets_forsaken__are_neither_touched_nor_released(struct wire *w)
{
    struct scene s;
    uint8_t *p = malloc(LARGE);

    assert_non_null(p);
    memcpy(p, text, LARGE);
    open_scene(&s, w);
    refer(&s, p, LARGE);
    (void)s.from->released(s.a.ep);
    s.from->forsake(s.a.ep);
    free(p); /* a sanitizer would see whoever looks at it */
    assert_int_equal(s.from->released(s.a.ep), 0);
    wire_settle(w, 30);
    assert_int_equal(s.from->released(s.a.ep), 0);
    close_scene(&s, true);
}

/* --- all of it, for each ------------------------------------------------------------------------
 */

static const struct claim {
    const char *name;
    void (*test)(struct wire *w);
} claims[] = {
#define CLAIM(test) {#test, test}
    CLAIM(lent_octets__stay_until_they_are_given_back),
    CLAIM(held_octets__are_no_news_until_more_comes),
    CLAIM(end__behind_held_octets__is_told_with_them),
    CLAIM(octets_referred_to__arrive_and_are_released_once),
    CLAIM(octets_forsaken__are_neither_touched_nor_released),
};

enum { CLAIMS = sizeof claims / sizeof *claims };

struct cell {
    const struct claim *claim;
    enum wire_kind kind;
};

static void run(void **state)
{
    const struct cell *cell = *state;
    const struct iwarp_mem_loans loans = {.most = 7, .seed = chance_seed()};
    struct wire w;

    wire_open(&w, cell->kind);
    w.loans = &loans;
    cell->claim->test(&w);
    wire_close(&w);
}

/* Kernel TCP reads into registered memory, and writev copies: it has no loans. */
static bool has_loans(enum wire_kind kind)
{
    return kind != WIRE_TCP4 && kind != WIRE_TCP6;
}

int main(void)
{
    static struct cell cells[CLAIMS * WIRE_KINDS];
    static char names[CLAIMS * WIRE_KINDS][160];
    static struct CMUnitTest tests[CLAIMS * WIRE_KINDS];
    size_t n = 0;

    for (size_t i = 0; i < LARGE; i++) {
        text[i] = (uint8_t)(i * 2654435761u >> 11);
    }
    for (enum wire_kind k = 0; k < WIRE_KINDS; k++) {
        for (size_t i = 0; i < CLAIMS && has_loans(k); i++) {
            cells[n] = (struct cell){&claims[i], k};
            snprintf(names[n], sizeof names[n], "%s: %s", wire_names[k], claims[i].name);
            tests[n] = (struct CMUnitTest){names[n], run, NULL, NULL, &cells[n]};
            n++;
        }
    }
    return _cmocka_run_group_tests("transport_loans", tests, n, NULL, NULL);
}
