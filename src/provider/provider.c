/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The OpenSSL 3 provider `iwarp`: one digest, `CRC32C`, and the tables OpenSSL asks for.
 *
 * OpenSSL has no CRC32c of its own. The digest behaves as any other (init, update, final, copy) and
 * can besides continue from a finished value through the parameter "crc". It is a check against
 * accidents on the way, not a cryptographic digest: it protects against nobody's intent.
 */
#include "provider/provider.h"

#include <stdint.h>

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/params.h>

#include <iwarp/version.h>

#include "provider/crc32c_update.h"

struct crc32c_digest {
    uint32_t state; /* the register, before the final inversion */
};

static OSSL_FUNC_digest_newctx_fn digest_newctx;
static OSSL_FUNC_digest_freectx_fn digest_freectx;
static OSSL_FUNC_digest_dupctx_fn digest_dupctx;
static OSSL_FUNC_digest_init_fn digest_init;
static OSSL_FUNC_digest_update_fn digest_update;
static OSSL_FUNC_digest_final_fn digest_final;
static OSSL_FUNC_digest_get_params_fn digest_get_params;
static OSSL_FUNC_digest_gettable_params_fn digest_gettable_params;
static OSSL_FUNC_digest_set_ctx_params_fn digest_set_ctx_params;
static OSSL_FUNC_digest_settable_ctx_params_fn digest_settable_ctx_params;
static OSSL_FUNC_digest_get_ctx_params_fn digest_get_ctx_params;
static OSSL_FUNC_digest_gettable_ctx_params_fn digest_gettable_ctx_params;
static OSSL_FUNC_provider_query_operation_fn provider_query_operation;
static OSSL_FUNC_provider_get_params_fn provider_get_params;
static OSSL_FUNC_provider_gettable_params_fn provider_gettable_params;

static void *digest_newctx(void *provctx)
{
    struct crc32c_digest *digest = OPENSSL_malloc(sizeof(*digest));

    (void)provctx;
    if (digest != NULL) {
        digest->state = ~(uint32_t)0;
    }
    return digest;
}

static void digest_freectx(void *dctx)
{
    OPENSSL_free(dctx);
}

static void *digest_dupctx(void *dctx)
{
    const struct crc32c_digest *from = dctx;
    struct crc32c_digest *to = OPENSSL_malloc(sizeof(*to));

    if (to != NULL) {
        *to = *from;
    }
    return to;
}

static int digest_init(void *dctx, const OSSL_PARAM params[])
{
    struct crc32c_digest *digest = dctx;

    digest->state = ~(uint32_t)0;
    return digest_set_ctx_params(dctx, params);
}

static int digest_update(void *dctx, const unsigned char *in, size_t len)
{
    struct crc32c_digest *digest = dctx;

    digest->state = iwarp_provider_crc32c_update(digest->state, in, len);
    return 1;
}

static int digest_final(void *dctx, unsigned char *out, size_t *outl, size_t outsz)
{
    const struct crc32c_digest *digest = dctx;
    uint32_t crc = ~digest->state;

    if (outsz < IWARP_PROVIDER_CRC32C_LEN) {
        return 0;
    }
    out[0] = (unsigned char)(crc >> 24);
    out[1] = (unsigned char)(crc >> 16);
    out[2] = (unsigned char)(crc >> 8);
    out[3] = (unsigned char)crc;
    *outl = IWARP_PROVIDER_CRC32C_LEN;
    return 1;
}

static int digest_get_params(OSSL_PARAM params[])
{
    OSSL_PARAM *p = OSSL_PARAM_locate(params, OSSL_DIGEST_PARAM_BLOCK_SIZE);

    if (p != NULL && OSSL_PARAM_set_size_t(p, 1) != 1) {
        return 0;
    }
    p = OSSL_PARAM_locate(params, OSSL_DIGEST_PARAM_SIZE);
    if (p != NULL && OSSL_PARAM_set_size_t(p, IWARP_PROVIDER_CRC32C_LEN) != 1) {
        return 0;
    }
    p = OSSL_PARAM_locate(params, OSSL_DIGEST_PARAM_XOF);
    if (p != NULL && OSSL_PARAM_set_int(p, 0) != 1) {
        return 0;
    }
    p = OSSL_PARAM_locate(params, OSSL_DIGEST_PARAM_ALGID_ABSENT);
    return p == NULL || OSSL_PARAM_set_int(p, 1) == 1;
}

static const OSSL_PARAM *digest_gettable_params(void *provctx)
{
    static const OSSL_PARAM gettable[] = {OSSL_PARAM_size_t(OSSL_DIGEST_PARAM_BLOCK_SIZE, NULL),
                                          OSSL_PARAM_size_t(OSSL_DIGEST_PARAM_SIZE, NULL),
                                          OSSL_PARAM_int(OSSL_DIGEST_PARAM_XOF, NULL),
                                          OSSL_PARAM_int(OSSL_DIGEST_PARAM_ALGID_ABSENT, NULL),
                                          OSSL_PARAM_END};

    (void)provctx;
    return gettable;
}

