/* SPDX-License-Identifier: BSD-2-Clause */
#include "preload/real.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/*
 * Two threads may fill it at once: both write the same. A thread that sees `filled` sees the rest.
 */
static struct real functions;
static atomic_bool filled;

const struct real *real(void)
{
    if (!atomic_load_explicit(&filled, memory_order_acquire)) {
        void *found;
/* POSIX has functions fit into a pointer; ISO C knows no conversion. */
#define FILL(name)                                                                                 \
    found = dlsym(RTLD_NEXT, #name);                                                               \
    memcpy(&functions.name, &found, sizeof found);
        REAL_FUNCTIONS(FILL)
#undef FILL
        atomic_store_explicit(&filled, true, memory_order_release);
    }
    return &functions;
}
