/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Folding of 16 octets by carry-less multiplication, for crc32c_x86.c and crc32c_avx512.c only.
 *
 * Moving 16 octets over n others multiplies them by x^(8n). Their first 8 octets lie in the lower
 * half of the register and have a weight of x^64 more. The product of a half and a constant of 32
 * bits stands 33 bits too high, so the constants are x^(8n + 31) and x^(8n - 33). RFC 5044 4.4, RFC
 * 3720 12.1.
 */
#ifndef IWARP_MPA_CRC32C_FOLD_H
#define IWARP_MPA_CRC32C_FOLD_H

#include "base/guard_copy.h"

#include <stdint.h>

#include <immintrin.h>

/* Octets may be the application's, at addresses of which the sanitizers' shadow knows nothing. */
#define WITH_FOLD __attribute__((target("avx,pclmul,sse4.2"))) IWARP_UNCHECKED

static const uint64_t fold_64[2] = {0x740eef02, 0x9e4addf8};
static const uint64_t fold_16[2] = {0xf20c0dfe, 0x493c7d27};

WITH_FOLD static inline __m128i load16(const void *p)
{
    return _mm_loadu_si128(p);
}

/* x, moved over the distance that `by` stands for, onto y. */
WITH_FOLD static inline __m128i fold16(__m128i x, __m128i by, __m128i y)
{
    return _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00),
                         _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x11), y));
}

#endif
