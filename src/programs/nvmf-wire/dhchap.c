/* SPDX-License-Identifier: BSD-2-Clause */
#include "dhchap.h"

#include "nvme.h"
#include "octets.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

/* By identifier; 0 is no hash, and the null group. */
static const EVP_MD *digest(uint8_t hash)
{
    switch (hash) {
    case 1:
        return EVP_sha256();
    case 2:
        return EVP_sha384();
    case 3:
        return EVP_sha512();
    default:
        return NULL;
    }
}

static const struct {
    const char *name;
    size_t len;
} groups[] = {{"null", 0},        {"ffdhe2048", 256}, {"ffdhe3072", 384},
              {"ffdhe4096", 512}, {"ffdhe6144", 768}, {"ffdhe8192", 1024}};

#define GROUPS (sizeof groups / sizeof groups[0])

size_t nvmf_hash_len(uint8_t hash)
{
    const EVP_MD *md = digest(hash);

    return md ? (size_t)EVP_MD_get_size(md) : 0;
}

size_t nvmf_group_len(uint8_t group)
{
    return group < GROUPS ? groups[group].len : 0;
}

const char *nvmf_group_name(uint8_t group)
{
    return group < GROUPS ? groups[group].name : NULL;
}

/* --- secrets --------------------------------------------------------------------------------- */

/* That of Ethernet and of zip files. */
static uint32_t crc32_of(const uint8_t *at, size_t octets)
{
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < octets; i++) {
        crc ^= at[i];
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
    }
    return ~crc;
}

bool nvmf_secret_read(const char *text, struct nvmf_secret *secret)
{
    static const char prefix[] = "DHHC-1:0";
    const size_t begin = sizeof prefix + 1; /* behind the digit and the colon */
    size_t len = strlen(text), base64, octets;
    uint8_t decoded[NVMF_DIGEST_MAX + 8];

    if (len < begin + 2 || strncmp(text, prefix, sizeof prefix - 1) != 0 || text[begin - 2] < '0' ||
        text[begin - 2] > '3' || text[begin - 1] != ':' || text[len - 1] != ':') {
        return false;
    }
    base64 = len - 1 - begin;
    if (base64 % 4 != 0 || base64 / 4 * 3 > sizeof decoded ||
        EVP_DecodeBlock(decoded, (const uint8_t *)text + begin, (int)base64) < 0) {
        return false;
    }
    octets = base64 / 4 * 3 - (text[len - 2] == '=') - (text[len - 3] == '=');
    if ((octets != 36 && octets != 52 && octets != 68) ||
        nvmf_get32(decoded + octets - 4) != crc32_of(decoded, octets - 4)) {
        return false;
    }
    secret->hash = (uint8_t)(text[begin - 2] - '0');
    secret->len = octets - 4;
    memcpy(secret->key, decoded, secret->len);
    OPENSSL_cleanse(decoded, sizeof decoded);
    return true;
}

/* --- Diffie-Hellman -------------------------------------------------------------------------- */

EVP_PKEY *nvmf_dh_new(uint8_t group)
{
    OSSL_PARAM name = OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME,
                                                       (char *)(uintptr_t)groups[group].name, 0);
    OSSL_PARAM params[] = {name, OSSL_PARAM_construct_end()};
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "DH", NULL);
    EVP_PKEY *pair = NULL;

    if (ctx && EVP_PKEY_keygen_init(ctx) == 1 && EVP_PKEY_CTX_set_params(ctx, params) == 1) {
        EVP_PKEY_generate(ctx, &pair);
    }
    EVP_PKEY_CTX_free(ctx);
    return pair;
}

void nvmf_dh_free(EVP_PKEY *pair)
{
    EVP_PKEY_free(pair);
}

bool nvmf_dh_public(EVP_PKEY *pair, uint8_t *value)
{
    unsigned char *encoded = NULL;
    size_t len = EVP_PKEY_get1_encoded_public_key(pair, &encoded);

    if (len > 0) {
        memcpy(value, encoded, len);
    }
    OPENSSL_free(encoded);
    return len > 0;
}

