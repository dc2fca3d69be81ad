/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The OpenSSL 3 provider `iwarp` as others see it: its entry point and the names it answers to.
 *
 * The loadable module (module.c) and the copy built into the library (mpa/crc32c_evp.c) share
 * everything behind this header.
 */
#ifndef IWARP_PROVIDER_PROVIDER_H
#define IWARP_PROVIDER_PROVIDER_H

#include <openssl/core.h>

#define IWARP_PROVIDER_NAME   "iwarp"
#define IWARP_PROVIDER_CRC32C "CRC32C"

/* The digest: four octets, most significant first, as the value is printed. */
#define IWARP_PROVIDER_CRC32C_LEN 4

/*
 * Parameter of a digest context, an unsigned integer: the finished CRC of all it has been fed,
 * ready to be read at any time. Setting it (EVP_DigestInit_ex2, EVP_MD_CTX_set_params) makes the
 * context go on from there, whatever it has been fed before.
 */
#define IWARP_PROVIDER_PARAM_CRC "crc"

/* For OSSL_PROVIDER_add_builtin. */
OSSL_provider_init_fn iwarp_provider_init;

#endif
