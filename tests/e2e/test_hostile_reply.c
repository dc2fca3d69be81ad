/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What our iwarp_connect meets is no good responder: no MPA Reply, a wrong one, half of one, a no,
 * depths that cannot be, garbage behind a good one, or nobody at all. The application learns which,
 * within bounded time.
 *
 * RFC 5044 7.1.1 and 7.1.2, RFC 6581 6, 9 and 10.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "alloc_fault.h"
#include "place.h"
#include "progress.h"
#include "tcp_host.h"

#define REQUEST  "4d504120494420526571204672616d65"
#define REPLY    "4d504120494420526570204672616d65"
#define SLACK_MS 60000 /* of a busy machine */

/* The RTR by RDMA Read, source and sink STag 1, and its Response. */
#define V25                                                                                        \
    "002e4141 00000000 00000001 00000001 00000000 00000001 00000000 00000000 00000000 00000001"    \
    "00000000 00000000 C"
#define V26 "000ec142 00000001 00000000 00000000 21a3e83e"

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

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Peer-to-peer with Read as RTR, IRD and ORD 32: the default (spec: interop, section 0). */
static const char *const requests[] = {NULL, REQUEST "40010002 6869",
                                       REQUEST "50020006 80204020 6869"};

/* Call iwarp_connect and take the Request, which is compared. */
static void connect_to_raw(unsigned rev, unsigned startup_ms)
{
    struct sockaddr_in at;
    int listener = raw_listen(&at);

    host_qp(host, HOST_RECEIVES);
    host_options(host);
    host->options.peer_to_peer = true; /* as it is by default */
    host->options.mpa_rev = rev;
    host->options.startup_timeout_ms = startup_ms;
    host->options.close_timeout_ms = 1000;
    assert_int_equal(iwarp_connect(host->qp, (const struct sockaddr *)&at, sizeof at,
                                   &host->options, "hi", 2, host->eq, NULL, &host->conn),
                     IWARP_OK);
    host->fd = raw_accept(listener);
    raw_close(listener);
    raw_hear(host->fd, NULL, requests[rev], "the Request");
}

/* It was never established; everything says why. */
static void failed(enum iwarp_event_type type, enum iwarp_fault_code code)
{
    struct iwarp_event e = host_event(host, type);
    struct iwarp_conn_info info = {.size = sizeof info};
    struct iwarp_wc wc;
    bool came = type == IWARP_EVENT_REJECTED || code == IWARP_FAULT_MPA_IRD_INSUFFICIENT ||
                code == IWARP_FAULT_MPA_LOCAL; /* a Reply in order that led nowhere */

    host_check_fault(e.fault, code);
    assert_int_equal(e.status, iwarp_fault_status(e.fault));
    assert_int_equal(iwarp_conn_wait(host->conn, 0), e.status);
    assert_int_equal(iwarp_conn_info(host->conn, &info), came ? IWARP_OK : IWARP_MISUSE);
    assert_int_equal(info.mulpdu, 0);
    assert_int_equal(iwarp_qp_state(host->qp), IWARP_QP_ERROR);
    for (int i = 0; i < HOST_RECEIVES; i++) {
        wc = host_completion(host);
        assert_int_equal(wc.status, IWARP_WC_FLUSHED);
        host_check_fault(wc.fault, code);
    }
    assert_int_equal(iwarp_cq_poll(host->cq, &wc, 1), 0);
    host_finish(host);
    host_check_memory(host);
    host_check_quiet(host);
}

/* --- Replies that are none ------------------------------------------------------------------- */

