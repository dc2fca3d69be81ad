/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every transport must do (docs/transport.md): the same tests for memory, kernel TCP and lwIP
 * over each kind of link.
 */
#include "octets.h"
#include "wires.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TEXT (1u << 20)

static uint8_t text[2][TEXT];

static void fill(void)
{
    for (unsigned s = 0; s < 2; s++) {
        for (size_t i = 0; i < TEXT; i++) {
            text[s][i] = (uint8_t)((i * 2654435761u + s * 40503u) >> 11);
        }
    }
}

/* --- octets ---------------------------------------------------------------------------------- */

/* One direction of a conversation. */
struct flow {
    struct wire_end *from, *to;
    const uint8_t *text;
    uint8_t *seen;
    size_t put, got, n;
};

struct talk {
    struct wire *w;
    struct flow flow[2];
    struct chance chance;
    size_t most; /* octets of one call */
};

/* In up to three pieces; what is not taken is tried again when the end is writable. */
static void step_put(struct talk *t, struct flow *f)
{
    size_t n = chance_size(&t->chance, t->most), cut;

    n = n < f->n - f->put ? n : f->n - f->put;
    cut = chance_below(&t->chance, n + 1);
    struct iovec iov[3] = {{(void *)(uintptr_t)(f->text + f->put), cut},
                           {NULL, 0},
                           {(void *)(uintptr_t)(f->text + f->put + cut), n - cut}};
    ssize_t put = n > 0 ? f->from->ep->ops->writev(f->from->ep, iov, 3) : 0;
    if (put < 0) {
        assert_int_equal(put, -EAGAIN);
    } else {
        assert_true((size_t)put <= n);
        f->put += (size_t)put;
    }
}

static void step_get(struct talk *t, struct flow *f)
{
    size_t n = 1 + chance_size(&t->chance, t->most), room = f->n - f->got;

    n = n < room ? n : room;
    size_t cut = chance_below(&t->chance, n + 1);
    struct iovec iov[2] = {{f->seen + f->got, cut}, {f->seen + f->got + cut, n - cut}};
    ssize_t got = n > 0 ? f->to->ep->ops->readv(f->to->ep, iov, 2) : -EAGAIN;
    if (got < 0) {
        assert_int_equal(got, -EAGAIN);
    } else {
        assert_true(got > 0 && (size_t)got <= n);
        f->got += (size_t)got;
    }
}

/* Only what was reported as ready is done, so that a report that does not come is a hang. */
static bool talked(void *arg)
{
    struct talk *t = arg;
    bool done = true;

    for (int i = 0; i < 2; i++) {
        struct flow *f = &t->flow[i];
        if (f->from->writable) {
            f->from->writable = false;
            step_put(t, f);
        }
        if (f->to->readable) {
            f->to->readable = false;
            step_get(t, f);
        }
        done = done && f->got == f->n;
    }
    for (int i = 0; i < 2; i++) {
        const struct flow *f = &t->flow[i], *back = &t->flow[1 - i];
        f->from->ep->ops->watch(f->from->ep, back->got < back->n, f->put < f->n);
    }
    return done;
}

static void talk(struct wire *w, struct wire_end *a, struct wire_end *b, size_t n, size_t most)
{
    struct talk t = {.w = w, .chance = {chance_seed()}, .most = most};
    uint8_t *seen = malloc(2 * n + 1);

    assert_non_null(seen);
    t.flow[0] = (struct flow){a, b, text[0], seen, 0, 0, n};
    t.flow[1] = (struct flow){b, a, text[1], seen + n, 0, 0, n};
    wire_until(w, talked, &t);
    assert_memory_equal(seen, text[0], n);
    assert_memory_equal(seen + n, text[1], n);
    free(seen);
}

static void octets__both_ways_in_random_pieces__arrive_in_order(struct wire *w)
{
    struct wire_end a, b;

    wire_connect(w, &a, &b);
    talk(w, &a, &b, TEXT, 100000);
    talk(w, &a, &b, 4000, 3);
    wire_end_close(w, &a, false);
    wire_end_close(w, &b, false);
}

/* --- room ------------------------------------------------------------------------------------ */

