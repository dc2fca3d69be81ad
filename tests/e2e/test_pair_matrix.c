/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The option matrix: markers towards either side, CRC, revision, ready-to-receive message, FPDU
 * size, placement, progress. One short conversation per combination: what was settled, a Send, a
 * Write and a Read each way, and an orderly end.
 *
 * All of it in memory (where one set of options counts for both sides) with the progress that the
 * environment says; over TCP so many that every pair of values meets. MATRIX=full (make
 * test-matrix) is every combination over both, with every kind of progress.
 */
#include "progress.h"
#include "verbs_pair.h"

#include <stdio.h>
#include <stdlib.h>

#define OCTETS 3001

enum dimension { MARKERS, CRC, REVISION, RTR, FPDU, PLACEMENT, PROGRESS, DIMENSIONS };

static const unsigned values[DIMENSIONS] = {4, 2, 2, 4, 4, 2, 3};
static const char *const progress[] = {"threaded", "polled", "embedded"};
static const unsigned rtrs[] = {0, IWARP_RTR_SEND, IWARP_RTR_WRITE, IWARP_RTR_READ};
static const unsigned sizes[] = {0, 128, 1443, 64768};

struct combination {
    unsigned v[DIMENSIONS];
};

#define MOST (4u * 2 * 2 * 4 * 4 * 2 * 3)
static struct combination all[MOST];
static unsigned combinations;

/* Revision 1 knows no peer-to-peer mode. */
static bool is_valid(const struct combination *c)
{
    return c->v[REVISION] == 1 || c->v[RTR] == 0;
}

static void enumerate(void)
{
    for (unsigned i = 0; i < MOST; i++) {
        struct combination c;
        unsigned rest = i;
        for (unsigned d = 0; d < DIMENSIONS; d++) {
            c.v[d] = rest % values[d];
            rest /= values[d];
        }
        if (is_valid(&c)) {
            all[combinations++] = c;
        }
    }
}

static void describe(const struct combination *c, enum pair_transport transport)
{
    printf("# %s, markers %u, crc %u, revision %u, rtr %u, ulpdu %u, placement %u, %s\n",
           pair_transport_names[transport], c->v[MARKERS], c->v[CRC], 1 + c->v[REVISION],
           rtrs[c->v[RTR]], sizes[c->v[FPDU]], c->v[PLACEMENT], progress[c->v[PROGRESS]]);
    fflush(stdout);
}

static void set_options(struct pair_options *o, const struct combination *c,
                        enum pair_transport transport)
{
    pair_options_init(o, transport);
    o->memory = 8 * OCTETS;
    for (unsigned i = 0; i < 2; i++) {
        struct iwarp_conn_options *conn = &o->conn[i];
        conn->markers = (c->v[MARKERS] >> i) & 1;
        conn->crc = c->v[CRC];
        conn->mpa_rev = 1 + c->v[REVISION];
        conn->peer_to_peer = i == 0 && c->v[RTR];
        conn->rtr = rtrs[c->v[RTR]];
        conn->ulpdu_max = sizes[c->v[FPDU]];
        conn->placement = (enum iwarp_placement)c->v[PLACEMENT];
    }
}

static void check_settled(const struct pair *p, const struct combination *c)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct iwarp_conn_options *own = &p->options.conn[i];
        struct iwarp_conn_info info = {.size = sizeof info};
        must(iwarp_conn_info(p->side[i].conn, &info));
        assert_int_equal(info.crc, c->v[CRC]);
        assert_int_equal(info.mpa_rev, 1 + c->v[REVISION]);
        assert_int_equal(info.rtr, rtrs[c->v[RTR]]);
        assert_int_equal(info.markers_wanted, own->markers);
        assert_int_equal(info.markers_sent, p->options.transport == PAIR_MEMORY
                                                ? own->markers
                                                : p->options.conn[1 - i].markers);
        if (sizes[c->v[FPDU]]) {
            assert_int_equal(info.mulpdu, sizes[c->v[FPDU]]);
        }
    }
}

