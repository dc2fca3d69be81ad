/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Selection of the CRC32c implementation, and the one made with ISA-L.
 *
 * The hot path is one load and one indirect call. The pointer starts at a function that selects and
 * then forwards, so there is no "initialised?" test and no constructor. A candidate must reproduce
 * the check value in two pieces before it is taken; a wrong CRC would look like a broken network.
 * The EVP implementation is in crc32c_evp.c.
 *
 * RFC 5044 4.4, RFC 3720 12.1 and B.4.
 */
#include "mpa/crc32c.h"

#include "base/guard_copy.h"
#include "base/settings.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(IWARP_HAVE_ISAL)
#include <isa-l/crc.h>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif
#endif

#include "mpa/crc32c_evp.h"

#define CRC32C_ENV "IWARP_CRC32C"

typedef uint32_t crc32c_fn(uint32_t crc, const void *data, size_t len);

static crc32c_fn crc32c_first_use;

static crc32c_fn *_Atomic crc32c_active = crc32c_first_use;

/* Taken to change crc32c_active, never to read it. */
static pthread_mutex_t crc32c_lock = PTHREAD_MUTEX_INITIALIZER;

/* [MPA-4.4-01] [MPA-4.4-11] */
uint32_t iwarp_crc32c(uint32_t crc, const void *data, size_t len)
{
    crc32c_fn *fn = atomic_load_explicit(&crc32c_active, memory_order_acquire);

    return fn(crc, data, len);
}

#if defined(IWARP_HAVE_ISAL)
/*
 * Long runs go in steps, and the next step is asked for while one is summed up: the processor alone
 * does not look far enough ahead for memory outside its innermost caches. Whole cache lines of 64.
 */
#define ISAL_STEP ((size_t)4096)

static void prefetch(const unsigned char *at, size_t len)
{
    for (size_t i = 0; i < len; i += 64) {
        __builtin_prefetch(at + i);
    }
}

__attribute__((noinline)) static uint32_t crc32c_isal(uint32_t crc, const void *data, size_t len)
{
    /* It only reads, but its prototype lacks the const. */
    unsigned char *at = (unsigned char *)(uintptr_t)data;
    /* It works on the register before the final inversion, on the way in and out. */
    uint32_t state = ~crc;

    while (len > ISAL_STEP) {
        size_t left = len - ISAL_STEP;
        prefetch(at + ISAL_STEP, left < ISAL_STEP ? left : ISAL_STEP);
        state = crc32_iscsi(at, (int)ISAL_STEP, state);
        at += ISAL_STEP;
        len = left;
    }
    if (len > 0) {
        state = crc32_iscsi(at, (int)len, state);
    }
    return ~state;
}
#endif

