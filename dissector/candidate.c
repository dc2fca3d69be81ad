/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Evidence for an FPDU. See candidate.h.
 */
#include "candidate.h"

#include <string.h>

/* Length field and the larger of the two DDP headers. */
#define HEAD (DISSECT_LENGTH_SIZE + DISSECT_UNTAGGED_SIZE)

/* What chance would do once in 2^n places. */
enum {
    BITS_TAGGED = 14,   /* version, reserved bits, opcode and T */
    BITS_UNTAGGED = 44, /* and the queue number */
    BITS_MARKER = 30,
    BITS_CRC = 40,  /* the one thing that payload hardly ever has by itself */
    BITS_ZERO = 24, /* no CRC; much payload is zero, too */
    BITS_EXACT = 8,
    BITS_SETUP = 32
};

/* Markers of the n octets that are there. */
static void check_markers(struct dissect_candidate *c, const uint8_t *p, size_t n)
{
    for (unsigned i = 0; i < c->frame.markers; i++) {
        const size_t m = dissect_frame_marker(&c->frame, i);
        if (m + DISSECT_MARKER_SIZE > n) {
            break;
        }
        if (dissect_frame_check(&c->frame, i, p + m) == DISSECT_POINTER_WRONG) {
            c->astray++;
        } else {
            c->pointed++;
        }
    }
}

/* All but the CRC. */
static void judge(struct dissect_candidate *c, const struct dissect_octets *o, size_t at,
                  bool revision_0)
{
    const size_t n = o->captured - at;
    uint8_t head[HEAD];
    const size_t have = dissect_frame_unmark(&c->frame, o->p + at, n, head, sizeof head);

    c->measured = true;
    if (have >= DISSECT_LENGTH_SIZE + 2) {
        c->decoded =
            dissect_header_decode(&c->header, head + DISSECT_LENGTH_SIZE,
                                  have - DISSECT_LENGTH_SIZE, c->frame.ulpdu_length, revision_0);
        c->plausible = c->decoded && c->header.faults == 0;
        c->full = c->decoded && c->header.have >= c->header.size;
    }
    c->complete = c->frame.whole <= n;
    c->exact = at + c->frame.whole == o->reported;
    check_markers(c, o->p + at, n);
}

static void judge_crc(struct dissect_candidate *c, const uint8_t *p)
{
    if (c->complete) {
        c->crc = dissect_frame_crc(&c->frame, p);
        c->crc_expected = dissect_frame_crc_expected(&c->frame, p);
        c->crc_zero = c->crc == 0;
        c->crc_right = c->crc == c->crc_expected;
    }
}

static void look(struct dissect_candidate *c, const struct dissect_octets *o, size_t at,
                 uint32_t position, bool marked, bool revision_0)
{
    memset(c, 0, sizeof *c);
    if (at < o->captured &&
        dissect_frame_measure(&c->frame, o->p + at, o->captured - at, position, marked)) {
        judge(c, o, at, revision_0);
    }
}

void dissect_candidate_look(struct dissect_candidate *c, const struct dissect_octets *o, size_t at,
                            uint32_t position, bool marked, bool revision_0)
{
    look(c, o, at, position, marked, revision_0);
    judge_crc(c, o->p + at);
}

/* Those in front of an FPDU are but zeroes, as a CRC that is not in use may be. */
static unsigned markers_inside(const struct dissect_candidate *c)
{
    return c->pointed > 0 && c->frame.lead > 0 ? c->pointed - 1 : c->pointed;
}

static void add_bits(struct dissect_candidate *sum, const struct dissect_candidate *c)
{
    sum->inside += markers_inside(c);
    sum->bits += (c->header.tagged ? BITS_TAGGED : BITS_UNTAGGED) + markers_inside(c) * BITS_MARKER;
}

static bool is_setup(const struct dissect_octets *o, size_t at)
{
    return at + 4 <= o->captured &&
           dissect_setup_kind(o->p + at, o->captured - at) != DISSECT_NO_SETUP;
}

void dissect_candidate_follow(struct dissect_candidate *c, const struct dissect_octets *o,
                              size_t at, unsigned most, bool revision_0)
{
    struct dissect_candidate k = *c;
    uint32_t position = c->frame.position;

    c->followers = 0;
    c->broken = !c->plausible || c->astray > 0;
    c->inside = 0;
    c->bits = c->crc_right ? BITS_CRC : c->crc_zero ? BITS_ZERO : 0;
    add_bits(c, c);
    while (!c->broken && k.complete && c->followers < most) {
        if (k.exact) {
            c->bits += BITS_EXACT;
            return;
        }
        at += k.frame.whole;
        position += (uint32_t)k.frame.whole;
        if (is_setup(o, at)) {
            c->bits += BITS_SETUP;
            c->followers++;
            return;
        }
        look(&k, o, at, position, c->frame.marked, revision_0);
        if (!k.decoded) {
            return;
        }
        c->broken = !k.plausible || k.astray > 0;
        add_bits(c, &k);
        c->followers += !c->broken;
    }
}

bool dissect_candidate_is_better(const struct dissect_candidate *c,
                                 const struct dissect_candidate *other)
{
    if (c->crc_right != other->crc_right) {
        return c->crc_right;
    }
    return c->broken != other->broken ? other->broken : c->bits > other->bits;
}

/*
 * A marker in front of the first FPDU has the pointer 0; one inside tells its distance from the
 * length field.
 */
bool dissect_candidate_find_markers(struct dissect_candidate *c, const struct dissect_octets *o,
                                    size_t at, bool revision_0)
{
    const uint8_t *p = o->p + at;
    const size_t n = o->captured - at;
    struct dissect_candidate d;
    bool any = false;

    for (size_t m = 0; m < DISSECT_MARKER_DISTANCE && m + DISSECT_MARKER_SIZE <= n; m += 4) {
        const uint32_t position = (uint32_t)(DISSECT_MARKER_DISTANCE - m) % DISSECT_MARKER_DISTANCE;
        if (p[m] != 0 || p[m + 1] != 0 || (size_t)(p[m + 2] << 8 | p[m + 3]) != m) {
            continue;
        }
        dissect_candidate_look(&d, o, at, position, true, revision_0);
        if (!d.plausible || d.frame.markers == 0) {
            continue;
        }
        dissect_candidate_follow(&d, o, at, DISSECT_FOLLOWERS, revision_0);
        if (d.inside == 0 && d.complete && !d.crc_right) {
            continue; /* four zeroes alone */
        }
        if (!d.broken && (!any || dissect_candidate_is_better(&d, c))) {
            *c = d;
            any = true;
        }
    }
    return any;
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
            if (!dissect_frame_measure_odd(&d.frame, p, n, m, distances[i]) ||
                d.frame.markers == 0 || p[m] != 0 || p[m + 1] != 0 ||
                dissect_frame_check(&d.frame, 0, p + m) == DISSECT_POINTER_WRONG) {
                continue;
            }
            judge(&d, o, at, false);
            judge_crc(&d, p);
            d.odd = true;
            /* The CRC is over the markers, too, wherever they are: they have to tell it all. */
            if (d.complete && d.plausible && d.full && d.crc_right && d.pointed > c->pointed) {
                *c = d;
            }
        }
    }
    return c->pointed > 0;
}
