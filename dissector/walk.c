/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The walk: known places first, else the search. See walk.h.
 */
#include "walk.h"

#include "candidate.h"

#include <string.h>

/*
 * How much has to speak for an FPDU, see dissect_candidate: where a segment begins, or something
 * has begun, and in the middle of what could be any other protocol.
 */
enum { BITS_HERE = 46, BITS_ANYWHERE = 54 };

struct place {
    struct dissect_conn *conn;
    struct dissect_way *way;
    const struct dissect_octets *o;
    size_t at;
    uint32_t seq;
};

static void add_end(struct dissect_way *w, uint32_t end)
{
    if (w->n_ends == DISSECT_ENDS) {
        memmove(w->ends, w->ends + 1, (DISSECT_ENDS - 1) * sizeof *w->ends);
        w->n_ends--;
    }
    w->ends[w->n_ends++] = end;
}

static bool take_end(struct dissect_way *w, uint32_t seq)
{
    for (unsigned i = 0; i < w->n_ends; i++) {
        if (w->ends[i] == seq) {
            memmove(w->ends + i, w->ends + i + 1, (w->n_ends - i - 1) * sizeof *w->ends);
            w->n_ends--;
            return true;
        }
    }
    return false;
}

static void see(struct dissect_way *w, struct dissect_item *item, uint32_t seq)
{
    const uint32_t end = seq + (uint32_t)item->size;

    /* What was skipped may come to be seen yet, once the octets before it are there. */
    if (item->kind == DISSECT_ITEM_SKIPPED && !item->bad_length) {
        return;
    }
    item->late = w->has_highest && (int32_t)(w->highest - seq) > 0;
    if (!w->has_highest || (int32_t)(end - w->highest) > 0) {
        w->highest = end;
        w->has_highest = true;
    }
}

void dissect_conn_agreement(const struct dissect_conn *c, struct dissect_agreement *a)
{
    dissect_setup_agree(a, c->has_request ? &c->request : NULL, c->has_reply ? &c->reply : NULL);
}

/* What the start-up frames say, for the framing of both directions. */
static void apply_agreement(struct dissect_conn *c)
{
    struct dissect_agreement a;

    dissect_conn_agreement(c, &a);
    for (unsigned role = 0; role < 2; role++) {
        struct dissect_way *w = &c->way[role == 0 ? c->initiator : 1 - c->initiator];
        if (a.markers_known[role]) {
            w->markers = a.markers[role] ? DISSECT_ON : DISSECT_OFF;
        }
        if (a.crc_known) {
            w->crc = a.crc ? DISSECT_ON : DISSECT_OFF;
        }
        w->revision_0 = a.revision_0;
    }
}

static void learn_setup(const struct place *at, const struct dissect_setup *s, unsigned side)
{
    struct dissect_conn *c = at->conn;

    if (s->kind == DISSECT_REQUEST) {
        /* A second attempt on the same connection is a new start of both directions. */
        if (c->has_request && c->has_reply) {
            c->has_reply = false;
            c->way[1 - side].markers = c->way[0].crc = c->way[1].crc = DISSECT_UNKNOWN;
            c->way[side].markers = DISSECT_UNKNOWN;
        }
        c->request = *s;
        c->has_request = true;
        c->initiator = side;
    } else {
        c->reply = *s;
        c->has_reply = true;
        c->initiator = 1 - side;
    }
    c->has_initiator = true;
    apply_agreement(c);
}

static bool wait(struct dissect_item *item, const struct place *at, size_t missing)
{
    item->kind = DISSECT_ITEM_WAIT;
    item->size = at->o->reported - at->at;
    item->missing = missing;
    return true;
}

static bool are_markers_known(const struct dissect_way *w)
{
    return w->markers == DISSECT_OFF || (w->markers == DISSECT_ON && w->origin);
}

