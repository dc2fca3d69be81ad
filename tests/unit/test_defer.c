/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests that wait for the next one go out: with the program's next look, with a full batch, and
 * by the tick where the program never comes back.  Nothing that could be posted before is refused.
 */
#include "verbs_pair.h"

#include "loop/clock.h"
#include "verbs/conn.h"
#include "verbs/qp.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define OCTETS 64
#define RING   256
#define CHAIN  12
#define MANY   100000u /* posts; a streak is broken where the system takes the processor away */

/* Which progress; the tests are run with both. */
static enum iwarp_progress progress_of(void **state)
{
    return *(const enum iwarp_progress *)*state;
}

static struct pair pair_with(enum iwarp_progress progress)
{
    struct pair_options o;
    struct pair p;

    pair_options_init(&o, PAIR_TCP4);
    o.device.progress = progress;
    o.qp.max_send_wr = RING;
    o.cq_entries = 4 * RING;
    pair_open(&p, &o);
    return p;
}

static bool is_deferred(const struct pair *p)
{
    return atomic_load(&p->side[0].conn->deferred) != 0;
}

/* However slow this build is, the next post comes without a pause. */
static void come_at_once(struct pair *p)
{
    iwarp_streak_posted(&p->side[0].qp->streak, iwarp_now_ns() + 1000000000);
}

static enum iwarp_status write_one(struct pair *p, unsigned flags)
{
    struct iwarp_sge sge = pair_sge(&p->side[0], 0, OCTETS);
    struct iwarp_send_wr wr = pair_wr(IWARP_WR_WRITE, 0, &sge);

    wr.flags = flags;
    wr.remote_to = (uintptr_t)p->side[1].p;
    wr.remote_stag = iwarp_mr_stag(p->side[1].mr);
    come_at_once(p);
    return iwarp_post_send(p->side[0].qp, &wr, NULL);
}

/* Post unsignaled Writes until one is deferred. */
static void post_until_deferred(struct pair *p)
{
    for (unsigned i = 0; !is_deferred(p); i++) {
        assert_true(i < MANY);
        enum iwarp_status status = write_one(p, 0);
        assert_true(status == IWARP_OK || status == IWARP_AGAIN);
    }
}

/*
 * Post a chain, or one Write; again while the ring is full, which it may be for the time that
 * another thread has the connection's lock.  Without a poll: nobody else makes room.
 */
static enum iwarp_status patiently(struct pair *p, const struct iwarp_send_wr *chain)
{
    int64_t end = iwarp_now_ms() + PAIR_WAIT_MS;
    enum iwarp_status status;

    do {
        status = chain ? iwarp_post_send_together(p->side[0].qp, chain, NULL) : write_one(p, 0);
    } while (status == IWARP_AGAIN && iwarp_now_ms() < end);
    return status;
}

/* By this thread, at once, or by the one that has the connection's lock: without a tick, mostly. */
static void wait_until_sent(const struct pair *p)
{
    int64_t end = iwarp_now_ms() + PAIR_WAIT_MS;

    while (is_deferred(p)) {
        assert_true(iwarp_now_ms() < end);
    }
}

static void wait_for_octet(const struct pair *p, size_t offset, uint8_t octet)
{
    const volatile uint8_t *at = p->side[1].p + offset;
    int64_t end = iwarp_now_ms() + PAIR_WAIT_MS;

    while (*at != octet) {
        assert_true(iwarp_now_ms() < end);
        usleep(100);
    }
}

static void request__behind_which_the_program_never_comes_back__goes_out(void **state)
{
    struct pair p = pair_with(progress_of(state));
    uint8_t octet = 1;

    for (unsigned i = 0; i < 5; i++, octet++) {
        memset(p.side[0].p, octet, OCTETS);
        post_until_deferred(&p);
        wait_for_octet(&p, 0, octet);
        wait_until_sent(&p);
    }
    assert_true(atomic_load(&p.side[0].conn->late) >= 1); /* else a thread with much time did it */
    pair_close(&p);
}

static void request__once_the_program_polls_in_vain__is_sent(void **state)
{
    struct pair p = pair_with(progress_of(state));

    for (unsigned i = 0; i < 5; i++) {
        post_until_deferred(&p);
        pair_no_wc(p.side[0].send_cq);
        wait_until_sent(&p);
    }
    pair_close(&p);
}

