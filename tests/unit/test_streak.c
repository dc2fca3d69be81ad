/* SPDX-License-Identifier: BSD-2-Clause */
/* Which requests wait for the next one?  The policy, by sequences of posts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "verbs/streak.h"

#include <string.h>

#define FIRST 4u   /* posts at once in a row until one waits, at first */
#define BATCH 64u  /* requests that wait at most, the one that goes out with them counted */
#define WORTH 4u   /* so many that wait are worth it */
#define PAID  256u /* batches of a known program until the price is halved */
#define SLOW  1500 /* a pause, and one that is too long for requests that wait */
#define AWAY  20000

/* A program with a clock; what waits is as the policy says. */
struct program {
    struct iwarp_streak streak;
    int64_t now;
    unsigned caught_up, late;
    unsigned waiting;
    int64_t sent; /* when those that waited went out */
};

static void send_waiting(struct program *p)
{
    p->sent = p->waiting > 0 ? p->now : p->sent;
    p->waiting = 0;
}

/* Post n requests so many nanoseconds after the last one.  True: they wait. */
static bool post_chain(struct program *p, int64_t after, uint32_t n, uint32_t octets, bool has_room)
{
    p->now += after;
    if (!iwarp_streak_goes_on(&p->streak, p->caught_up)) {
        send_waiting(p);
        return false;
    }
    iwarp_streak_learn(&p->streak, p->late);
    bool waits =
        iwarp_streak_waits(&p->streak, p->now, n, octets, p->waiting > 0, has_room, p->sent);
    p->waiting++;
    if (!waits) {
        send_waiting(p);
        iwarp_streak_posted(&p->streak, p->now);
    }
    return waits;
}

static bool post_of(struct program *p, int64_t after, uint32_t octets, bool has_room)
{
    return post_chain(p, after, 1, octets, has_room);
}

static bool post(struct program *p, int64_t after)
{
    return post_of(p, after, 64, true);
}

static void catch_up(struct program *p)
{
    p->caught_up++;
    send_waiting(p);
}

/* Posts until one waits, that one counted. */
static unsigned posts_until_one_waits(struct program *p)
{
    for (unsigned n = 1; n < 1000000; n++) {
        if (post(p, 100)) {
            return n;
        }
    }
    return 0;
}

static void have_streaks(struct program *p, unsigned rows)
{
    for (unsigned i = 0; i < rows; i++) {
        catch_up(p);
        for (unsigned k = 0; k < 40; k++) {
            (void)post(p, 100);
        }
    }
    catch_up(p);
}

/* Streaks until the first post after catching up waits, if it comes soon. */
static void become_known(struct program *p)
{
    have_streaks(p, 100);
    for (unsigned k = 0; k < 10; k++) {
        assert_true(post(p, k == 0 ? 10000 : 100));
    }
    catch_up(p);
}

static void post__in_a_row_without_a_pause__waits_from_the_fifth_on(void **state)
{
    struct program p = {0};

    (void)state;
    assert_int_equal(posts_until_one_waits(&p), FIRST + 1);
}

/* But for the very first, behind which a streak was to be expected. */
static void post__after_each_of_which_the_program_catches_up__never_waits(void **state)
{
    struct program p = {0};

    (void)state;
    become_known(&p);
    assert_true(post(&p, 100));
    for (unsigned i = 0; i < 1000; i++) {
        catch_up(&p);
        assert_false(post(&p, 100));
    }
}

static void post__with_pauses_between__never_waits(void **state)
{
    struct program p = {0};

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        assert_false(post(&p, SLOW));
    }
}

static void post__in_streaks__waits_from_the_first_on_in_the_end(void **state)
{
    struct program p = {0};

    (void)state;
    have_streaks(&p, 11);
    assert_false(post(&p, 100)); /* after catching up */
    assert_false(post(&p, 100)); /* the clock is read */
    assert_true(post(&p, 100));
    become_known(&p);
}

