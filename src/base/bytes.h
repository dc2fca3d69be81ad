/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Integers at octet pointers: big-endian as everything in iWARP, little-endian for the MPA CRC
 * only. Any alignment, any host byte order. No protocol knowledge.
 */
#ifndef IWARP_BASE_BYTES_H
#define IWARP_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define IWARP_BE16(x) __builtin_bswap16(x)
#define IWARP_BE32(x) __builtin_bswap32(x)
#define IWARP_BE64(x) __builtin_bswap64(x)
#define IWARP_LE32(x) (x)
#else
#define IWARP_BE16(x) (x)
#define IWARP_BE32(x) (x)
#define IWARP_BE64(x) (x)
#define IWARP_LE32(x) __builtin_bswap32(x)
#endif

static inline uint16_t iwarp_get_be16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return IWARP_BE16(v);
}

static inline uint32_t iwarp_get_be32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return IWARP_BE32(v);
}

static inline uint64_t iwarp_get_be64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return IWARP_BE64(v);
}

static inline uint32_t iwarp_get_le32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return IWARP_LE32(v);
}

static inline void iwarp_put_be16(void *p, uint16_t v)
{
    v = IWARP_BE16(v);
    memcpy(p, &v, sizeof v);
}

static inline void iwarp_put_be32(void *p, uint32_t v)
{
    v = IWARP_BE32(v);
    memcpy(p, &v, sizeof v);
}

static inline void iwarp_put_be64(void *p, uint64_t v)
{
    v = IWARP_BE64(v);
    memcpy(p, &v, sizeof v);
}

static inline void iwarp_put_le32(void *p, uint32_t v)
{
    v = IWARP_LE32(v);
    memcpy(p, &v, sizeof v);
}

#endif
