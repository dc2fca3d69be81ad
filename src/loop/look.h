/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does it pay to spin before sleeping in the loop?  A policy without clock and I/O: the results of
 * waits come in, and the answer for the next wait comes out.  See look.c.
 */
#ifndef IWARP_LOOP_LOOK_H
#define IWARP_LOOP_LOOK_H

#include <stdbool.h>
#include <stdint.h>

struct iwarp_look {
    int shorts;         /* short waits of late */
    bool pays;          /* the last trial has shown that spinning moves more octets */
    unsigned slice;     /* of the trial; SLICES: no trial runs */
    unsigned hindered;  /* times in a row that another thread needed the processor */
    int64_t spent_ns;   /* in this slice, or since the last trial */
    int64_t ns[2];      /* time in trials: sleeping, spinning */
    uint64_t octets[2]; /* moved in that time */
};

/* Is the thread to spin before its next wait? */
bool iwarp_look_due(const struct iwarp_look *l);

/*
 * A wait is over.  It took took_ns; since the end of the wait before, passed_ns went by and this
 * many octets were moved.
 */
void iwarp_look_waited(struct iwarp_look *l, int64_t took_ns, int64_t passed_ns, uint64_t octets);

/* Another thread needed the processor while this one spun: sleep from now on, and try it later. */
void iwarp_look_hindered(struct iwarp_look *l);

#endif