/* What shows that streaks are over: a long pause, a late request, a row that is too short. */
static void post__of_a_known_program_whose_streaks_end__goes_out(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct program p = {0};
        become_known(&p);
        for (unsigned k = 0; k < (i == 2 ? 3 : 10); k++) {
            assert_true(post(&p, 100));
        }
        if (i == 0) {
            assert_false(post(&p, AWAY));
        }
        p.late += i == 1;
        catch_up(&p);
        assert_false(post(&p, 100));
    }
}

static void post__behind_a_batch__goes_out(void **state)
{
    struct program p = {0};

    (void)state;
    (void)posts_until_one_waits(&p);
    for (unsigned i = 2; i < BATCH; i++) {
        assert_true(post(&p, 1));
    }
    assert_false(post(&p, 1));
    assert_true(post(&p, 1));
}

static void post__of_much__goes_out_with_what_waited(void **state)
{
    struct program p = {0};

    (void)state;
    (void)posts_until_one_waits(&p);
    for (unsigned i = 0; i < 14; i++) { /* 1 MiB, counting what would follow */
        assert_true(post_of(&p, 1, 64 * 1024, true));
    }
    assert_false(post_of(&p, 1, 64 * 1024, true));
    assert_false(post_of(&p, 1, 512 * 1024 + 1, true)); /* large enough alone */
    assert_true(post_of(&p, 1, 512 * 1024, true));
}

static void post__into_a_ring_that_is_half_full__goes_out(void **state)
{
    struct program p = {0};

    (void)state;
    (void)posts_until_one_waits(&p);
    assert_false(post_of(&p, 1, 64, false));
}

static void expect_no_pause_until(int64_t ns, uint32_t n, uint32_t octets)
{
    struct program p = {0};

    for (unsigned i = 0; i < FIRST; i++) {
        assert_false(post_chain(&p, ns - 1, n, octets, true));
    }
    assert_true(post_chain(&p, ns - 1, n, octets, true));
    assert_false(post_chain(&p, ns, n, octets, true));
}

/* A program fills in 128 requests before it posts them, and 8 KiB of payload: 2.56 and 2.05 us more
 * are no pause. Of longer payload 16 KiB count. */
static void post__of_many_requests_or_octets__may_come_later_and_waits(void **state)
{
    (void)state;
    expect_no_pause_until(1000 + 20, 1, 3);
    expect_no_pause_until(1000 + 128 * 20, 128, 0);
    expect_no_pause_until(1000 + 20 + 2048, 1, 8192);
    expect_no_pause_until(1000 + 20 + 4096, 1, 16384);
    expect_no_pause_until(1000 + 20 + 4096, 1, 400000);
}

static void post__behind_one_that_has_waited_20_us__goes_out(void **state)
{
    struct program p = {0};
    unsigned posts = 0;

    (void)state;
    (void)posts_until_one_waits(&p);
    while (post(&p, 900)) {
        posts++;
    }
    assert_in_range(posts, 10, 22);
}

static void post__after_a_pause_while_one_waits__goes_out_and_costs_a_longer_row(void **state)
{
    struct program p = {0};

    (void)state;
    (void)posts_until_one_waits(&p);
    assert_false(post(&p, SLOW));
    catch_up(&p);
    assert_int_equal(posts_until_one_waits(&p), 2 * FIRST + 2);
}

/* What has waited has saved more than it was late. */
static void post__after_a_short_pause_while_four_wait__goes_out_and_costs_nothing(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) { /* as it should be; the pause is long; fewer wait */
        struct program p = {0};
        (void)posts_until_one_waits(&p);
        for (unsigned k = 1; k < WORTH - (i == 2); k++) {
            assert_true(post(&p, 100));
        }
        assert_false(post(&p, i == 1 ? AWAY : AWAY - 1));
        assert_int_equal(posts_until_one_waits(&p), i == 0 ? FIRST : 2 * FIRST);
    }
}

/* How many wait of 1,000 rows: the first post of each comes after `away`, the others after `gap`.
 */