static const struct {
    unsigned rev; /* of the Request; 0: the same Reply to both */
    const char *reply;
    enum iwarp_fault_code fault;
} wrong[] = {
    {0, REQUEST "40010000", IWARP_FAULT_MPA_BOTH_INITIATORS},
    {0, "4e504120494420526570204672616d65 40010000", IWARP_FAULT_MPA_KEY},
    {0, "4d504120494420526570204672616d64 40010000", IWARP_FAULT_MPA_KEY},
    {0, "4d504120494420526572204672616d65 40010000", IWARP_FAULT_MPA_KEY},
    {0, "00", IWARP_FAULT_MPA_KEY},
    {0, "N00*1000", IWARP_FAULT_MPA_KEY},
    {0, "485454502f312e31203430302042616420526571756573740d0a0d0a", IWARP_FAULT_MPA_KEY},
    {0, REPLY "40000000", IWARP_FAULT_MPA_REVISION},
    {0, REPLY "40030000", IWARP_FAULT_MPA_REVISION},
    {0, REPLY "40810000", IWARP_FAULT_MPA_REVISION},
    {0, REPLY "40ff0000", IWARP_FAULT_MPA_REVISION},
    {0, REPLY "40010201 N11*513", IWARP_FAULT_MPA_PRIVATE_DATA_LEN},
    {0, REPLY "4001ffff N11*2000", IWARP_FAULT_MPA_PRIVATE_DATA_LEN},
    {1, REPLY "50020004 80104010", IWARP_FAULT_MPA_REVISION},
    {2, REPLY "50020201 80104010 N11*509", IWARP_FAULT_MPA_PRIVATE_DATA_LEN},
    {2, REPLY "50020000", IWARP_FAULT_MPA_ENHANCED_MISSING},
    {2, REPLY "50020003 001000", IWARP_FAULT_MPA_ENHANCED_MISSING},
    {2, REPLY "40020000", IWARP_FAULT_MPA_ENHANCED_MISSING},
    {2, REPLY "40010000", IWARP_FAULT_MPA_ENHANCED_MISSING},
};

/* [MPA-7.1.2-11] */
static void reply__wrong__fails_without_a_further_octet(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        for (unsigned rev = 1; rev <= 2; rev++) {
            if (wrong[i].rev != 0 && wrong[i].rev != rev) {
                continue;
            }
            printf("# %u: %.70s\n", rev, wrong[i].reply);
            fflush(stdout);
            connect_to_raw(rev, 10000);
            raw_say(host->fd, NULL, wrong[i].reply);
            raw_end(host->fd, "a wrong Reply");
            failed(IWARP_EVENT_FAILED, wrong[i].fault);
        }
    }
}

/* [MPA2-9.1-10] */
static void reply__no__is_told_with_its_private_data(void **state)
{
    static const char *const no[] = {NULL, REPLY "60010002 0001", /* M04 */
                                     REPLY "70020006 80084020 0001",
                                     REPLY "60010002 0001" /* from one without revision 2 */};
    size_t len;

    (void)state;
    for (unsigned i = 1; i <= 3; i++) {
        connect_to_raw(i == 1 ? 1 : 2, 10000);
        raw_say(host->fd, NULL, no[i]);
        raw_fin(host->fd);
        raw_end(host->fd, "a Reply that says no");
        assert_int_equal(iwarp_conn_wait(host->conn, RAW_PATIENCE_MS), IWARP_PEER);
        const void *pd = iwarp_conn_private_data(host->conn, &len);
        assert_int_equal(len, 2);
        assert_memory_equal(pd, "\0\1", 2);
        struct iwarp_conn_info info = {.size = sizeof info};
        assert_int_equal(iwarp_conn_info(host->conn, &info), IWARP_OK);
        assert_int_equal(info.mpa_rev, i == 2 ? 2 : 1);
        assert_int_equal(info.peer_ird, i == 2 ? 8 : 0);
        assert_int_equal(info.peer_ord, i == 2 ? 32 : 0); /* what would have been needed */
        failed(IWARP_EVENT_REJECTED, IWARP_FAULT_MPA_REJECTED);
    }
}

/* --- cut ------------------------------------------------------------------------------------- */

#define WHOLE     REPLY "50020008 80104010 61626364"
#define WHOLE_LEN 28

static void cut(size_t n, void (*end)(int fd), unsigned startup_ms, enum iwarp_fault_code fault)
{
    struct octets whole = {0};

    raw_text(&whole, NULL, WHOLE);
    connect_to_raw(2, startup_ms);
    if (n > 0) { /* the time may be up before the first octet is out */
        assert_true(send(host->fd, whole.p, n, MSG_NOSIGNAL) == (ssize_t)n || !end);
    }
    octets_free(&whole);
    if (end) {
        end(host->fd);
        host->fd = end == raw_reset ? -1 : host->fd;
    }
    failed(IWARP_EVENT_FAILED, fault);
}

/* Without any octet it may be the revision: see test_tcp_fallback.c. */
static void reply__cut_anywhere_and_fin__fails_as_closed(void **state)
{
    (void)state;
    for (size_t n = 1; n < WHOLE_LEN; n++) {
        cut(n, raw_fin, 10000, IWARP_FAULT_MPA_CLOSED);
    }
}

static void reply__cut_and_reset__fails_as_lost(void **state)
{
    (void)state;
    for (size_t n = 1; n < WHOLE_LEN; n += 9) {
        cut(n, raw_reset, 10000, IWARP_FAULT_TCP_LOST);
    }
}

