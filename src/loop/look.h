/* SPDX-License-Identifier: BSD-2-Clause */
/* Is it better to look for a while before sleeping? What decides, see look.c; no clock, no I/O. */
#ifndef IWARP_LOOP_LOOK_H
#define IWARP_LOOP_LOOK_H

#include <stdbool.h>
#include <stdint.h>

struct iwarp_look {
    int shorts;         /* short waits of late */
    bool pays;          /* looking moves more */
    unsigned slice;     /* of a trial; at its number of slices, it is over */
    unsigned hindered;  /* so many times in a row */
    int64_t spent_ns;   /* in this slice, or since the trial */
    int64_t ns[2];      /* of trials: sleeping, looking */
    uint64_t octets[2]; /* moved in that time */
};

/*
 * Is looking due before the next wait? What came of a wait: how long it took, what has passed since
 * the end of the one before, and what was moved in that time.
 */
bool iwarp_look_due(const struct iwarp_look *l);
void iwarp_look_waited(struct iwarp_look *l, int64_t took_ns, int64_t passed_ns, uint64_t octets);

/* Somebody else needs the processor that is looked on: no more of it, and tried again later. */
void iwarp_look_hindered(struct iwarp_look *l);

#endif
