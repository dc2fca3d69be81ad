/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC32c arithmetic: eight octets per step by tables, or by the CRC32 instruction of SSE4.2.
 *
 * This is the fallback for places without ISA-L, so it stays simple: one dependent chain, no
 * interleaving, no carry-less multiplication. Tables are computed, not stored in the source,
 * because eight lines of arithmetic can be reviewed and 2,048 constants cannot.
 *
 * RFC 3720 12.1 and B.4 (polynomial 0x1EDC6F41, reflected).
 */
#include "provider/crc32c_update.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#define POLY_REFLECTED 0x82f63b78u
#define SLICES         8

/* table[k][v]: what octet v does to the register when k more zero octets follow it. */
static uint32_t table[SLICES][256];
#if defined(__x86_64__)
static bool have_instruction;
#endif
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void prepare(void)
{
    for (uint32_t v = 0; v < 256; v++) {
        uint32_t state = v;

        for (int bit = 0; bit < 8; bit++) {
            state = (state >> 1) ^ ((state & 1) != 0 ? POLY_REFLECTED : 0);
        }
        table[0][v] = state;
    }
    for (size_t k = 1; k < SLICES; k++) {
        for (size_t v = 0; v < 256; v++) {
            uint32_t before = table[k - 1][v];

            table[k][v] = (before >> 8) ^ table[0][before & 0xff];
        }
    }
#if defined(__x86_64__)
    have_instruction = __builtin_cpu_supports("sse4.2") != 0;
#endif
}

void iwarp_provider_crc32c_prepare(void)
{
    pthread_once(&prepared, prepare);
}

static uint32_t load_le32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint32_t iwarp_provider_crc32c_by_table(uint32_t state, const uint8_t *data, size_t len)
{
    for (; len >= SLICES; data += SLICES, len -= SLICES) {
        uint32_t low = state ^ load_le32(data);
        uint32_t high = load_le32(data + 4);

        state = table[7][low & 0xff] ^ table[6][(low >> 8) & 0xff] ^ table[5][(low >> 16) & 0xff] ^
                table[4][low >> 24] ^ table[3][high & 0xff] ^ table[2][(high >> 8) & 0xff] ^
                table[1][(high >> 16) & 0xff] ^ table[0][high >> 24];
    }
    for (; len > 0; data++, len--) {
        state = (state >> 8) ^ table[0][(state ^ *data) & 0xff];
    }
    return state;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t state,
                                                                 const uint8_t *data, size_t len)
{
    uint64_t wide = state;

    for (; len >= sizeof(uint64_t); data += sizeof(uint64_t), len -= sizeof(uint64_t)) {
        uint64_t word;

        memcpy(&word, data, sizeof(word));
        wide = _mm_crc32_u64(wide, word);
    }
    state = (uint32_t)wide;
    for (; len > 0; data++, len--) {
        state = _mm_crc32_u8(state, *data);
    }
    return state;
}
#endif

uint32_t iwarp_provider_crc32c_update(uint32_t state, const uint8_t *data, size_t len)
{
#if defined(__x86_64__)
    if (have_instruction) {
        return by_instruction(state, data, len);
    }
#endif
    return iwarp_provider_crc32c_by_table(state, data, len);
}
