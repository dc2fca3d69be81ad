/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that connects to our listener and is no good initiator: no MPA Request, a wrong one, half
 * of one, one that takes for ever, or one that vanishes. The application hears of none of them
 * before a valid Request is there, and the time that each may take is bounded.
 *
 * RFC 5044 7.1.1 and 7.1.2, RFC 6581 6 and 10.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "alloc_fault.h"
#include "place.h"
#include "progress.h"
#include "tcp_host.h"
#include "verbs/device.h"

#define REQUEST    "4d504120494420526571204672616d65"
#define REPLY      "4d504120494420526570204672616d65"
#define STARTUP_MS 2000 /* this end waits half of it for a Request */
#define HALF_MS    (STARTUP_MS / 2)
#define SLACK_MS   60000 /* of a busy machine */

static struct tcp_host *host;

static int setup(void **state)
{
    struct iwarp_conn_options o;

    (void)state;
    iwarp_conn_options_init(&o);
    o.startup_timeout_ms = STARTUP_MS;
    o.close_timeout_ms = 2 * SLACK_MS; /* nothing here ends by that */
    host = host_open(NULL, &o);
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

/* --- Requests that are none ------------------------------------------------------------------ */

static const struct {
    const char *what, *text;
} refused[] = {
    {"a Reply", REPLY "40010000"},
    {"first octet wrong", "4e504120494420526571204672616d65 40010000"},
    {"last octet of the key wrong", "4d504120494420526571204672616d64 40010000"},
    {"one wrong octet, nothing more", "00"},
    {"zeros", "N00*64"},
    {"ones", "Nff*600"},
    {"HTTP", "474554202f20485454502f312e310d0a486f73743a20612e6578616d706c650d0a0d0a"},
    {"TLS", "1603010200010001fc0303 Nab*500"},
    {"SSH", "5353482d322e302d4f70656e5353485f392e320d0a"},
    {"revision 0", REQUEST "40000000"},
    {"revision 3", REQUEST "50030004 00100008"},
    {"revision 129", REQUEST "40810000"},
    {"revision 255", REQUEST "40ff0000"},
    {"private data of 513 octets, revision 1", REQUEST "40010201 N11*513"},
    {"private data of 513 octets, revision 2", REQUEST "50020201 00100008 N11*509"},
    {"private data of 65535 octets", REQUEST "4001ffff N11*2000"},
    {"S without words", REQUEST "50020000"},
    {"S with 1 octet", REQUEST "50020001 00"},
    {"S with 3 octets", REQUEST "50020003 001000"},
};

/* Closed both ways: what is sent now is refused, not read and thrown away. */
static void expect_refusal(int fd)
{
    int64_t begun = now_ms();

    while (send(fd, "x", 1, MSG_NOSIGNAL) == 1) {
        assert_true(now_ms() - begun < SLACK_MS);
        progress_sleep(1000);
    }
}

/* [MPA-7.1.2-04] [MPA-8-05] */
static void request__wrong__is_refused_without_an_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        int64_t begun = now_ms();
        printf("# %s\n", refused[i].what);
        fflush(stdout);
        int fd = raw_connect(&host->addr);
        raw_say(fd, NULL, refused[i].text);
        raw_end(fd, refused[i].what);
        /* At once, not when the time is up. */
        assert_true(i == 0 || now_ms() - begun < SLACK_MS);
        expect_refusal(fd);
        raw_close(fd);
        host_no_event(host, 0);
        host_check_quiet(host);
    }
}

/* --- cut ------------------------------------------------------------------------------------- */

#define WHOLE     REQUEST "50020008 00100008 61626364"
#define WHOLE_LEN 28

static void request__cut_anywhere_and_fin__is_forgotten(void **state)
{
    struct octets whole = {0};

    (void)state;
    raw_text(&whole, NULL, WHOLE);
    assert_int_equal(whole.n, WHOLE_LEN);
    for (size_t n = 0; n < WHOLE_LEN; n++) {
        int fd = raw_connect(&host->addr);
        raw_send(fd, whole.p, n);
        raw_fin(fd);
        raw_expect_fin(fd, "half a Request");
        raw_close(fd);
    }
    octets_free(&whole);
    host_no_event(host, 0);
    host_check_quiet(host);
}

