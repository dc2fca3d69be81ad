/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that connects often would make a thread each time, which costs as much as the rest of a
 * short connection's start. So a thread that has nothing left to do waits for more, for a second.
 */
#include "preload/threads.h"

#include "compat/compat.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define IDLE_S 1

struct job {
    void (*run)(void *arg);
    void *arg;
    struct job *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static struct job *jobs;       /* each has an idle thread */
static unsigned idle, waiting; /* threads; jobs */

/* The lock is held. NULL: nothing came. */
static struct job *next_job(void)
{
    struct timespec until;
    int error = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += IDLE_S;
    idle++;
    while (!jobs && !error) {
        error = pthread_cond_clockwait(&came, &lock, CLOCK_MONOTONIC, &until);
    }
    idle--;
    struct job *job = jobs;
    if (job) {
        jobs = job->next;
        waiting--;
    }
    return job;
}

static void *work(void *arg)
{
    struct job *job = arg;

    while (job) {
        job->run(job->arg);
        free(job);
        pthread_mutex_lock(&lock);
        job = next_job();
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int threads_run(void (*run)(void *arg), void *arg)
{
    struct job *job = malloc(sizeof *job);
    int error = 0;

    if (!job) {
        return ENOMEM;
    }
    *job = (struct job){run, arg, NULL};
    pthread_mutex_lock(&lock);
    const bool has_thread = idle > waiting;
    if (has_thread) {
        job->next = jobs;
        jobs = job;
        waiting++;
        pthread_cond_signal(&came);
    }
    pthread_mutex_unlock(&lock);
    if (!has_thread) {
        error = iwarp_compat_thread(NULL, work, job);
    }
    if (error) {
        free(job);
    }
    return error;
}

void threads_begin_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&came, NULL);
    jobs = NULL;
    idle = waiting = 0;
}
