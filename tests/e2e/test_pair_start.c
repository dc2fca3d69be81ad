/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What can be settled at the start, over memory and TCP: markers one way, the other way or both,
 * CRC, revision, peer-to-peer mode with each mask of ready-to-receive messages on either side,
 * placement and segment size. Data goes both ways and is compared; in peer-to-peer mode the
 * responder is the first to have something to send.
 *
 * RFC 5044 4.3 and 7.1, RFC 6581 9.
 */
#include "verbs_pair.h"

#include <stdio.h>

#define MEMORY 200000
#define IN     100000 /* the upper half receives */

/* Around nothing, padding, the markers of one FPDU, several segments. */
static const size_t sizes[] = {0, 1, 507, 1442, 65537};
#define SIZES (sizeof sizes / sizeof *sizes)

struct setting {
    enum pair_transport transport;
    bool markers[2]; /* each side asks for them */
    bool crc;
    unsigned rev;
    bool peer_to_peer;
    unsigned rtr[2]; /* masks */
    enum iwarp_placement placement;
    unsigned ulpdu_max;
};

static void say(const struct setting *s)
{
    printf("# %s, markers %d %d, crc %d, revision %u, p2p %d rtr %u %u, placement %d, ulpdu %u\n",
           pair_transport_names[s->transport], s->markers[0], s->markers[1], s->crc, s->rev,
           s->peer_to_peer, s->rtr[0], s->rtr[1], (int)s->placement, s->ulpdu_max);
    fflush(stdout);
}

/* The message that has to come of two masks: Read before Write before Send; 0 of a side's: default.
 */
static unsigned rtr_of(const struct setting *s)
{
    unsigned initiator = s->rtr[0] ? s->rtr[0] : IWARP_RTR_READ;
    unsigned both = initiator & (s->rtr[1] ? s->rtr[1] : 7);

    if (!s->peer_to_peer || s->rev == 1) {
        return IWARP_RTR_NONE;
    }
    return both & IWARP_RTR_READ ? IWARP_RTR_READ : both & IWARP_RTR_WRITE ? IWARP_RTR_WRITE : both;
}

static void pair_options(struct pair_options *o, const struct setting *s)
{
    pair_options_init(o, s->transport);
    o->memory = MEMORY;
    for (int i = 0; i < 2; i++) {
        o->conn[i].markers = s->markers[i];
        o->conn[i].crc = s->crc;
        o->conn[i].mpa_rev = s->rev;
        o->conn[i].peer_to_peer = i == 0 && s->peer_to_peer;
        o->conn[i].rtr = s->rtr[i];
        o->conn[i].placement = s->placement;
        o->conn[i].ulpdu_max = s->ulpdu_max;
    }
}

/* Receives that have to be there whoever is first. */
static void post_receives(struct pair *p, const struct setting *s)
{
    struct pair_side *a = &p->side[0], *b = &p->side[1];

    memset(a->p + IN, 0xee, 3001);
    pair_recv(a, 1, IN, 3000);
    if (rtr_of(s) == IWARP_RTR_SEND) {
        pair_recv(b, 2, IN, 8);
    }
}

/* The initiator has posted nothing, nor will it before this has come. */
static void responder_first(struct pair *p)
{
    struct pair_side *b = &p->side[1];

    pair_fill(b->p, 3000, 77);
    pair_send(b, 3, 0, 3000);
}

static void responder_first_came(struct pair *p, const struct setting *s)
{
    struct pair_side *a = &p->side[0], *b = &p->side[1];

    assert_int_equal(pair_wc(a->recv_cq, 1, IWARP_WC_SUCCESS).byte_len, 3000);
    assert_memory_equal(a->p + IN, b->p, 3000);
    assert_int_equal(a->p[IN + 3000], 0xee);
    pair_wc(b->send_cq, 3, IWARP_WC_SUCCESS);
    if (rtr_of(s) == IWARP_RTR_SEND) {
        assert_int_equal(pair_wc(b->recv_cq, 2, IWARP_WC_SUCCESS).byte_len, 0);
    }
}

