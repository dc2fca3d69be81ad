/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SHA-256 through OpenSSL's EVP. A failure in the middle switches the digest off, so that finish
 * gives none and the other end reports a missing sum instead of a wrong one being believed.
 */
#include "digest.h"

#include <openssl/evp.h>

bool cp_digest_begin(struct cp_digest *digest)
{
    if (!digest->context) {
        digest->context = EVP_MD_CTX_new();
    }
    digest->on = digest->context && EVP_DigestInit_ex(digest->context, EVP_sha256(), NULL) == 1;
    return digest->on;
}

void cp_digest_update(struct cp_digest *digest, const void *data, size_t len)
{
    if (digest->on && EVP_DigestUpdate(digest->context, data, len) != 1) {
        digest->on = false;
    }
}

bool cp_digest_finish(struct cp_digest *digest, uint8_t *sum)
{
    bool ok = digest->on && EVP_DigestFinal_ex(digest->context, sum, NULL) == 1;

    digest->on = false;
    return ok;
}

void cp_digest_free(struct cp_digest *digest)
{
    EVP_MD_CTX_free(digest->context);
    digest->context = NULL;
    digest->on = false;
}
