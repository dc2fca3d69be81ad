/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lease of a loop, where several threads want it at the same time: calls, guests that ask too
 * late, sleepers of an open loop, and threads that come to block the signals of faults.
 */
#include "verbs_pair.h"

#include "base/beside.h"
#include "loop/clock.h"
#include "loop/loop.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/worker.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PARK_NS (IWARP_PARK_MS * 1000000)

static struct iwarp_loop *open_pair(struct pair *p, enum iwarp_progress progress)
{
    struct pair_options o;

    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = progress;
    pair_open(p, &o);
    pair_await_homes(p->device);
    return &p->device->worker[0].loop;
}

static unsigned visits_of(const struct iwarp_loop *l)
{
    return atomic_load(&l->lease.visits);
}

static void poll_in_vain(struct iwarp_cq *cq, unsigned times)
{
    struct iwarp_wc wc;

    for (unsigned i = 0; i < times; i++) {
        assert_int_equal(iwarp_cq_poll(cq, &wc, 1), 0);
    }
}

static void start(pthread_t *thread, void *(*fn)(void *arg), void *arg)
{
    assert_int_equal(pthread_create(thread, NULL, fn, arg), 0);
}

/* Poll an empty queue until the thread has the loop.  Returns when it had it first. */
static int64_t poll_until_out(const struct iwarp_loop *l, struct iwarp_cq *cq)
{
    int64_t end = iwarp_now_ms() + PAIR_WAIT_MS;

    while (!iwarp_lease_is_out(&l->lease)) {
        assert_true(iwarp_now_ms() < end);
        poll_in_vain(cq, 1);
    }
    return iwarp_now_ns();
}

/* --- calls ----------------------------------------------------------------------------------- */

static void count(void *calls)
{
    atomic_fetch_add((_Atomic unsigned *)calls, 1);
}

/* The home is woken up for the call: for the caller to take the loop, too, would be in vain. */
static void call__while_the_home_runs_the_loop__leaves_it_there(void **state)
{
    _Atomic unsigned calls = 0;
    struct pair p;

    (void)state;
    struct iwarp_loop *l = open_pair(&p, IWARP_PROGRESS_POLLED);
    unsigned before = visits_of(l);
    for (unsigned i = 0; i < 100; i++) {
        iwarp_loop_call(l, count, &calls);
    }
    assert_int_equal(calls, 100);
    assert_int_equal(visits_of(l), before);
    pair_close(&p);
}

struct caller {
    struct iwarp_loop *loop;
    _Atomic unsigned calls;
    int64_t began; /* a busy machine may have started the thread late */
};

static void *call_from_thread(void *arg)
{
    struct caller *c = arg;

    c->began = iwarp_now_ns();
    iwarp_loop_call(c->loop, count, &c->calls);
    return NULL;
}

static void await_call(struct iwarp_loop *l)
{
    bool queued = false;

    while (!queued) {
        pthread_mutex_lock(&l->lock);
        queued = l->calls != NULL;
        pthread_mutex_unlock(&l->lock);
    }
}

/* Its guest runs the call in the next turn, and not after the caller has waited for the loop. */
static void call__while_a_guest_runs_the_loop__is_run_at_once(void **state)
{
    int64_t least = INT64_MAX;
    struct pair p;

    (void)state;
    struct iwarp_loop *l = open_pair(&p, IWARP_PROGRESS_THREADED);
    for (unsigned i = 0; i < 50; i++) {
        struct caller c = {.loop = l};
        pthread_t thread;
        if (!iwarp_lease_take(l, IWARP_PARK_MS)) {
            continue;
        }
        uv_run(l->uv, UV_RUN_NOWAIT); /* the wake-up for the home, if it did not need that */
        start(&thread, call_from_thread, &c);
        await_call(l);
        while (atomic_load(&c.calls) == 0) {
            uv_run(l->uv, UV_RUN_NOWAIT);
        }
        int64_t took = iwarp_now_ns() - c.began;
        iwarp_lease_leave(l);
        pthread_join(thread, NULL);
        least = took < least ? took : least;
    }
    print_message("# %lld us at least\n", (long long)least / 1000);
    assert_true(least < PARK_NS);
    pair_close(&p);
}

