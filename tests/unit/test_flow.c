/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * capture/flow: addresses, and what becomes of sending and receiving as packets.
 */
#include "capture/flow.h"

#include "recording.h"
#include "scratch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { FIN = 0x01, SYN = 0x02, RST = 0x04, PSH = 0x08, ACK = 0x10 };

static struct iwarp_capture *capture;
static char path[4096];
static struct iwarp_headers_addr addr[2];

static int setup(void **state)
{
    static unsigned files;

    (void)state;
    snprintf(path, sizeof path, "%s/%u.pcapng", scratch_path, files++);
    capture = iwarp_capture_open(path, 1 << 20);
    iwarp_flow_made_up(1, addr);
    return capture ? 0 : -1;
}

static void load(struct recording *r)
{
    iwarp_capture_close(capture);
    recording_load(r, path);
}

static void sent(struct iwarp_flow *f, unsigned side, const void *p, size_t n)
{
    const struct iovec iov = {(void *)(uintptr_t)p, n};

    iwarp_flow_hold(f);
    iwarp_flow_sent(f, side, &iov, n);
    iwarp_flow_release(f);
}

static void ended(struct iwarp_flow *f, unsigned side, bool reset)
{
    iwarp_flow_hold(f);
    iwarp_flow_ended(f, side, reset);
    iwarp_flow_release(f);
}

static void received(struct iwarp_flow *f, unsigned side, const void *p, size_t n)
{
    const struct iovec iov = {(void *)(uintptr_t)p, n};

    iwarp_flow_received(f, side, &iov, n);
}

/* --- addresses ------------------------------------------------------------------------------- */

static void addr__of_each_family__is_as_on_the_wire(void **state)
{
    struct iwarp_headers_addr to;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(0x1234)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(0x5678)};
    const struct sockaddr other = {.sa_family = AF_UNIX};

    (void)state;
    inet_pton(AF_INET, "10.1.2.3", &in.sin_addr);
    assert_true(iwarp_flow_addr(&to, (struct sockaddr *)&in, sizeof in));
    assert_true(!to.v6 && to.port == 0x1234 && memcmp(to.ip, "\x0a\x01\x02\x03\0", 5) == 0);
    inet_pton(AF_INET6, "2001:db8::7", &in6.sin6_addr);
    assert_true(iwarp_flow_addr(&to, (struct sockaddr *)&in6, sizeof in6));
    assert_true(to.v6 && to.port == 0x5678 && to.ip[0] == 0x20 && to.ip[15] == 7);
    inet_pton(AF_INET6, "::ffff:10.1.2.3", &in6.sin6_addr);
    assert_true(iwarp_flow_addr(&to, (struct sockaddr *)&in6, sizeof in6));
    assert_true(!to.v6 && to.port == 0x5678 && memcmp(to.ip, "\x0a\x01\x02\x03\0", 5) == 0);
    assert_false(iwarp_flow_addr(&to, &other, sizeof other));
    assert_false(iwarp_flow_addr(&to, (struct sockaddr *)&in, 4));
    assert_false(iwarp_flow_addr(&to, (struct sockaddr *)&in6, sizeof in6 - 1));
}

static void made_up__numbers__differ_in_their_ports(void **state)
{
    struct iwarp_headers_addr a[2], b[2];

    (void)state;
    assert_true(iwarp_flow_number() != iwarp_flow_number());
    iwarp_flow_made_up(5, a);
    iwarp_flow_made_up(5 + 16384, b);
    assert_int_equal(a[0].port, b[0].port);
    assert_int_not_equal(a[1].port, b[1].port);
    assert_true(a[0].port >= 49152 && a[1].port >= 49152);
    assert_memory_equal(a[0].ip, "\xc0\0\x02\x01", 4);
    assert_memory_equal(a[1].ip, "\xc0\0\x02\x02", 4);
}

/* --- one end --------------------------------------------------------------------------------- */

