/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC32c with two units of the processor at the same time. The crc32 instruction takes 8 octets a
 * cycle, if three independent sums keep it busy; folding by carry-less multiplication takes another
 * 7 to 8, in another unit. So what is long is cut into blocks, and each block into four streams,
 * three for the instruction and one for the multiplier, and their results are put together.
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
    const __m128i by_64 = load16(fold_64), by_16 = load16(fold_16);
    __m128i x0 = load16(v), x1 = load16(v + 16), x2 = load16(v + 32), x3 = load16(v + 48);
    uint64_t a = state, b = 0, c = 0;

    for (unsigned turn = 1;; turn++, at += TURN_ROW) {
        for (unsigned i = 0; i < TURN_ROW; i += 8) {
            a = _mm_crc32_u64(a, load8(at + i));
            b = _mm_crc32_u64(b, load8(at + len + i));
            c = _mm_crc32_u64(c, load8(at + 2 * len + i));
        }
        if (turn == block->turns) {
            break;
        }
        v += TURN_FOLD;
        __builtin_prefetch(next);
        __builtin_prefetch(v + ahead);
        next += 3 * TURN_ROW;
        x0 = fold16(x0, by_64, load16(v));
        x1 = fold16(x1, by_64, load16(v + 16));
        x2 = fold16(x2, by_64, load16(v + 32));
        x3 = fold16(x3, by_64, load16(v + 48));
    }
    x3 = fold16(fold16(fold16(x0, by_16, x1), by_16, x2), by_16, x3);
    a = shifted(a, block->shift[0]) ^ shifted(b, block->shift[1]) ^ shifted(c, block->shift[2]);
    b = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(x3));
    return (uint32_t)_mm_crc32_u64(b, (uint64_t)_mm_extract_epi64(x3, 1) ^ a);
}

/* The register behind all of it. Not inline: what is short need not save registers for this. */
WITH_BOTH __attribute__((noinline)) static uint32_t sum_blocks(uint32_t state,
                                                               const unsigned char *at, size_t len)
{
    for (const struct block *block = blocks; len >= BLOCK_MIN; block++) {
        const size_t size = (size_t)block->turns * TURN;
        for (; len >= size; len -= size, at += size) {
            state = sum_block(state, at, block);
        }
    }
    return row(state, at, len);
}

/* [MPA-4.4-01] */
WITH_ROW uint32_t iwarp_crc32c_x86(uint32_t crc, const void *data, size_t len)
{
    return ~(len < BLOCK_MIN ? row(~crc, data, len) : sum_blocks(~crc, data, len));
}

#endif