/* It cannot run the call itself, and the guest would be back after 16 ms: the home comes at once.
 */
static void call__of_a_thread_that_blocks_faults__while_the_guest_is_away(void **state)
{
    int64_t least = INT64_MAX;
    sigset_t faults, before;
    struct pair p;

    (void)state;
    struct iwarp_loop *l = open_pair(&p, IWARP_PROGRESS_THREADED);
    sigemptyset(&faults);
    sigaddset(&faults, SIGSEGV);
    for (unsigned i = 0; i < 20; i++) {
        _Atomic unsigned calls = 0;
        if (!iwarp_lease_take(l, IWARP_PARK_MS)) {
            continue;
        }
        atomic_store(&l->lease.away, IWARP_AWAY_LONG);
        iwarp_lease_leave(l);
        for (unsigned n = 0; n < 10; n++) { /* until the home is parked for as long */
            usleep(500);
            (void)iwarp_lease_visit(l);
        }
        if (!iwarp_lease_is_out(&l->lease)) {
            continue;
        }
        int64_t begin = iwarp_now_ns();
        pthread_sigmask(SIG_BLOCK, &faults, &before);
        iwarp_loop_call(l, count, &calls);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        int64_t took = iwarp_now_ns() - begin;
        assert_int_equal(calls, 1);
        least = took < least ? took : least;
        pair_await_homes(p.device);
    }
    print_message("# %lld us at least\n", (long long)least / 1000);
    assert_true(least < PARK_NS);
    pair_close(&p);
}

/* --- a guest that asks too late -------------------------------------------------------------- */

struct stayer {
    struct iwarp_loop *loop;
    _Atomic bool stays, asked, again, ended;
};

/* In the stay, where nobody else sets `asleep`. */
static bool is_done(void *arg)
{
    struct stayer *s = arg;

    atomic_store(&s->stays, true);
    if (atomic_load(&s->asked) && atomic_load(&s->loop->lease.asleep)) {
        atomic_store(&s->again, true);
    }
    return atomic_load(&s->again);
}

static void *stay(void *arg)
{
    struct stayer *s = arg;

    if (iwarp_lease_take(s->loop, IWARP_PARK_MS)) {
        (void)iwarp_lease_stay(s->loop, NULL, is_done, s);
    }
    atomic_store(&s->ended, true);
    return NULL;
}

/* It has read the owner before the home left; `asleep` is another guest's when it comes to it. */
static void ask__too_late__leaves_a_guest_known_as_asleep(void **state)
{
    bool again = false;
    struct pair p;

    (void)state;
    struct iwarp_loop *l = open_pair(&p, IWARP_PROGRESS_THREADED);
    for (unsigned i = 0; i < 200 && !again; i++) {
        struct stayer s = {.loop = l};
        pthread_t thread;
        start(&thread, stay, &s);
        while (!atomic_load(&s.ended) &&
               !(atomic_load(&s.stays) && atomic_load(&l->lease.asleep))) {
        }
        iwarp_lease_ask(l);
        atomic_store(&s.asked, true);
        iwarp_loop_signal(l);
        pthread_join(thread, NULL);
        again = atomic_load(&s.again);
        pair_await_homes(p.device);
    }
    assert_true(again);
    pair_close(&p);
}

/* --- a guest that has waited for many things ------------------------------------------------- */

static bool is_done_at_once(void *unused)
{
    (void)unused;
    return true;
}

/* From the end of a stay until the home has the loop again. */
static int64_t time_away(struct iwarp_loop *l, struct iwarp_beside *beside)
{
    while (!iwarp_lease_take(l, IWARP_PARK_MS)) {
    }
    (void)iwarp_lease_stay(l, beside, is_done_at_once, NULL);
    int64_t begin = iwarp_now_ns();
    while (iwarp_lease_is_out(&l->lease)) {
        usleep(20);
    }
    return iwarp_now_ns() - begin;
}

