/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Link-local addresses of IPv6: the same address on two interfaces, told apart by its scope alone,
 * for listeners, for connections and for the address that a connection comes from. RFC 4007 6.
 */
#include "netns.h"
#include "octets.h"
#include "verbs_pair.h"

#include <arpa/inet.h>
#include <stdio.h>

static unsigned scope[2];

static struct sockaddr_in6 address(unsigned of, uint16_t port)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = port, .sin6_scope_id = of};

    assert_int_equal(inet_pton(AF_INET6, "fe80::1", &in6.sin6_addr), 1);
    return in6;
}

static struct iwarp_listener *listen_at(struct pair *p, unsigned of, uint16_t port)
{
    const struct sockaddr_in6 in6 = address(of, port);
    struct iwarp_listener *l = NULL;

    must(iwarp_listen(p->device, (const struct sockaddr *)&in6, sizeof in6, &p->options.conn[1], 8,
                      p->eq[1], NULL, &l));
    return l;
}

static struct sockaddr_in6 in6_of(const struct sockaddr_storage *addr, socklen_t len)
{
    struct sockaddr_in6 in6;

    assert_int_equal(len, sizeof in6);
    memcpy(&in6, addr, sizeof in6);
    assert_int_equal(in6.sin6_family, AF_INET6);
    return in6;
}

static uint16_t port_of(const struct iwarp_listener *l, unsigned of)
{
    struct sockaddr_storage addr;
    socklen_t len;

    must(iwarp_listener_addr(l, &addr, &len));
    struct sockaddr_in6 in6 = in6_of(&addr, len);
    assert_int_equal(in6.sin6_scope_id, of);
    return in6.sin6_port;
}

static void connect_at(struct pair *p, unsigned of, uint16_t port)
{
    const struct sockaddr_in6 in6 = address(of, port);

    must(iwarp_connect(p->side[0].qp, (const struct sockaddr *)&in6, sizeof in6,
                       &p->options.conn[0], NULL, 0, p->eq[0], NULL, &p->side[0].conn));
}

/* Each end knows the other by its address and scope. */
static void check_addresses(const struct pair *p, unsigned of, uint16_t port)
{
    struct sockaddr_in6 local[2], peer[2];
    struct sockaddr_storage addr;
    socklen_t len;

    for (int i = 0; i < 2; i++) {
        must(iwarp_conn_local_addr(p->side[i].conn, &addr, &len));
        local[i] = in6_of(&addr, len);
        must(iwarp_conn_peer_addr(p->side[i].conn, &addr, &len));
        peer[i] = in6_of(&addr, len);
        assert_int_equal(local[i].sin6_scope_id, of);
        assert_int_equal(peer[i].sin6_scope_id, of);
    }
    assert_int_equal(local[1].sin6_port, port);
    assert_int_equal(peer[0].sin6_port, port);
    assert_int_equal(local[0].sin6_port, peer[1].sin6_port);
}

/* Two listeners with one address and one port: the scope says which is meant. */
static void connect__to_one_of_two_scopes__reaches_that_listener(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct iwarp_listener *l[2];
        struct sockaddr_in6 from;
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, PAIR_MEMORY);
        if (i >= 2) { /* it comes from a link-local address that is given */
            from = address(scope[i % 2], 0);
            o.conn[0].source = (const struct sockaddr *)&from;
            o.conn[0].source_len = sizeof from;
        }
        pair_prepare(&p, &o);
        l[0] = listen_at(&p, scope[0], 0);
        uint16_t port = port_of(l[0], scope[0]);
        l[1] = listen_at(&p, scope[1], port);
        connect_at(&p, scope[i % 2], port);
        struct iwarp_event e = pair_event(p.eq[1], IWARP_EVENT_REQUEST);
        assert_ptr_equal(e.listener, l[i % 2]);
        p.side[1].conn = e.conn;
        must(iwarp_accept(e.conn, p.side[1].qp, NULL, NULL, 0, NULL));
        must(iwarp_conn_wait(p.side[0].conn, PAIR_WAIT_MS));
        check_addresses(&p, scope[i % 2], port);
        pair_fill(p.side[0].p, 5000, (uint64_t)i);
        pair_recv(&p.side[1], 1, 0, 5000);
        pair_send(&p.side[0], 2, 0, 5000);
        pair_wc(p.side[1].recv_cq, 1, IWARP_WC_SUCCESS);
        assert_memory_equal(p.side[1].p, p.side[0].p, 5000);
        pair_side_close(&p.side[0]);
        pair_side_close(&p.side[1]);
        must(iwarp_listener_close(l[0]));
        must(iwarp_listener_close(l[1]));
        pair_close(&p);
    }
}

static void expect_failed(struct pair *p, const char *part)
{
    struct iwarp_event e = pair_event(p->eq[0], IWARP_EVENT_FAILED);
    char text[400];

    assert_int_equal(iwarp_fault_code(e.fault), IWARP_FAULT_TCP_CONNECT);
    iwarp_fault_text(e.fault, text, sizeof text);
    if (!strstr(text, part)) {
        fail_msg("'%s' does not say '%s'", text, part);
    }
}

/* The other scope, none at all, and one that does not exist. */
static void connect__to_a_wrong_scope__fails(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        const unsigned to[] = {scope[1], 0, 4711};
        static const char *const says[] = {"refused", "Invalid argument", ""};
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, PAIR_MEMORY);
        pair_prepare(&p, &o);
        struct iwarp_listener *l = listen_at(&p, scope[0], 0);
        connect_at(&p, to[i], port_of(l, scope[0]));
        expect_failed(&p, says[i]);
        must(iwarp_listener_close(l));
        pair_close(&p);
    }
}

static void listen__without_a_scope__says_why(void **state)
{
    const struct sockaddr_in6 in6 = address(0, 0);
    struct iwarp_listener *l = NULL;
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    must_fail(iwarp_listen(p.device, (const struct sockaddr *)&in6, sizeof in6, NULL, 8, p.eq[1],
                           NULL, &l),
              IWARP_TRANSPORT, "Invalid argument");
    assert_null(l);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect__to_one_of_two_scopes__reaches_that_listener),
        cmocka_unit_test(connect__to_a_wrong_scope__fails),
        cmocka_unit_test(listen__without_a_scope__says_why),
    };
    const char *why = netns_enter(scope);

    if (why) {
        printf("%s\n", why);
        return 77;
    }
    return cmocka_run_group_tests_name("tcp_scope", tests, NULL, NULL);
}