static void check_info(const struct pair *p, const struct setting *s)
{
    for (int i = 0; i < 2; i++) {
        struct iwarp_conn_info info = {.size = sizeof info};
        must(iwarp_conn_info(p->side[i].conn, &info));
        assert_int_equal(info.crc, s->crc);
        assert_int_equal(info.mpa_rev, s->rev);
        assert_int_equal(info.ird, 32);
        assert_int_equal(info.ord, 32);
        assert_int_equal(info.markers_wanted, s->markers[i]);
        assert_int_equal(info.markers_sent, s->markers[1 - i]);
        assert_int_equal(info.rtr, rtr_of(s));
        if (s->ulpdu_max) {
            assert_int_equal(info.mulpdu, s->ulpdu_max);
        }
    }
}

/* A Send, a Write with a Send behind it, and a Read by side `from`. */
static void transfer(struct pair *p, int from, size_t n, uint64_t seed)
{
    struct pair_side *a = &p->side[from], *b = &p->side[1 - from];

    pair_fill(a->p, n, seed);
    memset(b->p + IN, 0xee, n + 1);
    pair_recv(b, 10, IN, n);
    pair_send(a, 11, 0, n);
    assert_int_equal(pair_wc(b->recv_cq, 10, IWARP_WC_SUCCESS).byte_len, n);
    assert_memory_equal(b->p + IN, a->p, n);
    assert_int_equal(b->p[IN + n], 0xee);
    pair_wc(a->send_cq, 11, IWARP_WC_SUCCESS);

    pair_fill(a->p, n, seed + 1);
    pair_recv(b, 12, 0, 0);
    pair_write(a, 13, 0, n, b, IN);
    pair_send(a, 14, 0, 0);
    pair_wc(b->recv_cq, 12, IWARP_WC_SUCCESS);
    assert_memory_equal(b->p + IN, a->p, n);
    assert_int_equal(b->p[IN + n], 0xee);
    pair_wc(a->send_cq, 13, IWARP_WC_SUCCESS);
    pair_wc(a->send_cq, 14, IWARP_WC_SUCCESS);

    pair_fill(b->p, n, seed + 2);
    memset(a->p + IN, 0xee, n + 1);
    pair_read(a, 15, IN, n, b, 0);
    assert_int_equal(pair_wc(a->send_cq, 15, IWARP_WC_SUCCESS).byte_len, n);
    assert_memory_equal(a->p + IN, b->p, n);
    assert_int_equal(a->p[IN + n], 0xee);
}

static void close_in_order(struct pair *p, int first)
{
    must(iwarp_disconnect(p->side[first].conn));
    for (int i = 0; i < 2; i++) {
        must(iwarp_conn_wait_end(p->side[1 - i].conn, PAIR_WAIT_MS));
    }
    for (int i = 0; i < 2; i++) {
        assert_null(iwarp_conn_fault(p->side[i].conn));
        pair_no_wc(p->side[i].send_cq);
        pair_no_wc(p->side[i].recv_cq);
    }
}

static void try_setting(const struct setting *s, unsigned salt)
{
    struct pair_options o;
    struct pair p;

    say(s);
    pair_options(&o, s);
    pair_prepare(&p, &o);
    if (rtr_of(s)) {
        post_receives(&p, s);
    }
    pair_connect(&p);
    if (rtr_of(s)) {
        responder_first(&p);
        responder_first_came(&p, s);
    }
    check_info(&p, s);
    transfer(&p, 0, sizes[salt % SIZES], salt);
    transfer(&p, 1, sizes[salt % SIZES], salt + 100);
    transfer(&p, 0, sizes[(salt / SIZES) % SIZES], salt + 200);
    close_in_order(&p, salt & 1);
    pair_close(&p);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ONE_IN 11
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ONE_IN 11
#endif
#if !defined(ONE_IN)
#define ONE_IN 1
#endif

/* Every combination; in memory both sides have the same options. */
static void start_all(enum pair_transport transport)
{
    static const unsigned ulpdu[] = {0, 128, 1442, 64768};

    for (unsigned i = 0; i < 4 * 2 * 2 * 9 * 2 * 4; i += ONE_IN) {
        unsigned rtr = i / 16 % 9; /* 8: client-server */
        struct setting s = {.transport = transport,
                            .markers = {i & 1, i >> 1 & 1},
                            .crc = i >> 2 & 1,
                            .rev = 1 + (i >> 3 & 1),
                            .peer_to_peer = rtr < 8,
                            .rtr = {rtr & 7, 0},
                            .placement = (enum iwarp_placement)(i / 144 % 2),
                            .ulpdu_max = ulpdu[i / 288]};
        if (transport == PAIR_MEMORY) {
            if (s.markers[0] != s.markers[1]) {
                continue;
            }
            s.rtr[1] = s.rtr[0];
        }
        try_setting(&s, i);
    }
}

static void start__any_setting_in_memory__works(void **state)
{
    (void)state;
    start_all(PAIR_MEMORY);
}

/* [MPA-7.1-04] [MPA-7.1.2-01] */
/* [MPA-7.1.1-05] [MPA-7.1.1-06] */
static void start__any_setting_over_tcp4__works(void **state)
{
    (void)state;
    start_all(PAIR_TCP4);
}

static void start__markers_over_tcp6__works(void **state)
{
    struct setting s = {PAIR_TCP6, {true, true}, true, 2, true, {7, 7}, IWARP_PLACE_EARLY, 0};

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        try_setting(&s, i);
    }
}

