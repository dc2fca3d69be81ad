/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CRC32c by eight tables. See crc.h.
 */
#include "crc.h"

#include "wire.h"

#define POLYNOMIAL 0x82f63b78u

static uint32_t table[8][256];

static void fill_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) {
            c = c & 1 ? c >> 1 ^ POLYNOMIAL : c >> 1;
        }
        table[0][i] = c;
    }
    for (unsigned k = 1; k < 8; k++) {
        for (unsigned i = 0; i < 256; i++) {
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
        }
    }
}

uint32_t dissect_crc32c(uint32_t crc, const uint8_t *p, size_t n)
{
    if (table[0][1] == 0) {
        fill_tables();
    }
    crc = ~crc;
    for (; n >= 8; p += 8, n -= 8) {
        const uint32_t a = crc ^ wire_u32_little(p), b = wire_u32_little(p + 4);
        crc = table[7][a & 255] ^ table[6][a >> 8 & 255] ^ table[5][a >> 16 & 255] ^
              table[4][a >> 24] ^ table[3][b & 255] ^ table[2][b >> 8 & 255] ^
              table[1][b >> 16 & 255] ^ table[0][b >> 24];
    }
    for (; n > 0; p++, n--) {
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
    }
    return ~crc;
}