static void request__cut_anywhere_and_silence__ends_when_the_time_is_up(void **state)
{
    struct octets whole = {0};
    int fd[WHOLE_LEN];

    (void)state;
    raw_text(&whole, NULL, WHOLE);
    int64_t begun = now_ms();
    for (size_t n = 0; n < WHOLE_LEN; n++) {
        fd[n] = raw_connect(&host->addr);
        raw_send(fd[n], whole.p, n);
    }
    host_check_quiet(host);
    for (size_t n = 0; n < WHOLE_LEN; n++) {
        raw_expect_fin(fd[n], "half a Request");
        assert_true(now_ms() - begun >= HALF_MS - 20);
        assert_true(now_ms() - begun < HALF_MS + SLACK_MS);
        raw_close(fd[n]);
    }
    octets_free(&whole);
    host_no_event(host, 0);
    host_check_quiet(host);
}

static void request__an_octet_now_and_then__does_not_get_more_time(void **state)
{
    struct octets whole = {0};
    size_t sent = 0;

    (void)state;
    raw_text(&whole, NULL, WHOLE);
    int fd = raw_connect(&host->addr);
    int64_t begun = now_ms();
    struct pollfd p = {.fd = fd, .events = POLLIN};
    do {
        assert_true(sent < WHOLE_LEN - 1); /* it would have had the time for the whole frame */
        (void)send(fd, whole.p + sent++, 1, MSG_NOSIGNAL);
    } while (progress_poll(&p, 1, HALF_MS * 3 / 4) == 0);
    raw_end(fd, "a slow Request");
    assert_true(now_ms() - begun < HALF_MS + SLACK_MS);
    raw_close(fd);
    octets_free(&whole);
    host_no_event(host, 0);
}

/* --- valid, though it looks odd -------------------------------------------------------------- */

static const struct {
    const char *request, *reply;
    unsigned rev;
} odd[] = {
    /* reserved bits, and R, mean nothing in a Request; so does S in revision 1 */
    {REQUEST "7f010000", REPLY "40010000", 1},
    {REQUEST "5f020004 00100008", REPLY "50020004 00080010", 2},
    /* revision 2 without S: an answer without words */
    {REQUEST "40020000", REPLY "40020000", 2},
    /* B, C and D without A mean nothing */
    {REQUEST "50020004 4010c008", REPLY "50020004 00080010", 2},
    /* no automatic depths */
    {REQUEST "50020004 3fff3fff", REPLY "50020004 3fff3fff", 2},
    /* no CRC wished by the peer: our C decides */
    {REQUEST "00010000", REPLY "40010000", 1},
};

static void request__odd_but_valid__is_answered_and_works(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        host->fd = raw_connect(&host->addr);
        raw_say(host->fd, NULL, odd[i].request);
        host_accept(host, host_request(host), 1);
        raw_hear(host->fd, NULL, odd[i].reply, "the Reply");
        host_event(host, IWARP_EVENT_ESTABLISHED);
        raw_say(host->fd, NULL, /* V01 */
                "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c");
        assert_int_equal(host_completion(host).byte_len, 5);
        raw_fin(host->fd);
        raw_expect_fin(host->fd, "a close in order");
        host_ended(host, IWARP_FAULT_NONE, 0);
        host_finish(host);
    }
    host_reset_memory(host);
}

static void request__octet_by_octet__is_answered(void **state)
{
    struct octets whole = {0};
    size_t len;

    (void)state;
    raw_text(&whole, NULL, WHOLE);
    host->fd = raw_connect(&host->addr);
    raw_send_pieces(host->fd, whole.p, whole.n, 1, NULL);
    struct iwarp_conn *conn = host_request(host);
    assert_memory_equal(iwarp_conn_private_data(conn, &len), "abcd", 4);
    assert_int_equal(len, 4);
    host_accept(host, conn, 0);
    raw_hear(host->fd, NULL, REPLY "50020004 00080010", "the Reply");
    host_event(host, IWARP_EVENT_ESTABLISHED);
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "a close in order");
    host_ended(host, IWARP_FAULT_NONE, 0);
    host_finish(host);
    octets_free(&whole);
}

