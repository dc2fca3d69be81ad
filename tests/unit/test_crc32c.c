/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC32c as the framing calls it: each implementation against the published vectors and against
 * arithmetic one bit at a time, and the selection between them.
 *
 * What must happen in a process that has not computed a CRC yet runs in a child: this program, with
 * the name of the part to play as its argument.
 *
 * RFC 5044 4.4, RFC 3720 12.1 and B.4.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "emulated.h"
#include "mpa/crc32c.h"
#include "mpa/crc32c_arm.h"
#include "mpa/crc32c_avx512.h"
#include "mpa/crc32c_x86.h"

#define NAME_AVX512 "x86 (vpclmulqdq)"
#define NAME_AVX2   "x86 (crc32 and vpclmulqdq)"
#define NAME_X86    "x86 (crc32 and pclmulqdq)"
#define NAME_ISAL   "isa-l"
#define NAME_ARM    "armv8 (crc32c)"
#define NAME_EVP    "evp (provider iwarp)"

/* What "isal" leads to, in a build with ISA-L and in one without. */
#if defined(IWARP_HAVE_ISAL)
#define ISAL_STATUS 0
#else
#define ISAL_STATUS (-1)
#endif

static bool have_x86(void)
{
#if defined(__x86_64__)
    return iwarp_crc32c_x86_usable();
#else
    return false;
#endif
}

static bool have_avx2(void)
{
#if defined(__x86_64__)
    return iwarp_crc32c_avx2_usable();
#else
    return false;
#endif
}

static bool have_avx512(void)
{
#if defined(__x86_64__)
    return iwarp_crc32c_avx512_usable();
#else
    return false;
#endif
}

static bool have_arm(void)
{
#if defined(IWARP_CRC32C_ON_ARM)
    return iwarp_crc32c_arm_usable();
#else
    return false;
#endif
}

/* ISA-L without it has a table of octets. */
static bool have_arm_multiplier(void)
{
#if defined(IWARP_CRC32C_ON_ARM)
    return iwarp_crc32c_arm_has_multiplier();
#else
    return false;
#endif
}

static bool have_isal(void)
{
    return ISAL_STATUS == 0;
}

/* What "auto" leads to. */
static const char *name_auto(void)
{
    if (have_avx512()) {
        return NAME_AVX512;
    }
    if (have_avx2()) {
        return NAME_AVX2;
    }
    if (have_x86()) {
        return NAME_X86;
    }
    if (have_arm() && !(have_isal() && have_arm_multiplier())) {
        return NAME_ARM;
    }
    return have_isal() ? NAME_ISAL : NAME_EVP;
}

/* ---- an independent reference: one bit at a time, straight from the definition ---- */

static uint32_t reference(uint32_t crc, const uint8_t *data, size_t len)
{
    uint32_t state = ~crc;

    for (size_t i = 0; i < len; i++) {
        state ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            state = (state & 1) != 0 ? (state >> 1) ^ 0x82f63b78u : state >> 1;
        }
    }
    return ~state;
}

static uint64_t random_state;

static uint32_t random_below(uint32_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % bound;
}

static void random_start(const char *what)
{
    const char *given = getenv("SEED");
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now); /* wall clock: a seed */
    random_state = given != NULL ? strtoull(given, NULL, 0)
                                 : (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    random_state |= 1;
    printf("%s: SEED=%llu\n", what, (unsigned long long)random_state);
}

static void fill_random(uint8_t *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        at[i] = (uint8_t)random_below(256);
    }
}

/* ---- each of these runs once per implementation; the setup has selected it ---- */

#if defined(IWARP_HAVE_ISAL)
static int select_isal(void **state)
{
    (void)state;
    return iwarp_crc32c_select(IWARP_CRC32C_ISAL);
}
#endif

/* On a processor without it, what came before runs once more. */
static int select_x86(void **state)
{
    (void)state;
    return have_x86() ? iwarp_crc32c_select(IWARP_CRC32C_X86) : 0;
}

static int select_avx2(void **state)
{
    (void)state;
    return have_avx2() ? iwarp_crc32c_select(IWARP_CRC32C_AVX2) : 0;
}

static int select_avx512(void **state)
{
    (void)state;
    return have_avx512() ? iwarp_crc32c_select(IWARP_CRC32C_AVX512) : 0;
}

static int select_arm(void **state)
{
    (void)state;
    return have_arm() ? iwarp_crc32c_select(IWARP_CRC32C_ARM) : 0;
}

static int select_evp(void **state)
{
    (void)state;
    return iwarp_crc32c_select(IWARP_CRC32C_EVP);
}

