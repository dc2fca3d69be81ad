/* SPDX-License-Identifier: BSD-2-Clause */
/* Arming and waiting in two calls, as the drop-in library's channels do: who runs the loop. */
#include "verbs_pair.h"

#include "base/lead.h"
#include "loop/clock.h"
#include "loop/loop.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/progress.h"
#include "verbs/worker.h"

#include <unistd.h>

#define FIRST 16 /* quick waits in a row that earn the lease */

struct waiter {
    struct pair *p;
    atomic_bool told;
    unsigned asked; /* how often the loop asked whether the wait is over, on this thread */
};

static void on_told(void *arg)
{
    struct waiter *w = arg;

    atomic_store(&w->told, true);
}

static bool is_told(void *arg)
{
    struct waiter *w = arg;

    w->asked += iwarp_loop_is_current(&w->p->device->worker[0].loop);
    return atomic_load(&w->told);
}

static void open_waiter(struct waiter *w, struct pair *p, enum iwarp_progress progress)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = progress;
    pair_open(p, &o);
    *w = (struct waiter){.p = p};
    must(iwarp_cq_notify_by(p->side[1].recv_cq, on_told, w));
}

static bool arm(struct waiter *w)
{
    atomic_store(&w->told, false);
    if (iwarp_cq_arm_to_lead(w->p->side[1].recv_cq, false)) {
        return true;
    }
    must(iwarp_cq_arm(w->p->side[1].recv_cq, false));
    return false;
}

static void send_one(struct waiter *w)
{
    pair_recv(&w->p->side[1], 1, 0, 8);
    pair_send(&w->p->side[0], 1, 0, 8);
}

static void take_one(struct waiter *w)
{
    (void)pair_wc(w->p->side[1].recv_cq, 1, IWARP_WC_SUCCESS);
    (void)pair_wc(w->p->side[0].send_cq, 1, IWARP_WC_SUCCESS);
}

static void sleep_until_told(struct waiter *w)
{
    int64_t end = iwarp_now_ms() + PAIR_WAIT_MS;

    while (!atomic_load(&w->told)) {
        assert_true(iwarp_now_ms() < end);
        usleep(50);
    }
}

/* Waits that each follow the last one at once, until one is armed to lead.  0: none. */
static unsigned waits_until_it_leads(struct waiter *w, unsigned at_most)
{
    for (unsigned n = 1; n <= at_most; n++) {
        iwarp_progress_waited(w->p->device);
        (void)iwarp_progress_may_wait(w->p->device, -1, false);
        if (arm(w)) {
            return n;
        }
        assert_int_equal(atomic_load(&w->p->device->sleepers.armed), 1);
        send_one(w);
        sleep_until_told(w);
        take_one(w);
    }
    return 0;
}

static void wait__that_has_been_earned__runs_the_loop_itself(void **state)
{
    struct waiter w;
    struct pair p;

    (void)state;
    open_waiter(&w, &p, IWARP_PROGRESS_THREADED);
    for (unsigned tries = 0; w.asked == 0 && tries < 1000; tries++) { /* it may be late */
        assert_true(waits_until_it_leads(&w, 100000) >= (tries == 0 ? FIRST : 1));
        assert_int_equal(atomic_load(&p.device->sleepers.armed), 0);
        send_one(&w);
        iwarp_progress_waited(p.device);
        bool led = iwarp_cq_may_lead(p.device, false) && iwarp_cq_lead(p.device, NULL, is_told, &w);
        assert_true(!led || atomic_load(&w.told));
        if (!led) {
            iwarp_cq_arm_to_sleep(p.side[1].recv_cq);
            iwarp_progress_recall(p.device);
            sleep_until_told(&w);
        }
        take_one(&w);
    }
    assert_true(w.asked > 0);
    pair_close(&p);
}

static void program__that_armed_to_lead_and_sleeps_elsewhere__is_told_all_the_same(void **state)
{
    struct waiter w;
    struct pair p;

    (void)state;
    open_waiter(&w, &p, IWARP_PROGRESS_THREADED);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(waits_until_it_leads(&w, 100000) > 0);
        send_one(&w);
        sleep_until_told(&w); /* by the home, which misses this thread's visits */
        take_one(&w);
    }
    pair_close(&p);
}

