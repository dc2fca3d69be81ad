/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues: bounds, order, notification of both kinds, waiting, overflow, and what a queue
 * pair that goes leaves behind.
 */
#include "alloc_fault.h"
#include "base/fault.h"
#include "base/limits.h"
#include "loop/clock.h"
#include "octets.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs_pair.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

static struct iwarp_device *open_device(void)
{
    struct iwarp_device *device;

    must(iwarp_device_open(NULL, &device));
    return device;
}

static void close_all(struct iwarp_device *device, struct iwarp_cq *cq)
{
    must(iwarp_cq_destroy(cq));
    must(iwarp_device_close(device));
}

static bool push(struct iwarp_cq *cq, uint64_t wr_id, const struct iwarp_wc *like)
{
    struct iwarp_wc wc = like ? *like : (struct iwarp_wc){.wr_id = 0};

    wc.wr_id = wr_id;
    bool room = iwarp_cq_push(cq, &wc);
    iwarp_cq_tell(iwarp_cq_due(cq));
    return room;
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static void create__with_impossible_sizes__is_misuse(void **state)
{
    struct iwarp_device *device = open_device();
    struct iwarp_cq *cq = NULL;

    (void)state;
    must_fail(iwarp_cq_create(NULL, 8, NULL, &cq), IWARP_MISUSE, "needs a device");
    must_fail(iwarp_cq_create(device, 0, NULL, &cq), IWARP_MISUSE, "0 entries");
    must_fail(iwarp_cq_create(device, IWARP_MAX_CQE + 1, NULL, &cq), IWARP_MISUSE, "4194305");
    for (unsigned i = 1; i <= 2; i++) {
        alloc_fault_at(i);
        must_fail(iwarp_cq_create(device, 10, NULL, &cq), IWARP_NO_MEMORY, "10");
        alloc_fault_at(0);
    }
    must(iwarp_cq_create(device, IWARP_MAX_CQE, device, &cq));
    assert_ptr_equal(iwarp_cq_user(cq), device);
    must_fail(iwarp_device_close(device), IWARP_MISUSE, "1 CQs");
    close_all(device, cq);
}

/* Any size holds exactly as many; random pushes and polls come out in order. */
static void poll__after_random_pushes__gives_them_in_order(void **state)
{
    static const unsigned sizes[] = {1, 2, 3, 7, 8, 100};
    struct chance chance = {chance_seed()};
    struct iwarp_device *device = open_device();

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        uint64_t in = 0, out = 0;
        struct iwarp_cq *cq;
        must(iwarp_cq_create(device, sizes[i], NULL, &cq));
        for (unsigned step = 0; step < 2000; step++) {
            struct iwarp_wc wc[8];
            int n = (int)chance_below(&chance, 8);
            if (in - out < sizes[i] && chance_one_in(&chance, 2)) {
                assert_true(push(cq, in++, NULL));
                continue;
            }
            int got = iwarp_cq_poll(cq, wc, n);
            assert_int_equal(got, in - out < (unsigned)n ? (int)(in - out) : n);
            for (int k = 0; k < got; k++) {
                assert_int_equal(wc[k].wr_id, out++);
            }
        }
        must(iwarp_cq_destroy(cq));
    }
    must(iwarp_device_close(device));
}

static void poll__after_overflow__gives_what_there_was_then_limit(void **state)
{
    struct iwarp_device *device = open_device();
    struct iwarp_wc wc[8];
    struct iwarp_cq *cq;

    (void)state;
    must(iwarp_cq_create(device, 5, NULL, &cq));
    for (unsigned i = 0; i < 5; i++) {
        assert_true(push(cq, i, NULL));
    }
    assert_false(push(cq, 5, NULL));
    assert_int_equal(iwarp_cq_poll(cq, wc, 2), 2);
    assert_int_equal(iwarp_cq_poll(cq, wc, 8), 3);
    assert_int_equal(wc[2].wr_id, 4);
    for (int i = 0; i < 2; i++) {
        must_fail((enum iwarp_status)iwarp_cq_poll(cq, wc, 8), IWARP_LIMIT, "5 entries");
        must_fail((enum iwarp_status)iwarp_cq_wait(cq, wc, 8, 1000), IWARP_LIMIT, "5 entries");
    }
    assert_int_equal(iwarp_cq_poll(cq, wc, 0), 0);
    close_all(device, cq);
}