static int digest_set_ctx_params(void *dctx, const OSSL_PARAM params[])
{
    struct crc32c_digest *digest = dctx;
    const OSSL_PARAM *p;
    uint32_t crc;

    if (params == NULL) {
        return 1;
    }
    p = OSSL_PARAM_locate_const(params, IWARP_PROVIDER_PARAM_CRC);
    if (p != NULL) {
        if (OSSL_PARAM_get_uint32(p, &crc) != 1) {
            return 0;
        }
        digest->state = ~crc;
    }
    return 1;
}

static int digest_get_ctx_params(void *dctx, OSSL_PARAM params[])
{
    const struct crc32c_digest *digest = dctx;
    OSSL_PARAM *p = OSSL_PARAM_locate(params, IWARP_PROVIDER_PARAM_CRC);

    return p == NULL || OSSL_PARAM_set_uint32(p, ~digest->state) == 1;
}

static const OSSL_PARAM ctx_params[] = {OSSL_PARAM_uint32(IWARP_PROVIDER_PARAM_CRC, NULL),
                                        OSSL_PARAM_END};

static const OSSL_PARAM *digest_settable_ctx_params(void *dctx, void *provctx)
{
    (void)dctx;
    (void)provctx;
    return ctx_params;
}

static const OSSL_PARAM *digest_gettable_ctx_params(void *dctx, void *provctx)
{
    (void)dctx;
    (void)provctx;
    return ctx_params;
}

static const OSSL_ALGORITHM *provider_query_operation(void *provctx, int operation, int *no_cache)
{
    static const OSSL_DISPATCH functions[] = {
        {OSSL_FUNC_DIGEST_NEWCTX, (void (*)(void))digest_newctx},
        {OSSL_FUNC_DIGEST_FREECTX, (void (*)(void))digest_freectx},
        {OSSL_FUNC_DIGEST_DUPCTX, (void (*)(void))digest_dupctx},
        {OSSL_FUNC_DIGEST_INIT, (void (*)(void))digest_init},
        {OSSL_FUNC_DIGEST_UPDATE, (void (*)(void))digest_update},
        {OSSL_FUNC_DIGEST_FINAL, (void (*)(void))digest_final},
        {OSSL_FUNC_DIGEST_GET_PARAMS, (void (*)(void))digest_get_params},
        {OSSL_FUNC_DIGEST_GETTABLE_PARAMS, (void (*)(void))digest_gettable_params},
        {OSSL_FUNC_DIGEST_SET_CTX_PARAMS, (void (*)(void))digest_set_ctx_params},
        {OSSL_FUNC_DIGEST_SETTABLE_CTX_PARAMS, (void (*)(void))digest_settable_ctx_params},
        {OSSL_FUNC_DIGEST_GET_CTX_PARAMS, (void (*)(void))digest_get_ctx_params},
        {OSSL_FUNC_DIGEST_GETTABLE_CTX_PARAMS, (void (*)(void))digest_gettable_ctx_params},
        {0, NULL}};
    static const OSSL_ALGORITHM digests[] = {
        {IWARP_PROVIDER_CRC32C, "provider=" IWARP_PROVIDER_NAME, functions, "CRC32c (Castagnoli)"},
        {NULL, NULL, NULL, NULL}};

    (void)provctx;
    *no_cache = 0;
    return operation == OSSL_OP_DIGEST ? digests : NULL;
}

static const OSSL_PARAM *provider_gettable_params(void *provctx)
{
    static const OSSL_PARAM gettable[] = {OSSL_PARAM_utf8_ptr(OSSL_PROV_PARAM_NAME, NULL, 0),
                                          OSSL_PARAM_utf8_ptr(OSSL_PROV_PARAM_VERSION, NULL, 0),
                                          OSSL_PARAM_uint(OSSL_PROV_PARAM_STATUS, NULL),
                                          OSSL_PARAM_END};

    (void)provctx;
    return gettable;
}

static int provider_get_params(void *provctx, OSSL_PARAM params[])
{
    OSSL_PARAM *p = OSSL_PARAM_locate(params, OSSL_PROV_PARAM_NAME);

    (void)provctx;
    if (p != NULL && OSSL_PARAM_set_utf8_ptr(p, "libiwarp CRC32c provider") != 1) {
        return 0;
    }
    p = OSSL_PARAM_locate(params, OSSL_PROV_PARAM_VERSION);
    if (p != NULL && OSSL_PARAM_set_utf8_ptr(p, IWARP_VERSION) != 1) {
        return 0;
    }
    p = OSSL_PARAM_locate(params, OSSL_PROV_PARAM_STATUS);
    return p == NULL || OSSL_PARAM_set_uint(p, 1) == 1;
}

int iwarp_provider_init(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in,
                        const OSSL_DISPATCH **out, void **provctx)
{
    static const OSSL_DISPATCH functions[] = {
        {OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))provider_query_operation},
        {OSSL_FUNC_PROVIDER_GETTABLE_PARAMS, (void (*)(void))provider_gettable_params},
        {OSSL_FUNC_PROVIDER_GET_PARAMS, (void (*)(void))provider_get_params},
        {0, NULL}};

    (void)handle;
    (void)in;
    iwarp_provider_crc32c_prepare();
    *out = functions;
    *provctx = NULL; /* the digest needs nothing from the provider */
    return 1;
}
