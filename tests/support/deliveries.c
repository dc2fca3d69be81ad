/* SPDX-License-Identifier: BSD-2-Clause */
/* See deliveries.h. */
#include "deliveries.h"

#include "base/guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Read into iov as the kernel would: what is not writable ends the read. */
static size_t read_into(const struct iovec *iov, unsigned count, const uint8_t *p, size_t n)
{
    size_t done = 0;

    for (unsigned i = 0; i < count && done < n; i++) {
        size_t k = iov[i].iov_len < n - done ? iov[i].iov_len : n - done;
        if (iwarp_guard_copy_to(iov[i].iov_base, p + done, k) != 0) {
            break;
        }
        done += k;
    }
    return done;
}

/* One vectored read: first where the stream wants it, then into staging. */
static size_t deliver_directly(struct endpoint *e, const uint8_t *p, size_t n, struct chance *c)
{
    struct iovec iov[IWARP_MAX_SGE];
    size_t staging = 0, wanted = 0;
    struct iwarp_lends lends;
    unsigned count = iwarp_stream_want(
        &e->s, &lends, iov,
        (unsigned)(1 + chance_below(c, chance_one_in(c, 2) ? 2 : IWARP_MAX_SGE)), &staging);

    for (unsigned i = 0; i < count; i++) {
        assert_true(iov[i].iov_len > 0);
        wanted += iov[i].iov_len;
    }
    size_t direct = chance_one_in(c, 3) ? chance_size(c, wanted) : wanted;
    direct = direct < n ? direct : n;
    size_t done = read_into(iov, count, p, direct);
    iwarp_stream_placed(&e->s, done);
    iwarp_stream_check(&e->s);
    if (done == wanted || done < direct || chance_one_in(c, 8)) {
        size_t more = chance_size(c, 3000);
        more = more < n - done ? more : n - done;
        iwarp_stream_feed(&e->s, p + done, more);
        done += more;
    }
    return done;
}

/* Pieces that are lent, from the first octet that was not given back. */
struct loan {
    struct iovec iov[12];
    uint8_t *copy[12];
    unsigned n;
};

enum { LOAN_MAX = 12 };

static void lend(struct loan *l, const uint8_t *p, size_t n)
{
    uint8_t *copy = malloc(n);

    assert_non_null(copy);
    memcpy(copy, p, n);
    l->iov[l->n] = (struct iovec){copy, n};
    l->copy[l->n++] = copy;
}

static void give_back(struct loan *l, size_t n)
{
    unsigned gone = 0;

    while (gone < l->n && n >= l->iov[gone].iov_len) {
        n -= l->iov[gone].iov_len;
        free(l->copy[gone++]);
    }
    l->n -= gone;
    memmove(l->iov, l->iov + gone, l->n * sizeof *l->iov);
    memmove(l->copy, l->copy + gone, l->n * sizeof *l->copy);
    if (n > 0) {
        l->iov[0].iov_base = (uint8_t *)l->iov[0].iov_base + n;
        l->iov[0].iov_len -= n;
    }
}

static size_t lent_octets(const struct loan *l)
{
    size_t total = 0;

    for (unsigned i = 0; i < l->n; i++) {
        total += l->iov[i].iov_len;
    }
    return total;
}

/* What a full stream leaves is fed, as a driver would do later. */
static void deliver_lent(struct endpoint *e, const uint8_t *p, size_t n, struct chance *c)
{
    struct loan l = {.n = 0};

    for (size_t at = 0; at < n || l.n > 0;) {
        do {
            size_t k = 1 + chance_size(c, chance_one_in(c, 3) ? 100 : 3000);
            k = k < n - at ? k : n - at;
            if (k > 0) {
                lend(&l, p + at, k);
                at += k;
            }
        } while (at < n && l.n < LOAN_MAX && chance_one_in(c, 2));
        bool last = at == n || l.n == LOAN_MAX || chance_one_in(c, 20);
        size_t total = lent_octets(&l), held = 1;
        size_t used = iwarp_stream_take(&e->s, l.iov, l.n, last, &held);
        iwarp_stream_check(&e->s);
        if (!iwarp_stream_full(&e->s)) {
            assert_int_equal(used + held, total);
        }
        assert_int_equal(held, e->s.rx.held);
        assert_true(!last || held == 0);
        give_back(&l, used);
        while (iwarp_stream_full(&e->s) && l.n > 0) {
            iwarp_stream_feed(&e->s, l.iov[0].iov_base, l.iov[0].iov_len);
            give_back(&l, l.iov[0].iov_len);
        }
    }
}

