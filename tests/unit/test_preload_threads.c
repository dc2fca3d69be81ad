/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of the preload library that are used again (src/preload/threads.c). */
#include "alloc_fault.h"
#include "child.h"
#include "own_thread.h"
#include "preload/threads.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define AT_ONCE 12

static void post(void *done)
{
    sem_post(done);
}

static void wait_for(sem_t *done)
{
    for (int ms = 0; sem_trywait(done) != 0; ms++) {
        assert_true(ms < 20000);
        usleep(1000);
    }
}

/* A thread that has said so is idle a moment later. */
static void rest(void)
{
    usleep(20000);
}

static void jobs__one_after_the_other__have_one_thread(void **state)
{
    sem_t done;

    (void)state;
    made = 0;
    sem_init(&done, 0, 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(threads_run(post, &done), 0);
        wait_for(&done);
        rest();
    }
    assert_int_equal(made, 1);
    usleep(1500000); /* longer than one waits */
    assert_int_equal(threads_run(post, &done), 0);
    wait_for(&done);
    assert_int_equal(made, 2);
    sem_destroy(&done);
}

struct meeting {
    pthread_barrier_t all;
    sem_t done;
};

static void meet(void *arg)
{
    struct meeting *meeting = arg;

    pthread_barrier_wait(&meeting->all);
    sem_post(&meeting->done);
}

/* A job waits here until all of them run, so every job needs a thread of its own. */
static void jobs__at_once__have_a_thread_each(void **state)
{
    struct meeting meeting;

    (void)state;
    made = 0;
    sem_init(&meeting.done, 0, 0);
    pthread_barrier_init(&meeting.all, NULL, AT_ONCE);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < AT_ONCE; i++) {
            assert_int_equal(threads_run(meet, &meeting), 0);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            wait_for(&meeting.done);
        }
        rest();
    }
    assert_true(made <= AT_ONCE);
    pthread_barrier_destroy(&meeting.all);
    sem_destroy(&meeting.done);
}

static void job__without_memory_or_thread__is_refused(void **state)
{
    sem_t done;

    (void)state;
    sem_init(&done, 0, 0);
    usleep(1500000); /* until nobody waits any more */
    alloc_fault_at(1);
    assert_int_equal(threads_run(post, &done), ENOMEM);
    alloc_fault_at(0);
    refuses = true;
    assert_int_equal(threads_run(post, &done), EAGAIN);
    refuses = false;
    assert_int_equal(threads_run(post, &done), 0);
    wait_for(&done);
    assert_int_equal(sem_trywait(&done), -1);
    sem_destroy(&done);
}

static void child__has_threads_of_its_own(void **state)
{
    sem_t done;
    int status = -1;

    (void)state;
    if (CHILD_SANITIZED) { /* whose children may start no threads */
        skip();
    }
    sem_init(&done, 0, 0);
    assert_int_equal(threads_run(post, &done), 0);
    wait_for(&done);
    rest();
    const pid_t child = fork();
    if (child == 0) {
        made = 0;
        threads_begin_child();
        const bool runs = threads_run(post, &done) == 0 && made == 1;
        wait_for(&done);
        _exit(runs ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    sem_destroy(&done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs__one_after_the_other__have_one_thread),
        cmocka_unit_test(jobs__at_once__have_a_thread_each),
        cmocka_unit_test(job__without_memory_or_thread__is_refused),
        cmocka_unit_test(child__has_threads_of_its_own),
    };

    return cmocka_run_group_tests_name("preload_threads", tests, NULL, NULL);
}
