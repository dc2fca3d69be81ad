/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that the application has connected and used already become connections, as initiator and
 * as responder: octets that it had read count, a start-up that comes to nothing gives the open
 * socket back, and no octet behind a frame is lost or eaten. The other end is a raw socket.
 *
 * RFC 5044 7.1, 7.1.1 and 7.1.2 (2, 3, 5, 6, 9).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "progress.h"
#include "tcp_host.h"

#define REQUEST "4d504120494420526571204672616d65"
#define REPLY   "4d504120494420526570204672616d65"
#define V24     "000ec140 00000001 00000000 00000000 ebd34c5f"
#define HELLO   "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c"

static struct tcp_host *host;
static int ours; /* the application's end; raw is host->fd */

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

/* Options that a program may have set, with which nothing short would come or go. */
static const int lowat = 4096, cork = 1;
static const struct linger lingers = {1, 5};

static void set_options(int fd, int low, int corked, const struct linger *linger)
{
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &corked, sizeof corked), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, linger, sizeof *linger), 0);
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;

    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

/* Both ends of a connection on which a few words were exchanged, in blocking mode, without
 * no-delay. */
static void connect_plain(void)
{
    struct sockaddr_in at;
    int listener = raw_listen(&at);

    ours = raw_connect(&at);
    host->fd = raw_accept(listener);
    raw_close(listener);
    raw_send(ours, "HELLO\n", 6);
    raw_hear(host->fd, NULL, "48454c4c4f0a", "the application's own protocol");
    raw_send(host->fd, "GO\n", 3);
    raw_hear(ours, NULL, "474f0a", "its answer");
    const int off = 0, idle = 77;
    assert_int_equal(setsockopt(ours, IPPROTO_TCP, TCP_NODELAY, &off, sizeof off), 0);
    assert_int_equal(setsockopt(ours, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle), 0);
    set_options(ours, lowat, cork, &lingers);
    assert_int_equal(fcntl(ours, F_GETFL) & O_NONBLOCK, 0);
    host_options(host);
}

/* Its options and flags are those of connect_plain; they are set so that few octets come and go. */
static void is_as_it_was(int fd)
{
    const struct linger at_once = {0, 0};
    struct linger linger = {0, 0};
    socklen_t len = sizeof linger;

    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 77);
    assert_int_equal(option(fd, SOL_SOCKET, SO_RCVLOWAT), lowat);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_CORK), cork);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len), 0);
    assert_memory_equal(&linger, &lingers, sizeof linger);
    set_options(fd, 1, 0, &at_once);
}

static void connect_socket(void)
{
    host_qp(host, HOST_RECEIVES);
    assert_int_equal(iwarp_connect_socket(host->qp, ours, NULL, 0, &host->options, "hi", 2,
                                          host->eq, NULL, &host->conn),
                     IWARP_OK);
}

/* The application hands in the first `early` of the octets in hex, and the peer sends the rest. */
static void accept_socket(const char *hex, size_t early)
{
    struct octets o = {0};

    raw_text(&o, &host->names, hex);
    early = early < o.n ? early : o.n;
    assert_int_equal(iwarp_accept_socket(host->device, ours, o.p, early, &host->options, host->eq,
                                         host, &host->conn),
                     IWARP_OK);
    if (o.n > early) {
        raw_send(host->fd, o.p + early, o.n - early);
    }
    octets_free(&o);
}

static struct iwarp_conn *requested(void)
{
    struct iwarp_event e = host_event(host, IWARP_EVENT_REQUEST);

    assert_ptr_equal(e.conn, host->conn);
    assert_null(e.listener);
    assert_ptr_equal(e.user, host);
    return e.conn;
}

/* It comes back as it was, with these octets before those that are still in it. */
static void take_back(const char *octets)
{
    char got[200];
    size_t n = 0;
    int fd = -1;

    if (strlen(octets) > 0) {
        assert_int_equal(iwarp_conn_take_socket(host->conn, &fd, got, strlen(octets) - 1, &n),
                         IWARP_MISUSE);
    }
    assert_int_equal(iwarp_conn_take_socket(host->conn, &fd, got, sizeof got, &n), IWARP_OK);
    assert_int_equal(fd, ours);
    assert_int_equal(n, strlen(octets));
    assert_memory_equal(got, octets, n);
    is_as_it_was(fd);
    assert_int_equal(iwarp_conn_take_socket(host->conn, &fd, got, sizeof got, &n), IWARP_CLOSED);
}

