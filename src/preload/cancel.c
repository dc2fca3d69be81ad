/* SPDX-License-Identifier: BSD-2-Clause */
/* First, since it includes real.h: */
#include "preload/real.h"

#include "preload/cancel.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#ifdef SYS_futex
#define FUTEX SYS_futex
#else
#define FUTEX SYS_futex_time64
#endif

/* Lock order: that of the list, then that of a thread. */
struct thread {
    struct thread *next, **at; /* of all that are known; at: NULL, it is not */
    bool known;                /* the same, for the thread alone: `at` changes with neighbours */
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
static _Thread_local __attribute__((tls_model("initial-exec"))) struct thread mine = {
    .lock = PTHREAD_MUTEX_INITIALIZER}; /* of that model, since handlers use it: signals.c */

/* Handlers make calls that may be a thread's first ones. */
static void lock_list(sigset_t *before)
{
    sigset_t every;

    sigfillset(&every);
    pthread_sigmask(SIG_BLOCK, &every, before);
    pthread_mutex_lock(&lock);
}

static void unlock_list(const sigset_t *before)
{
    pthread_mutex_unlock(&lock);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* At the end of a thread. */
static void leave(void *thread)
{
    struct thread *t = thread;
    sigset_t before;

    lock_list(&before);
    if (t->at) { /* else a fork came after it had joined, and this is the child */
        *t->at = t->next;
        if (t->next) {
            t->next->at = t->at;
        }
        t->at = NULL;
        t->known = false;
    }
    unlock_list(&before);
}

/* The list's lock is held. Without a key the thread is cancelled between its calls alone. */
static void join(void)
{
    has_key = has_key || pthread_key_create(&key, leave) == 0;
    if (!has_key || pthread_setspecific(key, &mine) != 0) {
        return;
    }
    mine.self = pthread_self();
    mine.next = all;
    mine.at = &all;
    if (all) {
        all->at = &mine.next;
    }
    all = &mine;
    mine.known = true;
}

void cancel_known(void)
{
    sigset_t before;

    if (!mine.known) {
        lock_list(&before);
        if (!mine.known) { /* no handler was quicker */
            join();
        }
        unlock_list(&before);
    }
}

bool cancel_came(void)
{
    return atomic_load_explicit(&mine.cancelled, memory_order_relaxed);
}

void cancel_test(void)
{
    if (cancel_came()) {
        atomic_store_explicit(&mine.cancelled, false, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst); /* what was forgotten, the test finds */
    }
    pthread_testcancel();
}

void cancel_sleep_on(_Atomic unsigned *turn)
{
    if (mine.known) {
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
        atomic_fetch_add(t->turn, 1);
        (void)real()->syscall(FUTEX, t->turn, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
    pthread_mutex_unlock(&t->lock);
}

EXPORT int pthread_cancel(pthread_t thread)
{
    const int error = real()->pthread_cancel(thread); /* first: the thread looks when it is awake */

    if (error == 0) {
        sigset_t before;
        lock_list(&before);
        for (struct thread *t = all; t; t = t->next) {
            if (pthread_equal(t->self, thread)) {
                wake(t);
            }
        }
        unlock_list(&before);
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
    mine.known = false;
}