/* Its program works through what it was told of, and is served by its own next wait. */
static void stay__beside_other_things__keeps_the_home_away_for_longer(void **state)
{
    int64_t least_alone = INT64_MAX, least_beside = INT64_MAX;
    struct pair p;

    (void)state;
    struct iwarp_loop *l = open_pair(&p, IWARP_PROGRESS_THREADED);
    for (unsigned i = 0; i < 20; i++) {
        struct pollfd loop[1];
        struct iwarp_beside none = {loop, 0, INT64_MAX, 0};
        int64_t beside = time_away(l, &none), alone = time_away(l, NULL);
        least_beside = beside < least_beside ? beside : least_beside;
        least_alone = alone < least_alone ? alone : least_alone;
    }
    print_message("# %lld and %lld us at least\n", (long long)least_beside / 1000,
                  (long long)least_alone / 1000);
    assert_true(least_beside > 3 * IWARP_PARK_LONG_MS * INT64_C(1000000) / 4);
    assert_true(least_alone < 3 * IWARP_PARK_LONG_MS * INT64_C(1000000) / 4);
    pair_close(&p);
}

/* --- sleepers of an open loop ---------------------------------------------------------------- */

/* Armed or having waited, a thread polls once more before it sleeps: it would sleep unserved. */
static void polled__once_before_sleeping__leaves_the_loop_to_its_home(void **state)
{
    struct iwarp_wc wc;
    struct pair p;

    (void)state;
    struct iwarp_loop *l = open_pair(&p, IWARP_PROGRESS_POLLED);
    struct iwarp_cq *cq = p.side[0].recv_cq;
    for (unsigned i = 0; i < 20; i++) {
        pair_await_homes(p.device);
        unsigned before = visits_of(l);
        if (i % 2 == 0) {
            must(iwarp_cq_arm(cq, false));
        } else {
            assert_int_equal(iwarp_cq_wait(cq, &wc, 1, 1), 0);
            pair_await_homes(p.device);
            before = visits_of(l);
        }
        poll_in_vain(cq, 1);
        assert_int_equal(visits_of(l), before);
        poll_in_vain(cq, 1); /* who goes on polling does ask */
        assert_int_not_equal(visits_of(l), before);
    }
    pair_close(&p);
}

/* A poller may keep the loop while a queue is armed, but when it stops the home is back soon. */
static void polled__with_a_queue_armed__has_the_home_back_sooner(void **state)
{
    int64_t least = INT64_MAX;
    struct pair p;

    (void)state;
    struct iwarp_loop *l = open_pair(&p, IWARP_PROGRESS_POLLED);
    must(iwarp_cq_arm(p.side[1].recv_cq, false));
    for (unsigned i = 0; i < 50; i++) {
        int64_t begin = iwarp_now_ns(), end = begin + 2 * PARK_NS;
        while (begin < end || !iwarp_lease_is_out(&l->lease)) {
            begin = iwarp_now_ns();
            poll_in_vain(p.side[0].recv_cq, 1);
        }
        while (iwarp_lease_is_out(&l->lease)) {
            usleep(20);
        }
        int64_t took = iwarp_now_ns() - begin;
        least = took < least ? took : least;
    }
    print_message("# %lld us at least\n", (long long)least / 1000);
    assert_true(least < PARK_NS);
    pair_close(&p);
}

/* --- a guest that visits without a pause ----------------------------------------------------- */

static _Atomic int slack_ns; /* of the home's sleeps, when it was asked last */

static void note_slack(void *loop)
{
    const struct iwarp_loop *l = loop;

    if (!pthread_equal(pthread_self(), l->thread)) {
        return; /* a thread that polls was first */
    }
    atomic_store(&slack_ns, prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0));
}

