/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests that need a real processor: test-aarch64 and test-big-endian emulate one. */
#ifndef TESTS_EMULATED_H
#define TESTS_EMULATED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static inline void not_emulated(void)
{
    if (getenv("TEST_EMULATED")) {
        skip();
    }
}

#endif