/* --- masks of both sides ----------------------------------------------------------------------
 */

/* Nothing in common: the responder names what it can, the initiator cannot and says so. */
static void no_common_rtr(const struct setting *s)
{
    struct sockaddr_storage addr;
    struct pair_options o;
    struct pair p;
    socklen_t len;

    say(s);
    pair_options(&o, s);
    pair_prepare(&p, &o);
    must(iwarp_listener_addr(p.listener, &addr, &len));
    must(iwarp_connect(p.side[0].qp, (const struct sockaddr *)&addr, len, &o.conn[0], NULL, 0,
                       p.eq[0], NULL, &p.side[0].conn));
    p.side[1].conn = pair_event(p.eq[1], IWARP_EVENT_REQUEST).conn;
    must(iwarp_accept(p.side[1].conn, p.side[1].qp, NULL, NULL, 0, NULL));
    pair_event(p.eq[1], IWARP_EVENT_ESTABLISHED);
    struct iwarp_event failed = pair_event(p.eq[0], IWARP_EVENT_FAILED);
    assert_int_equal(iwarp_fault_code(failed.fault), IWARP_FAULT_MPA_NO_RTR);
    assert_int_equal(failed.status, IWARP_PROTOCOL);
    struct iwarp_event ended = pair_event(p.eq[1], IWARP_EVENT_DISCONNECTED);
    assert_int_equal(iwarp_fault_code(ended.fault), IWARP_FAULT_PEER_TERMINATE);
    assert_int_equal(ended.status, IWARP_PEER);
    assert_int_equal(iwarp_qp_state(p.side[0].qp), IWARP_QP_ERROR);
    assert_int_equal(iwarp_qp_state(p.side[1].qp), IWARP_QP_ERROR);
    pair_close(&p);
}

static void rtr__each_mask_at_each_side__is_settled_or_refused(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8 * 8 * 4; i++) {
        struct setting s = {.transport = PAIR_TCP4,
                            .markers = {i / 64 & 1, i / 128 & 1},
                            .crc = true,
                            .rev = 2,
                            .peer_to_peer = true,
                            .rtr = {i % 8, i / 8 % 8}};
        if (rtr_of(&s)) {
            try_setting(&s, i);
        } else {
            no_common_rtr(&s);
        }
    }
}

/* --- who is first ------------------------------------------------------------------------------
 */

/* Both close at once, before anything but the ready-to-receive message went either way. */
static void disconnect__at_once__is_in_order(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * 3 * 3 * 4; i++) {
        struct setting s = {.transport = i & 1 ? PAIR_TCP4 : PAIR_MEMORY,
                            .markers = {i / 18 & 1, i / 18 & 1},
                            .crc = true,
                            .rev = 2,
                            .peer_to_peer = true,
                            .rtr = {1u << (i / 2 % 3), 0}};
        struct pair_options o;
        struct pair p;
        say(&s);
        s.rtr[1] = s.rtr[0];
        pair_options(&o, &s);
        pair_prepare(&p, &o);
        if (s.rtr[0] == IWARP_RTR_SEND) {
            pair_recv(&p.side[1], 2, IN, 8);
        }
        pair_connect(&p);
        unsigned who = i / 6 % 3;
        if (who != 1) {
            must(iwarp_disconnect(p.side[0].conn));
        }
        if (who != 0) {
            must(iwarp_disconnect(p.side[1].conn));
        }
        for (int k = 0; k < 2; k++) {
            must(iwarp_conn_wait_end(p.side[k].conn, PAIR_WAIT_MS));
            if (iwarp_conn_fault(p.side[k].conn)) {
                char text[400];
                iwarp_fault_text(iwarp_conn_fault(p.side[k].conn), text, sizeof text);
                fail_msg("side %d: %s", k, text);
            }
        }
        pair_close(&p);
    }
}

