/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC32c with two units of the processor at the same time. The crc32 instruction takes 8 octets a
 * cycle, if three independent sums keep it busy; folding by carry-less multiplication takes another
 * 7 to 8, in another unit. So what is long is cut into blocks, and each block into four streams,
 * three for the instruction and one for the multiplier, and their results are put together. The
 * multiplier takes 16 octets at a time, or 32 (VPCLMULQDQ): several processors need two cycles and
 * more for either.
 *
 * Polynomials are bit-reflected as the CRC is: the first bit on the wire is the highest power. The
 * product of two reflected words stands one bit too low, which the exponents below make up for.
 *
 * RFC 5044 4.4, RFC 3720 12.1.
 */
#include "mpa/crc32c_x86.h"

#if defined(__x86_64__)

#include "base/guard_copy.h"
#include "mpa/crc32c_fold.h"

#include <string.h>

/* Octets may be the application's, at addresses of which the sanitizers' shadow knows nothing. */
#define WITH_ROW  __attribute__((target("sse4.2"))) IWARP_UNCHECKED
#define WITH_BOTH WITH_FOLD
#define WITH_WIDE __attribute__((target("avx2,vpclmulqdq,pclmul,sse4.2"))) IWARP_UNCHECKED

bool iwarp_crc32c_x86_has_instruction(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2");
}

bool iwarp_crc32c_x86_usable(void)
{
    return iwarp_crc32c_x86_has_instruction() && __builtin_cpu_supports("avx") &&
           __builtin_cpu_supports("pclmul");
}

bool iwarp_crc32c_avx2_usable(void)
{
    return iwarp_crc32c_x86_usable() && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("vpclmulqdq");
}

IWARP_UNCHECKED static inline uint64_t load8(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* --- one row of the instruction -------------------------------------------------------------- */

/* On the register, which is the CRC before its final inversion. */
WITH_ROW static inline uint32_t row(uint64_t state, const unsigned char *at, size_t len)
{
    uint32_t four;

    for (; len >= 32; len -= 32, at += 32) {
        state = _mm_crc32_u64(state, load8(at));
        state = _mm_crc32_u64(state, load8(at + 8));
        state = _mm_crc32_u64(state, load8(at + 16));
        state = _mm_crc32_u64(state, load8(at + 24));
    }
    for (; len >= 8; len -= 8, at += 8) {
        state = _mm_crc32_u64(state, load8(at));
    }
    if (len >= sizeof four) { /* all there is of an FPDU, whose length is a multiple of it */
        memcpy(&four, at, sizeof four);
        state = _mm_crc32_u32((uint32_t)state, four);
        len -= sizeof four;
        at += sizeof four;
    }
    for (; len > 0; len--) {
        state = _mm_crc32_u8((uint32_t)state, *at++);
    }
    return (uint32_t)state;
}

/* [MPA-4.4-01] */
WITH_ROW uint32_t iwarp_crc32c_x86_row(uint32_t crc, const void *data, size_t len)
{
    return ~row(~crc, data, len);
}

/* --- four streams ---------------------------------------------------------------------------- */

/*
 * A turn of the loop takes 3 words of each of three streams and 64 octets of the fourth: 9 times
 * the instruction and 8 times the multiplier, one of each a cycle.
 */
#define TURN_ROW  24u
#define TURN_FOLD 64u
#define TURN      (3 * TURN_ROW + TURN_FOLD)

/*
 * A block is so many turns: streams a, b, c of the instruction, then that of the multiplier. To put
 * a sum in front of n octets is to multiply it by x^(8n), here with 33 less: one for the
 * reflection, 32 since the instruction that takes the product multiplies by x^32. `shift` is x^(8n
 * - 33) for the octets behind a, b and c.
 */
struct block {
    unsigned turns;
    uint32_t shift[3];
};

static const struct block blocks[] = {
    {30, {0xaeb3e622, 0x2e7d11a7, 0xf48642e9}},
    {10, {0xf872e54c, 0x49c3cc9c, 0x6b749fb2}},
    {3, {0xa60ce07b, 0xdcb17aa4, 0xab7aff2a}},
};

#define BLOCK_MIN (3 * TURN)

/* sum times shift, for the instruction to reduce. */
WITH_BOTH static inline uint64_t shifted(uint64_t sum, uint32_t shift)
{
    const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)(uint32_t)sum),
                                                 _mm_cvtsi32_si128((int)shift), 0x00);
    return (uint64_t)_mm_cvtsi128_si64(product);
}

/* The sums of the instruction's three streams. */
struct rows {
    uint64_t a, b, c;
};

/* A word of each; `len` octets lie between their beginnings. */
WITH_ROW static inline void word_of_rows(struct rows *r, const unsigned char *at, size_t len)
{
    r->a = _mm_crc32_u64(r->a, load8(at));
    r->b = _mm_crc32_u64(r->b, load8(at + len));
    r->c = _mm_crc32_u64(r->c, load8(at + 2 * len));
}

/* One turn of them; compilers left this a loop. */
WITH_ROW static inline void turn_rows(struct rows *r, const unsigned char *at, size_t len)
{
    word_of_rows(r, at, len);
    word_of_rows(r, at + 8, len);
    word_of_rows(r, at + 16, len);
}

