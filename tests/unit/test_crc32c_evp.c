/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The provider's digest as OpenSSL's users see it, and how the library uses it: without a trace in
 * the application's library context, without leaks, and never failing in silence.
 *
 * OpenSSL's allocator is replaced by one that counts and can be told to fail. What needs a process
 * that has not used OpenSSL yet, or must die, runs in a child: this program, with the name of the
 * part to play as its argument.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/provider.h>

#include "emulated.h"
#include "mpa/crc32c.h"
#include "mpa/crc32c_evp.h"
#include "provider/crc32c_update.h"
#include "provider/provider.h"

/* ---- OpenSSL's memory ---- */

static atomic_long live;
static atomic_long allocated;
static atomic_long may_allocate = LONG_MAX; /* then there is no memory left */

static void *counting_malloc(size_t size, const char *file, int line)
{
    void *at = atomic_fetch_sub(&may_allocate, 1) <= 0 ? NULL : malloc(size);

    (void)file;
    (void)line;
    if (at != NULL) {
        atomic_fetch_add(&live, 1);
        atomic_fetch_add(&allocated, 1);
    }
    return at;
}

static void counting_free(void *at, const char *file, int line)
{
    (void)file;
    (void)line;
    if (at != NULL) {
        atomic_fetch_sub(&live, 1);
    }
    free(at);
}

/* OpenSSL has dealt with a NULL `at` and a zero `size` before it calls this. */
static void *counting_realloc(void *at, size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return atomic_load(&may_allocate) <= 0 ? NULL : realloc(at, size);
}

/* ---- the arithmetic, both ways ---- */

static void update__every_length_and_alignment__equals_the_reference(void **state)
{
    static uint8_t octets[16 + 600];

    (void)state;
    iwarp_provider_crc32c_prepare();
    for (size_t i = 0; i < sizeof(octets); i++) {
        octets[i] = (uint8_t)(i * i * 37 + i * 11 + 5);
    }
    for (size_t align = 0; align < 16; align++) {
        const uint8_t *at = octets + align;
        uint32_t expected = 0xdeadbeefu;

        for (size_t len = 0; len <= 600; len++) {
            assert_int_equal(iwarp_provider_crc32c_by_table(0xdeadbeefu, at, len), expected);
            assert_int_equal(iwarp_provider_crc32c_update(0xdeadbeefu, at, len), expected);
            expected ^= at[len % 600];
            for (int bit = 0; bit < 8; bit++) {
                expected = (expected >> 1) ^ ((expected & 1) != 0 ? 0x82f63b78u : 0);
            }
        }
    }
}

/* ---- the digest, in a library context of the test's own ---- */

struct fixture {
    OSSL_LIB_CTX *libctx;
    OSSL_PROVIDER *provider;
    EVP_MD *md;
    EVP_MD_CTX *ctx;
};

static int setup(void **state)
{
    static struct fixture f;

    *state = &f;
    f.libctx = OSSL_LIB_CTX_new();
    if (f.libctx == NULL ||
        OSSL_PROVIDER_add_builtin(f.libctx, IWARP_PROVIDER_NAME, iwarp_provider_init) != 1) {
        return -1;
    }
    f.provider = OSSL_PROVIDER_load(f.libctx, IWARP_PROVIDER_NAME);
    f.md = EVP_MD_fetch(f.libctx, "CRC32C", NULL);
    f.ctx = EVP_MD_CTX_new();
    return f.provider != NULL && f.md != NULL && f.ctx != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    EVP_MD_CTX_free(f->ctx);
    EVP_MD_free(f->md);
    OSSL_PROVIDER_unload(f->provider);
    OSSL_LIB_CTX_free(f->libctx);
    return 0;
}

static void assert_final(EVP_MD_CTX *ctx, uint32_t crc)
{
    const uint8_t expected[4] = {(uint8_t)(crc >> 24), (uint8_t)(crc >> 16), (uint8_t)(crc >> 8),
                                 (uint8_t)crc};
    uint8_t out[EVP_MAX_MD_SIZE];
    unsigned int n = 0;

    assert_int_equal(EVP_DigestFinal_ex(ctx, out, &n), 1);
    assert_int_equal(n, 4);
    assert_memory_equal(out, expected, 4);
}

