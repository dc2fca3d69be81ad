/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Big-endian integers in captured octets. The caller has made sure that they are there.
 */
#ifndef DISSECTOR_WIRE_H
#define DISSECTOR_WIRE_H

#include <stdint.h>

static inline uint16_t wire_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t wire_u32(const uint8_t *p)
{
    return (uint32_t)wire_u16(p) << 16 | wire_u16(p + 2);
}

static inline uint64_t wire_u64(const uint8_t *p)
{
    return (uint64_t)wire_u32(p) << 32 | wire_u32(p + 4);
}

/* The one little-endian field of MPA: its CRC, RFC 5044 4.4. */
static inline uint32_t wire_u32_little(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

#endif
