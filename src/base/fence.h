/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fence between a store of this thread and its next load, where two threads each store their
 * own flag and then load the other's: one of the two must see the other's store. ThreadSanitizer
 * does not support fences; it runs only on processors where a locked instruction precedes each use.
 */
#ifndef IWARP_BASE_FENCE_H
#define IWARP_BASE_FENCE_H

#include <stdatomic.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define IWARP_NO_FENCE 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define IWARP_NO_FENCE 1
#endif

static inline void iwarp_fence(void)
{
#if !defined(IWARP_NO_FENCE)
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

#endif