/*
 * Connections that are accepted together are shown in the order in which they came: programs with
 * several queue pairs know which is which by that.
 */
static void request__of_many_at_once__come_in_their_order(void **state)
{
    enum { PEERS = 16 };
    int fd[PEERS];

    (void)state;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < PEERS; i++) {
            fd[i] = raw_connect(&host->addr);
            raw_say(fd[i], NULL, REQUEST "40010000");
        }
        for (int i = 0; i < PEERS; i++) {
            struct sockaddr_storage from;
            struct sockaddr_in own;
            socklen_t len = sizeof own, from_len;
            struct iwarp_conn *conn = host_request(host);
            assert_int_equal(iwarp_conn_peer_addr(conn, &from, &from_len), IWARP_OK);
            assert_int_equal(getsockname(fd[i], (struct sockaddr *)&own, &len), 0);
            assert_int_equal(((struct sockaddr_in *)&from)->sin_port, own.sin_port);
            assert_int_equal(iwarp_reject(conn, NULL, 0), IWARP_OK);
            raw_hear(fd[i], NULL, REPLY "60010000", "the Reply");
            raw_close(fd[i]);
            assert_int_equal(iwarp_conn_destroy(conn), IWARP_OK);
        }
    }
    host_check_quiet(host);
}

/* --- between Request and Reply --------------------------------------------------------------- */

static void rejected(const char *more)
{
    static const uint8_t why[] = {0x00, 0x01};

    int fd = raw_connect(&host->addr);
    raw_say(fd, NULL, REQUEST "40010000");
    struct iwarp_conn *conn = host_request(host);
    raw_say(fd, NULL, more);
    assert_int_equal(iwarp_reject(conn, why, sizeof why), IWARP_OK);
    raw_hear(fd, NULL, REPLY "60010002 0001", "the Reply"); /* M04 */
    raw_expect_fin(fd, "behind the Reply that says no");
    raw_close(fd);
    assert_int_equal(iwarp_conn_destroy(conn), IWARP_OK);
    host_no_event(host, 0);
    host_check_quiet(host);
}

static void request__rejected__gets_the_reply_and_fin(void **state)
{
    (void)state;
    rejected("");
}

static void request__rejected_with_octets_behind_it__still_gets_the_reply(void **state)
{
    (void)state;
    rejected("000ec140 00000001 00000000 00000000 ebd34c5f Nee*5000");
}

/* What remains of a rejected connection while the application keeps its handle. */
static void wait_for_no_startup(const struct tcp_host *h)
{
    int64_t begun = now_ms();

    while (atomic_load(&h->device->startups.count) > 0) {
        assert_true(now_ms() - begun < SLACK_MS);
        progress_sleep(1000);
    }
}

/* The peer's Request is rejected, and the peer has read that. */
static struct iwarp_conn *reject_peer(struct tcp_host *h, int fd)
{
    raw_say(fd, NULL, REQUEST "40010000");
    struct iwarp_conn *conn = host_request(h);
    assert_int_equal(iwarp_reject(conn, NULL, 0), IWARP_OK);
    raw_hear(fd, NULL, REPLY "60010000", "the Reply");
    raw_expect_fin(fd, "behind the Reply that says no");
    return conn;
}

/* The endpoint goes when the peer has closed: long before the time is up. */
static void request__rejected_and_the_peer_closes__leaves_no_endpoint(void **state)
{
    (void)state;
    for (int reset = 0; reset < 2; reset++) {
        int fd = raw_connect(&host->addr);
        struct iwarp_conn *conn = reject_peer(host, fd);
        assert_int_equal(atomic_load(&host->device->startups.count), 1);
        if (reset) {
            raw_reset(fd);
        } else {
            raw_close(fd);
        }
        wait_for_no_startup(host);
        assert_int_equal(iwarp_conn_destroy(conn), IWARP_OK);
    }
    host_check_quiet(host);
}

