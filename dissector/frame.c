/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FPDUs and markers. See frame.h.
 */
#include "frame.h"

#include "crc.h"
#include "wire.h"

#include <string.h>

#define CRC_SIZE 4

/* Markers in an FPDU of n octets without them, its lead one included. */
static unsigned count_markers(const struct dissect_frame *f, size_t n)
{
    if (n <= f->first_marker) {
        return 0;
    }
    return (unsigned)(1 + (n - f->first_marker - 1) / (f->distance - DISSECT_MARKER_SIZE));
}

/* What follows from where markers are. */
static bool measure(struct dissect_frame *f, const uint8_t *p, size_t n)
{
    size_t data;

    f->lead = f->marked && f->first_marker == 0 ? DISSECT_MARKER_SIZE : 0;
    if (n < f->lead + DISSECT_LENGTH_SIZE) {
        return false;
    }
    f->ulpdu_length = wire_u16(p + f->lead);
    f->pad = (4u - (DISSECT_LENGTH_SIZE + f->ulpdu_length) % 4u) % 4u;
    data = DISSECT_LENGTH_SIZE + (size_t)f->ulpdu_length + f->pad + CRC_SIZE;
    /* One that would stand behind the end is the next FPDU's. */
    f->markers = f->marked ? count_markers(f, data) : 0;
    f->whole = data + (size_t)f->markers * DISSECT_MARKER_SIZE;
    return true;
}

bool dissect_frame_measure(struct dissect_frame *f, const uint8_t *p, size_t n, uint32_t position,
                           bool marked)
{
    const unsigned phase = position % DISSECT_MARKER_DISTANCE;

    *f = (struct dissect_frame){
        .position = position, .marked = marked, .distance = DISSECT_MARKER_DISTANCE};
    if (marked) {
        f->first_marker = phase == 0 ? 0 : DISSECT_MARKER_DISTANCE - phase;
    }
    return measure(f, p, n);
}

bool dissect_frame_measure_odd(struct dissect_frame *f, const uint8_t *p, size_t n, size_t first,
                               unsigned distance)
{
    *f = (struct dissect_frame){.marked = true, .first_marker = first, .distance = distance};
    return measure(f, p, n);
}

size_t dissect_frame_marker(const struct dissect_frame *f, unsigned i)
{
    return f->first_marker + (size_t)i * f->distance;
}

size_t dissect_frame_unmark(const struct dissect_frame *f, const uint8_t *p, size_t n, uint8_t *out,
                            size_t room)
{
    size_t at = 0, written = 0;
    unsigned next = 0;

    n = n < f->whole ? n : f->whole;
    while (at < n && written < room) {
        size_t until = next < f->markers ? dissect_frame_marker(f, next) : n, run;
        if (at == until && next < f->markers) {
            at += DISSECT_MARKER_SIZE;
            next++;
            continue;
        }
        until = until < n ? until : n;
        run = until - at < room - written ? until - at : room - written;
        memcpy(out + written, p + at, run);
        written += run;
        at += run;
    }
    return written;
}

uint16_t dissect_frame_pointer(const struct dissect_frame *f, unsigned i)
{
    /* Counted from the length field, which a lead marker is before: that one has 0. */
    return i == 0 && f->lead ? 0 : (uint16_t)(dissect_frame_marker(f, i) - f->lead);
}

enum dissect_pointer dissect_frame_check(const struct dissect_frame *f, unsigned i,
                                         const uint8_t *p)
{
    const uint16_t right = dissect_frame_pointer(f, i);

    /* The two low bits count as zero: RFC 5044 4.2 with erratum 1427. */
    if ((wire_u16(p + 2) & 0xfffc) == right) {
        return DISSECT_POINTER_RIGHT;
    }
    if ((uint16_t)(p[3] << 8 | (p[2] & 0xfc)) == right) {
        return DISSECT_POINTER_LITTLE;
    }
    return DISSECT_POINTER_WRONG;
}

uint32_t dissect_frame_crc(const struct dissect_frame *f, const uint8_t *p)
{
    return wire_u32_little(p + f->whole - CRC_SIZE);
}

uint32_t dissect_frame_crc_expected(const struct dissect_frame *f, const uint8_t *p)
{
    return dissect_crc32c(0, p, f->whole - CRC_SIZE);
}

bool dissect_frame_could_end(const struct dissect_frame *f, const uint8_t *p, size_t end)
{
    const size_t head = f->lead + DISSECT_LENGTH_SIZE;
    size_t markers = 0;

    if (f->marked && end > f->first_marker) {
        markers = 1 + (end - f->first_marker - 1) / f->distance;
    }
    if (end < head + CRC_SIZE || end < DISSECT_LENGTH_SIZE + CRC_SIZE + 4 * (markers + 1)) {
        return false;
    }
    for (size_t pad = 0; pad < 4; pad++) {
        const size_t n = end - 4 * markers - DISSECT_LENGTH_SIZE - CRC_SIZE - pad;
        const uint8_t length[] = {(uint8_t)(n >> 8), (uint8_t)n};
        uint32_t crc = dissect_crc32c(0, p, f->lead);
        crc = dissect_crc32c(crc, length, sizeof length);
        crc = dissect_crc32c(crc, p + head, end - CRC_SIZE - head);
        if (crc == wire_u32_little(p + end - CRC_SIZE)) {
            return true;
        }
    }
    return false;
}