/* Without peer-to-peer mode the responder's work waits for the initiator's. */
static void responder__client_server__waits_for_the_first_fpdu(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) { /* with revision 1 the option has no effect */
        struct setting s = {.transport = i & 1 ? PAIR_TCP4 : PAIR_MEMORY,
                            .markers = {true, true},
                            .crc = true,
                            .rev = i & 2 ? 1 : 2,
                            .peer_to_peer = (i & 2) != 0};
        struct pair_options o;
        struct iwarp_wc wc;
        struct pair p;
        say(&s);
        pair_options(&o, &s);
        pair_prepare(&p, &o);
        post_receives(&p, &s);
        pair_connect(&p);
        responder_first(&p);
        assert_int_equal(iwarp_cq_wait(p.side[0].recv_cq, &wc, 1, 100), 0);
        pair_no_wc(p.side[1].send_cq);
        pair_write(&p.side[0], 4, 0, 0, &p.side[1], 0);
        pair_wc(p.side[0].send_cq, 4, IWARP_WC_SUCCESS);
        responder_first_came(&p, &s);
        close_in_order(&p, 0);
        pair_close(&p);
    }
}

/* RFC 5044 7.1.1: C=1 in either frame is enough. An end without CRC would send and take anything.
 */
/* [MPA-7.1.1-08] */
static void crc__wished_by_one_side__is_used_by_both(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct setting s = {.transport = PAIR_TCP4, .crc = true, .rev = 1 + i / 2 % 2};
        struct pair_options o;
        struct pair p;
        s.placement = i & 4 ? IWARP_PLACE_EARLY : IWARP_PLACE_VERIFIED;
        say(&s);
        pair_options(&o, &s);
        o.conn[i & 1].crc = false;
        pair_open(&p, &o);
        check_info(&p, &s);
        transfer(&p, 0, 65537, i);
        transfer(&p, 1, 65537, i);
        close_in_order(&p, 0);
        pair_close(&p);
    }
}

/* --- misuse ------------------------------------------------------------------------------------
 */

static void options__rtr_out_of_range__is_misuse(void **state)
{
    static const unsigned wrong[] = {8, 0x10, 0xff, 0x80000000, 0xffffffff};
    struct pair_options o;
    struct pair p;
    struct iwarp_conn *c[2];
    struct iwarp_listener *listener;
    struct sockaddr_storage addr;
    socklen_t len = pair_loopback(PAIR_TCP4, &addr);

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        for (unsigned p2p = 0; p2p < 2; p2p++) {
            o.conn[0].peer_to_peer = p2p;
            o.conn[0].rtr = wrong[i];
            must_fail(
                iwarp_connect_pair(p.side[0].qp, p.side[1].qp, &o.conn[0], p.eq[0], &c[0], &c[1]),
                IWARP_MISUSE, "rtr is 0x");
            must_fail(iwarp_connect(p.side[0].qp, (const struct sockaddr *)&addr, len, &o.conn[0],
                                    NULL, 0, p.eq[0], NULL, &c[0]),
                      IWARP_MISUSE, "rtr is 0x");
            must_fail(iwarp_listen(p.device, (const struct sockaddr *)&addr, len, &o.conn[0], 1,
                                   p.eq[0], NULL, &listener),
                      IWARP_MISUSE, "rtr is 0x");
        }
    }
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(start__any_setting_in_memory__works),
        cmocka_unit_test(start__any_setting_over_tcp4__works),
        cmocka_unit_test(start__markers_over_tcp6__works),
        cmocka_unit_test(rtr__each_mask_at_each_side__is_settled_or_refused),
        cmocka_unit_test(disconnect__at_once__is_in_order),
        cmocka_unit_test(responder__client_server__waits_for_the_first_fpdu),
        cmocka_unit_test(crc__wished_by_one_side__is_used_by_both),
        cmocka_unit_test(options__rtr_out_of_range__is_misuse),
    };

    return cmocka_run_group_tests_name("pair_start", tests, NULL, NULL);
}
