/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether to look before sleeping: decided by what either way has moved, tried again and again, and
 * never without short waits. A made-up world tells what each wait brings; and on a real pair of
 * connections looking and sleeping lose nothing.
 */
#include "verbs_pair.h"

#include "verbs/verbs.h"

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
    live(&w, 20); /* the first trial */
    assert_true(part_looked(&w) > 0.9);
    assert_true(part_looked(&w) < 1); /* and still it tries the other */
}

static void look__when_it_moves_less_or_the_same__is_only_tried(void **state)
{
    static const uint64_t awake[] = {0, 900, 1000, 1040};

    (void)state;
    for (size_t i = 0; i < sizeof awake / sizeof *awake; i++) {
        struct world w = {.asleep = 1000, .awake = awake[i]};
        live(&w, 20);
        double part = part_looked(&w);
        assert_true(part > 0);
        assert_true(part < 0.1);
    }
}

static void look__when_the_world_changes__changes_too(void **state)
{
    struct world w = {.asleep = 1000, .awake = 2000};

    (void)state;
    live(&w, 20);
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
    live(&w, 21); /* trial over */
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
        print_message("# waits in a row that were short: %d; looking %s\n",
                      p.device->worker[0].look.shorts,
                      p.device->worker[0].look.pays ? "pays" : "does not pay");
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
        cmocka_unit_test(look__with_idle_times_between__compares_the_rest),
        cmocka_unit_test(await__in_either_way__loses_nothing),
    };

    return cmocka_run_group_tests_name("look", tests, NULL, NULL);
}
