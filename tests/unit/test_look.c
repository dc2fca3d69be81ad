/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether to look before sleeping: decided by what either way has moved, tried again and again, and
 * never without short waits. A made-up world tells what each wait brings; a loop without
 * connections shows how long is looked and slept; and on a real pair of connections both lose
 * nothing.
 */
#include "verbs_pair.h"

#include "loop/clock.h"
#include "loop/loop.h"
#include "verbs/device.h"
#include "verbs/worker.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WAIT_NS 20000

/* What a wait moves if it sleeps, and if it looks. */
struct world {
    struct iwarp_look look;
    uint64_t asleep, awake;
    unsigned looked, waits;
};

static void live(struct world *w, unsigned ms)
{
    w->looked = w->waits = 0;
    for (int64_t ns = 0; ns < ms * (int64_t)1000000; ns += WAIT_NS) {
        bool due = iwarp_look_due(&w->look);
        w->looked += due;
        w->waits++;
        iwarp_look_waited(&w->look, WAIT_NS, WAIT_NS, due ? w->awake : w->asleep);
    }
}

/* Of a second, the part in which it looked. */
static double part_looked(struct world *w)
{
    live(w, 1000);
    return w->looked / (double)w->waits;
}

static void look__when_it_moves_more__is_what_it_does(void **state)
{
    struct world w = {.asleep = 1000, .awake = 1100};

    (void)state;
    live(&w, 25); /* the first trial */
    assert_true(part_looked(&w) > 0.9);
    assert_true(part_looked(&w) < 1); /* and still it tries the other */
}

static void look__when_it_moves_less_or_the_same__is_only_tried(void **state)
{
    static const uint64_t awake[] = {0, 900, 1000, 1040};

    (void)state;
    for (size_t i = 0; i < sizeof awake / sizeof *awake; i++) {
        struct world w = {.asleep = 1000, .awake = awake[i]};
        live(&w, 25);
        double part = part_looked(&w);
        assert_true(part > 0);
        assert_true(part < 0.1);
    }
}

static void look__when_the_world_changes__changes_too(void **state)
{
    struct world w = {.asleep = 1000, .awake = 2000};

    (void)state;
    live(&w, 25);
    assert_true(part_looked(&w) > 0.9);
    w.awake = 500;
    live(&w, 2000);
    assert_true(part_looked(&w) < 0.1);
    w.awake = 2000;
    live(&w, 2000);
    assert_true(part_looked(&w) > 0.9);
    w.awake = 1000; /* a draw: as it was */
    live(&w, 3000);
    assert_true(part_looked(&w) > 0.9);
}

static void look__after_long_waits__is_not_due(void **state)
{
    struct world w = {.asleep = 1000, .awake = 2000};

    (void)state;
    assert_false(iwarp_look_due(&w.look));
    live(&w, 25); /* trial over */
    assert_true(iwarp_look_due(&w.look));
    for (unsigned i = 0; i < 20; i++) {
        iwarp_look_waited(&w.look, 200000, 200000, 1);
        assert_false(iwarp_look_due(&w.look));
    }
    for (unsigned i = 0; i < 7; i++) {
        iwarp_look_waited(&w.look, WAIT_NS, WAIT_NS, 1);
        assert_false(iwarp_look_due(&w.look));
    }
    iwarp_look_waited(&w.look, WAIT_NS, WAIT_NS, 1);
    assert_true(iwarp_look_due(&w.look));
}

/* Time in which nothing was to be done speaks for neither. */
static void look__with_idle_times_between__compares_the_rest(void **state)
{
    struct world w = {.asleep = 1000, .awake = 2000};

    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        live(&w, 1);
        iwarp_look_waited(&w.look, 3000000000, 3000000000, iwarp_look_due(&w.look) ? 0 : 1u << 30);
    }
    live(&w, 1);
    assert_true(part_looked(&w) > 0.9);
}

/* Somebody computes on the processor: no more of it, and for ever longer, until a trial succeeds.
 */
static void look__when_hindered__is_tried_ever_more_seldom(void **state)
{
    static const unsigned after_ms[] = {600, 1200, 2400, 4800, 9600, 9600};
    struct world w = {.asleep = 1000, .awake = 2000};

    (void)state;
    live(&w, 25);
    assert_true(iwarp_look_due(&w.look));
    for (size_t i = 0; i < sizeof after_ms / sizeof *after_ms; i++) {
        iwarp_look_hindered(&w.look);
        live(&w, after_ms[i] - 5);
        assert_int_equal(w.looked, 0);
        live(&w, 15); /* the next trial has begun, with a slice of sleeping */
        assert_true(w.looked > 0);
    }
    live(&w, 25);
    assert_true(part_looked(&w) > 0.9);
    iwarp_look_hindered(&w.look);
    live(&w, 595);
    assert_int_equal(w.looked, 0);
    live(&w, 15);
    assert_true(w.looked > 0);
}

