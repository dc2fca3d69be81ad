/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections from an address that the application gives (`source`): which address and port the
 * peer sees, at the first and at the second try of a start-up, and addresses that cannot be.
 */
#include "progress.h"
#include "raw_peer.h"
#include "verbs_pair.h"

#include <arpa/inet.h>
#include <unistd.h>

#define REQUEST "4d504120494420526571204672616d65"
#define REPLY   "4d504120494420526570204672616d65"

static void set_source(struct iwarp_conn_options *o, const char *text, uint16_t port)
{
    static struct sockaddr_in in; /* of one connection at a time */

    in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
    assert_int_equal(inet_pton(AF_INET, text, &in.sin_addr), 1);
    o->source = (const struct sockaddr *)&in;
    o->source_len = sizeof in;
}

/* A port that nobody has now. */
static uint16_t free_port(void)
{
    struct sockaddr_in at;
    int fd = raw_listen(&at);

    raw_close(fd);
    return at.sin_port;
}

static void expect_address(const struct sockaddr_storage *addr, socklen_t len, const char *text,
                           uint16_t port)
{
    struct sockaddr_in in;
    char got[INET_ADDRSTRLEN];

    assert_int_equal(len, sizeof in);
    memcpy(&in, addr, sizeof in);
    assert_non_null(inet_ntop(AF_INET, &in.sin_addr, got, sizeof got));
    assert_string_equal(got, text);
    assert_true(port == 0 ? in.sin_port != 0 : in.sin_port == port);
}

static void connect__from_a_given_address__is_seen_there_by_the_peer(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) { /* none; an address; a port too */
        uint16_t port = i == 2 ? free_port() : 0;
        const char *from = i ? "127.0.0.2" : "127.0.0.1";
        struct sockaddr_storage addr;
        struct pair_options o;
        struct pair p;
        socklen_t len;
        pair_options_init(&o, PAIR_TCP4);
        if (i) {
            set_source(&o.conn[0], from, port);
        }
        pair_open(&p, &o);
        must(iwarp_conn_local_addr(p.side[0].conn, &addr, &len));
        expect_address(&addr, len, from, port);
        must(iwarp_conn_peer_addr(p.side[1].conn, &addr, &len));
        expect_address(&addr, len, from, port);
        must(iwarp_conn_local_addr(p.side[1].conn, &addr, &len));
        expect_address(&addr, len, "127.0.0.1", 0);
        pair_fill(p.side[0].p, 3000, 1);
        pair_recv(&p.side[1], 1, 0, 3000);
        pair_send(&p.side[0], 2, 0, 3000);
        pair_wc(p.side[1].recv_cq, 1, IWARP_WC_SUCCESS);
        assert_memory_equal(p.side[1].p, p.side[0].p, 3000);
        pair_close(&p);
    }
}

static void expect_peer(int fd, const char *text, uint16_t port)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;

    assert_int_equal(getpeername(fd, (struct sockaddr *)&addr, &len), 0);
    expect_address(&addr, len, text, port);
}

/* The second try of RFC 6581 10 comes from there too, whatever the end of the first. */
static void connect__hung_up_on__comes_again_from_there(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        uint16_t port = i / 2 ? free_port() : 0;
        struct sockaddr_in at;
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, PAIR_MEMORY);
        set_source(&o.conn[0], "127.0.0.2", port);
        pair_prepare(&p, &o);
        int listener = raw_listen(&at);
        must(iwarp_connect(p.side[0].qp, (const struct sockaddr *)&at, sizeof at, &o.conn[0], NULL,
                           0, p.eq[0], NULL, &p.side[0].conn));
        int fd = raw_accept(listener);
        expect_peer(fd, "127.0.0.2", port);
        raw_hear(fd, NULL, REQUEST "50020004 80204020", "the Request");
        if (i % 2) {
            raw_reset(fd);
        } else {
            raw_close(fd);
        }
        fd = raw_accept(listener);
        expect_peer(fd, "127.0.0.2", port);
        raw_hear(fd, NULL, REQUEST "40010000", "the second Request");
        raw_say(fd, NULL, REPLY "40010000");
        pair_event(p.eq[0], IWARP_EVENT_ESTABLISHED);
        raw_close(fd);
        raw_close(listener);
        pair_close(&p);
    }
}

static void connect__from_an_address_that_cannot_be__says_why(void **state)
{
    struct iwarp_conn *conn = NULL;
    struct sockaddr_in6 at6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    struct sockaddr_in at;
    struct pair_options o;
    struct pair p;
    char text[400];

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    set_source(&o.conn[0], "192.0.2.1", 0); /* nobody's */
    pair_prepare(&p, &o);
    must_fail(iwarp_connect(p.side[0].qp, (const struct sockaddr *)&at6, sizeof at6, &o.conn[0],
                            NULL, 0, NULL, NULL, &conn),
              IWARP_MISUSE, "source is of address family 2, addr of 10");
    assert_null(conn);
    int listener = raw_listen(&at);
    must(iwarp_connect(p.side[0].qp, (const struct sockaddr *)&at, sizeof at, &o.conn[0], NULL, 0,
                       p.eq[0], NULL, &p.side[0].conn));
    struct iwarp_event e = pair_event(p.eq[0], IWARP_EVENT_FAILED);
    assert_int_equal(iwarp_fault_code(e.fault), IWARP_FAULT_TCP_CONNECT);
    iwarp_fault_text(e.fault, text, sizeof text);
    assert_non_null(strstr(text, "Cannot assign requested address"));
    struct pollfd waits = {.fd = listener, .events = POLLIN};
    assert_int_equal(progress_poll(&waits, 1, 50), 0);
    raw_close(listener);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect__from_a_given_address__is_seen_there_by_the_peer),
        cmocka_unit_test(connect__hung_up_on__comes_again_from_there),
        cmocka_unit_test(connect__from_an_address_that_cannot_be__says_why),
    };

    return cmocka_run_group_tests_name("tcp_source", tests, NULL, NULL);
}