/* Areas of OCTETS: 0 to 2 are sent, 3 to 5 received. */
static void transfer(struct pair_side *a, struct pair_side *b, uint64_t seed)
{
    pair_fill(a->p, 3 * OCTETS, seed);
    memset(b->p + 3 * OCTETS, 0xee, 3 * OCTETS);
    pair_recv(b, 1, 3 * OCTETS, OCTETS);
    pair_write(a, 2, OCTETS, OCTETS, b, 4 * OCTETS);
    pair_send(a, 3, 0, OCTETS);
    assert_int_equal(pair_wc(b->recv_cq, 1, IWARP_WC_SUCCESS).byte_len, OCTETS);
    assert_memory_equal(b->p + 3 * OCTETS, a->p, 2 * OCTETS); /* and the Write before it */
    pair_read(b, 4, 5 * OCTETS, OCTETS, a, 2 * OCTETS);
    pair_wc(b->send_cq, 4, IWARP_WC_SUCCESS);
    assert_memory_equal(b->p + 5 * OCTETS, a->p + 2 * OCTETS, OCTETS);
    pair_wc(a->send_cq, 2, IWARP_WC_SUCCESS);
    pair_wc(a->send_cq, 3, IWARP_WC_SUCCESS);
}

/* [MPA-4.4-06] */
static void converse(const struct combination *c, enum pair_transport transport)
{
    struct pair_options o;
    struct pair p;

    describe(c, transport);
    setenv("TEST_PROGRESS", progress[c->v[PROGRESS]], 1);
    set_options(&o, c, transport);
    pair_prepare(&p, &o);
    bool takes_receive = rtrs[c->v[RTR]] == IWARP_RTR_SEND;
    if (takes_receive) {
        pair_recv(&p.side[1], 99, 0, 0);
    }
    pair_connect(&p);
    if (takes_receive) {
        pair_wc(p.side[1].recv_cq, 99, IWARP_WC_SUCCESS);
    }
    check_settled(&p, c);
    if (rtrs[c->v[RTR]]) { /* the responder may begin */
        transfer(&p.side[1], &p.side[0], 2);
        transfer(&p.side[0], &p.side[1], 1);
    } else {
        transfer(&p.side[0], &p.side[1], 1);
        transfer(&p.side[1], &p.side[0], 2);
    }
    must(iwarp_disconnect(p.side[0].conn));
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
    assert_null(iwarp_conn_fault(p.side[0].conn));
    assert_null(iwarp_conn_fault(p.side[1].conn));
    pair_close(&p);
}

/* --- which ----------------------------------------------------------------------------------- */

static bool is_full(void)
{
    const char *wish = getenv("MATRIX");

    return wish && strcmp(wish, "full") == 0;
}

/* The kind of progress that this run is about. */
static unsigned own_progress(void)
{
    const char *wish = getenv("TEST_PROGRESS");
    unsigned i = 2;

    while (i > 0 && (!wish || strcmp(wish, progress[i]) != 0)) {
        i--;
    }
    return i;
}

static bool seen[DIMENSIONS][4][DIMENSIONS][4];

/* Pairs of values that this one brings together and none before did. */
static unsigned pairs(const struct combination *c, bool note)
{
    unsigned n = 0;

    for (unsigned d = 0; d < DIMENSIONS; d++) {
        for (unsigned e = d + 1; e < DIMENSIONS; e++) {
            bool *met = &seen[d][c->v[d]][e][c->v[e]];
            n += !*met;
            *met = *met || note;
        }
    }
    return n;
}

/* Next of a set in which all pairs meet, chosen greedily; NULL when they have. */
static const struct combination *next_of_pairs(void)
{
    const struct combination *best = NULL;
    unsigned most = 0;

    for (unsigned i = 0; i < combinations; i++) {
        unsigned n = pairs(&all[i], false);
        if (n > most) {
            most = n;
            best = &all[i];
        }
    }
    if (best) {
        pairs(best, true);
    }
    return best;
}

static void matrix__in_memory__every_combination_converses(void **state)
{
    unsigned own = own_progress(), n = 0;

    (void)state;
    for (unsigned i = 0; i < combinations; i++) {
        bool alike = all[i].v[MARKERS] == 0 || all[i].v[MARKERS] == 3;
        if (alike && (is_full() || all[i].v[PROGRESS] == own)) {
            converse(&all[i], PAIR_MEMORY);
            n++;
        }
    }
    assert_int_equal(n, is_full() ? 480 : 160);
}

static void matrix__over_tcp__combinations_converse(void **state)
{
    const struct combination *c;
    unsigned n = 0;

    (void)state;
    for (unsigned i = 0; is_full() && i < combinations; i++, n++) {
        converse(&all[i], PAIR_TCP4);
    }
    while (!is_full() && (c = next_of_pairs())) {
        converse(c, PAIR_TCP4);
        n++;
    }
    printf("# %u combinations\n", n);
    assert_in_range(n, is_full() ? 960 : 16, is_full() ? 960 : 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix__in_memory__every_combination_converses),
        cmocka_unit_test(matrix__over_tcp__combinations_converse),
    };

    enumerate();
    return cmocka_run_group_tests_name("pair_matrix", tests, NULL, NULL);
}
