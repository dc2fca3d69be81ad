/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A path whose packets become smaller and larger amid a connection: the largest ULPDU follows, in
 * both kinds of FPDU, and nothing is lost. RFC 5041 3, RFC 5044 4.5.
 */
#include "netns.h"
#include "seconds.h"
#include "verbs_pair.h"

#include <stdio.h>
#include <time.h>

#define OCTETS  (4u << 20)
#define AT_ONCE 4u

static unsigned mulpdu(const struct pair *p)
{
    struct iwarp_conn_info info = {.size = sizeof info};

    must(iwarp_conn_info(p->side[0].conn, &info));
    return info.mulpdu;
}

/* More than the sockets' buffers take at once. */
static void transfer(struct pair *p, uint64_t seed)
{
    struct pair_side *from = &p->side[0], *to = &p->side[1];

    pair_fill(from->p, OCTETS, seed);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        pair_write(from, i, 0, OCTETS, to, 0);
    }
    pair_recv(to, AT_ONCE, OCTETS, 1);
    pair_send(from, AT_ONCE, OCTETS, 1);
    for (unsigned i = 0; i <= AT_ONCE; i++) {
        pair_wc(from->send_cq, i, IWARP_WC_SUCCESS);
    }
    pair_wc(to->recv_cq, AT_ONCE, IWARP_WC_SUCCESS);
    assert_memory_equal(to->p, from->p, OCTETS);
}

/* Transfers until the connection knows of it. */
static void expect_mulpdu(struct pair *p, int mtu, unsigned least, unsigned most)
{
    time_t end = seconds_now() + 60;
    uint64_t seed = (uint64_t)mtu;

    assert_true(netns_loopback_mtu(mtu));
    do {
        transfer(p, seed++);
    } while ((mulpdu(p) < least || mulpdu(p) > most) && seconds_now() < end);
    assert_in_range(mulpdu(p), least, most);
}

/*
 * An IPv4 packet carries 1448 or, without timestamps, 1460 octets of 1500: FPDUs have 6 of their
 * own, and a marker for each 512 begun.
 */
/* [DDP-3-01] */
static void mulpdu__of_a_path_that_changes__follows(void **state)
{
    (void)state;
    for (unsigned markers = 0; markers < 2; markers++) {
        const unsigned less = markers ? 6 + 12 : 6;
        struct pair_options o;
        struct pair p;
        assert_true(netns_loopback_mtu(65536));
        pair_options_init(&o, PAIR_TCP4);
        o.memory = OCTETS + 8;
        o.conn[1].markers = markers != 0;
        pair_open(&p, &o);
        assert_in_range(mulpdu(&p), 10000, 64768); /* at most half of the largest window so far */
        expect_mulpdu(&p, 1500, 1448 - less, 1460 - less);
        expect_mulpdu(&p, 9000, 8800, 8954);
        pair_close(&p);
    }
}

/* What the application has chosen stays. */
static void mulpdu__that_is_set__stays(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    assert_true(netns_loopback_mtu(65536));
    pair_options_init(&o, PAIR_TCP4);
    o.memory = OCTETS + 8;
    o.conn[0].ulpdu_max = 5000;
    pair_open(&p, &o);
    expect_mulpdu(&p, 1500, 5000, 5000);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mulpdu__of_a_path_that_changes__follows),
        cmocka_unit_test(mulpdu__that_is_set__stays),
    };
    unsigned scope[2];
    const char *why = netns_enter(scope);

    if (why || !netns_loopback_mtu(65536)) {
        printf("%s\n", why ? why : "the loopback interface's MTU is not ours to set");
        return 77;
    }
    return cmocka_run_group_tests_name("tcp_mss", tests, NULL, NULL);
}