static void request__once_the_program_arms_a_queue__is_sent_and_none_waits_meanwhile(void **state)
{
    struct pair p = pair_with(progress_of(state));

    post_until_deferred(&p);
    must(iwarp_cq_arm(p.side[1].recv_cq, false));
    wait_until_sent(&p);
    for (unsigned i = 0; i < RING; i++) {
        assert_int_equal(patiently(&p, NULL), IWARP_OK);
        assert_false(is_deferred(&p));
    }
    pair_close(&p);
}

static void request__behind_a_streak_that_is_over__is_sent_by_its_post(void **state)
{
    struct pair p = pair_with(progress_of(state));

    for (unsigned i = 0; i < 100; i++) {
        post_until_deferred(&p);
        pair_no_wc(p.side[0].send_cq);
        wait_until_sent(&p);
        assert_int_equal(write_one(&p, IWARP_WR_SIGNALED), IWARP_OK);
        assert_false(is_deferred(&p));
        (void)pair_wc(p.side[0].send_cq, 0, IWARP_WC_SUCCESS);
    }
    pair_close(&p);
}

/*
 * Half of the ring at most is deferred, and a chain as long as the ring makes those go out. All of
 * it arrives: its first requests had room before.
 */
static void post__of_as_many_as_the_ring_holds__is_never_refused(void **state)
{
    struct pair p = pair_with(progress_of(state));
    const size_t place = 1024; /* behind what single Writes use */
    struct iwarp_sge sge[RING];
    struct iwarp_send_wr chain[RING];

    for (unsigned i = 0; i < RING; i++) {
        sge[i] = pair_sge(&p.side[0], place + i, 1);
        chain[i] = pair_wr(IWARP_WR_WRITE, 7, &sge[i]);
        chain[i].flags = i + 1 < RING ? 0 : IWARP_WR_SIGNALED;
        chain[i].remote_to = (uintptr_t)p.side[1].p + place + i;
        chain[i].remote_stag = iwarp_mr_stag(p.side[1].mr);
        chain[i].next = i + 1 < RING ? &chain[i + 1] : NULL;
    }
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < 4 * RING; i++) { /* unsignaled: room is made by sending alone */
            assert_int_equal(patiently(&p, NULL), IWARP_OK);
        }
        memset(p.side[0].p + place, (int)round + 1, RING);
        assert_int_equal(patiently(&p, chain), IWARP_OK);
        (void)pair_wc(p.side[0].send_cq, 7, IWARP_WC_SUCCESS);
        wait_for_octet(&p, place + RING - 1, (uint8_t)(round + 1));
        assert_memory_equal(p.side[0].p + place, p.side[1].p + place, RING);
    }
    pair_close(&p);
}

/* Chains of Writes to the same octets, one after the other: the last one is there in the end. */
static void chains__of_a_streak__are_deferred_and_arrive(void **state)
{
    struct pair p = pair_with(progress_of(state));
    struct iwarp_send_wr wr[CHAIN];
    struct iwarp_sge sge[CHAIN];
    unsigned deferred = 0;

    for (unsigned i = 0; i < 50; i++) {
        for (unsigned k = 0; k < CHAIN; k++) {
            sge[k] = pair_sge(&p.side[0], k, 1);
            p.side[0].p[k] = (uint8_t)(i + k);
            wr[k] = pair_wr(IWARP_WR_WRITE, i, &sge[k]);
            wr[k].flags = k + 1 < CHAIN ? 0 : IWARP_WR_SIGNALED;
            wr[k].remote_to = (uintptr_t)p.side[1].p + k;
            wr[k].remote_stag = iwarp_mr_stag(p.side[1].mr);
            wr[k].next = k + 1 < CHAIN ? &wr[k + 1] : NULL;
        }
        come_at_once(&p);
        must(iwarp_post_send(p.side[0].qp, wr, NULL));
        deferred += is_deferred(&p);
        if (i % 10 == 9) { /* until here the memory is lent: it may go out at any time */
            for (unsigned c = i - 9; c <= i; c++) {
                (void)pair_wc(p.side[0].send_cq, c, IWARP_WC_SUCCESS);
            }
            wait_for_octet(&p, CHAIN - 1, (uint8_t)(i + CHAIN - 1)); /* the last one placed */
            assert_memory_equal(p.side[0].p, p.side[1].p, CHAIN);
        }
    }
    assert_true(deferred > 0);
    pair_close(&p);
}