/* [VERBS-8.2.5-01] */
static void arm__for_any__notifies_once(void **state)
{
    struct iwarp_device *device = open_device();
    struct iwarp_cq *cq;
    struct iwarp_wc wc;

    (void)state;
    must(iwarp_cq_create(device, 8, NULL, &cq));
    int fd = iwarp_cq_fd(cq);
    assert_true(fd >= 0);
    assert_int_equal(iwarp_cq_fd(cq), fd);
    push(cq, 0, NULL);
    assert_false(readable(fd)); /* nobody asked */
    must(iwarp_cq_arm(cq, false));
    assert_false(readable(fd));   /* what is there does not count */
    must(iwarp_cq_arm(cq, true)); /* the wider wish stands */
    push(cq, 1, NULL);
    assert_true(readable(fd));
    assert_int_equal(iwarp_cq_poll(cq, &wc, 1), 1);
    assert_true(readable(fd)); /* until drained */
    iwarp_cq_drain(cq);
    assert_false(readable(fd));
    push(cq, 2, NULL);
    assert_false(readable(fd)); /* one shot */
    iwarp_cq_drain(cq);         /* nothing there: does not block */
    close_all(device, cq);
}

/* [VERBS-8.2.5-02] */
static void arm__for_solicited__skips_the_others(void **state)
{
    const struct iwarp_wc solicited = {.flags = IWARP_WC_SOLICITED},
                          failed = {.status = IWARP_WC_FLUSHED};
    struct iwarp_device *device = open_device();
    struct iwarp_cq *cq;

    (void)state;
    must(iwarp_cq_create(device, 8, NULL, &cq));
    int fd = iwarp_cq_fd(cq);
    for (int i = 0; i < 2; i++) {
        must(iwarp_cq_arm(cq, true));
        push(cq, 0, NULL);
        assert_false(readable(fd));
        push(cq, 1, i ? &failed : &solicited);
        assert_true(readable(fd));
        iwarp_cq_drain(cq);
    }
    must(iwarp_cq_arm(cq, true));
    must(iwarp_cq_arm(cq, false)); /* widened */
    push(cq, 2, NULL);
    assert_true(readable(fd));
    close_all(device, cq);
}

static void fd__asked_for_after_the_notification__is_readable(void **state)
{
    struct iwarp_device *device = open_device();
    struct iwarp_cq *cq;

    (void)state;
    must(iwarp_cq_create(device, 8, NULL, &cq));
    iwarp_cq_drain(cq); /* no descriptor: nothing to do */
    must(iwarp_cq_arm(cq, false));
    push(cq, 0, NULL);
    assert_true(readable(iwarp_cq_fd(cq)));
    close_all(device, cq);
}

static void count_up(void *arg)
{
    ++*(int *)arg;
}

