/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC32c as the digest `CRC32C` of the project's provider, reached through EVP.
 *
 * The provider is built in and lives in an OSSL_LIB_CTX of ours. It is never loaded into the
 * default context: loading any provider there by name stops OpenSSL from loading its own default
 * provider, and the application's EVP_sha256 would fail from then on.
 *
 * Each thread keeps one EVP_MD_CTX and frees it when it ends. The library context and the digest
 * stay until the process ends: a worker may still check an FPDU while main is in exit().
 */
#include "mpa/crc32c_evp.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/provider.h>

#include "provider/provider.h"

/* Guards the opening; afterwards they are constant. */
static pthread_mutex_t evp_lock = PTHREAD_MUTEX_INITIALIZER;
static bool evp_key_made;
static pthread_key_t evp_key; /* only for its destructor; the value is looked up in evp_thread */
static EVP_MD *evp_md;

static _Thread_local EVP_MD_CTX *evp_thread;

static void evp_thread_free(void *ctx)
{
    /* Another key's destructor may still want a CRC in this thread; it gets a new context. */
    evp_thread = NULL;
    EVP_MD_CTX_free(ctx);
}

static int evp_open_locked(void)
{
    OSSL_PROVIDER *provider = NULL;
    OSSL_LIB_CTX *libctx;
    EVP_MD *md = NULL;

    if (!evp_key_made) {
        evp_key_made = pthread_key_create(&evp_key, evp_thread_free) == 0;
    }
    libctx = evp_key_made ? OSSL_LIB_CTX_new() : NULL;
    if (libctx != NULL &&
        OSSL_PROVIDER_add_builtin(libctx, IWARP_PROVIDER_NAME, iwarp_provider_init) == 1) {
        provider = OSSL_PROVIDER_load(libctx, IWARP_PROVIDER_NAME);
    }
    if (provider != NULL) {
        md = EVP_MD_fetch(libctx, IWARP_PROVIDER_CRC32C, "provider=" IWARP_PROVIDER_NAME);
    }
    if (md == NULL) {
        if (provider != NULL) {
            OSSL_PROVIDER_unload(provider);
        }
        OSSL_LIB_CTX_free(libctx);
        return -1;
    }
    /* Through the digest, provider and library context stay reachable; nobody asks for them. */
    evp_md = md;
    return 0;
}

/*
 * OpenSSL 3.6 that has no memory for the error queue of a thread wants to note that in the queue,
 * and so on until the stack is used up. So the allocator is asked before OpenSSL asks it.
 */
static bool evp_memory(void)
{
    enum { ENOUGH = 8192 };
    CRYPTO_malloc_fn allocate;
    CRYPTO_free_fn release;
    void *memory;

    CRYPTO_get_mem_functions(&allocate, NULL, &release);
    if (allocate == CRYPTO_malloc) { /* OpenSSL's own notes it, too */
        memory = malloc(ENOUGH);
        free(memory);
    } else {
        memory = allocate(ENOUGH, __FILE__, __LINE__);
        release(memory, __FILE__, __LINE__);
    }
    return memory != NULL;
}

static EVP_MD_CTX *evp_thread_new(void)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();

    if (ctx == NULL) {
        return NULL;
    }
    if (EVP_DigestInit_ex2(ctx, evp_md, NULL) != 1 || pthread_setspecific(evp_key, ctx) != 0) {
        EVP_MD_CTX_free(ctx);
        return NULL;
    }
    evp_thread = ctx;
    return ctx;
}

static bool evp_compute(EVP_MD_CTX *ctx, uint32_t *crc, const void *data, size_t len)
{
    /* `set` and `get` name the same parameter; OpenSSL notes in `get` how much it stored. */
    const OSSL_PARAM set[] = {OSSL_PARAM_uint32(IWARP_PROVIDER_PARAM_CRC, crc), OSSL_PARAM_END};
    OSSL_PARAM get[] = {OSSL_PARAM_uint32(IWARP_PROVIDER_PARAM_CRC, crc), OSSL_PARAM_END};

    /*
     * Not EVP_DigestFinal_ex: after it only EVP_DigestInit_ex2 makes the context usable again, and
     * that allocates and frees the digest's state each time, which costs more than 64 octets.
     */
    return EVP_MD_CTX_set_params(ctx, set) == 1 && EVP_DigestUpdate(ctx, data, len) == 1 &&
           EVP_MD_CTX_get_params(ctx, get) == 1 && OSSL_PARAM_modified(get) == 1;
}

/* Whether this thread can compute, found out here rather than where failing means to abort. */
static bool evp_try(void)
{
    EVP_MD_CTX *ctx = evp_thread != NULL ? evp_thread : evp_thread_new();
    uint32_t crc = 0;

    return ctx != NULL && evp_compute(ctx, &crc, "123456789", 9) && crc == 0xe3069283u;
}

int iwarp_crc32c_evp_open(void)
{
    int rc = 0;

    /* The caller's error queue is not the place for our attempts. */
    ERR_set_mark();
    pthread_mutex_lock(&evp_lock);
    if (evp_md == NULL) {
        rc = evp_open_locked();
    }
    pthread_mutex_unlock(&evp_lock);
    if (rc == 0 && !evp_try()) {
        rc = -1;
    }
    ERR_pop_to_mark();
    return rc;
}

uint32_t iwarp_crc32c_evp(uint32_t crc, const void *data, size_t len)
{
    const bool able = evp_thread != NULL || evp_memory();
    EVP_MD_CTX *ctx = evp_thread != NULL || !able ? evp_thread : evp_thread_new();

    if (ctx == NULL || !evp_compute(ctx, &crc, data, len)) {
        /* There is no value to return that could not pass for a good or a bad CRC. */
        fputs("libiwarp: CRC32c through OpenSSL EVP failed\n", stderr);
        if (able) {
            ERR_print_errors_fp(stderr);
        }
        abort();
    }
    return crc;
}
