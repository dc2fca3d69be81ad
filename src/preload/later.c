/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * To wake up a thread for each connect costs a client a third of its time. So one thread looks at
 * the list every 10 ms, until it is empty and no job has come for IDLE_MS.
 */
#include "preload/later.h"

#include "preload/sock.h"
#include "preload/threads.h"

#include <time.h>

#define IDLE_MS 200

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct later *first, **last = &first; /* as they are due */
static bool watching;
static int64_t came_ms; /* the last one */

/* The lock is held. */
static void take_out(struct later *job)
{
    *job->at = job->next;
    *(job->next ? &job->next->at : &last) = job->at;
    job->at = NULL;
}

/* NULL: none is due. */
static struct later *next_due(void)
{
    struct later *job = NULL;

    pthread_mutex_lock(&lock);
    if (first && first->due_ms <= sock_now_ms()) {
        job = first;
        take_out(job);
    }
    pthread_mutex_unlock(&lock);
    return job;
}

static bool goes_on(void)
{
    pthread_mutex_lock(&lock);
    watching = first || sock_now_ms() < came_ms + IDLE_MS;
    const bool goes = watching;
    pthread_mutex_unlock(&lock);
    return goes;
}

static void watch(void *unused)
{
    const struct timespec t = {.tv_nsec = LATER_MS * 1000000};
    struct later *job;

    (void)unused;
    do {
        nanosleep(&t, NULL);
        while ((job = next_due())) {
            if (threads_run(job->run, job->arg) != 0) {
                job->run(job->arg); /* late is better than never */
            }
        }
    } while (goes_on());
}

bool later_run(struct later *job)
{
    pthread_mutex_lock(&lock);
    came_ms = sock_now_ms();
    job->due_ms = came_ms + LATER_MS;
    job->next = NULL;
    job->at = last;
    *last = job;
    last = &job->next;
    watching = watching || threads_run(watch, NULL) == 0;
    const bool runs = watching;
    if (!runs) {
        take_out(job);
    }
    pthread_mutex_unlock(&lock);
    return runs;
}

bool later_take_back(struct later *job)
{
    pthread_mutex_lock(&lock);
    const bool is_there = job->at != NULL;
    if (is_there) {
        take_out(job);
    }
    pthread_mutex_unlock(&lock);
    return is_there;
}

void later_begin_child(void)
{
    pthread_mutex_init(&lock, NULL);
    first = NULL;
    last = &first;
    watching = false;
}