/* A peer that reads the no and stays keeps nothing of this end for longer than that. */
static void request__rejected_and_the_peer_stays__is_closed_when_the_time_is_up(void **state)
{
    struct iwarp_conn_options o;

    (void)state;
    iwarp_conn_options_init(&o);
    o.close_timeout_ms = 300;
    struct tcp_host *h = host_open(NULL, &o);
    int fd = raw_connect(&h->addr);
    struct iwarp_conn *conn = reject_peer(h, fd);
    wait_for_no_startup(h);
    expect_refusal(fd);
    raw_close(fd);
    assert_int_equal(iwarp_conn_destroy(conn), IWARP_OK);
    host_close(h);
}

/* Nor is there room for ever more such peers: the oldest goes before its time is up. */
static void request__rejected_and_many_peers_stay__are_bounded_by_max_half_open(void **state)
{
    enum { MOST = 2 };
    struct iwarp_device_options device;
    struct iwarp_conn_options o;
    struct iwarp_conn *conn[MOST + 1];
    int fd[MOST + 1];

    (void)state;
    iwarp_device_options_init(&device);
    device.max_half_open = MOST;
    iwarp_conn_options_init(&o);
    o.close_timeout_ms = 2 * SLACK_MS;
    struct tcp_host *h = host_open(&device, &o);
    for (int i = 0; i <= MOST; i++) {
        fd[i] = raw_connect(&h->addr);
        conn[i] = reject_peer(h, fd[i]);
    }
    expect_refusal(fd[0]);
    assert_int_equal(atomic_load(&h->device->startups.count), MOST);
    for (int i = 0; i <= MOST; i++) {
        raw_close(fd[i]);
        assert_int_equal(iwarp_conn_destroy(conn[i]), IWARP_OK);
    }
    host_close(h);
}

/*
 * A Request whose private data cannot be kept is not shown without them: the peer gets a no. A
 * Terminate could only come behind a yes and the peer's first FPDU (RFC 5044 7.1.2 rule 4).
 */
/* [MPA2-9.3-01] */
static void request__arriving_without_memory__gets_the_reply_that_says_no(void **state)
{
    struct octets request = {0};

    (void)state;
    if (place_is_lwip() && alloc_fault_sees_lwip()) {
        skip(); /* the first allocation is a packet buffer of lwIP */
    }
    raw_text(&request, NULL, REQUEST "40010003 616263");
    int fd = raw_connect(&host->addr);
    raw_send(fd, request.p, request.n - 1);
    host_no_event(host, 50); /* the connection is there */
    alloc_fault_anywhere_at(1);
    raw_send(fd, request.p + request.n - 1, 1);
    for (unsigned ms = 0; alloc_fault_anywhere_count() < 1; ms++) {
        assert_true(ms < RAW_PATIENCE_MS);
        progress_sleep(1000);
    }
    alloc_fault_anywhere_at(0);
    octets_free(&request);
    raw_hear(fd, NULL, REPLY "60010000", "the Reply");
    raw_expect_fin(fd, "behind the Reply that says no");
    raw_close(fd);
    host_no_event(host, 0);
    host_check_quiet(host);
}

/* Who has nothing more to say could not use the connection: a responder waits for its first FPDU.
 */
static void gone(void (*end)(int fd), enum iwarp_fault_code code)
{
    int fd = raw_connect(&host->addr);

    raw_say(fd, NULL, REQUEST "40010000");
    struct iwarp_conn *conn = host_request(host);
    assert_int_equal(iwarp_conn_wait_end(conn, 0), IWARP_AGAIN);
    end(fd);
    assert_int_equal(iwarp_conn_wait_end(conn, RAW_PATIENCE_MS), IWARP_OK);
    host_check_fault(iwarp_conn_fault(conn), code);
    host_qp(host, 0);
    assert_int_equal(iwarp_accept(conn, host->qp, NULL, NULL, 0, NULL), IWARP_CLOSED);
    assert_int_equal(iwarp_qp_state(host->qp), IWARP_QP_IDLE);
    assert_int_equal(iwarp_reject(conn, NULL, 0), IWARP_CLOSED);
    host_no_event(host, 0);
    assert_int_equal(iwarp_conn_destroy(conn), IWARP_OK);
    assert_int_equal(iwarp_qp_destroy(host->qp), IWARP_OK);
    host->qp = NULL;
    if (end == raw_fin) {
        raw_end(fd, "a connection that ended before its answer");
        raw_close(fd);
    }
    host_check_quiet(host);
}