static unsigned wait_in_rows_of(unsigned posts, int64_t away, int64_t gap, uint32_t octets)
{
    struct program p = {0};
    unsigned waited = 0;

    for (unsigned i = 0; i < 1000; i++) {
        for (unsigned k = 0; k < posts; k++) {
            waited += post_of(&p, k == 0 ? away : gap, octets, true);
        }
    }
    return waited;
}

/* As UCX does, which takes completions now and then, and finds some each time. */
static void post__in_rows_with_short_pauses__mostly_waits(void **state)
{
    (void)state;
    assert_in_range(wait_in_rows_of(8, 8000, 1900, 8192), 6 * 1000, 8 * 1000);
}

/* Eight, and then it does something else for long, each time before a tick comes. */
static void post__in_rows_of_8_with_long_pauses__hardly_ever_waits(void **state)
{
    (void)state;
    assert_in_range(wait_in_rows_of(8, 100000, 300, 64), 1, 20);
}

static void post__in_long_rows_with_many_pauses__goes_on_to_wait(void **state)
{
    struct program p = {0};

    (void)state;
    (void)posts_until_one_waits(&p);
    for (unsigned i = 0; i < 30; i++) { /* each before there was a batch that was worth it */
        assert_false(post(&p, SLOW));
        assert_in_range(posts_until_one_waits(&p), 1, BATCH + 2);
    }
}

/* As a slow machine has it: 38 posts, then a pause of which the program knows nothing. */
static void post__in_rows_of_38__mostly_waits(void **state)
{
    (void)state;
    assert_in_range(wait_in_rows_of(38, SLOW, 300, 64), 18 * 1000, 38 * 1000);
}

static void post__of_a_program_that_stays_away_time_after_time__hardly_ever_waits(void **state)
{
    struct program p = {0};
    unsigned waited = 0;

    (void)state;
    for (unsigned i = 0; i < 10000; i++) { /* ten in a row, then nothing for long */
        for (unsigned k = 0; k < 10; k++) {
            if (post(&p, k == 0 ? 1000000 : 100)) {
                waited++;
            }
        }
        if (p.waiting > 0) {
            p.late++;
            p.waiting = 0;
        }
    }
    assert_in_range(waited, 1, 10);
}

/* As a program does that puts much and then a flag, for which it looks at no queue. */
static void post__alone_behind_streaks_time_after_time__hardly_ever_waits(void **state)
{
    static const unsigned rows[] = {16, 24, 40, 48, 100};

    (void)state;
    for (unsigned k = 0; k < sizeof rows / sizeof *rows; k++) {
        struct program p = {0};
        unsigned waited = 0;
        for (unsigned i = 0; i < 400; i++) {
            have_streaks(&p, rows[k]);
            if (post(&p, 5000)) {
                waited++;
                p.late++;
                p.waiting = 0;
            }
        }
        assert_in_range(waited, 1, 8);
    }
}

/* A first post waits, and the program does not look. */
static void be_late(struct program *p)
{
    assert_true(post(p, 5000));
    p->late++;
    p->waiting = 0;
}

/* Rows until the first post waits. */
static unsigned rows_until_known(struct program *p)
{
    unsigned rows = 0;

    do {
        have_streaks(p, 1);
        assert_in_range(++rows, 1, 1000);
    } while (!p->streak.known);
    return rows;
}

static void post__that_was_late__costs_less_again_after_many_that_were_not(void **state)
{
    struct program p = {0};

    (void)state;
    become_known(&p);
    be_late(&p);
    assert_in_range(rows_until_known(&p), 16, 30);
    have_streaks(&p, PAID - 2);
    be_late(&p);
    assert_in_range(rows_until_known(&p), 64, 80);
    have_streaks(&p, 4 * PAID);
    be_late(&p);
    assert_in_range(rows_until_known(&p), 16, 30);
}