/* DDP and RDMAP of version 0: with revision 0 of MPA, or if nobody knows what revision it is. */
static bool may_be_version_0(const struct place *at)
{
    return at->way->revision_0 || (!at->conn->has_request && !at->conn->has_reply);
}

/* Zeroes are so common that only a CRC makes them a header of version 0, for the first time. */
static bool is_new_version_0(const struct place *at, const struct dissect_candidate *c)
{
    return c->header.dv == 0 && !at->way->revision_0;
}

/* Octets of this FPDU that are to come; 0 if markers could make it longer. */
static size_t missing(const struct place *at, const struct dissect_candidate *c)
{
    return c->measured && are_markers_known(at->way) ? at->at + c->frame.whole - at->o->reported
                                                     : 0;
}

static bool can_wait(const struct dissect_octets *o)
{
    return o->may_wait && o->captured == o->reported;
}

static bool skip(struct dissect_item *item, enum dissect_item_kind kind, size_t n)
{
    item->kind = kind;
    item->size = n;
    return true;
}

/* A start-up frame, if one is here; `known` lets a single octet of its key be enough to wait. */
static bool take_setup(const struct place *at, unsigned side, bool known, struct dissect_item *item)
{
    const struct dissect_octets *o = at->o;
    const uint8_t *p = o->p + at->at;
    const size_t n = o->captured - at->at, reported = o->reported - at->at;
    struct dissect_setup s;
    size_t whole;

    if (n < (known ? 1 : DISSECT_SHORTEST_KEY) || dissect_setup_kind(p, n) == DISSECT_NO_SETUP) {
        return false;
    }
    whole = dissect_setup_extent(p, n);
    if (whole == 0) {
        return can_wait(o) ? wait(item, at, 0) : skip(item, DISSECT_ITEM_SETUP, reported);
    }
    dissect_setup_decode(&s, p, n);
    if (whole > reported && s.private_length > DISSECT_LARGEST_PRIVATE) {
        whole = reported; /* a length that the RFC forbids is not waited for */
    }
    if (whole > n && can_wait(o)) {
        return wait(item, at, whole - n);
    }
    dissect_setup_decode(&s, p, n < whole ? n : whole);
    skip(item, DISSECT_ITEM_SETUP, whole);
    item->cut = whole > n;
    at->way->begun = at->way->grid = at->way->origin = true;
    at->way->first = at->seq + (uint32_t)whole;
    at->way->n_ends = 0;
    add_end(at->way, at->way->first);
    learn_setup(at, &s, side);
    return true;
}

static enum dissect_crc_status judge_crc(struct dissect_way *w, const struct dissect_candidate *c)
{
    if (!c->complete) {
        return w->crc == DISSECT_OFF ? DISSECT_CRC_ABSENT : DISSECT_CRC_UNVERIFIED;
    }
    if (w->crc == DISSECT_UNKNOWN && c->crc_right) {
        w->crc = DISSECT_ON;
    }
    if (w->crc == DISSECT_ON) {
        return c->crc_right ? DISSECT_CRC_GOOD : DISSECT_CRC_BAD;
    }
    return w->crc == DISSECT_OFF || c->crc_zero ? DISSECT_CRC_ABSENT : DISSECT_CRC_UNVERIFIED;
}

/* One that is right, or goes on where it should, and is longer than the distance of markers tells.
 */
static void learn_markers(const struct place *at, const struct dissect_candidate *c)
{
    struct dissect_way *w = at->way;

    if (c->odd || !c->plausible || (!c->crc_right && (c->followers == 0 || c->broken))) {
        return;
    }
    if (c->frame.markers > 0) {
        if (!w->origin) {
            w->grid = w->origin = true;
            w->first = at->seq - c->frame.position;
        }
        w->markers = DISSECT_ON;
    } else if (w->markers == DISSECT_UNKNOWN && c->frame.whole > DISSECT_MARKER_DISTANCE) {
        w->markers = DISSECT_OFF;
    }
}