static void request__followed_by_fin__is_not_there_any_more(void **state)
{
    (void)state;
    gone(raw_fin, IWARP_FAULT_MPA_GONE);
}

static void request__followed_by_a_reset__is_not_there_any_more(void **state)
{
    (void)state;
    gone(raw_reset, IWARP_FAULT_TCP_LOST);
}

/* [MPA-7.1-01] */
static void request__followed_by_fpdus__are_taken_after_the_answer(void **state)
{
    (void)state;
    host->fd = raw_connect(&host->addr);
    raw_say(host->fd, &host->names,
            REQUEST "40010000 |"
                    "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c |"
                    "0012c140 W T cafebabe C");
    struct iwarp_conn *conn = host_request(host);
    host_no_event(host, 50);
    host_check_memory(host);
    host_accept(host, conn, 1);
    raw_hear(host->fd, NULL, REPLY "40010000", "the Reply");
    host_event(host, IWARP_EVENT_ESTABLISHED);
    assert_int_equal(host_completion(host).byte_len, 5);
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "a close in order");
    host_ended(host, IWARP_FAULT_NONE, 0);
    assert_memory_equal(host->w.p, "\xca\xfe\xba\xbe", 4);
    host_finish(host);
    host_reset_memory(host);
}

/* R and C, no words in revision 1; as the Request otherwise. */
static void request__never_answered__is_declined_with_its_handle(void **state)
{
    static const char *const pairs[][2] = {
        {REQUEST "40010000", REPLY "60010000"},
        {REQUEST "50020004 80204020", REPLY "70020004 80204020"},
    };

    (void)state;
    for (int i = 0; i < 4; i++) {
        int fd = raw_connect(&host->addr);
        raw_say(fd, NULL, pairs[i % 2][0]);
        struct iwarp_conn *conn = host_request(host);
        if (i == 0) {
            raw_expect_silence(fd, HALF_MS + 200, "a Request without an answer");
        }
        if (i >= 2) {
            assert_int_equal(iwarp_disconnect(conn), IWARP_OK);
            assert_int_equal(iwarp_conn_wait_end(conn, 0), IWARP_OK);
            host_check_fault(iwarp_conn_fault(conn), IWARP_FAULT_LOCAL_ABORT);
        }
        assert_int_equal(iwarp_conn_destroy(conn), IWARP_OK);
        raw_hear(fd, NULL, pairs[i % 2][1], "a Request whose handle is gone");
        raw_expect_fin(fd, "behind the Reply");
        raw_close(fd);
        host_no_event(host, 0);
    }
}

/* [MPA-7.1.2-20] for the application's part of it. */
static void request__unanswered_for_too_long__is_declined(void **state)
{
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = place_of_device()};
    struct iwarp_conn_options o = host->options;
    struct iwarp_listener *listener;
    struct sockaddr_storage at;
    struct sockaddr_in to;
    socklen_t len;

    (void)state;
    o.accept_timeout_ms = 300;
    assert_int_equal(iwarp_listen(host->device, (const struct sockaddr *)&any, sizeof any, &o, 8,
                                  host->eq, NULL, &listener),
                     IWARP_OK);
    assert_int_equal(iwarp_listener_addr(listener, &at, &len), IWARP_OK);
    memcpy(&to, &at, sizeof to);
    int64_t begun = now_ms();
    int fd = raw_connect(&to);
    raw_say(fd, NULL, REQUEST "50020004 80204020");
    struct iwarp_conn *conn = host_event(host, IWARP_EVENT_REQUEST).conn;
    raw_hear(fd, NULL, REPLY "70020004 80204020", "a Request without an answer");
    assert_true(now_ms() - begun >= 295);
    raw_expect_fin(fd, "behind the Reply");
    raw_close(fd);
    assert_int_equal(iwarp_conn_wait_end(conn, RAW_PATIENCE_MS), IWARP_OK);
    host_check_fault(iwarp_conn_fault(conn), IWARP_FAULT_MPA_UNANSWERED);
    assert_int_equal(iwarp_reject(conn, NULL, 0), IWARP_CLOSED);
    assert_int_equal(iwarp_conn_destroy(conn), IWARP_OK);
    assert_int_equal(iwarp_listener_close(listener), IWARP_OK);
    host_no_event(host, 0);
}

