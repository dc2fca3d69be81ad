/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzing the dissector's walk. Input: one octet of options, then pieces, each with a head of four
 * octets (side and flags, a step of the sequence number, two octets of length) and its octets.
 * Flags let a piece be cut short, not be waited for, or have the CRCs of its FPDUs put right first.
 *
 * Checked: every item lies where the one before ended and is not empty, FPDUs are as long as their
 * length field says, nothing outside of what was captured is read (the pieces are allocations of
 * their own, under ASan), and all decoders stand what the walk hands them.
 */
#include "fuzz.h"

#include "dissector/terminate.h"
#include "dissector/walk.h"
#include "octets.h"

#include <string.h>

enum { SIDE = 1, NO_WAITING = 2, CUT = 4, REPAIR = 8, REPEAT = 16 };
enum { STRICT = 1, NO_MIDSTREAM = 2 };

struct direction {
    uint32_t seq;
    struct octets held;
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return 0;
}

static void look_at_fpdu(const struct dissect_item *item, const uint8_t *p, size_t captured)
{
    static uint8_t plain[70000];
    const size_t n = dissect_frame_unmark(&item->frame, p, captured, plain, sizeof plain);
    struct dissect_header h;
    struct dissect_terminate t;

    FUZZ_EXPECT(item->size == item->frame.whole);
    FUZZ_EXPECT(n <= captured && n <= 2u + item->frame.ulpdu_length + item->frame.pad + 4u);
    for (unsigned i = 0; i < item->frame.markers; i++) {
        const size_t at = dissect_frame_marker(&item->frame, i);
        FUZZ_EXPECT(at + 4 <= item->frame.whole);
        if (at + 4 <= captured) {
            dissect_frame_check(&item->frame, i, p + at);
        }
    }
    if (n > 4 && dissect_header_decode(&h, plain + 2, n - 2, item->frame.ulpdu_length, false) &&
        n - 2 > h.size) {
        const size_t left = n - 2 - h.size;
        if (dissect_terminate_decode(&t, plain + 2 + h.size, left)) {
            FUZZ_EXPECT(t.ddp_at + t.ddp_size <= left && t.rdma_at + t.rdma_size <= left);
            FUZZ_EXPECT(dissect_terminate_code(t.layer, t.etype, t.code) != NULL);
        }
    }
}

/* Offers all that is held; what is waited for stays. */
static void offer(struct dissect_conn *c, unsigned side, struct direction *d, size_t captured,
                  bool may_wait)
{
    const size_t n = d->held.n;
    uint8_t *exact = malloc(captured > 0 ? captured : 1);
    struct dissect_octets piece = {
        .p = exact, .captured = captured, .reported = n, .seq = d->seq, .may_wait = may_wait};
    struct dissect_item item;
    size_t at = 0;

    FUZZ_EXPECT(exact != NULL);
    if (captured > 0) {
        memcpy(exact, d->held.p, captured);
    }
    while (at < n && dissect_walk(c, side, &piece, at, &item)) {
        FUZZ_EXPECT(item.at == at && item.size > 0);
        if (item.kind == DISSECT_ITEM_WAIT) {
            FUZZ_EXPECT(may_wait && captured == n && item.missing < 70000);
            break;
        }
        if (item.kind == DISSECT_ITEM_FPDU && at < captured) {
            look_at_fpdu(&item, exact + at, captured - at < item.size ? captured - at : item.size);
        }
        at += item.size;
    }
    free(exact);
    if (at < n && may_wait && captured == n && c->way[side].begun) {
        d->seq += (uint32_t)at;
        memmove(d->held.p, d->held.p + at, n - at);
        d->held.n = n - at;
        return;
    }
    d->seq += (uint32_t)n;
    d->held.n = 0;
}

static void repair(uint8_t *p, size_t n)
{
    for (size_t at = 0; n - at >= 8;) {
        const size_t length = (size_t)(p[at] << 8 | p[at + 1]), whole = (2 + length + 3) / 4 * 4;
        if (whole + 4 > n - at) {
            return;
        }
        const uint32_t crc = octets_crc(0, p + at, whole);
        for (unsigned i = 0; i < 4; i++) {
            p[at + whole + i] = (uint8_t)(crc >> 8 * i);
        }
        at += whole + 4;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dissect_conn conn = {0};
    struct direction way[2] = {{.seq = 0xfffffff0}, {.seq = 1}};

    if (size < 1) {
        return 0;
    }
    conn.strict = data[0] & STRICT;
    conn.no_midstream = data[0] & NO_MIDSTREAM;
    for (data++, size--; size >= 4;) {
        const uint8_t flags = data[0];
        struct direction *d = &way[flags & SIDE];
        size_t n = (size_t)(data[2] << 8 | data[3]), from;
        data += 4;
        size -= 4;
        n = n < size ? n : size;
        if (data[-3] != 0 || (flags & REPEAT)) {
            d->held.n = 0;
            d->seq += (uint32_t)(flags & REPEAT ? -data[-3] : data[-3]);
        }
        from = d->held.n;
        octets_add(&d->held, data, n);
        if (flags & REPAIR && n > 0) {
            repair(d->held.p + from, n);
        }
        if (d->held.n > 0) {
            offer(&conn, flags & SIDE, d, flags & CUT ? d->held.n / 2 : d->held.n,
                  !(flags & NO_WAITING));
        }
        data += n;
        size -= n;
    }
    octets_free(&way[0].held);
    octets_free(&way[1].held);
    return 0;
}