static void one_end__sent_and_received__are_the_streams(void **state)
{
    struct recording r;

    (void)state;
    struct iwarp_flow *f = iwarp_flow_join(capture, addr, 1);
    received(f, 1, "ask", 3);
    iwarp_flow_note(f, 1, "QP 7");
    sent(f, 1, "answer", 6);
    received(f, 1, "more", 4);
    iwarp_flow_received_end(f, 1, false);
    iwarp_flow_received_end(f, 1, false); /* once */
    ended(f, 1, false);
    iwarp_flow_leave(f, 1);
    load(&r);
    static const struct {
        unsigned side, flags;
        bool inbound;
    } expected[] = {{0, SYN, true},       {1, SYN | ACK, false}, {0, ACK, true},
                    {0, PSH | ACK, true}, {1, PSH | ACK, false}, {0, PSH | ACK, true},
                    {0, FIN | ACK, true}, {1, FIN | ACK, false}};
    assert_int_equal(r.packets, sizeof expected / sizeof *expected);
    for (unsigned i = 0; i < r.packets; i++) {
        assert_int_equal(r.packet[i].side, expected[i].side);
        assert_int_equal(r.packet[i].flags, expected[i].flags);
        assert_int_equal(r.packet[i].inbound, expected[i].inbound);
        assert_string_equal(i == 0 ? "" : r.packet[i].comment, i == 4 ? "QP 7" : "");
    }
    assert_non_null(strstr(r.packet[0].comment, "Made up"));
    assert_non_null(strstr(r.comment, "Made up are"));
    recording_expect(&r, 0, 0, "61736b 6d6f7265");
    recording_expect(&r, 0, 1, "616e73776572");
    recording_free(&r);
}

/* Pieces of any size, over more than one packet. */
static void long_send__is_cut_at_65000_octets(void **state)
{
    static uint8_t octets[150000];
    const struct iovec iov[] = {
        {octets, 1}, {NULL, 0}, {octets + 1, 64998}, {octets + 64999, 70000}, {octets + 134999, 9}};
    struct recording r;

    (void)state;
    for (size_t i = 0; i < sizeof octets; i++) {
        octets[i] = (uint8_t)(i * 7 + i / 251);
    }
    struct iwarp_flow *f = iwarp_flow_join(capture, addr, 0);
    iwarp_flow_hold(f);
    iwarp_flow_sent(f, 0, iov, 135005); /* not all of the last piece */
    iwarp_flow_release(f);
    ended(f, 0, true);
    sent(f, 0, "x", 0);
    iwarp_flow_leave(f, 0);
    load(&r);
    assert_int_equal(r.packets, 3 + 3 + 1);
    assert_int_equal(r.packet[3].payload, 65000);
    assert_int_equal(r.packet[4].payload, 65000);
    assert_int_equal(r.packet[5].payload, 5005);
    assert_int_equal(r.packet[6].flags, RST | ACK);
    octets_expect("sent", r.connection[0].octets[0].p, r.connection[0].octets[0].n, octets, 135005);
    recording_free(&r);
}

/* Each analysis of TCP keeps what is not acknowledged. */
static void stream_of_one_direction__is_acknowledged(void **state)
{
    struct recording r;
    unsigned acks = 0, unacked = 0;

    (void)state;
    struct iwarp_flow *f = iwarp_flow_join(capture, addr, 0);
    for (unsigned i = 0; i < 100; i++) {
        sent(f, 0, "x", 1);
    }
    for (unsigned i = 0; i < 100; i++) {
        received(f, 0, "y", 1);
    }
    iwarp_flow_leave(f, 0);
    load(&r);
    for (unsigned i = 3; i < r.packets; i++) {
        const struct recording_packet *p = &r.packet[i], *before = p - 1;
        unacked = p->side == before->side ? unacked + 1 : 1;
        assert_true(unacked <= 32);
        if (p->payload == 0) {
            assert_int_equal(p->flags, ACK);
            assert_int_equal(p->inbound, p->side == 1);
            acks++;
        }
    }
    assert_int_equal(acks, 6);
    recording_free(&r);
}