static void take_the_alarm(void *arg)
{
    struct iwarp_loop *l = arg;

    l->alarm.ring = note_slack;
    l->alarm.arg = l;
    note_slack(l);
}

/* Poll for a park time.  False: this build is too slow, or the system took the processor away. */
static bool polls_without_a_pause(const struct iwarp_loop *l, struct iwarp_cq *cq)
{
    int64_t begin = iwarp_now_ns();
    unsigned before = visits_of(l);

    while (iwarp_now_ns() - begin < PARK_NS) {
        poll_in_vain(cq, 16);
    }
    return visits_of(l) - before >= 800 && iwarp_now_ns() - begin < PARK_NS * 5 / 4;
}

/* Not by this thread, which does not poll until it has rung. */
static void ring_at_home(struct iwarp_loop *l)
{
    int64_t end = iwarp_now_ns() + PARK_NS;

    iwarp_alarm_start(&l->alarm, 100);
    while (atomic_load(&slack_ns) == 0 && iwarp_now_ns() < end) {
    }
}

/* The same for as many as the home has to see, while it says its slack.  0: there was a pause. */
static int slack_beside_polling(struct iwarp_loop *l, struct iwarp_cq *cq)
{
    atomic_store(&slack_ns, 0);
    for (unsigned i = 0; i < 16; i++) {
        if (i == 10) {
            ring_at_home(l);
        }
        if (!polls_without_a_pause(l, cq)) {
            return 0;
        }
    }
    return atomic_load(&slack_ns);
}

/* The home shares the kernel's ticks meanwhile, and is exact again while a queue is armed. */
static void polled__without_a_pause__has_the_home_check_when_the_kernel_likes(void **state)
{
    struct pair p;
    unsigned fair = 0; /* tries in which this thread did its part */
    bool lax = false;

    (void)state;
    struct iwarp_loop *l = open_pair(&p, IWARP_PROGRESS_POLLED);
    struct iwarp_cq *cq = p.side[0].recv_cq;
    iwarp_loop_call(l, take_the_alarm, l);
    const int exact = atomic_load(&slack_ns);
    assert_true(exact < PARK_NS);
    (void)poll_until_out(l, cq);
    for (unsigned i = 0; i < 100 && !lax; i++) {
        int slack = slack_beside_polling(l, cq);
        fair += slack != 0;
        lax = slack == 4000000;
    }
    must(iwarp_cq_arm(p.side[1].recv_cq, false));
    for (int64_t end = iwarp_now_ms() + 20; iwarp_now_ms() < end;) {
        poll_in_vain(cq, 1);
    }
    atomic_store(&slack_ns, 0);
    for (int64_t end = iwarp_now_ms() + PAIR_WAIT_MS; atomic_load(&slack_ns) == 0;) {
        assert_true(iwarp_now_ms() < end);
        ring_at_home(l);
    }
    assert_int_equal(atomic_load(&slack_ns), exact);
    pair_close(&p);
    print_message("# %u fair tries\n", fair);
    assert_true(lax || fair < 10); /* on a busy machine, or in a slow build, none may be fair */
}

/* Once it runs the loop again, its sleeps are those of any thread. */
static void polled__without_a_pause__leaves_the_home_exact(void **state)
{
    struct pair p;

    (void)state;
    struct iwarp_loop *l = open_pair(&p, IWARP_PROGRESS_POLLED);
    struct iwarp_cq *cq = p.side[0].recv_cq;
    iwarp_loop_call(l, take_the_alarm, l);
    const int exact = atomic_load(&slack_ns);
    for (unsigned i = 0; i < 5; i++) {
        int64_t end = poll_until_out(l, cq) + 20 * PARK_NS;
        while (iwarp_now_ns() < end) {
            poll_in_vain(cq, 1);
        }
        iwarp_lease_recall(l); /* else a check that finds few visits comes first */
        pair_await_homes(p.device);
        iwarp_loop_call(l, note_slack, l);
        assert_int_equal(atomic_load(&slack_ns), exact);
    }
    pair_close(&p);
}

