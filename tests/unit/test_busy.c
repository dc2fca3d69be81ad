/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread that polls a threaded device without a pause comes to run the loop itself: that it does;
 * that nothing is lost when it stops polling, arms or waits; and which threads do not.
 */
#include "verbs_pair.h"

#include "loop/clock.h"
#include "loop/loop.h"
#include "verbs/conn.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST 1024 /* empty polls that it takes at least, the first time */
#define PLENTY                                                                                     \
    UINT32_MAX          /* a machine with much else to do seldom has a thread poll without pauses */
#define SERIOUS 100000u /* where it should never happen, and 1024 were enough otherwise */

static struct pair pair_with(enum pair_transport transport, bool look, unsigned workers)
{
    struct pair_options o;
    struct pair p;

    pair_options_init(&o, transport);
    o.device.progress = IWARP_PROGRESS_THREADED;
    o.device.look = look;
    o.device.workers = workers;
    o.conn[0].worker = o.conn[1].worker = workers;
    pair_open(&p, &o);
    pair_await_homes(p.device);
    return p;
}

static bool is_taken(const struct pair *p, unsigned worker)
{
    return iwarp_lease_is_out(&p->device->worker[worker].loop.lease);
}

/* Poll an empty queue until this thread has the worker's loop, or at_most times. Returns the polls.
 */
static unsigned poll_until_taken(struct pair *p, unsigned worker, unsigned at_most)
{
    struct iwarp_wc wc;
    unsigned polls = 0;
    int64_t end = iwarp_now_ms() + PAIR_WAIT_MS;

    while (polls < at_most && !is_taken(p, worker)) {
        assert_int_equal(iwarp_cq_poll(p->side[1].recv_cq, &wc, 1), 0);
        assert_true(++polls % 65536 != 0 || iwarp_now_ms() < end);
    }
    return polls;
}

/* Does a poll of this thread visit the loop?  Then the lease is its own. */
static bool visits(struct pair *p)
{
    const struct iwarp_lease *lease = &p->device->worker[0].loop.lease;
    unsigned before = atomic_load(&lease->visits);
    struct iwarp_wc wc;

    assert_int_equal(iwarp_cq_poll(p->side[1].recv_cq, &wc, 1), 0);
    return atomic_load(&lease->visits) != before;
}

/*
 * Returns the polls.  On a busy machine the home may come out of the loop only when the thread that
 * asked has given up, and has paid a part of its penalty: that lease is nobody's.
 */
static unsigned poll_until_mine(struct pair *p)
{
    unsigned polls = 0;

    for (;;) {
        polls += poll_until_taken(p, 0, PLENTY);
        if (visits(p)) {
            return polls;
        }
        polls++;
    }
}

static void wait_until_back(const struct pair *p)
{
    for (unsigned ms = 0; is_taken(p, 0); ms++) {
        assert_true(ms < PAIR_WAIT_MS);
        usleep(1000);
    }
}

/* Which thread reads from the connection of side 1. */
static struct {
    const struct iwarp_transport *real;
    struct iwarp_transport ops;
    _Atomic uint64_t here, elsewhere; /* octets */
    pthread_t thread;
} reads;

static ssize_t count_readv(struct iwarp_endpoint *ep, const struct iovec *iov, int n)
{
    ssize_t got = reads.real->readv(ep, iov, n);

    if (got > 0) {
        atomic_fetch_add(pthread_equal(reads.thread, pthread_self()) ? &reads.here
                                                                     : &reads.elsewhere,
                         (uint64_t)got);
    }
    return got;
}

static void count_on_worker(void *arg)
{
    struct iwarp_conn *conn = arg;

    iwarp_mutex_lock(&conn->lock);
    reads.real = conn->ep->ops;
    reads.ops = *reads.real;
    reads.ops.readv = count_readv;
    conn->ep->ops = &reads.ops;
    iwarp_conn_unlock(conn);
}

static void count_reads(struct iwarp_conn *conn)
{
    reads.thread = pthread_self();
    atomic_store(&reads.here, 0);
    atomic_store(&reads.elsewhere, 0);
    iwarp_loop_call(&conn->worker->loop, count_on_worker, conn);
}

static struct iwarp_wc poll_for(struct iwarp_cq *cq)
{
    struct iwarp_wc wc;
    int got;
    int64_t end = iwarp_now_ms() + PAIR_WAIT_MS;

    for (unsigned i = 1; (got = iwarp_cq_poll(cq, &wc, 1)) == 0; i++) {
        assert_true(i % 65536 != 0 || iwarp_now_ms() < end);
    }
    assert_int_equal(got, 1);
    assert_int_equal(wc.status, IWARP_WC_SUCCESS);
    return wc;
}

