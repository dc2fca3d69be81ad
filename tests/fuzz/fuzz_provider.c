/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzing the OpenSSL provider: the input is fed to its digest in pieces, with copies of the
 * context and reads of the running CRC between them; the first octets say where. Checked is each
 * value against arithmetic bit by bit (RFC 3385 3.1 has the polynomial).
 */
#include "fuzz.h"

#include "provider/provider.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <string.h>

static OSSL_LIB_CTX *library;
static EVP_MD *digest;

static uint32_t bit_by_bit(const uint8_t *p, size_t n)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++) {
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
        }
    }
    return ~crc;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    library = OSSL_LIB_CTX_new();
    FUZZ_EXPECT(OSSL_PROVIDER_add_builtin(library, IWARP_PROVIDER_NAME, iwarp_provider_init) == 1);
    FUZZ_EXPECT(OSSL_PROVIDER_load(library, IWARP_PROVIDER_NAME) != NULL);
    digest = EVP_MD_fetch(library, IWARP_PROVIDER_CRC32C, NULL);
    FUZZ_EXPECT(digest != NULL);
    return 0;
}

static uint32_t running(EVP_MD_CTX *c)
{
    unsigned crc = 0;
    OSSL_PARAM params[] = {OSSL_PARAM_construct_uint(IWARP_PROVIDER_PARAM_CRC, &crc),
                           OSSL_PARAM_construct_end()};

    FUZZ_EXPECT(EVP_MD_CTX_get_params(c, params) == 1);
    return crc;
}

static uint32_t finish(EVP_MD_CTX *c)
{
    uint8_t out[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    FUZZ_EXPECT(EVP_DigestFinal_ex(c, out, &n) == 1 && n == IWARP_PROVIDER_CRC32C_LEN);
    return (uint32_t)out[0] << 24 | (uint32_t)out[1] << 16 | (uint32_t)out[2] << 8 | out[3];
}

/* Set to a value, a context goes on from there. */
static EVP_MD_CTX *begin_at(uint32_t value)
{
    unsigned crc = value;
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_uint(IWARP_PROVIDER_PARAM_CRC, &crc),
                                 OSSL_PARAM_construct_end()};
    EVP_MD_CTX *c = EVP_MD_CTX_new();

    FUZZ_EXPECT(c && EVP_DigestInit_ex2(c, digest, params) == 1);
    return c;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { STEPS = 4 };

    if (size < STEPS) {
        return 0;
    }
    const uint8_t *step = data, *p = data + STEPS;
    size_t n = size - STEPS, at = 0;
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    FUZZ_EXPECT(c && EVP_DigestInit_ex2(c, digest, NULL) == 1);
    for (unsigned i = 0; at < n; i = (i + 1) % STEPS) {
        size_t piece = step[i] >> 2, left = n - at;
        piece = piece < left ? piece : left;
        piece = piece > 0 ? piece : left;
        FUZZ_EXPECT(EVP_DigestUpdate(c, p + at, piece) == 1);
        at += piece;
        EVP_MD_CTX *other = NULL;
        switch (step[i] & 3) {
        case 1:
            FUZZ_EXPECT(running(c) == bit_by_bit(p, at));
            break;
        case 2:
            other = EVP_MD_CTX_new();
            FUZZ_EXPECT(other && EVP_MD_CTX_copy_ex(other, c) == 1);
            FUZZ_EXPECT(finish(c) == bit_by_bit(p, at));
            break;
        case 3:
            other = begin_at(running(c));
            break;
        default:
            break;
        }
        if (other) {
            EVP_MD_CTX_free(c);
            c = other;
        }
    }
    FUZZ_EXPECT(finish(c) == bit_by_bit(p, n));
    EVP_MD_CTX_free(c);
    return 0;
}
