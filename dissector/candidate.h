/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An FPDU that could begin at some place of a piece: what speaks for it. Used by the walk when it
 * knows the place, and by its search when it does not.
 */
#ifndef DISSECTOR_CANDIDATE_H
#define DISSECTOR_CANDIDATE_H

#include "walk.h"

struct dissect_candidate {
    struct dissect_frame frame;
    struct dissect_header header;
    bool measured;  /* the length field is there */
    bool decoded;   /* and the control octets */
    bool plausible; /* a header that breaks no rule, as far as it is there */
    bool full;      /* the header is there to its end */
    bool complete;  /* all octets are captured */
    bool crc_right, crc_zero;
    unsigned pointed; /* of its markers, those that point to its start */
    uint32_t crc, crc_expected;
    bool exact;              /* ends where the piece ends */
    enum dissect_known next; /* ON: what follows looks like an FPDU; UNKNOWN: too little of it */
};

/* Do its markers, without a CRC, say that it is one? Two do; one in front of it is but zeroes. */
bool dissect_candidate_is_pointed_to(const struct dissect_candidate *c);

/* Looks at offset `at`; position counts from a marker (any value if not marked). */
void dissect_candidate_look(struct dissect_candidate *c, const struct dissect_octets *o, size_t at,
                            uint32_t position, bool marked, bool revision_0);

/*
 * Searches the place of markers by an FPDU at `at` that has one inside and is right with it: by its
 * CRC, or without one (`no_crc`) by all of its markers. *position is then that of offset `at`. If
 * there is none, *c is one that could be, of which octets are missing; or it is not measured.
 */
bool dissect_candidate_find_markers(struct dissect_candidate *c, const struct dissect_octets *o,
                                    size_t at, bool no_crc, bool revision_0, uint32_t *position);

/*
 * The same for senders that put markers where RFC 5044 4.3 would not have them: at other distances,
 * or with their pointer the wrong way round. Says nothing of where those of other FPDUs are.
 */
bool dissect_candidate_find_odd_markers(struct dissect_candidate *c, const struct dissect_octets *o,
                                        size_t at);

#endif
