/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads that use the same two queue pairs at the same time, each call at random and many
 * with arguments that make no sense: connecting, ending, changing states, posting, polling,
 * resizing, asking, memory that comes and goes. Nothing is expected of a call but that it returns;
 * afterwards the queue pairs work as if nothing had been. For the sanitizers.
 */
#include "octets.h"
#include "progress.h"
#include "seconds.h"
#include "verbs_pair.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define ESTABLISHED 100 /* connections, one after the other; or as many as there are in 8 s */

/* What lies where in the memory of a side: nobody writes to SOURCE, nobody reads SINK. */
enum { SOURCE = 0, SINK = 8192, WORDS = 16384, OCTETS = 24576 };

struct storm {
    struct pair p;
    struct iwarp_mr *fast[2]; /* for REG_MR */
    _Atomic bool stop;
    _Atomic uint32_t stag; /* some STag, valid or not any more */
};

struct part {
    pthread_t thread;
    struct storm *storm;
    void (*once)(struct storm *s, struct chance *c);
    struct chance chance;
    _Atomic unsigned calls;
};

static unsigned below(struct chance *c, unsigned n)
{
    return (unsigned)chance_below(c, n);
}

static struct pair_side *any_side(struct storm *s, struct chance *c)
{
    return &s->p.side[below(c, 2)];
}

/* Mostly right, or else any number. */
static uint32_t any_number(struct chance *c, uint32_t right)
{
    return below(c, 8) ? right : (uint32_t)chance_next(c);
}

static void take(struct storm *s, struct chance *c)
{
    struct pair_side *side = any_side(s, c);
    struct iwarp_cq *cq = below(c, 2) ? side->send_cq : side->recv_cq;
    struct iwarp_async_event event;
    struct iwarp_wc wc[8];

    for (int i = 0; i < 2; i++) { /* all of them, so that no queue overflows */
        while (iwarp_cq_poll(s->p.side[i].send_cq, wc, 8) > 0 ||
               iwarp_cq_poll(s->p.side[i].recv_cq, wc, 8) > 0) {
        }
    }
    (void)iwarp_cq_arm(cq, below(c, 2));
    if (below(c, 8) == 0) {
        (void)iwarp_cq_resize(cq, below(c, 8) ? 4096 + below(c, 4096) : 0);
    }
    (void)iwarp_cq_poll(cq, below(c, 8) ? wc : NULL, (int)below(c, 9) - 1);
    if (iwarp_async_get(s->p.device, &event, 0) == IWARP_OK) {
        iwarp_async_ack(&event);
    }
}

static struct iwarp_sge any_sge(const struct pair_side *side, struct chance *c, size_t from)
{
    struct iwarp_sge sge = pair_sge(side, from + below(c, 2000), below(c, 2000));

    sge.lkey = any_number(c, sge.lkey);
    return sge;
}

/* The peer's octets that an opcode may name: those that are read, written, or changed in one. */
static uint64_t any_to(const struct pair_side *other, enum iwarp_wr_opcode opcode, struct chance *c)
{
    size_t from = opcode == IWARP_WR_READ || opcode == IWARP_WR_READ_INV ? SOURCE
                  : opcode >= IWARP_WR_ATOMIC_FETCH_ADD                  ? WORDS
                                                                         : SINK;

    return (uintptr_t)other->p + from + (from == WORDS ? below(c, 500) * 8 : below(c, 4000));
}

