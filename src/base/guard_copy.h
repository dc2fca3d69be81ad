/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The copies themselves, for code that runs under a guard already (guard.h): out of memory of the
 * application, and into it, in the order that programs rely on which spin on this memory
 * (iwarp/verbs.h).  They are inline, since there may be millions of small copies in a second, and a
 * call costs more than such a copy.
 */
#ifndef IWARP_BASE_GUARD_COPY_H
#define IWARP_BASE_GUARD_COPY_H

#include "base/guard.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IWARP_UNDER_ASAN 1
#elif __has_feature(thread_sanitizer)
#define IWARP_UNDER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define IWARP_UNDER_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define IWARP_UNDER_TSAN 1
#endif
#if defined(IWARP_UNDER_ASAN)
#include <sanitizer/asan_interface.h>
#endif

/* No checks by sanitizers: they would read their shadow of the address, which may be any. */
#define IWARP_UNCHECKED __attribute__((no_sanitize("address", "thread", "undefined")))

#define IWARP_COMPILER_BARRIER() __asm__ volatile("" ::: "memory")

/* No memcpy uses non-temporal stores below this size; above it a fence is lost in the noise. */
#define IWARP_NONTEMPORAL_MIN 4096

/* Up to this many octets are copied in place, 16 at a time. */
#define IWARP_COPY_INLINE 512

/* Octet by octet, upwards; volatile, so that it does not become a call of memcpy again. */
IWARP_UNCHECKED static inline void iwarp_copy_octets(void *dst, const void *src, size_t n)
{
    volatile unsigned char *to = dst;
    const volatile unsigned char *from = src;
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
    }
}

/* memcpy, by a call. */
void iwarp_copy_long(void *dst, const void *src, size_t n);

/* memcpy; its pieces overlap where n is not a multiple of them. */
IWARP_UNCHECKED static inline void iwarp_copy_fast(void *dst, const void *src, size_t n)
{
#if defined(IWARP_UNDER_ASAN) || defined(IWARP_UNDER_TSAN)
    iwarp_copy_octets(dst, src, n);
#else
    unsigned char *to = dst;
    const unsigned char *from = src;
    if (n > IWARP_COPY_INLINE) {
        iwarp_copy_long(dst, src, n);
    } else if (n > 64) {
        for (size_t i = 0; i < n - 16; i += 16) {
            memcpy(to + i, from + i, 16);
        }
        memcpy(to + n - 16, from + n - 16, 16);
    } else if (n >= 16) {
        size_t inner = n > 32 ? 16 : 0;
        memcpy(to, from, 16);
        memcpy(to + inner, from + inner, 16);
        memcpy(to + n - 16 - inner, from + n - 16 - inner, 16);
        memcpy(to + n - 16, from + n - 16, 16);
    } else if (n >= 8) {
        memcpy(to, from, 8);
        memcpy(to + n - 8, from + n - 8, 8);
    } else if (n >= 4) {
        memcpy(to, from, 4);
        memcpy(to + n - 4, from + n - 4, 4);
    } else if (n > 0) {
        to[0] = from[0];
        to[n / 2] = from[n / 2];
        to[n - 1] = from[n - 1];
    }
#endif
}

/* Stores before it are visible before stores after it.  No C11 fence: TSan does not know those. */
IWARP_UNCHECKED static inline void iwarp_release_stores(size_t n)
{
#if defined(__x86_64__) || defined(__i386__)
    /* Stores are in order, except those memcpy makes past the cache. */
    if (n >= IWARP_NONTEMPORAL_MIN) {
        __asm__ volatile("sfence" ::: "memory");
    }
    IWARP_COMPILER_BARRIER();
#elif defined(__aarch64__)
    (void)n;
    __asm__ volatile("dmb ishst" ::: "memory");
#else
    (void)n;
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/* The most octets that one store writes: the halves of a larger word could be seen separately. */
#define IWARP_WORD sizeof(uintptr_t)

/* The largest aligned word that ends where the copy ends; n is not 0. */
IWARP_UNCHECKED static inline size_t iwarp_tail_size(const void *dst, size_t n)
{
    uintptr_t end = (uintptr_t)dst + n;
    size_t size = IWARP_WORD;
    while (__builtin_expect(size > n || (end & (size - 1)) != 0, 0)) {
        size /= 2;
    }
    return size;
}

/* One store; volatile, because an atomic one would be made within TSan's runtime, under a lock. */
IWARP_UNCHECKED static inline void iwarp_store_tail(void *dst, const void *src, size_t size)
{
    uint64_t w8;
    uint32_t w4;
    uint16_t w2;
    if (size == sizeof(w8)) {
        memcpy(&w8, src, sizeof(w8));
        *(volatile uint64_t *)dst = w8;
    } else if (size == sizeof(w4)) {
        memcpy(&w4, src, sizeof(w4));
        *(volatile uint32_t *)dst = w4;
    } else if (size == sizeof(w2)) {
        memcpy(&w2, src, sizeof(w2));
        *(volatile uint16_t *)dst = w2;
    } else {
        *(volatile unsigned char *)dst = *(const unsigned char *)src;
    }
}

/* After a copy without checks: have AddressSanitizer report an overrun in it. */
static inline void iwarp_guard_check(const void *user, size_t n)
{
#if defined(IWARP_UNDER_ASAN)
    const volatile char *bad = __asan_region_is_poisoned((void *)(uintptr_t)user, n);
    if (bad != NULL) {
        (void)*bad;
    }
#else
    (void)user;
    (void)n;
#endif
}

/* n octets, at least 1, into user memory that is guarded; as iwarp_guard_copy_to says. */
IWARP_UNCHECKED static inline void iwarp_guard_place(void *dst, const void *src, size_t n)
{
    /* The common case, in which the compiler knows the size. */
    bool word = n >= IWARP_WORD && ((uintptr_t)dst + n) % IWARP_WORD == 0;
    size_t tail = word ? IWARP_WORD : iwarp_tail_size(dst, n);
    size_t head = n - tail;

    IWARP_COMPILER_BARRIER();
    iwarp_copy_fast(dst, src, head);
    iwarp_release_stores(n);
    if (word) {
        iwarp_store_tail((unsigned char *)dst + head, (const unsigned char *)src + head,
                         IWARP_WORD);
    } else {
        iwarp_store_tail((unsigned char *)dst + head, (const unsigned char *)src + head, tail);
    }
}

/* n octets out of user memory that is guarded. */
IWARP_UNCHECKED static inline void iwarp_guard_fetch(void *dst, const void *src, size_t n)
{
    IWARP_COMPILER_BARRIER();
    iwarp_copy_fast(dst, src, n);
}

#endif