/* A loop that has a timer, and counts its turns. */
struct lone {
    struct iwarp_loop l;
    uv_loop_t loop;
    uv_prepare_t turn;
    uv_timer_t timer;
    unsigned turns;
};

static void on_turn(uv_prepare_t *turn)
{
    ((struct lone *)turn->data)->turns++;
}

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
}

/* The trial has shown that looking pays. */
static void lone_open(struct lone *l, bool look, unsigned timer_ms)
{
    struct world world = {.asleep = 1000, .awake = 2000};

    live(&world, 21);
    assert_true(iwarp_look_due(&world.look));
    memset(l, 0, sizeof *l);
    l->l.options.look = look;
    l->l.uv = &l->loop;
    l->l.look = world.look;
    assert_int_equal(uv_loop_init(&l->loop), 0);
    uv_prepare_init(&l->loop, &l->turn);
    l->turn.data = l;
    uv_prepare_start(&l->turn, on_turn);
    uv_timer_init(&l->loop, &l->timer);
    /* Again and again: one that is late runs before the loop sleeps, which then had no end. */
    uv_timer_start(&l->timer, on_timer, timer_ms, timer_ms);
}

static void lone_close(struct lone *l)
{
    uv_close((uv_handle_t *)&l->turn, NULL);
    uv_close((uv_handle_t *)&l->timer, NULL);
    uv_run(&l->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&l->loop), 0);
}

