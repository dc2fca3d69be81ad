/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same exchange in every combination: CRC or not, verified or early placement, markers one way,
 * the other way or both, the size of FPDUs, and the four ways of delivery. A Send from 32 odd
 * pieces into 32 other odd pieces, RDMA Writes, and an RDMA Read whose response comes back the same
 * way.
 *
 * RFC 5041 5, RFC 5044 4, RFC 5040 5.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "deliveries.h"

#define OCTETS 30011

static const uint32_t mulpdus[] = {128, 129, 131, 530, 1442, 1443, 8942, 64768};
#define MULPDUS (sizeof mulpdus / sizeof *mulpdus)
#define MARKERS 4
#define CASES   ((size_t)PLACEMENTS * DELIVERIES * MARKERS * MULPDUS)

struct exchange {
    enum placement placement;
    enum delivery way;
    bool markers[2]; /* towards the requester, and from it */
    uint32_t mulpdu;
    char name[96];
};

/* Pieces of odd lengths that cover an area, differently for each salt. */
static unsigned pieces(const struct area *a, size_t salt, struct iwarp_sge *sgl)
{
    size_t at = 0;

    for (unsigned i = 0; i < IWARP_MAX_SGE; i++) {
        size_t n = i == IWARP_MAX_SGE - 1 ? a->n - at : (i * salt * 37 + salt) % 1800 / (1 + i % 3);
        n = n < a->n - at ? n : a->n - at;
        sgl[i] = area_sge(a, at, n);
        at += n;
    }
    return IWARP_MAX_SGE;
}

/* Everything that `from` has to send, to the other end. */
static void carry_over(struct endpoint *from, struct endpoint *to, enum delivery way,
                       struct chance *c)
{
    endpoint_forget_sent(from);
    endpoint_drain_randomly(from, c);
    deliver(to, way, from->sent.p, from->sent.n, c);
    assert_int_equal(from->s.fault.code, IWARP_FAULT_NONE);
    assert_int_equal(to->s.fault.code, IWARP_FAULT_NONE);
}

static void expect_octets(const struct area *a, const struct area *like)
{
    octets_expect("data", a->p, a->n, like->p, like->n);
}

static void post_exchange(struct endpoint *a, struct endpoint *b, const struct area *source,
                          const struct area *landing, const struct area *sink)
{
    struct iwarp_sge sgl[IWARP_MAX_SGE];
    struct iwarp_sge all = area_sge(sink, 0, OCTETS);

    endpoint_recv(b, sgl, pieces(landing, 23, sgl));
    endpoint_post(a, &(struct iwarp_send_wr){.sg_list = sgl, .num_sge = pieces(source, 29, sgl)});
    endpoint_post(a, &(struct iwarp_send_wr){.opcode = IWARP_WR_WRITE,
                                             .sg_list = sgl,
                                             .num_sge = pieces(source, 31, sgl),
                                             .remote_stag = 0x00010203,
                                             .remote_to = 0xfffffffffff00000});
    endpoint_post(a, &(struct iwarp_send_wr){.opcode = IWARP_WR_READ,
                                             .sg_list = &all,
                                             .num_sge = 1,
                                             .flags = IWARP_WR_FENCE,
                                             .remote_stag = 0x00010203,
                                             .remote_to = 0xfffffffffff00000});
    endpoint_recv(b, NULL, 0);
    endpoint_post(a, &(struct iwarp_send_wr){.flags = IWARP_WR_FENCE});
}

static void run_exchange(void **state)
{
    const struct exchange *x = *state;
    struct endpoint_options options = {.no_crc = x->placement == PLACE_NO_CRC,
                                       .early = x->placement == PLACE_EARLY,
                                       .markers_rx = x->markers[0],
                                       .markers_tx = x->markers[1],
                                       .mulpdu = x->mulpdu,
                                       .ird = 1,
                                       .ord = 1};
    struct chance c = {chance_seed()};
    struct endpoint a, b;

    endpoint_init(&a, &options);
    options.markers_rx = x->markers[1];
    options.markers_tx = x->markers[0];
    endpoint_init(&b, &options);
    struct area *source = endpoint_area(&a, 0x00aabb00, 0x3000, OCTETS, 0, 0);
    struct area *sink = endpoint_area(&a, 0x00aabc00, 0x3001, OCTETS, LOCAL, 0);
    struct area *landing = endpoint_area(&b, 0x00aabd00, 0x5003, OCTETS, LOCAL, 0);
    struct area *target =
        endpoint_area(&b, 0x00010203, 0xfffffffffff00000, OCTETS, WRITABLE | READABLE, 0);
    for (size_t i = 0; i < OCTETS; i++) {
        source->p[i] = (uint8_t)chance_next(&c);
    }
    post_exchange(&a, &b, source, landing, sink);
    carry_over(&a, &b, x->way, &c);
    assert_int_equal(b.rq.done, 1); /* the other Send is behind the fence */
    expect_octets(landing, source);
    expect_octets(target, source);
    carry_over(&b, &a, x->way, &c);
    expect_octets(sink, source);
    assert_int_equal(a.sq.done, 3);
    carry_over(&a, &b, x->way, &c);
    assert_int_equal(a.sq.done, 4);
    assert_int_equal(b.rq.done, 2);
    assert_int_equal(endpoint_rwqe(&b, 0)->byte_len, OCTETS);
    if (x->placement == PLACE_VERIFIED) {
        assert_true(a.s.rx.direct == 0 && b.s.rx.direct == 0);
    }
    endpoint_fini(&a);
    endpoint_fini(&b);
}

int main(void)
{
    static const char *const placements[] = {"verified", "early", "no_crc"};
    static const char *const ways[] = {"whole", "singly", "split", "mixed", "lent"};
    static struct exchange all[CASES];
    static struct CMUnitTest tests[CASES];

    for (size_t i = 0; i < CASES; i++) {
        struct exchange *x = &all[i];
        x->placement = (enum placement)(i % PLACEMENTS);
        x->way = (enum delivery)(i / PLACEMENTS % DELIVERIES);
        size_t markers = i / PLACEMENTS / DELIVERIES % MARKERS;
        x->markers[0] = markers & 1;
        x->markers[1] = markers & 2;
        x->mulpdu = mulpdus[i / PLACEMENTS / DELIVERIES / MARKERS];
        snprintf(x->name, sizeof x->name, "exchange__%s_%s%s%s_mulpdu_%u__arrives",
                 placements[x->placement], ways[x->way], x->markers[0] ? "_markers_in" : "",
                 x->markers[1] ? "_markers_out" : "", x->mulpdu);
        tests[i] = (struct CMUnitTest){x->name, run_exchange, NULL, NULL, x};
    }
    return cmocka_run_group_tests_name("stream_matrix", tests, NULL, NULL);
}
