/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs/inject: what IWARP_FAULTS may say and what it may not, numbers that are drawn, which
 * connections and which registration are meant.
 */
#include "verbs/inject.h"

#include "base/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <iwarp/device.h>

static void is(const struct iwarp_inject_plan *plan, enum iwarp_inject_word word, uint64_t least,
               uint64_t most)
{
    assert_true(plan->range[word].given);
    assert_int_equal(plan->range[word].least, least);
    assert_int_equal(plan->range[word].most, most);
}

static void words__each_of_them__are_understood(void **state)
{
    struct iwarp_inject_plan plan;

    (void)state;
    assert_int_equal(
        iwarp_inject_parse("lose-octet=1,lose-fpdu=2-30,crc=4,split=1-1460,delay=0-20,late=5-9,"
                           "register=7,only=2,seed=99",
                           &plan),
        IWARP_OK);
    is(&plan, INJECT_LOSE_OCTET, 1, 1);
    is(&plan, INJECT_LOSE_FPDU, 2, 30);
    is(&plan, INJECT_CRC, 4, 4);
    is(&plan, INJECT_SPLIT, 1, 1460);
    is(&plan, INJECT_DELAY, 0, 20);
    is(&plan, INJECT_LATE, 5, 9);
    is(&plan, INJECT_REGISTER, 7, 7);
    is(&plan, INJECT_ONLY, 2, 2);
    is(&plan, INJECT_SEED, 99, 99);
    assert_int_equal(iwarp_inject_parse("crc=9223372036854775807", &plan), IWARP_OK);
    is(&plan, INJECT_CRC, INT64_MAX, INT64_MAX);
    assert_false(plan.range[INJECT_SPLIT].given);
}

static void words__that_cannot_be__are_refused_with_a_sentence(void **state)
{
    static const struct {
        const char *text, *part;
    } bad[] = {{"", "\"\" is none of lose-octet,"},
               {"crc=3,", "\"\" is none of"},
               {"lose=3", "\"lose\" is none of"},
               {"cr=3", "\"cr\" is none of"},
               {"crcs=3", "\"crcs\" is none of"},
               {"crc", "\"crc\", expected crc=N or N-M with numbers from 1 to"},
               {"crc=", "\"crc=\", expected crc=N"},
               {"crc=x", "\"crc=x\", expected"},
               {"crc=0", "\"crc=0\", expected"},
               {"crc=-1", "\"crc=-1\", expected"},
               {"crc=+1", "\"crc=+1\", expected"},
               {"crc= 1", "\"crc= 1\", expected"},
               {"crc=1 ", "\"crc=1 \", expected"},
               {"crc=1-", "\"crc=1-\", expected"},
               {"crc=5-4", "\"crc=5-4\", expected"},
               {"crc=1-2-3", "\"crc=1-2-3\", expected"},
               {"crc=9223372036854775808", "expected crc=N"},
               {"crc=99999999999999999999", "expected crc=N"},
               {"delay=1001", "expected delay=N or N-M with numbers from 0 to 1000"},
               {"late=0", "expected late=N or N-M with numbers from 1 to 10000"},
               {"crc=1,seed=1-2", "\"seed=1-2\", expected seed=N with numbers from 0 to"},
               {"crc=1,crc=2", "crc is there twice"},
               {"only=1,seed=4", "only and seed alone ask for no fault"}};
    struct iwarp_inject_plan plan;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(iwarp_inject_parse(bad[i].text, &plan), IWARP_MISUSE);
        assert_memory_equal(iwarp_last_error(), "IWARP_FAULTS: ", 14);
        if (!strstr(iwarp_last_error(), bad[i].part)) {
            fail_msg("\"%s\" is not in \"%s\"", bad[i].part, iwarp_last_error());
        }
    }
}

static void draw__of_a_range__is_each_of_it_and_the_same_again(void **state)
{
    const struct iwarp_inject_range range = {true, 10, 17}, one = {true, 5, 5}, none = {0};
    uint64_t a = 42, b = 42;
    unsigned seen[8] = {0};

    (void)state;
    for (unsigned i = 0; i < 4000; i++) {
        uint64_t n = iwarp_inject_draw(&a, &range);
        assert_in_range(n, 10, 17);
        assert_int_equal(n, iwarp_inject_draw(&b, &range));
        seen[n - 10]++;
    }
    for (unsigned i = 0; i < 8; i++) {
        assert_in_range(seen[i], 300, 700);
    }
    assert_int_equal(iwarp_inject_draw(&a, &one), 5);
    assert_int_equal(iwarp_inject_draw(&a, &none), 0);
}