/* Both directions of the socket still work; nothing but `rest` is in it. */
static void still_open(const char *rest)
{
    char got[100];

    raw_send(host->fd, "BYE\n", 4);
    raw_read(ours, got, strlen(rest) + 4, "what was behind the frame");
    assert_memory_equal(got, rest, strlen(rest));
    assert_memory_equal(got + strlen(rest), "BYE\n", 4);
    raw_send(ours, "OK\n", 3);
    raw_hear(host->fd, NULL, "4f4b0a", "the application's protocol again");
    raw_close(ours);
    raw_expect_fin(host->fd, "closed by the application");
    host_finish(host);
    host_check_quiet(host);
}

/* --- connections ----------------------------------------------------------------------------- */

static void adopt__as_initiator__is_a_connection(void **state)
{
    struct sockaddr_storage addr;
    struct sockaddr_in own;
    struct linger linger;
    socklen_t len, own_len = sizeof own, linger_len = sizeof linger;

    (void)state;
    connect_plain();
    assert_int_equal(getsockname(ours, (struct sockaddr *)&own, &own_len), 0);
    connect_socket();
    raw_hear(host->fd, NULL, REQUEST "50020006 00200020 6869", "the Request");
    assert_int_equal(getsockopt(ours, SOL_SOCKET, SO_LINGER, &linger, &linger_len), 0);
    assert_int_equal(linger.l_onoff, 0);
    raw_say(host->fd, NULL, REPLY "50020004 00100010 |" HELLO); /* siw may be that early */
    host_event(host, IWARP_EVENT_ESTABLISHED);
    assert_int_equal(host_completion(host).byte_len, 5);
    assert_int_equal(iwarp_conn_local_addr(host->conn, &addr, &len), IWARP_OK);
    assert_memory_equal(&addr, &own, sizeof own);
    memcpy(host->r.p, "hello", 5);
    host_post(host, IWARP_WR_SEND, 300, 5);
    raw_hear(host->fd, NULL, HELLO, "a Send");
    assert_int_equal(host_completion(host).wr_id, 300);
    char buf[8];
    size_t n;
    assert_int_equal(iwarp_conn_take_socket(host->conn, &ours, buf, sizeof buf, &n), IWARP_CLOSED);
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "a close in order");
    host_ended(host, IWARP_FAULT_NONE, 1);
    host_finish(host);
    host_reset_memory(host);
}

/* The application, or a child of it, may have a duplicate, with which close alone sends nothing. */
static void adopt__aborted_while_a_duplicate_is_open__resets(void **state)
{
    struct pollfd p = {.events = POLLIN};
    char c;

    (void)state;
    connect_plain();
    const int other = dup(ours);
    assert_true(other >= 0);
    connect_socket();
    raw_hear(host->fd, NULL, REQUEST "50020006 00200020 6869", "the Request");
    raw_say(host->fd, NULL, REPLY "50020004 00100010");
    host_event(host, IWARP_EVENT_ESTABLISHED);
    assert_int_equal(iwarp_abort(host->conn), IWARP_OK);
    p.fd = host->fd;
    assert_int_equal(poll(&p, 1, RAW_PATIENCE_MS), 1);
    while (recv(host->fd, &c, 1, MSG_DONTWAIT) > 0) {
    }
    assert_int_equal(errno, ECONNRESET);
    close(other);
    host_finish(host);
    host_reset_memory(host);
}

/* Wherever the application stopped reading: before the Request, in it, behind it, in an FPDU. */
static void adopt__as_responder_with_octets_read_before__loses_none(void **state)
{
    static const char *const requests[] = {REQUEST "40010003 616263",
                                           REQUEST "50020007 80204020 616263"};
    static const char *const replies[] = {REPLY "40010000", REPLY "50020004 80204020"};

    (void)state;
    for (size_t i = 0; i < 2 * 80; i += i < 60 ? 1 : 7) {
        char text[400];
        size_t len;
        snprintf(text, sizeof text, "%s | %s | %s", requests[i % 2], V24, HELLO);
        connect_plain();
        accept_socket(text, i / 2);
        struct iwarp_conn *conn = requested();
        assert_memory_equal(iwarp_conn_private_data(conn, &len), "abc", 3);
        assert_int_equal(len, 3);
        host_accept(host, conn, 1);
        raw_hear(host->fd, NULL, replies[i % 2], "the Reply");
        host_event(host, IWARP_EVENT_ESTABLISHED);
        assert_int_equal(host_completion(host).byte_len, 5);
        assert_memory_equal(host->l.p, "hello", 5);
        memset(host->l.p, 0, 5);
        raw_fin(host->fd);
        raw_expect_fin(host->fd, "a close in order");
        host_ended(host, IWARP_FAULT_NONE, 0);
        host_finish(host);
    }
    host_check_quiet(host);
    host_reset_memory(host);
}