static void post_sends(struct storm *s, struct chance *c)
{
    unsigned i = below(c, 2);
    struct pair_side *side = &s->p.side[i], *other = &s->p.side[1 - i];
    const struct iwarp_bind bind = {.mr = below(c, 4) ? s->fast[i] : NULL,
                                    .addr = side->p + SINK,
                                    .len = below(c, 5000),
                                    .access = any_number(c, PAIR_ALL)};
    struct iwarp_send_wr wr[2];
    struct iwarp_sge sge[2][4];
    const struct iwarp_send_wr *bad;

    for (int k = 0; k < 2; k++) {
        enum iwarp_wr_opcode op =
            (enum iwarp_wr_opcode)(below(c, 16) ? below(c, 8) : 16 + below(c, 6));
        bool fetches = op == IWARP_WR_READ || op >= IWARP_WR_ATOMIC_FETCH_ADD;
        for (int n = 0; n < 4; n++) {
            sge[k][n] = any_sge(side, c, fetches ? SINK : SOURCE);
        }
        sge[k][0].len =
            op == IWARP_WR_ATOMIC_FETCH_ADD || op == IWARP_WR_ATOMIC_CMP_SWAP ? 8 : sge[k][0].len;
        sge[k][0].lkey = op == IWARP_WR_READ_INV ? iwarp_mr_stag(s->fast[i]) : sge[k][0].lkey;
        wr[k] = (struct iwarp_send_wr){.next = k == 0 && below(c, 2) ? &wr[1] : NULL,
                                       .opcode = op,
                                       .flags = any_number(c, below(c, 16)),
                                       .sg_list = below(c, 16) ? sge[k] : NULL,
                                       .num_sge = below(c, 16) ? below(c, 2) : below(c, 6),
                                       .invalidate_stag = atomic_load(&s->stag),
                                       .remote_stag = any_number(c, iwarp_mr_stag(other->mr)),
                                       .remote_to = any_to(other, op, c),
                                       .operand = 1,
                                       .bind = below(c, 4) ? &bind : NULL};
    }
    (void)(below(c, 2) ? iwarp_post_send : iwarp_post_send_together)(side->qp, wr, &bad);
    take(s, c);
}

static void post_receives(struct storm *s, struct chance *c)
{
    struct pair_side *side = any_side(s, c);
    const struct iwarp_sge sge[5] = {any_sge(side, c, SINK), any_sge(side, c, SINK),
                                     any_sge(side, c, SINK), any_sge(side, c, SINK),
                                     any_sge(side, c, SINK)};
    const struct iwarp_recv_wr wr = {.sg_list = below(c, 16) ? sge : NULL, .num_sge = below(c, 6)};

    (void)iwarp_post_recv(side->qp, &wr, NULL);
    take(s, c);
}

static void change(struct storm *s, struct chance *c)
{
    struct iwarp_qp *qp = any_side(s, c)->qp;
    const struct iwarp_qp_changes changes = {.size = any_number(c, sizeof changes),
                                             .mask =
                                                 any_number(c, below(c, 2) ? 1 : 1 + below(c, 15)),
                                             .state = (enum iwarp_qp_state)below(c, 6),
                                             .ird = any_number(c, 8),
                                             .ord = any_number(c, 8),
                                             .access = any_number(c, IWARP_ACCESS_REMOTE_WRITE)};

    (void)iwarp_qp_modify(qp, below(c, 32) ? &changes : NULL);
    usleep(below(c, 4) ? 200 : 5000);
}

static void ask(struct storm *s, struct chance *c)
{
    struct iwarp_qp *qp = any_side(s, c)->qp;
    struct iwarp_qp_info info = {.size = any_number(c, sizeof info)};
    struct iwarp_device_stats device = {.size = any_number(c, sizeof device)};
    struct iwarp_qp_stats stats = {.size = any_number(c, sizeof stats)};
    struct iwarp_stag_info stag = {.size = any_number(c, sizeof stag)};

    (void)iwarp_qp_query(qp, &info);
    (void)iwarp_qp_stats(qp, &stats);
    (void)iwarp_qp_state(qp);
    (void)iwarp_device_stats(s->p.device, &device);
    (void)iwarp_mr_query(any_side(s, c)->mr, &stag);
    sched_yield();
}

static void remember(struct storm *s, struct chance *c)
{
    static uint8_t memory[64 * 1024];
    struct pair_side *side = any_side(s, c);
    struct iwarp_mr *mr = NULL;
    struct iwarp_mw *mw = NULL;
    unsigned access = any_number(c, PAIR_ALL);
    size_t len = below(c, sizeof memory);

    if (iwarp_mr_register(side->pd, memory, len, access, &mr) == IWARP_OK) {
        atomic_store(&s->stag, iwarp_mr_stag(mr));
        (void)iwarp_mr_reregister(mr, side->pd, NULL);
    }
    if (iwarp_mw_alloc(side->pd, (enum iwarp_mw_type)(1 + below(c, 3)), &mw) == IWARP_OK) {
        const struct iwarp_bind bind = {.mr = mr, .addr = memory, .len = len, .access = access};
        (void)iwarp_mw_bind(side->qp, mw, &bind, 7, any_number(c, 0));
        (void)iwarp_mw_free(mw);
    }
    if (mr && iwarp_mr_deregister(mr) != IWARP_OK) {
        print_message("a region stays: %s\n", iwarp_last_error());
    }
}