/* RFC 3720 B.4: the SCSI Read (10) command PDU. */
static const uint8_t scsi_read_10[48] = {
    0x01, 0xc0, 0x00, 0x00, /* opcode, flags */
    0x00, 0x00, 0x00, 0x00, /* AHS and data segment length */
    0x00, 0x00, 0x00, 0x00, /* LUN */
    0x00, 0x00, 0x00, 0x00, /**/
    0x14, 0x00, 0x00, 0x00, /* initiator task tag */
    0x00, 0x00, 0x04, 0x00, /* expected data transfer length */
    0x00, 0x00, 0x00, 0x14, /* CmdSN */
    0x00, 0x00, 0x00, 0x18, /* ExpStatSN */
    0x28, 0x00, 0x00, 0x00, /* CDB: Read (10) */
    0x00, 0x00, 0x00, 0x00, /**/
    0x02, 0x00, 0x00, 0x00, /**/
    0x00, 0x00, 0x00, 0x00, /**/
};

/* [MPA-4.4-01] [MPA-4.4-11] */
static void crc32c__published_vectors__match(void **state)
{
    uint8_t octets[32];

    (void)state;
    assert_int_equal(iwarp_crc32c(0, "123456789", 9), 0xe3069283u);
    memset(octets, 0x00, sizeof(octets));
    assert_int_equal(iwarp_crc32c(0, octets, sizeof(octets)), 0x8a9136aau);
    memset(octets, 0xff, sizeof(octets));
    assert_int_equal(iwarp_crc32c(0, octets, sizeof(octets)), 0x62a8ab43u);
    for (unsigned int i = 0; i < sizeof(octets); i++) {
        octets[i] = (uint8_t)i;
    }
    assert_int_equal(iwarp_crc32c(0, octets, sizeof(octets)), 0x46dd794eu);
    for (unsigned int i = 0; i < sizeof(octets); i++) {
        octets[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(iwarp_crc32c(0, octets, sizeof(octets)), 0x113fdb5cu);
    assert_int_equal(iwarp_crc32c(0, scsi_read_10, sizeof(scsi_read_10)), 0xd9963a56u);
}

static void crc32c__no_octets__leave_the_value(void **state)
{
    (void)state;
    assert_int_equal(iwarp_crc32c(0, "", 0), 0);
    assert_int_equal(iwarp_crc32c(0, NULL, 0), 0);
    assert_int_equal(iwarp_crc32c(0xe3069283u, NULL, 0), 0xe3069283u);
    assert_int_equal(iwarp_crc32c(0xffffffffu, "", 0), 0xffffffffu);
}

static void crc32c__own_crc_appended__gives_the_residue(void **state)
{
    uint8_t octets[200];

    (void)state;
    random_start(__func__);
    fill_random(octets, sizeof(octets));
    for (size_t len = 0; len + 4 <= sizeof(octets); len++) {
        uint32_t crc = iwarp_crc32c(0, octets, len);
        uint8_t wire[4] = {(uint8_t)crc, (uint8_t)(crc >> 8), (uint8_t)(crc >> 16),
                           (uint8_t)(crc >> 24)};

        assert_int_equal(iwarp_crc32c(crc, wire, 4), IWARP_CRC32C_RESIDUE);
        wire[len % 4] ^= (uint8_t)(1u << len % 8);
        assert_int_not_equal(iwarp_crc32c(crc, wire, 4), IWARP_CRC32C_RESIDUE);
    }
}

static void crc32c__every_length_and_alignment__equals_the_reference(void **state)
{
    static uint8_t octets[64 + 600];

    (void)state;
    random_start(__func__);
    fill_random(octets, sizeof(octets));
    for (size_t align = 0; align < 64; align++) {
        const uint8_t *at = octets + align;
        uint32_t expected = 0;

        for (size_t len = 0; len <= 600; len++) {
            assert_int_equal(iwarp_crc32c(0, at, len), expected);
            if (len < 600) {
                expected = reference(expected, at + len, 1);
            }
        }
    }
}

/* What is long is summed up in blocks; these lengths have every number of each, and every rest. */
static void crc32c__long_runs_of_any_length__equal_the_reference(void **state)
{
    static uint8_t octets[64 + 14000];
    const uint8_t *at = octets + 5;
    uint32_t expected;

    (void)state;
    random_start(__func__);
    fill_random(octets, sizeof(octets));
    expected = reference(0x12345678, at, 400);
    for (size_t len = 400; len < 14000; len++) {
        if (len % 3 == 0 || len < 5000) {
            assert_int_equal(iwarp_crc32c(0x12345678, at, len), expected);
        }
        expected = reference(expected, at + len, 1);
    }
}

/* One bit at a time, wherever it is: no octet is left out, or taken twice. */
static void crc32c__each_bit_of_a_long_run__counts_as_in_the_reference(void **state)
{
    static uint8_t octets[4080 + 1360 + 408 + 39];
    size_t step = 1;

    (void)state;
    memset(octets, 0, sizeof(octets));
    for (size_t i = 0; i < sizeof(octets); i += step) {
        octets[i] = (uint8_t)(1u << i % 8);
        assert_int_equal(iwarp_crc32c(0, octets, sizeof(octets)),
                         reference(0, octets, sizeof(octets)));
        octets[i] = 0;
        step = i % 3 + 1;
    }
}

static void crc32c__any_running_value__continues_like_the_reference(void **state)
{
    uint8_t octets[300];

    (void)state;
    random_start(__func__);
    fill_random(octets, sizeof(octets));
    for (int i = 0; i < 2000; i++) {
        uint32_t crc = random_below(UINT32_MAX);
        size_t len = random_below(sizeof(octets) + 1);

        assert_int_equal(iwarp_crc32c(crc, octets, len), reference(crc, octets, len));
    }
}

static void crc32c__random_splits__equal_the_whole(void **state)
{
    static uint8_t octets[70000];
    uint32_t whole;

    (void)state;
    random_start(__func__);
    fill_random(octets, sizeof(octets));
    whole = iwarp_crc32c(0, octets, sizeof(octets));
    assert_int_equal(whole, reference(0, octets, sizeof(octets)));
    for (int round = 0; round < 200; round++) {
        uint32_t longest = 1u << (4 + random_below(13)); /* 16 to 65536 */
        uint32_t crc = 0;

        for (size_t pos = 0; pos < sizeof(octets);) {
            size_t left = sizeof(octets) - pos;
            size_t len = random_below(longest + 1);

            len = len < left ? len : left;
            crc = iwarp_crc32c(crc, octets + pos, len);
            pos += len;
        }
        assert_int_equal(crc, whole);
    }
}

/* An implementation that reads beyond its input is killed here. */
static void crc32c__input_beside_unmapped_pages__stays_inside(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *area = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *first = area + page;
    uint8_t *end = first + page;

    (void)state;
    assert_ptr_not_equal(area, MAP_FAILED);
    assert_int_equal(mprotect(first, page, PROT_READ | PROT_WRITE), 0);
    random_start(__func__);
    fill_random(first, page);
    for (size_t len = 0; len <= 600; len++) {
        assert_int_equal(iwarp_crc32c(0, first, len), reference(0, first, len));
        assert_int_equal(iwarp_crc32c(0, end - len, len), reference(0, end - len, len));
    }
    for (size_t len = 600; len <= page; len += 1 + len / 100) {
        assert_int_equal(iwarp_crc32c(0, first, len), reference(0, first, len));
        assert_int_equal(iwarp_crc32c(0, end - len, len), reference(0, end - len, len));
    }
    assert_int_equal(iwarp_crc32c(0, first, page), reference(0, first, page));
    munmap(area, 3 * page);
}

/* ---- lengths that do not fit an int ---- */

#if defined(IWARP_HAVE_ISAL)

static void mark(uint8_t *area, size_t at, uint8_t value)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    assert_int_equal(mprotect(area + at / page * page, page, PROT_READ | PROT_WRITE), 0);
    area[at] = value;
}

/* Only for ISA-L, which counts in int. The memory is one page of zeros mapped over and over. */
static void crc32c__more_than_int_max__equals_the_sum_of_pieces(void **state)
{
    const size_t len = ((size_t)1 << 31) + 77;
    const size_t piece = (size_t)100000 * 1000 + 1;
    uint8_t *area = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t crc = 0;

    (void)state;
    assert_ptr_not_equal(area, MAP_FAILED);
    mark(area, 0, 0x11);
    mark(area, ((size_t)1 << 30) - 1, 0x22);
    mark(area, (size_t)1 << 30, 0x33);
    mark(area, ((size_t)1 << 31) - 1, 0x44);
    mark(area, len - 1, 0x55);
    for (size_t pos = 0; pos < len; pos += piece) {
        crc = iwarp_crc32c(crc, area + pos, len - pos < piece ? len - pos : piece);
    }
    assert_int_equal(iwarp_crc32c(0, area, len), crc);
    munmap(area, len);
}
#endif

/* ---- selection ---- */

static void select__by_call__shows_in_the_name(void **state)
{
    (void)state;
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_EVP), 0);
    assert_string_equal(iwarp_crc32c_name(), NAME_EVP);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_ISAL), ISAL_STATUS);
    assert_string_equal(iwarp_crc32c_name(), have_isal() ? NAME_ISAL : NAME_EVP);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_EVP), 0);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_X86), have_x86() ? 0 : -1);
    assert_string_equal(iwarp_crc32c_name(), have_x86() ? NAME_X86 : NAME_EVP);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_EVP), 0);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_AVX2), have_avx2() ? 0 : -1);
    assert_string_equal(iwarp_crc32c_name(), have_avx2() ? NAME_AVX2 : NAME_EVP);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_EVP), 0);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_AVX512), have_avx512() ? 0 : -1);
    assert_string_equal(iwarp_crc32c_name(), have_avx512() ? NAME_AVX512 : NAME_EVP);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_EVP), 0);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_ARM), have_arm() ? 0 : -1);
    assert_string_equal(iwarp_crc32c_name(), have_arm() ? NAME_ARM : NAME_EVP);
}