/* More than any buffer of ours, all read before: a Write of 4096 octets in small FPDUs. */
static void adopt__with_much_read_before__places_it(void **state)
{
    struct octets o = {0};

    (void)state;
    for (int early = 0; early < 2; early++) {
        o.n = 0;
        raw_text(&o, NULL, REQUEST "40010000");
        for (unsigned at = 0; at < HOST_AREA; at += 8) {
            char text[100];
            snprintf(text, sizeof text, "| 0016%s40 W T+%x N55*8 C",
                     at + 8 == HOST_AREA ? "c1" : "81", at);
            raw_text(&o, &host->names, text);
        }
        connect_plain();
        host->options.placement = early ? IWARP_PLACE_EARLY : IWARP_PLACE_VERIFIED;
        assert_int_equal(iwarp_accept_socket(host->device, ours, o.p, o.n, &host->options, host->eq,
                                             host, &host->conn),
                         IWARP_OK);
        host_accept(host, requested(), 0);
        raw_hear(host->fd, NULL, REPLY "40010000", "the Reply");
        host_event(host, IWARP_EVENT_ESTABLISHED);
        raw_say(host->fd, NULL, V24);
        raw_fin(host->fd);
        raw_expect_fin(host->fd, "a close in order");
        host_ended(host, IWARP_FAULT_NONE, 0);
        for (unsigned i = 0; i < HOST_AREA; i++) {
            assert_int_equal(host->w.p[i], 0x55);
        }
        host_finish(host);
        host_reset_memory(host);
    }
    octets_free(&o);
}

/* --- no connection --------------------------------------------------------------------------- */

/* [MPA-7.1.2-12] */
static void adopt__rejected_by_the_peer__gives_the_socket_back(void **state)
{
    size_t len;

    (void)state;
    for (int i = 0; i < 2; i++) {
        connect_plain();
        host->options.mpa_rev = i ? 2 : 1;
        connect_socket();
        raw_hear(host->fd, NULL, i ? REQUEST "50020006 00200020 6869" : REQUEST "40010002 6869",
                 "the Request");
        int fd;
        assert_int_equal(iwarp_conn_take_socket(host->conn, &fd, NULL, 0, &len), IWARP_AGAIN);
        raw_say(host->fd, NULL,
                i ? REPLY "70020006 00080020 6e6f 5245535421" : REPLY "60010002 6e6f 5245535421");
        struct iwarp_event e = host_event(host, IWARP_EVENT_REJECTED);
        host_check_fault(e.fault, IWARP_FAULT_MPA_REJECTED);
        assert_memory_equal(iwarp_conn_private_data(host->conn, &len), "no", 2);
        for (int k = 0; k < HOST_RECEIVES; k++) {
            assert_int_equal(host_completion(host).status, IWARP_WC_FLUSHED);
        }
        take_back("");
        still_open("REST!");
    }
}

/* [MPA-7.1.2-07] */
static void adopt__rejected_here__gives_the_socket_back(void **state)
{
    (void)state;
    for (size_t early = 0; early < 27; early++) {
        connect_plain();
        accept_socket(REQUEST "40010000 5245535421", early);
        assert_int_equal(iwarp_reject(requested(), "no", 2), IWARP_OK);
        raw_hear(host->fd, NULL, REPLY "60010002 6e6f", "the Reply");
        size_t handed_in = early < 20 ? 0 : early - 20; /* of what is behind the Request */
        handed_in = handed_in < 5 ? handed_in : 5;
        char octets[6] = "";
        memcpy(octets, "REST!", handed_in);
        take_back(octets);
        still_open(&"REST!"[handed_in]);
    }
}

/* Half a frame, and no more: it may be something else than MPA. */
static void adopt__timed_out__gives_back_what_came(void **state)
{
    (void)state;
    for (size_t early = 0; early < 3; early++) {
        connect_plain();
        host->options.startup_timeout_ms = 400;
        accept_socket("4d504120494420526571", early * 5);
        struct iwarp_event e = host_event(host, IWARP_EVENT_FAILED);
        host_check_fault(e.fault, IWARP_FAULT_MPA_TIMEOUT);
        take_back("MPA ID Req");
        still_open("");
    }
}

static void adopt__unanswered_request__is_declined_and_given_back(void **state)
{
    (void)state;
    connect_plain();
    host->options.accept_timeout_ms = 100;
    accept_socket(REQUEST "40010000 5245535421", 22);
    struct iwarp_conn *conn = requested();
    assert_int_equal(iwarp_conn_wait_end(conn, RAW_PATIENCE_MS), IWARP_OK);
    raw_hear(host->fd, NULL, REPLY "60010000", "the Reply");
    take_back("RE");
    still_open("ST!");
}