/* --- a queue that stays armed for good ------------------------------------------------------- */

#define ARMED_NS 25000000 /* until it is passed over */

/*
 * A thread polls one queue while another one is armed. It has the loop in the end, and not before
 * the last arming is long ago.  Then the armed queue is told of its completion all the same.
 */
static void polled__beside_a_queue_armed_for_long__leads_and_that_queue_is_told(void **state)
{
    struct pair p;

    (void)state;
    struct iwarp_loop *l = open_pair(&p, IWARP_PROGRESS_THREADED);
    struct iwarp_cq *armed = p.side[1].recv_cq, *polled = p.side[0].recv_cq;
    struct pollfd told = {.fd = iwarp_cq_fd(armed), .events = POLLIN};
    for (unsigned i = 0; i < 5; i++) {
        int64_t begin = iwarp_now_ns();
        must(iwarp_cq_arm(armed, false));
        pair_await_homes(p.device);
        assert_true(poll_until_out(l, polled) - begin >= ARMED_NS);
        assert_int_equal(poll(&told, 1, 0), 0);
        pair_recv(&p.side[1], i, 0, 100);
        pair_send(&p.side[0], i, 0, 100);
        for (int64_t end = iwarp_now_ms() + PAIR_WAIT_MS; poll(&told, 1, 0) == 0;) {
            assert_true(iwarp_now_ms() < end);
            poll_in_vain(polled, 1);
        }
        iwarp_cq_drain(armed);
        pair_wc(armed, i, IWARP_WC_SUCCESS);
        pair_wc(p.side[0].send_cq, i, IWARP_WC_SUCCESS);
    }
    pair_close(&p);
}

/* Arming anew takes the loop from the thread that polls, also if the queue is armed already. */
static void polled__beside_a_queue_armed_for_long__loses_the_loop_to_one_armed_now(void **state)
{
    struct pair p;

    (void)state;
    struct iwarp_loop *l = open_pair(&p, IWARP_PROGRESS_THREADED);
    struct iwarp_cq *polled = p.side[0].recv_cq;
    for (unsigned i = 0; i < 3; i++) {
        int64_t begin = iwarp_now_ns();
        must(iwarp_cq_arm(i < 2 ? p.side[1].recv_cq : p.side[1].send_cq, false));
        pair_await_homes(p.device);
        assert_true(poll_until_out(l, polled) - begin >= ARMED_NS);
    }
    pair_close(&p);
}

/* --- faults blocked by a thread that has earned the lease ------------------------------------ */

static void block_faults(sigset_t *before)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGBUS);
    pthread_sigmask(SIG_BLOCK, &set, before);
}

static void once(struct pair *p)
{
    pair_recv(&p->side[1], 1, 0, 100);
    pair_send(&p->side[0], 1, 0, 100);
    pair_wc(p->side[1].recv_cq, 1, IWARP_WC_SUCCESS);
    pair_wc(p->side[0].send_cq, 1, IWARP_WC_SUCCESS);
}

static void blocked__after_leading__never_leads_again(void **state)
{
    int64_t end = iwarp_now_ms() + PAIR_WAIT_MS;
    sigset_t before;
    struct pair p;

    (void)state;
    struct iwarp_loop *l = open_pair(&p, IWARP_PROGRESS_THREADED);
    while (!iwarp_lease_is_out(&l->lease)) {
        assert_true(iwarp_now_ms() < end);
        once(&p);
    }
    block_faults(&before);
    unsigned visits = visits_of(l);
    for (unsigned i = 0; i < 50; i++) {
        once(&p);
    }
    assert_int_equal(visits_of(l), visits);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pair_close(&p);
}

