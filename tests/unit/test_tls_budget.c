/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What TLS holds for a peer counts against the device's budget: octets of a record that is not
 * whole, and records that the transport does not take. What it does for one in a call is bounded,
 * too. Two ends over a transport of the test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "scratch.h"
#include "tls/tls_inner.h"
#include "tls_files.h"

enum { WIRE = 200000, PAYLOAD = 40000 };

struct side {
    struct iwarp_endpoint ep;
    struct iwarp_tls *tls;
    struct iwarp_budget budget;
    size_t window; /* octets that it may still write */
    struct side *peer;
    unsigned char in[WIRE];
    size_t in_len;
};

static ssize_t mem_readv(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct side *s = (struct side *)(void *)ep;
    size_t k = iov[0].iov_len < s->in_len ? iov[0].iov_len : s->in_len;

    (void)n;
    memcpy(iov[0].iov_base, s->in, k);
    memmove(s->in, s->in + k, s->in_len - k);
    s->in_len -= k;
    return k > 0 ? (ssize_t)k : -EAGAIN;
}

static ssize_t mem_writev(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    struct side *s = (struct side *)(void *)ep, *to = s->peer;
    size_t k = iov[0].iov_len < s->window ? iov[0].iov_len : s->window;

    (void)n;
    assert_true(k <= WIRE - to->in_len);
    memcpy(to->in + to->in_len, iov[0].iov_base, k);
    to->in_len += k;
    s->window -= k;
    return k > 0 ? (ssize_t)k : -EAGAIN;
}

static void mem_watch(struct iwarp_endpoint *ep, bool read, bool write)
{
    (void)ep;
    (void)read;
    (void)write;
}

static void mem_shutdown(struct iwarp_endpoint *ep)
{
    (void)ep;
}

static void mem_close(struct iwarp_endpoint *ep, bool reset)
{
    (void)ep;
    (void)reset;
}

static uint32_t mem_emss(struct iwarp_endpoint *ep)
{
    (void)ep;
    return 1448;
}

static const struct iwarp_transport mem_transport = {"test",       mem_readv, mem_writev, mem_watch,
                                                     mem_shutdown, mem_close, mem_emss,   NULL};

static void nothing(void *user)
{
    (void)user;
}

struct ends {
    struct iwarp_tls_store store;
    struct side *side[2];
};

static void ends_open(struct ends *e, size_t limit)
{
    struct iwarp_tls_context *context;

    iwarp_tls_store_init(&e->store);
    assert_int_equal(iwarp_tls_store_find(&e->store, tls_files_context("psk=%s/keys"), &context),
                     IWARP_OK);
    for (int i = 0; i < 2; i++) {
        struct side *s = e->side[i] = calloc(1, sizeof *s);
        assert_non_null(s);
        s->ep = (struct iwarp_endpoint){.ops = &mem_transport, .user = s};
        s->budget.limit = limit;
        s->window = SIZE_MAX;
        const struct iwarp_tls_below below = {
            .ep = &s->ep, .budget = &s->budget, .responder = i == 1, .wake = nothing};
        s->tls = iwarp_tls_new(context, &below);
        assert_non_null(s->tls);
    }
    e->side[0]->peer = e->side[1];
    e->side[1]->peer = e->side[0];
    for (bool done = false; !done;) {
        done = true;
        for (int i = 0; i < 2; i++) {
            enum iwarp_tls_step step = iwarp_tls_handshake(e->side[i]->tls);
            assert_true(step != IWARP_TLS_FAILED);
            done = done && step == IWARP_TLS_DONE;
        }
    }
}

/* Whatever was counted is returned. */
static void ends_close(struct ends *e)
{
    for (int i = 0; i < 2; i++) {
        struct iwarp_endpoint *ep = iwarp_tls_endpoint(e->side[i]->tls);
        ep->ops->close(ep, true);
        iwarp_tls_free(e->side[i]->tls);
        assert_int_equal(e->side[i]->budget.used, 0);
        free(e->side[i]);
    }
    iwarp_tls_store_fini(&e->store);
}

static unsigned char payload[PAYLOAD];

static ssize_t send_some(struct side *s, size_t n)
{
    struct iovec iov = {payload, n};
    struct iwarp_endpoint *ep = iwarp_tls_endpoint(s->tls);

    return ep->ops->writev(ep, &iov, 1);
}

static ssize_t receive(struct side *s)
{
    static unsigned char octets[PAYLOAD];
    struct iovec iov = {octets, sizeof octets};
    struct iwarp_endpoint *ep = iwarp_tls_endpoint(s->tls);

    return ep->ops->readv(ep, &iov, 1);
}

/* An end that waits for the peer's FIN reads on. It gets the octets that are there, and drops them.
 */
