/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzing the start-up of both roles. The first octets choose the role, the wish and the pieces in
 * which the rest, the peer's frame and what follows it, is delivered. Checked are the invariants of
 * mpa_setup.h, that the pieces make no difference, and that an answer has the form of RFC 5044 7.1.
 */
#include "fuzz.h"

#include "mpa/mpa_frame.h"
#include "mpa/mpa_setup.h"

#include <stdlib.h>
#include <string.h>

#define HEAD 8

static void check(const struct iwarp_mpa_setup *s)
{
    FUZZ_EXPECT(s->have <= s->need && s->need <= sizeof s->frame);
    FUZZ_EXPECT(s->have <= 20 || s->need > 20);
    FUZZ_EXPECT((s->step == IWARP_MPA_MORE || s->step == IWARP_MPA_FRAME) ==
                (s->fault.code == IWARP_FAULT_NONE));
    FUZZ_EXPECT((s->step != IWARP_MPA_FRAME && s->step != IWARP_MPA_REJECTED) ||
                s->have == s->need);
}

/* In pieces of `step` octets, each a block of its own; 0: all at once. */
static size_t feed(struct iwarp_mpa_setup *s, const uint8_t *p, size_t n, size_t step)
{
    size_t at = 0;

    while (at < n && s->step == IWARP_MPA_MORE) {
        size_t k = step == 0 || step > n - at ? n - at : step, used = 0;
        uint8_t *piece = malloc(k);
        FUZZ_EXPECT(piece != NULL);
        memcpy(piece, p + at, k);
        enum iwarp_mpa_step now = iwarp_mpa_setup_feed(s, piece, k, &used);
        free(piece);
        FUZZ_EXPECT(now == s->step && used <= k && (now != IWARP_MPA_MORE || used == k));
        at += used;
        check(s);
    }
    FUZZ_EXPECT(at == s->have);
    return at;
}

static void check_settled(const struct iwarp_mpa_setup *s)
{
    const struct iwarp_mpa_settled *t = &s->settled;

    if (s->step == IWARP_MPA_FRAME) {
        FUZZ_EXPECT(!s->wish.crc || t->crc);
        FUZZ_EXPECT(t->markers_rx == s->wish.markers_rx);
        FUZZ_EXPECT((t->rtr & (t->rtr - 1)) == 0); /* one at most */
        FUZZ_EXPECT(t->ird <= 0x3fff && t->ord <= 0x3fff);
    }
}

static void answer(struct iwarp_mpa_setup *s, const uint8_t *head, const uint8_t *pd, size_t pd_len)
{
    uint8_t out[IWARP_MPA_FRAME_MAX];
    bool reject = head[3] & 0x80;
    bool was_frame = s->step == IWARP_MPA_FRAME && s->role == IWARP_MPA_RESPONDER;
    size_t n = iwarp_mpa_setup_reply(s, reject, NULL, pd, pd_len, out);
    size_t words = s->settled.enhanced ? 4 : 0;

    FUZZ_EXPECT(was_frame || n == 0);
    if (n > 0) {
        FUZZ_EXPECT(n == 20 + words + pd_len && n <= sizeof out);
        FUZZ_EXPECT(memcmp(out, "MPA ID Rep Frame", 16) == 0);
        FUZZ_EXPECT((out[16] & 0x0f) == 0 && ((out[16] & 0x20) != 0) == reject);
        FUZZ_EXPECT((size_t)(out[18] << 8 | out[19]) == words + pd_len);
        check_settled(s);
    }
}

static void ask(const struct iwarp_mpa_setup *s, const uint8_t *pd, size_t pd_len)
{
    uint8_t out[IWARP_MPA_FRAME_MAX];
    size_t n = iwarp_mpa_setup_request(s, pd, pd_len, out);
    size_t words = s->wish.rev >= 2 ? 4 : 0;

    FUZZ_EXPECT((n > 0) == (s->role == IWARP_MPA_INITIATOR && words + pd_len <= 512));
    if (n > 0) {
        FUZZ_EXPECT(n == 20 + words + pd_len && n <= sizeof out);
        FUZZ_EXPECT(memcmp(out, "MPA ID Req Frame", 16) == 0 && out[17] == s->wish.rev);
        FUZZ_EXPECT(pd_len == 0 || memcmp(out + 20 + words, pd, pd_len) == 0);
    }
}

/* RFC 5044 4.5: with length, markers, padding and CRC the FPDU fits the segment, if 128 octets do.
 */
static void check_mulpdu(uint32_t emss, bool markers)
{
    uint32_t n = iwarp_mpa_mulpdu(emss, markers), marks = markers ? (emss + 511) / 512 * 4 : 0;

    FUZZ_EXPECT(n >= IWARP_MPA_MULPDU_MIN && n <= IWARP_MPA_ULPDU_MAX);
    FUZZ_EXPECT(n == IWARP_MPA_MULPDU_MIN || (2 + n + 3) / 4 * 4 + 4 + marks <= emss);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct iwarp_mpa_setup s, other;
    char text[400];
    size_t pd_len;

    if (size < HEAD) {
        return 0;
    }
    const struct iwarp_mpa_wish wish = {
        .rev = data[0] & 2 ? 1 : 2,
        .crc = data[0] & 4,
        .markers_rx = data[0] & 8,
        .peer_to_peer = data[0] & 16,
        .rtr = data[1] & 7,
        .ird = (uint16_t)(data[4] << 8 | data[5]) & 0x3fff,
        .ord = (uint16_t)(data[6] << 8 | data[7]) & 0x3fff,
    };
    enum iwarp_mpa_role role = data[0] & 1 ? IWARP_MPA_INITIATOR : IWARP_MPA_RESPONDER;
    iwarp_mpa_setup_init(&s, role, &wish);
    iwarp_mpa_setup_init(&other, role, &wish);
    size_t taken = feed(&s, data + HEAD, size - HEAD, 0);
    FUZZ_EXPECT(feed(&other, data + HEAD, size - HEAD, 1 + (data[2] & 0x3f)) == taken);
    FUZZ_EXPECT(s.step == other.step && s.fault.code == other.fault.code);
    FUZZ_EXPECT(memcmp(&s.settled, &other.settled, sizeof s.settled) == 0);
    check_settled(&s);
    ask(&s, data + HEAD, size - HEAD);
    check_mulpdu((uint32_t)data[3] << 16 | (uint32_t)data[4] << 8 | data[5], data[2] & 1);
    const uint8_t *pd = iwarp_mpa_setup_private_data(&s, &pd_len);
    FUZZ_EXPECT(pd != NULL && (pd_len == 0 || pd + pd_len == s.frame + s.have));
    FUZZ_EXPECT(iwarp_mpa_setup_describe(&s, text, sizeof text) < sizeof text);
    FUZZ_EXPECT(iwarp_fault_text(&s.fault, text, sizeof text) < sizeof text);
    answer(&s, data, pd, pd_len);
    return 0;
}
