/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC32c by the carry-less multiplier in its form of AVX-512, which takes 64 octets at a time: four
 * sums, each 64 octets wide, are moved 256 octets on and added to what lies there. In the end the
 * four become one, the one 16 octets, and the crc32 instruction reduces those.
 *
 * Conventions as in crc32c_x86.c. RFC 5044 4.4, RFC 3720 12.1.
 */
#include "mpa/crc32c_avx512.h"

#if defined(__x86_64__)

#include "base/guard_copy.h"
#include "mpa/crc32c_fold.h"
#include "mpa/crc32c_x86.h"

/* Octets may be the application's, at addresses of which the sanitizers' shadow knows nothing. */
#define WIDE __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2"))) IWARP_UNCHECKED

#define XOR_OF_THREE 0x96 /* as a table of truth */

#define LANE  64u
#define LANES 4u

/* Below, the instruction alone is as fast. */
#define FOLD_MIN (LANES * LANE)

/* So far ahead memory is asked for, since the processor's own prefetcher stops at the end of a
 * page. Memory behind the end of all may be asked for, too: nothing reads it. */
#define AHEAD 2048u

/* As those of crc32c_fold.h. */
static const uint64_t fold_256[2] = {0xdcb17aa4, 0xb9e02b86};

bool iwarp_crc32c_avx512_usable(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("pclmul") && iwarp_crc32c_x86_has_instruction();
}

WIDE static inline __m512i load64(const unsigned char *p)
{
    return _mm512_loadu_si512((const void *)p);
}

WIDE static inline __m512i everywhere(const uint64_t by[2])
{
    return _mm512_broadcast_i32x4(load16(by));
}

/* x, moved over the distance that `by` stands for, onto y. */
WIDE static inline __m512i fold(__m512i x, __m512i by, __m512i y)
{
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, by, 0x00),
                                     _mm512_clmulepi64_epi128(x, by, 0x11), y, XOR_OF_THREE);
}

/* The register behind x. */
WIDE static inline uint32_t reduce(__m128i x)
{
    uint64_t low = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(x));
    return (uint32_t)_mm_crc32_u64(low, (uint64_t)_mm_extract_epi64(x, 1));
}

/* At least FOLD_MIN octets. */
WIDE __attribute__((noinline)) static uint32_t sum(uint32_t crc, const unsigned char *at,
                                                   size_t len)
{
    __m512i by = everywhere(fold_256), x0 = load64(at), x1 = load64(at + LANE),
            x2 = load64(at + 2 * LANE), x3 = load64(at + 3 * LANE);

    x0 = _mm512_xor_si512(x0, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
    for (at += FOLD_MIN, len -= FOLD_MIN; len >= FOLD_MIN; at += FOLD_MIN, len -= FOLD_MIN) {
        for (size_t lane = 0; lane < FOLD_MIN; lane += LANE) {
            __builtin_prefetch(at + AHEAD + lane);
        }
        x0 = fold(x0, by, load64(at));
        x1 = fold(x1, by, load64(at + LANE));
        x2 = fold(x2, by, load64(at + 2 * LANE));
        x3 = fold(x3, by, load64(at + 3 * LANE));
    }
    by = everywhere(fold_64);
    x0 = fold(fold(fold(x0, by, x1), by, x2), by, x3);
    for (; len >= LANE; at += LANE, len -= LANE) {
        x0 = fold(x0, by, load64(at));
    }
    const __m128i by_16 = load16(fold_16);
    __m128i x = _mm512_extracti32x4_epi32(x0, 0);
    x = fold16(x, by_16, _mm512_extracti32x4_epi32(x0, 1));
    x = fold16(x, by_16, _mm512_extracti32x4_epi32(x0, 2));
    x = fold16(x, by_16, _mm512_extracti32x4_epi32(x0, 3));
    for (; len >= sizeof x; at += sizeof x, len -= sizeof x) {
        x = fold16(x, by_16, load16(at));
    }
    return iwarp_crc32c_x86_row(~reduce(x), at, len);
}

/* [MPA-4.4-01] */
uint32_t iwarp_crc32c_avx512(uint32_t crc, const void *data, size_t len)
{
    return len < FOLD_MIN ? iwarp_crc32c_x86_row(crc, data, len) : sum(crc, data, len);
}

#endif
