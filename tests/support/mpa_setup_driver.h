/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deliver literal start-up frames to src/mpa/mpa_setup.c whole, octet by octet and in random
 * pieces, with FPDU octets behind them that must not be taken, and check that all end alike. Every
 * piece lies in a block of its own size, so that a sanitizer sees any reading past it. Functions
 * are static, and a program uses what it needs of them.
 */
#ifndef TESTS_MPA_SETUP_DRIVER_H
#define TESTS_MPA_SETUP_DRIVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "mpa/mpa_setup.h"

enum setup_delivery { SETUP_WHOLE, SETUP_OCTETS, SETUP_PIECES };

#define INITIATOR IWARP_MPA_INITIATOR
#define RESPONDER IWARP_MPA_RESPONDER

/* Names of rows without the common prefix. */
#define MPA_FAULT(name) IWARP_FAULT_MPA_##name

/* What follows a frame: a zero-length RDMA Write, as siw sends it for RTR. */
#define FPDU "000ec140000000010000000000000000ebd34c5f"

static uint64_t setup_random_state;

static uint32_t setup_random_below(uint32_t bound)
{
    setup_random_state = setup_random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(setup_random_state >> 33) % bound;
}

static size_t setup_unhex(const char *hex, uint8_t *out)
{
    size_t n = 0;

    for (; *hex; hex += 2, n++) {
        char octet[3] = {hex[0], hex[1], 0};
        out[n] = (uint8_t)strtoul(octet, NULL, 16);
    }
    return n;
}

static void assert_octets(const uint8_t *got, size_t len, const char *hex)
{
    uint8_t want[600];

    assert_int_equal(len, setup_unhex(hex, want));
    assert_memory_equal(got, want, len);
}

/* ---- deliveries ---- */

/*
 * Feed all of data, each piece in a block of its own so that reading past it is seen; returns how
 * much of it was taken.
 */
static size_t setup_deliver(struct iwarp_mpa_setup *s, const uint8_t *data, size_t len,
                            enum setup_delivery how)
{
    size_t taken = 0, used;

    do {
        size_t left = len - taken;
        size_t n = how == SETUP_WHOLE    ? left
                   : how == SETUP_OCTETS ? 1
                                         : 1 + setup_random_below((uint32_t)left);
        uint8_t *piece = malloc(n);
        assert_non_null(piece);
        memcpy(piece, data + taken, n);
        enum iwarp_mpa_step step = iwarp_mpa_setup_feed(s, piece, n, &used);
        free(piece);
        assert_int_equal(step, s->step);
        assert_true(used <= n);
        assert_true(step != IWARP_MPA_MORE || used == n);
        taken += used;
    } while (s->step == IWARP_MPA_MORE && taken < len);
    assert_int_equal(taken, s->have);
    return taken;
}

/* Everything that must not depend on the delivery. */
static void assert_same(const struct iwarp_mpa_setup *a, const struct iwarp_mpa_setup *b)
{
    const struct iwarp_mpa_settled *x = &a->settled, *y = &b->settled;

    assert_int_equal(a->step, b->step);
    assert_int_equal(a->have, b->have);
    assert_memory_equal(a->frame, b->frame, a->have);
    assert_int_equal(a->fault.code, b->fault.code);
    assert_int_equal(a->fault.side, b->fault.side);
    assert_int_equal(a->fault.rx_pos, b->fault.rx_pos);
    assert_memory_equal(a->fault.detail, b->fault.detail, sizeof a->fault.detail);
    assert_true(x->rev == y->rev && x->crc == y->crc && x->markers_rx == y->markers_rx &&
                x->markers_tx == y->markers_tx && x->enhanced == y->enhanced &&
                x->peer_to_peer == y->peer_to_peer && x->rtr == y->rtr && x->ird == y->ird &&
                x->ord == y->ord && x->peer_ird == y->peer_ird && x->peer_ord == y->peer_ord);
}

/*
 * Deliver the frame with FPDU octets behind it in all ways and check that `taken` octets were taken
 * each time; *s is left as the first delivery made it.
 */
static void receive_n(struct iwarp_mpa_setup *s, enum iwarp_mpa_role role,
                      const struct iwarp_mpa_wish *wish, const char *hex, size_t taken)
{
    struct iwarp_mpa_setup other;
    uint8_t data[700];
    size_t len = setup_unhex(hex, data);

    len += setup_unhex(FPDU, data + len);
    iwarp_mpa_setup_init(s, role, wish);
    assert_int_equal(setup_deliver(s, data, len, SETUP_WHOLE), taken);
    for (int round = 0; round < 6; round++) {
        iwarp_mpa_setup_init(&other, role, wish);
        assert_int_equal(setup_deliver(&other, data, len, round == 0 ? SETUP_OCTETS : SETUP_PIECES),
                         taken);
        assert_same(s, &other);
    }
    size_t used = 1; /* it is over: nothing more is taken */
    assert_int_equal(iwarp_mpa_setup_feed(s, data, len, &used), s->step);
    assert_int_equal(used, 0);
}

static void receive(struct iwarp_mpa_setup *s, enum iwarp_mpa_role role,
                    const struct iwarp_mpa_wish *wish, const char *hex, enum iwarp_mpa_step step)
{
    receive_n(s, role, wish, hex, strlen(hex) / 2);
    assert_int_equal(s->step, step);
    assert_int_equal(s->fault.code == IWARP_FAULT_NONE, step == IWARP_MPA_FRAME);
}

