/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Virtual time: on the thread of a simulator (src/sim) it takes the place of the clock, of libuv's
 * timers and wake-ups, of the kernel's random octets, and may refuse memory. Everything else asks
 * here, so that a run depends on the simulator's seed alone. Other threads have none.
 */
#ifndef IWARP_BASE_VIRTUAL_H
#define IWARP_BASE_VIRTUAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iwarp_virtual {
    int64_t now_ns;
    uint64_t (*random)(struct iwarp_virtual *v);
    /* fn(arg) of this loop runs in ns from now; what `arg` had before is replaced. */
    void (*start)(struct iwarp_virtual *v, const void *loop, int64_t ns, void (*fn)(void *arg),
                  void *arg);
    void (*stop)(struct iwarp_virtual *v, const void *arg);
    /* Run what comes next, or let time go on to until_ns (< 0: for ever). False: nothing will ever
     * happen. */
    bool (*step)(struct iwarp_virtual *v, int64_t until_ns);
    /* The application of this loop's device has something to poll. */
    void (*tell)(struct iwarp_virtual *v, const void *loop);
    bool (*refuses)(struct iwarp_virtual *v); /* the next allocation */
};

extern _Thread_local struct iwarp_virtual *iwarp_virtual
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* As getrandom of n octets: returns whether there are so many. flags are getrandom's. */
bool iwarp_random(void *to, size_t n, unsigned flags);

#endif