static void blocked__after_polling__visits_no_more(void **state)
{
    int64_t end = iwarp_now_ms() + PAIR_WAIT_MS;
    sigset_t before;
    struct pair p;

    (void)state;
    struct iwarp_loop *l = open_pair(&p, IWARP_PROGRESS_THREADED);
    struct iwarp_cq *cq = p.side[1].recv_cq;
    while (!iwarp_lease_is_out(&l->lease)) {
        assert_true(iwarp_now_ms() < end);
        poll_in_vain(cq, 64);
    }
    block_faults(&before);
    poll_in_vain(cq, 16); /* it is noticed within 8 */
    unsigned visits = visits_of(l);
    poll_in_vain(cq, 1000);
    assert_int_equal(visits_of(l), visits);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pair_close(&p);
}

/* Turns of a loop that one thread runs. */
static struct {
    uv_prepare_t handle;
    struct iwarp_loop *loop;
    pthread_t thread;
    _Atomic unsigned here;
    _Atomic bool stop;
} turns;

static void on_turn(uv_prepare_t *handle)
{
    (void)handle;
    atomic_fetch_add(&turns.here, pthread_equal(turns.thread, pthread_self()) != 0);
}

static void count_turns(void *loop)
{
    uv_prepare_init(loop, &turns.handle);
    uv_prepare_start(&turns.handle, on_turn);
}

static void count_no_more(void *unused)
{
    (void)unused;
    uv_close((uv_handle_t *)&turns.handle, NULL);
}

/* Keeps the lease, and leaves the loop alone most of the time. */
static void *visit_rarely(void *unused)
{
    (void)unused;
    while (!atomic_load(&turns.stop)) {
        if (iwarp_lease_take(turns.loop, IWARP_PARK_MS)) {
            iwarp_lease_leave(turns.loop);
        }
        usleep(500);
    }
    return NULL;
}

/* It is a guest of others: it polls a loop that another thread has on lease. */
static void blocked__after_helping__helps_no_more(void **state)
{
    int64_t end = iwarp_now_ms() + PAIR_WAIT_MS;
    pthread_t thread;
    sigset_t before;
    struct pair p;

    (void)state;
    struct iwarp_loop *l = open_pair(&p, IWARP_PROGRESS_THREADED);
    struct iwarp_cq *cq = p.side[1].recv_cq;
    turns.loop = l;
    turns.thread = pthread_self();
    iwarp_loop_call(l, count_turns, l->uv);
    start(&thread, visit_rarely, NULL);
    while (atomic_load(&turns.here) == 0) {
        assert_true(iwarp_now_ms() < end);
        poll_in_vain(cq, 1);
    }
    block_faults(&before);
    poll_in_vain(cq, 16);
    atomic_store(&turns.here, 0);
    poll_in_vain(cq, 100000);
    assert_int_equal(atomic_load(&turns.here), 0);
    atomic_store(&turns.stop, true);
    pthread_join(thread, NULL);
    iwarp_loop_call(l, count_no_more, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(call__while_the_home_runs_the_loop__leaves_it_there),
        cmocka_unit_test(call__while_a_guest_runs_the_loop__is_run_at_once),
        cmocka_unit_test(call__of_a_thread_that_blocks_faults__while_the_guest_is_away),
        cmocka_unit_test(ask__too_late__leaves_a_guest_known_as_asleep),
        cmocka_unit_test(stay__beside_other_things__keeps_the_home_away_for_longer),
        cmocka_unit_test(polled__once_before_sleeping__leaves_the_loop_to_its_home),
        cmocka_unit_test(polled__with_a_queue_armed__has_the_home_back_sooner),
        cmocka_unit_test(polled__without_a_pause__has_the_home_check_when_the_kernel_likes),
        cmocka_unit_test(polled__without_a_pause__leaves_the_home_exact),
        cmocka_unit_test(polled__beside_a_queue_armed_for_long__leads_and_that_queue_is_told),
        cmocka_unit_test(polled__beside_a_queue_armed_for_long__loses_the_loop_to_one_armed_now),
        cmocka_unit_test(blocked__after_leading__never_leads_again),
        cmocka_unit_test(blocked__after_polling__visits_no_more),
        cmocka_unit_test(blocked__after_helping__helps_no_more),
    };

    return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
