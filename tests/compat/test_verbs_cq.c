/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues, channels and event descriptors: one event for each arming, readable exactly
 * while one waits, non-blocking and interrupted reads, and who waits for whom when they go.
 */
#include "loop.h"

#include "../support/child.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#define DRAINED       600
#define DRAINED_DEPTH 12

static const struct loop_options plain = {.max_inline = 0};

struct drained {
    struct loop *l;
    _Atomic unsigned received;
};

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

static void post_one(struct loop *l)
{
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

    loop_recv(l, 1, 1, 0, 0);
    assert_int_equal(ibv_post_send(l->qp[0], &wr, &bad), 0);
}

static void send_one(struct loop *l)
{
    post_one(l);
    (void)loop_expect(l, 0, 0, IBV_WC_SEND);
    (void)loop_expect(l, 1, 1, IBV_WC_RECV);
}

static void event__one_for_each_arming__from_two_queues(void **state)
{
    struct ibv_cq *cq;
    void *of;
    struct loop l;

    (void)state;
    loop_open(&l, &plain);
    assert_true(fcntl(l.channel->fd, F_GETFD) & FD_CLOEXEC);
    send_one(&l);
    assert_false(readable(l.channel->fd)); /* nobody asked */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_req_notify_cq(l.cq[i], 0), 0);
    }
    assert_false(readable(l.channel->fd)); /* what was there does not count */
    send_one(&l);
    send_one(&l); /* one shot */
    unsigned seen = 0;
    for (int i = 0; i < 2; i++) {
        assert_true(readable(l.channel->fd));
        assert_int_equal(ibv_get_cq_event(l.channel, &cq, &of), 0);
        int side = cq == l.cq[1];
        assert_ptr_equal(cq, l.cq[side]);
        assert_ptr_equal(of, &l.cq[side]);
        seen |= 1u << side;
        ibv_ack_cq_events(cq, 1);
    }
    assert_int_equal(seen, 3);
    assert_false(readable(l.channel->fd));
    assert_int_equal(fcntl(l.channel->fd, F_SETFL, O_NONBLOCK), 0);
    errno = 0;
    assert_int_equal(ibv_get_cq_event(l.channel, &cq, &of), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(ibv_destroy_comp_channel(l.channel), EBUSY);
    loop_close(&l);
}

