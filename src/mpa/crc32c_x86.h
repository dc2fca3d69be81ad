/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC32c by the crc32 instruction and the carry-less multiplier of x86-64 at the same time, behind
 * crc32c.h. What calls these has made sure that the processor has what they need.
 *
 * RFC 5044 4.4, RFC 3720 12.1.
 */
#ifndef IWARP_MPA_CRC32C_X86_H
#define IWARP_MPA_CRC32C_X86_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)

/* Is there the crc32 instruction (SSE4.2)? And is there the multiplier, in its form of AVX, too? */
bool iwarp_crc32c_x86_has_instruction(void);
bool iwarp_crc32c_x86_usable(void);

/* And that of 32 octets, VPCLMULQDQ with AVX2? */
bool iwarp_crc32c_avx2_usable(void);

/* As iwarp_crc32c: by the instruction alone, in one row, for what is short; by it and the
 * multiplier of 16 octets; and by it and that of 32. */
uint32_t iwarp_crc32c_x86_row(uint32_t crc, const void *data, size_t len);
uint32_t iwarp_crc32c_x86(uint32_t crc, const void *data, size_t len);
uint32_t iwarp_crc32c_avx2(uint32_t crc, const void *data, size_t len);

#endif
#endif