static bool is_readable(void *end)
{
    return ((struct wire_end *)end)->readable;
}

static bool is_writable(void *end)
{
    return ((struct wire_end *)end)->writable;
}

/* Write until nothing is taken for a while; the reader reads nothing. */
static size_t write_until_full(struct wire *w, struct wire_end *a)
{
    size_t put = 0;

    for (int quiet = 0; quiet < 20;) {
        ssize_t n = wire_put(a, text[0] + put % (TEXT / 2), TEXT / 2 - put % (TEXT / 2));
        if (n < 0) {
            assert_int_equal(n, -EAGAIN);
            wire_settle(w, 5);
            quiet++;
        } else {
            put += (size_t)n;
            quiet = 0;
            assert_true(put < (64u << 20));
        }
    }
    return put;
}

static size_t read_all(struct wire *w, struct wire_end *b, size_t n)
{
    static uint8_t seen[65536];
    size_t got = 0;

    b->ep->ops->watch(b->ep, true, false);
    while (got < n) {
        ssize_t now = wire_get(b, seen, sizeof seen);
        if (now == -EAGAIN) {
            b->readable = false;
            wire_until(w, is_readable, b);
        } else {
            assert_true(now > 0);
            for (size_t i = 0; i < (size_t)now; i++) {
                assert_int_equal(seen[i], text[0][(got + i) % (TEXT / 2)]);
            }
            got += (size_t)now;
        }
    }
    b->ep->ops->watch(b->ep, false, false);
    return got;
}

static void writer__faster_than_reader__is_held_and_goes_on(struct wire *w)
{
    struct wire_end a, b;

    wire_connect(w, &a, &b);
    for (int i = 0; i < 2; i++) {
        size_t put = write_until_full(w, &a);
        a.writable = false;
        a.ep->ops->watch(a.ep, false, true);
        wire_settle(w, 20);
        assert_false(a.writable);
        assert_int_equal(read_all(w, &b, put), put);
        wire_until(w, is_writable, &a);
        a.ep->ops->watch(a.ep, false, false);
        /* The next round begins at the beginning of the text. */
        if (put % (TEXT / 2) != 0) {
            size_t rest = TEXT / 2 - put % (TEXT / 2), done = 0;
            while (done < rest) {
                ssize_t n = wire_put(&a, text[0] + TEXT / 2 - rest + done, rest - done);
                done += n > 0 ? (size_t)n : 0;
                wire_settle(w, 1);
                static uint8_t dropped[65536];
                while (wire_get(&b, dropped, sizeof dropped) > 0) {
                }
            }
            wire_settle(w, 20);
            static uint8_t dropped[65536];
            while (wire_get(&b, dropped, sizeof dropped) > 0) {
            }
        }
    }
    wire_end_close(w, &a, false);
    wire_end_close(w, &b, false);
}

/* --- readiness ------------------------------------------------------------------------------- */

static void readiness__is_reported_for_what_is_watched_and_again(struct wire *w)
{
    struct wire_end a, b;
    uint8_t octet[3];

    wire_connect(w, &a, &b);
    assert_int_equal(wire_put(&a, "abc", 3), 3);
    wire_settle(w, 50);
    assert_int_equal(b.ready, 0); /* nothing is watched */
    b.ep->ops->watch(b.ep, true, false);
    wire_until(w, is_readable, &b); /* it was there before */
    assert_false(b.writable);
    assert_int_equal(wire_get(&b, octet, 1), 1);
    b.readable = false;
    b.ep->ops->watch(b.ep, false, false);
    b.ep->ops->watch(b.ep, true, false);
    wire_until(w, is_readable, &b); /* it left something */
    assert_int_equal(wire_get(&b, octet + 1, 2), 2);
    assert_memory_equal(octet, "abc", 3);
    b.ep->ops->watch(b.ep, false, true);
    b.readable = b.writable = false;
    wire_until(w, is_writable, &b);
    b.ep->ops->watch(b.ep, true, false);
    wire_settle(w, 5); /* what was on its way */
    b.ready = 0;
    wire_settle(w, 50);
    assert_int_equal(b.ready, 0); /* there is nothing, so nobody is woken */
    assert_int_equal(wire_get(&b, octet, 1), -EAGAIN);
    wire_end_close(w, &a, false);
    wire_end_close(w, &b, false);
}