static void digest__published_vectors__come_most_significant_octet_first(void **state)
{
    struct fixture *f = *state;
    uint8_t octets[32];

    assert_int_equal(EVP_DigestInit_ex2(f->ctx, f->md, NULL), 1);
    assert_final(f->ctx, 0);
    /* Initialising again forgets what came before; pieces count as the whole. */
    assert_int_equal(EVP_DigestInit_ex2(f->ctx, NULL, NULL), 1);
    assert_int_equal(EVP_DigestUpdate(f->ctx, "rubbish", 7), 1);
    assert_int_equal(EVP_DigestInit_ex2(f->ctx, NULL, NULL), 1);
    assert_int_equal(EVP_DigestUpdate(f->ctx, "1234", 4), 1);
    assert_int_equal(EVP_DigestUpdate(f->ctx, "", 0), 1);
    assert_int_equal(EVP_DigestUpdate(f->ctx, "56789", 5), 1);
    assert_final(f->ctx, 0xe3069283u);
    memset(octets, 0, sizeof(octets));
    assert_int_equal(EVP_DigestInit_ex2(f->ctx, f->md, NULL), 1);
    assert_int_equal(EVP_DigestUpdate(f->ctx, octets, sizeof(octets)), 1);
    assert_final(f->ctx, 0x8a9136aau);
}

static void digest__asked_about_itself__tells_size_and_provider(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(EVP_MD_get_size(f->md), 4);
    assert_int_equal(EVP_MD_get_block_size(f->md), 1);
    assert_string_equal(EVP_MD_get0_name(f->md), "CRC32C");
    assert_string_equal(OSSL_PROVIDER_get0_name(EVP_MD_get0_provider(f->md)), "iwarp");
    assert_null(EVP_MD_fetch(f->libctx, "SHA256", NULL));
}

static void digest__context_copied_half_way__both_go_on_alone(void **state)
{
    struct fixture *f = *state;
    EVP_MD_CTX *copy = EVP_MD_CTX_new();

    assert_int_equal(EVP_DigestInit_ex2(f->ctx, f->md, NULL), 1);
    assert_int_equal(EVP_DigestUpdate(f->ctx, "1234", 4), 1);
    assert_int_equal(EVP_MD_CTX_copy(copy, f->ctx), 1);
    assert_int_equal(EVP_DigestUpdate(f->ctx, "56789", 5), 1);
    assert_int_equal(EVP_DigestUpdate(copy, "4321", 4), 1);
    assert_final(f->ctx, 0xe3069283u);
    assert_final(copy, iwarp_crc32c(0, "12344321", 8));
    EVP_MD_CTX_free(copy);
}

static void digest__crc_parameter__continues_from_there(void **state)
{
    struct fixture *f = *state;
    uint32_t crc = iwarp_crc32c(0, "1234", 4);
    OSSL_PARAM params[] = {OSSL_PARAM_uint32(IWARP_PROVIDER_PARAM_CRC, &crc), OSSL_PARAM_END};

    assert_int_equal(EVP_DigestInit_ex2(f->ctx, f->md, params), 1);
    assert_int_equal(EVP_DigestUpdate(f->ctx, "56789", 5), 1);
    assert_final(f->ctx, 0xe3069283u);

    assert_int_equal(EVP_DigestInit_ex2(f->ctx, f->md, NULL), 1);
    assert_int_equal(EVP_DigestUpdate(f->ctx, "rubbish", 7), 1);
    assert_int_equal(EVP_MD_CTX_set_params(f->ctx, params), 1);
    assert_int_equal(EVP_DigestUpdate(f->ctx, "56789", 5), 1);
    assert_int_equal(EVP_MD_CTX_get_params(f->ctx, params), 1);
    assert_int_equal(crc, 0xe3069283u);
    assert_final(f->ctx, 0xe3069283u);
}

static void digest__crc_parameter_of_another_type__is_refused(void **state)
{
    struct fixture *f = *state;
    char text[] = "e3069283";
    uint64_t wide = (uint64_t)1 << 32;
    OSSL_PARAM as_text[] = {
        {IWARP_PROVIDER_PARAM_CRC, OSSL_PARAM_UTF8_STRING, text, 8, OSSL_PARAM_UNMODIFIED},
        OSSL_PARAM_END};
    OSSL_PARAM too_wide[] = {OSSL_PARAM_uint64(IWARP_PROVIDER_PARAM_CRC, &wide), OSSL_PARAM_END};

    assert_int_equal(EVP_DigestInit_ex2(f->ctx, f->md, as_text), 0);
    assert_int_equal(EVP_DigestInit_ex2(f->ctx, f->md, NULL), 1);
    assert_int_equal(EVP_MD_CTX_set_params(f->ctx, too_wide), 0);
    assert_final(f->ctx, 0);
    ERR_clear_error();
}

