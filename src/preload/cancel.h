/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pthread_cancel, for threads that wait in an rsocket: the C library does not reach their sleep,
 * nor the loop that they run. The wait ends as one that a signal ends inside (signals.h), and the
 * call is cancelled once it has left.
 *
 *   | the thread is                | pthread_cancel                                          |
 *   |------------------------------|---------------------------------------------------------|
 *   | before or after its wait     | what it calls next finds that it was cancelled          |
 *   | asleep in an rsocket         | wakes it up                                             |
 *   | in the loop, for the rsocket | is noticed when that gives up, within milliseconds      |
 *   | one that has it disabled     | changes nothing                                         |
 */
#ifndef IWARP_PRELOAD_CANCEL_H
#define IWARP_PRELOAD_CANCEL_H

#include <stdbool.h>

/* From here on pthread_cancel finds this thread. Before the call's first test of cancellation. */
void cancel_known(void);

bool cancel_came(void);

/* This thread is about to sleep until *turn changes; NULL: no longer. */
void cancel_sleep_on(_Atomic unsigned *turn);

void cancel_begin_child(void);

#endif
