/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A handler of the program may leave a call by siglongjmp, and may itself call what this library
 * defines (read, write, close and poll are safe in handlers). So it must not run where the library
 * holds locks. A thread is *inside* from signals_hold to signals_release, pairs of which may nest:
 *
 *   | a signal with a handler | its thread is  | action                                         |
 *   |-------------------------|----------------|------------------------------------------------|
 *   | comes                   | outside        | the handler runs                               |
 *   | comes                   | inside         | it is blocked, and sent to the thread anew, so |
 *   |                         |                | it is pending; a sleep ends                    |
 *   | was blocked so          | outside again  | it is unblocked: the handler runs, and may not |
 *   |                         |                | return                                         |
 *
 * A thread waits inside where a signal can end that, or where the wait has a bound: for a Reply,
 * for a parent that is asked (10 s), at exit. A wait without a time-out that a signal ends inside
 * fails with ERESTART. The caller releases, so the handler runs; signals_restart says whether to
 * call again then, or to fail with EINTR.
 *
 * A real-time signal that was held back comes behind those of its number that were sent meanwhile.
 * If the system's queue is full, it comes without its value, and perhaps to another thread. SIGCONT
 * drops a stop signal that is held back, as each that is pending.
 *
 * Not held back: signals of faults and of abort, and those of programs that ask the kernel without
 * the C library.
 */
#ifndef IWARP_PRELOAD_SIGNALS_H
#define IWARP_PRELOAD_SIGNALS_H

#include <stdbool.h>

void signals_hold(void);
void signals_release(void); /* errno stays */

/* Had all handlers SA_RESTART that have run in this thread since signals were let in last? No,
 * where none can run: in a thread that has left the library by a handler of SIGSEGV. */
bool signals_restart(void);

/* What has run until now does not count. Outside only. */
void signals_count_anew(void);

/* Is this thread inside? */
bool signals_are_held(void);

/* How many have run in this thread. */
unsigned signals_count(void);

/* Around a wait with a lock held: no signal ends its sleeps. Inside only. */
void signals_hold_firmly(void);
void signals_release_firmly(void);

/* Inside from here to the end of the block. */
#define SIGNALS_HELD                                                                               \
    int signals_held __attribute__((cleanup(signals_release_at_end), unused)) = (signals_hold(), 0)
static inline void signals_release_at_end(const int *unused)
{
    (void)unused;
    signals_release();
}

/* Once, when all other handlers of forks have been registered: a fork is inside. */
void signals_begin(void);

#endif
