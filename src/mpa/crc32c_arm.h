/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC32c by the crc32c instructions of ARMv8, behind crc32c.h. What calls it has made sure that the
 * processor has them.
 *
 * RFC 5044 4.4, RFC 3720 12.1.
 */
#ifndef IWARP_MPA_CRC32C_ARM_H
#define IWARP_MPA_CRC32C_ARM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__AARCH64EL__)
#define IWARP_CRC32C_ON_ARM 1

/* Are there the instructions? And is there the carry-less multiplier, which ISA-L relies on? */
bool iwarp_crc32c_arm_usable(void);
bool iwarp_crc32c_arm_has_multiplier(void);

/* As iwarp_crc32c; in one row. */
uint32_t iwarp_crc32c_arm(uint32_t crc, const void *data, size_t len);

#endif
#endif