static void select__auto__follows_the_environment(void **state)
{
    (void)state;
    setenv("IWARP_CRC32C", "evp", 1);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_AUTO), 0);
    assert_string_equal(iwarp_crc32c_name(), NAME_EVP);
    setenv("IWARP_CRC32C", "isal", 1);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_AUTO), ISAL_STATUS);
    assert_string_equal(iwarp_crc32c_name(), have_isal() ? NAME_ISAL : NAME_EVP);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_EVP), 0);
    setenv("IWARP_CRC32C", "x86", 1);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_AUTO), have_x86() ? 0 : -1);
    assert_string_equal(iwarp_crc32c_name(), have_x86() ? NAME_X86 : NAME_EVP);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_EVP), 0);
    setenv("IWARP_CRC32C", "avx2", 1);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_AUTO), have_avx2() ? 0 : -1);
    assert_string_equal(iwarp_crc32c_name(), have_avx2() ? NAME_AVX2 : NAME_EVP);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_EVP), 0);
    setenv("IWARP_CRC32C", "avx512", 1);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_AUTO), have_avx512() ? 0 : -1);
    assert_string_equal(iwarp_crc32c_name(), have_avx512() ? NAME_AVX512 : NAME_EVP);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_EVP), 0);
    setenv("IWARP_CRC32C", "arm", 1);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_AUTO), have_arm() ? 0 : -1);
    assert_string_equal(iwarp_crc32c_name(), have_arm() ? NAME_ARM : NAME_EVP);
    unsetenv("IWARP_CRC32C");
}

