/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Selection of the CRC32c implementation, and the one made with ISA-L.
 *
 * The hot path is one load and one indirect call. The pointer starts at a function that selects and
 * then forwards, so there is no "initialised?" test and no constructor. A candidate must reproduce
 * the check value in two pieces before it is taken; a wrong CRC would look like a broken network.
 * The others are in crc32c_avx512.c, crc32c_x86.c, crc32c_arm.c and crc32c_evp.c.
 *
 * RFC 5044 4.4, RFC 3720 12.1 and B.4.
 */
#include "mpa/crc32c.h"

#include "base/settings.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpa/crc32c_arm.h"
#include "mpa/crc32c_avx512.h"
#include "mpa/crc32c_evp.h"
#include "mpa/crc32c_x86.h"

#if defined(IWARP_HAVE_ISAL)
#include <isa-l/crc.h>
#endif

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
 * Long input is processed in steps, and the next step is prefetched during each: the processor's
 * own prefetcher does not reach far enough ahead for memory outside the innermost caches. A
 * multiple of a cache line, 64 octets.
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

/* Up to this many octets a plain loop over the CRC instruction (a "row") is faster than a call of
 * ISA-L. */
#if defined(IWARP_HAVE_ISAL) && defined(__x86_64__)
#define ROW_MAX      256
#define ROW          iwarp_crc32c_x86_row
#define ROW_USABLE   iwarp_crc32c_x86_has_instruction()
#define ISAL_IS_FAST true
#elif defined(IWARP_HAVE_ISAL) && defined(IWARP_CRC32C_ON_ARM)
#define ROW_MAX      1023 /* up to here ISA-L uses the same loop */
#define ROW          iwarp_crc32c_arm
#define ROW_USABLE   iwarp_crc32c_arm_usable()
#define ISAL_IS_FAST iwarp_crc32c_arm_has_multiplier() /* else mostly a table, octet by octet */
#else
#define ISAL_IS_FAST true
#endif

#if defined(ROW)
static uint32_t crc32c_row_or_isal(uint32_t crc, const void *data, size_t len)
{
    return len > ROW_MAX ? crc32c_isal(crc, data, len) : ROW(crc, data, len);
}
#endif

#if defined(IWARP_HAVE_ISAL)
static crc32c_fn *crc32c_isal_best(void)
{
#if defined(ROW)
    if (ROW_USABLE) {
        return crc32c_row_or_isal;
    }
#endif
    return crc32c_isal;
}
#endif

/* Also long enough for everything that an implementation does with long input only. */
static bool crc32c_usable(crc32c_fn *fn)
{
    static const unsigned char octets[8192] = {1, 2, [3000] = 4, [6000] = 8, [8191] = 16};
    uint32_t pieces = 0;

    for (size_t at = 0; at < sizeof octets; at += 64) {
        pieces = fn(pieces, octets + at, 64);
    }
    return fn(fn(0, "1234", 4), "56789", 5) == 0xe3069283u && fn(0, "", 0) == 0 &&
           fn(0, octets, sizeof octets) == pieces;
}

static crc32c_fn *crc32c_open(enum iwarp_crc32c_impl impl);

/* What is fastest here; NULL if there is nothing. */
static crc32c_fn *crc32c_best(void)
{
    crc32c_fn *fn = NULL;

    for (int impl = IWARP_CRC32C_AVX512; fn == NULL && impl <= IWARP_CRC32C_EVP; impl++) {
        if (impl != IWARP_CRC32C_ISAL || ISAL_IS_FAST) {
            fn = crc32c_open((enum iwarp_crc32c_impl)impl);
        }
    }
    return fn;
}

/* NULL if not built in or not working here. */
static crc32c_fn *crc32c_open(enum iwarp_crc32c_impl impl)
{
    crc32c_fn *fn = NULL;

    switch (impl) {
    case IWARP_CRC32C_AUTO:
        return crc32c_best();
    case IWARP_CRC32C_AVX512:
#if defined(__x86_64__)
        fn = iwarp_crc32c_avx512_usable() ? iwarp_crc32c_avx512 : NULL;
#endif
        break;
    case IWARP_CRC32C_AVX2:
#if defined(__x86_64__)
        fn = iwarp_crc32c_avx2_usable() ? iwarp_crc32c_avx2 : NULL;
#endif
        break;
    case IWARP_CRC32C_X86:
#if defined(__x86_64__)
        fn = iwarp_crc32c_x86_usable() ? iwarp_crc32c_x86 : NULL;
#endif
        break;
    case IWARP_CRC32C_ISAL:
#if defined(IWARP_HAVE_ISAL)
        fn = crc32c_isal_best();
#endif
        break;
    case IWARP_CRC32C_ARM:
#if defined(IWARP_CRC32C_ON_ARM)
        fn = iwarp_crc32c_arm_usable() ? iwarp_crc32c_arm : NULL;
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
    static const char *const names[] = {
        [IWARP_CRC32C_AUTO] = "auto", [IWARP_CRC32C_AVX512] = "avx512",
        [IWARP_CRC32C_AVX2] = "avx2", [IWARP_CRC32C_X86] = "x86",
        [IWARP_CRC32C_ISAL] = "isal", [IWARP_CRC32C_ARM] = "arm",
        [IWARP_CRC32C_EVP] = "evp"};
    const char *asked = iwarp_setting(CRC32C_ENV);

    if (asked == NULL || *asked == '\0') {
        *impl = IWARP_CRC32C_AUTO;
        return 0;
    }
    for (int i = IWARP_CRC32C_AUTO; i <= IWARP_CRC32C_EVP; i++) {
        if (strcmp(asked, names[i]) == 0) {
            *impl = (enum iwarp_crc32c_impl)i;
            return 0;
        }
    }
    return -1;
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

/* Select an implementation, or end the process with a message: the caller has no way to fail. */
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
                "avx512, avx2, x86, isal, arm, evp; unset it for the best one this build has)\n",
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
    crc32c_fn *fn = crc32c_demand();

#if defined(__x86_64__)
    if (fn == iwarp_crc32c_avx512) {
        return "x86 (vpclmulqdq)";
    }
    if (fn == iwarp_crc32c_avx2) {
        return "x86 (crc32 and vpclmulqdq)";
    }
    if (fn == iwarp_crc32c_x86) {
        return "x86 (crc32 and pclmulqdq)";
    }
#endif
#if defined(IWARP_CRC32C_ON_ARM)
    if (fn == iwarp_crc32c_arm) {
        return "armv8 (crc32c)";
    }
#endif
    return fn == iwarp_crc32c_evp ? "evp (provider iwarp)" : "isa-l";
}
