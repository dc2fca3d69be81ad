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
 *   | any of these, with           | changes nothing                                         |
 *   | cancellation disabled        |                                                         |
 */
#ifndef IWARP_PRELOAD_CANCEL_H
#define IWARP_PRELOAD_CANCEL_H

#include <stdbool.h>

/* From here on pthread_cancel finds this thread. To be called before cancel_test. */
void cancel_known(void);

/* As pthread_testcancel. If that returns (the thread has it disabled, or is in its handlers of
 * cancellation), waits are ended by what comes from now on. */
void cancel_test(void);

/* Since the last test. */
bool cancel_came(void);

/* This thread is about to sleep until *turn changes; NULL: no longer. */
void cancel_sleep_on(_Atomic unsigned *turn);

void cancel_begin_child(void);

#endif