static bool take_fpdu(const struct place *at, const struct dissect_candidate *c,
                      struct dissect_item *item)
{
    struct dissect_way *w = at->way;
    const uint32_t end = at->seq + (uint32_t)c->frame.whole;

    skip(item, DISSECT_ITEM_FPDU, c->frame.whole);
    item->frame = c->frame;
    item->cut = !c->complete;
    item->crc_status = judge_crc(w, c);
    if (c->complete) {
        item->crc = c->crc;
        item->crc_expected = c->crc_expected;
    }
    learn_markers(at, c);
    if (!w->grid) {
        w->grid = true;
        w->first = at->seq;
    }
    w->begun = true;
    w->revision_0 = w->revision_0 || (c->crc_right && c->plausible && c->header.dv == 0);
    if (at->at + c->frame.whole > at->o->reported) {
        w->open = true;
        w->open_start = at->seq;
        w->open_end = end;
    }
    add_end(w, end);
    return true;
}

/* A connection of which a start-up frame was seen, or this direction began. */
static bool is_iwarp(const struct place *at)
{
    return at->way->begun || at->conn->has_initiator;
}

/* By both sides or by none, RFC 5044 7.1.1. */
static bool is_crc_in_use(const struct place *at)
{
    return at->conn->way[0].crc == DISSECT_ON || at->conn->way[1].crc == DISSECT_ON;
}

/*
 * Is it sure enough that this is an FPDU? Behind what is lost the middle of payload can have all
 * that a header has: a CRC that is neither right nor zero is believed there only if markers point.
 */
static bool is_enough(const struct place *at, struct dissect_candidate *c)
{
    const bool here = at->at == 0 || is_iwarp(at);

    dissect_candidate_follow(c, at->o, at->at, c->crc_right && here ? 1 : DISSECT_FOLLOWERS,
                             may_be_version_0(at));
    if (c->broken) {
        return false;
    }
    if (!c->crc_right) {
        if (at->conn->strict || is_crc_in_use(at) || is_new_version_0(at, c)) {
            return false;
        }
        if (at->at > 0 && !c->crc_zero && c->inside == 0 && at->way->crc != DISSECT_OFF) {
            return false;
        }
    }
    return here ? c->bits >= BITS_HERE : c->bits >= BITS_ANYWHERE && c->followers > 0;
}

/* Cut short by the capture, or by nobody putting pieces together: only the header can tell. */
static bool is_cut_but_likely(const struct place *at, const struct dissect_candidate *c)
{
    if (at->at != 0 || at->conn->strict || c->complete || can_wait(at->o)) {
        return false;
    }
    return c->plausible && c->full && (at->way->begun || c->exact || !c->header.tagged);
}

static bool is_right(const struct dissect_candidate *c)
{
    return c->complete && c->plausible && c->crc_right && c->astray == 0;
}

/* Markers may be there, or are, nobody knows where: what is read best is true. */
static void look_for_markers(const struct place *at, struct dissect_candidate *c)
{
    struct dissect_way *w = at->way;
    struct dissect_candidate other;
    bool found;

    if (w->markers == DISSECT_ON && c->frame.whole > DISSECT_MARKER_DISTANCE) {
        c->plausible = false; /* it would have a marker */
    }
    if (w->origin) {
        dissect_candidate_look(&other, at->o, at->at, at->seq - w->first, true,
                               may_be_version_0(at));
        dissect_candidate_follow(&other, at->o, at->at, DISSECT_FOLLOWERS, may_be_version_0(at));
        found = other.frame.markers > 0;
    } else {
        found = dissect_candidate_find_markers(&other, at->o, at->at, may_be_version_0(at));
    }
    dissect_candidate_follow(c, at->o, at->at, DISSECT_FOLLOWERS, may_be_version_0(at));
    if (found && dissect_candidate_is_better(&other, c)) {
        *c = other;
    }
}

