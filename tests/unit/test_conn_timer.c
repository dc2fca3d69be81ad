/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time limits of many connections on one worker: each fails at its own, whatever limits the others
 * have, and nothing is left running once nobody has one.
 */
#include "loop/clock.h"
#include "loop/loop.h"
#include "raw_peer.h"
#include "verbs/conn.h"
#include "verbs/device.h"
#include "verbs/qp.h"
#include "verbs/worker.h"
#include "verbs_pair.h"

#include <unistd.h>

#define COUNT 12
#define NEVER 600000 /* ms, longer than any wait here */

struct crowd {
    struct pair p; /* for its device and event queue; not connected itself */
    int fd;        /* takes TCP connections, and says nothing on them */
    struct sockaddr_in to;
    struct iwarp_qp *qp[COUNT];
    struct iwarp_conn *conn[COUNT];
    int64_t begun[COUNT];
};

static void crowd_open(struct crowd *c)
{
    struct iwarp_qp_options qp;
    struct pair_options o;

    c->fd = raw_listen(&c->to);
    pair_options_init(&o, PAIR_TCP4);
    o.device.workers = 1;
    pair_prepare(&c->p, &o);
    iwarp_qp_options_init(&qp);
    qp.send_cq = qp.recv_cq = c->p.side[0].send_cq;
    for (unsigned i = 0; i < COUNT; i++) {
        must(iwarp_qp_create(c->p.side[0].pd, &qp, &c->qp[i]));
    }
}

static void crowd_close(struct crowd *c)
{
    for (unsigned i = 0; i < COUNT; i++) {
        must(iwarp_conn_destroy(c->conn[i]));
        must(iwarp_qp_destroy(c->qp[i]));
    }
    close(c->fd);
    pair_close(&c->p);
}

static void crowd_connect(struct crowd *c, unsigned i, unsigned startup_ms)
{
    struct iwarp_conn_options o;

    iwarp_conn_options_init(&o);
    o.connect_timeout_ms = NEVER;
    o.startup_timeout_ms = startup_ms;
    c->begun[i] = iwarp_now_ms();
    must(iwarp_connect(c->qp[i], (struct sockaddr *)&c->to, sizeof c->to, &o, NULL, 0, c->p.eq[0],
                       &c->begun[i], &c->conn[i]));
}

/* The next that fails does so by its time limit: whose is it? */
static unsigned crowd_time_out(struct crowd *c)
{
    struct iwarp_event event = pair_event(c->p.eq[0], IWARP_EVENT_FAILED);
    int64_t *begun = event.user;

    assert_int_equal(iwarp_fault_code(event.fault), IWARP_FAULT_MPA_TIMEOUT);
    return (unsigned)(begun - c->begun);
}

/* --- what the worker has to keep ------------------------------------------------------------- */

struct seen {
    struct iwarp_worker *w;
    unsigned timed;
    bool armed;
};

static void look(void *arg)
{
    struct seen *seen = arg;

    for (const struct iwarp_timed *timed = seen->w->timed; timed; timed = timed->next) {
        assert_ptr_equal(*timed->at, timed);
        assert_true(timed->due >= seen->w->timer_due);
        seen->timed++;
    }
    seen->armed = uv_is_active((uv_handle_t *)&seen->w->timer) != 0;
    assert_int_equal(seen->armed, seen->w->timer_due != UINT64_MAX);
}

static unsigned limits(struct crowd *c)
{
    struct seen seen = {.w = &c->p.device->worker[0]};

    iwarp_loop_call(&seen.w->loop, look, &seen);
    assert_int_equal(seen.armed, seen.timed > 0);
    return seen.timed;
}

/* --- tests ----------------------------------------------------------------------------------- */

static void limits__that_differ__are_each_kept(void **state)
{
    static struct crowd c;
    unsigned ms[COUNT];
    bool failed[COUNT] = {false};

    (void)state;
    crowd_open(&c);
    for (unsigned i = 0; i < COUNT; i++) {
        ms[i] = 40 + (i * 7 % COUNT) * 15; /* neither rising nor falling */
        crowd_connect(&c, i, ms[i]);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned at = crowd_time_out(&c);
        assert_in_range(at, 0, COUNT - 1);
        assert_false(failed[at]);
        failed[at] = true;
        assert_true(iwarp_now_ms() - c.begun[at] >= ms[at] - 3);
    }
    assert_int_equal(limits(&c), 0);
    crowd_close(&c);
}

static void limit__behind_longer_ones__is_kept_and_they_go_on(void **state)
{
    static struct crowd c;

    (void)state;
    crowd_open(&c);
    for (unsigned i = 0; i < COUNT; i++) {
        crowd_connect(&c, i, i % 4 == 1 ? 60 : NEVER);
    }
    for (unsigned i = 0; i < COUNT / 4; i++) {
        assert_int_equal(crowd_time_out(&c) % 4, 1);
    }
    assert_int_equal(limits(&c), COUNT - COUNT / 4);
    crowd_close(&c);
}

static void limits__lifted_in_any_order__leave_nothing_running(void **state)
{
    static struct crowd c;

    (void)state;
    crowd_open(&c);
    assert_int_equal(limits(&c), 0);
    for (unsigned i = 0; i < COUNT; i++) {
        crowd_connect(&c, i, NEVER - i * 1000);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(limits(&c), COUNT - i);
        must(iwarp_abort(c.conn[i * 5 % COUNT]));
    }
    assert_int_equal(limits(&c), 0);
    crowd_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits__that_differ__are_each_kept),
        cmocka_unit_test(limit__behind_longer_ones__is_kept_and_they_go_on),
        cmocka_unit_test(limits__lifted_in_any_order__leave_nothing_running),
    };

    return cmocka_run_group_tests_name("conn_timer", tests, NULL, NULL);
}