static void reset__of_the_peer__is_the_last_packet(void **state)
{
    struct recording r;

    (void)state;
    struct iwarp_flow *f = iwarp_flow_join(capture, addr, 0);
    iwarp_flow_received_end(f, 0, true);
    ended(f, 0, true);
    ended(f, 0, false);
    iwarp_flow_leave(f, 0);
    load(&r);
    assert_int_equal(r.packets, 4);
    assert_int_equal(r.packet[3].flags, RST | ACK);
    assert_int_equal(r.packet[3].side, 1);
    recording_free(&r);
}

/* --- both ends ------------------------------------------------------------------------------- */

static void both_ends__in_one_file__are_one_connection(void **state)
{
    struct recording r;

    (void)state;
    struct iwarp_flow *a = iwarp_flow_join(capture, addr, 0);
    sent(a, 0, "early", 5); /* before the other end is there */
    struct iwarp_flow *b = iwarp_flow_join(capture, addr, 1);
    assert_ptr_equal(a, b);
    received(b, 1, "early", 5);
    sent(b, 1, "late", 4);
    ended(b, 1, false);
    iwarp_flow_leave(b, 1);
    received(a, 0, "late", 4); /* after it has gone */
    iwarp_flow_received_end(a, 0, false);
    ended(a, 0, false);
    iwarp_flow_leave(a, 0);
    load(&r);
    assert_int_equal(r.connections, 1);
    assert_int_equal(r.packets, 3 + 2 + 2);
    recording_expect(&r, 0, 0, "6561726c79");
    recording_expect(&r, 0, 1, "6c617465");
    recording_free(&r);
}

/* The same addresses again, while an end of the first is still there: another connection, whose
 * numbers begin elsewhere. */
static void same_addresses__again__are_another_connection(void **state)
{
    struct recording r;

    (void)state;
    struct iwarp_flow *a = iwarp_flow_join(capture, addr, 0),
                      *b = iwarp_flow_join(capture, addr, 1);
    iwarp_flow_leave(a, 0);
    struct iwarp_flow *c = iwarp_flow_join(capture, addr, 0);
    assert_ptr_not_equal(b, c);
    sent(c, 0, "new", 3);
    iwarp_flow_leave(b, 1);
    struct iwarp_flow *d = iwarp_flow_join(capture, addr, 1);
    assert_ptr_equal(c, d);
    iwarp_flow_leave(c, 0);
    iwarp_flow_leave(d, 1);
    load(&r);
    assert_int_equal(r.connections, 2);
    assert_int_not_equal(r.connection[0].next[0], r.connection[1].next[0] - 3);
    recording_expect(&r, 0, 0, "");
    recording_expect(&r, 1, 0, "6e6577");
    recording_free(&r);
}

/* --- what STags stand for -------------------------------------------------------------------- */

#define REQUEST "MPA ID Req Frame\100\1\0\0"
#define REPLY   "MPA ID Rep Frame\100\1\0\0"
/* A Write of nothing to STag 0x500. */
#define WRITE "\0\x0e\xc1\x40\0\0\5\0\0\0\0\0\0\0\0\0\0\0\0\0"

static void describe(void *arg, uint32_t stag, char *text, size_t size)
{
    if (stag == 0x500) {
        snprintf(text, size, "MR 0x500 %s", (const char *)arg);
    }
}

static void stag__of_this_end__is_told_once(void **state)
{
    struct recording r;

    (void)state;
    struct iwarp_flow *f = iwarp_flow_join(capture, addr, 1);
    iwarp_flow_describe(f, 1, describe, (void *)(uintptr_t)"mine");
    received(f, 1, REQUEST, 20);
    sent(f, 1, REPLY, 20);
    iwarp_flow_note(f, 1, "QP 7");
    received(f, 1, WRITE, 7);
    received(f, 1, &WRITE WRITE[7], 33);
    sent(f, 1, WRITE, 20); /* that would be the other end's */
    iwarp_flow_leave(f, 1);
    load(&r);
    assert_int_equal(r.packets, 3 + 2 + 3);
    assert_string_equal(r.packet[4].comment, "");
    assert_string_equal(r.packet[5].comment, "QP 7");
    assert_string_equal(r.packet[6].comment, "MR 0x500 mine");
    assert_string_equal(r.packet[7].comment, "");
    recording_free(&r);
}

