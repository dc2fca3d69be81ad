/* SPDX-License-Identifier: BSD-2-Clause */
/* Has a thread earned to run a loop itself?  The policy, by sequences of what the thread does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loop/habit.h"

#include <stdio.h>

enum what { QUICK, SLOW, SLIP, END, PAUSE, LOST };

struct step {
    enum what what;
    unsigned times;
    bool earned; /* after the last of them */
};

#define STEPS 12

static const struct {
    const char *name;
    struct step step[STEPS];
} sequences[] = {
    {"16 quick units in a row earn it",
     {{QUICK, 15, false}, {QUICK, 1, true}, {QUICK, 9999, true}}},
    {"a slow one halves what was shown",
     {{QUICK, 15, false}, {SLOW, 1, false}, {QUICK, 8, false}, {QUICK, 1, true}}},
    {"every other slow: never",
     {{SLOW, 1, false}, {QUICK, 1, false}, {SLOW, 1, false}, {QUICK, 1, false}}},
    {"four slow ones in a row end it",
     {{QUICK, 16, true}, {SLOW, 3, true}, {QUICK, 1, true}, {SLOW, 3, true}, {SLOW, 1, false}}},
    {"a slip halves what was shown",
     {{QUICK, 16, true}, {SLIP, 1, false}, {QUICK, 7, false}, {QUICK, 1, true}}},
    {"an end costs nothing",
     {{QUICK, 16, true}, {END, 1, false}, {QUICK, 15, false}, {QUICK, 1, true}}},
    {"a pause without the lease costs what was shown",
     {{QUICK, 15, false}, {PAUSE, 1, false}, {QUICK, 15, false}, {QUICK, 1, true}}},
    {"a short lease costs 64 units, then 128",
     {{QUICK, 16, true},
      {PAUSE, 1, false},
      {QUICK, 64 + 15, false},
      {QUICK, 1, true},
      {PAUSE, 1, false},
      {QUICK, 128 + 15, false},
      {QUICK, 1, true}}},
    {"slow units do not count for what is owed",
     {{QUICK, 16, true},
      {PAUSE, 1, false},
      {SLOW, 500, false},
      {QUICK, 64 + 15, false},
      {QUICK, 1, true}}},
    {"a pause after 1024 units costs nothing",
     {{QUICK, 16 + 1024, true}, {PAUSE, 1, false}, {QUICK, 15, false}, {QUICK, 1, true}}},
    {"a lease that is lost costs, however long it was",
     {{QUICK, 16 + 1024, true}, {LOST, 1, false}, {QUICK, 64 + 15, false}, {QUICK, 1, true}}},
    {"1024 good units halve the penalty",
     {{QUICK, 16, true},
      {LOST, 1, false}, /* 64 */
      {QUICK, 64 + 16, true},
      {LOST, 1, false}, /* 128 */
      {QUICK, 128 + 16, true},
      {QUICK, 1024, true}, /* 256 is 128 again */
      {LOST, 1, false},
      {QUICK, 128 + 15, false},
      {QUICK, 1, true}}},
    {"good units count on behind an end",
     {{QUICK, 16, true},
      {LOST, 1, false},
      {QUICK, 64 + 16 + 512, true},
      {END, 1, false},
      {QUICK, 16 + 512, true},
      {LOST, 1, false},
      {QUICK, 64 + 15, false},
      {QUICK, 1, true}}},
};

static void apply(struct iwarp_habit *h, enum what what)
{
    bool earned;

    switch (what) {
    case QUICK:
    case SLOW:
        earned = iwarp_habit_unit(h, what == QUICK);
        assert_int_equal(earned, h->earned);
        break;
    case SLIP:
        iwarp_habit_slip(h);
        break;
    case END:
        iwarp_habit_end(h);
        break;
    case PAUSE:
        iwarp_habit_pause(h);
        break;
    case LOST:
        iwarp_habit_lost(h);
        break;
    }
}

static void habit__by_its_sequences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++) {
        struct iwarp_habit h = {0};
        for (size_t j = 0; j < STEPS && sequences[i].step[j].times > 0; j++) {
            const struct step *s = &sequences[i].step[j];
            for (unsigned n = 0; n < s->times; n++) {
                apply(&h, s->what);
            }
            if (h.earned != s->earned) {
                print_message("# \"%s\", step %zu: %s\n", sequences[i].name, j,
                              h.earned ? "earned" : "not earned");
            }
            assert_int_equal(h.earned, s->earned);
        }
    }
}

/* However often it is lost: it can be earned again, and the count does not overflow. */
static void penalty__has_a_bound(void **state)
{
    struct iwarp_habit h = {0};

    (void)state;
    for (int i = 0; i < 100; i++) {
        iwarp_habit_lost(&h);
    }
    unsigned units = 0;
    while (!iwarp_habit_unit(&h, true)) {
        units++;
    }
    assert_int_equal(units, 65536 + 15);
    for (int i = 0; i < 1024 * 20; i++) {
        assert_true(iwarp_habit_unit(&h, true));
    }
    iwarp_habit_lost(&h);
    for (units = 0; !iwarp_habit_unit(&h, true); units++) {
    }
    assert_int_equal(units, 64 + 15); /* and goes back to the least */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(habit__by_its_sequences),
        cmocka_unit_test(penalty__has_a_bound),
    };

    return cmocka_run_group_tests_name("habit", tests, NULL, NULL);
}
