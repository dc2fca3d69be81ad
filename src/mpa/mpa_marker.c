/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA Markers, both ways. RFC 5044 4.2 to 4.4. What is a fault of the stream and when the CRC is
 * taken is the business of src/stream.
 */
#include "mpa/mpa_marker.h"

#include "base/bytes.h"

#include <assert.h>

/* Of the 16 bits: the low two count as 0, FPDUs begin at multiples of 4. [MPA-4.2-05] */
#define FPDUPTR_MASK 0xfffcu

uint32_t iwarp_mpa_marked_len(uint64_t pos, uint32_t len)
{
    uint32_t at = (uint32_t)(pos % IWARP_MPA_MARKER_SPACING);
    /* Data octets of the current interval that are before pos. */
    uint32_t before = at < IWARP_MPA_MARKER_LEN ? 0 : at - IWARP_MPA_MARKER_LEN;

    if (len == 0) {
        return 0;
    }
    uint32_t between = (before + len - 1) / IWARP_MPA_MARKER_DATA;
    return iwarp_mpa_marker_left(pos) + len + between * IWARP_MPA_MARKER_LEN;
}

/* Between FPDUs it points to the one that follows, with 0. [MPA-4.3-05] [MPA-4.3-10] */
static uint64_t distance(uint64_t at, uint64_t origin)
{
    return at == origin - IWARP_MPA_MARKER_LEN ? 0 : at - origin;
}

/* [MPA-4.2-01] [MPA-4.2-02] [MPA-4.2-04] [MPA-4.3-03] */
void iwarp_mpa_marker_put(uint8_t *p, uint64_t at, uint64_t origin)
{
    assert(at % IWARP_MPA_MARKER_SPACING == 0 && origin % 4 == 0);
    assert(distance(at, origin) <= FPDUPTR_MASK);
    iwarp_put_be32(p, (uint32_t)distance(at, origin));
}

/* [MPA-4.2-03] [MPA-4.2-05] [MPA-4.3-06] [MPA-8-01] [MPA-8-04] */
bool iwarp_mpa_marker_check(const uint8_t *p, uint64_t at, uint64_t origin,
                            struct iwarp_fault *fault)
{
    uint32_t ptr = iwarp_get_be16(p + 2) & FPDUPTR_MASK;

    if (ptr == distance(at, origin)) {
        return true;
    }
    iwarp_fault_set(fault, IWARP_FAULT_MPA_MARKER, IWARP_SIDE_LOCAL, at, ptr, distance(at, origin));
    return false;
}

/* [MPA-4.3-01] [MPA-4.3-02] [MPA-4.3-07] [MPA-4.3-08] [MPA-4.3-09] */
unsigned iwarp_mpa_marker_weave(uint64_t pos, const struct iovec *in, unsigned n, uint8_t *markers,
                                struct iovec *out)
{
    uint64_t origin = iwarp_mpa_marker_origin(pos);
    unsigned used = 0;

    assert(pos % 4 == 0);
    for (unsigned i = 0; i < n; i++) {
        uint8_t *p = in[i].iov_base;
        size_t left = in[i].iov_len;
        while (left > 0) {
            size_t take = iwarp_mpa_marker_gap(pos);
            if (take == 0) {
                iwarp_mpa_marker_put(markers, pos, origin);
                out[used++] = (struct iovec){markers, IWARP_MPA_MARKER_LEN};
                markers += IWARP_MPA_MARKER_LEN;
                pos += IWARP_MPA_MARKER_LEN;
                take = IWARP_MPA_MARKER_DATA;
            }
            take = take < left ? take : left;
            out[used++] = (struct iovec){p, take};
            p += take;
            pos += take;
            left -= take;
        }
    }
    return used;
}

/* [MPA-4.3-12] */
bool iwarp_mpa_marker_strip(uint8_t *dst, const uint8_t *src, uint64_t pos, uint32_t len,
                            struct iwarp_fault *fault)
{
    uint64_t origin = iwarp_mpa_marker_origin(pos);

    assert(pos % 4 == 0);
    while (len > 0) {
        uint32_t take = iwarp_mpa_marker_gap(pos);
        if (take == 0) {
            if (!iwarp_mpa_marker_check(src, pos, origin, fault)) {
                return false;
            }
            src += IWARP_MPA_MARKER_LEN;
            pos += IWARP_MPA_MARKER_LEN;
            take = IWARP_MPA_MARKER_DATA;
        }
        take = take < len ? take : len;
        memmove(dst, src, take);
        dst += take;
        src += take;
        pos += take;
        len -= take;
    }
    return true;
}