/* --- ends ------------------------------------------------------------------------------------ */

/* The next read that is not EAGAIN. */
static ssize_t next_read(struct wire *w, struct wire_end *e, void *p, size_t n)
{
    ssize_t got;

    e->readable = false;
    e->ep->ops->watch(e->ep, true, false);
    while ((got = wire_get(e, p, n)) == -EAGAIN) {
        wire_until(w, is_readable, e);
        e->readable = false;
    }
    e->ep->ops->watch(e->ep, false, false);
    return got;
}

static void half_close__comes_behind_the_octets_and_leaves_the_other_way(struct wire *w)
{
    struct wire_end a, b;
    uint8_t seen[8];

    wire_connect(w, &a, &b);
    assert_int_equal(wire_put(&a, "last", 4), 4);
    a.ep->ops->shutdown_write(a.ep);
    assert_int_equal(next_read(w, &b, seen, 4), 4);
    assert_memory_equal(seen, "last", 4);
    assert_int_equal(next_read(w, &b, seen, sizeof seen), 0);
    assert_int_equal(next_read(w, &b, seen, sizeof seen), 0); /* and again */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(wire_put(&b, "reply", 5), 5);
        assert_int_equal(next_read(w, &a, seen, sizeof seen), 5);
    }
    b.ep->ops->shutdown_write(b.ep);
    assert_int_equal(next_read(w, &a, seen, sizeof seen), 0);
    wire_end_close(w, &a, false);
    wire_end_close(w, &b, false);
}

static void reset__is_seen_behind_the_octets_that_arrived(struct wire *w)
{
    struct wire_end a, b;
    uint8_t seen[8];

    wire_connect(w, &a, &b);
    assert_int_equal(wire_put(&a, "last", 4), 4);
    wire_settle(w, 50);
    wire_end_close(w, &a, true);
    wire_settle(w, 20);
    assert_int_equal(wire_get(&b, seen, sizeof seen), 4);
    assert_int_equal(next_read(w, &b, seen, sizeof seen), -ECONNRESET);
    ssize_t n = wire_put(&b, "x", 1);
    assert_true(n == -EPIPE || n == -ECONNRESET);
    wire_end_close(w, &b, false);
}

static void close__of_a_reader_that_left_octets__ends_the_writer(struct wire *w)
{
    struct wire_end a, b;

    wire_connect(w, &a, &b);
    assert_int_equal(wire_put(&a, "unread", 6), 6);
    wire_settle(w, 50);
    wire_end_close(w, &b, false);
    ssize_t n = 1;
    for (int i = 0; i < 1000 && n >= 0; i++) {
        wire_settle(w, 5);
        n = wire_put(&a, "more", 4);
    }
    assert_true(n == -EPIPE || n == -ECONNRESET);
    unsigned ready = a.ready;
    wire_end_close(w, &a, false);
    wire_settle(w, 20);
    assert_int_equal(a.ready, ready);
}

static void closed_in_order__what_was_written_before__arrives(struct wire *w)
{
    static uint8_t seen[30000];
    struct wire_end a, b;

    wire_connect(w, &a, &b);
    assert_int_equal(wire_put(&a, text[0], sizeof seen), sizeof seen);
    wire_end_close(w, &a, false);
    size_t got = 0;
    while (got < sizeof seen) {
        ssize_t n = next_read(w, &b, seen + got, sizeof seen - got);
        assert_true(n > 0);
        got += (size_t)n;
    }
    assert_memory_equal(seen, text[0], sizeof seen);
    assert_int_equal(next_read(w, &b, seen, 1), 0);
    wire_end_close(w, &b, false);
}

/* --- memory that is not there ---------------------------------------------------------------- */

