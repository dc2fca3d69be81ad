/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transport in memory: octets in order through full and empty pipes, FIN, reset, readiness that
 * is level-triggered but never wakes for nothing, and memory that is not there.
 */
#include "octets.h"
#include "verbs_pair.h"

#include "base/guard.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PIPE (256u * 1024u)

struct end {
    struct iwarp_endpoint *ep;
    unsigned wakes, ready, closed;
    bool readable, writable;
};

struct ends {
    struct end a, b;
};

static void wake(void *user)
{
    ((struct end *)user)->wakes++;
}

static void ready(void *user, bool readable, bool writable)
{
    struct end *e = user;

    e->ready++;
    e->readable = readable;
    e->writable = writable;
}

static void closed(void *user)
{
    ((struct end *)user)->closed++;
}

static void ends_open(struct ends *e)
{
    memset(e, 0, sizeof *e);
    assert_int_equal(iwarp_guard_install(), 0);
    assert_int_equal(iwarp_mem_pair(wake, &e->a, &e->b, NULL, &e->a.ep, &e->b.ep), 0);
    for (int i = 0; i < 2; i++) {
        struct end *end = i ? &e->b : &e->a;
        end->ep->user = end;
        end->ep->ready = ready;
        end->ep->closed = closed;
    }
}

static void end_close(struct end *e, bool reset)
{
    e->ep->ops->close(e->ep, reset);
    assert_int_equal(e->closed, 1);
    e->ep = NULL;
}

static ssize_t put(struct end *e, const void *p, size_t n)
{
    struct iovec iov = {(void *)(uintptr_t)p, n};

    return e->ep->ops->writev(e->ep, &iov, 1);
}

static ssize_t get(struct end *e, void *p, size_t n)
{
    struct iovec iov = {p, n};

    return e->ep->ops->readv(e->ep, &iov, 1);
}

static bool poll_end(struct end *e)
{
    unsigned before = e->ready;

    e->readable = e->writable = false;
    e->ep->ops->poll(e->ep);
    return e->ready != before;
}

/* Random sizes in several pieces both ways; the pipe holds 256 KiB and not one octet more. */
static void octets__in_random_pieces__come_out_in_order(void **state)
{
    struct chance chance = {chance_seed()};
    uint8_t *text = malloc(4 * PIPE), *seen = malloc(4 * PIPE);
    size_t in = 0, out = 0;
    struct ends e;

    (void)state;
    assert_true(text && seen);
    ends_open(&e);
    pair_fill(text, 4 * PIPE, 9);
    for (unsigned step = 0; step < 4000 && out < 4 * PIPE; step++) {
        size_t n = chance_size(&chance, 100000), cut = chance_below(&chance, n + 1);
        bool write = chance_one_in(&chance, 2);
        size_t from = write ? in : out;
        n = n < 4 * PIPE - from ? n : 4 * PIPE - from;
        cut = cut < n ? cut : n;
        struct iovec iov[3] = {{(write ? text : seen) + from, cut},
                               {NULL, 0},
                               {(write ? text : seen) + from + cut, n - cut}};
        ssize_t moved =
            write ? e.a.ep->ops->writev(e.a.ep, iov, 3) : e.b.ep->ops->readv(e.b.ep, iov, 3);
        size_t possible = write ? PIPE - (in - out) : in - out;
        possible = possible < n ? possible : n;
        assert_int_equal(moved, possible ? (ssize_t)possible : -EAGAIN);
        *(write ? &in : &out) += possible;
    }
    assert_int_equal(out, 4 * PIPE);
    assert_memory_equal(text, seen, 4 * PIPE);
    end_close(&e.a, false);
    end_close(&e.b, false);
    free(text);
    free(seen);
}