static void reply__cut_anywhere_and_silence__fails_when_the_time_is_up(void **state)
{
    (void)state;
    for (size_t n = 0; n < WHOLE_LEN; n += 3) {
        int64_t begun = now_ms();
        cut(n, NULL, 300, IWARP_FAULT_MPA_TIMEOUT);
        assert_in_range(now_ms() - begun, 295, 300 + SLACK_MS);
    }
}

static void reply__an_octet_now_and_then__does_not_get_more_time(void **state)
{
    struct octets whole = {0};
    size_t sent = 0;
    int64_t begun = now_ms();

    (void)state;
    raw_text(&whole, NULL, WHOLE);
    connect_to_raw(2, 600);
    struct pollfd p = {.fd = host->fd, .events = POLLIN};
    do {
        assert_true(sent < WHOLE_LEN - 1); /* it would have had the time for the whole frame */
        (void)send(host->fd, whole.p + sent++, 1, MSG_NOSIGNAL);
    } while (progress_poll(&p, 1, 450) == 0);
    octets_free(&whole);
    raw_end(host->fd, "a slow Reply");
    assert_in_range(now_ms() - begun, 595, 600 + SLACK_MS);
    failed(IWARP_EVENT_FAILED, IWARP_FAULT_MPA_TIMEOUT);
}

static void reply__octet_by_octet__is_taken(void **state)
{
    struct octets whole = {0};
    size_t len;

    (void)state;
    raw_text(&whole, NULL, WHOLE);
    connect_to_raw(2, 10000);
    raw_send_pieces(host->fd, whole.p, whole.n, 1, NULL);
    octets_free(&whole);
    host_event(host, IWARP_EVENT_ESTABLISHED);
    assert_memory_equal(iwarp_conn_private_data(host->conn, &len), "abcd", 4);
    assert_int_equal(len, 4);
    raw_hear(host->fd, NULL, V25, "the RTR");
    raw_say(host->fd, NULL, V26);
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "a close in order");
    host_ended(host, IWARP_FAULT_NONE, HOST_RECEIVES);
    host_finish(host);
}

/* --- Terminates of the start-up -------------------------------------------------------------- */

/* RFC 6581 9.1: more RDMA Reads than this end can take. */
/* [MPA2-9.1-09] */
static void reply__ord_above_our_ird__is_2_0_06(void **state)
{
    static const char *const behind[] = {
        "",
        "000ec140 00000001 00000000 00000000 ebd34c5f",
        "Nee*100000",
    };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct octets reply = {0};
        raw_text(&reply, NULL, REPLY "50020004 80204021");
        raw_text(&reply, NULL, behind[i]);
        connect_to_raw(2, 10000);
        raw_send(host->fd, reply.p, reply.n);
        octets_free(&reply);
        raw_hear(host->fd, NULL, "00164147 00000000 00000002 00000001 00000000 20060000 6540fb1b",
                 "the Terminate");
        raw_expect_fin(host->fd, "behind the Terminate");
        failed(IWARP_EVENT_FAILED, IWARP_FAULT_MPA_IRD_INSUFFICIENT);
    }
}

/* No memory for the private data of a good Reply. RFC 6581 9.3, also where the Request was of
 * revision 1. */
/* [MPA2-9.3-01] */
static void reply__taken_without_memory__is_2_0_05(void **state)
{
    (void)state;
    if (place_is_lwip() && alloc_fault_sees_lwip()) {
        skip(); /* it is lwIP's allocation that fails: the Reply is lost, and comes again */
    }
    for (unsigned rev = 1; rev <= 2; rev++) {
        struct octets reply = {0};
        raw_text(&reply, NULL, rev == 1 ? REPLY "40010002 6869" : REPLY "50020006 80104010 6869");
        connect_to_raw(rev, 10000);
        alloc_fault_anywhere_at(1);
        raw_send(host->fd, reply.p, reply.n);
        for (unsigned ms = 0; alloc_fault_anywhere_count() < 1; ms++) {
            assert_true(ms < RAW_PATIENCE_MS);
            progress_sleep(1000);
        }
        alloc_fault_anywhere_at(0);
        octets_free(&reply);
        raw_hear(host->fd, NULL, "00164147 00000000 00000002 00000001 00000000 20050000 C",
                 "the Terminate");
        raw_expect_fin(host->fd, "behind the Terminate");
        failed(IWARP_EVENT_FAILED, IWARP_FAULT_MPA_LOCAL);
    }
}

/* --- behind a good Reply --------------------------------------------------------------------- */

