/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MPA framing arithmetic: how long an FPDU is, how much padding it has, how large a ULPDU fits a
 * TCP segment. Pure functions; the CRC itself is in crc32c.h. RFC 5044 4.1 and 4.5.
 */
#ifndef IWARP_MPA_FRAME_H
#define IWARP_MPA_FRAME_H

#include <iwarp/protocol.h>
#include <stdint.h>

/* Octets of padding behind a ULPDU so that length field, ULPDU and padding are a multiple of 4. */
static inline uint32_t iwarp_mpa_pad(uint32_t ulpdu_len)
{
    return (uint32_t)(-(ulpdu_len + IWARP_MPA_LEN_FIELD)) & 3u;
}

/* The whole FPDU without markers: length field, ULPDU, padding, CRC. */
static inline uint32_t iwarp_mpa_fpdu_len(uint32_t ulpdu_len)
{
    return IWARP_MPA_LEN_FIELD + ulpdu_len + iwarp_mpa_pad(ulpdu_len) + IWARP_MPA_CRC_LEN;
}

/*
 * MULPDU for a TCP segment of emss octets, clamped to 128..64768. [MPA-4.5-01]
 * RFC 5044 4.5: EMSS - (6 + 4 * ceil(EMSS / 512) + EMSS mod 4), the middle term with markers only.
 */
uint32_t iwarp_mpa_mulpdu(uint32_t emss, int markers);

#endif