static void notify_by__a_function__is_called_once_for_each_arming(void **state)
{
    struct iwarp_device *device = open_device();
    struct iwarp_cq *cq;
    struct iwarp_wc wc;
    int calls = 0;

    (void)state;
    must(iwarp_cq_create(device, 8, NULL, &cq));
    must_fail(iwarp_cq_notify_by(cq, NULL, NULL), IWARP_MISUSE, "notify");
    must_fail(iwarp_cq_notify_by(NULL, count_up, &calls), IWARP_MISUSE, "cq");
    must(iwarp_cq_notify_by(cq, count_up, &calls));
    must_fail(iwarp_cq_notify_by(cq, count_up, &calls), IWARP_MISUSE, "already");
    assert_int_equal(iwarp_cq_fd(cq), -1); /* it would never be readable, and a wait never end */
    must_fail((enum iwarp_status)iwarp_cq_wait(cq, &wc, 1, 50), IWARP_MISUSE, "has a function");
    push(cq, 0, NULL);
    assert_int_equal(calls, 0);
    must(iwarp_cq_arm(cq, false));
    assert_int_equal(calls, 0);
    push(cq, 1, NULL);
    push(cq, 2, NULL);
    assert_int_equal(calls, 1);
    must(iwarp_cq_arm(cq, true));
    push(cq, 3, NULL);
    assert_int_equal(calls, 1);
    push(cq, 4, &(struct iwarp_wc){.flags = IWARP_WC_SOLICITED});
    assert_int_equal(calls, 2);
    close_all(device, cq);
}

struct later {
    struct iwarp_cq *cq;
    struct iwarp_cq_due due;
    unsigned ms;
    bool arms; /* for solicited completions, before it pushes */
};

static void *push_later(void *arg)
{
    struct later *later = arg;

    usleep(later->ms * 1000);
    if (later->arms) {
        must(iwarp_cq_arm(later->cq, true));
    }
    push(later->cq, 42, NULL);
    return NULL;
}

static void wait__ends_with_a_completion_or_the_time(void **state)
{
    struct iwarp_device *device = open_device();
    struct later later = {.ms = 30};
    pthread_t thread;
    struct iwarp_wc wc;

    (void)state;
    must(iwarp_cq_create(device, 8, NULL, &later.cq));
    int64_t begin = iwarp_now_ms();
    assert_int_equal(iwarp_cq_wait(later.cq, &wc, 1, 0), 0);
    assert_int_equal(iwarp_cq_wait(later.cq, &wc, 1, 50), 0);
    assert_true(iwarp_now_ms() - begin >= 45);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&thread, NULL, push_later, &later), 0);
        assert_int_equal(iwarp_cq_wait(later.cq, &wc, 1, i ? -1 : PAIR_WAIT_MS), 1);
        assert_int_equal(wc.wr_id, 42);
        pthread_join(thread, NULL);
    }
    close_all(device, later.cq);
}

/* The thread that waits is told of the next completion; who armed the queue, of the next solicited
 * one, as ever: armed before the wait, or by another thread meanwhile. */
static void wait__with_the_queue_armed_for_solicited__leaves_it_armed(void **state)
{
    struct iwarp_device *device = open_device();
    struct later later = {.ms = 30};
    pthread_t thread;
    struct iwarp_wc wc;

    (void)state;
    must(iwarp_cq_create(device, 8, NULL, &later.cq));
    int fd = iwarp_cq_fd(later.cq);
    for (int i = 0; i < 3; i++) { /* 2: the wait is over in vain */
        later.arms = i == 1;
        if (!later.arms) {
            must(iwarp_cq_arm(later.cq, true));
        }
        if (i < 2) {
            assert_int_equal(pthread_create(&thread, NULL, push_later, &later), 0);
        }
        assert_int_equal(iwarp_cq_wait(later.cq, &wc, 1, i < 2 ? PAIR_WAIT_MS : 20), i < 2);
        if (i < 2) {
            pthread_join(thread, NULL);
        }
        iwarp_cq_drain(later.cq);
        assert_int_equal(atomic_load(&device->sleepers.armed), 1);
        push(later.cq, 1, NULL);
        assert_false(readable(fd));
        push(later.cq, 2, &(struct iwarp_wc){.flags = IWARP_WC_SOLICITED});
        assert_true(readable(fd));
        iwarp_cq_drain(later.cq);
        assert_int_equal(atomic_load(&device->sleepers.armed), 0);
        assert_int_equal(iwarp_cq_poll(later.cq, &wc, 1), 1);
        assert_int_equal(iwarp_cq_poll(later.cq, &wc, 1), 1);
    }
    close_all(device, later.cq);
}