static const struct {
    const char *garbage, *answer;
    enum iwarp_fault_code fault;
} behind[] = {
    /* length 0xffff */
    {"Nff*64", "00164147 00000000 00000002 00000001 00000000 20030000 01766420",
     IWARP_FAULT_MPA_ULPDU_LEN},
    /* length 0, CRC 0 */
    {"N00*64", "00164147 00000000 00000002 00000001 00000000 20020000 7fe42585",
     IWARP_FAULT_MPA_CRC},
    /* "HTTP/1.1 200 OK" and so on: an FPDU of 18,524 octets */
    {"485454502f312e3120323030204f4b0d0a N20*20000",
     "00164147 00000000 00000002 00000001 00000000 20020000 7fe42585", IWARP_FAULT_MPA_CRC},
    /* a second Reply: length 0x4d50 */
    {REPLY "40010000 N20*20000", "00164147 00000000 00000002 00000001 00000000 20020000 7fe42585",
     IWARP_FAULT_MPA_CRC},
};

static void reply__garbage_behind_it__is_a_framing_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        struct octets reply = {0};
        raw_text(&reply, NULL, REPLY "40010000");
        raw_text(&reply, NULL, behind[i].garbage);
        connect_to_raw(1, 10000);
        raw_send(host->fd, reply.p, reply.n);
        octets_free(&reply);
        host_event(host, IWARP_EVENT_ESTABLISHED);
        raw_hear(host->fd, NULL, behind[i].answer, "the Terminate");
        raw_expect_fin(host->fd, "behind the Terminate");
        host_ended(host, behind[i].fault, HOST_RECEIVES);
        host_finish(host);
        host_check_memory(host);
        host_check_quiet(host);
    }
}

/* --- nobody there ---------------------------------------------------------------------------- */

static void connect__nobody_listens__fails_at_once(void **state)
{
    struct sockaddr_in at;

    (void)state;
    raw_close(raw_listen(&at));
    host_qp(host, HOST_RECEIVES);
    host_options(host);
    assert_int_equal(iwarp_connect(host->qp, (const struct sockaddr *)&at, sizeof at,
                                   &host->options, NULL, 0, host->eq, NULL, &host->conn),
                     IWARP_OK);
    failed(IWARP_EVENT_FAILED, IWARP_FAULT_TCP_CONNECT);
}

/* A listener that takes no more: the SYN stays without an answer. */
static void connect__no_answer_of_tcp__fails_when_the_time_is_up(void **state)
{
    struct sockaddr_in at;
    int fill[8];

    (void)state;
    int listener = raw_listen(&at);
    assert_int_equal(listen(listener, 0), 0);
    for (int i = 0; i < 8; i++) {
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        assert_true(connect(fill[i], (const struct sockaddr *)&at, sizeof at) == 0 ||
                    errno == EINPROGRESS);
    }
    progress_sleep(50000);
    host_qp(host, HOST_RECEIVES);
    host_options(host);
    host->options.connect_timeout_ms = 200;
    int64_t begun = now_ms();
    assert_int_equal(iwarp_connect(host->qp, (const struct sockaddr *)&at, sizeof at,
                                   &host->options, NULL, 0, host->eq, NULL, &host->conn),
                     IWARP_OK);
    failed(IWARP_EVENT_FAILED, IWARP_FAULT_TCP_TIMEOUT);
    assert_in_range(now_ms() - begun, 195, 200 + SLACK_MS);
    for (int i = 0; i < 8; i++) {
        close(fill[i]);
    }
    raw_close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reply__wrong__fails_without_a_further_octet),
        cmocka_unit_test(reply__no__is_told_with_its_private_data),
        cmocka_unit_test(reply__cut_anywhere_and_fin__fails_as_closed),
        cmocka_unit_test(reply__cut_and_reset__fails_as_lost),
        cmocka_unit_test(reply__cut_anywhere_and_silence__fails_when_the_time_is_up),
        cmocka_unit_test(reply__an_octet_now_and_then__does_not_get_more_time),
        cmocka_unit_test(reply__octet_by_octet__is_taken),
        cmocka_unit_test(reply__ord_above_our_ird__is_2_0_06),
        cmocka_unit_test(reply__taken_without_memory__is_2_0_05),
        cmocka_unit_test(reply__garbage_behind_it__is_a_framing_error),
        cmocka_unit_test(connect__nobody_listens__fails_at_once),
        cmocka_unit_test(connect__no_answer_of_tcp__fails_when_the_time_is_up),
    };
    return cmocka_run_group_tests_name("hostile_reply", tests, setup, teardown);
}
