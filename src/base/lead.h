/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the completion channels of the drop-in library, which includes nothing below the public
 * headers but this folder; src/verbs/cq_lead.c is behind it.  A thread that waits for an event of a
 * channel may run the loop itself meanwhile, as a thread in iwarp_cq_wait does.  There arming and
 * waiting is one call.  Here a program arms first, and comes to wait for the channel afterwards:
 *
 *   | call | the thread has earned the lease        | it has not                      |
 *   |------|----------------------------------------|---------------------------------|
 *   | arm  | armed, and the lease stays:            | as iwarp_cq_arm: the homes run  |
 *   |      | iwarp_cq_arm_to_lead                   | the loops                       |
 *   | wait | iwarp_cq_lead_for the queues of the    | the thread sleeps elsewhere     |
 *   |      | channel that were armed before;        |                                 |
 *   |      | iwarp_cq_lead runs the loop; once its  |                                 |
 *   |      | time is over, iwarp_cq_arm_to_sleep    |                                 |
 *   |      | and as on the right                    |                                 |
 *
 * A queue that is armed to lead does not count as armed (device.sleepers, invariant 4 of
 * loop/lease.h), since nobody sleeps for it yet.  A program that then stays away is served by the
 * home, once that has missed its visits (invariant 3).  The same holds for a queue that was armed
 * before the thread had earned the lease, once that thread waits for it: a program with two queues,
 * say one for Sends and one for receives, often has one armed that gets no completion, and that one
 * would keep the thread from the loop for ever.  It must be the only thread that waits for them.
 */
#ifndef IWARP_BASE_LEAD_H
#define IWARP_BASE_LEAD_H

#include <stdbool.h>

struct iwarp_cq;
struct iwarp_device;

/* False: the thread has not earned the lease, and the queue is not armed by this call. */
bool iwarp_cq_arm_to_lead(struct iwarp_cq *cq, bool solicited_only);

/* The thread has earned the lease, and queues that count as armed keep it from the loop. */
bool iwarp_cq_is_kept(const struct iwarp_device *device);

/*
 * Arm for somebody who may be told late, or whose thread counts itself (iwarp_cq_begin_sleep): the
 * queue does not count, unless it did so before.  The caller polls once more before it sleeps.
 */
void iwarp_cq_arm_aside(struct iwarp_cq *cq);

/* The queue counts as armed no more, until it is armed anew or iwarp_cq_arm_to_sleep. */
void iwarp_cq_lead_for(struct iwarp_cq *cq);

/*
 * The thread is about to sleep after all.  The queue counts as armed, if it is armed.  True: it did
 * not before; then iwarp_cq_recall, without the lock that keeps the queue from being destroyed.
 */
bool iwarp_cq_arm_to_sleep(struct iwarp_cq *cq);

/*
 * Called once for each wait: may this thread run the loop?  beside: it waits for other things, too.
 */
bool iwarp_cq_may_lead(struct iwarp_device *device, bool beside);

/* Could it at its last wait, and does nobody sleep for a queue? */
bool iwarp_cq_leads(const struct iwarp_device *device);

/* It may not after all: a fault would end the process.  It is not asked again soon. */
void iwarp_cq_lose(struct iwarp_device *device);

/*
 * After iwarp_cq_may_lead, with SIGSEGV and SIGBUS not blocked: run the loop until done(arg).
 * False: it cannot be had, or time is over.  A thread that makes done(arg) true calls
 * iwarp_cq_wake_leader after that.  When the wait is over, however it was made: iwarp_cq_waited. No
 * lock held.
 *
 * `beside` (or NULL) names descriptors for which the thread waits as well, and a time until which
 * it waits.  The loop is run once at least then, and done(arg) looks at beside->ready and the
 * clock.
 */
struct iwarp_beside;
bool iwarp_cq_lead(struct iwarp_device *device, struct iwarp_beside *beside,
                   bool (*done)(void *arg), void *arg);
void iwarp_cq_wake_leader(struct iwarp_device *device);

/* Does this thread run the loop now? */
bool iwarp_cq_runs_loop(struct iwarp_device *device);

/*
 * A thread that waits for completions is about to sleep elsewhere, for queues that do not count.
 * It counts itself, until `end`, which may be called by a handler of cancellation.
 */
void iwarp_cq_begin_sleep(struct iwarp_device *device);
void iwarp_cq_end_sleep(struct iwarp_device *device);

/* The homes run the loops, since this thread is about to sleep.  No lock held. */
void iwarp_cq_recall(struct iwarp_device *device);
void iwarp_cq_waited(struct iwarp_device *device);

/*
 * Queue a task for the thread that runs the loop (base/task.h): with no lock of the library held,
 * so it may poll and post. By a thread that runs the loop already it costs no system call. Any lock
 * may be held. A function that iwarp_cq_notify_by calls does so what it must not do itself.
 */
struct iwarp_task;
void iwarp_cq_post_task(struct iwarp_device *device, struct iwarp_task *task);

struct iwarp_device *iwarp_cq_device(struct iwarp_cq *cq);

/*
 * An event queue without a descriptor: right after iwarp_eq_create, and once. `notify` is called
 * when the first event comes into the empty queue, with locks of the library held, by any thread:
 * it may post a task. The events are taken with iwarp_eq_take_of.
 */
struct iwarp_eq;
struct iwarp_event;
void iwarp_eq_notify_by(struct iwarp_eq *eq, void (*notify)(void *arg), void *arg);

/* The `user` of the first event, which stays in the queue; NULL: there is none. */
void *iwarp_eq_first_user(struct iwarp_eq *eq);

/* Take the first event, if it is one of this user. */
bool iwarp_eq_take_of(struct iwarp_eq *eq, const void *user, struct iwarp_event *event);

#endif