/* The register behind a block: x is the last 64 octets of the multiplier's stream, folded. */
WITH_BOTH static inline uint32_t join(const struct rows *r, const __m128i x[4],
                                      const struct block *block)
{
    const __m128i by_16 = load16(fold_16);
    const __m128i last = fold16(fold16(fold16(x[0], by_16, x[1]), by_16, x[2]), by_16, x[3]);
    uint64_t sums = shifted(r->a, block->shift[0]) ^ shifted(r->b, block->shift[1]) ^
                    shifted(r->c, block->shift[2]);
    uint64_t low = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(last));

    return (uint32_t)_mm_crc32_u64(low, (uint64_t)_mm_extract_epi64(last, 1) ^ sums);
}

/*
 * The register behind one block. The processor looks ahead in none of the streams before each has
 * some lines behind it, which in blocks of a page is late; so each turn asks for as much of the
 * next block as it sums up of this one. What lies behind the end of all is only asked for, as well.
 */
WITH_BOTH static inline uint32_t sum_block(uint32_t state, const unsigned char *at,
                                           const struct block *block)
{
    const size_t len = (size_t)block->turns * TURN_ROW, ahead = (size_t)block->turns * TURN;
    const unsigned char *v = at + 3 * len, *next = at + ahead;
    const __m128i by_64 = load16(fold_64);
    __m128i x0 = load16(v), x1 = load16(v + 16), x2 = load16(v + 32), x3 = load16(v + 48);
    struct rows rows = {state, 0, 0};

    for (unsigned turn = 1; turn < block->turns; turn++, at += TURN_ROW) {
        turn_rows(&rows, at, len);
        v += TURN_FOLD;
        __builtin_prefetch(next);
        __builtin_prefetch(v + ahead);
        next += 3 * TURN_ROW;
        x0 = fold16(x0, by_64, load16(v));
        x1 = fold16(x1, by_64, load16(v + 16));
        x2 = fold16(x2, by_64, load16(v + 32));
        x3 = fold16(x3, by_64, load16(v + 48));
    }
    turn_rows(&rows, at, len);
    return join(&rows, (const __m128i[]){x0, x1, x2, x3}, block);
}

/* --- the same with the multiplier of 32 octets ----------------------------------------------- */

WITH_WIDE static inline __m256i load32(const unsigned char *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

WITH_WIDE static inline __m256i fold32(__m256i x, __m256i by, __m256i y)
{
    return _mm256_xor_si256(_mm256_clmulepi64_epi128(x, by, 0x00),
                            _mm256_xor_si256(_mm256_clmulepi64_epi128(x, by, 0x11), y));
}

WITH_WIDE static inline uint32_t sum_block_wide(uint32_t state, const unsigned char *at,
                                                const struct block *block)
{
    const size_t len = (size_t)block->turns * TURN_ROW, ahead = (size_t)block->turns * TURN;
    const unsigned char *v = at + 3 * len, *next = at + ahead;
    const __m256i by_64 = _mm256_broadcastsi128_si256(load16(fold_64));
    __m256i x0 = load32(v), x1 = load32(v + 32);
    struct rows rows = {state, 0, 0};

    for (unsigned turn = 1; turn < block->turns; turn++, at += TURN_ROW) {
        turn_rows(&rows, at, len);
        v += TURN_FOLD;
        __builtin_prefetch(next);
        __builtin_prefetch(v + ahead);
        next += 3 * TURN_ROW;
        x0 = fold32(x0, by_64, load32(v));
        x1 = fold32(x1, by_64, load32(v + 32));
    }
    turn_rows(&rows, at, len);
    const __m128i x[4] = {_mm256_castsi256_si128(x0), _mm256_extracti128_si256(x0, 1),
                          _mm256_castsi256_si128(x1), _mm256_extracti128_si256(x1, 1)};
    return join(&rows, x, block);
}

/* --- of any length --------------------------------------------------------------------------- */

/*
 * The register behind all of it, for whichever sum_block. Not inline: what is short need not save
 * registers for this.
 */
#define SUM_BLOCKS(target, name, sum_block)                                                        \
    target __attribute__((noinline)) static uint32_t name(uint32_t state, const unsigned char *at, \
                                                          size_t len)                              \
    {                                                                                              \
        for (const struct block *block = blocks; len >= BLOCK_MIN; block++) {                      \
            const size_t size = (size_t)block->turns * TURN;                                       \
            for (; len >= size; len -= size, at += size) {                                         \
                state = sum_block(state, at, block);                                               \
            }                                                                                      \
        }                                                                                          \
        return row(state, at, len);                                                                \
    }

SUM_BLOCKS(WITH_BOTH, sum_blocks, sum_block)
SUM_BLOCKS(WITH_WIDE, sum_blocks_wide, sum_block_wide)

/* [MPA-4.4-01] */
WITH_ROW uint32_t iwarp_crc32c_x86(uint32_t crc, const void *data, size_t len)
{
    return ~(len < BLOCK_MIN ? row(~crc, data, len) : sum_blocks(~crc, data, len));
}

/* [MPA-4.4-01] */
WITH_ROW uint32_t iwarp_crc32c_avx2(uint32_t crc, const void *data, size_t len)
{
    return ~(len < BLOCK_MIN ? row(~crc, data, len) : sum_blocks_wide(~crc, data, len));
}

#endif
