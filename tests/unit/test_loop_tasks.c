/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tasks of a loop: when they run, by which thread, and that none is lost.
 */
#include "verbs_pair.h"

#include "loop/loop.h"
#include "verbs/device.h"
#include "verbs/worker.h"

#include <pthread.h>

struct job {
    struct iwarp_task task;
    struct iwarp_loop *loop;
    _Atomic unsigned refs, runs, again;
    pthread_t thread;
};

static void run_job(void *arg)
{
    struct job *j = arg;

    j->thread = pthread_self();
    atomic_fetch_add(&j->runs, 1);
    if (atomic_load(&j->again) > 0) {
        atomic_fetch_sub(&j->again, 1);
        iwarp_loop_post_soon(j->loop, &j->task); /* with the reference of this run */
    } else {
        atomic_fetch_sub(&j->refs, 1);
    }
}

static void open_loop(struct pair *p, struct job *j)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = IWARP_PROGRESS_THREADED;
    pair_open(p, &o);
    pair_await_homes(p->device);
    j->loop = &p->device->worker[0].loop;
    j->task = (struct iwarp_task){.run = run_job, .arg = j, .refs = &j->refs};
}

static void post(struct job *j)
{
    atomic_fetch_add(&j->refs, 1);
    iwarp_loop_post_soon(j->loop, &j->task);
}

static void await(const struct job *j, unsigned runs)
{
    for (unsigned i = 0; atomic_load(&j->runs) < runs && i < 20000; i++) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    assert_int_equal(atomic_load(&j->runs), runs);
}

static void task__of_another_thread__wakes_the_loop_up(void **state)
{
    struct job j = {.runs = 0};
    struct pair p;

    (void)state;
    open_loop(&p, &j);
    for (unsigned i = 0; i < 100; i++) {
        post(&j);
        await(&j, i + 1);
        assert_true(pthread_equal(j.thread, j.loop->thread));
    }
    assert_int_equal(j.refs, 0);
    pair_close(&p);
}

static void post_twice(void *arg)
{
    struct job *j = arg;
    unsigned before = atomic_load(&j->runs);

    post(j);
    post(j);
    assert_int_equal(atomic_load(&j->runs), before); /* not at once: locks may be held */
}

/* A call runs on the home within a turn. */
static void task__of_the_loops_own_thread__runs_once_at_the_end_of_its_turn(void **state)
{
    struct job j = {.runs = 0};
    struct pair p;

    (void)state;
    open_loop(&p, &j);
    for (unsigned i = 0; i < 100; i++) {
        iwarp_loop_call(j.loop, post_twice, &j);
        await(&j, i + 1);
    }
    assert_int_equal(j.refs, 0);
    pair_close(&p);
}

static void task__that_posts_itself__is_run_again_though_nothing_else_comes(void **state)
{
    struct job j = {.again = 1000};
    struct pair p;

    (void)state;
    open_loop(&p, &j);
    iwarp_loop_call(j.loop, post_twice, &j);
    await(&j, 1001);
    assert_int_equal(j.refs, 0);
    pair_close(&p);
}

/* A timer that is due when a turn begins: older versions of libuv call it right before they sleep.
 */
static struct {
    uv_timer_t timer;
    struct iwarp_task task; /* starts the timer at the end of a turn */
    _Atomic unsigned refs;
} late;

static void on_timer(uv_timer_t *timer)
{
    post(timer->data);
}

static void start_timer(void *arg)
{
    uv_timer_start(&late.timer, on_timer, 0, 0);
    (void)arg;
    atomic_fetch_sub(&late.refs, 1);
}

static void post_late(void *arg)
{
    struct job *j = arg;

    if (!late.timer.data) {
        uv_timer_init(j->loop->uv, &late.timer);
        late.timer.data = j;
    }
    atomic_fetch_add(&late.refs, 1);
    iwarp_loop_post_soon(j->loop, &late.task);
}

static void close_timer(void *arg)
{
    (void)arg;
    uv_close((uv_handle_t *)&late.timer, NULL);
}

static void task__of_a_timer_before_the_sleep__is_run(void **state)
{
    struct job j = {.runs = 0};
    struct pair p;

    (void)state;
    late.task = (struct iwarp_task){.run = start_timer, .refs = &late.refs};
    open_loop(&p, &j);
    for (unsigned i = 0; i < 100; i++) {
        iwarp_loop_call(j.loop, post_late, &j);
        await(&j, i + 1);
    }
    assert_int_equal(j.refs, 0);
    iwarp_loop_call(j.loop, close_timer, NULL);
    pair_close(&p);
}

static void task__of_a_guest__runs_in_its_visit(void **state)
{
    struct job j = {.runs = 0};
    struct pair p;
    bool taken = false;

    (void)state;
    open_loop(&p, &j);
    for (unsigned i = 0; i < 1000 && !taken; i++) {
        taken = iwarp_lease_take(j.loop, IWARP_PARK_MS);
    }
    assert_true(taken);
    post(&j);
    assert_int_equal(j.runs, 0);
    iwarp_loop_turn(j.loop);
    assert_int_equal(j.runs, 1);
    assert_true(pthread_equal(j.thread, pthread_self()));
    iwarp_lease_leave(j.loop);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(task__of_another_thread__wakes_the_loop_up),
        cmocka_unit_test(task__of_the_loops_own_thread__runs_once_at_the_end_of_its_turn),
        cmocka_unit_test(task__that_posts_itself__is_run_again_though_nothing_else_comes),
        cmocka_unit_test(task__of_a_timer_before_the_sleep__is_run),
        cmocka_unit_test(task__of_a_guest__runs_in_its_visit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
