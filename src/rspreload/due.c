/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faces follow their sockets on the thread that runs the loop, at the end of the turn in which a
 * completion came: a program that sleeps in the kernel is woken up by that thread, and by no other
 * in between. The thread does not wait for a socket that a call uses; that call looks on its way
 * out (rs_unlock).
 */
#include "base/task.h"
#include "rsocket/rs.h"

#include <sched.h>

static void show_due(void *arg);

static pthread_mutex_t due_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rs *due;
static _Atomic unsigned refs;
static struct iwarp_task task = {.run = show_due, .refs = &refs};

void rs_due(struct rs *s)
{
    pthread_mutex_lock(&due_lock);
    if (!s->due) {
        s->due = true;
        s->next_due = due;
        due = s;
    }
    pthread_mutex_unlock(&due_lock);
    atomic_fetch_add(&refs, 1);
    iwarp_compat_post_task(s->device, &task);
}

/* The next one that is due, which stays in memory until it is shown. */
static struct rs *next(struct rs *shown)
{
    struct rs *s;

    pthread_mutex_lock(&due_lock);
    if (shown) {
        shown->showing--;
    }
    s = due;
    if (s) {
        due = s->next_due;
        s->due = false;
        s->showing++;
    }
    pthread_mutex_unlock(&due_lock);
    return s;
}

static void show_due(void *arg)
{
    (void)arg;
    atomic_fetch_sub(&refs, 1);
    for (struct rs *s = next(NULL); s; s = next(s)) {
        atomic_store(&s->look, true);
        if (pthread_mutex_trylock(&s->lock) == 0) {
            rs_unlock(s);
        }
    }
}

/* Its completion queue is gone, so nothing makes it due again. */
void rs_forget_due(struct rs *s)
{
    bool shown = true;

    while (shown) {
        pthread_mutex_lock(&due_lock);
        for (struct rs **at = &due; s->due; at = &(*at)->next_due) {
            if (*at == s) {
                *at = s->next_due;
                s->due = false;
                break;
            }
        }
        shown = s->showing > 0;
        pthread_mutex_unlock(&due_lock);
        if (shown) {
            sched_yield();
        }
    }
}

/* The lock may be held by a thread that the child has not; the list is the parent's. */
void rs_due_in_child(void)
{
    pthread_mutex_init(&due_lock, NULL);
    due = NULL;
    refs = 0;
    task.queued = false;
}