static void send_polled(struct pair *p, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        pair_recv(&p->side[1], i, 0, 100);
        pair_send(&p->side[0], i, 0, 100);
        assert_int_equal(poll_for(p->side[1].recv_cq).wr_id, i);
        assert_int_equal(poll_for(p->side[0].send_cq).wr_id, i);
    }
}

/* In memory the thread that posts moves what it posts, so what counts is TCP. */
static void poll__without_end__moves_the_octets_itself(void **state)
{
    struct pair p = pair_with(PAIR_TCP4, true, 1);

    (void)state;
    count_reads(p.side[1].conn);
    /* The system may have the thread away for ms, and the worker's come back. */
    for (unsigned i = 0; i < 100 && atomic_load(&reads.here) < 10000; i++) {
        assert_true(poll_until_taken(&p, 0, PLENTY) >= (i == 0 ? FIRST : 0));
        send_polled(&p, 1000);
    }
    assert_true(atomic_load(&reads.here) >= 10000);
    pair_close(&p);
}

static void poll__that_stops__leaves_all_to_the_worker(void **state)
{
    (void)state;
    for (enum pair_transport t = PAIR_MEMORY; t <= PAIR_TCP4; t++) {
        struct pair p = pair_with(t, true, 1);
        (void)poll_until_taken(&p, 0, PLENTY);
        send_polled(&p, 200); /* the loop does not watch the connection any more: loop/hot.h */
        pair_fill(p.side[0].p, 100, 7);
        for (unsigned i = 0; i < 50; i++) {
            pair_write(&p.side[0], i, 0, 100, &p.side[1], 0);
            volatile uint8_t *last = p.side[1].p + 99;
            for (unsigned ms = 0; *last != p.side[0].p[99]; ms++) { /* without polling */
                assert_true(ms < PAIR_WAIT_MS);
                usleep(1000);
            }
            *last = (uint8_t)~p.side[0].p[99];
            pair_wc(p.side[0].send_cq, i, IWARP_WC_SUCCESS);
        }
        wait_until_back(&p);
        pair_close(&p);
    }
}

static void poll__before_waiting__leaves_all_to_the_worker(void **state)
{
    struct pair p = pair_with(PAIR_TCP4, true, 1);
    struct iwarp_wc wc;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        (void)poll_until_taken(&p, 0, PLENTY);
        pair_recv(&p.side[1], i, 0, 100);
        must(iwarp_cq_arm(p.side[1].recv_cq, false));
        wait_until_back(&p);
        pair_send(&p.side[0], i, 0, 100);
        assert_int_equal(iwarp_cq_wait(p.side[1].recv_cq, &wc, 1, PAIR_WAIT_MS), 1);
        pair_wc(p.side[0].send_cq, i, IWARP_WC_SUCCESS);
    }
    pair_close(&p);
}

/* A pause costs: the next time it takes more polls. */
static void poll__again_after_a_pause__takes_twice_as_long(void **state)
{
    struct pair p = pair_with(PAIR_TCP4, true, 1);

    (void)state;
    for (unsigned least = FIRST; least <= 8 * FIRST; least *= 2) {
        assert_in_range(poll_until_mine(&p), least, PLENTY - 1);
        wait_until_back(&p);
        assert_int_equal(poll_until_taken(&p, 0, 1), 1); /* this one notices */
    }
    pair_close(&p);
}

static void poll__with_waits_between__never_takes_the_loop(void **state)
{
    struct pair p = pair_with(PAIR_TCP4, true, 1);
    struct iwarp_wc wc;

    (void)state;
    for (unsigned i = 0; i < SERIOUS / 500; i++) {
        assert_int_equal(poll_until_taken(&p, 0, 500), 500);
        assert_int_equal(iwarp_cq_wait(p.side[1].recv_cq, &wc, 1, 0), 0);
    }
    pair_close(&p);
}

#define ARMED_NS 25000000 /* a queue that is armed for longer is passed over */

/* A queue was armed after `armed_ns`: the loop is not taken, but where so many polls take long. */
static void poll_while_armed(struct pair *p, int64_t armed_ns)
{
    const unsigned polls = poll_until_taken(p, 0, SERIOUS);

    assert_true(polls == SERIOUS || iwarp_now_ns() - armed_ns > ARMED_NS);
}

