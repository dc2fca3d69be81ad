/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who is dropped from a crowd that is full: always somebody of the address with the most members.
 * The connections are empty objects, of which a crowd uses the count of references only.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "octets.h"

#include "verbs/conn.h"
#include "verbs/crowd.h"

#define MOST 600

static struct iwarp_conn *conns;
static struct iwarp_member members[MOST];

static int setup(void **state)
{
    (void)state;
    conns = calloc(MOST, sizeof *conns);
    memset(members, 0, sizeof members);
    for (int i = 0; conns && i < MOST; i++) {
        members[i].conn = &conns[i];
    }
    return conns ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    free(conns);
    return 0;
}

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage at = {.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET};

    if (at.ss_family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)&at;
        assert_int_equal(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
    } else {
        struct sockaddr_in *in = (struct sockaddr_in *)(void *)&at;
        assert_int_equal(inet_pton(AF_INET, text, &in->sin_addr), 1);
    }
    return at;
}

/* A place in conns; -1: none. */
static int place(const struct iwarp_conn *conn)
{
    return conn ? (int)(conn - conns) : -1;
}

/* The number of the connection that had to go for connection i; -1: none. */
static int join(struct iwarp_crowd *crowd, int i, const char *from)
{
    struct sockaddr_storage at = address(from);

    return place(iwarp_crowd_join(crowd, &members[i], (const struct sockaddr *)&at, 0));
}

/* Two addresses may fall into one share by chance: take a crowd in which these do not. */
static void crowd_apart(struct iwarp_crowd *crowd, enum iwarp_crowd_drops drops, unsigned max,
                        const char *const *from, unsigned n)
{
    for (bool apart = false; !apart;) {
        iwarp_crowd_init(crowd, drops, MOST, false);
        for (unsigned i = 0; i < n; i++) {
            assert_int_equal(join(crowd, (int)i, from[i]), -1);
        }
        apart = true;
        for (unsigned i = 0; i < n; i++) {
            apart = apart && crowd->share[members[i].share].count == 1;
        }
        for (unsigned i = 0; i < n; i++) {
            iwarp_crowd_leave(&members[i]);
        }
        crowd->max = max;
    }
    assert_int_equal(atomic_load(&crowd->count), 0);
}

static const char *const two[] = {"10.0.0.1", "10.0.0.2"};

static void startups__beyond_the_bound__the_oldest_of_the_largest_share_goes(void **state)
{
    struct iwarp_crowd crowd;

    (void)state;
    crowd_apart(&crowd, IWARP_DROPS_OLDEST, 4, two, 2);
    assert_int_equal(join(&crowd, 0, two[0]), -1); /* the oldest of all, but of a small share */
    for (int i = 1; i < 4; i++) {
        assert_int_equal(join(&crowd, i, two[1]), -1);
    }
    for (int i = 4; i < 50; i++) {
        assert_int_equal(join(&crowd, i, two[1]), i - 3);
    }
    assert_int_equal(join(&crowd, 50, two[0]), 47); /* 0 and 50 against 47, 48 and 49 */
    assert_int_equal(join(&crowd, 51, two[0]), 0);  /* now its own share is the largest */
    assert_int_equal(atomic_load(&crowd.count), 4);
    iwarp_crowd_fini(&crowd);
}

static void requests__beyond_the_bound__the_newest_of_the_largest_share_goes(void **state)
{
    struct iwarp_crowd crowd;

    (void)state;
    crowd_apart(&crowd, IWARP_DROPS_NEWEST, 4, two, 2);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(join(&crowd, i, two[1]), -1);
    }
    for (int i = 4; i < 10; i++) {
        assert_int_equal(join(&crowd, i, two[1]), i); /* the newcomer itself */
    }
    assert_int_equal(join(&crowd, 10, two[0]), 3);
    assert_int_equal(join(&crowd, 11, two[0]), 2);
    assert_int_equal(join(&crowd, 12, two[0]), 12);
    iwarp_crowd_fini(&crowd);
}

static void shares__are_by_host_with_ipv4_and_by_64_bits_with_ipv6(void **state)
{
    static const struct {
        const char *a, *b;
        bool one_share;
    } cases[] = {{"10.0.0.1", "10.0.0.1", true},
                 {"10.0.0.1", "10.0.0.2", false},
                 {"10.0.0.1", "::ffff:10.0.0.1", true},
                 {"::ffff:10.0.0.2", "::ffff:10.0.0.1", false},
                 {"2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true},
                 {"2001:db8:0:1::1", "2001:db8:0:2::1", false},
                 {"fe80::1", "fe80::2", false},
                 {"64:ff9b::10.0.0.1", "64:ff9b::10.0.0.2", false}};

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        unsigned same = 0;
        for (int i = 0; i < 20; i++) { /* each time with another key */
            struct iwarp_crowd crowd;
            iwarp_crowd_init(&crowd, IWARP_DROPS_OLDEST, 2, false);
            join(&crowd, 0, cases[c].a);
            join(&crowd, 1, cases[c].b);
            same += members[0].share == members[1].share;
            iwarp_crowd_leave(&members[0]);
            iwarp_crowd_leave(&members[1]);
            iwarp_crowd_fini(&crowd);
        }
        assert_true(cases[c].one_share ? same == 20 : same < 5);
    }
}