static void memory__that_is_gone__is_efault_and_no_more(struct wire *w)
{
    struct wire_end a, b;
    uint8_t seen[8];
    void *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(gone != MAP_FAILED);
    wire_connect(w, &a, &b);
    assert_int_equal(wire_put(&a, gone, 100), -EFAULT);
    assert_int_equal(wire_put(&a, "here", 4), 4);
    b.ep->ops->watch(b.ep, true, false);
    wire_until(w, is_readable, &b);
    assert_int_equal(wire_get(&b, gone, 4), -EFAULT);
    assert_int_equal(next_read(w, &b, seen, 4), 4);
    assert_memory_equal(seen, "here", 4);
    wire_end_close(w, &a, false);
    wire_end_close(w, &b, false);
    munmap(gone, 4096);
}

static void segments__have_a_size(struct wire *w)
{
    struct wire_end a, b;

    wire_connect(w, &a, &b);
    assert_in_range(a.ep->ops->emss(a.ep), 536, 65535);
#ifdef IWARP_OWN_LWIP
    if (w->kind == WIRE_LWIP_LARGE) {
        assert_in_range(a.ep->ops->emss(a.ep), 32000, 65000); /* half of the first window */
    }
#endif
    wire_end_close(w, &a, false);
    wire_end_close(w, &b, false);
}

/* --- connecting and listening: transports with a stack ------------------------------------------
 */

static void set_port(struct sockaddr_storage *addr, uint16_t port)
{
    if (addr->ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)(void *)addr)->sin6_port = htons(port);
    } else {
        ((struct sockaddr_in *)(void *)addr)->sin_port = htons(port);
    }
}

static void addresses__of_both_ends__are_the_same(struct wire *w)
{
    const struct iwarp_stack_ops *ops = wire_ops(w);
    struct sockaddr_storage addr[4], host;
    socklen_t len[4];
    struct wire_end a, b;

    wire_connect(w, &a, &b);
    ops->local_addr(a.ep, &addr[0], &len[0]);
    ops->peer_addr(b.ep, &addr[1], &len[1]);
    ops->peer_addr(a.ep, &addr[2], &len[2]);
    ops->local_addr(b.ep, &addr[3], &len[3]);
    for (int i = 0; i < 4; i += 2) {
        socklen_t n = wire_host(w, i / 2, &host);
        assert_int_equal(len[i], n);
        assert_int_equal(len[i + 1], n);
        assert_memory_equal(&addr[i], &addr[i + 1], n);
        set_port(&addr[i], 0);
        assert_memory_equal(&addr[i], &host, n);
    }
    struct sockaddr_storage from;
    socklen_t from_len;
    socklen_t n = wire_host(w, 1, &host);
    assert_int_equal(ops->source(w->stack[0], (struct sockaddr *)&host, n, &from, &from_len), 0);
    wire_host(w, 0, &host);
    set_port(&from, 0); /* that of a datagram socket is nobody's */
    assert_memory_equal(&from, &host, n);
    wire_end_close(w, &a, false);
    wire_end_close(w, &b, false);
}

static void connecting__to_a_port_without_listener__is_refused(struct wire *w)
{
    struct sockaddr_storage to;
    socklen_t len = wire_host(w, 1, &to);
    struct wire_end a;

    set_port(&to, 9); /* nobody listens there */
    assert_int_equal(wire_dial(w, &to, len, &a), 0);
    wire_until(w, is_writable, &a);
    assert_int_equal(wire_ops(w)->error(a.ep), ECONNREFUSED);
    wire_end_close(w, &a, false);
}

static void address__that_is_taken_or_foreign__is_refused(struct wire *w)
{
    const struct iwarp_stack_ops *ops = wire_ops(w);
    struct iwarp_acceptor *second = NULL;
    socklen_t len;

    wire_listen(w, 4);
    struct sockaddr_storage addr = wire_addr(w, &len);
    assert_int_equal(ops->listen(w->stack[1], (struct sockaddr *)&addr, len, 4, &second),
                     -EADDRINUSE);
    if (addr.ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)(void *)&addr)->sin6_addr.s6_addr[7] = 0x77;
    } else {
        ((struct sockaddr_in *)(void *)&addr)->sin_addr.s_addr = htonl(0xc6336401);
    }
    assert_int_equal(ops->listen(w->stack[1], (struct sockaddr *)&addr, len, 4, &second),
                     -EADDRNOTAVAIL);
    struct sockaddr odd = {.sa_family = 99};
    assert_int_equal(ops->listen(w->stack[1], &odd, sizeof odd, 4, &second), -EAFNOSUPPORT);
    wire_unlisten(w);
    wire_listen(w, 4); /* the same address again */
}