static void stag__of_the_other_end__is_told_by_it_while_it_is_there(void **state)
{
    struct recording r;

    (void)state;
    struct iwarp_flow *a = iwarp_flow_join(capture, addr, 0),
                      *b = iwarp_flow_join(capture, addr, 1);
    iwarp_flow_describe(a, 0, describe, (void *)(uintptr_t)"of a");
    iwarp_flow_describe(b, 1, describe, (void *)(uintptr_t)"of b");
    sent(a, 0, REQUEST, 20);
    sent(b, 1, REPLY, 20);
    iwarp_flow_note(a, 0, "QP 9");
    sent(a, 0, WRITE, 20);
    iwarp_flow_leave(a, 0);
    sent(b, 1, WRITE, 20);
    iwarp_flow_leave(b, 1);
    load(&r);
    assert_int_equal(r.packets, 3 + 2 + 2);
    assert_string_equal(r.packet[5].comment, "QP 9; MR 0x500 of b");
    assert_string_equal(r.packet[6].comment, "");
    recording_free(&r);
}

/* Where a direction has markers, nothing is told: its FPDUs are not where they seem to be. */
static void stag__with_markers__is_not_told(void **state)
{
    struct recording r;

    (void)state;
    struct iwarp_flow *f = iwarp_flow_join(capture, addr, 1);
    iwarp_flow_describe(f, 1, describe, (void *)(uintptr_t)"mine");
    received(f, 1, REQUEST, 20);
    sent(f, 1, "MPA ID Rep Frame\300\1\0\0", 20);
    received(f, 1, WRITE, 20);
    iwarp_flow_leave(f, 1);
    load(&r);
    assert_string_equal(r.packet[5].comment, "");
    recording_free(&r);
}

static void capture_over__gives_no_flow(void **state)
{
    static const uint8_t octets[65000];
    struct recording r;

    (void)state;
    struct iwarp_flow *f = iwarp_flow_join(capture, addr, 0);
    for (unsigned i = 0; i < 20; i++) {
        sent(f, 0, octets, sizeof octets);
    }
    assert_true(iwarp_capture_is_over(capture));
    assert_null(iwarp_flow_join(capture, addr, 1));
    ended(f, 0, false);
    iwarp_flow_leave(f, 0);
    load(&r);
    assert_true(r.packet[r.packets - 1].cut);
    recording_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addr__of_each_family__is_as_on_the_wire),
        cmocka_unit_test(made_up__numbers__differ_in_their_ports),
        cmocka_unit_test_setup(one_end__sent_and_received__are_the_streams, setup),
        cmocka_unit_test_setup(long_send__is_cut_at_65000_octets, setup),
        cmocka_unit_test_setup(stream_of_one_direction__is_acknowledged, setup),
        cmocka_unit_test_setup(reset__of_the_peer__is_the_last_packet, setup),
        cmocka_unit_test_setup(both_ends__in_one_file__are_one_connection, setup),
        cmocka_unit_test_setup(same_addresses__again__are_another_connection, setup),
        cmocka_unit_test_setup(stag__of_this_end__is_told_once, setup),
        cmocka_unit_test_setup(stag__of_the_other_end__is_told_by_it_while_it_is_there, setup),
        cmocka_unit_test_setup(stag__with_markers__is_not_told, setup),
        cmocka_unit_test_setup(capture_over__gives_no_flow, setup),
    };

    return cmocka_run_group_tests_name("flow", tests, scratch_setup, scratch_teardown);
}
