/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA Markers: where they stand in a stream, weaving them into an FPDU and taking them out again.
 * RFC 5044 4.2 to 4.4, with erratum 1427. No I/O, no state, no CRC.
 *
 * A position counts the octets of one direction from the first of Full Operation, markers too; a
 * marker begins at each multiple of 512. Positions are taken modulo 2^64, a multiple of 512.
 * [MPA-4.3-04] "Data" is everything that is no marker: length field, ULPDU, padding, CRC field.
 * An FPDU begins with its leading marker, if one is due. [MPA-4.3-05]
 *
 *   position   0        4                  512      516             528         548
 *              | marker | FPDU ..          | marker | .. pad  CRC   | FPDU ..  CRC |
 *                       ^ FPDUPTR counts from here: 0 and 508
 *
 * FPDUs and markers are multiples of 4 octets, so no marker ever splits a length field or a CRC
 * field, and none follows the CRC field within an FPDU. Hence the CRC field is the last 4 of the
 * iwarp_mpa_marked_len() octets, and the CRC covers all octets before it as they are on the wire:
 * take it after weaving, and before stripping. [MPA-4.4-12]
 */
#ifndef IWARP_MPA_MARKER_H
#define IWARP_MPA_MARKER_H

#include "base/fault.h"

#include <iwarp/protocol.h>
#include <sys/uio.h>

/* Data octets between two markers. */
#define IWARP_MPA_MARKER_DATA (IWARP_MPA_MARKER_SPACING - IWARP_MPA_MARKER_LEN)

/* Markers in an FPDU of any legal length, at any position. */
#define IWARP_MPA_MARKERS_MAX 128

/* Octets of a marker that come next at pos: 4 where one is due, 1 to 3 within one, 0 at data. */
static inline uint32_t iwarp_mpa_marker_left(uint64_t pos)
{
    uint32_t at = (uint32_t)(pos % IWARP_MPA_MARKER_SPACING);
    return at < IWARP_MPA_MARKER_LEN ? IWARP_MPA_MARKER_LEN - at : 0;
}

/* Data octets that come next at pos, up to the next marker: 1 to 508, or 0 where a marker is. */
static inline uint32_t iwarp_mpa_marker_gap(uint64_t pos)
{
    uint32_t at = (uint32_t)(pos % IWARP_MPA_MARKER_SPACING);
    return at < IWARP_MPA_MARKER_LEN ? 0 : IWARP_MPA_MARKER_SPACING - at;
}

/*
 * Octets of the stream from pos until `len` data octets are there: those, the markers between them
 * and the marker (or the rest of it) at pos; none behind the last. For a whole FPDU len is
 * iwarp_mpa_fpdu_len(ulpdu). For its first n data octets, such as the length field, len is n; these
 * are at offset iwarp_mpa_marker_left(pos). 0 if len is 0.
 */
uint32_t iwarp_mpa_marked_len(uint64_t pos, uint32_t len);

/* Markers in the FPDU at pos whose data has len octets: at most IWARP_MPA_MARKERS_MAX. */
static inline unsigned iwarp_mpa_marker_count(uint64_t pos, uint32_t len)
{
    return (iwarp_mpa_marked_len(pos, len) - len) / IWARP_MPA_MARKER_LEN;
}

/* Where the length field of the FPDU at pos is: what its markers count from. */
static inline uint64_t iwarp_mpa_marker_origin(uint64_t pos)
{
    return pos + iwarp_mpa_marker_left(pos);
}

/* Write the marker at position `at` into p (4 octets). A leading marker has at < origin. */
void iwarp_mpa_marker_put(uint8_t *p, uint64_t at, uint64_t origin);

/*
 * Does the marker p, received at position `at`, point to origin? Its reserved octets and the low
 * two bits of FPDUPTR are not looked at. False: MPA_MARKER {at, FPDUPTR, what it should be}.
 */
bool iwarp_mpa_marker_check(const uint8_t *p, uint64_t at, uint64_t origin,
                            struct iwarp_fault *fault);

/*
 * Sender. in[0..n-1] are the pieces of the whole FPDU at pos, its CRC field included. Fills
 * `markers` (4 * iwarp_mpa_marker_count octets) and out (at most n + 2 * count entries) with the
 * FPDU as it goes on the wire; out refers to the pieces where they lie and to `markers`. Returns
 * the entries used. Only addresses are handled: the pieces' octets are not touched. A CRC field
 * that lies within one piece is the last 4 octets of the last entry: take the CRC over all octets
 * of out before those, then write it there.
 */
unsigned iwarp_mpa_marker_weave(uint64_t pos, const struct iovec *in, unsigned n, uint8_t *markers,
                                struct iovec *out);

/*
 * Receiver. At src lies the FPDU at pos, whole, its CRC verified; its data has len octets. Checks
 * its markers and moves the data to dst (len octets), which may be src. False: a marker is wrong,
 * *fault says which; some of dst may have been written.
 */
bool iwarp_mpa_marker_strip(uint8_t *dst, const uint8_t *src, uint64_t pos, uint32_t len,
                            struct iwarp_fault *fault);

#endif
