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

static int make_files(void **state)
{
    scratch_setup(state);
    tls_files_psk();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record__that_is_not_whole__counts_until_it_is),
        cmocka_unit_test(reader__over_the_budget__fails_alone),
        cmocka_unit_test(writer__over_the_budget__fails_alone),
        cmocka_unit_test(key_changes__a_few_before_payload__are_taken),
        cmocka_unit_test(key_changes__a_flood_of_them__ends_the_connection),
    };

    return cmocka_run_group_tests_name("tls_budget", tests, make_files, scratch_teardown);
}
