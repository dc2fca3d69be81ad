/* SPDX-License-Identifier: BSD-2-Clause */
/* See alloc_fault.h. The names are what `ld --wrap` asks for. */
#include "alloc_fault.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);

static _Thread_local unsigned count, fail_at;

void alloc_fault_at(unsigned n)
{
    count = 0;
    fail_at = n;
}

unsigned alloc_fault_count(void)
{
    return count;
}

static _Atomic unsigned anywhere_count, anywhere_fail_at;

void alloc_fault_anywhere_at(unsigned n)
{
    atomic_store(&anywhere_fail_at, 0);
    atomic_store(&anywhere_count, 0);
    atomic_store(&anywhere_fail_at, n);
}

unsigned alloc_fault_anywhere_count(void)
{
    return atomic_load(&anywhere_count);
}

static bool fails(void)
{
    unsigned n = atomic_load(&anywhere_fail_at);

    if (n > 0 && atomic_fetch_add(&anywhere_count, 1) + 1 == n) {
        return true;
    }
    return ++count == fail_at;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails() ? NULL : __real_realloc(p, size);
}