static void record__damaged__is_told_once_and_what_follows_is_only_taken(void **state)
{
    struct ends e;

    (void)state;
    ends_open(&e, 100000);
    assert_int_equal(send_some(e.side[0], 100), 100);
    e.side[1]->in[e.side[1]->in_len - 1] ^= 1;
    assert_int_equal(receive(e.side[1]), -EPROTO);
    assert_int_equal(receive(e.side[1]), -EAGAIN);
    assert_int_equal(send_some(e.side[0], 100), 100);
    size_t octets = e.side[1]->in_len;
    assert_int_equal(receive(e.side[1]), octets);
    assert_int_equal(send_some(e.side[1], 1), -EPROTO);
    ends_close(&e);
}

static void record__that_is_not_whole__counts_until_it_is(void **state)
{
    struct ends e;

    (void)state;
    ends_open(&e, 100000);
    e.side[0]->window = 1000;
    assert_int_equal(send_some(e.side[0], 3000), 2999);
    assert_int_equal(receive(e.side[1]), -EAGAIN);
    assert_int_equal(e.side[1]->budget.used, TLS_READ_AHEAD);
    assert_in_range(e.side[0]->budget.used, 2000, 3000);
    e.side[0]->window = SIZE_MAX;
    assert_int_equal(send_some(e.side[0], 1), 1);
    assert_int_equal(e.side[0]->budget.used, 0);
    assert_int_equal(receive(e.side[1]), 3000);
    assert_int_equal(e.side[1]->budget.used, 0);
    ends_close(&e);
}

static void check_over(struct side *s, ssize_t result)
{
    assert_int_equal(result, -EPROTO);
    assert_non_null(iwarp_tls_fault(s->tls));
    assert_int_equal(iwarp_fault_code(iwarp_tls_fault(s->tls)), IWARP_FAULT_LOCAL_BUFFER_LIMIT);
    assert_int_equal(s->budget.used, s->tls->counted);
}

static void reader__over_the_budget__fails_alone(void **state)
{
    struct ends e;

    (void)state;
    ends_open(&e, 10000);
    e.side[0]->window = 1000;
    assert_int_equal(send_some(e.side[0], 3000), 2999);
    check_over(e.side[1], receive(e.side[1]));
    assert_null(iwarp_tls_fault(e.side[0]->tls));
    ends_close(&e);
}

static void writer__over_the_budget__fails_alone(void **state)
{
    struct ends e;

    (void)state;
    ends_open(&e, 10000);
    e.side[0]->window = 1000;
    check_over(e.side[0], send_some(e.side[0], PAYLOAD));
    assert_null(iwarp_tls_fault(e.side[1]->tls));
    ends_close(&e);
}

/* n key changes, and a payload behind them. */
static void send_updates(struct side *s, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        assert_true(iwarp_tls_seal_update(s->tls));
    }
    assert_int_equal(iwarp_tls_out_flush(s->tls), 0);
    assert_int_equal(send_some(s, 100), 100);
}

static void key_changes__a_few_before_payload__are_taken(void **state)
{
    struct ends e;

    (void)state;
    ends_open(&e, 100000);
    for (int i = 0; i < 3; i++) {
        send_updates(e.side[0], TLS_MESSAGES);
        assert_int_equal(receive(e.side[1]), 100);
    }
    ends_close(&e);
}

/* One call would go on for as long as the peer sends them, and keep the thread from the others. */
static void key_changes__a_flood_of_them__ends_the_connection(void **state)
{
    struct ends e;
    char text[300];

    (void)state;
    ends_open(&e, 100000);
    send_updates(e.side[0], 7000);
    assert_int_equal(receive(e.side[1]), -EPROTO);
    assert_true(e.side[1]->in_len > 100000); /* not even looked at */
    assert_int_equal(iwarp_fault_code(iwarp_tls_fault(e.side[1]->tls)), IWARP_FAULT_TLS_FAILED);
    iwarp_fault_text(iwarp_tls_fault(e.side[1]->tls), text, sizeof text);
    assert_non_null(strstr(text, "too many key updates"));
    assert_int_equal(receive(e.side[0]), -EPROTO);
    assert_int_equal(iwarp_fault_code(iwarp_tls_fault(e.side[0]->tls)), IWARP_FAULT_TLS_ALERT);
    ends_close(&e);
}

static size_t put(unsigned char *at, const void *octets, size_t n)
{
    memcpy(at, octets, n);
    return n;
}

static void put_16(unsigned char *at, size_t n)
{
    at[0] = (unsigned char)(n >> 8);
    at[1] = (unsigned char)n;
}