/* How many octets the next step is given. */
static size_t step_size(enum delivery way, size_t n, struct chance *c)
{
    size_t k = n;

    if (way == DELIVER_SINGLY) {
        k = 1;
    } else if (way == DELIVER_SPLIT) {
        k = 1 + chance_size(c, 4000);
    } else if (way == DELIVER_MIXED || way == DELIVER_LENT) {
        k = 70000;
    }
    return k < n ? k : n;
}

void deliver(struct endpoint *e, enum delivery way, const uint8_t *p, size_t n, struct chance *c)
{
    for (size_t at = 0; at < n;) {
        /* A copy of its own for each step, so that reading beyond it is seen. */
        size_t k = step_size(way, n - at, c);
        uint8_t *copy = malloc(k);
        assert_non_null(copy);
        memcpy(copy, p + at, k);
        if (way == DELIVER_LENT) {
            deliver_lent(e, copy, k, c);
            at += k;
        } else if (way == DELIVER_MIXED) {
            at += deliver_directly(e, copy, k, c);
        } else {
            iwarp_stream_feed(&e->s, copy, k);
            at += k;
        }
        free(copy);
        iwarp_stream_check(&e->s);
    }
    endpoint_check(e);
}

static char *run(const struct scene *scene, enum placement placement, enum delivery way, bool plain,
                 struct chance *c)
{
    struct endpoint_options options = scene->options;
    struct endpoint e;
    char *text = NULL;
    size_t size;

    options.no_crc = placement == PLACE_NO_CRC;
    options.early = placement == PLACE_EARLY;
    options.plain = plain;
    endpoint_init(&e, &options);
    if (scene->setup) {
        scene->setup(&e, scene->arg);
    }
    deliver(&e, way, scene->octets, scene->n, c);
    if (!scene->keep_unsent) {
        endpoint_drain(&e);
    }
    FILE *to = open_memstream(&text, &size);
    assert_non_null(to);
    endpoint_dump(&e, scene->without, to);
    fclose(to);
    if (scene->check) {
        scene->check(&e, scene->arg);
    }
    endpoint_fini(&e);
    return text;
}

/* It has to end as `first` says; that is text to be freed. */
static void expect_end(const char *first, char *text, const char *placement, const char *way)
{
    if (strcmp(text, first) != 0) {
        print_error("whole:\n%s\n%s:\n%s\n", first, way, text);
        fail_msg("%s: %s does not end as whole does", placement, way);
    }
    free(text);
}

void receive_every_way(const struct scene *scene)
{
    static const char *const ways[] = {"whole", "singly", "split", "mixed", "lent"};
    static const char *const placements[] = {"verified", "early", "no crc"};
    struct chance c = {chance_seed()};

    for (unsigned p = 0; p < PLACEMENTS; p++) {
        if (scene->not_placement & 1u << p) {
            continue;
        }
        char *first = run(scene, (enum placement)p, DELIVER_WHOLE, false, &c);
        expect_end(first, run(scene, (enum placement)p, DELIVER_WHOLE, true, &c), placements[p],
                   "each by itself");
        for (unsigned way = DELIVER_SINGLY; way < DELIVERIES; way++) {
            for (unsigned times = way < DELIVER_SPLIT ? 1 : 4; times > 0; times--) {
                expect_end(first, run(scene, (enum placement)p, (enum delivery)way, false, &c),
                           placements[p], ways[way]);
            }
        }
        free(first);
    }
}
