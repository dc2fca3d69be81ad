/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of connections: each bound, what a refusal says, and that it leaves nothing behind.
 */
#include "verbs_pair.h"

#include "mpa/mpa_setup.h"
#include "verbs/conn.h"
#include "verbs/conn_options.h"
#include "verbs/listen.h"

#include <limits.h>
#include <netinet/in.h>
#include <sys/un.h>

struct misuse {
    const char *part;
    unsigned mpa_rev, ulpdu_max, ird, ord;
};

/* [VERBS-6.5-02] [MPA-1.2-02] [MPA-4.4-02] */
static void init__gives__crc_depths_and_the_model_that_peers_expect(void **state)
{
    struct iwarp_conn_options o;
    struct iwarp_mpa_wish wish;

    (void)state;
    memset(&o, 0xff, sizeof o);
    iwarp_conn_options_init(&o);
    iwarp_conn_wish(&o, &wish);
    assert_true(o.crc && wish.crc);
    assert_false(o.markers || wish.markers_rx);
    assert_true(o.peer_to_peer && wish.peer_to_peer);
    assert_int_equal(wish.rev, 2);
    assert_in_range(wish.ird, 1, 32);
    assert_in_range(wish.ord, 1, 32);
    assert_int_equal(o.placement, IWARP_PLACE_VERIFIED);
}

static void options__beyond_their_bounds__are_misuse(void **state)
{
    static const struct misuse cases[] = {
        {"mpa_rev is 0", 0, 0, 1, 1},       {"mpa_rev is 3", 3, 0, 1, 1},
        {"ulpdu_max is 127", 2, 127, 1, 1}, {"ulpdu_max is 64769", 2, 64769, 1, 1},
        {"ird 1025", 2, 0, 1025, 1},        {"ord 1025", 2, 0, 1, 1025},
    };
    struct iwarp_conn *conn[2] = {NULL, NULL};
    struct iwarp_conn_options o, out;
    struct pair_options po;
    struct pair p;

    (void)state;
    pair_options_init(&po, PAIR_MEMORY);
    pair_prepare(&p, &po);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        iwarp_conn_options_init(&o);
        o.mpa_rev = cases[i].mpa_rev;
        o.ulpdu_max = cases[i].ulpdu_max;
        o.ird = cases[i].ird;
        o.ord = cases[i].ord;
        must_fail(iwarp_conn_options_check(&o, &out), IWARP_MISUSE, cases[i].part);
        must_fail(iwarp_connect_pair(p.side[0].qp, p.side[1].qp, &o, NULL, &conn[0], &conn[1]),
                  IWARP_MISUSE, cases[i].part);
    }
    o.size = 12;
    must_fail(iwarp_conn_options_check(&o, &out), IWARP_MISUSE, "size is 12, expected");
    must_fail(iwarp_conn_options_check(&o, &out), IWARP_MISUSE, "iwarp_conn_options_init");
    assert_null(conn[0]);
    pair_connect(&p); /* nothing of that was remembered */
    pair_close(&p);
}

/* What the device decides: nothing is left behind, and the same objects connect afterwards. */
static void options__with_a_worker_that_is_not_there__are_misuse(void **state)
{
    static const unsigned beyond[] = {4, UINT_MAX};
    struct iwarp_conn *conn[2] = {NULL, NULL};
    struct sockaddr_storage addr;
    struct iwarp_listener *listener = NULL;
    struct iwarp_conn_options o;
    struct pair_options po;
    struct pair p;

    (void)state;
    pair_options_init(&po, PAIR_TCP4);
    po.device.workers = 3;
    pair_prepare(&p, &po);
    socklen_t len = pair_loopback(PAIR_TCP4, &addr);
    const struct sockaddr *to = (const struct sockaddr *)&addr;
    unsigned before = pair_fd_count();
    iwarp_conn_options_init(&o);
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        o.worker = beyond[i];
        must_fail(iwarp_connect_pair(p.side[0].qp, p.side[1].qp, &o, NULL, &conn[0], &conn[1]),
                  IWARP_MISUSE, "the device has 3");
        must_fail(iwarp_connect(p.side[0].qp, to, len, &o, NULL, 0, NULL, NULL, &conn[0]),
                  IWARP_MISUSE, "the device has 3");
        must_fail(iwarp_listen(p.device, to, len, &o, 1, p.eq[0], NULL, &listener), IWARP_MISUSE,
                  "the device has 3");
    }
    assert_null(conn[0]);
    assert_null(listener);
    assert_int_equal(pair_fd_count(), before);
    pair_connect(&p);
    pair_close(&p);
}

