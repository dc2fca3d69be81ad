/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two directions of a connection in the hands of the dissector's walk, as TCP of a capture would
 * hand them over, and what was found in each; and Sends to put in.
 */
#ifndef TESTS_DISSECT_WAY_H
#define TESTS_DISSECT_WAY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "dissector/walk.h"
#include "support/octets.h"

#define REQ "4d504120494420526571204672616d65 "
#define REP "4d504120494420526570204672616d65 "

/* What TCP of a capture does: keeps what is waited for, and offers it again with more. */
struct direction {
    struct dissect_conn *conn;
    unsigned side;
    uint32_t seq; /* of held.p */
    struct octets held;
    bool no_waiting;
    unsigned fpdus, good, bad, absent, unverified, setups, resynced, cut, late, bad_length;
    size_t skipped, rest, unseen;
    uint32_t msn_sum;
    size_t from[64]; /* sequence numbers where the first of them begin */
    struct dissect_frame last;
};

static inline void count_fpdu(struct direction *d, const struct dissect_item *item, uint32_t seq)
{
    if (d->fpdus < 64) {
        d->from[d->fpdus] = seq;
    }
    d->fpdus++;
    assert_true(item->crc_status != DISSECT_CRC_GOOD || item->crc == item->crc_expected);
    assert_true(item->crc_status != DISSECT_CRC_BAD || item->crc != item->crc_expected);
    d->good += item->crc_status == DISSECT_CRC_GOOD;
    d->bad += item->crc_status == DISSECT_CRC_BAD;
    d->absent += item->crc_status == DISSECT_CRC_ABSENT;
    d->unverified += item->crc_status == DISSECT_CRC_UNVERIFIED;
    d->resynced += item->resynced;
    d->cut += item->cut;
    d->late += item->late;
    d->last = item->frame;
}

static inline void offer(struct direction *d, const struct octets *o, size_t captured)
{
    const struct dissect_octets piece = {.p = o->p,
                                         .captured = captured,
                                         .reported = o->n,
                                         .seq = d->seq,
                                         .may_wait = !d->no_waiting};
    struct dissect_item item;
    size_t at = 0;

    while (at < piece.reported && dissect_walk(d->conn, d->side, &piece, at, &item)) {
        assert_int_equal(item.at, at);
        assert_true(item.size > 0);
        if (item.kind != DISSECT_ITEM_FPDU && item.kind != DISSECT_ITEM_SETUP) {
            assert_true(item.size <= piece.reported - at);
        }
        if (item.kind == DISSECT_ITEM_WAIT) {
            break;
        }
        d->setups += item.kind == DISSECT_ITEM_SETUP;
        d->bad_length += item.bad_length;
        d->skipped += item.kind == DISSECT_ITEM_SKIPPED ? item.size : 0;
        d->rest += item.kind == DISSECT_ITEM_REST ? item.size : 0;
        d->unseen += item.kind == DISSECT_ITEM_UNSEEN ? item.size : 0;
        if (item.kind == DISSECT_ITEM_FPDU) {
            count_fpdu(d, &item, d->seq + (uint32_t)at);
        }
        at += item.size;
    }
    at = at < o->n ? at : o->n;
    d->seq += (uint32_t)at;
    /* What nobody wants is gone; what is waited for stays. */
    if (d->no_waiting || at == o->n || item.kind != DISSECT_ITEM_WAIT) {
        d->seq += (uint32_t)(o->n - at);
        octets_free(&d->held);
        return;
    }
    struct octets left = {0};
    octets_add(&left, o->p + at, o->n - at);
    octets_free(&d->held);
    d->held = left;
}

static inline void segment(struct direction *d, const uint8_t *p, size_t n)
{
    struct octets all = {0};

    octets_add(&all, d->held.p, d->held.n);
    octets_add(&all, p, n);
    offer(d, &all, all.n);
    octets_free(&all);
}

static inline void in_pieces(struct direction *d, const struct octets *o, size_t size)
{
    for (size_t at = 0; at < o->n; at += size) {
        segment(d, o->p + at, o->n - at < size ? o->n - at : size);
    }
}

/* A gap: what was waited for never comes. */
static inline void lose(struct direction *d, size_t n)
{
    d->seq += (uint32_t)(d->held.n + n);
    octets_free(&d->held);
}

static inline void handshake(struct direction *a, struct direction *b, const char *req,
                             const char *rep)
{
    struct octets o = {0};

    octets_hex(&o, req);
    segment(a, o.p, o.n);
    octets_free(&o);
    octets_hex(&o, rep);
    segment(b, o.p, o.n);
    octets_free(&o);
    assert_int_equal(a->setups, 1);
    assert_int_equal(b->setups, 1);
}

static inline void put_send(struct octets *o, unsigned msn, size_t payload)
{
    char header[64];

    snprintf(header, sizeof header, "4143 00000000 00000000 %08x 00000000", msn);
    fpdu_hex(o, header, payload);
}

static inline void put_send_marked(struct octets *o, uint64_t origin, unsigned msn, size_t payload)
{
    char header[64];

    snprintf(header, sizeof header, "4143 00000000 00000000 %08x 00000000", msn);
    fpdu_hex_marked(o, origin + o->n, header, payload);
}

static inline void put_sends(struct octets *o, unsigned n, size_t payload)
{
    for (unsigned i = 1; i <= n; i++) {
        put_send(o, i, payload + i);
    }
}

struct pair {
    struct dissect_conn conn;
    struct direction a, b;
};

static inline void pair_init(struct pair *p)
{
    memset(p, 0, sizeof *p);
    p->a.conn = p->b.conn = &p->conn;
    p->b.side = 1;
    p->a.seq = 0xffffff00; /* wraps soon */
    p->b.seq = 77;
}

static inline void pair_free(struct pair *p)
{
    octets_free(&p->a.held);
    octets_free(&p->b.held);
}

#endif
