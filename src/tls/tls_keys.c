/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The secrets of a connection's two directions, from which the keys are made that this library or
 * the kernel uses (RFC 8446 7.1, 7.3). OpenSSL tells them as it tells them to a log of keys, and in
 * no other way.
 */
#include "tls/tls_inner.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <stdio.h>
#include <string.h>

static int digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

static void parse(const char *hex, struct tls_secret *secret)
{
    size_t n = strlen(hex);

    secret->len = 0;
    if (n % 2 != 0 || n / 2 > sizeof secret->octets) {
        return;
    }
    for (size_t i = 0; i < n / 2; i++) {
        int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
        if (high < 0 || low < 0) {
            return;
        }
        secret->octets[i] = (unsigned char)(high * 16 + low);
    }
    secret->len = n / 2;
}

void iwarp_tls_keys_note(struct iwarp_tls *t, const char *line)
{
    static const char *const labels[] = {
        [TLS_OF_CLIENT] = "CLIENT_TRAFFIC_SECRET_0 ", [TLS_OF_SERVER] = "SERVER_TRAFFIC_SECRET_0 "};
    const char *last = strrchr(line, ' ');

    for (unsigned i = 0; i < 2 && last; i++) {
        if (strncmp(line, labels[i], strlen(labels[i])) == 0) {
            parse(last + 1, &t->secret[i]);
        }
    }
}

/* HKDF-Expand-Label with an empty context (RFC 8446 7.1). */
bool iwarp_tls_expand(OSSL_LIB_CTX *library, const struct tls_secret *secret, const char *label,
                      unsigned char *out, size_t len)
{
    unsigned char info[32];
    int n = snprintf((char *)info + 3, sizeof info - 3, "tls13 %s", label);
    char *digest = secret->len == 48 ? "SHA384" : "SHA256";
    int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
    EVP_KDF *kdf = EVP_KDF_fetch(library, "HKDF", NULL);
    EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;

    info[0] = 0;
    info[1] = (unsigned char)len;
    info[2] = (unsigned char)n;
    info[3 + n] = 0;
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret->octets,
                                          secret->len),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, (size_t)n + 4),
        OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode), OSSL_PARAM_construct_end()};
    bool good = context && EVP_KDF_derive(context, out, len, params) == 1;
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
    return good;
}
