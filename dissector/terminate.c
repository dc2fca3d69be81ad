/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Terminate messages. See terminate.h.
 */
#include "terminate.h"

#include "wire.h"

#define ANY_CODE 0x100

/* Chelsio's and Intel's hardware sends type 3 for MPA, where RFC 5044 has 0. */
static const struct {
    uint8_t layer, etype;
    uint16_t code;
    const char *name;
} codes[] = {
    {0, 0, ANY_CODE, "Local catastrophic error"},
    {0, 1, 0x00, "Invalid STag"},
    {0, 1, 0x01, "Base or bounds violation"},
    {0, 1, 0x02, "Access rights violation"},
    {0, 1, 0x03, "STag not associated with RDMAP Stream"},
    {0, 1, 0x04, "TO wrap"},
    {0, 1, 0x09, "STag cannot be invalidated"},
    {0, 1, 0xff, "Unspecified error"},
    {0, 2, 0x05, "Invalid RDMAP version"},
    {0, 2, 0x06, "Unexpected opcode"},
    {0, 2, 0x07, "Catastrophic error, localized to RDMAP Stream"},
    {0, 2, 0x08, "Catastrophic error, global"},
    {0, 2, 0x09, "STag cannot be invalidated"},
    {0, 2, 0xff, "Unspecified error"},
    {1, 0, 0x00, "DDP local catastrophic"},
    {1, 1, 0x00, "Invalid STag"},
    {1, 1, 0x01, "Base or bounds violation"},
    {1, 1, 0x02, "STag not associated with DDP Stream"},
    {1, 1, 0x03, "TO wrap"},
    {1, 1, 0x04, "Invalid DDP version"},
    {1, 2, 0x01, "Invalid QN"},
    {1, 2, 0x02, "Invalid MSN, no buffer available"},
    {1, 2, 0x03, "Invalid MSN, out of range"},
    {1, 2, 0x04, "Invalid MO"},
    {1, 2, 0x05, "DDP message too long for available buffer"},
    {1, 2, 0x06, "Invalid DDP version"},
    {1, 3, ANY_CODE, "Reserved for the LLP"},
    {2, 0, 0x01, "TCP connection closed, terminated or lost"},
    {2, 0, 0x02, "MPA CRC error"},
    {2, 0, 0x03, "MPA marker and ULPDU_Length mismatch"},
    {2, 0, 0x04, "Invalid MPA Request or Reply frame"},
    {2, 0, 0x05, "Local catastrophic error (RFC 6581)"},
    {2, 0, 0x06, "Insufficient IRD resources"},
    {2, 0, 0x07, "No matching RTR option"},
    {2, 3, 0x01, "TCP connection closed, terminated or lost"},
    {2, 3, 0x02, "MPA CRC error"},
    {2, 3, 0x03, "MPA marker and ULPDU_Length mismatch"},
    {2, 3, 0x04, "Invalid MPA Request or Reply frame"},
};

static const char *find_code(uint8_t layer, uint8_t etype, uint8_t code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i].layer == layer && codes[i].etype == etype &&
            (codes[i].code == code || codes[i].code == ANY_CODE)) {
            return codes[i].name;
        }
    }
    return NULL;
}

bool dissect_terminate_registered(uint8_t layer, uint8_t etype, uint8_t code)
{
    return find_code(layer, etype, code) != NULL;
}

const char *dissect_terminate_code(uint8_t layer, uint8_t etype, uint8_t code)
{
    const char *name = find_code(layer, etype, code);
    return name ? name : "Unregistered code";
}

const char *dissect_terminate_layer(uint8_t layer)
{
    static const char *const names[] = {"RDMAP", "DDP", "MPA"};
    return layer < 3 ? names[layer] : "Unknown layer";
}

const char *dissect_terminate_type(uint8_t layer, uint8_t etype)
{
    static const char *const names[3][4] = {
        {"Local Catastrophic", "Remote Protection", "Remote Operation", NULL},
        {"Local Catastrophic", "Tagged Buffer", "Untagged Buffer", "LLP"},
        {"MPA", NULL, NULL, "MPA (as some hardware sends it)"},
    };
    return layer < 3 && etype < 4 && names[layer][etype] ? names[layer][etype] : "Unknown type";
}

/*
 * siw's control word is a bit field of the wrong order: type and layer change places, M, D and R
 * are the lowest bits of their octet. Where the header bits do not tell, the order that gives a
 * registered code is taken.
 */
static enum dissect_term_order find_order(const uint8_t *p)
{
    if ((p[2] & 0xe0) != 0) {
        return DISSECT_ORDER_RFC;
    }
    if ((p[2] & 0x07) != 0) {
        return DISSECT_ORDER_SIW;
    }
    return !dissect_terminate_registered(p[0] >> 4, p[0] & 15, p[1]) &&
                   dissect_terminate_registered(p[0] & 15, p[0] >> 4, p[1])
               ? DISSECT_ORDER_SIW
               : DISSECT_ORDER_RFC;
}

static void decode_control(struct dissect_terminate *t, const uint8_t *p)
{
    const bool siw = find_order(p) == DISSECT_ORDER_SIW;

    t->order = siw ? DISSECT_ORDER_SIW : DISSECT_ORDER_RFC;
    t->layer = siw ? p[0] & 15 : p[0] >> 4;
    t->etype = siw ? p[0] >> 4 : p[0] & 15;
    t->code = p[1];
    t->m = p[2] & (siw ? 0x01 : 0x80);
    t->d = p[2] & (siw ? 0x02 : 0x40);
    t->r = p[2] & (siw ? 0x04 : 0x20);
    t->reserved = p[2] & (siw ? 0xf8 : 0x1f);
}

bool dissect_terminate_decode(struct dissect_terminate *t, const uint8_t *p, size_t n)
{
    size_t at = 4;

    *t = (struct dissect_terminate){0};
    if (n < 4) {
        return false;
    }
    decode_control(t, p);
    if (!t->m && !t->d) {
        return true;
    }
    if (n < at + 2) {
        return true;
    }
    t->length_at = 4;
    t->ddp_length = wire_u16(p + 4);
    at += 2;
    if (!t->d || n < at + 2) {
        return true;
    }
    t->ddp_at = (unsigned)at;
    dissect_header_decode(&t->ddp, p + at, n - at, t->ddp_length, false);
    t->ddp_size = n - at < t->ddp.size ? (unsigned)(n - at) : t->ddp.size;
    at += t->ddp_size;
    /* siw says R for Sends too, which have no such header. */
    if (t->r && at < n) {
        t->rdma_at = (unsigned)at;
        t->rdma_size =
            n - at < DISSECT_READ_REQUEST_SIZE ? (unsigned)(n - at) : DISSECT_READ_REQUEST_SIZE;
    }
    return true;
}