static void *run(void *arg)
{
    struct part *me = arg;

    while (!atomic_load(&me->storm->stop)) {
        me->once(me->storm, &me->chance);
        atomic_fetch_add(&me->calls, 1);
    }
    return NULL;
}

/* --- connections: one thread has their handles ------------------------------------------------ */

static void answer(struct storm *s, struct chance *c, struct iwarp_conn **conn)
{
    struct iwarp_event event;

    if (iwarp_eq_get(s->p.eq[1], &event, 50) != IWARP_OK || event.type != IWARP_EVENT_REQUEST) {
        return;
    }
    *conn = event.conn;
    if (below(c, 8)) {
        (void)iwarp_accept(event.conn, s->p.side[1].qp, NULL, NULL, below(c, 64) ? 0 : 1000, NULL);
    } else {
        (void)iwarp_reject(event.conn, "no", 2);
    }
}

/* What the events of side i name and nobody has taken. */
static void drop_events(struct storm *s, unsigned i)
{
    struct iwarp_event event;

    while (iwarp_eq_get(s->p.eq[i], &event, 0) == IWARP_OK) {
        if (event.type == IWARP_EVENT_REQUEST) {
            must(iwarp_conn_destroy(event.conn));
        }
    }
}

static unsigned connect_once(struct storm *s, struct chance *c)
{
    unsigned established = 0;
    struct iwarp_conn *conn[2] = {NULL, NULL};
    struct iwarp_conn_info info = {.size = sizeof info};
    const struct iwarp_qp_changes idle = {.size = sizeof idle, .mask = IWARP_QP_CHANGE_STATE};
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;

    for (unsigned i = 0; i < 2; i++) {
        (void)iwarp_qp_modify(s->p.side[i].qp, &idle);
    }

    if (below(c, 2)) {
        (void)iwarp_connect_pair(s->p.side[0].qp, s->p.side[1].qp, NULL, NULL, &conn[0], &conn[1]);
    } else {
        must(iwarp_listener_addr(s->p.listener, &addr, &len));
        if (iwarp_connect(s->p.side[0].qp, (const struct sockaddr *)&addr, len, NULL, "hi", 2,
                          s->p.eq[0], NULL, &conn[0]) == IWARP_OK) {
            answer(s, c, &conn[1]);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        if (conn[i]) {
            established += iwarp_conn_wait(conn[i], (int)below(c, 10)) == IWARP_OK;
            (void)iwarp_conn_info(conn[i], &info);
            (void)iwarp_conn_fault(conn[i]);
            (void)(below(c, 2) ? iwarp_disconnect : iwarp_abort)(conn[i]);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        if (conn[i]) {
            must(iwarp_conn_destroy(conn[i]));
        }
        drop_events(s, i);
    }
    return established == 2;
}

/* As it was in the beginning. */
static void calm(struct storm *s, struct pair_side *side)
{
    struct iwarp_qp_changes to = {
        .size = sizeof to, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_ERROR};
    struct iwarp_async_event event;
    struct iwarp_mr_options mr;
    struct iwarp_wc wc[8];

    (void)iwarp_qp_modify(side->qp, &to);
    to.state = IWARP_QP_IDLE;
    for (time_t end = seconds_now() + 60; iwarp_qp_modify(side->qp, &to) != IWARP_OK;) {
        assert_true(seconds_now() < end);
        progress_sleep(1000);
    }
    to = (struct iwarp_qp_changes){.size = sizeof to,
                                   .mask = IWARP_QP_CHANGE_IRD | IWARP_QP_CHANGE_ORD |
                                           IWARP_QP_CHANGE_ACCESS,
                                   .ird = 8,
                                   .ord = 8,
                                   .access = IWARP_ACCESS_REMOTE_WRITE};
    must(iwarp_qp_modify(side->qp, &to));
    while (iwarp_cq_poll(side->send_cq, wc, 8) > 0 || iwarp_cq_poll(side->recv_cq, wc, 8) > 0) {
    }
    while (iwarp_async_get(s->p.device, &event, 0) == IWARP_OK) {
        iwarp_async_ack(&event);
    }
    iwarp_mr_options_init(&mr, side->p, OCTETS, PAIR_ALL);
    must(iwarp_mr_reregister(side->mr, NULL, &mr));
}

static void expect_traffic(struct pair *p)
{
    pair_connect(p);
    pair_fill(p->side[0].p + SOURCE, 4000, 1);
    pair_recv(&p->side[1], 1, SINK, 10);
    pair_write(&p->side[0], 2, SOURCE, 4000, &p->side[1], SINK + 10);
    pair_send(&p->side[0], 3, SOURCE, 10);
    pair_wc(p->side[1].recv_cq, 1, IWARP_WC_SUCCESS);
    pair_wc(p->side[0].send_cq, 2, IWARP_WC_SUCCESS);
    pair_wc(p->side[0].send_cq, 3, IWARP_WC_SUCCESS);
    assert_memory_equal(p->side[1].p + SINK, p->side[0].p + SOURCE, 10);
}

static void calls__at_random_by_many_threads__leave_all_in_order(void **state)
{
    static void (*const parts[])(struct storm *, struct chance *) = {
        post_sends, post_sends, post_receives, change, change, ask, remember};
    enum { PARTS = sizeof parts / sizeof *parts };
    struct chance chance = {chance_seed()};
    static struct part part[PARTS];
    static struct storm s;
    struct pair_options o;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.cq_entries = 4096;
    o.memory = OCTETS;
    pair_prepare(&s.p, &o);
    for (int i = 0; i < 2; i++) {
        must(iwarp_mr_alloc(s.p.side[i].pd, &s.fast[i]));
    }
    for (int i = 0; i < PARTS; i++) {
        part[i].storm = &s;
        part[i].once = parts[i];
        part[i].chance.state = chance_next(&chance);
        assert_int_equal(pthread_create(&part[i].thread, NULL, run, &part[i]), 0);
    }
    time_t end = seconds_now() + 8;
    unsigned established = 0, tried = 0;
    for (; established < ESTABLISHED && seconds_now() < end; tried++) {
        established += connect_once(&s, &chance);
    }
    atomic_store(&s.stop, true);
    for (int i = 0; i < PARTS; i++) {
        pthread_join(part[i].thread, NULL);
    }
    for (int i = 0; i < 2; i++) {
        calm(&s, &s.p.side[i]);
        must(iwarp_mr_deregister(s.fast[i]));
    }
    print_message("%u of %u connections were established\n", established, tried);
    expect_traffic(&s.p);
    pair_close(&s.p);
}

/* The other thread's part: a connection begins between ERROR and IDLE, or meanwhile. */
static void to_error_and_back(struct storm *s, struct chance *c)
{
    struct iwarp_qp_changes to = {
        .size = sizeof to, .mask = IWARP_QP_CHANGE_STATE, .state = IWARP_QP_ERROR};

    (void)c;
    (void)iwarp_qp_modify(s->p.side[0].qp, &to);
    to.state = IWARP_QP_IDLE;
    (void)iwarp_qp_modify(s->p.side[0].qp, &to);
}

/* It may be over before the call that begins it returns: the worker reads what that call writes. */
static void connect__while_another_thread_ends_it__ends_in_order(void **state)
{
    struct pair_options o;
    static struct part other;
    static struct storm s;
    struct sockaddr_storage addr;
    socklen_t len = sizeof addr;
    unsigned begun = 0;

    (void)state;
    pair_options_init(&o, PAIR_TCP4);
    o.memory = OCTETS;
    pair_prepare(&s.p, &o);
    must(iwarp_listener_addr(s.p.listener, &addr, &len));
    other.storm = &s;
    other.once = to_error_and_back;
    assert_int_equal(pthread_create(&other.thread, NULL, run, &other), 0);
    for (time_t end = seconds_now() + 2; seconds_now() < end;) {
        struct iwarp_conn *conn;

        if (iwarp_connect(s.p.side[0].qp, (const struct sockaddr *)&addr, len, NULL, "hi", 2,
                          s.p.eq[0], NULL, &conn) != IWARP_OK) {
            continue; /* ERROR at this moment */
        }
        begun++;
        (void)iwarp_conn_wait(conn, 1);
        must(iwarp_conn_destroy(conn));
        drop_events(&s, 0);
        drop_events(&s, 1);
    }
    atomic_store(&s.stop, true);
    pthread_join(other.thread, NULL);
    assert_in_range(begun, 1, UINT32_MAX);
    print_message("%u connections were begun\n", begun);
    calm(&s, &s.p.side[0]);
    expect_traffic(&s.p);
    pair_close(&s.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls__at_random_by_many_threads__leave_all_in_order),
        cmocka_unit_test(connect__while_another_thread_ends_it__ends_in_order),
    };

    if (progress_is_embedded()) {
        puts("embedded progress is for one thread");
        return 77;
    }
    return cmocka_run_group_tests_name("api_storm", tests, NULL, NULL);
}