/* --- the first FPDU -------------------------------------------------------------------------- */

/* [MPA-7.1.2-14] */
static void responder__before_the_first_fpdu__sends_nothing(void **state)
{
    (void)state;
    host_options(host);
    host_connect(host, HOST_RESPONDER, 2, 0);
    memcpy(host->r.p, "hello", 5);
    host_post(host, IWARP_WR_SEND, 300, 5);
    raw_expect_silence(host->fd, 150, "a responder before the first FPDU");
    raw_say(host->fd, NULL, "000ec140 00000001 00000000 00000000 ebd34c5f"); /* V24 */
    raw_hear(host->fd, NULL,                                                 /* V01 */
             "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c",
             "the Send that waited");
    assert_int_equal(host_completion(host).wr_id, 300);
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "a close in order");
    host_ended(host, IWARP_FAULT_NONE, 0);
    host_finish(host);
    host_reset_memory(host);
}

/* RFC 5044 7.1.2 (4) forbids the Terminate: no FPDU was validated. */
static void responder__first_fpdu_damaged__resets_without_an_octet(void **state)
{
    static const char *const damaged[] = {
        "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10d",
        "0012c140 W T deadbeef 00000000",
        "fd010000 N00*40",
    };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        host_connect(host, HOST_RESPONDER, 1, HOST_RECEIVES);
        raw_say(host->fd, &host->names, damaged[i]);
        assert_int_equal(raw_end(host->fd, "a damaged first FPDU"), RAW_RESET);
        host_ended(host, i < 2 ? IWARP_FAULT_MPA_CRC : IWARP_FAULT_MPA_ULPDU_LEN, HOST_RECEIVES);
        host_finish(host);
        host_check_memory(host);
        host_check_quiet(host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request__wrong__is_refused_without_an_answer),
        cmocka_unit_test(request__cut_anywhere_and_fin__is_forgotten),
        cmocka_unit_test(request__cut_anywhere_and_silence__ends_when_the_time_is_up),
        cmocka_unit_test(request__an_octet_now_and_then__does_not_get_more_time),
        cmocka_unit_test(request__odd_but_valid__is_answered_and_works),
        cmocka_unit_test(request__octet_by_octet__is_answered),
        cmocka_unit_test(request__of_many_at_once__come_in_their_order),
        cmocka_unit_test(request__rejected__gets_the_reply_and_fin),
        cmocka_unit_test(request__rejected_with_octets_behind_it__still_gets_the_reply),
        cmocka_unit_test(request__rejected_and_the_peer_closes__leaves_no_endpoint),
        cmocka_unit_test(request__rejected_and_the_peer_stays__is_closed_when_the_time_is_up),
        cmocka_unit_test(request__rejected_and_many_peers_stay__are_bounded_by_max_half_open),
        cmocka_unit_test(request__arriving_without_memory__gets_the_reply_that_says_no),
        cmocka_unit_test(request__followed_by_fin__is_not_there_any_more),
        cmocka_unit_test(request__followed_by_fpdus__are_taken_after_the_answer),
        cmocka_unit_test(request__followed_by_a_reset__is_not_there_any_more),
        cmocka_unit_test(request__never_answered__is_declined_with_its_handle),
        cmocka_unit_test(request__unanswered_for_too_long__is_declined),
        cmocka_unit_test(responder__before_the_first_fpdu__sends_nothing),
        cmocka_unit_test(responder__first_fpdu_damaged__resets_without_an_octet),
    };
    return cmocka_run_group_tests_name("hostile_request", tests, setup, teardown);
}