static void options__without_time_or_of_unknown_placement__are_misuse(void **state)
{
    struct iwarp_conn_options o, out;

    (void)state;
    for (int i = 0; i < 4; i++) {
        iwarp_conn_options_init(&o);
        unsigned *ms[] = {&o.connect_timeout_ms, &o.startup_timeout_ms, &o.close_timeout_ms,
                          &o.accept_timeout_ms};
        static const char *const says[] = {"connect_timeout_ms is 0, expected at least 1",
                                           "startup_timeout_ms is 0, expected at least 1",
                                           "close_timeout_ms is 0, expected at least 1",
                                           "accept_timeout_ms is 0, expected at least 1"};
        *ms[i] = 0;
        must_fail(iwarp_conn_options_check(&o, &out), IWARP_MISUSE, says[i]);
        *ms[i] = 1;
        must(iwarp_conn_options_check(&o, &out));
        *ms[i] = UINT_MAX;
        must(iwarp_conn_options_check(&o, &out));
    }
    o.placement = (enum iwarp_placement)2;
    must_fail(iwarp_conn_options_check(&o, &out), IWARP_MISUSE,
              "placement is 2, allowed are IWARP_PLACE_VERIFIED (0) and IWARP_PLACE_EARLY (1)");
    o.placement = IWARP_PLACE_EARLY;
    must(iwarp_conn_options_check(&o, &out));
    assert_int_equal(out.placement, IWARP_PLACE_EARLY);
    assert_int_equal(out.accept_timeout_ms, UINT_MAX);
}

static void options__of_tcp_beyond_what_the_kernel_takes__are_misuse(void **state)
{
    struct iwarp_conn_options o, out;

    (void)state;
    iwarp_conn_options_init(&o);
    assert_int_equal(o.user_timeout_ms, 60000);
    assert_int_equal(o.keepalive_s, 30);
    o.user_timeout_ms = INT_MAX;
    o.keepalive_s = 32767;
    must(iwarp_conn_options_check(&o, &out));
    o.user_timeout_ms = (unsigned)INT_MAX + 1;
    must_fail(iwarp_conn_options_check(&o, &out), IWARP_MISUSE, "user_timeout_ms is 2147483648");
    o.user_timeout_ms = 0;
    o.keepalive_s = 32768;
    must_fail(iwarp_conn_options_check(&o, &out), IWARP_MISUSE,
              "keepalive_s is 32768, at most 32767");
    o.keepalive_s = 0;
    assert_int_equal(o.traffic_class, -1);
    o.traffic_class = 256;
    must_fail(iwarp_conn_options_check(&o, &out), IWARP_MISUSE,
              "traffic_class is 256, allowed are -1 to 255");
    o.traffic_class = -2;
    must_fail(iwarp_conn_options_check(&o, &out), IWARP_MISUSE, "traffic_class is -2");
    o.traffic_class = 255;
    const struct sockaddr_un un = {.sun_family = AF_UNIX};
    o.source = (const struct sockaddr *)&un;
    must(iwarp_conn_options_check(&o, &out)); /* without a length it is not looked at */
    o.source_len = sizeof(struct sockaddr_in);
    must_fail(iwarp_conn_options_check(&o, &out), IWARP_MISUSE, "address family 1");
}

/* The longest time is one: a responder waits half of it. */
static void options__with_the_longest_times__connect(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    for (int i = 0; i < 2; i++) {
        o.conn[i].connect_timeout_ms = o.conn[i].startup_timeout_ms = UINT_MAX;
        o.conn[i].close_timeout_ms = UINT_MAX;
    }
    pair_open(&p, &o);
    pair_recv(&p.side[1], 1, 0, 8);
    pair_send(&p.side[0], 2, 0, 8);
    pair_wc(p.side[1].recv_cq, 1, IWARP_WC_SUCCESS);
    pair_close(&p);
}

static void addr__of_each_family_and_length__is_taken_or_explained(void **state)
{
    struct sockaddr_storage addr = {.ss_family = AF_INET};
    const struct sockaddr *at = (const struct sockaddr *)&addr;

    (void)state;
    for (socklen_t n = 16; n <= sizeof addr; n++) {
        must(iwarp_addr_check(at, n));
    }
    must_fail(iwarp_addr_check(at, 15), IWARP_MISUSE, "15 octets, AF_INET has 16");
    must_fail(iwarp_addr_check(at, 1), IWARP_MISUSE, "1 octets, expected 16 to 128");
    must_fail(iwarp_addr_check(at, 129), IWARP_MISUSE, "129 octets, expected 16 to 128");
    must_fail(iwarp_addr_check(NULL, 16), IWARP_MISUSE, "addr is NULL");
    addr.ss_family = AF_INET6;
    must(iwarp_addr_check(at, 28));
    must_fail(iwarp_addr_check(at, 27), IWARP_MISUSE, "27 octets, AF_INET6 has 28");
    addr.ss_family = AF_UNIX;
    must_fail(iwarp_addr_check(at, 28), IWARP_MISUSE, "family 1, expected AF_INET");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init__gives__crc_depths_and_the_model_that_peers_expect),
        cmocka_unit_test(options__beyond_their_bounds__are_misuse),
        cmocka_unit_test(options__with_a_worker_that_is_not_there__are_misuse),
        cmocka_unit_test(options__without_time_or_of_unknown_placement__are_misuse),
        cmocka_unit_test(options__of_tcp_beyond_what_the_kernel_takes__are_misuse),
        cmocka_unit_test(options__with_the_longest_times__connect),
        cmocka_unit_test(addr__of_each_family_and_length__is_taken_or_explained),
    };

    return cmocka_run_group_tests_name("conn_options", tests, NULL, NULL);
}
