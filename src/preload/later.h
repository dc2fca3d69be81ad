/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Jobs for a thread that most likely nobody needs: each waits for 10 ms, and is taken back before.
 */
#ifndef IWARP_PRELOAD_LATER_H
#define IWARP_PRELOAD_LATER_H

#include <stdbool.h>
#include <stdint.h>

#define LATER_MS 10

/* In the caller's memory until it is taken back or runs. */
struct later {
    void (*run)(void *arg);
    void *arg;
    struct later *next, **at; /* these are later.c's */
    int64_t due_ms;
};

/* A thread calls run(arg), 10 to 20 ms from now. False: there is none, and none can be made. Any
 * lock may be held but those of threads.c. */
bool later_run(struct later *job);

/* False: a thread runs it, or is about to; or it was taken back before. */
bool later_take_back(struct later *job);

/* The parent's jobs, and its thread, are not there. */
void later_begin_child(void);

#endif
