/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a thread of the program waits for beside the loop that it runs meanwhile: its own
 * descriptors, and a time.
 */
#ifndef IWARP_BASE_BESIDE_H
#define IWARP_BASE_BESIDE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct iwarp_beside {
    struct pollfd *fds; /* the caller's, with room for one more behind them */
    unsigned count;
    int64_t until_ns; /* by CLOCK_MONOTONIC; INT64_MAX: without a limit */
    int ready;        /* out: so many have `revents`; those of the others mean nothing */
};

#endif