/* The candidate of a place: with markers or without, as far as that is known. */
static void look(const struct place *at, struct dissect_candidate *c)
{
    struct dissect_way *w = at->way;
    const bool marked = w->markers == DISSECT_ON && w->origin;
    struct dissect_candidate other;

    dissect_candidate_look(c, at->o, at->at, at->seq - w->first, marked, may_be_version_0(at));
    if (!is_right(c) && !are_markers_known(w)) {
        look_for_markers(at, c);
    }
    if (!is_right(c) && w->markers == DISSECT_ON && w->crc != DISSECT_OFF &&
        dissect_candidate_find_odd_markers(&other, at->o, at->at) &&
        (!c->crc_right || !c->plausible || other.pointed > c->pointed)) {
        *c = other;
    }
}

/* Cheap: can the control octets be right, as no markers or a lead marker put them? Opcodes of no
 * RFC are too rare to search for. */
static bool is_worth_a_look(const struct place *at)
{
    const uint8_t *p = at->o->p + at->at;
    const size_t n = at->o->captured - at->at;

    if (n < 4) {
        return false;
    }
    if ((p[3] & 15) <= DISSECT_ATOMIC_RESPONSE &&
        (((p[2] & 0x3f) == 1 && p[3] >> 4 == 4) ||
         (may_be_version_0(at) && (p[2] & 0x3f) == 0 && p[3] >> 4 == 0))) {
        return true;
    }
    return at->way->markers != DISSECT_OFF && p[0] == 0 && p[1] == 0;
}

enum evidence { NOTHING, PERHAPS, ENOUGH };

static enum evidence weigh(const struct place *at, struct dissect_candidate *c)
{
    if (!is_worth_a_look(at)) {
        return NOTHING;
    }
    look(at, c);
    if (!c->plausible) {
        return NOTHING;
    }
    if (c->complete) {
        return is_enough(at, c) ? ENOUGH : NOTHING;
    }
    if (is_new_version_0(at, c)) {
        return NOTHING;
    }
    if (is_cut_but_likely(at, c)) {
        return ENOUGH;
    }
    /* The whole of it will decide, once it is there. */
    return can_wait(at->o) && (is_iwarp(at) || (at->at == 0 && c->full)) ? PERHAPS : NOTHING;
}

/* FPDUs begin at multiples of four from the first one, RFC 5044 4.1 and 4.3. */
static size_t first_place(const struct place *at)
{
    return at->way->grid ? (size_t)(at->way->first - at->seq) % 4 : 0;
}

static bool search(const struct place *at, struct dissect_item *item)
{
    const size_t step = at->way->grid ? 4 : 1;
    struct place p = *at;
    struct dissect_candidate c, likely = {0};
    bool has_likely = false;
    size_t likely_at = 0;

    for (size_t k = at->at + first_place(at); k < at->o->captured; k += step) {
        enum evidence e;
        p.at = k;
        p.seq = at->seq + (uint32_t)(k - at->at);
        e = weigh(&p, &c);
        if (e == ENOUGH) {
            if (k == at->at) {
                item->resynced = true;
                return take_fpdu(at, &c, item);
            }
            return skip(item, DISSECT_ITEM_SKIPPED, k - at->at);
        }
        if (e == PERHAPS && !has_likely) {
            has_likely = true;
            likely = c;
            likely_at = k;
        }
    }
    if (has_likely && likely_at == at->at) {
        return wait(item, at, missing(at, &likely));
    }
    if (has_likely) {
        return skip(item, DISSECT_ITEM_SKIPPED, likely_at - at->at);
    }
    if (!at->way->begun) {
        return false;
    }
    return skip(item, DISSECT_ITEM_SKIPPED, at->o->reported - at->at);
}

/*
 * The length is wrong if another one makes the CRC right: how much it should have been, 0 if that
 * is not so. What looks like an FPDU within payload is none for that.
 */
