/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * MPA start-up. See setup.h.
 */
#include "setup.h"

#include "wire.h"

#include <string.h>

static const char request_key[] = "MPA ID Req Frame", reply_key[] = "MPA ID Rep Frame";

enum dissect_setup_kind dissect_setup_kind(const uint8_t *p, size_t n)
{
    const size_t seen = n < DISSECT_KEY_SIZE ? n : DISSECT_KEY_SIZE;

    if (seen == 0) {
        return DISSECT_NO_SETUP;
    }
    if (memcmp(p, request_key, seen) == 0) {
        return DISSECT_REQUEST;
    }
    return memcmp(p, reply_key, seen) == 0 ? DISSECT_REPLY : DISSECT_NO_SETUP;
}

static unsigned fixed_size(uint8_t revision)
{
    return revision == 129 ? DISSECT_SETUP_SIZE_129 : DISSECT_SETUP_SIZE;
}

size_t dissect_setup_extent(const uint8_t *p, size_t n)
{
    if (n < DISSECT_SETUP_SIZE) {
        return 0;
    }
    return fixed_size(p[17]) + (size_t)wire_u16(p + 18);
}

static void decode_enhanced(struct dissect_setup *s, const uint8_t *p)
{
    const uint16_t a = wire_u16(p), b = wire_u16(p + 2);

    s->enhanced = true;
    s->peer_to_peer = a & 0x8000;
    s->ird = a & 0x3fff;
    s->ord = b & 0x3fff;
    s->rtr = (uint8_t)((a & 0x4000 ? DISSECT_RTR_SEND : 0) | (b & 0x8000 ? DISSECT_RTR_WRITE : 0) |
                       (b & 0x4000 ? DISSECT_RTR_READ : 0));
}

bool dissect_setup_decode(struct dissect_setup *s, const uint8_t *p, size_t n)
{
    *s = (struct dissect_setup){0};
    if (n < DISSECT_SETUP_SIZE || dissect_setup_kind(p, n) == DISSECT_NO_SETUP) {
        return false;
    }
    s->kind = dissect_setup_kind(p, n);
    s->markers = p[16] & 0x80;
    s->crc = p[16] & 0x40;
    s->rejected = p[16] & 0x20;
    s->revision = p[17];
    s->enhanced_flag = s->revision == 2 && p[16] & 0x10;
    s->reserved = p[16] & (s->revision == 2 ? 0x0f : 0x1f);
    s->private_length = wire_u16(p + 18);
    s->size = fixed_size(s->revision);
    if (s->size == DISSECT_SETUP_SIZE_129 && n >= s->size) {
        s->cookie = wire_u32(p + 20);
        s->congestion = wire_u32(p + 24);
    }
    if (s->enhanced_flag && s->private_length >= 4 && n >= DISSECT_SETUP_SIZE + 4) {
        decode_enhanced(s, p + DISSECT_SETUP_SIZE);
    }
    return true;
}

/* What is not negotiated is the largest number there is. */
static uint16_t smaller_depth(uint16_t wished, uint16_t allowed)
{
    return wished < allowed ? wished : allowed;
}

void dissect_setup_agree(struct dissect_agreement *a, const struct dissect_setup *request,
                         const struct dissect_setup *reply)
{
    *a = (struct dissect_agreement){0};
    a->complete = request && reply;
    a->crc = (request && request->crc) || (reply && reply->crc);
    a->crc_known = a->complete || a->crc;
    /* Each side says what it wants to receive: RFC 5044 7.1.1. */
    a->markers_known[0] = reply != NULL;
    a->markers[0] = reply && reply->markers;
    a->markers_known[1] = request != NULL;
    a->markers[1] = request && request->markers;
    a->rejected = reply && reply->rejected;
    a->revision_0 = reply ? reply->revision == 0 : request && request->revision == 0;
    if (a->revision_0) {
        /* RDMA Consortium, RFC 5044 appendix C: both always, whatever the flags say. Not all keep
         * to that, so only what a flag asks for is certain. */
        a->crc_known = a->crc;
        a->markers_known[0] = a->markers[0];
        a->markers_known[1] = a->markers[1];
    }
    if (a->complete && request->enhanced && reply->enhanced) {
        a->depths_known = true;
        a->initiator_ord = smaller_depth(request->ord, reply->ird);
        a->responder_ord = smaller_depth(reply->ord, request->ird);
        a->rtr = request->peer_to_peer ? request->rtr & reply->rtr : 0;
    }
}