/* Who sleeps for completions is not to wait for the return of who polls. */
static void poll__while_another_queue_is_armed__never_takes_the_loop(void **state)
{
    struct pair p = pair_with(PAIR_TCP4, true, 1);
    const int64_t armed_ns = iwarp_now_ns();

    (void)state;
    must(iwarp_cq_arm(p.side[0].recv_cq, false));
    poll_while_armed(&p, armed_ns);
    pair_recv(&p.side[0], 1, 0, 100); /* it comes: not armed any more */
    pair_send(&p.side[1], 1, 0, 100);
    pair_wc(p.side[0].recv_cq, 1, IWARP_WC_SUCCESS);
    pair_wc(p.side[1].send_cq, 1, IWARP_WC_SUCCESS);
    (void)poll_until_taken(&p, 0, PLENTY);
    pair_close(&p);
}

static void poll__with_look_off__never_takes_the_loop(void **state)
{
    struct pair p = pair_with(PAIR_TCP4, false, 1);

    (void)state;
    assert_int_equal(poll_until_taken(&p, 0, SERIOUS), SERIOUS);
    pair_close(&p);
}

static void *poll_blocked(void *pair)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return (void *)(uintptr_t)poll_until_taken(pair, 0, SERIOUS);
}

/* A fault in the application's memory would end the process. */
static void poll__with_sigsegv_blocked__never_takes_the_loop(void **state)
{
    struct pair p = pair_with(PAIR_TCP4, true, 1);
    pthread_t thread;
    void *polls;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, poll_blocked, &p), 0);
    assert_int_equal(pthread_join(thread, &polls), 0);
    assert_int_equal((uintptr_t)polls, SERIOUS);
    pair_close(&p);
}

/* Polling a queue takes the workers that use it, and no others. */
static void poll__with_several_workers__takes_those_of_the_queue(void **state)
{
    struct pair p = pair_with(PAIR_TCP4, true, 3);

    (void)state;
    (void)poll_until_taken(&p, 2, PLENTY);
    assert_false(is_taken(&p, 0));
    assert_false(is_taken(&p, 1));
    pair_close(&p);
}

static void count_call(void *calls)
{
    ++*(unsigned *)calls;
}

/* Calls of others that need the worker are done by whoever has its loop, or by it. */
static void *call_often(void *pair)
{
    const struct pair *p = pair;
    unsigned calls = 0;

    for (unsigned i = 0; i < 1000; i++) {
        iwarp_loop_call(&p->side[0].conn->worker->loop, count_call, &calls);
    }
    assert_int_equal(calls, 1000);
    return NULL;
}

static void poll__while_others_call__holds_nobody_up(void **state)
{
    struct pair p = pair_with(PAIR_TCP4, true, 1);
    struct iwarp_wc wc;
    pthread_t thread;

    (void)state;
    (void)poll_until_taken(&p, 0, PLENTY);
    assert_int_equal(pthread_create(&thread, NULL, call_often, &p), 0);
    while (pthread_tryjoin_np(thread, NULL) != 0) {
        assert_int_equal(iwarp_cq_poll(p.side[1].recv_cq, &wc, 1), 0);
    }
    pair_close(&p);
}

/* --- it leaves the loop while it goes on polling -----------------------------------------------
 */

/* Others are not to wait for its next poll. */
static void poll__that_slows_down__leaves_the_loop(void **state)
{
    struct pair p = pair_with(PAIR_TCP4, true, 1);
    struct iwarp_wc wc;

    (void)state;
    (void)poll_until_taken(&p, 0, PLENTY);
    for (unsigned polls = 0; is_taken(&p, 0); polls++) {
        assert_true(polls < 200); /* four samples are over after 40 */
        usleep(300);
        assert_int_equal(iwarp_cq_poll(p.side[1].recv_cq, &wc, 1), 0);
    }
    pair_close(&p);
}

static void *arm(void *cq)
{
    return iwarp_cq_arm(cq, false) == IWARP_OK ? cq : NULL;
}

static void poll__once_another_thread_has_armed__leaves_the_loop(void **state)
{
    struct pair p = pair_with(PAIR_TCP4, true, 1);
    struct iwarp_wc wc;
    pthread_t thread;
    void *armed;

    (void)state;
    (void)poll_until_taken(&p, 0, PLENTY);
    const int64_t armed_ns = iwarp_now_ns();
    assert_int_equal(pthread_create(&thread, NULL, arm, p.side[0].recv_cq), 0);
    assert_int_equal(pthread_join(thread, &armed), 0);
    assert_non_null(armed);
    int64_t end = iwarp_now_ms() + PAIR_WAIT_MS;
    while (is_taken(&p, 0)) {
        assert_true(iwarp_now_ms() < end);
        assert_int_equal(iwarp_cq_poll(p.side[1].recv_cq, &wc, 1), 0);
    }
    poll_while_armed(&p, armed_ns);
    pair_close(&p);
}