static void purge__of_one_queue_pair__keeps_the_others_in_order(void **state)
{
    struct iwarp_device *device = open_device();
    struct iwarp_wc wc[8];
    struct iwarp_cq *cq;
    int a, b; /* stand for queue pairs: compared, never followed */

    (void)state;
    must(iwarp_cq_create(device, 8, NULL, &cq));
    for (uint64_t turn = 0; turn < 20; turn++) { /* across the end of the ring */
        for (uint64_t i = 0; i < 7; i++) {
            const struct iwarp_wc like = {.qp = (void *)(i % 3 ? &a : &b)};
            assert_true(push(cq, i, &like));
        }
        iwarp_cq_purge(cq, (void *)(turn % 2 ? &a : &b));
        assert_int_equal(iwarp_cq_poll(cq, wc, 8), turn % 2 ? 3 : 4);
        assert_int_equal(wc[0].wr_id, turn % 2 ? 0 : 1);
        assert_int_equal(wc[2].wr_id, turn % 2 ? 6 : 4);
    }
    close_all(device, cq);
}

/* Of that queue pair, with success, and not polled. */
static void has_of__with_completions_of_two_queue_pairs__tells_them_apart(void **state)
{
    struct iwarp_device *device = open_device();
    const enum iwarp_wc_status good = IWARP_WC_SUCCESS, bad = IWARP_WC_FLUSHED;
    struct iwarp_wc wc;
    struct iwarp_cq *cq;
    int a, b;

    (void)state;
    must(iwarp_cq_create(device, 4, NULL, &cq));
    for (unsigned turn = 0; turn < 10; turn++) { /* across the end of the ring */
        assert_false(iwarp_cq_has_of(cq, (void *)&a));
        assert_true(push(cq, 0, &(struct iwarp_wc){.qp = (void *)&a, .status = bad}));
        assert_true(push(cq, 1, &(struct iwarp_wc){.qp = (void *)&b, .status = good}));
        assert_false(iwarp_cq_has_of(cq, (void *)&a));
        assert_true(iwarp_cq_has_of(cq, (void *)&b));
        assert_true(push(cq, 2, &(struct iwarp_wc){.qp = (void *)&a, .status = good}));
        assert_true(iwarp_cq_has_of(cq, (void *)&a));
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(iwarp_cq_poll(cq, &wc, 1), 1);
        }
    }
    close_all(device, cq);
}

/* Another pair on the device, with completion queues of its own, works before and behind it. */
static void transfer_beside(struct pair_side *s, uint64_t wr_id)
{
    pair_recv(&s[1], wr_id, 0, 8);
    pair_send(&s[0], wr_id, 0, 8);
    pair_wc(s[0].send_cq, wr_id, IWARP_WC_SUCCESS);
    pair_wc(s[1].recv_cq, wr_id, IWARP_WC_SUCCESS);
}