static void event__not_taken__goes_with_its_queue(void **state)
{
    struct loop l;

    (void)state;
    loop_open(&l, &plain);
    struct ibv_cq *cq = ibv_create_cq(l.context, 4, NULL, l.channel, 0);
    assert_non_null(cq);
    assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
    struct ibv_cq *kept = l.cq[1];
    assert_int_equal(ibv_destroy_qp(l.qp[1]), 0);
    assert_int_equal(iwarp_conn_destroy(l.conn[1]), IWARP_OK);
    l.conn[1] = NULL;
    l.cq[1] = cq;
    l.qp[1] = loop_qp(&l, 1, &plain);
    loop_recv(&l, 1, 5, 0, 0);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    assert_int_equal(ibv_modify_qp(l.qp[1], &attr, IBV_QP_STATE), 0);
    assert_int_equal(loop_wc(&l, 1).status, IBV_WC_WR_FLUSH_ERR);
    assert_true(readable(l.channel->fd));
    assert_int_equal(ibv_destroy_qp(l.qp[1]), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_false(readable(l.channel->fd));
    l.cq[1] = kept;
    l.qp[1] = loop_qp(&l, 1, &plain);
    loop_close(&l);
}

static void *acknowledge_later(void *cq)
{
    usleep(50000);
    ibv_ack_cq_events(cq, 1);
    return NULL;
}

static void destroy__waits_for_the_acknowledgement(void **state)
{
    struct ibv_cq *cq, *own;
    void *of;
    pthread_t thread;
    struct timespec before, after;
    struct loop l;

    (void)state;
    loop_open(&l, &plain);
    own = l.cq[0];
    assert_int_equal(ibv_req_notify_cq(own, 0), 0);
    send_one(&l);
    assert_int_equal(ibv_get_cq_event(l.channel, &cq, &of), 0);
    assert_ptr_equal(cq, own);
    assert_int_equal(ibv_destroy_cq(own), EBUSY); /* its queue pair is there */
    assert_int_equal(ibv_destroy_qp(l.qp[0]), 0);
    clock_gettime(CLOCK_MONOTONIC, &before);
    assert_int_equal(pthread_create(&thread, NULL, acknowledge_later, own), 0);
    assert_int_equal(ibv_destroy_cq(own), 0);
    clock_gettime(CLOCK_MONOTONIC, &after);
    pthread_join(thread, NULL);
    assert_true(
        (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 >= 40);
    l.cq[0] = ibv_create_cq(l.context, 4, NULL, NULL, 0);
    l.qp[0] = loop_qp(&l, 0, &plain);
    loop_close(&l);
}

static void nothing(int number)
{
    (void)number;
}

static void get_event__interrupted__says_so(void **state)
{
    struct sigaction action = {.sa_handler = nothing}, before;
    const struct itimerspec soon = {.it_value = {.tv_nsec = 20000000},
                                    .it_interval = {.tv_nsec = 20000000}};
    struct sigevent by_signal = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct ibv_context *context = loop_context();
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_async_event event;
    struct ibv_cq *cq;
    timer_t timer;
    void *of;

    (void)state;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &by_signal, &timer), 0);
    assert_int_equal(timer_settime(timer, 0, &soon, NULL), 0);
    errno = 0;
    assert_int_equal(ibv_get_cq_event(channel, &cq, &of), -1);
    assert_int_equal(errno, EINTR);
    errno = 0;
    assert_int_equal(ibv_get_async_event(context, &event), -1);
    assert_int_equal(errno, EINTR);
    timer_delete(timer);
    sigaction(SIGALRM, &before, NULL);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

/* After so many turns the thread runs the loop itself while it waits. */
static void get_event__interrupted_while_it_runs_the_loop__says_so(void **state)
{
    struct sigaction action = {.sa_handler = nothing}, before;
    const struct itimerval soon = {.it_value = {.tv_usec = 1000}};
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_cq *cq;
    struct loop l;
    void *of;

    (void)state;
    loop_open(&l, &plain);
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned turn = 0; turn < 500; turn++) {
            assert_int_equal(ibv_req_notify_cq(l.cq[1], 0), 0);
            loop_recv(&l, 1, 1, 0, 0);
            assert_int_equal(ibv_post_send(l.qp[0], &wr, &bad), 0);
            assert_int_equal(ibv_get_cq_event(l.channel, &cq, &of), 0);
            ibv_ack_cq_events(cq, 1);
            (void)loop_expect(&l, 0, 0, IBV_WC_SEND);
            (void)loop_expect(&l, 1, 1, IBV_WC_RECV);
        }
        assert_int_equal(ibv_req_notify_cq(l.cq[1], 0), 0);
        assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
        errno = 0;
        assert_int_equal(ibv_get_cq_event(l.channel, &cq, &of), -1);
        assert_int_equal(errno, EINTR);
        send_one(&l); /* what was armed */
        assert_int_equal(ibv_get_cq_event(l.channel, &cq, &of), 0);
        ibv_ack_cq_events(cq, 1);
    }
    sigaction(SIGALRM, &before, NULL);
    loop_close(&l);
}

static void *sleep_in_get_event(void *channel)
{
    struct ibv_cq *cq;
    void *of;

    (void)ibv_get_cq_event(channel, &cq, &of);
    return NULL;
}

