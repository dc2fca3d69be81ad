/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC32c by the crc32c instructions of ARMv8, in one row: each waits for the sum of the one before,
 * 2 or 3 cycles for 8 octets. ISA-L has three rows side by side from 1024 octets on, and the
 * multiplier to put them together; below that it goes in one row as well.
 *
 * RFC 5044 4.4, RFC 3720 12.1.
 */
#include "mpa/crc32c_arm.h"

#if defined(IWARP_CRC32C_ON_ARM)

#include "base/guard_copy.h"

#include <string.h>
#include <sys/auxv.h>

/* Of <asm/hwcap.h>, which a cross compiler may lack. */
#define PMULL (1u << 4)
#define CRC32 (1u << 7)

/* In assembly, since clang has the intrinsics only where the whole file is for such processors. */
#define STEP(instruction, sum, value)                                                              \
    __asm__(".arch_extension crc\n\t" instruction : "+r"(sum) : "r"(value))

bool iwarp_crc32c_arm_usable(void)
{
    return (getauxval(AT_HWCAP) & CRC32) != 0;
}

bool iwarp_crc32c_arm_has_multiplier(void)
{
    return (getauxval(AT_HWCAP) & PMULL) != 0;
}

/* Octets may be the application's, at addresses of which the sanitizers' shadow knows nothing. */
IWARP_UNCHECKED static inline uint32_t step8(uint32_t sum, const unsigned char *at)
{
    uint64_t v;

    memcpy(&v, at, sizeof v);
    STEP("crc32cx %w0, %w0, %x1", sum, v);
    return sum;
}

/* [MPA-4.4-01] */
IWARP_UNCHECKED uint32_t iwarp_crc32c_arm(uint32_t crc, const void *data, size_t len)
{
    const unsigned char *at = data;
    uint32_t sum = ~crc, four;

    for (; len >= 32; len -= 32, at += 32) {
        sum = step8(step8(step8(step8(sum, at), at + 8), at + 16), at + 24);
    }
    for (; len >= 8; len -= 8, at += 8) {
        sum = step8(sum, at);
    }
    if (len >= sizeof four) {
        memcpy(&four, at, sizeof four);
        STEP("crc32cw %w0, %w0, %w1", sum, four);
        len -= sizeof four;
        at += sizeof four;
    }
    for (; len > 0; len--) {
        STEP("crc32cb %w0, %w0, %w1", sum, (uint32_t)*at++);
    }
    return ~sum;
}

#endif
