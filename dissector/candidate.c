/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Evidence for an FPDU. See candidate.h.
 */
#include "candidate.h"

#include <string.h>

/* Length field and the larger of the two DDP headers. */
#define HEAD (DISSECT_LENGTH_SIZE + DISSECT_UNTAGGED_SIZE)

/* Does an FPDU or a start-up frame begin here, as far as can be seen? */
static enum dissect_known looks_like_one(const struct dissect_octets *o, size_t at,
                                         uint32_t position, bool marked, bool revision_0)
{
    struct dissect_frame frame;
    struct dissect_header header;
    uint8_t head[HEAD];
    size_t n;

    if (at >= o->captured) {
        return DISSECT_UNKNOWN;
    }
    n = o->captured - at;
    if (n >= 4 && dissect_setup_kind(o->p + at, n) != DISSECT_NO_SETUP) {
        return DISSECT_ON;
    }
    if (!dissect_frame_measure(&frame, o->p + at, n, position, marked)) {
        return DISSECT_UNKNOWN;
    }
    n = dissect_frame_unmark(&frame, o->p + at, n, head, sizeof head);
    if (n < DISSECT_LENGTH_SIZE + 2 ||
        !dissect_header_decode(&header, head + DISSECT_LENGTH_SIZE, n - DISSECT_LENGTH_SIZE,
                               frame.ulpdu_length, revision_0)) {
        return DISSECT_UNKNOWN;
    }
    return header.faults == 0 ? DISSECT_ON : DISSECT_OFF;
}

/* Markers that point to the start of their FPDU. */
static unsigned count_pointed(const struct dissect_frame *f, const uint8_t *p)
{
    unsigned n = 0;

    for (unsigned i = 0; i < f->markers; i++) {
        n += dissect_frame_check(f, i, p + dissect_frame_marker(f, i)) != DISSECT_POINTER_WRONG;
    }
    return n;
}

/* Everything but what stands behind it. */
static void judge(struct dissect_candidate *c, const struct dissect_octets *o, size_t at,
                  bool revision_0)
{
    const size_t n = at < o->captured ? o->captured - at : 0;
    uint8_t head[HEAD];
    const size_t have = dissect_frame_unmark(&c->frame, o->p + at, n, head, sizeof head);

    if (have >= DISSECT_LENGTH_SIZE + 2) {
        c->decoded =
            dissect_header_decode(&c->header, head + DISSECT_LENGTH_SIZE,
                                  have - DISSECT_LENGTH_SIZE, c->frame.ulpdu_length, revision_0);
        c->plausible = c->decoded && c->header.faults == 0;
        c->full = c->decoded && c->header.have >= c->header.size;
    }
    c->complete = c->frame.whole <= n;
    c->exact = at + c->frame.whole == o->reported;
    if (c->complete) {
        c->crc = dissect_frame_crc(&c->frame, o->p + at);
        c->crc_expected = dissect_frame_crc_expected(&c->frame, o->p + at);
        c->crc_zero = c->crc == 0;
        c->crc_right = c->crc == c->crc_expected;
        c->pointed = count_pointed(&c->frame, o->p + at);
    }
}

bool dissect_candidate_is_pointed_to(const struct dissect_candidate *c)
{
    return c->complete && c->plausible && c->full && c->pointed == c->frame.markers &&
           c->frame.markers >= (c->frame.lead > 0 ? 3 : 2);
}

void dissect_candidate_look(struct dissect_candidate *c, const struct dissect_octets *o, size_t at,
                            uint32_t position, bool marked, bool revision_0)
{
    const size_t n = at < o->captured ? o->captured - at : 0;

    memset(c, 0, sizeof *c);
    c->measured = dissect_frame_measure(&c->frame, o->p + at, n, position, marked);
    if (!c->measured) {
        return;
    }
    judge(c, o, at, revision_0);
    if (c->complete) {
        c->next = looks_like_one(o, at + c->frame.whole, position + (uint32_t)c->frame.whole,
                                 marked, revision_0);
    }
}

/*
 * A marker in front of the first FPDU has the pointer 0; one inside tells its distance from the
 * length field. Only one that does, with reserved octets of 0, is worth a CRC.
 */
bool dissect_candidate_find_markers(struct dissect_candidate *c, const struct dissect_octets *o,
                                    size_t at, bool no_crc, bool revision_0, uint32_t *position)
{
    const uint8_t *p = o->p + at;
    const size_t n = o->captured - at;
    struct dissect_candidate d;

    memset(c, 0, sizeof *c);
    for (size_t m = 0; m < DISSECT_MARKER_DISTANCE && m + DISSECT_MARKER_SIZE <= n; m += 4) {
        const uint32_t here = (uint32_t)(DISSECT_MARKER_DISTANCE - m) % DISSECT_MARKER_DISTANCE;
        if (p[m] != 0 || p[m + 1] != 0 || (size_t)(p[m + 2] << 8 | p[m + 3]) != m) {
            continue;
        }
        dissect_candidate_look(&d, o, at, here, true, revision_0);
        if (d.frame.markers == 0 || !d.plausible || !d.full) {
            continue;
        }
        if (d.complete && (d.crc_right || (no_crc && dissect_candidate_is_pointed_to(&d)))) {
            *c = d;
            *position = here;
            return true;
        }
        if (!d.complete && !c->measured) {
            *c = d;
        }
    }
    return false;
}

bool dissect_candidate_find_odd_markers(struct dissect_candidate *c, const struct dissect_octets *o,
                                        size_t at)
{
    static const unsigned distances[] = {DISSECT_MARKER_DISTANCE, DISSECT_MARKER_DISTANCE_ODD};
    const uint8_t *p = o->p + at;
    const size_t n = o->captured - at;
    struct dissect_candidate d;

    memset(c, 0, sizeof *c);
    for (size_t m = 0; m < DISSECT_MARKER_DISTANCE_ODD && m + DISSECT_MARKER_SIZE <= n; m += 4) {
        for (unsigned i = 0; i < 2; i++) {
            memset(&d, 0, sizeof d);
            d.measured = dissect_frame_measure_odd(&d.frame, p, n, m, distances[i]);
            if (!d.measured || d.frame.markers == 0 || p[m] != 0 || p[m + 1] != 0 ||
                dissect_frame_check(&d.frame, 0, p + m) == DISSECT_POINTER_WRONG) {
                continue;
            }
            judge(&d, o, at, false);
            /* The CRC is over the markers, too, wherever they are: they have to tell it all. */
            if (d.complete && d.plausible && d.full && d.crc_right && d.pointed > c->pointed) {
                *c = d;
            }
        }
    }
    return c->pointed > 0;
}
