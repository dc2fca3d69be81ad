/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC32c, the check value of every FPDU, behind one call whichever implementation computes it.
 *
 * The result is the integer of the usual reflected form; putting it on the wire, least significant
 * octet first, and deciding what it covers is the framing's business.
 *
 * RFC 5044 4.4 (CRC of the FPDU), RFC 3720 12.1 and B.4 (polynomial, conventions, vectors).
 */
#ifndef IWARP_MPA_CRC32C_H
#define IWARP_MPA_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of any octets followed by their own CRC in wire order. */
#define IWARP_CRC32C_RESIDUE 0x48674bc7u

/*
 * Running CRC32c; `crc` is the finished (post-inverted) value of what came before, 0 for the start.
 * crc32c("123456789") == 0xE3069283. Any thread, any length; `data` may be NULL when `len` is 0.
 * The first call in a process selects IWARP_CRC32C_AUTO and aborts with a message if that fails: a
 * caller that wants an error instead calls iwarp_crc32c_select first.
 */
uint32_t iwarp_crc32c(uint32_t crc, const void *data, size_t len);

enum iwarp_crc32c_impl {
    IWARP_CRC32C_AUTO, /* what IWARP_CRC32C in the environment names, or the best: the first of: */
    IWARP_CRC32C_AVX512, /* "avx512": an x86-64 with the multiplier of 64 octets (VPCLMULQDQ) */
    IWARP_CRC32C_AVX2,   /* "avx2": its crc32 instruction and the multiplier of 32 octets */
    IWARP_CRC32C_X86,  /* "x86": its crc32 instruction and the multiplier of 16 octets at a time */
    IWARP_CRC32C_ISAL, /* "isal": ISA-L, which picks the processor's best instructions */
    IWARP_CRC32C_ARM,  /* "arm": the crc32c instructions of an ARMv8 of 64 bits */
    IWARP_CRC32C_EVP   /* "evp": OpenSSL EVP with the project's own provider */
};

/*
 * Chooses the implementation for the whole process; calls in other threads see it soon after.
 * 0, or -1 if it is not built in or does not work here; for AUTO this is about the one that the
 * environment names, and an unknown name gives -1, too. Then nothing has changed. Any thread, any
 * time.
 */
int iwarp_crc32c_select(enum iwarp_crc32c_impl impl);

/* What is in use, as text that lives forever; selects like the first iwarp_crc32c if need be. */
const char *iwarp_crc32c_name(void);

#endif
