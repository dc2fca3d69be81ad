/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests that a real processor runs in another way than qemu's user mode: tools/emulated. */
#ifndef TESTS_EMULATED_H
#define TESTS_EMULATED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static inline void not_emulated(void)
{
    if (getenv("TEST_EMULATED")) {
        skip();
    }
}

/* This program from its beginning, with one argument; does not return unless it fails. */
static inline void exec_anew(char *name, char *argument)
{
    char *emulator = getenv("TEST_EMULATED"), self[4096];
    char *direct[] = {name, argument, NULL}, *emulated[] = {emulator, self, argument, NULL};
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1); /* as qemu shows it */

    self[n > 0 ? n : 0] = '\0';
    execv(emulator ? emulator : "/proc/self/exe", emulator ? emulated : direct);
}

#endif