#if defined(IWARP_HAVE_ISAL) && defined(__x86_64__)
IWARP_UNCHECKED static inline uint64_t load8(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Up to this many octets the instruction, in one row, is ahead of ISA-L and the call of it. */
#define INSTRUCTION_MAX 256

/* [MPA-4.4-01] */
/* The octets may be the application's, which the sanitizers do not see ISA-L read either. */
__attribute__((target("sse4.2"))) IWARP_UNCHECKED static uint32_t crc32c_x86(uint32_t crc,
                                                                             const void *data,
                                                                             size_t len)
{
    const unsigned char *at = data;
    uint64_t state = ~crc;
    uint32_t four;

    if (len > INSTRUCTION_MAX) {
        return crc32c_isal(crc, data, len);
    }
    for (; len >= 32; len -= 32, at += 32) {
        state = _mm_crc32_u64(state, load8(at));
        state = _mm_crc32_u64(state, load8(at + 8));
        state = _mm_crc32_u64(state, load8(at + 16));
        state = _mm_crc32_u64(state, load8(at + 24));
    }
    for (; len >= 8; len -= 8, at += 8) {
        state = _mm_crc32_u64(state, load8(at));
    }
    if (len >= sizeof four) { /* all there is of an FPDU, whose length is a multiple of it */
        memcpy(&four, at, sizeof four);
        state = _mm_crc32_u32((uint32_t)state, four);
        len -= sizeof four;
        at += sizeof four;
    }
    for (; len > 0; len--) {
        state = _mm_crc32_u8((uint32_t)state, *at++);
    }
    return ~(uint32_t)state;
}

static crc32c_fn *crc32c_isal_best(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") ? crc32c_x86 : crc32c_isal;
}
#elif defined(IWARP_HAVE_ISAL)
static crc32c_fn *crc32c_isal_best(void)
{
    return crc32c_isal;
}
#endif

static bool crc32c_usable(crc32c_fn *fn)
{
    return fn(fn(0, "1234", 4), "56789", 5) == 0xe3069283u && fn(0, "", 0) == 0;
}

/* NULL if not built in or not working here. */
static crc32c_fn *crc32c_open(enum iwarp_crc32c_impl impl)
{
    crc32c_fn *fn = NULL;

    switch (impl) {
    case IWARP_CRC32C_AUTO:
        fn = crc32c_open(IWARP_CRC32C_ISAL);
        return fn != NULL ? fn : crc32c_open(IWARP_CRC32C_EVP);
    case IWARP_CRC32C_ISAL:
#if defined(IWARP_HAVE_ISAL)
        fn = crc32c_isal_best();
#endif
        break;
    case IWARP_CRC32C_EVP:
        fn = iwarp_crc32c_evp_open() == 0 ? iwarp_crc32c_evp : NULL;
        break;
    }
    return fn != NULL && crc32c_usable(fn) ? fn : NULL;
}

/* What AUTO stands for in this environment; -1 if the environment names something unknown. */
static int crc32c_from_env(enum iwarp_crc32c_impl *impl)
{
    const char *name = iwarp_setting(CRC32C_ENV);

    if (name == NULL || *name == '\0' || strcmp(name, "auto") == 0) {
        *impl = IWARP_CRC32C_AUTO;
    } else if (strcmp(name, "isal") == 0) {
        *impl = IWARP_CRC32C_ISAL;
    } else if (strcmp(name, "evp") == 0) {
        *impl = IWARP_CRC32C_EVP;
    } else {
        return -1;
    }
    return 0;
}

static int crc32c_select_locked(enum iwarp_crc32c_impl impl)
{
    crc32c_fn *fn;

    if (impl == IWARP_CRC32C_AUTO && crc32c_from_env(&impl) != 0) {
        return -1;
    }
    fn = crc32c_open(impl);
    if (fn == NULL) {
        return -1;
    }
    atomic_store_explicit(&crc32c_active, fn, memory_order_release);
    return 0;
}

int iwarp_crc32c_select(enum iwarp_crc32c_impl impl)
{
    int rc;

    pthread_mutex_lock(&crc32c_lock);
    rc = crc32c_select_locked(impl);
    pthread_mutex_unlock(&crc32c_lock);
    return rc;
}

/* An implementation for sure: whoever asks cannot go on without, and must not go on in silence. */
static crc32c_fn *crc32c_demand(void)
{
    crc32c_fn *fn;
    int rc = 0;

    pthread_mutex_lock(&crc32c_lock);
    /* Another thread may have selected meanwhile; its choice stays. */
    if (atomic_load_explicit(&crc32c_active, memory_order_relaxed) == crc32c_first_use) {
        rc = crc32c_select_locked(IWARP_CRC32C_AUTO);
    }
    fn = atomic_load_explicit(&crc32c_active, memory_order_relaxed);
    pthread_mutex_unlock(&crc32c_lock);
    if (rc != 0) {
        const char *asked = iwarp_setting(CRC32C_ENV);

        fprintf(stderr,
                "libiwarp: no usable CRC32c implementation (" CRC32C_ENV "=%s; known are auto, "
                "isal, evp; unset it for the best one this build has)\n",
                asked != NULL ? asked : "");
        abort();
    }
    return fn;
}

static uint32_t crc32c_first_use(uint32_t crc, const void *data, size_t len)
{
    return crc32c_demand()(crc, data, len);
}

const char *iwarp_crc32c_name(void)
{
    return crc32c_demand() == iwarp_crc32c_evp ? "evp (provider iwarp)" : "isa-l";
}
