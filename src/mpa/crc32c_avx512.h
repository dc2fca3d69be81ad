/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC32c by the carry-less multiplier of 64 octets (AVX-512), behind crc32c.h.
 *
 * RFC 5044 4.4, RFC 3720 12.1.
 */
#ifndef IWARP_MPA_CRC32C_AVX512_H
#define IWARP_MPA_CRC32C_AVX512_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)

bool iwarp_crc32c_avx512_usable(void);

/* As iwarp_crc32c, on a processor on which it is usable. */
uint32_t iwarp_crc32c_avx512(uint32_t crc, const void *data, size_t len);

#endif
#endif