static void fin__comes_behind_the_octets(void **state)
{
    struct ends e;
    char text[8];

    (void)state;
    ends_open(&e);
    assert_int_equal(get(&e.b, text, 8), -EAGAIN);
    assert_int_equal(put(&e.a, "hello", 5), 5);
    e.a.ep->ops->shutdown_write(e.a.ep);
    assert_int_equal(get(&e.b, text, 3), 3);
    assert_int_equal(get(&e.b, text, 8), 2);
    assert_int_equal(get(&e.b, text, 8), 0);
    assert_int_equal(get(&e.b, text, 8), 0);
    assert_int_equal(put(&e.b, "back", 4), 4); /* the other direction is open */
    assert_int_equal(get(&e.a, text, 8), 4);
    end_close(&e.a, false);
    assert_int_equal(put(&e.b, "x", 1), -EPIPE);
    assert_int_equal(get(&e.b, text, 8), 0);
    end_close(&e.b, false);
}

static void reset__ends_both_directions(void **state)
{
    struct ends e;
    char text[8];

    (void)state;
    ends_open(&e);
    end_close(&e.a, true);
    assert_true(e.b.wakes > 0);
    assert_int_equal(get(&e.b, text, 8), -ECONNRESET);
    assert_int_equal(put(&e.b, "x", 1), -ECONNRESET);
    e.b.ep->ops->watch(e.b.ep, true, true);
    assert_true(poll_end(&e.b));
    assert_true(e.b.readable && e.b.writable);
    end_close(&e.b, true);
}

static void watch__reports_what_is_ready_and_wakes_for_nothing_else(void **state)
{
    char text[8], *full = calloc(1, PIPE);
    struct ends e;

    (void)state;
    assert_non_null(full);
    ends_open(&e);
    e.b.ep->ops->watch(e.b.ep, true, false);
    assert_int_equal(e.b.wakes, 0); /* nothing there: an idle end stays idle */
    assert_false(poll_end(&e.b));
    assert_int_equal(put(&e.a, "text", 4), 4);
    assert_int_equal(e.b.wakes, 1);
    assert_true(poll_end(&e.b) && e.b.readable && !e.b.writable);
    assert_true(poll_end(&e.b)); /* level-triggered */
    e.b.ep->ops->watch(e.b.ep, false, false);
    assert_false(poll_end(&e.b));
    e.b.ep->ops->watch(e.b.ep, true, false);
    assert_int_equal(e.b.wakes, 2); /* was there before it was watched */
    assert_int_equal(get(&e.b, text, 8), 4);
    e.a.wakes = 0;
    e.a.ep->ops->watch(e.a.ep, false, true);
    assert_int_equal(e.a.wakes, 1);
    assert_true(poll_end(&e.a) && e.a.writable && !e.a.readable);
    assert_int_equal(put(&e.a, full, PIPE), PIPE);
    assert_false(poll_end(&e.a));
    assert_int_equal(get(&e.b, text, 1), 1);
    assert_int_equal(e.a.wakes, 2);
    assert_true(poll_end(&e.a));
    assert_true(e.a.ep->ops->emss(e.a.ep) > 1000);
    end_close(&e.b, false);
    end_close(&e.a, false);
    free(full);
}

static void transfer__with_missing_memory__is_efault(void **state)
{
    uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct iovec iov[2] = {{p, 4096}, {p + 4096, 10}};
    struct ends e;

    (void)state;
    assert_ptr_not_equal(p, MAP_FAILED);
    pair_fill(p, 8192, 1);
    assert_int_equal(mprotect(p + 4096, 4096, PROT_NONE), 0);
    ends_open(&e);
    assert_int_equal(put(&e.a, p + 4000, 200), -EFAULT);
    assert_int_equal(e.a.ep->ops->writev(e.a.ep, iov, 2), 4096); /* as far as there is something */
    assert_int_equal(e.a.ep->ops->writev(e.a.ep, &iov[1], 1), -EFAULT);
    assert_int_equal(get(&e.b, p + 4096, 1), -EFAULT);
    assert_int_equal(get(&e.b, p, 4096), 4096);
    end_close(&e.a, false);
    end_close(&e.b, false);
    munmap(p, 8192);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(octets__in_random_pieces__come_out_in_order),
        cmocka_unit_test(fin__comes_behind_the_octets),
        cmocka_unit_test(reset__ends_both_directions),
        cmocka_unit_test(watch__reports_what_is_ready_and_wakes_for_nothing_else),
        cmocka_unit_test(transfer__with_missing_memory__is_efault),
    };

    return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