static void refuse(enum iwarp_mpa_role role, const struct iwarp_mpa_wish *wish, const char *hex,
                   size_t taken, enum iwarp_fault_code code, uint64_t d0, uint64_t d1, uint64_t d2)
{
    struct iwarp_mpa_setup s;
    uint8_t out[IWARP_MPA_FRAME_MAX];
    char text[300];
    size_t len;

    receive_n(&s, role, wish, hex, taken);
    assert_int_equal(s.step, IWARP_MPA_FAULT);
    assert_string_equal(iwarp_fault_name(s.fault.code), iwarp_fault_name(code));
    assert_int_equal(s.fault.side, IWARP_SIDE_LOCAL);
    assert_int_equal(s.fault.detail[0], d0);
    assert_int_equal(s.fault.detail[1], d1);
    assert_int_equal(s.fault.detail[2], d2);
    assert_int_equal(s.fault.rx_pos, taken);
    assert_true(iwarp_fault_text(&s.fault, text, sizeof text) < sizeof text);
    if (role == IWARP_MPA_RESPONDER) { /* no Reply to a bad Request. RFC 5044 7.1.2 (2) */
        assert_int_equal(iwarp_mpa_setup_reply(&s, false, NULL, NULL, 0, out), 0);
    }
    iwarp_mpa_setup_private_data(&s, &len);
    assert_true(len <= s.have);
}

static void assert_private(const struct iwarp_mpa_setup *s, const char *hex)
{
    size_t len;
    const void *pd = iwarp_mpa_setup_private_data(s, &len);

    assert_octets(pd, len, hex);
}

static void assert_depths(const struct iwarp_mpa_setup *s, unsigned ird, unsigned ord,
                          unsigned peer_ird, unsigned peer_ord)
{
    assert_int_equal(s->settled.ird, ird);
    assert_int_equal(s->settled.ord, ord);
    assert_int_equal(s->settled.peer_ird, peer_ird);
    assert_int_equal(s->settled.peer_ord, peer_ord);
}

/* ---- what is sent ---- */

__attribute__((unused)) static void assert_request(const struct iwarp_mpa_wish *wish,
                                                   const char *pd, const char *want)
{
    struct iwarp_mpa_setup s;
    uint8_t out[IWARP_MPA_FRAME_MAX];

    iwarp_mpa_setup_init(&s, INITIATOR, wish);
    assert_octets(out, iwarp_mpa_setup_request(&s, pd, strlen(pd), out), want);
}

/* The Request comes, the answer must be exactly `want`; *s is left behind. */
static void assert_reply(struct iwarp_mpa_setup *s, const struct iwarp_mpa_wish *wish,
                         const char *request, bool reject, const char *want)
{
    uint8_t out[IWARP_MPA_FRAME_MAX];

    receive(s, RESPONDER, wish, request, IWARP_MPA_FRAME);
    assert_octets(out, iwarp_mpa_setup_reply(s, reject, NULL, NULL, 0, out), want);
}

/* ---- mutations ---- */

/* One mutated frame with enough octets behind it; all that can be said without knowing the rules.
 */
static void mutant_check(enum iwarp_mpa_role role, const struct iwarp_mpa_wish *wish,
                         const uint8_t *data, size_t len, const char *key)
{
    struct iwarp_mpa_setup s;
    uint8_t out[IWARP_MPA_FRAME_MAX];
    char text[300];
    size_t pd_len = (size_t)data[18] << 8 | data[19], got;
    bool key_right = memcmp(data, key, 16) == 0;

    iwarp_mpa_setup_init(&s, role, wish);
    size_t taken =
        setup_deliver(&s, data, len, setup_random_below(16) ? SETUP_WHOLE : SETUP_PIECES);
    assert_int_not_equal(s.step, IWARP_MPA_MORE);
    assert_true(key_right ? taken >= 20 : taken <= 16 && s.step == IWARP_MPA_FAULT);
    assert_true(taken <= 20 || taken == 20 + pd_len);
    assert_true(taken == 20 + pd_len || s.step == IWARP_MPA_FAULT);
    const uint8_t *pd = iwarp_mpa_setup_private_data(&s, &got);
    assert_true(pd + got <= s.frame + s.have || got == 0);
    assert_true(iwarp_mpa_setup_describe(&s, text, sizeof text) < sizeof text);
    if (s.step == IWARP_MPA_FRAME && role == IWARP_MPA_RESPONDER) {
        size_t words = s.settled.enhanced ? 4 : 0;
        assert_int_equal(iwarp_mpa_setup_reply(&s, false, NULL, data, 5, out), 25 + words);
        assert_int_equal(out[17], data[17]);
        assert_int_equal(out[16] & 0x0f, 0);
    }
}

__attribute__((unused)) static void setup_mutants_check(enum iwarp_mpa_role role,
                                                        const struct iwarp_mpa_wish *wish,
                                                        const char *hex, size_t total)
{
    uint8_t data[IWARP_MPA_FRAME_MAX + 40] = {0};
    size_t len = setup_unhex(hex, data);

    for (size_t i = len; i < sizeof data; i++) {
        data[i] = (uint8_t)setup_random_below(256);
    }
    for (size_t i = 0; i < total; i++) {
        uint8_t right = data[i];
        for (unsigned value = 0; value < 256; value++) {
            data[i] = (uint8_t)value;
            mutant_check(role, wish, data, sizeof data,
                         role == IWARP_MPA_RESPONDER ? "MPA ID Req Frame" : "MPA ID Rep Frame");
        }
        data[i] = right;
    }
}

#endif