/* ---- the library's use of it ---- */

static bool sha256_works(void)
{
    static const uint8_t abc[4] = {0xba, 0x78, 0x16,
                                   0xbf}; /* FIPS 180: how SHA-256("abc") begins */
    uint8_t out[EVP_MAX_MD_SIZE];
    unsigned int n = 0;

    return EVP_Digest("abc", 3, out, &n, EVP_sha256(), NULL) == 1 && n == 32 &&
           memcmp(out, abc, sizeof(abc)) == 0;
}

static void open__default_context__is_left_alone(void **state)
{
    (void)state;
    assert_true(sha256_works());
    assert_int_equal(iwarp_crc32c_evp_open(), 0);
    assert_int_equal(iwarp_crc32c_evp(0, "123456789", 9), 0xe3069283u);
    assert_true(sha256_works());
    assert_int_equal(OSSL_PROVIDER_available(NULL, "default"), 1);
    assert_int_equal(OSSL_PROVIDER_available(NULL, "iwarp"), 0);
    assert_null(EVP_MD_fetch(NULL, "CRC32C", NULL));
    ERR_clear_error();
}

static void *compute_once(void *arg)
{
    uint32_t *crc = arg;

    *crc = iwarp_crc32c_evp(*crc, "56789", 5);
    return NULL;
}

static uint32_t compute_in_a_thread(void)
{
    uint32_t crc = iwarp_crc32c_evp(0, "1234", 4);
    pthread_t thread;

    if (pthread_create(&thread, NULL, compute_once, &crc) != 0) {
        abort();
    }
    pthread_join(thread, NULL);
    return crc;
}

static void evp__thread_ends__its_context_is_freed(void **state)
{
    long before;

    (void)state;
    assert_int_equal(iwarp_crc32c_evp_open(), 0);
    assert_int_equal(compute_in_a_thread(), 0xe3069283u);
    before = atomic_load(&live);
    for (int i = 0; i < 20; i++) {
        long had = atomic_load(&allocated);

        assert_int_equal(compute_in_a_thread(), 0xe3069283u);
        assert_true(atomic_load(&allocated) > had); /* or this test shows nothing */
    }
    assert_int_equal(atomic_load(&live), before);
}

static void evp__after_the_first_call_in_a_thread__allocates_nothing(void **state)
{
    uint32_t crc;
    long before;

    (void)state;
    assert_int_equal(iwarp_crc32c_evp_open(), 0);
    crc = iwarp_crc32c_evp(0, "1", 1);
    before = atomic_load(&allocated);
    for (int i = 0; i < 1000; i++) {
        crc = iwarp_crc32c_evp(crc, "123456789", 9);
    }
    assert_int_equal(atomic_load(&allocated), before);
}

static void open__twice__costs_nothing_more(void **state)
{
    long before;

    (void)state;
    assert_int_equal(iwarp_crc32c_evp_open(), 0);
    before = atomic_load(&live);
    assert_int_equal(iwarp_crc32c_evp_open(), 0);
    assert_int_equal(atomic_load(&live), before);
}

/* ---- parts played by a child ---- */

/* The library is the first to use OpenSSL in this process. */
static int part_first(void)
{
    return iwarp_crc32c_evp_open() == 0 && iwarp_crc32c_evp(0, "123456789", 9) == 0xe3069283u &&
                   sha256_works()
               ? 0
               : 1;
}

/* With memory for no allocation, for one, for two, until it is enough. */
static int part_open_without_memory(void)
{
    long n;

    /* Without memory for its own start the error queue would stay empty whatever happens. */
    ERR_raise(ERR_LIB_USER, 1);
    if (ERR_get_error() == 0) {
        return 1;
    }
    for (n = 0;; n++) {
        bool opened;

        atomic_store(&may_allocate, n);
        opened = iwarp_crc32c_select(IWARP_CRC32C_EVP) == 0;
        atomic_store(&may_allocate, LONG_MAX);
        if (opened) {
            break;
        }
        if (ERR_peek_error() != 0) {
            return 2;
        }
    }
    if (strcmp(iwarp_crc32c_name(), "evp (provider iwarp)") != 0) {
        return 3;
    }
    return n > 0 && compute_in_a_thread() == 0xe3069283u ? 0 : 4;
}