static void arming__for_good__counts_once(void **state)
{
    struct waiter w;
    struct pair p;

    (void)state;
    open_waiter(&w, &p, IWARP_PROGRESS_THREADED);
    assert_true(waits_until_it_leads(&w, 100000) > 0);
    iwarp_cq_arm_to_sleep(p.side[1].recv_cq);
    iwarp_cq_arm_to_sleep(p.side[1].recv_cq);
    assert_int_equal(atomic_load(&p.device->sleepers.armed), 1);
    iwarp_progress_recall(p.device);
    send_one(&w);
    sleep_until_told(&w);
    assert_int_equal(atomic_load(&p.device->sleepers.armed), 0);
    iwarp_cq_arm_to_sleep(p.side[1].recv_cq); /* nothing is armed any more */
    assert_int_equal(atomic_load(&p.device->sleepers.armed), 0);
    take_one(&w);
    pair_close(&p);
}

/* It waits for queues that do not count, say for a descriptor that shows several of them. */
static void thread__that_sleeps_elsewhere__counts_until_it_is_back(void **state)
{
    struct waiter w;
    struct pair p;

    (void)state;
    open_waiter(&w, &p, IWARP_PROGRESS_THREADED);
    assert_true(waits_until_it_leads(&w, 100000) > 0);
    iwarp_cq_begin_sleep(p.device);
    assert_int_equal(atomic_load(&p.device->sleepers.armed), 1);
    assert_true(iwarp_cq_is_kept(p.device));
    assert_false(iwarp_cq_may_lead(p.device, true));
    assert_false(iwarp_cq_leads(p.device));
    iwarp_cq_arm_aside(p.side[1].recv_cq);
    assert_int_equal(atomic_load(&p.device->sleepers.armed), 1);
    send_one(&w);
    sleep_until_told(&w); /* the home has the loop at once */
    iwarp_cq_end_sleep(p.device);
    assert_int_equal(atomic_load(&p.device->sleepers.armed), 0);
    iwarp_cq_arm_to_sleep(p.side[1].recv_cq);
    iwarp_cq_arm_aside(p.side[1].recv_cq); /* a queue that counts goes on to count */
    assert_int_equal(atomic_load(&p.device->sleepers.armed), 0);
    take_one(&w);
    pair_close(&p);
}

static void queue__that_was_armed_before__does_not_keep_its_own_thread_from_the_loop(void **state)
{
    struct iwarp_cq *other;
    struct waiter w;
    struct pair p;
    unsigned n = 0;

    (void)state;
    open_waiter(&w, &p, IWARP_PROGRESS_THREADED);
    other = p.side[1].send_cq;
    assert_ptr_not_equal(other, p.side[1].recv_cq);
    must(iwarp_cq_arm(other, false)); /* nothing will complete into it */
    for (; !iwarp_cq_is_kept(p.device); n++) {
        assert_true(n < 100000);
        iwarp_progress_waited(p.device);
        assert_false(
            iwarp_progress_may_wait(p.device, -1, false)); /* somebody sleeps for `other` */
    }
    assert_true(n >= FIRST);
    assert_int_equal(atomic_load(&p.device->sleepers.armed), 1);
    iwarp_cq_lead_for(other);
    assert_int_equal(atomic_load(&p.device->sleepers.armed), 0);
    assert_false(iwarp_cq_is_kept(p.device));
    assert_true(arm(&w));
    assert_true(iwarp_cq_arm_to_sleep(other));
    assert_true(iwarp_cq_arm_to_sleep(p.side[1].recv_cq));
    assert_false(iwarp_cq_arm_to_sleep(other)); /* it counts already */
    assert_int_equal(atomic_load(&p.device->sleepers.armed), 2);
    iwarp_progress_recall(p.device);
    send_one(&w);
    sleep_until_told(&w);
    assert_int_equal(atomic_load(&p.device->sleepers.armed), 1);
    take_one(&w);
    pair_close(&p);
}

static void arming__with_polled_progress__is_never_to_lead(void **state)
{
    struct waiter w;
    struct pair p;

    (void)state;
    open_waiter(&w, &p, IWARP_PROGRESS_POLLED);
    assert_int_equal(waits_until_it_leads(&w, 100), 0);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wait__that_has_been_earned__runs_the_loop_itself),
        cmocka_unit_test(program__that_armed_to_lead_and_sleeps_elsewhere__is_told_all_the_same),
        cmocka_unit_test(arming__for_good__counts_once),
        cmocka_unit_test(thread__that_sleeps_elsewhere__counts_until_it_is_back),
        cmocka_unit_test(queue__that_was_armed_before__does_not_keep_its_own_thread_from_the_loop),
        cmocka_unit_test(arming__with_polled_progress__is_never_to_lead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
