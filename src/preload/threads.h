/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of the preload library that do one thing after another. */
#ifndef IWARP_PRELOAD_THREADS_H
#define IWARP_PRELOAD_THREADS_H

/*
 * Have another thread call run(arg): one that has done what it was asked for within the last
 * second, or a new one (iwarp_compat_thread). 0, or an errno. Any lock may be held.
 */
int threads_run(void (*run)(void *arg), void *arg);

/* The parent's threads are not there. */
void threads_begin_child(void);

#endif
