/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef IWARP_PRELOAD_OWN_H
#define IWARP_PRELOAD_OWN_H

/* A descriptor that was just made: the same, or a high number in its place if this thread is inside
 * (signals.h) and exec closes the descriptor, as all of the library's own. Handlers of forks, and
 * what runs at the end of the process, may be inside, too: theirs are moved if exec closes them,
 * which changes only the number. -1 stays, with errno. */
int own_number(int fd);

/* The same, wherever this thread is: for descriptors that are this library's in any case. */
int own_move(int fd);

#endif
