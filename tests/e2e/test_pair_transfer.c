/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every kind of transfer over every transport, in the combinations of CRC, revision, segment size
 * and placement that matter; what arrived is compared octet by octet.
 */
#include "verbs_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MIB    ((size_t)1 << 20)
#define MEMORY (10 * MIB)

/* Sizes around nothing, padding, one segment of an Ethernet frame, one of 64 KiB. */
static const size_t sizes[] = {0, 1, 3, 64, 1441, 1442, 1443, 65537, 4 * MIB};
#define SIZES (sizeof sizes / sizeof sizes[0])

enum crc_case { CRC_ON, CRC_OFF, CRC_INITIATOR, CRC_RESPONDER, CRC_CASES };

struct setting {
    enum pair_transport transport;
    enum crc_case crc;
    unsigned rev, ulpdu_max;
    enum iwarp_placement placement;
};

static void open_setting(struct pair *p, const struct setting *s)
{
    struct pair_options o;

    pair_options_init(&o, s->transport);
    o.memory = MEMORY;
    o.conn[0].crc = s->crc == CRC_ON || s->crc == CRC_INITIATOR;
    o.conn[1].crc = s->crc == CRC_ON || s->crc == CRC_RESPONDER;
    for (int i = 0; i < 2; i++) {
        o.conn[i].mpa_rev = s->rev;
        o.conn[i].ulpdu_max = s->ulpdu_max;
        o.conn[i].placement = s->placement;
    }
    pair_open(p, &o);
}

static void check_info(const struct pair *p, const struct setting *s)
{
    bool memory_off = s->transport == PAIR_MEMORY && s->crc == CRC_RESPONDER;

    for (int i = 0; i < 2; i++) {
        struct iwarp_conn_info info = {.size = sizeof info};
        must(iwarp_conn_info(p->side[i].conn, &info));
        assert_int_equal(info.crc, s->crc != CRC_OFF && !memory_off);
        assert_int_equal(info.mpa_rev, s->rev);
        assert_int_equal(info.ird, 32);
        assert_int_equal(info.ord, 32);
        assert_true(info.mulpdu >= 128 && info.mulpdu <= 64768);
        if (s->ulpdu_max) {
            assert_int_equal(info.mulpdu, s->ulpdu_max);
        }
    }
}

/* One message of each kind from side a to side b; the lower half of memory is sent, the upper
 * half received. */
static void transfer(struct pair *p, int from, size_t n, uint64_t seed)
{
    struct pair_side *a = &p->side[from], *b = &p->side[1 - from];
    const size_t in = 5 * MIB;

    pair_fill(a->p, n, seed);
    memset(b->p + in, 0xee, n + 1);
    pair_recv(b, 1, in, n);
    pair_send(a, 2, 0, n);
    assert_int_equal(pair_wc(b->recv_cq, 1, IWARP_WC_SUCCESS).byte_len, n);
    assert_memory_equal(b->p + in, a->p, n);
    assert_int_equal(b->p[in + n], 0xee);
    pair_wc(a->send_cq, 2, IWARP_WC_SUCCESS);

    pair_fill(a->p, n, seed + 1);
    pair_recv(b, 3, 0, 0);
    pair_write(a, 4, 0, n, b, in);
    pair_send(a, 5, 0, 0);
    pair_wc(b->recv_cq, 3, IWARP_WC_SUCCESS);
    assert_memory_equal(b->p + in, a->p, n);
    assert_int_equal(b->p[in + n], 0xee);
    pair_wc(a->send_cq, 4, IWARP_WC_SUCCESS);
    pair_wc(a->send_cq, 5, IWARP_WC_SUCCESS);

    pair_fill(b->p, n, seed + 2);
    memset(a->p + in, 0xee, n + 1);
    pair_read(a, 6, in, n, b, 0);
    assert_int_equal(pair_wc(a->send_cq, 6, IWARP_WC_SUCCESS).byte_len, n);
    assert_memory_equal(a->p + in, b->p, n);
    assert_int_equal(a->p[in + n], 0xee);
}

static void try_setting(const struct setting *s, size_t max)
{
    struct pair p;

    open_setting(&p, s);
    check_info(&p, s);
    for (size_t i = 0; i < SIZES && sizes[i] <= max; i++) {
        transfer(&p, 0, sizes[i], i);
        transfer(&p, 1, sizes[i], i + 100);
    }
    for (int i = 0; i < 2; i++) {
        pair_no_wc(p.side[i].send_cq);
        pair_no_wc(p.side[i].recv_cq);
    }
    must(iwarp_disconnect(p.side[0].conn));
    must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
    must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
    assert_null(iwarp_conn_fault(p.side[0].conn));
    assert_null(iwarp_conn_fault(p.side[1].conn));
    pair_close(&p);
}

#ifdef __SANITIZE_THREAD__
#define LARGE_ONE_IN 21
#else
#define LARGE_ONE_IN 5
#endif

/* Every combination with all sizes but the largest, which takes long: that with some only. */
static void transfer_all(enum pair_transport transport)
{
    static const unsigned ulpdu[] = {0, 128, 1442, 64768};
    unsigned n = 0;

    for (unsigned i = 0; i < CRC_CASES * 2 * 4 * 2; i++, n++) {
        const struct setting s = {.transport = transport,
                                  .crc = (enum crc_case)(i % CRC_CASES),
                                  .rev = 1 + i / 4 % 2,
                                  .ulpdu_max = ulpdu[i / 8 % 4],
                                  .placement = (enum iwarp_placement)(i / 32)};
        try_setting(&s, n % LARGE_ONE_IN == 0 ? 4 * MIB : 65537);
    }
}

static void transfer__any_setting_in_memory__data_arrives(void **state)
{
    (void)state;
    transfer_all(PAIR_MEMORY);
}

static void transfer__any_setting_over_tcp4__data_arrives(void **state)
{
    (void)state;
    transfer_all(PAIR_TCP4);
}

static void transfer__over_tcp6__data_arrives(void **state)
{
    const struct setting s = {PAIR_TCP6, CRC_ON, 2, 0, IWARP_PLACE_VERIFIED};

    (void)state;
    try_setting(&s, 4 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transfer__any_setting_in_memory__data_arrives),
        cmocka_unit_test(transfer__any_setting_over_tcp4__data_arrives),
        cmocka_unit_test(transfer__over_tcp6__data_arrives),
    };

    return cmocka_run_group_tests_name("pair_transfer", tests, NULL, NULL);
}
