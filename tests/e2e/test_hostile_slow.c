/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A whole session of a raw peer, from the start-up frame to the FIN, with every kind of message in
 * it, delivered octet by octet, in random pieces, and at once: the same octets come back, the same
 * completions, the same memory. Literal octets both ways.
 *
 * RFC 5044 5.1 and 6 (FPDUs may come in any pieces), RFC 5041 5, RFC 5040 5.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tcp_host.h"

#define REQUEST "4d504120494420526571204672616d65"
#define REPLY   "4d504120494420526570204672616d65"
#define AT_ONCE SIZE_MAX
#define RANDOM  0

static struct tcp_host *host;
static struct chance chance;
static struct iwarp_wc read_wc; /* of the RDMA Read */

static int setup(void **state)
{
    (void)state;
    chance.state = chance_seed();
    host = host_open(NULL, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    host_close(host);
    return 0;
}

/* What the peer sends in Full Operation. D is an STag made for this session, to be invalidated. */
static const char *const said =
    /* V24, an RTR as it may come unasked */
    "000ec140 00000001 00000000 00000000 ebd34c5f |"
    /* a Write of two segments, 600 and 1000 octets, and a zero-length one to nowhere */
    "02668140 W T N77*600 C | 03f6c140 W T+258 N78*1000 C |"
    "000ec140 00000000 00000000 00000000 a30572ab |"
    /* V01; a Send of three segments, one of them empty; one with SE */
    "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c |"
    "00260143 00000000 00000000 00000002 00000000 N31*20 C |"
    "00120143 00000000 00000000 00000002 00000014 C |"
    "00164143 00000000 00000000 00000002 00000014 32323232 C |"
    "00164145 00000000 00000000 00000003 00000000 01020304 bb3419ea |"
    /* a Read of 16 octets, an empty one, one of 1 octet */
    "002e4141 00000000 00000001 00000001 00000000 11223344 00000000 00002000 00000010 R U C |"
    "002e4141 00000000 00000001 00000002 00000000 00000001 00000000 00000000"
    "00000000 00000001 00000000 00000000 C |"
    "002e4141 00000000 00000001 00000003 00000000 55667788 ffffffff ffffffff 00000001 R U+fff C |"
    /* with Invalidate, and with both */
    "00144144 D 00000000 00000004 00000000 6161 0000 C |"
    "00124146 E 00000000 00000005 00000000 C |"
    /* the Response to the Read of this end, in two segments */
    "00728142 L Q+400 N41*100 C | 00aac142 L Q+464 N42*156 C";

/* What this end sends: Read Responses, its Read Request, a Send. */
static void expect_answers(struct octets *o)
{
    struct octets u = {0};

    raw_text(&u, NULL, "c142 11223344 00000000 00002000");
    octets_add(&u, host->r.p, 16);
    fpdu_add(o, u.p, u.n, 0);
    raw_text(o, NULL, "000ec142 00000001 00000000 00000000 21a3e83e"); /* V26 */
    u.n = 0;
    raw_text(&u, NULL, "c142 55667788 ffffffff ffffffff");
    octets_add(&u, host->r.p + HOST_AREA - 1, 1);
    fpdu_add(o, u.p, u.n, 0);
    octets_free(&u);
}

static struct iwarp_wc next_completion(void)
{
    struct iwarp_wc wc = host_completion(host);

    if (wc.wr_id == 200) {
        read_wc = wc;
        wc = host_completion(host);
    }
    return wc;
}

/* The next completion of a receive; that of the RDMA Read may come anywhere between. */
static void check_receive(uint64_t wr_id, uint32_t len, uint32_t flags, uint32_t stag)
{
    struct iwarp_wc wc = next_completion();

    assert_int_equal(wc.status, IWARP_WC_SUCCESS);
    assert_int_equal(wc.opcode, IWARP_WC_RECV);
    assert_int_equal(wc.wr_id, wr_id);
    assert_int_equal(wc.byte_len, len);
    assert_int_equal(wc.flags, flags);
    assert_int_equal(wc.invalidated_stag, stag);
}

static void check_memory(void)
{
    for (unsigned i = 0; i < 1600; i++) {
        assert_int_equal(host->w.p[i], i < 600 ? 0x77 : 0x78);
    }
    assert_memory_equal(host->l.p, "hello", 5);
    assert_memory_equal(host->l.p + 128,
                        "11111111111111111111"
                        "2222",
                        24);
    assert_memory_equal(host->l.p + 256, "\1\2\3\4", 4);
    assert_memory_equal(host->l.p + 384, "aa", 2);
    for (unsigned i = 0; i < HOST_READ_LEN; i++) {
        assert_int_equal(host->l.p[HOST_READ_AT + i], i < 100 ? 0x41 : 0x42);
    }
}

static void start(enum host_role role, unsigned rev, size_t piece)
{
    struct octets frame = {0};

    if (role == HOST_INITIATOR || piece == AT_ONCE) {
        host_connect(host, role, rev, 5);
        return;
    }
    host->fd = raw_connect(&host->addr);
    raw_text(&frame, NULL, rev == 1 ? REQUEST "40010000" : REQUEST "50020004 00100008");
    raw_send_pieces(host->fd, frame.p, frame.n, piece, &chance);
    octets_free(&frame);
    host_accept(host, host_request(host), 5);
    raw_hear(host->fd, NULL, rev == 1 ? REPLY "40010000" : REPLY "50020004 00080010", "the Reply");
    host_event(host, IWARP_EVENT_ESTABLISHED);
}

static void session(enum host_role role, unsigned rev, enum iwarp_placement placement, size_t piece)
{
    uint8_t gone[2][64];
    struct iwarp_mr *mr[2];
    struct octets out = {0}, in = {0};

    host_options(host);
    host->options.placement = placement;
    host->conn = NULL;
    memset(&read_wc, 0, sizeof read_wc);
    host_reset_memory(host);
    start(role, rev, piece);
    for (int i = 0; i < 2; i++) { /* for this queue pair alone: a peer may invalidate them */
        struct iwarp_mr_options o;
        iwarp_mr_options_init(&o, gone[i], sizeof gone[i], IWARP_ACCESS_REMOTE_READ);
        o.qp = host->qp;
        assert_int_equal(iwarp_mr_create(host->pd, &o, &mr[i]), IWARP_OK);
        raw_name(&host->names, (char)('D' + i), iwarp_mr_stag(mr[i]), 4);
    }
    host_begin_read(host);
    raw_text(&out, &host->names, said);
    raw_send_pieces(host->fd, out.p, out.n, piece, &chance);
    check_receive(100, 5, 0, 0);
    check_receive(101, 24, 0, 0);
    check_receive(102, 4, IWARP_WC_SOLICITED, 0);
    check_receive(103, 2, IWARP_WC_WITH_INVALIDATE, iwarp_mr_stag(mr[0]));
    check_receive(104, 0, IWARP_WC_WITH_INVALIDATE | IWARP_WC_SOLICITED, iwarp_mr_stag(mr[1]));
    if (read_wc.wr_id == 0) {
        read_wc = host_completion(host);
    }
    assert_int_equal(read_wc.wr_id, 200);
    assert_int_equal(read_wc.status, IWARP_WC_SUCCESS);
    assert_int_equal(read_wc.opcode, IWARP_WC_READ);
    assert_int_equal(read_wc.byte_len, HOST_READ_LEN);
    check_memory();
    expect_answers(&in);
    raw_expect(host->fd, in.p, in.n, "the RDMA Read Responses");
    raw_fin(host->fd);
    raw_expect_fin(host->fd, "a close in order");
    host_ended(host, IWARP_FAULT_NONE, 0);
    host_finish(host);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(iwarp_mr_deregister(mr[i]), IWARP_OK);
    }
    octets_free(&in);
    octets_free(&out);
    host_check_quiet(host);
}