/* Only the queue pair whose completions were lost ends. */
/* [RDMAP-8.1.1-11] [SEC-6.4.6-01] */
static void overflow__ends_the_queue_pair_that_caused_it(void **state)
{
    struct iwarp_wc wc[4];
    struct pair_options o;
    struct pair p;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        pair_options_init(&o, i ? PAIR_TCP4 : PAIR_MEMORY);
        o.cq_entries = 4;
        pair_open(&p, &o);
        struct pair_side beside[2];
        pair_side_open(&beside[0], p.device, &o);
        pair_side_open(&beside[1], p.device, &o);
        must(iwarp_connect_pair(beside[0].qp, beside[1].qp, NULL, NULL, &beside[0].conn,
                                &beside[1].conn));
        transfer_beside(beside, 1);
        for (uint64_t k = 0; k < 6; k++) {
            pair_write(&p.side[0], k, 0, 8, &p.side[1], 0);
        }
        must(iwarp_conn_wait_end(p.side[0].conn, PAIR_WAIT_MS));
        const struct iwarp_fault *fault = iwarp_conn_fault(p.side[0].conn);
        assert_int_equal(iwarp_fault_code(fault), IWARP_FAULT_LOCAL_CQ_OVERFLOW);
        assert_int_equal(iwarp_fault_status(fault), IWARP_LIMIT);
        must(iwarp_conn_wait_end(p.side[1].conn, PAIR_WAIT_MS));
        assert_non_null(iwarp_conn_fault(p.side[1].conn));
        assert_int_equal(iwarp_cq_poll(p.side[0].send_cq, wc, 4), 4);
        for (uint64_t k = 0; k < 4; k++) {
            assert_int_equal(wc[k].wr_id, k);
            assert_int_equal(wc[k].status, IWARP_WC_SUCCESS);
        }
        must_fail((enum iwarp_status)iwarp_cq_poll(p.side[0].send_cq, wc, 4), IWARP_LIMIT,
                  "4 entries");
        for (uint64_t k = 2; k < 10; k++) {
            transfer_beside(beside, k);
        }
        pair_side_close(&beside[0]);
        pair_side_close(&beside[1]);
        pair_close(&p);
    }
}

/* Up and down at any place of the ring; what waits stays, in order; the bound is the new one. */
static void resize__at_random__loses_nothing(void **state)
{
    struct chance chance = {chance_seed()};
    struct iwarp_device *device = open_device();
    uint64_t in = 0, out = 0;
    unsigned size = 3;
    struct iwarp_cq *cq;
    struct iwarp_wc wc;

    (void)state;
    must(iwarp_cq_create(device, size, NULL, &cq));
    for (unsigned step = 0; step < 20000; step++) {
        unsigned to = (unsigned)chance_below(&chance, 20) + 1;
        if (chance_one_in(&chance, 4)) {
            if (to < in - out) {
                must_fail(iwarp_cq_resize(cq, to), IWARP_MISUSE, "completions wait");
            } else {
                must(iwarp_cq_resize(cq, to));
                size = to;
            }
            assert_int_equal(iwarp_cq_entries(cq), size);
        } else if (in - out < size && chance_one_in(&chance, 2)) {
            assert_true(push(cq, in++, NULL));
        } else {
            assert_int_equal(iwarp_cq_poll(cq, &wc, 1), in > out);
            if (in > out) {
                assert_int_equal(wc.wr_id, out++);
            }
        }
    }
    while (in - out < size) {
        assert_true(push(cq, in++, NULL));
    }
    assert_false(push(cq, in, NULL)); /* the bound */
    close_all(device, cq);
}

static void resize__to_the_impossible__changes_nothing(void **state)
{
    struct iwarp_device *device = open_device();
    struct iwarp_cq *cq;
    struct iwarp_wc wc;

    (void)state;
    must(iwarp_cq_create(device, 4, NULL, &cq));
    push(cq, 1, NULL);
    must_fail(iwarp_cq_resize(cq, 0), IWARP_MISUSE, "0 entries");
    must_fail(iwarp_cq_resize(cq, IWARP_MAX_CQE + 1), IWARP_MISUSE, "4194305");
    alloc_fault_at(1);
    must_fail(iwarp_cq_resize(cq, 8), IWARP_NO_MEMORY, "8");
    alloc_fault_at(0);
    assert_int_equal(iwarp_cq_entries(cq), 4);
    must(iwarp_cq_arm(cq, false));
    must(iwarp_cq_resize(cq, 1)); /* as many as wait; still armed */
    int fd = iwarp_cq_fd(cq);
    assert_false(readable(fd));
    assert_int_equal(iwarp_cq_poll(cq, &wc, 1), 1);
    assert_int_equal(wc.wr_id, 1);
    push(cq, 2, NULL);
    assert_true(readable(fd));
    close_all(device, cq);
}

/* --- threads --------------------------------------------------------------------------------- */

#define PRODUCERS  3
#define PER_THREAD 4000u