/* A record with a ClientHello (RFC 8446 4.1.2) that offers so many keys, alice's last. */
static size_t make_hello(unsigned char *p, unsigned offers)
{
    static const unsigned char head[] = {0, 0, 2, 0x13, 1, 1, 0};      /* no session, one cipher */
    static const unsigned char extensions[] = {0, 43, 0, 3,  2, 3,  4, /* versions */
                                               0, 10, 0, 4,  0, 2,  0, 0x1d, /* groups */
                                               0, 13, 0, 4,  0, 2,  4, 3,    /* algorithms */
                                               0, 45, 0, 2,  1, 1,           /* modes */
                                               0, 51, 0, 38, 0, 36, 0, 0x1d, 0, 32}; /* key share */
    static const unsigned char other[] = {0, 1, 'x', 0, 0, 0, 0};
    static const unsigned char alice[] = {0, 5, 'a', 'l', 'i', 'c', 'e', 0, 0, 0, 0};
    static const unsigned char keys[] = {0, 41, 0, 0, 0, 0};
    size_t n = 9, list, identities;

    memcpy(p, "\x16\x03\x01\0\0\x01\0\0\0", 9);
    n += put(p + n, "\x03\x03", 2);
    memset(p + n, 7, 32); /* random octets */
    n += 32;
    n += put(p + n, head, sizeof head);
    size_t length = n;
    n += 2;
    n += put(p + n, extensions, sizeof extensions);
    memset(p + n, 9, 32); /* a public key */
    n += 32;
    list = n;
    n += put(p + n, keys, sizeof keys);
    identities = n;
    for (unsigned i = 1; i < offers; i++) {
        n += put(p + n, other, sizeof other);
    }
    n += put(p + n, alice, sizeof alice);
    put_16(p + list + 4, n - identities);
    put_16(p + n, offers * 33);
    n += 2;
    for (unsigned i = 0; i < offers; i++, n += 33) { /* their binders */
        memset(p + n, 32, 33);
    }
    put_16(p + list + 2, n - list - 4);
    put_16(p + length, n - length - 2);
    put_16(p + 7, n - 9);
    put_16(p + 3, n - 5);
    return n;
}

/* What a responder with alice's key says to that, whose binder is wrong in any case. */
static enum iwarp_fault_code answer_offers(unsigned offers)
{
    struct iwarp_tls_context *context;
    struct iwarp_tls_store store;
    struct side *s = calloc(1, sizeof *s), *none = calloc(1, sizeof *none);
    enum iwarp_fault_code code;

    assert_true(s && none);
    iwarp_tls_store_init(&store);
    assert_int_equal(iwarp_tls_store_find(&store, tls_files_context("psk=%s/keys"), &context),
                     IWARP_OK);
    s->ep = (struct iwarp_endpoint){.ops = &mem_transport, .user = s};
    s->budget.limit = 1 << 20;
    s->window = SIZE_MAX;
    s->peer = none;
    s->in_len = make_hello(s->in, offers);
    const struct iwarp_tls_below below = {
        .ep = &s->ep, .budget = &s->budget, .responder = true, .wake = nothing};
    s->tls = iwarp_tls_new(context, &below);
    assert_non_null(s->tls);
    assert_int_equal(iwarp_tls_handshake(s->tls), IWARP_TLS_FAILED);
    code = iwarp_fault_code(iwarp_tls_fault(s->tls));
    iwarp_tls_endpoint(s->tls)->ops->close(iwarp_tls_endpoint(s->tls), true);
    iwarp_tls_free(s->tls);
    iwarp_tls_store_fini(&store);
    free(none);
    free(s);
    return code;
}

/* Anybody can send a ClientHello; with 4096 keys here, one of 9000 would take 0.15 s. */
static void keys_offered__beyond_16__are_not_looked_up(void **state)
{
    (void)state;
    assert_int_equal(answer_offers(1), IWARP_FAULT_TLS_PSK_KEY);
    assert_int_equal(answer_offers(16), IWARP_FAULT_TLS_PSK_KEY);
    assert_int_equal(answer_offers(17), IWARP_FAULT_TLS_PSK_UNKNOWN);
    assert_int_equal(answer_offers(400), IWARP_FAULT_TLS_PSK_UNKNOWN);
}

static int make_files(void **state)
{
    scratch_setup(state);
    tls_files_psk();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record__damaged__is_told_once_and_what_follows_is_only_taken),
        cmocka_unit_test(record__that_is_not_whole__counts_until_it_is),
        cmocka_unit_test(reader__over_the_budget__fails_alone),
        cmocka_unit_test(writer__over_the_budget__fails_alone),
        cmocka_unit_test(keys_offered__beyond_16__are_not_looked_up),
        cmocka_unit_test(key_changes__a_few_before_payload__are_taken),
        cmocka_unit_test(key_changes__a_flood_of_them__ends_the_connection),
    };

    return cmocka_run_group_tests_name("tls_budget", tests, make_files, scratch_teardown);
}
