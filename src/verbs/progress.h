/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a call of the application means for the loops of a device: a poll may visit them, a wait may
 * run one, and a thread that goes to sleep has them run by their homes (loop/lease.h).
 *
 *   threaded   a thread has to earn the lease, by waiting or by polling without a pause
 *   polled     the lease is open: each poll visits
 *   embedded   there is no lease: the application runs the loop, and a wait runs it, too
 */
#ifndef IWARP_VERBS_PROGRESS_H
#define IWARP_VERBS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct iwarp_beside;
struct iwarp_device;

/*
 * Not embedded: the application has polled a queue and found it empty; these workers serve it, a
 * bit each.  True: their loops were run, look again.  Any thread, no lock held.
 */
bool iwarp_progress_poll(struct iwarp_device *device, uint64_t workers);

/*
 * The same for event queues, which programs do not poll in a tight loop: a visit in polled progress
 * only.
 */
void iwarp_progress_look(struct iwarp_device *device, uint64_t workers);

/* Threaded: this thread stops polling, since it is about to arm a queue or to wait. */
void iwarp_progress_pause(struct iwarp_device *device);

/*
 * Threaded progress: waiting by running the loop. may_wait is called once for each wait and says
 * whether the thread has earned the lease; `beside`: it waits for other things, too. The caller
 * asks iwarp_loop_may_fault, or knows the answer. wait then runs the loop until done(arg); a thread
 * that makes done(arg) true without running the loop has to wake up the loop.  False: the caller
 * waits by sleeping. waited: the wait is over and the thread returns to the application; the time
 * until its next wait decides whether it keeps the lease.
 */
bool iwarp_progress_may_wait(struct iwarp_device *device, int timeout_ms, bool beside);

/* The thread does not run the loop after all, and is not to try again soon. */
void iwarp_progress_lost(struct iwarp_device *device);

/* Does no other guest have the loop? */
bool iwarp_progress_is_mine(const struct iwarp_device *device);
bool iwarp_progress_earned(const struct iwarp_device *device); /* by this thread's waits */
bool iwarp_progress_leads(const struct iwarp_device *device);  /* would the next wait run it? */
bool iwarp_progress_wait(struct iwarp_device *device, struct iwarp_beside *beside,
                         bool (*done)(void *arg), void *arg);
void iwarp_progress_waited(const struct iwarp_device *device);

/* This thread is about to sleep until another one tells it something: the homes run the loops. */
void iwarp_progress_recall(struct iwarp_device *device);

#endif
