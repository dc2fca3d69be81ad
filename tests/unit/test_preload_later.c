/* SPDX-License-Identifier: BSD-2-Clause */
/* Jobs of the preload library that most likely nobody needs (src/preload/later.c). */
#include "child.h"
#include "own_thread.h"
#include "preload/later.h"
#include "preload/sock.h"
#include "preload/threads.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define JOBS 64

int64_t sock_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

struct job {
    struct later later;
    _Atomic int64_t ran_ms;
    _Atomic unsigned runs;
};

static void run(void *arg)
{
    struct job *job = arg;

    atomic_store(&job->ran_ms, sock_now_ms());
    atomic_fetch_add(&job->runs, 1);
}

static void make(struct job *job)
{
    *job = (struct job){.later = {.run = run, .arg = job}};
}

static void await(struct job *job)
{
    for (int ms = 0; atomic_load(&job->runs) == 0; ms++) {
        assert_true(ms < 20000);
        usleep(1000);
    }
}

/* Longer than the thread stays for more. */
static void await_no_thread(void)
{
    usleep(1600000);
}

static void jobs__run_once__and_not_at_once(void **state)
{
    static struct job jobs[JOBS];

    (void)state;
    for (int i = 0; i < JOBS; i++) {
        make(&jobs[i]);
        assert_true(later_run(&jobs[i].later));
        usleep((unsigned)i % 4 * 1000);
    }
    for (int i = 0; i < JOBS; i++) {
        await(&jobs[i]);
        assert_true(atomic_load(&jobs[i].ran_ms) >= jobs[i].later.due_ms);
        assert_false(later_take_back(&jobs[i].later));
    }
    usleep(50000);
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(atomic_load(&jobs[i].runs), 1);
    }
}

static void job__taken_back__does_not_run(void **state)
{
    static struct job jobs[JOBS];

    (void)state;
    for (int i = 0; i < JOBS; i++) {
        make(&jobs[i]);
        assert_true(later_run(&jobs[i].later));
    }
    const int64_t before_ms = jobs[0].later.due_ms;
    for (int i = 0; i < JOBS; i += 2) { /* the first one, and from between others */
        const bool back = later_take_back(&jobs[i].later);
        assert_true(back || sock_now_ms() >= before_ms);
        atomic_fetch_add(&jobs[i].runs, back);
    }
    await(&jobs[JOBS - 1]);
    usleep(50000);
    for (int i = 0; i < JOBS; i++) {
        assert_int_equal(atomic_load(&jobs[i].runs), 1);
        assert_false(later_take_back(&jobs[i].later));
    }
    make(&jobs[0]); /* behind the last one, when that was taken out */
    make(&jobs[1]);
    assert_true(later_run(&jobs[0].later));
    (void)later_take_back(&jobs[0].later);
    assert_true(later_run(&jobs[1].later));
    await(&jobs[1]);
}

/* Each is taken back before its time, as the start of a connection does. */
static void jobs__one_after_the_other__have_one_thread(void **state)
{
    struct job job;

    (void)state;
    await_no_thread();
    made = 0;
    for (int i = 0; i < 300; i++) {
        make(&job);
        assert_true(later_run(&job.later));
        usleep(200);
        if (!later_take_back(&job.later)) {
            await(&job); /* on a machine that is slow */
        }
    }
    assert_in_range(made, 1, 2);
}

static void job__without_a_thread__is_refused(void **state)
{
    struct job job;

    (void)state;
    await_no_thread();
    make(&job);
    refuses = true;
    assert_false(later_run(&job.later));
    refuses = false;
    assert_false(later_take_back(&job.later));
    assert_true(later_run(&job.later));
    await(&job);
}

static void child__has_jobs_of_its_own(void **state)
{
    static struct job parents, childs;
    int status = -1;

    (void)state;
    if (CHILD_SANITIZED) { /* whose children may start no threads */
        skip();
    }
    make(&parents);
    make(&childs);
    assert_true(later_run(&parents.later));
    const pid_t child = fork();
    if (child == 0) {
        threads_begin_child();
        later_begin_child();
        const bool runs = later_run(&childs.later);
        await(&childs);
        usleep(50000);
        _exit(runs && atomic_load(&parents.runs) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    await(&parents);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs__run_once__and_not_at_once),
        cmocka_unit_test(job__taken_back__does_not_run),
        cmocka_unit_test(jobs__one_after_the_other__have_one_thread),
        cmocka_unit_test(job__without_a_thread__is_refused),
        cmocka_unit_test(child__has_jobs_of_its_own),
    };

    return cmocka_run_group_tests_name("preload_later", tests, NULL, NULL);
}