static bool has_arrived(void *wire)
{
    return ((struct wire *)wire)->arrivals > 0;
}

/* An arrival receives before anybody has it, and waits while its acceptor is paused. */
static void arrivals__paused_and_refused__lose_nothing(struct wire *w)
{
    const struct iwarp_stack_ops *ops = wire_ops(w);
    struct sockaddr_storage to, peer;
    union iwarp_arrival arrival;
    struct wire_end a, b;
    socklen_t len;
    uint8_t seen[8];

    wire_listen(w, 4);
    to = wire_addr(w, &len);
    ops->pause(w->acceptor, true);
    assert_int_equal(wire_dial(w, &to, len, &a), 0);
    assert_int_equal(wire_dial(w, &to, len, &b), 0);
    wire_until(w, is_writable, &a);
    wire_until(w, is_writable, &b);
    assert_int_equal(wire_put(&a, "early", 5), 5);
    assert_int_equal(wire_put(&b, "early", 5), 5);
    wire_settle(w, 50);
    assert_int_equal(w->arrivals, 0);
    ops->pause(w->acceptor, false);
    wire_until(w, has_arrived, w);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ops->accept(w->acceptor, &arrival, &peer, &len), 0);
        ops->refuse(w->stack[1], arrival, true);
    }
    assert_int_equal(ops->accept(w->acceptor, &arrival, &peer, &len), -EAGAIN);
    assert_int_equal(next_read(w, &a, seen, sizeof seen), -ECONNRESET);
    assert_int_equal(next_read(w, &b, seen, sizeof seen), -ECONNRESET);
    wire_end_close(w, &a, false);
    wire_end_close(w, &b, false);

    w->arrivals = 0;
    assert_int_equal(wire_dial(w, &to, len, &a), 0); /* nobody takes this one */
    wire_until(w, is_writable, &a);
    wire_until(w, has_arrived, w);
    wire_unlisten(w);
    assert_int_equal(next_read(w, &a, seen, sizeof seen), -ECONNRESET);
    wire_end_close(w, &a, false);
}

static void end__is_watched_past_octets(struct wire *w)
{
    static uint8_t most[IWARP_UNREAD_MAX];
    const struct iwarp_stack_ops *ops = wire_ops(w);
    struct wire_end a, b;
    int octets;

    wire_connect(w, &a, &b);
    ops->watch_end(b.ep);
    assert_int_equal(wire_put(&a, "a few", 5), 5);
    wire_settle(w, 50);
    assert_int_equal(b.ready, 0);
    a.ep->ops->shutdown_write(a.ep);
    wire_until(w, is_readable, &b);
    assert_false(ops->unread(b.ep, &octets)); /* the end, and not octets */
    assert_int_equal(wire_get(&b, most, sizeof most), 5);
    wire_end_close(w, &a, false);
    wire_end_close(w, &b, false);

    wire_connect(w, &a, &b);
    ops->watch_end(b.ep);
    assert_int_equal(wire_put(&a, text[0], sizeof most), sizeof most);
    wire_until(w, is_readable, &b);
    assert_true(ops->unread(b.ep, &octets));
    assert_in_range(octets, 1, sizeof most);
    b.readable = false;
    b.ep->ops->watch(b.ep, true, false); /* and back to what is usual */
    wire_until(w, is_readable, &b);
    wire_end_close(w, &a, true);
    wire_end_close(w, &b, false);
}