static void post__that_waited_alone__costs_more_only_if_it_did_so_for_long(void **state)
{
    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        struct program p = {0};
        become_known(&p);
        assert_true(post(&p, 5000));
        p.now += AWAY - 1 + late;
        catch_up(&p);
        assert_false(post(&p, AWAY)); /* it is known no more */
        assert_in_range(rows_until_known(&p), late ? 16 : 4, late ? 18 : 6);
    }
}

static void post__of_a_known_program_after_a_pause__goes_out(void **state)
{
    struct program p = {0};

    (void)state;
    become_known(&p);
    assert_false(post(&p, 60000));
}

/* As fio does with 16 requests in flight: it posts them all, and then takes all completions. */
static unsigned wait_in_rows_of_16(struct program *p, unsigned rows, int64_t away)
{
    unsigned waited = 0;

    for (unsigned i = 0; i < rows; i++) {
        p->now += away;
        catch_up(p);
        for (unsigned k = 0; k < 16; k++) {
            waited += post(p, 100);
        }
    }
    return waited;
}

static void pause_twice(struct program *p)
{
    for (unsigned i = 0; i < 2; i++) {
        (void)posts_until_one_waits(p);
        assert_false(post(p, SLOW));
    }
}

static void post__in_rows_of_16_after_pauses_while_one_waited__waits_again_if_it_is_soon_back(
    void **state)
{
    struct program p = {0};

    (void)state;
    pause_twice(&p);
    assert_int_equal(wait_in_rows_of_16(&p, 15, 5000), 0);
    assert_in_range(wait_in_rows_of_16(&p, 16, 5000), 16, 256);
}

static void post__in_rows_of_16_after_pauses_while_one_waited__never_waits_if_it_stays_away(
    void **state)
{
    struct program p = {0};

    (void)state;
    pause_twice(&p);
    assert_int_equal(wait_in_rows_of_16(&p, 1000, 200000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(post__in_a_row_without_a_pause__waits_from_the_fifth_on),
        cmocka_unit_test(post__after_each_of_which_the_program_catches_up__never_waits),
        cmocka_unit_test(post__with_pauses_between__never_waits),
        cmocka_unit_test(post__in_streaks__waits_from_the_first_on_in_the_end),
        cmocka_unit_test(post__of_a_known_program_whose_streaks_end__goes_out),
        cmocka_unit_test(post__behind_a_batch__goes_out),
        cmocka_unit_test(post__of_much__goes_out_with_what_waited),
        cmocka_unit_test(post__into_a_ring_that_is_half_full__goes_out),
        cmocka_unit_test(post__of_many_requests_or_octets__may_come_later_and_waits),
        cmocka_unit_test(post__behind_one_that_has_waited_20_us__goes_out),
        cmocka_unit_test(post__after_a_pause_while_one_waits__goes_out_and_costs_a_longer_row),
        cmocka_unit_test(
            post__in_rows_of_16_after_pauses_while_one_waited__waits_again_if_it_is_soon_back),
        cmocka_unit_test(
            post__in_rows_of_16_after_pauses_while_one_waited__never_waits_if_it_stays_away),
        cmocka_unit_test(post__alone_behind_streaks_time_after_time__hardly_ever_waits),
        cmocka_unit_test(post__that_was_late__costs_less_again_after_many_that_were_not),
        cmocka_unit_test(post__that_waited_alone__costs_more_only_if_it_did_so_for_long),
        cmocka_unit_test(post__of_a_known_program_after_a_pause__goes_out),
        cmocka_unit_test(post__after_a_short_pause_while_four_wait__goes_out_and_costs_nothing),
        cmocka_unit_test(post__in_rows_with_short_pauses__mostly_waits),
        cmocka_unit_test(post__in_rows_of_8_with_long_pauses__hardly_ever_waits),
        cmocka_unit_test(post__in_long_rows_with_many_pauses__goes_on_to_wait),
        cmocka_unit_test(post__in_rows_of_38__mostly_waits),
        cmocka_unit_test(post__of_a_program_that_stays_away_time_after_time__hardly_ever_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
