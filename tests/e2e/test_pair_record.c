/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recording a program whose connections have both ends in it, in memory and over TCP: each octet is
 * in the file once, in an order in which it can have been sent. Also what happens to the connection
 * when the file reaches its bound: nothing.
 */
#include "recording.h"
#include "scratch.h"
#include "verbs_pair.h"

#include <stdio.h>
#include <stdlib.h>

#define REQUEST "4d504120494420526571204672616d65"
#define REPLY   "4d504120494420526570204672616d65"
#define HELLO   "00174143 00000000 00000000 00000001 00000000 68656c6c 6f000000 b990b10c"

#define LARGE 300000

static char path[4096];

static void options(struct pair_options *o, enum pair_transport transport)
{
    static unsigned files;

    snprintf(path, sizeof path, "%s/%u.pcapng", scratch_path, files++);
    pair_options_init(o, transport);
    o->device.pcap = path;
    o->memory = 2 * LARGE;
    for (unsigned i = 0; i < 2; i++) {
        o->conn[i].mpa_rev = 1;
    }
}

/* "hello" one way, then a Write and a Read of LARGE octets each way. */
static void talk(struct pair *p)
{
    struct pair_side *a = &p->side[0], *b = &p->side[1];

    memcpy(a->p, "hello", 5);
    pair_recv(b, 1, 0, 16);
    pair_send(a, 2, 0, 5);
    pair_wc(a->send_cq, 2, IWARP_WC_SUCCESS);
    pair_wc(b->recv_cq, 1, IWARP_WC_SUCCESS);
    pair_fill(a->p, LARGE, 3);
    pair_fill(b->p, LARGE, 4);
    pair_write(a, 5, 0, LARGE, b, LARGE);
    pair_write(b, 6, 0, LARGE, a, LARGE);
    pair_wc(a->send_cq, 5, IWARP_WC_SUCCESS);
    pair_wc(b->send_cq, 6, IWARP_WC_SUCCESS);
    pair_read(a, 7, LARGE, LARGE, b, 0); /* from memory that nothing else changes meanwhile */
    pair_read(b, 8, LARGE, LARGE, a, 0);
    pair_wc(a->send_cq, 7, IWARP_WC_SUCCESS);
    pair_wc(b->send_cq, 8, IWARP_WC_SUCCESS);
}

static void starts_with(const struct recording *r, unsigned side, const char *hex)
{
    struct octets expected = {0};
    const struct octets *got = &r->connection[0].octets[side];

    octets_hex(&expected, hex);
    assert_true(got->n >= expected.n);
    octets_expect("the beginning", got->p, expected.n, expected.p, expected.n);
    octets_free(&expected);
}

/* Each side has sent a Write and the answer to a Read, and little besides. */
static void check_sizes(const struct recording *r)
{
    for (unsigned side = 0; side < 2; side++) {
        size_t n = r->connection[0].octets[side].n;
        assert_true(n > 2 * LARGE && n < 2 * LARGE + LARGE / 10);
    }
}

static void both_ends__in_one_file__each_octet_is_there_once(void **state)
{
    struct recording r;

    (void)state;
    for (int t = 0; t < PAIR_TRANSPORTS; t++) {
        struct pair_options o;
        struct pair p;

        print_message("%s\n", pair_transport_names[t]);
        options(&o, (enum pair_transport)t);
        pair_open(&p, &o);
        talk(&p);
        pair_close(&p);
        recording_load(&r, path);
        assert_int_equal(r.connections, 1);
        assert_true(r.connection[0].v6 == (t == PAIR_TCP6));
        for (unsigned i = 3; i < r.packets; i++) {
            assert_false(r.packet[i].inbound);
        }
        starts_with(&r, 0, REQUEST "40010000" HELLO);
        starts_with(&r, 1, REPLY "40010000");
        check_sizes(&r);
        recording_free(&r);
    }
}

/* The first packets of a conversation have the order in which they were caused. */
static void both_ends__answers__stand_behind_questions(void **state)
{
    struct recording r;

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        struct pair_options o;
        struct pair p;

        options(&o, PAIR_TCP4);
        pair_open(&p, &o);
        pair_read(&p.side[0], 1, 0, 8, &p.side[1], 64);
        pair_wc(p.side[0].send_cq, 1, IWARP_WC_SUCCESS);
        pair_close(&p);
        recording_load(&r, path);
        assert_true(r.packets >= 7);
        for (unsigned k = 3; k < 7; k++) { /* Request, Reply, Read Request, Read Response */
            assert_int_equal(r.packet[k].side, k % 2 == 0);
            assert_true(r.packet[k].payload > 0);
        }
        recording_free(&r);
    }
}

static void bound__reached__leaves_the_connection_alone(void **state)
{
    struct recording r;

    (void)state;
    for (int t = 0; t < PAIR_TRANSPORTS; t++) {
        struct pair_options o;
        struct pair p;

        options(&o, (enum pair_transport)t);
        o.device.pcap_max_bytes = 100000;
        pair_open(&p, &o);
        talk(&p);
        pair_close(&p);
        recording_load(&r, path);
        assert_true(r.file.n <= 100000);
        assert_true(r.packet[r.packets - 1].cut);
        recording_free(&r);
    }
}

/* Nowhere to write to, as well. */
static void file__impossible__leaves_the_connection_alone(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    options(&o, PAIR_MEMORY);
    o.device.pcap = "/no/such/directory/x.pcapng";
    pair_open(&p, &o);
    talk(&p);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends__in_one_file__each_octet_is_there_once),
        cmocka_unit_test(both_ends__answers__stand_behind_questions),
        cmocka_unit_test(bound__reached__leaves_the_connection_alone),
        cmocka_unit_test(file__impossible__leaves_the_connection_alone),
    };

    return cmocka_run_group_tests_name("pair_record", tests, scratch_setup, scratch_teardown);
}
