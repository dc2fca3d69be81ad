/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC32c through OpenSSL's EVP interface, for builds or machines where ISA-L is not to be used.
 *
 * Only crc32c.c and the tests include this: everybody else calls iwarp_crc32c.
 */
#ifndef IWARP_MPA_CRC32C_EVP_H
#define IWARP_MPA_CRC32C_EVP_H

#include <stddef.h>
#include <stdint.h>

/*
 * Loads the provider into a library context of our own, fetches the digest and tries it in this
 * thread. 0, or -1 when OpenSSL refuses, and then it may be tried again. Any thread, any number of
 * times.
 */
int iwarp_crc32c_evp_open(void);

/*
 * As iwarp_crc32c; only after iwarp_crc32c_evp_open has succeeded. The first call in each thread
 * allocates that thread's digest context. An EVP call that fails aborts with OpenSSL's reasons.
 */
uint32_t iwarp_crc32c_evp(uint32_t crc, const void *data, size_t len);

#endif
