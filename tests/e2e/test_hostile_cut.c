/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that stops after every octet of a short conversation, by FIN and by reset, in both roles:
 * each request that was posted completes exactly once, what came whole was delivered, what did not
 * was not, and other connections notice nothing. RFC 5044 7.1.2 and 8, RFC 5040 6.2.
 */
#include "progress.h"
#include "tcp_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#define REQUEST  "4d504120494420526571204672616d65 50020004 00100008"
#define REPLY    "4d504120494420526570204672616d65 50020004 00100010"
#define START    24 /* octets of either */
#define RECEIVES 3
#define SENDS    2 /* requests of this end: a Send and an RDMA Read that is never answered */

/* What the peer says: a Send, a Write, a Send with Solicited Event of two segments. */
static const char said[] = "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 C |"
                           "0016c140 W T 7777777777777777 C |"
                           "00160145 00000000 00000000 00000002 00000000 31313131 C |"
                           "00164145 00000000 00000000 00000002 00000004 32323232 C";

/* Octets behind the start-up frame after which the first, the second message is whole. */
#define FIRST  32
#define SECOND (32 + 28 + 28 + 28)

static struct tcp_host *host;

static int setup(void **state)
{
    (void)state;
    host = host_open(NULL, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    host_close(host);
    return 0;
}

static void cut_off(bool by_reset)
{
    if (by_reset) {
        raw_reset(host->fd);
        host->fd = -1;
    } else {
        raw_fin(host->fd);
        (void)raw_drain(host->fd);
    }
}

/* All of `posted` complete, each once; returns how many receives had success. */
static unsigned complete_all(unsigned posted)
{
    uint64_t seen = 0;
    unsigned received = 0;

    for (unsigned i = 0; i < posted; i++) {
        struct iwarp_wc wc = host_completion(host);
        uint64_t bit = 1ull << (wc.wr_id >= 200 ? 32 + wc.wr_id % 100 : wc.wr_id % 100);
        assert_false(seen & bit);
        seen |= bit;
        if (wc.wr_id < 200 && wc.status == IWARP_WC_SUCCESS) {
            assert_int_equal(wc.wr_id, 100 + received); /* in order */
            assert_int_equal(wc.byte_len, received == 0 ? 5 : 8);
            received++;
        } else if (wc.status != IWARP_WC_SUCCESS) {
            assert_non_null(wc.fault);
        }
    }
    struct iwarp_wc none;
    assert_int_equal(iwarp_cq_poll(host->cq, &none, 1), 0);
    return received;
}

static void established_part(size_t k, bool by_reset)
{
    unsigned whole = (k >= START + FIRST ? 1u : 0u) + (k >= START + SECOND ? 1u : 0u);

    cut_off(by_reset);
    struct iwarp_event e = host_event(host, IWARP_EVENT_DISCONNECTED);
    unsigned received = complete_all(RECEIVES + SENDS);
    if (by_reset) { /* the kernel may drop what was not read yet */
        assert_true(received <= whole);
    } else {
        assert_int_equal(received, whole);
    }
    assert_int_not_equal(e.status, IWARP_OK); /* an RDMA Read was not answered */
    assert_int_equal(iwarp_qp_state(host->qp), IWARP_QP_ERROR);
}

static void post_work(void)
{
    host_post(host, IWARP_WR_SEND, 201, 10);
    host_post_read(host); /* 200 */
}

static void responder(const struct octets *o, size_t k, bool by_reset)
{
    host_options(host);
    host->conn = NULL;
    host->fd = raw_connect(&host->addr);
    raw_send(host->fd, o->p, k < START ? k : START);
    if (k < START) { /* the application never hears of it */
        cut_off(by_reset);
        host_no_event(host, 0);
        host_finish(host);
        return;
    }
    struct iwarp_conn *conn = host_request(host);
    host_accept(host, conn, RECEIVES);
    raw_hear(host->fd, NULL, "4d504120494420526570204672616d65 50020004 00080010", "the Reply");
    host_event(host, IWARP_EVENT_ESTABLISHED);
    post_work();
    raw_send(host->fd, o->p + START, k - START);
    established_part(k, by_reset);
    host_finish(host);
}

static void initiator(const struct octets *o, size_t k, bool by_reset)
{
    struct sockaddr_in at;
    int listener = raw_listen(&at);

    host_options(host);
    host_qp(host, RECEIVES);
    assert_int_equal(iwarp_connect(host->qp, (const struct sockaddr *)&at, sizeof at,
                                   &host->options, NULL, 0, host->eq, NULL, &host->conn),
                     IWARP_OK);
    post_work();
    host->fd = raw_accept(listener);
    raw_close(listener);
    raw_hear(host->fd, NULL, "4d504120494420526571204672616d65 50020004 00200020", "the Request");
    raw_send(host->fd, o->p, k);
    if (k < START) {
        cut_off(by_reset);
        struct iwarp_event e = host_event(host, IWARP_EVENT_FAILED);
        assert_int_not_equal(e.status, IWARP_OK);
        assert_int_equal(complete_all(RECEIVES + SENDS), 0);
    } else {
        host_event(host, IWARP_EVENT_ESTABLISHED);
        established_part(k, by_reset);
    }
    host_finish(host);
}

static void conversation(enum host_role role, bool by_reset)
{
    struct octets o = {0};

    raw_text(&o, &host->names, role == HOST_RESPONDER ? REQUEST "|" : REPLY "|");
    raw_text(&o, &host->names, said);
    assert_int_equal(o.n, START + SECOND);
    for (size_t k = 0; k <= o.n; k++) {
        (role == HOST_RESPONDER ? responder : initiator)(&o, k, by_reset);
        host_reset_memory(host);
    }
    host_check_quiet(host);
    octets_free(&o);
}

static void responder__fin_after_each_octet__completes_everything_once(void **state)
{
    (void)state;
    conversation(HOST_RESPONDER, false);
}

static void responder__reset_after_each_octet__completes_everything_once(void **state)
{
    (void)state;
    conversation(HOST_RESPONDER, true);
}

static void initiator__fin_after_each_octet__completes_everything_once(void **state)
{
    (void)state;
    conversation(HOST_INITIATOR, false);
}

static void initiator__reset_after_each_octet__completes_everything_once(void **state)
{
    (void)state;
    conversation(HOST_INITIATOR, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(responder__fin_after_each_octet__completes_everything_once),
        cmocka_unit_test(responder__reset_after_each_octet__completes_everything_once),
        cmocka_unit_test(initiator__fin_after_each_octet__completes_everything_once),
        cmocka_unit_test(initiator__reset_after_each_octet__completes_everything_once),
    };

    return cmocka_run_group_tests_name("hostile_cut", tests, setup, teardown);
}