static void get_event__cancelled__ends_the_thread_and_leaves_no_lock(void **state)
{
    struct ibv_context *context = loop_context();
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    pthread_t thread;
    void *result;

    (void)state;
    if (CHILD_SANITIZED == 1) { /* it takes an unwound stack for a bad one */
        (void)ibv_destroy_comp_channel(channel);
        (void)ibv_close_device(context);
        return;
    }
    assert_int_equal(pthread_create(&thread, NULL, sleep_in_get_event, channel), 0);
    usleep(20000);
    assert_int_equal(pthread_cancel(thread), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

/* Takes receives back as they complete, asleep between two events. */
static void *receive_asleep(void *arg)
{
    struct drained *d = arg;
    struct pollfd p = {.fd = d->l->channel->fd, .events = POLLIN};
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *of;

    while (atomic_load(&d->received) < DRAINED) {
        if (poll(&p, 1, LOOP_WAIT_MS) != 1) {
            return NULL; /* no event came */
        }
        assert_int_equal(ibv_get_cq_event(d->l->channel, &cq, &of), 0);
        ibv_ack_cq_events(cq, 1);
        assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
        while (ibv_poll_cq(cq, 1, &wc) == 1) {
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            assert_int_equal(wc.wr_id, atomic_load(&d->received) % DRAINED_DEPTH);
            loop_recv(d->l, 1, wc.wr_id, 0, 8);
            atomic_fetch_add(&d->received, 1);
        }
    }
    return d;
}

/* The peer sends as far as there are receives, in bursts: nobody is woken for nothing, nobody
 * sleeps on. */
static void event__of_receives_that_are_shared__wakes_the_sleeper_each_time(void **state)
{
    const struct loop_options with_srq = {.srq = true};
    struct drained d = {.l = &(struct loop){.srq = NULL}};
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    const struct timespec nap = {.tv_nsec = 20000};
    unsigned sent = 0, waited = 0;
    pthread_t thread;
    void *result;

    (void)state;
    loop_open(d.l, &with_srq);
    for (uint64_t i = 0; i < DRAINED_DEPTH; i++) {
        loop_recv(d.l, 1, i, 0, 8);
    }
    assert_int_equal(ibv_req_notify_cq(d.l->cq[1], 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, receive_asleep, &d), 0);
    while (sent < DRAINED) {
        if (sent - atomic_load(&d.received) < DRAINED_DEPTH) {
            assert_int_equal(ibv_post_send(d.l->qp[0], &wr, &bad), 0);
            (void)loop_expect(d.l, 0, 0, IBV_WC_SEND);
            sent++;
        } else {
            assert_true(waited++ < LOOP_WAIT_MS * 50); /* it sleeps on */
            nanosleep(&nap, NULL);
        }
    }
    pthread_join(thread, &result);
    assert_ptr_equal(result, &d);
    loop_close(d.l);
}

#define SHARED 3000

struct shared {
    struct loop *l;
    _Atomic unsigned completed[2];
    atomic_bool over;
};

/* Completes what either queue has, as long as events come. */
static void *read_channel(void *arg)
{
    struct shared *s = arg;
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *of;

    while (!atomic_load(&s->over)) {
        assert_int_equal(ibv_get_cq_event(s->l->channel, &cq, &of), 0);
        ibv_ack_cq_events(cq, 1);
        assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
        while (ibv_poll_cq(cq, 1, &wc) == 1) {
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            atomic_fetch_add(&s->completed[cq == s->l->cq[1]], 1);
        }
    }
    return s;
}

static void wait_until_completed(struct shared *s, unsigned sent)
{
    const struct timespec nap = {.tv_nsec = 10000};

    for (unsigned waited = 0;
         atomic_load(&s->completed[0]) < sent || atomic_load(&s->completed[1]) < sent; waited++) {
        assert_true(waited < LOOP_WAIT_MS * 100); /* nobody was told */
        nanosleep(&nap, NULL);
    }
}

/* One of them may run the loop while it waits, the other one sleeps. The queue of Sends stays armed
 * meanwhile, and the other way round. */
static void event__of_two_queues__is_told_with_two_threads_at_the_channel(void **state)
{
    struct shared s = {.l = &(struct loop){.srq = NULL}};
    pthread_t threads[2];
    void *result;

    (void)state;
    loop_open(s.l, &plain);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_req_notify_cq(s.l->cq[i], 0), 0);
    }
    assert_int_equal(pthread_create(&threads[0], NULL, read_channel, &s), 0);
    for (unsigned sent = 1; sent <= SHARED; sent++) {
        if (sent == SHARED / 3) { /* the first one has earned to run the loop, if it ever does */
            assert_int_equal(pthread_create(&threads[1], NULL, read_channel, &s), 0);
        }
        post_one(s.l);
        wait_until_completed(&s, sent);
    }
    atomic_store(&s.over, true);
    post_one(s.l); /* an event of each queue: either thread ends with the first that it takes */
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, &s);
    }
    loop_close(s.l);
}

static void create__with_bad_arguments__is_einval(void **state)
{
    struct ibv_context *context = loop_context();
    struct ibv_device_attr attr;

    (void)state;
    assert_int_equal(ibv_query_device(context, &attr), 0);
    const int bad[][2] = {{0, 0}, {-1, 0}, {4, 1}, {4, -1}, {attr.max_cqe + 1, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        errno = 0;
        assert_null(ibv_create_cq(context, bad[i][0], NULL, NULL, bad[i][1]));
        assert_int_equal(errno, EINVAL);
    }
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    assert_int_equal(ibv_resize_cq(cq, 100), 0);
    assert_int_equal(cq->cqe, 100);
    assert_int_equal(ibv_resize_cq(cq, 0), EINVAL);
    assert_int_equal(cq->cqe, 100);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(event__one_for_each_arming__from_two_queues),
        cmocka_unit_test(event__not_taken__goes_with_its_queue),
        cmocka_unit_test(destroy__waits_for_the_acknowledgement),
        cmocka_unit_test(get_event__interrupted__says_so),
        cmocka_unit_test(get_event__interrupted_while_it_runs_the_loop__says_so),
        cmocka_unit_test(get_event__cancelled__ends_the_thread_and_leaves_no_lock),
        cmocka_unit_test(event__of_receives_that_are_shared__wakes_the_sleeper_each_time),
        cmocka_unit_test(event__of_two_queues__is_told_with_two_threads_at_the_channel),
        cmocka_unit_test(create__with_bad_arguments__is_einval),
    };

    return cmocka_run_group_tests_name("verbs_cq", tests, NULL, NULL);
}