/* --- all at once ----------------------------------------------------------------------------- */

#define MIX_MS 3000
#define OTHERS 4 /* devices: a thread that polls as many others is not known any more */

static struct {
    struct pair p, other[OTHERS];
    _Atomic bool stop;
    _Atomic unsigned calls, takes, waits, failed;
} mix;

static void *mix_poll(void *arg)
{
    unsigned seed = 1;
    struct iwarp_wc wc;

    (void)arg;
    while (!atomic_load(&mix.stop)) {
        for (int i = 0; i < OTHERS; i++) {
            iwarp_cq_poll(mix.other[i].side[0].recv_cq, &wc, 1);
        }
        for (unsigned i = 0; i < 20000 && !is_taken(&mix.p, 0); i++) {
            iwarp_cq_poll(mix.p.side[1].recv_cq, &wc, 1);
        }
        atomic_fetch_add(&mix.takes, is_taken(&mix.p, 0));
        for (int n = rand_r(&seed) % 2000; n > 0; n--) {
            iwarp_cq_poll(mix.p.side[1].recv_cq, &wc, 1);
        }
        usleep((useconds_t)rand_r(&seed) % 5000);
    }
    return NULL;
}

static void *mix_call(void *arg)
{
    unsigned seed = 2, calls = 0;

    (void)arg;
    while (!atomic_load(&mix.stop)) {
        iwarp_loop_call(&mix.p.device->worker[0].loop, count_call, &calls);
        usleep((useconds_t)rand_r(&seed) % 1500);
    }
    atomic_store(&mix.calls, calls);
    return NULL;
}

/* Waits come back so soon that it may lead: verbs/progress.c. */
static void *mix_wait(void *arg)
{
    struct pair_side *s = &mix.p.side[0];
    struct iwarp_sge sge = pair_sge(s, 0, 64);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_READ, 1, &sge);
    struct iwarp_wc wc;

    (void)arg;
    wr.remote_stag = iwarp_mr_stag(mix.p.side[1].mr);
    wr.remote_to = (uint64_t)(uintptr_t)mix.p.side[1].p;
    while (!atomic_load(&mix.stop)) {
        bool good = iwarp_post_send(s->qp, &wr, NULL) == IWARP_OK &&
                    iwarp_cq_wait(s->send_cq, &wc, 1, PAIR_WAIT_MS) == 1;
        atomic_fetch_add(good ? &mix.waits : &mix.failed, 1);
    }
    return NULL;
}

static void poll__beside_calls_and_waits__leaves_nobody_behind(void **state)
{
    static void *(*const parts[])(void *) = {mix_poll, mix_call, mix_wait};
    pthread_t thread[3];

    (void)state;
    mix.p = pair_with(PAIR_TCP4, true, 1);
    for (int i = 0; i < OTHERS; i++) {
        mix.other[i] = pair_with(PAIR_TCP4, true, 1);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, parts[i], NULL), 0);
    }
    usleep(MIX_MS * 1000);
    atomic_store(&mix.stop, true);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    }
    print_message("# %u calls, %u waits, the loop taken %u times\n", mix.calls, mix.waits,
                  mix.takes);
    assert_int_equal(mix.failed, 0);
    assert_true(mix.calls > 0);
    assert_true(mix.waits > 0);
    pair_close(&mix.p);
    for (int i = 0; i < OTHERS; i++) {
        pair_close(&mix.other[i]);
    }
}

int main(void)
{
    /* Those in which nobody takes the loop come first: later, this thread would need more polls. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(poll__with_waits_between__never_takes_the_loop),
        cmocka_unit_test(poll__with_look_off__never_takes_the_loop),
        cmocka_unit_test(poll__with_sigsegv_blocked__never_takes_the_loop),
        cmocka_unit_test(poll__while_another_queue_is_armed__never_takes_the_loop),
        cmocka_unit_test(poll__without_end__moves_the_octets_itself),
        cmocka_unit_test(poll__that_stops__leaves_all_to_the_worker),
        cmocka_unit_test(poll__before_waiting__leaves_all_to_the_worker),
        cmocka_unit_test(poll__again_after_a_pause__takes_twice_as_long),
        cmocka_unit_test(poll__with_several_workers__takes_those_of_the_queue),
        cmocka_unit_test(poll__while_others_call__holds_nobody_up),
        cmocka_unit_test(poll__that_slows_down__leaves_the_loop),
        cmocka_unit_test(poll__once_another_thread_has_armed__leaves_the_loop),
        cmocka_unit_test(poll__beside_calls_and_waits__leaves_nobody_behind),
    };

    return cmocka_run_group_tests_name("busy", tests, NULL, NULL);
}