/* A Read waits for nothing, nor does what was posted with it. */
static void chain__with_a_read__is_never_deferred(void **state)
{
    struct pair p = pair_with(progress_of(state));
    struct iwarp_sge sge = pair_sge(&p.side[0], 0, 8);
    struct iwarp_send_wr read = pair_wr(IWARP_WR_READ, 2, &sge);
    struct iwarp_send_wr writes[2] = {pair_wr(IWARP_WR_WRITE, 0, &sge),
                                      pair_wr(IWARP_WR_WRITE, 1, &sge)};

    read.remote_to = writes[0].remote_to = writes[1].remote_to = (uintptr_t)p.side[1].p;
    read.remote_stag = writes[0].remote_stag = writes[1].remote_stag = iwarp_mr_stag(p.side[1].mr);
    writes[0].next = &writes[1];
    writes[1].next = &read;
    for (unsigned i = 0; i < 20; i++) {
        post_until_deferred(&p);
        come_at_once(&p);
        must(iwarp_post_send(p.side[0].qp, writes, NULL));
        wait_until_sent(&p);
        for (unsigned k = 0; k < 3; k++) {
            (void)pair_wc(p.side[0].send_cq, k, IWARP_WC_SUCCESS);
        }
    }
    pair_close(&p);
}

static void requests__deferred_when_the_connection_closes_in_order__arrive(void **state)
{
    struct pair p = pair_with(progress_of(state));

    memset(p.side[0].p, 0x5a, OCTETS);
    post_until_deferred(&p);
    must(iwarp_disconnect(p.side[0].conn));
    wait_for_octet(&p, 0, 0x5a);
    pair_close(&p);
}

/* Sends one a call: each is received once, in order, and whole. */
static void sends__of_a_streak__arrive_in_order(void **state)
{
    struct pair p = pair_with(progress_of(state));
    struct pair_side *from = &p.side[0], *to = &p.side[1];
    unsigned most = p.options.qp.max_recv_wr, sent = 0;

    for (unsigned round = 0; round < 200; round++) {
        for (unsigned i = 0; i < most; i++) {
            pair_recv(to, i, (size_t)i * 8, 8);
        }
        for (unsigned i = 0; i < most; i++, sent++) {
            memcpy(from->p + (size_t)i * 8, &sent, sizeof sent);
            come_at_once(&p);
            pair_send(from, i, (size_t)i * 8, 8);
        }
        for (unsigned i = 0; i < most; i++) {
            unsigned got;
            (void)pair_wc(from->send_cq, i, IWARP_WC_SUCCESS);
            (void)pair_wc(to->recv_cq, i, IWARP_WC_SUCCESS);
            memcpy(&got, to->p + (size_t)i * 8, sizeof got);
            assert_int_equal(got, sent - most + i);
        }
    }
    pair_close(&p);
}

static void connections__with_deferred_requests__are_destroyed_at_any_time(void **state)
{
    for (unsigned i = 0; i < 50; i++) {
        struct pair p = pair_with(progress_of(state));
        post_until_deferred(&p);
        usleep(i * 10);
        pair_close(&p);
    }
}

int main(void)
{
    static enum iwarp_progress kinds[] = {IWARP_PROGRESS_THREADED, IWARP_PROGRESS_POLLED};
    int failed = 0;

    for (unsigned i = 0; i < 2; i++) {
#define WITH(test) {#test, test, NULL, NULL, &kinds[i]}
        const struct CMUnitTest tests[] = {
            WITH(request__behind_which_the_program_never_comes_back__goes_out),
            WITH(request__once_the_program_polls_in_vain__is_sent),
            WITH(request__once_the_program_arms_a_queue__is_sent_and_none_waits_meanwhile),
            WITH(request__behind_a_streak_that_is_over__is_sent_by_its_post),
            WITH(post__of_as_many_as_the_ring_holds__is_never_refused),
            WITH(chains__of_a_streak__are_deferred_and_arrive),
            WITH(chain__with_a_read__is_never_deferred),
            WITH(requests__deferred_when_the_connection_closes_in_order__arrive),
            WITH(sends__of_a_streak__arrive_in_order),
            WITH(connections__with_deferred_requests__are_destroyed_at_any_time),
        };
        failed += _cmocka_run_group_tests(i == 0 ? "threaded" : "polled", tests,
                                          sizeof tests / sizeof *tests, NULL, NULL);
    }
    return failed;
}
