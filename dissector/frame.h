/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One FPDU in the octets of a stream, with or without markers: how far it reaches, where its
 * markers are, its octets without them, its CRC. RFC 5044 4. Positions count octets from the first
 * one of Full Operation of this direction, modulo 2^32; 512 divides that, so sequence numbers wrap
 * without harm.
 */
#ifndef DISSECTOR_FRAME_H
#define DISSECTOR_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DISSECT_MARKER_SIZE = 4,
    DISSECT_MARKER_DISTANCE = 512,
    DISSECT_MARKER_DISTANCE_ODD = 516, /* of senders that count octets between markers */
    DISSECT_LENGTH_SIZE = 2
};

struct dissect_frame {
    uint32_t position; /* of the first octet, which is a marker's if `lead` */
    bool marked;
    unsigned lead; /* 4 if a marker stands right before the length field, else 0 */
    size_t whole;  /* octets on the wire, lead marker and all others included */
    uint16_t ulpdu_length;
    unsigned pad;
    unsigned markers;    /* all of them */
    size_t first_marker; /* offset of the first; the others follow every `distance` octets */
    unsigned distance;
};

/* False if the length field is not among the n octets. */
bool dissect_frame_measure(struct dissect_frame *f, const uint8_t *p, size_t n, uint32_t position,
                           bool marked);

/* The same with the first marker at this offset, a lead one at 0, whatever RFC 5044 4.3 says. */
bool dissect_frame_measure_odd(struct dissect_frame *f, const uint8_t *p, size_t n, size_t first,
                               unsigned distance);

/*
 * The first `n` captured octets of the FPDU without lead and other markers, at most `room`.
 * Returns how many were written. The ULPDU begins at out + 2.
 */
size_t dissect_frame_unmark(const struct dissect_frame *f, const uint8_t *p, size_t n, uint8_t *out,
                            size_t room);

enum dissect_pointer { DISSECT_POINTER_RIGHT, DISSECT_POINTER_LITTLE, DISSECT_POINTER_WRONG };

/* Offset of marker i in the FPDU, and whether its FPDUPTR says so. p: all of its four octets. */
size_t dissect_frame_marker(const struct dissect_frame *f, unsigned i);
uint16_t dissect_frame_pointer(const struct dissect_frame *f, unsigned i);
enum dissect_pointer dissect_frame_check(const struct dissect_frame *f, unsigned i,
                                         const uint8_t *p);

/* Of a whole FPDU: the CRC that it carries, and the one it should carry. */
uint32_t dissect_frame_crc(const struct dissect_frame *f, const uint8_t *p);
uint32_t dissect_frame_crc_expected(const struct dissect_frame *f, const uint8_t *p);

/* Would its CRC be right if its length field said that it ends at that offset? p: up to there. */
bool dissect_frame_could_end(const struct dissect_frame *f, const uint8_t *p, size_t end);

#endif