/* However much is unread; and a reset says why. */
static void end__is_awaited_past_all_octets(struct wire *w)
{
    const struct iwarp_stack_ops *ops = wire_ops(w);
    struct wire_end a, b;
    int error = 0;

    for (int reset = 0; reset < 2; reset++) {
        wire_connect(w, &a, &b);
        ops->await_end(b.ep, false);
        assert_int_equal(wire_put(&a, text[0], 2 * IWARP_UNREAD_MAX), 2 * IWARP_UNREAD_MAX);
        wire_settle(w, 50);
        assert_int_equal(b.ready, 0);
        assert_false(ops->ending(b.ep, &error));
        ops->await_end(b.ep, true);
        wire_until(w, is_writable, &b);
        assert_false(b.readable);
        ops->await_end(b.ep, false);
        if (reset) {
            wire_end_close(w, &a, true);
        } else {
            a.ep->ops->shutdown_write(a.ep);
        }
        wire_until(w, is_readable, &b);
        assert_true(ops->ending(b.ep, &error));
        assert_int_equal(error, reset ? ECONNRESET : 0);
        if (!reset) {
            wire_end_close(w, &a, false);
        }
        wire_end_close(w, &b, false);
    }
}

/* All of them at a time; those of the kernel's TCP are bounded by descriptors. */
static void many_connections__come_talk_and_go(struct wire *w)
{
    static struct wire_end a[1000], b[1000];
    unsigned n = strcmp(wire_ops(w)->name, "lwip") == 0 ? 1000 : 200;

    for (unsigned i = 0; i < n; i++) {
        wire_connect(w, &a[i], &b[i]);
    }
    for (unsigned i = 0; i < n; i++) {
        talk(w, &a[i], &b[i], 3000, 2000);
    }
    for (unsigned i = 0; i < n; i++) {
        wire_end_close(w, i % 2 ? &a[i] : &b[i], i % 3 == 0);
        wire_end_close(w, i % 2 ? &b[i] : &a[i], false);
    }
}

/* --- all of it, for each ------------------------------------------------------------------------
 */

struct claim {
    const char *name;
    void (*test)(struct wire *w);
    bool stack; /* not for memory */
};

#define CLAIM(test)       {#test, test, false}
#define STACK_CLAIM(test) {#test, test, true}

static const struct claim claims[] = {
    CLAIM(octets__both_ways_in_random_pieces__arrive_in_order),
    CLAIM(writer__faster_than_reader__is_held_and_goes_on),
    CLAIM(readiness__is_reported_for_what_is_watched_and_again),
    CLAIM(half_close__comes_behind_the_octets_and_leaves_the_other_way),
    CLAIM(reset__is_seen_behind_the_octets_that_arrived),
    CLAIM(close__of_a_reader_that_left_octets__ends_the_writer),
    CLAIM(closed_in_order__what_was_written_before__arrives),
    CLAIM(memory__that_is_gone__is_efault_and_no_more),
    CLAIM(segments__have_a_size),
    STACK_CLAIM(addresses__of_both_ends__are_the_same),
    STACK_CLAIM(connecting__to_a_port_without_listener__is_refused),
    STACK_CLAIM(address__that_is_taken_or_foreign__is_refused),
    STACK_CLAIM(arrivals__paused_and_refused__lose_nothing),
    STACK_CLAIM(end__is_watched_past_octets),
    STACK_CLAIM(end__is_awaited_past_all_octets),
    STACK_CLAIM(many_connections__come_talk_and_go),
};

enum { CLAIMS = sizeof claims / sizeof *claims };

struct cell {
    const struct claim *claim;
    enum wire_kind kind;
};

static void run(void **state)
{
    const struct cell *cell = *state;
    struct wire w;

    wire_open(&w, cell->kind);
    cell->claim->test(&w);
    wire_close(&w);
}

int main(void)
{
    static struct cell cells[CLAIMS * WIRE_KINDS];
    static char names[CLAIMS * WIRE_KINDS][160];
    static struct CMUnitTest tests[CLAIMS * WIRE_KINDS];
    size_t n = 0;

    fill();
    for (enum wire_kind k = 0; k < WIRE_KINDS; k++) {
        for (size_t i = 0; i < CLAIMS; i++) {
            if (k == WIRE_MEMORY && claims[i].stack) {
                continue;
            }
            cells[n] = (struct cell){&claims[i], k};
            snprintf(names[n], sizeof names[n], "%s: %s", wire_names[k], claims[i].name);
            tests[n] = (struct CMUnitTest){names[n], run, NULL, NULL, &cells[n]};
            n++;
        }
    }
    return _cmocka_run_group_tests("transports", tests, n, NULL, NULL);
}
