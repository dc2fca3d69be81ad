/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event queues: order, removal from any place, the descriptor or the function that is told instead,
 * waiting, and that events vanish with the connection they tell of.
 */
#include "alloc_fault.h"
#include "base/lead.h"
#include "loop/clock.h"
#include "octets.h"
#include "verbs/device.h"
#include "verbs/eq.h"
#include "verbs_pair.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#define NODES 20u

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static void count_one(void *times)
{
    ++*(unsigned *)times;
}

/* As a program takes it; or as the drop-in library does, which asks for another's first. */
static void take(struct iwarp_eq *eq, bool is_told, const struct iwarp_event_node *first)
{
    struct iwarp_event event;

    if (!is_told) {
        must(iwarp_eq_get(eq, &event, 0));
    } else {
        assert_ptr_equal(iwarp_eq_first_user(eq), first);
        assert_false(iwarp_eq_take_of(eq, &event, &event));
        assert_true(iwarp_eq_take_of(eq, first, &event));
    }
    assert_ptr_equal(event.user, first);
}

/* Pushes, takes and removals at random beside a model that is an array. */
static void work_at_random(bool is_told)
{
    struct chance chance = {chance_seed()};
    struct iwarp_event_node node[NODES];
    struct iwarp_device *device;
    struct iwarp_event event;
    size_t model[NODES], n = 0;
    unsigned told = 0, begun = 0;
    struct iwarp_eq *eq;

    must(iwarp_device_open(NULL, &device));
    must(iwarp_eq_create(device, &eq));
    if (is_told) {
        iwarp_eq_notify_by(eq, count_one, &told);
    }
    memset(node, 0, sizeof node);
    for (size_t i = 0; i < NODES; i++) {
        node[i].event.user = &node[i];
    }
    for (unsigned step = 0; step < 20000; step++) {
        size_t i = chance_below(&chance, NODES);
        if (!node[i].at && chance_one_in(&chance, 2)) {
            iwarp_eq_push(eq, &node[i]);
            begun += n == 0;
            model[n++] = i;
        } else if (chance_one_in(&chance, 2)) {
            size_t at = 0;
            while (at < n && model[at] != i) {
                at++;
            }
            assert_int_equal(iwarp_eq_remove(eq, &node[i]), at < n);
            if (at < n) {
                memmove(&model[at], &model[at + 1], (--n - at) * sizeof model[0]);
            }
        } else if (n > 0) {
            take(eq, is_told, &node[model[0]]);
            memmove(&model[0], &model[1], --n * sizeof model[0]);
        } else {
            assert_null(iwarp_eq_first_user(eq));
            assert_false(iwarp_eq_take_of(eq, &node[i], &event));
            must_fail(iwarp_eq_get(eq, &event, 0), IWARP_AGAIN, "0 ms");
        }
        assert_int_equal(readable(iwarp_eq_fd(eq)), !is_told && n > 0);
    }
    assert_int_equal(told, is_told ? begun : 0);
    must(iwarp_eq_destroy(eq));
    must(iwarp_device_close(device));
}

static void queue__worked_at_random__keeps_order_and_descriptor(void **state)
{
    (void)state;
    work_at_random(false);
}

static void queue__worked_at_random__tells_a_function_of_the_first(void **state)
{
    (void)state;
    work_at_random(true);
}

struct later {
    struct iwarp_eq *eq;
    struct iwarp_event_node node;
};

static void *push_later(void *arg)
{
    struct later *later = arg;

    usleep(30000);
    iwarp_eq_push(later->eq, &later->node);
    return NULL;
}

static void get__ends_with_an_event_or_the_time(void **state)
{
    struct iwarp_device *device;
    struct iwarp_event event;
    struct later later = {.node = {.event = {.user = &later}}};
    pthread_t thread;

    (void)state;
    must(iwarp_device_open(NULL, &device));
    must(iwarp_eq_create(device, &later.eq));
    int64_t begin = iwarp_now_ms();
    must_fail(iwarp_eq_get(later.eq, &event, 40), IWARP_AGAIN, "40 ms");
    assert_true(iwarp_now_ms() - begin >= 35);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&thread, NULL, push_later, &later), 0);
        must(iwarp_eq_get(later.eq, &event, i ? -1 : PAIR_WAIT_MS));
        assert_ptr_equal(event.user, &later);
        pthread_join(thread, NULL);
    }
    must(iwarp_eq_destroy(later.eq));
    alloc_fault_at(1);
    must_fail(iwarp_eq_create(device, &later.eq), IWARP_NO_MEMORY, "event queue");
    alloc_fault_at(0);
    must(iwarp_device_close(device));
}

/* Established and disconnected before anybody looks: two events, in this order; or none. */
static void events__of_a_connection__come_in_order_and_go_with_it(void **state)
{
    (void)state;
    for (int destroy = 0; destroy < 2; destroy++) {
        struct iwarp_event event;
        struct pair_options o;
        struct pair p;
        pair_options_init(&o, PAIR_MEMORY);
        pair_prepare(&p, &o);
        must(iwarp_connect_pair(p.side[0].qp, p.side[1].qp, NULL, p.eq[0], &p.side[0].conn,
                                &p.side[1].conn));
        must(iwarp_conn_wait(p.side[0].conn, PAIR_WAIT_MS));
        must(iwarp_conn_wait(p.side[1].conn, PAIR_WAIT_MS));
        must(iwarp_abort(p.side[0].conn));
        must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
        must_fail(iwarp_eq_destroy(p.eq[0]), IWARP_MISUSE, "2 listeners and connections");
        int seen[2] = {0, 0};
        for (int i = 0; i < 2; i++) {
            if (destroy) {
                must(iwarp_conn_destroy(p.side[i].conn));
                p.side[i].conn = NULL;
            }
        }
        for (int i = 0; i < 4 && !destroy; i++) {
            must(iwarp_eq_get(p.eq[0], &event, PAIR_WAIT_MS));
            int side = event.conn == p.side[1].conn;
            assert_int_equal(event.type,
                             seen[side]++ ? IWARP_EVENT_DISCONNECTED : IWARP_EVENT_ESTABLISHED);
            assert_int_equal(event.fault == NULL, event.status == IWARP_OK);
        }
        assert_int_equal(iwarp_eq_get(p.eq[0], &event, 0), IWARP_AGAIN);
        pair_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queue__worked_at_random__keeps_order_and_descriptor),
        cmocka_unit_test(queue__worked_at_random__tells_a_function_of_the_first),
        cmocka_unit_test(get__ends_with_an_event_or_the_time),
        cmocka_unit_test(events__of_a_connection__come_in_order_and_go_with_it),
    };

    return cmocka_run_group_tests_name("eq", tests, NULL, NULL);
}