static bool derive(EVP_PKEY *pair, EVP_PKEY *peer, uint8_t *shared, size_t len)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, pair, NULL);
    unsigned pad = 1; /* all of its octets, leading zeros too */
    OSSL_PARAM params[] = {OSSL_PARAM_construct_uint(OSSL_EXCHANGE_PARAM_PAD, &pad),
                           OSSL_PARAM_construct_end()};
    bool good = ctx && EVP_PKEY_derive_init_ex(ctx, params) == 1 &&
                EVP_PKEY_derive_set_peer_ex(ctx, peer, 1) == 1 &&
                EVP_PKEY_derive(ctx, shared, &len) == 1;

    EVP_PKEY_CTX_free(ctx);
    return good;
}

bool nvmf_dh_agree(EVP_PKEY *pair, const uint8_t *peer, size_t len, uint8_t *shared)
{
    EVP_PKEY *other = EVP_PKEY_new();
    bool good = other && EVP_PKEY_copy_parameters(other, pair) == 1 &&
                EVP_PKEY_set1_encoded_public_key(other, peer, len) == 1 &&
                derive(pair, other, shared, len);

    EVP_PKEY_free(other);
    return good;
}

/* --- responses ------------------------------------------------------------------------------- */

static bool hmac(uint8_t hash, const uint8_t *key, size_t key_len, const uint8_t *at, size_t octets,
                 uint8_t *to)
{
    return HMAC(digest(hash), key, (int)key_len, at, octets, to, NULL) != NULL;
}

static uint8_t *append(uint8_t *to, const void *at, size_t octets)
{
    memcpy(to, at, octets);
    return to + octets;
}

/* A key that is bound to a name is not the key itself. */
static bool bind_key(const struct nvmf_secret *secret, const char *name, uint8_t *key, size_t *len)
{
    static const char words[] = "NVMe-over-Fabrics";
    uint8_t text[NVMF_NQN_MAX + sizeof words], *end = text;

    if (secret->hash == 0) {
        *len = secret->len;
        memcpy(key, secret->key, secret->len);
        return true;
    }
    end = append(end, name, strlen(name));
    end = append(end, words, sizeof words - 1);
    *len = nvmf_hash_len(secret->hash);
    return hmac(secret->hash, secret->key, secret->len, text, (size_t)(end - text), key);
}

/* With Diffie-Hellman the challenge that counts is one that only these two ends know. */
static bool augment(const struct nvmf_proof *proof, uint8_t challenge[NVMF_DIGEST_MAX])
{
    size_t len = nvmf_hash_len(proof->hash);
    uint8_t key[NVMF_DIGEST_MAX];

    if (proof->shared_len == 0) {
        memcpy(challenge, proof->challenge, len);
        return true;
    }
    return EVP_Digest(proof->shared, proof->shared_len, key, NULL, digest(proof->hash), NULL) ==
               1 &&
           hmac(proof->hash, key, len, proof->challenge, len, challenge);
}

bool nvmf_prove(const struct nvmf_proof *proof, uint8_t response[NVMF_DIGEST_MAX])
{
    const char *role = proof->by_host ? "HostHost" : "Controller";
    uint8_t text[NVMF_DIGEST_MAX + 4 + 2 + 1 + 10 + NVMF_NQN_MAX + 1 + NVMF_NQN_MAX];
    uint8_t key[NVMF_DIGEST_MAX], numbers[7] = {0}, *end = text + nvmf_hash_len(proof->hash);
    size_t key_len;
    bool good;

    if (!bind_key(proof->secret, proof->from, key, &key_len) || !augment(proof, text)) {
        return false;
    }
    nvmf_put32(numbers, proof->sequence);
    nvmf_put16(numbers + 4, proof->transaction); /* behind it: no secure channel, 0 */
    end = append(end, numbers, sizeof numbers);
    end = append(end, role, strlen(role));
    end = append(end, proof->from, strlen(proof->from) + 1);
    end = append(end, proof->to, strlen(proof->to));
    good = hmac(proof->hash, key, key_len, text, (size_t)(end - text), response);
    OPENSSL_cleanse(key, sizeof key);
    return good;
}