static void leave__in_any_order_and_twice__leaves_nothing(void **state)
{
    struct iwarp_crowd crowd;

    (void)state;
    iwarp_crowd_init(&crowd, IWARP_DROPS_OLDEST, 3, false);
    for (int i = 0; i < 5; i++) {
        join(&crowd, i, "10.0.0.1"); /* drops 0 and 1, which have not left yet */
    }
    static const int order[] = {3, 0, 4, 1, 2, 3, 0};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        iwarp_crowd_leave(&members[order[i]]);
    }
    assert_int_equal(atomic_load(&crowd.count), 0);
    assert_null(iwarp_crowd_drop(&crowd));
    for (int i = 0; i < IWARP_CROWD_SHARES; i++) {
        assert_null(crowd.share[i].oldest);
        assert_int_equal(crowd.share[i].count, 0);
    }
    iwarp_crowd_fini(&crowd);
}

/* An address that shares with a flooder by chance does so no longer than the flood lasts. */
static void key__of_a_crowd_that_was_empty__is_another_one(void **state)
{
    struct iwarp_crowd crowd;
    unsigned changes = 0;

    (void)state;
    iwarp_crowd_init(&crowd, IWARP_DROPS_OLDEST, 3, false);
    for (int i = 0, before = -1; i < 20; i++) {
        join(&crowd, 0, "10.0.0.1");
        uint8_t share = members[0].share;
        join(&crowd, 1, "10.0.0.1"); /* the crowd is not empty: the same key */
        assert_int_equal(members[1].share, share);
        changes += before != share;
        before = share;
        iwarp_crowd_leave(&members[0]);
        iwarp_crowd_leave(&members[1]);
    }
    assert_true(changes > 15);
    iwarp_crowd_fini(&crowd);
}

static void worst__tells_size_and_age_of_who_goes_next(void **state)
{
    const struct sockaddr_storage at = address(two[0]);
    struct iwarp_crowd crowd;

    (void)state;
    iwarp_crowd_init(&crowd, IWARP_DROPS_OLDEST, 3, false);
    assert_int_equal(iwarp_crowd_worst(&crowd).count, 0);
    assert_int_equal(iwarp_crowd_share_of(&crowd, (const struct sockaddr *)&at), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(
            place(iwarp_crowd_join(&crowd, &members[i], (const struct sockaddr *)&at, 100 + i)),
            i == 3 ? 0 : -1);
    }
    assert_int_equal(iwarp_crowd_worst(&crowd).count, 3);
    assert_int_equal(iwarp_crowd_worst(&crowd).since_ms, 101);
    assert_int_equal(iwarp_crowd_share_of(&crowd, (const struct sockaddr *)&at), 3);
    assert_false(iwarp_crowd_has(&members[0]));
    assert_true(iwarp_crowd_has(&members[1]));
    iwarp_crowd_fini(&crowd);
}

/* --- against a model ------------------------------------------------------------------------- */

/* A list in the order of joining; the member to be dropped is found by counting. */
struct model {
    int member[MOST], n;
};

static void model_remove(struct model *m, int i)
{
    for (int k = 0; k < m->n; k++) {
        if (m->member[k] == i) {
            memmove(&m->member[k], &m->member[k + 1], (size_t)(m->n - k - 1) * sizeof(int));
            m->n--;
            return;
        }
    }
}

static int share_size(const struct model *m, uint8_t share)
{
    int n = 0;

    for (int k = 0; k < m->n; k++) {
        n += members[m->member[k]].share == share;
    }
    return n;
}

static int model_worst(const struct model *m, enum iwarp_crowd_drops drops)
{
    int worst = -1, size = 0;

    for (int k = 0; k < m->n; k++) {
        int i = m->member[k], n = share_size(m, members[i].share);
        if (n > size || (n == size && drops == IWARP_DROPS_NEWEST)) {
            worst = i;
            size = n;
        }
    }
    return worst;
}

static void random__joins_leaves_and_drops__agree_with_a_model(void **state)
{
    struct chance chance = {chance_seed()};

    teardown(state);
    for (int round = 0; round < 20; round++) {
        enum iwarp_crowd_drops drops = round % 2 ? IWARP_DROPS_NEWEST : IWARP_DROPS_OLDEST;
        unsigned max = 1 + (unsigned)chance_below(&chance, 40);
        struct model model = {.n = 0};
        struct iwarp_crowd crowd;
        assert_int_equal(setup(state), 0);
        iwarp_crowd_init(&crowd, drops, max, false);
        for (int step = 0; step < 2000; step++) {
            int i = (int)chance_below(&chance, MOST), gone;
            char from[32];
            snprintf(from, sizeof from, "10.1.0.%zu", 1 + chance_below(&chance, 1 + (size_t)round));
            switch (chance_below(&chance, 8)) {
            case 0:
                gone = model.n > 0 ? model_worst(&model, drops) : -1;
                assert_int_equal(place(iwarp_crowd_drop(&crowd)), gone);
                model_remove(&model, gone);
                break;
            case 1:
            case 2:
                iwarp_crowd_leave(&members[i]);
                model_remove(&model, i);
                break;
            default:
                gone = join(&crowd, i, from);
                model_remove(&model, i);
                model.member[model.n++] = i;
                assert_int_equal(gone, model.n > (int)max ? model_worst(&model, drops) : -1);
                model_remove(&model, gone);
            }
            assert_int_equal(atomic_load(&crowd.count), model.n);
        }
        iwarp_crowd_fini(&crowd);
        teardown(state);
    }
    assert_int_equal(setup(state), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            startups__beyond_the_bound__the_oldest_of_the_largest_share_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(
            requests__beyond_the_bound__the_newest_of_the_largest_share_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(shares__are_by_host_with_ipv4_and_by_64_bits_with_ipv6,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(leave__in_any_order_and_twice__leaves_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(key__of_a_crowd_that_was_empty__is_another_one, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(worst__tells_size_and_age_of_who_goes_next, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(random__joins_leaves_and_drops__agree_with_a_model, setup,
                                        teardown),
    };

    return cmocka_run_group_tests_name("crowd", tests, NULL, NULL);
}
