/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The walk over the octets of a connection, as a capture has them: both directions, each in pieces
 * of any size, perhaps not from the start, with losses, repetitions and pieces cut short. Says what
 * comes next in a piece: a start-up frame, an FPDU, octets that belong to neither. Where the start
 * of an FPDU is not known it is searched: a header that breaks no rule, with the right CRC, or
 * with as much other evidence as there is when no CRC is in use.
 *
 * Does not interpret FPDUs and allocates nothing. RFC 5044 4, 5 and 7.
 */
#ifndef DISSECTOR_WALK_H
#define DISSECTOR_WALK_H

#include "frame.h"
#include "header.h"
#include "setup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dissect_known { DISSECT_UNKNOWN, DISSECT_OFF, DISSECT_ON };

enum {
    DISSECT_ENDS = 16,
    DISSECT_SHORTEST_KEY = 4 /* fewer octets of a key could be the start of anything */
};

/* One direction. */
struct dissect_way {
    bool begun;  /* something of it was recognised */
    bool grid;   /* `first` holds: where an FPDU began, so that others do at multiples of four */
    bool origin; /* and markers, if there are any, are at multiples of 512 from there */
    uint32_t first;
    enum dissect_known markers, crc;
    bool revision_0;
    bool has_highest;
    uint32_t highest;            /* behind the highest octet seen */
    uint32_t ends[DISSECT_ENDS]; /* where something begins, none of it seen yet */
    unsigned n_ends;
    bool open; /* an FPDU of which the rest comes without being waited for */
    uint32_t open_start, open_end;
};

struct dissect_conn {
    struct dissect_way way[2];
    bool has_initiator;
    unsigned initiator; /* which of the two */
    bool has_request, has_reply;
    struct dissect_setup request, reply;
    bool no_midstream; /* options: without a start-up frame nothing is recognised, */
    bool strict;       /* or only what has a right CRC */
};

/* A piece of a direction. Less may be captured than was sent. */
struct dissect_octets {
    const uint8_t *p;
    size_t captured, reported;
    uint32_t seq;
    bool may_wait; /* more can be put behind it, and it will then be offered again */
    bool opening;  /* the first octets of its direction: one of a key is enough */
};

enum dissect_item_kind {
    DISSECT_ITEM_SETUP,
    DISSECT_ITEM_FPDU,
    DISSECT_ITEM_REST,    /* of an FPDU that was shown before */
    DISSECT_ITEM_SKIPPED, /* belongs to an FPDU whose start was not found */
    DISSECT_ITEM_UNSEEN,  /* not captured */
    DISSECT_ITEM_WAIT     /* `missing` more octets are needed; 0: how many is not known yet */
};

/* As the numbers of Wireshark's own checksum fields. */
enum dissect_crc_status {
    DISSECT_CRC_BAD,
    DISSECT_CRC_GOOD,
    DISSECT_CRC_UNVERIFIED,
    DISSECT_CRC_ABSENT
};

struct dissect_item {
    enum dissect_item_kind kind;
    size_t at, size; /* of this piece; size can exceed what is captured, or even reported */
    size_t missing;
    struct dissect_frame frame; /* FPDU */
    enum dissect_crc_status crc_status;
    uint32_t crc, crc_expected;
    bool cut;        /* not all of it is captured */
    bool resynced;   /* its start was searched, not known */
    bool late;       /* octets behind it were seen before: repeated or reordered */
    bool bad_length; /* skipped because its length leads nowhere */
};

/*
 * What is at offset `at` of a piece of direction `side`. False if that cannot be told and nothing
 * of the connection was recognised before; then nothing is remembered.
 */
bool dissect_walk(struct dissect_conn *c, unsigned side, const struct dissect_octets *o, size_t at,
                  struct dissect_item *item);

/* The connection as both start-up frames, or what is there of them, describe it. */
void dissect_conn_agreement(const struct dissect_conn *c, struct dissect_agreement *a);

#endif
