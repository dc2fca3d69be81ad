/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs sockets_*.c share; each is one file and this one. */
#ifndef SOCKETS_CHECK_H
#define SOCKETS_CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(is) ((is) ? (void)0 : fail(#is, __LINE__))

static inline void fail(const char *what, int line)
{
    fprintf(stderr, "line %d: %s, errno %d\n", line, what, errno);
    exit(1);
}

/* Seconds of CLOCK_MONOTONIC. */
static inline double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

#endif