static void all_settings(size_t piece, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        session(i & 1 ? HOST_INITIATOR : HOST_RESPONDER, i & 2 ? 1 : 2,
                i & 4 ? IWARP_PLACE_EARLY : IWARP_PLACE_VERIFIED, piece);
    }
}

static void session__at_once__works(void **state)
{
    (void)state;
    all_settings(AT_ONCE, 8);
}

/* [MPA-5.1-05] [MPA-A.4-01] [DDP-3-04] [MPA-7.1.5-04] */
static void session__octet_by_octet__is_the_same(void **state)
{
    (void)state;
    all_settings(1, 8);
}

/* [MPA-5.2-01] [MPA-6-04] */
static void session__in_random_pieces__is_the_same(void **state)
{
    (void)state;
    all_settings(RANDOM, 80);
}

static void session__in_pieces_of_any_size__is_the_same(void **state)
{
    (void)state;
    for (size_t piece = 2; piece < 90; piece += 3) {
        all_settings(piece, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session__at_once__works),
        cmocka_unit_test(session__octet_by_octet__is_the_same),
        cmocka_unit_test(session__in_random_pieces__is_the_same),
        cmocka_unit_test(session__in_pieces_of_any_size__is_the_same),
    };
    return cmocka_run_group_tests_name("hostile_slow", tests, setup, teardown);
}