struct producer {
    struct iwarp_cq *cq;
    _Atomic unsigned *room;
    uint64_t id;
};

static void *produce(void *arg)
{
    struct producer *p = arg;

    for (uint64_t i = 0; i < PER_THREAD; i++) {
        unsigned room = atomic_load(p->room);
        while (room == 0 || !atomic_compare_exchange_weak(p->room, &room, room - 1)) {
            sched_yield();
            room = atomic_load(p->room);
        }
        const struct iwarp_wc wc = {.flags = i % 16 == 15 ? IWARP_WC_SOLICITED : 0};
        assert_true(push(p->cq, p->id << 32 | i, &wc));
    }
    return NULL;
}

/*
 * [VERBS-8.2.5-03] Poll, arm, poll, sleep, while producers push and another thread's wish is the
 * resizing: nothing is lost, nothing comes twice, no sleep is for ever. Solicited only: every 16th
 * wakes, and the last one is such.
 */
static void arm__between_polls__never_loses_a_completion(void **state)
{
    struct iwarp_device *device = open_device();
    (void)state;

    for (int solicited = 0; solicited < 2; solicited++) {
        _Atomic unsigned room = 64;
        struct producer p[PRODUCERS];
        pthread_t thread[PRODUCERS];
        uint64_t next[PRODUCERS] = {0};
        struct iwarp_cq *cq;
        unsigned done = 0, turns = 0;
        must(iwarp_cq_create(device, 64, NULL, &cq));
        struct pollfd fd = {.fd = iwarp_cq_fd(cq), .events = POLLIN};
        for (unsigned i = 0; i < PRODUCERS; i++) {
            p[i] = (struct producer){cq, &room, i};
            assert_int_equal(pthread_create(&thread[i], NULL, produce, &p[i]), 0);
        }
        while (done < PRODUCERS * PER_THREAD) {
            struct iwarp_wc wc[8];
            int n = iwarp_cq_poll(cq, wc, 8);
            if (n == 0) {
                must(iwarp_cq_arm(cq, solicited != 0));
                n = iwarp_cq_poll(cq, wc, 8);
            }
            if (n == 0) {
                assert_int_equal(poll(&fd, 1, PAIR_WAIT_MS), 1);
                iwarp_cq_drain(cq);
            }
            assert_true(n >= 0);
            for (int k = 0; k < n; k++) {
                assert_int_equal((uint32_t)wc[k].wr_id, next[wc[k].wr_id >> 32]++);
            }
            done += (unsigned)n;
            atomic_fetch_add(&room, (unsigned)n);
            if (turns++ % 8 == 0) {
                must(iwarp_cq_resize(cq, turns % 16 ? 64 : 1000));
            }
        }
        for (unsigned i = 0; i < PRODUCERS; i++) {
            pthread_join(thread[i], NULL);
        }
        must(iwarp_cq_destroy(cq));
    }
    must(iwarp_device_close(device));
}

static void destroy__while_used__is_misuse(void **state)
{
    struct pair_options o;
    struct pair p;

    (void)state;
    pair_options_init(&o, PAIR_MEMORY);
    pair_prepare(&p, &o);
    must_fail(iwarp_cq_destroy(p.side[0].send_cq), IWARP_MISUSE, "still used");
    must_fail(iwarp_cq_destroy(p.side[0].recv_cq), IWARP_MISUSE, "still used");
    pair_close(&p);
}

static void push__of_several__is_told_once_and_by_one(void **state)
{
    struct iwarp_device *device = open_device();
    const struct iwarp_wc wc = {.wr_id = 1};
    struct iwarp_cq *cq;

    (void)state;
    must(iwarp_cq_create(device, 8, NULL, &cq));
    must(iwarp_cq_arm(cq, false));
    assert_null(iwarp_cq_due(cq).cq);
    assert_true(iwarp_cq_push(cq, &wc));
    assert_true(iwarp_cq_push(cq, &wc));
    assert_false(readable(iwarp_cq_fd(cq)));
    struct iwarp_cq_due due = iwarp_cq_due(cq), other = iwarp_cq_due(cq);
    assert_ptr_equal(due.cq, cq);
    assert_null(other.cq); /* of another thread */
    assert_false(readable(iwarp_cq_fd(cq)));
    iwarp_cq_tell(due);
    assert_true(readable(iwarp_cq_fd(cq)));
    iwarp_cq_tell(other);
    close_all(device, cq);
}

