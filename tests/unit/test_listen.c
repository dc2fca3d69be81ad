/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listeners: what they refuse, requests that nobody has taken, peers that never finish their
 * Request, and how many start-ups run at a time.
 */
#include "loop/clock.h"
#include "octets.h"
#include "raw_peer.h"
#include "verbs/conn.h"
#include "verbs/device.h"
#include "verbs/eq.h"
#include "verbs/listen.h"
#include "verbs_pair.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

/* An MPA Request of revision 1, CRC wanted, no private data. */
static const char request[] = "MPA ID Req Frame\x40\x01\x00\x00";
#define REQUEST_LEN 20

static void prepare(struct pair *p, unsigned max_half_open, unsigned startup_ms)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_TCP4);
    o.memory = 64;
    o.device.max_half_open = max_half_open;
    o.conn[1].startup_timeout_ms = startup_ms;
    pair_prepare(p, &o);
}

static struct sockaddr_in address(const struct pair *p)
{
    struct sockaddr_storage addr;
    struct sockaddr_in in;
    socklen_t len;

    must(iwarp_listener_addr(p->listener, &addr, &len));
    assert_int_equal(len, sizeof in);
    memcpy(&in, &addr, sizeof in);
    return in;
}

static void no_event(struct iwarp_eq *eq, int ms)
{
    struct iwarp_event event;

    must_fail(iwarp_eq_get(eq, &event, ms), IWARP_AGAIN, "no event");
}

/* Until nothing is left of connections that nobody knows. */
static void wait_for_none(const struct pair *p)
{
    int64_t end = iwarp_now_ms() + PAIR_WAIT_MS;
    unsigned left = 1;

    while (left > 0 && iwarp_now_ms() < end) {
        iwarp_mutex_lock(&p->device->lock);
        left = p->device->conn_count;
        iwarp_mutex_unlock(&p->device->lock);
        usleep(1000);
    }
    assert_int_equal(left, 0);
    assert_int_equal(atomic_load(&p->device->startups.count), 0);
}

/* The other end closes or resets, and says nothing. */
static void expect_closed(int fd)
{
    char octet;

    assert_true(recv(fd, &octet, 1, 0) <= 0);
    close(fd);
}

/* A Reply that says no, then the end. */
static void expect_declined(int fd)
{
    uint8_t reply[20];

    raw_read(fd, reply, sizeof reply, "Reply");
    assert_memory_equal(reply, "MPA ID Rep Frame", 16);
    assert_int_equal(reply[16] & 0x20, 0x20);
    expect_closed(fd);
}

static void listen__with_wrong_arguments__says_why(void **state)
{
    const struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "x"};
    struct iwarp_listener *l = NULL;
    struct iwarp_conn_options o;
    struct pair p, other;

    (void)state;
    prepare(&p, 16, 1000);
    prepare(&other, 16, 1000);
    struct sockaddr_in in = address(&p);
    const struct sockaddr *addr = (struct sockaddr *)&in;
    iwarp_conn_options_init(&o);
    must_fail(iwarp_listen(p.device, addr, sizeof in, &o, 8, p.eq[0], NULL, &l), IWARP_TRANSPORT,
              strerror(EADDRINUSE));
    must_fail(iwarp_listen(p.device, addr, sizeof in, &o, 8, NULL, NULL, &l), IWARP_MISUSE,
              "event queue");
    must_fail(iwarp_listen(p.device, addr, sizeof in, &o, 8, other.eq[0], NULL, &l), IWARP_MISUSE,
              "event queue");
    must_fail(
        iwarp_listen(p.device, (const struct sockaddr *)&un, sizeof un, &o, 8, p.eq[0], NULL, &l),
        IWARP_MISUSE, "family 1");
    must_fail(iwarp_listen(p.device, addr, 3, &o, 8, p.eq[0], NULL, &l), IWARP_MISUSE,
              "3 octets, AF_INET has 16");
    must_fail(iwarp_listen(p.device, NULL, sizeof in, &o, 8, p.eq[0], NULL, &l), IWARP_MISUSE,
              "addr is NULL");
    must_fail(iwarp_listen(NULL, addr, sizeof in, &o, 8, p.eq[0], NULL, &l), IWARP_MISUSE,
              "device is NULL");
    must_fail(iwarp_listen(p.device, addr, sizeof in, &o, 8, p.eq[0], NULL, NULL), IWARP_MISUSE,
              "place for the listener is NULL");
    for (int backlog = -1; backlog < 1; backlog++) {
        must_fail(iwarp_listen(p.device, addr, sizeof in, &o, backlog, p.eq[0], NULL, &l),
                  IWARP_MISUSE, backlog ? "backlog is -1, expected" : "backlog is 0, expected");
    }
    o.mpa_rev = 3;
    must_fail(iwarp_listen(p.device, addr, sizeof in, &o, 8, p.eq[0], NULL, &l), IWARP_MISUSE,
              "mpa_rev is 3");
    assert_null(l);
    must(iwarp_eq_destroy(p.eq[0])); /* nothing refers to it */
    p.eq[0] = NULL;
    pair_close(&p);
    pair_close(&other);
}

