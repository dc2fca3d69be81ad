/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Workers: calls run on the worker's thread, one after another, and are waited for; a call out of a
 * call runs at once; which signals the thread takes.
 */
#include "verbs_pair.h"

#include "loop/loop.h"
#include "verbs/device.h"
#include "verbs/worker.h"

#include <pthread.h>
#include <signal.h>

#define CALLERS 4u
#define CALLS   2000u

struct tally {
    struct iwarp_worker *worker;
    unsigned running, overlapping, elsewhere; /* on the worker only, so no lock */
    unsigned calls;
};

struct call {
    struct tally *tally;
    bool done;
};

static void nested(void *arg)
{
    *(bool *)arg = true;
}

static void count(void *arg)
{
    struct call *call = arg;
    struct tally *t = call->tally;
    bool inside = false;

    t->overlapping += t->running++ != 0;
    t->elsewhere += !iwarp_loop_is_current(&t->worker->loop);
    t->calls++;
    iwarp_loop_call(&t->worker->loop, nested, &inside);
    t->elsewhere += !inside;
    t->running--;
    call->done = true;
}

struct caller {
    pthread_t thread;
    struct tally *tally;
    unsigned undone;
};

static void *call_often(void *arg)
{
    struct caller *me = arg;

    for (unsigned i = 0; i < CALLS; i++) {
        struct call call = {.tally = me->tally};
        iwarp_loop_call(&me->tally->worker->loop, count, &call);
        me->undone += !call.done;
    }
    return NULL;
}

static void call__from_many_threads__runs_one_by_one_and_is_waited_for(void **state)
{
    struct caller caller[CALLERS];
    struct iwarp_device *device;

    (void)state;
    must(iwarp_device_open(NULL, &device));
    struct tally tally = {.worker = &device->worker[0]};
    assert_false(iwarp_loop_is_current(&tally.worker->loop));
    for (unsigned i = 0; i < CALLERS; i++) {
        caller[i] = (struct caller){.tally = &tally};
        assert_int_equal(pthread_create(&caller[i].thread, NULL, call_often, &caller[i]), 0);
    }
    for (unsigned i = 0; i < CALLERS; i++) {
        pthread_join(caller[i].thread, NULL);
        assert_int_equal(caller[i].undone, 0);
    }
    assert_int_equal(tally.calls, CALLERS * CALLS);
    assert_int_equal(tally.overlapping, 0);
    assert_int_equal(tally.elsewhere, 0);
    must(iwarp_device_close(device));
}

static void get_mask(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
}

/* The application's signals are not for this thread; those of missing memory are. */
static void thread__takes_memory_faults_and_no_other_signal(void **state)
{
    struct iwarp_device *device;
    struct iwarp_device_options o;
    sigset_t mask;

    (void)state;
    iwarp_device_options_init(&o);
    o.progress = IWARP_PROGRESS_THREADED;
    must(iwarp_device_open(&o, &device));
    pair_await_homes(device);
    iwarp_loop_call(&device->worker[0].loop, get_mask, &mask);
    assert_false(sigismember(&mask, SIGSEGV));
    assert_false(sigismember(&mask, SIGBUS));
    assert_true(sigismember(&mask, SIGTERM));
    assert_true(sigismember(&mask, SIGINT));
    assert_true(sigismember(&mask, SIGALRM));
    assert_true(sigismember(&mask, SIGPIPE));
    must(iwarp_device_close(device));
}

static void pick_worker__gives_each_its_turn_or_the_one_that_is_asked_for(void **state)
{
    struct iwarp_device_options o;
    struct iwarp_device *device;
    unsigned picked[5] = {0};

    (void)state;
    iwarp_device_options_init(&o);
    o.workers = 5;
    must(iwarp_device_open(&o, &device));
    for (unsigned i = 0; i < 50; i++) {
        picked[iwarp_device_pick_worker(device, 0) - device->worker]++;
    }
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(picked[i], 10);
        assert_ptr_equal(iwarp_device_pick_worker(device, i + 1), &device->worker[i]);
    }
    assert_null(iwarp_device_pick_worker(device, 6));
    assert_non_null(strstr(iwarp_last_error(), "worker is 6, the device has 5"));
    must(iwarp_device_close(device));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(call__from_many_threads__runs_one_by_one_and_is_waited_for),
        cmocka_unit_test(thread__takes_memory_faults_and_no_other_signal),
        cmocka_unit_test(pick_worker__gives_each_its_turn_or_the_one_that_is_asked_for),
    };

    return cmocka_run_group_tests_name("worker", tests, NULL, NULL);
}
