/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Child processes of tests: what ends or changes a process is done in one. A failed assertion ends
 * the child with SIGABRT; so does a child that takes longer than CHILD_SECONDS, with SIGALRM.
 */
#ifndef TESTS_CHILD_H
#define TESTS_CHILD_H

#include <sys/types.h>

#define CHILD_SECONDS 100

/* Sanitizers change what a crash looks like, and what a process may do after a fork. */
#if defined(__SANITIZE_ADDRESS__)
#define CHILD_SANITIZED 1
#elif defined(__SANITIZE_THREAD__)
#define CHILD_SANITIZED 2
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHILD_SANITIZED 1
#elif __has_feature(thread_sanitizer)
#define CHILD_SANITIZED 2
#endif
#endif
#if !defined(CHILD_SANITIZED)
#define CHILD_SANITIZED 0
#endif

/*
 * Start fn(arg) in a child with default signal actions; what it returns is the exit status, by
 * _exit. The caller has no threads.
 */
pid_t child_start(int (*fn)(void *arg), void *arg);

/* Wait for its end: the exit status, or the signal that ended it plus 1000. */
int child_wait(pid_t pid);

/* Both. */
int child_run(int (*fn)(void *arg), void *arg);

#endif