/* The port is free again, and the address the one that was asked for. */
static void listener_close__frees_the_port(void **state)
{
    struct iwarp_listener *l;
    struct pair p;

    (void)state;
    prepare(&p, 16, 1000);
    struct sockaddr_in in = address(&p);
    assert_int_not_equal(in.sin_port, 0);
    must(iwarp_listener_close(p.listener));
    must(iwarp_listen(p.device, (struct sockaddr *)&in, sizeof in, NULL, 8, p.eq[1], &p, &l));
    p.listener = l;
    int fd = raw_connect(&in);
    raw_send(fd, request, REQUEST_LEN);
    struct iwarp_event event = pair_event(p.eq[1], IWARP_EVENT_REQUEST);
    assert_ptr_equal(event.user, &p);
    assert_ptr_equal(event.listener, l);
    p.side[1].conn = event.conn;
    pair_close(&p);
    close(fd);
}

/* Half a Request, none at all, the end in the middle: the application never hears of them. */
static void request__that_never_comes_whole__is_forgotten(void **state)
{
    struct pair p;

    (void)state;
    prepare(&p, 16, 800);
    struct sockaddr_in in = address(&p);
    for (size_t n = 0; n < 20; n += 6) {
        int64_t begin = iwarp_now_ms();
        int fd = raw_connect(&in);
        raw_send(fd, request, n);
        expect_closed(fd);
        assert_true(iwarp_now_ms() - begin >= 395); /* half of the option */
        fd = raw_connect(&in);
        raw_send(fd, request, n);
        close(fd);
    }
    int fd = raw_connect(&in);
    raw_send(fd, "GET / HTTP/1.1\r\n\r\n    ", REQUEST_LEN);
    expect_closed(fd);
    wait_for_none(&p);
    no_event(p.eq[1], 0);
    pair_close(&p);
}

/* Each newcomer ends the oldest, whose place it takes. */
static void start_ups__beyond_max_half_open__end_the_oldest(void **state)
{
    struct pair p;
    int fd[6];

    (void)state;
    prepare(&p, 2, 200000);
    struct sockaddr_in in = address(&p);
    for (int i = 0; i < 6; i++) {
        fd[i] = raw_connect(&in); /* silent, but for the last two */
    }
    for (int i = 0; i < 4; i++) {
        expect_closed(fd[i]);
    }
    no_event(p.eq[1], 50);
    assert_int_equal(atomic_load(&p.device->startups.count), 2);
    for (int i = 4; i < 6; i++) {
        raw_send(fd[i], request, REQUEST_LEN);
        struct iwarp_event event = pair_event(p.eq[1], IWARP_EVENT_REQUEST);
        must(iwarp_conn_destroy(event.conn));
        close(fd[i]);
    }
    wait_for_none(&p);
    struct iwarp_device_stats stats = {.size = sizeof stats};
    must(iwarp_device_stats(p.device, &stats));
    assert_int_equal(stats.turned_away, 4);
    pair_close(&p);
}

/*
 * The smallest backlog is what the kernel gets (what is behind it comes again by itself), and all
 * of a crowd that comes at once have their turn.
 */