static void select__auto_without_a_wish__takes_the_best(void **state)
{
    static const char *const envs[] = {NULL, "", "auto"};

    (void)state;
    for (size_t i = 0; i < sizeof(envs) / sizeof(envs[0]); i++) {
        if (envs[i] != NULL) {
            setenv("IWARP_CRC32C", envs[i], 1);
        }
        assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_EVP), 0);
        assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_AUTO), 0);
        assert_string_equal(iwarp_crc32c_name(), name_auto());
    }
    unsetenv("IWARP_CRC32C");
}

static void select__unknown_name_in_environment__changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_EVP), 0);
    setenv("IWARP_CRC32C", "crc32", 1);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_AUTO), -1);
    assert_string_equal(iwarp_crc32c_name(), NAME_EVP);
    /* The environment has no say when the caller is definite. */
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_ISAL), ISAL_STATUS);
    assert_int_equal(iwarp_crc32c_select(IWARP_CRC32C_EVP), 0);
    unsetenv("IWARP_CRC32C");
}

/* ---- many threads ---- */

#define THREADS 8

static pthread_barrier_t start_line;
static atomic_uint wrong;

static void *first_use_thread(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&start_line);
    for (int i = 0; i < 1000; i++) {
        if (iwarp_crc32c(iwarp_crc32c(0, "12345", 5), "6789", 4) != 0xe3069283u) {
            atomic_fetch_add(&wrong, 1);
        }
    }
    return NULL;
}

static void run_first_use_threads(void)
{
    pthread_t threads[THREADS];

    pthread_barrier_init(&start_line, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, first_use_thread, NULL) != 0) {
            abort();
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&start_line);
}

static void select__while_others_compute__never_gives_a_wrong_value(void **state)
{
    pthread_t thread;

    (void)state;
    atomic_store(&wrong, 0);
    pthread_barrier_init(&start_line, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, first_use_thread, NULL), 0);
    pthread_barrier_wait(&start_line);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(iwarp_crc32c_select(i % 2 ? IWARP_CRC32C_AUTO : IWARP_CRC32C_EVP), 0);
    }
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&start_line);
    assert_int_equal(atomic_load(&wrong), 0);
}