static size_t find_right_length(const struct place *at, const struct dissect_candidate *wrong)
{
    struct place p = *at;
    struct dissect_candidate c;

    for (size_t k = 4; k < wrong->frame.whole && at->at + k < at->o->captured; k += 4) {
        p.at = at->at + k;
        p.seq = at->seq + (uint32_t)k;
        if (!is_worth_a_look(&p)) {
            continue;
        }
        look(&p, &c);
        if (is_right(&c) && dissect_frame_could_end(&wrong->frame, at->o->p + at->at, k)) {
            return k;
        }
    }
    return 0;
}

static bool skip_wrong_length(const struct place *at, const struct dissect_candidate *c,
                              struct dissect_item *item)
{
    const size_t k = at->way->crc == DISSECT_OFF ? 0 : find_right_length(at, c);

    item->bad_length = k > 0;
    return k > 0 && skip(item, DISSECT_ITEM_SKIPPED, k);
}

static bool take_wrong_crc(const struct place *at, struct dissect_candidate *c,
                           struct dissect_item *item)
{
    const bool sure = are_markers_known(at->way);

    dissect_candidate_follow(c, at->o, at->at, 1, may_be_version_0(at));
    if (c->followers > 0 ||
        (c->plausible && (c->exact || at->way->crc != DISSECT_ON) && (sure || !c->broken))) {
        return take_fpdu(at, c, item);
    }
    if (skip_wrong_length(at, c, item)) {
        return true;
    }
    return sure && (c->plausible || c->exact) ? take_fpdu(at, c, item) : search(at, item);
}

static bool take_known(const struct place *at, struct dissect_item *item)
{
    const struct dissect_octets *o = at->o;
    struct dissect_candidate c;

    look(at, &c);
    if (!c.measured || !c.decoded) {
        return can_wait(o) ? wait(item, at, missing(at, &c))
                           : skip(item, DISSECT_ITEM_UNSEEN, o->reported - at->at);
    }
    if (c.complete) {
        return c.crc_right ? take_fpdu(at, &c, item) : take_wrong_crc(at, &c, item);
    }
    if (can_wait(o)) {
        return skip_wrong_length(at, &c, item) || wait(item, at, missing(at, &c));
    }
    return c.plausible ? take_fpdu(at, &c, item) : search(at, item);
}

static bool take_rest(const struct place *at, struct dissect_item *item)
{
    struct dissect_way *w = at->way;
    const size_t n = at->o->reported - at->at, left = w->open_end - at->seq;

    if (!w->open || at->seq - w->open_start >= w->open_end - w->open_start ||
        at->seq == w->open_start) {
        return false;
    }
    return skip(item, DISSECT_ITEM_REST, left < n ? left : n);
}

bool dissect_walk(struct dissect_conn *c, unsigned side, const struct dissect_octets *o, size_t at,
                  struct dissect_item *item)
{
    const struct place here = {
        .conn = c, .way = &c->way[side], .o = o, .at = at, .seq = o->seq + (uint32_t)at};
    const struct dissect_way before = c->way[side];
    bool known, opening, found;

    memset(item, 0, sizeof *item);
    item->at = at;
    if (at >= o->captured) {
        return c->way[side].begun && skip(item, DISSECT_ITEM_UNSEEN, o->reported - at);
    }
    known = take_end(here.way, here.seq);
    /* The first of a connection, or of the answer to a frame that was seen. */
    opening = (o->opening && at == 0) || (c->has_initiator && !here.way->begun);
    found = take_rest(&here, item) || take_setup(&here, side, known || opening, item);
    if (!found && known) {
        found = take_known(&here, item);
    } else if (!found && (here.way->begun || c->has_initiator || !c->no_midstream)) {
        found = search(&here, item);
    }
    if (!found || item->kind == DISSECT_ITEM_WAIT) {
        *here.way = before;
        return found;
    }
    see(here.way, item, here.seq);
    return true;
}