/* RFC 5044 7.1.1: what is no MPA frame, or none of this end, has TCP closed. */
static void adopt__meets_something_else__closes(void **state)
{
    static const char *const wrong[] = {"474f2041574159", REPLY "40010000", REQUEST "40030000"};
    size_t n;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        connect_plain();
        accept_socket(wrong[i], i == 0 ? 7 : 0);
        host_event(host, IWARP_EVENT_FAILED);
        raw_end(host->fd, "no MPA frame");
        assert_int_equal(iwarp_conn_take_socket(host->conn, &ours, NULL, 0, &n), IWARP_CLOSED);
        host_finish(host);
    }
}

static void adopt__not_taken_back__is_closed_with_the_handle(void **state)
{
    (void)state;
    connect_plain();
    accept_socket(REQUEST "40010000 5245535421", 0);
    assert_int_equal(iwarp_reject(requested(), NULL, 0), IWARP_OK);
    raw_hear(host->fd, NULL, REPLY "60010000", "the Reply");
    raw_expect_silence(host->fd, 50, "a socket that may be taken back");
    assert_int_equal(iwarp_conn_destroy(host->conn), IWARP_OK);
    host->conn = NULL;
    raw_end(host->fd, "a socket that nobody took");
    host_finish(host);
}

/* --- misuse ---------------------------------------------------------------------------------- */

static void refused(int fd, enum iwarp_status status, const char *says)
{
    struct iwarp_conn *conn = NULL;

    assert_int_equal(
        iwarp_connect_socket(host->qp, fd, NULL, 0, NULL, NULL, 0, host->eq, NULL, &conn), status);
    assert_non_null(strstr(iwarp_last_error(), says));
    assert_int_equal(iwarp_accept_socket(host->device, fd, NULL, 0, NULL, host->eq, NULL, &conn),
                     status);
    assert_non_null(strstr(iwarp_last_error(), says));
    assert_null(conn);
}

static void adopt__what_is_no_connected_tcp_socket__is_misuse(void **state)
{
    struct sockaddr_in at;
    int ends[2];

    (void)state;
    host_qp(host, 0);
    refused(-1, IWARP_MISUSE, "Bad file descriptor");
    assert_int_equal(pipe(ends), 0);
    refused(ends[0], IWARP_MISUSE, "descriptor");
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    refused(ends[0], IWARP_MISUSE, "not a TCP socket");
    close(ends[0]);
    close(ends[1]);
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    refused(udp, IWARP_MISUSE, "not a TCP socket");
    close(udp);
    int listener = raw_listen(&at);
    refused(listener, IWARP_MISUSE, "not connected");
    raw_close(listener);
    struct iwarp_conn *conn = NULL;
    connect_plain();
    assert_int_equal(iwarp_accept_socket(host->device, ours, NULL, 5, NULL, host->eq, NULL, &conn),
                     IWARP_MISUSE);
    assert_int_equal(iwarp_accept_socket(host->device, ours, NULL, 0, NULL, NULL, NULL, &conn),
                     IWARP_MISUSE);
    assert_int_equal(
        iwarp_connect_socket(host->qp, ours, NULL, 0, NULL, NULL, 3, host->eq, NULL, &conn),
        IWARP_MISUSE);
    assert_int_equal(iwarp_conn_take_socket(host->quiet_conn[0], &udp, NULL, 0, &(size_t){0}),
                     IWARP_MISUSE);
    is_as_it_was(ours);
    still_open("");
}

/* One of them would close what the other is using, or somebody else's descriptor. */
static void adopt__a_second_time__is_misuse(void **state)
{
    (void)state;
    host_qp(host, 0);
    connect_plain();
    accept_socket("", 0);
    refused(ours, IWARP_MISUSE, "library's already");
    raw_send(host->fd, "GO AWAY", 7); /* the first one goes on as if nothing had been tried */
    host_check_fault(host_event(host, IWARP_EVENT_FAILED).fault, IWARP_FAULT_MPA_KEY);
    raw_end(host->fd, "no MPA frame");
    host_finish(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adopt__as_initiator__is_a_connection),
        cmocka_unit_test(adopt__aborted_while_a_duplicate_is_open__resets),
        cmocka_unit_test(adopt__as_responder_with_octets_read_before__loses_none),
        cmocka_unit_test(adopt__with_much_read_before__places_it),
        cmocka_unit_test(adopt__rejected_by_the_peer__gives_the_socket_back),
        cmocka_unit_test(adopt__rejected_here__gives_the_socket_back),
        cmocka_unit_test(adopt__timed_out__gives_back_what_came),
        cmocka_unit_test(adopt__unanswered_request__is_declined_and_given_back),
        cmocka_unit_test(adopt__meets_something_else__closes),
        cmocka_unit_test(adopt__not_taken_back__is_closed_with_the_handle),
        cmocka_unit_test(adopt__what_is_no_connected_tcp_socket__is_misuse),
        cmocka_unit_test(adopt__a_second_time__is_misuse),
    };
    return cmocka_run_group_tests_name("socket_adopt", tests, setup, teardown);
}