/* ---- first use in a fresh process ---- */

/* Plays `part` with IWARP_CRC32C=env; returns the wait status and what the child wrote. */
static int play(const char *part, const char *env, char *text, size_t size)
{
    char self[] = "test_crc32c";
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
        setenv("IWARP_CRC32C", env, 1);
        dup2(ends[1], STDOUT_FILENO);
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

static void first_use__by_many_threads__selects_what_the_environment_says(void **state)
{
    char text[500];

    (void)state;
    for (int round = 0; round < 10; round++) {
        assert_int_equal(play("threads", "evp", text, sizeof(text)), 0);
        assert_string_equal(text, NAME_EVP);
        assert_int_equal(play("threads", "auto", text, sizeof(text)), 0);
        assert_string_equal(text, name_auto());
#if defined(IWARP_HAVE_ISAL)
        assert_int_equal(play("threads", "isal", text, sizeof(text)), 0);
        assert_string_equal(text, NAME_ISAL);
#endif
    }
}

static void first_use__asking_for_the_name__selects(void **state)
{
    char text[500];

    (void)state;
    assert_int_equal(play("name", "evp", text, sizeof(text)), 0);
    assert_string_equal(text, NAME_EVP);
}

static void first_use__after_a_definite_select__ignores_the_environment(void **state)
{
    char text[500];

    (void)state;
    assert_int_equal(play("select", "crc32", text, sizeof(text)), 0);
    assert_string_equal(text, NAME_EVP);
}

static void first_use__unknown_name_in_environment__aborts_and_names_it(void **state)
{
    char text[500];
    int status;

    (void)state;
    status = play("name", "crc32", text, sizeof(text));
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(text, "IWARP_CRC32C=crc32"));
}

static int perform(const char *part)
{
    if (strcmp(part, "threads") == 0) {
        run_first_use_threads();
    } else if (strcmp(part, "select") == 0) {
        if (iwarp_crc32c_select(IWARP_CRC32C_EVP) != 0) {
            return 1;
        }
        run_first_use_threads();
    }
    fputs(iwarp_crc32c_name(), stdout);
    return atomic_load(&wrong) == 0 ? 0 : 1;
}

#define ONCE_WITH(select, test) {#test " (" #select ")", test, select, NULL, NULL}
#if defined(IWARP_HAVE_ISAL)
#define WITH_ISAL(test) ONCE_WITH(select_isal, test),
#else
#define WITH_ISAL(test)
#endif
#define WITH_EACH(test)                                                                            \
    ONCE_WITH(select_avx512, test), ONCE_WITH(select_avx2, test), ONCE_WITH(select_x86, test),     \
        WITH_ISAL(test) ONCE_WITH(select_arm, test), ONCE_WITH(select_evp, test)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WITH_EACH(crc32c__published_vectors__match),
        WITH_EACH(crc32c__no_octets__leave_the_value),
        WITH_EACH(crc32c__own_crc_appended__gives_the_residue),
        WITH_EACH(crc32c__every_length_and_alignment__equals_the_reference),
        WITH_EACH(crc32c__long_runs_of_any_length__equal_the_reference),
        WITH_EACH(crc32c__each_bit_of_a_long_run__counts_as_in_the_reference),
        WITH_EACH(crc32c__any_running_value__continues_like_the_reference),
        WITH_EACH(crc32c__random_splits__equal_the_whole),
        WITH_EACH(crc32c__input_beside_unmapped_pages__stays_inside),
        WITH_ISAL(crc32c__more_than_int_max__equals_the_sum_of_pieces)
            cmocka_unit_test(select__by_call__shows_in_the_name),
        cmocka_unit_test(select__auto__follows_the_environment),
        cmocka_unit_test(select__auto_without_a_wish__takes_the_best),
        cmocka_unit_test(select__unknown_name_in_environment__changes_nothing),
        cmocka_unit_test(select__while_others_compute__never_gives_a_wrong_value),
        cmocka_unit_test(first_use__by_many_threads__selects_what_the_environment_says),
        cmocka_unit_test(first_use__asking_for_the_name__selects),
        cmocka_unit_test(first_use__after_a_definite_select__ignores_the_environment),
        cmocka_unit_test(first_use__unknown_name_in_environment__aborts_and_names_it),
    };

    if (argc > 1) {
        return perform(argv[1]);
    }
    unsetenv("IWARP_CRC32C");
    return cmocka_run_group_tests_name("crc32c", tests, NULL, NULL);
}