static struct iwarp_injector *injector(const char *text)
{
    struct iwarp_injector *i;

    setenv("IWARP_FAULTS", text, 1);
    assert_int_equal(iwarp_injector_open(&i), IWARP_OK);
    unsetenv("IWARP_FAULTS");
    return i;
}

static void injector__without_a_wish__is_none(void **state)
{
    struct iwarp_injector *i;

    (void)state;
    assert_null(injector(""));
    assert_int_equal(iwarp_injector_open(&i), IWARP_OK);
    assert_null(i);
}

static void connections__in_order__are_those_that_are_meant(void **state)
{
    struct iwarp_injector *i = injector("crc=1-1000000,only=2-3,seed=5");
    struct iwarp_injector *again = injector("crc=1-1000000,seed=5");
    struct iwarp_injector *other = injector("crc=1-1000000,seed=6");

    (void)state;
    for (uint64_t number = 1; number < 5; number++) {
        struct iwarp_inject *j, *same, *different;
        assert_int_equal(iwarp_inject_open(i, &j), IWARP_OK);
        assert_int_equal(iwarp_inject_open(again, &same), IWARP_OK);
        assert_int_equal(iwarp_inject_open(other, &different), IWARP_OK);
        assert_int_equal(j != NULL, number == 2 || number == 3);
        if (j) {
            assert_int_equal(j->number, number);
            assert_int_equal(j->crc, same->crc);
            assert_int_not_equal(j->crc, different->crc);
            assert_int_equal(j->lose_fpdu, 0);
        }
        free(j);
        free(same);
        free(different);
    }
    free(i);
    free(again);
    free(other);
}

static void registration__of_that_number__alone_fails(void **state)
{
    struct iwarp_injector *i = injector("register=3");

    (void)state;
    for (unsigned n = 1; n < 6; n++) {
        assert_int_equal(iwarp_inject_registration(i), n == 3 ? IWARP_NO_MEMORY : IWARP_OK);
    }
    assert_string_equal(iwarp_last_error(), "registration 3 fails, as IWARP_FAULTS asks");
    free(i);
}

/* Counted from the device on: some call of the first few, and none after it, finds no memory. */
static void allocation__of_that_number__alone_fails(void **state)
{
    struct iwarp_device *device;
    struct iwarp_pd *pd;
    unsigned refused = 0;

    (void)state;
    setenv("IWARP_FAULTS", "alloc=12", 1);
    enum iwarp_status status = iwarp_device_open(NULL, &device);
    unsetenv("IWARP_FAULTS");
    assert_int_equal(status, IWARP_OK);
    for (unsigned i = 0; i < 30; i++) {
        status = iwarp_pd_create(device, &pd);
        assert_true(status == IWARP_OK || status == IWARP_NO_MEMORY);
        refused += status != IWARP_OK;
        if (status == IWARP_OK) {
            assert_int_equal(iwarp_pd_destroy(pd), IWARP_OK);
        }
    }
    assert_int_equal(refused, 1);
    assert_int_equal(iwarp_device_close(device), IWARP_OK);
}

static void device__with_a_wrong_wish__is_not_opened(void **state)
{
    struct iwarp_device *device = NULL;

    (void)state;
    setenv("IWARP_FAULTS", "crc=none", 1);
    assert_int_equal(iwarp_device_open(NULL, &device), IWARP_MISUSE);
    assert_null(device);
    assert_non_null(strstr(iwarp_last_error(), "IWARP_FAULTS: \"crc=none\", expected"));
    unsetenv("IWARP_FAULTS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words__each_of_them__are_understood),
        cmocka_unit_test(words__that_cannot_be__are_refused_with_a_sentence),
        cmocka_unit_test(draw__of_a_range__is_each_of_it_and_the_same_again),
        cmocka_unit_test(injector__without_a_wish__is_none),
        cmocka_unit_test(connections__in_order__are_those_that_are_meant),
        cmocka_unit_test(registration__of_that_number__alone_fails),
        cmocka_unit_test(allocation__of_that_number__alone_fails),
        cmocka_unit_test(device__with_a_wrong_wish__is_not_opened),
    };

    return cmocka_run_group_tests_name("inject", tests, NULL, NULL);
}