static void *tell_later(void *arg)
{
    struct later *later = arg;

    usleep(later->ms * 1000);
    later->ms = 0;
    iwarp_cq_tell(later->due);
    return NULL;
}

static unsigned own_cpu_ms(void)
{
    struct timespec t;

    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (unsigned)(t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

/* Asleep: one of real-time priority would keep the other from its processor. */
static void destroy__while_another_thread_is_about_to_tell__waits(void **state)
{
    struct iwarp_device *device = open_device();
    const struct iwarp_wc wc = {.wr_id = 1};
    struct later later = {.ms = 300};
    pthread_t thread;

    (void)state;
    must(iwarp_cq_create(device, 8, NULL, &later.cq));
    must(iwarp_cq_arm(later.cq, false));
    assert_true(iwarp_cq_push(later.cq, &wc));
    later.due = iwarp_cq_due(later.cq);
    assert_ptr_equal(later.due.cq, later.cq);
    assert_int_equal(pthread_create(&thread, NULL, tell_later, &later), 0);
    unsigned before = own_cpu_ms();
    must(iwarp_cq_destroy(later.cq));
    assert_int_equal(later.ms, 0);
    assert_in_range(own_cpu_ms() - before, 0, 200);
    pthread_join(thread, NULL);
    must(iwarp_device_close(device));
}

static void status_text__of_any_number__is_a_word(void **state)
{
    (void)state;
    for (int i = 0; i <= IWARP_WC_REMOTE_OPERATION; i++) {
        assert_null(strstr(iwarp_wc_status_text((enum iwarp_wc_status)i), "unknown"));
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(iwarp_wc_status_text((enum iwarp_wc_status)i),
                                    iwarp_wc_status_text((enum iwarp_wc_status)k));
        }
    }
    assert_non_null(strstr(iwarp_wc_status_text((enum iwarp_wc_status)99), "unknown"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create__with_impossible_sizes__is_misuse),
        cmocka_unit_test(poll__after_random_pushes__gives_them_in_order),
        cmocka_unit_test(poll__after_overflow__gives_what_there_was_then_limit),
        cmocka_unit_test(arm__for_any__notifies_once),
        cmocka_unit_test(arm__for_solicited__skips_the_others),
        cmocka_unit_test(fd__asked_for_after_the_notification__is_readable),
        cmocka_unit_test(notify_by__a_function__is_called_once_for_each_arming),
        cmocka_unit_test(wait__ends_with_a_completion_or_the_time),
        cmocka_unit_test(wait__with_the_queue_armed_for_solicited__leaves_it_armed),
        cmocka_unit_test(purge__of_one_queue_pair__keeps_the_others_in_order),
        cmocka_unit_test(has_of__with_completions_of_two_queue_pairs__tells_them_apart),
        cmocka_unit_test(overflow__ends_the_queue_pair_that_caused_it),
        cmocka_unit_test(resize__at_random__loses_nothing),
        cmocka_unit_test(resize__to_the_impossible__changes_nothing),
        cmocka_unit_test(arm__between_polls__never_loses_a_completion),
        cmocka_unit_test(destroy__while_used__is_misuse),
        cmocka_unit_test(push__of_several__is_told_once_and_by_one),
        cmocka_unit_test(destroy__while_another_thread_is_about_to_tell__waits),
        cmocka_unit_test(status_text__of_any_number__is_a_word),
    };

    return cmocka_run_group_tests_name("cq", tests, NULL, NULL);
}
