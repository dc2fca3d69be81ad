/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An FPDU that could begin at some place of a piece: what speaks for it. Used by the walk when it
 * knows the place, and by its search when it does not.
 */
#ifndef DISSECTOR_CANDIDATE_H
#define DISSECTOR_CANDIDATE_H

#include "walk.h"

/* As many tell enough. */
enum { DISSECT_FOLLOWERS = 64 };

struct dissect_candidate {
    struct dissect_frame frame;
    struct dissect_header header;
    bool measured;  /* the length field is there */
    bool decoded;   /* and the control octets */
    bool plausible; /* a header that breaks no rule, as far as it is there */
    bool full;      /* the header is there to its end */
    bool complete;  /* all octets are captured */
    bool crc_right, crc_zero;
    bool odd;         /* its markers are where RFC 5044 4.3 would not have them */
    unsigned pointed; /* of its markers that are there, those that point to its start, */
    unsigned astray;  /* and those that do not */
    uint32_t crc, crc_expected;
    bool exact; /* ends where the piece ends */

    /* By dissect_candidate_follow: */
    unsigned followers; /* FPDUs that seem to begin behind it, one behind the other */
    unsigned inside;    /* markers inside them all that point where they should */
    bool broken;        /* then comes something that is none, or a marker is astray */
    unsigned bits;      /* chance would make all that once in 2^bits places */
};

/* Looks at offset `at`; position counts from a marker (any value if not marked). */
void dissect_candidate_look(struct dissect_candidate *c, const struct dissect_octets *o, size_t at,
                            uint32_t position, bool marked, bool revision_0);

/* What stands behind it, to the end of the piece but no further than `most` FPDUs. */
void dissect_candidate_follow(struct dissect_candidate *c, const struct dissect_octets *o,
                              size_t at, unsigned most, bool revision_0);

/*
 * Searches the place of markers by those within an FPDU at `at` that point to its start: *c,
 * followed, is the one for which most speaks. False if there is none.
 */
bool dissect_candidate_find_markers(struct dissect_candidate *c, const struct dissect_octets *o,
                                    size_t at, bool revision_0);

/* Is more said for this one than for the other, of the same place? Both were followed. */
bool dissect_candidate_is_better(const struct dissect_candidate *c,
                                 const struct dissect_candidate *other);

/*
 * For senders that put markers at other distances, or with their pointer the wrong way round: found
 * by the CRC alone. Says nothing of where those of other FPDUs are.
 */
bool dissect_candidate_find_odd_markers(struct dissect_candidate *c, const struct dissect_octets *o,
                                        size_t at);

#endif
