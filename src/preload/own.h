/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef IWARP_PRELOAD_OWN_H
#define IWARP_PRELOAD_OWN_H

/* A descriptor that was just made: the same, or a high number in its place if this thread is inside
 * (signals.h), and it is not the program that makes it. -1 stays, with errno. */
int own_number(int fd);

#endif