static void listen__with_a_backlog_of_1__takes_one_after_the_other(void **state)
{
    struct pair_options po;
    struct iwarp_listener *l = NULL;
    struct sockaddr_storage addr;
    struct pair_side side[5];
    struct tcp_info info;
    socklen_t len = sizeof info, addr_len = pair_loopback(PAIR_TCP4, &addr);
    struct pair p;

    (void)state;
    pair_options_init(&po, PAIR_MEMORY);
    po.memory = 64;
    pair_prepare(&p, &po);
    must(iwarp_listen(p.device, (struct sockaddr *)&addr, addr_len, &po.conn[1], 1, p.eq[1], NULL,
                      &l));
    assert_int_equal(
        getsockopt(iwarp_tcp_acceptor_fd(l->acceptor), IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    if (len == sizeof info) { /* qemu-user gives the first 4 octets of what is asked of TCP */
        assert_int_equal(info.tcpi_sacked, 1); /* of a listening socket: its backlog */
    }
    must(iwarp_listener_addr(l, &addr, &addr_len));
    for (int i = 0; i < 5; i++) {
        pair_side_open(&side[i], p.device, &po);
        must(iwarp_connect(side[i].qp, (struct sockaddr *)&addr, addr_len, &po.conn[0], NULL, 0,
                           p.eq[0], NULL, &side[i].conn));
    }
    for (int i = 0; i < 5; i++) {
        struct iwarp_conn *conn = pair_event(p.eq[1], IWARP_EVENT_REQUEST).conn;
        must(iwarp_reject(conn, NULL, 0));
        must(iwarp_conn_destroy(conn));
        pair_event(p.eq[0], IWARP_EVENT_REJECTED);
    }
    for (int i = 0; i < 5; i++) {
        pair_side_close(&side[i]);
    }
    must(iwarp_listener_close(l));
    pair_close(&p);
}

/* The one place for start-ups is taken by a silent peer: the next one gets it. */
static void listen__with_max_half_open_of_1__serves_who_comes_behind_silent_peers(void **state)
{
    struct pair_options po;
    struct iwarp_listener *l = NULL;
    struct sockaddr_storage addr;
    struct sockaddr_in in;
    socklen_t len = pair_loopback(PAIR_TCP4, &addr);
    struct pair p;
    int fd[3];

    (void)state;
    pair_options_init(&po, PAIR_MEMORY);
    po.memory = 64;
    po.device.max_half_open = 1;
    pair_prepare(&p, &po);
    must(iwarp_listen(p.device, (struct sockaddr *)&addr, len, &po.conn[1], 1, p.eq[1], NULL, &l));
    must(iwarp_listener_addr(l, &addr, &len));
    memcpy(&in, &addr, sizeof in);
    for (int i = 0; i < 3; i++) {
        fd[i] = raw_connect(&in);
    }
    must(iwarp_connect(p.side[0].qp, (struct sockaddr *)&addr, len, &po.conn[0], NULL, 0, p.eq[0],
                       NULL, &p.side[0].conn));
    p.side[1].conn = pair_event(p.eq[1], IWARP_EVENT_REQUEST).conn;
    for (int i = 0; i < 3; i++) {
        expect_closed(fd[i]);
    }
    must(iwarp_accept(p.side[1].conn, p.side[1].qp, NULL, NULL, 0, NULL));
    must(iwarp_conn_wait(p.side[0].conn, PAIR_WAIT_MS));
    must(iwarp_listener_close(l));
    pair_close(&p);
}

/* They count for max_connections only, until their peers are gone. */
static void requests__that_wait_for_an_answer__are_not_half_open(void **state)
{
    struct pair p;
    int fd[5];

    (void)state;
    prepare(&p, 2, 2000);
    struct sockaddr_in in = address(&p);
    struct iwarp_conn *conn[5];
    for (int i = 0; i < 5; i++) {
        fd[i] = raw_connect(&in);
        raw_send(fd[i], request, REQUEST_LEN);
        conn[i] = pair_event(p.eq[1], IWARP_EVENT_REQUEST).conn;
    }
    assert_int_equal(atomic_load(&p.device->startups.count), 0);
    raw_reset(fd[0]);
    must(iwarp_conn_wait_end(conn[0], PAIR_WAIT_MS));
    assert_int_equal(iwarp_fault_code(iwarp_conn_fault(conn[0])), IWARP_FAULT_TCP_LOST);
    must_fail(iwarp_accept(conn[0], p.side[1].qp, NULL, NULL, 0, NULL), IWARP_CLOSED, "gone");
    must(iwarp_conn_destroy(conn[0]));
    no_event(p.eq[1], 1100); /* half of the option and more */
    for (int i = 1; i < 5; i++) {
        must_fail(iwarp_conn_wait_end(conn[i], 0), IWARP_AGAIN, "0 ms");
        must(iwarp_conn_destroy(conn[i]));
        expect_declined(fd[i]);
    }
    pair_close(&p);
}

static void peers__beyond_max_connections__are_turned_away(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.device.max_connections = 1;
    pair_prepare(&p, &o);
    struct sockaddr_in in = address(&p);
    int fd = raw_connect(&in);
    raw_send(fd, request, REQUEST_LEN);
    p.side[1].conn = pair_event(p.eq[1], IWARP_EVENT_REQUEST).conn;
    expect_closed(raw_connect(&in));
    no_event(p.eq[1], 0);
    pair_close(&p);
    close(fd);
}

/* Requests that wait in the event queue, start-ups that run, and one that the application took. */
static void listener_close__with_requests_in_all_stages__closes_those_not_taken(void **state)
{
    (void)state;
    for (int i = 0; i < 30; i++) {
        struct pair p;
        int fd[6];
        prepare(&p, 16, 200000);
        struct sockaddr_in in = address(&p);
        fd[0] = raw_connect(&in);
        raw_send(fd[0], request, REQUEST_LEN);
        p.side[1].conn = pair_event(p.eq[1], IWARP_EVENT_REQUEST).conn;
        for (int k = 1; k < 6; k++) {
            fd[k] = raw_connect(&in);
            raw_send(fd[k], request, k % 2 ? REQUEST_LEN : 7);
        }
        usleep(i % 3 ? 0 : 3000);
        must(iwarp_listener_close(p.listener));
        p.listener = NULL;
        no_event(p.eq[1], 0);
        for (int k = 1; k < 6; k++) {
            (void)raw_drain(fd[k]); /* a Reply that says no, if the Request was there */
            close(fd[k]);
        }
        must(iwarp_accept(p.side[1].conn, p.side[1].qp, NULL, NULL, 0, &p)); /* still answers */
        struct iwarp_event event = pair_event(p.eq[1], IWARP_EVENT_ESTABLISHED);
        assert_null(event.listener);
        uint8_t reply[20];
        raw_read(fd[0], reply, sizeof reply, "Reply");
        assert_memory_equal(reply, "MPA ID Rep Frame", 16);
        close(fd[0]);
        pair_close(&p);
    }
}

/* Closing while peers come and others' connections live. */
static void listener_close__beside_traffic__is_safe(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct pair_options o;
        struct pair p;
        int fd[8];
        pair_options_init(&o, PAIR_TCP4);
        o.device.workers = 3;
        pair_open(&p, &o);
        struct sockaddr_in in = address(&p);
        for (int k = 0; k < 8; k++) {
            fd[k] = raw_connect(&in);
            raw_send(fd[k], request, k % 2 ? REQUEST_LEN : 1);
        }
        pair_recv(&p.side[1], 1, 0, 4096);
        pair_send(&p.side[0], 2, 0, 4096);
        must(iwarp_listener_close(p.listener));
        p.listener = NULL;
        pair_wc(p.side[1].recv_cq, 1, IWARP_WC_SUCCESS);
        for (int k = 0; k < 8; k++) {
            close(fd[k]);
        }
        pair_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listen__with_wrong_arguments__says_why),
        cmocka_unit_test(listener_close__frees_the_port),
        cmocka_unit_test(request__that_never_comes_whole__is_forgotten),
        cmocka_unit_test(start_ups__beyond_max_half_open__end_the_oldest),
        cmocka_unit_test(listen__with_a_backlog_of_1__takes_one_after_the_other),
        cmocka_unit_test(listen__with_max_half_open_of_1__serves_who_comes_behind_silent_peers),
        cmocka_unit_test(requests__that_wait_for_an_answer__are_not_half_open),
        cmocka_unit_test(peers__beyond_max_connections__are_turned_away),
        cmocka_unit_test(listener_close__with_requests_in_all_stages__closes_those_not_taken),
        cmocka_unit_test(listener_close__beside_traffic__is_safe),
    };

    return cmocka_run_group_tests_name("listen", tests, NULL, NULL);
}
