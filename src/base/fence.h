/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fence between "say what is wanted" and "see whether somebody looks for it". ThreadSanitizer
 * knows no fences, and is for processors where a locked instruction comes before each of ours.
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
