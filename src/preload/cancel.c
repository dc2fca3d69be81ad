/* SPDX-License-Identifier: BSD-2-Clause */
/* First, since it includes real.h: */
#include "preload/real.h"

#include "preload/cancel.h"
#include "preload/signals.h"

#include "rspreload/adopt.h"

#include <stdatomic.h>

/* Lock order: that of the list, then that of a thread. */
struct thread {
    struct thread *next, **at; /* of all that are known; at: NULL, it is not */
    pthread_t self;
    pthread_mutex_t lock;
    _Atomic unsigned
        *turn; /* or NULL; with `lock`: the rsocket stays until the thread takes it back */
    atomic_bool cancelled;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct thread *all;
static pthread_key_t key;
static bool has_key;
static _Thread_local struct thread mine = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* At the end of a thread. */
static void leave(void *thread)
{
    SIGNALS_HELD;
    struct thread *t = thread;

    pthread_mutex_lock(&lock);
    *t->at = t->next;
    if (t->next) {
        t->next->at = t->at;
    }
    t->at = NULL;
    pthread_mutex_unlock(&lock);
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, leave) == 0;
}

void cancel_known(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (mine.at) {
        return;
    }
    SIGNALS_HELD;
    pthread_once(&once, make_key);
    if (!has_key || pthread_setspecific(key, &mine) != 0) {
        return; /* it is cancelled between its calls */
    }
    pthread_mutex_lock(&lock);
    mine.self = pthread_self();
    mine.next = all;
    mine.at = &all;
    if (all) {
        all->at = &mine.next;
    }
    all = &mine;
    pthread_mutex_unlock(&lock);
}

bool cancel_came(void)
{
    return atomic_load_explicit(&mine.cancelled, memory_order_relaxed);
}

void cancel_sleep_on(_Atomic unsigned *turn)
{
    if (mine.at) {
        pthread_mutex_lock(&mine.lock);
        mine.turn = turn;
        pthread_mutex_unlock(&mine.lock);
    }
}

/* The lock of the list is held. */
static void wake(struct thread *t)
{
    atomic_store(&t->cancelled, true);
    pthread_mutex_lock(&t->lock);
    if (t->turn) {
        iwarp_rs_end_turn(t->turn);
    }
    pthread_mutex_unlock(&t->lock);
}

EXPORT int pthread_cancel(pthread_t thread)
{
    const int error = real()->pthread_cancel(thread); /* first: the thread looks when it is awake */

    if (error == 0) {
        SIGNALS_HELD;
        pthread_mutex_lock(&lock);
        for (struct thread *t = all; t; t = t->next) {
            if (pthread_equal(t->self, thread)) {
                wake(t);
            }
        }
        pthread_mutex_unlock(&lock);
    }
    return error;
}

/* Other threads of the parent may have had the locks. */
void cancel_begin_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_mutex_init(&mine.lock, NULL);
    all = NULL;
    mine.at = NULL;
}
