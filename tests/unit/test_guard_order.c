/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base/guard: while another thread watches the memory, the last octet of a copy is the last to be
 * seen, and an aligned word at the end is never torn. And addresses with a tag, where there are
 * any.
 */
#include "base/guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static size_t page;

static unsigned char *map(size_t pages, int protection)
{
    void *p = mmap(NULL, pages * page, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static int setup(void **state)
{
    (void)state;
    page = (size_t)sysconf(_SC_PAGESIZE);
    return iwarp_guard_install();
}

/* cmocka has handlers of its own, which it installs before each test. */
static void begin(void **state)
{
    (void)state;
    iwarp_guard_refresh();
}

#define LARGEST 65536

struct race {
    unsigned char *memory;   /* the target, in which the last octet of a trial is polled */
    _Atomic(uint32_t) asked; /* trial that the reader is ready for */
    atomic_bool stop;
    unsigned int trials;
    unsigned int torn;
    unsigned int failed;
};

/* Mostly small, where the order of stores within memcpy differs most. */
static size_t trial_size(uint32_t trial)
{
    uint32_t r = trial * 2654435761U;
    if (trial % 64 == 0) {
        return 1024 + r % (LARGEST - 1024 + 1);
    }
    return trial % 8 == 0 ? 24 + r % 2000 : 24 + r % 300;
}

static size_t trial_offset(uint32_t trial)
{
    return trial % 3 == 0 ? 0 : trial % 61;
}

static unsigned char trial_octet(uint32_t trial)
{
    return (unsigned char)(trial % 2 == 0 ? 0x55 : 0xaa);
}

static void *write_trials(void *arg)
{
    struct race *race = arg;
    unsigned char *data = malloc(LARGEST);
    uint32_t done = 0;
    while (!atomic_load(&race->stop)) {
        uint32_t trial = atomic_load_explicit(&race->asked, memory_order_acquire);
        if (trial == done) {
            continue;
        }
        size_t n = trial_size(trial);
        memset(data, trial_octet(trial), n);
        if (iwarp_guard_copy_to(race->memory + trial_offset(trial), data, n) != 0) {
            race->failed++;
        }
        done = trial;
    }
    free(data);
    return NULL;
}

/* Returns false if an octet was not there although the last one was. */
static bool read_trial(struct race *race, uint32_t trial, unsigned char *seen)
{
    size_t n = trial_size(trial);
    unsigned char *p = race->memory + trial_offset(trial);
    memset(p, 0, n);
    atomic_store_explicit(&race->asked, trial, memory_order_release);
    for (unsigned int spins = 0; __atomic_load_n(p + n - 1, __ATOMIC_ACQUIRE) == 0; spins++) {
        if (spins % 1024 == 1023) {
            sched_yield(); /* valgrind and single processors would wait a whole time slice */
        }
    }
    memcpy(seen, p, n);
    return seen[0] == trial_octet(trial) && memcmp(seen, seen + 1, n - 1) == 0;
}

static void copy_to__polled__last_octet_is_last(void **state)
{
    begin(state);
    struct race race = {.memory = map(LARGEST / 4096 + 2, PROT_READ | PROT_WRITE)};
    unsigned char *seen = malloc(LARGEST);
    pthread_t writer;
    struct timespec begin, now;
    assert_non_null(seen);
    assert_int_equal(pthread_create(&writer, NULL, write_trials, &race), 0);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint32_t trial = 1; trial <= 200000; trial++) {
        race.trials++;
        race.torn += !read_trial(&race, trial, seen);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - begin.tv_sec >= 3) {
            break;
        }
    }
    atomic_store(&race.stop, true);
    pthread_join(writer, NULL);
    print_message("%u trials\n", race.trials);
    assert_true(race.trials > 10);
    assert_int_equal(race.torn, 0);
    assert_int_equal(race.failed, 0);
    free(seen);
    munmap(race.memory, (LARGEST / 4096 + 2) * page);
}

static void *write_words(void *arg)
{
    struct race *race = arg;
    uint64_t value = 0;
    while (!atomic_load_explicit(&race->stop, memory_order_relaxed)) {
        value = ~value;
        uint64_t data[3] = {1, 2, value};
        iwarp_guard_copy_to(race->memory, data, sizeof(data));
    }
    return NULL;
}

static void copy_to__aligned_word_at_the_end__is_never_torn(void **state)
{
    begin(state);
    struct race race = {.memory = map(1, PROT_READ | PROT_WRITE)};
    pthread_t writer;
    unsigned int torn = 0;
    assert_int_equal(pthread_create(&writer, NULL, write_words, &race), 0);
    for (int i = 0; i < 2000000; i++) {
        uintptr_t value = __atomic_load_n(
            (uintptr_t *)(void *)(race.memory + 24 - sizeof(uintptr_t)), __ATOMIC_RELAXED);
        torn += value != 0 && value != UINTPTR_MAX;
    }
    atomic_store(&race.stop, true);
    pthread_join(writer, NULL);
    assert_int_equal(torn, 0);
    munmap(race.memory, page);
}

#if defined(__aarch64__)
/* Top octets are no part of an address there, and no part of what the kernel reports. */
static void copy__tagged_address_of_missing_memory__fails(void **state)
{
    begin(state);
    const unsigned char from[8] = "eight.";
    unsigned char to[64];
    unsigned char *p = map(1, PROT_NONE);
    unsigned char *volatile tagged = (void *)((uintptr_t)p | (uintptr_t)0x5a << 56);
    assert_int_equal(iwarp_guard_copy_from(to, tagged, sizeof(to)), -1);
    assert_int_equal(iwarp_guard_copy_to(tagged + 100, from, sizeof(from)), -1);
    assert_int_equal(mprotect(p, page, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(iwarp_guard_copy_to(tagged + 100, from, sizeof(from)), 0);
    assert_memory_equal(p + 100, from, sizeof(from));
    munmap(p, page);
}
#define TAGGED cmocka_unit_test(copy__tagged_address_of_missing_memory__fails),
#else
#define TAGGED
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copy_to__polled__last_octet_is_last),
        TAGGED cmocka_unit_test(copy_to__aligned_word_at_the_end__is_never_torn),
    };
    return cmocka_run_group_tests_name("guard_order", tests, setup, NULL);
}