static int part_thread_without_memory(void)
{
    uint32_t crc = 0;
    pthread_t thread;

    if (iwarp_crc32c_evp_open() != 0) {
        return 1;
    }
    atomic_store(&may_allocate, 0);
    if (pthread_create(&thread, NULL, compute_once, &crc) != 0) {
        return 2;
    }
    pthread_join(thread, NULL);
    return 0;
}

/* exit() takes OpenSSL down while workers are still busy. */
static int part_after_cleanup(void)
{
    if (iwarp_crc32c_evp_open() != 0 || compute_in_a_thread() != 0xe3069283u) {
        return 1;
    }
    OPENSSL_cleanup();
    return compute_in_a_thread() == 0xe3069283u ? 0 : 2;
}

static const struct {
    const char *name;
    int (*play)(void);
} parts[] = {
    {"first", part_first},
    {"open-without-memory", part_open_without_memory},
    {"thread-without-memory", part_thread_without_memory},
    {"after-cleanup", part_after_cleanup},
};

/* Returns the child's wait status and what it wrote to stderr. */
static int play(const char *part, char *text, size_t size)
{
    char self[] = "test_crc32c_evp";
    char argument[32];
    size_t have = 0;
    ssize_t n;
    int ends[2];
    int status = -1;
    pid_t pid;

    snprintf(argument, sizeof(argument), "%s", part);
    fflush(stdout);
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        /* OpenSSL 3.0 itself loses memory when OSSL_LIB_CTX_new or _free cannot allocate. */
        if (strcmp(part, "open-without-memory") == 0) {
            setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
        }
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        exec_anew(self, argument);
        _exit(126);
    }
    assert_true(pid > 0);
    close(ends[1]);
    while (have + 1 < size && (n = read(ends[0], text + have, size - 1 - have)) > 0) {
        have += (size_t)n;
    }
    text[have] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void assert_plays_well(const char *part)
{
    char text[4000];
    int status = play(part, text, sizeof(text));

    if (status != 0) {
        print_error("%s: wait status %#x\n%s\n", part, (unsigned int)status, text);
    }
    assert_int_equal(status, 0);
}

static void open__before_any_other_use_of_openssl__sha256_works_after(void **state)
{
    (void)state;
    assert_plays_well("first");
}

static void open__no_memory__fails_and_can_be_repeated(void **state)
{
    (void)state;
    assert_plays_well("open-without-memory");
}

static void evp__openssl_cleaned_up__still_computes(void **state)
{
    (void)state;
    assert_plays_well("after-cleanup");
}

static void evp__no_memory_for_a_thread__aborts_with_a_message(void **state)
{
    char text[4000];
    int status;

    (void)state;
    status = play("thread-without-memory", text, sizeof(text));
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(text, "libiwarp: CRC32c through OpenSSL EVP failed"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(update__every_length_and_alignment__equals_the_reference),
        cmocka_unit_test(open__default_context__is_left_alone),
        cmocka_unit_test(open__twice__costs_nothing_more),
        cmocka_unit_test(open__before_any_other_use_of_openssl__sha256_works_after),
        cmocka_unit_test(open__no_memory__fails_and_can_be_repeated),
        cmocka_unit_test(evp__thread_ends__its_context_is_freed),
        cmocka_unit_test(evp__after_the_first_call_in_a_thread__allocates_nothing),
        cmocka_unit_test(evp__openssl_cleaned_up__still_computes),
        cmocka_unit_test(evp__no_memory_for_a_thread__aborts_with_a_message),
#define DIGEST_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
        DIGEST_TEST(digest__published_vectors__come_most_significant_octet_first),
        DIGEST_TEST(digest__asked_about_itself__tells_size_and_provider),
        DIGEST_TEST(digest__context_copied_half_way__both_go_on_alone),
        DIGEST_TEST(digest__crc_parameter__continues_from_there),
        DIGEST_TEST(digest__crc_parameter_of_another_type__is_refused),
    };

    if (CRYPTO_set_mem_functions(counting_malloc, counting_realloc, counting_free) != 1) {
        return 125;
    }
    for (size_t i = 0; argc > 1 && i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strcmp(argv[1], parts[i].name) == 0) {
            return parts[i].play();
        }
    }
    return argc > 1 ? 124 : cmocka_run_group_tests_name("crc32c_evp", tests, NULL, NULL);
}