static double seconds(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static void await__that_finds_nothing__looks_for_a_while_and_sleeps(void **state)
{
    (void)state;
    for (int look = 0; look < 2; look++) {
        struct lone l;
        double began = seconds(CLOCK_MONOTONIC); /* before the timer's 30 ms begin */
        lone_open(&l, look == 1, 30);
        double busy = -seconds(CLOCK_THREAD_CPUTIME_ID);
        assert_true(iwarp_loop_await(&l.l, NULL, never, NULL));
        busy += seconds(CLOCK_THREAD_CPUTIME_ID);
        assert_true(seconds(CLOCK_MONOTONIC) - began > 0.025);
        assert_true(busy < 0.01);
        assert_int_equal(l.turns > 1, look == 1);
        assert_false(iwarp_look_due(&l.l.look)); /* it was a long wait */
        lone_close(&l);
    }
}

static void on_find(uv_timer_t *timer)
{
    ((struct iwarp_loop *)timer->data)->found++;
}

static bool is_set(void *flag)
{
    return *(bool *)flag;
}

static void on_over(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

static void await__that_looks_and_finds__does_not_sleep(void **state)
{
    bool over = false;
    struct lone l;

    (void)state;
    for (int found = 0; found < 2; found++) {
        lone_open(&l, true, 3000);
        uv_timer_t soon;
        uv_timer_init(&l.loop, &soon);
        soon.data = found ? (void *)&l.l : &over;
        uv_timer_start(&soon, found ? on_find : on_over, 0, 0);
        over = false;
        double began = seconds(CLOCK_MONOTONIC);
        assert_true(iwarp_loop_await(&l.l, NULL, is_set, &over));
        assert_true(seconds(CLOCK_MONOTONIC) - began < 2);
        assert_int_equal(l.turns, 1);
        uv_close((uv_handle_t *)&soon, NULL);
        lone_close(&l);
    }
}

static bool is_ready(void *beside)
{
    return ((struct iwarp_beside *)beside)->ready != 0;
}

/* Whether the descriptor is ready before, or becomes so while the thread sleeps or looks. */
static void await__with_a_descriptor_beside__runs_the_loop_and_ends_with_it(void **state)
{
    int ends[2];
    char octet = 1;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    for (int look = 0; look < 2; look++) {
        struct lone l;
        struct pollfd fds[2] = {{.fd = ends[0], .events = POLLIN}};
        struct iwarp_beside beside = {fds, 1, INT64_MAX, 0};
        lone_open(&l, look == 1, 3000);
        double began = seconds(CLOCK_MONOTONIC);
        assert_int_equal(write(ends[1], &octet, 1), 1);
        while (!is_ready(&beside)) {
            assert_true(iwarp_loop_await(&l.l, &beside, is_ready, &beside));
        }
        assert_true(seconds(CLOCK_MONOTONIC) - began < 2);
        assert_true(l.turns > 0);
        assert_int_equal(beside.ready, 1);
        assert_int_equal(fds[0].revents, POLLIN);
        assert_int_equal(read(ends[0], &octet, 1), 1);
        lone_close(&l);
    }
    close(ends[0]);
    close(ends[1]);
}

static void await__with_a_time_beside__ends_with_it(void **state)
{
    (void)state;
    for (int look = 0; look < 2; look++) {
        struct lone l;
        struct pollfd none;
        struct iwarp_beside beside = {&none, 0, iwarp_now_ns() + 30000000, 0};
        lone_open(&l, look == 1, 3000);
        while (iwarp_now_ns() < beside.until_ns) {
            assert_true(iwarp_loop_await(&l.l, &beside, is_ready, &beside));
        }
        assert_true(iwarp_now_ns() < beside.until_ns + 2000000000);
        assert_int_equal(beside.ready, 0);
        lone_close(&l);
    }
}

static void await__with_something_in_the_loop__does_not_sleep_beside_it(void **state)
{
    struct lone l;
    struct pollfd none;
    struct iwarp_beside beside = {&none, 0, INT64_MAX, 0};

    (void)state;
    lone_open(&l, false, 3000);
    uv_timer_t soon;
    uv_timer_init(&l.loop, &soon);
    soon.data = &l.l;
    uv_timer_start(&soon, on_find, 0, 0);
    double began = seconds(CLOCK_MONOTONIC);
    assert_true(iwarp_loop_await(&l.l, &beside, never, NULL));
    assert_true(seconds(CLOCK_MONOTONIC) - began < 2);
    uv_close((uv_handle_t *)&soon, NULL);
    lone_close(&l);
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

/* Many threads count what they send, without a lock: one that was interrupted sets the others back.
 */
static void await__when_the_count_of_what_was_sent_goes_back__counts_nothing(void **state)
{
    uv_idle_t idle; /* nothing to wait for */
    struct lone l;

    (void)state;
    lone_open(&l, true, 3000);
    memset(&l.l.look, 0, sizeof l.l.look);
    uv_idle_init(&l.loop, &idle);
    uv_idle_start(&idle, on_idle);
    atomic_store(&l.l.sent, 1000000);
    assert_true(iwarp_loop_await(&l.l, NULL, never, NULL));
    while (l.l.look.ns[0] == 0) { /* idle times do not count */
        atomic_fetch_sub(&l.l.sent, 1);
        assert_true(iwarp_loop_await(&l.l, NULL, never, NULL));
    }
    assert_int_equal(l.l.look.octets[0], 0);
    uv_close((uv_handle_t *)&idle, NULL);
    lone_close(&l);
}

/* On the worker, whose it is. */
static void print_look(void *worker)
{
    const struct iwarp_look *l = &((struct iwarp_worker *)worker)->loop.look;

    print_message("# waits in a row that were short: %d; looking %s\n", l->shorts,
                  l->pays ? "pays" : "does not pay");
}

static void await__in_either_way__loses_nothing(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        pair_options_init(&o, PAIR_TCP4);
        o.device.progress = IWARP_PROGRESS_THREADED;
        o.device.workers = 2; /* nobody leads */
        o.device.look = round == 1;
        pair_open(&p, &o);
        for (unsigned i = 0; i < 3000; i++) {
            pair_recv(&p.side[i % 2], i, 0, 100);
            pair_send(&p.side[1 - i % 2], i, 0, 100);
            pair_wc(p.side[i % 2].recv_cq, i, IWARP_WC_SUCCESS);
            pair_wc(p.side[1 - i % 2].send_cq, i, IWARP_WC_SUCCESS);
            if (i % 500 == 0) {
                usleep(20000);
            }
        }
        iwarp_loop_call(&p.device->worker[0].loop, print_look, &p.device->worker[0]);
        pair_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(look__when_it_moves_more__is_what_it_does),
        cmocka_unit_test(look__when_it_moves_less_or_the_same__is_only_tried),
        cmocka_unit_test(look__when_the_world_changes__changes_too),
        cmocka_unit_test(look__after_long_waits__is_not_due),
        cmocka_unit_test(look__when_hindered__is_tried_ever_more_seldom),
        cmocka_unit_test(look__with_idle_times_between__compares_the_rest),
        cmocka_unit_test(await__that_finds_nothing__looks_for_a_while_and_sleeps),
        cmocka_unit_test(await__that_looks_and_finds__does_not_sleep),
        cmocka_unit_test(await__with_a_descriptor_beside__runs_the_loop_and_ends_with_it),
        cmocka_unit_test(await__with_a_time_beside__ends_with_it),
        cmocka_unit_test(await__with_something_in_the_loop__does_not_sleep_beside_it),
        cmocka_unit_test(await__when_the_count_of_what_was_sent_goes_back__counts_nothing),
        cmocka_unit_test(await__in_either_way__loses_nothing),
    };

    return cmocka_run_group_tests_name("look", tests, NULL, NULL);
}
